//! Bytes that change on the device by themselves: whatever is asked of a stack of layers then, it
//! gives what was written, or an error, and never anything else.
//!
//! One byte of one sector is changed in the life of a volume: while it is in use, after it was
//! drained, or after its process was killed. Before and after it, things are written at random, so
//! that layers read, move and flush what they hold; at the end it is drained and opened again.
//!
//! # What is not asked
//! - The destinations of a stable buffer have no checksums: where no other layer keeps any, its own
//!   area alone is changed.
//! - After a kill, a slot of a stable buffer that changed cannot be distinguished from one that a
//!   power cut tore: an older version of what was written may be read, and nothing that never was.
//! - After a kill, the same holds for what the last commit of a log volume made durable: nothing on
//!   the device says yet that it did. So a few sectors are written last, and may be older.
//! - After a kill, the pages of regions that `checksums` has marked are as they are. Its own area
//!   alone is changed then. Trimmed pages have no checksum there.

use block::{Command, Data, Failure, Immediate, Limits, Serve, Store};
use layers::{Driver, Stack};
use units::IoOp;

use crate::episode::zeroing;
use crate::workload::{Act, Workload};
use crate::{Dice, Subject, SubjectKind, Value, Wrong};

/// Sectors at the end that are written last.
const LAST: usize = 8;
/// Times that they are written, each with a flush.
const ROUNDS: usize = 5;

/// Time at which the byte changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    InUse,
    Drained,
    Killed,
}

/// Counters of volumes in which bytes changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotten {
    /// Bytes that were changed.
    pub flips: u64,
    /// Volumes of which something failed.
    pub noticed: u64,
    /// Volumes that were not opened any more.
    pub refused: u64,
    /// Volumes of which a layer was poisoned.
    pub poisoned: u64,
    /// Sectors that were read and judged.
    pub sectors_judged: u64,
    /// Reads, writes and trims that failed.
    pub failed: u64,
}

impl Rotten {
    /// Adds another.
    pub const fn add(&mut self, other: &Self) {
        self.flips += other.flips;
        self.noticed += other.noticed;
        self.refused += other.refused;
        self.poisoned += other.poisoned;
        self.sectors_judged += other.sectors_judged;
        self.failed += other.failed;
    }
}

/// Device in memory, whose bytes anybody may change.
struct Flat {
    limits: Limits,
    bytes: Vec<u8>,
}

impl Serve for Flat {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let range = command.offset as usize..command.end() as usize;
        match command.op {
            IoOp::Read => return Ok(Data::copy_of(&self.bytes[range])),
            IoOp::Write => command.data.copy_to(&mut self.bytes[range]),
            IoOp::Trim => self.bytes[range].fill(0),
            IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

/// Values that a sector may hold, and all that it ever held.
#[derive(Clone, Debug)]
struct Held {
    allowed: Vec<Value>,
    before: Vec<Value>,
    /// True if any content is accepted.
    is_unchecked: bool,
}

/// Rule by which a volume is judged after it was opened again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// Each sector has to hold what was written last.
    Newest,
    /// Of the last sectors, anything that was written is accepted.
    ButTheLast,
    /// Anything that was written is accepted.
    Any,
}

struct Life<'a> {
    subject: &'a Subject,
    seed: u64,
    device: Immediate<Flat>,
    stack: Stack,
    held: Vec<Held>,
    workload: Workload,
    next_write: u64,
    is_changed: bool,
    is_poisoned: bool,
    tally: Rotten,
}

/// Returns true if the stack has checksums by which it notices a byte that changes.
#[must_use]
pub fn is_checked(subject: &Subject) -> bool {
    let SubjectKind::Registered(text) = &subject.kind else { return false };
    // The bytes of a volume that is filled from the start were never written to it.
    has_homes_checked(text)
        || ["log_volume", "stable_buffer"].iter().any(|name| text.contains(name))
            && !text.contains("filled=yes")
            // The buffer's own area alone has checksums, and replicas below lay it out otherwise.
            && !(text.contains("stable_buffer") && text.contains("replicas"))
}

