//! Structures of a stack's layers and their places on the device: for campaigns that damage them
//! one by one, and for docs that tell the cost of that.

use std::ops::Range;

/// Bytes of one structure of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Bytes of the structure, in addresses of what is below the layer.
    pub bytes: Range<u64>,
    /// Name, such as `superblock`.
    pub name: &'static str,
    /// Number of the structure among those of this name: regions that share it are copies of one
    /// another.
    pub number: u64,
    /// True if it holds data of users, and is no structure.
    pub is_data: bool,
}

impl Region {
    /// Makes a structure of so many bytes.
    pub(crate) const fn structure(name: &'static str, number: u64, at: u64, bytes: u64) -> Self {
        Self { bytes: at..at + bytes, name, number, is_data: false }
    }

    /// Makes a region of users' data.
    pub(crate) const fn data(name: &'static str, number: u64, at: u64, bytes: u64) -> Self {
        Self { bytes: at..at + bytes, name, number, is_data: true }
    }
}
