//! `sqlite_what_if`: what a SQLite database would have written in other modes.

mod outcome;
mod reading;
mod settings;

use std::path::{Path, PathBuf};

use traces::store::StoreWriter;
use traces::{Facts, Origin, Output, TraceError, TraceWriter, hash_file};
use units::{IoOp, Progress};
use wal::sqlite::{JournalMode, Layout, Mode, PageCache, SqliteError, Totals, WhatIf, cache_pages};

use crate::JobError;
use crate::job::{Found, Job};
use reading::Recorded;

pub use outcome::{ModeWrites, Syncs, TraceWritten, WhatSqliteWrites};
pub use settings::{FileLayout, JournalModeName, SqliteMode, SqliteWhatIf, SynchronousName};

/// `PRAGMA cache_size` that SQLite has where nobody sets it.
const DEFAULT_CACHE_SIZE: i64 = -2000;
/// A log or journal begins at a multiple of this behind the database.
const ALIGNMENT: u64 = 1 << 20;
/// Requests after which they are written to the file.
const BATCH_REQUESTS: usize = 1 << 14;
/// Commits after which somebody may have asked to stop.
const CHECKED_COMMITS: u64 = 1 << 12;
const ZSTD_LEVEL: u32 = 3;

impl Job for SqliteWhatIf {
    type Outcome = WhatSqliteWrites;

    fn run(&self, progress: &Progress) -> Result<Found<WhatSqliteWrites>, JobError> {
        if self.modes.is_empty() {
            return Err(JobError::at("modes", "there is none; right would be one at least"));
        }
        let path = Path::new(&self.transactions);
        let mut recorded =
            reading::read(path).map_err(|error| JobError::at("transactions", error))?;
        let all = recorded.transactions.len() as u64;
        if all <= self.before.0 {
            let said = format!("there are {all} transactions, and all are left out");
            return Err(JobError::at("before", said));
        }
        recorded.transactions.skip(self.before.0 as usize);
        let modes = self.checked(&recorded)?;
        let cache_size = self.cache_size.or(recorded.cache_size);
        if cache_size.is_none() {
            recorded.not_told.push("PRAGMA cache_size: -2000 is taken, SQLite's own".to_owned());
        }
        let page_bytes = recorded.transactions.page_bytes();
        let cache = cache_pages(cache_size.unwrap_or(DEFAULT_CACHE_SIZE), page_bytes);
        let asked = Asked { recorded: &recorded, cache, layout: &self.layout, progress };
        let mut found = Vec::new();
        for (number, (mode, name)) in modes.iter().enumerate() {
            let at = format!("modes[{number}]");
            let trace = self.traces.as_ref().map(|folder| trace_path(folder, name));
            found.push(asked.mode(
                &at,
                &self.modes[number],
                *mode,
                name.clone(),
                trace.as_deref(),
            )?);
        }
        let outcome = WhatSqliteWrites {
            content_hash: hash_file(&recorded.file)
                .map_err(|error| JobError::at("transactions", error))?
                .sha256,
            transactions: recorded.transactions.len() as u64,
            left_out: self.before.0,
            seconds: recorded.has_times.then(|| recorded.transactions.duration() as f64 / 1e9),
            page_size: page_bytes,
            pages_written: recorded.transactions.pages_written(),
            most_pages: recorded.transactions.most_pages(),
            recorded_in: recorded.journal_mode,
            cache_pages: cache,
            modes: found,
            not_told: recorded.not_told,
        };
        Ok(Found { outcome, tables: Vec::new(), texts: Vec::new() })
    }
}

fn trace_path(folder: &str, name: &str) -> PathBuf {
    Path::new(folder).join(format!("{name}.parquet"))
}

