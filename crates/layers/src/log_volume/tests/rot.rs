//! Tests of bytes that rot: an error is given, and they are never given, moved or made valid.

use std::collections::HashSet;

use super::KIB;
use super::harness::{Disk, disk};
use crate::driver::{Driver, through};
use crate::{Facts, Failure, LayerError, Signal, Stack, Store};

const VOLUME: &str =
    "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=none,summary_pages=8)";
const PAGE: usize = KIB as usize;

pub(super) struct Volume {
    pub disk: Disk,
    stack: Stack,
    text: &'static str,
}

pub(super) fn content(page: u64, version: u64) -> Vec<u8> {
    (0..KIB / 8).flat_map(|word| (version << 32 | page << 16 | word).to_le_bytes()).collect()
}

impl Volume {
    pub fn new(text: &'static str) -> Self {
        let mut disk = disk(320 * KIB);
        crate::format(text, &Facts::default(), 1, &mut disk).unwrap();
        let stack = crate::open(text, &Facts::default(), 1, &mut disk).unwrap();
        Self { disk, stack, text }
    }

    pub fn run<T>(&mut self, work: impl FnOnce(&mut Store<'_>) -> T) -> T {
        through(&mut self.stack, &mut self.disk, work)
    }

    pub fn pages(&self) -> u64 {
        self.stack.limits().capacity_bytes / KIB
    }

    pub fn write(&mut self, page: u64, version: u64) {
        self.run(|store| store.write(page * KIB, &content(page, version))).unwrap();
    }

    pub fn read(&mut self, page: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; PAGE];
        self.run(|store| store.read(page * KIB, &mut bytes)).map(|()| bytes)
    }

    pub fn flush(&mut self) {
        self.run(|store| store.flush()).unwrap();
    }

    fn drain(&mut self) {
        Driver::new(&mut self.disk, &mut self.stack).drain(&mut || true).unwrap();
    }

    pub fn open_again(&mut self) -> Result<(), LayerError> {
        self.stack = crate::open(self.text, &Facts::default(), 1, &mut self.disk)?;
        Ok(())
    }

    /// Gives the place of a version of a page on the device.
    pub fn place_of(&self, page: u64, version: u64) -> usize {
        let content = content(page, version);
        let mut places = (0..self.disk.bytes.len()).step_by(PAGE);
        places.find(|&at| self.disk.bytes[at..at + PAGE] == content).expect("it is there")
    }

    fn rot(&mut self, page: u64, version: u64) {
        let at = self.place_of(page, version);
        self.disk.bytes[at + 700] ^= 0x10;
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut counts = Vec::new();
        self.stack.layers()[0].count(&mut counts);
        let all = super::super::counts::COUNTERS;
        counts[all.iter().position(|counter| counter.name == name).unwrap()]
    }

    /// Writes all pages but one until cleaning has been everywhere.
    fn wear(&mut self, but: u64, versions: std::ops::Range<u64>) {
        for version in versions {
            // In an order that scatters the valid pages.
            let pages = (0..self.pages()).step_by(2).chain((1..self.pages()).step_by(2));
            for page in pages.filter(|&page| page != but) {
                self.write(page, version);
                // A page that is written there next can be read again.
                if self.counter("bad_pages") > 0 {
                    self.disk.unreadable = 0..0;
                }
            }
        }
    }
}

fn reason(outcome: Result<Vec<u8>, Failure>) -> String {
    match outcome.expect_err("it must not be given") {
        Failure::Io { reason, .. } => reason.to_string(),
        poisoned @ Failure::Poisoned { .. } => panic!("{poisoned}"),
    }
}

