//! Erase blocks that are written with one bit per cell, as a cache of the host's writes.

use std::collections::VecDeque;

use placement::{Placement, Victim};
use units::{EraseBlockId, StreamId};

use super::PageMapped;

/// Settings of the cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheSize {
    /// The stream of the cache's pages: one that the placement policy does not write to.
    pub stream: StreamId,
    /// Pages of an erase block with one bit per cell.
    pub pages: u32,
    /// Number of erase blocks that always belong to the cache.
    pub fixed: u32,
    /// Most further erase blocks that it may borrow at once.
    pub most: u32,
    /// Number of free erase blocks that it leaves to others.
    pub keep: usize,
    /// Part of an erase that counts towards an erase block's endurance after use in the cache.
    pub wear: f64,
}

/// The erase blocks in the cache.
#[derive(Debug)]
pub(super) struct CacheBlocks {
    pub size: CacheSize,
    /// Number of borrowed erase blocks, which otherwise hold all bits per cell.
    borrowed: u32,
    /// Full erase blocks, oldest first.
    closed: VecDeque<EraseBlockId>,
    /// Erases of each erase block after use in the cache.
    cycles: Vec<u32>,
}

impl CacheBlocks {
    #[inline]
    pub fn holds(&self, stream: u16) -> bool {
        u32::from(stream) == self.size.stream.0
    }

    pub fn closed(&mut self, block: EraseBlockId) {
        self.closed.push_back(block);
    }

    pub fn left(&mut self, block: EraseBlockId) {
        self.closed.retain(|&closed| closed != block);
    }

    /// Records the erase of an erase block of the cache. Returns true if it stays in the cache.
    pub fn erased(&mut self, block: EraseBlockId) -> bool {
        self.cycles[block.index()] += 1;
        let is_fixed = block.0 < self.size.fixed;
        self.borrowed -= u32::from(!is_fixed);
        is_fixed
    }

    /// Number of erases that count towards the endurance.
    pub fn worn(&self, block: EraseBlockId, erases: u32) -> u32 {
        let cycles = f64::from(self.cycles[block.index()]);
        (f64::from(erases) - cycles * (1.0 - self.size.wear)).round() as u32
    }
}

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// Turns on the cache. Call it before the first write, in an FTL of one lane.
    pub fn use_cache(&mut self, size: CacheSize) {
        self.lanes.set_aside(size.fixed);
        let cycles = vec![0; self.device.blocks.len()];
        self.cache =
            Some(Box::new(CacheBlocks { size, borrowed: 0, closed: VecDeque::new(), cycles }));
    }

    /// Tells whether the next page can be written to the cache. Opens an erase block there if that
    /// is needed and possible.
    #[inline]
    pub fn make_room_in_cache(&mut self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let frontier = self.frontiers[cache.size.stream.index()];
        frontier.next < frontier.end || self.open_in_cache()
    }

    #[cold]
    fn open_in_cache(&mut self) -> bool {
        let Some(cache) = &mut self.cache else { return false };
        let size = cache.size;
        let block = if let Some(block) = self.lanes.take_aside(&self.erased) {
            block
        } else if cache.borrowed < size.most && self.lanes.free(0) > size.keep {
            cache.borrowed += 1;
            self.lanes.take(0, &self.erased).expect("some are free")
        } else {
            return false;
        };
        self.open(size.stream, 0, block);
        true
    }

    /// Tells whether the cache has a full erase block that can be emptied; with `borrowed`, a
    /// borrowed one, which others can then use.
    pub fn has_cached(&self, borrowed: bool) -> bool {
        let Some(cache) = &self.cache else { return false };
        cache.closed.iter().any(|block| !borrowed || block.0 >= cache.size.fixed)
    }

    /// Tells whether the pages of a fixed erase block can be moved without touching the reserve.
    /// Emptying a fixed erase block gains no space for others.
    pub fn has_cache_target(&self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let may_open = |stream: &usize| {
            let frontier = self.frontiers[*stream];
            *stream != cache.size.stream.index() && frontier.end - frontier.next < cache.size.pages
        };
        let opened = (0..self.frontiers.len()).filter(may_open).count();
        self.lanes.free(0) >= self.reserve + opened
    }

    /// Takes the cache's full erase block that was written first, to be cleaned.
    pub fn take_cached(&mut self, borrowed: bool) -> Option<EraseBlockId> {
        let cache = self.cache.as_mut()?;
        let fixed = cache.size.fixed;
        let place = cache.closed.iter().position(|block| !borrowed || block.0 >= fixed)?;
        cache.closed.remove(place)
    }

    /// Number of the cache's erase blocks that are in use (erased fixed ones are left out), and of
    /// the valid pages in them.
    pub fn cached(&self) -> (u32, u32) {
        let Some(cache) = &self.cache else { return (0, 0) };
        let frontier = self.frontiers[cache.size.stream.index()];
        let open = (frontier.next < frontier.end)
            .then(|| EraseBlockId(self.divider.quotient(frontier.next)));
        let all = cache.closed.iter().copied().chain(open);
        let valid = all.map(|block| self.device.block(block).valid).sum();
        let in_use = cache.size.fixed - self.lanes.aside() as u32;
        (cache.borrowed + in_use, valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten erases, six of them after use with one bit per cell, which counts a tenth.
    #[test]
    fn erases_after_one_bit_a_cell_count_less() {
        let size =
            CacheSize { stream: StreamId(1), pages: 4, fixed: 1, most: 8, keep: 2, wear: 0.1 };
        let mut cache =
            CacheBlocks { size, borrowed: 6, closed: VecDeque::new(), cycles: vec![0; 4] };
        let block = EraseBlockId(2);
        (0..6).for_each(|_| assert!(!cache.erased(block), "it is borrowed"));
        assert_eq!((cache.worn(block, 10), cache.borrowed), (5, 0));
        assert!(cache.erased(EraseBlockId(0)), "it stays");
    }
}
