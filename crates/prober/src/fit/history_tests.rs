//! Tests of history: the cost of a write depends on all writes before it, so candidates are
//! measured just as the target was.

use block::BlockDevice as _;

use devices::{Simulated, SimulatedSettings};
use ssd::drive::profile;
use ssd::drive::state::State;

use super::*;
use crate::bench::{Bench, Region, Settings};
use crate::cell::Access;
use crate::finding::{Finding, Value};
use crate::protocol::{Preparation, Protocol, measure_matrix, standard_cells};
use counts::Count;
use spare::Spare;

const PROTOCOL: Protocol = Protocol {
    area_bytes: 16 << 20,
    warm_up_bytes: 4 << 20,
    measured_bytes: 4 << 20,
    condition_bytes: 20 << 20,
    // So long that nothing is cut off by time: which requests are would differ.
    cell_ns: 10_000_000_000,
    seed: 7,
};

/// A drive that begins to clean among the writes.
fn cleaning() -> Profile {
    let changes = [
        "media.erase_blocks_per_plane=64",
        "media.pages_per_erase_block=64",
        "media.channels=2",
        "ftl.over_provisioning=0.2",
    ];
    profile::load("a16").unwrap().with_overrides(&changes).unwrap()
}

fn measured(profile: &Profile) -> Matrix {
    let mut cells = standard_cells(4096);
    cells.retain(|cell| cell.size_bytes <= 65_536 && [1, 16].contains(&cell.depth));
    let progress = Progress::default();
    let mut device = Simulated::new(
        "target",
        profile,
        SimulatedSettings { state: State::Filled, seed: 1 },
        &progress,
    )
    .unwrap();
    let region = Region { offset: 0, length: device.info().limits.capacity_bytes };
    let mut bench = Bench::new(
        &mut device,
        Settings { region, seed: 1, may_write: true, budget: 1 },
        &progress,
    );
    measure_matrix(&mut bench, &PROTOCOL, &cells, Preparation::Fill).unwrap()
}

fn spare_of(profile: &Profile) -> f64 {
    (profile.physical_pages() - u64::from(profile.logical_pages())) as f64
        * f64::from(profile.media.page_bytes)
}

fn simulator<'a>(
    truth: &Profile,
    target: &Matrix,
    spare: Spare,
    progress: &'a Progress,
    allowance: &'a Allowance,
) -> Simulator<'a> {
    let (capacity_bytes, written_bytes) = (truth.capacity_bytes(), target.written_bytes());
    Simulator {
        protocol: PROTOCOL,
        seed: 2,
        capacity_bytes,
        written_bytes,
        spare,
        progress,
        allowance,
    }
}

#[test]
fn a_drive_that_cleans_among_the_writes_does_the_same_when_all_is_simulated() {
    let truth = cleaning();
    let target = measured(&truth);
    let (progress, allowance) = (Progress::default(), Allowance::new(usize::MAX, None));
    // The found onset is a little off: the drive lies near, and keeps its own.
    let simulator = simulator(
        &truth,
        &target,
        Spare::Onset { bytes: spare_of(&truth) * 0.92, begins: None },
        &progress,
        &allowance,
    );
    assert!(simulator.is_history_seen(&truth));
    assert_eq!(simulator.sized(&truth).media.erase_blocks_per_plane, 64);
    let found = solve::evaluate(&simulator, &Goal::whole(&target.cells), vec![truth]).unwrap();
    assert!(found[0].worst() < 0.03, "{:?}", found[0].errors);
}

