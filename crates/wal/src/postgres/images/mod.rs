//! Images of pages: made whole again, and compressed as other settings would.

mod pglz;

use std::io;

use zstd::bulk::{Compressor, Decompressor};

use super::log::{ImageHead, PAGE_BYTES, flags};

/// Methods of `wal_compression`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// No compression.
    #[default]
    Off,
    /// PostgreSQL's own.
    Pglz,
    /// LZ4, by `lz4_flex`: its results are not those of liblz4 to the byte.
    Lz4,
    /// Zstandard of level 3.
    Zstd,
}

impl Method {
    /// All methods, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Off, Self::Pglz, Self::Lz4, Self::Zstd];

    /// The method of an image.
    #[must_use]
    pub const fn of(info: u8) -> Self {
        match info & flags::COMPRESSED {
            flags::PGLZ => Self::Pglz,
            flags::LZ4 => Self::Lz4,
            flags::ZSTD => Self::Zstd,
            _ => Self::Off,
        }
    }
}

/// Bytes of an image with its header in a record (`XLogRecordAssemble`), where `raw` are those of
/// the page without its hole, and `compressed` what a method makes of it.
#[must_use]
pub fn image_bytes(raw: usize, has_hole: bool, compressed: Option<usize>) -> u32 {
    let more = if has_hole { 2 } else { 0 };
    let smaller = compressed.map(|bytes| bytes + more).filter(|bytes| *bytes < raw);
    (smaller.unwrap_or(raw) + 5) as u32
}

/// Makes images whole, and compresses them.
pub struct Images {
    raw: Vec<u8>,
    out: Vec<u8>,
    pglz: pglz::Encoder,
    to_zstd: Compressor<'static>,
    of_zstd: Decompressor<'static>,
}

impl Images {
    /// Sets the methods up.
    ///
    /// # Errors
    /// Zstandard has no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            raw: vec![0; PAGE_BYTES],
            out: vec![0; 2 * PAGE_BYTES],
            pglz: pglz::Encoder::default(),
            to_zstd: Compressor::new(3)?,
            of_zstd: Decompressor::new()?,
        })
    }

    /// The page of an image without its hole; `None` if it cannot be read.
    fn raw<'a>(&'a mut self, head: ImageHead, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let length = PAGE_BYTES - usize::from(head.hole_length);
        let raw = &mut self.raw[..length];
        let count = match Method::of(head.info) {
            Method::Off => return Some(bytes),
            Method::Pglz => pglz::decompress(bytes, raw)?,
            Method::Lz4 => lz4_flex::block::decompress_into(bytes, raw).ok()?,
            Method::Zstd => self.of_zstd.decompress_to_buffer(bytes, raw).ok()?,
        };
        (count == length).then_some(&self.raw[..length])
    }

    /// Bytes of a compressed page without its hole; `None` if it does not get smaller.
    fn compressed(&mut self, head: ImageHead, bytes: &[u8], method: Method) -> Option<usize> {
        let (mut out, mut raw) = (std::mem::take(&mut self.out), std::mem::take(&mut self.raw));
        raw.resize(PAGE_BYTES, 0);
        self.raw = raw;
        let length = self.raw(head, bytes).map(|page| page.len());
        let page = if Method::of(head.info) == Method::Off { bytes } else { &self.raw[..length?] };
        let found = match method {
            Method::Off => None,
            Method::Pglz => self.pglz.compress(page),
            Method::Lz4 => lz4_flex::block::compress_into(page, &mut out).ok(),
            Method::Zstd => self.to_zstd.compress_to_buffer(page, &mut out[..]).ok(),
        };
        self.out = out;
        found
    }

    /// Bytes that an image of a record would have, with its header, under a method.
    pub fn bytes_under(&mut self, head: ImageHead, bytes: &[u8], method: Method) -> u32 {
        let raw = PAGE_BYTES - usize::from(head.hole_length);
        let has_hole = head.hole_length > 0;
        let compressed =
            if method == Method::Off { None } else { self.compressed(head, bytes, method) };
        image_bytes(raw, has_hole, compressed)
    }
}
