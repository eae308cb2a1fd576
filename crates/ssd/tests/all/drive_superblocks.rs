//! Superblocks against closed forms: bandwidth at the limit of programs, of reads and of channels,
//! on a fresh drive and after cleaning; write amplification as the counting simulator has it.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use registry::Spec;
use ssd::counting;
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::{Geometry, IoOp, Lpn, PageOp, Progress, VecSource};

use crate::drive::{Endless, SplitMix, assert_within, profile, run, settings};

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

fn drive(changes: &[(&str, &str)]) -> Profile {
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
