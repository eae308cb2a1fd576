//! Format on the device, byte by byte as `docs/formats/holes.md` draws it.

use bytes::{Buf, BufMut};

use super::NAME;
use crate::hash::{is_sealed, seal};
use crate::{LayerError, Limits};

const MAGIC: [u8; 8] = *b"FWHOLES\0";
const VERSION: u16 = 1;
/// Bytes before the bits of a block.
const HEADER_BYTES: u64 = 32;
/// Bytes behind them, which are zero: a stable buffer with `layout=embedded` may lie below.
const TAIL_BYTES: u64 = 96;

/// Least alignment of the map's copies, in bytes: one bad sector of a drive, or one bad page below,
/// takes one of them.
const MIN_UNIT_BYTES: u64 = 4096;
/// Largest alignment: the largest page of a layer that may lie below.
const MAX_UNIT_BYTES: u64 = 64 << 10;

/// Places of all structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a sector, and of a block of the map.
    pub sector_bytes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Number of pages.
    pub pages: u64,
    /// Bytes of a unit: the copies of the map consist of whole units, and damage is mended by
    /// units, as a layer below may refuse to write part of a page that is bad.
    pub unit_bytes: u32,
}

impl Geometry {
    /// Places as many pages as fit, and the map behind them.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`] if no page fits.
    pub fn at_end(limits: Limits, page_bytes: u32) -> Result<Self, LayerError> {
        let (sector_bytes, page) = (limits.sector_bytes, u64::from(page_bytes));
        // A small device should not lose much to units.
        let unit = (limits.capacity_bytes / 1024).next_power_of_two();
        let unit_bytes = page.max(unit.clamp(MIN_UNIT_BYTES, MAX_UNIT_BYTES)) as u32;
        let of = |pages| Self { sector_bytes, page_bytes, pages, unit_bytes };
        let fits = |pages| of(pages).needed_bytes() <= limits.capacity_bytes;
        // One page more never needs less.
        let (mut least, mut most) = (0, limits.capacity_bytes / page);
        while least < most {
            let middle = (least + most).div_ceil(2);
            if fits(middle) { least = middle } else { most = middle - 1 }
        }
        if least == 0 {
            return Err(LayerError::TooSmall {
                layer: NAME,
                needed: of(1).needed_bytes(),
                there: limits.capacity_bytes,
                remedy: "take a larger device or smaller pages",
            });
        }
        Ok(of(least))
    }

    const fn needed_bytes(&self) -> u64 {
        self.map_offset() + 2 * self.copy_bytes()
    }

    /// Gives the bytes that can be addressed from above.
    pub const fn homes_bytes(&self) -> u64 {
        self.pages * self.page_bytes as u64
    }

    /// Gives the number of pages of a block.
    pub const fn pages_of_block(&self) -> u64 {
        (self.sector_bytes as u64 - HEADER_BYTES - TAIL_BYTES) * 8
    }

    /// Gives the number of blocks of a copy of the map.
    pub const fn blocks(&self) -> u64 {
        self.pages.div_ceil(self.pages_of_block())
    }

    /// Gives the first byte of the map.
    const fn map_offset(&self) -> u64 {
        self.homes_bytes().next_multiple_of(self.unit_bytes as u64)
    }

    /// Gives the bytes of a copy.
    pub const fn copy_bytes(&self) -> u64 {
        (self.blocks() * self.sector_bytes as u64).next_multiple_of(self.unit_bytes as u64)
    }

    /// Gives the number of blocks of a unit.
    pub const fn blocks_of_unit(&self) -> u64 {
        (self.unit_bytes / self.sector_bytes) as u64
    }

    /// Gives the pages of a block.
    pub fn pages_in(&self, block: u64) -> std::ops::Range<u64> {
        let first = block * self.pages_of_block();
        first..(first + self.pages_of_block()).min(self.pages)
    }

    /// Gives the first byte of a block, in the first copy or the second.
    pub const fn block_offset(&self, copy: u64, block: u64) -> u64 {
        self.map_offset() + copy * self.copy_bytes() + block * self.sector_bytes as u64
    }

