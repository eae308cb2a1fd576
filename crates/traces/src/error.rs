//! Errors of trace files, and their places.

use std::fmt;
use std::path::PathBuf;

use registry::SpecError;
use thiserror::Error;
use units::Cancelled;

/// Place of a record in a trace. Bytes are counted after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of text, counted from 1.
    Line(u64),
    /// First byte of a binary record.
    Byte(u64),
    /// A row of a table, counted from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// Reasons why a trace cannot be read, written or used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A record that the format does not allow, beyond those that `skip_bad` lets pass.
    #[error(
        "{}, {place}: {reason}; right would be {right}{}",
        path.display(),
        after_skipped(*skipped)
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The place in it.
        place: Place,
        /// Says what is wrong.
        reason: String,
        /// Says what would be right.
        right: &'static str,
        /// Malformed records that were skipped before this one, as `skip_bad` allowed.
        skipped: u64,
    },
    /// The operating system or a decompressor failed.
    #[error("{}: {doing} failed{}: {source}", path.display(), at_byte(doing, *offset))]
    Io {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
        /// Bytes (after decompression) that went well before.
        offset: u64,
        /// The cause.
        source: std::io::Error,
    },
    /// The content is of no known format, or of more than one.
    #[error(
        "{}: {reason}; name the format (--format, or `format=`), one of: {known}",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Says what was found instead.
        reason: String,
        /// Names of the formats that can be read.
        known: String,
    },
    /// A format name or parameter is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The format is only read.
    #[error("format `{format}` cannot be written; these can: {known}")]
    NotWritable {
        /// The format.
        format: &'static str,
        /// Names of the formats that can be written.
        known: String,
    },
    /// A request has a field that the format to be written cannot hold.
    #[error(
        "{}: request {request} cannot be written as {format}: {reason}; right would be {right}",
        path.display()
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The request, counted from 0.
        request: u64,
        /// The format.
        format: &'static str,
        /// Says what is wrong.
        reason: String,
        /// Says what would be right.
        right: &'static str,
    },
    /// The file is sound, but cannot be used in this way.
    #[error("{}: {reason}; right would be {right}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Says what is wrong.
        reason: String,
        /// Says what would be right.
        right: &'static str,
    },
    /// The Parquet library refused the file.
    #[error("{}: {doing} failed at {place}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
        /// Row that came next.
        place: Place,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The work was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Gives the place of a failure in a file, if it has one.
fn at_byte(doing: &str, offset: u64) -> String {
    if matches!(doing, "open" | "create" | "list") {
        String::new()
    } else {
        format!(" at byte {offset}")
    }
}

fn after_skipped(skipped: u64) -> String {
    if skipped == 0 {
        String::new()
    } else {
        format!(" ({skipped} malformed records were skipped before it)")
    }
}

/// Error of one record. Boxed: the way without errors carries a pointer only.
#[derive(Debug)]
pub(crate) struct Bad(Box<(String, &'static str)>);

impl Bad {
    pub(crate) fn new(reason: impl Into<String>, right: &'static str) -> Self {
        Self(Box::new((reason.into(), right)))
    }

    /// A field that is not what it should be; bytes that cannot be printed are escaped, long ones
    /// cut.
    pub(crate) fn field(name: &str, value: &[u8], right: &'static str) -> Self {
        const SHOWN: usize = 40;
        let cut = if value.len() > SHOWN { "..." } else { "" };
        Self::new(
            format!("{name} is `{}{cut}`", value[..value.len().min(SHOWN)].escape_ascii()),
            right,
        )
    }

    pub(crate) fn into_parts(self) -> (String, &'static str) {
        *self.0
    }
}
