//! CPU time of the StableBuffer a page write, everything included that the write brings with it:
//! recognition, choice, flushing.
//!
//! Traces without data, 1,024 slots of 4 KiB as in STABLEBUFFER 4.1, a device that replies at once.
//! Each case runs in ten parts, and the first and the last are printed: there is no growth with the
//! length of a run. Compare lines of one run.

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

/// Which page comes next.
type Draw = fn(&mut Pcg64Mcg, u64) -> u64;

/// Anywhere: most pages are isolated.
fn uniform(random: &mut Pcg64Mcg, pages: u64) -> u64 {
    random.random_range(0..pages)
}

/// As databases write: near each other for a while, some pages again and again.
fn clustered(random: &mut Pcg64Mcg, pages: u64) -> u64 {
    let hot = random.random_range(0..64_u64) * (pages / 64);
    hot + (random.random::<f64>().powi(6) * (pages / 64) as f64) as u64
}

struct Host {
    layer: Box<dyn Layer>,
    actions: Actions,
    waiting: Vec<u32>,
}

impl Host {
    fn write(&mut self, page: u64, data: &Data) {
        let command = Command {
            data: data.clone(),
            ..Command::new(0, IoOp::Write, page * PAGE, PAGE as u32)
        };
        self.layer.submit(command, 0, &mut self.actions);
        loop {
            self.waiting.extend(self.actions.down.drain(..).map(|command| command.id));
            let Some(id) = self.waiting.pop() else { break };
            self.layer.replied(Reply { id, outcome: Ok(Data::Absent) }, 0, &mut self.actions);
        }
        assert_eq!(self.actions.up.len(), 1, "the write is replied to");
        self.actions.up.clear();
    }
}

fn case(name: &str, parameters: &str, draw: Draw, writes: usize) {
    let limits = Limits { capacity_bytes: 7 << 30, sector_bytes: 512, most_bytes: 1 << 20 };
    let text = format!(
        "stable_buffer(size=4Mi,focused_area=8Mi,t_sequential=100,t_partitioned=150,t_focused=200,\
         theta_sequential=8,{parameters})"
    );
    let (entry, args) = layers::parse(&text).expect("it is well formed").remove(0);
    let making = Making { args: &args, facts: &Facts::default(), seed: 1 };
    let mut below = Immediate::sparse(limits);
    let mut below = Store::new(&mut below);
    (entry.format)(&making, &mut below).expect("it is formatted");
    let layer = (entry.open)(&making, &mut below).expect("it is opened");
    let pages = layer.limits().capacity_bytes / PAGE;
    let mut host = Host { layer, actions: Actions::default(), waiting: Vec::new() };
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut times_ns = Vec::new();
    for _ in 0..PARTS {
        let drawn: Vec<u64> = (0..writes / PARTS).map(|_| draw(&mut random, pages)).collect();
        let begin = cpu_ns();
        drawn.iter().for_each(|&page| host.write(page, &Data::Absent));
        times_ns.push((cpu_ns() - begin) as f64 / drawn.len() as f64);
    }
    let mean = times_ns.iter().sum::<f64>() / times_ns.len() as f64;
    println!(
        "stable_buffer {name:<44} {mean:7.0} ns a page write (first tenth {:.0}, last tenth {:.0}; \
         {writes} writes)",
        times_ns[0],
        times_ns[PARTS - 1]
    );
}

fn main() {
    for (where_to, draw) in [("uniform", uniform as Draw), ("clustered", clustered)] {
        for (method, parameters) in [
            ("on demand, passive", "patterns=on_demand"),
            ("incremental, passive", "patterns=incremental"),
            ("incremental, proactive", "patterns=incremental,flushing=proactive"),
        ] {
            case(
                &format!("{method}, {where_to}"),
                parameters,
                draw,
                if parameters.contains("demand") { 200_000 } else { 2_000_000 },
            );
        }
    }
    case(
        "incremental, passive, as the figures, clustered",
        "patterns=incremental,ack=written,layout=embedded",
        clustered,
        2_000_000,
    );
}
