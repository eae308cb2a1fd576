//! The SLC cache against closed forms: bandwidth inside it and behind it, the place of the cliff,
//! the writes of folding.

use std::sync::Arc;

use ssd::drive::load::Pace;
use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::profile::Profile;
use ssd::drive::run::{Outcome, RunSettings};
use ssd::drive::state::State;
use units::{IoOp, IoRequest, VecRequests};

use crate::drive::{Endless, assert_within, run, settings};
use crate::drive_superblocks::drive;

/// Pages of a superblock with one bit a cell: eight word lines of four pages on 32 planes.
const SLC_PAGES: u64 = 1024;
const IN_SLC: f64 = 8.0 * 4.0 * 4.0 * 4096.0 / 200e-6;
const IN_TLC: f64 = 8.0 * 4.0 * 12.0 * 4096.0 / 2000e-6;

fn cached(changes: &[(&str, &str)]) -> Profile {
    let slc = [
        ("slc_cache.kind", "dynamic"),
        ("slc_cache.read_us", "25"),
        ("slc_cache.program_us", "200"),
        ("slc_cache.erase_us", "2000"),
    ];
    drive(&[&slc, changes].concat())
}

fn written(profile: &Profile, requests: u64, warm_up: u64) -> Outcome {
    let mut settings = settings(profile, State::Fresh, 64, requests);
    settings.warm_up_requests = warm_up;
    run(&settings, Endless::sequential(IoOp::Write, profile, 16))
}

#[test]
fn writes_are_quick_up_to_the_cliff_and_then_those_of_all_bits() {
    // Half of the 256 superblocks are kept free.
    let blocks = ("media.erase_blocks_per_plane", "256");
    let profile = cached(&[blocks, ("slc_cache.keep_free", "0.5")]);
    let cliff = 128 * SLC_PAGES;
    let inside = written(&profile, cliff / 16 - 100, 200);
    assert_within(inside.bytes_per_second(), IN_SLC, 0.01, "inside the cache");
    assert_eq!((inside.write_amplification, inside.scheme.relocated_pages), (1.0, 0));
    // The write buffer, 2048 pages, still holds pages for the cache.
    let behind = written(&profile, cliff / 16 + 3200, cliff / 16 + 200);
    assert_within(behind.bytes_per_second(), IN_TLC, 0.01, "behind the cliff");
    let all = written(&profile, cliff / 16 + 3000, 0);
    assert_eq!(all.scheme.slc_page_writes, cliff, "the place of the cliff in pages");
    // Without a cache there is no cliff.
    let plain = written(&drive(&[blocks]), 3200, 200);
    assert_within(plain.bytes_per_second(), IN_TLC, 0.01, "without a cache");
}

/// Free space holds a third as much with one bit per cell: the fuller the drive, the sooner the
/// cliff.
#[test]
fn a_dynamic_cache_shrinks_with_what_the_drive_holds() {
    let profile = cached(&[("slc_cache.keep_free", "0.25")]);
    for loaded in [0_u64, 10, 20] {
        let state = State::Loaded { pages: (loaded * 3072) as u32 };
        let outcome = run(
            &settings(&profile, state, 64, 4000),
            Endless::sequential(IoOp::Write, &profile, 16),
        );
        let expected = (64 - loaded - 16) * SLC_PAGES;
        assert_eq!(outcome.scheme.slc_page_writes, expected.min(64_000), "{loaded} superblocks");
    }
    // The cache does not exceed its limit: 8 MiB are two superblocks.
    let profile = cached(&[("slc_cache.bytes", "8Mi")]);
    assert_eq!(written(&profile, 4000, 0).scheme.slc_page_writes, 2 * SLC_PAGES);
}

/// When nothing is free, each superblock of three bits that the host writes takes the place of one
/// and a half folded ones, a third of a superblock each.
#[test]
fn folding_under_pressure_costs_half_a_page_for_each_of_the_hosts() {
    let profile = cached(&[("media.erase_blocks_per_plane", "256")]);
    let counters = |pages: u64| written(&profile, pages / 16, 0).scheme;
    let (first, second) = (counters(300_000), counters(500_000));
    let written = second.host_page_writes - first.host_page_writes;
    let folded = second.folded_pages - first.folded_pages;
    assert_within(folded as f64 / written as f64, 0.5, 0.03, "folded for each page");
    assert_eq!(second.relocated_pages, second.folded_pages, "nothing else is relocated");
    assert!(second.slc_page_writes >= 240 * SLC_PAGES, "{}", second.slc_page_writes);
}

