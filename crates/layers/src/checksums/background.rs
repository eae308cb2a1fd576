//! Background passes, while there is nothing else to do: one over all pages, which checks each
//! against its checksum before anybody needs it; and one over the pages of unsure regions, which
//! makes their checksums agree with them.

use std::collections::VecDeque;
use std::ops::Range;

use units::{IoOp, Nanos};

use super::commands::TRIES;
use super::layer::Checksums;
use super::tasks::{Sent, Task, Whose};
use crate::hash::UNKNOWN;
use crate::scrub::{Pace, Unread};
use crate::{Actions, Command, Data, Failure, ScrubState};

/// Longest read, in bytes.
pub const READ_BYTES: u32 = 128 << 10;

/// Pages without a known checksum that are passed over in one call: reading the table alone takes
/// time.
const MOST_SKIPPED: u64 = 1 << 20;

/// State of both passes.
#[derive(Debug)]
pub struct Background {
    /// Next page of a pass over all pages; none if there is no pass.
    scrub: Option<u64>,
    /// Unsure regions, and the next page of the first of them.
    settle: VecDeque<u32>,
    at: u64,
    /// True if a page of that region could not be read or written: it stays unsure.
    has_failed: bool,
    /// Pages that could not be read with others: each alone, and the number of the try.
    again: VecDeque<(Whose, u64, u32)>,
    is_reading: bool,
    /// Number of the try of the read under way.
    tries: u32,
    /// True if nothing is done until the host writes again.
    is_resting: bool,
    /// True if it was asked to end once: then it never reads as fast as it can.
    is_slow: bool,
    unread: Unread,
    pace: Pace,
}

impl Background {
    pub fn new(unsure: impl Iterator<Item = u32>) -> Self {
        Self {
            scrub: None,
            settle: unsure.collect(),
            at: 0,
            has_failed: false,
            again: VecDeque::new(),
            is_reading: false,
            tries: 1,
            // Opening a stack does not wait for it.
            is_resting: true,
            is_slow: false,
            unread: Unread::default(),
            pace: Pace::default(),
        }
    }

    /// Begins a pass over all pages, and one over those of regions that are still unsure.
    pub fn begin(&mut self, unsure: Vec<u32>, now: Nanos) {
        self.scrub = Some(0);
        self.doubt(unsure);
        (self.is_resting, self.is_slow) = (false, false);
        self.unread = Unread::default();
        self.pace.waits(now);
    }

    /// Ends passes over all pages where they are, and reads nothing until the host writes.
    pub fn rest(&mut self) {
        self.scrub = None;
        self.again.retain(|(whose, ..)| *whose == Whose::Settle);
        (self.is_resting, self.is_slow) = (true, true);
    }

    /// Ends all passes for good.
    pub fn give_up(&mut self) {
        self.scrub = None;
        self.settle.clear();
        self.again.clear();
    }

    /// Notes that the host writes: the layer is not about to be closed.
    pub const fn goes_on(&mut self, now: Nanos) {
        if self.is_resting {
            self.is_resting = false;
            self.pace.waits(now);
        }
    }

    /// Makes these regions, and no others, unsure, whatever was read or written of them before.
    pub fn doubt(&mut self, regions: Vec<u32>) {
        (self.settle, self.at, self.has_failed) = (regions.into(), 0, false);
        self.again.retain(|(whose, ..)| *whose == Whose::Scrub);
    }

    /// Gives the pages that the last pass could not read.
    pub fn unread(&self) -> impl Iterator<Item = u64> {
        self.unread.pages()
    }

    fn has_work(&self) -> bool {
        let is_done = self.scrub.is_none() && self.settle.is_empty() && self.again.is_empty();
        !(self.is_resting || self.is_reading || is_done)
    }

    /// Gives the time when it goes on though the host leaves no time for it.
    pub fn wakes_at(&self) -> Option<Nanos> {
        self.has_work().then(|| self.pace.next())
    }
}

impl Checksums {
    /// Reads if the time for it has come, whatever else is under way.
    pub(super) fn background_wakes(&mut self, now: Nanos) {
        if self.background.wakes_at().is_some_and(|at| at <= now) {
            let bytes = self.add_background_read(now) * self.page_bytes();
            match bytes {
                0 => self.background.pace.waits(now),
                _ => self.background.pace.read(now, bytes),
            }
        }
    }

    /// Reads in idle time; returns true if there was something to read.
    pub(super) fn read_in_background(&mut self, now: Nanos) -> bool {
        let may_read = !self.background.is_slow && self.background.has_work();
        may_read && self.add_background_read(now) > 0
    }

    /// Adds the next read, if there is one; returns its number of pages.
    fn add_background_read(&mut self, now: Nanos) -> u64 {
        let alone = self.background.again.pop_front();
        self.background.tries = alone.map_or(1, |(_, _, tries)| tries);
        let next = alone
            .map(|(whose, page, _)| (whose, page..page + 1))
            .or_else(|| self.next_to_settle(now))
            .or_else(|| self.next_to_scrub());
        let Some((whose, pages)) = next else { return 0 };
        self.background.is_reading = true;
        let page = self.page_bytes();
        let count = pages.end - pages.start;
        let command = Command::new(0, IoOp::Read, pages.start * page, (count * page) as u32);
        self.add(Task::new(whose, command, &self.superblock.geometry));
        count
    }

    /// Gives the first run of pages side by side whose checksums are known, no longer than one
    /// read.
    fn known_run(&self, pages: Range<u64>) -> Option<Range<u64>> {
        let most = u64::from(READ_BYTES.min(self.below.most_bytes)) / self.page_bytes();
        let first = pages.clone().find(|&page| self.table.is_known(page))?;
        let is_known = |page: &u64| self.table.is_known(*page);
        let count = (first..pages.end).take(most.max(1) as usize).take_while(is_known).count();
        Some(first..first + count as u64)
    }

