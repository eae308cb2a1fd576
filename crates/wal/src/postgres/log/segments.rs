//! The files of a log, in order.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::WalError;
use super::positions::{Lsn, PAGE_BYTES, Positions};

/// Page headers of version 15 begin with it.
const MAGIC_15: u16 = 0xd110;
const MAGICS: [(u16, u32); 4] = [(MAGIC_15, 15), (0xd113, 16), (0xd116, 17), (0xd118, 18)];
const IS_LONG: u16 = 2;
const NAME_LENGTH: usize = 24;

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// Its first byte.
    pub base: Lsn,
}

/// The segments of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The folder.
    pub path: PathBuf,
    /// Files from the first that is read on, which may be followed by such that the server has not
    /// used again yet.
    pub segments: Vec<Segment>,
    /// What the server was: 15 to 18.
    pub version: u32,
    /// First bytes of each page.
    pub magic: u16,
    /// Lengths of segments.
    pub positions: Positions,
    timeline: u32,
}

/// Header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHead {
    pub magic: u16,
    pub info: u16,
    pub address: u64,
    /// Bytes that are left of a record that began on a page before.
    pub rest: u32,
}

impl PageHead {
    pub fn read(page: &[u8]) -> Option<Self> {
        let (magic, rest) = page.split_first_chunk()?;
        let (info, rest) = rest.split_first_chunk()?;
        let (_timeline, rest) = rest.split_first_chunk::<4>()?;
        let (address, rest) = rest.split_first_chunk()?;
        let (left, _) = rest.split_first_chunk()?;
        Some(Self {
            magic: u16::from_le_bytes(*magic),
            info: u16::from_le_bytes(*info),
            address: u64::from_le_bytes(*address),
            rest: u32::from_le_bytes(*left),
        })
    }
}

fn io_error(path: &Path, offset: u64) -> impl FnOnce(io::Error) -> WalError {
    let path = path.to_owned();
    move |source| WalError::Io { path, offset, source }
}

impl Log {
    /// Finds the segments of a folder, those before the one that holds `from` left out.
    ///
    /// # Errors
    /// [`WalError`]: there is none, they are of several timelines, or of another version.
    pub fn open(folder: &Path, from: Option<Lsn>) -> Result<Self, WalError> {
        let wrong = |reason| WalError::Folder { path: folder.to_owned(), reason };
        let mut names = names(folder)?;
        names.sort();
        let first = names.first().ok_or_else(|| {
            let right = "right would be files such as 000000010000000000000001, as in pg_wal";
            wrong(format!("there is no segment of a log in it; {right}"))
        })?;
        let head = first_page(&folder.join(first))?;
        let (version, segment_bytes) = facts_of(&folder.join(first), &head)?;
        let in_4_gib = (1_u64 << 32) / segment_bytes;
        let base = |name: &str| {
            let part = |at: usize| u64::from_str_radix(&name[at..at + 8], 16).unwrap_or_default();
            Lsn((part(8) * in_4_gib + part(16)) * segment_bytes)
        };
        let timeline = |name: &str| u32::from_str_radix(&name[..8], 16).unwrap_or_default();
        if let Some(other) = names.iter().find(|name| timeline(name) != timeline(first)) {
            let (a, b) = (timeline(first), timeline(other));
            return Err(wrong(format!(
                "it holds segments of the timelines {a} and {b}; keep those of one"
            )));
        }
        let timeline = timeline(first);
        let segments =
            names.iter().map(|name| Segment { path: folder.join(name), base: base(name) });
        let wanted = from.map_or(0, |from| from.0 / segment_bytes * segment_bytes);
        let segments: Vec<_> = segments.filter(|segment| segment.base.0 >= wanted).collect();
        let log = Self {
            path: folder.to_owned(),
            segments,
            version,
            magic: head.magic,
            positions: Positions { segment_bytes },
            timeline,
        };
        match (from, log.segments.first()) {
            (Some(from), first) if first.is_none_or(|first| first.base.0 != wanted) => {
                let name = log.name(Lsn(wanted));
                Err(wrong(format!("segment {name}, which holds LSN {from}, is missing")))
            }
            _ => Ok(log),
        }
    }

