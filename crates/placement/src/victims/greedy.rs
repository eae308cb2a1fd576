//! Greedy: the erase block with the fewest valid pages.

use registry::{Args, Info};
use units::EraseBlockId;
use units::lists::{Lists, NONE};

use crate::{Context, Device, Victim};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "greedy",
    aliases: &[],
    summary: "the erase block with the fewest valid pages",
    source: "MULTILOG 4.1; Rosenblum & Ousterhout, TOCS 1992",
    params: &[],
};

/// The threshold of a domain is lowered when this share of the device's erase blocks (as a divisor)
/// would stay listed without the highest list; a scan lists at least half as many.
const MOST_LISTED: usize = 16;

const OPEN: u16 = u16::MAX;

/// Closed erase blocks with few valid pages, in one list for each count and domain; the others are
/// only marked as closed.
///
/// The victim always comes from the low end, so a block far from it need not be moved from list to
/// list at each of its invalidations: only blocks at or below a threshold are listed. When no block
/// is listed any more the threshold is set anew by a scan of all blocks, and when many are, it is
/// lowered; both are rare. The choice is exact at all times. Among equals it takes the one that was
/// listed with this count first.
#[derive(Debug)]
pub struct Greedy {
    by_valid: Lists,
    /// The domain of each closed block, and `OPEN` for the others.
    domain_of: Vec<u16>,
    counts: usize,
    /// Length of each list.
    lengths: Vec<u32>,
    domains: Vec<Domain>,
}

#[derive(Clone, Copy, Debug)]
struct Domain {
    /// Greatest count of valid pages that is listed.
    threshold: u32,
    /// Lower bound of the valid pages of the listed blocks.
    least: u32,
    listed: u32,
    closed: u32,
}

impl Greedy {
    /// An empty index.
    #[must_use]
    pub fn build(_args: &Args, context: &Context<'_>, domains: usize) -> Self {
        let counts = context.geometry.pages_per_erase_block as usize + 1;
        let erase_blocks = context.geometry.erase_blocks;
        Self {
            by_valid: Lists::new(erase_blocks, domains * counts),
            domain_of: vec![OPEN; erase_blocks as usize],
            counts,
            lengths: vec![0; domains * counts],
            domains: vec![Domain { threshold: 0, least: 0, listed: 0, closed: 0 }; domains],
        }
    }

    fn list(&mut self, block: EraseBlockId, domain: usize, valid: u32) {
        self.by_valid.push_back(domain * self.counts + valid as usize, block.0);
        let state = &mut self.domains[domain];
        state.least = state.least.min(valid);
        state.listed += 1;
        self.lengths[domain * self.counts + valid as usize] += 1;
        let top = self.lengths[domain * self.counts + state.threshold as usize];
        if (state.listed - top) as usize > self.domain_of.len() / MOST_LISTED {
            self.lower_threshold(domain);
        }
    }

    #[cold]
    fn lower_threshold(&mut self, domain: usize) {
        let list = domain * self.counts + self.domains[domain].threshold as usize;
        self.domains[domain].threshold -= 1;
        self.lengths[list] = 0;
        while self.by_valid.pop_front(list).is_some() {
            self.domains[domain].listed -= 1;
        }
    }

    /// Lists the closed blocks of the domain with the fewest valid pages, all of a count or none,
    /// until half the share of `MOST_LISTED` is reached. If fewer were listed, the next scan would
    /// soon be due.
    #[cold]
    fn scan(&mut self, domain: usize, device: &Device) {
        let closed = (0u32..).zip(&self.domain_of).filter(|&(_, &of)| usize::from(of) == domain);
        let candidates: Vec<u32> = closed.map(|(block, _)| block).collect();
        let mut of_count = vec![0usize; self.counts];
        for &block in &candidates {
            of_count[device.blocks[block as usize].valid as usize] += 1;
        }
        let Some(least) = of_count.iter().position(|&blocks| blocks > 0) else { return };
        let mut threshold = least;
        let mut listed = of_count[least];
        while threshold + 1 < self.counts && listed < self.domain_of.len() / (2 * MOST_LISTED) {
            threshold += 1;
            listed += of_count[threshold];
        }
        self.domains[domain].threshold = threshold as u32;
        self.domains[domain].least = least as u32;
        for block in candidates {
            let valid = device.blocks[block as usize].valid;
            if valid as usize <= threshold {
                self.by_valid.push_back(domain * self.counts + valid as usize, block);
                self.domains[domain].listed += 1;
                self.lengths[domain * self.counts + valid as usize] += 1;
            }
        }
    }

    fn unlist(&mut self, block: EraseBlockId, domain: usize, valid: u32) {
        self.by_valid.remove(domain * self.counts + valid as usize, block.0);
        self.domains[domain].listed -= 1;
        self.lengths[domain * self.counts + valid as usize] -= 1;
    }
}

impl Victim for Greedy {
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.domain_of[block.index()] = domain as u16;
        self.domains[domain].closed += 1;
        let valid = device.block(block).valid;
        if valid <= self.domains[domain].threshold {
            self.list(block, domain, valid);
        }
    }

    #[inline]
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let valid = device.block(block).valid;
        let threshold = self.domains[domain].threshold;
        if valid > threshold || self.domain_of[block.index()] == OPEN {
            return;
        }
        if valid < threshold {
            self.unlist(block, domain, valid + 1);
        }
        self.list(block, domain, valid);
    }

    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        if self.domains[domain].closed == 0 {
            return None;
        }
        if self.domains[domain].listed == 0 {
            self.scan(domain, device);
        }
        let Domain { least, threshold, .. } = self.domains[domain];
        for valid in least..=threshold {
            let first = self.by_valid.first(domain * self.counts + valid as usize);
            if first != NONE {
                let block = EraseBlockId(first);
                self.domains[domain].least = valid;
                self.unlist(block, domain, valid);
                self.domain_of[block.index()] = OPEN;
                self.domains[domain].closed -= 1;
                return Some(block);
            }
        }
        unreachable!("a domain with closed erase blocks has one listed after a scan")
    }

    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let valid = device.block(block).valid;
        if self.by_valid.contains(block.0) {
            self.unlist(block, domain, valid);
        }
        self.domain_of[block.index()] = OPEN;
        self.domains[domain].closed -= 1;
    }
}
