//! RWrite (REPLICATION 4.1, algorithm 2).

use units::{IoOp, Nanos};

use super::flights::{HomeWrite, Own, PartOfPage};
use super::geometry::Place;
use super::layer::Replicas;
use super::pages::{Page, Replica, Waiting};
use super::resting::Due;
use crate::{Actions, Command, Data, Failure, Gather, ParentPart};

/// Bytes of the host that are written at home with one command.
#[derive(Debug)]
struct Run {
    start: u64,
    end: u64,
    write: HomeWrite,
}

/// One page of a write of the host.
struct PageWrite {
    page: u64,
    start: u64,
    end: u64,
    version: u64,
    part: ParentPart,
    is_fua: bool,
    /// True if it may be written to slots.
    may_hop: bool,
}

impl Replicas {
    pub(super) fn write(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        if self.is_trimming(command.offset, command.end()) {
            self.counts.held_writes += 1;
            self.held.push_back(command);
            return;
        }
        let pages = self.pages_of(command.offset, command.end());
        let count = pages.end - pages.start;
        let is_long = count > self.settings.run_pages;
        let parent = self.gather.begin(command.id, count as u32);
        let mut run: Option<Run> = None;
        for (place, page) in pages.enumerate() {
            self.version += 1;
            let start = command.offset.max(self.geometry.page_start(page));
            let one = PageWrite {
                page,
                start,
                end: command.end().min(self.geometry.page_start(page + 1)),
                version: self.version,
                part: Gather::part(parent, place as u32),
                is_fua: command.is_fua,
                may_hop: !is_long && !command.is_fua,
            };
            let data = command
                .data
                .slice((start - command.offset) as usize..(one.end - command.offset) as usize);
            if self.arrive(&one, data) {
                self.add_to_run(&mut run, &one, &command, now, actions);
            } else {
                // Home is busy with an earlier write: another place is written at once.
                self.send_run(run.take(), &command, now, actions);
                self.hop(page, one.version, now, actions);
            }
        }
        self.send_run(run, &command, now, actions);
    }

    /// Takes a write of a page; returns true if it goes to home at once.
    fn arrive(&mut self, one: &PageWrite, data: Data) -> bool {
        let &PageWrite { page: number, start, end, version, part, is_fua, may_hop } = one;
        self.changes(number);
        let page_start = self.geometry.page_start(number);
        let page = self.pages.entry(number).or_default();
        let bytes = if end - start == u64::from(self.geometry.page_bytes) {
            Some(data)
        } else {
            // A part completes to a whole page if the rest is in memory.
            page.data.as_ref().map(|whole| whole.patched((start - page_start) as usize, &data))
        };
        let is_whole = bytes.is_some();
        let may_hop = may_hop && is_whole;
        let given_up = page.comes(version, may_hop);
        let goes_home = if is_whole {
            let goes_home = !page.is_home_busy() && !page.waits_for_reads;
            page.is_writing_home |= goes_home;
            page.data = bytes;
            let places = u8::from(goes_home);
            page.waiting.push(Waiting { version, part, needs_home: is_fua, may_hop, places });
            goes_home
        } else {
            page.parts_under_way += 1;
            true
        };
        self.counts.home_only_pages += u64::from(!may_hop);
        self.counts.invalidated += given_up.len() as u64;
        self.give_up_slots(number, &given_up);
        goes_home
    }

    fn add_to_run(
        &mut self,
        run: &mut Option<Run>,
        one: &PageWrite,
        command: &Command,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let is_part = one.end - one.start < u64::from(self.geometry.page_bytes);
        let &PageWrite { page, version, part, .. } = one;
        let partly = is_part.then_some(PartOfPage { page, part });
        match run {
            Some(run) if !one.start.is_multiple_of(self.geometry.home_bytes) => {
                run.end = one.end;
                run.write.pages += 1;
                run.write.may_hop &= !is_part;
                run.write.parts.extend(partly);
            }
            _ => {
                self.send_run(run.take(), command, now, actions);
                let write = HomeWrite {
                    first: page,
                    pages: 1,
                    version,
                    parts: partly.into_iter().collect(),
                    may_hop: one.may_hop && !is_part,
                };
                *run = Some(Run { start: one.start, end: one.end, write });
            }
        }
    }

    fn send_run(&mut self, run: Option<Run>, command: &Command, now: Nanos, actions: &mut Actions) {
        let Some(Run { start, end, write }) = run else { return };
        let range = (start - command.offset) as usize..(end - command.offset) as usize;
        let part = Command {
            id: 0,
            op: IoOp::Write,
            offset: start,
            length: (end - start) as u32,
            is_fua: command.is_fua,
            lifetime: command.lifetime,
            data: command.data.slice(range),
        };
        self.write_home(write, part, now, actions);
    }

