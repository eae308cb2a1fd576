//! Making a volume, and recovering one: from the newest checkpoint, and the summaries since then.

use bytes::Buf;
use ftl::BlockRemains;
use rustc_hash::FxHashSet;

use super::NAME;
use super::checks::Checks;
use super::copies::{
    BY_SALVAGE, clear_behind, newest_root, read_or_zeros, read_superblock, try_read, write_footers,
    write_root, write_superblock, write_tables,
};
use super::disk::{Entry, LOST, NOWHERE, Root, Segment, Superblock, decode_table};
use super::layout::{COPIES, VolumeLayout};
use super::settings::VolumeSettings;
use crate::hash::{UNKNOWN, checksum, folded};
use crate::{LayerError, Store};

/// Pages of one read or write.
pub(super) const AT_ONCE: usize = 64;

/// All that is known of a volume that was opened.
pub(super) struct Recovered {
    pub layout: VolumeLayout,
    pub volume: u64,
    /// First epoch in which physical pages had their present numbers.
    pub since: u64,
    /// The root that opens this life; it is durable.
    pub root: Root,
    pub map: Vec<u32>,
    pub checks: Checks,
    pub segments: Vec<Segment>,
    /// Number of pages that the host had written.
    pub clock: u64,
    /// Segment in which the log goes on, where summaries lie in segments.
    pub open: Option<u32>,
    /// Number of pages in summaries that were not found.
    pub lost_pages: u64,
}

impl Recovered {
    /// Makes a volume that holds nothing.
    pub fn empty(layout: VolumeLayout) -> Self {
        let root = Root {
            number: 1,
            epoch: 0,
            durable: 0,
            replay_from: 0,
            replay_index: 0,
            clock: 0,
            replay_at: NOWHERE,
            areas: vec![0; layout.tables as usize],
        };
        let (map, segments) = (
            vec![NOWHERE; layout.logical_pages as usize],
            vec![Segment::default(); layout.segments as usize],
        );
        let checks = Checks::default();
        Self {
            layout,
            volume: 0,
            since: 0,
            root,
            map,
            checks,
            segments,
            clock: 0,
            open: None,
            lost_pages: 0,
        }
    }

    /// Gives the place of a logical page as the tables store it.
    pub fn place_of(&self, lpn: u32) -> u32 {
        if self.checks.is_lost(lpn) { LOST } else { self.map[lpn as usize] }
    }

    pub fn blocks(&self) -> Vec<BlockRemains> {
        let remains = |segment: &Segment| BlockRemains {
            stream: segment.stream,
            opened_at: segment.opened_at,
            order: segment.opened,
            filled: u32::from(segment.filled),
        };
        self.segments.iter().map(remains).collect()
    }
}

/// Writes an empty volume.
pub(super) fn format(
    settings: &VolumeSettings,
    layout: &VolumeLayout,
    seed: u64,
    store: &mut Store<'_>,
) -> Result<(), LayerError> {
    // The old content goes into the identity, so that no volume is taken for an earlier one in the
    // same place.
    let mut remains = vec![0; (2 * layout.root_pages as usize + 1) * layout.page_bytes as usize];
    read_or_zeros(store, layout.superblock(0), &mut remains)?;
    let volume = checksum(seed, &remains);
    let mut areas = vec![0; layout.tables as usize];
    let mut first = 0;
    if settings.is_filled {
        first = u64::from(layout.segments);
        areas.fill(1);
        let pages = layout.pages_per_segment;
        let filled =
            |segment: u32| layout.logical_pages.saturating_sub(segment * pages).min(pages) as u16;
        let segment = |segment: u32| Segment {
            opened: u64::from(segment),
            opened_at: 0,
            stream: 0,
            filled: filled(segment),
        };
        let segments: Vec<Segment> = (0..layout.segments).map(segment).collect();
        let all: Vec<u32> = (0..layout.tables).collect();
        write_tables(layout, volume, 1, &all, &areas, |lpn| (lpn, UNKNOWN), &segments, store)?;
    }
    let root = Root {
        number: 1,
        epoch: 0,
        durable: first,
        replay_from: 0,
        replay_index: first,
        clock: 0,
        replay_at: NOWHERE,
        areas,
    };
    clear_behind(layout, &root, store)?;
    write_root(layout, volume, &root, store)?;
    write_superblock(layout, volume, 0, store)
}

