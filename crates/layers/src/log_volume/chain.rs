//! Search for the summaries that lie in segments: page by page from the place that the root names,
//! and from each segment to the one that the summary in its last page names.

use super::NAME;
use super::copies::{BY_SALVAGE, later_root};
use super::disk::{Entry, LOST, NOWHERE, Root, Segment, SummaryHead, decode_summary};
use super::layout::{SUMMARY_COPIES, VolumeLayout};
use super::recovery::Replay;
use crate::{LayerError, Store};

/// Pages of one read.
const AT_ONCE: usize = 64;

/// Summaries that were found.
#[derive(Debug)]
pub(super) struct Chain {
    /// Entries of all summaries that follow each other.
    pub entries: Vec<Entry>,
    /// Last page of the copies of each summary, and the number of entries up to its end.
    pub places: Vec<(u32, usize)>,
    /// Number of an entry: all before it are durable.
    pub durable: u64,
    next_summary: u64,
    next_entry: u64,
    /// The same, as told by summaries behind one that is missing.
    beyond: u64,
    /// True if the last page of the last segment may have held a summary, which would have told
    /// where the log went on.
    is_torn: bool,
    /// Last page behind the last summary that could not be read. Two such pages side by side may be
    /// both copies of one summary: then `failure` is set.
    unreadable: Option<u32>,
    failure: Option<LayerError>,
    /// True if there are summaries that follow a later root.
    has_newer: bool,
}

/// Kind of a page that was read.
enum Page {
    /// A summary of this life.
    Summary(SummaryHead, Vec<Entry>),
    /// Nothing, or the rest of an earlier summary.
    Old,
    /// A summary of a later life, which a later root began.
    Newer,
    /// Anything else; with the failure, if it could not be read.
    Other(Option<LayerError>),
}

/// Reader of pages of a volume, which finds out their kinds.
struct Reader<'a, 'b> {
    layout: &'a VolumeLayout,
    volume: u64,
    epoch: u64,
    store: &'a mut Store<'b>,
    bytes: Vec<u8>,
}

impl<'a, 'b> Reader<'a, 'b> {
    fn new(layout: &'a VolumeLayout, volume: u64, epoch: u64, store: &'a mut Store<'b>) -> Self {
        let bytes = vec![0; AT_ONCE * layout.page_bytes as usize];
        Self { layout, volume, epoch, store, bytes }
    }

    fn look(&mut self, first: u32, pages: usize, mut see: impl FnMut(u32, Page)) {
        let page = self.layout.page_bytes as usize;
        let bytes = &mut self.bytes[..pages * page];
        let at = self.layout.page(first);
        if self.store.read(at, bytes).is_ok() {
            for (ppn, bytes) in (first..).zip(bytes.chunks(page)) {
                see(ppn, what_is(self.volume, self.epoch, bytes));
            }
            return;
        }
        // One page that cannot be read hides no others.
        for (ppn, bytes) in (first..).zip(bytes.chunks_mut(page)) {
            let found = match self.store.read(self.layout.page(ppn), bytes) {
                Ok(()) => what_is(self.volume, self.epoch, bytes),
                Err(error) => Page::Other(Some(error.into())),
            };
            see(ppn, found);
        }
    }
}

fn what_is(volume: u64, epoch: u64, bytes: &[u8]) -> Page {
    let mut entries = Vec::new();
    match decode_summary(volume, bytes, &mut entries) {
        Some(head) if head.epoch == epoch => Page::Summary(head, entries),
        Some(head) if head.epoch > epoch => Page::Newer,
        Some(_) => Page::Old,
        None if bytes.iter().all(|&byte| byte == bytes[0]) => Page::Old,
        None => Page::Other(None),
    }
}

