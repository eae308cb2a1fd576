//! What a layer is: it takes commands from above, gives commands to below, and keeps a contract
//! with both.

use std::sync::Arc;

use thiserror::Error;
use units::{IoOp, Nanos};

use crate::Data;

/// A request to a layer or a device.
#[derive(Clone, Debug)]
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
    /// What is written; absent for all else, and where a trace without data is played.
    pub data: Data,
}

impl Command {
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
#[derive(Clone, Debug)]
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
    #[error("a {op} at byte {offset} of {length} bytes failed: {reason}", op = op.name())]
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
    /// Something that was acknowledged could not be written back: nothing is taken any more.
    #[error(
        "the layer `{layer}` takes nothing any more until it is opened again and recovered: {cause}"
    )]
    Poisoned {
        /// Which layer.
        layer: &'static str,
        /// What happened first.
        cause: Arc<str>,
    },
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
    /// Write back all that is held back, and do no more than that: the volume is about to be
    /// closed, or a measurement to end.
    Drain,
}

/// What a layer wants done: filled by it, and emptied by whoever runs it.
#[derive(Debug, Default)]
pub struct Actions {
    /// Commands for what is below, in this order.
    pub down: Vec<Command>,
    /// Replies to what is above.
    pub up: Vec<Reply>,
}

impl Actions {
    /// Sends a command below.
    pub fn send(&mut self, command: Command) {
        self.down.push(command);
    }

    /// Replies to a command from above.
    pub fn reply(&mut self, id: u32, outcome: Result<Data, Failure>) {
        self.up.push(Reply { id, outcome });
    }
}

/// A layer between a host and a device: a state machine without I/O. It is told what happens and
/// when, and answers with what it wants done; whoever runs it does that, in virtual time, in real
/// time, or in a test that cuts the power.
///
/// # The contract, upwards and downwards alike
/// It is that of a block device with a volatile write cache, and every layer keeps it towards what
/// is above if what is below does:
///
/// 1. Every command is replied to once. Replies come in any order. Nothing is waited for but
///    replies from below and the time told by [`Layer::wakes_at`].
/// 2. A read that comes after the reply to a write sees it, or a later one. Commands that overlap
///    and are outstanding together take effect in any order, sector by sector.
/// 3. A flush that is replied to has made durable every write that was replied to before the flush
///    came. A write with FUA is durable when it is replied to. A layer does not turn either into
///    less.
/// 4. After a power cut and recovery, each sector holds what it last held durably, or what any
///    later write, acknowledged or not, gave it: nothing older, and nothing that was never written
///    there.
/// 5. What a trimmed sector holds until it is written again is any of what it held since it was
///    last durable, or zeros.
/// 6. A read that fails is the failure of that read. A write, trim or flush of the layer's own that
///    fails, on which something acknowledged depends, poisons it: every command from then on fails
///    with [`Failure::Poisoned`].
pub trait Layer: Send {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// What may be asked of it.
    fn limits(&self) -> Limits;

    /// A command from above. Its id belongs to who sent it.
    ///
    /// # Panics
    /// As [`Command::check`].
    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions);

    /// The end of a command of its own.
    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions);

    /// When it wants to be woken, in nanoseconds on the clock that it is told: a time that has
    /// passed means at once.
    fn wakes_at(&self) -> Option<Nanos> {
        None
    }

    /// The time that it told has come.
    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        let _ = (now, actions);
    }

    /// Something beside commands. It is told to each layer of a stack, from the top down.
    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        let _ = (signal, now, actions);
    }

    /// Whether it does nothing of its own and holds nothing back: after [`Signal::Drain`] and some
    /// time it does.
    fn is_idle(&self) -> bool;

    /// What it has counted, in the order of the registry's [`crate::Counter`]s.
    fn count(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}
