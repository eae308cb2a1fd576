//! The least cleaning cost of any workload (MULTILOG 4.3.3, Algorithm 1).

use crate::{ModelError, UpdateSets, divide_space};

/// Grouping of pages into sets by update frequency (Algorithm 1, line 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binning {
    /// Frequencies within a factor of two of each other, counted down from the hottest page: the
    /// sets that MULTILOG's placement keeps (section 5) and that its section 4.2.1 finds to be near
    /// the least ("frequencies can vary by up to +-50 %").
    PowersOfTwo,
    /// Frequencies within this factor of each other, counted down from the hottest page; 1.001 or
    /// above.
    Ratio(f64),
    /// Every distinct frequency is a set of its own. With more than 65,536 distinct frequencies,
    /// `Ratio(1.001)` takes its place, which changes the cost by less than one part in a million;
    /// [`UpdateBins::binning`] tells which one was used.
    Exact,
}

impl Binning {
    const MOST_EXACT_SETS: usize = 1 << 16;
    const FINE: Self = Self::Ratio(1.001);

    fn checked_ratio(self) -> Result<Option<f64>, ModelError> {
        match self {
            Self::PowersOfTwo => Ok(Some(2.0)),
            Self::Ratio(ratio) => {
                ModelError::check(
                    ratio.is_finite() && ratio >= 1.001,
                    "ratio of the bins",
                    ratio,
                    "1.001 or above",
                )?;
                Ok(Some(ratio))
            }
            Self::Exact => Ok(None),
        }
    }
}

/// A set of pages of similar update frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Number of pages.
    pub pages: u64,
    /// Update weight of all its pages together, in the unit of the input.
    pub weight: f64,
    /// Weight of its coldest page.
    pub lowest: f64,
    /// Weight of its hottest page.
    pub highest: f64,
}

/// Pages grouped by update frequency, hottest first; pages that are never updated are the last bin.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateBins {
    bins: Vec<Bin>,
    binning: Binning,
}

/// The least cleaning cost, and the division of space that reaches it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The over-provisioning that was divided.
    pub over_provisioning: f64,
    /// The bins, hottest first.
    pub bins: Vec<Bin>,
    /// Size of each bin as a fraction of all pages: s_i.
    pub sizes: Vec<f64>,
    /// Fraction of the updates that goes to each bin: f_si.
    pub shares: Vec<f64>,
    /// Spare space of each bin as a fraction of all pages: beta_i. Adds up to the
    /// over-provisioning.
    pub betas: Vec<f64>,
    /// p_gc of each bin; 1 for pages that are never updated.
    pub p_gc: Vec<f64>,
    /// Relocation writes for each host write, all bins together (eq. 13).
    pub cleaning_cost: f64,
    /// Page programs for each host write.
    pub write_amplification: f64,
}

impl Bound {
    /// p_gc of the device as a whole: relocation writes / all page programs.
    #[must_use]
    pub fn p_gc_overall(&self) -> f64 {
        self.cleaning_cost / self.write_amplification
    }
}

impl UpdateBins {
    /// Groups pages by `weights`, the update frequency of each page in any unit (finite, 0 or
    /// above).
    ///
    /// An entry of 0 is a page that holds data and is never updated: it takes its place on the
    /// flash and no spare space. A page that was never written at all holds no data: leave it out.
    /// A page that a trace writes exactly once is part of the footprint; whether that one write is
    /// an update (weight 1) or the first fill (weight 0) is for the caller to say: with a device
    /// that starts filled it is an update.
    ///
    /// # Errors
    /// [`ModelError`] if a weight is out of range, none is above 0, or the bins' ratio is out of
    /// range.
    pub fn of_weights(weights: &[f64], binning: Binning) -> Result<Self, ModelError> {
        let ratio = binning.checked_ratio()?;
        for (index, &value) in weights.iter().enumerate() {
            if !(value >= 0.0 && value.is_finite()) {
                let right = "finite and 0 or above";
                return Err(ModelError::EntryOutOfRange {
                    what: "update weights",
                    index,
                    value,
                    right,
                });
            }
        }
        let Some(ratio) = ratio else {
            let mut sorted = weights.to_vec();
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
            let groups: Vec<Bin> = sorted
                .chunk_by(|a, b| a == b)
                .map(|equal| Bin::of_equal(equal[0], equal.len() as u64))
                .collect();
            return Self::exact_or_fine(groups);
        };
        Self::by_ratio(weights.iter().map(|&weight| (weight, 1)), binning, ratio)
    }

