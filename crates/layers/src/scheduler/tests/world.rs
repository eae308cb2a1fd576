//! A scheduler between a host and a device that both act at random, and a model of what each sector
//! may hold.

use block::Immediate;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use registry::Spec;
use units::IoOp;

use crate::scheduler::ENTRY;
use crate::{Actions, Command, Data, Facts, Failure, Layer, Limits, Making, Reply, Signal, Store};

pub const SECTOR: u32 = 16;
pub const LIMITS: Limits =
    Limits { capacity_bytes: 64 * SECTOR as u64, sector_bytes: SECTOR, most_bytes: 16 * SECTOR };

/// Makes a scheduler with these parameters.
pub fn made(text: &str, limits: Limits) -> Box<dyn Layer> {
    let args = ENTRY.info.accept(&Spec::parse(text).unwrap()).unwrap();
    (ENTRY.open)(
        &Making { args: &args, facts: &Facts::default(), seed: 0 },
        &mut Store::new(&mut Immediate::sparse(limits)),
    )
    .unwrap()
}

/// Gives the bytes of a write: in each sector its tag, and its place.
pub fn bytes(tag: u64, start: u64, sectors: u64) -> Vec<u8> {
    (start..start + sectors)
        .flat_map(|sector| [tag.to_le_bytes(), sector.to_le_bytes()].concat())
        .collect()
}

/// Gives the tags in bytes that were read; 0 where nothing was written.
pub fn tags(bytes: &[u8], start: u64) -> Vec<u64> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let tag = |(place, sector): (usize, &[u8])| {
        let tag = number(&sector[..8]);
        assert!(
            tag == 0 || number(&sector[8..]) == start + place as u64,
            "a sector that belongs elsewhere"
        );
        tag
    };
    bytes.chunks(SECTOR as usize).enumerate().map(tag).collect()
}

/// Content of a sector: the durable one, and later writes with their times.
#[derive(Clone, Debug, Default)]
struct Cell {
    durable: u64,
    since: Vec<(u64, u64)>,
}

/// A device with a volatile cache. Commands take effect when they are replied to, in any order.
pub struct Device {
    cells: Vec<Cell>,
    pub outstanding: Vec<(Command, u64)>,
    time: u64,
    random: Pcg64Mcg,
    cuts: Pcg64Mcg,
    /// Number of replies until one is a failure.
    pub fails_in: Option<u32>,
    /// Commands that came: operation, offset, length, FUA.
    pub seen: Vec<(IoOp, u64, u32, bool)>,
}

impl Device {
    pub fn take(&mut self, command: Command) {
        self.seen.push((command.op, command.offset, command.length, command.is_fua));
        self.outstanding.push((command, self.time));
    }

    /// Replies to any command, except where it fails: then to a write or flush if there is one.
    fn reply(&mut self) -> Option<Reply> {
        if self.outstanding.is_empty() {
            return None;
        }
        self.time += 1;
        let (command, submitted) =
            self.outstanding.swap_remove(self.random.random_range(0..self.outstanding.len()));
        self.fails_in = self.fails_in.map(|left| left.saturating_sub(1));
        let fails = self.fails_in == Some(0);
        self.fails_in = self.fails_in.filter(|left| *left > 0);
        let outcome = if !fails || self.random.random() {
            self.carry_out(&command, submitted, !fails)
        } else {
            Data::Absent
        };
        let (op, offset, length) = (command.op, command.offset, command.length);
        let outcome = if fails {
            Err(Failure::Io { op, offset, length, reason: "planned".into() })
        } else {
            Ok(outcome)
        };
        Some(Reply { id: command.id, outcome })
    }

    fn carry_out(&mut self, command: &Command, submitted: u64, is_whole: bool) -> Data {
        let start = command.offset / u64::from(SECTOR);
        let range = start as usize..(command.end() / u64::from(SECTOR)) as usize;
        match command.op {
            IoOp::Read => {
                let held = self.cells[range].iter().enumerate().flat_map(|(place, cell)| {
                    let tag = cell.since.last().map_or(cell.durable, |(tag, _)| *tag);
                    bytes(tag, start + place as u64, 1)
                });
                return Data::Whole(held.collect::<Vec<u8>>().into());
            }
            IoOp::Write => {
                let written =
                    command.data.joined().map_or(vec![0; range.len()], |bytes| tags(&bytes, start));
                for (cell, tag) in self.cells[range].iter_mut().zip(written) {
                    cell.since.push((tag, self.time));
                    if command.is_fua && is_whole {
                        *cell = Cell { durable: tag, since: Vec::new() };
                    }
                }
            }
            IoOp::Trim => {
                for cell in &mut self.cells[range] {
                    if self.random.random() {
                        cell.since.push((0, self.time));
                    }
                }
            }
            IoOp::Flush if is_whole => {
                for cell in &mut self.cells {
                    while cell.since.first().is_some_and(|(_, written)| *written <= submitted) {
                        cell.durable = cell.since.remove(0).0;
                    }
                }
            }
            // A flush that failed loses its writes for good.
            IoOp::Flush => self.cells.iter_mut().for_each(|cell| cell.since.clear()),
        }
        Data::Absent
    }

