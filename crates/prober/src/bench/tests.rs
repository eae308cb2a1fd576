use devices::{Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;
use units::{IoOp, Progress};

use super::*;

fn device() -> Simulated {
    let changes = ["media.channels=2", "media.packages_per_channel=1", "media.erase_blocks_per_plane=32", "ftl.over_provisioning=1"];
    let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
    Simulated::new("sim:a16", &profile, SimulatedSettings { state: State::Filled, seed: 1 }, &Progress::default()).unwrap()
}

fn settings(device: &Simulated) -> Settings {
    let region = Region { offset: 0, length: device.info().capacity_bytes };
    Settings { region, seed: 1, may_write: true, budget: 1_000_000_000 }
}

#[test]
fn throughput_is_depth_over_latency() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    for depth in [1, 2, 8] {
        let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
        let measured = bench.play(vec![Job::closed(reads, depth)], Limit::requests(2_000)).unwrap();
        assert_eq!(measured.requests, 2_000);
        let little = measured.iops() * measured.mean_latency_ns() / 1e9;
        assert!((little / f64::from(depth) - 1.0).abs() < 0.02, "depth {depth}: {little}");
    }
}

#[test]
fn a_measurement_ends_when_it_is_precise() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
    let measured = bench.play(vec![Job::closed(reads, 4)], Limit::time(60_000_000_000).precision(0.02)).unwrap();
    assert!(measured.elapsed < 1_000_000_000 && measured.relative_error() <= 0.02, "{}", measured.elapsed);
    let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
    let measured = bench.play(vec![Job::closed(reads, 4)], Limit::time(50_000_000).precision(0.0)).unwrap();
    assert!((measured.elapsed as f64 / 50e6 - 1.0).abs() < 0.02, "{}", measured.elapsed);
}

#[test]
fn jobs_are_told_apart_and_what_was_sent_is_counted() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    bench.fill(0, 1 << 20, 5_000_000).unwrap();
    assert_eq!(bench.sent(), Sent { requests: 5, read_bytes: 0, written_bytes: 1 << 20 });
    let reads = bench.at_offsets(IoOp::Read, vec![0, 8192], 4096);
    let writes = bench.pattern("sequential(size=8Ki)").unwrap();
    let jobs = vec![Job::closed(reads, 1), Job::new(writes, Pace::Closed { depth: 1, think: 1_000_000 })];
    let measured = bench.play(jobs, Limit::requests(500).with_samples()).unwrap();
    assert_eq!(measured.samples.len(), 500);
    assert_eq!(measured.jobs[0].requests + measured.jobs[1].requests, 500);
    assert!(measured.jobs[0].requests > measured.jobs[1].requests);
    assert_eq!(measured.of(IoOp::Write).len(), measured.jobs[1].requests);
}

#[test]
fn requests_at_their_own_times_are_measured_from_when_they_were_due() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    let bursts = bench.pattern("random(size=4Ki,reads=1,requests=40,burst=4,pause_us=10000)").unwrap();
    let measured = bench.play(vec![Job::new(bursts, Pace::Open)], Limit::requests(u64::MAX).after(0)).unwrap();
    assert_eq!(measured.requests, 40);
    assert!(measured.elapsed > 90_000_000 && measured.elapsed < 100_000_000, "{}", measured.elapsed);
}
