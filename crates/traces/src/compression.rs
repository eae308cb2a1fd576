//! Takes compression from a stream.

use std::io::{self, Read};

/// Most memory that an .xz stream may ask for. `xz -9` needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 512 << 20;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Compression {
    pub(crate) fn of(start: &[u8]) -> Self {
        if start.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else if start.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Self::Xz
        } else if matches!(start, [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..]) {
            Self::Bzip2
        } else {
            Self::None
        }
    }

    /// The file name without the endings that compressors add.
    pub(crate) fn strip_ending(mut name: &str) -> &str {
        const ENDINGS: [&str; 4] = [".gz", ".zst", ".xz", ".bz2"];
        while let Some(rest) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
            name = rest;
        }
        name
    }

    /// The stream decompressed.
    pub(crate) fn decoder(self, raw: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => raw,
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(
                io::BufReader::with_capacity(64 << 10, raw),
            )),
            Self::Zstd => Box::new(zstd::Decoder::new(raw)?),
            Self::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    XZ_MEMORY_BYTES,
                    liblzma::stream::CONCATENATED,
                )?;
                Box::new(liblzma::read::XzDecoder::new_stream(raw, stream))
            }
            Self::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(raw)),
        })
    }
}
