//! Knees: points from which on more of something no longer helps.

use super::estimate::Estimate;

/// A throughput that was measured with so many requests outstanding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtDepth {
    /// Requests outstanding.
    pub depth: u32,
    /// Throughput in any unit.
    pub throughput: Estimate,
}

/// Depth at which returns diminish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Crossing of the asymptotes of light and of heavy load: the greatest throughput by that of
    /// one request. In a closed network of equal servers this is their number (R. Muntz, J. Wong,
    /// "Asymptotic properties of closed queueing network models", 1974).
    pub crossing: Estimate,
    /// The depth (requests outstanding) up to which one more request adds at least a share of what
    /// the first one did.
    pub diminishing: u32,
    /// That depth is at least this, by the 95 % intervals, ...
    pub at_least: u32,
    /// ... and at most this.
    pub at_most: u32,
    /// True if the throughput no longer rises at the greatest depths: otherwise the crossing is too
    /// small.
    pub is_saturated: bool,
}

/// Largest rise of the throughput over that at half of the depth, as a share of it, that counts as
/// none.
const MOST_RISE: f64 = 0.1;

/// The knee of a curve in order of depth, the first at depth 1; one more request is worth it if it
/// adds the share `least_gain` of what the first one did. `None` with fewer than three points or
/// without throughput.
#[must_use]
pub fn knee(curve: &[AtDepth], least_gain: f64) -> Option<Knee> {
    let first = curve.first().filter(|first| curve.len() >= 3 && first.throughput.mean > 0.0)?;
    let greatest = curve
        .iter()
        .max_by(|a, b| a.throughput.mean.total_cmp(&b.throughput.mean))
        .expect("there are points");
    let last = curve[curve.len() - 1];
    // Half of the depth or less: what rose since then rises on.
    let before = curve.iter().rev().find(|at| at.depth <= last.depth / 2).unwrap_or(first);
    // Asked the other way round: that no rise is clear may be for want of precision.
    let is_saturated =
        last.throughput.times(1.0 - MOST_RISE).is_clearly_below(&before.throughput, 0.0, 1);
    let alone = first.throughput.mean / f64::from(first.depth);
    let gains: Vec<(u32, f64, f64)> = curve
        .windows(2)
        .map(|pair| {
            let step = f64::from(pair[1].depth - pair[0].depth) * alone;
            let half_width =
                pair[0].throughput.half_width().hypot(pair[1].throughput.half_width()) / step;
            (pair[1].depth, (pair[1].throughput.mean - pair[0].throughput.mean) / step, half_width)
        })
        .collect();
    let up_to = |is_worth: &dyn Fn(f64, f64) -> bool| {
        let worth =
            gains.iter().take_while(|(_, gain, half_width)| is_worth(*gain, *half_width)).last();
        worth.map_or(first.depth, |&(depth, ..)| depth)
    };
    Some(Knee {
        crossing: greatest.throughput.over(first.throughput),
        diminishing: up_to(&|gain, _| gain >= least_gain),
        at_least: up_to(&|gain, half_width| gain - half_width >= least_gain),
        at_most: up_to(&|gain, half_width| gain + half_width >= least_gain),
        is_saturated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(law: impl Fn(f64) -> f64, relative_error: f64) -> Vec<AtDepth> {
        let depths = [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 64, 128];
        let throughput = |depth| Estimate {
            mean: law(depth),
            error: law(depth) * relative_error,
            freedom: 19.0,
        };
        depths
            .into_iter()
            .map(|depth| AtDepth { depth, throughput: throughput(f64::from(depth)) })
            .collect()
    }

    #[test]
    fn the_crossing_is_the_number_of_servers() {
        // Exponential servers chosen at random: n D / (n + D - 1).
        let found = knee(&curve(|n| 1000.0 * n * 8.0 / (n + 7.0), 0.001), 0.1).unwrap();
        assert!((found.crossing.mean / 8.0 - 1.0).abs() < 0.06 && found.is_saturated, "{found:?}");
        // A bound that is reached at once.
        let found = knee(&curve(|n| 500.0 * n.min(10.0), 0.001), 0.1).unwrap();
        assert!((found.crossing.mean - 10.0).abs() < 1e-9 && found.diminishing == 10, "{found:?}");
        assert_eq!((found.at_least, found.at_most), (10, 10));
    }

    #[test]
    fn a_curve_that_still_rises_is_not_saturated() {
        let found = knee(&curve(|n| n, 0.001), 0.1).unwrap();
        assert!(!found.is_saturated && found.diminishing == 128, "{found:?}");
        assert!(knee(&curve(|n| n, 0.001)[..2], 0.1).is_none());
    }

    #[test]
    fn a_curve_that_is_known_badly_is_not_saturated() {
        assert!(!knee(&curve(|n| n, 0.6), 0.1).unwrap().is_saturated);
        assert!(!knee(&curve(|n| 500.0 * n.min(10.0), f64::INFINITY), 0.1).unwrap().is_saturated);
    }

    #[test]
    fn without_errors_known_the_depth_may_be_any() {
        let found = knee(&curve(|n| 500.0 * n.min(10.0), f64::INFINITY), 0.1).unwrap();
        assert!(
            found.at_least == 1 && found.diminishing == 10 && found.at_most == 128,
            "{found:?}"
        );
        // With depth of no use at all, it is the first.
        assert_eq!(knee(&curve(|_| 500.0, 0.001), 0.1).unwrap().diminishing, 1);
    }
}
