//! Numbers of pages: those of a relation follow each other, relations in the order of their files.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;

use super::super::log::{Block, Relation};

/// More pages than these, of all relations, take too much memory.
const MOST_PAGES: u64 = 32 << 20;

/// Changed pages of a fork that are remembered, at most: a fair sample of all changes.
const MOST_CHANGED: usize = 4096;

/// A relation's fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The relation.
    pub relation: Relation,
    /// The fork: 0 the relation itself.
    pub fork: u8,
    /// Its pages, as far as they are known.
    pub pages: u32,
    /// Number of the first.
    pub base: u32,
    /// Pages that records change, each time.
    pub touches: u64,
}

/// Relations of a log.
#[derive(Clone, Debug)]
pub struct Relations {
    forks: Vec<Fork>,
    changed: Vec<Vec<u32>>,
    dice: Pcg64Mcg,
    index: FxHashMap<(Relation, u8), u32>,
    last: ((Relation, u8), u32),
}

impl Default for Relations {
    fn default() -> Self {
        Self {
            forks: Vec::new(),
            changed: Vec::new(),
            dice: Pcg64Mcg::seed_from_u64(7),
            index: FxHashMap::default(),
            last: Default::default(),
        }
    }
}

impl Relations {
    /// The fork's place in the list.
    #[inline]
    pub fn find(&mut self, relation: Relation, fork: u8) -> usize {
        let key = (relation, fork);
        if key == self.last.0 && !self.forks.is_empty() {
            return self.last.1 as usize;
        }
        let new = self.forks.len() as u32;
        let number = *self.index.entry(key).or_insert(new);
        if number == new {
            self.forks.push(Fork { relation, fork, pages: 0, base: 0, touches: 0 });
            self.changed.push(Vec::new());
        }
        self.last = (key, number);
        number as usize
    }

    /// Learns of a page of the log; gives the fork's place in the list.
    #[inline]
    pub(super) fn touch(&mut self, block: &Block) -> usize {
        let number = self.find(block.relation, block.fork());
        let fork = &mut self.forks[number];
        fork.pages = fork.pages.max(block.number.saturating_add(1));
        fork.touches += 1;
        let changed = &mut self.changed[number];
        if changed.len() < MOST_CHANGED {
            changed.push(block.number);
        } else if let at @ 0..MOST_CHANGED = self.dice.random_range(0..fork.touches) as usize {
            // Vitter's algorithm R: each change is as likely to be remembered.
            changed[at] = block.number;
        }
        number
    }

    /// Pages of a fork that records change, by its place in the list: as often as they are changed.
    #[must_use]
    pub fn changed(&self, number: usize) -> &[u32] {
        &self.changed[number]
    }

    /// Learns how long a relation is.
    pub fn has_pages(&mut self, relation: Relation, pages: u32) {
        let number = self.find(relation, 0);
        self.forks[number].pages = self.forks[number].pages.max(pages);
    }

    /// Numbers all pages. The order of forks in the list stays.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn number(&mut self) -> Result<(), String> {
        let all: u64 = self.forks.iter().map(|fork| u64::from(fork.pages)).sum();
        if all > MOST_PAGES {
            return Err(format!(
                "its relations have {all} pages; at most {MOST_PAGES} fit into the memory that \
                 this takes"
            ));
        }
        let mut order: Vec<_> = (0..self.forks.len()).collect();
        order.sort_by_key(|number| (self.forks[*number].relation, self.forks[*number].fork));
        let mut base = 0;
        for number in order {
            self.forks[number].base = base;
            base += self.forks[number].pages;
        }
        Ok(())
    }

    /// Number of a page that the log has.
    #[inline]
    pub fn page(&mut self, block: &Block) -> (u32, usize) {
        let number = self.find(block.relation, block.fork());
        (self.forks[number].base + block.number, number)
    }

    /// All forks.
    #[must_use]
    pub fn forks(&self) -> &[Fork] {
        &self.forks
    }

    /// Number of all pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.forks.iter().map(|fork| fork.base + fork.pages).max().unwrap_or_default()
    }
}
