//! A record, and the pages of relations that it changes.

use super::positions::Lsn;

/// Numbers of resource managers: who writes a record.
pub mod rmgr {
    /// The log itself.
    pub const XLOG: u8 = 0;
    /// Transactions.
    pub const XACT: u8 = 1;
    /// Tables, their rarer changes.
    pub const HEAP2: u8 = 9;
    /// Tables.
    pub const HEAP: u8 = 10;
    /// B-trees.
    pub const BTREE: u8 = 11;
    /// Hash indexes.
    pub const HASH: u8 = 12;
    /// Inverted indexes.
    pub const GIN: u8 = 13;
}

/// Kinds of records of [`rmgr::XLOG`].
pub mod xlog {
    /// A checkpoint at the server's end.
    pub const CHECKPOINT_SHUTDOWN: u8 = 0x00;
    /// The end of a checkpoint.
    pub const CHECKPOINT_ONLINE: u8 = 0x10;
    /// The rest of the segment is not used.
    pub const SWITCH: u8 = 0x40;
    /// An image of a page of which only hints changed.
    pub const FPI_FOR_HINT: u8 = 0xa0;
    /// An image of a page, always.
    pub const FPI: u8 = 0xb0;
    /// The redo point of a checkpoint, from version 17 on.
    pub const CHECKPOINT_REDO: u8 = 0xe0;
}

/// Operations of records of [`rmgr::HEAP`] and [`rmgr::HEAP2`].
pub mod heap {
    /// A row's new version goes into another page, or an index is changed: the new page is the
    /// first block, the old one the second, if it is another.
    pub const UPDATE: u8 = 0x20;
    /// A row's new version stays in its page, and no index is changed.
    pub const HOT_UPDATE: u8 = 0x40;

    /// Several rows at once, of [`rmgr::HEAP2`].
    pub const MULTI_INSERT: u8 = 0x50;

    /// The operation of a record: the highest bit says if a page is new.
    #[must_use]
    pub const fn operation(info: u8) -> u8 {
        info & 0x70
    }
}

/// Kinds of records of [`rmgr::XACT`]: under a mask, as other bits say what else is in it.
pub mod xact {
    /// Bits of the kind.
    pub const MASK: u8 = 0x70;
    /// A commit.
    pub const COMMIT: u8 = 0x00;
    /// An abort.
    pub const ABORT: u8 = 0x20;
    /// The second commit of two.
    pub const COMMIT_PREPARED: u8 = 0x30;
}

/// Flags of a block of a record.
pub mod flags {
    /// Bits that are the fork.
    pub const FORK: u8 = 0x0f;
    /// There is an image.
    pub const HAS_IMAGE: u8 = 0x10;
    /// The page is made anew: no image is ever needed.
    pub const WILL_INIT: u8 = 0x40;
    /// The relation is that of the block before.
    pub const SAME_RELATION: u8 = 0x80;
    /// An image: zeros in the middle were left out.
    pub const HAS_HOLE: u8 = 0x01;
    /// An image: compressed by PostgreSQL's own method.
    pub const PGLZ: u8 = 0x04;
    /// An image: compressed by LZ4.
    pub const LZ4: u8 = 0x08;
    /// An image: compressed by Zstandard.
    pub const ZSTD: u8 = 0x10;
    /// An image: compressed.
    pub const COMPRESSED: u8 = PGLZ | LZ4 | ZSTD;
}

/// A table, an index, or another relation: the numbers in the path of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation {
    /// Tablespace.
    pub space: u32,
    /// Database; 0 of what all share.
    pub database: u32,
    /// Number of the file.
    pub node: u32,
}

/// Image of a page in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageHead {
    /// Bytes in the record.
    pub length: u16,
    /// Beginning of the zeros that were left out.
    pub hole_offset: u16,
    /// Zeros that were left out.
    pub hole_length: u16,
    /// [`flags`] of it.
    pub info: u8,
    /// Its place in the record.
    pub at: u32,
}

impl ImageHead {
    /// Bytes of its header in the record.
    #[must_use]
    pub const fn header(self) -> u32 {
        let is_long = self.info & flags::COMPRESSED != 0 && self.info & flags::HAS_HOLE != 0;
        if is_long { 7 } else { 5 }
    }
}

/// A page that a record changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The relation.
    pub relation: Relation,
    /// Number of the page in its fork.
    pub number: u32,
    /// See [`flags`].
    pub flags: u8,
    /// Number of the block in the record.
    pub id: u8,
    /// Bytes of data, which stand for the change.
    pub data_length: u16,
    /// The image; without meaning if there is none.
    pub image: ImageHead,
}

impl Block {
    /// The fork: 0 the relation itself, 1 its free space map, 2 its visibility map, 3 initial.
    #[must_use]
    pub const fn fork(&self) -> u8 {
        self.flags & flags::FORK
    }

    /// True if the record has an image of it.
    #[must_use]
    pub const fn has_image(&self) -> bool {
        self.flags & flags::HAS_IMAGE != 0
    }

