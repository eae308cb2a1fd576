//! Writes: through the write-back buffer, or straight to flash; FLUSH, FUA and TRIM.

use std::collections::{BTreeMap, VecDeque};

use units::Lpn;

use super::contents::sectors_of;
use super::ops::{Op, OpKind};
use super::{Completion, Drive, RequestSlot};
use crate::drive::dram::{Admission, FlushTicket, PageTicket};
use crate::drive::media::{Delays, Done};
use crate::drive::schemes::{ReadPath, Scheme};
use crate::drive::time::Picos;

/// Stage of a write with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its first data is under way, or waits at the gate.
    Arriving,
    /// Its pages go into the buffer as they come.
    Storing,
    /// It waits for room in the buffer.
    Stalled,
}

/// Wait of a request for durability of its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    slot: RequestSlot,
    /// Time at which the wait began.
    since: Picos,
    ticket: Ticket,
}

#[derive(Clone, Copy, Debug)]
enum Ticket {
    All(FlushTicket),
    Page(PageTicket),
}

/// Pages that were written in part, and whose rest is not known. Few at any time: most writes are
/// of whole pages.
#[derive(Debug, Default)]
pub(super) struct PartialPages {
    /// Known sectors of pages that wait in the buffer.
    known: BTreeMap<u32, u128>,
    /// Known sectors of pages on their way from the buffer, while the rest is read; without a
    /// buffer, of pages whose rest is read.
    filling: BTreeMap<u32, u128>,
    /// Without a buffer: pages of writes that wait until such a page is whole. If each read the
    /// rest for itself, the last would undo the others.
    held_back: VecDeque<(Lpn, RequestSlot)>,
}

impl PartialPages {
    fn wrote(&mut self, lpn: Lpn, part: (u32, u32), page_bytes: u32, is_new: bool) {
        let all = sectors_of(0, page_bytes, page_bytes);
        let known = if is_new { 0 } else { self.known.get(&lpn.0).copied().unwrap_or(all) };
        let known = known | sectors_of(part.0, part.1, page_bytes);
        if known == all {
            self.known.remove(&lpn.0);
        } else {
            self.known.insert(lpn.0, known);
        }
    }

    /// Returns true if the buffer, which holds a version of the page, knows all of this part.
    #[inline]
    pub fn covers(&self, lpn: Lpn, part: (u32, u32), page_bytes: u32, waits: bool) -> bool {
        if self.known.is_empty() && self.filling.is_empty() {
            return true;
        }
        let newest = if waits { &self.known } else { &self.filling };
        newest.get(&lpn.0).is_none_or(|known| sectors_of(part.0, part.1, page_bytes) & !known == 0)
    }
}

/// Number of entries in the table of last changes: by logical page, modulo this. If two pages share
/// an entry, a read is now and then not cached.
pub(super) const LAST_CHANGES: usize = 4096;

impl<S: Scheme> Drive<S> {
    /// Continues a write whose first data is in the drive.
    pub(super) fn write(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if self.buffer.capacity() == 0 {
            self.write_through(slot);
            return;
        }
        self.requests[slot as usize].stage = Stage::Storing;
        self.go_on_writing(slot, completed);
    }

    /// Puts the arrived pages of a write into the buffer, or makes it wait behind those that wait
    /// for room.
    pub(super) fn go_on_writing(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if self.requests[slot as usize].stage != Stage::Storing {
            return;
        }
        if self.stalled.is_empty() && self.accept(slot) {
            self.stored(slot, completed);
        } else {
            let request = &mut self.requests[slot as usize];
            request.stage = Stage::Stalled;
            request.stalled_at = self.media.now();
            self.stalled.push_back(slot);
        }
        self.pump(&Delays::default(), completed);
    }

    /// Puts the arrived pages of a write into the buffer. Returns true if all of them found room.
    fn accept(&mut self, slot: RequestSlot) -> bool {
        let request = self.requests[slot as usize];
        for number in request.next..request.arrived {
            let lpn = Lpn(request.first.0 + number);
            let part = self.part_of(&request, number);
            let is_whole = part.1 == self.page_bytes;
            let admission =
                if is_whole { self.buffer.write(lpn) } else { self.buffer.write_part(lpn) };
            if admission == Admission::Full {
                self.requests[slot as usize].next = number;
                return false;
            }
            // Sectors that the cache holds need not be read again.
            let was_cached = self.cache.contains(lpn);
            if self.is_followed() {
                self.follow_admission(lpn, &request.submission, part, admission, was_cached);
            }
            self.overwritten(lpn);
            if self.scheme.is_zoned() {
                self.scheme.has_arrived(lpn);
            }
            if self.scheme.has_handles() {
                self.buffer.set_handle(lpn, request.submission.placement);
            }
            if (!is_whole && !was_cached) || self.partial.known.contains_key(&lpn.0) {
                self.partial.wrote(lpn, part, self.page_bytes, admission == Admission::Stored);
            }
        }
        self.requests[slot as usize].next = request.arrived;
        true
    }

