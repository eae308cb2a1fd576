//! Whether units share a channel, where two reads of the same size at a time do not tell.
//!
//! If a channel is faster than the link to the host, two reads of one size on it wait for nothing that they would not wait for at the link anyway. Two
//! kinds of reads do:
//!
//! - *Overtaking*: a short read whose data is ready just after that of a long one, from another unit, comes to the host before it if each has a channel
//!   of its own, and after it if they share one. If a transfer of the long one takes `C` on the channel and `L` on the link, and the time between the
//!   two is spread evenly over `W`, the short one waits `C (L + C / 2) / W` longer on average, whatever the noise of the reads themselves.
//!   `D = C + L` shows in how much longer a long read takes, and for a channel at most [`FASTEST`] times as fast as the link the wait is at least
//!   `D^2 (r - r^2 / 2) / W` with `r = 1 / (1 + FASTEST)`. So it is known what would have been seen, without knowing either `C` or `L`.
//! - *Following*: a read whose command is sent just when the data of another one is on its way waits for that on a shared channel, long before it comes to
//!   the link. Drives whose dies read on while they send (cache mode) show how long that is when both are in one unit.
//!
//! Where a page is one sector and dies do one thing after the other, nothing tells: a drive with a slow channel for each die, and one with a
//! fast channel for several dies that read for so much longer, answer any requests alike.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use units::Nanos;

use super::chunk_size::CLIP;
use super::inside::{self, ByAddress, Lagged, Order as _};
use crate::analysis::cells::Cells;
use crate::analysis::estimate::Estimate;
use crate::analysis::periods::{self, CLEAR, Levels, gcd, proper_divisors};
use crate::bench::Bench;
use crate::error::ProbeError;

/// A channel is taken to be at most so many times as fast as the link to the host: more would be of no use.
const FASTEST: f64 = 4.0;
/// What would have been seen has to be so many standard errors, and what was seen at most such a share of it, for it to be said not to be there.
const LEAST_ERRORS: f64 = 6.0;
const MOST_SHARE: f64 = 0.3;
/// On one channel for all units, waits grow with the data as it does; if the link is at least `1 / FASTEST` as fast as the channel, at most by 0.8 of it
/// on channels of their own.
const MOST_GROWN: f64 = 0.9;
/// A read that takes so much less than the others, as a share of what one takes a unit, was answered by a cache.
const CACHED: f64 = 0.6;
/// Groups of reads of each condition in a round, rounds from look to look, and rounds at most.
const EACH: usize = 16;
const ROUNDS_A_LOOK: usize = 8;
const MOST_ROUNDS: usize = 20_000;

/// What groups of reads say of channels.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// The distances in chunks at which they wait for each other more than at others.
    pub levels: Levels,
    /// By how much they would wait longer if they shared a channel, in nanoseconds: 0 if that is not known.
    pub expected: f64,
    /// By how much they did at any distance, at most, with 95 % confidence, in nanoseconds.
    pub most_added: f64,
    /// Sharing would have been seen.
    pub is_excluded: bool,
    /// It was seen that units are what reads one thing after the other, and not channels with more on them that reads do not tell apart.
    pub are_dies: bool,
}

/// Units that chunks lie in in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub order: ByAddress,
    pub count: usize,
    pub sector: u64,
    /// How long the second of two reads in one unit waits, in nanoseconds.
    pub wait: f64,
}

/// Measures for about so long.
///
/// # Errors
/// Those of [`Bench::play`].
pub(super) fn measure(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    units: &Units,
    page: Option<u64>,
    time: Nanos,
) -> Result<Sharing, ProbeError> {
    let pilot = Pilot::measure(bench, random, units, page, time / 8)?;
    let Some(long) = pilot.long else { return following(bench, random, units, &pilot, time).map(|judged| judged.sharing) };
    let mut judged = overtaking(bench, random, units, &pilot, &long, time)?;
    // Two reads in one unit end as far apart as a transfer takes if that is all that keeps one waiting.
    let transfer = long.data[1] * units.sector as f64 / long.bytes as f64;
    judged.sharing.are_dies = pilot.spacing.low() > 1.15 * transfer;
    if judged.sharing.is_excluded && !judged.sharing.are_dies {
        judged.sharing.are_dies = following(bench, random, units, &pilot, time / 4)?.sharing.are_dies;
    }
    Ok(judged.sharing)
}

