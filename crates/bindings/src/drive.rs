//! The simulated drive: its profiles, and runs on it.

use std::path::PathBuf;

use placement::PLACEMENTS;
use player::{Flow, Shifted};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::load::{Pace, flow};
use ssd::drive::measure::{Delay, RequestSink};
use ssd::drive::media::Cause;
use ssd::drive::profile::{self, PROFILES, Profile};
use ssd::drive::run::{Outcome, RunError, RunSettings, simulate_told};
use ssd::drive::schemes::SCHEMES;
use ssd::drive::state::State;
use ssd::drive::time::{PICOS_PER_SECOND, Picos};
use traces::synth::patterns;
use units::{PLACEMENT_HANDLES, RequestSource};

use crate::drive_requests::RequestTable;
use crate::drive_result::{ToldFlow, result};
use crate::errors;
use crate::progress::{self, Progress};
use crate::registry::info_dicts;
use crate::requests::Requests;
use crate::traces::trace_error;

/// Most requests of one flow that are outstanding: each queue of NVMe takes 2^16 - 1.
const MOST_DEPTH: u32 = 1 << 20;

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

/// What the TOML of a device profile comes to. Raises InputError.
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
    let name = profile.ftl.placement.split(['(', '?']).next().unwrap_or_default();
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

/// One flow of a run. Without a length its addresses are those to the drive's end.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct GivenFlow {
    requests: Py<Requests>,
    #[pyo3(default = "closed".to_owned())]
    pace: String,
    #[pyo3(default = 1)]
    depth: u32,
    #[pyo3(default)]
    think_us: f64,
    #[pyo3(default)]
    pub priority: u8,
    #[pyo3(default)]
    pub handle: Option<u8>,
    #[pyo3(default)]
    queue: u32,
    #[pyo3(default)]
    pub offset: u64,
    #[pyo3(default)]
    pub length: Option<u64>,
    #[pyo3(default)]
    beside: bool,
}

impl GivenFlow {
    pub fn requests(&self) -> &Requests {
        self.requests.get()
    }

    /// First byte and length of its addresses on a drive.
    pub fn region(&self, capacity: u64) -> PyResult<(u64, u64)> {
        let length = self.length.unwrap_or(capacity.saturating_sub(self.offset));
        if length == 0 || self.offset.checked_add(length).is_none_or(|end| end > capacity) {
            return Err(errors::input_error(format!(
                "{}: a region of {length} bytes from byte {} on: it must lie within the drive's \
                 {capacity} bytes",
                self.requests().name(),
                self.offset
            )));
        }
        Ok((self.offset, length))
    }

    /// A flow of these requests with all that is not theirs.
    pub fn marked<S>(&self, flow: Flow<S>) -> Flow<S> {
        let flow = flow.with_priority(self.priority).with_queue(self.queue);
        let flow = match self.handle {
            Some(handle) => flow.with_handle(handle),
            None => flow,
        };
        if self.beside { flow.beside() } else { flow }
    }

    pub fn source(&self, capacity: u64) -> PyResult<Box<dyn RequestSource>> {
        let (offset, length) = self.region(capacity)?;
        let source = self.requests().source(length)?;
        Ok(if offset == 0 { source } else { Box::new(Shifted::new(source, offset)) })
    }
}

pub fn pace_of(given: &GivenFlow) -> PyResult<Pace> {
    let GivenFlow { pace, depth, think_us, .. } = given;
    let (requests, depth, think_us) = (given.requests(), *depth, *think_us);
    let name = requests.name();
    match pace.as_str() {
        "open" if requests.is_timed() => Ok(Pace::OPEN),
        "open" => Err(errors::input_error(format!(
            "{name} has no times at which its requests could be sent: right would be a closed \
             pace, with some requests outstanding{}",
            if requests.has_weights() { "" } else { ", or `pause_us` in the pattern" }
        ))),
        "closed" if !(1..=MOST_DEPTH).contains(&depth) => Err(errors::input_error(format!(
            "{name}: depth is {depth}: it must be from 1 to {MOST_DEPTH}"
        ))),
        "closed" if !(0.0..=1e12).contains(&think_us) => Err(errors::input_error(format!(
            "{name}: think_us is {think_us}: it must be a number from 0 to 1e12"
        ))),
        "closed" => Ok(Pace::Closed { depth, think: (think_us * 1e3).round() as u64 }),
        other => Err(errors::input_error(format!(
            "{name}: pace is `{other}`: it must be closed or open"
        ))),
    }
}

fn picos_of_seconds(seconds: Option<f64>) -> PyResult<Picos> {
    match seconds {
        None => Ok(Picos::MAX),
        // Beyond what 64 bits hold it saturates, which is no limit.
        Some(seconds) if seconds > 0.0 => Ok((seconds * PICOS_PER_SECOND as f64) as Picos),
        Some(seconds) => {
            Err(errors::input_error(format!("most_seconds is {seconds}: it must be above 0")))
        }
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

/// Requests that a run will send, if that is known; otherwise 0.
fn total(flows: &[GivenFlow], most: u64) -> u64 {
    let all = flows
        .iter()
        .filter(|flow| !flow.beside)
        .map(|flow| flow.requests().count())
        .try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)));
    all.map_or(if most == u64::MAX { 0 } else { most }, |all| all.min(most))
}

