//! A checksum for each page, beside pages that stay where they are: rot is found on the next read,
//! whoever wrote above, and is never given to anybody.
//!
//! # What a page is held against
//! A table with 4 bytes a page lies at the end of what is below, and is kept in memory. Pages and
//! their checksums cannot be written at once. So a region of pages, those of one block of the
//! table, is marked on the device before the first of its pages is written, and its block is
//! written when none of them has been for a while: a write-intent bitmap, as those of Linux's `md`
//! and of `dm-integrity` in bitmap mode.
//!
//! # The contract
//! A page that does not hold what was written fails the reads of it, with [`Failure::Io`], and no
//! other; it can be written. A write of a part of a page reads the rest of it first, and fails if
//! that is bad: rot gets no fresh checksum. Flushes and FUA go below as they come.
//!
//! After a power cut, or after its process was killed, the pages of marked regions may hold another
//! version than their checksums tell of. They are given as they are until a pass in the background
//! has read them: what differs is written once more, and gets its checksum then. So what rotted in
//! a region that is marked at a crash is not found; what rots anywhere else is.
//!
//! Pages that were never written, or trimmed, have no checksum, as nobody says what they hold.
//!
//! [`Failure::Io`]: crate::Failure::Io

mod background;
mod commands;
mod counts;
mod disk;
mod intent;
mod layer;
mod locks;
mod recovery;
mod resize;
mod settings;
mod structures;
mod table;
mod tasks;
#[cfg(test)]
mod tests;

use registry::Info;

use crate::{Addresses, Entry};

const NAME: &str = "checksums";

/// The layer in the registry.
pub static ENTRY: Entry = Entry {
    info: Info {
        name: NAME,
        aliases: &[],
        summary: "a checksum for each page, which stays where it is: rot is an error of that page",
        source: "as dm-integrity's bitmap mode (Linux 5.2) does it",
        params: settings::PARAMS,
    },
    counters: counts::COUNTERS,
    addresses: Addresses::Guarded,
    aside: None,
    format: recovery::format,
    open: recovery::open,
    salvage: None,
    limits: resize::limits,
    resize: resize::resize,
    memory: settings::memory,
    structures: structures::structures,
    settled: None,
};
