//! Size of the write buffer: the bytes of a burst of random writes that are absorbed before writes
//! take the time that flash takes.
//!
//! After a flush and a pause, random writes as fast as the drive takes them. While a write-back
//! buffer has room they are completed at a rate `f` (host and link), afterwards at a rate `s`
//! (flash): the end of a run of fast completions that is longer than chance makes it, or else the
//! first lasting change of the time from one completion to the next, by binary segmentation. As the
//! buffer is emptied meanwhile, one of `B` bytes is full after `B / (1 - s/f)` bytes, which is
//! solved for `B`. Several rounds have to agree.
//!
//! Writes of 4 KiB one at a time show buffers that flash empties slowly; more of them at once, then
//! larger ones, those that a single writer cannot fill. A buffer that is emptied as fast as the
//! host fills it leaves no trace, but that a flush takes longer after a write. An area of faster
//! flash (pseudo-SLC) looks like a buffer; so the search ends at `most`.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::estimate::mean;
use crate::analysis::steps;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "write_buffer",
        aliases: &[],
        summary: "bytes of random writes that are absorbed before they take as long as flash does",
        source: "SCHEDULER section 4.3.2 and figure 4.19 (two belts of response times)",
        params: &[
            Param {
                help: "bytes from the start of the region that are written; 0 for two of the \
                       largest bursts",
                ..writes::RANGE
            },
            Param {
                name: "most",
                kind: ParamKind::Bytes { min: 1 << 16, max: 1 << 40 },
                default: "256Mi",
                help: "bytes of a burst at most",
            },
            Param {
                name: "rounds",
                kind: ParamKind::Integer { min: 3, max: 100 },
                default: "5",
                help: "bursts of each kind",
            },
        ],
    },
    group: Group::Internals,
    writes: true,
    is_quick: true,
    weight: 2.0,
    after: &[],
    body,
};

/// Bytes of a request and requests outstanding: see the module.
const KINDS: [(u64, u32); 3] = [(4 << 10, 1), (4 << 10, 32), (64 << 10, 8)];

/// Groups of completions that a burst is divided into.
const GROUPS: usize = 128;

/// A rest after a flush, in nanoseconds.
const REST: u64 = 20_000_000;

/// Smallest ratio by which completions have to slow down.
const LEAST_RATIO: f64 = 1.3;

/// One burst: when each request was completed, in microseconds from its start.
struct Burst {
    ends: Vec<f64>,
}

/// Bytes that one burst shows to be absorbed, with the times of a fast and of a slow completion.
#[derive(Clone, Copy, Debug)]
struct Absorbed {
    /// Bytes written until completions slow down.
    bytes: f64,
    fast: f64,
    slow: f64,
}

/// Time at which a buffer is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptied {
    Always,
    FromHalfOn,
    WhenFull,
    /// The observations fit none of these.
    Unclear,
}

impl Emptied {
    /// Gives the size of the buffer, if so much is absorbed.
    fn bytes(self, absorbed: &Absorbed) -> f64 {
        let left = 1.0 - absorbed.fast / absorbed.slow;
        absorbed.bytes
            * match self {
                Self::Always | Self::Unclear => left,
                Self::FromHalfOn => 2.0 / (1.0 + 1.0 / left),
                Self::WhenFull => 1.0,
            }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Always => "flash empties it meanwhile",
            Self::FromHalfOn => "flash empties it from when it is half full on",
            Self::WhenFull => "flash empties it only when it is full",
            Self::Unclear => "when flash empties it is not clear",
        }
    }
}

/// Shares that a buffer takes after a rest, of what it takes when empty: one that is emptied all
/// the time, one that is emptied from when it is half full on, and one of which a fifth is left, as
/// it is emptied only when it is full. Between them nothing is clear.
const TAKEN: [std::ops::Range<f64>; 3] = [0.8..1.3, 0.35..0.72, 0.1..0.3];

