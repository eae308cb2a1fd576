//! Stacks of layers: what there is, and traces played on them.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::block::{
    BlockDevice, BlockError, DeviceInfo, FlashWork, Immediate, Limits, Part, Signal, Store,
};
use ::layers::{
    Driver, EquationPiece, Facts, LAYERS, LayerError, Meter, PatternTimes, Sample, Sent, Stack,
    Thresholds,
};
use ::replay::{
    Ending, Fit, Fitted, FittedCounts, Flushing, Found, Keeping, Kept, Pace, Played, Playing,
    Region, ReplayError, flow, play,
};
use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use units::{IoOp, Nanos, Progress, RequestSource};

use crate::devices::Device;
use crate::errors;
use crate::progress;
use crate::registry::info_dict;
use crate::replay::{LoadedTrace, ended, figures, pace_of, remap_of, replay_error};

/// Every layer, with its counters: a list of dicts with name, unit-bearing names and help.
pub fn layer_dicts(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    LAYERS
        .iter()
        .map(|entry| {
            let dict = info_dict(py, &entry.info)?;
            let counters = entry.counters.iter().map(|counter| {
                let dict = PyDict::new(py);
                dict.set_item("name", counter.name)?;
                dict.set_item("help", counter.help)?;
                dict.set_item("is_level", counter.is_level)?;
                Ok(dict)
            });
            dict.set_item("counters", counters.collect::<PyResult<Vec<_>>>()?)?;
            Ok(dict)
        })
        .collect()
}

/// A stack that cannot be made is wrong use, a device that fails meanwhile a failed run.
fn layer_error(error: LayerError) -> PyErr {
    match error {
        LayerError::Device(_) | LayerError::Gone(_) => errors::run_error(error),
        other => errors::input_error(other),
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GivenTimes {
    sequential_ns: f64,
    partitioned_ns: f64,
    focused_ns: f64,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GivenThresholds {
    sequential_pages: f64,
    partitioned_pages: f64,
    focused_pages: f64,
}

/// What is known of a device, as Python tells it: every key may be left out.
pub fn facts_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Facts> {
    const KEYS: [&str; 7] = [
        "write_bytes",
        "erase_block_bytes",
        "focused_area_bytes",
        "times",
        "thresholds",
        "sequential_write",
        "random_write",
    ];
    let Some(given) = given else { return Ok(Facts::default()) };
    if let Some(key) =
        given.keys().iter().find(|key| !KEYS.iter().any(|known| key.eq(*known).unwrap_or(false)))
    {
        return Err(errors::input_error(format!(
            "facts has no `{key}`; known are: {}",
            KEYS.join(", ")
        )));
    }
    let item = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(given.get_item(key)?.filter(|value| !value.is_none()))
    };
    let number = |key: &str| item(key)?.map(|value| value.extract::<u64>()).transpose();
    let pieces = |key: &str| -> PyResult<Vec<EquationPiece>> {
        let all = item(key)?.map(|value| value.extract::<Vec<(u64, f64, f64)>>()).transpose()?;
        let piece =
            |(to_bytes, intercept_ns, slope_ns)| EquationPiece { to_bytes, intercept_ns, slope_ns };
        Ok(all.unwrap_or_default().into_iter().map(piece).collect())
    };
    Ok(Facts {
        write_bytes: item("write_bytes")?.map(|value| value.extract::<u32>()).transpose()?,
        erase_block_bytes: number("erase_block_bytes")?,
        focused_area_bytes: number("focused_area_bytes")?,
        times: item("times")?.map(|value| value.extract::<GivenTimes>()).transpose()?.map(
            |GivenTimes { sequential_ns, partitioned_ns, focused_ns }| PatternTimes {
                sequential_ns,
                partitioned_ns,
                focused_ns,
            },
        ),
        thresholds: item("thresholds")?
            .map(|value| value.extract::<GivenThresholds>())
            .transpose()?
            .map(|GivenThresholds { sequential_pages, partitioned_pages, focused_pages }| {
                Thresholds { sequential_pages, partitioned_pages, focused_pages }
            }),
        sequential_write: pieces("sequential_write")?,
        random_write: pieces("random_write")?,
        staging_offset: None,
    })
}

/// When checkpoints of the database begin and end, and how layers are told of the ends. Of
/// beginnings they are told beside the requests.
struct Checkpoints {
    times: Arc<[Nanos]>,
    begins: Vec<Nanos>,
    are_flushes: bool,
}

impl Checkpoints {
    fn new(mut times: Vec<Nanos>, begins: Vec<Nanos>, told: &str) -> PyResult<Self> {
        times.sort_unstable();
        let are_flushes = match told {
            "flush" => true,
            "signal" => false,
            other => {
                return Err(errors::input_error(format!(
                    "checkpoints_as is `{other}`: it must be flush or signal"
                )));
            }
        };
        Ok(Self { times: times.into(), begins, are_flushes })
    }

    fn among(&self, source: Box<dyn RequestSource>) -> Box<dyn RequestSource> {
        if self.are_flushes {
            Box::new(Flushing::new(source, Arc::clone(&self.times)))
        } else {
            source
        }
    }

    fn signals(&self) -> Vec<(Nanos, Signal)> {
        let ends = if self.are_flushes { &[][..] } else { &self.times };
        let begins = self.begins.iter().map(|at| (*at, Signal::CheckpointBegins));
        let mut signals: Vec<_> =
            ends.iter().map(|at| (*at, Signal::CheckpointEnds)).chain(begins).collect();
        signals.sort_by_key(|(at, _)| *at);
        signals
    }
}

/// The time of this machine, in nanoseconds.
fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Layers over a device that holds data.
struct WithBytes<'a> {
    stack: &'a str,
    facts: &'a Facts,
    seed: u64,
    ending: Ending,
}

/// How a stack is measured.
struct Measuring<'a> {
    bytes: Option<WithBytes<'a>>,
    fit: Fit,
    checkpoints: Checkpoints,
    pace: Pace,
    drains: bool,
    sample_every: Nanos,
    progress: &'a Progress,
}

