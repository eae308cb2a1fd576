//! The layer: its commands, their ends, and its deadlines.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use slab::Slab;
use units::{IoOp, Nanos};

use super::NAME;
use super::blocking::Blocking;
use super::counts::{COUNTERS, Counts};
use super::flights::{Flight, Flights, HomeWrite, Own};
use super::geometry::{Geometry, Place};
use super::groups::Groups;
use super::pages::Page;
use super::patience::{Kind, Patience};
use super::reads::Ask;
use super::resting::Resting;
use super::settings::ReplicaSettings;
use super::space::Space;
use super::trims::Trim;
use crate::{Actions, Command, Counter, Data, Failure, Gather, Layer, Limits, Reply};

/// Number of classes of pages whose last change is remembered.
const CHANGES: usize = 4096;

/// See the module's description.
pub struct Replicas {
    pub(super) settings: ReplicaSettings,
    pub(super) geometry: Geometry,
    limits: Limits,
    pub(super) patience: Patience,
    /// Pages that are being written or have replicas.
    pub(super) pages: FxHashMap<u64, Page>,
    pub(super) groups: Groups,
    pub(super) space: Space,
    pub(super) resting: Resting,
    pub(super) at_home: Blocking,
    pub(super) in_slots: Blocking,
    pub(super) flights: Flights,
    pub(super) gather: Gather,
    pub(super) asks: Slab<Ask>,
    pub(super) trims: Slab<Trim>,
    /// Writes that wait for a trim.
    pub(super) held: VecDeque<Command>,
    /// Flushes of the host that wait for homes, each with the stamp of its arrival.
    flushes: VecDeque<(u32, u64)>,
    /// Pages that are acknowledged and not yet at home, by the stamp of the first acknowledged
    /// write.
    pub(super) behind: BTreeMap<u64, u64>,
    /// Stamp of the last write or trim that came to each class of pages.
    changes: Box<[u64]>,
    /// Stamp of the last end of a write to home, or of a trim, in each class of pages.
    ended: Box<[u64]>,
    /// Stamp up to which homes are durable: they hold durably what ended there before.
    durable: u64,
    /// Last stamp; stamps grow with all events whose order matters.
    pub(super) stamp: u64,
    /// Last version that was given.
    pub(super) version: u64,
    pub(super) poisoned: Option<Failure>,
    /// True if reads may give older content than was acknowledged, unless it is known to be
    /// durable.
    pub(super) is_below_unsafe: bool,
    pub(super) counts: Counts,
}

impl Replicas {
    /// Makes the layer over a volume that was formatted or recovered; nothing is replicated.
    pub fn new(settings: ReplicaSettings, geometry: Geometry, below: Limits, seed: u64) -> Self {
        let slots = u64::from(geometry.slots_each()) * u64::from(geometry.partitions);
        Self {
            patience: Patience::new(settings.patience),
            resting: Resting::new(settings.epoch, geometry.partitions),
            groups: Groups::new(settings.by_probability, slots, settings.recency),
            settings,
            geometry,
            limits: Limits { capacity_bytes: geometry.host_bytes(), ..below },
            pages: FxHashMap::default(),
            space: Space::new(geometry, seed),
            at_home: Blocking::default(),
            in_slots: Blocking::default(),
            flights: Flights::default(),
            gather: Gather::default(),
            asks: Slab::new(),
            trims: Slab::new(),
            held: VecDeque::new(),
            flushes: VecDeque::new(),
            behind: BTreeMap::new(),
            changes: vec![0; CHANGES].into_boxed_slice(),
            ended: vec![0; CHANGES].into_boxed_slice(),
            durable: 0,
            stamp: 0,
            version: 0,
            poisoned: None,
            is_below_unsafe: false,
            counts: Counts::default(),
        }
    }

    /// Gives the next stamp.
    pub(super) const fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Gives the pages that a command touches.
    pub(super) const fn pages_of(&self, offset: u64, end: u64) -> std::ops::Range<u64> {
        self.geometry.page_of(offset)..self.geometry.page_of(end - 1) + 1
    }

    /// Notes that a write or trim of a page comes, or that a trim has ended.
    pub(super) fn changes(&mut self, page: u64) {
        let stamp = self.next_stamp();
        self.changes[page as usize % CHANGES] = stamp;
    }

