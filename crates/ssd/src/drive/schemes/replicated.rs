//! Copies of pages on other dies: no request waits for a die that works for the drive itself if
//! another die can answer (He, Yu & Zhou, REPLICATION).
//!
//! It is built on the page-mapped scheme. Copies are logical pages beyond the host's, in erase
//! blocks of their own, which the scheme below maps and cleans like any others; so their space is
//! taken from the spare space, and their cost there is that of cleaning them.
//!
//! A die is *blocked* while it reclaims space or evens out wear: the drive knows this, and need not
//! guess it from a time. A request to such a die is called blocked at once if the current operation
//! of the die will last beyond the patience D, or if a write finds no room; otherwise once it has
//! waited for D. Then another die is asked (algorithms 1 and 2), which does the work when it has
//! rested long enough ([`thresholds`]). The first result counts. Reads that come too late are given
//! up; programs go on, and are copies.
//!
//! Every copy holds the newest version: a write or trim drops all earlier copies at once. A page
//! whose own place is not programmed yet keeps its copies, as one of them may be the only one that
//! was acknowledged.
//!
//! Simplified: the paper's appendix C (`AddRG`) was not available, only its text. Idle lengths are
//! evaluated when a copy is wanted and an epoch has passed, so an epoch may be longer than
//! requested. Copies move only with cleaning, on their die.

mod blocking;
mod calls;
mod errands;
mod figures;
mod groups;
mod side;

use std::collections::VecDeque;

use placement::{AnyVictim, BuildError, Placement};
use units::{Lpn, Ppn};

pub use figures::{ReplicationCounts, ReplicationFigures};

use self::blocking::Blocking;
use self::calls::{CallId, Calls};
use self::groups::{Group, Groups, MOST_SLOTS};
use self::side::Side;
use super::own_stream::WithOwnStream;
use super::page_mapped::{PageMappedScheme, Place, SchemeSettings};
use super::{ReadPath, Scheme, SchemeCounters, WornOut};
use crate::drive::media::{Cause, Command, CommandId, Done, INITIAL, Media, Tag};
use crate::drive::profile::{CommandOrder, CopyDie, CountedBy, Profile};
use crate::drive::time::{PICOS_PER_SECOND, Picos, picos_of_micros};

/// Greatest difference between the blocking probabilities of two places that count as equal
/// (REPLICATION 4.1).
const SIMILAR: f64 = 0.05;

/// Obstacle to a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    None,
    /// The die works for the drive itself.
    Work,
    /// The die works for the drive itself, and will for longer than the patience.
    LongWork,
}

/// Page mapping with copies of pages.
#[derive(Debug)]
pub struct Replicated<P> {
    below: PageMappedScheme<WithOwnStream<P>, Calls>,
    groups: Groups,
    blocking: Blocking,
    side: Side,
    is_die_random: bool,
    by_block: bool,
    host_pages: u32,
    page_bytes: u32,
    lanes: u32,
    most_places: u32,
    budget: u32,
    patience: Picos,
    /// Time from the start of a command, or from the last check, to the next check: the patience,
    /// but at least the time of a read.
    look_after: Picos,
    read_threshold: f64,
    reads_overtake: bool,
    reads_interrupt: bool,
    epoch: Picos,
    read_time: Picos,
    program_time: Picos,
    /// Times at which to check whether a call is answered.
    looks: VecDeque<(Picos, CallId)>,
    copies_in_lane: Vec<u32>,
    /// One bit per page, set if it may have calls, or copies that wait for a die.
    is_followed: Vec<u64>,
    counts: ReplicationCounts,
    predicted: f64,
}

/// Rule for the counters of places, kept apart from the tables so that those can be changed
/// meanwhile.
#[derive(Clone, Copy)]
struct Places {
    by_block: bool,
    host_pages: u32,
}

impl Places {
    #[inline]
    fn counter(self, lpn: u32, page: Ppn, media: &Media) -> usize {
        if self.by_block { media.layout().block_of(page).index() } else { lpn as usize }
    }

    /// The blocking probability of a group: the sum over its places.
    fn probability<P: Placement>(
        self,
        group: &Group,
        below: &PageMappedScheme<WithOwnStream<P>, Calls>,
        blocking: &Blocking,
        media: &Media,
    ) -> f64 {
        let place = |lpn: u32| {
            let page = below.ftl().lookup(Lpn(lpn))?;
            Some(blocking.probability(self.counter(lpn, page, media)))
        };
        let own = place(group.lpn).unwrap_or(0.0);
        own + group.slots().iter().filter_map(|slot| place(self.host_pages + slot)).sum::<f64>()
    }
}

