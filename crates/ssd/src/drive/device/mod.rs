//! The drive as its host sees it: requests in, completions out, and the next time at which
//! something happens.
//!
//! A [`Drive`] does no I/O and reads no clock: the caller gives it requests, asks for the next
//! time, and lets it step. So the same drive runs in virtual time as fast as the processor allows,
//! or on a wall clock.

mod contents;
mod host;
mod ops;
mod reads;
mod trims;
mod writes;
mod zones;

use units::{IoOp, IoRequest, Lpn, PageOp};

pub use contents::{Contents, Found};

use self::host::{Host, Line};
use self::ops::{Op, OpKind, Ops};
use crate::drive::counters::counters;
use crate::drive::dram::{ReadAhead, ReadCache, WriteBuffer};
use crate::drive::measure::RequestDelays;
use crate::drive::media::{Class, Delays, Done, Media, Tag};
use crate::drive::profile::Profile;
use crate::drive::schemes::{Scheme, WornOut, ZoneError};
use crate::drive::time::{Picos, picos_of_micros};

/// A request to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The operation.
    pub op: IoOp,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
    /// Queue of the host that it comes through: taken modulo the profile's queues.
    pub queue: u32,
    /// Priority among requests that wait in the host for room in a queue: the highest goes first.
    pub priority: u8,
    /// True if a write is done only when it is on flash (FUA).
    pub is_fua: bool,
    /// Placement handle of a write (FDP); 0 if none is given. Used only by profiles with
    /// `fdp.handles`.
    pub placement: u8,
    /// Number that the completion carries, too.
    pub handle: u32,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub submission: Submission,
    /// Time of submission.
    pub submitted_at: Picos,
    /// Time at which the host knows of its end.
    pub completed_at: Picos,
    /// Delays that make up its latency.
    pub delays: RequestDelays,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    submission: Submission,
    submitted_at: Picos,
    first: Lpn,
    pages: u32,
    /// Number of pages that have not ended.
    left: u32,
    /// The next page of a write to be accepted.
    next: u32,
    /// Delays of the page that ended last.
    delays: Delays,
    /// Number of pages of a write whose data has arrived.
    arrived: u32,
    /// Stage of a write.
    stage: writes::Stage,
    /// Time at which it began to wait for room in the write-back buffer.
    stalled_at: Picos,
    /// Total time for which it waited for that.
    stalled: Picos,
    /// True if the frames that announce its data to the host are sent.
    has_frames: bool,
    /// True for a zone append: its place is chosen by the zone.
    is_append: bool,
}

type RequestSlot = u32;

/// Writes come over the link in parts of this many bytes. Smaller parts would be more exact and
/// slower to simulate; 32 KiB take 0.1 ms on SATA.
const PART_BYTES: u32 = 32 * 1024;

/// Most pages that are looked up together, before their requests come.
const PAGES_AT_ONCE: usize = 128;
/// Pages whose entries in a map of 4 bytes per page share a cache line.
const NEIGHBOURS: u32 = 16;

counters! {
    /// Counters of a drive besides flash operations.
    pub struct DriveCounters {
        /// Pages of host reads answered from the write-back buffer or the controller's memory.
        pages_from_memory,
        /// Pages of host reads that held no data.
        unmapped_pages,
        /// Pages read because the host wrote only a part of them.
        filled_pages,
        /// Bytes that the host read.
        read_bytes,
        /// Bytes that the host wrote, including those of refused requests.
        written_bytes,
        /// Bytes of writes that were refused because zones are written in order.
        refused_bytes,
    }
}

/// A simulated drive.
#[derive(Debug)]
pub struct Drive<S> {
    scheme: S,
    media: Media,
    host: Host,
    requests: Vec<Request>,
    free_requests: Vec<RequestSlot>,
    ops: Ops,
    buffer: WriteBuffer,
    /// True if capacitors protect the data in the buffer.
    is_protected: bool,
    /// Pages in the buffer of which only some sectors are known.
    partial: writes::PartialPages,
    /// Writes that wait for room in the buffer, oldest first.
    stalled: std::collections::VecDeque<RequestSlot>,
    tickets: Vec<writes::Pending>,
    cache: ReadCache,
    /// Time at which pages were last written or trimmed, plus 1; empty without a cache.
    last_change: Vec<Picos>,
    ahead: ReadAhead,
    /// Reads that wait for a page under read-ahead.
    expecting: Vec<reads::Expecting>,
    done: Vec<Done>,
    page_bytes: u32,
    /// Pages of a write that come over the link together.
    part_pages: u32,
    page_shift: Option<u32>,
    capacity_bytes: u64,
    host_latency: Picos,
    to_host: Line<Completion>,
    outstanding: u32,
    counters: DriveCounters,
    /// Handles of refused requests that nobody has taken yet, with the reasons.
    refused: Vec<(u32, ZoneError)>,
    /// Only for tests.
    contents: Option<Box<Contents>>,
}

