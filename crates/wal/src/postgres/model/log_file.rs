//! The files of the log: what is written to them, and when; their places, which are used again.

use std::collections::VecDeque;

use super::super::log::{Lsn, PAGE_BYTES, Positions};
use super::layout::{Layout, Writes};
use super::settings::Settings;

const PAGE: u64 = PAGE_BYTES as u64;
/// Zeros of a new file are written in pieces of this length.
const MAKE_BYTES: u64 = 1 << 20;
/// Guess of the distance of checkpoints: a longer one counts at once, a shorter one by a tenth.
const DISTANCE_KEPT: f64 = 0.90;
/// As many segments are kept as two checkpoints need, and a tenth more.
const SLACK: f64 = 1.10;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub bytes: u64,
    pub made_bytes: u64,
    pub flushes: u64,
}

/// Places of segments on the disk (`XLOGfileslop`, `RemoveOldXlogFiles`).
struct Places {
    /// Segments in use: number and place, the oldest first.
    used: VecDeque<(u64, u32)>,
    /// Places that wait for the next segments.
    ahead: VecDeque<u32>,
    /// Places of files that were removed.
    free: Vec<u32>,
    count: u32,
    distance: f64,
    last_redo: Lsn,
}

impl Places {
    fn new(segment: u64, ahead: u32, redo: Lsn) -> Self {
        Self {
            used: VecDeque::from([(segment, 0)]),
            ahead: (1..=ahead).collect(),
            free: Vec::new(),
            count: ahead + 1,
            distance: 0.0,
            last_redo: redo,
        }
    }

    fn last(&self) -> (u64, u32) {
        self.used.back().copied().unwrap_or_default()
    }

    /// Place of a segment that follows; true if a file is made for it.
    fn open(&mut self, segment: u64) -> (u32, bool) {
        let again = self.ahead.pop_front();
        let place = again.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        self.used.push_back((segment, place));
        (place, again.is_none())
    }

    /// A checkpoint has ended: what lies before its redo point is used again, or removed.
    fn checkpoint(&mut self, redo: Lsn, end: Lsn, settings: &Settings, segment_bytes: u64) {
        let passed = (redo.0 - self.last_redo.0) as f64;
        self.last_redo = redo;
        self.distance = if self.distance < passed {
            passed
        } else {
            DISTANCE_KEPT * self.distance + (1.0 - DISTANCE_KEPT) * passed
        };
        let segment = |lsn: u64| lsn / segment_bytes;
        let segments = |bytes: u64| (bytes / segment_bytes).max(1);
        let wanted = (1.0 + settings.checkpoint_completion_target) * self.distance * SLACK;
        let wanted = ((redo.0 as f64 + wanted) / segment_bytes as f64).ceil() as u64;
        let least = segment(redo.0) + segments(settings.min_wal_size) - 1;
        let most = segment(redo.0) + segments(settings.max_wal_size) - 1;
        // The server applies the most last: it counts where the least is above it.
        let upto = wanted.max(least).min(most);
        let kept = segment(end.0).saturating_sub(settings.wal_keep_size / segment_bytes);
        let before = segment(redo.0).min(kept);
        while self.used.len() > 1 && self.used[0].0 < before {
            let Some((_, place)) = self.used.pop_front() else { break };
            if self.last().0 + (self.ahead.len() as u64) < upto {
                self.ahead.push_back(place);
            } else {
                self.free.push(place);
            }
        }
    }
}

/// The files.
pub(super) struct LogFile {
    positions: Positions,
    places: Places,
    /// End of what was written; the page that it lies in is written again.
    written: Lsn,
    /// End of the last commit.
    committed: Lsn,
    /// Time of a flush that commits wait for.
    pub waiting: Option<i64>,
    /// End of the last flush.
    busy_until: i64,
}

/// What a write of the log goes to.
pub(super) struct To<'a> {
    pub layout: &'a Layout,
    pub writes: &'a mut dyn Writes,
    /// Time, and whether it is of the recorded time.
    pub time_ns: Option<u64>,
    pub amounts: &'a mut Amounts,
}

impl LogFile {
    pub fn new(positions: Positions, at: Lsn, ahead: u32) -> Self {
        let segment = at.0 / positions.segment_bytes;
        Self {
            positions,
            places: Places::new(segment, ahead, at),
            written: at,
            committed: at,
            waiting: None,
            busy_until: i64::MIN,
        }
    }

    /// Number of places so far.
    pub fn places(&self) -> u32 {
        self.places.count
    }

