//! Cleaning of superblocks: its start, its pace, and its work under way.

use placement::Placement;
use units::{EraseBlockId, StreamId};

use super::{SuperblockMapped, give};
use crate::drive::media::{Cause, Command, Done, Media, Tag};
use ftl::Cleaning;

/// Most victims with work under way at once.
pub(super) const MOST_ENDING: usize = 4;

/// Tags of the scheme's own programs and erases, by the victim's index in
/// [`SuperblockMapped::ending`]; those of reads are numbers of survivors, far below.
const RELOCATED: u32 = (1 << 31) - MOST_ENDING as u32;
const ERASED: u32 = RELOCATED - MOST_ENDING as u32;
/// Tag of parity that nobody waits for.
pub(super) const PARITY: u32 = ERASED - 1;
/// The same, for parity that waits for the turn of its die.
pub(super) const OWN_PARITY: u32 = PARITY - 1;

/// The victim whose survivors are being read.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub cleaning: Cleaning,
    reads: u32,
    /// Its index in [`SuperblockMapped::ending`].
    place: usize,
    /// True if the victim is a superblock of the SLC cache.
    is_fold: bool,
}

impl Job {
    /// Returns true if a superblock of the SLC cache is being folded.
    pub fn is_fold(&self) -> bool {
        self.is_fold && self.cleaning.victim().is_some()
    }
}

/// Returns true if no die has anything to do.
pub(super) fn is_idle(media: &Media) -> bool {
    (0..media.layout().dies()).all(|die| media.is_idle(die))
}

/// A victim, from its first survivor's copy to the end of its erase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// `None` if the entry is free.
    victim: Option<EraseBlockId>,
    cause: Option<Cause>,
    /// True if all survivors have left it.
    is_empty: bool,
    /// Number of survivors that are not programmed yet.
    unprogrammed: u32,
    erases_left: u32,
}

impl Ending {
    fn cause(&self) -> Cause {
        self.cause.unwrap_or(Cause::Cleaning)
    }
}

impl<P: Placement> SuperblockMapped<P> {
    /// Returns true if any cleaning is under way.
    pub(super) fn is_cleaning(&self) -> bool {
        self.ending.iter().any(|ending| ending.victim.is_some())
    }

    /// Cause for which a relocated page is programmed.
    #[inline]
    pub(super) fn cause_of(&self, tag: Tag) -> Cause {
        self.ending[(tag.number() - RELOCATED) as usize].cause()
    }

    /// Handles the end of a command of the scheme.
    #[inline(never)]
    pub(super) fn end_of_turn(&mut self, done: &Done, media: &mut Media) {
        if let Some(turns) = &mut self.turns
            && done.command.tag != Tag::scheme(PARITY)
        {
            turns.done(&done.command, media);
        }
    }

    /// Starts or continues cleaning, after something has changed.
    #[inline]
    pub(super) fn consider(&mut self, media: &mut Media) {
        if let Some(turns) = &mut self.turns {
            turns.press(!self.waiting.is_empty(), media);
        }
        if self.job.cleaning.victim().is_some() {
            // A cleaning that was out of credits continues if writes wait for room.
            let may = self.pace.is_paced() || self.job.is_fold || self.windows.is_some();
            if may && self.has_to_go_on() {
                self.go_on(media);
            }
            self.plan_folding(media);
        } else if self.is_due() {
            if self.may_clean(media) {
                self.start(media);
            }
        } else if self.is_below(self.thresholds.background_below) {
            self.wake_at = self.wake_at.min(media.now() + self.thresholds.idle);
        }
        self.plan_folding(media);
    }

    /// Returns true if a victim should be cleaned.
    pub(super) fn is_due(&self) -> bool {
        !self.waiting.is_empty()
            || (self.is_folding() && (self.can_fold(false) || self.lacks_target()))
            || (self.is_below(self.thresholds.start_below) && (self.can_fold(true) || self.gains()))
    }

    #[inline]
    fn is_below(&self, superblocks: usize) -> bool {
        if self.pace.is_paced() {
            self.free_space() < superblocks as f64
        } else {
            self.ftl.lanes().free(0) < superblocks
        }
    }

    /// Superblocks beyond the reserve that can be written, including parts of open ones, those that
    /// are cleaned but not erased yet, and the part of the victim that is already cleaned.
    fn free_space(&self) -> f64 {
        let room = f64::from(self.ftl.frontier_room(0)) / f64::from(self.stripes.pages);
        let ending = self.ending.iter().filter(|ending| ending.is_empty).count();
        let whole = (self.ftl.lanes().free(0) + ending) as f64 - self.ftl.reserve() as f64;
        whole + room + self.job.cleaning.progress()
    }

    /// Lets cleaning keep step with the host, which has written a page.
    #[inline]
    pub(super) fn keep_step(&mut self, media: &mut Media) {
        if !self.pace.is_paced() {
            return;
        }
        self.uncredited += 1;
        if self.uncredited == self.stripes.unit_pages {
            self.uncredited = 0;
            if self.job.cleaning.victim().is_some() {
                let survivors = self.job.cleaning.survivors();
                let gained = self.stripes.pages - survivors;
                self.pace.adjust(f64::from(survivors), f64::from(gained), self.free_space());
                self.pace.earn(self.stripes.unit_pages);
                self.go_on(media);
            }
        }
    }

