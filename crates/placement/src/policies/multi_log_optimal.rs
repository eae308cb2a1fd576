//! MultiLog-Optimal: MultiLog whose estimator is an oracle that knows how often each page is
//! updated.

use registry::{Args, Info};
use units::{Lpn, StreamId};

use super::multi_log::{min_log_pages, space};
use crate::{BuildError, Context, Device, Placement, Previous, Survivors};

/// What the registry knows.
pub const INFO: Info = Info {
    name: "multi_log_optimal",
    aliases: &["multilog_optimal", "multi_log_oracle"],
    summary: "MultiLog with known update frequencies: what the LRU-1 estimator leaves on the \
              table; no limit for writes with an order in time",
    source: "MULTILOG 5.1 (the Oracle), 6.2",
    params: &[],
};

/// The victim policy of its authors: LRU within a log.
pub const VICTIM: &str = "lru";

/// State, in bytes a logical page.
pub const BYTES_PER_PAGE: u32 = 1;

/// Powers of two that are told apart.
const BINS: usize = 64;

/// Each page belongs to the log of its update frequency; frequencies of a log are within a factor
/// of two (MULTILOG 4.2.1), and logs that would be smaller than the least size are joined with the
/// next colder one. Nothing moves between logs but space.
///
/// It is what perfect estimation gains where updates are independent. A trace whose pages are
/// written in bursts or in a circle has order that frequencies do not tell, and there it may do
/// worse than policies that follow recency.
#[derive(Debug)]
pub struct MultiLogOptimal {
    log_of_page: Vec<u8>,
    update_shares: Vec<f64>,
    left_out: usize,
}

impl MultiLogOptimal {
    /// The policy for this device.
    ///
    /// # Errors
    /// [`BuildError::NeedsWeights`] if the context does not tell how often pages are updated.
    ///
    /// # Panics
    /// If the weights are not one for each logical page.
    pub fn build(_args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let weights = context.page_weights.ok_or(BuildError::NeedsWeights(INFO.name))?();
        let geometry = context.geometry;
        assert_eq!(
            weights.len(),
            geometry.logical_pages as usize,
            "one weight for each logical page"
        );
        let least = min_log_pages(
            geometry.logical_pages,
            geometry.page_bytes,
            geometry.pages_per_erase_block,
        );
        let asked = usize::from(most_logs(geometry.spare_blocks()));
        let most_logs = asked.min(context.most_streams.max(1));
        let (log_of_bin, bin_of_page) = bins(&weights, least, most_logs as u8);
        let log_of_page: Vec<u8> =
            bin_of_page.iter().map(|&bin| log_of_bin[bin as usize]).collect();
        let logs = usize::from(*log_of_bin.iter().max().expect("there is at least one bin")) + 1;
        let mut update_shares = vec![0.0; logs];
        let total: f64 = weights.iter().sum();
        for (&log, &weight) in log_of_page.iter().zip(&weights) {
            update_shares[usize::from(log)] += weight / total;
        }
        Ok(Self { log_of_page, update_shares, left_out: asked - most_logs })
    }
}

/// Greatest number of logs: each costs about half an erase block of the spare space for its
/// frontier. Frequencies that would need more are joined with the coldest log.
fn most_logs(spare_blocks: u32) -> u8 {
    (spare_blocks / 8).clamp(1, 64) as u8
}

/// Bin of each page by the power of two of its frequency below the highest one, and log of each
/// bin.
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
    // A last log that stayed below the least size is joined with the one above.
    if held < least_pages && log > 0 {
        for entry in &mut log_of_bin {
            *entry = (*entry).min(log - 1);
        }
    }
    (log_of_bin, bin_of_page)
}

impl Placement for MultiLogOptimal {
    const PER_STREAM: bool = true;
    const USES_PREVIOUS: bool = false;

    fn streams(&self) -> usize {
        self.update_shares.len()
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, _device: &Device) -> StreamId {
        StreamId(u32::from(self.log_of_page[lpn.index()]))
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        to.fill(survivors.stream);
    }

    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        let (log, logs) = (needy.index(), self.update_shares.len());
        let shares = |log: usize| self.update_shares[log];
        let neighbours = log.saturating_sub(1)..(log + 2).min(logs);
        space::donor(neighbours, device, shares)
            .or_else(|| space::donor(0..logs, device, shares))
            .unwrap_or(log)
    }

    fn stream_label(&self, stream: StreamId) -> String {
        format!("log {}{}", stream.0, if stream.0 == 0 { " (hottest)" } else { "" })
    }
}
