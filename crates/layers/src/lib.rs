//! What shapes writes before they reach a device: layers that stack, between a host above and a
//! device below.
//!
//! A [`Layer`] is a state machine without I/O. It takes commands, replies and the time, and gives
//! out commands, replies and the time at which it wants to be woken. A [`Driver`] runs a [`Stack`]
//! of them over any [`block::BlockDevice`], and is one itself: a simulated drive in virtual time, a
//! real device, or the device of a test that cuts the power at every write (`faults`).
//!
//! A layer with a form on the device is made by [`format()`], and opened, after a crash or not, by
//! [`open`], which recovers it. This crate does no I/O, reads no clock, and draws only from seeded
//! generators.

mod checksums;
mod driver;
mod error;
mod facts;
#[cfg(test)]
mod flawed;
mod gather;
mod hash;
mod layer;
mod log_volume;
mod memory;
mod meter;
mod registered;
mod replicas;
mod resize;
pub mod scheduler;
mod scrub;
mod stable_buffer;
mod stack;
mod staging;
mod structures;
mod time;

pub use driver::{Driver, Watch};
pub use error::LayerError;
pub use facts::{EquationPiece, Facts, PatternTimes, Thresholds};
pub use gather::{Gather, ParentPart};
pub use layer::{Actions, Layer};
pub use memory::{Memory, Sized, StackMemory, memory};
pub use meter::{Meter, Sample, Sent};
pub use registered::{
    Addresses, Counter, Entry, LAYERS, Making, Opened, Settled, format, open, parse, salvage,
    settled,
};
pub use resize::{Change, Changes, Resizing, capacity, resize};
pub use scrub::ScrubState;
pub use stack::Stack;
pub use staging::{Area, Aside, area_of, bytes_with_area, lay_area};
pub use structures::{Placed, Region, structures};

// What all layers speak of.
use block::{Command, Data, Failure, Limits, Reply, Signal, Store};
