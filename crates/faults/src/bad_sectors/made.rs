//! The volume before it is damaged.

use std::ops::Range;

use block::{BlockDevice, Command, Data, Failure, Immediate, Limits, Serve as _};
use layers::{Driver, Stack};
use units::{IoOp, Lifetime, Nanos};

use super::cases::Damage;
use super::device::Damaged;
use crate::workload::{Act, Shape, Workload};
use crate::{Dice, Oracle, Subject, Value, Wrong};

/// Commands of the host before the volume is closed or left.
const ACTS: usize = 400;
/// Times that the host writes and flushes at the end.
const ROUNDS: usize = 6;
/// Writes after the last flush, which are not known to be durable.
const UNFLUSHED: usize = 3;

/// State in which the volume was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was closed.
    Closed,
    /// Its process was killed; all that was written to the device is there.
    Unclean,
}

impl State {
    /// Both states.
    pub const ALL: [Self; 2] = [Self::Closed, Self::Unclean];

    /// Gives the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Unclean => "unclean",
        }
    }
}

/// A volume that is open over a [`Damaged`] device.
pub trait Opened {
    /// Gives the device that the host addresses.
    fn device(&mut self) -> &mut dyn BlockDevice;

    /// Writes back all and makes it durable.
    ///
    /// # Errors
    /// The reason why it cannot be closed.
    fn close(self: Box<Self>) -> Result<(), String>;
}

/// Opens a volume on a device.
///
/// # Errors
/// The reason why it is refused.
pub type Open<'a> = dyn Fn(&Damaged) -> Result<Box<dyn Opened>, String> + 'a;

/// A volume that holds something known.
pub struct Made {
    /// Limits of the device.
    pub(super) below: Limits,
    /// Limits of the volume.
    pub(super) limits: Limits,
    pub(super) shape: Shape,
    pub(super) state: State,
    pub(super) image: Vec<u8>,
    pub(super) oracle: Oracle,
    /// All values that each sector ever held.
    pub(super) history: Vec<Vec<Value>>,
    pub(super) next_write: u64,
}

/// A stack of layers, open.
struct Running(Driver<Immediate<Damaged>, Stack>);

impl Opened for Running {
    fn device(&mut self) -> &mut dyn BlockDevice {
        &mut self.0
    }

    /// Drains the layers and flushes, as volumes are closed.
    fn close(mut self: Box<Self>) -> Result<(), String> {
        let drain = |driver: &mut Driver<_, _>| {
            driver.drain(&mut || true).map_err(|error| error.to_string())
        };
        drain(&mut self.0)?;
        run(&mut self.0, Command::new(0, IoOp::Flush, 0, 0)).map_err(|error| error.to_string())?;
        drain(&mut self.0)?;
        match self.0.stack().layers().iter().find(|layer| !layer.is_idle()) {
            Some(layer) => Err(format!("`{}` is drained and not idle", layer.name())),
            None => Ok(()),
        }
    }
}

/// Gives the function that opens a subject's stack, which was formatted with this seed.
pub fn of_subject(
    subject: &Subject,
    seed: u64,
) -> impl Fn(&Damaged) -> Result<Box<dyn Opened>, String> {
    move |device| {
        let mut device = Immediate::new(device.clone());
        let stack = subject.open(seed, &mut device).map_err(|error| error.to_string())?;
        Ok(Box::new(Running(Driver::new(device, stack))))
    }
}

/// Carries out one command.
pub(super) fn run(device: &mut dyn BlockDevice, command: Command) -> Result<Data, Failure> {
    let failed = command.failed("the device is gone");
    device.submit(command);
    let mut completed = Vec::new();
    while completed.is_empty() {
        if device.wait(Nanos::MAX, &mut completed).is_err() {
            return Err(failed);
        }
    }
    completed.swap_remove(0).reply.outcome
}

/// Gives the bytes of a write.
pub(super) fn filled(value: Value, sectors: Range<usize>, size: usize, tail: usize) -> Vec<u8> {
    let mut bytes = vec![0; sectors.len() * size];
    for (sector, part) in sectors.zip(bytes.chunks_exact_mut(size)) {
        value.fill(sector as u64, tail, part);
    }
    bytes
}

impl Made {
    /// Makes the subject's volume.
    ///
    /// # Errors
    /// [`Wrong`] if anything fails: nothing is damaged yet.
    pub fn of_subject(subject: &Subject, state: State, seed: u64) -> Result<Self, Wrong> {
        let limits = subject.limits();
        let device = Damaged::new(limits, vec![0; limits.capacity_bytes as usize]);
        subject
            .format(seed, &mut Immediate::new(device.clone()))
            .map_err(|error| Wrong(format!("cannot be made: {error}")))?;
        Self::of(&device, subject.shape(), state, seed, &of_subject(subject, seed))
    }

