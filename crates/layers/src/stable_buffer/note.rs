//! The end of a drain: a note in the superblocks that no slot is needed any more.

use units::{IoOp, Lifetime};

use super::layer::{Sent, StableBuffer};
use crate::{Actions, Data};

impl StableBuffer {
    /// All was flushed. Before it comes to rest it notes that no slot is needed, so that recovery
    /// takes none of them: one that rots meanwhile would be taken for torn, and an older one of its
    /// page for the newest.
    pub(super) fn come_to_rest(&mut self, actions: &mut Actions) {
        if self.checks.bad() > 0 || self.sequence <= self.superblock.void_below.max(1) {
            self.is_draining = false;
            return;
        }
        self.superblock.void_below = self.sequence;
        let sector = u64::from(self.superblock.geometry.sector_bytes);
        let last = self.below.capacity_bytes / sector * sector - sector;
        for offset in [self.superblock.geometry.area_offset, last] {
            let data = if self.is_absent {
                Data::Absent
            } else {
                Data::Whole(self.superblock.to_sector().into())
            };
            let (range, written) = ((offset, offset + sector), (Lifetime::NotSet, data));
            self.send_write(Sent::Note, range, false, written, actions);
        }
    }

    pub(super) fn note_ended(&mut self, actions: &mut Actions) {
        if self.poison.is_none() && !self.sent.iter().any(|(_, sent)| matches!(sent, Sent::Note)) {
            self.counts.flushes += 1;
            self.send(Sent::NoteFlush, IoOp::Flush, (0, 0), actions);
        }
    }
}
