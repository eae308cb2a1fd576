//! Tests for channels that units share, where two reads of the same size at a time do not tell.
//!
//! If a channel is faster than the link to the host, two reads of one size on it wait for nothing
//! that they would not wait for at the link anyway. Two kinds of reads do: those that overtake
//! ([`overtaking`]), and those that follow when another one's data is on its way ([`following`]).
//! Both are [questions](Question) that are asked until what they say is clear or the time is over.
//! This module has the parts that they share.

mod following;
mod overtaking;

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use units::Nanos;

use super::chunk_size::CLIP;
use super::inside::{self, ByAddress, Lagged, Order as _};
use crate::analysis::estimate::Estimate;
use crate::analysis::periods::{self, CLEAR, Levels, gcd, proper_divisors};
use crate::bench::Bench;
use crate::error::ProbeError;
use following::Following;

/// A channel is taken to be at most so many times as fast as the link to the host: more would be of
/// no use.
pub(super) const FASTEST: f64 = 4.0;
/// A read that takes so much less than the others, as a share of what one takes a unit, was
/// answered by a cache.
pub(super) const CACHED: f64 = 0.6;
/// Groups of reads of each condition in a round, rounds before the first look, and rounds at most.
const EACH: usize = 16;
const FIRST_LOOK: usize = 8;
const MOST_ROUNDS: usize = 20_000;

/// Evidence of groups of reads on shared channels.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// The distances in chunks at which they wait for each other more than at others.
    pub levels: Levels,
    /// Time by which they would wait longer if they shared a channel, in nanoseconds: 0 if that is
    /// not known.
    pub expected: f64,
    /// Most that they waited longer at any distance, with 95 % confidence, in nanoseconds.
    pub most_added: f64,
    /// True if sharing would have been seen.
    pub is_excluded: bool,
    /// True if it was seen that units are what reads one thing after the other, and not channels
    /// with more on them that reads do not tell apart.
    pub are_dies: bool,
}

/// Units that chunks lie in in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub order: ByAddress,
    pub count: usize,
    pub sector: u64,
    /// Wait of the second of two reads in one unit, in nanoseconds.
    pub wait: f64,
}

/// Measures for about this time.
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
    let start = bench.now();
    let pilot = Pilot::measure(bench, random, units, page, time / 8)?;
    let mut sharing = None;
    if let Some(long) = pilot.long {
        let part = (time / 2).saturating_sub(bench.now() - start);
        let mut found = overtaking::measure(bench, random, units, &pilot, &long, part)?.sharing;
        // Two reads in one unit end as far apart as a transfer takes if that is all that keeps one
        // waiting.
        let transfer = long.data[1] * units.sector as f64 / long.bytes as f64;
        found.are_dies = pilot.spacing.low() > 1.15 * transfer;
        if !found.levels.periods.is_empty() || (found.is_excluded && found.are_dies) {
            return Ok(found);
        }
        sharing = Some(found);
    }
    let left = time.saturating_sub(bench.now() - start);
    let mut following = Following::new(bench, random, units, &pilot)?;
    let followed = ask(bench, random, &mut following, left)?.sharing;
    Ok(match sharing {
        Some(found) if found.is_excluded => Sharing { are_dies: followed.are_dies, ..found },
        Some(found) if followed.levels.periods.is_empty() && !followed.is_excluded => {
            Sharing { are_dies: found.are_dies || followed.are_dies, ..found }
        }
        Some(found) => Sharing { are_dies: found.are_dies || followed.are_dies, ..followed },
        None => followed,
    })
}

/// Latencies of single reads and of two in one unit, which the questions need.
#[derive(Clone, Debug)]
pub(super) struct Pilot {
    /// Latency of a sector that is read: least, mean, and standard deviation, in nanoseconds.
    pub least: f64,
    pub single: f64,
    pub spread: f64,
    /// Time by which the second of two reads sent together ends later, in nanoseconds: in different
    /// units, and in one.
    pub gap: f64,
    pub spacing: Estimate,
    pub long: Option<Long>,
}

/// A read that is longer than a sector and of one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Long {
    pub bytes: u64,
    /// Its latency if it is read, at least, in nanoseconds.
    pub least: f64,
    /// Time that it takes longer than a sector, in nanoseconds.
    pub more: Estimate,
    /// Time of its data on channel and link together, in nanoseconds: at least, and at most.
    pub data: [f64; 2],
}

