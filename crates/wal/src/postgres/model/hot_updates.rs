//! HotUpdates of a load that goes on for longer than it was recorded: rows stay in their pages.

use rustc_hash::FxHashSet;

use super::super::log::{Record, heap, rmgr};

/// Tells which updates of another pass through the log stay in their page.
///
/// Pages of a table that was just filled are full, so the new version of a row goes into another
/// page, and into every index. It leaves room: once the old version is pruned, the next new version
/// of a row of that page stays there, and no index is changed (heap-only tuples, README.HOT of
/// PostgreSQL). The recording shows the first only, if it is too short for pages to be updated
/// twice. Where most updates that found room changed an index all the same, they go on doing so:
/// they are of indexed columns. A record that stays keeps its length, which is some 80 bytes too
/// much; indexes other than B-trees are written as before.
pub(super) struct HotUpdates {
    /// By page: a row has left it, or was updated within it. Empty if there is one pass alone.
    has_room: Vec<bool>,
    /// By fork: updates that found room and changed no index, and those that changed one.
    found_room: Vec<[u32; 2]>,
    /// Transactions whose last record of a table is an update that stays in its page.
    hot: FxHashSet<u32>,
}

impl HotUpdates {
    /// For so many pages and forks; no pages if there is one pass alone.
    pub fn new(pages: u32, forks: usize) -> Self {
        Self {
            has_room: vec![false; pages as usize],
            found_room: vec![[0; 2]; forks],
            hot: FxHashSet::default(),
        }
    }

    /// Begins another pass.
    pub fn again(&mut self) {
        self.hot.clear();
    }

    /// Takes a record, and puts an update that stays into its page; false if the record is one of
    /// an index that is not changed then. `pages`: number and fork of each block's page.
    pub fn take(
        &mut self,
        record: &Record<'_>,
        pages: &mut [(u32, usize)],
        is_again: bool,
    ) -> bool {
        if self.has_room.is_empty() {
            return true;
        }
        let transaction = record.transaction();
        match record.rmgr {
            // Until the next record of a table all of its indexes are of that update.
            rmgr::BTREE => return !self.hot.contains(&transaction),
            rmgr::HEAP => {
                self.hot.remove(&transaction);
                self.take_of_table(record, pages, is_again);
            }
            rmgr::HEAP2 if heap::operation(record.info) == heap::MULTI_INSERT => {
                self.hot.remove(&transaction);
            }
            rmgr::XACT => {
                self.hot.remove(&transaction);
            }
            _ => {}
        }
        true
    }

    fn take_of_table(&mut self, record: &Record<'_>, pages: &mut [(u32, usize)], is_again: bool) {
        match (heap::operation(record.info), pages) {
            (heap::HOT_UPDATE, [(page, fork), ..]) => {
                self.has_room[*page as usize] = true;
                self.found_room[*fork][0] += 1;
            }
            (heap::UPDATE, [(_, fork)]) => self.found_room[*fork][1] += 1,
            (heap::UPDATE, [new, old]) => {
                let has_room = &mut self.has_room[old.0 as usize];
                // A block that is made new would take the old page for a new one.
                if is_again && *has_room && !record.blocks[0].will_init() {
                    *new = *old;
                    let [without, with] = self.found_room[old.1];
                    if with <= without {
                        self.hot.insert(record.transaction());
                    }
                }
                *has_room = true;
            }
            _ => {}
        }
    }
}
