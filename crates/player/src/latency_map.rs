//! Latencies over time: a histogram of requests by latency, in windows of time.

use units::{IoOp, Nanos};

/// Classes of latency per factor of two: wide enough to be seen, at most a fifth of the value.
const STEPS: u32 = 4;
/// All latencies from 2^42 ns (73 minutes) on belong to the last class.
const CLASSES: usize = 41 * STEPS as usize;
/// Operations whose latency a host notices.
const OPS: [IoOp; 3] = [IoOp::Read, IoOp::Write, IoOp::Flush];
const CELLS: usize = OPS.len() * CLASSES;

/// Requests of one operation that ended in one window, with latencies of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyCell {
    /// Start of the window, in ticks since the start of the run.
    pub start: u64,
    /// Length of the window in ticks: the last one is as long as the rest of the run, at least one
    /// tick.
    pub length: u64,
    /// Read, write or flush.
    pub op: IoOp,
    /// Least latency of the class, in nanoseconds.
    pub from: Nanos,
    /// Greatest latency of the class, in nanoseconds; for the last class the same as `from`.
    pub to: Nanos,
    /// Number of requests.
    pub requests: u64,
}

/// A histogram of latencies for each window of time, of reads, writes and flushes. When there would
/// be more than [`LatencyMap::MOST`] windows, pairs are merged and the length doubles: it never
/// takes more than half a MiB, and a long run has at least half as many windows.
#[derive(Clone, Debug)]
pub struct LatencyMap {
    each: u64,
    windows: usize,
    counts: Vec<u64>,
    /// The window of the last request: the next one mostly ends in the same window, which saves a
    /// division.
    last: usize,
    /// First tick of that window, less one.
    last_from: u64,
}

impl LatencyMap {
    /// Most windows: more cannot be told apart side by side.
    pub const MOST: usize = 128;

    /// Begins with windows of `first` ticks.
    ///
    /// # Panics
    /// If `first` is 0.
    #[must_use]
    pub fn new(first: u64) -> Self {
        assert!(first > 0, "a window takes some time");
        Self { each: first, windows: 0, counts: Vec::new(), last: 0, last_from: 0 }
    }

    /// Counts a request that ended `at` ticks after the start and took `latency`. A window excludes
    /// its beginning and includes its end. Trims are not counted.
    #[inline]
    pub fn add(&mut self, op: IoOp, at: u64, latency: Nanos) {
        let number = match op {
            IoOp::Read => 0,
            IoOp::Write => 1,
            IoOp::Flush => 2,
            IoOp::Trim => return,
        };
        let before = at.saturating_sub(1);
        if self.windows == 0 || before.wrapping_sub(self.last_from) >= self.each {
            self.reach(before);
        }
        self.counts[self.last * CELLS + number * CLASSES + class_of(latency)] += 1;
    }

    /// Finds the window of the tick after `before`.
    #[cold]
    #[inline(never)]
    fn reach(&mut self, before: u64) {
        while before / self.each >= Self::MOST as u64 {
            self.merge_pairs();
        }
        self.last = (before / self.each) as usize;
        self.last_from = self.last as u64 * self.each;
        if self.last >= self.windows {
            self.windows = self.last + 1;
            self.counts.resize(self.windows * CELLS, 0);
        }
    }

    fn merge_pairs(&mut self) {
        let pairs = self.windows.div_ceil(2);
        for cell in 0..pairs * CELLS {
            let (pair, within) = (cell / CELLS, cell % CELLS);
            let first = 2 * pair * CELLS + within;
            let second = self.counts.get(first + CELLS).copied().unwrap_or(0);
            self.counts[cell] = self.counts[first] + second;
        }
        self.windows = pairs;
        self.counts.truncate(pairs * CELLS);
        self.each *= 2;
    }

