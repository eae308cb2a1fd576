//! Counts what the layer does.

use super::patterns::Pattern;
use crate::counter::counters;

counters! {
    sum host_write_pages: "pages of the host's writes, parts of pages counted as one";
    sum buffered_pages: "pages written to slots";
    sum past_pages: "pages of sequential runs that were written past the buffer";
    sum rewritten_pages: "pages written to slots while an older version of them was in the buffer";
    sum completed_pages: "pages of which a part was written, and the rest read";
    sum slot_read_pages: "pages of the host's reads that were read from slots";
    sum sequential_flushes: "instances of sequential writes that were flushed";
    sum sequential_pages: "their pages";
    sum partitioned_flushes: "instances of partitioned writes that were flushed";
    sum partitioned_pages: "their pages";
    sum focused_flushes: "instances of focused writes that were flushed";
    sum focused_pages: "their pages";
    sum outdated_pages: "pages that were flushed and newer in the buffer by then";
    sum slot_waits: "writes of a page that waited for a free slot";
    sum device_flushes: "flushes sent below";
    sum kept_trim_pages: "pages of trims that were in the buffer: trimmed after they were flushed";
    level used_slots: "slots in use";
    sum bad_reads: "pages that were read from slots and were not what was written";
    level bad_pages:
        "pages in slots that cannot be flushed, as they are not what was written: reads of them \
         fail until they are written";
    sum scrubbed_pages: "pages in slots that were read in passes over all of them";
    level scrub_pages_left: "pages in slots that a pass has still to look at";
    level unread_pages: "pages in slots that the last pass could not read";
}

impl Counts {
    /// Adds an instance of a pattern that was flushed.
    pub fn flushed(&mut self, pattern: Pattern, pages: u64) {
        let (instances, of_pages) = match pattern {
            Pattern::Sequential => (&mut self.sequential_flushes, &mut self.sequential_pages),
            Pattern::Partitioned => (&mut self.partitioned_flushes, &mut self.partitioned_pages),
            Pattern::Focused => (&mut self.focused_flushes, &mut self.focused_pages),
        };
        *instances += 1;
        *of_pages += pages;
    }
}
