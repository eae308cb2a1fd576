//! Writes: through the write-back buffer, or straight to flash; FLUSH, FUA and TRIM.

use std::collections::BTreeMap;

use units::Lpn;

use super::ops::{Op, OpKind};
use super::{Completion, Drive, Slot};
use crate::drive::dram::{Admission, FlushTicket, PageTicket};
use crate::drive::media::{Delays, Done};
use crate::drive::schemes::{ReadPath, Scheme};
use crate::drive::time::Picos;

/// What a request waits for besides its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    slot: Slot,
    ticket: Ticket,
}

#[derive(Clone, Copy, Debug)]
enum Ticket {
    All(FlushTicket),
    Page(PageTicket),
}

/// Which sectors are known of those pages in the buffer that were written in part. Few at any time: most writes are of whole pages.
#[derive(Debug, Default)]
pub(super) struct PartialPages {
    known: BTreeMap<u32, u128>,
}

/// Sectors are told apart 128 to a page: 512 bytes in pages up to 64 KiB.
const SECTORS: u32 = 128;

impl PartialPages {
    fn wrote(&mut self, lpn: Lpn, first: u32, bytes: u32, page_bytes: u32, is_new: bool) {
        let sector = page_bytes.div_ceil(SECTORS).max(512.min(page_bytes));
        let (from, to) = (first / sector, (first + bytes).div_ceil(sector));
        let ones = |count: u32| if count >= 128 { u128::MAX } else { (1 << count) - 1 };
        let all = ones(page_bytes.div_ceil(sector));
        let known = if is_new { 0 } else { self.known.get(&lpn.0).copied().unwrap_or(all) };
        let known = known | (ones(to) & !ones(from));
        if known == all {
            self.known.remove(&lpn.0);
        } else {
            self.known.insert(lpn.0, known);
        }
    }
}

impl<S: Scheme> Drive<S> {
    /// The data of a write is in the drive, and it may go on.
    pub(super) fn write(&mut self, slot: Slot, completed: &mut Vec<Completion>) {
        if self.buffer.capacity() == 0 {
            self.write_through(slot);
            return;
        }
        if self.stalled.is_empty() && self.accept(slot) {
            self.accepted(slot, completed);
        } else {
            self.requests[slot as usize].stalled_at = self.media.now();
            self.stalled.push_back(slot);
        }
        self.pump(completed);
    }

    /// Puts the pages of a write into the buffer. Whether all of them found room.
    fn accept(&mut self, slot: Slot) -> bool {
        let request = self.requests[slot as usize];
        for number in request.next..request.pages {
            let lpn = Lpn(request.first.0 + number);
            let admission = self.buffer.write(lpn);
            if admission == Admission::Full {
                self.requests[slot as usize].next = number;
                return false;
            }
            self.cache.remove(lpn);
            let (first, bytes) = self.part_of(&request, number);
            if bytes < self.page_bytes || self.partial.known.contains_key(&lpn.0) {
                self.partial.wrote(lpn, first, bytes, self.page_bytes, admission == Admission::Stored);
            }
        }
        self.requests[slot as usize].next = request.pages;
        true
    }

    /// A write is in the buffer: it is done, unless it has to be durable.
    fn accepted(&mut self, slot: Slot, completed: &mut Vec<Completion>) {
        let request = self.requests[slot as usize];
        if !request.submission.is_fua {
            self.complete(slot, completed);
            return;
        }
        self.requests[slot as usize].left = request.pages;
        for number in 0..request.pages {
            let ticket = Ticket::Page(self.buffer.drain_page(Lpn(request.first.0 + number)));
            self.tickets.push(Pending { slot, ticket });
        }
        self.redeem(completed);
    }

    /// Sends what the buffer's rule says is due.
    fn pump(&mut self, completed: &mut Vec<Completion>) {
        while let Some(lpn) = self.buffer.next_flush() {
            let is_partial = self.partial.known.remove(&lpn.0).is_some();
            if is_partial && !self.cache.contains(lpn) {
                let tag = self.tag(Op { kind: OpKind::FlushFill, lpn, request: 0, since: self.media.now() });
                if self.scheme.read(lpn, self.page_bytes, tag, &mut self.media) == ReadPath::Flash {
                    self.counters.filled_pages += 1;
                    continue;
                }
                self.ops.take(tag.number());
            }
            self.write_page(Op { kind: OpKind::Flush, lpn, request: 0, since: self.media.now() });
        }
        self.redeem(completed);
    }

