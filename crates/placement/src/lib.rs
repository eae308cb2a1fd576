//! Placement policies: choice of the stream of a page, of the victim, and division of space.
//!
//! Policies decide, mechanisms act: a policy answers questions and is told of events, so that it
//! can keep an index instead of rescanning; it never moves data. The same code runs inside the
//! simulated drive and in the log-structured volume. This crate does no I/O, reads no clock, and
//! draws only from seeded generators.

mod device;
mod future;
pub mod policies;
mod policy;
mod tournament;
pub mod victims;

pub use device::{Block, Device, StreamSpace};
pub use future::Future;
pub use policies::{PLACEMENTS, PlacementEntry, PlacementVisitor, find_placement, visit_placement};
pub use policy::{
    BuildError, Context, Death, Features, Place, Placement, Previous, Pull, Survivors, Victim,
};
pub use victims::{AnyVictim, VICTIMS, build_victim};
