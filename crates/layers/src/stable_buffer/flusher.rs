//! Flushing an instance of a pattern: its pages are read from their slots, written to their
//! destinations in the pattern's order, made durable there, and their slots freed (STABLEBUFFER
//! 2.1).

use units::{IoOp, Lifetime};

use super::layer::{Sent, StableBuffer};
use super::patterns::{Candidate, Pattern};
use crate::{Actions, Data, Failure};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Reading,
    Writing,
    Flushing,
}

/// Times that a page is read to be flushed.
pub const TRIES: u32 = 3;

#[derive(Debug)]
struct Item {
    number: u64,
    page: u32,
    slot: u32,
    lifetime: Lifetime,
    /// Bytes to be written, once they are there.
    data: Option<Data>,
    /// Number of its reads so far.
    tries: u32,
    /// True if the last of them brought other bytes than were written.
    is_rotten: bool,
}

/// The instance that is being flushed; one at a time.
#[derive(Debug, Default)]
pub struct Flusher {
    phase: Phase,
    is_sequential: bool,
    items: Vec<Item>,
    /// Index of the first item whose command was not sent.
    next: usize,
    /// Number of commands under way.
    under_way: u32,
    numbers: Vec<u64>,
    /// Page with which each slot was written, where pages are not read again; none for slots that
    /// were recovered.
    kept: Vec<Option<Data>>,
}

impl Flusher {
    /// Returns true if nothing is being flushed.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Keeps a copy of the page of a slot: the page may be a small part of a long write.
    pub fn keep(&mut self, slot: u32, data: &Data) {
        let data = data.joined().map_or(Data::Absent, |bytes| Data::copy_of(&bytes));
        if self.kept.len() <= slot as usize {
            self.kept.resize_with(slot as usize + 1, || None);
        }
        self.kept[slot as usize] = Some(data);
    }
}

impl StableBuffer {
    /// Notes that a page was written to its slot: it may be flushed from now on, and is if that is
    /// worth it.
    pub(super) fn page_came(&mut self, page: u32, actions: &mut Actions) {
        let entry = self.table.page_mut(page);
        if entry.is_candidate {
            return;
        }
        entry.is_candidate = true;
        let number = entry.number;
        self.candidates += 1;
        let qualified = self.recognition.insert(number, &self.settings.tuning);
        if let Some(candidate) =
            qualified.filter(|_| self.settings.is_proactive && self.flusher.is_idle())
        {
            self.begin_instance(candidate, actions);
        }
    }

    /// Gives the instance of most worth of all pages that may be flushed.
    pub(super) fn best_instance(&mut self) -> Option<Candidate> {
        let all = self.table.pages().filter(|page| page.is_candidate).map(|page| page.number);
        self.recognition.best(all, &self.settings.tuning)
    }

    pub(super) fn begin_instance(&mut self, candidate: Candidate, actions: &mut Actions) {
        debug_assert!(self.flusher.is_idle());
        self.counts.flushed(candidate.pattern, u64::from(candidate.pages));
        let mut numbers = std::mem::take(&mut self.flusher.numbers);
        self.recognition.write_down(candidate, &self.settings.tuning, &mut numbers);
        for &number in &numbers {
            let page = self.table.find(number).expect("what may be flushed is in the buffer");
            let entry = self.table.page_mut(page);
            entry.is_candidate = false;
            let slot = entry.slot;
            self.table.flush_begins(slot);
            self.recognition.remove(number);
            let data = self.flusher.kept.get_mut(slot as usize).and_then(Option::take);
            let lifetime = self.lifetimes.of(slot);
            self.flusher.items.push(Item {
                number,
                page,
                slot,
                lifetime,
                data,
                tries: 0,
                is_rotten: false,
            });
        }
        self.candidates -= numbers.len() as u32;
        self.flusher.numbers = numbers;
        self.flusher.is_sequential = candidate.pattern == Pattern::Sequential;
        self.flusher.next = 0;
        self.flusher.phase = Phase::Reading;
        self.send_reads(actions);
    }

    fn send_reads(&mut self, actions: &mut Actions) {
        while self.flusher.next < self.flusher.items.len()
            && self.flusher.under_way < self.settings.outstanding
        {
            let item = self.flusher.next as u32;
            self.flusher.next += 1;
            if self.flusher.items[item as usize].data.is_some() {
                continue;
            }
            self.flusher.under_way += 1;
            self.read_item(item, actions);
        }
        if self.flusher.under_way == 0 {
            self.drop_bad_items(actions);
            self.flusher.phase = Phase::Writing;
            self.flusher.next = 0;
            self.send_writes(actions);
        }
    }

