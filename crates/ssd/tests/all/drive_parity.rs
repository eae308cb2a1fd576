//! Parity on one die of each stripe (RAIN), against closed forms.

use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::IoOp;

use crate::drive::{Endless, assert_within, run, settings};
use crate::drive_superblocks::drive;

/// Eight dies of four planes, 12 pages per program of a plane.
const DIES: f64 = 8.0;
const LIMIT: f64 = DIES * 4.0 * 12.0 * 4096.0 / 2000e-6;

fn written(profile: &Profile) -> ssd::drive::run::Outcome {
    let mut settings = settings(profile, State::Fresh, 64, 12_000);
    settings.warm_up_requests = 1000;
    run(&settings, Endless::sequential(IoOp::Write, profile, 48))
}

#[test]
fn parity_takes_one_die_of_the_bandwidth_and_of_the_capacity() {
    let blocks = ("media.erase_blocks_per_plane", "512");
    let (plain, with) = (drive(&[blocks]), drive(&[blocks, ("ftl.parity_dies", "1")]));
    let share = (DIES - 1.0) / DIES;
    let capacity = with.capacity_bytes() as f64 / plain.capacity_bytes() as f64;
    assert_within(capacity, share, 1e-4, "capacity");
    let (plain, with) = (written(&plain), written(&with));
    assert_within(plain.bytes_per_second(), LIMIT, 0.01, "without parity");
    assert_within(with.bytes_per_second(), share * LIMIT, 0.01, "with parity");
    assert_within(with.write_amplification, 1.0 / share, 0.002, "write amplification");
    assert_eq!((plain.write_amplification, plain.scheme.parity_page_writes), (1.0, 0));
    let programs = with.media.operations[FlashOp::Program as usize];
    let parity = programs[Cause::Parity as usize] as f64;
    assert_within(parity / programs[Cause::Host as usize] as f64, 1.0 / 7.0, 0.01, "programs");
    // Parity rotates over the dies: each spends its share of time on it.
    let of_die = |die: &ssd::drive::measure::BusyTime| {
        die[FlashOp::Program as usize][Cause::Parity as usize] as f64 / with.elapsed as f64
    };
    for die in &with.dies {
        assert_within(of_die(die), 1.0 / DIES, 0.1, "a die's time for parity");
    }
}

/// Reads go to all dies, as no die holds parity alone.
#[test]
fn sequential_reads_lose_nothing_to_parity() {
    let profile = drive(&[("media.channel_mt_per_second", "400"), ("ftl.parity_dies", "1")]);
    let mut settings = settings(&profile, State::Filled, 64, 6000);
    settings.warm_up_requests = 1000;
    let found = run(&settings, Endless::sequential(IoOp::Read, &profile, 48));
    // Of the four channels, three in a stripe send two units and one sends one.
    assert_within(found.bytes_per_second(), 4.0 * 400e6, 0.05, "four channels of 400 MB/s");
}

/// The cost of cleaning depends on the spare space of data; parity is added to all writes.
#[test]
fn parity_is_taken_off_before_the_spare_space() {
    let amplification = |parity: &str| {
        let profile = drive(&[
            ("media.erase_blocks_per_plane", "128"),
            ("ftl.over_provisioning", "0.2"),
            ("ftl.placement", "separate"),
            ("cleaning.start_below_free", "0"),
            ("write_buffer.power_loss_protected", "true"),
            ("ftl.parity_dies", parity),
        ]);
        let mut settings = settings(&profile, State::Aged { overwrites: 3.0 }, 128, 200_000);
        settings.warm_up_requests = 50_000;
        let outcome = run(&settings, Endless::random(IoOp::Write, &profile, 3));
        let counters = outcome.scheme;
        let of_cleaning = (counters.host_page_writes + counters.relocated_pages) as f64
            / counters.host_page_writes as f64;
        (of_cleaning, outcome.write_amplification)
    };
    let ((plain, all), (with, all_with)) = (amplification("0"), amplification("1"));
    assert_within(plain, all, 1e-12, "without parity");
    assert_within(with, plain, 0.02, "relocations with parity and without");
    assert_within(all_with, with * DIES / (DIES - 1.0), 0.005, "parity of both");
}

#[test]
fn parity_that_protects_nothing_is_refused() {
    let answer = |changes: &[(&str, &str)]| {
        let mut profile = drive(&[]);
        for (key, value) in [&[("ftl.parity_dies", "1")], changes].concat() {
            profile.set(key, value).expect("a key");
        }
        profile.check().unwrap_err().to_string()
    };
    assert!(answer(&[("ftl.parity_dies", "2")]).contains("must be from 0 to 1"));
    let one_by_one = answer(&[("media.multi_plane", "false")]);
    assert!(one_by_one.contains("must be 0 unless media.multi_plane is true"), "{one_by_one}");
    let one_die = answer(&[("media.channels", "1"), ("media.dies_per_package", "1")]);
    assert!(one_die.contains("must be 0 on a drive of one die"), "{one_die}");
    let scheme = answer(&[
        ("media.pages_per_program", "1"),
        ("media.pages_per_read", "1"),
        ("ftl.scheme", "page_mapped"),
    ]);
    assert!(scheme.contains("must be 0 unless ftl.scheme is superblock_mapped"), "{scheme}");
}
