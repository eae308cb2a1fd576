//! What is played on a simulated drive: a trace file, a synthetic workload, or a request pattern.

use std::path::Path;

use ::registry::{Args, Info, Spec};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::Facts;
use traces::requests::{Folded, LoadOptions, LoadedRequests, Repeated, load};
use traces::synth;
use traces::synth::patterns::{Pattern, SECTOR_BYTES};
use units::{IoOp, IoRequest, RequestSource, SourceError};

use crate::errors;
use crate::progress::{self, Progress};
use crate::traces::{reading, trace_error};

/// Reads and writes by address, that can be played any number of times, on several drives and by
/// several threads at once.
#[pyclass(frozen, module = "flashwright._core")]
pub struct Requests {
    name: String,
    repeat: u32,
    fold: bool,
    kind: RequestsKind,
}

enum RequestsKind {
    Trace(Box<LoadedRequests>),
    Synthetic { workload: synth::Workload, page_bytes: u32 },
    Pattern(Pattern),
}

impl Requests {
    /// The requests from the first on, at addresses of a drive of `capacity_bytes`.
    pub fn source(&self, capacity_bytes: u64) -> PyResult<Box<dyn RequestSource>> {
        let once = match &self.kind {
            RequestsKind::Trace(trace) => {
                trace.source(capacity_bytes, self.fold).map_err(trace_error)?
            }
            RequestsKind::Pattern(pattern) => {
                pattern.source(capacity_bytes, SECTOR_BYTES).map_err(errors::input_error)?
            }
            RequestsKind::Synthetic { workload, page_bytes } => {
                let source: Box<dyn RequestSource> =
                    Box::new(synth::Requests::new(workload.synthetic(), *page_bytes));
                if !self.is_folded(capacity_bytes) {
                    source
                } else if self.fold {
                    Box::new(Folded::new(source, capacity_bytes))
                } else {
                    return Err(self.too_large(capacity_bytes, *page_bytes));
                }
            }
        };
        if self.repeat == 1 {
            return Ok(once);
        }
        let period_ns =
            Repeated::period_ns(self.duration().unwrap_or(0), once.requests().unwrap_or(0));
        Ok(Box::new(Repeated::new(once, self.repeat, period_ns)))
    }

    /// What is known of a trace; of what is made up nothing.
    fn facts(&self) -> Facts {
        if let RequestsKind::Trace(trace) = &self.kind {
            trace.facts.clone()
        } else {
            Facts::default()
        }
    }

    fn too_large(&self, capacity_bytes: u64, page_bytes: u32) -> PyErr {
        let (needed, most) =
            (self.footprint().unwrap_or(0), capacity_bytes / u64::from(page_bytes));
        errors::input_error(format!(
            "{}: its pages need {needed} bytes, and the drive has {capacity_bytes}; right would be \
             `pages` of at most {most}, a larger drive, or addresses folded onto this one",
            self.name
        ))
    }

    /// Bytes at the beginning of a drive that hold all addresses; all of them if that goes by the
    /// drive.
    pub fn touched_bytes(&self) -> u64 {
        let of_pattern = match &self.kind {
            RequestsKind::Pattern(pattern) => pattern.footprint_bytes(),
            RequestsKind::Trace(_) | RequestsKind::Synthetic { .. } => None,
        };
        self.footprint().or(of_pattern).unwrap_or(u64::MAX)
    }

    /// How people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a drive of `capacity_bytes` is too small, so that addresses are folded onto it.
    pub fn is_folded(&self, capacity_bytes: u64) -> bool {
        self.footprint().is_some_and(|footprint| footprint > capacity_bytes)
    }

    /// Whether each request has a time at which it is to be sent.
    pub fn is_timed(&self) -> bool {
        match &self.kind {
            RequestsKind::Trace(trace) => !trace.facts.timeless,
            RequestsKind::Synthetic { .. } => false,
            RequestsKind::Pattern(pattern) => pattern.has_times(),
        }
    }

    /// Requests of all passes; `None` if there is no end.
    pub fn count(&self) -> Option<u64> {
        let once = match &self.kind {
            RequestsKind::Trace(trace) => Some(trace.counts.requests()),
            RequestsKind::Synthetic { workload, .. } => Some(workload.operations()),
            RequestsKind::Pattern(pattern) => pattern.requests(),
        };
        Some(once?.saturating_mul(u64::from(self.repeat)))
    }

