//! State of a page-mapped scheme for each plane: the writes that wait for room there, and the
//! cleaning under way.

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
    /// True if the page was written again or trimmed since: the write still takes a page, but
    /// nobody will read it.
    pub(super) is_dead: bool,
    /// Placement handle of the write; 0 if none was given.
    pub(super) handle: u8,
}

/// Cleaning in one lane: one erase block at a time.
#[derive(Debug, Default)]
pub(super) struct LaneCleaning {
    pub(super) cleaning: Cleaning,
    pub(super) cause: Option<Cause>,
    /// Number of the survivor that is being copied.
    pub(super) number: usize,
    /// Its old place.
    pub(super) copying: Ppn,
    /// Its new place.
    pub(super) target: Ppn,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) job: LaneCleaning,
    pub(super) waiting: VecDeque<Waiting>,
    /// True if the cleaning waits for its window.
    pub(super) is_paused: bool,
    /// Time at which to check whether the die is idle enough for background cleaning.
    pub(super) wake_at: Picos,
}

/// Levels at which cleaning starts, in free erase blocks of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub(super) start_below: usize,
    pub(super) background_below: usize,
    pub(super) idle: Picos,
    /// True if a die does nothing else while one of its erase blocks is cleaned.
    pub(super) occupies_die: bool,
}
