//! Commands under way, and the queues in which they wait.

use super::Command;
use super::causes::{Cause, Class};
use super::command::{FlashOp, Tag};
use crate::drive::time::Picos;
use units::Ppn;

/// Number of a command under way.
pub(super) type CommandSlot = u32;

/// No command.
pub(super) const NONE: CommandSlot = CommandSlot::MAX;

/// A command under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub command: Command,
    pub next: CommandSlot,
    /// Place of the page within its erase block.
    pub place: u32,
    pub issued_at: Picos,
    /// The die's time by class when the command was given; from its start on, what it waited for
    /// each.
    pub waited: [Picos; Class::COUNT],
    pub channel_wait: Picos,
}

/// All commands under way. Slots are used again, so that memory stays as large as the most at any
/// one time.
#[derive(Debug)]
pub(super) struct Slots {
    entries: Vec<Entry>,
    free: CommandSlot,
}

impl Slots {
    pub fn new() -> Self {
        Self { entries: Vec::with_capacity(1024), free: NONE }
    }

    #[inline]
    pub fn take(&mut self, command: Command, place: u32, issued_at: Picos) -> CommandSlot {
        let entry = Entry {
            command,
            next: NONE,
            place,
            issued_at,
            waited: [0; Class::COUNT],
            channel_wait: 0,
        };
        if self.free == NONE {
            self.entries.push(entry);
            return (self.entries.len() - 1) as CommandSlot;
        }
        let slot = self.free;
        self.free = self.entries[slot as usize].next;
        self.entries[slot as usize] = entry;
        slot
    }

    #[inline]
    pub fn give_back(&mut self, slot: CommandSlot) {
        self.entries[slot as usize].next = self.free;
        self.free = slot;
    }

    #[inline]
    pub fn get(&self, slot: CommandSlot) -> &Entry {
        &self.entries[slot as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: CommandSlot) -> &mut Entry {
        &mut self.entries[slot as usize]
    }
}

/// A queue of commands, linked through their entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: CommandSlot,
    tail: CommandSlot,
}

impl Queue {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub fn first(&self) -> CommandSlot {
        self.head
    }

    #[inline]
    pub fn push(&mut self, slot: CommandSlot, slots: &mut Slots) {
        if self.head == NONE {
            self.head = slot;
        } else {
            slots.get_mut(self.tail).next = slot;
        }
        self.tail = slot;
    }

    #[inline]
    pub fn pop(&mut self, slots: &mut Slots) -> CommandSlot {
        let slot = self.head;
        self.head = slots.get(slot).next;
        slots.get_mut(slot).next = NONE;
        slot
    }
}

impl Queue {
    /// Takes a command out of the middle, if it is there.
    pub fn remove(&mut self, slot: CommandSlot, slots: &mut Slots) -> bool {
        let mut before = NONE;
        let mut at = self.head;
        while at != slot {
            if at == NONE {
                return false;
            }
            before = at;
            at = slots.get(at).next;
        }
        let next = slots.get(slot).next;
        if before == NONE {
            self.head = next;
        } else {
            slots.get_mut(before).next = next;
        }
        if self.tail == slot {
            self.tail = before;
        }
        true
    }
}

/// Planes that one command can work on at once at most.
pub(super) const MOST_PLANES: u32 = 8;

/// Commands that a die carries out together: one, or one on each of several planes. They are linked
/// through their entries, which keeps this small enough to be passed in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub head: CommandSlot,
    /// The next one whose data goes out.
    sending: CommandSlot,
    pub count: u32,
    pub op: FlashOp,
    pub cause: Cause,
}

impl Group {
    pub const EMPTY: Self =
        Self { head: NONE, sending: NONE, count: 0, op: FlashOp::Read, cause: Cause::Host };

    #[inline]
    pub fn of(slot: CommandSlot, op: FlashOp, cause: Cause) -> Self {
        Self { head: slot, sending: slot, count: 1, op, cause }
    }

    /// The command whose data goes out next, if any is left.
    #[inline]
    pub fn unsent(&self) -> Option<CommandSlot> {
        (self.sending != NONE).then_some(self.sending)
    }

    /// Its data is out.
    #[inline]
    pub fn sent(&mut self, slots: &Slots) {
        self.sending = slots.get(self.sending).next;
    }
}

impl Slots {
    /// A command and those linked behind it: of a group, or of a queue.
    pub fn from(&self, mut slot: CommandSlot) -> impl Iterator<Item = CommandSlot> {
        std::iter::from_fn(move || {
            let this = (slot != NONE).then_some(slot)?;
            slot = self.get(this).next;
            Some(this)
        })
    }

    /// The commands of a group.
    #[inline]
    pub fn of(&self, group: Group) -> impl Iterator<Item = &Entry> {
        let mut slot = group.head;
        std::iter::from_fn(move || {
            let entry = (slot != NONE).then(|| self.get(slot))?;
            slot = entry.next;
            Some(entry)
        })
    }

    /// Does something to each command of a group.
    #[inline(always)]
    pub fn change(&mut self, group: Group, mut each: impl FnMut(&mut Entry)) {
        let mut slot = group.head;
        while slot != NONE {
            let entry = self.get_mut(slot);
            each(entry);
            slot = entry.next;
        }
    }
}

impl Command {
    /// An erase of the erase block whose first page this is.
    #[must_use]
    pub const fn erase(first_page: Ppn, cause: Cause, tag: Tag) -> Self {
        Self { op: FlashOp::Erase, cause, page: first_page, from: Ppn::NONE, bytes: 0, tag }
    }

    /// A read of `bytes` of a page.
    #[must_use]
    pub const fn read(page: Ppn, bytes: u32, cause: Cause, tag: Tag) -> Self {
        Self { op: FlashOp::Read, cause, page, from: Ppn::NONE, bytes, tag }
    }

    /// A program of a page with data from the host.
    #[must_use]
    pub const fn program(page: Ppn, bytes: u32, cause: Cause, tag: Tag) -> Self {
        Self { op: FlashOp::Program, cause, page, from: Ppn::NONE, bytes, tag }
    }

    /// A program of a page with what was read from another.
    #[must_use]
    pub const fn copy(from: Ppn, page: Ppn, bytes: u32, cause: Cause, tag: Tag) -> Self {
        Self { op: FlashOp::Program, cause, page, from, bytes, tag }
    }

    /// A copy within a plane, without the channel.
    #[must_use]
    pub const fn copy_back(from: Ppn, page: Ppn, cause: Cause, tag: Tag) -> Self {
        Self { op: FlashOp::CopyBack, cause, page, from, bytes: 0, tag }
    }
}
