//! Counts what the volume does.

use crate::counter::counters;

counters! {
    sum host_pages: "pages written for the host";
    sum patched_pages: "of them, those of which the host wrote a part";
    sum relocated_pages: "pages moved by cleaning";
    sum padding_pages: "pages without data that filled aligned writes";
    sum summary_pages: "pages of summaries";
    sum checkpoint_pages: "pages of tables and roots";
    sum flushes: "flushes sent below";
    sum checkpoints: "checkpoints of the map";
    sum cleanings: "segments that cleaning emptied";
    sum trimmed_pages: "pages with data that the host trimmed";
    sum unmapped_reads: "pages read that hold nothing, without a read below";
    sum lost_pages: "pages written before the volume was opened, not flushed, and not found";
    level segments_free: "segments that can be written to";
    level segments_held: "segments that are being emptied, or are empty and not yet free";
    level gathered_pages: "pages that wait in memory for an aligned write";
    sum idle_cleanings: "of the cleanings, those begun while nothing was to be done";
    sum segment_trims: "freed segments that were trimmed below";
    sum failed_trims: "of them, those whose trim failed, on which nothing depends";
    sum bad_reads: "pages that were read and did not have their checksum";
    level bad_pages: "pages that are lost: reads of them fail until they are written or trimmed";
    sum scrubbed_pages: "pages that were read in passes over all of them";
    level scrub_pages_left: "pages that a pass has still to look at";
    level unread_pages: "pages that the last pass could not read";
    sum footer_pages: "pages at the ends of segments that say what lies in them, for a salvage";
    sum hinted_pages: "of the host's pages, those written with a hint of their lifetime";
}
