//! What a device or file holds, as far as it would be a loss.
//!
//! Whatever is neither zero nor written by this program ([`crate::content`]) counts as somebody's data; the table below only gives it a
//! name. So a format that is not in the table is refused too, and one that is written in two places is found by either.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memmap2::MmapMut;
use rustix::fs::SeekFrom;

use crate::content::is_nobodys;

const MIB: u64 = 1 << 20;
/// Samples between the first and the last MiB, and bytes of each: half a second on a hard disk.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 4096;
/// Written parts of a file with holes that are looked at one by one.
const MOST_PARTS: usize = 4096;

/// One format: a magic number at a place within the first MiB.
type Signature = (&'static str, usize, &'static [u8]);

/// From the formats' own headers, as libblkid lists them. Order matters where one format lies within another.
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
    ("a bcachefs file system", 4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("a disk image of QEMU", 0, b"QFI\xfb"),
    ("a database of SQLite", 0, b"SQLite format 3\0"),
];

/// What is in the way of writing, in words; `None` if nothing is lost.
pub(super) fn look(file: &File, capacity_bytes: u64, sector_bytes: u32, is_block_device: bool) -> io::Result<Option<String>> {
    let mut looker = Looker { file, capacity_bytes, sector_bytes: u64::from(sector_bytes), buffer: MmapMut::map_anon(MIB as usize)? };
    let places = if is_block_device { looker.evenly() } else { looker.parts()? };
    for (offset, length) in [(0, MIB), (capacity_bytes.saturating_sub(MIB), MIB)].into_iter().chain(places) {
        let (at, bytes) = looker.read_around(offset, length)?;
        if !is_nobodys(bytes) {
            return looker
                .name()
                .map(|name| Some(name.map_or_else(|| format!("data that this program did not write, near byte {at}"), str::to_owned)));
        }
    }
    Ok(None)
}

struct Looker<'a> {
    file: &'a File,
    capacity_bytes: u64,
    sector_bytes: u64,
    /// Aligned to a page, as `O_DIRECT` wants it.
    buffer: MmapMut,
}

impl Looker<'_> {
    /// Bytes from a multiple of the sector, as many as there are.
    fn read(&mut self, offset: u64, length: u64) -> io::Result<&[u8]> {
        let length = length.min(self.capacity_bytes - offset) as usize;
        let mut done = 0;
        while done < length {
            match self.file.read_at(&mut self.buffer[done..length], offset + done as u64) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[..length])
    }

    /// The same from any byte, rounded down to a sector, which is told.
    fn read_around(&mut self, offset: u64, length: u64) -> io::Result<(u64, &[u8])> {
        let at = offset - offset % self.sector_bytes;
        Ok((at, self.read(at, length.next_multiple_of(self.sector_bytes))?))
    }

    /// The format, if it is a known one.
    fn name(&mut self) -> io::Result<Option<&'static str>> {
        match named(self.read(0, MIB)?) {
            None => self.at_the_end(),
            found => Ok(found),
        }
    }

    /// Formats that are found by what stands at the end: the second partition table, and arrays of old versions.
    fn at_the_end(&mut self) -> io::Result<Option<&'static str>> {
        let (end, raid) = (self.capacity_bytes, b"\xfc\x4e\x2b\xa9");
        let places: [(&str, Option<u64>, &[u8]); 3] = [
            ("a GUID partition table (its second copy)", end.checked_sub(self.sector_bytes), b"EFI PART"),
            ("a member of a Linux RAID", (end & !0xfff).checked_sub(8192), raid),
            ("a member of a Linux RAID", (end & !0xffff).checked_sub(65_536), raid),
        ];
        for (name, place, magic) in places {
            if let Some(place) = place
                && self.read_around(place, SAMPLE_BYTES)?.1.starts_with(magic)
            {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    fn evenly(&self) -> Vec<(u64, u64)> {
        (1..SAMPLES).map(|part| (self.capacity_bytes / SAMPLES * part, SAMPLE_BYTES)).collect()
    }

    /// Where the next written part of a file begins; `None` if nothing but a hole is left.
    fn part_from(&self, from: u64) -> rustix::io::Result<Option<u64>> {
        match rustix::fs::seek(self.file, SeekFrom::Data(from)) {
            Ok(start) => Ok(Some(start).filter(|&start| start < self.capacity_bytes)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The start of each written part of a file, and samples in the long ones; of those behind very many parts, some.
    fn parts(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut places = Vec::new();
        let mut from = 0;
        while places.len() < MOST_PARTS && from < self.capacity_bytes {
            let start = match self.part_from(from) {
                Ok(Some(start)) => start,
                Ok(None) => return Ok(places),
                // The file system knows no holes.
                Err(rustix::io::Errno::INVAL) => return Ok(self.evenly()),
                Err(error) => return Err(error.into()),
            };
            let end = rustix::fs::seek(self.file, SeekFrom::Hole(start))?.min(self.capacity_bytes).max(start + 1);
            let step = (end - start).div_ceil(SAMPLES).max(MIB);
            places.extend((start..end).step_by(step as usize).map(|at| (at, SAMPLE_BYTES)));
            from = end;
        }
        let step = (self.capacity_bytes - from).div_ceil(SAMPLES).max(MIB);
        for spot in (from..self.capacity_bytes).step_by(step as usize) {
            places.extend(self.part_from(spot)?.map(|start| (start, SAMPLE_BYTES)));
        }
        Ok(places)
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
    ring.chunks(1024).any(|block| block.starts_with(&0x00ba_b10c_u64.to_le_bytes()) || block.starts_with(&0x00ba_b10c_u64.to_be_bytes()))
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
