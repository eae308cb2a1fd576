//! Arrays with parity: shares, what they cost, and how far apart they keep the ages of drives.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use models::{ageing_rates, converged_ages, next_ages};
use ssd::drive::array::{
    ArrayConfig, ArrayKind, ArrayOutcome, ArrayReads, Lives, LivesSettings, simulate_array,
    simulate_lives,
};
use ssd::drive::load::{Pace, flow};
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::{IoOp, Progress};

use crate::drive::{Endless, assert_within, profile, settings};

fn config(kind: &str, drives: u32, missing: Option<u32>) -> ArrayConfig {
    let kind = ArrayKind::parse(kind).unwrap();
    ArrayConfig { drives, kind, reads: ArrayReads::Home, missing }
}

fn member() -> Profile {
    profile(&[
        ("media.channels", "2"),
        ("media.erase_blocks_per_plane", "64"),
        ("media.pages_per_erase_block", "32"),
    ])
}

fn run(kind: &str, missing: Option<u32>, op: IoOp, length: u32, depth: u32) -> ArrayOutcome {
    run_for(30_000, kind, missing, op, length, depth)
}

/// Random pages of 4 KiB, or whole stripes of three drives' data in order.
fn run_for(
    requests: u64,
    kind: &str,
    missing: Option<u32>,
    op: IoOp,
    length: u32,
    depth: u32,
) -> ArrayOutcome {
    let profile = member();
    let config = config(kind, 4, missing);
    let pages = (config.capacity_bytes(&profile).unwrap() / 4096) as u32;
    let mut source = if length == 1 {
        Endless::random(op, &profile, 7)
    } else {
        Endless::sequential(op, &profile, length)
    };
    source.pages = pages / length * length;
    let pace = Pace::Closed { depth, think: 0 };
    let settings = settings(&profile, State::Filled, depth, requests);
    let flows = vec![flow(Box::new(source), pace)];
    simulate_array(&settings, &config, flows, &Progress::default()).unwrap()
}

fn parity_shares(found: &ArrayOutcome) -> Vec<f64> {
    let all: u64 = found.written.iter().map(|one| one.parity_bytes).sum();
    found.written.iter().map(|one| one.parity_bytes as f64 / all as f64).collect()
}

#[test]
fn parity_lies_where_it_was_asked_for() {
    for (kind, shares) in [
        ("raid5(unit=4Ki)", [0.25; 4]),
        ("diff_raid(shares=70,10,10,10,unit=4Ki)", [0.7, 0.1, 0.1, 0.1]),
        ("diff_raid(shares=100,unit=4Ki)", [1.0, 0.0, 0.0, 0.0]),
        ("diff_raid(shares=40,30,20,10,unit=4Ki)", [0.4, 0.3, 0.2, 0.1]),
    ] {
        let found = run(kind, None, IoOp::Write, 1, 8);
        for (share, asked) in parity_shares(&found).iter().zip(shares) {
            assert!((share - asked).abs() < 0.01, "{share} and {asked} of {kind}");
        }
        // Each drive gets pages as its ageing rate says.
        let rates = ageing_rates(&shares, 0.0).unwrap();
        for (scheme, rate) in found.schemes.iter().zip(rates) {
            let each = scheme.host_page_writes as f64 / found.requests as f64;
            assert!((each / rate - 1.0).abs() < 0.03, "{each} and {rate} of {kind}");
        }
    }
}

#[test]
fn even_shares_are_raid_5() {
    let even = run("diff_raid(shares=25,25,25,25,unit=4Ki)", None, IoOp::Write, 1, 8);
    let raid5 = run("raid5(unit=4Ki)", None, IoOp::Write, 1, 8);
    assert_eq!(even.event_hash, raid5.event_hash);
    let uneven = run("diff_raid(shares=26,unit=4Ki)", None, IoOp::Write, 1, 8);
    assert_ne!(uneven.event_hash, raid5.event_hash);
}

/// One request at a time on drives that do not have to clean yet: old data and old parity are read
/// at once, then both are written at once; a whole stripe is written at once.
#[test]
fn a_random_write_takes_a_read_and_a_program() {
    let run = |kind, op, length| run_for(600, kind, None, op, length, 1);
    let mean = |found: &ArrayOutcome, op| found.latencies.of(op).latency.mean;
    let program = mean(&run("striped(unit=4Ki)", IoOp::Write, 1), IoOp::Write);
    let read = mean(&run("striped(unit=4Ki)", IoOp::Read, 1), IoOp::Read);
    let raid5 = run("raid5(unit=4Ki)", IoOp::Write, 1);
    assert_within(mean(&raid5, IoOp::Write), program + read, 0.01, "a random write");
    assert_eq!((raid5.stripes.read_modify_writes, raid5.stripes.extra_reads), (600, 1200));
    let whole = run("raid5(unit=4Ki)", IoOp::Write, 3);
    assert_within(mean(&whole, IoOp::Write), program, 0.01, "a whole stripe");
    assert_eq!(whole.stripes.full_stripe_writes, 600);
    assert_eq!((whole.stripes.extra_reads, whole.stripes.read_modify_writes), (0, 0));
    assert_eq!(parity_shares(&whole), [0.25; 4]);
}

