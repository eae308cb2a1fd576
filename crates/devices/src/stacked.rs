//! Layers over a device, taken for a device.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use layers::{Actions, Command, Data, Failure, Limits, Reply, Signal, Stack};
use rustc_hash::FxHashMap;
use units::{IoOp, Nanos};

use crate::{BlockDevice, Completion, DeviceError, DeviceInfo, FlashWork, Request};

/// What the device below the layers was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Commands that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The sum of their times from sending to the end, in nanoseconds.
    pub latency_ns: u64,
}

/// How long the device had something to do, in nanoseconds: two commands that overlap count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// With reads.
    pub reads_ns: u64,
    /// With all else: writes, trims, and flushes.
    pub changes_ns: u64,
}

/// Commands of one kind that the device has, and since when it has had any.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    commands: u32,
    since: Nanos,
    busy: Nanos,
}

impl UnderWay {
    fn begins(&mut self, now: Nanos) {
        if self.commands == 0 {
            self.since = now;
        }
        self.commands += 1;
    }

    fn ends(&mut self, now: Nanos) {
        self.commands -= 1;
        if self.commands == 0 {
            self.busy += now.saturating_sub(self.since);
        }
    }
}

/// What each layer had counted at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// On the device's clock, in nanoseconds.
    pub at: Nanos,
    /// The counters of all layers, from the top down.
    pub counts: Vec<u64>,
}

/// Most samples kept: when there are so many, every second one goes, and they are taken half as
/// often.
const MOST_SAMPLES: usize = 2048;

/// Layers over a device. Requests carry no data, so that layers do all that they would do, in the
/// same order and of the same lengths, but for the bytes: it is a measurement, not a volume.
pub struct Stacked<'a> {
    device: &'a mut dyn BlockDevice,
    stack: Stack,
    info: DeviceInfo,
    actions: Actions,
    /// Commands for which the device has no room yet.
    waiting: VecDeque<Command>,
    /// Commands that the device has.
    sent: FxHashMap<u32, (IoOp, u32)>,
    /// When requests of the host came, by their handles.
    since: FxHashMap<u32, Nanos>,
    ended: Vec<Completion>,
    done: Vec<Completion>,
    failure: Option<DeviceError>,
    below: [Sent; IoOp::ALL.len()],
    reads: UnderWay,
    changes: UnderWay,
    samples: Vec<Sample>,
    sample_every: Nanos,
    next_sample: Nanos,
    computing: Duration,
}

impl<'a> Stacked<'a> {
    /// The stack was opened over limits that are [`limits`] of this device. Counters are sampled at
    /// least every `sample_every` nanoseconds of the device's clock in which something happens,
    /// until that is too often for 2,048 samples.
    #[must_use]
    pub fn new(device: &'a mut dyn BlockDevice, stack: Stack, sample_every: Nanos) -> Self {
        let mut info = device.info().clone();
        let above = stack.limits();
        info.capacity_bytes = above.capacity_bytes;
        info.sector_bytes = above.sector_bytes;
        info.most_bytes = above.most_bytes;
        info.has_trim |= !stack.layers().is_empty();
        let next_sample = device.now();
        Self {
            device,
            stack,
            info,
            actions: Actions::default(),
            waiting: VecDeque::new(),
            sent: FxHashMap::default(),
            since: FxHashMap::default(),
            ended: Vec::new(),
            done: Vec::new(),
            failure: None,
            below: Default::default(),
            reads: UnderWay::default(),
            changes: UnderWay::default(),
            samples: Vec::new(),
            sample_every: sample_every.max(1),
            next_sample,
            computing: Duration::ZERO,
        }
    }

    /// What the device was sent, by operation.
    #[must_use]
    pub const fn below(&self) -> &[Sent; IoOp::ALL.len()] {
        &self.below
    }

    /// How long the device had something to do, as far as that has ended.
    #[must_use]
    pub const fn busy(&self) -> Busy {
        Busy { reads_ns: self.reads.busy, changes_ns: self.changes.busy }
    }

    fn under_way(&mut self, op: IoOp) -> &mut UnderWay {
        if op == IoOp::Read { &mut self.reads } else { &mut self.changes }
    }

