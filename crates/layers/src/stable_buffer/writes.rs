//! A page's write on its way to a slot: it waits for a slot and for its page, the rest of the page is
//! read if only a part is written, and the whole goes to the slot.

use units::IoOp;

use super::layer::{PagePart, Sent, StableBuffer};
use super::settings::Ack;
use super::table::NONE;
use crate::{Actions, Data, Failure, ParentPart};

/// A piece that waits for its page.
#[derive(Debug)]
pub struct Waiting {
    pub piece: PagePart,
    next: u32,
}

impl StableBuffer {
    /// Lets the pieces that wait for a slot have one, in order, as long as there are any.
    pub(super) fn serve(&mut self, actions: &mut Actions) {
        if self.superblock.is_closed {
            self.begin_opening(actions);
            return;
        }
        while let Some(piece) = self.pending.pop_front() {
            let page = self.table.find(piece.page);
            if let Some(page) = page.filter(|&page| self.table.page(page).is_locked) {
                self.wait_for_page(piece, page);
                continue;
            }
            let Some(slot) = self.table.take() else {
                self.pending.push_front(piece);
                return;
            };
            self.begin_write(piece, slot, actions);
        }
    }

    fn wait_for_page(&mut self, piece: PagePart, page: u32) {
        let waiting = self.waiting.insert(Waiting { piece, next: NONE }) as u32;
        let page = self.table.page_mut(page);
        match std::mem::replace(&mut page.last_waiting, waiting) {
            NONE => page.first_waiting = waiting,
            last => self.waiting[last as usize].next = waiting,
        }
    }

    /// A page's write, or what else it was locked for, has ended: the next that waits for it goes
    /// on.
    pub(super) fn unlock(&mut self, page: u32) {
        let entry = self.table.page_mut(page);
        let first = entry.first_waiting;
        if first != NONE && self.poison.is_none() {
            let Waiting { piece, next } = self.waiting.remove(first as usize);
            entry.first_waiting = next;
            if next == NONE {
                entry.last_waiting = NONE;
            }
            self.pending.push_front(piece);
        }
        self.table.unlock(page);
    }

    /// A piece has a slot: the rest of its page is read, if there is one, and the whole written.
    fn begin_write(&mut self, piece: PagePart, slot: u32, actions: &mut Actions) {
        let page = self.table.find_or_add(piece.page);
        self.table.page_mut(page).is_locked = true;
        let from_slot = self.table.page(page).slot;
        if from_slot != NONE {
            self.counts.rewritten_pages += 1;
        }
        if u64::from(piece.length) == self.page_bytes() {
            self.write_slot(&piece, page, slot, actions);
            return;
        }
        self.counts.completed_pages += 1;
        if from_slot != NONE && self.checks.is_bad(from_slot) {
            let failure = self.bad_page(from_slot);
            self.fail_write(piece.part, page, slot, failure, actions);
            return;
        }
        let range = if from_slot == NONE {
            let offset = piece.page * self.page_bytes();
            (offset, offset + self.page_bytes())
        } else {
            self.table.read_begins(from_slot);
            self.superblock.geometry.slot_range(from_slot)
        };
        self.send(Sent::Base { piece, page, from_slot, slot }, IoOp::Read, range, actions);
    }

    /// The page of which a piece replaces a part was read.
    pub(super) fn base_ended(
        &mut self,
        base: (PagePart, u32, u32, u32),
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let (mut piece, page, from_slot, slot) = base;
        let mut outcome = self.poison.clone().map_or(outcome, Err);
        if from_slot != NONE {
            outcome = outcome.and_then(|data| self.fitting(from_slot, &data));
            self.table.read_ends(from_slot);
        }
        match outcome {
            Ok(whole) => {
                piece.data = whole.patched(piece.from as usize, &piece.data);
                self.write_slot(&piece, page, slot, actions);
            }
            Err(failure) => self.fail_write(piece.part, page, slot, failure, actions),
        }
    }

    /// A page is not written, as what it needs cannot be read.
    fn fail_write(
        &mut self,
        part: ParentPart,
        page: u32,
        slot: u32,
        failure: Failure,
        actions: &mut Actions,
    ) {
        self.table.give_back(slot);
        self.gather.ended(part, Err(failure), actions);
        self.unlock(page);
    }

    fn write_slot(&mut self, piece: &PagePart, page: u32, slot: u32, actions: &mut Actions) {
        let geometry = &self.superblock.geometry;
        let checksum = if piece.data.is_absent() { 0 } else { geometry.page_checksum(&piece.data) };
        self.checks.set(slot, checksum, self.sequence);
        let header = self.superblock.header(slot, piece.page, self.sequence);
        self.sequence += 1;
        self.table.sent(slot, page);
        let data = geometry.slot_data(&header, checksum, &piece.data);
        let range = geometry.slot_range(slot);
        if !self.settings.rereads {
            self.flusher.keep(slot, &piece.data);
        }
        self.counts.buffered_pages += 1;
        let is_fua =
            self.settings.ack == Ack::Fua || (self.settings.ack == Ack::Written && piece.is_fua);
        let lifetime = self.lifetimes.written(slot, piece.lifetime);
        let sent = Sent::Write { part: piece.part, page, slot, is_fua };
        self.send_write(sent, range, is_fua, (lifetime, data), actions);
    }

    pub(super) fn write_ended(
        &mut self,
        write: (ParentPart, u32, u32, bool),
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let (part, page, slot, is_fua) = write;
        if let Err(failure) = outcome {
            self.poison(&failure, actions);
        }
        if let Some(poison) = self.poison.clone() {
            self.gather.ended(part, Err(poison), actions);
            return;
        }
        self.checks.replaced(self.table.page(page).slot);
        self.table.written(slot);
        if is_fua {
            self.table.durable(slot);
        } else {
            self.volatile.push(slot);
        }
        self.acknowledge(part, is_fua, actions);
        self.page_came(page, actions);
        self.unlock(page);
    }
}
