//! A device in virtual time that answers when a test wants it, late or never, and a layer on it.

use block::{BlockDevice as _, Immediate, Sparse, Store};
use units::{IoOp, Nanos};

use crate::{
    Actions, Command, Data, Facts, Failure, LayerError, Limits, Reply, Stack, format, open,
};

/// Fate of a command, in times since it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// Time when it takes effect, in nanoseconds; never, if the power goes before.
    pub effect: Nanos,
    /// Time of the reply, in nanoseconds; none for never.
    pub reply: Option<Nanos>,
    pub fails: bool,
}

pub fn after(time: Nanos) -> Fate {
    Fate { effect: time, reply: Some(time), fails: false }
}

pub fn never() -> Fate {
    Fate { effect: Nanos::MAX / 2, reply: None, fails: false }
}

pub fn failing(time: Nanos) -> Fate {
    Fate { effect: time, reply: Some(time), fails: true }
}

#[derive(Clone, Debug)]
struct UnderWay {
    command: Command,
    effect: Nanos,
    reply: Option<Nanos>,
    fails: bool,
    has_taken_effect: bool,
    read: Vec<u8>,
}

pub struct World {
    pub stack: Stack,
    pub now: Nanos,
    pub media: Vec<u8>,
    /// Function that gives the fates of commands, from now on.
    pub fate: Box<dyn FnMut(&Command) -> Fate>,
    /// Failure of commands that fail, if it is not one of a device.
    pub failure: Option<Failure>,
    under_way: Vec<UnderWay>,
    actions: Actions,
    /// Replies to the host, with their times, that were not taken.
    pub replies: Vec<(Nanos, Reply)>,
    /// All commands that the device was sent.
    pub sent: Vec<Command>,
    next_id: u32,
    text: String,
    limits: Limits,
}

pub const LIMITS: Limits =
    Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 64 << 10 };

fn device_of(media: &[u8], limits: Limits) -> Immediate<Sparse> {
    let mut device = Immediate::sparse(limits);
    Store::new(&mut device).write(0, media).unwrap();
    device
}

impl World {
    /// Makes a new volume; the device takes 10 us for each command.
    pub fn new(text: &str) -> Self {
        Self::with(text, LIMITS)
    }

    pub fn with(text: &str, limits: Limits) -> Self {
        let mut device = Immediate::sparse(limits);
        format(text, &Facts::default(), 7, &mut device).unwrap();
        let stack = open(text, &Facts::default(), 7, &mut device).unwrap();
        let mut media = vec![0; limits.capacity_bytes as usize];
        Store::new(&mut device).read(0, &mut media).unwrap();
        Self {
            stack,
            now: 0,
            media,
            fate: Box::new(|_| after(10_000)),
            failure: None,
            under_way: Vec::new(),
            actions: Actions::default(),
            replies: Vec::new(),
            sent: Vec::new(),
            next_id: 0,
            text: text.to_owned(),
            limits,
        }
    }

    /// Opens the volume on the media as they are now, with another text or the same.
    pub fn reopen_as(&mut self, text: &str) -> Result<(), LayerError> {
        let mut device = device_of(&self.media, self.limits);
        self.stack = open(text, &Facts::default(), 8, &mut device)?;
        assert_eq!(device.outstanding(), 0);
        Store::new(&mut device).read(0, &mut self.media).unwrap();
        self.under_way.clear();
        self.replies.clear();
        Ok(())
    }

    pub fn reopen(&mut self) {
        self.reopen_as(&self.text.clone()).unwrap();
    }

    pub fn count(&self, name: &str) -> u64 {
        let mut counts = Vec::new();
        self.stack.layers()[0].count(&mut counts);
        let at = super::super::counts::COUNTERS.iter().position(|one| one.name == name);
        counts[at.unwrap_or_else(|| panic!("no counter `{name}`"))]
    }