    /// Notes the same for many pages.
    pub(super) fn changes_all(&mut self, pages: std::ops::Range<u64>) {
        if pages.end - pages.start >= CHANGES as u64 {
            let stamp = self.next_stamp();
            self.changes.fill(stamp);
        } else {
            pages.for_each(|page| self.changes(page));
        }
    }

    /// Returns true if no write or trim of a page has come since then; it may be false without
    /// reason.
    pub(super) fn is_unchanged(&self, page: u64, since: u64) -> bool {
        self.changes[page as usize % CHANGES] <= since
    }

    /// Notes that a write of pages to home, or a trim of them, has ended.
    pub(super) fn ends_at_home(&mut self, pages: std::ops::Range<u64>) {
        let stamp = self.next_stamp();
        if pages.end - pages.start >= CHANGES as u64 {
            self.ended.fill(stamp);
        } else {
            pages.for_each(|page| self.ended[page as usize % CHANGES] = stamp);
        }
    }

    /// Returns true if homes hold the newest version of these bytes, and a flush has covered it; it
    /// may be false without reason.
    pub(super) fn is_durable(&self, start: u64, end: u64) -> bool {
        !self.is_trimming(start, end)
            && self.pages_of(start, end).all(|page| {
                self.ended[page as usize % CHANGES] <= self.durable
                    && self.pages.get(&page).is_none_or(Page::is_quiet)
            })
    }

    /// Sends a read or write of bytes of the host to a place.
    pub(super) fn send_to(
        &mut self,
        (own, is_timed): (Own, bool),
        place: Place,
        mut command: Command,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let page = self.geometry.page_of(command.offset);
        let partition = self.geometry.partition(page, place);
        command.offset = self.geometry.offset(command.offset, place);
        let kind = if command.op == IoOp::Read { Kind::Read } else { Kind::Write };
        let patience = self.patience.get(kind, self.flights.len() + 1).filter(|_| is_timed);
        let deadline = patience.map(|patience| now + patience);
        self.space.sent(partition, now);
        self.resting.begins(partition, matches!(own, Own::SlotWrite { .. }), now);
        if let Place::Slot(slot) = place {
            self.space.begins(slot);
        }
        command.id = self.flights.begin(own, Some(partition), now, is_timed, deadline);
        actions.send(command);
    }

    /// Sends a command that concerns no partition.
    pub(super) fn send(
        &mut self,
        own: Own,
        mut command: Command,
        now: Nanos,
        actions: &mut Actions,
    ) {
        command.id = self.flights.begin(own, None, now, false, None);
        actions.send(command);
    }

    /// Gives the blocking probability of a page with its replicas: the sum over its places
    /// (REPLICATION 4.2.1).
    fn probability(
        page: u64,
        pages: &FxHashMap<u64, Page>,
        at_home: &Blocking,
        in_slots: &Blocking,
    ) -> f64 {
        let slots = pages.get(&page).map_or(&[][..], |page| &page.replicas[..]);
        let slots: f64 =
            slots.iter().map(|replica| in_slots.probability(u64::from(replica.slot))).sum();
        at_home.probability(page) + slots
    }

    /// Carries out `AddRG` (algorithm 3): the page comes to the head of the queue with one more
    /// replica.
    pub(super) fn add_to_group(&mut self, page: u64) {
        let Self { pages, at_home, in_slots, groups, .. } = self;
        let probability = |page| Self::probability(page, pages, at_home, in_slots);
        groups.touch(page, probability);
        groups.add(page, probability);
    }

    /// Carries out algorithm 3: a page with replicas that is blocked comes to the head.
    pub(super) fn touch_group(&mut self, page: u64) {
        let Self { pages, at_home, in_slots, groups, .. } = self;
        groups.touch(page, |page| Self::probability(page, pages, at_home, in_slots));
    }

    /// Frees slots that no page has any more.
    pub(super) fn give_up_slots(&mut self, page: u64, slots: &[u32]) {
        for &slot in slots {
            self.groups.lost(page);
            self.space.give_up(slot);
        }
    }

