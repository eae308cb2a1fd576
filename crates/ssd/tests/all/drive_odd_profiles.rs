//! Profiles and loads that are odd and yet possible: a run on them ends, or is refused in one line.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::sync::Arc;

use placement::PLACEMENTS;

use crate::drive::{Endless, profile, run, settings};
use ssd::drive::device::Drive;
use ssd::drive::load::Pace;
use ssd::drive::profile::{PROFILES, Profile, parse};
use ssd::drive::run::{RunSettings, simulate};
use ssd::drive::schemes::Scheme;
use ssd::drive::state::State;
use ssd::drive::{DriveVisitor, visit_drive};
use units::{IoOp, IoRequest, Progress, VecRequests};

fn all_at_once(ops: impl Iterator<Item = IoOp>) -> VecRequests {
    let request = |op| IoRequest {
        time_ns: 0,
        op,
        offset: 0,
        length: 4096,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    };
    VecRequests::new(ops.map(request).collect::<Arc<[IoRequest]>>())
}

/// 4 planes of 128 pages, half as many again as the host has.
fn four_planes(changes: &[(&str, &str)]) -> Profile {
    let sizes = [
        ("media.channels", "4"),
        ("media.erase_blocks_per_plane", "16"),
        ("media.pages_per_erase_block", "8"),
    ];
    profile(&[&sizes, changes].concat())
}

#[test]
fn requests_that_end_together_with_the_warm_up_are_not_lost() {
    // A trim takes no time here, so that all of them end in one step.
    let warm_up =
        RunSettings { warm_up_requests: 3, ..settings(&profile(&[]), State::Filled, 32, u64::MAX) };
    let outcome = run(&warm_up, all_at_once((0..20).map(|_| IoOp::Trim)));
    assert_eq!(outcome.requests, 17);
    assert_eq!(outcome.flows[0].requests, 17);
}

#[test]
fn any_number_of_requests_may_wait_behind_a_slow_command() {
    let slow = profile(&[("controller.read_command_us", "1000")]);
    let open = RunSettings { pace: Pace::OPEN, ..settings(&slow, State::Filled, 1, u64::MAX) };
    let ops = std::iter::once(IoOp::Read).chain((0..300_000).map(|_| IoOp::Trim));
    assert_eq!(run(&open, all_at_once(ops)).requests, 300_001);
}

#[test]
fn cleaning_in_idle_time_needs_a_time_to_be_idle() {
    let mut odd = profile(&[]);
    odd.set("cleaning.background_below_free", "0.3").unwrap();
    let told = odd.check().unwrap_err().to_string();
    assert!(told.contains("cleaning.idle_us = 0: must be from 1 to"), "{told}");
    odd.set("cleaning.idle_us", "1").unwrap();
    odd.check().unwrap();
    let written = run(
        &settings(&odd, State::Aged { overwrites: 1.0 }, 4, 500),
        Endless::random(IoOp::Write, &odd, 1),
    );
    assert_eq!(written.requests, 500);
}

#[test]
fn a_plane_that_is_full_is_passed_over_whatever_the_chunk() {
    for chunk in [3, 64, 4096] {
        for allocation in ["dynamic", "available"] {
            let scheme = format!("page_mapped(allocation={allocation},chunk_pages={chunk})");
            let drive = four_planes(&[("ftl.scheme", &scheme)]);
            for state in [State::Fresh, State::Aged { overwrites: 2.0 }] {
                let written =
                    run(&settings(&drive, state, 8, 3000), Endless::random(IoOp::Write, &drive, 2));
                assert_eq!(written.requests, 3000, "{scheme}, {state:?}");
            }
        }
    }
}

#[test]
fn chunks_that_do_not_fit_the_planes_are_refused() {
    // 341 logical pages: with 96 in a row, a plane would have to hold 96, with 256 in a row 256 of
    // the 96 that it can.
    let drive = |chunk: &str| {
        four_planes(&[(
            "ftl.scheme",
            &format!("page_mapped(allocation=static,chunk_pages={chunk})"),
        )])
    };
    let fits = drive("96");
    let written =
        run(&settings(&fits, State::Filled, 8, 1000), Endless::random(IoOp::Write, &fits, 3));
    assert_eq!(written.requests, 1000);
    let never = Box::new(all_at_once(std::iter::empty()));
    let told =
        simulate(&settings(&drive("256"), State::Filled, 8, 1), None, never, &Progress::default())
            .unwrap_err()
            .to_string();
    assert!(told.contains("are too few for `none`") && !told.contains('\n'), "{told}");
}

#[test]
fn a_plane_whose_erase_blocks_have_all_retired_wears_the_drive_out() {
    let text = four_planes(&[
        ("media.erase_blocks_per_plane", "8"),
        ("media.pages_per_erase_block", "2"),
        ("media.endurance_cycles", "5"),
        ("media.endurance_spread", "0.3"),
        ("ftl.over_provisioning", "4"),
    ])
    .to_toml();
    let drive = parse(&text, "the test").unwrap();
    for seed in 0..200 {
        let worn = RunSettings { seed, ..settings(&drive, State::Fresh, 8, 100_000) };
        let outcome = run(&worn, Endless::random(IoOp::Write, &drive, seed));
        assert!(outcome.worn_out.is_some(), "seed {seed}: {} requests", outcome.requests);
    }
}

/// A modern drive has a hundred planes and little spare space on each: policies of many streams
/// take as many as fit, and say how many they go without.
#[test]
fn every_policy_fits_on_every_page_mapped_drive() {
    struct LeftOut;
    impl DriveVisitor for LeftOut {
        type Output = usize;
        fn visit<S: Scheme + 'static>(self, drive: Drive<S>) -> usize {
            drive.scheme().streams_left_out()
        }
    }
    let mut left_out = 0;
    for builtin in PROFILES {
        let plain = builtin.profile();
        let schemes = ["page_mapped", "superblock_mapped"];
        if !schemes.iter().any(|scheme| plain.ftl.scheme.starts_with(scheme)) {
            continue;
        }
        for entry in PLACEMENTS.iter().filter(|entry| entry.info.name != "future_knowledge") {
            for over_provisioning in ["10%", "30%"] {
                let mut profile = plain.clone();
                // Room for streams is a matter of erase blocks, whatever their size.
                let pages = (4 * plain.media.pages_per_program).to_string();
                profile.set("media.pages_per_erase_block", &pages).unwrap();
                profile.set("ftl.placement", entry.info.name).unwrap();
                profile.set("ftl.victim", "").unwrap();
                profile.set("ftl.over_provisioning", over_provisioning).unwrap();
                let pages = profile.logical_pages() as usize;
                let weights = || vec![1.0; pages];
                let built = visit_drive(&profile, 1, Some(&weights), LeftOut);
                left_out += built.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
    assert!(left_out > 0, "no drive is too tight for a policy: this test shows nothing");
}
