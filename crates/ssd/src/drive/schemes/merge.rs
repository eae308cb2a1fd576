//! Merges: the copies and erases of the log-block schemes, done at once or by commands.
//!
//! A [`Work`] gathers the newest versions of one logical superblock in a target, then erases
//! superblocks without valid pages. The pages to copy are looked up one by one, so a page that the
//! host overwrites or trims meanwhile is left out. Each plane of the target has at most one page on
//! its way (a read, then its program), so all planes work at once.
//!
//! The map names the old place of a page until its copy is programmed, and a superblock is free
//! only when its erases are done: a read always finds data, and no page is taken for programmed
//! because of its state before an erase.

use super::SchemeError;
use super::superblock::{NONE, Role, Superblocks};
use crate::drive::media::{Cause, Command, Done, FlashOp, Layout, Media, Tag};

/// Purpose of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// The target becomes the data of the logical superblock.
    Merge,
    /// A gap in the target is filled, so that the host can write behind it.
    Fill,
    /// Superblocks are erased.
    Reclaim,
}

/// Copies of the pages `start .. end` of a logical superblock into a target, and the erases after
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The purpose.
    pub kind: WorkKind,
    /// The logical superblock; [`NONE`] for a reclaim.
    pub logical: u32,
    /// The superblock that the pages go to; [`NONE`] for a reclaim.
    pub target: u32,
    /// First offset that is copied.
    pub start: u32,
    /// The offset after the last.
    pub end: u32,
    /// Superblocks to erase; [`NONE`] for none.
    pub erases: [u32; 3],
}

impl Work {
    fn reclaim(superblock: u32) -> Self {
        Self {
            kind: WorkKind::Reclaim,
            logical: NONE,
            target: NONE,
            start: 0,
            end: 0,
            erases: [superblock, NONE, NONE],
        }
    }
}

/// The page that is on its way to one plane of the target.
#[derive(Clone, Copy, Debug)]
struct Lane {
    offset: u32,
    from: u32,
}

/// A work under way.
#[derive(Debug)]
struct MergeJob {
    work: Work,
    active: bool,
    lanes: Vec<Lane>,
    in_flight: u32,
    erasing: bool,
    /// The offset after the last one that was copied.
    high: u32,
}

/// Superblocks and the works under way on them.
#[derive(Debug)]
pub struct Core {
    /// Places of all pages.
    pub blocks: Superblocks,
    jobs: Vec<MergeJob>,
    idle: Vec<u32>,
    /// Works decided but not yet begun.
    fresh: Vec<u32>,
    merging: Vec<bool>,
    merges: u32,
    merges_at_once: u32,
    active: u32,
    copy_back: bool,
}

/// Result of a write to a data superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// The page was put at this place.
    Done(u32),
    /// Its offset can no longer be programmed.
    Taken,
    /// No superblock is free, but one will be.
    Wait,
}

impl Core {
    /// Makes erased superblocks, with `logs` of them for the scheme's logs. With `copy_back`, pages
    /// that stay on their plane are moved without the channel.
    ///
    /// # Errors
    /// As [`Superblocks::new`].
    pub fn new(
        scheme: &'static str,
        layout: &Layout,
        logical_pages: u32,
        interleave: u32,
        logs: u32,
        merges_at_once: u32,
        copy_back: bool,
    ) -> Result<Self, SchemeError> {
        let blocks =
            Superblocks::new(scheme, layout, logical_pages, interleave, logs + merges_at_once)?;
        Ok(Self {
            merging: vec![false; blocks.logical_superblocks() as usize],
            blocks,
            jobs: Vec::new(),
            idle: Vec::new(),
            fresh: Vec::new(),
            merges: 0,
            merges_at_once,
            active: 0,
            copy_back,
        })
    }

    /// Number of works decided and not ended.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Returns true if a work for this logical superblock is under way.
    #[inline]
    pub fn is_merging(&self, logical: u32) -> bool {
        self.merging[logical as usize]
    }

    /// Returns true if another merge may begin.
    pub fn can_merge(&self) -> bool {
        self.merges < self.merges_at_once
    }

