//! Counts what the layer does.

use crate::counter::counters;

counters! {
    sum host_read_pages: "pages of the host's reads, parts of pages counted as one";
    sum host_write_pages: "pages of the host's writes, parts of pages counted as one";
    sum completed_pages: "pages of which a part was written, and the rest read";
    sum mark_writes: "sectors of marks that were written";
    sum block_writes: "blocks of checksums that were written";
    sum device_flushes: "flushes of the layer's own";
    level marked_regions: "regions that are marked, as pages of them were written";
    level unsure_regions:
        "regions that were marked when the layer was opened, or when a flush failed, and whose \
         pages were not all read since: they are given as they are";
    sum settled_pages: "pages of such regions that differed, and got new checksums";
    sum bad_blocks: "blocks of checksums and sectors of marks that were damaged";
    sum bad_reads: "pages that were read and were not what was written";
    level bad_pages: "pages known to be so: reads of them fail until they are written";
    sum scrubbed_pages: "pages that were read in passes over all of them";
    level scrub_pages_left: "pages that a pass has still to look at";
    level unread_pages: "pages that the last pass could not read";
}
