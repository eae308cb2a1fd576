//! Erase blocks that are written with one bit a cell, as a cache of the host's writes.

use std::collections::VecDeque;

use placement::{Placement, Victim};
use units::{EraseBlockId, StreamId};

use crate::PageMapped;

/// How the cache is made up.
#[derive(Clone, Copy, Debug)]
pub struct CacheSize {
    /// The stream of its pages: one that the placement policy does not write to.
    pub stream: StreamId,
    /// Pages that an erase block holds with one bit a cell.
    pub pages: u32,
    /// Erase blocks that are never anything else.
    pub fixed: u32,
    /// Others that it may have at once at most.
    pub most: u32,
    /// Free erase blocks that it leaves to others.
    pub keep: usize,
    /// How much of an erase counts towards an erase block's endurance after such a use.
    pub wear: f64,
}

/// The erase blocks in the cache.
#[derive(Debug)]
pub(super) struct CacheBlocks {
    pub size: CacheSize,
    /// Borrowed of those that hold all bits otherwise.
    borrowed: u32,
    /// Full, oldest first.
    closed: VecDeque<EraseBlockId>,
    /// How often each was erased after such a use.
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

    /// An erase block of the cache was erased. Whether it stays one of the cache.
    pub fn erased(&mut self, block: EraseBlockId) -> bool {
        self.cycles[block.index()] += 1;
        let is_fixed = block.0 < self.size.fixed;
        self.borrowed -= u32::from(!is_fixed);
        is_fixed
    }

    /// Erases that count towards the endurance.
    pub fn worn(&self, block: EraseBlockId, erases: u32) -> u32 {
        let cycles = f64::from(self.cycles[block.index()]);
        (f64::from(erases) - cycles * (1.0 - self.size.wear)).round() as u32
    }
}

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// From now on there is a cache. Before the first write, in an FTL of one lane.
    pub fn use_cache(&mut self, size: CacheSize) {
        self.lanes.set_aside(size.fixed);
        let cycles = vec![0; self.device.blocks.len()];
        self.cache =
            Some(Box::new(CacheBlocks { size, borrowed: 0, closed: VecDeque::new(), cycles }));
    }

    /// Whether the next page can be written to the cache: opens an erase block there if that is
    /// needed and possible.
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

    /// Whether a full erase block of the cache can be emptied; `borrowed`: one that others can have
    /// then.
    pub fn has_cached(&self, borrowed: bool) -> bool {
        let Some(cache) = &self.cache else { return false };
        cache.closed.iter().any(|block| !borrowed || block.0 >= cache.size.fixed)
    }

    /// Whether the pages of a fixed erase block can go elsewhere, and the reserve stays whole: others
    /// gain nothing by that.
    pub fn has_cache_target(&self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let may_open = |stream: &usize| {
            let frontier = self.frontiers[*stream];
            *stream != cache.size.stream.index() && frontier.end - frontier.next < cache.size.pages
        };
        let opened = (0..self.frontiers.len()).filter(may_open).count();
        self.lanes.free(0) >= self.reserve + opened
    }

    /// Takes the full erase block of the cache that was written first, to be cleaned.
    pub fn take_cached(&mut self, borrowed: bool) -> Option<EraseBlockId> {
        let cache = self.cache.as_mut()?;
        let fixed = cache.size.fixed;
        let place = cache.closed.iter().position(|block| !borrowed || block.0 >= fixed)?;
        cache.closed.remove(place)
    }

    /// Erase blocks of the cache that hold something, fixed ones that do not included, and the
    /// valid pages in them.
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

    /// Ten erases, six of them after a use that counts a tenth.
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
