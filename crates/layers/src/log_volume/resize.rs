//! Resizing of what is below. The volume keeps its pages in place, as far as the new one has
//! segments there; all others are copied to unused places, and new tables are written for as much
//! as the new size holds.
//!
//! Nothing that the volume uses at present is overwritten: pages go to unused places, and so do the
//! new structures. Copying those to the beginning of the device, over the old ones, is left to the
//! caller ([`Change::Copy`]).

mod packing;

use std::collections::BTreeMap;
use std::ops::Range;

use placement::{BuildError, Context, Placement, PlacementVisitor};
use rustc_hash::FxHashSet;

use super::checks::{Checks, fits};
use super::copies::{behind, write_footers};
use super::disk::{NOWHERE, Root, Segment, Superblock, make_table};
use super::layout::{COPIES, VolumeLayout};
use super::recovery::{Recovered, recover};
use super::settings::VolumeSettings;
use super::{NAME, make, visit_logs};
use crate::hash::{UNKNOWN, checksum, folded};
use crate::{Change, Changes, LayerError, Limits, Making, Resizing, Store};

use packing::{Held, Packing};

/// Pages of one read or write.
const AT_ONCE: usize = 64;

pub(super) fn refused(reason: impl Into<String>) -> LayerError {
    LayerError::Refused { layer: NAME, reason: reason.into() }
}

/// Gives the limits that a volume offers over something with these limits.
///
/// # Errors
/// [`LayerError`] if it does not fit.
pub(super) fn limits(making: &Making<'_>, below: Limits) -> Result<Limits, LayerError> {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let layout = VolumeLayout::plan(&settings, below)?;
    let (spare, free) = (layout.spare_segments(), needed_segments(&settings, layout, making.seed)?);
    if spare <= free {
        return Err(refused(format!(
            "{spare} spare segments are too few for its policies, which need {}",
            free + 1
        )));
    }
    let page = u64::from(layout.page_bytes);
    Ok(Limits { capacity_bytes: u64::from(layout.logical_pages) * page, ..below })
}

/// Copies pages that cannot stay, writes the new structures to unused places, and gives the changes
/// that put them in place.
///
/// # Errors
/// [`LayerError`]: in particular if it is too full, or a page that has to move cannot be read.
pub(super) fn resize(making: &Making<'_>, resizing: Resizing<'_, '_>) -> Changes {
    let Resizing { below, old, new, is_in_place, above } = resizing;
    if !is_in_place {
        return Err(refused(
            "a stack of two log volumes, or a log over `checksums`, cannot be resized: make a new \
             volume of the wanted size, and copy the contents to it",
        ));
    }
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let recovered = recover(&settings, below)?;
    if recovered.layout != VolumeLayout::plan(&settings, old)? {
        return Err(refused(
            "it has a form that is not made any more, and cannot be resized: make a new volume, \
             volume of the wanted size, and copy the contents to it",
        ));
    }
    let layout = VolumeLayout::plan(&settings, new)?;
    let mut resize = Resize { below, old: recovered, layout, written: BTreeMap::new() };
    resize.take(&above)?;
    let free = needed_segments(&settings, layout, making.seed)?;
    let packing = resize.pack(free)?;
    let new_volume = resize.move_pages(&packing)?;
    let changes = resize.write_structures(&new_volume, &packing)?;
    // Nothing is overwritten before it is certain that the volume can be opened.
    make(new_volume, &settings, making.seed, new)?;
    Ok(changes)
}

/// Gives the number of segments that have to be empty: the FTL's reserve, and a frontier for each
/// stream.
fn needed_segments(
    settings: &VolumeSettings,
    layout: VolumeLayout,
    seed: u64,
) -> Result<u32, LayerError> {
    struct Needs;
    impl PlacementVisitor for Needs {
        type Output = u32;

        fn visit<P: Placement + 'static>(self, policy: P) -> u32 {
            (policy.streams() + policy.relocation_targets() + 1) as u32
        }
    }
    let context = Context::new(layout.geometry(), seed);
    let of_log = u32::from(layout.form.in_segments);
    visit_logs(settings, &context, Needs)
        .map(|needed| needed + of_log)
        .map_err(|error: BuildError| refused(error.to_string()))
}

struct Resize<'a, 'b> {
    below: &'a mut Store<'b>,
    old: Recovered,
    layout: VolumeLayout,
    /// Logical pages that the layers above want changed; none for a page that shall hold nothing.
    written: BTreeMap<u32, Option<Vec<u8>>>,
}

