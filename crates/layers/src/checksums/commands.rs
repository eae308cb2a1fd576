//! Reads that are held against their checksums, and writes that get new ones.

use units::{IoOp, Nanos};

use super::layer::Checksums;
use super::table::{WITHOUT_BYTES, sums_of};
use super::tasks::{Piece, Sent, Whose};
use crate::{Actions, Command, Data, Failure};

/// Reads of something before it is taken for bad.
pub const TRIES: u32 = 3;

impl Checksums {
    /// A task has its pages.
    pub(super) fn begin(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let task = &mut self.tasks[key as usize];
        if task.command.op != IoOp::Read
            && let Some(poison) = &self.poison
        {
            task.fails(poison.clone());
            return self.finish(key, Data::Absent, now, actions);
        }
        let pages = task.pages.clone();
        let touched = pages.end - pages.start;
        match (task.whose, task.command.op) {
            (Whose::Host, IoOp::Read) => self.counts.host_read_pages += touched,
            (Whose::Host, IoOp::Write) => self.counts.host_write_pages += touched,
            _ => {}
        }
        match task.command.op {
            IoOp::Read => {
                let most = u64::from(self.below.most_bytes) / self.page_bytes();
                self.tasks[key as usize].waits = touched.div_ceil(most) as u32;
                for (place, first) in pages.clone().step_by(most as usize).enumerate() {
                    let count = most.min(pages.end - first);
                    self.send_read(key, place as u32, (first, count, 1), actions);
                }
            }
            IoOp::Write => {
                let edges = task.edges(&self.superblock.geometry);
                task.waits = edges.len() as u32;
                self.counts.completed_pages += edges.len() as u64;
                for (place, &page) in edges.iter().enumerate() {
                    self.send_read(key, place as u32, (page, 1, 1), actions);
                }
                if edges.is_empty() {
                    self.assemble(key, now, actions);
                }
            }
            IoOp::Trim | IoOp::Flush => self.ask_marks(key, now, actions),
        }
    }

    fn send_read(
        &mut self,
        task: u32,
        place: u32,
        (first, pages, tries): (u64, u64, u32),
        actions: &mut Actions,
    ) {
        let page = self.page_bytes();
        let command = Command::new(0, IoOp::Read, first * page, (pages * page) as u32);
        self.send(Sent::Read { task, place, first, pages, tries }, command, actions);
    }

    /// Pages were read, or could not be.
    pub(super) fn read_ended(
        &mut self,
        key: u32,
        place: u32,
        (first, pages, tries): (u64, u64, u32),
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        match outcome {
            Ok(data) => {
                let sums = sums_of(&self.superblock, first, pages, &data);
                let is_settled = self.tasks[key as usize].whose == Whose::Settle;
                let is_bad = |&(page, sum): &(u64, u32)| {
                    !is_settled
                        && !self.table.fits(page, sum)
                        && (!self.intent.is_unsure(self.region_of(page))
                            || self.table.bad().contains(&page))
                };
                let bad: Vec<u64> = (first..)
                    .zip(sums.iter().copied())
                    .filter(is_bad)
                    .map(|(page, _)| page)
                    .collect();
                // Once is too little to take it for bad.
                if !bad.is_empty() && tries < TRIES {
                    return self.send_read(key, place, (first, pages, tries + 1), actions);
                }
                self.counts.bad_reads += bad.len() as u64;
                bad.iter().for_each(|&page| self.table.is_bad_now(page));
                let failure = bad.first().map(|&page| self.bad_page(key, page));
                let task = &mut self.tasks[key as usize];
                if let Some(failure) = failure {
                    task.fails(failure);
                }
                let places = task.parts.len().max(place as usize + 1);
                task.parts.resize_with(places, Data::default);
                task.parts[place as usize] = data;
                task.sums = sums;
            }
            Err(failure) => self.tasks[key as usize].fails_below(failure),
        }
        let task = &mut self.tasks[key as usize];
        task.waits -= 1;
        if task.waits == 0 {
            self.all_read(key, now, actions);
        }
    }

    /// Why a page is not given.
    fn bad_page(&self, key: u32, page: u64) -> Failure {
        let reason = format!(
            "page {page}, at byte {}, does not hold what was written: its checksum is another; it \
             can be written as a whole, or trimmed",
            page * self.page_bytes()
        );
        self.tasks[key as usize].command.failed(reason)
    }

    /// All that a task wanted to read is there, or failed.
    fn all_read(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let task = &mut self.tasks[key as usize];
        let op = task.command.op;
        if task.failure.is_some() || task.whose == Whose::Scrub {
            self.finish(key, Data::Absent, now, actions);
        } else if task.whose == Whose::Settle {
            self.settle(key, now, actions);
        } else if op == IoOp::Write {
            self.assemble(key, now, actions);
        } else {
            let mut data = Data::Absent;
            std::mem::take(&mut task.parts).into_iter().for_each(|part| data.append(part));
            let page = u64::from(self.superblock.geometry.page_bytes);
            let from = task.command.offset - task.pages.start * page;
            let wanted = from as usize..(from + u64::from(task.command.length)) as usize;
            let wanted = if wanted.len() == data.len() { data } else { data.slice(wanted) };
            self.finish_read(key, wanted, now, actions);
        }
    }

