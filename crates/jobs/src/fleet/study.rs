//! `volume_study`: what one volume of a store does.

use std::path::Path;

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::fleet::study::{Sketches, StudyOptions, VolumeFigures, study};
use units::Progress;

use super::sketches::{Row, table};
use super::{SHARES, Spread, failed};
use crate::JobError;
use crate::job::{Found, Job};
use crate::values::{Count, Size};

/// Least bytes of a page: those of a sector.
const LEAST_PAGE_BYTES: u64 = 512;

/// Studies one volume of a store of `trace_split`: its requests, pages, and how long what it writes
/// lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct VolumeStudy {
    /// The folder of the volume: `STORE/volume=7`.
    #[schemars(extend("argument" = true, "metavar" = "DIR"))]
    pub volume: String,
    /// Bytes of a page.
    #[schemars(extend("group" = "Pages", "metavar" = "BYTES"))]
    pub page_size: Size,
    /// Bytes for the last write of each page; of more pages, half are followed, a quarter, and so
    /// on.
    #[schemars(extend("group" = "Pages", "metavar" = "BYTES"))]
    pub memory: Size,
    /// Follow one page in N from the start.
    #[schemars(extend("group" = "Pages", "metavar" = "N"))]
    pub sample: Count,
    /// Keep all values beside the sketches, and tell exact quantiles.
    #[schemars(extend("group" = "Values"))]
    pub exact: bool,
}

impl Default for VolumeStudy {
    fn default() -> Self {
        Self {
            volume: String::new(),
            page_size: Size(4096),
            memory: Size(512 << 20),
            sample: Count(1),
            exact: false,
        }
    }
}

/// What a volume does.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VolumeStudied {
    /// Its number.
    pub volume: u32,
    /// Bytes of a page.
    pub page_size: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes trimmed.
    pub trimmed_bytes: u64,
    /// Time of its first request, in nanoseconds since the first one of the trace.
    pub first_ns: u64,
    /// Time of its latest request.
    pub last_ns: u64,
    /// Requests whose time lies before that of the one before.
    pub reversals: u64,
    /// Pages read; one that is read twice counts twice.
    pub page_reads: u64,
    /// Pages written; one that is written twice counts twice.
    pub page_writes: u64,
    /// Different pages written.
    pub written_pages: u64,
    /// Different pages read.
    pub read_pages: u64,
    /// Different pages read or written.
    pub touched_pages: u64,
    /// True if different pages were counted; else they are estimates, with a standard error of
    /// 0.5 %.
    pub is_counted: bool,
    /// Lifetimes and distances are those of one page in so many, 1 for all.
    pub one_in: u64,
    /// Shares of all values at which quantiles are told.
    pub shares: Vec<f64>,
    /// Bytes of reads and writes.
    pub sizes: Spread,
    /// Bytes of reads.
    pub read_sizes: Spread,
    /// Bytes of writes.
    pub write_sizes: Spread,
    /// Nanoseconds from a request to the next one.
    pub gaps: Spread,
    /// Nanoseconds from a write of a page to the next write of it, once for each page.
    pub lifetimes: Spread,
    /// Page writes of the volume from a write of a page to the next write of it, once for each
    /// page.
    pub rewrite_distances: Spread,
}

impl Job for VolumeStudy {
    type Outcome = VolumeStudied;

    fn run(&self, progress: &Progress) -> Result<Found<VolumeStudied>, JobError> {
        if self.page_size.0 < LEAST_PAGE_BYTES {
            let said = format!("it is {}; right would be 512 or more", self.page_size.0);
            return Err(JobError::at("page_size", said));
        }
        if !(1..=1 << 32).contains(&self.sample.0) {
            return Err(JobError::at("sample", "right would be 1 or more, up to 2^32"));
        }
        let options = StudyOptions {
            page_bytes: self.page_size.0,
            memory_bytes: self.memory.0,
            is_exact: self.exact,
            one_in: self.sample.0,
        };
        let (figures, sketches) =
            study(Path::new(&self.volume), &options, progress).map_err(failed("volume"))?;
        let outcome = VolumeStudied::of(self.page_size.0, &figures, &sketches);
        let row = Row { page_bytes: self.page_size.0, figures, sketches };
        Ok(Found { outcome, tables: vec![("sketches", table(row)?)], texts: Vec::new() })
    }
}

impl VolumeStudied {
    fn of(page_size: u64, figures: &VolumeFigures, sketches: &Sketches) -> Self {
        let [reads, writes, trims, flushes] = figures.requests;
        let [read_bytes, written_bytes, trimmed_bytes, _] = figures.bytes;
        Self {
            volume: figures.volume,
            page_size,
            reads,
            writes,
            trims,
            flushes,
            read_bytes,
            written_bytes,
            trimmed_bytes,
            first_ns: figures.first_ns,
            last_ns: figures.last_ns,
            reversals: figures.reversals,
            page_reads: figures.page_reads,
            page_writes: figures.page_writes,
            written_pages: figures.written_pages,
            read_pages: figures.read_pages,
            touched_pages: figures.touched_pages,
            is_counted: figures.is_counted,
            one_in: figures.one_in,
            shares: SHARES.to_vec(),
            sizes: Spread::of_both(&sketches.read_sizes, &sketches.write_sizes),
            read_sizes: Spread::of(&sketches.read_sizes),
            write_sizes: Spread::of(&sketches.write_sizes),
            gaps: Spread::of(&sketches.gaps),
            lifetimes: Spread::of(&sketches.lifetimes),
            rewrite_distances: Spread::of(&sketches.distances),
        }
    }
}