    /// Whether it is known how often each page is updated: of a pattern it is not.
    pub fn has_weights(&self) -> bool {
        !matches!(self.kind, RequestsKind::Pattern(_))
    }

    /// How often each page of a drive is written, in any unit; exact probabilities of a synthetic
    /// workload, counts of a trace.
    pub fn weights(&self, page_bytes: u32, logical_pages: u32) -> Result<Vec<f64>, SourceError> {
        let (page, pages) = (u64::from(page_bytes), u64::from(logical_pages));
        let mut weights = vec![0.0; logical_pages as usize];
        let mut add = |offset: u64, length: u32, weight: f64| {
            let last = (offset + u64::from(length) - 1) / page;
            (offset / page..=last).for_each(|number| weights[(number % pages) as usize] += weight);
        };
        if let RequestsKind::Synthetic { workload, page_bytes } = &self.kind {
            let shares = workload.page_weights().per_page;
            (0_u64..).zip(shares).for_each(|(number, share)| {
                add(number * u64::from(*page_bytes), *page_bytes, share);
            });
            return Ok(weights);
        }
        let mut source = self.source(page * pages).map_err(|error| error.to_string())?;
        let nothing = IoRequest {
            time_ns: 0,
            op: IoOp::Flush,
            offset: 0,
            length: 0,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let mut buffer = vec![nothing; 4096];
        loop {
            let count = source.fill(&mut buffer)?;
            if count == 0 {
                return Ok(weights);
            }
            buffer[..count]
                .iter()
                .filter(|request| request.op == IoOp::Write)
                .for_each(|request| add(request.offset, request.length, 1.0));
        }
    }

    fn footprint(&self) -> Option<u64> {
        match &self.kind {
            RequestsKind::Trace(trace) => Some(trace.footprint_bytes),
            RequestsKind::Synthetic { workload, page_bytes } => {
                Some(u64::from(workload.logical_pages()) * u64::from(*page_bytes))
            }
            RequestsKind::Pattern(_) => None,
        }
    }

    fn duration(&self) -> Option<u64> {
        match &self.kind {
            RequestsKind::Trace(trace) => (!trace.facts.timeless).then_some(trace.duration_ns),
            RequestsKind::Synthetic { .. } => None,
            RequestsKind::Pattern(pattern) => pattern.duration_ns(),
        }
    }
}

#[pymethods]
impl Requests {
    /// The source as it was asked for.
    #[getter(name)]
    fn py_name(&self) -> &str {
        &self.name
    }

    /// Requests of all passes; None if there is no end.
    #[getter]
    fn requests(&self) -> Option<u64> {
        self.count()
    }

    /// What one pass of a trace holds: requests by operation (read, write, trim, flush),
    /// read_bytes, written_bytes, left_out (trims of what is never read or written, and requests of
    /// no bytes). None for what is made up.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let RequestsKind::Trace(trace) = &self.kind else { return Ok(None) };
        let dict = PyDict::new(py);
        for op in IoOp::ALL {
            dict.set_item(op.name(), trace.counts.by_op[op as usize])?;
        }
        dict.set_item("read_bytes", trace.counts.read_bytes)?;
        dict.set_item("written_bytes", trace.counts.written_bytes)?;
        dict.set_item("left_out", trace.counts.left_out)?;
        Ok(Some(dict))
    }

    /// Bytes that a drive needs to hold all addresses; None for a pattern, which goes by the drive.
    #[getter]
    fn footprint_bytes(&self) -> Option<u64> {
        self.footprint()
    }

    /// Whether each request has a time at which it is to be sent, so that it can be played at an
    /// open pace.
    #[getter]
    fn has_times(&self) -> bool {
        self.is_timed()
    }

    /// Time of the last request of a pass, in nanoseconds after the first; None without times or
    /// end.
    #[getter]
    fn duration_ns(&self) -> Option<u64> {
        self.duration()
    }

    /// How many times it is played.
    #[getter]
    fn repeat(&self) -> u32 {
        self.repeat
    }

    /// Whether addresses may be folded onto a drive that is too small for them.
    #[getter]
    fn fold(&self) -> bool {
        self.fold
    }

