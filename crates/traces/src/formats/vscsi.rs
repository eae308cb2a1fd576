//! CloudPhysics traces of virtual SCSI disks, both versions.

use registry::Info;
use units::{IoOp, IoRequest};

use crate::binary::{RecordFormat, RecordReader, le_u16, le_u32, le_u64};
use crate::error::Bad;
use crate::fields::SECTOR_BYTES;
use crate::formats::{Fit, Format};
use crate::input::Head;
use crate::reader::{checked, sectors};

/// Layouts, little-endian. Lengths are in bytes, `lbn` in 512-byte sectors, times in microseconds:
/// version 1 (32 bytes): sn u32, len u32, nSG u32, cmd u16, ver u16, lbn u64, ts u64;
/// version 2 (40 bytes): cmd u16, ver u16, sn u32, len u32, nSG u32, lbn u64, ts u64, rt u64.
/// The high byte of `ver` is the version.
pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "vscsi",
        aliases: &["cloudphysics"],
        summary: "CloudPhysics vscsi records, version 1 and 2; sectors, bytes, microseconds",
        source: "Waldspurger, Park, Garthwaite, Ahmad: SHARDS, FAST 2015; layout as libCacheSim \
                 reads it",
        params: &[],
    },
    endings: &[".vscsi", ".vscsitrace"],
    fit: |head| if version(head).is_some() { Fit::Likely } else { Fit::No },
    read: |input, _, skip_bad| {
        // A file too short or odd to tell is read as version 1, whose record check then says what
        // is wrong.
        let version = version(input.head()).unwrap_or(1);
        Ok(Box::new(RecordReader::new(input, Vscsi { version }, skip_bad)))
    },
    write: None,
};

const RECORDS_LOOKED_AT: usize = 4;

fn version(head: Head<'_>) -> Option<u8> {
    let fits = |size: usize, ver_at: usize, version: u8| {
        let mut records = head.bytes.chunks_exact(size).take(RECORDS_LOOKED_AT);
        head.bytes.len() >= size
            && records
                .all(|record| record[ver_at + 1] == version && operation(record, ver_at).is_some())
    };
    if fits(40, 2, 2) {
        Some(2)
    } else if fits(32, 14, 1) {
        Some(1)
    } else {
        None
    }
}

/// The SCSI command stands before the version.
fn operation(record: &[u8], ver_at: usize) -> Option<IoOp> {
    match le_u16(record, ver_at - 2) {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(IoOp::Read),
        0x0a | 0x2a | 0x8a | 0xaa => Some(IoOp::Write),
        0x35 | 0x91 => Some(IoOp::Flush),
        _ => None,
    }
}

struct Vscsi {
    version: u8,
}

impl RecordFormat for Vscsi {
    fn record_bytes(&self) -> usize {
        if self.version == 2 { 40 } else { 32 }
    }

    #[inline]
    fn record(&mut self, record: &[u8]) -> Result<IoRequest, Bad> {
        let (ver_at, len_at, lbn_at) = if self.version == 2 { (2, 8, 16) } else { (14, 4, 16) };
        if record[ver_at + 1] != self.version {
            let reason = format!(
                "record version {} in a trace of version {}",
                record[ver_at + 1],
                self.version
            );
            return Err(Bad::new(reason, "one version throughout, 1 or 2"));
        }
        let Some(op) = operation(record, ver_at) else {
            let reason = format!("SCSI command {:#04x}", le_u16(record, ver_at - 2));
            return Err(Bad::new(
                reason,
                "READ, WRITE or SYNCHRONIZE CACHE (an UNMAP keeps its ranges outside the record)",
            ));
        };
        let us = |at| {
            le_u64(record, at)
                .checked_mul(1000)
                .ok_or_else(|| Bad::new("a time beyond 2^64 ns", "microseconds"))
        };
        let offset = sectors("lbn", le_u64(record, lbn_at), SECTOR_BYTES)?;
        let mut request = checked(us(24)?, op, offset, u64::from(le_u32(record, len_at)), 0)?;
        if self.version == 2 {
            request.latency_ns = Some(us(32)?);
        }
        Ok(request)
    }

    fn has_times(&self) -> bool {
        true
    }
}
