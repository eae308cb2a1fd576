//! Follows the list of free pages through the pages that transactions write.
//!
//! A rollback journal does not hold a page that was a leaf of this list when its transaction began:
//! nobody needs its old content (`PAGER_GET_NOCONTENT`). The list is a chain of trunk pages, each
//! with the next one's number, a count, and so many leaves. A page is written when it becomes a
//! trunk, and whenever its leaves change.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::checksum::number;
use super::transactions::{NOT_FREE, UNKNOWN};

#[derive(Clone, Debug, Default)]
struct Trunk {
    next: u32,
    leaves: Vec<u32>,
}

impl Trunk {
    /// Reads a page as a trunk, if it may be one.
    fn read(content: &[u8]) -> Option<Self> {
        let (next, count) = (number(content, 0), number(content, 4) as usize);
        let bytes = content.get(8..count.checked_mul(4)?.checked_add(8)?)?;
        Some(Self { next, leaves: bytes.chunks_exact(4).map(|leaf| number(leaf, 0)).collect() })
    }
}

/// The list of free pages, from transaction to transaction.
#[derive(Debug, Default)]
pub struct FreePages {
    head: u32,
    trunks: BTreeMap<u32, Trunk>,
    /// By page, the first transaction at whose beginning it was a leaf.
    leaves: HashMap<u32, u64>,
    is_known: bool,
    /// Transactions so far.
    transactions: u64,
    /// Of the transaction that goes on: its list's head, and pages that may be trunks.
    new_head: Option<u32>,
    written: HashMap<u32, Trunk>,
    /// Pages that it writes with anything but zeros.
    filled: HashSet<u32>,
    is_auto_vacuum_full: bool,
    skips_freed: bool,
}

impl FreePages {
    /// The list of a database at rest; `page` gives the content of a page.
    pub fn of(page: impl Fn(u32) -> Option<Vec<u8>>) -> Self {
        let mut found = Self::default();
        let Some(first) = page(1).filter(|first| first.len() >= 100) else { return found };
        found.header(&first);
        let mut next = number(&first, 32);
        while next != 0 && !found.written.contains_key(&next) {
            let Some(trunk) = page(next).and_then(|content| Trunk::read(&content)) else { break };
            let this = std::mem::replace(&mut next, trunk.next);
            found.written.insert(this, trunk);
        }
        found.rebuild(0);
        found
    }

    /// `PRAGMA auto_vacuum` is `full`: each commit moves pages to free the end of the file.
    #[must_use]
    pub fn is_auto_vacuum_full(&self) -> bool {
        self.is_auto_vacuum_full
    }

    /// True if a page that was freed kept its content: then `PRAGMA secure_delete` is not on, and
    /// a rollback mode does not write such a page.
    #[must_use]
    pub fn skips_freed(&self) -> bool {
        self.skips_freed
    }

    fn header(&mut self, first: &[u8]) {
        self.new_head = Some(number(first, 32));
        self.is_auto_vacuum_full = number(first, 52) != 0 && number(first, 64) == 0;
    }

    /// Forgets what an open transaction has written.
    pub fn reset(&mut self) {
        self.new_head = None;
        self.written.clear();
        self.filled.clear();
    }

    /// Takes a page that the open transaction writes.
    pub fn write(&mut self, page: u32, content: &[u8]) {
        if content.iter().any(|byte| *byte != 0) {
            self.filled.insert(page);
        }
        if page == 1 {
            self.header(content);
        } else if let Some(trunk) = Trunk::read(content) {
            self.written.insert(page, trunk);
        } else {
            self.written.remove(&page);
        }
    }

    /// As [`super::Written::free_for`], of a page that the open transaction writes.
    #[must_use]
    pub fn free_for(&self, page: u32) -> u32 {
        if !self.is_known {
            return UNKNOWN;
        }
        self.leaves.get(&page).map_or(NOT_FREE, |since| {
            u32::try_from(self.transactions - since + 1).unwrap_or(UNKNOWN).min(UNKNOWN - 1)
        })
    }

    /// Ends the open transaction.
    pub fn commit(&mut self) {
        self.transactions += 1;
        // The first page is written whenever the list's head or its length changes.
        if self.new_head.is_some() || self.written.keys().any(|page| self.trunks.contains_key(page))
        {
            self.rebuild(self.transactions);
        }
        self.reset();
    }

    fn rebuild(&mut self, now: u64) {
        self.head = self.new_head.unwrap_or(self.head);
        let mut trunks = BTreeMap::new();
        // Leaves of trunks that change, until they are found in another.
        let mut loose = HashMap::new();
        let mut changed = Vec::new();
        let mut next = self.head;
        self.is_known = true;
        while next != 0 {
            let this = next;
            if let Some(trunk) = self.written.remove(&this) {
                next = trunk.next;
                changed.push(this);
                trunks.insert(this, trunk);
            } else if let Some(trunk) = self.trunks.remove(&this) {
                next = trunk.next;
                trunks.insert(this, trunk);
            } else {
                // A trunk that was never seen, or one for the second time: a circle.
                self.is_known = false;
                break;
            }
        }
        let (leaves, old) = (&mut self.leaves, &self.trunks);
        for leaf in old.values().flat_map(|trunk| &trunk.leaves) {
            loose.extend(leaves.remove_entry(leaf));
        }
        for leaf in changed.iter().flat_map(|trunk| &trunks[trunk].leaves) {
            let since = loose.get(leaf).copied().unwrap_or(now);
            self.skips_freed |= since == now && self.filled.contains(leaf);
            leaves.insert(*leaf, since);
        }
        self.trunks = trunks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(numbers: &[(usize, u32)]) -> Vec<u8> {
        let mut content = vec![0; 512];
        for (at, number) in numbers {
            content[*at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        content
    }

    #[test]
    fn a_leaf_is_free_from_the_transaction_after_that_which_freed_it() {
        let empty = |_| Some(page(&[]));
        let mut free = FreePages::of(empty);
        assert_eq!(free.free_for(7), NOT_FREE);
        // Page 5 becomes a trunk with the leaf 7.
        free.write(1, &page(&[(32, 5), (36, 2)]));
        free.write(5, &page(&[(4, 1), (8, 7)]));
        assert_eq!(free.free_for(7), NOT_FREE, "it was not free when this one began");
        free.commit();
        assert_eq!((free.free_for(7), free.free_for(5)), (1, NOT_FREE));
        free.write(9, &[255; 512]);
        free.commit();
        assert_eq!(free.free_for(7), 2);
        free.write(1, &page(&[(32, 5), (36, 1)]));
        free.write(5, &page(&[(4, 0)]));
        free.write(7, &[13; 512]);
        assert_eq!(free.free_for(7), 2);
        free.commit();
        assert_eq!(free.free_for(7), NOT_FREE);
    }

    #[test]
    fn a_list_that_cannot_be_followed_is_not_known() {
        let mut free = FreePages::of(|_| None);
        assert_eq!(free.free_for(2), UNKNOWN);
        free.write(1, &page(&[]));
        free.commit();
        assert_eq!(free.free_for(2), NOT_FREE);
        free.write(1, &page(&[(32, 9)]));
        free.commit();
        assert_eq!(free.free_for(2), UNKNOWN);
    }
}
