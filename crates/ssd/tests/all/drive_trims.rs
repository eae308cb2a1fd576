//! Cost of TRIMs, against closed forms.

use std::sync::Arc;

use ssd::drive::load::Pace;
use ssd::drive::run::{Outcome, RunSettings};
use ssd::drive::state::State;
use units::{IoOp, IoRequest, VecRequests};

use crate::drive::{profile, run, settings};

/// Plays requests on a drive with 5 us per command of writes, 20 us per TRIM, 0.1 us per page.
fn played(trim: &str, requests: &[(u64, IoOp, u32)]) -> Outcome {
    let costs = trim != "free";
    let profile = profile(&[
        ("media.pages_per_erase_block", "128"),
        ("controller.write_command_us", "5"),
        ("ftl.trim", trim),
        ("ftl.trim_us", if costs { "20" } else { "0" }),
        ("ftl.trim_page_us", if costs { "0.1" } else { "0" }),
    ]);
    let request = |&(us, op, pages): &(u64, IoOp, u32)| IoRequest {
        time_ns: us * 1000,
        op,
        offset: 0,
        length: pages * 4096,
        stream: 0,
        handle: 0,
        is_fua: false,
        latency_ns: None,
    };
    let requests: Arc<[IoRequest]> = requests.iter().map(request).collect();
    let settings =
        RunSettings { pace: Pace::OPEN, ..settings(&profile, State::Filled, 1, u64::MAX) };
    run(&settings, VecRequests::new(requests))
}

/// The latencies of a TRIM of 2000 pages and of the read behind it, in nanoseconds.
fn both(trim: &str, read_at_us: u64) -> (u64, u64) {
    let outcome = played(trim, &[(0, IoOp::Trim, 2000), (read_at_us, IoOp::Read, 1)]);
    assert_eq!(outcome.scheme.trimmed_pages, 2000);
    let max = |op| outcome.latencies.of(op).latency.max;
    (max(IoOp::Trim), max(IoOp::Read))
}

#[test]
fn a_trim_takes_its_time_at_once_later_or_never() {
    // The page that is read holds no data any more, so no flash is read: only the link's 4 ns for 4
    // KiB are left.
    let is_near = |found: u64, expected: u64| found.abs_diff(expected) <= 5;
    let (trim, read) = both("free", 1);
    assert!(trim == 5_000 && is_near(read, 4_004), "{trim} ns, {read} ns");
    let (trim, read) = both("at_once", 1);
    assert!(trim == 225_000 && is_near(read, 224_004), "{trim} ns, {read} ns");
    // Lazy: the answer comes after the command, and a read waits for 64 pages at most.
    let (trim, read) = both("lazy", 26);
    assert!(trim == 25_000 && is_near(read, 5_404), "{trim} ns, {read} ns");
    // When all postponed work is done, the read waits for nothing: 25 + 200 us later.
    let (_, read) = both("lazy", 226);
    assert!(is_near(read, 4), "{read} ns");
    let (_, read) = both("lazy", 224);
    assert!(is_near(read, 1_004), "{read} ns: the last 16 pages end at 225 us");
}

#[test]
fn commands_go_before_what_was_put_off() {
    let requests: Vec<_> = [(0, IoOp::Trim, 2000)]
        .into_iter()
        .chain((0..20).map(|number| (number, IoOp::Trim, 1)))
        .collect();
    let outcome = played("lazy", &requests);
    // One after the other, 25 us each: postponed work does not come in between.
    assert_eq!(outcome.elapsed, 21 * 25_000_000);
}

#[test]
fn times_without_a_rule_are_refused() {
    let mut free = profile(&[]);
    free.set("ftl.trim_page_us", "1").unwrap();
    let answer = free.check().unwrap_err().to_string();
    assert!(answer.contains("must be at_once or lazy where"), "{answer}");
}
