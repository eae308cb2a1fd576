//! Footers: a list of a segment's pages, in its last pages. Normal operation does not need them.
//! They are for the case that the map is lost: [`super::salvage`] makes a new one from them.
//!
//! A footer is written behind the last page of its segment. That of a segment which is still open
//! is written at each checkpoint, over the one before, as the summaries that name its pages are not
//! needed any more then, and may be overwritten.

use bytes::{Buf, BufMut};
use placement::Placement;
use units::{EraseBlockId, StreamId};

use super::below::Op;
use super::disk::NOWHERE;
use super::layout::VolumeLayout;
use super::volume::LogVolume;
use crate::hash::{UNKNOWN, is_sealed, seal};
use crate::{Actions, Data};

const MAGIC: u64 = u64::from_le_bytes(*b"FWLOGFOT");
pub(super) const FOOTER_HEADER_BYTES: u32 = 64;
pub(super) const FOOTER_ENTRY_BYTES: u32 = 14;

/// Gives the pages of the footer of a segment with so many pages in all.
pub(super) const fn footer_pages(page_bytes: u32, segment_pages: u32) -> u32 {
    segment_pages.div_ceil(entries_per_page(page_bytes) + 1)
}

/// Gives the entries in a page of a footer.
pub(super) const fn entries_per_page(page_bytes: u32) -> u32 {
    (page_bytes - FOOTER_HEADER_BYTES) / FOOTER_ENTRY_BYTES
}

/// Entry of a footer for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FooterEntry {
    /// Logical page; [`NOWHERE`] for padding, and for pages that were not needed when the volume
    /// was opened.
    pub lpn: u32,
    /// Folded checksum.
    pub check: u32,
    /// Number of the entry of the log that placed it: of two pages with one LPN, the one with the
    /// greater number is newer. Below 2^48, which no device lives to reach.
    pub number: u64,
}

impl FooterEntry {
    pub const NONE: Self = Self { lpn: NOWHERE, check: UNKNOWN, number: 0 };
}

/// Head of a page of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FooterHead {
    /// Epoch in which it was written.
    pub epoch: u64,
    /// Number of the first entry of that epoch. Entries from there on in footers of earlier epochs
    /// were never durable.
    pub began: u64,
    /// Number of the entry with which the segment was opened.
    pub opened: u64,
    /// Index of the page in its footer.
    pub index: u32,
}

pub(super) fn encode_footer(volume: u64, head: FooterHead, entries: &[FooterEntry], to: &mut [u8]) {
    to.fill(0);
    let mut at = &mut to[8..];
    at.put_u64_le(MAGIC);
    for field in [volume, head.epoch, head.began, head.opened] {
        at.put_u64_le(field);
    }
    at.put_u32_le(head.index);
    at.put_u32_le(entries.len() as u32);
    at.put_u64_le(0);
    for entry in entries {
        at.put_u32_le(entry.lpn);
        at.put_u32_le(entry.check);
        at.put_uint_le(entry.number, 6);
    }
    seal(volume, to);
}

/// Gives the identity of the volume of a footer's page; none if it is no such page. It is for a
/// reader without a superblock.
pub(super) fn identity_of_footer(from: &[u8]) -> Option<u64> {
    let mut at = &from[8..];
    let is_footer = at.get_u64_le() == MAGIC;
    let volume = at.get_u64_le();
    (is_footer && is_sealed(volume, from)).then_some(volume)
}

/// Reads a page of a footer; none if it is not valid.
pub(super) fn decode_footer(volume: u64, from: &[u8]) -> Option<(FooterHead, Vec<FooterEntry>)> {
    if identity_of_footer(from)? != volume {
        return None;
    }
    let mut at = &from[24..];
    let [epoch, began, opened] = std::array::from_fn(|_| at.get_u64_le());
    let (index, count) = (at.get_u32_le(), at.get_u32_le());
    at.advance(8);
    if count as usize > at.len() / FOOTER_ENTRY_BYTES as usize {
        return None;
    }
    let entry =
        |_| FooterEntry { lpn: at.get_u32_le(), check: at.get_u32_le(), number: at.get_uint_le(6) };
    let entries = (0..count).map(entry).collect();
    Some((FooterHead { epoch, began, opened, index }, entries))
}

