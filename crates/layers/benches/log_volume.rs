//! CPU time of the log volume a page write, everything included that the write brings with it:
//! mapping, cleaning, summaries, checkpoints.
//!
//! A volume that is full from the start, a device that replies at once. Each case runs in ten
//! parts, and the first and the last are printed: there is no growth with the length of a run.
//! Compare lines of one run.

use block::{Command, Data, Immediate, Limits, Reply, Store};
use layers::{Actions, Facts, Layer, Making};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::IoOp;

const PAGE: u64 = 4096;
const PARTS: usize = 10;

/// Time that this process was on a processor, in nanoseconds: others on the machine do not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("its first word is a number")
}

/// Nine of ten writes go to a tenth of the pages.
fn skewed(random: &mut Pcg64Mcg, pages: u64) -> u64 {
    if random.random_bool(0.9) {
        random.random_range(0..pages / 10)
    } else {
        random.random_range(pages / 10..pages)
    }
}

struct Host {
    layer: Box<dyn Layer>,
    actions: Actions,
    waiting: Vec<(u32, bool, u32)>,
    page: Data,
}

impl Host {
    fn run(&mut self, command: Command) {
        self.layer.submit(command, 0, &mut self.actions);
        loop {
            self.waiting.extend(
                self.actions
                    .down
                    .drain(..)
                    .map(|command| (command.id, command.op == IoOp::Read, command.length)),
            );
            let Some((id, is_read, length)) = self.waiting.pop() else { break };
            let data = if is_read && !self.page.is_absent() {
                Data::zeros(length as usize)
            } else {
                Data::Absent
            };
            self.layer.replied(Reply { id, outcome: Ok(data) }, 0, &mut self.actions);
        }
        assert_eq!(self.actions.up.len(), 1, "the command is replied to");
        self.actions.up.clear();
    }

    fn write(&mut self, page: u64) {
        let data = self.page.clone();
        self.run(Command { data, ..Command::new(0, IoOp::Write, page * PAGE, PAGE as u32) });
    }
}

fn case(parameters: &str, writes_a_flush: usize, page: &Data, writes: usize) {
    let limits = Limits { capacity_bytes: 4 << 30, sector_bytes: 512, most_bytes: 1 << 20 };
    let text = format!("log_volume(filled=yes,{parameters})");
    let (entry, args) = layers::parse(&text).expect("it is well formed").remove(0);
    let making = Making { args: &args, facts: &Facts::default(), seed: 1 };
    let mut below = Immediate::sparse(limits);
    let mut below = Store::new(&mut below);
    (entry.format)(&making, &mut below).expect("it is formatted");
    let layer = (entry.open)(&making, &mut below).expect("it is opened");
    let pages = layer.limits().capacity_bytes / PAGE;
    let mut host =
        Host { layer, actions: Actions::default(), waiting: Vec::new(), page: page.clone() };
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut times_ns = Vec::new();
    for _ in 0..PARTS {
        let drawn: Vec<u64> = (0..writes / PARTS).map(|_| skewed(&mut random, pages)).collect();
        let begin = cpu_ns();
        for (number, &page) in drawn.iter().enumerate() {
            host.write(page);
            if writes_a_flush > 0 && number % writes_a_flush == 0 {
                host.run(Command::new(1, IoOp::Flush, 0, 0));
            }
        }
        times_ns.push((cpu_ns() - begin) as f64 / drawn.len() as f64);
    }
    let mut counts = Vec::new();
    host.layer.count(&mut counts);
    let counted = |name: &str| {
        counts[entry.counters.iter().position(|counter| counter.name == name).expect("a counter")]
            as f64
    };
    let host_pages = counted("host_pages");
    let amplification = 1.0
        + ["relocated_pages", "padding_pages", "summary_pages", "checkpoint_pages"]
            .iter()
            .map(|name| counted(name))
            .sum::<f64>()
            / host_pages;
    let mean = times_ns.iter().sum::<f64>() / times_ns.len() as f64;
    println!(
        "log_volume {parameters:<36} flush every {writes_a_flush:<3} {:<8} {mean:6.0} ns a page \
         write (first tenth {:.0}, last {:.0}; {writes} writes; amplification {amplification:.2}, \
         of that cleaning {:.2}, summaries {:.3}, checkpoints {:.3})",
        if page.is_absent() { "no bytes" } else { "bytes" },
        times_ns[0],
        times_ns[PARTS - 1],
        counted("relocated_pages") / host_pages,
        counted("summary_pages") / host_pages,
        counted("checkpoint_pages") / host_pages,
    );
}

fn main() {
    let bytes = Data::zeros(PAGE as usize);
    let writes = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(4_000_000);
    for parameters in [
        "placement=none",
        "placement=multi_log",
        "placement=multi_log,align=256Ki",
        "placement=separate,victim=greedy",
    ] {
        case(parameters, 0, &Data::Absent, writes);
    }
    case("placement=multi_log", 10, &Data::Absent, writes);
    case("placement=multi_log", 0, &bytes, writes);
}
