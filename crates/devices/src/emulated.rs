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
use registry::{Args, Info, Param, ParamKind, Spec};
use rustc_hash::{FxHashMap, FxHashSet};
use ssd::drive::profile::{self, Profile};
use ssd::drive::state::State;
use units::{IoOp, Nanos, Progress};

use crate::clock::{AWAKE, Clock, wake_promptly};
use crate::hard_disk::{self, HardDisk};
use crate::ring::EventFd;
use crate::simulated::{Simulated, SimulatedSettings, VirtualDevice};
use crate::{Access, DeviceError, Opening};
use power::Volatile;

/// Value of `data` if the bytes are kept in memory, not in a file.
pub(crate) const IN_MEMORY: &str = "memory";

/// Entry of the emulated drive in the registry: name, parameters, source.
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
            help: "a built-in profile, the path of a TOML file, or hard_disk(...)",
        },
        Param {
            name: "size",
            kind: ParamKind::Text,
            default: "profile",
            help: "capacity: fewer erase blocks, the same share of spare space (of a hard disk: its \
                   first bytes); profile: its own",
        },
        Param {
            name: "data",
            kind: ParamKind::Text,
            default: IN_MEMORY,
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

/// Timing accuracy of its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Commands.
    pub commands: u64,
    /// Commands that were answered within 20 microseconds, or 2 % of their time, of when the
    /// simulated drive was done with them.
    pub in_time: u64,
    /// The latest, in nanoseconds.
    pub most_ns: Nanos,
}

/// A simulated drive on the wall clock, with data.
pub struct Emulated {
    info: DeviceInfo,
    drive: Box<dyn VirtualDevice>,
    clock: Clock,
    bytes: Bytes,
    /// Data that reads under way will return, by their ids.
    reads: FxHashMap<u32, Data>,
    /// Completed, and not handed over.
    done: Vec<Completion>,
    lateness: Lateness,
    /// Changes that a power cut may take back, if there is going to be one.
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
        let model = Model::of(args).map_err(wrong)?;
        let (is_protected, capacity_bytes) = (model.is_protected(), model.capacity_bytes());
        let drive = model.drive(opening, args, progress)?;
        let about = drive.info();
        let mut limits = about.limits;
        limits.capacity_bytes = capacity_bytes;
        limits.most_bytes = limits.most_bytes.min(opening.most_bytes.max(limits.sector_bytes));
        let has_cut = args.integer("cut_after") > 0;
        let info = DeviceInfo {
            limits,
            // A power cut is of a drive that promises nothing.
            zeroing_bytes: (!has_cut).then_some(limits.sector_bytes),
            queue_depth: about.queue_depth.min(opening.queue_depth),
            is_read_only: opening.access == Access::ReadOnly,
            is_virtual: false,
            holds_data: true,
            ..about.clone()
        };
        let (cut_after, seed) = (args.integer("cut_after"), args.integer("seed"));
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

    /// Checks that there is such a drive, and that its file of data is free, without making the
    /// drive.
    pub(crate) fn check(opening: &Opening, args: &Args) -> Result<(), DeviceError> {
        let wrong = |reason: String| DeviceError::Spec { name: opening.spec.clone(), reason };
        let model = Model::of(args).map_err(wrong)?;
        match args.text("data") {
            IN_MEMORY => Ok(()),
            place => Bytes::lock(opening, place, model.capacity_bytes()).map(|_| ()),
        }
    }

    /// Gives the timing accuracy of its answers so far.
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

    /// Sleeps until then, awake for the last part of it. Returns true if somebody woke it.
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

/// What is emulated.
enum Model {
    /// A drive of flash, as small as it is wanted.
    Flash(Box<Profile>),
    /// A hard disk, with the bytes of it that there are.
    HardDisk(Args, u64),
}

impl Model {
    fn of(args: &Args) -> Result<Self, String> {
        let (named, size) = (args.text("profile"), args.text("size"));
        let wanted = match size {
            "profile" => None,
            _ => Some(registry::parse_bytes(size).ok_or_else(|| {
                format!("size={size}: it must be a size such as 8Gi, or `profile`")
            })?),
        };
        let too_large =
            |own: u64| format!("size={size}: `{named}` has {own} bytes, and cannot be made larger");
        if let Ok(spec) = Spec::parse(named)
            && hard_disk::INFO.is_called(&spec.name)
        {
            let args = hard_disk::INFO.accept(&spec).map_err(|error| error.to_string())?;
            let own = args.integer("capacity");
            let bytes = wanted.unwrap_or(own);
            return if bytes > own { Err(too_large(own)) } else { Ok(Self::HardDisk(args, bytes)) };
        }
        let profile = if named.contains('/') || Path::new(named).is_file() {
            let text =
                std::fs::read_to_string(named).map_err(|error| format!("{named}: {error}"))?;
            profile::parse(&text, named).map_err(|error| error.to_string())?
        } else {
            profile::load(named).map_err(|error| error.to_string())?
        };
        let Some(wanted) = wanted else { return Ok(Self::Flash(Box::new(profile))) };
        let (own, blocks) = (profile.capacity_bytes(), profile.media.erase_blocks_per_plane);
        if wanted > own {
            return Err(too_large(own));
        }
        let fewer = (wanted as f64 / own as f64 * f64::from(blocks)).ceil() as u32;
        let change = format!("media.erase_blocks_per_plane={fewer}");
        let smaller = profile.with_overrides(&[change]);
        smaller
            .map(|profile| Self::Flash(Box::new(profile)))
            .map_err(|error| format!("size={size}: {error}"))
    }

    fn capacity_bytes(&self) -> u64 {
        match self {
            Self::Flash(profile) => profile.capacity_bytes(),
            Self::HardDisk(_, bytes) => *bytes / hard_disk::SECTOR * hard_disk::SECTOR,
        }
    }

    fn is_protected(&self) -> bool {
        matches!(self, Self::Flash(profile) if profile.write_buffer.power_loss_protected)
    }

    fn drive(
        self,
        opening: &Opening,
        args: &Args,
        progress: &Progress,
    ) -> Result<Box<dyn VirtualDevice>, DeviceError> {
        let profile = match self {
            Self::HardDisk(args, _) => return Ok(Box::new(HardDisk::open(opening, &args)?)),
            Self::Flash(profile) => profile,
        };
        let state = match args.text("state") {
            "fresh" => State::Fresh,
            "filled" => State::Filled,
            _ => State::Aged { overwrites: OVERWRITES },
        };
        let settings = SimulatedSettings { state, seed: args.integer("seed") };
        Ok(Box::new(Simulated::new(&opening.spec, &profile, settings, progress)?))
    }
}

/// The bytes of the drive, in memory that is as large as what was written.
struct Bytes {
    map: MmapMut,
    /// Locked as long as it is used.
    _file: Option<File>,
}

impl Bytes {
    fn open(opening: &Opening, place: &str, length: u64) -> Result<Self, DeviceError> {
        if place == IN_MEMORY {
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
        let parts = |spec: &str| crate::emulated_parts(spec).unwrap();
        assert_eq!(parts("emulated(sd-card, size=2Gi)"), Some(("sd-card".to_owned(), None)));
        let with_data = ("sd-card".to_owned(), Some("a.img".to_owned()));
        assert_eq!(parts("emulated(data=a.img,profile=sd-card)"), Some(with_data));
        for path in ["emulated.img", "./emulated(sd-card)", "/dev/sdb", "a (b"] {
            assert_eq!(parts(path), None, "{path}");
        }
        crate::emulated_parts("emulated(sd-card,colour=red)").unwrap_err();
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
