//! Counts in buckets that grow with the value.

use histogram::Config;

/// Buckets of a width of at most 1/8 of their values, from 0 to 2^64; values below 16 have buckets
/// of their own.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: histogram::Histogram,
    total: u64,
    largest: u64,
}

fn config() -> Config {
    Config::new(3, 64).expect("3 is below 64")
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: histogram::Histogram::with_config(&config()), total: 0, largest: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.counts.increment(value).expect("every value has a bucket");
        self.total += 1;
        self.largest = self.largest.max(value);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn largest(&self) -> Option<u64> {
        (self.total > 0).then_some(self.largest)
    }

    /// The middle of the bucket that holds the smallest value with at least this share of all
    /// values at or below it.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let bucket = self.counts.quantile_bucket(share).expect("a share is from 0 to 1")?;
        Some((bucket.start() + (bucket.end() - bucket.start()) / 2).min(self.largest))
    }

    /// First and last value of each bucket that is not empty in one of the histograms, and the
    /// counts.
    pub(super) fn rows<const N: usize>(
        histograms: [&Self; N],
    ) -> impl Iterator<Item = (u64, u64, [u64; N])> {
        let ranges = histogram::Histogram::with_config(&config());
        let counts = histograms.map(|histogram| histogram.counts.as_slice());
        let buckets: Vec<_> = ranges.iter().map(|bucket| (bucket.start(), bucket.end())).collect();
        buckets.into_iter().enumerate().filter_map(move |(index, (first, last))| {
            let counts = counts.map(|counts| counts[index]);
            counts.iter().any(|&count| count > 0).then_some((first, last, counts))
        })
    }
}

/// Counts by the power of two that is at most the value.
#[derive(Clone, Debug)]
pub(super) struct Octaves {
    counts: [u64; 64],
}

impl Octaves {
    pub(super) fn new() -> Self {
        Self { counts: [0; 64] }
    }

    /// Counts a value of 1 or more.
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.counts[value.ilog2() as usize] += 1;
    }

    pub(super) fn add_at(&mut self, exponent: u32) {
        self.counts[exponent as usize] += 1;
    }

    /// First and last value of each power of two up to the last that is not empty in one of the
    /// histograms, and the counts.
    pub(super) fn rows<const N: usize>(
        histograms: [&Self; N],
    ) -> impl Iterator<Item = (u64, u64, [u64; N])> {
        let end = (0..64)
            .rev()
            .find(|&exponent| histograms.iter().any(|h| h.counts[exponent] > 0))
            .map_or(0, |last| last + 1);
        let first = (0..end)
            .find(|&exponent| histograms.iter().any(|h| h.counts[exponent] > 0))
            .unwrap_or(0);
        (first..end).map(move |exponent| {
            (
                1 << exponent,
                (1u64 << exponent) + ((1u64 << exponent) - 1),
                histograms.map(|h| h.counts[exponent]),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_an_eighth(
            values in prop::collection::vec(0u64..1_000_000, 1..300),
            share in 0.0..1.0f64,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&v| histogram.add(v));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = sorted[((share * values.len() as f64).ceil() as usize).max(1) - 1] as f64;
            let told = histogram.quantile(share).unwrap() as f64;
            prop_assert!((told - exact).abs() <= exact / 8.0 + 1e-9, "{} for {}", told, exact);
        }
    }
}
