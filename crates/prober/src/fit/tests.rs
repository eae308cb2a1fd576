use block::BlockDevice as _;
use devices::{Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;

use super::*;
use crate::bench::{Bench, Region, Settings};
use crate::cell::Access;
use crate::finding::{Finding, Value};
use crate::protocol::{Preparation, Protocol, measure_matrix, standard_cells};

const PROTOCOL: Protocol = Protocol {
    area_bytes: 16 << 20,
    warm_up_bytes: 4 << 20,
    measured_bytes: 4 << 20,
    condition_bytes: 20 << 20,
    cell_ns: 1_000_000_000,
    seed: 7,
};

fn small(name: &str) -> Profile {
    profile::load(name)
        .unwrap()
        .with_overrides(&[
            "media.erase_blocks_per_plane=64",
            "write_buffer.bytes=1Mi",
            "ftl.over_provisioning=0.5",
        ])
        .unwrap()
}

/// Without sequential mixes: how read-ahead and writes fall together there takes more requests to
/// average out than a test has time for.
fn few_cells() -> Vec<Cell> {
    let mut cells = standard_cells(4096);
    cells.retain(|cell| [4096, 65_536].contains(&cell.size_bytes) && [1, 16].contains(&cell.depth));
    cells.retain(|cell| cell.access == Access::Random || cell.reads != 0.5);
    cells
}

fn measured(profile: &Profile, cells: &[Cell]) -> Matrix {
    let settings = SimulatedSettings { state: State::Filled, seed: 1 };
    let progress = Progress::default();
    let mut device = Simulated::new("target", profile, settings, &progress).unwrap();
    let region = Region { offset: 0, length: device.info().limits.capacity_bytes };
    let mut bench = Bench::new(
        &mut device,
        Settings { region, seed: 1, may_write: true, budget: 1 },
        &progress,
    );
    measure_matrix(&mut bench, &PROTOCOL, cells, Preparation::Fill).unwrap()
}

fn input<'a>(
    capacity_bytes: u64,
    known: &'a Known,
    target: &'a Matrix,
    starts: &'a [Profile],
) -> Input<'a> {
    Input {
        name: "/dev/sdz",
        model: "Some  Drive\n1",
        capacity_bytes,
        known,
        target,
        starts,
        seed: 3,
        effort: 200,
        longest: None,
    }
}

#[test]
fn a_fitted_profile_does_what_the_drive_does() {
    let changes = [
        "media.read_us=[35,35]",
        "media.program_us=[400,1300]",
        "interface.host_us=12",
        "interface.link_mb_per_second=210",
        "controller.read_command_us=15",
    ];
    let truth = small("intel-x25m").with_overrides(&changes).unwrap();
    let target = measured(&truth, &few_cells());
    // So small a drive runs out of spare space within the matrix: how much it has is a finding, not
    // a guess.
    let spare = (truth.physical_pages() - u64::from(truth.logical_pages())) * 4096;
    let values =
        vec![Value::number("cleaning_onset_bytes", spare as f64, "as another experiment finds it")];
    let (known, starts) =
        (Known::new(vec![Finding { values, ..Finding::default() }]), [small("intel-x25m")]);
    let fitted =
        fit(&input(truth.capacity_bytes(), &known, &target, &starts), &Progress::default())
            .unwrap();
    assert!(fitted.share_within(0.1) >= 0.9, "{:?}", fitted.ratios);
    let loaded = profile::parse(&fitted.profile.to_toml(), "fitted").unwrap();
    assert_eq!(loaded, fitted.profile);
    assert_eq!(
        (loaded.name.as_str(), loaded.summary.as_str()),
        ("fitted-dev-sdz", "fitted to measurements of Some Drive 1")
    );
    assert_eq!(loaded.capacity_bytes(), truth.capacity_bytes());
    // Loaded as a drive of its own and probed again.
    let again = measured(&loaded, &few_cells());
    let ratios = target.ratios(&again);
    assert_eq!(ratios.len(), target.cells.len());
    // So short a protocol leaves mixes to chance by some per cent; pure reads and writes have to be
    // right.
    let pure = ratios.iter().filter(|(cell, _)| cell.reads != 0.5);
    assert!(
        pure.clone().count() >= 16 && pure.clone().all(|(_, ratio)| (ratio - 1.0).abs() < 0.1),
        "{ratios:?}"
    );
    assert!(ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() < 0.25), "{ratios:?}");
}

