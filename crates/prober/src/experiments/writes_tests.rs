//! The experiments on writes, on small drives whose inside is known.

use std::ops::Range;

use block::{BlockDevice, BlockError, Command, Completion, DeviceInfo, Reply};
use devices::{Simulated, SimulatedSettings};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use ssd::drive::profile;
use ssd::drive::state::State;
use units::{IoOp, Nanos, Progress};

use crate::bench::{Bench, Region, Settings};
use crate::error::ProbeError;
use crate::finding::{Finding, Value, Verdict};
use crate::known::Known;

const ALL: [&str; 14] = [
    "write_buffer",
    "read_ahead",
    "erase_block_size",
    "focused",
    "logs",
    "write_patterns",
    "partitioned",
    "alignment",
    "pauses",
    "bursts",
    "thresholds",
    "serial_parallel",
    "cleaning_onset",
    "steady_state",
];

/// Two planes, erase blocks of 128 KiB, 128 MiB in all, quick flash: superblocks are of 256 KiB.
const SMALL: [&str; 5] = [
    "media.erase_blocks_per_plane=512",
    "media.pages_per_erase_block=32",
    "media.program_us=[200]",
    "media.read_us=[25]",
    "media.erase_us=1000",
];

fn drive(base: &str, changes: &[&str], state: State) -> Simulated {
    let profile = profile::load(base).unwrap().with_overrides(changes).unwrap();
    Simulated::new(base, &profile, SimulatedSettings { state, seed: 1 }, &Progress::default())
        .unwrap()
}

fn log_blocks(scheme: &str, more: &[&str]) -> Simulated {
    let scheme = format!("ftl.scheme={scheme}");
    let changes: Vec<&str> =
        SMALL.iter().copied().chain([scheme.as_str()]).chain(more.iter().copied()).collect();
    drive("usb-stick", &changes, State::Filled)
}

/// Thirty-two planes, no log blocks, with a write buffer of 2 MiB, a read cache of 1 MiB and
/// read-ahead of 64 KiB for four streams.
fn page_mapped(more: &[&str]) -> Simulated {
    let base = [
        "media.erase_blocks_per_plane=32",
        "media.pages_per_erase_block=64",
        "interface.link_mb_per_second=2000",
        "ftl.over_provisioning=0.5",
        "write_buffer.bytes=2097152",
        "read_cache.bytes=1048576",
        "read_ahead.detector=table",
        "read_ahead.trigger_requests=2",
        "read_ahead.window_bytes=65536",
        "read_ahead.streams=4",
    ];
    let changes: Vec<&str> = base.iter().copied().chain(more.iter().copied()).collect();
    drive("a16", &changes, State::Filled)
}

fn whole(device: &Simulated) -> Region {
    Region { offset: 0, length: device.info().limits.capacity_bytes }
}

fn run(
    device: &mut Simulated,
    region: Region,
    spec: &str,
    budget_s: u64,
    known: &Known,
) -> Result<Finding, ProbeError> {
    let progress = Progress::default();
    let settings = Settings { region, seed: 7, may_write: true, budget: budget_s * 1_000_000_000 };
    let (experiment, args) = crate::find(spec).unwrap();
    experiment.run(&mut Bench::new(device, settings, &progress), &args, known)
}

fn findings(device: &mut Simulated, specs: &[&str], budget_s: u64) -> Known {
    let mut known = Known::default();
    let region = whole(device);
    for spec in specs {
        let finding = run(device, region, spec, budget_s, &known).unwrap();
        known.add(finding);
    }
    known
}

fn found<'a>(known: &'a Known, key: &str) -> &'a Value {
    known
        .findings()
        .iter()
        .rev()
        .flat_map(|finding| &finding.values)
        .find(|value| value.key == key)
        .unwrap()
}

fn assert_sure(known: &Known, key: &str, truth: f64, tolerance: f64) {
    let value = found(known, key);
    let is_right = value.number.is_some_and(|number| (number / truth - 1.0).abs() <= tolerance);
    assert!(value.verdict == Verdict::Sure && is_right, "{key} is {truth}, found {value:?}");
}

fn assert_absent(known: &Known, keys: &[&str]) {
    for key in keys {
        assert_eq!(found(known, key).verdict, Verdict::NotFound, "{:?}", found(known, key));
    }
}

