//! RRead (REPLICATION 4.1, algorithm 1).

use std::cmp::Ordering;

use units::{IoOp, Nanos};

use super::flights::Own;
use super::geometry::Place;
use super::layer::Replicas;
use super::pages::Replica;
use super::resting::Due;
use crate::{Actions, Command, Data, Failure, Gather, ParentPart};

/// Difference up to which the blocking probabilities of two places count as the same (REPLICATION
/// 4.1).
const SIMILAR: f64 = 0.05;

/// A part of a read of the host: of one page, or of several that are read at home.
#[derive(Debug)]
pub struct Ask {
    part: ParentPart,
    first: u64,
    pages: u64,
    /// First byte of the host, and the byte behind the last.
    start: u64,
    end: u64,
    /// Places that were asked, in this order.
    asked: Vec<Place>,
    under_way: u32,
    is_answered: bool,
    is_blocked: bool,
    /// True if its pages count as pages: a long read is a sequential transfer.
    is_counted: bool,
    /// Stamp of its beginning, if nothing was being written then.
    clean_since: Option<u64>,
}

impl Ask {
    /// Returns true if it waits for a page.
    pub const fn concerns(&self, page: u64) -> bool {
        !self.is_answered && self.first <= page && page < self.first + self.pages
    }
}

impl Replicas {
    pub(super) fn read(&mut self, command: &Command, now: Nanos, actions: &mut Actions) {
        let pages = self.pages_of(command.offset, command.end());
        let is_long = pages.end - pages.start > self.settings.run_pages;
        // Pages side by side at home are one piece; each page with replicas is a piece of its own.
        let mut pieces: Vec<(u64, u64, bool)> = Vec::new();
        for page in pages {
            let start = command.offset.max(self.geometry.page_start(page));
            let end = command.end().min(self.geometry.page_start(page + 1));
            let is_alone = self.pages.get(&page).is_some_and(|page| {
                let has_choice = !is_long && !self.is_below_unsafe;
                !page.is_home_current() || (has_choice && page.readable().nth(1).is_some())
            });
            match pieces.last_mut() {
                Some((_, last, false))
                    if !is_alone && !start.is_multiple_of(self.geometry.home_bytes) =>
                {
                    *last = end;
                }
                _ => pieces.push((start, end, is_alone)),
            }
        }
        let parent = self.gather.begin(command.id, pieces.len() as u32);
        for (place, (start, end, _)) in pieces.into_iter().enumerate() {
            let pages = self.pages_of(start, end);
            let ask = Ask {
                part: Gather::part(parent, place as u32),
                first: pages.start,
                pages: pages.end - pages.start,
                start,
                end,
                asked: Vec::new(),
                under_way: 0,
                is_answered: false,
                is_blocked: false,
                is_counted: !is_long,
                clean_since: self.clean_since(start, end, is_long),
            };
            // Only homes are known to be durable.
            let is_at_home = ask.pages > 1 || self.is_below_unsafe;
            let ask = self.asks.insert(ask) as u32;
            if is_at_home {
                self.ask(ask, Place::Home, now, actions);
            } else {
                self.ask_next(ask, now, actions);
            }
        }
    }

    /// Gives the present stamp, if nothing of these bytes is being written.
    fn clean_since(&self, start: u64, end: u64, is_long: bool) -> Option<u64> {
        let is_clean = !is_long
            && !self.is_trimming(start, end)
            && self
                .pages_of(start, end)
                .all(|page| self.pages.get(&page).is_none_or(super::pages::Page::is_quiet));
        is_clean.then_some(self.stamp)
    }

    fn ask(&mut self, key: u32, place: Place, now: Nanos, actions: &mut Actions) {
        let ask = &mut self.asks[key as usize];
        ask.asked.push(place);
        ask.under_way += 1;
        let is_counted = ask.is_counted;
        let command = Command::new(0, IoOp::Read, ask.start, (ask.end - ask.start) as u32);
        if is_counted {
            match place {
                Place::Home => {
                    (ask.first..ask.first + ask.pages).for_each(|page| self.at_home.accessed(page));
                }
                Place::Slot(slot) => self.in_slots.accessed(u64::from(slot)),
            }
        }
        self.send_to((Own::Read { ask: key, place }, is_counted), place, command, now, actions);
    }

    /// Asks the least blocked place of a page among those not asked. Returns true if there was one.
    fn ask_next(&mut self, key: u32, now: Nanos, actions: &mut Actions) -> bool {
        let ask = &self.asks[key as usize];
        let place = match self.pages.get(&ask.first) {
            None => Some(Place::Home).filter(|place| !ask.asked.contains(place)),
            Some(page) => page
                .readable()
                .filter(|place| !ask.asked.contains(place))
                .reduce(|best, other| self.better(ask.first, best, other, now)),
        };
        if let Some(place) = place {
            self.ask(key, place, now, actions);
        }
        place.is_some()
    }

    /// Gives the place with the lower blocking probability; of similar ones the one whose partition
    /// is used less.
    fn better(&self, page: u64, one: Place, other: Place, now: Nanos) -> Place {
        let probability = |place| match place {
            Place::Home => self.at_home.probability(page),
            Place::Slot(slot) => self.in_slots.probability(u64::from(slot)),
        };
        let use_of = |place| self.space.utilization(self.geometry.partition(page, place), now);
        let difference = probability(other) - probability(one);
        let order = if difference.abs() < SIMILAR {
            use_of(other).cmp(&use_of(one))
        } else {
            difference.total_cmp(&0.0)
        };
        if order == Ordering::Less { other } else { one }
    }

