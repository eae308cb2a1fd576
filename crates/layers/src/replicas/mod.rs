//! Dynamic page replication on a real device: no request waits for a busy chip if another can
//! answer (He, Yu & Zhou, REPLICATION 4 and 5.1).
//!
//! The device below is divided into equal partitions that stand for its chips. A page is at home in
//! one of them; slots in others hold replicas. A read that is not answered within the patience D is
//! sent to the next replica, too (RRead, [`reads`]); a write is sent to a slot in a partition
//! chosen at random, too (RWrite, [`writes`]), once that has rested for long enough ([`resting`]).
//! The first that ends completes the request. An update invalidates all other replicas. PBLRU
//! decides which pages keep replicas ([`groups`]).
//!
//! # Durability
//! - A write is acknowledged when the first of its places has it. It is volatile until a flush.
//! - *Homes are authoritative.* For all that was acknowledged with a slot alone, a write to home is
//!   under way, or comes next. A FLUSH waits for these, then flushes what is below, and then is
//!   replied to. So the map of replicas is never needed again: it is in memory alone, and recovery
//!   reads two superblocks ([`disk`]).
//! - A write with FUA goes to home alone, with FUA.
//! - A trim waits until homes hold all earlier writes, drops the replicas, and goes below; writes
//!   to its pages that come meanwhile wait for it.
//! - A failed write to a slot costs that replica. A failed write to home fails the write of the
//!   host, unless a slot has it, or gets it: then it is tried once more. If that fails, and the
//!   write was acknowledged, the layer is poisoned; so it is by a flush below that fails.
//! - When it is poisoned, it goes on reading. Pages that could not be written at home are read from
//!   their slots. After a flush that failed for another reason than a poisoned layer below, only
//!   those pages are certain that homes held when the last good flush was sent: reads of others
//!   fail (`layer.rs`).
//!
//! # What is seen when
//! Each sector is an atomic register: no read sees an older version than an earlier read saw
//! ([`pages`] says why).
//!
//! `docs/formats/replicas.md` draws the format on the device; `docs/layers.md` lists differences
//! from the paper.

mod blocking;
mod counts;
mod disk;
mod flights;
mod geometry;
mod groups;
mod layer;
mod memory;
mod pages;
mod patience;
mod reads;
mod resting;
mod settings;
mod space;
mod structures;
#[cfg(test)]
mod tests;
mod trims;
mod writes;

use registry::Info;

use crate::{Addresses, Entry, LayerError};

const NAME: &str = "replicas";

/// The layer in the registry.
pub static ENTRY: Entry = Entry {
    info: Info {
        name: NAME,
        aliases: &["replication"],
        summary: "pages have replicas in other parts of the device: what is blocked is read from, \
                  or written to, another one",
        source: "REPLICATION (He, Yu & Zhou, TPDS 2015) 4, 5.1",
        params: settings::PARAMS,
    },
    counters: counts::COUNTERS,
    addresses: Addresses::Moved,
    aside: None,
    format: disk::format,
    open: disk::open,
    salvage: None,
    limits: |_, _| Err(not_resized()),
    resize: |_, _| Err(not_resized()),
    memory: memory::memory,
    structures: structures::structures,
    settled: None,
};

/// Gives the error of a resize: all partitions would change their size, too.
fn not_resized() -> LayerError {
    let reason = "it cannot be resized, as nearly every page would have to move: make a new volume \
                  of the wanted size, and copy the contents to it";
    LayerError::Refused { layer: NAME, reason: reason.to_owned() }
}
