//! Content of a slot, byte by byte as `docs/formats/stable_buffer.md` draws it: a page, and a
//! header in its first and in its last sector, so that one bad sector never takes the number of the
//! page with it. The bytes of the page in whose place a header lies are kept beside the other
//! header.

use bytes::{Buf, BufMut, BytesMut};
use twox_hash::XxHash3_64;

use super::NAME;
use super::disk::{Geometry, HeaderPlace};
use crate::{Data, LayerError};

const MAGIC: [u8; 4] = *b"FWSL";
const VERSION: u16 = 3;
/// Bytes of a slot's header.
pub const HEADER_BYTES: usize = 48;
/// Bytes of a header that the checksum covers beside the page.
const COVERED: usize = 40;
/// Place of a header's own checksum, which covers the same bytes except itself.
const OWN: std::ops::Range<usize> = 12..16;
/// Last sequence number: no device lives to reach it.
pub const LAST_SEQUENCE: u64 = u64::MAX >> 1;

/// Header of a page in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identity of the volume.
    pub identity: u64,
    /// Slot in which it lies.
    pub slot: u32,
    /// Number of the page on the device, which is its destination.
    pub page: u64,
    /// Sequence number: of two slots with the same page, the one with the greater number is newer.
    pub sequence: u64,
    /// True for a mark: the page's bytes are not here, as they had rotted, and the page is bad
    /// until it is written again.
    pub is_mark: bool,
}

/// Kind of content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing of this volume: the slot was never written, or wiped.
    Nothing,
    /// Parts of writes from different times: a power cut tore a write.
    Torn,
    /// A page, and its checksum.
    Whole {
        header: Header,
        checksum: u64,
        /// True if one of its headers is damaged.
        is_damaged: bool,
    },
    /// A version of a page whose bytes cannot be read, or have rotted.
    Bad(Header),
    /// Neither header is sound or can be read: they may have been those of any page.
    Unknown,
}

/// Sectors of a slot that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    pub first: bool,
    pub last: bool,
    pub all: bool,
}

impl Readable {
    pub const ALL: Self = Self { first: true, last: true, all: true };
}

/// One of the two headers of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    /// Zeros, or the header of another volume.
    None,
    Sound(Header),
    /// The header cannot be read, or is of no volume.
    Damaged,
}