    /// Gives the sector of a block with these bits.
    pub fn encoded_block(
        self,
        block: u64,
        sequence: u64,
        bits: impl Iterator<Item = u8>,
    ) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.sector_bytes as usize);
        bytes.put_u64_le(0);
        bytes.put_slice(&MAGIC);
        bytes.put_u16_le(VERSION);
        bytes.put_u16_le(0);
        bytes.put_u32_le(self.page_bytes);
        bytes.put_u64_le(sequence);
        bytes.extend(bits);
        bytes.resize(self.sector_bytes as usize, 0);
        seal(block, &mut bytes);
        bytes
    }

    /// Reads a block: its sequence number and its bits. Zeros are a block without holes that was
    /// never written.
    ///
    /// # Errors
    /// [`Bad`] with the reason.
    pub fn decoded_block<'a>(&self, block: u64, bytes: &'a [u8]) -> Result<(u64, &'a [u8]), Bad> {
        let end = bytes.len() - TAIL_BYTES as usize;
        let bits = &bytes[HEADER_BYTES as usize..end];
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok((0, bits));
        }
        let mut fields = &bytes[8..];
        let mut magic = [0; 8];
        fields.copy_to_slice(&mut magic);
        if magic != MAGIC {
            return Err(Bad::Other("something else is there".to_owned()));
        }
        let version = fields.get_u16_le();
        if version != VERSION {
            return Err(Bad::Version(version));
        }
        fields.advance(2);
        let page_bytes = fields.get_u32_le();
        if !is_sealed(block, bytes) {
            return Err(Bad::Other("its checksum is another".to_owned()));
        }
        if page_bytes != self.page_bytes {
            let reason =
                format!("it is of pages of {page_bytes} bytes, and not of {}", self.page_bytes);
            return Err(Bad::Other(reason));
        }
        Ok((fields.get_u64_le(), bits))
    }
}

/// Reason why a block cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The block is of another version of the format.
    Version(u16),
    /// The block cannot be read, or is damaged.
    Other(String),
}

impl Bad {
    /// Gives the error of the layer.
    pub fn error(&self, offset: u64) -> LayerError {
        match self {
            Self::Version(version) if *version < VERSION => LayerError::older(NAME, *version),
            Self::Version(version) => LayerError::Corrupt {
                layer: NAME,
                offset,
                reason: format!("its format is of version {version}, and {VERSION} is known here"),
            },
            Self::Other(reason) => LayerError::NotFormatted {
                layer: NAME,
                offset,
                reason: format!("both copies of a block of the map are bad: {reason}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(capacity_bytes: u64, sector_bytes: u32) -> Limits {
        Limits { capacity_bytes, sector_bytes, most_bytes: 1 << 20 }
    }

    #[test]
    fn the_map_takes_the_end_and_no_more() {
        for sector in [512, 4096] {
            for sectors in (16..3000).chain([1 << 21, (1 << 23) + 7]) {
                let limits = limits(sectors * u64::from(sector), sector);
                let Ok(found) = Geometry::at_end(limits, 4096) else {
                    assert!(sectors < 24, "{sectors}");
                    continue;
                };
                assert!(found.needed_bytes() <= limits.capacity_bytes);
                let more = Geometry { pages: found.pages + 1, ..found };
                assert!(more.needed_bytes() > limits.capacity_bytes);
                let last = found.blocks() - 1;
                assert!(found.block_offset(0, last) < found.block_offset(1, 0));
                assert!(found.block_offset(0, 0).is_multiple_of(4096));
                assert!(found.block_offset(1, 0).is_multiple_of(4096));
                assert!(
                    found.homes_bytes() * 1000 > limits.capacity_bytes * 998 || sectors < 30_000
                );
                assert_eq!(found.pages_in(last).end, found.pages);
            }
        }
    }

    #[test]
    fn a_block_is_the_one_that_was_written_where_it_was_written() {
        let geometry = Geometry::at_end(limits(1 << 24, 512), 4096).unwrap();
        let block = geometry.encoded_block(1, 7, [0x81, 0x40].into_iter());
        let (sequence, bits) = geometry.decoded_block(1, &block).unwrap();
        assert_eq!((sequence, &bits[..3]), (7, &[0x81, 0x40, 0][..]));
        assert!(block[512 - 96..].iter().all(|&byte| byte == 0));
        assert!(geometry.decoded_block(0, &block).is_err());
        for at in 0..block.len() {
            let mut changed = block.clone();
            changed[at] ^= 0x10;
            assert!(geometry.decoded_block(1, &changed).is_err(), "byte {at} changed");
        }
        assert_eq!(geometry.decoded_block(3, &[0; 512]).unwrap().0, 0);
        let mut older = block;
        older[16] = 0;
        let error = geometry.decoded_block(1, &older).unwrap_err().error(0);
        assert!(error.to_string().contains("format 0"), "{error}");
    }
}