#[test]
fn a_drive_with_logs_shows_them() {
    let mut device = log_blocks("bast(log_blocks=3,interleave=0)", &[]);
    let known = findings(
        &mut device,
        &["write_buffer", "erase_block_size", "focused", "logs", "partitioned"],
        20,
    );
    assert_sure(&known, "superblock_bytes", 262_144.0, 0.0);
    assert_sure(&known, "log_blocks", 3.0, 0.0);
    assert_sure(&known, "partitioned_ways", 3.0, 0.0);
    assert_sure(&known, "focused_area_bytes", 786_432.0, 0.15);
    assert_absent(&known, &["write_buffer_bytes"]);
    assert_eq!(found(&known, "log_order").word.as_deref(), Some("any_order"));
}

/// A buffer that is emptied only when it is full takes all that it holds at once, and no more; one
/// that is emptied all the time takes much more. Held for the other, it seems half as large.
#[test]
fn a_buffer_is_as_large_whenever_it_is_emptied() {
    for rule in ["eager", "when_full", "batches"] {
        for bytes in [4u64 << 20, 16 << 20] {
            let mut device = drive(
                "a16",
                &[
                    "media.erase_blocks_per_plane=128",
                    "ftl.over_provisioning=0.5",
                    "interface.host_us=20",
                    "write_buffer.flush_pages=64",
                    &format!("write_buffer.bytes={bytes}"),
                    &format!("write_buffer.flush={rule}"),
                ],
                State::Filled,
            );
            let known = findings(&mut device, &["write_buffer"], 60);
            assert_sure(&known, "write_buffer_bytes", bytes as f64, 0.06);
        }
    }
}

#[test]
fn focused_writes_can_keep_to_the_area_that_was_found() {
    let cost = |patterns: &str| {
        let mut device = log_blocks("bast(log_blocks=3,interleave=0)", &[]);
        let known = findings(&mut device, &["focused", patterns], 20);
        (
            known.number("focused_write_area_bytes").unwrap(),
            known.number("focused_over_sequential").unwrap(),
        )
    };
    // Three logs of 256 KiB: writes at random within 8 MiB are not much better than anywhere.
    let (area, times) = cost("write_patterns(size=4Ki,area=0)");
    assert!((area / 786_432.0 - 1.0).abs() < 0.15 && times < 8.0, "{area} {times}");
    let (area, times) = cost("write_patterns(size=4Ki)");
    assert!(area > 4e6 && times > 20.0, "{area} {times}");
    // Where none was found it is the usual one.
    let mut device = log_blocks("bast(log_blocks=3,interleave=0)", &[]);
    let known = findings(&mut device, &["write_patterns(size=4Ki,area=0)"], 20);
    assert!(known.number("focused_write_area_bytes").unwrap() > 4e6);
}

#[test]
fn a_drive_with_replacement_blocks_takes_ascending_writes_only() {
    let mut device = log_blocks("block_mapped(open_blocks=2,interleave=0)", &[]);
    let known = findings(&mut device, &["erase_block_size", "focused", "logs", "partitioned"], 20);
    assert_sure(&known, "superblock_bytes", 262_144.0, 0.0);
    assert_sure(&known, "log_blocks", 2.0, 0.0);
    assert_sure(&known, "partitioned_ways", 2.0, 0.0);
    assert_eq!(found(&known, "log_order").word.as_deref(), Some("ascending"));
}

#[test]
fn logs_common_to_all_places_show_what_they_hold_and_how_fast_they_fill() {
    // 63 logs of 4 MiB for any page, behind a buffer of 32 MiB that programs 8 pages at once, each
    // in 200 us and a transfer or two.
    let mut device = drive("ocz-vertex-ex", &["media.erase_blocks_per_plane=64"], State::Filled);
    let known = findings(&mut device, &["logs(range=1Gi)"], 300);
    let (bytes, rate) =
        (known.number("log_bytes").unwrap(), known.number("log_write_bytes_per_second").unwrap());
    assert!((bytes / f64::from((63 << 22) + (32 << 20)) - 1.0).abs() < 0.05, "{bytes}");
    let us = 8.0 * 4096.0 / rate * 1e6;
    assert!((250.0..320.0).contains(&us), "{us}");
}

#[test]
fn a_drive_that_maps_by_pages_shows_no_logs_but_its_memory() {
    let mut device = page_mapped(&[]);
    let known = findings(
        &mut device,
        &["read_ahead", "write_buffer", "erase_block_size", "logs", "partitioned"],
        6,
    );
    assert_absent(&known, &["superblock_bytes", "log_blocks", "partitioned_ways"]);
    assert_sure(&known, "write_buffer_bytes", 2_097_152.0, 0.2);
    assert_sure(&known, "read_ahead_window_bytes", 65_536.0, 0.0);
    assert_sure(&known, "read_ahead_streams", 4.0, 0.0);
    assert_sure(&known, "read_cache_bytes", 1_048_576.0, 0.05);
}