    fn next_to_settle(&mut self, now: Nanos) -> Option<(Whose, Range<u64>)> {
        while let Some(&region) = self.background.settle.front() {
            let pages = self.superblock.geometry.pages_of(region);
            let left = self.background.at.max(pages.start)..pages.end;
            if let Some(run) = self.known_run(left) {
                self.background.at = run.end;
                return Some((Whose::Settle, run));
            }
            if !self.background.has_failed {
                self.intent.is_sure_now(region, now);
            }
            self.background.settle.pop_front();
            (self.background.at, self.background.has_failed) = (0, false);
        }
        None
    }

    fn next_to_scrub(&mut self) -> Option<(Whose, Range<u64>)> {
        let begin = self.background.scrub?;
        while let Some(next) = self.background.scrub {
            if next == self.superblock.geometry.pages {
                self.background.scrub = None;
                break;
            }
            let region = self.region_of(next);
            let end = self.superblock.geometry.pages_of(region).end;
            let run = self.known_run(next..end).filter(|_| !self.intent.is_unsure(region));
            self.background.scrub = Some(run.as_ref().map_or(end, |run| run.end));
            if let Some(run) = run {
                return Some((Whose::Scrub, run));
            }
            if end - begin > MOST_SKIPPED {
                break;
            }
        }
        None
    }

    /// Settles pages of an unsure region that were read: those that differ are written once more,
    /// as they may still change on the device until they are; all of them are if a flush failed.
    /// Pages of zeros count as trimmed.
    pub(super) fn settle(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let size = self.page_bytes() as usize;
        let task = &mut self.tasks[key as usize];
        let data = std::mem::take(&mut task.parts).pop().unwrap_or_default();
        let first = task.pages.start;
        if let Some(poison) = &self.poison {
            task.fails(poison.clone());
            return self.finish(key, Data::Absent, now, actions);
        }
        let is_rewritten = self.intent.is_rewritten(self.region_of(first));
        let sums = std::mem::take(&mut self.tasks[key as usize].sums);
        let mut differ = Vec::new();
        for (place, (page, &sum)) in (first..).zip(&sums).enumerate() {
            let is_well = self.table.fits(page, sum) && !is_rewritten;
            if is_well || self.table.bad().contains(&page) {
                continue;
            }
            let bytes = data.slice(place * size..(place + 1) * size);
            if bytes.pieces().iter().all(|piece| piece.iter().all(|&byte| byte == 0)) {
                self.table.set(page, UNKNOWN);
            } else {
                differ.push(page);
            }
        }
        self.tasks[key as usize].sums = sums;
        for run in differ.chunk_by(|one, next| one + 1 == *next) {
            let place = (run[0] - first) as usize * size;
            let bytes = data.slice(place..place + run.len() * size);
            self.tasks[key as usize].waits += 1;
            let command = Command::write(0, run[0] * size as u64, bytes);
            let (page, count) = (run[0], run.len() as u64);
            self.send(Sent::Again { task: key, page, count }, command, actions);
        }
        if differ.is_empty() {
            self.finish(key, Data::Absent, now, actions);
        }
    }

    /// Notes that pages that differed were written once more.
    pub(super) fn written_again(
        &mut self,
        key: u32,
        (page, count): (u64, u64),
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let task = &mut self.tasks[key as usize];
        task.waits -= 1;
        match outcome {
            Ok(_) => {
                let place = (page - task.pages.start) as usize;
                for (page, &sum) in (page..page + count).zip(&task.sums[place..]) {
                    self.table.set(page, sum);
                }
                self.counts.settled_pages += count;
            }
            Err(failure) => task.fails(failure),
        }
        if task.waits == 0 {
            self.finish(key, Data::Absent, now, actions);
        }
    }

    /// Notes that pages of a pass were read, or could not be.
    pub(super) fn background_ended(&mut self, task: &Task) {
        self.background.is_reading = false;
        let Task { whose, pages, failure, sums, .. } = task;
        let (is_read, tries) = (!sums.is_empty(), self.background.tries);
        let is_alone = pages.end - pages.start == 1;
        // The tries of a pass that was ended meanwhile end, too.
        let goes_on = *whose == Whose::Settle || !self.background.is_resting;
        let mut is_given_up = failure.is_some();
        if !is_read && (tries < TRIES || !is_alone) && goes_on && self.poison.is_none() {
            let next = if is_alone { tries + 1 } else { 1 };
            self.background.again.extend(pages.clone().map(|page| (*whose, page, next)));
            is_given_up = false;
        } else if !is_read {
            // A device that cannot be reached for a while must not cost what it still holds.
            pages.clone().for_each(|page| self.background.unread.add(page));
        } else if *whose == Whose::Scrub {
            self.counts.scrubbed_pages += pages.end - pages.start;
        }
        let front = self.background.settle.front();
        if *whose == Whose::Settle && is_given_up && front == Some(&self.region_of(pages.start)) {
            self.background.has_failed = true;
        }
    }

    /// Gives the progress of a pass over all pages.
    pub(super) fn scrub_state(&self) -> ScrubState {
        let pages = self.superblock.geometry.pages;
        let is_read = self.background.scrub.is_some() && self.background.is_reading;
        let left = self.background.scrub.map_or(0, |next| pages - next);
        let again = self.background.again.iter().filter(|(whose, ..)| *whose == Whose::Scrub);
        ScrubState {
            pages_left: left + u64::from(is_read) + again.count() as u64,
            pages_read: self.counts.scrubbed_pages,
            page_bytes: self.superblock.geometry.page_bytes,
            bad_pages: self.table.bad().len() as u64,
            unread_pages: self.background.unread.count(),
        }
    }
}
