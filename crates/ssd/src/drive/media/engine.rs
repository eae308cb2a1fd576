//! The engine that chooses and carries out the next step of a die.

use super::causes::Class;
use super::command::{Command, Done, FlashOp};
use super::die::{Array, Die, Suspended, Transfer};
use super::events::NEVER;
use super::idle::Observed;
use super::slc::SlcMode;
use super::slots::{CommandSlot, Entry, Group, MOST_PLANES, NONE, Queue, Slots};
use super::timing::{Noise, Timing};
use super::{Channel, Layout, Media};
use crate::drive::time::Picos;

/// Pages of a group on each plane of the die: the number of those that are sensed or programmed
/// together there.
struct Planes<'a> {
    together: u32,
    layout: &'a Layout,
    held: [u32; MOST_PLANES as usize],
}

impl<'a> Planes<'a> {
    const NOTHING: u32 = u32::MAX;

    fn new(together: u32, layout: &'a Layout) -> Self {
        Self { together, layout, held: [Self::NOTHING; MOST_PLANES as usize] }
    }

    /// Adds a command, if it can go with those that are there.
    #[inline]
    fn takes(&mut self, entry: &Entry, several: bool) -> bool {
        let number = entry.command.page.0 / self.together;
        let plane = self.layout.plane_of(self.layout.block_of(entry.command.page));
        let plane = (plane % self.layout.planes_per_die) as usize;
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

/// Adds the next commands of the queue to a group, as long as they can be carried out together.
/// Gives their number then, and true if they are on several planes.
#[inline(never)]
fn gather(
    group: Group,
    queue: &mut Queue,
    mut planes: Planes<'_>,
    is_multi_plane: bool,
    slots: &mut Slots,
) -> (u32, bool) {
    let first = slots.get(group.head);
    planes.takes(first, true);
    let place = first.place / planes.together;
    let (mut last, mut count) = (group.head, group.count);
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
        count += 1;
    }
    (count, planes.count() > 1)
}

/// Properties on which times depend besides the place in the erase block.
#[derive(Clone, Copy)]
struct Modes<'a> {
    slc: Option<&'a SlcMode>,
    layout: &'a Layout,
}

/// The longest time of the commands of a group, by their places.
#[inline]
fn longest(slots: &Slots, group: Group, times: &[Picos], modes: Modes<'_>) -> Picos {
    let time = |entry: &Entry| {
        let time = times[entry.place as usize];
        modes.slc.map_or(time, |slc| slc.time(entry, modes.layout, time))
    };
    slots.of(group).map(time).max().unwrap_or(0)
}

/// Time of the data of a group of programs on the channel.
#[inline]
fn transfers(slots: &Slots, group: Group, timing: &Timing) -> Picos {
    slots.of(group).map(|entry| timing.transfer(entry.command.bytes)).sum()
}

/// Records that the commands of a group waited for the channel.
#[inline]
fn waited_for_channel(slots: &mut Slots, group: Group, time: Picos) {
    if time > 0 {
        slots.change(group, |entry| entry.channel_wait += time);
    }
}

/// Records a change of a die's work, to a group or to idle, and with it the span before.
#[inline]
fn write_down(
    observed: &mut Option<Box<Observed>>,
    number: u32,
    die: &Die,
    next: Option<(Group, &Slots)>,
    now: Picos,
) {
    if let Some(observed) = observed {
        let next = next.map(|(group, slots)| (group.cause, slots.get(group.head).issued_at));
        observed.changes(number, die, next, now);
    }
}

/// A nominal time with the noise of this operation.
#[inline]
fn noisy(noise: &mut Option<Box<Noise>>, time: Picos) -> Picos {
    match noise {
        None => time,
        Some(noise) => noise.of(time),
    }
}

impl Channel {
    /// Takes the channel for a time, as soon as it is free after `from`. Returns the start.
    #[inline]
    fn take(&mut self, from: Picos, time: Picos) -> Picos {
        let start = from.max(self.free_at);
        self.free_at = start + time;
        self.busy += time;
        start
    }
}

impl Media {
    /// Begins the next work that the die can do now.
    #[inline]
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

