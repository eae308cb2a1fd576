//! How well a fitted profile stands in for the drive that it was fitted to.
//!
//! For each built-in profile: a full-size drive is probed (experiment `matrix`), a profile is fitted to what was found, starting from the
//! *other* built-in profiles, written as TOML and read again; a full-size drive of it is probed in the same way, with another seed; and the
//! two matrices are compared.
//!
//! `cargo run --release -p flashwright-prober --example round_trip -- [effort=300] [profile ...]`

use std::time::Instant;

use devices::{BlockDevice, Simulated, SimulatedSettings};
use prober::fit::{Input, fit};
use prober::matrix::Cell;
use prober::matrix_set::{Matrix, Preparation, Protocol, measure_matrix, standard_cells};
use prober::{Bench, Known, Region, Settings};
use ssd::drive::profile::{self, Profile};
use ssd::drive::state::State;
use units::Progress;

const DEFAULT: [&str; 10] = [
    "intel-x25e",
    "intel-x25m",
    "ocz-vertex-ex",
    "mtron-pro-7500",
    "samsung-mcbqe32g",
    "usb-stick",
    "sd-card",
    "nvme-tlc",
    "nvme-qlc",
    "a16",
];

/// Device time of a matrix, in nanoseconds: twenty minutes, as a full probe of a real drive may take.
const BUDGET: u64 = 1_200_000_000_000;

#[allow(clippy::unwrap_used)]
fn probe(profile: &Profile, protocol: Option<Protocol>, cells: Option<&[Cell]>, seed: u64) -> Matrix {
    let progress = Progress::default();
    let settings = SimulatedSettings { state: State::Filled, seed };
    let mut device = Simulated::new(&profile.name, profile, settings, &progress).unwrap();
    let info = device.info().clone();
    let standard = standard_cells(info.sector_bytes);
    let cells = cells.unwrap_or(&standard);
    let protocol = protocol.unwrap_or_else(|| Protocol::new(info.capacity_bytes, BUDGET, cells.len(), None, seed));
    let region = Region { offset: 0, length: info.capacity_bytes };
    let mut bench = Bench::new(&mut device, Settings { region, seed, may_write: true, budget: BUDGET }, &progress);
    let matrix = measure_matrix(&mut bench, &protocol, cells, Preparation::Fill).unwrap();
    let now = bench.now();
    eprintln!("  {}: {} cells in {:.1} s of device time", profile.name, matrix.cells.len(), now as f64 / 1e9);
    matrix
}

#[allow(clippy::unwrap_used)]
fn main() {
    let mut effort = 300;
    let mut verbose = false;
    let mut names: Vec<String> = Vec::new();
    for argument in std::env::args().skip(1) {
        if let Some(value) = argument.strip_prefix("effort=") {
            effort = value.parse().unwrap();
        } else if argument == "verbose" {
            verbose = true;
        } else {
            names.push(argument);
        }
    }
    if names.is_empty() {
        names = DEFAULT.iter().map(|&name| name.to_owned()).collect();
    }
    println!("| profile | cells | within 10 % | worst | median | simulations | seconds | scheme |");
    println!("|---|---|---|---|---|---|---|---|");
    for name in names {
        one(&name, effort, verbose);
    }
}

#[allow(clippy::unwrap_used)]
fn one(name: &str, effort: usize, verbose: bool) {
    let truth = profile::load(name).unwrap();
    let start = Instant::now();
    let target = probe(&truth, None, None, 1);
    eprintln!("  probed in {:.1} s", start.elapsed().as_secs_f64());
    let starts: Vec<Profile> = profile::PROFILES.iter().filter(|one| one.name != name).map(|one| one.profile()).collect();
    let known = Known::default();
    let input =
        Input { name, model: "", capacity_bytes: truth.capacity_bytes(), known: &known, target: &target, starts: &starts, seed: 2, effort };
    let start = Instant::now();
    let found = fit(&input, &Progress::default()).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let text = found.profile.to_toml();
    let loaded = profile::parse(&text, "fitted").unwrap();
    assert_eq!(loaded.capacity_bytes(), truth.capacity_bytes());
    let cells: Vec<Cell> = target.cells.iter().map(|one| one.cell).collect();
    let again = probe(&loaded, Some(target.protocol), Some(&cells), 3);
    let ratios = target.ratios(&again);
    let mut errors: Vec<f64> = ratios.iter().map(|(_, ratio)| (ratio - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let within = errors.iter().filter(|error| **error <= 0.1).count();
    println!(
        "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {} | {seconds:.0} | {} |",
        errors.len(),
        100.0 * within as f64 / errors.len() as f64,
        100.0 * errors.last().unwrap(),
        100.0 * errors[errors.len() / 2],
        found.evaluations,
        loaded.ftl.scheme,
    );
    if verbose {
        println!("{text}");
        println!("{:?}", found.notes);
        for one in &target.cells {
            let Some(other) = again.iops(&one.cell) else { continue };
            let ours = found.matrix.iops(&one.cell).unwrap_or(0.0);
            let Cell { access, reads, size_bytes, depth } = one.cell;
            let mark = if (other / one.iops - 1.0).abs() > 0.1 { " <--" } else { "" };
            let error = (one.interval[1] - one.interval[0]) / 2.0 / one.iops;
            println!(
                "{access:?} reads={reads} {size_bytes:>6} x{depth:<2} {:>10.0} iops +-{:4.1}% fit {:+6.1} % again {:+6.1} %{mark}",
                one.iops,
                100.0 * error,
                100.0 * (ours / one.iops - 1.0),
                100.0 * (other / one.iops - 1.0)
            );
        }
    }
}