#[test]
fn a_page_that_rots_fails_what_needs_it_and_nothing_else() {
    let mut volume = Volume::new(VOLUME);
    (0..8).for_each(|page| volume.write(page, 1));
    volume.flush();
    volume.rot(3, 1);
    let (place, said) = (volume.place_of(2, 1) + PAGE, reason(volume.read(3)));
    assert!(
        said.contains("page 3") && said.contains(&format!("byte {place}")) && said.contains("0x"),
        "{said}"
    );
    // The wrong byte lies in the second sector of the page: the first is not trusted either.
    let part = volume.run(|store| store.read(3 * KIB, &mut [0; 512]));
    assert!(part.is_err(), "a part of a page that rots");
    assert!(volume.run(|store| store.read(0, &mut [0; 8 * PAGE])).is_err());
    for page in (0..8).filter(|&page| page != 3) {
        assert_eq!(volume.read(page).unwrap(), content(page, 1));
    }
    let mut three = vec![0; 3 * PAGE];
    volume.run(|store| store.read(512, &mut three[512..])).unwrap();
    assert_eq!(three[512..1024], content(0, 1)[512..]);
    // Part of it cannot be written: the rest would get a checksum that fits.
    let before = volume.counter("host_pages");
    assert!(volume.run(|store| store.write(3 * KIB, &[7; 512])).is_err());
    assert!(volume.read(3).is_err() && volume.counter("host_pages") == before);
    volume.write(3, 2);
    assert_eq!(volume.read(3).unwrap(), content(3, 2));
    assert!(volume.counter("bad_reads") >= 5 && volume.counter("bad_pages") == 0);
}

#[test]
fn cleaning_gives_no_fresh_checksum_to_what_rots() {
    let mut volume = Volume::new(VOLUME);
    (0..volume.pages()).for_each(|page| volume.write(page, 1));
    volume.flush();
    volume.rot(9, 1);
    volume.wear(9, 2..9);
    assert_eq!(volume.counter("bad_pages"), 1, "it was found, and gave up its place");
    assert!(volume.counter("bad_reads") >= 3, "it was tried three times");
    let last = |page: u64| content(page, 8);
    let all_right = |volume: &mut Volume| {
        let said = reason(volume.read(9));
        assert!(said.contains("page 9 is lost"), "{said}");
        assert!(volume.run(|store| store.write(9 * KIB, &[7; 512])).is_err(), "a part of it");
        for page in (0..volume.pages()).filter(|&page| page != 9) {
            assert!(volume.read(page).unwrap() == last(page), "page {page}");
        }
    };
    all_right(&mut volume);
    volume.flush();
    // Both through summaries, and through tables.
    for _ in 0..3 {
        volume.open_again().unwrap();
        assert_eq!(volume.counter("bad_pages"), 1);
        all_right(&mut volume);
    }
    volume.write(9, 9);
    volume.flush();
    assert_eq!(volume.counter("bad_pages"), 0);
    volume.open_again().unwrap();
    assert_eq!(volume.read(9).unwrap(), content(9, 9));
}

#[test]
fn a_page_that_is_lost_can_be_trimmed() {
    let mut volume = Volume::new(VOLUME);
    (0..volume.pages()).for_each(|page| volume.write(page, 1));
    volume.rot(9, 1);
    volume.wear(9, 2..9);
    volume.run(|store| store.trim(9 * KIB, PAGE as u32)).unwrap();
    assert_eq!((volume.read(9).unwrap(), volume.counter("bad_pages")), (vec![0; PAGE], 0));
    volume.flush();
    volume.open_again().unwrap();
    assert_eq!(volume.read(9).unwrap(), vec![0; PAGE]);
}

/// Regression: such a page took the volume with it, and every command failed.
#[test]
fn a_page_that_cleaning_cannot_read_is_lost_and_the_volume_goes_on() {
    for text in [
        VOLUME,
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=none,summary_pages=8,\
         checksums=no)",
    ] {
        let mut volume = Volume::new(text);
        (0..volume.pages()).for_each(|page| volume.write(page, 1));
        let at = volume.place_of(9, 1);
        volume.disk.unreadable = at..at + 1;
        volume.wear(9, 2..9);
        assert_eq!(volume.counter("bad_pages"), 1, "its neighbours were read alone");
        for page in (0..volume.pages()).filter(|&page| page != 9) {
            assert!(volume.read(page).unwrap() == content(page, 8), "page {page}");
        }
        volume.flush();
        volume.open_again().unwrap();
        assert!(reason(volume.read(9)).contains("page 9 is lost"));
    }
}

#[test]
fn what_is_read_wrong_once_is_read_again_by_cleaning() {
    let mut volume = Volume::new(VOLUME);
    (0..volume.pages()).for_each(|page| volume.write(page, 1));
    volume.disk.misreads = Some(HashSet::new());
    volume.wear(9, 2..9);
    volume.disk.misreads = None;
    assert!(volume.counter("bad_reads") > 10 && volume.counter("bad_pages") == 0);
    for page in 0..volume.pages() {
        let version = if page == 9 { 1 } else { 8 };
        assert!(volume.read(page).unwrap() == content(page, version), "page {page}");
    }
}

