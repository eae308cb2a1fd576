//! Requests a second with which a fleet is written, split and studied.
//!
//! `cargo run --release -p flashwright-traces --example fleet_speed -- FOLDER [MILLIONS] [DAYS]`

use std::path::{Path, PathBuf};
use std::time::Instant;

use traces::OpenOptions;
use traces::fleet::study::{StudyOptions, study};
use traces::fleet::{FleetOptions, SplitOptions, split, write_fleet};
use units::Progress;

/// Volumes, of some thousand, that are studied: the busiest, and some of each rate.
const STUDIED: [u32; 8] = [0, 1, 2, 5, 20, 100, 500, 1500];

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().expect("a folder"));
    let mut number = |default| words.next().map_or(default, |text| text.parse().expect("a number"));
    let (requests, days) = (number(20) * 1_000_000, number(1));
    let out = folder.join("fleet.csv.zst");
    if !out.exists() {
        let started = Instant::now();
        let asked = FleetOptions {
            out: out.clone(),
            files: 1,
            volumes: 2000,
            requests,
            slices: days * 144,
            seed: 1,
            skew: 1.0,
            largest_bytes: 16 << 30,
        };
        write_fleet(&asked, &Progress::default()).expect("it is written");
        say("written", requests, started);
    }
    for threads in [1, 2] {
        let started = Instant::now();
        let asked = SplitOptions {
            inputs: vec![out.clone()],
            store: folder.join(format!("store-{threads}")),
            open: OpenOptions::default(),
            by_stream: false,
            window_ns: 86_400_000_000_000,
            memory_bytes: 1 << 30,
            checkpoint_requests: 128 << 20,
            threads,
        };
        let done = split(&asked, &Progress::default()).expect("it is split");
        say(&format!("split on {threads} cores into {} parts", done.parts), requests, started);
    }
    let started = Instant::now();
    let studied = STUDIED.iter().map(|volume| study_of(&folder.join("store-1"), *volume)).sum();
    say("studied", studied, started);
}

fn study_of(store: &Path, volume: u32) -> u64 {
    let options =
        StudyOptions { page_bytes: 4096, memory_bytes: 512 << 20, is_exact: false, one_in: 1 };
    let folder = store.join(format!("volume={volume}"));
    let (figures, _) = study(&folder, &options, &Progress::default()).expect("it is studied");
    figures.requests.iter().sum()
}

fn say(what: &str, requests: u64, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let millions = requests as f64 / 1e6;
    println!("{what}: {seconds:.1} s, {:.2} M requests a second", millions / seconds);
}
