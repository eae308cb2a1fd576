//! Reads: from the write-back buffer, the read cache, read-ahead, or flash.

use units::Lpn;

use super::ops::{Op, OpKind};
use super::writes::LAST_CHANGES;
use super::{Completion, Drive, RequestSlot};
use crate::drive::dram::Lookup;
use crate::drive::media::Done;
use crate::drive::schemes::{ReadPath, Scheme};
use crate::drive::time::Picos;

/// A page of a read that waits for read-ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expecting {
    lpn: Lpn,
    slot: RequestSlot,
    bytes: u32,
}

impl<S: Scheme> Drive<S> {
    /// Begins a read.
    #[inline(always)]
    pub(super) fn read(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        let request = &mut self.requests[slot as usize];
        let (first, pages) = (request.first, request.pages);
        let (offset, length) = (request.submission.offset, request.submission.length);
        // Number of pages that are still to come from flash. Counted beside `left`, which goes on
        // until they are at the host.
        request.next = pages;
        // Pages that the flash can sense together are requested together.
        self.media.hold();
        for number in 0..pages {
            let lpn = Lpn(first.0 + number);
            let part = self.part_of(&self.requests[slot as usize], number);
            self.read_page(slot, lpn, part, completed);
        }
        if self.cache.capacity() > 0 {
            self.fetch_ahead(offset, length, completed);
        }
        self.media.release();
    }

    #[inline(always)]
    fn read_page(
        &mut self,
        slot: RequestSlot,
        lpn: Lpn,
        part: (u32, u32),
        completed: &mut Vec<Completion>,
    ) {
        let bytes = part.1;
        if self.buffer.contains(lpn) {
            if self.partial.covers(lpn, part, self.page_bytes, self.buffer.is_waiting(lpn)) {
                self.counters.pages_from_memory += 1;
                if self.is_followed() {
                    self.follow_buffer_hit(slot, lpn);
                }
                self.page_at_hand(slot, bytes, completed);
                return;
            }
            // The rest of the page has to come from its old place, and the buffer's sectors are
            // laid over it.
            if self.is_followed() {
                self.follow_overlay(slot, lpn);
            }
        } else if self.cache.capacity() > 0 {
            match self.cache.look_up(lpn) {
                Lookup::Hit => {
                    if self.is_followed() {
                        self.follow_cache_hit(slot, lpn);
                    }
                    return self.page_at_hand(slot, bytes, completed);
                }
                Lookup::Expected => return self.expecting.push(Expecting { lpn, slot, bytes }),
                Lookup::Miss => {}
            }
        }
        let tag = self.tag(Op { kind: OpKind::Read, lpn, request: slot, since: self.media.now() });
        let path = self.scheme.read(lpn, bytes, tag, &mut self.media);
        if path != ReadPath::Flash {
            self.ops.take(tag.number());
            match path {
                ReadPath::Memory => self.counters.pages_from_memory += 1,
                _ => self.counters.unmapped_pages += 1,
            }
            if self.is_followed() {
                self.follow_memory(slot, lpn, path);
            }
            self.page_at_hand(slot, bytes, completed);
        }
    }

    /// Time for which a read that came now would wait for the drive's own work on one of its dies,
    /// as far as known; `None` if it would not. The longest wait of its pages. A drive returns this
    /// with a read that it fails on request instead of letting it wait (IODA 3.2).
    #[must_use]
    pub fn would_wait(&self, offset: u64, length: u32) -> Option<Picos> {
        let (first, pages) = self.pages_of(offset, length);
        (first.0..first.0 + pages)
            .map(Lpn)
            .filter(|&lpn| !self.buffer.contains(lpn) && !self.cache.contains(lpn))
            .filter_map(|lpn| self.scheme.waits_for_own_work(lpn, &self.media))
            .max()
    }

    /// Handles a page of a read that is in the drive's memory.
    #[inline(always)]
    fn page_at_hand(&mut self, slot: RequestSlot, bytes: u32, completed: &mut Vec<Completion>) {
        let request = &mut self.requests[slot as usize];
        request.next -= 1;
        let is_last = request.next == 0;
        self.send_to_host(slot, bytes, completed);
        if is_last {
            self.read_left_gate(completed);
        }
    }

    /// Handles a page for the host that has come from flash.
    #[inline(always)]
    pub(super) fn page_read(&mut self, op: Op, done: &Done, completed: &mut Vec<Completion>) {
        Self::tell_delays(&mut self.requests[op.request as usize].delays, &op, done);
        if self.is_followed() {
            self.follow_read(&op, &done.command);
        }
        if self.cache.capacity() > 0 && done.command.bytes == self.page_bytes && self.is_newest(&op)
        {
            self.cache.insert(op.lpn);
            if self.is_followed() {
                self.follow_caching(op.lpn, &done.command);
            }
        }
        self.page_at_hand(op.request, done.command.bytes, completed);
    }

    /// Returns true if the page that a read returned is still the newest version, so that it may be
    /// cached.
    fn is_newest(&self, op: &Op) -> bool {
        self.last_change[op.lpn.index() % LAST_CHANGES] <= op.since && !self.buffer.contains(op.lpn)
    }

    /// Fetches the pages that a sequential stream will read next.
    #[inline(never)]
    fn fetch_ahead(&mut self, offset: u64, length: u32, completed: &mut Vec<Completion>) {
        let Some(pages) = self.ahead.observe(offset, length) else { return };
        for lpn in pages.map(Lpn) {
            if self.buffer.contains(lpn) || !self.cache.expect(lpn) {
                continue;
            }
            let tag =
                self.tag(Op { kind: OpKind::Ahead, lpn, request: 0, since: self.media.now() });
            let path = self.scheme.read(lpn, self.page_bytes, tag, &mut self.media);
            if path != ReadPath::Flash {
                self.ops.take(tag.number());
                if self.is_followed() {
                    self.follow_ahead(lpn, path);
                }
                self.cache.arrived(lpn);
                self.serve_expecting(lpn, None, completed);
            }
        }
    }

    /// Handles a page of read-ahead that has come.
    #[inline(never)]
    pub(super) fn page_fetched(&mut self, op: Op, done: &Done, completed: &mut Vec<Completion>) {
        if self.is_followed() && self.cache.is_expected(op.lpn) {
            self.follow_caching(op.lpn, &done.command);
        }
        self.cache.arrived(op.lpn);
        self.serve_expecting(op.lpn, Some(done), completed);
    }

    fn serve_expecting(&mut self, lpn: Lpn, done: Option<&Done>, completed: &mut Vec<Completion>) {
        let mut index = 0;
        while index < self.expecting.len() {
            let Expecting { lpn: expected, slot, bytes } = self.expecting[index];
            if expected != lpn {
                index += 1;
                continue;
            }
            // In order: the first to come is served first.
            self.expecting.remove(index);
            if self.is_followed() {
                self.follow_expected(slot, lpn, done.map(|done| &done.command));
            }
            if let Some(done) =
                done.filter(|done| done.issued_at >= self.requests[slot as usize].submitted_at)
            {
                self.requests[slot as usize].delays = done.delays;
            }
            self.page_at_hand(slot, bytes, completed);
        }
    }
}
