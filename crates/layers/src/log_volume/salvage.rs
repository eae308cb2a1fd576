//! Making a new map for a volume whose own is lost: from the segments, by their footers or the
//! summaries in them; from the ring of summaries; and from those tables that can be read.
//!
//! Of all sources for the place of a logical page, the newest counts. Entries of the log are
//! numbered, and a table is as new as the checkpoint for which it was written. Sources about a
//! segment from before it was opened for the last time are outdated. So are entries of an epoch
//! behind the place at which the next one went on: a power cut took those.
//!
//! Trims are in no footer. A page that was trimmed before the oldest summary that is left may come
//! back with its old content, if the tables are lost and that was not overwritten. Nothing that is
//! found is read without its checksum.

use std::collections::BTreeMap;

use bytes::Buf;
use rustc_hash::FxHashSet;

use super::copies::{newest_root, read_or_zeros, read_superblock, try_read};
use super::disk::{Entry, LOST, NOWHERE, Root, Segment, SummaryHead, decode_summary, decode_table};
use super::footer::{FooterEntry, FooterHead, decode_footer, entries_per_page, identity_of_footer};
use super::layout::{COPIES, VolumeLayout};
use super::recovery::Recovered;
use super::settings::VolumeSettings;
use super::{NAME, checks::Checks};
use crate::hash::{UNKNOWN, folded};
use crate::{LayerError, Store};

/// Pages of one read.
const AT_ONCE: u32 = 64;

/// Makes what a recovery would have found, as far as it is there, and adds lines on what is
/// missing. Nothing is written.
///
/// # Errors
/// [`LayerError`] if nothing at all is left of a volume, or the device does not answer.
pub(super) fn salvage(
    settings: &VolumeSettings,
    store: &mut Store<'_>,
    notes: &mut Vec<String>,
) -> Result<Recovered, LayerError> {
    let (layout, volume, since) = identify(settings, store, notes)?;
    let mut scan = Scan { layout: &layout, volume, since, store, unreadable: 0, silent: 0 };
    let mut ages = Ages::new(&layout);
    scan.each(|found| ages.see(&layout, found))?;
    scan.report(notes);
    let root = newest_root(&layout, volume, scan.store).ok();
    let mut found = Found::new(&layout, ages);
    match &root {
        Some(root) => found.take_tables(&layout, volume, root, scan.store, notes)?,
        None => notes.push("no root is whole: none of the tables is used".to_owned()),
    }
    scan.each(|said| found.see(&layout, said))?;
    Ok(found.into_recovered(layout, volume, since))
}

/// Finds the layout and the identity: from a superblock, or else from the parameters and the first
/// footer or summary that is found.
fn identify(
    settings: &VolumeSettings,
    store: &mut Store<'_>,
    notes: &mut Vec<String>,
) -> Result<(VolumeLayout, u64, u64), LayerError> {
    let own_at = settings.aside.unwrap_or(0);
    match read_superblock(settings, store) {
        Ok((superblock, _)) => {
            let layout = VolumeLayout::of(superblock.sizes, own_at);
            return Ok((layout, superblock.volume, superblock.since));
        }
        Err(error @ LayerError::NotFormatted { .. }) => {
            notes.push(format!(
                "no superblock is whole ({error}): its parameters say what lies where"
            ));
        }
        Err(error) => return Err(error),
    }
    let layout = VolumeLayout::plan(settings, store.limits())?;
    let mut bytes = vec![0; layout.page_bytes as usize];
    for segment in 0..layout.segments {
        // Where there are no footers, summaries lie at the end of a segment, too.
        let at = layout.segment(segment + 1)
            - u64::from(layout.footer_pages().max(1)) * u64::from(layout.page_bytes);
        read_or_zeros(store, at, &mut bytes)?;
        if let Some(volume) = identity_of_footer(&bytes).or_else(|| identity_of_summary(&bytes)) {
            return Ok((layout, volume, 0));
        }
    }
    let reason = "no superblock is whole, and no segment says what lies in it".to_owned();
    Err(LayerError::NotFormatted { layer: NAME, offset: own_at, reason })
}

