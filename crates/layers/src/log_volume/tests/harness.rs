//! A device that delays, reorders, forgets and tears, and an oracle of what may be read.

use std::collections::{HashMap, HashSet};

use block::{Immediate, Serve};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{IoOp, Lifetime};

use crate::driver::through;
use crate::{Actions, Command, Data, Facts, Failure, Limits, Reply, Signal, Stack};

pub(super) const SECTOR: u64 = 512;

/// Memory that may stop taking writes.
#[derive(Clone)]
pub(super) struct Memory {
    pub limits: Limits,
    pub bytes: Vec<u8>,
    /// Number of writes that it still takes.
    pub writes_left: u64,
    /// Bytes of which reads fail.
    pub unreadable: std::ops::Range<usize>,
    /// Places that were read, if the first read of each place shall give a wrong byte; else none.
    pub misreads: Option<HashSet<u64>>,
    /// Places that give zeros at each read but the first, until they are written, as trimmed ones
    /// may; true for those that were read.
    pub fading: HashMap<u64, bool>,
}

pub(super) type Disk = Immediate<Memory>;

/// Makes a disk of zeros.
pub(super) fn disk(capacity_bytes: u64) -> Disk {
    let limits = Limits { capacity_bytes, sector_bytes: SECTOR as u32, most_bytes: 16 << 10 };
    Immediate::new(Memory {
        limits,
        bytes: vec![0; capacity_bytes as usize],
        writes_left: u64::MAX,
        unreadable: 0..0,
        misreads: None,
        fading: HashMap::new(),
    })
}

