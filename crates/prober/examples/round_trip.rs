//! Accuracy of a fitted profile as a stand-in for the drive that it was fitted to.
//!
//! For each built-in profile: a full-size drive is probed (experiments on its inside, each with the
//! device time that it gets of a full set, and then, on another drive of the profile, the matrix of
//! throughputs); a profile is fitted to what was found, starting from the *other* built-in
//! profiles, written as TOML and read again; a full-size drive of it is probed in the same way,
//! with another seed, once with as many requests in each cell and once until each is precise; and
//! the matrices are compared.
//!
//! `cargo run --release -p flashwright-prober --example round_trip -- [effort=120] [simulations=N]
//! [inside=yes|no] [keep=FOLDER] [verbose] [profile ...]`
//!
//! `effort` is the real time of a search in seconds, `simulations` its length in simulations of the
//! whole matrix: with it alone (`effort=0`) the outcome is the same on every machine. With
//! `inside=no` nothing is known but the matrix. In the folder of `keep`, findings stay from one run
//! to the next. The onset of cleaning is looked for only in drives of at most [`MOST_ONSET_BYTES`]:
//! a full set has no time to fill larger ones.

use std::time::{Duration, Instant};

use block::BlockDevice;

use devices::{Simulated, SimulatedSettings};
use prober::cell::Cell;
use prober::fit::{Input, fit};
use prober::protocol::{
    Matrix, Preparation, Protocol, measure_again, measure_matrix, standard_cells,
};
use prober::{Bench, EXPERIMENTS, Finding, Known, Region, Settings};
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

/// Device time of a matrix, in nanoseconds: twenty minutes, as a full probe of a real drive may
/// take.
const BUDGET: u64 = 1_200_000_000_000;

/// Way of measuring a matrix.
enum How<'a> {
    /// Each cell until it is precise.
    Fresh { protocol: Option<Protocol>, buffer: Option<f64> },
    /// Each cell with as many requests as in another.
    Again(&'a Matrix),
}

#[allow(clippy::unwrap_used)]
fn probe(profile: &Profile, how: &How<'_>, seed: u64) -> Matrix {
    let progress = Progress::default();
    let settings = SimulatedSettings { state: State::Filled, seed };
    let mut device = Simulated::new(&profile.name, profile, settings, &progress).unwrap();
    let info = device.info().clone();
    let region = Region { offset: 0, length: info.limits.capacity_bytes };
    let mut bench = Bench::new(
        &mut device,
        Settings { region, seed, may_write: true, budget: BUDGET },
        &progress,
    );
    let matrix = match how {
        How::Again(target) => measure_again(&mut bench, target, Preparation::Fill).unwrap(),
        How::Fresh { protocol, buffer } => {
            let cells = standard_cells(info.limits.sector_bytes);
            let protocol = protocol.unwrap_or_else(|| {
                Protocol::new(info.limits.capacity_bytes, BUDGET, cells.len(), *buffer, seed)
            });
            measure_matrix(&mut bench, &protocol, &cells, Preparation::Fill).unwrap()
        }
    };
    let now = bench.now();
    let (cells, seconds, written) =
        (matrix.cells.len(), now as f64 / 1e9, bench.sent().written_bytes as f64 / 1e9);
    eprintln!(
        "  {}: {cells} cells in {seconds:.1} s of device time, {written:.2} GB written",
        profile.name
    );
    matrix
}

/// Device time of a full set, in seconds.
const FULL_SECONDS: f64 = 1_800.0;

/// Drives above are not filled.
const MOST_ONSET_BYTES: u64 = 20_000_000_000;

/// Experiments on the inside, in this order.
const INSIDE: [&str; 8] = [
    "chunk_size",
    "interleaving",
    "mapping",
    "write_buffer",
    "read_ahead",
    "logs",
    "erase_block_size",
    "cleaning_onset",
];

/// Runs the experiments on the inside as `flashwright probe --full` does, and gives their findings.
#[allow(clippy::unwrap_used)]
fn inside(profile: &Profile, seed: u64) -> Vec<Finding> {
    let progress = Progress::default();
    let mut device =
        Simulated::new("sim", profile, SimulatedSettings { state: State::Filled, seed }, &progress)
            .unwrap();
    let region = Region { offset: 0, length: device.info().limits.capacity_bytes };
    let each = FULL_SECONDS / EXPERIMENTS.iter().map(|one| one.weight).sum::<f64>();
    let mut known = Known::default();
    for name in INSIDE {
        if name == "cleaning_onset" && region.length > MOST_ONSET_BYTES {
            continue;
        }
        let (experiment, args) = prober::find(name).unwrap();
        let start = Instant::now();
        let budget = (experiment.weight * each * 1e9) as u64;
        let mut bench =
            Bench::new(&mut device, Settings { region, seed, may_write: true, budget }, &progress);
        match experiment.run(&mut bench, &args, &known) {
            Ok(finding) => {
                let seconds = start.elapsed().as_secs_f64();
                for value in &finding.values {
                    let what = value
                        .number
                        .map(|number| number.to_string())
                        .or_else(|| value.word.clone())
                        .unwrap_or_default();
                    eprintln!(
                        "  {name}: {} {what} {:?} ({:.0} s, here {seconds:.1} s)",
                        value.key, value.verdict, finding.device_seconds
                    );
                }
                known.add(finding);
            }
            Err(error) => eprintln!("  {name}: {error}"),
        }
    }
    known.findings().to_vec()
}

