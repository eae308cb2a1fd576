//! The connection to the host: queues, the controller that takes commands from them, and the link.

use std::collections::VecDeque;

use units::IoOp;

use super::trims::Trims;
use super::{Completion, Drive, RequestSlot};
use crate::drive::profile::{InterfaceKind, Profile};
use crate::drive::schemes::Scheme;
use crate::drive::time::{Picos, Rate, picos_of_micros};

/// In place of a request: the postponed work of TRIMs.
const PUT_OFF: RequestSlot = RequestSlot::MAX;

/// Items that arrive in the order in which they were sent.
#[derive(Debug)]
pub(super) struct Line<T> {
    items: VecDeque<(Picos, T)>,
    /// Time of the first arrival. It is read at each event, but changes seldom.
    next: Picos,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), next: Picos::MAX }
    }
}

impl<T> Line<T> {
    #[inline]
    pub fn next_time(&self) -> Picos {
        self.next
    }

    #[inline]
    pub fn push(&mut self, at: Picos, item: T) {
        debug_assert!(
            self.items.back().is_none_or(|&(last, _)| last <= at),
            "a line keeps its order"
        );
        self.items.push_back((at, item));
        // The first one is not later than any other.
        self.next = self.next.min(at);
    }

    #[inline]
    pub fn pop(&mut self) -> T {
        let (_, item) = self.items.pop_front().expect("something arrives");
        self.next = self.items.front().map_or(Picos::MAX, |&(at, _)| at);
        item
    }
}

/// A link in one or both directions: first come, first served.
#[derive(Debug)]
struct Link {
    rate: Rate,
    free_at: Picos,
}

impl Link {
    #[inline]
    fn send(&mut self, now: Picos, frames: Picos, bytes: u32) -> Picos {
        self.free_at = self.free_at.max(now) + frames + self.rate.time_of(bytes);
        self.free_at
    }
}

/// One queue of the host.
#[derive(Debug, Default)]
struct Queue {
    /// Number of requests that the drive has taken and not completed.
    taken: u32,
    /// Requests that the controller may take now.
    ready: VecDeque<RequestSlot>,
    /// Requests beyond the queue's depth, with their priority: they wait in the host, the highest
    /// at the front.
    beyond: VecDeque<(u8, RequestSlot)>,
}

/// A part of a request's data on its way to the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub slot: RequestSlot,
}

impl Queue {
    #[cold]
    fn wait_beyond(&mut self, slot: RequestSlot, priority: u8) {
        let behind = self.beyond.iter().rposition(|&(other, _)| other >= priority);
        self.beyond.insert(behind.map_or(0, |place| place + 1), (priority, slot));
    }
}

#[derive(Debug)]
pub(super) struct Host {
    queues: Vec<Queue>,
    depth: u32,
    next_queue: usize,
    ready: u32,
    /// End of the controller's work on a command, and the command.
    at_hand: Option<(Picos, RequestSlot)>,
    /// True while a loop takes commands: a command that completes at once leaves the next one to
    /// that loop, as any number may wait.
    is_taking: bool,
    read_command: Picos,
    write_command: Picos,
    page: Picos,
    /// Least time from one write to the next; then the time at which the next may begin.
    write_gap: Picos,
    next_write: Picos,
    /// Additional delay of the next write for each page that was relocated since the last one.
    relocation_gap: Picos,
    /// Lead of `next_write` over the clock up to which writes do not wait.
    write_slack: Picos,
    /// Longest delay of the next write for each page of the last one; then the time until which
    /// that holds.
    trickle_gap: Picos,
    next_trickle: Picos,
    /// Lead of `next_trickle` over the clock up to which writes do not wait.
    trickle_slack: Picos,
    /// Delay of the next write for each read.
    read_gap: Picos,
    relocated: Option<u64>,
    turnaround: Picos,
    read_frames: Picos,
    write_frames: Picos,
    last_op: IoOp,
    trims: Trims,
    is_duplex: bool,
    to_drive: Link,
    to_host: Link,
    /// Writes that came sooner after the last one than the drive takes them.
    held_back: Line<RequestSlot>,
    /// Data of writes, in parts: the request, and the number of its pages that have arrived with
    /// this part.
    incoming: Line<(RequestSlot, u32)>,
    outgoing: Line<Outgoing>,
    /// Gate at which writes wait for reads, with the requests that wait.
    pub gate: Gate,
}

