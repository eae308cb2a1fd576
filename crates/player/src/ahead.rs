//! Sources of the requests of flows: read on demand, or ahead in a thread of its own, where
//! decoding a trace must not hold up sending.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use units::{IoRequest, RequestSource, SourceError};

use crate::lookahead::Lookahead;

/// Source of a flow's requests, in order.
pub trait ReadAhead {
    /// The next request, if it is there; with `patiently` it is waited for.
    ///
    /// # Errors
    /// Whatever goes wrong behind it.
    fn peek(&mut self, patiently: bool) -> Result<Next, SourceError>;

    /// The request that was last looked at is done with.
    fn advance(&mut self);

    /// Takes the next request if that needs nothing to be read; `None` may mean anything.
    #[inline]
    fn take_at_hand(&mut self) -> Option<IoRequest> {
        None
    }
}

impl ReadAhead for Lookahead {
    #[inline]
    fn peek(&mut self, _: bool) -> Result<Next, SourceError> {
        Ok(Self::peek(self)?.map_or(Next::End, Next::Request))
    }

    #[inline]
    fn advance(&mut self) {
        Self::advance(self);
    }

    #[inline(always)]
    fn take_at_hand(&mut self) -> Option<IoRequest> {
        Self::take_at_hand(self)
    }
}

/// The next request of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There it is.
    Request(IoRequest),
    /// It was not read yet.
    NotYet,
    /// There is no more.
    End,
}

type Batch = Result<Vec<IoRequest>, SourceError>;

/// A source that is read ahead.
pub struct Ahead {
    batches: Option<Receiver<Batch>>,
    batch: Vec<IoRequest>,
    next: usize,
    thread: Option<JoinHandle<()>>,
}

/// Requests read together.
const BATCH: usize = 4096;
/// Batches that are ready at most: some hundred milliseconds of the fastest devices, in 8 MiB.
const BATCHES: usize = 32;

impl Ahead {
    /// Begins to read.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>) -> Self {
        let (sender, batches) = sync_channel(BATCHES);
        let thread = std::thread::spawn(move || read(source, &sender));
        Self { batches: Some(batches), batch: Vec::new(), next: 0, thread: Some(thread) }
    }

    /// Gets the next batch. `false` if it is not there yet.
    fn fetch(&mut self, patiently: bool) -> Result<bool, SourceError> {
        let Some(batches) = &self.batches else { return Ok(true) };
        let received = if patiently {
            batches.recv().ok()
        } else {
            match batches.try_recv() {
                Err(TryRecvError::Empty) => return Ok(false),
                other => other.ok(),
            }
        };
        // The thread ends when the source does: a bug in it is told by its panic, not taken for the
        // end.
        let Some(batch) = received else {
            self.batches = None;
            return match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => Ok(true),
            };
        };
        (self.batch, self.next) = (batch?, 0);
        Ok(true)
    }
}

fn read(mut source: Box<dyn RequestSource>, sender: &SyncSender<Batch>) {
    loop {
        let mut batch = vec![IoRequest::NOTHING; BATCH];
        let filled = source.fill(&mut batch);
        let is_last = !matches!(filled, Ok(BATCH));
        let batch = filled.map(|count| {
            batch.truncate(count);
            batch
        });
        // Nobody listens any more once the play has ended.
        if sender.send(batch).is_err() || is_last {
            return;
        }
    }
}

impl ReadAhead for Ahead {
    fn peek(&mut self, patiently: bool) -> Result<Next, SourceError> {
        while self.next == self.batch.len() {
            if !self.fetch(patiently)? {
                return Ok(Next::NotYet);
            }
            if self.batches.is_none() {
                return Ok(Next::End);
            }
        }
        Ok(Next::Request(self.batch[self.next]))
    }

    fn advance(&mut self) {
        self.next += 1;
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // The thread may wait for room: without a receiver it ends.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{IoOp, VecRequests};

    use super::*;

    #[test]
    fn requests_come_once_and_in_order() {
        for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, 40 * BATCH + 5] {
            let request = |number| IoRequest {
                time_ns: number,
                op: IoOp::Read,
                offset: 0,
                length: 512,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            };
            let all: Vec<IoRequest> = (0..count as u64).map(request).collect();
            let mut ahead = Ahead::new(Box::new(VecRequests::new(all.clone().into())));
            let mut found = Vec::new();
            let mut patiently = false;
            loop {
                match ahead.peek(patiently).unwrap() {
                    Next::Request(request) => {
                        found.push(request);
                        ahead.advance();
                        patiently = false;
                    }
                    Next::NotYet => patiently = true,
                    Next::End => break,
                }
            }
            assert!(found == all, "{count}");
            assert_eq!(ahead.peek(true).unwrap(), Next::End);
        }
    }

    #[test]
    fn what_is_not_read_to_its_end_can_be_dropped() {
        let request = IoRequest {
            time_ns: 0,
            op: IoOp::Read,
            offset: 0,
            length: 512,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let mut ahead = Ahead::new(Box::new(VecRequests::new(vec![request; 100 * BATCH].into())));
        assert_eq!(ahead.peek(true).unwrap(), Next::Request(request));
    }

    struct Broken;

    impl RequestSource for Broken {
        fn requests(&self) -> Option<u64> {
            None
        }

        fn fill(&mut self, _: &mut [IoRequest]) -> Result<usize, SourceError> {
            Err("broken".into())
        }

        fn rewind(&mut self) -> Result<(), SourceError> {
            Ok(())
        }
    }

    #[test]
    fn an_error_of_the_source_is_told() {
        assert_eq!(Ahead::new(Box::new(Broken)).peek(true).unwrap_err().to_string(), "broken");
    }
}
