//! StableBuffer: random writes go to a small area at the end of the device first, or on another
//! device, where they are fast, and from there to their destinations in patterns that are fast, too
//! (Li et al., CIKM 2010).
//!
//! # Durability
//! A write is replied to when its slot is durable (`ack=fua`, and `ack=flush` with a flush that
//! writes share), and then a host's flush has nothing left to do; or when its slot is written
//! (`ack=written`): then it is volatile until the host's flush, which is passed on, or FUA. A power
//! cut takes what was not acknowledged, and with `written` what no flush covers; each sector then
//! holds an older version, but none older than the last durable one. A write or flush of the
//! layer's own that fails poisons it. Reads go on then, from slots by their checksums, unless a
//! flush failed: destinations may then be older than what went past the buffer.
//!
//! A page is in one place or the other at any moment: its slot is free only when its destination,
//! or a newer slot, is durable. A page that is written again gets a new slot (the paper overwrites
//! the old one: a torn write would lose what was acknowledged). Recovery takes the newest version
//! of each page that is in any slot, needed or not; so the newest durable one is not overwritten
//! while an older one is there ([`table`]), and nothing is written past the buffer to a page of
//! which a version is there ([`host`]). Headers of torn slots are wiped ([`recovery`]). A slot
//! has its header twice, in two sectors ([`slot`]), so that one bad sector costs one page; where all
//! were flushed and a superblock says so ([`note`]), no slot is looked at. What lies
//! on the device is drawn in `docs/formats/stable_buffer.md`; differences from the paper are in
//! `docs/layers.md`.

mod checks;
mod counts;
mod disk;
mod flusher;
mod host;
mod layer;
mod lifetimes;
mod memory;
mod note;
mod patterns;
mod recovery;
mod resize;
mod scrub;
mod sequential;
mod settings;
mod slot;
mod structures;
mod table;
#[cfg(test)]
mod tests;
mod writes;

use registry::Info;

use crate::staging::Aside;
use crate::{Addresses, Entry};

const NAME: &str = "stable_buffer";

/// The layer in the registry.
pub static ENTRY: Entry = Entry {
    info: Info {
        name: NAME,
        aliases: &["stablebuffer"],
        summary: "random writes are staged in a small area of the device, and flushed from there \
                  in patterns that it likes",
        source: "STABLEBUFFER (Li et al., CIKM 2010)",
        params: settings::PARAMS,
    },
    counters: counts::COUNTERS,
    addresses: Addresses::Kept,
    aside: Some(&Aside { leave: resize::leave, lay: resize::lay, bytes_with: resize::bytes_with }),
    format: recovery::format,
    open: recovery::open,
    salvage: None,
    limits: resize::limits,
    resize: resize::resize,
    memory: memory::memory,
    structures: structures::structures,
    settled: None,
};