    /// The layers.
    #[must_use]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// What the layers had counted over time.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Time of a processor spent in the layers, by the clock of this machine: the only figure here
    /// that differs from run to run.
    #[must_use]
    pub const fn computing(&self) -> Duration {
        self.computing
    }

    /// Lets the layers write back all that they hold back, from the top down, and waits for it.
    /// `goes_on` is asked at times whether to.
    ///
    /// # Errors
    /// [`DeviceError`] of what failed.
    pub fn drain(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), DeviceError> {
        for level in 0..self.stack.layers().len() {
            let now = self.device.now();
            self.compute(|stack, actions| stack.signal_at(level, Signal::Drain, now, actions));
            while !self.stack.layers()[level].is_idle()
                || !self.sent.is_empty()
                || !self.waiting.is_empty()
            {
                self.step(Nanos::MAX)?;
                if self.failure.is_some() || !goes_on() {
                    return self.failure.take().map_or(Ok(()), Err);
                }
            }
        }
        Ok(())
    }

    /// Takes a last sample: what the layers have counted now.
    pub fn sample_now(&mut self) {
        self.sample(true);
    }

    fn compute(&mut self, work: impl FnOnce(&mut Stack, &mut Actions)) {
        let start = Instant::now();
        work(&mut self.stack, &mut self.actions);
        self.computing += start.elapsed();
    }