    /// Takes a free superblock for a log or a target. Superblocks put aside are erased when few
    /// others are left; `None` means that one is being erased.
    pub fn take(&mut self, group: u32, role: Role) -> Option<u32> {
        let taken = self.blocks.take_free(group);
        if self.blocks.free_count() <= self.merges_at_once
            && let Some(superblock) = self.blocks.empties.pop_front()
        {
            self.start(Work::reclaim(superblock));
        }
        self.blocks.set_role(taken?, role);
        taken
    }

    /// Writes a page at its offset of its data superblock, if that can still be programmed.
    pub fn write_in_place(&mut self, lpn: u32) -> InPlace {
        let (logical, offset) = self.blocks.split(lpn);
        if self.is_merging(logical) {
            return InPlace::Taken;
        }
        let mut superblock = self.blocks.data(logical);
        if superblock == NONE {
            let Some(free) = self.take(self.blocks.group_for(logical), Role::Data) else {
                return InPlace::Wait;
            };
            self.blocks.set_data(logical, free);
            superblock = free;
        }
        if offset < self.blocks.next(superblock) {
            return InPlace::Taken;
        }
        InPlace::Done(self.blocks.occupy(lpn, superblock, offset))
    }

    /// Makes a log that holds all of a logical superblock, in order, its data. The old data is
    /// erased.
    pub fn switch(&mut self, logical: u32, log: u32) {
        self.blocks.counters.switch_merges += 1;
        let old = self.blocks.set_data(logical, log);
        if old != NONE {
            self.reclaim(old);
        }
    }

    /// Erases a superblock without valid pages.
    pub fn reclaim(&mut self, superblock: u32) {
        self.start(Work::reclaim(superblock));
    }

    /// Begins to fill a log, which is in order as far as it is written, with the rest of its
    /// logical superblock, to make it its data: a partial merge, or a switch if there is no rest.
    ///
    /// # Panics
    /// If no merge may begin.
    pub fn merge_into_log(&mut self, logical: u32, log: u32) {
        let (start, end) = (self.blocks.next(log), self.blocks.len(logical));
        if self.blocks.pages_outside(logical, start, end, log) == 0 {
            self.blocks.counters.switch_merges += 1;
        } else {
            self.blocks.counters.partial_merges += 1;
        }
        let erases = [self.blocks.data(logical), NONE, NONE];
        self.start(Work {
            kind: WorkKind::Merge,
            logical,
            target: log,
            start,
            end: end.max(start),
            erases,
        });
    }

    /// Begins a full merge: all pages of a logical superblock go to a free superblock. Its old data
    /// and `log` are erased afterwards. Returns true if a superblock was free.
    ///
    /// # Panics
    /// If no merge may begin.
    pub fn merge_fully(&mut self, logical: u32, log: u32) -> bool {
        let Some(target) = self.take(self.blocks.group_for(logical), Role::Target) else {
            return false;
        };
        self.blocks.counters.full_merges += 1;
        let erases = [self.blocks.data(logical), log, NONE];
        self.start(Work {
            kind: WorkKind::Merge,
            logical,
            target,
            start: 0,
            end: self.blocks.len(logical),
            erases,
        });
        true
    }

    /// Begins to copy pages into a gap of a log.
    ///
    /// # Panics
    /// If no merge may begin.
    pub fn fill(&mut self, logical: u32, log: u32, end: u32) {
        let start = self.blocks.next(log);
        self.start(Work {
            kind: WorkKind::Fill,
            logical,
            target: log,
            start,
            end,
            erases: [NONE; 3],
        });
    }

