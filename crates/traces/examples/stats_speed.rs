//! Requests a second that trace statistics take in on one core, and the memory that they need.
//!
//! `cargo run --release -p flashwright-traces --example stats_speed [requests, in millions]`

use std::time::{Duration, Instant};

use traces::stats::{Number, Stats, StatsOptions};
use traces::synth::Workload;
use units::{IoOp, IoRequest, PageOp};

fn main() {
    let millions: u64 =
        std::env::args().nth(1).map_or(20, |text| text.parse().expect("millions of requests"));
    for (name, length) in [
        ("sequential(pages=1Mi)", 4096),
        ("zipf(pages=1Mi)", 4096),
        ("zipf(pages=25Mi)", 4096),
        ("uniform(pages=25Mi)", 4096),
        ("uniform(pages=1Mi)", 65536),
    ] {
        let workload = Workload::parse(&format!("{name}&updates={}", millions * 1_000_000), 1)
            .expect("specs in this list are right");
        let (mut source, mut pages) = (workload.source(), vec![PageOp(0); 8192]);
        let (mut stats, mut requests, mut taken) =
            (Stats::new(StatsOptions::default()), Vec::new(), Duration::ZERO);
        let mut time_ns = 0;
        loop {
            let count = source.fill(&mut pages).expect("synthetic sources do not fail");
            if count == 0 {
                break;
            }
            requests.clear();
            requests.extend(pages[..count].iter().map(|page| {
                time_ns += 1000;
                let offset = u64::from(page.lpn().0) * 4096;
                IoRequest {
                    time_ns,
                    op: IoOp::Write,
                    offset,
                    length,
                    stream: 0,
                    latency_ns: Some(20_000),
                    handle: 0,
                    is_fua: false,
                }
            }));
            let start = Instant::now();
            stats.feed(&requests);
            taken += start.elapsed();
        }
        let start = Instant::now();
        let found = stats.finish();
        let finish = start.elapsed();
        let Some(Number::Integer(footprint)) = found.scalar("footprint_pages") else {
            unreachable!("the footprint is a count")
        };
        println!(
            "{name:<24} {length:>6} bytes: {:>6.1} M requests/s, finish {:>5.2} s, {footprint} \
             pages, peak so far {}",
            workload.operations() as f64 / taken.as_secs_f64() / 1e6,
            finish.as_secs_f64(),
            peak_memory()
        );
    }
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or_else(|| "unknown".to_owned(), |peak| peak.trim().to_owned())
}
