//! One life of a volume: formatted, written at random, its power cut at every write, and recovered.

mod beginnings;
mod endings;

use std::collections::VecDeque;
use std::ops::Range;

use block::{BlockDevice as _, Command, Completion, Data, Failure, Reply, Signal, Store};
use layers::{Driver, Stack};
use rustc_hash::FxHashSet;
use units::IoOp;

use crate::failing::{Failing, HasFailed};
use crate::workload::{Act, Workload};
use crate::{
    CrashDevice, CrashDevices, Dice, ErrorPlan, Manners, Media, Oracle, Subject, Value, Wrong,
};

use beginnings::{cut_while_formatting, judge_new, write_over_ends};

/// Options of an episode: with the subject and the seed, it is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Host operations between two power cuts that are for good.
    pub operations: usize,
    /// Power cuts that are for good, on one volume.
    pub links: usize,
    /// Volumes made one after the other on the same device.
    pub volumes: usize,
    /// Most commands of the host under way.
    pub depth: usize,
    /// True if the device replies in order.
    pub is_orderly: bool,
    /// True if the host trims.
    pub with_trims: bool,
    /// True if the host writes with FUA.
    pub with_fua: bool,
    /// True if the host sends signals to the layers.
    pub with_signals: bool,
    /// True if commands of the device fail at random.
    pub with_errors: bool,
    /// True if the process is killed now and then, while the device keeps its power.
    pub with_kills: bool,
    /// Command that fails in each link, instead of a random one.
    pub plan: Option<ErrorPlan>,
    /// Share of the device's writes at which a power cut is tried.
    pub cut_share: f64,
    /// Number of commands and replies before a fault that are told with it.
    pub told: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            operations: 120,
            links: 4,
            volumes: 2,
            depth: 12,
            is_orderly: false,
            with_trims: true,
            with_fua: true,
            with_signals: true,
            with_errors: false,
            with_kills: true,
            plan: None,
            cut_share: 1.0,
            told: 0,
        }
    }
}

/// Counters of an episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Power cuts, each followed by a recovery.
    pub cuts: u64,
    /// Cuts during a recovery, or right after one.
    pub recovery_cuts: u64,
    /// Cuts after which the volume was used on.
    pub lasting_cuts: u64,
    /// Times that the process was killed at its work, and the volume opened again over the device's
    /// cache.
    pub kills: u64,
    /// Kills after which the volume was used on.
    pub lasting_kills: u64,
    /// Commands of the host.
    pub host_commands: u64,
    /// Writes that the device was sent.
    pub device_writes: u64,
    /// Faults of the device.
    pub errors: u64,
    /// Sectors that were read and judged.
    pub sectors_judged: u64,
    /// Reads that were answered though something was poisoned.
    pub poisoned_reads: u64,
}

impl Tally {
    /// Adds another.
    pub const fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.recovery_cuts += other.recovery_cuts;
        self.lasting_cuts += other.lasting_cuts;
        self.kills += other.kills;
        self.lasting_kills += other.lasting_kills;
        self.host_commands += other.host_commands;
        self.device_writes += other.device_writes;
        self.errors += other.errors;
        self.sectors_judged += other.sectors_judged;
        self.poisoned_reads += other.poisoned_reads;
    }
}

/// A limit on what a recovery may read, in devices.
pub(crate) const MOST_READS: u64 = 32;

/// State of an episode that runs.
struct Running<'a> {
    subject: &'a Subject,
    options: &'a Options,
    tally: &'a mut Tally,
    dice: Dice,
    seed: u64,
    driver: Driver<CrashDevices>,
    /// Failure that is planned between two layers, to be asked if it has happened.
    between: Option<HasFailed>,
    spare: [Option<CrashDevice>; 2],
    oracle: Oracle,
    workload: Workload,
    next_id: u32,
    /// Number of the next write of the host.
    next_write: u64,
    replies: Vec<Completion>,
    /// True if the power is out for good.
    is_out: bool,
    is_poisoned: bool,
    must_fail: FxHashSet<u32>,
    flights: Vec<(u32, IoOp, bool)>,
    recovery_writes: u64,
    /// The last commands and replies, if they are to be told.
    story: VecDeque<String>,
    first: Vec<Value>,
    second: Vec<Value>,
    buffer: Vec<u8>,
}