    /// The trace format that was read; None for what is made up.
    #[getter]
    fn format(&self) -> Option<&'static str> {
        if let RequestsKind::Trace(trace) = &self.kind { Some(trace.format) } else { None }
    }

    /// What was found besides requests when the trace was read: skipped (malformed records),
    /// left_out (records by reason), lost_events, warnings (sentences).
    #[getter]
    fn reading<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reading(py, &self.facts())
    }

    /// What tells these requests from any others: the files' hashes, or the spec with all its
    /// parameters and the seed.
    #[getter]
    fn content_hash(&self) -> String {
        let spec = |kind: &str, info: &Info, args: &Args, seed: u64| {
            let args = args.iter().map(|(name, value)| format!("{name}={value}"));
            // What was hashed before there were handles keeps its hash.
            let args: Vec<String> = args.filter(|told| told != "handle=0").collect();
            format!("{kind}:{}?{} seed {seed}", info.name, args.join("&"))
        };
        match &self.kind {
            RequestsKind::Trace(trace) => {
                let files = trace
                    .sources
                    .iter()
                    .map(|file| format!("{}:{}", file.name, file.sha256))
                    .collect::<Vec<_>>()
                    .join(" ");
                match trace.part {
                    (0, u64::MAX) => files,
                    (start, u64::MAX) => format!("{files} from request {start}"),
                    (start, limit) => format!("{files} from request {start}, {limit} of them"),
                }
            }
            RequestsKind::Synthetic { workload, page_bytes } => {
                format!(
                    "{} pages of {page_bytes} bytes",
                    spec("synth", workload.info(), workload.args(), workload.seed())
                )
            }
            RequestsKind::Pattern(pattern) => {
                spec("io", pattern.info(), pattern.args(), pattern.seed())
            }
        }
    }
}

/// Reads a trace file, or makes the synthetic workload of `synth:name?key=value&...` or the request
/// pattern of `io:name(key=value,...)`.
///
/// Addresses of a trace are moved together, in extents of 1 MiB; with `fold` they may be larger
/// than the drive, which takes them modulo its capacity. Of a trace, `start` requests are passed
/// over and at most `limit` taken. `page_size` is that of a synthetic workload, in bytes; `seed` is
/// for what is made up. `repeat` plays all that many times over. A trace is kept in memory up to
/// `memory_limit_bytes`, 24 bytes a request, and read again for every run beyond. Progress counts
/// bytes of the trace. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    source, format=None, skip_bad=0, seed=1, page_size=4096, repeat=1, fold=false, start=0,
    limit=None, memory_limit_bytes=4 << 30, progress=None
))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn load_requests(
    py: Python<'_>,
    source: &str,
    format: Option<&str>,
    skip_bad: u64,
    seed: u64,
    page_size: u32,
    repeat: u32,
    fold: bool,
    start: u64,
    limit: Option<u64>,
    memory_limit_bytes: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Requests> {
    if repeat == 0 || page_size == 0 {
        let key = if repeat == 0 { "repeat" } else { "page_size" };
        return Err(errors::input_error(format!("{key} is 0: it must be at least 1")));
    }
    let kind = if source.starts_with("synth:") {
        let workload =
            py.detach(|| synth::Workload::parse(source, seed)).map_err(errors::input_error)?;
        RequestsKind::Synthetic { workload, page_bytes: page_size }
    } else if source.starts_with("io:") {
        RequestsKind::Pattern(Pattern::parse(source, seed).map_err(errors::input_error)?)
    } else {
        let format = format.map(Spec::parse).transpose().map_err(errors::input_error)?;
        let options = LoadOptions {
            format,
            skip_bad,
            memory_limit_bytes,
            start,
            limit: limit.unwrap_or(u64::MAX),
        };
        let progress = progress::shared(progress);
        RequestsKind::Trace(Box::new(
            py.detach(|| load(Path::new(source), &options, &progress)).map_err(trace_error)?,
        ))
    };
    let requests = Requests { name: source.to_owned(), repeat, fold, kind };
    if repeat > 1 && requests.count().is_none() {
        return Err(errors::input_error(format!(
            "{source} has no end, so that it cannot be repeated; give `requests`, or no repeat"
        )));
    }
    errors::warn_of(py, source, &requests.facts().warnings)?;
    Ok(requests)
}

/// Adds the class and its function to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Requests>()?;
    module.add_function(wrap_pyfunction!(load_requests, module)?)
}
