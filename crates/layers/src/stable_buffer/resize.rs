//! Resizing of what is below, or moving of the area: pages at home stay where they are, and an
//! empty area is laid out at the new end, or elsewhere.

use super::NAME;
use super::disk::{Geometry, Superblock};
use super::recovery::{Superblocks, format, needed_slots, read_superblocks};
use super::settings::BufferSettings;
use crate::staging::Area;
use crate::{Change, Changes, LayerError, Limits, Making, Resizing, Store};

/// Gives the limits that the buffer offers over something with these limits.
///
/// # Errors
/// [`LayerError`] if the area does not fit.
pub fn limits(making: &Making<'_>, below: Limits) -> Result<Limits, LayerError> {
    let settings = BufferSettings::new(making, below)?;
    let geometry = Geometry::at_end(below, settings.page_bytes, settings.slots, settings.layout)?;
    Ok(Limits { capacity_bytes: geometry.area_offset, ..below })
}

/// Reads the superblock, if all pages are at home.
fn all_at_home(settings: &BufferSettings, below: &mut Store<'_>) -> Result<Superblock, LayerError> {
    let Superblocks { superblock, .. } = read_superblocks(settings, below)?;
    let found = needed_slots(&superblock, below)?;
    if found.is_empty() {
        return Ok(superblock);
    }
    // The other pages in slots are at home all the same.
    let bad = found.iter().filter(|found| found.is_bad()).count();
    let held = if bad > 0 { bad } else { found.len() };
    let reason = format!(
        "{held} pages are in slots and could not be flushed, as their bytes are not those that \
         were written: write them as a whole, and try it again then"
    );
    Err(LayerError::Refused { layer: NAME, reason })
}

/// Gives an empty area behind all that can be addressed from above, if all pages are at home.
///
/// # Errors
/// [`LayerError`]: in particular if pages are in slots.
pub fn leave(making: &Making<'_>, below: &mut Store<'_>) -> Result<Area, LayerError> {
    let settings = BufferSettings::new(making, below.limits())?;
    Ok(Area::empty(all_at_home(&settings, below)?.geometry.homes_bytes))
}

/// Writes an empty area.
///
/// # Errors
/// [`LayerError`] if it does not fit.
pub fn lay(making: &Making<'_>, below: &mut Store<'_>, _: &Area) -> Result<(), LayerError> {
    format(making, below)
}

/// Gives the bytes of a device with the area at its end, behind the whole pages of so many bytes.
///
/// # Errors
/// [`LayerError`] if the parameters do not fit these limits.
pub fn bytes_with(
    making: &Making<'_>,
    limits: Limits,
    homes_bytes: u64,
) -> Result<u64, LayerError> {
    let BufferSettings { page_bytes, slots, layout, .. } = BufferSettings::new(making, limits)?;
    let page = u64::from(page_bytes);
    let area = Geometry::area_bytes_of(limits, page_bytes, slots, layout);
    Ok(homes_bytes / page * page + area)
}

/// Gives the changes of a resize, for which all pages have to be at home. The slots, and of a
/// larger device the bytes that become pages, become zeros; then come the superblocks.
///
/// # Errors
/// [`LayerError`]: in particular if pages are in slots.
pub fn resize(making: &Making<'_>, resizing: Resizing<'_, '_>) -> Changes {
    let Resizing { below, old, new, above, .. } = resizing;
    let superblock = all_at_home(&BufferSettings::new(making, old)?, below)?;
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
