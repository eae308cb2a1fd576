//! Read-ahead: prediction of the pages that the host will read next.

use std::ops::Range;

use crate::drive::profile::{Detector, ReadAheadConfig};

/// Counters of read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadCounters {
    /// Reads observed.
    pub requests: u64,
    /// Reads that continued a known stream.
    pub in_sequence: u64,
    /// Pages to be fetched.
    pub pages: u64,
    /// Streams that had pages fetched ahead and were then replaced by another one.
    pub lost_streams: u64,
}

/// A run of reads, each beginning where the one before ended.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Byte at which it would continue. Meaningless for a stream that is not in use, whose
    /// `requests` is 0.
    next: u64,
    /// End of the pages fetched ahead; 0 if none were.
    fetched_until: u32,
    /// Requests so far.
    requests: u32,
    /// Number of its last request, counted over all streams.
    used_at: u64,
}

/// Detects sequential streams, and chooses the pages to fetch ahead of them.
///
/// A stream counts from its `trigger_requests`-th request on (the first counts; 0 is taken for 1):
/// from then on all whole pages that end within `window_bytes` beyond its last request are fetched,
/// so the window advances with it. No page is named twice for one stream. Two streams over the same
/// pages name them once each: [`super::ReadCache::expect`] refuses the second time.
///
/// Writes do not disturb it, and it does not learn of fetched pages that are evicted before they
/// were read.
///
/// - `last_request` knows one stream: a read that begins anywhere but where the last one ended
///   begins a new one, so interleaved streams spoil each other (PARALLELISM 5.3).
/// - `table` knows `streams` of them (0 is taken for 1), and replaces the least recently used. A
///   read that begins within the pages fetched ahead of a stream, beyond its last request, is in
///   sequence as well. The stream is found by comparing all.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    trigger_requests: u32,
    window_bytes: u64,
    page_bytes: u64,
    logical_pages: u32,
    /// True if a read may skip ahead within the window.
    may_skip: bool,
    /// Empty if there is no read-ahead.
    streams: Vec<Stream>,
    counters: ReadAheadCounters,
}

impl ReadAhead {
    /// Makes the read-ahead of a drive of `logical_pages` pages of `page_bytes`.
    ///
    /// # Panics
    /// If a page has no bytes: a bug of the caller.
    #[must_use]
    pub fn new(config: &ReadAheadConfig, page_bytes: u32, logical_pages: u32) -> Self {
        assert!(page_bytes > 0, "a page has bytes");
        let streams = match config.detector {
            Detector::None => 0,
            Detector::LastRequest => 1,
            Detector::Table => config.streams.max(1),
        };
        Self {
            trigger_requests: config.trigger_requests.max(1),
            window_bytes: config.window_bytes,
            page_bytes: u64::from(page_bytes),
            logical_pages,
            may_skip: config.detector == Detector::Table,
            streams: vec![Stream::default(); streams as usize],
            counters: ReadAheadCounters::default(),
        }
    }

    /// Returns true if the drive has read-ahead.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Counters since the drive was made.
    #[must_use]
    pub const fn counters(&self) -> ReadAheadCounters {
        self.counters
    }

    /// Observes a read of `bytes` from byte `offset` on. Gives the logical pages to fetch now,
    /// never an empty range: all lie beyond the request and within the drive.
    pub fn observe(&mut self, offset: u64, bytes: u32) -> Option<Range<u32>> {
        if !self.is_on() {
            return None;
        }
        self.counters.requests += 1;
        let index = match self.find(offset) {
            Some(index) => {
                self.counters.in_sequence += 1;
                index
            }
            None => self.begin(),
        };
        let end = offset + u64::from(bytes);
        let stream = &mut self.streams[index];
        stream.next = end;
        stream.requests = stream.requests.saturating_add(1);
        stream.used_at = self.counters.requests;
        if stream.requests < self.trigger_requests {
            return None;
        }
        let first = end.div_ceil(self.page_bytes).max(u64::from(stream.fetched_until));
        let last = (end.saturating_add(self.window_bytes) / self.page_bytes)
            .min(u64::from(self.logical_pages));
        if first >= last {
            return None;
        }
        stream.fetched_until = last as u32;
        self.counters.pages += last - first;
        Some(first as u32..last as u32)
    }

    fn find(&self, offset: u64) -> Option<usize> {
        let mut skipping = None;
        for (index, stream) in self.streams.iter().enumerate() {
            if stream.requests == 0 {
                continue;
            }
            if stream.next == offset {
                return Some(index);
            }
            let fetched_until = u64::from(stream.fetched_until) * self.page_bytes;
            if self.may_skip && skipping.is_none() && stream.next < offset && offset < fetched_until
            {
                skipping = Some(index);
            }
        }
        skipping
    }

