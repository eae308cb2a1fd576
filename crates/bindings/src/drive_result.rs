//! The result of a run on the simulated drive, as Python has it.

use hdrhistogram::Histogram;
use numpy::IntoPyArray as _;
use player::{FlowFigures, LatencyCell, LatencyMap};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::counting::erase_histogram;
use ssd::drive::measure::{
    Delay, DelaySummary, DieShare, LEAST_FOR_P9999, LatencySummary, OpSummary, TimeWindow,
};
use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::run::{Outcome, RunSettings};
use ssd::drive::state::State;
use ssd::drive::time::{PICOS_PER_NANO, PICOS_PER_SECOND};
use units::IoOp;

use crate::drive_logs::{endurance_group, fdp_dict};
use crate::drive_replication::replication_dict;
use crate::errors;

/// What a result says of a flow beside what it did.
pub struct ToldFlow<'a> {
    pub name: &'a str,
    pub priority: u8,
    /// Placement handle, if the flow has one of its own.
    pub handle: Option<u8>,
    pub offset: u64,
    pub is_folded: bool,
}

/// All figures and tables of a run.
pub fn result<'py>(
    py: Python<'py>,
    settings: &RunSettings,
    flows: &[ToldFlow<'_>],
    outcome: &Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let wall = outcome.wall_seconds.max(1e-9);
    let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let dict = PyDict::new(py);
    dict.set_item("state", state_name(settings.state))?;
    dict.set_item("requests", outcome.requests)?;
    dict.set_item(
        "latency_ns",
        by_op(py, outcome, |py, summary| latency_dict(py, &summary.latency))?,
    )?;
    dict.set_item("delays", by_op(py, outcome, delays_dict)?)?;
    dict.set_item("iops", outcome.iops())?;
    dict.set_item("bytes_per_second", outcome.bytes_per_second())?;
    dict.set_item("read_bytes", outcome.drive.read_bytes)?;
    dict.set_item("written_bytes", outcome.drive.written_bytes)?;
    dict.set_item("die_share", die_share_dict(py, &outcome.die_share)?)?;
    dict.set_item("channel_share", mean(&outcome.channel_share))?;
    dict.set_item("write_amplification", outcome.write_amplification)?;
    dict.set_item("untimed_page_writes", outcome.untimed.host_page_writes)?;
    dict.set_item("untimed_relocated_pages", outcome.untimed.relocated_pages)?;
    dict.set_item("cleaning_cost", outcome.write_amplification - 1.0)?;
    dict.set_item("simulated_seconds", outcome.simulated_seconds())?;
    dict.set_item("requests_per_wall_second", outcome.requests as f64 / wall)?;
    dict.set_item("flash_operations_per_wall_second", outcome.media.total() as f64 / wall)?;
    dict.set_item("wall_seconds", outcome.wall_seconds)?;
    dict.set_item("prepare_seconds", outcome.prepare_seconds)?;
    counters(py, &dict, outcome)?;
    dict.set_item("endurance_group", endurance_group(py, &outcome.endurance_group)?)?;
    if let Some(fdp) = &outcome.fdp {
        dict.set_item("fdp", fdp_dict(py, fdp)?)?;
    }
    if let Some(copies) = &outcome.replication {
        let copies = devices::copy_work(copies, &outcome.scheme, &outcome.media);
        let elapsed = outcome.elapsed / PICOS_PER_NANO;
        dict.set_item("replication", replication_dict(py, &copies, elapsed)?)?;
    }
    if let Some(zones) = &outcome.zones {
        let counts = PyDict::new(py);
        for (name, count) in zones.named() {
            counts.set_item(name, count)?;
        }
        dict.set_item("zones", counts)?;
    }
    dict.set_item("worn_out", outcome.worn_out.as_ref().map(ToString::to_string))?;
    dict.set_item("energy_joules", energy_dict(py, outcome)?)?;
    dict.set_item("event_hash", format!("{:016x}", outcome.event_hash))?;
    dict.set_item("streams_left_out", outcome.streams_left_out)?;
    dict.set_item("table_bytes_per_page", outcome.table_bytes_per_page)?;
    let told_flows = flow_dicts(py, flows, &outcome.flows, PICOS_PER_SECOND)?;
    for (flow, latencies) in told_flows.iter().zip(&outcome.flow_latencies) {
        let latency = PyDict::new(py);
        latency.set_item("all", latency_dict(py, &latencies.all().latency)?)?;
        for op in IoOp::ALL {
            let summary = latencies.of(op).latency;
            if summary.count > 0 {
                latency.set_item(op.name(), latency_dict(py, &summary)?)?;
            }
        }
        flow.set_item("latency_ns_by_op", latency)?;
    }
    dict.set_item("flows", told_flows)?;
    dict.set_item("tables", tables(py, settings, outcome)?)?;
    dict.set_item("timeline", timeline(outcome)?)?;
    Ok(dict)
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Fresh => "fresh",
        State::Loaded { .. } => "loaded",
        State::Filled => "filled",
        State::Aged { .. } => "aged",
    }
}

