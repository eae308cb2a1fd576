//! Everything that can be named on the command line, for listings, help and the docs.

use ::registry::{Info, Spec};
use placement::{BuildError, PLACEMENTS, Placement, PlacementVisitor, VICTIMS, visit_placement};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::{accesses, formats, synth};
use transactions::{BUFFERS, RULES};
use units::Geometry;

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

/// Gives the entries of variants in the registry as dicts.
pub fn info_dicts<'py>(
    py: Python<'py>,
    infos: impl Iterator<Item = &'static Info>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    infos.map(|info| info_dict(py, info)).collect()
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

fn placement_dicts(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let each = PLACEMENTS.iter().map(|entry| {
        Ok(dict!(in info_dict(py, &entry.info)?,
            "victim": entry.victim, "bytes_per_page": entry.bytes_per_page,
            "oracle": placement_is_oracle(entry.info.name)))
    });
    each.collect()
}

/// Every layer, with its counters: a list of dicts with name, unit-bearing names and help.
fn layer_dicts(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let each = layers::LAYERS.iter().map(|entry| {
        let counters = entry
            .counters
            .iter()
            .map(|one| Ok(dict!(py, "name": one.name, "help": one.help, "is_level": one.is_level)));
        Ok(dict!(in info_dict(py, &entry.info)?,
            "counters": counters.collect::<PyResult<Vec<_>>>()?))
    });
    each.collect()
}

fn format_dicts(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let each = formats::ALL.iter().map(|format| {
        Ok(dict!(in info_dict(py, &format.info)?,
            "endings": format.endings, "writable": format.write.is_some()))
    });
    each.collect()
}

/// Every variant that can be named: kind -> list of dicts with name, aliases, summary, source,
/// usage and params. A placement also has victim (the victim policy of its authors), bytes_per_page
/// and oracle (whether it knows the update frequencies of all pages), a layer counters, a trace
/// format endings (of file names) and writable.
#[pyfunction]
#[pyo3(name = "registry")]
pub fn listing(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py,
        "placement": placement_dicts(py)?,
        "victim": info_dicts(py, VICTIMS.iter())?,
        "workload": info_dicts(py, synth::REGISTRY.iter().map(|entry| &entry.info))?,
        "layer": layer_dicts(py)?,
        "trace_format": format_dicts(py)?,
        "device": info_dicts(py, devices::variants())?))
}

/// Lists what transactions can be named by: `benchmarks`, `buffers` and `lock_rules`.
#[pyfunction]
pub fn transaction_variants(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py,
        "benchmarks": info_dicts(py, accesses::REGISTRY.iter().map(|one| &one.info))?,
        "buffers": info_dicts(py, BUFFERS.iter())?,
        "lock_rules": info_dicts(py, RULES.iter().map(|(info, _)| info))?))
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
