//! Requests from memory, from the trace file again, folded onto a smaller drive, and several times
//! over.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use units::{IoOp, IoRequest, PLACEMENT_HANDLES, Progress, RequestSource, SourceError};

use super::Counts;
use super::extents::{Extents, Placed};
use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, Trace, open};
use crate::pages::table::Cursor;

/// The part of a trace that is taken, by the number of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected {
    skip: u64,
    left: u64,
}

impl Selected {
    pub(super) fn new(start: u64, limit: u64) -> Self {
        Self { skip: start, left: limit }
    }

    /// Gives the range that is taken of the next `count` requests.
    pub(super) fn next(&mut self, count: usize) -> Range<usize> {
        let skipped = self.skip.min(count as u64);
        let taken = self.left.min(count as u64 - skipped);
        self.skip -= skipped;
        self.left -= taken;
        skipped as usize..(skipped + taken) as usize
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// A request without its latency, placement handle and FUA, in 24 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    offset: u64,
    /// The two lowest bits are the number of the operation; a time is below 2^62 ns, 146 years.
    time_and_op: u64,
    length: u32,
    stream: u32,
}

impl Packed {
    pub(super) fn new(request: &IoRequest, base_ns: u64) -> Self {
        let time_ns = request.time_ns.saturating_sub(base_ns).min(u64::MAX >> 2);
        Self {
            offset: request.offset,
            time_and_op: time_ns << 2 | request.op as u64,
            length: request.length,
            stream: request.stream,
        }
    }

    pub(super) fn move_to(&mut self, offset: u64, length: u32) {
        (self.offset, self.length) = (offset, length);
    }

    #[inline]
    pub(super) fn request(self) -> IoRequest {
        let op = IoOp::ALL[(self.time_and_op & 3) as usize];
        let Self { offset, time_and_op, length, stream } = self;
        IoRequest {
            time_ns: time_and_op >> 2,
            op,
            offset,
            length,
            stream,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        }
    }
}

/// The bit of FUA in what [`rest_of`] gives.
const FUA: u8 = PLACEMENT_HANDLES;

/// Placement handle and FUA of a request.
fn rest_of(request: &IoRequest) -> u8 {
    request.handle | if request.is_fua { FUA } else { 0 }
}

/// Requests that are kept in memory.
#[derive(Default)]
pub(super) struct InMemory {
    packed: Vec<Packed>,
    /// Their placement handles and FUA ([`rest_of`]); empty where none has any, as in nearly every
    /// trace.
    rests: Vec<u8>,
}

impl InMemory {
    pub(super) fn len(&self) -> u64 {
        self.packed.len() as u64
    }

    pub(super) fn push(&mut self, request: &IoRequest, base_ns: u64) {
        let rest = rest_of(request);
        if rest > 0 && self.rests.is_empty() {
            self.rests.resize(self.packed.len(), 0);
        }
        let has_rests = rest > 0 || !self.rests.is_empty();
        self.packed.push(Packed::new(request, base_ns));
        if has_rests {
            self.rests.push(rest);
        }
    }

