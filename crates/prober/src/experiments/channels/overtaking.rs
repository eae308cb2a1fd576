//! Test for a shared channel: a short read overtakes a long one from another unit, unless they
//! share a channel.
//!
//! If each has a channel of its own, a short read whose data is ready just after that of a long one
//! comes to the host before it, and otherwise after it. If a transfer of the long one takes `C` on
//! the channel and `L` on the link, the long one is first for `C` more of the times that may lie
//! between the two. How often either is first is counted, whatever the noise of the reads
//! themselves: a read that ends next to another one has waited for the link, so how near they end
//! says what each takes there, and how many should end that near if nothing but the link were
//! shared.
//!
//! `D = C + L` shows in how much longer a long read takes, and a channel is taken to be at most
//! [`FASTEST`] times as fast as the link, so that `C` is at least `D / (1 + FASTEST)`. So it is
//! known what would have been seen.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use units::Nanos;

use super::{
    CACHED, Distances, FASTEST, Judged, Long, Pilot, Question, Units, ask, random_chunk, read,
};
use crate::analysis::estimate::Estimate;
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::experiments::inside::Lagged;

/// The least share of a long read's data that is its time on a channel.
const LEAST: f64 = 1.0 / (1.0 + FASTEST);
/// Range of ends that are counted beyond those of reads that waited for the link, as a share of the
/// time of the additional data.
const BEYOND: f64 = 0.3;
/// Least wait on a shared channel, in standard errors, for its absence to be clear.
const ERRORS: f64 = 8.0;
/// Largest share of the link in the time of the additional data. With more, reads may end near each
/// other because all units share a channel.
const MOST_OF_LINK: f64 = 1.05 - LEAST;
/// Standard deviations of the noise by which lags go beyond the range that counts, so that all of
/// that range is equally likely.
const NOISE: f64 = 1.8;

/// Asks whether reads overtake each other, with as many as show most.
///
/// # Errors
/// Those of [`Bench::play`].
pub(super) fn measure(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    units: &Units,
    pilot: &Pilot,
    long: &Long,
    time: Nanos,
) -> Result<Judged, ProbeError> {
    let [three, four] = [3, 4].map(|reads| Lags::of(reads, pilot, long).is_whole);
    if three {
        ask(bench, random, &mut Overtaking::<3>::new(units, pilot, long), time)
    } else if four {
        ask(bench, random, &mut Overtaking::<4>::new(units, pilot, long), time)
    } else {
        ask(bench, random, &mut Overtaking::<5>::new(units, pilot, long), time)
    }
}

/// Times at which the long read is sent, in nanoseconds after the others: equally likely at any
/// time at which its data may meet that of the last of them.
#[derive(Clone, Copy, Debug)]
struct Lags {
    from: f64,
    to: f64,
    /// None of these is too early for the drive, which takes one command after the other.
    is_whole: bool,
}

impl Lags {
    /// For so many reads together.
    fn of(reads: usize, pilot: &Pilot, long: &Long) -> Self {
        // The last of the others is ready when those before it have been read.
        let middle = (reads - 2) as f64 * pilot.spacing.mean;
        let noise = NOISE * (reads as f64).sqrt() * pilot.spread.max(1.0);
        let data = (1.0 + BEYOND) * long.data[1];
        // A lag below that would be none.
        let earliest = (reads - 1) as f64 * pilot.gap;
        let from = middle - data - pilot.gap - noise;
        let to = middle.max(earliest) + noise + BEYOND * long.data[1] + pilot.gap;
        Self { from: from.max(earliest), to, is_whole: from >= earliest }
    }
}

/// Sectors of one unit, each of which is read when the one before is done, and a long read in
/// another unit whose data is ready about when that of the last one is. Those before are there so
/// that the drive has all commands in time: two that it has to take one after the other cannot end
/// together.
struct Overtaking<'a, const J: usize> {
    units: Units,
    pilot: &'a Pilot,
    long: Long,
    lags: Lags,
    distances: Distances,
    /// Times by which the long read ended later than the last of these, in nanoseconds, for each
    /// distance.
    later: Vec<Vec<f64>>,
}

