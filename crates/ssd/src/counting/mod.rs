//! The write-amplification simulator: an FTL without a clock, fed from a [`units::PageSource`].

mod run;
mod steady;
mod wear;

pub use run::{Outcome, RunError, Settings, Start, StreamOutcome, Window, simulate};
pub use steady::{SteadyState, steady_state};
pub use wear::{Wear, histogram as erase_histogram};