#[test]
fn the_same_seed_finds_the_same() {
    let target = measured(&small("intel-x25m"), &few_cells());
    let (known, starts) = (Known::default(), [small("intel-x25e")]);
    let found = || {
        fit(&Input { effort: 5, ..input(1 << 27, &known, &target, &starts) }, &Progress::default())
            .unwrap()
    };
    let (one, other) = (found(), found());
    assert_eq!(one.profile, other.profile);
    assert_eq!(one.matrix, other.matrix);
}

#[test]
fn a_stand_in_does_what_the_whole_drive_does() {
    for name in ["intel-x25e", "usb-stick"] {
        let whole = profile::load(name).unwrap();
        let mut cells = few_cells();
        cells.retain(|cell| cell.depth == 1);
        let large = measured(&whole, &cells);
        let small = stand_in::stand_in(&whole, PROTOCOL.area_bytes, large.written_bytes());
        assert!(
            small.physical_pages() * 8 < whole.physical_pages(),
            "{name}: {}",
            small.physical_pages()
        );
        let ratios = large.ratios(&measured(&small, &cells));
        assert!(ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() < 0.03), "{name}: {ratios:?}");
    }
}

#[test]
fn no_more_is_simulated_than_was_asked_for() {
    let target = measured(&small("intel-x25m"), &few_cells());
    let (known, starts) = (Known::default(), [small("intel-x25e"), small("usb-stick")]);
    for effort in [0, 1, 3, 10] {
        let fitted = fit(
            &Input { effort, ..input(1 << 27, &known, &target, &starts) },
            &Progress::default(),
        )
        .unwrap();
        assert!(fitted.evaluations <= effort.max(1), "{} of {effort}", fitted.evaluations);
        fitted.profile.check().unwrap();
        assert_eq!(fitted.matrix.cells.len(), target.cells.len());
    }
}

#[test]
fn at_the_end_of_its_time_the_best_so_far_is_returned() {
    let target = measured(&small("intel-x25m"), &few_cells());
    let (known, starts) = (Known::default(), [small("usb-stick")]);
    let longest = Some(Duration::from_millis(1));
    let input = Input { effort: usize::MAX, longest, ..input(1 << 27, &known, &target, &starts) };
    let fitted = fit(&input, &Progress::default()).unwrap();
    fitted.profile.check().unwrap();
    assert!(
        fitted.notes.iter().any(|note| note.contains("ended after 0.001 s")),
        "{:?}",
        fitted.notes
    );
}

#[test]
fn a_stand_in_keeps_as_much_free_as_the_whole_drive() {
    let whole = profile::load("a16").unwrap();
    let small = stand_in::stand_in(&whole, 256 << 20, 1 << 30);
    let kept = |profile: &Profile| {
        let rows = f64::from(profile.media.erase_blocks_per_plane);
        let spare = (profile.physical_pages() - u64::from(profile.logical_pages())) as f64
            / profile.physical_pages() as f64;
        (profile.cleaning.start_below_free * rows, spare * rows)
    };
    let ((a, all_a), (b, all_b)) = (kept(&whole), kept(&small));
    assert!(small.media.erase_blocks_per_plane * 4 < whole.media.erase_blocks_per_plane);
    assert!((a - b).abs() < 0.6 && (all_a - all_b).abs() < 0.6, "{a} {b} of {all_a} {all_b}");
}

