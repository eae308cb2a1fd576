//! Striped arrays under requests of any length, many at once: each read brings what was written,
//! with all drives and without one, and parity is that of what the drives hold.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{IoOp, Progress};

use super::*;
use crate::drive::array::run::places_of;
use crate::drive::array::{ArrayConfig, ArrayKind, ArrayReads};
use crate::drive::build::visit_drive;
use crate::drive::profile::{self, Profile};
use crate::drive::state::State;

fn small(changes: &[&str]) -> Profile {
    let keys = [
        "media.channels=2",
        "media.packages_per_channel=1",
        "media.erase_blocks_per_plane=16",
        "media.pages_per_erase_block=16",
        "ftl.over_provisioning=1",
    ];
    profile::load("a16").unwrap().with_overrides(&[&keys, changes].concat()).unwrap()
}

fn array(kind: &str, drives: u32, missing: Option<u32>) -> Striped {
    array_on(&small(&[]), kind, drives, missing)
}

fn array_on(profile: &Profile, kind: &str, drives: u32, missing: Option<u32>) -> Striped {
    let kind = ArrayKind::parse(kind).unwrap();
    let config = ArrayConfig { drives, kind, reads: ArrayReads::Home, missing };
    config.check().unwrap();
    let ArrayKind::Striped(striped) = &config.kind else { panic!("it has stripes") };
    let writes = striped.writes;
    let places = places_of(profile, &config).unwrap().unwrap();
    let made = |seed| {
        let progress = &Progress::default();
        let maker = crate::drive::array::run::Maker { state: State::Filled, seed, progress };
        visit_drive(profile, seed, None, maker).unwrap().unwrap()
    };
    let members = (0..u64::from(drives)).map(made).collect();
    Striped::new(members, places, profile.capacity_bytes(), writes, missing, true)
}

fn request(op: IoOp, offset: u64, length: u32, handle: u32) -> Submission {
    let (queue, priority, is_fua, placement) = (0, 0, false, 0);
    Submission { op, offset, length, queue, priority, is_fua, placement, handle }
}

/// Sends random requests to a few stripes, `depth` at once. Gives the number that completed.
fn play(array: &mut Striped, seed: u64, count: u32, depth: u32, most_sectors: u32) -> u32 {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let sectors = (array.places.stripe_bytes() / 512 * 6) as u32;
    let (mut sent, mut done, mut completed) = (0, 0, Vec::new());
    loop {
        while sent < count && array.outstanding < depth {
            let op = match random.random_range(0..100) {
                0..45 => IoOp::Write,
                45..94 => IoOp::Read,
                94..98 => IoOp::Trim,
                _ => IoOp::Flush,
            };
            let first = random.random_range(0..sectors);
            let long = random.random_range(1..=most_sectors.min(sectors - first));
            let (offset, length) = (u64::from(first) * 512, long * 512);
            let (offset, length) = if op == IoOp::Flush { (0, 0) } else { (offset, length) };
            let now = array.now;
            array.submit(now, request(op, offset, length, sent), &mut completed);
            sent += 1;
        }
        done += completed.drain(..).count() as u32;
        let Some(next) = array.next_time() else { break };
        array.step_at(next, &mut completed);
    }
    done
}

const KINDS: [(&str, u32); 6] = [
    ("raid5(unit=4Ki)", 3),
    ("raid5(unit=16Ki)", 5),
    ("raid5(unit=16Ki,writes=read_modify)", 4),
    ("diff_raid(shares=70,unit=8Ki)", 4),
    ("diff_raid(shares=100,unit=16Ki)", 6),
    ("raid5(unit=8Ki)", 2),
];

#[test]
fn a_read_brings_what_was_written_last() {
    for (kind, drives) in KINDS {
        for most_sectors in [8, 40, 300] {
            let mut array = array(kind, drives, None);
            assert_eq!(play(&mut array, 3, 3000, 12, most_sectors), 3000, "{kind}");
            assert_eq!(array.audit(), Ok(()), "{kind} of {drives}, {most_sectors} sectors");
            assert_eq!(array.outstanding, 0);
            assert!(array.locks.iter().all(|&lock| lock == NONE));
        }
    }
}

