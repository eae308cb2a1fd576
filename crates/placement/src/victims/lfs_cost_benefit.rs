//! Cost-Benefit in LFS's form: the erase block with the greatest age x (1 - u) / (1 + u).

use registry::{Args, Info};
use units::EraseBlockId;

use super::aged::{Aged, age_param};
use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "lfs_cost_benefit",
    aliases: &["lfs"],
    summary: "the greatest age x (1 - u) / (1 + u), with u the share of valid pages",
    source: "Rosenblum & Ousterhout, TOCS 1992, section 3.5 (benefit / cost), with the age of \
             the erase block for that of its data",
    params: &[age_param("closed")],
};

/// Cleaning costs reading the whole erase block and writing the valid share, 1 + u, where FFS's
/// form counts 2u: an erase block with few valid pages is worth less here, and age decides more.
///
/// LFS's age is that of the youngest data in the segment, which needs a time for each page. Here it
/// is the time since the erase block was filled, or since its last invalidation.
#[derive(Debug)]
pub struct LfsCostBenefit(Aged);

impl LfsCostBenefit {
    /// An empty index.
    #[must_use]
    pub fn build(args: &Args, context: &Context<'_>, domains: usize) -> Self {
        Self(Aged::new(
            args,
            context.geometry.erase_blocks,
            context.geometry.pages_per_erase_block,
            domains,
        ))
    }
}

impl Victim for LfsCostBenefit {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.0.closed(block, domain, device);
    }

    #[inline]
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.0.invalidated(block, domain, device);
    }

    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        self.0.choose(domain, device, |age, used| age * (1.0 - used) / (1.0 + used))
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.0.remove(block, domain, device);
    }
}