    /// Takes a slot for a replica of a page, in a partition that has none; the policy makes room.
    pub(super) fn take_slot(&mut self, number: u64) -> Option<u32> {
        /// Most pages that give up their replicas for one: they may lie where it must not.
        const EVICTED: usize = 4;
        let mut taken = vec![self.geometry.partition(number, Place::Home)];
        if let Some(page) = self.pages.get(&number) {
            let slots = page.replicas.iter().map(|replica| replica.slot);
            taken.extend(slots.map(|slot| self.geometry.slot_partition(slot)));
        }
        for _ in 0..EVICTED {
            let found = self.space.take(&taken);
            if let Some(slot) = found {
                self.in_slots.forget(u64::from(slot));
                return found;
            }
            let Self { pages, space, groups, .. } = self;
            let may_go = |other: u64| {
                other != number
                    && pages.get(&other).is_some_and(|page| {
                        page.is_quiet()
                            && page.replicas.iter().all(|replica| {
                                replica.is_written && !space.is_under_way(replica.slot)
                            })
                    })
            };
            let victim = groups.victim(may_go)?;
            self.counts.evicted += self.drop_replicas(victim);
        }
        self.space.take(&taken).inspect(|&slot| self.in_slots.forget(u64::from(slot)))
    }

    /// Drops the replicas of a page that is quiet; gives their number.
    pub(super) fn drop_replicas(&mut self, number: u64) -> u64 {
        let Some(page) = self.pages.get_mut(&number) else { return 0 };
        let slots: Vec<u32> = page.replicas.drain(..).map(|replica| replica.slot).collect();
        if page.is_nothing() {
            self.pages.remove(&number);
        }
        self.give_up_slots(number, &slots);
        slots.len() as u64
    }

    /// Poisons the layer: only reads are taken any more.
    pub(super) fn poison(&mut self, failure: &Failure, actions: &mut Actions) {
        let poison = self.poisoned.get_or_insert_with(|| Failure::Poisoned {
            layer: NAME,
            cause: failure.to_string().into(),
        });
        let poison = poison.clone();
        for (id, _) in self.flushes.drain(..) {
            actions.reply(id, Err(poison.clone()));
        }
        for command in self.held.drain(..) {
            actions.reply(command.id, Err(poison.clone()));
        }
        self.fail_waiting_trims(&poison, actions);
    }

    fn flush(&mut self, id: u32, now: Nanos, actions: &mut Actions) {
        let stamp = self.next_stamp();
        self.flushes.push_back((id, stamp));
        self.flush_below(now, actions);
    }

    /// Flushes what is below for the flushes whose pages are all at home.
    pub(super) fn flush_below(&mut self, now: Nanos, actions: &mut Actions) {
        let oldest = self.behind.first_key_value().map_or(u64::MAX, |(&stamp, _)| stamp);
        let ready = self.flushes.partition_point(|&(_, stamp)| stamp < oldest);
        if ready > 0 {
            let ids = self.flushes.drain(..ready).map(|(id, _)| id).collect();
            let stamp = self.next_stamp();
            self.send(Own::Flush { ids, stamp }, Command::new(0, IoOp::Flush, 0, 0), now, actions);
        }
    }

    fn flushed(
        &mut self,
        (ids, stamp): (&[u32], u64),
        outcome: &Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        match outcome {
            Ok(_) if self.poisoned.is_none() => self.durable = self.durable.max(stamp),
            Ok(_) => {}
            Err(failure) => {
                self.is_below_unsafe |= failure.may_have_dropped_writes();
                // A later flush that ended well did not make durable what this one failed to.
                self.durable = if self.durable < stamp { self.durable } else { 0 };
                self.poison(failure, actions);
            }
        }
        ids.iter().for_each(|&id| actions.reply(id, outcome.clone()));
    }

    /// Counts a blocked command, for the places that it concerns.
    fn is_blocked(&mut self, id: u32) {
        let Some(flight) = self.flights.get(id) else { return };
        match flight.own {
            Own::Read { ask, place } => {
                self.counts.blocked_reads += 1;
                self.read_is_blocked(ask, place);
            }
            Own::HomeWrite(HomeWrite { first, pages, .. }) => {
                self.counts.blocked_writes += 1;
                (first..first + pages).for_each(|page| self.at_home.blocked(page));
            }
            Own::SlotWrite { slot, .. } => {
                self.counts.blocked_writes += 1;
                self.in_slots.blocked(u64::from(slot));
            }
            Own::Trim(_) | Own::Flush { .. } => {}
        }
    }

