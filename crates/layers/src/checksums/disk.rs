//! Format on the device: the superblock, the marks and the blocks of checksums, byte by byte as
//! `docs/formats/checksums.md` draws them.

use bytes::{Buf, BufMut};

use super::NAME;
use crate::hash::{is_sealed, seal};
use crate::{LayerError, Limits};

const SUPERBLOCK_MAGIC: [u8; 8] = *b"FWCHKSUM";
const BLOCK_MAGIC: [u8; 8] = *b"FWCHKBLK";
const MARKS_MAGIC: [u8; 8] = *b"FWCHKMRK";
const VERSION: u16 = 2;
/// Bytes of the superblock.
const SUPERBLOCK_BYTES: usize = 56;
/// Bytes before the checksums of a block, and before the bits of a sector of marks.
const HEADER_BYTES: usize = 32;

/// Places of all structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes below.
    pub capacity_bytes: u64,
    /// Bytes of a sector of the device.
    pub sector_bytes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of a block of checksums.
    pub block_bytes: u32,
    /// Number of pages.
    pub pages: u64,
}

impl Geometry {
    /// Places the area at the end of the device, with as many pages before it as fit.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`] if not one page fits.
    pub fn at_end(limits: Limits, page_bytes: u32, block_bytes: u32) -> Result<Self, LayerError> {
        let Limits { capacity_bytes, sector_bytes, .. } = limits;
        let of = |pages| Self { capacity_bytes, sector_bytes, page_bytes, block_bytes, pages };
        let (mut fits, mut does_not) = (0, capacity_bytes / u64::from(page_bytes) + 1);
        while fits + 1 < does_not {
            let middle = u64::midpoint(fits, does_not);
            let is_within = of(middle).needed_bytes() <= capacity_bytes;
            *(if is_within { &mut fits } else { &mut does_not }) = middle;
        }
        if fits > 0 {
            return Ok(of(fits));
        }
        let (needed, remedy) = (of(1).needed_bytes(), "take a larger device, or a smaller page=");
        Err(LayerError::TooSmall { layer: NAME, needed, there: capacity_bytes, remedy })
    }

    fn needed_bytes(&self) -> u64 {
        self.blocks_offset()
            + self.regions() * u64::from(self.block_bytes)
            + u64::from(self.sector_bytes)
    }

    /// Gives the bytes that can be addressed from above.
    pub fn homes_bytes(&self) -> u64 {
        self.pages * u64::from(self.page_bytes)
    }

    /// Gives the checksums of a block, which are the pages of a region.
    pub const fn region_pages(&self) -> u64 {
        (self.block_bytes as u64 - HEADER_BYTES as u64) / 4
    }

    /// Gives the number of regions, which is that of blocks of checksums.
    pub const fn regions(&self) -> u64 {
        self.pages.div_ceil(self.region_pages())
    }

    /// Gives the pages of a region.
    pub fn pages_of(&self, region: u32) -> std::ops::Range<u64> {
        let first = u64::from(region) * self.region_pages();
        first..(first + self.region_pages()).min(self.pages)
    }

    /// Gives the regions of a sector of marks, which has two bits for each.
    pub const fn marks_of_sector(&self) -> u64 {
        (self.sector_bytes as u64 - HEADER_BYTES as u64) * 4
    }

    /// Gives the number of sectors of marks.
    pub const fn mark_sectors(&self) -> u64 {
        self.regions().div_ceil(self.marks_of_sector())
    }

    /// Gives the first byte of the area: the superblock, which has a block to itself.
    pub fn area_offset(&self) -> u64 {
        self.homes_bytes().next_multiple_of(u64::from(self.block_bytes))
    }

    /// Gives the first byte of a sector of marks.
    pub fn marks_offset(&self, sector: u32) -> u64 {
        self.area_offset()
            + u64::from(self.block_bytes)
            + u64::from(sector) * u64::from(self.sector_bytes)
    }

    fn blocks_offset(&self) -> u64 {
        self.marks_offset(self.mark_sectors() as u32).next_multiple_of(u64::from(self.block_bytes))
    }

    /// Gives the first byte of a region's block of checksums.
    pub fn block_offset(&self, region: u32) -> u64 {
        self.blocks_offset() + u64::from(region) * u64::from(self.block_bytes)
    }

    /// Gives the first byte of the superblock's copy.
    pub const fn last_sector(&self) -> u64 {
        last_sector(self.capacity_bytes, self.sector_bytes)
    }
}

