//! Superblocks against closed forms: bandwidth at the limit of programs, of reads and of channels,
//! on a fresh drive and after cleaning; write amplification as the counting simulator has it.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use registry::Spec;
use ssd::counting;
use ssd::drive::load::Pace;
use ssd::drive::profile::Profile;
use ssd::drive::run::simulate_flows;
use ssd::drive::state::State;
use units::{Geometry, IoOp, IoRequest, Lpn, PageOp, Progress, VecRequests, VecSource};

use crate::drive::{Endless, SplitMix, assert_within, page_request, profile, run, settings};

/// Four channels of two dies of four planes; three chip pages of 16 KiB a program.
const TLC: [(&str, &str); 17] = [
    ("media.channels", "4"),
    ("media.dies_per_package", "2"),
    ("media.planes_per_die", "4"),
    ("media.erase_blocks_per_plane", "64"),
    ("media.pages_per_erase_block", "96"),
    ("media.pages_per_read", "4"),
    ("media.pages_per_program", "12"),
    ("media.read_us", "[50]"),
    ("media.program_us", "[2000]"),
    ("media.channel_mt_per_second", "1600"),
    ("media.multi_plane", "true"),
    ("media.cache_mode", "true"),
    ("interface.link_mb_per_second", "1e6"),
    ("write_buffer.bytes", "8Mi"),
    ("write_buffer.in_flight_pages", "2048"),
    ("ftl.scheme", "superblock_mapped"),
    ("cleaning.start_below_free", "0.05"),
];

const DIES: f64 = 8.0;
const PLANES: f64 = 4.0;
const PAGE: f64 = 4096.0;
/// Programs of an erase block.
const PROGRAMS: f64 = 8.0;

pub fn drive(changes: &[(&str, &str)]) -> Profile {
    profile(&[&TLC, changes].concat())
}

fn bandwidth(profile: &Profile, op: IoOp, state: State, requests: u64, warm_up: u64) -> f64 {
    let mut settings = settings(profile, state, 64, requests);
    settings.warm_up_requests = warm_up;
    run(&settings, Endless::sequential(op, profile, 48)).bytes_per_second()
}

#[test]
fn sequential_writes_reach_the_limit_of_programs() {
    let limit = DIES * PLANES * 12.0 * PAGE / 2000e-6;
    let blocks = ("media.erase_blocks_per_plane", "512");
    let drive = |changes: &[(&str, &str)]| drive(&[&[blocks], changes].concat());
    let found = bandwidth(&drive(&[]), IoOp::Write, State::Fresh, 12_000, 1000);
    assert_within(found, limit, 0.01, "programs of all planes of all dies");
    // The transfer of 48 pages comes on top where it cannot be hidden.
    let transfer = 48.0 * PAGE / 1600e6;
    let found = bandwidth(
        &drive(&[("media.cache_mode", "false")]),
        IoOp::Write,
        State::Fresh,
        12_000,
        1000,
    );
    assert_within(found, limit * 2000e-6 / (2000e-6 + transfer), 0.01, "without cache mode");
    // The idea taken out: planes one after the other.
    let found = bandwidth(
        &drive(&[("media.multi_plane", "false")]),
        IoOp::Write,
        State::Fresh,
        12_000,
        1000,
    );
    assert_within(found, limit / PLANES, 0.01, "one plane at a time");
}

#[test]
fn sequential_writes_after_cleaning_lose_no_more_than_the_erases() {
    let profile = drive(&[]);
    let capacity = u64::from(profile.logical_pages() / 48);
    let state = State::Aged { overwrites: 3.0 };
    let found = bandwidth(&profile, IoOp::Write, state, 9 * capacity, 3 * capacity);
    // What is sent after an erase is hidden by nothing: two dies share a channel.
    let transfers = 2.0 * 48.0 * PAGE / 1600e6;
    let block = PROGRAMS * 2000e-6 + 3800e-6 + transfers;
    let limit = DIES * PLANES * PROGRAMS * 12.0 * PAGE / block;
    assert_within(found, limit, 0.01, "programs and erases of all planes of all dies");
}