#[test]
fn when_cleaning_begins_shows_in_the_matrix_where_no_experiment_told() {
    let search = |truth: &Profile| {
        let target = measured(truth);
        let (progress, allowance) = (Progress::default(), Allowance::new(usize::MAX, None));
        let unknown = Spare::Unknown { matrix_bytes: target.written_bytes() as f64 };
        let simulator = simulator(truth, &target, unknown, &progress, &allowance);
        spare::search(&simulator, &Goal::whole(&target.cells), &simulator.sized(truth)).unwrap()
    };
    let found = search(&cleaning()).and_then(Spare::onset);
    let Some((bytes, Some(begins))) = found else { panic!("{found:?}") };
    let truth = spare_of(&cleaning());
    assert!(
        (0.5 * truth..1.5 * truth).contains(&bytes) && begins < bytes,
        "{begins} {bytes} of {truth}"
    );
    let large = cleaning()
        .with_overrides(&["media.erase_blocks_per_plane=2048", "ftl.over_provisioning=0.5"])
        .unwrap();
    assert_eq!(search(&large), None, "all that is written fits into the spare space");
}

#[test]
fn numbers_of_erase_blocks_change_by_whole_ones() {
    let from = cleaning()
        .with_overrides(&["cleaning.start_below_free=0.1", "ftl.over_provisioning=0.5"])
        .unwrap();
    let blocks = |profile: &Profile| {
        (profile.cleaning.start_below_free * f64::from(profile.media.erase_blocks_per_plane)).ceil()
            as i32
    };
    let row_bytes = f64::from(
        from.layout().planes() * from.media.pages_per_erase_block * from.media.page_bytes,
    );
    let spare = Spare::Onset { bytes: spare_of(&from) - 2.0 * row_bytes, begins: None };
    let rows = |profile: &Profile| {
        let mut sized = profile.clone();
        spare::size(&mut sized, from.capacity_bytes(), spare, &mut Vec::new());
        (spare_of(&sized) / row_bytes).round() as i32
    };
    assert_eq!(Count::of(&from), [Count::Spare, Count::Kept, Count::SpareAndKept]);
    for by in [-2, -1, 1, 2] {
        let changed = |count: Count| count.changed(&from, by).unwrap();
        assert_eq!(
            blocks(&changed(Count::Kept)),
            blocks(&from) + by,
            "erase blocks that are kept free"
        );
        assert_eq!(
            rows(&changed(Count::Spare)),
            rows(&from) + by,
            "spare erase blocks of each plane"
        );
        let both = changed(Count::SpareAndKept);
        assert_eq!((rows(&both), blocks(&both)), (rows(&from) + by, blocks(&from) + by));
    }
    let logged = profile::load("ocz-vertex-ex")
        .unwrap()
        .with_overrides(&["ftl.scheme=fast(log_blocks=64,interleave=32)"])
        .unwrap();
    let of = |profile: &Profile| (Scheme::of(profile).logs, Scheme::of(profile).interleave);
    assert_eq!(Count::of(&logged), [Count::Logs]);
    assert_eq!(
        (of(&Count::Logs.changed(&logged, -4).unwrap()), Count::Logs.changed(&logged, -64)),
        ((60, 32), None)
    );
    // Logs in other superblocks hold the same bytes.
    let logs: Vec<(u32, u32)> = moves::of_history(&logged).iter().map(of).collect();
    assert!(logs.contains(&(128, 16)) && logs.contains(&(32, 64)), "{logs:?}");
}

#[test]
fn numbers_that_are_far_off_are_found_in_a_few_steps() {
    let truth = cleaning();
    let target = measured(&truth);
    let (progress, allowance) =
        (Progress::default(), Allowance::new(30 * target.cells.len(), None));
    let simulator = simulator(
        &truth,
        &target,
        Spare::Onset { bytes: spare_of(&truth) * 0.92, begins: None },
        &progress,
        &allowance,
    );
    let blocks = f64::from(truth.media.erase_blocks_per_plane);
    let mut off = truth.clone();
    off.cleaning.start_below_free =
        ((truth.cleaning.start_below_free * blocks).ceil() + 4.5) / blocks;
    let goal = Goal::whole(&target.cells);
    let begin = solve::evaluate(&simulator, &goal, vec![off]).unwrap().pop().unwrap();
    let (far, structure) = (begin.cost, Structure::default());
    let found = counts::search(&simulator, &goal, &structure, begin).unwrap();
    assert!(
        far > 1e-3 && found.cost < far / 20.0 && found.worst() < 0.1,
        "{far} {} {:?}",
        found.cost,
        found.errors
    );
}

