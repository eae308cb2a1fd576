//! The directory as it lies on a volume: `docs/formats/sqlite_files.md`.

use std::collections::BTreeMap;

use twox_hash::XxHash3_64;

use super::space::{Extent, Extents};

const MAGIC: [u8; 8] = *b"FWVFILES";
const VERSION: u16 = 1;
/// Bytes before the first file.
pub const HEAD_BYTES: usize = 80;
/// Copies of the directory: two of each of two generations.
pub const SLOTS: u64 = 4;
/// Longest name, in bytes.
pub const MOST_NAME_BYTES: usize = 255;
const MOST_UNIT_BYTES: u64 = 64 << 10;
const MOST_SLOT_BYTES: u64 = 1 << 20;
/// Least units that a volume has room for beside the directory.
pub const LEAST_UNITS: u64 = 8;

/// Places of the directory and of files: they follow from the size with which the volume was made,
/// and that of its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the volume.
    pub capacity_bytes: u64,
    /// Bytes of its sectors.
    pub sector_bytes: u32,
    /// Bytes of a unit, of which files are made.
    pub unit_bytes: u32,
    /// Bytes of a copy of the directory.
    pub slot_bytes: u32,
    /// Number of units.
    pub units: u32,
}

impl Layout {
    /// Computes the layout; none if the volume is too small, or larger than 256 TiB.
    pub fn of(capacity_bytes: u64, sector_bytes: u32) -> Option<Self> {
        let sector = u64::from(sector_bytes);
        let power = |value: u64| 1 << value.max(1).ilog2();
        let unit = power(capacity_bytes / 1024).clamp(sector.max(1024), MOST_UNIT_BYTES);
        let slot = power(capacity_bytes / 64).clamp(sector.max(2048), MOST_SLOT_BYTES);
        Self::with(capacity_bytes, sector_bytes, unit as u32, slot as u32)
    }

    /// Computes the layout with these sizes of units and slots.
    fn with(
        capacity_bytes: u64,
        sector_bytes: u32,
        unit_bytes: u32,
        slot_bytes: u32,
    ) -> Option<Self> {
        let rest = capacity_bytes.checked_sub(SLOTS * u64::from(slot_bytes))?;
        let units = u32::try_from(rest / u64::from(unit_bytes)).ok()?;
        let has_room = u64::from(units) >= LEAST_UNITS;
        has_room.then_some(Self { capacity_bytes, sector_bytes, unit_bytes, slot_bytes, units })
    }

    /// Gives the layout with which a directory was written, if `bytes` are the first sector of a
    /// copy of one: a volume that was resized keeps the sizes with which it was made.
    pub fn written(&self, bytes: &[u8], owner: [u8; 16]) -> Option<Self> {
        if bytes.get(8..16)? != MAGIC || bytes.get(24..40)? != owner {
            return None;
        }
        let mut sizes = Reader(bytes.get(56..64)?);
        let (unit, slot) = (sizes.number::<4>()?, sizes.number::<4>()?);
        let sector = u64::from(self.sector_bytes);
        let are_sizes = unit.is_power_of_two()
            && slot.is_power_of_two()
            && (sector.max(1024)..=MOST_UNIT_BYTES).contains(&unit)
            && (sector.max(2048)..=MOST_SLOT_BYTES).contains(&slot);
        let sizes = are_sizes.then_some((unit as u32, slot as u32))?;
        Self::with(self.capacity_bytes, self.sector_bytes, sizes.0, sizes.1)
    }

    /// Gives all possible sizes of slots, this one's first.
    pub fn slot_sizes(self) -> impl Iterator<Item = u32> {
        let first = u64::from(self.sector_bytes).max(2048);
        let all = (first.ilog2()..=MOST_SLOT_BYTES.ilog2()).map(|power| 1 << power);
        std::iter::once(self.slot_bytes).chain(all.filter(move |&size| size != self.slot_bytes))
    }

    /// Gives the first byte of a copy of the directory.
    pub const fn slot(self, number: u64) -> u64 {
        number * self.slot_bytes as u64
    }

    /// Gives the first byte of a unit.
    pub const fn unit(self, number: u32) -> u64 {
        self.slot(SLOTS) + number as u64 * self.unit_bytes as u64
    }

    /// Gives the units that `bytes` of a file need.
    pub const fn units_for(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.unit_bytes as u64)
    }
}

/// A file, as the directory keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of the file.
    pub size: u64,
    /// Its units, and those reserved behind them.
    pub extents: Extents,
}

/// The directory of one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Number, which grows by one with each directory that is written.
    pub generation: u64,
    /// Files by name.
    pub files: BTreeMap<String, Kept>,
}

/// Gives the bytes that a file takes in the directory.
pub fn file_bytes(name: &str, extents: usize) -> usize {
    16 + name.len().next_multiple_of(4) + extents * 8
}

/// Reason why there is no directory in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSnapshot {
    /// The place begins with zeros.
    Zeros,
    /// Something else is there, or a damaged directory.
    Other(String),
    /// A directory is there that must not be overwritten: of another version or with unknown
    /// features.
    Unknown(String),
}