    /// Replies with what was read; once a flush has failed only with what is known to be right.
    fn finish_read(&mut self, key: u32, data: Data, now: Nanos, actions: &mut Actions) {
        if let Some(poison) = &self.poison {
            let task = &self.tasks[key as usize];
            let is_checked =
                |page| self.table.is_known(page) && !self.intent.is_unsure(self.region_of(page));
            if !task.pages.clone().all(is_checked) {
                let poison = poison.clone();
                self.tasks[key as usize].fails(poison);
            }
        }
        self.finish(key, data, now, actions);
    }

    /// Makes of a write, and of what its first and last page held, what is written below, and the
    /// checksums of all its pages.
    fn assemble(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let (page, superblock) = (self.page_bytes(), self.superblock);
        let task = &self.tasks[key as usize];
        let (pages, parts, data) = (task.pages.clone(), &task.parts, &task.command.data);
        let (offset, end) = (task.command.offset, task.command.end());
        let (begin, behind) = (pages.start * page, pages.end * page);
        // A part of a page is written alone only if the rest is what its checksum says.
        let stands = |number: u64, old: &Data| {
            !self.intent.is_unsure(self.region_of(number))
                && self.table.is_known(number)
                && self.table.fits(number, sums_of(&superblock, number, 1, old)[0])
        };
        let first = parts.first().filter(|_| offset > begin);
        let last = parts.last().filter(|_| end < behind);
        let from = if first.is_none_or(|old| stands(pages.start, old)) { offset } else { begin };
        let to = if last.is_none_or(|old| stands(pages.end - 1, old)) { end } else { behind };
        let (mut all, mut sums) =
            (Data::Absent, vec![WITHOUT_BYTES; (pages.end - pages.start) as usize]);
        if !data.is_absent() && !parts.iter().any(Data::is_absent) {
            let slice = |old: &Data, range: std::ops::Range<u64>| {
                old.slice(range.start as usize..range.end as usize)
            };
            all = first.map_or(Data::Absent, |old| slice(old, 0..offset - begin));
            all.append(data.clone());
            all.append(last.map_or(Data::Absent, |old| slice(old, page - (behind - end)..page)));
            sums = sums_of(&superblock, pages.start, pages.end - pages.start, &all);
            all = slice(&all, from - begin..to - begin);
        }
        let task = &mut self.tasks[key as usize];
        task.sums = sums;
        task.pieces = pieces(from, to - from, &all, u64::from(self.below.most_bytes) / page * page);
        self.ask_marks(key, now, actions);
    }

    /// A write or trim waits until its regions are marked.
    fn ask_marks(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let task = &mut self.tasks[key as usize];
        let pages = task.pages.clone();
        let is_trim = task.command.op == IoOp::Trim;
        let geometry = &self.superblock.geometry;
        for region in self.region_of(pages.start)..=self.region_of(pages.end - 1) {
            let all = geometry.pages_of(region);
            let (from, to) = (all.start.max(pages.start), all.end.min(pages.end));
            // The table on the device says already what it will say after the trim.
            let is_unknown = || !(from..to).any(|page| self.table.is_known(page));
            if is_trim && self.intent.is_closed(region) && is_unknown() {
                continue;
            }
            let task = &mut self.tasks[key as usize];
            task.regions.push(region);
            task.waits += u32::from(!self.intent.begin_write(region, key, is_trim, now));
        }
        if self.tasks[key as usize].waits == 0 {
            self.write_marked(key, now, actions);
        }
    }

    /// All regions of a write or trim are marked, or one could not be.
    pub(super) fn write_marked(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let task = &mut self.tasks[key as usize];
        if let Some(poison) = &self.poison {
            task.fails(poison.clone());
        }
        if task.failure.is_some() {
            return self.finish(key, Data::Absent, now, actions);
        }
        let Command { op, offset, length, is_fua, lifetime, .. } = task.command;
        if op == IoOp::Trim {
            task.waits = 1;
            let command = Command::new(0, op, offset, length);
            return self.send(Sent::Write { task: key }, command, actions);
        }
        let pieces = std::mem::take(&mut task.pieces);
        task.waits = pieces.len() as u32;
        for Piece { offset, length, data } in pieces {
            let command = Command { id: 0, op, offset, length, is_fua, lifetime, data };
            self.send(Sent::Write { task: key }, command, actions);
        }
    }

    /// A part of a write, or a trim, has ended.
    pub(super) fn write_ended(
        &mut self,
        key: u32,
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let task = &mut self.tasks[key as usize];
        if let Err(failure) = outcome {
            task.fails_below(failure);
        }
        task.waits -= 1;
        if task.waits > 0 {
            return;
        }
        let pages = task.pages.clone();
        if task.command.op == IoOp::Write && task.failure.is_none() {
            for (page, sum) in pages.zip(std::mem::take(&mut task.sums)) {
                self.table.set(page, sum);
            }
        } else if task.failure.is_some() {
            self.table.may_be_either(pages);
        } else {
            self.table.forget(pages);
        }
        self.finish(key, Data::Absent, now, actions);
    }
}

/// A write as commands that are not longer than `most`, a number of whole pages.
fn pieces(offset: u64, length: u64, data: &Data, most: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut at, end) = (offset, offset + length);
    while at < end {
        // Pages are cut at the ends alone.
        let next = if length <= most { end } else { end.min((at / most + 1) * most) };
        let data = data.slice((at - offset) as usize..(next - offset) as usize);
        pieces.push(Piece { offset: at, length: (next - at) as u32, data });
        at = next;
    }
    pieces
}