#[test]
fn writes_are_aligned_to_pages() {
    let mut device = page_mapped(&["media.erase_blocks_per_plane=128", "media.page_bytes=8192"]);
    let region = Region { offset: 0, length: 32 << 20 };
    let mut known = Known::default();
    known.add(run(&mut device, region, "alignment(size=32Ki)", 6, &Known::default()).unwrap());
    assert_sure(&known, "aligned_to_bytes", 8192.0, 0.0);
}

#[test]
fn a_drive_with_nothing_around_the_flash_shows_nothing() {
    let none = ["write_buffer.bytes=0", "read_cache.bytes=0", "read_ahead.detector=none"];
    let mut device = page_mapped(&none);
    let known = findings(
        &mut device,
        &["read_ahead", "write_buffer", "focused", "pauses", "bursts", "serial_parallel"],
        6,
    );
    let absent = [
        "read_ahead_window_bytes",
        "read_ahead_streams",
        "read_cache_bytes",
        "write_buffer_bytes",
        "focused_area_bytes",
    ];
    assert_absent(&known, &absent);
    let buffered = found(&known, "writes_are_buffered");
    assert_eq!(
        (buffered.word.as_deref(), buffered.verdict),
        (Some("no"), Verdict::Unsure),
        "{buffered:?}"
    );
    // It cleans by now, which makes long bursts dearer.
    assert_ne!(found(&known, "burst_bytes").verdict, Verdict::Sure);
    assert_eq!(found(&known, "parallel_writes").word.as_deref(), Some("faster"));
}

#[test]
fn a_buffer_that_flash_empties_as_fast_as_it_is_filled_has_no_size_but_is_one() {
    let mut device = page_mapped(&[
        "write_buffer.bytes=2097152",
        "write_buffer.flush=eager",
        "interface.link_mb_per_second=2",
    ]);
    let known = findings(&mut device, &["write_buffer"], 20);
    assert_absent(&known, &["write_buffer_bytes"]);
    let buffered = found(&known, "writes_are_buffered");
    assert_eq!(
        (buffered.word.as_deref(), buffered.verdict),
        (Some("yes"), Verdict::Sure),
        "{buffered:?}"
    );
}

#[test]
fn cleaning_begins_when_spare_space_is_used_up_and_comes_to_rest() {
    let changes = [
        "media.channels=2",
        "write_buffer.bytes=0",
        "ftl.over_provisioning=0.6",
        "media.erase_blocks_per_plane=64",
    ];
    let mut device = page_mapped(&changes);
    let known = findings(&mut device, &["cleaning_onset", "steady_state"], 60);
    // 128 MiB of flash; cleaning starts below a twentieth of it.
    let spare = 134_217_728.0 * (0.6 / 1.6 - 0.05);
    let onset = found(&known, "cleaning_onset_bytes");
    assert!(
        onset.number.is_some_and(|bytes| bytes > 0.6 * spare && bytes < 1.1 * spare),
        "{spare}: {onset:?}"
    );
    // Until then it cleans beside the writes, from when a twentieth is all that is free.
    let begins = known.number("cleaning_begins_bytes");
    assert!(begins.is_none_or(|bytes| bytes < onset.number.unwrap_or(0.0)), "{begins:?} {onset:?}");
    assert_eq!(
        (found(&known, "is_steady").word.as_deref(), found(&known, "is_steady").verdict),
        (Some("yes"), Verdict::Sure)
    );
}

#[test]
fn noise_makes_nothing_wrong_that_is_sure() {
    let mut device = log_blocks("bast(log_blocks=5,interleave=0)", &["media.time_noise=0.2"]);
    let known = findings(&mut device, &["erase_block_size", "focused", "logs", "partitioned"], 20);
    for (key, truth) in [
        ("superblock_bytes", 262_144.0),
        ("focused_area_bytes", 1_310_720.0),
        ("log_blocks", 5.0),
        ("partitioned_ways", 5.0),
    ] {
        let value = found(&known, key);
        let is_right = value.number.is_some_and(|number| (number / truth - 1.0).abs() < 0.15);
        assert!(value.verdict != Verdict::Sure || is_right, "{key} is {truth}, found {value:?}");
    }
}

