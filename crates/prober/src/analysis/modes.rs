//! Belts of response times: the modes of their logarithms, with their shares.

use super::estimate::share_interval;

/// Values about one mode; what is said of them is in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belt {
    /// Lower end of 99 % of its values: half a per cent are below.
    pub least: f64,
    /// Its median, to the width of a bin (4 %).
    pub median: f64,
    /// Upper end of 99 % of its values: half a per cent are above.
    pub most: f64,
    /// Values in it.
    pub count: u64,
    /// Its share of all values.
    pub share: f64,
    /// 95 % interval of the share, as if values did not depend on each other.
    pub share_interval: [f64; 2],
}

/// Bins of a factor of ten.
const PER_DECADE: f64 = 60.0;
/// Standard deviation of the smoothing in bins: 8 %. Modes closer than twice that become one.
const SMOOTH_BINS: f64 = 2.0;
/// Standard deviations of chance (Poisson) by which the smaller peak stands out from the valley,
/// and a valley is at most half of it.
const CLEAR: f64 = 4.0;

/// The belts of `counts` of positive values, in order of value.
///
/// Counts are laid into logarithmic bins and smoothed; of neighbouring peaks the smaller one is
/// dropped unless the valley between them is no more than half of it and lower by more than four
/// times what chance makes of such counts. Then a belt joins its nearest neighbour if it holds less
/// than `least_share` of all values and of their sum (a few that are very long are a belt, too),
/// and neighbours join whose medians are not at least the factor `apart` from each other.
#[must_use]
pub fn belts(counts: &[(f64, u64)], least_share: f64, apart: f64) -> Vec<Belt> {
    let mut counts: Vec<(f64, u64)> =
        counts.iter().copied().filter(|&(value, count)| value > 0.0 && count > 0).collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((&(least, _), &(most, _))) = counts.first().zip(counts.last()) else {
        return Vec::new();
    };
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let bin_of = |value: f64| ((value / least).log10() * PER_DECADE).round() as usize;
    let mut bins = vec![0.0; bin_of(most) + 1];
    for &(value, count) in &counts {
        bins[bin_of(value)] += count as f64;
    }
    let smooth = smoothed(&bins);
    let mut peaks: Vec<usize> = Vec::new();
    let are_apart =
        |a: usize, b: usize| stands_out(smooth[a].min(smooth[b]), smooth[valley(&smooth, a, b)]);
    for peak in maxima(&smooth) {
        // One that does not stand out from the one before it takes its place if it is higher, and
        // is dropped if not.
        while let Some(&before) = peaks.last()
            && !are_apart(before, peak)
            && smooth[before] < smooth[peak]
        {
            peaks.pop();
        }
        if peaks.last().is_none_or(|&before| are_apart(before, peak)) {
            peaks.push(peak);
        }
    }
    let cuts: Vec<usize> = peaks.windows(2).map(|pair| valley(&smooth, pair[0], pair[1])).collect();
    let mut groups: Vec<Group> = vec![Vec::new(); cuts.len() + 1];
    for &(value, count) in &counts {
        groups[cuts.iter().filter(|&&cut| bin_of(value) > cut).count()].push((value, count));
    }
    join_small(&mut groups, least_share);
    join_near(&mut groups, apart);
    groups.iter().map(|group| belt(group, total)).collect()
}

fn smoothed(bins: &[f64]) -> Vec<f64> {
    let reach = (4.0 * SMOOTH_BINS) as usize;
    let kernel: Vec<f64> =
        (0..=reach).map(|at| (-0.5 * (at as f64 / SMOOTH_BINS).powi(2)).exp()).collect();
    let sum = kernel[0] + 2.0 * kernel[1..].iter().sum::<f64>();
    let around = |at: usize| at.saturating_sub(reach)..(at + reach + 1).min(bins.len());
    (0..bins.len())
        .map(|at| {
            around(at).map(|other| bins[other] * kernel[at.abs_diff(other)]).sum::<f64>() / sum
        })
        .collect()
}

/// Bins higher than what surrounds them; of a plateau the first.
fn maxima(smooth: &[f64]) -> Vec<usize> {
    let at = |index: usize| smooth.get(index).copied().unwrap_or(0.0);
    (0..smooth.len())
        .filter(|&index| {
            at(index) > 0.0
                && (index == 0 || at(index) > at(index - 1))
                && at(index) >= at(index + 1)
        })
        .collect()
}

/// The middle of the lowest bins between two peaks.
fn valley(smooth: &[f64], from: usize, to: usize) -> usize {
    let lowest = smooth[from..=to].iter().copied().fold(f64::INFINITY, f64::min);
    let flat: Vec<usize> = (from..=to).filter(|&bin| smooth[bin] <= lowest).collect();
    flat[flat.len() / 2]
}

fn stands_out(peak: f64, valley: f64) -> bool {
    // The smoothing adds up about so many bins of independent counts.
    const EFFECTIVE: f64 = 2.0 * SMOOTH_BINS * 1.772_453_85;
    valley <= peak / 2.0
        && (peak - valley) * EFFECTIVE > CLEAR * ((peak + valley) * EFFECTIVE).sqrt()
}

type Group = Vec<(f64, u64)>;

fn count(group: &Group) -> u64 {
    group.iter().map(|(_, count)| count).sum()
}

fn sum(group: &Group) -> f64 {
    group.iter().map(|&(value, count)| value * count as f64).sum()
}