    /// Sends a command of the host; gives its id.
    pub fn submit(&mut self, mut command: Command) -> u32 {
        self.next_id += 1;
        command.id = self.next_id;
        self.stack.submit(command, self.now, &mut self.actions);
        self.carry_out();
        self.next_id
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> u32 {
        self.submit(Command::write(0, offset, Data::copy_of(bytes)))
    }

    pub fn read(&mut self, offset: u64, length: u32) -> u32 {
        self.submit(Command::new(0, IoOp::Read, offset, length))
    }

    pub fn flush(&mut self) -> u32 {
        self.submit(Command::new(0, IoOp::Flush, 0, 0))
    }

    pub fn trim(&mut self, offset: u64, length: u32) -> u32 {
        self.submit(Command::new(0, IoOp::Trim, offset, length))
    }

    fn carry_out(&mut self) {
        while !self.actions.up.is_empty() || !self.actions.down.is_empty() {
            self.replies.extend(self.actions.up.drain(..).map(|reply| (self.now, reply)));
            for command in std::mem::take(&mut self.actions.down) {
                let Fate { effect, reply, fails } = (self.fate)(&command);
                self.sent.push(command.clone());
                self.under_way.push(UnderWay {
                    command,
                    effect: self.now + effect,
                    reply: reply.map(|time| self.now + time),
                    fails,
                    has_taken_effect: false,
                    read: Vec::new(),
                });
            }
        }
    }

    /// Gives the time of the next event.
    pub fn next(&self) -> Option<Nanos> {
        let effects =
            self.under_way.iter().filter(|one| !one.has_taken_effect).map(|one| one.effect);
        let replies = self.under_way.iter().filter_map(|one| one.reply);
        let next = effects.chain(replies).chain(self.stack.wakes_at()).min()?;
        (next < Nanos::MAX / 4).then_some(next.max(self.now))
    }

    /// Lets the next event happen: effects before replies, and replies before times.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.now = next;
        let due = |one: &UnderWay| !one.has_taken_effect && one.effect <= next;
        while let Some(at) = self.under_way.iter().position(due) {
            self.take_effect(at);
        }
        let due = |one: &UnderWay| one.reply.is_some_and(|at| at <= next);
        if let Some(at) = self.under_way.iter().position(due) {
            let UnderWay { command, fails, read, .. } = self.under_way.swap_remove(at);
            let outcome = if fails {
                let own = || command.failed("the test wants it");
                Err(self.failure.clone().unwrap_or_else(own))
            } else if command.op == IoOp::Read {
                Ok(Data::Whole(read.into()))
            } else {
                Ok(Data::Absent)
            };
            let reply = Reply { id: command.id, outcome };
            self.stack.replied(reply, self.now, &mut self.actions);
        } else if self.stack.wakes_at().is_some_and(|at| at <= next) {
            self.stack.wake(self.now, &mut self.actions);
        }
        self.carry_out();
        true
    }

    fn take_effect(&mut self, at: usize) {
        let one = &mut self.under_way[at];
        one.has_taken_effect = true;
        let range = one.command.offset as usize..one.command.end() as usize;
        match one.command.op {
            IoOp::Read => one.read = self.media[range].to_vec(),
            IoOp::Write => one.command.data.copy_to(&mut self.media[range]),
            IoOp::Trim => self.media[range].fill(0),
            IoOp::Flush => {}
        }
    }

    /// Lets time pass until then.
    pub fn until(&mut self, time: Nanos) {
        while self.next().is_some_and(|next| next <= time) {
            self.step();
        }
        self.now = time;
    }

    /// Lets all events happen.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Gives the reply to a command, with its time; none if it has none yet.
    pub fn reply(&mut self, id: u32) -> Option<(Nanos, Result<Data, Failure>)> {
        let at = self.replies.iter().position(|(_, reply)| reply.id == id)?;
        let (time, reply) = self.replies.swap_remove(at);
        Some((time, reply.outcome))
    }

    /// Lets time pass until a command is replied to; gives the time and the outcome.
    pub fn wait(&mut self, id: u32) -> (Nanos, Result<Data, Failure>) {
        loop {
            if let Some(reply) = self.reply(id) {
                return reply;
            }
            assert!(self.step(), "{id} is never replied to");
        }
    }

    /// Reads a page and returns its first byte.
    pub fn byte(&mut self, offset: u64) -> u8 {
        let id = self.read(offset, 512);
        self.wait(id).1.unwrap().joined().unwrap()[0]
    }

    /// Gives the places of commands of a kind that the device was sent after the first `since`.
    pub fn sent_since(&self, since: usize, op: IoOp) -> Vec<u64> {
        let since = self.sent[since..].iter().filter(|command| command.op == op);
        since.map(|command| command.offset).collect()
    }
}
