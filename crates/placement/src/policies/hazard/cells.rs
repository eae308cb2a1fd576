//! Hazards of the pages of each cell: learned from pages that are watched.

use super::GLANCES;
use super::pages::{
    CELLS, PASTS, is_stale, later, past, rate_of, rate_of_stale, stale_cell, written_again,
};

/// Number of deaths, at the prior rate, that a cell begins with.
const PRIOR_DEATHS: f32 = 8.0;

/// Weight of all earlier observations, at each plan.
pub const KEPT: f32 = 0.9;

/// Greatest hazard of a cell, in deaths per page and tick: shorter lives count as the same.
const MOST_HAZARD: f32 = 2.0;

/// Number of watched pages on a large device; a small one watches all.
const WATCHED: u32 = 1 << 16;

/// Flag of a record that holds data. The record of a watched page has the tick of its placement,
/// its cell, and this flag.
const HOLDS: u32 = 1 << 31;
/// Mask of the cell in a record.
const CELL: u32 = 0xfff;

/// Difference of deaths from their expectation.
#[derive(Clone, Copy, Debug)]
pub struct Surprise {
    /// Logarithm of the likelihood ratio, less its part due to chance, in nats per death; 0 or
    /// more.
    pub nats: f32,
    /// Number of deaths.
    pub deaths: f32,
}

