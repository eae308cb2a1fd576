//! Periods of dips, found by comparing all models that could be with what was measured, by the
//! Bayesian information criterion.
//!
//! A *model* divides the conditions into classes of equal means. It is credible by its `score`:
//! chi-square + parameters x ln(measurements), where chi-square is divided by the dispersion that
//! even the best model leaves, if that is above 1. A difference of 10 between two scores is strong
//! evidence (Kass and Raftery, JASA 90, 1995); a model that has to be sure is asked for [`CLEAR`].

use super::cells::{ClassFit, fit};
use super::estimate::Estimate;

/// The difference of scores from which on a model is clear: odds of e^10 against one rival.
pub const CLEAR: f64 = 20.0;

/// Standard errors from which on classes of a model are taken to differ at all.
const DIFFERENT: f64 = 4.0;

/// A model with its fit.
#[derive(Clone, Debug)]
struct Scored<M> {
    model: M,
    fit: ClassFit,
    parameters: f64,
    score: f64,
}

/// Scores models, the best first.
fn rank<M>(models: Vec<(M, ClassFit, f64)>, measurements: f64) -> Vec<Scored<M>> {
    let dispersion = models
        .iter()
        .map(|(_, fit, _)| fit.chi_square / fit.freedom.max(1.0))
        .fold(f64::INFINITY, f64::min)
        .max(1.0);
    let each = measurements.max(2.0).ln();
    let score = |fit: &ClassFit, parameters: f64| fit.chi_square / dispersion + parameters * each;
    let mut ranked: Vec<Scored<M>> = models
        .into_iter()
        .map(|(model, fit, parameters)| Scored {
            score: score(&fit, parameters),
            model,
            fit,
            parameters,
        })
        .collect();
    ranked.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.parameters.total_cmp(&b.parameters)));
    ranked
}

/// Gives the margin by which the best model is more credible than the best one that says something
/// else.
fn margin<M>(ranked: &[Scored<M>], says_the_same: impl Fn(&M, &M) -> bool) -> f64 {
    let best = &ranked[0];
    let other = ranked.iter().find(|other| !says_the_same(&other.model, &best.model));
    other.map_or(f64::INFINITY, |other| other.score - best.score)
}

/// Divisors of a number, ascending, without itself.
#[must_use]
pub fn proper_divisors(number: usize) -> Vec<usize> {
    (1..=number / 2).filter(|divisor| number.is_multiple_of(*divisor)).collect()
}