impl Snapshot {
    /// Gives its bytes in a slot, without the zeros behind them.
    pub fn encode(&self, layout: Layout, owner: [u8; 16], slot: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        for (name, file) in &self.files {
            bytes.extend_from_slice(&file.size.to_le_bytes());
            bytes.extend_from_slice(&(file.extents.list().len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            for extent in file.extents.list() {
                bytes.extend_from_slice(&extent.start.to_le_bytes());
                bytes.extend_from_slice(&extent.units.to_le_bytes());
            }
        }
        let (length, files) = (bytes.len() as u32, self.files.len() as u32);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(8, &MAGIC);
        put(16, &VERSION.to_le_bytes());
        put(18, &(slot as u16).to_le_bytes());
        put(20, &layout.sector_bytes.to_le_bytes());
        put(24, &owner);
        put(40, &self.generation.to_le_bytes());
        put(48, &layout.capacity_bytes.to_le_bytes());
        put(56, &layout.unit_bytes.to_le_bytes());
        put(60, &layout.slot_bytes.to_le_bytes());
        put(64, &length.to_le_bytes());
        put(68, &files.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[8..]);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Gives the length that the beginning of a directory tells, in bytes; 0 if it is none.
    pub fn length(bytes: &[u8]) -> usize {
        let length = bytes.get(64..68).filter(|_| Self::may_begin_with(bytes));
        length.map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    }

    /// Returns true if a slot that begins with these bytes may hold a directory, of any owner.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        bytes.get(8..16) == Some(&MAGIC)
    }

    /// Reads a directory from the bytes of a slot.
    pub fn decode(
        bytes: &[u8],
        layout: Layout,
        owner: [u8; 16],
        slot: u64,
    ) -> Result<Self, NoSnapshot> {
        let other = |reason: &str| Err(NoSnapshot::Other(reason.to_owned()));
        let mut head = Reader(bytes);
        let Some(checksum) = head.number::<8>().filter(|_| bytes.len() >= HEAD_BYTES) else {
            return other("too short");
        };
        if bytes[8..16] != MAGIC {
            let is_zero = bytes.iter().all(|&byte| byte == 0);
            return if is_zero { Err(NoSnapshot::Zeros) } else { other("other data") };
        }
        let length = u32::from_le_bytes([bytes[64], bytes[65], bytes[66], bytes[67]]) as usize;
        let Some(bytes) = bytes.get(..length).filter(|bytes| bytes.len() >= HEAD_BYTES) else {
            return other("damaged: its length is none");
        };
        if XxHash3_64::oneshot(&bytes[8..]) != checksum {
            return other("damaged: its checksum does not fit");
        }
        if bytes[24..40] != owner {
            return other("of another volume");
        }
        let mut head = Reader(&bytes[16..]);
        let version = head.number::<2>().unwrap_or_default();
        if version != u64::from(VERSION) {
            return Err(NoSnapshot::Unknown(format!(
                "its version is {version}, and this program knows {VERSION}: use a newer one"
            )));
        }
        let mut features = Reader(&bytes[72..]);
        if let Some(features @ 1..) = features.number::<8>() {
            return Err(NoSnapshot::Unknown(format!(
                "it has features {features:#x} that this program does not know: use a newer one"
            )));
        }
        Self::of_whole(bytes, layout, slot).map_or_else(|| other("it contradicts itself"), Ok)
    }

    /// Reads a directory from bytes whose checksum is right; none if they contradict themselves or
    /// the volume.
    fn of_whole(bytes: &[u8], layout: Layout, slot: u64) -> Option<Self> {
        let mut head = Reader(&bytes[18..]);
        let is_here = head.number::<2>()? == slot
            && head.number::<4>()? == u64::from(layout.sector_bytes)
            && head.take(16).is_some();
        let generation = head.number::<8>()?;
        // The volume may have been resized since.
        head.take(8)?;
        let fits = head.number::<4>()? == u64::from(layout.unit_bytes)
            && head.number::<4>()? == u64::from(layout.slot_bytes);
        if !is_here || !fits {
            return None;
        }
        head.take(4)?;
        let count = head.number::<4>()?;
        let mut files = BTreeMap::new();
        let mut rest = Reader(&bytes[HEAD_BYTES..]);
        for _ in 0..count {
            let (size, extents) = (rest.number::<8>()?, rest.number::<4>()?);
            let length = rest.number::<4>()? as usize;
            let name = std::str::from_utf8(rest.take(length)?).ok()?.to_owned();
            rest.take(length.next_multiple_of(4) - length)?;
            let mut list = Vec::new();
            for _ in 0..extents {
                let (start, units) = (rest.number::<4>()? as u32, rest.number::<4>()? as u32);
                let extent = Extent { start, units };
                if units == 0 || extent.end() > u64::from(layout.units) {
                    return None;
                }
                list.push(extent);
            }
            let kept = Kept { size, extents: Extents::of(list) };
            if layout.units_for(size) > kept.extents.units() {
                return None;
            }
            files.insert(name, kept);
        }
        (files.len() as u64 == count).then_some(Self { generation, files })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number<const BYTES: usize>(&mut self) -> Option<u64> {
        let mut whole = [0; 8];
        whole[..BYTES].copy_from_slice(self.take(BYTES)?);
        Some(u64::from_le_bytes(whole))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNER: [u8; 16] = [7; 16];

    fn layout() -> Layout {
        Layout::of(16 << 20, 512).unwrap()
    }

    fn some() -> Snapshot {
        let kept = |size, list: &[(u32, u32)]| {
            let extents = list.iter().map(|&(start, units)| Extent { start, units });
            Kept { size, extents: Extents::of(extents) }
        };
        let files = [
            ("app.db".to_owned(), kept(40_000, &[(9, 2), (3, 5)])),
            ("app.db-wal".to_owned(), kept(0, &[])),
            ("é".to_owned(), kept(1, &[(70, 1)])),
        ];
        Snapshot { generation: 99, files: files.into() }
    }

    #[test]
    fn a_directory_comes_back_as_it_was() {
        for slot in 0..SLOTS {
            let bytes = some().encode(layout(), OWNER, slot);
            assert_eq!(Snapshot::decode(&bytes, layout(), OWNER, slot), Ok(some()));
            assert!(Snapshot::decode(&bytes, layout(), OWNER, slot ^ 1).is_err());
            assert!(Snapshot::decode(&bytes, layout(), [8; 16], slot).is_err());
        }
        let files = some().files;
        let sum = files.iter().map(|(name, file)| file_bytes(name, file.extents.list().len()));
        assert_eq!(HEAD_BYTES + sum.sum::<usize>(), some().encode(layout(), OWNER, 0).len());
    }

    #[test]
    fn no_flipped_bit_and_no_missing_byte_goes_unseen() {
        let bytes = some().encode(layout(), OWNER, 2);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(Snapshot::decode(&flipped, layout(), OWNER, 2).is_err(), "{at} {bit}");
            }
            assert!(Snapshot::decode(&bytes[..at], layout(), OWNER, 2).is_err(), "{at}");
        }
    }

    /// Files drawn byte by byte in `docs/formats/sqlite_files.md`.
    #[test]
    fn it_lies_where_the_document_says() {
        let bytes = some().encode(layout(), OWNER, 1);
        assert_eq!((&bytes[8..16], bytes[16], bytes[18]), (&MAGIC[..], 1, 1));
        assert_eq!((&bytes[24..40], bytes[40], bytes[68]), (&OWNER[..], 99, 3));
        assert_eq!(bytes[80..88], 40_000_u64.to_le_bytes());
        assert_eq!((bytes[88], bytes[92], &bytes[96..104]), (2, 6, b"app.db\0\0".as_slice()));
        assert_eq!((bytes[104], bytes[108], bytes[112], bytes[116]), (9, 2, 3, 5));
    }

    #[test]
    fn a_volume_that_was_resized_keeps_the_sizes_that_it_was_made_with() {
        let bytes = some().encode(layout(), OWNER, 3);
        for capacity in [12 << 20, 1 << 30] {
            let own = Layout::of(capacity, 512).unwrap();
            let written = own.written(&bytes, OWNER).unwrap();
            assert_eq!((written.capacity_bytes, written.slot_bytes), (capacity, 256 << 10));
            assert!(own.slot_sizes().any(|size| size == written.slot_bytes));
            assert_eq!(Snapshot::decode(&bytes, written, OWNER, 3), Ok(some()));
            assert_eq!(own.written(&bytes, [8; 16]), None);
        }
    }

    #[test]
    fn sizes_follow_the_volume() {
        let sizes = |capacity, sector| {
            let layout = Layout::of(capacity, sector).unwrap();
            (layout.unit_bytes, layout.slot_bytes)
        };
        assert_eq!(sizes(192 << 10, 512), (1024, 2048));
        assert_eq!(sizes(256 << 10, 4096), (4096, 4096));
        assert_eq!(sizes(16 << 20, 512), (16 << 10, 256 << 10));
        assert_eq!(sizes(1 << 40, 4096), (64 << 10, 1 << 20));
        assert_eq!(Layout::of(15 << 10, 512), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_stumble(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Snapshot::decode(&bytes, layout(), OWNER, 0);
            // With a checksum that is right it gets further.
            if bytes.len() > HEAD_BYTES {
                bytes[8..16].copy_from_slice(&MAGIC);
                bytes[16..24].copy_from_slice(&some().encode(layout(), OWNER, 0)[16..24]);
                let length = bytes.len() as u32;
                bytes[24..40].copy_from_slice(&OWNER);
                bytes[48..64].copy_from_slice(&some().encode(layout(), OWNER, 0)[48..64]);
                bytes[64..68].copy_from_slice(&length.to_le_bytes());
                bytes[70..80].fill(0);
                let checksum = XxHash3_64::oneshot(&bytes[8..]);
                bytes[..8].copy_from_slice(&checksum.to_le_bytes());
                let _ = Snapshot::decode(&bytes, layout(), OWNER, 0);
            }
        }
    }
}
