//! Experiments that find out what a drive does and how it is made, from outside: by the times of
//! requests alone.
//!
//! An [`Experiment`] runs on a [`Bench`], which plays flows on a [`block::BlockDevice`] and
//! measures them, and gives a [`Finding`]: curves, and values each with what is to be believed of
//! it. Experiments cannot tell a real device from a simulated one. What one finds, later ones use
//! ([`Known`]). [`analysis`] holds the statistics, free of devices.

pub mod analysis;
pub mod bench;
pub mod cell;
mod error;
pub mod experiments;
mod finding;
pub mod fit;
mod known;
pub mod protocol;

pub use bench::{Bench, Flow, Limit, Measured, Pace, Region, Settings, closed, flow};
pub use error::ProbeError;
pub use experiments::{EXPERIMENTS, Experiment, Group, find};
pub use finding::{Axis, Chart, Finding, Mark, Point, Series, Value, Verdict};
pub use known::Known;
