//! Updates of a load that goes on for longer than it was recorded: rows stay in their pages.

use super::super::log::{Record, btree, heap, rmgr};

/// Tells which updates of another pass through the log stay in their page.
///
/// Pages of a table that was just filled are full, so the new version of a row goes into another
/// page, and into every index. It leaves room: once the old version is pruned, the next new version
/// of a row of that page stays there, and no index is changed (heap-only tuples, README.HOT of
/// PostgreSQL). The recording shows the first only, if it is too short for pages to be updated
/// twice.
pub(super) struct Updates {
    /// By page: a row has left it, or was updated within it. Empty if there is one pass alone.
    has_room: Vec<bool>,
    /// Transactions whose last update stays in its page.
    staying: Vec<u32>,
}

impl Updates {
    /// For so many pages; none if there is one pass alone.
    pub fn new(pages: u32) -> Self {
        Self { has_room: vec![false; pages as usize], staying: Vec::new() }
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
            rmgr::HEAP => {
                self.staying.retain(|one| *one != transaction);
                match (heap::operation(record.info), pages) {
                    (heap::HOT_UPDATE, [(page, _), ..]) => self.has_room[*page as usize] = true,
                    // A new page has no row of before.
                    (heap::UPDATE, [new, old]) if !record.blocks[0].will_init() => {
                        let has_room = &mut self.has_room[old.0 as usize];
                        if is_again && *has_room {
                            *new = *old;
                            self.staying.push(transaction);
                        }
                        *has_room = true;
                    }
                    _ => {}
                }
            }
            rmgr::XACT => self.staying.retain(|one| *one != transaction),
            rmgr::BTREE => {
                return record.kind() != btree::INSERT_LEAF || !self.staying.contains(&transaction);
            }
            _ => {}
        }
        true
    }
}
