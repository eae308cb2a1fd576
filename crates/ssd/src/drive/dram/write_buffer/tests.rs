//! The write buffer against a plain list of versions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use units::Lpn;

use super::{Admission, FlushTicket, PageTicket, WriteBuffer};
use crate::drive::profile::{FlushOrder, FlushRule, WriteBufferConfig};

const PAGE: u32 = 4096;
const LOGICAL_PAGES: u32 = 24;
const PLANES: u32 = 3;
const PAGES_PER_ERASE_BLOCK: u32 = 4;

fn buffer(
    rule: FlushRule,
    order: FlushOrder,
    capacity: u64,
    flush_pages: u32,
    in_flight_pages: u32,
) -> WriteBuffer {
    let config = WriteBufferConfig {
        bytes: capacity * u64::from(PAGE),
        flush: rule,
        flush_pages,
        in_flight_pages,
        order,
        power_loss_protected: false,
        merges: true,
    };
    WriteBuffer::new(&config, PAGE, LOGICAL_PAGES, PAGES_PER_ERASE_BLOCK, PLANES)
}

fn all_flushes(buffer: &mut WriteBuffer) -> Vec<u32> {
    std::iter::from_fn(|| buffer.next_flush()).map(|lpn| lpn.0).collect()
}

fn store(buffer: &mut WriteBuffer, pages: impl IntoIterator<Item = u32>) {
    for lpn in pages {
        assert_eq!(buffer.write(Lpn(lpn)), Admission::Stored, "page {lpn}");
    }
}

#[test]
fn when_full_gives_no_room_before_the_batch_is_done() {
    let mut buffer = buffer(FlushRule::WhenFull, FlushOrder::Fifo, 6, 3, 8);
    store(&mut buffer, 0..5);
    assert!(all_flushes(&mut buffer).is_empty(), "one slot is free");
    store(&mut buffer, [5]);
    assert_eq!(all_flushes(&mut buffer), [0, 1, 2]);
    buffer.flushed(Lpn(1));
    buffer.flushed(Lpn(0));
    assert_eq!(buffer.write(Lpn(9)), Admission::Full, "a page of the batch is in flight");
    assert_eq!(buffer.write(Lpn(2)), Admission::Full, "a new version of it needs a slot, too");
    assert_eq!(buffer.write(Lpn(4)), Admission::Merged);
    buffer.flushed(Lpn(2));
    store(&mut buffer, [9, 2, 10]);
    assert_eq!(buffer.write(Lpn(11)), Admission::Full);
    assert_eq!(all_flushes(&mut buffer), [3, 4, 5], "the next batch");
    assert_eq!(buffer.counters().full, 3);
}

#[test]
fn a_batch_goes_out_as_the_pages_in_flight_allow() {
    let mut buffer = buffer(FlushRule::WhenFull, FlushOrder::Fifo, 6, 4, 0);
    store(&mut buffer, 0..6);
    assert_eq!(all_flushes(&mut buffer), [0, 1, 2], "as many as there are planes");
    buffer.flushed(Lpn(0));
    assert_eq!(all_flushes(&mut buffer), [3]);
    for lpn in [1, 2] {
        buffer.flushed(Lpn(lpn));
    }
    assert!(!buffer.has_room());
    buffer.flushed(Lpn(3));
    assert!(buffer.has_room());
    assert!(all_flushes(&mut buffer).is_empty());
}

#[test]
fn eager_sends_groups() {
    let mut buffer = buffer(FlushRule::Eager, FlushOrder::Fifo, 6, 2, 8);
    store(&mut buffer, [7]);
    assert!(all_flushes(&mut buffer).is_empty());
    store(&mut buffer, [3, 5]);
    assert_eq!(all_flushes(&mut buffer), [7, 3]);
    store(&mut buffer, 10..13);
    assert_eq!(buffer.write(Lpn(13)), Admission::Full);
    buffer.flushed(Lpn(3));
    store(&mut buffer, [13]);
}

