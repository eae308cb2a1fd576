//! Read retries against closed forms.

use ssd::drive::measure::Delay;
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::IoOp;

use crate::drive::{Endless, assert_within, profile, run, settings};

const COMMAND: f64 = 1.0;
const SENSE: f64 = 75.0;
/// 4 KiB at 333 MB/s, in microseconds.
const SEND: f64 = 4096.0 / 333.0;

fn worn(cycles: &str) -> Profile {
    profile(&[
        ("media.command_us", "1"),
        ("media.read_retry_cycles", "[0,1000,2000]"),
        ("media.read_retry_mean", "[0,1.5,4]"),
        ("media.worn_cycles", cycles),
    ])
}

fn reads(profile: &Profile, seed: u64) -> ssd::drive::run::Outcome {
    let mut settings = settings(profile, State::Filled, 1, 20_000);
    settings.seed = seed;
    run(&settings, Endless::random(IoOp::Read, profile, 7))
}

/// Each retry is another command, sense and transfer. The mean of 20,000 Poisson numbers is known
/// to 1.7 % at a mean of 0.75.
#[test]
fn the_mean_read_time_is_that_of_one_and_the_mean_retries() {
    for (cycles, mean) in [("0", 0.0), ("500", 0.75), ("1000", 1.5), ("2000", 4.0), ("5000", 4.0)] {
        let outcome = reads(&worn(cycles), 1);
        let expected = (1.0 + mean) * (COMMAND + SENSE + SEND);
        let found = outcome.latencies.of(IoOp::Read);
        let tolerance = if mean == 0.0 { 1e-4 } else { 0.02 };
        assert_within(found.latency.mean / 1e3, expected, tolerance, &format!("{cycles} cycles"));
        let retries = outcome.media.read_retries as f64 / 20_000.0;
        let of_retries = retries * (COMMAND + SENSE + SEND);
        let answer = found.delays[Delay::Retry].mean / 1e3;
        assert!((answer - of_retries).abs() < 1e-2, "{answer} us of {of_retries}");
        // The rest of the time is what it is without.
        let service = found.delays[Delay::Service].mean / 1e3;
        assert_within(service, COMMAND + SENSE + SEND, 1e-4, "a read's own time");
    }
}

#[test]
fn retries_repeat_with_their_seed() {
    let times = |seed| reads(&worn("1000"), seed).event_hash;
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}

/// Cycles count that the run itself, or its aging, made.
#[test]
fn erases_of_the_run_count() {
    let mut profile = worn("0");
    profile.set("media.read_retry_cycles", "[0,4]").unwrap();
    profile.set("media.read_retry_mean", "[0,2]").unwrap();
    let mut settings = settings(&profile, State::Aged { overwrites: 8.0 }, 1, 5000);
    settings.warm_up_requests = 100;
    let aged = run(&settings, Endless::random(IoOp::Read, &profile, 7));
    assert!(aged.erase_counts.iter().all(|&erases| erases >= 4), "{:?}", aged.erase_counts);
    let mean = aged.media.read_retries as f64 / aged.requests as f64;
    assert_within(mean, 2.0, 0.05, "retries of a read on worn erase blocks");
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let answer = |cycles: &str| {
        let mut profile = worn("0");
        profile.set("media.read_retry_cycles", cycles).unwrap();
        profile.check().unwrap_err().to_string()
    };
    assert!(
        answer("[0,1000]").contains("must be ascending, and as many as media.read_retry_mean: 3")
    );
    assert!(answer("[0,1000,1000]").contains("must be ascending"));
}
