//! Another size of what is below: pages at home stay where they are, and an empty area is laid out
//! at the new end.

use super::NAME;
use super::disk::{Geometry, Superblock};
use super::recovery::{read_superblocks, scan};
use super::settings::BufferSettings;
use crate::{Change, Changes, LayerError, Limits, Making, Resizing};

/// What may be asked of a buffer over what has these limits.
///
/// # Errors
/// [`LayerError`] if the area does not fit.
pub fn limits(making: &Making<'_>, below: Limits) -> Result<Limits, LayerError> {
    let settings = BufferSettings::new(making, below)?;
    let geometry = Geometry::at_end(below, settings.page_bytes, settings.slots, settings.layout)?;
    Ok(Limits { capacity_bytes: geometry.area_offset, ..below })
}

/// All pages have to be at home. The slots, and of a larger device those that become pages, become
/// zeros; then come the superblocks.
///
/// # Errors
/// [`LayerError`]: above all if pages are in slots.
pub fn resize(making: &Making<'_>, resizing: Resizing<'_, '_>) -> Changes {
    let Resizing { below, old, new, above, .. } = resizing;
    let settings = BufferSettings::new(making, old)?;
    let (superblock, _) = read_superblocks(&settings, below)?;
    let held = scan(&superblock, below)?.len();
    if held > 0 {
        let reason = format!(
            "{held} pages are in slots and could not be flushed, as their bytes are not those that \
             were written: write them as a whole, and resize it then"
        );
        return Err(LayerError::Refused { layer: NAME, reason });
    }
    let Geometry { page_bytes, slots, layout, area_offset: before, .. } = superblock.geometry;
    let geometry = Geometry::at_end(new, page_bytes, slots, layout)?;
    let after = geometry.area_offset;
    let mut changes = Vec::new();
    if before < after {
        changes.push(Change::Zero { at: before, bytes: after.min(old.capacity_bytes) - before });
    }
    changes.push(Change::Zero { at: after, bytes: new.capacity_bytes - after });
    changes.extend(above);
    let sector = Superblock { geometry, ..superblock }.to_sector();
    let last = new.capacity_bytes - u64::from(geometry.sector_bytes);
    changes.extend([after, last].map(|at| Change::Put { at, data: sector.clone() }));
    Ok(changes)
}
