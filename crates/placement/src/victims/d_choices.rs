//! d-choices: the fewest valid pages among d erase blocks drawn at random.

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::EraseBlockId;

use super::pool::Pool;
use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "d_choices",
    aliases: &["dchoices"],
    summary: "the fewest valid pages among d erase blocks drawn at random",
    source: "Van Houdt, SIGMETRICS 2013; Li, Lee & Lui, SIGMETRICS 2013",
    params: &[Param {
        name: "d",
        kind: ParamKind::Integer { min: 1, max: 1024 },
        default: "10",
        help: "erase blocks drawn, with replacement",
    }],
};

/// Draws are independent and with replacement, as in the mean-field model; among equals, the first
/// drawn wins.
#[derive(Debug)]
pub struct DChoices {
    pool: Pool,
    random: Pcg64Mcg,
    draws: u32,
}

impl DChoices {
    /// An empty index.
    #[must_use]
    pub fn build(args: &Args, context: &Context<'_>, domains: usize) -> Self {
        Self {
            pool: Pool::new(context.geometry.erase_blocks, domains),
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x44434849),
            draws: args.integer("d") as u32,
        }
    }
}

impl Victim for DChoices {
    fn closed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.pool.insert(domain, block);
    }

    #[inline]
    fn invalidated(&mut self, _block: EraseBlockId, _domain: usize, _device: &Device) {}

    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let closed = self.pool.len(domain);
        if closed == 0 {
            return None;
        }
        let best = (0..self.draws)
            .map(|_| self.pool.get(domain, self.random.random_range(0..closed)))
            .min_by_key(|&block| device.block(block).valid)?;
        self.pool.remove(domain, best);
        Some(best)
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.pool.remove(domain, block);
    }
}
