//! One die: what it is doing, what waits for it, and where its time went.

use super::command::{Cause, FlashOp};
use super::slots::{Class, Group, Queue};
use crate::drive::time::Picos;

/// Kinds of activity that a die's time is accounted under: operation x cause, and idle.
pub(super) const ACTIVITIES: usize = FlashOp::ALL.len() * Cause::ALL.len() + 1;
const IDLE: usize = ACTIVITIES - 1;

/// The cell array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Array {
    Idle,
    Busy,
    /// A page was read and waits until the register that goes to the channel is free (cache mode).
    Sensed,
}

/// The register between array and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Idle,
    Out,
    /// Data of the next program arrives while the array is busy with the last (cache mode).
    In,
}

/// A program or erase that reads interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    pub group: Group,
    pub left: Picos,
    pub since: Picos,
    pub interruptions: u8,
}

#[derive(Debug)]
pub(super) struct Die {
    pub channel: u32,
    pub array: Array,
    pub array_group: Group,
    /// When the data of the program in the array had arrived: before that there is nothing to
    /// suspend.
    pub array_since: Picos,
    pub transfer: Transfer,
    pub transfer_group: Group,
    /// A program whose data has arrived and that waits for the array, and since when.
    pub loaded: Option<(Group, Picos)>,
    pub suspended: Option<Suspended>,
    /// How often the operation in the array was interrupted so far.
    pub interruptions: u8,
    /// Reads for the host, where they overtake.
    pub urgent: Queue,
    pub queue: Queue,
    activity: usize,
    class: usize,
    since: Picos,
    spent: [Picos; ACTIVITIES],
    by_class: [Picos; Class::COUNT],
}

impl Die {
    pub fn new(channel: u32) -> Self {
        Self {
            channel,
            array: Array::Idle,
            array_group: Group::EMPTY,
            array_since: 0,
            transfer: Transfer::Idle,
            transfer_group: Group::EMPTY,
            loaded: None,
            suspended: None,
            interruptions: 0,
            urgent: Queue::EMPTY,
            queue: Queue::EMPTY,
            activity: IDLE,
            class: 0,
            since: 0,
            spent: [0; ACTIVITIES],
            by_class: [0; Class::COUNT],
        }
    }

    /// Whether nothing is under way and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.activity == IDLE
            && self.urgent.is_empty()
            && self.queue.is_empty()
            && self.suspended.is_none()
    }

    pub fn idle_since(&self) -> Option<Picos> {
        self.is_idle().then_some(self.since)
    }

    /// From `now` on the die works on this.
    #[inline]
    pub fn works_on(&mut self, op: FlashOp, cause: Cause, now: Picos) {
        self.account(now);
        self.activity = op as usize * Cause::ALL.len() + cause as usize;
        self.class = Class::of(op, cause) as usize;
    }

    /// From `now` on the die works on nothing.
    #[inline]
    pub fn rests(&mut self, now: Picos) {
        self.account(now);
        self.activity = IDLE;
    }

    #[inline]
    fn account(&mut self, now: Picos) {
        let time = now - self.since;
        self.spent[self.activity] += time;
        if self.activity != IDLE {
            self.by_class[self.class] += time;
        }
        self.since = now;
    }

    /// What the die works on, and since when.
    #[inline]
    pub fn activity(&self) -> Option<(FlashOp, Cause, Picos)> {
        if self.activity == IDLE {
            return None;
        }
        let causes = Cause::ALL.len();
        Some((FlashOp::ALL[self.activity / causes], Cause::ALL[self.activity % causes], self.since))
    }

    /// Time spent by class up to now.
    #[inline]
    pub fn time_by_class(&self, now: Picos) -> [Picos; Class::COUNT] {
        let mut time = self.by_class;
        if self.activity != IDLE {
            time[self.class] += now - self.since;
        }
        time
    }

    /// Time spent on an operation for a cause, up to now.
    pub fn time_on(&self, op: FlashOp, cause: Cause, now: Picos) -> Picos {
        let activity = op as usize * Cause::ALL.len() + cause as usize;
        self.spent[activity] + if activity == self.activity { now - self.since } else { 0 }
    }

    /// Idle time up to now.
    pub fn time_idle(&self, now: Picos) -> Picos {
        self.spent[IDLE] + if self.activity == IDLE { now - self.since } else { 0 }
    }
}
