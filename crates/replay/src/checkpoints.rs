//! Checkpoints of the database that a trace tells of, or that are assumed: as flushes among its
//! requests.

use std::sync::Arc;

use units::{IoOp, IoRequest, Nanos, RequestSource, SourceError};

/// The requests of a source with a flush at each of these times: what a database sends at the end
/// of a checkpoint to a device that holds its data alone. It stands before the first request that
/// is not earlier.
pub struct Flushing {
    source: Box<dyn RequestSource>,
    times: Arc<[Nanos]>,
    next: usize,
    /// Read and not yet given out, from `taken` on.
    chunk: Vec<IoRequest>,
    taken: usize,
}

const CHUNK: usize = 1024;
const FLUSH: IoRequest = IoRequest {
    time_ns: 0,
    op: IoOp::Flush,
    offset: 0,
    length: 0,
    stream: 0,
    latency_ns: None,
    handle: 0,
    is_fua: false,
};

impl Flushing {
    /// Times are nanoseconds of the trace, in ascending order.
    ///
    /// # Panics
    /// If they are not.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, times: Arc<[Nanos]>) -> Self {
        assert!(times.is_sorted(), "checkpoints follow each other");
        Self { source, times, next: 0, chunk: Vec::new(), taken: 0 }
    }
}

impl RequestSource for Flushing {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let mut count = 0;
        while count < buffer.len() {
            if self.taken == self.chunk.len() {
                self.chunk.resize(CHUNK, FLUSH);
                let read = self.source.fill(&mut self.chunk)?;
                self.chunk.truncate(read);
                self.taken = 0;
                if read == 0 {
                    break;
                }
            }
            let request = self.chunk[self.taken];
            buffer[count] = match self.times.get(self.next) {
                Some(&at) if at <= request.time_ns => {
                    self.next += 1;
                    IoRequest { time_ns: at, ..FLUSH }
                }
                _ => {
                    self.taken += 1;
                    request
                }
            };
            count += 1;
        }
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        (self.next, self.taken) = (0, 0);
        self.chunk.clear();
        self.source.rewind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::VecRequests;

    #[test]
    fn a_flush_stands_before_what_comes_after_its_time() {
        let requests: Vec<IoRequest> = (0..3000)
            .map(|n| IoRequest { time_ns: n * 10, op: IoOp::Write, length: 512, ..FLUSH })
            .collect();
        let times: Vec<Nanos> = vec![0, 15, 15, 20, 29_985, 40_000];
        let mut source = Flushing::new(Box::new(VecRequests::new(requests.into())), times.into());
        for _ in 0..2 {
            let (mut all, mut buffer) = (Vec::new(), [FLUSH; 7]);
            loop {
                let count = source.fill(&mut buffer).unwrap();
                all.extend_from_slice(&buffer[..count]);
                if count < buffer.len() {
                    break;
                }
            }
            let flushes: Vec<(usize, Nanos)> = all
                .iter()
                .enumerate()
                .filter(|(_, one)| one.op == IoOp::Flush)
                .map(|(place, one)| (place, one.time_ns))
                .collect();
            assert_eq!(flushes, [(0, 0), (3, 15), (4, 15), (5, 20), (3003, 29_985)]);
            assert_eq!(all.len(), 3005);
            assert!(all.is_sorted_by_key(|one| one.time_ns));
            source.rewind().unwrap();
        }
    }
}
