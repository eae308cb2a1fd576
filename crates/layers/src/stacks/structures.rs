//! Lists the regions of all layers of a stack.

use block::Limits;

use super::registered::{level, parse};
use crate::entry::Addresses;
use crate::making::Making;
use crate::structures::Region;
use crate::{Facts, LayerError};

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
    let aside = facts.staging_offset.map(|_| level(&parsed)).transpose()?;
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let (mut below, mut placed) = (limits, Vec::new());
    for (place, (entry, args)) in parsed.iter().rev().enumerate() {
        let facts = if aside == Some(place) { facts } else { &one_device };
        let making = Making { args, facts, seed };
        let regions = (entry.structures)(&making, below)?;
        let layer = entry.info.name;
        placed.extend(regions.into_iter().map(|region| Placed { layer, level: place, region }));
        if entry.addresses == Addresses::Moved {
            break;
        }
        below = (entry.limits)(&making, below)?;
    }
    Ok(placed)
}
