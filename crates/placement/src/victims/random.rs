//! Random: any closed erase block, each with the same probability.

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info};
use units::EraseBlockId;

use super::pool::Pool;
use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "random",
    aliases: &[],
    summary: "any closed erase block, each with the same probability",
    source: "Van Houdt, SIGMETRICS 2013 (d-choices with d = 1)",
    params: &[],
};

/// A uniform draw from the closed blocks of a domain.
#[derive(Debug)]
pub struct Random {
    pool: Pool,
    random: Pcg64Mcg,
}

impl Random {
    /// An empty index.
    #[must_use]
    pub fn build(_args: &Args, context: &Context<'_>, domains: usize) -> Self {
        Self {
            pool: Pool::new(context.geometry.erase_blocks, domains),
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x52414e44),
        }
    }
}

impl Victim for Random {
    fn closed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.pool.insert(domain, block);
    }

    #[inline]
    fn invalidated(&mut self, _block: EraseBlockId, _domain: usize, _device: &Device) {}

    fn choose(&mut self, domain: usize, _device: &Device) -> Option<EraseBlockId> {
        let closed = self.pool.len(domain);
        if closed == 0 {
            return None;
        }
        let block = self.pool.get(domain, self.random.random_range(0..closed));
        self.pool.remove(domain, block);
        Some(block)
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.pool.remove(domain, block);
    }
}