#[test]
fn cells_a_little_too_far_off_are_brought_near_by_steps_of_single_values() {
    let truth = cleaning();
    let target = measured(&truth);
    let (progress, allowance) =
        (Progress::default(), Allowance::new(90 * target.cells.len(), None));
    let simulator = simulator(
        &truth,
        &target,
        Spare::Onset { bytes: spare_of(&truth) * 0.92, begins: None },
        &progress,
        &allowance,
    );
    let mut off = truth.clone();
    off.media.program_us = vec![truth.media.program_us[0] * 1.12];
    off.media.erase_us *= 0.9;
    let goal = Goal::whole(&target.cells);
    let begin = solve::evaluate(&simulator, &goal, vec![off]).unwrap().pop().unwrap();
    let beyond = |one: &Candidate| one.errors.iter().filter(|error| error.abs() > 0.095).count();
    let parameters: Vec<Parameter> =
        parameters::all().filter(|one| one.key.starts_with("media.")).collect();
    let before = beyond(&begin);
    let found =
        polish::polish(&simulator, &goal, &Structure::default(), begin, &parameters).unwrap();
    assert!(before > 5 && beyond(&found) == 0, "{before} {:?}", found.errors);
}

#[test]
fn planes_and_erase_blocks_are_searched_together() {
    let truth = cleaning();
    assert_eq!((truth.media.planes_per_die, truth.media.multi_plane), (2, false));
    // Neither of both alone leads from here to the drive.
    let pages = truth.media.pages_per_erase_block;
    let mut far = truth.clone();
    (far.media.planes_per_die, far.media.multi_plane, far.media.pages_per_erase_block) =
        (1, true, pages / 4);
    let is_there = |one: &Profile| {
        (one.media.planes_per_die, one.media.multi_plane, one.media.pages_per_erase_block)
            == (2, false, pages)
    };
    assert!(moves::of_history(&far).iter().any(is_there));
}

#[test]
fn spare_space_of_which_nothing_was_found_is_not_searched() {
    let truth = profile::load("intel-x25e").unwrap();
    let target = Matrix { protocol: PROTOCOL, cells: Vec::new() };
    let (progress, allowance) = (Progress::default(), Allowance::new(1, None));
    let of = |spare: Spare| {
        simulator(&truth, &target, spare, &progress, &allowance).is_history_seen(&truth)
    };
    assert!(
        !of(Spare::Unknown { matrix_bytes: 1e8 })
            && !of(Spare::AtLeast(1e9))
            && of(Spare::Onset { bytes: 1e7, begins: None })
    );
}

#[test]
fn logs_common_to_all_places_hold_what_was_absorbed() {
    let of = |values: Vec<Value>| {
        Structure::of(&Known::new(vec![Finding { values, ..Finding::default() }]))
    };
    let absorbed = || Value::number("log_bytes", 297e6, "seen");
    let buffer = || Value::number("write_buffer_bytes", 21e6, "seen");
    assert_eq!(of(vec![absorbed(), buffer()]).log_bytes(), Some(276_000_000));
    let by_pages = Value::word("mapping", "write_order", "seen").sure_if(true);
    assert_eq!(
        of(vec![absorbed(), buffer(), by_pages]).log_bytes(),
        None,
        "a drive that maps by pages absorbs what its spare space holds"
    );
    // A buffer of 32 MiB, measured a little too large: memory is whole.
    let measured = Value::number("write_buffer_bytes", 34.4e6, "seen");
    assert_eq!(of(vec![absorbed(), measured]).log_bytes(), Some(297_000_000 - (32 << 20)));
    // Where it is not sure, as large as its interval says it may be.
    let wide = || Value::number("write_buffer_bytes", 36.3e6, "seen").within(21e6, 48e6);
    assert_eq!(
        of(vec![absorbed(), wide().sure_if(false)]).log_bytes(),
        Some(297_000_000 - (32 << 20))
    );
    assert_eq!(of(vec![absorbed(), wide()]).log_bytes(), Some(297_000_000 - 36_300_000));
}

