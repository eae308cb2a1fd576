//! Resizing of what is below: pages stay where they are, and the table moves to the new end.

use super::disk::{Geometry, Superblock};
use super::recovery::{AT_A_TIME, Found, read_superblocks};
use super::settings::ChecksumSettings;
use crate::hash::UNKNOWN;
use crate::{Change, Changes, LayerError, Limits, Making, Resizing};

/// Bytes of blocks up to which all are written, wherever they lie; more are copied.
const PUT_BYTES: u64 = 512 << 10;

/// Gives the limits that the layer offers over something with these limits.
///
/// # Errors
/// [`LayerError`] if the table does not fit.
pub fn limits(making: &Making<'_>, below: Limits) -> Result<Limits, LayerError> {
    let geometry = ChecksumSettings::new(making, below)?.geometry(below)?;
    Ok(Limits { capacity_bytes: geometry.homes_bytes(), ..below })
}

/// Makes the table with the checksums and marks of all pages that stay. New pages have none, nor do
/// those that the layers above want changed.
///
/// # Errors
/// [`LayerError`].
pub fn resize(making: &Making<'_>, resizing: Resizing<'_, '_>) -> Changes {
    let Resizing { below, old, new, above, .. } = resizing;
    let settings = ChecksumSettings::new(making, old)?;
    let (before, _) = read_superblocks(&settings, old, below)?;
    let mut found = Found::read(&before, below)?;
    let geometry = Geometry::at_end(new, settings.page_bytes, settings.block_bytes)?;
    let after = Superblock { geometry, ..before };
    found.marked.retain(|mark| u64::from(mark.region) < geometry.regions());
    found.voids.retain(|region| u64::from(*region) < geometry.regions());
    let sums = sums_after(&found, &geometry, &above);

    let mut changes = Vec::new();
    let there: Vec<u32> = known_regions(&geometry, &sums).collect();
    if there.len() as u64 * u64::from(geometry.block_bytes) <= PUT_BYTES {
        let (from, to) = (before.geometry.area_offset(), geometry.area_offset());
        if from < to {
            changes.push(Change::Zero { at: from, bytes: to.min(old.capacity_bytes) - from });
        }
        changes.push(Change::Zero { at: to, bytes: new.capacity_bytes - to });
        put_blocks(&after, &sums, &there, &mut changes);
    } else {
        copy_blocks(&before.geometry, &geometry, &mut changes);
        let kept = |region: &u32| {
            let pages = geometry.pages_of(*region);
            let end = pages.end.min(found.sums.len() as u64);
            let (from, to) = (pages.start as usize, end as usize);
            let is_whole = before.geometry.pages_of(*region) == pages;
            is_whole && sums[from..to] == found.sums[from..to]
        };
        let regions = 0..geometry.regions().min(before.geometry.regions()) as u32;
        let changed: Vec<u32> = regions.filter(|region| !kept(region)).collect();
        put_blocks(&after, &sums, &changed, &mut changes);
    }
    for sector in 0..geometry.mark_sectors() as u32 {
        let data = after.to_marks(sector, &found.bits_of(&geometry, sector));
        changes.push(Change::Put { at: geometry.marks_offset(sector), data });
    }
    changes.extend(above);
    let sector = after.to_sector();
    let both = [geometry.area_offset(), geometry.last_sector()];
    changes.extend(both.map(|at| Change::Put { at, data: sector.clone() }));
    Ok(changes)
}

/// Gives the checksums of all pages after the resize.
fn sums_after(found: &Found, geometry: &Geometry, above: &[Change]) -> Vec<u32> {
    let mut sums = found.sums.clone();
    sums.resize(geometry.pages as usize, UNKNOWN);
    let page = u64::from(geometry.page_bytes);
    for change in above {
        let (at, bytes) = match change {
            Change::Zero { at, bytes } => (*at, *bytes),
            Change::Put { at, data } => (*at, data.len() as u64),
            Change::Copy { to, bytes, .. } => (*to, *bytes),
        };
        let end = ((at + bytes).div_ceil(page) as usize).min(sums.len());
        sums[((at / page) as usize).min(end)..end].fill(UNKNOWN);
    }
    sums
}

/// Gives the regions in which a checksum is known.
fn known_regions(geometry: &Geometry, sums: &[u32]) -> impl Iterator<Item = u32> {
    (0..geometry.regions() as u32).filter(|&region| {
        let pages = geometry.pages_of(region);
        sums[pages.start as usize..pages.end as usize].iter().any(|&sum| sum != UNKNOWN)
    })
}

/// Adds the blocks of these regions, ascending; neighbours as one change.
fn put_blocks(after: &Superblock, sums: &[u32], regions: &[u32], changes: &mut Vec<Change>) {
    let geometry = after.geometry;
    let mut run: Option<(u64, Vec<u8>)> = None;
    for &region in regions {
        let pages = geometry.pages_of(region);
        let at = geometry.block_offset(region);
        let is_apart = |(begin, data): &mut (u64, Vec<u8>)| {
            *begin + data.len() as u64 != at || data.len() as u64 >= AT_A_TIME
        };
        if let Some((begin, data)) = run.take_if(is_apart) {
            changes.push(Change::Put { at: begin, data });
        }
        let (_, data) = run.get_or_insert_with(|| (at, Vec::new()));
        data.extend(after.to_block(region, &sums[pages.start as usize..pages.end as usize]));
    }
    changes.extend(run.map(|(at, data)| Change::Put { at, data }));
}

/// Adds copies of the blocks of regions that stay, and zeros for those of new regions.
fn copy_blocks(before: &Geometry, after: &Geometry, changes: &mut Vec<Change>) {
    let (from, to) = (before.block_offset(0), after.block_offset(0));
    let block = u64::from(after.block_bytes);
    let stay = before.regions().min(after.regions()) * block;
    let end = after.block_offset(after.regions() as u32);
    changes.push(Change::Copy { from, to, bytes: stay });
    if to + stay < end {
        changes.push(Change::Zero { at: to + stay, bytes: end - to - stay });
    }
}
