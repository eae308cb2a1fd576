//! The write-back buffer.

use units::Lpn;

use super::erase_block_order::EraseBlockOrder;
use crate::drive::profile::{FlushOrder, FlushRule, WriteBufferConfig};
use units::lists::{Lists, NONE};

#[cfg(test)]
mod tests;

/// Result of a write to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The page was waiting already and was overwritten in place.
    Merged,
    /// The page took a slot.
    Stored,
    /// There is no room: the request has to wait until [`WriteBuffer::flushed`] makes some.
    Full,
}

/// Ticket for all pages that the buffer held when FLUSH was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushTicket(u64);

/// Ticket for the versions of one page up to now (FUA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTicket {
    lpn: Lpn,
    before: u64,
}

/// Counters of the write buffer, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteBufferCounters {
    /// Pages overwritten while they waited: writes that flash is spared.
    pub merged: u64,
    /// Pages that took a slot.
    pub stored: u64,
    /// Pages programmed.
    pub flushed: u64,
    /// Pages trimmed while they waited: flash is spared these, too.
    pub trimmed: u64,
    /// Calls of [`WriteBuffer::write`] that found no room; each retry of a page counts.
    pub full: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    /// As `Waiting`, but flushed before all others, whatever the rule.
    Urgent,
    InFlight,
}

/// One version of a page.
#[derive(Clone, Copy, Debug)]
struct BufferedPage {
    /// Number of its arrival.
    sequence: u64,
    lpn: u32,
    /// The slot of the version before, if that is still in flight.
    older: u32,
    state: State,
    /// True if it is in flight, in the batch that `when_full` waits for.
    of_batch: bool,
    /// True if it is in flight but trimmed: no read may find it.
    stale: bool,
    /// Placement handle; 0 if none was given.
    handle: u8,
}

/// Numbers of the lists of waiting pages.
const WAITING: usize = 0;
const URGENT: usize = 1;

/// Pages that the host has written and that are not yet, or not yet fully, on flash.
///
/// A slot is taken from [`WriteBuffer::write`] to [`WriteBuffer::flushed`]. After each of these
/// calls, and after a FLUSH, the drive calls [`WriteBuffer::next_flush`] until it gives nothing.
///
/// The rules of the profile:
/// - `eager`: once `flush_pages` pages wait, that many are sent, and so on. Fewer pages wait until
///   there are more, or a FLUSH.
/// - `when_full`: nothing is sent until no slot is free. Then `flush_pages` are sent, and none of
///   their slots is reused before the last one is programmed: a write takes either no time or that
///   of a whole batch, which makes two bands of response times (SCHEDULER figure 4.19).
/// - `batches`: when the buffer is half full or more, `flush_pages` are sent at a time, and their
///   slots become free together; the free half takes writes meanwhile.
/// - `by_erase_block`: a batch ends with an erase block's last page, so it may be longer than
///   `flush_pages`.
/// - FLUSH and FUA override the rule, not `in_flight_pages`.
///
/// A page that is written while its last version is in flight takes a slot of its own, and is not
/// sent before that version is programmed.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    rule: FlushRule,
    /// True if waiting versions of a page are merged; otherwise each version is programmed, several
    /// at a time.
    merges: bool,
    /// 1 ... capacity.
    flush_pages: u32,
    in_flight_limit: u32,
    capacity: u32,
    /// Slot of the newest version of each logical page.
    slot_of: Vec<u32>,
    slots: Vec<BufferedPage>,
    free: Vec<u32>,
    /// All versions, waiting and in flight, in the order of their arrival.
    age: Lists,
    /// Waiting versions in the order of their arrival; then the urgent ones in the order in which
    /// they became urgent.
    queues: Lists,
    /// Only for `by_erase_block`.
    by_erase_block: Option<EraseBlockOrder>,
    waiting: u32,
    in_flight: u32,
    /// Number of pages of the batch that are still to be sent; then that of pages in flight.
    batch_left: u32,
    batch_in_flight: u32,
    /// True if the batch has its pages, and only continues to the end of the current erase block.
    batch_is_tail: bool,
    /// Under `batches`: programmed slots of the current batch, to be freed with its last one.
    kept_back: Vec<u32>,
    next_sequence: u64,
    /// Versions that arrived before this number have to be flushed.
    drain_before: u64,
    counters: WriteBufferCounters,
}

