//! Opening a regular file, and making one that can be measured.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use ::block::{DeviceInfo, DeviceKind, Limits};
use memmap2::MmapMut;
use rustix::fs::{AtFlags, FallocateFlags, Statx, StatxFlags};
use units::Progress;

use super::block::{Described, polling};
use super::{in_use, patiently, refuse_data};
use crate::DeviceError;
use crate::content::Content;
use crate::control;
use crate::hints::Hints;
use crate::opening::{Access, Opening};
use crate::real::Opened;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `linux/magic.h`: file systems that take `O_DIRECT` and ignore
/// it.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

const NO_DIRECT: &str = "its file system cannot go past the page cache (O_DIRECT), so memory would \
                         be measured; use a file on ext4, XFS or the like";

pub(super) fn open(
    opening: &Opening,
    path: &Path,
    data: &Metadata,
    progress: &Progress,
) -> Result<Opened, DeviceError> {
    let is_exclusive = opening.is_exclusive();
    if is_exclusive && let Some(user) = in_use::file_user(data) {
        return Err(opening.in_use(format!("{user}; name a file that is not in use")));
    }
    let file = match opening.direct(path, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(opening.wrong(NO_DIRECT));
        }
        Err(error) if matches!(error.raw_os_error(), Some(libc::EROFS)) => {
            return Err(opening.refused("its file system is read-only"));
        }
        Err(error) if matches!(error.raw_os_error(), Some(libc::ETXTBSY)) => {
            return Err(opening.in_use("the system uses it"));
        }
        other => other.map_err(opening.failed("opening it"))?,
    };
    let opened = file.metadata().map_err(opening.failed("asking what it is"))?;
    if (opened.dev(), opened.ino()) != (data.dev(), data.ino()) {
        return Err(opening.wrong("another file took its name while it was opened; try again"));
    }
    if is_exclusive {
        let is_read_only = opening.access == Access::ReadOnly;
        let lock = || if is_read_only { file.try_lock_shared() } else { file.try_lock() };
        match patiently(
            || lock().map_err(io::Error::from),
            |error| error.kind() == io::ErrorKind::WouldBlock,
        ) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(
                    opening.in_use("another program has locked it; name a file that is not in use")
                );
            }
            other => other.map_err(opening.failed("locking it"))?,
        }
    }
    let sector_bytes = alignment(opening, &file)?;
    let capacity_bytes = data.len() - data.len() % u64::from(sector_bytes);
    if capacity_bytes == 0 {
        return Err(opening.wrong(format!(
            "it has {} bytes: not one sector of {sector_bytes}; make a file of the wanted size \
             first",
            data.len()
        )));
    }
    refuse_data(opening, &file, capacity_bytes, sector_bytes, false, progress)?;
    let disk = Described::find(data.dev());
    let (is_polled, note) = polling(opening, disk.as_ref());
    let info = DeviceInfo {
        name: opening.spec.clone(),
        model: disk.map_or_else(String::new, |disk| {
            format!("file on {} {}", disk.name(), disk.model()).trim_end().to_owned()
        }) + note,
        kind: DeviceKind::File,
        limits: Limits {
            capacity_bytes,
            sector_bytes,
            most_bytes: opening.most_bytes.max(sector_bytes),
        },
        queue_depth: opening.queue_depth,
        is_read_only: opening.access == Access::ReadOnly,
        has_trim: true,
        zeroing_bytes: punches_holes(&file, data.len()).then_some(sector_bytes),
        is_virtual: false,
        holds_data: opening.holds_data,
    };
    let hints = Hints::new(0);
    Ok(Opened { info, file, claim: None, is_loop: false, is_polled, hints })
}

/// Returns true if its file system punches holes, which read as zeros: tried behind its end, where
/// nothing is.
fn punches_holes(file: &File, length: u64) -> bool {
    control::punch_hole(file, length.next_multiple_of(1 << 16), 1 << 16).is_ok()
}

/// Bytes that requests must be multiples of.
fn alignment(opening: &Opening, file: &File) -> Result<u32, DeviceError> {
    let system = rustix::fs::fstatfs(file)
        .map_err(|error| opening.failed("asking for its file system")(error.into()))?;
    if IN_MEMORY.contains(&(system.f_type as u64)) {
        return Err(opening.wrong(NO_DIRECT));
    }
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match told {
        Ok(Statx { stx_mask, stx_dio_offset_align, .. })
            if stx_mask & StatxFlags::DIOALIGN.bits() != 0 =>
        {
            if stx_dio_offset_align == 0 {
                Err(opening.wrong(NO_DIRECT))
            } else {
                Ok(stx_dio_offset_align.max(512))
            }
        }
        // An older kernel does not tell: what a page takes is right everywhere.
        _ => Ok(4096),
    }
}

