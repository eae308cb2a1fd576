//! Slots that do not hold what was written: reported, and never flushed.

use block::{BlockDevice as _, Immediate, Sparse};

use crate::driver::{Driver, through};
use crate::{
    Actions, Command, Data, Facts, Failure, LayerError, Limits, Reply, Signal, Stack, Store,
};

const PAGE: u64 = 2048;
const LIMITS: Limits =
    Limits { capacity_bytes: 128 << 10, sector_bytes: 512, most_bytes: 16 << 10 };
/// With what each is flushed when it is drained: whatever pattern comes.
const BUFFERS: [&str; 3] = [
    "stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off)",
    "stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off,layout=embedded,\
     patterns=on_demand)",
    "stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off,ack=flush)",
];

struct Buffer {
    device: Immediate<Sparse>,
    stack: Stack,
    text: &'static str,
}

fn content(page: u64, version: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..PAGE / 8).flat_map(|word| (version << 32 | page << 16 | word).to_le_bytes()).collect();
    bytes[PAGE as usize - 96..].fill(0);
    bytes
}

impl Buffer {
    fn new(text: &'static str) -> Self {
        let mut device = Immediate::sparse(LIMITS);
        crate::format(text, &Facts::default(), 1, &mut device).unwrap();
        let stack = crate::open(text, &Facts::default(), 1, &mut device).unwrap();
        Self { device, stack, text }
    }

    fn run<T>(&mut self, work: impl FnOnce(&mut Store<'_>) -> T) -> T {
        through(&mut self.stack, &mut self.device, work)
    }

    fn write(&mut self, page: u64, version: u64) {
        self.run(|store| store.write(page * PAGE, &content(page, version))).unwrap();
    }

    fn read(&mut self, page: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; PAGE as usize];
        self.run(|store| store.read(page * PAGE, &mut bytes)).map(|()| bytes)
    }

    fn drain(&mut self) {
        Driver::new(&mut self.device, &mut self.stack).drain(&mut || true).unwrap();
        assert!(self.stack.is_idle());
    }

    fn open_again(&mut self) -> Result<(), LayerError> {
        self.stack = crate::open(self.text, &Facts::default(), 1, &mut self.device)?;
        Ok(())
    }

    fn image(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.device.info().limits.capacity_bytes as usize];
        Store::new(&mut self.device).read(0, &mut bytes).unwrap();
        bytes
    }

    /// Where a version of a page lies in a slot.
    fn slot_of(&mut self, page: u64, version: u64) -> usize {
        let (image, content) = (self.image(), content(page, version));
        let begin = self.stack.limits().capacity_bytes as usize;
        // Where a header lies, the page's bytes are elsewhere.
        let like = |at: &usize| {
            image[*at..].get(96..PAGE as usize - 96) == content.get(96..PAGE as usize - 96)
        };
        (begin..image.len()).step_by(512).find(like).expect("it is in a slot")
    }

    fn flip(&mut self, at: usize) {
        let (sector, mut bytes) = (at / 512 * 512, [0; 512]);
        Store::new(&mut self.device).read(sector as u64, &mut bytes).unwrap();
        bytes[at % 512] ^= 0x10;
        Store::new(&mut self.device).write(sector as u64, &bytes).unwrap();
    }

    fn rot(&mut self, page: u64, version: u64) {
        let at = self.slot_of(page, version) + 700;
        self.flip(at);
    }

    fn at_destination(&mut self, page: u64) -> Vec<u8> {
        let at = (page * PAGE) as usize;
        self.image()[at..at + PAGE as usize].to_vec()
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counts = Vec::new();
        self.stack.layers()[0].count(&mut counts);
        let all = super::super::counts::COUNTERS;
        counts[all.iter().position(|counter| counter.name == name).unwrap()]
    }
}

fn reason(outcome: Result<Vec<u8>, Failure>) -> String {
    match outcome.expect_err("it must not be given") {
        Failure::Io { reason, .. } => reason.to_string(),
        poisoned @ Failure::Poisoned { .. } => panic!("{poisoned}"),
    }
}

#[test]
fn a_slot_that_rots_fails_what_needs_its_page_and_nothing_else() {
    for text in BUFFERS {
        let mut buffer = Buffer::new(text);
        (0..6).for_each(|page| buffer.write(page, 1));
        buffer.rot(3, 1);
        let said = reason(buffer.read(3));
        assert!(said.contains("page 3") && said.contains("slot 3"), "{said}");
        // The wrong byte lies in the second sector of the page.
        assert!(buffer.run(|store| store.read(3 * PAGE, &mut [0; 512])).is_err());
        assert!(buffer.run(|store| store.read(0, &mut [0; 6 * PAGE as usize])).is_err());
        assert!(buffer.run(|store| store.write(3 * PAGE, &[0; 512])).is_err(), "a part of it");
        for page in (0..6).filter(|&page| page != 3) {
            assert_eq!(buffer.read(page).unwrap(), content(page, 1), "{text}");
        }
        let mut part = [0; 512];
        buffer.run(|store| store.read(2 * PAGE + 1024, &mut part)).unwrap();
        assert_eq!(part, content(2, 1)[1024..1536]);
        buffer.write(3, 2);
        assert_eq!(buffer.read(3).unwrap(), content(3, 2));
    }
}

