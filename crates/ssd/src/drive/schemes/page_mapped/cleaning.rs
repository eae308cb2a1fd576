//! Cleaning, lane by lane: its start, its commands one after the other, and its end when the victim
//! is erased.

use placement::Placement;
use units::{Ppn, StreamId};

use super::PageMappedScheme;
use crate::drive::media::{Cause, Command, Media, Tag};
use crate::drive::schemes::WornOut;
use crate::drive::schemes::watch::Watch;
use crate::drive::time::Picos;
use ftl::Survivor;

impl<P: Placement, W: Watch> PageMappedScheme<P, W> {
    /// Starts, continues or ends cleaning in a lane, after something has changed there; or checks
    /// again when the lane may be idle.
    #[inline]
    pub(super) fn consider(&mut self, lane: u32, media: &mut Media) {
        if !self.clean_what_is_due(lane, media)
            && self.ftl.lanes().free(lane) < self.thresholds.background_below
        {
            self.wake_later(lane, media.now());
        }
    }

    /// Starts, continues or ends cleaning in a lane. Returns true if there was anything to do.
    #[inline]
    pub(super) fn clean_what_is_due(&mut self, lane: u32, media: &mut Media) -> bool {
        if self.lanes[lane as usize].job.cleaning.victim().is_some()
            || self.is_occupied(lane, media)
        {
            self.resume(lane, media);
            return true;
        }
        let free = self.ftl.lanes().free(lane);
        let must = !self.lanes[lane as usize].waiting.is_empty();
        if must
            && !self.gains(lane)
            && let Some(other) = self.lane_to_take_over(lane)
        {
            self.hand_over(lane, other, media);
            return true;
        }
        let is_due = must || (free < self.thresholds.start_below && self.gains(lane));
        if is_due && self.may_clean(lane, media) {
            self.start(lane, media);
        }
        is_due
    }

    /// Finds a lane that can gain space, for the writes that wait in one that cannot: their older
    /// versions may all lie in the other, and cleaning this one would go on for ever.
    fn lane_to_take_over(&self, lane: u32) -> Option<u32> {
        if self.allocation.is_static() {
            return None;
        }
        (0..self.lanes.len() as u32).find(|&other| other != lane && self.gains(other))
    }

    /// Moves all writes that wait in a lane into another.
    fn hand_over(&mut self, from: u32, to: u32, media: &mut Media) {
        let waiting = std::mem::take(&mut self.lanes[from as usize].waiting);
        self.lanes[to as usize].waiting.extend(waiting);
        self.admit(to, media);
        self.consider(to, media);
    }

    /// Returns true if a lane holds an erase block's worth of invalid pages, so that cleaning can
    /// gain something.
    pub(super) fn gains(&self, lane: u32) -> bool {
        let geometry = self.ftl.device().geometry;
        let pages = geometry.pages_per_erase_block;
        let lanes = self.ftl.lanes();
        let open = self.ftl.device().streams.len() as u32;
        let used = lanes.blocks_of(lane).len() as u32 - lanes.not_in_use_of(lane).count() as u32;
        // All pages of the frontiers may still be empty.
        used.saturating_sub(open) * pages >= lanes.valid_pages(lane) + pages
    }

    /// Chooses a victim and begins. If so many erase blocks have retired that the survivors of a
    /// victim may find no place, the lane takes no more writes: it needs a free erase block.
    pub(super) fn start(&mut self, lane: u32, media: &mut Media) {
        let lanes = self.ftl.lanes();
        if lanes.free(lane) == 0
            || (lanes.capacity(lane) == 0 && self.ftl.closed_blocks(lane, None).is_empty())
        {
            self.wears_out(lane);
            return;
        }
        self.ftl.close_early(lane);
        let needy = match self.lanes[lane as usize].waiting.front() {
            Some(waiting) => self.ftl.host_stream(waiting.lpn),
            None => StreamId(0),
        };
        let victim = match self.static_wear.cold_block(&self.ftl, lane) {
            Some(cold) => {
                self.ftl.take_victim(cold);
                self.wear_moves += 1;
                self.lanes[lane as usize].job.cause = Some(Cause::WearLevelling);
                cold
            }
            None => {
                self.lanes[lane as usize].job.cause = Some(Cause::Cleaning);
                self.ftl.choose_victim(needy, lane)
            }
        };
        let job = &mut self.lanes[lane as usize].job;
        // The place that the last victim's pages went to may have been erased since.
        job.target = Ppn::NONE;
        job.cleaning.begin(victim, lane, &mut self.ftl);
        self.cleaning_lanes += 1;
        if self.thresholds.occupies_die {
            media.occupy(media.layout().die_of_plane(lane));
        }
        self.go_on(lane, media);
    }

