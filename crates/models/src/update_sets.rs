//! The update sets of a k-modal workload (MULTILOG section 3, table 3).

use crate::ModelError;

/// Tolerance for the sums of sizes and of shares: if they differ from 1 by no more, they are taken
/// for rounded fractions.
const ROUNDING: f64 = 1e-6;

/// k sets of pages; within a set all pages have the same update frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateSets {
    sizes: Vec<f64>,
    shares: Vec<f64>,
}

impl UpdateSets {
    /// Sets of these `sizes` (fractions of all logical pages: MULTILOG's s_i, each above 0) and
    /// `shares` of all updates (f_si, each 0 or above: a set that is never updated is allowed).
    /// Both must add up to 1 within 1e-6, and are then scaled to it.
    ///
    /// # Errors
    /// [`ModelError`] if the lists do not fit together, an entry is out of range, or a sum is
    /// not 1.
    pub fn new(sizes: &[f64], shares: &[f64]) -> Result<Self, ModelError> {
        if sizes.len() != shares.len() {
            return Err(ModelError::LengthMismatch {
                sizes: sizes.len(),
                what: "shares of updates",
                given: shares.len(),
            });
        }
        let checked = |what, list: &[f64], least_open: bool, right| {
            for (index, &value) in list.iter().enumerate() {
                if !(value.is_finite() && (value > 0.0 || (value == 0.0 && !least_open))) {
                    return Err(ModelError::EntryOutOfRange { what, index, value, right });
                }
            }
            let sum: f64 = list.iter().sum();
            if (sum - 1.0).abs() > ROUNDING {
                return Err(ModelError::NotAWhole { what, sum });
            }
            Ok(list.iter().map(|value| value / sum).collect())
        };
        Ok(Self {
            sizes: checked("set sizes", sizes, true, "a fraction above 0")?,
            shares: checked("shares of updates", shares, false, "a fraction, 0 or above")?,
        })
    }

    /// Makes sets from the number of pages of each and the update weight of all its pages together,
    /// in any unit.
    pub(crate) fn from_totals(pages: &[u64], weights: &[f64]) -> Self {
        let all_pages: f64 = pages.iter().map(|&p| p as f64).sum();
        let all_weight: f64 = weights.iter().sum();
        debug_assert!(all_pages > 0.0 && all_weight > 0.0);
        Self {
            sizes: pages.iter().map(|&p| p as f64 / all_pages).collect(),
            shares: weights.iter().map(|w| w / all_weight).collect(),
        }
    }

    /// The two sets of MULTILOG 4.2: the first of size `size` (above 0 and below 1), its pages
    /// updated `frequency_ratio` (f_r, above 0) times as often as the others.
    ///
    /// # Errors
    /// [`ModelError`] if either is out of range.
    pub fn two(size: f64, frequency_ratio: f64) -> Result<Self, ModelError> {
        ModelError::check(
            size > 0.0 && size < 1.0,
            "size of the first set",
            size,
            "above 0 and below 1",
        )?;
        let right = "a number above 0";
        ModelError::check(
            frequency_ratio > 0.0 && frequency_ratio.is_finite(),
            "frequency ratio",
            frequency_ratio,
            right,
        )?;
        let total = frequency_ratio * size + (1.0 - size);
        Ok(Self {
            sizes: vec![size, 1.0 - size],
            shares: vec![frequency_ratio * size / total, (1.0 - size) / total],
        })
    }

    /// Fractions of all logical pages; they add up to 1.
    #[must_use]
    pub fn sizes(&self) -> &[f64] {
        &self.sizes
    }

    /// Fractions of all updates; they add up to 1.
    #[must_use]
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The number of sets, k.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Never true: there is at least one set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sets_are_told() {
        let told =
            |sizes: &[f64], shares: &[f64]| UpdateSets::new(sizes, shares).unwrap_err().to_string();
        assert_eq!(told(&[1.0], &[]), "1 set sizes but 0 shares of updates: give one for each set");
        assert_eq!(
            told(&[1.0, 0.0], &[0.5, 0.5]),
            "set sizes [1] is 0: it must be a fraction above 0"
        );
        assert_eq!(
            told(&[0.5, 0.5], &[1.5, -0.5]),
            "shares of updates [1] is -0.5: it must be a fraction, 0 or above"
        );
        assert_eq!(
            told(&[0.5, 0.25], &[0.5, 0.5]),
            "set sizes add up to 0.75: they must add up to 1"
        );
        assert!(UpdateSets::new(&[], &[]).is_err());
        assert!(UpdateSets::new(&[f64::NAN], &[1.0]).is_err());
    }

    #[test]
    fn two_sets_keep_the_frequency_ratio() {
        let sets = UpdateSets::two(0.2, 16.0).unwrap();
        assert!((sets.shares()[0] - 0.8).abs() < 1e-12);
    }
}
