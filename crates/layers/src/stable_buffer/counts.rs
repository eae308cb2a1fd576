//! What the layer counts.

use crate::{Counter, ScrubState};

/// All counters, in the order of [`Counts::list`].
pub const COUNTERS: &[Counter] = &[
    Counter::sum("host_write_pages", "pages of the host's writes, parts of pages counted as one"),
    Counter::sum("buffered_pages", "pages written to slots"),
    Counter::sum("past_pages", "pages of sequential runs that were written past the buffer"),
    Counter::sum(
        "rewritten_pages",
        "pages written to slots while an older version of them was in the buffer",
    ),
    Counter::sum("completed_pages", "pages of which a part was written, and the rest read"),
    Counter::sum("slot_read_pages", "pages of the host's reads that were read from slots"),
    Counter::sum("sequential_flushes", "instances of sequential writes that were flushed"),
    Counter::sum("sequential_pages", "their pages"),
    Counter::sum("partitioned_flushes", "instances of partitioned writes that were flushed"),
    Counter::sum("partitioned_pages", "their pages"),
    Counter::sum("focused_flushes", "instances of focused writes that were flushed"),
    Counter::sum("focused_pages", "their pages"),
    Counter::sum("outdated_pages", "pages that were flushed and newer in the buffer by then"),
    Counter::sum("slot_waits", "writes of a page that waited for a free slot"),
    Counter::sum("device_flushes", "flushes sent below"),
    Counter::sum(
        "kept_trim_pages",
        "pages of trims that were in the buffer: trimmed after they were flushed",
    ),
    Counter::level("used_slots", "slots in use"),
    Counter::sum("bad_reads", "pages that were read from slots and were not what was written"),
    Counter::level(
        "bad_pages",
        "pages in slots that cannot be flushed, as they are not what was written: reads of them \
         fail until they are written",
    ),
    Counter::sum("scrubbed_pages", "pages in slots that were read in passes over all of them"),
    Counter::level("scrub_pages_left", "pages in slots that a pass has still to look at"),
    Counter::level("unread_pages", "pages in slots that the last pass could not read"),
];

/// Sums since the layer was opened.
#[derive(Debug, Default)]
pub struct Counts {
    pub host_write_pages: u64,
    pub buffered_pages: u64,
    pub past_pages: u64,
    pub rewritten_pages: u64,
    pub completed_pages: u64,
    pub slot_read_pages: u64,
    /// Instances and pages by pattern.
    pub flushed: [(u64, u64); 3],
    pub outdated_pages: u64,
    pub slot_waits: u64,
    pub flushes: u64,
    pub kept_trim_pages: u64,
    pub bad_reads: u64,
    pub scrubbed_pages: u64,
}

impl Counts {
    /// In the order of [`COUNTERS`].
    pub fn list(&self, used_slots: u32, scrub: ScrubState, into: &mut Vec<u64>) {
        let begin = into.len();
        into.extend([
            self.host_write_pages,
            self.buffered_pages,
            self.past_pages,
            self.rewritten_pages,
        ]);
        into.extend([self.completed_pages, self.slot_read_pages]);
        into.extend(self.flushed.iter().flat_map(|&(instances, pages)| [instances, pages]));
        into.extend([
            self.outdated_pages,
            self.slot_waits,
            self.flushes,
            self.kept_trim_pages,
            u64::from(used_slots),
            self.bad_reads,
            scrub.bad_pages,
            self.scrubbed_pages,
            scrub.pages_left,
            scrub.unread_pages,
        ]);
        debug_assert_eq!(into.len() - begin, COUNTERS.len());
    }
}
