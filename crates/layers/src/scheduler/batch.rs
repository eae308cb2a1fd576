//! The batch: writes that were held when the window closed, and are being written out.

use units::{Lifetime, Nanos};

use super::cuts::Cuts;
use super::held::Held;
use crate::Data;

/// Number of parts whose writes are loaded together into the cache, ahead of their turn.
const AHEAD: usize = 16;

/// Sectors of a held write that are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPart {
    /// First sector.
    pub start: u64,
    /// Sector behind the last.
    pub end: u64,
    /// Number of sectors that are not written yet, nor void.
    pub left: u32,
    /// Record of the write.
    pub record: u32,
}

/// A command of the batch: a part, some of one, or several that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCommand {
    /// First sector.
    pub start: u64,
    /// Sector behind the last.
    pub end: u64,
    /// Index of the first part in it.
    first: u32,
    /// Index of the last part in it.
    last: u32,
}

impl BatchCommand {
    /// Returns true if it shares sectors with a range.
    pub const fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// A window that was closed and is being written out, in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// True if a batch is being written.
    pub is_running: bool,
    /// Time when it began.
    pub began: Nanos,
    /// Number of the last command that it covers.
    pub sealed: u64,
    /// Commands below that were not replied to.
    pub outstanding: Vec<BatchCommand>,
    /// Parts to be written.
    pub parts: Vec<HeldPart>,
    /// Index of the next part, followed by the next sector of it; 0 for its first.
    next: usize,
    at: u64,
    /// Index of a part: those before it have been loaded ahead.
    loaded: usize,
    joins: bool,
    most_sectors: u64,
}

impl Batch {
    /// Makes an empty batch. Where it `joins`, parts that lie side by side become commands of up to
    /// so many sectors.
    pub fn new(joins: bool, most_sectors: u64) -> Self {
        Self { joins, most_sectors, ..Self::default() }
    }

    /// Begins a batch, whose parts have been filled in.
    pub fn begin(&mut self, sealed: u64, now: Nanos) {
        (self.is_running, self.began, self.sealed, self.next, self.at, self.loaded) =
            (true, now, sealed, 0, 0, 0);
    }

    /// Returns true if nothing is left to be sent or waited for.
    pub const fn is_done(&self) -> bool {
        self.next == self.parts.len() && self.outstanding.is_empty()
    }

    /// Gives the next command, without taking it. Sectors that newer commands have overwritten are
    /// left out; `void` counts them.
    pub fn peek(&mut self, held: &mut Held, cuts: &Cuts, void: &mut u64) -> Option<BatchCommand> {
        if self.next >= self.loaded {
            self.loaded = (self.next + AHEAD).min(self.parts.len());
            held.load_parts(&self.parts[self.next..self.loaded]);
        }
        loop {
            let part = *self.parts.get(self.next)?;
            let from = self.at.max(part.start);
            let (start, end) = cuts.first_uncut(from, part.end, || held.number(part.record));
            if start > from {
                *void += start - from;
                self.done(self.next, (start - from) as u32, held);
            }
            self.at = start;
            if start == part.end {
                (self.next, self.at) = (self.next + 1, 0);
                continue;
            }
            let mut piece = BatchCommand {
                start,
                end: end.min(start + self.most_sectors),
                first: self.next as u32,
                last: self.next as u32,
            };
            if self.joins {
                self.lengthen(&mut piece, held, cuts);
            }
            return Some(piece);
        }
    }

    fn lengthen(&self, piece: &mut BatchCommand, held: &Held, cuts: &Cuts) {
        let furthest = piece.start + self.most_sectors;
        let lifetime = self.lifetime(*piece, held);
        while piece.end == self.parts[piece.last as usize].end && piece.end < furthest {
            let Some(part) =
                self.parts.get(piece.last as usize + 1).filter(|part| part.start == piece.end)
            else {
                break;
            };
            let (start, end) = cuts.first_uncut(part.start, part.end, || held.number(part.record));
            if start != part.start || held.lifetime(part.record) != lifetime {
                break;
            }
            piece.end = end.min(furthest);
            piece.last += 1;
        }
    }

    /// Notes that the command is sent.
    pub fn take(&mut self, piece: BatchCommand) {
        (self.next, self.at) = (piece.last as usize, piece.end);
        if self.parts[self.next].end == piece.end {
            (self.next, self.at) = (self.next + 1, 0);
        }
        self.outstanding.push(piece);
    }

    /// Gives the lifetime hint of the bytes that it writes: parts with different hints are not
    /// joined.
    pub fn lifetime(&self, piece: BatchCommand, held: &Held) -> Lifetime {
        held.lifetime(self.parts[piece.first as usize].record)
    }

    /// Gives the bytes that it writes.
    pub fn data(&self, piece: BatchCommand, held: &Held) -> Data {
        let mut data = Data::Absent;
        for part in &self.parts[piece.first as usize..=piece.last as usize] {
            data.append(held.data(
                part.record,
                part.start.max(piece.start),
                part.end.min(piece.end),
            ));
        }
        data
    }

    /// Notes that the command is written below: its sectors are read there from now on.
    pub fn written(&mut self, piece: BatchCommand, held: &mut Held) {
        self.outstanding.retain(|other| *other != piece);
        for number in piece.first as usize..=piece.last as usize {
            let part = self.parts[number];
            let (start, end) = (part.start.max(piece.start), part.end.min(piece.end));
            held.written(part.record, start, end);
            self.done(number, (end - start) as u32, held);
        }
    }

    fn done(&mut self, number: usize, sectors: u32, held: &mut Held) {
        let part = &mut self.parts[number];
        part.left -= sectors;
        if part.left == 0 {
            held.release(part.record, 1);
        }
    }
}