    fn write_page(&mut self, op: Op) {
        let tag = self.tag(op);
        self.scheme.write(op.lpn, tag, &mut self.media);
    }

    /// A page of the buffer is on flash.
    pub(super) fn page_flushed(&mut self, op: Op, done: &Done, completed: &mut Vec<Completion>) {
        self.buffer.flushed(op.lpn);
        while let Some(&slot) = self.stalled.front() {
            if !self.accept(slot) {
                break;
            }
            self.stalled.pop_front();
            let waited = self.media.now() - self.requests[slot as usize].stalled_at;
            self.requests[slot as usize].delays = scaled(&Self::delays_of(&op, done), waited);
            self.accepted(slot, completed);
        }
        self.pump(completed);
    }

    /// Ends the requests whose pages are durable by now.
    fn redeem(&mut self, completed: &mut Vec<Completion>) {
        let mut index = 0;
        while index < self.tickets.len() {
            let Pending { slot, ticket } = self.tickets[index];
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
                self.complete(slot, completed);
            }
        }
    }

    /// Without a buffer: each page goes to flash, and the write is done when all are programmed.
    fn write_through(&mut self, slot: Slot) {
        let request = self.requests[slot as usize];
        for number in 0..request.pages {
            let lpn = Lpn(request.first.0 + number);
            let (_, bytes) = self.part_of(&request, number);
            self.cache.remove(lpn);
            let since = self.media.now();
            if bytes < self.page_bytes {
                let tag = self.tag(Op { kind: OpKind::Fill, lpn, request: slot, since });
                if self.scheme.read(lpn, self.page_bytes, tag, &mut self.media) == ReadPath::Flash {
                    self.counters.filled_pages += 1;
                    continue;
                }
                self.ops.take(tag.number());
            }
            self.write_page(Op { kind: OpKind::Write, lpn, request: slot, since });
        }
    }

    /// The rest of a page that the host wrote in part was read.
    pub(super) fn page_filled(&mut self, op: Op) {
        let kind = if op.kind == OpKind::Fill { OpKind::Write } else { OpKind::Flush };
        self.write_page(Op { kind, since: self.media.now(), ..op });
    }

    /// A page that the host waits for is on flash.
    pub(super) fn page_written(&mut self, op: Op, done: &Done, completed: &mut Vec<Completion>) {
        let delays = Self::delays_of(&op, done);
        let request = &mut self.requests[op.request as usize];
        request.left -= 1;
        request.delays = delays;
        if request.left == 0 {
            self.complete(op.request, completed);
        }
    }

    /// TRIM: forgets the pages that lie wholly within the range.
    pub(super) fn trim(&mut self, slot: Slot, completed: &mut Vec<Completion>) {
        let request = self.requests[slot as usize];
        for number in 0..request.pages {
            let lpn = Lpn(request.first.0 + number);
            if self.part_of(&request, number).1 < self.page_bytes {
                continue;
            }
            self.buffer.trim(lpn);
            self.partial.known.remove(&lpn.0);
            self.cache.remove(lpn);
            self.scheme.trim(lpn, &mut self.media);
        }
        self.complete(slot, completed);
        if self.buffer.capacity() > 0 {
            self.pump(completed);
        }
    }

    /// FLUSH: done when everything that was acknowledged before is on flash. Without a buffer that is so at once.
    pub(super) fn flush(&mut self, slot: Slot, completed: &mut Vec<Completion>) {
        if self.buffer.capacity() == 0 {
            self.complete(slot, completed);
            return;
        }
        let ticket = Ticket::All(self.buffer.drain());
        self.tickets.push(Pending { slot, ticket });
        self.pump(completed);
    }
}

/// What a write waited for while the buffer was full: the page that made room tells, as far back as the write had waited. The rest of that
/// page's time lies before the write.
fn scaled(delays: &Delays, waited: Picos) -> Delays {
    let &Delays { die_busy, cleaning, wear_levelling, erase, channel, service } = delays;
    let total = die_busy + cleaning + wear_levelling + erase + channel + service;
    if total <= waited {
        return *delays;
    }
    let part = |time: Picos| (u128::from(time) * u128::from(waited) / u128::from(total)) as Picos;
    Delays {
        die_busy: part(die_busy),
        cleaning: part(cleaning),
        wear_levelling: part(wear_levelling),
        erase: part(erase),
        channel: part(channel),
        service: part(service),
    }
}
