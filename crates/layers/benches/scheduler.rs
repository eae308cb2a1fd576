//! CPU time of the scheduler a page of 4 KiB, everything included that the page brings with it:
//! taking it, merging, writing it out, replies.
//!
//! A database's skew, a device that replies at once. Each case runs in ten parts, and the first and
//! the last are printed: there is no growth with the length of a run. With data, all writes carry
//! one page that their sender shares, since a layer hands bytes on and copies none. Caches are
//! shared with whatever else runs: compare lines of one run.

use block::{Command, Data, Immediate, Limits, Reply, Store};
use layers::{Actions, Facts, Layer, Making};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::IoOp;

const PAGE: u64 = 4096;
/// 64 GiB.
const PAGES: u64 = 16 << 20;
const PARTS: u64 = 10;

/// Time that this process was on a processor, in nanoseconds: others on the machine do not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("its first word is a number")
}

/// A scheduler over a device that replies at once.
struct Bench {
    layer: Box<dyn Layer>,
    actions: Actions,
    random: Pcg64Mcg,
    /// Of a hundred commands, so many are reads, and so many flushes.
    reads: u32,
    flushes: u32,
    data: Data,
}

impl Bench {
    fn new(text: &str, reads: u32, flushes: u32, data: Data) -> Self {
        let (entry, args) = layers::parse(text).expect("it is well formed").remove(0);
        let mut below = Immediate::sparse(Limits {
            capacity_bytes: PAGES * PAGE,
            sector_bytes: 512,
            most_bytes: 1 << 20,
        });
        let mut below = Store::new(&mut below);
        let layer =
            (entry.open)(&Making { args: &args, facts: &Facts::default(), seed: 1 }, &mut below)
                .expect("it is opened");
        Self {
            layer,
            actions: Actions::default(),
            random: Pcg64Mcg::seed_from_u64(1),
            reads,
            flushes,
            data,
        }
    }

    /// Four of five go to a fifth of the pages.
    fn page(&mut self) -> u64 {
        let pages =
            if self.random.random_range(0..5) < 4 { 0..PAGES / 5 } else { PAGES / 5..PAGES };
        self.random.random_range(pages)
    }

    fn run(&mut self, pages: u64) {
        for id in 0..pages {
            let dice = self.random.random_range(0..100);
            let (op, length) = match dice {
                _ if dice < self.reads => (IoOp::Read, PAGE as u32),
                _ if dice < self.reads + self.flushes => (IoOp::Flush, 0),
                _ => (IoOp::Write, PAGE as u32),
            };
            let offset = if op == IoOp::Flush { 0 } else { self.page() * PAGE };
            let data = if op == IoOp::Write { self.data.clone() } else { Data::Absent };
            self.layer.submit(
                Command { data, ..Command::new(id as u32, op, offset, length) },
                0,
                &mut self.actions,
            );
            while let Some(command) = self.actions.down.pop() {
                self.layer.replied(
                    Reply { id: command.id, outcome: Ok(Data::Absent) },
                    0,
                    &mut self.actions,
                );
            }
            self.actions.up.clear();
        }
    }
}

fn case(name: &str, mut bench: Bench, pages: u64) {
    let mut times_ns = Vec::new();
    for _ in 0..PARTS {
        let begin = cpu_ns();
        bench.run(pages / PARTS);
        times_ns.push((cpu_ns() - begin) as f64 / (pages / PARTS) as f64);
    }
    let mean = times_ns.iter().sum::<f64>() / times_ns.len() as f64;
    let (first, last) = (times_ns[0], times_ns[times_ns.len() - 1]);
    println!(
        "scheduler {name:<40} {mean:5.0} ns a page (first tenth {first:.0}, last tenth {last:.0}; \
         {pages} pages)"
    );
}

fn main() {
    let page = Data::copy_of(&[7; PAGE as usize]);
    let plain = |text| Bench::new(text, 0, 0, Data::Absent);
    case("dfr", plain("scheduler(dfr)"), 4 << 20);
    case("dfr_cls", plain("scheduler(dfr_cls)"), 32 << 20);
    case("dfr_cls, order of arrival", plain("scheduler(dfr_cls,order=arrival)"), 4 << 20);
    case("dfr_cls, with data", Bench::new("scheduler(dfr_cls)", 0, 0, page), 4 << 20);
    case("dfr_cls, buffer of 4 MiB", plain("scheduler(dfr_cls,buffer=4Mi)"), 4 << 20);
    case("dfr_cls, buffer of 1 GiB", plain("scheduler(dfr_cls,buffer=1Gi)"), 8 << 20);
    case("dfr_cls, 32 outstanding", plain("scheduler(dfr_cls,depth=32)"), 4 << 20);
    case(
        "dfr_cls, half of them reads",
        Bench::new("scheduler(dfr_cls)", 50, 0, Data::Absent),
        4 << 20,
    );
    case(
        "dfr_cls, a flush each ten commands",
        Bench::new("scheduler(dfr_cls)", 0, 10, Data::Absent),
        4 << 20,
    );
}
