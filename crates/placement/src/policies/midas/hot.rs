//! Detection of hot pages: those that died young in the first group, again and again.

use super::model::Hot;

/// A page is hot at this count, which is the highest.
const HOT: u8 = 3;

/// Number of windows whose means describe the hot group.
const WINDOWS: usize = 10;

/// A counter for each page, and the age below which a death is young: that at which victims of the
/// hot group are cleaned.
#[derive(Debug)]
pub struct HotFilter {
    counts: Vec<u8>,
    /// Age limit of young deaths, in host page writes; a window is as long.
    young: f64,
    left: i64,
    /// The clock before which nothing is counted.
    begins_at: u64,
    /// Victims of the hot group in this window: their number, and the sums of their ages and shares
    /// of valid pages.
    victims: (f64, f64, f64),
    /// Number of the host's writes in this window: all, and those of hot pages.
    writes: (f64, f64),
    windows: Vec<Hot>,
    next: usize,
}

impl HotFilter {
    pub fn new(logical_pages: u32) -> Self {
        Self {
            counts: vec![0; logical_pages as usize],
            young: f64::from(logical_pages),
            left: i64::from(logical_pages),
            begins_at: 2 * u64::from(logical_pages),
            victims: (0.0, 0.0, 0.0),
            writes: (0.0, 0.0),
            windows: Vec::new(),
            next: 0,
        }
    }

    /// Records that the host writes a page whose last version is in an erase block of this group
    /// and age. Returns true if the page is hot.
    #[inline]
    pub fn write(&mut self, lpn: u32, last: Option<(u8, u32)>, clock: u64, space: f64) -> bool {
        if clock >= self.begins_at {
            if self.left <= 0 && self.victims.0 > 0.0 {
                self.end_window(space);
            }
            self.left -= 1;
            if let Some((1, age)) = last {
                let count = &mut self.counts[lpn as usize];
                if f64::from(age) <= self.young {
                    *count = (*count + 1).min(HOT);
                } else {
                    *count = count.saturating_sub(1);
                }
            }
        }
        let is_hot = self.counts[lpn as usize] == HOT;
        self.writes.0 += 1.0;
        self.writes.1 += f64::from(u8::from(is_hot));
        is_hot
    }

    /// Records that a page outlived its erase block in the first group, or in the hot one.
    #[inline]
    pub fn relocated(&mut self, lpn: u32) {
        let count = &mut self.counts[lpn as usize];
        *count = count.saturating_sub(1);
    }

    pub fn forget(&mut self, lpn: u32) {
        self.counts[lpn as usize] = 0;
    }

    /// Records that an erase block of the hot group was cleaned.
    pub fn cleaned(&mut self, age: u32, valid: f64) {
        let (victims, ages, shares) = self.victims;
        self.victims = (victims + 1.0, ages + f64::from(age), shares + valid);
    }

    fn end_window(&mut self, space: f64) {
        let (victims, ages, shares) = self.victims;
        let traffic = self.writes.1 / self.writes.0;
        if traffic > 0.0 {
            let hot = Hot { traffic, size: space, valid: shares / victims };
            if self.windows.len() < WINDOWS {
                self.windows.push(hot);
            } else {
                self.windows[self.next] = hot;
            }
            self.next = (self.next + 1) % WINDOWS;
        }
        self.young = f64::midpoint(ages / victims, self.young);
        self.left = self.young as i64;
        (self.victims, self.writes) = ((0.0, 0.0, 0.0), (0.0, 0.0));
    }

    /// Gives the mean state of the hot group in the last windows, and forgets them.
    pub fn take(&mut self) -> Option<Hot> {
        if self.windows.is_empty() {
            return None;
        }
        let windows = self.windows.len() as f64;
        let mean = |of: fn(&Hot) -> f64| self.windows.iter().map(of).sum::<f64>() / windows;
        let hot = Hot {
            traffic: mean(|hot| hot.traffic),
            size: mean(|hot| hot.size).round(),
            valid: mean(|hot| hot.valid),
        };
        self.windows.clear();
        self.next = 0;
        Some(hot)
    }
}
