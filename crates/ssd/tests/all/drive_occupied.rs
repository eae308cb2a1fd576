//! Cleaning that keeps its die until the erase block is clean.

use crate::drive_properties::{any_drive, any_request, asks, build, check, config, pick};
use crate::drive_replication::played;
use proptest::prelude::*;
use units::IoOp;

proptest! {
    #![proptest_config(config())]

    /// Drives whose dies are reserved for cleaning: every read finds data that a disk may hold,
    /// pages of an erase block are programmed in order, and nothing is left over.
    #[test]
    fn a_die_that_is_kept_for_cleaning_keeps_every_promise(
        keys in any_drive(),
        raw in prop::collection::vec(any_request(), 150..500),
        depth in prop_oneof![Just(1usize), Just(4), Just(32)],
        allocation in pick(&["available", "dynamic", "static"]),
        random: u64,
    ) {
        let scheme = format!("page_mapped(allocation={allocation})");
        let changes = [("ftl.scheme", &*scheme), ("cleaning.occupies_die", "true")];
        let profile = build(&keys, &changes);
        check(&profile, random, &asks(&profile, &raw), depth);
    }
}

/// The idea: a read that comes while an erase block is cleaned waits for all of that, not for a
/// command of it. What is written to flash stays the same but for the order.
#[test]
fn a_read_waits_until_the_erase_block_is_clean() {
    let (in_turns, kept) = (played(&[], 80), played(&[("cleaning.occupies_die", "true")], 80));
    let longest = [&in_turns, &kept].map(|outcome| outcome.latencies.of(IoOp::Read).latency.p999);
    assert!(2 * longest[1] > 3 * longest[0], "99.9th percentiles of reads: {longest:?} ns");
    let ratio = kept.write_amplification / in_turns.write_amplification;
    assert!((ratio - 1.0).abs() < 0.05, "{} and {}", kept.write_amplification, ratio);
}