/// Fills most of the buffer, rests, and fills on: see the module.
fn emptied(
    bench: &mut Bench<'_>,
    seen: &Seen,
    range: u64,
    time: u64,
) -> Result<Emptied, ProbeError> {
    const ROUNDS: usize = 3;
    const FILLED: f64 = 0.8;
    let (size, depth) = (seen.size, seen.depth);
    let requests = seen.bytes() / size as f64;
    let filled = (FILLED * requests) as u64;
    // Twice what flash needs for it, and no flush.
    let rest = 2 * (filled as f64 * seen.slow() * 1e3) as u64 + REST;
    let (fast, slow) = (seen.median(|one| one.fast), seen.slow());
    let (mut taken, mut is_enough) = (Vec::with_capacity(ROUNDS), true);
    for _ in 0..ROUNDS {
        bench.flush()?;
        bench.pause(REST)?;
        let source = bench.pattern(&format!("random(size={size},range={range})"))?;
        bench.play(vec![closed(source, depth)], Limit::requests(filled).after(0))?;
        bench.pause(rest)?;
        let most = (3.0 * requests) as u64 + 32;
        let more = fill(bench, size, depth, range, most, time / ROUNDS as u64)?;
        let sent = more.ends.len() as f64;
        is_enough &= sent > 1.2 * requests;
        // Where flash writes in batches a short run of fast completions is not told from chance.
        // What was late in all, at the rates that are known, says when they ended, too.
        let late = more.ends.last().copied().unwrap_or(0.0) - sent * fast;
        let by_lateness = (sent - late / (slow - fast)) / requests;
        let by_change = absorbed(&more, size, depth).map(|found| found.bytes / seen.bytes());
        taken.push(by_change.unwrap_or(by_lateness));
    }
    let taken = steps::median(&taken);
    Ok(match taken {
        _ if !is_enough => Emptied::Unclear,
        taken if TAKEN[0].contains(&taken) => Emptied::Always,
        taken if TAKEN[1].contains(&taken) => Emptied::FromHalfOn,
        taken if TAKEN[2].contains(&taken) => Emptied::WhenFull,
        _ => Emptied::Unclear,
    })
}

fn body(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let (most, rounds) = (args.integer("most"), args.integer("rounds") as usize);
    let size = writes::request_bytes(bench, KINDS[0].0, bench.region().length / 64);
    // Bursts over more than they write would leave erase blocks half valid, and the experiments
    // after this one with drives that copy.
    let wanted = if args.integer("range") == 0 { 2 * most } else { args.integer("range") };
    let range = writes::prepare_used(bench, ENTRY.info.name, wanted, size)?;
    let mut longest = (0, f64::NAN);
    for (index, (size, depth)) in KINDS.into_iter().enumerate() {
        let size = writes::request_bytes(bench, size, range / 64);
        let depth = depth.min(bench.device().queue_depth);
        let start = bench.now();
        // Where flash is slow, one at a time is all there is time for, and enough.
        let time = bench.part_of_budget(if index == 0 { 3 } else { 6 });
        let mut requests = 256;
        // Longer bursts until the change shows: small buffers are then seen in detail, and little
        // is written.
        while requests * size <= most.min(2 * range) && bench.now() - start < time {
            let mut bursts = Vec::new();
            // Two that show nothing are enough: what more of them would write is spare space that
            // later experiments do without.
            while bursts.len() < rounds
                && (bursts.len() < 2
                    || bursts.iter().any(|burst| absorbed(burst, size, depth).is_some()))
            {
                bursts.push(burst(bench, size, depth, range, requests, time / rounds as u64)?);
            }
            let found: Vec<Absorbed> =
                bursts.iter().filter_map(|burst| absorbed(burst, size, depth)).collect();
            if is_found(&found, rounds) {
                let first = Seen { found, bursts, size, depth };
                let seen = with_larger(bench, first, range, rounds, time)?;
                let emptied = emptied(bench, &seen, range, time)?;
                return Ok(finding(&seen, emptied));
            }
            let shortest = bursts.iter().map(|burst| burst.ends.len()).min().unwrap_or(0);
            let level =
                bursts[0].ends.last().map_or(f64::NAN, |end| end / bursts[0].ends.len() as f64);
            longest = if shortest as u64 * size > longest.0 {
                (shortest as u64 * size, level)
            } else {
                longest
            };
            if (shortest as u64) < requests {
                break;
            }
            requests *= 4;
        }
    }
    let why = format!(
        "up to {} written at random at once, {:.0} us a request throughout: no buffer, or flash \
         empties it as fast as it is filled",
        common::bytes_text(longest.0 as f64),
        longest.1
    );
    let values = vec![Value::not_found("write_buffer_bytes", why), buffered(bench, range, size)?];
    Ok(Finding { values, ..Finding::default() })
}

