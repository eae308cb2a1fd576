//! The device: the flash translation layer and its media.
//!
//! Mapping, placement, victim choice and cleaning are written once in [`ftl`]. On the counting
//! medium it is a write-amplification simulator ([`counting`]); a timed medium makes it a device
//! with latencies. [`steady`] judges the figures of both.

pub mod counting;
pub mod drive;
pub mod steady;
