//! Doubly linked lists of erase blocks in flat tables: every block is in one list or in none.

use units::EraseBlockId;

const NONE: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

/// A link of the lists. Both directions side by side, so that unlinking touches one cache line a
/// neighbour.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// Head and tail of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

/// A set of lists over the same erase blocks.
#[derive(Clone, Debug)]
pub struct Lists {
    links: Vec<Link>,
    ends: Vec<Ends>,
}

impl Lists {
    pub fn new(erase_blocks: u32, lists: usize) -> Self {
        Self {
            links: vec![Link { previous: NONE, next: ABSENT }; erase_blocks as usize],
            ends: vec![Ends { head: NONE, tail: NONE }; lists],
        }
    }

    #[inline]
    pub fn contains(&self, block: EraseBlockId) -> bool {
        self.links[block.index()].next != ABSENT
    }

    #[inline]
    pub fn first(&self, list: usize) -> Option<EraseBlockId> {
        let head = self.ends[list].head;
        (head != NONE).then_some(EraseBlockId(head))
    }

    #[inline]
    pub fn push_back(&mut self, list: usize, block: EraseBlockId) {
        debug_assert!(!self.contains(block), "erase block {} is in a list already", block.0);
        let ends = &mut self.ends[list];
        let tail = ends.tail;
        ends.tail = block.0;
        if tail == NONE {
            ends.head = block.0;
        } else {
            self.links[tail as usize].next = block.0;
        }
        self.links[block.index()] = Link { previous: tail, next: NONE };
    }

    #[inline]
    pub fn remove(&mut self, list: usize, block: EraseBlockId) {
        let Link { previous, next } = self.links[block.index()];
        debug_assert!(next != ABSENT, "erase block {} is in no list", block.0);
        if previous == NONE {
            self.ends[list].head = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next == NONE {
            self.ends[list].tail = previous;
        } else {
            self.links[next as usize].previous = previous;
        }
        self.links[block.index()].next = ABSENT;
    }

    #[inline]
    pub fn pop_front(&mut self, list: usize) -> Option<EraseBlockId> {
        let block = self.first(list)?;
        self.remove(list, block);
        Some(block)
    }
}
