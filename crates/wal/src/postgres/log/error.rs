//! Reasons why a log cannot be read.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::positions::Lsn;

/// Reasons why a log of PostgreSQL cannot be read.
#[derive(Debug, Error)]
pub enum WalError {
    /// The folder holds no log that can be read from its beginning.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Says what is wrong, and what would be right.
        reason: String,
    },
    /// A segment is damaged, or one is missing: log that is right follows.
    #[error("{}: offset {offset} (LSN {lsn}): {reason}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Byte of the file.
        offset: u64,
        /// The place in the log.
        lsn: Lsn,
        /// Says what is wrong, and what would be right.
        reason: String,
    },
    /// A file cannot be read.
    #[error("{}: offset {offset}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Byte of the file.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
}