/// Otherwise rot in the last writes would be taken for a write that a power cut took, and the
/// version before it would come back.
#[test]
fn after_a_drain_rot_is_said_though_nothing_was_written_since() {
    let mut volume = Volume::new(VOLUME);
    (0..8).for_each(|page| volume.write(page, 1));
    volume.flush();
    (0..8).for_each(|page| volume.write(page, 2));
    volume.drain();
    volume.rot(3, 2);
    volume.open_again().unwrap();
    assert!(reason(volume.read(3)).contains("page 3"));
    for page in (0..8).filter(|&page| page != 3) {
        assert_eq!(volume.read(page).unwrap(), content(page, 2));
    }
}

/// Gives the places of structures on the device, by their magic numbers.
pub(super) fn structures(disk: &Disk, magic: &[u8]) -> Vec<usize> {
    let is_one = |at: &usize| disk.bytes[at + 8..at + 16] == *magic;
    (0..disk.bytes.len()).step_by(512).filter(is_one).collect()
}

/// Otherwise the entries behind it would be lost without an error, and older versions would come
/// back.
#[test]
fn a_summary_that_rots_though_it_was_durable_is_said() {
    let mut volume = Volume::new(VOLUME);
    for version in 1..5 {
        (0..4).for_each(|page| volume.write(page, version));
        volume.flush();
    }
    let places = structures(&volume.disk, b"FWLOGSUM");
    assert!(places.len() == 8, "{places:?}");
    let (firsts, copies) = places.split_at(4);
    for (&at, &copy) in firsts[..3].iter().zip(copies) {
        volume.disk.bytes[at + 90] ^= 1;
        volume.disk.bytes[copy + 90] ^= 1;
        let error = volume.open_again().unwrap_err();
        assert!(matches!(error, LayerError::Corrupt { offset, .. } if offset == at as u64));
        volume.disk.bytes[at + 90] ^= 1;
        volume.disk.bytes[copy + 90] ^= 1;
    }
}

/// Otherwise the root before it would be taken for the newest.
#[test]
fn a_root_that_rots_has_a_copy() {
    let mut volume = Volume::new(
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=none,summary_pages=8,\
         checkpoint_every=64Ki)",
    );
    (0..volume.pages()).for_each(|page| volume.write(page, 1));
    volume.wear(0, 2..5);
    volume.drain();
    assert!(volume.counter("checkpoints") > 3);
    let roots = structures(&volume.disk, b"FWLOGROT");
    assert_eq!(roots.len(), 4);
    for at in roots {
        let mut rotten = volume.disk.clone();
        rotten.bytes[at + 40] ^= 1;
        let mut stack = crate::open(volume.text, &Facts::default(), 1, &mut rotten).unwrap();
        let mut all = vec![0; stack.limits().capacity_bytes as usize];
        through(&mut stack, &mut rotten, |store| store.read(0, &mut all)).unwrap();
        for (page, bytes) in (0..).zip(all.chunks(PAGE)) {
            assert!(bytes == content(page, if page == 0 { 1 } else { 4 }), "page {page}");
        }
    }
}

fn scrub(volume: &mut Volume) {
    let mut driver = Driver::new(&mut volume.disk, &mut volume.stack);
    driver.tell(Signal::Scrub, None);
    driver.settle().unwrap();
}

#[test]
fn a_scrub_finds_what_rots_before_anybody_needs_it() {
    let mut volume = Volume::new(VOLUME);
    (0..volume.pages()).for_each(|page| volume.write(page, 1));
    volume.flush();
    volume.rot(9, 1);
    let at = volume.place_of(20, 1);
    volume.disk.unreadable = at..at + 1;
    scrub(&mut volume);
    let pages = volume.pages();
    assert_eq!((volume.counter("scrubbed_pages"), volume.counter("bad_pages")), (pages - 1, 1));
    assert_eq!(volume.counter("unread_pages"), 1, "it may be well when the device is");
    let page_bytes = PAGE as u64;
    let places = [(9 * page_bytes, page_bytes), (20 * page_bytes, page_bytes)];
    assert_eq!(volume.stack.layers()[0].bad_places(9), places);
    volume.disk.unreadable = 0..0;
    for page in 0..pages {
        assert!(volume.read(page).map_or(page == 9, |bytes| bytes == content(page, 1)));
    }
    assert!(reason(volume.read(9)).contains("page 9 is lost"));
    volume.flush();
    volume.open_again().unwrap();
    assert!(volume.read(9).is_err() && volume.read(20).is_ok());
    volume.write(9, 2);
    scrub(&mut volume);
    assert_eq!((volume.counter("scrubbed_pages"), volume.counter("bad_pages")), (pages, 0));
}

