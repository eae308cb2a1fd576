//! The files in a tar or zip archive, from front to back: what a pipe gives is enough.

use std::io::{self, BufRead, BufReader, Read};

use crate::compression::Compression;

/// A stream whose next bytes can be looked at.
type Stream = BufReader<Box<dyn Read + Send>>;

/// Bytes of the start that tell an archive.
pub(crate) const TOLD_BY: usize = 512;

/// Kind of an archive, told by the start of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tar,
    Zip,
}

impl Kind {
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            Some(Self::Zip)
        } else if start.get(257..262) == Some(b"ustar") {
            Some(Self::Tar)
        } else {
            None
        }
    }
}

/// An archive, read member by member.
pub(crate) struct Archive {
    stream: Stream,
    kind: Kind,
    at: At,
}

/// Position of the stream.
enum At {
    Header,
    Tar { left: u64, padding: u64 },
    Zip { method: u16, size: Option<u64> },
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Archive {
    pub(crate) fn new(kind: Kind, raw: Box<dyn Read + Send>) -> Self {
        Self { stream: BufReader::with_capacity(64 << 10, raw), kind, at: At::Header }
    }

    /// The name of the next file in it; what is left of the one before is passed over.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        self.skip()?;
        match self.kind {
            Kind::Tar => self.next_of_tar(),
            Kind::Zip => self.next_of_zip(),
        }
    }

    /// The bytes of the file whose name came last.
    pub(crate) fn into_member(self) -> io::Result<Box<dyn Read + Send>> {
        match self.at {
            At::Header => Ok(Box::new(io::empty())),
            At::Tar { left, .. } => Ok(Box::new(self.stream.take(left))),
            At::Zip { method, size: Some(size) } => unpacked(method, self.stream.take(size)),
            At::Zip { method: 8, size: None } => {
                Ok(Box::new(flate2::bufread::DeflateDecoder::new(self.stream)))
            }
            At::Zip { .. } => Err(broken("a file in it says its size only behind its bytes")),
        }
    }

    fn skip(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.at, At::Header) {
            At::Header => Ok(()),
            At::Tar { left, padding } => self.pass(left + padding),
            At::Zip { size: Some(size), .. } => self.pass(size),
            At::Zip { method: 8, size: None } => {
                let mut decoder = flate2::bufread::DeflateDecoder::new(&mut self.stream);
                let unpacked = io::copy(&mut decoder, &mut io::sink())?;
                self.pass_descriptor(unpacked)
            }
            At::Zip { .. } => Err(broken("a file in it says its size only behind its bytes")),
        }
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut (&mut self.stream).take(bytes), &mut io::sink())?;
        if passed < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Passes over the data descriptor, which follows a file of a zip whose size was not known: a
    /// checksum and both sizes, with or without a signature, of 32 or 64 bits.
    fn pass_descriptor(&mut self, unpacked: u64) -> io::Result<()> {
        let mut word = [0; 4];
        self.stream.read_exact(&mut word)?;
        if word == *b"PK\x07\x08" {
            self.stream.read_exact(&mut word)?;
        }
        self.pass(4)?;
        self.stream.read_exact(&mut word)?;
        let is_short = u32::from_le_bytes(word) == unpacked as u32;
        if is_short { Ok(()) } else { self.pass(8) }
    }

    fn next_of_tar(&mut self) -> io::Result<Option<String>> {
        let mut long_name: Option<String> = None;
        let mut long_size: Option<u64> = None;
        loop {
            let mut header = [0; 512];
            if !read_whole(&mut self.stream, &mut header)? || header.iter().all(|b| *b == 0) {
                return Ok(None);
            }
            let size =
                tar_number(&header[124..136]).ok_or_else(|| broken("a size in it is none"))?;
            let size = long_size.unwrap_or(size);
            let padding = size.next_multiple_of(512) - size;
            let kind = header[156];
            if matches!(kind, b'L' | b'x') && size < 1 << 20 {
                let mut text = vec![0; size as usize];
                self.stream.read_exact(&mut text)?;
                self.pass(padding)?;
                if kind == b'L' {
                    long_name = Some(text_of(&text));
                } else {
                    for (key, value) in pax_records(&text) {
                        match key.as_str() {
                            "path" => long_name = Some(value),
                            "size" => long_size = value.parse().ok(),
                            _ => {}
                        }
                    }
                }
                continue;
            }
            if matches!(kind, b'0' | 0 | b'7') {
                let (prefix, name) = (text_of(&header[345..500]), text_of(&header[..100]));
                let short = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
                self.at = At::Tar { left: size, padding };
                return Ok(Some(long_name.unwrap_or(short)));
            }
            self.pass(size + padding)?;
            (long_name, long_size) = (None, None);
        }
    }

    fn next_of_zip(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut header = [0; 30];
            if !read_whole(&mut self.stream, &mut header[..4])? || header[..4] != *b"PK\x03\x04" {
                return Ok(None);
            }
            self.stream.read_exact(&mut header[4..])?;
            let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
            let (flags, method) = (short(6), short(8));
            let mut size =
                u64::from(u32::from_le_bytes([header[18], header[19], header[20], header[21]]));
            let mut name = vec![0; usize::from(short(26))];
            let mut extra = vec![0; usize::from(short(28))];
            self.stream.read_exact(&mut name)?;
            self.stream.read_exact(&mut extra)?;
            if size == u64::from(u32::MAX) {
                size = zip64_size(&extra).ok_or_else(|| broken("a size in it is missing"))?;
            }
            let size = if flags & 8 != 0 && size == 0 { None } else { Some(size) };
            self.at = At::Zip { method, size };
            let name = text_of(&name);
            if name.ends_with('/') {
                self.skip()?;
                continue;
            }
            if flags & 1 != 0 {
                return Err(broken("it is locked with a password"));
            }
            return Ok(Some(name));
        }
    }
}

fn unpacked(
    method: u16,
    stored: impl BufRead + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    match method {
        0 => Ok(Box::new(stored)),
        8 => Ok(Box::new(flate2::bufread::DeflateDecoder::new(stored))),
        93 => Compression::Zstd.decoder(Box::new(stored)),
        95 => Compression::Xz.decoder(Box::new(stored)),
        other => Err(broken(&format!("zip method {other} is not one of 0, 8, 93 and 95"))),
    }
}

/// Fills the buffer; `false` if the stream is at its end.
fn read_whole(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Octal digits, or a number of base 256 if the highest bit is set.
fn tar_number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        return field[1..]
            .iter()
            .try_fold(0u64, |value, byte| value.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let text = text_of(field);
    let digits = text.trim();
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
        .filter(|size| *size < 1 << 62)
}

/// `LENGTH key=value\n`, one after the other.
fn pax_records(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text).into_owned();
    let records = text.split('\n').filter_map(|line| line.split_once(' ')?.1.split_once('='));
    records.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The packed size in a zip64 field, behind the unpacked one.
fn zip64_size(extra: &[u8]) -> Option<u64> {
    let mut rest = extra;
    while rest.len() >= 4 {
        let (id, length) = (
            u16::from_le_bytes([rest[0], rest[1]]),
            usize::from(u16::from_le_bytes([rest[2], rest[3]])),
        );
        let field = rest.get(4..4 + length)?;
        if id == 1 {
            return Some(u64::from_le_bytes(field.get(8..16)?.try_into().ok()?));
        }
        rest = &rest[4 + length..];
    }
    None
}
