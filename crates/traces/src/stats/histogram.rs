//! Counts in buckets that grow with the value.

/// Bits after the leading one that tell buckets apart: a bucket is at most 1/8 as wide as its
/// values are large.
const FINE_BITS: u32 = 3;
const BUCKETS: usize = (64 - FINE_BITS as usize + 1) << FINE_BITS;

/// Buckets of a width of at most 1/8 of their values, from 0 to 2^64; values below 16 have buckets
/// of their own.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    largest: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, largest: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
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
        let rank = ((share * self.total as f64).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some((lower(found) + (upper(found) - lower(found)) / 2).min(self.largest))
    }

    /// First and last value of each bucket that is not empty in one of the histograms, and the
    /// counts.
    pub(super) fn rows<const N: usize>(
        histograms: [&Self; N],
    ) -> impl Iterator<Item = (u64, u64, [u64; N])> {
        (0..BUCKETS).filter_map(move |index| {
            let counts = histograms.map(|histogram| histogram.counts[index]);
            counts.iter().any(|&count| count > 0).then(|| (lower(index), upper(index), counts))
        })
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    let exponent = (value | 1 << FINE_BITS).ilog2();
    let shift = exponent - FINE_BITS;
    ((shift as usize) << FINE_BITS) + (value >> shift) as usize
}

/// The smallest value in the bucket.
fn lower(index: usize) -> u64 {
    let shift = (index >> FINE_BITS).saturating_sub(1);
    ((index - (shift << FINE_BITS)) as u64) << shift
}

/// The largest value in the bucket.
fn upper(index: usize) -> u64 {
    lower(index) + ((1 << (index >> FINE_BITS).saturating_sub(1)) - 1)
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

    #[test]
    fn buckets_follow_each_other_without_gap() {
        assert_eq!(lower(0), 0);
        for index in 1..BUCKETS {
            assert_eq!(lower(index), upper(index - 1) + 1);
        }
        assert_eq!(upper(BUCKETS - 1), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(shift in 0u32..64, value: u64) {
            let value = value >> shift;
            prop_assert!((lower(bucket(value))..=upper(bucket(value))).contains(&value));
        }

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