/// Latencies without those of reads that a cache answered, which save the time of a read, and
/// without pauses: the least that may be, and the others.
fn of_reads(latencies: &mut [f64], wait: f64) -> (f64, Vec<f64>) {
    latencies.sort_by(f64::total_cmp);
    let median = latencies[latencies.len() / 2];
    let least = median - CACHED * wait;
    (
        least,
        latencies
            .iter()
            .copied()
            .filter(|&latency| latency > least && latency < CLIP * median)
            .collect(),
    )
}

impl Pilot {
    fn measure(
        bench: &mut Bench<'_>,
        random: &mut Pcg64Mcg,
        units: &Units,
        page: Option<u64>,
        time: Nanos,
    ) -> Result<Self, ProbeError> {
        let Units { order, sector, wait, count } = *units;
        let longest = page.unwrap_or(order.chunk).min(u64::from(bench.device().limits.most_bytes));
        let sizes: Vec<u64> = (0..)
            .map(|power| sector << power)
            .take_while(|&size| size <= longest && order.chunk.is_multiple_of(size))
            .collect();
        let mut latencies = vec![Vec::new(); sizes.len()];
        let mut pairs_of = [Vec::new(), Vec::new()];
        let (start, mut rounds) = (bench.now(), 0);
        while rounds < 30 || (rounds < 120 && bench.now() - start < time) {
            for (&length, latencies) in sizes.iter().zip(&mut latencies) {
                let mut reads: Vec<(usize, [Lagged; 1])> = Vec::with_capacity(EACH);
                for _ in 0..EACH {
                    let number = random_chunk(random, &order, 0);
                    reads.push((0, [read(random, &order, number, length, 0)]));
                }
                latencies.extend(
                    inside::sample_lagged(bench, random, &mut reads)?
                        .into_iter()
                        .map(|(_, [latency])| latency),
                );
            }
            let mut pairs: Vec<(usize, [Lagged; 2])> = Vec::with_capacity(2 * EACH);
            for (condition, distance) in
                [1, count as u64].into_iter().cycle().take(2 * EACH).enumerate()
            {
                let first = random_chunk(random, &order, distance);
                pairs.push((
                    condition % 2,
                    [first + distance, first].map(|number| read(random, &order, number, sector, 0)),
                ));
            }
            for (condition, pair) in inside::sample_lagged(bench, random, &mut pairs)? {
                pairs_of[condition].push(pair);
            }
            rounds += 1;
        }
        let reads: Vec<(f64, Vec<f64>)> =
            latencies.iter_mut().map(|latencies| of_reads(latencies, wait)).collect();
        let estimates: Vec<Estimate> =
            reads.iter().map(|(_, latencies)| Estimate::of(latencies)).collect();
        let least = reads[0].0;
        let [gap, spacing] = pairs_of.map(|pairs| {
            let are_read =
                pairs.into_iter().filter(|pair| pair.iter().all(|&latency| latency > least));
            let mut gaps: Vec<f64> = are_read.map(|[first, second]| second - first).collect();
            Estimate::of(&of_reads(&mut gaps, wait).1)
        });
        // A cache may know some of the pages of a read: less than half of all.
        let medians: Vec<Estimate> = reads
            .iter()
            .zip(&estimates)
            .map(|((_, latencies), estimate)| Estimate {
                mean: latencies[latencies.len() / 2],
                ..*estimate
            })
            .collect();
        let long = match choose_long(&sizes, &medians, page, spacing.mean, gap.mean.max(0.0)) {
            Some(chosen) => Some(Long::measure(
                bench,
                random,
                units,
                sizes[chosen],
                &reads[chosen].1,
                &reads[0].1,
                reads[chosen].0,
                time,
            )?),
            None => None,
        };
        Ok(Self {
            least: reads[0].0,
            single: estimates[0].mean,
            spread: estimates[0].error * (reads[0].1.len() as f64).sqrt(),
            gap: gap.mean.max(0.0),
            spacing,
            long,
        })
    }

    /// Returns true if the extra time of the long read is known to no better than a tenth.
    pub fn is_vague(&self, long: &Long) -> bool {
        long.more.half_width() > 0.1 * long.more.mean
    }
}

