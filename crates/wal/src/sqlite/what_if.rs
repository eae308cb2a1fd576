//! Goes through recorded transactions as a mode would, and hands out its writes and syncs.
//!
//! What is taken as given: one connection writes at a time and no reader keeps a checkpoint from
//! its end, so that the next commit restarts the log; the log and the journal are not there at the
//! beginning; the database is not closed at the end; the file system overwrites only what it is
//! told to (`SQLITE_POWERSAFE_OVERWRITE`, on by default), so that frames are not padded and a
//! journal's header has 512 bytes; no other database is attached in the same transaction.

use units::Nanos;

use super::SqliteError;
use super::modes::{JournalMode, Mode, Synchronous};
use super::transactions::{Merging, NOT_FREE, Transactions, UNKNOWN, Written};

/// Bytes of a log's header.
pub const LOG_HEADER: u64 = 32;
/// Bytes of the header of a frame, before its page.
pub const FRAME_HEADER: u64 = 24;
/// Bytes of a journal's header: a sector.
const JOURNAL_HEADER: u64 = 512;
/// Bytes of a record of a journal beside its page: number and checksum.
const RECORD_EXTRA: u64 = 8;
/// Bytes that say how many records a journal has, with its magic before them.
const COUNT_BYTES: u64 = 12;
/// Bytes of the header that `PERSIST` overwrites with zeros.
const ZEROED_BYTES: u64 = 28;

/// A file of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The database.
    Database = 0,
    /// Its log.
    Log = 1,
    /// Its rollback journal.
    Journal = 2,
    /// Their folder.
    Folder = 3,
}

/// Takes what SQLite does to its files.
pub trait Files {
    /// What follows happens at this time.
    fn time(&mut self, now: Nanos);
    /// Bytes are written.
    fn write(&mut self, file: File, offset: u64, length: u64);
    /// A file is synced.
    fn sync(&mut self, file: File);
    /// A file has no content any more.
    fn emptied(&mut self, file: File);
}

/// Sums of what SQLite does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes written to database, log and journal.
    pub bytes: [u64; 3],
    /// Syncs of database, log, journal and folder.
    pub syncs: [u64; 4],
    /// Longest that each file became by writes: database, log, journal.
    pub ends: [u64; 3],
}

impl Files for Totals {
    fn time(&mut self, _: Nanos) {}

    fn write(&mut self, file: File, offset: u64, length: u64) {
        let file = file as usize;
        self.bytes[file] += length;
        self.ends[file] = self.ends[file].max(offset + length);
    }

    fn sync(&mut self, file: File) {
        self.syncs[file as usize] += 1;
    }

    fn emptied(&mut self, _: File) {}
}

impl<A: Files, B: Files> Files for (A, B) {
    fn time(&mut self, now: Nanos) {
        self.0.time(now);
        self.1.time(now);
    }

    fn write(&mut self, file: File, offset: u64, length: u64) {
        self.0.write(file, offset, length);
        self.1.write(file, offset, length);
    }

    fn sync(&mut self, file: File) {
        self.0.sync(file);
        self.1.sync(file);
    }

    fn emptied(&mut self, file: File) {
        self.0.emptied(file);
        self.1.emptied(file);
    }
}

/// Transactions as one mode does them.
#[derive(Debug)]
pub struct WhatIf<'a> {
    mode: Mode,
    merging: Merging<'a>,
    page_bytes: u64,
    cache_pages: u64,
    /// Whether the first page counts as changed where that is not told.
    with_page_one: bool,
    is_page_one_told: bool,
    /// Frames of the log; none if the next commit begins it anew.
    frames: Option<u64>,
    /// Checkpoint since which each page was not written, by page: a set that is emptied at once.
    dirty_since: Vec<u32>,
    dirty: Vec<u32>,
    /// Whether the file that is synced next was made, or opened, since the last sync.
    is_new: bool,
    unsynced: u64,
    /// Commits.
    pub commits: u64,
    /// Checkpoints.
    pub checkpoints: u32,
    /// Most commits that the log had at once since it was synced.
    pub most_unsynced: u64,
}

impl<'a> WhatIf<'a> {
    /// Before the first transaction. `with_page_one`: whether a log gets the first page where it is
    /// not told if it changed (see [`super::transactions::Nature`]).
    ///
    /// # Errors
    /// [`SqliteError::Refused`].
    pub fn new(
        of: &'a Transactions,
        mode: Mode,
        cache_pages: u64,
        with_page_one: bool,
    ) -> Result<Self, SqliteError> {
        mode.check()?;
        if of.nature().is_auto_vacuum_full && mode.transactions_in_one > 1 {
            let why = "PRAGMA auto_vacuum is full: each commit moves pages to free the end of the \
                       file, so several in one write others; right would be transactions_in_one=1";
            return Err(SqliteError::Refused(why.to_owned()));
        }
        let is_log = mode.journal == JournalMode::Wal;
        Ok(Self {
            mode,
            merging: Merging::new(of, mode.transactions_in_one as usize),
            page_bytes: u64::from(of.page_bytes()),
            cache_pages,
            with_page_one,
            is_page_one_told: of.nature().is_page_one_told,
            frames: None,
            dirty_since: vec![0; if is_log { of.most_pages() as usize + 1 } else { 0 }],
            dirty: Vec::new(),
            is_new: true,
            unsynced: 0,
            commits: 0,
            checkpoints: 0,
            most_unsynced: 0,
        })
    }