#[test]
fn a_rewrite_of_a_page_in_flight_waits_for_it() {
    let mut buffer = buffer(FlushRule::Eager, FlushOrder::Fifo, 6, 0, 8);
    store(&mut buffer, [7]);
    assert_eq!(all_flushes(&mut buffer), [7]);
    store(&mut buffer, [7, 8]);
    assert_eq!(buffer.write(Lpn(7)), Admission::Merged);
    assert_eq!(all_flushes(&mut buffer), [8], "the second version of page 7 is passed over");
    buffer.flushed(Lpn(7));
    assert!(buffer.contains(Lpn(7)));
    assert_eq!(all_flushes(&mut buffer), [7]);
    buffer.flushed(Lpn(7));
    assert!(!buffer.contains(Lpn(7)) && buffer.contains(Lpn(8)));
}

#[test]
fn a_trimmed_page_is_not_found() {
    let mut buffer = buffer(FlushRule::Eager, FlushOrder::Fifo, 6, 0, 1);
    store(&mut buffer, [7, 8]);
    assert_eq!(buffer.next_flush(), Some(Lpn(7)));
    store(&mut buffer, [7]);
    buffer.trim(Lpn(7));
    buffer.trim(Lpn(8));
    assert!(!buffer.contains(Lpn(7)) && !buffer.contains(Lpn(8)));
    assert_eq!((buffer.in_flight(), buffer.waiting(), buffer.counters().trimmed), (1, 0, 2));
    store(&mut buffer, [7]);
    assert!(buffer.contains(Lpn(7)));
    buffer.flushed(Lpn(7));
    assert!(buffer.contains(Lpn(7)), "that was the version before the trim");
}

#[test]
fn erase_blocks_leave_whole_and_the_least_recent_one_first() {
    // Erase blocks of 4 pages: 0 - 3, 4 - 7, 8 - 11.
    let mut buffer = buffer(FlushRule::WhenFull, FlushOrder::ByEraseBlock, 6, 1, 8);
    store(&mut buffer, [2, 9, 0, 5, 8]);
    assert_eq!(buffer.write(Lpn(2)), Admission::Merged);
    store(&mut buffer, [11]);
    assert_eq!(all_flushes(&mut buffer), [5]);
    buffer.flushed(Lpn(5));
    store(&mut buffer, [6]);
    assert_eq!(all_flushes(&mut buffer), [0, 2], "longer than the batch asked for");
    buffer.flushed(Lpn(2));
    assert_eq!(buffer.write(Lpn(2)), Admission::Full);
    buffer.flushed(Lpn(0));
    store(&mut buffer, [2, 1]);
    assert_eq!(all_flushes(&mut buffer), [8, 9, 11]);
}

#[test]
fn a_trim_does_not_lengthen_a_batch() {
    let mut buffer = buffer(FlushRule::WhenFull, FlushOrder::ByEraseBlock, 4, 1, 1);
    store(&mut buffer, [0, 1, 2, 4]);
    assert_eq!(all_flushes(&mut buffer), [0]);
    buffer.trim(Lpn(1));
    buffer.trim(Lpn(2));
    buffer.flushed(Lpn(0));
    assert!(all_flushes(&mut buffer).is_empty(), "the erase block has no page left to give");
    assert!(buffer.has_room());
}

#[test]
fn flush_ends_even_if_its_erase_block_is_never_the_least_recent() {
    let mut buffer = buffer(FlushRule::WhenFull, FlushOrder::ByEraseBlock, 6, 1, 1);
    store(&mut buffer, [0]);
    let ticket = buffer.drain();
    store(&mut buffer, [4]);
    assert_eq!(buffer.write(Lpn(0)), Admission::Merged);
    assert_eq!(all_flushes(&mut buffer), [0]);
    assert!(!buffer.is_durable(ticket));
    buffer.flushed(Lpn(0));
    assert!(buffer.is_durable(ticket));
    assert!(all_flushes(&mut buffer).is_empty(), "page 4 came after the FLUSH");
}