    /// Takes the next commands to carry out together, and records their waits so far.
    #[inline(always)]
    fn take_group(&mut self, number: u32) -> Option<Group> {
        let (now, slots, features) = (self.now, &mut self.slots, &self.features);
        let die = &mut self.dies[number as usize];
        let queue = if !die.urgent.is_empty() {
            &mut die.urgent
        } else if !die.queue.is_empty() && die.suspended.is_none() {
            &mut die.queue
        } else {
            return None;
        };
        let slot = queue.pop(slots);
        let &Command { op, cause, .. } = &slots.get(slot).command;
        let mut group = Group::of(slot, op, cause);
        if features.gathers[op as usize] && !queue.is_empty() {
            let planes = Planes::new(features.pages_together(op), &self.layout);
            let of_several;
            (group.count, of_several) = gather(group, queue, planes, features.multi_plane, slots);
            if of_several {
                self.counters.multi_plane_commands += u64::from(group.count);
            }
        }
        slots.change(group, |entry| {
            if !entry.command.cause.may_be_waited_for() {
                return;
            }
            if entry.issued_at < now {
                die.time_since(&mut entry.waited, now);
            } else if entry.waited != [0; Class::COUNT] {
                entry.waited = [0; Class::COUNT];
            }
        });
        Some(group)
    }

    /// Puts the array to work: on new commands, or on the operation that was interrupted. Otherwise
    /// it is idle.
    fn begin_array(&mut self, number: u32) {
        let Some(group) = self.take_group(number) else {
            if self.dies[number as usize].suspended.is_some() {
                self.resume(number);
            } else if self.dies[number as usize].transfer == Transfer::Idle {
                self.rest(number);
            }
            return;
        };
        self.begin_group(number, group, 0);
    }

    fn rest(&mut self, number: u32) {
        let die = &mut self.dies[number as usize];
        write_down(&mut self.observed, number, die, None, self.now);
        die.rests(self.now);
    }

    /// Begins a group on the array after a `delay`.
    #[inline(always)]
    fn begin_group(&mut self, number: u32, group: Group, delay: Picos) {
        let from = self.now + delay;
        if self.retries.is_some() && group.op == FlashOp::Read {
            self.draw_retries(group);
        }
        let commands = self.commands_of(group);
        let die = &mut self.dies[number as usize];
        let (slots, timing, noise) = (&mut self.slots, &self.timing, &mut self.noise);
        let modes = Modes { slc: self.slc.as_deref(), layout: &self.layout };
        let is_program = group.op == FlashOp::Program;
        // First the commands and addresses go over the channel, with the data of programs.
        let mut sending = timing.command * Picos::from(commands);
        if is_program {
            sending = noisy(noise, sending + transfers(slots, group, timing));
        }
        let sent = if sending > 0 || is_program {
            let start = self.channels[die.channel as usize].take(from, sending);
            waited_for_channel(slots, group, start - from);
            start + sending
        } else {
            from
        };
        let working = match group.op {
            FlashOp::Read | FlashOp::Program => {
                // True if each command wants one page alone of those that are sensed together.
                let is_part = self.features.pages_per_read > 1 && commands == group.count;
                let read = if is_part { &timing.part_read } else { &timing.read };
                let times = if is_program { &timing.program } else { read };
                noisy(noise, longest(slots, group, times, modes))
            }
            FlashOp::Erase => {
                let erase = timing.erase;
                let time = |slc: &SlcMode| {
                    slots.of(group).map(|entry| slc.time(entry, &self.layout, erase)).max()
                };
                noisy(noise, modes.slc.and_then(time).unwrap_or(erase))
            }
            FlashOp::CopyBack => {
                let entry = slots.get(group.head);
                let read = timing.read[self.layout.split(entry.command.from).1 as usize];
                let program = timing.program[entry.place as usize];
                noisy(noise, read) + noisy(noise, program)
            }
        };
        if group.op != FlashOp::Read {
            die.array_since = sent;
        }
        die.array = Array::Busy;
        die.array_group = group;
        die.interruptions = 0;
        write_down(&mut self.observed, number, die, Some((group, &self.slots)), self.now);
        die.works_on(group.op, group.cause, self.now);
        self.events.set(number, sent + working);
        if self.features.cache_mode {
            self.begin_load(number);
        }
    }