impl Resize<'_, '_> {
    /// Takes the changes of the layers above: they become pages of the new volume.
    fn take(&mut self, above: &[Change]) -> Result<(), LayerError> {
        let page = self.layout.page_bytes as usize;
        for change in above {
            let (at, bytes, data) = match change {
                Change::Zero { at, bytes } => (*at, *bytes, None),
                Change::Put { at, data } => (*at, data.len() as u64, Some(data)),
                Change::Copy { .. } => return Err(refused("what is above it moves pages")),
            };
            let range = at..at + bytes;
            for lpn in self.layout.pages_of(&range) {
                let within = self.layout.within(&range, lpn);
                let within = within.start as usize..within.end as usize;
                if data.is_none() && within.len() == page {
                    self.written.insert(lpn, None);
                    continue;
                }
                let mut bytes = match self.written.remove(&lpn) {
                    Some(bytes) => bytes.unwrap_or_else(|| vec![0; page]),
                    None => self.read_page(lpn)?,
                };
                let from = (u64::from(lpn) * page as u64 + within.start as u64 - at) as usize;
                match data {
                    Some(data) => {
                        bytes[within.clone()].copy_from_slice(&data[from..from + within.len()]);
                    }
                    None => bytes[within].fill(0),
                }
                self.written.insert(lpn, Some(bytes));
            }
        }
        Ok(())
    }

    fn read_page(&mut self, lpn: u32) -> Result<Vec<u8>, LayerError> {
        let mut bytes = vec![0; self.layout.page_bytes as usize];
        if self.old.checks.is_lost(lpn) {
            return Err(lost(lpn));
        }
        match self.old.map.get(lpn as usize) {
            Some(&ppn) if ppn != NOWHERE => self.read_pages(&[(lpn, ppn)], &mut bytes)?,
            _ => {}
        }
        Ok(bytes)
    }

    /// Reads pages that lie side by side, and compares each with its checksum.
    fn read_pages(&mut self, pages: &[(u32, u32)], to: &mut [u8]) -> Result<(), LayerError> {
        let offset = self.old.layout.page(pages[0].1);
        self.below.read(offset, to)?;
        for (&(lpn, ppn), bytes) in pages.iter().zip(to.chunks(self.layout.page_bytes as usize)) {
            let expected = self.old.checks.of(lpn);
            if expected != UNKNOWN && !fits(expected, folded(checksum(self.old.volume, bytes))) {
                let reason = format!(
                    "page {lpn} does not hold what was written, and would have to move: write or \
                     trim it as a whole, and resize the volume then"
                );
                let offset = self.old.layout.page(ppn);
                return Err(LayerError::Corrupt { layer: NAME, offset, reason });
            }
        }
        Ok(())
    }

    fn pack(&self, free: u32) -> Result<Packing, LayerError> {
        let keeps = |lpn: u32| lpn < self.layout.logical_pages && !self.written.contains_key(&lpn);
        let held =
            Held { old: &self.old.layout, new: &self.layout, map: &self.old.map, keeps: &keeps };
        let more = self.written.values().flatten().count();
        let grows = self.layout.segments > self.old.layout.segments;
        held.pack(more, self.most_structures(more), free).map_err(|packing::TooFull| {
            refused(if grows {
                "it is too full to make room for so much larger tables: make it larger in smaller \
                 steps, or trim what is not needed first"
            } else {
                "it is too full for another layout: trim what is not needed, or take a larger size"
            })
        })
    }

    /// Gives the most pages of structures that may have to be written: superblock, root, tables
    /// that may hold something. Both copies are made from one.
    fn most_structures(&self, more: usize) -> usize {
        let layout = &self.layout;
        let mapped = (0..layout.map_tables)
            .filter(|&table| {
                let lpns = layout.lpns_of(table);
                let end = (lpns.end as usize).min(self.old.map.len());
                let held = self.old.map.get(lpns.start as usize..end).unwrap_or_default();
                held.iter().any(|&ppn| ppn != NOWHERE)
                    || lpns.into_iter().any(|lpn| self.old.checks.is_lost(lpn))
            })
            .count();
        let tables = (mapped + more).min(layout.map_tables as usize);
        let of_segments = (layout.tables - layout.map_tables) as usize;
        1 + layout.root_pages as usize + tables + of_segments
    }

