//! Counts what the layer does.

use crate::counter::counters;

counters! {
    sum rread_1: "pages read that one place was asked for (RRead, one I/O)";
    sum rread_2: "pages read that two places were asked for";
    sum rread_3: "pages read that three places or more were asked for";
    sum rwrite_1: "pages written to one place when the write ended (RWrite, one I/O)";
    sum rwrite_2: "pages written to two places";
    sum rwrite_3: "pages written to three places or more";
    sum home_only_pages:
        "pages that were written at home alone: with FUA, in part, or by a long command";
    sum blocked_reads: "reads below that were not answered within the patience";
    sum blocked_writes: "writes below that were not answered within the patience";
    sum extra_writes: "pages written to replicas: what is written beyond the host";
    sum read_replicas: "of them, those that a blocked read made";
    sum vain_reads: "reads below that came after another place had answered";
    sum given_up: "replicas that were wanted and not made: no room, or too much behind";
    sum invalidated: "replicas that an update or a trim made void";
    sum evicted: "replicas that gave up their place to others";
    sum failed_replicas: "replicas that could not be written or read";
    sum failed_homes: "pages that could not be written at home";
    sum held_writes: "writes that waited for a trim";
    sum interference_ns: "time in which replicas were written and others waited: from the first request that came";
    level waiting_replicas: "replicas that wait until their partition has rested";
    level replicas: "replicas that are kept or being written";
    level replicated_pages: "pages that have any";
    level behind_pages: "pages that are acknowledged and not yet at home";
    level read_patience_ns:
        "time after which a read counts as blocked, at the most commands seen; 0: not known";
    level write_patience_ns: "the same of a write";
    level known_pages: "pages that were accessed 20 times or more, at home";
    level often_blocked_pages: "of them, pages of which more than 5 % of the accesses were blocked";
    level map_bytes: "memory of maps, queues and counters";
}

impl Counts {
    /// Adds pages that were read, for which one place was asked, two, or three or more.
    pub fn read(&mut self, places: usize, pages: u64) {
        *[&mut self.rread_1, &mut self.rread_2, &mut self.rread_3][places.clamp(1, 3) - 1] += pages;
    }

    /// Adds a page that was at one place when its write ended, at two, or at three or more.
    pub fn wrote(&mut self, places: usize) {
        *[&mut self.rwrite_1, &mut self.rwrite_2, &mut self.rwrite_3][places.clamp(1, 3) - 1] += 1;
    }
}
