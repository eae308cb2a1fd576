//! MultiLog-Optimal: MultiLog with the oracle as its estimator, under the name that comparisons
//! list.

use registry::{Args, Info, Spec};

use super::multi_log::{self, MultiLog};
use crate::{BuildError, Context};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "multi_log_optimal",
    aliases: &["multilog_optimal", "multi_log_oracle"],
    summary: "multi_log(estimator=oracle), MultiLog with known update frequencies: what the LRU-1 \
              estimator leaves on the table; no limit for writes with an order in time",
    source: "MULTILOG 5.1 (the Oracle), 6.2",
    params: &[],
};

/// The victim policy of its authors: LRU within a log.
pub const VICTIM: &str = multi_log::VICTIM;

/// State per logical page, in bytes: the log of each page.
pub const BYTES_PER_PAGE: u32 = 1;

/// It shows the gain of perfect estimation where updates are independent. A trace whose pages are
/// written in bursts or in a circle has an order that frequencies do not show, and there it may do
/// worse than policies that follow recency.
#[derive(Debug)]
pub struct MultiLogOptimal;

impl MultiLogOptimal {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// [`BuildError::NeedsWeights`] if the context does not give the update frequencies of pages.
    ///
    /// # Panics
    /// If there is not one weight for each logical page.
    pub fn build(_args: &Args, context: &Context<'_>) -> Result<MultiLog, BuildError> {
        if context.page_weights.is_none() {
            return Err(BuildError::NeedsWeights(INFO.name));
        }
        let oracle = Spec {
            name: multi_log::INFO.name.to_owned(),
            given: vec![("estimator".to_owned(), "oracle".to_owned())],
        };
        MultiLog::build(&multi_log::INFO.accept(&oracle)?, context)
    }
}
