//! The words that every crate of Flashwright shares: addresses, geometry, requests, time, progress.
//!
//! This crate depends on nothing else in the workspace and does no I/O.

mod divider;
mod geometry;
pub mod heaps;
mod ids;
mod lifetime;
pub mod lists;
mod pages;
mod progress;
mod request;
mod requests;

pub use divider::Divider;
pub use geometry::{Geometry, GeometryError};
pub use ids::{EraseBlockId, Lpn, Ppn, StreamId};
pub use lifetime::Lifetime;
pub use pages::{PageOp, PageSource, SourceError, VecSource, held_fractions};
pub use progress::{Cancelled, Progress};
pub use request::{IoOp, IoRequest, Nanos, PLACEMENT_HANDLES};
pub use requests::{RequestSource, VecRequests};
