//! The loop that formats of records of one size share.

use units::IoRequest;

use crate::error::{Bad, Place, TraceError};
use crate::input::{Bytes, Input};
use crate::reader::{BadRecords, Clock, Facts, TraceReader};

/// Reader of single records: each becomes a request.
pub(crate) trait RecordFormat: Send {
    /// Bytes of a record.
    fn record_bytes(&self) -> usize;

    /// The request of a record of that size. Times are those of the file: they are rebased later.
    fn record(&mut self, record: &[u8]) -> Result<IoRequest, Bad>;

    /// Returns true if the records tell times.
    fn has_times(&self) -> bool;
}

/// Reads a format of records of one size.
pub(crate) struct RecordReader<F> {
    bytes: Bytes,
    format: F,
    bad: BadRecords,
    clock: Clock,
    records: u64,
    cut: u64,
}

impl<F: RecordFormat> RecordReader<F> {
    pub(crate) fn new(input: Input, format: F, skip_bad: u64) -> Self {
        let bytes = input.into_bytes();
        let bad = BadRecords::new(bytes.path(), skip_bad);
        Self { bytes, format, bad, clock: Clock::default(), records: 0, cut: 0 }
    }
}

impl<F: RecordFormat> TraceReader for RecordReader<F> {
    fn read_batch(&mut self, out: &mut Vec<IoRequest>, max: usize) -> Result<usize, TraceError> {
        let start = out.len();
        let size = self.format.record_bytes();
        while out.len() - start < max {
            let offset = self.bytes.offset();
            let ready = self.bytes.ready(size)?;
            if ready.len() < size {
                let count = ready.len();
                if count > 0 {
                    self.bytes.consume(count);
                    if self.records > 0 {
                        self.cut += 1;
                        break;
                    }
                    let bad = Bad::new(
                        format!("the file ends after {count} of {size} bytes of a record"),
                        "whole records",
                    );
                    self.bad.pass(Place::Byte(offset), bad)?;
                }
                break;
            }
            let whole = ready.len() / size * size;
            let take = whole.min((max - (out.len() - start)) * size);
            let mut failed = None;
            let mut used = 0;
            for record in ready[..take].chunks_exact(size) {
                used += size;
                match self.format.record(record) {
                    Ok(request) => out.push(request),
                    Err(bad) => {
                        failed = Some(bad);
                        break;
                    }
                }
            }
            self.bytes.consume(used);
            self.records += (used / size) as u64;
            if let Some(bad) = failed {
                self.bad.pass(Place::Byte(offset + (used - size) as u64), bad)?;
            }
        }
        self.clock.rebase(&mut out[start..]);
        Ok(out.len() - start)
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts {
            clamped_times: self.clock.clamped,
            unseen_reversals: self.clock.unseen_reversals,
            start_ns: self.clock.start.filter(|_| self.format.has_times()),
            timeless: !self.format.has_times(),
            ..Facts::default()
        };
        self.bad.tell(&mut facts);
        facts.tell_cut(self.cut);
        facts
    }
}

/// A little-endian number inside a record.
///
/// # Panics
/// If the record is shorter.
#[inline]
pub(crate) fn le_u16(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// As [`le_u16`].
#[inline]
pub(crate) fn le_u32(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

/// As [`le_u16`].
#[inline]
pub(crate) fn le_u64(record: &[u8], at: usize) -> u64 {
    u64::from(le_u32(record, at)) | u64::from(le_u32(record, at + 4)) << 32
}
