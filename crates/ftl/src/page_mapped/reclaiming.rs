//! Erase blocks that are reclaimed: chosen as victims, emptied, erased.

use placement::{Placement, Victim};
use units::{EraseBlockId, StreamId};

use super::PageMapped;

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// An erase block is cleaned for a reason that is not the policies'.
    pub(super) fn remove_victim(&mut self, block: EraseBlockId) {
        if let Some(cache) = &mut self.cache
            && cache.holds(self.device.block(block).stream)
        {
            return cache.left(block);
        }
        self.is_victim(block);
        let domain = self
            .lanes
            .domain(self.placement.domain_of(u32::from(self.device.block(block).stream)), block.0);
        if self.is_own_choice() {
            self.placement.victim_removed(block, domain, &self.device);
        } else {
            self.victims.remove(block, domain, &self.device);
        }
    }

    fn is_victim(&mut self, block: EraseBlockId) {
        if let Some(long_lying) = &mut self.long_lying {
            long_lying.left(block, self.lanes.lane_of(block.0));
        }
    }

    /// The victim that the policies choose in a lane. After as many without gain as there are erase
    /// blocks, no choice of theirs can gain any more, and the FTL chooses one itself.
    ///
    /// # Panics
    /// If no erase block is closed.
    pub fn choose_victim(&mut self, needy: StreamId, lane: u32) -> EraseBlockId {
        if let Some(long_lying) = &mut self.long_lying
            && let Some(victim) = long_lying.overdue(lane, self.counters.erases)
        {
            self.counters.long_lying_victims += 1;
            self.remove_victim(victim);
            return victim;
        }
        let pages = self.device.geometry.pages_per_erase_block;
        let most = self.lanes.blocks_of(lane).len() as u32;
        let domain = if self.placement.features().per_stream {
            self.placement.donor(needy, &self.device)
        } else {
            0
        };
        let domain = self.lanes.domain_in(domain, lane);
        let chosen = if self.without_gain[lane as usize] >= most {
            None
        } else if self.is_own_choice() {
            self.placement.choose_victim(domain, &self.device)
        } else {
            self.victims.choose(domain, &self.device)
        };
        if let Some(victim) = chosen {
            let gains = self.device.block(victim).valid < pages;
            let without_gain = &mut self.without_gain[lane as usize];
            *without_gain = if gains { 0 } else { *without_gain + 1 };
            self.is_victim(victim);
            return victim;
        }
        self.without_gain[lane as usize] = 0;
        self.rescue(lane)
    }

    /// The closed erase block of a lane whose cleaning gains most, of all streams: for policies
    /// that find nothing to gain.
    ///
    /// # Panics
    /// If no erase block is closed.
    #[cold]
    pub fn rescue(&mut self, lane: u32) -> EraseBlockId {
        self.counters.rescues += 1;
        let pages = self.device.geometry.pages_per_erase_block;
        let mut is_closed = vec![true; self.device.blocks.len()];
        self.lanes.not_in_use().for_each(|block| is_closed[block as usize] = false);
        self.emptied.iter().for_each(|block| is_closed[block.index()] = false);
        self.frontiers
            .iter()
            .filter(|f| f.next < f.end)
            .for_each(|f| is_closed[(f.next / pages) as usize] = false);
        let closed = self.lanes.blocks_of(lane).filter(|&block| is_closed[block as usize]);
        let fewest = closed.min_by_key(|&block| self.device.blocks[block as usize].valid);
        // The spare space is more than the reserve and all frontiers together, so that some of it
        // is in closed erase blocks.
        let victim = EraseBlockId(
            fewest.expect("there is a closed erase block that is not full of valid pages"),
        );
        self.remove_victim(victim);
        victim
    }

    /// Relocates the valid pages of a victim, and erases it.
    pub(super) fn clean(&mut self, victim: EraseBlockId, lane: u32) {
        let mut cleaning = std::mem::take(&mut self.cleaning);
        cleaning.begin(victim, lane, self);
        cleaning.copy_all(self);
        self.reclaim(cleaning.end(), lane);
        self.cleaning = cleaning;
    }

    /// Nothing in an erase block is valid any more. Its survivors come after that, so that its
    /// stream's count is right when they come back to the same stream.
    pub(super) fn empty(&mut self, victim: EraseBlockId, lane: u32, survivors: u32) {
        let block = &mut self.device.blocks[victim.index()];
        block.valid = 0;
        let stream = usize::from(block.stream);
        self.valid[victim.index() * self.words..(victim.index() + 1) * self.words].fill(0);
        if self.placement.features().per_stream {
            self.device.streams[stream].valid_pages -= survivors;
        }
        self.lanes.lost_pages(lane, survivors);
    }

    /// An erase block that holds nothing valid was erased: it is free again, or retired if that was
    /// its last erase.
    ///
    /// # Panics
    /// If it holds valid pages.
    pub fn reclaim(&mut self, victim: EraseBlockId, lane: u32) {
        let block = self.device.block(victim);
        assert!(
            block.valid == 0,
            "erase block {} is erased with {} valid pages",
            victim.0,
            block.valid
        );
        if !self.emptied.is_empty() {
            self.emptied.retain(|&emptied| emptied != victim);
        }
        self.erased[victim.index()] += 1;
        self.device.streams[usize::from(block.stream)].erase_blocks -= 1;
        self.counters.erases += 1;
        let mut worn = self.erased[victim.index()];
        if let Some(cache) = &mut self.cache {
            let stays = cache.holds(block.stream) && cache.erased(victim);
            worn = cache.worn(victim, worn);
            if stays {
                return self.lanes.put_aside(victim.0, worn);
            }
        }
        self.lanes.put_back(lane, victim.0, worn);
    }

    /// Lists the valid pages of a block, and loads their table entries together as [`Self::fetch`]
    /// does.
    #[inline]
    pub(super) fn collect(
        &self,
        victim: EraseBlockId,
        offsets: &mut Vec<u32>,
        lpns: &mut Vec<u32>,
    ) {
        let first = (victim.0 * self.device.geometry.pages_per_erase_block) as usize;
        offsets.clear();
        lpns.clear();
        let mut sum = 0u32;
        for word in 0..self.words {
            let mut bits = self.valid[victim.index() * self.words + word];
            while bits != 0 {
                let offset = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let lpn = self.owner.get(first + offset as usize);
                sum = sum.wrapping_add(self.map.get(lpn as usize));
                offsets.push(offset);
                lpns.push(lpn);
            }
        }
        std::hint::black_box(sum);
    }
}
