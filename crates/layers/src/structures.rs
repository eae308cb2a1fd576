//! What of a device belongs to which structure of a stack's layers: for campaigns that damage
//! structures one by one, and for docs that say what that costs.

use std::ops::Range;

use block::Limits;

use crate::registered::{Making, parse};
use crate::{Addresses, Facts, LayerError, staging};

/// Bytes of one structure of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it lies in what is below the layer.
    pub bytes: Range<u64>,
    /// What it is, such as `superblock`.
    pub name: &'static str,
    /// Which one of this name: those that share it are copies of one another.
    pub number: u64,
    /// Whether it holds what users wrote, and is no structure.
    pub is_data: bool,
}

impl Region {
    /// A structure of so many bytes.
    pub(crate) const fn structure(name: &'static str, number: u64, at: u64, bytes: u64) -> Self {
        Self { bytes: at..at + bytes, name, number, is_data: false }
    }

    /// Bytes of users.
    pub(crate) const fn data(name: &'static str, number: u64, at: u64, bytes: u64) -> Self {
        Self { bytes: at..at + bytes, name, number, is_data: true }
    }
}

/// A region of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The layer.
    pub layer: &'static str,
    /// Which layer, counted from the bottom of the stack.
    pub level: usize,
    /// The region; its bytes are the device's.
    pub region: Region,
}

/// All regions of a stack over a device of these limits, from the bottom layer up. Those of layers
/// above one that moves addresses are left out: they lie anywhere in its pages.
///
/// # Errors
/// [`LayerError`]: also if a layer does not fit there.
pub fn structures(
    text: &str,
    facts: &Facts,
    seed: u64,
    limits: Limits,
) -> Result<Vec<Placed>, LayerError> {
    let parsed = parse(text)?;
    let aside = facts.staging_offset.map(|_| staging::level(&parsed)).transpose()?;
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let (mut below, mut placed) = (limits, Vec::new());
    for (level, (entry, args)) in parsed.iter().rev().enumerate() {
        let facts = if aside == Some(level) { facts } else { &one_device };
        let making = Making { args, facts, seed };
        let regions = (entry.structures)(&making, below)?;
        let layer = entry.info.name;
        placed.extend(regions.into_iter().map(|region| Placed { layer, level, region }));
        if entry.addresses == Addresses::Moved {
            break;
        }
        below = (entry.limits)(&making, below)?;
    }
    Ok(placed)
}
