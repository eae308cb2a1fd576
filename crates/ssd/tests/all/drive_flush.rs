//! Waits of a flush, on which the commit of a database depends.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use ssd::drive::device::Completion;
use ssd::drive::measure::Delay;
use ssd::drive::profile::Profile;
use units::IoOp;

use crate::drive::player::{Ask, play};
use crate::drive::profile;

/// A drive whose buffer keeps all pages until a flush.
fn lazy(changes: &[(&str, &str)]) -> Profile {
    let buffer = [
        ("write_buffer.bytes", "64Ki"),
        ("write_buffer.flush", "when_full"),
        ("write_buffer.flush_pages", "4"),
        ("write_buffer.in_flight_pages", "1"),
    ];
    profile(&[&buffer, changes].concat())
}

fn of(op: IoOp, completions: &[Completion]) -> Completion {
    *completions.iter().find(|done| done.submission.op == op).unwrap()
}

/// Time that a request spent on a cause, by the name of the cause.
fn on(name: &str, done: &Completion) -> u64 {
    let delay = Delay::ALL.into_iter().find(|delay| delay.name() == name);
    delay.map_or(0, |delay| done.delays[delay])
}

#[test]
fn the_time_of_a_flush_is_not_put_down_to_queues() {
    let mut asks: Vec<Ask> = (0..4).map(|page| Ask::pages(IoOp::Write, page, 1, 4096)).collect();
    asks.push(Ask::flush());
    let played = play(&lazy(&[]), 1, &asks, 1).unwrap();
    let flush = of(IoOp::Flush, &played.completions);
    let latency = flush.completed_at - flush.submitted_at;
    assert!(latency > 0);
    assert_eq!(on("queue", &flush), 0, "{:?}", flush.delays);
    assert_eq!(on("flush", &flush), latency, "{:?}", flush.delays);
    let write = of(IoOp::Write, &played.completions);
    assert_eq!(on("flush", &write), 0, "{:?}", write.delays);
}

#[test]
fn a_flush_of_an_empty_buffer_waits_for_nothing() {
    let played = play(&lazy(&[]), 1, &[Ask::flush()], 1).unwrap();
    let flush = of(IoOp::Flush, &played.completions);
    assert_eq!((flush.completed_at - flush.submitted_at, on("flush", &flush)), (0, 0));
}

#[test]
fn a_durable_write_waits_for_the_buffer_to_be_written_too() {
    let write = Ask { is_fua: true, ..Ask::pages(IoOp::Write, 3, 2, 4096) };
    let played = play(&lazy(&[("controller.write_command_us", "7")]), 1, &[write], 1).unwrap();
    let write = of(IoOp::Write, &played.completions);
    assert!(on("flush", &write) > on("queue", &write), "{:?}", write.delays);
    assert!(on("queue", &write) >= 7_000_000, "{:?}", write.delays);
}

#[test]
fn a_flush_says_what_of_its_time_was_cleaning() {
    let profile = lazy(&[]);
    let pages = profile.logical_pages();
    let mut asks = Vec::new();
    for number in 0..4 * pages {
        let page = (number.wrapping_mul(2_654_435_761) >> 7) % pages;
        asks.push(Ask::pages(IoOp::Write, page, 1, 4096));
        if number % 4 == 3 {
            asks.push(Ask::flush());
        }
    }
    let played = play(&profile, 1, &asks, 1).unwrap();
    assert!(played.scheme.relocated_pages > 0);
    let flushes = played.completions.iter().filter(|done| done.submission.op == IoOp::Flush);
    let (mut flush, mut own, mut queue) = (0, 0, 0);
    for done in flushes {
        flush += on("flush", done);
        own += on("cleaning", done) + on("erase", done);
        queue += on("queue", done);
    }
    assert!(flush > 0 && own > 0, "{flush} ps on pages, {own} ps on cleaning");
    assert_eq!(queue, 0);
}
