//! Checks of the bytes of logical pages: the checksum of each, and the pages that are lost. All
//! that is read from the device is compared with it, so that rot is found and never gets a new
//! checksum.

use placement::Placement;
use rustc_hash::FxHashSet;
use units::{IoOp, Lpn};

use super::disk::Entry;
use super::in_segments::Whose;
use super::layout::VolumeLayout;
use super::volume::LogVolume;
use crate::hash::{UNKNOWN, checksum, folded};
use crate::{Actions, Data, Failure};

/// Checksums by logical page.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Folded checksums, [`UNKNOWN`] where there is none; empty if none are kept.
    kept: Vec<u32>,
    /// Pages that are lost: they could not be read, or did not hold what was written.
    lost: FxHashSet<u32>,
}

impl Checks {
    pub const fn new(kept: Vec<u32>, lost: FxHashSet<u32>) -> Self {
        Self { kept, lost }
    }

    /// Returns true if pages have checksums: then whole pages are read.
    #[inline]
    pub const fn are_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Gives the folded checksum of a page, or [`UNKNOWN`].
    #[inline]
    pub fn of(&self, lpn: u32) -> u32 {
        self.kept.get(lpn as usize).copied().unwrap_or(UNKNOWN)
    }

    /// Sets the checksum of a page that was written: it is not lost any more.
    #[inline]
    pub fn set(&mut self, lpn: u32, check: u32) {
        if let Some(kept) = self.kept.get_mut(lpn as usize) {
            *kept = check;
        }
        if !self.lost.is_empty() {
            self.lost.remove(&lpn);
        }
    }

    /// Forgets what is known of a page. Returns true if it was lost.
    pub fn forget(&mut self, lpn: u32) -> bool {
        if let Some(kept) = self.kept.get_mut(lpn as usize) {
            *kept = UNKNOWN;
        }
        self.lost.remove(&lpn)
    }

    #[inline]
    pub fn is_lost(&self, lpn: u32) -> bool {
        !self.lost.is_empty() && self.lost.contains(&lpn)
    }

    /// Gives the number of lost pages.
    pub fn lost(&self) -> u64 {
        self.lost.len() as u64
    }

    /// Gives the lost pages.
    pub fn lost_pages(&self) -> impl Iterator<Item = u32> {
        self.lost.iter().copied()
    }
}

/// Returns true if bytes of this folded checksum may be those that were written.
pub(super) const fn fits(expected: u32, found: u32) -> bool {
    expected == UNKNOWN || found == UNKNOWN || expected == found
}

/// Gives the failure of reading a page that does not hold what was written.
pub(super) fn unfit(
    layout: &VolumeLayout,
    lpn: u32,
    ppn: u32,
    expected: u32,
    found: u32,
) -> Failure {
    let reason = format!(
        "the bytes of page {lpn}, at byte {} below, are not those that were written: their \
         checksum is {found:#010x}, and {expected:#010x} was kept",
        layout.page(ppn)
    );
    failed_page(layout, lpn, reason)
}

/// Gives the failure of reading a lost page.
pub(super) fn lost(layout: &VolumeLayout, lpn: u32) -> Failure {
    let reason = format!(
        "page {lpn} is lost: when it was to be moved it could not be read, or held other bytes \
         than were written; it can be written or trimmed"
    );
    failed_page(layout, lpn, reason)
}

fn failed_page(layout: &VolumeLayout, lpn: u32, reason: String) -> Failure {
    Failure::Io {
        op: IoOp::Read,
        offset: u64::from(lpn) * u64::from(layout.page_bytes),
        length: layout.page_bytes,
        reason: reason.into(),
    }
}

impl<P: Placement> LogVolume<P> {
    /// Gives the checksum of a page's bytes; 0 where a trace without bytes is played.
    pub fn checksum_of(&self, data: &Data) -> u64 {
        match data {
            Data::Absent => 0,
            Data::Whole(bytes) => checksum(self.volume, bytes),
            Data::Pieces(_) => checksum(self.volume, &data.joined().unwrap_or_default()),
        }
    }

    /// Gives the folded checksum of bytes that were read; [`UNKNOWN`] if nothing is compared with
    /// it.
    pub fn folded_of(&self, data: &Data, expected: u32) -> u32 {
        if expected == UNKNOWN || data.is_absent() {
            UNKNOWN
        } else {
            folded(self.checksum_of(data))
        }
    }

    /// Loses a page: it has no place any more, and reads of it fail until it is written or trimmed.
    pub fn lose(&mut self, lpn: Lpn, ppn: u32, actions: &mut Actions) {
        self.ftl.trim(lpn);
        self.outdate_fills(lpn);
        self.host.unmapped(1);
        self.checks.forget(lpn.0);
        self.checks.lost.insert(lpn.0);
        self.checkpoint.page_changed(&self.layout, lpn.0);
        // If the log cannot go on, the summary below cannot either, and says so.
        self.make_way(Whose::Own, actions);
        self.log.push(Entry::Lost { lpn: lpn.0, ppn });
        self.seal_if_long(actions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_lost_until_it_is_written_or_forgotten() {
        let mut checks = Checks::new(vec![UNKNOWN; 4], [1, 2].into_iter().collect());
        assert!(checks.is_lost(1) && checks.is_lost(2) && !checks.is_lost(3));
        checks.set(1, 77);
        assert_eq!((checks.is_lost(1), checks.of(1), checks.lost()), (false, 77, 1));
        assert!(checks.forget(2) && !checks.forget(1));
        assert_eq!((checks.of(1), checks.lost()), (UNKNOWN, 0));
    }
}