/// A place of a page on flash.
#[derive(Clone, Copy)]
struct Copy {
    page: Ppn,
    die: u32,
    probability: f64,
    counter: usize,
}

fn lane_of(page: Ppn, media: &Media) -> usize {
    media.layout().plane_of(media.layout().block_of(page)) as usize
}

impl<P: Placement> Replicated<P> {
    /// Makes a policy that keeps copies apart from the host's pages.
    pub fn place_apart(policy: P, profile: &Profile, lanes: u32) -> WithOwnStream<P> {
        WithOwnStream::new(policy, profile.logical_pages(), lanes, "copies")
    }

    /// Makes the scheme over erased media. `settings` has the logical pages of the host and those
    /// of copies, the policy is from [`Self::place_apart`]. `seed` is that of dies drawn at random.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if a plane has too few spare erase blocks.
    pub fn new(
        settings: SchemeSettings<'_>,
        profile: &Profile,
        seed: u64,
        policy: WithOwnStream<P>,
        victims: AnyVictim,
    ) -> Result<Self, BuildError> {
        let config = &profile.replication;
        let (host_pages, budget) = (profile.logical_pages(), profile.replica_pages());
        let layout = settings.layout;
        let (page_bytes, lanes, dies) = (layout.page_bytes, layout.planes(), layout.dies());
        let by_block = config.counted == CountedBy::EraseBlock;
        let places = if by_block { layout.erase_blocks() } else { host_pages + budget };
        let calls = Calls::new(host_pages, lanes);
        let name = &profile.ftl.placement;
        let mut below = PageMappedScheme::watched(settings, name, policy, victims, calls)?;
        below.keep_room_for_copies();
        let m = &profile.media;
        let mean = |times: &[f64]| picos_of_micros(times.iter().sum::<f64>() / times.len() as f64);
        let patience = picos_of_micros(profile.replica_patience_us());
        Ok(Self {
            below,
            groups: Groups::new(config.policy, host_pages, budget, config.recency_share),
            blocking: Blocking::new(places as usize),
            side: Side::new(dies, layout.planes_per_die, seed),
            is_die_random: config.die == CopyDie::Random,
            by_block,
            host_pages,
            page_bytes,
            lanes,
            most_places: config.most_places.min(MOST_SLOTS as u32 + 1),
            budget,
            patience,
            look_after: patience.max(mean(&m.read_us)).max(1),
            read_threshold: config.read_threshold,
            reads_overtake: m.suspend || m.order == CommandOrder::ReadsFirst,
            reads_interrupt: m.suspend,
            epoch: (config.epoch_s * PICOS_PER_SECOND as f64) as Picos,
            read_time: mean(&m.read_us).max(1),
            program_time: mean(&m.program_us).max(1),
            looks: VecDeque::new(),
            copies_in_lane: vec![0; lanes as usize],
            is_followed: vec![0; (host_pages as usize).div_ceil(64)],
            counts: ReplicationCounts::default(),
            predicted: 0.0,
        })
    }

    fn counter_of(&self, lpn: u32, page: Ppn, media: &Media) -> usize {
        self.places().counter(lpn, page, media)
    }

    /// Finds the copies that can be read, the page's own place first. Gives them and their number.
    fn copies_of(&self, lpn: Lpn, page: Ppn, media: &Media) -> ([Copy; MOST_SLOTS + 1], usize) {
        let copy = |lpn: u32, page: Ppn| {
            let counter = self.counter_of(lpn, page, media);
            let probability = self.blocking.probability(counter);
            Copy { page, die: media.layout().die_of(page), probability, counter }
        };
        let mut copies = [copy(lpn.0, page); MOST_SLOTS + 1];
        let mut count = 1;
        if let Some(group) = self.groups.of(lpn.0) {
            for &slot in self.groups.get(group).slots() {
                let lpn = self.host_pages + slot;
                let place = self.below.ftl().lookup(Lpn(lpn));
                if let Some(page) = place.filter(|&page| media.is_programmed(page)) {
                    copies[count] = copy(lpn, page);
                    count += 1;
                }
            }
        }
        (copies, count)
    }

    /// Chooses the best of several places: the one blocked least often, and among similar ones the
    /// one whose die rests most.
    fn preferred(&self, copies: &[Copy], may_be: impl Fn(&Copy) -> bool) -> Option<Copy> {
        copies.iter().filter(|copy| may_be(copy)).copied().reduce(|best, other| {
            let is_similar = (best.probability - other.probability).abs() < SIMILAR;
            let is_better = if is_similar {
                self.side.rest_share(other.die) > self.side.rest_share(best.die)
            } else {
                other.probability < best.probability
            };
            if is_better { other } else { best }
        })
    }

