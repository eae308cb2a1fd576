//! FTL schemes: how logical pages find their place, and what that costs. One file each.

mod allocation;
pub mod bast;
pub(crate) mod behind_cache;
pub mod block_mapped;
pub mod dftl;
mod dftl_cache;
mod dftl_mapping;
mod dftl_placement;
#[cfg(test)]
mod dftl_tests;
pub mod fast;
mod host_memory;
mod hybrid;
#[cfg(test)]
mod hybrid_tests;
mod lane;
mod log_maps;
mod merge;
mod pace;
pub mod page_mapped;
pub(crate) mod stripes;
mod superblock;
pub mod superblock_mapped;
mod watch;
mod wear;

use registry::Info;
use units::{Lpn, PageOp};

use crate::drive::counters::counters;
use crate::drive::media::{Done, Media, Tag};
use crate::drive::time::Picos;

/// What is known of every scheme: one line each, and one in [`crate::drive::visit_drive`].
pub static SCHEMES: &[&Info] = &[
    &page_mapped::INFO,
    &superblock_mapped::INFO,
    &dftl::INFO,
    &bast::INFO,
    &fast::INFO,
    &block_mapped::INFO,
];

/// How a page read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPath {
    /// From the flash: a command with the caller's tag was given, or will be.
    Flash,
    /// From the controller's memory, where the page waits to be programmed: no command.
    Memory,
    /// The page holds no data: no command, and the host gets zeroes.
    Unmapped,
}

counters! {
    /// Counts that every scheme keeps.
    pub struct SchemeCounters {
        /// Pages written for the host.
        host_page_writes,
        /// Valid pages that cleaning, merges and wear levelling moved.
        relocated_pages,
        /// Of them, moved only to even out wear.
        wear_moved_pages,
        /// Translation pages written (DFTL).
        mapping_page_writes,
        /// Pages of parity written (`ftl.parity_dies`).
        parity_page_writes,
        /// Translations that were in the cache of the map (DFTL).
        mapping_hits,
        /// Translations that were not, or that were still being read.
        mapping_misses,
        /// Translation pages fetched from the host's memory (DFTL).
        mapping_host_hits,
        /// Pages trimmed that held data.
        trimmed_pages,
        /// Of the host's pages, those that went to the SLC cache.
        slc_page_writes,
        /// Of the relocated ones, those that were moved out of it.
        folded_pages,
        /// Erases.
        erases,
        /// Merges of the hybrid schemes: switch, partial, full.
        switch_merges,
        /// A log block that was filled in part, in order: the rest is copied to it.
        partial_merges,
        /// Newest pages gathered from data and log into a new block.
        full_merges,
        /// Erase blocks taken out of use.
        retired_blocks,
        /// Erase blocks relocated to even out wear.
        wear_moves,
    }
}

/// Why a scheme can take no more writes: the drive has become read-only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the drive is worn out after {host_page_writes} host page writes: plane {plane} has no erase \
     block left to write to"
)]
pub struct WornOut {
    /// Where.
    pub plane: u32,
    /// Host page writes so far.
    pub host_page_writes: u64,
}

/// Why a scheme cannot be made for some media.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// Too little space beyond the logical pages.
    #[error(
        "`{scheme}` needs {needed} superblocks (those of the logical pages, its logs, a target for \
         each merge), but the media have {have}; raise over_provisioning or lower log_blocks, \
         open_blocks or interleave"
    )]
    TooSmall {
        /// Scheme.
        scheme: &'static str,
        /// Superblocks needed.
        needed: u32,
        /// Superblocks of the media.
        have: u32,
    },
    /// The planes cannot be divided into groups of the size asked for.
    #[error("`{scheme}`: interleave={interleave} does not divide the {planes} planes of the media")]
    Interleave {
        /// Scheme.
        scheme: &'static str,
        /// Planes of a superblock.
        interleave: u32,
        /// Planes of the media.
        planes: u32,
    },
    /// What is loaded of the map at once does not divide a translation page.
    #[error(
        "`{scheme}`: load_entries={load_entries} does not divide the {entries} entries of a \
         translation page"
    )]
    LoadEntries {
        /// Scheme.
        scheme: &'static str,
        /// Entries loaded at once.
        load_entries: u64,
        /// Entries of a translation page.
        entries: u32,
    },
    /// A superblock has too many pages.
    #[error(
        "`{scheme}`: a superblock would have {pages} pages, more than {most}; lower `interleave`"
    )]
    TooLarge {
        /// Scheme.
        scheme: &'static str,
        /// Pages of a superblock.
        pages: u64,
        /// Most that it may have.
        most: u64,
    },
}

/// A flash translation layer with a clock.
///
/// It maps at the moment that it is asked, and gives commands; time passes in the [`Media`].
/// Commands to one die are carried out in the order given, except that reads for the host may
/// overtake others where the profile says so.
pub trait Scheme: Send {
    /// Pages that the host can address.
    fn logical_pages(&self) -> u32;

    /// Reads `bytes` of a page. If the answer is [`ReadPath::Flash`], a read command with `tag` is
    /// given now or later, exactly once.
    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath;

    /// Writes a page. Exactly one program command with `tag` is given, now or as soon as there is
    /// room; its end makes the page durable. From this call on, a read finds the new version.
    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media);

    /// Loads the tables' entries of logical pages that are read soon, or written, so that they are
    /// in the cache by then.
    fn fetch(&self, _lpns: &[u32], _are_written: bool) {}

    /// Forgets a page.
    fn trim(&mut self, lpn: Lpn, media: &mut Media);

    /// A command with a tag of [`Tag::scheme`] is done.
    fn completed(&mut self, done: &Done, media: &mut Media);

    /// When the scheme wants to be woken, if it does: for what it does in idle time.
    fn next_wake(&self) -> Option<Picos> {
        None
    }

    /// The time that [`Scheme::next_wake`] named has come.
    fn wake(&mut self, _media: &mut Media) {}

    /// Writes a page at once, without time or commands: to make a drive full or aged. Only before
    /// the first command; the media are told through [`Media::preset`].
    fn write_untimed(&mut self, lpn: Lpn);

    /// Forgets a page at once, as [`Scheme::write_untimed`] writes one.
    fn trim_untimed(&mut self, lpn: Lpn);

    /// Writes and forgets pages at once, in the order given.
    fn apply_untimed(&mut self, pages: &[PageOp]) {
        for page in pages {
            if page.is_trim() {
                self.trim_untimed(page.lpn());
            } else {
                self.write_untimed(page.lpn());
            }
        }
    }

    /// Tells the media which pages are programmed, after [`Scheme::write_untimed`] and before the
    /// first command.
    fn settle(&mut self, media: &mut Media);

    /// Whether the scheme has no work under way and no write waiting.
    fn is_quiet(&self) -> bool;

    /// What was done so far.
    fn counters(&self) -> SchemeCounters;

    /// Streams of the placement policy that there is no room for.
    fn streams_left_out(&self) -> usize {
        0
    }

    /// How often each erase block was erased.
    fn erase_counts(&self) -> &[u32];

    /// Set when the drive cannot take writes any more.
    fn worn_out(&self) -> Option<WornOut> {
        None
    }

    /// Memory of its tables in bytes.
    fn table_bytes(&self) -> usize;

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What contradicts what: a bug.
    fn audit(&self) -> Result<(), String>;
}