/// What has to be known of reads by themselves and of two in one unit.
#[derive(Clone, Debug)]
struct Pilot {
    /// Latency of a sector that is read: least, mean, and standard deviation, in nanoseconds.
    least: f64,
    single: f64,
    spread: f64,
    /// How much later the second of two reads sent together ends if they are in different units, and in one, in nanoseconds.
    gap: f64,
    spacing: Estimate,
    long: Option<Long>,
}

/// A read that is longer than a sector and of one page.
#[derive(Clone, Copy, Debug)]
struct Long {
    bytes: u64,
    /// Its latency if it is read, at least, in nanoseconds.
    least: f64,
    /// What its data takes on channel and link together, in nanoseconds: at least, and at most.
    data: [f64; 2],
}

/// Latencies without those of reads that a cache answered, which save the time of a read, and without pauses: the least that may be, and the others.
fn of_reads(latencies: &mut [f64], wait: f64) -> (f64, Vec<f64>) {
    latencies.sort_by(f64::total_cmp);
    let median = latencies[latencies.len() / 2];
    let least = median - CACHED * wait;
    (least, latencies.iter().copied().filter(|&latency| latency > least && latency < CLIP * median).collect())
}

impl Pilot {
    fn measure(bench: &mut Bench<'_>, random: &mut Pcg64Mcg, units: &Units, page: Option<u64>, time: Nanos) -> Result<Self, ProbeError> {
        let Units { order, sector, wait, count } = *units;
        let longest = page.unwrap_or(order.chunk).min(u64::from(bench.device().most_bytes));
        let sizes: Vec<u64> =
            (0..).map(|power| sector << power).take_while(|&size| size <= longest && order.chunk.is_multiple_of(size)).collect();
        let mut latencies = vec![Vec::new(); sizes.len()];
        let mut gaps = [Vec::new(), Vec::new()];
        let (start, mut rounds) = (bench.now(), 0);
        while rounds < 30 || (rounds < 120 && bench.now() - start < time) {
            for (&length, latencies) in sizes.iter().zip(&mut latencies) {
                let mut reads: Vec<(usize, [Lagged; 1])> = Vec::with_capacity(EACH);
                for _ in 0..EACH {
                    let number = random_chunk(random, &order, 0);
                    reads.push((0, [read(random, &order, number, length, 0)]));
                }
                latencies.extend(inside::sample_lagged(bench, random, &mut reads)?.into_iter().map(|(_, [latency])| latency));
            }
            let mut pairs: Vec<(usize, [Lagged; 2])> = Vec::with_capacity(2 * EACH);
            for (condition, distance) in [1, count as u64].into_iter().cycle().take(2 * EACH).enumerate() {
                let first = random_chunk(random, &order, distance);
                pairs.push((condition % 2, [first + distance, first].map(|number| read(random, &order, number, sector, 0))));
            }
            for (condition, [first, second]) in inside::sample_lagged(bench, random, &mut pairs)? {
                gaps[condition].push(second - first);
            }
            rounds += 1;
        }
        let reads: Vec<(f64, Vec<f64>)> = latencies.iter_mut().map(|latencies| of_reads(latencies, wait)).collect();
        let estimates: Vec<Estimate> = reads.iter().map(|(_, latencies)| Estimate::of(latencies)).collect();
        let [gap, spacing] = gaps.map(|mut gaps| Estimate::of(&of_reads(&mut gaps, wait).1));
        let data = choose_long(&sizes, &estimates, page, spacing.mean);
        Ok(Self {
            least: reads[0].0,
            single: estimates[0].mean,
            spread: estimates[0].error * (reads[0].1.len() as f64).sqrt(),
            gap: gap.mean.max(0.0),
            spacing,
            long: data.map(|(index, data)| Long { bytes: sizes[index], least: reads[index].0, data }),
        })
    }
}

