//! How long a die has to rest before it is given something on the side (REPLICATION 4.2.2).

/// The vector t of thresholds of a die, in units of time: how long it has to rest before the first
/// command on the side of an idle period, and after each before the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Thresholds(Vec<u32>);

/// Most commands on the side in one idle period that have a threshold of their own.
const MOST: usize = 64;

impl Thresholds {
    /// For the command of this number within an idle period.
    pub fn of(&self, number: usize) -> u32 {
        self.0.get(number).or(self.0.last()).copied().unwrap_or(0)
    }

    /// From the lengths of idle periods of the last epoch, `lengths[i]` of them of i units, for
    /// commands that take `work` units each, of which `wanted` were asked for in the epoch.
    ///
    /// An idle period of i units, t <= i < t + work, makes whoever ends it wait for t + work - i.
    /// The paper looks for the t with the least expected delay. Taken by itself that is a t that no
    /// period reaches; we take the delay for each command on the side that is done, over those t
    /// that enough periods reach: as many as there are commands wanted, or all where they are
    /// fewer. Of several equal ones the shortest. For the next number the same over what is left of
    /// the periods then, until t and work together reach the longest (the paper's M).
    pub fn of_lengths(lengths: &[u32], work: u32, wanted: u64) -> Self {
        let work = work.max(1) as usize;
        let longest = lengths.iter().rposition(|&count| count > 0);
        let end = longest.map_or(0, |longest| longest + 1);
        let (mut thresholds, mut from, mut left) = (Vec::new(), 0, wanted);
        while from < end && thresholds.len() < MOST {
            let Some((threshold, done)) = best(&lengths[from..end], work, left) else { break };
            thresholds.push(threshold as u32);
            left = left.saturating_sub(done);
            from += threshold + work;
        }
        Self(thresholds)
    }
}

/// The threshold over what is left of idle periods, and how many of them reach it.
fn best(lengths: &[u32], work: usize, wanted: u64) -> Option<(usize, u64)> {
    let mut reach: Vec<u64> = vec![0; lengths.len() + 1];
    for length in (0..lengths.len()).rev() {
        reach[length] = reach[length + 1] + u64::from(lengths[length]);
    }
    let enough = wanted.clamp(1, reach[0].max(1));
    let cost = |threshold: usize| {
        let end = lengths.len().min(threshold + work);
        let delay = (threshold..end)
            .map(|length| u64::from(lengths[length]) * (threshold + work - length) as u64)
            .sum::<u64>();
        delay as f64 / reach[threshold] as f64
    };
    (0..lengths.len())
        .filter(|&threshold| reach[threshold] >= enough)
        .map(|threshold| (cost(threshold), threshold))
        .reduce(|least, next| if next.0 < least.0 { next } else { least })
        .map(|(_, threshold)| (threshold, reach[threshold]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(counts: &[(usize, u32)]) -> Vec<u32> {
        let mut lengths = vec![0; 256];
        counts.iter().for_each(|&(length, count)| lengths[length] = count);
        lengths
    }

    /// The idea: waiting separates many short periods from few long ones.
    #[test]
    fn what_is_done_on_the_side_waits_out_the_short_periods() {
        let both = lengths(&[(1, 900), (2, 100), (100, 50)]);
        assert_eq!(Thresholds::of_lengths(&both, 4, 40).of(0), 3);
        // More is wanted than the long ones can take: nothing is waited for.
        assert_eq!(Thresholds::of_lengths(&both, 4, 2000).of(0), 0);
        // Within the long ones nothing comes between; the last may not run over their end.
        let all = Thresholds::of_lengths(&both, 4, 40);
        assert_eq!((all.of(1), all.of(5)), (0, 0));
    }

    #[test]
    fn nothing_is_waited_for_where_waiting_tells_nothing() {
        assert_eq!(Thresholds::of_lengths(&lengths(&[(50, 100)]), 4, 10).of(0), 0);
        assert_eq!(Thresholds::of_lengths(&[], 4, 10), Thresholds::default());
        assert_eq!(Thresholds::default().of(3), 0);
    }

    /// Against trying every threshold, for the first command.
    #[test]
    fn the_first_threshold_is_the_best_of_all() {
        let mut state = 1_u64;
        for _ in 0..200 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u32
            };
            let lengths: Vec<u32> = (0..40).map(|_| next() % 7).collect();
            let (work, wanted) = (1 + next() % 9, u64::from(next() % 60));
            let cost = |t: usize| {
                let reached: u32 = lengths[t..].iter().sum();
                let mut delay = 0;
                for (length, &count) in lengths.iter().enumerate() {
                    if length >= t && length < t + work as usize {
                        delay += count * (t as u32 + work - length as u32);
                    }
                }
                (u64::from(reached) >= wanted.max(1)).then(|| f64::from(delay) / f64::from(reached))
            };
            let least = (0..40).filter_map(cost).fold(f64::INFINITY, f64::min);
            let found = Thresholds::of_lengths(&lengths, work, wanted).of(0) as usize;
            if least.is_finite() {
                assert!((cost(found).unwrap() - least).abs() < 1e-12);
            }
        }
    }
}
