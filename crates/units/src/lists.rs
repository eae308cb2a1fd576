//! Doubly linked lists in flat tables: every node is in one list of a set or in none. A node is a
//! number, such as that of an erase block or of a cache slot, so that nothing is allocated after
//! construction.

/// No node.
pub const NONE: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

/// Links in both directions side by side, so that unlinking touches one cache line per neighbour.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

/// A set of lists over the same nodes.
#[derive(Clone, Debug)]
pub struct Lists {
    links: Vec<Link>,
    ends: Vec<Ends>,
}

impl Lists {
    /// Lists over nodes 0 to `nodes` - 1, all empty.
    ///
    /// # Panics
    /// If there are more than 2^32 - 2 nodes.
    #[must_use]
    pub fn new(nodes: u32, lists: usize) -> Self {
        assert!(nodes <= ABSENT, "{nodes} nodes are more than a list can number");
        Self {
            links: vec![Link { previous: NONE, next: ABSENT }; nodes as usize],
            ends: vec![Ends { head: NONE, tail: NONE }; lists],
        }
    }

    /// Adds empty lists until there are `lists`; does nothing if there are as many already.
    pub fn add(&mut self, lists: usize) {
        if lists > self.ends.len() {
            self.ends.resize(lists, Ends { head: NONE, tail: NONE });
        }
    }

    /// Memory that the lists take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.links.len() * size_of::<Link>() + self.ends.len() * size_of::<Ends>()
    }

    /// Returns true if a node is in a list.
    #[inline]
    #[must_use]
    pub fn contains(&self, node: u32) -> bool {
        self.links[node as usize].next != ABSENT
    }

    /// The first node of a list, or [`NONE`] if the list is empty.
    #[inline]
    #[must_use]
    pub fn first(&self, list: usize) -> u32 {
        self.ends[list].head
    }

    /// The node after one that is in a list, or [`NONE`] if that is the last.
    #[inline]
    #[must_use]
    pub fn next(&self, node: u32) -> u32 {
        debug_assert!(self.contains(node), "node {node} is in no list");
        self.links[node as usize].next
    }

    /// Puts a node that is in no list at the end of one.
    #[inline]
    pub fn push_back(&mut self, list: usize, node: u32) {
        debug_assert!(!self.contains(node), "node {node} is in a list already");
        let ends = &mut self.ends[list];
        let tail = ends.tail;
        ends.tail = node;
        if tail == NONE {
            ends.head = node;
        } else {
            self.links[tail as usize].next = node;
        }
        self.links[node as usize] = Link { previous: tail, next: NONE };
    }

    /// Takes a node out of the list that it is in.
    #[inline]
    pub fn remove(&mut self, list: usize, node: u32) {
        let Link { previous, next } = self.links[node as usize];
        debug_assert!(next != ABSENT, "node {node} is in no list");
        if previous == NONE {
            debug_assert_eq!(self.ends[list].head, node, "node {node} is in another list");
            self.ends[list].head = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next == NONE {
            debug_assert_eq!(self.ends[list].tail, node, "node {node} is in another list");
            self.ends[list].tail = previous;
        } else {
            self.links[next as usize].previous = previous;
        }
        self.links[node as usize].next = ABSENT;
    }

    /// Takes the first node out of a list.
    #[inline]
    pub fn pop_front(&mut self, list: usize) -> Option<u32> {
        let node = self.first(list);
        (node != NONE).then(|| {
            self.remove(list, node);
            node
        })
    }

    /// Moves a node to the end of the list that it is in.
    #[inline]
    pub fn move_to_back(&mut self, list: usize, node: u32) {
        if self.ends[list].tail != node {
            self.remove(list, node);
            self.push_back(list, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::{Lists, NONE};

    fn nodes_of(lists: &Lists, list: usize) -> Vec<u32> {
        let mut nodes = Vec::new();
        let mut node = lists.first(list);
        while node != NONE {
            nodes.push(node);
            node = lists.next(node);
        }
        nodes
    }

    proptest! {
        #[test]
        fn lists_are_queues_that_nodes_can_leave(
            steps in prop::collection::vec((0u32..12, 0usize..2, any::<bool>()), 0..200),
        ) {
            let mut lists = Lists::new(12, 2);
            let mut plain = [VecDeque::new(), VecDeque::new()];
            for (node, list, moves) in steps {
                match plain.iter().position(|queue| queue.contains(&node)) {
                    Some(home) => {
                        plain[home].retain(|&other| other != node);
                        if moves {
                            plain[home].push_back(node);
                            lists.move_to_back(home, node);
                        } else {
                            lists.remove(home, node);
                        }
                    }
                    None => {
                        plain[list].push_back(node);
                        lists.push_back(list, node);
                    }
                }
                for (list, queue) in plain.iter().enumerate() {
                    prop_assert_eq!(nodes_of(&lists, list), Vec::from(queue.clone()));
                }
            }
        }
    }
}
