//! The layer against an oracle: random commands, replies in any order, cuts of the power.

mod bad_sectors;
mod commands;
mod device;
mod recovery;
mod rot;
mod versions;

use block::Immediate;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use units::IoOp;

use self::device::{Device, Oracle, SECTOR};
use crate::driver::through;
use crate::{Actions, Command, Data, Facts, Failure, Limits, Signal, Stack};

const TIMES: &str = "t_sequential=100,t_partitioned=150,t_focused=200,theta_sequential=2";

fn limits(pages: u64) -> Limits {
    Limits { capacity_bytes: pages * 2048, sector_bytes: SECTOR as u32, most_bytes: 8192 }
}

fn content(tag: u32) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    bytes[..SECTOR - 96]
        .chunks_exact_mut(4)
        .for_each(|word| word.copy_from_slice(&tag.to_le_bytes()));
    bytes
}

fn tag_of(bytes: &[u8]) -> u32 {
    let tag = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(bytes, content(tag), "a sector holds what was written to it as a whole");
    tag
}

struct Host {
    op: IoOp,
    sectors: std::ops::Range<u64>,
    first_tag: u32,
    came: u64,
    is_fua: bool,
}

struct Running {
    text: String,
    device: Immediate<Device>,
    stack: Stack,
    oracle: Oracle,
    outstanding: FxHashMap<u32, Host>,
    ids: u32,
    tags: u32,
    random: Pcg64Mcg,
    capacity: u64,
    fails: bool,
}

impl Running {
    fn new(text: &str, seed: u64, pages: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut device =
            Immediate::new(Device::new(limits(pages), Pcg64Mcg::seed_from_u64(random.random())));
        crate::format(text, &Facts::default(), seed, &mut device).unwrap();
        let stack = crate::open(text, &Facts::default(), seed, &mut device).unwrap();
        let capacity = stack.limits().capacity_bytes / SECTOR as u64;
        let oracle = Oracle::new(capacity as usize, !text.contains("written"));
        let outstanding = FxHashMap::default();
        Self {
            text: text.to_owned(),
            device,
            stack,
            oracle,
            outstanding,
            ids: 0,
            tags: 0,
            random,
            capacity,
            fails: false,
        }
    }

    fn submit(&mut self) {
        self.oracle.now += 1;
        self.ids += 1;
        let op = match self.random.random_range(0..100) {
            0..60 => IoOp::Write,
            60..85 => IoOp::Read,
            85..92 => IoOp::Trim,
            _ => IoOp::Flush,
        };
        let mut sectors = 0..0;
        if op != IoOp::Flush {
            // Near the beginning more often: pages are written again while they are in the buffer.
            let span = if self.random.random_bool(0.5) { self.capacity / 4 } else { self.capacity };
            let mut start = self.random.random_range(0..span);
            let mut length = self.random.random_range(1..=16);
            if self.random.random_bool(0.5) {
                (start, length) = (start / 4 * 4, 4 * self.random.random_range(1..=2));
            }
            sectors = start..(start + length).min(self.capacity);
        }
        let is_fua = op == IoOp::Write && self.random.random_bool(0.2);
        let first_tag = self.tags + 1;
        let mut data = Data::Absent;
        match op {
            IoOp::Write => {
                self.tags += (sectors.end - sectors.start) as u32;
                data =
                    Data::copy_of(&(first_tag..=self.tags).flat_map(content).collect::<Vec<u8>>());
                sectors
                    .clone()
                    .zip(first_tag..)
                    .for_each(|(sector, tag)| self.oracle.begins(sector, tag, false));
            }
            IoOp::Trim => sectors.clone().for_each(|sector| self.oracle.begins(sector, 0, true)),
            _ => {}
        }
        let (offset, length) =
            (sectors.start * SECTOR as u64, (sectors.end - sectors.start) as u32 * SECTOR as u32);
        self.outstanding
            .insert(self.ids, Host { op, sectors, first_tag, came: self.oracle.now, is_fua });
        let mut actions = Actions::default();
        self.stack.submit(
            Command { is_fua, data, ..Command::new(self.ids, op, offset, length) },
            0,
            &mut actions,
        );
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Actions) {
        actions.down.into_iter().for_each(|command| self.device.take(command));
        for reply in actions.up {
            self.oracle.now += 1;
            let host = self.outstanding.remove(&reply.id).expect("each command is replied to once");
            let data = match reply.outcome {
                Ok(data) => data,
                Err(failure) => {
                    assert!(self.fails, "{failure}");
                    continue;
                }
            };
            let from = host.came;
            match host.op {
                IoOp::Write => {
                    host.sectors
                        .zip(host.first_tag..)
                        .for_each(|(sector, tag)| self.oracle.ends(sector, tag, from, host.is_fua));
                }
                IoOp::Trim => {
                    host.sectors.for_each(|sector| self.oracle.ends(sector, 0, from, false));
                }
                IoOp::Flush => self.oracle.flushed(from),
                IoOp::Read => {
                    let bytes = data.joined().unwrap();
                    assert_eq!(
                        bytes.len() as u64,
                        (host.sectors.end - host.sectors.start) * SECTOR as u64
                    );
                    for (sector, bytes) in host.sectors.zip(bytes.chunks(SECTOR)) {
                        let (tag, allowed) = (tag_of(bytes), self.oracle.may_be_read(sector, from));
                        assert!(
                            allowed.contains(&tag),
                            "sector {sector} was read as {tag}, and may be {allowed:?}"
                        );
                    }
                }
            }
        }
    }

