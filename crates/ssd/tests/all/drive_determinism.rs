//! The same drive, load and seed do the same, command by command: again, on another thread, in
//! debug and release, and after a change of the code.
//!
//! `drive_golden.txt` holds one line for each scheme and set of features. `UPDATE_GOLDEN=1 cargo
//! test --workspace --test all drive_determinism` writes it again; the difference is then
//! part of the change, to be read and explained.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::drive::{SplitMix, profile, run, settings, specs};
use ssd::drive::profile::Profile;
use ssd::drive::run::Outcome;
use ssd::drive::state::State;
use units::{IoOp, IoRequest, VecRequests};

const UPDATE: &str = "UPDATE_GOLDEN=1 cargo test --workspace --test all drive_determinism";
const HEADER: &str = "\
# Event hash and counters of 8,000 mixed requests at depth 8 on small drives \
that were filled and overwritten at random; see drive_determinism.rs.
# Written by UPDATE_GOLDEN=1 cargo test --workspace --test all drive_determinism
# scheme features event_hash picoseconds host_pages relocated_pages mapping_pages erases
";

/// Nothing beyond the flash, and all that a profile can switch on.
const FEATURES: [(&str, &[(&str, &str)]); 2] = [
    ("plain", &[]),
    (
        "all",
        &[
            ("media.read_us", "[50,70,90]"),
            ("media.program_us", "[400,900,2000]"),
            ("media.command_us", "1.3"),
            ("media.multi_plane", "true"),
            ("media.cache_mode", "true"),
            ("media.copy_back", "true"),
            ("media.suspend", "true"),
            ("media.suspend_us", "5"),
            ("interface.kind", "sata"),
            ("interface.queue_depth", "32"),
            ("interface.link_mb_per_second", "250"),
            ("interface.host_us", "12"),
            ("controller.read_command_us", "7"),
            ("controller.write_command_us", "3"),
            ("controller.page_us", "1"),
            ("controller.writes_wait_for_reads", "true"),
            ("write_buffer.bytes", "128Ki"),
            ("write_buffer.flush_pages", "8"),
            ("read_cache.bytes", "256Ki"),
            ("read_ahead.detector", "table"),
            ("read_ahead.trigger_requests", "2"),
            ("read_ahead.window_bytes", "32Ki"),
            ("read_ahead.streams", "2"),
            ("cleaning.start_below_free", "0.1"),
            ("cleaning.background_below_free", "0.2"),
            ("cleaning.idle_us", "500"),
        ],
    ),
];

/// Copies of pages on other dies: only of one scheme.
const COPIES: &[(&str, &str)] = &[
    ("replication.policy", "pblru"),
    ("replication.budget", "0.05"),
    ("replication.epoch_s", "0.01"),
    ("cleaning.start_below_free", "0.1"),
];

fn small(scheme: &str, features: &[(&str, &str)]) -> Profile {
    let sizes = [
        ("media.channels", "2"),
        ("media.dies_per_package", "2"),
        ("media.planes_per_die", "2"),
        ("media.erase_blocks_per_plane", "48"),
        ("media.pages_per_erase_block", "16"),
        ("ftl.over_provisioning", "0.3"),
        ("ftl.victim", "d_choices(d=3)"),
        ("ftl.scheme", scheme),
    ];
    profile(&[&sizes, features].concat())
}

/// Two thirds writes, some of a part of a page or of several, then reads, trims and flushes; half
/// of them to a tenth of the drive.
fn requests(profile: &Profile) -> VecRequests {
    let sectors = (profile.capacity_bytes() / 512) as u32;
    let mut random = SplitMix(20_240_229);
    let mut end = 0;
    let mut one = || {
        let op = match random.below(100) {
            0..62 => IoOp::Write,
            62..92 => IoOp::Read,
            92..99 => IoOp::Trim,
            _ => {
                return IoRequest {
                    time_ns: 0,
                    op: IoOp::Flush,
                    offset: 0,
                    length: 0,
                    stream: 0,
                    latency_ns: None,
                    handle: 0,
                    is_fua: false,
                };
            }
        };
        let reach = if random.below(2) == 0 { sectors / 10 } else { sectors };
        let page = 8;
        let (first, length) = match random.below(5) {
            0 => (random.below(reach), 1 + random.below(20)),
            1 => (end % sectors, 8),
            _ => (random.below(reach) / page * page, page * (1 + random.below(3))),
        };
        let length = length.min(sectors - first);
        end = first + length;
        IoRequest {
            time_ns: 0,
            op,
            offset: u64::from(first) * 512,
            length: length * 512,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        }
    };
    VecRequests::new((0..8_000).map(|_| one()).collect())
}