/// Operations that occurred, in the order of their numbers.
fn occurred(outcome: &Outcome) -> impl Iterator<Item = (IoOp, OpSummary)> {
    IoOp::ALL
        .into_iter()
        .map(|op| (op, outcome.latencies.of(op)))
        .filter(|(_, summary)| summary.latency.count > 0)
}

fn by_op<'py>(
    py: Python<'py>,
    outcome: &Outcome,
    dict_of: impl Fn(Python<'py>, &OpSummary) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("all", dict_of(py, &outcome.latencies.all())?)?;
    for (op, summary) in occurred(outcome) {
        dict.set_item(op.name(), dict_of(py, &summary)?)?;
    }
    Ok(dict)
}

/// What 99.99 % did not exceed; none of too few requests to say.
pub fn p9999(histogram: &Histogram<u64>) -> Option<u64> {
    (histogram.len() >= LEAST_FOR_P9999).then(|| histogram.value_at_quantile(0.9999))
}

pub fn latency_dict<'py>(
    py: Python<'py>,
    latency: &LatencySummary,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", latency.count)?;
    dict.set_item("mean", latency.mean)?;
    dict.set_item("p50", latency.p50)?;
    dict.set_item("p99", latency.p99)?;
    dict.set_item("p999", latency.p999)?;
    dict.set_item("p9999", latency.p9999)?;
    dict.set_item("max", latency.max)?;
    Ok(dict)
}

pub fn delays_dict<'py>(py: Python<'py>, summary: &OpSummary) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (delay, found) in Delay::ALL.into_iter().zip(summary.delays.0) {
        let DelaySummary {
            delayed,
            share_of_requests,
            share_of_latency,
            mean,
            p50,
            p99,
            p999,
            p9999,
            max,
        } = found;
        let dict = PyDict::new(py);
        dict.set_item("delayed", delayed)?;
        dict.set_item("share_of_requests", share_of_requests)?;
        dict.set_item("share_of_latency", share_of_latency)?;
        dict.set_item("mean", mean)?;
        dict.set_item("p50", p50)?;
        dict.set_item("p99", p99)?;
        dict.set_item("p999", p999)?;
        dict.set_item("p9999", p9999)?;
        dict.set_item("max", max)?;
        all.set_item(delay.name(), dict)?;
    }
    Ok(all)
}

fn die_share_dict<'py>(py: Python<'py>, share: &DieShare) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, part) in share.named() {
        dict.set_item(name, part)?;
    }
    Ok(dict)
}

fn counters<'py>(py: Python<'py>, dict: &Bound<'py, PyDict>, outcome: &Outcome) -> PyResult<()> {
    let operations = PyDict::new(py);
    for op in FlashOp::ALL {
        let causes = PyDict::new(py);
        for cause in Cause::ALL {
            causes.set_item(cause.name(), outcome.media.operations[op as usize][cause as usize])?;
        }
        operations.set_item(op.name(), causes)?;
    }
    dict.set_item("flash_operations", operations)?;
    dict.set_item("transferred_bytes", outcome.media.bytes_transferred)?;
    dict.set_item("multi_plane_commands", outcome.media.multi_plane_commands)?;
    dict.set_item("suspensions", outcome.media.suspensions)?;
    dict.set_item("read_retries", outcome.media.read_retries)?;
    let merges = PyDict::new(py);
    for (name, count) in outcome.scheme.named() {
        match name.strip_suffix("_merges") {
            Some(kind) => merges.set_item(kind, count)?,
            None => dict.set_item(name, count)?,
        }
    }
    dict.set_item("merges", merges)?;
    dict.set_item("erases_mean", outcome.wear.erases_mean)?;
    dict.set_item("erases_stddev", outcome.wear.erases_stddev)?;
    dict.set_item("erases_min", outcome.wear.erases_min)?;
    dict.set_item("erases_max", outcome.wear.erases_max)?;
    dict.set_item("pages_from_memory", outcome.drive.pages_from_memory)?;
    dict.set_item("unmapped_pages", outcome.drive.unmapped_pages)?;
    dict.set_item("filled_pages", outcome.drive.filled_pages)
}

