//! All tests of the crate from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod field;
mod formats;
mod robust;
mod round_trip;
mod tables;