impl SqliteWhatIf {
    /// The modes as the model has them, with their names.
    fn checked(&self, recorded: &Recorded) -> Result<Vec<(Mode, String)>, JobError> {
        let mut found: Vec<(Mode, String)> = Vec::new();
        for (number, asked) in self.modes.iter().enumerate() {
            let at = |field: &str| format!("modes[{number}].{field}");
            let whole = |field: &str, count: u64| {
                let count = u32::try_from(count);
                count.map_err(|_| JobError::at(&at(field), "right would be less than 2^32"))
            };
            let mode = Mode {
                journal: asked.journal_mode.mode(),
                synchronous: asked.synchronous.mode(),
                wal_autocheckpoint: whole("wal_autocheckpoint", asked.wal_autocheckpoint.0)?,
                transactions_in_one: whole("transactions_in_one", asked.transactions_in_one.0)?,
            };
            mode.check().map_err(|error| JobError::at(&at("journal_mode"), error))?;
            if mode.transactions_in_one == 0 {
                return Err(JobError::at(&at("transactions_in_one"), "right would be 1 or more"));
            }
            let recorded = u64::from(recorded.transactions.page_bytes());
            if let Some(size) = asked.page_size.filter(|size| size.0 != recorded) {
                let size = size.0;
                let said = format!(
                    "{size}: which rows share a page of {size} bytes is not known from pages of \
                     {recorded}, so no figure can be given; right would be {recorded}, or a \
                     recording with pages of {size}"
                );
                return Err(JobError::at(&at("page_size"), said));
            }
            let name = asked.name.clone().unwrap_or_else(|| asked.made_name());
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
                let said = format!("`{name}`: right would be letters, digits, `.`, `_` and `-`");
                return Err(JobError::at(&at("name"), said));
            }
            if found.iter().any(|(_, other)| *other == name) {
                let said =
                    format!("`{name}` is another mode's name; right would be one of its own");
                return Err(JobError::at(&at("name"), said));
            }
            found.push((mode, name));
        }
        Ok(found)
    }
}

impl SqliteMode {
    fn made_name(&self) -> String {
        let mut name = format!("{:?}-{:?}", self.journal_mode, self.synchronous).to_lowercase();
        if self.journal_mode == JournalModeName::Wal {
            name += &format!("-{}", self.wal_autocheckpoint.0);
        }
        if self.transactions_in_one.0 != 1 {
            name += &format!("-by-{}", self.transactions_in_one.0);
        }
        name
    }
}

/// What all modes are asked of.
struct Asked<'a> {
    recorded: &'a Recorded,
    cache: u64,
    layout: &'a FileLayout,
    progress: &'a Progress,
}

