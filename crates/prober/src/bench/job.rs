//! Requests of one kind, sent at one pace.

use units::{IoRequest, Nanos, RequestSource, SourceError};

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
    /// So many sent together, and the next as many when all of these have ended: nothing else is under way beside a burst. Samples come
    /// in the order of their ends, so those of one burst follow each other.
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
    pub(super) source: Box<dyn RequestSource>,
    pub(super) pace: Pace,
    pub(super) is_fua: bool,
    /// Requests sent and not ended.
    pub(super) outstanding: u32,
    buffer: Vec<IoRequest>,
    next: usize,
    filled: usize,
}

/// Requests fetched from a source at a time.
const CHUNK: usize = 256;

impl Job {
    /// A job.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, pace: Pace) -> Self {
        Self { source, pace, is_fua: false, outstanding: 0, buffer: Vec::new(), next: 0, filled: 0 }
    }

    /// So many requests outstanding, without time to think.
    #[must_use]
    pub fn closed(source: Box<dyn RequestSource>, depth: u32) -> Self {
        Self::new(source, Pace::Closed { depth, think: 0 })
    }

    /// The same with writes that are durable when they end.
    #[must_use]
    pub fn with_fua(mut self) -> Self {
        self.is_fua = true;
        self
    }

    pub(super) fn peek(&mut self) -> Result<Option<IoRequest>, SourceError> {
        if self.next == self.filled {
            if self.buffer.is_empty() {
                let nothing = IoRequest { time_ns: 0, op: units::IoOp::Flush, offset: 0, length: 0, stream: 0, latency_ns: None };
                self.buffer = vec![nothing; CHUNK];
            }
            self.filled = self.source.fill(&mut self.buffer)?;
            self.next = 0;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.next]))
    }

    pub(super) fn take(&mut self) -> Result<Option<IoRequest>, SourceError> {
        let request = self.peek()?;
        self.next += usize::from(request.is_some());
        Ok(request)
    }
}
