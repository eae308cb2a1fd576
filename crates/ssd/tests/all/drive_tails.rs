//! Reads past a die that cleans: rebuilt from the rest of their stripe, with dies that take turns,
//! and cleaning in windows.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::sync::Arc;

use player::Flow;
use ssd::drive::load::{Pace, flow};
use ssd::drive::measure::Delay;
use ssd::drive::media::{Carried, Cause, Class, FlashOp};
use ssd::drive::profile::Profile;
use ssd::drive::run::{Outcome, simulate_flows};
use ssd::drive::state::State;
use ssd::drive::time::{Picos, picos_of_micros};
use units::{IoOp, IoRequest, Progress, VecRequests};

use crate::drive::player::{Ask, Played, play};
use crate::drive::{SplitMix, oracle, page_request, profile, settings};

/// Eight dies in two groups of four, with long erases; survivors lie apart.
const KEYS: [(&str, &str); 15] = [
    ("media.channels", "4"),
    ("media.dies_per_package", "2"),
    ("media.erase_blocks_per_plane", "64"),
    ("media.pages_per_erase_block", "64"),
    ("media.program_us", "[200]"),
    ("media.erase_us", "5000"),
    ("media.order", "reads_first"),
    ("interface.link_mb_per_second", "1e6"),
    ("write_buffer.bytes", "1Mi"),
    ("ftl.scheme", "superblock_mapped"),
    ("ftl.placement", "separate"),
    ("ftl.over_provisioning", "0.5"),
    ("ftl.parity_dies", "1"),
    ("ftl.stripe_dies", "4"),
    ("cleaning.start_below_free", "0.15"),
];

fn striped(changes: &[(&str, &str)]) -> Profile {
    profile(&[&KEYS, changes].concat())
}

/// Reads and writes of pages at random, three to one, each `gap` after the one before it.
fn mixed(profile: &Profile, count: u64, gap_us: u64) -> Flow {
    let mut random = SplitMix(11);
    let requests: Arc<[IoRequest]> = (0..count)
        .map(|number| {
            let op = if random.below(4) == 0 { IoOp::Write } else { IoOp::Read };
            page_request(op, random.below(profile.logical_pages()), number * gap_us * 1000)
        })
        .collect();
    flow(Box::new(VecRequests::new(requests)), Pace::OPEN)
}

fn run(profile: &Profile, count: u64, gap_us: u64) -> Outcome {
    let mut settings = settings(profile, State::Aged { overwrites: 2.0 }, 1, u64::MAX);
    settings.pace = Pace::OPEN;
    settings.warm_up_requests = count / 4;
    let flows = vec![mixed(profile, count, gap_us)];
    simulate_flows(&settings, None, flows, &Progress::default()).unwrap()
}

/// Longest read in microseconds.
fn longest(outcome: &Outcome) -> u64 {
    outcome.latencies.of(IoOp::Read).latency.max / 1000
}

const REBUILDS: [(&str, &str); 2] =
    [("ftl.parity_reads", "cleaning"), ("cleaning.rotates", "true")];

/// The bound of the paper's claim: if one die of a stripe cleans at a time, no read waits for
/// cleaning. It waits only for other work of the dies: here a program, reads and its own time.
#[test]
fn no_read_waits_for_an_erase_that_the_rest_of_its_stripe_does_not_have_to() {
    let plain = run(&striped(&[]), 30_000, 400);
    assert!(longest(&plain) > 4_000, "an erase holds reads up: {} us", longest(&plain));
    let with = run(&striped(&REBUILDS), 30_000, 400);
    assert!(longest(&with) < 2_000, "{} us", longest(&with));
    assert!(with.scheme.rebuilt_pages > 500, "{:?}", with.scheme);
    // Each rebuilt page takes a read of each other die of its group.
    let reads = with.media.operations[FlashOp::Read as usize];
    assert_eq!(reads[Cause::Reconstruction as usize], 3 * with.scheme.rebuilt_pages);
    assert_eq!(reads[Cause::Host as usize] + with.scheme.rebuilt_pages, host_reads(&with));
    let waited = with.latencies.of(IoOp::Read).delays[Delay::Die(Class::Erase)];
    assert!(waited.share_of_requests < 0.001, "{waited:?}");
}