#[test]
fn several_flushes_and_an_urgent_page() {
    let mut buffer = buffer(FlushRule::WhenFull, FlushOrder::Fifo, 8, 2, 8);
    store(&mut buffer, [0, 1, 2]);
    let urgent = buffer.drain_page(Lpn(2));
    assert_eq!(all_flushes(&mut buffer), [2]);
    assert!(!buffer.is_page_durable(urgent));
    let first = buffer.drain();
    store(&mut buffer, [3, 2]);
    let second = buffer.drain();
    assert_eq!(all_flushes(&mut buffer), [0, 1, 3]);
    buffer.flushed(Lpn(3));
    buffer.flushed(Lpn(2));
    assert!(buffer.is_page_durable(urgent), "the newer version does not matter");
    assert_eq!(all_flushes(&mut buffer), [2]);
    buffer.flushed(Lpn(0));
    assert!(!buffer.is_durable(first));
    buffer.flushed(Lpn(1));
    assert!(buffer.is_durable(first) && !buffer.is_durable(second));
    buffer.flushed(Lpn(2));
    let nothing = buffer.drain_page(Lpn(2));
    assert!(buffer.is_durable(second) && buffer.is_page_durable(nothing));
}

#[test]
fn a_drive_without_a_buffer_has_one_that_holds_nothing() {
    let mut buffer = buffer(FlushRule::Eager, FlushOrder::ByEraseBlock, 0, 0, 0);
    assert_eq!((buffer.capacity(), buffer.contains(Lpn(3)), buffer.next_flush()), (0, false, None));
    buffer.trim(Lpn(3));
    let ticket = buffer.drain();
    assert!(buffer.is_durable(ticket) && buffer.table_bytes() == 24, "{}", buffer.table_bytes());
}

#[test]
#[should_panic(expected = "page 3 is programmed, but not in the write buffer")]
fn a_page_that_was_not_sent_is_a_bug() {
    buffer(FlushRule::Eager, FlushOrder::Fifo, 4, 0, 0).flushed(Lpn(3));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32),
    /// The n-th of the pages in flight, modulo their number, is programmed.
    Finish(usize),
    Trim(u32),
    Drain,
    DrainPage(u32),
    /// `next_flush` until it gives nothing, as the drive does.
    Pump,
    /// `next_flush` once.
    Send,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..LOGICAL_PAGES).prop_map(Step::Write),
        6 => (0usize..8).prop_map(Step::Finish),
        1 => (0..LOGICAL_PAGES).prop_map(Step::Trim),
        1 => Just(Step::Drain),
        1 => (0..LOGICAL_PAGES).prop_map(Step::DrainPage),
        3 => Just(Step::Pump),
        3 => Just(Step::Send),
    ]
}

/// A version that waits or is in flight.
#[derive(Clone, Copy, Debug)]
struct Version {
    lpn: u32,
    /// Number of the write of its data: the newest of those merged.
    write: u64,
    /// Number of the write that took the slot.
    arrival: u64,
    is_in_flight: bool,
    is_of_batch: bool,
    urged_at: Option<u64>,
}

/// Writes that have to be on flash for a ticket: the number of the last write of each page.
struct Promise {
    ticket: Result<FlushTicket, PageTicket>,
    writes: BTreeMap<u32, u64>,
}

/// The plain model. It finds the pages that may be sent in a list of versions that it searches each
/// time.
struct Model {
    rule: FlushRule,
    order: FlushOrder,
    capacity: usize,
    flush_pages: usize,
    in_flight_pages: usize,
    /// In the order of arrival.
    versions: Vec<Version>,
    /// Number of the last write of each page; absent if it was trimmed since.
    newest: BTreeMap<u32, u64>,
    /// Number of the write that flash holds.
    on_flash: BTreeMap<u32, u64>,
    drain_before: u64,
    batch_left: usize,
    /// Programmed pages of the current batch, whose slots are kept back under `batches`.
    kept_back: usize,
    /// True if the batch has its pages, and continues to the end of the current erase block.
    batch_is_tail: bool,
    /// Time at which each erase block was last written to.
    written_at: BTreeMap<u32, u64>,
    /// The current erase block, and the first of its pages that is not yet given.
    current: Option<(u32, u32)>,
    now: u64,
    promises: Vec<Promise>,
}

impl Model {
    fn in_flight(&self) -> usize {
        self.versions.iter().filter(|version| version.is_in_flight).count()
    }

