//! Levels, and where one ends and the next begins: for sweeps whose cost stays low up to some size
//! or number, and for series in time.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use super::estimate::{Estimate, mean};

/// The middle value; 0 of nothing.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// Gives the number of observations to leave out at the start of a series, as they may be of
/// another kind than the rest (buffers that fill, logs that are taken): a multiple of 5, at most
/// half of them. It is cut where the marginal standard error is least (MSER-5: K. P. White, "An
/// effective truncation heuristic for bias reduction in simulation output", Simulation 69(6),
/// 1997).
#[must_use]
pub fn transient(series: &[f64]) -> usize {
    const GROUP: usize = 5;
    let groups: Vec<f64> = series.chunks_exact(GROUP).map(mean).collect();
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    let origin = mean(&groups);
    for (index, group) in groups.iter().enumerate().rev() {
        // About the mean, or the squares of large numbers cancel.
        let value = group - origin;
        sum += value;
        squares += value * value;
        let left = (groups.len() - index) as f64;
        if index <= groups.len() / 2 {
            let error = (squares - sum * sum / left).max(0.0) / (left * left);
            if error <= best.0 {
                best = (error, index);
            }
        }
    }
    best.1 * GROUP
}

/// Two levels in a sequence, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Index of the first of the second level, at least 1.
    pub at: usize,
    /// Geometric mean of the first level.
    pub before: f64,
    /// Geometric mean of the second level.
    pub after: f64,
    /// Share of the variance of the logarithms that the two levels explain.
    pub explained: f64,
}

impl Step {
    /// The second level over the first.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }
}

/// Finds the place at which two levels divide a sequence of positive values best, by least squares
/// of their logarithms: costs differ by factors. `None` of fewer than two values.
#[must_use]
pub fn step(values: &[f64]) -> Option<Step> {
    let logs: Vec<f64> = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect();
    let spread = |part: &[f64]| part.iter().map(|log| (log - mean(part)).powi(2)).sum::<f64>();
    let total = spread(&logs);
    let at = (1..logs.len()).min_by(|&a, &b| {
        let left = |at: usize| spread(&logs[..at]) + spread(&logs[at..]);
        left(a).total_cmp(&left(b))
    })?;
    let (before, after) = logs.split_at(at);
    let explained = if total == 0.0 { 0.0 } else { 1.0 - (spread(before) + spread(after)) / total };
    Some(Step { at, before: mean(before).exp(), after: mean(after).exp(), explained })
}

/// The first lasting change of level in a series: binary segmentation, in which a division counts
/// if the means of its two sides differ by more than `least` (a share of the first) and by more
/// than chance makes them at 1 in 1000 (the largest of all F statistics, each tested at 0.001 over
/// the number of places). `None` if the series is of one level.
#[must_use]
pub fn first_change(series: &[f64], least: f64) -> Option<usize> {
    const FEWEST: usize = 4;
    let mut end = series.len();
    let mut found = None;
    while let Some((at, statistic)) = best_division(&series[..end], FEWEST) {
        let (before, after) = (mean(&series[..at]), mean(&series[at..end]));
        let places = (end - 2 * FEWEST + 1) as f64;
        let limit = FisherSnedecor::new(1.0, (end - 2) as f64)
            .map_or(f64::INFINITY, |law| law.inverse_cdf(1.0 - 0.001 / places));
        if statistic < limit || (after - before).abs() < least * before.abs() {
            break;
        }
        found = Some(at);
        end = at;
    }
    found
}

/// The end of a run of low values at the start of a series: its first value above the geometric
/// middle of the least value and the mean of the second half. `None` if that mean is less than
/// `least` times the least value, or if a run as long is no wonder (1 in 1000) given how many of
/// the other values are low. It finds what [`first_change`] misses: short runs before values of
/// which some are low too.
#[must_use]
pub fn first_slow(series: &[f64], least: f64) -> Option<usize> {
    let lowest = series.iter().copied().reduce(f64::min)?;
    let later = mean(&series[series.len() / 2..]);
    if later < least * lowest {
        return None;
    }
    let middle = (lowest * later).sqrt();
    let run = series.iter().position(|&value| value > middle)?;
    let rest = &series[run..];
    // One more than there are, as a share of none that was seen may yet be one.
    let low = rest.iter().filter(|&&value| value <= middle).count() + 1;
    let share = low as f64 / (rest.len() + 1) as f64;
    (run > 0 && share.powf(run as f64) < 0.001).then_some(run)
}