#[test]
fn spare_space_contradicts_no_finding() {
    let capacity_bytes = 1_u64 << 30;
    let spare = |values: Vec<Value>| {
        let known = Known::new(vec![Finding { values, ..Finding::default() }]);
        let spare = spare::Spare::of(&known, &Matrix { protocol: PROTOCOL, cells: Vec::new() });
        let mut profile = small("intel-x25m");
        spare::size(&mut profile, capacity_bytes, spare, &mut Vec::new());
        spare::reserve(&mut profile, spare);
        profile.check().unwrap();
        assert_eq!(profile.capacity_bytes(), capacity_bytes);
        let all = profile.physical_pages() as f64 * f64::from(profile.media.page_bytes);
        let row = f64::from(
            profile.layout().planes()
                * profile.media.pages_per_erase_block
                * profile.media.page_bytes,
        );
        (all - capacity_bytes as f64, profile.cleaning.start_below_free * all - 1.5 * row)
    };
    let usual = spare(Vec::new()).0;
    assert!((0.05e9..0.2e9).contains(&usual), "{usual}");
    // Not a drive that would have had to clean before.
    let least = spare(vec![Value::number("least_spare_bytes", 4e8, "written without cleaning")]).0;
    assert!((4e8..5.5e8).contains(&least), "{least}");
    let values =
        [("cleaning_onset_bytes", 4e8), ("cleaning_begins_bytes", 3e8), ("least_spare_bytes", 1e6)];
    // Beside it, erase blocks that are still free when writes have to wait.
    let (onset, reserve) =
        spare(values.map(|(key, bytes)| Value::number(key, bytes, "seen")).into());
    assert!(
        (4e8..5.5e8).contains(&onset) && (0.9e8..1.1e8).contains(&reserve),
        "{onset} {reserve}"
    );
}

#[test]
fn profiles_that_differ_in_values_alone_are_of_one_structure() {
    let one = small("intel-x25e");
    let same = one
        .with_overrides(&[
            "interface.host_us=50",
            "media.program_us=[777]",
            "write_buffer.in_flight_pages=7",
        ])
        .unwrap();
    let other = one.with_overrides(&["media.channels=5"]).unwrap();
    assert_eq!(parameters::structure_of(&one), parameters::structure_of(&same));
    assert_ne!(parameters::structure_of(&one), parameters::structure_of(&other));
}

#[test]
fn findings_that_contradict_are_noted_and_left_out() {
    let target = measured(&small("intel-x25m"), &few_cells());
    let values = vec![
        Value::number("domains", 10.0, "seen"),
        Value::number("sub_domains", 1e9, "nonsense"),
        Value::number("chunk_bytes", 4097.0, "nonsense"),
        Value::number("write_buffer_bytes", f64::NAN, "nonsense"),
        Value::word("mapping", "sideways", "nonsense"),
        Value::number("erase_block_bytes", 1024.0, "too small for any page here"),
        Value::not_found("log_blocks", "none"),
    ];
    let known = Known::new(vec![Finding { values, ..Finding::default() }]);
    let starts = [small("intel-x25e")];
    let fitted =
        fit(&Input { effort: 1, ..input(1 << 27, &known, &target, &starts) }, &Progress::default())
            .unwrap();
    assert_eq!(fitted.profile.media.channels, 10);
    for key in ["sub_domains", "chunk_bytes", "write_buffer_bytes", "mapping"] {
        assert!(fitted.notes.iter().any(|note| note.starts_with(key)), "{key}: {:?}", fitted.notes);
    }
    fitted.profile.check().unwrap();
}

#[test]
fn a_sure_number_of_dies_is_kept_where_channels_are_not_known() {
    let units = |is_sure: bool| Value::number("parallel_units", 16.0, "seen").sure_if(is_sure);
    let of = |values: Vec<Value>| {
        Structure::of(&Known::new(vec![Finding { values, ..Finding::default() }]))
    };
    let ways = |profile: &Profile| {
        (
            profile.media.channels,
            profile.media.packages_per_channel * profile.media.dies_per_package,
        )
    };
    let from = small("intel-x25e");
    let structure =
        of(vec![units(true), Value::number("domains", 16.0, "or fewer").sure_if(false)])
            .without_guesses();
    let changed = structure.put(&from);
    assert_eq!((ways(&from), ways(&changed)), ((10, 2), (8, 2)));
    let other = |ways: u32| {
        changed
            .with_overrides(&[
                "media.channels=4".into(),
                format!("media.packages_per_channel={ways}"),
            ])
            .unwrap()
    };
    assert!(structure.allows(&changed, &other(4)) && !structure.allows(&changed, &other(2)));
    assert_eq!(ways(&of(vec![units(false)]).without_guesses().put(&from)), (10, 2));
}

