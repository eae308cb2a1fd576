//! Outcome of `play`: each figure is declared here, and nowhere else.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use player::FlowFigures;
use schemars::JsonSchema;
use serde::Serialize;
use ssd::drive::measure::{DelaySummary, LEAST_FOR_P9999, LatencySummary};

use crate::figures::{About, Flash, LayerCounters, Replication};

/// Outcome of a play: a run for each device, under each stack, at each pace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Played {
    /// Identity of the source: hashes of its files, or its parameters and seed.
    pub content_hash: String,
    /// Results of each device, under each stack, at each pace.
    pub runs: Vec<Run>,
}

/// Results of one device, under one stack, at one pace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Run {
    /// Short name of the device, unlike that of any other.
    pub device: String,
    /// Layers above the device; none if it was played directly.
    pub stack: Option<String>,
    /// Pace at which requests were sent.
    pub pace: String,
    /// Name, kind and limits of the device, as it reports them.
    pub about: About,
    /// Requests measured.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// Measured time, on the clock of the device.
    pub seconds: f64,
    /// Time of a request from sending to completion, by operation and over all.
    pub latency_ns: BTreeMap<String, Latency>,
    /// Results of each flow, that of the source first.
    pub flows: Vec<FlowRun>,
    /// Reason for an end before that of the source: `stopped`, `failed`, `worn_out`.
    pub ended: Option<String>,
    /// Error that ended the run, or the part that wore out.
    pub error: Option<String>,
    /// Figures from inside a simulated drive, if one was played directly.
    pub simulated: Option<Simulated>,
    /// Requests on their way to the device: lateness, changes, failures; none of a simulated drive
    /// that was played directly.
    pub sent: Option<SentRequests>,
    /// Work of layers, and of the device below them.
    pub layers: Option<Layered>,
}

/// Distribution of times, in nanoseconds. Percentiles are upper ends of classes, at most 0.1 % too
/// large; mean and maximum of latencies are exact.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile; none of too few requests.
    pub p9999: Option<u64>,
    /// The longest.
    pub max: u64,
}

impl From<LatencySummary> for Latency {
    fn from(found: LatencySummary) -> Self {
        let LatencySummary { count, mean, p50, p99, p999, p9999, max } = found;
        Self { count, mean, p50, p99, p999, p9999, max }
    }
}

impl Latency {
    /// Summarizes a histogram; none without requests.
    pub(super) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let quantile = |share| histogram.value_at_quantile(share);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean: histogram.mean(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: (histogram.len() >= LEAST_FOR_P9999).then(|| quantile(0.9999)),
            max: histogram.max(),
        })
    }
}

/// Delays of requests by one cause. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Delayed {
    /// Requests that were delayed by it.
    pub delayed: u64,
    /// The same as a share of all.
    pub share_of_requests: f64,
    /// Share of the sum of all latencies; over all causes these add up to 1.
    pub share_of_latency: f64,
    /// Mean over all requests.
    pub mean: f64,
    /// Median over the delayed requests.
    pub p50: u64,
    /// 99th percentile over the delayed requests.
    pub p99: u64,
    /// 99.9th percentile over the delayed requests.
    pub p999: u64,
    /// 99.99th percentile over the delayed requests; none of too few.
    pub p9999: Option<u64>,
    /// The longest.
    pub max: u64,
}

impl From<DelaySummary> for Delayed {
    fn from(found: DelaySummary) -> Self {
        let DelaySummary {
            delayed,
            share_of_requests,
            share_of_latency,
            mean,
            p50,
            p99,
            p999,
            p9999,
            max,
        } = found;
        Self { delayed, share_of_requests, share_of_latency, mean, p50, p99, p999, p9999, max }
    }
}

/// Results of a flow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FlowRun {
    /// Its source.
    pub source: String,
    /// Its priority.
    pub priority: u8,
    /// Placement handle of its writes, if it has one of its own.
    pub handle: Option<u8>,
    /// First byte of its addresses.
    pub offset: u64,
    /// True if addresses were folded onto the device.
    pub folded: bool,
    /// Requests measured.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time from the start to the completion of its last request.
    pub seconds: f64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// Mean time of a request.
    pub mean_latency_ns: f64,
    /// Latencies by operation and over all, where several flows are played on a simulated drive.
    pub latency_ns: Option<BTreeMap<String, Latency>>,
}

/// Description of a flow beside its results.
#[derive(Clone, Debug)]
pub(super) struct FlowOf {
    pub source: String,
    pub priority: u8,
    pub handle: Option<u8>,
    pub offset: u64,
    pub folded: bool,
}

impl FlowRun {
    /// Gives the results of a flow, whose times are in ticks of 1 / `ticks` s.
    pub(super) fn of(about: &FlowOf, found: &FlowFigures, ticks: u64) -> Self {
        Self {
            source: about.source.clone(),
            priority: about.priority,
            handle: about.handle,
            offset: about.offset,
            folded: about.folded,
            requests: found.requests,
            read_bytes: found.read_bytes,
            written_bytes: found.written_bytes,
            seconds: found.elapsed as f64 / ticks as f64,
            iops: found.iops(ticks),
            bytes_per_second: found.bytes_per_second(ticks),
            mean_latency_ns: found.mean_latency() * 1e9 / ticks as f64,
            latency_ns: None,
        }
    }
}

