//! All tests of the crate from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod paces;
mod support;
mod traces;