/// Greatest common divisor.
#[must_use]
pub const fn gcd(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Boundaries in a curve: see [`boundaries`].
#[derive(Clone, Debug, PartialEq)]
pub struct Boundaries {
    /// Distance between boundaries, in positions; `None` if there are none (or one at each
    /// position: both are flat).
    pub period: Option<usize>,
    /// Position of the first one, below the period.
    pub phase: usize,
    /// Distance in positions between finer boundaries, at which the time is another one: a divisor
    /// of the period.
    pub inner: Option<usize>,
    /// Height of the positions that are not at a boundary above those at one.
    pub depth: Estimate,
    /// Mean at boundaries; of all positions, if there are none.
    pub at: Estimate,
    /// Mean elsewhere.
    pub elsewhere: Estimate,
    /// Margin by which this is more credible than any other period, as a difference of scores.
    pub margin: f64,
    /// Margin by which this is more credible than the same period at another phase, as a difference
    /// of scores; 0 if there is no period, as then nothing says where it begins.
    pub phase_margin: f64,
}

/// Finds boundaries in means over position 0, 1, ...: at each position `phase + n x period` the
/// mean is lower than elsewhere. The positions go around: periods divide their number. With `only`,
/// no other period is looked at.
#[must_use]
pub fn boundaries(estimates: &[Estimate], measurements: f64, only: Option<usize>) -> Boundaries {
    type Model = Option<(usize, usize, Option<usize>)>;
    let positions = estimates.len();
    let flat = fit(estimates, 1, |_| 0);
    let mut models: Vec<(Model, ClassFit, f64)> = vec![(None, flat, 1.0)];
    let periods = match only {
        Some(period) => vec![period],
        None => proper_divisors(positions).into_iter().filter(|&period| period > 1).collect(),
    };
    for period in periods {
        for phase in 0..period {
            // The phase is a parameter too, of `period` values that are all as likely.
            let parameters = 2.0 + 2.0 * (period as f64).ln() / measurements.max(3.0).ln();
            let found = fit(estimates, 2, |index| usize::from(index % period != phase));
            if found.classes[1].mean > found.classes[0].mean {
                models.push((Some((period, phase, None)), found, parameters));
            }
            for inner in proper_divisors(period).into_iter().filter(|&inner| inner > 1) {
                let class_of = |index: usize| match (
                    index % period == phase,
                    index % inner == phase % inner,
                ) {
                    (true, _) => 0,
                    (false, true) => 2,
                    (false, false) => 1,
                };
                let found = fit(estimates, 3, class_of);
                // A model with more classes fits at least as well by nature: it is a rival only if
                // its classes differ.
                let [at, within, at_inner] = [found.classes[0], found.classes[1], found.classes[2]];
                if at_inner.minus(&at).in_errors() > DIFFERENT
                    && at_inner.minus(&within).in_errors() > DIFFERENT
                {
                    models.push((Some((period, phase, Some(inner))), found, parameters + 1.0));
                }
                // With so many classes another period could look the same.
                let typed = only.and_then(|_| with_types(estimates, period, phase, inner));
                models.extend(typed.map(|found| {
                    let parameters = parameters - 2.0 + found.classes.len() as f64;
                    (Some((period, phase, Some(inner))), found, parameters)
                }));
            }
        }
    }
    let ranked = rank(models, measurements);
    let best = &ranked[0];
    let period_of = |model: &Model| model.map(|(period, _, _)| period);
    let phase_of = |model: &Model| model.map(|(_, phase, _)| phase);
    let of_period: Vec<_> =
        ranked.iter().filter(|other| period_of(&other.model) == period_of(&best.model)).collect();
    let other_phase =
        of_period.iter().find(|other| phase_of(&other.model) != phase_of(&best.model));
    let classes = &best.fit.classes;
    let elsewhere = *classes.last().expect("a fit has classes");
    Boundaries {
        period: period_of(&best.model),
        phase: phase_of(&best.model).unwrap_or(0),
        inner: best.model.and_then(|(_, _, inner)| inner),
        depth: if classes.len() > 1 {
            elsewhere.minus(&classes[0])
        } else {
            Estimate { mean: 0.0, ..classes[0] }
        },
        at: classes[0],
        elsewhere,
        margin: margin(&ranked, |a, b| period_of(a) == period_of(b)),
        phase_margin: match other_phase {
            _ if best.model.is_none() => 0.0,
            Some(other) => other.score - best.score,
            None => f64::INFINITY,
        },
    }
}

/// Finer boundaries within a period that pages of different types lie between: positions in each of
/// them, and each boundary, have a mean of their own.
const MOST_PAGES: usize = 4;

/// The fit for boundaries at `inner` within the period, where what lies between them differs, as
/// pages of MLC and TLC do; if there are not too many, and all of them are slower than those of the
/// period.
fn with_types(
    estimates: &[Estimate],
    period: usize,
    phase: usize,
    inner: usize,
) -> Option<ClassFit> {
    let pages = period / inner;
    let positions = estimates.len();
    let class_of = |index: usize| {
        let within = (index + positions - phase) % period;
        match (within / inner, within % inner) {
            (0, 0) => 0,
            (page, 0) => pages + page,
            (page, _) => 1 + page,
        }
    };
    let found = (2..=MOST_PAGES).contains(&pages).then(|| fit(estimates, 2 * pages, class_of))?;
    let are_slower = found.classes[pages + 1..]
        .iter()
        .all(|class| class.minus(&found.classes[0]).in_errors() > DIFFERENT);
    are_slower.then_some(found)
}

/// Nested periods of a rise over distance: see [`levels`] and [`shared`].
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// The periods, each a multiple of the one before; none if nothing rises.
    pub periods: Vec<usize>,
    /// The mean where no period hits, then by how much each level is above it.
    pub base: Estimate,
    /// Height of the mean at multiples of each period (and not of the next) above the base.
    pub rises: Vec<Estimate>,
    /// Margin by which this is more credible than anything else, as a difference of scores.
    pub margin: f64,
    /// Margin by which this is more credible than anything with another last period, as a
    /// difference of scores.
    pub last_margin: f64,
}