impl Header {
    /// Gives its bytes in a slot, with a page of this checksum.
    fn to_bytes(self, page_checksum: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut to = &mut bytes[..];
        to.put_slice(&MAGIC);
        to.put_u16_le(VERSION);
        to.put_u16_le(u16::from(self.is_mark));
        to.put_u32_le(self.identity as u32);
        to.put_u32_le(0);
        to.put_u64_le(self.page);
        to.put_u64_le(self.sequence);
        to.put_u32_le(self.slot);
        let own = own_checksum(&bytes);
        bytes[OWN].copy_from_slice(&own.to_le_bytes());
        let checksum = whole_checksum(self.identity, &bytes, page_checksum);
        bytes[COVERED..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn get(identity: u64, slot: u32, bytes: &[u8]) -> Copy {
        if bytes.iter().all(|&byte| byte == 0) {
            return Copy::None;
        }
        let mut from = bytes;
        let mut magic = [0; MAGIC.len()];
        from.copy_to_slice(&mut magic);
        let (version, kind) = (from.get_u16_le(), from.get_u16_le());
        let (half, own) = (from.get_u32_le(), from.get_u32_le());
        let is_sound = magic == MAGIC && version == VERSION && own == own_checksum(bytes);
        if !is_sound || kind > 1 {
            return Copy::Damaged;
        }
        if half != identity as u32 {
            return Copy::None;
        }
        let (page, sequence, own_slot) = (from.get_u64_le(), from.get_u64_le(), from.get_u32_le());
        // A header in another slot than its own tells that another write is missing.
        if own_slot != slot {
            return Copy::Damaged;
        }
        Copy::Sound(Self { identity, slot, page, sequence, is_mark: kind == 1 })
    }

    /// Refuses a header that no volume writes.
    ///
    /// # Errors
    /// [`LayerError::Corrupt`].
    pub fn check(&self, geometry: &Geometry) -> Result<(), LayerError> {
        let pages = geometry.homes_bytes / u64::from(geometry.page_bytes);
        if self.page < pages && (1..LAST_SEQUENCE).contains(&self.sequence) {
            return Ok(());
        }
        let Self { slot, page, sequence, .. } = self;
        let reason = format!("slot {slot} says page {page} of {pages}, sequence {sequence}");
        Err(LayerError::Corrupt { layer: NAME, offset: geometry.slot_offset(*slot), reason })
    }
}

/// Gives the checksum of a header's own bytes, without those of its checksums; half of it is kept.
fn own_checksum(header: &[u8]) -> u32 {
    let mut bytes = [0; COVERED - 4];
    bytes[..OWN.start].copy_from_slice(&header[..OWN.start]);
    bytes[OWN.start..].copy_from_slice(&header[OWN.end..COVERED]);
    XxHash3_64::oneshot(&bytes) as u32
}

/// Gives the checksum of a header and its page: of the header's bytes and the page's checksum
/// behind them.
fn whole_checksum(seed: u64, header: &[u8], page_checksum: u64) -> u64 {
    let mut bytes = [0; COVERED + 8];
    bytes[..COVERED].copy_from_slice(&header[..COVERED]);
    bytes[COVERED..].copy_from_slice(&page_checksum.to_le_bytes());
    XxHash3_64::oneshot_with_seed(seed, &bytes)
}

impl Geometry {
    /// Gives the bytes at the end of each page that the host leaves zero.
    pub const fn reserved_bytes(&self) -> usize {
        match self.layout {
            HeaderPlace::Beside => 0,
            HeaderPlace::Embedded => 2 * HEADER_BYTES,
        }
    }

    /// Gives the checksum of a page, as the header of its slot covers it.
    pub fn page_checksum(&self, page: &Data) -> u64 {
        let covered = page.slice(0..self.page_bytes as usize - self.reserved_bytes());
        XxHash3_64::oneshot(&covered.joined().unwrap_or_default())
    }

    /// Gives the bytes of a slot: headers and page, of this checksum, in one command. Absent if the
    /// page is.
    pub fn slot_data(&self, header: &Header, checksum: u64, page: &Data) -> Data {
        if page.is_absent() {
            return Data::Absent;
        }
        let (size, header) = (self.page_bytes as usize, header.to_bytes(checksum));
        let put = |to: &mut BytesMut, range: std::ops::Range<usize>| {
            page.slice(range).pieces().iter().for_each(|piece| to.extend_from_slice(piece));
        };
        match self.layout {
            HeaderPlace::Beside => {
                let mut sector = BytesMut::with_capacity(self.sector_bytes as usize);
                sector.put_slice(&header);
                put(&mut sector, size - HEADER_BYTES..size);
                sector.resize(self.sector_bytes as usize, 0);
                let mut data = Data::Whole(sector.freeze());
                data.append(page.slice(0..size - HEADER_BYTES));
                data.append(Data::copy_of(&header));
                data
            }
            HeaderPlace::Embedded => {
                let mut whole = BytesMut::with_capacity(size);
                whole.put_slice(&header);
                put(&mut whole, HEADER_BYTES..size - 2 * HEADER_BYTES);
                put(&mut whole, 0..HEADER_BYTES);
                whole.put_slice(&header);
                Data::Whole(whole.freeze())
            }
        }
    }

    /// Gives the page from the bytes of a whole slot.
    pub fn page_of(&self, slot: &Data) -> Data {
        if slot.is_absent() {
            return Data::Absent;
        }
        let (length, page) = (slot.len(), self.page_bytes as usize);
        match self.layout {
            HeaderPlace::Beside => {
                let mut whole = slot.slice(length - page..length - HEADER_BYTES);
                whole.append(slot.slice(HEADER_BYTES..2 * HEADER_BYTES));
                whole
            }
            HeaderPlace::Embedded => {
                let mut whole = slot.slice(page - 2 * HEADER_BYTES..page - HEADER_BYTES);
                whole.append(slot.slice(HEADER_BYTES..page - 2 * HEADER_BYTES));
                whole.append(Data::zeros(2 * HEADER_BYTES));
                whole
            }
        }
    }

    /// Gives the sectors of a slot in which its headers are.
    pub fn header_sectors(&self, slot: u32) -> [u64; 2] {
        let first = self.slot_offset(slot);
        [first, first + self.slot_bytes() - u64::from(self.sector_bytes)]
    }

    /// Gives the content of those sectors where the page's bytes have rotted.
    pub fn mark_sectors(&self, header: &Header) -> [Vec<u8>; 2] {
        let header = Header { is_mark: true, ..*header }.to_bytes(0);
        let sector = vec![0; self.sector_bytes as usize];
        let (mut first, mut last) = (sector.clone(), sector);
        first[..HEADER_BYTES].copy_from_slice(&header);
        let at = last.len() - HEADER_BYTES;
        last[at..].copy_from_slice(&header);
        [first, last]
    }

    /// Finds out the content of a slot from its bytes.
    pub fn slot_content(
        &self,
        identity: u64,
        slot: u32,
        bytes: &[u8],
        readable: Readable,
    ) -> Content {
        let copy = |bytes: &[u8], is_readable: bool| match is_readable {
            true => Header::get(identity, slot, bytes),
            false => Copy::Damaged,
        };
        let first = copy(&bytes[..HEADER_BYTES], readable.first);
        let last = copy(&bytes[bytes.len() - HEADER_BYTES..], readable.last);
        let (header, is_damaged) = match (first, last) {
            (Copy::Damaged, Copy::Damaged) => return Content::Unknown,
            // A slot that lacks a header was not durable, and another write does not complete it.
            (Copy::None, Copy::None | Copy::Damaged) | (Copy::Damaged, Copy::None) => {
                return Content::Nothing;
            }
            (Copy::None, _) | (_, Copy::None) => return Content::Torn,
            (Copy::Sound(one), Copy::Sound(other)) => {
                if (one.page, one.sequence) != (other.page, other.sequence) {
                    return Content::Torn;
                }
                (if other.is_mark { other } else { one }, false)
            }
            (Copy::Sound(one), Copy::Damaged) | (Copy::Damaged, Copy::Sound(one)) => (one, true),
        };
        if header.is_mark || !readable.all {
            return Content::Bad(header);
        }
        let checksum = self.page_checksum(&self.page_of(&Data::copy_of(bytes)));
        let expected = header.to_bytes(checksum);
        let fit = [bytes.starts_with(&expected), bytes.ends_with(&expected)];
        if fit.contains(&true) {
            Content::Whole { header, checksum, is_damaged: fit.contains(&false) }
        } else if is_damaged {
            // A power cut leaves no header that was never written.
            Content::Bad(header)
        } else {
            Content::Torn
        }
    }

    /// Mends the headers of a whole slot that are damaged.
    pub fn mend(&self, header: &Header, checksum: u64, bytes: &mut [u8]) {
        let (header, last) = (header.to_bytes(checksum), bytes.len() - HEADER_BYTES);
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        bytes[last..].copy_from_slice(&header);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Limits;

    const LIMITS: Limits =
        Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1 << 16 };
    const HEADER: Header = Header { identity: 5, slot: 2, page: 3, sequence: 9, is_mark: false };

    /// Gives a geometry of each layout, a page, and its slot.
    fn slots() -> impl Iterator<Item = (Geometry, Vec<u8>, u64, Vec<u8>)> {
        [HeaderPlace::Beside, HeaderPlace::Embedded].into_iter().map(|layout| {
            let geometry = Geometry::at_end(LIMITS, 4096, 16, layout).unwrap();
            let mut page: Vec<u8> = (0..4096_u32).map(|at| (at / 7 % 251 + 1) as u8).collect();
            page[4096 - geometry.reserved_bytes()..].fill(0);
            let pieces = Data::Pieces(vec![
                Bytes::copy_from_slice(&page[..1000]),
                Bytes::copy_from_slice(&page[1000..]),
            ]);
            let checksum = geometry.page_checksum(&pieces);
            let slot = geometry.slot_data(&HEADER, checksum, &pieces).joined().unwrap();
            assert_eq!(slot.len() as u64, geometry.slot_bytes());
            (geometry, page, checksum, slot.to_vec())
        })
    }

    #[test]
    fn a_slot_is_read_as_it_was_written() {
        for (geometry, page, checksum, slot) in slots() {
            let whole = Content::Whole { header: HEADER, checksum, is_damaged: false };
            assert_eq!(geometry.slot_content(5, 2, &slot, Readable::ALL), whole);
            assert_eq!(
                geometry.slot_content(6, 2, &slot, Readable::ALL),
                Content::Nothing,
                "of another volume"
            );
            assert_eq!(
                geometry.slot_content(5, 3, &slot, Readable::ALL),
                Content::Unknown,
                "it was written elsewhere"
            );
            let read = geometry.page_of(&Data::copy_of(&slot));
            assert_eq!(read.joined().unwrap(), page);
        }
    }

    #[test]
    fn a_slot_is_torn_whichever_of_its_sectors_is_another() {
        for (geometry, _, checksum, slot) in slots() {
            for sector in 0..slot.len() / 512 {
                let range = sector * 512..(sector + 1) * 512;
                let mut torn = slot.clone();
                torn[range.clone()].fill(0);
                let found = geometry.slot_content(5, 2, &torn, Readable::ALL);
                assert_eq!(found, Content::Torn, "torn at sector {sector}");
                let newer = Header { sequence: 30, page: 4, ..HEADER };
                let other = geometry.slot_data(&newer, checksum, &Data::zeros(4096));
                torn[range.clone()].copy_from_slice(&other.joined().unwrap()[range]);
                let found = geometry.slot_content(5, 2, &torn, Readable::ALL);
                assert_eq!(found, Content::Torn, "torn at sector {sector}");
            }
        }
    }

    /// A bit of a header costs nothing, and a sector of a slot never costs the page's number.
    #[test]
    fn a_bad_sector_leaves_the_number_of_the_page() {
        for (geometry, _, checksum, slot) in slots() {
            let whole = Content::Whole { header: HEADER, checksum, is_damaged: true };
            for bit in 0..8 * HEADER_BYTES {
                for at in [bit / 8, slot.len() - HEADER_BYTES + bit / 8] {
                    let mut rotten = slot.clone();
                    rotten[at] ^= 1 << (bit % 8);
                    let found = geometry.slot_content(5, 2, &rotten, Readable::ALL);
                    assert_eq!(found, whole, "bit {bit} at byte {at}");
                    geometry.mend(&HEADER, checksum, &mut rotten);
                    assert_eq!(rotten, slot);
                }
            }
            for sector in 0..slot.len() / 512 {
                let (first, last) = (sector > 0, sector + 1 < slot.len() / 512);
                let readable = Readable { first, last, all: false };
                let mut bytes = slot.clone();
                bytes[sector * 512..(sector + 1) * 512].fill(7);
                let found = geometry.slot_content(5, 2, &bytes, readable);
                assert_eq!(found, Content::Bad(HEADER), "sector {sector}");
            }
            let none = Readable { first: false, last: false, all: false };
            assert_eq!(geometry.slot_content(5, 2, &slot, none), Content::Unknown);
        }
    }

    /// One of its two sectors is enough, as they are not written at once.
    #[test]
    fn a_mark_says_that_a_page_is_bad() {
        for (geometry, _, _, slot) in slots() {
            let [first, last] = geometry.mark_sectors(&HEADER);
            let mark = Content::Bad(Header { is_mark: true, ..HEADER });
            let mut marked = slot.clone();
            marked[..512].copy_from_slice(&first);
            assert_eq!(geometry.slot_content(5, 2, &marked, Readable::ALL), mark);
            let end = slot.len() - 512;
            marked[end..].copy_from_slice(&last);
            assert_eq!(geometry.slot_content(5, 2, &marked, Readable::ALL), mark);
            marked[..512].copy_from_slice(&slot[..512]);
            assert_eq!(geometry.slot_content(5, 2, &marked, Readable::ALL), mark);
        }
    }
}
