//! How soon the pages of each cell die: learned from pages that are watched.

use super::pages::{CELLS, rate_of};

/// Deaths at the believed rate that a cell begins with.
const PRIOR_DEATHS: f32 = 8.0;

/// Weight of all that was seen before, at each plan.
pub const KEPT: f32 = 0.9;

/// No cell dies faster, a tick: shorter lives count as the same.
const MOST_HAZARD: f32 = 2.0;

/// Watched pages on a large device; a small one watches all.
const WATCHED: u32 = 1 << 16;

/// A record of a watched page: the tick of its placement, its cell, and whether it holds data.
const HOLDS: u32 = 1 << 31;

/// Deaths and time lived by cell, and the hazards that follow from them.
///
/// On large devices one page of eight is watched, drawn among its neighbours so that no pattern of
/// addresses decides which.
#[derive(Debug)]
pub struct Cells {
    deaths: Vec<f32>,
    /// Ticks.
    lived: Vec<f32>,
    /// Deaths a page and tick.
    pub hazard: Vec<f32>,
    /// Pages that lie where they were put with this cell, all of the device.
    pub pages: Vec<f32>,
    watched: Vec<u32>,
    shift: u32,
    /// Deaths and time lived that were known when hazards were learned last.
    old: Vec<(f32, f32)>,
}

impl Cells {
    pub fn new(logical_pages: u32) -> Self {
        let shift = (0..3).find(|shift| logical_pages >> shift <= WATCHED).unwrap_or(3);
        let groups = (logical_pages >> shift) as usize + 1;
        Self {
            deaths: vec![0.0; CELLS],
            lived: vec![0.0; CELLS],
            hazard: (0..CELLS).map(|cell| rate_of(cell).min(MOST_HAZARD)).collect(),
            pages: vec![0.0; CELLS],
            watched: vec![0; groups],
            shift,
            old: vec![(0.0, 0.0); CELLS],
        }
    }

    /// Where the record of a page is kept, if it is watched.
    #[inline]
    fn record(&self, lpn: u32) -> Option<usize> {
        let group = lpn >> self.shift;
        let mask = (1 << self.shift) - 1;
        let drawn = group.wrapping_mul(0x9e37_79b1) >> 16;
        (lpn & mask == drawn & mask).then_some(group as usize)
    }

    /// A page is put into a place.
    #[inline]
    pub fn placed(&mut self, lpn: u32, cell: u16, tick: u32) {
        if let Some(record) = self.record(lpn) {
            self.watched[record] = HOLDS | u32::from(cell) << 16 | tick & 0xffff;
        }
    }

    /// A page leaves its place, dead or relocated, and is put into another.
    #[inline]
    pub fn moved(&mut self, lpn: u32, cell: u16, tick: u32, is_dead: bool) {
        if let Some(record) = self.record(lpn) {
            self.leave(record, tick, is_dead);
            self.watched[record] = HOLDS | u32::from(cell) << 16 | tick & 0xffff;
        }
    }

    /// A page is trimmed.
    pub fn left(&mut self, lpn: u32, tick: u32) {
        if let Some(record) = self.record(lpn) {
            self.leave(record, tick, true);
            self.watched[record] = 0;
        }
    }

    #[inline]
    fn leave(&mut self, record: usize, tick: u32, is_dead: bool) {
        if self.watched[record] & HOLDS != 0 {
            let (cell, lived) = settle(self.watched[record], tick);
            // A death within the tick of the placement was in its middle, on average.
            self.lived[cell] += if is_dead { lived.max(0.5) } else { lived };
            self.deaths[cell] += f32::from(u8::from(is_dead));
        }
    }

    /// Counts what still lies where it was put, and how long it has.
    pub fn settle(&mut self, tick: u32) {
        self.pages.fill(0.0);
        let stands_for = (1 << self.shift) as f32;
        for record in self.watched.iter_mut().filter(|record| **record & HOLDS != 0) {
            let (cell, lived) = settle(*record, tick);
            self.lived[cell] += lived;
            self.pages[cell] += stands_for;
            *record = *record & !0xffff | tick & 0xffff;
        }
    }

    /// How far the deaths since hazards were learned are from what was expected, in nats a death:
    /// the logarithm of the ratio of likelihoods, less what chance makes of it, 0 or more. After
    /// [`Self::settle`].
    pub fn surprise(&self) -> f32 {
        let (mut surprise, mut all, mut cells) = (0.0, 0.0, 0.0f32);
        for (cell, (old_deaths, old_lived)) in self.old.iter().enumerate() {
            let deaths = self.deaths[cell] - old_deaths;
            let expected = (self.lived[cell] - old_lived) * self.hazard[cell];
            if deaths + expected < 4.0 {
                continue;
            }
            surprise += expected - deaths;
            if deaths > 0.0 {
                surprise += deaths * (deaths / expected.max(1e-3)).ln();
            }
            all += deaths;
            cells += 1.0;
        }
        // Twice the ratio is about chi-square with a degree of freedom a cell.
        let chance = 0.5 * cells + 2.0 * (0.5 * cells).sqrt();
        (surprise - chance).max(0.0) / all.max(1.0)
    }

    /// Learns hazards from all that was seen; `kept` is the weight of what was seen before they
    /// were learned last. After [`Self::settle`].
    pub fn learn(&mut self, kept: f32) {
        for cell in 0..CELLS {
            let (old_deaths, old_lived) = self.old[cell];
            self.deaths[cell] -= (1.0 - kept) * old_deaths;
            self.lived[cell] -= (1.0 - kept) * old_lived;
            let believed = rate_of(cell);
            let lived = self.lived[cell] + PRIOR_DEATHS / believed;
            self.hazard[cell] = ((self.deaths[cell] + PRIOR_DEATHS) / lived).min(MOST_HAZARD);
            self.old[cell] = (self.deaths[cell], self.lived[cell]);
        }
    }
}

fn settle(record: u32, tick: u32) -> (usize, f32) {
    ((record >> 16 & 0x7ff) as usize, (tick.wrapping_sub(record) & 0xffff) as f32)
}
