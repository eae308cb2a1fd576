//! Commands on the side: extra reads and copies, given to dies that have rested long enough
//! (REPLICATION 4.2.2).

use ftl::Thresholds;
use placement::Placement;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::Lpn;

use super::calls::{CallId, Copy};
use super::errands::{Errand, Errands, Room};
use super::{Obstacle, Replicated};
use crate::drive::media::{Cause, Command, Content, Media, Tag};
use crate::drive::time::Picos;

#[derive(Debug)]
struct DieSide {
    errands: Errands,
    look_at: Picos,
    /// Start of the idle period that was used last; then the numbers of reads and writes given in
    /// it.
    period: Picos,
    reads: usize,
    writes: usize,
    for_reads: Thresholds,
    for_writes: Thresholds,
    /// Reads wanted in this epoch; then writes.
    reads_wanted: u64,
    writes_wanted: u64,
    /// Wanted writes that may answer a write of the host.
    writes_waited_for: u64,
    rest_before: Picos,
    rest_share: f64,
}

/// The queues of all dies.
#[derive(Debug)]
pub(super) struct Side {
    dies: Vec<DieSide>,
    planes_per_die: u32,
    next_look: Picos,
    waiting_copies: u64,
    most_copies: u64,
    epoch_end: Picos,
    epoch_from: Picos,
    /// Rotates over dies and lanes, so that equals take turns.
    turn: u32,
    random: Pcg64Mcg,
}

