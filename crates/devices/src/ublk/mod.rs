//! Block devices of the kernel whose requests come to this process (ublk, Linux 6.0 or newer with
//! `CONFIG_BLK_DEV_UBLK`): made, served and taken away, by the kernel's own interface
//! (`linux/ublk_cmd.h`) over io_uring.
//!
//! The library `libublk` does the same. It is not used because its build runs bindgen, which needs
//! libclang on every machine that builds this, and an executor of futures for what is one loop
//! here (so do 0.3.0, 0.3.3 and 0.4.8).
//!
//! None of it was run on the machine that it was developed on, whose kernel has no ublk. So what
//! can be told without a kernel is apart (`abi.rs`), and tested.

mod abi;
mod control;
mod queue;

use std::io;
use std::path::PathBuf;

pub use abi::{Attributes, Descriptor, FUA, NO_UNMAP, Op, SECTOR};
pub use queue::Queue;

use abi::{Added, Numbering};
use control::Control;

/// Checks that the kernel has ublk, and that we may use it.
///
/// # Errors
/// One line that says what is missing.
pub fn check() -> io::Result<()> {
    Control::open().map(|_| ())
}

/// A device that was made. It has to be [removed](Device::remove), or it stays.
pub struct Device {
    control: Control,
    added: Added,
}

impl Device {
    /// Makes a device of these attributes with room for `depth` requests at a time, 1 ... 4096.
    /// It shows no disk before it is [started](Device::start).
    ///
    /// # Errors
    /// One line that says what is missing, or what the kernel refused.
    pub fn add(attributes: &Attributes, depth: u16) -> io::Result<Self> {
        let mut control = Control::open()?;
        let added = control
            .add(depth, attributes.most_bytes)
            .map_err(|error| failed("making a block device with ublk", &error))?;
        let mut device = Self { control, added };
        match device.control.set(added.number, attributes) {
            Ok(()) => Ok(device),
            Err(error) => {
                // The first error is the one to tell.
                let _ = device.control.delete(added.number);
                Err(failed("telling ublk what the block device is", &error))
            }
        }
    }

    /// Number of the device.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.added.number
    }

    /// Gives the path of the disk, once it is started.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.added.number))
    }

    /// Gives a function that opens its queue, for the thread that is going to serve it.
    pub fn opener(&self) -> impl FnOnce() -> io::Result<Queue> + Send + use<> {
        let (added, numbering): (Added, Numbering) = (self.added, self.control.numbering());
        move || Queue::open(added, numbering)
    }

    /// Shows the disk: the kernel looks for partitions on it at once, so its queue has to be open
    /// and served.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn start(&mut self) -> io::Result<()> {
        let started = self.control.start(self.added.number);
        started.map_err(|error| failed("starting the block device", &error))
    }

    /// Takes the disk away, after what was written to it reached the queue; the queue is over then.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn stop(&mut self) -> io::Result<()> {
        let stopped = self.control.stop(self.added.number);
        stopped.map_err(|error| failed("stopping the block device", &error))
    }

    /// Takes the device away. It waits until its queue is closed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn remove(mut self) -> io::Result<()> {
        let removed = self.control.delete(self.added.number);
        removed.map_err(|error| failed("taking the block device away", &error))
    }
}

/// Removes the device of this number if the process `server` made it and is gone. Returns true if
/// there was one.
///
/// # Errors
/// The error of the kernel.
pub fn remove_left(number: u32, server: i32) -> io::Result<bool> {
    let mut control = Control::open()?;
    match control.info(number) {
        Ok(added) if is_left_by(added, server) => {}
        Ok(_) => return Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(false),
        Err(error) => return Err(failed("asking ublk for a device", &error)),
    }
    // It is stopped already if the kernel has seen the server's end.
    let _ = control.stop(number);
    control.delete(number).map_err(|error| failed("taking a block device away", &error))?;
    Ok(true)
}

/// A number is given again when its device is gone: another server's is left alone. The kernel
/// forgets the process of a server that has ended.
const fn is_left_by(added: Added, server: i32) -> bool {
    added.server == server || added.server <= 0
}

fn failed(action: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{action}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_server_left_is_taken_away() {
        let added = |server| Added { number: 3, depth: 1, most_bytes: 4096, server };
        assert!(is_left_by(added(77), 77));
        assert!(is_left_by(added(-1), 77) && is_left_by(added(0), 77));
        assert!(!is_left_by(added(78), 77), "another server has the number now");
    }

    #[test]
    fn without_ublk_nothing_is_made_and_one_line_says_why() {
        if std::path::Path::new("/dev/ublk-control").exists() {
            return;
        }
        let attributes = Attributes {
            capacity_bytes: 1 << 20,
            sector_bytes: 512,
            most_bytes: 1 << 16,
            is_read_only: false,
            discard_bytes: None,
        };
        let told = Device::add(&attributes, 8).err().map(|error| error.to_string());
        assert_eq!(told, check().err().map(|error| error.to_string()));
        assert!(told.is_some_and(|told| told.starts_with("/dev/ublk-control is not there: ")));
    }
}
