//! Speed of the simulated drive on the drive that simulators are compared on (profile `a16`):
//! random reads, random writes under cleaning, and the making of a large full drive.
//!
//! Prints one line a case. Wall time on a shared machine drifts: compare lines of one run. With
//! `OP REQUESTS` it runs one case, once, so that instructions can be counted (callgrind): those of
//! two lengths, subtracted, leave the preparation out.

use std::time::Instant;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use ssd::drive::load::Pace;
use ssd::drive::profile::{self, Profile};
use ssd::drive::run::{Outcome, RunSettings, simulate};
use ssd::drive::state::State;
use ssd::drive::time::Picos;
use units::{IoOp, IoRequest, Progress, RequestSource, SourceError};

/// Uniform random pages, without end.
struct Uniform {
    random: Pcg64Mcg,
    pages: u64,
    page_bytes: u32,
    op: IoOp,
}

impl RequestSource for Uniform {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        for request in buffer.iter_mut() {
            let offset = self.random.random_range(0..self.pages) * u64::from(self.page_bytes);
            *request = IoRequest {
                time_ns: 0,
                op: self.op,
                offset,
                length: self.page_bytes,
                stream: 0,
                latency_ns: None,
            };
        }
        Ok(buffer.len())
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

fn run(profile: &Profile, op: IoOp, requests: u64, state: State) -> Outcome {
    let source = Uniform {
        random: Pcg64Mcg::seed_from_u64(7),
        pages: u64::from(profile.logical_pages()),
        page_bytes: profile.media.page_bytes,
        op,
    };
    let settings = RunSettings {
        profile: profile.clone(),
        state,
        pace: Pace::Closed { depth: 32, think: 0 },
        seed: 1,
        most_requests: requests,
        most_time: Picos::MAX,
        untimed_requests: 0,
        warm_up_requests: 0,
        timeline_spans: 0,
        audit: false,
    };
    simulate(&settings, None, Box::new(source), &Progress::default()).expect("the run succeeds")
}

fn show(name: &str, outcome: &Outcome) {
    let wall = outcome.wall_seconds;
    println!(
        "{name}: {:.2} M requests/s, {:.2} M flash operations/s; write amplification {:.2}, {:.0} \
         IOPS, prepared in {:.2} s, {:.1} bytes/page, hash {:016x}",
        outcome.requests as f64 / wall / 1e6,
        outcome.media.total() as f64 / wall / 1e6,
        outcome.write_amplification,
        outcome.iops(),
        outcome.prepare_seconds,
        outcome.table_bytes_per_page,
        outcome.event_hash,
    );
}

fn main() {
    let a16 = profile::load("a16").expect("the profile is built in");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [op, requests, ..] = &arguments[..]
        && let Ok(requests) = requests.parse()
    {
        let (op, state) = if op == "read" {
            (IoOp::Read, State::Filled)
        } else {
            (IoOp::Write, State::Aged { overwrites: 0.5 })
        };
        return show("a16, one case", &run(&a16, op, requests, state));
    }
    for _ in 0..3 {
        show("a16 random reads, filled", &run(&a16, IoOp::Read, 10_000_000, State::Filled));
        show(
            "a16 random writes, aged",
            &run(&a16, IoOp::Write, 400_000, State::Aged { overwrites: 2.0 }),
        );
    }
    let mut large = a16;
    large.set("media.erase_blocks_per_plane", "3200").expect("the key is known");
    let started = Instant::now();
    show("100 GiB, filled, 1 M reads", &run(&large, IoOp::Read, 1_000_000, State::Filled));
    println!("in all {:.2} s", started.elapsed().as_secs_f64());
}