#[test]
fn all_run_on_small_regions_or_say_why_not() {
    for (name, mut device) in [
        ("bast", log_blocks("bast(log_blocks=3,interleave=0)", &[])),
        ("block_mapped", log_blocks("block_mapped(open_blocks=1,interleave=0)", &[])),
        ("page_mapped", page_mapped(&[])),
    ] {
        for length in [4096, 65_536, 1 << 20, (16 << 20) + 512] {
            for spec in ALL {
                let region = Region { offset: 3 * 4096 + 512, length };
                match run(&mut device, region, spec, 1, &Known::default()) {
                    Ok(finding) => {
                        assert!(
                            !finding.values.is_empty(),
                            "{spec} on {length} bytes of {name} found no values"
                        );
                        let numbers = finding.values.iter().flat_map(|value| {
                            value.number.into_iter().chain(value.interval.into_iter().flatten())
                        });
                        numbers.for_each(|number| {
                            assert!(
                                number.is_finite(),
                                "{spec} on {length} bytes of {name}: {finding:?}"
                            );
                        });
                        let is_without = |value: &&Value| {
                            value.verdict == Verdict::NotFound && value.number.is_some()
                        };
                        assert_eq!(finding.values.iter().find(is_without), None);
                    }
                    Err(ProbeError::Impossible { reason, .. }) => {
                        assert!(
                            length < 16 << 20 && !reason.is_empty(),
                            "{spec} on {length}: {reason}"
                        );
                    }
                    Err(error) => panic!("{spec} on {length} bytes of {name}: {error}"),
                }
            }
        }
    }
}

#[test]
fn the_same_seed_finds_the_same() {
    let once = || {
        let mut device = log_blocks("bast(log_blocks=3,interleave=0)", &["media.time_noise=0.05"]);
        let known = findings(&mut device, &["focused", "logs"], 2);
        serde_json::to_string(known.findings()).unwrap()
    };
    assert_eq!(once(), once());
}

