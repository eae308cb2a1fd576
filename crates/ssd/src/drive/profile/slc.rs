//! The SLC cache of a profile, in pages and superblocks.

use super::{Profile, SlcCacheKind};

/// Structure of an erase block that is written with one bit per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcBlocks {
    /// Pages of a plane that one program writes: those of a word line.
    pub per_program: u32,
    /// Pages of a word line with all its bits.
    pub per_word_line: u32,
    /// Word lines of an erase block.
    pub word_lines: u32,
}

impl Profile {
    /// Structure of the erase blocks in the SLC cache; `None` without a cache.
    #[must_use]
    pub fn slc_blocks(&self) -> Option<SlcBlocks> {
        let m = &self.media;
        if self.slc_cache.kind == SlcCacheKind::None {
            return None;
        }
        let bits = self.slc_cache.bits_per_cell;
        // Where a word line is programmed at once, one bit of it is; otherwise a program is of one
        // bit anyway.
        let in_one_go = m.pages_per_program.is_multiple_of(bits * m.pages_per_read);
        let per_program = if in_one_go { m.pages_per_program / bits } else { m.pages_per_program };
        let per_word_line = per_program * bits;
        let word_lines = m.pages_per_erase_block / per_word_line;
        Some(SlcBlocks { per_program, per_word_line, word_lines })
    }

    /// Data pages of a superblock of all planes.
    pub(super) fn superblock_pages(&self) -> u64 {
        self.pages_without_parity() / u64::from(self.media.erase_blocks_per_plane.max(1))
    }

    /// Data pages of a superblock in the SLC cache; 0 without one.
    #[must_use]
    pub fn slc_superblock_pages(&self) -> u64 {
        let Some(blocks) = self.slc_blocks() else { return 0 };
        let of_block = u64::from(self.media.pages_per_erase_block.max(1));
        self.superblock_pages() / of_block * u64::from(blocks.word_lines * blocks.per_program)
    }

    /// Superblocks that hold `slc_cache.bytes`, rounded down.
    #[must_use]
    pub fn slc_superblocks(&self) -> u32 {
        let bytes = self.slc_superblock_pages() * u64::from(self.media.page_bytes);
        self.slc_cache.bytes.checked_div(bytes).map_or(0, |count| count.min(1 << 31) as u32)
    }

    /// Number of superblocks that always belong to the cache.
    #[must_use]
    pub fn slc_fixed_superblocks(&self) -> u32 {
        if self.slc_cache.kind == SlcCacheKind::Static { self.slc_superblocks() } else { 0 }
    }
}
