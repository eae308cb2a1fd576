//! Structures that have two copies: superblock, roots, tables. Both copies are written, and either
//! is read where the other is bad. Beside them the footers, of which one is enough.

use std::ops::Range;

use super::NAME;
use super::disk::{NoSuperblock, Root, SUPERBLOCK_BYTES, Segment, Superblock, make_table};
use super::footer::{FooterHead, entries_of_mapped, footer_bytes};
use super::layout::{COPIES, VolumeLayout};
use super::recovery::AT_ONCE;
use super::settings::VolumeSettings;
use crate::{Failure, LayerError, Store};

/// Most entries of footers that are made at once.
pub(super) const MOST_ENTRIES: usize = 1 << 16;
/// Remedy if a volume cannot be opened.
pub(super) const BY_SALVAGE: &str = "`flashwright volume info --salvage` copies out what is left";

/// Reads a place that may be unreadable. Returns true if it could be read.
///
/// # Errors
/// Any failure except that of a bad place.
pub(super) fn try_read(
    store: &mut Store<'_>,
    offset: u64,
    to: &mut [u8],
) -> Result<bool, LayerError> {
    match store.read(offset, to) {
        Ok(()) => Ok(true),
        Err(Failure::Io { .. }) => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

/// Reads a place that may be unreadable; gives zeros for it then, which are no structure and no
/// data.
pub(super) fn read_or_zeros(
    store: &mut Store<'_>,
    offset: u64,
    to: &mut [u8],
) -> Result<(), LayerError> {
    if !try_read(store, offset, to)? {
        to.fill(0);
    }
    Ok(())
}

/// Reads the superblock; gives true with it if both copies hold it. The parameters tell where the
/// second is.
///
/// # Errors
/// [`LayerError::NotFormatted`] if there is no copy.
pub(super) fn read_superblock(
    settings: &VolumeSettings,
    store: &mut Store<'_>,
) -> Result<(Superblock, bool), LayerError> {
    let limits = store.limits();
    let own_at = settings.aside.unwrap_or(0);
    let mut read = |at: u64| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES.next_multiple_of(limits.sector_bytes as usize)];
        if limits.capacity_bytes < at + bytes.len() as u64 {
            let reason = format!("the device has {} bytes", limits.capacity_bytes);
            return Ok(Err(NoSuperblock::Other(reason)));
        }
        let is_read = try_read(store, at, &mut bytes)?;
        let found = if is_read {
            Superblock::decode(&bytes)
        } else {
            Err(NoSuperblock::Other("the superblock cannot be read".to_owned()))
        };
        Ok::<_, LayerError>(found.and_then(|found| {
            let fits = VolumeLayout::is_sound(found.sizes, limits, settings.aside);
            fits.then_some(found).ok_or_else(|| {
                NoSuperblock::Other(format!(
                    "its superblock describes a volume that is none, or does not fit {} bytes",
                    limits.capacity_bytes
                ))
            })
        }))
    };
    let first = read(own_at)?;
    let second_at = match &first {
        Ok(first) => Some(VolumeLayout::of(first.sizes, own_at).superblock(1)),
        Err(_) => VolumeLayout::plan(settings, limits).ok().map(|layout| layout.superblock(1)),
    };
    let second = second_at.map(&mut read).transpose()?;
    match (first, second) {
        (Ok(first), Some(second)) => Ok((first, second == Ok(first))),
        (Ok(first), None) => Ok((first, false)),
        (Err(_), Some(Ok(second))) => Ok((second, false)),
        (Err(NoSuperblock::Older(version)), _) => Err(LayerError::older(NAME, version)),
        (Err(NoSuperblock::Other(reason)), _) => {
            Err(LayerError::NotFormatted { layer: NAME, offset: own_at, reason })
        }
    }
}

/// Writes the footers of segments by the map, for a volume that goes on with other epochs: pages
/// that nothing is mapped to are not in them.
pub(super) fn write_footers(
    layout: &VolumeLayout,
    volume: u64,
    root: &Root,
    which: &[u32],
    map: &[u32],
    (check, segments): (impl Fn(u32) -> u32, &[Segment]),
    store: &mut Store<'_>,
) -> Result<(), LayerError> {
    let number = root.durable.saturating_sub(1);
    // Not all in memory at once.
    let at_once = (MOST_ENTRIES / layout.pages_per_segment as usize).max(1);
    for which in which.chunks(at_once) {
        let entries = entries_of_mapped(layout, which, map, &check, number);
        for (&segment, entries) in which.iter().zip(&entries) {
            let opened = segments[segment as usize].opened;
            let head = FooterHead { epoch: root.epoch, began: root.durable, opened, index: 0 };
            let bytes = footer_bytes(layout.page_bytes, volume, head, entries);
            store.write(layout.footer(segment), &bytes)?;
        }
    }
    Ok(())
}

