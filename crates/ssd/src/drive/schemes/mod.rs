//! FTL schemes: how logical pages find their place, and what that costs. One file each.

mod allocation;
pub mod bast;
pub(crate) mod behind_cache;
pub mod block_mapped;
pub mod dftl;
mod dftl_cache;
mod dftl_mapping;
#[cfg(test)]
mod dftl_tests;
pub mod fast;
mod fdp;
mod host_memory;
mod hybrid;
#[cfg(test)]
mod hybrid_tests;
mod lane;
mod log_maps;
mod merge;
mod own_stream;
mod pace;
pub mod page_mapped;
pub mod replicated;
pub(crate) mod stripes;
mod superblock;
pub mod superblock_mapped;
mod watch;
mod wear;
mod windows;
pub mod zoned;

use registry::Info;
use units::{Lpn, PageOp};

pub use fdp::{FdpCounts, FdpEvents, HandleCounts};
pub use windows::Windows;

use crate::drive::counters::counters;
use crate::drive::media::{Done, Media, Tag};
use crate::drive::time::Picos;
pub use zoned::{ZoneAction, ZoneCounts, ZoneError, ZoneState};

/// What is known of every scheme: one line each, and one in [`crate::drive::visit_drive`].
pub static SCHEMES: &[&Info] = &[
    &page_mapped::INFO,
    &superblock_mapped::INFO,
    &dftl::INFO,
    &bast::INFO,
    &fast::INFO,
    &block_mapped::INFO,
    &zoned::INFO,
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
        /// Pages that were rebuilt from the rest of their stripe (`ftl.parity_reads`).
        rebuilt_pages,
        /// Copies of pages written to other dies (`replication.policy`).
        replica_page_writes,
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
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
    /// A superblock cannot be divided into so many zones.
    #[error(
        "`{scheme}`: parts={parts} does not divide the {units} dies (planes, without multi_plane) \
         of a superblock"
    )]
    Parts {
        /// Scheme.
        scheme: &'static str,
        /// Zones of a superblock.
        parts: u32,
        /// What they share.
        units: u32,
    },
    /// The flash does not hold all zones.
    #[error(
        "`{scheme}`: the logical pages make {zones} zones, and the good erase blocks {places}; \
         raise over_provisioning"
    )]
    Zones {
        /// Scheme.
        scheme: &'static str,
        /// Zones.
        zones: u32,
        /// Places for them.
        places: u32,
    },
    /// The spare space is too small for copies of pages.
    #[error(
        "replication.budget = {budget} needs {needed} erase blocks of the spare space with what the \
         streams need, which has {have}; lower it, or raise ftl.over_provisioning"
    )]
    Copies {
        /// Share of the logical pages.
        budget: f64,
        /// Erase blocks that copies and streams need.
        needed: u32,
        /// Spare erase blocks.
        have: u32,
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

    /// Whether the host says with each write where it belongs ([`Scheme::set_handle`]).
    fn has_handles() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The placement handle of the pages that are written next.
    fn set_handle(&mut self, _handle: u8) {}

    /// What was written by handle so far, if the scheme has handles.
    fn fdp(&self) -> Option<FdpCounts> {
        None
    }

    /// Whether the drive has zones: then it is asked before each write and trim.
    fn is_zoned() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// A write has come, or with `append` one whose place the zone chooses. Its first page.
    ///
    /// # Errors
    /// [`ZoneError`] if it is refused.
    fn take_write(&mut self, first: Lpn, pages: u32, append: bool) -> Result<Lpn, ZoneError> {
        let _ = (pages, append);
        Ok(first)
    }

    /// A trim has come. It may not while [`Scheme::is_in_transit`].
    ///
    /// # Errors
    /// [`ZoneError`] if it is refused.
    fn take_trim(&mut self, _first: Lpn, _pages: u32) -> Result<(), ZoneError> {
        Ok(())
    }

    /// A write or trim has come that does not begin and end with a page, and is refused.
    fn refuse_part(&mut self, _offset: u64, _length: u32) -> ZoneError {
        ZoneError::NoZones
    }

    /// A page of a write that was taken is in the write buffer.
    fn has_arrived(&mut self, _lpn: Lpn) {}

    /// Whether pages of writes to these zones were taken, and are not in the write buffer yet.
    fn is_in_transit(&self, _first: Lpn, _pages: u32) -> bool {
        false
    }

    /// Changes the state of a zone.
    ///
    /// # Errors
    /// [`ZoneError`] if its state or a limit does not allow it, or there are no zones.
    fn manage_zone(
        &mut self,
        _action: ZoneAction,
        _zone: u32,
        _media: &mut Media,
    ) -> Result<(), ZoneError> {
        Err(ZoneError::NoZones)
    }

    /// State of a zone, and its write pointer in pages from its beginning; `None` if there is none.
    fn zone(&self, _zone: u32) -> Option<(ZoneState, u32)> {
        None
    }

    /// Why the first request was refused, if one was.
    fn refusal(&self) -> Option<&ZoneError> {
        None
    }

    /// What was done with copies of pages so far, if there are any.
    fn replication(&self, _media: &Media) -> Option<replicated::ReplicationFigures> {
        None
    }

    /// What was done with zones so far, if there are any.
    fn zone_counts(&self) -> Option<ZoneCounts> {
        None
    }

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

    /// How long a read of a page that came now would wait for what its die does for the drive
    /// itself, as far as is known; `None` if it would not, or the scheme does not tell.
    fn waits_for_own_work(&self, _lpn: Lpn, _media: &Media) -> Option<Picos> {
        None
    }

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
