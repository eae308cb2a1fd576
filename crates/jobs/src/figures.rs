//! Figures that several jobs have.

use std::collections::BTreeMap;

use block::{CopyWork, DeviceInfo, FlashWork};
use schemars::JsonSchema;
use serde::Serialize;

/// Name, kind and limits of a device, as it reports them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its model.
    pub model: String,
    /// `simulated`, `block_device`, `file` or `memory`.
    pub kind: String,
    /// Bytes that can be addressed.
    pub capacity_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Most requests outstanding at once.
    pub queue_depth: u32,
}

impl From<&DeviceInfo> for About {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            name: info.name.clone(),
            model: info.model.clone(),
            kind: info.kind.name().to_owned(),
            capacity_bytes: info.limits.capacity_bytes,
            sector_bytes: info.limits.sector_bytes,
            queue_depth: info.queue_depth,
        }
    }
}

/// Operations of flash.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Flash {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages read.
    pub page_reads: u64,
    /// Pages programmed.
    pub page_programs: u64,
    /// Erase blocks erased.
    pub erases: u64,
}

impl From<FlashWork> for Flash {
    fn from(work: FlashWork) -> Self {
        Self {
            page_bytes: work.page_bytes.into(),
            page_reads: work.page_reads,
            page_programs: work.page_programs,
            erases: work.erases,
        }
    }
}

/// The counters of a layer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LayerCounters {
    /// The layer.
    pub layer: String,
    /// Its counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// Statistics of page copies.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Replication {
    /// Counters by name.
    pub counts: BTreeMap<String, u64>,
    /// Sizes of tables and of the space for copies.
    pub sizes: BTreeMap<String, u64>,
    /// Shares of reads of one, two and more I/Os.
    pub reads_by_ios: [Option<f64>; 3],
    /// Shares of writes of one, two and more I/Os.
    pub writes_by_ios: [Option<f64>; 3],
    /// Pages of copies for each page that the host wrote.
    pub extra_writes: Option<f64>,
    /// Share of the copies that came of writes.
    pub extra_writes_by_writes: Option<f64>,
    /// Expected number of copies, from the probability that each page is blocked.
    pub predicted_copies: f64,
    /// Number of pages stored in 2, 3, ... places at the end.
    pub groups_by_size: Vec<u64>,
    /// Share of the time in which a die worked on copies while a request waited for it, by die.
    pub interference: Vec<f64>,
}

/// Gives counts by their names.
pub(crate) fn named<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Gives the statistics of page copies over a stretch of time.
pub(crate) fn replication(copies: &CopyWork, elapsed_ns: u64) -> Replication {
    let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    let by_ios = |kind: &str| {
        let counts = ["one", "two", "more"].map(|ios| copies.count(&format!("{kind}_of_{ios}")));
        counts.map(|count| share(count, counts.iter().sum()))
    };
    let of_writes = copies.count("copies_of_writes");
    let of_all = of_writes + copies.count("copies_of_reads");
    let of_time = |&time: &u64| if elapsed_ns == 0 { 0.0 } else { time as f64 / elapsed_ns as f64 };
    Replication {
        counts: named(copies.counts.iter().copied()),
        sizes: named(copies.sizes.iter().copied()),
        reads_by_ios: by_ios("reads"),
        writes_by_ios: by_ios("writes"),
        extra_writes: share(copies.count("replica_page_writes"), copies.count("host_page_writes")),
        extra_writes_by_writes: share(of_writes, of_all),
        predicted_copies: copies.predicted,
        groups_by_size: copies.groups_by_size.clone(),
        interference: copies.interference.iter().map(of_time).collect(),
    }
}
