//! Structures of the volume, with their places. Summaries in the segments lie wherever a commit
//! ended; only those in the last pages of each segment have a fixed place.

use super::disk::SUPERBLOCK_BYTES;
use super::layout::{COPIES, SUMMARY_COPIES, VolumeLayout};
use super::settings::VolumeSettings;
use crate::structures::Region;
use crate::{LayerError, Limits, Making};

/// Gives its regions below.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn structures(making: &Making<'_>, below: Limits) -> Result<Vec<Region>, LayerError> {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let layout = VolumeLayout::plan(&settings, below)?;
    let page = u64::from(layout.page_bytes);
    let superblock = SUPERBLOCK_BYTES as u64;
    let mut regions = Vec::new();
    for copy in 0..COPIES {
        regions.push(Region::structure("superblock", 0, layout.superblock(copy), superblock));
        for number in 0..2 {
            let (at, bytes) = (layout.root(number, copy), layout.root_bytes() as u64);
            regions.push(Region::structure("root", number, at, bytes));
        }
    }
    for index in 0..layout.tables {
        let is_of_map = index < layout.map_tables;
        let name = if is_of_map { "table page of the map" } else { "table page of segments" };
        for area in 1..=2 {
            let number = 2 * u64::from(index) + u64::from(area) - 1;
            for copy in 0..COPIES {
                let at = layout.table(index, area, copy);
                regions.push(Region::structure(name, number, at, page));
            }
        }
    }
    if !layout.form.in_segments {
        for number in 0..u64::from(layout.ring_pages) {
            for copy in 0..COPIES {
                let at = layout.summary(number, copy);
                regions.push(Region::structure("summary", number, at, page));
            }
        }
    }
    for segment in 0..layout.segments {
        let (pages, number) = (layout.pages_per_segment, u64::from(segment));
        let (at, last) =
            (layout.segment(segment), if layout.form.in_segments { SUMMARY_COPIES } else { 0 });
        let data = u64::from(pages - last) * page;
        regions.push(Region::data("segment", number, at, data));
        for copy in 0..u64::from(last) {
            let name = "summary at a segment's end";
            regions.push(Region::structure(name, number, at + data + copy * page, page));
        }
        for index in 0..u64::from(layout.footer_pages()) {
            let name = "footer of a segment";
            let which = number * u64::from(layout.footer_pages()) + index;
            regions.push(Region::structure(
                name,
                which,
                layout.footer(segment) + index * page,
                page,
            ));
        }
    }
    Ok(regions)
}
