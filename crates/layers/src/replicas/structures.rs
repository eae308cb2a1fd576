//! Structures of the layer, with their places.

use super::settings::ReplicaSettings;
use crate::structures::Region;
use crate::{LayerError, Limits, Making};

/// Gives its regions below.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn structures(making: &Making<'_>, below: Limits) -> Result<Vec<Region>, LayerError> {
    let geometry = ReplicaSettings::read(making.args)?.geometry(below)?;
    let sector = u64::from(geometry.sector_bytes);
    let mut regions = vec![
        Region::structure("superblock", 0, 0, sector),
        Region::structure("superblock", 0, geometry.second_superblock(), sector),
    ];
    for partition in 0..u64::from(geometry.partitions) {
        let at = geometry.head_bytes + partition * geometry.partition_bytes;
        let slots = geometry.partition_bytes - geometry.home_bytes;
        regions.push(Region::data("home", partition, at, geometry.home_bytes));
        regions.push(Region::data("replica", partition, at + geometry.home_bytes, slots));
    }
    Ok(regions)
}
