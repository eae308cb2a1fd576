//! Plays a recorded trace on a [`block::BlockDevice`], and measures how the device answers and how
//! well the trace's clock was kept.
//!
//! A trace goes through stages, each of constant memory: [`ReplayTrace`] reads it, [`Selection`]
//! takes a part of it, a [`Fit`] finds a place on the device for every request, a thread of its own
//! reads ahead, and [`play`] sends the requests in the order of the trace, beside other flows.

mod checkpoints;
mod error;
mod fit;
mod kept;
mod measured;
mod play;
mod recorded;
mod selection;
mod trace;
mod windows;

pub use checkpoints::Flushing;
pub use error::ReplayError;
pub use fit::{Fit, Fitted, FittedCounts, Region, Remap};
pub use kept::{Ending, Found, Keeping, Kept, KeptError, WrongData};
pub use measured::{Failure, Measured, OpMeasured};
pub use play::{Played, Playing, flow, play};
pub use player::Pace;
pub use recorded::Recorded;
pub use selection::{Selected, Selection};
pub use trace::{ReplayTrace, Totals};
pub use windows::{Window, Windows};
