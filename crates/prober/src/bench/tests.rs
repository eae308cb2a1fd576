use block::{BlockError, Command, Completion, DeviceKind};
use devices::{Access, Opening, Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;
use units::{IoOp, Progress};

use super::*;

fn device() -> Simulated {
    let changes = [
        "media.channels=2",
        "media.packages_per_channel=1",
        "media.erase_blocks_per_plane=32",
        "ftl.over_provisioning=1",
    ];
    let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
    Simulated::new(
        "sim:a16",
        &profile,
        SimulatedSettings { state: State::Filled, seed: 1 },
        &Progress::default(),
    )
    .unwrap()
}

fn settings(device: &Simulated) -> Settings {
    let region = Region { offset: 0, length: device.info().limits.capacity_bytes };
    Settings { region, seed: 1, may_write: true, budget: 1_000_000_000 }
}

#[test]
fn throughput_is_depth_over_latency() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    for depth in [1, 2, 8] {
        let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
        let measured = bench.play(vec![closed(reads, depth)], Limit::requests(2_000)).unwrap();
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
    let measured =
        bench.play(vec![closed(reads, 4)], Limit::time(60_000_000_000).precision(0.02)).unwrap();
    assert!(
        measured.elapsed < 1_000_000_000 && measured.relative_error() <= 0.02,
        "{}",
        measured.elapsed
    );
    let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
    let measured =
        bench.play(vec![closed(reads, 4)], Limit::time(50_000_000).precision(0.0)).unwrap();
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
    let jobs = vec![closed(reads, 1), flow(writes, Pace::Closed { depth: 1, think: 1_000_000 })];
    let measured = bench.play(jobs, Limit::requests(500).with_samples()).unwrap();
    assert_eq!(measured.samples.len(), 500);
    assert_eq!(measured.flows[0].requests + measured.flows[1].requests, 500);
    assert!(measured.flows[0].requests > measured.flows[1].requests);
    assert_eq!(measured.of(IoOp::Write).len(), measured.flows[1].requests);
}

#[test]
fn requests_at_their_own_times_are_measured_from_when_they_were_due() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    let bursts =
        bench.pattern("random(size=4Ki,reads=1,requests=40,burst=4,pause_us=10000)").unwrap();
    let measured =
        bench.play(vec![flow(bursts, Pace::OPEN)], Limit::requests(u64::MAX).after(0)).unwrap();
    assert_eq!(measured.requests, 40);
    assert!(
        measured.elapsed > 90_000_000 && measured.elapsed < 100_000_000,
        "{}",
        measured.elapsed
    );
}

#[test]
fn a_device_is_free_again_after_a_run_that_was_stopped() {
    let mut device = device();
    let settings = settings(&device);
    let stopped = Progress::default();
    stopped.cancel();
    let mut bench = Bench::new(&mut device, settings, &stopped);
    let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
    let played = bench.play(vec![closed(reads, 8)], Limit::time(1_000_000_000).precision(0.0));
    assert!(matches!(played, Err(ProbeError::Cancelled(_))));
    assert_eq!(device.outstanding(), 0);
    let progress = Progress::default();
    let mut bench = Bench::new(&mut device, settings, &progress);
    let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
    assert_eq!(
        bench.play(vec![closed(reads, 1)], Limit::requests(10).after(0)).unwrap().requests,
        10
    );
}

/// A real device that completes nothing.
struct Stuck {
    info: DeviceInfo,
    now: Nanos,
    outstanding: u32,
}

impl BlockDevice for Stuck {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn outstanding(&self) -> u32 {
        self.outstanding
    }

    fn submit(&mut self, _: Command) {
        self.outstanding += 1;
    }

    fn wait(&mut self, until: Nanos, _: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX, "it would be waited for ever");
        self.now = self.now.max(until);
        Ok(())
    }
}

