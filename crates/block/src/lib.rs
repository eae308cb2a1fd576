//! The one contract of whoever takes commands: a layer, a real device, a simulated drive.
//!
//! A [`Command`] goes down, and a [`Reply`] with its id comes up, whatever became of it. What a
//! [`BlockDevice`] does beyond that is told by its [`DeviceInfo`]. A [`Store`] reads and writes any
//! of them one call after the other, for those who have time to wait: a volume that is made, or
//! recovered. This crate does no I/O and reads no clock.
//!
//! # The contract
//! It is that of a block device with a volatile write cache:
//!
//! 1. Every command is replied to once. Replies come in any order.
//! 2. A read that comes after the reply to a write sees it, or a later one. Commands that overlap
//!    and are outstanding together take effect in any order, sector by sector.
//! 3. A flush that is replied to has made durable every write that was replied to before the flush
//!    came. A write with FUA is durable when it is replied to.
//! 4. After a power cut and recovery, each sector holds what it last held durably, or what any
//!    later write, acknowledged or not, gave it: nothing older, and nothing that was never written
//!    there.
//! 5. What a trimmed sector holds until it is written again is any of what it held since it was
//!    last durable, or zeros. Where a device [says so](DeviceInfo::zeroing_bytes), a trim is a
//!    write of zeros instead.
//! 6. A command that fails is that command's failure, and says nothing of others, but for
//!    [`Failure::Poisoned`]: every command from then on fails with it, but for reads that give what
//!    was last written.
//!
//! # Bytes
//! A device [holds data](DeviceInfo::holds_data) or not. One that does gives with each read what
//! was written; writes to it carry their bytes. One that does not is for measurements: writes carry
//! none, and what is written then is of no meaning; what is read is dropped.

mod command;
mod data;
mod device;
mod immediate;
mod part;
mod shared;
mod spanned;
mod store;
mod telemetry;
mod with_data;

pub use command::{Command, Failure, Limits, Reply, Signal};
pub use data::Data;
pub use device::{BlockDevice, BlockError, Completion, DeviceInfo, DeviceKind, Extent, Waker};
pub use immediate::{Immediate, Serve, Sparse};
pub use part::Part;
pub use shared::SharedBytes;
pub use spanned::Spanned;
pub use store::Store;
pub use telemetry::{CopyWork, DieTime, FlashWear, FlashWork, LayerCount, LayerWork, Telemetry};
pub use with_data::WithData;
