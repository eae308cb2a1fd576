//! Speed and memory of the counting simulator on a device of 100 GB: `cargo bench -p
//! flashwright-ssd --bench placement_speed`.
//!
//! A run takes seconds, so this measures whole runs rather than using a harness for short ones.
//! Other sizes: `-- PAGES UPDATES_PER_PAGE`.

#![allow(clippy::unwrap_used, reason = "a benchmark may stop where it stands")]

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::Spec;
use ssd::counting::{CountingSettings, Start, simulate};
use units::{Geometry, Lpn, PageOp, PageSource, Progress, SourceError};

/// Uniform updates, or 80 % of them to the first 20 % of the pages.
struct Updates {
    skewed: bool,
    pages: u32,
    updates: u64,
    left: u64,
    random: Pcg64Mcg,
}

impl PageSource for Updates {
    fn logical_pages(&self) -> u32 {
        self.pages
    }

    fn operations(&self) -> Option<u64> {
        Some(self.updates)
    }

    fn fill(&mut self, buffer: &mut [PageOp]) -> Result<usize, SourceError> {
        let count = self.left.min(buffer.len() as u64) as usize;
        for operation in &mut buffer[..count] {
            let pages = match (self.skewed, self.skewed && self.random.random_range(0..10) < 8) {
                (false, _) => 0..self.pages,
                (true, true) => 0..self.pages / 5,
                (true, false) => self.pages / 5..self.pages,
            };
            *operation = PageOp::write(Lpn(self.random.random_range(pages)));
        }
        self.left -= count as u64;
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.left = self.updates;
        self.random = Pcg64Mcg::seed_from_u64(1);
        Ok(())
    }
}

/// Million flash page programs a second, and bytes a physical page of the FTL's tables.
fn measure(
    device: (u32, u32),
    updates_per_page: f64,
    skewed: bool,
    placement: &str,
    victim: &str,
) -> (f64, f64) {
    let (pages, pages_per_erase_block) = device;
    let updates = (f64::from(pages) * updates_per_page) as u64;
    let mut source =
        Updates { skewed, pages, updates, left: updates, random: Pcg64Mcg::seed_from_u64(1) };
    let settings = CountingSettings {
        geometry: Geometry::with_over_provisioning(
            4096,
            pages_per_erase_block,
            u64::from(pages),
            0.3,
        )
        .unwrap(),
        placement: Spec::parse(placement).unwrap(),
        victim: Spec::parse(victim).unwrap(),
        start: Start::Filled,
        seed: 1,
        repeat: 1,
        audit: false,
    };
    let weights = || vec![1.0; pages as usize];
    let outcome = simulate(&settings, &weights, &mut source, &Progress::default()).unwrap();
    let programs = outcome.counters.host_page_writes + outcome.counters.relocated_pages;
    (programs as f64 / outcome.wall_seconds / 1e6, outcome.table_bytes_per_page)
}

fn main() {
    let given: Vec<f64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let pages = given.first().map_or(26_214_400, |&pages| pages as u32);
    let updates_per_page = given.get(1).copied().unwrap_or(2.0);
    println!("over-provisioning 0.3, one core; three runs in turn");
    println!(
        "{:<52} {:>32} {:>17}",
        "load, pages an erase block, policies",
        "million flash page programs / s",
        "table bytes/page"
    );
    let all =
        [("none", "greedy"), ("multi_log", "lru"), ("none", "lru"), ("multi_log_optimal", "lru")];
    // Skew and small erase blocks are where an index of victims that suits uniform loads can fall
    // behind.
    for (load, per_block, policies) in
        [("uniform", 64, &all[..]), ("80/20", 64, &all[..2]), ("uniform", 8, &all[..1])]
    {
        for (placement, victim) in policies {
            let once = || {
                measure((pages, per_block), updates_per_page, load != "uniform", placement, victim)
            };
            let runs: Vec<(f64, f64)> = (0..3).map(|_| once()).collect();
            let speeds: Vec<String> = runs.iter().map(|(speed, _)| format!("{speed:.1}")).collect();
            let name = format!("{load}, {pages} pages, {per_block}: {placement} + {victim}");
            println!("{name:<52} {:>32} {:>17.1}", speeds.join("  "), runs[0].1);
        }
    }
}
