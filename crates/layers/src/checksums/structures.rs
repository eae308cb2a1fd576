//! Structures of the layer, with their places.

use super::settings::ChecksumSettings;
use crate::structures::Region;
use crate::{LayerError, Limits, Making};

/// Gives its regions below.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn structures(making: &Making<'_>, below: Limits) -> Result<Vec<Region>, LayerError> {
    let geometry = ChecksumSettings::new(making, below)?.geometry(below)?;
    let sector = u64::from(geometry.sector_bytes);
    let mut regions = vec![
        Region::data("home", 0, 0, geometry.homes_bytes()),
        Region::structure("superblock", 0, geometry.area_offset(), sector),
        Region::structure("superblock", 0, geometry.last_sector(), sector),
    ];
    for number in 0..geometry.mark_sectors() as u32 {
        let at = geometry.marks_offset(number);
        regions.push(Region::structure("marks", u64::from(number), at, sector));
    }
    for number in 0..geometry.regions() as u32 {
        let (at, bytes) = (geometry.block_offset(number), u64::from(geometry.block_bytes));
        regions.push(Region::structure("block of checksums", u64::from(number), at, bytes));
    }
    Ok(regions)
}
