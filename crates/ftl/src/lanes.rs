//! The lanes of a page-mapped FTL: groups of interchangeable erase blocks, such as those of one
//! plane.

use units::{Divider, Geometry, StreamId};

/// Free and retired erase blocks of each lane, and the number of its valid pages.
#[derive(Debug)]
pub struct Lanes {
    count: u32,
    by_lane: Divider,
    blocks_per_lane: u32,
    pages_per_block: u32,
    /// Erase blocks of a lane that never hold data for long: frontiers and the reserve.
    overhead_blocks: u32,
    free: Vec<Vec<u32>>,
    retired: Vec<Vec<u32>>,
    /// Free erase blocks of those reserved for one use; then the number of all reserved for it.
    aside: Vec<u32>,
    all_aside: u32,
    valid_pages: Vec<u32>,
    /// True if valid pages are counted: always if there are several lanes.
    counts_valid_pages: bool,
    /// Erases that each erase block endures; empty if there is no limit.
    endurance: Vec<u32>,
    least_worn_first: bool,
}

impl Lanes {
    pub(crate) fn new(geometry: Geometry, count: u32, overhead_blocks: u32) -> Self {
        let blocks_per_lane = geometry.erase_blocks / count;
        assert!(
            blocks_per_lane * count == geometry.erase_blocks,
            "the erase blocks divide into {count} lanes"
        );
        Self {
            count,
            // The divider is needed only for several lanes, and each of those is small enough for
            // it.
            by_lane: Divider::new(if count > 1 { blocks_per_lane } else { 1 }),
            blocks_per_lane,
            pages_per_block: geometry.pages_per_erase_block,
            overhead_blocks,
            // The lowest number is taken first.
            free: (0..count)
                .map(|lane| (lane * blocks_per_lane..(lane + 1) * blocks_per_lane).rev().collect())
                .collect(),
            retired: vec![Vec::new(); count as usize],
            aside: Vec::new(),
            all_aside: 0,
            valid_pages: vec![0; count as usize],
            counts_valid_pages: count > 1,
            endurance: Vec::new(),
            least_worn_first: false,
        }
    }

    /// Number of lanes.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Index of a stream's write frontier in a lane.
    #[inline]
    pub(crate) fn of_stream(&self, stream: StreamId, lane: u32) -> usize {
        (stream.0 * self.count + lane) as usize
    }

    /// The victim policy's domain for a placement policy's domain in a lane.
    #[inline]
    pub(crate) fn domain_in(&self, domain: usize, lane: u32) -> usize {
        domain * self.count as usize + lane as usize
    }

    #[inline]
    pub(crate) fn domain(&self, domain: usize, block: u32) -> usize {
        if self.count == 1 { domain } else { self.domain_in(domain, self.by_lane.quotient(block)) }
    }

    /// The lane that an erase block lies in.
    pub(crate) fn lane_of(&self, block: u32) -> u32 {
        block / self.blocks_per_lane
    }

    #[inline]
    pub(crate) fn gained_page(&mut self, lane: u32) {
        if self.counts_valid_pages {
            self.valid_pages[lane as usize] += 1;
        }
    }

    #[inline]
    pub(crate) fn lost_page(&mut self, block: u32) {
        if self.counts_valid_pages {
            self.valid_pages[self.by_lane.quotient(block) as usize] -= 1;
        }
    }

    pub(crate) fn lost_pages(&mut self, lane: u32, pages: u32) {
        if self.counts_valid_pages {
            self.valid_pages[lane as usize] -= pages;
        }
    }
    /// Number of valid pages of a lane, if they are counted.
    pub fn valid_pages(&self, lane: u32) -> u32 {
        self.valid_pages[lane as usize]
    }

    /// Turns on the counting of valid pages for a single lane, too. Call it before the first write.
    ///
    /// # Panics
    /// If the lane has more than 65536 erase blocks.
    pub fn count_valid_pages(&mut self) {
        self.by_lane = Divider::new(self.blocks_per_lane);
        self.counts_valid_pages = true;
    }

    /// Tells whether [`Lanes::valid_pages`] are counted.
    pub(crate) fn counts_valid_pages(&self) -> bool {
        self.counts_valid_pages
    }

    /// Most valid pages that a lane can hold and still be cleaned.
    pub fn capacity(&self, lane: u32) -> u32 {
        let lost = self.retired[lane as usize].len() as u32 + self.all_aside;
        let usable = self.blocks_per_lane.saturating_sub(lost);
        usable.saturating_sub(self.overhead_blocks) * self.pages_per_block
    }

    /// Number of free erase blocks of a lane.
    #[inline]
    pub fn free(&self, lane: u32) -> usize {
        self.free[lane as usize].len()
    }