    fn write_home(
        &mut self,
        write: HomeWrite,
        command: Command,
        now: Nanos,
        actions: &mut Actions,
    ) {
        // A write with FUA, of a part of a page or of many pages takes long without being blocked.
        let is_timed = write.may_hop;
        if is_timed {
            (write.first..write.first + write.pages).for_each(|page| self.at_home.accessed(page));
        }
        self.send_to((Own::HomeWrite(write), is_timed), Place::Home, command, now, actions);
    }

    /// Writes the newest version of a page to one more place, if it may be, it has this number, and
    /// its write has not ended.
    pub(super) fn hop(&mut self, number: u64, version: u64, now: Nanos, actions: &mut Actions) {
        let Some(page) = self.pages.get(&number) else { return };
        let is_wanted = page.newest == version && page.current < version && page.may_hop;
        let is_full = page.slots_taken + 1 >= self.settings.most_places;
        if !is_wanted || is_full || self.poisoned.is_some() {
            return;
        }
        let slot = if self.behind.len() < self.settings.most_behind {
            self.take_slot(number)
        } else {
            None
        };
        let (Some(slot), Some(page)) = (slot, self.pages.get_mut(&number)) else {
            self.counts.given_up += 1;
            return;
        };
        page.slots_taken += 1;
        let replica = Replica { slot, version, is_written: false };
        page.add(replica);
        let data = page.data.clone().unwrap_or_default();
        let due = Due { page: number, replica, data, is_of_read: false };
        self.add_replica(due, now, actions);
    }

    /// Writes a replica that the page has got, when its partition has rested.
    pub(super) fn add_replica(&mut self, due: Due, now: Nanos, actions: &mut Actions) {
        let (page, slot) = (due.page, due.replica.slot);
        self.add_to_group(page);
        if !self.resting.is_on() {
            self.write_slot(due, now, actions);
            return;
        }
        // It is no other's while it waits.
        self.space.begins(slot);
        let partition = self.geometry.slot_partition(slot);
        if let Err(due) = self.resting.insert(partition, due) {
            self.counts.given_up += 1;
            if let Some(page) = self.pages.get_mut(&due.page) {
                page.replicas.retain(|replica| replica.slot != slot);
            }
            self.give_up_slots(page, &[slot]);
            self.space.ends(slot);
            self.forget_if_nothing(page);
            return;
        }
        self.write_replicas(partition, now, actions);
    }

    /// Writes the replicas whose partition has rested for long enough, if they are wanted still.
    pub(super) fn write_replicas(&mut self, partition: u32, now: Nanos, actions: &mut Actions) {
        while let Some(due) = self.resting.next(partition, now) {
            let Replica { slot, version, .. } = due.replica;
            let is_wanted = self.poisoned.is_none()
                && self.pages.get(&due.page).is_some_and(|page| {
                    page.replicas.iter().any(|one| one.slot == slot && one.version == version)
                });
            if is_wanted {
                self.write_slot(due, now, actions);
            }
            self.space.ends(slot);
        }
    }

    fn forget_if_nothing(&mut self, number: u64) {
        if self.pages.get(&number).is_some_and(Page::is_nothing) {
            self.pages.remove(&number);
        }
    }

    /// Writes a replica.
    fn write_slot(&mut self, due: Due, now: Nanos, actions: &mut Actions) {
        let Due { page, replica: Replica { slot, version, .. }, data, is_of_read } = due;
        let waiting = self.pages.get_mut(&page).map_or(&mut [][..], |page| &mut page.waiting);
        for part in waiting.iter_mut().filter(|part| part.version == version) {
            part.places += 1;
        }
        self.counts.extra_writes += 1;
        self.counts.read_replicas += u64::from(is_of_read);
        self.in_slots.accessed(u64::from(slot));
        let (offset, length) = (self.geometry.page_start(page), self.geometry.page_bytes);
        let command = Command { data, ..Command::new(0, IoOp::Write, offset, length) };
        let own = Own::SlotWrite { page, slot, version };
        self.send_to((own, true), Place::Slot(slot), command, now, actions);
    }

    /// Handles the end of a write to a slot.
    pub(super) fn slot_ended(
        &mut self,
        (number, version): (u64, u64),
        slot: u32,
        has_failed: bool,
        now: Nanos,
        actions: &mut Actions,
    ) {
        if has_failed {
            self.counts.failed_replicas += 1;
            self.space.is_bad(slot);
        }
        let has_it = self
            .pages
            .get_mut(&number)
            .filter(|page| page.replicas.iter().any(|replica| replica.slot == slot));
        if let Some(page) = has_it {
            let given_up = if has_failed {
                page.replicas.retain(|replica| replica.slot != slot);
                vec![slot]
            } else {
                page.is_at_slot(version, slot)
            };
            self.give_up_slots(number, &given_up);
            if has_failed {
                self.hop(number, version, now, actions);
            }
            self.go_on(number, now, actions);
        }
        self.space.ends(slot);
    }