fn best_division(series: &[f64], fewest: usize) -> Option<(usize, f64)> {
    let count = series.len();
    if count < 2 * fewest {
        return None;
    }
    let total: f64 = series.iter().sum();
    let grand = total / count as f64;
    let spread: f64 = series.iter().map(|value| (value - grand).powi(2)).sum();
    let mut left: f64 = series[..fewest - 1].iter().sum();
    let mut best = (fewest, f64::NEG_INFINITY);
    for at in fewest..=count - fewest {
        left += series[at - 1];
        let (a, b) = (at as f64, (count - at) as f64);
        let between = a * b / count as f64 * (left / a - (total - left) / b).powi(2);
        if between > best.1 {
            best = (at, between);
        }
    }
    let within = (spread - best.1).max(spread * 1e-12);
    let statistic = if spread == 0.0 { 0.0 } else { best.1 / (within / (count - 2) as f64) };
    Some((best.0, statistic))
}

/// A curve that bends at one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bend {
    /// Its place, in the unit of x.
    pub at: f64,
    /// Its 95 % interval, by the profile of the sum of squares.
    pub interval: [f64; 2],
    /// The curve where the shape is 0.
    pub base: f64,
    /// Rise of the curve where the shape rises by 1.
    pub rise: f64,
    /// Share of the (weighted) variance that the curve explains.
    pub explained: f64,
}

/// The bend of `y = base + rise * shape(x, at)` that fits best, `at` anywhere between the least and
/// the largest x, to one part in 64 of a doubling. Weighted least squares: an observation counts as
/// wrong by its own error and by 3 % of the largest y, so that small costs that follow another law
/// do not count. `None` of fewer than five points, or if none of the curves rises.
#[must_use]
pub fn bend(points: &[(f64, Estimate)], shape: impl Fn(f64, f64) -> f64) -> Option<Bend> {
    const PER_DOUBLING: f64 = 64.0;
    if points.len() < 5 {
        return None;
    }
    let largest = points.iter().map(|(_, level)| level.mean).fold(0.0, f64::max);
    let weighted: Vec<(f64, f64, f64)> = points
        .iter()
        .map(|&(x, level)| {
            let error = (level.half_width() / 2.0).min(largest).hypot(0.03 * largest);
            (x, level.mean, error.powi(2).recip())
        })
        .collect();
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let steps = ((last / first).log2() * PER_DOUBLING).ceil() as usize;
    let fits: Vec<(f64, Line)> = (0..=steps)
        .map(|index| first * (index as f64 / PER_DOUBLING).exp2())
        .map(|at| (at, Line::fit(weighted.iter().map(|&(x, y, weight)| (shape(x, at), y, weight)))))
        .filter(|(_, line)| line.rise > 0.0)
        .collect();
    let &(at, line) = fits.iter().min_by(|(_, a), (_, b)| a.left.total_cmp(&b.left))?;
    let freedom = points.len() - 3;
    let limit =
        FisherSnedecor::new(1.0, freedom as f64).map_or(f64::INFINITY, |law| law.inverse_cdf(0.95));
    // Where the errors leave more than the curve does, theirs is the scale.
    let scale = (line.left / freedom as f64).max(1.0);
    let likely = || {
        fits.iter().filter(|(_, other)| other.left <= line.left + limit * scale).map(|&(at, _)| at)
    };
    let interval = [likely().fold(at, f64::min), likely().fold(at, f64::max)];
    Some(Bend { at, interval, base: line.base, rise: line.rise, explained: line.explained })
}

#[derive(Clone, Copy, Debug)]
struct Line {
    base: f64,
    rise: f64,
    /// Weighted sum of squares that is left.
    left: f64,
    explained: f64,
}

