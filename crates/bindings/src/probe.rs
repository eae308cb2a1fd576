//! Experiments on block devices.

use std::time::Duration;

use ::prober::bench::{Limit, closed};
use ::prober::cell::{Access, Cell, measure};
use ::prober::fit::{FitError, Input, fit};
use ::prober::protocol::Matrix;
use ::prober::{Bench, Experiment, Finding, Known, ProbeError, Region, Settings, find};
use ::registry::Args;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use units::Nanos;

use crate::devices::Device;
use crate::errors;
use crate::progress::{self, Progress};
use crate::registry::experiment_dict;

/// Describes the experiment of a spec such as `chunk_size(most=64Ki)`, as a dict like those of
/// `variants` with `spec`: the experiment with all its parameters. Raises InputError if there is
/// none of that name, or a parameter is wrong.
#[pyfunction]
pub fn experiment<'py>(py: Python<'py>, spec: &str) -> PyResult<Bound<'py, PyDict>> {
    let (entry, args) = find(spec).map_err(errors::input_error)?;
    Ok(dict!(in experiment_dict(py, entry)?, "spec": with_all_parameters(entry, &args)))
}

fn with_all_parameters(entry: &Experiment, args: &Args) -> String {
    let given: Vec<String> = args.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{}({})", entry.info.name, given.join(","))
}

fn probe_error(error: ProbeError) -> PyErr {
    match error {
        // A device that was opened and does not go on is no wrong use any more.
        ProbeError::Device(error) => errors::run_error(error),
        ProbeError::Drive(::devices::DeviceError::Cancelled(cancelled)) => {
            errors::cancelled(cancelled)
        }
        ProbeError::Drive(error) => errors::run_error(error),
        ProbeError::Spec(error) => errors::input_error(error),
        ProbeError::Impossible { .. } => errors::ImpossibleError::new_err(error.to_string()),
        ProbeError::Source(error) => errors::run_error(error),
        ProbeError::Cancelled(cancelled) => errors::cancelled(cancelled),
    }
}

fn budget_of(seconds: f64) -> PyResult<Nanos> {
    if seconds > 0.0 && seconds <= 1e8 {
        return Ok((seconds * 1e9) as Nanos);
    }
    Err(errors::input_error(format!(
        "budget_seconds is {seconds}: it must be above 0 and at most 1e8"
    )))
}

/// The region, if the device has it.
fn region_of(device: &Device, offset: u64, length: Option<u64>) -> PyResult<Region> {
    let about = device.about();
    let (sector, capacity) = (u64::from(about.limits.sector_bytes), about.limits.capacity_bytes);
    let length = length.unwrap_or(capacity.saturating_sub(offset));
    let is_whole = offset.is_multiple_of(sector) && length.is_multiple_of(sector);
    if is_whole && length > 0 && offset.checked_add(length).is_some_and(|end| end <= capacity) {
        return Ok(Region { offset, length });
    }
    Err(errors::input_error(format!(
        "device `{}`: there is no region of {length} bytes at byte {offset}: it must be of whole \
         sectors of {sector} bytes, at least one, within {capacity} bytes",
        about.name
    )))
}

fn known_of(findings: &str) -> PyResult<Known> {
    let findings: Vec<Finding> = serde_json::from_str(findings).map_err(|error| {
        errors::input_error(format!("findings: not a JSON list of findings: {error}"))
    })?;
    Ok(Known::new(findings))
}

/// JSON has no infinity: an interval that is not finite says as much as none, and any other such
/// number is a bug of the experiment.
fn finite(mut finding: Finding) -> PyResult<Finding> {
    let without = |interval: &mut Option<[f64; 2]>| {
        *interval = interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
    };
    let mut wrong = None;
    for value in &mut finding.values {
        without(&mut value.interval);
        if value.number.is_some_and(|number| !number.is_finite()) {
            wrong = Some(format!("the value {}", value.key));
        }
    }
    for chart in &mut finding.charts {
        for point in chart.series.iter_mut().flat_map(|series| &mut series.points) {
            without(&mut point.interval);
            if !point.x.is_finite() || !point.y.is_finite() {
                wrong = Some(format!("a point of the chart {}", chart.name));
            }
        }
    }
    match wrong {
        None => Ok(finding),
        Some(what) => Err(errors::run_error(format!(
            "{}: {what} is not a finite number: a bug of the experiment",
            finding.experiment
        ))),
    }
}

