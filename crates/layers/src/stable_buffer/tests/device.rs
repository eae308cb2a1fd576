//! A device whose power can be cut, and an oracle of what may be read from it, for tests.

use block::Serve;
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use units::IoOp;

use crate::{Command, Data, Failure, Limits, Reply};

pub const SECTOR: usize = 512;

/// Content of a sector: its first bytes, as the rest follows from them or is zero.
type Content = Box<[u8]>;

/// A write that was sent and that no flush covers.
#[derive(Clone)]
struct Unflushed {
    number: u64,
    sectors: Vec<(u64, Content)>,
    was_replied_to: bool,
}

/// Memory behind a volatile cache: replies come in any order; a power cut takes, tears and reorders
/// writes that were not flushed.
#[derive(Clone)]
pub struct Device {
    pub limits: Limits,
    durable: FxHashMap<u64, Content>,
    cache: FxHashMap<u64, Content>,
    unflushed: Vec<Unflushed>,
    sent: Vec<(Command, u64)>,
    numbers: u64,
    pub random: Pcg64Mcg,
    /// Number of the command, counted from now on, that fails.
    pub fails_at: Option<u64>,
}

fn zeros() -> Content {
    vec![0; SECTOR].into()
}

impl Device {
    pub fn new(limits: Limits, random: Pcg64Mcg) -> Self {
        let (durable, cache) = (FxHashMap::default(), FxHashMap::default());
        Self {
            limits,
            durable,
            cache,
            unflushed: Vec::new(),
            sent: Vec::new(),
            numbers: 0,
            random,
            fails_at: None,
        }
    }

    pub fn take(&mut self, command: Command) {
        command.check(self.limits);
        self.numbers += 1;
        let first = command.offset / SECTOR as u64;
        let sectors: Vec<(u64, Content)> = match command.op {
            IoOp::Write => {
                let bytes = command.data.joined().expect("writes here carry data");
                bytes
                    .chunks(SECTOR)
                    .enumerate()
                    .map(|(n, bytes)| (first + n as u64, bytes.into()))
                    .collect()
            }
            IoOp::Trim => {
                (first..command.end() / SECTOR as u64).map(|sector| (sector, zeros())).collect()
            }
            _ => Vec::new(),
        };
        if !sectors.is_empty() {
            self.unflushed.push(Unflushed { number: self.numbers, sectors, was_replied_to: false });
        }
        self.sent.push((command, self.numbers));
    }

    pub fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    /// Carries out any command that was sent.
    pub fn reply(&mut self) -> Option<Reply> {
        if self.sent.is_empty() {
            return None;
        }
        let pick = self.random.random_range(0..self.sent.len());
        let (command, number) = self.sent.swap_remove(pick);
        if let Some(left) = &mut self.fails_at {
            *left = left.wrapping_sub(1);
            if *left == u64::MAX {
                self.fails_at = None;
                // It may have been carried out as a whole or in part now, but not later.
                if let Some(at) = self.unflushed.iter().position(|write| write.number == number) {
                    let write = self.unflushed.remove(at);
                    self.unflushed.push(Unflushed { was_replied_to: true, ..write });
                }
                let Command { id, op, offset, length, .. } = command;
                return Some(Reply {
                    id,
                    outcome: Err(Failure::Io { op, offset, length, reason: "injected".into() }),
                });
            }
        }
        let mut data = Data::Absent;
        match command.op {
            IoOp::Read => {
                let mut bytes = vec![0; command.length as usize];
                self.read(command.offset, &mut bytes);
                data = Data::Whole(bytes.into());
            }
            IoOp::Write | IoOp::Trim => {
                let is_ignored = command.op == IoOp::Trim && self.random.random_bool(0.5);
                let at = self.unflushed.iter().position(|write| write.number == number).unwrap();
                let mut write = self.unflushed.remove(at);
                write.was_replied_to = true;
                if !is_ignored {
                    self.cache.extend(write.sectors.iter().cloned());
                    if command.is_fua {
                        self.make_durable(&write);
                    } else {
                        self.unflushed.push(write);
                    }
                }
            }
            IoOp::Flush => {
                let (covered, rest) = std::mem::take(&mut self.unflushed)
                    .into_iter()
                    .partition(|w| w.was_replied_to && w.number < number);
                self.unflushed = rest;
                let covered: Vec<Unflushed> = covered;
                covered.iter().for_each(|write| self.durable.extend(write.sectors.iter().cloned()));
            }
        }
        Some(Reply { id: command.id, outcome: Ok(data) })
    }

    fn read(&self, offset: u64, to: &mut [u8]) {
        for (n, part) in to.chunks_mut(SECTOR).enumerate() {
            match self.cache.get(&(offset / SECTOR as u64 + n as u64)) {
                Some(content) => part.copy_from_slice(content),
                None => part.fill(0),
            }
        }
    }

