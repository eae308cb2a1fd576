//! Commands of the host: reads, in which holes are zeros, and writes, which end holes.

use std::ops::{Range, RangeInclusive};

use units::{IoOp, Nanos};

use super::layer::{Flaw, Flight, Holes, NOTHING, Sent};
use crate::{Actions, Command, Data, Failure, Gather};

impl Holes {
    /// Gives the pages that a command touches.
    fn touched(&self, command: &Command) -> Range<u64> {
        command.offset / self.page_bytes()..command.end().div_ceil(self.page_bytes())
    }

    fn zeros(&self, length: u64) -> Data {
        if self.is_absent { Data::Absent } else { Data::zeros(length as usize) }
    }

    /// Reads the pages that are no holes.
    pub(super) fn read(&mut self, command: &Command, actions: &mut Actions) {
        let (page, pages) = (self.page_bytes(), self.touched(command));
        if !self.bits.any(pages.clone()) {
            let parent = self.gather.begin(command.id, 1);
            let sent = Sent::Read(Gather::part(parent, 0), pages);
            return self.send(sent, command.clone(), actions);
        }
        let runs: Vec<(bool, Range<u64>)> = self.bits.runs(pages).collect();
        let parent = self.gather.begin(command.id, runs.len() as u32);
        for (place, (is_hole, run)) in (0..).zip(runs) {
            let from = (run.start * page).max(command.offset);
            let length = (run.end * page).min(command.end()) - from;
            let part = Gather::part(parent, place);
            if is_hole {
                self.gather.ended(part, Ok(self.zeros(length)), actions);
            } else {
                let below = Command::new(0, IoOp::Read, from, length as u32);
                self.send(Sent::Read(part, run), below, actions);
            }
        }
    }

    /// Takes a write or trim, after those for which it has to wait.
    pub(super) fn take(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        self.is_absent |= command.op == IoOp::Write && command.data.is_absent();
        if command.op == IoOp::Trim {
            self.commit.trims_by(self.settings.delay.map(|delay| now.saturating_add(delay)));
        }
        let pages = self.touched(&command);
        let is_behind = self.held.iter().any(|other| overlap(&self.touched(other), &pages));
        if is_behind || self.has_to_wait(&command) {
            self.counts.held_commands += 1;
            self.held.push_back(command);
        } else {
            self.begin(command, actions);
        }
    }

    /// Begins commands that were held and need not wait any more.
    pub(super) fn take_held(&mut self, actions: &mut Actions) {
        let mut behind: Vec<Range<u64>> = Vec::new();
        for command in std::mem::take(&mut self.held) {
            let pages = self.touched(&command);
            let is_behind = behind.iter().any(|other| overlap(other, &pages));
            if is_behind || self.has_to_wait(&command) {
                behind.push(pages);
                self.held.push_back(command);
            } else {
                self.begin(command, actions);
            }
        }
    }

    /// Returns true if the command has to wait: others write to its pages or trim them below, or
    /// too many trims wait.
    fn has_to_wait(&self, command: &Command) -> bool {
        if command.op == IoOp::Trim && self.due.is_full() {
            return true;
        }
        if self.flights.is_empty() || self.flaw == Flaw::Shares {
            return false;
        }
        let pages = self.touched(command);
        let wants_alone = match command.op {
            // Pages that are trimmed below are holes already.
            IoOp::Trim => false,
            _ => self.bits.any(pages.clone()),
        };
        self.flights.iter().any(|(_, flight)| {
            overlap(&flight.pages, &pages)
                && match command.op {
                    IoOp::Trim => flight.host.is_some(),
                    _ => wants_alone || flight.is_alone,
                }
        })
    }

    fn begin(&mut self, command: Command, actions: &mut Actions) {
        if command.op == IoOp::Trim {
            self.trim(&command);
            return actions.reply(command.id, Ok(NOTHING));
        }
        let (page, pages) = (self.page_bytes(), self.touched(&command));
        let is_alone = self.bits.any(pages.clone());
        let Command { id, mut offset, is_fua, lifetime, mut data, .. } = command;
        let mut end = offset + u64::from(command.length);
        if is_alone {
            // Both edges of a hole are filled up with zeros: below them are other bytes.
            let (head, tail) = (offset % page, end.next_multiple_of(page) - end);
            let head = if self.bits.is_hole(pages.start) { head } else { 0 };
            let tail = if self.bits.is_hole(pages.end - 1) { tail } else { 0 };
            let is_one = pages.end - pages.start == 1;
            self.counts.filled_holes += if is_one {
                u64::from(head + tail > 0)
            } else {
                u64::from(head > 0) + u64::from(tail > 0)
            };
            if !data.is_absent() {
                let zeros =
                    |length| if length > 0 { Data::zeros(length as usize) } else { NOTHING };
                let mut filled = zeros(head);
                filled.append(data);
                filled.append(zeros(tail));
                data = filled;
            }
            (offset, end) = (offset - head, end + tail);
        }
        let most = u64::from(self.below.most_bytes) / page * page;
        let waits = (end - offset).div_ceil(most) as u32;
        let is_durable = is_fua || self.settings.acks_durable;
        let host = Some((id, is_durable));
        let flight = Flight { pages, is_alone, host, waits, failure: None };
        let key = self.flights.insert(flight) as u32;
        for at in (offset..end).step_by(most as usize) {
            let length = most.min(end - at) as u32;
            let from = (at - offset) as usize;
            let data = data.slice(from..from + length as usize);
            let plain = Command::new(0, IoOp::Write, at, length);
            self.send(Sent::Write(key), Command { is_fua, lifetime, data, ..plain }, actions);
        }
    }

    /// Ends a part of a write.
    pub(super) fn write_ended(
        &mut self,
        key: u32,
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let flight = &mut self.flights[key as usize];
        flight.failure = flight.failure.take().or(outcome.err());
        flight.waits -= 1;
        if flight.waits > 0 {
            return;
        }
        let Flight { pages, host, failure, .. } = self.flights.remove(key as usize);
        let Some((id, is_durable)) = host else { return };
        let failure = self.poison.clone().or(failure);
        if let Some(failure) = failure {
            return actions.reply(id, Err(failure));
        }
        self.counts.written_holes += self.bits.set(pages.clone(), false);
        // An earlier write to these pages may have ended a hole, too.
        if is_durable && self.is_uncovered_later(pages) {
            self.commit.wait_for(id, false, self.bits.queued());
        } else {
            actions.reply(id, Ok(NOTHING));
        }
    }

    /// Returns true if a block with these pages waits to be written, or is being written.
    fn is_uncovered_later(&self, pages: Range<u64>) -> bool {
        let blocks = self.blocks_of(&pages);
        self.flaw != Flaw::ClearsLate
            && (self.bits.clears(blocks.clone()) || self.commit.writes(&blocks))
    }

    /// Gives the blocks of pages.
    pub(super) fn blocks_of(&self, pages: &Range<u64>) -> RangeInclusive<u64> {
        let of_block = self.settings.geometry.pages_of_block();
        pages.start / of_block..=(pages.end - 1) / of_block
    }

    /// Makes whole pages holes.
    fn trim(&mut self, command: &Command) {
        let page = self.page_bytes();
        let (first, end) = (command.offset.div_ceil(page), command.end() / page);
        if first < end {
            self.counts.trimmed_pages += self.bits.set(first..end, true);
            self.due.add(first..end, self.bits.queued());
        }
    }
}

/// Returns true if two ranges overlap.
pub(super) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
