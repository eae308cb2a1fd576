//! The log: segments of a folder, as one row of records.

#[cfg(test)]
pub(crate) mod built;
mod error;
mod pages;
mod positions;
mod reader;
#[cfg(test)]
mod reader_tests;
mod record;
mod segments;

pub use error::WalError;
pub use positions::{Lsn, PAGE_BYTES, Positions};
pub use reader::{End, Reader};
pub use record::{Block, ImageHead, Record, Relation, flags, heap, rmgr, xact, xlog};
pub use segments::{Log, Segment};
