//! Several simulated drives as one.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use ssd::drive::array::{
    ArrayConfig, ArrayError, ArrayKind, ArrayOutcome, ArrayReads, LivesSettings,
    simulate_array as simulate, simulate_lives,
};
use ssd::drive::load::{Pace, flow};
use ssd::drive::measure::Delay;
use ssd::drive::media::Cause;
use ssd::drive::profile;
use ssd::drive::run::RunSettings;
use ssd::drive::time::Picos;
use units::IoOp;

use crate::drive::{run_failed, state_of};
use crate::errors;
use crate::jobs::LoadedSource;
use crate::progress::{self, Progress};
use crate::values::object;

pub fn array_error(error: ArrayError) -> PyErr {
    match error {
        ArrayError::Run(error) => run_failed(error),
        other => errors::input_error(other),
    }
}

/// Plays requests on several simulated drives of one profile, at their own times, or with `depth`
/// of them outstanding.
///
/// `profile` is the TOML of a device profile; of its windows each drive has others. `array` is one
/// of `variants("array")`: with "mirrored" all hold the same data, and `reads` says how a read
/// finds its drive: "home" (by its address), "fail_fast" (another one if that would let it wait for
/// its own work) or "hedged" (another one, too, if it takes longer than the share `hedge_after` of
/// reads lately). Otherwise data lies in stripes, and with parity the drive `missing`, from 0, may
/// be taken away. `state` and `overwrites` are as of `simulated_device`. The first
/// `warm_up_requests` are left out of every figure. With `audit` the drives' tables are checked at
/// the end, and, where there is parity, it is followed which data each drive holds: RunError if a
/// read brought other than what was written.
///
/// Returns a dict: figures by name. Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    profile, requests, *, drives=2, array="mirrored", reads="home", hedge_after=0.95, missing=None,
    depth=None, state="filled", overwrites=2.0, seed=1, most_requests=1_000_000,
    warm_up_requests=0, audit=false, progress=None
))]
pub fn simulate_array<'py>(
    py: Python<'py>,
    profile: &str,
    requests: &LoadedSource,
    drives: u32,
    array: &str,
    reads: &str,
    hedge_after: f64,
    missing: Option<u32>,
    depth: Option<u32>,
    state: &str,
    overwrites: f64,
    seed: u64,
    most_requests: u64,
    warm_up_requests: u64,
    audit: bool,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let profile = profile::parse(profile, "the profile").map_err(errors::input_error)?;
    let reads = ArrayReads::named(reads, hedge_after).ok_or_else(|| {
        errors::input_error(format!("reads is `{reads}`: right are home, fail_fast, hedged"))
    })?;
    let config = config_of(drives, array, reads, missing)?;
    let capacity = config.capacity_bytes(&profile).map_err(array_error)?;
    if depth == Some(0) {
        return Err(errors::input_error("depth is 0: it must be 1 or above"));
    }
    let pace = depth.map_or(Pace::OPEN, |depth| Pace::Closed { depth, think: 0 });
    let settings = RunSettings {
        state: state_of(state, overwrites, profile.logical_pages())?,
        profile,
        pace,
        seed,
        most_requests,
        most_time: Picos::MAX,
        untimed_requests: 0,
        warm_up_requests,
        timeline_spans: 0,
        audit,
    };
    let source = requests.source().on(capacity, false).map_err(errors::input_error)?;
    let progress = progress::shared(progress);
    progress.set_total(most_requests);
    let outcome = py
        .detach(|| simulate(&settings, &config, vec![flow(source, pace)], &progress))
        .map_err(array_error)?;
    result(py, &outcome)
}

pub fn config_of(
    drives: u32,
    array: &str,
    reads: ArrayReads,
    missing: Option<u32>,
) -> PyResult<ArrayConfig> {
    let kind = ArrayKind::parse(array).map_err(array_error)?;
    let config = ArrayConfig { drives, kind, reads, missing };
    config.check().map_err(array_error)?;
    Ok(config)
}

