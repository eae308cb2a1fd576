//! Several drives as one: reads that are failed at once, and reads that are hedged.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::sync::Arc;

use ssd::drive::array::{ArrayConfig, ArrayKind, ArrayOutcome, ArrayReads, simulate_array};
use ssd::drive::load::{Pace, flow};
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::{IoOp, IoRequest, Progress, VecRequests};

use crate::drive::{SplitMix, page_request, profile, settings};

/// Four dies a drive, which erase for long, in windows of half of the time.
fn member(changes: &[(&str, &str)]) -> Profile {
    let keys = [
        ("media.channels", "4"),
        ("media.erase_blocks_per_plane", "64"),
        ("media.pages_per_erase_block", "16"),
        ("media.program_us", "[200]"),
        ("media.erase_us", "10000"),
        ("media.order", "reads_first"),
        ("interface.link_mb_per_second", "1e6"),
        ("interface.host_us", "10"),
        ("write_buffer.bytes", "1Mi"),
        ("cleaning.start_below_free", "0.15"),
    ];
    profile(&[&keys, changes].concat())
}

const WINDOWS: [(&str, &str); 2] =
    [("cleaning.window_period_us", "400000"), ("cleaning.window_share", "0.45")];

fn mirrored(drives: u32, reads: ArrayReads) -> ArrayConfig {
    ArrayConfig { drives, kind: ArrayKind::Mirrored, reads, missing: None }
}

fn run(profile: &Profile, reads: ArrayReads, writes: u32) -> ArrayOutcome {
    let mut random = SplitMix(11);
    let count = 40_000_u64;
    let requests: Arc<[IoRequest]> = (0..count)
        .map(|number| {
            let op = if random.below(100) < writes { IoOp::Write } else { IoOp::Read };
            page_request(op, random.below(profile.logical_pages()), number * 300_000)
        })
        .collect();
    let mut settings = settings(profile, State::Aged { overwrites: 2.0 }, 1, u64::MAX);
    settings.pace = Pace::OPEN;
    settings.warm_up_requests = count / 4;
    let flows = vec![flow(Box::new(VecRequests::new(requests)), Pace::OPEN)];
    let config = mirrored(2, reads);
    simulate_array(&settings, &config, flows, &Progress::default()).unwrap()
}

fn longest(found: &ArrayOutcome) -> u64 {
    found.latencies.of(IoOp::Read).latency.max / 1000
}

/// The idea of windows in an array: whichever drive cleans, another does not.
#[test]
fn a_read_that_would_wait_for_cleaning_is_answered_by_a_drive_that_does_not_clean() {
    let profile = member(&WINDOWS);
    let home = run(&profile, ArrayReads::Home, 25);
    assert!(longest(&home) > 8_000, "{} us", longest(&home));
    let found = run(&profile, ArrayReads::FailFast, 25);
    let counts = found.counters;
    assert!(counts.failed_reads > 500, "{counts:?}");
    // An operation that began in a window may end after it.
    assert!(100 * counts.reads_without_choice < counts.failed_reads, "{counts:?}");
    let tail = |found: &ArrayOutcome| found.latencies.of(IoOp::Read).latency.p999 / 1000;
    assert!(tail(&found) < 1_500 && tail(&home) > 5_000, "{} us", tail(&found));
    // All drives take all writes.
    let [first, second] = &found.schemes[..] else { panic!("two drives") };
    assert_eq!(first.host_page_writes, second.host_page_writes);
}

/// Taken out: without windows both drives may clean, and a read may find no drive that does not.
#[test]
fn without_windows_some_reads_find_no_drive_that_rests() {
    let with = run(&member(&WINDOWS), ArrayReads::FailFast, 25).counters;
    let without = run(&member(&[]), ArrayReads::FailFast, 25).counters;
    let share = |reads: u64, of: u64| reads as f64 / of as f64;
    let with = share(with.reads_without_choice, with.failed_reads);
    let without = share(without.reads_without_choice, without.failed_reads);
    assert!(without > 0.02 && with < without / 2.0, "{with} and {without}");
}

/// As many reads are hedged as take longer than the percentile, by its definition; and the first
/// answer counts.
#[test]
fn a_percentile_of_the_reads_is_hedged() {
    for share in [0.95, 0.8] {
        let found = run(&member(&[]), ArrayReads::Hedged(share), 25);
        let hedged = found.counters.hedged_reads as f64 / found.counters.reads as f64;
        assert!((hedged / (1.0 - share) - 1.0).abs() < 0.25, "{hedged} at {share}");
        assert!(found.counters.won_reads > 100, "{:?}", found.counters);
    }
}

#[test]
fn a_hedged_read_does_not_wait_for_an_erase_on_one_drive() {
    // Fewer reads find an erase than are hedged: otherwise the percentile is that of such a read.
    let profile = member(&[("media.pages_per_erase_block", "64")]);
    let p99 = |reads| run(&profile, reads, 10).latencies.of(IoOp::Read).latency.p99 / 1000;
    let (home, hedged) = (p99(ArrayReads::Home), p99(ArrayReads::Hedged(0.95)));
    assert!(3 * hedged < home, "{home} and {hedged} us");
}

/// Nothing is gained by a rule where nothing stands in the way: then all three are the same.
#[test]
fn drives_that_do_not_clean_are_read_as_they_are() {
    let profile = member(&[]);
    let plain = run(&profile, ArrayReads::Home, 0);
    let fast = run(&profile, ArrayReads::FailFast, 0);
    assert_eq!(plain.event_hash, fast.event_hash);
    assert_eq!(fast.counters.failed_reads, 0);
    assert_eq!(run(&profile, ArrayReads::Home, 0).event_hash, plain.event_hash);
}

#[test]
fn arrays_that_cannot_be_are_refused() {
    let said = |drives, reads| mirrored(drives, reads).check().unwrap_err().to_string();
    assert!(said(1, ArrayReads::Home).contains("2 to 16"));
    assert!(said(2, ArrayReads::Hedged(1.0)).contains("below 1"));
}
