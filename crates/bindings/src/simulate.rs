//! The counting simulator.

use ::registry::Spec;
use numpy::{PyArray1, PyReadonlyArray1};
use placement::PLACEMENTS;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::counting::{CountingSettings, Outcome, RunError, Start, simulate as run};
use ssd::steady::{Stretch, Unsteady};
use units::Geometry;

use crate::errors;
use crate::progress::{self, Progress};
use crate::python_policy;
use crate::workload::Workload;

fn run_failed(error: RunError) -> PyErr {
    match error {
        RunError::Cancelled(cancelled) => errors::cancelled(cancelled),
        RunError::Audit { .. } => errors::run_error(error),
        RunError::Build(_) | RunError::Source(_) => errors::input_error(error),
    }
}

fn start_of(start: &str) -> PyResult<Start> {
    match start {
        "filled" => Ok(Start::Filled),
        "fresh" => Ok(Start::Fresh),
        other => {
            Err(errors::input_error(format!("start is `{other}`: it must be filled or fresh")))
        }
    }
}

/// The policies that were asked for.
struct Asked<'a, 'py> {
    placement: Spec,
    victim: Spec,
    /// The placement policy, where it is one of Python's.
    policy: Option<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Asked<'a, 'py> {
    /// A placement policy is named, or an object that answers as `flashwright.Placement` does. The
    /// victim policy is by default the one of the placement's authors.
    fn of(placement: Option<&'a Bound<'py, PyAny>>, victim: Option<&str>) -> PyResult<Self> {
        let named = match placement {
            None => Some("none".to_owned()),
            Some(given) => given.extract::<String>().ok(),
        };
        let (placement, own, policy) = match (named, placement) {
            (None, Some(policy)) => {
                if !policy.hasattr("_answers")? {
                    return Err(errors::input_error(format!(
                        "placement is a {}: it must be the name of a policy, or an object of a \
                         class made from flashwright.Placement",
                        policy.get_type().name()?
                    )));
                }
                let placement = Spec { name: python_policy::name_of(policy)?, given: Vec::new() };
                (placement, policy.getattr("victim")?.extract::<String>()?, Some(policy))
            }
            (named, _) => {
                let placement =
                    Spec::parse(&named.unwrap_or_default()).map_err(errors::input_error)?;
                let known =
                    registry::find("placement policy", PLACEMENTS, |entry| &entry.info, &placement);
                let own = known.map_err(errors::input_error)?.victim.to_owned();
                (placement, own, None)
            }
        };
        let victim = Spec::parse(victim.unwrap_or(&own)).map_err(errors::input_error)?;
        Ok(Self { placement, victim, policy })
    }
}

/// Plays a workload through a page-mapped FTL on a medium that only counts.
///
/// `victim` None means the one that the placement's authors use. `over_provisioning` is (physical -
/// logical) / logical. With `start` "filled" every logical page is written once, in order, before
/// the workload; that is left out of every figure but the erase counts. `audit` checks the FTL's
/// tables against each other all along. A sample of a trace runs twice: the second time on a drive
/// with as much more spare space as its reserve and its open erase blocks take on one so small.
///
/// Returns write_amplification, cleaning_cost and p_gc over the steady part, which begins at host
/// page write steady_from_update; the 95 % interval of write_amplification (None if nothing is
/// known of it); whether the part may be called `steady`, why it is `unsteady`, and how many times
/// as long it then has to be (steady_times); totals of the run; and tables of arrays. Raises
/// InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    workload, placement=None, victim=None, over_provisioning=0.2, pages_per_erase_block=64,
    start="filled", seed=1, audit=false, progress=None
))]
pub fn simulate<'py>(
    py: Python<'py>,
    workload: &Bound<'py, Workload>,
    placement: Option<&Bound<'py, PyAny>>,
    victim: Option<&str>,
    over_provisioning: f64,
    pages_per_erase_block: u32,
    start: &str,
    seed: u64,
    audit: bool,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let workload = workload.get();
    let asked = Asked::of(placement, victim)?;
    let geometry = Geometry::with_over_provisioning(
        workload.page_bytes(),
        pages_per_erase_block,
        u64::from(workload.logical_pages()),
        over_provisioning,
    )
    .map_err(errors::input_error)?;
    let settings = CountingSettings {
        geometry,
        placement: asked.placement,
        victim: asked.victim,
        start: start_of(start)?,
        seed,
        repeat: workload.repeat(),
        audit,
    };
    let progress = progress::shared(progress);
    let mut source = workload.source();
    progress.set_total(source.operations().unwrap_or(0) * u64::from(settings.repeat));
    let outcome = match asked.policy {
        Some(policy) => {
            python_policy::simulate(policy, &settings, source.as_mut(), &progress, run_failed)?
        }
        None => py
            .detach(|| {
                // Only an oracle needs them, and they take 8 bytes a page: most runs never ask.
                let weights = || workload.weights();
                let outcome = run(&settings, &weights, source.as_mut(), &progress)?;
                let Some(larger) = of_sample(&settings, &outcome, workload.one_in()) else {
                    return Ok(outcome);
                };
                run(&larger, &weights, workload.source().as_mut(), &progress)
            })
            .map_err(run_failed)?,
    };
    result(py, &settings, &outcome)
}

