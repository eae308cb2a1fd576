//! Trimmed pages that read as zeros, at the cost of a bit a page, whatever lies below.
//!
//! # What is kept
//! A map with a bit for each page lies behind the pages, twice. A page whose bit is set is a
//! *hole*: it reads as zeros without a look below, where it was or will be trimmed, and may hold
//! anything. The whole map is in memory; those of its blocks that changed are written when the host
//! flushes, and some time after a trim.
//!
//! # The contract
//! A trim of whole pages is a write of zeros: it is seen from its reply on, and durable with the
//! next flush. Of parts of pages nothing is trimmed. Flushes and FUA are what they are below.
//!
//! # Orders that matter
//! 1. A page is trimmed below only when its bit is durable. Otherwise a power cut would leave a
//!    page that is no hole and may give other bytes at each read.
//! 2. A bit is cleared on the device only when what was written to its page is durable, and before
//!    a flush or a write with FUA that covers this is replied to. Cleared earlier, it would uncover
//!    what lay there before the trim; later, it would hide what was flushed.
//! 3. A write to a hole has its pages alone, and fills up those that it covers in part with zeros.
//!    It waits for a trim of them below.
//!
//! `docs/formats/holes.md` draws what lies on the device.

mod bits;
mod commands;
mod commit;
mod counts;
mod format;
mod layer;
mod recovery;
mod resize;
mod settings;
#[cfg(test)]
mod tests;

use registry::Info;

use crate::{Addresses, Entry};

pub use layer::Flaw;
pub use recovery::open_flawed;

const NAME: &str = "holes";

/// The layer in the registry.
pub static ENTRY: Entry = Entry {
    info: Info {
        name: NAME,
        aliases: &[],
        summary: "what is trimmed reads as zeros, and costs a bit a page",
        source: "own; as the mapping of dm-thin and the zeroed extents of file systems do it",
        params: settings::PARAMS,
    },
    counters: counts::COUNTERS,
    addresses: Addresses::Kept,
    aside: None,
    format: recovery::format,
    open: recovery::open,
    salvage: Some(recovery::salvage),
    limits: resize::limits,
    resize: resize::resize,
    memory: settings::memory,
    structures: resize::structures,
    settled: None,
};
