//! Cleaning: the valid pages of a victim are read and written elsewhere, a few at a time, paced
//! with the host's writes. An emptied segment becomes free only when all that emptied it is known
//! to be durable.

use std::collections::VecDeque;

use ftl::{Cleaning, PageMapped, Survivor};
use placement::{AnyVictim, Placement};
use units::{EraseBlockId, IoOp, Ppn};

use super::below::Op;
use super::checks::fits;
use super::in_segments::Whose;
use super::layout::VolumeLayout;
use super::settings::VolumeSettings;
use super::volume::LogVolume;
use crate::hash::folded;
use crate::{Actions, Data, Limits};

/// Longest read of neighbouring pages, in bytes.
const READ_BYTES: u32 = 128 << 10;
/// Reads under way.
const OUTSTANDING: u32 = 8;
/// Most bytes of survivors under way.
pub(super) const MOST_HELD_BYTES: u64 = 2 * READ_BYTES as u64 * OUTSTANDING as u64;
/// Times that a read is tried.
pub(super) const TRIES: u32 = 3;

/// State of cleaning.
#[derive(Debug)]
pub(super) struct Cleaner {
    cleaning: Cleaning,
    /// Reads of survivors that are under way.
    reads: u32,
    /// Survivors that are to be read again, each alone, and the number of the try.
    again: VecDeque<(usize, u32)>,
    /// Emptied segments, each with the number of an entry: all that emptied the segment is before
    /// it.
    emptied: VecDeque<(EraseBlockId, u64)>,
    /// Number of segments that are being trimmed below, and are free when that has ended.
    trimming: usize,
    /// Free segments beyond the reserve below which cleaning begins.
    headroom: usize,
    /// The same in idle time.
    idle_headroom: usize,
    /// Pages that may be moved now.
    credit: u32,
    /// Pages that may be moved for each page that the host writes.
    price: u32,
    /// Longest read, in pages.
    longest_read: usize,
}

impl Cleaner {
    pub fn new<P: Placement>(
        layout: &VolumeLayout,
        settings: &VolumeSettings,
        ftl: &PageMapped<P, AnyVictim>,
        below: Limits,
    ) -> Self {
        let needed = ftl.device().streams.len() + ftl.reserve() + 1;
        let spare = layout.spare_segments() as usize;
        let headroom = ((spare - needed.min(spare)) / 16).clamp(1, 16);
        Self {
            cleaning: Cleaning::default(),
            reads: 0,
            again: VecDeque::new(),
            emptied: VecDeque::new(),
            trimming: 0,
            headroom,
            idle_headroom: headroom.max((settings.idle_free * spare as f64) as usize),
            credit: 0,
            price: 1,
            longest_read: (READ_BYTES.min(below.most_bytes) / layout.page_bytes).max(1) as usize,
        }
    }

    /// Adds to the credit for a page that the host wrote.
    #[inline]
    pub fn paid(&mut self) {
        self.credit = (self.credit + self.price).min(4096);
    }

    /// Gives the number of segments that are emptied and not free.
    fn coming(&self) -> usize {
        self.emptied.len() + self.trimming
    }

    /// Gives the number of segments that are emptied and not free, or being emptied.
    pub fn held(&self) -> usize {
        self.coming() + usize::from(self.is_cleaning())
    }

    fn is_cleaning(&self) -> bool {
        self.cleaning.victim().is_some()
    }
}

impl<P: Placement> LogVolume<P> {
    /// Frees segments that are durably empty, and empties more. Returns true if something was done.
    pub fn clean(&mut self, actions: &mut Actions) -> bool {
        let mut went_on = self.free_emptied(actions);
        loop {
            if !self.cleaner.is_cleaning() {
                if !self.should_begin() {
                    return went_on;
                }
                if !self.begin_cleaning(actions) {
                    return false;
                }
            }
            went_on |= self.move_on(actions);
            if !self.cleaner.cleaning.is_done(&self.ftl) {
                return went_on;
            }
            self.end_cleaning();
            went_on = true;
        }
    }

    /// Frees segments if all that emptied them is known to be durable, and nobody reads there.
    /// Returns true if there were any.
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

    /// Frees a segment; one that is trimmed below, when that has ended: of a trim and a write that
    /// are under way together either may be the last.
    fn free(&mut self, segment: EraseBlockId, actions: &mut Actions) {
        if !self.settings.trims {
            self.ftl.reclaim(segment, 0);
            return;
        }
        let length = self.layout.segment_bytes() as u32;
        let offset = self.layout.segment(segment.0);
        self.cleaner.trimming += 1;
        self.below.send(Op::Trim { segment: segment.0 }, IoOp::Trim, offset, length, actions);
    }