/// Gives the drive of a sample the spare space that a whole drive has left.
///
/// The reserve for cleaning and the open erase blocks, half full in the mean, take as many erase
/// blocks on a small drive as on a large one. `outcome` says how many streams a policy has.
fn of_sample(
    settings: &CountingSettings,
    outcome: &Outcome,
    one_in: u64,
) -> Option<CountingSettings> {
    const RESERVE: f64 = 2.0;
    let streams = outcome.streams.iter().filter(|stream| stream.erase_blocks > 0).count();
    let taken = RESERVE + streams as f64 / 2.0;
    let more = (taken * (1.0 - 1.0 / one_in as f64)).round() as u32;
    let geometry = settings.geometry;
    let erase_blocks = geometry.erase_blocks + more;
    (more > 0).then(|| CountingSettings {
        geometry: Geometry { erase_blocks, ..geometry },
        ..settings.clone()
    })
}

fn result<'py>(
    py: Python<'py>,
    settings: &CountingSettings,
    outcome: &Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let CountingSettings { geometry, placement, victim, .. } = settings;
    let Outcome { counters, steady, wear, write_amplification, .. } = outcome;
    let programs = counters.host_page_writes + counters.relocated_pages;
    let half_width = Some(steady.half_width).filter(|width| width.is_finite());
    Ok(dict!(py,
        "placement": placement.to_string(),
        "victim": victim.to_string(),
        "over_provisioning": geometry.over_provisioning(),
        "logical_pages": geometry.logical_pages,
        "physical_pages": geometry.physical_pages(),
        "page_bytes": geometry.page_bytes,
        "pages_per_erase_block": geometry.pages_per_erase_block,
        "write_amplification": write_amplification,
        "cleaning_cost": write_amplification - 1.0,
        "p_gc": outcome.p_gc,
        // At least one page is programmed for each that the host writes.
        "write_amplification_low": half_width.map(|width| (write_amplification - width).max(1.0)),
        "write_amplification_high": half_width.map(|width| write_amplification + width),
        "steady": steady.unsteady.is_none(),
        "unsteady": steady.unsteady.map(|why| why.to_string()),
        "steady_times": steady.unsteady.map(Unsteady::times_as_long),
        "steady_from_update": outcome.steady_from_update,
        "host_page_writes": counters.host_page_writes,
        "relocated_pages": counters.relocated_pages,
        "trimmed_pages": counters.trimmed_pages,
        "erases": counters.erases,
        "streams_left_out": outcome.streams_left_out,
        "spilled_pages": counters.spilled_pages,
        "pulled_pages": counters.pulled_pages,
        "unused_pages": counters.unused_pages,
        "rescues": counters.rescues,
        "erases_mean": wear.erases_mean,
        "erases_stddev": wear.erases_stddev,
        "erases_min": wear.erases_min,
        "erases_max": wear.erases_max,
        "table_bytes_per_page": outcome.table_bytes_per_page,
        "wall_seconds": outcome.wall_seconds,
        "flash_page_programs_per_second": programs as f64 / outcome.wall_seconds.max(1e-9),
        "tables": tables(py, settings, outcome)?))
}

fn tables<'py>(
    py: Python<'py>,
    settings: &CountingSettings,
    outcome: &Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let (windows, streams) = (|| outcome.windows.iter(), || outcome.streams.iter());
    let wear = || outcome.erase_histogram.iter();
    let amplification = windows().map(|w| 1.0 + w.relocated_pages as f64 / w.written_pages as f64);
    Ok(dict!(py,
        "over_time": dict!(py,
            "host_page_writes": PyArray1::from_iter(py, windows().map(|w| w.host_page_writes)),
            "write_amplification": PyArray1::from_iter(py, amplification),
            "relocated_pages": PyArray1::from_iter(py, windows().map(|w| w.relocated_pages)),
            "erases": PyArray1::from_iter(py, windows().map(|w| w.erases))),
        "streams": dict!(py,
            "stream": streams().map(|s| s.label.as_str()).collect::<Vec<_>>(),
            "valid_pages": PyArray1::from_iter(py, streams().map(|s| s.valid_pages)),
            "erase_blocks": PyArray1::from_iter(py, streams().map(|s| s.erase_blocks))),
        "p_gc_histogram": dict!(py,
            "valid_pages": PyArray1::from_iter(py, 0..=settings.geometry.pages_per_erase_block),
            "victims": PyArray1::from_iter(py, outcome.counters.victims_by_valid.iter().copied())),
        "wear": dict!(py,
            "erases": PyArray1::from_iter(py, wear().map(|&(erases, _)| erases)),
            "erase_blocks": PyArray1::from_iter(py, wear().map(|&(_, blocks)| blocks)))))
}

/// The ratio of what was counted in the stretches of a run, in all, to what it is over, with its 95
/// % interval by batch means (`ssd::steady`): figure, low, high (None if nothing is known of it),
/// steady, unsteady (why; None if it is steady), and how many `times` as long it then has to be.
/// Stretches over nothing are left out.
///
/// Raises InputError if there are not as many of one as of the other.
#[pyfunction]
pub fn judge<'py>(
    py: Python<'py>,
    counted: PyReadonlyArray1<'py, f64>,
    over: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let (counted, over) = (counted.as_array(), over.as_array());
    if counted.len() != over.len() {
        return Err(errors::input_error(format!(
            "{} counts over {} stretches: there must be one for each",
            counted.len(),
            over.len()
        )));
    }
    let stretches: Vec<Stretch> = counted
        .iter()
        .zip(over)
        .map(|(&counted, &over)| Stretch { counted, over })
        .filter(|stretch| stretch.over > 0.0)
        .collect();
    let judged = ssd::steady::judge(&stretches);
    let known = judged.half_width.is_finite();
    Ok(dict!(py,
        "figure": judged.figure,
        "low": known.then_some(judged.figure - judged.half_width),
        "high": known.then_some(judged.figure + judged.half_width),
        "steady": judged.unsteady.is_none(),
        "unsteady": judged.unsteady.map(|why| why.to_string()),
        "times": judged.unsteady.map(Unsteady::times_as_long)))
}
