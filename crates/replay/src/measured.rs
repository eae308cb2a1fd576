//! What was measured while a trace played.

use std::collections::BTreeMap;

use block::BlockError;
use hdrhistogram::Histogram;
use player::{Ended, FlowFigures, LatencyMap, Timekeeping};
use units::{IoOp, Nanos};

use crate::windows::Windows;

/// What one operation took.
#[derive(Clone, Debug)]
pub struct OpMeasured {
    /// Requests that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From sending to the end, in nanoseconds.
    pub latency: Histogram<u64>,
    /// From when it was due to the end, in nanoseconds: what one felt who sends by the clock. Only
    /// where requests are due at times.
    pub response: Histogram<u64>,
}

/// Requests that failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How many.
    pub requests: u64,
    /// The first, in words.
    pub first: String,
}

/// What was measured. Times are of the device's clock.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Each operation, by its number.
    pub by_op: [OpMeasured; IoOp::ALL.len()],
    /// How much later than due requests were sent, in nanoseconds: the scheduling error, what the
    /// device's queue held up included. Only where requests are due at times.
    pub lateness: Histogram<u64>,
    /// Of the lateness, that of requests which became due while no more could be outstanding, in
    /// nanoseconds: that of the device, not of the sender. Only at an open pace.
    pub held: Histogram<u64>,
    /// Over time.
    pub windows: Windows,
    /// Latencies over time, in ticks of a nanosecond.
    pub latency_map: LatencyMap,
    /// Requests sent.
    pub sent: u64,
    /// From the start to the last end, in nanoseconds.
    pub elapsed: Nanos,
    /// How the clock was kept.
    pub timekeeping: Timekeeping,
    /// Each flow.
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
        let since_start = |time: Nanos| time.saturating_sub(start);
        let (sent, ended) = (since_start(of.sent), since_start(of.ended));
        let (request, due) = (&of.request, of.due.map(since_start));
        let (number, latency) = (request.op as usize, ended - sent);
        self.flows[of.flow as usize].add(request.op, request.length, latency, ended);
        let op = &mut self.by_op[number];
        op.requests += 1;
        op.bytes += u64::from(request.length);
        record(&mut op.latency, latency);
        self.latency_map.add(request.op, ended, latency);
        let mut late = 0;
        if let Some(due) = due {
            late = sent.saturating_sub(due);
            record(&mut op.response, ended - due.min(sent));
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
