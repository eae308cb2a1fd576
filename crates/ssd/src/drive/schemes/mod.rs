//! FTL schemes: mappings of logical pages to the flash, and their costs. One file each.

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
#[cfg(test)]
mod wrapped_tests;
pub mod zoned;

use auto_impl::auto_impl;
use registry::Info;
use units::{Lpn, PageOp};

pub use fdp::{FdpCounts, FdpEvents, HandleCounts};
pub use windows::Windows;

use crate::drive::counters::counters;
use crate::drive::media::{Done, Media, Tag};
use crate::drive::time::Picos;
pub use zoned::{ZoneAction, ZoneCounts, ZoneError, ZoneState};

/// Registry entries of all schemes: one line each here, and one in [`crate::drive::visit_drive`].
pub static SCHEMES: &[&Info] = &[
    &page_mapped::INFO,
    &superblock_mapped::INFO,
    &dftl::INFO,
    &bast::INFO,
    &fast::INFO,
    &block_mapped::INFO,
    &zoned::INFO,
];

/// Source of a page that is read.
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
    /// Counters of every scheme.
    pub struct SchemeCounters {
        /// Pages written for the host.
        host_page_writes,
        /// Valid pages that cleaning, merges and wear levelling moved.
        relocated_pages,
        /// Relocated pages that were moved only to even out wear.
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
        /// Translations that were not in the cache, or that were still being read.
        mapping_misses,
        /// Translation pages fetched from the host's memory (DFTL).
        mapping_host_hits,
        /// Pages trimmed that held data.
        trimmed_pages,
        /// Host pages that went to the SLC cache.
        slc_page_writes,
        /// Relocated pages that were moved out of the SLC cache.
        folded_pages,
        /// Erases.
        erases,
        /// Merges by switch of the hybrid schemes: the log becomes data.
        switch_merges,
        /// Partial merges: the log was filled in part, in order, and the rest is copied to it.
        partial_merges,
        /// Full merges: the newest pages of data and log are gathered in a new block.
        full_merges,
        /// Erase blocks taken out of use.
        retired_blocks,
        /// Erase blocks relocated to even out wear.
        wear_moves,
    }
}

/// Reason for which a scheme can take no more writes: the drive has become read-only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the drive is worn out after {host_page_writes} host page writes: plane {plane} has no erase \
     block left to write to"
)]
pub struct WornOut {
    /// The plane.
    pub plane: u32,
    /// Host page writes so far.
    pub host_page_writes: u64,
}

