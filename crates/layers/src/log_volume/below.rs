//! What is below: commands that are under way there, and writes that wait until others have ended.

use std::collections::VecDeque;

use slab::Slab;
use units::IoOp;

use super::gathered::FrontierRun;
use super::reading::HostRead;
use super::scrub::ScrubRead;
use crate::{Actions, Command, Data, Limits};

/// What a command below is for.
#[derive(Debug)]
pub(super) enum Op {
    /// A part of what the host reads.
    Read(HostRead),
    /// A page of which the host writes a part.
    Fill { write: usize, lpn: u32, ppn: u32, expected: u32 },
    /// Survivors of a victim, from this one on.
    Move { number: usize, pages: usize, tries: u32 },
    /// Pages of a pass over all of them.
    Scrub(ScrubRead),
    /// Pages of data.
    Pages { run: FrontierRun, turn: u8 },
    /// A trim of a segment that is durably empty.
    Trim { segment: u32 },
    /// Summaries or tables.
    Own { turn: u8, is_table: bool },
    /// A piece of a segment's footer.
    Footer { turn: u8, segment: u32 },
    /// A part of a root.
    Root,
    /// The flush that ends a commit.
    Flush,
    /// The flush that ends a checkpoint.
    RootFlush,
}

impl Op {
    fn is_write(&self) -> bool {
        matches!(self, Self::Pages { .. } | Self::Own { .. } | Self::Footer { .. } | Self::Root)
    }
}

/// The way to the device, on which only so many writes go at once.
#[derive(Debug)]
pub(super) struct Below {
    limits: Limits,
    most_writes: usize,
    ops: Slab<Op>,
    waiting: VecDeque<Command>,
    writes: usize,
    /// Pages of data that were never written, to be read from memory.
    unwritten: Vec<FrontierRun>,
}

impl Below {
    pub fn new(limits: Limits, most_writes: usize) -> Self {
        Self {
            limits,
            most_writes,
            ops: Slab::new(),
            waiting: VecDeque::new(),
            writes: 0,
            unwritten: Vec::new(),
        }
    }

    /// What may be asked of it.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Whole pages that one command may have, at most `wanted`.
    pub fn most_pages(&self, wanted: usize, page_bytes: u32) -> usize {
        wanted.min((self.limits.most_bytes / page_bytes) as usize)
    }

    /// Sends a write, or lets it wait for others.
    pub fn write(&mut self, op: Op, offset: u64, length: u32, data: Data, actions: &mut Actions) {
        let command = Command { data, ..Command::new(0, IoOp::Write, offset, length) };
        self.send_write(op, command, actions);
    }

    /// The same of a whole command, but for its id.
    pub fn send_write(&mut self, op: Op, command: Command, actions: &mut Actions) {
        let command = Command { id: self.ops.insert(op) as u32, ..command };
        if self.writes < self.most_writes {
            self.writes += 1;
            actions.send(command);
        } else {
            self.waiting.push_back(command);
        }
    }

    /// Sends anything else.
    pub fn send(&mut self, op: Op, io: IoOp, offset: u64, length: u32, actions: &mut Actions) {
        let id = self.ops.insert(op) as u32;
        actions.send(Command::new(id, io, offset, length));
    }

    /// Whether more may be written without holding ever more in memory.
    #[inline]
    pub fn can_write(&self) -> bool {
        self.waiting.len() < self.most_writes
    }

    /// A command has ended: what it was for.
    pub fn ended(&mut self, id: u32) -> Op {
        let op = self.ops.remove(id as usize);
        self.writes -= usize::from(op.is_write());
        op
    }

    /// Sends writes that waited, as many as there is room for.
    pub fn send_waiting(&mut self, actions: &mut Actions) {
        while self.writes < self.most_writes
            && let Some(command) = self.waiting.pop_front()
        {
            self.writes += 1;
            actions.send(command);
        }
    }

    /// Gives up the writes that wait: they are never sent.
    pub fn give_up_waiting(&mut self) {
        while let Some(command) = self.waiting.pop_front() {
            let op = self.ops.remove(command.id as usize);
            self.keep_unwritten(op);
        }
    }

    /// Pages whose write failed, or was given up, stay in memory.
    pub fn keep_unwritten(&mut self, op: Op) {
        if let Op::Pages { run, .. } = op {
            self.unwritten.push(run);
        }
    }

    /// Whether nothing is under way or waits.
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty()
    }

    /// Pages of data that are under way, wait, or were never written.
    pub fn runs(&self) -> impl Iterator<Item = &FrontierRun> {
        self.ops
            .iter()
            .filter_map(|(_, op)| if let Op::Pages { run, .. } = op { Some(run) } else { None })
            .chain(&self.unwritten)
    }
}
