//! State of the layer, and the paths of commands and replies through it.

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;
use units::{IoOp, Lifetime, Nanos};

use super::NAME;
use super::checks::Checks;
use super::counts::{COUNTERS, Counts};
use super::disk::Superblock;
use super::flusher::Flusher;
use super::lifetimes::Lifetimes;
use super::note::Notes;
use super::patterns::{Incremental, OnDemand, Recognition};
use super::scrub::Scrub;
use super::sequential::Sequential;
use super::settings::{Ack, BufferSettings};
use super::table::Table;
use super::writes::Waiting;
use crate::scrub::places;
use crate::{
    Actions, Command, Counter, Data, Failure, Gather, Layer, Limits, ParentPart, Reply, ScrubState,
    Signal,
};

/// The part of a host's write that lies in one page.
#[derive(Debug)]
pub(super) struct PagePart {
    pub part: ParentPart,
    /// Number of the page on the device.
    pub page: u64,
    /// First byte within the page.
    pub from: u32,
    pub length: u32,
    pub is_fua: bool,
    pub lifetime: Lifetime,
    pub data: Data,
}

/// Purpose of a command that was sent below.
#[derive(Debug)]
pub(super) enum Sent {
    /// A host's read or trim of bytes that are not in the buffer.
    Destination {
        part: ParentPart,
    },
    /// A host's read of a page in a slot, of `length` bytes from byte `from` of the page on.
    Slot {
        part: ParentPart,
        slot: u32,
        from: u32,
        length: u32,
    },
    /// Read of a page of which a piece replaces a part, from its slot (none if from its
    /// destination), to be written to `slot`.
    Base {
        piece: PagePart,
        page: u32,
        from_slot: u32,
        slot: u32,
    },
    /// Write of a page to its slot.
    Write {
        part: ParentPart,
        page: u32,
        slot: u32,
        is_fua: bool,
    },
    /// A host's write that bypasses the buffer, of the pages from `first` to `last`.
    Past {
        part: ParentPart,
        first: u64,
        last: u64,
        is_fua: bool,
    },
    /// Flush, with the key of its cover.
    Flush {
        cover: u32,
    },
    /// Read of a page to be flushed, from its slot.
    FlushRead {
        item: u32,
    },
    /// Write of pages to their destination.
    FlushWrite,
    /// Trim, at its destination, of a page that was trimmed while it was in the buffer.
    LateTrim {
        page: u32,
    },
    /// Read of a page for a pass over all that are in slots.
    Scrub {
        number: u64,
        slot: u32,
        tries: u32,
    },
    /// Write of a mark to a slot that its page is bad.
    Mark {
        slot: u32,
    },
    /// Write of a superblock that notes if slots are needed, and the flush after notes or marks.
    Note {
        is_last: bool,
    },
    NoteFlush,
}

/// Slots and writes that a flush makes durable.
#[derive(Debug, Default)]
struct Cover {
    slots: Vec<u32>,
    /// Parts that are replied to when it has ended.
    parts: Vec<ParentPart>,
    /// True if it is the last step of flushing an instance.
    ends_instance: bool,
}

/// A StableBuffer that was opened.
pub struct StableBuffer {
    pub(super) settings: BufferSettings,
    pub(super) superblock: Superblock,
    pub(super) below: Limits,
    pub(super) table: Table,
    pub(super) checks: Checks,
    pub(super) lifetimes: Lifetimes,
    pub(super) scrub: Scrub,
    pub(super) notes: Notes,
    pub(super) recognition: Recognition,
    /// Number of pages that the recognition of patterns knows.
    pub(super) candidates: u32,
    pub(super) flusher: Flusher,
    pub(super) counts: Counts,
    sequential: Option<Sequential>,
    pub(super) sequence: u64,
    pub(super) gather: Gather,
    pub(super) sent: Slab<Sent>,
    /// Pieces that wait for a slot, in order.
    pub(super) pending: VecDeque<PagePart>,
    pub(super) waiting: Slab<Waiting>,
    /// Slots whose write was replied to and that no flush covers yet.
    pub(super) volatile: Vec<u32>,
    /// Writes that are replied to after the next flush.
    unacknowledged: Vec<ParentPart>,
    covers: Slab<Cover>,
    /// Vectors of covers that ended, to be used again.
    spare: Vec<Cover>,
    pub(super) is_draining: bool,
    /// True if a trace without bytes is played.
    pub(super) is_absent: bool,
    pub(super) poison: Option<Failure>,
    /// True if reads at destinations may give older content than was acknowledged.
    are_homes_unsafe: bool,
    /// First byte, last byte, and true for bypassing the buffer, of the parts of one command.
    pub(super) segments: Vec<(u64, u64, bool)>,
}