    /// Gives the next command of a cleaning.
    pub(super) fn go_on(&mut self, lane: u32, media: &mut Media) {
        if !self.may_clean(lane, media) {
            self.lanes[lane as usize].is_paused = true;
            return;
        }
        let job = &mut self.lanes[lane as usize].job;
        let cause = job.cause.expect("a cleaning has a cause");
        if let Some((number, Survivor { from, .. })) = job.cleaning.next(&self.ftl) {
            job.cleaning.take(1);
            (job.number, job.copying) = (number, from);
            if self.copy_back {
                self.copy(lane, media);
            } else {
                media.submit(Command::read(from, self.page_bytes, cause, Tag::scheme(lane)));
            }
            return;
        }
        let victim = job.cleaning.victim().expect("a cleaning is under way");
        self.watch.emptied(lane);
        if self.thresholds.occupies_die {
            media.let_reads_in(victim);
        }
        media.submit(Command::erase(media.layout().page_at(victim, 0), cause, Tag::scheme(lane)));
    }

    /// Programs the page that was read at its new place, unless the host has written or trimmed it
    /// since.
    pub(super) fn copy(&mut self, lane: u32, media: &mut Media) {
        let job = &mut self.lanes[lane as usize].job;
        let cause = job.cause.expect("a cleaning has a cause");
        let Survivor { lpn, from, .. } = job.cleaning.survivor(job.number);
        let Some(page) = job.cleaning.relocate(job.number, &mut self.ftl) else {
            return self.go_on(lane, media);
        };
        job.target = page;
        self.wear_moved_pages += u64::from(cause == Cause::WearLevelling);
        self.watch.relocating(lpn, from, lane, media);
        media.submit(if self.copy_back {
            Command::copy_back(from, page, cause, Tag::scheme(lane))
        } else {
            Command::copy(from, page, self.page_bytes, cause, Tag::scheme(lane))
        });
    }

    /// Handles the end of the victim's erase.
    pub(super) fn erased(&mut self, lane: u32, media: &mut Media) {
        let job = &mut self.lanes[lane as usize].job;
        let victim = job.cleaning.end();
        self.cleaning_lanes -= 1;
        self.ftl.reclaim(victim, lane);
        self.check_wear(lane);
        if self.thresholds.occupies_die {
            return self.vacate(lane, media);
        }
        self.admit(lane, media);
        self.consider(lane, media);
    }

    /// Releases the die: everything that waits for any of its lanes continues.
    fn vacate(&mut self, lane: u32, media: &mut Media) {
        let (die, planes) = (media.layout().die_of_plane(lane), media.layout().planes_per_die);
        media.vacate(die);
        let lanes = die * planes..(die + 1) * planes;
        lanes.clone().for_each(|lane| self.admit(lane, media));
        lanes.for_each(|lane| self.consider(lane, media));
    }

    /// Checks that the lanes can still hold all of the host's pages.
    fn check_wear(&mut self, lane: u32) {
        if self.missing_blocks(lane) > 0 {
            self.wears_out(lane);
        }
    }

    #[cold]
    fn wears_out(&mut self, lane: u32) {
        let host_page_writes = self.host_page_writes();
        self.worn_out.get_or_insert(WornOut { plane: lane, host_page_writes });
    }

    pub(super) fn host_page_writes(&self) -> u64 {
        self.ftl.counters().host_page_writes - self.watch.map_writes()
    }

    fn wake_later(&mut self, lane: u32, now: Picos) {
        let state = &mut self.lanes[lane as usize];
        if state.wake_at == Picos::MAX {
            state.wake_at = now + self.thresholds.idle;
            self.next_wake = self.next_wake.min(state.wake_at);
        }
    }
}