    /// If cleaning keeps step with the host, cleans at once until as much is clean as on a drive
    /// that has been written to for long.
    pub(super) fn clean_to_balance(&mut self) {
        let balance = self.thresholds.start_below as f64 / 2.0;
        while self.pace.is_paced()
            && self.ftl.lanes().free(0) > 0
            && self.free_space() < balance
            && self.gains()
        {
            self.ftl.clean_one(0);
        }
    }

    /// Begins a cleaning if the drive is idle, or continues one that keeps step with the host.
    pub(super) fn clean_in_idle_time(&mut self, media: &mut Media) {
        let has_victim = self.job.cleaning.victim().is_some();
        let can = if has_victim { self.pace.is_paced() } else { self.gains() };
        if !can || !self.is_below(self.thresholds.background_below) || !self.may_clean(media) {
            return;
        }
        let is_idle = is_idle(media);
        if is_idle {
            self.pace.grant();
            if has_victim {
                self.go_on(media);
            } else {
                self.start(media);
            }
        }
        if !is_idle || self.pace.is_paced() {
            self.wake_at = self.wake_at.min(media.now() + self.thresholds.idle);
        }
    }

    /// Returns true if a superblock's worth of pages is invalid, so that cleaning can gain
    /// something.
    pub(super) fn gains(&self) -> bool {
        let lanes = self.ftl.lanes();
        let (cached, cached_pages) = self.ftl.cached();
        let open = self.ftl.device().streams.len() as u32 + cached - u32::from(self.slc.is_some());
        let ending = self.ending.iter().filter(|ending| ending.victim.is_some()).count() as u32;
        let used = lanes.blocks_of(0).len() as u32 - lanes.not_in_use_of(0).count() as u32;
        let written = u64::from(used.saturating_sub(open + ending)) * u64::from(self.stripes.pages);
        let valid = u64::from(lanes.valid_pages(0) - cached_pages);
        written >= valid + u64::from(self.stripes.pages)
    }

    pub(super) fn start(&mut self, media: &mut Media) {
        let place = self.ending.iter().position(|ending| ending.victim.is_none());
        let free = self.ftl.lanes().free(0);
        // Survivors need a free superblock; ending victims give theirs back soon.
        let Some(place) = place.filter(|_| free > 1 || !self.is_cleaning()) else { return };
        // A worn-out drive may be left with a superblock that holds nothing but valid pages.
        let can_fold = self.can_fold(!self.is_folding());
        if free == 0 || (self.worn_out.is_some() && !can_fold && !self.gains()) {
            self.wears_out();
            return;
        }
        self.ftl.close_early(0);
        if self.ftl.placement().features().closes_early {
            self.program_closed(media);
        }
        let needy = match self.waiting.front() {
            Some(waiting) => self.ftl.host_stream(waiting.lpn),
            None => StreamId(0),
        };
        let moved = self.ftl.counters().long_lying_victims;
        let folded = self.next_to_fold();
        let victim = folded.unwrap_or_else(|| self.ftl.choose_victim(needy, 0));
        let cause = match folded {
            Some(_) => Cause::Folding,
            None if self.ftl.counters().long_lying_victims > moved => Cause::WearLevelling,
            None => Cause::Cleaning,
        };
        (self.job.place, self.job.is_fold) = (place, folded.is_some());
        let cause = Some(cause);
        self.ending[place] = Ending { victim: Some(victim), cause, ..Ending::default() };
        self.job.cleaning.begin(victim, 0, &mut self.ftl);
        if self.ftl.placement().features().has_handles
            && let Some(handles) = &mut self.handles
        {
            handles.cleans(self.job.cleaning.survivors());
        }
        self.go_on(media);
    }

    /// Returns true if space may be reclaimed now: in a window for it, or for writes that wait.
    /// Otherwise sets the time at which the scheme is woken.
    #[inline]
    fn may_clean(&mut self, media: &Media) -> bool {
        let Some(windows) = &self.windows else { return true };
        let may = windows.is_busy(media.now()) || !self.waiting.is_empty();
        if !may {
            self.wake_at = self.wake_at.min(windows.ends_at(media.now()));
        }
        may
    }

    /// Checks for cleaning, as a window for it may have begun.
    pub(super) fn clean_in_window(&mut self, media: &mut Media) {
        if self.windows.is_some() {
            (0..MOST_ENDING).for_each(|place| self.erase_if_left(place, media));
            self.go_on(media);
            // Another check in idle time is planned after this, if it is of use: considering it
            // here would repeat for ever.
            if self.job.cleaning.victim().is_none() && self.is_due() && self.may_clean(media) {
                self.start(media);
            }
        }
    }