    /// Draws the content that is left of a sector after a cut.
    fn survivor(&mut self, sector: u64) -> u64 {
        let cell = &self.cells[sector as usize];
        let mut candidates: Vec<u64> =
            std::iter::once(cell.durable).chain(cell.since.iter().map(|(tag, _)| *tag)).collect();
        for (command, _) in &self.outstanding {
            let first = command.offset / u64::from(SECTOR);
            if command.op == IoOp::Write
                && (first..command.end() / u64::from(SECTOR)).contains(&sector)
            {
                let bytes = command.data.joined().unwrap_or_default();
                candidates.push(tags(&bytes, first)[(sector - first) as usize]);
            }
        }
        candidates[self.cuts.random_range(0..candidates.len())]
    }
}

/// A write or trim of the host: each sector has its own list of them.
#[derive(Clone, Copy, Debug)]
struct Written {
    tag: u64,
    is_trim: bool,
    submitted: u64,
    replied: Option<u64>,
    durable: Option<u64>,
}

impl Written {
    /// Returns true if all of it came after all of another.
    fn is_after(&self, other: &Self) -> bool {
        other.replied.is_some_and(|replied| replied < self.submitted)
    }
}

/// A command of the host that has no reply.
#[derive(Clone, Debug)]
struct Asked {
    command: Command,
    tag: u64,
    submitted: u64,
}

pub struct World {
    pub layer: Box<dyn Layer>,
    pub device: Device,
    sectors: Vec<Vec<Written>>,
    asked: Vec<Asked>,
    time: u64,
    random: Pcg64Mcg,
    has_data: bool,
    pub is_poisoned: bool,
    pub failures: u32,
}

impl World {
    pub fn new(text: &str, seed: u64, has_data: bool) -> Self {
        let first =
            Written { tag: 0, is_trim: false, submitted: 0, replied: Some(0), durable: Some(0) };
        let count = (LIMITS.capacity_bytes / u64::from(SECTOR)) as usize;
        Self {
            layer: made(text, LIMITS),
            device: Device {
                cells: vec![Cell::default(); count],
                outstanding: Vec::new(),
                time: 0,
                random: Pcg64Mcg::seed_from_u64(seed ^ 0xD0),
                cuts: Pcg64Mcg::seed_from_u64(seed ^ 0xC0),
                fails_in: None,
                seen: Vec::new(),
            },
            sectors: vec![vec![first]; count],
            asked: Vec::new(),
            time: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
            has_data,
            is_poisoned: false,
            failures: 0,
        }
    }

