//! Copies of pages on other dies (REPLICATION): what they must never do, and what each part of the
//! algorithms is for.

use crate::drive::player::{Ask, play};
use crate::drive::{SplitMix, oracle, profile, run, settings};
use crate::drive_properties::{any_drive, any_request, asks, build, check, config, pick};
use proptest::prelude::*;
use ssd::drive::measure::Delay;
use ssd::drive::media::{Cause, Class, FlashOp};
use ssd::drive::profile::Profile;
use ssd::drive::run::Outcome;
use ssd::drive::state::State;
use units::{IoOp, IoRequest, RequestSource, SourceError};

proptest! {
    #![proptest_config(config())]

    /// Whatever is evicted, raced, given up or overtaken: every read finds what a disk may hold,
    /// what is acknowledged is on flash, the tables agree, and nothing is left over.
    #[test]
    fn copies_keep_every_promise(
        keys in any_drive(),
        raw in prop::collection::vec(any_request(), 150..500),
        depth in prop_oneof![Just(1usize), Just(4), Just(32)],
        policy in pick(&["lru", "pblru"]),
        budget in pick(&["0.0001", "0.02", "0.1"]),
        patience in pick(&["0.01", "0", "300"]),
        copies in pick(&["2", "3", "8"]),
        counted in pick(&["page", "erase_block"]),
        epoch in pick(&["0.005", "60"]),
        allocation in pick(&["available", "dynamic", "static"]),
        occupies in pick(&["false", "true"]),
        random: u64,
    ) {
        let scheme = format!("page_mapped(allocation={allocation})");
        let changes = [
            ("media.packages_per_channel", "2"),
            ("media.factory_bad_share", "0"),
            ("ftl.scheme", &scheme),
            ("cleaning.occupies_die", occupies),
            ("replication.policy", policy),
            ("replication.budget", budget),
            ("replication.patience_us", patience),
            ("replication.most_places", copies),
            ("replication.counted", counted),
            ("replication.read_threshold", "0"),
            ("replication.epoch_s", epoch),
        ];
        let profile = build(&keys, &changes);
        check(&profile, random, &asks(&profile, &raw), depth);
    }
}

/// Reads of some of the pages, at random or each in turn, and writes of the others at random.
struct Mixed {
    random: SplitMix,
    pages: u32,
    /// Of a hundred requests.
    reads: u32,
    /// Pages that are read.
    read: u32,
    /// The next one, where they are read in turn.
    turn: Option<u32>,
}

impl RequestSource for Mixed {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        for request in buffer.iter_mut() {
            let is_read = self.random.below(100) < self.reads;
            let page = match &mut self.turn {
                Some(turn) if is_read => std::mem::replace(turn, (*turn + 1) % self.read),
                _ if is_read => self.random.below(self.read),
                _ => self.read + self.random.below(self.pages - self.read),
            };
            *request = IoRequest {
                time_ns: 0,
                op: if is_read { IoOp::Read } else { IoOp::Write },
                offset: u64::from(page) * 4096,
                length: 4096,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            };
        }
        Ok(buffer.len())
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        unreachable!("no test plays it twice")
    }
}

/// Eight dies, which rest for about half of the time under [`played`].
fn drive(changes: &[(&str, &str)]) -> Profile {
    let all = [
        ("media.channels", "8"),
        ("media.erase_blocks_per_plane", "64"),
        ("media.pages_per_erase_block", "32"),
        ("media.program_us", "[250]"),
        ("media.read_us", "[50]"),
        ("media.erase_us", "6000"),
        ("cleaning.start_below_free", "0.05"),
        ("replication.epoch_s", "0.1"),
        ("replication.budget", "0.05"),
    ];
    profile(&[&all[..], changes].concat())
}

pub fn played(changes: &[(&str, &str)], reads: u32) -> Outcome {
    let profile = drive(changes);
    let mut settings = settings(&profile, State::Aged { overwrites: 1.0 }, 2, 60_000);
    settings.warm_up_requests = 10_000;
    let pages = profile.logical_pages();
    let source = Mixed { random: SplitMix(7), pages, reads, read: pages / 20, turn: None };
    run(&settings, source)
}

const LRU: (&str, &str) = ("replication.policy", "lru");
const PBLRU: (&str, &str) = ("replication.policy", "pblru");

/// RRead: a read behind an erase is answered by another die. Without the idea reads wait for erases
/// as long as they do without copies.
#[test]
fn a_read_behind_an_erase_is_answered_by_another_die() {
    let wide = [("ftl.over_provisioning", "1")];
    let copies =
        [wide[0], PBLRU, ("replication.read_threshold", "0"), ("replication.budget", "0.15")];
    let (without, with) = (played(&wide, 80), played(&copies, 80));
    let copies = with.replication.as_ref().unwrap();
    assert!(without.replication.is_none());
    let waited = |outcome: &Outcome| {
        let reads = outcome.latencies.of(IoOp::Read);
        reads.delays[Delay::Die(Class::Erase)].mean
    };
    let (was, is) = (waited(&without), waited(&with));
    assert!(is < 0.8 * was, "reads wait {is} ns for erases, without copies {was}; {copies:?}");
    assert!(copies.counts.extra_reads > 0 && copies.counts.blocked_reads_with_copy > 0);
    // What came too late was withdrawn, or counts as in vain.
    let in_vain: u64 = with.media.in_vain.iter().flatten().sum();
    assert!(with.media.vanished + in_vain > 0);
}

