//! What the layer writes for recovery alone: notes in the superblocks, that no slot is needed any
//! more and that slots are used again, and marks in slots whose pages are bad.

use units::{IoOp, Lifetime};

use super::disk::Superblock;
use super::layer::{Sent, StableBuffer};
use crate::{Actions, Data, Failure};

/// Notes that are under way.
#[derive(Debug, Default)]
pub struct Notes {
    /// Writes of superblocks that have not ended.
    writes: u32,
    /// The first failure of one that is needed.
    failure: Option<Failure>,
    /// They say that slots are used again.
    opens: bool,
    /// A mark was written since the last flush.
    has_marks: bool,
    /// The superblock that was not sound when the buffer was opened, and could not be written:
    /// whether it is the last sector. The other has to do.
    pub lost: Option<bool>,
}

impl StableBuffer {
    /// All was flushed. Before it comes to rest it notes that no slot is needed, so that recovery
    /// takes none of them, nor looks at them: one that rots meanwhile would be taken for torn, and
    /// an older one of its page for the newest.
    pub(super) fn come_to_rest(&mut self, actions: &mut Actions) {
        if std::mem::take(&mut self.notes.has_marks) {
            self.flush_notes(actions);
        } else if self.superblock.is_closed || self.checks.bad() > 0 {
            self.is_draining = false;
        } else {
            // Each note is of a time of its own.
            self.sequence = self.sequence.max(self.superblock.void_below + 1);
            self.superblock.void_below = self.sequence;
            self.superblock.is_closed = true;
            self.write_notes(self.superblock, false, actions);
        }
    }

    /// Before a slot is written again, the superblocks say durably that slots are in use: as long
    /// as that is under way, writes wait.
    pub(super) fn begin_opening(&mut self, actions: &mut Actions) {
        if !self.pending.is_empty() && self.notes.writes == 0 {
            self.write_notes(Superblock { is_closed: false, ..self.superblock }, true, actions);
        }
    }

    fn write_notes(&mut self, superblock: Superblock, opens: bool, actions: &mut Actions) {
        (self.notes.writes, self.notes.failure, self.notes.opens) = (2, None, opens);
        let sector = u64::from(superblock.geometry.sector_bytes);
        let last = self.below.capacity_bytes / sector * sector - sector;
        for (offset, is_last) in [(superblock.geometry.area_offset, false), (last, true)] {
            let data = match self.is_absent {
                true => Data::Absent,
                false => Data::Whole(superblock.to_sector().into()),
            };
            let (range, written) = ((offset, offset + sector), (Lifetime::NotSet, data));
            self.send_write(Sent::Note { is_last }, range, opens, written, actions);
        }
    }

    pub(super) fn note_ended(
        &mut self,
        is_last: bool,
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        self.notes.writes -= 1;
        if let Err(failure) = outcome
            && self.notes.lost != Some(is_last)
        {
            self.notes.failure.get_or_insert(failure);
        }
        if self.notes.writes > 0 || self.poison.is_some() {
            return;
        }
        match self.notes.failure.take() {
            // If they failed, recovery finds the slots and flushes them again.
            _ if !self.notes.opens => self.flush_notes(actions),
            // One that still says that no slot is needed must not be all that is left.
            Some(failure) => self.poison(&failure, actions),
            None => self.superblock.is_closed = false,
        }
    }

    fn flush_notes(&mut self, actions: &mut Actions) {
        self.counts.flushes += 1;
        self.send(Sent::NoteFlush, IoOp::Flush, (0, 0), actions);
    }

    /// Says in a slot that its page is bad.
    pub(super) fn mark_bad(&mut self, slot: u32, actions: &mut Actions) {
        let header =
            self.superblock.header(slot, self.table.number_in(slot), self.checks.sequence(slot));
        let geometry = self.superblock.geometry;
        let places = geometry.header_sectors(slot);
        for (at, sector) in places.into_iter().zip(geometry.mark_sectors(&header)) {
            // It is not written with another page meanwhile.
            self.table.read_begins(slot);
            let range = (at, at + u64::from(geometry.sector_bytes));
            let written = (Lifetime::NotSet, Data::Whole(sector.into()));
            self.send_write(Sent::Mark { slot }, range, false, written, actions);
        }
        self.notes.has_marks = true;
    }

    pub(super) fn mark_ended(
        &mut self,
        slot: u32,
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        self.table.read_ends(slot);
        if let Err(failure) = outcome {
            self.poison(&failure, actions);
        }
    }
}