fn energy_dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(energy) = outcome.energy else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("read", energy.read_joules)?;
    dict.set_item("program", energy.program_joules)?;
    dict.set_item("erase", energy.erase_joules)?;
    dict.set_item("transfer", energy.transfer_joules)?;
    dict.set_item("idle", energy.idle_joules)?;
    dict.set_item("total", energy.total_joules)?;
    dict.set_item("mean_watts", energy.mean_watts)?;
    Ok(Some(dict))
}

/// What each flow did, in ticks of which so many are a second.
pub fn flow_dicts<'py>(
    py: Python<'py>,
    told: &[ToldFlow<'_>],
    flows: &[FlowFigures],
    ticks: u64,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let dicts = told.iter().zip(flows).map(|(told, flow)| {
        let latency = PyDict::new(py);
        latency.set_item("mean", flow.mean_latency() * 1e9 / ticks as f64)?;
        let dict = PyDict::new(py);
        dict.set_item("name", told.name)?;
        dict.set_item("priority", told.priority)?;
        if told.handle.is_some() {
            dict.set_item("handle", told.handle)?;
        }
        dict.set_item("offset", told.offset)?;
        dict.set_item("folded", told.is_folded)?;
        dict.set_item("requests", flow.requests)?;
        dict.set_item("bytes", flow.bytes())?;
        dict.set_item("read_bytes", flow.read_bytes)?;
        dict.set_item("written_bytes", flow.written_bytes)?;
        dict.set_item("seconds", flow.elapsed as f64 / ticks as f64)?;
        dict.set_item("iops", flow.iops(ticks))?;
        dict.set_item("bytes_per_second", flow.bytes_per_second(ticks))?;
        dict.set_item("latency_ns", latency)?;
        Ok(dict)
    });
    dicts.collect()
}

fn timeline(outcome: &Outcome) -> PyResult<Option<String>> {
    let Some(timeline) = &outcome.timeline else { return Ok(None) };
    let mut json = Vec::new();
    timeline.write_json(&mut json).map_err(errors::run_error)?;
    String::from_utf8(json).map(Some).map_err(errors::run_error)
}

/// Latencies over time, in ticks of which so many are a second: the cells that hold something.
pub fn latency_map<'py>(
    py: Python<'py>,
    map: &LatencyMap,
    elapsed: u64,
    ticks: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let cells: Vec<LatencyCell> = map.cells(elapsed).collect();
    let seconds = |time: u64| time as f64 / ticks as f64;
    table(
        py,
        [
            ("start_s", array(py, cells.iter().map(|cell| seconds(cell.start)))),
            ("seconds", array(py, cells.iter().map(|cell| seconds(cell.length)))),
            ("op", texts(py, cells.iter().map(|cell| cell.op.name()))?),
            ("from_ns", array(py, cells.iter().map(|cell| cell.from))),
            ("to_ns", array(py, cells.iter().map(|cell| cell.to))),
            ("count", array(py, cells.iter().map(|cell| cell.requests))),
        ],
    )
}

/// A table: its columns as a dict of arrays.
fn table<'py>(
    py: Python<'py>,
    columns: impl IntoIterator<Item = (&'static str, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in columns {
        dict.set_item(name, column)?;
    }
    Ok(dict)
}

fn array<'py, T: numpy::Element>(
    py: Python<'py>,
    values: impl Iterator<Item = T>,
) -> Bound<'py, PyAny> {
    values.collect::<Vec<T>>().into_pyarray(py).into_any()
}

fn texts<'py>(
    py: Python<'py>,
    values: impl Iterator<Item = &'static str>,
) -> PyResult<Bound<'py, PyAny>> {
    values.collect::<Vec<_>>().into_pyobject(py)
}

fn tables<'py>(
    py: Python<'py>,
    settings: &RunSettings,
    outcome: &Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let erases = erase_histogram(&outcome.erase_counts);
    let wear = table(
        py,
        [
            ("erases", array(py, erases.iter().map(|&(erases, _)| erases))),
            ("erase_blocks", array(py, erases.iter().map(|&(_, blocks)| blocks))),
        ],
    )?;
    table(
        py,
        [
            ("latency_histogram", latency_table(py, outcome)?.into_any()),
            (
                "latency_over_time",
                latency_map(py, &outcome.latency_map, outcome.elapsed, PICOS_PER_SECOND)?
                    .into_any(),
            ),
            ("delay_histogram", delay_table(py, outcome)?.into_any()),
            ("over_time", over_time_table(py, &outcome.windows)?.into_any()),
            ("dies", die_table(py, settings, outcome)?.into_any()),
            ("wear", wear.into_any()),
        ],
    )
}

