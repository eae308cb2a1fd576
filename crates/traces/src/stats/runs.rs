//! Requests that continue the one before.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use units::IoRequest;

use super::histogram::Octaves;

/// For each stream, reads and writes apart: a request that starts where the one before it ended
/// continues its run.
///
/// Reads and writes are told apart because a log that is written in order is sequential also when
/// pages are read in between.
#[derive(Debug)]
pub(super) struct Runs {
    numbers: HashMap<u32, u32, FxBuildHasher>,
    streams: Vec<[SequentialRun; 2]>,
    last: (u32, u32),
    /// Requests that continue the one before, reads and writes.
    pub(super) continuing: [u64; 2],
    /// Runs by their number of requests, reads and writes.
    pub(super) lengths: [Octaves; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct SequentialRun {
    end: u64,
    requests: u64,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self {
            numbers: HashMap::default(),
            streams: Vec::new(),
            last: (0, u32::MAX),
            continuing: [0; 2],
            lengths: [Octaves::new(), Octaves::new()],
        }
    }

    /// Numbers the stream: a request of any kind makes it known.
    #[inline]
    pub(super) fn stream(&mut self, stream: u32) -> usize {
        if self.last.0 != stream || self.last.1 == u32::MAX {
            let next = self.streams.len() as u32;
            let number = *self.numbers.entry(stream).or_insert(next);
            if number == next {
                self.streams.push([SequentialRun::default(); 2]);
            }
            self.last = (stream, number);
        }
        self.last.1 as usize
    }

    #[inline]
    pub(super) fn add(&mut self, request: &IoRequest, is_write: bool) {
        let (stream, kind) = (self.stream(request.stream), usize::from(is_write));
        let run = &mut self.streams[stream][kind];
        if run.requests > 0 && run.end == request.offset {
            run.requests += 1;
            self.continuing[kind] += 1;
        } else {
            if run.requests > 0 {
                self.lengths[kind].add(run.requests);
            }
            run.requests = 1;
        }
        run.end = request.offset.saturating_add(u64::from(request.length));
    }

    /// Counts the runs that go on to the end of the trace.
    pub(super) fn close(&mut self) {
        for runs in &mut self.streams {
            for (run, lengths) in
                runs.iter_mut().zip(&mut self.lengths).filter(|(run, _)| run.requests > 0)
            {
                lengths.add(run.requests);
                *run = SequentialRun::default();
            }
        }
    }

    pub(super) fn streams(&self) -> u64 {
        self.streams.len() as u64
    }
}
