//! The log without the headers of its pages, as one buffer that moves on.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::error::WalError;
use super::positions::{LONG_HEADER, Lsn, PAGE_BYTES, SHORT_HEADER};
use super::segments::{Log, PageHead};

/// Bytes that are read at once.
const READ_BYTES: usize = 512 << 10;
const IS_CONTINUED: u16 = 1;
const IS_LONG: u16 = 2;
const IS_OVERWRITE: u16 = 8;

/// Header of a page of the buffer, as far as records need it.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Page of the log.
    page: u64,
    /// Bytes that are left of a record, if it goes on here.
    rest: Option<u32>,
    /// True if what was left of a record before it was given up, at a server's restart.
    is_overwrite: bool,
}

/// The place where the log stops.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    /// The segment, by number, its file, and the byte in it.
    pub index: usize,
    pub path: PathBuf,
    pub offset: u64,
    pub why: String,
}

/// The bytes of a log from its first segment on.
pub(super) struct Pages {
    pub log: Log,
    /// Bytes without headers.
    pub bytes: Vec<u8>,
    /// Position of the first of them.
    pub start: u64,
    heads: Vec<Head>,
    index: usize,
    file: Option<File>,
    offset: u64,
    raw: Vec<u8>,
    pub stop: Option<Stop>,
}

impl Pages {
    pub fn new(log: Log) -> Self {
        let start = log.positions.position(log.segments[0].base);
        Self {
            log,
            bytes: Vec::new(),
            start,
            heads: Vec::new(),
            index: 0,
            file: None,
            offset: 0,
            raw: vec![0; READ_BYTES],
            stop: None,
        }
    }

    /// Bytes that the first page has of a record that began before.
    pub fn rest_of_first(&self) -> u32 {
        self.heads.first().and_then(|head| head.rest).unwrap_or_default()
    }

    /// The header of the page that begins at a place of the buffer.
    fn head(&self, page: u64) -> Option<&Head> {
        let first = self.heads.first()?.page;
        self.heads.get(usize::try_from(page.checked_sub(first)?).ok()?)
    }

