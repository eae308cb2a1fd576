//! Opening a device by its spec, and refusing to write where that would destroy something.

mod block;
mod file;
mod holds;
mod in_use;
mod nvme;
mod places;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use ::block::{BlockDevice, WithData};
use registry::{Info, Spec};
use units::Progress;

pub use file::{allocate_file, create_file, resize_file};

use crate::DeviceError;
use crate::command_set::{CommandSet, KernelCommands};
use crate::emulated::{self, Emulated};
use crate::hard_disk::{self, HardDisk};
use crate::memory::{self, Memory};
use crate::opening::{Access, Opening};
use crate::real::{Opened, Real};

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
    if let Ok(spec) = Spec::parse(spec)
        && hard_disk::INFO.is_called(&spec.name)
    {
        let args = hard_disk::INFO.accept(&spec);
        let args = args.map_err(|error| opening.wrong(error.to_string()))?;
        let disk = HardDisk::open(opening, &args)?;
        return Ok(if opening.holds_data { Box::new(WithData::new(disk)) } else { Box::new(disk) });
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
    let commands = KernelCommands::new(&opened.info, opened.is_polled);
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

/// Returns true if a name is that of a device that is opened by a spec, and not by a path.
#[must_use]
pub fn is_spec(name: &str) -> bool {
    variants().any(|info| info.is_called(name))
}

/// Gives the devices that are opened by a spec, as the registry has them.
pub fn variants() -> impl Iterator<Item = &'static Info> {
    [&memory::INFO, &emulated::INFO, &hard_disk::INFO].into_iter()
}

/// Checks that an emulated drive could be opened by this spec, as far as that is known without
/// making it, which takes seconds.
///
/// # Errors
/// As [`open_emulated`].
pub fn check_emulated(spec: &str) -> Result<(), DeviceError> {
    let opening = Opening::new(spec, Access::DestroyData);
    let args = emulated_args(&opening)?.ok_or_else(|| opening.wrong("it is no emulated drive"))?;
    Emulated::check(&opening, &args)
}

/// Gives the parts of an emulated drive: its profile, and the file of its data if that is not in
/// memory. None if the spec names something else.
///
/// # Errors
/// [`DeviceError::Spec`] if it names an emulated drive with parameters that none has.
pub fn emulated_parts(spec: &str) -> Result<Option<(String, Option<String>)>, DeviceError> {
    let args = emulated_args(&Opening::new(spec, Access::ReadOnly))?;
    Ok(args.map(|args| {
        let data = args.text("data");
        (args.text("profile").to_owned(), (data != emulated::IN_MEMORY).then(|| data.to_owned()))
    }))
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
