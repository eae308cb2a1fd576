//! Replays of recorded traces on block devices.

use std::path::{Path, PathBuf};

use ::block::BlockDevice;
use ::registry::Spec;
use ::replay::{
    Fit, Fitted, FittedCounts, Measured, OpMeasured, Pace, Played, Playing, Recorded, Region,
    Remap, ReplayError, ReplayTrace, Selection, Totals, flow, play,
};
use hdrhistogram::Histogram;
use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::{OpenOptions, TraceError};
use units::{IoOp, Nanos};

use crate::devices::Device;
use crate::drive::{self, GivenFlow};
use crate::drive_result::{ToldFlow, flow_dicts, latency_map, p9999};
use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::{reading, source_dicts, trace_error};

/// A trace that was read once, to be replayed.
#[pyclass(frozen, name = "ReplayTrace", module = "flashwright._core")]
pub struct LoadedTrace(pub ReplayTrace);

#[pymethods]
impl LoadedTrace {
    /// The trace format that was read.
    #[getter]
    fn format(&self) -> &'static str {
        self.0.format
    }

    /// What the selected part holds: requests by operation (read, write, trim, flush), requests,
    /// read_bytes, written_bytes, trimmed_bytes, end_bytes (one behind the last byte named),
    /// longest_bytes, unit_bytes (what all offsets and lengths are multiples of), duration_ns,
    /// volumes, empty (requests of no bytes, which are not played), clamped_times.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (totals, dict) = (&self.0.totals, PyDict::new(py));
        for op in IoOp::ALL {
            dict.set_item(op.name(), totals.by_op[op as usize])?;
        }
        dict.set_item("requests", totals.requests())?;
        dict.set_item("read_bytes", totals.read_bytes)?;
        dict.set_item("written_bytes", totals.written_bytes)?;
        dict.set_item("trimmed_bytes", totals.trimmed_bytes)?;
        dict.set_item("end_bytes", totals.end_bytes)?;
        dict.set_item("longest_bytes", totals.longest_bytes)?;
        dict.set_item("unit_bytes", totals.unit_bytes)?;
        dict.set_item("duration_ns", totals.duration)?;
        dict.set_item("volumes", totals.volumes)?;
        dict.set_item("empty", totals.empty)?;
        dict.set_item("clamped_times", self.0.facts.clamped_times)?;
        Ok(dict)
    }

    /// What was found besides requests: skipped (malformed records), left_out (records by reason),
    /// lost_events, warnings (sentences).
    #[getter]
    fn reading<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reading(py, &self.0.facts)
    }

    /// Whether requests have times; otherwise they only count requests.
    #[getter]
    fn has_times(&self) -> bool {
        !self.0.facts.timeless
    }

    /// The files read: name and sha256 of each.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        source_dicts(py, &self.0.sources)
    }
}

fn nanos(key: &str, seconds: f64) -> PyResult<Nanos> {
    if (0.0..=1e9).contains(&seconds) {
        return Ok((seconds * 1e9).round() as Nanos);
    }
    Err(errors::input_error(format!("{key} is {seconds}: it must be from 0 to 1e9")))
}

fn ops_of(names: &[String]) -> PyResult<[bool; IoOp::ALL.len()]> {
    let mut taken = [false; IoOp::ALL.len()];
    for name in names {
        let known = IoOp::ALL.into_iter().find(|op| op.name() == name);
        let op = known.ok_or_else(|| {
            errors::input_error(format!(
                "ops has `{name}`: it must be of read, write, trim and flush"
            ))
        })?;
        taken[op as usize] = true;
    }
    Ok(taken)
}

