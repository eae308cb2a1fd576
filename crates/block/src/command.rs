//! What is asked, and what comes of it.

use std::sync::Arc;

use thiserror::Error;
use units::{IoOp, Lifetime};

use crate::Data;

/// A request to a layer or a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Given back with the reply. Unique among those of its sender that are outstanding.
    pub id: u32,
    /// What it does.
    pub op: IoOp,
    /// First byte: a multiple of the sector's.
    pub offset: u64,
    /// Bytes: a multiple of the sector's, at least one; 0 for a flush.
    pub length: u32,
    /// A write is done only when it is durable (FUA).
    pub is_fua: bool,
    /// Of a write: how long what it writes is expected to live.
    pub lifetime: Lifetime,
    /// What is written; absent for all else, and where a trace without data is played.
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

    /// The same, failed.
    #[must_use]
    pub fn failed(&self, reason: impl Into<Arc<str>>) -> Failure {
        Failure::Io { op: self.op, offset: self.offset, length: self.length, reason: reason.into() }
    }

    /// The byte behind it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Refuses what is not of whole sectors or not within the limits: a bug of whoever sent it.
    ///
    /// # Panics
    /// If so.
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
    /// That of the command.
    pub id: u32,
    /// What was read (absent for all else), or why it failed.
    pub outcome: Result<Data, Failure>,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The device did.
    #[error("{op} of {length} bytes at byte {offset} failed: {reason}", op = op.name())]
    Io {
        /// What it did.
        op: IoOp,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// What the device or the system says.
        reason: Arc<str>,
    },
    /// Something that was acknowledged could not be written back: nothing but reads is taken any
    /// more, and those only where they give what was written.
    #[error(
        "the layer `{layer}` takes no write any more until it is opened again and recovered: \
         {cause}"
    )]
    Poisoned {
        /// Which layer.
        layer: &'static str,
        /// What happened first.
        cause: Arc<str>,
    },
}

impl Failure {
    /// What the device or the system says, without the command.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Io { reason, .. } => reason.to_string(),
            Self::Poisoned { .. } => self.to_string(),
        }
    }

    /// Whether nothing that was acknowledged can be lost by it: a read failed, or a trim.
    #[must_use]
    pub const fn loses_nothing(&self) -> bool {
        matches!(self, Self::Io { op: IoOp::Read | IoOp::Trim, .. })
    }

    /// Whether reads may give what is older than what was written, if a flush ends so: a device
    /// may drop what it could not make durable. A poisoned layer gives what was written, or fails.
    #[must_use]
    pub const fn may_have_dropped_writes(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// What may be asked of a layer or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that can be addressed: whole sectors.
    pub capacity_bytes: u64,
    /// Bytes of a sector: offsets and lengths are multiples of it, and it is what a power cut does
    /// not tear.
    pub sector_bytes: u32,
    /// Longest command, in bytes; trims may be longer.
    pub most_bytes: u32,
}

/// What is told to the layers beside commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The database began a checkpoint: it will write all that is older.
    CheckpointBegins,
    /// The database ended a checkpoint: all that it wrote since has to be on the device when it is
    /// told so (by FLUSH or FUA).
    CheckpointEnds,
    /// Read all that is kept and hold it against its checksums, once, while nothing else is to be
    /// done.
    Scrub,
    /// A pass that goes on ends where it is.
    ScrubEnds,
    /// Write back all that is held back, and do no more than that: the volume is about to be
    /// closed, or a measurement to end.
    Drain,
}
