//! Means of conditions that were measured in rounds, and fits of equal means to classes of them.

use super::estimate::Estimate;

/// One condition: how often it was measured, and what came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Measurements.
    pub count: f64,
    /// Their mean, in their unit.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Cell {
    /// Adds a measurement.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }
}

/// Conditions that are measured in rounds, each round holding all conditions equally often: a drift
/// of the device between rounds then moves all of them alike and is taken out.
#[derive(Clone, Debug)]
pub struct Cells {
    cells: Vec<Cell>,
    /// Mean of the first round: later ones are moved to it.
    reference: Option<f64>,
    /// Rounds, and the sum of what they were moved by.
    rounds: f64,
    moved: f64,
    /// Values above so many times the median of their round count as so many: rare pauses of a
    /// device shall not decide.
    clip: f64,
}

/// Measurements that the variance over all conditions counts for, in estimating that of one.
const PRIOR: f64 = 10.0;

impl Cells {
    /// So many conditions without measurements. Values above `clip` times their round's median are
    /// clipped to that.
    #[must_use]
    pub fn new(conditions: usize, clip: f64) -> Self {
        Self {
            cells: vec![Cell::default(); conditions],
            reference: None,
            rounds: 0.0,
            moved: 0.0,
            clip,
        }
    }

    /// Adds a round: conditions and values.
    pub fn add_round(&mut self, values: &[(usize, f64)]) {
        if values.is_empty() {
            return;
        }
        let mut sorted: Vec<f64> = values.iter().map(|&(_, value)| value).collect();
        sorted.sort_by(f64::total_cmp);
        let most = self.clip * sorted[sorted.len() / 2];
        let mean = sorted.iter().map(|value| value.min(most)).sum::<f64>() / sorted.len() as f64;
        let shift = *self.reference.get_or_insert(mean) - mean;
        self.rounds += 1.0;
        self.moved += shift;
        for &(condition, value) in values {
            self.cells[condition].add(value.min(most) + shift);
        }
    }

    /// Gives the mean of the first round less that of all rounds: one round alone says little of
    /// how high all means are.
    fn level(&self) -> f64 {
        self.moved / self.rounds.max(1.0)
    }

    /// All conditions, as high as the first round was.
    #[must_use]
    pub fn all(&self) -> &[Cell] {
        &self.cells
    }

    /// Measurements in all.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    /// The square of the standard error of each condition's mean: infinite for one that was not
    /// measured.
    #[must_use]
    pub fn square_errors(&self) -> Vec<f64> {
        let freedom: f64 = self.cells.iter().map(|cell| (cell.count - 1.0).max(0.0)).sum();
        let pooled = self.cells.iter().map(|cell| cell.squares).sum::<f64>() / freedom.max(1.0);
        // Without any spread (a simulated drive without noise) nothing is to be divided by zero.
        let least = (1e-6 * self.cells.iter().map(|cell| cell.mean.abs()).fold(0.0, f64::max))
            .powi(2)
            .max(f64::MIN_POSITIVE);
        let of = |cell: &Cell| {
            ((cell.squares + PRIOR * pooled) / ((cell.count - 1.0).max(0.0) + PRIOR)).max(least)
        };
        self.cells
            .iter()
            .map(|cell| if cell.count > 0.0 { of(cell) / cell.count } else { f64::INFINITY })
            .collect()
    }

    /// The mean of each condition. The errors are those of differences between conditions of these
    /// cells: how high all of them are, drifts change. They are taken as known, as those of all
    /// conditions count in each.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimate> {
        let level = self.level();
        let of = |(cell, square): (&Cell, f64)| Estimate {
            mean: cell.mean - level,
            error: square.sqrt(),
            freedom: f64::INFINITY,
        };
        self.cells.iter().zip(self.square_errors()).map(of).collect()
    }
}

