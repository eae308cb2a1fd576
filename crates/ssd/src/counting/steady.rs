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

/// Halves of the steady part whose means differ by more than this, relatively, are not steady.
const DRIFT: f64 = 0.02;

/// Finds the steady part of a series of equally long windows by MSER-5 (White, Simulation 69(6), 1997): the truncation point that
/// minimises the standard error of the mean of what remains, over batches of five windows. It is sought in the first half only, since
/// near the end a few equal values look better than they are.
///
/// `reached` is false if the means of the two halves of the rest differ by more than 2 %, or if there are fewer than four batches: then
/// the figure is that of the last half of the run, and not a steady state.
#[must_use]
pub fn steady_state(values: &[f64]) -> SteadyState {
    let batches: Vec<f64> = values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < 4 {
        return SteadyState { from_window: values.len() / 2, reached: false };
    }
    let last_start = batches.len() / 2;
    let start = least_standard_error(&batches, last_start);
    let rest = &batches[start..];
    let (early, late) = rest.split_at(rest.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let drift = (mean(late) - mean(early)).abs() / mean(rest).abs().max(f64::MIN_POSITIVE);
    let reached = drift <= DRIFT;
    SteadyState { from_window: if reached { start * BATCH } else { values.len() / 2 }, reached }
}

/// The start of 0 ... `last_start` with the least (sum of squared deviations) / n^2 of the batches from it on.
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
        let values: Vec<f64> = (0..400).map(|i| 2.0 + 3.0 * (-f64::from(i) / 20.0).exp() + 0.01 * f64::from(i % 7)).collect();
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