impl Long {
    /// Measures more exactly how much longer a read of so many bytes takes than a sector, beginning
    /// with what is known of both.
    #[allow(clippy::too_many_arguments, reason = "what is known of both lengths")]
    fn measure(
        bench: &mut Bench<'_>,
        random: &mut Pcg64Mcg,
        units: &Units,
        bytes: u64,
        long: &[f64],
        short: &[f64],
        least: f64,
        time: Nanos,
    ) -> Result<Self, ProbeError> {
        let Units { order, sector, wait, .. } = *units;
        let mut latencies = [long.to_vec(), short.to_vec()];
        let start = bench.now();
        loop {
            let [long, short] = latencies.each_ref().map(|latencies| Estimate::of(latencies));
            let more = long.minus(&short);
            if bench.now() - start > time || more.half_width() < 0.04 * more.mean {
                let data = more.times(bytes as f64 / (bytes - sector) as f64);
                return Ok(Self { bytes, least, more, data: [data.low().max(1.0), data.high()] });
            }
            for (length, all) in [bytes, sector].into_iter().zip(&mut latencies) {
                let mut reads: Vec<(usize, [Lagged; 1])> = Vec::with_capacity(8 * EACH);
                for _ in 0..8 * EACH {
                    let number = random_chunk(random, &order, 0);
                    reads.push((0, [read(random, &order, number, length, 0)]));
                }
                let mut read: Vec<f64> = inside::sample_lagged(bench, random, &mut reads)?
                    .into_iter()
                    .map(|(_, [latency])| latency)
                    .collect();
                all.extend(of_reads(&mut read, wait).1);
            }
        }
    }
}

/// The longest read that is surely of one page, by its index among the sizes, as long as latencies
/// grow with the bytes, and not by those of another read, which would take `spacing`. Where a
/// transfer takes half of that it need not be longer.
///
/// If dies read pages of several planes at once, that does not show, and the data comes in as many
/// parts; then less is seen than is reckoned with, by a factor that [`FASTEST`] and [`MOST_SHARE`]
/// leave room for.
fn choose_long(
    sizes: &[u64],
    estimates: &[Estimate],
    page: Option<u64>,
    spacing: f64,
    gap: f64,
) -> Option<usize> {
    let more = |index: usize| estimates[index].minus(&estimates[index - 1]);
    let mut chosen = 0;
    for (index, &size) in sizes.iter().enumerate().skip(1) {
        let is_linear = match index {
            // The first of several pages brings frames with it that the others do not.
            1 => more(1).high() < (0.85 * spacing).min(spacing - gap),
            _ => more(index).low() < 2.0 * 1.3 * more(index - 1).high(),
        };
        let is_enough = chosen > 0 && estimates[chosen].minus(&estimates[0]).mean > 0.5 * spacing;
        if page.is_none_or(|page| size > page) && (!is_linear || is_enough) {
            break;
        }
        chosen = index;
    }
    (chosen > 0 && estimates[chosen].minus(&estimates[0]).low() > 0.0).then_some(chosen)
}

pub(super) fn random_chunk(random: &mut Pcg64Mcg, order: &ByAddress, beyond: u64) -> u64 {
    random.random_range(0..order.count() - beyond)
}

/// A read of so many bytes somewhere in a chunk.
pub(super) fn read(
    random: &mut Pcg64Mcg,
    order: &ByAddress,
    number: u64,
    length: u64,
    lag: Nanos,
) -> Lagged {
    let offset = order.offset(number) + random.random_range(0..order.chunk / length) * length;
    Lagged { offset, length, lag }
}

/// Distances between units, by what they have in common with the number of units.
pub(super) struct Distances {
    pub divisors: Vec<usize>,
    residues: Vec<Vec<usize>>,
    /// Whole rows between two chunks at most, so many that pages of all types meet.
    pub rows: u64,
}

impl Distances {
    pub fn of(units: &Units) -> Self {
        let count = units.count;
        let divisors = proper_divisors(count);
        let residues = divisors
            .iter()
            .map(|&divisor| (1..count).filter(|&residue| gcd(residue, count) == divisor).collect())
            .collect();
        let rows = (units.order.count / count as u64 / 3).saturating_sub(1).clamp(1, 12);
        Self { divisors, residues, rows }
    }

