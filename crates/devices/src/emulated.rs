//! A simulated drive on the wall clock, with data: a device that answers when that drive would.

mod power;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, Telemetry, Waker};
use memmap2::{MmapMut, MmapOptions};
use registry::{Args, Info, Param, ParamKind};
use rustc_hash::{FxHashMap, FxHashSet};
use ssd::drive::profile::{self, Profile};
use ssd::drive::state::State;
use units::{IoOp, Nanos, Progress};

use crate::clock::{AWAKE, Clock, wake_promptly};
use crate::ring::EventFd;
use crate::simulated::{Simulated, SimulatedSettings};
use crate::{Access, DeviceError, Opening};
use power::Volatile;

/// How an emulated drive is named.
pub(crate) const INFO: Info = Info {
    name: "emulated",
    aliases: &[],
    summary: "a simulated drive on the wall clock, with data: answers when that drive would",
    source: "",
    params: &[
        Param {
            name: "profile",
            kind: ParamKind::Text,
            default: "nvme-tlc",
            help: "a built-in profile, or the path of a TOML file",
        },
        Param {
            name: "size",
            kind: ParamKind::Text,
            default: "profile",
            help: "capacity: fewer erase blocks, the same share of spare space; profile: its own",
        },
        Param {
            name: "data",
            kind: ParamKind::Text,
            default: "memory",
            help: "where the bytes are kept: memory, or a file (sparse, made if it is not there)",
        },
        Param {
            name: "state",
            kind: ParamKind::Choice(&["fresh", "filled", "aged"]),
            default: "filled",
            help: "the drive before the first request; aged: filled, then each page was written \
                   twice more, at random",
        },
        Param {
            name: "seed",
            kind: ParamKind::Integer { min: 0, max: u64::MAX },
            default: "1",
            help: "of the drive's policies, and of what a power cut takes",
        },
        Param {
            name: "cut_after",
            kind: ParamKind::Integer { min: 0, max: u64::MAX },
            default: "0",
            help: "writes and trims after which its power is cut: what was not durable is taken \
                   back, in any part, and the process ends with 137; 0: never",
        },
    ],
};

/// Overwrites of each page of an aged drive.
const OVERWRITES: f64 = 2.0;

/// How exactly it answers when it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Commands.
    pub commands: u64,
    /// Those that were answered within 20 microseconds, or 2 % of their time, of when the
    /// simulated drive was done with them.
    pub in_time: u64,
    /// The latest, in nanoseconds.
    pub most_ns: Nanos,
}

/// A simulated drive on the wall clock, with data.
pub struct Emulated {
    info: DeviceInfo,
    drive: Simulated,
    clock: Clock,
    bytes: Bytes,
    /// What reads under way will bring, by their ids.
    reads: FxHashMap<u32, Data>,
    /// Completed, and not handed over.
    done: Vec<Completion>,
    lateness: Lateness,
    /// What a power cut may take, if there is going to be one.
    volatile: Option<Volatile>,
    /// Writes with FUA under way.
    fua: FxHashSet<u32>,
    wakes: Option<(Arc<EventFd>, Arc<AtomicBool>)>,
}

impl Emulated {
    pub(crate) fn open(
        opening: &Opening,
        args: &Args,
        progress: &Progress,
    ) -> Result<Self, DeviceError> {
        let wrong = |reason: String| DeviceError::Spec { name: opening.spec.clone(), reason };
        let profile = profile_of(args).map_err(wrong)?;
        let state = match args.text("state") {
            "fresh" => State::Fresh,
            "filled" => State::Filled,
            _ => State::Aged { overwrites: OVERWRITES },
        };
        let settings = SimulatedSettings { state, seed: args.integer("seed") };
        let drive = Simulated::new(&opening.spec, &profile, settings, progress)?;
        let about = drive.info();
        let mut limits = about.limits;
        limits.most_bytes = limits.most_bytes.min(opening.most_bytes.max(limits.sector_bytes));
        let info = DeviceInfo {
            limits,
            queue_depth: about.queue_depth.min(opening.queue_depth),
            is_read_only: opening.access == Access::ReadOnly,
            is_virtual: false,
            holds_data: true,
            ..about.clone()
        };
        let (cut_after, seed) = (args.integer("cut_after"), args.integer("seed"));
        let is_protected = profile.write_buffer.power_loss_protected;
        let bytes = Bytes::open(opening, args.text("data"), limits.capacity_bytes)?;
        Ok(Self {
            info,
            drive,
            clock: Clock::start(),
            bytes,
            reads: FxHashMap::default(),
            done: Vec::new(),
            lateness: Lateness::default(),
            volatile: (cut_after > 0).then(|| Volatile::new(cut_after, is_protected, seed)),
            fua: FxHashSet::default(),
            wakes: None,
        })
    }

