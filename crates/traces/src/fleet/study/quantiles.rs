//! Quantiles of many values, and sketches of them that merge without loss.
//!
//! Buckets grow with the value: each is at most 2^-10 of its values wide (as of the H2 histogram,
//! <https://h2histogram.org>), so that a quantile is at most 0.1 % above the exact one, whatever
//! the distribution. A bucket keeps the largest value that fell into it: what repeats, as a size or
//! a period does, is told exactly. Sketches that hold by chance alone, as KLL and REQ of
//! `DataSketches` do, are not taken: their coins come from the operating system, so equal inputs
//! would have other outcomes.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Each octave has 2^10 buckets.
const GROUPING: u32 = 10;
const BUCKETS: usize = (64 - GROUPING as usize + 1) << GROUPING;
/// First byte of a sketch as bytes; another layout gets another one.
const LAYOUT: u8 = 1;

/// Values, counted by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    counts: Vec<u64>,
    largest: Vec<u64>,
    count: u64,
    sum: u128,
}

impl Default for Sketch {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], largest: vec![0; BUCKETS], count: 0, sum: 0 }
    }
}

/// Number of the bucket of a value.
#[inline]
fn bucket_of(value: u64) -> usize {
    let shift = (value | (1 << GROUPING)).ilog2() - GROUPING;
    (value >> shift) as usize + ((shift as usize) << GROUPING)
}

/// First value of a bucket.
fn first_of(bucket: usize) -> u64 {
    let shift = (bucket >> GROUPING).saturating_sub(1);
    ((bucket - (shift << GROUPING)) as u64) << shift
}

impl Sketch {
    /// Adds a value, so many times.
    #[inline]
    pub fn add(&mut self, value: u64, times: u64) {
        let bucket = bucket_of(value);
        self.counts[bucket] += times;
        self.largest[bucket] = self.largest[bucket].max(value);
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
    }

    /// Adds what another one holds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, its) in self.counts.iter_mut().zip(&other.counts) {
            *mine += its;
        }
        for (mine, its) in self.largest.iter_mut().zip(&other.largest) {
            *mine = (*mine).max(*its);
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Values in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, exactly but for rounding.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The values of which these shares are at or below; the shares rise. Empty without values.
    #[must_use]
    pub fn quantiles(&self, shares: &[f64]) -> Vec<u64> {
        let filled = self.counts.iter().zip(&self.largest).filter(|(count, _)| **count > 0);
        at_shares(filled.map(|(count, largest)| (*largest, *count)), self.count, shares)
    }

    /// As bytes, from which [`Sketch::from_bytes`] makes it again on any machine.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![LAYOUT];
        bytes.extend_from_slice(&self.sum.to_le_bytes());
        let mut before = 0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            put(&mut bytes, (bucket - before) as u64);
            put(&mut bytes, count);
            put(&mut bytes, self.largest[bucket] - first_of(bucket));
            before = bucket;
        }
        bytes
    }

    /// Reads it from bytes; `None` if they are none of a sketch.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&LAYOUT, rest) = bytes.split_first()? else { return None };
        let (sum, mut rest) = rest.split_first_chunk()?;
        let mut sketch = Self { sum: u128::from_le_bytes(*sum), ..Self::default() };
        let mut bucket = 0usize;
        while !rest.is_empty() {
            bucket = bucket.checked_add(usize::try_from(take(&mut rest)?).ok()?)?;
            let (count, above) = (take(&mut rest)?, take(&mut rest)?);
            let largest = first_of((bucket < BUCKETS).then_some(bucket)?).checked_add(above)?;
            if bucket_of(largest) != bucket {
                return None;
            }
            sketch.counts[bucket] = count;
            sketch.largest[bucket] = largest;
            sketch.count = sketch.count.checked_add(count)?;
        }
        Some(sketch)
    }
}

/// All values, by how often each comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    counts: FxHashMap<u64, u64>,
}

