//! Steady part of a run, precision of its figure, and the decision whether it may be called steady.
//!
//! A figure of a run is a ratio: pages programmed to pages that the host wrote, requests to time.
//! Its windows are neither independent of each other nor of equal weight. So its 95 % interval is
//! that of the ratio estimator over batch means (Law, Simulation Modeling and Analysis, 5th
//! edition, 9.5.3): batches grow until neighbours no longer depend on each other, as in LABATCH.2
//! (Fishman & Yarberry, INFORMS Journal on Computing 9(3), 1997), and what dependence is left in
//! the last ones widens the interval, as in Skart (Tafazzoli et al., INFORMS Journal on Computing
//! 23(2), 2011). What it is not: a sequential procedure that lengthens the run by itself.

use std::fmt;

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// A stretch of a run: a count, and the amount that it relates to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Pages programmed, requests completed.
    pub counted: f64,
    /// Pages that the host wrote, seconds.
    pub over: f64,
}

/// Reasons for which a run is not called steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unsteady {
    /// Too few windows.
    TooShort,
    /// Stretches as long as a tenth of the run still depend on each other.
    Dependent,
    /// The two halves differ by this share of the figure, which is more than chance.
    Drifts(f64),
    /// The 95 % interval reaches this share of the figure to either side.
    Wide(f64),
    /// Mean number of erases of an erase block, which is too low: cleaning still meets the initial
    /// state.
    NotCleaned(f64),
}

impl Unsteady {
    /// Factor by which the run should be longer, as far as known: an estimate on the long side, as
    /// another run that is too short costs more.
    #[must_use]
    pub fn times_as_long(self) -> f64 {
        match self {
            Self::TooShort | Self::Dependent => 4.0,
            // The effect of a start on the mean of a run decreases with the inverse of its length.
            Self::Drifts(share) => (2.0 * share / DRIFT).clamp(3.0, 10.0),
            Self::Wide(share) => (1.5 * (share / WIDEST).powi(2)).clamp(2.0, 20.0),
            Self::NotCleaned(erases) => (2.0 / erases.max(0.05)).max(2.0),
        }
    }
}

impl fmt::Display for Unsteady {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => write!(out, "the run is too short to judge"),
            Self::Dependent => {
                write!(out, "its ups and downs are as long as a tenth of the run")
            }
            Self::Drifts(share) => {
                write!(out, "its two halves differ by {:.1} %", share * 100.0)
            }
            Self::Wide(share) => {
                write!(out, "its 95 % interval is as wide as +-{:.1} %", share * 100.0)
            }
            Self::NotCleaned(erases) => {
                write!(out, "each erase block was erased {erases:.2} times, which has to be once")
            }
        }
    }
}

/// A figure of a run, and its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// The first stretch that counts.
    pub from: usize,
    /// The figure from there on: the sum of the counts to the sum of their amounts.
    pub figure: f64,
    /// Half the width of its 95 % interval; infinite if it is unknown.
    pub half_width: f64,
    /// The reason if it must not be called steady; `None` if it may.
    pub unsteady: Option<Unsteady>,
}

/// Stretches averaged into one observation when the warm-up is sought, as in MSER-5.
const OBSERVED: usize = 5;

/// Least number of stretches: fewer do not show how they vary.
const LEAST_STRETCHES: usize = 20;

/// Batches grow until neighbours do not depend on each other, but at least this many are left.
const LEAST_BATCHES: usize = 10;

/// Greatest relative half width of the 95 % interval of a figure that is called steady.
pub const WIDEST: f64 = 0.025;

/// Halves with a smaller relative difference do not drift, however certain it is that they differ.
pub const DRIFT: f64 = 0.01;