/// The value below which half of the values lie.
fn median(group: &Group) -> f64 {
    at_share(group, 0.5)
}

/// The least value of which at least this share of the values, above 0, is no greater.
fn at_share(group: &Group, share: f64) -> f64 {
    let mut left = (count(group) as f64 * share).ceil() as u64;
    let found = group.iter().find(|(_, count)| {
        let is_here = *count >= left;
        left = left.saturating_sub(*count);
        is_here
    });
    found.expect("a share of the values comes before the end").0
}

fn join(groups: &mut Vec<Group>, first: usize) {
    let second = groups.remove(first + 1);
    groups[first].extend(second);
}

fn join_small(groups: &mut Vec<Group>, least_share: f64) {
    let (all, whole): (u64, f64) = (groups.iter().map(count).sum(), groups.iter().map(sum).sum());
    let share = |group: &Group| (count(group) as f64 / all as f64).max(sum(group) / whole);
    while groups.len() > 1 {
        let smallest = (0..groups.len())
            .min_by(|&a, &b| share(&groups[a]).total_cmp(&share(&groups[b])))
            .expect("there are groups");
        if share(&groups[smallest]) >= least_share {
            return;
        }
        // The gap before group `first + 1`.
        let distance = |first: usize| (median(&groups[first + 1]) / median(&groups[first])).ln();
        let gaps =
            [smallest.checked_sub(1), Some(smallest).filter(|&first| first + 1 < groups.len())];
        let nearest =
            gaps.into_iter().flatten().min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        join(groups, nearest.expect("another group is left"));
    }
}

fn join_near(groups: &mut Vec<Group>, apart: f64) {
    let factor =
        |groups: &[Group], first: usize| median(&groups[first + 1]) / median(&groups[first]);
    while let Some(nearest) = (1..groups.len())
        .map(|second| second - 1)
        .min_by(|&a, &b| factor(groups, a).total_cmp(&factor(groups, b)))
        && factor(groups, nearest) < apart
    {
        join(groups, nearest);
    }
}

fn belt(group: &Group, total: u64) -> Belt {
    let count = count(group);
    Belt {
        least: at_share(group, 0.005),
        median: median(group),
        most: at_share(group, 0.995),
        count,
        share: count as f64 / total as f64,
        share_interval: share_interval(count, total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values about a centre, spread evenly by a factor.
    fn around(centre: f64, factor: f64, count: u64) -> Vec<(f64, u64)> {
        (0..count)
            .map(|index| (centre * factor.powf(2.0 * (index as f64 + 0.5) / count as f64 - 1.0), 1))
            .collect()
    }

    #[test]
    fn two_belts_are_two_with_their_shares() {
        // SCHEDULER figure 4.19.
        let found =
            belts(&[around(60.0, 1.3, 700), around(15_000.0, 1.6, 300)].concat(), 0.01, 1.0);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].share - 0.7).abs() < 1e-9 && (found[1].share - 0.3).abs() < 1e-9);
        assert!(
            (found[0].median / 60.0 - 1.0).abs() < 0.02
                && found[1].least > 9_000.0
                && found[1].most < 25_000.0
        );
        assert!(found[1].share_interval[0] > 0.27 && found[1].share_interval[1] < 0.33);
    }

    #[test]
    fn one_belt_is_one_however_wide_or_narrow() {
        assert_eq!(belts(&[(90.0, 5_000)], 0.01, 1.0).len(), 1);
        assert_eq!(belts(&around(100.0, 1.02, 3_000), 0.01, 1.0).len(), 1);
        assert_eq!(belts(&around(100.0, 8.0, 3_000), 0.01, 1.0).len(), 1);
        assert!(belts(&[], 0.01, 1.0).is_empty());
    }

    #[test]
    fn a_few_that_are_far_off_do_not_widen_a_belt() {
        let found =
            belts(&[around(100.0, 1.1, 10_000), vec![(5.0, 3), (10_000.0, 3)]].concat(), 0.01, 1.0);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].least > 90.0 && found[0].most < 111.0 && found[0].share == 1.0,
            "{found:?}"
        );
        assert!(found[0].share_interval[1] >= found[0].share, "{found:?}");
    }

    #[test]
    fn chance_makes_no_belts() {
        use rand::{RngExt, SeedableRng};
        for seed in 0..50 {
            let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
            // Exponential: a single mode with a long tail, which is where false modes come up.
            let values: Vec<(f64, u64)> = (0..1_000)
                .map(|_| (50.0 - 100.0 * (1.0 - random.random::<f64>()).ln(), 1))
                .collect();
            assert_eq!(belts(&values, 0.01, 1.0).len(), 1, "seed {seed}");
        }
    }

    #[test]
    fn what_is_rare_or_near_belongs_to_its_neighbour() {
        let found = belts(&[(50.0, 990), (10_000.0, 400), (20_000.0, 3)], 0.02, 1.0);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[1].least, found[1].most, found[1].count), (10_000.0, 20_000.0, 403));
        // One merge, or two (the simulated Mtron): told apart, but one belt.
        let merges = [(60.0, 5_000), (7_300.0, 400), (14_500.0, 4_600)];
        assert_eq!((belts(&merges, 0.01, 1.0).len(), belts(&merges, 0.01, 3.0).len()), (3, 2));
        // One in a thousand, but most of the time.
        let long = belts(&[(60.0, 100_000), (95_000.0, 100)], 0.01, 3.0);
        assert!(long.len() == 2 && long[1].count == 100, "{long:?}");
    }
}
