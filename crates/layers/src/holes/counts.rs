//! Counts what the layer does.

use crate::counter::counters;

counters! {
    level hole_pages: "pages that read as zeros, as they were trimmed";
    sum trimmed_pages: "pages that became holes";
    sum written_holes: "holes that were written to, and are none any more";
    sum filled_holes: "of them, those that were written in part, and filled up";
    sum block_writes: "blocks of the map that were written, each copy counted";
    sum device_flushes: "flushes of the layer's own";
    sum passed_trims: "trims that went below";
    sum failed_trims: "of them, those that failed, on which nothing depends";
    sum bad_blocks: "copies of blocks of the map that were damaged, or not written";
    sum held_commands: "writes and trims that waited for others of the same pages";
}
