//! A source on a device of any kind, through layers or directly, measured at its answers.

use std::collections::BTreeMap;
use std::path::Path;

use block::{BlockDevice, DeviceInfo, Part};
use devices::Access;
use hdrhistogram::Histogram;
use player::{Ahead, Flow};
use replay::{
    Fit, Fitted, FittedCounts, Measured, Played, Playing, Recorded, Region, Remap, ReplayError,
    Selected, Selection, Totals, flow, play as play_flows,
};
use units::{IoOp, Nanos, Progress, RequestSource};

use super::layered::Stacked;
use super::outcome::{Failed, FlowOf, FlowRun, Latency, Run, SentRequests};
use super::{Asked, Given};
use crate::JobError;
use crate::device::{Device, Use};
use crate::figures::About;
use crate::source::FitName;
use crate::tables::{Columns, column};

/// Requests outstanding at most on a real device where a clock, or layers, say when they are sent.
const OPEN_OUTSTANDING: u32 = 1024;
const LAYERS_OUTSTANDING: u32 = 64;
const SECOND: u64 = 1_000_000_000;

/// Plays the sources of a job on a device.
pub(super) fn play(
    asked: &Asked<'_>,
    device: &Device,
    stack: Option<&str>,
    progress: &Progress,
) -> Result<Run, JobError> {
    asked.check_no_handles()?;
    let how = how(asked, device, stack.is_some());
    if how.access == Access::ReadOnly {
        asked.check_reads(stack.is_some())?;
    }
    let mut opened = device.open(asked.at, how, progress)?;
    let (offset, about) = device.part(asked.at, opened.info())?;
    let mut part = Part::new(&mut *opened, offset, about.limits.capacity_bytes);
    let stacked = stack.map(|text| Stacked::new(asked, text, &about)).transpose()?;
    let mut above = about.clone();
    if let Some(stacked) = &stacked {
        above.limits.capacity_bytes = stacked.above_bytes;
    }
    let Plan { flows, about: of_flows, counts } = Plan::new(asked, &above, stacked.as_ref())?;
    progress.set_total(asked.total());
    let signals = stacked.as_ref().map(Stacked::signals).unwrap_or_default();
    let most_time = asked.play.duration.map_or(Nanos::MAX, |limit| (limit.0 * 1e9) as Nanos);
    let (keeps_going, warm_up) = (asked.play.keep_going, asked.play.warm_up.0);
    let playing = Playing { signals: &signals, keeps_going, warm_up, most_time, progress };
    let (played, layers) = match (&stacked, &asked.play.record) {
        (Some(stacked), _) => {
            let (played, layered) = stacked.run(&mut part, flows, &playing)?;
            (played, Some(layered))
        }
        (None, Some(path)) => (recorded(&mut part, Path::new(path), flows, &playing)?, None),
        (None, None) => (play_flows(&mut part, flows, &playing), None),
    };
    tables(asked, &played.measured)?;
    let (ended, error) = ended(played.ended.as_ref());
    let measured = &played.measured;
    let flows = of_flows.iter().zip(&measured.flows);
    let latency_ns = latencies(measured);
    let bytes = |op: IoOp| measured.by_op[op as usize].bytes;
    Ok(Run {
        device: asked.device.to_owned(),
        stack: stack.map(str::to_owned),
        pace: asked.pace_text(),
        about: About::from(&about),
        requests: measured.requests(),
        read_bytes: bytes(IoOp::Read),
        written_bytes: bytes(IoOp::Write),
        iops: measured.iops(),
        bytes_per_second: measured.bytes_per_second(),
        seconds: measured.elapsed as f64 / 1e9,
        latency_ns,
        flows: flows.map(|(about, flow)| FlowRun::of(about, flow, SECOND)).collect(),
        ended,
        error,
        simulated: None,
        sent: Some(sent(asked, measured, &counts())),
        layers,
    })
}

/// Gives the settings with which a device is opened for its flows.
fn how(asked: &Asked<'_>, device: &Device, has_stack: bool) -> Use {
    let play = asked.play;
    let mut depths = play.flow.iter().map(|flow| flow.pace.depth()).chain([asked.pace.depth()]);
    let sum: Option<u32> = depths.try_fold(0_u32, |sum, depth| Some(sum.saturating_add(depth?)));
    let least = if has_stack { LAYERS_OUTSTANDING } else { 1 };
    let longest = asked.source.trace().map_or(0, |trace| trace.totals.longest_bytes);
    Use {
        access: match device.access(play.write, &play.destroy_data) {
            Access::Write if asked.was_written => Access::DestroyData,
            access => access,
        },
        seed: play.seed,
        queue_depth: sum.unwrap_or(OPEN_OUTSTANDING).clamp(least, 4096),
        most_bytes: longest.max(1).next_power_of_two().clamp(1 << 20, 64 << 20),
        holds_data: play.data.is_some(),
    }
}