/// What came of it.
struct Outcome {
    played: Played,
    fitted: FittedCounts,
    below: [Sent; IoOp::ALL.len()],
    /// With reads, and with all else.
    busy_ns: (Nanos, Nanos),
    samples: Vec<Sample>,
    computing_ns: u64,
    drained_ns: Nanos,
    capacity_bytes: u64,
    work: Option<FlashWork>,
    layers: Vec<&'static str>,
    kept: Option<Recovered>,
}

/// What was found of the data when the device was opened again.
struct Recovered {
    ending: Ending,
    found: Found,
    recovery_ns: Nanos,
}

impl Measuring<'_> {
    /// Plays a trace through a stack that is as just formatted.
    fn run(
        &self,
        stack: Stack,
        device: &mut dyn BlockDevice,
        trace: &LoadedTrace,
    ) -> PyResult<Outcome> {
        let stack = match &self.bytes {
            None => stack,
            Some(bytes) => bytes.begin(device).map_err(layer_error)?,
        };
        let before = device.telemetry();
        let meter = Meter::new(self.sample_every, clock_ns);
        let mut driver = Driver::watched(&mut *device, stack, meter);
        let source = trace.0.source().map_err(replay_error)?;
        let fitted = Fitted::new(source, self.fit);
        let counts = fitted.counts();
        let (mut played, kept) = self.play(&mut driver, Box::new(fitted))?;
        let ended_at = driver.now();
        let drains = match &self.bytes {
            None => self.drains,
            Some(bytes) => bytes.ending == Ending::Drained,
        };
        if drains && played.ended.is_none() {
            played.ended = self.drain(&mut driver).err().map(ReplayError::Device);
        }
        let now = driver.now();
        driver.sample(now);
        let meter = driver.watch();
        let mut outcome = Outcome {
            played,
            fitted: counts(),
            below: *meter.below(),
            busy_ns: meter.busy_ns(),
            samples: meter.samples().to_vec(),
            computing_ns: meter.computing_ns(),
            drained_ns: now - ended_at,
            capacity_bytes: driver.info().limits.capacity_bytes,
            work: driver.telemetry().since(&before).flash,
            layers: driver.stack().layers().iter().map(|layer| layer.name()).collect(),
            kept: None,
        };
        if let (Some(bytes), Some(kept)) = (&self.bytes, kept)
            && outcome.played.ended.is_none()
        {
            if bytes.ending == Ending::Drained {
                Store::new(&mut driver).flush().map_err(errors::run_error)?;
            }
            drop(driver);
            outcome.kept = Some(bytes.open_again(device, &kept)?);
        }
        Ok(outcome)
    }

    /// Plays the trace, with bytes for its writes where the device holds data.
    fn play(
        &self,
        driver: &mut dyn BlockDevice,
        source: Box<dyn RequestSource>,
    ) -> PyResult<(Played, Option<Kept>)> {
        let playing = Playing {
            signals: &self.checkpoints.signals(),
            keeps_going: false,
            progress: self.progress,
        };
        let flows = vec![flow(self.checkpoints.among(source), self.pace)];
        let Some(bytes) = &self.bytes else { return Ok((play(driver, flows, &playing), None)) };
        let mut keeping = Keeping::new(driver, bytes.seed);
        let played = play(&mut keeping, flows, &playing);
        let kept = keeping.into_kept();
        Ok((played, Some(kept.map_err(|wrong| bytes.is_wrong("a read", &wrong))?)))
    }

    fn drain<D: BlockDevice>(
        &self,
        driver: &mut Driver<D, Stack, Meter>,
    ) -> Result<(), BlockError> {
        driver.drain(&mut || self.progress.advance(0).is_ok())?;
        let name = driver.info().name.clone();
        match driver.failure().cloned() {
            Some(failure) => Err(BlockError::Failed { name, failure }),
            None => Ok(()),
        }
    }
}