#[test]
fn a_read_brings_what_was_written_last_without_a_drive() {
    for (kind, drives) in KINDS {
        for missing in 0..drives {
            let mut array = array(kind, drives, Some(missing));
            assert_eq!(play(&mut array, 5, 2000, 12, 60), 2000, "{kind} without {missing}");
            assert_eq!(array.audit(), Ok(()), "{kind} of {drives} without {missing}");
            let gone = array.drives[missing as usize].media_counters();
            assert_eq!(gone.total(), 0, "nothing was asked of it");
            let StripeCounters { degraded_reads, degraded_writes, .. } = array.counters;
            assert!(degraded_writes > 0, "{kind} without {missing}");
            let held_parity_alone = kind.contains("shares=100") && missing == 0;
            assert_eq!(degraded_reads == 0, held_parity_alone, "{kind} without {missing}");
        }
    }
}

/// The idea taken out: two writes of a stripe at once each work out its parity without the other.
#[test]
fn without_turns_parity_is_lost() {
    let two_at_once = |has_no_locks| {
        let mut array = array("raid5(unit=16Ki)", 4, None);
        array.has_no_locks = has_no_locks;
        array.submit(0, request(IoOp::Write, 0, 4096, 0), &mut Vec::new());
        array.submit(0, request(IoOp::Write, 16384, 4096, 1), &mut Vec::new());
        while let Some(next) = array.next_time() {
            array.step_at(next, &mut Vec::new());
        }
        (array.counters.stripe_waits, array.audit())
    };
    assert_eq!(two_at_once(false), (1, Ok(())));
    let said = two_at_once(true).1.unwrap_err();
    assert!(said.contains("the parity of stripe 0"), "{said}");
}

/// The oracle can fail: what was changed behind its back is found by a read.
#[test]
fn a_drive_that_forgets_is_found() {
    let mut array = array("raid5(unit=16Ki)", 4, None);
    array.submit(0, request(IoOp::Write, 0, 4096, 0), &mut Vec::new());
    while let Some(next) = array.next_time() {
        array.step_at(next, &mut Vec::new());
    }
    assert_eq!(array.audit(), Ok(()));
    let places = array.places.clone();
    let drive = places.drive_of(0, places.parity_of(0));
    let rows = Stroke { from: 0, to: 4096, data: 1 << drive };
    let oracle = array.oracle.as_mut().unwrap();
    oracle.begin_write(&places, places.parity_of(0), 0, &[rows], false);
    oracle.end_write(&places, places.parity_of(0), 0, &[rows]);
    assert!(array.audit().unwrap_err().contains("no version of it from 2 to 2"));
}

/// A page at random is two reads and two writes; a whole stripe is written with its parity once.
#[test]
fn commands_are_those_of_the_textbook() {
    let operations = |array: &Striped| {
        let each = array.written.iter();
        let all = each
            .fold([0, 0], |[data, parity], one| [data + one.data_bytes, parity + one.parity_bytes]);
        (array.counters.extra_reads, all)
    };
    let run = |array: &mut Striped, offset, length| {
        array.submit(array.now, request(IoOp::Write, offset, length, 0), &mut Vec::new());
        while let Some(next) = array.next_time() {
            array.step_at(next, &mut Vec::new());
        }
    };
    let mut one = array("raid5(unit=4Ki)", 5, None);
    run(&mut one, 0, 4096);
    assert_eq!(operations(&one), (2, [4096, 4096]));
    assert_eq!(one.counters.read_modify_writes, 1);
    run(&mut one, 0, 4 * 4096);
    assert_eq!(operations(&one), (2, [5 * 4096, 2 * 4096]));
    assert_eq!(one.counters.full_stripe_writes, 1);
    run(&mut one, 0, 3 * 4096);
    assert_eq!(operations(&one), (3, [8 * 4096, 3 * 4096]), "only the fourth is read");
    assert_eq!(one.counters.reconstruct_writes, 1);
}