#[test]
fn a_request_to_stop_is_heard_while_nothing_is_completed() {
    let info =
        DeviceInfo { is_virtual: false, kind: DeviceKind::BlockDevice, ..device().info().clone() };
    let mut device = Stuck { info, now: 0, outstanding: 0 };
    let region = Region { offset: 0, length: 1 << 20 };
    let stopped = Progress::default();
    stopped.cancel();
    let mut bench = Bench::new(
        &mut device,
        Settings { region, seed: 1, may_write: false, budget: 1_000_000_000 },
        &stopped,
    );
    let reads = bench.pattern("random(size=4Ki,reads=1)").unwrap();
    let played = bench.play(vec![closed(reads, 8)], Limit::requests(10));
    assert!(matches!(played, Err(ProbeError::Cancelled(_))));
    assert!(device.now < 10_000_000_000, "{}", device.now);
}

#[test]
fn filling_takes_the_longest_requests_that_the_device_does() {
    let opening =
        Opening { most_bytes: 64 << 10, ..Opening::new("memory(bytes=1Mi)", Access::Write) };
    let mut device = devices::open(&opening).unwrap();
    let region = Region { offset: 0, length: 1 << 20 };
    let progress = Progress::default();
    let mut bench = Bench::new(
        &mut *device,
        Settings { region, seed: 1, may_write: true, budget: 1_000_000_000 },
        &progress,
    );
    bench.fill(512, (300 << 10) + 512, 0).unwrap();
    // Four of 64 KiB, the rest, and the flush.
    assert_eq!(bench.sent(), Sent { requests: 6, read_bytes: 0, written_bytes: (300 << 10) + 512 });
}

/// The same times of batches, once in order of size and once mixed: the first tell less of the
/// mean.
#[test]
fn times_that_hang_together_tell_less() {
    let error = |times: &[u64]| {
        let mut batches = measured::Batches::new(4);
        let mut at = 0;
        for &time in times {
            at += time;
            (0..8).for_each(|_| {
                batches.ended(at);
            });
        }
        batches.relative_error()
    };
    let sorted: Vec<u64> = (0..40).map(|number| 1000 + 10 * number).collect();
    let mixed: Vec<u64> = (0..40).map(|number| sorted[number * 17 % 40]).collect();
    assert!(error(&sorted) > 2.0 * error(&mixed), "{} against {}", error(&sorted), error(&mixed));
}

#[test]
fn what_was_not_found_later_is_not_known_any_more() {
    use crate::{Finding, Known, Value};
    let found =
        Finding { values: vec![Value::number("chunk_bytes", 4096.0, "")], ..Finding::default() };
    let not = Finding { values: vec![Value::not_found("chunk_bytes", "")], ..Finding::default() };
    assert_eq!(Known::new(vec![not.clone(), found.clone()]).number("chunk_bytes"), Some(4096.0));
    assert_eq!(Known::new(vec![found, not]).number("chunk_bytes"), None);
}

#[test]
fn reads_of_a_burst_are_sent_after_their_lags() {
    let mut device = device();
    let (settings, progress) = (settings(&device), Progress::default());
    let mut bench = Bench::new(&mut device, settings, &progress);
    // The second lag is longer than the first read takes: the burst has not ended by then.
    let lags = [0, 1_000_000, 1_000_500, 0, 200, 900];
    let of = |(index, &time_ns): (usize, &u64)| units::IoRequest {
        time_ns,
        op: IoOp::Read,
        offset: index as u64 * 4096,
        length: 4096,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    };
    let source = bench.once(lags.iter().enumerate().map(of).collect());
    let measured = bench
        .play(
            vec![flow(source, Pace::Bursts { size: 3 })],
            Limit::requests(6).after(0).with_samples(),
        )
        .unwrap();
    let mut samples = measured.samples;
    samples.sort_by_key(|sample| sample.offset);
    let first_end =
        samples[..3].iter().map(|sample| sample.sent_ns + sample.latency_ns).max().unwrap();
    assert_eq!(
        samples[3].sent_ns, first_end,
        "the next burst begins when all of the first have ended"
    );
    for burst in [&samples[..3], &samples[3..]] {
        for sample in burst {
            assert_eq!(sample.sent_ns - burst[0].sent_ns, lags[(sample.offset / 4096) as usize]);
        }
    }
}