    /// Obstacle to a command that is given to a die now.
    #[inline]
    fn obstacle(&self, die: u32, is_read: bool, media: &Media) -> Obstacle {
        if !self.below.is_cleaning(die, media) {
            return Obstacle::None;
        }
        // It has to clean a whole erase block first.
        if media.is_occupied(die) {
            return Obstacle::LongWork;
        }
        let own = media
            .works_on(die)
            .filter(|&(_, cause, _)| matches!(cause, Cause::Cleaning | Cause::WearLevelling));
        match own {
            // A read usually interrupts that.
            Some(_) if is_read && self.reads_interrupt => Obstacle::Work,
            Some((.., until)) if until > media.now() + self.patience && until != Picos::MAX => {
                Obstacle::LongWork
            }
            // Reads overtake waiting commands; others wait behind them.
            None if is_read && self.reads_overtake => Obstacle::None,
            _ => Obstacle::Work,
        }
    }

    /// Opens a call for a command that was given despite an obstacle.
    fn watch_call(
        &mut self,
        lpn: Lpn,
        read: Option<u32>,
        tag: Tag,
        first: Option<(CommandId, u32)>,
        is_long: bool,
        media: &mut Media,
    ) {
        let content = match (media.witness(), read) {
            (None, _) => INITIAL,
            (Some(witness), None) => witness.brought(tag.number()).unwrap_or(INITIAL),
            (Some(witness), Some(_)) => {
                self.below.ftl().lookup(lpn).map_or(INITIAL, |page| witness.content(page))
            }
        };
        let id = self.below.watch_mut().open_call(lpn, read, tag, content, first);
        self.is_followed[lpn.index() / 64] |= 1 << (lpn.0 % 64);
        self.looks.push_back((media.now() + self.look_after, id));
        if is_long {
            self.ask_another(id, media);
        }
    }

    /// Asks another die for a blocked call, if there is one (algorithm 1, lines 2 to 7; algorithm
    /// 2, lines 4 to 9 and 13).
    fn ask_another(&mut self, id: CallId, media: &mut Media) {
        let Some(&call) = self.below.watch().get(id) else { return };
        if call.is_stale {
            return;
        }
        let (lpn, is_first) = (Lpn(call.lpn), !call.is_blocked);
        // The probability before this access: a page that is blocked for the first time makes no
        // copy.
        let is_often_blocked = self.below.ftl().lookup(lpn).is_some_and(|page| {
            self.blocking.is_above(self.counter_of(lpn.0, page, media), self.read_threshold)
        });
        if let Some(call) = self.below.watch_mut().get_mut(id) {
            call.is_blocked = true;
        }
        if is_first {
            self.tell_blocked(lpn, call.is_read, media);
        }
        if !call.is_read {
            if u32::from(call.ios) < self.most_places {
                self.ask_for_copy(lpn, call.content, Some(id), None, media);
            }
            return;
        }
        let Place::Flash(page) = self.below.locate(lpn, media) else { return };
        let (copies, count) = self.copies_of(lpn, page, media);
        let other = self.preferred(&copies[..count], |copy| {
            !call.tries(copy.die) && self.obstacle(copy.die, true, media) == Obstacle::None
        });
        if let Some(other) = other {
            self.counts.blocked_reads_with_copy += u64::from(is_first);
            self.blocking.accessed(other.counter);
            if let Some(call) = self.below.watch_mut().get_mut(id) {
                call.asks(other.die);
            }
            self.side.ask_to_read(other.die, lpn, id, media);
        } else if is_first && count == 1 && is_often_blocked {
            // Algorithm 3, lines 14 and 15: the data is there once the read is done.
            self.ask_for_copy(lpn, call.content, None, Some(id), media);
        }
    }

    /// Records a blocked access: the part of algorithm 3 that does not wait for a copy to be
    /// written.
    fn tell_blocked(&mut self, lpn: Lpn, is_read: bool, media: &Media) {
        if let Some(page) = self.below.ftl().lookup(lpn) {
            let counter = self.counter_of(lpn.0, page, media);
            self.blocking.blocked(counter);
        }
        if !is_read {
            self.counts.blocked_writes += 1;
            return;
        }
        self.counts.blocked_reads += 1;
        if let Some(group) = self.groups.of(lpn.0) {
            let (places, blocking) = (self.places(), &self.blocking);
            self.groups
                .touch(group, |group| places.probability(group, &self.below, blocking, media));
        }
    }

