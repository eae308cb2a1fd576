//! A workload as a drive sees it: a sequence of requests.

use crate::{IoOp, IoRequest, SourceError};

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

/// A source whose next request can be looked at before it is taken.
pub struct Lookahead {
    source: Box<dyn RequestSource>,
    /// Empty until the first request is asked for.
    buffer: Vec<IoRequest>,
    chunk: usize,
    next: usize,
    filled: usize,
}

impl Lookahead {
    /// The requests of `source`, fetched `chunk` at a time.
    ///
    /// # Panics
    /// If `chunk` is 0.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, chunk: usize) -> Self {
        assert!(chunk > 0, "requests are fetched some at a time");
        Self { source, buffer: Vec::new(), chunk, next: 0, filled: 0 }
    }

    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// As [`RequestSource::fill`].
    #[inline]
    pub fn peek(&mut self) -> Result<Option<IoRequest>, SourceError> {
        if self.next == self.filled {
            self.fetch()?;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.next]))
    }

    /// Takes the next request.
    ///
    /// # Errors
    /// As [`RequestSource::fill`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<IoRequest>, SourceError> {
        let request = self.peek()?;
        self.next += usize::from(request.is_some());
        Ok(request)
    }

    fn fetch(&mut self) -> Result<(), SourceError> {
        let nothing = IoRequest {
            time_ns: 0,
            op: IoOp::Flush,
            offset: 0,
            length: 0,
            stream: 0,
            latency_ns: None,
        };
        self.buffer.resize(self.chunk, nothing);
        self.filled = self.source.fill(&mut self.buffer)?;
        self.next = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_were_looked_at_are_taken_once_and_in_order() {
        let request = |offset| IoRequest {
            time_ns: 0,
            op: IoOp::Read,
            offset,
            length: 512,
            stream: 0,
            latency_ns: None,
        };
        let all: Vec<IoRequest> = (0..10).map(|number| request(number * 512)).collect();
        for chunk in [1, 3, 10, 64] {
            let mut ahead = Lookahead::new(Box::new(VecRequests::new(all.clone().into())), chunk);
            for expected in &all {
                assert_eq!(ahead.peek().unwrap(), Some(*expected));
                assert_eq!(ahead.peek().unwrap(), Some(*expected));
                assert_eq!(ahead.take().unwrap(), Some(*expected));
            }
            assert_eq!(
                (ahead.peek().unwrap(), ahead.take().unwrap(), ahead.take().unwrap()),
                (None, None, None)
            );
        }
    }
}
