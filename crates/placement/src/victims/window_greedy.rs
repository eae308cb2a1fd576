//! Window-Greedy(B): the fewest valid pages among the B erase blocks that were written longest ago.

use registry::{Args, Info, Param, ParamKind};
use units::EraseBlockId;
use units::lists::Lists;

use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "window_greedy",
    aliases: &[],
    summary: "the fewest valid pages among the B erase blocks written longest ago",
    source: "MULTILOG 4.1; Hu et al., SYSTOR 2009",
    params: &[Param {
        name: "window",
        kind: ParamKind::Number { min: 0.0, max: 1.0 },
        default: "0.1",
        help: "B as a fraction of all erase blocks, at least one block: 0 is LRU, 1 is Greedy",
    }],
};

/// The window of a domain holds its oldest closed blocks; younger ones wait in a queue in the order
/// of closing.
#[derive(Debug)]
pub struct WindowGreedy {
    /// For each domain: the queue, then one list for each count of valid pages of the blocks in the
    /// window.
    lists: Lists,
    in_window: Vec<bool>,
    counts: usize,
    window: u32,
    held: Vec<u32>,
    least: Vec<u32>,
}

impl WindowGreedy {
    /// An empty index.
    #[must_use]
    pub fn build(args: &Args, context: &Context<'_>, domains: usize) -> Self {
        let counts = context.geometry.pages_per_erase_block as usize + 1;
        let erase_blocks = context.geometry.erase_blocks;
        Self {
            lists: Lists::new(erase_blocks, domains * (counts + 1)),
            in_window: vec![false; erase_blocks as usize],
            counts,
            window: ((args.number("window") * f64::from(erase_blocks)).round() as u32).max(1),
            held: vec![0; domains],
            least: vec![0; domains],
        }
    }

    fn queue(&self, domain: usize) -> usize {
        domain * (self.counts + 1)
    }

    fn fill_window(&mut self, domain: usize, device: &Device) {
        while self.held[domain] < self.window {
            let Some(block) = self.lists.pop_front(self.queue(domain)).map(EraseBlockId) else {
                return;
            };
            let valid = device.block(block).valid;
            self.lists.push_back(self.queue(domain) + 1 + valid as usize, block.0);
            self.in_window[block.index()] = true;
            self.held[domain] += 1;
            self.least[domain] = self.least[domain].min(valid);
        }
    }
}

impl Victim for WindowGreedy {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.lists.push_back(self.queue(domain), block.0);
    }

    #[inline]
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        if !self.in_window[block.index()] {
            return;
        }
        let valid = device.block(block).valid;
        let list = self.queue(domain) + 1 + valid as usize;
        self.lists.remove(list + 1, block.0);
        self.lists.push_back(list, block.0);
        self.least[domain] = self.least[domain].min(valid);
    }

    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        self.fill_window(domain, device);
        let base = self.queue(domain) + 1;
        for valid in self.least[domain] as usize..self.counts {
            if let Some(block) = self.lists.pop_front(base + valid).map(EraseBlockId) {
                self.least[domain] = valid as u32;
                self.in_window[block.index()] = false;
                self.held[domain] -= 1;
                return Some(block);
            }
        }
        None
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let queue = self.queue(domain);
        if std::mem::take(&mut self.in_window[block.index()]) {
            self.lists.remove(queue + 1 + device.block(block).valid as usize, block.0);
            self.held[domain] -= 1;
        } else {
            self.lists.remove(queue, block.0);
        }
    }
}