impl Asked<'_> {
    fn mode(
        &self,
        at: &str,
        asked: &SqliteMode,
        mode: Mode,
        name: String,
        trace: Option<&Path>,
    ) -> Result<ModeWrites, JobError> {
        let transactions = &self.recorded.transactions;
        let is_log = mode.journal == JournalMode::Wal;
        let mut bounds = Vec::new();
        let nature = transactions.nature();
        let is_least = is_log && !nature.is_page_one_told;
        let most = if is_least {
            bounds.push(
                "page 1 counts where the size of the database changes; in a rollback mode each \
                 transaction writes it, so whether it changed otherwise is not known"
                    .to_owned(),
            );
            Some(self.totals(at, mode, true)?.0.bytes.iter().sum())
        } else {
            None
        };
        if !is_log && !transactions.knows_free_pages() {
            bounds.push(
                "journal_bytes is the most: pages that were free before are not journalled, and \
                 which were is not known"
                    .to_owned(),
            );
        }
        if !is_log && nature.is_auto_vacuum_full {
            bounds.push(
                "journal_bytes is the most: PRAGMA auto_vacuum is full, and pages that were taken \
                 and cut off again in one transaction are not journalled"
                    .to_owned(),
            );
        }
        if !is_log && nature.skips_freed {
            bounds.push(
                "database_bytes is the most: PRAGMA secure_delete is not on, and pages that a \
                 transaction changes and frees are logged, but not written in a rollback mode"
                    .to_owned(),
            );
        }
        let (totals, what_if) = self.totals(at, mode, false)?;
        let trace = trace.map(|path| self.trace(at, mode, &totals, path)).transpose()?;
        let [database_bytes, log_bytes, journal_bytes] = totals.bytes;
        let [database, log, journal, folder] = totals.syncs;
        Ok(ModeWrites {
            name,
            journal_mode: asked.journal_mode,
            synchronous: asked.synchronous,
            wal_autocheckpoint: is_log.then_some(asked.wal_autocheckpoint.0),
            transactions_in_one: asked.transactions_in_one.0,
            commits: what_if.commits,
            log_bytes,
            journal_bytes,
            database_bytes,
            total_bytes: log_bytes + journal_bytes + database_bytes,
            total_bytes_at_most: most,
            longest_log_bytes: totals.ends[1],
            checkpoints: u64::from(what_if.checkpoints),
            syncs: Syncs { database, log, journal, folder },
            lost: mode.lost(what_if.most_unsynced),
            bounds,
            trace,
        })
    }

    fn what_if(&self, mode: Mode, with_page_one: bool) -> Result<WhatIf<'_>, SqliteError> {
        WhatIf::new(&self.recorded.transactions, mode, self.cache, with_page_one)
    }

    fn totals(
        &self,
        at: &str,
        mode: Mode,
        with_page_one: bool,
    ) -> Result<(Totals, WhatIf<'_>), JobError> {
        let (mut totals, refused) =
            (Totals::default(), |error: SqliteError| JobError::at(at, error));
        let mut what_if = self.what_if(mode, with_page_one).map_err(refused)?;
        while what_if.step(&mut totals).map_err(refused)? {
            if what_if.commits.is_multiple_of(CHECKED_COMMITS) {
                self.progress.advance(CHECKED_COMMITS)?;
            }
        }
        Ok((totals, what_if))
    }

    /// Where the files lie, so that none is within another.
    fn places(&self, totals: &Totals) -> Result<Layout, JobError> {
        let transactions = &self.recorded.transactions;
        let bytes = u64::from(transactions.most_pages()) * u64::from(transactions.page_bytes());
        let layout = self.layout;
        let behind = layout
            .database
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        let too_far = || JobError::at("layout.database", "its end is behind 2^64");
        let behind = behind.ok_or_else(too_far)?;
        let log = layout.log.unwrap_or(behind);
        let journal = layout.journal.unwrap_or(log);
        let database = (layout.database, bytes);
        for (name, begin, length) in
            [("log", log, totals.ends[1]), ("journal", journal, totals.ends[2])]
        {
            let is_apart = begin >= database.0 + database.1
                || begin.checked_add(length).is_some_and(|end| end <= database.0);
            if length > 0 && !is_apart {
                let said = format!(
                    "{begin}: it would lie within the database, bytes {} to {}; right would be a \
                     begin outside of it",
                    database.0,
                    database.0 + database.1
                );
                return Err(JobError::at(&format!("layout.{name}"), said));
            }
        }
        for (name, begin) in [("database", layout.database), ("log", log), ("journal", journal)] {
            if !begin.is_multiple_of(wal::sqlite::page_cache::BLOCK_BYTES) {
                let said = format!("{begin}: right would be a multiple of 4096");
                return Err(JobError::at(&format!("layout.{name}"), said));
            }
        }
        Ok(Layout { begins: [layout.database, log, journal], discards: layout.discard })
    }

    fn trace(
        &self,
        at: &str,
        mode: Mode,
        totals: &Totals,
        path: &Path,
    ) -> Result<TraceWritten, JobError> {
        let failed = |error: TraceError| JobError::at("traces", error);
        let mut cache = PageCache::new(self.places(totals)?);
        let refused = |error: SqliteError| JobError::at(at, error);
        let mut what_if = self.what_if(mode, false).map_err(refused)?;
        let origin = Origin { format: "sqlite_what_if".to_owned(), ..Origin::default() };
        if let Some(folder) = path.parent() {
            let made = std::fs::create_dir_all(folder);
            let said = |error| JobError::at("traces", format!("{}: {error}", folder.display()));
            made.map_err(said)?;
        }
        let output = Output::create(path).map_err(failed)?;
        let mut writer = StoreWriter::new(output, ZSTD_LEVEL, &origin).map_err(failed)?;
        let mut written = TraceWritten {
            path: path.to_string_lossy().into_owned(),
            requests: 0,
            written_bytes: 0,
            flushes: 0,
            end_bytes: 0,
        };
        loop {
            let has_more = what_if.step(&mut cache).map_err(refused)?;
            if !has_more {
                cache.finish();
            } else if cache.requests.len() < BATCH_REQUESTS {
                continue;
            }
            self.progress.advance(cache.requests.len() as u64)?;
            for one in &cache.requests {
                written.requests += 1;
                written.flushes += u64::from(one.op == IoOp::Flush);
                let length = u64::from(one.length);
                written.written_bytes += if one.op == IoOp::Write { length } else { 0 };
                written.end_bytes = written.end_bytes.max(one.offset + length);
            }
            writer.write(&cache.requests).map_err(failed)?;
            cache.requests.clear();
            if !has_more {
                break;
            }
        }
        let facts = Facts { timeless: !self.recorded.has_times, ..Facts::default() };
        Box::new(writer).finish(&facts).map_err(failed)?;
        Ok(written)
    }
}
