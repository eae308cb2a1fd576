//! Common parts of the tests of the simulated drive: small profiles, a player of requests, and the
//! oracles that judge its results.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "helpers of tests that fail the test; each test file uses some of them"
)]

pub mod oracle;
pub mod player;

use ssd::drive::load::Pace;
use ssd::drive::profile::{Profile, parse};
use ssd::drive::run::{Outcome, RunSettings, simulate};
use ssd::drive::schemes::SCHEMES;
use ssd::drive::state::State;
use ssd::drive::time::Picos;
use units::{IoOp, IoRequest, Progress, RequestSource, SourceError};

/// One die, nothing around the flash.
const PLAIN: &str = r#"
name = "test-drive"
summary = "a small drive for tests"
sources = ["assumed"]
fitted = []

[media]
channels = 1
packages_per_channel = 1
dies_per_package = 1
planes_per_die = 1
erase_blocks_per_plane = 32
pages_per_erase_block = 8
page_bytes = 4096
read_us = [75]
program_us = [750]
erase_us = 3800
channel_mt_per_second = 333

[interface]
kind = "nvme"
link_mb_per_second = 1_000_000
queue_depth = 1024

[ftl]
scheme = "page_mapped"
over_provisioning = 0.5
"#;

/// The plain drive with some keys changed, checked.
pub fn profile(changes: &[(&str, &str)]) -> Profile {
    let mut profile = parse(PLAIN, "the tests' profile").unwrap();
    for (key, value) in changes {
        profile.set(key, value).unwrap();
    }
    profile.check().unwrap();
    profile
}

/// Steele, Lea & Flood, OOPSLA 2014 (`SplitMix64`), so that the loads of golden figures depend on
/// no crate's version.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }
}

/// A request for one page of 4 KiB.
pub fn page_request(op: IoOp, page: u32, time_ns: u64) -> IoRequest {
    IoRequest {
        time_ns,
        op,
        offset: u64::from(page) * 4096,
        length: 4096,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    }
}

/// Uniform random pages, or all in order, without end.
pub struct Endless {
    pub op: IoOp,
    pub pages: u32,
    pub page_bytes: u32,
    /// Pages of a request.
    pub length: u32,
    /// `None` for one after the other.
    pub random: Option<SplitMix>,
    next: u32,
}

impl Endless {
    pub fn random(op: IoOp, profile: &Profile, seed: u64) -> Self {
        let (pages, page_bytes) = (profile.logical_pages(), profile.media.page_bytes);
        Self { op, pages, page_bytes, length: 1, random: Some(SplitMix(seed)), next: 0 }
    }

    pub fn sequential(op: IoOp, profile: &Profile, length: u32) -> Self {
        let (pages, page_bytes) =
            (profile.logical_pages() / length * length, profile.media.page_bytes);
        Self { op, pages, page_bytes, length, random: None, next: 0 }
    }
}

impl RequestSource for Endless {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        for request in buffer.iter_mut() {
            let page = match &mut self.random {
                Some(random) => random.below(self.pages),
                None => {
                    let page = self.next;
                    self.next = (page + self.length) % self.pages;
                    page
                }
            };
            let (offset, length) =
                (u64::from(page) * u64::from(self.page_bytes), self.length * self.page_bytes);
            *request = IoRequest {
                time_ns: 0,
                op: self.op,
                offset,
                length,
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

/// Settings of an audited run in a closed loop.
pub fn settings(profile: &Profile, state: State, depth: u32, requests: u64) -> RunSettings {
    RunSettings {
        profile: profile.clone(),
        state,
        pace: Pace::Closed { depth, think: 0 },
        seed: 1,
        most_requests: requests,
        most_time: Picos::MAX,
        untimed_requests: 0,
        warm_up_requests: 0,
        timeline_spans: 0,
        audit: true,
    }
}

pub fn run(settings: &RunSettings, source: impl RequestSource + 'static) -> Outcome {
    simulate(settings, None, Box::new(source), &Progress::default()).unwrap()
}

pub fn assert_within(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found} is {:+.3} % off {expected}", 100.0 * error);
}

/// The registered schemes that take any request, with parameters that fit small drives; schemes
/// unknown here as they are. Zones are only written in order: `drive_zones.rs`.
pub fn specs() -> Vec<String> {
    let known = |name: &str| -> Vec<&str> {
        match name {
            "page_mapped" => vec![
                "page_mapped",
                "page_mapped(allocation=static,chunk_pages=2)",
                "page_mapped(chunk_pages=3)",
            ],
            "dftl" => {
                vec![
                    "dftl",
                    "dftl(cached_entries=16)",
                    "dftl(cached_entries=64,load_entries=8)",
                    "dftl(cached_entries=8,host_memory_bytes=20480,host_memory_us=30)",
                ]
            }
            "bast" => vec![
                "bast(log_blocks=2,interleave=1)",
                "bast(log_blocks=3,interleave=0,merges_at_once=2)",
            ],
            "fast" => vec![
                "fast(log_blocks=2,interleave=1)",
                "fast(log_blocks=4,interleave=0,merges_at_once=2)",
            ],
            "block_mapped" => vec![
                "block_mapped(open_blocks=2,interleave=1)",
                "block_mapped(open_blocks=1,interleave=0)",
            ],
            _ => Vec::new(),
        }
    };
    let of = |name: &str| {
        if known(name).is_empty() {
            vec![name.to_owned()]
        } else {
            known(name).into_iter().map(str::to_owned).collect()
        }
    };
    let names = SCHEMES.iter().map(|info| info.name).filter(|&name| name != "zoned");
    names.flat_map(of).collect()
}
