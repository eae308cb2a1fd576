//! Statistics of a trace in Python.

use std::path::Path;

use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::stats::{Column, Number, Stats, StatsOptions, TraceStatistics};
use traces::synth::{Requests, Workload};
use traces::{BATCH_REQUESTS, Facts, OpenOptions, TraceError};

use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::{parse_format, reading, trace_error};

/// The statistics, the format that was read (none for a synthetic workload), and what was found
/// while reading.
type Found = (TraceStatistics, Option<&'static str>, Facts);

fn of_trace(
    path: &Path,
    options: &OpenOptions,
    page_bytes: u32,
    progress: &units::Progress,
) -> Result<Found, TraceError> {
    let mut trace = traces::open(path, options)?;
    let facts = trace.facts();
    let mut stats = Stats::new(StatsOptions {
        page_bytes,
        streams_are_volumes: facts.streams_are_volumes,
        timeless: facts.timeless,
    });
    progress.set_total(trace.total_bytes());
    let mut requests = Vec::with_capacity(BATCH_REQUESTS);
    while trace.read_batch(&mut requests, BATCH_REQUESTS)? > 0 {
        stats.feed(&requests);
        requests.clear();
        trace.report(progress)?;
    }
    Ok((stats.finish(), Some(trace.format().info.name), trace.facts()))
}

fn of_workload(
    workload: &Workload,
    page_bytes: u32,
    progress: &units::Progress,
) -> Result<Found, TraceError> {
    let mut stats =
        Stats::new(StatsOptions { page_bytes, streams_are_volumes: false, timeless: true });
    let mut source = Requests::new(workload.synthetic(), page_bytes);
    let mut requests = Vec::with_capacity(BATCH_REQUESTS);
    progress.set_total(workload.operations());
    loop {
        requests.clear();
        let read = source.read_batch(&mut requests, BATCH_REQUESTS);
        if read == 0 {
            return Ok((stats.finish(), None, Facts { timeless: true, ..Facts::default() }));
        }
        stats.feed(&requests);
        progress.advance(read as u64)?;
    }
}

fn column<'py>(py: Python<'py>, column: Column) -> Bound<'py, PyAny> {
    match column {
        Column::Integers(values) => values.into_pyarray(py).into_any(),
        Column::Reals(values) => values.into_pyarray(py).into_any(),
    }
}

/// Computes statistics of a trace, in one pass and in memory bounded by its footprint (12 to 14
/// bytes for each page touched).
///
/// `path` is a trace file, `-` for standard input, or `synth:name(key=value,...)`: the page writes
/// of a synthetic workload count as writes of one page each. They have no times; the clock counts
/// them, as it does for a trace without times. `seed` is for synthetic workloads, `format` and
/// `skip_bad` for traces. Progress counts bytes of the file, or page writes.
///
/// Returns the figures by name (None where the trace does not tell one, such as a rate without
/// times), `format`, `skipped` (malformed records), `left_out` (records by reason), `lost_events`,
/// `warnings` (sentences), `clamped_times` (times before the first
/// request's, set to it), and `tables`: by name, a dict of columns, each a numpy array. A bucket or
/// class holds the values `from_...` to `to_...`, both included; a `to_...` of 2^64 - 1 means that
/// it has no end. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (path, format=None, page_size=4096, skip_bad=0, progress=None, seed=1))]
pub fn trace_stats<'py>(
    py: Python<'py>,
    path: std::path::PathBuf,
    format: Option<&str>,
    page_size: u32,
    skip_bad: u64,
    progress: Option<&Bound<'py, Progress>>,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    if page_size == 0 {
        return Err(errors::input_error("page_size is 0: it must be at least 1 byte"));
    }
    let progress = progress::shared(progress);
    let found = match path.to_str().filter(|text| text.starts_with("synth:")) {
        Some(_) if format.is_some() => {
            return Err(errors::input_error(
                "a synthetic workload has no format: leave `format` out",
            ));
        }
        Some(text) => {
            let workload = Workload::parse(text, seed).map_err(errors::input_error)?;
            py.detach(|| of_workload(&workload, page_size, &progress))
        }
        None => {
            let options = OpenOptions { format: parse_format(format)?, skip_bad };
            py.detach(|| of_trace(&path, &options, page_size, &progress))
        }
    };
    let (statistics, format, facts) = found.map_err(trace_error)?;
    let dict = dict!(py, "format": format);
    dict.update(reading(py, &facts)?.as_mapping())?;
    dict.set_item("clamped_times", facts.clamped_times)?;
    errors::warn_of(py, &path.display().to_string(), &facts.warnings)?;
    for (name, value) in statistics.scalars {
        match value {
            Number::Integer(value) if name == "time_reversals" => {
                dict.set_item(name, value + facts.unseen_reversals)?;
            }
            Number::Integer(value) => dict.set_item(name, value)?,
            Number::Real(value) => dict.set_item(name, value)?,
            Number::Unknown => dict.set_item(name, py.None())?,
        }
    }
    let tables = PyDict::new(py);
    for table in statistics.tables {
        let columns = PyDict::new(py);
        for (name, values) in table.columns {
            columns.set_item(name, column(py, values))?;
        }
        tables.set_item(table.name, columns)?;
    }
    dict.set_item("tables", tables)?;
    Ok(dict)
}
