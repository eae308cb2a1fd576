//! What a device can tell of itself, beside its answers.

use units::Nanos;

/// What a device can tell of itself; nothing where nobody can tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// What its flash did since it was opened.
    pub flash: Option<FlashWork>,
    /// How worn it is.
    pub wear: Option<FlashWear>,
    /// What its dies did since it was opened.
    pub dies: Option<DieTime>,
    /// What it did with copies of pages, where it keeps some.
    pub copies: Option<CopyWork>,
    /// What the layers that it is made of have counted, from the top down.
    pub layers: Vec<LayerWork>,
}

impl Telemetry {
    /// What was done since then; wear and levels as they are now.
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

/// What the flash of a device did since it was opened.
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
    /// What was done since then.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.page_reads -= before.page_reads;
        self.page_programs -= before.page_programs;
        self.erases -= before.erases;
        self
    }
}

/// What the dies of a device spent their time on since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DieTime {
    /// Dies.
    pub dies: u32,
    /// For what they worked, by name, and the time of all dies together, in nanoseconds.
    pub by_cause: Vec<(&'static str, Nanos)>,
    /// Of each die, time in which it worked for any cause, in nanoseconds.
    pub busy: Vec<Nanos>,
}

impl DieTime {
    /// What was spent since then.
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

/// How worn the flash of a device is, over its whole life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashWear {
    /// Mean erases of an erase block.
    pub erases_mean: f64,
    /// Most erases of one.
    pub erases_most: u32,
    /// Erases that an erase block is rated for; 0 if nobody says.
    pub erases_rated: u32,
}

/// What a device that keeps copies of pages did with them since it was opened, and what it keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyWork {
    /// Counters by name.
    pub counts: Vec<(&'static str, u64)>,
    /// Copies that would have been expected from how often pages were blocked.
    pub predicted: f64,
    /// Of each die, time in which something waited while it worked on copies, in nanoseconds.
    pub interference: Vec<Nanos>,
    /// Pages with 2, 3, ... places, now.
    pub groups_by_size: Vec<u64>,
    /// Sizes in pages or bytes by name, now.
    pub sizes: Vec<(&'static str, u64)>,
}

impl CopyWork {
    /// What was done since then; what is kept as it is now.
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

/// What a layer over a device counted since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerWork {
    /// The layer's name.
    pub layer: &'static str,
    /// What it counted.
    pub counts: Vec<LayerCount>,
}

/// One counter of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCount {
    /// Its name, with its unit last.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Whether it is a level that goes up and down, not a sum.
    pub is_level: bool,
}

impl LayerWork {
    /// What was counted since then; levels as they are now.
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
