//! Common parts of the experiments on writes: a range that holds data, a response time with its
//! interval, and the border at which a sweep stops being cheap.

use std::collections::BTreeMap;

use block::{BlockError, Failure};
use registry::{Param, ParamKind};
use units::{IoOp, Nanos, RequestSource};

use super::common;
use crate::analysis::estimate::Estimate;
use crate::analysis::steps;
use crate::bench::{Bench, Flow, Limit, Pace, closed, flow};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Series};

/// The parameter of those experiments that write requests of one size.
pub(super) const fn size_param(default: &'static str) -> Param {
    Param {
        name: "size",
        kind: ParamKind::Integer { min: 512, max: 16 << 20 },
        default,
        help: "bytes of a request, whole sectors",
    }
}

/// The parameter of those experiments that work on a part of the region.
pub(super) const RANGE: Param = Param {
    name: "range",
    kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
    default: "0",
    help: "bytes from the start of the region that are written; 0 for as many as a quarter of the \
           time fills",
};

/// Requests that a mean is of even where the time is too short for them: fewer tell nothing.
const LEAST: u64 = 20;

/// Gives the error, in one line, for settings that do not fit into the region.
pub(super) fn impossible(experiment: &'static str, reason: impl Into<String>) -> ProbeError {
    ProbeError::Impossible { experiment, reason: reason.into() }
}

/// The bytes of a request that this device takes: whole sectors, at most `most`.
pub(super) fn request_bytes(bench: &Bench<'_>, wanted: u64, most: u64) -> u64 {
    let device = bench.device();
    let sector = u64::from(device.limits.sector_bytes);
    (wanted.min(most).min(u64::from(device.limits.most_bytes)) / sector * sector).max(sector)
}

/// Writes the start of the region in order, so that all that is written later overwrites: as much
/// as `wanted` (0 for all of it), but no more than fits into a quarter of the budget, and at least
/// `least`. Returns the bytes that hold data now.
///
/// # Errors
/// [`ProbeError::Impossible`] if the region is smaller than `least`; those of [`Bench::play`].
pub(super) fn prepare(
    bench: &mut Bench<'_>,
    experiment: &'static str,
    wanted: u64,
    least: u64,
) -> Result<u64, ProbeError> {
    let region = bench.region().length;
    if region < least {
        return Err(impossible(
            experiment,
            format!("the region has {region} bytes; at least {least} would do"),
        ));
    }
    // Whole requests of `Bench::fill`, as far as the region has any.
    let unit = (256 << 10).min(region);
    let all = if wanted == 0 { region } else { wanted.min(region) };
    let all = (all.max(least).next_multiple_of(unit).min(region) / unit).max(1) * unit;
    let (start, time) = (bench.now(), bench.part_of_budget(4));
    let mut filled = 0;
    while filled < all && (filled < least || bench.now() - start < time) {
        // Ever larger parts: the flush behind each costs little, and the time is kept to.
        let part = (filled / 4).max(4 << 20).div_ceil(unit) * unit;
        let part = part.min(all - filled);
        bench.fill(filled, part, 0)?;
        filled += part;
    }
    Ok(filled)
}

/// Trims the whole region, where the device can: a drive that cleaned before has all its spare
/// space free again. Whether a file's can shows only with the first trim.
///
/// # Errors
/// Those of [`Bench::play`].
pub(super) fn purge(bench: &mut Bench<'_>) -> Result<(), ProbeError> {
    if !bench.device().has_trim {
        return Ok(());
    }
    let region = bench.region().length;
    // Trims may be longer than any other request: on a large device, short ones would take more
    // than all the rest.
    let each = region.min(64 << 20);
    let whole: Vec<u64> = (0..region / each).map(|index| index * each).collect();
    let (done, rest) = (whole.len() as u64 * each, region % each);
    for (offsets, length) in [(whole, each), (vec![done], rest)] {
        if length > 0 {
            let requests = offsets.len() as u64;
            let trims = bench.at_offsets(IoOp::Trim, offsets, length as u32);
            match bench.play(vec![closed(trims, 1)], Limit::requests(requests).after(0)) {
                // If more is wrong with the device than this, the flush tells.
                Err(ProbeError::Device(BlockError::Failed {
                    failure: Failure::Io { op: IoOp::Trim, .. },
                    ..
                })) => break,
                played => played?,
            };
        }
    }
    bench.flush()
}

/// Fills a range as [`prepare`] does, and then writes it at random for a tenth of the budget, but
/// not more than it holds: what is kept ready for writes (logs, open erase blocks) is in use from
/// then on.
///
/// # Errors
/// Those of [`prepare`].
pub(super) fn prepare_used(
    bench: &mut Bench<'_>,
    experiment: &'static str,
    wanted: u64,
    size: u64,
) -> Result<u64, ProbeError> {
    let range = prepare(bench, experiment, wanted, 16 * size)?;
    let limit =
        Limit { requests: range / size, ..Limit::time(bench.part_of_budget(10)).precision(0.0) };
    let random = bench.pattern(&format!("random(size={size},range={range})"))?;
    bench.play(vec![closed(random, 1)], limit)?;
    Ok(range)
}

/// Length of a measurement: so many requests, or so much device time, but not fewer than some two
/// dozen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub requests: u64,
    pub time: Nanos,
}

/// Response times of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// Their mean response time in microseconds.
    pub us: Estimate,
    /// Number of requests of which it is the mean.
    pub requests: u64,
}

