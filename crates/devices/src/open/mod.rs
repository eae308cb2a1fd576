//! Opening a device by its spec, and refusing to write where that would destroy something.

mod block;
mod file;
mod holds;
mod in_use;
mod nvme;
mod places;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use ::block::BlockDevice;
use registry::Spec;
use units::Progress;

pub use file::{allocate_file, create_file, resize_file};

use crate::DeviceError;
use crate::command_set::{CommandSet, KernelCommands};
use crate::emulated::{self, Emulated};
use crate::memory::{self, Memory};
use crate::real::{Opened, Real};

/// What may be done to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is only read. A device in use may be opened so.
    ReadOnly,
    /// It may be written if nothing is lost by that: it is empty, or holds only what this program
    /// wrote.
    Write,
    /// Whatever it holds may be destroyed. It must not be in use even so.
    DestroyData,
}

/// How a device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The path of a block device, of a namespace of an NVMe drive by its character device
    /// (`/dev/ng0n1`), or of a regular file, or `memory(bytes=1Gi,sector=512)`. A file by
    /// the name of `memory` is `./memory`.
    pub spec: String,
    /// What may be done to it.
    pub access: Access,
    /// Nobody else may use it, though it is only read. A device that may be written is never in
    /// use.
    pub alone: bool,
    /// Most requests outstanding, 1 ... 4096.
    pub queue_depth: u32,
    /// Longest request in bytes, up to 64 MiB: whole sectors.
    pub most_bytes: u32,
    /// Whether to poll for completions instead of taking interrupts, where the kernel allows it for
    /// the device. Where not, the device's model says so.
    pub polled: bool,
    /// The bytes that are going to be written, if it is not all of the device: only there data is
    /// in the way. The device does not keep to it by itself.
    pub region: Option<Range<u64>>,
    /// Whether it holds data ([`::block::DeviceInfo::holds_data`]), or is only measured.
    pub holds_data: bool,
}

impl Opening {
    /// Up to 256 requests of up to 1 MiB, not polled.
    #[must_use]
    pub fn new(spec: &str, access: Access) -> Self {
        Self {
            spec: spec.to_owned(),
            access,
            alone: false,
            queue_depth: 256,
            most_bytes: 1 << 20,
            polled: false,
            region: None,
            holds_data: false,
        }
    }

    /// Whether it is refused if somebody else uses it, and held from then on.
    fn is_exclusive(&self) -> bool {
        self.alone || self.access != Access::ReadOnly
    }

    fn wrong(&self, reason: impl Into<String>) -> DeviceError {
        DeviceError::Spec { name: self.spec.clone(), reason: reason.into() }
    }

    pub(crate) fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> DeviceError {
        let name = self.spec.clone();
        move |source| DeviceError::Open { name, action, source }
    }

    fn refused(&self, reason: impl Into<String>) -> DeviceError {
        DeviceError::Refused { name: self.spec.clone(), reason: reason.into() }
    }

    fn in_use(&self, reason: impl Into<String>) -> DeviceError {
        DeviceError::InUse { name: self.spec.clone(), reason: reason.into() }
    }

    /// Opens the path past the page cache.
    fn direct(&self, path: &Path, more_flags: i32) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(self.access != Access::ReadOnly)
            .custom_flags(libc::O_DIRECT | more_flags)
            .open(path)
    }
}

/// Tries again while a device is in use, for a while: the kernel lets go of one some time after its
/// last user has closed it, or was killed with requests under way.
fn patiently<T>(
    mut attempt: impl FnMut() -> io::Result<T>,
    is_in_use: impl Fn(&io::Error) -> bool,
) -> io::Result<T> {
    for _ in 0..80 {
        match attempt() {
            Err(error) if is_in_use(&error) => std::thread::sleep(Duration::from_millis(25)),
            other => return other,
        }
    }
    attempt()
}

const MOST_QUEUE_DEPTH: u32 = 4096;
const MOST_REQUEST_BYTES: u32 = 64 << 20;

/// Opens a device: a block device, a namespace of an NVMe drive (`/dev/ng0n1`) or a regular file by
/// its path, or memory.
///
/// For writing, a block device is refused if it or a partition of it is mounted, is swap space, or
/// is held by another driver or program (a namespace, if its block device is, or if somebody has it
/// open); and unless its data may be destroyed, also if it holds a
/// partition table, a file system, a member of a volume group or an array, or anything else than
/// zeros and what this program wrote. A regular file is refused if a loop device, a swap space or
/// another probe uses it, and, unless its data may be destroyed, if it holds anything else than
/// that. Formats are looked for at the start and the end; other data in the region of the
/// [`Opening`] alone: all of it is read if that takes seconds, else samples (of a file, only what
/// is written of it).
///
/// # Errors
/// [`DeviceError::Spec`] for a spec that names no device, [`DeviceError::InUse`] or
/// [`DeviceError::Refused`] with what to do about it, [`DeviceError::Open`] if the system does not
/// let it be opened.
pub fn open(opening: &Opening) -> Result<Box<dyn BlockDevice>, DeviceError> {
    open_watched(opening, &Progress::default())
}