impl Exact {
    /// Adds a value, so many times.
    pub fn add(&mut self, value: u64, times: u64) {
        *self.counts.entry(value).or_default() += times;
    }

    /// Adds what another one holds.
    pub fn merge(&mut self, other: &Self) {
        for (&value, &times) in &other.counts {
            self.add(value, times);
        }
    }

    /// Values and their counts, in order.
    pub(super) fn sorted(&self) -> BTreeMap<u64, u64> {
        self.counts.iter().map(|(value, count)| (*value, *count)).collect()
    }

    /// As [`Sketch::quantiles`], exactly.
    #[must_use]
    pub fn quantiles(&self, shares: &[f64]) -> Vec<u64> {
        at_shares(self.sorted().into_iter(), self.counts.values().sum(), shares)
    }

    /// As bytes, from which [`Exact::from_bytes`] makes it again.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut bytes, mut before) = (vec![LAYOUT], 0);
        for (value, count) in self.sorted() {
            put(&mut bytes, value - before);
            put(&mut bytes, count);
            before = value;
        }
        bytes
    }

    /// Reads it from bytes; `None` if they are none of values.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&LAYOUT, mut rest) = bytes.split_first()? else { return None };
        let (mut exact, mut value) = (Self::default(), 0u64);
        while !rest.is_empty() {
            value = value.checked_add(take(&mut rest)?)?;
            exact.counts.insert(value, take(&mut rest)?);
        }
        Some(exact)
    }
}

/// The values at shares of all, from values that rise and their counts.
fn at_shares(values: impl Iterator<Item = (u64, u64)>, all: u64, shares: &[f64]) -> Vec<u64> {
    let mut found = Vec::with_capacity(shares.len());
    let mut before = 0;
    for (value, count) in values {
        before += count;
        while let Some(share) = shares.get(found.len()) {
            let wanted = ((share * all as f64).ceil() as u64).clamp(1, all);
            if before < wanted {
                break;
            }
            found.push(value);
        }
    }
    found
}

/// Appends a number in groups of seven bits.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number from the front.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: [f64; 6] = [0.0, 0.01, 0.5, 0.9, 0.999, 1.0];

    fn values() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let value =
            prop_oneof![0u64..5000, 0..u64::MAX, Just(1 << 20), (0u32..64).prop_map(|n| 1 << n)];
        prop::collection::vec((value, 1u64..1000), 1..200)
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_thousandth_and_merging_loses_nothing(
            left in values(),
            right in values(),
        ) {
            let (mut whole, mut exact) = (Sketch::default(), Exact::default());
            for (value, times) in left.iter().chain(&right) {
                whole.add(*value, *times);
                exact.add(*value, *times);
            }
            for (found, right) in whole.quantiles(&SHARES).iter().zip(exact.quantiles(&SHARES)) {
                let most = right.saturating_add(right >> 10);
                prop_assert!((right..=most).contains(found), "{found}, {right}");
            }
            let half = |values: &[(u64, u64)]| {
                let mut sketch = Sketch::default();
                values.iter().for_each(|(value, times)| sketch.add(*value, *times));
                Sketch::from_bytes(&sketch.to_bytes()).unwrap()
            };
            let mut merged = half(&left);
            merged.merge(&half(&right));
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(Exact::from_bytes(&exact.to_bytes()), Some(exact));
        }

        #[test]
        fn bytes_that_are_no_sketch_are_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Some(sketch) = Sketch::from_bytes(&bytes) {
                bytes = sketch.to_bytes();
                prop_assert_eq!(Sketch::from_bytes(&bytes), Some(sketch));
            }
            let _ = Exact::from_bytes(&bytes);
        }
    }

    #[test]
    fn buckets_follow_each_other_over_all_values() {
        for bucket in 1..BUCKETS {
            let first = first_of(bucket);
            assert_eq!((bucket_of(first), bucket_of(first - 1)), (bucket, bucket - 1));
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
