//! Histories of a host with many commands under way, on a device that answers late, with errors, or
//! not at all: each sector has to be an atomic register, and flushed writes have to outlive a power
//! cut.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use units::IoOp;

use super::register::{Event, wrong};
use super::world::{Fate, LIMITS, World};
use crate::{Command, Data, Limits};

const SECTOR: usize = 512;
/// Sectors of the volume that are used: few, so that much happens to each.
const SECTORS: usize = 40;

/// Behaviour of a device.
#[derive(Clone, Copy, Debug)]
struct Manners {
    blocked: f64,
    errors: f64,
    never: f64,
}

/// A command of the host.
#[derive(Debug)]
struct Sent {
    op: IoOp,
    first: usize,
    sectors: usize,
    value: u32,
    begun: u64,
    ended: Option<u64>,
    is_fua: bool,
    /// Values that were read.
    found: Vec<u32>,
}

struct History {
    world: World,
    random: Pcg64Mcg,
    sent: FxHashMap<u32, Sent>,
    outstanding: usize,
    may_fall_silent: bool,
    clock: u64,
}

fn fill(value: u32) -> Vec<u8> {
    value.to_le_bytes().repeat(SECTOR / 4)
}

impl History {
    fn new(text: &str, seed: u64, manners: Manners) -> Self {
        let mut world = World::with(text, Limits { capacity_bytes: 96 << 10, ..LIMITS });
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut fates = Pcg64Mcg::seed_from_u64(random.random());
        world.fate = Box::new(move |_| {
            let reply = if fates.random_bool(manners.blocked) {
                fates.random_range(20_000..400_000)
            } else {
                fates.random_range(10..12_000)
            };
            Fate {
                effect: fates.random_range(0..=reply),
                reply: (!fates.random_bool(manners.never)).then_some(reply),
                fails: fates.random_bool(manners.errors),
            }
        });
        Self {
            world,
            random,
            sent: FxHashMap::default(),
            outstanding: 0,
            may_fall_silent: manners.never > 0.0,
            clock: 0,
        }
    }

    const fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn send(&mut self) {
        let value = self.sent.len() as u32 + 1;
        let first = self.random.random_range(0..SECTORS);
        let (first, sectors) = match self.random.random_range(0..4) {
            // A page, or some of them; or any sectors.
            0 => (first / 2 * 2, 2),
            1 => (first / 2 * 2, 2 * self.random.random_range(1..5)),
            _ => (first, self.random.random_range(1..6)),
        };
        let sectors = sectors.min(SECTORS - first);
        let op = match self.random.random_range(0..20) {
            0 => IoOp::Flush,
            1..9 => IoOp::Read,
            _ => IoOp::Write,
        };
        let is_fua = op == IoOp::Write && self.random.random_bool(0.1);
        let (offset, length) = ((first * SECTOR) as u64, (sectors * SECTOR) as u32);
        let command = match op {
            IoOp::Flush => Command::new(0, op, 0, 0),
            IoOp::Read => Command::new(0, op, offset, length),
            _ => {
                let data = Data::Whole(fill(value).repeat(sectors).into());
                Command { is_fua, ..Command::write(0, offset, data) }
            }
        };
        let begun = self.tick();
        let id = self.world.submit(command);
        let sent =
            Sent { op, first, sectors, value, begun, ended: None, is_fua, found: Vec::new() };
        self.sent.insert(id, sent);
        self.outstanding += 1;
        self.hear();
    }

    fn hear(&mut self) {
        for (_, reply) in std::mem::take(&mut self.world.replies) {
            let now = self.tick();
            let sent = self.sent.get_mut(&reply.id).expect("a command of the host");
            assert!(sent.ended.is_none(), "it is replied to once");
            self.outstanding -= 1;
            // A failed command may have been carried out, or may be later.
            let Ok(data) = reply.outcome else { continue };
            sent.ended = Some(now);
            if sent.op == IoOp::Read {
                let bytes = data.joined().expect("a read brings bytes");
                assert_eq!(bytes.len(), sent.sectors * SECTOR);
                let whole = |sector: &[u8]| {
                    let value = u32::from_le_bytes(sector[..4].try_into().unwrap());
                    assert_eq!(sector, fill(value), "a sector of one write");
                    value
                };
                sent.found = bytes.chunks(SECTOR).map(whole).collect();
            }
        }
    }

    /// Sends `commands` commands, of which up to `depth` are under way; then the power goes.
    fn live(&mut self, commands: usize, depth: usize) {
        for _ in 0..commands {
            while self.outstanding >= depth && self.world.step() {
                self.hear();
            }
            if self.outstanding >= depth {
                assert!(self.may_fall_silent, "{} are never replied to", self.outstanding);
                break;
            }
            let steps = self.random.random_range(0..6);
            for _ in 0..steps {
                self.world.step();
                self.hear();
            }
            self.send();
        }
        for _ in 0..self.random.random_range(0..40) {
            self.world.step();
            self.hear();
        }
        if !self.may_fall_silent && self.random.random_bool(0.5) {
            self.world.settle();
            self.hear();
            assert_eq!(self.outstanding, 0, "commands that are never replied to");
            assert!(self.world.stack.is_idle());
        }
    }

