//! Estimators of how often a page is updated (MULTILOG 5.1): MultiLog works with any.

use units::Lpn;

use super::frequency::Frequencies;
use crate::Device;

/// The values of the parameter `estimator`.
pub(super) const NAMES: &[&str] = &["lru_1", "oracle"];

/// An estimator of update frequency. MULTILOG has two, which bound what a better one could gain.
#[derive(Debug)]
pub(super) enum Estimator {
    /// From the distance between the last two writes of a page. Of each log the mean frequency is
    /// counted, by which distances in host writes become distances in updates of the log.
    Lru1(Frequencies),
    /// Exact, by analysing the load in advance.
    Oracle(Oracle),
}

impl Estimator {
    /// The log's share of host writes, f_s.
    #[inline]
    pub fn share(&self, log: usize, device: &Device) -> f64 {
        match self {
            Self::Lru1(frequencies) => frequencies.share(log, device),
            Self::Oracle(oracle) => oracle.shares[log],
        }
    }
}

/// Number of powers of two that are distinguished.
const BINS: usize = 64;

/// The log of each page by its known frequency, and the share of updates of each log.
///
/// The frequencies of a log are within a factor of two (MULTILOG 4.2.1). Logs that would be smaller
/// than the least size are joined with the next colder one.
#[derive(Debug)]
pub(super) struct Oracle {
    log_of_page: Vec<u8>,
    shares: Vec<f64>,
}

impl Oracle {
    /// Sorts pages by their `weights`, update frequencies in any unit, into at most `most_logs`
    /// logs (1 to 64) of at least `least_pages`.
    pub fn new(weights: &[f64], least_pages: u32, most_logs: usize) -> Self {
        let (log_of_bin, bin_of_page) = bins(weights, least_pages, most_logs as u8);
        let log_of_page: Vec<u8> =
            bin_of_page.iter().map(|&bin| log_of_bin[bin as usize]).collect();
        let logs = usize::from(*log_of_bin.iter().max().expect("there is at least one bin")) + 1;
        let mut shares = vec![0.0; logs];
        let total: f64 = weights.iter().sum();
        for (&log, &weight) in log_of_page.iter().zip(weights) {
            shares[usize::from(log)] += weight / total;
        }
        Self { log_of_page, shares }
    }

    /// The number of logs, 1 or more.
    pub fn logs(&self) -> usize {
        self.shares.len()
    }

    /// The page's log, 0 being the hottest.
    #[inline]
    pub fn log_of(&self, lpn: Lpn) -> usize {
        usize::from(self.log_of_page[lpn.index()])
    }
}

/// The bin of each page, by the power of two of its frequency below the highest one; then the log
/// of each bin.
fn bins(weights: &[f64], least_pages: u32, most_logs: u8) -> (Vec<u8>, Vec<u8>) {
    let highest = weights.iter().copied().fold(0.0, f64::max);
    let bin = |weight: f64| {
        if weight > 0.0 {
            ((highest / weight).log2().round() as usize).min(BINS - 1)
        } else {
            BINS - 1
        }
    };
    let bin_of_page: Vec<u8> = weights.iter().map(|&weight| bin(weight) as u8).collect();
    let mut pages = [0u32; BINS];
    for &bin in &bin_of_page {
        pages[usize::from(bin)] += 1;
    }
    let mut log_of_bin = vec![0u8; BINS];
    let mut log = 0u8;
    let mut held = 0;
    for bin in 0..BINS {
        if held >= least_pages && pages[bin] > 0 && log + 1 < most_logs {
            log += 1;
            held = 0;
        }
        log_of_bin[bin] = log;
        held += pages[bin];
    }
    // If the last log stayed below the least size, it is joined with the one above.
    if held < least_pages && log > 0 {
        for entry in &mut log_of_bin {
            *entry = (*entry).min(log - 1);
        }
    }
    (log_of_bin, bin_of_page)
}