/// Gives the first byte of the last whole sector.
pub const fn last_sector(capacity_bytes: u64, sector_bytes: u32) -> u64 {
    let sector = sector_bytes as u64;
    (capacity_bytes / sector).saturating_sub(1) * sector
}

/// Reason why a sector is no superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// The superblock is of an earlier version of the format.
    Older(u16),
    /// The sector holds no superblock, or a damaged one.
    Other(String),
}

/// Superblock: identity of the table, and its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identity, drawn when the table was made.
    pub identity: u64,
    /// Places of all structures.
    pub geometry: Geometry,
}

impl Superblock {
    /// Writes the superblock into a sector.
    pub fn to_sector(self) -> Vec<u8> {
        let Geometry { capacity_bytes, sector_bytes, page_bytes, block_bytes, pages } =
            self.geometry;
        let mut bytes = Vec::with_capacity(sector_bytes as usize);
        bytes.put_u64_le(0);
        bytes.put_slice(&SUPERBLOCK_MAGIC);
        bytes.put_u16_le(VERSION);
        bytes.put_u16_le(0);
        bytes.put_u32_le(sector_bytes);
        bytes.put_u32_le(page_bytes);
        bytes.put_u32_le(block_bytes);
        bytes.put_u64_le(pages);
        bytes.put_u64_le(capacity_bytes);
        bytes.put_u64_le(self.identity);
        debug_assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        bytes.resize(sector_bytes as usize, 0);
        seal(0, &mut bytes);
        bytes
    }

    /// Reads the superblock from a sector.
    ///
    /// # Errors
    /// [`NoSuperblock`] with the reason.
    pub fn from_sector(bytes: &[u8], limits: Limits) -> Result<Self, NoSuperblock> {
        let other = |reason: &str| Err(NoSuperblock::Other(reason.to_owned()));
        if bytes.iter().all(|&byte| byte == 0) {
            return other("there are zeros");
        }
        let mut fields = &bytes[8..];
        let mut magic = [0; 8];
        fields.copy_to_slice(&mut magic);
        if magic != SUPERBLOCK_MAGIC {
            return other("something else is there");
        }
        let version = fields.get_u16_le();
        if !is_sealed(0, bytes) {
            return other("its checksum is another");
        }
        if version < VERSION {
            return Err(NoSuperblock::Older(version));
        }
        if version > VERSION {
            return other(&format!("its version is {version}, and {VERSION} is known here"));
        }
        fields.advance(2);
        let sector_bytes = fields.get_u32_le();
        let (page_bytes, block_bytes) = (fields.get_u32_le(), fields.get_u32_le());
        let (pages, capacity_bytes) = (fields.get_u64_le(), fields.get_u64_le());
        let identity = fields.get_u64_le();
        let geometry = Geometry { capacity_bytes, sector_bytes, page_bytes, block_bytes, pages };
        if sector_bytes != limits.sector_bytes || capacity_bytes != limits.capacity_bytes {
            return other(&format!(
                "it is of a device of {capacity_bytes} bytes in sectors of {sector_bytes}, and \
                 this one has {} in sectors of {}",
                limits.capacity_bytes, limits.sector_bytes
            ));
        }
        let is_of_pages = page_bytes.is_power_of_two()
            && block_bytes.is_power_of_two()
            && page_bytes >= sector_bytes
            && block_bytes >= sector_bytes
            && sector_bytes > HEADER_BYTES as u32
            && page_bytes.max(block_bytes) <= limits.most_bytes;
        match is_of_pages.then(|| Geometry::at_end(limits, page_bytes, block_bytes)) {
            Some(Ok(right)) if right == geometry => Ok(Self { identity, geometry }),
            _ => other("its fields do not go together"),
        }
    }

