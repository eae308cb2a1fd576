//! Figures of each flow.

use units::IoOp;

/// Figures of one flow while it was measured. Times are in ticks of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFigures {
    /// Requests that succeeded.
    pub requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub written_bytes: u64,
    /// Sum of the latencies.
    pub latency: u128,
    /// Time from the start to the end of its last request: a flow may end before others.
    pub elapsed: u64,
}

impl FlowFigures {
    /// Counts a request that took `latency` and ended `at` after the start.
    #[inline]
    pub fn add(&mut self, op: IoOp, length: u32, latency: u64, at: u64) {
        match op {
            IoOp::Read => self.read_bytes += u64::from(length),
            IoOp::Write => self.written_bytes += u64::from(length),
            IoOp::Trim | IoOp::Flush => {}
        }
        self.requests += 1;
        self.latency += u128::from(latency);
        self.elapsed = at;
    }

    /// Requests per second until the last one ended, where a second has `ticks`; 0 if no time
    /// passed.
    #[must_use]
    pub fn iops(&self, ticks: u64) -> f64 {
        self.per_second(self.requests, ticks)
    }

    /// Bytes read and written per second until the last request ended, where a second has `ticks`.
    #[must_use]
    pub fn bytes_per_second(&self, ticks: u64) -> f64 {
        self.per_second(self.bytes(), ticks)
    }

    /// Bytes read and written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// Mean latency in ticks; 0 without requests.
    #[must_use]
    pub fn mean_latency(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.latency as f64 / self.requests as f64 }
    }

    fn per_second(&self, count: u64, ticks: u64) -> f64 {
        if self.elapsed == 0 { 0.0 } else { count as f64 * (ticks as f64 / self.elapsed as f64) }
    }
}
