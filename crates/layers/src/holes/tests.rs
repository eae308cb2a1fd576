//! Tests of the layer over memory that gives anything for trimmed bytes, and over damaged maps.

use std::sync::{Arc, Mutex};

use block::{BlockDevice as _, Immediate, Serve, Store};
use units::IoOp;

use super::commit::MOST_RANGES;
use super::format::Geometry;
use crate::{
    Actions, Command, Data, Driver, Facts, Failure, LayerError, Limits, Reply, Stack, format, open,
};

const LIMITS: Limits = Limits { capacity_bytes: 64 << 20, sector_bytes: 512, most_bytes: 64 << 10 };
const PAGE: u64 = 4096;

/// Memory in which trimmed bytes hold something else from then on.
#[derive(Clone)]
struct Loose {
    limits: Limits,
    bytes: Vec<u8>,
    /// Commands that were served, in their order.
    asked: Arc<Mutex<Vec<Command>>>,
}

impl Serve for Loose {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        self.asked.lock().unwrap().push(Command { data: Data::Absent, ..command.clone() });
        let range = command.offset as usize..command.end() as usize;
        match command.op {
            IoOp::Read => return Ok(Data::copy_of(&self.bytes[range])),
            IoOp::Write => command.data.copy_to(&mut self.bytes[range]),
            IoOp::Trim => self.bytes[range].fill(0xaa),
            IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

type Running = Driver<Immediate<Loose>, Stack>;

fn device(limits: Limits) -> Immediate<Loose> {
    let bytes = vec![0x55; limits.capacity_bytes as usize];
    let mut device = Immediate::new(Loose { limits, bytes, asked: Arc::default() });
    format("holes", &Facts::default(), 1, &mut device).unwrap();
    device
}

fn opened(mut device: Immediate<Loose>) -> Running {
    let stack = open("holes", &Facts::default(), 1, &mut device).unwrap();
    device.asked.lock().unwrap().clear();
    Driver::new(device, stack)
}

fn again(mut running: Running) -> Running {
    running.drain(&mut || true).unwrap();
    opened(running.into_parts().0)
}

fn read(running: &mut Running, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![1; length];
    Store::new(running).read(at, &mut bytes).unwrap();
    bytes
}

fn written_bytes(device: &Loose) -> u64 {
    let asked = device.asked.lock().unwrap();
    let writes = asked.iter().filter(|command| command.op == IoOp::Write);
    writes.map(|command| u64::from(command.length)).sum()
}

#[test]
fn what_is_trimmed_reads_as_zeros_until_it_is_written() {
    let mut running = opened(device(LIMITS));
    assert_eq!(read(&mut running, 0, 512), [0x55; 512], "nothing was trimmed");
    for round in 0..2 {
        Store::new(&mut running).trim(PAGE, 3 * PAGE as u32).unwrap();
        // Parts of pages stay.
        Store::new(&mut running).trim(8 * PAGE + 512, 512).unwrap();
        assert_eq!(read(&mut running, PAGE, 3 * PAGE as usize), vec![0; 3 * PAGE as usize]);
        running = again(running);
        let mut expected = vec![0x55; 10 * PAGE as usize];
        expected[PAGE as usize..4 * PAGE as usize].fill(0);
        assert_eq!(read(&mut running, 0, expected.len()), expected, "round {round}");
        // A sector of a hole is written: the rest of its page is zeros.
        Store::new(&mut running).write(2 * PAGE + 1024, &[7; 512]).unwrap();
        expected[2 * PAGE as usize + 1024..][..512].fill(7);
        assert_eq!(read(&mut running, 0, expected.len()), expected);
        Store::new(&mut running).flush().unwrap();
        // It is opened again as if its process had been killed.
        running = opened(running.into_parts().0);
        assert_eq!(read(&mut running, 0, expected.len()), expected);
    }
}

#[test]
fn a_trim_costs_less_than_a_thousandth_and_reaches_what_is_below_after_its_bits() {
    let mut running = opened(device(LIMITS));
    let bytes = running.info().limits.capacity_bytes;
    Store::new(&mut running).trim(0, bytes as u32).unwrap();
    running.drain(&mut || true).unwrap();
    let device = running.into_parts().0;
    let written = written_bytes(&device);
    assert!(written > 0 && written <= bytes / 1000, "{written} of {bytes}");
    let asked = device.asked.lock().unwrap().clone();
    let trimmed: u64 = asked
        .iter()
        .filter(|command| command.op == IoOp::Trim)
        .map(|command| u64::from(command.length))
        .sum();
    assert_eq!(trimmed, bytes);
    let first_trim = asked.iter().position(|command| command.op == IoOp::Trim).unwrap();
    assert!(asked[first_trim..].iter().all(|command| command.op != IoOp::Write));
    assert!(asked.iter().all(|command| command.op != IoOp::Write || command.is_fua));
    // Once more: the bits are there.
    let mut running = opened(device);
    Store::new(&mut running).trim(0, bytes as u32).unwrap();
    running.drain(&mut || true).unwrap();
    assert_eq!(written_bytes(&running.into_parts().0), 0);
}

#[test]
fn writes_beside_holes_go_below_as_they_are() {
    let mut running = opened(device(LIMITS));
    Store::new(&mut running).trim(0, 64 * PAGE as u32).unwrap();
    let mut running = again(running);
    let mut store = Store::new(&mut running);
    for page in 100..200 {
        store.write(page * PAGE + 512, &[3; 512]).unwrap();
        store.flush().unwrap();
    }
    assert_eq!(written_bytes(&running.into_parts().0), 100 * 512);
}

#[test]
fn extents_are_holes_and_what_is_none() {
    let mut running = opened(device(LIMITS));
    Store::new(&mut running).trim(2 * PAGE, 5 * PAGE as u32).unwrap();
    let mut extents = Vec::new();
    let mut at = 0;
    while at < 10 * PAGE {
        let extent = running.extent(at, 10 * PAGE - at);
        at += extent.length;
        extents.push((extent.length / PAGE, extent.is_hole));
    }
    assert_eq!(extents, [(2, false), (5, true), (3, false)]);
    let half = running.extent(2 * PAGE + 512, 1024);
    assert_eq!((half.length, half.is_hole), (1024, true));
}

/// A copy that could not be written is older, and is not taken.
#[test]
fn of_two_copies_the_newer_one_holds() {
    let geometry = Geometry::at_end(LIMITS, 4096).unwrap();
    let mut running = opened(device(LIMITS));
    Store::new(&mut running).trim(0, PAGE as u32).unwrap();
    running.drain(&mut || true).unwrap();
    let before = running.into_parts().0;
    let mut running = opened(before.clone());
    Store::new(&mut running).write(0, &[7; PAGE as usize]).unwrap();
    running.drain(&mut || true).unwrap();
    let after = running.into_parts().0;
    for copy in [0, 1] {
        let place = geometry.block_offset(copy, 0) as usize;
        let mut device = after.clone();
        device.bytes[place..place + 512].copy_from_slice(&before.bytes[place..place + 512]);
        assert_eq!(read(&mut opened(device), 0, 512), [7; 512], "copy {copy} is older");
    }
}

/// Either copy of each block is enough, and the other one is written again.
#[test]
fn a_damaged_copy_costs_nothing_and_two_are_an_error() {
    let mut running = opened(device(LIMITS));
    let geometry = Geometry::at_end(LIMITS, 4096).unwrap();
    assert!(geometry.blocks() > 3);
    for page in (0..geometry.pages).step_by(100) {
        Store::new(&mut running).trim(page * PAGE, PAGE as u32).unwrap();
    }
    running.drain(&mut || true).unwrap();
    let whole = running.into_parts().0;
    for block in 0..geometry.blocks() {
        let page = geometry.pages_in(block).start.next_multiple_of(100);
        let places = [0, 1].map(|copy| geometry.block_offset(copy, block) as usize);
        for place in places {
            let mut device = whole.clone();
            device.bytes[place + 40] ^= 8;
            let mut running = opened(device);
            assert_eq!(read(&mut running, page * PAGE, 512), [0; 512]);
            let device = running.into_parts().0;
            assert!(device.bytes[places[0]..][..512] == device.bytes[places[1]..][..512]);
        }
        let mut device = whole.clone();
        places.into_iter().for_each(|place| device.bytes[place + 40] ^= 8);
        let refused = open("holes", &Facts::default(), 1, &mut device);
        assert!(matches!(refused.err(), Some(LayerError::NotFormatted { .. })));
        let mut notes = Vec::new();
        crate::salvage("holes", &Facts::default(), 1, &mut device, false, &mut notes).unwrap();
        assert!(notes.iter().any(|note| note.contains("both copies")), "{notes:?}");
    }
}

#[test]
fn holes_stay_where_they_are_when_the_size_changes() {
    for (old, new) in [(16 << 20, 24 << 20), (24 << 20, 16 << 20)] {
        let mut running = opened(device(Limits { capacity_bytes: old, ..LIMITS }));
        let there = running.info().limits.capacity_bytes;
        for page in (0..there / PAGE).step_by(3) {
            Store::new(&mut running).trim(page * PAGE, PAGE as u32).unwrap();
        }
        running.drain(&mut || true).unwrap();
        let mut device = running.into_parts().0;
        let changes = crate::resize("holes", &Facts::default(), 1, &mut device, new).unwrap();
        let mut bytes = device.bytes.clone();
        bytes.resize(new.max(old) as usize, 0x55);
        for change in changes {
            match change {
                crate::Change::Zero { at, bytes: count } => {
                    bytes[at as usize..(at + count) as usize].fill(0);
                }
                crate::Change::Put { at, data } => {
                    bytes[at as usize..at as usize + data.len()].copy_from_slice(&data);
                }
                crate::Change::Copy { from, to, bytes: count } => {
                    bytes.copy_within(from as usize..(from + count) as usize, to as usize);
                }
            }
        }
        bytes.truncate(new as usize);
        let limits = Limits { capacity_bytes: new, ..LIMITS };
        let asked = Arc::default();
        let mut running = opened(Immediate::new(Loose { limits, bytes, asked }));
        let pages = running.info().limits.capacity_bytes.min(there) / PAGE;
        for page in 0..pages {
            let expected = if page % 3 == 0 { 0 } else { 0x55 };
            assert_eq!(read(&mut running, page * PAGE, 512), [expected; 512], "page {page}");
        }
    }
}

/// A stack whose commands below end when a test says so.
struct Steps {
    stack: Stack,
    actions: Actions,
    ids: u32,
}

impl Steps {
    fn new(text: &str, limits: Limits) -> Self {
        let mut device = Immediate::sparse(limits);
        format(text, &Facts::default(), 1, &mut device).unwrap();
        let stack = open(text, &Facts::default(), 1, &mut device).unwrap();
        Self { stack, actions: Actions::default(), ids: 0 }
    }

    fn submit(&mut self, op: IoOp, offset: u64, length: u64) {
        self.ids += 1;
        let command = Command::new(self.ids, op, offset, length as u32);
        self.stack.submit(command, 0, &mut self.actions);
    }

    /// Takes away the commands of a kind that were sent below and have not ended.
    fn take(&mut self, op: IoOp) -> Vec<Command> {
        self.actions.down.extract_if(.., |command| command.op == op).collect()
    }

    fn end(&mut self, command: &Command) {
        let is_read = command.op == IoOp::Read;
        let data = if is_read { Data::zeros(command.length as usize) } else { Data::Absent };
        self.stack.replied(Reply { id: command.id, outcome: Ok(data) }, 0, &mut self.actions);
    }

    /// Ends flushes and writes, until there are none.
    fn settle(&mut self) {
        loop {
            let mut ends = self.take(IoOp::Flush);
            ends.extend(self.take(IoOp::Write));
            if ends.is_empty() {
                return;
            }
            ends.iter().for_each(|command| self.end(command));
        }
    }
}

/// A device may give anything for what it is trimming: also for what was read before.
#[test]
fn a_trim_goes_below_when_reads_of_its_pages_have_ended() {
    let mut steps = Steps::new("holes(delay=off)", LIMITS);
    steps.submit(IoOp::Read, PAGE, 2 * PAGE);
    let read = steps.take(IoOp::Read).pop().unwrap();
    steps.submit(IoOp::Trim, 0, 8 * PAGE);
    steps.submit(IoOp::Flush, 0, 0);
    steps.settle();
    assert_eq!(steps.take(IoOp::Trim), [], "the read is under way");
    steps.end(&read);
    assert_eq!(steps.take(IoOp::Trim).len(), 1);
}

/// It happens without a flush of the host, too.
#[test]
fn a_long_trim_goes_below_as_a_whole_when_its_time_has_come() {
    let limits = Limits { capacity_bytes: 5 << 30, ..LIMITS };
    let mut steps = Steps::new("holes", limits);
    let bytes = steps.stack.limits().capacity_bytes;
    for offset in (0..bytes).step_by(1 << 30) {
        steps.submit(IoOp::Trim, offset, (bytes - offset).min(1 << 30));
    }
    let at = steps.stack.wakes_at().expect("it wants to be woken");
    steps.stack.wake(at, &mut steps.actions);
    steps.settle();
    let trims = steps.take(IoOp::Trim);
    assert_eq!(trims.iter().map(|trim| u64::from(trim.length)).sum::<u64>(), bytes);
}

/// Trims that wait are held in memory, so their number is limited.
#[test]
fn trims_wait_where_what_is_below_takes_none() {
    let limits = Limits { capacity_bytes: 128 << 20, ..LIMITS };
    let mut steps = Steps::new("holes(page=512,delay=off)", limits);
    for place in 0..MOST_RANGES as u64 + 100 {
        steps.submit(IoOp::Trim, place * 1024, 512);
        steps.settle();
    }
    let held = steps.ids as usize - steps.actions.up.len();
    assert!((50..=100).contains(&held), "{held} trims wait");
    let mut trims = 0;
    loop {
        let ends = steps.take(IoOp::Trim);
        if ends.is_empty() {
            break;
        }
        trims += ends.len();
        ends.iter().for_each(|command| steps.end(command));
        steps.settle();
    }
    assert_eq!(steps.actions.up.len(), steps.ids as usize);
    assert!(trims > MOST_RANGES, "{trims}");
}

/// A layer below with checksums takes no part of a page that has rotted.
#[test]
fn a_copy_of_which_a_page_below_has_rotted_is_written_again() {
    for (page, capacity) in [("4Ki", 256), ("16Ki", 16), ("64Ki", 64), ("64Ki", 256)] {
        let stack = format!("holes|checksums(page={page})");
        let limits = Limits { capacity_bytes: capacity << 20, most_bytes: 1 << 20, ..LIMITS };
        let mut device = Immediate::sparse(limits);
        crate::format(&stack, &Facts::default(), 1, &mut device).unwrap();
        let opened = |device: &mut Immediate<_>| {
            let opened = open(&stack, &Facts::default(), 1, device);
            opened.unwrap_or_else(|error| panic!("{stack}: {error}"))
        };
        let mut layers = opened(&mut device);
        let below = Limits { capacity_bytes: layers.layers()[1].limits().capacity_bytes, ..limits };
        let geometry = Geometry::at_end(below, 4096).unwrap();
        let mut driver = Driver::new(&mut device, &mut layers);
        Store::new(&mut driver).trim(0, PAGE as u32).unwrap();
        driver.drain(&mut || true).unwrap();
        drop(driver);
        for copy in [0, 1, 0] {
            let place = geometry.block_offset(copy, 0);
            let mut block = [0; 512];
            let mut store = Store::new(&mut device);
            store.read(place, &mut block).unwrap();
            block[99] ^= 1;
            store.write(place, &block).unwrap();
            let mut layers = opened(&mut device);
            let mut driver = Driver::new(&mut device, &mut layers);
            let mut bytes = [1; 512];
            Store::new(&mut driver).read(0, &mut bytes).unwrap();
            assert_eq!(bytes, [0; 512], "{stack}: copy {copy}");
            driver.drain(&mut || true).unwrap();
        }
    }
}
