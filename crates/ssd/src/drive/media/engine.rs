//! What a die does next.

use super::causes::{Cause, Class};
use super::command::{Command, Done, FlashOp};
use super::die::{Array, Suspended, Transfer};
use super::events::NEVER;
use super::slots::{CommandSlot, Entry, Group, MOST_PLANES, NONE, Queue, Slots};
use super::{Layout, Media};
use crate::drive::time::Picos;

/// What a group holds of each plane of the die: which pages are sensed or programmed there together,
/// by their number.
struct Planes {
    together: u32,
    planes_per_die: u32,
    held: [u32; MOST_PLANES as usize],
}

impl Planes {
    const NOTHING: u32 = u32::MAX;

    fn new(together: u32, layout: &Layout) -> Self {
        Self {
            together,
            planes_per_die: layout.planes_per_die,
            held: [Self::NOTHING; MOST_PLANES as usize],
        }
    }

    /// Takes a command in, if it can go with those that are there.
    #[inline]
    fn takes(&mut self, entry: &Entry, several: bool) -> bool {
        let number = entry.command.page.0 / self.together;
        let plane = (entry.plane % self.planes_per_die) as usize;
        let is_free = self.held[plane] == Self::NOTHING;
        let fits = if is_free {
            several || self.held.iter().all(|&held| held == Self::NOTHING)
        } else {
            self.together > 1 && self.held[plane] == number
        };
        if fits {
            self.held[plane] = number;
        }
        fits
    }

    fn count(&self) -> usize {
        self.held.iter().filter(|&&held| held != Self::NOTHING).count()
    }
}

/// Lets those that come next in the queue go with a group, as long as they can. Whether they are on
/// several planes.
fn gather(
    group: &mut Group,
    queue: &mut Queue,
    mut planes: Planes,
    is_multi_plane: bool,
    slots: &mut Slots,
) -> bool {
    let first = slots.get(group.head);
    planes.takes(first, true);
    let place = first.place / planes.together;
    let mut last = group.head;
    while !queue.is_empty() {
        let next = slots.get(queue.first());
        let fits = next.command.op == group.op
            && (group.op != FlashOp::Program || next.place / planes.together == place)
            && planes.takes(next, is_multi_plane);
        if !fits {
            break;
        }
        let next = queue.pop(slots);
        slots.get_mut(last).next = next;
        last = next;
        group.count += 1;
    }
    planes.count() > 1
}

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
        let together = self.features.pages_together(op);
        let several = self.features.multi_plane || together > 1;
        if several && op != FlashOp::CopyBack && !queue.is_empty() {
            let planes = Planes::new(together, &self.layout);
            let of_several =
                gather(&mut group, queue, planes, self.features.multi_plane, &mut self.slots);
            if of_several {
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
                let read = if self.reads_parts(group) {
                    self.longest(group, |timing, place| timing.part_read(place))
                } else {
                    self.longest(group, |timing, place| timing.read(place))
                };
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

    /// Whether each command of a group of reads wants one page alone of what is sensed.
    #[inline]
    fn reads_parts(&self, group: Group) -> bool {
        self.features.pages_per_read > 1 && self.commands_of(group) == group.count
    }

    /// Commands that are sent to the die for a group: one for all pages of a plane that are sensed
    /// or programmed together.
    #[inline]
    fn commands_of(&self, group: Group) -> u32 {
        let together = self.features.pages_together(group.op);
        if together == 1 || group.count == 1 { group.count } else { self.planes_of(group) }
    }

    #[cold]
    fn planes_of(&self, group: Group) -> u32 {
        let together = self.features.pages_together(group.op);
        let mut planes = Planes::new(together, &self.layout);
        self.slots.of(group).for_each(|entry| {
            planes.takes(entry, true);
        });
        planes.count() as u32
    }

    /// Takes the channel for the commands and addresses of a group. Returns when they are sent.
    fn reserve_commands(&mut self, number: u32, group: Group, from: Picos) -> Picos {
        let time = self.timing.command * Picos::from(self.commands_of(group));
        if time == 0 {
            return from;
        }
        let start = self.reserve(number, from, time);
        self.waited_for_channel(group, start - from);
        start + time
    }

    /// Takes the channel for the commands and data of programs. Returns when the last has arrived.
    fn reserve_data_in(&mut self, number: u32, group: Group, from: Picos) -> Picos {
        let data: Picos =
            self.slots.of(group).map(|entry| self.timing.transfer(entry.command.bytes)).sum();
        let time = data + self.timing.command * Picos::from(self.commands_of(group));
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
                if self.features.suspend_at_points {
                    self.interrupt(number);
                }
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
            && (die.array_since <= now || self.features.suspend_at_points)
            && die.interruptions < self.features.most_suspensions
            // Not worth it when it ends before the read could begin.
            && until > now + suspend;
        if !can {
            return;
        }
        // What is arriving has to arrive.
        let from = now.max(die.array_since);
        let works = if self.features.suspend_at_points { suspend } else { 0 };
        die.suspended = Some(Suspended {
            group: die.array_group,
            left: (until - from).saturating_sub(works),
            since: from,
            interruptions: die.interruptions + 1,
        });
        self.events.set(number, NEVER);
        self.counters.suspensions += 1;
        let group = self.take_group(number).expect("a read waits");
        self.begin_group(number, group, from - now + suspend);
    }

    fn resume(&mut self, number: u32) {
        let now = self.now;
        let resume = if self.features.suspend_at_points { 0 } else { self.timing.suspend };
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