/// Reads of pages that came from flash.
fn host_reads(outcome: &Outcome) -> u64 {
    outcome.latencies.of(IoOp::Read).latency.count
        - outcome.drive.pages_from_memory
        - outcome.drive.unmapped_pages
}

/// The counterexamples: with turns but without parity reads, each read waits for the erase of its
/// die; and if all dies of a superblock erase at once, nothing can be rebuilt.
#[test]
fn turns_and_parity_need_each_other() {
    for key in REBUILDS {
        let found = run(&striped(&[key]), 30_000, 400);
        assert!(longest(&found) > 4_000, "{key:?}: {} us", longest(&found));
    }
}

/// Programs of a stripe follow each other over its dies, so the slowest reads find all of them
/// busy; on average a read waits for less time.
#[test]
fn a_busy_die_is_gone_round_whatever_it_does() {
    let waits = |rule: &str| {
        let slow = [("media.program_us", "[2000]"), ("media.erase_us", "100")];
        let keys = [&slow[..], &[("ftl.parity_reads", rule)]].concat();
        let found = run(&striped(&keys), 40_000, 400);
        let reads = found.latencies.of(IoOp::Read);
        (reads.delays[Delay::Die(Class::DieBusy)].mean, found.scheme.rebuilt_pages)
    };
    let ((none, 0), (busy, rebuilt)) = (waits("none"), waits("busy")) else {
        panic!("nothing is rebuilt without being asked for")
    };
    assert!(rebuilt > 1000 && 1.2 * busy < none, "{rebuilt} rebuilt: {none} and {busy} ns");
}

fn asks(profile: &Profile, count: u32, gap: Picos) -> Vec<Ask> {
    let mut random = SplitMix(5);
    let ask = |_| {
        let op = if random.below(3) == 0 { IoOp::Read } else { IoOp::Write };
        Ask { gap, ..Ask::pages(op, random.below(profile.logical_pages()), 1, 4096) }
    };
    (0..count).map(ask).collect()
}

/// Plays on a small drive, from the factory state on.
fn played(profile: &Profile, gap_us: f64) -> Played {
    let mut profile = profile.clone();
    profile.set("media.pages_per_erase_block", "16").unwrap();
    let (profile, count) = (&profile, 24_000);
    let played = play(profile, 3, &asks(profile, count, picos_of_micros(gap_us)), 64).unwrap();
    oracle::check_reads(&played);
    played
}

fn of_cleaning(played: &Played) -> impl Iterator<Item = &Carried> {
    played.commands.iter().filter(|carried| carried.command.cause == Cause::Cleaning)
}

/// Number of pairs of commands of cleaning that two dies of a group had at the same time.
fn together(played: &Played) -> usize {
    let mut commands: Vec<(Picos, Picos, u32)> = of_cleaning(played)
        .map(|carried| {
            let die = played.layout.die_of(carried.command.page);
            (carried.issued_at, carried.done_at, die)
        })
        .collect();
    commands.sort_unstable();
    // Two dies per channel: the first of each are one group, the second the other.
    let is_together = |a: &(Picos, Picos, u32), b: &(Picos, Picos, u32)| {
        a.2 != b.2 && a.2 % 2 == b.2 % 2 && b.0 < a.1
    };
    let all = &commands;
    let near = |at: usize| all[at + 1..].iter().take_while(move |b| b.0 < all[at].1);
    (0..all.len()).map(|at| near(at).filter(|b| is_together(&all[at], b)).count()).sum()
}

#[test]
fn one_die_of_a_group_at_a_time_cleans() {
    let found = |rotates: &str| {
        let profile = striped(&[("cleaning.rotates", rotates), ("media.erase_us", "2000")]);
        let played = played(&profile, 400.0);
        assert!(played.scheme.erases > 500, "{:?}", played.scheme);
        together(&played)
    };
    assert_eq!(found("true"), 0);
    assert!(found("false") > 1000);
}

