//! Common parts of the experiments on a drive's inside: a written area to read in, and bursts of
//! reads whose times are compared.

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{IoOp, IoRequest, Nanos};

use super::common;
use crate::analysis::cells::Cells;
use crate::bench::{Bench, Limit, Pace, Sample, closed, flow};
use crate::error::ProbeError;
use crate::finding::Series;

/// An area from the start of the region on, written in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    /// Bytes: whole units.
    pub bytes: u64,
}

/// Written before the speed of writing is known.
const FIRST_BYTES: u64 = 4 << 20;

/// Writes an area in order ("init_SSD"): as large as can be written in `time`, but at least `least`
/// and at most `most` bytes, in units of `unit` bytes.
pub(super) fn prepare(
    bench: &mut Bench<'_>,
    name: &'static str,
    unit: u64,
    least: u64,
    most: u64,
    time: Nanos,
) -> Result<Area, ProbeError> {
    let fits = bench.region().length / unit * unit;
    if fits < least {
        let reason = format!(
            "it needs a region of at least {least} bytes, and this one has {}",
            bench.region().length
        );
        return Err(ProbeError::Impossible { experiment: name, reason });
    }
    let whole = |bytes: u64| {
        bytes.next_multiple_of(unit).clamp(least.next_multiple_of(unit).min(fits), fits)
    };
    let first = whole(FIRST_BYTES);
    let start = bench.now();
    bench.fill(0, first, 0)?;
    let each = ((bench.now() - start) as f64 / first as f64).max(1e-3);
    let bytes = whole(((time as f64 / each) as u64).min(most) / unit * unit).max(first);
    bench.fill(first, bytes - first, 0)?;
    let area = Area { bytes };
    calm_down(bench, &area, time / 2)?;
    Ok(area)
}

/// Waits after writing until reads are not held up any more by what goes on behind it, such as
/// cleaning: for at most so long. PARALLELISM 3.2 pauses for 5 s.
pub(super) fn calm_down(bench: &mut Bench<'_>, area: &Area, most: Nanos) -> Result<(), ProbeError> {
    const STEP: Nanos = 250_000_000;
    let sector = bench.device().limits.sector_bytes;
    let end = bench.now() + most;
    loop {
        bench.pause(STEP.min(most))?;
        let reads =
            bench.pattern(&format!("random(size={sector},reads=1,range={})", area.bytes))?;
        let measured = bench.play(vec![closed(reads, 1)], Limit::requests(400).after(0))?;
        let latencies = measured.of(IoOp::Read);
        // One in a hundred may be late for other reasons.
        if latencies.value_at_quantile(0.99) < 3 * latencies.value_at_quantile(0.5)
            || bench.now() >= end
        {
            return Ok(());
        }
    }
}

/// Randomness of an experiment.
pub(super) fn random(bench: &mut Bench<'_>) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(bench.seed())
}

/// Reads that are sent together, `J` of them, and the condition that they stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst<const J: usize> {
    pub condition: usize,
    /// In bytes from the start of the region.
    pub offsets: [u64; J],
}

/// Plays one round of bursts in random order and adds the mean latency of each, in nanoseconds, to
/// its condition. See [`sample_round`].
pub(super) fn play_round<const J: usize>(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    bursts: &mut [Burst<J>],
    length: u64,
    cells: &mut Cells,
) -> Result<(), ProbeError> {
    cells.add_round(&sample_round(bench, random, bursts, length)?);
    Ok(())
}

/// Plays bursts in random order: conditions and the mean latency of each burst, in nanoseconds.
///
/// The mean over a burst, not its longest: where pages differ in their read time, as those of MLC
/// and TLC do, the longest of two depends on which two are paired, and so on the distance between
/// them. The mean does not.
pub(super) fn sample_round<const J: usize>(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    bursts: &mut [Burst<J>],
    length: u64,
) -> Result<Vec<(usize, f64)>, ProbeError> {
    bursts.shuffle(random);
    let offsets: Vec<u64> = bursts.iter().flat_map(|burst| burst.offsets).collect();
    let count = offsets.len() as u64;
    let source = bench.at_offsets(IoOp::Read, offsets, length as u32);
    let limit = Limit::requests(count).after(0).with_samples();
    let measured = bench.play(vec![flow(source, Pace::Bursts { size: J as u32 })], limit)?;
    let latencies = measured
        .samples
        .chunks(J)
        .map(|burst| burst.iter().map(|sample| sample.latency_ns as f64).sum::<f64>() / J as f64);
    Ok(bursts.iter().map(|burst| burst.condition).zip(latencies).collect())
}

/// A read of a group: its first byte from the start of the region, its bytes, and how long after
/// the start of the group it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lagged {
    pub offset: u64,
    pub length: u64,
    pub lag: Nanos,
}

