//! Frequency at which accesses to a page are blocked.

/// Numbers of accesses, and of blocked ones, of pages or of erase blocks.
///
/// REPLICATION 4.1: "#Blocked / #Total", over the accesses so far. Each takes 4 bytes; at 65,535
/// accesses both are halved, so that old accesses count for less.
#[derive(Debug)]
pub(super) struct Blocking {
    counts: Vec<(u16, u16)>,
}

impl Blocking {
    pub fn new(places: usize) -> Self {
        Self { counts: vec![(0, 0); places] }
    }

    #[inline]
    pub fn accessed(&mut self, place: usize) {
        let (blocked, all) = &mut self.counts[place];
        if *all == u16::MAX {
            *blocked /= 2;
            *all /= 2;
        }
        *all += 1;
    }

    /// Records that an access that was counted was blocked.
    pub fn blocked(&mut self, place: usize) {
        let (blocked, all) = &mut self.counts[place];
        *blocked = (*blocked + 1).min(*all);
    }

    /// Share of blocked accesses; 0 without any access.
    #[inline]
    pub fn probability(&self, place: usize) -> f64 {
        let (blocked, all) = self.counts[place];
        if blocked == 0 { 0.0 } else { f64::from(blocked) / f64::from(all) }
    }

    /// Returns true if the share of blocked accesses is above a threshold, or the threshold is 0. Of
    /// fewer accesses than one is the threshold's share of it is not known, and then it is not:
    /// REPLICATION 4.2.1 does not say.
    pub fn is_above(&self, place: usize, threshold: f64) -> bool {
        let (blocked, all) = self.counts[place];
        threshold == 0.0
            || f64::from(all) * threshold >= 1.0 && f64::from(blocked) > threshold * f64::from(all)
    }

    /// Clears the counters of a place that gets another page.
    pub fn forget(&mut self, place: usize) {
        self.counts[place] = (0, 0);
    }

    pub fn bytes(&self) -> usize {
        4 * self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_blocked_of_all() {
        let mut blocking = Blocking::new(2);
        for number in 0..40 {
            blocking.accessed(1);
            if number % 4 == 0 {
                blocking.blocked(1);
            }
        }
        assert_eq!((blocking.probability(0), blocking.probability(1)), (0.0, 0.25));
        let above = |threshold| blocking.is_above(1, threshold);
        assert_eq!([0.0, 0.05, 0.24, 0.25].map(above), [true, true, true, false]);
        let mut few = Blocking::new(1);
        few.accessed(0);
        few.blocked(0);
        assert!(!few.is_above(0, 0.05), "one access says nothing");
        (0..200_000).for_each(|_| blocking.accessed(1));
        assert!(blocking.probability(1) < 1e-3);
        blocking.forget(1);
        assert_eq!(blocking.probability(1), 0.0);
    }
}
