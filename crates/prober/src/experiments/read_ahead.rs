//! Read-ahead of a drive: its window, the number of streams at once, and the amount of read data
//! that is kept.
//!
//! A read that is answered from memory is told from one of flash by its time: the levels are those
//! of a page read twice and of random reads, and the border between them is their geometric mean.
//! Then, each time at random places and after a pause in which fetching ends:
//!
//! - window: eight reads in sequence, then one at a distance `d` behind them. The largest `d` that
//!   is answered from memory, found by doubling and halving, is what is fetched ahead.
//! - streams: the same with several sequences in turn; each is asked for its next part.
//! - cache: pages of a growing area are read twice in the same random order. A cache that drops
//!   what was used least recently answers the second pass from memory up to its size, and nothing
//!   beyond.
//!
//! Reads are as large as what one read brings into memory by itself (a page of the drive), at least
//! 4 KiB. The streams that a drive remembers may be more than seen if what was fetched for the
//! first is dropped for the last.

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, Nanos};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::steps;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "read_ahead",
        aliases: &["readahead", "read_cache"],
        summary: "how far the drive reads ahead, of how many streams, and how much of what was \
                  read it keeps",
        source: "PARALLELISM section 5.3, figure 6",
        params: &[
            writes::RANGE,
            Param {
                name: "trials",
                kind: ParamKind::Integer { min: 4, max: 1000 },
                default: "12",
                help: "reads of each kind",
            },
            Param {
                name: "most_streams",
                kind: ParamKind::Integer { min: 1, max: 1024 },
                default: "64",
                help: "streams at most",
            },
        ],
    },
    group: Group::Internals,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &[],
    body,
};

/// Reads that make a sequence.
const RUN: u64 = 8;

/// Pause in which fetching ahead ends, in nanoseconds.
const PAUSE: Nanos = 20_000_000;

/// Smallest ratio of the time of reads from flash to that of reads from memory.
const LEAST_RATIO: f64 = 1.04;

struct Prober<'b, 'a> {
    bench: &'b mut Bench<'a>,
    random: Pcg64Mcg,
    range: u64,
    size: u64,
    trials: usize,
    /// Above it, a read came from flash; microseconds.
    border: f64,
}

impl Prober<'_, '_> {
    /// Reads these one by one; microseconds each.
    fn read(&mut self, offsets: Vec<u64>) -> Result<Vec<f64>, ProbeError> {
        let count = offsets.len() as u64;
        let source = self.bench.at_offsets(IoOp::Read, offsets, self.size as u32);
        writes::latencies_us(self.bench, closed(source, 1), Limit::requests(count).after(0))
    }

    /// Reads some, waits, and reads others, of which it gives the times.
    fn after(&mut self, first: Vec<u64>, then: Vec<u64>) -> Result<Vec<f64>, ProbeError> {
        self.read(first)?;
        self.bench.pause(PAUSE)?;
        self.read(then)
    }

    /// A random place with `bytes` behind it.
    fn place(&mut self, bytes: u64) -> u64 {
        self.random.random_range(0..=(self.range - bytes) / self.size) * self.size
    }

    fn run(&self, start: u64) -> Vec<u64> {
        (0..RUN).map(|index| start + index * self.size).collect()
    }

    /// Times of reads at a distance behind a sequence, or behind one read.
    fn behind(&mut self, distance: u64, in_sequence: bool) -> Result<Vec<f64>, ProbeError> {
        let mut times = Vec::new();
        for _ in 0..self.trials {
            let start = self.place((RUN + 1) * self.size + distance);
            let before =
                if in_sequence { self.run(start) } else { vec![start + (RUN - 1) * self.size] };
            times.extend(self.after(before, vec![start + RUN * self.size + distance])?);
        }
        Ok(times)
    }

    /// Times of random reads, and of pages that were read just before.
    fn levels(&mut self) -> Result<(Vec<f64>, Vec<f64>), ProbeError> {
        let (mut random, mut again) = (Vec::new(), Vec::new());
        for _ in 0..2 * self.trials {
            let (place, other) = (self.place(self.size), self.place(self.size));
            random.extend(self.after(vec![place], vec![other])?);
            again.extend(self.after(vec![other], vec![other])?);
        }
        Ok((random, again))
    }

    fn share_from_memory(&self, times: &[f64]) -> f64 {
        times.iter().filter(|&&time| time < self.border).count() as f64 / times.len() as f64
    }
}

/// Read times, in medians of microseconds, and the border between memory and flash.
#[derive(Clone, Copy)]
struct Levels {
    slow_us: f64,
    again_us: f64,
    ahead_us: f64,
    border: f64,
    is_told: bool,
    /// Told by pages that are read again, not only by sequences.
    is_kept: bool,
}