/// Reads from flash share the mapping table; a write needs it exclusively (PARALLELISM 5.2 names it
/// as a cause of interference). A write that waits keeps later reads out, so that neither starves.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub is_on: bool,
    /// Time for which a write needs the table; then the additional time if it had to wait for a
    /// read.
    hold: Picos,
    drain: Picos,
    /// True if the write at the front found reads under way.
    had_to_wait: bool,
    /// End of the time for which a write holds the table, and the write.
    holder: Option<(Picos, RequestSlot)>,
    /// Number of read requests past the gate that have not ended.
    pub reading: u32,
    pub waiting: VecDeque<RequestSlot>,
}

/// Time of a command that is held. It never comes.
const HELD: Picos = Picos::MAX - 1;

impl Host {
    pub fn new(profile: &Profile) -> Self {
        let interface = &profile.interface;
        let controller = &profile.controller;
        let link = || Link {
            rate: Rate::of_bytes_per_second(interface.link_mb_per_second * 1e6),
            free_at: 0,
        };
        Self {
            queues: (0..interface.queues).map(|_| Queue::default()).collect(),
            depth: interface.queue_depth,
            next_queue: 0,
            ready: 0,
            at_hand: None,
            is_taking: false,
            read_command: picos_of_micros(controller.read_command_us),
            write_command: picos_of_micros(controller.write_command_us),
            page: picos_of_micros(controller.page_us),
            write_gap: picos_of_micros(controller.write_gap_us),
            next_write: 0,
            relocation_gap: picos_of_micros(controller.relocation_gap_us),
            relocated: None,
            write_slack: picos_of_micros(controller.write_slack_us),
            trickle_gap: match controller.trickle_gap_us {
                0.0 => Picos::MAX / 2,
                gap => picos_of_micros(gap),
            },
            next_trickle: 0,
            trickle_slack: picos_of_micros(controller.trickle_slack_us),
            read_gap: picos_of_micros(controller.read_gap_us),
            turnaround: picos_of_micros(controller.turnaround_us),
            read_frames: picos_of_micros(interface.read_frames_us),
            write_frames: picos_of_micros(interface.write_frames_us),
            last_op: IoOp::Flush,
            trims: Trims::new(&profile.ftl),
            is_duplex: interface.kind == InterfaceKind::Nvme,
            to_drive: link(),
            to_host: link(),
            held_back: Line::default(),
            incoming: Line::default(),
            outgoing: Line::default(),
            gate: Gate {
                is_on: controller.writes_wait_for_reads,
                hold: picos_of_micros(controller.write_hold_us),
                drain: picos_of_micros(controller.drain_us),
                ..Gate::default()
            },
        }
    }

    #[inline]
    pub fn next_time(&self) -> Picos {
        let at_hand = self.at_hand.map_or(Picos::MAX, |(until, _)| until);
        let held = self.gate.holder.map_or(Picos::MAX, |(until, _)| until);
        at_hand
            .min(held)
            .min(self.held_back.next_time())
            .min(self.incoming.next_time())
            .min(self.outgoing.next_time())
    }

    /// The queue that a request comes through.
    #[inline]
    fn number_of(&self, queue: u32) -> usize {
        let (queue, count) = (queue as usize, self.queues.len());
        // Mostly saves a division.
        if queue < count { queue } else { queue % count }
    }

    /// Takes a request from the host. Returns true if the controller begins with it now: if it is
    /// idle, the request is the next command, and need not go through the queue.
    #[inline(always)]
    pub fn arrive(&mut self, slot: RequestSlot, queue: u32, priority: u8) -> bool {
        let number = self.number_of(queue);
        let queues = self.queues.len();
        let queue = &mut self.queues[number];
        if queue.taken == self.depth {
            queue.wait_beyond(slot, priority);
            return false;
        }
        queue.taken += 1;
        if self.ready == 0 && self.at_hand.is_none() && !self.is_taking {
            self.next_queue = if number + 1 == queues { 0 } else { number + 1 };
            return true;
        }
        queue.ready.push_back(slot);
        self.ready += 1;
        false
    }

    /// Keeps the controller at a command until [`Host::retry`].
    pub fn hold(&mut self, slot: RequestSlot) {
        self.at_hand = Some((HELD, slot));
    }

    /// Lets the controller try a held command again.
    pub fn retry(&mut self, now: Picos) {
        if let Some((until, _)) = &mut self.at_hand
            && *until == HELD
        {
            *until = now;
        }
    }

    /// Records that a request of the queue has ended. Returns true if the controller can begin with
    /// a command now.
    #[inline]
    pub fn left(&mut self, queue: u32, _now: Picos) -> bool {
        let number = self.number_of(queue);
        let queue = &mut self.queues[number];
        if let Some((_, slot)) = queue.beyond.pop_front() {
            queue.ready.push_back(slot);
            self.ready += 1;
            return self.at_hand.is_none();
        }
        queue.taken -= 1;
        false
    }

