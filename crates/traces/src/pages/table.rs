//! From addresses to dense page numbers: a two-level table whose chunks are made when they are
//! first touched.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Pages of a chunk: 4 KiB of table for 4 MiB of addresses at 4 KiB a page.
const CHUNK_PAGES: u64 = 1 << 10;

/// The entry of a page that was never written.
pub(crate) const NONE: u32 = u32::MAX;

type Chunk = [u32; CHUNK_PAGES as usize];

/// Volume and number of the chunk in it; their order is that of the addresses.
type ChunkKey = (u32, u64);

/// A multiplicative hash: the keys are chunk numbers, and the table is asked once a request.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 / golden ratio; the rotation brings the well mixed high bits down to where the map
        // looks.
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// Page numbers by volume and address.
#[derive(Default)]
pub(crate) struct PageTable {
    directory: HashMap<ChunkKey, u32, BuildHasherDefault<KeyHasher>>,
    chunks: Vec<Box<Chunk>>,
}

/// Remembers the last chunk, as requests cover neighbouring pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    key: ChunkKey,
    chunk: u32,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { key: (0, u64::MAX), chunk: NONE }
    }
}

impl PageTable {
    /// The number of a page, or [`NONE`].
    #[inline]
    pub(crate) fn get(&self, cursor: &mut Cursor, volume: u32, page: u64) -> u32 {
        let key = (volume, page / CHUNK_PAGES);
        if cursor.key != key {
            *cursor = Cursor { key, chunk: self.directory.get(&key).copied().unwrap_or(NONE) };
        }
        if cursor.chunk == NONE {
            NONE
        } else {
            self.chunks[cursor.chunk as usize][(page % CHUNK_PAGES) as usize]
        }
    }

    /// The place of a page's number, made if it is not there.
    #[inline]
    pub(crate) fn entry(&mut self, cursor: &mut Cursor, volume: u32, page: u64) -> &mut u32 {
        let key = (volume, page / CHUNK_PAGES);
        if cursor.key != key || cursor.chunk == NONE {
            *cursor = Cursor { key, chunk: self.chunk(key) };
        }
        &mut self.chunks[cursor.chunk as usize][(page % CHUNK_PAGES) as usize]
    }

    fn chunk(&mut self, key: ChunkKey) -> u32 {
        let next = self.chunks.len() as u32;
        let chunk = *self.directory.entry(key).or_insert(next);
        if chunk == next {
            self.chunks.push(Box::new([NONE; CHUNK_PAGES as usize]));
        }
        chunk
    }

    /// Renumbers all pages in ascending order of volume and address. Returns the new number of each
    /// old one.
    pub(crate) fn renumber(&mut self, pages: u32) -> Vec<u32> {
        let mut keys: Vec<(ChunkKey, u32)> =
            self.directory.iter().map(|(key, chunk)| (*key, *chunk)).collect();
        keys.sort_unstable();
        let mut new_of_old = vec![NONE; pages as usize];
        let mut next = 0;
        for (_, chunk) in keys {
            for number in self.chunks[chunk as usize].iter_mut().filter(|number| **number != NONE) {
                new_of_old[*number as usize] = next;
                *number = next;
                next += 1;
            }
        }
        assert_eq!(next, pages, "every page stands in the table once");
        new_of_old
    }
}

/// One bit a page.
#[derive(Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(pages: u32) -> Self {
        Self(vec![0; (pages as usize).div_ceil(64)])
    }

    pub(super) fn grow_to(&mut self, pages: usize) {
        if self.0.len() * 64 < pages {
            self.0.resize(pages.div_ceil(64), 0);
        }
    }

    #[inline]
    pub(super) fn set(&mut self, page: u32) {
        self.0[page as usize / 64] |= 1 << (page % 64);
    }

    /// Clears the bit and returns what it was.
    #[inline]
    pub(super) fn take(&mut self, page: u32) -> bool {
        let (word, bit) = (&mut self.0[page as usize / 64], 1 << (page % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
}
