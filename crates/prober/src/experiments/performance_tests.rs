//! The experiments of performance on small simulated drives, where the outcome is known, and where
//! there is hardly room for them.

use block::BlockDevice;

use devices::{Access, Opening, Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;
use units::Progress;

use crate::bench::{Bench, Region, Settings};
use crate::error::ProbeError;
use crate::finding::{Finding, Verdict};
use crate::known::Known;

/// 64 MiB behind two channels of one die with two planes each.
fn small(changes: &[&str]) -> Simulated {
    let size = [
        "media.channels=2",
        "media.packages_per_channel=1",
        "media.erase_blocks_per_plane=32",
        "ftl.over_provisioning=1",
    ];
    let profile = profile::load("a16").unwrap().with_overrides(&[&size, changes].concat()).unwrap();
    Simulated::new(
        "sim:a16",
        &profile,
        SimulatedSettings { state: State::Filled, seed: 1 },
        &Progress::default(),
    )
    .unwrap()
}

fn run_on(
    device: &mut dyn BlockDevice,
    spec: &str,
    length: u64,
    budget: u64,
    known: &Known,
    may_write: bool,
) -> Result<Finding, ProbeError> {
    let length = length.min(device.info().limits.capacity_bytes);
    let progress = Progress::default();
    let settings = Settings { region: Region { offset: 0, length }, seed: 1, may_write, budget };
    let mut bench = Bench::new(device, settings, &progress);
    let (experiment, args) = crate::find(spec).unwrap();
    let finding = experiment.run(&mut bench, &args, known)?;
    assert_eq!(experiment.writes, finding.written_bytes > 0, "{spec} says whether it writes");
    for chart in &finding.charts {
        assert!(
            !chart.series.is_empty() && chart.series.iter().all(|series| !series.points.is_empty()),
            "{spec}: {}",
            chart.name
        );
        let points = chart.series.iter().flat_map(|series| &series.points);
        points.for_each(|point| {
            assert!(
                point.x.is_finite() && point.y.is_finite(),
                "{spec}: {}: {point:?}",
                chart.name
            );
        });
    }
    for value in &finding.values {
        let is_given = value.number.is_some_and(f64::is_finite) || value.word.is_some();
        assert_eq!(is_given, value.verdict != Verdict::NotFound, "{spec}: {value:?}");
    }
    Ok(finding)
}

/// A second of device time on all of the small drive.
fn run(device: &mut Simulated, spec: &str) -> Finding {
    run_on(device, spec, u64::MAX, 1_000_000_000, &Known::default(), true).unwrap()
}

fn number(finding: &Finding, key: &str) -> f64 {
    let value = finding.values.iter().find(|value| value.key == key);
    value
        .and_then(|value| value.number)
        .unwrap_or_else(|| panic!("{key} is a number of {:#?}", finding.values))
}

fn word<'a>(finding: &'a Finding, key: &str) -> &'a str {
    let value = finding.values.iter().find(|value| value.key == key);
    value
        .and_then(|value| value.word.as_deref())
        .unwrap_or_else(|| panic!("{key} is a word of {:#?}", finding.values))
}

const ALL: &[(&str, bool)] = &[
    ("throughput_read", false),
    ("throughput_read(sizes=512..1Mi,depths=1..256)", false),
    ("throughput_write", true),
    ("equations_read", false),
    ("equations_write", true),
    ("response_time_read", false),
    ("response_time_write", true),
    ("mix", true),
    ("depth_read", false),
    ("depth_write", true),
    ("interference", true),
    ("streams", false),
    ("ill_mapped(chunk=4Ki,domains=2)", true),
];

#[test]
fn all_run_on_a_small_drive() {
    for (spec, writes) in ALL {
        let mut device = small(&[]);
        let finding = run(&mut device, spec);
        assert_eq!(finding.written_bytes > 0, *writes, "{spec}");
        assert!(!finding.values.is_empty() && !finding.charts.is_empty(), "{spec}");
    }
}

#[test]
fn the_grid_of_throughputs_is_as_fine_as_there_is_time_for() {
    for (seconds, sizes, charts) in [(1, 2, 4), (7, 5, 4), (70, 12, 6)] {
        let mut device = small(&[]);
        let found = run_on(
            &mut device,
            "throughput_read",
            16 << 20,
            seconds * 1_000_000_000,
            &Known::default(),
            false,
        )
        .unwrap();
        assert_eq!(found.charts.len(), charts, "{seconds} s");
        let by_size = found
            .charts
            .iter()
            .find(|chart| chart.name == "throughput_random_read_by_size")
            .unwrap();
        assert_eq!(by_size.series[0].points.len(), sizes, "{seconds} s");
    }
}