/// Returns true if pages that stay where they are have checksums.
fn has_homes_checked(text: &str) -> bool {
    text.split('|').any(|layer| layer.trim().starts_with("checksums"))
}

/// Lives one life of a volume, in which one byte changes.
///
/// # Errors
/// [`Wrong`] if something is read that must not be.
pub fn rot(subject: &Subject, seed: u64, tally: &mut Rotten) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let mut life = Life::begin(subject, dice.seed())?;
    let moment = dice.pick(&[Moment::InUse, Moment::Drained, Moment::Killed]);
    let lived = life.live(moment, &mut dice);
    life.tally.noticed = u64::from(life.tally.failed + life.tally.refused > 0);
    tally.add(&life.tally);
    lived.map_err(|wrong| Wrong(format!("{moment:?}: {}", wrong.0)))
}

impl<'a> Life<'a> {
    fn begin(subject: &'a Subject, seed: u64) -> Result<Self, Wrong> {
        let limits = subject.limits();
        let bytes = vec![0; limits.capacity_bytes as usize];
        let mut device = Immediate::new(Flat { limits, bytes });
        let wrong = |error: layers::LayerError| Wrong(format!("cannot be made: {error}"));
        subject.format(seed, &mut device).map_err(wrong)?;
        let stack = subject.open(seed, &mut device).map_err(wrong)?;
        let Limits { capacity_bytes, sector_bytes, most_bytes } = stack.limits();
        let sectors = (capacity_bytes / u64::from(sector_bytes)) as usize;
        let most = (most_bytes / sector_bytes) as usize;
        let zeros =
            Held { allowed: vec![Value::ZEROS], before: vec![Value::ZEROS], is_unchecked: false };
        Ok(Self {
            subject,
            seed,
            device,
            stack,
            held: vec![zeros; sectors],
            workload: Workload::new(sectors, sector_bytes, most.min(sectors / 3).max(1)),
            next_write: 1,
            is_changed: false,
            is_poisoned: false,
            tally: Rotten::default(),
        })
    }

    fn live(&mut self, moment: Moment, dice: &mut Dice) -> Result<(), Wrong> {
        let acts = 20 + dice.below(160);
        self.work(acts, dice)?;
        match moment {
            Moment::InUse => self.change(dice),
            Moment::Drained => {
                self.drain()?;
                self.change(dice);
                if !self.open_again(Judge::Newest)? {
                    return Ok(());
                }
            }
            Moment::Killed => {
                self.write_last(dice)?;
                self.change_after_kill(dice);
                let is_buffered = self.subject.to_string().contains("stable_buffer");
                let judge = if is_buffered { Judge::Any } else { Judge::ButTheLast };
                if !self.open_again(judge)? {
                    return Ok(());
                }
            }
        }
        if dice.chance(0.5) {
            self.read_all()?;
        }
        let acts = dice.pick(&[0, 20, 200]);
        self.work(acts, dice)?;
        self.drain()?;
        self.read_all()?;
        if self.is_poisoned {
            return self.open_again(Judge::Any).map(|_| ());
        }
        // It was drained, and nothing changed since: what is bad stays so.
        self.open_again(Judge::Newest).map(|_| ())
    }

