//! `trace_split`: a trace of many volumes as a store, by volume and time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use garde::Validate;
use registry::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::OpenOptions;
use traces::fleet::{SplitOptions, VolumeTotals, split};
use units::{IoOp, Progress};

use super::failed;
use crate::JobError;
use crate::job::{Found, Job};
use crate::tables::{self, column};
use crate::values::{Count, Seconds, Size};

const MOST_THREADS: u64 = 64;

/// Splits a trace of many volumes by volume and time into a folder of Parquet files, in one pass.
/// After a stop it goes on where it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TraceSplit {
    /// Files of the trace, in the order of their times.
    #[schemars(extend("argument" = true, "metavar" = "TRACE"))]
    pub sources: Vec<String>,
    /// Folder of the store: a new one, or one that was begun with the same files and options.
    #[schemars(extend("group" = "Store", "metavar" = "DIR", "writes" = "folder"))]
    pub out: String,
    /// Length of a window of time: the parts of a volume that lie in one are in one folder.
    #[schemars(extend("group" = "Store", "metavar" = "S"))]
    pub window: Seconds,
    /// Format of the trace, if its content does not say it.
    #[schemars(extend("group" = "Source", "metavar" = "FORMAT"))]
    pub format: Option<String>,
    /// Malformed lines of each file that are left out and counted.
    #[schemars(extend("group" = "Source", "metavar" = "N"))]
    pub skip_bad: Count,
    /// Take the streams of any format as volumes, also where it does not say that they are.
    #[schemars(extend("group" = "Source"))]
    pub by_stream: bool,
    /// Bytes of requests that are held: the more, the fewer and larger the files.
    #[schemars(extend("group" = "Running", "metavar" = "BYTES"))]
    pub memory: Size,
    /// Requests after which all that is held is written and noted: what a stop loses at most.
    #[schemars(extend("group" = "Running", "metavar" = "N"))]
    pub checkpoint: Count,
    /// Cores to use. The store is the same.
    #[schemars(extend("group" = "Running", "metavar" = "N"))]
    pub threads: Count,
}

impl Default for TraceSplit {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            out: String::new(),
            window: Seconds(86_400.0),
            format: None,
            skip_bad: Count(0),
            by_stream: false,
            memory: Size(1 << 30),
            checkpoint: Count(128 << 20),
            threads: Count(2),
        }
    }
}

/// A store of a trace of many volumes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TraceStore {
    /// Its folder.
    pub store: String,
    /// Format of the trace; none if it has no requests.
    pub format: Option<String>,
    /// Volumes.
    pub volumes: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes trimmed.
    pub trimmed_bytes: u64,
    /// Time from the first request to the latest, in seconds.
    pub traced_seconds: f64,
    /// Time of the first request on the trace's own clock, in nanoseconds.
    pub start_ns: Option<u64>,
    /// Files of the store.
    pub parts: u64,
    /// Requests that were in the store before: of a split that was stopped.
    pub resumed_requests: u64,
    /// Malformed records that were left out.
    pub skipped: u64,
    /// Requests whose time lay before that of the first request: their time is 0.
    pub clamped_times: u64,
    /// Records that were left out or taken for something else, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// What to heed before its figures are believed.
    pub warnings: Vec<String>,
}

impl Job for TraceSplit {
    type Outcome = TraceStore;

    fn run(&self, progress: &Progress) -> Result<Found<TraceStore>, JobError> {
        let options = self.options()?;
        let done = split(&options, progress).map_err(failed("sources"))?;
        let sum = |of: fn(&VolumeTotals) -> u64| done.volumes.iter().map(of).sum();
        let last_ns = done.volumes.iter().map(|volume| volume.last_ns).max().unwrap_or(0);
        let outcome = TraceStore {
            store: self.out.clone(),
            format: done.format.clone(),
            volumes: done.volumes.len() as u64,
            requests: sum(|volume| volume.requests.iter().sum()),
            read_bytes: sum(|volume| volume.bytes[IoOp::Read as usize]),
            written_bytes: sum(|volume| volume.bytes[IoOp::Write as usize]),
            trimmed_bytes: sum(|volume| volume.bytes[IoOp::Trim as usize]),
            traced_seconds: last_ns as f64 / 1e9,
            start_ns: done.start_ns,
            parts: done.parts,
            resumed_requests: done.resumed,
            skipped: done.told.skipped,
            clamped_times: done.told.clamped_times,
            left_out: done.told.left_out.clone(),
            warnings: done.told.warnings.clone(),
        };
        let tables = vec![("volumes", table(&done.volumes)?)];
        Ok(Found { outcome, tables, texts: Vec::new() })
    }
}

impl TraceSplit {
    fn options(&self) -> Result<SplitOptions, JobError> {
        if self.sources.is_empty() {
            return Err(JobError::at("sources", "there is none; right would be one file at least"));
        }
        if self.out.is_empty() {
            return Err(JobError::at("out", "right would be the folder of the store"));
        }
        if !(1..=MOST_THREADS).contains(&self.threads.0) {
            return Err(JobError::at("threads", "right would be 1 to 64"));
        }
        let window_ns = self.window.0 * 1e9;
        if !(1.0..1e18).contains(&window_ns) {
            return Err(JobError::at("window", "right would be from 1 ns to 30 years"));
        }
        let format = self.format.as_deref().map(Spec::parse).transpose();
        let format = format.map_err(|error| JobError::at("format", error))?;
        Ok(SplitOptions {
            inputs: self.sources.iter().map(PathBuf::from).collect(),
            store: PathBuf::from(&self.out),
            open: OpenOptions { format, skip_bad: self.skip_bad.0 },
            by_stream: self.by_stream,
            window_ns: window_ns as u64,
            memory_bytes: self.memory.0,
            checkpoint_requests: self.checkpoint.0,
            threads: self.threads.0,
        })
    }
}

/// A row a volume.
fn table(volumes: &[VolumeTotals]) -> Result<RecordBatch, JobError> {
    let of = |name, get: fn(&VolumeTotals) -> u64| column(name, volumes.iter().map(get));
    let columns = [
        column("volume", volumes.iter().map(|one| one.volume)),
        of("requests", |one| one.requests.iter().sum()),
        of("reads", |one| one.requests[IoOp::Read as usize]),
        of("writes", |one| one.requests[IoOp::Write as usize]),
        of("read_bytes", |one| one.bytes[IoOp::Read as usize]),
        of("written_bytes", |one| one.bytes[IoOp::Write as usize]),
        of("trimmed_bytes", |one| one.bytes[IoOp::Trim as usize]),
        of("first_ns", |one| one.first_ns),
        of("last_ns", |one| one.last_ns),
        of("end_bytes", |one| one.end_bytes),
        of("parts", |one| one.parts),
    ];
    tables::table(columns)
}
