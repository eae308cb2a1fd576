//! The batch: what was held when the window closed, on its way down.

use units::{Lifetime, Nanos};

use super::cuts::Cuts;
use super::held::Held;
use crate::Data;

/// Parts of which what is held is loaded together, ahead of their turn.
const AHEAD: usize = 16;

/// Sectors of a held write that are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPart {
    /// First sector.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
    /// Sectors that are not written yet, nor void.
    pub left: u32,
    /// The write.
    pub record: u32,
}

/// One command of the batch: a part, some of one, or several that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCommand {
    /// First sector.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
    /// First part of which it is.
    first: u32,
    /// Last one.
    last: u32,
}

impl BatchCommand {
    /// Whether it shares sectors with a range.
    pub const fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// A window that was closed and is being written out, in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// Whether there is one.
    pub is_running: bool,
    /// When it began.
    pub began: Nanos,
    /// Number of the last command that it covers.
    pub sealed: u64,
    /// Commands below that were not replied to.
    pub outstanding: Vec<BatchCommand>,
    /// What is to be written.
    pub parts: Vec<HeldPart>,
    /// The part that comes next, and the first of its sectors that does; 0 is its first.
    next: usize,
    at: u64,
    /// Parts before this one have been loaded ahead.
    loaded: usize,
    joins: bool,
    most_sectors: u64,
}

impl Batch {
    /// None; where it `joins`, commands of up to so many sectors are made of what lies side by
    /// side.
    pub fn new(joins: bool, most_sectors: u64) -> Self {
        Self { joins, most_sectors, ..Self::default() }
    }

    /// It begins: the parts have been filled in.
    pub fn begin(&mut self, sealed: u64, now: Nanos) {
        (self.is_running, self.began, self.sealed, self.next, self.at, self.loaded) =
            (true, now, sealed, 0, 0, 0);
    }

    /// Whether nothing is left to be sent or waited for.
    pub const fn is_done(&self) -> bool {
        self.next == self.parts.len() && self.outstanding.is_empty()
    }

    /// The next command, not yet taken. What newer commands went past is left out on the way;
    /// `void` counts its sectors.
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

    /// The command is sent.
    pub fn take(&mut self, piece: BatchCommand) {
        (self.next, self.at) = (piece.last as usize, piece.end);
        if self.parts[self.next].end == piece.end {
            (self.next, self.at) = (self.next + 1, 0);
        }
        self.outstanding.push(piece);
    }

    /// How long what it writes is expected to live: what differs in that is not joined.
    pub fn lifetime(&self, piece: BatchCommand, held: &Held) -> Lifetime {
        held.lifetime(self.parts[piece.first as usize].record)
    }

    /// What it writes.
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

    /// It is written below: what it held is read there from now on.
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