/// Tests if single writes are completed before they are on flash: a flush then has to wait for it.
fn buffered(bench: &mut Bench<'_>, range: u64, size: u64) -> Result<Value, ProbeError> {
    const ROUNDS: usize = 15;
    const LONGER: f64 = 2.0;
    let (mut idle, mut after) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        bench.flush()?;
        bench.pause(REST)?;
        idle.push(bench.flush_time()? as f64 / 1e3);
        bench.pause(REST)?;
        let source = bench.pattern(&format!("random(size={size},range={range})"))?;
        bench.play(vec![closed(source, 1)], Limit::requests(1).after(0))?;
        after.push(bench.flush_time()? as f64 / 1e3);
    }
    idle.sort_by(f64::total_cmp);
    after.sort_by(f64::total_cmp);
    let is_buffered = after[ROUNDS / 4] > LONGER * idle[ROUNDS * 3 / 4];
    let (idle, after) = (idle[ROUNDS / 2], after[ROUNDS / 2]);
    let (word, says) = if is_buffered {
        ("yes", "the write was not on flash yet")
    } else {
        (
            "no",
            "the write was on flash, or need not be: a drive that survives power cuts may flush \
             nothing",
        )
    };
    let why =
        format!("a flush takes {after:.0} us after a write and {idle:.0} us after a rest: {says}");
    Ok(Value::word("writes_are_buffered", word, why).sure_if(is_buffered))
}

/// Bursts of one kind, and what they show.
struct Seen {
    found: Vec<Absorbed>,
    bursts: Vec<Burst>,
    size: u64,
    depth: u32,
}

impl Seen {
    fn bytes(&self) -> f64 {
        self.median(|one| one.bytes)
    }

    fn slow(&self) -> f64 {
        self.median(|one| one.slow)
    }

    fn median(&self, of: fn(&Absorbed) -> f64) -> f64 {
        steps::median(&self.found.iter().map(of).collect::<Vec<f64>>())
    }
}

fn is_found(found: &[Absorbed], rounds: usize) -> bool {
    found.len() * 5 >= rounds * 4
}

/// The same with writes twice as large, and again, as long as more is absorbed: a buffer of pages
/// holds small writes one to a page.
fn with_larger(
    bench: &mut Bench<'_>,
    mut seen: Seen,
    range: u64,
    rounds: usize,
    time: u64,
) -> Result<Seen, ProbeError> {
    loop {
        let size = 2 * seen.size;
        if size > 64 << 10 || 16 * size > range {
            return Ok(seen);
        }
        let requests = (4.0 * seen.bytes() / size as f64).max(32.0) as u64;
        let mut bursts = Vec::new();
        for _ in 0..rounds {
            bursts.push(burst(bench, size, seen.depth, range, requests, time / rounds as u64)?);
        }
        let found: Vec<Absorbed> =
            bursts.iter().filter_map(|burst| absorbed(burst, size, seen.depth)).collect();
        let larger = Seen { found, bursts, size, depth: seen.depth };
        if !is_found(&larger.found, rounds) || larger.bytes() < 1.4 * seen.bytes() {
            return Ok(seen);
        }
        seen = larger;
    }
}

fn burst(
    bench: &mut Bench<'_>,
    size: u64,
    depth: u32,
    range: u64,
    requests: u64,
    time: u64,
) -> Result<Burst, ProbeError> {
    bench.flush()?;
    bench.pause(REST)?;
    fill(bench, size, depth, range, requests, time)
}