/// Opens the volume that is there. It writes only a new checkpoint beside the valid one, footers,
/// which no recovery reads, a superblock of which a copy was bad, and, where segments are trimmed,
/// pages with the content that they have: so a power cut leaves what is found again.
pub(super) fn recover(
    settings: &VolumeSettings,
    store: &mut Store<'_>,
) -> Result<Recovered, LayerError> {
    // Writes of a process that was killed may still be volatile, and the writes below depend on
    // what is read here.
    store.flush()?;
    let (Superblock { volume, sizes, since }, are_both_good) = read_superblock(settings, store)?;
    let layout = VolumeLayout::of(sizes, settings.aside.unwrap_or(0));
    let old = newest_root(&layout, volume, store)?;
    let mut replay = Replay::from(&layout, volume, &old, settings.keeps_checksums, store)?;
    replay.rewrites = settings.trims;
    replay.run(&old, store)?;
    let open = if layout.form.in_segments { replay.open_log() } else { None };
    let which = if layout.form.in_segments { Vec::new() } else { replay.without_footers() };
    let Replay {
        mut map, checks, segments, clock, lost, changed, next_summary, next_entry, ..
    } = replay;

    let mut root = old;
    root.number += 1;
    root.epoch += 1;
    (root.durable, root.replay_from, root.replay_index, root.clock) =
        (next_entry, next_summary, next_entry, clock);
    root.replay_at = open.map_or(NOWHERE, |segment| {
        segment * layout.pages_per_segment + u32::from(segments[segment as usize].filled)
    });
    let changed: Vec<u32> = (0..layout.tables).filter(|&index| changed[index as usize]).collect();
    for &index in &changed {
        let area = &mut root.areas[index as usize];
        *area = if *area == 1 { 2 } else { 1 };
    }
    if !changed.is_empty() {
        write_tables(
            &layout,
            volume,
            root.number,
            &changed,
            &root.areas,
            |lpn| (map[lpn as usize], check_of(&checks, lpn)),
            &segments,
            store,
        )?;
    }
    let check = |lpn: u32| check_of(&checks, lpn);
    write_footers(&layout, volume, &root, &which, &map, (check, &segments), store)?;
    store.flush()?;
    write_root(&layout, volume, &root, store)?;
    if !are_both_good {
        write_superblock(&layout, volume, since, store)?;
    }
    let mut bad = FxHashSet::default();
    for (lpn, place) in (0..).zip(&mut map) {
        if *place == LOST {
            *place = NOWHERE;
            bad.insert(lpn);
        }
    }
    let checks = Checks::new(checks, bad);
    Ok(Recovered {
        layout,
        volume,
        since,
        root,
        map,
        checks,
        segments,
        clock,
        open,
        lost_pages: lost,
    })
}

fn check_of(checks: &[u32], lpn: u32) -> u32 {
    checks.get(lpn as usize).copied().unwrap_or(UNKNOWN)
}

/// Result of looking at the place where an entry says that a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Good,
    /// Other content than was written: a power cut took the write.
    Other,
    /// The place cannot be read, which no power cut causes.
    Unreadable,
}

/// State at a checkpoint, and after the entries that were replayed.
pub(super) struct Replay<'a> {
    pub(super) layout: &'a VolumeLayout,
    pub(super) volume: u64,
    pub(super) map: Vec<u32>,
    /// Folded checksums of the same pages; empty if none are kept.
    checks: Vec<u32>,
    pub(super) segments: Vec<Segment>,
    pub(super) clock: u64,
    lost: u64,
    /// Pages of the tables that differ from those of the checkpoint, or have a bad copy.
    changed: Vec<bool>,
    /// Segments that are named by entries.
    is_touched: Vec<bool>,
    /// Segments whose footer is durable, if they are full.
    pub(super) is_sure: Vec<bool>,
    pub(super) next_summary: u64,
    pub(super) next_entry: u64,
    /// Streams in which a page was not found: no later page of the stream is taken, so that it goes
    /// on at that place. A page left unused there would be missing when the volume is as full as it
    /// may be.
    pub(super) stopped: Vec<bool>,
    /// True if pages that were not flushed and were found are written once more.
    rewrites: bool,
}

