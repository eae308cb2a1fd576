//! Tests of pages that do not hold what was written, of marks before writes, and of crashes.

use block::{BlockDevice as _, Immediate, Sparse};
use units::{IoOp, Nanos};

use crate::driver::{Driver, through};
use crate::{
    Actions, Command, Data, Facts, Failure, LAYERS, Limits, Reply, Signal, Stack, Store, resize,
};

const PAGE: u64 = 1024;
const LIMITS: Limits =
    Limits { capacity_bytes: 512 << 10, sector_bytes: 512, most_bytes: 16 << 10 };
/// Regions of 120 pages.
const TEXT: &str = "checksums(page=1Ki,block=512,delay=1s)";
const REGION: u64 = 120;
const LONG: Nanos = 1_000_000_000_000;

/// A table on a device, both of which the test drives by hand.
struct Held {
    device: Immediate<Sparse>,
    stack: Stack,
    now: Nanos,
    next_id: u32,
    /// All commands that went below.
    sent: Vec<(IoOp, u64, bool)>,
    /// Bytes below at which writes fail.
    fails: Option<std::ops::Range<u64>>,
    has_failing_flush: bool,
}

fn content(page: u64, version: u64) -> Vec<u8> {
    (0..PAGE / 8).flat_map(|word| (version << 32 | page << 16 | word).to_le_bytes()).collect()
}

impl Held {
    fn new() -> Self {
        let mut device = Immediate::sparse(LIMITS);
        crate::format(TEXT, &Facts::default(), 1, &mut device).unwrap();
        let stack = crate::open(TEXT, &Facts::default(), 1, &mut device).unwrap();
        let (sent, fails) = (Vec::new(), None);
        Self { device, stack, now: 0, next_id: 0, sent, fails, has_failing_flush: false }
    }

    /// Opens it again, as after its process was killed.
    fn open_again(&mut self) {
        self.stack = crate::open(TEXT, &Facts::default(), 2, &mut self.device).unwrap();
    }

    fn below(&mut self, command: &Command) -> Reply {
        let Command { id, op, offset, length, is_fua, .. } = *command;
        self.sent.push((op, offset, is_fua));
        let is_write = matches!(op, IoOp::Write | IoOp::Trim);
        let fails = self.fails.as_ref().is_some_and(|range| is_write && range.contains(&offset))
            || op == IoOp::Flush && self.has_failing_flush;
        let mut store = Store::new(&mut self.device);
        let outcome = match op {
            _ if fails => Err(command.failed("injected")),
            IoOp::Read => {
                let mut bytes = vec![0; length as usize];
                store.read(offset, &mut bytes).map(|()| Data::Whole(bytes.into()))
            }
            IoOp::Write => {
                store.write(offset, &command.data.joined().unwrap()).map(|()| Data::Absent)
            }
            IoOp::Trim => store.trim(offset, length).map(|()| Data::Absent),
            IoOp::Flush => Ok(Data::Absent),
        };
        Reply { id, outcome }
    }

    fn run(&mut self, mut actions: Actions) -> Vec<Reply> {
        let mut up = std::mem::take(&mut actions.up);
        while !actions.down.is_empty() {
            for command in std::mem::take(&mut actions.down) {
                let reply = self.below(&command);
                self.stack.replied(reply, self.now, &mut actions);
            }
            up.append(&mut actions.up);
        }
        up
    }

    fn ask(&mut self, command: Command) -> Result<Data, Failure> {
        self.next_id += 1;
        let (id, mut actions) = (self.next_id, Actions::default());
        self.stack.submit(Command { id, ..command }, self.now, &mut actions);
        let mut replies = self.run(actions);
        assert_eq!(replies.len(), 1, "one reply to a command");
        replies.pop().unwrap().outcome
    }

    fn write(&mut self, page: u64, version: u64) -> Result<Data, Failure> {
        self.ask(Command::write(0, page * PAGE, Data::Whole(content(page, version).into())))
    }