    /// Notes that a read has waited for longer than the patience.
    pub(super) fn read_is_blocked(&mut self, key: u32, place: Place) {
        let ask = &mut self.asks[key as usize];
        ask.is_blocked = true;
        let (first, pages) = (ask.first, ask.pages);
        match place {
            Place::Home => (first..first + pages).for_each(|page| self.at_home.blocked(page)),
            Place::Slot(slot) => self.in_slots.blocked(u64::from(slot)),
        }
        (first..first + pages).for_each(|page| self.touch_group(page));
    }

    /// Asks the next replica, too.
    pub(super) fn ask_another(&mut self, key: u32, now: Nanos, actions: &mut Actions) {
        let ask = &self.asks[key as usize];
        if !ask.is_answered && ask.pages == 1 && self.poisoned.is_none() {
            self.ask_next(key, now, actions);
        }
    }

    pub(super) fn read_ended(
        &mut self,
        key: u32,
        place: Place,
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let is_unsafe = self.is_below_unsafe;
        let outcome = self.as_far_as_safe(key, place, outcome);
        let ask = &mut self.asks[key as usize];
        ask.under_way -= 1;
        let part = ask.part;
        if ask.is_answered {
            self.counts.vain_reads += 1;
        } else {
            match outcome {
                Ok(data) => {
                    ask.is_answered = true;
                    let (places, pages) = (ask.asked.len(), ask.pages);
                    if ask.is_counted {
                        self.counts.read(places, pages);
                    }
                    if place == Place::Home && self.asks[key as usize].is_blocked {
                        self.replicate_what_was_read(key, &data, now, actions);
                    }
                    self.gather.ended(part, Ok(data), actions);
                }
                Err(failure) => {
                    let page = ask.first;
                    if !is_unsafe {
                        self.read_failed(page, place);
                    }
                    let ask = &self.asks[key as usize];
                    let is_asked_elsewhere = ask.under_way > 0
                        || (ask.pages == 1 && !is_unsafe && self.ask_next(key, now, actions));
                    if !is_asked_elsewhere {
                        self.asks[key as usize].is_answered = true;
                        self.gather.ended(part, Err(failure), actions);
                    }
                }
            }
        }
        let ask = &self.asks[key as usize];
        let pages = ask.first..ask.first + ask.pages;
        if ask.under_way == 0 {
            self.asks.remove(key as usize);
        }
        match place {
            Place::Slot(slot) => self.space.ends(slot),
            Place::Home => self.home_was_read(pages, now, actions),
        }
    }

    /// Gives the outcome of a read, unless its data may be older than what was written: a failed
    /// flush may have dropped a write while the read was under way.
    fn as_far_as_safe(
        &self,
        key: u32,
        place: Place,
        outcome: Result<Data, Failure>,
    ) -> Result<Data, Failure> {
        let Some(poison) = self.poisoned.as_ref().filter(|_| self.is_below_unsafe) else {
            return outcome;
        };
        let Ask { start, end, .. } = self.asks[key as usize];
        if place == Place::Home && self.is_durable(start, end) {
            return outcome;
        }
        outcome.and(Err(poison.clone()))
    }

    /// Notes that a read at home has ended: pages may wait for it, to be written at home.
    fn home_was_read(&mut self, pages: std::ops::Range<u64>, now: Nanos, actions: &mut Actions) {
        for number in pages {
            if self.pages.get(&number).is_some_and(|page| page.waits_for_reads) {
                self.go_on(number, now, actions);
            }
        }
    }

    /// Drops a replica that cannot be read, if there is another place.
    fn read_failed(&mut self, number: u64, place: Place) {
        let Place::Slot(slot) = place else { return };
        self.counts.failed_replicas += 1;
        let Some(page) = self.pages.get_mut(&number) else { return };
        let has_it = page.replicas.iter().any(|replica| replica.slot == slot);
        if !has_it || page.readable().nth(1).is_none() {
            return;
        }
        page.replicas.retain(|replica| replica.slot != slot);
        if page.is_nothing() {
            self.pages.remove(&number);
        }
        self.space.is_bad(slot);
        self.give_up_slots(number, &[slot]);
    }

    /// Carries out algorithm 3: pages of a blocked read that were blocked often before, and have no
    /// replica, get one with the bytes that were read, if they have not changed since.
    fn replicate_what_was_read(
        &mut self,
        key: u32,
        data: &Data,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let Ask { first, pages, start, end, clean_since, .. } = self.asks[key as usize];
        let Some(since) = clean_since.filter(|_| self.poisoned.is_none()) else { return };
        for number in first..first + pages {
            let (from, to) =
                (self.geometry.page_start(number), self.geometry.page_start(number + 1));
            let is_wanted = start <= from
                && to <= end
                && self.at_home.was_above(number, self.settings.read_threshold)
                && !self.groups.contains(number)
                && self.is_unchanged(number, since)
                && self.pages.get(&number).is_none_or(super::pages::Page::is_quiet);
            if !is_wanted {
                continue;
            }
            let Some(slot) = self.take_slot(number) else {
                self.counts.given_up += 1;
                continue;
            };
            let page = self.pages.entry(number).or_default();
            let replica = Replica { slot, version: page.current, is_written: false };
            page.add(replica);
            let bytes = data.slice((from - start) as usize..(to - start) as usize);
            let due = Due { page: number, replica, data: bytes, is_of_read: true };
            self.add_replica(due, now, actions);
        }
    }
}