impl<S: Scheme> Drive<S> {
    /// A drive of this profile, with its scheme over these media.
    #[must_use]
    pub fn new(profile: &Profile, scheme: S, media: Media) -> Self {
        let logical_pages = scheme.logical_pages();
        let layout = media.layout();
        let page_bytes = layout.page_bytes;
        let buffer = WriteBuffer::new(
            &profile.write_buffer,
            page_bytes,
            logical_pages,
            layout.pages_per_block,
            layout.planes(),
        );
        let cache = ReadCache::new(profile.read_cache.bytes, page_bytes, logical_pages);
        Self {
            host: Host::new(profile),
            requests: Vec::with_capacity(256),
            free_requests: Vec::new(),
            ops: Ops::default(),
            buffer,
            is_protected: profile.write_buffer.power_loss_protected,
            partial: writes::PartialPages::default(),
            stalled: std::collections::VecDeque::new(),
            tickets: Vec::new(),
            last_change: vec![0; if cache.capacity() > 0 { writes::LAST_CHANGES } else { 0 }],
            cache,
            ahead: ReadAhead::new(&profile.read_ahead, page_bytes, logical_pages),
            expecting: Vec::new(),
            done: Vec::with_capacity(16),
            page_bytes,
            part_pages: (PART_BYTES / page_bytes).max(1),
            page_shift: page_bytes.is_power_of_two().then(|| page_bytes.trailing_zeros()),
            capacity_bytes: u64::from(logical_pages) * u64::from(page_bytes),
            host_latency: picos_of_micros(profile.interface.host_us),
            to_host: Line::default(),
            outstanding: 0,
            counters: DriveCounters::default(),
            refused: Vec::new(),
            contents: None,
            scheme,
            media,
        }
    }

    /// Bytes that the host can address.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// The media.
    #[must_use]
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// The media, to set what they record.
    pub fn media_mut(&mut self) -> &mut Media {
        &mut self.media
    }

    /// Counters besides flash operations.
    #[must_use]
    pub fn counters(&self) -> &DriveCounters {
        &self.counters
    }

    /// The write-back buffer.
    #[must_use]
    pub fn write_buffer(&self) -> &WriteBuffer {
        &self.buffer
    }

    /// The read cache.
    #[must_use]
    pub fn read_cache(&self) -> &ReadCache {
        &self.cache
    }

