//! All tests of the crate from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
mod drive;
mod drive_array;
mod drive_bug_bench;
mod drive_closed_forms;
mod drive_determinism;
mod drive_fdp;
mod drive_flush;
mod drive_host_memory;
mod drive_occupied;
mod drive_odd_profiles;
mod drive_parity;
mod drive_policies;
mod drive_properties;
mod drive_raid;
mod drive_replicas;
mod drive_replication;
mod drive_retries;
mod drive_slc;
mod drive_superblocks;
mod drive_tails;
mod drive_trims;
mod drive_zones;
mod golden;
mod hazard;
mod policy_events;
mod purposes;
mod theory;