    fn reply(&mut self) {
        if let Some(reply) = self.device.reply() {
            self.oracle.now += 1;
            let mut actions = Actions::default();
            self.stack.replied(reply, 0, &mut actions);
            self.carry_out(actions);
        }
    }

    /// Some commands outstanding at a time, and replies.
    fn go_on(&mut self, commands: u32) {
        let depth = self.random.random_range(1..12);
        for _ in 0..commands {
            self.submit();
            while self.outstanding.len() >= depth || self.random.random_bool(0.5) {
                if self.device.is_idle() {
                    break;
                }
                self.reply();
            }
        }
    }

    fn settle(&mut self) {
        while !self.device.is_idle() {
            self.reply();
        }
        assert!(self.outstanding.is_empty(), "all is replied to");
    }

    fn drain(&mut self) {
        let mut actions = Actions::default();
        self.stack.signal(Signal::Drain, 0, &mut actions);
        self.carry_out(actions);
        self.settle();
        assert!(self.stack.is_idle());
    }

    fn cut_and_recover(&mut self) {
        self.oracle.now += 1;
        self.device.cut();
        self.outstanding.clear();
        let mut device = self.device.clone();
        self.stack = crate::open(&self.text, &Facts::default(), 1, &mut self.device).unwrap();
        let mut bytes = vec![0; self.capacity as usize * SECTOR];
        through(&mut self.stack, &mut self.device, |store| store.read(0, &mut bytes)).unwrap();
        for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
            let tag = tag_of(bytes);
            if let Err(allowed) = self.oracle.found(sector as u64, tag) {
                panic!("after a cut sector {sector} holds {tag}, and may hold {allowed:?}");
            }
        }
        let mut again = crate::open(&self.text, &Facts::default(), 1, &mut device).unwrap();
        let mut same = vec![0; bytes.len()];
        through(&mut again, &mut device, |store| store.read(0, &mut same)).unwrap();
        assert!(bytes == same, "recovery twice gives the same");
    }
}

/// Tells of a test that failed what it ran.
struct Told<'a>(&'a str, u64);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "failed with {} and seed {}; again: SEEDS={}..{} cargo test -p flashwright-layers \
                 stable",
                self.0,
                self.1,
                self.1,
                self.1 + 1
            );
        }
    }
}

/// 40 seeds, or those from SEEDS=first..end.
fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("SEEDS").ok();
    let range = given
        .as_deref()
        .and_then(|text| text.split_once(".."))
        .map(|(from, to)| (from.parse(), to.parse()));
    match range {
        Some((Ok(from), Ok(to))) => from..to,
        _ => 0..40,
    }
}

fn stacks() -> Vec<String> {
    let mut stacks = Vec::new();
    for how in [
        "size=10Ki",
        "size=2Ki,ack=flush",
        "size=10Ki,ack=written",
        "size=16Ki,ack=written,layout=embedded,patterns=on_demand",
        "size=16Ki,ack=flush,flushing=proactive,sequential=4Ki,outstanding=2,windows=aligned",
        "size=10Ki,ack=fua,flushing=proactive,sequential=2Ki,layout=embedded,reread=no",
        "size=24Ki,ack=written,sequential=4Ki,patterns=on_demand,partition_pages=1,outstanding=1",
        "size=6Ki,ack=written,flushing=proactive,sequential=2Ki,reread=no",
    ] {
        stacks.push(format!("stable_buffer({how},page=2Ki,focused_area=16Ki,{TIMES})"));
    }
    stacks
}

#[test]
fn what_is_read_was_written_and_nothing_is_lost_in_cuts() {
    for text in stacks() {
        for seed in seeds() {
            let _told = Told(&text, seed);
            let mut run = Running::new(&text, seed, 40);
            for _ in 0..6 {
                let commands = run.random.random_range(1..60);
                run.go_on(commands);
                if run.random.random_bool(0.2) {
                    run.drain();
                }
                run.cut_and_recover();
            }
            run.go_on(30);
            run.settle();
            run.drain();
        }
    }
}

#[test]
fn after_an_error_of_the_device_nothing_that_was_acknowledged_is_lost() {
    let mut poisoned = 0;
    for text in stacks() {
        for seed in seeds() {
            let _told = Told(&text, seed);
            let mut run = Running::new(&text, seed, 40);
            run.go_on(20);
            run.fails = true;
            run.device.fails_at = Some(run.random.random_range(0..60));
            run.go_on(60);
            run.settle();
            run.drain();
            let mut actions = Actions::default();
            run.stack.submit(Command::new(0, IoOp::Flush, 0, 0), 0, &mut actions);
            poisoned += u32::from(
                actions
                    .up
                    .iter()
                    .any(|reply| matches!(reply.outcome, Err(Failure::Poisoned { .. }))),
            );
            run.fails = false;
            run.cut_and_recover();
            run.go_on(30);
            run.settle();
        }
    }
    assert!(poisoned > 0, "errors of its own writes poison the layer");
}
