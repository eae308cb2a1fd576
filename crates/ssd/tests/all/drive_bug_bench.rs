//! The bug bench: one test for each fault that public SSD simulators show (lost writes, drives that
//! stop half full, steady states that are none, channels without time, copies of dead pages, erases
//! for nothing, deaf TRIM, wear levelling that levels nothing, infinite figures), which this drive
//! must not.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::collections::BTreeMap;

use crate::drive::player::{Ask, Played, play, play_and_keep};
use crate::drive::{Endless, SplitMix, assert_within, oracle, profile, run, settings};
use ssd::counting::Wear;
use ssd::drive::load::Pace;
use ssd::drive::media::{Carried, Cause, Command, FlashOp, Media, Tag};
use ssd::drive::profile::Profile;
use ssd::drive::run::Outcome;
use ssd::drive::state::State;
use ssd::drive::time::Picos;
use ssd::steady::{Stretch, judge, steady_part};
use units::{EraseBlockId, IoOp, IoRequest, Lpn, Ppn, VecRequests};

/// Picoseconds in a microsecond.
const US: Picos = 1_000_000;

/// 4 planes on 2 channels, 4096 pages, 20 % spare: small, and cleaned most of the time.
fn busy_drive(changes: &[(&str, &str)]) -> Profile {
    let sizes = [
        ("media.channels", "2"),
        ("media.planes_per_die", "2"),
        ("media.erase_blocks_per_plane", "128"),
        ("media.pages_per_erase_block", "8"),
        ("ftl.over_provisioning", "0.2"),
        ("ftl.victim", "greedy"),
    ];
    profile(&[&sizes, changes].concat())
}

fn random_writes(profile: &Profile, count: u32, seed: u64) -> Vec<Ask> {
    let (pages, page_bytes) = (profile.logical_pages(), profile.media.page_bytes);
    let mut random = SplitMix(seed);
    (0..count).map(|_| Ask::pages(IoOp::Write, random.below(pages), 1, page_bytes)).collect()
}

fn fill(profile: &Profile) -> Vec<Ask> {
    (0..profile.logical_pages())
        .map(|page| Ask::pages(IoOp::Write, page, 1, profile.media.page_bytes))
        .collect()
}

fn operations(played: &Played, op: FlashOp, cause: Cause) -> u64 {
    played.media.operations[op as usize][cause as usize]
}

#[test]
fn a_write_that_meets_a_page_under_cleaning_is_not_lost() {
    let profile = busy_drive(&[]);
    let asks = [fill(&profile), random_writes(&profile, 300_000, 1)].concat();
    let played = play_and_keep(&profile, 1, &asks, 32, 0).unwrap();
    assert_eq!(
        played.completions.iter().filter(|done| done.submission.op == IoOp::Write).count(),
        asks.len(),
        "none is lost"
    );
    oracle::check_reads(&played);
    // What was read for cleaning and not copied was overwritten in between: such writes did occur.
    let met = operations(&played, FlashOp::Read, Cause::Cleaning)
        - operations(&played, FlashOp::Program, Cause::Cleaning);
    assert!(met > 30, "only {met} writes met a page under cleaning");
}

#[test]
fn a_full_drive_is_full() {
    let profile = busy_drive(&[("ftl.over_provisioning", "0.1")]);
    let pages = profile.logical_pages();
    // Written with time: every page is there.
    let played = play_and_keep(&profile, 1, &fill(&profile), 32, 0).unwrap();
    let held = (0..pages).filter(|&page| {
        played.found.iter().any(|found| found.lpn.0 == page && played.writer(found, 0).is_some())
    });
    assert_eq!(held.count(), pages as usize, "every logical page holds data");
    // Then overwritten ten times over, and still every page is there.
    let played = play_and_keep(
        &profile,
        1,
        &[fill(&profile), random_writes(&profile, 10 * pages, 2)].concat(),
        32,
        0,
    )
    .unwrap();
    oracle::check_reads(&played);
    assert!(
        played.found.iter().all(|found| played.writer(found, 0).is_some()),
        "every logical page holds data"
    );
    // The state is not a share of it either.
    for state in [State::Filled, State::Aged { overwrites: 3.0 }] {
        let outcome = run(
            &settings(&profile, state, 4, u64::from(pages)),
            Endless::sequential(IoOp::Read, &profile, 1),
        );
        assert_eq!(
            (outcome.drive.unmapped_pages, outcome.media.of(FlashOp::Read)),
            (0, u64::from(pages)),
            "{state:?}"
        );
    }
}

