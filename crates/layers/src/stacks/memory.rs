//! Memory of a stack: the sum over its layers.

use std::fmt;

use block::Limits;

use super::registered::{level, parse};
use crate::making::Making;
use crate::memory::{Memory, Sized};
use crate::{Facts, LayerError};

/// The most memory that the layers of a stack take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackMemory {
    /// Name and memory of each layer, from the top to the bottom.
    pub layers: Vec<(&'static str, Memory)>,
}

impl StackMemory {
    /// Gives the most bytes while it is open.
    #[must_use]
    pub fn open_bytes(&self) -> u64 {
        self.layers.iter().map(|(_, memory)| memory.table_bytes + memory.held_bytes).sum()
    }

    /// Gives the most bytes at any time: when its last layer is opened over the others, or later.
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

/// Writes the memory of each layer: `log_volume 13.0 MiB of tables, 9.0 MiB held`.
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

/// Gives the most memory that a stack takes over a device of these limits.
///
/// # Errors
/// [`LayerError`]: also if a layer does not fit there, or if its memory has no bound.
pub fn memory(
    text: &str,
    facts: &Facts,
    seed: u64,
    limits: Limits,
) -> Result<StackMemory, LayerError> {
    let parsed = parse(text)?;
    let aside = facts.staging_offset.map(|_| level(&parsed)).transpose()?;
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let mut below = limits;
    let mut layers = Vec::new();
    for (place, (entry, args)) in parsed.iter().rev().enumerate() {
        let facts = if aside == Some(place) { facts } else { &one_device };
        let Sized { memory, above } = (entry.memory)(&Making { args, facts, seed }, below)?;
        layers.push((entry.info.name, memory));
        below = above;
    }
    layers.reverse();
    Ok(StackMemory { layers })
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
