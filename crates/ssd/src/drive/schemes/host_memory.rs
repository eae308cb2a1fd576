//! Translation pages in the host's memory: NVMe's host memory buffer (specification 1.2), for
//! drives without DRAM.

use std::collections::VecDeque;

use units::lists::{Lists, NONE};

use crate::drive::time::Picos;

/// A second level of the cache of the map: whole translation pages in the host's memory, the least
/// recently used going first.
///
/// A copy there is as the flash has it, or will have it when a write that is under way is done: the
/// drive changes entries in its own cache, and writes a translation page to both. So the host's
/// memory may be taken away at any time. What is written there goes over the link without anyone
/// waiting for it. Commercial drives use the buffer mainly for the map (Kim & Kim, HMB in DRAM-less
/// NVMe SSDs, PLOS ONE); how they divide it is not said there, and the time of a fetch is ours.
#[derive(Debug)]
pub(super) struct HostMemory {
    /// By translation page, in the order of their last use.
    recency: Lists,
    held: u32,
    most: u32,
    time: Picos,
    /// Pages that arrive, in the order of their times.
    arriving: VecDeque<(Picos, u32)>,
    pub hits: u64,
}

impl HostMemory {
    /// Room for `most` of so many translation pages, each of which takes a time to fetch; none
    /// without room.
    pub fn new(pages: u32, most: u64, time: Picos) -> Option<Box<Self>> {
        let most = most.min(u64::from(pages)) as u32;
        (most > 0).then(|| {
            let recency = Lists::new(pages, 1);
            Box::new(Self { recency, held: 0, most, time, arriving: VecDeque::new(), hits: 0 })
        })
    }

    /// Fetches a page, if it is there: whether it is.
    pub fn fetch(&mut self, page: u32, now: Picos) -> bool {
        if !self.recency.contains(page) {
            return false;
        }
        self.recency.move_to_back(0, page);
        self.arriving.push_back((now + self.time, page));
        self.hits += 1;
        true
    }

    /// Puts a page there that was read from flash, or is written to it.
    pub fn put(&mut self, page: u32) {
        if self.recency.contains(page) {
            return self.recency.move_to_back(0, page);
        }
        if self.held == self.most {
            let oldest = self.recency.first(0);
            debug_assert_ne!(oldest, NONE, "a full buffer holds something");
            self.recency.remove(0, oldest);
        } else {
            self.held += 1;
        }
        self.recency.push_back(0, page);
    }

    /// Time at which the next page arrives.
    pub fn next_time(&self) -> Option<Picos> {
        self.arriving.front().map(|&(at, _)| at)
    }

    /// Takes a page that has arrived.
    pub fn arrived(&mut self, now: Picos) -> Option<u32> {
        if self.next_time()? > now {
            return None;
        }
        self.arriving.pop_front().map(|(_, page)| page)
    }
}