/// Gives all pages of a footer, one after the other.
pub(super) fn footer_bytes(
    page_bytes: u32,
    volume: u64,
    head: FooterHead,
    entries: &[FooterEntry],
) -> Vec<u8> {
    let per = entries_per_page(page_bytes) as usize;
    let mut bytes = vec![0; entries.len().div_ceil(per) * page_bytes as usize];
    for ((index, entries), to) in
        (0..).zip(entries.chunks(per)).zip(bytes.chunks_mut(page_bytes as usize))
    {
        encode_footer(volume, FooterHead { index, ..head }, entries, to);
    }
    bytes
}

/// A segment that a stream writes to, or wrote to last.
#[derive(Clone, Debug, Default)]
struct Open {
    segment: u32,
    opened: u64,
    entries: Vec<FooterEntry>,
    /// True if its footer on the device, or on its way there, is not complete.
    has_changed: bool,
}

/// A write of a footer, or of as much of it as a command may have.
#[derive(Debug)]
struct Piece {
    segment: u32,
    offset: u64,
    length: u32,
    data: Data,
    /// Turn of the commit that waits for it.
    turn: u8,
}

/// Contents of the footers of open segments, by stream; empty if summaries lie in segments, as they
/// tell the same.
#[derive(Debug, Default)]
pub(super) struct Footers {
    open: Vec<Open>,
    /// Segments of pieces that are on their way.
    writing: Vec<u32>,
    /// Pieces that wait until an earlier version of the same footer is on the device: of two writes
    /// to one place that are under way together either may be the last.
    late: Vec<Piece>,
    pages_per_segment: usize,
    /// Epoch, followed by the number of its first entry.
    epoch: u64,
    began: u64,
}

impl Footers {
    pub fn new(streams: usize, pages_per_segment: u32, epoch: u64, began: u64) -> Self {
        let pages_per_segment = pages_per_segment as usize;
        let open = vec![Open::default(); streams];
        Self { open, pages_per_segment, epoch, began, ..Self::default() }
    }

    fn is_written(&self, segment: u32) -> bool {
        !self.writing.is_empty() && self.writing.contains(&segment)
            || self.late.iter().any(|piece| piece.segment == segment)
    }

    /// Goes on in a segment of a stream, in which these pages lie.
    pub fn goes_on(
        &mut self,
        stream: StreamId,
        segment: u32,
        opened: u64,
        entries: Vec<FooterEntry>,
    ) {
        // Recovery has written the footer as it was.
        self.open[stream.index()] = Open { segment, opened, entries, has_changed: false };
    }

    fn begin(&mut self, stream: StreamId, segment: u32, opened: u64) {
        let open = &mut self.open[stream.index()];
        assert!(!open.has_changed, "the footer of the segment before was written");
        open.segment = segment;
        open.opened = opened;
        open.entries.clear();
        open.entries.resize(self.pages_per_segment, FooterEntry::NONE);
    }

    #[inline]
    fn add(&mut self, stream: StreamId, place: u32, entry: FooterEntry) {
        let open = &mut self.open[stream.index()];
        open.entries[place as usize] = entry;
        open.has_changed = true;
    }
}

impl<P: Placement> LogVolume<P> {
    /// Notes a page for its footer, before the log has its entry; the first page of a segment,
    /// after the log has the segment's entry.
    pub fn keep_for_footer(&mut self, lpn: u32, ppn: u32, check: u32) {
        let stream = self.stream_of(ppn);
        let place = ppn % self.layout.pages_per_segment;
        self.footers.add(stream, place, FooterEntry { lpn, check, number: self.log.next });
    }

    /// Begins the footer of a segment that a stream begins to write to. If the one before was
    /// closed early its footer is written now.
    pub fn begin_footer(&mut self, segment: u32, opened: u64, actions: &mut Actions) {
        let stream = self.ftl.stream_of(EraseBlockId(segment));
        self.write_footer(stream, actions);
        self.footers.begin(stream, segment, opened);
    }

    /// Writes the footers of all open segments that are not complete on the device.
    pub fn write_footers(&mut self, actions: &mut Actions) {
        for stream in 0..self.footers.open.len() as u32 {
            self.write_footer(StreamId(stream), actions);
        }
    }