    /// Continues a write whose arrived pages are in the buffer: if those are all, it is accepted,
    /// otherwise more can come.
    fn stored(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        let request = &self.requests[slot as usize];
        if request.next == request.pages {
            self.accepted(slot, completed);
        } else {
            self.receive(slot, completed);
        }
    }

    /// Completes a write that is in the buffer, unless it has to be durable.
    fn accepted(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if self.scheme.is_zoned() {
            self.host.retry(self.media.now());
        }
        let request = self.requests[slot as usize];
        if !request.submission.is_fua || self.is_protected {
            self.complete(slot, completed);
            return;
        }
        self.requests[slot as usize].left = request.pages;
        for number in 0..request.pages {
            let ticket = Ticket::Page(self.buffer.drain_page(Lpn(request.first.0 + number)));
            self.tickets.push(Pending { slot, since: self.media.now(), ticket });
        }
        self.redeem(&Delays::default(), completed);
    }

    /// Sends the pages that are due by the buffer's rule, and ends requests that are durable now.
    /// `last` has the delays of the page that was programmed just now, if there was one.
    fn pump(&mut self, last: &Delays, completed: &mut Vec<Completion>) {
        while let Some(lpn) = self.buffer.next_flush() {
            if self.is_followed() {
                self.follow_flush(lpn);
            }
            if let Some(known) = self.partial.known.remove(&lpn.0)
                && self.fill(Op {
                    kind: OpKind::FlushFill,
                    lpn,
                    request: 0,
                    since: self.media.now(),
                })
            {
                self.partial.filling.insert(lpn.0, known);
                continue;
            }
            self.write_page(Op { kind: OpKind::Flush, lpn, request: 0, since: self.media.now() });
        }
        self.redeem(last, completed);
    }

    /// Reads the rest of a page that was written in part. Returns true if that takes a command:
    /// otherwise the rest is in memory, or absent.
    fn fill(&mut self, op: Op) -> bool {
        let tag = self.tag(op);
        let path = self.scheme.read(op.lpn, self.page_bytes, tag, &mut self.media);
        if path == ReadPath::Flash {
            self.counters.filled_pages += 1;
            return true;
        }
        self.ops.take(tag.number());
        if self.is_followed() {
            self.follow_fill(&op, None, path);
        }
        false
    }

    /// Records that the host has written or trimmed a page: the cache's version is out of date, and
    /// so may be the data of reads under way.
    #[inline]
    fn overwritten(&mut self, lpn: Lpn) {
        if self.cache.capacity() > 0 {
            self.cache.remove(lpn);
            // Plus one, so that 0 is never.
            self.last_change[lpn.index() % LAST_CHANGES] = self.media.now() + 1;
        }
    }

    fn write_page(&mut self, op: Op) {
        let tag = self.tag(op);
        if self.is_followed() {
            self.follow_write(&op, tag.number());
        }
        // Since the write was accepted, reads may have fetched the old version.
        self.overwritten(op.lpn);
        if self.scheme.has_handles() {
            let handle = match op.kind {
                OpKind::Write => self.requests[op.request as usize].submission.placement,
                _ => self.buffer.handle_in_flight(op.lpn),
            };
            self.scheme.set_handle(handle);
        }
        self.scheme.write(op.lpn, tag, &mut self.media);
    }

    /// Handles the end of the program of a buffered page.
    #[inline(never)]
    pub(super) fn page_flushed(&mut self, op: Op, done: &Done, completed: &mut Vec<Completion>) {
        if self.is_followed() {
            self.follow_flushed(op.lpn);
        }
        self.buffer.flushed(op.lpn);
        let delays = Self::delays_of(&op, done);
        while let Some(&slot) = self.stalled.front() {
            if !self.accept(slot) {
                break;
            }
            self.stalled.pop_front();
            let waited = self.media.now() - self.requests[slot as usize].stalled_at;
            let request = &mut self.requests[slot as usize];
            request.stalled += waited;
            request.delays = scaled(&delays, waited);
            request.stage = Stage::Storing;
            self.stored(slot, completed);
        }
        self.pump(&delays, completed);
    }

    /// Ends the requests whose pages are durable by now. `last` has the delays of the page that
    /// made them so.
    fn redeem(&mut self, last: &Delays, completed: &mut Vec<Completion>) {
        let mut index = 0;
        while index < self.tickets.len() {
            let Pending { slot, since, ticket } = self.tickets[index];
            let is_due = match ticket {
                Ticket::All(ticket) => self.buffer.is_durable(ticket),
                Ticket::Page(ticket) => self.buffer.is_page_durable(ticket),
            };
            if !is_due {
                index += 1;
                continue;
            }
            self.tickets.remove(index);
            let request = &mut self.requests[slot as usize];
            request.left = request.left.saturating_sub(1);
            if request.left == 0 {
                let waited = self.media.now() - since;
                self.complete_with(slot, completed, |delays| {
                    delays.with_flush(waited, &scaled(last, waited))
                });
            }
        }
    }

