//! Everything that can be named on the command line, for listings, help and the docs.

use ::prober::{EXPERIMENTS, Experiment};
use ::registry::{Info, Spec};
use placement::{BuildError, PLACEMENTS, Placement, PlacementVisitor, VICTIMS, visit_placement};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::array::ARRAYS;
use ssd::drive::profile::PROFILES;
use ssd::drive::schemes::SCHEMES;
use traces::synth::{self, patterns};
use traces::{accesses, formats};
use transactions::{BUFFERS, RULES};
use units::Geometry;

use crate::errors;

/// Gives the entry of a variant in the registry as a dict: name, parameters, source.
pub fn info_dict<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let params = info.params.iter().map(|param| {
        Ok(dict!(py,
            "name": param.name, "default": param.default, "help": param.help,
            "accepts": param.kind.accepts()))
    });
    Ok(dict!(py,
        "name": info.name, "aliases": info.aliases, "summary": info.summary,
        "source": info.source, "usage": info.usage(),
        "params": params.collect::<PyResult<Vec<_>>>()?))
}

/// Whether a placement policy with its parameters uses knowledge that no drive has: it cannot be
/// made without the update frequencies of all pages, or the future. False for a spec that is wrong.
#[pyfunction]
pub fn placement_is_oracle(spec: &str) -> bool {
    struct Made;
    impl PlacementVisitor for Made {
        type Output = ();
        fn visit<P: Placement + 'static>(self, _policy: P) {}
    }
    let Ok(spec) = Spec::parse(spec) else { return false };
    let geometry = Geometry::with_over_provisioning(4096, 64, 1 << 16, 0.5)
        .expect("a small device is possible");
    matches!(
        visit_placement(&spec, &placement::Context::new(geometry, 1), Made),
        Err(BuildError::NeedsWeights(_) | BuildError::NeedsFuture(_))
    )
}

/// Every variant of a kind that can be named: placement, victim, workload, layer, trace_format,
/// device, profile (of a simulated drive), array, scheme (of an FTL), pattern (of `io:`),
/// experiment, load (of transactions), buffer, lock_rule.
///
/// Dicts with name, aliases, summary, source, usage and params. A placement also has victim (the
/// victim policy of its authors), bytes_per_page and oracle (whether it knows the update
/// frequencies of all pages), a layer counters, a trace format endings (of file names) and
/// writable, a profile the sources of its values. Experiments are in the order in which a set runs
/// them, and have group (performance, patterns, internals, interference), writes (whether it writes
/// to the region), is_quick, weight (share of the device time of a set, against the others), and
/// after (experiments whose findings it uses if they are there). Raises InputError for another
/// kind.
#[pyfunction]
pub fn variants<'py>(py: Python<'py>, kind: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let plain: Vec<&Info> = match kind {
        "placement" => {
            let each = PLACEMENTS.iter().map(|entry| {
                Ok(dict!(in info_dict(py, &entry.info)?,
                    "victim": entry.victim, "bytes_per_page": entry.bytes_per_page,
                    "oracle": placement_is_oracle(entry.info.name)))
            });
            return each.collect();
        }
        "layer" => return layers::LAYERS.iter().map(|entry| layer_dict(py, entry)).collect(),
        "trace_format" => {
            let each = formats::ALL.iter().map(|format| {
                Ok(dict!(in info_dict(py, &format.info)?,
                    "endings": format.endings, "writable": format.write.is_some()))
            });
            return each.collect();
        }
        "profile" => {
            let none: [&str; 0] = [];
            let each = PROFILES.iter().map(|one| {
                let profile = one.profile();
                Ok(dict!(py,
                    "name": one.name, "summary": profile.summary, "aliases": none, "source": "",
                    "sources": profile.sources, "usage": one.name, "params": none))
            });
            return each.collect();
        }
        "experiment" => return EXPERIMENTS.iter().map(|one| experiment_dict(py, one)).collect(),
        "victim" => VICTIMS.iter().collect(),
        "workload" => synth::REGISTRY.iter().map(|entry| &entry.info).collect(),
        "device" => devices::variants().collect(),
        "array" => ARRAYS.iter().collect(),
        "scheme" => SCHEMES.to_vec(),
        "pattern" => patterns::REGISTRY.iter().map(|entry| &entry.info).collect(),
        "load" => accesses::REGISTRY.iter().map(|entry| &entry.info).collect(),
        "buffer" => BUFFERS.iter().collect(),
        "lock_rule" => RULES.iter().map(|(info, _)| info).collect(),
        _ => return Err(errors::input_error(format!("{kind}: no kind of variants"))),
    };
    plain.into_iter().map(|info| info_dict(py, info)).collect()
}

/// Gives the entry of an experiment as a dict.
pub fn experiment_dict<'py>(
    py: Python<'py>,
    entry: &'static Experiment,
) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(in info_dict(py, &entry.info)?,
        "group": entry.group.name(), "writes": entry.writes, "is_quick": entry.is_quick,
        "weight": entry.weight, "after": entry.after))
}

fn layer_dict<'py>(py: Python<'py>, entry: &layers::Entry) -> PyResult<Bound<'py, PyDict>> {
    let counters = entry
        .counters
        .iter()
        .map(|one| Ok(dict!(py, "name": one.name, "help": one.help, "is_level": one.is_level)));
    Ok(dict!(in info_dict(py, &entry.info)?,
        "counters": counters.collect::<PyResult<Vec<_>>>()?))
}

/// The variants that most commands take, by kind: placement, victim, workload, layer, trace_format
/// and device, each as `variants` gives it.
#[pyfunction]
#[pyo3(name = "registry")]
pub fn listing(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for kind in ["placement", "victim", "workload", "layer", "trace_format", "device"] {
        all.set_item(kind, variants(py, kind)?)?;
    }
    Ok(all)
}

/// Reads a size in bytes (`4096`, `4k`, `4KiB`; `4kB` is 4,000); None if it is none.
#[pyfunction]
pub fn parse_bytes(text: &str) -> Option<u64> {
    ::registry::parse_bytes(text)
}

/// Reads a count (`1M` is 1,000,000, `1Mi` 1,048,576); None if it is none.
#[pyfunction]
pub fn parse_count(text: &str) -> Option<u64> {
    ::registry::parse_count(text)
}

/// Reads a duration in seconds (`90`, `1.5min`, `200us`); a plain number is of `unit` seconds. None
/// if it is none.
#[pyfunction]
#[pyo3(signature = (text, unit=1.0))]
pub fn parse_duration(text: &str, unit: f64) -> Option<f64> {
    ::registry::parse_duration(text, unit)
}
