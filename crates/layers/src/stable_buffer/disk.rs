//! Places of all structures on the device, and the superblock, byte by byte as
//! `docs/formats/stable_buffer.md` draws it.

use bytes::{Buf, BufMut};
use twox_hash::XxHash3_64;

use super::NAME;
use super::slot::LAST_SEQUENCE;
use crate::{LayerError, Limits};

const SUPERBLOCK_MAGIC: [u8; 8] = *b"FWSTBUF\0";
/// Version of all structures in the area.
const VERSION: u16 = 4;
/// Older versions of the format, which are not supported any more.
const OLDER: std::ops::Range<u16> = 1..VERSION;
/// Flag of the superblock: the area lies on a device of its own.
const ASIDE: u64 = 1;
/// Flag: no slot is needed, and none was written to since that was noted.
const CLOSED: u64 = 2;
/// Bytes of the superblock that its checksum covers.
const COVERED: usize = 56;

/// Places of a slot's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderPlace {
    /// The headers are in a sector of their own before the page, and at its end.
    Beside,
    /// The headers are at both ends of the page, whose last bytes the host leaves zero:
    /// STABLEBUFFER 2.2 has one, at the end.
    Embedded,
}

/// Places of all structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a sector of the device.
    pub sector_bytes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Number of slots.
    pub slots: u32,
    /// Places of a slot's headers.
    pub layout: HeaderPlace,
    /// First byte of the area: behind the last page that can be addressed from above, or at the
    /// beginning of the second device.
    pub area_offset: u64,
    /// Bytes that can be addressed from above: whole pages.
    pub homes_bytes: u64,
    /// True if the area lies on a second device.
    pub is_aside: bool,
}

impl Geometry {
    /// Places the area at the end of a device.
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

    /// Places the area at the end, or from byte `staging` on, where a second device begins.
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

    /// Gives the most slots that an area of `area_bytes` has.
    pub fn most_slots(
        limits: Limits,
        area_bytes: u64,
        page_bytes: u32,
        layout: HeaderPlace,
    ) -> u64 {
        let none = Self::nowhere(limits, page_bytes, 0, layout);
        area_bytes.saturating_sub(none.area_bytes()) / none.slot_bytes()
    }

    /// Gives the bytes of an area, whatever its place.
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

    /// Gives the bytes of the area. The superblock has a page to itself, so that the slots of whole
    /// pages begin at a whole page; its copy takes the last sector.
    fn area_bytes(&self) -> u64 {
        u64::from(self.page_bytes)
            + u64::from(self.slots) * self.slot_bytes()
            + u64::from(self.sector_bytes)
    }

    /// Gives the bytes of a slot.
    pub fn slot_bytes(&self) -> u64 {
        u64::from(self.page_bytes) + u64::from(self.header_bytes_before())
    }

    /// Gives the bytes of a slot before its page.
    const fn header_bytes_before(&self) -> u32 {
        match self.layout {
            HeaderPlace::Beside => self.sector_bytes,
            HeaderPlace::Embedded => 0,
        }
    }

    /// Gives the first byte of a slot.
    pub fn slot_offset(&self, slot: u32) -> u64 {
        self.area_offset + u64::from(self.page_bytes) + u64::from(slot) * self.slot_bytes()
    }

    /// Gives the first byte of a slot, and the byte behind it.
    pub fn slot_range(&self, slot: u32) -> (u64, u64) {
        let first = self.slot_offset(slot);
        (first, first + self.slot_bytes())
    }
}

/// Superblock of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identity, drawn when the volume was formatted: earlier content of the device is not taken
    /// for this volume's.
    pub identity: u64,
    /// Places of all structures.
    pub geometry: Geometry,
    /// Sequence number below which slots are not needed any more: the destinations of their pages
    /// hold the same, or something newer.
    pub void_below: u64,
    /// True if no slot has a higher sequence number: no slot is needed.
    pub is_closed: bool,
}

/// Reason why a sector is no superblock that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// The superblock was written by an earlier program, with this version.
    Older(u16),
    /// The sector is no superblock, for this reason.
    Other(String),
}

