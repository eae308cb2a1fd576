//! Workloads of a simulation: a trace file, or a synthetic workload.

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::pages::{LoadOptions, LoadedTrace, load};
use traces::synth;
use traces::{Facts, Sampled};
use units::PageSource;

use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::{parse_format, reading, trace_error};
use crate::values::Array;

/// Page writes over dense logical pages, that can be played any number of times, by several threads
/// at once.
#[pyclass(frozen, module = "flashwright._core")]
pub struct Workload {
    name: String,
    repeat: u32,
    seed: u64,
    page_size: u32,
    kind: Arc<WorkloadKind>,
}

enum WorkloadKind {
    Trace(LoadedTrace),
    Synthetic(synth::Workload),
}

impl Workload {
    /// A source at its first operation.
    pub fn source(&self) -> Box<dyn PageSource> {
        match &*self.kind {
            WorkloadKind::Trace(trace) => trace.source(),
            WorkloadKind::Synthetic(workload) => workload.source(),
        }
    }

    /// Gives the update frequency of each page: exact probabilities of a synthetic workload, counts
    /// of a trace.
    pub fn weights(&self) -> Vec<f64> {
        match &*self.kind {
            WorkloadKind::Trace(trace) => {
                trace.updates.iter().map(|&count| f64::from(count)).collect()
            }
            WorkloadKind::Synthetic(workload) => workload.page_weights().per_page,
        }
    }

    /// The trace; none of a synthetic workload.
    fn trace(&self) -> Option<&LoadedTrace> {
        match &*self.kind {
            WorkloadKind::Trace(trace) => Some(trace),
            WorkloadKind::Synthetic(_) => None,
        }
    }

    /// What the pages are a sample of.
    fn sampled(&self) -> Option<Sampled> {
        self.trace().and_then(|trace| trace.sampled)
    }

    /// Gives the facts found in a trace; none of a synthetic workload.
    fn facts(&self) -> Facts {
        self.trace().map(|trace| trace.facts.clone()).unwrap_or_default()
    }
}

#[pymethods]
impl Workload {
    /// The source as it was asked for.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of a page.
    #[getter]
    pub fn page_bytes(&self) -> u32 {
        self.page_size
    }

    /// Number of times that it is played.
    #[getter]
    pub fn repeat(&self) -> u32 {
        self.repeat
    }

    /// The same, played so many times over; what is in memory is shared. Raises InputError for 0.
    fn repeated(&self, repeat: u32) -> PyResult<Self> {
        checked("repeat", u64::from(repeat))?;
        let Self { seed, page_size, .. } = *self;
        Ok(Self { name: self.name.clone(), repeat, seed, page_size, kind: Arc::clone(&self.kind) })
    }

    /// Pages that the host addresses: for a trace those that it writes.
    #[getter]
    pub fn logical_pages(&self) -> u32 {
        match &*self.kind {
            WorkloadKind::Trace(trace) => trace.logical_pages,
            WorkloadKind::Synthetic(workload) => workload.logical_pages(),
        }
    }

    /// Page writes of all passes.
    #[getter]
    fn page_writes(&self) -> u64 {
        let once = match &*self.kind {
            WorkloadKind::Trace(trace) => trace.page_writes,
            WorkloadKind::Synthetic(workload) => workload.operations(),
        };
        once * u64::from(self.repeat)
    }

    /// Trims of pages that held data, of all passes.
    #[getter]
    fn page_trims(&self) -> u64 {
        self.trace().map_or(0, |trace| trace.page_trims * u64::from(self.repeat))
    }

    /// One page in so many is followed: 1 for all.
    #[getter]
    pub fn one_in(&self) -> u64 {
        self.sampled().map_or(1, |sampled| sampled.one_in)
    }

    /// Pages that the whole trace writes, where those followed are a sample: an estimate then, with
    /// a standard error of 0.8 %.
    #[getter]
    fn whole_pages(&self) -> u64 {
        self.sampled().map_or(u64::from(self.logical_pages()), |sampled| sampled.pages)
    }

    /// Page writes of all passes over the whole trace, where those followed are a sample.
    #[getter]
    fn whole_page_writes(&self) -> u64 {
        self.sampled()
            .map_or(self.page_writes(), |sampled| sampled.page_writes * u64::from(self.repeat))
    }

