//! All of a volume but its segments, laid out in another place: on another device, or before the
//! segments again. Those stay where they are, and nothing that the volume looks at meanwhile is
//! written to.

use super::NAME;
use super::copies::{clear_behind, write_root, write_superblock, write_tables};
use super::disk::{Root, Sizes};
use super::layout::VolumeLayout;
use super::recovery::{Recovered, recover};
use super::settings::VolumeSettings;
use crate::staging::{Area, Aside};
use crate::{LayerError, Limits, Making, Store};

pub(super) const ASIDE: Aside = Aside { leave, lay, bytes_with };

fn refused(reason: impl Into<String>) -> LayerError {
    LayerError::Refused { layer: NAME, reason: reason.into() }
}

fn leave(making: &Making<'_>, store: &mut Store<'_>) -> Result<Area, LayerError> {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let recovered = recover(&settings, store)?;
    // The segments and the room before them.
    Ok(Area::of(settings.aside.unwrap_or(store.limits().capacity_bytes), recovered))
}

fn lay(making: &Making<'_>, store: &mut Store<'_>, area: &Area) -> Result<(), LayerError> {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let held: &Recovered = area.contents().ok_or_else(|| {
        refused(
            "its tables are on its staging device: open it with that, or copy out what is left by \
             `flashwright volume info --salvage`",
        )
    })?;
    let old = &held.layout;
    let segments_at = settings.aside.map(|_| old.data_at);
    let sizes = Sizes { segments_at, ..old.sizes() };
    let layout = VolumeLayout::of(sizes, settings.aside.unwrap_or(0));
    if layout.data_at != old.data_at {
        return Err(refused(format!(
            "its segments begin at byte {}, and leave no room for the rest before them: keep the \
             staging device, or copy the contents to a new volume",
            old.data_at
        )));
    }
    layout.check_aside(store.limits())?;
    if !VolumeLayout::is_sound(sizes, store.limits(), settings.aside) {
        let Limits { sector_bytes, most_bytes, .. } = store.limits();
        return Err(refused(format!(
            "its pages of {} bytes are not of whole sectors of {sector_bytes} bytes, or longer \
             than a command's {most_bytes}: take another device",
            layout.page_bytes
        )));
    }
    write(&layout, held, store)
}

/// Everything lies in the first area of the tables, under the next root.
fn write(layout: &VolumeLayout, held: &Recovered, store: &mut Store<'_>) -> Result<(), LayerError> {
    let areas: Vec<u8> = held.root.areas.iter().map(|&area| area.min(1)).collect();
    let written: Vec<u32> = (0..layout.tables).filter(|&one| areas[one as usize] > 0).collect();
    let (number, epoch) = (held.root.number + 1, held.root.epoch + 1);
    let root = Root { number, epoch, areas, ..held.root.clone() };
    let map = |lpn| (held.place_of(lpn), held.checks.of(lpn));
    write_tables(layout, held.volume, number, &written, &root.areas, map, &held.segments, store)?;
    clear_behind(layout, &root, store)?;
    write_root(layout, held.volume, &root, store)?;
    write_superblock(layout, held.volume, held.since, store)
}

/// Its area takes no more than the room before the segments, or has none there.
#[allow(clippy::unnecessary_wraps)]
fn bytes_with(_: &Making<'_>, _: Limits, stays_bytes: u64) -> Result<u64, LayerError> {
    Ok(stays_bytes)
}