impl WithBytes<'_> {
    fn begin(&self, device: &mut dyn BlockDevice) -> Result<Stack, LayerError> {
        ::layers::format(self.stack, self.facts, self.seed, device)?;
        ::layers::open(self.stack, self.facts, self.seed, device)
    }

    fn is_wrong(&self, place: &str, wrong: &dyn std::fmt::Display) -> PyErr {
        errors::run_error(format!("data through `{}`: {place}: {wrong}", self.stack))
    }

    /// What a process does that comes after the one that was stopped.
    fn open_again(&self, device: &mut dyn BlockDevice, kept: &Kept) -> PyResult<Recovered> {
        let mut dropped = Vec::new();
        while device.outstanding() > 0 {
            device.wait(Nanos::MAX, &mut dropped).map_err(errors::run_error)?;
        }
        let since = device.now();
        let stack = ::layers::open(self.stack, self.facts, self.seed, device);
        let stack = stack.map_err(|error| self.is_wrong("when it was opened again", &error))?;
        let recovery_ns = device.now() - since;
        let mut driver = Driver::new(device, stack);
        let found = kept
            .check(&mut Store::new(&mut driver), self.ending)
            .map_err(|error| self.is_wrong("when it was opened again", &error))?;
        Ok(Recovered { ending: self.ending, found, recovery_ns })
    }
}

/// How a run with data ends, by its word.
fn ending_of(data: &str) -> PyResult<Ending> {
    match data {
        "drained" => Ok(Ending::Drained),
        "killed" => Ok(Ending::Killed),
        other => {
            Err(errors::input_error(format!("data is `{other}`: it must be drained or killed")))
        }
    }
}

