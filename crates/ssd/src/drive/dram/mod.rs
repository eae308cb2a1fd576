//! The DRAM of the drive: write-back buffer, read cache, read-ahead.
//!
//! Plain data structures: they hold no data, know no time and give no commands. The drive asks them
//! what to do and tells them what is done. All are keyed by logical page through a flat table of
//! four bytes a logical page, which exists only if they do.

mod erase_block_order;
mod read_ahead;
mod read_cache;
mod write_buffer;

pub use read_ahead::{ReadAhead, ReadAheadCounters};
pub use read_cache::{Lookup, ReadCache, ReadCacheCounters};
pub use write_buffer::{Admission, FlushTicket, PageTicket, WriteBuffer, WriteBufferCounters};