/// Lives through `replacements` of drives in an array with parity, whose host writes random pages,
/// or with the share `full_stripes` of them whole rows of stripes. A drive is replaced when its
/// mean erase block has been erased `erase_limit` times (10 to 100,000); then the oldest one that
/// is left takes the place of most parity (DIFF-RAID). No time passes, and each drive's FTL does
/// all that it would.
///
/// Returns a dict: `replacements` (a list of dicts: drive, host_pages, ages as shares of the limit,
/// oldest first, rebuilt_pages, moved_pages), and, over the second half of them and by place, the
/// oldest drive's first, `rates` (pages that the drive was given for each page of the host's),
/// `write_amplification`, and `parity` (its share of it). Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    profile, array, *, drives, erase_limit, replacements, full_stripes=0.0, seed=1, progress=None
))]
pub fn simulate_array_lives<'py>(
    py: Python<'py>,
    profile: &str,
    array: &str,
    drives: u32,
    erase_limit: f64,
    replacements: u32,
    full_stripes: f64,
    seed: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    if !(0.0..=1.0).contains(&full_stripes) {
        let said = format!("full_stripes is {full_stripes}: it must be from 0 to 1");
        return Err(errors::input_error(said));
    }
    let profile = profile::parse(profile, "the profile").map_err(errors::input_error)?;
    let config = config_of(drives, array, ArrayReads::Home, None)?;
    let parity = config.kind.parity(drives).map_err(array_error)?;
    let settings = LivesSettings { profile, config, erase_limit, replacements, full_stripes, seed };
    let progress = progress::shared(progress);
    progress.set_total(u64::from(replacements));
    let lives = py.detach(|| simulate_lives(&settings, &progress)).map_err(array_error)?;
    let each = lives.replacements.iter().map(|one| {
        Ok(dict!(py,
            "drive": one.drive, "host_pages": one.host_pages, "ages": &one.ages,
            "rebuilt_pages": one.rebuilt_pages, "moved_pages": one.moved_pages))
    });
    Ok(dict!(py,
        "replacements": each.collect::<PyResult<Vec<_>>>()?,
        "rates": &lives.rates,
        "write_amplification": &lives.write_amplification,
        "parity": parity))
}

fn result<'py>(py: Python<'py>, outcome: &ArrayOutcome) -> PyResult<Bound<'py, PyDict>> {
    let (latency, delays) = (PyDict::new(py), PyDict::new(py));
    for op in IoOp::ALL {
        let summary = outcome.latencies.of(op);
        if summary.latency.count > 0 {
            latency.set_item(op.name(), object(py, &summary.latency)?)?;
            let each = Delay::ALL.into_iter().zip(summary.delays.0);
            let each = each.map(|(delay, found)| Ok((delay.name(), object(py, &found)?)));
            delays.set_item(op.name(), each.collect::<PyResult<Vec<_>>>()?.into_py_dict(py)?)?;
        }
    }
    let written = outcome.written.iter();
    let shares = Cause::ALL.iter().map(|cause| cause.name()).zip(outcome.die_share.by_cause);
    let die_share = shares.chain([("idle", outcome.die_share.idle)]).into_py_dict(py)?;
    Ok(dict!(py,
        "requests": outcome.requests,
        "iops": outcome.iops(),
        "latency_ns": latency,
        "delays": delays,
        "reads": outcome.counters.named().into_py_dict(py)?,
        "stripes": outcome.stripes.named().into_py_dict(py)?,
        "written": dict!(py,
            "data_bytes": written.clone().map(|one| one.data_bytes).collect::<Vec<_>>(),
            "parity_bytes": written.map(|one| one.parity_bytes).collect::<Vec<_>>()),
        "erases_mean": &outcome.erases,
        "die_share": die_share,
        "event_hash": format!("{:016x}", outcome.event_hash)))
}