#[test]
fn logs_of_the_right_number_are_among_the_shapes_that_are_tried() {
    let truth = profile::load("ocz-vertex-ex").unwrap();
    let scheme = Scheme::of(&truth);
    let front = profile::load("intel-x25m").unwrap();
    let begin = common_logs::Begin {
        front: &front,
        log_bytes: 262_700_000,
        log_rate: Some(99e6),
        channels: Some(4),
        cells: &[],
    };
    let first = common_logs::Shape::USUAL;
    let superblock = |one: &Profile| {
        let wide = Some(Scheme::of(one).interleave)
            .filter(|&wide| wide > 0)
            .unwrap_or(one.layout().planes());
        wide * one.media.pages_per_erase_block * one.media.page_bytes
    };
    let begins = common_logs::Shape::begins();
    let shapes: Vec<Profile> = begins.iter().filter_map(|&shape| begin.shaped(shape)).collect();
    let is_as_in_truth = |one: &&Profile| {
        (Scheme::of(one).logs, superblock(one), one.media.channels) == (scheme.logs, 4 << 20, 4)
    };
    let in_flight: Vec<u32> =
        shapes.iter().filter(is_as_in_truth).map(|one| one.write_buffer.in_flight_pages).collect();
    assert_eq!((scheme.logs, in_flight), (64, vec![0, 8, 16, 32]), "{shapes:?}");
    // Then one thing at a time, such as merges that copy otherwise.
    let others: Vec<Profile> =
        first.neighbours().into_iter().flatten().filter_map(|shape| begin.shaped(shape)).collect();
    let copy_back = begin.shaped(first).unwrap().media.copy_back;
    assert!(others.iter().any(|one| one.media.copy_back != copy_back));
}

#[test]
fn a_drive_with_common_logs_begins_with_times_that_show() {
    let truth = profile::load("ocz-vertex-ex").unwrap();
    let front = truth
        .with_overrides(&[
            "controller.write_command_us=1",
            "media.program_us=[900]",
            "ftl.scheme=page_mapped",
        ])
        .unwrap();
    let one = |size_bytes, depth, iops: f64| CellMeasured {
        cell: Cell { access: Access::Random, reads: 0.0, size_bytes, depth },
        iops,
        interval: [iops; 2],
        requests: 160,
    };
    // A write each 32 us at most, as the controller takes 30 us and 2 us a page; 8 pages each 252
    // us, 51 of them the transfer.
    let cells = [one(512, 1, 18_500.0), one(512, 16, 31_250.0), one(65_536, 16, 1_300.0)];
    let begin = common_logs::Begin {
        front: &front,
        log_bytes: 262_700_000,
        log_rate: Some(8.0 * 4096.0 / 252e-6),
        channels: Some(4),
        cells: &cells,
    };
    let shaped = begin
        .shaped(common_logs::Shape { in_flight_pages: 8, ..common_logs::Shape::USUAL })
        .unwrap();
    let near = |value: f64, truth: f64| (value / truth - 1.0).abs() < 0.02;
    assert!(
        near(shaped.controller.write_command_us, 30.0),
        "{}",
        shaped.controller.write_command_us
    );
    assert!(near(shaped.media.program_us[0], 200.0), "{:?}", shaped.media.program_us);
}

#[test]
fn a_buffer_that_is_sure_stays_and_superblocks_say_how_many_dies_there_may_be() {
    let of = |values: Vec<Value>| {
        Structure::of(&Known::new(vec![Finding { values, ..Finding::default() }]))
    };
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
    assert_eq!(
        (fitted.layout().planes(), fitted.media.pages_per_erase_block),
        (8, 64),
        "64 planes would leave 8 pages each"
    );
    assert!(
        !narrow
            .allows(&fitted, &fitted.with_overrides(&["media.pages_per_erase_block=16"]).unwrap())
    );
}