/// Formats a stack of layers over a device, and plays a trace on it: `replay` with layers between.
///
/// `stack` are layers from the top to the bottom with `|` between them, or "direct"; `facts` what
/// is known of the device, for parameters that are `auto`. The stack has `region_bytes` of the
/// device (to its end if left out) from `region_offset` on, and of what it offers the first
/// `above_bytes` are used (all if left out): stacks that offer different capacities play the same
/// requests then. At `checkpoints_ns`, times of the trace, a checkpoint of the database ends: a
/// flush among the requests, or a signal to the layers, as `checkpoints_as` says; at `begins_ns`
/// one begins, which layers are always told by a signal. With `drain` layers write back what they
/// hold at the end, after what is measured of requests. With `data`, of a device that holds data,
/// the stack is formatted there, writes carry bytes, and reads are checked; the run then ends
/// "drained" (written back and flushed) or "killed" (whatever layers still hold is dropped), and
/// the stack is opened again, recovers, and all data is checked against what that ending may lose.
/// Counters are sampled every `sample_every_ns` of the device's time, or less often if that is too
/// many.
///
/// Gives the figures of `replay` and `layers`: capacity_bytes (above), below (what the device was
/// sent by operation: requests, bytes, latency_ns, a sum), busy_ns (how long the device had
/// something to do, with `reads` and with `changes`, all else: what overlaps counts once), flash
/// (what its flash did: page_bytes, page_reads, page_programs, erases; None if nobody can tell),
/// computing_seconds (time of this machine's processor in the layers), drain_seconds, counters (one
/// dict a layer), kept (with `data`: ending, sectors, newest, recovery_seconds), and
/// `tables.samples`. Raises InputError before the first request.
#[pyfunction]
#[pyo3(signature = (
    device, trace, stack, *, facts=None, seed=1, pace="closed", factor=1.0, depth=1, waiting=false,
    remap="refuse", region_offset=0, region_bytes=None, above_bytes=None, checkpoints_ns=None,
    begins_ns=None, checkpoints_as="flush", drain=true, data=None, sample_every_ns=1_000_000,
    progress=None
))]
#[allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "keyword arguments of Python"
)]
fn replay_layers<'py>(
    py: Python<'py>,
    device: &Device,
    trace: &LoadedTrace,
    stack: &str,
    facts: Option<&Bound<'py, PyDict>>,
    seed: u64,
    pace: &str,
    factor: f64,
    depth: u32,
    waiting: bool,
    remap: &str,
    region_offset: u64,
    region_bytes: Option<u64>,
    above_bytes: Option<u64>,
    checkpoints_ns: Option<Vec<Nanos>>,
    begins_ns: Option<Vec<Nanos>>,
    checkpoints_as: &str,
    drain: bool,
    data: Option<&str>,
    sample_every_ns: Nanos,
    progress: Option<&Bound<'py, progress::Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let about = &part_of(device.about(), region_offset, region_bytes)?;
    let pace = pace_of(pace, factor, depth, waiting, about.queue_depth)?;
    let checkpoints = Checkpoints::new(
        checkpoints_ns.unwrap_or_default(),
        begins_ns.unwrap_or_default(),
        checkpoints_as,
    )?;
    if (pace.is_timed() || !checkpoints.times.is_empty()) && trace.0.facts.timeless {
        let name = trace.0.path.display();
        return Err(errors::input_error(format!(
            "{name}: it has no times; right would be a closed pace without waiting or checkpoints"
        )));
    }
    let facts = facts_of(facts)?;
    let ending = data.map(ending_of).transpose()?;
    if ending.is_some() != about.holds_data {
        let right =
            if about.holds_data { "`data`" } else { "a device that was opened with `data`" };
        return Err(errors::input_error(format!(
            "{}: data goes with a device that holds it; right would be {right}",
            about.name
        )));
    }
    let text = stack;
    let stack = open_blank(stack, &facts, seed, about)?;
    let mut above = about.clone();
    above.limits.capacity_bytes = stack.limits().capacity_bytes;
    let Limits { capacity_bytes: whole, sector_bytes, .. } = above.limits;
    let length = above_bytes.unwrap_or(whole);
    if length == 0 || length > whole || !length.is_multiple_of(u64::from(sector_bytes)) {
        return Err(errors::input_error(format!(
            "above_bytes is {length}: it must be whole sectors of the {whole} bytes that the stack \
             offers"
        )));
    }
    let region = Region { offset: 0, length };
    let fit = Fit::new(&trace.0.totals, &above, region, remap_of(remap)?).map_err(replay_error)?;
    let progress = progress::shared(progress);
    progress.set_total(trace.0.totals.requests());
    let mut held = device.lock()?;
    let mut part = Part::new(&mut **held, region_offset, about.limits.capacity_bytes);
    let measuring = Measuring {
        bytes: ending.map(|ending| WithBytes { stack: text, facts: &facts, seed, ending }),
        fit,
        checkpoints,
        pace,
        drains: drain,
        sample_every: sample_every_ns,
        progress: &progress,
    };
    let outcome = py.detach(|| measuring.run(stack, &mut part, trace))?;
    let dict = figures(py, &outcome.played.measured, &outcome.fitted, pace)?;
    ended(&dict, outcome.played.ended.as_ref())?;
    dict.set_item("layers", layers_dict(py, &outcome)?)?;
    let tables: Bound<'_, PyDict> = dict
        .get_item("tables")?
        .map(|tables| tables.cast_into())
        .transpose()?
        .unwrap_or_else(|| PyDict::new(py));
    tables.set_item("samples", samples(py, &outcome)?)?;
    Ok(dict)
}

