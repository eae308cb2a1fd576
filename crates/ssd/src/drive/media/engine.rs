//! What a die does next.

use super::causes::{Cause, Class};
use super::command::{Command, Done, FlashOp};
use super::die::{Array, Suspended, Transfer};
use super::events::NEVER;
use super::slots::{CommandSlot, Group, MOST_PLANES, NONE};
use super::{Layout, Media};
use crate::drive::time::Picos;

/// How often one program or erase can be interrupted: reads without end shall not stop it for good.
const MOST_INTERRUPTIONS: u8 = 16;

impl Media {
    /// Begins whatever the die can begin now.
    pub(super) fn begin(&mut self, number: u32) {
        let die = &self.dies[number as usize];
        match die.array {
            Array::Idle => {
                let may = match die.transfer {
                    Transfer::Idle => true,
                    // The register is full: only another read may use the array meanwhile.
                    Transfer::Out => {
                        self.features.cache_mode && self.next_op(number) == Some(FlashOp::Read)
                    }
                    Transfer::In => false,
                };
                if may {
                    self.begin_array(number);
                }
            }
            Array::Busy if self.features.cache_mode => self.begin_load(number),
            Array::Busy | Array::Sensed => {}
        }
    }

    fn next_op(&self, number: u32) -> Option<FlashOp> {
        let die = &self.dies[number as usize];
        let queue = if die.urgent.is_empty() { die.queue } else { die.urgent };
        (!queue.is_empty()).then(|| self.slots.get(queue.first()).command.op)
    }

    /// The next commands to carry out together, with what they waited for so far.
    fn take_group(&mut self, number: u32) -> Option<Group> {
        let die = &mut self.dies[number as usize];
        let queue = if !die.urgent.is_empty() {
            &mut die.urgent
        } else if !die.queue.is_empty() && die.suspended.is_none() {
            &mut die.queue
        } else {
            return None;
        };
        let slot = queue.pop(&mut self.slots);
        let &Command { op, cause, .. } = &self.slots.get(slot).command;
        let mut group = Group::of(slot, op, cause);
        if self.features.multi_plane && op != FlashOp::CopyBack {
            let most = self.layout.planes_per_die.min(MOST_PLANES);
            let place = self.slots.get(slot).place;
            let mut last = slot;
            while group.count < most && !queue.is_empty() {
                let next = self.slots.get(queue.first());
                let fits = next.command.op == op
                    && (op != FlashOp::Program || next.place == place)
                    && self.slots.of(group).all(|entry| entry.plane != next.plane);
                if !fits {
                    break;
                }
                let next = queue.pop(&mut self.slots);
                self.slots.get_mut(last).next = next;
                last = next;
                group.count += 1;
            }
            if group.count > 1 {
                self.counters.multi_plane_commands += u64::from(group.count);
            }
        }
        let now = self.now;
        let die = &self.dies[number as usize];
        self.slots.change(group, |entry| {
            if entry.command.cause != Cause::Host {
                return;
            }
            if entry.issued_at < now {
                let spent = die.time_by_class(now);
                entry
                    .waited
                    .iter_mut()
                    .zip(spent)
                    .for_each(|(waited, spent)| *waited = spent - *waited);
            } else if entry.waited != [0; Class::COUNT] {
                entry.waited = [0; Class::COUNT];
            }
        });
        Some(group)
    }

    /// Puts the array to work, or lets it go on with what was interrupted, or rest.
    fn begin_array(&mut self, number: u32) {
        let Some(group) = self.take_group(number) else {
            if self.dies[number as usize].suspended.is_some() {
                self.resume(number);
            } else if self.dies[number as usize].transfer == Transfer::Idle {
                self.change_activity(number, None);
            }
            return;
        };
        self.begin_group(number, group, 0);
    }

    /// Begins a group on the array after a `delay`.
    fn begin_group(&mut self, number: u32, group: Group, delay: Picos) {
        let from = self.now + delay;
        let until = match group.op {
            FlashOp::Read => {
                let sent = self.reserve_commands(number, group, from);
                let read = self.longest(group, |timing, place| timing.read(place));
                sent + self.noisy(read)
            }
            FlashOp::Program => {
                let arrived = self.reserve_data_in(number, group, from);
                self.dies[number as usize].array_since = arrived;
                let program = self.longest(group, |timing, place| timing.program(place));
                arrived + self.noisy(program)
            }
            FlashOp::Erase => {
                let sent = self.reserve_commands(number, group, from);
                self.dies[number as usize].array_since = sent;
                sent + self.noisy(self.timing.erase)
            }
            FlashOp::CopyBack => {
                let sent = self.reserve_commands(number, group, from);
                self.dies[number as usize].array_since = sent;
                let slot = self.slots.get(group.head);
                let read = self.timing.read(self.layout.split(slot.command.from).1);
                let program = self.timing.program(slot.place);
                sent + self.noisy(read) + self.noisy(program)
            }
        };
        let die = &mut self.dies[number as usize];
        die.array = Array::Busy;
        die.array_group = group;
        die.interruptions = 0;
        self.change_activity(number, Some((group.op, group.cause)));
        self.events.set(number, until);
        if self.features.cache_mode {
            self.begin_load(number);
        }
    }

