//! Table of the checksums of all pages, in memory, and of pages that are known to be bad.

use rustc_hash::FxHashSet;

use super::disk::Superblock;
use crate::Data;
use crate::hash::{UNKNOWN, checksum, folded};

/// Stands for the checksum of a page that was written where a trace without bytes is played.
pub const WITHOUT_BYTES: u32 = 1;

/// Checksums by page.
#[derive(Debug)]
pub struct Table {
    /// Folded checksums; [`UNKNOWN`] where the content of a page is not known.
    sums: Vec<u32>,
    /// Pages of which a read found other bytes than were written.
    bad: FxHashSet<u64>,
}

impl Table {
    pub fn new(sums: Vec<u32>) -> Self {
        Self { sums, bad: FxHashSet::default() }
    }

    /// Gives the checksums of pages.
    pub fn of(&self, pages: std::ops::Range<u64>) -> &[u32] {
        &self.sums[pages.start as usize..pages.end as usize]
    }

    /// Sets the checksum of a page, or [`UNKNOWN`] if it may hold anything.
    pub fn set(&mut self, page: u64, sum: u32) {
        self.sums[page as usize] = sum;
        if !self.bad.is_empty() {
            self.bad.remove(&page);
        }
    }

    /// Notes that pages may hold anything.
    pub fn forget(&mut self, pages: std::ops::Range<u64>) {
        self.sums[pages.start as usize..pages.end as usize].fill(UNKNOWN);
        if !self.bad.is_empty() {
            self.bad.retain(|page| !pages.contains(page));
        }
    }

    /// Notes that a write or trim failed: pages hold the old or the new content, sector by sector.
    /// A page that is bad stays so until it is written.
    pub fn may_be_either(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            if self.bad.is_empty() || !self.bad.contains(&page) {
                self.sums[page as usize] = UNKNOWN;
            }
        }
    }

    /// Returns true if bytes of this checksum may be those that were written.
    pub fn fits(&self, page: u64, found: u32) -> bool {
        let expected = self.sums[page as usize];
        expected == UNKNOWN || found == UNKNOWN || expected == found
    }

    /// Returns true if the checksum of a page is known.
    pub fn is_known(&self, page: u64) -> bool {
        self.sums[page as usize] != UNKNOWN
    }

    /// Notes that a page does not hold what was written.
    pub fn is_bad_now(&mut self, page: u64) {
        self.bad.insert(page);
    }

    /// Gives the pages that are known not to hold what was written.
    pub fn bad(&self) -> &FxHashSet<u64> {
        &self.bad
    }
}

/// Gives the checksums of pages from `first` on, with these bytes; [`UNKNOWN`] where a trace
/// without bytes is played.
pub fn sums_of(superblock: &Superblock, first: u64, pages: u64, data: &Data) -> Vec<u32> {
    let size = superblock.geometry.page_bytes as usize;
    let Some(bytes) = data.joined() else { return vec![UNKNOWN; pages as usize] };
    debug_assert_eq!(bytes.len(), pages as usize * size);
    (first..)
        .zip(bytes.chunks_exact(size))
        .map(|(page, bytes)| folded(checksum(superblock.seed_of(page), bytes)))
        .collect()
}