/// The same, told how far it is and able to stop: reading what a large device holds takes seconds.
/// The progress counts bytes.
///
/// # Errors
/// As [`open`], and [`DeviceError::Cancelled`].
pub fn open_watched(
    opening: &Opening,
    progress: &Progress,
) -> Result<Box<dyn BlockDevice>, DeviceError> {
    if !(1..=MOST_QUEUE_DEPTH).contains(&opening.queue_depth) {
        return Err(opening.wrong(format!(
            "a queue depth of {} is not within 1 ... {MOST_QUEUE_DEPTH}",
            opening.queue_depth
        )));
    }
    if !(1..=MOST_REQUEST_BYTES).contains(&opening.most_bytes) {
        return Err(opening.wrong(format!(
            "a longest request of {} bytes is not within 1 ... {MOST_REQUEST_BYTES}",
            opening.most_bytes
        )));
    }
    let spec = opening.spec.trim();
    if spec.starts_with("sim:") {
        return Err(
            opening.wrong("a simulated drive is made from a profile, not opened: see `Simulated`")
        );
    }
    if let Ok(spec) = Spec::parse(spec)
        && memory::INFO.is_called(&spec.name)
    {
        let args = memory::INFO.accept(&spec).map_err(|error| opening.wrong(error.to_string()))?;
        return Ok(Box::new(Memory::open(opening, &args)?));
    }
    if emulated_args(opening)?.is_some() {
        return Ok(Box::new(open_emulated(opening, progress)?));
    }
    let path = Path::new(spec);
    let data = std::fs::metadata(path).map_err(|error| unnamed(opening, path, error))?;
    if let Some(name) = nvme::name_of(&data) {
        let (opened, commands) = nvme::open(opening, path, &data, &name, progress)?;
        return real(opening, opened, commands);
    }
    let opened = if data.file_type().is_block_device() {
        block::open(opening, path, &data, progress)?
    } else if data.is_file() {
        file::open(opening, path, &data, progress)?
    } else {
        return Err(opening.wrong(format!(
            "it is {}, not a block device, a regular file, or a namespace of an NVMe drive \
             (/dev/ng0n1)",
            what_it_is(&data)
        )));
    };
    let commands = KernelCommands::new(opened.info.kind, opened.is_polled);
    real(opening, opened, commands)
}

/// A device that was opened, once it takes what is to be asked of it.
fn real<K: CommandSet + 'static>(
    opening: &Opening,
    opened: Opened,
    commands: K,
) -> Result<Box<dyn BlockDevice>, DeviceError> {
    let sector = opened.info.limits.sector_bytes;
    if !opened.info.limits.most_bytes.is_multiple_of(sector) {
        return Err(opening.wrong(format!(
            "a longest request of {} bytes is not of whole sectors of {sector}",
            opened.info.limits.most_bytes
        )));
    }
    Ok(Box::new(Real::new(opened, commands)?))
}

/// An emulated drive, by its spec: for who wants to know how exactly it answers.
///
/// # Errors
/// [`DeviceError::Spec`] if it is not one, [`DeviceError::InUse`] if its file of data is in use,
/// [`DeviceError::Refused`] if it is of another size, [`DeviceError::Cancelled`].
pub fn open_emulated(opening: &Opening, progress: &Progress) -> Result<Emulated, DeviceError> {
    let args = emulated_args(opening)?.ok_or_else(|| opening.wrong("it is no emulated drive"))?;
    Emulated::open(opening, &args, progress)
}

/// Whether an emulated drive could be opened by this spec, as far as that is known without making
/// it, which takes seconds.
///
/// # Errors
/// As [`open_emulated`].
pub fn check_emulated(spec: &str) -> Result<(), DeviceError> {
    let opening = Opening::new(spec, Access::DestroyData);
    let args = emulated_args(&opening)?.ok_or_else(|| opening.wrong("it is no emulated drive"))?;
    Emulated::check(&opening, &args)
}

/// The parameters of an emulated drive; none if the spec names something else.
fn emulated_args(opening: &Opening) -> Result<Option<registry::Args>, DeviceError> {
    match Spec::parse(opening.spec.trim()) {
        Ok(spec) if emulated::INFO.is_called(&spec.name) => {
            let args = emulated::INFO.accept(&spec);
            args.map(Some).map_err(|error| opening.wrong(error.to_string()))
        }
        _ => Ok(None),
    }
}

fn unnamed(opening: &Opening, path: &Path, error: io::Error) -> DeviceError {
    if error.kind() == io::ErrorKind::NotFound && nvme::is_meant(path) {
        return opening.wrong(
            "there is no such namespace of an NVMe drive; `ls /dev/ng*` shows those that there \
             are (Linux 5.13 or newer)",
        );
    }
    if error.kind() == io::ErrorKind::NotFound {
        return opening.wrong(
            "there is no such file or device; a device is a path such as /dev/sdb, a file made \
             before, or memory(bytes=1Gi)",
        );
    }
    opening.failed("looking for it")(error)
}

fn what_it_is(data: &Metadata) -> &'static str {
    if data.is_dir() {
        "a directory"
    } else if data.file_type().is_char_device() {
        "a character device"
    } else {
        "a pipe or socket"
    }
}

/// Refuses a device whose data would be lost.
fn refuse_data(
    opening: &Opening,
    file: &File,
    capacity_bytes: u64,
    sector_bytes: u32,
    is_block_device: bool,
    progress: &Progress,
) -> Result<(), DeviceError> {
    if opening.access != Access::Write {
        return Ok(());
    }
    let region = opening.region.clone().unwrap_or(0..capacity_bytes);
    let held = holds::look(
        opening,
        &holds::Looked { file, capacity_bytes, sector_bytes, is_block_device, region },
        progress,
    )?;
    held.map_or(Ok(()), |held| {
        Err(opening.refused(format!(
            "it holds {held}; allow its data to be destroyed, or name another device"
        )))
    })
}