impl StableBuffer {
    /// Makes the layer with an empty buffer.
    pub(super) fn new(settings: BufferSettings, superblock: Superblock, below: Limits) -> Self {
        let slots = superblock.geometry.slots;
        let recognition = if settings.is_incremental {
            Recognition::Incremental(Box::new(Incremental::new(slots, &settings.tuning)))
        } else {
            Recognition::OnDemand(OnDemand::default())
        };
        Self {
            table: Table::new(slots),
            checks: Checks::new(slots),
            lifetimes: Lifetimes::new(slots),
            scrub: Scrub::default(),
            notes: Notes::default(),
            recognition,
            candidates: 0,
            flusher: Flusher::default(),
            counts: Counts::default(),
            sequential: settings.sequential_bytes.map(Sequential::new),
            sequence: 1,
            gather: Gather::default(),
            sent: Slab::new(),
            pending: VecDeque::new(),
            waiting: Slab::new(),
            volatile: Vec::new(),
            unacknowledged: Vec::new(),
            covers: Slab::new(),
            spare: Vec::new(),
            is_draining: false,
            is_absent: false,
            poison: None,
            are_homes_unsafe: false,
            segments: Vec::new(),
            settings,
            superblock,
            below,
        }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        u64::from(self.settings.page_bytes)
    }

    /// Sends a read, trim or flush below.
    pub(super) fn send(
        &mut self,
        sent: Sent,
        op: IoOp,
        (offset, end): (u64, u64),
        actions: &mut Actions,
    ) {
        let id = self.sent.insert(sent) as u32;
        actions.send(Command::new(id, op, offset, (end - offset) as u32));
    }

    /// Sends a write below.
    pub(super) fn send_write(
        &mut self,
        sent: Sent,
        (offset, end): (u64, u64),
        is_fua: bool,
        (lifetime, data): (Lifetime, Data),
        actions: &mut Actions,
    ) {
        let id = self.sent.insert(sent) as u32;
        let command = Command::new(id, IoOp::Write, offset, (end - offset) as u32);
        actions.send(Command { is_fua, lifetime, data, ..command });
    }