/// What is known of a part of a device. InputError if it is not of whole sectors, or not there.
pub fn part_of(about: &DeviceInfo, offset: u64, length: Option<u64>) -> PyResult<DeviceInfo> {
    let (capacity, sector) = (about.limits.capacity_bytes, u64::from(about.limits.sector_bytes));
    let length = length.unwrap_or(capacity.saturating_sub(offset));
    let is_within = offset.checked_add(length).is_some_and(|end| end <= capacity);
    if length == 0 || !is_within || !offset.is_multiple_of(sector) || !length.is_multiple_of(sector)
    {
        let name = &about.name;
        return Err(errors::input_error(format!(
            "{name}: a region of {length} bytes from byte {offset} on is not of whole sectors of \
             its {capacity} bytes"
        )));
    }
    let limits = Limits { capacity_bytes: length, ..about.limits };
    Ok(DeviceInfo { limits, ..about.clone() })
}

/// A stack as it is when it has just been formatted. Requests carry no data, so that the device
/// itself need not be written for that. InputError if it cannot be made.
pub fn open_blank(text: &str, facts: &Facts, seed: u64, about: &DeviceInfo) -> PyResult<Stack> {
    let mut blank = Immediate::sparse(about.limits);
    ::layers::format(text, facts, seed, &mut blank).map_err(layer_error)?;
    ::layers::open(text, facts, seed, &mut blank).map_err(layer_error)
}

/// The layers of a stack, from the top to the bottom. Raises InputError if one is unknown, or has
/// no such parameter.
#[pyfunction]
fn check_stack(stack: &str) -> PyResult<Vec<&'static str>> {
    let parsed = ::layers::parse(stack).map_err(errors::input_error)?;
    Ok(parsed.into_iter().map(|(entry, _)| entry.info.name).collect())
}

/// The text of a stack with the forms that its layers get by what is known of the device, as a
/// volume's header keeps it. Raises InputError if a parameter is wrong.
#[pyfunction]
#[pyo3(signature = (stack, *, facts=None))]
fn settled_stack(stack: &str, facts: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    ::layers::settled(stack, &facts_of(facts)?).map_err(layer_error)
}

/// Bytes that a stack offers over a device, or over a region of it. Raises InputError if it cannot
/// be made.
#[pyfunction]
#[pyo3(signature = (device, stack, *, facts=None, seed=1, region_offset=0, region_bytes=None))]
fn stack_capacity_bytes(
    device: &Device,
    stack: &str,
    facts: Option<&Bound<'_, PyDict>>,
    seed: u64,
    region_offset: u64,
    region_bytes: Option<u64>,
) -> PyResult<u64> {
    let about = part_of(device.about(), region_offset, region_bytes)?;
    Ok(open_blank(stack, &facts_of(facts)?, seed, &about)?.limits().capacity_bytes)
}