/// Random writes into whatever room the buffer has now.
fn fill(
    bench: &mut Bench<'_>,
    size: u64,
    depth: u32,
    range: u64,
    requests: u64,
    time: u64,
) -> Result<Burst, ProbeError> {
    let source = bench.pattern(&format!("random(size={size},range={range})"))?;
    let limit = Limit { requests, ..Limit::time(time.max(1)).precision(0.0) };
    let samples = bench.play(vec![closed(source, depth)], limit.with_samples())?.samples;
    Ok(Burst {
        ends: samples
            .iter()
            .map(|sample| (sample.sent_ns + sample.latency_ns) as f64 / 1e3)
            .collect(),
    })
}

/// Times from one completion to the next, as means of groups; and how many there are in a group.
fn gaps(burst: &Burst) -> (Vec<f64>, usize) {
    let each = (burst.ends.len() / GROUPS).max(1);
    let ends: Vec<f64> = std::iter::once(0.0)
        .chain(burst.ends.chunks_exact(each).map(|group| group[each - 1]))
        .collect();
    (ends.windows(2).map(|pair| (pair[1] - pair[0]) / each as f64).collect(), each)
}

fn absorbed(burst: &Burst, size: u64, depth: u32) -> Option<Absorbed> {
    let (gaps, each) = gaps(burst);
    let at = steps::first_slow(&gaps, LEAST_RATIO)
        .or_else(|| steps::first_change(&gaps, LEAST_RATIO - 1.0))?;
    let (fast, slow) = (mean(&gaps[..at]), mean(&gaps[at..]));
    let requests = (at * each) as f64;
    // What is outstanding at once ends together: a change within it is none.
    let is_more_than_outstanding = depth == 1 || requests > f64::from(2 * depth);
    (slow > LEAST_RATIO * fast && is_more_than_outstanding).then_some(Absorbed {
        bytes: requests * size as f64,
        fast,
        slow,
    })
}

fn finding(seen: &Seen, emptied: Emptied) -> Finding {
    let Seen { found, bursts, size, depth } = seen;
    let size = *size;
    let mut sizes: Vec<f64> = found.iter().map(|one| emptied.bytes(one)).collect();
    sizes.sort_by(f64::total_cmp);
    // Nothing finer than a group of completions is told.
    let (gaps, each) = gaps(&bursts[0]);
    let grain = each as f64 * size as f64;
    // At first, after a rest, flash may take more than later, and what it took meanwhile is not
    // known better than this.
    let taken = 0.12 * (seen.bytes() - steps::median(&sizes)).max(0.0);
    let (low, mut high) =
        (0.9 * sizes[0] - taken - grain, 1.1 * sizes[sizes.len() - 1] + taken + grain);
    if emptied == Emptied::Unclear {
        high = high.max(1.1 * seen.bytes() + grain);
    }
    let bytes = steps::median(&sizes);
    let (fast, slow) = (seen.median(|one| one.fast), seen.slow());
    let why = format!(
        "{} of {} bursts of {} writes, {depth} at once, slow down from {fast:.1} to {slow:.1} us a \
         request after {}; {}",
        found.len(),
        bursts.len(),
        common::bytes_text(size as f64),
        common::bytes_text(seen.bytes()),
        emptied.says()
    );
    // The range of five rounds or more holds their median at 93 % or more.
    let is_sure = found.len() == bursts.len()
        && high < 1.7 * low
        && slow > 2.0 * fast
        && emptied != Emptied::Unclear;
    let value = Value::number("write_buffer_bytes", bytes, why).within(low, high).sure_if(is_sure);
    let mut series = Series::new("writes");
    for (index, gap) in gaps.iter().enumerate() {
        series.push(index as f64 * grain, *gap);
    }
    let chart = Chart {
        name: "write_buffer".to_owned(),
        title: "A burst of random writes".to_owned(),
        x: Axis::linear("written", "bytes"),
        y: Axis { is_log: true, ..Axis::linear("time a request", "us") },
        series: vec![series],
        marks: vec![Mark { label: "buffer full".to_owned(), x: Some(seen.bytes()), y: None }],
    };
    Finding { values: vec![value], charts: vec![chart], ..Finding::default() }
}