    fn start(&mut self, work: Work) {
        if work.kind == WorkKind::Reclaim {
            self.blocks.set_role(work.erases[0], Role::Leaving);
        } else {
            assert!(
                self.can_merge() && !self.is_merging(work.logical),
                "a merge of logical superblock {} may begin",
                work.logical
            );
            self.merges += 1;
            self.merging[work.logical as usize] = true;
            // Nothing else is written there meanwhile.
            self.blocks.set_next(work.target, work.end);
        }
        self.active += 1;
        let number = self.idle.pop().unwrap_or_else(|| {
            let lanes = vec![Lane { offset: NONE, from: NONE }; self.blocks.interleave() as usize];
            self.jobs.push(MergeJob {
                work,
                active: false,
                lanes,
                in_flight: 0,
                erasing: false,
                high: 0,
            });
            self.jobs.len() as u32 - 1
        });
        let job = &mut self.jobs[number as usize];
        assert!(!job.active && job.in_flight == 0, "job {number} is idle");
        (job.work, job.active, job.erasing, job.high) = (work, true, false, work.start);
        let interleave = self.blocks.interleave();
        for (lane, place) in (0u32..).zip(&mut job.lanes) {
            // The first offset of this lane that is not below the start.
            *place = Lane {
                offset: work.start + (lane + interleave - work.start % interleave) % interleave,
                from: NONE,
            };
        }
        self.fresh.push(number);
    }

    /// Gives the first commands of the works that were decided. Works without commands end at once
    /// and go to `ended`.
    pub fn begin(&mut self, media: &mut Media, ended: &mut Vec<Work>) {
        while let Some(number) = self.fresh.pop() {
            if self.jobs[number as usize].work.kind != WorkKind::Reclaim {
                for lane in 0..self.blocks.interleave() {
                    self.copy_next(number, lane, media);
                }
            }
            ended.extend(self.go_on(number, media));
        }
    }

    /// Carries out the works that were decided, in no time.
    pub fn carry_out(&mut self, ended: &mut Vec<Work>) {
        while let Some(number) = self.fresh.pop() {
            let work = self.jobs[number as usize].work;
            let first =
                if work.kind == WorkKind::Reclaim { 0 } else { work.logical * self.blocks.pages() };
            for offset in work.start..work.end {
                let lpn = first + offset;
                let from = self.blocks.place(lpn);
                if from != NONE && self.blocks.superblock_of(from) != work.target {
                    self.copied(number, lpn, offset);
                }
            }
            for superblock in work.erases.into_iter().filter(|&superblock| superblock != NONE) {
                self.assert_empty(superblock);
            }
            ended.push(self.end(number));
        }
    }

    /// Handles the end of a command of a work. Returns the work if that was the last.
    pub fn completed(&mut self, done: &Done, media: &mut Media) -> Option<Work> {
        let (number, lane) = (
            done.command.tag.number() / self.blocks.interleave(),
            done.command.tag.number() % self.blocks.interleave(),
        );
        let job = &mut self.jobs[number as usize];
        assert!(job.active && job.in_flight > 0, "job {number} waits for a command");
        job.in_flight -= 1;
        if done.command.op != FlashOp::Erase {
            let Lane { offset, from } = job.lanes[lane as usize];
            let work = job.work;
            let lpn = work.logical * self.blocks.pages() + offset;
            let is_newest = self.blocks.place(lpn) == from;
            if done.command.op == FlashOp::Read && is_newest {
                self.submit(
                    number,
                    lane,
                    FlashOp::Program,
                    self.blocks.place_at(work.target, offset),
                    from,
                    media,
                );
                return None;
            }
            if done.command.op != FlashOp::Read {
                self.jobs[number as usize].high = self.jobs[number as usize].high.max(offset + 1);
                if is_newest {
                    self.copied(number, lpn, offset);
                } else {
                    // The page was overwritten or trimmed while it was programmed: the copy was
                    // useless.
                    self.blocks.counters.relocated_pages += 1;
                }
            }
            self.jobs[number as usize].lanes[lane as usize].offset += self.blocks.interleave();
            self.copy_next(number, lane, media);
        }
        self.go_on(number, media)
    }

    fn copied(&mut self, number: u32, lpn: u32, offset: u32) {
        let job = &mut self.jobs[number as usize];
        job.high = job.high.max(offset + 1);
        self.blocks.counters.relocated_pages += 1;
        self.blocks.move_to(lpn, self.blocks.place_at(job.work.target, offset));
    }