    /// Keeps the requests of which it is true, and gives back the memory of the others.
    pub(super) fn retain_mut(&mut self, mut is_kept: impl FnMut(&mut Packed) -> bool) {
        let mut kept = 0;
        for place in 0..self.packed.len() {
            if is_kept(&mut self.packed[place]) {
                self.packed[kept] = self.packed[place];
                if !self.rests.is_empty() {
                    self.rests[kept] = self.rests[place];
                }
                kept += 1;
            }
        }
        self.packed.truncate(kept);
        self.packed.shrink_to_fit();
        self.rests.truncate(kept);
        self.rests.shrink_to_fit();
    }
}

/// Requests that are kept in memory and shared.
pub(super) struct MemoryRequests {
    all: Arc<InMemory>,
    next: usize,
}

impl MemoryRequests {
    pub(super) fn new(all: Arc<InMemory>) -> Self {
        Self { all, next: 0 }
    }
}

impl RequestSource for MemoryRequests {
    fn requests(&self) -> Option<u64> {
        Some(self.all.len())
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let rest = &self.all.packed[self.next..];
        for (packed, out) in rest.iter().zip(buffer.iter_mut()) {
            *out = packed.request();
        }
        let rests = self.all.rests.get(self.next..).unwrap_or_default();
        for (&rest, out) in rests.iter().zip(buffer.iter_mut()) {
            (out.handle, out.is_fua) = (rest & !FUA, rest & FUA > 0);
        }
        let count = rest.len().min(buffer.len());
        self.next += count;
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.next = 0;
        Ok(())
    }
}

/// Requests that are read from the file again at each pass.
pub(super) struct FileRequests {
    path: PathBuf,
    how: OpenOptions,
    window: Selected,
    extents: Arc<Extents>,
    base_ns: u64,
    /// `None` until they were counted.
    requests: Option<u64>,
    /// `None` before the first request of a pass.
    pass: Option<Pass>,
}

struct Pass {
    trace: Trace,
    batch: Vec<IoRequest>,
    /// The part of the batch that is still to come.
    rest: Range<usize>,
    window: Selected,
    cursor: Cursor,
    given: u64,
    left_out: u64,
}

impl FileRequests {
    pub(super) fn new(
        path: &Path,
        how: OpenOptions,
        window: Selected,
        extents: Arc<Extents>,
        base_ns: u64,
    ) -> Self {
        Self { path: path.to_owned(), how, window, extents, base_ns, requests: None, pass: None }
    }

    /// Another source of the same requests, at their start.
    pub(super) fn fresh(&self) -> Self {
        let mut fresh = Self::new(
            &self.path,
            self.how.clone(),
            self.window,
            Arc::clone(&self.extents),
            self.base_ns,
        );
        fresh.requests = self.requests;
        fresh
    }

    /// Counts all requests, in a pass of its own.
    pub(super) fn count(&mut self, progress: &Progress) -> Result<Counts, TraceError> {
        let (mut counts, mut pass) = (Counts::default(), self.start()?);
        let mut buffer = vec![IoRequest::NOTHING; BATCH_REQUESTS];
        loop {
            let count = self.fill_from(&mut pass, &mut buffer)?;
            buffer[..count].iter().for_each(|request| counts.add(request.op, request.length));
            progress.advance(0)?;
            if count < buffer.len() {
                counts.left_out = pass.left_out;
                self.requests = Some(pass.given);
                return Ok(counts);
            }
        }
    }

    fn changed(&self, reason: &str) -> TraceError {
        TraceError::Unusable {
            path: self.path.clone(),
            reason: format!("{reason}: it was changed since it was first read"),
            right: "a file that stays as it is while it is used",
        }
    }

    fn start(&self) -> Result<Pass, TraceError> {
        Ok(Pass {
            trace: open(&self.path, &self.how)?,
            batch: Vec::with_capacity(BATCH_REQUESTS),
            rest: 0..0,
            window: self.window,
            cursor: Cursor::default(),
            given: 0,
            left_out: 0,
        })
    }