/// The cleaning costs of a run's windows of equal length.
fn costs(outcome: &Outcome) -> Vec<Stretch> {
    let whole = &outcome.windows[..outcome.windows.len() - 1];
    whole
        .iter()
        .map(|window| {
            let over = window.host_page_writes as f64;
            Stretch { counted: over + window.relocated_pages as f64, over }
        })
        .collect()
}

#[test]
fn steady_is_tested_for_and_not_assumed() {
    let profile = busy_drive(&[
        ("media.erase_blocks_per_plane", "1024"),
        ("media.pages_per_erase_block", "32"),
    ]);
    let pages = u64::from(profile.logical_pages());
    let of = |state, requests| {
        costs(&run(
            &settings(&profile, state, 32, requests),
            Endless::random(IoOp::Write, &profile, 3),
        ))
    };
    // Just filled: cleaning costs less than it will.
    let young = of(State::Filled, pages / 2);
    assert!(
        judge(&young).unsteady.is_some(),
        "a drive that was just filled is not steady: {young:?}"
    );
    let old = of(State::Aged { overwrites: 4.0 }, pages);
    let steady = steady_part(&old);
    assert!(
        steady.unsteady.is_none() && steady.from < old.len() / 4,
        "{steady:?} of {} windows",
        old.len()
    );
    let mean = |stretches: &[Stretch]| judge(stretches).figure - 1.0;
    assert!(
        mean(&young) < 0.95 * mean(&old),
        "{} when just filled, {} when steady",
        mean(&young),
        mean(&old)
    );
}

#[test]
fn a_fast_channel_still_takes_time() {
    // In whole nanoseconds a byte would take none from 1000 MT/s on, and 4 KiB at 100,000 MT/s
    // would take 0 to 41 ns.
    for speed in [1000.0, 1200.0, 1600.0, 3200.0, 4800.0, 100_000.0] {
        let mut media =
            Media::new(&profile(&[("media.channel_mt_per_second", &format!("{speed}"))]).media);
        media.preset(EraseBlockId(0), 8);
        media.submit(Command::read(Ppn(0), 4096, Cause::Host, Tag::drive(0)));
        let mut done = Vec::new();
        while media.under_way() > 0 {
            media.step(&mut done);
        }
        let exact = 4096.0 / (speed * 1e6) * 1e12;
        let transfer = media.now() - 75 * US;
        assert!(
            (transfer as f64 - exact).abs() <= 1.0,
            "4 KiB at {speed} MT/s take {exact} ps, not {transfer}"
        );
        assert_eq!(media.channel_busy(0), transfer);
    }
    // And the channel limits what dies behind it read.
    let many = profile(&[
        ("media.dies_per_package", "16"),
        ("media.channel_mt_per_second", "1200"),
        ("media.read_us", "[20]"),
    ]);
    let outcome =
        run(&settings(&many, State::Filled, 64, 200_000), Endless::random(IoOp::Read, &many, 1));
    assert!(
        outcome.bytes_per_second() < 1200e6,
        "{} bytes a second over a channel of 1200 MB/s",
        outcome.bytes_per_second()
    );
    assert!(outcome.channel_share[0] > 0.5, "{:?}", outcome.channel_share);
}

/// Goes through the commands of a drive with one request at a time. A copy has to be of the newest
/// version; an erase block is erased when nothing in it is valid, and its cleaning took as many
/// copies as pages were valid when it began.
fn check_copies(played: &Played) -> u64 {
    let mut newest: BTreeMap<u32, Ppn> = BTreeMap::new();
    let mut copied: BTreeMap<u32, u64> = BTreeMap::new();
    let mut copies = 0;
    let page_of = |carried: &Carried| played.contents.page_of(carried.content).map(|lpn| lpn.0);
    for carried in &played.commands {
        let command = &carried.command;
        let block = |page| played.layout.block_of(page).0;
        match (command.op, command.cause) {
            (FlashOp::Program, Cause::Host) => {
                newest.insert(page_of(carried).unwrap(), command.page);
            }
            (FlashOp::Program | FlashOp::CopyBack, _) => {
                let page = page_of(carried).unwrap();
                assert_eq!(
                    newest.insert(page, command.page),
                    Some(command.from),
                    "only the newest version of page {page} is copied"
                );
                *copied.entry(block(command.from)).or_default() += 1;
                copies += 1;
            }
            (FlashOp::Erase, _) => {
                let victim = block(command.page);
                assert!(
                    newest.values().all(|&page| block(page) != victim),
                    "erase block {victim} is erased with valid pages"
                );
                let moved = copied.remove(&victim).unwrap_or(0);
                assert!(
                    moved < u64::from(played.layout.pages_per_block),
                    "a victim gains something"
                );
            }
            (FlashOp::Read, _) => {}
        }
    }
    assert!(
        copied.values().sum::<u64>()
            <= u64::from(played.layout.planes() * played.layout.pages_per_block),
        "all but victims at hand"
    );
    copies
}