    /// Returns true if the current victim is cleaned as fast as possible: for waiting writes, or as
    /// one of the cache in idle time, or because it blocks others that have to be cleaned.
    fn has_to_go_on(&self) -> bool {
        let fold = self.job.is_fold;
        !self.waiting.is_empty()
            || (fold && (self.is_folding() || self.is_below(self.thresholds.start_below)))
    }

    /// Gives the next reads of a cleaning, or ends it.
    pub(super) fn go_on(&mut self, media: &mut Media) {
        if self.job.cleaning.victim().is_none() || !self.may_clean(media) {
            return;
        }
        let cause = self.ending[self.job.place].cause();
        // Folding for idle time pauses while the drive is not idle.
        let is_free = self.has_to_go_on();
        let may = is_free || !self.job.is_fold || self.pace.is_paced();
        media.hold();
        while may
            && self.job.reads + self.unprogrammed < self.most_under_way
            && (is_free || self.pace.may_spend())
        {
            let Some((number, survivor)) = self.job.cleaning.next(&self.ftl) else { break };
            self.job.cleaning.take(1);
            self.pace.spend();
            self.job.reads += 1;
            let from = self.stripes.on_media(survivor.from);
            let tag = Tag::scheme(number as u32);
            let command = Command::read(from, self.page_bytes, cause, tag);
            give(command, true, &mut self.turns, media);
        }
        media.release();
        if self.job.cleaning.is_done(&self.ftl) {
            self.end(media);
        }
    }

    /// Ends the copying of a victim without further survivors. If another is cleaned next, its
    /// survivors fill up the units that this one's last survivors are in.
    fn end(&mut self, media: &mut Media) {
        let victim = self.job.cleaning.end();
        self.ftl.hold(victim);
        let place = self.job.place;
        self.ending[place].is_empty = true;
        if self.is_due() && self.may_clean(media) {
            self.start(media);
        }
        if self.job.cleaning.victim().is_none() {
            self.pad_relocated(media);
        }
        self.erase_if_left(place, media);
    }

    fn pad_relocated(&mut self, media: &mut Media) {
        while let Some(number) = self.filling.iter().position(|filling| filling.has_relocated) {
            self.pad(number, media);
        }
    }

    /// Erases a victim as soon as all its survivors are on flash elsewhere.
    fn erase_if_left(&mut self, place: usize, media: &mut Media) {
        let ending = &mut self.ending[place];
        if !ending.is_empty || ending.unprogrammed > 0 || ending.erases_left > 0 {
            return;
        }
        if !self.may_clean(media) {
            return;
        }
        let ending = &mut self.ending[place];
        let (Some(victim), cause) = (ending.victim, ending.cause()) else { return };
        let blocks = self.stripes.blocks_of(victim.0);
        ending.erases_left = blocks.len() as u32;
        media.hold();
        for &block in blocks {
            let page = media.layout().page_at(block, 0);
            let command = Command::erase(page, cause, Tag::scheme(ERASED + place as u32));
            give(command, true, &mut self.turns, media);
        }
        media.release();
    }

    /// Gives a survivor that was read its new place, unless the host has written or trimmed it.
    pub(super) fn relocate(&mut self, number: u32, media: &mut Media) {
        self.job.reads -= 1;
        let from = self.stripes.on_media(self.job.cleaning.survivor(number as usize).from);
        if let Some(page) = self.job.cleaning.relocate(number as usize, &mut self.ftl) {
            let place = self.job.place;
            if let Some(slc) = self.slc.as_mut().filter(|_| self.job.is_fold) {
                slc.folded += 1;
            }
            self.unprogrammed += 1;
            self.ending[place].unprogrammed += 1;
            if self.ftl.placement().features().has_handles
                && let Some(handles) = &mut self.handles
            {
                let victim = self.ending[place].victim.expect("a victim is cleaned");
                handles.moved(u32::from(self.ftl.device().block(victim).stream));
            }
            self.fill(page, Some(from), Tag::scheme(RELOCATED + place as u32), media);
        }
        self.go_on(media);
        self.admit(media);
    }

    /// Records that a survivor is on flash.
    pub(super) fn relocated(&mut self, tag: Tag, media: &mut Media) {
        let place = (tag.number() - RELOCATED) as usize;
        self.unprogrammed -= 1;
        self.ending[place].unprogrammed -= 1;
        self.erase_if_left(place, media);
        self.go_on(media);
        self.admit(media);
    }

    /// Records that an erase block of a victim is erased.
    pub(super) fn erased(&mut self, tag: Tag, media: &mut Media) {
        let place = (tag.number() - ERASED) as usize;
        self.ending[place].erases_left -= 1;
        if self.ending[place].erases_left > 0 {
            return;
        }
        let victim = self.ending[place].victim.take().expect("a victim was erased");
        self.ending[place] = Ending::default();
        self.ftl.reclaim(victim, 0);
        self.check_wear();
        for &block in self.stripes.blocks_of(victim.0) {
            self.erased[block.index()] += 1;
        }
        self.admit(media);
        self.consider(media);
    }
}
