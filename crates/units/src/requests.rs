//! A workload as a drive sees it: a sequence of requests.

use crate::{IoRequest, SourceError};

/// A sequence of requests that can be played from the start any number of times, always the same.
pub trait RequestSource: Send {
    /// Number of requests in one pass, if it is known; `None` too if it never ends.
    fn requests(&self) -> Option<u64>;

    /// Puts the next requests into `buffer` and returns how many: less than its length only at the
    /// end, then 0.
    ///
    /// # Errors
    /// Whatever goes wrong behind it.
    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError>;

    /// Back to the first request.
    ///
    /// # Errors
    /// As [`RequestSource::fill`].
    fn rewind(&mut self) -> Result<(), SourceError>;
}

impl<S: RequestSource + ?Sized> RequestSource for Box<S> {
    fn requests(&self) -> Option<u64> {
        (**self).requests()
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        (**self).fill(buffer)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        (**self).rewind()
    }
}

/// Requests held in memory and shared: cloning it is cheap.
#[derive(Clone, Debug)]
pub struct VecRequests {
    requests: std::sync::Arc<[IoRequest]>,
    next: usize,
}

impl VecRequests {
    /// A source of these requests.
    #[must_use]
    pub fn new(requests: std::sync::Arc<[IoRequest]>) -> Self {
        Self { requests, next: 0 }
    }
}

impl RequestSource for VecRequests {
    fn requests(&self) -> Option<u64> {
        Some(self.requests.len() as u64)
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let rest = &self.requests[self.next..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.next += count;
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.next = 0;
        Ok(())
    }
}