#[test]
fn uneven_parity_costs_throughput() {
    let iops = |kind| run(kind, None, IoOp::Write, 1, 16).iops();
    let (striped, raid5) = (iops("striped(unit=4Ki)"), iops("raid5(unit=4Ki)"));
    let (skewed, raid4) =
        (iops("diff_raid(shares=70,unit=4Ki)"), iops("diff_raid(shares=100,unit=4Ki)"));
    assert!(striped > 1.5 * raid5, "{striped} and {raid5}");
    assert!(raid5 > 1.1 * skewed && skewed > 1.1 * raid4, "{raid5}, {skewed}, {raid4}");
}

#[test]
fn a_missing_drive_is_made_up_for() {
    let whole = run("raid5(unit=4Ki)", None, IoOp::Read, 1, 1);
    let without = run("raid5(unit=4Ki)", Some(2), IoOp::Read, 1, 1);
    assert_eq!((whole.stripes.degraded_reads, whole.stripes.extra_reads), (0, 0));
    let share = without.stripes.degraded_reads as f64 / 30_000.0;
    assert!((share - 0.25).abs() < 0.01, "{share}");
    assert_eq!(without.stripes.extra_reads, 3 * without.stripes.degraded_reads);
    assert_eq!(without.schemes[2].host_page_writes, 0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let hash = || run("diff_raid(shares=70,unit=8Ki)", None, IoOp::Write, 1, 16).event_hash;
    assert_eq!(hash(), hash());
}

fn lives(kind: &str, replacements: u32) -> Lives {
    let settings = LivesSettings {
        profile: member(),
        config: config(kind, 5, None),
        erase_limit: 150.0,
        replacements,
        full_stripes: 0.0,
        seed: 1,
    };
    simulate_lives(&settings, &Progress::default()).unwrap()
}

/// The paper's claim: whatever the ages were, replacement brings them to what the shares say.
#[test]
fn ages_converge_to_the_closed_form() {
    let found = lives("diff_raid(shares=80,unit=16Ki)", 24);
    let rates = ageing_rates(&[0.8, 0.05, 0.05, 0.05, 0.05], 0.0).unwrap();
    for (found, rate) in found.rates.iter().zip(&rates) {
        assert_within(*found, *rate, 0.02, "pages of a place");
    }
    // Drives age by what their FTLs erase: pages given times write amplification.
    let worn = worn(&rates, &found);
    let expected = converged_ages(&worn).unwrap();
    let last = &found.replacements.last().unwrap().ages;
    for (age, expected) in last.iter().zip(&expected) {
        assert!((age - expected).abs() < 0.03, "{last:?} and {expected:?}");
    }
    let first = &found.replacements[0].ages;
    assert!((first[1] - expected[1]).abs() > 0.1, "they did not begin there: {first:?}");
}

fn worn(rates: &[f64], lives: &Lives) -> Vec<f64> {
    rates.iter().zip(&lives.write_amplification).map(|(rate, wa)| rate * wa).collect()
}

/// Less uneven shares take long to converge: there it is the recurrence that is followed.
#[test]
fn ages_follow_the_recurrence() {
    let found = lives("diff_raid(shares=40,unit=16Ki)", 16);
    let rates = ageing_rates(&[0.4, 0.15, 0.15, 0.15, 0.15], 0.0).unwrap();
    let worn = worn(&rates, &found);
    let mut ages: Vec<f64> = worn.iter().map(|rate| rate / worn[0]).collect();
    for one in &found.replacements {
        for (found, expected) in one.ages.iter().zip(&ages) {
            assert!((found - expected).abs() < 0.06, "{:?} and {ages:?}", one.ages);
        }
        ages = next_ages(&ages, &worn).unwrap();
    }
}

/// The idea taken out: with even parity all drives go at about the same time.
#[test]
fn drives_with_even_parity_go_together() {
    let found = lives("raid5(unit=16Ki)", 10);
    let oldest_left = |ages: &[f64]| ages[1];
    let first = &found.replacements[0].ages;
    assert!(first.iter().all(|&age| age > 0.9), "{first:?}");
    let again = &found.replacements[5].ages;
    assert!(oldest_left(again) > 0.85, "{again:?}");
    let skewed = lives("diff_raid(shares=80,unit=16Ki)", 10);
    assert!(skewed.replacements[5..].iter().all(|one| oldest_left(&one.ages) < 0.75));
}

#[test]
fn arrays_that_cannot_be_are_refused() {
    let said = |kind: &str, drives, missing| {
        let config = config(kind, drives, missing);
        config.capacity_bytes(&member()).unwrap_err().to_string()
    };
    assert!(said("raid5", 1, None).contains("2 to 16"));
    assert!(said("raid5(unit=6Ki)", 4, None).contains("a multiple of the drive's pages"));
    assert!(said("striped(unit=4Ki)", 4, Some(1)).contains("no parity"));
    assert!(said("raid5(unit=4Ki)", 4, Some(4)).contains("drive 4 cannot be missing"));
    assert!(said("diff_raid(shares=90,20)", 4, None).contains("more than 100"));
    let settings = LivesSettings {
        profile: member(),
        config: config("striped(unit=4Ki)", 4, None),
        erase_limit: 100.0,
        replacements: 1,
        full_stripes: 0.0,
        seed: 1,
    };
    let error = simulate_lives(&settings, &Progress::default()).unwrap_err();
    assert!(error.to_string().contains("no parity"));
}
