//! The structures on the device, as docs/formats/log_volume.md draws them. All numbers are little
//! endian; each structure begins with the XXH3-64 of all that follows, with the volume's identity
//! for its seed.

use bytes::{Buf, BufMut};

use super::layout::VolumeLayout;
use crate::hash::{is_sealed, seal};

pub(super) const SUPERBLOCK_BYTES: usize = 64;
const ROOT_HEADER_BYTES: usize = 72;
pub(super) const SUMMARY_HEADER_BYTES: usize = 64;
pub(super) const SUMMARY_ENTRY_BYTES: usize = 16;
pub(super) const TABLE_HEADER_BYTES: usize = 40;
pub(super) const SEGMENT_ENTRY_BYTES: usize = 16;

pub(super) const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"FWLOGVOL");
const ROOT_MAGIC: u64 = u64::from_le_bytes(*b"FWLOGROT");
const SUMMARY_MAGIC: u64 = u64::from_le_bytes(*b"FWLOGSUM");
const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"FWLOGTAB");
pub(super) const VERSION: u16 = 3;

/// Place of a logical page that holds nothing.
pub(super) const NOWHERE: u32 = u32::MAX;
/// Place of a logical page that is lost.
pub(super) const LOST: u32 = u32::MAX - 1;
/// Form of a volume, chosen when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// True if entries of the map hold checksums.
    pub keeps_checksums: bool,
    /// True if summaries lie in the segments, each behind its pages; then there is no ring.
    pub in_segments: bool,
}

impl Form {
    const CHECKSUMS: u16 = 1;
    const IN_SEGMENTS: u16 = 2;
    /// Flag: the volume's area lies on another device than its segments.
    const ASIDE: u16 = 4;

    fn flags(self) -> u16 {
        (u16::from(self.keeps_checksums) * Self::CHECKSUMS)
            | (u16::from(self.in_segments) * Self::IN_SEGMENTS)
    }

    const fn from_flags(flags: u16) -> Option<Self> {
        if flags & !(Self::CHECKSUMS | Self::IN_SEGMENTS) != 0 {
            return None;
        }
        Some(Self {
            keeps_checksums: flags & Self::CHECKSUMS != 0,
            in_segments: flags & Self::IN_SEGMENTS != 0,
        })
    }

    /// Gives the bytes of a root before the areas of the tables.
    pub const fn root_header_bytes(self) -> usize {
        ROOT_HEADER_BYTES + if self.in_segments { 8 } else { 0 }
    }

    /// Gives the bytes of an entry of the map.
    pub const fn map_entry_bytes(self) -> usize {
        if self.keeps_checksums { 8 } else { 4 }
    }
}

/// Sizes with which a volume was made: all else follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub page_bytes: u32,
    /// Pages of a segment, those of its footer included.
    pub segment_pages: u32,
    pub segments: u32,
    pub logical_pages: u32,
    pub ring_pages: u32,
    pub form: Form,
    /// First byte of the segments, if all else lies on another device; if none, they follow it.
    pub segments_at: Option<u64>,
}

/// Superblock: all that does not change while the volume keeps its size and its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub volume: u64,
    pub sizes: Sizes,
    /// First epoch in which physical pages had their present numbers: structures of earlier ones
    /// name other places.
    pub since: u64,
}

/// Reason why bytes are no superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoSuperblock {
    /// The superblock was made by an earlier program, in this version of the format.
    Older(u16),
    Other(String),
}

impl Superblock {
    pub fn encode(&self, to: &mut [u8]) {
        let mut at = &mut to[8..SUPERBLOCK_BYTES];
        at.put_u64_le(SUPERBLOCK_MAGIC);
        at.put_u16_le(VERSION);
        let aside = self.sizes.segments_at.map_or(0, |_| Form::ASIDE);
        at.put_u16_le(self.sizes.form.flags() | aside);
        at.put_u32_le(self.sizes.page_bytes);
        at.put_u64_le(self.volume);
        at.put_u32_le(self.sizes.segment_pages);
        at.put_u32_le(self.sizes.segments);
        at.put_u32_le(self.sizes.logical_pages);
        at.put_u32_le(self.sizes.ring_pages);
        at.put_u64_le(self.sizes.segments_at.unwrap_or(0));
        at.put_u64_le(self.since);
        seal(0, &mut to[..SUPERBLOCK_BYTES]);
    }