    /// Makes a write with FUA durable when it has ended: earlier writes that were replied to do not
    /// overwrite it.
    fn make_durable(&mut self, write: &Unflushed) {
        self.durable.extend(write.sectors.iter().cloned());
        for other in self.unflushed.iter_mut().filter(|other| other.was_replied_to) {
            other.sectors.retain(|(sector, _)| !write.sectors.iter().any(|(own, _)| own == sector));
        }
    }

    /// Cuts the power: each sector keeps the durable content, or gets that of any write that was
    /// not flushed.
    pub fn cut(&mut self) {
        for write in std::mem::take(&mut self.unflushed) {
            let fate = self.random.random_range(0..3);
            for (sector, content) in write.sectors {
                if fate == 0 || (fate == 1 && self.random.random_bool(0.5)) {
                    self.durable.insert(sector, content);
                }
            }
        }
        self.sent.clear();
        self.cache = self.durable.clone();
    }
}

/// One command after the other, as recovery sends them.
impl Serve for Device {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let first = command.offset / SECTOR as u64;
        match command.op {
            IoOp::Read => {
                let mut bytes = vec![0; command.length as usize];
                self.read(command.offset, &mut bytes);
                return Ok(Data::Whole(bytes.into()));
            }
            IoOp::Write => {
                let bytes = command.data.joined().expect("writes here carry data");
                self.cache.extend(
                    bytes
                        .chunks(SECTOR)
                        .enumerate()
                        .map(|(n, part)| (first + n as u64, part.into())),
                );
            }
            IoOp::Trim => {}
            IoOp::Flush => self.durable = self.cache.clone(),
        }
        Ok(Data::Absent)
    }
}

/// A value that a sector was given.
#[derive(Clone, Copy, Debug)]
struct Given {
    tag: u32,
    from: u64,
    /// Time of the reply; never, as long as there was none.
    to: u64,
    is_durable: bool,
    is_trim: bool,
}

/// Contents that each sector may hold, by the commands that were sent, replied to and made durable,
/// and their times.
pub struct Oracle {
    sectors: Vec<Vec<Given>>,
    pub now: u64,
    /// True if all that is replied to is durable.
    pub is_durable_at_once: bool,
}

impl Oracle {
    pub fn new(sectors: usize, is_durable_at_once: bool) -> Self {
        let first = Given { tag: 0, from: 0, to: 0, is_durable: true, is_trim: false };
        Self { sectors: vec![vec![first]; sectors], now: 0, is_durable_at_once }
    }

    pub fn begins(&mut self, sector: u64, tag: u32, is_trim: bool) {
        self.sectors[sector as usize].push(Given {
            tag,
            from: self.now,
            to: u64::MAX,
            is_durable: false,
            is_trim,
        });
    }

    pub fn ends(&mut self, sector: u64, tag: u32, from: u64, is_fua: bool) {
        let (now, at_once) = (self.now, self.is_durable_at_once);
        let given = self.sectors[sector as usize]
            .iter_mut()
            .find(|given| given.tag == tag && given.from == from)
            .unwrap();
        given.to = now;
        given.is_durable |= (is_fua || at_once) && !given.is_trim;
    }

    /// Notes the reply to a flush that came at this time.
    pub fn flushed(&mut self, came: u64) {
        for given in
            self.sectors.iter_mut().flatten().filter(|given| given.to < came && !given.is_trim)
        {
            given.is_durable = true;
        }
    }

    fn may_be_left(&self, sector: u64) -> Vec<u32> {
        let all = &self.sectors[sector as usize];
        let is_allowed =
            |given: &&Given| !all.iter().any(|later| later.is_durable && later.from > given.to);
        all.iter().filter(is_allowed).map(|given| given.tag).collect()
    }

    /// Gives the tags that a read that came at this time may find now.
    pub fn may_be_read(&self, sector: u64, came: u64) -> Vec<u32> {
        let all = &self.sectors[sector as usize];
        let is_allowed = |given: &&Given| {
            !all.iter().any(|later| !later.is_trim && later.to < came && later.from > given.to)
        };
        let mut allowed: Vec<u32> = all.iter().filter(is_allowed).map(|given| given.tag).collect();
        if all.iter().filter(is_allowed).any(|given| given.is_trim) {
            allowed.extend(self.may_be_left(sector));
        }
        allowed
    }

    /// Notes the content of a sector after a cut, which it holds from now on; an error if it must
    /// not hold it.
    pub fn found(&mut self, sector: u64, tag: u32) -> Result<(), Vec<u32>> {
        let allowed = self.may_be_left(sector);
        self.sectors[sector as usize] =
            vec![Given { tag, from: self.now, to: self.now, is_durable: true, is_trim: false }];
        if allowed.contains(&tag) { Ok(()) } else { Err(allowed) }
    }
}