    fn run(
        &mut self,
        work: impl FnOnce(&mut Store<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut driver = Driver::new(&mut self.device, &mut self.stack);
        let done = work(&mut Store::new(&mut driver));
        let _ = driver.settle();
        done
    }

    /// Judges a failure: it must have a reason, and must not poison a layer that stands alone.
    fn failed(&mut self, failure: &Failure) -> Result<(), Wrong> {
        self.tally.failed += 1;
        if !self.is_changed {
            return Err(Wrong(format!("fails though no byte changed: {failure}")));
        }
        if matches!(failure, Failure::Poisoned { .. }) {
            if self.stack.layers().len() == 1 {
                return Err(Wrong(format!("one byte ends it all: {failure}")));
            }
            self.tally.poisoned += u64::from(!self.is_poisoned);
            self.is_poisoned = true;
        }
        Ok(())
    }

    fn work(&mut self, acts: usize, dice: &mut Dice) -> Result<(), Wrong> {
        for _ in 0..acts {
            if self.is_poisoned {
                break;
            }
            match self.workload.next(dice) {
                Act::Signal(signal) => {
                    let mut driver = Driver::new(&mut self.device, &mut self.stack);
                    driver.tell(signal, None);
                    driver.settle().map_err(|error| Wrong(error.to_string()))?;
                }
                Act::Command { op: IoOp::Read, sectors, .. } => self.read(sectors)?,
                Act::Command { op: IoOp::Write, sectors, .. } => self.write(sectors)?,
                Act::Command { op: IoOp::Trim, sectors, .. } => self.trim(sectors)?,
                Act::Command { op: IoOp::Flush, .. } => self.flush()?,
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.subject.sector_bytes as usize
    }

    fn write(&mut self, sectors: std::ops::Range<usize>) -> Result<(), Wrong> {
        let (size, value) = (self.size(), Value::of_write(self.next_write));
        self.next_write += 1;
        let mut bytes = vec![0; sectors.len() * size];
        for (sector, part) in sectors.clone().zip(bytes.chunks_exact_mut(size)) {
            value.fill(sector as u64, self.subject.tail_bytes as usize, part);
        }
        let written = self.run(|store| store.write((sectors.start * size) as u64, &bytes));
        for held in &mut self.held[sectors] {
            if written.is_ok() {
                held.allowed.clear();
                held.is_unchecked = false;
            }
            held.allowed.push(value);
            held.before.push(value);
        }
        written.or_else(|failure| self.failed(&failure))
    }

    /// Trims: gives zeros where the stack promises them. Other sectors may still give anything that
    /// they held, as nobody keeps account here of what was durable.
    fn trim(&mut self, sectors: std::ops::Range<usize>) -> Result<(), Wrong> {
        let (offset, length) = (sectors.start * self.size(), sectors.len() * self.size());
        let trimmed = self.run(|store| store.trim(offset as u64, length as u32));
        let is_unchecked = has_homes_checked(&self.subject.to_string());
        let zeroed = zeroing(&self.stack)
            .filter(|_| trimmed.is_ok())
            .map_or(0..0, |unit| sectors.start.next_multiple_of(unit)..sectors.end / unit * unit);
        for (sector, held) in sectors.clone().zip(&mut self.held[sectors]) {
            if zeroed.contains(&sector) {
                (held.allowed, held.is_unchecked) = (vec![Value::ZEROS], false);
                continue;
            }
            held.allowed.clone_from(&held.before);
            held.is_unchecked |= is_unchecked;
        }
        trimmed.or_else(|failure| self.failed(&failure))
    }

    fn flush(&mut self) -> Result<(), Wrong> {
        self.run(|store| store.flush()).or_else(|failure| self.failed(&failure))
    }

    fn read(&mut self, sectors: std::ops::Range<usize>) -> Result<(), Wrong> {
        let mut bytes = vec![0; sectors.len() * self.size()];
        let offset = (sectors.start * self.size()) as u64;
        if let Err(failure) = self.run(|store| store.read(offset, &mut bytes)) {
            return self.failed(&failure);
        }
        for (number, bytes) in sectors.zip(bytes.chunks_exact(self.size())) {
            self.tally.sectors_judged += 1;
            let value = Value::read(number as u64, bytes);
            let held = &self.held[number];
            if !held.is_unchecked && !held.allowed.contains(&value) {
                let allowed: Vec<String> =
                    self.held[number].allowed.iter().map(ToString::to_string).collect();
                return Err(Wrong(format!(
                    "sector {number} gives {value} instead of {} or an error",
                    allowed.join(" or ")
                )));
            }
        }
        Ok(())
    }

    /// Reads the volume at once, and sector by sector: a bad sector must hide nothing else.
    fn read_all(&mut self) -> Result<(), Wrong> {
        self.read(0..self.held.len())?;
        (0..self.held.len()).try_for_each(|sector| self.read(sector..sector + 1))
    }

    /// Drains the layers as closing a volume does: a flush fails if something could not be written
    /// back.
    fn drain(&mut self) -> Result<(), Wrong> {
        self.write_back()?;
        self.flush()?;
        self.write_back()
    }

    fn write_back(&mut self) -> Result<(), Wrong> {
        let mut driver = Driver::new(&mut self.device, &mut self.stack);
        driver.drain(&mut || true).map_err(|error| Wrong(error.to_string()))?;
        if let Some(layer) = self.stack.layers().iter().find(|layer| !layer.is_idle()) {
            return Err(Wrong(format!("`{}` is drained and not idle", layer.name())));
        }
        Ok(())
    }

    /// Flushes, then writes some of the last sectors, each with a flush: all others are durable
    /// then, and known to be so on the device.
    fn write_last(&mut self, dice: &mut Dice) -> Result<(), Wrong> {
        self.flush()?;
        for _ in 0..ROUNDS {
            let sector = self.held.len() - 1 - dice.below(LAST.min(self.held.len()));
            self.write(sector..sector + 1)?;
            self.flush()?;
        }
        Ok(())
    }

    /// Changes a byte where that can be distinguished from what a power cut leaves.
    fn change_after_kill(&mut self, dice: &mut Dice) {
        let Some(bottom) = self.stack.layers().last() else { return };
        let is_checked = has_homes_checked(&self.subject.to_string());
        match (bottom.name(), is_checked) {
            ("checksums", _) => self.change_from(bottom.limits().capacity_bytes as usize, dice),
            (_, true) => {}
            (_, false) => self.change(dice),
        }
    }

    /// Changes one byte, wherever there are checksums.
    fn change(&mut self, dice: &mut Dice) {
        let text = self.subject.to_string();
        let from = if text.contains("log_volume") || has_homes_checked(&text) {
            0
        } else {
            let bottom = self.stack.layers().iter().rev().find(|one| one.name() == "stable_buffer");
            bottom.map_or(0, |bottom| bottom.limits().capacity_bytes as usize)
        };
        self.change_from(from, dice);
    }

    /// Changes one byte of a sector that is not empty, from byte `from` on.
    fn change_from(&mut self, from: usize, dice: &mut Dice) {
        let size = self.size();
        let sectors: Vec<usize> = (from / size..self.device.bytes.len() / size)
            .filter(|sector| {
                self.device.bytes[sector * size..(sector + 1) * size].iter().any(|&byte| byte != 0)
            })
            .collect();
        if sectors.is_empty() {
            return;
        }
        let at = dice.pick(&sectors) * size + dice.below(size);
        self.device.bytes[at] ^= 1 + dice.below(255) as u8;
        self.is_changed = true;
        self.tally.flips += 1;
    }

    /// Drops the stack as it is, and opens it again; returns false if it is refused.
    fn open_again(&mut self, judge: Judge) -> Result<bool, Wrong> {
        let opened = self.subject.open(self.seed, &mut self.device);
        self.stack = match opened {
            Ok(stack) => stack,
            Err(_) if self.is_changed => {
                self.tally.refused += 1;
                return Ok(false);
            }
            Err(error) => return Err(Wrong(format!("cannot be opened: {error}"))),
        };
        self.is_poisoned = false;
        let last = self.held.len() - LAST.min(self.held.len());
        for (number, held) in self.held.iter_mut().enumerate() {
            if judge == Judge::Any || judge == Judge::ButTheLast && number >= last {
                held.allowed.clone_from(&held.before);
            }
        }
        self.read_all()?;
        Ok(true)
    }
}
