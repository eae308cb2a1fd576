//! Pace of cleaning: as fast as it can, or by credits that the host's writes earn.

use crate::drive::profile::{CleaningConfig, CleaningPace};

/// Credits for relocations. Firmware of data-center drives couples cleaning to host writes in this
/// way, to keep response times level; if it saves credits up and cleans in bursts, writes wait
/// meanwhile. The credits that a page of the host earns follow from free space, by the simplest
/// rule that keeps it in balance, a proportional one: no vendor publishes its rule.
#[derive(Debug)]
pub(super) struct Pace {
    is_paced: bool,
    /// Free superblocks beyond the reserve at which nothing is earned any more.
    target: f64,
    /// Number of pages that are cleaned at a time.
    burst: f64,
    /// Credits beyond which the host waits, as cleaning does not keep up.
    most: f64,
    saved: f64,
    is_spending: bool,
    per_page: f64,
}

impl Pace {
    /// `target` in superblocks, `stripe` in pages.
    pub fn new(config: &CleaningConfig, target: f64, stripe: u32) -> Self {
        let burst = (config.burst_stripes * f64::from(stripe)).max(1.0);
        Self {
            is_paced: config.pace == CleaningPace::Credits,
            target,
            burst,
            most: burst + f64::from(stripe),
            saved: 0.0,
            is_spending: false,
            per_page: 0.0,
        }
    }

    #[inline]
    pub fn is_paced(&self) -> bool {
        self.is_paced
    }

    /// Sets the credits that a page of the host earns. A victim costs `survivors` relocations and
    /// gains `gained` pages; `free` superblocks are free beyond the reserve.
    pub fn adjust(&mut self, survivors: f64, gained: f64, free: f64) {
        let balance = survivors / gained.max(survivors / MOST_A_PAGE);
        let urgency = 2.0 * (1.0 - free / self.target);
        self.per_page = (balance * urgency).clamp(0.0, 2.0 * MOST_A_PAGE);
    }

    /// Adds the credits for pages that the host has written.
    #[inline]
    pub fn earn(&mut self, pages: u32) {
        self.saved += f64::from(pages) * self.per_page;
    }

    /// Returns true if the host has to wait until more is cleaned.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.saved > self.most
    }

    /// Grants one burst, as the drive is idle.
    pub fn grant(&mut self) {
        self.saved = self.saved.max(self.burst);
    }

    /// Returns true if a page may be relocated now.
    #[inline]
    pub fn may_spend(&mut self) -> bool {
        if !self.is_paced {
            return true;
        }
        self.is_spending =
            if self.is_spending { self.saved >= 1.0 } else { self.saved >= self.burst };
        self.is_spending
    }

    /// Spends the credit of a relocated page.
    #[inline]
    pub fn spend(&mut self) {
        // Credits do not become negative if cleaning goes on for want of room.
        self.saved = (self.saved - 1.0).max(0.0);
    }
}

/// Most relocations per page of the host, for victims that gain next to nothing.
const MOST_A_PAGE: f64 = 32.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(burst_stripes: f64) -> Pace {
        let config =
            CleaningConfig { pace: CleaningPace::Credits, burst_stripes, ..Default::default() };
        Pace::new(&config, 4.0, 100)
    }

    /// Relocations that are allowed after each of ten times ten pages of the host.
    fn allowed(pace: &mut Pace) -> Vec<u32> {
        let step = |_| {
            pace.earn(10);
            let mut pages = 0;
            while pace.may_spend() {
                pace.spend();
                pages += 1;
            }
            pages
        };
        (0..10).map(step).collect()
    }

    #[test]
    fn in_the_middle_cleaning_gains_what_the_host_writes() {
        let mut pace = pace(0.0);
        pace.adjust(75.0, 25.0, 2.0);
        assert_eq!(allowed(&mut pace), [30; 10]);
        pace.adjust(75.0, 25.0, 4.0);
        assert_eq!(allowed(&mut pace), [0; 10]);
        pace.adjust(75.0, 25.0, 0.0);
        assert_eq!(allowed(&mut pace), [60; 10]);
    }

    #[test]
    fn bursts_are_saved_up() {
        let mut pace = pace(1.0);
        pace.adjust(75.0, 25.0, 2.0);
        assert_eq!(allowed(&mut pace), [0, 0, 0, 120, 0, 0, 0, 120, 0, 0]);
    }
}