    /// Whether there is such a drive, and its file of data is free, without making it.
    pub(crate) fn check(opening: &Opening, args: &Args) -> Result<(), DeviceError> {
        let wrong = |reason: String| DeviceError::Spec { name: opening.spec.clone(), reason };
        let profile = profile_of(args).map_err(wrong)?;
        match args.text("data") {
            "memory" => Ok(()),
            place => Bytes::lock(opening, place, profile.capacity_bytes()).map(|_| ()),
        }
    }

    /// How exactly it has answered so far.
    #[must_use]
    pub const fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Lets the drive do all that it has done by now.
    fn catch_up(&mut self) -> Result<(), BlockError> {
        let now = self.clock.now();
        while self.drive.now() < now {
            self.drive.wait(now, &mut self.done)?;
        }
        Ok(())
    }

    /// Hands over what is completed, as of now.
    fn hand_over(&mut self, completed: &mut Vec<Completion>) {
        let now = self.clock.now();
        for mut completion in self.done.drain(..) {
            let late = now.saturating_sub(completion.completed_at);
            let took = completion.completed_at - completion.submitted_at;
            self.lateness.commands += 1;
            self.lateness.in_time += u64::from(late <= 20_000.max(took / 50));
            self.lateness.most_ns = self.lateness.most_ns.max(late);
            completion.completed_at = now;
            let id = completion.reply.id;
            if let Some(volatile) = &mut self.volatile {
                volatile.replied(id, self.fua.remove(&id));
            }
            let data = self.reads.remove(&id);
            if let (Some(data), Ok(brought)) = (data, &mut completion.reply.outcome) {
                *brought = data;
            }
            completed.push(completion);
        }
    }

    /// Notes what a power cut may take, if there is going to be one; it may be now.
    fn note(&mut self, command: &Command) {
        let Some(volatile) = &mut self.volatile else { return };
        let is_cut = match command.op {
            IoOp::Read => false,
            IoOp::Flush => {
                volatile.flushes(command.id);
                false
            }
            IoOp::Write | IoOp::Trim => {
                if command.is_fua {
                    self.fua.insert(command.id);
                }
                let before = self.bytes.slice(command.offset, command.length);
                volatile.changes(command.id, command.offset, before)
            }
        };
        if is_cut {
            // The command that came last is taken in part, too.
            match command.op {
                IoOp::Write => self.bytes.write(command.offset, &command.data),
                _ => self.bytes.zero(command.offset, command.length),
            }
            for (offset, before) in volatile.cut(self.info.limits.sector_bytes) {
                self.bytes.write(offset, &Data::Whole(before.into()));
            }
            // The mapping is shared: the file has all of it, though the process is gone.
            std::process::exit(137);
        }
    }