/// Finds nested periods in means over distance 1, 2, ... (`distances` says which): at multiples of
/// the first period the mean is higher than elsewhere, at multiples of the second, itself a
/// multiple of the first, higher still. All chains of up to `most_levels` (1 or 2) of the
/// `candidates` are compared.
#[must_use]
pub fn levels(
    estimates: &[Estimate],
    distances: &[usize],
    candidates: &[usize],
    most_levels: usize,
    measurements: f64,
) -> Levels {
    let mut chains: Vec<Vec<usize>> = vec![Vec::new()];
    for &first in candidates {
        chains.push(vec![first]);
        if most_levels > 1 {
            let multiples =
                candidates.iter().filter(|&&second| second > first && second.is_multiple_of(first));
            chains.extend(multiples.map(|&second| vec![first, second]));
        }
    }
    let mut models = Vec::with_capacity(chains.len());
    for chain in chains {
        let class_of = |index: usize| {
            chain.iter().filter(|&&period| distances[index].is_multiple_of(period)).count()
        };
        let found = fit(estimates, chain.len() + 1, class_of);
        let is_known = found.classes.iter().all(|class| class.error.is_finite());
        // A model with more classes fits at least as well by nature: it is a rival only if its
        // classes differ.
        let rises =
            found.classes.windows(2).all(|pair| pair[1].minus(&pair[0]).in_errors() > DIFFERENT);
        if chain.is_empty() || (is_known && rises) {
            let parameters = found.classes.len() as f64;
            models.push((chain, found, parameters));
        }
    }
    let ranked = rank(models, measurements);
    let best = &ranked[0];
    let base = best.fit.classes[0];
    Levels {
        periods: best.model.clone(),
        base,
        rises: best.fit.classes[1..].iter().map(|class| class.minus(&base)).collect(),
        margin: margin(&ranked, |a, b| a == b),
        last_margin: margin(&ranked, |a, b| a.last() == b.last()),
    }
}

/// Period of curves that repeat themselves: see [`cycle`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// The shortest period that explains the curves, in positions; `None` if they are flat.
    pub period: Option<usize>,
    /// Margin by which this is more credible than any other period, as a difference of scores.
    pub margin: f64,
    /// Swing of the curve that swings most: from its lowest to its highest mean, as a share of its
    /// mean.
    pub swing: f64,
}