/// Errors of making a scheme for some media.
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
    /// The number of map entries loaded at once does not divide a translation page.
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
        /// Number of program units that they share.
        units: u32,
    },
    /// The flash has too few places for all zones.
    #[error(
        "`{scheme}`: the logical pages make {zones} zones, and the good erase blocks {places}; \
         raise over_provisioning"
    )]
    Zones {
        /// Scheme.
        scheme: &'static str,
        /// Number of zones.
        zones: u32,
        /// Number of places for them.
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
/// It maps pages when it is called, and gives commands; time passes in the [`Media`]. Commands to
/// one die are carried out in the order given, except that reads for the host may overtake others
/// if the profile says so.
#[auto_impl(Box)]
pub trait Scheme: Send {
    /// Number of pages that the host can address.
    fn logical_pages(&self) -> u32;

    /// Reads `bytes` of a page. If it returns [`ReadPath::Flash`], a read command with `tag` is
    /// given now or later, exactly once.
    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath;

    /// Returns true if the host gives a placement handle with each write ([`Scheme::set_handle`]).
    fn has_handles(&self) -> bool {
        false
    }

    /// Sets the placement handle of the pages that are written next.
    fn set_handle(&mut self, _handle: u8) {}

    /// Counters by handle so far, if the scheme has handles.
    fn fdp(&self) -> Option<FdpCounts> {
        None
    }

    /// Returns true if the drive has zones: then the scheme is called before each write and trim.
    fn is_zoned(&self) -> bool {
        false
    }

    /// Takes a write or, with `append`, one whose place the zone chooses. Gives its first page.
    ///
    /// # Errors
    /// [`ZoneError`] if it is refused.
    fn take_write(&mut self, first: Lpn, pages: u32, append: bool) -> Result<Lpn, ZoneError> {
        let _ = (pages, append);
        Ok(first)
    }

    /// Takes a trim. Must not be called while [`Scheme::is_in_transit`].
    ///
    /// # Errors
    /// [`ZoneError`] if it is refused.
    fn take_trim(&mut self, _first: Lpn, _pages: u32) -> Result<(), ZoneError> {
        Ok(())
    }

    /// Refuses a write or trim that does not begin and end with a page.
    fn refuse_part(&mut self, _offset: u64, _length: u32) -> ZoneError {
        ZoneError::NoZones
    }

    /// Records that a page of a write that was taken is in the write buffer.
    fn has_arrived(&mut self, _lpn: Lpn) {}

    /// Returns true if pages of writes to these zones were taken, but are not in the write buffer
    /// yet.
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

    /// State of a zone, and its write pointer in pages from its beginning; `None` if there is no
    /// such zone.
    fn zone(&self, _zone: u32) -> Option<(ZoneState, u32)> {
        None
    }

    /// The reason for which the first request was refused, if one was.
    fn refusal(&self) -> Option<&ZoneError> {
        None
    }

    /// Figures of copies of pages so far, if there are any.
    fn replication(&self, _media: &Media) -> Option<replicated::ReplicationFigures> {
        None
    }

    /// Counters of zones so far, if there are any.
    fn zone_counts(&self) -> Option<ZoneCounts> {
        None
    }

    /// Writes a page. Exactly one program command with `tag` is given, now or as soon as there is
    /// room; its end makes the page durable. From this call on, a read finds the new version.
    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media);

    /// Loads the table entries of logical pages that are read or written soon, so that they are in
    /// the processor's cache by then.
    fn fetch(&self, _lpns: &[u32], _are_written: bool) {}

    /// Trims a page.
    fn trim(&mut self, lpn: Lpn, media: &mut Media);

    /// Handles the end of a command with a tag of [`Tag::scheme`].
    fn completed(&mut self, done: &Done, media: &mut Media);

    /// Time for which a read of a page that came now would wait for its die's work for the drive
    /// itself, as far as known; `None` if it would not wait, or the scheme does not know.
    fn waits_for_own_work(&self, _lpn: Lpn, _media: &Media) -> Option<Picos> {
        None
    }

    /// Time at which the scheme wants to be woken, if it does: for its work in idle time.
    fn next_wake(&self) -> Option<Picos> {
        None
    }

    /// Called at the time that [`Scheme::next_wake`] named.
    fn wake(&mut self, _media: &mut Media) {}

    /// Writes a page at once, without time or commands: to make a drive full or aged. Only before
    /// the first command; the media learn of it through [`Media::preset`].
    fn write_untimed(&mut self, lpn: Lpn);

    /// Trims a page at once, as [`Scheme::write_untimed`] writes one.
    fn trim_untimed(&mut self, lpn: Lpn);

    /// Writes and trims pages at once, in the order given.
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

    /// Returns true if the scheme has no work under way and no write waiting.
    fn is_quiet(&self) -> bool;

    /// Counters so far.
    fn counters(&self) -> SchemeCounters;

    /// Number of streams of the placement policy that there is no room for.
    fn streams_left_out(&self) -> usize {
        0
    }

    /// Number of erases of each erase block.
    fn erase_counts(&self) -> &[u32];

    /// The reason if the drive can take no more writes.
    fn worn_out(&self) -> Option<WornOut> {
        None
    }

    /// Memory of its tables in bytes.
    fn table_bytes(&self) -> usize;

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// The contradiction: a bug.
    fn audit(&self) -> Result<(), String>;
}
