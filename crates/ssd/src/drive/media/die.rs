//! A die: its current work, its queues, and the account of its time.

use super::causes::{Cause, Class};
use super::command::FlashOp;
use super::slots::{Group, Queue, Slots};
use crate::drive::time::Picos;

/// Number of activities that a die's time is accounted under: operation x cause, and idle.
pub(super) const ACTIVITIES: usize = FlashOp::ALL.len() * Cause::ALL.len() + 1;
const IDLE: usize = ACTIVITIES - 1;

/// State of the cell array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Array {
    Idle,
    Busy,
    /// A page was sensed and waits until the register to the channel is free (cache mode).
    Sensed,
}

/// State of the register between array and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Idle,
    Out,
    /// Data of the next program arrives while the array is busy with the last one (cache mode).
    In,
}

/// State of a die, for a scheme that chooses where to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DieState {
    /// The current operation and its cause; `None` if the die is idle.
    pub work: Option<(FlashOp, Cause)>,
    /// Time at which that began.
    pub since: Picos,
    /// Expected end: for a read first of the array, then of each page's transfer; in cache mode the
    /// later of the two. `None` if the die is idle.
    pub until: Option<Picos>,
    /// The program or erase that reads interrupted, and its remaining time.
    pub suspended: Option<(FlashOp, Cause, Picos)>,
    /// Number of waiting reads for the host, if these overtake other commands.
    pub waiting_first: u32,
    /// Number of all other waiting commands.
    pub waiting: u32,
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
    /// Time at which the data of the program in the array had arrived: before that there is nothing
    /// to suspend.
    pub array_since: Picos,
    pub transfer: Transfer,
    pub transfer_group: Group,
    /// A program whose data has arrived and that waits for the array, with the start of its wait.
    pub loaded: Option<(Group, Picos)>,
    pub suspended: Option<Suspended>,
    /// Number of interruptions of the operation in the array so far.
    pub interruptions: u8,
    /// Reads for the host, if these overtake other commands.
    pub urgent: Queue,
    pub queue: Queue,
    /// Number of owners that have the die for themselves; commands for others meanwhile wait in
    /// `later`.
    pub occupants: u8,
    pub later: Queue,
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
            occupants: 0,
            later: Queue::EMPTY,
            activity: IDLE,
            class: 0,
            since: 0,
            spent: [0; ACTIVITIES],
            by_class: [0; Class::COUNT],
        }
    }

    /// Returns true if nothing is under way and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.can_begin() && self.later.is_empty()
    }

    /// Returns true if a command would begin at once, given by an owner that may give one.
    #[inline]
    pub fn can_begin(&self) -> bool {
        self.activity == IDLE
            && self.urgent.is_empty()
            && self.queue.is_empty()
            && self.suspended.is_none()
    }

    pub fn idle_since(&self) -> Option<Picos> {
        self.is_idle().then_some(self.since)
    }

    /// The current state, including the numbers of waiting commands: takes time in proportion to
    /// them.
    pub fn state(&self, until: Option<Picos>, slots: &Slots) -> DieState {
        let count = |queue: Queue| slots.from(queue.first()).count() as u32;
        DieState {
            work: self.activity().map(|(op, cause, _)| (op, cause)),
            since: self.since,
            until,
            suspended: self
                .suspended
                .map(|suspended| (suspended.group.op, suspended.group.cause, suspended.left)),
            waiting_first: count(self.urgent),
            waiting: count(self.queue) + count(self.later),
        }
    }

    /// Records that the die works on this from `now` on.
    #[inline]
    pub fn works_on(&mut self, op: FlashOp, cause: Cause, now: Picos) {
        self.account(now);
        self.activity = op as usize * Cause::ALL.len() + cause as usize;
        self.class = Class::of(op, cause) as usize;
    }

    /// Records that the die is idle from `now` on.
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

    /// The current operation, its cause, and its start.
    #[inline]
    pub fn activity(&self) -> Option<(FlashOp, Cause, Picos)> {
        if self.activity == IDLE {
            return None;
        }
        let causes = Cause::ALL.len();
        Some((FlashOp::ALL[self.activity / causes], Cause::ALL[self.activity % causes], self.since))
    }

    /// Notes the time spent by class up to now.
    #[inline(always)]
    pub fn note_time(&self, time: &mut [Picos; Class::COUNT], now: Picos) {
        *time = self.by_class;
        if self.activity != IDLE {
            time[self.class] += now - self.since;
        }
    }

    /// Turns noted times by class into the times spent since. In place: a copy that is changed in
    /// part and then read as a whole stalls the processor.
    #[inline(always)]
    pub fn time_since(&self, noted: &mut [Picos; Class::COUNT], now: Picos) {
        // The current activity was noted, and is not in `by_class` yet.
        for (time, spent) in noted.iter_mut().zip(self.by_class) {
            *time = spent.wrapping_sub(*time);
        }
        if self.activity != IDLE {
            let time = &mut noted[self.class];
            *time = time.wrapping_add(now - self.since);
        }
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
