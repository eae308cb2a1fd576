//! Requests that are told when they complete, put in the order of their issue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{IoRequest, Nanos};

/// Requests that are held back: more are never outstanding on one device.
const MOST_HELD: usize = 1 << 14;

/// Times of issue may lie before the start of the file's clock by as much.
pub(super) const AHEAD_NS: Nanos = 3_600_000_000_000;

/// Holds requests back until none can come that was issued before.
#[derive(Default)]
pub(super) struct ByIssue {
    held: BinaryHeap<Reverse<(Nanos, u64)>>,
    requests: std::collections::HashMap<u64, IoRequest>,
    next: u64,
}

impl ByIssue {
    /// Takes a request that completed at its time, on the file's clock, after its latency.
    pub(super) fn take(&mut self, mut request: IoRequest, out: &mut Vec<IoRequest>) {
        let latency_ns = request.latency_ns.unwrap_or(0);
        request.time_ns = (request.time_ns.saturating_add(AHEAD_NS)).saturating_sub(latency_ns);
        self.held.push(Reverse((request.time_ns, self.next)));
        self.requests.insert(self.next, request);
        self.next += 1;
        if self.held.len() > MOST_HELD {
            self.give(out);
        }
    }

    fn give(&mut self, out: &mut Vec<IoRequest>) -> bool {
        let Some(Reverse((_, number))) = self.held.pop() else { return false };
        out.extend(self.requests.remove(&number));
        true
    }

    /// Gives out the rest.
    pub(super) fn finish(&mut self, out: &mut Vec<IoRequest>) {
        while self.give(out) {}
    }
}

/// Numbers of disks in the order in which they are named.
#[derive(Debug, Default)]
pub(super) struct Names(std::collections::HashMap<Vec<u8>, u32>);

impl Names {
    /// More are no disks.
    const MOST: usize = 1 << 16;

    /// The number of a name; `None` if there are too many.
    pub(super) fn number(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(number) = self.0.get(name) {
            return Some(*number);
        }
        let number = u32::try_from(self.0.len()).ok().filter(|_| self.0.len() < Self::MOST)?;
        self.0.insert(name.to_owned(), number);
        Some(number)
    }
}
