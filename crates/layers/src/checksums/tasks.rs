//! Tasks under way: commands of the host and of the layer's own, and what they wait for.

use std::ops::Range;

use units::IoOp;

use super::disk::Geometry;
use crate::{Command, Data, Failure};

/// Origin of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A command of the host.
    Host,
    /// A read of a pass over all pages.
    Scrub,
    /// A read of pages of an unsure region, of which those that differ are written once more.
    Settle,
}

/// A write below.
#[derive(Debug)]
pub struct Piece {
    pub offset: u64,
    pub length: u32,
    pub data: Data,
}

/// A task that has its pages to itself, or waits for them.
#[derive(Debug)]
pub struct Task {
    pub whose: Whose,
    /// Command of the host; for a task of the layer's own, its read.
    pub command: Command,
    /// Pages of which it touches a byte.
    pub pages: Range<u64>,
    /// Number of replies and marks that it waits for.
    pub waits: u32,
    /// Data that were read, by place.
    pub parts: Vec<Data>,
    /// Writes to be sent below.
    pub pieces: Vec<Piece>,
    /// Checksums of its pages once they are written.
    pub sums: Vec<u32>,
    /// Regions to which it has begun to write.
    pub regions: Vec<u32>,
    pub failure: Option<Failure>,
}

impl Task {
    /// Makes a task, which waits for nothing yet.
    pub fn new(whose: Whose, command: Command, geometry: &Geometry) -> Self {
        let page = u64::from(geometry.page_bytes);
        Self {
            whose,
            pages: command.offset / page..command.end().div_ceil(page),
            command,
            waits: 0,
            parts: Vec::new(),
            pieces: Vec::new(),
            sums: Vec::new(),
            regions: Vec::new(),
            failure: None,
        }
    }

    /// Returns true if others may read its pages meanwhile.
    pub fn is_shared(&self) -> bool {
        self.command.op == IoOp::Read && self.whose != Whose::Settle
    }

    /// Gives the pages of which it writes a part: the first, the last, both or none.
    pub fn edges(&self, geometry: &Geometry) -> Vec<u64> {
        let page = u64::from(geometry.page_bytes);
        let is_cut = |offset: u64| !offset.is_multiple_of(page);
        let mut edges = Vec::new();
        if is_cut(self.command.offset) {
            edges.push(self.pages.start);
        }
        if is_cut(self.command.end()) && edges.last() != Some(&(self.pages.end - 1)) {
            edges.push(self.pages.end - 1);
        }
        edges
    }

    /// Notes a failure, unless there was one before.
    pub fn fails(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Notes the failure of a command below, which may cover more than the host asked for.
    pub fn fails_below(&mut self, failure: Failure) {
        self.fails(match failure {
            Failure::Io { reason, .. } => self.command.failed(reason),
            poisoned @ Failure::Poisoned { .. } => poisoned,
        });
    }
}

/// A command of the layer's own, below.
#[derive(Clone, Copy, Debug)]
pub enum Sent {
    /// Read of pages for a task, at this place of its parts.
    Read { task: u32, place: u32, first: u64, pages: u64, tries: u32 },
    /// Write or trim of a task.
    Write { task: u32 },
    /// Write of pages that differed.
    Again { task: u32, page: u64, count: u64 },
    /// Flush of the host, with its id.
    HostFlush(u32),
    /// Write of a sector of marks.
    Marks(u32),
    /// Write of a region's block.
    Block(u32),
    /// Flush of the layer's own.
    Flush,
}
