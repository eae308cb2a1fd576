//! What the layer counts.

use super::intent::Intent;
use crate::{Counter, ScrubState};

/// All counters, in the order of [`Counts::list`].
pub const COUNTERS: &[Counter] = &[
    Counter::sum("host_read_pages", "pages of the host's reads, parts of pages counted as one"),
    Counter::sum("host_write_pages", "pages of the host's writes, parts of pages counted as one"),
    Counter::sum("completed_pages", "pages of which a part was written, and the rest read"),
    Counter::sum("mark_writes", "sectors of marks that were written"),
    Counter::sum("block_writes", "blocks of checksums that were written"),
    Counter::sum("device_flushes", "flushes of the layer's own"),
    Counter::level("marked_regions", "regions that are marked, as pages of them were written"),
    Counter::level(
        "unsure_regions",
        "regions that were marked when the layer was opened, or when a flush failed, and whose \
         pages were not all read since: they are given as they are",
    ),
    Counter::sum("settled_pages", "pages of such regions that differed, and got new checksums"),
    Counter::sum("bad_blocks", "blocks of checksums and sectors of marks that were damaged"),
    Counter::sum("bad_reads", "pages that were read and were not what was written"),
    Counter::level("bad_pages", "pages known to be so: reads of them fail until they are written"),
    Counter::sum("scrubbed_pages", "pages that were read in passes over all of them"),
    Counter::level("scrub_pages_left", "pages that a pass has still to look at"),
    Counter::level("unread_pages", "pages that the last pass could not read"),
];

/// Sums since the layer was opened.
#[derive(Debug, Default)]
pub struct Counts {
    pub host_read_pages: u64,
    pub host_write_pages: u64,
    pub completed_pages: u64,
    pub mark_writes: u64,
    pub block_writes: u64,
    pub flushes: u64,
    pub settled_pages: u64,
    pub bad_blocks: u64,
    pub bad_reads: u64,
    pub scrubbed_pages: u64,
}

impl Counts {
    /// In the order of [`COUNTERS`].
    pub fn list(&self, intent: &Intent, scrub: ScrubState, into: &mut Vec<u64>) {
        let begin = into.len();
        into.extend([self.host_read_pages, self.host_write_pages, self.completed_pages]);
        into.extend([self.mark_writes, self.block_writes, self.flushes]);
        into.extend([intent.marked(), intent.unsure(), self.settled_pages]);
        into.extend([self.bad_blocks, self.bad_reads, scrub.bad_pages]);
        into.extend([self.scrubbed_pages, scrub.pages_left, scrub.unread_pages]);
        debug_assert_eq!(into.len() - begin, COUNTERS.len());
    }
}