fn latency_table<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let of_op = |op: IoOp| {
        outcome
            .latencies
            .latency_rows(op)
            .into_iter()
            .map(move |(value, count)| (op.name(), value, count))
    };
    let rows: Vec<_> = IoOp::ALL.into_iter().flat_map(of_op).collect();
    table(
        py,
        [
            ("op", texts(py, rows.iter().map(|row| row.0))?),
            ("value_ns", array(py, rows.iter().map(|row| row.1))),
            ("count", array(py, rows.iter().map(|row| row.2))),
        ],
    )
}

fn delay_table<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let mut rows = Vec::new();
    for op in IoOp::ALL {
        for delay in Delay::ALL {
            rows.extend(
                outcome
                    .latencies
                    .delay_rows(op, delay)
                    .into_iter()
                    .map(|(value, count)| (op.name(), delay.name(), value, count)),
            );
        }
    }
    table(
        py,
        [
            ("op", texts(py, rows.iter().map(|row| row.0))?),
            ("delay", texts(py, rows.iter().map(|row| row.1))?),
            ("value_ns", array(py, rows.iter().map(|row| row.2))),
            ("count", array(py, rows.iter().map(|row| row.3))),
        ],
    )
}

/// A figure that a window without such requests does not have is not a number.
fn over_time_table<'py>(py: Python<'py>, windows: &[TimeWindow]) -> PyResult<Bound<'py, PyDict>> {
    let start = windows.first().map_or(0, |window| window.start);
    let seconds = |picos: u64| picos as f64 / PICOS_PER_SECOND as f64;
    let numbers = |of: &dyn Fn(&TimeWindow) -> f64| array(py, windows.iter().map(of));
    let counts = |of: &dyn Fn(&TimeWindow) -> u64| array(py, windows.iter().map(of));
    table(
        py,
        [
            ("seconds", numbers(&|w| seconds(w.start + w.length - start))),
            ("length_seconds", numbers(&|w| seconds(w.length))),
            ("iops", numbers(&TimeWindow::iops)),
            ("read_bytes_per_second", numbers(&TimeWindow::read_bytes_per_second)),
            ("written_bytes_per_second", numbers(&TimeWindow::written_bytes_per_second)),
            ("write_amplification", numbers(&|w| w.write_amplification().unwrap_or(f64::NAN))),
            ("mean_read_ns", numbers(&|w| w.mean_read_ns().unwrap_or(f64::NAN))),
            ("mean_write_ns", numbers(&|w| w.mean_write_ns().unwrap_or(f64::NAN))),
            ("mean_flush_ns", numbers(&|w| w.mean_flush_ns().unwrap_or(f64::NAN))),
            ("reads", counts(&|w| w.reads)),
            ("writes", counts(&|w| w.writes)),
            ("flushes", counts(&|w| w.flushes)),
            ("host_page_writes", counts(&|w| w.host_page_writes)),
            ("relocated_pages", counts(&|w| w.relocated_pages)),
            ("mapping_page_writes", counts(&|w| w.mapping_page_writes)),
            ("parity_page_writes", counts(&|w| w.parity_page_writes)),
            ("replica_page_writes", counts(&|w| w.replica_page_writes)),
            ("erases", counts(&|w| w.erases)),
        ],
    )
}

fn die_table<'py>(
    py: Python<'py>,
    settings: &RunSettings,
    outcome: &Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let layout = settings.profile.layout();
    let shares: Vec<DieShare> =
        outcome.dies.iter().map(|busy| DieShare::of(busy, outcome.elapsed)).collect();
    let dies = 0..outcome.dies.len() as u32;
    let places = [
        ("die", array(py, dies.clone())),
        ("channel", array(py, dies.map(|die| layout.channel_of_die(die)))),
    ];
    let of_cause = |cause: Cause| {
        (cause.name(), array(py, shares.iter().map(move |share| share.by_cause[cause as usize])))
    };
    let idle = ("idle", array(py, shares.iter().map(|share| share.idle)));
    table(py, places.into_iter().chain(Cause::ALL.map(of_cause)).chain([idle]))
}
