//! Calls of the kernel on a block device, besides reads and writes.

#![allow(unsafe_code, reason = "ioctls that no library has")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use block::Extent;
use rustix::fs::FallocateFlags;
use units::Lifetime;

/// From `linux/fs.h`; `libc` does not have all of them on all systems.
const BLKROGET: libc::Ioctl = 0x125e;
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272;
const BLKDISCARD: libc::Ioctl = 0x1277;
/// From `linux/loop.h`.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64`: 232 bytes, of which only the flags at byte 52 are looked at.
#[repr(C, align(8))]
struct LoopInfo([u8; 232]);
const LOOP_FLAGS_AT: usize = 52;

fn asked(file: &File, request: libc::Ioctl, answer: *mut libc::c_void) -> io::Result<()> {
    // SAFETY: each caller gives memory of the size and kind that its request writes or reads.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request, answer) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes of a block device.
pub(crate) fn capacity_bytes(file: &File) -> io::Result<u64> {
    let mut bytes = 0_u64;
    asked(file, BLKGETSIZE64, (&raw mut bytes).cast())?;
    Ok(bytes)
}

/// Returns true if the kernel refuses all writes to a block device.
pub(crate) fn is_read_only(file: &File) -> io::Result<bool> {
    let mut answer: libc::c_int = 0;
    asked(file, BLKROGET, (&raw mut answer).cast())?;
    Ok(answer != 0)
}

/// Tells a block device that a range is no longer needed, and waits for it.
pub(crate) fn discard(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let mut range = [offset, length];
    asked(file, BLKDISCARD, range.as_mut_ptr().cast())
}

/// Gives a range of a file back to its file system, and waits for it.
pub(crate) fn punch_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, offset, length)?)
}

/// Gives the extent, data or hole, with which a range of a file begins. Where the file system does
/// not tell, it is data.
pub(crate) fn extent(file: &File, offset: u64, length: u64) -> Extent {
    use rustix::fs::{SeekFrom, seek};
    let end = offset + length;
    let within = |at: u64| at.clamp(offset, end) - offset;
    let (length, is_hole) = match seek(file, SeekFrom::Data(offset)) {
        // Nothing but a hole up to its end.
        Err(rustix::io::Errno::NXIO) => (length, true),
        Err(_) => (length, false),
        Ok(data) if data > offset => (within(data), true),
        Ok(_) => (seek(file, SeekFrom::Hole(offset)).map_or(length, within), false),
    };
    Extent { length, is_hole }
}

/// `F_SET_RW_HINT` and `F_GET_RW_HINT` of `linux/fcntl.h`.
const SET_LIFETIME: libc::c_int = 1024 + 12;
#[cfg(test)]
const GET_LIFETIME: libc::c_int = 1024 + 11;

/// Tells the kernel how long what is written to a file or block device from now on is expected to
/// live. The hint belongs to the file, not to the descriptor.
pub(crate) fn expect_lifetime(file: &File, lifetime: Lifetime) -> io::Result<()> {
    let hint = rw_hint(lifetime);
    // SAFETY: the kernel reads a number of 64 bits.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), SET_LIFETIME, &raw const hint) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `RWH_WRITE_LIFE_...`: 0 where nobody says; 1, which none says on purpose, is left out.
pub(crate) const fn rw_hint(lifetime: Lifetime) -> u64 {
    match lifetime {
        Lifetime::NotSet => 0,
        Lifetime::Short => 2,
        Lifetime::Medium => 3,
        Lifetime::Long => 4,
        Lifetime::Extreme => 5,
    }
}

/// Reads the lifetime that the kernel was told last.
#[cfg(test)]
pub(crate) fn expected_lifetime(file: &File) -> io::Result<u64> {
    let mut hint = u64::MAX;
    // SAFETY: the kernel writes a number of 64 bits.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), GET_LIFETIME, &raw mut hint) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(hint) }
}

/// Returns true if a loop device goes as soon as its last user has closed it; false for other
/// devices. It is set when somebody detaches one in use.
pub(crate) fn is_being_detached(file: &File) -> bool {
    let mut info = LoopInfo([0; 232]);
    if asked(file, LOOP_GET_STATUS64, info.0.as_mut_ptr().cast()).is_err() {
        return false;
    }
    let flags = info.0[LOOP_FLAGS_AT..LOOP_FLAGS_AT + 4].try_into().map_or(0, u32::from_ne_bytes);
    flags & LO_FLAGS_AUTOCLEAR != 0
}
