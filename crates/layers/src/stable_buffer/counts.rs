//! What the layer counts.

use crate::Counter;

const fn sum(name: &'static str, help: &'static str) -> Counter {
    Counter { name, help, is_level: false }
}

/// All counters, in the order of [`Counts::list`].
pub const COUNTERS: &[Counter] = &[
    sum("host_write_pages", "pages of the host's writes, parts of pages counted as one"),
    sum("buffered_pages", "pages written to slots"),
    sum("past_pages", "pages of sequential runs that were written past the buffer"),
    sum("rewritten_pages", "pages written to slots while an older version of them was in the buffer"),
    sum("completed_pages", "pages of which a part was written, and the rest read"),
    sum("slot_read_pages", "pages of the host's reads that were read from slots"),
    sum("sequential_flushes", "instances of sequential writes that were flushed"),
    sum("sequential_pages", "their pages"),
    sum("partitioned_flushes", "instances of partitioned writes that were flushed"),
    sum("partitioned_pages", "their pages"),
    sum("focused_flushes", "instances of focused writes that were flushed"),
    sum("focused_pages", "their pages"),
    sum("outdated_pages", "pages that were flushed and newer in the buffer by then"),
    sum("slot_waits", "writes of a page that waited for a free slot"),
    sum("device_flushes", "flushes sent below"),
    sum("kept_trim_pages", "pages of trims that were in the buffer: trimmed after they were flushed"),
    Counter { name: "used_slots", help: "slots in use", is_level: true },
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
}

impl Counts {
    /// In the order of [`COUNTERS`].
    pub fn list(&self, used_slots: u32, into: &mut Vec<u64>) {
        let begin = into.len();
        into.extend([self.host_write_pages, self.buffered_pages, self.past_pages, self.rewritten_pages]);
        into.extend([self.completed_pages, self.slot_read_pages]);
        into.extend(self.flushed.iter().flat_map(|&(instances, pages)| [instances, pages]));
        into.extend([self.outdated_pages, self.slot_waits, self.flushes, self.kept_trim_pages, u64::from(used_slots)]);
        debug_assert_eq!(into.len() - begin, COUNTERS.len());
    }
}