/// Conditions divided into classes of equal means.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassFit {
    /// Weighted squared distances of the conditions from their classes' means.
    pub chi_square: f64,
    /// Conditions with measurements, less classes.
    pub freedom: f64,
    /// Each class; one without conditions has an infinite error.
    pub classes: Vec<Estimate>,
}

/// Fits a mean to each class.
#[must_use]
pub fn fit(estimates: &[Estimate], classes: usize, class_of: impl Fn(usize) -> usize) -> ClassFit {
    // Sums of weights, of weighted values, and of weighted squares.
    let mut sums = vec![[0.0_f64; 3]; classes];
    let mut measured = 0.0;
    for (index, estimate) in estimates.iter().enumerate() {
        if estimate.error.is_finite() {
            let sum = &mut sums[class_of(index)];
            sum[0] += estimate.weight();
            sum[1] += estimate.weight() * estimate.mean;
            measured += 1.0;
        }
    }
    let mean_of = |sum: &[f64; 3]| if sum[0] > 0.0 { sum[1] / sum[0] } else { 0.0 };
    let means: Vec<f64> = sums.iter().map(mean_of).collect();
    // A second pass: differences of large sums would lose the digits that count.
    for (index, estimate) in estimates.iter().enumerate() {
        if estimate.error.is_finite() {
            let class = class_of(index);
            sums[class][2] += (estimate.mean - means[class]).powi(2) * estimate.weight();
        }
    }
    let of_class = |(sum, mean): (&[f64; 3], f64)| Estimate {
        mean,
        error: sum[0].sqrt().recip(),
        freedom: f64::INFINITY,
    };
    let used = sums.iter().filter(|sum| sum[0] > 0.0).count();
    ClassFit {
        chi_square: sums.iter().map(|sum| sum[2]).sum(),
        freedom: measured - used as f64,
        classes: sums.iter().zip(means).map(of_class).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_between_rounds_is_taken_out() {
        let mut cells = Cells::new(2, 100.0);
        for round in 0..10 {
            let drift = f64::from(round) * 50.0;
            cells.add_round(&[
                (0, 100.0 + drift),
                (1, 110.0 + drift),
                (0, 101.0 + drift),
                (1, 109.0 + drift),
            ]);
        }
        let difference = cells.all()[1].mean - cells.all()[0].mean;
        assert!((difference - 9.0).abs() < 1e-9, "{difference}");
        assert!(cells.square_errors()[0] < 0.1);
    }

    #[test]
    fn the_first_round_alone_does_not_say_how_high_all_are() {
        let mut cells = Cells::new(2, 100.0);
        for value in [50.0, 100.0, 102.0, 148.0] {
            cells.add_round(&[(0, value), (1, value + 8.0)]);
        }
        let [one, other] = cells.estimates()[..] else { panic!("two conditions") };
        assert!((one.mean - 100.0).abs() < 1e-9 && (other.mean - 108.0).abs() < 1e-9);
    }

    #[test]
    fn rare_pauses_are_clipped() {
        let mut cells = Cells::new(2, 3.0);
        cells.add_round(&[(0, 100.0), (1, 110.0), (0, 1e9), (1, 110.0)]);
        assert!(cells.all()[0].mean <= 330.0);
    }

    #[test]
    fn a_class_is_the_weighted_mean_of_its_conditions() {
        let estimates = [(10.0, 1.0), (13.0, 0.5), (20.0, 1.0), (0.0, f64::INFINITY)].map(
            |(mean, square): (f64, f64)| Estimate {
                mean,
                error: square.sqrt(),
                freedom: f64::INFINITY,
            },
        );
        let fit = fit(&estimates, 2, |index| usize::from(index == 2));
        assert!(
            (fit.classes[0].mean - 12.0).abs() < 1e-12
                && (fit.classes[1].mean - 20.0).abs() < 1e-12
        );
        assert!((fit.chi_square - (4.0 + 2.0)).abs() < 1e-12);
        assert!((fit.freedom - 1.0).abs() < 1e-12);
    }
}
