//! What lies on the device: the superblock and the slots, byte by byte as
//! `docs/formats/stable_buffer.md` draws them.

use bytes::{Buf, BufMut, BytesMut};
use twox_hash::XxHash3_64;

use super::NAME;
use crate::{Data, LayerError, Limits};

const SUPERBLOCK_MAGIC: [u8; 8] = *b"FWSTBUF\0";
const SLOT_MAGIC: [u8; 4] = *b"FWSL";
const VERSION: u16 = 2;
/// Of a superblock whose area lies on a device of its own: older programs do not know such.
const VERSION_ASIDE: u16 = 3;
/// Volumes that it made are opened, too, and slots that it wrote are read.
const FIRST_VERSION: u16 = 1;
/// Bytes of the superblock that its checksum covers.
const SUPERBLOCK_COVERED: usize = 56;
/// Bytes of a slot's header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of a header that the checksum covers beside the page.
const HEADER_COVERED: usize = 32;
/// Bytes of a header that tell of the header alone: their own checksum is between them.
const HEADER_CHECK: std::ops::Range<usize> = 12..16;
/// Sequence numbers end here: no device lives to see it.
const LAST_SEQUENCE: u64 = u64::MAX >> 1;

/// Where a slot's header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderPlace {
    /// In a sector of its own before the page.
    Beside,
    /// In the last bytes of the page, which whoever writes it leaves zero (STABLEBUFFER 2.2).
    Embedded,
}

/// Where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Of the device.
    pub sector_bytes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Slots.
    pub slots: u32,
    /// Where a slot's header is.
    pub layout: HeaderPlace,
    /// First byte of the area: behind the last page that can be addressed from above, or where the
    /// second device begins.
    pub area_offset: u64,
    /// Bytes that can be addressed from above: whole pages.
    pub homes_bytes: u64,
    /// Whether the area lies on a second device.
    pub is_aside: bool,
}

impl Geometry {
    /// The area at the end of a device.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`] if no page is left before it.
    pub fn at_end(
        limits: Limits,
        page_bytes: u32,
        slots: u32,
        layout: HeaderPlace,
    ) -> Result<Self, LayerError> {
        let mut geometry = Self::nowhere(limits, page_bytes, slots, layout);
        let (page, area) = (u64::from(page_bytes), geometry.area_bytes());
        let needed = area.next_multiple_of(page) + page;
        if limits.capacity_bytes < needed {
            let remedy = "take a smaller size=, or a larger device";
            return Err(LayerError::TooSmall {
                layer: NAME,
                needed,
                there: limits.capacity_bytes,
                remedy,
            });
        }
        geometry.area_offset = (limits.capacity_bytes - area) / page * page;
        geometry.homes_bytes = geometry.area_offset;
        Ok(geometry)
    }

    /// The area at the end, or from byte `staging` on, where a second device begins.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`] if no page is left before it, or it is larger than its device.
    pub fn place(
        limits: Limits,
        staging: Option<u64>,
        page_bytes: u32,
        slots: u32,
        layout: HeaderPlace,
    ) -> Result<Self, LayerError> {
        let Some(staging) = staging else { return Self::at_end(limits, page_bytes, slots, layout) };
        let mut geometry = Self::nowhere(limits, page_bytes, slots, layout);
        let (page, area) = (u64::from(page_bytes), geometry.area_bytes());
        let there = limits.capacity_bytes.saturating_sub(staging);
        let too_small = |needed, there, remedy| {
            Err(LayerError::TooSmall { layer: NAME, needed, there, remedy })
        };
        if there < area {
            return too_small(area, there, "take a smaller size=, or a larger staging device");
        }
        if staging < page {
            return too_small(page, staging, "take a larger device for the pages' homes");
        }
        geometry.area_offset = staging;
        geometry.homes_bytes = staging / page * page;
        geometry.is_aside = true;
        Ok(geometry)
    }

    /// Most slots that an area of `area_bytes` has.
    pub fn most_slots(
        limits: Limits,
        area_bytes: u64,
        page_bytes: u32,
        layout: HeaderPlace,
    ) -> u64 {
        let none = Self::nowhere(limits, page_bytes, 0, layout);
        area_bytes.saturating_sub(none.area_bytes()) / none.slot_bytes()
    }

    /// Bytes of an area, whatever its place.
    pub fn area_bytes_of(limits: Limits, page_bytes: u32, slots: u32, layout: HeaderPlace) -> u64 {
        Self::nowhere(limits, page_bytes, slots, layout).area_bytes()
    }