/// Figures from inside a simulated drive.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Simulated {
    /// Pages programmed for each page that the host wrote.
    pub write_amplification: f64,
    /// Delays of requests: by operation, then by cause.
    pub delays: BTreeMap<String, BTreeMap<String, Delayed>>,
    /// Shares of the dies' time, by cause.
    pub die_share: BTreeMap<String, f64>,
    /// Share of the time that channels were busy.
    pub channel_share: f64,
    /// Counters of the flash translation layer and the drive.
    pub counters: BTreeMap<String, u64>,
    /// Operations of the flash: by operation, then by cause.
    pub flash_operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counters of the zones, if it has some.
    pub zones: Option<BTreeMap<String, u64>>,
    /// Statistics of placement handles, if it has some.
    pub fdp: Option<Fdp>,
    /// Statistics of page copies, if it makes some.
    pub replication: Option<Replication>,
    /// Mean erases of an erase block at the end.
    pub erases_mean: f64,
    /// Standard deviation of the erases of an erase block.
    pub erases_stddev: f64,
    /// Fewest erases of an erase block.
    pub erases_min: u32,
    /// Most erases of an erase block.
    pub erases_max: u32,
    /// The log of the endurance group.
    pub endurance_group: EnduranceGroup,
    /// Energy that was used, if the profile gives energies.
    pub energy: Option<Energy>,
    /// Streams of the placement policy that there was no room for.
    pub streams_left_out: u64,
    /// Bytes of the tables of the flash translation layer for each physical page.
    pub table_bytes_per_page: f64,
    /// Hash over all flash operations with their times.
    pub event_hash: String,
    /// Time of this machine before the first request.
    pub prepare_seconds: f64,
    /// Time of this machine for the run.
    pub wall_seconds: f64,
}

/// The log of the endurance group at the end.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EnduranceGroup {
    /// Mean erases of an erase block, in percent of those that it stands; none if the profile does
    /// not give them.
    pub percentage_used: Option<f64>,
    /// Spare erase blocks that are still good, in percent of those of the new drive.
    pub available_spare_percent: f64,
    /// Bytes read by the host.
    pub data_read_bytes: u64,
    /// Bytes written by the host.
    pub data_written_bytes: u64,
    /// Bytes programmed, for whatever cause.
    pub media_written_bytes: u64,
}

/// Energy, in joules.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Energy {
    /// Page reads.
    pub read: f64,
    /// Page programs.
    pub program: f64,
    /// Erases.
    pub erase: f64,
    /// Bytes on the channels.
    pub transfer: f64,
    /// Everything else, over the whole time.
    pub idle: f64,
    /// The sum.
    pub total: f64,
    /// Mean power, in watts.
    pub mean_watts: f64,
}

/// Statistics of placement handles, as NVMe FDP has them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Fdp {
    /// Bytes of the host's writes.
    pub host_bytes_with_metadata_written: u64,
    /// Bytes of user data programmed.
    pub media_bytes_with_metadata_written: u64,
    /// Bytes erased.
    pub media_bytes_erased: u64,
    /// Bytes of a reclaim unit.
    pub reclaim_unit_bytes: u64,
    /// Events by name.
    pub events: BTreeMap<String, u64>,
    /// By handle.
    pub handles: Vec<Handle>,
    /// Statistics of relocated data, where it has handles of its own.
    pub relocated: Option<Handle>,
}

/// Statistics of one placement handle.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Handle {
    /// Pages that the host wrote.
    pub host_page_writes: u64,
    /// Its pages that were relocated.
    pub relocated_pages: u64,
    /// Reclaim units that it has.
    pub reclaim_units: u64,
    /// Valid pages in these reclaim units.
    pub valid_pages: u64,
    /// Free pages in its open reclaim unit.
    pub available_pages: u64,
}

/// Requests on their way to a device: lateness, changes, failures.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SentRequests {
    /// Requests sent.
    pub sent: u64,
    /// Time of a request from when it was due to completion, by operation, at a pace with times.
    pub response_ns: Option<BTreeMap<String, Latency>>,
    /// Lateness of requests when they were sent, at a pace with times.
    pub lateness_ns: Option<Latency>,
    /// Part of the lateness in which the device took no more requests, at an open pace.
    pub held_ns: Option<Latency>,
    /// Most requests outstanding at once.
    pub most_outstanding: u32,
    /// Number of times that the next request was not read from the trace in time.
    pub starved: u64,
    /// Time that was spent waiting for such requests.
    pub starved_seconds: f64,
    /// Requests that were changed so that the device takes them, by the change.
    pub fitted: BTreeMap<String, u64>,
    /// Requests that failed.
    pub failures: Vec<Failed>,
}

/// Requests that failed in the same way.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Failed {
    /// Their operation.
    pub op: String,
    /// Reason of the failure.
    pub reason: String,
    /// Number of requests.
    pub requests: u64,
    /// Message of the first of them.
    pub first: String,
}

/// Work of layers, and of the device below them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Layered {
    /// Bytes that the layers offer.
    pub capacity_bytes: u64,
    /// Requests that the device below was sent, by operation.
    pub below: BTreeMap<String, Below>,
    /// Time in which the device had reads outstanding; reads that overlap count once.
    pub busy_reads_ns: u64,
    /// Time in which the device had other requests outstanding.
    pub busy_changes_ns: u64,
    /// Operations of its flash; none if they are not known.
    pub flash: Option<Flash>,
    /// Processor time of this machine in the layers.
    pub computing_seconds: f64,
    /// Time after the last request until all was written back.
    pub drain_seconds: f64,
    /// The counters of each layer, from the top down.
    pub counters: Vec<LayerCounters>,
    /// Data found when the stack was opened again.
    pub kept: Option<Kept>,
}

/// Requests of one operation that the device below layers was sent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Below {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
}

/// Data found when a stack was opened again.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Kept {
    /// Ending of the run: `drained` or `killed`.
    pub ending: String,
    /// Sectors that were checked.
    pub sectors: u64,
    /// Sectors, of these, that held the data written last.
    pub newest: u64,
    /// Time of the recovery.
    pub recovery_seconds: f64,
}
