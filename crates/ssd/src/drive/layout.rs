//! Place of an erase block: channel, die, plane.

use units::{Divider, EraseBlockId, Geometry, Ppn};

/// Structure of the media, and the numbering of its parts.
///
/// A *plane* number counts all planes of the drive, the planes of one die next to each other, the
/// dies of one channel next to each other: `plane = (channel * dies_per_channel + die_of_channel) *
/// planes_per_die + plane_of_die`. Erase block numbers are plane-major: `block = plane *
/// blocks_per_plane + block_of_plane`.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Channels.
    pub channels: u32,
    /// Dies on one channel: packages x dies of a package.
    pub dies_per_channel: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    pub(crate) by_block: Divider,
    by_plane: Divider,
    by_die: Divider,
}

impl Layout {
    /// # Panics
    /// If a size is zero, or an erase block has more than 4096 pages: profiles are checked before.
    #[must_use]
    pub fn new(
        channels: u32,
        dies_per_channel: u32,
        planes_per_die: u32,
        blocks_per_plane: u32,
        pages_per_block: u32,
        page_bytes: u32,
    ) -> Self {
        let by_block = Divider::new(pages_per_block);
        let by_plane = Divider::new(blocks_per_plane);
        let by_die = Divider::new(blocks_per_plane * planes_per_die);
        Self {
            channels,
            dies_per_channel,
            planes_per_die,
            blocks_per_plane,
            pages_per_block,
            page_bytes,
            by_block,
            by_plane,
            by_die,
        }
    }

    /// Number of all dies.
    #[must_use]
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Number of all planes.
    #[must_use]
    pub const fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    /// Number of all erase blocks.
    #[must_use]
    pub const fn erase_blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane
    }

    /// Number of all pages.
    #[must_use]
    pub const fn physical_pages(&self) -> u32 {
        self.erase_blocks() * self.pages_per_block
    }

    /// The geometry as the FTL sees it, with this many logical pages.
    #[must_use]
    pub const fn geometry(&self, logical_pages: u32) -> Geometry {
        Geometry {
            page_bytes: self.page_bytes,
            pages_per_erase_block: self.pages_per_block,
            logical_pages,
            erase_blocks: self.erase_blocks(),
        }
    }

    /// The erase block that a page lies in.
    #[inline]
    #[must_use]
    pub fn block_of(&self, page: Ppn) -> EraseBlockId {
        EraseBlockId(self.by_block.quotient(page.0))
    }

    /// The erase block of a page, and the page's offset within it.
    #[inline]
    #[must_use]
    pub fn split(&self, page: Ppn) -> (EraseBlockId, u32) {
        let (block, offset) = self.by_block.split(page.0);
        (EraseBlockId(block), offset)
    }

    /// The page at an offset within an erase block.
    #[inline]
    #[must_use]
    pub const fn page_at(&self, block: EraseBlockId, offset: u32) -> Ppn {
        Ppn(block.0 * self.pages_per_block + offset)
    }

    /// The plane that an erase block lies in.
    #[inline]
    #[must_use]
    pub fn plane_of(&self, block: EraseBlockId) -> u32 {
        self.by_plane.quotient(block.0)
    }

    /// The die that an erase block lies on.
    #[inline]
    #[must_use]
    pub fn die_of_block(&self, block: EraseBlockId) -> u32 {
        self.by_die.quotient(block.0)
    }

    /// The die that a plane belongs to.
    #[inline]
    #[must_use]
    pub const fn die_of_plane(&self, plane: u32) -> u32 {
        plane / self.planes_per_die
    }

    /// The channel that a die is on.
    #[inline]
    #[must_use]
    pub const fn channel_of_die(&self, die: u32) -> u32 {
        die / self.dies_per_channel
    }

    /// Planes in the order in which a stripe visits them: each channel once, then the next die of
    /// each channel, then the next plane of each die. Neighbours lie as far from each other as they
    /// can.
    #[must_use]
    pub fn stripe(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.planes() as usize);
        for plane in 0..self.planes_per_die {
            for die in 0..self.dies_per_channel {
                for channel in 0..self.channels {
                    order.push(
                        (channel * self.dies_per_channel + die) * self.planes_per_die + plane,
                    );
                }
            }
        }
        order
    }
}
