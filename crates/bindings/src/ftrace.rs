//! System calls and events of the block layer out of the kernel's trace buffer in Python.

use std::path::PathBuf;

use numpy::{IntoPyArray as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::ftrace::{self, About, CallOp, FileCall, NOT_WANTED, PageLayout, Sighting};

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
#[allow(clippy::needless_pass_by_value, reason = "as Python hands them over")]
#[pyo3(signature = (paths, header_page, formats, threads, sightings, progress=None))]
fn decode_calls<'py>(
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
    let calls = &found.calls;
    let dict = PyDict::new(py);
    fn column<T>(calls: &[FileCall], value: impl Fn(&FileCall) -> T) -> Vec<T> {
        calls.iter().map(value).collect()
    }
    dict.set_item("time_ns", column(calls, |call| call.time_ns).into_pyarray(py))?;
    dict.set_item("duration_ns", column(calls, |call| call.duration_ns).into_pyarray(py))?;
    dict.set_item("call", column(calls, |call| call.call).into_pyarray(py))?;
    dict.set_item("op", column(calls, |call| call.op as u8).into_pyarray(py))?;
    dict.set_item("file", column(calls, |call| call.file.unwrap_or(NO_FILE)).into_pyarray(py))?;
    dict.set_item(
        "offset",
        column(calls, |call| call.offset.unwrap_or(NO_OFFSET)).into_pyarray(py),
    )?;
    dict.set_item("length", column(calls, |call| call.length).into_pyarray(py))?;
    dict.set_item("result", column(calls, |call| call.result).into_pyarray(py))?;
    dict.set_item("pid", column(calls, |call| call.process).into_pyarray(py))?;
    dict.set_item("call_names", ftrace::call_names())?;
    dict.set_item("op_names", CallOp::NAMES)?;
    let counts = [
        ("events", found.events),
        ("other_events", found.other_events),
        ("other_calls", found.other_calls),
        ("unresolved_calls", found.unresolved_calls),
        ("unplaced_calls", found.unplaced_calls),
        ("unpaired_enters", found.unpaired_enters),
        ("unpaired_exits", found.unpaired_exits),
        ("contradicted_files", found.contradicted),
        ("gaps", found.losses.gaps),
        ("missed_events", found.losses.missed_events),
        ("cut_bytes", found.losses.cut_bytes),
    ];
    for (name, count) in counts {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

/// Reads the pages that `trace_pipe_raw` of tracefs gave of the `blk` tracer, one file for each
/// processor, and writes the stream that the kernel's `bin` mode and blktrace have to the file
/// `output`, ordered by time.
///
/// `header_page` is the kernel's text of that name, `event` its number of the tracer's events.
/// Gives counts: records, other_events, gaps, missed_events, cut_bytes. Progress counts events.
/// Raises InputError, Cancelled.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "as Python hands them over")]
#[pyo3(signature = (paths, header_page, event, output, progress=None))]
fn write_blk_stream<'py>(
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
    let dict = PyDict::new(py);
    let counts = [
        ("records", found.records),
        ("other_events", found.other_events),
        ("gaps", found.losses.gaps),
        ("missed_events", found.losses.missed_events),
        ("cut_bytes", found.losses.cut_bytes),
    ];
    for (name, count) in counts {
        dict.set_item(name, count)?;
    }
    Ok(dict)
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
#[allow(clippy::needless_pass_by_value, reason = "as Python hands them over")]
#[pyo3(signature = (paths, header_page, wanted, progress=None))]
fn decode_fields<'py>(
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
    let counts = PyDict::new(py);
    counts.set_item("other_events", found.other_events)?;
    counts.set_item("gaps", found.losses.gaps)?;
    counts.set_item("missed_events", found.losses.missed_events)?;
    counts.set_item("cut_bytes", found.losses.cut_bytes)?;
    let kinds = found.kinds.into_iter().map(|kind| {
        let mut columns =
            vec![kind.time_ns.into_pyarray(py).into_any(), kind.thread.into_pyarray(py).into_any()];
        columns.extend(kind.columns.into_iter().map(|column| column.into_pyarray(py).into_any()));
        columns
    });
    Ok((kinds.collect(), counts))
}

/// Adds the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NOT_WANTED_FILE", NOT_WANTED)?;
    module.add_function(wrap_pyfunction!(decode_calls, module)?)?;
    module.add_function(wrap_pyfunction!(decode_fields, module)?)?;
    module.add_function(wrap_pyfunction!(write_blk_stream, module)?)
}
