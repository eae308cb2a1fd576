//! Cost-Benefit in FFS's form: the erase block with the greatest age x (1 - u) / 2u.

use registry::{Args, Info};
use units::EraseBlockId;

use crate::index::Lists;
use crate::{Context, Device, Victim};

/// What the registry knows.
pub const INFO: Info = Info {
    name: "cost_benefit",
    aliases: &["cost_based", "ffs"],
    summary: "the greatest age x (1 - u) / 2u, with u the share of valid pages and age since the last invalidation",
    source: "Kawaguchi, Nishioka & Motoda, USENIX 1995, section 4.3 (the Cost-Based policy of MULTILOG 6.1)",
    params: &[],
};

/// For each count of valid pages, the blocks in the order of their last modification: whenever a page of a block is invalidated, the
/// block moves to the end of the next list, so every list stays sorted by itself and its head is the best of its count. A choice
/// compares one head for each count and is exact.
///
/// The age is the time since the most recent modification of the block: its last invalidation, or its closing.
#[derive(Debug)]
pub struct CostBenefit {
    by_valid: Lists,
    modified_at: Vec<u32>,
    counts: usize,
}

impl CostBenefit {
    /// An empty index.
    #[must_use]
    pub fn build(_args: &Args, context: &Context<'_>, domains: usize) -> Self {
        let counts = context.geometry.pages_per_erase_block as usize + 1;
        let erase_blocks = context.geometry.erase_blocks;
        Self { by_valid: Lists::new(erase_blocks, domains * counts), modified_at: vec![0; erase_blocks as usize], counts }
    }
}

impl Victim for CostBenefit {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.modified_at[block.index()] = device.clock as u32;
        self.by_valid.push_back(domain * self.counts + device.block(block).valid as usize, block);
    }

    #[inline]
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        if !self.by_valid.contains(block) {
            return;
        }
        self.modified_at[block.index()] = device.clock as u32;
        let list = domain * self.counts + device.block(block).valid as usize;
        self.by_valid.remove(list + 1, block);
        self.by_valid.push_back(list, block);
    }

    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let base = domain * self.counts;
        let mut best: Option<(f64, usize, EraseBlockId)> = None;
        for valid in 0..self.counts {
            let Some(block) = self.by_valid.first(base + valid) else { continue };
            if valid == 0 {
                best = Some((f64::INFINITY, base, block));
                break;
            }
            let age = f64::from((device.clock as u32).wrapping_sub(self.modified_at[block.index()]));
            let used = valid as f64 / (self.counts - 1) as f64;
            let benefit = age * (1.0 - used) / (2.0 * used);
            if best.is_none_or(|(most, _, _)| benefit > most) {
                best = Some((benefit, base + valid, block));
            }
        }
        let (_, list, block) = best?;
        self.by_valid.remove(list, block);
        Some(block)
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.by_valid.remove(domain * self.counts + device.block(block).valid as usize, block);
    }
}
