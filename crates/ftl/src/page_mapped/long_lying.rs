//! Data that has lain in one place for long: static wear levelling by age, and refresh.

use units::EraseBlockId;
use units::lists::{Lists, NONE};

/// The closed erase blocks of each lane in the order in which they were closed, and how often the
/// device had been erased then.
///
/// An erase block whose data nobody overwrites is never the victim of a policy that goes by valid
/// pages: its wear stays behind that of all others, and what has died in it stays lost. Firmware
/// moves such data from time to time (static wear levelling: Agrawal et al., USENIX ATC 2008,
/// section 3.4; refresh: Cai et al., ICCD 2012).
#[derive(Debug)]
pub(super) struct LongLying {
    queues: Lists,
    erases_at_close: Vec<u64>,
    most_erases: u64,
    /// Victims of the policies from one that has lain too long to the next.
    every: u32,
    since: u32,
}

impl LongLying {
    /// `most_cycles`: how often all erase blocks are erased, on average, before data that was not
    /// moved meanwhile is; one of `every` victims is such data at most.
    pub fn new(erase_blocks: u32, lanes: u32, most_cycles: f64, every: u32) -> Self {
        Self {
            queues: Lists::new(erase_blocks, lanes as usize),
            erases_at_close: vec![0; erase_blocks as usize],
            most_erases: (most_cycles * f64::from(erase_blocks)).ceil() as u64,
            every,
            since: 0,
        }
    }

    pub fn closed(&mut self, block: EraseBlockId, lane: u32, erases: u64) {
        self.queues.push_back(lane as usize, block.0);
        self.erases_at_close[block.index()] = erases;
    }

    /// The erase block is a victim.
    pub fn left(&mut self, block: EraseBlockId, lane: u32) {
        if self.queues.contains(block.0) {
            self.queues.remove(lane as usize, block.0);
        }
    }

    /// The erase block of a lane that was closed first, if that is too long ago. Asked once for each
    /// victim.
    pub fn overdue(&mut self, lane: u32, erases: u64) -> Option<EraseBlockId> {
        self.since += 1;
        if self.since < self.every {
            return None;
        }
        let oldest = self.queues.first(lane as usize);
        if oldest == NONE || erases - self.erases_at_close[oldest as usize] <= self.most_erases {
            return None;
        }
        self.since = 0;
        Some(EraseBlockId(oldest))
    }
}
