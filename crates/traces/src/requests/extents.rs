//! Extents that a trace touches, and their places on the drive.

use units::{IoOp, IoRequest};

use super::EXTENT_BYTES;
use crate::pages::table::{Cursor, NONE, PageTable};

/// The extents that are read or written, numbered in ascending order of volume and address.
#[derive(Default)]
pub(super) struct Extents {
    table: PageTable,
    cursor: Cursor,
    touched: u32,
    /// The last byte that is read or written, in that order.
    last: (u32, u64),
    footprint_bytes: u64,
}

/// Place of a request on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// First byte, and length.
    At(u64, u32),
    /// It names nothing that is ever read or written.
    Nowhere,
    /// It reads or writes what was not touched when the trace was read first.
    Unknown,
}

fn volume(request: &IoRequest, by_volume: bool) -> u32 {
    if by_volume { request.stream } else { 0 }
}

impl Extents {
    /// Notes what a request reads or writes.
    pub(super) fn touch(&mut self, request: &IoRequest, by_volume: bool) {
        if !matches!(request.op, IoOp::Read | IoOp::Write) || request.length == 0 {
            return;
        }
        let volume = volume(request, by_volume);
        let last = request.offset + u64::from(request.length) - 1;
        for extent in request.offset / EXTENT_BYTES..=last / EXTENT_BYTES {
            let entry = self.table.entry(&mut self.cursor, volume, extent);
            if *entry == NONE {
                *entry = self.touched;
                self.touched += 1;
            }
        }
        self.last = self.last.max((volume, last));
    }

    /// Returns true if numbers may soon run out: to be asked before each 2^16 requests.
    pub(super) fn are_too_many(&self) -> bool {
        self.touched > 1 << 30
    }

    /// Numbers the extents, after the last request. Gives the bytes that they take on a drive;
    /// `None` if there are none.
    pub(super) fn finish(&mut self) -> Option<u64> {
        let before = u64::from(self.touched.checked_sub(1)?) * EXTENT_BYTES;
        self.table.renumber(self.touched);
        self.footprint_bytes = before + self.last.1 % EXTENT_BYTES + 1;
        Some(self.footprint_bytes)
    }

    fn find(&self, cursor: &mut Cursor, volume: u32, extent: u64) -> Option<u64> {
        let number = self.table.get(cursor, volume, extent);
        (number != NONE).then_some(u64::from(number))
    }

    /// The place of a request, once the extents are numbered.
    #[inline]
    pub(super) fn place(
        &self,
        cursor: &mut Cursor,
        request: &IoRequest,
        by_volume: bool,
    ) -> Placed {
        if request.op == IoOp::Flush {
            return Placed::At(0, 0);
        }
        if request.length == 0 {
            return Placed::Nowhere;
        }
        let volume = volume(request, by_volume);
        let last = request.offset + u64::from(request.length) - 1;
        let (from, to) = (request.offset / EXTENT_BYTES, last / EXTENT_BYTES);
        if request.op == IoOp::Trim {
            return self.place_trim(cursor, volume, request.offset, last);
        }
        let Some(number) = self.find(cursor, volume, from) else { return Placed::Unknown };
        let offset = number * EXTENT_BYTES + request.offset % EXTENT_BYTES;
        let is_whole = from == to || self.find(cursor, volume, to) == Some(number + (to - from));
        if is_whole && offset + u64::from(request.length) <= self.footprint_bytes {
            Placed::At(offset, request.length)
        } else {
            Placed::Unknown
        }
    }

    /// The extents within a trim that there are lie next to each other, as all are in order.
    fn place_trim(&self, cursor: &mut Cursor, volume: u32, first: u64, last: u64) -> Placed {
        let (from, to) = (first / EXTENT_BYTES, last / EXTENT_BYTES);
        let found =
            (from..=to).find_map(|extent| Some((extent, self.find(cursor, volume, extent)?)));
        let Some((extent, number)) = found else { return Placed::Nowhere };
        let start = number * EXTENT_BYTES + if extent == from { first % EXTENT_BYTES } else { 0 };
        let found =
            (from..=to).rev().find_map(|extent| Some((extent, self.find(cursor, volume, extent)?)));
        let (extent, number) = found.expect("there is a first one");
        let end = number * EXTENT_BYTES
            + if extent == to { last % EXTENT_BYTES + 1 } else { EXTENT_BYTES };
        let end = end.min(self.footprint_bytes);
        if start < end { Placed::At(start, (end - start) as u32) } else { Placed::Nowhere }
    }
}