#[test]
fn all_run_where_there_is_hardly_room_or_time() {
    for (spec, _) in ALL {
        for budget in [1, 20_000_000] {
            run_on(&mut small(&[]), spec, 16 << 20, budget, &Known::default(), true)
                .unwrap_or_else(|error| panic!("{spec}: {error}"));
        }
        // Less than one request of most sizes: done, or one clear line.
        match run_on(&mut small(&[]), spec, 8192, 10_000_000, &Known::default(), true) {
            Ok(_) => {}
            Err(ProbeError::Impossible { reason, .. }) => {
                assert!(!reason.contains('\n'), "{spec}: {reason}");
            }
            Err(other) => panic!("{spec}: {other}"),
        }
    }
}

#[test]
fn reading_experiments_run_where_nothing_may_be_written() {
    for (spec, writes) in ALL {
        let done = run_on(&mut small(&[]), spec, 16 << 20, 100_000_000, &Known::default(), false);
        assert_eq!(done.is_err(), *writes, "{spec}");
    }
}

#[test]
fn reads_of_a_bare_drive_are_a_line_from_the_page_on() {
    // One request after the other on a bus that does not overlap with the array read: the pages of
    // 4 KiB that a request has lie on four planes of two channels in turn.
    let finding = run(&mut small(&[]), "equations_read(sizes=512..4Ki)");
    assert_eq!(word(&finding, "random_read_shape"), "line");
    // 512 bytes take 512 transfers of 1/333 us on the channel and, on this link, next to nothing.
    let slope = number(&finding, "random_read_us_per_sector");
    assert!((slope / (512.0 / 333.0) - 1.0).abs() < 0.1, "{slope}");
    let at_zero = number(&finding, "random_read_us_at_zero");
    assert!((at_zero / 75.0 - 1.0).abs() < 0.05, "{at_zero}");
}

/// Eight channels with one die each, so slow that the rest does not matter.
fn eight_dies() -> Simulated {
    small(&[
        "media.channels=8",
        "media.planes_per_die=1",
        "media.read_us=[500]",
        "media.program_us=[500]",
    ])
}

#[test]
fn the_knee_of_reads_is_the_number_of_dies() {
    let finding =
        run_on(&mut eight_dies(), "depth_read", u64::MAX, 20_000_000_000, &Known::default(), false)
            .unwrap();
    let knee = number(&finding, "random_read_knee_depth");
    assert!((knee / 8.0 - 1.0).abs() < 0.05, "{knee}");
}

#[test]
fn one_domain_of_eight_takes_eight_times_as_long() {
    let known = Known::new(vec![Finding {
        values: vec![
            crate::Value::number("chunk_bytes", 4096.0, ""),
            crate::Value::number("domains", 8.0, ""),
        ],
        ..Finding::default()
    }]);
    let finding =
        run_on(&mut eight_dies(), "ill_mapped", u64::MAX, 20_000_000_000, &known, true).unwrap();
    let factor = number(&finding, "ill_mapped_depth_32_factor");
    assert!((factor / 8.0 - 1.0).abs() < 0.05, "{factor}");
    assert!((number(&finding, "ill_mapped_depth_1_factor") - 1.0).abs() < 0.01);
    let verdict = |finding: &Finding| {
        finding
            .values
            .iter()
            .find(|value| value.key == "ill_mapped_depth_32_factor")
            .map(|value| value.verdict)
    };
    assert_eq!(verdict(&finding), Some(Verdict::Sure));
    // What is guessed to be one domain may be several.
    let mut guessed = known.findings().to_vec();
    guessed[0].values[1].verdict = Verdict::Unsure;
    let finding = run_on(
        &mut eight_dies(),
        "ill_mapped",
        u64::MAX,
        20_000_000_000,
        &Known::new(guessed),
        true,
    )
    .unwrap();
    assert_eq!(verdict(&finding), Some(Verdict::Unsure));
    let without =
        run_on(&mut eight_dies(), "ill_mapped", u64::MAX, 1_000_000_000, &Known::default(), true)
            .unwrap_err();
    assert_eq!(
        without.to_string(),
        "experiment `ill_mapped`: `chunk_bytes` is not known: run `chunk_size` before, or give it"
    );
}

#[test]
fn where_reads_and_writes_do_not_meet_there_is_no_bathtub() {
    let finding =
        run_on(&mut small(&[]), "mix", u64::MAX, 20_000_000_000, &Known::default(), true).unwrap();
    for access in ["sequential", "random"] {
        assert_eq!(word(&finding, &format!("{access}_bathtub")), "no");
    }
}