/// The steady part of a run and its figure. Its beginning is sought by MSER-5 (White, Cobb &
/// Spratt, Winter Simulation Conference 2000): the truncation point that minimises the standard
/// error of the mean of the remainder, over batches of five. It is sought in the first half only,
/// since near the end a few equal values look better than they are. A run that is not steady gets
/// the figure of its last half.
#[must_use]
pub fn steady_part(stretches: &[Stretch]) -> Steadiness {
    let half = stretches.len() / 2;
    let observed: Vec<f64> = stretches.chunks_exact(OBSERVED).map(ratio).collect();
    if observed.len() < 4 {
        return Steadiness { from: half, ..judge(&stretches[half..]) };
    }
    let from = least_standard_error(&observed, observed.len() / 2) * OBSERVED;
    let steady = judge(&stretches[from..]);
    if steady.unsteady.is_none() || from >= half {
        return Steadiness { from, ..steady };
    }
    Steadiness { from: half, unsteady: steady.unsteady, ..judge(&stretches[half..]) }
}

/// The figure of all stretches, none left out.
#[must_use]
pub fn judge(stretches: &[Stretch]) -> Steadiness {
    let figure = ratio(stretches);
    let none = Steadiness { from: 0, figure, half_width: f64::INFINITY, unsteady: None };
    if stretches.len() < LEAST_STRETCHES || figure.is_nan() {
        return Steadiness { unsteady: Some(Unsteady::TooShort), ..none };
    }
    let (half_width, dependence) = interval(stretches, figure);
    let (early, late) = stretches.split_at(stretches.len() / 2);
    let drift = (ratio(late) - ratio(early)).abs() / figure.max(f64::MIN_POSITIVE);
    let share = half_width / figure.max(f64::MIN_POSITIVE);
    let unsteady = if figure == 0.0 {
        None
    } else if dependence > 0.5 && share > DRIFT {
        // A trend makes stretches depend on each other, too.
        Some(if drift > share { Unsteady::Drifts(drift) } else { Unsteady::Dependent })
    } else if drift > DRIFT.max(2.0 * share) {
        Some(Unsteady::Drifts(drift))
    } else if share > WIDEST {
        Some(Unsteady::Wide(share))
    } else {
        None
    };
    Steadiness { half_width, unsteady, ..none }
}

/// Half the width of the 95 % interval of a ratio, and the remaining correlation of neighbouring
/// batches, 0 or more.
fn interval(stretches: &[Stretch], figure: f64) -> (f64, f64) {
    let over: f64 = stretches.iter().map(|stretch| stretch.over).sum::<f64>();
    let mean_over = over / stretches.len() as f64;
    let mut deviations: Vec<f64> = stretches
        .iter()
        .map(|stretch| (stretch.counted - figure * stretch.over) / mean_over)
        .collect();
    let mut correlation = neighbours(&deviations);
    // One-sided at 10 %: a series without correlation passes nine times out of ten.
    while correlation > 1.28 / (deviations.len() as f64).sqrt()
        && deviations.len() / 2 >= LEAST_BATCHES
    {
        // A stretch without partner is left out at the start, where a run is least typical.
        deviations = deviations.rchunks_exact(2).map(|two| (two[0] + two[1]) / 2.0).collect();
        deviations.reverse();
        correlation = neighbours(&deviations);
    }
    let left = correlation.clamp(0.0, 0.9);
    let count = deviations.len() as f64;
    let mean = deviations.iter().sum::<f64>() / count;
    let variance = deviations.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
        / (count - 1.0)
        * (1.0 + left)
        / (1.0 - left);
    let student = StudentsT::new(0.0, 1.0, count - 1.0).expect("there are two batches or more");
    (student.inverse_cdf(0.975) * (variance / count).sqrt(), left)
}

/// The correlation of each value with the next.
fn neighbours(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if variance == 0.0 {
        return 0.0;
    }
    values.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum::<f64>() / variance
}

/// Ratio of the sums of counts and amounts; not a number if the amounts are 0.
fn ratio(stretches: &[Stretch]) -> f64 {
    let (counted, over) = stretches
        .iter()
        .fold((0.0, 0.0), |(c, o), stretch| (c + stretch.counted, o + stretch.over));
    counted / over
}