    /// All cells with requests, of a run that took `elapsed`: by time, operation and latency.
    pub fn cells(&self, elapsed: u64) -> impl Iterator<Item = LatencyCell> {
        let filled = self.counts.iter().enumerate().filter(|&(_, &requests)| requests > 0);
        filled.map(move |(cell, &requests)| {
            let (window, within) = (cell / CELLS, cell % CELLS);
            let start = window as u64 * self.each;
            let class = within % CLASSES;
            LatencyCell {
                start,
                length: elapsed.saturating_sub(start).clamp(1, self.each),
                op: OPS[within / CLASSES],
                from: least_of(class),
                to: if class + 1 < CLASSES { least_of(class + 1) - 1 } else { least_of(class) },
                requests,
            }
        })
    }
}

/// The class of a latency: exact below 8 ns, then four classes per factor of two.
#[inline]
const fn class_of(latency: Nanos) -> usize {
    if latency < 2 * STEPS as u64 {
        return latency as usize;
    }
    let shift = latency.ilog2() - STEPS.ilog2();
    let class = shift as usize * STEPS as usize + (latency >> shift) as usize;
    if class < CLASSES { class } else { CLASSES - 1 }
}

/// The least latency of a class.
const fn least_of(class: usize) -> Nanos {
    let (class, steps) = (class as u64, STEPS as u64);
    if class < 2 * steps {
        return class;
    }
    let shift = class / steps - 1;
    (class - shift * steps) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_follow_each_other_without_gaps() {
        for class in 0..CLASSES {
            let least = least_of(class);
            assert_eq!(class_of(least), class);
            if class > 0 {
                assert_eq!(class_of(least - 1), class - 1);
            }
            if class + 1 < CLASSES && class >= 8 {
                let width = (least_of(class + 1) - least) as f64;
                assert!(width <= least as f64 / 4.0 + 1e-9, "class {class}: {least} ns");
            }
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn the_last_window_is_as_long_as_is_left() {
        let mut map = LatencyMap::new(100);
        map.add(IoOp::Write, 100, 5);
        map.add(IoOp::Flush, 101, 1000);
        map.add(IoOp::Trim, 101, 7);
        let cell =
            |start, length, op, from, to| LatencyCell { start, length, op, from, to, requests: 1 };
        let found: Vec<_> = map.cells(130).collect();
        assert_eq!(found, [cell(0, 100, IoOp::Write, 5, 5), cell(100, 30, IoOp::Flush, 896, 1023)]);
        // A request that ends in the moment in which the run begins and ends is counted, too.
        let mut map = LatencyMap::new(100);
        map.add(IoOp::Read, 0, 0);
        assert_eq!(map.cells(0).collect::<Vec<_>>(), [cell(0, 1, IoOp::Read, 0, 0)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut map = LatencyMap::new(1);
        for power in 0..63 {
            map.add(IoOp::Read, 1 << power, 1 << power);
            assert!(map.counts.len() <= LatencyMap::MOST * CELLS);
        }
        assert_eq!(map.cells(1 << 62).map(|cell| cell.requests).sum::<u64>(), 63);
    }

    proptest! {
        #[test]
        fn agrees_with_a_list_of_requests(
            first in 1..50_u64,
            requests in prop::collection::vec((0..40_u64, 0..4_usize, 0..9_000_000_u64), 1..600),
        ) {
            let mut map = LatencyMap::new(first);
            let (mut now, mut told) = (0, Vec::new());
            for &(step, op, latency) in &requests {
                now += step;
                map.add(IoOp::ALL[op], now, latency);
                told.push((now, IoOp::ALL[op], latency));
            }
            let cells: Vec<_> = map.cells(now).collect();
            for cell in &cells {
                let within = |at: u64| {
                    at <= cell.start + cell.length && (at > cell.start || cell.start == 0)
                };
                let mine = told.iter().filter(|&&(at, op, latency)| {
                    within(at) && op == cell.op && (cell.from..=cell.to).contains(&latency)
                });
                prop_assert_eq!(cell.requests, mine.count() as u64);
            }
            let counted = told.iter().filter(|request| request.1 != IoOp::Trim).count();
            prop_assert_eq!(cells.iter().map(|cell| cell.requests).sum::<u64>(), counted as u64);
        }
    }
}
