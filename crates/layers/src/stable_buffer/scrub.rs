//! A pass over all pages in slots while nothing else is to be done: each is read and held against
//! its checksum, before anybody needs it.

use units::IoOp;

use super::flusher::TRIES;
use super::layer::{Sent, StableBuffer};
use super::table::NONE;
use crate::{Actions, Data, Failure};

/// Pages that are still to be read, and the number of the try of each; the last comes next.
#[derive(Debug, Default)]
pub struct Scrub {
    pages: Vec<(u64, u32)>,
}

impl StableBuffer {
    pub(super) fn begin_scrub(&mut self, actions: &mut Actions) {
        let in_slots = self.table.pages().filter(|page| page.slot != NONE);
        let mut pages: Vec<(u64, u32)> = in_slots.map(|page| (page.number, 1)).collect();
        pages.sort_unstable_by(|one, other| other.cmp(one));
        self.scrub.pages = pages;
        self.scrub_on(actions);
    }

    pub(super) fn give_up_scrub(&mut self) {
        self.scrub.pages.clear();
    }

    /// Sends the next read of a pass, if nobody else wants anything.
    pub(super) fn scrub_on(&mut self, actions: &mut Actions) {
        while self.is_quiet()
            && let Some((number, tries)) = self.scrub.pages.pop()
        {
            let slot = self.table.find(number).map_or(NONE, |page| self.table.page(page).slot);
            if slot == NONE || self.checks.is_bad(slot) {
                continue;
            }
            self.table.read_begins(slot);
            let offset = self.superblock.geometry.page_offset(slot);
            let range = (offset, offset + self.page_bytes());
            let sent = Sent::Scrub { number, slot, tries };
            self.send(sent, IoOp::Read, range, false, Data::Absent, actions);
        }
    }

    /// A page of a pass was read, or could not be.
    pub(super) fn scrubbed(
        &mut self,
        (number, slot, tries): (u64, u32, u32),
        outcome: Result<Data, Failure>,
    ) {
        let is_good = outcome.and_then(|page| self.fitting(slot, page)).is_ok();
        let page = self.table.find(number).filter(|&page| self.table.page(page).slot == slot);
        match page {
            // It was written or flushed meanwhile.
            None => {}
            Some(_) if !is_good && tries < TRIES => self.scrub.pages.push((number, tries + 1)),
            Some(page) => {
                self.counts.scrubbed_pages += 1;
                let entry = self.table.page_mut(page);
                // What is being flushed is read for that, and judged then.
                if !is_good && entry.is_candidate {
                    entry.is_candidate = false;
                    self.candidates -= 1;
                    self.recognition.remove(number);
                    self.checks.is_bad_now(slot);
                }
            }
        }
        self.table.read_ends(slot);
    }
}
