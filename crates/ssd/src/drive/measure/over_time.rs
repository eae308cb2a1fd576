//! Throughput, write amplification and latency over time.

use units::IoOp;

use crate::drive::schemes::SchemeCounters;
use crate::drive::time::{PICOS_PER_NANO, PICOS_PER_SECOND, Picos};

/// Most windows. Even, as windows are merged in pairs. 512 are more than a plot shows and take 64
/// KiB.
const MOST_WINDOWS: usize = 512;

/// Figures of a window of virtual time: after `start`, up to and including `start + length`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeWindow {
    /// Start of the window.
    pub start: Picos,
    /// Length of the window. 0 only if the whole run took no time.
    pub length: Picos,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Trims completed.
    pub trims: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum of the latencies of the reads, in picoseconds.
    pub read_latency: u128,
    /// Sum of the latencies of the writes, in picoseconds.
    pub write_latency: u128,
    /// Sum of the latencies of the flushes, in picoseconds.
    pub flush_latency: u128,
    /// Pages written for the host.
    pub host_page_writes: u64,
    /// Valid pages relocated.
    pub relocated_pages: u64,
    /// Translation pages written.
    pub mapping_page_writes: u64,
    /// Pages of parity written.
    pub parity_page_writes: u64,
    /// Copies of pages written to other dies.
    pub replica_page_writes: u64,
    /// Erases.
    pub erases: u64,
}

impl TimeWindow {
    /// Reads and writes a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.per_second(self.reads + self.writes)
    }

    /// Bytes read a second.
    #[must_use]
    pub fn read_bytes_per_second(&self) -> f64 {
        self.per_second(self.read_bytes)
    }

    /// Bytes written a second.
    #[must_use]
    pub fn written_bytes_per_second(&self) -> f64 {
        self.per_second(self.written_bytes)
    }

    /// (host + relocated + translation + parity pages) / host pages; `None` without host page
    /// writes. A relocation counts where it was decided: possibly one window earlier than its
    /// program.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let all = self.host_page_writes + self.relocated_pages + self.mapping_page_writes;
        let all = all + self.parity_page_writes + self.replica_page_writes;
        (self.host_page_writes > 0).then(|| all as f64 / self.host_page_writes as f64)
    }

    /// Mean latency of the reads in nanoseconds; `None` without reads.
    #[must_use]
    pub fn mean_read_ns(&self) -> Option<f64> {
        mean_ns(self.read_latency, self.reads)
    }

    /// Mean latency of the writes in nanoseconds; `None` without writes.
    #[must_use]
    pub fn mean_write_ns(&self) -> Option<f64> {
        mean_ns(self.write_latency, self.writes)
    }

    /// Mean latency of the flushes in nanoseconds; `None` without flushes.
    #[must_use]
    pub fn mean_flush_ns(&self) -> Option<f64> {
        mean_ns(self.flush_latency, self.flushes)
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.length == 0 {
            0.0
        } else {
            count as f64 * (PICOS_PER_SECOND as f64 / self.length as f64)
        }
    }

    /// Adds the counts of another window. Start and length stay those of `self`.
    fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.trims += other.trims;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.read_latency += other.read_latency;
        self.write_latency += other.write_latency;
        self.flush_latency += other.flush_latency;
        self.host_page_writes += other.host_page_writes;
        self.relocated_pages += other.relocated_pages;
        self.mapping_page_writes += other.mapping_page_writes;
        self.parity_page_writes += other.parity_page_writes;
        self.replica_page_writes += other.replica_page_writes;
        self.erases += other.erases;
    }
}

fn mean_ns(sum: u128, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / PICOS_PER_NANO as f64 / count as f64)
}

/// A run cut into windows of equal length. When there would be more than 512, pairs are merged and
/// the length doubles: memory stays the same however long the run is, and a run is shown by at
/// least 256 windows, once it has that many.
///
/// Before each event: `if over_time.is_due(now) { over_time.advance(now, &counters) }`. So the
/// scheme's counters are read once per window instead of once per event, and windows still hold
/// exactly their own events.
#[derive(Clone, Debug)]
pub struct OverTime {
    start: Picos,
    length: Picos,
    end_of_last: Picos,
    windows: Vec<TimeWindow>,
    counters: SchemeCounters,
}

impl OverTime {
    /// A good first length for a drive: 1 ms is some tens of programs or hundreds of reads, enough
    /// for a mean.
    pub const FIRST_LENGTH: Picos = 1_000_000_000;

    /// Begins at `start`, when the scheme has counted `counters`, with windows of `first_length`.
    ///
    /// # Panics
    /// If `first_length` is 0.
    #[must_use]
    pub fn new(start: Picos, first_length: Picos, counters: SchemeCounters) -> Self {
        assert!(first_length > 0, "a window takes some time");
        let mut windows = Vec::with_capacity(MOST_WINDOWS);
        windows.push(TimeWindow::default());
        Self { start, length: first_length, end_of_last: start + first_length, windows, counters }
    }

