//! Cost-Benefit in FFS's form: the erase block with the greatest age x (1 - u) / 2u.

use registry::{Args, Info};
use units::EraseBlockId;

use super::aged::{Aged, age_param};
use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "cost_benefit",
    aliases: &["cost_based", "ffs"],
    summary: "the greatest age x (1 - u) / 2u, with u the share of valid pages",
    source: "Kawaguchi, Nishioka & Motoda, USENIX 1995 (the Cost-Based policy of MULTILOG 6.1), \
             whose age is since the last invalidation; that of Cost-Benefit in SepBIT (Wang et \
             al., FAST 2022) is since the erase block was filled",
    params: &[age_param("invalidated")],
};

/// Cleaning costs reading and writing the valid share, 2u, and gains the invalid share for as long
/// as it is likely to stay free. That time is estimated by the age: since the last invalidation, as
/// in FFS, or since the erase block was filled, as in LFS's successors. An erase block whose last
/// page died just now is young by the first and may be old by the second.
#[derive(Debug)]
pub struct CostBenefit(Aged);

impl CostBenefit {
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

impl Victim for CostBenefit {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.0.closed(block, domain, device);
    }

    #[inline]
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.0.invalidated(block, domain, device);
    }

    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        self.0.choose(domain, device, |age, used| age * (1.0 - used) / (2.0 * used))
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.0.remove(block, domain, device);
    }
}
