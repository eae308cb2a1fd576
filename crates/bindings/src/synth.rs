//! Synthetic workloads written to trace files.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::formats::Target;
use traces::synth::{Requests, Workload};
use traces::{BATCH_REQUESTS, Facts, Origin, TraceError, Written};

use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::{parse_format, trace_error};

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
    let mut source = Requests::new(workload.synthetic(), page_bytes);
    let mut requests = Vec::with_capacity(BATCH_REQUESTS);
    progress.set_total(workload.operations());
    loop {
        requests.clear();
        let read = source.read_batch(&mut requests, BATCH_REQUESTS);
        if read == 0 {
            return writer.finish(&Facts { timeless: true, ..Facts::default() });
        }
        writer.write(&requests)?;
        progress.advance(read as u64).map_err(TraceError::Cancelled)?;
    }
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
