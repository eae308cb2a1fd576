//! Modes: how SQLite makes commits atomic and durable, and what is lost in each.

use super::SqliteError;

/// `PRAGMA journal_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// A log of new pages, which checkpoints bring into the database.
    Wal,
    /// A journal of old pages, deleted at the commit.
    Delete,
    /// The same, cut to nothing at the commit.
    Truncate,
    /// The same; its header is overwritten with zeros at the commit.
    Persist,
    /// A journal in memory.
    Memory,
    /// No journal.
    Off,
}

/// `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synchronous {
    /// Nothing is synced.
    Off,
    /// A log is synced at checkpoints, a journal once.
    Normal,
    /// Each commit is synced.
    Full,
    /// In `DELETE` mode the folder is synced after the journal is deleted; else as `FULL`.
    Extra,
}

/// A mode that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The journal mode.
    pub journal: JournalMode,
    /// When it syncs.
    pub synchronous: Synchronous,
    /// Frames of a log from which a commit makes a checkpoint; 0 for never.
    pub wal_autocheckpoint: u32,
    /// Recorded transactions in one, at least 1.
    pub transactions_in_one: u32,
}

impl Mode {
    /// Refuses what the model does not have.
    ///
    /// # Errors
    /// [`SqliteError::Refused`].
    pub fn check(&self) -> Result<(), SqliteError> {
        let why = match self.journal {
            JournalMode::Memory => {
                "memory: its journal is in memory, so a process that dies in a \
                                    transaction leaves a database that is corrupt"
            }
            JournalMode::Off => {
                "off: it has no journal, so a process that dies in a transaction \
                                 leaves a database that is corrupt, and ROLLBACK does nothing"
            }
            _ => return Ok(()),
        };
        let right = "right would be wal, delete, truncate or persist";
        Err(SqliteError::Refused(format!("{why}; {right}")))
    }

    /// Says what a loss of power or a crash of the system loses. `unsynced`: most commits that the
    /// log had at once since it was synced.
    #[must_use]
    pub fn lost(&self, unsynced: u64) -> String {
        use JournalMode::{Delete, Wal};
        use Synchronous::{Extra, Full, Normal, Off};
        match (self.journal, self.synchronous) {
            (_, Off) => "power: the database may be corrupt; a process that dies: nothing".into(),
            (Wal, Normal) => format!(
                "power: up to {unsynced} of these commits at once, those since the log was synced; \
                 the database stays sound"
            ),
            (Wal, Full | Extra) => "nothing that was committed".into(),
            (_, Normal) => "power: nothing that was committed, but on old file systems the \
                            database may be corrupt, rarely"
                .into(),
            (Delete, Full) => "power: nothing but the last commit, which is rolled back if the \
                               deletion of its journal was not durable (EXTRA syncs it)"
                .into(),
            (_, Full | Extra) => "nothing that was committed".into(),
        }
    }
}

/// Bytes that SQLite keeps beside a page in its cache: `sizeof(MemPage)` on 64 bits.
const EXTRA_BYTES: i64 = 136;

/// Pages that a cache of `PRAGMA cache_size` holds: so many, or so many KiB if it is negative.
/// `numberOfCachePages` of `pcache.c`.
#[must_use]
pub fn cache_pages(cache_size: i64, page_bytes: u32) -> u64 {
    let pages = if cache_size >= 0 {
        cache_size
    } else {
        cache_size.saturating_mul(-1024) / (i64::from(page_bytes) + EXTRA_BYTES)
    };
    pages.unsigned_abs()
}