    /// Handles the end of a write to home.
    pub(super) fn home_ended(
        &mut self,
        write: &HomeWrite,
        failure: Option<&Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let &HomeWrite { first, pages, version, ref parts, .. } = write;
        self.counts.failed_homes += if failure.is_some() { pages } else { 0 };
        for index in 0..pages {
            let (number, version) = (first + index, version + index);
            let Some(page) = self.pages.get_mut(&number) else { continue };
            let part = parts.iter().find(|part| part.page == number);
            match part {
                Some(_) => page.parts_under_way -= 1,
                None => page.is_writing_home = false,
            }
            let given_up = match failure {
                None => {
                    page.failures = 0;
                    page.is_at_home(version)
                }
                Some(failure) if part.is_none() => {
                    self.home_failed(number, version, failure, actions)
                }
                Some(_) => Vec::new(),
            };
            self.give_up_slots(number, &given_up);
            if let Some(part) = part {
                let outcome = failure.map_or(Ok(Data::Absent), |failure| Err(failure.clone()));
                self.gather.ended(part.part, outcome, actions);
            }
            self.go_on(number, now, actions);
        }
    }

    /// Handles the failure of a whole page's write to home. Where a slot holds it, or may, or a
    /// newer version came, it is tried once more. Otherwise it is lost, and its writer gets an
    /// error; if it was acknowledged, nothing is written any more, and the page is read where it
    /// is.
    fn home_failed(
        &mut self,
        number: u64,
        version: u64,
        failure: &Failure,
        actions: &mut Actions,
    ) -> Vec<u32> {
        let Some(page) = self.pages.get_mut(&number) else { return Vec::new() };
        page.failures += 1;
        let newest = page.newest;
        let is_acknowledged = !page.behind.is_empty();
        let is_held = is_acknowledged || page.replicas.iter().any(|one| one.version == newest);
        if (is_held || newest > version) && page.failures == 1 {
            return Vec::new();
        }
        let lost: Vec<Waiting> = page.waiting.drain(..).collect();
        let mut given_up = Vec::new();
        if !is_acknowledged {
            given_up = page.settle();
            page.failures = 0;
        }
        for part in lost {
            self.gather.ended(part.part, Err(failure.clone()), actions);
        }
        if is_acknowledged {
            self.poison(failure, actions);
        }
        given_up
    }

    /// Goes on with a page that has changed: writes that are done are replied to, and home gets the
    /// newest version.
    pub(super) fn go_on(&mut self, number: u64, now: Nanos, actions: &mut Actions) {
        let Some(page) = self.pages.get_mut(&number) else { return };
        for part in page.take_done() {
            if part.version > page.home {
                self.stamp += 1;
                page.behind.push((part.version, self.stamp));
            }
            if part.may_hop {
                self.counts.wrote(usize::from(part.places));
            }
            self.gather.ended(part.part, Ok(Data::Absent), actions);
        }
        if !page.is_home_busy() && page.data.is_none() && page.home != page.newest {
            // Only parts of a page were written since, and the last of these writes failed.
            let given_up = page.settle();
            debug_assert!(given_up.is_empty(), "an update made replicas void");
        }
        let is_behind = page.behind_since();
        if page.known_behind != is_behind {
            if let Some(stamp) = std::mem::replace(&mut page.known_behind, is_behind) {
                self.behind.remove(&stamp);
            }
            self.behind.extend(is_behind.map(|stamp| (stamp, number)));
        }
        if page.is_quiet() {
            page.data = None;
            if page.is_nothing() {
                self.pages.remove(&number);
            }
        } else if !page.is_home_busy() && !page.is_given_up() {
            let is_read_there = page.is_home_current();
            let waits = !is_read_there && self.is_home_being_read(number);
            if let Some(page) = self.pages.get_mut(&number) {
                page.waits_for_reads = waits;
            }
            if !waits {
                self.write_newest_home(number, now, actions);
            }
        }
        self.flush_below(now, actions);
    }

    fn is_home_being_read(&self, page: u64) -> bool {
        self.flights.iter().any(|flight| match flight.own {
            Own::Read { ask, place: Place::Home } => self.asks[ask as usize].concerns(page),
            _ => false,
        })
    }

    fn write_newest_home(&mut self, number: u64, now: Nanos, actions: &mut Actions) {
        let Some(page) = self.pages.get_mut(&number) else { return };
        let given_up = page.goes_home();
        let (version, may_hop) = (page.newest, page.may_hop);
        for part in page.waiting.iter_mut().filter(|part| part.version == version) {
            part.places += 1;
        }
        let command = Command {
            is_fua: page.waiting.iter().any(|part| part.needs_home),
            data: page.data.clone().unwrap_or_default(),
            ..Command::new(
                0,
                IoOp::Write,
                self.geometry.page_start(number),
                self.geometry.page_bytes,
            )
        };
        let write = HomeWrite { first: number, pages: 1, version, parts: Vec::new(), may_hop };
        self.give_up_slots(number, &given_up);
        self.write_home(write, command, now, actions);
    }
}