/// Makes a file of so many bytes, all of them written with data that cannot be compressed, so that
/// reads come from the device: holes and parts that were only reserved would be answered by the
/// file system. The progress counts bytes.
///
/// # Errors
/// [`DeviceError::Refused`] if there is such a file, [`DeviceError::Spec`] if the size is not of
/// whole 4096 bytes, [`DeviceError::Open`] for lack of space and other failures,
/// [`DeviceError::Cancelled`]. The unfinished file is removed.
pub fn create_file(path: &Path, bytes: u64, progress: &Progress) -> Result<(), DeviceError> {
    let opening = Opening::new(&path.to_string_lossy(), Access::Write);
    let file = make(&opening, path, bytes)?;
    let filled = alignment(&opening, &file).and_then(|_| fill(&opening, &file, bytes, progress));
    if filled.is_err() {
        // What went wrong is told; that an unfinished file could not be removed either would only
        // hide it.
        let _ = fs::remove_file(path);
    }
    filled
}

/// Makes an empty file that is to have this size.
fn make(opening: &Opening, path: &Path, bytes: u64) -> Result<File, DeviceError> {
    if bytes == 0 || !bytes.is_multiple_of(4096) {
        return Err(
            opening.wrong(format!("a size of {bytes} bytes is not a multiple of 4096 above 0"))
        );
    }
    // What databases write there is nobody else's to read.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(opening.refused(
            "there is such a file already: leave its size out to take it as it is, or name \
                 another",
        )),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // It was made all the same, and is empty.
            let _ = fs::remove_file(path);
            Err(opening.wrong(NO_DIRECT))
        }
        other => other.map_err(opening.failed("making it")),
    }
}

/// Makes a file of this size with room for all of it, so that no write to it can fail for lack of
/// space. It reads as zeros.
///
/// # Errors
/// As [`create_file`]; also where the file system cannot reserve space.
pub fn allocate_file(path: &Path, bytes: u64) -> Result<(), DeviceError> {
    let opening = Opening::new(&path.to_string_lossy(), Access::Write);
    let file = make(&opening, path, bytes)?;
    let reserved = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
        .map_err(|error| opening.failed("getting space for it")(error.into()))
        .and_then(|()| file.sync_all().map_err(opening.failed("making it durable")));
    if reserved.is_err() {
        let _ = fs::remove_file(path);
    }
    reserved
}

/// Makes a file larger, with room for all of it and zeros behind what it holds, or cuts off its
/// end. Durable when it returns.
///
/// # Errors
/// [`DeviceError::InUse`] if somebody uses it, [`DeviceError::Spec`] if the size is not of whole
/// 4096 bytes, [`DeviceError::Open`] for lack of space and other failures: it has its old size
/// then.
pub fn resize_file(path: &Path, bytes: u64) -> Result<(), DeviceError> {
    let opening = Opening::new(&path.to_string_lossy(), Access::DestroyData);
    if bytes == 0 || !bytes.is_multiple_of(4096) {
        return Err(
            opening.wrong(format!("a size of {bytes} bytes is not a multiple of 4096 above 0"))
        );
    }
    let file = OpenOptions::new().write(true).open(path).map_err(opening.failed("opening it"))?;
    let data = file.metadata().map_err(opening.failed("asking what it is"))?;
    if let Some(user) = in_use::file_user(&data) {
        return Err(opening.in_use(format!("{user}; name a file that is not in use")));
    }
    let lock = || file.try_lock().map_err(io::Error::from);
    if patiently(lock, |error| error.kind() == io::ErrorKind::WouldBlock).is_err() {
        return Err(opening.in_use("another program has locked it; name a file that is not in use"));
    }
    let resized = if bytes > data.len() {
        // What lies behind its end, if anything was reserved there, is zero.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), data.len(), bytes - data.len())
            .map_err(|error| opening.failed("getting space for it")(error.into()))
    } else {
        file.set_len(bytes).map_err(opening.failed("cutting off its end"))
    };
    if resized.is_err() {
        // As much as it had before is there in any case.
        let _ = file.set_len(data.len());
    }
    resized.and_then(|()| file.sync_all().map_err(opening.failed("making it durable")))
}

fn fill(
    opening: &Opening,
    file: &File,
    bytes: u64,
    progress: &Progress,
) -> Result<(), DeviceError> {
    const CHUNK: u64 = 1 << 20;
    progress.set_total(bytes);
    // So that a lack of space is told at once. A file system that cannot reserve tells of it later.
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => {}
        Err(error) => return Err(opening.failed("getting space for it")(error.into())),
    }
    let failed = |action| opening.failed(action);
    let mut chunk = MmapMut::map_anon(CHUNK as usize).map_err(failed("getting memory"))?;
    let seed = file.metadata().map_or(0, |data| data.ino() ^ (data.ctime_nsec() as u64) << 32);
    let mut content = Content::new(seed);
    for offset in (0..bytes).step_by(CHUNK as usize) {
        let part = &mut chunk[..CHUNK.min(bytes - offset) as usize];
        content.fill(part);
        content.stamp(part);
        file.write_all_at(part, offset).map_err(failed("filling it"))?;
        progress.advance(part.len() as u64)?;
    }
    file.sync_all().map_err(failed("filling it"))
}
