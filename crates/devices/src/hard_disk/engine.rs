//! The order in which a hard disk carries commands out, and when each is completed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{Command, Completion, Data, Reply};
use units::{IoOp, Nanos};

use super::arm::Arm;
use super::cache::{Dirty, DirtyWrites, Segments};

/// Longest time for which the elevator keeps the arm with one reader, in nanoseconds: CFQ's
/// slice_sync.
const SLICE: Nanos = 100_000_000;
/// Time after which a waiting command goes first, in nanoseconds.
const PATIENCE: Nanos = 500_000_000;

/// Settings of the order, and of what surrounds the arm.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes a nanosecond.
    pub link: f64,
    /// Nanoseconds that the disk takes for each command.
    pub command: Nanos,
    /// Nanoseconds that a seek for a write takes more.
    pub write_settle: f64,
    /// Memory for writes, in bytes; 0 if they are acknowledged once they are on a platter.
    pub write_bytes: u64,
    /// Commands of which the disk chooses.
    pub queue: usize,
    /// Nanoseconds for which the arm is kept with a sequential reader.
    pub anticipation: Nanos,
}

/// A command that waits for the arm, or a write that waits for room.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u32,
    op: IoOp,
    offset: u64,
    length: u64,
    submitted_at: Nanos,
    /// Time from which the arm can move for it.
    ready_at: Nanos,
    serial: u64,
    /// True if it is to be on a platter before it is completed.
    is_through: bool,
}

/// Work of the arm.
#[derive(Clone, Copy, Debug)]
enum Work {
    Command(Waiting),
    Destage(Dirty),
}

/// A reader that may go on in sequence.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Where its next read would begin.
    next: u64,
    /// Until when the arm is kept with it.
    until: Nanos,
    /// When the arm came to it.
    since: Nanos,
}

/// The engine. Its time is in nanoseconds, and passes only in [`Engine::run`].
#[derive(Debug)]
pub struct Engine {
    arm: Arm,
    settings: Settings,
    now: Nanos,
    /// Place of the arm after its last work.
    place: f64,
    waiting: Vec<Waiting>,
    work: Option<(Nanos, Work)>,
    segments: Segments,
    dirty: DirtyWrites,
    /// Completions to come, by time.
    due: BinaryHeap<Reverse<(Nanos, u32, Nanos)>>,
    reader: Option<Reader>,
    link_is_free_at: Nanos,
    serial: u64,
    /// True if the last work was a destage: a read comes next, if one waits.
    destaged: bool,
}

impl Engine {
    pub fn new(arm: Arm, settings: Settings, read_bytes: u64, capacity_bytes: u64) -> Self {
        Self {
            arm,
            settings,
            now: 0,
            place: 0.0,
            waiting: Vec::new(),
            work: None,
            segments: Segments::new(read_bytes, capacity_bytes),
            dirty: DirtyWrites::default(),
            due: BinaryHeap::new(),
            reader: None,
            link_is_free_at: 0,
            serial: 0,
            destaged: false,
        }
    }

    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Gives the commands that are not completed.
    pub fn outstanding(&self) -> usize {
        let at_arm = matches!(self.work, Some((_, Work::Command(_))));
        self.waiting.len() + usize::from(at_arm) + self.due.len()
    }

    pub fn submit(&mut self, command: &Command) {
        self.serial += 1;
        let one = Waiting {
            id: command.id,
            op: command.op,
            offset: command.offset,
            length: u64::from(command.length),
            submitted_at: self.now,
            ready_at: self.now + self.settings.command,
            serial: self.serial,
            is_through: command.is_fua || self.settings.write_bytes == 0,
        };
        let taken = match one.op {
            IoOp::Read => self.read_from_memory(&one),
            IoOp::Write => self.write_to_memory(&one),
            IoOp::Flush | IoOp::Trim => false,
        };
        if !taken {
            self.waiting.push(one);
        }
        self.begin();
    }

    /// Completes a command once its bytes have passed the link.
    fn over_link(&mut self, one: &Waiting) {
        let took = (one.length as f64 / self.settings.link) as Nanos;
        let begun = self.now.max(one.ready_at).max(self.link_is_free_at);
        self.link_is_free_at = begun + took;
        self.due.push(Reverse((begun + took, one.id, one.submitted_at)));
    }

    fn read_from_memory(&mut self, one: &Waiting) -> bool {
        let in_segment = self.segments.holds(&self.arm, self.now, one.offset, one.length);
        if !in_segment && !self.dirty.holds(one.offset, one.length) {
            return false;
        }
        self.over_link(one);
        if in_segment {
            self.goes_on(one);
        }
        true
    }