#[test]
fn a_slot_that_rots_is_not_flushed_and_stays_until_its_page_is_written() {
    for text in BUFFERS {
        let mut buffer = Buffer::new(text);
        (0..8).for_each(|page| buffer.write(page, 1));
        buffer.drain();
        (0..8).for_each(|page| buffer.write(page, 2));
        buffer.rot(3, 2);
        buffer.drain();
        assert_eq!(buffer.counter("bad_pages"), 1);
        assert!(buffer.counter("bad_reads") >= 3, "it was tried three times");
        assert_eq!(buffer.at_destination(3), content(3, 1), "nothing went there");
        let others = |buffer: &mut Buffer| {
            for page in (0..8).filter(|&page| page != 3) {
                assert_eq!(buffer.at_destination(page), content(page, 2), "its neighbours did");
                assert_eq!(buffer.read(page).unwrap(), content(page, 2));
            }
        };
        others(&mut buffer);
        assert!(buffer.read(3).is_err() && buffer.counter("bad_pages") == 1);
        assert!(buffer.run(|store| store.write(3 * PAGE, &[0; 512])).is_err(), "a part of it");
        buffer.write(3, 3);
        assert_eq!((buffer.read(3).unwrap(), buffer.counter("bad_pages")), (content(3, 3), 0));
        buffer.drain();
        assert_eq!(buffer.at_destination(3), content(3, 3));
        buffer.open_again().unwrap();
        assert_eq!((buffer.read(3).unwrap(), buffer.counter("bad_pages")), (content(3, 3), 0));
    }
}

/// Recovery took a slot that rots for one that a power cut tore, and an older one of the same page
/// for the newest.
#[test]
fn after_a_drain_no_slot_is_needed_whatever_becomes_of_it() {
    for text in BUFFERS {
        let mut buffer = Buffer::new(text);
        buffer.write(3, 1);
        buffer.write(3, 2);
        buffer.write(4, 1);
        buffer.drain();
        buffer.rot(3, 2);
        for _ in 0..2 {
            buffer.open_again().unwrap();
            assert_eq!(buffer.read(3).unwrap(), content(3, 2), "{text}");
        }
        buffer.write(3, 3);
        buffer.open_again().unwrap();
        assert_eq!(buffer.read(3).unwrap(), content(3, 3), "sequence numbers go on");
    }
}

#[test]
fn a_scrub_finds_what_rots_before_it_is_to_be_flushed() {
    for text in BUFFERS {
        let mut buffer = Buffer::new(text);
        (0..8).for_each(|page| buffer.write(page, 1));
        buffer.rot(3, 1);
        let mut driver = Driver::new(&mut buffer.device, &mut buffer.stack);
        driver.tell(Signal::Scrub, None);
        driver.settle().unwrap();
        assert_eq!((buffer.counter("scrubbed_pages"), buffer.counter("bad_pages")), (8, 1));
        assert!(buffer.read(3).is_err() && buffer.read(4).is_ok());
        buffer.drain();
        assert_eq!(buffer.at_destination(3), [0; PAGE as usize]);
        assert_eq!(buffer.at_destination(4), content(4, 1));
        buffer.write(3, 2);
        buffer.drain();
        assert_eq!((buffer.at_destination(3), buffer.counter("bad_pages")), (content(3, 2), 0));
    }
}

/// A command of the host that never ends lets a pass read 128 KiB each 100 ms.
#[test]
fn a_scrub_ends_though_the_host_never_rests() {
    let mut buffer = Buffer::new(BUFFERS[0]);
    (0..8).for_each(|page| buffer.write(page, 1));
    buffer.rot(3, 1);
    let mut actions = Actions::default();
    let stuck = Command::write(1000, 9 * PAGE, Data::copy_of(&content(9, 1)));
    buffer.stack.submit(stuck, 0, &mut actions);
    buffer.stack.signal(Signal::Scrub, 5, &mut actions);
    actions.down.clear();
    let mut at = 5;
    while let Some(next) = buffer.stack.wakes_at() {
        assert_eq!(
            next,
            at + if at == 5 { 100_000_000 } else { 100_000_000 / 64 },
            "a page of 2 KiB"
        );
        at = next;
        buffer.stack.wake(at, &mut actions);
        for command in actions.down.drain(..).collect::<Vec<_>>() {
            let mut bytes = vec![0; command.length as usize];
            Store::new(&mut buffer.device).read(command.offset, &mut bytes).unwrap();
            let reply = Reply { id: command.id, outcome: Ok(Data::copy_of(&bytes)) };
            buffer.stack.replied(reply, at, &mut actions);
        }
    }
    assert_eq!((buffer.counter("scrubbed_pages"), buffer.counter("bad_pages")), (8, 1));
    assert_eq!(buffer.stack.layers()[0].bad_places(9), [(3 * PAGE, PAGE)]);
    assert_eq!(at, 5 + 100_000_000 + 9 * 100_000_000 / 64, "one is read three times");
}

#[test]
fn when_all_slots_rot_writes_fail_and_nothing_hangs() {
    let mut buffer = Buffer::new(BUFFERS[0]);
    (0..16).for_each(|page| buffer.write(page, 1));
    (0..16).for_each(|page| buffer.rot(page, 1));
    let failure =
        buffer.run(|store| store.write(20 * PAGE, &content(20, 1))).expect_err("there is no room");
    assert!(failure.to_string().contains("16 of 16"), "{failure}");
    assert!(buffer.read(3).is_err() && buffer.read(20).is_ok());
}
