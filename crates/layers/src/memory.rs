//! What a stack keeps in memory, told before it is made or opened.
//!
//! All figures are bounds from above, by the sizes of the tables that a layer makes and the most
//! that its parameters let it hold; `tests/memory.rs` holds them against what is allocated. Bytes
//! of requests that are under way are not in them: whoever sends these knows how many there are.

use std::fmt;

use block::Limits;

use crate::registered::{Making, parse};
use crate::{Facts, LayerError, staging};

/// What is small and does not grow: queues, counters, rooms for one command. For each layer.
pub(crate) const SMALL_BYTES: u64 = 256 << 10;

/// The most that one layer keeps in memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its tables, which grow with the device.
    pub table_bytes: u64,
    /// What the host wrote or the layer is moving: held back, gathered, or on its way.
    pub held_bytes: u64,
    /// At any time while it is opened.
    pub opening_bytes: u64,
}

/// A layer over what has certain limits: what it keeps in memory, and what may be asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Sized {
    /// What it keeps in memory.
    pub memory: Memory,
    /// What may be asked of it.
    pub above: Limits,
}

/// The most that the layers of a stack keep in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackMemory {
    /// Name and memory of each layer, from the top to the bottom.
    pub layers: Vec<(&'static str, Memory)>,
}

impl StackMemory {
    /// Most bytes while it is open.
    #[must_use]
    pub fn open_bytes(&self) -> u64 {
        self.layers.iter().map(|(_, memory)| memory.table_bytes + memory.held_bytes).sum()
    }

    /// Most bytes at any time: when its last layer is opened over the others, or later.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        // They are opened from the bottom up.
        let mut most = 0;
        let mut open = 0;
        for (_, memory) in self.layers.iter().rev() {
            most = most.max(open + memory.opening_bytes);
            open += memory.table_bytes + memory.held_bytes;
        }
        most.max(open)
    }
}

/// What each layer takes: `log_volume 13.0 MiB of tables, 9.0 MiB held`.
impl fmt::Display for StackMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, memory)) in self.layers.iter().enumerate() {
            let comma = if place > 0 { "; " } else { "" };
            let Memory { table_bytes, held_bytes, .. } = *memory;
            let (tables, held) = (mib(table_bytes), mib(held_bytes));
            write!(f, "{comma}{name} {tables} MiB of tables, {held} MiB held")?;
        }
        Ok(())
    }
}

fn mib(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(1 << 20) * 10.0).ceil() / 10.0
}

/// The most that a stack keeps in memory over a device of these limits.
///
/// # Errors
/// [`LayerError`]: also if a layer does not fit there, or if nothing bounds what it holds.
pub fn memory(
    text: &str,
    facts: &Facts,
    seed: u64,
    limits: Limits,
) -> Result<StackMemory, LayerError> {
    let parsed = parse(text)?;
    let aside = facts.staging_offset.map(|_| staging::level(&parsed)).transpose()?;
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let mut below = limits;
    let mut layers = Vec::new();
    for (level, (entry, args)) in parsed.iter().rev().enumerate() {
        let facts = if aside == Some(level) { facts } else { &one_device };
        let Sized { memory, above } = (entry.memory)(&Making { args, facts, seed }, below)?;
        layers.push((entry.info.name, memory));
        below = above;
    }
    layers.reverse();
    Ok(StackMemory { layers })
}

/// Most bytes of a hash map that never has more than so many entries, which come and go.
pub(crate) const fn hash_map_bytes(entries: u64, entry_bytes: usize) -> u64 {
    // Of 8 places 7 may be filled, their number is a power of two, and each has a byte more. It is
    // doubled when more than half is in use and the rest are marks of what went, and then the old
    // table is there beside the new one.
    let places = (2 * entries * 8 / 7 + 1).next_power_of_two();
    places * (entry_bytes as u64 + 1) * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_when_the_last_layer_is_opened_or_later() {
        let of = |table_bytes, held_bytes, opening_bytes| {
            ("x", Memory { table_bytes, held_bytes, opening_bytes })
        };
        let memory = StackMemory { layers: vec![of(10, 5, 100), of(20, 2, 30)] };
        assert_eq!((memory.open_bytes(), memory.most_bytes()), (37, 122));
        let memory = StackMemory { layers: vec![of(10, 5, 10), of(20, 2, 30)] };
        assert_eq!(memory.most_bytes(), 37);
    }
}