#[test]
fn sequential_reads_reach_the_limit_of_reads_and_of_channels() {
    let reads = drive(&[("media.channel_mt_per_second", "100000")]);
    let limit = DIES * PLANES * 4.0 * PAGE / 50e-6;
    let slow = drive(&[("media.channel_mt_per_second", "400")]);
    let found = bandwidth(&slow, IoOp::Read, State::Filled, 6000, 1000);
    assert_within(found, 4.0 * 400e6, 0.01, "four channels of 400 MB/s");
    let found = bandwidth(&reads, IoOp::Read, State::Filled, 6000, 1000);
    assert!((0.9 * limit..=1.001 * limit).contains(&found), "{found:e} of {limit:e} of reads");
}

#[test]
fn write_amplification_is_that_of_a_drive_whose_erase_blocks_are_superblocks() {
    for (placement, over_provisioning) in [("none", "0.2"), ("separate", "0.2"), ("none", "0.1")] {
        let profile = drive(&[
            ("media.erase_blocks_per_plane", "128"),
            ("media.pages_per_erase_block", "384"),
            ("ftl.over_provisioning", over_provisioning),
            ("ftl.placement", placement),
            ("ftl.victim", "greedy"),
            ("cleaning.start_below_free", "0"),
            ("media.erase_us", "100"),
            ("ftl.scheme", "superblock_mapped(pad_us=1000000)"),
        ]);
        let mut settings = settings(&profile, State::Aged { overwrites: 4.0 }, 256, 300_000);
        settings.warm_up_requests = 20_000;
        let timed = run(&settings, Endless::random(IoOp::Write, &profile, 3)).write_amplification;
        let counted = counted(&profile);
        // Padding takes some percent of what a cleaning gains.
        assert_within(timed, counted, 0.03, &format!("{placement} at {over_provisioning}"));
    }
}

fn counted(profile: &Profile) -> f64 {
    let geometry = Geometry {
        page_bytes: 4096,
        pages_per_erase_block: 384 * 32,
        logical_pages: profile.logical_pages(),
        erase_blocks: 128,
    };
    let settings = counting::CountingSettings {
        geometry,
        placement: Spec::parse(&profile.ftl.placement).unwrap(),
        victim: Spec::parse(&profile.ftl.victim).unwrap(),
        start: counting::Start::Filled,
        seed: 1,
        repeat: 1,
        audit: false,
    };
    let mut random = SplitMix(9);
    let pages = geometry.logical_pages;
    let operations: Vec<PageOp> =
        (0..8 * u64::from(pages)).map(|_| PageOp::write(Lpn(random.below(pages)))).collect();
    let mut source = VecSource::new(pages, operations.into());
    counting::simulate(&settings, &Vec::new, &mut source, &Progress::default())
        .unwrap()
        .write_amplification
}

/// A TLC drive under random writes from a full queue, cleaned by credits or as fast as it can.
fn paced(changes: &[(&str, &str)]) -> Profile {
    let common = [
        ("media.erase_blocks_per_plane", "128"),
        ("ftl.over_provisioning", "0.2"),
        ("ftl.placement", "separate"),
        ("media.erase_us", "200"),
        ("cleaning.start_below_free", "0.05"),
        ("cleaning.pace", "credits"),
        ("write_buffer.bytes", "4Mi"),
        ("write_buffer.in_flight_pages", "768"),
        ("write_buffer.power_loss_protected", "true"),
        ("ftl.scheme", "superblock_mapped(cleaning_stripes=4)"),
    ];
    drive(&[&common, changes].concat())
}

fn random_writes(profile: &Profile, requests: u64) -> ssd::drive::run::Outcome {
    let mut settings = settings(profile, State::Aged { overwrites: 3.0 }, 128, requests);
    settings.warm_up_requests = requests / 4;
    run(&settings, Endless::random(IoOp::Write, profile, 3))
}

#[test]
fn credits_keep_response_times_level_and_bursts_do_not() {
    let figures = |changes: &[(&str, &str)]| {
        let outcome = random_writes(&paced(changes), 200_000);
        let latency = outcome.latencies.of(IoOp::Write).latency;
        (outcome.iops(), latency.p999 as f64 / latency.p50 as f64)
    };
    let (iops, spread) = figures(&[]);
    let (iops_of_bursts, spread_of_bursts) = figures(&[("cleaning.pace", "burst")]);
    assert!(spread < 4.0, "p99.9 is {spread} times the median");
    assert!(spread_of_bursts > 1.5 * spread, "{spread_of_bursts} in bursts, {spread} by credits");
    // What waits for a burst is not made up for: bursts cost some throughput, too.
    assert!((iops_of_bursts / iops - 1.0).abs() < 0.2, "{iops_of_bursts} and {iops}");
}