    /// A transaction has committed; gives the time at which it is flushed, if it is not yet known.
    pub fn commit(&mut self, now_us: i64, end: Lsn, settings: &Settings) {
        self.committed = end;
        if settings.synchronous_commit && self.waiting.is_none() {
            self.waiting = Some((now_us + settings.commit_delay_us).max(self.busy_until));
        }
    }

    /// Flushes what has committed.
    pub fn flush_commits(&mut self, now_us: i64, settings: &Settings, to: &mut To<'_>) {
        self.waiting = None;
        self.busy_until = now_us + settings.flush_us;
        if self.committed > self.written {
            self.write(self.committed, to);
        }
    }

    /// A round of the log writer (`XLogBackgroundFlush`): whole pages, or the rest if commits do
    /// not wait.
    pub fn background(&mut self, end: Lsn, settings: &Settings, to: &mut To<'_>) {
        let whole = Lsn(end.0 / PAGE * PAGE);
        if whole > self.written {
            self.write(whole, to);
        } else if !settings.synchronous_commit && self.committed > self.written {
            self.write(self.committed, to);
        }
    }

    /// A checkpoint has ended: its record is flushed, and old segments are used again.
    pub fn checkpoint(&mut self, redo: Lsn, end: Lsn, settings: &Settings, to: &mut To<'_>) {
        if end > self.written {
            self.write(end, to);
        }
        self.places.checkpoint(redo, end, settings, self.positions.segment_bytes);
    }

    /// Writes pages up to a place, and flushes; a segment is flushed when it is full.
    fn write(&mut self, end: Lsn, to: &mut To<'_>) {
        let segment_bytes = self.positions.segment_bytes;
        let (mut from, upto) = (self.written.0 / PAGE * PAGE, end.0.next_multiple_of(PAGE));
        self.written = end;
        while from < upto {
            let segment = from / segment_bytes;
            let place = if segment > self.places.last().0 {
                self.open(segment, to)
            } else {
                self.places.last().1
            };
            let at = from % segment_bytes;
            let length = (upto - from).min(segment_bytes - at);
            if let Some(time_ns) = to.time_ns {
                to.amounts.bytes += length;
                to.amounts.flushes += 1;
                to.writes.take(true, to.layout.log(time_ns, place, at, length as u32));
                to.writes.take(true, to.layout.log_flush(time_ns, place));
            }
            from += length;
        }
    }

    /// Goes on with the next segment.
    fn open(&mut self, segment: u64, to: &mut To<'_>) -> u32 {
        let (place, is_made) = self.places.open(segment);
        if let Some(time_ns) = to.time_ns.filter(|_| is_made) {
            let segment_bytes = self.positions.segment_bytes;
            to.amounts.made_bytes += segment_bytes;
            for at in (0..segment_bytes).step_by(MAKE_BYTES as usize) {
                to.writes.take(true, to.layout.log(time_ns, place, at, MAKE_BYTES as u32));
            }
            to.writes.take(true, to.layout.log_flush(time_ns, place));
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_once_a_checkpoint_has_passed_them() {
        let (segment_bytes, settings) = (
            1 << 20,
            Settings { min_wal_size: 2 << 20, max_wal_size: 8 << 20, ..Settings::default() },
        );
        let mut places = Places::new(10, 1, Lsn(10 << 20));
        assert_eq!(places.open(11), (1, false));
        assert_eq!(places.open(12), (2, true), "nothing is left: a file is made");
        places.checkpoint(Lsn(12 << 20), Lsn(12 << 20), &settings, segment_bytes);
        // The next checkpoint is thought to be two segments away, times 1.9 and 1.1: places up
        // to segment 17 are kept.
        assert_eq!((places.open(13), places.open(14)), ((0, false), (1, false)));
        assert_eq!(places.count, 3);
        places.open(15);
        let keep = Settings { wal_keep_size: 64 << 20, ..settings };
        places.checkpoint(Lsn(15 << 20), Lsn(15 << 20), &keep, segment_bytes);
        assert!(places.ahead.is_empty(), "what is to be kept is not used again");
    }

    #[test]
    fn a_least_size_above_the_most_does_not_keep_more_files() {
        let (segment_bytes, settings) = (
            1 << 20,
            Settings { min_wal_size: 5 << 20, max_wal_size: 4 << 20, ..Settings::default() },
        );
        let mut places = Places::new(10, 0, Lsn(10 << 20));
        for segment in 11..=14 {
            places.open(segment);
        }
        // Files are kept up to the third segment behind the redo point: one of two.
        places.checkpoint(Lsn(12 << 20), Lsn((15 << 20) - 1), &settings, segment_bytes);
        assert_eq!(places.open(15), (0, false));
        assert_eq!(places.open(16), (1, true), "a file is made in the place of the other");
    }
}
