//! Jobs: JSON in, JSON and Arrow out, progress meanwhile.

use ::jobs::play::Play;
use ::jobs::{Device, Facts, Found, JobError, Pace, Source, Text};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyCapsule, PyDict};
use std::sync::Arc;
use units::{IoOp, IoRequest};

use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::reading;
use crate::values::object;

/// Requests that are read at a time.
const BATCH_REQUESTS: usize = 1 << 14;

/// A table, as an Arrow stream (`__arrow_c_stream__`): `pyarrow.table`, polars and DuckDB take it.
#[pyclass(frozen, module = "flashwright._core")]
pub struct ArrowTable(RecordBatch);

#[pymethods]
impl ArrowTable {
    #[pyo3(signature = (requested_schema=None) -> "object")]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// The error of a job; a wrong setting has its name in `option`.
fn job_error(py: Python<'_>, error: JobError) -> PyErr {
    match error {
        JobError::Cancelled(cancelled) => errors::cancelled(cancelled),
        JobError::Run(_) => errors::run_error(error),
        JobError::Unknown(_) => errors::input_error(error),
        JobError::Settings { at, message } => {
            let said = if at.is_empty() { message } else { format!("{at}: {message}") };
            let error = errors::input_error(said);
            let set = error.value(py).setattr("option", at);
            set.map_or_else(|failed| failed, |()| error)
        }
    }
}

/// The names of all jobs that are done in Rust; `commands`: of those that are commands, too.
#[pyfunction]
#[pyo3(signature = (commands=false))]
pub fn job_names(commands: bool) -> Vec<&'static str> {
    let all = ::jobs::NAMES.iter().copied();
    all.filter(|name| !commands || ::jobs::is_command(name)).collect()
}

/// The JSON schemas of a job's settings and of its outcome, and the settings' defaults in their
/// order. Raises InputError.
#[pyfunction]
pub fn job_schema(name: &str) -> PyResult<[String; 3]> {
    ::jobs::schema(name).ok_or_else(|| errors::input_error(format!("{name}: no such job")))
}

/// A job's settings (JSON) with all defaults, values as they are meant: equal work has equal text.
/// Raises InputError with `option`.
#[pyfunction]
pub fn job_settings(py: Python<'_>, name: &str, settings: &[u8]) -> PyResult<String> {
    ::jobs::canonical(name, settings).map_err(|error| job_error(py, error))
}

/// A value that is written as text, as JSON: `kind` is device, source, pace or flow. Raises
/// InputError.
#[pyfunction]
pub fn read_setting(py: Python<'_>, kind: &str, text: &str) -> PyResult<String> {
    ::jobs::read_text(kind, text).map_err(|error| job_error(py, error))
}

/// The words that tell a device (JSON) from others. Raises InputError.
#[pyfunction]
pub fn device_label(device: &[u8]) -> PyResult<String> {
    let Text(device): Text<Device> = serde_json::from_slice(device).map_err(errors::input_error)?;
    Ok(device.label())
}

/// The text of a pace (JSON) as results have it. Raises InputError.
#[pyfunction]
pub fn pace_text(pace: &[u8]) -> PyResult<String> {
    let Text(pace): Text<Pace> = serde_json::from_slice(pace).map_err(errors::input_error)?;
    Ok(pace.to_string())
}

/// Bytes that a stack offers over the device `on` of a job, where the device has `bytes` of
/// `sector_bytes`. Raises InputError with `option`.
#[pyfunction]
pub fn offered_bytes(
    py: Python<'_>,
    settings: &[u8],
    stack: &str,
    bytes: u64,
    sector_bytes: u32,
) -> PyResult<u64> {
    let offered = ::jobs::read::<Play>(settings).and_then(|play| {
        let facts = Facts::known(play.facts.as_ref())?;
        ::jobs::offered_bytes(stack, &facts, play.seed, bytes, sector_bytes)
    });
    offered.map_err(|error| job_error(py, error))
}

/// Does a job. `settings` and the outcome are JSON, tables by name Arrow streams, texts by name
/// files. Raises InputError with `option`, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (name, settings, progress=None))]
#[allow(clippy::type_complexity, reason = "a tuple of Python")]
pub fn run_job<'py>(
    py: Python<'py>,
    name: &str,
    settings: &[u8],
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<(&'static str, ArrowTable)>, Vec<(String, String)>)> {
    let progress = progress::shared(progress);
    let found = py.detach(|| ::jobs::run(name, settings, &progress));
    let Found { outcome, tables, texts } = found.map_err(|error| job_error(py, error))?;
    let tables = tables.into_iter().map(|(name, batch)| (name, ArrowTable(batch))).collect();
    Ok((PyBytes::new(py, outcome.as_bytes()), tables, texts))
}

/// The requests of a job's source, read once: as long as somebody holds it, jobs on it do not read
/// it again.
#[pyclass(frozen, name = "Source", module = "flashwright._core")]
pub struct LoadedSource(Arc<Source>);

