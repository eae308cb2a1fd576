//! What a page-mapped scheme keeps for each plane: the writes that wait for room there, and the
//! cleaning that is under way.

use std::collections::VecDeque;

use units::{Lpn, Ppn};

use crate::drive::media::{Cause, Tag};
use crate::drive::time::Picos;
use ftl::Cleaning;

/// A write that found no room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) lpn: Lpn,
    pub(super) tag: Tag,
    /// Written again or trimmed since: it still takes a page, but no one will read it.
    pub(super) is_dead: bool,
    /// Placement handle that it came with; 0 where none is given.
    pub(super) handle: u8,
}

/// Cleaning in one lane: one erase block at a time.
#[derive(Debug, Default)]
pub(super) struct LaneCleaning {
    pub(super) cleaning: Cleaning,
    pub(super) cause: Option<Cause>,
    /// The survivor that is being copied.
    pub(super) number: usize,
    /// Where it lies.
    pub(super) copying: Ppn,
    /// Where it goes.
    pub(super) target: Ppn,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) job: LaneCleaning,
    pub(super) waiting: VecDeque<Waiting>,
    /// The cleaning waits for its window.
    pub(super) is_paused: bool,
    /// When to look whether the die is idle enough for background cleaning.
    pub(super) wake_at: Picos,
}

/// When cleaning starts, in free erase blocks of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub(super) start_below: usize,
    pub(super) background_below: usize,
    pub(super) idle: Picos,
    /// Whether a die does nothing else while an erase block of it is cleaned.
    pub(super) occupies_die: bool,
}