    /// Sends the data of the next program while the array is busy with one (cache mode).
    fn begin_load(&mut self, number: u32) {
        let die = &self.dies[number as usize];
        let can = die.array_group.op == FlashOp::Program
            && die.transfer == Transfer::Idle
            && die.loaded.is_none()
            && die.suspended.is_none()
            && self.next_op(number) == Some(FlashOp::Program);
        if !can {
            return;
        }
        let group = self.take_group(number).expect("a program waits");
        let from = self.now.max(self.dies[number as usize].array_since);
        let arrived = self.reserve_data_in(number, group, from);
        let die = &mut self.dies[number as usize];
        die.transfer = Transfer::In;
        die.transfer_group = group;
        self.events.set(self.transfer_part(number), arrived);
    }

    #[inline]
    fn transfer_part(&self, number: u32) -> u32 {
        if self.features.cache_mode { number + self.dies.len() as u32 } else { number }
    }

    fn longest(&self, group: Group, time: impl Fn(&super::timing::Timing, u32) -> Picos) -> Picos {
        self.slots.of(group).map(|entry| time(&self.timing, entry.place)).max().unwrap_or(0)
    }

    /// A time as this operation takes it.
    #[inline]
    fn noisy(&mut self, time: Picos) -> Picos {
        match &mut self.noise {
            None => time,
            Some(noise) => noise.of(time),
        }
    }

    /// Takes the channel for a time, from when it is free on. Returns when that begins.
    #[inline]
    fn reserve(&mut self, number: u32, from: Picos, time: Picos) -> Picos {
        let channel = &mut self.channels[self.dies[number as usize].channel as usize];
        let start = from.max(channel.free_at);
        channel.free_at = start + time;
        channel.busy += time;
        start
    }

    /// Takes the channel for the commands and addresses of a group. Returns when they are sent.
    fn reserve_commands(&mut self, number: u32, group: Group, from: Picos) -> Picos {
        let time = self.timing.command * Picos::from(group.count);
        if time == 0 {
            return from;
        }
        let start = self.reserve(number, from, time);
        self.waited_for_channel(group, start - from);
        start + time
    }

    /// Takes the channel for the commands and data of programs. Returns when the last has arrived.
    fn reserve_data_in(&mut self, number: u32, group: Group, from: Picos) -> Picos {
        let time = self
            .slots
            .of(group)
            .map(|entry| self.timing.command + self.timing.transfer(entry.command.bytes))
            .sum();
        let time = self.noisy(time);
        let start = self.reserve(number, from, time);
        self.waited_for_channel(group, start - from);
        start + time
    }

    fn waited_for_channel(&mut self, group: Group, time: Picos) {
        if time > 0 {
            self.slots.change(group, |entry| entry.channel_wait += time);
        }
    }

    /// Sends the data of the next command of the group in the register.
    fn send(&mut self, number: u32, slot: CommandSlot) {
        let time = self.noisy(self.timing.transfer(self.slots.get(slot).command.bytes));
        let start = self.reserve(number, self.now, time);
        self.slots.get_mut(slot).channel_wait += start - self.now;
        self.events.set(self.transfer_part(number), start + time);
    }

    /// The die's work changes: the span before is written down.
    fn change_activity(&mut self, number: u32, activity: Option<(FlashOp, Cause)>) {
        let die = &mut self.dies[number as usize];
        if let Some(timeline) = &mut self.timeline
            && let Some((op, cause, since)) = die.activity()
        {
            timeline.span(number, die.channel, op, cause, since, self.now);
        }
        match activity {
            Some((op, cause)) => die.works_on(op, cause, self.now),
            None => die.rests(self.now),
        }
    }

    pub(super) fn array_ended(&mut self, number: u32, done: &mut Vec<Done>) {
        let group = self.dies[number as usize].array_group;
        if group.op == FlashOp::Read {
            if self.dies[number as usize].transfer == Transfer::Idle {
                self.dies[number as usize].array = Array::Idle;
                self.begin_next_read(number);
                self.send_out(number, group);
            } else {
                self.dies[number as usize].array = Array::Sensed;
                self.dies[number as usize].array_since = self.now;
            }
            return;
        }
        let mut slot = group.head;
        while slot != NONE {
            let next = self.slots.get(slot).next;
            self.settle_pages(group.op, slot);
            self.finish(slot, done);
            slot = next;
        }
        self.dies[number as usize].array = Array::Idle;
        if let Some((loaded, since)) = self.dies[number as usize].loaded.take() {
            self.begin_loaded(number, loaded, since, Class::of(group.op, group.cause));
        } else {
            self.begin(number);
        }
    }

