//! Time limit after which a read is sent a second time.

use crate::drive::time::Picos;

/// A percentile of the latencies of recent reads.
#[derive(Clone, Debug)]
pub(super) struct Percentile {
    /// The share of reads below it, 0 ... 1.
    share: f64,
    last: Vec<Picos>,
    next: usize,
    since: usize,
    value: Picos,
}

/// Number of recent reads that it covers; then the number of reads between two computations.
const OF: usize = 1024;
const EVERY: usize = 64;

impl Percentile {
    pub fn new(share: f64) -> Self {
        Self { share, last: Vec::with_capacity(OF), next: 0, since: 0, value: Picos::MAX }
    }

    /// Adds the latency of a read.
    pub fn add(&mut self, latency: Picos) {
        if self.last.len() < OF {
            self.last.push(latency);
        } else {
            self.last[self.next] = latency;
            self.next = (self.next + 1) % OF;
        }
        self.since += 1;
        if self.since >= EVERY && self.last.len() >= OF.min(4 * EVERY) {
            self.since = 0;
            let mut sorted = self.last.clone();
            let place = ((sorted.len() as f64 * self.share) as usize).min(sorted.len() - 1);
            self.value = *sorted.select_nth_unstable(place).1;
        }
    }

    /// The percentile; `None` until there are enough reads.
    pub fn get(&self) -> Option<Picos> {
        (self.value != Picos::MAX).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_follows_what_reads_took_lately() {
        let mut percentile = Percentile::new(0.95);
        (0..100).for_each(|latency| percentile.add(latency));
        assert_eq!(percentile.get(), None, "too few");
        (0..OF as u64).for_each(|latency| percentile.add(latency % 100));
        let value = percentile.get().expect("enough");
        assert!((94..=96).contains(&value), "{value}");
        (0..OF as u64).for_each(|latency| percentile.add(1000 + latency % 100));
        let value = percentile.get().expect("enough");
        assert!((1093..=1096).contains(&value), "{value}");
    }
}
