//! Jobs: requests as commands of whole sectors, one step after the other.

use block::{Command, Data, Failure, Limits, Reply};
use bytes::{Bytes, BytesMut};
use units::{IoOp, Nanos};

use super::{Asked, Outcome, Request};

/// A request under way.
pub struct Job {
    pub asked: Asked,
    pub since: Nanos,
    /// Whole sectors that it touches: first byte, and the byte behind.
    sectors: (u64, u64),
    /// True for a write of parts of sectors: the rest of them is read first.
    pub is_partial: bool,
    step: Step,
    /// Commands of this step that are not replied to.
    waiting: u32,
    failure: Option<Failure>,
    /// Data of the reads, by their place in the step.
    brought: Vec<(u32, Data)>,
    /// Zeros that are to be written after this step: first byte, and the byte behind.
    left: (u64, u64),
    /// True if zeros were made by trims.
    is_trimmed: bool,
}

/// Commands that the stack takes.
#[derive(Clone, Copy, Debug)]
pub struct Takes {
    pub limits: Limits,
    /// Alignment, in bytes, of trims that make zeros; none if they promise nothing.
    pub zeroing_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Reads of sectors of which only parts are written.
    Edges,
    /// The commands of the request.
    Main,
    /// A flush that makes them durable.
    Flush,
}

/// A command of a job, without the id that it will get.
pub struct Part {
    pub command: Command,
    pub order: u32,
}

/// Next action for a job after a reply.
pub enum Next {
    /// Other commands are under way: wait.
    Wait,
    /// Send these commands.
    Send(Vec<Part>),
    /// End the request.
    End(Outcome),
}

impl Job {
    /// Makes a job of a request that came now.
    pub fn new(asked: Asked, since: Nanos, limits: Limits) -> Self {
        let sector = u64::from(limits.sector_bytes);
        let request = asked.request();
        let (offset, length) = request.range();
        let end = offset.saturating_add(length);
        let sectors = (offset / sector * sector, end.saturating_add(sector - 1) / sector * sector);
        let is_partial = request.op() == IoOp::Write && sectors != (offset, end);
        Self {
            asked,
            since,
            sectors,
            is_partial,
            step: Step::Main,
            waiting: 0,
            failure: None,
            brought: Vec::new(),
            left: (0, 0),
            is_trimmed: false,
        }
    }

    /// Gives the failure of a request that is not possible.
    pub fn refusal(&self, limits: Limits) -> Option<Failure> {
        let (offset, length) = self.asked.request.range();
        let is_within = offset.checked_add(length).is_some_and(|end| end <= limits.capacity_bytes);
        let reason = format!("the volume ends at byte {}", limits.capacity_bytes);
        (!is_within).then(|| self.failed(&reason))
    }

    /// Gives the failure of the request.
    pub fn failed(&self, reason: &str) -> Failure {
        let (offset, length) = self.asked.request.range();
        Failure::Io {
            op: self.asked.request.op(),
            offset,
            length: length.min(u64::from(u32::MAX)) as u32,
            reason: reason.into(),
        }
    }

