//! The server's buffers: a clock sweep, and a background writer that cleans ahead of it
//! (`freelist.c`, `BgBufferSync`).

use super::settings::Settings;

const NONE: u32 = u32::MAX;
const MOST_USAGE: u8 = 5;
const DIRTY: u8 = 1;
/// Dirty when the checkpoint began, and not written since.
const NEEDED: u8 = 2;
const SMOOTHING: f64 = 16.0;
/// The background writer comes round within this time, whatever is needed.
const ROUND_US: f64 = 120e6;

/// Buffers, and the pages in them.
pub(super) struct Pool {
    /// By page: its buffer.
    buffer_of: Vec<u32>,
    /// By buffer: its page.
    page_of: Vec<u32>,
    usage: Vec<u8>,
    state: Vec<u8>,
    hand: usize,
    used: usize,
    /// Buffers that the hand went over since the background writer came.
    swept: u64,
    allocated: u64,
    /// Buffers ahead of the hand that the background writer looked at.
    ahead: u64,
    density: f64,
    smoothed: f64,
    maxpages: u32,
    multiplier: f64,
    least_scanned: f64,
    share: f64,
    /// What the background writer may write of its share, 0 to 1.
    owed: f64,
    /// Pages that were not there when they were needed.
    pub misses: u64,
}

impl Pool {
    pub fn new(buffers: u32, pages: u32, settings: &Settings) -> Self {
        let buffers = buffers.max(16) as usize;
        Self {
            buffer_of: vec![NONE; pages as usize],
            page_of: vec![NONE; buffers],
            usage: vec![0; buffers],
            state: vec![0; buffers],
            hand: 0,
            used: 0,
            swept: 0,
            allocated: 0,
            ahead: 0,
            density: 10.0,
            smoothed: 0.0,
            maxpages: settings.bgwriter_lru_maxpages,
            multiplier: settings.bgwriter_lru_multiplier,
            least_scanned: buffers as f64 / (ROUND_US / settings.bgwriter_delay_us as f64),
            share: settings.background_share,
            owed: 0.0,
            misses: 0,
        }
    }

    /// True if a page would be loaded without that another leaves.
    pub fn has_room(&self) -> bool {
        self.used < self.page_of.len()
    }

    /// True if it holds so many pages.
    pub fn would_hold(&self, pages: u64) -> bool {
        pages <= self.page_of.len() as u64
    }

    /// Uses a page, and loads it if it is not there; gives a dirty page that has to leave for it.
    /// `is_new`: it is made, so that nothing is read.
    #[inline]
    pub fn touch(&mut self, page: u32, is_changed: bool, is_new: bool) -> Option<u32> {
        let mut buffer = self.buffer_of[page as usize];
        let mut left = None;
        if buffer == NONE {
            self.misses += u64::from(!is_new);
            self.allocated += 1;
            let found = if self.has_room() {
                self.used += 1;
                self.used - 1
            } else {
                self.victim()
            };
            let old = self.page_of[found];
            if old != NONE {
                self.buffer_of[old as usize] = NONE;
                left = (self.state[found] & DIRTY != 0).then_some(old);
            }
            buffer = found as u32;
            self.buffer_of[page as usize] = buffer;
            self.page_of[found] = page;
            (self.usage[found], self.state[found]) = (1, 0);
        } else {
            let usage = &mut self.usage[buffer as usize];
            *usage = (*usage + 1).min(MOST_USAGE);
        }
        if is_changed {
            self.state[buffer as usize] |= DIRTY;
        }
        left
    }

    fn victim(&mut self) -> usize {
        loop {
            let found = self.hand;
            self.hand = if found + 1 == self.page_of.len() { 0 } else { found + 1 };
            self.swept += 1;
            self.ahead = self.ahead.saturating_sub(1);
            if self.usage[found] == 0 {
                return found;
            }
            self.usage[found] -= 1;
        }
    }

    /// One round of the background writer; adds the pages that it writes.
    pub fn clean(&mut self, out: &mut Vec<u32>) {
        let buffers = self.page_of.len() as u64;
        let (allocated, swept) = (self.allocated as f64, self.swept as f64);
        (self.allocated, self.swept) = (0, 0);
        if self.maxpages == 0 || self.has_room() {
            return;
        }
        if allocated > 0.0 && swept > 0.0 {
            self.density += (swept / allocated - self.density) / SMOOTHING;
        }
        let reusable = self.ahead as f64 / self.density;
        self.smoothed = if self.smoothed <= allocated {
            allocated
        } else {
            self.smoothed + (allocated - self.smoothed) / SMOOTHING
        };
        let wanted = (self.smoothed * self.multiplier).floor();
        let wanted = wanted.max(self.least_scanned.floor() + reusable.floor());
        let (mut found, mut written, mut looked) = (reusable.floor(), 0, 0_u64);
        while self.ahead < buffers && found < wanted {
            let buffer = ((self.hand as u64 + self.ahead) % buffers) as usize;
            self.ahead += 1;
            looked += 1;
            let is_dirty = self.state[buffer] & DIRTY != 0;
            if self.usage[buffer] > 0 || (is_dirty && self.is_passed_over()) {
                continue;
            }
            found += 1.0;
            if is_dirty {
                self.state[buffer] = 0;
                out.push(self.page_of[buffer]);
                written += 1;
                if written >= self.maxpages {
                    break;
                }
            }
        }
        let fresh = found - reusable.floor();
        if looked > 0 && fresh > 0.0 {
            self.density += (looked as f64 / fresh - self.density) / SMOOTHING;
        }
    }

