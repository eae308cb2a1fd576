//! Traces in Python: opened as an Arrow stream, converted into another format, made of synthetic
//! workloads, and their statistics.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ::registry::Spec;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ArrowError;
use arrow_schema::SchemaRef;
use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use traces::formats::Target;
use traces::stats::{Column, Number, Stats, StatsOptions, TraceStatistics};
use traces::synth::{Requests, Workload};
use traces::{BATCH_REQUESTS, Converted, Facts, OpenOptions, Origin, TraceError, Written};
use units::IoRequest;

use crate::errors;
use crate::progress::{self, Progress};
use crate::values::object;

/// Requests of one Arrow batch.
const BATCH_ROWS: usize = 64 << 10;

/// The exception for an error of the crate: a file that cannot be written is a failed run, all else
/// is wrong input.
pub fn trace_error(error: TraceError) -> PyErr {
    match error {
        TraceError::Cancelled(cancelled) => errors::cancelled(cancelled),
        TraceError::Io { doing: "create" | "write", .. }
        | TraceError::Parquet { doing: "write", .. } => errors::run_error(error),
        other => errors::input_error(other),
    }
}

/// The format of a `format` argument.
pub fn parse_format(format: Option<&str>) -> PyResult<Option<Spec>> {
    format.map(Spec::parse).transpose().map_err(errors::input_error)
}

/// An open trace. It is an Arrow stream (`__arrow_c_stream__`):
/// `pyarrow.RecordBatchReader.from_stream`, polars and DuckDB open it without copying. Columns:
/// time_ns, op, offset, length, stream, latency_ns, handle, fua.
#[pyclass(frozen, module = "flashwright._core")]
pub struct Trace {
    path: PathBuf,
    options: OpenOptions,
    format: &'static str,
    facts: Arc<Mutex<Facts>>,
    /// The trace as it was opened, until the first stream takes it; later streams open the file
    /// again.
    opened: Mutex<Option<traces::Trace>>,
}

/// Decodes on demand: no more than one batch is in memory.
struct Batches {
    trace: traces::Trace,
    requests: Vec<units::IoRequest>,
    facts: Arc<Mutex<Facts>>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.requests.clear();
        let read = self.trace.read_batch(&mut self.requests, BATCH_ROWS);
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = self.trace.facts();
        match read {
            Ok(0) => None,
            Ok(_) => Some(Ok(traces::store::to_batch(&self.requests))),
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        traces::store::schema()
    }
}

#[pymethods]
impl Trace {
    /// Name of the format, as given or as told by content.
    #[getter]
    fn format(&self) -> &'static str {
        self.format
    }

    /// Facts found besides requests so far, by the stream that read last: skipped, left_out
    /// (records by reason), lost_events, warnings.
    #[getter]
    fn reading<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reading(py, &self.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The trace from its start as an Arrow C stream. `requested_schema` is not acted on, as the
    /// protocol allows.
    #[pyo3(signature = (requested_schema=None) -> "object")]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let first = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        let trace = match first {
            Some(trace) => trace,
            None => py.detach(|| traces::open(&self.path, &self.options)).map_err(trace_error)?,
        };
        let batches = Batches { trace, requests: Vec::new(), facts: Arc::clone(&self.facts) };
        PyCapsule::new_with_value(
            py,
            FFI_ArrowArrayStream::new(Box::new(batches)),
            c"arrow_array_stream",
        )
    }

    fn __repr__(&self) -> String {
        format!("Trace({:?}, format={:?})", self.path.display().to_string(), self.format)
    }
}

/// Opens a trace file (plain, .gz, .zst, .xz or .bz2, or in a tar or zip archive, as in
/// `data.zip/io.csv`; `-` is standard input).
///
/// `format` is `name` or `name(key=value,...)`; without it the content tells. `skip_bad` malformed
/// records are passed over and counted; one more is an error. Raises InputError if the file cannot
/// be opened or its format cannot be told.
#[pyfunction]
#[pyo3(signature = (path, format=None, skip_bad=0))]
pub fn open_trace(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    skip_bad: u64,
) -> PyResult<Trace> {
    let options = OpenOptions { format: parse_format(format)?, skip_bad };
    let trace = py.detach(|| traces::open(&path, &options)).map_err(trace_error)?;
    let format = trace.format().info.name;
    Ok(Trace { path, options, format, facts: Arc::default(), opened: Mutex::new(Some(trace)) })
}