    fn fill_from(&self, pass: &mut Pass, buffer: &mut [IoRequest]) -> Result<usize, TraceError> {
        let mut count = 0;
        while count < buffer.len() {
            let Some(index) = pass.rest.next() else {
                if pass.next_batch()? {
                    continue;
                }
                if self.requests.is_some_and(|requests| requests != pass.given + count as u64) {
                    return Err(self.changed("the number of requests differs"));
                }
                break;
            };
            let request = &pass.batch[index];
            match self.extents.place(
                &mut pass.cursor,
                request,
                pass.trace.facts().streams_are_volumes,
            ) {
                Placed::At(offset, length) => {
                    let mut packed = Packed::new(request, self.base_ns);
                    packed.move_to(offset, length);
                    let IoRequest { handle, is_fua, .. } = *request;
                    buffer[count] = IoRequest { handle, is_fua, ..packed.request() };
                    count += 1;
                }
                Placed::Nowhere => pass.left_out += 1,
                Placed::Unknown => {
                    return Err(self.changed("it reads or writes what it did not before"));
                }
            }
        }
        pass.given += count as u64;
        Ok(count)
    }
}

impl Pass {
    /// Reads on; `false` at the end.
    fn next_batch(&mut self) -> Result<bool, TraceError> {
        self.batch.clear();
        if self.window.is_over() || self.trace.read_batch(&mut self.batch, BATCH_REQUESTS)? == 0 {
            return Ok(false);
        }
        self.rest = self.window.next(self.batch.len());
        Ok(true)
    }
}

impl RequestSource for FileRequests {
    fn requests(&self) -> Option<u64> {
        self.requests
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.start()?,
        };
        let count = self.fill_from(&mut pass, buffer)?;
        self.pass = Some(pass);
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.pass = None;
        Ok(())
    }
}

/// First byte and length of a range in so many bytes that have to do for it: taken modulo these.
/// One that would begin before the end and stop behind it is moved so that it ends there; one that
/// is longer is cut. So different places of a trace become one: more is overwritten, and more is
/// read again, than in the trace.
#[inline]
#[must_use]
pub fn folded(offset: u64, length: u32, room: u64) -> (u64, u32) {
    if offset + u64::from(length) <= room {
        return (offset, length);
    }
    let length = u64::from(length).min(room);
    ((offset % room).min(room - length), length as u32)
}

/// Requests whose addresses are [`folded`] onto a drive that is too small for them.
pub struct Folded {
    source: Box<dyn RequestSource>,
    capacity_bytes: u64,
}

impl Folded {
    /// The requests of a source on a drive of `capacity_bytes`.
    ///
    /// # Panics
    /// If the drive has no bytes.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, capacity_bytes: u64) -> Self {
        assert!(capacity_bytes > 0, "a drive has some bytes");
        Self { source, capacity_bytes }
    }
}

impl RequestSource for Folded {
    fn requests(&self) -> Option<u64> {
        self.source.requests()
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let count = self.source.fill(buffer)?;
        let capacity = self.capacity_bytes;
        for request in &mut buffer[..count] {
            (request.offset, request.length) = folded(request.offset, request.length, capacity);
        }
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.source.rewind()
    }
}

/// Requests played several times over; the times of each pass go on a period behind those of the
/// one before.
pub struct Repeated {
    source: Box<dyn RequestSource>,
    times: u32,
    period_ns: u64,
    /// Passes that were begun.
    begun: u32,
}

impl Repeated {
    /// The requests of a source, `times` times over.
    ///
    /// # Panics
    /// If `times` is 0.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, times: u32, period_ns: u64) -> Self {
        assert!(times > 0, "a source is played once or more");
        Self { source, times, period_ns, begun: 1 }
    }

    /// The period of requests over `duration_ns`: the gap from the last to the first of the next
    /// pass is the mean gap.
    #[must_use]
    pub fn period_ns(duration_ns: u64, requests: u64) -> u64 {
        duration_ns.saturating_add(duration_ns / requests.saturating_sub(1).max(1))
    }
}

impl RequestSource for Repeated {
    fn requests(&self) -> Option<u64> {
        self.source.requests().map(|requests| requests * u64::from(self.times))
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let mut count = 0;
        loop {
            let got = self.source.fill(&mut buffer[count..])?;
            let base_ns = self.period_ns.saturating_mul(u64::from(self.begun - 1));
            for request in &mut buffer[count..count + got] {
                request.time_ns = request.time_ns.saturating_add(base_ns);
            }
            count += got;
            if count == buffer.len() || self.begun == self.times {
                return Ok(count);
            }
            self.begun += 1;
            self.source.rewind()?;
        }
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.begun = 1;
        self.source.rewind()
    }
}
