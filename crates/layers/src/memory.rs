//! Memory of a stack, told before it is made or opened.
//!
//! All figures are upper bounds, by the sizes of the tables that a layer makes and the most that
//! its parameters let it hold; `tests/memory.rs` compares them with what is allocated. Bytes of
//! requests under way are not included: whoever sends these knows their number.

use block::Limits;

/// Bytes of all that is small and does not grow, for each layer: queues, counters, room for one
/// command.
pub(crate) const SMALL_BYTES: u64 = 256 << 10;

/// The most that one layer keeps in memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of its tables, which grow with the device.
    pub table_bytes: u64,
    /// Bytes that the host wrote or the layer is moving: held back, gathered, or on their way.
    pub held_bytes: u64,
    /// Most bytes at any time while it is opened.
    pub opening_bytes: u64,
}

/// Memory and limits of a layer over something of a certain size.
#[derive(Clone, Copy, Debug)]
pub struct Sized {
    /// Memory of the layer.
    pub memory: Memory,
    /// Limits that the layer offers.
    pub above: Limits,
}

/// Most bytes of a hash map that never has more than so many entries, which come and go.
pub(crate) const fn hash_map_bytes(entries: u64, entry_bytes: usize) -> u64 {
    // Of 8 places 7 may be used, their number is a power of two, and each has an extra byte. The
    // table is doubled when more than half is in use and the rest are marks of removed entries, and
    // then the old table exists beside the new one.
    let places = (2 * entries * 8 / 7 + 1).next_power_of_two();
    places * (entry_bytes as u64 + 1) * 3 / 2
}
