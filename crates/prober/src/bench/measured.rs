//! Measurements made while flows play.

use hdrhistogram::Histogram;
use player::FlowFigures;
use units::{IoOp, Nanos};

/// A request that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time at which it was sent, in nanoseconds from the start of the measured part.
    pub sent_ns: Nanos,
    /// Its latency in nanoseconds.
    pub latency_ns: Nanos,
    /// Its first byte.
    pub offset: u64,
    /// Its operation.
    pub op: IoOp,
    /// Its flow, in the order in which they were given.
    pub flow: u32,
}

/// Measurements of a play.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests completed.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Device time, in nanoseconds.
    pub elapsed: Nanos,
    /// Latencies in nanoseconds, by the operation's number.
    pub latencies: [Histogram<u64>; 4],
    /// Each flow.
    pub flows: Vec<FlowFigures>,
    /// Every request in the order of their ends, if they were kept.
    pub samples: Vec<Sample>,
    pub(super) batches: Batches,
}

impl Measured {
    pub(super) fn new(flows: usize, batch_requests: u64) -> Self {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        Self {
            requests: 0,
            bytes: 0,
            elapsed: 0,
            latencies: [histogram(), histogram(), histogram(), histogram()],
            flows: vec![FlowFigures::default(); flows],
            samples: Vec::new(),
            batches: Batches::new(batch_requests),
        }
    }

    /// Requests a second; 0 if nothing was measured.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.per_second(self.requests as f64)
    }

    /// Bytes read and written a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes as f64)
    }

    fn per_second(&self, count: f64) -> f64 {
        if self.elapsed == 0 { 0.0 } else { count * 1e9 / self.elapsed as f64 }
    }

    /// Mean latency of all requests in nanoseconds; 0 without any.
    #[must_use]
    pub fn mean_latency_ns(&self) -> f64 {
        let sum: u128 = self.flows.iter().map(|flow| flow.latency).sum();
        if self.requests == 0 { 0.0 } else { sum as f64 / self.requests as f64 }
    }

    /// The latencies of one operation.
    #[must_use]
    pub fn of(&self, op: IoOp) -> &Histogram<u64> {
        &self.latencies[op as usize]
    }

    /// Half the width of the 95 % interval of the throughput as a share of it, by batch means (so
    /// it holds for requests that depend on each other too); infinite if there are too few batches.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.batches.relative_error()
    }

    /// The 95 % interval of the requests a second.
    #[must_use]
    pub fn iops_interval(&self) -> [f64; 2] {
        let (mean, error) = (self.iops(), self.relative_error().min(1.0));
        [mean * (1.0 - error), mean * (1.0 + error)]
    }
}

/// Times that batches of equally many requests took: at most [`Batches::MOST`], which are joined in
/// pairs when there are more.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    times: Vec<Nanos>,
    each: u64,
    in_this: u64,
    since: Nanos,
}

impl Batches {
    const MOST: usize = 64;
    /// With fewer, the interval is too uncertain itself.
    const FEWEST: usize = 20;

    /// Makes batches of so many requests, at least 8. Ends of requests that were outstanding
    /// together are not independent, so a batch should hold no fewer.
    pub fn new(each: u64) -> Self {
        Self { times: Vec::with_capacity(Self::MOST), each: each.max(8), in_this: 0, since: 0 }
    }

    /// Adds a request that ended, so long after the start of the measured part. Returns true if it
    /// is time to ask for the precision of the mean: only when the number of requests has doubled,
    /// as whoever asks after each is too often told what he hopes for.
    pub fn ended(&mut self, at: Nanos) -> bool {
        self.in_this += 1;
        if self.in_this < self.each {
            return false;
        }
        self.times.push(at - self.since);
        (self.since, self.in_this) = (at, 0);
        let is_doubled = self.times.len() == Self::MOST;
        if is_doubled {
            self.times = self.times.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.each *= 2;
        }
        is_doubled
    }

    pub fn relative_error(&self) -> f64 {
        let count = self.times.len();
        if count < Self::FEWEST {
            return f64::INFINITY;
        }
        let mean = self.times.iter().sum::<Nanos>() as f64 / count as f64;
        if mean == 0.0 {
            return 0.0;
        }
        let off: Vec<f64> = self.times.iter().map(|&time| time as f64 - mean).collect();
        let squares = off.iter().map(|off| off * off).sum::<f64>();
        // Neighbours that are alike, as where a drive cleans now and then, tell less than as many
        // that are not: by what a first-order autoregressive process loses.
        let alike = if squares > 0.0 {
            off.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares
        } else {
            0.0
        };
        let alike = alike.clamp(0.0, 0.9);
        let variance = squares / (count - 1) as f64 * (1.0 + alike) / (1.0 - alike);
        // Student's t for 19 to 63 degrees of freedom is 2.09 to 2.00.
        2.09 * (variance / count as f64).sqrt() / mean
    }
}