    /// Takes the next dirty page; true if it is none of the background writer's share.
    fn is_passed_over(&mut self) -> bool {
        self.owed += self.share;
        let is_its = self.owed >= 1.0;
        self.owed -= f64::from(u8::from(is_its));
        !is_its
    }

    /// A checkpoint begins: gives the pages that it has to write, in the order of their files.
    pub fn begin_checkpoint(&mut self, out: &mut Vec<u32>) {
        out.clear();
        for buffer in 0..self.used {
            if self.state[buffer] & DIRTY != 0 {
                self.state[buffer] |= NEEDED;
                out.push(self.page_of[buffer]);
            }
        }
        out.sort_unstable();
    }

    /// Writes a page of the checkpoint, unless it was written since that began.
    pub fn checkpoint(&mut self, page: u32) -> bool {
        let buffer = self.buffer_of[page as usize];
        if buffer == NONE || self.state[buffer as usize] & NEEDED == 0 {
            return false;
        }
        self.state[buffer as usize] = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// The clock sweep with a list of its buffers, as it is described.
    #[derive(Default)]
    struct Plain {
        buffers: Vec<(u32, u8, bool)>,
        where_is: HashMap<u32, usize>,
        hand: usize,
    }

    impl Plain {
        fn touch(&mut self, room: usize, page: u32, is_changed: bool) -> Option<u32> {
            let mut left = None;
            if let Some(at) = self.where_is.get(&page) {
                self.buffers[*at].1 = 5.min(self.buffers[*at].1 + 1);
                self.buffers[*at].2 |= is_changed;
                return None;
            }
            let at = if self.buffers.len() < room {
                self.buffers.push((page, 1, is_changed));
                self.buffers.len() - 1
            } else {
                while self.buffers[self.hand].1 > 0 {
                    self.buffers[self.hand].1 -= 1;
                    self.hand = (self.hand + 1) % room;
                }
                let at = self.hand;
                self.hand = (self.hand + 1) % room;
                let (old, _, is_dirty) = self.buffers[at];
                left = is_dirty.then_some(old);
                self.where_is.remove(&old);
                self.buffers[at] = (page, 1, is_changed);
                at
            };
            self.where_is.insert(page, at);
            left
        }
    }

    proptest! {
        #[test]
        fn pages_leave_as_the_clock_sweep_says(
            touches in prop::collection::vec((0_u32..60, any::<bool>()), 1..600),
        ) {
            let settings = Settings::default();
            let (mut pool, mut plain) = (Pool::new(20, 60, &settings), Plain::default());
            for (page, is_changed) in touches {
                let left = pool.touch(page, is_changed, false);
                prop_assert_eq!(left, plain.touch(20, page, is_changed));
            }
            let mut dirty = Vec::new();
            pool.begin_checkpoint(&mut dirty);
            let mut known: Vec<_> =
                plain.buffers.iter().filter(|one| one.2).map(|one| one.0).collect();
            known.sort_unstable();
            prop_assert_eq!(dirty, known);
        }
    }

    #[test]
    fn a_page_that_left_meanwhile_is_not_written_by_the_checkpoint_again() {
        let mut pool = Pool::new(16, 40, &Settings::default());
        for page in 0..16 {
            assert_eq!(pool.touch(page, true, false), None);
        }
        let mut dirty = Vec::new();
        pool.begin_checkpoint(&mut dirty);
        assert_eq!(dirty.len(), 16);
        assert_eq!(pool.touch(16, false, false), Some(0), "all are as old; the first leaves");
        assert!(!pool.checkpoint(0));
        assert!(pool.checkpoint(1));
        assert!(!pool.checkpoint(1));
    }

    #[test]
    fn a_background_writer_leaves_what_is_not_its_share() {
        let settings = Settings { background_share: 0.75, ..Settings::default() };
        let mut pool = Pool::new(1000, 3000, &settings);
        for page in 0..1100 {
            pool.touch(page, true, false);
        }
        let mut out = Vec::new();
        pool.clean(&mut out);
        assert_eq!(out.len(), 100, "as many as it may");
        let left = (1100..1220).filter(|page| pool.touch(*page, true, false).is_some()).count();
        assert_eq!(left, 30, "one of four leaves dirty");
    }

    #[test]
    fn the_background_writer_cleans_what_will_leave() {
        let mut pool = Pool::new(1000, 3000, &Settings::default());
        for page in 0..1100 {
            pool.touch(page, true, false);
        }
        let mut out = Vec::new();
        pool.clean(&mut out);
        assert_eq!(out.len(), 100, "as many as it may");
        let mut left = 0;
        for page in 1100..1200 {
            left += u32::from(pool.touch(page, true, false).is_some());
        }
        assert_eq!(left, 0, "those that leave next are clean");
    }
}
