//! Reads transactions from a log (`-wal`), whole or while it grows.
//!
//! A frame counts as `walDecodeFrame` counts it: its salts are those of the log's header, and its
//! checksum continues that of the frames before it. The log is restarted in place: the header gets
//! new salts, and new frames overwrite the old ones from the beginning. What the old log had behind
//! them is still there, and is read before the new one, as long as the new one has not come so far.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::SqliteError;
use super::checksum::{self, Sums, number};
use super::what_if::{FRAME_HEADER, LOG_HEADER};

const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// Takes bytes from a place.
pub trait ReadAt {
    /// Reads as many bytes as there are, at most all of `into`.
    ///
    /// # Errors
    /// As reading a file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let there = self.get(offset as usize..).unwrap_or_default();
        let count = there.len().min(into.len());
        into[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }
}

/// The header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    is_big_endian: bool,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Checkpoints before it, as the connection counts that wrote it.
    pub sequence: u32,
    salts: [u32; 2],
    sums: Sums,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`SqliteError::Damaged`].
    pub fn read(bytes: &[u8; LOG_HEADER as usize]) -> Result<Self, SqliteError> {
        let damaged = |offset, what: String, right| SqliteError::Damaged { offset, what, right };
        let (magic, version, page) = (number(bytes, 0), number(bytes, 4), number(bytes, 8));
        if magic & !1 != MAGIC {
            let what = format!("it begins with {magic:#010x}");
            return Err(damaged(0, what, "the magic of a log, 0x377f0682 or 0x377f0683"));
        }
        let is_big_endian = magic & 1 == 1;
        if version != VERSION {
            return Err(damaged(4, format!("its version is {version}"), "3007000"));
        }
        if !page.is_power_of_two() || !(512..=65536).contains(&page) {
            let what = format!("its pages have {page} bytes");
            return Err(damaged(8, what, "a power of two from 512 to 65536"));
        }
        let sums = checksum::after([0, 0], &bytes[..24], is_big_endian);
        if sums != [number(bytes, 24), number(bytes, 28)] {
            let right = "that of the 24 bytes before it";
            return Err(damaged(24, "the checksum of the header is another's".into(), right));
        }
        let salts = [number(bytes, 16), number(bytes, 20)];
        Ok(Self { is_big_endian, page_bytes: page, sequence: number(bytes, 12), salts, sums })
    }
}

/// A frame of a log: a page as a transaction leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Number of the log in this file, from 0: one more after each restart.
    pub log: u64,
    /// Number of the frame in its log, from 0.
    pub index: u64,
    /// Number of the page.
    pub page: u32,
    /// Pages of the database after the transaction, in its last frame; else 0.
    pub after: u32,
    /// Content of the page.
    pub content: &'a [u8],
}

/// What a look at a log found beside frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Frames of transactions that have been committed.
    pub frames: u64,
    /// Why frames may have been missed, if they may have.
    pub doubt: Option<String>,
    /// First byte of what follows the last commit.
    pub end: u64,
    /// Frames behind the last commit that belong to the log: of a transaction that goes on.
    pub open_frames: u64,
}

/// A log that is read as it grows.
#[derive(Debug)]
pub struct Log<F> {
    file: F,
    header: Option<Header>,
    /// Number of the log.
    log: u64,
    /// Frames up to the last commit.
    frames: u64,
    /// Sums up to there.
    sums: Sums,
    buffer: Vec<u8>,
}

/// A frame that was looked at.
enum Found {
    Frame {
        page: u32,
        after: u32,
        sums: Sums,
    },
    /// It is of another log, or not there.
    None,
    /// It has the salts of this one, but does not continue it.
    Unfit,
}

impl<F: ReadAt> Log<F> {
    /// At its beginning.
    pub fn new(file: F) -> Self {
        Self { file, header: None, log: 0, frames: 0, sums: [0, 0], buffer: Vec::new() }
    }

    /// The log that follows this one, in another file.
    #[must_use]
    pub fn go_on(self, file: F) -> Self {
        Self { log: self.log + 1, ..Self::new(file) }
    }

    pub(super) fn read_header(&self) -> Result<Option<Header>, SqliteError> {
        let mut bytes = [0; LOG_HEADER as usize];
        let read = self.file.read_at(0, &mut bytes);
        let read = read.map_err(|source| SqliteError::Io { offset: 0, source })?;
        // A part of one is being written; or the file was made longer before its first commit.
        if read < bytes.len() || bytes == [0; LOG_HEADER as usize] {
            return Ok(None);
        }
        Header::read(&bytes).map(Some)
    }

