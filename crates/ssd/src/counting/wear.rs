//! Wear of the erase blocks and the life of the device.

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
pub(super) fn histogram(counts: &[u32]) -> Vec<(u32, u64)> {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect()
}

/// Years until the media has been programmed `endurance_cycles` times over, wear being even.
///
/// `physical_bytes` of media, `host_bytes_per_day` written at `write_amplification`. Infinite if nothing is written.
#[must_use]
pub fn life_years(endurance_cycles: f64, physical_bytes: f64, write_amplification: f64, host_bytes_per_day: f64) -> f64 {
    endurance_cycles * physical_bytes / (write_amplification * host_bytes_per_day) / 365.25
}
