//! Plays a recorded trace on a [`block::BlockDevice`], and measures how the device answers and how
//! well the trace's clock was kept.
//!
//! A trace goes through stages, each of constant memory: [`ReplayTrace`] reads it, [`Selection`]
//! takes a part of it, a [`Fit`] finds a place on the device for every request, a thread of its own
//! reads ahead, and [`play`] sends the requests in the order of the trace.

mod ahead;
mod checkpoints;
mod error;
mod fit;
mod measured;
mod pace;
mod play;
mod recorded;
mod selection;
mod trace;
mod windows;

pub use ahead::{Ahead, Next, ReadAhead};
pub use checkpoints::Flushing;
pub use error::ReplayError;
pub use fit::{Fit, Fitted, FittedCounts, Region, Remap};
pub use measured::{Failure, Measured, OpMeasured};
pub use pace::Pace;
pub use play::{Played, Settings, play, play_with};
pub use recorded::Recorded;
pub use selection::{Selected, Selection};
pub use trace::{ReplayTrace, Totals};
pub use windows::{Window, Windows};