fn identity_of_summary(bytes: &[u8]) -> Option<u64> {
    let volume = (&bytes[16..24]).get_u64_le();
    decode_summary(volume, bytes, &mut Vec::new()).map(|_| volume)
}

/// A source for the places of pages.
#[derive(Clone, Copy)]
enum Said<'a> {
    Footer { segment: u32, head: FooterHead, entries: &'a [FooterEntry] },
    Summary { head: SummaryHead, entries: &'a [Entry] },
}

/// Reader of all sources for the places of pages, except the tables.
struct Scan<'a, 'b> {
    layout: &'a VolumeLayout,
    volume: u64,
    since: u64,
    store: &'a mut Store<'b>,
    /// Pages of footers, of summaries or perhaps of them, that could not be read.
    unreadable: u64,
    /// Segments without a source.
    silent: u64,
}

impl Scan<'_, '_> {
    fn each(&mut self, mut see: impl FnMut(Said<'_>)) -> Result<(), LayerError> {
        (self.unreadable, self.silent) = (0, 0);
        if self.layout.form.in_segments {
            return self.each_in_segments(see);
        }
        self.each_footer(&mut see)?;
        let page = self.layout.page_bytes as usize;
        let mut bytes = vec![0; page];
        let mut entries = Vec::new();
        for place in 0..u64::from(self.layout.ring_pages) {
            for copy in 0..COPIES {
                read_or_zeros(self.store, self.layout.summary(place, copy), &mut bytes)?;
                entries.clear();
                let head = decode_summary(self.volume, &bytes, &mut entries);
                if let Some(head) = head.filter(|head| head.epoch >= self.since) {
                    see(Said::Summary { head, entries: &entries });
                    break;
                }
            }
        }
        Ok(())
    }

    fn each_footer(&mut self, see: &mut impl FnMut(Said<'_>)) -> Result<(), LayerError> {
        let page = self.layout.page_bytes as usize;
        let mut bytes = vec![0; page];
        for segment in 0..self.layout.segments {
            let mut is_silent = true;
            for index in 0..self.layout.footer_pages() {
                let at = self.layout.footer(segment) + u64::from(index) * page as u64;
                if !try_read(self.store, at, &mut bytes)? {
                    self.unreadable += 1;
                    continue;
                }
                let found = decode_footer(self.volume, &bytes);
                if let Some((head, entries)) = found.filter(|(head, _)| head.index == index) {
                    is_silent = false;
                    see(Said::Footer { segment, head, entries: &entries });
                }
            }
            self.silent += u64::from(is_silent);
        }
        Ok(())
    }

    fn each_in_segments(&mut self, mut see: impl FnMut(Said<'_>)) -> Result<(), LayerError> {
        let page = self.layout.page_bytes as usize;
        let mut bytes = vec![0; AT_ONCE as usize * page];
        let mut entries = Vec::new();
        for segment in 0..self.layout.segments {
            for from in (0..self.layout.segment_pages).step_by(AT_ONCE as usize) {
                let pages = AT_ONCE.min(self.layout.segment_pages - from) as usize;
                let at = self.layout.segment(segment) + u64::from(from) * page as u64;
                let bytes = &mut bytes[..pages * page];
                let are_read = try_read(self.store, at, bytes)?;
                for (place, bytes) in bytes.chunks_mut(page).enumerate() {
                    if !are_read && !try_read(self.store, at + (place * page) as u64, bytes)? {
                        self.unreadable += 1;
                        continue;
                    }
                    entries.clear();
                    let head = decode_summary(self.volume, bytes, &mut entries);
                    if let Some(head) = head.filter(|head| head.epoch >= self.since) {
                        see(Said::Summary { head, entries: &entries });
                    }
                }
            }
        }
        Ok(())
    }

    fn report(&self, notes: &mut Vec<String>) {
        let (unreadable, silent) = (self.unreadable, self.silent);
        if unreadable > 0 {
            notes.push(format!(
                "{unreadable} pages that say, or may say, what lies in a segment cannot be read"
            ));
        }
        if silent > 0 {
            notes.push(format!(
                "{silent} of {} segments say nothing of what lies in them: they are empty, or were \
                 being filled when the volume was last in use",
                self.layout.segments
            ));
        }
    }
}

/// Beginnings of the epochs, and the last openings of the segments.
struct Ages {
    /// Number of the first entry of each epoch, or the lowest that was seen.
    began: BTreeMap<u64, u64>,
    opened: Vec<u64>,
    newest: u64,
}

impl Ages {
    fn new(layout: &VolumeLayout) -> Self {
        Self { began: BTreeMap::new(), opened: vec![0; layout.segments as usize], newest: 0 }
    }

    fn see(&mut self, layout: &VolumeLayout, said: Said<'_>) {
        let (epoch, began) = match said {
            Said::Footer { head, .. } => (head.epoch, head.began),
            Said::Summary { head, .. } => (head.epoch, head.first),
        };
        let kept = self.began.entry(epoch).or_insert(began);
        *kept = (*kept).min(began);
        match said {
            Said::Footer { segment, head, entries } => {
                let opened = &mut self.opened[segment as usize];
                *opened = (*opened).max(head.opened);
                let newest = entries.iter().map(|entry| entry.number).max().unwrap_or(0);
                self.newest = self.newest.max(newest);
            }
            Said::Summary { head, entries } => {
                self.newest = self.newest.max(head.first + entries.len() as u64);
                for (number, entry) in (head.first..).zip(entries) {
                    if let Entry::Opened { segment, .. } = *entry
                        && segment < layout.segments
                    {
                        let opened = &mut self.opened[segment as usize];
                        *opened = (*opened).max(number);
                    }
                }
            }
        }
    }

    /// Returns true if this entry of an epoch is still valid: no later epoch began before it.
    fn holds(&self, epoch: u64, number: u64) -> bool {
        self.began.range(epoch + 1..).all(|(_, &began)| number < began)
    }
}

/// Newest knowledge of a logical page.
#[derive(Clone, Copy)]
struct Known {
    /// Age: for an entry of the log, twice its number and one more; for a table, twice the number
    /// of the first entry that it may lack.
    at: u64,
    ppn: u32,
    check: u32,
}

/// State of making the map.
struct Found {
    ages: Ages,
    pages: Vec<Known>,
}

impl Found {
    fn new(layout: &VolumeLayout, ages: Ages) -> Self {
        let none = Known { at: 0, ppn: NOWHERE, check: UNKNOWN };
        Self { ages, pages: vec![none; layout.logical_pages as usize] }
    }

    fn know(&mut self, lpn: u32, known: Known) {
        if let Some(kept) = self.pages.get_mut(lpn as usize).filter(|kept| kept.at < known.at) {
            *kept = known;
        }
    }

    /// Notes that a page was placed, if that is still valid.
    fn placed(
        &mut self,
        layout: &VolumeLayout,
        epoch: u64,
        number: u64,
        (lpn, ppn, check): (u32, u32, u32),
    ) {
        let segment = layout.segment_of(ppn);
        let is_of_now = segment < layout.segments
            && number >= self.ages.opened[segment as usize]
            && self.ages.holds(epoch, number);
        if is_of_now {
            self.know(lpn, Known { at: 2 * number + 1, ppn, check });
        }
    }

    fn see(&mut self, layout: &VolumeLayout, said: Said<'_>) {
        match said {
            Said::Footer { segment, head, entries } => {
                let first = segment * layout.pages_per_segment
                    + head.index * entries_per_page(layout.page_bytes);
                for (ppn, entry) in (first..).zip(entries).filter(|(_, one)| one.lpn != NOWHERE) {
                    self.placed(layout, head.epoch, entry.number, (entry.lpn, ppn, entry.check));
                }
            }
            Said::Summary { head, entries } => {
                for (number, &entry) in (head.first..).zip(entries) {
                    self.entry(layout, head.epoch, number, entry);
                }
            }
        }
    }

    fn entry(&mut self, layout: &VolumeLayout, epoch: u64, number: u64, entry: Entry) {
        let at = 2 * number + 1;
        match entry {
            Entry::Placed { lpn, ppn, check, .. } => {
                self.placed(layout, epoch, number, (lpn, ppn, folded(check)));
            }
            Entry::Trimmed { lpn, pages } if self.ages.holds(epoch, number) => {
                let end = u64::from(lpn).saturating_add(pages).min(self.pages.len() as u64) as u32;
                let known = Known { at, ppn: NOWHERE, check: UNKNOWN };
                (lpn..end).for_each(|lpn| self.know(lpn, known));
            }
            Entry::Lost { lpn, .. } if self.ages.holds(epoch, number) => {
                self.know(lpn, Known { at, ppn: LOST, check: UNKNOWN });
            }
            Entry::Trimmed { .. } | Entry::Lost { .. } | Entry::Opened { .. } => {}
        }
    }

    fn take_tables(
        &mut self,
        layout: &VolumeLayout,
        volume: u64,
        root: &Root,
        store: &mut Store<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), LayerError> {
        let at = 2 * root.replay_index;
        let mut bytes = vec![0; layout.page_bytes as usize];
        let mut missing = 0;
        for index in 0..layout.map_tables {
            let area = root.areas[index as usize];
            if area == 0 {
                continue;
            }
            let mut is_there = false;
            for copy in 0..COPIES {
                read_or_zeros(store, layout.table(index, area, copy), &mut bytes)?;
                let Some(mut from) = decode_table(volume, root.number, index, &bytes) else {
                    continue;
                };
                for lpn in layout.lpns_of(index) {
                    let ppn = from.get_u32_le();
                    let kept = layout.form.keeps_checksums;
                    let check = if kept { from.get_u32_le() } else { UNKNOWN };
                    self.know(lpn, Known { at, ppn, check });
                }
                is_there = true;
                break;
            }
            missing += u32::from(!is_there);
        }
        if missing > 0 {
            notes.push(format!(
                "{missing} of {} pages of the map are whole in neither copy",
                layout.map_tables
            ));
        }
        Ok(())
    }

    fn into_recovered(mut self, layout: VolumeLayout, volume: u64, since: u64) -> Recovered {
        // Of two that claim one place, the older is outdated: the segment was written to again.
        let physical = layout.segments * layout.pages_per_segment;
        let mut owners = vec![NOWHERE; physical as usize];
        for lpn in 0..layout.logical_pages {
            let Known { at, ppn, .. } = self.pages[lpn as usize];
            if ppn >= physical {
                continue;
            }
            let owner = &mut owners[ppn as usize];
            let past = match *owner {
                NOWHERE => None,
                other if self.pages[other as usize].at > at => Some(lpn),
                other => Some(other),
            };
            if past != Some(lpn) {
                *owner = lpn;
            }
            if let Some(past) = past {
                self.pages[past as usize].ppn = NOWHERE;
            }
        }
        let place = |known: &Known| if known.ppn < physical { known.ppn } else { NOWHERE };
        let map: Vec<u32> = self.pages.iter().map(place).collect();
        let bad: FxHashSet<u32> =
            (0..).zip(&self.pages).filter(|(_, one)| one.ppn == LOST).map(|(lpn, _)| lpn).collect();
        let checks = self.pages.iter().map(|known| known.check).collect();
        let filled = Segment { filled: layout.pages_per_segment as u16, ..Segment::default() };
        let durable = self.ages.newest + 1;
        let epoch = self.ages.began.keys().next_back().map_or(1, |epoch| epoch + 1);
        let root = Root { epoch, durable, replay_index: durable, ..Recovered::empty(layout).root };
        Recovered {
            layout,
            volume,
            since,
            root,
            map,
            checks: Checks::new(checks, bad),
            segments: vec![filled; layout.segments as usize],
            clock: 0,
            open: None,
            lost_pages: 0,
        }
    }
}