impl<'a, const J: usize> Overtaking<'a, J> {
    fn new(units: &Units, pilot: &'a Pilot, long: &Long) -> Self {
        let distances = Distances::of(units);
        let later = vec![Vec::new(); distances.divisors.len()];
        Self { units: *units, pilot, long: *long, lags: Lags::of(J, pilot, long), distances, later }
    }

    /// The farthest that ends count, in nanoseconds.
    fn reach(&self) -> f64 {
        2.0 * (self.long.data[1] + self.pilot.gap + 5000.0)
    }
}

/// Gives the time of one of the two reads on the link, in nanoseconds: the least by which it ends
/// after the other. `None` if there are too few.
fn on_link(later: &[Vec<f64>], side: f64) -> Option<f64> {
    const FEWEST: usize = 200;
    /// One in so many may be nearer for other reasons.
    const ONE_IN: usize = 500;
    let mut ends: Vec<f64> =
        later.iter().flatten().map(|later| side * later).filter(|&end| end >= 0.0).collect();
    let rank = (ends.len() / ONE_IN).max(1);
    (ends.len() > FEWEST).then(|| *ends.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// Gives the time for which a channel keeps the long read first, in nanoseconds, at each distance;
/// and true if a channel that all share could not look like that.
///
/// `later` says how much later the long read ended than the short one, and `more` how much longer
/// it takes.
fn held(later: &[Vec<f64>], more: f64) -> Option<(Vec<Estimate>, bool)> {
    let (of_long, of_short) = (on_link(later, 1.0)?, on_link(later, -1.0)?);
    let beyond = BEYOND * more;
    let width = of_long + of_short + 2.0 * beyond;
    let held = later.iter().map(|later| {
        let all =
            later.iter().filter(|&&later| (-of_short - beyond..of_long + beyond).contains(&later));
        let (count, first) = all.fold((0.0, 0.0), |(count, first), &later| {
            (count + 1.0, first + f64::from(u8::from(later < 0.0)))
        });
        let share = (first + 1.0) / (count + 2.0);
        let error = (share * (1.0 - share) / (count + 2.0)).sqrt();
        // On channels of their own, the long one is first if it comes while the link is free or the
        // short one is still to come to it.
        Estimate {
            mean: share * width - (of_long + beyond),
            error: error * width,
            freedom: f64::INFINITY,
        }
    });
    Some((held.collect(), of_long - of_short < MOST_OF_LINK * more))
}

impl<const J: usize> Question<J> for Overtaking<'_, J> {
    fn conditions(&self) -> usize {
        self.later.len()
    }

    fn draw(&self, random: &mut Pcg64Mcg, condition: usize) -> [Lagged; J] {
        let Units { order, count, sector, .. } = self.units;
        let (distances, lags, long) = (&self.distances, &self.lags, &self.long);
        let [other, _] = distances.draw(random, condition, count);
        let rows = distances.rows * count as u64;
        let first = random_chunk(random, &order, other.max(rows));
        let lag = random.random_range(lags.from..=lags.to);
        std::array::from_fn(|index| match J - 1 - index {
            0 => read(random, &order, first + other, long.bytes, lag as Nanos),
            1 => read(random, &order, first, sector, 0),
            // In other rows than the last, and each other's: a read by itself.
            turn => read(
                random,
                &order,
                first + (1 + turn as u64 % distances.rows) * count as u64,
                sector,
                0,
            ),
        })
    }

    fn add_round(&mut self, groups: &[(usize, [Lagged; J])], latencies: &[[f64; J]]) -> usize {
        let mut counted = 0;
        for ((condition, reads), latencies) in groups.iter().zip(latencies) {
            // What those before took, the last waited for.
            let waited = latencies[J - 2] - latencies[J - 3];
            let are_read = latencies[0] > self.pilot.least
                && waited > (1.0 - CACHED) * self.units.wait
                && latencies[J - 1] > self.pilot.least.min(self.long.least);
            let later = reads[J - 1].lag as f64 + latencies[J - 1] - latencies[J - 2];
            counted += usize::from(are_read);
            if are_read && later.abs() < self.reach() {
                self.later[*condition].push(later);
            }
        }
        counted
    }

    fn judge(&self) -> Judged {
        let Some((held, is_link)) = held(&self.later, self.long.more.mean) else {
            return self.distances.unknown();
        };
        let least = LEAST * self.long.more.mean;
        let mut judged = self.distances.judge(
            &held,
            self.later.iter().map(Vec::len).sum::<usize>() as f64,
            least,
        );
        let is_none = |held: &Estimate| held.high() < least / 2.0 && held.error * ERRORS < least;
        let is_seen = self.lags.is_whole && is_link && !self.pilot.is_vague(&self.long);
        let sharing = &mut judged.sharing;
        sharing.most_added = held.iter().map(Estimate::high).fold(0.0, f64::max);
        sharing.is_excluded =
            is_seen && sharing.levels.periods.is_empty() && held.iter().all(is_none);
        judged.settled()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    /// Times of a short and a long read on the channel and on the link.
    struct Times {
        channel: [f64; 2],
        link: [f64; 2],
    }

    impl Times {
        fn more(&self) -> f64 {
            self.channel[1] - self.channel[0] + self.link[1] - self.link[0]
        }

        /// Gives the times by which long reads end later that are ready at random times about the
        /// short one.
        fn later(&self, is_shared: bool, seed: u64) -> Vec<f64> {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let most = 2.0 * (self.channel[1] + self.link[1]);
            let ready = (0..20_000).map(|_| [0.0, random.random_range(-most..most)]);
            let ends = ready.map(|ready| {
                let first = usize::from(ready[1] < ready[0]);
                let (mut ends, mut free) = (ready, f64::NEG_INFINITY);
                for which in [first, 1 - first] {
                    ends[which] = if is_shared { ready[which].max(free) } else { ready[which] }
                        + self.channel[which];
                    free = ends[which];
                }
                let first = usize::from(ends[1] < ends[0]);
                let mut free = f64::NEG_INFINITY;
                for which in [first, 1 - first] {
                    ends[which] = ends[which].max(free) + self.link[which];
                    free = ends[which];
                }
                ends[1] - ends[0]
            });
            ends.collect()
        }
    }

    #[test]
    fn a_channel_is_seen_by_which_read_is_first() {
        // The link with frames of 1; channels that are faster than it, and one that is slower.
        for (channel, link) in
            [([0.3, 2.6], [2.9, 8.6]), ([0.1, 0.8], [0.15, 1.2]), ([2.7, 21.9], [0.08, 0.6])]
        {
            let times = Times { channel, link };
            let (held, is_seen) =
                held(&[times.later(false, 1), times.later(true, 2)], times.more()).unwrap();
            let least = LEAST * times.more();
            assert!(
                is_seen && held[0].mean.abs() < 0.3 * least && held[0].error * ERRORS < 2.0 * least,
                "{held:?}"
            );
            assert!(held[1].mean > 0.8 * least, "{held:?}: at least {least}");
        }
    }

    #[test]
    fn one_channel_for_all_does_not_look_like_many() {
        for (channel, link) in [
            ([0.3, 2.6], [2.9, 8.6]),
            ([2.7, 21.9], [0.08, 0.6]),
            ([1.0, 8.0], [1.0, 2.0]),
            ([0.5, 5.5], [2.0, 6.0]),
        ] {
            let times = Times { channel, link };
            let (held, is_seen) =
                held(&[times.later(true, 3), times.later(true, 4)], times.more()).unwrap();
            let least = LEAST * times.more();
            assert!(
                !is_seen || held.iter().all(|held| held.mean > 0.7 * least),
                "{held:?}: at least {least}"
            );
        }
    }
}