    /// Groups pages by `counts`, the number of updates of each page. As [`UpdateBins::of_weights`]
    /// otherwise, and faster.
    ///
    /// # Errors
    /// [`ModelError`] if no count is above 0, or the bins' ratio is out of range.
    pub fn of_counts(counts: &[u32], binning: Binning) -> Result<Self, ModelError> {
        // Counting the pages of each count in a table is as good as sorting, unless a page was
        // updated extremely often.
        const LARGEST_TABLE: u32 = 1 << 24;
        let ratio = binning.checked_ratio()?;
        let most = counts.iter().copied().max().unwrap_or(0);
        let groups: Vec<(f64, u64)> = if most < LARGEST_TABLE {
            let mut pages = vec![0_u64; most as usize + 1];
            counts.iter().for_each(|&count| pages[count as usize] += 1);
            pages
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, pages)| **pages > 0)
                .map(|(count, &pages)| (count as f64, pages))
                .collect()
        } else {
            let mut sorted = counts.to_vec();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted
                .chunk_by(|a, b| a == b)
                .map(|equal| (f64::from(equal[0]), equal.len() as u64))
                .collect()
        };
        match ratio {
            None => Self::exact_or_fine(
                groups.into_iter().map(|(count, pages)| Bin::of_equal(count, pages)).collect(),
            ),
            Some(ratio) => Self::by_ratio(groups.into_iter(), binning, ratio),
        }
    }

    fn exact_or_fine(groups: Vec<Bin>) -> Result<Self, ModelError> {
        if groups.len() > Binning::MOST_EXACT_SETS {
            return Self::by_ratio(
                groups.iter().map(|group| (group.highest, group.pages)),
                Binning::FINE,
                1.001,
            );
        }
        Self { bins: groups, binning: Binning::Exact }.not_idle()
    }

    fn by_ratio(
        groups: impl Iterator<Item = (f64, u64)> + Clone,
        binning: Binning,
        ratio: f64,
    ) -> Result<Self, ModelError> {
        let (mut hottest, mut coldest) = (0.0_f64, f64::INFINITY);
        for (weight, _) in groups.clone() {
            hottest = hottest.max(weight);
            coldest = if weight > 0.0 { coldest.min(weight) } else { coldest };
        }
        // The logarithm of each page is the cost of this pass. Rounding may shift a bin's edge,
        // which is accounted for in its mean.
        let (top, scale) = (hottest.log2(), 1.0 / ratio.log2());
        let place = |weight: f64| ((top - weight.log2()) * scale).max(0.0) as usize;
        let idle = if hottest > 0.0 { place(coldest) + 1 } else { 0 };
        let mut bins =
            vec![Bin { pages: 0, weight: 0.0, lowest: f64::INFINITY, highest: 0.0 }; idle + 1];
        for (weight, pages) in groups {
            let bin = &mut bins[if weight > 0.0 { place(weight) } else { idle }];
            bin.pages += pages;
            bin.weight += weight * pages as f64;
            bin.lowest = bin.lowest.min(weight);
            bin.highest = bin.highest.max(weight);
        }
        bins.retain(|bin| bin.pages > 0);
        Self { bins, binning }.not_idle()
    }

    fn not_idle(self) -> Result<Self, ModelError> {
        if self.bins.iter().any(|bin| bin.weight > 0.0) {
            Ok(self)
        } else {
            Err(ModelError::NoUpdates {
                pages: self.bins.iter().map(|bin| bin.pages as usize).sum(),
            })
        }
    }

    /// The bins, hottest first.
    #[must_use]
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// The grouping used: the requested one, unless [`Binning::Exact`] met too many distinct
    /// frequencies.
    #[must_use]
    pub fn binning(&self) -> Binning {
        self.binning
    }

    /// The bins as update sets.
    #[must_use]
    pub fn update_sets(&self) -> UpdateSets {
        let pages: Vec<u64> = self.bins.iter().map(|bin| bin.pages).collect();
        let weights: Vec<f64> = self.bins.iter().map(|bin| bin.weight).collect();
        UpdateSets::from_totals(&pages, &weights)
    }

    /// Algorithm 1, lines 2-10: each bin in its own log, updated as if all its pages were equally
    /// hot, and `over_provisioning` (above 0, at most 100) divided optimally between the logs. The
    /// space is divided by [`divide_space`], not by the paper's iteration: the result is the same,
    /// and it never gets stuck.
    ///
    /// It is the least cost that placement by frequency can reach with LRU within each log, for
    /// updates drawn independently of the past. Finer bins make it lower, never higher; with
    /// [`Binning::Exact`] it is the least over all ways to bin.
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] if the over-provisioning is.
    pub fn bound(&self, over_provisioning: f64) -> Result<Bound, ModelError> {
        let sets = self.update_sets();
        let division = divide_space(&sets, over_provisioning)?;
        Ok(Bound {
            over_provisioning,
            bins: self.bins.clone(),
            sizes: sets.sizes().to_vec(),
            shares: sets.shares().to_vec(),
            write_amplification: division.write_amplification(),
            cleaning_cost: division.cleaning_cost,
            betas: division.betas,
            p_gc: division.p_gc,
        })
    }
}