impl LoadedSource {
    /// The requests.
    pub fn source(&self) -> &Source {
        &self.0
    }
}

#[pymethods]
impl LoadedSource {
    /// The source, without the part that is taken of it.
    #[getter]
    fn name(&self) -> &str {
        &self.0.part.of
    }

    /// Requests of all passes; None if there is no end.
    #[getter]
    fn requests(&self) -> Option<u64> {
        self.0.count()
    }

    /// Totals of one pass of a trace: requests by operation (read, write, trim, flush), requests,
    /// read_bytes, written_bytes, trimmed_bytes, end_bytes (one behind the last byte named),
    /// longest_bytes, unit_bytes (of which all offsets and lengths are multiples), duration_ns,
    /// volumes, empty (requests of no bytes, which are not played), clamped_times. None of a
    /// made-up source.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(trace) = self.0.trace() else { return Ok(None) };
        let totals = &trace.totals;
        let dict = IoOp::ALL.map(|op| (op.name(), totals.by_op[op as usize])).into_py_dict(py)?;
        Ok(Some(dict!(in dict,
            "requests": totals.requests(),
            "read_bytes": totals.read_bytes,
            "written_bytes": totals.written_bytes,
            "trimmed_bytes": totals.trimmed_bytes,
            "end_bytes": totals.end_bytes,
            "longest_bytes": totals.longest_bytes,
            "unit_bytes": totals.unit_bytes,
            "duration_ns": totals.duration,
            "volumes": totals.volumes,
            "empty": totals.empty,
            "clamped_times": trace.facts.clamped_times)))
    }

    /// Bytes that a device needs to hold all addresses; None of a pattern, which goes by the
    /// device.
    #[getter]
    fn footprint_bytes(&self) -> Option<u64> {
        self.0.footprint()
    }

    /// True if each request has a time at which it is to be sent.
    #[getter]
    fn has_times(&self) -> bool {
        self.0.is_timed()
    }

    /// Time of the last request of a pass after its first, in nanoseconds; None without times.
    #[getter]
    fn duration_ns(&self) -> Option<u64> {
        self.0.duration()
    }

    /// True if playing it changes the content of a device.
    #[getter]
    fn writes(&self) -> bool {
        self.0.writes()
    }

    /// Format of the trace that was read; None of a made-up source.
    #[getter]
    fn format(&self) -> Option<&'static str> {
        self.0.trace().map(|trace| trace.format)
    }

    /// Facts found besides requests: skipped (malformed records), left_out (records by reason),
    /// lost_events, warnings (sentences).
    #[getter]
    fn reading<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reading(py, &self.0.trace().map(|trace| trace.facts.clone()).unwrap_or_default())
    }

    /// All requests of a trace as a table, at the addresses that they have as it is loaded. Raises
    /// RunError if it cannot be read any more.
    fn requests_table(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        let all = py.detach(|| {
            let mut source = self.0.requests(u64::MAX)?;
            let (mut all, mut buffer) = (Vec::new(), vec![IoRequest::NOTHING; BATCH_REQUESTS]);
            loop {
                let count = source.fill(&mut buffer).map_err(|error| error.to_string())?;
                if count == 0 {
                    return Ok(all);
                }
                all.extend_from_slice(&buffer[..count]);
            }
        });
        let all = all.map_err(|error: String| errors::run_error(error))?;
        Ok(ArrowTable(traces::store::to_batch(&all)))
    }

    /// The files read: name and sha256 of each.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, &self.0.trace().map_or(&[][..], |trace| &trace.sources))
    }

    /// Identity of these requests: hashes of the files and the part that is taken, or the spec with
    /// all its parameters and the seed.
    #[getter]
    fn content_hash(&self) -> String {
        self.0.content_hash()
    }
}

/// Reads the source of a job, or that of a flow beside it, from 0, as it is played on its first
/// device. Progress counts bytes of the trace. Raises InputError with `option`, Cancelled.
#[pyfunction]
#[pyo3(signature = (settings, flow=None, progress=None))]
pub fn load_source(
    py: Python<'_>,
    settings: &[u8],
    flow: Option<usize>,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<LoadedSource> {
    let progress = progress::shared(progress);
    let loaded = py.detach(|| {
        let play: Play = ::jobs::read(settings)?;
        let device = play.on.first().ok_or_else(|| JobError::at("on", "there is no device"))?;
        match flow {
            None => play.load(device, &progress),
            Some(number) => play.load_flow(number, device, &progress),
        }
    });
    let loaded = LoadedSource(loaded.map_err(|error| job_error(py, error))?);
    if let Some(trace) = loaded.0.trace() {
        errors::warn_of(py, &loaded.0.part.of, &trace.facts.warnings)?;
    }
    Ok(loaded)
}