/// Lives one episode.
///
/// # Errors
/// [`Wrong`] if something is read or done that must not be.
pub fn live(
    subject: &Subject,
    options: &Options,
    seed: u64,
    tally: &mut Tally,
) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let limits = subject.limits();
    let mut media = Media::new(
        limits.sector_bytes,
        (limits.capacity_bytes / u64::from(limits.sector_bytes)) as usize,
    );
    if dice.chance(0.3) {
        let sector = limits.sector_bytes as usize;
        for (number, bytes) in media.raw().chunks_mut(sector).enumerate() {
            Value::of_write(1).fill(number as u64, subject.tail_bytes as usize, bytes);
        }
    }
    let manners = Manners {
        is_orderly: options.is_orderly,
        is_trim_unstable: options.with_trims && dice.chance(0.25),
        is_flush_a_lie: false,
    };
    let mut device = CrashDevices::new(subject, manners, media, &mut dice);
    let mut volume_seed = dice.seed();
    let mut next_write = 2;
    for volume in 0..options.volumes {
        // A volume that is made anew may get the seed of the one before.
        if volume > 0 && dice.chance(0.5) {
            volume_seed = dice.seed();
        }
        (device, next_write) =
            live_volume(subject, options, dice.split(), volume_seed, device, next_write, tally)?;
    }
    Ok(())
}

fn live_volume(
    subject: &Subject,
    options: &Options,
    mut dice: Dice,
    seed: u64,
    mut device: CrashDevices,
    next_write: u64,
    tally: &mut Tally,
) -> Result<(CrashDevices, u64), Wrong> {
    device.forget_trims();
    if dice.chance(0.5) {
        cut_while_formatting(subject, &mut dice, seed, &mut device);
        tally.cuts += 1;
    }
    subject
        .format(seed, &mut device)
        .map_err(|error| Wrong(format!("cannot be formatted: {error}")))?;
    let seed = subject.seed_of_opening(seed, &mut dice);
    let mut stack = subject
        .open(seed, &mut device)
        .map_err(|error| Wrong(format!("cannot be opened when it is new: {error}")))?;
    if stack.layers().is_empty() {
        // Nothing was made: what a killed process left may still be volatile.
        Store::new(&mut device).flush().map_err(|failure| Wrong(failure.to_string()))?;
    }
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    read_all(&mut stack, &mut device, &mut bytes, &mut values)?;
    judge_new(subject, &mut device, &values)?;
    if write_over_ends(subject, &mut stack, &mut device, &bytes, next_write)? {
        read_all(&mut stack, &mut device, &mut bytes, &mut values)?;
    }
    let sector_bytes = subject.sector_bytes;
    let most = (stack.limits().most_bytes / sector_bytes) as usize;
    device.pass(1 << 40);
    let zeroing = zeroing(&stack);
    let run = Running {
        subject,
        options,
        tally,
        seed,
        driver: Driver::new(device, stack),
        between: None,
        spare: [None, None],
        oracle: Oracle::new(&values).zeroing(zeroing),
        workload: Workload::new(values.len(), sector_bytes, most.min(values.len() / 3).max(1)),
        next_id: 0,
        next_write: next_write + 1,
        replies: Vec::new(),
        is_out: false,
        is_poisoned: false,
        must_fail: FxHashSet::default(),
        flights: Vec::new(),
        recovery_writes: 0,
        story: VecDeque::new(),
        first: Vec::new(),
        second: Vec::new(),
        buffer: Vec::new(),
        dice: dice.split(),
    };
    run.live()
}

/// Gives the alignment, in sectors, of trims that make zeros; none if the stack promises none.
pub(crate) fn zeroing(stack: &Stack) -> Option<usize> {
    let bytes = stack.layers().first()?.zeroing_bytes()?;
    Some((bytes / stack.limits().sector_bytes) as usize)
}

