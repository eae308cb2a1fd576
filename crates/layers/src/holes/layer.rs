//! The layer: commands that come, and what they wait for.

use std::collections::VecDeque;
use std::ops::Range;

use slab::Slab;
use units::{IoOp, Nanos};

use super::NAME;
use super::bits::Bits;
use super::commit::{Commit, Due};
use super::counts::{COUNTERS, Counts};
use super::settings::HoleSettings;
use crate::{
    Actions, Command, Counter, Data, Extent, Failure, Gather, Layer, Limits, ParentPart, Reply,
    Signal,
};

/// An order that is left out on purpose, so that the campaign of power cuts shows if it would be
/// missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// No order is left out.
    #[default]
    None,
    /// Bits are cleared on the device before the writes to their pages are durable.
    ClearsEarly,
    /// A flush is replied to before bits are cleared on the device.
    ClearsLate,
    /// Pages are trimmed below before their bits are durable.
    TrimsEarly,
    /// Writes to a hole do not wait for each other, nor for a trim of it below.
    Shares,
}

/// A command of the layer's own.
#[derive(Debug)]
pub(super) enum Sent {
    /// A part of a host's read, of these pages.
    Read(ParentPart, Range<u64>),
    /// A part of a host's write.
    Write(u32),
    /// A host's flush.
    Flush(u32),
    /// The flush of a commit.
    Before,
    /// Write of blocks of the map: the first, and their number.
    Blocks { first: u64, count: u64 },
    /// Trim of pages that are holes on the device.
    Trim(u32),
}

/// Pages that are written or trimmed below.
#[derive(Debug)]
pub(super) struct Flight {
    pub pages: Range<u64>,
    /// True if nobody else may write to them meanwhile.
    pub is_alone: bool,
    /// The host's id of a write; true if the write is replied to only when it is durable.
    pub host: Option<(u32, bool)>,
    /// Number of replies that have not come.
    pub waits: u32,
    pub failure: Option<Failure>,
}

/// See the module's description.
pub struct Holes {
    pub(super) settings: HoleSettings,
    pub(super) below: Limits,
    pub(super) bits: Bits,
    pub(super) flaw: Flaw,
    pub(super) gather: Gather,
    pub(super) sent: Slab<Sent>,
    pub(super) flights: Slab<Flight>,
    /// Writes and trims that wait for flights, in the order in which they came.
    pub(super) held: VecDeque<Command>,
    pub(super) commit: Commit,
    /// Holes to be trimmed below.
    pub(super) due: Due,
    /// Number of blocks that were taken when the last round that ended began.
    pub(super) written_until: u64,
    pub(super) counts: Counts,
    pub(super) poison: Option<Failure>,
    /// True if reads may not give what was written last.
    pub(super) reads_fail: bool,
    pub(super) is_draining: bool,
    /// True if a trace without bytes is played.
    pub(super) is_absent: bool,
}

impl Holes {
    /// Makes the layer over something with these limits, with the map that was found there.
    pub(super) fn new(settings: HoleSettings, below: Limits, bits: Bits, flaw: Flaw) -> Self {
        Self {
            settings,
            below,
            bits,
            flaw,
            gather: Gather::default(),
            sent: Slab::new(),
            flights: Slab::new(),
            held: VecDeque::new(),
            commit: Commit::default(),
            due: Due::default(),
            written_until: 0,
            counts: Counts::default(),
            poison: None,
            reads_fail: false,
            is_draining: false,
            is_absent: false,
        }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        u64::from(self.settings.geometry.page_bytes)
    }

    /// Sends a command of the layer's own below.
    pub(super) fn send(&mut self, sent: Sent, command: Command, actions: &mut Actions) {
        let id = self.sent.insert(sent) as u32;
        actions.send(Command { id, ..command });
    }

