//! Flexible Data Placement: counters of a drive.

use crate::drive::counters::counters;

counters! {
    /// Events, in the terms of the log of FDP events (NVM Express base specification 2.1, log page
    /// 23h). Media Reallocated is counted once per reclaim unit, as controllers report it.
    pub struct FdpEvents {
        /// Reclaim Unit Not Fully Written: units of handles with pages that were left unwritten,
        /// here where a program was padded for a page that had to be durable.
        units_not_fully_written,
        /// Invalid Placement Identifier: page writes whose handle the drive does not have. They go
        /// to handle 0.
        invalid_placement_identifiers,
        /// Media Reallocated: reclaim units whose valid pages the controller began to move.
        media_reallocated,
        /// Reclaim units that handles began to write. Not an event of the log.
        units_begun,
    }
}

/// Counters of one reclaim unit handle. Reclaim units that the controller filled with relocated
/// data belong to the handle under persistent isolation; under initial isolation they belong to all
/// handles and have an entry of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleCounts {
    /// Pages that the host wrote.
    pub host_page_writes: u64,
    /// Valid pages that were moved out of its reclaim units.
    pub relocated_pages: u64,
    /// Number of its current reclaim units, including open ones.
    pub reclaim_units: u32,
    /// Number of valid pages in them.
    pub valid_pages: u64,
    /// Pages that can still be written to the reclaim unit that the handle refers to (Reclaim Unit
    /// Available Media Writes, in pages instead of blocks).
    pub available_pages: u32,
}

/// Counters of all handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdpCounts {
    /// Events so far.
    pub events: FdpEvents,
    /// Counters of each handle.
    pub handles: Vec<HandleCounts>,
    /// Under initial isolation, counters of the data that the controller has moved, of all handles.
    pub relocated: Option<HandleCounts>,
    /// Pages of a reclaim unit.
    pub unit_pages: u32,
}

impl FdpCounts {
    /// The increase since `before`; current states stay as they are.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let difference = |now: &HandleCounts, before: &HandleCounts| HandleCounts {
            host_page_writes: now.host_page_writes - before.host_page_writes,
            relocated_pages: now.relocated_pages - before.relocated_pages,
            ..*now
        };
        Self {
            events: self.events.since(&before.events),
            handles: self
                .handles
                .iter()
                .zip(&before.handles)
                .map(|(n, b)| difference(n, b))
                .collect(),
            relocated: self.relocated.zip(before.relocated).map(|(n, b)| difference(&n, &b)),
            unit_pages: self.unit_pages,
        }
    }
}