    /// Ends a trim. A failure does no harm: the bytes there are not needed.
    pub fn trimmed(&mut self, segment: u32, is_good: bool) {
        self.cleaner.trimming -= 1;
        self.counts.segment_trims += 1;
        self.counts.failed_trims += u64::from(!is_good);
        self.ftl.reclaim(EraseBlockId(segment), 0);
    }

    /// Returns true if a commit would free segments that are missing, or that were emptied ahead.
    pub fn wants_segments(&self) -> bool {
        self.wants_to_free()
            && self
                .cleaner
                .emptied
                .front()
                .is_some_and(|&(_, entry)| entry > self.log.known_durable)
    }

    /// Returns true if segments are missing, or are emptied ahead.
    pub fn wants_to_free(&self) -> bool {
        let few = self.ftl.free_blocks(0) + self.cleaner.trimming
            <= self.ftl.reserve() + self.cleaner.headroom / 2;
        few || self.activity.is_resting() && !self.cleaner.is_cleaning()
    }

    /// Gives the emptied segments of which it is known that all that emptied them is durable.
    pub fn emptied_and_known(&self) -> impl Iterator<Item = u32> + '_ {
        let known = |&(segment, entry): &(EraseBlockId, u64)| {
            (entry <= self.log.known_durable).then_some(segment.0)
        };
        self.cleaner.emptied.iter().filter_map(known)
    }

    /// Returns true if cleaning is due, and can gain something.
    fn should_begin(&self) -> bool {
        self.is_short_of(if self.activity.is_resting() {
            self.cleaner.idle_headroom
        } else {
            self.cleaner.headroom
        })
    }

    /// Returns true if cleaning in idle time would have something to do: a segment to empty, or one
    /// to free.
    pub fn should_clean_ahead(&self) -> bool {
        self.cleaner.is_cleaning()
            || !self.cleaner.emptied.is_empty()
            || self.is_short_of(self.cleaner.idle_headroom)
    }

    /// Returns true if no more free segments than these are left beyond the reserve, and cleaning
    /// can gain something.
    fn is_short_of(&self, headroom: usize) -> bool {
        let ahead = self.ftl.free_blocks(0) + self.cleaner.coming();
        if ahead > self.ftl.reserve() + headroom {
            return false;
        }
        // Without a free segment only emptied ones can help; after a power cut there may be
        // neither.
        if self.ftl.free_blocks(0) == 0 && self.cleaner.coming() > 0 {
            return false;
        }
        let pages = u64::from(self.layout.data_pages_per_segment());
        let open = self.gathered.streams() as u64;
        let used = u64::from(self.layout.segments) - ahead as u64;
        used.saturating_sub(open) * pages >= u64::from(self.host.mapped()) + pages
    }

    /// Chooses a victim. Returns true if there is one.
    fn begin_cleaning(&mut self, actions: &mut Actions) -> bool {
        // If nothing is free, the frontiers have room for all valid pages of the segment whose
        // cleaning was cut short: recovery goes on in each stream where it found the last page.
        let has_free = self.ftl.free_blocks(0) > 0;
        while has_free && let Some(stream) = self.ftl.stream_to_close(0) {
            self.send_run(stream, actions);
            self.ftl.close(stream, 0);
            // Before the segment can be emptied and opened by another stream.
            self.write_footer(stream, actions);
        }
        // A summary in a segment takes room that the policies do not know of.
        let is_tight =
            self.layout.form.in_segments && self.ftl.free_blocks(0) <= self.ftl.reserve();
        let victim = if has_free && !is_tight {
            self.ftl.choose_victim(self.host.last_stream(), 0)
        } else {
            self.ftl.rescue(0)
        };
        self.cleaner.cleaning.begin(victim, 0, &mut self.ftl);
        let (valid, all) = (self.cleaner.cleaning.survivors(), self.layout.pages_per_segment);
        if !has_free && self.ftl.frontier_room(0) < valid {
            self.poison(
                &format!("no segment is free, and {valid} pages have no room: a bug of the layer"),
                actions,
            );
            return false;
        }
        self.cleaner.price = valid / (all - valid).max(1) + 1;
        self.counts.idle_cleanings += u64::from(self.activity.is_resting());
        true
    }

    fn end_cleaning(&mut self) {
        let victim = self.cleaner.cleaning.end();
        self.ftl.hold(victim);
        self.cleaner.emptied.push_back((victim, self.log.next));
        self.counts.cleanings += 1;
    }

    /// Moves the next pages, as many as are paid for; all if the host has no room.
    fn move_on(&mut self, actions: &mut Actions) -> bool {
        let mut went_on = self.read_again(actions);
        let is_urgent = self.activity.is_resting() || self.ftl.free_blocks(0) <= self.ftl.reserve();
        while let Some((number, survivor)) = self.cleaner.cleaning.next(&self.ftl) {
            let is_held_back =
                (self.cleaner.credit == 0 && !is_urgent) || self.cleaner.reads == OUTSTANDING;
            if is_held_back || !self.below.can_write() || !self.can_log(2) {
                break;
            }
            went_on = true;
            if let Some(data) = self.in_memory(survivor.from.0) {
                self.take(1);
                self.relocate(number, TRIES, &data, actions);
                continue;
            }
            let pages = self.cleaner.cleaning.neighbours(
                number,
                self.cleaner.longest_read,
                |before, other| {
                    self.ftl.is_valid(other.from)
                        && self.in_memory(other.from.0).is_none()
                        && self.can_log(2 * (before + 1))
                },
            );
            self.take(pages);
            self.log.promise(2 * pages);
            self.read_for_move(number, pages, 1, actions);
        }
        self.send_touched(actions);
        went_on
    }

    fn take(&mut self, pages: usize) {
        self.cleaner.credit = self.cleaner.credit.saturating_sub(pages as u32);
        self.cleaner.cleaning.take(pages);
    }

    fn read_for_move(&mut self, number: usize, pages: usize, tries: u32, actions: &mut Actions) {
        self.cleaner.reads += 1;
        let at = self.layout.page(self.cleaner.cleaning.survivor(number).from.0);
        let length = pages as u32 * self.layout.page_bytes;
        self.below.send(Op::Move { number, pages, tries }, IoOp::Read, at, length, actions);
    }

    /// Reads survivors again that could not be read or did not have their checksum, as far as there
    /// is room. Returns true if there were any.
    fn read_again(&mut self, actions: &mut Actions) -> bool {
        let before = self.cleaner.again.len();
        while self.cleaner.reads < OUTSTANDING
            && self.below.can_write()
            && self.can_log(2)
            && let Some((number, tries)) = self.cleaner.again.pop_front()
        {
            self.log.promise(2);
            self.read_for_move(number, 1, tries, actions);
        }
        self.cleaner.again.len() < before
    }

    /// Takes survivors that were read: those that are still valid get a new place.
    pub fn moved(
        &mut self,
        number: usize,
        pages: usize,
        tries: u32,
        data: &Data,
        actions: &mut Actions,
    ) {
        self.log.keep_promise(2 * pages);
        self.cleaner.reads -= 1;
        let page = self.layout.page_bytes as usize;
        for place in 0..pages {
            let data = data.slice(place * page..(place + 1) * page);
            self.relocate(number + place, tries, &data, actions);
        }
        self.send_touched(actions);
    }

    /// Moves a survivor that is still valid, if it has its checksum, which it keeps: other bytes
    /// never get a new one.
    fn relocate(&mut self, number: usize, tries: u32, data: &Data, actions: &mut Actions) {
        let Survivor { lpn, from, .. } = self.cleaner.cleaning.survivor(number);
        let mut check = 0;
        if !data.is_absent() && self.ftl.is_valid(from) {
            check = self.checksum_of(data);
            if !fits(self.checks.of(lpn.0), folded(check)) {
                self.counts.bad_reads += 1;
                self.not_readable(number, tries, actions);
                return;
            }
        }
        if self.ftl.is_valid(from) && !self.make_way(Whose::Own, actions) {
            self.poison("no segment is free for a page that is moved: a bug of the layer", actions);
            return;
        }
        let Some(Ppn(ppn)) = self.cleaner.cleaning.relocate(number, &mut self.ftl) else { return };
        self.counts.relocated_pages += 1;
        self.note(lpn, ppn, check, true, actions);
        self.gather(ppn, data.clone(), None, actions);
    }

    /// Notes that survivors could not be read.
    pub fn not_moved(&mut self, number: usize, pages: usize, tries: u32, actions: &mut Actions) {
        self.log.keep_promise(2 * pages);
        self.cleaner.reads -= 1;
        (number..number + pages).for_each(|number| self.not_readable(number, tries, actions));
    }

    /// Tries again a survivor that could not be read, as it cannot stay for ever; in the end it is
    /// lost.
    fn not_readable(&mut self, number: usize, tries: u32, actions: &mut Actions) {
        let Survivor { lpn, from, .. } = self.cleaner.cleaning.survivor(number);
        let is_valid = self.ftl.is_valid(from);
        if is_valid && tries < TRIES {
            self.cleaner.again.push_back((number, tries + 1));
            return;
        }
        if is_valid {
            self.lose(lpn, from.0, actions);
        }
        let moved = self.cleaner.cleaning.relocate(number, &mut self.ftl);
        debug_assert_eq!(moved, None, "nothing is left to be moved");
    }
}