    /// Writes the footer of the segment that a stream writes to, unless it is complete on the
    /// device.
    pub fn write_footer(&mut self, stream: StreamId, actions: &mut Actions) {
        let Some((segment, footer)) = self.take_footer(stream) else { return };
        let at = self.layout.footer(segment);
        let page = self.layout.page_bytes;
        let most = self.below.most_pages(usize::MAX, page) as u32;
        for from in (0..self.layout.footer_pages()).step_by(most as usize) {
            let to = self.layout.footer_pages().min(from + most);
            let piece = Piece {
                segment,
                offset: at + u64::from(from) * u64::from(page),
                length: (to - from) * page,
                data: footer.slice((from * page) as usize..(to * page) as usize),
                turn: self.commit.count_write(),
            };
            if self.footers.is_written(segment) {
                self.footers.late.push(piece);
            } else {
                self.send_piece(piece, actions);
            }
        }
    }

    fn send_piece(&mut self, piece: Piece, actions: &mut Actions) {
        let Piece { segment, offset, length, data, turn } = piece;
        self.footers.writing.push(segment);
        self.below.write(Op::Footer { turn, segment }, offset, length, data, actions);
    }

    /// Notes that a piece of a footer is on the device: a later version of it may follow.
    pub fn footer_ended(&mut self, turn: u8, segment: u32, actions: &mut Actions) {
        self.commit.ended(turn);
        let ended = self.footers.writing.iter().position(|&one| one == segment);
        self.footers.writing.swap_remove(ended.expect("it was sent"));
        if !self.footers.late.is_empty() && !self.footers.writing.contains(&segment) {
            let (now, late) = std::mem::take(&mut self.footers.late)
                .into_iter()
                .partition(|piece: &Piece| piece.segment == segment);
            self.footers.late = late;
            let now: Vec<Piece> = now;
            now.into_iter().for_each(|piece| self.send_piece(piece, actions));
        }
    }

    /// Gives the footer of the segment that a stream writes to, if it can go with the segment's
    /// last pages in one write.
    pub fn footer_behind(&mut self, stream: StreamId, run_bytes: u32) -> Option<Data> {
        let segment = self.footers.open.get(stream.index())?.segment;
        let footer_bytes = self.layout.footer_pages() * self.layout.page_bytes;
        let fits = run_bytes + footer_bytes <= self.below.limits().most_bytes;
        if !fits || self.footers.is_written(segment) {
            return None;
        }
        self.take_footer(stream).map(|(_, footer)| footer)
    }

    /// Takes the footer of the segment that a stream writes to, to be written now; none if it is
    /// complete on the device.
    fn take_footer(&mut self, stream: StreamId) -> Option<(u32, Data)> {
        let Footers { open, epoch, began, .. } = &mut self.footers;
        let open = open.get_mut(stream.index()).filter(|open| open.has_changed)?;
        open.has_changed = false;
        self.counts.footer_pages += u64::from(self.layout.footer_pages());
        if self.is_absent {
            return Some((open.segment, Data::Absent));
        }
        let head = FooterHead { epoch: *epoch, began: *began, opened: open.opened, index: 0 };
        let bytes = footer_bytes(self.layout.page_bytes, self.volume, head, &open.entries);
        Some((open.segment, Data::Whole(bytes.into())))
    }
}

/// Gives the footers' entries of the pages that are mapped to some segments, in the order of the
/// segments. All get the same number: it is enough to know that they are older than new pages.
pub(super) fn entries_of_mapped(
    layout: &VolumeLayout,
    segments: &[u32],
    map: &[u32],
    check: impl Fn(u32) -> u32,
    number: u64,
) -> Vec<Vec<FooterEntry>> {
    let mut slots = vec![NOWHERE; layout.segments as usize];
    (0..).zip(segments).for_each(|(slot, &segment)| slots[segment as usize] = slot);
    let none = vec![FooterEntry::NONE; layout.pages_per_segment as usize];
    let mut entries = vec![none; segments.len()];
    let physical = layout.segments * layout.pages_per_segment;
    for (lpn, &ppn) in (0..).zip(map).filter(|&(_, &ppn)| ppn < physical) {
        let slot = slots[layout.segment_of(ppn) as usize];
        if slot != NOWHERE {
            let place = (ppn % layout.pages_per_segment) as usize;
            entries[slot as usize][place] = FooterEntry { lpn, check: check(lpn), number };
        }
    }
    entries
}
