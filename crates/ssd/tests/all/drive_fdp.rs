//! Placement by the host: hot and cold data through two reclaim unit handles against one, and
//! against closed forms of two drives; isolation; the counters of the logs.

use models::{p_gc_greedy, write_amplification};
use ssd::drive::logs::FdpStatistics;
use ssd::drive::profile::Profile;
use ssd::drive::run::Outcome;
use ssd::drive::schemes::FdpEvents;
use ssd::drive::state::State;
use units::{IoOp, IoRequest, RequestSource, SourceError};

use crate::drive::{SplitMix, assert_within, profile, run, settings};

/// Four dies; 2048 reclaim units of 64 pages.
const DRIVE: [(&str, &str); 8] = [
    ("media.channels", "4"),
    ("media.erase_blocks_per_plane", "2048"),
    ("media.pages_per_erase_block", "16"),
    ("media.erase_us", "100"),
    ("ftl.scheme", "superblock_mapped(pad_us=1000000)"),
    ("ftl.victim", "greedy"),
    ("ftl.over_provisioning", "0.15"),
    ("fdp.handles", "2"),
];
const UNIT_PAGES: u32 = 64;

/// The first fifth of the drive gets four of five writes, by handle 0; the rest gets the others, by
/// handle 1. All pages are written once, in order, before.
struct HotCold {
    pages: u32,
    hot: u32,
    /// By temperature.
    handles: [u8; 2],
    filled: u32,
    random: SplitMix,
}

impl HotCold {
    fn new(profile: &Profile, handles: [u8; 2]) -> Self {
        let pages = profile.logical_pages();
        Self { pages, hot: pages / 5, handles, filled: 0, random: SplitMix(7) }
    }
}

impl RequestSource for HotCold {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        for request in buffer.iter_mut() {
            let page = if self.filled < self.pages {
                self.filled += 1;
                self.filled - 1
            } else if self.random.below(5) < 4 {
                self.random.below(self.hot)
            } else {
                self.hot + self.random.below(self.pages - self.hot)
            };
            *request = IoRequest {
                time_ns: 0,
                op: IoOp::Write,
                offset: u64::from(page) * 4096,
                length: 4096,
                stream: 0,
                latency_ns: None,
                handle: self.handles[usize::from(page >= self.hot)],
                is_fua: false,
            };
        }
        Ok(buffer.len())
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        unreachable!("no test plays it twice")
    }
}

fn steady(profile: &Profile, handles: [u8; 2]) -> (Outcome, FdpStatistics) {
    let mut settings = settings(profile, State::Fresh, 64, 420_000);
    settings.untimed_requests = 12 * u64::from(profile.logical_pages());
    settings.warm_up_requests = 20_000;
    let outcome = run(&settings, HotCold::new(profile, handles));
    let fdp = outcome.fdp.clone().unwrap();
    (outcome, fdp)
}

fn drive(isolation: &str) -> Profile {
    profile(&[&DRIVE[..], &[("fdp.isolation", isolation)]].concat())
}

/// Write amplification of a drive with this many physical and logical pages, uniformly written and
/// cleaned greedily.
fn of_one_drive(physical: f64, logical: f64) -> f64 {
    write_amplification(p_gc_greedy(physical / logical - 1.0, UNIT_PAGES as usize).unwrap())
}

/// Bar 5 of the issue. Each handle acts as a drive of its own, with the reclaim units that it had
/// at the end.
#[test]
fn two_isolated_handles_are_two_drives() {
    let profile = drive("persistently");
    let (outcome, fdp) = steady(&profile, [0, 1]);
    assert_eq!(fdp.counts.relocated, None);
    let mut programs = 0.0;
    for (name, handle) in ["hot", "cold"].into_iter().zip(&fdp.counts.handles) {
        let host = handle.host_page_writes as f64;
        let found = 1.0 + handle.relocated_pages as f64 / host;
        // Half of each of its two open units is not written yet.
        let physical = f64::from(handle.reclaim_units - 1) * f64::from(UNIT_PAGES);
        let expected = of_one_drive(physical, handle.valid_pages as f64);
        assert_within(found, expected, 0.02, name);
        programs += host * expected;
    }
    let host: u64 = fdp.counts.handles.iter().map(|handle| handle.host_page_writes).sum();
    assert_within(outcome.write_amplification, programs / host as f64, 0.02, "both");
}

/// The counterexamples: one handle for both, and initial isolation, which mixes moved data again.
#[test]
fn isolation_is_worth_what_it_keeps_apart() {
    let amplification =
        |isolation, handles| steady(&drive(isolation), handles).0.write_amplification;
    let one = amplification("persistently", [0, 0]);
    let initially = amplification("initially", [0, 1]);
    let persistently = amplification("persistently", [0, 1]);
    assert!(persistently < 0.95 * one, "{persistently} instead of {one}");
    assert!(initially < one && initially > 1.04 * persistently, "{initially}, {persistently}");
}

#[test]
fn handles_survive_the_write_buffer_and_unknown_ones_are_told() {
    let changes = [
        ("media.erase_blocks_per_plane", "64"),
        ("write_buffer.bytes", "256Ki"),
        ("write_buffer.power_loss_protected", "true"),
        ("fdp.isolation", "persistently"),
    ];
    let profile = profile(&[&DRIVE[..], &changes].concat());
    let mut settings = settings(&profile, State::Fresh, 64, 60_000);
    let filled = u64::from(profile.logical_pages());
    settings.untimed_requests = 3 * filled;
    let outcome = run(&settings, HotCold::new(&profile, [1, 9]));
    let fdp = outcome.fdp.unwrap();
    let pages = |handle: usize| fdp.counts.handles[handle].host_page_writes as f64;
    assert_within(pages(1) / (pages(0) + pages(1)), 0.8, 0.02, "hot of all");
    let invalid = fdp.counts.events.invalid_placement_identifiers as f64;
    assert!(invalid > 0.0, "handle 9 of two");
    assert_within(invalid, pages(0), 0.01, "what came with it went to handle 0");
    assert_eq!(fdp.host_bytes, 60_000 * 4096);
    let programmed = outcome.scheme.host_page_writes + outcome.scheme.relocated_pages;
    assert_eq!(fdp.media_bytes, programmed * 4096);
    assert_eq!(fdp.erased_bytes, outcome.scheme.erases * 16 * 4096);
    assert_eq!(fdp.unit_bytes, u64::from(UNIT_PAGES) * 4096);
    assert!(fdp.counts.events.media_reallocated > 0 && fdp.counts.events.units_begun > 0);
    let valid: u64 = fdp.counts.handles.iter().map(|handle| handle.valid_pages).sum();
    assert_eq!(valid, filled, "every page is in a unit of one of the handles");
    assert_eq!(outcome.endurance_group.percentage_used, None);
    assert!((outcome.endurance_group.available_spare - 100.0).abs() < 1e-9);
}

/// Units are padded for pages that have to be durable, and are then not fully written.
#[test]
fn padding_is_told_as_units_not_fully_written() {
    let padded = profile(
        &[
            &DRIVE[..],
            &[
                ("ftl.scheme", "superblock_mapped(pad_us=10)"),
                ("media.pages_per_program", "4"),
                ("media.pages_per_read", "4"),
            ],
        ]
        .concat(),
    );
    let settings = settings(&padded, State::Filled, 1, 500);
    let fdp = run(&settings, HotCold::new(&padded, [0, 1])).fdp.unwrap();
    let FdpEvents { units_not_fully_written, units_begun, .. } = fdp.counts.events;
    assert!((1..=units_begun).contains(&units_not_fully_written), "{:?}", fdp.counts.events);
}
