//! Reads the records of a log, one after another.

use std::path::{Path, PathBuf};

use crc32c::{crc32c, crc32c_append};

use super::error::WalError;
use super::pages::Pages;
use super::positions::{Lsn, PAGE_BYTES};
use super::record::{Block, HEADER_BYTES, Record, read_headers, rmgr, xlog};
use super::segments::Log;

/// A longer record is none (`XLogRecordMaxSize`).
const LONGEST_BYTES: u64 = 1020 << 20;
const CRC_AT: usize = 20;

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The place behind the last record.
    pub lsn: Lsn,
    /// The file that holds it.
    pub path: PathBuf,
    /// The byte of that file.
    pub offset: u64,
    /// Reason, if a record is torn there, as a server leaves it that still runs or was killed.
    pub torn: Option<String>,
}

/// Reads records. Holds the pages of the record that is read, and half a mebibyte.
pub struct Reader {
    pages: Pages,
    /// Index of the next record in the bytes of the pages.
    at: usize,
    before: Option<Lsn>,
    until: Lsn,
    blocks: Vec<Block>,
    end: Option<End>,
    has_checksums: bool,
}

/// The next record, as it lies in the pages.
struct Found {
    lsn: Lsn,
    bytes: usize,
    main_length: u32,
}

/// Whether the pages of a record are there.
enum Whole {
    Yes,
    /// The server gave it up, and went on behind it.
    GivenUp,
    /// The pages say that it is none.
    Not(String),
    /// The log ends before.
    Torn(String),
}

impl Reader {
    /// Begins with the segment that holds `from`, at its first record, which may lie before
    /// `from`; without it at the first segment. Ends with the last record that begins before
    /// `until`.
    ///
    /// # Errors
    /// [`WalError`].
    pub fn open(folder: &Path, from: Option<Lsn>, until: Option<Lsn>) -> Result<Self, WalError> {
        let mut pages = Pages::new(Log::open(folder, from)?);
        pages.fill(0)?;
        let mut reader = Self {
            pages,
            at: 0,
            before: None,
            until: until.unwrap_or(Lsn(u64::MAX)),
            blocks: Vec::with_capacity(64),
            end: None,
            has_checksums: true,
        };
        let rest = (u64::from(reader.pages.rest_of_first()) + 7) & !7;
        reader.skip_to(reader.pages.start + rest)?;
        Ok(reader)
    }

    /// Takes checksums to be right, for who has read the log before.
    #[must_use]
    pub fn read_before(self) -> Self {
        Self { has_checksums: false, ..self }
    }

