//! Measurements of a run: latencies and their causes, throughput over time, the dies' time, energy,
//! a hash of the events.
//!
//! All of it takes a fixed amount of memory, whatever the length of the run, and does not affect
//! the drive.

mod die_share;
mod energy;
mod latency;
mod over_time;
mod requests;

pub use die_share::{BusyTime, DieShare, busy_times};
pub use energy::Energy;
pub use latency::{
    ByDelay, Delay, DelaySummary, LEAST_FOR_P9999, Latencies, LatencySummary, OpSummary,
    RequestDelays,
};
pub use over_time::{OverTime, TimeWindow};
pub use requests::{MeasuredRequest, RequestSink, in_nanos};

pub use crate::drive::media::{EventHash, Timeline};