    /// Sends the data of the next program while the array is busy with another (cache mode).
    #[inline(never)]
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
        let command = self.timing.command * Picos::from(self.commands_of(group));
        let data = transfers(&self.slots, group, &self.timing);
        let time = noisy(&mut self.noise, command + data);
        let die = &mut self.dies[number as usize];
        let start = self.channels[die.channel as usize].take(from, time);
        waited_for_channel(&mut self.slots, group, start - from);
        let arrived = start + time;
        die.transfer = Transfer::In;
        die.transfer_group = group;
        self.events.set(self.transfer_part(number), arrived);
    }

    #[inline]
    fn transfer_part(&self, number: u32) -> u32 {
        if self.features.cache_mode { number + self.dies.len() as u32 } else { number }
    }

    /// Number of commands that are sent to the die for a group: one for all pages of a plane that
    /// are sensed or programmed together.
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

    /// Sends the data of the next command of the group in the register.
    #[inline]
    fn send(&mut self, number: u32, slot: CommandSlot) {
        let now = self.now;
        let entry = self.slots.get_mut(slot);
        let time = noisy(&mut self.noise, self.timing.transfer(entry.command.bytes));
        let channel = &mut self.channels[self.dies[number as usize].channel as usize];
        let start = channel.take(now, time);
        entry.channel_wait += start - now;
        self.events.set(self.transfer_part(number), start + time);
    }

    #[inline]
    pub(super) fn array_ended(&mut self, number: u32, done: &mut Vec<Done>) {
        let group = self.dies[number as usize].array_group;
        if group.op == FlashOp::Read {
            if self.retries.is_some() && self.retry(number, group) {
                return;
            }
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

    /// Senses pages again that could not be decoded after they were sent. Returns true if there is
    /// such a page.
    #[inline(never)]
    fn retry(&mut self, number: u32, group: Group) -> bool {
        let Some(retries) = &mut self.retries else { return false };
        let (mut data, mut count) = (0, 0_u32);
        let mut slot = group.head;
        while slot != NONE {
            let entry = self.slots.get(slot);
            if retries.fails(slot) {
                data += self.timing.transfer(entry.command.bytes);
                self.counters.bytes_transferred += u64::from(entry.command.bytes);
                count += 1;
            }
            slot = entry.next;
        }
        if count == 0 {
            return false;
        }
        self.counters.read_retries += u64::from(count);
        let modes = Modes { slc: self.slc.as_deref(), layout: &self.layout };
        let sensing = longest(&self.slots, group, &self.timing.read, modes);
        let time = noisy(&mut self.noise, data + self.timing.command);
        let channel = &mut self.channels[self.dies[number as usize].channel as usize];
        let until = channel.take(self.now, time) + time + noisy(&mut self.noise, sensing);
        slot = group.head;
        while slot != NONE {
            retries.took(slot, until - self.now);
            slot = self.slots.get(slot).next;
        }
        self.events.set(number, until);
        true
    }

    /// Draws the number of retries of each read of a group.
    #[inline(never)]
    fn draw_retries(&mut self, group: Group) {
        let Some(retries) = &mut self.retries else { return };
        let mut slot = group.head;
        while slot != NONE {
            let entry = self.slots.get(slot);
            retries.begin(slot, entry, &self.layout);
            slot = entry.next;
        }
    }

    /// Updates the media after a program or an erase.
    #[inline]
    fn settle_pages(&mut self, op: FlashOp, slot: CommandSlot) {
        let entry = self.slots.get(slot);
        let block = self.layout.block_of(entry.command.page);
        let programmed = &mut self.programmed[block.index()];
        if op == FlashOp::Erase {
            *programmed = 0;
            if let Some(retries) = &mut self.retries {
                retries.wear(block, 1);
            }
            return;
        }
        assert!(
            u32::from(*programmed) <= entry.place,
            "the pages of an erase block are programmed in order"
        );
        *programmed = entry.place as u16 + 1;
    }

    /// Lets the array take a program whose data arrived while it was busy.
    #[inline(never)]
    fn begin_loaded(&mut self, number: u32, group: Group, since: Picos, behind: Class) {
        let waited = self.now - since;
        self.slots.change(group, |entry| entry.waited[behind as usize] += waited);
        let modes = Modes { slc: self.slc.as_deref(), layout: &self.layout };
        let program = longest(&self.slots, group, &self.timing.program, modes);
        let until = self.now + noisy(&mut self.noise, program);
        let die = &mut self.dies[number as usize];
        die.array = Array::Busy;
        die.array_group = group;
        die.array_since = self.now;
        die.interruptions = 0;
        write_down(&mut self.observed, number, die, Some((group, &self.slots)), self.now);
        die.works_on(group.op, group.cause, self.now);
        self.events.set(number, until);
        self.begin_load(number);
        if self.features.suspend && !self.dies[number as usize].urgent.is_empty() {
            self.interrupt(number);
        }
    }

    /// In cache mode: sends the command of the next read before the data of the last one, so that
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

    #[inline]
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
            waited_for_channel(&mut self.slots, group, waited);
            self.begin_next_read(number);
            self.send_out(number, group);
        }
        self.begin(number);
    }

    /// Interrupts the current operation, if it can be interrupted, for a read for the host.
    #[inline(never)]
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
            // Not worth it if it ends before the read could begin.
            && until > now + suspend;
        if !can {
            return;
        }
        // Data that is arriving has to arrive first.
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

    #[inline(never)]
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
        write_down(&mut self.observed, number, die, Some((group, &self.slots)), self.now);
        die.works_on(group.op, group.cause, self.now);
        self.events.set(number, now + resume + left);
    }
}

impl Layout {
    /// The die that a page lies on.
    #[must_use]
    pub fn die_of(&self, page: units::Ppn) -> u32 {
        self.die_of_block(self.block_of(page))
    }
}
