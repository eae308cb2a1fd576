//! Block devices that there are: a real one, a file, memory, a simulated drive. Whoever uses a
//! [`block::BlockDevice`] cannot tell which it is, but for what its [`block::DeviceInfo`] says.
//!
//! [`open`] takes a spec, as on the command line: `/dev/sdb`, `/mnt/x/file`, `memory(bytes=1Gi)`,
//! `emulated(profile=nvme-tlc,size=8Gi)`, `hard_disk`. A simulated drive in virtual time is made of
//! a profile instead ([`Simulated::new`]); an emulated one is such a drive on the wall clock, with
//! data.
//!
//! ```no_run
//! use block::{BlockDevice, Command};
//! use devices::{Access, Opening, open};
//! use units::{IoOp, Nanos};
//!
//! let mut device = open(&Opening::new("/dev/sdb", Access::ReadOnly))?;
//! let mut completed = Vec::new();
//! device.submit(Command::new(1, IoOp::Read, 0, 4096));
//! device.wait(Nanos::MAX, &mut completed)?;
//! println!("{} ns", completed[0].completed_at - completed[0].submitted_at);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Real devices
//! They need Linux 5.11 or newer. Block devices and files go through io_uring past the page cache,
//! with registered buffers and files (`real.rs`, `ring.rs`, `buffers.rs`). Opened for data they
//! write what commands carry and give what they read; otherwise, for measurements, data written is
//! random and never the same twice (`content.rs`), and what is read is dropped. What a file system
//! or a driver cannot do is refused when it is opened, or told in the model, as a measurement of
//! something else would be worthless.
//!
//! A namespace of an NVMe drive may be given by its character device, too (`/dev/ng0n1`): its
//! commands are the drive's own then, past the block layer (`nvme/`, Linux 5.19 or newer).
//!
//! **Nothing is lost by accident** ([`open`]): devices in use are never written, and what holds
//! data only with [`Access::DestroyData`]. What this program wrote of no meaning is known again,
//! and is in nobody's way.
//!
//! **A device that goes** in the middle of a run is one error with the device, the request and the
//! reason, and never a wait without end: every hundredth of a second (every second while it
//! completes nothing) it is looked whether the device is still as large as it was, a loop device
//! still attached, a file not truncated (`health.rs`). Detaching a loop device in use only takes
//! effect in the kernel when its user lets go of it: the user of this crate is told at once.

mod any_drive;
mod buffers;
mod cached;
mod clock;
mod command_set;
mod content;
mod control;
mod copies;
mod emulated;
mod error;
mod hard_disk;
mod health;
mod hints;
mod memory;
mod nvme;
mod open;
mod opening;
mod real;
mod ring;
mod simulated;
mod simulated_array;
pub mod ublk;

pub use copies::copy_work;
pub use emulated::{Emulated, Lateness};
pub use error::DeviceError;
pub use memory::Memory;
pub use open::{
    allocate_file, check_emulated, create_file, emulated_parts, is_spec, open, open_emulated,
    open_watched, resize_file, variants,
};
pub use opening::{Access, Opening};
pub use simulated::{Simulated, SimulatedSettings};