/// The names of a stack's counters, in the order in which they are counted.
fn counters(layers: &[&'static str]) -> impl Iterator<Item = (usize, &'static str)> {
    let entry = |name: &str| LAYERS.iter().find(|entry| entry.info.name == name);
    let all: Vec<_> = layers
        .iter()
        .enumerate()
        .flat_map(|(level, name)| {
            entry(name)
                .into_iter()
                .flat_map(move |entry| entry.counters.iter().map(move |one| (level, one.name)))
        })
        .collect();
    all.into_iter()
}

fn kept_dict<'py>(py: Python<'py>, kept: &Recovered) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let ending = if kept.ending == Ending::Drained { "drained" } else { "killed" };
    dict.set_item("ending", ending)?;
    dict.set_item("sectors", kept.found.sectors)?;
    dict.set_item("newest", kept.found.newest)?;
    dict.set_item("recovery_seconds", kept.recovery_ns as f64 / 1e9)?;
    Ok(dict)
}

fn layers_dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let (dict, below) = (PyDict::new(py), PyDict::new(py));
    for (op, sent) in
        IoOp::ALL.into_iter().zip(&outcome.below).filter(|(_, sent)| sent.commands > 0)
    {
        let one = PyDict::new(py);
        one.set_item("requests", sent.commands)?;
        one.set_item("bytes", sent.bytes)?;
        one.set_item("latency_ns", sent.latency_ns)?;
        below.set_item(op.name(), one)?;
    }
    let flash = outcome.work.map(|work| -> PyResult<_> {
        let flash = PyDict::new(py);
        flash.set_item("page_bytes", work.page_bytes)?;
        flash.set_item("page_reads", work.page_reads)?;
        flash.set_item("page_programs", work.page_programs)?;
        flash.set_item("erases", work.erases)?;
        Ok(flash)
    });
    dict.set_item("capacity_bytes", outcome.capacity_bytes)?;
    dict.set_item("below", below)?;
    let busy = PyDict::new(py);
    busy.set_item("reads", outcome.busy_ns.0)?;
    busy.set_item("changes", outcome.busy_ns.1)?;
    dict.set_item("busy_ns", busy)?;
    dict.set_item("flash", flash.transpose()?)?;
    dict.set_item("computing_seconds", outcome.computing_ns as f64 / 1e9)?;
    dict.set_item("drain_seconds", outcome.drained_ns as f64 / 1e9)?;
    dict.set_item("kept", outcome.kept.as_ref().map(|kept| kept_dict(py, kept)).transpose()?)?;
    let each: Vec<_> = outcome.layers.iter().map(|name| (name, PyDict::new(py))).collect();
    if let Some(last) = outcome.samples.last() {
        for ((level, name), value) in counters(&outcome.layers).zip(&last.counts) {
            each[level].1.set_item(name, value)?;
        }
    }
    let list = PyList::empty(py);
    for (name, counts) in each {
        let one = PyDict::new(py);
        one.set_item("layer", name)?;
        one.set_item("counters", counts)?;
        list.append(one)?;
    }
    dict.set_item("counters", list)?;
    Ok(dict)
}

/// Counters over time, one row a sample and counter.
fn samples<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let names: Vec<_> = counters(&outcome.layers).collect();
    let (mut at, mut levels, mut layers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut counter, mut values) = (Vec::new(), Vec::new());
    for sample in &outcome.samples {
        for ((level, name), value) in names.iter().zip(&sample.counts) {
            at.push(sample.at as f64 / 1e9);
            levels.push(*level as u32);
            layers.push(outcome.layers[*level]);
            counter.push(*name);
            values.push(*value);
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("time_s", at.into_pyarray(py))?;
    dict.set_item("level", levels.into_pyarray(py))?;
    dict.set_item("layer", layers)?;
    dict.set_item("counter", counter)?;
    dict.set_item("value", values.into_pyarray(py))?;
    Ok(dict)
}

/// Adds the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_stack, module)?)?;
    module.add_function(wrap_pyfunction!(settled_stack, module)?)?;
    module.add_function(wrap_pyfunction!(stack_capacity_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(replay_layers, module)?)
}