    /// Reads a superblock, or gives the reason why it is none.
    pub fn decode(from: &[u8]) -> Result<Self, NoSuperblock> {
        let other = |reason: String| Err(NoSuperblock::Other(reason));
        let bytes = &from[..SUPERBLOCK_BYTES];
        let mut at = &bytes[8..];
        if at.get_u64_le() != SUPERBLOCK_MAGIC {
            return other("there is no superblock".to_owned());
        }
        let version = at.get_u16_le();
        if !is_sealed(0, bytes) {
            return other("the checksum of the superblock is wrong".to_owned());
        }
        if version < VERSION {
            return Err(NoSuperblock::Older(version));
        }
        if version > VERSION {
            return other(format!(
                "its format is of version {version}, and this Flashwright knows version \
                 {VERSION}: use a newer one"
            ));
        }
        let flags = at.get_u16_le();
        let is_aside = flags & Form::ASIDE != 0;
        let form = Form::from_flags(flags & !Form::ASIDE)
            .ok_or_else(|| NoSuperblock::Other(format!("its form {flags:#06x} is unknown")))?;
        let page_bytes = at.get_u32_le();
        let volume = at.get_u64_le();
        let sizes = Sizes {
            page_bytes,
            segment_pages: at.get_u32_le(),
            segments: at.get_u32_le(),
            logical_pages: at.get_u32_le(),
            ring_pages: at.get_u32_le(),
            form,
            segments_at: Some(at.get_u64_le()).filter(|_| is_aside),
        };
        Ok(Self { volume, sizes, since: at.get_u64_le() })
    }
}

/// Head of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// Number, which grows by one with each root.
    pub number: u64,
    /// Number of the opening of the volume, which grows by one each time.
    pub epoch: u64,
    /// Number of an entry: all before it are durable.
    pub durable: u64,
    /// Number of the first summary that has to be replayed.
    pub replay_from: u64,
    /// Number of its first entry.
    pub replay_index: u64,
    /// Number of pages that the host had written.
    pub clock: u64,
    /// Physical page from which on that summary is looked for, where summaries lie in segments; or
    /// [`NOWHERE`] if none was written since.
    pub replay_at: u32,
    /// Area of the present version of each page of the tables; 0 if it was never written.
    pub areas: Vec<u8>,
}

impl Root {
    pub fn encode(&self, form: Form, volume: u64, to: &mut [u8]) {
        to.fill(0);
        let mut at = &mut to[8..];
        at.put_u64_le(ROOT_MAGIC);
        at.put_u64_le(volume);
        for field in
            [self.number, self.epoch, self.durable, self.replay_from, self.replay_index, self.clock]
        {
            at.put_u64_le(field);
        }
        if form.in_segments {
            at.put_u64_le(u64::from(self.replay_at));
        }
        for four in self.areas.chunks(4) {
            at.put_u8(four.iter().rev().fold(0, |byte, area| byte << 2 | area));
        }
        seal(volume, to);
    }

    /// Reads a root; none if it is not valid.
    pub fn decode(form: Form, volume: u64, tables: u32, from: &[u8]) -> Option<Self> {
        let mut at = &from[8..];
        if at.get_u64_le() != ROOT_MAGIC || at.get_u64_le() != volume || !is_sealed(volume, from) {
            return None;
        }
        let [number, epoch, durable, replay_from, replay_index, clock] =
            std::array::from_fn(|_| at.get_u64_le());
        let replay_at = if form.in_segments { at.get_u64_le() as u32 } else { NOWHERE };
        let areas: Vec<u8> =
            (0..tables as usize).map(|index| at[index / 4] >> (index % 4 * 2) & 3).collect();
        // No number is so large that sums of them could overflow.
        let is_sound = [number, epoch, durable, replay_from, replay_index, clock]
            .iter()
            .all(|&field| field < 1 << 62);
        (is_sound && areas.iter().all(|&area| area < 3)).then_some(Self {
            number,
            epoch,
            durable,
            replay_from,
            replay_index,
            clock,
            replay_at,
            areas,
        })
    }
}

/// One change; entries keep the order of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A logical page was written to a physical one.
    Placed { lpn: u32, ppn: u32, is_relocated: bool, check: u64 },
    /// Logical pages were trimmed.
    Trimmed { lpn: u32, pages: u64 },
    /// A logical page, which lay at a physical one, is lost.
    Lost { lpn: u32, ppn: u32 },
    /// A segment was taken for a stream.
    Opened { segment: u32, stream: u16, opened_at: u32 },
}