    /// A chunk in a unit at such a distance from that of chunk 0, and one in the same unit.
    pub fn draw(&self, random: &mut Pcg64Mcg, condition: usize, count: usize) -> [u64; 2] {
        let residues = &self.residues[condition];
        let residue = residues[random.random_range(0..residues.len())] as u64;
        let [one, other] = [0; 2].map(|_| random.random_range(1..=self.rows) * count as u64);
        [residue + one, other]
    }

    /// Judges by the mean waits at each distance, where sharing would add so much; that it is not
    /// there is left to others.
    pub fn judge(&self, estimates: &[Estimate], measurements: f64, expected: f64) -> Judged {
        let levels =
            periods::levels(estimates, &self.divisors, &self.divisors[1..], 2, measurements);
        let most_added = estimates[1..]
            .iter()
            .map(|estimate| estimate.minus(&estimates[0]).high())
            .fold(0.0, f64::max);
        Judged {
            sharing: Sharing { levels, expected, most_added, is_excluded: false, are_dies: false },
            is_clear: false,
        }
    }

    /// Nothing is known of any.
    pub fn unknown(&self) -> Judged {
        let unknown = Estimate { mean: 0.0, error: f64::INFINITY, freedom: f64::INFINITY };
        self.judge(&vec![unknown; self.divisors.len()], 2.0, 0.0)
    }
}

/// Judgement of the waits at each distance, and whether it is clear.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub sharing: Sharing,
    pub is_clear: bool,
}

impl Judged {
    /// Gives the margin by which this is more credible than anything else.
    pub fn margin(&self) -> f64 {
        self.sharing.levels.margin
    }

    /// The same, but sharing is excluded only if this holds, too.
    pub fn excluded_if(mut self, holds: bool) -> Self {
        self.sharing.is_excluded &= holds;
        self.settled()
    }

    /// The same, and whether it is clear.
    pub fn settled(mut self) -> Self {
        let Sharing { levels, is_excluded, .. } = &self.sharing;
        self.is_clear = *is_excluded || (!levels.periods.is_empty() && levels.margin > 1.5 * CLEAR);
        self
    }
}

/// A question that is asked by groups of `J` reads.
pub(super) trait Question<const J: usize> {
    /// The number of conditions that groups are drawn for.
    fn conditions(&self) -> usize;
    /// A group of a condition.
    fn draw(&self, random: &mut Pcg64Mcg, condition: usize) -> [Lagged; J];
    /// Takes a round: each group with its condition, and the latencies of its reads. Returns the
    /// number of groups that count.
    fn add_round(&mut self, groups: &[(usize, [Lagged; J])], latencies: &[[f64; J]]) -> usize;
    /// Judges all groups together.
    fn judge(&self) -> Judged;
}

/// Asks until the answer is clear or the time is over.
pub(super) fn ask<const J: usize>(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    question: &mut impl Question<J>,
    time: Nanos,
) -> Result<Judged, ProbeError> {
    let conditions = question.conditions();
    let (start, mut rounds, mut played, mut counted, mut look_at) =
        (bench.now(), 0, 0, 0, FIRST_LOOK);
    loop {
        let mut groups: Vec<(usize, [Lagged; J])> = Vec::with_capacity(EACH * conditions);
        for condition in (0..conditions).flat_map(|condition| [condition; EACH]) {
            groups.push((condition, question.draw(random, condition)));
        }
        played += groups.len();
        let latencies: Vec<[f64; J]> = inside::sample_lagged(bench, random, &mut groups)?
            .into_iter()
            .map(|(_, each)| each)
            .collect();
        counted += question.add_round(&groups, &latencies);
        rounds += 1;
        let is_over = rounds >= MOST_ROUNDS || bench.now() - start > time;
        if rounds < look_at && !is_over {
            continue;
        }
        look_at = rounds * 5 / 4;
        let judged = question.judge().excluded_if(2 * counted > played);
        if judged.is_clear || is_over {
            return Ok(judged);
        }
    }
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
        assert_eq!(choose_long(&sizes, &latencies, None, 42.0, 3.0), Some(2));
        // A page of one sector: what comes with the second may be another read.
        assert_eq!(choose_long(&sizes[..2], &[60.0, 100.0].map(at), None, 42.0, 3.0), None);
        assert_eq!(choose_long(&sizes[..1], &[at(60.0)], None, 42.0, 3.0), None);
    }
}
