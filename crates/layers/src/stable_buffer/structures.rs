//! Structures of the layer, with their places.

use super::settings::BufferSettings;
use super::slot::HEADER_BYTES;
use crate::structures::Region;
use crate::{LayerError, Limits, Making};

/// Gives its regions below.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn structures(making: &Making<'_>, below: Limits) -> Result<Vec<Region>, LayerError> {
    let settings = BufferSettings::new(making, below)?;
    let geometry = settings.geometry(below)?;
    let (sector, header) = (u64::from(geometry.sector_bytes), HEADER_BYTES as u64);
    let mut regions = vec![
        Region::data("home", 0, 0, geometry.homes_bytes),
        Region::structure("superblock", 0, geometry.area_offset, sector),
        Region::structure("superblock", 0, (below.capacity_bytes / sector - 1) * sector, sector),
    ];
    for slot in 0..geometry.slots {
        let (at, number) = (geometry.slot_offset(slot), u64::from(slot));
        let last = at + geometry.slot_bytes() - header;
        regions.push(Region::structure("slot header", number, at, header));
        regions.push(Region::data("slot page", number, at + header, last - at - header));
        regions.push(Region::structure("slot header", number, last, header));
    }
    Ok(regions)
}