const TRIMMED: u32 = u32::MAX;
const OPENED: u32 = u32::MAX - 1;
const LOST_PAGE: u32 = u32::MAX - 2;
const RELOCATED: u32 = 1 << 31;

impl Entry {
    fn encode(self, to: &mut impl BufMut) {
        let (first, second, third) = match self {
            Self::Placed { lpn, ppn, is_relocated, check } => {
                (lpn, if is_relocated { ppn | RELOCATED } else { ppn }, check)
            }
            Self::Trimmed { lpn, pages } => (lpn, TRIMMED, pages),
            Self::Lost { lpn, ppn } => (lpn, LOST_PAGE, u64::from(ppn)),
            Self::Opened { segment, stream, opened_at } => {
                (segment, OPENED, u64::from(opened_at) << 32 | u64::from(stream))
            }
        };
        to.put_u32_le(first);
        to.put_u32_le(second);
        to.put_u64_le(third);
    }

    fn decode(from: &mut &[u8]) -> Self {
        let (first, second, third) = (from.get_u32_le(), from.get_u32_le(), from.get_u64_le());
        match second {
            TRIMMED => Self::Trimmed { lpn: first, pages: third },
            LOST_PAGE => Self::Lost { lpn: first, ppn: third as u32 },
            OPENED => Self::Opened {
                segment: first,
                stream: third as u16,
                opened_at: (third >> 32) as u32,
            },
            place => Self::Placed {
                lpn: first,
                ppn: place & !RELOCATED,
                is_relocated: place & RELOCATED != 0,
                check: third,
            },
        }
    }
}

/// Head of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SummaryHead {
    pub epoch: u64,
    /// Number, which grows by one with each summary; it gives the place in the ring.
    pub number: u64,
    /// Number of the first entry.
    pub first: u64,
    /// Number of an entry: all before it were durable when the summary was made.
    pub durable: u64,
    /// Segment of the next summary, if this one is in the last pages of its own.
    pub next: Option<u32>,
    /// Page behind the last copy of a summary in a segment; else 0.
    pub behind: u16,
}

pub(super) fn encode_summary(volume: u64, head: SummaryHead, entries: &[Entry], to: &mut [u8]) {
    to.fill(0);
    let mut at = &mut to[8..];
    at.put_u64_le(SUMMARY_MAGIC);
    for field in [volume, head.epoch, head.number, head.first, head.durable] {
        at.put_u64_le(field);
    }
    at.put_u16_le(entries.len() as u16);
    at.put_u16_le(head.behind);
    at.put_u32_le(head.next.map_or(0, |segment| segment + 1));
    entries.iter().for_each(|entry| entry.encode(&mut at));
    seal(volume, to);
}

/// Reads a summary; none if it is not valid.
pub(super) fn decode_summary(
    volume: u64,
    from: &[u8],
    entries: &mut Vec<Entry>,
) -> Option<SummaryHead> {
    let mut at = &from[8..];
    if at.get_u64_le() != SUMMARY_MAGIC || at.get_u64_le() != volume || !is_sealed(volume, from) {
        return None;
    }
    let [epoch, number, first, durable] = std::array::from_fn(|_| at.get_u64_le());
    let count = usize::from(at.get_u16_le());
    let behind = at.get_u16_le();
    let next = at.get_u32_le().checked_sub(1);
    let head = SummaryHead { epoch, number, first, durable, next, behind };
    if count > at.len() / SUMMARY_ENTRY_BYTES {
        return None;
    }
    entries.extend((0..count).map(|_| Entry::decode(&mut at)));
    Some(head)
}

/// Record of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// Number of the entry with which it was opened.
    pub opened: u64,
    /// Clock when it was opened.
    pub opened_at: u32,
    pub stream: u16,
    /// Pages written since then.
    pub filled: u16,
}

/// Gives a page of the tables: its head, and then what `fill` writes.
pub(super) fn encode_table(
    volume: u64,
    number: u64,
    index: u32,
    to: &mut [u8],
    fill: impl FnOnce(&mut &mut [u8]),
) {
    to.fill(0);
    let mut at = &mut to[8..];
    at.put_u64_le(TABLE_MAGIC);
    at.put_u64_le(volume);
    at.put_u64_le(number);
    at.put_u32_le(index);
    at.put_u32_le(0);
    fill(&mut at);
    seal(volume, to);
}

