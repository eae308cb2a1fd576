//! All tests of the crate from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod absent_data;
mod bad_sectors;
mod errors;
mod planted;
mod rot;
mod short_campaign;
