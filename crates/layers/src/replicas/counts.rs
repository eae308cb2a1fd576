//! What the layer counts.

use crate::Counter;

/// All counters, in the order of [`Counts::list`] and of the levels behind it.
pub const COUNTERS: &[Counter] = &[
    Counter::sum("rread_1", "pages read that one place was asked for (RRead, one I/O)"),
    Counter::sum("rread_2", "pages read that two places were asked for"),
    Counter::sum("rread_3", "pages read that three places or more were asked for"),
    Counter::sum("rwrite_1", "pages written to one place when the write ended (RWrite, one I/O)"),
    Counter::sum("rwrite_2", "pages written to two places"),
    Counter::sum("rwrite_3", "pages written to three places or more"),
    Counter::sum(
        "home_only_pages",
        "pages that were written at home alone: with FUA, in part, or by a long command",
    ),
    Counter::sum("blocked_reads", "reads below that were not answered within the patience"),
    Counter::sum("blocked_writes", "writes below that were not answered within the patience"),
    Counter::sum("extra_writes", "pages written to replicas: what is written beyond the host"),
    Counter::sum("read_replicas", "of them, those that a blocked read made"),
    Counter::sum("vain_reads", "reads below that came after another place had answered"),
    Counter::sum("given_up", "replicas that were wanted and not made: no room, or too much behind"),
    Counter::sum("invalidated", "replicas that an update or a trim made void"),
    Counter::sum("evicted", "replicas that gave up their place to others"),
    Counter::sum("failed_replicas", "replicas that could not be written or read"),
    Counter::sum("failed_homes", "pages that could not be written at home"),
    Counter::sum("held_writes", "writes that waited for a trim"),
    Counter::level("replicas", "replicas that are kept or being written"),
    Counter::level("replicated_pages", "pages that have any"),
    Counter::level("behind_pages", "pages that are acknowledged and not yet at home"),
    Counter::level("patience_ns", "time after which a command counts as blocked; 0: not known"),
    Counter::level("map_bytes", "memory of maps, queues and counters"),
];

/// Sums since the layer was opened.
#[derive(Debug, Default)]
pub struct Counts {
    /// Pages by the number of places: one, two, three or more.
    pub reads: [u64; 3],
    pub writes: [u64; 3],
    pub home_only_pages: u64,
    pub blocked_reads: u64,
    pub blocked_writes: u64,
    pub extra_writes: u64,
    pub read_replicas: u64,
    pub vain_reads: u64,
    pub given_up: u64,
    pub invalidated: u64,
    pub evicted: u64,
    pub failed_replicas: u64,
    pub failed_homes: u64,
    pub held_writes: u64,
}

impl Counts {
    /// Sums, in the order of [`COUNTERS`].
    pub fn list(&self, into: &mut Vec<u64>) {
        into.extend(self.reads);
        into.extend(self.writes);
        into.extend([
            self.home_only_pages,
            self.blocked_reads,
            self.blocked_writes,
            self.extra_writes,
            self.read_replicas,
            self.vain_reads,
            self.given_up,
            self.invalidated,
            self.evicted,
            self.failed_replicas,
            self.failed_homes,
            self.held_writes,
        ]);
    }
}
