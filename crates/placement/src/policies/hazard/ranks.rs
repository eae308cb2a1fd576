//! Erase blocks in lists by rank, the highest first.

use units::lists::{Lists, NONE};

/// For each domain a list of erase blocks for each rank, and which lists are not empty.
///
/// A rank is a whole number, so that an erase block whose rank changes is moved in constant time,
/// however many there are. Among equals the one that was listed first comes first.
#[derive(Debug)]
pub struct Ranks {
    lists: Lists,
    /// A bit a list.
    filled: Vec<u64>,
    /// 64-bit words a domain.
    words: usize,
}

impl Ranks {
    /// Lists for ranks below `ranks`, rounded up to a multiple of 64, of one domain.
    pub fn new(erase_blocks: u32, ranks: usize) -> Self {
        let words = ranks.div_ceil(64);
        Self { lists: Lists::new(erase_blocks, 64 * words), filled: vec![0; words], words }
    }

    /// Makes room for this number of domains.
    pub fn add_domains(&mut self, domains: usize) {
        self.lists.add(domains * self.words * 64);
        self.filled.resize(domains * self.words, 0);
    }

    #[inline]
    pub fn insert(&mut self, domain: usize, rank: u16, block: u32) {
        let list = domain * self.words * 64 + usize::from(rank);
        self.lists.push_back(list, block);
        self.filled[list / 64] |= 1 << (list % 64);
    }

    #[inline]
    pub fn remove(&mut self, domain: usize, rank: u16, block: u32) {
        let list = domain * self.words * 64 + usize::from(rank);
        self.lists.remove(list, block);
        if self.lists.first(list) == NONE {
            self.filled[list / 64] &= !(1 << (list % 64));
        }
    }

    /// The first erase block of the highest rank.
    pub fn best(&self, domain: usize) -> Option<u32> {
        let first = domain * self.words;
        let filled = &self.filled[first..first + self.words];
        let (word, bits) = filled.iter().enumerate().rev().find(|(_, bits)| **bits != 0)?;
        Some(self.lists.first((first + word) * 64 + bits.ilog2() as usize))
    }
}