    /// What is wrong with the pages between two places, of which a record is said to fill all.
    pub fn not_continued(&self, from: Lsn, bytes: u64) -> Option<&'static str> {
        let page = from.0 / PAGE_BYTES as u64 + 1;
        let here = page * PAGE_BYTES as u64 - from.0;
        if bytes <= here {
            return None;
        }
        let rest = self.head(page)?.rest;
        (rest.map(u64::from) != Some(bytes - here))
            .then_some("it goes on on the next page, which says otherwise")
    }

    /// The first place behind `from` at which the server gave up a record; the record reaches
    /// there if it has `bytes`.
    pub fn given_up(&self, from: Lsn, position: u64, bytes: u64) -> Option<u64> {
        let first = from.0 / PAGE_BYTES as u64 + 1;
        let last = (self.log.positions.end_lsn(position + bytes).0 - 1) / PAGE_BYTES as u64;
        let mut pages = (first..=last).map_while(|page| self.head(page));
        let found = pages.find(|head| head.is_overwrite)?;
        Some(self.log.positions.position(Lsn(found.page * PAGE_BYTES as u64)))
    }

    /// True if pages follow that of a place.
    pub fn has_pages_behind(&self, lsn: Lsn) -> bool {
        self.heads.last().is_some_and(|head| head.page > lsn.0 / PAGE_BYTES as u64)
    }

    /// The file and the byte in it of a place.
    pub fn file_of(&self, lsn: Lsn) -> (PathBuf, u64) {
        let name = self.log.name(lsn);
        (self.log.path.join(name), lsn.0 % self.log.positions.segment_bytes)
    }

    /// Reads on, and lets go of the bytes before `used`. False if nothing follows.
    pub fn fill(&mut self, used: usize) -> Result<bool, WalError> {
        self.forget(used);
        if self.stop.is_some() {
            return Ok(false);
        }
        let Some(count) = self.read()? else { return Ok(false) };
        let base = self.log.segments[self.index].base.0;
        let at = self.offset;
        for (number, page) in self.raw[..count].chunks(PAGE_BYTES).enumerate() {
            let offset = at + (number * PAGE_BYTES) as u64;
            let why = match PageHead::read(page) {
                _ if page.len() < PAGE_BYTES => Some("the file ends within a page".to_owned()),
                Some(head) => check(head, self.log.magic, base + offset),
                None => Some("the file ends within a header".to_owned()),
            };
            if let Some(why) = why {
                self.stop = Some(Stop {
                    index: self.index,
                    path: self.log.segments[self.index].path.clone(),
                    offset,
                    why,
                });
                return Ok(number > 0);
            }
            let Some(head) = PageHead::read(page) else { continue };
            let header = if head.info & IS_LONG == 0 { SHORT_HEADER } else { LONG_HEADER };
            self.heads.push(Head {
                page: head.address / PAGE_BYTES as u64,
                rest: (head.info & IS_CONTINUED != 0).then_some(head.rest),
                is_overwrite: head.info & IS_OVERWRITE != 0,
            });
            self.bytes.extend_from_slice(&page[header as usize..]);
        }
        self.offset += count as u64;
        Ok(true)
    }

    /// Goes on at the first page of the next segment, as behind a switch. The position of it.
    pub fn next_segment(&mut self, lsn: Lsn) -> u64 {
        let segment_bytes = self.log.positions.segment_bytes;
        let base = Lsn((lsn.0 / segment_bytes + 1) * segment_bytes);
        // What follows in the segment are zeros: reading it stopped there, if it came so far.
        let is_read = self.heads.last().is_some_and(|head| head.page >= base.0 / PAGE_BYTES as u64);
        if !is_read {
            self.stop = None;
            self.index = self.log.segments.iter().take_while(|one| one.base < base).count();
            self.file = None;
            self.offset = 0;
            self.bytes.clear();
            self.heads.clear();
            self.start = self.log.positions.position(base);
        }
        self.log.positions.position(base)
    }

    fn forget(&mut self, used: usize) {
        self.bytes.drain(..used);
        self.start += used as u64;
        let page = self.log.positions.lsn(self.start).0 / PAGE_BYTES as u64;
        let gone = self.heads.iter().take_while(|head| head.page < page).count();
        self.heads.drain(..gone);
    }

    /// Reads into `raw`; `None` if nothing follows, which `stop` says.
    fn read(&mut self) -> Result<Option<usize>, WalError> {
        loop {
            let Some(segment) = self.log.segments.get(self.index) else {
                self.stop_at_end("no segment follows".to_owned());
                return Ok(None);
            };
            let failed = |offset| {
                let path = segment.path.clone();
                move |source| WalError::Io { path, offset, source }
            };
            let file = match &mut self.file {
                Some(file) => file,
                none => {
                    let before = self.index.checked_sub(1).map(|one| self.log.segments[one].base);
                    let segment_bytes = self.log.positions.segment_bytes;
                    let expected = before.map(|before| Lsn(before.0 + segment_bytes));
                    if let Some(expected) = expected.filter(|expected| *expected != segment.base) {
                        let name = self.log.name(expected);
                        self.stop_at_end(format!("segment {name}, which follows it, is missing"));
                        return Ok(None);
                    }
                    let file = File::open(&segment.path).map_err(failed(0))?;
                    self.offset = 0;
                    none.insert(file)
                }
            };
            let mut count = 0;
            while count < self.raw.len() {
                let more = file.read(&mut self.raw[count..]).map_err(failed(self.offset))?;
                if more == 0 {
                    break;
                }
                count += more;
            }
            if count > 0 {
                return Ok(Some(count));
            }
            if self.offset < self.log.positions.segment_bytes {
                let (path, offset) = (segment.path.clone(), self.offset);
                let why = "the file ends here".to_owned();
                self.stop = Some(Stop { index: self.index, path, offset, why });
                return Ok(None);
            }
            (self.index, self.file) = (self.index + 1, None);
        }
    }

    fn stop_at_end(&mut self, why: String) {
        let index = self.index.saturating_sub(1);
        let path = self.log.segments[index].path.clone();
        self.stop = Some(Stop { index, path, offset: self.log.positions.segment_bytes, why });
    }
}

fn check(head: PageHead, magic: u16, address: u64) -> Option<String> {
    if head.magic != magic {
        return Some(format!("a page begins with {:#06X} instead of {magic:#06X}", head.magic));
    }
    let found = Lsn(head.address);
    (found.0 != address).then(|| format!("a page says that it is that of {found}"))
}
