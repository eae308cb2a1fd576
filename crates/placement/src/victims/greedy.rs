//! Greedy: the erase block with the fewest valid pages.

use registry::{Args, Info};
use units::EraseBlockId;

use crate::index::Lists;
use crate::{Context, Device, Victim};

/// What the registry knows.
pub const INFO: Info = Info {
    name: "greedy",
    aliases: &[],
    summary: "the erase block with the fewest valid pages",
    source: "MULTILOG 4.1; Rosenblum & Ousterhout, TOCS 1992",
    params: &[],
};

/// One list for each count of valid pages and domain; the least non-empty one is found from a lower bound that moves by one.
///
/// Among equals, the block that has had this count for longest.
#[derive(Debug)]
pub struct Greedy {
    by_valid: Lists,
    counts: usize,
    least: Vec<u32>,
}

impl Greedy {
    /// An empty index.
    #[must_use]
    pub fn build(_args: &Args, context: &Context<'_>, domains: usize) -> Self {
        let counts = context.geometry.pages_per_erase_block as usize + 1;
        Self { by_valid: Lists::new(context.geometry.erase_blocks, domains * counts), counts, least: vec![0; domains] }
    }
}

impl Victim for Greedy {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let valid = device.block(block).valid;
        self.by_valid.push_back(domain * self.counts + valid as usize, block);
        self.least[domain] = self.least[domain].min(u32::from(valid));
    }

    #[inline]
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        if !self.by_valid.contains(block) {
            return;
        }
        let valid = device.block(block).valid;
        let list = domain * self.counts + valid as usize;
        self.by_valid.remove(list + 1, block);
        self.by_valid.push_back(list, block);
        self.least[domain] = self.least[domain].min(u32::from(valid));
    }

    #[inline]
    fn choose(&mut self, domain: usize, _device: &Device) -> Option<EraseBlockId> {
        let base = domain * self.counts;
        for valid in self.least[domain] as usize..self.counts {
            if let Some(block) = self.by_valid.pop_front(base + valid) {
                self.least[domain] = valid as u32;
                return Some(block);
            }
        }
        None
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.by_valid.remove(domain * self.counts + device.block(block).valid as usize, block);
    }
}
