//! The write-amplification simulator: an FTL without a clock, fed from a [`units::PageSource`].

mod run;
mod steady;
mod wear;

pub use run::{CountedWindow, CountingSettings, Outcome, RunError, Start, StreamOutcome, simulate};
pub use steady::{SteadyState, steady_state};
pub use wear::{Wear, histogram as erase_histogram};