/// Under a load that takes all free space, nothing is held back any more, and nothing is lost.
#[test]
fn turns_end_where_writes_wait_for_room() {
    let keys = [("ftl.placement", "none"), ("cleaning.start_below_free", "0")];
    let profile = striped(&[&keys, &REBUILDS[..]].concat());
    let played = played(&profile, 0.0);
    let found = together(&played);
    assert!(played.scheme.relocated_pages > 1000 && found > 0, "{found}: {:?}", played.scheme);
}

const WINDOWS: [(&str, &str); 3] = [
    ("cleaning.window_period_us", "100000"),
    ("cleaning.window_share", "0.4"),
    ("cleaning.window_start", "0.2"),
];

/// Number of commands that begin a piece of cleaning outside of its windows, and number of all such
/// commands.
fn outside(played: &Played) -> (usize, usize) {
    let [period, from, to] = [100_000.0, 20_000.0, 60_000.0].map(picos_of_micros);
    let begins: Vec<Picos> = of_cleaning(played)
        .filter(|carried| carried.command.op != FlashOp::Program)
        .map(|carried| carried.issued_at % period)
        .collect();
    (begins.iter().filter(|&&at| at < from || at >= to).count(), begins.len())
}

fn windowed(scheme: &str, changes: &[(&str, &str)]) -> Profile {
    let keys = [
        ("ftl.scheme", scheme),
        ("ftl.parity_dies", "0"),
        ("ftl.stripe_dies", "0"),
        ("media.erase_us", "2000"),
    ];
    let others: &[(&str, &str)] =
        if scheme == "page_mapped" { &[("ftl.placement", "none")] } else { &[] };
    striped(&[&keys, others, changes].concat())
}

#[test]
fn space_is_reclaimed_in_windows_alone() {
    for scheme in ["page_mapped", "superblock_mapped"] {
        let (out, all) = outside(&played(&windowed(scheme, &WINDOWS), 400.0));
        assert!(out == 0 && all > 1000, "{scheme}: {out} of {all}");
        let (out, all) = outside(&played(&windowed(scheme, &[]), 400.0));
        assert!(2 * out > all, "{scheme}, without windows: {out} of {all}");
    }
}

#[test]
fn writes_that_wait_for_room_wait_for_no_window() {
    for scheme in ["page_mapped", "superblock_mapped"] {
        let keys = [&WINDOWS[..], &[("cleaning.start_below_free", "0.02")]].concat();
        let played = played(&windowed(scheme, &keys), 0.0);
        let (out, all) = outside(&played);
        assert!(out > 0, "{scheme}: {out} of {all}");
    }
}

/// A drive below the level for idle time that can gain nothing is left alone: once it was checked
/// again and again, without end.
#[test]
fn a_drive_with_windows_and_nothing_to_clean_becomes_quiet() {
    for scheme in ["page_mapped", "superblock_mapped"] {
        let keys = [("cleaning.background_below_free", "1"), ("cleaning.idle_us", "100")];
        let profile = windowed(scheme, &[&WINDOWS[..], &keys].concat());
        let page = profile.media.page_bytes;
        let asks: Vec<Ask> = (0..200).map(|lpn| Ask::pages(IoOp::Write, lpn, 1, page)).collect();
        let played = play(&profile, 1, &asks, 4).unwrap();
        assert_eq!(played.scheme.relocated_pages, 0, "{scheme}");
    }
}

#[test]
fn keys_that_need_others_say_so() {
    let answer = |changes: &[(&str, &str)]| {
        let mut profile = striped(&[]);
        changes.iter().for_each(|(key, value)| profile.set(key, value).unwrap());
        profile.check().unwrap_err().to_string()
    };
    assert!(answer(&[("ftl.stripe_dies", "3")]).contains("divide the dies, 8"));
    let none = [("ftl.parity_dies", "0"), ("ftl.stripe_dies", "0")];
    for (key, value) in REBUILDS {
        let said = answer(&[&none[..], &[(key, value)]].concat());
        assert!(said.contains(key) && said.contains("without ftl.parity_dies"), "{said}");
    }
    assert!(
        answer(&[("cleaning.window_period_us", "5"), ("cleaning.pace", "credits")])
            .contains("burst")
    );
}