/// The response time of a pattern, without its transient.
///
/// # Errors
/// Those of [`Bench::play`], and of the pattern.
pub(super) fn response(
    bench: &mut Bench<'_>,
    pattern: &str,
    effort: Effort,
) -> Result<Response, ProbeError> {
    response_of(bench, effort, Pace::closed(1), |bench| Ok(bench.pattern(pattern)?))
}

/// The same of requests from a source that is made anew when they are begun again, at a pace.
///
/// # Errors
/// Those of [`Bench::play`].
pub(super) fn response_of(
    bench: &mut Bench<'_>,
    effort: Effort,
    pace: Pace,
    mut source: impl FnMut(&mut Bench<'_>) -> Result<Box<dyn RequestSource>, ProbeError>,
) -> Result<Response, ProbeError> {
    let start = bench.now();
    let least = LEAST.min(effort.requests);
    let first = source(bench)?;
    let mut latencies = latencies_us(bench, flow(first, pace), Limit::requests(least).after(0))?;
    let spent = bench.now() - start;
    if spent < effort.time && effort.requests > least {
        let rest = source(bench)?;
        let limit = Limit {
            requests: effort.requests - least,
            ..Limit::time(effort.time - spent).precision(0.0)
        };
        latencies.extend(latencies_us(bench, flow(rest, pace), limit)?);
    }
    let steady = &latencies[steps::transient(&latencies)..];
    Ok(Response { us: Estimate::of_batches(steady), requests: steady.len() as u64 })
}

/// The latencies of a job in microseconds, in the order in which its requests were sent.
///
/// # Errors
/// Those of [`Bench::play`].
pub(super) fn latencies_us(
    bench: &mut Bench<'_>,
    flow: Flow,
    limit: Limit,
) -> Result<Vec<f64>, ProbeError> {
    let mut samples = bench.play(vec![flow], limit.with_samples())?.samples;
    samples.sort_by_key(|sample| sample.sent_ns);
    Ok(samples.iter().map(|sample| sample.latency_ns as f64 / 1e3).collect())
}

/// A sweep over whole numbers: what each costs.
pub(super) type Swept = BTreeMap<u64, Response>;

/// Border up to which a sweep is cheap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cheap {
    /// Largest number at which it is cheap.
    pub most: u64,
    /// Costs there, and one beyond.
    pub here: Estimate,
    pub beyond: Estimate,
    /// True if the neighbours are told apart by their intervals, on either side of the middle
    /// between the levels, twice.
    pub is_clear: bool,
}

/// Measures at 1, 2, 4 ... `most`, and then, if the costs are of two levels at least `ratio` apart,
/// between the neighbours at which the first ends, until they are one apart. `None` if there are no
/// two levels: all is as cheap, or as dear.
///
/// # Errors
/// Those of `measure`.
pub(super) fn cheap_up_to(
    swept: &mut Swept,
    most: u64,
    ratio: f64,
    mut measure: impl FnMut(u64) -> Result<Response, ProbeError>,
) -> Result<Option<Cheap>, ProbeError> {
    let mut number = 1;
    while number <= most {
        swept.insert(number, measure(number)?);
        number *= 2;
    }
    let means: Vec<f64> = swept.values().map(|response| response.us.mean).collect();
    let Some(step) = steps::step(&means).filter(|step| step.ratio() >= ratio) else {
        return Ok(None);
    };
    let numbers: Vec<u64> = swept.keys().copied().collect();
    let (mut here, mut beyond) = (numbers[step.at - 1], numbers[step.at]);
    // The middle of the neighbours, by factors: other levels lie further off.
    let middle = (swept[&here].us.mean * swept[&beyond].us.mean).sqrt();
    while beyond - here > 1 {
        let between = u64::midpoint(here, beyond);
        let response = measure(between)?;
        swept.insert(between, response);
        if response.us.mean < middle { here = between } else { beyond = between }
    }
    let (low, high) = (swept[&here], swept[&beyond]);
    // Again, in the other order: what only looked like a border because something filled up
    // meanwhile is none now.
    let (high_again, low_again) = (measure(beyond)?, measure(here)?);
    // A cost that grows little by little has no border.
    if high.us.mean < ratio * low.us.mean && high_again.us.mean < ratio * low_again.us.mean {
        return Ok(None);
    }
    let is_told = |low: &Estimate, high: &Estimate| {
        low.high() < middle && high.low() > middle && high.mean >= ratio * low.mean
    };
    // Each had its turn more than once, so that what it takes to begin does not count.
    let is_long = [&low, &high, &low_again, &high_again]
        .iter()
        .all(|response| response.requests >= 2 * beyond);
    let is_clear = is_long && is_told(&low.us, &high.us) && is_told(&low_again.us, &high_again.us);
    Ok(Some(Cheap { most: here, here: low.us, beyond: high.us, is_clear }))
}

/// A curve of response times.
pub(super) fn curve<'a>(
    name: &str,
    points: impl IntoIterator<Item = (f64, &'a Estimate)>,
) -> Series {
    let mut series = Series::new(name);
    for (x, level) in points {
        common::push(&mut series, x, level);
    }
    series
}

/// A chart of mean response times in microseconds.
pub(super) fn response_chart(name: &str, title: &str, x: Axis, series: Vec<Series>) -> Chart {
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x,
        y: Axis { is_log: true, ..Axis::linear("mean response", "us") },
        series,
        marks: Vec::new(),
    }
}