    fn write_half(&mut self, page: u64, version: u64) -> Result<Data, Failure> {
        let half = content(page, version)[..512].to_vec();
        self.ask(Command::write(0, page * PAGE, Data::Whole(half.into())))
    }

    fn read(&mut self, page: u64) -> Result<Vec<u8>, Failure> {
        let read = self.ask(Command::new(0, IoOp::Read, page * PAGE, PAGE as u32));
        read.map(|data| data.joined().unwrap().to_vec())
    }

    fn flush(&mut self) -> Result<Data, Failure> {
        self.ask(Command::new(0, IoOp::Flush, 0, 0))
    }

    /// Lets time pass, and does all that becomes due.
    fn rest(&mut self, time: Nanos) {
        let end = self.now + time;
        while let Some(at) = self.stack.wakes_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let mut actions = Actions::default();
            self.stack.wake(self.now, &mut actions);
            assert!(self.run(actions).is_empty());
        }
        self.now = end;
    }

    /// Lets the host go on, and all regions be looked at.
    fn settle(&mut self) {
        let last = self.stack.limits().capacity_bytes / PAGE - 1;
        self.ask(Command::new(0, IoOp::Trim, last * PAGE, PAGE as u32)).unwrap();
        self.rest(LONG);
    }

    fn drain(&mut self) {
        let mut actions = Actions::default();
        self.stack.signal(Signal::Drain, self.now, &mut actions);
        assert!(self.run(actions).is_empty());
        assert!(self.stack.is_idle());
    }

    fn resize(&mut self, bytes: u64) {
        let changes = resize(TEXT, &Facts::default(), 1, &mut self.device, bytes).unwrap();
        let old = self.device.info().limits.capacity_bytes.min(bytes);
        let mut other = Immediate::sparse(Limits { capacity_bytes: bytes, ..LIMITS });
        let mut store = Store::new(&mut other);
        let mut piece = vec![0; 1 << 20];
        for at in (0..old).step_by(piece.len()) {
            let length = (old - at).min(piece.len() as u64) as usize;
            Store::new(&mut self.device).read(at, &mut piece[..length]).unwrap();
            store.write(at, &piece[..length]).unwrap();
        }
        // Bytes behind the new end are still there while the changes are made.
        let mut before = std::mem::replace(&mut self.device, Immediate::sparse(LIMITS));
        // Twice, as after a crash.
        for change in changes.iter().chain(&changes) {
            match change {
                crate::Change::Zero { at, bytes } => {
                    store.write(*at, &vec![0; *bytes as usize]).unwrap();
                }
                crate::Change::Put { at, data } => store.write(*at, data).unwrap(),
                crate::Change::Copy { from, to, bytes } => {
                    let mut data = vec![0; *bytes as usize];
                    Store::new(&mut before).read(*from, &mut data).unwrap();
                    store.write(*to, &data).unwrap();
                }
            }
        }
        self.device = other;
        self.open_again();
    }

    fn flip(&mut self, at: u64) {
        let (sector, mut bytes) = (at / 512 * 512, [0; 512]);
        Store::new(&mut self.device).read(sector, &mut bytes).unwrap();
        bytes[(at % 512) as usize] ^= 0x10;
        Store::new(&mut self.device).write(sector, &bytes).unwrap();
    }

    fn counted(&self, name: &str) -> u64 {
        let entry = LAYERS.iter().find(|entry| entry.info.name == "checksums").unwrap();
        let mut counts = Vec::new();
        self.stack.layers()[0].count(&mut counts);
        counts[entry.counters.iter().position(|counter| counter.name == name).unwrap()]
    }

    /// Gives the places of the area, its sector of marks, and the first block.
    fn area(&self) -> [u64; 3] {
        let area = self.stack.limits().capacity_bytes.next_multiple_of(512);
        [area, area + 512, area + 1024]
    }
}

fn is_bad(outcome: Result<Vec<u8>, Failure>) -> bool {
    let Err(Failure::Io { reason, .. }) = outcome else { return false };
    reason.contains("does not hold what was written")
}

