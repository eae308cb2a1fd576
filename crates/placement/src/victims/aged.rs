//! Closed erase blocks by valid pages and age, for policies that weigh one against the other.

use registry::{Args, Param, ParamKind};
use units::EraseBlockId;
use units::heaps::Heaps;
use units::lists::{Lists, NONE};

use crate::Device;

const INVALIDATED: &str = "invalidated";
const CLOSED: &str = "closed";

/// Parameter for the start of an erase block's age.
pub(super) const fn age_param(default: &'static str) -> Param {
    Param {
        name: "age",
        kind: ParamKind::Choice(&[INVALIDATED, CLOSED]),
        default,
        help: "since the last invalidation in the erase block, or since it was filled",
    }
}

/// For each count of valid pages and domain, the closed blocks by age. A choice compares the oldest
/// of each count, and is exact.
#[derive(Debug)]
pub(super) struct Aged {
    by_valid: Index,
    /// The clock when each block's age was 0.
    since: Vec<u64>,
    counts: usize,
}

#[derive(Debug)]
enum Index {
    /// By the last modification: whenever a page of a block is invalidated, the block moves to the
    /// end of the next list, so every list stays sorted by itself.
    Invalidated(Lists),
    /// By closing, which a block keeps whatever list it moves to.
    Closed(Heaps),
}

impl Aged {
    pub fn new(args: &Args, erase_blocks: u32, pages_per_erase_block: u32, domains: usize) -> Self {
        let counts = pages_per_erase_block as usize + 1;
        let by_valid = if args.text("age") == CLOSED {
            Index::Closed(Heaps::new(erase_blocks, domains * counts))
        } else {
            Index::Invalidated(Lists::new(erase_blocks, domains * counts))
        };
        Self { by_valid, since: vec![0; erase_blocks as usize], counts }
    }

    #[inline]
    pub fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.since[block.index()] = device.clock;
        self.put(domain * self.counts + device.block(block).valid as usize, block.0);
    }

    #[inline]
    pub fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let list = domain * self.counts + device.block(block).valid as usize;
        match &mut self.by_valid {
            Index::Invalidated(lists) => {
                if !lists.contains(block.0) {
                    return;
                }
                self.since[block.index()] = device.clock;
                lists.remove(list + 1, block.0);
                lists.push_back(list, block.0);
            }
            Index::Closed(heaps) => {
                if !heaps.contains(block.0) {
                    return;
                }
                let since = &self.since;
                heaps.remove(list + 1, block.0, |block| since[block as usize]);
                heaps.insert(list, block.0, |block| since[block as usize]);
            }
        }
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
            let first = match &self.by_valid {
                Index::Invalidated(lists) => lists.first(base + valid),
                Index::Closed(heaps) => heaps.first(base + valid),
            };
            if first == NONE {
                continue;
            }
            let block = EraseBlockId(first);
            if valid == 0 {
                best = Some((f64::INFINITY, base, block));
                break;
            }
            let age = (device.clock - self.since[block.index()]) as f64;
            let benefit = benefit(age, valid as f64 / (self.counts - 1) as f64);
            if best.is_none_or(|(most, _, _)| benefit > most) {
                best = Some((benefit, base + valid, block));
            }
        }
        let (_, list, block) = best?;
        self.take(list, block.0);
        Some(block)
    }

    pub fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.take(domain * self.counts + device.block(block).valid as usize, block.0);
    }

    fn put(&mut self, list: usize, block: u32) {
        match &mut self.by_valid {
            Index::Invalidated(lists) => lists.push_back(list, block),
            Index::Closed(heaps) => {
                let since = &self.since;
                heaps.insert(list, block, |block| since[block as usize]);
            }
        }
    }

    fn take(&mut self, list: usize, block: u32) {
        match &mut self.by_valid {
            Index::Invalidated(lists) => lists.remove(list, block),
            Index::Closed(heaps) => {
                let since = &self.since;
                heaps.remove(list, block, |block| since[block as usize]);
            }
        }
    }
}