impl WriteBuffer {
    /// Makes a buffer for a drive of `logical_pages` pages of `page_bytes`. `pages_per_erase_block`
    /// logical pages make a logical erase block for `by_erase_block`; `planes` is the limit of
    /// pages in flight if the profile sets none.
    ///
    /// With less than one page of memory the capacity is 0, and nothing may be written to it.
    ///
    /// # Panics
    /// If a page has no bytes, an erase block no pages, or the drive no planes: bugs of the caller.
    #[must_use]
    pub fn new(
        config: &WriteBufferConfig,
        page_bytes: u32,
        logical_pages: u32,
        pages_per_erase_block: u32,
        planes: u32,
    ) -> Self {
        assert!(page_bytes > 0, "a page has bytes");
        assert!(planes > 0, "a drive has planes");
        // Twice the logical pages hold every page once in flight and once waiting: more slots could
        // never be used.
        let most = (u64::from(logical_pages) * 2).min(u64::from(u32::MAX - 2));
        let capacity = (config.bytes / u64::from(page_bytes)).min(most) as u32;
        let is_used = capacity > 0;
        let free_slot = BufferedPage {
            sequence: 0,
            lpn: u32::MAX,
            older: NONE,
            state: State::Free,
            of_batch: false,
            stale: false,
            handle: 0,
        };
        Self {
            rule: config.flush,
            merges: config.merges,
            flush_pages: config.flush_pages.min(capacity).max(1),
            in_flight_limit: if config.in_flight_pages == 0 {
                planes
            } else {
                config.in_flight_pages
            },
            capacity,
            slot_of: if is_used { vec![NONE; logical_pages as usize] } else { Vec::new() },
            slots: vec![free_slot; capacity as usize],
            free: (0..capacity).rev().collect(),
            age: Lists::new(capacity, 1),
            queues: Lists::new(capacity, 2),
            by_erase_block: (is_used && config.order == FlushOrder::ByEraseBlock)
                .then(|| EraseBlockOrder::new(logical_pages, pages_per_erase_block)),
            waiting: 0,
            in_flight: 0,
            batch_left: 0,
            batch_in_flight: 0,
            batch_is_tail: false,
            kept_back: Vec::new(),
            next_sequence: 0,
            drain_before: 0,
            counters: WriteBufferCounters::default(),
        }
    }

    /// Number of slots: pages that it can hold, waiting and in flight. 0 if the drive has no
    /// buffer.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Number of pages that wait to be sent.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Number of pages that were sent and are not yet programmed.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Counters since the buffer was made.
    #[must_use]
    pub const fn counters(&self) -> WriteBufferCounters {
        self.counters
    }