    /// Writes without a buffer: each page goes to flash, and the write is done when all are
    /// programmed.
    fn write_through(&mut self, slot: RequestSlot) {
        let request = self.requests[slot as usize];
        for number in 0..request.pages {
            let lpn = Lpn(request.first.0 + number);
            if self.is_followed() {
                self.follow_arrival(slot, lpn, &request.submission, self.part_of(&request, number));
            }
            if !self.partial.filling.is_empty() && self.partial.filling.contains_key(&lpn.0) {
                self.partial.held_back.push_back((lpn, slot));
            } else {
                self.write_page_through(slot, lpn);
            }
        }
    }

    fn write_page_through(&mut self, slot: RequestSlot, lpn: Lpn) {
        let request = self.requests[slot as usize];
        let part = self.part_of(&request, lpn.0 - request.first.0);
        let since = self.media.now();
        if part.1 < self.page_bytes
            && self.fill(Op { kind: OpKind::Fill, lpn, request: slot, since })
        {
            self.partial.filling.insert(lpn.0, sectors_of(part.0, part.1, self.page_bytes));
            return;
        }
        self.write_page(Op { kind: OpKind::Write, lpn, request: slot, since });
    }

    /// Handles the end of the read of the rest of a page that the host wrote in part.
    #[inline(never)]
    pub(super) fn page_filled(&mut self, op: Op, done: &Done) {
        let lpn = op.lpn;
        if self.is_followed() {
            self.follow_fill(&op, Some(&done.command), ReadPath::Flash);
        }
        self.partial.filling.remove(&lpn.0);
        let since = self.media.now();
        if op.kind == OpKind::FlushFill {
            self.write_page(Op { kind: OpKind::Flush, since, ..op });
            if self.buffer.is_trimmed_in_flight(lpn) {
                self.scheme.trim(lpn, &mut self.media);
            }
            return;
        }
        self.write_page(Op { kind: OpKind::Write, since, ..op });
        while !self.partial.filling.contains_key(&lpn.0)
            && let Some(next) = self.partial.held_back.iter().position(|&(held, _)| held == lpn)
        {
            let (_, slot) = self.partial.held_back.remove(next).expect("it was found");
            self.write_page_through(slot, lpn);
        }
    }

    /// Handles the end of the program of a page that the host waits for.
    pub(super) fn page_written(&mut self, op: Op, done: &Done, completed: &mut Vec<Completion>) {
        let request = &mut self.requests[op.request as usize];
        request.left -= 1;
        Self::tell_delays(&mut request.delays, &op, done);
        if request.left == 0 {
            self.complete(op.request, completed);
        }
    }

    /// Carries out a TRIM: forgets the pages that lie wholly within the range.
    #[inline(never)]
    pub(super) fn trim(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        let request = self.requests[slot as usize];
        for number in 0..request.pages {
            let lpn = Lpn(request.first.0 + number);
            if self.part_of(&request, number).1 < self.page_bytes {
                continue;
            }
            self.buffer.trim(lpn);
            self.partial.known.remove(&lpn.0);
            self.overwritten(lpn);
            self.scheme.trim(lpn, &mut self.media);
            if self.is_followed() {
                self.follow_trim(lpn);
            }
        }
        self.complete(slot, completed);
        if self.buffer.capacity() > 0 {
            self.pump(&Delays::default(), completed);
        }
    }

    /// Carries out a FLUSH: it ends when everything acknowledged before is durable. Without a
    /// buffer, or with one that capacitors protect, that is so at once.
    #[inline(never)]
    pub(super) fn flush(&mut self, slot: RequestSlot, completed: &mut Vec<Completion>) {
        if self.buffer.capacity() == 0 || self.is_protected {
            self.complete(slot, completed);
            return;
        }
        let ticket = Ticket::All(self.buffer.drain());
        self.tickets.push(Pending { slot, since: self.media.now(), ticket });
        self.pump(&Delays::default(), completed);
    }
}

/// Delays of a request that ended with a page of the buffer: that page's delays, scaled down to the
/// time for which the request had waited. The rest of that page's time lies before the request.
fn scaled(delays: &Delays, waited: Picos) -> Delays {
    let total = delays.total();
    if total <= waited {
        return *delays;
    }
    let part = |time: Picos| (u128::from(time) * u128::from(waited) / u128::from(total)) as Picos;
    Delays {
        die: delays.die.map(part),
        channel: part(delays.channel),
        retry: part(delays.retry),
        service: part(delays.service),
    }
}
