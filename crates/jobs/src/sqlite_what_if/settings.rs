//! The settings of `sqlite_what_if`.

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wal::sqlite;

use crate::values::{Count, Size};

/// Computes what a SQLite database would have written in other modes, from recorded transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct SqliteWhatIf {
    /// The folder of a recording with a SQLite database, its `transactions.parquet`, or a log
    /// (`-wal`) that was kept whole by `PRAGMA wal_autocheckpoint=0`, beside its database.
    #[schemars(extend("argument" = true, "metavar" = "TRANSACTIONS"))]
    pub transactions: String,
    /// Leave the first N transactions out.
    #[schemars(extend("group" = "Transactions", "metavar" = "N"))]
    pub before: Count,
    /// Modes that are asked about.
    #[schemars(extend("group" = "Modes"))]
    pub modes: Vec<SqliteMode>,
    /// `PRAGMA cache_size`: pages, or KiB if it is negative. [default: as recorded; else -2000,
    /// SQLite's own]
    #[schemars(extend("group" = "Modes", "metavar" = "N"))]
    pub cache_size: Option<i64>,
    /// Folder into which the writes of each mode go in time and place, as NAME.parquet.
    #[schemars(extend("group" = "Traces", "metavar" = "DIR", "writes" = "folder"))]
    pub traces: Option<String>,
    /// Places of the files in these traces.
    #[schemars(extend("group" = "Traces"))]
    pub layout: FileLayout,
}

impl Default for SqliteWhatIf {
    fn default() -> Self {
        Self {
            transactions: String::new(),
            before: Count(0),
            modes: Vec::new(),
            cache_size: None,
            traces: None,
            layout: FileLayout::default(),
        }
    }
}

/// A mode of SQLite, and how many transactions it makes one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SqliteMode {
    /// Its name, also of its trace; left out, it is made of what follows.
    pub name: Option<String>,
    /// `PRAGMA journal_mode`.
    pub journal_mode: JournalModeName,
    /// `PRAGMA synchronous`.
    pub synchronous: SynchronousName,
    /// `PRAGMA wal_autocheckpoint`: frames of the log from which a commit makes a checkpoint; 0 for
    /// never.
    pub wal_autocheckpoint: Count,
    /// `PRAGMA page_size`: that of the recording.
    pub page_size: Option<Size>,
    /// Recorded transactions in one.
    pub transactions_in_one: Count,
}

impl Default for SqliteMode {
    fn default() -> Self {
        Self {
            name: None,
            journal_mode: JournalModeName::Wal,
            synchronous: SynchronousName::Full,
            wal_autocheckpoint: Count(1000),
            page_size: None,
            transactions_in_one: Count(1),
        }
    }
}

/// A value of `PRAGMA journal_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "those of SQLite")]
pub enum JournalModeName {
    Wal,
    Delete,
    Truncate,
    Persist,
    Memory,
    Off,
}

/// A value of `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "those of SQLite")]
pub enum SynchronousName {
    Off,
    Normal,
    Full,
    Extra,
}

impl JournalModeName {
    /// As the model has it.
    pub(super) fn mode(self) -> sqlite::JournalMode {
        match self {
            Self::Wal => sqlite::JournalMode::Wal,
            Self::Delete => sqlite::JournalMode::Delete,
            Self::Truncate => sqlite::JournalMode::Truncate,
            Self::Persist => sqlite::JournalMode::Persist,
            Self::Memory => sqlite::JournalMode::Memory,
            Self::Off => sqlite::JournalMode::Off,
        }
    }
}

impl SynchronousName {
    /// As the model has it.
    pub(super) fn mode(self) -> sqlite::Synchronous {
        match self {
            Self::Off => sqlite::Synchronous::Off,
            Self::Normal => sqlite::Synchronous::Normal,
            Self::Full => sqlite::Synchronous::Full,
            Self::Extra => sqlite::Synchronous::Extra,
        }
    }
}

/// First bytes of the files on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileLayout {
    /// First byte of the database.
    pub database: u64,
    /// First byte of the log; left out, the first MiB behind the database.
    pub log: Option<u64>,
    /// First byte of the journal; left out, that of the log.
    pub journal: Option<u64>,
    /// Trim the place of a journal that is deleted or cut, as a file system does that was told to
    /// discard.
    pub discard: bool,
}