/// The longest read that is surely of one page, by its index among the sizes, and what its data takes, at least and at most: as long as latencies grow with
/// the bytes, and not by those of another read, which would take `spacing`. Where a transfer takes half of that it need not be longer.
///
/// If dies read pages of several planes at once, that does not show, and the data comes in as many parts; then less is seen than is
/// reckoned with, by a factor that [`FASTEST`] and [`MOST_SHARE`] leave room for.
fn choose_long(sizes: &[u64], estimates: &[Estimate], page: Option<u64>, spacing: f64) -> Option<(usize, [f64; 2])> {
    let more = |index: usize| estimates[index].minus(&estimates[index - 1]);
    let mut chosen = 0;
    for (index, &size) in sizes.iter().enumerate().skip(1) {
        let is_linear = match index {
            1 => more(1).high() < 0.85 * spacing,
            _ => more(index).low() < 2.0 * 1.3 * more(index - 1).high(),
        };
        let is_enough = chosen > 0 && estimates[chosen].minus(&estimates[0]).mean > 0.5 * spacing;
        if page.is_none_or(|page| size > page) && (!is_linear || is_enough) {
            break;
        }
        chosen = index;
    }
    let whole = sizes[chosen] as f64 / (sizes[chosen] - sizes[0]).max(1) as f64;
    let added = (chosen > 0).then(|| estimates[chosen].minus(&estimates[0]).times(whole))?;
    (added.low() > 0.0).then_some((chosen, [added.low(), added.high()]))
}

fn random_chunk(random: &mut Pcg64Mcg, order: &ByAddress, beyond: u64) -> u64 {
    random.random_range(0..order.count() - beyond)
}

/// A read of so many bytes somewhere in a chunk.
fn read(random: &mut Pcg64Mcg, order: &ByAddress, number: u64, length: u64, lag: Nanos) -> Lagged {
    let offset = order.offset(number) + random.random_range(0..order.chunk / length) * length;
    Lagged { offset, length, lag }
}

/// Distances between units, by what they have in common with the number of units.
struct Distances {
    divisors: Vec<usize>,
    residues: Vec<Vec<usize>>,
    /// Whole rows between two chunks at most, so many that pages of all types meet.
    rows: u64,
}

impl Distances {
    fn of(units: &Units) -> Self {
        let count = units.count;
        let divisors = proper_divisors(count);
        let residues = divisors.iter().map(|&divisor| (1..count).filter(|&residue| gcd(residue, count) == divisor).collect()).collect();
        let rows = (units.order.count / count as u64 / 3).saturating_sub(1).clamp(1, 12);
        Self { divisors, residues, rows }
    }

    /// A chunk in a unit at such a distance from that of chunk 0, and one in the same unit.
    fn draw(&self, random: &mut Pcg64Mcg, condition: usize, count: usize) -> [u64; 2] {
        let residues = &self.residues[condition];
        let residue = residues[random.random_range(0..residues.len())] as u64;
        let [one, other] = [0; 2].map(|_| random.random_range(1..=self.rows) * count as u64);
        [residue + one, other]
    }

    /// Judges by the mean waits at each distance, where sharing would add so much.
    fn judge(&self, estimates: &[Estimate], measurements: f64, expected: f64) -> Judged {
        let levels = periods::levels(estimates, &self.divisors, &self.divisors[1..], 2, measurements);
        let above = |estimate: &Estimate| estimate.minus(&estimates[0]);
        let most_added = estimates[1..].iter().map(|estimate| above(estimate).high()).fold(0.0, f64::max);
        let is_exact = estimates.iter().all(|estimate| expected > LEAST_ERRORS * above(estimate).error);
        let is_excluded = levels.periods.is_empty() && expected > 0.0 && is_exact && most_added < MOST_SHARE * expected;
        let is_clear = is_excluded || (!levels.periods.is_empty() && levels.margin > 1.5 * CLEAR);
        Judged { sharing: Sharing { levels, expected, most_added, is_excluded, are_dies: false }, is_clear }
    }
}