/// Reads a trace file once, to be replayed. With `dense` all extents of 1 MiB that it touches are
/// moved together; otherwise addresses stay.
///
/// Requests before `skip_seconds` of the trace are passed over, the first one `seconds` later or
/// more ends it, at most `limit` are taken, and only those whose operation is in `ops` (read,
/// write, trim, flush). Progress counts bytes of the file. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    path, *, format=None, skip_bad=0, skip_seconds=0.0, seconds=None, limit=None, ops=None,
    dense=false, progress=None
))]
#[allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "keyword arguments of Python"
)]
fn load_replay(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    skip_bad: u64,
    skip_seconds: f64,
    seconds: Option<f64>,
    limit: Option<u64>,
    ops: Option<Vec<String>>,
    dense: bool,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<LoadedTrace> {
    let how = OpenOptions {
        format: format.map(Spec::parse).transpose().map_err(errors::input_error)?,
        skip_bad,
    };
    let selection = Selection {
        skip: nanos("skip_seconds", skip_seconds)?,
        span: seconds.map_or(Ok(Nanos::MAX), |seconds| nanos("seconds", seconds))?,
        limit: limit.unwrap_or(u64::MAX),
        ops: ops.map_or(Ok([true; IoOp::ALL.len()]), |names| ops_of(&names))?,
    };
    let progress = progress::shared(progress);
    let loaded = py.detach(|| ReplayTrace::load(&path, how, selection, dense, &progress));
    let loaded = LoadedTrace(loaded.map_err(replay_error)?);
    errors::warn_of(py, &path.display().to_string(), &loaded.0.facts.warnings)?;
    Ok(loaded)
}

/// What the sender of a replay did wrong, or what failed, as Python's exception.
pub fn replay_error(error: ReplayError) -> PyErr {
    match error {
        ReplayError::Device(error) => errors::run_error(error),
        ReplayError::Trace(error) => trace_error(error),
        ReplayError::Source(error) => errors::run_error(error),
        ReplayError::Unusable { .. } => errors::input_error(error),
        ReplayError::Cancelled(cancelled) => errors::cancelled(cancelled),
    }
}

/// The pace of these words, for a device that takes so many requests.
pub fn pace_of(
    pace: &str,
    factor: f64,
    depth: u32,
    waiting: bool,
    queue_depth: u32,
) -> PyResult<Pace> {
    if !(factor > 0.0 && factor <= 1e9) {
        return Err(errors::input_error(format!(
            "factor is {factor}: it must be above 0 and at most 1e9"
        )));
    }
    if depth == 0 || depth > queue_depth {
        return Err(errors::input_error(format!(
            "depth is {depth}: it must be from 1 to {queue_depth}, the requests that the device \
             takes"
        )));
    }
    match pace {
        "open" => Ok(Pace::Open { factor }),
        "closed" if waiting => Ok(Pace::Intervals { depth, factor }),
        "closed" => Ok(Pace::closed(depth)),
        other => Err(errors::input_error(format!("pace is `{other}`: it must be open or closed"))),
    }
}

/// What becomes of addresses that the region does not have.
pub fn remap_of(remap: &str) -> PyResult<Remap> {
    match remap {
        "refuse" => Ok(Remap::Refuse),
        "fold" => Ok(Remap::Fold),
        "scale" => Ok(Remap::Scale),
        other => Err(errors::input_error(format!(
            "remap is `{other}`: it must be refuse, fold or scale"
        ))),
    }
}

/// Replays a trace on a device, in a region of `region_bytes` (to the device's end if left out)
/// from `region_offset` on, which is address 0 of the trace.
///
/// `pace` is "open": each request at its time in the trace divided by `factor`; or "closed": up to
/// `depth` outstanding, with `waiting` not before the trace's interval divided by `factor` has
/// passed since the request before was sent. `remap` says what becomes of addresses that the region
/// does not have: "refuse", "fold" or "scale". With `keep_going` a request that fails is only
/// counted. Each flow of `beside`, as `simulate_drive` has them, is played beside the trace until
/// it ends; where requests wait for room on the device, those of the highest priority go first, of
/// the trace `priority`. `record_to` is the Parquet file of a trace of what the device was sent, as
/// told by a layer above it.
///
/// Gives the figures with `tables`. A replay that is stopped or fails gives what it measured:
/// `ended` is "cancelled" or "failed", with `error`. Raises InputError before the first request.
/// Progress counts requests.
#[pyfunction]
#[pyo3(name = "replay", signature = (
    device, trace, *, pace="open", factor=1.0, depth=1, waiting=false, remap="refuse",
    region_offset=0, region_bytes=None, keep_going=false, record_to=None, beside=vec![], priority=0,
    progress=None
))]
#[allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "keyword arguments of Python"
)]
fn replay_on<'py>(
    py: Python<'py>,
    device: &Device,
    trace: &LoadedTrace,
    pace: &str,
    factor: f64,
    depth: u32,
    waiting: bool,
    remap: &str,
    region_offset: u64,
    region_bytes: Option<u64>,
    keep_going: bool,
    record_to: Option<PathBuf>,
    beside: Vec<GivenFlow>,
    priority: u8,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let about = device.about();
    let pace = pace_of(pace, factor, depth, waiting, about.queue_depth)?;
    if pace.is_timed() && trace.0.facts.timeless {
        let name = trace.0.path.display();
        return Err(errors::input_error(format!(
            "{name}: it has no times; right would be a closed pace without waiting"
        )));
    }
    let length = region_bytes.unwrap_or(about.limits.capacity_bytes.saturating_sub(region_offset));
    let region = Region { offset: region_offset, length };
    let fit = Fit::new(&trace.0.totals, about, region, remap_of(remap)?).map_err(replay_error)?;
    let source = Fitted::new(trace.0.source().map_err(replay_error)?, fit);
    let counts = source.counts();
    let progress = progress::shared(progress);
    progress.set_total(trace.0.totals.requests());
    let mut held = device.lock()?;
    let held = &mut **held;
    let playing = Playing { signals: &[], keeps_going: keep_going, progress: &progress };
    let name = trace.0.path.display().to_string();
    let mut flows = vec![flow(Box::new(source), pace).with_priority(priority)];
    let mut told = vec![ToldFlow {
        name: &name,
        priority,
        handle: None,
        offset: region_offset,
        is_folded: false,
    }];
    for given in &beside {
        let (offset, length) = given.region(about.limits.capacity_bytes)?;
        let region = Region { offset, length };
        let fit = Fit::new(&Totals::default(), about, region, Remap::Refuse);
        let fitted = Fitted::new(given.requests().source(length)?, fit.map_err(replay_error)?);
        flows.push(given.marked(flow(Box::new(fitted), drive::pace_of(given)?)));
        let requests = given.requests();
        let (priority, is_folded) = (given.priority, requests.is_folded(length));
        told.push(ToldFlow { name: requests.name(), priority, handle: None, offset, is_folded });
    }
    let played = py.detach(|| match &record_to {
        None => Ok(play(held, flows, &playing)),
        Some(path) => recorded(held, path, |device| play(device, flows, &playing)),
    });
    let played = played.map_err(trace_error)?;
    let dict = figures(py, &played.measured, &counts(), pace)?;
    dict.set_item("flows", flow_dicts(py, &told, &played.measured.flows, 1_000_000_000)?)?;
    ended(&dict, played.ended.as_ref())?;
    Ok(dict)
}