    /// Returns true if `now` is beyond the last window, so that [`Self::advance`] has to be called
    /// before anything is done at that time.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now: Picos) -> bool {
        now > self.end_of_last
    }

    /// Closes the current window with the scheme's counts so far, and opens the one that contains
    /// `now`.
    ///
    /// # Panics
    /// If a counter has gone down.
    pub fn advance(&mut self, now: Picos, counters: &SchemeCounters) {
        self.take(counters);
        if !self.is_due(now) {
            return;
        }
        let index = loop {
            let index = (now - self.start - 1) / self.length;
            if index < MOST_WINDOWS as u64 {
                break index as usize;
            }
            self.merge_pairs();
        };
        self.windows.resize(index + 1, TimeWindow::default());
        self.end_of_last = self.start + (index as u64 + 1) * self.length;
    }

    /// Records a completed request.
    ///
    /// # Panics
    /// If the window that contains `now` was not opened, or is already closed.
    #[inline]
    pub fn request(&mut self, now: Picos, op: IoOp, bytes: u32, latency: Picos) {
        // Only the very first window has events at `end_of_last - length`, but a window that was
        // just opened has none to lose.
        assert!(
            now <= self.end_of_last && now >= self.end_of_last - self.length,
            "time {now} ps is not in the window at hand"
        );
        let window = self.windows.last_mut().expect("there is always a window");
        match op {
            IoOp::Read => {
                window.reads += 1;
                window.read_bytes += u64::from(bytes);
                window.read_latency += u128::from(latency);
            }
            IoOp::Write => {
                window.writes += 1;
                window.written_bytes += u64::from(bytes);
                window.write_latency += u128::from(latency);
            }
            IoOp::Flush => {
                window.flushes += 1;
                window.flush_latency += u128::from(latency);
            }
            IoOp::Trim => window.trims += 1,
        }
    }

    /// The windows of a run that ends at `end`, when the scheme has counted `counters`. The last
    /// one is as long as the rest of the run; if that is less than half a window, it is merged into
    /// the one before, as a rate over a short time says little. The rates of a run that took no
    /// time are 0.
    #[must_use]
    pub fn rows(&self, end: Picos, counters: &SchemeCounters) -> Vec<TimeWindow> {
        let mut run = self.clone();
        run.advance(end, counters);
        let (start, length, mut rows) = (run.start, run.length, run.windows);
        for (index, row) in (0..).zip(&mut rows) {
            row.start = start + index * length;
            row.length = length;
        }
        let mut last = rows.pop().expect("there is always a window");
        last.length = end.saturating_sub(last.start);
        match rows.last_mut() {
            Some(before) if last.length < length / 2 => {
                before.length += last.length;
                before.add(&last);
            }
            _ => rows.push(last),
        }
        rows
    }

    fn take(&mut self, counters: &SchemeCounters) {
        let window = self.windows.last_mut().expect("there is always a window");
        let before = &self.counters;
        window.host_page_writes += grown(before.host_page_writes, counters.host_page_writes);
        window.relocated_pages += grown(before.relocated_pages, counters.relocated_pages);
        window.mapping_page_writes +=
            grown(before.mapping_page_writes, counters.mapping_page_writes);
        window.parity_page_writes += grown(before.parity_page_writes, counters.parity_page_writes);
        window.replica_page_writes +=
            grown(before.replica_page_writes, counters.replica_page_writes);
        window.erases += grown(before.erases, counters.erases);
        self.counters.clone_from(counters);
    }

    fn merge_pairs(&mut self) {
        let pairs = self.windows.len().div_ceil(2);
        for index in 0..pairs {
            let mut sum = self.windows[2 * index];
            if let Some(second) = self.windows.get(2 * index + 1) {
                sum.add(second);
            }
            self.windows[index] = sum;
        }
        self.windows.truncate(pairs);
        self.length *= 2;
    }
}

fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).expect("a scheme's counters never go down")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(host_page_writes: u64) -> SchemeCounters {
        SchemeCounters {
            host_page_writes,
            relocated_pages: host_page_writes / 2,
            mapping_page_writes: host_page_writes / 4,
            erases: host_page_writes / 8,
            ..SchemeCounters::default()
        }
    }

    #[test]
    fn rates_are_over_the_windows_length() {
        let mut over_time = OverTime::new(0, PICOS_PER_SECOND, counted(80));
        over_time.request(1, IoOp::Read, 4096, 100_000);
        over_time.request(PICOS_PER_SECOND, IoOp::Read, 4096, 300_000);
        let later = PICOS_PER_SECOND + 1;
        assert!(over_time.is_due(later) && !over_time.is_due(PICOS_PER_SECOND));
        over_time.advance(later, &counted(160));
        over_time.request(later, IoOp::Write, 8192, 500_000);
        over_time.request(later, IoOp::Flush, 0, 700_000);
        over_time.request(later, IoOp::Trim, 4096, 0);
        let rows = over_time.rows(2 * PICOS_PER_SECOND, &counted(160));
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].iops(), rows[0].read_bytes_per_second(), rows[0].mean_read_ns()),
            (2.0, 8192.0, Some(200.0))
        );
        assert_eq!((rows[0].write_amplification(), rows[0].erases), (Some(1.75), 10));
        assert_eq!(
            (rows[1].iops(), rows[1].written_bytes_per_second(), rows[1].mean_write_ns()),
            (1.0, 8192.0, Some(500.0))
        );
        assert_eq!(
            (rows[1].write_amplification(), rows[1].mean_read_ns(), rows[1].trims),
            (None, None, 1)
        );
        assert_eq!((rows[1].flushes, rows[1].mean_flush_ns()), (1, Some(700.0)));
    }

    #[test]
    fn a_run_without_time_has_no_rates() {
        let mut over_time = OverTime::new(7, 10, counted(0));
        over_time.request(7, IoOp::Read, 4096, 0);
        let rows = over_time.rows(7, &counted(1));
        assert_eq!(
            (rows.len(), rows[0].length, rows[0].reads, rows[0].host_page_writes),
            (1, 0, 1, 1)
        );
        assert_eq!((rows[0].iops(), rows[0].read_bytes_per_second()), (0.0, 0.0));
    }

    #[test]
    fn a_short_rest_belongs_to_the_window_before() {
        let mut over_time = OverTime::new(0, 100, counted(0));
        over_time.request(50, IoOp::Read, 1, 1);
        over_time.advance(101, &counted(0));
        over_time.request(101, IoOp::Read, 1, 1);
        let rows = over_time.rows(149, &counted(0));
        assert_eq!(
            rows.iter().map(|row| (row.start, row.length, row.reads)).collect::<Vec<_>>(),
            [(0, 149, 2)]
        );
        let rows = over_time.rows(150, &counted(0));
        assert_eq!(
            rows.iter().map(|row| (row.start, row.length, row.reads)).collect::<Vec<_>>(),
            [(0, 100, 1), (100, 50, 1)]
        );
    }

    #[test]
    fn a_long_pause_keeps_what_was_before_it() {
        let mut over_time = OverTime::new(0, 1, counted(0));
        over_time.request(1, IoOp::Read, 1, 1);
        over_time.advance(PICOS_PER_SECOND, &counted(3));
        over_time.request(PICOS_PER_SECOND, IoOp::Write, 1, 1);
        let rows = over_time.rows(PICOS_PER_SECOND, &counted(3));
        assert!((256..=512).contains(&rows.len()));
        assert_eq!(
            (rows[0].reads, rows[0].host_page_writes, rows[rows.len() - 1].writes),
            (1, 3, 1)
        );
    }

    #[test]
    #[should_panic(expected = "not in the window at hand")]
    fn a_window_that_was_not_opened_is_a_bug() {
        OverTime::new(0, 10, counted(0)).request(11, IoOp::Read, 1, 1);
    }

    proptest! {
        /// Windows follow each other without gap, and count each event once, at its time.
        #[test]
        fn agrees_with_a_list_of_events(
            start in 0..1000_u64,
            first in 1..50_u64,
            steps in prop::collection::vec((0..40_u64, 0..3_u64, 0..400_u32), 1..900),
        ) {
            let (mut now, mut pages) = (start, 5);
            let mut over_time = OverTime::new(start, first, counted(pages));
            let mut events = Vec::new();
            for &(step, written, bytes) in &steps {
                now += step;
                if over_time.is_due(now) {
                    over_time.advance(now, &counted(pages));
                }
                pages += written;
                let op = if bytes % 2 == 0 { IoOp::Read } else { IoOp::Write };
                over_time.request(now, op, bytes, step);
                events.push((now, op, bytes, step, written));
            }
            let rows = over_time.rows(now, &counted(pages));
            prop_assert!(rows.len() <= MOST_WINDOWS);
            prop_assert_eq!(
                (rows[0].start, rows[rows.len() - 1].start + rows[rows.len() - 1].length),
                (start, now)
            );
            prop_assert!(
                rows.windows(2).all(|pair| pair[0].start + pair[0].length == pair[1].start)
            );
            for (index, row) in rows.iter().enumerate() {
                let within = |time: Picos| {
                    time <= row.start + row.length && (time > row.start || index == 0)
                };
                let mine = || events.iter().filter(|event| within(event.0));
                let reads = || mine().filter(|event| event.1 == IoOp::Read);
                prop_assert_eq!(row.reads, reads().count() as u64);
                prop_assert_eq!(
                    row.read_bytes,
                    reads().map(|event| u64::from(event.2)).sum::<u64>()
                );
                prop_assert_eq!(
                    row.read_latency,
                    reads().map(|event| u128::from(event.3)).sum::<u128>()
                );
                prop_assert_eq!(
                    row.writes,
                    mine().filter(|event| event.1 == IoOp::Write).count() as u64
                );
                prop_assert_eq!(row.host_page_writes, mine().map(|event| event.4).sum::<u64>());
            }
            let erases: u64 = rows.iter().map(|row| row.erases).sum();
            prop_assert_eq!(erases, counted(pages).erases - counted(5).erases);
        }
    }
}