    /// Gives the command for the next page of a lane that has to be copied, if there is one.
    fn copy_next(&mut self, number: u32, lane: u32, media: &mut Media) {
        let work = self.jobs[number as usize].work;
        let first = work.logical * self.blocks.pages();
        let mut offset = self.jobs[number as usize].lanes[lane as usize].offset;
        while offset < work.end {
            let from = self.blocks.place(first + offset);
            if from != NONE && self.blocks.superblock_of(from) != work.target {
                self.jobs[number as usize].lanes[lane as usize] = Lane { offset, from };
                let to = self.blocks.place_at(work.target, offset);
                if self.copy_back && self.are_on_one_plane(from, to) {
                    self.submit(number, lane, FlashOp::CopyBack, to, from, media);
                } else {
                    self.submit(number, lane, FlashOp::Read, from, from, media);
                }
                return;
            }
            offset += self.blocks.interleave();
        }
    }

    fn are_on_one_plane(&self, a: u32, b: u32) -> bool {
        let layout = self.blocks.layout();
        let plane = |place| layout.plane_of(layout.block_of(self.blocks.page(place)));
        plane(a) == plane(b)
    }

    fn submit(
        &mut self,
        number: u32,
        lane: u32,
        op: FlashOp,
        place: u32,
        from: u32,
        media: &mut Media,
    ) {
        let bytes = if matches!(op, FlashOp::Read | FlashOp::Program) {
            self.blocks.layout().page_bytes
        } else {
            0
        };
        let (page, from) = (self.blocks.page(place), self.blocks.page(from));
        self.jobs[number as usize].in_flight += 1;
        let tag = Tag::scheme(number * self.blocks.interleave() + lane);
        media.submit(Command { op, cause: Cause::Cleaning, page, from, bytes, tag });
    }

    /// Begins the erases when all copies are made, and ends the work when those are done.
    fn go_on(&mut self, number: u32, media: &mut Media) -> Option<Work> {
        let job = &self.jobs[number as usize];
        if job.in_flight > 0 {
            return None;
        }
        if !job.erasing {
            self.jobs[number as usize].erasing = true;
            for superblock in self.jobs[number as usize]
                .work
                .erases
                .into_iter()
                .filter(|&superblock| superblock != NONE)
            {
                self.assert_empty(superblock);
                for lane in 0..self.blocks.interleave() {
                    let place = self.blocks.place_at(superblock, lane);
                    self.submit(number, lane, FlashOp::Erase, place, place, media);
                }
            }
            if self.jobs[number as usize].in_flight > 0 {
                return None;
            }
        }
        Some(self.end(number))
    }

    fn assert_empty(&self, superblock: u32) {
        assert!(
            self.blocks.valid(superblock) == 0,
            "superblock {superblock} is erased with {} valid pages",
            self.blocks.valid(superblock)
        );
    }

    fn end(&mut self, number: u32) -> Work {
        let job = &mut self.jobs[number as usize];
        job.active = false;
        let (work, high) = (job.work, job.high);
        self.idle.push(number);
        self.active -= 1;
        if work.kind != WorkKind::Reclaim {
            self.merges -= 1;
            self.merging[work.logical as usize] = false;
            self.blocks
                .set_next(work.target, if work.kind == WorkKind::Fill { work.end } else { high });
        }
        if work.kind == WorkKind::Merge {
            self.blocks.set_data(work.logical, work.target);
        }
        for superblock in work.erases.into_iter().filter(|&superblock| superblock != NONE) {
            self.blocks.was_erased(superblock);
        }
        work
    }

    /// Memory of the tables in bytes.
    pub fn table_bytes(&self) -> usize {
        let lanes: usize =
            self.jobs.iter().map(|job| job.lanes.capacity() * size_of::<Lane>()).sum();
        self.blocks.table_bytes()
            + self.merging.len()
            + self.jobs.capacity() * size_of::<MergeJob>()
            + lanes
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// The contradiction.
    pub fn audit(&self) -> Result<(), String> {
        let under_way = self.jobs.iter().filter(|job| job.active);
        let (merges, all) = under_way.fold((0, 0), |(merges, all), job| {
            (merges + u32::from(job.work.kind != WorkKind::Reclaim), all + 1)
        });
        let marked = self.merging.iter().filter(|&&merging| merging).count();
        if merges != self.merges || marked as u32 != merges || all != self.active {
            return Err(format!(
                "{merges} merges of {all} works are under way, {marked} are marked, {} are counted",
                self.merges
            ));
        }
        self.blocks.audit()
    }
}
