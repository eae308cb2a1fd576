//! A place on the device for every request of a trace.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use block::DeviceInfo;
use traces::requests::folded;
use units::{IoOp, IoRequest, RequestSource, SourceError};

use crate::error::ReplayError;
use crate::trace::Totals;

/// The part of a device that is touched, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte: address 0 of the trace.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Treatment of addresses that the region does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// There must be none.
    Refuse,
    /// They are taken modulo the region. A request that would begin before its end and stop behind
    /// it is moved so that it ends there.
    Fold,
    /// All addresses are stretched or shrunk onto the region, to multiples of the trace's own unit,
    /// or of sectors where these are longer.
    Scale,
}

/// Placement of the requests of one trace on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    region: Region,
    remap: Remap,
    end_bytes: u64,
    unit_bytes: u64,
    sector_bytes: u64,
    most_bytes: u64,
    has_trim: bool,
}

impl Fit {
    /// The way to place requests of these totals in a region of a device.
    ///
    /// # Errors
    /// [`ReplayError::Unusable`] if the region is not one of whole sectors within the device; if
    /// the trace names addresses that it does not have, and they are to be refused; or if the
    /// device may only be read, and the trace writes.
    pub fn new(
        totals: &Totals,
        info: &DeviceInfo,
        region: Region,
        remap: Remap,
    ) -> Result<Self, ReplayError> {
        let Region { offset, length } = region;
        let sector = u64::from(info.limits.sector_bytes);
        let unusable =
            |reason, right| ReplayError::Unusable { name: info.name.clone(), reason, right };
        let is_whole = offset.is_multiple_of(sector) && length.is_multiple_of(sector) && length > 0;
        if !is_whole
            || offset.checked_add(length).is_none_or(|end| end > info.limits.capacity_bytes)
        {
            let reason = format!("there is no region of {length} bytes at byte {offset}");
            return Err(unusable(
                reason,
                format!(
                    "whole sectors of {sector} bytes within its {}",
                    info.limits.capacity_bytes
                ),
            ));
        }
        if remap == Remap::Refuse && totals.end_bytes > length {
            let reason = format!(
                "the trace names addresses up to byte {}, and there are {length} bytes for it",
                totals.end_bytes
            );
            return Err(unusable(
                reason,
                "a larger device, --fold, or fit=dense or fit=scale in part(...)".to_owned(),
            ));
        }
        if info.is_read_only && totals.changes() {
            return Err(unusable(
                "the trace writes, and it was opened for reading only".to_owned(),
                "only the reads of the trace".to_owned(),
            ));
        }
        Ok(Self {
            region,
            remap,
            end_bytes: totals.end_bytes.max(1),
            unit_bytes: totals.unit_bytes.max(sector),
            sector_bytes: sector,
            most_bytes: u64::from(info.limits.most_bytes) / sector * sector,
            has_trim: info.has_trim,
        })
    }

    /// First byte within the region, and length, of a request that has a range.
    fn remapped(&self, request: &IoRequest) -> (u64, u64) {
        let (room, length) =
            (self.region.length, u64::from(request.length).min(self.region.length));
        let offset = match self.remap {
            Remap::Refuse => request.offset,
            Remap::Fold => folded(request.offset, request.length, room).0,
            Remap::Scale => {
                let scaled =
                    u128::from(request.offset) * u128::from(room) / u128::from(self.end_bytes);
                (scaled as u64 / self.unit_bytes * self.unit_bytes).min(room - length)
            }
        };
        (offset, length)
    }
}

/// Numbers of requests that had to be changed so that the device takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FittedCounts {
    /// Requests that were moved to another address, beside where the region begins.
    pub moved: u64,
    /// Requests that are longer than the region, and were cut.
    pub cut: u64,
    /// Reads and writes that were not of whole sectors, and are now.
    pub widened: u64,
    /// Requests that are longer than the device takes, and were sent in parts.
    pub split: u64,
    /// Parts of these beside the first of each.
    pub more_parts: u64,
    /// Trims left out, as the device has none.
    pub trims_without_device: u64,
    /// Trims left out, as they hold no whole sector.
    pub trims_too_short: u64,
}

/// The requests of a source at places on the device: of whole sectors, within the region, none
/// longer than the device takes.
pub struct Fitted {
    source: Box<dyn RequestSource>,
    fit: Fit,
    counts: FittedCounts,
    told: Arc<Mutex<FittedCounts>>,
    chunk: Vec<IoRequest>,
    ready: VecDeque<IoRequest>,
    is_over: bool,
}

/// Requests that are looked at together.
const CHUNK: usize = 1024;

impl Fitted {
    /// The requests of a source, placed.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, fit: Fit) -> Self {
        let (told, ready) = (Arc::default(), VecDeque::with_capacity(2 * CHUNK));
        Self {
            source,
            fit,
            counts: FittedCounts::default(),
            told,
            chunk: Vec::new(),
            ready,
            is_over: false,
        }
    }

    /// Gives a function that tells the counts so far, for when the source is in use elsewhere.
    pub fn counts(&self) -> impl Fn() -> FittedCounts + Send + use<> {
        let told = Arc::clone(&self.told);
        move || *told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_chunk(&mut self) -> Result<(), SourceError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(CHUNK, IoRequest::NOTHING);
        let count = self.source.fill(&mut chunk)?;
        self.is_over = count < CHUNK;
        chunk[..count].iter().for_each(|request| self.place(request));
        self.chunk = chunk;
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
        Ok(())
    }

    fn place(&mut self, request: &IoRequest) {
        if request.op == IoOp::Flush {
            self.ready.push_back(IoRequest { offset: 0, length: 0, ..*request });
            return;
        }
        let Fit { region, sector_bytes: sector, most_bytes, has_trim, .. } = self.fit;
        if request.op == IoOp::Trim && !has_trim {
            self.counts.trims_without_device += 1;
            return;
        }
        let (offset, length) = self.fit.remapped(request);
        self.counts.moved += u64::from(offset != request.offset);
        self.counts.cut += u64::from(length < u64::from(request.length));
        // What is read or written is at least what was asked for; what is trimmed is at most that.
        let (start, end) = if request.op == IoOp::Trim {
            (offset.next_multiple_of(sector), (offset + length) / sector * sector)
        } else {
            (offset / sector * sector, (offset + length).next_multiple_of(sector))
        };
        if start >= end {
            self.counts.trims_too_short += 1;
            return;
        }
        self.counts.widened += u64::from(request.op != IoOp::Trim && end - start > length);
        let most = if request.op == IoOp::Trim { u64::MAX } else { most_bytes };
        let parts = (end - start).div_ceil(most);
        (self.counts.split, self.counts.more_parts) =
            (self.counts.split + u64::from(parts > 1), self.counts.more_parts + parts - 1);
        let mut at = start;
        while at < end {
            let length = (end - at).min(most);
            self.ready.push_back(IoRequest {
                offset: region.offset + at,
                length: length as u32,
                ..*request
            });
            at += length;
        }
    }
}

impl RequestSource for Fitted {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        while self.ready.len() < buffer.len() && !self.is_over {
            self.next_chunk()?;
        }
        let count = self.ready.len().min(buffer.len());
        for (out, request) in buffer.iter_mut().zip(self.ready.drain(..count)) {
            *out = request;
        }
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.source.rewind()?;
        self.ready.clear();
        (self.is_over, self.counts) = (false, FittedCounts::default());
        Ok(())
    }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