/// What the waits at each distance say, and whether they do so clearly.
struct Judged {
    sharing: Sharing,
    is_clear: bool,
}

impl Judged {
    /// The same, but sharing is excluded only if this holds, too.
    fn excluded_if(mut self, holds: bool) -> Self {
        self.sharing.is_excluded &= holds;
        self.is_clear &= holds || !self.sharing.levels.periods.is_empty();
        self
    }
}

/// Plays groups of reads of each condition and adds up what they say until that is clear or the time is over.
fn compare<const J: usize>(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    conditions: usize,
    time: Nanos,
    draw: impl Fn(&mut Pcg64Mcg, usize) -> [Lagged; J],
    value: impl Fn([f64; J]) -> Option<f64>,
    judge: impl Fn(&[Estimate], f64) -> Judged,
) -> Result<Judged, ProbeError> {
    let mut cells = Cells::new(conditions, CLIP);
    let (start, mut rounds, mut played) = (bench.now(), 0, 0);
    loop {
        let mut groups: Vec<(usize, [Lagged; J])> = Vec::with_capacity(EACH * conditions);
        for condition in (0..conditions).flat_map(|condition| [condition; EACH]) {
            groups.push((condition, draw(random, condition)));
        }
        played += groups.len();
        let latencies = inside::sample_lagged(bench, random, &mut groups)?;
        let values: Vec<(usize, f64)> = latencies.into_iter().filter_map(|(condition, each)| Some((condition, value(each)?))).collect();
        cells.add_round(&values);
        rounds += 1;
        let is_over = rounds >= MOST_ROUNDS || bench.now() - start > time;
        if rounds % ROUNDS_A_LOOK != 0 && !is_over {
            continue;
        }
        let judged = judge(&cells.estimates(), cells.count()).excluded_if(cells.count() > 0.5 * played as f64);
        if judged.is_clear || is_over {
            return Ok(judged);
        }
    }
}

/// When the long read is sent, in nanoseconds after the others.
#[derive(Clone, Copy, Debug)]
struct Lags {
    from: f64,
    to: f64,
    /// So long before the last of the others the long read's data comes at the earliest, but for noise.
    reach: f64,
}

impl Lags {
    /// For so many reads together.
    fn of(reads: usize, pilot: &Pilot, long: &Long) -> Self {
        // The last of the others is ready when those before it have been read.
        let middle = (reads - 2) as f64 * pilot.spacing.mean;
        let noise = (reads as f64).sqrt() * pilot.spread;
        // The drive takes one command after the other: a lag below that would be none.
        let earliest = (reads - 1) as f64 * pilot.gap;
        let from = (middle - long.data[1] - pilot.gap - 2.5 * noise).max(earliest);
        let to = middle.max(from) + 2.5 * noise.max(1.0);
        Self { from, to, reach: (middle - from - noise).max(0.0) }
    }

    /// The least that a shared channel would add on average.
    fn expected(&self, long: &Long) -> f64 {
        let ratio = 1.0 / (1.0 + FASTEST);
        let data = long.data[0].min(self.reach);
        data * data * (ratio - ratio * ratio / 2.0) / (self.to - self.from)
    }
}

/// As [`overtaking_of`], with as many reads as show most.
fn overtaking(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    units: &Units,
    pilot: &Pilot,
    long: &Long,
    time: Nanos,
) -> Result<Judged, ProbeError> {
    let [three, four, five] = [3, 4, 5].map(|reads| Lags::of(reads, pilot, long).expected(long));
    if three >= four.max(five) {
        overtaking_of::<3>(bench, random, units, pilot, long, time)
    } else if four >= five {
        overtaking_of::<4>(bench, random, units, pilot, long, time)
    } else {
        overtaking_of::<5>(bench, random, units, pilot, long, time)
    }
}

