//! Common parts of all readers of trace files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use units::{IoOp, IoRequest, Nanos};

use crate::error::{Bad, Place, TraceError};

/// Streams the requests of a trace, in the order of the file.
pub trait TraceReader: Send {
    /// Appends at most `max` requests to `out` and returns how many: 0 only at the end (or if `max`
    /// is 0).
    ///
    /// # Errors
    /// [`TraceError::Malformed`] for the first malformed record beyond those allowed,
    /// [`TraceError::Io`] if the file cannot be read on. After an error the reader must not be used
    /// further.
    fn read_batch(&mut self, out: &mut Vec<IoRequest>, max: usize) -> Result<usize, TraceError>;

    /// Gives the facts known so far; complete after the last batch.
    fn facts(&self) -> Facts;

    /// Files that are read besides the one that was opened.
    fn more_files(&self) -> &[PathBuf] {
        &[]
    }

    /// Gives the place behind the last request read, if another reader of the same file can go on
    /// there without reading what lies before.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// Goes to a mark, before anything was read. What it gives from then on, requests and facts, is
    /// what the reader that set the mark would have given.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the file cannot be read up to there.
    fn go_to(&mut self, _mark: &Mark) -> Result<(), TraceError> {
        unreachable!("only a reader that gives marks is sent to one")
    }
}

/// A place between two requests of a trace, and what a reader knew there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Bytes before it, after decompression.
    pub bytes: u64,
    /// Lines before it.
    pub lines: u64,
    /// Lines, of these, that were not malformed.
    pub good_lines: u64,
    /// Malformed records, by what would have been right.
    pub malformed: BTreeMap<Cow<'static, str>, u64>,
    /// As [`Facts::clamped_times`].
    pub clamped_times: u64,
    /// As [`Facts::unseen_reversals`].
    pub unseen_reversals: u64,
    /// Time of the first request as the reader counts it.
    pub start: Option<Nanos>,
    /// True if a time after the first one's was read.
    pub has_advanced: bool,
}

/// Facts about a trace besides its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Malformed records that were passed over.
    pub skipped: u64,
    /// Requests whose time lay before that of the first request: their time is 0.
    pub clamped_times: u64,
    /// Requests, of these, whose times go back, and do not any more once they are 0.
    pub unseen_reversals: u64,
    /// Time of the first request on the file's own clock, in nanoseconds; `None` if it is not
    /// known.
    pub start_ns: Option<u64>,
    /// True if the format tells no times, so that [`IoRequest::time_ns`] only counts requests.
    pub timeless: bool,
    /// True if [`IoRequest::stream`] names a disk or volume, so that equal offsets of two streams
    /// are different places.
    pub streams_are_volumes: bool,
    /// Records that were left out or taken for something else, by reason.
    pub left_out: Tally,
    /// Events that whoever recorded the trace lost, as far as it says.
    pub lost_events: u64,
    /// Warnings to heed before its figures are believed, a sentence each; for people.
    pub warnings: Vec<String>,
}

/// Numbers of records, by reason.
pub type Tally = BTreeMap<Cow<'static, str>, u64>;

/// Counts one more record.
pub(crate) fn count(tally: &mut Tally, reason: &'static str) {
    *tally.entry(Cow::Borrowed(reason)).or_default() += 1;
}

/// Reason for which a last record that is not whole is counted: it is no error, as the recording
/// was stopped.
pub(crate) const CUT: &str = "record cut off at the end of the file";

impl Facts {
    /// Counts records that were cut off at the end of a file, and says so.
    pub(crate) fn tell_cut(&mut self, records: u64) {
        if records > 0 {
            *self.left_out.entry(Cow::Borrowed(CUT)).or_default() += records;
            self.warnings.push(format!(
                "its end is missing: {} cut off, as when the recorder is killed or a copy stops",
                if records == 1 { "the last record is" } else { "the last records of files are" }
            ));
        }
    }

    /// Counts the events that were lost, and says so.
    pub(crate) fn tell_lost(&mut self, events: u64, how: &str) {
        if events > 0 {
            self.lost_events += events;
            self.warnings.push(format!(
                "about {events} events are missing{how}: counts and bytes are too low"
            ));
        }
    }
}