#[test]
fn a_page_that_rots_fails_alone_until_it_is_written() {
    let mut held = Held::new();
    for page in 0..8 {
        held.write(page, 1).unwrap();
    }
    held.flip(3 * PAGE + 700);
    assert!(is_bad(held.read(3)));
    assert_eq!(held.read(2).unwrap(), content(2, 1));
    let all = held.ask(Command::new(0, IoOp::Read, 0, 8 * PAGE as u32)).unwrap_err();
    assert!(all.reason().contains("page 3, at byte 3072"), "{all}");
    // A rotten page gets no new checksum.
    assert!(held.write_half(3, 2).is_err());
    assert!(is_bad(held.read(3)));
    assert_eq!((held.counted("bad_pages"), held.stack.layers()[0].bad_places(9).len()), (1, 1));
    held.write(3, 3).unwrap();
    assert_eq!((held.read(3).unwrap(), held.counted("bad_pages")), (content(3, 3), 0));
}

#[test]
fn a_page_that_rots_while_nobody_looks_is_found_when_it_is_opened_again() {
    let mut held = Held::new();
    for page in 0..2 * REGION {
        held.write(page, 1).unwrap();
    }
    held.drain();
    assert_eq!(held.counted("marked_regions"), 0);
    held.flip(5 * PAGE);
    // The content of page 7, in the place of page 9.
    let mut bytes = vec![0; PAGE as usize];
    Store::new(&mut held.device).read(7 * PAGE, &mut bytes).unwrap();
    Store::new(&mut held.device).write(9 * PAGE, &bytes).unwrap();
    held.open_again();
    assert!(is_bad(held.read(5)) && is_bad(held.read(9)));
    assert_eq!(held.read(7).unwrap(), content(7, 1));
}

#[test]
fn a_pass_finds_what_rots() {
    let mut held = Held::new();
    for page in 100..200 {
        held.write(page, 1).unwrap();
    }
    held.flip(150 * PAGE + 1);
    let mut actions = Actions::default();
    held.stack.signal(Signal::Scrub, held.now, &mut actions);
    assert!(held.run(actions).is_empty());
    held.rest(LONG);
    let state = held.stack.layers()[0].scrub().unwrap();
    assert_eq!((state.pages_left, state.bad_pages, state.pages_read), (0, 1, 100));
    assert_eq!(held.stack.layers()[0].bad_places(9), [(150 * PAGE, PAGE)]);
}

#[test]
fn a_region_is_marked_durably_before_it_is_written_and_closed_after_a_while() {
    let mut held = Held::new();
    let [_, marks, blocks] = held.area();
    held.sent.clear();
    held.write(REGION + 1, 1).unwrap();
    assert_eq!(held.sent, [(IoOp::Write, marks, true), (IoOp::Write, (REGION + 1) * PAGE, false)]);
    held.sent.clear();
    held.write(REGION + 2, 1).unwrap();
    assert_eq!(held.sent.len(), 1, "it is marked already");
    held.rest(900_000_000);
    held.write(REGION + 3, 1).unwrap();
    held.rest(900_000_000);
    assert_eq!(held.counted("marked_regions"), 1, "it was written to not long ago");
    held.sent.clear();
    held.rest(2_000_000_000);
    let block = (IoOp::Write, blocks + 512, false);
    assert_eq!(held.sent, [block, (IoOp::Flush, 0, false), (IoOp::Write, marks, false)]);
    assert_eq!(held.counted("marked_regions"), 0);
}

