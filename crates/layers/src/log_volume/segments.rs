//! State of each segment beside that of the FTL.

use super::disk::Segment;

/// The segments, by number.
#[derive(Debug)]
pub(super) struct Segments {
    kept: Vec<Segment>,
    /// Number of writes and gathered runs in each that are not on the device yet.
    carried: Vec<u16>,
    /// Number of reads under way in each: a segment is not written to before they end.
    pins: Vec<u32>,
    /// Number of summaries in each that recovery needs.
    summaries: Vec<u32>,
}

impl Segments {
    pub fn new(kept: Vec<Segment>) -> Self {
        let (carried, none) = (vec![0; kept.len()], vec![0; kept.len()]);
        Self { kept, carried, pins: none.clone(), summaries: none }
    }

    /// Gives their records in the tables on the device.
    pub fn kept(&self) -> &[Segment] {
        &self.kept
    }

    /// Notes that pages were placed in a segment, up to this number of them.
    #[inline]
    pub fn fill(&mut self, segment: u32, pages: u16) {
        self.kept[segment as usize].filled = pages;
    }

    /// Notes that a segment was opened: by which entry of the log, when, and for which stream.
    pub fn open(&mut self, segment: u32, opened: u64, opened_at: u32, stream: u16) {
        self.kept[segment as usize] = Segment { opened, opened_at, stream, filled: 0 };
    }

    /// Notes that a read begins there.
    pub fn pin(&mut self, segment: u32) {
        self.pins[segment as usize] += 1;
    }

    /// Notes that a read has ended there.
    pub fn unpin(&mut self, segment: u32) {
        self.pins[segment as usize] -= 1;
    }

    /// Notes that a summary was placed there.
    pub fn hold_summary(&mut self, segment: u32) {
        self.summaries[segment as usize] += 1;
    }

    /// Notes that a summary there is not needed any more.
    pub fn release_summary(&mut self, segment: u32) {
        self.summaries[segment as usize] -= 1;
    }

    /// Returns true if recovery needs a summary there.
    pub fn holds_summary(&self, segment: u32) -> bool {
        self.summaries[segment as usize] > 0
    }

    /// Notes that pages of it are in memory and not on the device.
    #[inline]
    pub fn carry(&mut self, segment: u32) {
        self.carried[segment as usize] += 1;
    }

    /// Notes that these pages are on the device.
    #[inline]
    pub fn arrived(&mut self, segment: u32) {
        self.carried[segment as usize] -= 1;
    }

    /// Returns true if all that was placed there is on the device.
    #[inline]
    pub fn is_on_device(&self, segment: u32) -> bool {
        self.carried[segment as usize] == 0
    }

    /// Returns true if nobody reads there, nor would after a power cut.
    ///
    /// # Panics
    /// In debug builds, if earlier writes there are not on the device.
    pub fn is_left(&self, segment: u32) -> bool {
        let is_left = self.pins[segment as usize] == 0 && !self.holds_summary(segment);
        debug_assert!(
            !is_left || self.is_on_device(segment),
            "what was written there before is on the device"
        );
        is_left
    }
}