#[test]
fn cleaning_copies_valid_pages_only() {
    for copy_back in ["false", "true"] {
        let profile =
            busy_drive(&[("media.copy_back", copy_back), ("media.erase_blocks_per_plane", "32")]);
        let pages = profile.logical_pages();
        let played =
            play(&profile, 1, &[fill(&profile), random_writes(&profile, 5 * pages, 4)].concat(), 1)
                .unwrap();
        let copies = check_copies(&played);
        assert!(copies > u64::from(pages), "{copies} copies");
        assert_eq!(copies, played.scheme.relocated_pages, "what is counted is what was copied");
        let programs = operations(&played, FlashOp::Program, Cause::Cleaning)
            + operations(&played, FlashOp::CopyBack, Cause::Cleaning);
        assert_eq!(copies, programs);
    }
}

#[test]
fn a_victim_with_k_valid_pages_costs_k_copies() {
    // One plane, 27 erase blocks of 8 pages filled in order and 5 free. Then of each the last pages
    // are overwritten, once: whenever cleaning begins, the erase blocks with the fewest valid pages
    // have the first `left` of them.
    for left in 0..8_u32 {
        let profile = profile(&[("ftl.victim", "greedy"), ("ftl.over_provisioning", "0.1852")]);
        let pages = profile.logical_pages();
        assert_eq!((pages, profile.physical_pages()), (215, 256));
        let overwritten = (0..pages).filter(|page| page % 8 >= left);
        let asks: Vec<Ask> = fill(&profile)
            .into_iter()
            .chain(overwritten.map(|page| Ask::pages(IoOp::Write, page, 1, 4096)))
            .collect();
        let played = play(&profile, 1, &asks, 1).unwrap();
        let (mut copies, mut victims) = (0, 0);
        for carried in &played.commands {
            match (carried.command.op, carried.command.cause) {
                (FlashOp::Program, Cause::Cleaning) => copies += 1,
                (FlashOp::Erase, _) => {
                    assert_eq!(copies, left, "copies of victim {victims}");
                    copies = 0;
                    victims += 1;
                }
                _ => {}
            }
        }
        assert!(victims > 0, "something was cleaned with {left} left");
    }
}

#[test]
fn erases_take_time() {
    let profile = busy_drive(&[("media.command_us", "2"), ("media.erase_blocks_per_plane", "64")]);
    let mut settings = settings(&profile, State::Fresh, 4, 10 * u64::from(profile.logical_pages()));
    settings.timeline_spans = 1 << 20;
    let outcome = run(&settings, Endless::random(IoOp::Write, &profile, 5));
    let erasing: Picos =
        outcome.dies.iter().map(|die| die[FlashOp::Erase as usize].iter().sum::<Picos>()).sum();
    let erases = outcome.media.of(FlashOp::Erase);
    assert!(erases > 100, "{erases} erases");
    assert_eq!(erases, outcome.scheme.erases);
    // Two dies on a channel of their own each: no command waits for the channel.
    assert_eq!(erasing, erases * 3802 * US);
    assert_eq!(outcome.timeline.unwrap().left_out(), 0);
    // Without the time of erases the same load is quicker by about that.
    let mut quick = settings.clone();
    quick.profile.media.erase_us = 0.001;
    let sooner = run(&quick, Endless::random(IoOp::Write, &profile, 5)).elapsed;
    assert!(
        outcome.elapsed > sooner + erasing / 4,
        "{} ps with erases, {sooner} without",
        outcome.elapsed
    );
}