/// All that is sent.
struct Plan {
    flows: Vec<Flow<Ahead>>,
    about: Vec<FlowOf>,
    counts: Box<dyn Fn() -> FittedCounts>,
}

impl Plan {
    fn new(
        asked: &Asked<'_>,
        above: &DeviceInfo,
        stacked: Option<&Stacked<'_>>,
    ) -> Result<Self, JobError> {
        if asked.untimed()? > 0 {
            let said = "only a simulated drive that is played directly can do that";
            return Err(JobError::at("untimed", said));
        }
        let most = asked.most_requests(0);
        asked.check_warm_up(most)?;
        let mut plan =
            Self { flows: Vec::new(), about: Vec::new(), counts: Box::new(FittedCounts::default) };
        for (number, given) in asked.flows(above.limits.capacity_bytes)?.into_iter().enumerate() {
            let mut source = given.as_it_is()?;
            if let Some(limit) = most.filter(|_| number == 0) {
                let selection = Selection { limit, ..Selection::default() };
                source = Box::new(Selected::new(source, selection));
            }
            let fitted = Fitted::new(source, fit(asked, &given, above)?);
            let mut placed: Box<dyn RequestSource> = if number == 0 {
                plan.counts = Box::new(fitted.counts());
                Box::new(fitted)
            } else {
                Box::new(fitted)
            };
            if let Some(stacked) = stacked.filter(|_| number == 0) {
                placed = stacked.among(placed);
            }
            plan.flows.push(given.marked(flow(placed, given.pace.player())));
            plan.about.push(given.about);
        }
        Ok(plan)
    }
}

/// The way to place the requests of a flow on a device.
fn fit(asked: &Asked<'_>, given: &Given, above: &DeviceInfo) -> Result<Fit, JobError> {
    let totals = given.source.trace().map_or_else(
        || Totals { end_bytes: given.source.footprint().unwrap_or(0), ..Totals::default() },
        |trace| trace.totals,
    );
    let remap = match given.source.part.fit {
        Some(FitName::Scale) => Remap::Scale,
        Some(FitName::Fold) => Remap::Fold,
        _ if given.fold => Remap::Fold,
        _ => Remap::Refuse,
    };
    let region = Region { offset: given.about.offset, length: given.length };
    Fit::new(&totals, above, region, remap).map_err(|error| JobError::at(asked.at, error))
}

/// Plays, and writes what the device is sent into a trace.
fn recorded(
    device: &mut dyn BlockDevice,
    path: &Path,
    flows: Vec<Flow<Ahead>>,
    playing: &Playing<'_>,
) -> Result<Played, JobError> {
    let wrong = |error: traces::TraceError| JobError::at("record", error);
    let mut recorded = Recorded::new(device, path).map_err(wrong)?;
    let played = play_flows(&mut recorded, flows, playing);
    recorded.finish().map_err(wrong)?;
    Ok(played)
}

/// Gives the reason for an end before that of the source, and the error.
fn ended(why: Option<&ReplayError>) -> (Option<String>, Option<String>) {
    match why {
        None => (None, None),
        Some(ReplayError::Cancelled(_)) => (Some("stopped".to_owned()), None),
        Some(error) => (Some("failed".to_owned()), Some(error.to_string())),
    }
}

/// A figure of each operation that occurred.
fn by_op<'a>(
    measured: &'a Measured,
    of: impl Fn(IoOp) -> Option<&'a Histogram<u64>>,
) -> BTreeMap<String, Latency> {
    let occurred = IoOp::ALL.into_iter().filter(|op| measured.by_op[*op as usize].requests > 0);
    let all = occurred.clone().filter_map(&of).fold(None, |sum: Option<Histogram<u64>>, one| {
        Some(match sum {
            None => one.clone(),
            Some(mut sum) => {
                sum.add(one).expect("a histogram that grows takes any value");
                sum
            }
        })
    });
    let named = occurred.filter_map(|op| Some((op.name(), Latency::of(of(op)?)?)));
    let all = all.as_ref().and_then(Latency::of).map(|all| ("all", all));
    named.chain(all).map(|(name, latency)| (name.to_owned(), latency)).collect()
}

/// Times of requests: mean and maximum, of which classes know too much, are the windows'.
fn latencies(measured: &Measured) -> BTreeMap<String, Latency> {
    let mut found = by_op(measured, |op| Some(&measured.by_op[op as usize].latency));
    let windows = &measured.windows.all;
    for (name, latency) in &mut found {
        let ops = IoOp::ALL.into_iter().filter(|op| name == "all" || name == op.name());
        let each = ops.flat_map(|op| windows.iter().map(move |window| (window, op as usize)));
        let sum: u64 = each.clone().map(|(window, op)| window.latency_ns[op]).sum();
        latency.mean = sum as f64 / latency.count as f64;
        latency.max = each.map(|(window, op)| window.most_latency_ns[op]).max().unwrap_or(0);
    }
    found
}

