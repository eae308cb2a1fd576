//! LRU: the erase block that was written longest ago.

use registry::{Args, Info};
use units::EraseBlockId;
use units::lists::Lists;

use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "lru",
    aliases: &["fifo"],
    summary: "the erase block written longest ago: a circular log",
    source: "MULTILOG 4.1; Rosenblum & Ousterhout, TOCS 1992",
    params: &[],
};

/// Closed erase blocks of each domain in the order of closing; the oldest is the victim.
#[derive(Debug)]
pub struct Lru {
    queues: Lists,
}

impl Lru {
    /// An empty index.
    #[must_use]
    pub fn build(_args: &Args, context: &Context<'_>, domains: usize) -> Self {
        Self { queues: Lists::new(context.geometry.erase_blocks, domains) }
    }
}

impl Victim for Lru {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.queues.push_back(domain, block.0);
    }

    #[inline]
    fn invalidated(&mut self, _block: EraseBlockId, _domain: usize, _device: &Device) {}

    #[inline]
    fn choose(&mut self, domain: usize, _device: &Device) -> Option<EraseBlockId> {
        self.queues.pop_front(domain).map(EraseBlockId)
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.queues.remove(domain, block.0);
    }
}