    /// The log that is read.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.pages.log
    }

    /// The end of the log, once it was reached.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`WalError::Damaged`] if the log goes on behind something that is no record,
    /// [`WalError::Io`].
    #[allow(clippy::should_implement_trait, reason = "records are borrowed")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, WalError> {
        let Some(found) = self.find()? else { return Ok(None) };
        let bytes = &self.pages.bytes[self.at..self.at + found.bytes];
        self.at = (self.at + found.bytes + 7) & !7;
        Ok(Some(Record {
            lsn: found.lsn,
            bytes,
            rmgr: bytes[17],
            info: bytes[16],
            blocks: &self.blocks,
            main_length: found.main_length,
        }))
    }

    /// Goes on at a position, reading over what lies before it.
    fn skip_to(&mut self, position: u64) -> Result<(), WalError> {
        loop {
            let there = (position - self.pages.start) as usize;
            if there <= self.pages.bytes.len() {
                self.at = there;
                return Ok(());
            }
            if !self.pages.fill(self.pages.bytes.len())? {
                self.at = self.pages.bytes.len();
                return Ok(());
            }
        }
    }

    /// Has at least this many bytes at the next record; false if the log ends before.
    #[inline]
    fn holds(&mut self, count: usize) -> Result<bool, WalError> {
        while self.pages.bytes.len() < self.at + count {
            let used = self.at.min(self.pages.bytes.len());
            self.at -= used;
            if !self.pages.fill(used)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn lsn(&self) -> Lsn {
        self.pages.log.positions.lsn(self.pages.start + self.at as u64)
    }

    fn find(&mut self) -> Result<Option<Found>, WalError> {
        loop {
            if self.end.is_some() {
                return Ok(None);
            }
            let has_header = self.holds(HEADER_BYTES)?;
            let lsn = self.lsn();
            if lsn >= self.until || !has_header {
                let left = self.pages.bytes.get(self.at..).unwrap_or_default();
                let torn = (lsn < self.until && left.iter().any(|byte| *byte != 0))
                    .then(|| "a header is not whole".to_owned());
                return self.ends(lsn, torn, lsn < self.until).map(|()| None);
            }
            let head = &self.pages.bytes[self.at..self.at + HEADER_BYTES];
            let total = head.first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
            let (is_switch, is_zero) =
                (head[17] == rmgr::XLOG && head[16] & 0xf0 == xlog::SWITCH, total == 0);
            if (total as usize) < HEADER_BYTES || u64::from(total) > LONGEST_BYTES {
                let torn = (!is_zero).then(|| format!("a record of {total} bytes"));
                return self.stopped(lsn, lsn, torn).map(|()| None);
            }
            match self.is_whole(lsn, total as usize)? {
                Whole::Yes => {}
                Whole::GivenUp => continue,
                Whole::Not(why) => return self.stopped(lsn, lsn, Some(why)).map(|()| None),
                Whole::Torn(why) => return self.ends(lsn, Some(why), true).map(|()| None),
            }
            let end = self.pages.start + self.at as u64 + u64::from(total);
            let main_length = match self.checked(total as usize) {
                Ok(main_length) => main_length,
                Err(why) => {
                    let last = self.pages.log.positions.end_lsn(end);
                    return self.stopped(lsn, last, Some(why)).map(|()| None);
                }
            };
            self.before = Some(lsn);
            if is_switch {
                let next = self.pages.next_segment(lsn);
                self.at = 0;
                self.skip_to(next.max(self.pages.start))?;
                continue;
            }
            return Ok(Some(Found { lsn, bytes: total as usize, main_length }));
        }
    }

    /// Reads the pages of a record.
    fn is_whole(&mut self, lsn: Lsn, total: usize) -> Result<Whole, WalError> {
        if lsn.0 as usize % PAGE_BYTES + total <= PAGE_BYTES {
            let torn = || Whole::Torn(format!("a record of {total} bytes is not whole"));
            return Ok(if self.holds(total)? { Whole::Yes } else { torn() });
        }
        // The header of the next page says how long the record is.
        for count in [total.min(2 * PAGE_BYTES), total] {
            let is_there = self.holds(count)?;
            let position = self.pages.start + self.at as u64;
            if let Some(given_up) = self.pages.given_up(lsn, position, total as u64) {
                self.before = None;
                self.skip_to(given_up)?;
                return Ok(Whole::GivenUp);
            }
            if !is_there {
                return Ok(Whole::Torn(format!("a record of {total} bytes is not whole")));
            }
            if let Some(why) = self.pages.not_continued(lsn, total as u64) {
                return Ok(Whole::Not(why.to_owned()));
            }
        }
        Ok(Whole::Yes)
    }

    /// Checks the record at hand, and reads its headers.
    fn checked(&mut self, total: usize) -> Result<u32, String> {
        let bytes = &self.pages.bytes[self.at..self.at + total];
        let word =
            |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        let crc = || crc32c_append(crc32c(&bytes[HEADER_BYTES..]), &bytes[..CRC_AT]);
        if self.has_checksums && crc() != word(CRC_AT) {
            return Err(format!("the checksum of a record is not {:08x}", word(CRC_AT)));
        }
        let before = Lsn(u64::from(word(8)) | u64::from(word(12)) << 32);
        if self.before.is_some_and(|known| known != before) {
            return Err(format!("a record says that it follows that at {before}"));
        }
        read_headers(bytes, &mut self.blocks)
            .ok_or_else(|| "the headers of a record contradict each other".to_owned())
    }

    /// Ends at something that is no record, unless log follows that is right.
    fn stopped(&mut self, lsn: Lsn, last: Lsn, torn: Option<String>) -> Result<(), WalError> {
        while self.pages.fill(self.at.min(self.pages.bytes.len()))? {
            self.at = 0;
            if self.pages.has_pages_behind(last) {
                break;
            }
        }
        if self.pages.has_pages_behind(last) {
            let (path, offset) = self.pages.file_of(lsn);
            let what = torn.unwrap_or_else(|| "zeros instead of a record".to_owned());
            let reason = format!("{what}, and right pages follow: the segment is damaged");
            return Err(WalError::Damaged { path, offset, lsn, reason });
        }
        self.ends(lsn, torn, true)
    }

    /// Ends where no more pages follow, unless later ones are of the log.
    fn ends(&mut self, lsn: Lsn, torn: Option<String>, is_early: bool) -> Result<(), WalError> {
        if let Some(stop) = self.pages.stop.clone().filter(|_| is_early)
            && self.pages.log.goes_on(stop.index, stop.offset)
        {
            let base = self.pages.log.segments[stop.index].base;
            let reason = format!("{}, and log follows that is right", stop.why);
            let lsn = Lsn(base.0 + stop.offset);
            return Err(WalError::Damaged { path: stop.path, offset: stop.offset, lsn, reason });
        }
        let (path, offset) = self.pages.file_of(lsn);
        self.end = Some(End { lsn, path, offset, torn });
        Ok(())
    }
}