impl Bin {
    fn of_equal(weight: f64, pages: u64) -> Self {
        Self { pages, weight: weight * pages as f64, lowest: weight, highest: weight }
    }
}

/// The least cleaning cost of pages with these update `weights`: [`UpdateBins::of_weights`], then
/// [`UpdateBins::bound`].
///
/// # Errors
/// As these two.
pub fn cleaning_cost_bound(
    weights: &[f64],
    over_provisioning: f64,
    binning: Binning,
) -> Result<Bound, ModelError> {
    UpdateBins::of_weights(weights, binning)?.bound(over_provisioning)
}

/// The least cleaning cost of pages with these numbers of updates: [`UpdateBins::of_counts`], then
/// [`UpdateBins::bound`].
///
/// # Errors
/// As these two.
pub fn cleaning_cost_bound_of_counts(
    counts: &[u32],
    over_provisioning: f64,
    binning: Binning,
) -> Result<Bound, ModelError> {
    UpdateBins::of_counts(counts, binning)?.bound(over_provisioning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_keep_every_page_and_all_weight() {
        let weights = [8.0, 4.1, 4.0, 3.9, 1.0, 0.0, 0.0];
        let bins = UpdateBins::of_weights(&weights, Binning::PowersOfTwo).unwrap();
        let pages: Vec<u64> = bins.bins().iter().map(|bin| bin.pages).collect();
        assert_eq!(pages, [2, 2, 1, 2]);
        assert_eq!(bins.bins()[1], Bin { pages: 2, weight: 7.9, lowest: 3.9, highest: 4.0 });
        assert!(bins.bins()[3].highest == 0.0);
        let exact = UpdateBins::of_weights(&weights, Binning::Exact).unwrap();
        assert_eq!((exact.bins().len(), exact.binning()), (6, Binning::Exact));
    }

    #[test]
    fn too_many_distinct_frequencies_are_binned_finely_and_told() {
        let weights: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let bins = UpdateBins::of_weights(&weights, Binning::Exact).unwrap();
        assert_eq!(bins.binning(), Binning::Ratio(1.001));
        let sizes = vec![1e-5; weights.len()];
        let sum: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|w| w / sum).collect();
        for alpha in [0.05, 0.2, 1.0] {
            let each_page_its_own =
                divide_space(&UpdateSets::new(&sizes, &shares).unwrap(), alpha).unwrap();
            let relative =
                bins.bound(alpha).unwrap().cleaning_cost / each_page_its_own.cleaning_cost - 1.0;
            assert!((0.0..1e-6).contains(&relative), "{relative}");
        }
    }

    #[test]
    fn impossible_inputs_are_told() {
        let told = |weights: &[f64], binning| {
            UpdateBins::of_weights(weights, binning).unwrap_err().to_string()
        };
        assert_eq!(
            told(&[1.0, -1.0], Binning::Exact),
            "update weights [1] is -1: it must be finite and 0 or above"
        );
        assert_eq!(
            told(&[f64::INFINITY], Binning::PowersOfTwo),
            "update weights [0] is inf: it must be finite and 0 or above"
        );
        assert_eq!(
            told(&[1.0], Binning::Ratio(1.0)),
            "ratio of the bins is 1: it must be 1.001 or above"
        );
        for binning in [Binning::Exact, Binning::PowersOfTwo] {
            assert_eq!(
                UpdateBins::of_weights(&[0.0; 3], binning),
                Err(ModelError::NoUpdates { pages: 3 })
            );
            assert_eq!(
                UpdateBins::of_counts(&[], binning),
                Err(ModelError::NoUpdates { pages: 0 })
            );
        }
    }

    #[test]
    fn huge_counts_take_the_sorted_way_to_the_same_bins() {
        let counts = [u32::MAX, 7, 7, 0, 1 << 24];
        let weights: Vec<f64> = counts.iter().map(|&c| f64::from(c)).collect();
        for binning in [Binning::Exact, Binning::PowersOfTwo, Binning::Ratio(3.0)] {
            assert_eq!(
                UpdateBins::of_counts(&counts, binning),
                UpdateBins::of_weights(&weights, binning)
            );
        }
    }
}