/// Runs one experiment on a device, and gives its finding as JSON.
///
/// `experiment` is a spec. Requests stay in the region of `region_bytes` (to the device's end if
/// left out) at `region_offset`. It takes about `budget_seconds` of the device's time. Without
/// `may_write` nothing is written, and an experiment that writes raises ImpossibleError. `findings`
/// is a JSON list of what earlier experiments found. Progress counts nanoseconds of the device's
/// time, and its total is the budget.
///
/// Raises InputError; ImpossibleError if the device or region does not allow the experiment;
/// RunError if the device fails; Cancelled.
#[pyfunction]
#[pyo3(signature = (
    device, experiment, *, region_offset=0, region_bytes=None, seed=1, budget_seconds=10.0,
    may_write=false, findings="[]", progress=None
))]
pub fn probe(
    py: Python<'_>,
    device: &Device,
    experiment: &str,
    region_offset: u64,
    region_bytes: Option<u64>,
    seed: u64,
    budget_seconds: f64,
    may_write: bool,
    findings: &str,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<String> {
    let (entry, args) = find(experiment).map_err(errors::input_error)?;
    let budget = budget_of(budget_seconds)?;
    let settings = Settings {
        region: region_of(device, region_offset, region_bytes)?,
        seed,
        may_write,
        budget,
    };
    let known = known_of(findings)?;
    if may_write && device.about().is_read_only {
        return Err(errors::input_error(format!(
            "device `{}` is read-only: nothing can be written to it",
            device.about().name
        )));
    }
    progress::shared(progress).set_total(budget);
    let run = |bench: &mut Bench<'_>| entry.run(bench, &args, &known);
    let finding = finite(on_bench(py, device, settings, progress, run)?)?;
    serde_json::to_string(&finding).map_err(errors::run_error)
}

/// Does something on a device, without the GIL.
fn on_bench<T: Send>(
    py: Python<'_>,
    device: &Device,
    settings: Settings,
    progress: Option<&Bound<'_, Progress>>,
    work: impl FnOnce(&mut Bench<'_>) -> Result<T, ProbeError> + Send,
) -> PyResult<T> {
    let progress = progress::shared(progress);
    let mut held = device.lock()?;
    let held = &mut **held;
    py.detach(|| work(&mut Bench::new(held, settings, &progress))).map_err(probe_error)
}

/// Bytes a second that the device gives when a region is read in order for so many seconds of its
/// time, 8 requests of 1 MiB at once.
///
/// Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (device, *, region_offset=0, region_bytes=None, seconds=0.5, progress=None))]
pub fn read_bytes_per_second(
    py: Python<'_>,
    device: &Device,
    region_offset: u64,
    region_bytes: Option<u64>,
    seconds: f64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<f64> {
    let budget = budget_of(seconds)?;
    let region = region_of(device, region_offset, region_bytes)?;
    let about = device.about();
    let (sector, most) = (u64::from(about.limits.sector_bytes), u64::from(about.limits.most_bytes));
    let size_bytes = (1 << 20).min(most).min(region.length) / sector * sector;
    let cell = Cell {
        access: Access::Sequential,
        reads: 1.0,
        size_bytes: size_bytes as u32,
        depth: about.queue_depth.min(8),
    };
    let settings = Settings { region, seed: 1, may_write: false, budget };
    let measured = on_bench(py, device, settings, progress, |bench| measure(bench, &cell, budget));
    Ok(measured?.bytes_per_second())
}

/// Seconds of the device's time that one request takes, in the mean of a few sent one by one: for
/// as long as `seconds`, but of at least 4 requests. Random ones are spread over the region.
///
/// Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    device, *, size_bytes, is_random, is_write=false, region_offset=0, region_bytes=None,
    seconds=0.5, seed=1, progress=None
))]
pub fn request_seconds(
    py: Python<'_>,
    device: &Device,
    size_bytes: u32,
    is_random: bool,
    is_write: bool,
    region_offset: u64,
    region_bytes: Option<u64>,
    seconds: f64,
    seed: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<f64> {
    let (budget, region) = (budget_of(seconds)?, region_of(device, region_offset, region_bytes)?);
    let limits = device.about().limits;
    let most = u64::from(limits.most_bytes).min(region.length);
    let size_bytes = (u64::from(size_bytes).min(most) as u32)
        .next_multiple_of(limits.sector_bytes.max(1))
        .min(most as u32);
    let cell = Cell {
        access: if is_random { Access::Random } else { Access::Sequential },
        reads: if is_write { 0.0 } else { 1.0 },
        size_bytes,
        depth: 1,
    };
    let settings = Settings { region, seed, may_write: is_write, budget };
    let measured = on_bench(py, device, settings, progress, |bench| {
        let source = bench.pattern(&cell.pattern())?;
        bench.play(vec![closed(source, 1)], Limit::time(budget).fewest(4).precision(0.0))
    });
    let rate = measured?.bytes_per_second();
    Ok(f64::from(size_bytes) / rate.max(1e-9))
}

/// Finds a profile of a simulated drive that behaves, to its host, as a device did that was probed.
///
/// `findings` is a JSON list of what experiments found: that of `matrix`, or of `matrix_reads`, is
/// what the profile is fitted to, and others say what is known of the inside. `name` becomes the
/// profile's name. `effort` is how much to search: simulations of the whole matrix at most, and one
/// more; `seconds` how long at most, without a bound if it is None. Progress counts cells
/// simulated.
///
/// Returns a dict: toml, notes (what was assumed, and what could not be used), evaluations, and
/// cells: a list of dicts with access, reads, size_bytes, depth, and ratio (how many times as fast
/// the profile is). Raises InputError if there is nothing to fit to; RunError; Cancelled.
#[pyfunction]
#[pyo3(signature = (
    findings, *, name, capacity_bytes, model="", seed=1, effort=400, seconds=None, progress=None
))]
pub fn fit_profile<'py>(
    py: Python<'py>,
    findings: &str,
    name: &str,
    capacity_bytes: u64,
    model: &str,
    seed: u64,
    effort: usize,
    seconds: Option<f64>,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let known = known_of(findings)?;
    let Some(target) = Matrix::from_findings(&known) else {
        return Err(errors::input_error(
            "there is nothing to fit a profile to: run experiment `matrix`, or `matrix_reads`",
        ));
    };
    let longest = match seconds.map(Duration::try_from_secs_f64) {
        Some(Err(error)) => {
            return Err(errors::input_error(format!(
                "seconds is not a time to search for: {error}"
            )));
        }
        longest => longest.and_then(Result::ok),
    };
    let input = Input {
        name,
        model,
        capacity_bytes,
        known: &known,
        target: &target,
        starts: &[],
        seed,
        effort,
        longest,
    };
    let progress = progress::shared(progress);
    let found = py.detach(|| fit(&input, &progress)).map_err(|error| match error {
        FitError::Cancelled(cancelled) => errors::cancelled(cancelled),
        FitError::Empty => errors::input_error(error),
        FitError::NoStart { .. } => errors::run_error(error),
    })?;
    let cells = found.ratios.iter().map(|(cell, ratio)| {
        let (access, distance_bytes) = match cell.access {
            Access::Sequential => ("sequential", None),
            Access::Random => ("random", None),
            Access::Stride(distance) => ("stride", Some(distance)),
        };
        Ok(dict!(py,
            "access": access, "distance_bytes": distance_bytes, "reads": cell.reads,
            "size_bytes": cell.size_bytes, "depth": cell.depth, "ratio": ratio))
    });
    Ok(dict!(py,
        "toml": found.profile.to_toml(),
        "notes": &found.notes,
        "evaluations": found.evaluations,
        "cells": cells.collect::<PyResult<Vec<_>>>()?))
}