    const fn nowhere(limits: Limits, page_bytes: u32, slots: u32, layout: HeaderPlace) -> Self {
        let sector_bytes = limits.sector_bytes;
        Self {
            sector_bytes,
            page_bytes,
            slots,
            layout,
            area_offset: 0,
            homes_bytes: 0,
            is_aside: false,
        }
    }

    /// Bytes of the area. The superblock has a page to itself, so that the slots of whole pages
    /// begin at a whole page; its copy takes the last sector.
    fn area_bytes(&self) -> u64 {
        u64::from(self.page_bytes)
            + u64::from(self.slots) * self.slot_bytes()
            + u64::from(self.sector_bytes)
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> u64 {
        u64::from(self.page_bytes) + u64::from(self.header_bytes_before())
    }

    /// Bytes of a slot before its page.
    const fn header_bytes_before(&self) -> u32 {
        match self.layout {
            HeaderPlace::Beside => self.sector_bytes,
            HeaderPlace::Embedded => 0,
        }
    }

    /// First byte of a slot.
    pub fn slot_offset(&self, slot: u32) -> u64 {
        self.area_offset + u64::from(self.page_bytes) + u64::from(slot) * self.slot_bytes()
    }

    /// First byte of a slot's page.
    pub fn page_offset(&self, slot: u32) -> u64 {
        self.slot_offset(slot) + u64::from(self.header_bytes_before())
    }

    /// Bytes at the end of each page that whoever writes it leaves zero.
    pub const fn reserved_bytes(&self) -> usize {
        match self.layout {
            HeaderPlace::Beside => 0,
            HeaderPlace::Embedded => HEADER_BYTES,
        }
    }

    /// A page's bytes from `from` on as they were written, of what lies in a slot: the header's
    /// place in it reads as zeros again.
    pub fn without_header(&self, from: u32, data: Data) -> Data {
        let limit = self.page_bytes as usize - self.reserved_bytes();
        let (start, end) = (from as usize, from as usize + data.len());
        if data.is_absent() || end <= limit {
            return data;
        }
        let at = limit.max(start) - start;
        data.patched(at, &Data::zeros(end - start - at))
    }

    /// The checksum of a page, as the header of its slot covers it.
    pub fn page_checksum(&self, page: &Data) -> u64 {
        let covered = page.slice(0..self.page_bytes as usize - self.reserved_bytes());
        XxHash3_64::oneshot(&covered.joined().unwrap_or_default())
    }

    /// What a slot is written with: header and page, of this checksum, in one command. Absent where
    /// the page is.
    pub fn slot_data(&self, header: &Header, checksum: u64, page: &Data) -> Data {
        if page.is_absent() {
            return Data::Absent;
        }
        match self.layout {
            HeaderPlace::Beside => {
                let mut sector = BytesMut::with_capacity(self.sector_bytes as usize);
                header.put(checksum, &mut sector);
                sector.resize(self.sector_bytes as usize, 0);
                let mut data = Data::Whole(sector.freeze());
                data.append(page.clone());
                data
            }
            HeaderPlace::Embedded => {
                let bytes = page.slice(0..self.page_bytes as usize - HEADER_BYTES);
                let mut whole = BytesMut::with_capacity(self.page_bytes as usize);
                bytes.pieces().iter().for_each(|piece| whole.extend_from_slice(piece));
                header.put(checksum, &mut whole);
                Data::Whole(whole.freeze())
            }
        }
    }

    /// The sector of a slot in which its header is.
    pub fn header_sector(&self, slot: u32) -> u64 {
        match self.layout {
            HeaderPlace::Beside => self.slot_offset(slot),
            HeaderPlace::Embedded => {
                self.slot_offset(slot) + self.slot_bytes() - u64::from(self.sector_bytes)
            }
        }
    }

    /// What the bytes of a slot hold.
    pub fn slot_content(&self, identity: u64, slot: &[u8]) -> Content {
        let (header, page) = match self.layout {
            HeaderPlace::Beside => (&slot[..HEADER_BYTES], &slot[self.sector_bytes as usize..]),
            HeaderPlace::Embedded => {
                let (page, header) = slot.split_at(slot.len() - HEADER_BYTES);
                (header, page)
            }
        };
        Header::get(identity, header, page)
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing of this volume: it was never written, or wiped.
    Nothing,
    /// No header that any volume writes.
    Unreadable,
    /// A header of this volume, and not the page that belongs to it.
    Torn,
    /// A page, and its checksum.
    Whole(Header, u64),
}

/// What is written beside a page in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of the volume.
    pub identity: u64,
    /// Where the page belongs: its number on the device.
    pub page: u64,
    /// Of two slots with the same page, the greater is the newer.
    pub sequence: u64,
}

impl Header {
    /// Of the header's own bytes, without those of its checksums; half of it is kept.
    fn own_checksum(header: &[u8]) -> u32 {
        let mut bytes = [0; HEADER_COVERED - 4];
        bytes[..HEADER_CHECK.start].copy_from_slice(&header[..HEADER_CHECK.start]);
        bytes[HEADER_CHECK.start..].copy_from_slice(&header[HEADER_CHECK.end..HEADER_COVERED]);
        XxHash3_64::oneshot(&bytes) as u32
    }