/// The levels at the least size of reads at which pages that are read again come from memory (parts
/// of a page may not be kept), or, if there is none, at which those of a sequence do. It stays the
/// size of the reads that follow.
fn told(prober: &mut Prober<'_, '_>) -> Result<Levels, ProbeError> {
    let first = prober.size;
    let mut best: Option<(u64, Levels)> = None;
    for doubling in 0..4 {
        let size = first << doubling;
        if 256 * size > prober.range {
            break;
        }
        prober.size = size;
        let (flash, again) = prober.levels()?;
        let ahead = prober.behind(0, true)?;
        let [slow_us, again_us, ahead_us] =
            [&flash, &again, &ahead].map(|times| steps::median(times));
        let fast = again_us.min(ahead_us);
        prober.border = (slow_us * fast).sqrt();
        let is_apart = slow_us > LEAST_RATIO * fast && prober.share_from_memory(&flash) < 0.3;
        let [is_kept, is_ahead] =
            [&again, &ahead].map(|times| is_apart && prober.share_from_memory(times) > 0.8);
        let levels = Levels {
            slow_us,
            again_us,
            ahead_us,
            border: prober.border,
            is_told: is_kept || is_ahead,
            is_kept,
        };
        let is_better =
            best.is_none_or(|(_, best)| !best.is_told && levels.is_told || levels.is_kept);
        best = if is_better { Some((size, levels)) } else { best };
        if levels.is_kept {
            break;
        }
    }
    let (size, levels) = best.expect("the range was checked to hold 512 of the smallest reads");
    (prober.size, prober.border) = (size, levels.border);
    Ok(levels)
}

fn body(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let size = 4096.max(sector);
    let range = writes::prepare(bench, ENTRY.info.name, args.integer("range"), 512 * size)?;
    bench.pause(PAUSE)?;
    let random = Pcg64Mcg::seed_from_u64(bench.seed());
    let mut prober =
        Prober { bench, random, range, size, trials: args.integer("trials") as usize, border: 0.0 };
    let Levels { slow_us, again_us, ahead_us, is_told, .. } = told(&mut prober)?;
    if !is_told {
        let why = format!(
            "random reads take {slow_us:.0} us, pages read again {again_us:.0} us, reads in \
             sequence after a pause {ahead_us:.0} us"
        );
        let values = ["read_ahead_window_bytes", "read_ahead_streams", "read_cache_bytes"]
            .map(|key| Value::not_found(key, why.clone()));
        return Ok(Finding { values: values.into(), ..Finding::default() });
    }
    let mut finding = Finding::default();
    // A read that brings its neighbour along does not tell a sequence.
    while prober.size < 64 << 10 && prober.range >= 1024 * prober.size && {
        let times = prober.behind(0, false)?;
        prober.share_from_memory(&times) > 0.5
    } {
        prober.size *= 2;
    }
    cache(&mut prober, &mut finding)?;
    window(&mut prober, &mut finding)?;
    if finding.values[1].number.is_some() {
        streams(&mut prober, args.integer("most_streams"), &mut finding)?;
    } else {
        finding.values.push(Value::not_found("read_ahead_streams", "nothing is read ahead"));
    }
    finding.notes.push(format!(
        "reads from flash take {slow_us:.0} us, pages read again {again_us:.0} us, the next of a \
         sequence {ahead_us:.0} us; reads of {}",
        common::bytes_text(prober.size as f64)
    ));
    Ok(finding)
}

/// The largest number for which `share` is at least a half, up to `most`, by doubling from `first`
/// and halving down to `grain`; and whether all shares were clear. `None` if there is none; the
/// largest itself if there is no end up to `most`.
fn largest(
    first: u64,
    most: u64,
    grain: u64,
    series: &mut Series,
    mut share: impl FnMut(u64) -> Result<f64, ProbeError>,
) -> Result<Option<(u64, bool)>, ProbeError> {
    let mut is_clear = true;
    let mut ask = |number: u64, series: &mut Series| {
        let share = share(number)?;
        series.push(number as f64, share);
        is_clear &= !(0.15..0.85).contains(&share);
        Ok::<bool, ProbeError>(share >= 0.5)
    };
    if !ask(first, series)? {
        return Ok(None);
    }
    let (mut low, mut high) = (first, first * 2);
    while high <= most && ask(high, series)? {
        (low, high) = (high, high * 2);
    }
    if high <= most {
        while high - low > grain {
            let middle = low + ((high - low) / 2).next_multiple_of(grain);
            if middle >= high {
                break;
            }
            if ask(middle, series)? { low = middle } else { high = middle }
        }
    }
    series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Ok(Some((low, is_clear)))
}