pub(super) fn write_superblock(
    layout: &VolumeLayout,
    volume: u64,
    since: u64,
    store: &mut Store<'_>,
) -> Result<(), LayerError> {
    let superblock = Superblock { volume, sizes: layout.sizes(), since };
    let mut page = vec![0; layout.page_bytes as usize];
    superblock.encode(&mut page);
    for copy in 0..COPIES {
        store.write(layout.superblock(copy), &page)?;
    }
    Ok(store.flush()?)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn write_tables(
    layout: &VolumeLayout,
    volume: u64,
    number: u64,
    indices: &[u32],
    areas: &[u8],
    map: impl Fn(u32) -> (u32, u32),
    segments: &[Segment],
    store: &mut Store<'_>,
) -> Result<(), LayerError> {
    let page = layout.page_bytes as usize;
    for run in indices
        .chunk_by(|a, b| a + 1 == *b && areas[*a as usize] == areas[*b as usize])
        .flat_map(|run| run.chunks(AT_ONCE))
    {
        let mut bytes = vec![0; run.len() * page];
        for (&index, to) in run.iter().zip(bytes.chunks_mut(page)) {
            make_table(layout, volume, number, index, to, &map, segments);
        }
        for copy in 0..COPIES {
            store.write(layout.table(run[0], areas[run[0] as usize], copy), &bytes)?;
        }
    }
    Ok(store.flush()?)
}

pub(super) fn write_root(
    layout: &VolumeLayout,
    volume: u64,
    root: &Root,
    store: &mut Store<'_>,
) -> Result<(), LayerError> {
    let mut bytes = vec![0; layout.root_bytes()];
    root.encode(layout.form, volume, &mut bytes);
    for copy in 0..COPIES {
        store.write(layout.root(root.number, copy), &bytes)?;
    }
    Ok(store.flush()?)
}

/// Gives the places of the next root and of the first summary. Whoever writes the first root of a
/// life makes them zeros: recovery must be able to read there, and must not take what an earlier
/// life has left for newer.
pub(super) fn behind(layout: &VolumeLayout, root: &Root) -> impl Iterator<Item = Range<u64>> {
    let roots = (0..COPIES).map(|copy| layout.root(root.number + 1, copy));
    let roots = roots.map(|at| at..at + layout.root_bytes() as u64);
    let summaries = layout.end_of_ring(root.replay_from);
    roots.chain(summaries.map(|at| at..at + u64::from(layout.page_bytes)))
}

/// Writes zeros to the places behind a root.
pub(super) fn clear_behind(
    layout: &VolumeLayout,
    root: &Root,
    store: &mut Store<'_>,
) -> Result<(), LayerError> {
    for place in behind(layout, root) {
        store.write(place.start, &vec![0; (place.end - place.start) as usize])?;
    }
    Ok(())
}

pub(super) fn newest_root(
    layout: &VolumeLayout,
    volume: u64,
    store: &mut Store<'_>,
) -> Result<Root, LayerError> {
    let mut newest: Option<Root> = None;
    let mut bytes = vec![0; layout.root_bytes()];
    let corrupt = |slot: u64, what: &str| LayerError::Corrupt {
        layer: NAME,
        offset: layout.root(slot, 0),
        reason: format!("{what}; {BY_SALVAGE}"),
    };
    for slot in 0..2 {
        let mut unreadable = 0;
        for copy in 0..COPIES {
            if !try_read(store, layout.root(slot, copy), &mut bytes)? {
                unreadable += 1;
                continue;
            }
            let found = Root::decode(layout.form, volume, layout.tables, &bytes)
                .filter(|root| root.number % 2 == slot);
            if let Some(root) = found
                && newest.as_ref().is_none_or(|newest| root.number > newest.number)
            {
                newest = Some(root);
            }
        }
        // No power cut makes both copies unreadable: the newest root may have been there.
        if unreadable == COPIES {
            return Err(corrupt(slot, "neither copy of a root can be read"));
        }
    }
    newest.ok_or_else(|| corrupt(0, "no root of either copy is whole"))
}

/// Gives the reason why a root is not taken though it is whole.
pub(super) fn later_root(root: &Root) -> String {
    format!("the root after number {} is whole in neither copy; {BY_SALVAGE}", root.number)
}
