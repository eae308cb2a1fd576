//! What copies of pages came to.

use crate::drive::counters::counters;
use crate::drive::time::Picos;

counters! {
    /// What was done with copies of pages.
    pub struct ReplicationCounts {
        /// Reads of pages on flash that asked one die (RRead).
        reads_of_one,
        /// Reads that asked two: the first was blocked.
        reads_of_two,
        /// Reads that asked three or more.
        reads_of_more,
        /// Writes that asked one die (RWrite).
        writes_of_one,
        /// Writes that asked two, at once or in idle time.
        writes_of_two,
        /// Writes that asked three or more.
        writes_of_more,
        /// Reads that were blocked.
        blocked_reads,
        /// Of them, those whose page had a copy that could be read.
        blocked_reads_with_copy,
        /// Writes that were blocked.
        blocked_writes,
        /// Reads of copies that were given to a die because another was blocked.
        extra_reads,
        /// Copies written because a write was blocked.
        copies_of_writes,
        /// Copies written because a read was blocked.
        copies_of_reads,
        /// Pages whose copies were given up to make room.
        evicted_groups,
        /// Copies asked for and not written: the page was overwritten before its die had rested
        /// long enough.
        overtaken_copies,
        /// Copies asked for and not written: too many waited for the die, or it had no room.
        refused_copies,
    }
}

/// The state of the copies, and what was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicationFigures {
    /// Counts.
    pub counts: ReplicationCounts,
    /// Copies that REPLICATION 4.2.1 would have expected, E_p = W_p P_p + R_p P_p I(P_p > t) over
    /// all pages, with each page's blocking probability as it was known at each access.
    pub predicted_copies: f64,
    /// Pages with 2, 3, ... places, their own included.
    pub groups_by_size: Vec<u64>,
    /// Room for copies, in pages.
    pub budget_pages: u32,
    /// Pages of it in use.
    pub used_pages: u64,
    /// Of each die, time in which something waited while it wrote or read copies.
    pub interference: Vec<Picos>,
    /// Memory of the replication map, in bytes.
    pub map_bytes: usize,
    /// Of the valid map.
    pub valid_map_bytes: usize,
    /// Of the counters of blocked accesses.
    pub counter_bytes: usize,
    /// Most data that waited in memory for a die to rest, in bytes.
    pub most_queued_bytes: u64,
}

impl ReplicationFigures {
    /// What was counted since then; the state as it is now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let interference = self.interference.iter().zip(&before.interference);
        Self {
            counts: self.counts.since(&before.counts),
            predicted_copies: self.predicted_copies - before.predicted_copies,
            interference: interference.map(|(now, before)| now - before).collect(),
            ..self.clone()
        }
    }
}