/// Reads the summaries since a root.
///
/// # Errors
/// [`LayerError`] if two neighbouring pages behind the last summary cannot be read: they may be its
/// two copies.
fn read_chain(
    layout: &VolumeLayout,
    volume: u64,
    root: &Root,
    store: &mut Store<'_>,
) -> Result<Chain, LayerError> {
    let mut chain = Chain {
        entries: Vec::new(),
        places: Vec::new(),
        durable: root.durable,
        next_summary: root.replay_from,
        next_entry: root.replay_index,
        beyond: 0,
        is_torn: false,
        unreadable: None,
        failure: None,
        has_newer: false,
    };
    let mut reader = Reader::new(layout, volume, root.epoch, store);
    let mut at = (root.replay_at != NOWHERE).then_some(root.replay_at);
    // No more segments than there are: foreign content may lead in circles.
    for _ in 0..layout.segments {
        let Some(first) = at.take() else { break };
        let segment = layout.segment_of(first);
        if segment >= layout.segments {
            break;
        }
        let end = (segment + 1) * layout.pages_per_segment;
        let mut is_old = false;
        let mut from = first;
        while from < end {
            let pages = AT_ONCE.min((end - from) as usize);
            reader.look(from, pages, |ppn, page| match page {
                Page::Summary(head, entries) if head.number + 1 >= chain.next_summary => {
                    is_old = false;
                    let is_copy = head.number + 1 == chain.next_summary;
                    if !is_copy {
                        chain.take(layout, ppn, head, entries);
                    }
                    // A summary behind one that is missing is followed, too: later ones tell which
                    // entries are durable.
                    if let Some(next) = head.next.filter(|&segment| segment < layout.segments) {
                        at = Some(next * layout.pages_per_segment);
                    }
                }
                Page::Summary(..) | Page::Old => is_old = true,
                Page::Newer => chain.has_newer = true,
                Page::Other(failure) => {
                    is_old = false;
                    chain.could_not_read(ppn, failure);
                }
            });
            from += pages as u32;
        }
        chain.is_torn = at.is_none() && !is_old;
    }
    match chain.failure.take() {
        Some(failure) => Err(failure),
        None => Ok(chain),
    }
}

impl Chain {
    /// Takes a summary if it is the next.
    fn take(&mut self, layout: &VolumeLayout, ppn: u32, head: SummaryHead, entries: Vec<Entry>) {
        let is_next = head.number == self.next_summary
            && head.first == self.next_entry
            && head.durable <= self.next_entry;
        if !is_next {
            self.beyond = self.beyond.max(head.durable);
            return;
        }
        self.durable = self.durable.max(head.durable);
        self.next_entry += entries.len() as u64;
        self.next_summary += 1;
        self.entries.extend(entries);
        let first = ppn - ppn % layout.pages_per_segment;
        let last = (first + u32::from(head.behind)).max(ppn + 1) - 1;
        self.places.push((last, self.entries.len()));
        // No unreadable page before it can be a summary that comes later.
        (self.unreadable, self.failure) = (None, None);
    }

    /// Notes a page that is no summary, if it could not be read.
    fn could_not_read(&mut self, ppn: u32, failure: Option<LayerError>) {
        let Some(failure) = failure else { return };
        let are_neighbours = self.unreadable.is_some_and(|before| before + 1 == ppn);
        if are_neighbours {
            self.failure.get_or_insert(failure);
        }
        self.unreadable = Some(ppn);
    }

    /// Looks for later summaries in segments that nothing is mapped to: if the log went on, and the
    /// summary that would tell where is missing, it went on in one of them.
    fn look_elsewhere(
        &mut self,
        layout: &VolumeLayout,
        volume: u64,
        epoch: u64,
        is_mapped: &[bool],
        store: &mut Store<'_>,
    ) {
        let mut reader = Reader::new(layout, volume, epoch, store);
        // A summary follows at most as many pages as it holds entries.
        let most =
            layout.pages_per_segment.min(layout.entries_per_summary() as u32 + SUMMARY_COPIES);
        let empty = (0..).zip(is_mapped).filter(|(_, is_mapped)| !**is_mapped);
        for (segment, _) in empty {
            let first = segment * layout.pages_per_segment;
            for from in (first..first + most).step_by(AT_ONCE) {
                let pages = AT_ONCE.min((first + most - from) as usize);
                reader.look(from, pages, |_, page| match page {
                    Page::Summary(head, _) if head.number >= self.next_summary => {
                        self.beyond = self.beyond.max(head.durable);
                    }
                    Page::Newer => self.has_newer = true,
                    _ => {}
                });
            }
        }
    }