/// Counts malformed records up to a limit and makes errors of those beyond.
#[derive(Debug)]
pub(crate) struct BadRecords {
    path: PathBuf,
    limit: u64,
    pub(crate) skipped: u64,
    /// The skipped ones, by what would have been right.
    pub(crate) by_right: BTreeMap<Cow<'static, str>, u64>,
}

impl BadRecords {
    pub(crate) fn new(path: &Path, limit: u64) -> Self {
        Self { path: path.to_owned(), limit, skipped: 0, by_right: BTreeMap::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Counts what was passed over before a mark.
    pub(crate) fn go_to(&mut self, mark: &Mark) {
        self.by_right = mark.malformed.clone();
        self.skipped = self.by_right.values().sum();
    }

    #[cold]
    pub(crate) fn pass(&mut self, place: Place, bad: Bad) -> Result<(), TraceError> {
        let (reason, right) = bad.into_parts();
        if self.skipped == self.limit {
            return Err(TraceError::Malformed {
                path: self.path.clone(),
                place,
                reason,
                right,
                skipped: self.skipped,
            });
        }
        self.skipped += 1;
        *self.by_right.entry(Cow::Borrowed(right)).or_default() += 1;
        Ok(())
    }

    /// Adds what was skipped to the facts.
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.skipped += self.skipped;
        for (right, records) in &self.by_right {
            let reason = format!("malformed, right would be {right}");
            *facts.left_out.entry(Cow::Owned(reason)).or_default() += records;
        }
    }
}

/// Moves times so that the first request is at 0.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) start: Option<Nanos>,
    pub(crate) clamped: u64,
    /// Clamped times that follow no time later than the first one's: set to 0, they do not go back
    /// any more.
    pub(crate) unseen_reversals: u64,
    has_advanced: bool,
}

impl Clock {
    /// Notes what it knows.
    pub(crate) fn tell(&self, mark: &mut Mark) {
        mark.start = self.start;
        mark.clamped_times = self.clamped;
        mark.unseen_reversals = self.unseen_reversals;
        mark.has_advanced = self.has_advanced;
    }

    /// A clock that knows what one knew at a mark.
    pub(crate) fn at(mark: &Mark) -> Self {
        Self {
            start: mark.start,
            clamped: mark.clamped_times,
            unseen_reversals: mark.unseen_reversals,
            has_advanced: mark.has_advanced,
        }
    }

    #[inline]
    pub(crate) fn rebase(&mut self, requests: &mut [IoRequest]) {
        for request in requests {
            let start = *self.start.get_or_insert(request.time_ns);
            let goes_back = request.time_ns < start;
            self.clamped += u64::from(goes_back);
            self.unseen_reversals += u64::from(goes_back && !self.has_advanced);
            self.has_advanced |= request.time_ns > start;
            request.time_ns = request.time_ns.saturating_sub(start);
        }
    }
}

/// A request from parts that a file gave, checked as every reader must.
#[inline]
pub(crate) fn checked(
    time_ns: Nanos,
    op: IoOp,
    offset: u64,
    length: u64,
    stream: u32,
) -> Result<IoRequest, Bad> {
    if op == IoOp::Flush {
        return Ok(IoRequest {
            time_ns,
            op,
            offset: 0,
            length: 0,
            stream,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        });
    }
    let Ok(length) = u32::try_from(length) else {
        return Err(Bad::new(format!("length is {length} bytes"), "less than 4 GiB"));
    };
    if length == 0 {
        return Err(Bad::new(
            format!("a {} of length 0", op.name()),
            "at least 1 byte (only a flush has none)",
        ));
    }
    if offset.checked_add(u64::from(length)).is_none() {
        return Err(Bad::new(
            format!("offset {offset} + length {length} is beyond 2^64"),
            "a range below 2^64 bytes",
        ));
    }
    Ok(IoRequest {
        time_ns,
        op,
        offset,
        length,
        stream,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    })
}

/// Sectors as bytes, checked.
#[inline]
pub(crate) fn sectors(name: &'static str, count: u64, sector_bytes: u64) -> Result<u64, Bad> {
    count
        .checked_mul(sector_bytes)
        .ok_or_else(|| Bad::new(format!("{name} is {count} sectors"), "a range below 2^64 bytes"))
}
