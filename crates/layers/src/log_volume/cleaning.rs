//! Cleaning: the valid pages of a victim are read and written elsewhere, a few at a time, paced with what the host writes. A segment that
//! was emptied is free only when all that emptied it is known to be durable.

use std::collections::VecDeque;

use placement::{AnyVictim, Placement};
use ssd::ftl::{CountingMedium, PageMapped, Scratch};
use units::{EraseBlockId, IoOp, Lpn, Ppn};

use super::below::Op;
use super::layout::Layout;
use super::settings::Settings;
use super::volume::LogVolume;
use crate::{Actions, Data, Failure, Limits};

/// Longest read of neighbouring pages, in bytes.
const READ_BYTES: u32 = 128 << 10;
/// Reads under way.
const OUTSTANDING: u32 = 8;
/// Times that a read is tried.
const TRIES: u32 = 3;

/// The victim that is being emptied.
#[derive(Debug)]
struct Job {
    victim: EraseBlockId,
    pages: Scratch,
    next: usize,
    under_way: u32,
}

/// The state of cleaning.
#[derive(Debug)]
pub(super) struct Cleaner {
    job: Option<Job>,
    scratch: Scratch,
    /// Emptied segments, and the number of the entry before which lies all that emptied them.
    emptied: VecDeque<(EraseBlockId, u64)>,
    /// Segments that are trimmed below, and free as soon as that has ended.
    trimming: usize,
    /// Free segments beyond the reserve below which cleaning begins.
    headroom: usize,
    /// The same while nothing is to be done.
    idle_headroom: usize,
    /// Pages that may be moved now.
    credit: u32,
    /// Pages that may be moved for each that the host writes.
    price: u32,
    longest_read: u32,
}

impl Cleaner {
    pub fn new<P: Placement>(layout: &Layout, settings: &Settings, ftl: &PageMapped<P, AnyVictim, CountingMedium>, below: Limits) -> Self {
        let needed = ftl.device().streams.len() + ftl.reserve() + 1;
        let spare = ftl.device().geometry.spare_blocks() as usize;
        let headroom = ((spare - needed.min(spare)) / 16).clamp(1, 16);
        Self {
            job: None,
            scratch: Scratch::default(),
            emptied: VecDeque::new(),
            trimming: 0,
            headroom,
            idle_headroom: headroom.max((settings.idle_free * spare as f64) as usize),
            credit: 0,
            price: 1,
            longest_read: (READ_BYTES.min(below.most_bytes) / layout.page_bytes).max(1),
        }
    }

    /// The host wrote a page.
    #[inline]
    pub fn paid(&mut self) {
        self.credit = (self.credit + self.price).min(4096);
    }

    /// Segments that are emptied and not free.
    fn coming(&self) -> usize {
        self.emptied.len() + self.trimming
    }

    /// Segments that are emptied and not free, or being emptied.
    pub fn held(&self) -> usize {
        self.coming() + usize::from(self.job.is_some())
    }
}

impl<P: Placement> LogVolume<P> {
    /// Frees what is durably empty, and empties more. Whether something was done.
    pub fn clean(&mut self, actions: &mut Actions) -> bool {
        let mut went_on = self.free_emptied(actions);
        loop {
            if self.cleaner.job.is_none() {
                if !self.should_begin() {
                    return went_on;
                }
                if !self.begin_cleaning(actions) {
                    return false;
                }
            }
            went_on |= self.move_on(actions);
            let Some(job) = &self.cleaner.job else { continue };
            if job.next < job.pages.offsets.len() || job.under_way > 0 {
                return went_on;
            }
            self.end_cleaning();
            went_on = true;
        }
    }

    /// Segments may be written to again if everything that emptied them is known to be durable, and nobody reads there.
    fn free_emptied(&mut self, actions: &mut Actions) -> bool {
        let before = self.cleaner.emptied.len();
        if self.cleaner.emptied.front().is_none_or(|&(_, entry)| entry > self.log.known_durable) {
            return false;
        }
        let mut emptied = std::mem::take(&mut self.cleaner.emptied);
        emptied.retain(|&(segment, entry)| {
            let is_free = entry <= self.log.known_durable && self.segments.is_left(segment.0);
            if is_free {
                self.free(segment, actions);
            }
            !is_free
        });
        self.cleaner.emptied = emptied;
        self.cleaner.emptied.len() < before
    }

