//! Says how a device is opened, and what may be done to it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::DeviceError;

/// Access to a device.
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

/// Settings with which a device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The path of a block device, of a namespace of an NVMe drive by its character device
    /// (`/dev/ng0n1`), or of a regular file, or `memory(bytes=1Gi,sector=512)`. A file by
    /// the name of `memory` is `./memory`.
    pub spec: String,
    /// Access that is asked for.
    pub access: Access,
    /// Nobody else may use it, though it is only read. A device that may be written is never in
    /// use.
    pub alone: bool,
    /// Most requests outstanding, 1 ... 4096.
    pub queue_depth: u32,
    /// Longest request in bytes, up to 64 MiB: whole sectors.
    pub most_bytes: u32,
    /// True to poll for completions instead of taking interrupts, where the kernel allows it for
    /// the device. Where not, the device's model says so.
    pub polled: bool,
    /// The bytes that are going to be written, if it is not all of the device: only there data is
    /// in the way. The device does not keep to it by itself.
    pub region: Option<Range<u64>>,
    /// True if it holds data ([`::block::DeviceInfo::holds_data`]); false if it is only measured.
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

    /// Returns true if it is refused while somebody else uses it, and held from then on.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.alone || self.access != Access::ReadOnly
    }

    pub(crate) fn wrong(&self, reason: impl Into<String>) -> DeviceError {
        DeviceError::Spec { name: self.spec.clone(), reason: reason.into() }
    }

    pub(crate) fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> DeviceError {
        let name = self.spec.clone();
        move |source| DeviceError::Open { name, action, source }
    }

    pub(crate) fn refused(&self, reason: impl Into<String>) -> DeviceError {
        DeviceError::Refused { name: self.spec.clone(), reason: reason.into() }
    }

    pub(crate) fn in_use(&self, reason: impl Into<String>) -> DeviceError {
        DeviceError::InUse { name: self.spec.clone(), reason: reason.into() }
    }

    /// Opens the path past the page cache.
    pub(crate) fn direct(&self, path: &Path, more_flags: i32) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(self.access != Access::ReadOnly)
            .custom_flags(libc::O_DIRECT | more_flags)
            .open(path)
    }
}
