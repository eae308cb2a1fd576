//! Bugs that were planted on purpose are found, and where there are none, none is found.

use faults::{Bug, Options, Subject, campaign};
use layers::HolesFlaw;

/// Cuts within which each is found from this seed: what was measured, three times over.
const SEED: u64 = 1;
const WITHIN: u64 = 25_000;

fn options() -> Options {
    Options { with_errors: true, ..Options::default() }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL.into_iter().filter(|bug| *bug != Bug::None) {
        let found = campaign(&Subject::planted(bug), &options(), SEED, WITHIN, &mut |_, _| true);
        assert!(found.is_err(), "{bug:?} is not found by {WITHIN} cuts");
    }
}

/// Each order that `holes` keeps is one that would be missed.
#[test]
fn every_order_that_holes_leave_out_is_found() {
    let flaws =
        [HolesFlaw::ClearsEarly, HolesFlaw::ClearsLate, HolesFlaw::TrimsEarly, HolesFlaw::Shares];
    for flaw in flaws {
        let found = campaign(&Subject::holes(flaw), &options(), SEED, WITHIN, &mut |_, _| true);
        assert!(found.is_err(), "{flaw:?} is not found by {WITHIN} cuts");
    }
    let honest = Subject::holes(HolesFlaw::None);
    campaign(&honest, &options(), SEED, WITHIN, &mut |_, _| true)
        .unwrap_or_else(|fault| panic!("the honest one: {}", fault.what));
}

/// A commit of a log whose area lies on another device: its pages are durable on the one, and the
/// record that names them on the other. One that is not is found, whichever it is.
#[test]
fn a_flush_that_is_a_lie_on_one_of_two_devices_is_found() {
    let stack = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8)";
    let honest = Subject::registered(stack, 168 << 10, 512).aside(36 << 10);
    for lying_flushes in [[true, false], [false, true]] {
        let subject = Subject { lying_flushes, ..honest.clone() };
        let found = campaign(&subject, &options(), SEED, WITHIN, &mut |_, _| true);
        assert!(found.is_err(), "{lying_flushes:?} is not found by {WITHIN} cuts");
    }
    campaign(&honest, &options(), SEED, 2_000, &mut |_, _| true)
        .unwrap_or_else(|fault| panic!("the honest one: {}", fault.what));
}

#[test]
fn the_honest_layer_and_the_device_alone_are_faultless() {
    for subject in [
        Subject::planted(Bug::None),
        Subject::registered("direct", 128 * 1024, 512),
        Subject::registered("", 256 * 1024, 4096),
    ] {
        let tally = campaign(&subject, &options(), SEED, 5_000, &mut |_, _| true)
            .unwrap_or_else(|fault| panic!("{subject}: {}", fault.what));
        assert!(tally.cuts >= 5_000 && tally.errors > 0 && tally.recovery_cuts > 500, "{tally:?}");
    }
}

#[test]
fn a_fault_is_found_again_by_its_seed_and_made_smaller() {
    let subject = Subject::planted(Bug::FreesEarly);
    let fault =
        campaign(&subject, &options(), SEED, WITHIN, &mut |_, _| true).expect_err("it is planted");
    let again =
        faults::try_episode(&subject, &fault.options, fault.seed, &mut faults::Tally::default())
            .expect_err("by its seed");
    assert_eq!(again.0, fault.what);
    let small = faults::shrink(&subject, &fault, 40);
    assert!(
        small.options.operations < fault.options.operations && small.options.links == 1,
        "{:?}",
        small.options
    );
    assert!(
        faults::try_episode(&subject, &small.options, small.seed, &mut faults::Tally::default())
            .is_err()
    );
}