#[test]
fn turning_round_makes_a_bathtub() {
    let changes = ["controller.turnaround_us=200", "media.program_us=[75]"];
    let finding =
        run_on(&mut small(&changes), "mix", u64::MAX, 20_000_000_000, &Known::default(), true)
            .unwrap();
    assert_eq!(word(&finding, "sequential_bathtub"), "yes");
}

#[test]
fn a_bare_drive_answers_reads_in_one_time_and_the_mtron_takes_writes_in_two() {
    let finding = run(&mut small(&[]), "response_time_read");
    assert_eq!(number(&finding, "random_read_belts"), 1.0);
    // SCHEDULER figure 4.19: below 100 us, and beyond 10 ms.
    let profile = profile::load("mtron-pro-7500")
        .unwrap()
        .with_overrides(&["media.erase_blocks_per_plane=128"])
        .unwrap();
    let settings = SimulatedSettings { state: State::Filled, seed: 1 };
    let mut device = Simulated::new("sim:mtron", &profile, settings, &Progress::default()).unwrap();
    let finding = run_on(
        &mut device,
        "response_time_write",
        u64::MAX,
        60_000_000_000,
        &Known::default(),
        true,
    )
    .unwrap();
    assert_eq!(number(&finding, "random_write_belts"), 2.0);
    assert!(
        number(&finding, "random_write_belt_1_us") < 100.0
            && number(&finding, "random_write_belt_2_us") > 10_000.0
    );
    let share = number(&finding, "random_write_belt_2_share");
    assert!(share > 0.3 && share < 0.7, "{share}");
}

#[test]
fn two_streams_spoil_a_read_ahead_that_looks_at_the_last_request_only() {
    let spec = "streams(sizes=4Ki,streams=1+2)";
    let profile = profile::load("intel-x25e")
        .unwrap()
        .with_overrides(&["media.erase_blocks_per_plane=64"])
        .unwrap();
    let settings = SimulatedSettings { state: State::Filled, seed: 1 };
    let mut device = Simulated::new("sim:intel", &profile, settings, &Progress::default()).unwrap();
    let finding =
        run_on(&mut device, spec, u64::MAX, 5_000_000_000, &Known::default(), false).unwrap();
    assert_eq!(word(&finding, "streams_4ki_dip"), "yes");
    // Without read-ahead there is nothing to spoil, and two do more than one.
    let finding =
        run_on(&mut eight_dies(), spec, u64::MAX, 5_000_000_000, &Known::default(), false).unwrap();
    assert_eq!(word(&finding, "streams_4ki_dip"), "no");
    assert!(number(&finding, "streams_4ki_two_over_one") > 1.5);
}

#[test]
fn a_reader_and_a_writer_are_measured_alone_and_together() {
    let finding = run_on(
        &mut eight_dies(),
        "interference",
        u64::MAX,
        10_000_000_000,
        &Known::default(),
        true,
    )
    .unwrap();
    // 500 us and 12.3 us on the channel for either.
    for kind in ["random_read", "random_write", "sequential_read", "sequential_write"] {
        let alone = number(&finding, &format!("{kind}_alone_mb_per_second"));
        assert!((alone / (4096.0 / 512.3) - 1.0).abs() < 0.02, "{kind}: {alone}");
    }
    // Of eight dies a reader and a writer meet in one of eight, and the one that comes later waits
    // for half of the time.
    let share = number(&finding, "random_read_and_random_write_over_sum");
    assert!(share > 0.88 && share < 1.0, "{share}");
}

#[test]
fn belts_of_few_requests_are_not_sure() {
    let finding = run_on(
        &mut small(&[]),
        "response_time_write",
        u64::MAX,
        20_000_000,
        &Known::default(),
        true,
    )
    .unwrap();
    let belts: Vec<_> = finding.values.iter().filter(|value| value.key.contains("_belt")).collect();
    assert!(
        !belts.is_empty() && belts.iter().all(|value| value.verdict == Verdict::Unsure),
        "{belts:#?}"
    );
}

#[test]
fn reads_of_what_may_never_have_been_written_are_told_of() {
    for spec in ["throughput_read", "equations_read", "response_time_read", "depth_read", "streams"]
    {
        let mut memory = devices::open(&Opening::new("memory(bytes=16Mi)", Access::Write)).unwrap();
        // Of a simulated drive it is known whether it was filled.
        let drives: [(&mut dyn BlockDevice, usize); 2] = [(&mut *memory, 1), (&mut small(&[]), 0)];
        for (device, expected) in drives {
            let finding =
                run_on(device, spec, 16 << 20, 100_000_000, &Known::default(), false).unwrap();
            let told = finding.notes.iter().filter(|note| note.contains("never written")).count();
            assert_eq!(told, expected, "{spec} on {}", device.info().name);
        }
    }
}
