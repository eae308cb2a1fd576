//! Bits of the pages that are holes, and the blocks of the map that differ from the device's.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::format::Geometry;

/// Bytes in memory for a block, beside its bits.
pub const BLOCK_MEMORY_BYTES: u64 = size_of::<Block>() as u64 + 16;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Sequence number of the last write.
    sequence: u64,
    /// True if the block is in the queue.
    is_queued: bool,
    /// True if bits of it were cleared since it was last taken from the queue.
    has_cleared: bool,
}

/// A block that is to be written, as it is now.
#[derive(Debug)]
pub struct Image {
    /// Number of the block.
    pub block: u64,
    /// Bytes of its sector.
    pub bytes: Vec<u8>,
}

/// The map in memory; see the module.
#[derive(Debug)]
pub struct Bits {
    geometry: Geometry,
    words: Vec<u64>,
    holes: u64,
    blocks: Vec<Block>,
    /// Blocks that changed, in order of change.
    queue: VecDeque<u64>,
    /// Number of blocks that were ever put into the queue.
    queued: u64,
}

impl Bits {
    /// Makes a map without holes.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            words: vec![0; geometry.pages.div_ceil(64) as usize],
            holes: 0,
            blocks: vec![Block::default(); geometry.blocks() as usize],
            queue: VecDeque::new(),
            queued: 0,
        }
    }

    /// Loads the bits of a block from the device.
    pub fn load(&mut self, block: u64, sequence: u64, bits: &[u8]) {
        self.blocks[block as usize].sequence = sequence;
        for (page, place) in self.geometry.pages_in(block).zip(0..) {
            if bits[place / 8] >> (place % 8) & 1 == 1 {
                self.words[(page / 64) as usize] |= 1 << (page % 64);
                self.holes += 1;
            }
        }
    }

    /// Gives the number of pages that are holes.
    pub const fn holes(&self) -> u64 {
        self.holes
    }

    /// Returns true if a page is a hole.
    pub fn is_hole(&self, page: u64) -> bool {
        self.words[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Gives the first run of equal pages of a range: true if they are holes, and the page behind
    /// them.
    pub fn run(&self, pages: Range<u64>) -> (bool, u64) {
        let is_hole = self.is_hole(pages.start);
        let whole = if is_hole { u64::MAX } else { 0 };
        let mut page = pages.start;
        while page < pages.end {
            if page.is_multiple_of(64) && self.words[(page / 64) as usize] == whole {
                page += 64;
            } else if self.is_hole(page) == is_hole {
                page += 1;
            } else {
                break;
            }
        }
        (is_hole, page.min(pages.end))
    }

    /// Gives the runs of equal pages of a range.
    pub fn runs(&self, pages: Range<u64>) -> impl Iterator<Item = (bool, Range<u64>)> {
        let mut at = pages.start;
        std::iter::from_fn(move || {
            (at < pages.end).then(|| {
                let (is_hole, end) = self.run(at..pages.end);
                (is_hole, std::mem::replace(&mut at, end)..end)
            })
        })
    }

    /// Returns true if any page of a range is a hole.
    pub fn any(&self, pages: Range<u64>) -> bool {
        self.holes > 0 && !pages.is_empty() && {
            let (is_hole, end) = self.run(pages.clone());
            is_hole || end < pages.end
        }
    }

    /// Makes pages holes, or not; returns the number that changed.
    pub fn set(&mut self, pages: Range<u64>, is_hole: bool) -> u64 {
        let changed: Vec<Range<u64>> =
            self.runs(pages).filter(|run| run.0 != is_hole).map(|(_, run)| run).collect();
        let mut count = 0;
        for run in changed {
            count += run.end - run.start;
            for page in run.clone() {
                let bit = 1 << (page % 64);
                let word = &mut self.words[(page / 64) as usize];
                *word = if is_hole { *word | bit } else { *word & !bit };
            }
            let of_block = self.geometry.pages_of_block();
            for block in run.start / of_block..=(run.end - 1) / of_block {
                self.change(block, !is_hole);
            }
        }
        self.holes = if is_hole { self.holes + count } else { self.holes - count };
        count
    }

    /// Notes that a block is to be written.
    pub fn change(&mut self, block: u64, has_cleared: bool) {
        let state = &mut self.blocks[block as usize];
        state.has_cleared |= has_cleared;
        if !std::mem::replace(&mut state.is_queued, true) {
            self.queue.push_back(block);
            self.queued += 1;
        }
    }

    /// Returns true if one of these blocks waits to be written.
    pub fn waits(&self, blocks: RangeInclusive<u64>) -> bool {
        !self.is_clean() && blocks.into_iter().any(|block| self.blocks[block as usize].is_queued)
    }

    /// Returns true if one of these blocks waits to be written with bits that were cleared.
    pub fn clears(&self, blocks: RangeInclusive<u64>) -> bool {
        let clears = |block| self.blocks[block as usize].has_cleared;
        !self.is_clean() && blocks.into_iter().any(clears)
    }

    /// Gives the number of blocks that were ever put into the queue: all that changed until now is
    /// taken when [`Bits::taken`] reaches it.
    pub const fn queued(&self) -> u64 {
        self.queued
    }

    /// Gives the number of blocks that were ever taken.
    pub fn taken(&self) -> u64 {
        self.queued - self.queue.len() as u64
    }

    /// Returns true if no block waits: the device has the same map, once the blocks that were taken
    /// are written.
    pub fn is_clean(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the next blocks, as they are now, ascending; gives true with them if bits were
    /// cleared.
    pub fn take(&mut self, most: usize) -> (Vec<Image>, bool) {
        let count = most.min(self.queue.len());
        let mut blocks: Vec<u64> = self.queue.drain(..count).collect();
        blocks.sort_unstable();
        let mut has_cleared = false;
        let mut image = |block: u64| {
            let state = &mut self.blocks[block as usize];
            state.is_queued = false;
            has_cleared |= std::mem::take(&mut state.has_cleared);
            state.sequence += 1;
            let bytes = self.geometry.encoded_block(
                block,
                state.sequence,
                bytes_of(&self.words, self.geometry.pages_in(block)),
            );
            Image { block, bytes }
        };
        let images = blocks.into_iter().map(&mut image).collect();
        (images, has_cleared)
    }

    /// Gives the sector of a block as it was found: zeros if it was never written.
    pub fn image(&self, block: u64) -> Vec<u8> {
        if self.blocks[block as usize].sequence == 0 {
            return vec![0; self.geometry.sector_bytes as usize];
        }
        self.image_for(&self.geometry, block)
    }

    /// Gives the sector of a block for a map of another length with pages of the same size: as many
    /// pages or more, or fewer if there are no holes behind them.
    pub fn image_for(&self, geometry: &Geometry, block: u64) -> Vec<u8> {
        let (own, theirs) = (self.geometry.pages_in(block), geometry.pages_in(block));
        let pages = own.start..own.end.min(theirs.end);
        let sequence = self.blocks[block as usize].sequence.max(1);
        geometry.encoded_block(block, sequence, bytes_of(&self.words, pages))
    }

    /// Gives the blocks that are to be written.
    pub fn changed(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().copied()
    }
}

/// Gives the bits of these pages, the lowest of a byte first. Blocks begin at whole words.
fn bytes_of(words: &[u64], pages: Range<u64>) -> impl Iterator<Item = u8> {
    let bytes = (pages.end - pages.start).div_ceil(8);
    let first = pages.start / 8;
    (first..first + bytes).map(|byte| (words[(byte / 8) as usize] >> (byte % 8 * 8)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn runs_and_counts_are_those_of_a_plain_list() {
        let limits = Limits { capacity_bytes: 40 << 20, sector_bytes: 512, most_bytes: 1 << 20 };
        let geometry = Geometry::at_end(limits, 4096).unwrap();
        let mut bits = Bits::new(geometry);
        let mut plain = vec![false; geometry.pages as usize];
        let mut seed = 9_u64;
        for _ in 0..600 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = (seed >> 33) % geometry.pages;
            let end = (first + (seed >> 11) % 900).min(geometry.pages);
            let is_hole = seed >> 60 & 1 == 1;
            let differ = plain[first as usize..end as usize].iter().filter(|&&one| one != is_hole);
            assert_eq!(bits.set(first..end, is_hole), differ.count() as u64);
            plain[first as usize..end as usize].fill(is_hole);
        }
        let holes = plain.iter().filter(|&&one| one).count() as u64;
        assert_eq!(bits.holes(), holes);
        for (is_hole, run) in bits.runs(5..geometry.pages) {
            let run = run.start as usize..run.end as usize;
            assert!(plain[run.clone()].iter().all(|&one| one == is_hole));
            assert!(run.end == plain.len() || plain[run.end] != is_hole);
        }
        // The content of the device gives the same map.
        let mut again = Bits::new(geometry);
        let (images, has_cleared) = bits.take(usize::MAX);
        assert!(has_cleared && bits.is_clean());
        for Image { block, bytes } in &images {
            let (sequence, held) = geometry.decoded_block(*block, bytes).unwrap();
            again.load(*block, sequence, held);
        }
        assert_eq!((again.words, again.holes), (bits.words, holes));
    }
}