/// Sectors of one unit, each of which is read when the one before is done, and a long read in another unit whose data is ready about when that of
/// the last one is. Those before are there so that the drive has all commands in time: two that it has to take one after the other
/// cannot end together.
fn overtaking_of<const J: usize>(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    units: &Units,
    pilot: &Pilot,
    long: &Long,
    time: Nanos,
) -> Result<Judged, ProbeError> {
    let Units { order, count, sector, .. } = *units;
    let distances = Distances::of(units);
    // The long read after all else, and a short one in its place.
    let (alone, short) = (distances.divisors.len(), distances.divisors.len() + 1);
    let lags = Lags::of(J, pilot, long);
    let (data, width, expected) = (long.data[0], lags.to - lags.from, lags.expected(long));
    let draw = |random: &mut Pcg64Mcg, condition: usize| {
        let [other, _] = distances.draw(random, if condition < alone { condition } else { 0 }, count);
        let rows = distances.rows * count as u64;
        let first = random_chunk(random, &order, other.max(rows));
        let lag = if condition == alone { lags.to + long.data[1] } else { random.random_range(lags.from..=lags.to) };
        let length = if condition == short { sector } else { long.bytes };
        std::array::from_fn(|index| match J - 1 - index {
            0 => read(random, &order, first + other, length, lag as Nanos),
            1 => read(random, &order, first, sector, 0),
            // In other rows than the last, and each other's: a read by itself.
            turn => read(random, &order, first + (1 + turn as u64 % distances.rows) * count as u64, sector, 0),
        })
    };
    // What those before took, the last waited for.
    let value = |latencies: [f64; J]| {
        let waited = latencies[J - 2] - latencies[J - 3];
        let are_read = latencies[0] > pilot.least && waited > (1.0 - CACHED) * units.wait && latencies[J - 1] > pilot.least.min(long.least);
        are_read.then_some(waited)
    };
    let judge = |estimates: &[Estimate], measurements: f64| {
        // On one channel for all the last waits for all the data, or as much of it as comes so early; that is more than the link's part of it if the
        // channel is the slower one.
        let added = |condition: usize| estimates[condition].minus(&estimates[alone]);
        let reach = data.min(lags.reach);
        let is_little = added(0).high() * width < 0.8 * (reach * data - reach * reach / 2.0);
        // The square of what holds the last up, over twice the width, is what it waits. That grows as the data on channel and link does, otherwise as
        // that on the link; what the link needs for each read is in it, too, and the same for both lengths.
        let holds = |condition: usize, end: fn(&Estimate) -> f64| (2.0 * width * end(&added(condition)).max(0.0)).sqrt();
        let grown = holds(0, Estimate::high) - holds(short, Estimate::low);
        let is_all_seen = lags.reach > long.data[1] + pilot.gap;
        let is_many = is_little || (is_all_seen && grown < MOST_GROWN * data * (1.0 - sector as f64 / long.bytes as f64));
        distances.judge(&estimates[..alone], measurements, expected).excluded_if(is_many)
    };
    compare(bench, random, short + 1, time, draw, value, judge)
}

/// Of a jump in the middle of lags that are spread over three standard deviations of when it comes, the second half shows so much more than the first.
const SEEN_OF_JUMP: f64 = 0.54;