    /// Number of requests submitted and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The time of the current event.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.media.now()
    }

    /// The reason for which the drive accepts no more writes, if it does not.
    #[must_use]
    pub fn worn_out(&self) -> Option<WornOut> {
        self.scheme.worn_out()
    }

    /// Writes and trims pages in no time, to age a drive. Call [`Drive::settle`] before the first
    /// request.
    pub fn apply_untimed(&mut self, pages: &[PageOp]) {
        self.scheme.apply_untimed(pages);
    }

    /// Sets the placement handle of pages that are written in no time from now on.
    pub fn set_handle_untimed(&mut self, handle: u8) {
        self.scheme.set_handle(handle);
    }

    /// Adds the operations of a request in no time to `pages`: the pages that a write touches are
    /// written, those that lie wholly within a trim are trimmed; reads and flushes change nothing.
    pub fn pages_of_untimed(&self, request: &IoRequest, pages: &mut Vec<PageOp>) {
        let page = u64::from(self.page_bytes);
        let (start, end) = (request.offset, request.offset + u64::from(request.length));
        match request.op {
            IoOp::Write => {
                let written = (start / page) as u32..end.div_ceil(page) as u32;
                pages.extend(written.map(|lpn| PageOp::write(Lpn(lpn))));
            }
            IoOp::Trim => {
                let whole = start.div_ceil(page) as u32..(end / page) as u32;
                pages.extend(whole.map(|lpn| PageOp::trim(Lpn(lpn))));
            }
            IoOp::Read | IoOp::Flush => {}
        }
    }

    /// Ends the writes in no time.
    pub fn settle(&mut self) {
        self.scheme.settle(&mut self.media);
        self.media.preset_wear(self.scheme.erase_counts());
    }

    /// Time of the next event, if there is one without a further request.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Option<Picos> {
        let next = self.next_event();
        (next != Picos::MAX).then_some(next)
    }

    #[inline]
    fn next_event(&self) -> Picos {
        let mut next =
            self.media.next_time().min(self.host.next_time()).min(self.to_host.next_time());
        if let Some(wake) = self.scheme.next_wake() {
            next = next.min(wake);
        }
        next
    }

    /// Takes a request at a time that is not before the last event. Requests that complete in no
    /// time are added to `completed` at once.
    ///
    /// # Panics
    /// If the range lies outside the drive or is empty though the operation needs one, or an event
    /// is due before `at`.
    #[inline]
    pub fn submit(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>) {
        self.submit_as(at, submission, false, completed);
    }

    #[inline]
    fn submit_as(
        &mut self,
        at: Picos,
        submission: Submission,
        is_append: bool,
        completed: &mut Vec<Completion>,
    ) {
        self.media.advance_to(at);
        let end = submission.offset + u64::from(submission.length);
        assert!(
            end <= self.capacity_bytes,
            "a request at byte {} of {} bytes lies outside the drive",
            submission.offset,
            submission.length
        );
        let (first, pages) = self.pages_of(submission.offset, submission.length);
        assert!(
            pages > 0 || submission.op == IoOp::Flush,
            "a {} names at least one byte",
            submission.op.name()
        );
        let slot = self.free_requests.pop().unwrap_or(self.requests.len() as RequestSlot);
        let request = Request {
            submission,
            submitted_at: at,
            first,
            pages,
            left: pages,
            next: 0,
            delays: Delays::default(),
            arrived: 0,
            stage: writes::Stage::Arriving,
            stalled_at: at,
            stalled: 0,
            has_frames: false,
            is_append,
        };
        if let Some(free) = self.requests.get_mut(slot as usize) {
            *free = request;
        } else {
            self.requests.push(request);
        }
        self.outstanding += 1;
        if self.host.arrive(slot, submission.queue, submission.priority) {
            self.take_command(slot, completed);
        }
    }

    /// The pages that a request touches.
    #[inline]
    fn pages_of(&self, offset: u64, length: u32) -> (Lpn, u32) {
        if length == 0 {
            return (Lpn(0), 0);
        }
        let last_byte = offset + u64::from(length) - 1;
        let (first, last) = match self.page_shift {
            Some(shift) => (offset >> shift, last_byte >> shift),
            None => (offset / u64::from(self.page_bytes), last_byte / u64::from(self.page_bytes)),
        };
        (Lpn(first as u32), (last - first) as u32 + 1)
    }

    /// Loads the scheme's map entries for requests that come soon, all together.
    #[inline(never)]
    pub fn fetch(&self, requests: &[IoRequest]) {
        let mut lpns = [0; PAGES_AT_ONCE];
        let mut count = 0;
        let logical_pages = self.scheme.logical_pages();
        for request in requests {
            let (first, pages) = self.pages_of(request.offset, request.length);
            let within = pages.min(logical_pages.saturating_sub(first.0));
            let mut page = 0;
            while page < within && count < PAGES_AT_ONCE {
                lpns[count] = first.0 + page;
                count += 1;
                page += NEIGHBOURS;
            }
        }
        let are_written = requests.iter().any(|request| request.op != IoOp::Read);
        self.scheme.fetch(&lpns[..count], are_written);
    }

    /// The bytes of a request that lie in its page `number`, as first byte within the page and
    /// length.
    #[inline]
    fn part_of(&self, request: &Request, number: u32) -> (u32, u32) {
        let page_bytes = u64::from(self.page_bytes);
        let page_start = u64::from(request.first.0 + number) * page_bytes;
        let start = request.submission.offset.max(page_start);
        let end = (request.submission.offset + u64::from(request.submission.length))
            .min(page_start + page_bytes);
        ((start - page_start) as u32, (end - start) as u32)
    }

    /// Carries out the next event, and adds the requests that it completes to `completed`.
    ///
    /// # Panics
    /// If there is no event.
    #[inline]
    pub fn step(&mut self, completed: &mut Vec<Completion>) {
        let next = self.next_event();
        assert!(next != Picos::MAX, "something is to happen");
        self.step_at(next, completed);
    }

    /// As [`Drive::step`], for a caller that knows the time.
    ///
    /// # Panics
    /// If it is not that of [`Drive::next_time`].
    #[inline]
    pub fn step_at(&mut self, next: Picos, completed: &mut Vec<Completion>) {
        if self.media.next_time() == next {
            self.step_media(completed);
            return;
        }
        self.media.advance_to(next);
        if self.host.next_time() == next {
            self.step_host(completed);
        } else if self.to_host.next_time() == next {
            let completion = self.to_host.pop();
            self.outstanding -= 1;
            completed.push(completion);
        } else {
            self.scheme.wake(&mut self.media);
        }
    }

    #[inline(always)]
    fn step_media(&mut self, completed: &mut Vec<Completion>) {
        self.media.step(&mut self.done);
        if self.done.is_empty() {
            return;
        }
        let mut done = std::mem::take(&mut self.done);
        for done in &done {
            if done.command.tag.is_scheme() {
                self.scheme.completed(done, &mut self.media);
            } else {
                self.op_done(done, completed);
            }
        }
        done.clear();
        self.done = done;
    }

    /// Handles the end of a command of the drive itself.
    #[inline(always)]
    fn op_done(&mut self, done: &Done, completed: &mut Vec<Completion>) {
        let op = self.ops.take(done.command.tag.number());
        match op.kind {
            OpKind::Read => self.page_read(op, done, completed),
            OpKind::Write => self.page_written(op, done, completed),
            OpKind::Flush => self.page_flushed(op, done, completed),
            OpKind::Fill | OpKind::FlushFill => self.page_filled(op, done),
            OpKind::Ahead => self.page_fetched(op, done, completed),
        }
    }

    /// The delays of a page, including its wait before the command was given.
    #[inline]
    fn delays_of(op: &Op, done: &Done) -> Delays {
        let mut delays = Delays::default();
        Self::tell_delays(&mut delays, op, done);
        delays
    }

    /// The same, in place: a copy that is changed in part and then read as a whole stalls the
    /// processor.
    #[inline(always)]
    fn tell_delays(delays: &mut Delays, op: &Op, done: &Done) {
        *delays = done.delays;
        // A scheme holds a write back only until cleaning has made room, and a read until it knows
        // the page's place.
        let class = match op.kind {
            OpKind::Write | OpKind::Flush => Class::Cleaning,
            OpKind::Read | OpKind::Fill | OpKind::FlushFill | OpKind::Ahead => Class::DieBusy,
        };
        delays.die[class as usize] += done.issued_at - op.since;
    }

    /// Completes a request in the drive.
    #[inline]
    fn complete(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        self.complete_with(slot, completed, |delays| delays);
    }

    /// As [`Drive::complete`], for a caller that adjusts the delays.
    #[inline]
    fn complete_with(
        &mut self,
        slot: RequestSlot,
        completed: &mut Vec<Completion>,
        adjusted: impl FnOnce(RequestDelays) -> RequestDelays,
    ) {
        // Not copied: it was written just now, field by field.
        let request = &self.requests[slot as usize];
        self.free_requests.push(slot);
        let now = self.media.now();
        match request.submission.op {
            IoOp::Read => self.counters.read_bytes += u64::from(request.submission.length),
            IoOp::Write => self.counters.written_bytes += u64::from(request.submission.length),
            IoOp::Trim | IoOp::Flush => {}
        }
        let latency = now + self.host_latency - request.submitted_at;
        let around = RequestDelays::around(latency, &request.delays, request.stalled);
        let delays = adjusted(around);
        let queue = request.submission.queue;
        let completion = Completion {
            submission: request.submission,
            submitted_at: request.submitted_at,
            completed_at: now + self.host_latency,
            delays,
        };
        if self.host_latency == 0 {
            self.outstanding -= 1;
            completed.push(completion);
        } else {
            self.to_host.push(now + self.host_latency, completion);
        }
        if self.host.left(queue, now) {
            self.take_commands(completed);
        }
    }

    fn tag(&mut self, op: Op) -> Tag {
        Tag::drive(self.ops.put(op))
    }
}
