//! What is under way: commands of the host and of the layer's own, and what they wait for.

use std::ops::Range;

use units::IoOp;

use super::disk::Geometry;
use crate::{Command, Data, Failure};

/// Whose a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The host's.
    Host,
    /// Of a pass over all pages.
    Scrub,
    /// Reads pages of an unsure region, and writes those that differ once more.
    Settle,
}

/// A write below.
#[derive(Debug)]
pub struct Piece {
    pub offset: u64,
    pub length: u32,
    pub data: Data,
}

/// Something that has pages for itself, or waits for them.
#[derive(Debug)]
pub struct Task {
    pub whose: Whose,
    /// What the host wants; of the layer's own what it reads.
    pub command: Command,
    /// Pages of which it touches a byte.
    pub pages: Range<u64>,
    /// Replies and marks that it waits for.
    pub waits: u32,
    /// What was read, by place.
    pub parts: Vec<Data>,
    /// What is to be written.
    pub pieces: Vec<Piece>,
    /// The checksums of its pages once that is done.
    pub sums: Vec<u32>,
    /// Regions to which it began to write.
    pub regions: Vec<u32>,
    pub failure: Option<Failure>,
}

impl Task {
    /// It waits for nothing yet.
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

    /// Whether others may read its pages meanwhile.
    pub fn is_shared(&self) -> bool {
        self.command.op == IoOp::Read && self.whose != Whose::Settle
    }

    /// Pages of which it writes a part: the first, the last, both or none.
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

    /// It failed, for this reason if there was none before.
    pub fn fails(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// A command below failed, which may be of more than the host asked for.
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
    /// Pages for a task, at this place of its parts.
    Read { task: u32, place: u32, first: u64, pages: u64, tries: u32 },
    /// A write or trim of a task.
    Write { task: u32 },
    /// Pages that differed.
    Again { task: u32, page: u64, count: u64 },
    /// A flush of the host: its id.
    HostFlush(u32),
    /// A sector of marks.
    Marks(u32),
    /// The block of a region.
    Block(u32),
    /// A flush of the layer's own.
    Flush,
}