    /// Takes the entries as durable that later summaries say are durable.
    ///
    /// # Errors
    /// [`LayerError::Corrupt`] if a durable entry is missing.
    fn believe(&mut self, layout: &VolumeLayout, root: &Root) -> Result<(), LayerError> {
        if self.has_newer {
            let offset = layout.root(root.number + 1, 0);
            return Err(LayerError::Corrupt { layer: NAME, offset, reason: later_root(root) });
        }
        self.durable = self.durable.max(self.beyond);
        if self.durable <= self.next_entry {
            return Ok(());
        }
        let after = self.places.last().map_or(root.replay_at, |&(ppn, _)| ppn + 1);
        let reason = format!(
            "summary {} was durable and is there in neither copy; {BY_SALVAGE}",
            self.next_summary
        );
        Err(LayerError::Corrupt { layer: NAME, offset: layout.page(after), reason })
    }
}

impl Replay<'_> {
    /// Reads the summaries since the root, from segment to segment.
    pub fn read_chain(&mut self, root: &Root, store: &mut Store<'_>) -> Result<Chain, LayerError> {
        let mut chain = read_chain(self.layout, self.volume, root, store)?;
        if chain.is_torn {
            let is_mapped = self.mapped_after(&chain.entries);
            chain.look_elsewhere(self.layout, self.volume, root.epoch, &is_mapped, store);
        }
        chain.believe(self.layout, root)?;
        (self.next_summary, self.next_entry) = (chain.next_summary, chain.next_entry);
        Ok(chain)
    }

    /// Gives, for each segment, true if something in it is mapped after these entries are applied.
    fn mapped_after(&self, entries: &[Entry]) -> Vec<bool> {
        let mut map = self.map.clone();
        for &entry in entries {
            match entry {
                Entry::Placed { lpn, ppn, .. } => {
                    map.get_mut(lpn as usize).into_iter().for_each(|place| *place = ppn);
                }
                Entry::Trimmed { lpn, pages } => {
                    let end = u64::from(lpn).saturating_add(pages).min(map.len() as u64) as usize;
                    map.get_mut(lpn as usize..end)
                        .into_iter()
                        .for_each(|range| range.fill(NOWHERE));
                }
                Entry::Lost { .. } | Entry::Opened { .. } => {}
            }
        }
        self.mapped_segments(&map)
    }

    /// Gives, for each segment, true if something in it is mapped. A place that does not exist is
    /// refused later.
    fn mapped_segments(&self, map: &[u32]) -> Vec<bool> {
        let mut is_mapped = vec![false; self.segments.len()];
        for &ppn in map.iter().filter(|&&ppn| ppn < LOST) {
            let segment = self.layout.segment_of(ppn) as usize;
            is_mapped.get_mut(segment).into_iter().for_each(|is_mapped| *is_mapped = true);
        }
        is_mapped
    }

    /// Notes that a summary lies there, behind pages that are all taken: the log goes on behind it.
    pub fn passes(&mut self, ppn: u32) {
        let segment = self.layout.segment_of(ppn);
        let kept = &mut self.segments[segment as usize];
        if !self.stopped[usize::from(kept.stream)] {
            let place = ppn % self.layout.pages_per_segment;
            kept.filled = kept.filled.max(place as u16 + 1);
            self.changes_segment(segment);
        }
    }

    /// Gives the segment in which the log goes on: the one that was opened last and is not full, or
    /// one that holds nothing. None if there is neither.
    pub fn open_log(&mut self) -> Option<u32> {
        let is_mapped = self.mapped_segments(&self.map);
        let all = 0..self.layout.segments;
        let last = all
            .clone()
            .filter(|&segment| is_mapped[segment as usize])
            .max_by_key(|&segment| self.segments[segment as usize].opened);
        let has_room = |segment: &u32| {
            u32::from(self.segments[*segment as usize].filled) < self.layout.pages_per_segment
        };
        if let Some(segment) = last.filter(has_room) {
            return Some(segment);
        }
        let segment = all.into_iter().find(|&segment| !is_mapped[segment as usize])?;
        self.segments[segment as usize] =
            Segment { opened: self.next_entry, opened_at: self.clock as u32, stream: 0, filled: 0 };
        self.changes_segment(segment);
        Some(segment)
    }
}
