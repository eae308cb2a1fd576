//! Shape of a volume as a block device.

/// Shape of a volume as a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes that users have: whole sectors.
    pub capacity_bytes: u64,
    /// Bytes of a sector, which a power cut does not tear, and which is written without being read.
    pub sector_bytes: u32,
    /// True if trims are carried out; otherwise they fail.
    pub has_trim: bool,
    /// Alignment, in bytes, of trims that make zeros; none if they promise nothing.
    pub zeroing_bytes: Option<u64>,
}