fn outcome(profile: &Profile, seed: u64) -> Outcome {
    let mut settings = settings(profile, State::Aged { overwrites: 0.5 }, 8, u64::MAX);
    settings.seed = seed;
    run(&settings, requests(profile))
}

fn shown(outcome: &Outcome) -> String {
    let counters = &outcome.scheme;
    format!(
        "{:016x} {} {} {} {} {}",
        outcome.event_hash,
        outcome.elapsed,
        counters.host_page_writes,
        counters.relocated_pages,
        counters.mapping_page_writes,
        counters.erases
    )
}

fn all() -> BTreeMap<(String, String), String> {
    let cases = specs()
        .into_iter()
        .flat_map(|spec| FEATURES.map(|(name, keys)| (spec.clone(), name, keys)))
        .chain([("page_mapped".to_owned(), "copies", COPIES)]);
    cases
        .map(|(spec, name, keys)| {
            ((spec.clone(), name.to_owned()), shown(&outcome(&small(&spec, keys), 1)))
        })
        .collect()
}

fn parse(text: &str) -> BTreeMap<(String, String), String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let [spec, name, rest] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("drive_golden.txt: `{line}`")
            };
            ((spec.to_owned(), name.to_owned()), rest.to_owned())
        })
        .collect()
}

#[test]
fn every_scheme_does_what_it_did() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drive_golden.txt");
    let found = all();
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        let lines = found.iter().map(|((spec, name), shown)| format!("{spec} {name} {shown}\n"));
        std::fs::write(&path, HEADER.to_owned() + &lines.collect::<String>()).unwrap();
        return;
    }
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; make it with {UPDATE}", path.display()));
    let golden = parse(&text);
    let keys = golden.keys().chain(found.keys()).collect::<std::collections::BTreeSet<_>>();
    let nothing = "nothing".to_owned();
    let told = keys.into_iter().filter(|key| golden.get(key) != found.get(key)).map(|key| {
        let of =
            |all: &BTreeMap<(String, String), String>| all.get(key).unwrap_or(&nothing).clone();
        format!("{} {}: was {}\n    now {}", key.0, key.1, of(&golden), of(&found))
    });
    let told: Vec<String> = told.collect();
    assert!(told.is_empty(), "{}\nIf that is meant, {UPDATE} accepts it.", told.join("\n"));
}

#[test]
fn the_load_is_the_one_that_was_recorded() {
    let mut source = requests(&small("page_mapped", &[]));
    let mut buffer = vec![IoRequest::NOTHING; 10_000];
    let count = units::RequestSource::fill(&mut source, &mut buffer).unwrap();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for request in &buffer[..count] {
        for word in [request.op as u64, request.offset, u64::from(request.length)] {
            hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }
    assert_eq!(
        (count, hash),
        (8_000, 9_057_672_628_497_264_053),
        "the requests changed, not the drive"
    );
}

#[test]
fn runs_on_two_threads_are_those_on_one() {
    for (_, keys) in FEATURES {
        let profile = small("page_mapped", keys);
        let alone = [1, 2].map(|seed| shown(&outcome(&profile, seed)));
        assert_eq!(alone[0], shown(&outcome(&profile, 1)), "the same seed does the same");
        assert_ne!(alone[0], alone[1], "another seed does something else");
        let together = std::thread::scope(|scope| {
            let threads = [1, 2].map(|seed| {
                scope.spawn({
                    let profile = &profile;
                    move || shown(&outcome(profile, seed))
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(together, alone);
    }
}