#[test]
fn after_a_crash_pages_are_given_as_they_are_until_they_were_looked_at() {
    let mut held = Held::new();
    held.write(1, 1).unwrap();
    held.write(2, 1).unwrap();
    held.write(REGION, 1).unwrap();
    held.drain();
    held.write(1, 2).unwrap();
    held.open_again();
    assert_eq!((held.counted("unsure_regions"), held.counted("marked_regions")), (1, 1));
    assert_eq!(held.read(1).unwrap(), content(1, 2));
    // A region that was not marked is sure.
    held.flip(REGION * PAGE);
    assert!(is_bad(held.read(REGION)));
    // A part of a page: the rest is as it is.
    held.write_half(1, 3).unwrap();
    let mixed = [&content(1, 3)[..512], &content(1, 2)[512..]].concat();
    assert_eq!(held.read(1).unwrap(), mixed);
    held.settle();
    assert_eq!((held.counted("unsure_regions"), held.counted("marked_regions")), (0, 0));
    held.flip(PAGE);
    assert!(is_bad(held.read(1)));
    held.open_again();
    assert!(is_bad(held.read(1)));
    assert_eq!(held.read(2).unwrap(), content(2, 1));
}

#[test]
fn what_differs_after_a_crash_is_written_once_more_and_has_a_checksum_then() {
    let mut held = Held::new();
    held.write(1, 1).unwrap();
    held.drain();
    held.write(1, 2).unwrap();
    held.open_again();
    held.settle();
    assert_eq!(held.counted("settled_pages"), 1);
    held.flip(PAGE + 5);
    assert!(is_bad(held.read(1)));
}

#[test]
fn damaged_structures_cost_checksums_and_no_page() {
    for place in 0..3 {
        let mut held = Held::new();
        for page in 0..2 * REGION {
            held.write(page, 1).unwrap();
        }
        held.drain();
        let at = held.area()[place];
        held.flip(at + 100);
        held.open_again();
        assert_eq!(held.counted("bad_blocks"), u64::from(place > 0));
        for page in 0..2 * REGION {
            assert_eq!(held.read(page).unwrap(), content(page, 1));
        }
        held.settle();
        held.flip(7 * PAGE);
        assert!(is_bad(held.read(7)), "all have checksums again");
        held.open_again();
        assert_eq!(held.counted("bad_blocks"), 0);
    }
}

#[test]
fn a_mark_that_cannot_be_written_fails_the_write_and_nothing_else() {
    let mut held = Held::new();
    let [_, marks, blocks] = held.area();
    held.write(1, 1).unwrap();
    held.fails = Some(marks..marks + 512);
    let failure = held.write(REGION + 1, 1).unwrap_err();
    assert!(failure.reason().contains("cannot be marked: injected"), "{failure}");
    held.write(1, 2).unwrap();
    held.fails = Some(blocks..blocks + 512);
    held.drain();
    assert_eq!(held.counted("marked_regions"), 1, "its block could not be written");
    held.fails = None;
    held.write(REGION + 1, 2).unwrap();
    held.drain();
    assert_eq!(held.counted("marked_regions"), 0);
    assert_eq!(held.read(1).unwrap(), content(1, 2));
}

/// Writes of a layer above while it is made count as closed, not as a crash.
#[test]
fn a_stack_that_was_just_made_has_no_unsure_pages() {
    let text = format!("stable_buffer(size=16Ki,page=1Ki)|{TEXT}");
    let mut device = Immediate::sparse(LIMITS);
    crate::format(&text, &Facts::default(), 1, &mut device).unwrap();
    let stack = crate::open(&text, &Facts::default(), 1, &mut device).unwrap();
    let mut counts = Vec::new();
    stack.layers()[1].count(&mut counts);
    let unsure = super::counts::COUNTERS.iter().position(|one| one.name == "unsure_regions");
    assert_eq!(counts[unsure.unwrap()], 0);
}

#[test]
fn a_write_that_failed_leaves_the_page_to_whatever_it_holds() {
    let mut held = Held::new();
    held.write(4, 1).unwrap();
    held.fails = Some(0..PAGE * 8);
    assert!(held.write(4, 2).is_err());
    held.fails = None;
    assert_eq!(held.read(4).unwrap(), content(4, 1));
    // A part of it is written with the rest, which has a checksum again then.
    held.sent.clear();
    held.write_half(4, 3).unwrap();
    held.flip(4 * PAGE + 900);
    assert!(is_bad(held.read(4)));
    // One that is bad does not become good by it.
    held.fails = Some(0..PAGE * 8);
    assert!(held.write(4, 4).is_err());
    held.fails = None;
    assert!(is_bad(held.read(4)));
}