/// Two sectors, the second of which is asked for about when the first has been read and is sent.
fn following(bench: &mut Bench<'_>, random: &mut Pcg64Mcg, units: &Units, pilot: &Pilot, time: Nanos) -> Result<Judged, ProbeError> {
    let Units { order, count, sector, .. } = *units;
    let distances = Distances::of(units);
    let alone = distances.divisors.len();
    // Both in one unit, the second before the first has been read, and after.
    let [early, late] = [alone + 1, alone + 2];
    let wait = pilot.spacing.mean;
    // Not before the drive has taken the first command.
    let half = (1.5 * pilot.spread).max(0.05 * wait).min(wait - pilot.gap).max(1.0);
    let draw = |random: &mut Pcg64Mcg, condition: usize| {
        let [other, same] = distances.draw(random, condition.min(alone - 1), count);
        let distance = if condition > alone { same } else { other };
        let first = random_chunk(random, &order, distance);
        let lag = match condition {
            _ if condition == alone => pilot.single + 4.0 * half,
            _ if condition == early => wait - random.random_range(0.0..=half),
            _ if condition == late => wait + random.random_range(0.0..=half),
            _ => random.random_range((wait - half)..=(wait + half)),
        };
        [read(random, &order, first + distance, sector, 0), read(random, &order, first, sector, lag as Nanos)]
    };
    let value = |latencies: [f64; 2]| latencies.iter().all(|&latency| latency > pilot.least).then_some(latencies[1]);
    let judge = |estimates: &[Estimate], measurements: f64| {
        // In one unit the second waits for the first to be read: on average by so much, as far as reads vary normally, and by half of `half` more
        // before than after. Where the unit goes on reading while it sends, it waits for the data as well, and only after.
        let for_reading = (half * half + pilot.spread * pilot.spread) / (4.0 * half);
        let jump = estimates[late].minus(&estimates[early]);
        let is_jump = jump.mean + half > 1.5 * half / 2.0 + LEAST_ERRORS * jump.error;
        // Where transfers take longer than reads, and are all that keeps the second waiting, it jumps, too: by the time of a read, and as early as
        // that. So what it jumps by has to be less than when.
        let jumps_by = ((jump.mean + half) / SEEN_OF_JUMP).max(estimates[late].mean - estimates[0].mean + half / 2.0);
        let are_dies = is_jump && half >= 1.5 * pilot.spread && wait - jumps_by > half + 2.0 * pilot.spread;
        let together = (estimates[early].mean + estimates[late].mean) / 2.0 - estimates[0].mean;
        let expected = if are_dies { (together - for_reading).max(0.0) } else { 0.0 };
        let mut judged = distances.judge(&estimates[..alone], measurements, expected);
        judged.sharing.are_dies = are_dies;
        let added = estimates[0].minus(&estimates[alone]);
        judged.excluded_if(added.high() < MOST_SHARE * expected)
    };
    compare(bench, random, late + 1, time, draw, value, judge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mean: f64) -> Estimate {
        Estimate { mean, error: 0.1, freedom: f64::INFINITY }
    }

    #[test]
    fn the_long_read_ends_where_another_page_begins() {
        // 512 bytes take 2 us, a read 40 us, and pages have 2048 bytes.
        let latencies = [60.0, 62.0, 66.0, 114.0, 210.0].map(at);
        let sizes = [512, 1024, 2048, 4096, 8192];
        let (chosen, [least, most]) = choose_long(&sizes, &latencies, None, 42.0).unwrap();
        assert_eq!(sizes[chosen], 2048);
        assert!(least < 8.0 && 8.0 < most && most < 9.0, "{least} ... {most}: all of its bytes, those of the first sector, too");
        // A page of one sector: what comes with the second may be another read.
        assert_eq!(choose_long(&sizes[..2], &[60.0, 100.0].map(at), None, 42.0), None);
        assert_eq!(choose_long(&sizes[..1], &[at(60.0)], None, 42.0), None);
    }

    #[test]
    fn nothing_is_excluded_that_would_hardly_have_been_seen() {
        let order = ByAddress { chunk: 4096, phase: 0, count: 1000 };
        let distances = Distances::of(&Units { order, count: 12, sector: 512, wait: 40.0 });
        assert_eq!(distances.divisors, [1, 2, 3, 4, 6]);
        let flat = [at(60.0); 5];
        let judged = |estimates: &[Estimate], expected| distances.judge(estimates, 1000.0, expected);
        assert!(judged(&flat, 2.0).sharing.is_excluded);
        assert!(!judged(&flat, 0.5).sharing.is_excluded, "of the size of the errors");
        assert!(!judged(&flat, 0.0).sharing.is_excluded, "it is not known what would be seen");
        assert!(!judged(&flat, 2.0).excluded_if(false).sharing.is_excluded);
        let shared = [60.0, 60.0, 60.0, 62.0, 60.0].map(at);
        let found = judged(&shared, 2.0).sharing;
        assert!(!found.is_excluded && found.levels.periods == [4], "{found:?}");
    }
}
