//! Block devices behind one trait: a real one, a file, memory, a simulated drive. Whoever uses a
//! [`BlockDevice`] cannot tell which it is, but for what [`DeviceInfo`] says.
//!
//! [`open`] takes a spec, as on the command line: `/dev/sdb`, `/mnt/x/file`, `memory(bytes=1Gi)`. A
//! simulated drive is made of a profile instead ([`Simulated::new`]).
//!
//! ```no_run
//! use devices::{Access, Opening, Request, open};
//! use units::{IoOp, Nanos};
//!
//! let mut device = open(&Opening::new("/dev/sdb", Access::ReadOnly))?;
//! let mut completed = Vec::new();
//! device.submit(&Request { op: IoOp::Read, offset: 0, length: 4096, is_fua: false, handle: 1 })?;
//! device.wait(Nanos::MAX, &mut completed)?;
//! println!("{} ns", completed[0].completed_at - completed[0].submitted_at);
//! # Ok::<(), devices::DeviceError>(())
//! ```
//!
//! # Real devices
//! They need Linux 5.11 or newer. Block devices and files go through io_uring past the page cache,
//! with registered buffers and files (`real.rs`, `ring.rs`, `buffers.rs`); data written is random
//! and never the same twice (`content.rs`). What a file system or a driver cannot do is refused
//! when it is opened, or told in the model, as a measurement of something else would be worthless.
//!
//! **Nothing is lost by accident** ([`open`]): devices in use are never written, and what holds
//! data only with [`Access::DestroyData`]. What this program wrote is known again, and is in
//! nobody's way.
//!
//! **A device that goes** in the middle of a run is one error with the device, the request and the
//! reason, and never a wait without end: every hundredth of a second (every second while it
//! completes nothing) it is looked whether the device is still as large as it was, a loop device
//! still attached, a file not truncated (`health.rs`). Detaching a loop device in use only takes
//! effect in the kernel when its user lets go of it: the user of this crate is told at once.

mod buffers;
mod clock;
mod content;
mod control;
mod error;
mod health;
mod memory;
mod open;
mod part;
mod real;
mod ring;
mod simulated;
mod stacked;

use units::{IoOp, Nanos};

pub use error::DeviceError;
pub use layers::Signal;
pub use memory::Memory;
pub use open::{Access, Opening, create_file, open, open_watched};
pub use part::Part;
pub use simulated::{Simulated, SimulatedSettings};
pub use stacked::{Busy, Sample, Sent, Stacked, limits};

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block device of the kernel.
    BlockDevice,
    /// A regular file.
    File,
    /// Memory of this process.
    Memory,
    /// A simulated drive, in virtual time.
    Simulated,
}

impl Kind {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockDevice => "block_device",
            Self::File => "file",
            Self::Memory => "memory",
            Self::Simulated => "simulated",
        }
    }
}

/// What is known of a device before the first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// How the user named it.
    pub name: String,
    /// What it says of itself: vendor and model, or the profile; empty if nothing.
    pub model: String,
    /// What it is.
    pub kind: Kind,
    /// Bytes that can be addressed: whole sectors.
    pub capacity_bytes: u64,
    /// Bytes of a sector: offsets and lengths are multiples of it.
    pub sector_bytes: u32,
    /// Most requests that may be outstanding.
    pub queue_depth: u32,
    /// Longest request, in bytes.
    pub most_bytes: u32,
    /// Writes and trims are refused.
    pub is_read_only: bool,
    /// Trims are carried out.
    pub has_trim: bool,
    /// Time does not pass by itself, and waiting costs none.
    pub is_virtual: bool,
}