    fn read_item(&mut self, item: u32, actions: &mut Actions) {
        let entry = &mut self.flusher.items[item as usize];
        entry.tries += 1;
        let range = self.superblock.geometry.slot_range(entry.slot);
        self.send(Sent::FlushRead { item }, IoOp::Read, range, actions);
    }

    /// Drops pages that could not be read or have rotted: they do not go to their destinations, but
    /// stay in their slots until they are written again.
    fn drop_bad_items(&mut self, actions: &mut Actions) {
        let mut items = std::mem::take(&mut self.flusher.items);
        items.retain(|item| {
            if item.data.is_none() && self.table.flush_failed(item.slot) {
                self.is_bad_now(item.slot, item.is_rotten, actions);
            }
            item.data.is_some()
        });
        self.flusher.items = items;
    }

    pub(super) fn flush_read_ended(
        &mut self,
        item: u32,
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let Item { slot, tries, .. } = self.flusher.items[item as usize];
        self.flusher.items[item as usize].is_rotten = outcome.is_ok();
        match outcome.and_then(|data| self.fitting(slot, &data)) {
            Ok(data) => {
                self.flusher.items[item as usize].data = Some(data);
            }
            Err(_) if tries < TRIES => {
                self.read_item(item, actions);
                return;
            }
            Err(_) => {}
        }
        self.flusher.under_way -= 1;
        self.send_reads(actions);
    }

    fn send_writes(&mut self, actions: &mut Actions) {
        let most = if self.flusher.is_sequential {
            u64::from(self.below.most_bytes) / self.page_bytes()
        } else {
            1
        };
        while self.flusher.next < self.flusher.items.len()
            && self.flusher.under_way < self.settings.outstanding
        {
            let begin = self.flusher.next;
            // A page that was left out divides a run, and so does one of another lifetime, so that
            // a layer below can keep it apart.
            let run = self.flusher.items[begin..]
                .chunk_by(|one, other| {
                    (one.number + 1, one.lifetime) == (other.number, other.lifetime)
                })
                .next();
            let pages = run.map_or(1, |run| run.len().min(most as usize));
            let end = begin + pages;
            let mut data = Data::Absent;
            for item in &mut self.flusher.items[begin..end] {
                data.append(item.data.take().expect("it was read"));
            }
            let offset = self.flusher.items[begin].number * self.page_bytes();
            let range = (offset, offset + pages as u64 * self.page_bytes());
            let lifetime = self.flusher.items[begin].lifetime;
            self.flusher.next = end;
            self.flusher.under_way += 1;
            self.send_write(Sent::FlushWrite, range, false, (lifetime, data), actions);
        }
        if self.flusher.under_way == 0 {
            self.flusher.phase = Phase::Flushing;
            if self.flusher.items.is_empty() {
                self.instance_ended(actions);
            } else {
                self.send_flush(None, true, actions);
            }
        }
    }

    pub(super) fn flush_write_ended(&mut self, actions: &mut Actions) {
        self.flusher.under_way -= 1;
        self.send_writes(actions);
    }

    /// Ends an instance, as the destinations hold the pages durably.
    pub(super) fn instance_ended(&mut self, actions: &mut Actions) {
        let mut items = std::mem::take(&mut self.flusher.items);
        for Item { number, page, slot, .. } in items.drain(..) {
            let entry = self.table.page(page);
            if entry.slot == slot {
                let trims_late = entry.is_trimmed && !entry.is_locked;
                if trims_late {
                    self.table.page_mut(page).is_locked = true;
                }
                self.table.flushed(slot);
                if trims_late {
                    let range = (number * self.page_bytes(), (number + 1) * self.page_bytes());
                    self.send(Sent::LateTrim { page }, IoOp::Trim, range, actions);
                }
            } else {
                self.counts.outdated_pages += 1;
                self.table.flushed(slot);
            }
        }
        self.flusher.items = items;
        self.flusher.phase = Phase::Idle;
        if self.settings.is_proactive
            && let Some(candidate) = self.recognition.best_qualified(&self.settings.tuning)
        {
            self.begin_instance(candidate, actions);
        }
    }
}
