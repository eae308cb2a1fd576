//! A hard disk in virtual time: what the papers compare flash with.
//!
//! One arm over one platter ([`arm`]), memory for reads, read-ahead and writes ([`cache`]), and an
//! order of commands: of those that wait, the disk takes the one that its head reaches first
//! (native command queueing), reads before writes. In front of it an elevator of CFQ's kind keeps
//! the arm with a reader that goes on in sequence, for a slice of time: after such a read it waits
//! a little for the next one. CFQ knows readers by their process; commands here have none, so a
//! reader is known by its place.
//!
//! Its bytes are not kept: `emulated(profile=hard_disk)` has them, on the wall clock.

mod arm;
mod cache;
mod engine;
#[cfg(test)]
mod tests;

use block::{BlockDevice, BlockError, Command, Completion, DeviceInfo, DeviceKind, Limits, Reply};
use registry::{Args, Info, Param, ParamKind};
use units::Nanos;

use crate::simulated::VirtualDevice;
use crate::{Access, DeviceError, Opening};
use arm::{Arm, Rates, Seeks};
use engine::{Engine, Settings};

const MS: f64 = 1e6;

/// Entry of the hard disk in the registry: name, parameters, source.
pub(crate) const INFO: Info = Info {
    name: "hard_disk",
    aliases: &[],
    summary: "a simulated hard disk: seeks, rotation, cache, elevator; as a desktop's of 2007",
    source: "PARALLELISM 3.1 (250 GB, 7200 rpm, CFQ); SCHEDULER table 2.3 (mean seek, link); \
             rates, longest seek and cache are typical of data sheets of such disks",
    params: &[
        Param {
            name: "capacity",
            kind: ParamKind::Bytes { min: 1 << 20, max: 1 << 46 },
            default: "250GB",
            help: "bytes: whole sectors of 512",
        },
        number("rpm", 1000.0, 20_000.0, "7200", "revolutions a minute"),
        number("seek_ms", 0.1, 100.0, "8.2", "mean seek, over all pairs of places"),
        number("track_seek_ms", 0.0, 100.0, "0.8", "seek to the next track"),
        number("full_seek_ms", 0.1, 200.0, "16.5", "seek over the whole way"),
        number("write_settle_ms", 0.0, 100.0, "1.0", "time that a seek for a write takes more"),
        number("outer_mb_per_second", 1.0, 1000.0, "80", "sequential rate of the first bytes"),
        number("inner_mb_per_second", 1.0, 1000.0, "40", "sequential rate of the last bytes"),
        number("link_mb_per_second", 1.0, 10_000.0, "300", "rate of the link"),
        number("command_ms", 0.0, 10.0, "0.1", "time that the disk takes for each command"),
        Param {
            name: "cache",
            kind: ParamKind::Bytes { min: 1 << 16, max: 1 << 30 },
            default: "16Mi",
            help: "memory: one half for reads and what is read ahead, one for writes",
        },
        Param {
            name: "write_cache",
            kind: ParamKind::Choice(&["on", "off"]),
            default: "on",
            help: "on: a write is acknowledged once it is in memory; off: once it is on a platter",
        },
        Param {
            name: "queue",
            kind: ParamKind::Integer { min: 1, max: 256 },
            default: "32",
            help: "commands of which the disk chooses the one that its head reaches first",
        },
        number(
            "anticipation_ms",
            0.0,
            100.0,
            "8",
            "time for which the elevator keeps the arm with a sequential reader (CFQ's \
             slice_idle); 0: no elevator",
        ),
    ],
};

const fn number(
    name: &'static str,
    min: f64,
    max: f64,
    default: &'static str,
    help: &'static str,
) -> Param {
    Param { name, kind: ParamKind::Number { min, max }, default, help }
}

/// A simulated hard disk. See the [module](self).
pub struct HardDisk {
    info: DeviceInfo,
    engine: Engine,
    /// Commands that were refused, when they came.
    refused: Vec<Completion>,
}

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;
/// Most requests outstanding: what a host's driver keeps.
const QUEUE_DEPTH: u32 = 4096;

impl HardDisk {
    pub(crate) fn open(opening: &Opening, args: &Args) -> Result<Self, DeviceError> {
        let wrong = |reason: String| DeviceError::Spec { name: opening.spec.clone(), reason };
        let capacity_bytes = args.integer("capacity") / SECTOR * SECTOR;
        let rate = |name| args.number(name) * 1e6 / 1e9;
        let ms = |name| args.number(name) * MS;
        let arm = Arm::new(
            capacity_bytes,
            60e9 / args.number("rpm"),
            Rates { outer: rate("outer_mb_per_second"), inner: rate("inner_mb_per_second") },
            Seeks { track: ms("track_seek_ms"), mean: ms("seek_ms"), full: ms("full_seek_ms") },
        );
        let settings = Settings {
            link: rate("link_mb_per_second"),
            command: ms("command_ms") as Nanos,
            write_settle: ms("write_settle_ms"),
            write_bytes: if args.text("write_cache") == "on" {
                args.integer("cache") / 2
            } else {
                0
            },
            queue: args.integer("queue") as usize,
            anticipation: ms("anticipation_ms") as Nanos,
        };
        let limits = Limits { capacity_bytes, sector_bytes: SECTOR as u32, most_bytes: 1 << 30 };
        let info = DeviceInfo {
            name: opening.spec.clone(),
            model: format!("hard disk, {} rpm", args.number("rpm")),
            kind: DeviceKind::Simulated,
            limits,
            queue_depth: QUEUE_DEPTH,
            is_read_only: opening.access == Access::ReadOnly,
            has_trim: false,
            zeroing_bytes: None,
            is_virtual: true,
            holds_data: false,
        };
        let engine =
            Engine::new(arm.map_err(wrong)?, settings, args.integer("cache") / 2, capacity_bytes);
        Ok(Self { info, engine, refused: Vec::new() })
    }
}

impl VirtualDevice for HardDisk {
    fn next_time(&self) -> Option<Nanos> {
        if self.refused.is_empty() { self.engine.next_time() } else { Some(self.engine.now()) }
    }
}

impl BlockDevice for HardDisk {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.engine.now()
    }

    fn outstanding(&self) -> u32 {
        (self.engine.outstanding() + self.refused.len()) as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(
            self.outstanding() < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        if let Some(failure) = self.info.refuses(&command) {
            let (now, reply) = (self.engine.now(), Reply { id: command.id, outcome: Err(failure) });
            self.refused.push(Completion { reply, submitted_at: now, completed_at: now });
            return;
        }
        self.engine.submit(&command);
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX || self.outstanding() > 0, "something is waited for");
        let until = if self.refused.is_empty() { until } else { self.engine.now() };
        self.engine.run(until, completed);
        completed.append(&mut self.refused);
        Ok(())
    }
}
