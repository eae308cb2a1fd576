//! Wear of the erase blocks.

/// Spread of the erase counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// Mean erases of an erase block.
    pub erases_mean: f64,
    /// Standard deviation.
    pub erases_stddev: f64,
    /// Least.
    pub erases_min: u32,
    /// Greatest.
    pub erases_max: u32,
}

impl Wear {
    /// The spread of these counts.
    #[must_use]
    pub fn of(counts: &[u32]) -> Self {
        if counts.is_empty() {
            return Self::default();
        }
        let n = counts.len() as f64;
        let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / n;
        let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / n;
        Self {
            erases_mean: mean,
            erases_stddev: variance.sqrt(),
            erases_min: counts.iter().copied().min().unwrap_or(0),
            erases_max: counts.iter().copied().max().unwrap_or(0),
        }
    }
}

/// The counts that occur, ascending, with the number of erase blocks of each.
#[must_use]
pub fn histogram(counts: &[u32]) -> Vec<(u32, u64)> {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect()
}
