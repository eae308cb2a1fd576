//! Closed erase blocks by valid pages and age, for policies that weigh one against the other.

use units::EraseBlockId;
use units::lists::{Lists, NONE};

use crate::Device;

/// For each count of valid pages and domain, the closed blocks in the order of their last
/// modification: whenever a page of a block is invalidated, the block moves to the end of the next
/// list, so every list stays sorted by itself and its head is the oldest of its count. A choice
/// compares one head for each count and is exact.
///
/// The age is the time since the most recent modification of the block: its last invalidation, or
/// its closing.
#[derive(Debug)]
pub(super) struct Aged {
    by_valid: Lists,
    modified_at: Vec<u32>,
    counts: usize,
}

impl Aged {
    pub fn new(erase_blocks: u32, pages_per_erase_block: u32, domains: usize) -> Self {
        let counts = pages_per_erase_block as usize + 1;
        Self {
            by_valid: Lists::new(erase_blocks, domains * counts),
            modified_at: vec![0; erase_blocks as usize],
            counts,
        }
    }

    #[inline]
    pub fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.modified_at[block.index()] = device.clock as u32;
        self.by_valid
            .push_back(domain * self.counts + usize::from(device.block(block).valid), block.0);
    }

    #[inline]
    pub fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        if !self.by_valid.contains(block.0) {
            return;
        }
        self.modified_at[block.index()] = device.clock as u32;
        let list = domain * self.counts + usize::from(device.block(block).valid);
        self.by_valid.remove(list + 1, block.0);
        self.by_valid.push_back(list, block.0);
    }

    /// Takes out the block with the greatest `benefit(age in host page writes, share of valid
    /// pages)`; benefits must grow with age. One without valid pages is always the best.
    pub fn choose(
        &mut self,
        domain: usize,
        device: &Device,
        benefit: impl Fn(f64, f64) -> f64,
    ) -> Option<EraseBlockId> {
        let base = domain * self.counts;
        let mut best: Option<(f64, usize, EraseBlockId)> = None;
        for valid in 0..self.counts {
            let first = self.by_valid.first(base + valid);
            if first == NONE {
                continue;
            }
            let block = EraseBlockId(first);
            if valid == 0 {
                best = Some((f64::INFINITY, base, block));
                break;
            }
            let age =
                f64::from((device.clock as u32).wrapping_sub(self.modified_at[block.index()]));
            let benefit = benefit(age, valid as f64 / (self.counts - 1) as f64);
            if best.is_none_or(|(most, _, _)| benefit > most) {
                best = Some((benefit, base + valid, block));
            }
        }
        let (_, list, block) = best?;
        self.by_valid.remove(list, block.0);
        Some(block)
    }

    pub fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.by_valid
            .remove(domain * self.counts + usize::from(device.block(block).valid), block.0);
    }
}
