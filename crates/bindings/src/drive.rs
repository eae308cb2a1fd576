//! The simulated drive: its profiles, and what it is made of.

use placement::PLACEMENTS;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::measure::Delay;
use ssd::drive::media::Cause;
use ssd::drive::profile::{self, PROFILES, Profile};
use ssd::drive::run::RunError;
use ssd::drive::state::State;

use crate::errors;

/// The TOML of a device profile that comes with the program, with its comments. Raises InputError
/// if there is none of that name.
#[pyfunction]
pub fn profile_toml(name: &str) -> PyResult<&'static str> {
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
pub fn check_profile(toml: &str, place: &str, overrides: Vec<String>) -> PyResult<String> {
    let checked =
        profile::parse(toml, place).and_then(|profile| profile.with_overrides(&overrides));
    Ok(checked.map_err(errors::input_error)?.to_toml())
}

/// Summarizes a device profile in TOML: its sizes, times and limits. Raises InputError.
#[pyfunction]
pub fn profile_summary<'py>(py: Python<'py>, toml: &str) -> PyResult<Bound<'py, PyDict>> {
    let profile = profile::parse(toml, "the profile").map_err(errors::input_error)?;
    let (media, interface, layout) = (&profile.media, &profile.interface, profile.layout());
    let channel_bytes = media.channel_mt_per_second * 1e6 * f64::from(media.channel_bits) / 8.0;
    let physical_pages = profile.physical_pages();
    Ok(dict!(py,
        "name": &profile.name,
        "summary": &profile.summary,
        "sources": &profile.sources,
        "fitted": &profile.fitted,
        "logical_pages": profile.logical_pages(),
        "physical_pages": physical_pages,
        "page_bytes": media.page_bytes,
        "capacity_bytes": profile.capacity_bytes(),
        "physical_bytes": physical_pages * u64::from(media.page_bytes),
        "over_provisioning": profile.ftl.over_provisioning,
        "channels": layout.channels,
        "dies": layout.dies(),
        "planes": layout.planes(),
        "erase_blocks": layout.erase_blocks(),
        "pages_per_erase_block": media.pages_per_erase_block,
        "read_us": &media.read_us,
        "program_us": &media.program_us,
        "erase_us": media.erase_us,
        "channel_bytes_per_second": channel_bytes,
        "link_bytes_per_second": interface.link_mb_per_second * 1e6,
        "interface": format!("{:?}", interface.kind).to_lowercase(),
        "queues": interface.queues,
        "queue_depth": interface.queue_depth,
        "endurance_cycles": (media.endurance_cycles > 0).then_some(media.endurance_cycles),
        "write_buffer_bytes": profile.write_buffer.bytes,
        "read_cache_bytes": profile.read_cache.bytes,
        "scheme": &profile.ftl.scheme,
        "placement": &profile.ftl.placement,
        "victim": victim_of(&profile)))
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

/// Every cause that the dies work for: its name in results, and what belongs to it.
#[pyfunction]
pub fn causes() -> Vec<(&'static str, &'static str)> {
    Cause::ALL.iter().map(|cause| (cause.name(), cause.summary())).collect()
}

/// Names of what may delay a request, in the order of tables.
#[pyfunction]
pub fn delays() -> Vec<&'static str> {
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