    /// True if it is made anew.
    #[must_use]
    pub const fn will_init(&self) -> bool {
        self.flags & flags::WILL_INIT != 0
    }
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its first byte.
    pub lsn: Lsn,
    /// All of it, from its header on.
    pub bytes: &'a [u8],
    /// Who writes it: see [`rmgr`].
    pub rmgr: u8,
    /// What it is, in the upper four bits.
    pub info: u8,
    /// The pages that it changes.
    pub blocks: &'a [Block],
    /// Bytes of its own data, at the end.
    pub main_length: u32,
}

/// Bytes of the header of a record.
pub const HEADER_BYTES: usize = 24;
const LAST_BLOCK: u8 = 32;
const MAIN_SHORT: u8 = 255;
const MAIN_LONG: u8 = 254;
const ORIGIN: u8 = 253;
const TOP_LEVEL: u8 = 252;
const PAGE: u16 = 8192;

impl Record<'_> {
    /// Its own data.
    #[must_use]
    pub fn main(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.main_length as usize..]
    }

    /// A number of 8 bytes in its own data.
    #[must_use]
    pub fn word(&self, at: usize) -> Option<u64> {
        self.main().get(at..)?.first_chunk().map(|eight| u64::from_le_bytes(*eight))
    }

    /// The transaction; 0 of none.
    #[must_use]
    pub fn transaction(&self) -> u32 {
        self.bytes
            .get(4..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |four| u32::from_le_bytes(*four))
    }

    /// What it is, without bits of others.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.info & 0xf0
    }

    /// True of a record of [`rmgr::XLOG`] of this kind.
    #[must_use]
    pub const fn is_xlog(&self, kind: u8) -> bool {
        self.rmgr == rmgr::XLOG && self.kind() == kind
    }

    /// True of the records of a checkpoint, which other checkpoints would not have written.
    #[must_use]
    pub const fn is_of_checkpoint(&self) -> bool {
        self.rmgr == rmgr::XLOG
            && matches!(
                self.kind(),
                xlog::CHECKPOINT_ONLINE | xlog::CHECKPOINT_SHUTDOWN | xlog::CHECKPOINT_REDO
            )
    }

    /// True of the commit of a transaction.
    #[must_use]
    pub const fn is_commit(&self) -> bool {
        self.rmgr == rmgr::XACT
            && matches!(self.info & xact::MASK, xact::COMMIT | xact::COMMIT_PREPARED)
    }

    /// Time of a commit or abort, in microseconds since 2000.
    #[must_use]
    pub fn time_us(&self) -> Option<i64> {
        let has_time =
            self.is_commit() || (self.rmgr == rmgr::XACT && self.info & xact::MASK == xact::ABORT);
        has_time.then(|| self.word(0).map(u64::cast_signed)).flatten()
    }
}

/// Reads bytes one after another.
struct Cursor<'a>(&'a [u8], usize);

impl Cursor<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let found = *self.0.get(self.1..)?.first_chunk()?;
        self.1 += N;
        Some(found)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

/// Reads the headers of a record into `blocks`; gives the bytes of its own data.
///
/// `None` if they contradict each other.
pub(super) fn read_headers(bytes: &[u8], blocks: &mut Vec<Block>) -> Option<u32> {
    blocks.clear();
    let mut cursor = Cursor(bytes, HEADER_BYTES);
    let (mut payload, mut main) = (0_usize, 0_u32);
    let mut relation = Relation::default();
    while cursor.1 + payload + (main as usize) < bytes.len() {
        match cursor.u8()? {
            id @ 0..=LAST_BLOCK => {
                let block = read_block(&mut cursor, id, &mut relation, payload)?;
                let image = if block.has_image() { block.image.length } else { 0 };
                payload += usize::from(image) + usize::from(block.data_length);
                blocks.push(block);
            }
            MAIN_SHORT => main = u32::from(cursor.u8()?),
            MAIN_LONG => main = cursor.u32()?,
            ORIGIN => drop(cursor.u16()?),
            TOP_LEVEL => drop(cursor.u32()?),
            _ => return None,
        }
    }
    let data = cursor.1;
    for block in blocks {
        block.image.at += u32::try_from(data).ok()?;
    }
    (data + payload + main as usize == bytes.len()).then_some(main)
}

fn read_block(
    cursor: &mut Cursor<'_>,
    id: u8,
    relation: &mut Relation,
    payload: usize,
) -> Option<Block> {
    let (flags, data_length) = (cursor.u8()?, cursor.u16()?);
    let mut image = ImageHead::default();
    if flags & flags::HAS_IMAGE != 0 {
        (image.length, image.hole_offset, image.info) =
            (cursor.u16()?, cursor.u16()?, cursor.u8()?);
        image.at = u32::try_from(payload).ok()?;
        if image.info & flags::HAS_HOLE != 0 {
            let is_compressed = image.info & flags::COMPRESSED != 0;
            let left = if is_compressed { cursor.u16()? } else { PAGE.checked_sub(image.length)? };
            image.hole_length = left;
        }
        let end = image.hole_offset.checked_add(image.hole_length)?;
        if image.length > PAGE || end > PAGE {
            return None;
        }
    }
    if flags & flags::SAME_RELATION == 0 {
        let (space, database, node) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        *relation = Relation { space, database, node };
    }
    let number = cursor.u32()?;
    Some(Block { relation: *relation, number, flags, id, data_length, image })
}
