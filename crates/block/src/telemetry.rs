//! Counters that a device keeps of its own work.

use units::Nanos;

/// Counters of a device; those that it cannot report are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Work of the flash since the device was opened.
    pub flash: Option<FlashWork>,
    /// Wear of the flash.
    pub wear: Option<FlashWear>,
    /// Time of the dies since the device was opened.
    pub dies: Option<DieTime>,
    /// Work on copies of pages since the device was opened, if it keeps copies.
    pub copies: Option<CopyWork>,
    /// Counters of the device's layers, from the top down.
    pub layers: Vec<LayerWork>,
}

impl Telemetry {
    /// Gives the increase since `before`; wear and levels as they are now.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        let Self { flash, wear, dies, copies, layers } = self;
        Self {
            flash: flash.zip(before.flash).map(|(now, before)| now.since(&before)),
            wear,
            dies: dies.zip(before.dies.as_ref()).map(|(now, before)| now.since(before)),
            copies: copies.zip(before.copies.as_ref()).map(|(now, before)| now.since(before)),
            layers: (layers.into_iter().zip(&before.layers))
                .map(|(now, before)| now.since(before))
                .collect(),
        }
    }
}

/// Operations of a device's flash since the device was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashWork {
    /// Bytes of a flash page.
    pub page_bytes: u32,
    /// Pages read, for the host and for the drive itself.
    pub page_reads: u64,
    /// Pages programmed, for the host and for the drive itself.
    pub page_programs: u64,
    /// Erase blocks erased.
    pub erases: u64,
}

impl FlashWork {
    /// Gives the increase since `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.page_reads -= before.page_reads;
        self.page_programs -= before.page_programs;
        self.erases -= before.erases;
        self
    }
}

/// Time of a device's dies since the device was opened, by cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DieTime {
    /// Number of dies.
    pub dies: u32,
    /// Causes by name, each with the time of all dies together, in nanoseconds.
    pub by_cause: Vec<(&'static str, Nanos)>,
    /// Busy time of each die, for any cause, in nanoseconds.
    pub busy: Vec<Nanos>,
}

impl DieTime {
    /// Gives the increase since `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for ((_, now), (_, before)) in self.by_cause.iter_mut().zip(&before.by_cause) {
            *now -= before;
        }
        for (now, before) in self.busy.iter_mut().zip(&before.busy) {
            *now -= before;
        }
        self
    }
}

/// Wear of a device's flash over its whole life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashWear {
    /// Mean erases of an erase block.
    pub erases_mean: f64,
    /// Most erases of an erase block.
    pub erases_most: u32,
    /// Rated erases of an erase block; 0 if unknown.
    pub erases_rated: u32,
}

/// Work of a device on copies of pages since it was opened, and the copies that it keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyWork {
    /// Counters by name.
    pub counts: Vec<(&'static str, u64)>,
    /// Copies to be expected from how often pages were blocked.
    pub predicted: f64,
    /// Time of each die in which something waited while the die worked on copies, in nanoseconds.
    pub interference: Vec<Nanos>,
    /// Number of pages with 2, 3, ... places, now.
    pub groups_by_size: Vec<u64>,
    /// Sizes in pages or bytes by name, now.
    pub sizes: Vec<(&'static str, u64)>,
}

impl CopyWork {
    /// Gives the increase since `before`; sizes and pages kept as they are now.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.predicted -= before.predicted;
        for ((_, now), (_, before)) in self.counts.iter_mut().zip(&before.counts) {
            *now -= before;
        }
        for (now, before) in self.interference.iter_mut().zip(&before.interference) {
            *now -= before;
        }
        self
    }

    /// A counter; 0 if there is none of that name.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|&&(known, _)| known == name).map_or(0, |&(_, count)| count)
    }
}

/// Counters of a layer over a device since the device was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerWork {
    /// The layer's name.
    pub layer: &'static str,
    /// The counters.
    pub counts: Vec<LayerCount>,
}

/// One counter of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCount {
    /// Its name, with its unit last.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// True if the value is a level, which goes up and down, not a sum.
    pub is_level: bool,
}

impl LayerWork {
    /// Gives the increase since `before`; levels as they are now.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (now, before) in self.counts.iter_mut().zip(&before.counts) {
            if !now.is_level {
                now.value -= before.value;
            }
        }
        self
    }
}