    /// A segment may be written to again; if it is trimmed below, when that has ended: of a trim and a write that are under way together either
    /// may be the last.
    fn free(&mut self, segment: EraseBlockId, actions: &mut Actions) {
        if !self.settings.trims {
            self.ftl.reclaim(segment, 0);
            return;
        }
        let length = self.layout.pages_per_segment * self.layout.page_bytes;
        let offset = self.layout.page(segment.0 * self.layout.pages_per_segment);
        self.cleaner.trimming += 1;
        self.below.send(Op::Trim { segment: segment.0 }, IoOp::Trim, offset, length, actions);
    }

    /// A trim has ended. If it failed that is no harm: what is there is not needed, whatever it is.
    pub fn trimmed(&mut self, segment: u32, is_good: bool) {
        self.cleaner.trimming -= 1;
        self.counted.segment_trims += 1;
        self.counted.failed_trims += u64::from(!is_good);
        self.ftl.reclaim(EraseBlockId(segment), 0);
    }

    /// Whether a commit would free segments that are missing, or that were emptied ahead.
    pub fn wants_segments(&self) -> bool {
        let few = self.ftl.free_blocks(0) + self.cleaner.trimming <= self.ftl.reserve() + self.cleaner.headroom / 2;
        let is_ahead = self.activity.is_resting() && self.cleaner.job.is_none();
        (few || is_ahead) && self.cleaner.emptied.front().is_some_and(|&(_, entry)| entry > self.log.known_durable)
    }

    /// Whether cleaning is due, and can gain something.
    fn should_begin(&self) -> bool {
        self.is_short_of(if self.activity.is_resting() { self.cleaner.idle_headroom } else { self.cleaner.headroom })
    }

    /// Whether cleaning while nothing is to be done would have something to do: a segment to empty, or one to free.
    pub fn should_clean_ahead(&self) -> bool {
        self.cleaner.job.is_some() || !self.cleaner.emptied.is_empty() || self.is_short_of(self.cleaner.idle_headroom)
    }

    /// Whether there are no more free segments beyond the reserve than these, and cleaning can gain something.
    fn is_short_of(&self, headroom: usize) -> bool {
        let ahead = self.ftl.free_blocks(0) + self.cleaner.coming();
        if ahead > self.ftl.reserve() + headroom {
            return false;
        }
        // Without a free segment only what was emptied can help; after a power cut there may be neither.
        if self.ftl.free_blocks(0) == 0 && self.cleaner.coming() > 0 {
            return false;
        }
        let pages = u64::from(self.layout.pages_per_segment);
        let open = self.gathered.streams() as u64;
        let used = u64::from(self.layout.segments) - ahead as u64;
        used.saturating_sub(open) * pages >= u64::from(self.host.mapped()) + pages
    }

    /// Chooses a victim. Whether there is one.
    fn begin_cleaning(&mut self, actions: &mut Actions) -> bool {
        // Where nothing is free, there is as much room at the frontiers as the segment has valid pages whose cleaning was cut short: recovery
        // goes on in each stream where it found the last page.
        let has_free = self.ftl.free_blocks(0) > 0;
        let victim = if has_free { self.ftl.choose_victim(self.host.last_stream(), 0) } else { self.ftl.rescue(0) };
        let mut pages = std::mem::take(&mut self.cleaner.scratch);
        self.ftl.survivors(victim, &mut pages);
        let (valid, all) = (pages.offsets.len() as u32, self.layout.pages_per_segment);
        if !has_free && self.ftl.frontier_room(0) < valid {
            self.poison(&format!("no segment is free, and {valid} pages have no room: a bug of the layer"), actions);
            return false;
        }
        self.cleaner.price = valid / (all - valid).max(1) + 1;
        self.counted.idle_cleanings += u64::from(self.activity.is_resting());
        self.cleaner.job = Some(Job { victim, pages, next: 0, under_way: 0 });
        true
    }

    fn end_cleaning(&mut self) {
        if let Some(Job { victim, pages, .. }) = self.cleaner.job.take() {
            self.cleaner.scratch = pages;
            self.ftl.hold(victim);
            self.cleaner.emptied.push_back((victim, self.log.next));
            self.counted.cleanings += 1;
        }
    }

