//! Volumes: a device, the layers on it, and ways in for those who use it.
//!
//! A volume is made once ([`Volume::create`]) and says from then on itself what it is made of: its
//! header (`docs/formats/volume.md`) has the text of its stack and what the layers know of the
//! device, so that [`Volume::open`] needs nothing but the device. A [`Service`] lets one thread
//! work on it for any number of clients: the nbdkit plugin, a file in FUSE ([`fuse`]), a block
//! device of the kernel ([`ublk`]), SQLite.
//!
//! # Words
//! A *request* is what a client asks, of any offset and length. It becomes *commands* of whole
//! sectors, which the stack gets.

mod changes;
mod check;
mod control;
mod device;
mod error;
mod facts;
pub mod files;
pub mod fuse;
mod header;
mod headers;
mod layout;
mod memory;
mod metrics;
mod metrics_file;
mod new_uuid;
mod overlay;
mod resize;
mod restage;
mod salvage;
mod service;
mod shape;
mod smallest;
mod staging;
pub mod ublk;
mod volume;

pub use check::{Found, check};
pub use control::{Control, scrub_json};
pub use error::VolumeError;
pub use header::{HEADER_BYTES, Header, Pair, Role};
pub use headers::{About, StagingFound};
pub use layout::{Creating, Staging};
pub use memory::VolumeMemory;
pub use metrics::{Figures, LayerFigure, OpFigures, prometheus};
pub use metrics_file::MetricsFile;
pub use new_uuid::{Renewed, new_uuid};
pub use resize::{Resized, Resizing, resize};
pub use restage::{Unstaged, restage, unstage};
pub use salvage::{Salvaged, salvage};
pub use service::{Done, LayerScrub, Outcome, Request, ScrubFigures, Service};
pub use shape::Shape;
pub use staging::needed;
pub use units::Lifetime;
pub use volume::{Opening, Volume, about, check_memory, destroy};