/// The start of 0 ... `last_start` with the least (sum of squared deviations) / n^2 of the values
/// from it on.
fn least_standard_error(values: &[f64], last_start: usize) -> usize {
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for (start, &value) in values.iter().enumerate().rev() {
        sum += value;
        squares += value * value;
        let count = (values.len() - start) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if start <= last_start && error <= best.0 {
            best = (error, start);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;

    fn stretches(values: impl IntoIterator<Item = f64>) -> Vec<Stretch> {
        values.into_iter().map(|counted| Stretch { counted, over: 1.0 }).collect()
    }

    /// An autoregressive series around a level, as cleaning costs over time are.
    fn autoregressive(length: usize, level: f64, by: f64, memory: f64, seed: u64) -> Vec<f64> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut off = 0.0;
        let noise = by * (1.0 - memory * memory).sqrt() * 12f64.sqrt();
        (0..length)
            .map(|_| {
                off = memory * off + noise * (rng.random::<f64>() - 0.5);
                level + off
            })
            .collect()
    }

    #[test]
    fn the_warm_up_is_cut_off() {
        let values =
            (0..400).map(|i| 1.0 + 3.0 * (-f64::from(i) / 20.0).exp() + 0.01 * f64::from(i % 7));
        let steady = steady_part(&stretches(values));
        assert!(steady.unsteady.is_none(), "{steady:?}");
        assert!((60..=200).contains(&steady.from), "{steady:?}");
        assert!((steady.figure - 1.03).abs() < 0.01, "{steady:?}");
    }

    #[test]
    fn a_run_that_still_drifts_is_not_called_steady() {
        let steady = steady_part(&stretches((0..400).map(|i| 2.0 + f64::from(i) / 100.0)));
        assert!(steady.unsteady.is_some(), "{steady:?}");
        assert_eq!(steady.from, 200);
        assert_eq!(steady_part(&stretches([1.0; 12])).unsteady, Some(Unsteady::TooShort));
    }

    #[test]
    fn a_constant_run_is_steady_from_the_start() {
        let steady = steady_part(&stretches([1.5; 100]));
        let constant = Steadiness { from: 0, figure: 1.5, half_width: 0.0, unsteady: None };
        assert_eq!(steady, constant);
    }

    /// 1.6, then a hump to 16.6, then 2.8: its halves differ by less than two standard errors, as
    /// the hump makes those large.
    #[test]
    fn a_run_with_a_hump_is_not_called_steady() {
        let hump = |i: f64| 1.6 + 15.0 * (-((i - 200.0) / 25.0).powi(2)).exp() + 1.2 * i / 400.0;
        let steady = steady_part(&stretches((0..400).map(|i| hump(f64::from(i)))));
        assert!(steady.unsteady.is_some(), "{steady:?}");
    }

    /// The interval holds the true level about as often as it claims, though neighbours depend on
    /// each other; if that were ignored, it would hold it less than half as often.
    #[test]
    fn intervals_know_that_neighbours_depend_on_each_other() {
        for memory in [0.0, 0.5, 0.9] {
            let held = (0..500)
                .filter(|&seed| {
                    let values = autoregressive(400, 3.0, 0.3, memory, seed);
                    let judged = judge(&stretches(values));
                    (judged.figure - 3.0).abs() <= judged.half_width
                })
                .count();
            assert!((450..=495).contains(&held), "memory {memory}: {held} of 500");
        }
    }

    #[test]
    fn a_figure_that_is_known_badly_is_not_called_steady() {
        let noisy = judge(&stretches(autoregressive(100, 3.0, 1.0, 0.3, 7)));
        assert!(matches!(noisy.unsteady, Some(Unsteady::Wide(_))), "{noisy:?}");
        let quiet = judge(&stretches(autoregressive(400, 3.0, 0.1, 0.3, 7)));
        assert_eq!(quiet.unsteady, None, "{quiet:?}");
    }

    /// Stretches are weighted by their amounts, not equally.
    #[test]
    fn the_figure_is_a_ratio_of_sums() {
        let uneven: Vec<Stretch> = (0..40)
            .map(|i| {
                let over = if i % 2 == 0 { 1.0 } else { 9.0 };
                Stretch { counted: 2.0 * over, over }
            })
            .collect();
        let judged = judge(&uneven);
        assert_eq!((judged.figure, judged.half_width), (2.0, 0.0));
    }
}
