//! Measurements made while a trace plays.

use std::collections::BTreeMap;

use block::BlockError;
use hdrhistogram::Histogram;
use player::{Ended, FlowFigures, LatencyMap, Timekeeping};
use units::{IoOp, Nanos};

use crate::windows::Windows;

/// Measurements of one operation.
#[derive(Clone, Debug)]
pub struct OpMeasured {
    /// Requests that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time from sending to completion, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Time from when a request was due to its completion, in nanoseconds: that seen by a user who
    /// sends by the clock. Only where requests are due at times.
    pub response: Histogram<u64>,
}

/// Requests that failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of requests.
    pub requests: u64,
    /// Message of the first of them.
    pub first: String,
}

/// Measurements of a replay. Times are of the device's clock.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Measurements by operation, by its number.
    pub by_op: [OpMeasured; IoOp::ALL.len()],
    /// Lateness of requests when they were sent, in nanoseconds: the scheduling error, including
    /// the time that the device's queue held them up. Only where requests are due at times.
    pub lateness: Histogram<u64>,
    /// Lateness of requests that became due while no more could be outstanding, in nanoseconds: the
    /// part that is the device's, not the sender's. Only at an open pace.
    pub held: Histogram<u64>,
    /// Measurements by window of time.
    pub windows: Windows,
    /// Latencies over time, in ticks of a nanosecond.
    pub latency_map: LatencyMap,
    /// Requests sent.
    pub sent: u64,
    /// Time from the start to the last completion, in nanoseconds.
    pub elapsed: Nanos,
    /// Requests outstanding at most, and waits for the trace to be read.
    pub timekeeping: Timekeeping,
    /// Figures of each flow.
    pub flows: Vec<FlowFigures>,
    /// Requests that failed, by operation and reason.
    pub failures: BTreeMap<(&'static str, String), Failure>,
}

impl Measured {
    pub(crate) fn new(flows: usize) -> Self {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        let op =
            || OpMeasured { requests: 0, bytes: 0, latency: histogram(), response: histogram() };
        Self {
            by_op: [op(), op(), op(), op()],
            lateness: histogram(),
            held: histogram(),
            windows: Windows::new(),
            latency_map: LatencyMap::new(Windows::FIRST),
            sent: 0,
            elapsed: 0,
            timekeeping: Timekeeping::default(),
            flows: vec![FlowFigures::default(); flows],
            failures: BTreeMap::new(),
        }
    }

    /// A request ended of a replay that began at `start`.
    pub(crate) fn ended(&mut self, of: &Ended, start: Nanos) {
        let (request, ended) = (&of.request, of.ended.saturating_sub(start));
        let (number, latency) = (request.op as usize, of.ended - of.sent);
        self.flows[of.flow as usize].add(request.op, request.length, latency, ended);
        let op = &mut self.by_op[number];
        op.requests += 1;
        op.bytes += u64::from(request.length);
        record(&mut op.latency, latency);
        self.latency_map.add(request.op, ended, latency);
        let mut late = 0;
        if let Some(due) = of.due {
            late = of.sent.saturating_sub(due);
            record(&mut op.response, of.ended - due.min(of.sent));
            record(&mut self.lateness, late);
        }
        let window = self.windows.at(ended);
        window.requests[number] += 1;
        match request.op {
            IoOp::Read => window.read_bytes += u64::from(request.length),
            IoOp::Write => window.written_bytes += u64::from(request.length),
            IoOp::Trim | IoOp::Flush => {}
        }
        window.latency_ns[number] += latency;
        window.most_latency_ns[number] = window.most_latency_ns[number].max(latency);
        window.most_late_ns = window.most_late_ns.max(late);
        self.elapsed = self.elapsed.max(ended);
    }

    pub(crate) fn failed(&mut self, op: &'static str, reason: String, error: &BlockError) {
        // A reason may name what is different each time.
        const MOST_REASONS: usize = 64;
        let is_full = self.failures.len() >= MOST_REASONS
            && !self.failures.contains_key(&(op, reason.clone()));
        let reason = if is_full { "for further reasons".to_owned() } else { reason };
        let first = || Failure { requests: 0, first: error.to_string() };
        self.failures.entry((op, reason)).or_insert_with(first).requests += 1;
    }

    /// Requests that succeeded.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.by_op.iter().map(|op| op.requests).sum()
    }

    /// Bytes read and written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.by_op[IoOp::Read as usize].bytes + self.by_op[IoOp::Write as usize].bytes
    }

    /// Requests a second; 0 if no time passed.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.per_second(self.requests())
    }

    /// Bytes read and written a second; 0 if no time passed.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes())
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.elapsed == 0 { 0.0 } else { count as f64 * 1e9 / self.elapsed as f64 }
    }
}

pub(crate) fn record(histogram: &mut Histogram<u64>, value: Nanos) {
    // Recording with saturation would not let it grow.
    histogram.record(value).expect("a histogram that grows takes any value");
}
