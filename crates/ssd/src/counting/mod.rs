//! The write-amplification simulator: an FTL without a clock, fed from a [`units::PageSource`].

mod run;
mod wear;

pub use run::{
    CountedWindow, CountingSettings, Outcome, RunError, Start, StreamOutcome, simulate,
    simulate_policy,
};
pub use wear::{Wear, histogram as erase_histogram};
