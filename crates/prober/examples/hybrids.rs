//! The prober's truth on drives that map by erase blocks, with every rule of a write buffer: a
//! table by what is asked, and every value that is sure and wrong.
//!
//! `hybrids [drives=90] [noise=0.02] [campaign=1] [threads=2] [seconds=120] [only=NUMBER]`

#[path = "../tests/truth/hybrids.rs"]
mod hybrids;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hybrids::{Hybrid, Said};

fn argument(name: &str, default: &str) -> String {
    let prefix = format!("{name}=");
    std::env::args()
        .find_map(|arg| arg.strip_prefix(&prefix).map(str::to_owned))
        .unwrap_or_else(|| default.to_owned())
}

fn number(name: &str, default: &str) -> u64 {
    let text = argument(name, default);
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: must be a whole number"))
}

fn main() {
    let (drives, campaign) = (number("drives", "90"), number("campaign", "1"));
    let (seconds, only) = (number("seconds", "120"), argument("only", ""));
    let noise: f64 = argument("noise", "0.02").parse().expect("noise is a number");
    let next = AtomicU64::new(0);
    let found: Mutex<BTreeMap<u64, (Hybrid, Vec<Said>)>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..number("threads", "2") {
            scope.spawn(|| {
                loop {
                    let drive = next.fetch_add(1, Ordering::Relaxed);
                    if drive >= drives {
                        return;
                    }
                    if only.is_empty() || only == drive.to_string() {
                        let drive = Hybrid::random(drive, campaign, noise);
                        let said = drive.probe(seconds);
                        let mut found = found.lock().expect("no thread panicked");
                        found.insert(drive.number, (drive, said));
                    }
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panicked");
    let mut counts: BTreeMap<&str, [u32; 4]> = BTreeMap::new();
    for (number, (drive, said)) in &found {
        for one in said {
            let count = counts.entry(one.key).or_default();
            count[0] += 1;
            count[1] += u32::from(one.is_right());
            count[2] += u32::from(one.is_right() && one.is_sure());
            let is_mistaken = one.is_sure() && !one.is_right();
            count[3] += u32::from(is_mistaken);
            if is_mistaken || !only.is_empty() {
                let (value, why) =
                    one.value.as_ref().map_or((None, ""), |value| (value.number, &value.why));
                println!("{number}: {}", drive.line());
                println!("   {} is {:?}, said {value:?}: {why}", one.key, one.truth);
            }
        }
    }
    println!(
        "{:20} {:>6} {:>6} {:>15} {:>15}",
        "", "drives", "right", "right and sure", "sure and wrong"
    );
    for (key, [all, right, sure, wrong]) in counts {
        println!("{key:20} {all:>6} {right:>6} {sure:>15} {wrong:>15}");
    }
}
