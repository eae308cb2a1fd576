//! The simulated drive: its profiles, and what it is made of.

use placement::PLACEMENTS;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::measure::Delay;
use ssd::drive::media::Cause;
use ssd::drive::profile::{self, PROFILES, Profile};
use ssd::drive::run::RunError;
use ssd::drive::schemes::SCHEMES;
use ssd::drive::state::State;
use traces::synth::patterns;

use crate::errors;
use crate::registry::info_dicts;

fn parse(toml: &str) -> PyResult<Profile> {
    profile::parse(toml, "the profile").map_err(errors::input_error)
}

/// The device profiles that come with the program: dicts with name and summary.
#[pyfunction]
fn profiles(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let dicts = PROFILES.iter().map(|entry| {
        let dict = PyDict::new(py);
        dict.set_item("name", entry.name)?;
        dict.set_item("summary", entry.summary())?;
        Ok(dict)
    });
    dicts.collect()
}

/// The TOML of a device profile that comes with the program, with its comments. Raises InputError
/// if there is none of that name.
#[pyfunction]
fn profile_toml(name: &str) -> PyResult<&'static str> {
    let unknown = |_| profile::load(name).map(|_| "").map_err(errors::input_error);
    PROFILES
        .iter()
        .find(|entry| entry.name == name)
        .map(profile::BuiltIn::text)
        .ok_or(())
        .or_else(unknown)
}

/// Reads the TOML of a device profile, applies `key=value` overrides, checks it, and gives it as
/// TOML with all keys. `place` is where the text is from: it begins error messages. Raises
/// InputError.
#[pyfunction]
#[pyo3(signature = (toml, place="the profile", overrides=vec![]))]
#[allow(clippy::needless_pass_by_value, reason = "as Python hands them over")]
fn check_profile(toml: &str, place: &str, overrides: Vec<String>) -> PyResult<String> {
    let checked =
        profile::parse(toml, place).and_then(|profile| profile.with_overrides(&overrides));
    Ok(checked.map_err(errors::input_error)?.to_toml())
}

/// Summarizes a device profile in TOML: its sizes, times and limits. Raises InputError.
#[pyfunction]
fn profile_summary<'py>(py: Python<'py>, toml: &str) -> PyResult<Bound<'py, PyDict>> {
    let profile = parse(toml)?;
    let (media, interface, layout) = (&profile.media, &profile.interface, profile.layout());
    let dict = PyDict::new(py);
    dict.set_item("name", &profile.name)?;
    dict.set_item("summary", &profile.summary)?;
    dict.set_item("sources", &profile.sources)?;
    dict.set_item("fitted", &profile.fitted)?;
    dict.set_item("logical_pages", profile.logical_pages())?;
    dict.set_item("physical_pages", profile.physical_pages())?;
    dict.set_item("page_bytes", media.page_bytes)?;
    dict.set_item("capacity_bytes", profile.capacity_bytes())?;
    dict.set_item("physical_bytes", profile.physical_pages() * u64::from(media.page_bytes))?;
    dict.set_item("over_provisioning", profile.ftl.over_provisioning)?;
    dict.set_item("channels", layout.channels)?;
    dict.set_item("dies", layout.dies())?;
    dict.set_item("planes", layout.planes())?;
    dict.set_item("erase_blocks", layout.erase_blocks())?;
    dict.set_item("pages_per_erase_block", media.pages_per_erase_block)?;
    dict.set_item("read_us", &media.read_us)?;
    dict.set_item("program_us", &media.program_us)?;
    dict.set_item("erase_us", media.erase_us)?;
    dict.set_item(
        "channel_bytes_per_second",
        media.channel_mt_per_second * 1e6 * f64::from(media.channel_bits) / 8.0,
    )?;
    dict.set_item("link_bytes_per_second", interface.link_mb_per_second * 1e6)?;
    dict.set_item("interface", format!("{:?}", interface.kind).to_lowercase())?;
    dict.set_item("queues", interface.queues)?;
    dict.set_item("queue_depth", interface.queue_depth)?;
    dict.set_item(
        "endurance_cycles",
        (media.endurance_cycles > 0).then_some(media.endurance_cycles),
    )?;
    dict.set_item("write_buffer_bytes", profile.write_buffer.bytes)?;
    dict.set_item("read_cache_bytes", profile.read_cache.bytes)?;
    dict.set_item("scheme", &profile.ftl.scheme)?;
    dict.set_item("placement", &profile.ftl.placement)?;
    dict.set_item("victim", victim_of(&profile))?;
    Ok(dict)
}

/// The victim policy of a profile, or the one of the placement's authors.
fn victim_of(profile: &Profile) -> String {
    if !profile.ftl.victim.is_empty() {
        return profile.ftl.victim.clone();
    }
    let name = profile.ftl.placement.split('(').next().unwrap_or_default();
    PLACEMENTS
        .iter()
        .find(|entry| entry.info.is_called(name))
        .map_or_else(String::new, |entry| entry.victim.to_owned())
}

/// Every request pattern that `io:` may name, as dicts like those of `registry`.
#[pyfunction(name = "patterns")]
fn pattern_dicts(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    info_dicts(py, patterns::REGISTRY.iter().map(|entry| &entry.info))
}

/// Every FTL scheme that a profile may name, as dicts like those of `registry`.
#[pyfunction(name = "schemes")]
fn scheme_dicts(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    info_dicts(py, SCHEMES.iter().copied())
}

/// Every cause that the dies work for: its name in results, and what belongs to it.
#[pyfunction]
fn causes() -> Vec<(&'static str, &'static str)> {
    Cause::ALL.iter().map(|cause| (cause.name(), cause.summary())).collect()
}

/// Names of what may delay a request, in the order of tables.
#[pyfunction]
fn delays() -> Vec<&'static str> {
    Delay::ALL.iter().map(|delay| delay.name()).collect()
}

/// `pages` are those that the requests touch.
pub fn state_of(state: &str, overwrites: f64, pages: u32) -> PyResult<State> {
    match state {
        "fresh" => Ok(State::Fresh),
        "loaded" => Ok(State::Loaded { pages }),
        "filled" => Ok(State::Filled),
        "aged" if (0.0..=1e4).contains(&overwrites) => Ok(State::Aged { overwrites }),
        "aged" => Err(errors::input_error(format!(
            "overwrites is {overwrites}: it must be a number from 0 to 10000"
        ))),
        other => Err(errors::input_error(format!(
            "state is `{other}`: it must be fresh, loaded, filled or aged"
        ))),
    }
}

pub fn run_failed(error: RunError) -> PyErr {
    match error {
        RunError::Cancelled(cancelled) => errors::cancelled(cancelled),
        RunError::Audit(_) | RunError::Sink(_) => errors::run_error(error),
        RunError::Drive(_) | RunError::Source(_) | RunError::Refused(_) => {
            errors::input_error(error)
        }
    }
}

/// Adds the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(profiles, module)?)?;
    module.add_function(wrap_pyfunction!(profile_toml, module)?)?;
    module.add_function(wrap_pyfunction!(check_profile, module)?)?;
    module.add_function(wrap_pyfunction!(profile_summary, module)?)?;
    module.add_function(wrap_pyfunction!(pattern_dicts, module)?)?;
    module.add_function(wrap_pyfunction!(scheme_dicts, module)?)?;
    module.add_function(wrap_pyfunction!(causes, module)?)?;
    module.add_function(wrap_pyfunction!(delays, module)?)
}