/// How a replay ended: None, "cancelled" or "failed" with the error.
pub fn ended(dict: &Bound<'_, PyDict>, why: Option<&ReplayError>) -> PyResult<()> {
    let (ended, error) = match why {
        None => (None, None),
        Some(ReplayError::Cancelled(_)) => (Some("cancelled"), None),
        Some(error) => (Some("failed"), Some(error.to_string())),
    };
    dict.set_item("ended", ended)?;
    dict.set_item("error", error)
}

fn recorded(
    device: &mut dyn BlockDevice,
    path: &Path,
    play: impl FnOnce(&mut dyn BlockDevice) -> Played,
) -> Result<Played, TraceError> {
    let mut recorded = Recorded::new(device, path)?;
    let played = play(&mut recorded);
    recorded.finish()?;
    Ok(played)
}

/// What was measured, with `tables`.
pub fn figures<'py>(
    py: Python<'py>,
    measured: &Measured,
    fitted: &FittedCounts,
    pace: Pace,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let (requests, bytes) = (PyDict::new(py), PyDict::new(py));
    let (latency, response) = (PyDict::new(py), PyDict::new(py));
    for (op, found) in occurred(measured) {
        requests.set_item(op.name(), found.requests)?;
        bytes.set_item(op.name(), found.bytes)?;
        latency.set_item(op.name(), summary(py, &found.latency)?)?;
        response.set_item(op.name(), summary(py, &found.response)?)?;
    }
    dict.set_item("requests", requests)?;
    dict.set_item("bytes", bytes)?;
    dict.set_item("latency_ns", latency)?;
    dict.set_item("response_ns", pace.is_timed().then_some(response))?;
    dict.set_item(
        "lateness_ns",
        pace.is_timed().then(|| summary(py, &measured.lateness)).transpose()?,
    )?;
    dict.set_item("held_ns", summary(py, &measured.held)?)?;
    dict.set_item("sent", measured.sent)?;
    dict.set_item("iops", measured.iops())?;
    dict.set_item("bytes_per_second", measured.bytes_per_second())?;
    dict.set_item("seconds", measured.elapsed as f64 / 1e9)?;
    dict.set_item("most_outstanding", measured.timekeeping.most_outstanding)?;
    dict.set_item("starved", measured.timekeeping.starved)?;
    dict.set_item("starved_seconds", measured.timekeeping.starved_ns as f64 / 1e9)?;
    dict.set_item("fitted", fitted_dict(py, fitted)?)?;
    let failures = measured.failures.iter().map(|((op, reason), failure)| {
        let dict = PyDict::new(py);
        dict.set_item("op", op)?;
        dict.set_item("reason", reason)?;
        dict.set_item("requests", failure.requests)?;
        dict.set_item("first", &failure.first)?;
        Ok(dict)
    });
    dict.set_item("failures", failures.collect::<PyResult<Vec<_>>>()?)?;
    let tables = PyDict::new(py);
    tables.set_item("windows", windows(py, measured)?)?;
    tables.set_item("latency", classes(py, measured)?)?;
    let map = latency_map(py, &measured.latency_map, measured.elapsed, 1_000_000_000)?;
    tables.set_item("latency_over_time", map)?;
    dict.set_item("tables", tables)?;
    Ok(dict)
}

