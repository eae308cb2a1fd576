//! The interface of block devices: they take commands and complete them on a clock of their own.

use std::sync::Arc;

use thiserror::Error;
use units::{IoOp, Nanos};

use crate::{Command, Failure, Limits, Reply, SharedBytes, Signal, Telemetry};

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A block device of the kernel.
    BlockDevice,
    /// A regular file.
    File,
    /// Memory of this process.
    Memory,
    /// A simulated drive, in virtual time.
    Simulated,
}

impl DeviceKind {
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

/// Properties of a device, known before the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The device's name as the user gave it.
    pub name: String,
    /// The model that the device reports: vendor and model, or the profile; empty if none.
    pub model: String,
    /// The kind of device.
    pub kind: DeviceKind,
    /// Limits of its commands.
    pub limits: Limits,
    /// Most commands that may be outstanding at once.
    pub queue_depth: u32,
    /// True if writes and trims fail.
    pub is_read_only: bool,
    /// True if trims are carried out; otherwise they fail.
    pub has_trim: bool,
    /// A trim of a multiple of these bytes is a write of zeros: reads see it from its reply on, and
    /// the next flush makes it durable. `None` where a trim promises no more than the contract.
    pub zeroing_bytes: Option<u32>,
    /// True if time is virtual: it does not pass by itself, and waiting takes no real time.
    pub is_virtual: bool,
    /// True if writes carry their bytes and reads return them.
    pub holds_data: bool,
}

impl DeviceInfo {
    /// Gives the reason for which the device refuses a command, if it does.
    ///
    /// # Panics
    /// As [`Command::check`]; or if a write brings no bytes to a device that holds them.
    #[inline]
    #[must_use]
    pub fn refuses(&self, command: &Command) -> Option<Failure> {
        command.check(self.limits);
        assert!(
            !self.holds_data || command.op != IoOp::Write || !command.data.is_absent(),
            "a write to {}, which holds data, carries its bytes",
            self.name
        );
        let reason = match command.op {
            IoOp::Write | IoOp::Trim if self.is_read_only => "it was opened for reading only",
            IoOp::Trim if !self.has_trim => "the device has no trim",
            _ => return None,
        };
        Some(command.failed(reason))
    }
}

/// Bytes from an offset on that are all data or all a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of bytes, at least 1.
    pub length: u64,
    /// True if they read as zeros and take no space below. Other bytes may be zeros, too.
    pub is_hole: bool,
}

/// The end of a command, with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The reply to the command.
    pub reply: Reply,
    /// Time of submission, in nanoseconds on the device's clock.
    pub submitted_at: Nanos,
    /// Time at which it was found completed, in nanoseconds on the device's clock.
    pub completed_at: Nanos,
}

/// Errors of a device as a whole or of one of its commands.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// A command failed.
    #[error("device `{name}`: {failure}")]
    Failed {
        /// The device.
        name: String,
        /// The command and the reason.
        failure: Failure,
    },
    /// The device as a whole has failed: outstanding commands get no reply.
    #[error("device `{name}`: {reason}")]
    Gone {
        /// The device.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// Wakes the thread that waits for a device; any thread may call it.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A device or layer that takes commands and replies to them on a clock of its own, by the
/// [contract](crate).
pub trait BlockDevice: Send {
    /// The device's properties.
    fn info(&self) -> &DeviceInfo;

    /// Nanoseconds since the device was opened.
    fn now(&mut self) -> Nanos;

    /// Commands submitted and not yet completed.
    fn outstanding(&self) -> u32;

    /// Takes a command. Its outcome, whatever it is, comes as a completion. A device may hold a
    /// single command back until the next call of `wait` or `submit`, so call `wait` after
    /// submitting.
    ///
    /// # Panics
    /// As [`DeviceInfo::refuses`], or if more are outstanding than allowed.
    fn submit(&mut self, command: Command);

    /// Waits until a command completes or the clock reaches `until` (`Nanos::MAX`: for ever), and
    /// appends all completed commands to `completed`. If nothing is outstanding it returns at
    /// `until`.
    ///
    /// # Errors
    /// [`BlockError::Gone`]. Commands that completed before are in `completed`.
    ///
    /// # Panics
    /// If nothing is outstanding and `until` is `Nanos::MAX`.
    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError>;

    /// Counters since the device was opened: empty unless it is simulated or has layers. Reading
    /// them visits every erase block: ask seldom.
    fn telemetry(&self) -> Telemetry {
        Telemetry::default()
    }

    /// Tells whether the range begins with data or with a hole, and how far that goes: at least one
    /// byte. Commands under way may or may not be included.
    fn extent(&mut self, offset: u64, length: u64) -> Extent {
        let _ = offset;
        Extent { length, is_hole: false }
    }

    /// Sends a message besides commands. Only layers take notice.
    fn signal(&mut self, signal: Signal) {
        let _ = signal;
    }

    /// Gives a function that makes the current [`BlockDevice::wait`], or else the next one, return
    /// early, though nothing may be completed. `None` if waits cannot be interrupted.
    fn waker(&mut self) -> Option<Waker> {
        None
    }

    /// Gives direct access to the device's bytes from any thread, without commands. `None` where
    /// commands have an order or a time of their own.
    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        None
    }
}

/// Forwards all calls to the device behind a pointer.
macro_rules! pass_on {
    ($($pointer:ty),+) => {$(
        impl<D: BlockDevice + ?Sized> BlockDevice for $pointer {
            fn info(&self) -> &DeviceInfo {
                (**self).info()
            }

            fn now(&mut self) -> Nanos {
                (**self).now()
            }

            fn outstanding(&self) -> u32 {
                (**self).outstanding()
            }

            fn submit(&mut self, command: Command) {
                (**self).submit(command);
            }

            fn wait(
                &mut self,
                until: Nanos,
                completed: &mut Vec<Completion>,
            ) -> Result<(), BlockError> {
                (**self).wait(until, completed)
            }

            fn telemetry(&self) -> Telemetry {
                (**self).telemetry()
            }

            fn extent(&mut self, offset: u64, length: u64) -> Extent {
                (**self).extent(offset, length)
            }

            fn signal(&mut self, signal: Signal) {
                (**self).signal(signal);
            }

            fn waker(&mut self) -> Option<Waker> {
                (**self).waker()
            }

            fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
                (**self).shared()
            }
        }
    )+};
}

pass_on!(&mut D, Box<D>);
