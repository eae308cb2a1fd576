//! Transactions in a closed loop on a device: what a drive does to a database, as its clients see
//! it.
//!
//! N clients take transactions from a [`traces::accesses::TransactionSource`] and carry out their
//! page accesses one after the other: a lock (strict two-phase locking, [`Locks`]), the page in the
//! buffer pool ([`Pool`]), whose victims are written back before their frames are filled, and at
//! the end the log ([`Log`]). They wait for the device, for each other, and for nothing else. It
//! runs on any [`block::BlockDevice`], by the device's clock: a simulated drive in virtual time, a
//! stack of layers, a real device.

mod engine;
mod load;
mod locks;
mod log;
mod measured;
mod observer;
mod pool;

use block::BlockError;
use registry::{Spec, SpecError};
use thiserror::Error;
use units::{Cancelled, Nanos, SourceError};

pub use engine::{play, play_observed};
pub use load::load;
pub use locks::{Answer, Locks, RULES, Rule};
pub use log::{Log, LogSettings, LogWrite};
pub use measured::{IoFigures, Measured, Wait, Window};
pub use observer::Observer;
pub use pool::{BUFFERS, Pool};

/// Unit that a lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A page, as the trace of a buffer manager has it.
    Page,
    /// A row.
    Row,
    /// Nothing is locked.
    Nothing,
}

/// Length of a play: the limit that is reached first ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Transactions that commit.
    pub transactions: u64,
    /// Nanoseconds of the device's clock.
    pub time: Nanos,
}

/// Writes dirty pages before they are victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Nanoseconds between its rounds.
    pub interval: Nanos,
    /// Most pages of a round.
    pub pages: u32,
}

/// Settings of a play.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Clients, each with one transaction at a time.
    pub clients: u32,
    /// Frames of the buffer pool.
    pub pool_pages: u32,
    /// Victim policy of the pool.
    pub buffer: Spec,
    /// Unit of locking.
    pub locks: Granularity,
    /// Treatment of conflicts.
    pub rule: Rule,
    /// Processor time of each page access, in nanoseconds; clients do not wait for each other's.
    pub cpu: Nanos,
    /// The log, if there is one.
    pub log: Option<LogSettings>,
    /// A background writer, if there is one.
    pub writer: Option<Writer>,
    /// Latency from which on a request counts as blocked (REPLICATION's D), in nanoseconds.
    pub blocked: Nanos,
    /// Size of the parts of the device whose blocked requests are counted, in bytes.
    pub part_bytes: u32,
    /// First byte of the database on the device.
    pub offset: u64,
    /// Bytes that the database and the log may use from there on.
    pub length: u64,
    /// Seed of what is random: how long a transaction waits before it is restarted.
    pub seed: u64,
    /// Length of the part that is played before anything is measured.
    pub warm_up: Amount,
    /// Length of the measured part.
    pub measured: Amount,
}

/// A thing that does not fit the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The clients, or their pool.
    Clients,
    /// The database.
    Database,
    /// The log.
    Log,
    /// The unit of locking.
    Locks,
    /// The device.
    Device,
}

/// Reasons why transactions cannot be played, or not to their end.
#[derive(Debug, Error)]
pub enum PlayError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// The source cannot be read.
    #[error("the transactions cannot be read: {0}")]
    Source(SourceError),
    /// The settings do not fit the device or the source.
    #[error("{reason}; right would be {right}")]
    Unusable {
        /// The thing that does not fit.
        what: Unfit,
        /// Says what is wrong.
        reason: String,
        /// Says what would be right.
        right: String,
    },
    /// No such way to choose victims.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Somebody wanted it to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