/// Gives the findings on the drive: inside, and the matrix; from the folder if they are there.
#[allow(clippy::unwrap_used)]
fn found(profile: &Profile, options: &Options) -> (Known, Matrix) {
    let file = options.keep.as_ref().map(|folder| {
        format!(
            "{folder}/{}-{}.json",
            profile.name,
            if options.inside { "inside" } else { "blind" }
        )
    });
    let kept = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let mut known = match kept {
        Some(text) => Known::new(serde_json::from_str(&text).unwrap()),
        None => Known::new(if options.inside { inside(profile, 1) } else { Vec::new() }),
    };
    if let Some(matrix) = Matrix::from_findings(&known) {
        return (known, matrix);
    }
    let matrix = probe(
        profile,
        &How::Fresh { protocol: None, buffer: known.number("write_buffer_bytes") },
        1,
    );
    known.add(matrix.to_finding());
    if let Some(file) = file {
        std::fs::write(file, serde_json::to_string(known.findings()).unwrap()).unwrap();
    }
    (known, matrix)
}

struct Options {
    seconds: f64,
    simulations: usize,
    verbose: bool,
    inside: bool,
    keep: Option<String>,
}

#[allow(clippy::unwrap_used)]
fn main() {
    let mut options = Options {
        seconds: 120.0,
        simulations: 1_000_000,
        verbose: false,
        inside: true,
        keep: None,
    };
    let mut names: Vec<String> = Vec::new();
    for argument in std::env::args().skip(1) {
        if let Some(value) = argument.strip_prefix("effort=") {
            options.seconds = value.parse().unwrap();
        } else if let Some(value) = argument.strip_prefix("simulations=") {
            options.simulations = value.parse().unwrap();
        } else if let Some(value) = argument.strip_prefix("inside=") {
            options.inside = value == "yes";
        } else if let Some(value) = argument.strip_prefix("keep=") {
            options.keep = Some(value.to_owned());
        } else if argument == "verbose" {
            options.verbose = true;
        } else {
            names.push(argument);
        }
    }
    if names.is_empty() {
        names = DEFAULT.iter().map(|&name| name.to_owned()).collect();
    }
    println!(
        "| profile | cells | within 10 % | probed afresh | worst | median | simulations | seconds \
         | scheme |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for name in names {
        one(&name, &options);
    }
}

#[allow(clippy::unwrap_used)]
fn one(name: &str, options: &Options) {
    let truth = profile::load(name).unwrap();
    let start = Instant::now();
    let (known, target) = found(&truth, options);
    let longest = (options.seconds > 0.0).then(|| Duration::from_secs_f64(options.seconds));
    let effort = options.simulations;
    eprintln!("  probed in {:.1} s", start.elapsed().as_secs_f64());
    let starts: Vec<Profile> =
        profile::PROFILES.iter().filter(|one| one.name != name).map(|one| one.profile()).collect();
    let capacity_bytes = truth.capacity_bytes();
    let input = Input {
        name,
        model: "",
        capacity_bytes,
        known: &known,
        target: &target,
        starts: &starts,
        seed: 2,
        effort,
        longest,
    };
    let start = Instant::now();
    let found = fit(&input, &Progress::default()).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let text = found.profile.to_toml();
    let loaded = profile::parse(&text, "fitted").unwrap();
    assert_eq!(loaded.capacity_bytes(), truth.capacity_bytes());
    let again = probe(&loaded, &How::Again(&target), 3);
    let afresh = probe(&loaded, &How::Fresh { protocol: Some(target.protocol), buffer: None }, 4);
    let (again_errors, afresh_errors) = (errors(&target, &again), errors(&target, &afresh));
    println!(
        "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {} | {seconds:.0} | {} |",
        again_errors.len(),
        100.0 * within(&again_errors),
        100.0 * within(&afresh_errors),
        100.0 * again_errors.last().unwrap(),
        100.0 * again_errors[again_errors.len() / 2],
        found.evaluations,
        loaded.ftl.scheme,
    );
    if options.verbose {
        println!("{text}");
        println!("{:?}", found.notes);
        for one in &target.cells {
            let Some(other) = again.iops(&one.cell) else { continue };
            let ours = found.matrix.iops(&one.cell).unwrap_or(0.0);
            let Cell { access, reads, size_bytes, depth } = one.cell;
            let mark = if (other / one.iops - 1.0).abs() > 0.1 { " <--" } else { "" };
            let error = (one.interval[1] - one.interval[0]) / 2.0 / one.iops;
            println!(
                "{access:?} reads={reads} {size_bytes:>6} x{depth:<2} {:>6} requests {:>10.0} iops \
                 +-{:4.1}% fit {:+6.1} % again {:+6.1} %{mark}",
                one.requests,
                one.iops,
                100.0 * error,
                100.0 * (ours / one.iops - 1.0),
                100.0 * (other / one.iops - 1.0)
            );
        }
    }
}

/// Gives the error of each cell, in ascending order.
fn errors(target: &Matrix, other: &Matrix) -> Vec<f64> {
    let mut errors: Vec<f64> =
        target.ratios(other).iter().map(|(_, ratio)| (ratio - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// The share within the bar.
fn within(errors: &[f64]) -> f64 {
    errors.iter().filter(|error| **error <= 0.1).count() as f64 / errors.len().max(1) as f64
}