/// Plays groups of reads in random order, the reads of each in the order of their lags: conditions,
/// and the latency of each read in nanoseconds. The reads of a group lie at different offsets.
pub(super) fn sample_lagged<const J: usize>(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    groups: &mut [(usize, [Lagged; J])],
) -> Result<Vec<(usize, [f64; J])>, ProbeError> {
    groups.shuffle(random);
    let request = |read: &Lagged| IoRequest {
        time_ns: read.lag,
        op: IoOp::Read,
        offset: read.offset,
        length: read.length as u32,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    };
    let requests: Vec<IoRequest> =
        groups.iter().flat_map(|(_, reads)| reads.iter().map(request)).collect();
    let limit = Limit::requests(requests.len() as u64).after(0).with_samples();
    let source = bench.once(requests);
    let base = bench.region().offset;
    let measured = bench.play(vec![flow(source, Pace::Bursts { size: J as u32 })], limit)?;
    let latency = |samples: &[Sample], read: &Lagged| {
        let sample = samples.iter().find(|sample| sample.offset == base + read.offset);
        sample.expect("each read of a group has its offset and its end").latency_ns as f64
    };
    let each = groups.iter().zip(measured.samples.chunks(J));
    Ok(each
        .map(|((condition, reads), samples)| {
            (*condition, reads.map(|read| latency(samples, &read)))
        })
        .collect())
}

/// A random multiple of `unit` so that `span` bytes from there on lie within the area.
pub(super) fn place(random: &mut Pcg64Mcg, area: &Area, unit: u64, span: u64) -> u64 {
    random.random_range(0..=(area.bytes - span) / unit) * unit
}

/// Chunks in the order in which something counts them.
pub(super) trait Order {
    /// Chunks in all.
    fn count(&self) -> u64;
    /// First byte of a chunk, from the start of the region.
    fn offset(&self, number: u64) -> u64;
}

/// Chunks by their address.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByAddress {
    pub chunk: u64,
    /// First boundary in the region.
    pub phase: u64,
    pub count: u64,
}

impl ByAddress {
    pub fn new(area: &Area, chunk: u64, phase: u64) -> Self {
        Self { chunk, phase, count: (area.bytes - phase) / chunk }
    }
}

impl Order for ByAddress {
    fn count(&self) -> u64 {
        self.count
    }

    fn offset(&self, number: u64) -> u64 {
        self.phase + number * self.chunk
    }
}

/// Reads of `length` bytes within two chunks so far from each other in an order, the farther first.
/// Anywhere in the chunks: if it were always their beginning, all that is read could fit into a
/// cache.
pub(super) fn pair_at(
    random: &mut Pcg64Mcg,
    order: &impl Order,
    distance: u64,
    chunk: u64,
    length: u64,
) -> [u64; 2] {
    let first = random.random_range(0..order.count() - distance);
    [first + distance, first]
        .map(|number| order.offset(number) + random.random_range(0..chunk / length) * length)
}

/// Program 1(II): the bandwidth of `jobs` that share one sequence of chunks, each read skipping so
/// many chunks, over the chunks skipped. In rounds over all distances until the time is used up, at
/// least two.
pub(super) fn strides(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &impl Order,
    chunk: u64,
    jobs: u32,
    skips: &[u64],
    time: Nanos,
) -> Result<(Cells, Series), ProbeError> {
    const READS: u64 = 64;
    let mut cells = Cells::new(skips.len(), f64::INFINITY);
    let (start, mut rounds) = (bench.now(), 0);
    while rounds < 2 || (rounds < 64 && bench.now() - start < time) {
        let mut turns: Vec<usize> = (0..skips.len()).collect();
        turns.shuffle(random);
        let mut values = Vec::with_capacity(turns.len());
        for turn in turns {
            // From another chunk on each time around, or a cache would know them all.
            let step = skips[turn] + 1;
            let (mut at, mut from) =
                (random.random_range(0..order.count()), random.random_range(0..step));
            let mut offsets = Vec::with_capacity(READS as usize);
            for _ in 0..READS {
                if at >= order.count() {
                    from = (from + 1) % step;
                    at = from % order.count();
                }
                offsets.push(order.offset(at));
                at += step;
            }
            let source = bench.at_offsets(IoOp::Read, offsets, chunk as u32);
            let measured =
                bench.play(vec![closed(source, jobs)], Limit::requests(READS).after(0))?;
            values.push((turn, measured.bytes_per_second() / 1e6));
        }
        cells.add_round(&values);
        rounds += 1;
    }
    let mut series = Series::new(format!("{jobs} jobs"));
    for (&skip, estimate) in skips.iter().zip(cells.estimates()) {
        common::push(&mut series, skip as f64, &estimate);
    }
    Ok((cells, series))
}

/// Nanoseconds as microseconds, for people.
pub(super) fn micros(ns: f64) -> f64 {
    (ns / 10.0).round() / 100.0
}
