//! `fleet_synth`: a trace of many volumes that is made up.

use std::path::PathBuf;

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::fleet::{FleetOptions, write_fleet};
use units::Progress;

use super::failed;
use crate::JobError;
use crate::job::{Found, Job};
use crate::values::{Count, Size};

/// Slices of ten minutes in a day.
const SLICES: u64 = 144;
/// Most days: times stay below 2^64 ns.
const MOST_DAYS: u64 = 36_500;

/// Writes a synthetic trace of many volumes in Alibaba's format: volumes of very different rate,
/// share of writes, footprint, pattern and time of day. Equal settings give equal files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FleetSynth {
    /// The trace, compressed as its ending says: `fleet.csv.zst`, `fleet.csv.gz`, `fleet.csv`.
    #[schemars(extend("argument" = true, "metavar" = "FILE", "writes" = "file"))]
    pub out: String,
    /// Files that follow each other in time: `fleet-000.csv.zst` and on.
    #[schemars(extend("group" = "Files", "metavar" = "N"))]
    pub files: Count,
    /// Volumes.
    #[schemars(extend("group" = "Fleet", "metavar" = "N"))]
    pub volumes: Count,
    /// Requests of all volumes.
    #[schemars(extend("group" = "Fleet", "metavar" = "N"))]
    pub requests: Count,
    /// Days that they last.
    #[schemars(extend("group" = "Fleet", "metavar" = "N"))]
    pub days: Count,
    /// Exponent of Zipf's law over the rates of volumes; 0 for all alike.
    #[schemars(extend("group" = "Fleet", "metavar" = "S"))]
    #[garde(range(min = 0.0, max = 8.0))]
    pub skew: f64,
    /// Bytes of the largest footprint; others are down to a thousandth of it.
    #[schemars(extend("group" = "Fleet", "metavar" = "BYTES"))]
    pub largest: Size,
    /// What everything is drawn from.
    #[schemars(extend("group" = "Fleet", "metavar" = "N"))]
    pub seed: u64,
}

impl Default for FleetSynth {
    fn default() -> Self {
        Self {
            out: String::new(),
            files: Count(1),
            volumes: Count(2000),
            requests: Count(10_000_000),
            days: Count(7),
            skew: 1.0,
            largest: Size(16 << 30),
            seed: 1,
        }
    }
}

/// A synthetic trace of many volumes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SyntheticFleet {
    /// Its files, in the order of their times.
    pub files: Vec<String>,
    /// Volumes that have requests.
    pub volumes: u32,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Job for FleetSynth {
    type Outcome = SyntheticFleet;

    fn run(&self, progress: &Progress) -> Result<Found<SyntheticFleet>, JobError> {
        let within = |at: &str, count: Count, most: u64| {
            let fits = (1..=most).contains(&count.0);
            let said = || format!("it is {}; right would be 1 to {most}", count.0);
            if fits { Ok(count.0) } else { Err(JobError::at(at, said())) }
        };
        if self.out.is_empty() || self.out == "-" {
            return Err(JobError::at("out", "right would be the name of a file"));
        }
        let options = FleetOptions {
            out: PathBuf::from(&self.out),
            files: within("files", self.files, 1000)? as u32,
            volumes: within("volumes", self.volumes, 1 << 24)? as u32,
            requests: within("requests", self.requests, 1 << 50)?,
            slices: within("days", self.days, MOST_DAYS)? * SLICES,
            seed: self.seed,
            skew: self.skew,
            largest_bytes: self.largest.0,
        };
        let done = write_fleet(&options, progress).map_err(failed("out"))?;
        let [reads, writes] = done.requests;
        let [read_bytes, written_bytes] = done.bytes;
        let files = done.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let volumes = done.volumes;
        let outcome = SyntheticFleet { files, volumes, reads, writes, read_bytes, written_bytes };
        Ok(Found { outcome, tables: Vec::new(), texts: Vec::new() })
    }
}