impl DeviceInfo {
    /// Refuses what the device cannot do.
    ///
    /// # Errors
    /// [`DeviceError::Request`] for a write to a device that is only read, or a trim to one that
    /// has none.
    ///
    /// # Panics
    /// As [`BlockDevice::submit`].
    pub(crate) fn check(&self, request: &Request) -> Result<(), DeviceError> {
        let Request { op, offset, length, .. } = *request;
        let sector = u64::from(self.sector_bytes);
        assert!(
            offset.is_multiple_of(sector)
                && u64::from(length).is_multiple_of(sector)
                && (length > 0) == (op != IoOp::Flush),
            "a {} at byte {offset} of {length} bytes is not of whole sectors of {sector}",
            op.name()
        );
        assert!(
            offset + u64::from(length) <= self.capacity_bytes
                && (length <= self.most_bytes || op == IoOp::Trim),
            "a {} at byte {offset} of {length} bytes is longer than {} or not within the device's \
             {} bytes",
            op.name(),
            self.most_bytes,
            self.capacity_bytes
        );
        if self.is_read_only && matches!(op, IoOp::Write | IoOp::Trim) {
            return Err(self.failed(request, "it was opened for reading only".to_owned()));
        }
        if op == IoOp::Trim && !self.has_trim {
            return Err(self.failed(request, "the device has no trim".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn failed(&self, request: &Request, reason: String) -> DeviceError {
        let Request { op, offset, length, .. } = *request;
        DeviceError::Request { name: self.name.clone(), op, offset, length, reason }
    }
}

/// A request to a device. What is written is of no compressible content and of no meaning; what is
/// read is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub op: IoOp,
    /// First byte: a multiple of the sector's.
    pub offset: u64,
    /// Bytes: a multiple of the sector's, at least one; 0 for a flush.
    pub length: u32,
    /// A write is done only when it is durable (FUA). Devices without it write and flush.
    pub is_fua: bool,
    /// Given back with the completion.
    pub handle: u32,
}

/// A request that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// That of the request.
    pub handle: u32,
    /// When it was submitted, in nanoseconds on the device's clock.
    pub submitted_at: Nanos,
    /// When it was found completed, in nanoseconds on the device's clock.
    pub completed_at: Nanos,
}

/// What the flash of a device did since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashWork {
    /// Bytes of a flash page.
    pub page_bytes: u32,
    /// Pages read, for the host and for the drive itself.
    pub page_reads: u64,
    /// Pages programmed, for the host and for the drive itself.
    pub page_programs: u64,
    /// Erase blocks erased.
    pub erases: u64,
}

/// A device that takes requests and tells of their ends, on a clock of its own.
pub trait BlockDevice: Send {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Nanoseconds since it was opened.
    fn now(&mut self) -> Nanos;

    /// Requests submitted and not yet completed.
    fn outstanding(&self) -> u32;

    /// Takes a request. One that is alone may be sent only by the next call of `wait` or `submit`:
    /// whoever submits one waits, too.
    ///
    /// # Errors
    /// [`DeviceError`] if it cannot be sent: it is not outstanding then, unless the device as a
    /// whole is [`DeviceError::Gone`].
    ///
    /// # Panics
    /// If it is not of whole sectors, lies outside the device, is longer than allowed, or more are
    /// outstanding than allowed.
    fn submit(&mut self, request: &Request) -> Result<(), DeviceError>;

    /// Waits until a request is completed or the clock reaches `until` (`Nanos::MAX`: for ever),
    /// and puts all that are completed into `completed`. If nothing is outstanding it returns at
    /// `until`.
    ///
    /// # Errors
    /// [`DeviceError`] of the first request that failed, or of the device as a whole. Those that
    /// succeeded with it are in `completed`.
    ///
    /// # Panics
    /// If nothing is outstanding and `until` is `Nanos::MAX`.
    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), DeviceError>;

    /// What its flash did since it was opened; `None` where nobody can tell.
    fn flash_work(&self) -> Option<FlashWork> {
        None
    }

    /// Told beside requests: a checkpoint of the database began or ended. Only layers ([`Stacked`])
    /// take notice.
    ///
    /// # Errors
    /// [`DeviceError`] of what the layers do then.
    fn signal(&mut self, signal: Signal) -> Result<(), DeviceError> {
        let _ = signal;
        Ok(())
    }
}