    /// Puts it behind what is there.
    fn put(&self, page_checksum: u64, to: &mut BytesMut) {
        let begin = to.len();
        to.put_slice(&SLOT_MAGIC);
        to.put_u16_le(VERSION);
        to.put_u16_le(0);
        to.put_u32_le(self.identity as u32);
        to.put_u32_le(0);
        to.put_u64_le(self.page);
        to.put_u64_le(self.sequence);
        let own = Self::own_checksum(&to[begin..]);
        to[begin + HEADER_CHECK.start..begin + HEADER_CHECK.end]
            .copy_from_slice(&own.to_le_bytes());
        let checksum =
            Self::checksum(self.identity, &to[begin..begin + HEADER_COVERED], page_checksum);
        to.put_u64_le(checksum);
    }

    /// Of a header and its page: that of the header's bytes and the page's checksum behind them.
    fn checksum(seed: u64, header: &[u8], page_checksum: u64) -> u64 {
        let mut bytes = [0; HEADER_COVERED + 8];
        bytes[..HEADER_COVERED].copy_from_slice(header);
        bytes[HEADER_COVERED..].copy_from_slice(&page_checksum.to_le_bytes());
        XxHash3_64::oneshot_with_seed(seed, &bytes)
    }

    fn get(identity: u64, header: &[u8], page: &[u8]) -> Content {
        if header.iter().all(|&byte| byte == 0) {
            return Content::Nothing;
        }
        let (covered, mut sum) = header.split_at(HEADER_COVERED);
        let mut from = &covered[SLOT_MAGIC.len()..];
        let (version, kind) = (from.get_u16_le(), from.get_u16_le());
        let is_first = version == FIRST_VERSION;
        let (is_own, is_sound) = if is_first {
            let found = from.get_u64_le();
            // Half of it is ours: the version rots.
            (found == identity, found == identity || found as u32 != identity as u32)
        } else {
            let (half, check) = (from.get_u32_le(), from.get_u32_le());
            (half == identity as u32, version == VERSION && check == Self::own_checksum(covered))
        };
        if !covered.starts_with(&SLOT_MAGIC) || kind != 0 || !is_sound {
            return Content::Unreadable;
        }
        if !is_own {
            return Content::Nothing;
        }
        let found = Self { identity, page: from.get_u64_le(), sequence: from.get_u64_le() };
        let (page, seed) = (XxHash3_64::oneshot(page), if is_first { 0 } else { identity });
        if sum.get_u64_le() == Self::checksum(seed, covered, page) {
            Content::Whole(found, page)
        } else {
            Content::Torn
        }
    }

    /// Refuses what no volume writes.
    ///
    /// # Errors
    /// [`LayerError::Corrupt`].
    pub fn check(&self, geometry: &Geometry, slot: u32) -> Result<(), LayerError> {
        let pages = geometry.homes_bytes / u64::from(geometry.page_bytes);
        if self.page < pages && (1..LAST_SEQUENCE).contains(&self.sequence) {
            return Ok(());
        }
        let reason =
            format!("slot {slot} says page {} of {pages}, sequence {}", self.page, self.sequence);
        Err(LayerError::Corrupt { layer: NAME, offset: geometry.slot_offset(slot), reason })
    }
}

/// What the superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Drawn when the volume was formatted: what was on the device before is not taken for this
    /// volume's.
    pub identity: u64,
    /// Where everything lies.
    pub geometry: Geometry,
    /// Slots with lower sequence numbers are needed no more: the destinations of their pages hold
    /// what they held, or something newer.
    pub void_below: u64,
}

