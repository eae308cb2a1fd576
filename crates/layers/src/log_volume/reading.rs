//! Reads of the host: from memory if the page is not on the device yet, zeros if it holds nothing,
//! and else from below, where whole pages are read and compared with their checksums.

use placement::Placement;
use units::{IoOp, Lpn};

use super::below::Op;
use super::checks::{fits, lost, unfit};
use super::volume::LogVolume;
use crate::{Actions, Command, Data, Failure, Gather, ParentPart};

/// Pages that lie side by side, for the host and on the device.
#[derive(Debug)]
pub(super) struct HostRead {
    part: ParentPart,
    lpn: u32,
    ppn: u32,
    pages: u32,
    /// Part of them that the host wants, in bytes.
    from: u32,
    length: u32,
    expected: Expected,
}

/// Checksums at the time when the read was sent: the map may change meanwhile.
#[derive(Debug)]
enum Expected {
    /// Checksum of a single page, or unknown.
    One(u32),
    Many(Box<[u32]>),
}

impl Expected {
    fn of(&self, page: u32) -> u32 {
        match self {
            Self::One(check) => *check,
            Self::Many(checks) => checks[page as usize],
        }
    }
}

/// A piece of a host's read.
enum Piece {
    Here(Data),
    Lost(u32),
    Below { lpn: u32, ppn: u32, pages: u32, from: u32, length: u32 },
}

impl<P: Placement> LogVolume<P> {
    /// Takes a read of the host.
    pub fn read(&mut self, command: &Command, actions: &mut Actions) {
        let pieces = self.pieces_of(command);
        let parent = self.host.reads.begin(command.id, pieces.len() as u32);
        for (place, piece) in (0..).zip(pieces) {
            let part = Gather::part(parent, place);
            match piece {
                Piece::Here(data) => self.host.reads.ended(part, Ok(data), actions),
                Piece::Lost(lpn) => {
                    self.host.reads.ended(part, Err(lost(&self.layout, lpn)), actions);
                }
                Piece::Below { lpn, ppn, pages, from, length } => {
                    let expected = if pages == 1 || !self.checks.are_kept() {
                        Expected::One(self.checks.of(lpn))
                    } else {
                        Expected::Many((lpn..lpn + pages).map(|lpn| self.checks.of(lpn)).collect())
                    };
                    let read = HostRead { part, lpn, ppn, pages, from, length, expected };
                    self.send_read(read, actions);
                }
            }
        }
    }

    fn pieces_of(&mut self, command: &Command) -> Vec<Piece> {
        let bytes = command.offset..command.end();
        let (page, most) = (self.layout.page_bytes, self.below.limits().most_bytes);
        let reads_whole = self.checks.are_kept();
        let mut pieces: Vec<Piece> = Vec::new();
        for lpn in self.layout.pages_of(&bytes) {
            let within = self.layout.within(&bytes, lpn);
            let more = (within.end - within.start) as u32;
            let Some(ppn) = self.ftl.lookup(Lpn(lpn)) else {
                pieces.push(if self.checks.is_lost(lpn) {
                    Piece::Lost(lpn)
                } else {
                    self.counts.unmapped_reads += 1;
                    Piece::Here(self.zeros(u64::from(more)))
                });
                continue;
            };
            if let Some(data) = self.in_memory(ppn.0) {
                pieces.push(Piece::Here(data.slice(within.start as usize..within.end as usize)));
                continue;
            }
            match pieces.last_mut() {
                // The run ends at the segment, for which the read is counted.
                Some(Piece::Below { ppn: first, pages, length, .. })
                    if *first + *pages == ppn.0
                        && self.layout.segment_of(*first) == self.layout.segment_of(ppn.0)
                        && (if reads_whole { (*pages + 1) * page } else { *length + more })
                            <= most =>
                {
                    *pages += 1;
                    *length += more;
                }
                _ => pieces.push(Piece::Below {
                    lpn,
                    ppn: ppn.0,
                    pages: 1,
                    from: within.start as u32,
                    length: more,
                }),
            }
        }
        pieces
    }

    fn send_read(&mut self, read: HostRead, actions: &mut Actions) {
        let at = self.layout.page(read.ppn);
        let (offset, length) = if self.checks.are_kept() {
            (at, read.pages * self.layout.page_bytes)
        } else {
            (at + u64::from(read.from), read.length)
        };
        self.segments.pin(self.layout.segment_of(read.ppn));
        self.below.send(Op::Read(read), IoOp::Read, offset, length, actions);
    }

    /// Ends a read of the host, or a part of it.
    pub fn read_ended(
        &mut self,
        read: &HostRead,
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        self.segments.unpin(self.layout.segment_of(read.ppn));
        let outcome = outcome.and_then(|data| self.fitting(read, data));
        self.host.reads.ended(read.part, outcome, actions);
    }

    /// Gives the bytes that the host wants of pages that were read, if all of these have their
    /// checksums.
    fn fitting(&mut self, read: &HostRead, data: Data) -> Result<Data, Failure> {
        if !self.checks.are_kept() {
            return Ok(data);
        }
        let page = self.layout.page_bytes as usize;
        for number in 0..read.pages {
            let at = number as usize * page;
            let expected = read.expected.of(number);
            let found = self.folded_of(&data.slice(at..at + page), expected);
            if !fits(expected, found) {
                if let Some(poison) = &self.poison {
                    // The page was lost below by a failed flush, or has rotted.
                    return Err(poison.clone());
                }
                self.counts.bad_reads += 1;
                let (lpn, ppn) = (read.lpn + number, read.ppn + number);
                return Err(unfit(&self.layout, lpn, ppn, expected, found));
            }
        }
        Ok(data.slice(read.from as usize..(read.from + read.length) as usize))
    }
}
