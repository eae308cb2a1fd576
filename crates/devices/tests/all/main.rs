//! All tests of the crate from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod file;
mod hard_disk;
mod loop_device;
mod nvme;
mod support;
