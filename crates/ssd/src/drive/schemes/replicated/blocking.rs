//! How often accesses to a page are blocked.

/// Accesses, and those of them that were blocked, of pages or of erase blocks.
///
/// REPLICATION 4.1: "#Blocked / #Total", over the accesses so far. Each takes 4 bytes; at 65,535
/// accesses both are halved, so that what is long past counts for less.
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

    /// An access that was counted was blocked.
    pub fn blocked(&mut self, place: usize) {
        let (blocked, all) = &mut self.counts[place];
        *blocked = (*blocked + 1).min(*all);
    }

    /// Blocked accesses of all; 0 without any.
    #[inline]
    pub fn probability(&self, place: usize) -> f64 {
        let (blocked, all) = self.counts[place];
        if blocked == 0 { 0.0 } else { f64::from(blocked) / f64::from(all) }
    }

    /// Another page lies there.
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
        (0..200_000).for_each(|_| blocking.accessed(1));
        assert!(blocking.probability(1) < 1e-3);
        blocking.forget(1);
        assert_eq!(blocking.probability(1), 0.0);
    }
}