    /// Makes the least recently used entry a new stream.
    fn begin(&mut self) -> usize {
        let mut index = 0;
        for (candidate, stream) in self.streams.iter().enumerate() {
            if stream.used_at < self.streams[index].used_at {
                index = candidate;
            }
        }
        self.counters.lost_streams += u64::from(self.streams[index].fetched_until > 0);
        self.streams[index] = Stream::default();
        index
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ReadAhead;
    use crate::drive::profile::{Detector, ReadAheadConfig};

    const PAGE: u32 = 4096;

    fn read_ahead(detector: Detector, streams: u32) -> ReadAhead {
        let config = ReadAheadConfig {
            detector,
            trigger_requests: 2,
            window_bytes: 8 * u64::from(PAGE),
            streams,
        };
        ReadAhead::new(&config, PAGE, 10_000)
    }

    /// Reads a page at each of the places in turn, each continuing its own sequence. Gives the
    /// number of pages fetched ahead.
    fn pages_of_streams(subject: &mut ReadAhead, streams: u64, rounds: u64) -> u64 {
        for round in 0..rounds {
            for stream in 0..streams {
                let _ = subject.observe((stream * 1000 + round) * u64::from(PAGE), PAGE);
            }
        }
        subject.counters().pages
    }

    #[test]
    fn one_stream_is_found_by_both() {
        for detector in [Detector::LastRequest, Detector::Table] {
            let mut subject = read_ahead(detector, 4);
            assert_eq!(subject.observe(0, PAGE), None, "{detector:?}: one request is no sequence");
            assert_eq!(
                subject.observe(u64::from(PAGE), PAGE),
                Some(2..10),
                "{detector:?}: the window is opened"
            );
            assert_eq!(
                subject.observe(2 * u64::from(PAGE), PAGE),
                Some(10..11),
                "{detector:?}: it advances"
            );
            assert_eq!(
                subject.observe(3 * u64::from(PAGE), 2 * PAGE),
                Some(11..13),
                "{detector:?}: by as much as was read"
            );
        }
    }

    #[test]
    fn mixed_streams_spoil_only_the_simple_detector() {
        assert_eq!(pages_of_streams(&mut read_ahead(Detector::LastRequest, 0), 1, 100), 98 + 8);
        assert_eq!(pages_of_streams(&mut read_ahead(Detector::LastRequest, 0), 2, 100), 0);
        assert_eq!(pages_of_streams(&mut read_ahead(Detector::Table, 4), 4, 100), 4 * (98 + 8));
        assert_eq!(
            pages_of_streams(&mut read_ahead(Detector::Table, 4), 5, 100),
            0,
            "one stream more than the table has"
        );
    }

    #[test]
    fn a_read_within_the_window_goes_on_in_the_table_only() {
        for (detector, goes_on) in [(Detector::LastRequest, false), (Detector::Table, true)] {
            let mut subject = read_ahead(detector, 1);
            let _ = subject.observe(0, PAGE);
            let _ = subject.observe(u64::from(PAGE), PAGE);
            assert_eq!(
                subject.observe(5 * u64::from(PAGE), PAGE),
                goes_on.then_some(10..14),
                "{detector:?}"
            );
        }
    }

    #[test]
    fn small_reads_name_each_page_once_and_never_their_own() {
        let mut subject = read_ahead(Detector::LastRequest, 0);
        assert_eq!(subject.observe(0, 1024), None);
        // Ends at byte 2048; 8 pages further is in the middle of page 8, which is not fetched yet.
        assert_eq!(subject.observe(1024, 1024), Some(1..8));
        assert_eq!(subject.observe(2048, 1024), None);
        assert_eq!(subject.observe(3072, 1024), Some(8..9));
    }

    #[test]
    fn nothing_is_fetched_beyond_the_drive_or_without_a_detector() {
        let mut subject = read_ahead(Detector::LastRequest, 0);
        assert_eq!(subject.observe(9_997 * u64::from(PAGE), PAGE), None);
        assert_eq!(subject.observe(9_998 * u64::from(PAGE), PAGE), Some(9_999..10_000));
        assert_eq!(subject.observe(9_999 * u64::from(PAGE), PAGE), None);
        let mut off = read_ahead(Detector::None, 4);
        assert!(!off.is_on());
        assert_eq!(pages_of_streams(&mut off, 1, 10), 0);
    }

    proptest! {
        /// Reads at random of a few streams: what is fetched for a stream is a run without gap or
        /// repetition, right beyond its reads.
        #[test]
        fn the_table_fetches_every_stream_as_if_it_were_alone(
            reads in prop::collection::vec((0u64..4, 1u32..20_000), 1..200),
            trigger in 0u32..4,
            window in 0u64..100_000,
        ) {
            let config = ReadAheadConfig {
                detector: Detector::Table,
                trigger_requests: trigger,
                window_bytes: window,
                streams: 4,
            };
            let alone = ReadAheadConfig { detector: Detector::LastRequest, ..config.clone() };
            // Streams are 400 MB apart, so they do not meet.
            let logical_pages = 400_000;
            let mut mixed = ReadAhead::new(&config, PAGE, logical_pages);
            let mut lone: Vec<_> =
                (0..4).map(|_| ReadAhead::new(&alone, PAGE, logical_pages)).collect();
            let mut places: Vec<u64> = (0..4).map(|stream| stream * 400_000_000).collect();
            let mut until = [0u32; 4];
            for (stream, bytes) in reads {
                let place = &mut places[stream as usize];
                let fetched = mixed.observe(*place, bytes);
                prop_assert_eq!(&fetched, &lone[stream as usize].observe(*place, bytes));
                *place += u64::from(bytes);
                if let Some(pages) = fetched {
                    prop_assert!(pages.start < pages.end && pages.start >= until[stream as usize]);
                    prop_assert!(u64::from(pages.start) * u64::from(PAGE) >= *place);
                    prop_assert!(u64::from(pages.end) * u64::from(PAGE) <= *place + window);
                    until[stream as usize] = pages.end;
                }
            }
        }
    }
}