/// RWrite: the first place that is programmed answers. Without a write buffer the write is done
/// then.
#[test]
fn the_first_place_that_is_programmed_answers_a_write() {
    let (without, with) = (played(&[], 30), played(&[LRU], 30));
    let p999 = |outcome: &Outcome| outcome.latencies.of(IoOp::Write).latency.p999;
    let (was, is) = (p999(&without), p999(&with));
    assert!(is < was, "writes: {is} ns, without copies {was}");
    let copies = with.replication.unwrap();
    assert!(copies.counts.copies_of_writes > 0);
    assert!(copies.counts.copies_of_writes > copies.counts.copies_of_reads);
    // The copies have a cause of their own, and are part of the write amplification.
    let programs = with.media.operations[FlashOp::Program as usize][Cause::Replication as usize];
    assert!(programs.abs_diff(with.scheme.replica_page_writes) <= 64, "{programs}");
    assert!(with.die_share.by_cause[Cause::Replication as usize] > 0.0);
    let all = with.scheme.host_page_writes
        + with.scheme.relocated_pages
        + with.scheme.replica_page_writes;
    let amplification = all as f64 / with.scheme.host_page_writes as f64;
    assert!((with.write_amplification - amplification).abs() < 1e-12);
}

/// A page is copied for its reads if it was blocked before: the first time it may be an accident.
/// That once made a copy, too.
#[test]
fn a_page_that_is_blocked_for_the_first_time_makes_no_copy() {
    let copies_of_reads = |threshold: &str| {
        let profile = drive(&[PBLRU, ("replication.read_threshold", threshold)]);
        let settings = settings(&profile, State::Aged { overwrites: 1.0 }, 2, 10_000);
        let pages = profile.logical_pages();
        // Less than once each.
        let source =
            Mixed { random: SplitMix(7), pages, reads: 50, read: pages / 2, turn: Some(0) };
        let counts = run(&settings, source).replication.unwrap().counts;
        assert!(counts.blocked_reads > 100, "{counts:?}");
        counts.copies_of_reads
    };
    assert_eq!(copies_of_reads("0.05"), 0);
    assert!(copies_of_reads("0") > 10);
}

/// The room is kept to, and what is evicted is no more than it has to be.
#[test]
fn copies_stay_within_their_room() {
    for policy in [LRU, PBLRU] {
        let outcome = played(&[policy, ("replication.budget", "0.002")], 30);
        let copies = outcome.replication.unwrap();
        assert!(copies.used_pages <= u64::from(copies.budget_pages));
        assert!(copies.counts.evicted_groups > 0, "{copies:?}");
        assert!(copies.most_queued_bytes > 0 && copies.map_bytes > 0);
    }
}

/// A write or trim forgets the copies: the next read has to find the new version, from whichever
/// die (the property test tries many such races; here each page is blocked and has copies).
#[test]
fn an_update_forgets_all_copies() {
    let profile = drive(&[
        PBLRU,
        ("media.channels", "2"),
        ("replication.read_threshold", "0"),
        ("replication.patience_us", "1"),
        // Room for copies, and no thresholds yet: they are made whenever a die rests.
        ("ftl.over_provisioning", "1"),
        ("replication.epoch_s", "60"),
    ]);
    let mut random = SplitMix(3);
    let hot = 24;
    let fill = (0..profile.logical_pages()).map(|page| Ask::pages(IoOp::Write, page, 1, 4096));
    let then = (0..9000).map(|_| {
        let op = match random.below(20) {
            0..12 => IoOp::Write,
            12..19 => IoOp::Read,
            _ => IoOp::Trim,
        };
        let page = if random.below(2) == 0 {
            random.below(hot)
        } else {
            random.below(profile.logical_pages())
        };
        Ask { gap: u64::from(random.below(400)) * 1_000_000, ..Ask::pages(op, page, 1, 4096) }
    });
    let asks: Vec<Ask> = fill.chain(then).collect();
    let first = play(&profile, 1, &asks, 6).unwrap();
    assert!(first.scheme.replica_page_writes > 50, "{:?}", first.scheme);
    oracle::check_reads(&first);
    let again = play(&profile, 1, &asks, 6).unwrap();
    assert_eq!(first.event_hash, again.event_hash, "the same twice is the same");
}

/// Groups refuse in one line where they cannot be.
#[test]
fn what_cannot_have_copies_says_so() {
    let mut wrong = drive(&[]);
    wrong.set("replication.policy", "lru").unwrap();
    wrong.set("ftl.scheme", "bast").unwrap();
    let error = wrong.check().unwrap_err().to_string();
    assert!(error.contains("replication.policy") && error.contains("page_mapped"), "{error}");
    let mut small = drive(&[LRU, ("replication.budget", "0.9")]);
    small.set("ftl.over_provisioning", "0.1").unwrap();
    let asks = [Ask::pages(IoOp::Read, 0, 1, 4096)];
    let Err(error) = play(&small, 1, &asks, 1) else { panic!("there is no room") };
    assert!(error.to_string().contains("replication.budget = 0.9"), "{error}");
}