    /// Writes every page that does not stay, and makes the new volume's tables.
    fn move_pages(&mut self, packing: &Packing) -> Result<Recovered, LayerError> {
        let old = self.old.layout;
        let held = Held { old: &old, new: &self.layout, map: &[], keeps: &|_| true };
        let (shift, retained) = (held.shift(), held.retained());
        let logical = self.layout.logical_pages as usize;
        let mut map = vec![NOWHERE; logical];
        let mut checks: Vec<u32> = (0..logical as u32).map(|lpn| self.old.checks.of(lpn)).collect();
        if !self.old.checks.are_kept() {
            checks.clear();
        }
        let common = logical.min(self.old.map.len());
        map[..common].copy_from_slice(&self.old.map[..common]);
        let (for_moved, for_written) = packing.targets.split_at(packing.moving.len());
        self.copy_pages(&packing.moving, for_moved, &mut map)?;
        let mut bad: FxHashSet<u32> =
            (0..logical as u32).filter(|&lpn| self.old.checks.is_lost(lpn)).collect();
        let mut targets = for_written.iter();
        for (lpn, bytes) in std::mem::take(&mut self.written) {
            let check = checks.get_mut(lpn as usize);
            bad.remove(&lpn);
            let Some(bytes) = bytes else {
                map[lpn as usize] = NOWHERE;
                check.into_iter().for_each(|check| *check = UNKNOWN);
                continue;
            };
            let &ppn = targets.next().expect("a target for each");
            self.write_pages(&[ppn], &bytes)?;
            map[lpn as usize] = ppn;
            let found = folded(checksum(self.old.volume, &bytes));
            check.into_iter().for_each(|check| *check = found);
        }
        let going_on = self.segments_that_go_on(packing);
        let root = Root {
            number: self.old.root.number + 1,
            epoch: self.old.root.epoch + 1,
            replay_at: NOWHERE,
            areas: Vec::new(),
            ..self.old.root.clone()
        };
        if !old.form.in_segments {
            let mut which: Vec<u32> =
                packing.targets.iter().map(|&ppn| old.segment_of(ppn)).collect();
            which.dedup();
            let check = |lpn: u32| checks.get(lpn as usize).copied().unwrap_or(UNKNOWN);
            let volume = self.old.volume;
            write_footers(&old, volume, &root, &which, &map, (check, &going_on), self.below)?;
        }
        self.below.flush()?;
        for place in map.iter_mut().filter(|place| **place != NOWHERE) {
            *place = (i64::from(*place) - shift * i64::from(old.pages_per_segment)) as u32;
        }
        let segments = (0..self.layout.segments)
            .map(|segment| {
                let before = i64::from(segment) + shift;
                match u32::try_from(before).ok().filter(|one| retained.contains(one)) {
                    Some(before) if packing.used[before as usize] => going_on[before as usize],
                    _ => Segment::default(),
                }
            })
            .collect();
        Ok(Recovered {
            layout: self.layout,
            volume: self.old.volume,
            since: root.epoch,
            root,
            map,
            checks: Checks::new(checks, bad),
            segments,
            clock: self.old.clock,
            open: None,
            lost_pages: 0,
        })
    }

    /// Copies pages to others, and enters them in the map.
    fn copy_pages(
        &mut self,
        moving: &[(u32, u32)],
        targets: &[u32],
        map: &mut [u32],
    ) -> Result<(), LayerError> {
        let page = self.layout.page_bytes as usize;
        for (moving, targets) in moving.chunks(AT_ONCE).zip(targets.chunks(AT_ONCE)) {
            let mut bytes = vec![0; moving.len() * page];
            let mut from = 0;
            let old = self.old.layout;
            for run in moving.chunk_by(|a, b| old.are_neighbours(a.1, b.1)) {
                let to = from + run.len() * page;
                self.read_pages(run, &mut bytes[from..to])?;
                from = to;
            }
            self.write_pages(targets, &bytes)?;
            moving.iter().zip(targets).for_each(|(&(lpn, _), &ppn)| map[lpn as usize] = ppn);
        }
        Ok(())
    }

    /// Gives the records of the old volume's segments for the new tables.
    fn segments_that_go_on(&self, packing: &Packing) -> Vec<Segment> {
        let pages = self.layout.pages_per_segment;
        let opened_at = self.old.clock as u32;
        let opened = self.old.root.durable.saturating_sub(1);
        let opened = Segment { opened, opened_at, stream: 0, filled: 0 };
        let mut segments = vec![opened; self.old.segments.len()];
        for &ppn in self.old.map.iter().filter(|&&ppn| ppn != NOWHERE) {
            segments[(ppn / pages) as usize] = self.old.segments[(ppn / pages) as usize];
        }
        for &ppn in &packing.targets {
            let segment = &mut segments[(ppn / pages) as usize];
            segment.filled = segment.filled.max((ppn % pages) as u16 + 1);
        }
        segments
    }

