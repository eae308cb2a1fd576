//! Resizing of what is below: pages stay where they are, and the map moves to the new end.

use super::NAME;
use super::format::Geometry;
use super::recovery::Found;
use super::settings::HoleSettings;
use crate::structures::Region;
use crate::{Change, Changes, LayerError, Limits, Making, Resizing};

/// Bytes of blocks with holes up to which each block is written; more are copied.
const PUT_BYTES: u64 = 256 << 10;

/// Gives the limits that the layer offers over something with these limits.
///
/// # Errors
/// [`LayerError`] if the map does not fit.
pub fn limits(making: &Making<'_>, below: Limits) -> Result<Limits, LayerError> {
    let geometry = HoleSettings::new(making, below)?.geometry;
    Ok(Limits { capacity_bytes: geometry.homes_bytes(), ..below })
}

/// Makes the map of all pages that stay. New pages are no holes, nor are those that the layers
/// above want changed.
///
/// # Errors
/// [`LayerError`]; also if a hole would have to be copied for a layer above.
pub fn resize(making: &Making<'_>, resizing: Resizing<'_, '_>) -> Changes {
    let Resizing { below, old, new, above, .. } = resizing;
    let before = HoleSettings::new(making, old)?.geometry;
    let after = HoleSettings::new(making, new)?.geometry;
    let Found { mut bits, lost, .. } = Found::read(&before, below);
    if let Some((block, bad)) = lost.first() {
        return Err(bad.error(before.block_offset(0, *block)));
    }
    let page = u64::from(before.page_bytes);
    let pages_of = |at: u64, bytes: u64| {
        let end = (at + bytes).div_ceil(page).min(before.pages);
        (at / page).min(end)..end
    };
    // A hole that is written in part is filled with zeros first.
    let mut filled = Vec::new();
    for change in &above {
        let (at, bytes) = match change {
            Change::Zero { at, bytes } => (*at, *bytes),
            Change::Put { at, data } => (*at, data.len() as u64),
            Change::Copy { from, to, bytes } => {
                if bits.any(pages_of(*from, *bytes)) {
                    let reason = "a layer above it would copy what was trimmed: take the size in \
                                  two steps";
                    return Err(LayerError::Refused { layer: NAME, reason: reason.to_owned() });
                }
                (*to, *bytes)
            }
        };
        let touched = pages_of(at, bytes);
        for (_, run) in bits.runs(touched.clone()).filter(|(is_hole, _)| *is_hole) {
            let bytes = (run.end - run.start) * page;
            filled.push(Change::Zero { at: run.start * page, bytes });
        }
        bits.set(touched, false);
    }
    if after.pages < before.pages {
        bits.set(after.pages..before.pages, false);
    }
    let has_holes = |block: &u64| bits.any(before.pages_in(*block));
    let there: Vec<u64> = (0..before.blocks().min(after.blocks())).filter(has_holes).collect();
    let sector = u64::from(after.sector_bytes);
    let mut changes = filled;
    changes.extend(above);
    let area =
        Change::Zero { at: after.homes_bytes(), bytes: new.capacity_bytes - after.homes_bytes() };
    if there.len() as u64 * sector <= PUT_BYTES {
        // The bytes of the old map become pages that nobody has written.
        let (from, to) = (before.homes_bytes(), after.homes_bytes().min(old.capacity_bytes));
        if from < to {
            changes.push(Change::Zero { at: from, bytes: to - from });
        }
        changes.push(area);
        put(&after, &bits, &there, &mut changes);
    } else {
        let stay = before.blocks().min(after.blocks()) * sector;
        for copy in [0, 1] {
            let (from, to) = (before.block_offset(0, 0), after.block_offset(copy, 0));
            changes.push(Change::Copy { from, to, bytes: stay });
            let end = to + after.copy_bytes();
            changes.push(Change::Zero { at: to + stay, bytes: end - to - stay });
        }
        changes.retain(|change| !matches!(change, Change::Zero { bytes: 0, .. }));
        let changed: Vec<u64> = bits.changed().filter(|block| *block < after.blocks()).collect();
        put(&after, &bits, &changed, &mut changes);
    }
    put(&after, &bits, &[0], &mut changes);
    Ok(changes)
}

/// Adds both copies of these blocks.
fn put(after: &Geometry, bits: &super::bits::Bits, blocks: &[u64], changes: &mut Vec<Change>) {
    for copy in [0, 1] {
        changes.extend(blocks.iter().map(|&block| Change::Put {
            at: after.block_offset(copy, block),
            data: bits.image_for(after, block),
        }));
    }
}

/// Gives the structures of the layer, with their places.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub fn structures(making: &Making<'_>, below: Limits) -> Result<Vec<Region>, LayerError> {
    let geometry = HoleSettings::new(making, below)?.geometry;
    let mut regions = vec![Region::data("home", 0, 0, geometry.homes_bytes())];
    for copy in [0, 1] {
        for block in 0..geometry.blocks() {
            let (at, bytes) =
                (geometry.block_offset(copy, block), u64::from(geometry.sector_bytes));
            regions.push(Region::structure("block of the map", block, at, bytes));
        }
    }
    Ok(regions)
}
