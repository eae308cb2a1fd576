//! `fleet_merge`: what the volumes of a fleet do together.

use std::path::{Path, PathBuf};

use garde::Validate;
use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::TraceError;
use traces::fleet::study::{Sketches, VolumeFigures};
use units::Progress;

use super::sketches::{Row, read};
use super::{SHARES, Spread, failed};
use crate::JobError;
use crate::job::{Found, Job};

/// Merges the tables `sketches` of `volume_study`, of any number of volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FleetMerge {
    /// Parquet files of the tables, of one row or of many.
    #[schemars(extend("argument" = true, "metavar" = "FILE"))]
    pub sketches: Vec<String>,
}

/// What the volumes of a fleet do together.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FleetMerged {
    /// Different volumes.
    pub volumes: u64,
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
    /// Pages read; one that is read twice counts twice.
    pub page_reads: u64,
    /// Pages written; one that is written twice counts twice.
    pub page_writes: u64,
    /// Different pages written, by the merged sketch: its standard error is 0.6 %.
    pub written_pages: u64,
    /// Different pages read, by the merged sketch: its standard error is 0.6 %.
    pub read_pages: u64,
    /// Different pages written, counted; none if a volume has an estimate, or comes twice.
    pub counted_written_pages: Option<u64>,
    /// Different pages read, counted; none if a volume has an estimate, or comes twice.
    pub counted_read_pages: Option<u64>,
    /// Of the volume that was sampled most, one page in so many was followed; 1 for all.
    pub most_one_in: u64,
    /// Shares of all values at which quantiles are told.
    pub shares: Vec<f64>,
    /// Bytes of reads and writes.
    pub sizes: Spread,
    /// Bytes of reads.
    pub read_sizes: Spread,
    /// Bytes of writes.
    pub write_sizes: Spread,
    /// Nanoseconds from a request to the next one of its volume.
    pub gaps: Spread,
    /// Nanoseconds from a write of a page to the next write of it, once for each page.
    pub lifetimes: Spread,
    /// Page writes of a volume from a write of a page to the next write of it, once for each page.
    pub rewrite_distances: Spread,
}

/// What was merged so far.
struct Merging {
    page_bytes: u64,
    /// Sums of the volumes' figures; of `one_in` the largest.
    all: VolumeFigures,
    sketches: Sketches,
    volumes: FxHashSet<u32>,
    /// Pages written and read, if all were counted.
    counted: Option<[u64; 2]>,
}

impl Job for FleetMerge {
    type Outcome = FleetMerged;

    fn run(&self, progress: &Progress) -> Result<Found<FleetMerged>, JobError> {
        if self.sketches.is_empty() {
            return Err(JobError::at("sketches", "there is none; right would be one at least"));
        }
        progress.set_total(self.sketches.len() as u64);
        let mut merging = Merging {
            page_bytes: 0,
            all: VolumeFigures::default(),
            sketches: Sketches::new(true),
            volumes: FxHashSet::default(),
            counted: Some([0; 2]),
        };
        for path in self.sketches.iter().map(PathBuf::from) {
            let rows = read(&path, |number, row| {
                progress.advance(0)?;
                merging.add(&path, number, &row)
            });
            rows.map_err(failed("sketches"))?;
            progress.advance(1)?;
        }
        Ok(Found { outcome: merging.finish(), tables: Vec::new(), texts: Vec::new() })
    }
}

impl Merging {
    fn add(&mut self, path: &Path, number: u64, row: &Row) -> Result<(), TraceError> {
        if self.page_bytes != row.page_bytes && !self.volumes.is_empty() {
            let (page_bytes, before) = (row.page_bytes, self.page_bytes);
            return Err(TraceError::Unusable {
                path: path.to_owned(),
                reason: format!("row {number} is of pages of {page_bytes} bytes, not of {before}"),
                right: "sketches of pages of one size",
            });
        }
        self.page_bytes = row.page_bytes;
        let (all, its) = (&mut self.all, &row.figures);
        for op in 0..its.requests.len() {
            all.requests[op] += its.requests[op];
            all.bytes[op] += its.bytes[op];
        }
        all.page_reads += its.page_reads;
        all.page_writes += its.page_writes;
        all.one_in = all.one_in.max(its.one_in);
        let is_new = self.volumes.insert(its.volume);
        self.counted = self
            .counted
            .filter(|_| is_new && its.is_counted)
            .map(|[written, read]| [written + its.written_pages, read + its.read_pages]);
        self.sketches.merge(&row.sketches);
        Ok(())
    }

    fn finish(self) -> FleetMerged {
        let (all, sketches) = (&self.all, &self.sketches);
        let [reads, writes, trims, flushes] = all.requests;
        let [read_bytes, written_bytes, trimmed_bytes, _] = all.bytes;
        FleetMerged {
            volumes: self.volumes.len() as u64,
            page_size: self.page_bytes,
            reads,
            writes,
            trims,
            flushes,
            read_bytes,
            written_bytes,
            trimmed_bytes,
            page_reads: all.page_reads,
            page_writes: all.page_writes,
            written_pages: sketches.written.estimate(),
            read_pages: sketches.read.estimate(),
            counted_written_pages: self.counted.map(|[written, _]| written),
            counted_read_pages: self.counted.map(|[_, read]| read),
            most_one_in: all.one_in,
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