    /// Gives the frames that have come since the last look, up to the last commit; those of a
    /// transaction that goes on are given again. A log without a whole header gives none.
    ///
    /// # Errors
    /// [`SqliteError::Io`]; [`SqliteError::Damaged`] if its header is none.
    pub fn look(&mut self, take: &mut impl FnMut(Frame<'_>)) -> Result<Look, SqliteError> {
        let now = match self.read_header() {
            Ok(now) => now,
            // One that had a header is being overwritten.
            Err(SqliteError::Damaged { .. }) if self.header.is_some() => return Ok(Look::default()),
            Err(error) => return Err(error),
        };
        let mut look = Look::default();
        match (self.header, now) {
            (_, None) => return Ok(look),
            (None, Some(new)) => self.begin(new),
            (Some(old), Some(new)) if old.salts != new.salts => {
                look.doubt = self.restart(old, new, take, &mut look)?;
            }
            _ => {}
        }
        self.read(take, &mut look)?;
        Ok(look)
    }

    fn begin(&mut self, header: Header) {
        self.header = Some(header);
        (self.frames, self.sums) = (0, header.sums);
    }

    /// Reads what the old log still has, and goes to the new one.
    fn restart(
        &mut self,
        old: Header,
        new: Header,
        take: &mut impl FnMut(Frame<'_>),
        look: &mut Look,
    ) -> Result<Option<String>, SqliteError> {
        let seen = self.frames;
        self.read(take, look)?;
        self.log += 1;
        self.begin(new);
        // Looked for after the old frames were read: new ones come in order.
        let mut salts = [0; 8];
        let is_over = self.bytes(seen, 8, &mut salts)? == 8
            && [number(&salts, 0), number(&salts, 4)] == new.salts;
        let is_cut = seen > 0 && self.bytes(seen - 1, self.frame_bytes() - 1, &mut salts)? == 0;
        // `walRestartHdr` adds 1 to the first salt.
        Ok(if old.salts[0].wrapping_add(1) != new.salts[0] {
            Some("the log was restarted more than once between two looks".to_owned())
        } else if is_cut {
            Some("the log was cut between two looks".to_owned())
        } else if is_over {
            Some(format!(
                "the log was restarted, and overwritten up to frame {seen}, between two looks"
            ))
        } else {
            None
        })
    }

    /// Reads bytes of a frame; gives how many there are.
    fn bytes(&self, frame: u64, at: u64, into: &mut [u8]) -> Result<usize, SqliteError> {
        let offset = LOG_HEADER + frame * self.frame_bytes() + at;
        self.file.read_at(offset, into).map_err(|source| SqliteError::Io { offset, source })
    }

    fn read(
        &mut self,
        take: &mut impl FnMut(Frame<'_>),
        look: &mut Look,
    ) -> Result<(), SqliteError> {
        let (mut index, mut sums) = (self.frames, self.sums);
        let committed = look.frames;
        let begin = self.frames;
        while let Found::Frame { page, after, sums: next } = self.found(index, sums)? {
            let content = &self.buffer[FRAME_HEADER as usize..];
            take(Frame { log: self.log, index, page, after, content });
            (index, sums) = (index + 1, next);
            if after > 0 {
                (self.frames, self.sums) = (index, sums);
                look.frames = committed + self.frames - begin;
            }
        }
        look.open_frames = index - self.frames;
        look.end = LOG_HEADER + self.frames * self.frame_bytes();
        Ok(())
    }

    fn frame_bytes(&self) -> u64 {
        FRAME_HEADER + self.header.map_or(0, |header| u64::from(header.page_bytes))
    }

    /// Looks at a frame; its bytes are in `buffer` afterwards.
    fn found(&mut self, index: u64, sums: Sums) -> Result<Found, SqliteError> {
        let Some(header) = self.header else { return Ok(Found::None) };
        let offset = LOG_HEADER + index * self.frame_bytes();
        self.buffer.resize(self.frame_bytes() as usize, 0);
        let read = self.file.read_at(offset, &mut self.buffer);
        let read = read.map_err(|source| SqliteError::Io { offset, source })?;
        let frame = &self.buffer;
        if read < frame.len() || [number(frame, 8), number(frame, 12)] != header.salts {
            return Ok(Found::None);
        }
        let sums = checksum::after(sums, &frame[..8], header.is_big_endian);
        let sums = checksum::after(sums, &frame[FRAME_HEADER as usize..], header.is_big_endian);
        let page = number(frame, 0);
        if page == 0 || sums != [number(frame, 16), number(frame, 20)] {
            return Ok(Found::Unfit);
        }
        Ok(Found::Frame { page, after: number(frame, 4), sums })
    }

    /// Refuses a log that is not whole: for one that nobody writes.
    ///
    /// # Errors
    /// [`SqliteError::Damaged`], if frames of this log are behind the last one that fits, or there
    /// is no header.
    pub fn check_whole(&mut self, look: &Look) -> Result<(), SqliteError> {
        let damaged =
            |offset, what: String, right| Err(SqliteError::Damaged { offset, what, right });
        let Some(header) = self.header else {
            return damaged(0, "there is no header".into(), "a log of SQLite, with 32 bytes of it");
        };
        let index = self.frames + look.open_frames;
        let offset = LOG_HEADER + index * self.frame_bytes();
        let mut bytes = vec![0; self.frame_bytes() as usize];
        let read = self.bytes(index, 0, &mut bytes)?;
        let is_mine = read >= 16 && [number(&bytes, 8), number(&bytes, 12)] == header.salts;
        if is_mine && read == bytes.len() {
            let what = format!("frame {index} has a checksum that does not continue the log's");
            let right = "frames as SQLite wrote them: this one is damaged, or left by a \
                         transaction that was rolled back after it had spilled";
            return damaged(offset, what, right);
        }
        if read > 0 && read < bytes.len() {
            let what = format!("frame {index} has {read} bytes");
            return damaged(offset, what, "whole frames, each 24 bytes and a page");
        }
        if look.open_frames > 0 {
            let offset = LOG_HEADER + self.frames * self.frame_bytes();
            let what = format!("{} frames belong to no commit", look.open_frames);
            return damaged(offset, what, "a log that ends with a commit");
        }
        Ok(())
    }
}
