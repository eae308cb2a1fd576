//! The checksums of all pages, in memory, and which pages are known to be bad.

use rustc_hash::FxHashSet;

use super::disk::Superblock;
use crate::Data;
use crate::hash::{UNKNOWN, checksum, folded};

/// Stands for the checksum of a page that was written where a trace without bytes is played.
pub const WITHOUT_BYTES: u32 = 1;

/// By page.
#[derive(Debug)]
pub struct Table {
    /// Folded checksums; [`UNKNOWN`] where nobody says what a page holds.
    sums: Vec<u32>,
    /// Pages of which a read found other bytes than were written.
    bad: FxHashSet<u64>,
}

impl Table {
    pub fn new(sums: Vec<u32>) -> Self {
        Self { sums, bad: FxHashSet::default() }
    }

    /// The checksums of pages.
    pub fn of(&self, pages: std::ops::Range<u64>) -> &[u32] {
        &self.sums[pages.start as usize..pages.end as usize]
    }

    /// A page was given these bytes, or may hold anything.
    pub fn set(&mut self, page: u64, sum: u32) {
        self.sums[page as usize] = sum;
        if !self.bad.is_empty() {
            self.bad.remove(&page);
        }
    }

    /// Pages may hold anything.
    pub fn forget(&mut self, pages: std::ops::Range<u64>) {
        self.sums[pages.start as usize..pages.end as usize].fill(UNKNOWN);
        if !self.bad.is_empty() {
            self.bad.retain(|page| !pages.contains(page));
        }
    }

    /// A write or trim failed: pages hold what they held, or what it left, sector by sector. One
    /// that is bad stays so until it is written.
    pub fn may_be_either(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            if self.bad.is_empty() || !self.bad.contains(&page) {
                self.sums[page as usize] = UNKNOWN;
            }
        }
    }

    /// Whether bytes of this checksum may be those that were written.
    pub fn fits(&self, page: u64, found: u32) -> bool {
        let expected = self.sums[page as usize];
        expected == UNKNOWN || found == UNKNOWN || expected == found
    }

    /// Whether it is known what a page holds.
    pub fn is_known(&self, page: u64) -> bool {
        self.sums[page as usize] != UNKNOWN
    }

    /// A page does not hold what was written.
    pub fn is_bad_now(&mut self, page: u64) {
        self.bad.insert(page);
    }

    /// Pages that do not hold what was written, as far as that was noticed.
    pub fn bad(&self) -> &FxHashSet<u64> {
        &self.bad
    }
}

/// The checksums of pages from `first` on, with these bytes; [`UNKNOWN`] where a trace without
/// bytes is played.
pub fn sums_of(superblock: &Superblock, first: u64, pages: u64, data: &Data) -> Vec<u32> {
    let size = superblock.geometry.page_bytes as usize;
    let Some(bytes) = data.joined() else { return vec![UNKNOWN; pages as usize] };
    debug_assert_eq!(bytes.len(), pages as usize * size);
    (first..)
        .zip(bytes.chunks_exact(size))
        .map(|(page, bytes)| folded(checksum(superblock.seed_of(page), bytes)))
        .collect()
}