impl Serve for Memory {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let range = command.offset as usize..command.end() as usize;
        match command.op {
            IoOp::Read
                if range.start < self.unreadable.end && range.end > self.unreadable.start =>
            {
                return Err(command.failed("unreadable"));
            }
            IoOp::Read => {
                let mut bytes = self.bytes[range].to_vec();
                if self.misreads.as_mut().is_some_and(|seen| seen.insert(command.offset)) {
                    bytes[33] ^= 4;
                }
                if let Some(was_read) = self.fading.get_mut(&command.offset)
                    && std::mem::replace(was_read, true)
                {
                    bytes.fill(0);
                }
                return Ok(Data::Whole(bytes.into()));
            }
            IoOp::Write if self.writes_left == 0 => return Err(command.failed("the power is cut")),
            IoOp::Write => {
                self.writes_left -= 1;
                command.data.copy_to(&mut self.bytes[range]);
                self.fading.remove(&command.offset);
            }
            IoOp::Trim | IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

struct Cached {
    command: Command,
    replied_at: u64,
}

/// A version that a sector may hold.
#[derive(Clone, Copy, Debug)]
struct Version {
    tag: u64,
    submitted: u64,
    acknowledged: u64,
    /// True for a trim's version: it may show, and never has to.
    is_weak: bool,
    /// True if a later version is durable: after a power cut this one does not show any more. A
    /// read that came before may still show it.
    is_over: bool,
}

impl Version {
    fn first(tag: u64) -> Self {
        Self { tag, submitted: 0, acknowledged: 0, is_weak: false, is_over: false }
    }
}

/// Versions that a sector may hold.
#[derive(Clone, Debug)]
struct Sector(Vec<Version>);

impl Sector {
    /// Returns true if `version` is covered by one that was acknowledged before `time`.
    fn is_covered(&self, version: Version, time: u64) -> bool {
        self.0.iter().any(|later| {
            !later.is_weak && later.submitted > version.acknowledged && later.acknowledged < time
        })
    }

    fn may_show(&self, tag: u64, time: u64) -> bool {
        self.0.iter().any(|&version| version.tag == tag && !self.is_covered(version, time))
    }

    /// Makes versions durable that were acknowledged before `time`.
    fn made_durable(&mut self, time: u64) {
        for number in 0..self.0.len() {
            self.0[number].is_over |= self.is_covered(self.0[number], time);
        }
    }

    fn forget_what_is_over(&mut self) {
        self.0.retain(|version| !version.is_over);
    }

    fn may_be_recovered(&self, tag: u64) -> bool {
        self.0.iter().any(|version| version.tag == tag && !version.is_over)
    }
}

/// A host, layers and a device, one step after the other.
pub(super) struct World {
    pub stack: Stack,
    pub text: String,
    stable: Vec<u8>,
    current: Vec<u8>,
    limits: Limits,
    cached: Vec<Cached>,
    below: Vec<(Command, u64)>,
    outstanding: HashMap<u32, (Command, u64)>,
    sectors: Vec<Sector>,
    pub random: Pcg64Mcg,
    pub time: u64,
    next_id: u32,
    next_tag: u64,
    /// Kind of command, and the number of the command from now on that fails.
    pub fails_after: Option<(IoOp, u64)>,
    /// Places of which the first read has failed, if each shall fail once; else none.
    pub fails_first_reads: Option<HashSet<u64>>,
    pub sent: Vec<(IoOp, u64, u32)>,
    pub has_failed: bool,
    has_slow_reads: bool,
}

fn open(text: &str, disk: &mut Disk) -> Stack {
    crate::open(text, &Facts::default(), 1, disk).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl World {
    pub fn new(text: &str, capacity_bytes: u64, seed: u64) -> Self {
        let mut disk = disk(capacity_bytes);
        crate::format(text, &Facts::default(), seed, &mut disk)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let stack = open(text, &mut disk);
        let sectors = (stack.limits().capacity_bytes / SECTOR) as usize;
        let empty = Sector(vec![Version::first(0)]);
        Self {
            stack,
            text: text.to_owned(),
            stable: disk.bytes.clone(),
            current: disk.bytes.clone(),
            limits: disk.limits,
            cached: Vec::new(),
            below: Vec::new(),
            outstanding: HashMap::new(),
            sectors: vec![empty; sectors],
            random: Pcg64Mcg::seed_from_u64(seed),
            time: 1,
            next_id: 0,
            next_tag: 1,
            fails_after: None,
            fails_first_reads: None,
            sent: Vec::new(),
            has_failed: false,
            has_slow_reads: false,
        }
    }

    pub fn capacity(&self) -> u64 {
        self.stack.limits().capacity_bytes
    }

    pub fn waiting(&self) -> usize {
        self.outstanding.len()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut counts = Vec::new();
        self.stack.layers()[0].count(&mut counts);
        counts[super::super::counts::COUNTERS
            .iter()
            .position(|counter| counter.name == name)
            .expect("a counter")]
    }

    fn bytes_of(tag: u64, sectors: u64) -> Data {
        let mut bytes = vec![0; (sectors * SECTOR) as usize];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&tag.to_le_bytes()));
        Data::Whole(bytes.into())
    }

    pub fn submit(&mut self, op: IoOp, offset: u64, length: u64, is_fua: bool) {
        self.time += 1;
        let id = self.next_id;
        self.next_id += 1;
        let mut data = Data::Absent;
        let sectors = (offset / SECTOR) as usize..((offset + length) / SECTOR) as usize;
        if op == IoOp::Write || op == IoOp::Trim {
            let tag = if op == IoOp::Write { self.next_tag } else { 0 };
            if op == IoOp::Write {
                self.next_tag += 1;
                data = Self::bytes_of(tag, length / SECTOR);
            }
            let version = Version {
                tag,
                submitted: self.time,
                acknowledged: u64::MAX,
                is_weak: op == IoOp::Trim,
                is_over: false,
            };
            self.sectors[sectors].iter_mut().for_each(|sector| sector.0.push(version));
        }
        let lifetime = Lifetime::ALL[id as usize % 5];
        let command =
            Command { is_fua, lifetime, data, ..Command::new(id, op, offset, length as u32) };
        self.outstanding.insert(id, (command.clone(), self.time));
        let mut actions = Actions::default();
        self.stack.submit(command, self.time, &mut actions);
        self.take(actions);
    }

    pub fn signal(&mut self, signal: Signal) {
        let mut actions = Actions::default();
        self.stack.signal(signal, self.time, &mut actions);
        self.take(actions);
    }

    fn take(&mut self, actions: Actions) {
        for command in actions.down {
            command.check(self.limits);
            self.time += 1;
            self.sent.push((command.op, command.offset, command.length));
            self.below.push((command, self.time));
        }
        for reply in actions.up {
            self.host_reply(reply);
        }
    }

    fn host_reply(&mut self, reply: Reply) {
        self.time += 1;
        let (command, submitted) =
            self.outstanding.remove(&reply.id).expect("each command is replied to once");
        let sectors = (command.offset / SECTOR) as usize..(command.end() / SECTOR) as usize;
        if let Err(failure) = reply.outcome {
            assert!(self.fails_after.is_some(), "{failure}");
            self.has_failed = true;
            return;
        }
        match command.op {
            IoOp::Read => {
                let bytes = reply.outcome.unwrap().joined().unwrap();
                for (place, sector) in sectors.enumerate() {
                    self.check(
                        sector,
                        &bytes[place * SECTOR as usize..(place + 1) * SECTOR as usize],
                        submitted,
                    );
                }
            }
            IoOp::Write | IoOp::Trim => {
                let (now, is_fua) = (self.time, command.is_fua);
                for sector in &mut self.sectors[sectors] {
                    sector
                        .0
                        .iter_mut()
                        .filter(|version| version.submitted == submitted)
                        .for_each(|version| version.acknowledged = now);
                    if is_fua {
                        // Only this write is known to be durable, and it covers what was
                        // acknowledged before it came.
                        let over =
                            sector.0.iter_mut().filter(|version| version.acknowledged < submitted);
                        over.for_each(|version| version.is_over = true);
                    }
                }
            }
            IoOp::Flush => {
                self.sectors.iter_mut().for_each(|sector| sector.made_durable(submitted));
            }
        }
        if !self.outstanding.values().any(|(command, _)| command.op == IoOp::Read) {
            self.sectors.iter_mut().for_each(Sector::forget_what_is_over);
        }
    }

    fn check(&self, sector: usize, bytes: &[u8], time: u64) {
        let tag = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(
            bytes.chunks(8).all(|chunk| chunk == &bytes[..8]),
            "{}: sector {sector} is torn",
            self.text
        );
        let versions = &self.sectors[sector];
        assert!(
            versions.may_show(tag, time),
            "{}: a read of sector {sector} shows {tag} at {time}, of {versions:?}",
            self.text
        );
    }

    /// Lets time pass until the layers want to be woken, if they do, and wakes them.
    pub fn wake(&mut self) -> bool {
        let Some(at) = self.stack.wakes_at() else { return false };
        self.time = self.time.max(at);
        let mut actions = Actions::default();
        self.stack.wake(self.time, &mut actions);
        self.take(actions);
        true
    }

    /// Carries out one command below, and replies to it.
    pub fn step(&mut self) -> bool {
        if self.below.is_empty() {
            return false;
        }
        let mut chosen = self.random.random_range(0..self.below.len());
        let others = self.below.iter().position(|(command, _)| command.op != IoOp::Read);
        if self.has_slow_reads
            && let Some(other) = others
            && self.random.random_bool(0.99)
        {
            while self.below[chosen].0.op == IoOp::Read {
                chosen = if self.random.random_bool(0.1) {
                    other
                } else {
                    self.random.random_range(0..self.below.len())
                };
            }
        }
        self.carry_out(chosen);
        true
    }

    /// Carries out the first command below for which that holds, and replies to it. Returns true if
    /// there is one.
    pub fn step_if(&mut self, holds: impl Fn(&Command) -> bool) -> bool {
        let chosen = self.below.iter().position(|(command, _)| holds(command));
        chosen.is_some_and(|chosen| {
            self.carry_out(chosen);
            true
        })
    }

    fn carry_out(&mut self, chosen: usize) {
        let (command, sent) = self.below.swap_remove(chosen);
        self.time += 1;
        let (op, offset, length) = (command.op, command.offset, command.length);
        if let Some((failing, left)) = &mut self.fails_after
            && *failing == op
        {
            if *left == 0 {
                self.reply_below(Reply {
                    id: command.id,
                    outcome: Err(Failure::Io { op, offset, length, reason: "planted".into() }),
                });
                return;
            }
            *left -= 1;
        }
        if op == IoOp::Read
            && self.fails_first_reads.as_mut().is_some_and(|failed| failed.insert(offset))
        {
            self.reply_below(Reply {
                id: command.id,
                outcome: Err(Failure::Io { op, offset, length, reason: "planted".into() }),
            });
            return;
        }
        let bytes = offset as usize..command.end() as usize;
        let id = command.id;
        let mut data = Data::Absent;
        match op {
            IoOp::Read => data = Data::copy_of(&self.current[bytes]),
            IoOp::Write => {
                command.data.copy_to(&mut self.current[bytes]);
                self.cached.push(Cached { command, replied_at: self.time });
            }
            // The worst effect that a trim may have.
            IoOp::Trim => {
                self.stable[bytes.clone()].fill(0);
                self.current[bytes].fill(0);
            }
            IoOp::Flush => {
                let stable = &mut self.stable;
                self.cached.retain(|cached| {
                    let is_covered = cached.replied_at < sent;
                    if is_covered {
                        cached.command.data.copy_to(
                            &mut stable
                                [cached.command.offset as usize..cached.command.end() as usize],
                        );
                    }
                    !is_covered
                });
            }
        }
        self.reply_below(Reply { id, outcome: Ok(data) });
    }

    fn reply_below(&mut self, reply: Reply) {
        let mut actions = Actions::default();
        self.stack.replied(reply, self.time, &mut actions);
        self.take(actions);
    }

    /// Carries out all commands under way except flushes.
    pub fn write_all(&mut self) -> Disk {
        while self.below.iter().any(|(command, _)| command.op != IoOp::Flush) {
            self.below.sort_by_key(|(command, sent)| (command.op == IoOp::Flush, *sent));
            let flushes = self.below.split_off(
                self.below
                    .iter()
                    .position(|(command, _)| command.op == IoOp::Flush)
                    .unwrap_or(self.below.len()),
            );
            self.step();
            self.below.extend(flushes);
        }
        Immediate::new(Memory {
            limits: self.limits,
            bytes: self.current.clone(),
            writes_left: u64::MAX,
            unreadable: 0..0,
            misreads: None,
            fading: HashMap::new(),
        })
    }

    /// Carries out all commands under way.
    pub fn settle(&mut self) {
        while self.step() {}
        assert!(
            self.outstanding.is_empty(),
            "{}: {} commands are never replied to",
            self.text,
            self.outstanding.len()
        );
    }

    /// Gives the device after a power cut: all that was flushed, and any sectors of any other
    /// writes in any order.
    fn after_cut(&mut self) -> Disk {
        let mut disk = Immediate::new(Memory {
            limits: self.limits,
            bytes: self.stable.clone(),
            writes_left: u64::MAX,
            unreadable: 0..0,
            misreads: None,
            fading: HashMap::new(),
        });
        let mut writes: Vec<Command> = self.cached.drain(..).map(|cached| cached.command).collect();
        writes.extend(
            self.below
                .drain(..)
                .map(|(command, _)| command)
                .filter(|command| command.op == IoOp::Write),
        );
        let how = self.random.random_range(0..4);
        while !writes.is_empty() {
            let command = writes.swap_remove(self.random.random_range(0..writes.len()));
            let bytes = command.data.joined().unwrap();
            for (place, sector) in bytes.chunks(SECTOR as usize).enumerate() {
                let survives = match how {
                    0 => false,
                    1 => true,
                    2 => self.random.random_bool(0.9),
                    _ => self.random.random_bool(0.5),
                };
                if survives {
                    let at = command.offset as usize + place * SECTOR as usize;
                    disk.bytes[at..at + SECTOR as usize].copy_from_slice(sector);
                }
            }
        }
        disk
    }

    /// Cuts the power, opens the stack again, now and then after cuts while it opens, and checks
    /// all that it holds.
    pub fn cut(&mut self) {
        let mut disk = self.after_cut();
        let mut whole = disk.clone();
        let mut expected = open(&self.text, &mut whole);
        let expected = read_all(&mut expected, &mut whole);
        for _ in 0..self.random.random_range(0..3) {
            disk.writes_left = self.random.random_range(0..4);
            let _ = crate::open(&self.text, &Facts::default(), 1, &mut disk);
        }
        disk.writes_left = u64::MAX;
        self.stack = open(&self.text, &mut disk);
        self.outstanding.clear();
        // The writes of the volume itself meanwhile are on the disk, too.
        let found = read_all(&mut self.stack, &mut disk);
        self.stable.clone_from(&disk.bytes);
        self.current.clone_from(&disk.bytes);
        assert!(found == expected, "{}: recovery that was cut finds something else", self.text);
        for (number, bytes) in found.chunks(SECTOR as usize).enumerate() {
            let tag = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(
                bytes.chunks(8).all(|chunk| chunk == &bytes[..8]),
                "{}: sector {number} is torn",
                self.text
            );
            let versions = &self.sectors[number];
            assert!(
                versions.may_be_recovered(tag),
                "{}: recovery finds {tag} in sector {number}, of {versions:?}",
                self.text
            );
            self.sectors[number] = Sector(vec![Version::first(tag)]);
        }
    }

    /// Writes every page once, and flushes.
    pub fn fill(&mut self) {
        for start in (0..self.capacity()).step_by(8 << 10) {
            self.submit(IoOp::Write, start, (self.capacity() - start).min(8 << 10), false);
        }
        self.submit(IoOp::Flush, 0, 0, false);
        self.settle();
    }

    /// Does one random command or step.
    pub fn play(&mut self, mix: Mix) {
        self.has_slow_reads = mix.has_slow_reads;
        let capacity = self.capacity() / SECTOR;
        let roll = self.random.random_range(0..1000);
        if roll < 500 || self.outstanding.len() > 12 {
            if !self.step() && self.outstanding.is_empty() {
                self.write_somewhere(mix, capacity);
            }
        } else if roll < 800 {
            self.write_somewhere(mix, capacity);
        } else if roll < 900 {
            let length = self.random.random_range(1..=16).min(capacity);
            let start = self.random.random_range(0..=capacity - length);
            self.submit(IoOp::Read, start * SECTOR, length * SECTOR, false);
        } else if roll < 900 + mix.flushes {
            self.submit(IoOp::Flush, 0, 0, false);
        } else if roll < 900 + mix.flushes + mix.trims {
            let length = self.random.random_range(1..=24).min(capacity);
            let start = self.random.random_range(0..=capacity - length);
            self.submit(IoOp::Trim, start * SECTOR, length * SECTOR, false);
        } else if roll < 977 {
            self.signal(Signal::Drain);
        } else {
            self.step();
        }
    }

    fn write_somewhere(&mut self, mix: Mix, capacity: u64) {
        let length = if self.random.random_bool(0.1) {
            self.random.random_range(1..=32)
        } else {
            self.random.random_range(1..=mix.sectors)
        };
        let length = length.min(capacity);
        // Most writes go to a tenth of the volume.
        let hot = if mix.hot_sectors > 0 { mix.hot_sectors } else { capacity / 10 };
        let places = if self.random.random_bool(0.7) {
            hot.min(capacity - length)
        } else {
            capacity - length
        };
        let mut start = self.random.random_range(0..=places);
        if self.random.random_bool(0.5) {
            start -= start % mix.sectors;
        }
        let is_fua = self.random.random_range(0..1000) < mix.fuas;
        self.submit(IoOp::Write, start * SECTOR, length * SECTOR, is_fua);
    }
}

/// Mix of a random host's commands.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    pub sectors: u64,
    /// Flushes of a thousand commands, at most 75.
    pub flushes: u64,
    /// Writes with FUA of a thousand writes.
    pub fuas: u64,
    /// Trims of a thousand commands, at most 75 with flushes.
    pub trims: u64,
    /// Sectors at the beginning to which seven of ten writes go; 0 for a tenth of all.
    pub hot_sectors: u64,
    /// True if reads are carried out after most commands that were sent later.
    pub has_slow_reads: bool,
}

fn read_all(stack: &mut Stack, disk: &mut Disk) -> Vec<u8> {
    let mut all = vec![0; stack.limits().capacity_bytes as usize];
    through(stack, disk, |store| store.read(0, &mut all)).unwrap();
    all
}