    fn places(&self) -> Places {
        Places { by_block: self.by_block, host_pages: self.host_pages }
    }

    /// Drops the copies of a page that has changed.
    #[inline]
    fn forget_copies(&mut self, lpn: Lpn, media: &mut Media) {
        let bit = 1 << (lpn.0 % 64);
        if self.is_followed[lpn.index() / 64] & bit != 0 {
            self.is_followed[lpn.index() / 64] &= !bit;
            self.below.watch_mut().make_stale(lpn);
            self.counts.overtaken_copies += self.side.forget(lpn);
        }
        if let Some(group) = self.groups.of(lpn.0) {
            self.remove_group(group, media);
        }
    }

    fn remove_group(&mut self, group: u32, media: &mut Media) {
        let group = self.groups.remove(group);
        for &slot in group.slots() {
            let lpn = self.host_pages + slot;
            if !self.by_block {
                self.blocking.forget(lpn as usize);
            }
            if let Some(page) = self.below.ftl().lookup(Lpn(lpn)) {
                self.copies_in_lane[lane_of(page, media)] -= 1;
            }
            self.below.trim(Lpn(lpn), media);
        }
    }

    /// Checks the calls whose patience is at an end.
    fn look_after_calls(&mut self, media: &mut Media) {
        while let Some(&(at, id)) = self.looks.front()
            && at <= media.now()
        {
            self.looks.pop_front();
            let Some(&call) = self.below.watch().get(id) else { continue };
            if call.is_answered(media) {
                if !call.waits_for_room() {
                    self.close(id);
                    continue;
                }
            } else if !call.is_begun(media)
                && (call.waits_for_room()
                    || call.last_die().is_none_or(|die| {
                        self.obstacle(die, call.is_read, media) != Obstacle::None
                    }))
                && !self.side.waits_for(id)
            {
                self.ask_another(id, media);
            }
            // A worn-out drive answers no more writes.
            if self.below.worn_out().is_none() {
                self.looks.push_back((media.now() + self.look_after, id));
            }
        }
    }

    fn close(&mut self, id: CallId) {
        let Some(&call) = self.below.watch().get(id) else { return };
        self.below.watch_mut().close(id);
        let counts = &mut self.counts;
        *match (call.is_read, call.ios) {
            (true, 0..=1) => &mut counts.reads_of_one,
            (true, 2) => &mut counts.reads_of_two,
            (true, _) => &mut counts.reads_of_more,
            (false, 0..=1) => &mut counts.writes_of_one,
            (false, 2) => &mut counts.writes_of_two,
            (false, _) => &mut counts.writes_of_more,
        } += 1;
    }

    #[inline]
    fn expect(&mut self, counter: usize, is_read: bool) {
        let probability = self.blocking.probability(counter);
        let counts = !is_read || self.blocking.is_above(counter, self.read_threshold);
        if probability > 0.0 && counts {
            self.predicted += probability;
        }
    }

    /// RRead: reads a page that is on flash.
    #[inline]
    fn read_from_flash(&mut self, lpn: Lpn, page: Ppn, bytes: u32, tag: Tag, media: &mut Media) {
        let mut first = Copy {
            page,
            die: media.layout().die_of(page),
            probability: 0.0,
            counter: self.counter_of(lpn.0, page, media),
        };
        let group = self.groups.of(lpn.0);
        if group.is_some() {
            let (copies, count) = self.copies_of(lpn, page, media);
            first = self.preferred(&copies[..count], |_| true).unwrap_or(first);
        }
        self.expect(first.counter, true);
        self.blocking.accessed(first.counter);
        if let Some(group) = group {
            let (places, blocking) = (self.places(), &self.blocking);
            self.groups
                .rerank(group, |group| places.probability(group, &self.below, blocking, media));
        }
        let obstacle = self.obstacle(first.die, true, media);
        let command = Command::read(first.page, bytes, Cause::Host, tag);
        if obstacle == Obstacle::None {
            self.counts.reads_of_one += 1;
            media.submit(command);
            return;
        }
        let id = media.submit_named(command);
        let is_long = obstacle == Obstacle::LongWork;
        self.watch_call(lpn, Some(bytes), tag, Some((id, first.die)), is_long, media);
    }
}

impl<P: Placement> Scheme for Replicated<P> {
    fn logical_pages(&self) -> u32 {
        self.host_pages
    }