/// A drive of which everything that is asked for is drawn, and what there is to find: key, truth,
/// and by how much a sure value may be off (beside its own interval). A truth of 0: nothing.
fn random_drive(seed: u64) -> (Simulated, Vec<(&'static str, f64, f64)>) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut one_of = |values: &[u64]| values[random.random_range(0..values.len())];
    let (channels, dies, page) = (one_of(&[1, 2, 4]), one_of(&[1, 2]), one_of(&[2048, 4096, 8192]));
    let pages = one_of(&[32, 64]);
    let (logs, scheme) = (one_of(&[1, 2, 3, 5, 7, 10, 13]), one_of(&[0, 0, 1, 2]));
    let (buffer, cache) = (one_of(&[0, 64, 128, 512]) << 10, one_of(&[0, 256, 1024, 3072]) << 10);
    let (window, streams) = (one_of(&[0, 32, 64, 256]) << 10, one_of(&[1, 4, 16]));
    let noise = one_of(&[0, 5, 20]) as f64 / 100.0;
    let superblock = channels * dies * pages * page;
    let name = [
        "bast(interleave=0,log_blocks",
        "block_mapped(interleave=0,open_blocks",
        "page_mapped(chunk_pages",
    ][scheme as usize];
    let chunk_or_logs = if scheme == 2 { 1 } else { logs };
    let has_ahead = window > 0 && cache > 0;
    let changes = [
        format!("media.channels={channels}"),
        format!("media.dies_per_package={dies}"),
        format!("media.page_bytes={page}"),
        format!("media.pages_per_erase_block={pages}"),
        format!("media.erase_blocks_per_plane={}", (1 << 30) / superblock),
        "media.program_us=[200]".to_owned(),
        format!("media.time_noise={noise}"),
        "ftl.over_provisioning=0.25".to_owned(),
        format!("ftl.scheme={name}={chunk_or_logs})"),
        format!("write_buffer.bytes={buffer}"),
        format!("read_cache.bytes={cache}"),
        format!("read_ahead.detector={}", if has_ahead { "table" } else { "none" }),
        "read_ahead.trigger_requests=2".to_owned(),
        format!("read_ahead.window_bytes={window}"),
        format!("read_ahead.streams={streams}"),
    ];
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    let by_blocks = |truth: u64| if scheme == 2 { 0.0 } else { truth as f64 };
    let ahead = |truth: u64| if has_ahead { truth as f64 } else { 0.0 };
    let truth = vec![
        ("superblock_bytes", by_blocks(superblock), 0.0),
        ("log_blocks", by_blocks(logs), 0.0),
        // What streams have in the buffer, the drive may put in order.
        ("partitioned_ways", by_blocks(logs), (buffer >> 15) as f64 / logs as f64),
        // Beside what has logs, the buffer holds its part. What is right for replacement blocks,
        // which each random write ends, is open.
        (
            "focused_area_bytes",
            if scheme == 1 { f64::NAN } else { by_blocks(logs * superblock) },
            0.1 + buffer as f64 / (logs * superblock) as f64,
        ),
        ("write_buffer_bytes", buffer as f64, 0.1),
        ("read_ahead_window_bytes", ahead(window), 0.0),
        ("read_ahead_streams", ahead(streams), 0.0),
        ("read_cache_bytes", cache as f64, 0.05),
        ("aligned_to_bytes", page as f64, 0.0),
    ];
    (drive("usb-stick", &changes, State::Loaded { pages: (256 << 20) / page as u32 }), truth)
}

/// Probes drives, and gives the numbers of sure values and of wrong ones among them.
fn campaign(drives: Range<u64>, budget_s: u64, is_told: bool) -> (u32, u32) {
    let specs = [
        "read_ahead",
        "write_buffer",
        "erase_block_size",
        "focused",
        "logs",
        "partitioned",
        "alignment",
    ];
    let (mut sure, mut wrong) = (0, 0);
    for seed in drives {
        let (mut device, truth) = random_drive(seed);
        let mut known = Known::default();
        for spec in specs {
            let finding =
                run(&mut device, Region { offset: 0, length: 256 << 20 }, spec, budget_s, &known)
                    .unwrap();
            known.add(finding);
        }
        for (key, truth, tolerance) in truth {
            let value = found(&known, key);
            let [low, high] = value.interval.unwrap_or([f64::NAN; 2]);
            let is_within = low <= truth && truth <= high;
            let is_right = value
                .number
                .is_some_and(|number| is_within || (number - truth).abs() <= tolerance * truth);
            if value.verdict == Verdict::Sure && !truth.is_nan() {
                sure += 1;
                wrong += u32::from(!is_right);
            }
            if is_told {
                println!(
                    "{seed:3} {key:24} {truth:10} {:?} {:?} {}  {}",
                    value.number,
                    value.verdict,
                    if is_right { "right" } else { "OFF" },
                    value.why
                );
            }
        }
    }
    (sure, wrong)
}

#[test]
fn what_is_sure_is_right_on_random_drives() {
    let (sure, wrong) = campaign(0..3, 60, false);
    assert!(sure > 5 && wrong == 0, "{wrong} of {sure} are wrong");
}

/// `cargo test -p flashwright-prober --lib -- --ignored --nocapture campaign_on_writes`
#[test]
#[ignore = "minutes: the table of what was found on 120 drives"]
fn campaign_on_writes() {
    let (sure, wrong) = campaign(0..60, 60, true);
    // With little time less is sure, and no more is wrong.
    let (hasty_sure, hasty_wrong) = campaign(60..120, 8, true);
    println!(
        "{wrong} of {sure} sure values are wrong; with an eighth of the time {hasty_wrong} of \
         {hasty_sure}"
    );
    assert!(20 * hasty_wrong <= hasty_sure, "{hasty_wrong} of {hasty_sure} sure values are wrong");
    assert!(20 * wrong <= sure, "{wrong} of {sure} sure values are wrong");
}

#[test]
fn cleaning_onset_writes_no_more_than_it_says() {
    let mut device = page_mapped(&[]);
    let region = whole(&device);
    let known = Known::new(vec![Finding {
        values: vec![Value::number("write_buffer_bytes", 4e6, "")],
        ..Finding::default()
    }]);
    let found = run(&mut device, region, "cleaning_onset(most=16Mi)", 1_000, &known).unwrap();
    assert!(
        found.written_bytes <= region.length + (16 << 20),
        "{} of {}",
        found.written_bytes,
        region.length
    );
    let error = run(&mut device, region, "cleaning_onset(most=8Mi)", 1_000, &known).unwrap_err();
    assert!(matches!(error, ProbeError::Impossible { .. }), "{error}");
}

/// A file on a file system without holes: trims are promised and fail.
struct WithoutHoles(Simulated, Vec<Completion>);

impl BlockDevice for WithoutHoles {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn now(&mut self) -> Nanos {
        self.0.now()
    }

    fn outstanding(&self) -> u32 {
        self.0.outstanding() + self.1.len() as u32
    }

    fn submit(&mut self, command: Command) {
        if command.op == IoOp::Trim {
            let (now, outcome) = (self.now(), Err(command.failed("the device does not do this")));
            let reply = Reply { id: command.id, outcome };
            self.1.push(Completion { reply, submitted_at: now, completed_at: now });
        } else {
            self.0.submit(command);
        }
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        if self.1.is_empty() {
            return self.0.wait(until, completed);
        }
        completed.append(&mut self.1);
        Ok(())
    }
}

#[test]
fn a_throughput_that_was_not_measured_is_not_told_as_none() {
    let mut device = log_blocks("bast(log_blocks=4,interleave=0)", &[]);
    let region = whole(&device);
    let found = run(&mut device, region, "cleaning_onset", 5, &Known::default()).unwrap();
    let value = &found.values[0];
    assert!(found.charts[0].series[0].points.is_empty(), "the test is of a drive that is too slow");
    assert!(
        value.verdict == Verdict::NotFound
            && value.why.contains("more time")
            && !value.why.contains("MB/s"),
        "{}",
        value.why
    );
}

#[test]
fn a_file_system_without_holes_ends_no_experiment() {
    let device = page_mapped(&[]);
    let settings =
        Settings { region: whole(&device), seed: 7, may_write: true, budget: 1_000_000_000 };
    let (experiment, args) = crate::find("cleaning_onset").unwrap();
    let (progress, mut device) = (Progress::default(), WithoutHoles(device, Vec::new()));
    experiment
        .run(&mut Bench::new(&mut device, settings, &progress), &args, &Known::default())
        .unwrap();
}

#[test]
fn a_burst_that_does_not_hold_a_request_is_impossible() {
    let mut device = page_mapped(&[]);
    let region = whole(&device);
    let error =
        run(&mut device, region, "bursts(size=128Ki,most=64Ki)", 1, &Known::default()).unwrap_err();
    assert!(matches!(error, ProbeError::Impossible { .. }), "{error}");
}

#[test]
fn chunks_that_a_device_does_not_take_whole_are_impossible() {
    let known = |chunk: f64, units: f64| {
        let values = [("chunk_bytes", chunk), ("parallel_units", units)]
            .map(|(key, number)| Value::number(key, number, "given"))
            .into();
        Known::new(vec![Finding { values, ..Finding::default() }])
    };
    for experiment in ["mapping", "interleaving"] {
        let mut device = page_mapped(&[]);
        let region = Region { offset: 0, length: 8 << 20 };
        // Too few of them in the region, and not of whole sectors.
        for chunk in [4e6, 1e12, 5000.0] {
            let error = run(&mut device, region, experiment, 1, &known(chunk, 4.0)).unwrap_err();
            assert!(matches!(error, ProbeError::Impossible { .. }), "{error}");
        }
        let opening = devices::Opening {
            most_bytes: 4096,
            ..devices::Opening::new("memory(bytes=8Mi)", devices::Access::Write)
        };
        let settings = Settings { region, seed: 7, may_write: true, budget: 1_000_000_000 };
        let (mut device, progress) = (devices::open(&opening).unwrap(), Progress::default());
        let (entry, args) = crate::find(experiment).unwrap();
        let error = entry
            .run(&mut Bench::new(&mut *device, settings, &progress), &args, &known(8192.0, 4.0))
            .unwrap_err();
        assert!(matches!(error, ProbeError::Impossible { .. }), "{error}");
    }
    let one_unit = run(
        &mut page_mapped(&[]),
        Region { offset: 0, length: 8 << 20 },
        "mapping",
        1,
        &known(4096.0, 1.0),
    )
    .unwrap();
    assert_eq!(one_unit.values[0].verdict, Verdict::NotFound);
}

#[test]
fn trims_are_as_long_as_they_may_be_whatever_other_requests_are() {
    let opening = devices::Opening {
        most_bytes: 4096,
        ..devices::Opening::new("memory(bytes=1Mi)", devices::Access::Write)
    };
    let (mut device, progress) = (devices::open(&opening).unwrap(), Progress::default());
    let settings = Settings {
        region: Region { offset: 0, length: 1 << 20 },
        seed: 7,
        may_write: true,
        budget: 1_000_000_000,
    };
    let mut bench = Bench::new(&mut *device, settings, &progress);
    super::writes::purge(&mut bench).unwrap();
    // One, and the flush.
    assert_eq!(bench.sent().requests, 2);
}