/// Runs it without the GIL.
fn run(
    settings: &RunSettings,
    requests: &[&Requests],
    flows: Vec<Flow>,
    mut table: Option<RequestTable>,
    progress: &units::Progress,
) -> PyResult<Outcome> {
    // Only an oracle asks, and a file that cannot be read is told afterwards: the question has no
    // way to fail.
    let failed = std::cell::RefCell::new(None);
    let (page_bytes, pages) = (settings.profile.media.page_bytes, settings.profile.logical_pages());
    let weights = || {
        requests[0].weights(page_bytes, pages).unwrap_or_else(|error| {
            *failed.borrow_mut() = Some(error);
            vec![1.0; pages as usize]
        })
    };
    let is_known = requests.len() == 1 && requests[0].has_weights();
    let sink = table.as_mut().map(|table| table as &mut dyn RequestSink);
    let outcome = simulate_told(settings, is_known.then_some(&weights), flows, sink, progress);
    if let Some(error) = failed.take() {
        return Err(errors::input_error(error));
    }
    let outcome = outcome.map_err(run_failed)?;
    table.map_or(Ok(()), RequestTable::finish).map_err(trace_error)?;
    Ok(outcome)
}

/// Plays requests on a simulated drive.
///
/// `profile` is the TOML of a device profile. Each of `flows` is a dict with `requests` and, if
/// they are to differ, `pace` ("closed"), `depth` (1), `think_us` (0), `priority` (0 ... 255, 0),
/// `queue` (0, that of the host), `handle` (placement handle of its writes, 0 ... 127; that of each
/// request),
/// `offset` (0) and `length` (to the end), in bytes. With the pace "closed", `depth` requests are
/// outstanding, each followed `think_us` microseconds after its end by the next; with "open", they
/// are sent at their own times, however late the drive is. Of requests that wait for room in the
/// host's queue those of the highest priority go first. A flow touches only its `length` bytes from
/// `offset` on. One that is `beside` others ends with the last of those that are not. `state` is
/// the drive before the first request: "fresh" (erased), "loaded" (erased but for the pages that
/// the requests touch, which were written once, in order), "filled" (each page written once, in
/// order), or "aged" (filled, then `overwrites` times its pages written at random); getting there
/// takes no virtual time. A run ends with the flows, after `most_requests`, or at `most_seconds` of
/// virtual time. The first `untimed_requests` of the first flow are done in no time before it
/// begins; the first `warm_up_requests` are left out of every figure but wear, event_hash and
/// timeline. `timeline_spans` is how much of the dies' work is written down; `audit` checks the
/// drive's tables at the end. `requests_to` is a Parquet file with a row for each request that is
/// measured; it is there only when the run has ended. Progress counts requests.
///
/// Returns a dict: figures by name, flows, tables of arrays, and timeline (Chrome trace events as
/// JSON, or None). Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    profile, flows, *, state="filled", overwrites=2.0, seed=1, most_requests=None,
    most_seconds=None,
    untimed_requests=0, warm_up_requests=0, timeline_spans=0, audit=false, requests_to=None,
    progress=None
))]
#[allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "keyword arguments of Python"
)]
fn simulate_drive<'py>(
    py: Python<'py>,
    profile: &str,
    flows: Vec<GivenFlow>,
    state: &str,
    overwrites: f64,
    seed: u64,
    most_requests: Option<u64>,
    most_seconds: Option<f64>,
    untimed_requests: u64,
    warm_up_requests: u64,
    timeline_spans: usize,
    audit: bool,
    requests_to: Option<PathBuf>,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let handle = flows.iter().filter_map(|flow| flow.handle).max().unwrap_or(0);
    if handle >= PLACEMENT_HANDLES {
        return Err(errors::input_error(format!(
            "handle is {handle}: it must be from 0 to {}",
            PLACEMENT_HANDLES - 1
        )));
    }
    if flows.is_empty() {
        return Err(errors::input_error("there are no flows: a run needs at least one"));
    }
    let profile = parse(profile)?;
    let touched = flows
        .iter()
        .map(|flow| flow.offset.saturating_add(flow.requests().touched_bytes()))
        .max()
        .unwrap_or(u64::MAX);
    let pages = touched
        .div_ceil(u64::from(profile.media.page_bytes))
        .min(u64::from(profile.logical_pages())) as u32;
    let settings = RunSettings {
        state: state_of(state, overwrites, pages)?,
        profile,
        // Each flow has its own.
        pace: Pace::OPEN,
        seed,
        most_requests: most_requests.unwrap_or(u64::MAX),
        most_time: picos_of_seconds(most_seconds)?,
        untimed_requests,
        warm_up_requests,
        timeline_spans,
        audit,
    };
    let requests: Vec<&Requests> = flows.iter().map(GivenFlow::requests).collect();
    let is_endless = flows.iter().any(|flow| !flow.beside && flow.requests().count().is_none());
    if is_endless && most_requests.is_none() && most_seconds.is_none() {
        return Err(errors::input_error(
            "the requests have no end: right would be `requests` in the pattern, or a limit of \
             requests or seconds",
        ));
    }
    let capacity = settings.profile.capacity_bytes();
    let played = flows
        .iter()
        .map(|given| {
            let (pace, source) = (pace_of(given)?, given.source(capacity)?);
            Ok(given.marked(flow(source, pace)))
        })
        .collect::<PyResult<Vec<_>>>()?;
    let progress = progress::shared(progress);
    progress.set_total(total(&flows, settings.most_requests));
    let table = requests_to.as_deref().map(RequestTable::new).transpose().map_err(trace_error)?;
    let outcome = py.detach(|| run(&settings, &requests, played, table, &progress))?;
    let told = flows
        .iter()
        .map(|flow| {
            let (offset, length) = flow.region(capacity)?;
            let is_folded = flow.requests().is_folded(length);
            Ok(ToldFlow {
                name: flow.requests().name(),
                priority: flow.priority,
                handle: flow.handle,
                offset,
                is_folded,
            })
        })
        .collect::<PyResult<Vec<_>>>()?;
    result(py, &settings, &told, &outcome)
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
    module.add_function(wrap_pyfunction!(delays, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_drive, module)?)
}