    fn has_room(&self) -> bool {
        let batch =
            self.batch_left + self.versions.iter().filter(|version| version.is_of_batch).count();
        let kept_back = if batch == 0 { 0 } else { self.kept_back };
        self.versions.len() + kept_back < self.capacity
            && (self.rule != FlushRule::WhenFull || batch == 0)
    }

    fn write(&mut self, lpn: u32) -> Admission {
        self.now += 1;
        let now = self.now;
        let answer = if let Some(waiting) =
            self.versions.iter_mut().find(|version| version.lpn == lpn && !version.is_in_flight)
        {
            waiting.write = now;
            Admission::Merged
        } else if self.has_room() {
            let fresh = Version {
                lpn,
                write: now,
                arrival: now,
                is_in_flight: false,
                is_of_batch: false,
                urged_at: None,
            };
            self.versions.push(fresh);
            Admission::Stored
        } else {
            return Admission::Full;
        };
        self.newest.insert(lpn, now);
        self.written_at.insert(lpn / PAGES_PER_ERASE_BLOCK, now);
        answer
    }

    /// Indices of the versions that may be sent as far as the order of versions allows.
    fn ready(&self) -> Vec<usize> {
        let is_ready = |index: &usize| {
            let version = self.versions[*index];
            !version.is_in_flight
                && !self.versions.iter().any(|other| other.is_in_flight && other.lpn == version.lpn)
        };
        (0..self.versions.len()).filter(is_ready).collect()
    }

    /// Chooses the page that is sent next.
    fn choose(&mut self) -> Option<usize> {
        let waiting = self.versions.len() - self.in_flight();
        if self.in_flight() >= self.in_flight_pages || waiting == 0 {
            return None;
        }
        let is_due = match self.rule {
            FlushRule::Eager => waiting >= self.flush_pages,
            FlushRule::WhenFull => self.versions.len() == self.capacity && self.in_flight() == 0,
            FlushRule::Batches => waiting >= self.capacity.div_ceil(2) && self.in_flight() == 0,
        };
        if self.batch_left == 0 && is_due {
            self.batch_left = self.flush_pages;
            self.kept_back = 0;
            self.batch_is_tail = false;
            self.current = None;
        }
        let ready = self.ready();
        let urgent = ready.iter().copied().filter(|&index| self.versions[index].urged_at.is_some());
        if let Some(index) = urgent.min_by_key(|&index| self.versions[index].urged_at) {
            return Some(index);
        }
        let oldest = ready.iter().copied().find(|&index| self.versions[index].urged_at.is_none());
        let drains = oldest.is_some_and(|index| self.versions[index].arrival <= self.drain_before);
        if self.batch_left == 0 && !drains {
            return None;
        }
        match self.order {
            FlushOrder::Fifo => oldest,
            FlushOrder::ByEraseBlock => {
                self.choose_by_erase_block(oldest.filter(|_| drains), &ready)
            }
        }
    }

    fn choose_by_erase_block(
        &mut self,
        preferred: Option<usize>,
        ready: &[usize],
    ) -> Option<usize> {
        let erase_block_of = |index: usize| self.versions[index].lpn / PAGES_PER_ERASE_BLOCK;
        if self.next_of_current().is_none() {
            let least_recent = ready
                .iter()
                .map(|&index| erase_block_of(index))
                .min_by_key(|block| self.written_at[block]);
            self.current = preferred.map(erase_block_of).or(least_recent).map(|block| (block, 0));
        }
        self.next_of_current()
    }

    /// The next page of the current erase block.
    fn next_of_current(&self) -> Option<usize> {
        let (block, cursor) = self.current?;
        let is_ahead = |&index: &usize| {
            let lpn = self.versions[index].lpn;
            lpn / PAGES_PER_ERASE_BLOCK == block && lpn % PAGES_PER_ERASE_BLOCK >= cursor
        };
        self.ready().into_iter().filter(is_ahead).min_by_key(|&index| self.versions[index].lpn)
    }