fn sent(asked: &Asked<'_>, measured: &Measured, fitted: &FittedCounts) -> SentRequests {
    let is_timed = asked.pace.is_timed();
    let fitted = [
        ("moved", fitted.moved),
        ("cut", fitted.cut),
        ("widened", fitted.widened),
        ("split", fitted.split),
        ("more_parts", fitted.more_parts),
        ("trims_without_device", fitted.trims_without_device),
        ("trims_too_short", fitted.trims_too_short),
    ];
    let failures = measured.failures.iter().map(|((op, reason), failure)| Failed {
        op: (*op).to_owned(),
        reason: reason.clone(),
        requests: failure.requests,
        first: failure.first.clone(),
    });
    SentRequests {
        sent: measured.sent,
        response_ns: is_timed
            .then(|| by_op(measured, |op| Some(&measured.by_op[op as usize].response))),
        lateness_ns: is_timed.then(|| Latency::of(&measured.lateness)).flatten(),
        held_ns: Latency::of(&measured.held),
        most_outstanding: measured.timekeeping.most_outstanding,
        starved: measured.timekeeping.starved,
        starved_seconds: measured.timekeeping.starved_ns as f64 / 1e9,
        fitted: fitted.map(|(name, count)| (name.to_owned(), count)).into(),
        failures: failures.collect(),
    }
}

fn tables(asked: &Asked<'_>, measured: &Measured) -> Result<(), JobError> {
    let pace = asked.pace_text();
    let (of, mut tables) = (asked.rows_of(&pace), asked.tables.borrow_mut());
    tables.add(&of, "windows", windows(measured))?;
    tables.add(&of, "latency", classes(measured))?;
    asked.latency_over_time(&mut tables, &measured.latency_map, measured.elapsed, SECOND)
}

/// Windows of time in which something ended, by operation. The last window is as long as the play
/// left it, so that counts over `seconds` are rates there, too.
fn windows(measured: &Measured) -> Columns {
    let each = measured.windows.each;
    let rows: Vec<_> = (measured.windows.all.iter().enumerate())
        .flat_map(|(number, window)| IoOp::ALL.map(|op| (number as u64 * each, window, op)))
        .filter(|(_, window, op)| window.requests[*op as usize] > 0)
        .collect();
    let left = |start: u64| measured.elapsed.saturating_sub(start).clamp(1, each);
    vec![
        column("seconds", rows.iter().map(|(start, ..)| left(*start) as f64 / 1e9)),
        column("start_s", rows.iter().map(|(start, ..)| *start as f64 / 1e9)),
        column("op", rows.iter().map(|(.., op)| op.name())),
        column("requests", rows.iter().map(|(_, window, op)| window.requests[*op as usize])),
        column(
            "bytes",
            rows.iter().map(|(_, window, op)| match op {
                IoOp::Read => window.read_bytes,
                IoOp::Write => window.written_bytes,
                IoOp::Trim | IoOp::Flush => 0,
            }),
        ),
        column(
            "mean_latency_ns",
            rows.iter().map(|(_, window, op)| {
                window.latency_ns[*op as usize] as f64 / window.requests[*op as usize] as f64
            }),
        ),
        column("max_latency_ns", rows.iter().map(|(_, w, op)| w.most_latency_ns[*op as usize])),
        column("max_late_ns", rows.iter().map(|(_, window, _)| window.most_late_ns)),
    ]
}

/// The classes of all histograms that hold something: `of` is latency, response, lateness or held;
/// `op` is empty where they are of all.
fn classes(measured: &Measured) -> Columns {
    let mut all: Vec<(&str, &str, &Histogram<u64>)> = Vec::new();
    for op in IoOp::ALL {
        let found = &measured.by_op[op as usize];
        if found.requests > 0 {
            all.push(("latency", op.name(), &found.latency));
            all.push(("response", op.name(), &found.response));
        }
    }
    all.extend([("lateness", "", &measured.lateness), ("held", "", &measured.held)]);
    let rows: Vec<_> = all
        .into_iter()
        .flat_map(|(of, op, histogram)| {
            let recorded = histogram.iter_recorded();
            recorded.map(move |class| (of, op, histogram, class))
        })
        .collect();
    vec![
        column("of", rows.iter().map(|(of, ..)| *of)),
        column("op", rows.iter().map(|(_, op, ..)| *op)),
        column(
            "from_ns",
            rows.iter().map(|(_, _, histogram, class)| {
                histogram.lowest_equivalent(class.value_iterated_to())
            }),
        ),
        column(
            "to_ns",
            rows.iter().map(|(_, _, histogram, class)| {
                histogram.highest_equivalent(class.value_iterated_to())
            }),
        ),
        column("count", rows.iter().map(|(.., class)| class.count_since_last_iteration())),
    ]
}