/// Finds the common period of curves over position 0, 1, ..., each of which may be flat too. All
/// have as many positions, of which periods are divisors.
#[must_use]
pub fn cycle(curves: &[Vec<Estimate>], measurements: f64) -> Cycle {
    let positions = curves.first().map_or(0, Vec::len);
    let flat: Vec<ClassFit> = curves.iter().map(|curve| fit(curve, 1, |_| 0)).collect();
    let join = |fits: &[&ClassFit]| ClassFit {
        chi_square: fits.iter().map(|fit| fit.chi_square).sum(),
        freedom: fits.iter().map(|fit| fit.freedom).sum(),
        classes: Vec::new(),
    };
    let each = measurements.max(2.0).ln();
    let mut models =
        vec![((None, 0.0), join(&flat.iter().collect::<Vec<_>>()), curves.len() as f64)];
    for period in proper_divisors(positions).into_iter().filter(|&period| period > 1) {
        let (mut parameters, mut swing) = (0.0, 0.0_f64);
        let fits: Vec<ClassFit> =
            curves.iter().map(|curve| fit(curve, period, |index| index % period)).collect();
        let mut chosen = Vec::with_capacity(fits.len());
        for (found, flat) in fits.iter().zip(&flat) {
            if found.chi_square + period as f64 * each < flat.chi_square + each {
                let means = || found.classes.iter().map(|class| class.mean);
                let (low, high) = (
                    means().fold(f64::INFINITY, f64::min),
                    means().fold(f64::NEG_INFINITY, f64::max),
                );
                swing = swing.max((high - low) / flat.classes[0].mean);
                parameters += period as f64;
                chosen.push(found);
            } else {
                parameters += 1.0;
                chosen.push(flat);
            }
        }
        models.push(((Some(period), swing), join(&chosen), parameters));
    }
    let ranked = rank(models, measurements);
    let (period, swing) = ranked[0].model;
    Cycle {
        period: if swing > 0.0 { period } else { None },
        margin: margin(&ranked, |a, b| a.0 == b.0),
        swing,
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, Normal};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Means over `count` conditions with noise of standard error `error`.
    fn noisy(count: usize, error: f64, seed: u64, mean: impl Fn(usize) -> f64) -> Vec<Estimate> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let normal = Normal::new(0.0, error).unwrap();
        (0..count)
            .map(|index| Estimate {
                mean: mean(index) + normal.sample(&mut random),
                error,
                freedom: f64::INFINITY,
            })
            .collect()
    }

    #[test]
    fn boundaries_are_found_with_their_phase() {
        for (seed, (period, phase)) in [(2, 1), (8, 0), (24, 7), (128, 100)].into_iter().enumerate()
        {
            let estimates =
                noisy(384, 1.0, seed as u64, |k| if k % period == phase { 100.0 } else { 108.0 });
            let found = boundaries(&estimates, 3840.0, None);
            assert_eq!((found.period, found.phase), (Some(period), phase));
            assert!(found.margin > CLEAR && found.phase_margin > CLEAR, "{found:?}");
        }
    }

    #[test]
    fn pages_within_chunks_are_no_chunks() {
        // What lies in one page is read once: only pages of the same chunk wait for each other.
        let mean = |k: usize| {
            if k.is_multiple_of(32) {
                100.0
            } else if k.is_multiple_of(8) {
                130.0
            } else {
                101.0
            }
        };
        let found = boundaries(&noisy(384, 1.0, 7, mean), 3840.0, None);
        assert_eq!((found.period, found.phase, found.inner), (Some(32), 0, Some(8)));
        assert!(found.margin > CLEAR);
    }

    #[test]
    fn pages_of_different_types_within_chunks_are_no_chunks() {
        // Two pages of MLC in a chunk, of 66 and 94 us: two reads in one wait for each other, those
        // over the chunk's boundary do not.
        let mean = |k: usize| match k % 16 {
            0 => 80.0,
            8 => 113.0,
            1..8 => 99.0,
            _ => 141.0,
        };
        for error in [0.3, 1.0] {
            let found = boundaries(&noisy(384, error, 11, mean), 3840.0, Some(16));
            assert_eq!((found.period, found.phase, found.inner), (Some(16), 0, Some(8)));
            assert!(found.phase_margin > CLEAR, "{found:?}");
        }
    }

    #[test]
    fn noise_is_flat() {
        let sure = (0..200).filter(|&seed| {
            let found = boundaries(&noisy(96, 1.0, seed, |_| 100.0), 960.0, None);
            found.period.is_some() && found.margin > CLEAR
        });
        assert_eq!(sure.count(), 0);
    }

    #[test]
    fn no_phase_is_clear_where_nothing_shows_the_period() {
        for only in [None, Some(32)] {
            let found = boundaries(&noisy(32, 1.0, 5, |_| 100.0), 320.0, only);
            assert_eq!((found.period, found.phase_margin), (None, 0.0));
        }
    }

    #[test]
    fn the_shortest_common_period_of_curves_is_found() {
        let wave = |k: usize| {
            if k.is_multiple_of(8) { 100.0 } else { 100.0 + (k % 8).min(8 - k % 8) as f64 }
        };
        let curves =
            [noisy(64, 0.3, 1, |_| 50.0), noisy(64, 0.3, 2, wave), noisy(64, 0.3, 3, wave)];
        let found = cycle(&curves, 6400.0);
        assert_eq!(found.period, Some(8));
        assert!(found.margin > CLEAR && found.swing > 0.03, "{found:?}");
        assert_eq!(cycle(&[noisy(64, 0.3, 1, |_| 50.0)], 6400.0).period, None);
    }

    #[test]
    fn nested_periods_are_found() {
        let distances: Vec<usize> = (1..=128).collect();
        let candidates: Vec<usize> = (2..=64).collect();
        for (first, second) in [(10, 20), (2, 8), (16, 64), (7, 21), (13, 26)] {
            let mean = |index: usize| match index + 1 {
                d if d % second == 0 => 130.0,
                d if d % first == 0 => 110.0,
                _ => 100.0,
            };
            let found = levels(&noisy(128, 1.0, 3, mean), &distances, &candidates, 2, 1280.0);
            assert_eq!(found.periods, [first, second]);
            assert!(found.margin > CLEAR && (found.rises[1].mean - 30.0).abs() < 3.0, "{found:?}");
        }
    }

    #[test]
    fn nested_periods_in_noise_are_never_clear() {
        let distances: Vec<usize> = (1..=64).collect();
        let candidates: Vec<usize> = (2..=32).collect();
        let sure = (0..300).filter(|&seed| {
            let found = levels(&noisy(64, 1.0, seed, |_| 100.0), &distances, &candidates, 2, 640.0);
            !found.periods.is_empty() && found.margin > CLEAR
        });
        assert_eq!(sure.count(), 0);
    }
}
