//! Writes that only recovery needs: notes in the superblocks, that no slot is needed any more or
//! that slots are used again, and marks in slots whose pages are bad.

use units::{IoOp, Lifetime};

use super::disk::Superblock;
use super::layer::{Sent, StableBuffer};
use crate::{Actions, Data, Failure};

/// Notes under way.
#[derive(Debug, Default)]
pub struct Notes {
    /// Number of writes of superblocks that have not ended.
    writes: u32,
    /// First failure of one that is needed.
    failure: Option<Failure>,
    /// True if they tell that slots are used again.
    opens: bool,
    /// True if a mark was written since the last flush.
    has_marks: bool,
    /// Superblock that was damaged when the buffer was opened and could not be written: true if it
    /// is the last sector. The other one has to suffice.
    pub lost: Option<bool>,
}

impl StableBuffer {
    /// Comes to rest after all was flushed: notes that no slot is needed, so that recovery reads
    /// none. Otherwise a slot that rots meanwhile would be taken for torn, and an older one of its
    /// page for the newest.
    pub(super) fn come_to_rest(&mut self, actions: &mut Actions) {
        if std::mem::take(&mut self.notes.has_marks) {
            self.flush_notes(actions);
        } else if self.superblock.is_closed || self.checks.bad() > 0 {
            self.is_draining = false;
        } else {
            // Each note gets a new sequence number.
            self.sequence = self.sequence.max(self.superblock.void_below + 1);
            self.superblock.void_below = self.sequence;
            self.superblock.is_closed = true;
            self.write_notes(self.superblock, false, actions);
        }
    }

    /// Notes durably in the superblocks that slots are in use, before one is written again: writes
    /// wait until that has ended.
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
            // A superblock that still tells that no slot is needed must not be the only one left.
            Some(failure) => self.poison(&failure, actions),
            None => self.superblock.is_closed = false,
        }
    }

    fn flush_notes(&mut self, actions: &mut Actions) {
        self.counts.device_flushes += 1;
        self.send(Sent::NoteFlush, IoOp::Flush, (0, 0), actions);
    }

    /// Marks the page of a slot as bad.
    pub(super) fn mark_bad(&mut self, slot: u32, actions: &mut Actions) {
        let header =
            self.superblock.header(slot, self.table.number_in(slot), self.checks.sequence(slot));
        let geometry = self.superblock.geometry;
        let places = geometry.header_sectors(slot);
        for (at, sector) in places.into_iter().zip(geometry.mark_sectors(&header)) {
            // The slot is not written with another page meanwhile.
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
