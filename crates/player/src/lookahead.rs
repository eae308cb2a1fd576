//! A source, one request after the other, or elsewhere on a device.

use units::{IoRequest, RequestSource, SourceError};

/// A source whose next request can be looked at before it is taken.
pub struct Lookahead {
    source: Box<dyn RequestSource>,
    /// Empty until the first request is asked for.
    buffer: Vec<IoRequest>,
    chunk: usize,
    next: usize,
    filled: usize,
    /// Requests of the buffer that were shown as coming soon.
    shown: usize,
}

/// Requests that are shown as coming soon together.
const SOON: usize = 64;

impl Lookahead {
    /// The requests of `source`, fetched `chunk` at a time.
    ///
    /// # Panics
    /// If `chunk` is 0.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, chunk: usize) -> Self {
        assert!(chunk > 0, "requests are fetched some at a time");
        Self { source, buffer: Vec::new(), chunk, next: 0, filled: 0, shown: 0 }
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

    /// Takes the next request, if it was fetched already.
    #[inline(always)]
    pub fn take_at_hand(&mut self) -> Option<IoRequest> {
        let request = self.buffer[..self.filled].get(self.next).copied()?;
        self.next += 1;
        Some(request)
    }

    /// The request that was last looked at is done with.
    #[inline]
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// Requests that come soon, if they are here already and were not shown before: for those who
    /// can prepare something for many at once.
    #[inline]
    pub fn soon(&mut self) -> &[IoRequest] {
        if self.next < self.shown {
            return &[];
        }
        self.shown = self.filled.min(self.next + SOON);
        &self.buffer[self.next..self.shown]
    }

    fn fetch(&mut self) -> Result<(), SourceError> {
        self.buffer.resize(self.chunk, IoRequest::NOTHING);
        self.filled = self.source.fill(&mut self.buffer)?;
        (self.next, self.shown) = (0, 0);
        Ok(())
    }
}

/// A source whose offsets are moved.
pub struct Shifted {
    source: Box<dyn RequestSource>,
    by: u64,
}

impl Shifted {
    /// The requests of a source, `by` bytes further on.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, by: u64) -> Self {
        Self { source, by }
    }
}

impl RequestSource for Shifted {
    fn requests(&self) -> Option<u64> {
        self.source.requests()
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let count = self.source.fill(buffer)?;
        buffer[..count].iter_mut().for_each(|request| request.offset += self.by);
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.source.rewind()
    }
}

#[cfg(test)]
mod tests {
    use units::{IoOp, VecRequests};

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
            handle: 0,
            is_fua: false,
        };
        let all: Vec<IoRequest> = (0..10).map(|number| request(number * 512)).collect();
        for chunk in [1, 3, 10, 64] {
            let mut ahead = Lookahead::new(Box::new(VecRequests::new(all.clone().into())), chunk);
            for expected in &all {
                assert_eq!(ahead.peek().unwrap(), Some(*expected));
                assert_eq!(ahead.peek().unwrap(), Some(*expected));
                if expected.offset % 1024 == 0 {
                    assert_eq!(ahead.take_at_hand(), Some(*expected));
                } else {
                    ahead.advance();
                }
            }
            assert_eq!(ahead.take_at_hand(), None);
            assert_eq!((ahead.peek().unwrap(), ahead.peek().unwrap()), (None, None));
            assert!(ahead.soon().is_empty());
        }
    }

    #[test]
    fn what_comes_soon_is_shown_once_and_before_it_comes() {
        let request = |offset| IoRequest {
            time_ns: 0,
            op: IoOp::Read,
            offset,
            length: 512,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let all: Vec<IoRequest> = (0..1000).map(|number| request(number * 512)).collect();
        let mut ahead = Lookahead::new(Box::new(VecRequests::new(all.into())), 300);
        let mut shown = Vec::new();
        for taken in 0..1000 {
            ahead.peek().unwrap();
            shown.extend(ahead.soon().iter().map(|request| request.offset / 512));
            assert!(shown.len() > taken && shown.len() <= taken + SOON);
            ahead.advance();
        }
        assert!(shown.into_iter().eq(0..1000));
    }
}