/// Two bursts as large as a static cache, ten seconds apart, and a read ten seconds later.
fn bursts(changes: &[(&str, &str)]) -> Outcome {
    let fixed = [("slc_cache.kind", "static"), ("slc_cache.bytes", "33Mi")];
    let profile = cached(&[&fixed, changes].concat());
    let burst = 8 * SLC_PAGES / 16;
    let request = |number: u64| IoRequest {
        time_ns: number / burst * 10_000_000_000,
        op: if number == 2 * burst { IoOp::Read } else { IoOp::Write },
        offset: number * 16 * 4096,
        length: 16 * 4096,
        stream: 0,
        handle: 0,
        is_fua: false,
        latency_ns: None,
    };
    let requests: Arc<[IoRequest]> = (0..=2 * burst).map(request).collect();
    let settings =
        RunSettings { pace: Pace::OPEN, ..settings(&profile, State::Fresh, 1, u64::MAX) };
    run(&settings, VecRequests::new(requests))
}

#[test]
fn a_static_cache_is_emptied_when_the_drive_is_idle() {
    let all = 8 * SLC_PAGES;
    let idle = bursts(&[]);
    assert_eq!((idle.scheme.slc_page_writes, idle.scheme.folded_pages), (2 * all, 2 * all));
    assert_eq!(idle.write_amplification, 2.0, "all of it is written twice");
    let folding = idle.media.operations[FlashOp::Program as usize][Cause::Folding as usize];
    assert_eq!(folding, 2 * all);
    assert!(idle.die_share.named().any(|(name, share)| name == "folding" && share > 0.0));
    // The counterexample: no idle time is long enough.
    let busy = bursts(&[("slc_cache.idle_us", "1e8")]);
    assert_eq!((busy.scheme.slc_page_writes, busy.scheme.folded_pages), (all, 0));
    assert_eq!(busy.write_amplification, 1.0);
    // Its superblocks are not part of the capacity.
    let plain = drive(&[]).capacity_bytes() as f64;
    let profile = cached(&[("slc_cache.kind", "static"), ("slc_cache.bytes", "33Mi")]);
    assert_within(profile.capacity_bytes() as f64 / plain, 56.0 / 64.0, 1e-4, "capacity");
}

#[test]
fn reads_of_what_is_in_the_cache_are_quick() {
    let p50 = |kind: &str| {
        let profile = cached(&[("slc_cache.kind", kind), ("slc_cache.idle_us", "1e8")]);
        let request = |number: u64| IoRequest {
            time_ns: number / 64 * 100_000_000 + number * 200_000,
            op: if number < 64 { IoOp::Write } else { IoOp::Read },
            offset: number % 64 * 65536,
            length: if number < 64 { 65536 } else { 4096 },
            stream: 0,
            handle: 0,
            is_fua: false,
            latency_ns: None,
        };
        let requests: Arc<[IoRequest]> = (0..128).map(request).collect();
        let settings =
            RunSettings { pace: Pace::OPEN, ..settings(&profile, State::Fresh, 1, u64::MAX) };
        run(&settings, VecRequests::new(requests)).latencies.of(IoOp::Read).latency.p50
    };
    let transfer = (4096.0 / 1.6) as u64;
    assert!(p50("dynamic").abs_diff(25_000 + transfer) < 300, "{} ns", p50("dynamic"));
    assert!(p50("none").abs_diff(50_000 + transfer) < 300, "{} ns", p50("none"));
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let answer = |changes: &[(&str, &str)]| {
        let mut profile = cached(&[]);
        for (key, value) in changes {
            profile.set(key, value).expect("a key");
        }
        profile.check().unwrap_err().to_string()
    };
    let time = answer(&[("slc_cache.program_us", "0")]);
    assert!(time.contains("slc_cache.program_us = 0: must be from"), "{time}");
    let large = answer(&[("slc_cache.kind", "static"), ("slc_cache.bytes", "1Gi")]);
    assert!(large.contains("1 superblock to half of all"), "{large}");
    let scheme = answer(&[
        ("ftl.scheme", "page_mapped"),
        ("media.pages_per_program", "1"),
        ("media.pages_per_read", "1"),
    ]);
    assert!(scheme.contains("must be none unless ftl.scheme is superblock_mapped"), "{scheme}");
}