#[test]
fn trim_frees() {
    let profile = busy_drive(&[
        ("media.erase_blocks_per_plane", "256"),
        ("media.pages_per_erase_block", "32"),
        ("ftl.over_provisioning", "0.1"),
    ]);
    let pages = profile.logical_pages();
    let writes = |reach: u32| {
        let mut random = SplitMix(6);
        let request = move |op, page: u32, length: u32| IoRequest {
            time_ns: 0,
            op,
            offset: u64::from(page) * 4096,
            length: length * 4096,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let trims = (reach..pages)
            .step_by(64)
            .map(move |page| request(IoOp::Trim, page, 64.min(pages - page)));
        trims
            .chain((0..6 * pages).map(move |_| request(IoOp::Write, random.below(reach), 1)))
            .collect::<Vec<_>>()
    };
    let amplification = |reach| {
        let requests = writes(reach);
        let mut settings = settings(&profile, State::Aged { overwrites: 2.0 }, 32, u64::MAX);
        settings.warm_up_requests = requests.len() as u64 / 2;
        run(&settings, VecRequests::new(requests.into()))
    };
    let (all, half) = (amplification(pages), amplification(pages / 2));
    assert!(all.write_amplification > 3.0, "{} without TRIM", all.write_amplification);
    // What is trimmed is spare.
    let alpha = profile.physical_pages() as f64 / f64::from(pages / 2) - 1.0;
    let theory = 1.0 / (1.0 - models::p_gc_greedy(alpha, 32).unwrap());
    assert!(theory < 1.2, "{theory}");
    assert_within(
        half.write_amplification,
        theory,
        0.02,
        "write amplification when half of the drive is trimmed",
    );
}

/// Most writes go to a fortieth of the drive.
fn hot_and_cold(profile: &Profile, writes: u32) -> VecRequests {
    let pages = profile.logical_pages();
    let mut random = SplitMix(7);
    let mut one = || {
        let page =
            if random.below(100) == 0 { random.below(pages) } else { random.below(pages / 40) };
        IoRequest {
            time_ns: 0,
            op: IoOp::Write,
            offset: u64::from(page) * 4096,
            length: 4096,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        }
    };
    VecRequests::new((0..writes).map(|_| one()).collect())
}

#[test]
fn wear_levelling_evens_wear() {
    let drive = |rule: &str, dynamic: &str| {
        busy_drive(&[
            ("media.endurance_cycles", "1500"),
            ("wear_levelling.static_rule", rule),
            ("wear_levelling.dynamic", dynamic),
            ("wear_levelling.spread_above", "0.02"),
            ("wear_levelling.life_below", "0.95"),
        ])
    };
    let wear = |rule, dynamic| -> (Wear, u64) {
        let profile = drive(rule, dynamic);
        let outcome =
            run(&settings(&profile, State::Filled, 8, 500_000), hot_and_cold(&profile, 500_000));
        assert_eq!(outcome.worn_out, None);
        assert_eq!(outcome.scheme.wear_moved_pages > 0, rule != "none");
        (outcome.wear, outcome.scheme.wear_moved_pages)
    };
    let (without, _) = wear("none", "false");
    let uneven = |wear: &Wear| wear.erases_stddev / wear.erases_mean;
    for rule in ["life", "spread", "life_or_spread"] {
        let (with, moved) = wear(rule, "true");
        assert!(
            uneven(&with) < 0.4 * uneven(&without),
            "{rule}: {} with, {} without",
            uneven(&with),
            uneven(&without)
        );
        assert!(
            f64::from(with.erases_max) < 0.8 * f64::from(without.erases_max),
            "{rule}: {with:?}, {without:?}"
        );
        assert!(moved < 250_000, "{rule}: {moved} pages were moved for 500,000 writes");
    }
}

#[test]
fn a_drive_that_is_worn_out_says_so_and_has_lost_nothing() {
    for (seed, allocation) in [
        (1, "dynamic"),
        (2, "dynamic"),
        (3, "dynamic"),
        (1, "static"),
        (2, "static"),
        (3, "static"),
    ] {
        let scheme = format!("page_mapped(allocation={allocation})");
        let profile = busy_drive(&[
            ("media.endurance_cycles", "30"),
            ("media.endurance_spread", "0.15"),
            ("media.factory_bad_share", "0.01"),
            ("media.erase_blocks_per_plane", "64"),
            ("ftl.over_provisioning", "0.4"),
            ("ftl.scheme", &scheme),
        ]);
        let asks = [fill(&profile), random_writes(&profile, 100_000, 8)].concat();
        let played = play_and_keep(&profile, seed, &asks, 16, 0).unwrap();
        let worn_out = played.worn_out.clone().expect("30 cycles do not last");
        assert!(worn_out.host_page_writes < asks.len() as u64);
        assert!(played.scheme.retired_blocks > 0);
        // Nothing that was acknowledged is lost, and all of it can be read.
        oracle::check_reads(&played);
        let reads =
            played.completions.iter().filter(|done| done.submission.op == IoOp::Read).count();
        assert_eq!(reads, played.logical_pages as usize);
        // It has used what it had: about the mean endurance of each erase block.
        let wear = Wear::of(&played.erase_counts);
        assert!((15.0..31.0).contains(&wear.erases_mean), "{allocation}: {wear:?}");
        assert!(played.erase_counts.iter().all(|&erases| erases < 60));
    }
}

#[test]
fn short_runs_show_no_infinity() {
    for (name, changes) in [
        ("plain", vec![]),
        (
            "buffered",
            vec![
                ("write_buffer.bytes", "64Ki"),
                ("write_buffer.flush_pages", "4"),
                ("energy.read_nj", "5"),
            ],
        ),
    ] {
        let profile = profile(&changes);
        for op in IoOp::ALL {
            for requests in [0, 1, 2] {
                for pace in [
                    Pace::Closed { depth: 4, think: 0 },
                    Pace::Closed { depth: 1, think: 5 },
                    Pace::OPEN,
                ] {
                    for state in [State::Fresh, State::Filled] {
                        let mut settings = settings(&profile, state, 1, requests);
                        settings.pace = pace;
                        settings.timeline_spans = 10;
                        let length = if op == IoOp::Flush { 0 } else { 4096 };
                        let request = IoRequest {
                            time_ns: 3,
                            op,
                            offset: 0,
                            length,
                            stream: 0,
                            latency_ns: None,
                            handle: 0,
                            is_fua: false,
                        };
                        let outcome = run(&settings, VecRequests::new(vec![request; 2].into()));
                        assert_eq!(outcome.requests, requests, "{name} {op:?} {pace:?} {state:?}");
                        let figures = [
                            outcome.iops(),
                            outcome.bytes_per_second(),
                            outcome.simulated_seconds(),
                            outcome.write_amplification,
                        ];
                        let of_windows = outcome.windows.iter().flat_map(|window| {
                            let amplification = window.write_amplification().unwrap_or(1.0);
                            [
                                window.iops(),
                                window.read_bytes_per_second(),
                                window.written_bytes_per_second(),
                                amplification,
                            ]
                        });
                        assert!(
                            figures.into_iter().chain(of_windows).all(f64::is_finite),
                            "{figures:?}"
                        );
                        let shown = format!("{outcome:?} {:?}", outcome.latencies.of(op));
                        let mut words = shown.split(|c: char| !c.is_alphanumeric());
                        assert!(
                            !words.any(|word| ["inf", "NaN", "nan"].contains(&word)),
                            "{shown}"
                        );
                    }
                }
            }
        }
    }
}

/// Some sectors of a page.
fn part(op: IoOp, page: u64, sector: u64, sectors: u32) -> Ask {
    Ask {
        op,
        offset: page * 4096 + sector * 512,
        length: sectors * 512,
        is_fua: false,
        queue: 0,
        gap: 0,
    }
}

fn whole(op: IoOp, page: u32) -> Ask {
    Ask::pages(op, page, 1, 4096)
}

/// Delays a request until all is quiet again.
fn later(ask: Ask) -> Ask {
    Ask { gap: 10_000 * US, ..ask }
}

#[test]
fn a_read_under_way_brings_no_old_version_into_the_cache() {
    let profile = profile(&[("read_cache.bytes", "64Ki")]);
    // The read waits for the program of page 5; when it has its data, page 0 was written again.
    let asks = [
        whole(IoOp::Write, 0),
        later(whole(IoOp::Write, 5)),
        whole(IoOp::Read, 0),
        whole(IoOp::Write, 0),
        later(whole(IoOp::Read, 0)),
    ];
    let played = play(&profile, 1, &asks, 8).unwrap();
    oracle::check_reads(&played);
    assert_eq!(played.writer(played.found(4, Lpn(0)), 0), Some(3));
    // The same where the write has to read the rest of the page before it, and other reads come
    // meanwhile.
    let asks = [
        whole(IoOp::Write, 0),
        later(whole(IoOp::Write, 5)),
        part(IoOp::Write, 0, 2, 1),
        whole(IoOp::Read, 0),
        later(whole(IoOp::Read, 0)),
    ];
    let played = play(&profile, 1, &asks, 8).unwrap();
    oracle::check_reads(&played);
    assert_eq!(played.writer(played.found(4, Lpn(0)), 2), Some(2));
}

#[test]
fn a_trim_is_not_undone_by_a_page_on_its_way_to_flash() {
    let profile = profile(&[
        ("write_buffer.bytes", "64Ki"),
        ("write_buffer.flush_pages", "1"),
        ("write_buffer.in_flight_pages", "4"),
    ]);
    // The page leaves the buffer, waits for its rest behind page 5, and is trimmed meanwhile.
    let asks = [
        whole(IoOp::Write, 0),
        later(whole(IoOp::Write, 5)),
        part(IoOp::Write, 0, 2, 1),
        Ask { gap: US, ..whole(IoOp::Trim, 0) },
        later(whole(IoOp::Read, 0)),
    ];
    let played = play(&profile, 1, &asks, 8).unwrap();
    oracle::check_reads(&played);
    assert!(
        (0..8).all(|sector| played.writer(played.found(4, Lpn(0)), sector).is_none()),
        "a trimmed page holds nothing"
    );
}

#[test]
fn writes_to_parts_of_one_page_do_not_undo_each_other() {
    for buffer in ["0", "64Ki"] {
        let profile = profile(&[
            ("write_buffer.bytes", buffer),
            ("write_buffer.flush_pages", if buffer == "0" { "0" } else { "1" }),
        ]);
        let parts = (0..8).map(|sector| part(IoOp::Write, 0, sector, 1));
        let asks: Vec<Ask> = [whole(IoOp::Write, 0), later(whole(IoOp::Write, 5))]
            .into_iter()
            .chain(parts)
            .chain([later(whole(IoOp::Read, 0))])
            .collect();
        let played = play(&profile, 1, &asks, 16).unwrap();
        oracle::check_reads(&played);
        for sector in 0..8 {
            assert_eq!(
                played.writer(played.found(10, Lpn(0)), sector),
                Some(2 + sector as usize),
                "sector {sector}, buffer {buffer}"
            );
        }
    }
}

#[test]
fn a_page_of_which_the_buffer_holds_a_part_is_read_from_flash() {
    let profile = profile(&[
        ("write_buffer.bytes", "64Ki"),
        ("write_buffer.flush", "when_full"),
        ("write_buffer.flush_pages", "4"),
    ]);
    let asks = [
        whole(IoOp::Write, 0),
        Ask::flush(),
        later(part(IoOp::Write, 0, 2, 1)),
        later(part(IoOp::Read, 0, 2, 1)),
        later(whole(IoOp::Read, 0)),
    ];
    let played = play(&profile, 1, &asks, 1).unwrap();
    oracle::check_reads(&played);
    assert_eq!(
        [0, 2, 7].map(|sector| played.writer(played.found(4, Lpn(0)), sector)),
        [Some(0), Some(2), Some(0)]
    );
    let latency = |handle: usize| {
        played.completions[handle].completed_at - played.completions[handle].submitted_at
    };
    assert!(latency(3) < US, "what is in the buffer takes no read: {} ps", latency(3));
    assert!(latency(4) > 75 * US, "the rest takes one: {} ps", latency(4));
}

#[test]
fn a_drive_whose_bad_erase_blocks_leave_too_little_is_refused() {
    let profile =
        busy_drive(&[("media.factory_bad_share", "0.16"), ("ftl.over_provisioning", "0.2")]);
    let refused = play(&profile, 1, &[], 1).err().expect("16 % bad of 17 % spare leave too little");
    let told = refused.to_string();
    assert!(told.contains("are too few for `none`, which needs") && !told.contains('\n'), "{told}");
}

#[test]
fn cleaning_in_idle_time_comes_to_an_end() {
    for (channels, background) in [("1", "0.3"), ("1", "1"), ("2", "0.3"), ("2", "1")] {
        for victim in ["greedy", "random", "lru"] {
            let profile = profile(&[
                ("media.channels", channels),
                ("cleaning.start_below_free", "0.1"),
                ("cleaning.background_below_free", background),
                ("cleaning.idle_us", "100"),
                ("ftl.victim", victim),
            ]);
            // The player asserts that the drive becomes quiet, and that it does so within a number
            // of commands.
            let asks = [fill(&profile), random_writes(&profile, 2000, 9)].concat();
            let played = play_and_keep(&profile, 1, &asks, 4, 0).unwrap();
            assert!(
                played.media.total() < 200_000,
                "{} commands for {} requests",
                played.media.total(),
                asks.len()
            );
        }
    }
}