/// Reads the trace `src` and writes it to `dst`, whose ending tells the format if `to_format` does
/// not.
///
/// Returns a summary: from_format, to_format, requests, dropped (requests that the format cannot
/// hold and that were to be dropped), skipped (malformed records), left_out (records by reason),
/// lost_events, warnings, clamped_times, start_ns, timeless, streams_are_volumes, sources. Progress
/// counts bytes of `src`. Raises InputError, RunError if `dst` cannot be written, Cancelled.
#[pyfunction]
#[pyo3(signature = (src, dst, from_format=None, to_format=None, skip_bad=0, progress=None))]
pub fn convert_trace<'py>(
    py: Python<'py>,
    src: PathBuf,
    dst: PathBuf,
    from_format: Option<&str>,
    to_format: Option<&str>,
    skip_bad: u64,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = OpenOptions { format: parse_format(from_format)?, skip_bad };
    let to_format = parse_format(to_format)?;
    let progress = progress::shared(progress);
    let done = py
        .detach(|| traces::convert(&src, &options, &dst, to_format.as_ref(), &progress))
        .map_err(trace_error)?;
    let Converted { from, to, written, facts, sources } = done;
    errors::warn_of(py, &src.display().to_string(), &facts.warnings)?;
    let dict = dict!(py,
        "from_format": from, "to_format": to, "requests": written.requests,
        "dropped": written.dropped);
    dict.update(reading(py, &facts)?.as_mapping())?;
    Ok(dict!(in dict,
        "clamped_times": facts.clamped_times, "start_ns": facts.start_ns,
        "timeless": facts.timeless, "streams_are_volumes": facts.streams_are_volumes,
        "sources": object(py, &sources)?))
}

/// Gives what a reader found besides requests, as a dict: malformed records, what was left out or
/// taken for something else by reason, events that were lost, and what to know.
pub fn reading<'py>(py: Python<'py>, facts: &Facts) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        "skipped": facts.skipped,
        "left_out": object(py, &facts.left_out)?,
        "lost_events": facts.lost_events,
        "warnings": &facts.warnings))
}

/// Hands on the page writes of a synthetic workload, some at a time.
fn page_writes(
    workload: &Workload,
    page_bytes: u32,
    progress: &units::Progress,
    mut take: impl FnMut(&[IoRequest]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut source = Requests::new(workload.synthetic(), page_bytes);
    let mut requests = Vec::with_capacity(BATCH_REQUESTS);
    progress.set_total(workload.operations());
    loop {
        requests.clear();
        let read = source.read_batch(&mut requests, BATCH_REQUESTS);
        if read == 0 {
            return Ok(());
        }
        take(&requests)?;
        progress.advance(read as u64)?;
    }
}

fn write(
    workload: &Workload,
    target: &Target<'_>,
    page_bytes: u32,
    progress: &units::Progress,
) -> Result<Written, TraceError> {
    let origin = Origin {
        sources: vec![],
        format: workload.info().name.to_owned(),
        streams_are_volumes: false,
    };
    let mut writer = target.create(&origin)?;
    page_writes(workload, page_bytes, progress, |requests| writer.write(requests))?;
    writer.finish(&Facts { timeless: true, ..Facts::default() })
}

/// Writes a synthetic workload to the trace file `dst`, whose ending tells the format if
/// `to_format` does not.
///
/// `spec` is `uniform(pages=1Mi,updates=15x)`, with or without `synth:` before it. Page writes have
/// no times. Progress counts page writes. Returns name, logical_pages, requests, to_format. Raises
/// InputError, RunError if `dst` cannot be written, Cancelled.
#[pyfunction]
#[pyo3(signature = (spec, dst, to_format=None, page_size=4096, seed=1, progress=None))]
pub fn write_synthetic<'py>(
    py: Python<'py>,
    spec: &str,
    dst: PathBuf,
    to_format: Option<&str>,
    page_size: u32,
    seed: u64,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let workload = Workload::parse(spec, seed).map_err(errors::input_error)?;
    let target = Target::of(&dst, parse_format(to_format)?.as_ref()).map_err(trace_error)?;
    let progress = progress::shared(progress);
    let written =
        py.detach(|| write(&workload, &target, page_size, &progress)).map_err(trace_error)?;
    Ok(dict!(py,
        "name": workload.info().name, "logical_pages": workload.logical_pages(),
        "requests": written.requests, "to_format": target.format.info.name))
}

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
    page_writes(workload, page_bytes, progress, |requests| {
        stats.feed(requests);
        Ok(())
    })?;
    Ok((stats.finish(), None, Facts { timeless: true, ..Facts::default() }))
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