impl<'a> Replay<'a> {
    fn from(
        layout: &'a VolumeLayout,
        volume: u64,
        root: &Root,
        keeps_checksums: bool,
        store: &mut Store<'_>,
    ) -> Result<Self, LayerError> {
        let are_kept = keeps_checksums || layout.form.keeps_checksums;
        let mut checks = vec![UNKNOWN; if are_kept { layout.logical_pages as usize } else { 0 }];
        let mut map = vec![NOWHERE; layout.logical_pages as usize];
        let mut segments = vec![Segment::default(); layout.segments as usize];
        let page = layout.page_bytes as usize;
        let written: Vec<u32> =
            (0..layout.tables).filter(|&index| root.areas[index as usize] > 0).collect();
        let area = |index: u32| root.areas[index as usize];
        let mut changed = vec![false; layout.tables as usize];
        let mut bytes = vec![0; AT_ONCE * page];
        for run in written
            .chunk_by(|a, b| a + 1 == *b && area(*a) == area(*b))
            .flat_map(|run| run.chunks(AT_ONCE))
        {
            let bytes = &mut bytes[..run.len() * page];
            read_or_zeros(store, layout.table(run[0], area(run[0]), 0), bytes)?;
            for (&index, bytes) in run.iter().zip(bytes.chunks_mut(page)) {
                for copy in 0..COPIES {
                    if decode_table(volume, root.number, index, bytes).is_some() {
                        break;
                    }
                    // One page of a longer read is bad, or a copy is: both copies are written
                    // again.
                    changed[index as usize] = true;
                    read_or_zeros(store, layout.table(index, area(index), copy), bytes)?;
                }
                let corrupt = || LayerError::Corrupt {
                    layer: NAME,
                    offset: layout.table(index, area(index), 0),
                    reason: format!(
                        "page {index} of the tables of checkpoint {} is whole in neither copy; \
                         {BY_SALVAGE}",
                        root.number
                    ),
                };
                let mut at = decode_table(volume, root.number, index, bytes).ok_or_else(corrupt)?;
                if index < layout.map_tables {
                    for lpn in layout.lpns_of(index) {
                        map[lpn as usize] = at.get_u32_le();
                        if layout.form.keeps_checksums {
                            checks[lpn as usize] = at.get_u32_le();
                        }
                    }
                } else {
                    layout
                        .segments_of(index)
                        .for_each(|segment| segments[segment as usize] = Segment::decode(&mut at));
                }
            }
        }
        Ok(Self {
            layout,
            volume,
            map,
            checks,
            segments,
            clock: root.clock,
            lost: 0,
            changed,
            is_touched: vec![false; layout.segments as usize],
            is_sure: vec![true; layout.segments as usize],
            next_summary: root.replay_from,
            next_entry: root.replay_index,
            stopped: vec![false; 1 << 16],
            rewrites: false,
        })
    }

    /// Replays all summaries from the checkpoint on, as far as they follow each other.
    fn run(&mut self, root: &Root, store: &mut Store<'_>) -> Result<(), LayerError> {
        if !self.layout.form.in_segments {
            return self.replay_ring(root, store);
        }
        let chain = self.read_chain(root, store)?;
        let mut places = chain.places.into_iter().peekable();
        let (entries, first) = (chain.entries, root.replay_index);
        let to_check = entries.len().min(chain.durable.saturating_sub(first) as usize);
        let looked = self.check_pages(&entries[to_check..], store)?;
        for (place, &entry) in entries.iter().enumerate() {
            while let Some((ppn, _)) = places.next_if(|&(_, end)| end <= place) {
                self.passes(ppn);
            }
            let looked = place.checked_sub(to_check).map_or(Looked::Good, |place| looked[place]);
            self.apply(entry, first + place as u64, looked)?;
        }
        places.for_each(|(ppn, _)| self.passes(ppn));
        Ok(())
    }

    /// Gives the segments whose footers may not be complete: those that are not full, and those
    /// whose last pages no commit is known to have made durable, with which it would have written
    /// the footer.
    fn without_footers(&self) -> Vec<u32> {
        let pages = self.layout.pages_per_segment;
        (0..self.layout.segments)
            .filter(|&segment| {
                let at = segment as usize;
                let is_full = u32::from(self.segments[at].filled) == pages;
                self.is_touched[at] && !(is_full && self.is_sure[at])
            })
            .collect()
    }