    /// Memory of the tables in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        (self.slot_of.len() + self.free.capacity()) * size_of::<u32>()
            + self.slots.len() * size_of::<BufferedPage>()
            + self.age.bytes()
            + self.queues.bytes()
            + self.by_erase_block.as_ref().map_or(0, EraseBlockOrder::bytes)
    }

    /// Returns true if a page that does not wait already would be stored.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() && !self.is_closed()
    }

    /// Returns true if the newest version of a page is in the buffer, so that a read is answered
    /// from memory.
    #[inline]
    #[must_use]
    pub fn contains(&self, lpn: Lpn) -> bool {
        let slot = self.newest_of(lpn);
        slot != NONE && !self.slots[slot as usize].stale
    }

    /// Returns true if the newest version of a page is in the buffer and was not sent yet.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self, lpn: Lpn) -> bool {
        let slot = self.newest_of(lpn);
        slot != NONE && self.slots[slot as usize].state != State::InFlight
    }

    /// Returns true if the version in flight was trimmed after it was sent.
    #[must_use]
    pub fn is_trimmed_in_flight(&self, lpn: Lpn) -> bool {
        let mut slot = self.newest_of(lpn);
        while slot != NONE && self.slots[slot as usize].state != State::InFlight {
            slot = self.slots[slot as usize].older;
        }
        slot != NONE && self.slots[slot as usize].stale
    }

    /// Writes a page. Unless it returns [`Admission::Full`], the write may be acknowledged.
    ///
    /// # Panics
    /// If the buffer has no capacity.
    #[inline]
    pub fn write(&mut self, lpn: Lpn) -> Admission {
        self.take(lpn, self.merges)
    }

    /// Writes a part of a page. It is merged into a waiting version, whatever the profile says
    /// about whole pages.
    ///
    /// # Panics
    /// As [`WriteBuffer::write`].
    #[inline]
    pub fn write_part(&mut self, lpn: Lpn) -> Admission {
        self.take(lpn, true)
    }

    #[inline]
    fn take(&mut self, lpn: Lpn, merges: bool) -> Admission {
        assert!(
            self.capacity > 0,
            "page {} is written to a buffer without room for any page",
            lpn.0
        );
        let newest = self.slot_of[lpn.index()];
        if newest != NONE && merges && self.slots[newest as usize].state != State::InFlight {
            self.counters.merged += 1;
            if let Some(order) = &mut self.by_erase_block {
                order.touched(lpn);
            }
            return Admission::Merged;
        }
        if self.is_closed() {
            self.counters.full += 1;
            return Admission::Full;
        }
        let Some(slot) = self.free.pop() else {
            self.counters.full += 1;
            return Admission::Full;
        };
        self.slots[slot as usize] = BufferedPage {
            sequence: self.next_sequence,
            lpn: lpn.0,
            older: newest,
            state: State::Waiting,
            of_batch: false,
            stale: false,
            handle: 0,
        };
        self.next_sequence += 1;
        self.slot_of[lpn.index()] = slot;
        self.age.push_back(0, slot);
        self.queues.push_back(WAITING, slot);
        if let Some(order) = &mut self.by_erase_block {
            order.stored(lpn, newest == NONE);
        }
        self.waiting += 1;
        self.counters.stored += 1;
        Admission::Stored
    }

    /// Sets the placement handle of the newest version of a page, which must be in the buffer.
    pub fn set_handle(&mut self, lpn: Lpn, handle: u8) {
        let slot = self.newest_of(lpn);
        self.slots[slot as usize].handle = handle;
    }

    /// The placement handle of the version that was sent last.
    ///
    /// # Panics
    /// If none is in flight.
    #[must_use]
    pub fn handle_in_flight(&self, lpn: Lpn) -> u8 {
        let mut slot = self.newest_of(lpn);
        while slot != NONE && self.slots[slot as usize].state != State::InFlight {
            slot = self.slots[slot as usize].older;
        }
        assert!(slot != NONE, "page {} is on its way to flash", lpn.0);
        self.slots[slot as usize].handle
    }

    /// Gives the next page that has to be sent to flash now, if there is one; it is in flight from
    /// then on.
    pub fn next_flush(&mut self) -> Option<Lpn> {
        if self.waiting == 0 || self.in_flight >= self.in_flight_limit {
            return None;
        }
        self.begin_batch_if_due();
        let slot = self.choose()?;
        let lpn = Lpn(self.slots[slot as usize].lpn);
        self.stop_waiting(slot);
        self.slots[slot as usize].state = State::InFlight;
        self.in_flight += 1;
        if self.batch_left > 0 {
            self.slots[slot as usize].of_batch = true;
            self.batch_in_flight += 1;
            self.batch_left -= 1;
            if self.batch_left == 0 && self.erase_block_goes_on() {
                self.batch_left = 1;
                self.batch_is_tail = true;
            }
        }
        self.shorten_batch();
        Some(lpn)
    }

    /// Records that a page given by [`WriteBuffer::next_flush`] is programmed: its slot is free, or
    /// will be with the last one of its batch.
    ///
    /// # Panics
    /// If the page is not in flight.
    pub fn flushed(&mut self, lpn: Lpn) {
        let newest = self.newest_of(lpn);
        assert!(newest != NONE, "page {} is programmed, but not in the write buffer", lpn.0);
        let slot = if !self.merges {
            self.unlink_oldest(lpn)
        } else if self.slots[newest as usize].state == State::InFlight {
            self.slot_of[lpn.index()] = NONE;
            newest
        } else {
            if let Some(order) = &mut self.by_erase_block {
                order.make_ready(lpn);
            }
            std::mem::replace(&mut self.slots[newest as usize].older, NONE)
        };
        assert!(slot != NONE, "page {} is programmed, but was not sent", lpn.0);
        self.in_flight -= 1;
        let of_batch = self.slots[slot as usize].of_batch;
        self.batch_in_flight -= u32::from(of_batch);
        self.counters.flushed += 1;
        if of_batch && self.rule == FlushRule::Batches {
            self.age.remove(0, slot);
            self.slots[slot as usize].state = State::Free;
            self.kept_back.push(slot);
            self.end_batch();
        } else {
            self.release(slot);
        }
    }

    /// Removes the oldest version of a page from its chain, and returns it: versions are sent in
    /// order.
    fn unlink_oldest(&mut self, lpn: Lpn) -> u32 {
        let mut slot = self.slot_of[lpn.index()];
        let mut newer = NONE;
        while self.slots[slot as usize].older != NONE {
            newer = slot;
            slot = self.slots[slot as usize].older;
        }
        if newer == NONE {
            self.slot_of[lpn.index()] = NONE;
        } else {
            self.slots[newer as usize].older = NONE;
        }
        slot
    }

    /// Drops a page. A version in flight is programmed all the same, but no read finds it any more.
    pub fn trim(&mut self, lpn: Lpn) {
        let mut newest = self.newest_of(lpn);
        while newest != NONE && self.slots[newest as usize].state != State::InFlight {
            let older = self.slots[newest as usize].older;
            self.slot_of[lpn.index()] = older;
            self.stop_waiting(newest);
            self.release(newest);
            self.counters.trimmed += 1;
            newest = older;
        }
        while newest != NONE {
            self.slots[newest as usize].stale = true;
            newest = self.slots[newest as usize].older;
        }
        self.shorten_batch();
    }

    /// Carries out a FLUSH: everything that waits now has to be sent, whatever the rule. Several
    /// may be outstanding.
    pub fn drain(&mut self) -> FlushTicket {
        self.drain_before = self.next_sequence;
        FlushTicket(self.next_sequence)
    }

    /// Returns true if all pages that were in the buffer when the ticket was given are programmed,
    /// or trimmed.
    #[inline]
    #[must_use]
    pub fn is_durable(&self, ticket: FlushTicket) -> bool {
        let oldest = self.age.first(0);
        oldest == NONE || self.slots[oldest as usize].sequence >= ticket.0
    }

    /// Carries out an FUA write: this page has to be sent before all others, whatever the rule.
    pub fn drain_page(&mut self, lpn: Lpn) -> PageTicket {
        let newest = self.newest_of(lpn);
        if newest != NONE && self.slots[newest as usize].state == State::Waiting {
            self.queues.remove(WAITING, newest);
            self.queues.push_back(URGENT, newest);
            self.slots[newest as usize].state = State::Urgent;
        }
        PageTicket { lpn, before: self.next_sequence }
    }

    /// Returns true if the versions of a page that were in the buffer when the ticket was given are
    /// programmed, or trimmed.
    #[must_use]
    pub fn is_page_durable(&self, ticket: PageTicket) -> bool {
        let mut slot = self.newest_of(ticket.lpn);
        while slot != NONE {
            if self.slots[slot as usize].sequence < ticket.before {
                return false;
            }
            slot = self.slots[slot as usize].older;
        }
        true
    }

    /// Returns true if `when_full` has a batch under way, so that free slots are not given away.
    #[inline]
    fn is_closed(&self) -> bool {
        self.rule == FlushRule::WhenFull && self.batch_left + self.batch_in_flight > 0
    }

    #[inline]
    fn newest_of(&self, lpn: Lpn) -> u32 {
        if self.capacity == 0 { NONE } else { self.slot_of[lpn.index()] }
    }

    /// Under `batches`: frees the slots of a batch once all of it is programmed.
    fn end_batch(&mut self) {
        if self.batch_left + self.batch_in_flight == 0 {
            self.free.append(&mut self.kept_back);
        }
    }

    fn begin_batch_if_due(&mut self) {
        let is_due = self.batch_left == 0
            && match self.rule {
                FlushRule::Eager => self.waiting >= self.flush_pages,
                // Not needed while a FLUSH makes room.
                FlushRule::WhenFull => self.free.is_empty() && self.in_flight == 0,
                FlushRule::Batches => {
                    self.waiting >= self.capacity.div_ceil(2) && self.in_flight == 0
                }
            };
        if is_due {
            self.batch_left = self.flush_pages;
            self.batch_is_tail = false;
            if let Some(order) = &mut self.by_erase_block {
                order.restart();
            }
        }
    }

    /// Limits a batch to the pages that there are.
    fn shorten_batch(&mut self) {
        self.batch_left = self.batch_left.min(self.waiting);
        if self.batch_is_tail && !self.erase_block_goes_on() {
            self.batch_left = 0;
        }
        self.end_batch();
    }

    fn erase_block_goes_on(&self) -> bool {
        self.by_erase_block.as_ref().is_some_and(EraseBlockOrder::goes_on)
    }

    fn choose(&mut self) -> Option<u32> {
        let urgent = self.first_ready(URGENT);
        if urgent.is_some() {
            return urgent;
        }
        let oldest = self.first_ready(WAITING);
        let drains =
            oldest.is_some_and(|slot| self.slots[slot as usize].sequence < self.drain_before);
        if self.batch_left == 0 && !drains {
            return None;
        }
        let Some(order) = &mut self.by_erase_block else { return oldest };
        // If the host writes to the oldest page's erase block again and again, that might never be
        // the least recent one, and a FLUSH would not end.
        let preferred =
            if drains { oldest.map(|slot| Lpn(self.slots[slot as usize].lpn)) } else { None };
        let lpn = order.next(preferred)?;
        Some(self.slot_of[lpn.index()])
    }

    /// The first page of a queue whose older version is not in flight. At most as many are skipped
    /// as are in flight.
    fn first_ready(&self, queue: usize) -> Option<u32> {
        let mut slot = self.queues.first(queue);
        while self.merges && slot != NONE && self.slots[slot as usize].older != NONE {
            slot = self.queues.next(slot);
        }
        (slot != NONE).then_some(slot)
    }

    fn stop_waiting(&mut self, slot: u32) {
        let BufferedPage { lpn, state, .. } = self.slots[slot as usize];
        self.queues.remove(if state == State::Urgent { URGENT } else { WAITING }, slot);
        if let Some(order) = &mut self.by_erase_block {
            order.left(Lpn(lpn));
        }
        self.waiting -= 1;
    }

    fn release(&mut self, slot: u32) {
        self.age.remove(0, slot);
        self.slots[slot as usize].state = State::Free;
        self.free.push(slot);
    }
}