#[test]
fn a_flush_of_its_own_that_fails_poisons_and_reads_go_on_where_they_are_right() {
    let mut held = Held::new();
    held.write(4, 1).unwrap();
    held.has_failing_flush = true;
    held.rest(LONG);
    assert!(matches!(held.write(4, 2), Err(Failure::Poisoned { layer: "checksums", .. })));
    assert!(matches!(held.flush(), Err(Failure::Poisoned { .. })));
    assert_eq!(held.read(4).unwrap(), content(4, 1));
    assert!(matches!(held.read(5), Err(Failure::Poisoned { .. })), "nobody says what it holds");
    held.flip(4 * PAGE);
    assert!(is_bad(held.read(4)));
    assert!(held.stack.is_idle());
}

#[test]
fn a_flush_of_the_host_that_fails_makes_what_was_written_unsure() {
    let mut held = Held::new();
    held.write(4, 1).unwrap();
    held.write(7, 1).unwrap();
    held.write(8, 1).unwrap();
    held.flip(8 * PAGE);
    assert!(is_bad(held.read(8)));
    // The device drops a write.
    Store::new(&mut held.device).write(4 * PAGE, &content(4, 0)).unwrap();
    held.sent.clear();
    held.has_failing_flush = true;
    assert!(held.flush().is_err());
    held.has_failing_flush = false;
    held.settle();
    assert_eq!(held.read(4).unwrap(), content(4, 0));
    // Pages that can still be read are written again, as no later flush covers them, either.
    assert!(held.sent.contains(&(IoOp::Write, 4 * PAGE, false)));
    assert!(held.sent.contains(&(IoOp::Write, 7 * PAGE, false)));
    assert_eq!((held.counted("unsure_regions"), held.counted("marked_regions")), (0, 0));
    held.flip(4 * PAGE);
    assert!(is_bad(held.read(4)));
    assert!(is_bad(held.read(8)), "what is known to be bad stays so");
}

#[test]
fn a_trim_of_what_was_never_written_goes_below_as_it_is() {
    let mut held = Held::new();
    held.sent.clear();
    let all = held.stack.limits().capacity_bytes as u32;
    held.ask(Command::new(0, IoOp::Trim, 0, all)).unwrap();
    assert_eq!(held.sent, [(IoOp::Trim, 0, false)]);
    held.write(REGION, 1).unwrap();
    held.drain();
    held.sent.clear();
    held.ask(Command::new(0, IoOp::Trim, 0, all)).unwrap();
    let [_, marks, _] = held.area();
    assert_eq!(held.sent, [(IoOp::Write, marks, true), (IoOp::Trim, 0, false)]);
    held.drain();
    held.flip(REGION * PAGE);
    held.open_again();
    held.read(REGION).unwrap();
}

#[test]
fn after_a_crash_no_page_of_a_region_with_trims_is_taken_for_what_it_was() {
    let mut held = Held::new();
    held.write(3, 1).unwrap();
    held.write(4, 1).unwrap();
    held.drain();
    held.write(4, 2).unwrap();
    held.sent.clear();
    held.ask(Command::new(0, IoOp::Trim, 3 * PAGE, PAGE as u32)).unwrap();
    let [_, marks, _] = held.area();
    assert_eq!(held.sent, [(IoOp::Write, marks, true), (IoOp::Trim, 3 * PAGE, false)]);
    // The device gives what the page held, until it gives zeros.
    Store::new(&mut held.device).write(3 * PAGE, &content(3, 1)).unwrap();
    held.open_again();
    held.sent.clear();
    held.settle();
    assert!(held.sent.contains(&(IoOp::Write, 3 * PAGE, false)), "it is that from now on");
    assert_eq!(held.read(3).unwrap(), content(3, 1));
}