    /// Carries out what the layers want done, as far as the device has room.
    fn carry_out(&mut self) -> Result<(), DeviceError> {
        loop {
            let now = self.device.now();
            for reply in self.actions.up.drain(..) {
                let submitted_at = self.since.remove(&reply.id).unwrap_or(now);
                match reply.outcome {
                    Ok(_) => self.done.push(Completion {
                        handle: reply.id,
                        submitted_at,
                        completed_at: now,
                    }),
                    Err(failure) => {
                        self.failure =
                            self.failure.take().or_else(|| Some(failed(&self.info.name, failure)));
                    }
                }
            }
            self.waiting.extend(self.actions.down.drain(..));
            let Some(command) = self.waiting.front() else { return Ok(()) };
            if command.op == IoOp::Trim && !self.device.info().has_trim {
                let id = command.id;
                self.waiting.pop_front();
                self.compute(|stack, actions| {
                    stack.replied(Reply { id, outcome: Ok(Data::Absent) }, now, actions);
                });
                continue;
            }
            if self.device.outstanding() >= self.device.info().queue_depth {
                return Ok(());
            }
            let Some(Command { id, op, offset, length, is_fua, .. }) = self.waiting.pop_front()
            else {
                return Ok(());
            };
            match self.device.submit(&Request { op, offset, length, is_fua, handle: id }) {
                Ok(()) => {
                    self.sent.insert(id, (op, length));
                    self.under_way(op).begins(now);
                }
                Err(DeviceError::Request { reason, .. }) => {
                    let outcome = Err(Failure::Io { op, offset, length, reason: reason.into() });
                    self.compute(|stack, actions| {
                        stack.replied(Reply { id, outcome }, now, actions);
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until something happens or the clock reaches `until`.
    fn step(&mut self, until: Nanos) -> Result<(), DeviceError> {
        self.carry_out()?;
        let now = self.device.now();
        let wakes_at = self.stack.wakes_at();
        if wakes_at.is_some_and(|at| at <= now) {
            self.compute(|stack, actions| stack.wake(now, actions));
        } else {
            let until = until.min(wakes_at.unwrap_or(Nanos::MAX));
            assert!(
                until < Nanos::MAX || self.device.outstanding() > 0,
                "{} requests are never replied to: a bug of a layer",
                self.since.len()
            );
            let outcome = self.device.wait(until, &mut self.ended);
            let now = self.device.now();
            for completion in std::mem::take(&mut self.ended) {
                let Some((op, length)) = self.sent.remove(&completion.handle) else {
                    panic!(
                        "{}: the end of a command that was not sent, {}: a bug of the device",
                        self.info.name, completion.handle
                    )
                };
                self.under_way(op).ends(completion.completed_at);
                let below = &mut self.below[op as usize];
                below.requests += 1;
                below.bytes += u64::from(length);
                below.latency_ns += completion.completed_at - completion.submitted_at;
                self.compute(|stack, actions| {
                    stack.replied(
                        Reply { id: completion.handle, outcome: Ok(Data::Absent) },
                        now,
                        actions,
                    );
                });
            }
            outcome?;
        }
        self.carry_out()?;
        self.sample(false);
        Ok(())
    }

    fn sample(&mut self, is_last: bool) {
        let now = self.device.now();
        if self.stack.layers().is_empty() || (now < self.next_sample && !is_last) {
            return;
        }
        let mut counts = Vec::new();
        self.stack.layers().iter().for_each(|layer| layer.count(&mut counts));
        self.samples.push(Sample { at: now, counts });
        if self.samples.len() > MOST_SAMPLES {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.sample_every *= 2;
        }
        self.next_sample = now + self.sample_every;
    }
}

/// What a stack over this device may ask of it.
#[must_use]
pub fn limits(info: &DeviceInfo) -> Limits {
    let DeviceInfo { capacity_bytes, sector_bytes, most_bytes, .. } = *info;
    Limits { capacity_bytes, sector_bytes, most_bytes }
}

fn failed(name: &str, failure: Failure) -> DeviceError {
    match failure {
        Failure::Io { op, offset, length, reason } => DeviceError::Request {
            name: name.to_owned(),
            op,
            offset,
            length,
            reason: reason.to_string(),
        },
        Failure::Poisoned { .. } => {
            DeviceError::Gone { name: name.to_owned(), reason: failure.to_string() }
        }
    }
}

impl BlockDevice for Stacked<'_> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        (self.since.len() + self.done.len()) as u32
    }

    fn submit(&mut self, request: &Request) -> Result<(), DeviceError> {
        self.info.check(request)?;
        assert!(
            self.outstanding() < self.info.queue_depth,
            "no more than {} requests are outstanding",
            self.info.queue_depth
        );
        let now = self.device.now();
        let Request { op, offset, length, is_fua, handle } = *request;
        self.since.insert(handle, now);
        let command = Command { id: handle, op, offset, length, is_fua, data: Data::Absent };
        self.compute(|stack, actions| stack.submit(command, now, actions));
        self.carry_out()
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), DeviceError> {
        loop {
            if !self.done.is_empty() || self.failure.is_some() {
                completed.append(&mut self.done);
                return self.failure.take().map_or(Ok(()), Err);
            }
            if self.device.now() >= until {
                return Ok(());
            }
            self.step(until)?;
        }
    }

    fn flash_work(&self) -> Option<FlashWork> {
        self.device.flash_work()
    }

    fn signal(&mut self, signal: Signal) -> Result<(), DeviceError> {
        let now = self.device.now();
        self.compute(|stack, actions| stack.signal(signal, now, actions));
        self.carry_out()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Opening, open};

    #[test]
    fn a_stack_without_layers_is_the_device() {
        let mut device = open(&Opening::new("memory(bytes=1Mi)", Access::Write)).unwrap();
        let stack = Stack::new(limits(device.info()));
        let mut stacked = Stacked::new(&mut *device, stack, 1_000);
        let mut completed = Vec::new();
        for handle in 0..8 {
            let op = if handle % 2 == 0 { IoOp::Read } else { IoOp::Write };
            stacked
                .submit(&Request {
                    op,
                    offset: 4096 * u64::from(handle),
                    length: 4096,
                    is_fua: false,
                    handle,
                })
                .unwrap();
        }
        while stacked.outstanding() > 0 {
            stacked.wait(Nanos::MAX, &mut completed).unwrap();
        }
        let mut handles: Vec<u32> = completed.iter().map(|one| one.handle).collect();
        handles.sort_unstable();
        assert_eq!(handles, (0..8).collect::<Vec<_>>());
        assert!(completed.iter().all(|one| one.completed_at >= one.submitted_at));
        assert_eq!(stacked.below()[IoOp::Write as usize].bytes, 4 * 4096);
        let span = completed.iter().map(|one| one.completed_at).max().unwrap();
        assert!(stacked.busy().reads_ns <= span && stacked.busy().changes_ns <= span);
        stacked.drain(&mut || true).unwrap();
    }
}
