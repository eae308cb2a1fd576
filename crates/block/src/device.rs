//! What takes commands, on a clock of its own.

use std::sync::Arc;

use thiserror::Error;
use units::{IoOp, Nanos};

use crate::{Command, Failure, Limits, Reply, SharedBytes, Signal, Telemetry};

/// What kind of device it is.
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

/// What is known of a device before the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// How the user named it.
    pub name: String,
    /// What it says of itself: vendor and model, or the profile; empty if nothing.
    pub model: String,
    /// What it is.
    pub kind: DeviceKind,
    /// What may be asked of it.
    pub limits: Limits,
    /// Most commands that may be outstanding.
    pub queue_depth: u32,
    /// Writes and trims fail.
    pub is_read_only: bool,
    /// Trims are carried out; otherwise they fail.
    pub has_trim: bool,
    /// Time does not pass by itself, and waiting costs none.
    pub is_virtual: bool,
    /// Writes carry their bytes, and reads bring them.
    pub holds_data: bool,
}

impl DeviceInfo {
    /// Why it does not do what a command asks for, if it does not.
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

/// The end of a command, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What became of it.
    pub reply: Reply,
    /// When it was submitted, in nanoseconds on the device's clock.
    pub submitted_at: Nanos,
    /// When it was found completed, in nanoseconds on the device's clock.
    pub completed_at: Nanos,
}

/// Why a device is of no use any more, or does not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// A command failed.
    #[error("device `{name}`: {failure}")]
    Failed {
        /// The device.
        name: String,
        /// Which command, and why.
        failure: Failure,
    },
    /// The device as a whole cannot be used any more: nothing that is outstanding is replied to.
    #[error("device `{name}`: {reason}")]
    Gone {
        /// The device.
        name: String,
        /// What happened.
        reason: String,
    },
}

/// Wakes the thread that waits for a device, from any other.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Whoever takes commands and replies to them, on a clock of its own, by the [contract](crate).
pub trait BlockDevice: Send {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Nanoseconds since it was opened.
    fn now(&mut self) -> Nanos;

    /// Commands submitted and not yet completed.
    fn outstanding(&self) -> u32;

    /// Takes a command. Whatever becomes of it, a completion says so. One that is alone may be sent
    /// only by the next call of `wait` or `submit`: whoever submits one waits, too.
    ///
    /// # Panics
    /// As [`DeviceInfo::refuses`], or if more are outstanding than allowed.
    fn submit(&mut self, command: Command);

    /// Waits until a command is completed or the clock reaches `until` (`Nanos::MAX`: for ever),
    /// and puts all that are completed into `completed`. If nothing is outstanding it returns at
    /// `until`.
    ///
    /// # Errors
    /// [`BlockError::Gone`]. What was completed before is in `completed`.
    ///
    /// # Panics
    /// If nothing is outstanding and `until` is `Nanos::MAX`.
    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError>;

    /// What it can tell of itself since it was opened: nothing unless it is simulated, or has
    /// layers. It looks at every erase block: ask seldom.
    fn telemetry(&self) -> Telemetry {
        Telemetry::default()
    }

    /// Told beside commands. Only layers take notice.
    fn signal(&mut self, signal: Signal) {
        let _ = signal;
    }

    /// What makes a [`BlockDevice::wait`] that is under way, or else the next one, return early,
    /// though nothing may be completed. `None` where nothing does.
    fn waker(&mut self) -> Option<Waker> {
        None
    }

    /// Its bytes for any thread, without a way through the one that has the device. `None` where
    /// commands have an order or a time of their own.
    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        None
    }
}

/// Passes all on to another.
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