    /// Does the next commit; `false` behind the last.
    ///
    /// # Errors
    /// [`SqliteError::Spill`].
    pub fn step(&mut self, files: &mut impl Files) -> Result<bool, SqliteError> {
        if !self.merging.advance() {
            return Ok(false);
        }
        let merging = &self.merging;
        // `pcache1.c` asks for spills when pages in use, which changed ones are until the commit,
        // are 90 % of the cache.
        let (pages, most) = (merging.pages.len() as u64, self.cache_pages * 9 / 10);
        if pages >= most {
            let (number, cache) = (merging.first as u64, self.cache_pages);
            return Err(SqliteError::Spill { number, pages, most, cache });
        }
        files.time(merging.time);
        if self.mode.journal == JournalMode::Wal {
            self.log(files);
        } else {
            self.rollback(files);
        }
        self.commits += 1;
        Ok(true)
    }

    fn syncs(&self, from: Synchronous) -> bool {
        self.mode.synchronous >= from
    }

    /// A commit in a log: `sqlite3WalFrames`, `walCheckpoint`.
    fn log(&mut self, files: &mut impl Files) {
        let (before, after) = (self.merging.before, self.merging.after);
        // A database that grows or shrinks has its new size in its first page.
        let has_one = self.is_page_one_told || self.with_page_one || before != after;
        let epoch = self.checkpoints + 1;
        let mut count = 0;
        for one in &self.merging.pages {
            if one.page > after || (one.page == 1 && !has_one) {
                continue;
            }
            count += 1;
            let since = &mut self.dirty_since[one.page as usize];
            if *since != epoch {
                *since = epoch;
                self.dirty.push(one.page);
            }
        }
        if count == 0 {
            // SQLite logs the first page if a commit changed none.
            count = 1;
            if self.dirty_since[1] != epoch {
                self.dirty_since[1] = epoch;
                self.dirty.push(1);
            }
        }
        let frames = if let Some(frames) = self.frames {
            frames
        } else {
            files.write(File::Log, 0, LOG_HEADER);
            if self.syncs(Synchronous::Normal) {
                self.sync(File::Log, files);
            }
            0
        };
        let frame = FRAME_HEADER + self.page_bytes;
        files.write(File::Log, LOG_HEADER + frames * frame, count * frame);
        self.frames = Some(frames + count);
        self.unsynced += 1;
        self.most_unsynced = self.most_unsynced.max(self.unsynced);
        if self.syncs(Synchronous::Full) {
            self.sync(File::Log, files);
        }
        let limit = u64::from(self.mode.wal_autocheckpoint);
        if limit > 0 && frames + count >= limit {
            self.checkpoint(files, after);
        }
    }

    fn checkpoint(&mut self, files: &mut impl Files, after: u32) {
        if self.syncs(Synchronous::Normal) {
            self.sync(File::Log, files);
        }
        self.dirty.sort_unstable();
        for page in self.dirty.drain(..).filter(|page| *page <= after) {
            files.write(File::Database, u64::from(page - 1) * self.page_bytes, self.page_bytes);
        }
        if self.syncs(Synchronous::Normal) {
            files.sync(File::Database);
        }
        self.frames = None;
        self.checkpoints += 1;
    }

    /// A commit with a journal of old pages: `sqlite3PagerCommitPhaseOne`, `pager_end_transaction`.
    fn rollback(&mut self, files: &mut impl Files) {
        let (before, after) = (self.merging.before, self.merging.after);
        let kept = before.min(after);
        let has_one = self.merging.pages.first().is_some_and(|one| one.page == 1);
        // Pages behind the new end are journalled although they are not written.
        let old = self.merging.pages.iter().filter(|one| {
            one.page <= kept && (one.page == 1 || matches!(one.free_for, NOT_FREE | UNKNOWN))
        });
        let one_more = u64::from(!has_one && before > 0);
        let records = old.count() as u64 + one_more + u64::from(before - kept);
        self.is_new = true;
        files.write(File::Journal, 0, JOURNAL_HEADER);
        if records > 0 {
            let length = records * (self.page_bytes + RECORD_EXTRA);
            files.write(File::Journal, JOURNAL_HEADER, length);
        }
        if self.syncs(Synchronous::Full) {
            self.sync(File::Journal, files);
        }
        if self.syncs(Synchronous::Normal) {
            files.write(File::Journal, 0, COUNT_BYTES);
            self.sync(File::Journal, files);
        }
        let first = Written { page: 1, free_for: NOT_FREE };
        let all = (!has_one).then_some(&first).into_iter().chain(&self.merging.pages);
        for one in all.filter(|one| one.page <= after) {
            files.write(File::Database, u64::from(one.page - 1) * self.page_bytes, self.page_bytes);
        }
        if self.syncs(Synchronous::Normal) {
            files.sync(File::Database);
        }
        self.end_journal(files);
    }

    /// Syncs a log or a journal. The first sync of one that was opened and may have been made
    /// syncs its folder, too (`unixSync`): of a log once, of a journal in each transaction, since
    /// it is closed at the end of each.
    fn sync(&mut self, file: File, files: &mut impl Files) {
        files.sync(file);
        if self.is_new {
            files.sync(File::Folder);
            self.is_new = false;
        }
        self.unsynced = 0;
    }

    fn end_journal(&mut self, files: &mut impl Files) {
        match self.mode.journal {
            JournalMode::Delete => {
                files.emptied(File::Journal);
                if self.syncs(Synchronous::Extra) {
                    files.sync(File::Folder);
                }
            }
            JournalMode::Truncate => {
                files.emptied(File::Journal);
                if self.syncs(Synchronous::Full) {
                    self.sync(File::Journal, files);
                }
            }
            _ => {
                files.write(File::Journal, 0, ZEROED_BYTES);
                if self.syncs(Synchronous::Normal) {
                    self.sync(File::Journal, files);
                }
            }
        }
    }
}
