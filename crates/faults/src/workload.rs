//! Random work of a host.

use std::ops::Range;

use block::Signal;
use units::IoOp;

use crate::Dice;

/// Shape of the writes to a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes at the end of each sector that the host leaves zero.
    pub tail_bytes: usize,
    /// True if writes carry a hint of their lifetime.
    pub has_hints: bool,
}

/// Something that the host does.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Sends a command for these sectors.
    Command {
        /// Kind of the command.
        op: IoOp,
        /// Sectors of the command.
        sectors: Range<usize>,
        /// True if a write is durable when it is replied to.
        is_fua: bool,
    },
    /// Tells the layers something.
    Signal(Signal),
}

/// Generator of a host's work, in stretches of one kind.
#[derive(Clone, Debug)]
pub struct Workload {
    sectors: usize,
    page: usize,
    most: usize,
    /// Weights of write, read, trim, flush, signal.
    pub weights: [u32; 5],
    /// Share of writes with FUA.
    pub fua: f64,
    kind: usize,
    left: usize,
    next: usize,
    hot: usize,
}

impl Workload {
    /// Makes a workload on so many sectors; commands have `most` sectors at most.
    #[must_use]
    pub const fn new(sectors: usize, sector_bytes: u32, most: usize) -> Self {
        let page = 4096 / sector_bytes as usize;
        Self {
            sectors,
            page,
            most,
            weights: [60, 15, 5, 8, 2],
            fua: 0.1,
            kind: 0,
            left: 0,
            next: 0,
            hot: 0,
        }
    }

    /// Draws the next act.
    pub fn next(&mut self, dice: &mut Dice) -> Act {
        if self.left == 0 {
            self.kind = dice.below(7);
            self.left = 1 + dice.below(24);
            self.next = dice.below(self.sectors);
            self.hot = dice.below(self.sectors);
        }
        self.left -= 1;
        let op = match dice.weighted(&self.weights) {
            0 => IoOp::Write,
            1 => IoOp::Read,
            2 => IoOp::Trim,
            3 => return Act::Command { op: IoOp::Flush, sectors: 0..0, is_fua: false },
            _ => {
                return Act::Signal(dice.pick(&[
                    Signal::CheckpointBegins,
                    Signal::CheckpointEnds,
                    Signal::Drain,
                    Signal::Scrub,
                    Signal::ScrubEnds,
                ]));
            }
        };
        let mut sectors = self.place(dice);
        // Trims may be longer than any other command.
        if op == IoOp::Trim && dice.chance(0.1) {
            sectors.end = sectors.start + 1 + dice.below(self.sectors - sectors.start);
        }
        Act::Command { op, is_fua: op == IoOp::Write && dice.chance(self.fua), sectors }
    }

    fn place(&mut self, dice: &mut Dice) -> Range<usize> {
        let pages = self.sectors.div_ceil(self.page);
        let hot_page = self.hot / self.page;
        let (start, length) = match self.kind {
            // One page anywhere.
            0 => (dice.below(pages) * self.page, self.page),
            // A few pages over and over.
            1 => ((hot_page + dice.below(3)) % pages * self.page, self.page),
            // Any sectors.
            2 => (dice.below(self.sectors), 1 + dice.below(2 * self.page)),
            // A few sectors over and over.
            3 => (self.hot + dice.below(self.page), 1 + dice.below(self.page.min(3))),
            // One after the other.
            4 => {
                let length = self.page * (1 + dice.below(3));
                let start = self.next / self.page * self.page;
                self.next = (start + length) % self.sectors;
                (start, length)
            }
            // Many pages at once.
            5 => (dice.below(self.sectors), 1 + dice.below(self.most)),
            // Within a small area, at random.
            _ => ((hot_page + dice.below(8)) % pages * self.page, self.page),
        };
        let start = start % self.sectors;
        start..(start + length.clamp(1, self.most)).min(self.sectors)
    }
}
