//! Speed of the simulated drive on the drive that simulators are compared on (profile `a16`):
//! random reads, random writes under cleaning, and the making of a large full drive.
//!
//! Prints one line a case. Wall time on a shared machine drifts: compare lines of one run. So the
//! time of a flash operation is also told in random accesses to memory, each of which needs the
//! one before: a unit that is measured right before each case, and that drifts along. With
//! `OP REQUESTS` it runs one case, once, without that, so that instructions can be counted
//! (callgrind): those of two lengths, subtracted, leave the preparation out.

use std::time::Instant;

use memmap2::MmapMut;
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
                handle: 0,
                is_fua: false,
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

/// A random cycle through the cache lines of a memory that is much larger than the cache.
struct Chase {
    memory: MmapMut,
    at: u32,
}

impl Chase {
    const BYTES: usize = 512 << 20;
    const LINE: usize = 64;

    /// Large tables lie on huge pages where the system has them, as those of the FTL do: on small
    /// ones nearly each access misses the TLB too.
    fn new(on_huge_pages: bool) -> Self {
        let mut memory = MmapMut::map_anon(Self::BYTES).expect("memory for the measurement");
        #[cfg(target_os = "linux")]
        if on_huge_pages {
            // Only advice.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        let lines = (Self::BYTES / Self::LINE) as u32;
        let mut next: Vec<u32> = (0..lines).collect();
        let mut random = Pcg64Mcg::seed_from_u64(5);
        // Sattolo: a permutation of one cycle.
        for last in (1..lines).rev() {
            next.swap(last as usize, random.random_range(0..last) as usize);
        }
        for (line, next) in memory.chunks_exact_mut(Self::LINE).zip(next) {
            line[..4].copy_from_slice(&next.to_ne_bytes());
        }
        Self { memory, at: 0 }
    }

    /// Nanoseconds of an access that needs the one before.
    fn nanos(&mut self) -> f64 {
        const ACCESSES: u32 = 1 << 20;
        let words: &[u32] = bytemuck::cast_slice(&self.memory);
        let started = Instant::now();
        for _ in 0..ACCESSES {
            self.at = words[self.at as usize * (Self::LINE / 4)];
        }
        std::hint::black_box(self.at);
        started.elapsed().as_secs_f64() * 1e9 / f64::from(ACCESSES)
    }
}

/// The unit in which times are told: on small pages and on huge ones.
struct Units([Chase; 2]);

impl Units {
    fn new() -> Self {
        Self([false, true].map(Chase::new))
    }

    /// Runs a case and shows it, measured right after the unit.
    fn case(&mut self, name: &str, run: impl FnOnce() -> Outcome) {
        let [small, huge] = self.0.each_mut().map(Chase::nanos);
        let outcome = run();
        show(name, &outcome);
        let nanos = outcome.wall_seconds * 1e9 / outcome.media.total() as f64;
        println!(
            "    a random access after the other: {small:.0} ns, on huge pages {huge:.0} ns; a \
             flash operation: {nanos:.0} ns, {:.2} or {:.2} accesses",
            nanos / small,
            nanos / huge,
        );
    }
}

fn show(name: &str, outcome: &Outcome) {
    let wall = outcome.wall_seconds;
    println!(
        "{name}: {:.2} M requests/s, {:.2} M flash operations/s; {} flash operations, write \
         amplification {:.2}, {:.0} IOPS, prepared in {:.2} s, {:.1} bytes/page, hash {:016x}",
        outcome.requests as f64 / wall / 1e6,
        outcome.media.total() as f64 / wall / 1e6,
        outcome.media.total(),
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
    let mut units = Units::new();
    for _ in 0..3 {
        units.case("a16 random reads, filled", || run(&a16, IoOp::Read, 10_000_000, State::Filled));
        units.case("a16 random writes, aged", || {
            run(&a16, IoOp::Write, 400_000, State::Aged { overwrites: 2.0 })
        });
    }
    let mut large = a16;
    large.set("media.erase_blocks_per_plane", "3200").expect("the key is known");
    let started = Instant::now();
    units.case("100 GiB, filled, 1 M reads", || run(&large, IoOp::Read, 1_000_000, State::Filled));
    println!("in all {:.2} s", started.elapsed().as_secs_f64());
}
