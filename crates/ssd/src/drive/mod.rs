//! The simulated drive: the FTL with a clock.
//!
//! A [`profile`] says what a drive is made of. [`visit_drive`] makes it: a [`device::Drive`] with a
//! [`schemes::Scheme`] over [`media::Media`]. [`run::simulate`] puts it into a [`state::State`],
//! plays requests on it at a [`load::Pace`], and [`measure`]s.

pub mod array;
mod build;
mod counters;
pub mod device;
pub mod dram;
mod layout;
pub mod load;
pub mod logs;
pub mod measure;
pub mod media;
pub mod profile;
pub mod run;
pub mod schemes;
pub mod state;
pub mod time;
pub mod timers;

pub use build::{DriveError, DriveVisitor, visit_drive};
