//! What shapes writes before they reach a device: layers that stack, between a host above and a
//! device below.
//!
//! A [`Layer`] is a state machine without I/O. It takes commands, replies and the time, and gives
//! out commands, replies and the time at which it wants to be woken. The same code runs over a
//! simulated drive in virtual time, over a real device (`devices::Stacked`), and in tests that cut
//! the power at every write (`faults`). The contract that all of them keep stands at [`Layer`].
//!
//! A layer with a form on the device is made by [`format`], and opened, after a crash or not, by
//! [`open`], which recovers it. This crate does no I/O, reads no clock, and draws only from seeded
//! generators.

mod data;
mod error;
mod facts;
mod gather;
mod layer;
mod log_volume;
mod registered;
pub mod scheduler;
mod stable_buffer;
mod stack;
mod store;
mod time;

pub use data::Data;
pub use error::LayerError;
pub use facts::{Facts, PatternTimes, Piece, Thresholds};
pub use gather::{Gather, Part};
pub use layer::{Actions, Command, Failure, Layer, Limits, Reply, Signal};
pub use registered::{Counter, Entry, LAYERS, Making, Opened, format, open, parse};
pub use stack::Stack;
pub use store::{Sparse, Store, Through, carry_out};
