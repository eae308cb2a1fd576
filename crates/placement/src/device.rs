//! The device as policies see it: erase blocks, streams and the logical clock.

use units::{EraseBlockId, Geometry, StreamId};

/// State of an erase block. Eight bytes, so that an invalidation touches one cache line of this
/// table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Number of pages that hold the newest version of a logical page.
    pub valid: u32,
    /// The stream that it was opened for.
    pub stream: u16,
}

/// Space that a stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSpace {
    /// Number of valid pages in its erase blocks. Kept only for policies with
    /// [`crate::Features::per_stream`].
    pub valid_pages: u32,
    /// Number of its erase blocks, including the open one.
    pub erase_blocks: u32,
}

/// The state that policies may look at. Owned and changed by the FTL.
#[derive(Clone, Debug)]
pub struct Device {
    /// Sizes.
    pub geometry: Geometry,
    /// Host page writes so far: the clock of the counting medium.
    pub clock: u64,
    /// All erase blocks.
    pub blocks: Vec<Block>,
    /// The clock, modulo 2^32, when each erase block was opened: the version number (write sequence
    /// number) of MULTILOG 5.1.
    pub opened_at: Vec<u32>,
    /// All streams.
    pub streams: Vec<StreamSpace>,
}

impl Device {
    /// An empty device.
    #[must_use]
    pub fn new(geometry: Geometry, streams: usize) -> Self {
        Self {
            geometry,
            clock: 0,
            blocks: vec![Block::default(); geometry.erase_blocks as usize],
            opened_at: vec![0; geometry.erase_blocks as usize],
            streams: vec![StreamSpace::default(); streams],
        }
    }

    /// An erase block.
    #[inline]
    #[must_use]
    pub fn block(&self, block: EraseBlockId) -> Block {
        self.blocks[block.index()]
    }

    /// A stream's space.
    #[inline]
    #[must_use]
    pub fn stream(&self, stream: StreamId) -> StreamSpace {
        self.streams[stream.index()]
    }

    /// Host page writes since the erase block was opened. Right up to 2^32 - 1; older erase blocks
    /// look younger.
    #[inline]
    #[must_use]
    pub fn age_of(&self, block: EraseBlockId) -> u32 {
        (self.clock as u32).wrapping_sub(self.opened_at[block.index()])
    }
}
