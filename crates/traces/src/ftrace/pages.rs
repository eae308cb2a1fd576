//! The stream of one processor: pages of the kernel's ring buffer, as `trace_pipe_raw` gives them.
//!
//! A page has the time of its first event, the number of bytes that are used, and events. An event
//! begins with a word of 5 bits `type_len` and 27 bits of time since the event before (Linux
//! kernel/trace/ring_buffer.c, include/linux/ring_buffer.h).

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::format::PageLayout;
use crate::error::{Bad, Place, TraceError};

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// An absolute time has no room for the highest 5 bits of a clock: they are those of the page.
const ABSOLUTE_BITS: u32 = 59;
/// In `commit`: bytes used; events were lost before this page; how many stands behind the last
/// event.
const USED_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events between two looks at whether to stop.
pub(super) const REPORT_EVENTS: u64 = 1 << 16;

/// The pages of each processor, with the name to say where one is wrong.
pub(super) type Inputs = Vec<(PathBuf, Box<dyn Read + Send>)>;

/// Opens the file of each processor.
///
/// # Errors
/// [`TraceError::Io`].
pub(super) fn open_all(paths: &[PathBuf]) -> Result<Inputs, TraceError> {
    let open = |path: &PathBuf| -> Result<(PathBuf, Box<dyn Read + Send>), TraceError> {
        let path = path.clone();
        match File::open(&path) {
            Ok(file) => Ok((path, Box::new(file))),
            Err(source) => Err(TraceError::Io { path, doing: "open", offset: 0, source }),
        }
    };
    paths.iter().map(open).collect()
}

/// Losses from one processor's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Pages before which the kernel has thrown events away.
    pub gaps: u64,
    /// Events thrown away, as far as the pages tell.
    pub missed_events: u64,
    /// Bytes at the end that are no whole page: the copier was ended by force.
    pub cut_bytes: u64,
}

impl Losses {
    /// Adds those of another processor.
    pub(super) fn add(&mut self, other: Self) {
        self.gaps += other.gaps;
        self.missed_events = self.missed_events.saturating_add(other.missed_events);
        self.cut_bytes += other.cut_bytes;
    }
}

/// Reads the events of one processor, in order.
pub(super) struct CpuPages {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    layout: PageLayout,
    page: Vec<u8>,
    /// Offset of `page` in the file, and of the next page.
    page_at: u64,
    next_page_at: u64,
    at: usize,
    end: usize,
    time_ns: u64,
    pub(super) losses: Losses,
}

/// Next item of a stream.
pub(super) enum Next {
    /// Events were lost before `time_ns`.
    Gap {
        time_ns: u64,
    },
    /// An event: its time, and where its data are in the page.
    Event {
        time_ns: u64,
        data: std::ops::Range<usize>,
    },
    End,
}

impl CpuPages {
    pub(super) fn new(path: &Path, input: Box<dyn Read + Send>, layout: PageLayout) -> Self {
        let losses = Losses::default();
        Self {
            path: path.to_owned(),
            input,
            layout,
            page: Vec::new(),
            page_at: 0,
            next_page_at: 0,
            at: 0,
            end: 0,
            time_ns: 0,
            losses,
        }
    }

    pub(super) fn data(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.page[range]
    }

    pub(super) fn malformed(&self, bad: Bad) -> TraceError {
        let (reason, right) = bad.into_parts();
        let place = Place::Byte(self.page_at + self.at as u64);
        TraceError::Malformed { path: self.path.clone(), place, reason, right, skipped: 0 }
    }

    /// Reads on to the next event or gap.
    pub(super) fn next(&mut self) -> Result<Next, TraceError> {
        loop {
            while self.at < self.end {
                if let Some(data) = self.event().map_err(|bad| self.malformed(bad))? {
                    return Ok(Next::Event { time_ns: self.time_ns, data });
                }
            }
            match self.read_page()? {
                None => return Ok(Next::End),
                Some(true) => return Ok(Next::Gap { time_ns: self.time_ns }),
                Some(false) => {}
            }
        }
    }

    /// Reads the next page; tells whether events were lost before it, `None` at the end.
    fn read_page(&mut self) -> Result<Option<bool>, TraceError> {
        self.page_at = self.next_page_at;
        (self.at, self.end) = (0, 0);
        self.page.resize(self.layout.page_bytes, 0);
        let mut have = 0;
        while have < self.page.len() {
            match self.input.read(&mut self.page[have..]) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.page_at + have as u64;
                    return Err(TraceError::Io {
                        path: self.path.clone(),
                        doing: "read",
                        offset,
                        source,
                    });
                }
            }
        }
        if have < self.page.len() {
            self.losses.cut_bytes = have as u64;
            return Ok(None);
        }
        self.next_page_at += have as u64;
        let layout = self.layout;
        let head = |value: Option<u64>| {
            value.unwrap_or_else(|| unreachable!("the head lies before the data, in the page"))
        };
        let (timestamp, commit) =
            (head(layout.timestamp.get(&self.page)), head(layout.commit.get(&self.page)));
        let end = layout.data_at + (commit & USED_MASK) as usize;
        if end > self.page.len() {
            let reason = format!(
                "a page of {} bytes that uses {} for data",
                self.page.len(),
                commit & USED_MASK
            );
            return Err(self.malformed(Bad::new(reason, "pages as trace_pipe_raw gives them")));
        }
        (self.at, self.end, self.time_ns) = (layout.data_at, end, timestamp);
        if commit & MISSED_EVENTS == 0 {
            return Ok(Some(false));
        }
        self.losses.gaps += 1;
        if commit & MISSED_STORED != 0
            && let Some(count) = self.page.get(end..end + 8)
        {
            let count = count.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            self.losses.missed_events = self.losses.missed_events.saturating_add(count);
        }
        Ok(Some(true))
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.page[..self.end].get(at..at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Goes over one event; gives its data if it is more than time or padding.
    fn event(&mut self) -> Result<Option<std::ops::Range<usize>>, Bad> {
        const RIGHT: &str = "whole events up to the end of what the page uses";
        let short = |what: &str| Bad::new(format!("the page ends within {what}"), RIGHT);
        let head = self.word(self.at).ok_or_else(|| short("the head of an event"))?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        // The second word: a length, or the upper bits of a time.
        let second = self.word(self.at + 4);
        let (length, data_at) = match kind {
            PADDING if delta == 0 => {
                self.at = self.end;
                return Ok(None);
            }
            TIME_EXTEND | TIME_STAMP => {
                let time = u64::from(second.ok_or_else(|| short("a time"))?) << DELTA_BITS | delta;
                self.time_ns = if kind == TIME_EXTEND {
                    self.time_ns.wrapping_add(time)
                } else {
                    time & ((1 << ABSOLUTE_BITS) - 1)
                        | self.time_ns >> ABSOLUTE_BITS << ABSOLUTE_BITS
                };
                self.at += 8;
                return Ok(None);
            }
            // The length of a discarded event and of a long one counts the word that it stands in.
            PADDING | 0 => (second.ok_or_else(|| short("a length"))? as usize, self.at + 8),
            words => (4 * words as usize, self.at + 4),
        };
        let next = self.at.saturating_add(4).saturating_add(length.next_multiple_of(4));
        if next > self.end || next < data_at {
            return Err(Bad::new(
                format!(
                    "an event of {length} bytes, and {} are left in the page",
                    self.end - self.at
                ),
                RIGHT,
            ));
        }
        self.time_ns = self.time_ns.wrapping_add(delta);
        self.at = next;
        Ok((kind != PADDING).then_some(data_at..next))
    }
}