/// A scrub goes on when the host's commands have ended, and a drain ends it.
#[test]
fn a_scrub_waits_for_the_host() {
    let mut world = super::World::new(VOLUME, 256 * KIB, 3);
    world.fill();
    world.submit(units::IoOp::Read, 0, KIB, false);
    let before = world.sent.len();
    world.signal(Signal::Scrub);
    assert_eq!(world.sent.len(), before, "a read of the host is under way");
    assert!(world.step() && world.waiting() == 0);
    assert!(world.sent.len() > before && !world.stack.is_idle());
    world.settle();
    assert_eq!(world.counter("scrubbed_pages"), world.capacity() / KIB);
    world.signal(Signal::Scrub);
    world.signal(Signal::Drain);
    world.settle();
    assert!(world.stack.is_idle() && world.counter("scrubbed_pages") < 2 * world.capacity() / KIB);
}

/// A host that always has a command under way lets a pass read 128 KiB each 100 ms.
#[test]
fn a_scrub_ends_though_the_host_never_rests() {
    let mut world = super::World::new(VOLUME, 256 * KIB, 3);
    world.fill();
    let pages = world.capacity() / KIB;
    world.submit(units::IoOp::Read, 0, KIB, false);
    let of_host = std::cell::Cell::new(0);
    world.step_if(|command| {
        of_host.set(command.id);
        false
    });
    let begun = world.time;
    world.signal(Signal::Scrub);
    while world.counter("scrub_pages_left") > 0 {
        assert!(world.wake(), "it wants to be woken");
        while world.step_if(|command| command.id != of_host.get()) {}
    }
    assert_eq!((world.counter("scrubbed_pages"), world.waiting()), (pages, 1));
    // Nobody waits for the last read.
    let bytes = (pages * KIB).saturating_sub(64 * KIB);
    assert!(world.time - begun >= 100_000_000 + bytes * 100_000_000 / (128 * KIB), "no faster");
    assert_eq!(world.stack.wakes_at(), None);
    world.settle();
}

/// A page whose check was cut short by a drain is not taken for lost.
#[test]
fn a_page_of_a_scrub_that_was_given_up_is_not_lost() {
    let mut volume = Volume::new(VOLUME);
    (0..volume.pages()).for_each(|page| volume.write(page, 1));
    volume.flush();
    volume.rot(9, 1);
    let mut driver = Driver::new(&mut volume.disk, &mut volume.stack);
    driver.tell(Signal::Scrub, None);
    driver.tell(Signal::Drain, None);
    driver.settle().unwrap();
    assert_eq!((volume.counter("bad_pages"), volume.counter("scrub_pages_left")), (0, 0));
    assert_eq!(volume.stack.layers()[0].bad_places(9), []);
    scrub(&mut volume);
    assert_eq!(volume.stack.layers()[0].bad_places(9), [(9 * PAGE as u64, PAGE as u64)]);
}

/// Without checksums the volume takes less memory, and detects less.
#[test]
fn without_checksums_parts_of_pages_are_read_and_nothing_is_held_against_them() {
    let text = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=none,\
                summary_pages=8,checksums=no)";
    let mut volume = Volume::new(text);
    volume.write(3, 1);
    volume.flush();
    volume.rot(3, 1);
    assert!(volume.read(3).is_ok());
    let mut world = super::World::new(text, 256 * KIB, 3);
    world.submit(units::IoOp::Write, 0, KIB, false);
    world.settle();
    world.submit(units::IoOp::Read, 512, 512, false);
    assert_eq!(world.sent.last().map(|sent| sent.2), Some(512));
    world.settle();
}

#[test]
fn nothing_is_held_against_what_was_never_written_here() {
    let mut volume = Volume::new(
        "log_volume(page=1Ki,segment=8Ki,placement=separate,over_provisioning=35%,filled=yes)",
    );
    volume.disk.bytes[200 * PAGE..].fill(3);
    assert!((0..volume.pages()).all(|page| volume.read(page).is_ok()));
}