    /// The trace format that was read; None for a synthetic workload.
    #[getter]
    fn format(&self) -> Option<&'static str> {
        self.trace().map(|trace| trace.format)
    }

    /// Facts found besides requests when the trace was read: skipped (malformed records), left_out
    /// (records by reason), lost_events, warnings (sentences).
    #[getter]
    fn reading<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reading(py, &self.facts())
    }

    /// Identity of this workload: the files' hashes, or the spec with all its parameters and the
    /// seed.
    #[getter]
    fn content_hash(&self) -> String {
        match &*self.kind {
            WorkloadKind::Trace(trace) => {
                let files = trace.sources.iter();
                let mut said: Vec<String> =
                    files.map(|file| format!("{}:{}", file.name, file.sha256)).collect();
                said.extend(trace.sampled.map(|sampled| format!("1 in {}", sampled.one_in)));
                said.join(" ")
            }
            WorkloadKind::Synthetic(workload) => {
                let args: Vec<String> =
                    workload.args().iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("synth:{}?{} seed {}", workload.info().name, args.join("&"), self.seed)
            }
        }
    }

    /// Recorded duration of one pass, in nanoseconds; None if it has no times.
    #[getter]
    fn duration_ns(&self) -> Option<u64> {
        self.trace().filter(|trace| !trace.facts.timeless).map(|trace| trace.duration_ns)
    }

    /// Fraction of the host writes, 0 to 1, during which each logical page holds data, over a
    /// device that starts filled; in the last pass if the workload is repeated. Raises InputError
    /// if the trace cannot be read again.
    fn held_fractions(&self, py: Python<'_>) -> PyResult<Array<f64>> {
        let found = py.detach(|| match self.page_trims() {
            0 => Ok(vec![1.0; self.logical_pages() as usize]),
            _ => units::held_fractions(self.source().as_mut(), self.repeat.min(2)),
        });
        found.map(Array).map_err(errors::input_error)
    }

    /// Gives the update frequency of each logical page, in any unit: exact probabilities of a
    /// synthetic workload, counts of a trace.
    fn update_weights(&self, py: Python<'_>) -> Array<f64> {
        Array(py.detach(|| self.weights()))
    }
}

fn checked(name: &str, given: u64) -> PyResult<()> {
    if given == 0 {
        return Err(errors::input_error(format!("{name} is 0: it must be at least 1")));
    }
    Ok(())
}

/// Reads a trace file, or makes the synthetic workload of `synth:name(key=value,...)`.
///
/// `page_size` in bytes; `repeat` plays the source that many times over; `seed` is for synthetic
/// workloads. A trace is kept in memory up to `memory_limit_bytes` of page operations, 4 bytes
/// each, and read again for every run beyond. `sample` takes one page of a trace in so many, fewer
/// where that would leave less than 32 Ki of them. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    source, page_size=4096, format=None, skip_bad=0, seed=1, repeat=1, memory_limit_bytes=4 << 30,
    sample=1, progress=None
))]
pub fn load_workload(
    py: Python<'_>,
    source: &str,
    page_size: u32,
    format: Option<&str>,
    skip_bad: u64,
    seed: u64,
    repeat: u32,
    memory_limit_bytes: u64,
    sample: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Workload> {
    checked("repeat", u64::from(repeat))?;
    checked("sample", sample)?;
    let kind = if source.starts_with("synth:") {
        if sample > 1 {
            return Err(errors::input_error(format!(
                "{source}: `sample` is of a trace; give it fewer `pages` instead"
            )));
        }
        WorkloadKind::Synthetic(
            py.detach(|| synth::Workload::parse(source, seed)).map_err(errors::input_error)?,
        )
    } else {
        let format = parse_format(format)?;
        let options =
            LoadOptions { format, page_size, skip_bad, memory_limit_bytes, one_in: sample };
        let progress = progress::shared(progress);
        let trace =
            py.detach(|| load(Path::new(source), &options, &progress)).map_err(trace_error)?;
        WorkloadKind::Trace(trace)
    };
    let kind = Arc::new(kind);
    let workload = Workload { name: source.to_owned(), repeat, seed, page_size, kind };
    errors::warn_of(py, source, &workload.facts().warnings)?;
    Ok(workload)
}
