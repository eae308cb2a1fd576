//! One die: what it is doing, what waits for it, and where its time went.

use super::causes::{Cause, Class};
use super::command::FlashOp;
use super::slots::{Group, Queue, Slots};
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

/// What a die is doing, for a scheme that chooses where to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DieState {
    /// The operation at hand and its cause; `None` if the die rests.
    pub work: Option<(FlashOp, Cause)>,
    /// When that began.
    pub since: Picos,
    /// When it ends as far as is known: of a read first the array, then each page's transfer; in
    /// cache mode the later of the two. `None` if the die rests.
    pub until: Option<Picos>,
    /// The program or erase that reads interrupted, and its time that is left.
    pub suspended: Option<(FlashOp, Cause, Picos)>,
    /// Reads for the host that wait where these overtake.
    pub waiting_first: u32,
    /// All other commands that wait.
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
    /// Owners that have it for themselves; what comes for others meanwhile waits in `later`.
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

    /// Whether nothing is under way and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.can_begin() && self.later.is_empty()
    }

    /// Whether a command would begin at once, of whoever may give one.
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

    /// What it does, with the queues counted: as many steps as commands wait.
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

    /// Writes down the time spent by class up to now.
    #[inline(always)]
    pub fn note_time(&self, time: &mut [Picos; Class::COUNT], now: Picos) {
        *time = self.by_class;
        if self.activity != IDLE {
            time[self.class] += now - self.since;
        }
    }

    /// Makes of the time by class that was noted the time spent since. In place: a copy that is
    /// changed in part and then read as a whole lets the processor wait.
    #[inline(always)]
    pub fn time_since(&self, noted: &mut [Picos; Class::COUNT], now: Picos) {
        // What the die is still at was noted, and is not in `by_class` yet.
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
