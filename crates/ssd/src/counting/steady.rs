//! Where a run becomes steady.

/// The part of a run that is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyState {
    /// The first window of it.
    pub from_window: usize,
    /// Whether it can be trusted; see [`steady_state`].
    pub reached: bool,
}

/// Windows averaged into one observation, as MSER-5 does against the correlation of neighbours.
const BATCH: usize = 5;

/// Halves of the steady part whose mean cleaning costs differ by more than this, relatively, and by
/// more than noise, are not steady.
const DRIFT: f64 = 0.02;

/// Finds the steady part of a series of cleaning costs, of equally long windows, by MSER-5 (White,
/// Cobb & Spratt, Winter Simulation Conference 2000): the truncation point that minimises the
/// standard error of the mean of what remains, over batches of five windows. It is sought in the
/// first half only, since near the end a few equal values look better than they are.
///
/// `reached` is false if there are fewer than four batches, or if the means of the two halves of
/// the rest differ by more than 2 % and by more than twice the standard error of that difference:
/// then the figure is that of the last half of the run, and not a steady state.
#[must_use]
pub fn steady_state(cleaning_costs: &[f64]) -> SteadyState {
    let batches: Vec<f64> = cleaning_costs
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let last_half = SteadyState { from_window: cleaning_costs.len() / 2, reached: false };
    if batches.len() < 4 {
        return last_half;
    }
    let start = least_standard_error(&batches, batches.len() / 2);
    let rest = &batches[start..];
    let (early, late) = rest.split_at(rest.len() / 2);
    let drift = (mean(late) - mean(early)).abs();
    let noise = 2.0 * (squared_standard_error(early) + squared_standard_error(late)).sqrt();
    if drift <= (DRIFT * mean(rest)).max(noise) {
        SteadyState { from_window: start * BATCH, reached: true }
    } else {
        last_half
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn squared_standard_error(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
        / (count * (count - 1.0).max(1.0))
}

/// The start of 0 ... `last_start` with the least (sum of squared deviations) / n^2 of the batches
/// from it on.
fn least_standard_error(batches: &[f64], last_start: usize) -> usize {
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for (start, &value) in batches.iter().enumerate().rev() {
        sum += value;
        squares += value * value;
        let count = (batches.len() - start) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if start <= last_start && error <= best.0 {
            best = (error, start);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_cut_off() {
        let values: Vec<f64> = (0..400)
            .map(|i| 1.0 + 3.0 * (-f64::from(i) / 20.0).exp() + 0.01 * f64::from(i % 7))
            .collect();
        let steady = steady_state(&values);
        assert!(steady.reached && (60..=200).contains(&steady.from_window), "{steady:?}");
    }

    #[test]
    fn a_run_that_still_drifts_is_not_called_steady() {
        let values: Vec<f64> = (0..400).map(|i| 2.0 + f64::from(i) / 100.0).collect();
        assert!(!steady_state(&values).reached);
        assert!(!steady_state(&[1.0; 12]).reached);
    }

    #[test]
    fn a_constant_run_is_steady_from_the_start() {
        assert_eq!(steady_state(&[1.5; 100]), SteadyState { from_window: 0, reached: true });
    }
}