impl Superblock {
    /// One sector.
    pub fn to_sector(self) -> Vec<u8> {
        let Geometry { sector_bytes, page_bytes, slots, layout, area_offset, is_aside, .. } =
            self.geometry;
        let mut sector = Vec::with_capacity(sector_bytes as usize);
        sector.put_slice(&SUPERBLOCK_MAGIC);
        sector.put_u16_le(if is_aside { VERSION_ASIDE } else { VERSION });
        sector.put_u16_le(u16::from(layout == HeaderPlace::Embedded));
        sector.put_u32_le(sector_bytes);
        sector.put_u32_le(page_bytes);
        sector.put_u32_le(slots);
        sector.put_u64_le(area_offset);
        sector.put_u64_le(self.identity);
        sector.put_u64_le(self.void_below);
        sector.resize(SUPERBLOCK_COVERED, 0);
        let checksum = XxHash3_64::oneshot(&sector);
        sector.put_u64_le(checksum);
        sector.resize(sector_bytes as usize, 0);
        sector
    }

    /// What a sector says, of an area at the end or on a second device from byte `staging` on.
    ///
    /// # Errors
    /// Why it is no superblock.
    pub fn from_sector(
        sector: &[u8],
        limits: Limits,
        staging: Option<u64>,
    ) -> Result<Self, String> {
        let (covered, mut after) = sector.split_at(SUPERBLOCK_COVERED);
        let mut from = covered;
        let mut magic = [0; 8];
        from.copy_to_slice(&mut magic);
        if magic != SUPERBLOCK_MAGIC {
            return Err("there is other data, or none".to_owned());
        }
        let version = from.get_u16_le();
        if !(FIRST_VERSION..=VERSION_ASIDE).contains(&version) {
            return Err(format!(
                "its format is of version {version}, and {FIRST_VERSION} to {VERSION_ASIDE} are \
                 known"
            ));
        }
        if after.get_u64_le() != XxHash3_64::oneshot(covered) {
            return Err("its checksum is wrong".to_owned());
        }
        let layout =
            if from.get_u16_le() == 0 { HeaderPlace::Beside } else { HeaderPlace::Embedded };
        let (sector_bytes, page_bytes, slots) =
            (from.get_u32_le(), from.get_u32_le(), from.get_u32_le());
        let (area_offset, identity, void_below) =
            (from.get_u64_le(), from.get_u64_le(), from.get_u64_le());
        let is_sound = void_below < LAST_SEQUENCE
            && sector_bytes == limits.sector_bytes
            && page_bytes >= sector_bytes
            && page_bytes.is_multiple_of(sector_bytes)
            && slots > 0;
        let is_aside = version == VERSION_ASIDE;
        if is_aside != staging.is_some() {
            let places = ["on the device of the pages", "on a device of its own"];
            return Err(format!(
                "its staging area lies {}, and is looked for {}",
                places[usize::from(is_aside)],
                places[usize::from(!is_aside)]
            ));
        }
        let expected = if is_sound {
            Geometry::place(limits, staging, page_bytes, slots, layout).ok()
        } else {
            None
        };
        let Some(geometry) = expected.filter(|expected| expected.area_offset == area_offset) else {
            return Err(format!(
                "it was written for a device of other size or sectors than {} bytes in sectors of \
                 {}",
                limits.capacity_bytes, limits.sector_bytes
            ));
        };
        Ok(Self { identity, geometry, void_below })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const LIMITS: Limits =
        Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1 << 16 };

    fn geometry(layout: HeaderPlace) -> Geometry {
        Geometry::at_end(LIMITS, 4096, 16, layout).unwrap()
    }

    #[test]
    fn a_superblock_is_read_as_it_was_written_and_not_if_a_bit_differs() {
        for layout in [HeaderPlace::Beside, HeaderPlace::Embedded] {
            let superblock =
                Superblock { identity: 77, geometry: geometry(layout), void_below: 12 };
            let sector = superblock.to_sector();
            assert_eq!(Superblock::from_sector(&sector, LIMITS, None), Ok(superblock));
            for bit in 0..8 * (SUPERBLOCK_COVERED + 8) {
                let mut other = sector.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(Superblock::from_sector(&other, LIMITS, None).is_err(), "bit {bit}");
            }
            assert!(
                {
                    let larger = Limits { capacity_bytes: 2 << 20, ..LIMITS };
                    Superblock::from_sector(&sector, larger, None)
                }
                .is_err(),
                "of another device"
            );
        }
    }