/// Deaths and time lived by cell, and the hazards that follow from them.
///
/// On large devices one page of eight is watched, drawn at random among its neighbours so that the
/// choice follows no pattern of addresses.
#[derive(Debug)]
pub struct Cells {
    deaths: Vec<f32>,
    /// Time lived in ticks.
    lived: Vec<f32>,
    /// Deaths per page and tick.
    pub hazard: Vec<f32>,
    /// Number of pages of the whole device that are still where they were placed with this cell.
    pub pages: Vec<f32>,
    watched: Vec<u32>,
    shift: u32,
    /// Deaths and time lived up to the last learning of hazards; then those up to the last look.
    old: Vec<(f32, f32)>,
    looked: Vec<(f32, f32)>,
    looked_at: u32,
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
            looked: vec![(0.0, 0.0); CELLS],
            looked_at: 0,
        }
    }

    /// Index of the record of a page, if it is watched.
    #[inline]
    fn record(&self, lpn: u32) -> Option<usize> {
        let group = lpn >> self.shift;
        let mask = (1 << self.shift) - 1;
        let drawn = group.wrapping_mul(0x9e37_79b1) >> 16;
        (lpn & mask == drawn & mask).then_some(group as usize)
    }

    /// Records that a page is placed.
    #[inline]
    pub fn placed(&mut self, lpn: u32, cell: u16, tick: u32) {
        if let Some(record) = self.record(lpn) {
            self.watched[record] = HOLDS | u32::from(cell) << 16 | tick & 0xffff;
        }
    }

    /// Records that a page leaves its place, dead or relocated, and is placed elsewhere.
    #[inline]
    pub fn moved(&mut self, lpn: u32, cell: u16, tick: u32, is_dead: bool) {
        if let Some(record) = self.record(lpn) {
            self.leave(record, tick, is_dead);
            self.watched[record] = HOLDS | u32::from(cell) << 16 | tick & 0xffff;
        }
    }

    /// Records that a page is trimmed.
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
            // A death within the tick of the placement was in the middle of the tick, on average.
            self.lived[cell] += if is_dead { lived.max(0.5) } else { lived };
            self.deaths[cell] += f32::from(u8::from(is_dead));
        }
    }

    /// Counts the pages that are still where they were placed, and the time that they have been
    /// there.
    ///
    /// Pages that were not written since the load changed, `changed` ticks ago, move to the cell
    /// for that time.
    pub fn settle(&mut self, tick: u32, changed: u32) {
        self.pages.fill(0.0);
        let stands_for = (1 << self.shift) as f32;
        for record in self.watched.iter_mut().filter(|record| **record & HOLDS != 0) {
            let (cell, lived) = settle(*record, tick);
            self.lived[cell] += lived;
            let mut cell = cell as u16;
            if is_stale(cell) {
                cell = later(cell, changed);
            }
            self.pages[usize::from(cell)] += stands_for;
            *record = HOLDS | u32::from(cell) << 16 | tick & 0xffff;
        }
    }

    /// Separates old from new after a change of the load: pages placed before the change get other
    /// cells than pages placed from now on, and observations since the last look count only for the
    /// old ones. Call [`Self::settle`] before.
    pub fn part(&mut self) {
        let mut seen = vec![(0.0, 0.0); CELLS];
        let mut written = 0.0;
        for (cell, &(old_deaths, old_lived)) in self.looked.iter().enumerate() {
            let deaths = self.deaths[cell] - old_deaths;
            let to = &mut seen[usize::from(parted(cell))];
            to.0 += deaths;
            to.1 += self.lived[cell] - old_lived;
            written += deaths;
            (self.deaths[cell], self.lived[cell]) = (old_deaths, old_lived);
        }
        for (cell, &seen) in seen.iter().enumerate().filter(|(cell, _)| is_stale(*cell as u16)) {
            (self.deaths[cell], self.lived[cell]) = seen;
            self.old[cell] = (0.0, 0.0);
        }
        let stands_for = (1 << self.shift) as f32;
        self.pages.fill(0.0);
        // As many pages will be written until space is planned again, and need streams then.
        let soon = 2.0 / GLANCES as f32;
        self.pages[usize::from(written_again(soon))] = written * stands_for;
        for record in self.watched.iter_mut().filter(|record| **record & HOLDS != 0) {
            let cell = parted((*record >> 16 & CELL) as usize);
            self.pages[usize::from(cell)] += stands_for;
            *record = HOLDS | u32::from(cell) << 16 | *record & 0xffff;
        }
    }

    /// The mean hazard of pages that were not written since the load changed, by their past.
    pub fn stale(&self) -> [f32; PASTS] {
        let mut sums = [(0.0, 0.0); PASTS];
        for cell in (0..CELLS).filter(|&cell| is_stale(cell as u16)) {
            let (pages, deaths) = &mut sums[usize::from(past(rate_of_stale(cell)))];
            *pages += self.pages[cell];
            *deaths += self.pages[cell] * self.hazard[cell];
        }
        sums.map(|(pages, deaths)| if pages > 0.0 { deaths / pages } else { 1e-3 })
    }

    /// Difference of the deaths since the last look from their expectation. Call [`Self::settle`]
    /// before.
    pub fn surprise(&self) -> Surprise {
        self.surprise_at(f32::INFINITY, |cell| self.lived[cell] - self.looked[cell].1)
    }

    /// An estimate of the surprise without [`Self::settle`]: assumes that the number of pages in
    /// each cell has not changed since the last look. Cells that most pages leave meanwhile are not
    /// counted.
    pub fn glance(&self, tick: u32) -> Surprise {
        let ticks = (tick - self.looked_at) as f32;
        let watched = ticks / (1 << self.shift) as f32;
        self.surprise_at(0.5 / ticks, |cell| self.pages[cell] * watched)
    }

    /// Ticks since the last look.
    pub fn since_look(&self, tick: u32) -> u32 {
        tick - self.looked_at
    }

    /// The surprise of the cells whose hazard is at most `highest`, given the time lived in each.
    fn surprise_at(&self, highest: f32, lived: impl Fn(usize) -> f32) -> Surprise {
        let (mut surprise, mut all, mut cells) = (0.0, 0.0, 0.0f32);
        for cell in (0..CELLS).filter(|&cell| !is_stale(cell as u16)) {
            if self.hazard[cell] > highest {
                continue;
            }
            let deaths = self.deaths[cell] - self.looked[cell].0;
            let expected = lived(cell) * self.hazard[cell];
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
        // Twice the ratio is roughly chi-square with one degree of freedom per cell.
        let chance = 0.5 * cells + 2.0 * (0.5 * cells).sqrt();
        let deaths = all.max(1.0);
        Surprise { nats: (surprise - chance).max(0.0) / deaths, deaths }
    }

    /// Ends a look: the next surprise covers deaths from now on.
    pub fn looked(&mut self, tick: u32) {
        self.looked_at = tick;
        for (looked, seen) in self.looked.iter_mut().zip(self.deaths.iter().zip(&self.lived)) {
            *looked = (*seen.0, *seen.1);
        }
    }

    /// Learns hazards from all observations; `kept` is the weight of those before the last
    /// learning. Call [`Self::settle`] before.
    pub fn learn(&mut self, kept: f32, tick: u32) {
        self.looked_at = tick;
        for cell in 0..CELLS {
            let (old_deaths, old_lived) = self.old[cell];
            self.deaths[cell] -= (1.0 - kept) * old_deaths;
            self.lived[cell] -= (1.0 - kept) * old_lived;
            let believed = rate_of(cell);
            let lived = self.lived[cell] + PRIOR_DEATHS / believed;
            self.hazard[cell] = ((self.deaths[cell] + PRIOR_DEATHS) / lived).min(MOST_HAZARD);
            self.old[cell] = (self.deaths[cell], self.lived[cell]);
            self.looked[cell] = self.old[cell];
        }
    }
}

/// The cell to which the pages of a cell move when the load changes.
fn parted(cell: usize) -> u16 {
    if is_stale(cell as u16) { later(cell as u16, 0) } else { stale_cell(rate_of(cell), 0) }
}

fn settle(record: u32, tick: u32) -> (usize, f32) {
    ((record >> 16 & CELL) as usize, (tick.wrapping_sub(record) & 0xffff) as f32)
}