    /// Returns true if both touch the same sector.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.sectors.0 < other.sectors.1 && other.sectors.0 < self.sectors.1
    }

    /// Gives its first commands; if there is nothing to do, its end.
    pub fn begin(&mut self, takes: Takes) -> Next {
        self.step = if self.is_partial { Step::Edges } else { Step::Main };
        self.send(takes)
    }

    fn send(&mut self, takes: Takes) -> Next {
        let parts = match self.step {
            Step::Edges => self.edges(takes.limits),
            Step::Main => self.main(takes),
            Step::Flush => vec![Command::new(0, IoOp::Flush, 0, 0)],
        };
        if parts.is_empty() {
            return self.step_ended(takes);
        }
        self.waiting = parts.len() as u32;
        let number = |(order, command)| Part { command, order: order as u32 };
        Next::Send(parts.into_iter().enumerate().map(number).collect())
    }

    /// Gives reads of the first and the last sector, if only parts of them are written.
    fn edges(&self, limits: Limits) -> Vec<Command> {
        let sector = limits.sector_bytes;
        let (offset, length) = self.asked.request.range();
        let last = self.sectors.1 - u64::from(sector);
        let has_head = offset > self.sectors.0;
        let has_tail = offset + length < self.sectors.1 && !(has_head && last == self.sectors.0);
        let read = |at| Command::new(0, IoOp::Read, at, sector);
        let head = has_head.then(|| read(self.sectors.0));
        head.into_iter().chain(has_tail.then(|| read(last))).collect()
    }

    fn main(&mut self, takes: Takes) -> Vec<Command> {
        let limits = takes.limits;
        let (first, end) = self.sectors;
        match &self.asked.request {
            Request::Flush => vec![Command::new(0, IoOp::Flush, 0, 0)],
            Request::Read { length: 0, .. } => Vec::new(),
            Request::Read { .. } => {
                let read = |(at, bytes)| Command::new(0, IoOp::Read, at, bytes);
                pieces(first, end, u64::from(limits.most_bytes)).map(read).collect()
            }
            Request::Trim { offset, length, .. } => {
                let sector = u64::from(limits.sector_bytes);
                trims(offset.next_multiple_of(sector), (offset + length) / sector * sector)
            }
            &Request::Write { is_fua, .. } => self.writes(is_fua, limits),
            &Request::Zero { is_fua, unmaps, .. } => {
                self.zeros(is_fua, takes.zeroing_bytes.filter(|_| unmaps), limits)
            }
        }
    }

    /// Gives the writes of a request, completed in its first and last sector.
    fn writes(&mut self, is_fua: bool, limits: Limits) -> Vec<Command> {
        let Request::Write { data, offset, lifetime, .. } = &self.asked.request else {
            return Vec::new();
        };
        let (offset, lifetime, mut data) = (*offset, *lifetime, Data::Whole(data.clone()));
        let (first, end) = self.sectors;
        if self.is_partial {
            let mut bytes = BytesMut::zeroed((end - first) as usize);
            for (at, sector) in self.around(limits) {
                let at = (at - first) as usize;
                sector.copy_to(&mut bytes[at..at + sector.len()]);
            }
            let from = (offset - first) as usize;
            data.copy_to(&mut bytes[from..from + data.len()]);
            data = Data::Whole(bytes.freeze());
        }
        let write = |(at, bytes): (u64, u32)| {
            let from = (at - first) as usize;
            let part = data.slice(from..from + bytes as usize);
            Command { is_fua, lifetime, ..Command::write(0, at, part) }
        };
        pieces(first, end, u64::from(limits.most_bytes)).map(write).collect()
    }

    /// Gives the sectors that are written in part, as they were read: first byte, and data.
    fn around(&mut self, limits: Limits) -> Vec<(u64, Data)> {
        let has_head = self.asked.request.range().0 > self.sectors.0;
        let last = self.sectors.1 - u64::from(limits.sector_bytes);
        let place = move |(order, data)| (if order == 0 && has_head { 0 } else { last }, data);
        let first = self.sectors.0;
        let brought = std::mem::take(&mut self.brought).into_iter().map(place);
        brought.map(|(at, data)| (at.max(first), data)).collect()
    }

    /// Gives the commands that write zeros: completed in sectors of which only parts are zeroed,
    /// and for whole sectors as trims if those make zeros.
    fn zeros(&mut self, is_fua: bool, unmap: Option<u64>, limits: Limits) -> Vec<Command> {
        let (offset, length) = self.asked.request.range();
        let (end, sector) = (offset + length, u64::from(limits.sector_bytes));
        let mut commands = Vec::new();
        let (first, last) = match std::mem::take(&mut self.left) {
            (from, to) if from < to => (from, to),
            _ => (offset.next_multiple_of(sector), end / sector * sector),
        };
        for (at, data) in self.around(limits) {
            let (from, to) = (offset.max(at), end.min(at + sector));
            let zeros = zeros((to - from) as u32);
            let data = data.patched((from - at) as usize, &zeros);
            commands.push(Command { is_fua, ..Command::write(0, at, data) });
        }
        let mut write = |first: u64, last: u64| {
            // After a trim, at most a part of a unit is left to be written.
            let (last, end) = (last.min(first + MOST_ZEROED), last);
            if last < end {
                self.left = (last, end);
            }
            let pieces = pieces(first, last, u64::from(limits.most_bytes));
            let write = |(at, bytes)| Command { is_fua, ..Command::write(0, at, zeros(bytes)) };
            commands.extend(pieces.map(write));
        };
        let inner = unmap.map(|unit| (first.next_multiple_of(unit), last / unit * unit));
        match inner.filter(|(from, to)| from < to) {
            None => write(first, last),
            Some((from, to)) => {
                write(first, from);
                write(to, last);
                commands.extend(trims(from, to));
                self.is_trimmed = true;
            }
        }
        commands
    }

    /// Handles a reply to one of its commands.
    pub fn replied(&mut self, order: u32, reply: Reply, takes: Takes) -> Next {
        self.waiting -= 1;
        match reply.outcome {
            Ok(data) if self.reads() => self.brought.push((order, data)),
            Ok(_) => {}
            Err(failure) => self.failure = self.failure.take().or(Some(failure)),
        }
        if self.waiting > 0 {
            return Next::Wait;
        }
        match self.failure.take() {
            Some(failure) => Next::End(Err(failure)),
            None => self.step_ended(takes),
        }
    }

    fn reads(&self) -> bool {
        self.step == Step::Edges || self.asked.request.op() == IoOp::Read
    }

    fn step_ended(&mut self, takes: Takes) -> Next {
        // A trim carries no FUA.
        let is_fua_trim = match self.asked.request {
            Request::Trim { is_fua, .. } => is_fua,
            Request::Zero { is_fua, .. } => is_fua && self.is_trimmed,
            _ => false,
        };
        self.step = match self.step {
            Step::Edges => Step::Main,
            Step::Main if self.left.0 < self.left.1 => Step::Main,
            Step::Main if is_fua_trim => Step::Flush,
            Step::Main | Step::Flush => return Next::End(Ok(self.result())),
        };
        self.send(takes)
    }

    /// Gives the data of the bytes that were requested.
    fn result(&mut self) -> Data {
        let (offset, length) = self.asked.request.range();
        if self.asked.request.op() != IoOp::Read {
            return Data::Absent;
        }
        self.brought.sort_unstable_by_key(|&(order, _)| order);
        let mut whole = Data::Absent;
        std::mem::take(&mut self.brought).into_iter().for_each(|(_, data)| whole.append(data));
        let from = (offset - self.sectors.0) as usize;
        if from == 0 && whole.len() == length as usize {
            return whole;
        }
        whole.slice(from..from + length as usize)
    }
}

/// Divides a range into pieces of at most `most` bytes.
fn pieces(first: u64, end: u64, most: u64) -> impl Iterator<Item = (u64, u32)> {
    (first..end).step_by(most as usize).map(move |at| (at, most.min(end - at) as u32))
}

/// Gives the trims of a range; none if it is empty.
fn trims(first: u64, end: u64) -> Vec<Command> {
    pieces(first, end, MOST_TRIMMED)
        .map(|(at, bytes)| Command::new(0, IoOp::Trim, at, bytes))
        .collect()
}

/// Most zeros that are written in one step, in bytes: so a long range takes no memory.
const MOST_ZEROED: u64 = 64 << 20;

/// Longest trim, in bytes.
const MOST_TRIMMED: u64 = 1 << 30;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Gives zeros that take no memory of their own.
fn zeros(bytes: u32) -> Data {
    let zeros = Bytes::from_static(&ZEROS);
    let mut left = bytes as usize;
    let mut pieces = Vec::with_capacity(left.div_ceil(zeros.len()));
    while left > 0 {
        let length = left.min(zeros.len());
        pieces.push(zeros.slice(..length));
        left -= length;
    }
    Data::Pieces(pieces)
}
