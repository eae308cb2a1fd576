//! Layout of the rows of tables, in pages like PostgreSQL's.

use super::tree::Tree;
use super::{Access, Database, Relation};

/// Bytes of a page that hold no rows: PostgreSQL's page header.
const PAGE_HEADER: u32 = 24;
/// Bytes of a row beside its columns: PostgreSQL's tuple header with its null bitmap, aligned.
const ROW_HEADER: u32 = 24;
/// Bytes of the pointer to a row within its page.
const LINE_POINTER: u32 = 4;

/// A table: rows in the order of their numbers, as many to a page as fit.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    relation: u16,
    first_page: u32,
    /// Number of its first row in the whole database.
    first_row: u32,
    /// Rows to a page.
    pub per_page: u32,
    /// Pages.
    pub pages: u32,
}

impl Heap {
    /// Gives the access to its row of this number, from 0 on.
    #[inline]
    pub fn access(&self, row: u32, is_write: bool) -> Access {
        debug_assert!(row / self.per_page < self.pages, "row {row} is beyond the table");
        Access {
            page: self.first_page + row / self.per_page,
            row: self.first_row + row,
            relation: self.relation,
            is_write,
            is_locked: true,
        }
    }
}

/// Lays out relations one after the other.
pub struct Layout {
    page_bytes: u32,
    pages: u64,
    rows: u64,
    relations: Vec<Relation>,
}

impl Layout {
    pub fn new(page_bytes: u32) -> Self {
        Self { page_bytes, pages: 0, rows: 0, relations: Vec::new() }
    }

    /// Rows of `row_bytes` bytes, without headers, that fit a page; at least one.
    pub fn rows_per_page(page_bytes: u32, row_bytes: u32) -> u32 {
        let each = (ROW_HEADER + row_bytes).next_multiple_of(8) + LINE_POINTER;
        ((page_bytes - PAGE_HEADER) / each).max(1)
    }

    /// A table of `rows` rows.
    pub fn heap(&mut self, name: &str, rows: u64, row_bytes: u32) -> Heap {
        let per_page = Self::rows_per_page(self.page_bytes, row_bytes);
        let pages = rows.div_ceil(u64::from(per_page)).max(1);
        let first_page = self.add(name, false, pages);
        let first_row = self.rows;
        self.rows += pages * u64::from(per_page);
        Heap {
            relation: (self.relations.len() - 1) as u16,
            first_page,
            first_row: first_row as u32,
            per_page,
            pages: pages as u32,
        }
    }

    /// A B+-tree over `entries` entries whose keys have `key_bytes` bytes.
    pub fn tree(&mut self, name: &str, entries: u64, key_bytes: u32) -> Tree {
        let relation = self.relations.len() as u16;
        let tree = Tree::new(relation, self.pages as u32, self.page_bytes, entries, key_bytes);
        self.add(name, true, u64::from(tree.pages()));
        tree
    }

    fn add(&mut self, name: &str, is_index: bool, pages: u64) -> u32 {
        let first_page = self.pages as u32;
        self.pages += pages;
        let pages = pages as u32;
        self.relations.push(Relation { name: name.to_owned(), is_index, first_page, pages });
        first_page
    }

    /// Bytes of all that was laid out.
    pub fn bytes(&self) -> u64 {
        self.pages * u64::from(self.page_bytes)
    }

    /// Gives the database, when all is laid out.
    ///
    /// # Panics
    /// If pages or rows are more than 32 bits number.
    pub fn finish(
        self,
        name: String,
        kinds: &[&'static str],
        scale: Vec<(&'static str, u64)>,
    ) -> Database {
        let most = u64::from(u32::MAX - 1);
        assert!(
            self.pages <= most && self.rows <= most,
            "{} pages and {} rows: 32 bits have to number them",
            self.pages,
            self.rows
        );
        Database {
            name,
            page_bytes: self.page_bytes,
            pages: self.pages as u32,
            rows: self.rows as u32,
            relations: self.relations,
            kinds: kinds.to_vec(),
            scale,
        }
    }
}

/// Gives the number of units of scale that make a database of `bytes` bytes, from the bytes of one:
/// at least one.
pub fn units_of(bytes: u64, of_one: u64) -> u64 {
    ((bytes + of_one / 2) / of_one).max(1)
}

/// Gives new rows their places: each client fills a page of its own, as PostgreSQL's backends do,
/// and then takes the next one of the table. Behind the last page comes the first again.
#[derive(Clone, Debug)]
pub struct Appender {
    heap: Heap,
    next_page: u32,
    /// For each client its page and the rows used of it.
    pages: Vec<(u32, u32)>,
}

impl Appender {
    /// Behind the first `used` rows.
    pub fn new(heap: Heap, used: u32, clients: u32) -> Self {
        let full = (0, heap.per_page);
        let next_page = used.div_ceil(heap.per_page) % heap.pages;
        Self { heap, next_page, pages: vec![full; clients as usize] }
    }

    /// The first of `count` rows side by side on one page. What a page has left is not used if they
    /// do not fit.
    #[inline]
    pub fn place(&mut self, client: u32, count: u32) -> u32 {
        let (page, used) = &mut self.pages[client as usize];
        if *used + count > self.heap.per_page {
            (*page, *used) = (self.next_page, 0);
            self.next_page = (self.next_page + 1) % self.heap.pages;
        }
        let row = *page * self.heap.per_page + *used;
        *used += count;
        row
    }
}