    /// Sleeps until then, the last of it awake; whether somebody woke it.
    fn sleep_until(&self, until: Nanos) -> bool {
        let Some((wakes, is_woken)) = &self.wakes else {
            self.clock.sleep_until(until);
            return false;
        };
        wake_promptly();
        loop {
            if is_woken.swap(false, Ordering::SeqCst) {
                wakes.lower();
                return true;
            }
            let left = until.saturating_sub(self.clock.now());
            if left == 0 {
                return false;
            }
            if left > AWAKE {
                wakes.wait(Duration::from_nanos(left - AWAKE));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl BlockDevice for Emulated {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.clock.now()
    }

    fn outstanding(&self) -> u32 {
        self.drive.outstanding() + self.done.len() as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(
            self.outstanding() < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        // A drive that is gone says so to who waits.
        let _ = self.catch_up();
        if let Some(failure) = self.info.refuses(&command) {
            let now = self.clock.now();
            let reply = block::Reply { id: command.id, outcome: Err(failure) };
            self.done.push(Completion { reply, submitted_at: now, completed_at: now });
            return;
        }
        self.note(&command);
        self.drive.submit(Command { data: Data::Absent, ..command.clone() });
        // While the drive works: memory that is touched for the first time takes a while.
        match command.op {
            IoOp::Read => {
                let data = self.bytes.read(command.offset, command.length);
                self.reads.insert(command.id, data);
            }
            IoOp::Write => self.bytes.write(command.offset, &command.data),
            IoOp::Trim => self.bytes.zero(command.offset, command.length),
            IoOp::Flush => {}
        }
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX || self.outstanding() > 0, "something is waited for");
        loop {
            let caught_up = self.catch_up();
            if !self.done.is_empty() {
                self.hand_over(completed);
                return Ok(());
            }
            caught_up?;
            if self.clock.now() >= until {
                return Ok(());
            }
            let next = self.drive.next_time().unwrap_or(Nanos::MAX);
            if self.sleep_until(until.min(next)) {
                return Ok(());
            }
        }
    }

    fn telemetry(&self) -> Telemetry {
        self.drive.telemetry()
    }

    fn waker(&mut self) -> Option<Waker> {
        if self.wakes.is_none() {
            self.wakes = Some((Arc::new(EventFd::new().ok()?), Arc::default()));
        }
        let (wakes, is_woken) = self.wakes.clone()?;
        Some(Arc::new(move || {
            is_woken.store(true, Ordering::SeqCst);
            wakes.raise();
        }))
    }
}

/// The profile, as small as it is wanted.
fn profile_of(args: &Args) -> Result<Profile, String> {
    let named = args.text("profile");
    let profile = if named.contains('/') || Path::new(named).is_file() {
        let text = std::fs::read_to_string(named).map_err(|error| format!("{named}: {error}"))?;
        profile::parse(&text, named).map_err(|error| error.to_string())?
    } else {
        profile::load(named).map_err(|error| error.to_string())?
    };
    let size = args.text("size");
    if size == "profile" {
        return Ok(profile);
    }
    let wanted = registry::parse_bytes(size)
        .ok_or_else(|| format!("size={size}: it must be a size such as 8Gi, or `profile`"))?;
    let (own, blocks) = (profile.capacity_bytes(), profile.media.erase_blocks_per_plane);
    if wanted > own {
        return Err(format!("size={size}: `{named}` has {own} bytes, and cannot be made larger"));
    }
    let fewer = (wanted as f64 / own as f64 * f64::from(blocks)).ceil() as u32;
    let change = format!("media.erase_blocks_per_plane={fewer}");
    profile.with_overrides(&[change]).map_err(|error| format!("size={size}: {error}"))
}

/// The bytes of the drive, in memory that is as large as what was written.
struct Bytes {
    map: MmapMut,
    /// Locked as long as it is used.
    _file: Option<File>,
}

impl Bytes {
    fn open(opening: &Opening, place: &str, length: u64) -> Result<Self, DeviceError> {
        if place == "memory" {
            let map = MmapOptions::new().len(length as usize).no_reserve_swap().map_anon();
            return Ok(Self {
                map: map.map_err(opening.failed("getting its memory"))?,
                _file: None,
            });
        }
        let file = Self::lock(opening, place, length)?;
        file.set_len(length)
            .map_err(opening.failed("making its file of data as large as the drive"))?;
        Ok(Self {
            map: map_file(&file).map_err(opening.failed("mapping its data"))?,
            _file: Some(file),
        })
    }

    /// The file, if it may be that of a drive of this size.
    fn lock(opening: &Opening, place: &str, length: u64) -> Result<File, DeviceError> {
        let refused = |reason| DeviceError::Refused { name: opening.spec.clone(), reason };
        let may_be_made = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(place);
        let file = match may_be_made {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(refused(format!(
                    "{place} is a symbolic link: name the file that it leads to"
                )));
            }
            other => other.map_err(opening.failed("opening its file of data"))?,
        };
        let about = file.metadata().map_err(opening.failed("asking what its file of data is"))?;
        if !about.is_file() {
            return Err(refused(format!(
                "{place} is no regular file, in which alone the bytes of an emulated drive can lie"
            )));
        }
        if file.try_lock().is_err() {
            return Err(DeviceError::InUse {
                name: opening.spec.clone(),
                reason: format!("{place} is in use by another program"),
            });
        }
        let there = about.len();
        if there != 0 && there != length {
            return Err(refused(format!(
                "{place} has {there} bytes, and the drive {length}: name the file of a drive of \
                 this size, or a new one"
            )));
        }
        Ok(file)
    }

    fn slice(&self, offset: u64, length: u32) -> &[u8] {
        &self.map[offset as usize..offset as usize + length as usize]
    }

    fn read(&self, offset: u64, length: u32) -> Data {
        Data::copy_of(self.slice(offset, length))
    }

    fn write(&mut self, offset: u64, data: &Data) {
        data.copy_to(&mut self.map[offset as usize..offset as usize + data.len()]);
    }

    fn zero(&mut self, offset: u64, length: u32) {
        self.map[offset as usize..offset as usize + length as usize].fill(0);
    }
}

#[allow(unsafe_code, reason = "a file that others may change is mapped")]
fn map_file(file: &File) -> std::io::Result<MmapMut> {
    // SAFETY: the file is locked by us. Who truncates it in spite of that ends this process, and
    // who writes to it changes what the emulated drive holds; both are as with a real drive.
    unsafe { MmapMut::map_mut(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(parameters: &str) -> Result<Emulated, DeviceError> {
        let spec = format!("emulated({parameters})");
        let opening = Opening { holds_data: true, ..Opening::new(&spec, Access::DestroyData) };
        crate::open_emulated(&opening, &Progress::default())
    }

    fn run(device: &mut Emulated, command: Command) -> Completion {
        let mut completed = Vec::new();
        device.submit(command);
        device.wait(Nanos::MAX, &mut completed).unwrap();
        completed.remove(0)
    }

    /// Never earlier than the drive; how much later depends on the machine.
    #[test]
    fn an_answer_comes_when_the_drive_is_done_and_brings_what_was_written() {
        let mut device = open("profile=intel-x25e,size=1Gi").unwrap();
        let wrote = run(&mut device, Command::write(1, 8192, Data::copy_of(&[7; 4096])));
        assert_eq!(wrote.reply.outcome, Ok(Data::Absent));
        let read = run(&mut device, Command::new(2, IoOp::Read, 8192, 4096));
        assert_eq!(read.reply.outcome.unwrap().joined().unwrap(), vec![7; 4096]);
        let read = run(&mut device, Command::new(3, IoOp::Read, 512 << 20, 4096));
        let took = read.completed_at - read.submitted_at;
        assert!(took > 50_000, "flash takes its time, and not {took} ns");
        assert_eq!(read.reply.outcome.unwrap().joined().unwrap(), vec![0; 4096]);
        assert_eq!(device.lateness().commands, 3);
        assert!(device.telemetry().flash.unwrap().page_reads > 0);
    }

    #[test]
    fn a_smaller_drive_has_as_large_a_share_spare() {
        let whole = profile::load("intel-x25e").unwrap();
        let device = open("profile=intel-x25e,size=1Gi,state=fresh").unwrap();
        let bytes = device.info().limits.capacity_bytes;
        assert!((bytes as f64 / f64::from(1 << 30) - 1.0).abs() < 0.1, "{bytes}");
        let error = open(&format!("profile=intel-x25e,size={}", whole.capacity_bytes() + 1)).err();
        assert!(error.unwrap().to_string().contains("cannot be made larger"));
        let error = open("profile=nvme-tlk").err().unwrap().to_string();
        assert!(error.contains("nvme-tlc"), "{error}");
    }

    #[test]
    fn a_file_keeps_the_bytes_for_the_next_drive() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let parameters = format!("profile=intel-x25e,size=1Gi,state=fresh,data={}", data.display());
        let mut device = open(&parameters).unwrap();
        run(&mut device, Command::write(1, 0, Data::copy_of(&[9; 512])));
        let error = open(&parameters).err().unwrap().to_string();
        assert!(error.contains("in use by another program"), "{error}");
        drop(device);
        let mut device = open(&parameters).unwrap();
        let read = run(&mut device, Command::new(2, IoOp::Read, 0, 512));
        assert_eq!(read.reply.outcome.unwrap().joined().unwrap(), vec![9; 512]);
        drop(device);
        let error = open(&parameters.replace("1Gi", "2Gi")).err().unwrap().to_string();
        assert!(error.contains("name the file of a drive of this size"), "{error}");
        let check = |parameters: &str| crate::check_emulated(&format!("emulated({parameters})"));
        check(&parameters).unwrap();
        assert_eq!(check(&parameters.replace("1Gi", "2Gi")).unwrap_err().to_string(), error);
        let device = open(&parameters).unwrap();
        let error = check(&parameters).unwrap_err();
        assert!(matches!(error, DeviceError::InUse { .. }), "{error}");
        drop(device);
        assert!(check("profile=nvme-tlk").unwrap_err().to_string().contains("nvme-tlc"));
    }

    #[test]
    fn who_waits_is_woken() {
        let mut device = open("profile=intel-x25e,size=1Gi,state=fresh").unwrap();
        let waker = device.waker().unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            waker();
        });
        device.wait(Nanos::MAX - 1, &mut Vec::new()).unwrap();
        other.join().unwrap();
    }
}