/// Gives the content of a page of the tables; none if it is another page.
pub(super) fn decode_table(volume: u64, newest: u64, index: u32, from: &[u8]) -> Option<&[u8]> {
    let mut at = &from[8..];
    let is_this = at.get_u64_le() == TABLE_MAGIC
        && at.get_u64_le() == volume
        && at.get_u64_le() <= newest
        && at.get_u32_le() == index;
    (is_this && is_sealed(volume, from)).then_some(&from[TABLE_HEADER_BYTES..])
}

impl Segment {
    pub fn encode(self, to: &mut impl BufMut) {
        to.put_u64_le(self.opened);
        to.put_u32_le(self.opened_at);
        to.put_u16_le(self.stream);
        to.put_u16_le(self.filled);
    }

    pub fn decode(from: &mut &[u8]) -> Self {
        Self {
            opened: from.get_u64_le(),
            opened_at: from.get_u32_le(),
            stream: from.get_u16_le(),
            filled: from.get_u16_le(),
        }
    }
}

/// Makes page `index` of the tables, from the segments and from `map`, which gives the place of a
/// logical page and its folded checksum.
pub(super) fn make_table(
    layout: &VolumeLayout,
    volume: u64,
    number: u64,
    index: u32,
    to: &mut [u8],
    map: impl Fn(u32) -> (u32, u32),
    segments: &[Segment],
) {
    encode_table(volume, number, index, to, |at| {
        if index < layout.map_tables {
            for (place, check) in layout.lpns_of(index).map(map) {
                at.put_u32_le(place);
                if layout.form.keeps_checksums {
                    at.put_u32_le(check);
                }
            }
        } else {
            layout.segments_of(index).for_each(|segment| segments[segment as usize].encode(at));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut page = vec![7; 512];
        let sizes = Sizes {
            page_bytes: 512,
            segment_pages: 16,
            segments: 20,
            logical_pages: 200,
            ring_pages: 8,
            form: Form { keeps_checksums: true, in_segments: true },
            segments_at: None,
        };
        for segments_at in [Some(0), Some(1 << 40), None] {
            let sizes = Sizes { segments_at, ..sizes };
            let superblock = Superblock { volume: 5, sizes, since: 9 };
            superblock.encode(&mut page);
            assert_eq!(Superblock::decode(&page), Ok(superblock));
        }
        let root = Root {
            number: 3,
            epoch: 2,
            durable: 77,
            replay_from: 6,
            replay_index: 70,
            clock: 50,
            replay_at: 31,
            areas: vec![0, 1, 2, 2, 1, 0, 2],
        };
        root.encode(sizes.form, 5, &mut page);
        assert_eq!(Root::decode(sizes.form, 5, 7, &page), Some(root.clone()));
        assert_eq!(Root::decode(sizes.form, 6, 7, &page), None, "another volume's");
        let ring = Form { in_segments: false, ..sizes.form };
        root.encode(ring, 5, &mut page);
        let found = Root::decode(ring, 5, 7, &page);
        assert_eq!(found, Some(Root { replay_at: NOWHERE, ..root }));
        let entries = [
            Entry::Placed { lpn: 3, ppn: 9, is_relocated: true, check: u64::MAX },
            Entry::Placed { lpn: 4, ppn: 0, is_relocated: false, check: 0 },
            Entry::Trimmed { lpn: 0, pages: 1 << 40 },
            Entry::Lost { lpn: 8, ppn: (1 << 31) - 17 },
            Entry::Opened { segment: 1, stream: 65_535, opened_at: u32::MAX },
        ];
        let head =
            SummaryHead { epoch: 1, number: 2, first: 3, durable: 4, next: Some(0), behind: 9 };
        encode_summary(5, head, &entries, &mut page);
        let mut read = Vec::new();
        assert_eq!((decode_summary(5, &page, &mut read), &read[..]), (Some(head), &entries[..]));
        for bit in [0, 8 * 9, 8 * 63 + 3, 8 * 120, 8 * 511] {
            let mut wrong = page.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_summary(5, &wrong, &mut Vec::new()), None, "bit {bit}");
        }
    }
}