#[test]
fn what_was_written_in_a_new_region_has_checksums_after_a_crash() {
    let mut held = Held::new();
    held.write(3, 1).unwrap();
    held.open_again();
    held.settle();
    assert_eq!((held.counted("settled_pages"), held.counted("unsure_regions")), (1, 0));
    held.flip(3 * PAGE);
    assert!(is_bad(held.read(3)));
}

#[test]
fn a_trim_of_a_part_of_a_page_leaves_the_rest_its_checksum() {
    let mut held = Held::new();
    held.write(1, 1).unwrap();
    held.write(2, 1).unwrap();
    held.ask(Command::new(0, IoOp::Trim, PAGE + 512, PAGE as u32 + 512)).unwrap();
    held.ask(Command::new(0, IoOp::Trim, PAGE + 512, 512)).unwrap();
    assert_eq!(held.read(1).unwrap(), content(1, 1));
    held.flip(PAGE + 5);
    assert!(is_bad(held.read(1)));
    held.flip(2 * PAGE + 5);
    held.read(2).unwrap();
}

#[test]
fn checksums_stay_when_the_device_becomes_another_size() {
    let mut held = Held::new();
    for page in 0..200 {
        held.write(page, 1).unwrap();
    }
    held.drain();
    for bytes in [900 << 10, 300 << 10, 320 << 10] {
        held.resize(bytes);
        for page in 0..200 {
            assert_eq!(held.read(page).unwrap(), content(page, 1));
        }
        assert_eq!(held.counted("unsure_regions"), 0);
        held.write(199, 1).unwrap();
        held.drain();
    }
    held.flip(199 * PAGE + 3);
    assert!(is_bad(held.read(199)));
}

/// A table that is too long to be noted is copied, and refused where it would be copied over
/// itself.
#[test]
fn a_long_table_is_copied() {
    let mut held = Held::new();
    held.resize(256 << 20);
    let pages = held.stack.limits().capacity_bytes / PAGE;
    for region in 0..pages / REGION {
        held.write(region * REGION, 1).unwrap();
    }
    held.drain();
    let larger = resize(TEXT, &Facts::default(), 1, &mut held.device, 257 << 20).unwrap_err();
    assert!(larger.to_string().contains("take a size that differs by more"), "{larger}");
    for bytes in [400 << 20, 200 << 20] {
        held.resize(bytes);
        for region in 0..(pages / REGION).min(held.stack.limits().capacity_bytes / PAGE / REGION) {
            assert_eq!(held.read(region * REGION).unwrap(), content(region * REGION, 1));
        }
    }
    assert_eq!(held.counted("bad_blocks"), 0);
    held.flip(77 * REGION * PAGE);
    assert!(is_bad(held.read(77 * REGION)));
}

/// The same over the driver, with data that come in pieces of any place and length.
#[test]
fn a_driver_reads_and_writes_it_at_any_sector() {
    let mut device = Immediate::sparse(LIMITS);
    crate::format(TEXT, &Facts::default(), 1, &mut device).unwrap();
    let mut stack = crate::open(TEXT, &Facts::default(), 1, &mut device).unwrap();
    let sectors = (stack.limits().capacity_bytes / 512) as usize;
    let mut expected = vec![0; sectors * 512];
    for step in 0..2000_usize {
        let (start, count) = (step * 7919 % (sectors - 40), 1 + step * 31 % 40);
        let range = start * 512..(start + count) * 512;
        expected[range.clone()].fill(step as u8 | 1);
        through(&mut stack, &mut device, |store| {
            store.write(range.start as u64, &expected[range.clone()])
        })
        .unwrap();
    }
    let mut bytes = vec![0; expected.len()];
    through(&mut stack, &mut device, |store| store.read(0, &mut bytes)).unwrap();
    assert!(bytes == expected);
    Driver::new(&mut device, &mut stack).drain(&mut || true).unwrap();
    assert!(stack.is_idle());
}