    /// Poisons the layer: only reads are done any more, and those only if what is below still gives
    /// what was written.
    pub(super) fn fail(&mut self, cause: &Failure, may_have_dropped: bool, actions: &mut Actions) {
        let reason = cause.to_string().into();
        let poison = Failure::Poisoned { layer: NAME, cause: reason };
        let poison = self.poison.get_or_insert(poison).clone();
        self.reads_fail |= may_have_dropped && !matches!(cause, Failure::Poisoned { .. });
        for command in self.held.drain(..) {
            actions.reply(command.id, Err(poison.clone()));
        }
        self.commit.give_up(&poison, actions);
        self.due.give_up();
        self.is_draining = false;
    }

    /// Does all that can be done now.
    pub(super) fn go_on(&mut self, now: Nanos, actions: &mut Actions) {
        if self.poison.is_none() {
            self.trim_some(actions);
            self.take_held(actions);
            self.commit_some(now, actions);
            self.trim_some(actions);
        }
        self.is_draining &= !self.is_at_rest();
    }

    fn is_at_rest(&self) -> bool {
        self.sent.is_empty()
            && self.held.is_empty()
            && (self.poison.is_some()
                || self.bits.is_clean() && self.commit.is_empty() && self.due.is_empty())
    }
}

impl Layer for Holes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> Limits {
        Limits { capacity_bytes: self.settings.geometry.homes_bytes(), ..self.below }
    }

    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        command.check(self.limits());
        match (command.op, &self.poison) {
            (IoOp::Read, poison) => match poison.clone().filter(|_| self.reads_fail) {
                Some(poison) => actions.reply(command.id, Err(poison)),
                None => self.read(&command, actions),
            },
            (_, Some(poison)) => actions.reply(command.id, Err(poison.clone())),
            (IoOp::Flush, None) => self.flush(command.id, actions),
            (IoOp::Write | IoOp::Trim, None) => self.take(command, now, actions),
        }
        self.go_on(now, actions);
    }

    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        let Reply { id, outcome } = reply;
        match self.sent.remove(id as usize) {
            Sent::Read(part, _) => {
                // A layer below may not know yet that there are no bytes.
                let outcome = if self.is_absent { outcome.map(|_| NOTHING) } else { outcome };
                self.gather.ended(part, outcome, actions);
            }
            Sent::Write(flight) => self.write_ended(flight, outcome, actions),
            Sent::Flush(id) => {
                if let Err(failure) = outcome.as_ref()
                    && failure.may_have_dropped_writes()
                    && !(self.bits.is_clean() && self.commit.is_empty())
                {
                    // Bits that are to be cleared would be cleared for writes that may be lost.
                    self.fail(&failure.clone(), true, actions);
                }
                let poisoned = self.poison.clone();
                actions.reply(id, poisoned.map_or(outcome, Err));
            }
            Sent::Before => self.flushed_before(outcome, actions),
            Sent::Blocks { first, count } => {
                self.blocks_ended((first, count), outcome.err(), actions);
            }
            Sent::Trim(flight) => {
                self.flights.remove(flight as usize);
                self.due.in_flight -= 1;
                self.counts.failed_trims += u64::from(outcome.is_err());
            }
        }
        self.go_on(now, actions);
    }

    fn wakes_at(&self) -> Option<Nanos> {
        self.commit.wakes_at().filter(|_| self.poison.is_none())
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        self.go_on(now, actions);
    }

    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        if signal == Signal::Drain {
            self.is_draining = self.poison.is_none();
        }
        self.go_on(now, actions);
    }

    fn is_idle(&self) -> bool {
        self.is_at_rest()
    }

    fn zeroing_bytes(&self) -> Option<u32> {
        Some(self.settings.geometry.page_bytes)
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        let page = self.page_bytes();
        let (first, end) = (offset / page, (offset + length).div_ceil(page));
        let (is_hole, behind) = self.bits.run(first..end);
        Extent { length: (behind * page).min(offset + length) - offset, is_hole }
    }

    fn counters(&self) -> &'static [Counter] {
        COUNTERS
    }

    fn count(&self, into: &mut Vec<u64>) {
        Counts { hole_pages: self.bits.holes(), ..self.counts }.list(into);
    }
}

/// Data of a command that brings no bytes.
pub(super) const NOTHING: Data = Data::Absent;
