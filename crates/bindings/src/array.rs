//! Several simulated drives as one.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::array::{
    ArrayConfig, ArrayError, ArrayOutcome, ArrayReads, simulate_array as simulate,
};
use ssd::drive::load::{Pace, flow};
use ssd::drive::media::Cause;
use ssd::drive::profile;
use ssd::drive::run::RunSettings;
use ssd::drive::time::Picos;
use units::IoOp;

use crate::drive::{run_failed, state_of};
use crate::drive_result::{delays_dict, latency_dict};
use crate::errors;
use crate::progress::{self, Progress};
use crate::requests::Requests;

/// Plays requests, at their own times, on several simulated drives of one profile that hold the
/// same data.
///
/// `profile` is the TOML of a device profile; of its windows each drive has others. `reads` says
/// how a read finds its drive: "home" (by its address), "fail_fast" (another one if that would let it
/// wait for its own work) or "hedged" (another one, too, if it takes longer than the share
/// `hedge_after` of reads lately). `state` and `overwrites` are as of `simulate_drive`. The first
/// `warm_up_requests` are left out of every figure.
///
/// Returns a dict: figures by name. Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    profile, requests, *, drives=2, reads="home", hedge_after=0.95, state="filled", overwrites=2.0,
    seed=1, most_requests=1_000_000, warm_up_requests=0, progress=None
))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn simulate_array<'py>(
    py: Python<'py>,
    profile: &str,
    requests: &Requests,
    drives: u32,
    reads: &str,
    hedge_after: f64,
    state: &str,
    overwrites: f64,
    seed: u64,
    most_requests: u64,
    warm_up_requests: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let profile = profile::parse(profile, "the profile").map_err(errors::input_error)?;
    let reads = ArrayReads::named(reads, hedge_after).ok_or_else(|| {
        errors::input_error(format!("reads is `{reads}`: right are home, fail_fast, hedged"))
    })?;
    let config = ArrayConfig { drives, reads };
    let capacity = profile.capacity_bytes();
    let settings = RunSettings {
        state: state_of(state, overwrites, profile.logical_pages())?,
        profile,
        pace: Pace::OPEN,
        seed,
        most_requests,
        most_time: Picos::MAX,
        untimed_requests: 0,
        warm_up_requests,
        timeline_spans: 0,
        audit: false,
    };
    let source = requests.source(capacity)?;
    let progress = progress::shared(progress);
    progress.set_total(most_requests);
    let outcome = py.detach(|| {
        simulate(&settings, config, vec![flow(source, Pace::OPEN)], &progress).map_err(|error| {
            match error {
                ArrayError::Run(error) => run_failed(error),
                other => errors::input_error(other),
            }
        })
    })?;
    result(py, &outcome)
}

fn result<'py>(py: Python<'py>, outcome: &ArrayOutcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("requests", outcome.requests)?;
    dict.set_item("iops", outcome.iops())?;
    let (latency, delays) = (PyDict::new(py), PyDict::new(py));
    for op in IoOp::ALL {
        let summary = outcome.latencies.of(op);
        if summary.latency.count > 0 {
            latency.set_item(op.name(), latency_dict(py, &summary.latency)?)?;
            delays.set_item(op.name(), delays_dict(py, &summary)?)?;
        }
    }
    dict.set_item("latency_ns", latency)?;
    dict.set_item("delays", delays)?;
    let counts = PyDict::new(py);
    for (name, count) in outcome.counters.named() {
        counts.set_item(name, count)?;
    }
    dict.set_item("reads", counts)?;
    let share = PyDict::new(py);
    for (cause, part) in Cause::ALL.iter().zip(outcome.die_share.by_cause) {
        share.set_item(cause.name(), part)?;
    }
    share.set_item("idle", outcome.die_share.idle)?;
    dict.set_item("die_share", share)?;
    dict.set_item("event_hash", format!("{:016x}", outcome.event_hash))?;
    Ok(dict)
}

/// Adds the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_array, module)?)
}