impl Line {
    fn fit(points: impl Iterator<Item = (f64, f64, f64)>) -> Self {
        let points: Vec<(f64, f64, f64)> = points.collect();
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|&(x, y, weight)| weight * of(x, y)).sum::<f64>()
        };
        let weights = sum(&|_, _| 1.0);
        let (x_mean, y_mean) = (sum(&|x, _| x) / weights, sum(&|_, y| y) / weights);
        let (xx, xy) =
            (sum(&|x, _| (x - x_mean).powi(2)), sum(&|x, y| (x - x_mean) * (y - y_mean)));
        let yy = sum(&|_, y| (y - y_mean).powi(2));
        let rise = if xx > 0.0 { xy / xx } else { 0.0 };
        let left = (yy - rise * xy).max(0.0);
        Self {
            base: y_mean - rise * x_mean,
            rise,
            left,
            explained: if yy > 0.0 { 1.0 - left / yy } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn noise(rng: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0
    }

    #[test]
    fn intervals_hold_the_mean_nineteen_times_in_twenty() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let hits = (0..400)
            .filter(|_| {
                let series: Vec<f64> = (0..300).map(|_| 10.0 + noise(&mut rng)).collect();
                let level = Estimate::of_batches(&series);
                level.low() <= 10.0 && 10.0 <= level.high()
            })
            .count();
        assert!((366..=394).contains(&hits), "{hits} of 400");
    }

    #[test]
    fn a_transient_is_cut_off() {
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        let series: Vec<f64> = (0..500)
            .map(|index| if index < 100 { 1.0 } else { 10.0 } + 0.3 * noise(&mut rng))
            .collect();
        assert!((100..=110).contains(&transient(&series)), "{}", transient(&series));
        assert_eq!(transient(&[]), 0);
        assert_eq!(transient(&[3.0; 40]), 0);
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let found = step(&[1.0, 1.1, 0.9, 8.0, 9.0]).unwrap();
        assert_eq!(found.at, 3);
        assert!(found.ratio() > 7.0 && found.explained > 0.95);
        assert!(step(&[1.0]).is_none());
        assert!(step(&[2.0, 2.0, 2.0]).unwrap().explained < 0.01);
    }

    #[test]
    fn the_first_change_is_found_and_noise_is_none() {
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let mut wrong = 0;
        for _ in 0..200 {
            let flat: Vec<f64> = (0..100).map(|_| 100.0 + 10.0 * noise(&mut rng)).collect();
            wrong += usize::from(first_change(&flat, 0.0).is_some());
            let falling: Vec<f64> = (0..100)
                .map(|index| {
                    (if index < 40 { 100.0 } else { 150.0 - f64::from(index) })
                        + 3.0 * noise(&mut rng)
                })
                .collect();
            let at = first_change(&falling, 0.1).unwrap();
            // It falls slowly: the change is found within the fall.
            assert!((40..70).contains(&at), "{at}");
        }
        assert!(wrong <= 2, "{wrong} of 200");
        assert_eq!(first_change(&[1.0; 50], 0.1), None);
        assert_eq!(first_change(&[], 0.1), None);
    }

    #[test]
    fn a_run_of_low_values_is_told_from_chance() {
        let belts: Vec<f64> =
            (0..60).map(|index| if index < 16 || index % 2 == 0 { 1.0 } else { 100.0 }).collect();
        assert_eq!(first_slow(&belts, 2.0), Some(17));
        assert_eq!(first_slow(&belts[17..], 2.0), None);
        assert_eq!(first_slow(&[5.0; 30], 2.0), None);
        assert_eq!(first_slow(&[], 2.0), None);
        let rare: Vec<f64> =
            (0..400).map(|index| if index % 40 == 39 { 100.0 } else { 1.0 }).collect();
        assert_eq!(first_slow(&rare, 2.0), None);
    }

    #[test]
    fn bends_are_found_with_their_interval() {
        let mut rng = Pcg64Mcg::seed_from_u64(4);
        let mut outside = 0;
        for _ in 0..100 {
            let points: Vec<(f64, Estimate)> = (0..16)
                .map(|index| {
                    let x = 2f64.powf(f64::from(index) / 2.0);
                    let y = 1.0 + 9.0 * (1.0 - 20.0 / x).max(0.0);
                    let observed: Vec<f64> =
                        (0..20).map(|_| y * (1.0 + 0.1 * noise(&mut rng))).collect();
                    (x, Estimate::of(&observed))
                })
                .collect();
            let found = bend(&points, |x, at| (1.0 - at / x).max(0.0)).unwrap();
            assert!((found.at / 20.0 - 1.0).abs() < 0.2 && found.explained > 0.95, "{found:?}");
            outside += usize::from(found.interval[0] > 20.0 || found.interval[1] < 20.0);
        }
        assert!(outside <= 10, "{outside} of 100 intervals miss it");
    }
}