    fn send(&mut self, index: usize) {
        let version = &mut self.versions[index];
        version.is_in_flight = true;
        version.is_of_batch = self.batch_left > 0;
        if let Some((block, cursor)) = &mut self.current
            && version.urged_at.is_none()
            && version.lpn / PAGES_PER_ERASE_BLOCK == *block
        {
            *cursor = version.lpn % PAGES_PER_ERASE_BLOCK + 1;
        }
        if self.batch_left > 0 {
            self.batch_left -= 1;
            if self.batch_left == 0 && self.next_of_current().is_some() {
                self.batch_left = 1;
                self.batch_is_tail = true;
            }
        }
        self.shorten_batch();
    }

    fn shorten_batch(&mut self) {
        self.batch_left = self.batch_left.min(self.versions.len() - self.in_flight());
        if self.batch_is_tail && self.next_of_current().is_none() {
            self.batch_left = 0;
        }
    }

    fn finish(&mut self, lpn: u32) {
        let index = self
            .versions
            .iter()
            .position(|version| version.is_in_flight && version.lpn == lpn)
            .unwrap();
        let version = self.versions.remove(index);
        self.kept_back += usize::from(version.is_of_batch && self.rule == FlushRule::Batches);
        let before = self.on_flash.insert(lpn, version.write);
        assert!(
            before.is_none_or(|before| before < version.write),
            "page {lpn}: an older version over a newer one"
        );
    }

    fn trim(&mut self, lpn: u32) {
        self.versions.retain(|version| version.lpn != lpn || version.is_in_flight);
        self.newest.remove(&lpn);
        self.shorten_batch();
        // Trimmed pages need not become durable.
        let left = self
            .versions
            .iter()
            .find(|version| version.lpn == lpn)
            .map_or(0, |version| version.write);
        for promise in &mut self.promises {
            if promise.writes.get(&lpn).is_some_and(|&write| write > left) {
                promise.writes.remove(&lpn);
            }
        }
    }

    /// Returns true if a promise is kept: flash holds the write, or a later one of the same page.
    fn is_kept(&self, promise: &Promise) -> bool {
        let is_on_flash =
            |(lpn, write): (&u32, &u64)| self.on_flash.get(lpn).is_some_and(|held| held >= write);
        promise.writes.iter().all(is_on_flash)
    }
}

/// Compares one call of `next_flush`. Returns true if it gave a page.
fn compare_send(buffer: &mut WriteBuffer, model: &mut Model) -> Result<bool, TestCaseError> {
    let due = model.choose();
    prop_assert_eq!(buffer.next_flush(), due.map(|index| Lpn(model.versions[index].lpn)));
    due.into_iter().for_each(|index| model.send(index));
    Ok(due.is_some())
}

fn compare(buffer: &WriteBuffer, model: &Model) -> Result<(), TestCaseError> {
    prop_assert!(buffer.waiting() + buffer.in_flight() <= buffer.capacity());
    prop_assert!(buffer.in_flight() as usize <= model.in_flight_pages);
    prop_assert_eq!(buffer.waiting() as usize, model.versions.len() - model.in_flight());
    prop_assert_eq!(buffer.in_flight() as usize, model.in_flight());
    prop_assert_eq!(buffer.has_room(), model.has_room());
    for lpn in 0..LOGICAL_PAGES {
        let newest = model.newest.get(&lpn);
        let is_held = newest.is_some()
            && model
                .versions
                .iter()
                .any(|version| version.lpn == lpn && Some(&version.write) == newest);
        prop_assert_eq!(buffer.contains(Lpn(lpn)), is_held, "page {}", lpn);
    }
    for promise in &model.promises {
        let is_durable = match promise.ticket {
            Ok(ticket) => buffer.is_durable(ticket),
            Err(ticket) => buffer.is_page_durable(ticket),
        };
        prop_assert!(!is_durable || model.is_kept(promise), "durable is said too early");
    }
    Ok(())
}