    /// Gives the seed of the checksums in a block: it differs from that of other regions and
    /// volumes.
    pub const fn seed_of(&self, number: u64) -> u64 {
        self.identity ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn structure(&self, magic: [u8; 8], number: u32, bytes: usize) -> Vec<u8> {
        let mut header = Vec::with_capacity(bytes);
        header.put_u64_le(0);
        header.put_slice(&magic);
        header.put_u64_le(self.identity);
        header.put_u32_le(number);
        header.put_u32_le(0);
        header
    }

    fn is_structure(&self, magic: [u8; 8], number: u32, bytes: &[u8]) -> bool {
        bytes[8..HEADER_BYTES] == self.structure(magic, number, HEADER_BYTES)[8..]
            && is_sealed(self.identity, bytes)
    }

    /// Gives the block of a region with these checksums.
    pub fn to_block(self, region: u32, sums: &[u32]) -> Vec<u8> {
        let size = self.geometry.block_bytes as usize;
        let mut bytes = self.structure(BLOCK_MAGIC, region, size);
        sums.iter().for_each(|&sum| bytes.put_u32_le(sum));
        bytes.resize(size, 0);
        seal(self.identity, &mut bytes);
        bytes
    }

    /// Copies the checksums of a block into `sums`, as many as fit; returns true if the block is
    /// valid. A block of zeros was not written yet, and has no checksum.
    pub fn take_block(&self, region: u32, bytes: &[u8], sums: &mut [u32]) -> bool {
        if bytes.iter().all(|&byte| byte == 0) {
            return true;
        }
        let is_right = self.is_structure(BLOCK_MAGIC, region, bytes);
        if is_right {
            let mut fields = &bytes[HEADER_BYTES..];
            sums.iter_mut().for_each(|sum| *sum = fields.get_u32_le());
        }
        is_right
    }

    /// Gives a sector of marks with these bits.
    pub fn to_marks(self, sector: u32, bits: &[u8]) -> Vec<u8> {
        let size = self.geometry.sector_bytes as usize;
        let mut bytes = self.structure(MARKS_MAGIC, sector, size);
        bytes.put_slice(bits);
        bytes.resize(size, 0);
        seal(self.identity, &mut bytes);
        bytes
    }

    /// Gives the bits of a sector of marks; none if it was not written as one.
    pub fn marks<'a>(&self, sector: u32, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.is_structure(MARKS_MAGIC, sector, bytes).then(|| &bytes[HEADER_BYTES..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(capacity_bytes: u64) -> Limits {
        Limits { capacity_bytes, sector_bytes: 512, most_bytes: 1 << 20 }
    }

    /// The area is behind the pages and ends before the copy of the superblock, and no page more
    /// would fit.
    #[test]
    fn an_area_takes_the_end_and_no_more() {
        for sectors in (16..4000).chain([1 << 21, (1 << 23) + 7]) {
            let limits = limits(sectors * 512);
            let Ok(found) = Geometry::at_end(limits, 4096, 4096) else {
                assert!(sectors < 41, "{sectors}");
                continue;
            };
            let end = found.block_offset(found.regions() as u32);
            assert!(found.homes_bytes() <= found.area_offset() && end <= found.last_sector());
            let more = Geometry { pages: found.pages + 1, ..found };
            assert!(more.needed_bytes() > limits.capacity_bytes);
        }
        let tib = Geometry::at_end(limits(1 << 40), 4096, 4096).unwrap();
        assert!(((1 << 40) - tib.homes_bytes()) as f64 / ((1_u64 << 40) as f64) < 0.001);
    }

    #[test]
    fn structures_are_those_that_were_written_where_they_were_written() {
        let geometry = Geometry::at_end(limits(1 << 22), 512, 512).unwrap();
        let superblock = Superblock { identity: 77, geometry };
        let sector = superblock.to_sector();
        assert_eq!(Superblock::from_sector(&sector, limits(1 << 22)), Ok(superblock));
        let other = format!("{:?}", Superblock::from_sector(&sector, limits(1 << 21)));
        assert!(other.contains("and this one has 2097152"), "{other}");
        let mut older = sector;
        older[16] = 1;
        seal(0, &mut older);
        let older = Superblock::from_sector(&older, limits(1 << 22));
        assert_eq!(older, Err(NoSuperblock::Older(1)));
        let mut sums = [0; 3];
        let block = superblock.to_block(5, &[1, 2, 3]);
        assert!(superblock.take_block(5, &block, &mut sums) && sums == [1, 2, 3]);
        assert!(!superblock.take_block(6, &block, &mut sums));
        let marks = superblock.to_marks(0, &[0x81]);
        assert_eq!(superblock.marks(0, &marks).unwrap()[..2], [0x81, 0]);
        for at in 0..block.len() {
            for (structure, is_block) in [(&block, true), (&marks, false)] {
                let mut changed = structure.clone();
                changed[at] ^= 0x10;
                let is_right = if is_block {
                    superblock.take_block(5, &changed, &mut sums)
                } else {
                    superblock.marks(0, &changed).is_some()
                };
                assert!(!is_right, "byte {at} changed");
            }
        }
    }
}