    /// The media after a program or an erase.
    fn settle_pages(&mut self, op: FlashOp, slot: CommandSlot) {
        let entry = self.slots.get(slot);
        let block = self.layout.block_of(entry.command.page);
        let programmed = &mut self.programmed[block.index()];
        if op == FlashOp::Erase {
            *programmed = 0;
            return;
        }
        assert!(
            u32::from(*programmed) <= entry.place,
            "the pages of an erase block are programmed in order"
        );
        *programmed = entry.place as u16 + 1;
    }

    /// The array takes a program whose data arrived while it was busy.
    fn begin_loaded(&mut self, number: u32, group: Group, since: Picos, behind: Class) {
        let waited = self.now - since;
        self.slots.change(group, |entry| entry.waited[behind as usize] += waited);
        let program = self.longest(group, |timing, place| timing.program(place));
        let until = self.now + self.noisy(program);
        let die = &mut self.dies[number as usize];
        die.array = Array::Busy;
        die.array_group = group;
        die.array_since = self.now;
        die.interruptions = 0;
        self.change_activity(number, Some((group.op, group.cause)));
        self.events.set(number, until);
        self.begin_load(number);
        if self.features.suspend && !self.dies[number as usize].urgent.is_empty() {
            self.interrupt(number);
        }
    }

    /// In cache mode: the command of the next read goes before the data of the last one, so that
    /// the array works meanwhile.
    fn begin_next_read(&mut self, number: u32) {
        if self.features.cache_mode && self.next_op(number) == Some(FlashOp::Read) {
            self.begin_array(number);
        }
    }

    fn send_out(&mut self, number: u32, group: Group) {
        let slot = group.unsent().expect("a group has a command");
        let die = &mut self.dies[number as usize];
        die.transfer = Transfer::Out;
        die.transfer_group = group;
        self.send(number, slot);
    }

    pub(super) fn transfer_ended(&mut self, number: u32, done: &mut Vec<Done>) {
        if self.dies[number as usize].transfer == Transfer::In {
            let die = &mut self.dies[number as usize];
            die.transfer = Transfer::Idle;
            let group = die.transfer_group;
            if die.array == Array::Idle {
                self.begin_loaded(number, group, self.now, Class::DieBusy);
            } else {
                die.loaded = Some((group, self.now));
            }
            return;
        }
        let die = &mut self.dies[number as usize];
        let sent = die.transfer_group.unsent().expect("a command is being sent");
        die.transfer_group.sent(&self.slots);
        let next = die.transfer_group.unsent();
        self.finish(sent, done);
        if let Some(next) = next {
            self.send(number, next);
            return;
        }
        let die = &mut self.dies[number as usize];
        die.transfer = Transfer::Idle;
        if die.array == Array::Sensed {
            die.array = Array::Idle;
            let group = die.array_group;
            let waited = self.now - die.array_since;
            self.waited_for_channel(group, waited);
            self.begin_next_read(number);
            self.send_out(number, group);
        }
        self.begin(number);
    }

    /// A read for the host has come: interrupts what can be interrupted.
    pub(super) fn interrupt(&mut self, number: u32) {
        let (now, suspend) = (self.now, self.timing.suspend);
        let until = self.events.time_of(number);
        let die = &mut self.dies[number as usize];
        let can = die.array == Array::Busy
            && die.transfer == Transfer::Idle
            && die.suspended.is_none()
            && !die.urgent.is_empty()
            && die.array_group.op != FlashOp::Read
            && die.array_since <= now
            && die.interruptions < MOST_INTERRUPTIONS
            // Not worth it when it ends before the read could begin.
            && until > now + suspend;
        if !can {
            return;
        }
        die.suspended = Some(Suspended {
            group: die.array_group,
            left: until - now,
            since: now,
            interruptions: die.interruptions + 1,
        });
        self.events.set(number, NEVER);
        self.counters.suspensions += 1;
        let group = self.take_group(number).expect("a read waits");
        self.begin_group(number, group, suspend);
    }

    fn resume(&mut self, number: u32) {
        let now = self.now;
        let resume = self.timing.suspend;
        let die = &mut self.dies[number as usize];
        let Some(Suspended { group, left, since, interruptions }) = die.suspended.take() else {
            return;
        };
        self.slots.change(group, |entry| entry.waited[Class::DieBusy as usize] += now - since);
        let die = &mut self.dies[number as usize];
        die.array = Array::Busy;
        die.array_group = group;
        die.array_since = now + resume;
        die.interruptions = interruptions;
        self.change_activity(number, Some((group.op, group.cause)));
        self.events.set(number, now + resume + left);
    }
}

impl Layout {
    /// The die that a page lies on.
    #[must_use]
    pub fn die_of(&self, page: units::Ppn) -> u32 {
        self.die_of_plane(self.plane_of(self.block_of(page)))
    }
}