    /// Name of the segment that holds a place.
    #[must_use]
    pub fn name(&self, lsn: Lsn) -> String {
        let number = lsn.0 / self.positions.segment_bytes;
        let in_4_gib = (1_u64 << 32) / self.positions.segment_bytes;
        format!("{:08X}{:08X}{:08X}", self.timeline, number / in_4_gib, number % in_4_gib)
    }

    /// True if the page at an offset of a segment is one of the log, not of an earlier use.
    pub(super) fn is_used(&self, segment: &Segment, file: &File, offset: u64) -> bool {
        let mut head = [0; 20];
        file.read_exact_at(&mut head, offset).is_ok()
            && PageHead::read(&head).is_some_and(|head| {
                head.magic == self.magic && head.address == segment.base.0 + offset
            })
    }

    /// True if any page behind an offset of a segment, or the first of a later one, is of the log.
    pub(super) fn goes_on(&self, index: usize, offset: u64) -> bool {
        let pages = (offset..self.positions.segment_bytes).step_by(PAGE_BYTES).skip(1);
        let here = self.segments.get(index).is_some_and(|segment| {
            let file = File::open(&segment.path);
            file.is_ok_and(|file| pages.into_iter().any(|at| self.is_used(segment, &file, at)))
        });
        here || self.segments.iter().skip(index + 1).any(|segment| {
            File::open(&segment.path).is_ok_and(|file| self.is_used(segment, &file, 0))
        })
    }
}

fn names(folder: &Path) -> Result<Vec<String>, WalError> {
    let failed = |source| io_error(folder, 0)(source);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.len() == NAME_LENGTH && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

struct FirstPage {
    magic: u16,
    info: u16,
    segment_bytes: u32,
    page_bytes: u32,
}

fn first_page(path: &Path) -> Result<FirstPage, WalError> {
    let mut bytes = [0; 40];
    let file = File::open(path).map_err(io_error(path, 0))?;
    file.read_exact_at(&mut bytes, 0).map_err(io_error(path, 0))?;
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
    let head = PageHead::read(&bytes);
    Ok(FirstPage {
        magic: head.map_or(0, |head| head.magic),
        info: head.map_or(0, |head| head.info),
        segment_bytes: number(32),
        page_bytes: number(36),
    })
}

/// The version, and the bytes of a segment.
fn facts_of(path: &Path, head: &FirstPage) -> Result<(u32, u64), WalError> {
    let damaged =
        |offset, reason| WalError::Damaged { path: path.to_owned(), offset, lsn: Lsn(0), reason };
    let version = MAGICS.iter().find(|(magic, _)| *magic == head.magic);
    let (_, version) = version.ok_or_else(|| {
        let right = "0xD110, 0xD113, 0xD116, 0xD118: PostgreSQL 15 to 18";
        damaged(0, format!("it begins with {:#06X}; right would be one of {right}", head.magic))
    })?;
    if head.info & IS_LONG == 0 {
        return Err(damaged(2, "its first page has no long header, as a segment's has".to_owned()));
    }
    let is_right = (1 << 20..=1 << 30).contains(&head.segment_bytes);
    if !is_right || !head.segment_bytes.is_power_of_two() {
        let bytes = head.segment_bytes;
        let right = "right would be a power of two from 1 MiB to 1 GiB";
        return Err(damaged(32, format!("segments have {bytes} bytes; {right}")));
    }
    if head.page_bytes as usize != PAGE_BYTES {
        let bytes = head.page_bytes;
        return Err(damaged(36, format!("pages of the log have {bytes} bytes; only 8192 is read")));
    }
    Ok((*version, u64::from(head.segment_bytes)))
}
