//! A pass over all pages in slots in idle time: each is read and compared with its checksum, before
//! anybody needs it.

use units::{IoOp, Nanos};

use super::flusher::TRIES;
use super::layer::{Sent, StableBuffer};
use super::table::NONE;
use crate::scrub::{Pace, Unread};
use crate::{Actions, Data, Failure, ScrubState};

/// Pages that are still to be read, each with the number of the try; the last comes next.
#[derive(Debug, Default)]
pub struct Scrub {
    pages: Vec<(u64, u32)>,
    reads: u32,
    is_given_up: bool,
    unread: Unread,
    pace: Pace,
}

impl Scrub {
    /// Gives the pages that the last pass could not read.
    pub fn unread(&self) -> impl Iterator<Item = u64> {
        self.unread.pages()
    }
}

impl StableBuffer {
    pub(super) fn begin_scrub(&mut self, now: Nanos, actions: &mut Actions) {
        if self.poison.is_some() {
            return;
        }
        self.scrub.unread = Unread::default();
        self.scrub.pace.waits(now);
        let in_slots = self.table.pages().filter(|page| page.slot != NONE);
        let mut pages: Vec<(u64, u32)> = in_slots.map(|page| (page.number, 1)).collect();
        pages.sort_unstable_by(|one, other| other.cmp(one));
        self.scrub.pages = pages;
        self.scrub.is_given_up = false;
        self.scrub_on(actions);
    }

    pub(super) fn give_up_scrub(&mut self) {
        self.scrub.pages.clear();
        self.scrub.is_given_up = true;
    }

    /// Sends reads of a pass, as long as there is nothing else to do.
    pub(super) fn scrub_on(&mut self, actions: &mut Actions) {
        while self.is_quiet() && self.read_of_scrub(actions) {}
    }

    /// Gives the time when a pass goes on though the host leaves no time for it.
    pub(super) fn scrub_wakes_at(&self) -> Option<Nanos> {
        let waits = self.scrub.reads == 0 && !self.scrub.pages.is_empty() && self.poison.is_none();
        waits.then(|| self.scrub.pace.next())
    }

    /// Sends one read of a pass, whatever else is under way, if its time has come.
    pub(super) fn scrub_at(&mut self, now: Nanos, actions: &mut Actions) {
        if self.scrub_wakes_at().is_some_and(|at| at <= now) {
            match self.read_of_scrub(actions) {
                true => self.scrub.pace.read(now, self.page_bytes()),
                false => self.scrub.pace.waits(now),
            }
        }
    }

    /// Sends a read of a pass; returns true if there was one.
    fn read_of_scrub(&mut self, actions: &mut Actions) -> bool {
        while let Some((number, tries)) = self.scrub.pages.pop() {
            let Some(page) = self.table.find(number) else { continue };
            let page = self.table.page(page);
            // A slot that is being written does not hold its page yet, and one that is being
            // flushed is read anyway.
            if page.slot == NONE || !page.is_candidate {
                continue;
            }
            let slot = page.slot;
            self.scrub.reads += 1;
            self.table.read_begins(slot);
            let range = self.superblock.geometry.slot_range(slot);
            let sent = Sent::Scrub { number, slot, tries };
            self.send(sent, IoOp::Read, range, actions);
            return true;
        }
        false
    }

    /// Gives the progress of a pass.
    pub(super) fn scrub_state(&self) -> ScrubState {
        ScrubState {
            pages_left: self.scrub.pages.len() as u64 + u64::from(self.scrub.reads),
            pages_read: self.counts.scrubbed_pages,
            page_bytes: self.settings.page_bytes,
            bad_pages: u64::from(self.checks.bad()),
            unread_pages: self.scrub.unread.count(),
        }
    }

    /// Handles a page of a pass that was read, or could not be.
    pub(super) fn scrubbed(
        &mut self,
        (number, slot, tries): (u64, u32, u32),
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        self.scrub.reads -= 1;
        let is_read = outcome.is_ok();
        let is_good = outcome.and_then(|read| self.fitting(slot, &read)).is_ok();
        let page = self.table.find(number).filter(|&page| self.table.page(page).slot == slot);
        match page {
            // It was written or flushed meanwhile.
            None => {}
            // One failed read is not enough to take it for bad.
            Some(_) if !is_good && self.scrub.is_given_up => {}
            Some(_) if !is_good && tries < TRIES => self.scrub.pages.push((number, tries + 1)),
            // A device that cannot be reached for a while must not cost the pages that it still
            // holds.
            Some(_) if !is_read => self.scrub.unread.add(number),
            Some(page) => {
                self.counts.scrubbed_pages += 1;
                let entry = self.table.page_mut(page);
                // A page that is being flushed is read and judged by the flush.
                if !is_good && entry.is_candidate {
                    entry.is_candidate = false;
                    self.candidates -= 1;
                    self.recognition.remove(number);
                    self.is_bad_now(slot, true, actions);
                }
            }
        }
        self.table.read_ends(slot);
    }
}