    #[test]
    fn a_slot_is_read_as_it_was_written_and_not_if_torn_or_of_another_volume() {
        for layout in [HeaderPlace::Beside, HeaderPlace::Embedded] {
            let geometry = geometry(layout);
            let mut page = vec![7; 4096];
            page[4096 - HEADER_BYTES..].fill(0);
            let header = Header { identity: 5, page: 3, sequence: 9 };
            let pieces = Data::Pieces(vec![
                Bytes::copy_from_slice(&page[..1000]),
                Bytes::copy_from_slice(&page[1000..]),
            ]);
            let checksum = geometry.page_checksum(&pieces);
            let slot = geometry.slot_data(&header, checksum, &pieces).joined().unwrap();
            assert_eq!(slot.len() as u64, geometry.slot_bytes());
            assert_eq!(geometry.slot_content(5, &slot), Content::Whole(header, checksum));
            assert_eq!(geometry.slot_content(6, &slot), Content::Nothing, "of another volume");
            let header_at = match layout {
                HeaderPlace::Beside => 0,
                HeaderPlace::Embedded => slot.len() - HEADER_BYTES,
            };
            for byte in 0..HEADER_BYTES {
                let mut rotten = slot.to_vec();
                rotten[header_at + byte] ^= 0x40;
                let found = geometry.slot_content(5, &rotten);
                let is_covered = byte < HEADER_COVERED;
                let expected = if is_covered { Content::Unreadable } else { Content::Torn };
                assert_eq!(found, expected, "byte {byte} of the header");
            }
            for sector in 0..slot.len() / 512 {
                let mut torn = slot.to_vec();
                torn[sector * 512..(sector + 1) * 512].fill(9);
                assert!(
                    !matches!(geometry.slot_content(5, &torn), Content::Whole(..)),
                    "torn at sector {sector}"
                );
            }
            let inside = (geometry.page_offset(2) - geometry.slot_offset(2)) as usize;
            let read = geometry.without_header(0, Data::copy_of(&slot[inside..inside + 4096]));
            assert_eq!(read.joined().unwrap(), page);
            let last =
                geometry.without_header(3584, Data::copy_of(&slot[inside + 3584..inside + 4096]));
            assert_eq!(last.joined().unwrap(), page[3584..]);
        }
    }

    #[test]
    fn the_area_lies_at_the_end_and_pages_before_it() {
        for layout in [HeaderPlace::Beside, HeaderPlace::Embedded] {
            let geometry = geometry(layout);
            assert!(geometry.area_offset.is_multiple_of(4096));
            let end = geometry.slot_offset(15) + geometry.slot_bytes() + 512;
            assert!(end <= LIMITS.capacity_bytes && end + 4096 > LIMITS.capacity_bytes);
        }
        assert!(matches!(
            Geometry::at_end(LIMITS, 4096, 256, HeaderPlace::Embedded),
            Err(LayerError::TooSmall { .. })
        ));
    }

    /// A device of 100 KiB and, behind it, one of 924 KiB: the last half page of the first has no
    /// use.
    #[test]
    fn an_area_on_a_device_of_its_own_has_all_pages_before_it() {
        let staging = 102 << 10;
        for layout in [HeaderPlace::Beside, HeaderPlace::Embedded] {
            let most = Geometry::most_slots(LIMITS, LIMITS.capacity_bytes - staging, 4096, layout);
            let of = |slots| Geometry::place(LIMITS, Some(staging), 4096, slots, layout);
            let geometry = of(most as u32).unwrap();
            assert_eq!((geometry.homes_bytes, geometry.area_offset), (100 << 10, staging));
            assert!(matches!(of(most as u32 + 1), Err(LayerError::TooSmall { .. })));
            let superblock = Superblock { identity: 3, geometry, void_below: 0 };
            let sector = superblock.to_sector();
            let read = |staging| Superblock::from_sector(&sector, LIMITS, staging);
            assert_eq!(read(Some(staging)), Ok(superblock));
            assert!(read(Some(staging - 4096)).is_err() && read(None).is_err());
            let at_end = Superblock { geometry: self::geometry(layout), ..superblock }.to_sector();
            assert!(Superblock::from_sector(&at_end, LIMITS, Some(staging)).is_err());
        }
    }
}