    fn judge_reads(&self, seed: u64) {
        for sector in 0..SECTORS {
            let touching = |sent: &&Sent| {
                sent.op != IoOp::Flush && (sent.first..sent.first + sent.sectors).contains(&sector)
            };
            let events: Vec<Event> = self
                .sent
                .values()
                .filter(touching)
                .filter(|sent| sent.op == IoOp::Write || sent.ended.is_some())
                .map(|sent| Event {
                    value: match sent.op {
                        IoOp::Write => sent.value,
                        _ => sent.found[sector - sent.first],
                    },
                    is_write: sent.op == IoOp::Write,
                    begun: sent.begun,
                    ended: sent.ended,
                })
                .collect();
            if let Some(wrong) = wrong(&events) {
                panic!("seed {seed}, sector {sector}: {wrong}");
            }
        }
    }

    /// Judges a recovery: all that took effect on the media is there, and nothing else.
    fn judge_recovery(&mut self, seed: u64) {
        self.world.reopen();
        self.world.fate = Box::new(|_| super::after(10));
        let flushes: Vec<u64> = self
            .sent
            .values()
            .filter(|sent| sent.op == IoOp::Flush && sent.ended.is_some())
            .map(|sent| sent.begun)
            .collect();
        let is_durable = |sent: &Sent| {
            let ended = sent.ended.unwrap_or(u64::MAX);
            sent.is_fua && ended < u64::MAX || flushes.iter().any(|&flush| ended < flush)
        };
        for sector in 0..SECTORS {
            let id = self.world.read((sector * SECTOR) as u64, SECTOR as u32);
            let bytes = self.world.wait(id).1.unwrap().joined().unwrap();
            let value = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            assert_eq!(bytes[..], fill(value), "a sector of one write");
            let writes: Vec<&Sent> = self
                .sent
                .values()
                .filter(|sent| {
                    sent.op == IoOp::Write
                        && (sent.first..sent.first + sent.sectors).contains(&sector)
                })
                .collect();
            let ended = match value {
                0 => 0,
                value => {
                    let write = writes.iter().find(|sent| sent.value == value);
                    let write = write.unwrap_or_else(|| {
                        panic!("seed {seed}, sector {sector}: {value}, which nobody wrote there")
                    });
                    write.ended.unwrap_or(u64::MAX)
                }
            };
            let newer = writes.iter().find(|sent| is_durable(sent) && sent.begun > ended);
            assert!(newer.is_none(), "seed {seed}, sector {sector}: {value}, and not {newer:?}");
        }
    }
}

const TEXTS: [&str; 5] = [
    "replicas(partitions=4,page=1Ki,budget=30%,patience=15us,read_threshold=0)",
    "replicas(partitions=3,page=1Ki,budget=5%,patience=5us,copies=2,policy=lru,read_threshold=0,\
     epoch=50us)",
    "replicas(partitions=6,page=1Ki,budget=40%,patience=13us,copies=5,behind=3,run_pages=2,\
     epoch=200us)",
    "replicas(partitions=2,page=2Ki,budget=30%,copies=2)",
    "replicas(partitions=4,page=1Ki,budget=30%,patience=15us,read_threshold=0,epoch=none)",
];

/// Runs histories from a seed on: `count`, times N with `HISTORIES=N` in the environment.
fn run(manners: Manners, (first, count): (u64, u64)) -> [u64; 4] {
    let times = std::env::var("HISTORIES").ok().and_then(|times| times.parse().ok());
    let mut seen = [0; 4];
    for seed in first..first + count * times.unwrap_or(1) {
        let text = TEXTS[seed as usize % TEXTS.len()];
        let mut history = History::new(text, seed, manners);
        let depth = history.random.random_range(1..16);
        history.live(160, depth);
        let names = ["rwrite_2", "rread_2", "read_replicas", "evicted"];
        for (sum, name) in seen.iter_mut().zip(names) {
            *sum += history.world.count(name);
        }
        let [by_reads, all] = ["read_replicas", "extra_writes"].map(|one| history.world.count(one));
        assert!(by_reads <= all, "{by_reads} of {all} replicas that were written, seed {seed}");
        history.judge_reads(seed);
        history.judge_recovery(seed);
    }
    seen
}

#[test]
fn every_sector_is_an_atomic_register() {
    let seen = run(Manners { blocked: 0.2, errors: 0.0, never: 0.0 }, (0, 400));
    assert!(seen.iter().all(|&count| count > 300), "{seen:?}: too little of what is tried");
}

#[test]
fn so_it_is_where_much_is_blocked() {
    run(Manners { blocked: 0.6, errors: 0.0, never: 0.0 }, (100_000, 300));
}

#[test]
fn so_it_is_where_commands_fail() {
    run(Manners { blocked: 0.3, errors: 0.03, never: 0.0 }, (200_000, 400));
}

#[test]
fn so_it_is_where_commands_are_never_answered() {
    run(Manners { blocked: 0.3, errors: 0.0, never: 0.02 }, (300_000, 400));
    run(Manners { blocked: 0.3, errors: 0.01, never: 0.01 }, (400_000, 300));
}