    /// Sends a flush, which covers all that was replied to by now.
    pub(super) fn send_flush(
        &mut self,
        host: Option<ParentPart>,
        ends_instance: bool,
        actions: &mut Actions,
    ) {
        let mut cover = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut cover.slots, &mut self.volatile);
        std::mem::swap(&mut cover.parts, &mut self.unacknowledged);
        cover.parts.extend(host);
        cover.ends_instance = ends_instance;
        self.counts.device_flushes += 1;
        let cover = self.covers.insert(cover) as u32;
        self.send(Sent::Flush { cover }, IoOp::Flush, (0, 0), actions);
    }

    fn flush_ended(&mut self, cover: u32, outcome: Result<Data, Failure>, actions: &mut Actions) {
        let mut cover = self.covers.remove(cover as usize);
        if let Err(failure) = outcome {
            self.are_homes_unsafe |= failure.may_have_dropped_writes();
            self.poison(&failure, actions);
        }
        let result = self.poison.clone().map_or(Ok(Data::Absent), Err);
        if result.is_ok() {
            cover.slots.iter().for_each(|&slot| self.table.durable(slot));
        }
        for part in cover.parts.drain(..) {
            self.gather.ended(part, result.clone(), actions);
        }
        if cover.ends_instance && result.is_ok() {
            self.instance_ended(actions);
        }
        cover.slots.clear();
        self.spare.push(cover);
    }

    /// Poisons the layer, as something acknowledged cannot be kept: only reads are taken any more.
    pub(super) fn poison(&mut self, failure: &Failure, actions: &mut Actions) {
        if self.poison.is_some() {
            return;
        }
        let cause: Arc<str> = failure.to_string().into();
        let poisoned = Failure::Poisoned { layer: NAME, cause };
        self.poison = Some(poisoned.clone());
        let waiting = self.waiting.drain().map(|waiting| waiting.piece.part);
        let parts = self
            .pending
            .drain(..)
            .map(|piece| piece.part)
            .chain(waiting)
            .chain(self.unacknowledged.drain(..));
        for part in parts {
            self.gather.ended(part, Err(poisoned.clone()), actions);
        }
    }

    /// Replies to a write that was carried out, now or after the next flush.
    pub(super) fn acknowledge(
        &mut self,
        part: ParentPart,
        is_durable: bool,
        actions: &mut Actions,
    ) {
        if self.settings.ack == Ack::Flush && !is_durable {
            self.unacknowledged.push(part);
        } else {
            self.gather.ended(part, Ok(Data::Absent), actions);
        }
    }

    fn past_ended(
        &mut self,
        past: (ParentPart, u64, u64, bool),
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let (part, first, last, is_fua) = past;
        for number in first..=last {
            let page = self.table.find(number).expect("a page is locked as long as it is written");
            self.unlock(page);
        }
        match self.poison.clone().map_or(outcome, Err) {
            Ok(_) => self.acknowledge(part, is_fua, actions),
            Err(failure) => self.gather.ended(part, Err(failure), actions),
        }
    }

    /// Returns true if a write is part of a run that bypasses the buffer.
    pub(super) fn is_sequential(&mut self, command: &Command) -> bool {
        self.sequential
            .as_mut()
            .is_some_and(|sequential| sequential.is_long(command.offset, command.length))
    }

    /// Gives the number of slots whose content is not needed, or will not be once it is known to be
    /// durable elsewhere.
    fn slots_to_come(&self) -> u32 {
        let being_written = self
            .sent
            .iter()
            .filter(|(_, sent)| matches!(sent, Sent::Write { .. } | Sent::Base { .. }))
            .count() as u32;
        self.table.len().saturating_sub(self.candidates + being_written + self.checks.bad())
    }

    /// Does whatever can be done now.
    fn go_on(&mut self, actions: &mut Actions) {
        if self.poison.is_some() {
            return;
        }
        self.serve(actions);
        if !self.unacknowledged.is_empty() && self.covers.is_empty() {
            self.send_flush(None, false, actions);
        }
        if !self.flusher.is_idle() {
            return;
        }
        if self.superblock.is_closed && !self.pending.is_empty() {
            // They wait only for a note.
        } else if !self.pending.is_empty() {
            self.make_room(actions);
        } else if self.is_draining {
            match self.best_instance() {
                Some(candidate) => self.begin_instance(candidate, actions),
                None if self.sent.is_empty() => self.come_to_rest(actions),
                None => {}
            }
        }
        self.scrub_on(actions);
    }

    /// Returns true if no command waits and nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.sent.is_empty() && self.pending.is_empty() && self.poison.is_none()
    }

    /// Makes room, as a write waits for a slot and nothing is being flushed.
    fn make_room(&mut self, actions: &mut Actions) {
        let best = self.best_instance();
        // Slots that only wait to be durable take less work than an instance of fewer pages.
        let can_flush = !self.volatile.is_empty() || !self.covers.is_empty();
        if can_flush && best.is_none_or(|best| self.slots_to_come() >= best.pages) {
            if self.covers.is_empty() {
                self.send_flush(None, false, actions);
            }
        } else if let Some(best) = best {
            self.begin_instance(best, actions);
        } else if self.sent.is_empty() && self.checks.bad() > 0 {
            self.fail_pending(actions);
        } else {
            assert!(
                !self.sent.is_empty(),
                "a write waits for a slot and nothing that frees one is under way"
            );
        }
    }
}