    /// Checks the pages that entries name: if they hold what was written.
    ///
    /// A trimmed sector may give its old content at one read, and zeros at the next. If the old
    /// content is the one that is looked for, because the same page lay there once, it may be
    /// found, and be gone when it is read later. So where segments are trimmed it is written once
    /// more.
    pub(super) fn check_pages(
        &self,
        entries: &[Entry],
        store: &mut Store<'_>,
    ) -> Result<Vec<Looked>, LayerError> {
        let page = self.layout.page_bytes as usize;
        let mut looked = vec![Looked::Good; entries.len()];
        let physical = self.layout.segments * self.layout.pages_per_segment;
        let mut placed = Vec::new();
        for (place, &entry) in entries.iter().enumerate() {
            match entry {
                Entry::Placed { ppn, check, .. } if ppn < physical => {
                    placed.push((place, ppn, check));
                }
                Entry::Placed { .. } => looked[place] = Looked::Other,
                Entry::Trimmed { .. } | Entry::Lost { .. } | Entry::Opened { .. } => {}
            }
        }
        placed.sort_unstable_by_key(|&(_, ppn, _)| ppn);
        let mut bytes = vec![0; AT_ONCE * page];
        let mut has_written = false;
        // Only foreign content can name the same page twice; then each is read alone.
        let run_of =
            |a: &(usize, u32, u64), b: &(usize, u32, u64)| self.layout.are_neighbours(a.1, b.1);
        for run in placed.chunk_by(run_of).flat_map(|run| run.chunks(AT_ONCE)) {
            let bytes = &mut bytes[..run.len() * page];
            let are_read = try_read(store, self.layout.page(run[0].1), bytes)?;
            for (&(place, ppn, check), bytes) in run.iter().zip(bytes.chunks_mut(page)) {
                let at = self.layout.page(ppn);
                let is_read = are_read || try_read(store, at, bytes)?;
                looked[place] = match is_read {
                    false => Looked::Unreadable,
                    true if checksum(self.volume, bytes) == check => Looked::Good,
                    true => Looked::Other,
                };
                if self.rewrites && looked[place] == Looked::Good {
                    store.write(at, bytes)?;
                    has_written = true;
                }
            }
        }
        if has_written {
            store.flush()?;
        }
        Ok(looked)
    }

    pub(super) fn apply(
        &mut self,
        entry: Entry,
        number: u64,
        looked: Looked,
    ) -> Result<(), LayerError> {
        let corrupt = |what: &str| LayerError::Corrupt {
            layer: NAME,
            offset: self.layout.summary(self.next_summary, 0),
            reason: format!(
                "entry {number} of the summaries before there tells of {what} that the volume does \
                 not have"
            ),
        };
        match entry {
            Entry::Placed { lpn, ppn, is_relocated, check } => {
                let (segment, place) =
                    (ppn / self.layout.pages_per_segment, ppn % self.layout.pages_per_segment);
                if lpn >= self.layout.logical_pages || segment >= self.layout.segments {
                    return Err(corrupt("a page"));
                }
                self.clock += u64::from(!is_relocated);
                let kept = &mut self.segments[segment as usize];
                let stopped = &mut self.stopped[usize::from(kept.stream)];
                if *stopped || looked == Looked::Other {
                    *stopped = true;
                    self.lost += 1;
                    return Ok(());
                }
                kept.filled = kept.filled.max(place as u16 + 1);
                self.changes_segment(segment);
                match looked {
                    // It may have been acknowledged, and so may the pages behind it.
                    Looked::Unreadable if !is_relocated => self.maps(lpn, LOST, UNKNOWN),
                    // A page that cleaning moved still lies in its old place: that is not
                    // overwritten before it is known that the move is durable.
                    Looked::Unreadable => {}
                    Looked::Good | Looked::Other => self.maps(lpn, ppn, folded(check)),
                }
            }
            Entry::Trimmed { lpn, pages } => {
                let end = u64::from(lpn).saturating_add(pages);
                if end > u64::from(self.layout.logical_pages) {
                    return Err(corrupt("pages"));
                }
                (lpn..end as u32).for_each(|lpn| self.maps(lpn, NOWHERE, UNKNOWN));
            }
            Entry::Lost { lpn, ppn } => {
                if lpn >= self.layout.logical_pages {
                    return Err(corrupt("a page"));
                }
                // If a power cut took the version that is lost, the one before it is there.
                if self.map[lpn as usize] == ppn {
                    self.maps(lpn, LOST, UNKNOWN);
                }
            }
            Entry::Opened { segment, stream, opened_at } => {
                if segment >= self.layout.segments {
                    return Err(corrupt("a segment"));
                }
                self.segments[segment as usize] =
                    Segment { opened: number, opened_at, stream, filled: 0 };
                self.changes_segment(segment);
            }
        }
        Ok(())
    }

    fn maps(&mut self, lpn: u32, place: u32, check: u32) {
        self.map[lpn as usize] = place;
        if let Some(kept) = self.checks.get_mut(lpn as usize) {
            *kept = check;
        }
        self.changed[(lpn / self.layout.lpns_per_table()) as usize] = true;
    }

    pub(super) fn changes_segment(&mut self, segment: u32) {
        self.is_touched[segment as usize] = true;
        self.changed
            [(self.layout.map_tables + segment / self.layout.segments_per_table()) as usize] = true;
    }
}