    /// Takes the next command, from the queues in turn.
    #[inline]
    fn next_command(&mut self) -> Option<RequestSlot> {
        if self.ready == 0 || self.at_hand.is_some() {
            return None;
        }
        self.ready -= 1;
        loop {
            let queue = self.next_queue;
            self.next_queue = if queue + 1 == self.queues.len() { 0 } else { queue + 1 };
            if let Some(slot) = self.queues[queue].ready.pop_front() {
                return Some(slot);
            }
        }
    }

    /// Time that the controller takes for a request.
    #[inline]
    fn command_time(&mut self, op: IoOp, pages: u32) -> Picos {
        let command = match op {
            IoOp::Read => self.read_command,
            IoOp::Write => self.write_command,
            IoOp::Trim => return self.write_command + self.trims.time(pages),
            // A flush carries no data; its other costs come from what it causes.
            IoOp::Flush => return self.write_command,
        };
        let turns = self.last_op != op && self.last_op != IoOp::Flush;
        self.last_op = op;
        command + self.page * Picos::from(pages) + if turns { self.turnaround } else { 0 }
    }

    /// Sends bytes to the host. Gives the time at which they have arrived.
    #[inline]
    fn send_out(&mut self, now: Picos, is_first: bool, bytes: u32) -> Picos {
        let frames = if is_first { self.read_frames } else { 0 };
        if self.is_duplex {
            self.to_host.send(now, frames, bytes)
        } else {
            self.to_drive.send(now, frames, bytes)
        }
    }
}

impl<S: Scheme> Drive<S> {
    /// Lets the controller take commands, as long as it is free and there are some.
    #[inline]
    pub(super) fn take_commands(&mut self, completed: &mut Vec<Completion>) {
        if self.host.is_taking {
            return;
        }
        if let Some(slot) = self.host.next_command() {
            self.take_command(slot, completed);
        } else {
            self.work_off_trims();
        }
    }

    /// Lets the idle controller do postponed work, if there is some.
    #[inline]
    fn work_off_trims(&mut self) {
        if self.host.at_hand.is_none()
            && let Some(time) = self.host.trims.work_off()
        {
            self.host.at_hand = Some((self.media.now() + time, PUT_OFF));
        }
    }

    /// Lets the controller take this command, and then further ones that take no time.
    #[inline]
    pub(super) fn take_command(&mut self, mut slot: RequestSlot, completed: &mut Vec<Completion>) {
        self.host.is_taking = true;
        loop {
            let request = &self.requests[slot as usize];
            let time = self.host.command_time(request.submission.op, request.pages);
            if time > 0 {
                self.host.at_hand = Some((self.media.now() + time, slot));
                break;
            }
            self.dispatch(slot, completed);
            let Some(next) = self.host.next_command() else {
                self.work_off_trims();
                break;
            };
            slot = next;
        }
        self.host.is_taking = false;
    }

    /// Carries out the next event at the host's side.
    pub(super) fn step_host(&mut self, completed: &mut Vec<Completion>) {
        let now = self.media.now();
        if self.host.outgoing.next_time() == now {
            let Outgoing { slot } = self.host.outgoing.pop();
            self.part_arrived(slot, completed);
        } else if self.host.incoming.next_time() == now {
            let (slot, pages) = self.host.incoming.pop();
            self.data_arrived(slot, pages, completed);
        } else if self.host.held_back.next_time() == now {
            let slot = self.host.held_back.pop();
            self.receive(slot, completed);
        } else if let Some((_, slot)) = self.host.gate.holder.take_if(|(until, _)| *until == now) {
            self.enter(slot, completed);
            self.open_gate(completed);
        } else if let Some((_, slot)) = self.host.at_hand.take() {
            if slot != PUT_OFF {
                self.dispatch(slot, completed);
            }
            self.take_commands(completed);
        }
    }

    /// Begins the transfer of data for a request, after the controller has processed the command.
    #[inline(always)]
    fn dispatch(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if self.scheme.is_zoned() && !self.enters_zone(slot, completed) {
            return;
        }
        let submission = self.requests[slot as usize].submission;
        match submission.op {
            IoOp::Read => {
                if self.host.read_gap > 0 {
                    let now = self.media.now();
                    self.host.next_write = self.host.next_write.max(now) + self.host.read_gap;
                }
                self.pass_gate(slot, completed);
            }
            IoOp::Write => self.keep_distance(slot, completed),
            IoOp::Trim => self.trim(slot, completed),
            IoOp::Flush => self.flush(slot, completed),
        }
    }

