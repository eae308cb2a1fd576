//! The outcome of `sqlite_what_if`.

use schemars::JsonSchema;
use serde::Serialize;

use super::settings::{JournalModeName, SynchronousName};

/// What a SQLite database would have written in each mode.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhatSqliteWrites {
    /// Identity of the transactions: the hash of their file.
    pub content_hash: String,
    /// Transactions that were taken.
    pub transactions: u64,
    /// Transactions before them that were left out.
    pub left_out: u64,
    /// Time from the first commit to the last, in seconds; none of a log, which has no times.
    pub seconds: Option<f64>,
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages that they write; one that two of them write counts twice.
    pub pages_written: u64,
    /// Most pages that the database has.
    pub most_pages: u32,
    /// Journal mode in which they were recorded.
    pub recorded_in: JournalModeName,
    /// Pages that the cache holds.
    pub cache_pages: u64,
    /// What each mode would have written, as asked.
    pub modes: Vec<ModeWrites>,
    /// Gaps in what is known, in words.
    pub not_told: Vec<String>,
}

/// What one mode would have written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModeWrites {
    /// Its name.
    pub name: String,
    /// `PRAGMA journal_mode`.
    pub journal_mode: JournalModeName,
    /// `PRAGMA synchronous`.
    pub synchronous: SynchronousName,
    /// Frames of the log from which a commit makes a checkpoint; none without a log.
    pub wal_autocheckpoint: Option<u64>,
    /// Recorded transactions in one.
    pub transactions_in_one: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes written to the rollback journal.
    pub journal_bytes: u64,
    /// Bytes written to the database.
    pub database_bytes: u64,
    /// All bytes written.
    pub total_bytes: u64,
    /// All bytes written at most, where it is not known which transactions change the first page;
    /// then the figures above are the least.
    pub total_bytes_at_most: Option<u64>,
    /// Longest that the log was, in bytes.
    pub longest_log_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Syncs by file.
    pub syncs: Syncs,
    /// What is lost, and when.
    pub lost: String,
    /// Why a figure is a bound, in words.
    pub bounds: Vec<String>,
    /// The trace that was written.
    pub trace: Option<TraceWritten>,
}

/// Syncs of each file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Syncs {
    /// Of the database.
    pub database: u64,
    /// Of the log.
    pub log: u64,
    /// Of the rollback journal.
    pub journal: u64,
    /// Of the folder.
    pub folder: u64,
}

/// A trace of a mode's writes: stream 1 the database, 2 the log, 3 the journal.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TraceWritten {
    /// Its file.
    pub path: String,
    /// Requests in it.
    pub requests: u64,
    /// Bytes that they write: whole blocks of 4 KiB, as the kernel's page cache writes them.
    pub written_bytes: u64,
    /// Flushes in it.
    pub flushes: u64,
    /// One behind the last byte named.
    pub end_bytes: u64,
}