    /// Writes to an empty volume at random.
    ///
    /// # Errors
    /// [`Wrong`] if anything fails, or what is read is not what was written.
    pub fn of(
        device: &Damaged,
        shape: Shape,
        state: State,
        seed: u64,
        open: &Open<'_>,
    ) -> Result<Self, Wrong> {
        let wrong = |reason: String| Wrong(format!("before anything is damaged: {reason}"));
        let mut opened = open(device).map_err(wrong)?;
        let info = opened.device().info().clone();
        let (limits, zeroing_bytes) = (info.limits, info.zeroing_bytes);
        let zeroing = zeroing_bytes.map(|bytes| (bytes / limits.sector_bytes) as usize);
        let sectors = (limits.capacity_bytes / u64::from(limits.sector_bytes)) as usize;
        let mut made = Self {
            below: device.limits(),
            limits,
            shape,
            state,
            image: Vec::new(),
            oracle: Oracle::new(&vec![Value::ZEROS; sectors]).zeroing(zeroing),
            history: vec![vec![Value::ZEROS]; sectors],
            next_write: 1,
        };
        made.write_all_kinds(&mut *opened, &mut Dice::new(seed))?;
        if state == State::Closed {
            made.send(&mut *opened, IoOp::Flush, 0..0, false)?;
            opened.close().map_err(wrong)?;
        }
        made.image = device.bytes();
        let verdict = made.try_case(&Damage::Sectors(Vec::new()), open);
        match verdict.fault() {
            None if verdict.is_whole() => Ok(made),
            _ => Err(wrong(format!("{verdict:?}"))),
        }
    }

    fn write_all_kinds(&mut self, opened: &mut dyn Opened, dice: &mut Dice) -> Result<(), Wrong> {
        let (sectors, size) = (self.history.len(), self.limits.sector_bytes);
        let most = (self.limits.most_bytes / size) as usize;
        let mut workload = Workload::new(sectors, size, most.min(sectors / 3).max(1));
        for _ in 0..ACTS {
            match workload.next(dice) {
                Act::Signal(signal) => opened.device().signal(signal),
                Act::Command { op, sectors, is_fua } => self.send(opened, op, sectors, is_fua)?,
            }
            if dice.chance(0.1) {
                Self::pass(opened, 1 + dice.below(300_000) as Nanos)?;
            }
        }
        for _ in 0..ROUNDS {
            let start = dice.below(sectors);
            let end = sectors.min(start + 1 + dice.below(8));
            self.send(opened, IoOp::Write, start..end, false)?;
            self.send(opened, IoOp::Flush, 0..0, false)?;
        }
        for _ in 0..UNFLUSHED {
            let start = dice.below(sectors);
            self.send(opened, IoOp::Write, start..start + 1, false)?;
        }
        Ok(())
    }

    /// Lets time pass without any command.
    fn pass(opened: &mut dyn Opened, time: Nanos) -> Result<(), Wrong> {
        let device = opened.device();
        let until = device.now() + time;
        while device.now() < until {
            device.wait(until, &mut Vec::new()).map_err(|error| Wrong(error.to_string()))?;
        }
        Ok(())
    }

    fn send(
        &mut self,
        opened: &mut dyn Opened,
        op: IoOp,
        sectors: Range<usize>,
        is_fua: bool,
    ) -> Result<(), Wrong> {
        let size = self.limits.sector_bytes as usize;
        let value = Value::of_write(self.next_write);
        let (offset, length) = ((sectors.start * size) as u64, (sectors.len() * size) as u32);
        let mut command = Command { is_fua, ..Command::new(0, op, offset, length) };
        if op == IoOp::Write {
            if self.shape.has_hints {
                let choice = self.next_write + offset / 4096;
                command.lifetime = Lifetime::ALL[choice as usize % Lifetime::ALL.len()];
            }
            self.next_write += 1;
            command.data =
                Data::Whole(filled(value, sectors.clone(), size, self.shape.tail_bytes).into());
        }
        let held = match op {
            IoOp::Write => Some(value),
            IoOp::Trim => Some(Value::ZEROS),
            IoOp::Read | IoOp::Flush => None,
        };
        for history in &mut self.history[sectors.clone()] {
            if let Some(value) = held.filter(|value| !history.contains(value)) {
                history.push(value);
            }
        }
        self.oracle.sent(0, op, sectors.clone(), is_fua, value);
        let data = run(opened.device(), command)
            .map_err(|failure| Wrong(format!("before anything is damaged: {failure}")))?;
        let mut read = Vec::new();
        if op == IoOp::Read {
            let mut bytes = vec![0; length as usize];
            data.copy_to(&mut bytes);
            let parts = sectors.zip(bytes.chunks_exact(size));
            read.extend(parts.map(|(sector, bytes)| Value::read(sector as u64, bytes)));
        }
        self.oracle.done(0, &read)
    }

    /// Gives the state in which the volume was left.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Gives the bytes on the device.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        &self.image
    }
}