fn window(prober: &mut Prober<'_, '_>, finding: &mut Finding) -> Result<(), ProbeError> {
    let mut series = Series::new("behind a sequence");
    let size = prober.size;
    let most = (prober.range / 4).min(32 << 20);
    // Numbers from 1: the read ends so many bytes behind the sequence.
    let found = largest(size, most, size, &mut series, |end| {
        let times = prober.behind(end - size, true)?;
        Ok(prober.share_from_memory(&times))
    })?;
    let mut chart = share_chart(
        "read_ahead",
        "Reads behind a sequence",
        Axis::log("end of the read behind the sequence", "bytes"),
        series,
    );
    let value = match found {
        None => Value::not_found(
            "read_ahead_window_bytes",
            "the next read of a sequence takes as long as a random one",
        ),
        Some((window, is_clear)) => {
            chart.marks.push(Mark { label: "window".to_owned(), x: Some(window as f64), y: None });
            let why = format!(
                "reads that end up to {} behind a sequence come from memory",
                common::bytes_text(window as f64)
            );
            Value::number("read_ahead_window_bytes", window as f64, why)
                .within(window as f64, (window + size) as f64)
                .sure_if(is_clear && 2 * window <= most)
        }
    };
    finding.values.push(value);
    finding.charts.push(chart);
    Ok(())
}

fn streams(
    prober: &mut Prober<'_, '_>,
    most: u64,
    finding: &mut Finding,
) -> Result<(), ProbeError> {
    let mut series = Series::new("streams in turn");
    let size = prober.size;
    let most = most.min(prober.range / (64 * size)).max(1);
    let found = largest(1, most, 1, &mut series, |count| {
        let mut times = Vec::new();
        for _ in 0..prober.trials.div_ceil(count as usize).max(3) {
            let part = prober.range / count / size * size;
            let starts: Vec<u64> = (0..count)
                .map(|stream| stream * part + prober.random.random_range(0..part / size / 2) * size)
                .collect();
            let turns = (0..RUN)
                .flat_map(|round| starts.iter().map(move |start| start + round * size))
                .collect();
            let next = starts.iter().map(|start| start + RUN * size).collect();
            times.extend(prober.after(turns, next)?);
        }
        Ok(prober.share_from_memory(&times))
    })?;
    // What is fetched for all of them, and for one more, has to have room.
    let [cache, window] = [0, 1].map(|index| finding.values[index].number.unwrap_or(0.0));
    let mut chart = share_chart(
        "read_ahead_streams",
        "Sequences in turn: the next read of each",
        Axis::log("sequences", ""),
        series,
    );
    let value = match found {
        None => {
            Value::not_found("read_ahead_streams", "not one sequence was fetched ahead this time")
        }
        Some((count, is_clear)) => {
            chart.marks.push(Mark { label: "streams".to_owned(), x: Some(count as f64), y: None });
            let is_end = 2 * count <= most;
            let why = format!(
                "of {count} sequences in turn the next reads come from memory{}",
                if is_end { ", not of more" } else { "; no more were tried" }
            );
            Value::number("read_ahead_streams", count as f64, why).sure_if(
                is_clear && is_end && (count + 1) as f64 * (window + (RUN * size) as f64) <= cache,
            )
        }
    };
    finding.values.push(value);
    finding.charts.push(chart);
    Ok(())
}

fn cache(prober: &mut Prober<'_, '_>, finding: &mut Finding) -> Result<(), ProbeError> {
    let mut series = Series::new("read again");
    let size = prober.size;
    let (start, time) = (prober.bench.now(), prober.bench.part_of_budget(2));
    let most = prober.range / 2;
    let mut is_out_of_time = false;
    let found = largest(8 * size, most, 8 * size, &mut series, |bytes| {
        if prober.bench.now() - start > time {
            is_out_of_time = true;
            return Ok(0.0);
        }
        // Every second page, so that there is no sequence.
        let mut pages: Vec<u64> = (0..bytes / size).map(|page| 2 * page * size).collect();
        pages.shuffle(&mut prober.random);
        let times = prober.after(pages.clone(), pages)?;
        Ok(prober.share_from_memory(&times))
    })?;
    let mut chart = share_chart(
        "read_cache",
        "Pages read twice in the same order: the second time",
        Axis::log("area", "bytes"),
        series,
    );
    let value = match found {
        None => Value::not_found(
            "read_cache_bytes",
            "pages read again a little later take as long as the first time",
        ),
        Some((bytes, is_clear)) => {
            chart.marks.push(Mark {
                label: "read cache".to_owned(),
                x: Some(bytes as f64),
                y: None,
            });
            let is_end = 2 * bytes <= most && !is_out_of_time;
            let end = if is_end { "beyond it from flash" } else { "more was not tried" };
            let why = format!(
                "pages of {} read twice come from memory the second time, {end}",
                common::bytes_text(bytes as f64)
            );
            Value::number("read_cache_bytes", bytes as f64, why)
                .within(bytes as f64, (bytes + 8 * size) as f64)
                .sure_if(is_clear && is_end)
        }
    };
    finding.values.push(value);
    finding.charts.push(chart);
    Ok(())
}

fn share_chart(name: &str, title: &str, x: Axis, series: Series) -> Chart {
    let y = Axis::linear("from memory", "share");
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x,
        y,
        series: vec![series],
        marks: Vec::new(),
    }
}
