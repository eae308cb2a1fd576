//! Logs made by hand, for tests.

use std::fs;
use std::path::Path;

use crc32c::{crc32c, crc32c_append};

use super::positions::{Lsn, PAGE_BYTES, Positions};
use super::record::{flags, rmgr, xact, xlog};

/// Bytes of a segment.
pub const SEGMENT: u64 = 1 << 20;
const PAGE: u64 = PAGE_BYTES as u64;

/// A block of a record.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub node: u32,
    pub number: u32,
    pub data: Vec<u8>,
    /// Bytes before and behind a hole, and its length.
    pub image: Option<(Vec<u8>, Vec<u8>)>,
    pub is_made: bool,
}

/// A log that grows.
pub struct Built {
    magic: u16,
    positions: Positions,
    first: Lsn,
    /// Without headers of pages, from the first segment on.
    bytes: Vec<u8>,
    /// Beginnings and ends of records.
    records: Vec<(u64, u64)>,
    before: Lsn,
    transaction: u32,
}

impl Built {
    /// Begins with a segment, with the magic number of a version.
    pub fn new(segment: u64, magic: u16) -> Self {
        let positions = Positions { segment_bytes: SEGMENT };
        let first = Lsn(segment * SEGMENT);
        Self {
            magic,
            positions,
            first,
            bytes: Vec::new(),
            records: Vec::new(),
            before: Lsn(0),
            transaction: 700,
        }
    }

    fn start(&self) -> u64 {
        self.positions.position(self.first)
    }

    /// The place of the next record.
    pub fn lsn(&self) -> Lsn {
        self.positions.lsn(self.start() + self.bytes.len() as u64)
    }

    /// Adds a record.
    pub fn add(&mut self, rmgr: u8, info: u8, changes: &[Change], main: &[u8]) -> Lsn {
        let (mut heads, mut data) = (Vec::new(), Vec::new());
        for (id, change) in changes.iter().enumerate() {
            let image = if change.image.is_some() { flags::HAS_IMAGE } else { 0 };
            let made = if change.is_made { flags::WILL_INIT } else { 0 };
            heads.extend([id as u8, image | made | if change.data.is_empty() { 0 } else { 0x20 }]);
            heads.extend((change.data.len() as u16).to_le_bytes());
            if let Some((head, tail)) = &change.image {
                let length = head.len() + tail.len();
                heads.extend((length as u16).to_le_bytes());
                heads.extend((head.len() as u16).to_le_bytes());
                heads.push(if length < PAGE_BYTES { flags::HAS_HOLE } else { 0 });
                data.extend(head);
                data.extend(tail);
            }
            for number in [1663, 5, change.node, change.number] {
                heads.extend(number.to_le_bytes());
            }
            data.extend(&change.data);
        }
        if !main.is_empty() {
            heads.extend([255, main.len() as u8]);
        }
        self.add_raw(rmgr, info, &[heads, data, main.to_vec()].concat())
    }

    fn add_raw(&mut self, rmgr: u8, info: u8, rest: &[u8]) -> Lsn {
        let lsn = self.lsn();
        let mut record = ((24 + rest.len()) as u32).to_le_bytes().to_vec();
        record.extend(self.transaction.to_le_bytes());
        record.extend(self.before.0.to_le_bytes());
        record.extend([info, rmgr, 0, 0]);
        let crc = crc32c_append(crc32c(rest), &record);
        record.extend(crc.to_le_bytes());
        record.extend(rest);
        self.before = lsn;
        let at = self.start() + self.bytes.len() as u64;
        self.records.push((at, at + record.len() as u64));
        self.bytes.extend(&record);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        lsn
    }

    /// Adds the commit of a transaction.
    pub fn commit(&mut self, time_us: i64) -> Lsn {
        let lsn = self.add(rmgr::XACT, xact::COMMIT, &[], &time_us.to_le_bytes());
        self.transaction += 1;
        lsn
    }

    /// Adds the redo point of a checkpoint, as from version 17 on.
    pub fn redo(&mut self) -> Lsn {
        self.add(rmgr::XLOG, xlog::CHECKPOINT_REDO, &[], &1_u32.to_le_bytes())
    }

    /// Adds the end of a checkpoint, which tells its redo point.
    pub fn checkpoint(&mut self, redo: Lsn) -> Lsn {
        let mut main = redo.0.to_le_bytes().to_vec();
        main.resize(88, 0);
        self.add(rmgr::XLOG, xlog::CHECKPOINT_ONLINE, &[], &main)
    }

    /// Writes the segments.
    pub fn write(&self, folder: &Path) {
        let end = self.start() + self.bytes.len() as u64;
        let mut base = self.first.0;
        while self.positions.position(Lsn(base)) < end {
            let mut file = vec![0; SEGMENT as usize];
            for offset in (0..SEGMENT).step_by(PAGE_BYTES) {
                let from = self.positions.position(Lsn(base + offset));
                if from >= end {
                    break;
                }
                self.page(&mut file[offset as usize..][..PAGE_BYTES], base, offset);
            }
            let number = base / SEGMENT;
            fs::write(folder.join(format!("00000001{:08X}{number:08X}", 0)), file).unwrap();
            base += SEGMENT;
        }
    }

    fn page(&self, page: &mut [u8], base: u64, offset: u64) {
        let (from, start) = (self.positions.position(Lsn(base + offset)), self.start());
        let upto = self.positions.position(Lsn(base + offset + PAGE));
        // A record that began before, and goes on here.
        let across = self.records.iter().find(|(begin, end)| *begin < from && *end > from);
        let rest = across.map_or(0, |(_, end)| end - from);
        let info = u16::from(rest > 0) | if offset == 0 { 2 } else { 0 };
        let mut head = self.magic.to_le_bytes().to_vec();
        head.extend(info.to_le_bytes());
        head.extend(1_u32.to_le_bytes());
        head.extend((base + offset).to_le_bytes());
        head.extend((rest as u32).to_le_bytes());
        head.extend([0; 4]);
        if offset == 0 {
            head.extend(7_u64.to_le_bytes());
            head.extend((SEGMENT as u32).to_le_bytes());
            head.extend((PAGE_BYTES as u32).to_le_bytes());
        }
        page[..head.len()].copy_from_slice(&head);
        let bytes = &self.bytes[(from - start) as usize..];
        let bytes = &bytes[..bytes.len().min((upto - from) as usize)];
        page[head.len()..head.len() + bytes.len()].copy_from_slice(bytes);
    }
}
