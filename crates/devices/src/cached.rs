//! A block device or file through the page cache, for any number of threads at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{DeviceInfo, DeviceKind, Failure, SharedBytes};
use rustix::io::{ReadWriteFlags, pwritev2};
use units::{IoOp, Nanos};

use crate::clock::Clock;
use crate::control;
use crate::health::Health;

/// Interval between checks that the device is still there. A file that was truncated would grow
/// again when it is written.
const CHECK_EVERY: Nanos = 10_000_000;

/// A device or file behind the kernel's page cache, which is written back by the kernel or at a
/// flush.
pub(crate) struct Cached {
    file: File,
    info: DeviceInfo,
    health: Health,
    clock: Clock,
    next_check: AtomicU64,
    /// Writing back failed: the kernel reports it once, and takes the pages for written.
    poisoned: OnceLock<Failure>,
}

impl Cached {
    /// The same device as a file that is open past the page cache.
    pub fn beside(direct: &File, info: &DeviceInfo, health: Health) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", direct.as_raw_fd());
        let file = OpenOptions::new().read(true).write(!info.is_read_only).open(path)?;
        Ok(Self {
            file,
            info: info.clone(),
            health,
            clock: Clock::start(),
            next_check: AtomicU64::new(CHECK_EVERY),
            poisoned: OnceLock::new(),
        })
    }

    fn failed(&self, op: IoOp, offset: u64, length: usize, error: &io::Error) -> Failure {
        let length = length.min(u32::MAX as usize) as u32;
        let result = match error.kind() {
            ErrorKind::UnexpectedEof => 0,
            _ => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        let reason = self.health.reason(&self.file, op, length, result);
        Failure::Io { op, offset, length, reason: reason.into() }
    }

    fn poison(&self, failure: &Failure) -> Failure {
        let cause = failure.to_string().into();
        self.poisoned.get_or_init(|| Failure::Poisoned { layer: "page cache", cause }).clone()
    }

    /// Refuses what changes something, if that is of no use any more.
    fn check(&self, op: IoOp, offset: u64, length: usize) -> Result<(), Failure> {
        if let Some(poisoned) = self.poisoned.get() {
            return Err(poisoned.clone());
        }
        let refused = |reason: String| {
            let length = length.min(u32::MAX as usize) as u32;
            Err(Failure::Io { op, offset, length, reason: reason.into() })
        };
        if self.info.is_read_only && op != IoOp::Flush {
            return refused("it was opened for reading only".to_owned());
        }
        let now = self.clock.now();
        if op == IoOp::Flush || now >= self.next_check.load(Ordering::Relaxed) {
            if let Some(illness) = self.health.illness(&self.file) {
                return refused(illness);
            }
            self.next_check.store(now + CHECK_EVERY, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_through(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let pieces = [IoSlice::new(bytes)];
            match pwritev2(&self.file, &pieces, offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => (offset, bytes) = (offset + written as u64, &bytes[written..]),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl SharedBytes for Cached {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        let done = self.file.read_exact_at(bytes, offset);
        done.map_err(|error| self.failed(IoOp::Read, offset, bytes.len(), &error))
    }

    fn write(&self, offset: u64, bytes: &[u8], is_fua: bool) -> Result<(), Failure> {
        self.check(IoOp::Write, offset, bytes.len())?;
        if !is_fua {
            let done = self.file.write_all_at(bytes, offset);
            return done.map_err(|error| self.failed(IoOp::Write, offset, bytes.len(), &error));
        }
        self.write_through(offset, bytes).map_err(|error| {
            // It may be the failure of another write, which no flush would report any more.
            self.poison(&self.failed(IoOp::Write, offset, bytes.len(), &error))
        })
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.check(IoOp::Trim, offset, length as usize)?;
        if !self.info.has_trim {
            return Ok(());
        }
        let sector = u64::from(self.info.limits.sector_bytes);
        let (first, end) = (offset.next_multiple_of(sector), (offset + length) / sector * sector);
        if first >= end {
            return Ok(());
        }
        let is_block = self.info.kind == DeviceKind::BlockDevice;
        let done = if is_block && self.info.zeroing_bytes.is_none() {
            control::discard(&self.file, first, end - first)
        } else {
            control::punch_hole(&self.file, first, end - first)
        };
        done.map_err(|error| self.failed(IoOp::Trim, offset, length as usize, &error))
    }

    fn flush(&self) -> Result<(), Failure> {
        self.check(IoOp::Flush, 0, 0)?;
        self.file.sync_data().map_err(|error| self.poison(&self.failed(IoOp::Flush, 0, 0, &error)))
    }
}
