//! Reasons why transactions cannot be read or asked about.

use std::io;

use thiserror::Error;

/// Reasons why transactions cannot be read, or a mode cannot be told.
#[derive(Debug, Error)]
pub enum SqliteError {
    /// A part of a log is not what SQLite writes.
    #[error("byte {offset}: {what}; right would be {right}")]
    Damaged {
        /// First byte of the part.
        offset: u64,
        /// Says what is wrong.
        what: String,
        /// Says what would be right.
        right: &'static str,
    },
    /// The log cannot be read.
    #[error("byte {offset}: {source}")]
    Io {
        /// First byte that was wanted.
        offset: u64,
        /// The cause.
        source: io::Error,
    },
    /// Transactions do not follow one another.
    #[error("transaction {number}: {what}; right would be {right}")]
    Transaction {
        /// Its number, from 0.
        number: u64,
        /// Says what is wrong.
        what: String,
        /// Says what would be right.
        right: &'static str,
    },
    /// A mode that the model does not have.
    #[error("{0}")]
    Refused(String),
    /// A transaction has more pages than the cache holds.
    #[error(
        "transaction {number} would write {pages} pages at once, and from {most} on a cache of \
         {cache} pages may spill some of them before the commit, which is not modelled; right \
         would be fewer transactions in one, or a larger cache_size"
    )]
    Spill {
        /// Number of the first recorded transaction in it.
        number: u64,
        /// Pages that it writes.
        pages: u64,
        /// Pages from which SQLite may spill.
        most: u64,
        /// Pages that the cache holds.
        cache: u64,
    },
}