    /// Sends a blocked read or write to the next place, too.
    fn go_elsewhere(&mut self, id: u32, now: Nanos, actions: &mut Actions) {
        let Some(flight) = self.flights.get(id) else { return };
        match &flight.own {
            &Own::Read { ask, .. } => self.ask_another(ask, now, actions),
            &Own::SlotWrite { page, version, .. } => self.hop(page, version, now, actions),
            Own::HomeWrite(write) if write.may_hop => {
                let (first, version) = (write.first, write.version);
                for index in 0..write.pages {
                    self.hop(first + index, version + index, now, actions);
                }
            }
            Own::HomeWrite(_) | Own::Trim(_) | Own::Flush { .. } => {}
        }
    }
}

impl Layer for Replicas {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        command.check(self.limits);
        if let Some(poison) = &self.poisoned {
            let is_safe = command.op == IoOp::Read
                && (!self.is_below_unsafe || self.is_durable(command.offset, command.end()));
            if !is_safe {
                actions.reply(command.id, Err(poison.clone()));
                return;
            }
        }
        match command.op {
            IoOp::Read => self.read(&command, now, actions),
            IoOp::Write => self.write(command, now, actions),
            IoOp::Trim => self.trim(&command, now, actions),
            IoOp::Flush => self.flush(command.id, now, actions),
        }
    }

    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        let Reply { id, outcome } = reply;
        let is_late = self.flights.get(id).is_some_and(|flight| {
            !flight.is_blocked && flight.deadline.is_some_and(|deadline| deadline <= now)
        });
        if is_late {
            self.is_blocked(id);
        }
        let Flight { own, partition, sent_at, depth, is_timed, .. } = self.flights.end(id);
        if let Some(partition) = partition {
            self.space.ended(partition, now);
            self.resting.ends(partition, matches!(own, Own::SlotWrite { .. }), now);
        }
        if is_timed && outcome.is_ok() {
            let kind = if matches!(own, Own::Read { .. }) { Kind::Read } else { Kind::Write };
            self.patience.took(kind, depth, now - sent_at);
            self.resting.took(kind, now - sent_at);
        }
        match own {
            Own::Read { ask, place } => self.read_ended(ask, place, outcome, now, actions),
            Own::HomeWrite(write) => {
                self.ends_at_home(write.first..write.first + write.pages);
                self.home_ended(&write, outcome.err().as_ref(), now, actions);
            }
            Own::SlotWrite { page, slot, version } => {
                self.slot_ended((page, version), slot, outcome.is_err(), now, actions);
            }
            Own::Trim(trim) => self.trimmed(trim, outcome, now, actions),
            Own::Flush { ids, stamp } => self.flushed((&ids, stamp), &outcome, actions),
        }
        self.send_trims(now, actions);
        if let Some(partition) = partition {
            self.write_replicas(partition, now, actions);
        }
    }

    fn wakes_at(&self) -> Option<Nanos> {
        let deadline = self.flights.next_deadline();
        deadline.into_iter().chain(self.resting.next_look()).min()
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        while let Some(id) = self.flights.pop_blocked(now) {
            self.is_blocked(id);
            self.go_elsewhere(id, now, actions);
        }
        while let Some(partition) = self.resting.due(now) {
            self.write_replicas(partition, now, actions);
        }
    }

    fn is_idle(&self) -> bool {
        self.flights.is_empty()
            && self.flushes.is_empty()
            && self.trims.is_empty()
            && self.held.is_empty()
    }

    fn counters(&self) -> &'static [Counter] {
        COUNTERS
    }

    fn count(&self, into: &mut Vec<u64>) {
        let pages = Page::PLACE_BYTES * self.pages.capacity() as u64;
        let changes = ((self.changes.len() + self.ended.len()) * size_of::<u64>()) as u64;
        let maps = self.groups.bytes() + self.space.bytes() + self.resting.bytes();
        let (known_pages, often_blocked_pages) = self.at_home.often();
        let levels = Counts {
            known_pages,
            often_blocked_pages,
            replicas: self.groups.slots(),
            replicated_pages: self.groups.len(),
            behind_pages: self.behind.len() as u64,
            waiting_replicas: self.resting.waiting() as u64,
            interference_ns: self.resting.interference(),
            read_patience_ns: self.patience.longest(Kind::Read),
            write_patience_ns: self.patience.longest(Kind::Write),
            map_bytes: pages + changes + maps + self.at_home.bytes() + self.in_slots.bytes(),
            ..self.counts
        };
        levels.list(into);
    }
}