    /// Writes pages to physical pages of the old volume.
    fn write_pages(&mut self, places: &[u32], bytes: &[u8]) -> Result<(), LayerError> {
        let (page, mut from) = (self.layout.page_bytes as usize, 0);
        let old = self.old.layout;
        for run in places.chunk_by(|a, b| old.are_neighbours(*a, *b)) {
            let to = from + run.len() * page;
            self.below.write(old.page(run[0]), &bytes[from..to])?;
            from = to;
        }
        Ok(())
    }

    /// Writes the new structures to unused pages, and gives the changes that put them in place.
    fn write_structures(&mut self, new: &Recovered, packing: &Packing) -> Changes {
        let (layout, page) = (&self.layout, self.layout.page_bytes as usize);
        let is_written = |table: &u32| match *table < layout.map_tables {
            true => layout.lpns_of(*table).any(|lpn| new.place_of(lpn) != NOWHERE),
            false => true,
        };
        let tables: Vec<u32> = (0..layout.tables).filter(is_written).collect();
        let mut areas = vec![0; layout.tables as usize];
        tables.iter().for_each(|&table| areas[table as usize] = 1);
        let root = Root { areas, ..new.root.clone() };
        let mut root_bytes = vec![0; layout.root_bytes()];
        root.encode(layout.form, new.volume, &mut root_bytes);
        let mut superblock = vec![0; page];
        let sizes = layout.sizes();
        Superblock { volume: new.volume, sizes, since: new.since }.encode(&mut superblock);

        // Place and content of the first copy of each page.
        let mut heads = vec![(layout.superblock(0), superblock)];
        let at = layout.root(root.number, 0);
        heads.extend((at..).step_by(page).zip(root_bytes.chunks(page).map(<[u8]>::to_vec)));
        let zero =
            |place: Range<u64>| Change::Zero { at: place.start, bytes: place.end - place.start };
        let mut changes: Vec<Change> = behind(layout, &root).map(zero).collect();
        let of_table = |table: u32| {
            let mut bytes = vec![0; page];
            let map = |lpn| (new.place_of(lpn), new.checks.of(lpn));
            make_table(layout, new.volume, root.number, table, &mut bytes, map, &new.segments);
            (layout.table(table, 1, 0), bytes)
        };
        let old = self.old.layout;
        let mut pages = heads.into_iter().chain(tables.into_iter().map(of_table));
        let mut scratch = packing.scratch.chunks(AT_ONCE);
        let mut copies: Vec<(u64, u64)> = Vec::new();
        loop {
            let places = scratch.next().unwrap_or_default();
            let written: Vec<(u64, Vec<u8>)> = pages.by_ref().take(places.len().max(1)).collect();
            if written.is_empty() {
                break;
            }
            assert!(written.len() <= places.len(), "there is room for all structures");
            let bytes: Vec<u8> = written.iter().flat_map(|(_, bytes)| bytes).copied().collect();
            let mut from = 0;
            for run in places[..written.len()].chunk_by(|a, b| old.are_neighbours(*a, *b)) {
                let to = from + run.len() * page;
                self.below.write(old.page(run[0]), &bytes[from..to])?;
                from = to;
            }
            copies.extend(places.iter().zip(&written).map(|(&ppn, &(to, _))| (old.page(ppn), to)));
        }
        let between = layout.superblock(1) - layout.superblock(0);
        for number in 0..COPIES {
            for &(from, to) in &copies {
                copy(&mut changes, from, to + number * between, page as u64);
            }
        }
        self.below.flush()?;
        Ok(changes)
    }
}

/// Adds a page that is copied, joined with those before it if they lie side by side.
fn copy(changes: &mut Vec<Change>, from: u64, to: u64, bytes: u64) {
    if let Some(Change::Copy { from: first, to: there, bytes: before }) = changes.last_mut()
        && (*first + *before, *there + *before) == (from, to)
    {
        *before += bytes;
        return;
    }
    changes.push(Change::Copy { from, to, bytes });
}

fn lost(lpn: u32) -> LayerError {
    refused(format!(
        "page {lpn} is lost, and a part of it would have to be written: write or trim it as a \
         whole, and resize the volume then"
    ))
}
