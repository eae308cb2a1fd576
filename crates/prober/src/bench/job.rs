//! Requests of one kind, sent at one pace.

use units::{Lookahead, Nanos, RequestSource};

/// When a job sends its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So many outstanding; each is followed by the next after some time to think, in nanoseconds.
    Closed {
        /// Requests outstanding, at least 1.
        depth: u32,
        /// Time from the end of one to the start of the next in its place.
        think: Nanos,
    },
    /// So many sent together, and the next as many when all of these have ended: nothing else is
    /// under way beside a burst. Samples come in the order of their ends, so those of one burst
    /// follow each other. All but the first of a burst are sent so long after its start as the
    /// source's times say; these ascend within a burst.
    Bursts {
        /// Requests sent together, at least 1 and at most the device's queue depth.
        size: u32,
    },
    /// At the times of the source, however late the device is.
    Open,
}

impl Pace {
    /// Requests outstanding at a time, if the pace says it; otherwise 1.
    pub(super) fn depth(self) -> u32 {
        match self {
            Self::Closed { depth, .. } | Self::Bursts { size: depth } => depth,
            Self::Open => 1,
        }
    }
}

/// One sequence of requests beside others.
pub struct Job {
    pub(super) requests: Lookahead,
    pub(super) pace: Pace,
    /// Requests sent and not ended.
    pub(super) outstanding: u32,
    /// Of the burst under way: when it began, and requests sent.
    pub(super) burst_start: Nanos,
    pub(super) burst_sent: u32,
}

/// Requests fetched from a source at a time.
const CHUNK: usize = 256;

impl Job {
    /// A job.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, pace: Pace) -> Self {
        Self {
            requests: Lookahead::new(source, CHUNK),
            pace,
            outstanding: 0,
            burst_start: 0,
            burst_sent: 0,
        }
    }

    /// So many requests outstanding, without time to think.
    #[must_use]
    pub fn closed(source: Box<dyn RequestSource>, depth: u32) -> Self {
        Self::new(source, Pace::Closed { depth, think: 0 })
    }
}
