//! A pass over all mapped pages in idle time: each is read and compared with its checksum, before
//! anybody needs it.

use std::collections::VecDeque;

use placement::Placement;
use units::{IoOp, Lpn, Nanos};

use super::below::Op;
use super::checks::fits;
use super::cleaning::TRIES;
use super::volume::LogVolume;
use crate::scrub::{Pace, Unread, places};
use crate::{Actions, Data, Failure, ScrubState};

/// Reads under way.
const OUTSTANDING: u32 = 2;
/// Longest read of neighbouring pages, in bytes.
const READ_BYTES: u32 = 128 << 10;

/// State of a pass.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// Next logical page; none if there is no pass.
    next: Option<u32>,
    reads: u32,
    /// Pages that are to be read again, each alone: the page, its place, and the number of the try.
    again: VecDeque<(u32, u32, u32)>,
    /// Number of pages that are being read.
    reading: u32,
    is_given_up: bool,
    unread: Unread,
    pace: Pace,
}

impl Scrub {
    /// Begins a pass over all pages; one under way begins again.
    pub fn begin(&mut self, now: Nanos) {
        self.next = Some(0);
        self.is_given_up = false;
        self.unread = Unread::default();
        self.pace.waits(now);
    }

    /// Ends the pass: no more reads are sent.
    pub fn give_up(&mut self) {
        self.next = None;
        self.again.clear();
        self.is_given_up = true;
    }

    /// Gives the time when it goes on though the host leaves no time for it.
    pub fn wakes_at(&self) -> Option<Nanos> {
        let waits = self.reads == 0 && (self.next.is_some() || !self.again.is_empty());
        waits.then(|| self.pace.next())
    }
}

/// Pages of a pass that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScrubRead {
    lpn: u32,
    ppn: u32,
    pages: u32,
    tries: u32,
}

impl<P: Placement> LogVolume<P> {
    /// Sends reads of a pass as long as there is nothing else to do. Returns true if there were
    /// any.
    pub fn scrub_on(&mut self, actions: &mut Actions) -> bool {
        let mut went_on = false;
        while self.scrub.reads < OUTSTANDING
            && self.host.is_quiet()
            && self.host.reads.is_empty()
            && !self.commit.is_awaited()
            && self.read_of_scrub(actions).is_some()
        {
            went_on = true;
        }
        went_on
    }

    /// Sends one read of a pass, whatever else is under way, if its time has come.
    pub fn scrub_at(&mut self, now: Nanos, actions: &mut Actions) {
        if self.scrub.wakes_at().is_some_and(|at| at <= now) {
            match self.read_of_scrub(actions) {
                Some(bytes) => self.scrub.pace.read(now, u64::from(bytes)),
                None => self.scrub.pace.waits(now),
            }
        }
    }

    /// Sends a read, if there is one, and room in the log for what it may find; gives its bytes.
    fn read_of_scrub(&mut self, actions: &mut Actions) -> Option<u32> {
        if !self.can_log(2) {
            return None;
        }
        let read = self.next_to_scrub()?;
        self.scrub.reads += 1;
        self.scrub.reading += read.pages;
        // Each lost page takes an entry.
        self.log.promise(read.pages as usize);
        self.segments.pin(self.layout.segment_of(read.ppn));
        let (at, length) = (self.layout.page(read.ppn), read.pages * self.layout.page_bytes);
        self.below.send(Op::Scrub(read), IoOp::Read, at, length, actions);
        Some(length)
    }

    /// Gives the progress of a pass.
    pub fn scrub_state(&self) -> ScrubState {
        let pages = self.layout.logical_pages;
        let ahead = self.scrub.next.map_or(0, |next| pages - next);
        let again = self.scrub.again.len() as u64;
        ScrubState {
            pages_left: u64::from(ahead) + u64::from(self.scrub.reading) + again,
            pages_read: self.counts.scrubbed_pages,
            page_bytes: self.layout.page_bytes,
            bad_pages: self.checks.lost(),
            unread_pages: self.scrub.unread.count(),
        }
    }

    /// Gives the places that are lost, or could not be read.
    pub fn bad_places_of_scrub(&self, most: usize) -> Vec<(u64, u64)> {
        let page = u64::from(self.layout.page_bytes);
        let pages = self.checks.lost_pages().map(u64::from).chain(self.scrub.unread.pages());
        places(pages.map(|lpn| lpn * page).collect(), page, most)
    }

    fn next_to_scrub(&mut self) -> Option<ScrubRead> {
        while let Some((lpn, ppn, tries)) = self.scrub.again.pop_front() {
            if self.on_device(lpn) == Some(ppn) {
                return Some(ScrubRead { lpn, ppn, pages: 1, tries });
            }
        }
        let most = (READ_BYTES.min(self.below.limits().most_bytes) / self.layout.page_bytes).max(1);
        let mut next = self.scrub.next?;
        while next < self.layout.logical_pages {
            if let Some(ppn) = self.on_device(next) {
                let segment = self.layout.segment_of(ppn);
                let follows = |&pages: &u32| {
                    next + pages < self.layout.logical_pages
                        && self.layout.segment_of(ppn + pages) == segment
                        && self.on_device(next + pages) == Some(ppn + pages)
                        && self.can_log(pages as usize + 1)
                };
                let pages = 1 + (1..most).take_while(follows).count() as u32;
                let behind = next + pages;
                self.scrub.next = (behind < self.layout.logical_pages).then_some(behind);
                return Some(ScrubRead { lpn: next, ppn, pages, tries: 1 });
            }
            next += 1;
        }
        self.scrub.next = None;
        None
    }

    /// Gives the place of a page, if it is not in memory.
    fn on_device(&self, lpn: u32) -> Option<u32> {
        let ppn = self.ftl.lookup(Lpn(lpn))?.0;
        self.in_memory(ppn).is_none().then_some(ppn)
    }

    /// Takes pages of a pass that were read, or could not be. Those that were written or moved
    /// meanwhile do not matter any more.
    pub fn scrubbed(
        &mut self,
        read: ScrubRead,
        outcome: &Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let ScrubRead { lpn: first, ppn, pages, tries } = read;
        self.log.keep_promise(pages as usize);
        self.scrub.reads -= 1;
        self.scrub.reading -= pages;
        self.segments.unpin(self.layout.segment_of(ppn));
        let page = self.layout.page_bytes as usize;
        for number in 0..pages {
            let (lpn, ppn) = (first + number, ppn + number);
            if self.ftl.lookup(Lpn(lpn)).is_none_or(|now| now.0 != ppn) {
                continue;
            }
            let at = number as usize * page;
            let is_good = outcome.as_ref().is_ok_and(|data| {
                let expected = self.checks.of(lpn);
                fits(expected, self.folded_of(&data.slice(at..at + page), expected))
            });
            if is_good {
                self.counts.scrubbed_pages += 1;
                continue;
            }
            self.counts.bad_reads += u64::from(outcome.is_ok());
            if self.scrub.is_given_up {
                // One failed read is not enough to lose a page.
            } else if tries < TRIES {
                self.scrub.again.push_back((lpn, ppn, tries + 1));
            } else if outcome.is_ok() {
                self.counts.scrubbed_pages += 1;
                self.lose(Lpn(lpn), ppn, actions);
            } else {
                // A device that cannot be reached for a while must not cost the pages that it still
                // holds.
                self.scrub.unread.add(u64::from(lpn));
            }
        }
    }
}
