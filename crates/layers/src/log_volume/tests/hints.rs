//! Writes with hints of their lifetimes: where they come to lie, and what that brings.

use block::{BlockDevice as _, Immediate};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{IoOp, Lifetime, Nanos};

use super::harness::disk;
use crate::{
    Actions, Command, Data, Driver, Entry, Facts, Layer, Limits, Making, Reply, Store, parse,
};

const PAGE: u64 = 1 << 10;
const SEGMENT: u64 = 16 << 10;
const HINTED: &str = "log_volume(page=1Ki,segment=16Ki,over_provisioning=40%,summary_pages=64,\
                      checkpoint_every=1Mi";

/// A volume over a device that ends each command at once.
struct Bench {
    entry: &'static Entry,
    layer: Box<dyn Layer>,
    actions: Actions,
    memory: Vec<u8>,
    /// Pages of data written below, by lifetime.
    written: [u64; 5],
}

impl Bench {
    fn new(text: &str) -> Self {
        let limits = Limits { capacity_bytes: 2 << 20, sector_bytes: 512, most_bytes: 16 << 10 };
        let (entry, args) = parse(text).unwrap().remove(0);
        let making = Making { args: &args, facts: &Facts::default(), seed: 1 };
        let mut below = Immediate::sparse(limits);
        let mut below = Store::new(&mut below);
        (entry.format)(&making, &mut below).unwrap();
        let layer = (entry.open)(&making, &mut below).unwrap();
        let memory = vec![0; limits.capacity_bytes as usize];
        Self { entry, layer, actions: Actions::default(), memory, written: [0; 5] }
    }

    fn run(&mut self, command: Command) {
        self.layer.submit(command, 0, &mut self.actions);
        while !self.actions.down.is_empty() {
            for command in std::mem::take(&mut self.actions.down) {
                let outcome = Ok(self.serve(&command));
                self.layer.replied(Reply { id: command.id, outcome }, 0, &mut self.actions);
            }
        }
        assert_eq!(self.actions.up.drain(..).count(), 1, "it is replied to");
    }

    /// The device: a page of data says how long it was expected to live, and so does the command.
    fn serve(&mut self, command: &Command) -> Data {
        let range = command.offset as usize..command.end() as usize;
        match command.op {
            IoOp::Read => return Data::copy_of(&self.memory[range]),
            IoOp::Write => {
                let handle = command.lifetime.handle();
                command.data.copy_to(&mut self.memory[range.clone()]);
                // A footer may go along, in the last page of a segment.
                let has_footer = command.end().is_multiple_of(SEGMENT);
                let data = range.start..range.end - usize::from(has_footer) * PAGE as usize;
                self.written[usize::from(handle)] += data.len() as u64 / PAGE;
                let is_of_it = self.memory[data].iter().all(|&byte| byte == handle);
                assert!(command.lifetime == Lifetime::NotSet || is_of_it, "lifetimes have met");
            }
            IoOp::Trim | IoOp::Flush => {}
        }
        Data::Absent
    }

    fn write(&mut self, page: u64, lifetime: Lifetime) {
        let data = Data::copy_of(&[lifetime.handle(); PAGE as usize]);
        self.run(Command { lifetime, ..Command::write(0, page * PAGE, data) });
    }

    fn pages(&self) -> u64 {
        self.layer.limits().capacity_bytes / PAGE
    }

    fn count(&self, name: &str) -> u64 {
        let mut counts = Vec::new();
        self.layer.count(&mut counts);
        counts[self.entry.counters.iter().position(|counter| counter.name == name).unwrap()]
    }
}

/// Four of five writes go to a tenth of the pages: the write amplification after a while.
fn hot_and_cold(text: &str) -> (f64, Bench) {
    let mut bench = Bench::new(text);
    let (all, mut random) = (bench.pages(), Pcg64Mcg::seed_from_u64(5));
    (0..all).for_each(|page| bench.write(page, Lifetime::Long));
    for number in 0..40 * all {
        let is_hot = random.random_bool(0.8);
        let page = random.random_range(if is_hot { 0..all / 10 } else { all / 10..all });
        bench.write(page, if is_hot { Lifetime::Short } else { Lifetime::Long });
        if number % 64 == 0 {
            bench.run(Command::new(0, IoOp::Flush, 0, 0));
        }
    }
    let moved = bench.count("relocated_pages") as f64;
    (1.0 + moved / bench.count("host_pages") as f64, bench)
}

#[test]
fn pages_of_two_lifetimes_never_meet_in_a_segment() {
    let (with, bench) = hot_and_cold(&format!("{HINTED},hints=yes)"));
    assert_eq!(bench.count("hinted_pages"), bench.count("host_pages"));
    assert!(bench.count("relocated_pages") > bench.pages(), "much was moved");
    let [none, short, medium, long, extreme] = bench.written;
    assert_eq!((medium, extreme), (0, 0));
    let data = bench.count("host_pages") + bench.count("relocated_pages");
    assert_eq!(short + long, data, "what is moved keeps its lifetime");
    assert!(none > 0 && short > 0 && long > 0, "summaries have none");
    let (without, bench) = hot_and_cold(&format!("{HINTED},hints=no)"));
    assert_eq!(bench.written[1..], [0; 4], "what is written below has no hint then");
    assert!(with < 0.97 * without, "WA {with:.3} with hints, {without:.3} without");
}

/// The default: a hint changes nothing, to the byte.
#[test]
fn without_hints_yes_a_hint_changes_nothing() {
    let told = |hint: bool| {
        let mut disk = disk(256 << 10);
        let text = "log_volume(page=1Ki,segment=8Ki,over_provisioning=40%,summary_pages=8)";
        crate::format(text, &Facts::default(), 3, &mut disk).unwrap();
        let stack = crate::open(text, &Facts::default(), 3, &mut disk).unwrap();
        let pages = stack.limits().capacity_bytes / PAGE;
        let (mut driver, mut random) = (Driver::new(disk, stack), Pcg64Mcg::seed_from_u64(2));
        let mut run = |command: Command| {
            driver.submit(command);
            driver.wait(Nanos::MAX, &mut Vec::new()).unwrap();
        };
        for number in 0..2000_u64 {
            let page = random.random_range(0..pages);
            let data = Data::copy_of(&[number as u8; PAGE as usize]);
            let lifetime = if hint { Lifetime::ALL[number as usize % 5] } else { Lifetime::NotSet };
            run(Command { lifetime, ..Command::write(0, page * PAGE, data) });
            if number % 9 == 0 {
                run(Command::new(1, IoOp::Flush, 0, 0));
            }
        }
        driver.into_parts().0.bytes.clone()
    };
    assert!(told(true) == told(false));
}

#[test]
fn hints_and_another_choice_of_logs_are_refused_in_one_line() {
    for more in ["placement=separate", "summaries=segments"] {
        let text = format!("log_volume(page=1Ki,segment=8Ki,hints=yes,{more})");
        let error = crate::format(&text, &Facts::default(), 1, &mut disk(256 << 10)).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("hints") && !told.contains('\n'), "{told}");
    }
}
