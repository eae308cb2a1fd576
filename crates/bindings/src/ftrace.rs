//! System calls and events of the block layer out of the kernel's trace buffer in Python.

use std::path::PathBuf;

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::ftrace::{self, About, CallOp, PageLayout, Sighting};

use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::trace_error;

/// Values in the columns for a file or an offset that is not known.
const NO_FILE: u32 = u32::MAX;
const NO_OFFSET: u64 = u64::MAX;

type Column<'py, T> = PyReadonlyArray1<'py, T>;

/// The looks at open files, a column each: from_ns, to_ns, process, fd, file.
type Sightings<'py> =
    (Column<'py, u64>, Column<'py, u64>, Column<'py, u32>, Column<'py, u32>, Column<'py, u32>);

fn sightings(columns: &Sightings<'_>) -> PyResult<Vec<Sighting>> {
    let (from, to, process, fd, file) = columns;
    let (from, to) = (from.as_array(), to.as_array());
    let (process, fd, file) = (process.as_array(), fd.as_array(), file.as_array());
    if [to.len(), process.len(), fd.len(), file.len()].iter().any(|len| *len != from.len()) {
        return Err(errors::input_error(
            "sightings: columns of different lengths; right would be one value of each for each \
             look",
        ));
    }
    let rows = (0..from.len()).map(|n| Sighting {
        from_ns: from[n],
        to_ns: to[n],
        process: process[n],
        fd: fd[n],
        file: file[n],
    });
    Ok(rows.collect())
}

/// Reads the pages that `trace_pipe_raw` of tracefs gave, one file for each processor, and gives
/// the calls on files in them.
///
/// `header_page` and `formats` are the kernel's texts of that name; `threads` pairs of thread and
/// process; `sightings` what was seen in `/proc/PID/fd`, as arrays from_ns, to_ns (uint64, the
/// trace's clock), process, fd, file (uint32; `NOT_WANTED_FILE` for what is of no interest). Gives
/// columns time_ns, duration_ns, call, op (numbers in `call_names`, `op_names`), file, offset,
/// length, result, pid; all bits set in file and offset mean not known. Besides them counts:
/// events, other_events, other_calls (on sockets and other files), unresolved_calls,
/// unplaced_calls, unpaired_enters, unpaired_exits, contradicted_files, gaps, missed_events,
/// cut_bytes. Progress counts events. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (paths, header_page, formats, threads, sightings, progress=None))]
pub fn decode_calls<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    header_page: &str,
    formats: Vec<String>,
    threads: Vec<(u32, u32)>,
    sightings: Sightings<'py>,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let layout = PageLayout::parse(header_page).map_err(errors::input_error)?;
    let about = About { formats, threads, sightings: self::sightings(&sightings)? };
    let progress = progress::shared(progress);
    let found = py
        .detach(move || ftrace::read_calls(&paths, layout, &about, &progress))
        .map_err(trace_error)?;
    let (calls, losses) = (|| found.calls.iter(), found.losses);
    Ok(dict!(py,
        "time_ns": PyArray1::from_iter(py, calls().map(|call| call.time_ns)),
        "duration_ns": PyArray1::from_iter(py, calls().map(|call| call.duration_ns)),
        "call": PyArray1::from_iter(py, calls().map(|call| call.call)),
        "op": PyArray1::from_iter(py, calls().map(|call| call.op as u8)),
        "file": PyArray1::from_iter(py, calls().map(|call| call.file.unwrap_or(NO_FILE))),
        "offset": PyArray1::from_iter(py, calls().map(|call| call.offset.unwrap_or(NO_OFFSET))),
        "length": PyArray1::from_iter(py, calls().map(|call| call.length)),
        "result": PyArray1::from_iter(py, calls().map(|call| call.result)),
        "pid": PyArray1::from_iter(py, calls().map(|call| call.process)),
        "call_names": ftrace::call_names(),
        "op_names": CallOp::NAMES,
        "events": found.events,
        "other_events": found.other_events,
        "other_calls": found.other_calls,
        "unresolved_calls": found.unresolved_calls,
        "unplaced_calls": found.unplaced_calls,
        "unpaired_enters": found.unpaired_enters,
        "unpaired_exits": found.unpaired_exits,
        "contradicted_files": found.contradicted,
        "gaps": losses.gaps,
        "missed_events": losses.missed_events,
        "cut_bytes": losses.cut_bytes))
}

/// Reads the pages that `trace_pipe_raw` of tracefs gave of the `blk` tracer, one file for each
/// processor, and writes the stream that the kernel's `bin` mode and blktrace have to the file
/// `output`, ordered by time.
///
/// `header_page` is the kernel's text of that name, `event` its number of the tracer's events.
/// Gives counts: records, other_events, gaps, missed_events, cut_bytes. Progress counts events.
/// Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (paths, header_page, event, output, progress=None))]
pub fn write_blk_stream<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    header_page: &str,
    event: u16,
    output: PathBuf,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let layout = PageLayout::parse(header_page).map_err(errors::input_error)?;
    let progress = progress::shared(progress);
    let found = py
        .detach(move || ftrace::write_blk_stream(&paths, layout, event, &output, &progress))
        .map_err(trace_error)?;
    Ok(dict!(py,
        "records": found.records,
        "other_events": found.other_events,
        "gaps": found.losses.gaps,
        "missed_events": found.losses.missed_events,
        "cut_bytes": found.losses.cut_bytes))
}

/// Columns of each event.
type Columns<'py> = Vec<Vec<Bound<'py, PyAny>>>;

/// Reads numbers of any events out of the pages that `trace_pipe_raw` of tracefs gave, one file for
/// each processor.
///
/// `header_page` is the kernel's text of that name; `wanted` has for each kind of event its
/// `format` and the names of fields. Gives for each kind, as asked for, a list of arrays: time_ns
/// (uint64, the trace's clock), thread (uint32), and the fields (uint64; signed ones are extended),
/// by time. Then counts: other_events, gaps, missed_events, cut_bytes. Progress counts events.
/// Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (paths, header_page, wanted, progress=None))]
pub fn decode_fields<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    header_page: &str,
    wanted: Vec<(String, Vec<String>)>,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<(Columns<'py>, Bound<'py, PyDict>)> {
    let layout = PageLayout::parse(header_page).map_err(errors::input_error)?;
    let progress = progress::shared(progress);
    let found = py
        .detach(move || ftrace::read_fields(&paths, layout, &wanted, &progress))
        .map_err(trace_error)?;
    let counts = dict!(py,
        "other_events": found.other_events,
        "gaps": found.losses.gaps,
        "missed_events": found.losses.missed_events,
        "cut_bytes": found.losses.cut_bytes);
    let kinds = found.kinds.into_iter().map(|kind| {
        let mut columns =
            vec![kind.time_ns.into_pyarray(py).into_any(), kind.thread.into_pyarray(py).into_any()];
        columns.extend(kind.columns.into_iter().map(|column| column.into_pyarray(py).into_any()));
        columns
    });
    Ok((kinds.collect(), counts))
}