    /// Begins a write, after the delays that the drive keeps between writes.
    fn keep_distance(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        let now = self.media.now();
        if self.host.relocation_gap > 0 {
            let relocated = self.scheme.counters().relocated_pages;
            let before = self.host.relocated.replace(relocated).unwrap_or(relocated);
            self.host.next_write += self.host.relocation_gap * (relocated - before);
        }
        let is_over = self.host.next_write.saturating_sub(self.host.write_slack);
        let (trickle, slack) = (self.host.next_trickle, self.host.trickle_slack);
        let at = now.max(is_over.min(trickle.saturating_sub(slack)));
        self.host.next_write = self.host.next_write.max(now) + self.host.write_gap;
        let pages = Picos::from(self.requests[slot as usize].pages);
        let behind = trickle.clamp(at, at.saturating_add(slack));
        self.host.next_trickle = behind.saturating_add(self.host.trickle_gap.saturating_mul(pages));
        if at == now {
            self.receive(slot, completed);
        } else {
            self.host.held_back.push(at, slot);
        }
    }

    /// Transfers the next part of a write's data over the link. One at a time: while a part finds
    /// no room in the drive, no more can come.
    #[inline(never)]
    pub(super) fn receive(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        let now = self.media.now();
        let request = &self.requests[slot as usize];
        let end = (request.arrived + self.part_pages).min(request.pages);
        let bytes = (request.arrived..end).map(|number| self.part_of(request, number).1).sum();
        let frames = if request.arrived == 0 { self.host.write_frames } else { 0 };
        let arrives = self.host.to_drive.send(now, frames, bytes);
        if arrives == now && request.arrived == 0 && end == request.pages {
            self.data_arrived(slot, end, completed);
        } else {
            self.host.incoming.push(arrives, (slot, end));
        }
    }

    /// Handles the arrival of a part of a write's data in the drive.
    fn data_arrived(&mut self, slot: RequestSlot, pages: u32, completed: &mut Vec<Completion>) {
        let request = &mut self.requests[slot as usize];
        let is_first = request.arrived == 0;
        request.arrived = pages;
        if self.buffer.capacity() > 0 {
            if is_first {
                self.pass_gate(slot, completed);
            } else {
                self.go_on_writing(slot, completed);
            }
        } else if pages == request.pages {
            // Without a buffer the controller needs all of the data before it can acknowledge any.
            self.pass_gate(slot, completed);
        } else {
            self.receive(slot, completed);
        }
    }

    /// Lets a read or a write continue, or makes it wait.
    #[inline(always)]
    fn pass_gate(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if !self.host.gate.is_on {
            self.enter(slot, completed);
            return;
        }
        self.host.gate.waiting.push_back(slot);
        self.open_gate(completed);
    }

    #[inline(never)]
    fn open_gate(&mut self, completed: &mut Vec<Completion>) {
        while let Some(&slot) = self.host.gate.waiting.front() {
            if self.host.gate.holder.is_some() {
                return;
            }
            let is_read = self.requests[slot as usize].submission.op == IoOp::Read;
            let gate = &mut self.host.gate;
            if !is_read && gate.reading > 0 {
                gate.had_to_wait = true;
                return;
            }
            gate.waiting.pop_front();
            if is_read {
                gate.reading += 1;
            } else {
                let had_to_wait = std::mem::replace(&mut gate.had_to_wait, false);
                let hold = gate.hold + if had_to_wait { gate.drain } else { 0 };
                if hold > 0 {
                    gate.holder = Some((self.media.now() + hold, slot));
                    return;
                }
            }
            self.enter(slot, completed);
        }
    }

    #[inline(always)]
    fn enter(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if self.requests[slot as usize].submission.op == IoOp::Read {
            self.read(slot, completed);
        } else {
            self.write(slot, completed);
        }
    }

    /// Handles the arrival of all data of a read from flash.
    #[inline]
    pub(super) fn read_left_gate(&mut self, completed: &mut Vec<Completion>) {
        if self.host.gate.is_on {
            self.host.gate.reading -= 1;
            self.open_gate(completed);
        }
    }

    /// Sends a part of a page to the host.
    #[inline(always)]
    pub(super) fn send_to_host(
        &mut self,
        slot: RequestSlot,
        bytes: u32,
        completed: &mut Vec<Completion>,
    ) {
        let now = self.media.now();
        let request = &mut self.requests[slot as usize];
        let is_first = !std::mem::replace(&mut request.has_frames, true);
        let arrives = self.host.send_out(now, is_first, bytes);
        if arrives == now {
            self.part_arrived(slot, completed);
        } else {
            self.host.outgoing.push(arrives, Outgoing { slot });
        }
    }

    #[inline(always)]
    fn part_arrived(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        let request = &mut self.requests[slot as usize];
        request.left -= 1;
        if request.left == 0 {
            self.complete(slot, completed);
        }
    }
}
