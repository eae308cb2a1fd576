//! Figures of the copies of pages.

use crate::drive::counters::counters;
use crate::drive::time::Picos;

counters! {
    /// Counters of requests and copies.
    pub struct ReplicationCounts {
        /// Reads of pages on flash that asked one die (RRead).
        reads_of_one,
        /// Reads that asked two dies: the first was blocked.
        reads_of_two,
        /// Reads that asked three or more dies.
        reads_of_more,
        /// Writes that asked one die (RWrite).
        writes_of_one,
        /// Writes that asked two dies, at once or in idle time.
        writes_of_two,
        /// Writes that asked three or more dies.
        writes_of_more,
        /// Reads that were blocked.
        blocked_reads,
        /// Blocked reads of pages with a copy that could be read.
        blocked_reads_with_copy,
        /// Writes that were blocked.
        blocked_writes,
        /// Reads of copies that were given to a die because another was blocked.
        extra_reads,
        /// Copies written because a write was blocked.
        copies_of_writes,
        /// Copies written because a read was blocked.
        copies_of_reads,
        /// Pages whose copies were dropped to make room.
        evicted_groups,
        /// Copies wanted but not written: the page was overwritten before its die had rested long
        /// enough.
        overtaken_copies,
        /// Copies wanted but not written: too many waited for the die, or it had no room.
        refused_copies,
    }
}

/// The state of the copies, and the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicationFigures {
    /// The counters.
    pub counts: ReplicationCounts,
    /// Number of copies that REPLICATION 4.2.1 predicts, E_p = W_p P_p + R_p P_p I(P_p > t) over
    /// all pages, with each page's blocking probability as known at each access.
    pub predicted_copies: f64,
    /// Number of pages with 2, 3, ... places, including their own.
    pub groups_by_size: Vec<u64>,
    /// Space for copies, in pages.
    pub budget_pages: u32,
    /// Number of its pages in use.
    pub used_pages: u64,
    /// Time of each die in which something waited while the die wrote or read copies.
    pub interference: Vec<Picos>,
    /// Memory of the replication map, in bytes.
    pub map_bytes: usize,
    /// Memory of the valid map, in bytes.
    pub valid_map_bytes: usize,
    /// Memory of the counters of blocked accesses, in bytes.
    pub counter_bytes: usize,
    /// Most data that waited in memory for a die to rest, in bytes.
    pub most_queued_bytes: u64,
}

impl ReplicationFigures {
    /// The increase since `before`; the state as it is now.
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