    #[inline]
    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        match self.below.locate(lpn, media) {
            Place::Memory => ReadPath::Memory,
            Place::Nowhere => ReadPath::Unmapped,
            Place::Flash(page) => {
                self.read_from_flash(lpn, page, bytes, tag, media);
                ReadPath::Flash
            }
        }
    }

    /// RWrite: writes a page.
    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media) {
        self.forget_copies(lpn, media);
        self.below.write(lpn, tag, media);
        let given = self.below.watch_mut().take_last(tag);
        let place = given.map(|(_, page)| page).or_else(|| self.below.ftl().lookup(lpn));
        if let Some(page) = place {
            let counter = self.counter_of(lpn.0, page, media);
            self.expect(counter, false);
            self.blocking.accessed(counter);
        }
        let Some((id, page)) = given else {
            return self.watch_call(lpn, None, tag, None, true, media);
        };
        let die = media.layout().die_of(page);
        match self.obstacle(die, false, media) {
            Obstacle::None => self.counts.writes_of_one += 1,
            obstacle => {
                let is_long = obstacle == Obstacle::LongWork;
                self.watch_call(lpn, None, tag, Some((id, die)), is_long, media);
            }
        }
    }

    fn fetch(&self, lpns: &[u32], are_written: bool) {
        self.below.fetch(lpns, are_written);
    }

    fn trim(&mut self, lpn: Lpn, media: &mut Media) {
        self.forget_copies(lpn, media);
        self.below.trim(lpn, media);
    }

    fn completed(&mut self, done: &Done, media: &mut Media) {
        if done.command.tag.number() < self.lanes {
            self.below.completed(done, media);
        }
    }

    fn next_wake(&self) -> Option<Picos> {
        let look = self.looks.front().map_or(Picos::MAX, |&(at, _)| at);
        let next =
            self.below.next_wake().unwrap_or(Picos::MAX).min(look).min(self.side.next_look());
        (next != Picos::MAX).then_some(next)
    }

    fn wake(&mut self, media: &mut Media) {
        if self.below.next_wake().is_some_and(|at| at <= media.now()) {
            self.below.wake(media);
        }
        self.look_after_calls(media);
        self.look_after_side(media);
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        self.below.write_untimed(lpn);
    }

    fn trim_untimed(&mut self, lpn: Lpn) {
        self.below.trim_untimed(lpn);
    }

    fn settle(&mut self, media: &mut Media) {
        self.below.settle(media);
    }

    fn is_quiet(&self) -> bool {
        self.below.is_quiet() && self.below.watch().open() == 0 && self.side.is_empty()
    }

    fn streams_left_out(&self) -> usize {
        self.below.streams_left_out()
    }

    fn counters(&self) -> SchemeCounters {
        let counters = self.below.counters();
        SchemeCounters {
            mapping_page_writes: 0,
            replica_page_writes: self.below.watch().copies_written,
            ..counters
        }
    }

    fn replication(&self, media: &Media) -> Option<ReplicationFigures> {
        let [map_bytes, valid_map_bytes] = self.groups.bytes();
        let groups_by_size = self.groups.sizes().to_vec();
        let used_pages = groups_by_size.iter().zip(1..).map(|(count, copies)| count * copies).sum();
        Some(ReplicationFigures {
            counts: self.counts,
            predicted_copies: self.predicted,
            groups_by_size,
            budget_pages: self.budget,
            used_pages,
            interference: (0..media.layout().dies()).map(|die| media.interference(die)).collect(),
            map_bytes,
            valid_map_bytes,
            counter_bytes: self.blocking.bytes(),
            most_queued_bytes: self.side.most_copies() * u64::from(self.page_bytes),
        })
    }

    fn erase_counts(&self) -> &[u32] {
        self.below.erase_counts()
    }

    fn worn_out(&self) -> Option<WornOut> {
        self.below.worn_out()
    }

    fn table_bytes(&self) -> usize {
        let own = self.groups.bytes().iter().sum::<usize>() + self.blocking.bytes();
        self.below.table_bytes() + own + 8 * self.is_followed.len()
    }

    fn audit(&self) -> Result<(), String> {
        self.below.audit()?;
        self.groups.audit()?;
        let mut lying = 0;
        for slot in 0..self.budget {
            let lies = self.below.ftl().lookup(Lpn(self.host_pages + slot)).is_some();
            lying += u32::from(lies);
            if lies != self.groups.is_valid(slot) {
                return Err(format!("copy {slot}: the valid map says {}, the map {lies}", !lies));
            }
        }
        let counted: u32 = self.copies_in_lane.iter().sum();
        if lying != counted {
            return Err(format!("{lying} copies lie on flash, {counted} are counted"));
        }
        Ok(())
    }
}