/// Reads the whole volume.
fn read_all(
    stack: &mut Stack,
    device: &mut CrashDevices,
    buffer: &mut Vec<u8>,
    values: &mut Vec<Value>,
) -> Result<(), Wrong> {
    let limits = stack.limits();
    buffer.resize(limits.capacity_bytes as usize, 0);
    let mut driver = Driver::new(device, stack);
    let read = Store::new(&mut driver).read(0, buffer);
    read.map_err(|failure| Wrong(format!("cannot be read after it was opened: {failure}")))?;
    driver.settle().map_err(|error| Wrong(error.to_string()))?;
    values.clear();
    let sectors = buffer.chunks_exact(limits.sector_bytes as usize).enumerate();
    values.extend(sectors.map(|(number, bytes)| Value::read(number as u64, bytes)));
    Ok(())
}

impl Running<'_> {
    fn live(mut self) -> Result<(CrashDevices, u64), Wrong> {
        let (device, stack) = self.take_parts();
        self.drive(device, stack);
        for _ in 0..self.options.links {
            let lived = self.link().and_then(|()| self.end_link());
            lived.map_err(|wrong| {
                Wrong(self.story.iter().fold(wrong.0, |text, line| text + "\n    " + line))
            })?;
        }
        let (mut device, _) = self.driver.into_parts();
        self.tally.device_writes += device.writes();
        device.count_anew();
        Ok((device, self.next_write))
    }

    /// Keeps a line of what happens, if it may have to be told.
    fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.options.told > 0 {
            if self.story.len() == self.options.told {
                self.story.pop_front();
            }
            self.story.push_back(line());
        }
    }

    /// Runs operations until the power goes.
    fn link(&mut self) -> Result<(), Wrong> {
        self.begin_link();
        let pace = self.dice.pick(&[0.1, 0.3, 0.6, 0.9]);
        let depth = 1 + self.dice.below(self.options.depth);
        let mut left = 1 + self.dice.below(self.options.operations);
        let mut steps = 0u64;
        while !self.is_out && (left > 0 || self.oracle.pending() > 0) {
            steps += 1;
            if steps > 2_000_000 {
                return Err(Wrong(format!(
                    "goes on for ever: {} commands of the host are under way",
                    self.oracle.pending()
                )));
            }
            let time = self.dice.below(40_000) as u64;
            self.device().pass(time);
            self.wake()?;
            let can_send = left > 0 && self.oracle.pending() < depth;
            if can_send && (self.device().pending() == 0 || self.dice.chance(pace)) {
                left -= 1;
                self.act()?;
            } else if self.device().pending() > 0 {
                self.step()?;
            } else {
                self.wait()?;
            }
        }
        if self.options.with_signals && !self.is_out && !self.has_failed() && self.dice.chance(0.3)
        {
            self.drain()?;
        }
        if !self.is_out && self.dice.chance(0.3) {
            self.read_back()?;
        }
        Ok(())
    }

    /// Reads the whole volume while the background work of the layers goes on.
    fn read_back(&mut self) -> Result<(), Wrong> {
        let limits = self.driver.stack().limits();
        let (most, sectors) =
            ((limits.most_bytes / limits.sector_bytes) as usize, self.oracle.sectors());
        for start in (0..sectors).step_by(most) {
            self.send(IoOp::Read, start..sectors.min(start + most), false);
            self.pump()?;
            while self.oracle.pending() > 0 && !self.is_out {
                if self.device().pending() > 0 { self.step()? } else { self.wait()? }
            }
        }
        Ok(())
    }

    fn begin_link(&mut self) {
        let options = self.options;
        // Now and then nothing makes anything durable for long.
        let is_quiet = self.dice.chance(0.2);
        let flush = if is_quiet { 0 } else { self.dice.pick(&[0, 2, 8, 20]) };
        let trim = if options.with_trims { self.dice.pick(&[0, 3, 15]) } else { 0 };
        let signal = if options.with_signals && !is_quiet { self.dice.pick(&[0, 2, 8]) } else { 0 };
        self.workload.weights = [60, self.dice.pick(&[5, 15, 40]), trim, flush, signal];
        self.workload.fua =
            if options.with_fua && !is_quiet { self.dice.pick(&[0.0, 0.1, 0.5]) } else { 0.0 };
        (self.is_out, self.is_poisoned) = (false, false);
        self.must_fail.clear();
        self.flights.clear();
        self.device().fail(options.plan.filter(|plan| plan.level == 0));
        if options.with_errors && options.plan.is_none() {
            let within = self.dice.pick(&[2, 8, 30, 100]);
            let at = self.dice.below(within) as u64;
            let op = self.dice.pick(&[
                None,
                Some(IoOp::Write),
                Some(IoOp::Write),
                Some(IoOp::Flush),
                Some(IoOp::Read),
                Some(IoOp::Trim),
            ]);
            let is_lasting = self.dice.chance(0.3);
            self.device().fail(Some(ErrorPlan { at, op, is_lasting, level: 0 }));
        }
    }

    /// Lets time pass until the layers wake: nothing is under way below. If they wait for no time,
    /// they hang.
    fn wait(&mut self) -> Result<(), Wrong> {
        let Some(at) = self.driver.stack().wakes_at() else {
            return Err(Wrong(format!(
                "{} commands of the host are never replied to: nothing is under way below",
                self.oracle.pending()
            )));
        };
        let now = self.device().now();
        self.device().pass(at.saturating_sub(now));
        self.wake()
    }

    fn wake(&mut self) -> Result<(), Wrong> {
        if self.driver.wake() { self.pump() } else { Ok(()) }
    }

    fn step(&mut self) -> Result<(), Wrong> {
        let now = self.device().now();
        self.driver.hear(now + 1).map_err(|error| Wrong(error.to_string()))?;
        self.pump()
    }

    /// Does one act of the host.
    fn act(&mut self) -> Result<(), Wrong> {
        match self.workload.next(&mut self.dice) {
            Act::Signal(signal) => self.driver.tell(signal, None),
            Act::Command { op, sectors, is_fua } => self.send(op, sectors, is_fua),
        }
        self.pump()
    }

    fn send(&mut self, op: IoOp, sectors: Range<usize>, is_fua: bool) {
        let size = self.subject.sector_bytes as usize;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1) % 1_000_000;
        let value = Value::of_write(self.next_write);
        let mut data = Data::Absent;
        if op == IoOp::Write {
            self.next_write += 1;
            let mut bytes = vec![0; sectors.len() * size];
            for (sector, part) in sectors.clone().zip(bytes.chunks_exact_mut(size)) {
                value.fill(sector as u64, self.subject.tail_bytes as usize, part);
            }
            data = Data::Whole(bytes.into());
        }
        let (offset, length) = ((sectors.start * size) as u64, (sectors.len() * size) as u32);
        let fua = if is_fua { " fua" } else { "" };
        let what = if op == IoOp::Write { format!(" ({value})") } else { String::new() };
        self.tell(|| {
            format!("host: {id} {}{fua} {}+{}{what}", op.name(), sectors.start, sectors.len())
        });
        let is_durable =
            is_fua || (op == IoOp::Write && self.subject.acknowledges_what_is_durable());
        self.oracle.sent(id, op, sectors, is_durable, value);
        self.flights.push((id, op, is_fua));
        if self.is_poisoned && op != IoOp::Read && self.driver.stack().layers().len() == 1 {
            self.must_fail.insert(id);
        }
        self.tally.host_commands += 1;
        let lifetime = self.subject.lifetime_of(id, offset);
        self.driver.accept(Command { id, op, offset, length, is_fua, lifetime, data });
    }

    /// Runs a stack on a device; something may be going to fail between its layers.
    fn drive(&mut self, device: CrashDevices, mut stack: Stack) {
        let layers = stack.layers().len();
        let plan = self.options.plan.filter(|plan| (1..layers).contains(&plan.level));
        self.between = plan.map(|plan| {
            let limits = stack.layers()[layers - plan.level].limits();
            let (failing, has_failed) = Failing::new(plan, limits);
            stack.insert_above(plan.level, Box::new(failing));
            has_failed
        });
        self.driver = Driver::new(device, stack);
    }

    /// Takes the device and its layers, while nothing drives them.
    fn take_parts(&mut self) -> (CrashDevices, Stack) {
        let nothing = CrashDevices::nothing();
        let limits = nothing.info().limits;
        let driver = Driver::new(nothing, Stack::new(limits));
        std::mem::replace(&mut self.driver, driver).into_parts()
    }

    fn has_failed(&mut self) -> bool {
        self.device().has_failed() || self.has_failed_between()
    }

    fn has_failed_between(&self) -> bool {
        self.between.as_ref().is_some_and(HasFailed::get)
    }

    /// Gives the device below the layers.
    const fn device(&mut self) -> &mut CrashDevices {
        self.driver.device_mut()
    }

    /// Does what the layers want done: the host hears first, then the device gets one command after
    /// the other, with a cut at each write.
    fn pump(&mut self) -> Result<(), Wrong> {
        let mut is_acknowledged = false;
        while !self.is_out {
            let mut replies = std::mem::take(&mut self.replies);
            self.driver.take_replies(&mut replies);
            for completion in replies.drain(..) {
                is_acknowledged |= self.host_reply(completion.reply)?;
            }
            self.replies = replies;
            if std::mem::take(&mut is_acknowledged) && self.dice.chance(0.5) {
                self.try_cut()?;
                continue;
            }
            let Some(op) = self.driver.send_next() else { break };
            self.tell_sent();
            if op == IoOp::Write {
                self.try_cut()?;
            }
        }
        Ok(())
    }

    fn tell_sent(&mut self) {
        if self.options.told > 0
            && let Some(&Command { id, op, offset, length, is_fua, .. }) =
                self.driver.device_mut().newest()
        {
            let (size, fua) =
                (u64::from(self.subject.sector_bytes), if is_fua { " fua" } else { "" });
            self.tell(|| {
                format!(
                    "  device: {id} {}{fua} {}+{}",
                    op.name(),
                    offset / size,
                    u64::from(length) / size
                )
            });
        }
    }

    /// Judges a reply to the host; returns true if it says that something is durable now.
    fn host_reply(&mut self, reply: Reply) -> Result<bool, Wrong> {
        let Some(at) = self.flights.iter().position(|flight| flight.0 == reply.id) else {
            return Err(Wrong(format!(
                "a reply to {}, which the host did not send or has had a reply to",
                reply.id
            )));
        };
        let (id, op, is_fua) = self.flights.swap_remove(at);
        let must_fail = self.must_fail.remove(&id);
        let is_good = reply.outcome.is_ok();
        self.tell(|| format!("host: reply to {id}{}", if is_good { "" } else { ", a failure" }));
        match reply.outcome {
            Ok(_) if must_fail => {
                Err(Wrong(format!("a {} is taken by a layer that told it was poisoned", op.name())))
            }
            Ok(data) => {
                let mut values = Vec::new();
                if op == IoOp::Read {
                    self.tally.poisoned_reads += u64::from(self.is_poisoned);
                    let bytes =
                        data.joined().ok_or_else(|| Wrong("a read without bytes".to_owned()))?;
                    let first = self.oracle.first_sector(id);
                    let sectors =
                        bytes.chunks_exact(self.subject.sector_bytes as usize).enumerate();
                    values.extend(
                        sectors.map(|(index, bytes)| Value::read((first + index) as u64, bytes)),
                    );
                    self.tally.sectors_judged += values.len() as u64;
                }
                self.oracle.done(id, &values)?;
                Ok(op == IoOp::Flush || is_fua)
            }
            Err(failure) => {
                if !self.has_failed() {
                    return Err(Wrong(format!("fails though nothing failed below: {failure}")));
                }
                self.is_poisoned |= matches!(failure, Failure::Poisoned { .. });
                self.oracle.failed(id)?;
                Ok(false)
            }
        }
    }

    /// Lets the layers write back all that they hold, one after the other.
    fn drain(&mut self) -> Result<(), Wrong> {
        self.driver.tell(Signal::ScrubEnds, None);
        for level in 0..self.driver.stack().layers().len() {
            self.driver.tell(Signal::Drain, Some(level));
            self.pump()?;
            for _ in 0..1_000_000 {
                if self.is_out
                    || (self.device().pending() == 0
                        && self.driver.stack().layers()[level].is_idle())
                {
                    break;
                }
                if self.device().pending() > 0 { self.step()? } else { self.wait_to_drain(level)? }
            }
        }
        if !self.is_out && !self.driver.stack().is_idle() {
            return Err(Wrong("is not idle though it was drained".to_owned()));
        }
        Ok(())
    }

    fn wait_to_drain(&mut self, level: usize) -> Result<(), Wrong> {
        if self.driver.stack().wakes_at().is_none() {
            let name = self.driver.stack().layers()[level].name();
            return Err(Wrong(format!("`{name}` is drained, not idle, and waits for nothing")));
        }
        self.wait()
    }
}