impl Superblock {
    /// Writes the superblock into a sector.
    pub fn to_sector(self) -> Vec<u8> {
        let Geometry { sector_bytes, page_bytes, slots, layout, area_offset, is_aside, .. } =
            self.geometry;
        let mut sector = Vec::with_capacity(sector_bytes as usize);
        sector.put_slice(&SUPERBLOCK_MAGIC);
        sector.put_u16_le(VERSION);
        sector.put_u16_le(u16::from(layout == HeaderPlace::Embedded));
        sector.put_u32_le(sector_bytes);
        sector.put_u32_le(page_bytes);
        sector.put_u32_le(slots);
        sector.put_u64_le(area_offset);
        sector.put_u64_le(self.identity);
        sector.put_u64_le(self.void_below);
        let closed = if self.is_closed { CLOSED } else { 0 };
        sector.put_u64_le(closed | if is_aside { ASIDE } else { 0 });
        let checksum = XxHash3_64::oneshot(&sector);
        sector.put_u64_le(checksum);
        sector.resize(sector_bytes as usize, 0);
        sector
    }

    /// Reads the superblock from a sector, of an area at the end or on a second device from byte
    /// `staging` on.
    ///
    /// # Errors
    /// [`NoSuperblock`] with the reason.
    pub fn from_sector(
        sector: &[u8],
        limits: Limits,
        staging: Option<u64>,
    ) -> Result<Self, NoSuperblock> {
        let other = |reason: String| Err(NoSuperblock::Other(reason));
        let (covered, mut after) = sector.split_at(COVERED);
        let mut from = covered;
        let mut magic = [0; 8];
        from.copy_to_slice(&mut magic);
        if magic != SUPERBLOCK_MAGIC {
            return other("there is other data, or none".to_owned());
        }
        if after.get_u64_le() != XxHash3_64::oneshot(covered) {
            return other("its checksum is wrong".to_owned());
        }
        let version = from.get_u16_le();
        if OLDER.contains(&version) {
            return Err(NoSuperblock::Older(version));
        }
        if version != VERSION {
            return other(format!("its format is of version {version}, and {VERSION} is known"));
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
        let said = from.get_u64_le();
        let is_aside = said & ASIDE != 0;
        if is_aside != staging.is_some() {
            let places = ["on the device of the pages", "on a device of its own"];
            return other(format!(
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
            return other(format!(
                "it was written for a device of other size or sectors than {} bytes in sectors of \
                 {}",
                limits.capacity_bytes, limits.sector_bytes
            ));
        };
        Ok(Self { identity, geometry, void_below, is_closed: said & CLOSED != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1 << 16 };

    fn geometry(layout: HeaderPlace) -> Geometry {
        Geometry::at_end(LIMITS, 4096, 16, layout).unwrap()
    }

    #[test]
    fn a_superblock_is_read_as_it_was_written_and_not_if_a_bit_differs() {
        for layout in [HeaderPlace::Beside, HeaderPlace::Embedded] {
            let superblock = Superblock {
                identity: 77,
                geometry: geometry(layout),
                void_below: 12,
                is_closed: true,
            };
            let sector = superblock.to_sector();
            assert_eq!(Superblock::from_sector(&sector, LIMITS, None), Ok(superblock));
            for bit in 0..8 * (COVERED + 8) {
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

    /// A device of 100 KiB and, behind it, one of 924 KiB: the last half page of the first is not
    /// used.
    #[test]
    fn an_area_on_a_device_of_its_own_has_all_pages_before_it() {
        let staging = 102 << 10;
        for layout in [HeaderPlace::Beside, HeaderPlace::Embedded] {
            let most = Geometry::most_slots(LIMITS, LIMITS.capacity_bytes - staging, 4096, layout);
            let of = |slots| Geometry::place(LIMITS, Some(staging), 4096, slots, layout);
            let geometry = of(most as u32).unwrap();
            assert_eq!((geometry.homes_bytes, geometry.area_offset), (100 << 10, staging));
            assert!(matches!(of(most as u32 + 1), Err(LayerError::TooSmall { .. })));
            let superblock = Superblock { identity: 3, geometry, void_below: 0, is_closed: false };
            let sector = superblock.to_sector();
            let read = |staging| Superblock::from_sector(&sector, LIMITS, staging);
            assert_eq!(read(Some(staging)), Ok(superblock));
            assert!(read(Some(staging - 4096)).is_err() && read(None).is_err());
            let at_end = Superblock { geometry: self::geometry(layout), ..superblock }.to_sector();
            assert!(Superblock::from_sector(&at_end, LIMITS, Some(staging)).is_err());
        }
    }
}