fn fitted_dict<'py>(py: Python<'py>, fitted: &FittedCounts) -> PyResult<Bound<'py, PyDict>> {
    let FittedCounts {
        moved,
        cut,
        widened,
        split,
        more_parts,
        trims_without_device,
        trims_too_short,
    } = *fitted;
    let dict = PyDict::new(py);
    dict.set_item("moved", moved)?;
    dict.set_item("cut", cut)?;
    dict.set_item("widened", widened)?;
    dict.set_item("split", split)?;
    dict.set_item("more_parts", more_parts)?;
    dict.set_item("trims_without_device", trims_without_device)?;
    dict.set_item("trims_too_short", trims_too_short)?;
    Ok(dict)
}

/// Operations that occurred.
fn occurred(measured: &Measured) -> impl Iterator<Item = (IoOp, &OpMeasured)> {
    IoOp::ALL
        .into_iter()
        .map(|op| (op, &measured.by_op[op as usize]))
        .filter(|(_, found)| found.requests > 0)
}

/// Quantiles are upper ends of classes, at most 0.1 % too large; None without requests.
fn summary<'py>(
    py: Python<'py>,
    histogram: &Histogram<u64>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    if histogram.is_empty() {
        return Ok(None);
    }
    let dict = PyDict::new(py);
    dict.set_item("count", histogram.len())?;
    dict.set_item("mean", histogram.mean())?;
    for (key, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
        dict.set_item(key, histogram.value_at_quantile(quantile))?;
    }
    dict.set_item("p9999", p9999(histogram))?;
    dict.set_item("max", histogram.max())?;
    Ok(Some(dict))
}

/// Windows of time in which something ended, by operation. The last window is as long as the replay
/// left it, so that counts over `seconds` are rates there, too.
fn windows<'py>(py: Python<'py>, measured: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let mut ops = Vec::new();
    let (mut starts, mut lengths) = (Vec::new(), Vec::new());
    let (mut requests, mut bytes) = (Vec::new(), Vec::new());
    let (mut means, mut mosts, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for (number, window) in measured.windows.all.iter().enumerate() {
        for op in IoOp::ALL {
            let count = window.requests[op as usize];
            if count == 0 {
                continue;
            }
            let start = number as u64 * measured.windows.each;
            let left = measured.elapsed.saturating_sub(start);
            starts.push(start as f64 / 1e9);
            lengths.push(left.clamp(1, measured.windows.each) as f64 / 1e9);
            ops.push(op.name());
            requests.push(count);
            bytes.push(match op {
                IoOp::Read => window.read_bytes,
                IoOp::Write => window.written_bytes,
                IoOp::Trim | IoOp::Flush => 0,
            });
            means.push(window.latency_ns[op as usize] as f64 / count as f64);
            mosts.push(window.most_latency_ns[op as usize]);
            late.push(window.most_late_ns);
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("seconds", lengths.into_pyarray(py))?;
    dict.set_item("start_s", starts.into_pyarray(py))?;
    dict.set_item("op", ops)?;
    dict.set_item("requests", requests.into_pyarray(py))?;
    dict.set_item("bytes", bytes.into_pyarray(py))?;
    dict.set_item("mean_latency_ns", means.into_pyarray(py))?;
    dict.set_item("max_latency_ns", mosts.into_pyarray(py))?;
    dict.set_item("max_late_ns", late.into_pyarray(py))?;
    Ok(dict)
}

/// The classes of all histograms that hold something: `of` is latency, response, lateness or held;
/// `op` is empty where they are of all.
fn classes<'py>(py: Python<'py>, measured: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let mut all: Vec<(&str, &str, &Histogram<u64>)> = Vec::new();
    for (op, found) in occurred(measured) {
        all.push(("latency", op.name(), &found.latency));
        all.push(("response", op.name(), &found.response));
    }
    all.push(("lateness", "", &measured.lateness));
    all.push(("held", "", &measured.held));
    let (mut ofs, mut ops, mut from, mut to, mut counts) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (of, op, histogram) in all {
        for class in histogram.iter_recorded() {
            let value = class.value_iterated_to();
            ofs.push(of);
            ops.push(op);
            from.push(histogram.lowest_equivalent(value));
            to.push(histogram.highest_equivalent(value));
            counts.push(class.count_since_last_iteration());
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("of", ofs)?;
    dict.set_item("op", ops)?;
    dict.set_item("from_ns", from.into_pyarray(py))?;
    dict.set_item("to_ns", to.into_pyarray(py))?;
    dict.set_item("count", counts.into_pyarray(py))?;
    Ok(dict)
}

/// Adds the class and the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoadedTrace>()?;
    module.add_function(wrap_pyfunction!(load_replay, module)?)?;
    module.add_function(wrap_pyfunction!(replay_on, module)?)
}