#[test]
fn a_drive_that_works_off_a_burst_still_takes_a_trickle() {
    // Each relocated page holds the write path for 20 us, and 96 outstanding writes wait for that.
    let longest = |trickle: &str| {
        let profile = paced(&[
            ("cleaning.burst_stripes", "4"),
            ("controller.relocation_gap_us", "20"),
            ("controller.trickle_gap_us", trickle),
        ]);
        let mut settings = settings(&profile, State::Aged { overwrites: 3.0 }, 96, 100_000);
        settings.warm_up_requests = 25_000;
        let outcome = run(&settings, Endless::random(IoOp::Write, &profile, 3));
        let latency = outcome.latencies.of(IoOp::Write).latency;
        (latency.p999 as f64 / 1e3, outcome.iops())
    };
    let (without, iops) = longest("0");
    let (with, iops_of_trickle) = longest("100");
    // All of 4 stripes of 384 pages; and 96 writes, 100 us each.
    assert!(without > 4.0 * 384.0 * 20.0 * 0.9, "{without} us");
    assert_within(with, 96.0 * 100.0, 0.1, "outstanding writes at the rate of the trickle");
    assert_within(iops_of_trickle, iops, 0.05, "what is owed is paid later");
}

#[test]
fn writes_that_come_together_are_taken_together_where_the_trickle_has_slack() {
    // Two writes at once each 250 us, beside a trickle of one each 100 us.
    let p99 = |slack: &str| {
        let profile = paced(&[
            ("cleaning.burst_stripes", "8"),
            ("controller.relocation_gap_us", "100"),
            ("controller.trickle_gap_us", "100"),
            ("controller.trickle_slack_us", slack),
        ]);
        let mut random = SplitMix(5);
        let page = |number: u64| IoRequest {
            time_ns: number / 2 * 250_000,
            op: IoOp::Write,
            offset: u64::from(random.below(profile.logical_pages())) * 4096,
            length: 4096,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let requests: std::sync::Arc<[IoRequest]> = (0..20_000).map(page).collect();
        let mut settings = settings(&profile, State::Aged { overwrites: 3.0 }, 1, u64::MAX);
        settings.pace = Pace::OPEN;
        let outcome = run(&settings, VecRequests::new(requests));
        outcome.latencies.of(IoOp::Write).latency.p99 as f64 / 1e3
    };
    assert!(p99("0") >= 100.0, "{} us: the second of two waits", p99("0"));
    assert!(p99("100") < 20.0, "{} us", p99("100"));
}

#[test]
fn a_slice_is_as_fast_as_the_whole_and_writes_as_much() {
    let of_slice = |pages: &str, slices: &str| {
        let profile = paced(&[
            ("media.pages_per_erase_block", pages),
            ("media.slices", slices),
            ("media.erase_us", "1600"),
            ("write_buffer.merges", "false"),
        ]);
        let outcome = random_writes(&profile, 3 * u64::from(profile.logical_pages()) / 4);
        (outcome.write_amplification, outcome.bytes_per_second())
    };
    let (whole, slice) = (of_slice("768", "1"), of_slice("192", "4"));
    assert_within(slice.0, whole.0, 0.02, "write amplification of a quarter");
    assert_within(slice.1, whole.1, 0.02, "throughput of a quarter");
}

#[test]
fn what_capacitors_keep_is_durable_at_once() {
    let flushes = |protected: &str| {
        let profile = paced(&[("write_buffer.power_loss_protected", protected)]);
        let page = |number: u64| IoRequest {
            time_ns: number * 1_000_000,
            op: if number.is_multiple_of(2) { IoOp::Write } else { IoOp::Flush },
            offset: number * 4096,
            length: if number.is_multiple_of(2) { 4096 } else { 0 },
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let requests: std::sync::Arc<[IoRequest]> = (0..40).map(page).collect();
        let settings = settings(&profile, State::Filled, 1, u64::MAX);
        let outcome = run(&settings, VecRequests::new(requests));
        outcome.latencies.of(IoOp::Flush).latency.p50
    };
    assert!(flushes("true") < 1000, "{} ns", flushes("true"));
    assert!(flushes("false") > 1_000_000, "{} ns: a program", flushes("false"));
}

#[test]
fn reads_interrupt_programs_at_points_wherever_they_are() {
    let p99 = |at_points: &str| {
        let profile = paced(&[
            ("media.suspend", "true"),
            ("media.suspend_us", "50"),
            ("media.suspend_at_points", at_points),
            ("media.most_suspensions", "255"),
        ]);
        let reads = ssd::drive::load::flow(
            Box::new(Endless::random(IoOp::Read, &profile, 5)),
            Pace::Closed { depth: 1, think: 100_000 },
        );
        let writes = ssd::drive::load::flow(
            Box::new(Endless::random(IoOp::Write, &profile, 3)),
            Pace::Closed { depth: 64, think: 0 },
        );
        let mut settings = settings(&profile, State::Filled, 1, 60_000);
        settings.warm_up_requests = 10_000;
        let outcome = simulate_flows(&settings, None, vec![reads, writes], &Progress::default());
        outcome.unwrap().latencies.of(IoOp::Read).latency.p99
    };
    // A point, a read of the host's before it, the read, and transfers of programs.
    assert!(p99("true") < 600_000, "{} ns", p99("true"));
    assert!(p99("false") > 1_000_000, "{} ns: reads that come with data wait", p99("false"));
}

#[test]
fn data_that_lies_is_moved_and_the_space_in_it_freed() {
    let relocated = |rule: &str| {
        let profile = paced(&[
            ("wear_levelling.static_rule", rule),
            ("wear_levelling.age_cycles", "3"),
            ("wear_levelling.age_every", "4"),
            ("ftl.placement", "none"),
        ]);
        let pages = profile.logical_pages();
        // All writes go to a tenth of the pages, which lie among those that are never written.
        let mut random = SplitMix(7);
        let hot = pages / 10;
        let requests: std::sync::Arc<[IoRequest]> = (0..6 * u64::from(pages))
            .map(|_| page_request(IoOp::Write, random.below(hot) * 10, 0))
            .collect();
        let mut settings = settings(&profile, State::Filled, 64, u64::MAX);
        settings.untimed_requests = 11 * u64::from(pages) / 2;
        let outcome = run(&settings, VecRequests::new(requests));
        let coldest = outcome.erase_counts.iter().min().copied().unwrap();
        (coldest, outcome.erase_counts.iter().max().copied().unwrap())
    };
    let ((still, most), (moved, _)) = (relocated("none"), relocated("age"));
    assert!(still <= 1 && most > 10, "nothing moves what lies: {still} of {most} erases");
    assert!(moved >= 2, "the least worn was erased {moved} times");
}

/// Lower, middle and upper page: each has its times, programmed one by one or in one go.
#[test]
fn pages_of_a_word_line_have_times_of_their_own() {
    let blocks = ("media.erase_blocks_per_plane", "512");
    let written = |changes: &[(&str, &str)]| {
        let profile = drive(&[&[blocks], changes].concat());
        bandwidth(&profile, IoOp::Write, State::Fresh, 12_000, 1000)
    };
    let one_by_one = [("media.pages_per_program", "4"), ("media.program_us", "[300,600,900]")];
    let limit = DIES * PLANES * 4.0 * PAGE / 600e-6;
    assert_within(written(&one_by_one), limit, 0.01, "three programs of 300, 600 and 900 us");
    // All three in one go, in 1500 us instead of 1800.
    let limit = DIES * PLANES * 12.0 * PAGE / 1500e-6;
    assert_within(written(&[("media.program_us", "[1500]")]), limit, 0.01, "one of three pages");
    let times = [("media.read_us", "[40,60,110]"), ("media.program_us", "[2000]")];
    let profile = drive(&[&[blocks][..], &times].concat());
    let outcome = run(
        &settings(&profile, State::Filled, 1, 20_000),
        Endless::random(IoOp::Read, &profile, 5),
    );
    let mean = outcome.latencies.of(IoOp::Read).latency.mean / 1e3;
    assert_within(mean, 70.0 + PAGE / 1600.0, 0.005, "the mean of three page types");
}
