//! StableBuffer: random writes go to a small area at the end of the device first, where they are fast, and from there to their
//! destinations in patterns that are fast, too (Li et al., CIKM 2010).

mod counts;
mod disk;
mod flusher;
mod host;
mod layer;
mod patterns;
mod recovery;
mod sequential;
mod settings;
mod table;
#[cfg(test)]
mod tests;

use registry::Info;

use crate::Entry;

const NAME: &str = "stable_buffer";

/// The layer in the registry.
pub static ENTRY: Entry = Entry {
    info: Info {
        name: NAME,
        aliases: &["stablebuffer"],
        summary: "random writes are staged in a small area of the device, and flushed from there in patterns that it likes",
        source: "STABLEBUFFER (Li et al., CIKM 2010)",
        params: settings::PARAMS,
    },
    counters: counts::COUNTERS,
    format: recovery::format,
    open: recovery::open,
};
