//! Layers that shape writes before they reach a device: they stack, between a host above and a
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
mod counter;
mod driver;
mod entry;
mod error;
mod facts;
#[cfg(test)]
mod flawed;
mod gather;
mod hash;
mod holes;
mod layer;
mod log_volume;
mod making;
mod memory;
mod meter;
mod replicas;
mod resize;
pub mod scheduler;
mod scrub;
mod stable_buffer;
mod stack;
mod stacks;
mod staging;
mod structures;
mod time;

pub use counter::Counter;
pub use driver::Driver;
pub use entry::{Addresses, Entry, Opened, Settled};
pub use error::LayerError;
pub use facts::{EquationPiece, Facts, PatternTimes, Thresholds};
pub use gather::{Gather, ParentPart};
pub use holes::Flaw as HolesFlaw;
pub use layer::{Actions, Layer};
pub use making::Making;
pub use memory::{Memory, Sized};
pub use meter::{Meter, Sample, Sent, Watch};
pub use resize::{Change, Changes, Resizing};
pub use scrub::ScrubState;
pub use stack::Stack;
pub use stacks::{
    LAYERS, Placed, StackMemory, area_of, bytes_with_area, capacity, format, lay_area, memory,
    open, open_flawed, parse, resize, salvage, settled, structures,
};
pub use staging::{Area, Aside};
pub use structures::Region;

// The types that all layers use.
use block::{Command, Data, Extent, Failure, Limits, Reply, Signal, Store};
