//! What a recording tells of its server: `server.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wal::postgres::images::Method;
use wal::postgres::log::{Lsn, Relation};
use wal::postgres::model::{Known, Settings};

use super::settings::Compression;
use crate::JobError;

/// Seconds from 1970 to 2000, from which on PostgreSQL counts.
const SINCE_1970_S: f64 = 946_684_800.0;
const PAGE_BYTES: u64 = 8192;
/// A server that was started so shortly before has nothing in its buffers.
const FRESH_S: f64 = 60.0;

/// `server.json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Server {
    block_bytes: u64,
    pub has_checksums: bool,
    pub settings: ServerSettings,
    pub begin: Moment,
    pub end: Moment,
    pub redo_lsn: String,
    redo_time_s: Option<f64>,
    started_s: Option<f64>,
    pub segments_ahead: Option<u32>,
    pub relations: Vec<RelationFacts>,
    #[serde(default)]
    pub counted: Counted,
    /// Reason why segments of the log are not there.
    pub gap: Option<String>,
}

/// Settings of a server, sizes in bytes and times in seconds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ServerSettings {
    checkpoint_timeout: f64,
    max_wal_size: u64,
    min_wal_size: u64,
    wal_keep_size: u64,
    checkpoint_completion_target: f64,
    full_page_writes: bool,
    wal_compression: Compression,
    shared_buffers: u64,
    synchronous_commit: String,
    commit_delay: f64,
    wal_writer_delay: f64,
    bgwriter_delay: f64,
    bgwriter_lru_maxpages: u32,
    bgwriter_lru_multiplier: f64,
    pub wal_log_hints: bool,
    pub fsync: bool,
}

/// A time, and a place in the log.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Moment {
    time_s: f64,
    lsn: String,
}

/// A relation.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RelationFacts {
    space: u32,
    database: u32,
    node: u32,
    pub path: String,
    pub name: String,
    pub purpose: String,
    is_index: bool,
    pages: u32,
    accesses: u64,
    reads: u64,
}

/// What the server counted itself between begin and end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counted {
    pub data_pages: Option<u64>,
    pub checkpoint_pages: Option<u64>,
    pub background_pages: Option<u64>,
    /// Rounds of the background writer that ended at `bgwriter_lru_maxpages`.
    pub background_full: Option<u64>,
    pub page_reads: Option<u64>,
    pub log_file_bytes: Option<u64>,
    pub log_flushes: Option<u64>,
    pub flush_s: Option<f64>,
    /// Mean time of a checkpoint's syncs.
    pub checkpoint_sync_s: Option<f64>,
}

impl RelationFacts {
    pub fn relation(&self) -> Relation {
        Relation { space: self.space, database: self.database, node: self.node }
    }
}

impl Moment {
    pub fn lsn(&self, path: &Path, key: &str) -> Result<Lsn, JobError> {
        lsn(&self.lsn, path, key)
    }

    pub fn time_us(&self) -> i64 {
        us_of(self.time_s)
    }
}

fn lsn(text: &str, path: &Path, key: &str) -> Result<Lsn, JobError> {
    text.parse()
        .map_err(|error| JobError::at("facts", format!("{}: {key}: {error}", path.display())))
}

/// Microseconds since 2000 of seconds since 1970.
fn us_of(seconds: f64) -> i64 {
    ((seconds - SINCE_1970_S) * 1e6) as i64
}

impl Server {
    /// Reads the facts of a log: `given`, or beside it.
    pub fn read(log: &str, given: Option<&str>) -> Result<(PathBuf, Self), JobError> {
        let path = given.map_or_else(|| Path::new(log).join("../server.json"), PathBuf::from);
        let shown = path.display();
        let text = fs::read_to_string(&path).map_err(|error| {
            let right = "right would be the server.json that a recording writes beside its wal \
                         folder, or its settings as `as_recorded`";
            JobError::at("facts", format!("{shown}: {error}; {right}"))
        })?;
        let server: Self = serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            JobError::at("facts", format!("{shown}: line {line}, column {column}: {what}"))
        })?;
        if server.block_bytes != PAGE_BYTES {
            let bytes = server.block_bytes;
            let what =
                format!("{shown}: block_bytes: {bytes}; only servers with 8192 are modelled");
            return Err(JobError::at("facts", what));
        }
        Ok((path, server))
    }

    /// The settings of the recording.
    pub fn settings(&self, flush_time_s: Option<f64>) -> Settings {
        let all = &self.settings;
        let us = |seconds: f64| (seconds * 1e6) as i64;
        let known = self.counted.flush_s.filter(|_| all.fsync);
        Settings {
            checkpoint_timeout_us: us(all.checkpoint_timeout).max(1),
            max_wal_size: all.max_wal_size,
            min_wal_size: all.min_wal_size,
            wal_keep_size: all.wal_keep_size,
            checkpoint_completion_target: all.checkpoint_completion_target.max(0.001),
            full_page_writes: all.full_page_writes,
            wal_compression: Method::from(all.wal_compression),
            shared_buffers: u32::try_from(all.shared_buffers / PAGE_BYTES).ok(),
            synchronous_commit: all.synchronous_commit != "off",
            commit_delay_us: us(all.commit_delay),
            wal_writer_delay_us: us(all.wal_writer_delay).max(1000),
            bgwriter_delay_us: us(all.bgwriter_delay).max(1000),
            bgwriter_lru_maxpages: all.bgwriter_lru_maxpages,
            bgwriter_lru_multiplier: all.bgwriter_lru_multiplier,
            background_page_us: 0,
            background_share: 1.0,
            flush_us: us(known.or(flush_time_s).unwrap_or_default()),
            sync_us: us(self.counted.checkpoint_sync_s.unwrap_or_default()),
            pace: 1.0,
        }
    }

    /// True if the background writer came to all pages that it should write: most of those that it
    /// wrote were not in rounds that ended at `bgwriter_lru_maxpages`.
    pub fn keeps_up_in_background(&self) -> bool {
        let most = u64::from(self.settings.bgwriter_lru_maxpages);
        let written = self.counted.background_pages.unwrap_or(0);
        self.counted.background_full.is_some_and(|full| 2 * full * most <= written)
    }

    /// The redo point before the beginning, and the time of it, where that is known.
    pub fn redo(&self, path: &Path) -> Result<(Lsn, Option<i64>), JobError> {
        // The server tells it in whole seconds.
        let time_us = self.redo_time_s.map(|seconds| us_of(seconds + 0.5));
        Ok((lsn(&self.redo_lsn, path, "redo_lsn")?, time_us))
    }

    /// True if its buffers were empty at the beginning.
    pub fn is_fresh(&self) -> bool {
        self.started_s.is_some_and(|started| self.begin.time_s - started < FRESH_S)
    }

    /// Relations, as far as reads need them.
    pub fn known(&self) -> Vec<Known> {
        let known = |one: &RelationFacts| Known {
            relation: one.relation(),
            pages: one.pages,
            accesses: one.accesses,
            reads: one.reads,
            is_index: one.is_index,
        };
        self.relations.iter().map(known).collect()
    }
}
