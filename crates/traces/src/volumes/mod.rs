//! The volumes of a store of many: the names of their files, and reading one as a trace.

mod parts;
mod reader;

pub use parts::{Part, parts_of};
pub(crate) use parts::{failed, listed, part_name, remove_from, volume_of, window_folder};
pub use reader::VolumeReader;
