//! What a write meets depends on all writes before it: candidates are measured just as the target was.

use devices::{BlockDevice as _, Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;

use super::*;
use crate::bench::{Bench, Region, Settings};
use crate::finding::{Finding, Value};
use crate::matrix_set::{Preparation, Protocol, measure_matrix, standard_cells};
use finish::Spare;

const PROTOCOL: Protocol = Protocol {
    area_bytes: 16 << 20,
    warm_up_bytes: 4 << 20,
    measured_bytes: 4 << 20,
    condition_bytes: 20 << 20,
    cell_ns: 1_000_000_000,
    seed: 7,
};

/// A drive that begins to clean among the writes.
fn cleaning() -> Profile {
    let changes = ["media.erase_blocks_per_plane=64", "media.pages_per_erase_block=64", "media.channels=2", "ftl.over_provisioning=0.2"];
    profile::load("a16").unwrap().with_overrides(&changes).unwrap()
}

fn measured(profile: &Profile) -> Matrix {
    let mut cells = standard_cells(4096);
    cells.retain(|cell| cell.size_bytes <= 65_536 && [1, 16].contains(&cell.depth));
    let progress = Progress::default();
    let mut device = Simulated::new("target", profile, SimulatedSettings { state: State::Filled, seed: 1 }, &progress).unwrap();
    let region = Region { offset: 0, length: device.info().capacity_bytes };
    let mut bench = Bench::new(&mut device, Settings { region, seed: 1, may_write: true, budget: 1 }, &progress);
    measure_matrix(&mut bench, &PROTOCOL, &cells, Preparation::Fill).unwrap()
}

fn spare_of(profile: &Profile) -> f64 {
    (profile.physical_pages() - u64::from(profile.logical_pages())) as f64 * f64::from(profile.media.page_bytes)
}

#[test]
fn a_drive_that_cleans_among_the_writes_does_the_same_when_all_is_simulated() {
    let truth = cleaning();
    let target = measured(&truth);
    let written_bytes = PROTOCOL.written_bytes(&target.cells.iter().map(|one| one.cell).collect::<Vec<_>>());
    let (progress, allowance) = (Progress::default(), Allowance::new(usize::MAX, None));
    // The found onset is a little off: the drive lies near, and keeps its own.
    let spare = Spare::Onset { bytes: spare_of(&truth) * 0.92, begins: None };
    let simulator = Simulator {
        protocol: PROTOCOL,
        seed: 2,
        capacity_bytes: truth.capacity_bytes(),
        written_bytes,
        spare,
        progress: &progress,
        allowance: &allowance,
    };
    assert!(simulator.is_history_seen(&truth));
    assert_eq!(simulator.sized(&truth).media.erase_blocks_per_plane, 64);
    let found = solve::evaluate(&simulator, &Goal::whole(&target.cells), vec![truth]).unwrap();
    assert!(found[0].worst() < 0.03, "{:?}", found[0].errors);
}

#[test]
fn what_is_in_use_when_is_searched_by_whole_erase_blocks() {
    let from = cleaning().with_overrides(&["cleaning.start_below_free=0.1", "ftl.over_provisioning=0.5"]).unwrap();
    let found = moves::of_history(&from);
    let blocks = |profile: &Profile| (profile.cleaning.start_below_free * f64::from(profile.media.erase_blocks_per_plane)).ceil() as i64;
    for by in [-2, -1, 1, 2] {
        assert!(found.iter().any(|one| blocks(one) == blocks(&from) + by), "{by} erase blocks that are kept free");
        let row_bytes = f64::from(from.layout().planes() * from.media.pages_per_erase_block * from.media.page_bytes);
        let spare = Spare::Onset { bytes: spare_of(&from) - 2.0 * row_bytes, begins: None };
        let rows = |profile: &Profile| {
            let mut sized = profile.clone();
            finish::size(&mut sized, from.capacity_bytes(), spare, &mut Vec::new());
            (spare_of(&sized) / row_bytes).round() as i64
        };
        assert!(found.iter().any(|one| rows(one) == rows(&from) + by), "{by} spare erase blocks of each plane");
    }
    // Logs in other superblocks hold the same bytes.
    let logged = profile::load("ocz-vertex-ex").unwrap().with_overrides(&["ftl.scheme=fast(log_blocks=64,interleave=32)"]).unwrap();
    let logs: Vec<(u32, u32)> = moves::of_history(&logged).iter().map(Scheme::of).map(|one| (one.logs, one.interleave)).collect();
    assert!(logs.contains(&(65, 32)) && logs.contains(&(63, 32)) && logs.contains(&(128, 16)) && logs.contains(&(32, 64)), "{logs:?}");
}

#[test]
fn a_buffer_that_is_sure_stays_and_superblocks_say_how_many_dies_there_may_be() {
    let of = |values: Vec<Value>| Structure::of(&Known::new(vec![Finding { values, ..Finding::default() }]));
    let sure = of(vec![Value::number("write_buffer_bytes", 8e6, "seen").sure_if(true)]);
    let from = sure.put(&profile::load("intel-x25m").unwrap());
    let other = from.with_overrides(&["write_buffer.bytes=4Mi"]).unwrap();
    assert_eq!(from.write_buffer.bytes, 8 << 20);
    assert!(sure.allows(&from, &from) && !sure.allows(&from, &other));
    let narrow = of(vec![
        Value::number("log_blocks", 4.0, "seen"),
        Value::word("log_order", "any_order", "seen"),
        Value::number("superblock_bytes", f64::from(1 << 20), "seen").sure_if(true),
    ]);
    let wide = profile::load("mtron-pro-7500").unwrap();
    let fitted = narrow.put(&wide);
    assert_eq!((fitted.layout().planes(), fitted.media.pages_per_erase_block), (8, 64), "64 planes would leave 8 pages each");
    assert!(!narrow.allows(&fitted, &fitted.with_overrides(&["media.pages_per_erase_block=16"]).unwrap()));
}
