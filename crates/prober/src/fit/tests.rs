use devices::{BlockDevice as _, Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;

use super::*;
use crate::bench::{Bench, Region, Settings};
use crate::finding::{Finding, Value};
use crate::matrix::Access;
use crate::matrix_set::{Preparation, Protocol, measure_matrix, standard_cells};

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
        .with_overrides(&["media.erase_blocks_per_plane=64", "write_buffer.bytes=1Mi", "ftl.over_provisioning=0.5"])
        .unwrap()
}

/// Without sequential mixes: how read-ahead and writes fall together there takes more requests to average out than a test has time for.
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
    let region = Region { offset: 0, length: device.info().capacity_bytes };
    let mut bench = Bench::new(&mut device, Settings { region, seed: 1, may_write: true, budget: 1 }, &progress);
    measure_matrix(&mut bench, &PROTOCOL, cells, Preparation::Fill).unwrap()
}

fn input<'a>(capacity_bytes: u64, known: &'a Known, target: &'a Matrix, starts: &'a [Profile]) -> Input<'a> {
    Input { name: "/dev/sdz", model: "Some  Drive\n1", capacity_bytes, known, target, starts, seed: 3, effort: 100 }
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
    // So small a drive runs out of spare space within the matrix: how much it has is a finding, not a guess.
    let spare = (truth.physical_pages() - u64::from(truth.logical_pages())) * 4096;
    let values = vec![Value::number("cleaning_onset_bytes", spare as f64, "as another experiment finds it")];
    let (known, starts) = (Known::new(vec![Finding { values, ..Finding::default() }]), [small("intel-x25m")]);
    let fitted = fit(&input(truth.capacity_bytes(), &known, &target, &starts), &Progress::default()).unwrap();
    assert!(fitted.share_within(0.1) >= 0.9, "{:?}", fitted.ratios);
    let loaded = profile::parse(&fitted.profile.to_toml(), "fitted").unwrap();
    assert_eq!(loaded, fitted.profile);
    assert_eq!((loaded.name.as_str(), loaded.summary.as_str()), ("fitted-dev-sdz", "fitted to measurements of Some Drive 1"));
    assert_eq!(loaded.capacity_bytes(), truth.capacity_bytes());
    // Loaded as a drive of its own and probed again.
    let again = measured(&loaded, &few_cells());
    let ratios = target.ratios(&again);
    assert_eq!(ratios.len(), target.cells.len());
    // So short a protocol leaves mixes to chance by some per cent; pure reads and writes have to be right.
    let pure = ratios.iter().filter(|(cell, _)| cell.reads != 0.5);
    assert!(pure.clone().count() >= 16 && pure.clone().all(|(_, ratio)| (ratio - 1.0).abs() < 0.1), "{ratios:?}");
    assert!(ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() < 0.25), "{ratios:?}");
}

#[test]
fn the_same_seed_finds_the_same() {
    let target = measured(&small("intel-x25m"), &few_cells());
    let (known, starts) = (Known::default(), [small("intel-x25e")]);
    let found = || fit(&Input { effort: 5, ..input(1 << 27, &known, &target, &starts) }, &Progress::default()).unwrap();
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
        let small = stand_in::stand_in(&whole, PROTOCOL.area_bytes, PROTOCOL.written_bytes(&cells));
        assert!(small.physical_pages() * 8 < whole.physical_pages(), "{name}: {}", small.physical_pages());
        let (large, small) = (measured(&whole, &cells), measured(&small, &cells));
        let ratios = large.ratios(&small);
        assert!(ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() < 0.03), "{name}: {ratios:?}");
    }
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
    let fitted = fit(&Input { effort: 1, ..input(1 << 27, &known, &target, &starts) }, &Progress::default()).unwrap();
    assert_eq!(fitted.profile.media.channels, 10);
    for key in ["sub_domains", "chunk_bytes", "write_buffer_bytes", "mapping"] {
        assert!(fitted.notes.iter().any(|note| note.starts_with(key)), "{key}: {:?}", fitted.notes);
    }
    fitted.profile.check().unwrap();
}

#[test]
fn what_was_found_inside_decides_the_family() {
    let of = |values: Vec<Value>| Structure::of(&Known::new(vec![Finding { values, ..Finding::default() }]));
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
    assert_eq!((fitted.write_buffer.bytes, fitted.read_cache.bytes, fitted.read_ahead.window_bytes), (0, 0, 0));
    assert!(!logged.allows(&fitted, &small("intel-x25m")));
    let mapped = of(vec![Value::not_found("log_blocks", "none"), Value::word("mapping", "write_order", "seen").sure_if(true)]);
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
        }],
    };
    let known = Known::default();
    let starts = [small("intel-x25m")];
    let fitted = fit(&Input { effort: 3, ..input(1 << 20, &known, &target, &starts) }, &Progress::default()).unwrap();
    assert_eq!(fitted.profile.capacity_bytes(), 1 << 20);
    assert!(fitted.share_within(0.1) > 0.9, "{:?}", fitted.ratios);
}