impl Layer for StableBuffer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> Limits {
        Limits { capacity_bytes: self.superblock.geometry.homes_bytes, ..self.below }
    }

    fn submit(&mut self, command: Command, _now: Nanos, actions: &mut Actions) {
        command.check(self.limits());
        let is_safe = command.op == IoOp::Read && !self.are_homes_unsafe;
        if let Some(poison) = self.poison.as_ref().filter(|_| !is_safe) {
            actions.reply(command.id, Err(poison.clone()));
            return;
        }
        match command.op {
            IoOp::Read => self.read(&command, actions),
            IoOp::Write => {
                self.is_absent |= command.data.is_absent();
                self.write(&command, actions);
            }
            IoOp::Trim => self.trim(&command, actions),
            IoOp::Flush if self.settings.ack == Ack::Written => {
                let part = Gather::part(self.gather.begin(command.id, 1), 0);
                self.send_flush(Some(part), false, actions);
            }
            // All that was replied to is durable.
            IoOp::Flush => actions.reply(command.id, Ok(Data::Absent)),
        }
        self.go_on(actions);
    }

    fn replied(&mut self, reply: Reply, _now: Nanos, actions: &mut Actions) {
        let Reply { id, outcome } = reply;
        match self.sent.remove(id as usize) {
            Sent::Destination { part } => self.gather.ended(part, outcome, actions),
            Sent::Slot { part, slot, from, length } => {
                let outcome = outcome
                    .and_then(|read| self.fitting(slot, &read))
                    .map(|page| page.slice(from as usize..(from + length) as usize));
                self.table.read_ends(slot);
                self.gather.ended(part, outcome, actions);
            }
            Sent::Base { piece, page, from_slot, slot } => {
                self.base_ended((piece, page, from_slot, slot), outcome, actions);
            }
            Sent::Write { part, page, slot, is_fua } => {
                self.write_ended((part, page, slot, is_fua), outcome, actions);
            }
            Sent::Past { part, first, last, is_fua } => {
                self.past_ended((part, first, last, is_fua), outcome, actions);
            }
            Sent::Flush { cover } => self.flush_ended(cover, outcome, actions),
            Sent::LateTrim { page } => self.unlock(page),
            Sent::Note { is_last } => self.note_ended(is_last, outcome, actions),
            Sent::Mark { slot } => self.mark_ended(slot, outcome, actions),
            // It may have dropped writes since the flush before it.
            Sent::NoteFlush => {
                if let Err(failure) = outcome {
                    self.are_homes_unsafe |= failure.may_have_dropped_writes();
                    self.poison(&failure, actions);
                }
            }
            Sent::Scrub { number, slot, tries } => {
                self.scrubbed((number, slot, tries), outcome, actions);
            }
            Sent::FlushRead { .. } | Sent::FlushWrite if self.poison.is_some() => {}
            Sent::FlushRead { item } => self.flush_read_ended(item, outcome, actions),
            Sent::FlushWrite => match outcome {
                Ok(_) => self.flush_write_ended(actions),
                Err(failure) => self.poison(&failure, actions),
            },
        }
        self.go_on(actions);
    }

    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        match signal {
            Signal::Drain => {
                self.is_draining = true;
                self.give_up_scrub();
                self.go_on(actions);
            }
            Signal::Scrub => self.begin_scrub(now, actions),
            Signal::ScrubEnds => self.give_up_scrub(),
            Signal::CheckpointBegins | Signal::CheckpointEnds => {}
        }
    }

    fn wakes_at(&self) -> Option<Nanos> {
        self.scrub_wakes_at()
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        self.scrub_at(now, actions);
    }

    fn scrub(&self) -> Option<ScrubState> {
        Some(self.scrub_state())
    }

    fn bad_places(&self, most: usize) -> Vec<(u64, u64)> {
        let page = self.page_bytes();
        let bad = self.checks.bad_slots().map(|slot| self.table.number_in(slot));
        places(bad.chain(self.scrub.unread()).map(|number| number * page).collect(), page, most)
    }

    fn is_idle(&self) -> bool {
        let has_nothing = self.candidates == 0 && self.pending.is_empty() && self.flusher.is_idle();
        self.sent.is_empty() && (has_nothing || self.poison.is_some())
    }

    fn counters(&self) -> &'static [Counter] {
        COUNTERS
    }

    fn count(&self, into: &mut Vec<u64>) {
        let scrub = self.scrub_state();
        let levels = Counts {
            used_slots: u64::from(self.table.used_slots()),
            bad_pages: scrub.bad_pages,
            scrub_pages_left: scrub.pages_left,
            unread_pages: scrub.unread_pages,
            ..self.counts
        };
        levels.list(into);
    }
}
