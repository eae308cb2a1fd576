//! Pages that a search in a B+-tree touches.

use super::Access;

/// Bytes of an entry beside its key: PostgreSQL's index tuple header and the pointer to it.
const ENTRY: u32 = 12;
/// Bytes of a page that hold no entries: header and the tree's own part.
const PAGE: u32 = 40;
/// Fill of leaves after a load, in per cent: PostgreSQL's fill factor.
const LEAF_FILL: u32 = 90;
/// Fill of inner nodes, in per cent.
const INNER_FILL: u32 = 70;
/// Levels that no tree exceeds.
const MOST_LEVELS: usize = 12;

/// A B+-tree whose entries are numbered in the order of their keys. Its shape stays: what is
/// inserted has its place from the start on. Splits are left out: they write one page more for each
/// leaf that fills, once in some hundred insertions.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    relation: u16,
    leaf_entries: u32,
    inner_entries: u32,
    /// First page of each level, the leaves first.
    levels: [u32; MOST_LEVELS],
    height: usize,
    pages: u32,
}

impl Tree {
    pub fn new(
        relation: u16,
        first_page: u32,
        page_bytes: u32,
        entries: u64,
        key_bytes: u32,
    ) -> Self {
        let each = key_bytes.next_multiple_of(8) + ENTRY;
        let fit = |fill: u32| ((page_bytes - PAGE) * fill / 100 / each).max(2);
        let (leaf_entries, inner_entries) = (fit(LEAF_FILL), fit(INNER_FILL));
        let mut levels = [0; MOST_LEVELS];
        let (mut height, mut page) = (0, first_page);
        let mut nodes = entries.div_ceil(u64::from(leaf_entries)).max(1) as u32;
        loop {
            levels[height] = page;
            height += 1;
            page += nodes;
            if nodes == 1 {
                break;
            }
            nodes = nodes.div_ceil(inner_entries);
        }
        Self { relation, leaf_entries, inner_entries, levels, height, pages: page - first_page }
    }

    /// Pages of all levels.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Leaf of an entry, counted from 0.
    #[inline]
    pub fn leaf(&self, entry: u64) -> u32 {
        (entry / u64::from(self.leaf_entries)) as u32
    }

    /// From the root to the leaf of an entry, which is written if `is_write`.
    #[inline]
    pub fn search(&self, entry: u64, is_write: bool, out: &mut Vec<Access>) {
        let mut nodes = [0; MOST_LEVELS];
        let mut node = self.leaf(entry);
        for level in &mut nodes[..self.height] {
            *level = node;
            node /= self.inner_entries;
        }
        for level in (0..self.height).rev() {
            self.node(level, nodes[level], is_write && level == 0, out);
        }
    }

    /// The leaves behind that of `from` up to that of `to`: a scan goes from leaf to leaf.
    pub fn scan_on(&self, from: u64, to: u64, out: &mut Vec<Access>) {
        for leaf in self.leaf(from) + 1..=self.leaf(to) {
            self.node(0, leaf, false, out);
        }
    }

    #[inline]
    fn node(&self, level: usize, node: u32, is_write: bool, out: &mut Vec<Access>) {
        let page = self.levels[level] + node;
        let (row, relation) = (super::NO_ROW, self.relation);
        out.push(Access { page, row, relation, is_write, is_locked: false });
    }
}
