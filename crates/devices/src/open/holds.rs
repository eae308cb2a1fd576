//! Search for data on a device or in a file that would be lost.
//!
//! Whatever is neither zero nor written by this program ([`crate::content`]) counts as somebody's
//! data; the table below only gives it a name. So a format that is not in the table is refused too,
//! and one that is written in two places is found by either. A format stands for all of the device,
//! as its data may be anywhere; other data is in the way only where it would be written.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memmap2::MmapMut;
use units::Progress;

use super::Opening;
use super::places::{self, LONGEST, Stop};
use crate::DeviceError;
use crate::content::{PIECE, is_nobodys};

const MIB: u64 = 1 << 20;
/// Bytes that show a format at the end of a device.
const MARK_BYTES: u64 = 4096;

/// One format: a magic number at a place within the first MiB.
type Signature = (&'static str, usize, &'static [u8]);

/// From the formats' own headers, as libblkid lists them. Order matters where one format lies
/// within another.
const SIGNATURES: &[Signature] = &[
    ("a GUID partition table", 512, b"EFI PART"),
    ("a GUID partition table", 4096, b"EFI PART"),
    ("an encrypted LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an XFS file system", 0, b"XFSB"),
    ("an ext2, ext3 or ext4 file system", 1080, b"\x53\xef"),
    ("a Btrfs file system", 65_600, b"_BHRfS_M"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 82, b"FAT32   "),
    ("a FAT file system", 54, b"FAT16   "),
    ("a FAT file system", 54, b"FAT12   "),
    ("an ISO 9660 file system", 32_769, b"CD001"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 65_526, b"SWAPSPACE2"),
    ("a volume of LVM", 0, b"LABELONE"),
    ("a volume of LVM", 512, b"LABELONE"),
    ("a volume of LVM", 1024, b"LABELONE"),
    ("a volume of LVM", 1536, b"LABELONE"),
    ("a member of a Linux RAID", 0, b"\xfc\x4e\x2b\xa9"),
    ("a member of a Linux RAID", 4096, b"\xfc\x4e\x2b\xa9"),
    ("a bcache device", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    (
        "a bcachefs file system",
        4120,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    ("a SquashFS file system", 0, b"hsqs"),
    ("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("a Flashwright volume", 8, b"FWVOLUME"),
    ("a disk image of QEMU", 0, b"QFI\xfb"),
    ("a database of SQLite", 0, b"SQLite format 3\0"),
];

/// The device or file that is searched.
pub(super) struct Looked<'a> {
    pub file: &'a File,
    pub capacity_bytes: u64,
    pub sector_bytes: u32,
    pub is_block_device: bool,
    /// The bytes that are to be written.
    pub region: Range<u64>,
}

/// Gives the reason against writing, in words; `None` if nothing is lost, as far as was seen: see
/// [`places::search`]. The progress counts bytes.
pub(super) fn look(
    opening: &Opening,
    looked: &Looked<'_>,
    progress: &Progress,
) -> Result<Option<String>, DeviceError> {
    let failed = || opening.failed("reading what it holds");
    let mut reader = Reader::new(looked).map_err(failed())?;
    if let Some(name) = reader.format().map_err(failed())? {
        return Ok(Some(name.to_owned()));
    }
    let sector = u64::from(looked.sector_bytes);
    let end = looked.region.end.min(looked.capacity_bytes);
    let region = (looked.region.start / sector * sector).min(end)..end;
    let parts = if looked.is_block_device {
        vec![region]
    } else {
        places::written(looked.file, region).map_err(failed())?
    };
    let found = places::search(&parts, progress, |place| reader.somebodys(place)).map_err(
        |stop| match stop {
            Stop::Failed(error) => failed()(error),
            Stop::Cancelled(cancelled) => cancelled.into(),
        },
    )?;
    Ok(found.map(|at| format!("data that this program did not write, at byte {at}")))
}

struct Reader<'a> {
    file: &'a File,
    capacity_bytes: u64,
    sector_bytes: u64,
    /// Aligned to a page, as `O_DIRECT` wants it.
    buffer: MmapMut,
}

impl<'a> Reader<'a> {
    fn new(looked: &Looked<'a>) -> io::Result<Self> {
        let buffer = MmapMut::map_anon((LONGEST + u64::from(looked.sector_bytes)) as usize)?;
        Ok(Self {
            file: looked.file,
            capacity_bytes: looked.capacity_bytes,
            sector_bytes: u64::from(looked.sector_bytes),
            buffer,
        })
    }

    /// The sectors that a place lies in, as many as there are, and where they begin.
    fn read(&mut self, place: Range<u64>) -> io::Result<(u64, &[u8])> {
        let from = place.start / self.sector_bytes * self.sector_bytes;
        let length = (place.end.next_multiple_of(self.sector_bytes).min(self.capacity_bytes) - from)
            as usize;
        let mut done = 0;
        while done < length {
            match self.file.read_at(&mut self.buffer[done..length], from + done as u64) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((from, &self.buffer[..length]))
    }

    /// Finds the first of somebody's data in a place.
    fn somebodys(&mut self, place: Range<u64>) -> io::Result<Option<u64>> {
        let (from, bytes) = self.read(place)?;
        let piece = bytes.chunks(PIECE).position(|piece| !is_nobodys(piece));
        Ok(piece.map(|piece| from + (piece * PIECE) as u64))
    }

    /// The format, if it is a known one.
    fn format(&mut self) -> io::Result<Option<&'static str>> {
        let end = self.capacity_bytes;
        let (first, last) = (0..MIB.min(end), end.saturating_sub(MIB)..end);
        // What this program wrote may look like a short mark by chance.
        if self.somebodys(first.clone())?.is_some()
            && let Some(name) = named(self.read(first)?.1)
        {
            return Ok(Some(name));
        }
        if self.somebodys(last)?.is_some() { self.format_at_the_end() } else { Ok(None) }
    }

    /// Formats that are found by what stands at the end: the second partition table, and arrays of
    /// old versions.
    fn format_at_the_end(&mut self) -> io::Result<Option<&'static str>> {
        let (end, raid) = (self.capacity_bytes, b"\xfc\x4e\x2b\xa9");
        let places: [(&str, Option<u64>, &[u8]); 3] = [
            (
                "a GUID partition table (its second copy)",
                end.checked_sub(self.sector_bytes),
                b"EFI PART",
            ),
            ("a member of a Linux RAID", (end & !0xfff).checked_sub(8192), raid),
            ("a member of a Linux RAID", (end & !0xffff).checked_sub(65_536), raid),
        ];
        for (name, place, magic) in places {
            if let Some(at) = place
                && self.read(at..at + MARK_BYTES)?.1.starts_with(magic)
            {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

/// The format that the first MiB shows.
fn named(first: &[u8]) -> Option<&'static str> {
    let has = |at: usize, magic: &[u8]| first.get(at..at + magic.len()) == Some(magic);
    let by_table = SIGNATURES.iter().find(|(_, at, magic)| has(*at, magic)).map(|(name, ..)| *name);
    by_table
        .or_else(|| has_zfs(first).then_some("a member of a ZFS pool"))
        .or_else(|| has_partitions(first).then_some("a partition table (MBR)"))
}

/// The boot sector's mark, and at least one partition with a type.
fn has_partitions(first: &[u8]) -> bool {
    first.get(510..512) == Some(b"\x55\xaa") && (0..4).any(|entry| first[446 + 16 * entry + 4] != 0)
}

/// One of the uberblocks of the first label, in either byte order.
fn has_zfs(first: &[u8]) -> bool {
    let Some(ring) = first.get(128 * 1024..256 * 1024) else { return false };
    ring.chunks(1024).any(|block| {
        block.starts_with(&0x00ba_b10c_u64.to_le_bytes())
            || block.starts_with(&0x00ba_b10c_u64.to_be_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named_by_their_marks() {
        for &(name, at, magic) in SIGNATURES {
            let mut first = vec![0; MIB as usize];
            first[at..at + magic.len()].copy_from_slice(magic);
            assert_eq!(named(&first), Some(name));
            // A device that ends before the mark has none.
            assert_eq!(named(&first[..at]), None);
        }
        let mut first = vec![0; MIB as usize];
        first[510..512].copy_from_slice(b"\x55\xaa");
        assert_eq!(named(&first), None);
        first[446 + 4] = 0x83;
        assert_eq!(named(&first), Some("a partition table (MBR)"));
        first[131_072 + 3 * 1024..][..8].copy_from_slice(&0x00ba_b10c_u64.to_be_bytes());
        assert_eq!(named(&first), Some("a member of a ZFS pool"));
    }
}