    /// Takes a free erase block.
    pub(crate) fn take(&mut self, lane: u32, erased: &[u32]) -> Option<u32> {
        let free = &mut self.free[lane as usize];
        if !self.least_worn_first {
            return free.pop();
        }
        let least = (0..free.len()).rev().min_by_key(|&index| erased[free[index] as usize])?;
        // Not `swap_remove`: the order decides among equals, and must not depend on earlier
        // choices.
        Some(free.remove(least))
    }

    /// Takes back an erase block that was erased for the `erases`th time: as free, or as retired if
    /// that was the last erase that it endures.
    pub(crate) fn put_back(&mut self, lane: u32, block: u32, erases: u32) {
        if self.endurance.get(block as usize).is_some_and(|&endurance| erases >= endurance) {
            self.retired[lane as usize].push(block);
        } else {
            self.free[lane as usize].push(block);
        }
    }

    /// Reserves the first erase blocks of the first lane for one use.
    pub(crate) fn set_aside(&mut self, blocks: u32) {
        self.free[0].retain(|&block| block >= blocks);
        self.aside = (0..blocks).rev().collect();
        self.all_aside = blocks;
    }

    /// Number of free erase blocks among those set aside.
    pub(crate) fn aside(&self) -> usize {
        self.aside.len()
    }

    /// Takes the least worn free erase block of those set aside.
    pub(crate) fn take_aside(&mut self, erased: &[u32]) -> Option<u32> {
        let least = (0..self.aside.len()).rev();
        let least = least.min_by_key(|&index| erased[self.aside[index] as usize])?;
        Some(self.aside.remove(least))
    }

    /// Takes back an erase block that was set aside and is now erased. `worn` is the part of its
    /// endurance used up: it is retired if it is worn out.
    pub(crate) fn put_aside(&mut self, block: u32, worn: u32) {
        if self.endurance.get(block as usize).is_some_and(|&endurance| worn >= endurance) {
            self.all_aside -= 1;
            self.retired[0].push(block);
        } else {
            self.aside.push(block);
        }
    }

    /// Removes erase blocks that are in use from the free ones.
    pub(crate) fn occupy(&mut self, lane: u32, is_in_use: &[bool]) {
        self.free[lane as usize].retain(|&block| !is_in_use[block as usize]);
    }

    /// All free and retired erase blocks.
    pub fn not_in_use(&self) -> impl Iterator<Item = u32> {
        self.free.iter().chain(&self.retired).flatten().chain(&self.aside).copied()
    }
    /// All free and retired erase blocks of a lane.
    pub fn not_in_use_of(&self, lane: u32) -> impl Iterator<Item = u32> {
        let aside = if lane == 0 { &self.aside[..] } else { &[] };
        self.free[lane as usize].iter().chain(&self.retired[lane as usize]).chain(aside).copied()
    }
    /// Erase blocks of a lane.
    pub fn blocks_of(&self, lane: u32) -> std::ops::Range<u32> {
        lane * self.blocks_per_lane..(lane + 1) * self.blocks_per_lane
    }
    /// Number of erase blocks that are worn out or were bad from the start.
    pub fn retired_blocks(&self) -> usize {
        self.retired.iter().map(Vec::len).sum()
    }

    /// Turns on dynamic wear levelling: of the free erase blocks, the least erased is taken.
    pub fn take_least_worn_first(&mut self) {
        self.least_worn_first = true;
    }

    /// Sets the erases that each erase block endures; one that endures none is bad from the start.
    ///
    /// # Panics
    /// If an erase block that would be bad is in use.
    pub fn set_endurance(&mut self, endurance: Vec<u32>) {
        for (free, retired) in self.free.iter_mut().zip(&mut self.retired) {
            let (bad, good) = free.drain(..).partition(|&block| endurance[block as usize] == 0);
            *retired = bad;
            *free = good;
        }
        self.endurance = endurance;
    }
    /// Erases that each erase block endures; empty if there is no limit.
    pub fn endurance(&self) -> &[u32] {
        &self.endurance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An erase block that endures three erases does not get a fourth.
    #[test]
    fn an_erase_block_retires_at_its_last_erase() {
        let geometry = Geometry {
            page_bytes: 4096,
            pages_per_erase_block: 4,
            logical_pages: 16,
            erase_blocks: 8,
        };
        let mut lanes = Lanes::new(geometry, 1, 1);
        lanes.set_endurance(vec![3; 8]);
        for erases in 1..=3 {
            let block = lanes.take(0, &[0; 8]).unwrap();
            assert_eq!(lanes.retired_blocks(), 0);
            lanes.put_back(0, block, erases);
        }
        assert_eq!((lanes.retired_blocks(), lanes.free(0)), (1, 7));
    }
}