fn run(
    rule: FlushRule,
    order: FlushOrder,
    sizes: (u64, u32, u32),
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let (capacity, flush_pages, in_flight_pages) = sizes;
    let mut buffer = buffer(rule, order, capacity, flush_pages, in_flight_pages);
    let mut model = Model {
        rule,
        order,
        capacity: capacity as usize,
        flush_pages: flush_pages.clamp(1, capacity as u32) as usize,
        in_flight_pages: if in_flight_pages == 0 { PLANES } else { in_flight_pages } as usize,
        versions: Vec::new(),
        newest: BTreeMap::new(),
        on_flash: BTreeMap::new(),
        drain_before: 0,
        batch_left: 0,
        kept_back: 0,
        batch_is_tail: false,
        written_at: BTreeMap::new(),
        current: None,
        now: 0,
        promises: Vec::new(),
    };
    for step in steps {
        match step {
            Step::Write(lpn) => prop_assert_eq!(buffer.write(Lpn(lpn)), model.write(lpn)),
            Step::Finish(choice) => {
                let in_flight: Vec<u32> = model
                    .versions
                    .iter()
                    .filter(|version| version.is_in_flight)
                    .map(|version| version.lpn)
                    .collect();
                if !in_flight.is_empty() {
                    let lpn = in_flight[choice % in_flight.len()];
                    model.finish(lpn);
                    buffer.flushed(Lpn(lpn));
                }
            }
            Step::Trim(lpn) => {
                model.trim(lpn);
                buffer.trim(Lpn(lpn));
            }
            Step::Drain => {
                model.drain_before = model.now;
                let writes =
                    model.versions.iter().map(|version| (version.lpn, version.write)).collect();
                model.promises.push(Promise { ticket: Ok(buffer.drain()), writes });
            }
            Step::DrainPage(lpn) => {
                model.now += 1;
                let now = model.now;
                let waiting = model
                    .versions
                    .iter_mut()
                    .find(|version| version.lpn == lpn && !version.is_in_flight);
                waiting
                    .into_iter()
                    .for_each(|version| version.urged_at = version.urged_at.or(Some(now)));
                let writes = model
                    .versions
                    .iter()
                    .filter(|version| version.lpn == lpn)
                    .map(|version| (lpn, version.write))
                    .collect();
                model.promises.push(Promise { ticket: Err(buffer.drain_page(Lpn(lpn))), writes });
            }
            Step::Pump => while compare_send(&mut buffer, &mut model)? {},
            Step::Send => {
                compare_send(&mut buffer, &mut model)?;
            }
        }
        compare(&buffer, &model)?;
    }
    finish_all(&mut buffer, &mut model)
}

/// FLUSH at the end: every page that was written and not trimmed is on flash, and every promise is
/// reported as kept.
fn finish_all(buffer: &mut WriteBuffer, model: &mut Model) -> Result<(), TestCaseError> {
    let ticket = buffer.drain();
    model.drain_before = model.now;
    while !buffer.is_durable(ticket) {
        while compare_send(buffer, model)? {}
        let oldest =
            model.versions.iter().find(|version| version.is_in_flight).map(|version| version.lpn);
        prop_assert!(oldest.is_some(), "FLUSH is not done, but nothing is in flight");
        oldest.into_iter().for_each(|lpn| {
            model.finish(lpn);
            buffer.flushed(Lpn(lpn));
        });
    }
    for (lpn, write) in &model.newest {
        prop_assert_eq!(model.on_flash.get(lpn), Some(write), "page {} is lost", lpn);
    }
    for promise in &model.promises {
        let is_durable = match promise.ticket {
            Ok(ticket) => buffer.is_durable(ticket),
            Err(ticket) => buffer.is_page_durable(ticket),
        };
        prop_assert!(is_durable && model.is_kept(promise));
    }
    prop_assert_eq!(
        (buffer.waiting(), buffer.in_flight(), buffer.free.len()),
        (0, 0, model.capacity)
    );
    let counters = buffer.counters();
    prop_assert_eq!(counters.stored, counters.flushed + counters.trimmed);
    Ok(())
}

fn any_sizes() -> impl Strategy<Value = (u64, u32, u32)> {
    (1u64..9, 0u32..5, 0u32..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn it_sends_what_the_plain_model_sends(
        rule in prop::sample::select(vec![
            FlushRule::Eager,
            FlushRule::WhenFull,
            FlushRule::Batches,
        ]),
        order in prop::sample::select(vec![FlushOrder::Fifo, FlushOrder::ByEraseBlock]),
        sizes in any_sizes(),
        steps in prop::collection::vec(any_step(), 0..300),
    ) {
        run(rule, order, sizes, steps)?;
    }
}
