//! Pairing heaps in flat tables: every node is in one heap of a set or in none, and any node can be
//! removed. As in [`crate::lists`], nothing is allocated after construction but a stack of
//! siblings.
//!
//! Fredman, Sedgewick, Sleator & Tarjan, Algorithmica 1, 1986, with two-pass pairing.

use crate::lists::NONE;

const ABSENT: u32 = u32::MAX - 1;

/// A node: its first child, its next sibling, and its parent or else its previous sibling.
#[derive(Clone, Copy, Debug)]
struct Node {
    child: u32,
    next: u32,
    before: u32,
}

/// A set of heaps over the same nodes. The caller holds the keys, and must not change that of a
/// node while it is in a heap.
#[derive(Clone, Debug)]
pub struct Heaps {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    siblings: Vec<u32>,
}

impl Heaps {
    /// Heaps over nodes 0 to `nodes` - 1, all empty.
    ///
    /// # Panics
    /// If there are more than 2^32 - 2 nodes.
    #[must_use]
    pub fn new(nodes: u32, heaps: usize) -> Self {
        assert!(nodes <= ABSENT, "{nodes} nodes are more than a heap can number");
        Self {
            nodes: vec![Node { child: NONE, next: NONE, before: ABSENT }; nodes as usize],
            roots: vec![NONE; heaps],
            siblings: Vec::new(),
        }
    }

    /// Returns true if a node is in a heap.
    #[inline]
    #[must_use]
    pub fn contains(&self, node: u32) -> bool {
        self.nodes[node as usize].before != ABSENT
    }

    /// The node with the least key of a heap, or [`NONE`] if the heap is empty.
    #[inline]
    #[must_use]
    pub fn first(&self, heap: usize) -> u32 {
        self.roots[heap]
    }

    /// Puts a node that is in no heap into one.
    #[inline]
    pub fn insert(&mut self, heap: usize, node: u32, key: impl Fn(u32) -> u64) {
        debug_assert!(!self.contains(node), "node {node} is in a heap already");
        self.nodes[node as usize] = Node { child: NONE, next: NONE, before: NONE };
        self.roots[heap] = self.meld(self.roots[heap], node, &key);
    }

    /// Takes a node out of the heap that it is in.
    #[inline]
    pub fn remove(&mut self, heap: usize, node: u32, key: impl Fn(u32) -> u64) {
        debug_assert!(self.contains(node), "node {node} is in no heap");
        let Node { child, next, before } = self.nodes[node as usize];
        let children = self.pair(child, &key);
        if before == NONE {
            debug_assert_eq!(self.roots[heap], node, "node {node} is in another heap");
            self.roots[heap] = children;
        } else {
            let previous = &mut self.nodes[before as usize];
            if previous.child == node {
                previous.child = next;
            } else {
                previous.next = next;
            }
            if next != NONE {
                self.nodes[next as usize].before = before;
            }
            self.roots[heap] = self.meld(self.roots[heap], children, &key);
        }
        self.nodes[node as usize].before = ABSENT;
    }

    /// Melds two heaps, each given by its root; either may be [`NONE`].
    fn meld(&mut self, one: u32, other: u32, key: &impl Fn(u32) -> u64) -> u32 {
        if one == NONE || other == NONE {
            return if one == NONE { other } else { one };
        }
        let (root, child) = if key(other) < key(one) { (other, one) } else { (one, other) };
        let first = self.nodes[root as usize].child;
        if first != NONE {
            self.nodes[first as usize].before = child;
        }
        let under = &mut self.nodes[child as usize];
        (under.next, under.before) = (first, root);
        self.nodes[root as usize].child = child;
        root
    }

    /// Melds a node and its siblings into one heap: in pairs from the first on, then the pairs from
    /// the last on.
    fn pair(&mut self, first: u32, key: &impl Fn(u32) -> u64) -> u32 {
        let mut siblings = std::mem::take(&mut self.siblings);
        let mut at = first;
        while at != NONE {
            siblings.push(at);
            let node = &mut self.nodes[at as usize];
            at = node.next;
            (node.next, node.before) = (NONE, NONE);
        }
        for pair in siblings.chunks_mut(2) {
            if let [one, other] = *pair {
                pair[0] = self.meld(one, other, key);
            }
        }
        let roots = siblings.iter().step_by(2).rev();
        let root = roots.copied().fold(NONE, |root, next| self.meld(next, root, key));
        siblings.clear();
        self.siblings = siblings;
        root
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agree_with_ordered_sets(
            keys in prop::collection::vec(0..50_u64, 40),
            steps in prop::collection::vec((0..40_u32, 0..3_usize), 0..400),
        ) {
            let key = |node: u32| keys[node as usize] << 32 | u64::from(node);
            let mut heaps = Heaps::new(40, 3);
            let mut plain: [BTreeSet<u64>; 3] = Default::default();
            for (node, heap) in steps {
                let home = plain.iter().position(|set| set.contains(&key(node)));
                prop_assert_eq!(heaps.contains(node), home.is_some());
                if let Some(home) = home {
                    heaps.remove(home, node, key);
                    plain[home].remove(&key(node));
                } else {
                    heaps.insert(heap, node, key);
                    plain[heap].insert(key(node));
                }
                for (heap, set) in plain.iter().enumerate() {
                    let first = set.first().map_or(NONE, |first| *first as u32);
                    prop_assert_eq!(heaps.first(heap), first);
                }
            }
        }
    }
}
