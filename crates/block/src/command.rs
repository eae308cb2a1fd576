//! Commands to block devices, and their replies.

use std::sync::Arc;

use thiserror::Error;
use units::{IoOp, Lifetime};

use crate::Data;

/// A request to a layer or a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Number that the reply carries, too. Unique among the sender's outstanding commands.
    pub id: u32,
    /// The operation.
    pub op: IoOp,
    /// First byte: a multiple of the sector size.
    pub offset: u64,
    /// Length in bytes: a multiple of the sector size, at least one sector; 0 for a flush.
    pub length: u32,
    /// True if a write is done only when it is durable (FUA).
    pub is_fua: bool,
    /// Expected lifetime of the data of a write.
    pub lifetime: Lifetime,
    /// Data of a write. Absent for all other operations, and where a trace without data is played.
    pub data: Data,
}

impl Command {
    /// A command that carries no bytes, no FUA and no hint.
    #[must_use]
    pub const fn new(id: u32, op: IoOp, offset: u64, length: u32) -> Self {
        let lifetime = Lifetime::NotSet;
        Self { id, op, offset, length, is_fua: false, lifetime, data: Data::Absent }
    }

    /// A write.
    #[must_use]
    pub fn write(id: u32, offset: u64, data: Data) -> Self {
        let length = data.len() as u32;
        Self { data, ..Self::new(id, IoOp::Write, offset, length) }
    }

    /// Makes a failure of this command, for the given reason.
    #[must_use]
    pub fn failed(&self, reason: impl Into<Arc<str>>) -> Failure {
        Failure::Io { op: self.op, offset: self.offset, length: self.length, reason: reason.into() }
    }

    /// Gives the first byte after the command's range.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Checks that the command has whole sectors and keeps to the limits. A violation is a bug of
    /// the sender.
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&self, limits: Limits) {
        let Self { op, offset, length, .. } = *self;
        let sector = u64::from(limits.sector_bytes);
        assert!(
            offset.is_multiple_of(sector)
                && u64::from(length).is_multiple_of(sector)
                && (length > 0) == (op != IoOp::Flush),
            "a {} at byte {offset} of {length} bytes is not of whole sectors of {sector}",
            op.name()
        );
        assert!(
            self.end() <= limits.capacity_bytes
                && (length <= limits.most_bytes || op == IoOp::Trim),
            "a {} at byte {offset} of {length} bytes is longer than {} or not within {} bytes",
            op.name(),
            limits.most_bytes,
            limits.capacity_bytes
        );
        assert!(
            self.data.is_absent() || (op == IoOp::Write && self.data.len() == length as usize),
            "a write carries what it writes"
        );
    }
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The command's number.
    pub id: u32,
    /// Data that was read (absent for all other operations), or the reason of the failure.
    pub outcome: Result<Data, Failure>,
}

/// Failure of a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The device failed the command.
    #[error("{op} of {length} bytes at byte {offset} failed: {reason}", op = op.name())]
    Io {
        /// The operation of the command.
        op: IoOp,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Message of the device or of the system.
        reason: Arc<str>,
    },
    /// Acknowledged data could not be written back. From then on only reads are accepted, and only
    /// those that still return the data that was written.
    #[error(
        "the layer `{layer}` takes no write any more until it is opened again and recovered: \
         {cause}"
    )]
    Poisoned {
        /// The layer that failed.
        layer: &'static str,
        /// The first failure, which led to this.
        cause: Arc<str>,
    },
}

impl Failure {
    /// Gives the message of the device or of the system, without the command.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Io { reason, .. } => reason.to_string(),
            Self::Poisoned { .. } => self.to_string(),
        }
    }

    /// Returns true if the failure loses no acknowledged data: it is that of a read or of a trim.
    #[must_use]
    pub const fn loses_nothing(&self) -> bool {
        matches!(self, Self::Io { op: IoOp::Read | IoOp::Trim, .. })
    }

    /// Returns true if, after a flush that failed so, reads may return data older than what was
    /// written: a device may drop what it could not make durable. A poisoned layer returns what was
    /// written, or fails.
    #[must_use]
    pub const fn may_have_dropped_writes(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// Limits of the commands that a layer or device accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that can be addressed: a multiple of the sector size.
    pub capacity_bytes: u64,
    /// Bytes of a sector. Offsets and lengths are multiples of it, and a power cut does not tear
    /// it.
    pub sector_bytes: u32,
    /// Longest command, in bytes; trims may be longer.
    pub most_bytes: u32,
}

/// Messages to the layers besides commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The database began a checkpoint: it will write all pages changed before.
    CheckpointBegins,
    /// The database ended a checkpoint: everything that it wrote since the checkpoint began must be
    /// durable when the next FLUSH or FUA write is acknowledged.
    CheckpointEnds,
    /// Reads everything stored and checks it against its checksums, once, when the device is idle.
    Scrub,
    /// Ends a scrub under way where it is.
    ScrubEnds,
    /// Writes back everything that is held back, and does nothing else: the volume is about to be
    /// closed, or a measurement to end.
    Drain,
}
