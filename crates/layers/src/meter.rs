//! Measurement of a driver at work.

use block::Completion;
use units::{IoOp, Nanos};

use crate::Stack;

/// Observer that measures a driver at work: see [`crate::Meter`].
pub trait Watch {
    /// Notes that the layers are about to compute; gives a time that [`Watch::computed`] gets back.
    fn computing(&mut self) -> u64 {
        0
    }

    /// Notes that the layers have computed.
    fn computed(&mut self, since: u64) {
        let _ = since;
    }

    /// Notes that the device got a command.
    fn sent(&mut self, op: IoOp, now: Nanos) {
        let _ = (op, now);
    }

    /// Notes that the device has ended a command of so many bytes.
    fn ended(&mut self, op: IoOp, length: u32, completion: &Completion) {
        let _ = (op, length, completion);
    }

    /// Notes that an event was handled.
    fn stepped(&mut self, stack: &Stack, now: Nanos) {
        let _ = (stack, now);
    }
}

impl Watch for () {}

/// Totals of commands that the device below the layers was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Commands that succeeded.
    pub commands: u64,
    /// Bytes of these commands.
    pub bytes: u64,
    /// The sum of their times from sending to the end, in nanoseconds.
    pub latency_ns: u64,
}

/// Commands of one kind that the device has, and the time since when it has had any.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    commands: u32,
    since: Nanos,
    busy_ns: Nanos,
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
            self.busy_ns += now.saturating_sub(self.since);
        }
    }
}

/// Counters of each layer at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time on the device's clock, in nanoseconds.
    pub at: Nanos,
    /// The counters of all layers, from the top down.
    pub counts: Vec<u64>,
}

/// Most samples kept: when there are more, every second one goes, and they are taken half as often.
const MOST_SAMPLES: usize = 2048;

/// Meter of a [`crate::Driver`].
#[derive(Debug)]
pub struct Meter {
    below: [Sent; IoOp::ALL.len()],
    reads: UnderWay,
    changes: UnderWay,
    samples: Vec<Sample>,
    sample_every: Nanos,
    next_sample: Nanos,
    clock: fn() -> u64,
    computing_ns: u64,
}

impl Meter {
    /// Makes a meter. Counters are sampled at least every `sample_every` nanoseconds of the
    /// device's clock in which something happens, until that is too often for 2,048 samples.
    /// `clock` tells the time of this machine in nanoseconds.
    #[must_use]
    pub fn new(sample_every: Nanos, clock: fn() -> u64) -> Self {
        Self {
            below: Default::default(),
            reads: UnderWay::default(),
            changes: UnderWay::default(),
            samples: Vec::new(),
            sample_every: sample_every.max(1),
            next_sample: 0,
            clock,
            computing_ns: 0,
        }
    }

    /// Gives the totals of commands that the device was sent, by operation.
    #[must_use]
    pub const fn below(&self) -> &[Sent; IoOp::ALL.len()] {
        &self.below
    }

    /// Gives the time in which the device had reads under way, and the time in which it had any
    /// other command, in nanoseconds: commands that overlap count once.
    #[must_use]
    pub const fn busy_ns(&self) -> (Nanos, Nanos) {
        (self.reads.busy_ns, self.changes.busy_ns)
    }

    /// Gives the samples of the layers' counters.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Gives the time spent in the layers, by the clock of this machine, in nanoseconds: the only
    /// figure here that differs from run to run.
    #[must_use]
    pub const fn computing_ns(&self) -> u64 {
        self.computing_ns
    }

    /// Takes a sample now.
    pub fn sample(&mut self, stack: &Stack, now: Nanos) {
        if stack.layers().is_empty() {
            return;
        }
        let mut counts = Vec::new();
        stack.layers().iter().for_each(|layer| layer.count(&mut counts));
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

    const fn under_way(&mut self, op: IoOp) -> &mut UnderWay {
        if matches!(op, IoOp::Read) { &mut self.reads } else { &mut self.changes }
    }
}

impl Watch for Meter {
    fn computing(&mut self) -> u64 {
        (self.clock)()
    }

    fn computed(&mut self, since: u64) {
        self.computing_ns += (self.clock)() - since;
    }

    fn sent(&mut self, op: IoOp, now: Nanos) {
        self.under_way(op).begins(now);
    }

    fn ended(&mut self, op: IoOp, length: u32, completion: &Completion) {
        self.under_way(op).ends(completion.completed_at);
        if completion.reply.outcome.is_ok() {
            let below = &mut self.below[op as usize];
            below.commands += 1;
            below.bytes += u64::from(length);
            below.latency_ns += completion.completed_at - completion.submitted_at;
        }
    }

    fn stepped(&mut self, stack: &Stack, now: Nanos) {
        if now >= self.next_sample {
            self.sample(stack, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use block::{BlockDevice as _, Command, Data, Immediate, Limits};

    use super::*;
    use crate::Driver;

    #[test]
    fn commands_and_their_bytes_are_counted() {
        let limits = Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 4096 };
        let meter = Meter::new(1000, || 0);
        let mut driver = Driver::watched(Immediate::sparse(limits), Stack::new(limits), meter);
        for id in 0..8 {
            let at = u64::from(id) * 4096;
            driver.submit(if id % 2 == 0 {
                Command::new(id, IoOp::Read, at, 4096)
            } else {
                Command::write(id, at, Data::zeros(4096))
            });
        }
        driver.settle().unwrap();
        let meter = driver.watch();
        let write = meter.below()[IoOp::Write as usize];
        assert_eq!((write.commands, write.bytes), (4, 4 * 4096));
        assert_eq!(meter.busy_ns(), (0, 0), "it takes no time");
    }
}