    /// Lets one random event happen.
    pub fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..50 if self.asked.len() < 12 => self.ask(),
            50..53 => self.signal(Signal::CheckpointEnds),
            53..54 => self.signal(Signal::CheckpointBegins),
            54..55 => self.signal(Signal::Drain),
            _ => self.answer(),
        }
        if self.random.random_range(0..4) == 0 && self.has_data {
            self.cut();
        }
    }

    fn signal(&mut self, signal: Signal) {
        let mut actions = Actions::default();
        self.layer.signal(signal, self.time, &mut actions);
        self.carry_on(actions);
    }

    fn ask(&mut self) {
        let start = self.random.random_range(0..60_u64);
        let sectors = self.random.random_range(1..=(64 - start).min(14));
        let (op, is_fua) = match self.random.random_range(0..100) {
            0..30 => (IoOp::Read, false),
            30..75 => (IoOp::Write, false),
            75..85 => (IoOp::Write, true),
            85..90 => (IoOp::Trim, false),
            _ => (IoOp::Flush, false),
        };
        self.submit(op, start, sectors, is_fua);
    }

    pub fn submit(&mut self, op: IoOp, start: u64, sectors: u64, is_fua: bool) -> u32 {
        self.time += 1;
        let tag = self.time;
        let (start, sectors) = if op == IoOp::Flush { (0, 0) } else { (start, sectors) };
        let data = if op == IoOp::Write && self.has_data {
            Data::copy_of(&bytes(tag, start, sectors))
        } else {
            Data::Absent
        };
        let (offset, length) = (start * u64::from(SECTOR), sectors as u32 * SECTOR);
        let command = Command { is_fua, data, ..Command::new(tag as u32, op, offset, length) };
        if matches!(op, IoOp::Write | IoOp::Trim) {
            let written = Written {
                tag,
                is_trim: op == IoOp::Trim,
                submitted: self.time,
                replied: None,
                durable: None,
            };
            self.sectors[start as usize..(start + sectors) as usize]
                .iter_mut()
                .for_each(|list| list.push(written));
        }
        self.asked.push(Asked { command: command.clone(), tag, submitted: self.time });
        let mut actions = Actions::default();
        self.layer.submit(command, self.time, &mut actions);
        self.carry_on(actions);
        tag as u32
    }

    /// Lets the device reply to a command.
    pub fn answer(&mut self) {
        if let Some(reply) = self.device.reply() {
            self.time += 1;
            let mut actions = Actions::default();
            self.layer.replied(reply, self.time, &mut actions);
            self.carry_on(actions);
        }
    }

    fn carry_on(&mut self, actions: Actions) {
        actions.down.into_iter().for_each(|command| {
            command.check(LIMITS);
            self.device.take(command);
        });
        for Reply { id, outcome } in actions.up {
            self.time += 1;
            let place = self
                .asked
                .iter()
                .position(|asked| asked.command.id == id)
                .expect("a reply to a command that waits for one");
            let asked = self.asked.swap_remove(place);
            match outcome {
                Ok(data) => {
                    assert!(
                        !self.is_poisoned
                            || asked.command.op != IoOp::Write
                            || asked.command.is_fua,
                        "nothing is taken any more"
                    );
                    self.ended(&asked, &data);
                }
                Err(failure) => {
                    self.failures += 1;
                    self.is_poisoned |= matches!(failure, Failure::Poisoned { .. });
                }
            }
        }
    }

    fn ended(&mut self, asked: &Asked, data: &Data) {
        let Command { op, offset, is_fua, .. } = asked.command;
        let first = offset / u64::from(SECTOR);
        let range = first as usize..(asked.command.end() / u64::from(SECTOR)) as usize;
        match op {
            IoOp::Read if self.has_data => {
                for (place, tag) in tags(&data.joined().unwrap(), first).into_iter().enumerate() {
                    let sector = first as usize + place;
                    let is_past = |other: &Written| {
                        other.replied.is_some_and(|replied| replied < asked.submitted)
                    };
                    let list = &self.sectors[sector];
                    assert!(
                        may_hold(list, tag, is_past),
                        "sector {sector} was read as {tag} between {} and now: {list:?}",
                        asked.submitted
                    );
                }
            }
            IoOp::Read => (),
            IoOp::Write | IoOp::Trim => {
                for list in &mut self.sectors[range] {
                    let own = list.iter_mut().find(|written| written.tag == asked.tag).unwrap();
                    own.replied = Some(self.time);
                    own.durable = is_fua.then_some(self.time);
                }
            }
            IoOp::Flush => {
                for written in self.sectors.iter_mut().flatten() {
                    if written.replied.is_some_and(|replied| replied < asked.submitted) {
                        written.durable = written.durable.or(Some(self.time));
                    }
                }
            }
        }
    }

    /// Checks what a power cut could leave now.
    pub fn cut(&mut self) {
        for sector in 0..self.sectors.len() {
            let tag = self.device.survivor(sector as u64);
            let list = &self.sectors[sector];
            assert!(
                may_hold(list, tag, |other| other.durable.is_some()),
                "a cut at {} left {tag} in sector {sector}: {list:?}",
                self.time
            );
        }
    }

    /// Goes on until nothing is under way any more.
    pub fn end(&mut self) {
        self.signal(Signal::Drain);
        while !self.device.outstanding.is_empty() {
            self.answer();
        }
        assert!(self.asked.is_empty(), "never replied to: {:?}", self.asked);
        assert!(self.layer.is_idle(), "something is held after a drain");
    }
}

/// Returns true if a sector may hold a tag: that of a write that no later one that counts came
/// wholly after; or one from before a trim that is not followed by such a write.
fn may_hold(list: &[Written], tag: u64, counts: impl Fn(&Written) -> bool) -> bool {
    let is_last = |written: &Written| {
        !list.iter().any(|other| !other.is_trim && counts(other) && other.is_after(written))
    };
    let is_own = |written: &&Written| !written.is_trim && written.tag == tag;
    // A write that was trimmed before it was durable has hidden nothing for good.
    let is_settled = |other: &Written, trim: &Written| {
        let durable =
            other.durable.filter(|durable| trim.replied.is_some_and(|replied| *durable < replied));
        let trims =
            list.iter().filter(|between| between.is_trim && between.submitted > other.submitted);
        durable.is_some_and(|durable| !trims.clone().any(|between| between.submitted < durable))
    };
    let is_before = |trim: &Written, written: &Written| {
        !list
            .iter()
            .any(|other| !other.is_trim && other.is_after(written) && is_settled(other, trim))
    };
    list.iter().filter(is_own).any(is_last)
        || list.iter().filter(|trim| trim.is_trim && is_last(trim)).any(|trim| {
            tag == 0 || list.iter().filter(is_own).any(|written| is_before(trim, written))
        })
}
