//! Counts what the scheduler does.

use crate::counter::counters;

counters! {
    sum taken_writes: "writes that were deferred";
    sum taken_bytes: "bytes of them";
    sum coalesced_bytes: "bytes that were overwritten within their window and never written below";
    sum void_bytes:
        "bytes that were not written below because a write with FUA or a trim came past them";
    sum fua_writes: "writes with FUA, which are not deferred";
    sum written_commands: "writes of batches that were sent below";
    sum written_bytes: "bytes of them";
    sum batches_checkpoint: "windows that a checkpoint closed";
    sum batches_flush: "windows that a FLUSH closed";
    sum batches_buffer: "windows that the limit of bytes closed";
    sum batches_flush_time: "windows that the limit of time closed";
    sum batches_drain: "windows that were closed because all was to be written out";
    sum batches_age: "windows that the age of their oldest write closed";
    sum waits: "writes that waited for room";
    sum memory_reads: "reads of which at least a part came from memory";
    sum memory_read_bytes: "bytes that were read from memory";
    sum batch_estimated_ns:
        "estimated time of writing out the batches that have ended; 0 where nothing is known of \
         the device";
    sum batch_ns: "real time of the same";
    level held_bytes: "bytes in memory now";
    level held_bytes_most: "most bytes that were in memory at any time";
}

/// Why a window closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Checkpoint,
    Flush,
    Buffer,
    FlushTime,
    Drain,
    Age,
}

impl Counts {
    /// Adds a window that was closed.
    pub fn closed(&mut self, reason: Reason) {
        *match reason {
            Reason::Checkpoint => &mut self.batches_checkpoint,
            Reason::Flush => &mut self.batches_flush,
            Reason::Buffer => &mut self.batches_buffer,
            Reason::FlushTime => &mut self.batches_flush_time,
            Reason::Drain => &mut self.batches_drain,
            Reason::Age => &mut self.batches_age,
        } += 1;
    }
}