impl Side {
    /// `seed` is that of dies that are drawn at random.
    pub fn new(dies: u32, planes_per_die: u32, seed: u64) -> Self {
        let die = |_| DieSide {
            errands: Errands::default(),
            look_at: Picos::MAX,
            period: Picos::MAX,
            reads: 0,
            writes: 0,
            for_reads: Thresholds::default(),
            for_writes: Thresholds::default(),
            reads_wanted: 0,
            writes_wanted: 0,
            writes_waited_for: 0,
            rest_before: 0,
            rest_share: 0.0,
        };
        Self {
            dies: (0..dies).map(die).collect(),
            planes_per_die,
            next_look: Picos::MAX,
            waiting_copies: 0,
            most_copies: 0,
            epoch_end: 0,
            epoch_from: 0,
            turn: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    pub fn next_look(&self) -> Picos {
        self.next_look
    }

    pub fn is_empty(&self) -> bool {
        self.dies.iter().all(|die| die.errands.is_empty())
    }

    /// Most copies that waited at once.
    pub fn most_copies(&self) -> u64 {
        self.most_copies
    }

    /// Share of the last epoch in which a die rested.
    pub fn rest_share(&self, die: u32) -> f64 {
        self.dies[die as usize].rest_share
    }

    /// Returns true if an errand of a call waits.
    pub fn waits_for(&self, id: CallId) -> bool {
        self.dies.iter().flat_map(|die| die.errands.iter()).any(|errand| errand.is_for(id))
    }

    /// Asks a die to read a copy.
    pub fn ask_to_read(&mut self, die: u32, lpn: Lpn, call: CallId, media: &Media) {
        let side = &mut self.dies[die as usize];
        side.reads_wanted += 1;
        side.errands.insert(Errand::Read { lpn, call });
        self.look(die, media.now());
    }

    fn look(&mut self, die: u32, at: Picos) {
        self.dies[die as usize].look_at = at;
        self.next_look = self.next_look.min(at);
    }

    /// Drops the errands for an old version of a page. Gives the number of copies among them.
    pub fn forget(&mut self, lpn: Lpn) -> u64 {
        let copies = self.dies.iter_mut().map(|die| die.errands.forget(lpn)).sum();
        self.waiting_copies -= copies;
        copies
    }

    /// Takes an errand of a die.
    fn take(&mut self, die: u32, place: usize, errand: &Errand) {
        self.dies[die as usize].errands.remove(place);
        self.waiting_copies -= u64::from(errand.is_copy());
    }
}

impl<P: Placement> Replicated<P> {
    /// Recomputes the thresholds if an epoch has passed since the last time.
    fn look_at_epoch(&mut self, media: &mut Media) {
        let now = media.now();
        if now < self.side.epoch_end {
            return;
        }
        if self.side.epoch_end == 0 {
            media.watch_rests(self.read_time);
        }
        let elapsed = (now - self.side.epoch_from).max(1) as f64;
        let work = |time: Picos| time.div_ceil(self.read_time) as u32;
        for (number, die) in (0..).zip(&mut self.side.dies) {
            let lengths = media.take_idle_lengths(number);
            if self.side.epoch_end > 0 {
                let program = work(self.program_time);
                let waited = die.writes_waited_for as f64 / die.writes_wanted.max(1) as f64;
                die.for_reads = Thresholds::of_lengths(&lengths, 1, die.reads_wanted, 1.0);
                die.for_writes =
                    Thresholds::of_lengths(&lengths, program, die.writes_wanted, waited);
            }
            (die.reads_wanted, die.writes_wanted, die.writes_waited_for) = (0, 0, 0);
            let rest = media.time_idle(number);
            die.rest_share = (rest - die.rest_before) as f64 / elapsed;
            die.rest_before = rest;
        }
        self.side.epoch_from = now;
        self.side.epoch_end = now + self.epoch;
    }

    /// Asks a die for a copy: one that has no place of the page and is not blocked. That is one at
    /// random, or the one with the fewest errands, then one that is idle, then the one that rested
    /// most; among equals, the next in turn.
    pub(super) fn ask_for_copy(
        &mut self,
        lpn: Lpn,
        content: Content,
        call: Option<CallId>,
        after: Option<CallId>,
        media: &mut Media,
    ) {
        self.look_at_epoch(media);
        let dies = self.side.dies.len() as u32;
        let own = self.below.ftl().lookup(lpn).map(|page| media.layout().die_of(page));
        let of = call.and_then(|id| self.below.watch().get(id)).copied();
        self.side.turn = (self.side.turn + 1) % dies;
        let turn = self.side.turn;
        let may_be = |&die: &u32| {
            own != Some(die)
                && !of.is_some_and(|call| call.tries(die))
                && self.obstacle(die, false, media) == Obstacle::None
        };
        let standing = |die: u32| {
            let side = &self.side.dies[die as usize];
            (side.errands.len(), !media.is_idle(die), 1.0 - side.rest_share)
        };
        let all = (0..dies).map(|number| (number + turn) % dies).filter(may_be);
        let chosen = if self.is_die_random {
            let all: Vec<u32> = all.collect();
            let draws = !all.is_empty();
            draws.then(|| self.side.random.random_range(0..all.len())).map(|drawn| all[drawn])
        } else {
            all.reduce(|best, die| if standing(die) < standing(best) { die } else { best })
        };
        let Some(die) = chosen else { return };
        let side = &mut self.side.dies[die as usize];
        // A call that was refused asks again, and still wants one copy.
        if of.is_none_or(|call| !call.has_asked_for_copy) {
            side.writes_wanted += 1;
            side.writes_waited_for += u64::from(call.is_some());
        }
        if let Some(call) = call.and_then(|id| self.below.watch_mut().get_mut(id)) {
            call.has_asked_for_copy = true;
        }
        let room = self.side.dies[die as usize].errands.make_room(call.is_some());
        self.counts.refused_copies += u64::from(room != Room::Free);
        match room {
            Room::Free => {}
            Room::Made => self.side.waiting_copies -= 1,
            Room::Full => return,
        }
        let errand = Errand::Write { lpn, content, call, after };
        self.side.dies[die as usize].errands.insert(errand);
        self.side.waiting_copies += 1;
        self.side.most_copies = self.side.most_copies.max(self.side.waiting_copies);
        self.is_followed[lpn.index() / 64] |= 1 << (lpn.0 % 64);
        if let Some(call) = call.and_then(|id| self.below.watch_mut().get_mut(id)) {
            call.asks(die);
        }
        self.side.look(die, media.now());
    }

    /// Checks the dies whose time has come.
    pub(super) fn look_after_side(&mut self, media: &mut Media) {
        if self.side.next_look > media.now() {
            return;
        }
        self.look_at_epoch(media);
        for die in 0..self.side.dies.len() as u32 {
            if self.side.dies[die as usize].look_at <= media.now() {
                self.side.dies[die as usize].look_at = Picos::MAX;
                self.look_after_die(die, media);
            }
        }
        let looks = self.side.dies.iter().map(|die| die.look_at);
        self.side.next_look = looks.min().unwrap_or(Picos::MAX);
    }

    /// Gives a die its errands, if it has rested long enough.
    fn look_after_die(&mut self, die: u32, media: &mut Media) {
        let now = media.now();
        loop {
            while let Some(first) = self.side.dies[die as usize].errands.first()
                && !self.is_wanted(&first, media)
            {
                self.side.take(die, 0, &first);
            }
            let errands = &self.side.dies[die as usize].errands;
            let next = errands.next(|errand| self.is_ready(errand, media));
            let Some((place, errand, is_ready)) = next else { return };
            let look_at = match self.rested_enough_at(die, &errand, media) {
                Some(at) if at <= now && is_ready => {
                    self.side.take(die, place, &errand);
                    self.give(die, errand, media);
                    continue;
                }
                Some(at) if at > now => at,
                // Its data is not there yet, or the die works: check again when that is expected to
                // be over, or after the time of a read.
                _ => {
                    let until = media.works_on(die).map_or(0, |(.., until)| until);
                    let known = Some(until).filter(|&until| until != Picos::MAX).unwrap_or(0);
                    known.max(now + self.read_time)
                }
            };
            self.side.dies[die as usize].look_at = look_at;
            return;
        }
    }

    /// Time from which a die that rests may be given an errand.
    fn rested_enough_at(&mut self, die: u32, errand: &Errand, media: &Media) -> Option<Picos> {
        let (period, idle) = (media.rests_since(die)?, media.idle_since(die)?);
        let side = &mut self.side.dies[die as usize];
        if side.period != period {
            (side.period, side.reads, side.writes) = (period, 0, 0);
        }
        let threshold = match errand {
            Errand::Read { .. } => side.for_reads.of(side.reads),
            Errand::Write { .. } => side.for_writes.of(side.writes),
        };
        Some(idle + Picos::from(threshold) * self.read_time)
    }

    fn is_wanted(&self, errand: &Errand, media: &Media) -> bool {
        match *errand {
            Errand::Read { call, .. } => {
                self.below.watch().get(call).is_some_and(|call| !call.is_answered(media))
            }
            Errand::Write { .. } => true,
        }
    }

    /// Returns true if the data of a copy is there.
    fn is_ready(&self, errand: &Errand, media: &Media) -> bool {
        match *errand {
            Errand::Write { after: Some(id), .. } => {
                self.below.watch().get(id).is_none_or(|call| call.is_answered(media))
            }
            _ => true,
        }
    }

    fn give(&mut self, die: u32, errand: Errand, media: &mut Media) {
        match errand {
            Errand::Read { lpn, call } => self.read_copy(die, lpn, call, media),
            Errand::Write { lpn, content, call, after } => {
                let done = self.write_copy(die, lpn, content, call, media);
                let counts = &mut self.counts;
                *match (done, after) {
                    (false, _) => &mut counts.refused_copies,
                    (true, None) => &mut counts.copies_of_writes,
                    (true, Some(_)) => &mut counts.copies_of_reads,
                } += 1;
                self.side.dies[die as usize].writes += 1;
            }
        }
    }

    fn read_copy(&mut self, die: u32, lpn: Lpn, id: CallId, media: &mut Media) {
        let Some(&call) = self.below.watch().get(id) else { return };
        let super::Place::Flash(page) = self.below.locate(lpn, media) else { return };
        let (copies, count) = self.copies_of(lpn, page, media);
        let Some(copy) = copies[..count].iter().find(|copy| copy.die == die) else { return };
        let command = Command::read(copy.page, call.bytes, Cause::Replication, call.tag);
        self.below.watch_mut().read(id, command, media);
        self.counts.extra_reads += 1;
        self.side.dies[die as usize].reads += 1;
    }

    /// Writes a copy of a page to a die, and makes room for it. Returns true if that was possible.
    fn write_copy(
        &mut self,
        die: u32,
        lpn: Lpn,
        content: Content,
        call: Option<CallId>,
        media: &mut Media,
    ) -> bool {
        let places = self.groups.of(lpn.0).map_or(0, |group| self.groups.get(group).slots().len());
        if places + 1 >= self.most_places as usize || !self.has_slot(lpn, media) {
            return false;
        }
        let slot = self.groups.free_slot().expect("room was made");
        let copy = Lpn(self.host_pages + slot);
        let call = call.filter(|&id| self.below.watch().get(id).is_some()).map(|id| id.number);
        let planes = self.side.planes_per_die;
        let nobody: Tag = self.below.watch().nobody();
        self.side.turn = self.side.turn.wrapping_add(1) % self.side.dies.len() as u32;
        let is_written = (0..planes).any(|number| {
            let lane = die * planes + (number + self.side.turn) % planes;
            if self.copies_in_lane[lane as usize] >= self.below.most_copies(lane, self.host_pages) {
                return false;
            }
            self.below.watch_mut().copy = Some(Copy { call, content });
            let is_written = self.below.write_into(copy, lane, nobody, media);
            self.copies_in_lane[lane as usize] += u32::from(is_written);
            is_written
        });
        self.below.watch_mut().copy = None;
        if !is_written {
            return false;
        }
        if let Some((old, new)) =
            call.and_then(|number| self.below.watch_mut().take_retagged(number))
        {
            self.below.retag(old, new);
        }
        let (places, blocking) = (self.places(), &self.blocking);
        self.groups.add(lpn.0, |group| places.probability(group, &self.below, blocking, media));
        true
    }

    /// Returns true if there is a place for a copy, after evicting another page's copies if needed.
    fn has_slot(&mut self, lpn: Lpn, media: &mut Media) -> bool {
        while self.groups.free_slot().is_none() {
            let is_safe = |page: u32| {
                page != lpn.0
                    && !self.below.waits(Lpn(page))
                    && self
                        .below
                        .ftl()
                        .lookup(Lpn(page))
                        .is_some_and(|place| media.is_programmed(place))
            };
            let Some(victim) = self.groups.victim(is_safe) else { return false };
            self.remove_group(victim, media);
            self.counts.evicted_groups += 1;
        }
        true
    }
}