    /// Takes a write into memory, if there is room and no write waits for that.
    fn write_to_memory(&mut self, one: &Waiting) -> bool {
        let waits = self.waiting.iter().any(|other| other.op == IoOp::Write && !other.is_through);
        if one.is_through || waits {
            return false;
        }
        self.has_room_for(one) && {
            self.take_into_memory(one);
            true
        }
    }

    fn has_room_for(&self, one: &Waiting) -> bool {
        // What is larger than the memory goes through it once it is empty.
        self.dirty.bytes() + one.length <= self.settings.write_bytes || self.dirty.is_empty()
    }

    fn take_into_memory(&mut self, one: &Waiting) {
        self.dirty.add(Dirty { offset: one.offset, length: one.length, serial: one.serial });
        self.over_link(one);
    }

    /// Keeps the arm with a reader that reads in sequence.
    fn goes_on(&mut self, read: &Waiting) {
        let since = self.reader.map_or(self.now, |reader| reader.since);
        let until = self.now + self.settings.anticipation;
        let is_over = self.now - since > SLICE;
        let next = read.offset + read.length;
        self.reader =
            (!is_over && self.settings.anticipation > 0).then_some(Reader { next, until, since });
    }

    /// Gives the time of the next event.
    pub fn next_time(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|Reverse((at, ..))| *at);
        let arm = match self.work {
            Some((ends, _)) => Some(ends),
            // The arm rests because the elevator keeps it, or the disk still takes a command.
            None => {
                let commands = self.waiting.iter().filter(|one| one.op != IoOp::Flush);
                let ready = commands.map(|one| one.ready_at);
                let has_work = !self.waiting.is_empty() || !self.dirty.is_empty();
                let kept = self.reader.map(|reader| reader.until).filter(|_| has_work);
                ready.chain(kept).filter(|&at| at > self.now).min()
            }
        };
        due.into_iter().chain(arm).min().map(|at| at.max(self.now))
    }

    /// Goes on until something is completed, or to a time.
    pub fn run(&mut self, until: Nanos, completed: &mut Vec<Completion>) {
        let before = completed.len();
        loop {
            while let Some(&Reverse((at, id, submitted_at))) = self.due.peek()
                && at <= self.now
            {
                self.due.pop();
                let reply = Reply { id, outcome: Ok(Data::Absent) };
                completed.push(Completion { reply, submitted_at, completed_at: at });
            }
            if completed.len() > before {
                return;
            }
            match self.next_time() {
                Some(next) if next <= until => {
                    self.now = next;
                    self.end_work();
                    self.begin();
                }
                _ => {
                    self.now = self.now.max(until);
                    return;
                }
            }
        }
    }

    fn end_work(&mut self) {
        let Some((ends, work)) = self.work.filter(|&(ends, _)| ends <= self.now) else { return };
        self.work = None;
        self.destaged = matches!(work, Work::Destage(_));
        match work {
            Work::Command(one) => {
                if one.op == IoOp::Read {
                    let follows = self.segments.continues(&self.arm, ends, one.offset);
                    self.segments.read(&self.arm, ends, one.offset, one.length);
                    if follows {
                        self.goes_on(&one);
                    } else {
                        self.reader = None;
                    }
                }
                self.due.push(Reverse((ends, one.id, one.submitted_at)));
            }
            Work::Destage(_) => self.admit(),
        }
        self.end_flushes();
    }

    /// Takes writes into memory that waited for room.
    fn admit(&mut self) {
        while let Some(at) =
            self.waiting.iter().position(|one| one.op == IoOp::Write && !one.is_through)
        {
            let one = self.waiting[at];
            if !self.has_room_for(&one) {
                break;
            }
            self.waiting.remove(at);
            self.take_into_memory(&one);
        }
    }

    /// Completes flushes for which all earlier writes are on a platter.
    fn end_flushes(&mut self) {
        let destaging = match self.work {
            Some((_, Work::Destage(write))) => Some(write.serial),
            Some((_, Work::Command(one))) if one.op == IoOp::Write => Some(one.serial),
            _ => None,
        };
        let writes = self.waiting.iter().filter(|one| one.op == IoOp::Write);
        let oldest = writes.map(|one| one.serial).chain(self.dirty.oldest()).chain(destaging).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        let (now, due) = (self.now, &mut self.due);
        self.waiting.retain(|one| {
            let is_done = one.op == IoOp::Flush && one.serial < oldest;
            if is_done {
                due.push(Reverse((now.max(one.ready_at), one.id, one.submitted_at)));
            }
            !is_done
        });
    }

    /// Gives the arm its next work, if there is any that need not wait.
    fn begin(&mut self) {
        if self.work.is_some() {
            return;
        }
        self.end_flushes();
        let reads = self.chosen_command();
        let flushes = self.waiting.iter().any(|one| one.op == IoOp::Flush);
        let is_full = 2 * self.dirty.bytes() > self.settings.write_bytes
            || self.waiting.iter().any(|one| one.op == IoOp::Write && !one.is_through);
        let is_kept = self.reader.is_some_and(|reader| self.now < reader.until);
        let must_destage = (flushes || is_full) && !self.dirty.is_empty() && !self.destaged;
        match reads {
            Some(at) if !must_destage => self.begin_command(at),
            _ if must_destage || (reads.is_none() && self.may_destage(is_kept)) => {
                self.begin_destage();
            }
            Some(at) => self.begin_command(at),
            None => {}
        }
    }

    fn may_destage(&self, is_kept: bool) -> bool {
        !self.dirty.is_empty() && !is_kept
    }

    /// Gives the time that the arm takes to a waiting command; none if it only has to go on.
    fn way_to(&self, one: &Waiting) -> f64 {
        if one.op == IoOp::Read
            && let Some((_, from)) = self.segments.reaches(&self.arm, self.now, one.offset)
        {
            return (from - self.now) as f64;
        }
        let settle = if one.op == IoOp::Write { self.settings.write_settle } else { 0.0 };
        self.arm.positioning(self.now as f64 + settle, self.place, one.offset) + settle
    }

    /// Chooses a command that the arm goes to now: the reader's that it is kept with, one that has
    /// waited for long, or the one that the head reaches first.
    fn chosen_command(&mut self) -> Option<usize> {
        let is_ready = |one: &Waiting| {
            one.ready_at <= self.now
                && (one.op == IoOp::Read || (one.op == IoOp::Write && one.is_through))
        };
        if let Some(reader) = self.reader {
            let near = self.waiting.iter().position(|one| {
                is_ready(one)
                    && one.op == IoOp::Read
                    && (one.offset <= reader.next)
                    && reader.next <= one.offset + one.length
            });
            if near.is_some() {
                return near;
            }
            if self.now < reader.until {
                return None;
            }
            self.reader = None;
        }
        let ready = self.waiting.iter().enumerate().filter(|(_, one)| is_ready(one));
        let first: Vec<(usize, &Waiting)> = ready.take(self.settings.queue).collect();
        let (oldest, one) = first.first()?;
        if self.now - one.submitted_at > PATIENCE {
            return Some(*oldest);
        }
        let by_way = first.iter().map(|(at, one)| (*at, self.way_to(one)));
        by_way.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
    }

    fn begin_command(&mut self, at: usize) {
        let one = self.waiting.remove(at);
        let reached = match one.op {
            IoOp::Read => self.segments.reaches(&self.arm, self.now, one.offset),
            _ => None,
        };
        let took = if let Some((end, from)) = reached {
            let missing = (one.offset + one.length).saturating_sub(end);
            (from - self.now) as f64 + self.arm.transfer(end, missing)
        } else {
            let way = self.way_to(&one);
            self.segments.stop(&self.arm, self.now);
            way + self.arm.transfer(one.offset, one.length)
        };
        self.place = self.arm.place(one.offset + one.length);
        self.work = Some((self.now + took.round() as Nanos, Work::Command(one)));
    }

    fn begin_destage(&mut self) {
        let settle = self.settings.write_settle;
        let first = self.dirty.iter().take(self.settings.queue).enumerate();
        let (arm, now, place) = (&self.arm, self.now as f64, self.place);
        let by_way = first.map(|(at, write)| {
            // What follows the last write needs no new settling.
            let begins_here = arm.place(write.offset) - place;
            let settle = if begins_here.abs() < 1e-12 { 0.0 } else { settle };
            (at, arm.positioning(now + settle, place, write.offset) + settle)
        });
        let chosen = by_way.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some((at, way)) = chosen else { return };
        self.segments.stop(&self.arm, self.now);
        let write = self.dirty.remove(at);
        let took = way + self.arm.transfer(write.offset, write.length);
        self.place = self.arm.place(write.offset + write.length);
        self.work = Some((self.now + took.round() as Nanos, Work::Destage(write)));
    }
}