#[test]
fn what_was_found_inside_decides_the_family() {
    let of = |values: Vec<Value>| {
        Structure::of(&Known::new(vec![Finding { values, ..Finding::default() }]))
    };
    let logged = of(vec![
        Value::number("log_blocks", 6.0, "seen"),
        Value::word("log_order", "any_order", "seen"),
        Value::not_found("write_buffer_bytes", "none"),
        Value::not_found("read_cache_bytes", "none"),
        Value::not_found("read_ahead_window_bytes", "none"),
    ]);
    let fitted = logged.put(&small("intel-x25m"));
    let scheme = Scheme::of(&fitted);
    assert_eq!((scheme.name, scheme.logs), ("bast", 6));
    assert_eq!(
        (fitted.write_buffer.bytes, fitted.read_cache.bytes, fitted.read_ahead.window_bytes),
        (0, 0, 0)
    );
    assert!(!logged.allows(&fitted, &small("intel-x25m")));
    let mapped = of(vec![
        Value::not_found("log_blocks", "none"),
        Value::word("mapping", "write_order", "seen").sure_if(true),
    ]);
    let from = small("usb-stick");
    let changed = mapped.put(&from);
    assert!(!Scheme::of(&changed).is_log_block(), "{}", changed.ftl.scheme);
    assert!(!mapped.allows(&changed, &from) && mapped.allows(&changed, &changed));
}

#[test]
fn without_a_matrix_or_a_start_there_is_one_clear_error() {
    let empty = Matrix { protocol: PROTOCOL, cells: Vec::new() };
    let (known, starts) = (Known::default(), [small("intel-x25m")]);
    let error = fit(&input(1 << 27, &known, &empty, &starts), &Progress::default()).unwrap_err();
    assert!(error.to_string().contains("run experiment `matrix`"), "{error}");
    assert!(Matrix::from_findings(&known).is_none());
    let progress = Progress::default();
    progress.cancel();
    let target = measured(&starts[0], &few_cells()[..2]);
    let error = fit(&input(1 << 27, &known, &target, &starts), &progress).unwrap_err();
    assert!(matches!(error, FitError::Cancelled(_)), "{error}");
}

#[test]
fn cells_that_cannot_be_simulated_do_not_stop_the_fit() {
    // A device of 1 MiB, and nothing but one cell.
    let target = Matrix {
        protocol: Protocol { area_bytes: 1 << 20, ..PROTOCOL },
        cells: vec![CellMeasured {
            cell: Cell { access: Access::Random, reads: 1.0, size_bytes: 4096, depth: 1 },
            iops: 5_000.0,
            interval: [4_900.0, 5_100.0],
            requests: 1_024,
        }],
    };
    let known = Known::default();
    let starts = [small("intel-x25m")];
    let fitted = fit(
        &Input { effort: 200, ..input(1 << 20, &known, &target, &starts) },
        &Progress::default(),
    )
    .unwrap();
    assert_eq!(fitted.profile.capacity_bytes(), 1 << 20);
    assert!(fitted.share_within(0.1) > 0.9, "{:?}", fitted.ratios);
}

#[test]
fn what_was_written_before_the_matrix_is_told_where_it_may_have_used_up_the_spare_space() {
    let target = measured(&small("intel-x25m"), &few_cells());
    let starts = [small("intel-x25m")];
    let notes = |written_bytes: u64| {
        let known =
            Known::new(vec![Finding { written_bytes, ..Finding::default() }, target.to_finding()]);
        let fitted = fit(
            &Input { effort: 1, ..input(1 << 27, &known, &target, &starts) },
            &Progress::default(),
        )
        .unwrap();
        fitted.notes.iter().filter(|note| note.contains("had been written in this run")).count()
    };
    assert_eq!((notes(0), notes(1 << 40)), (0, 1));
}
