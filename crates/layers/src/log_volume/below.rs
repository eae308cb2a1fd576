//! Commands under way below, and writes that wait until others have ended.

use std::collections::VecDeque;

use slab::Slab;
use units::IoOp;

use super::gathered::FrontierRun;
use super::reading::HostRead;
use super::scrub::ScrubRead;
use crate::{Actions, Command, Data, Limits};

/// Purpose of a command below.
#[derive(Debug)]
pub(super) enum Op {
    /// Read of a part for the host.
    Read(HostRead),
    /// Read of a page of which the host writes a part.
    Fill { write: usize, lpn: u32, ppn: u32, expected: u32 },
    /// Read of survivors of a victim, from this one on.
    Move { number: usize, pages: usize, tries: u32 },
    /// Read of pages for a pass over all of them.
    Scrub(ScrubRead),
    /// Write of pages of data.
    Pages { run: FrontierRun, turn: u8 },
    /// Trim of a segment that is durably empty.
    Trim { segment: u32 },
    /// Write of summaries or tables.
    Own { turn: u8, is_table: bool },
    /// Write of a piece of a segment's footer.
    Footer { turn: u8, segment: u32 },
    /// Write of a part of a root.
    Root,
    /// Flush that ends a commit.
    Flush,
    /// Flush that ends a checkpoint.
    RootFlush,
}

impl Op {
    fn is_write(&self) -> bool {
        matches!(self, Self::Pages { .. } | Self::Own { .. } | Self::Footer { .. } | Self::Root)
    }
}

/// Connection to the device, on which only so many writes go at once.
#[derive(Debug)]
pub(super) struct Below {
    limits: Limits,
    most_writes: usize,
    ops: Slab<Op>,
    waiting: VecDeque<Command>,
    writes: usize,
    /// Pages of data whose write failed or was given up, to be read from memory.
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

    /// Gives the limits of what is below.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Gives the number of whole pages that one command may have, at most `wanted`.
    pub fn most_pages(&self, wanted: usize, page_bytes: u32) -> usize {
        wanted.min((self.limits.most_bytes / page_bytes) as usize)
    }

    /// Sends a write, or holds it until others have ended.
    pub fn write(&mut self, op: Op, offset: u64, length: u32, data: Data, actions: &mut Actions) {
        let command = Command { data, ..Command::new(0, IoOp::Write, offset, length) };
        self.send_write(op, command, actions);
    }

    /// Sends a write, or holds it, as a whole command without its id.
    pub fn send_write(&mut self, op: Op, command: Command, actions: &mut Actions) {
        let command = Command { id: self.ops.insert(op) as u32, ..command };
        if self.writes < self.most_writes {
            self.writes += 1;
            actions.send(command);
        } else {
            self.waiting.push_back(command);
        }
    }

    /// Sends a command that is no write.
    pub fn send(&mut self, op: Op, io: IoOp, offset: u64, length: u32, actions: &mut Actions) {
        let id = self.ops.insert(op) as u32;
        actions.send(Command::new(id, io, offset, length));
    }

    /// Returns true if another write may be sent without holding ever more in memory.
    #[inline]
    pub fn can_write(&self) -> bool {
        self.waiting.len() < self.most_writes
    }

    /// Ends a command; gives its purpose.
    pub fn ended(&mut self, id: u32) -> Op {
        let op = self.ops.remove(id as usize);
        self.writes -= usize::from(op.is_write());
        op
    }

    /// Sends writes that waited, as far as there is room.
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

    /// Keeps pages in memory whose write failed, or was given up.
    pub fn keep_unwritten(&mut self, op: Op) {
        if let Op::Pages { run, .. } = op {
            self.unwritten.push(run);
        }
    }

    /// Returns true if no command is under way or waits.
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty()
    }

    /// Gives the runs of pages of data that are under way, wait, or were never written.
    pub fn runs(&self) -> impl Iterator<Item = &FrontierRun> {
        self.ops
            .iter()
            .filter_map(|(_, op)| if let Op::Pages { run, .. } = op { Some(run) } else { None })
            .chain(&self.unwritten)
    }
}