    /// Moves the next pages, as many as are paid for; all if the host has no room.
    fn move_on(&mut self, actions: &mut Actions) -> bool {
        let mut went_on = false;
        let is_urgent = self.activity.is_resting() || self.ftl.free_blocks(0) <= self.ftl.reserve();
        while let Some(job) = &mut self.cleaner.job {
            let place = job.next;
            if place == job.pages.offsets.len() {
                break;
            }
            let first = job.victim.0 * self.layout.pages_per_segment;
            let from = first + u32::from(job.pages.offsets[place]);
            // The host may have written or trimmed it since.
            if !self.ftl.is_valid(Ppn(from)) {
                job.next += 1;
                continue;
            }
            let is_held_back = (self.cleaner.credit == 0 && !is_urgent) || job.under_way == OUTSTANDING;
            if is_held_back || !self.below.can_write() || !self.can_log(2) {
                break;
            }
            went_on = true;
            if let Some(data) = self.in_memory(from) {
                self.step_over(1);
                self.relocate(place, &data, actions);
                continue;
            }
            let pages = self.neighbours(place);
            self.step_over(pages);
            self.log.promise(2 * pages as usize);
            self.read_for_move(place, pages, 1, actions);
        }
        self.send_touched(actions);
        went_on
    }

    fn step_over(&mut self, pages: u32) {
        self.cleaner.credit = self.cleaner.credit.saturating_sub(pages);
        if let Some(job) = &mut self.cleaner.job {
            job.next += pages as usize;
        }
    }

    /// How many valid pages from this place on lie side by side on the device, and can be read at once.
    fn neighbours(&self, place: usize) -> u32 {
        let Some(job) = &self.cleaner.job else { return 0 };
        let first = job.victim.0 * self.layout.pages_per_segment;
        let offsets = &job.pages.offsets[place..];
        let mut pages = 1;
        while pages < self.cleaner.longest_read
            && offsets.get(pages as usize).is_some_and(|&offset| u32::from(offset) == u32::from(offsets[0]) + pages)
            && self.ftl.is_valid(Ppn(first + u32::from(offsets[0]) + pages))
            && self.in_memory(first + u32::from(offsets[0]) + pages).is_none()
            && self.can_log(2 * (pages as usize + 1))
        {
            pages += 1;
        }
        pages
    }

    fn read_for_move(&mut self, place: usize, pages: u32, tries: u32, actions: &mut Actions) {
        let Some(job) = &mut self.cleaner.job else { return };
        job.under_way += 1;
        let from = job.victim.0 * self.layout.pages_per_segment + u32::from(job.pages.offsets[place]);
        self.below.send(Op::Move { place, pages, tries }, IoOp::Read, self.layout.page(from), pages * self.layout.page_bytes, actions);
    }

    /// Pages of the victim were read: those that are still valid get a new place.
    pub fn moved(&mut self, place: usize, pages: u32, data: &Data, actions: &mut Actions) {
        self.log.keep_promise(2 * pages as usize);
        if let Some(job) = &mut self.cleaner.job {
            job.under_way -= 1;
        }
        let page = self.layout.page_bytes as usize;
        for number in 0..pages as usize {
            self.relocate(place + number, &data.slice(number * page..(number + 1) * page), actions);
        }
        self.send_touched(actions);
    }

    fn relocate(&mut self, place: usize, data: &Data, actions: &mut Actions) {
        let Some(job) = &self.cleaner.job else { return };
        let from = Ppn(job.victim.0 * self.layout.pages_per_segment + u32::from(job.pages.offsets[place]));
        let (lpn, to) = (Lpn(job.pages.lpns[place]), job.pages.to[place]);
        if !self.ftl.is_valid(from) {
            return;
        }
        let ppn = self.ftl.relocate(from, lpn, to, 0).0;
        self.counted.relocated_pages += 1;
        self.note(lpn, ppn, data, true, actions);
        self.gather(ppn, data.clone(), None, actions);
    }

    /// Pages of the victim could not be read. They cannot stay there for ever, so it is tried again.
    pub fn not_moved(&mut self, place: usize, pages: u32, tries: u32, failure: &Failure, actions: &mut Actions) {
        let Some(job) = &mut self.cleaner.job else { return };
        job.under_way -= 1;
        if tries < TRIES {
            self.read_for_move(place, pages, tries + 1, actions);
        } else {
            self.poison(&format!("a segment cannot be cleaned: {failure}"), actions);
        }
    }
}
