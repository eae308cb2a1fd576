//! Tests of areas that move between devices: power cuts at any write on the way, over stacks of all
//! kinds; and of refusals.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use block::{BlockError, Command, Completion, DeviceInfo, Store};
use faults::Dice;
use layers::Facts;
use units::{IoOp, Nanos, Progress};

use super::*;
use crate::resize::tests::{Shared, judge, use_on, used};
use crate::{Creating, Opening, about, check, resize};

const STACKS: [&str; 6] = [
    "stable_buffer(size=64Ki,page=4Ki)",
    "scheduler(coalesce)|stable_buffer(size=128Ki,page=2Ki,ack=fua)|scheduler(defer)",
    "log_volume(segment=16Ki,page=1Ki)|stable_buffer(size=64Ki,page=4Ki)",
    "stable_buffer(size=64Ki,page=4Ki)|scheduler(defer)|stable_buffer(size=32Ki,page=1Ki)",
    LOG,
    "scheduler(coalesce)|log_volume(page=1Ki,segment=16Ki,over_provisioning=20%)|scheduler(defer)",
];

const IN_SEGMENTS: &str = "log_volume(segment=128Ki,summaries=segments,over_provisioning=60%)";
const LOG: &str = "log_volume(page=4Ki,segment=64Ki,over_provisioning=30%,checkpoint_every=256Ki)";

/// One of two devices that lose their power together, after so many writes and flushes of both.
#[derive(Clone)]
pub struct Powered {
    device: Shared,
    left: Arc<Mutex<Option<u64>>>,
}

impl BlockDevice for Powered {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        self.device.outstanding()
    }

    fn submit(&mut self, command: Command) {
        if command.op != IoOp::Read {
            let mut left = self.left.lock().unwrap();
            if *left == Some(0) {
                self.device.with(|device| device.stop_after(Some(0)));
            }
            *left = left.map(|left| left.saturating_sub(1));
        }
        self.device.submit(command);
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        self.device.wait(until, completed)
    }
}

/// Both devices of a volume, or its only one and another.
pub struct Two {
    pub homes: Powered,
    pub staging: Powered,
}

impl Two {
    pub fn new(homes: Shared, staging: Shared) -> Self {
        let left = Arc::new(Mutex::new(None));
        let powered = |device| Powered { device, left: left.clone() };
        Self { homes: powered(homes), staging: powered(staging) }
    }

    pub fn cut_after(&self, writes: Option<u64>) {
        *self.homes.left.lock().unwrap() = writes;
    }

    /// Ends a life, and turns the power on again; returns true if it had gone.
    pub fn end(&self, dice: &mut Dice) -> bool {
        let is_off = [&self.homes, &self.staging]
            .iter()
            .any(|one| one.device.with(|device| device.is_off()));
        self.cut_after(None);
        for one in [&self.homes, &self.staging] {
            one.device.end(dice);
            one.device.with(|device| device.stop_after(None));
        }
        is_off
    }

    pub fn header(&self) -> Header {
        find(&mut self.homes.clone()).unwrap().header
    }

    pub fn second(&self, header: &mut Header) -> Option<Second> {
        header.pair.is_some().then(|| {
            let device = Box::new(self.staging.clone());
            staging::open_on(device, ("homes", "staging"), header, false).unwrap()
        })
    }

    pub fn open(&self) -> Volume {
        let mut header = self.header();
        let second = self.second(&mut header);
        Volume::open_on(Box::new(self.homes.clone()), second, header, Vec::new()).unwrap()
    }

    /// Gives the volume a staging device, or removes it.
    pub fn change(&self, gives: bool) -> Result<(), VolumeError> {
        let (homes, mut header) = (Box::new(self.homes.clone()), self.header());
        if gives {
            let staging = Box::new(self.staging.clone());
            return give(homes, header, ("homes", "staging"), staging, None).map(|_| ());
        }
        let second = self.second(&mut header);
        take(homes, header, second, false).map(|_| ())
    }
}

/// Cuts the power at a write of a change, checks, and then changes for good. Returns true if the
/// cut came.
fn cut_at(two: &Two, gives: bool, held: &[u8], end: u64, dice: &mut Dice, told: &str) -> bool {
    two.cut_after(Some(end));
    let changed = two.change(gives);
    let is_off = two.end(dice);
    assert_eq!(changed.is_err(), is_off, "{told}: {changed:?}");
    let is_given = two.header().pair.is_some();
    assert!(changed.is_err() || is_given == gives, "{told}: it is done");
    let mut volume = two.open();
    assert_eq!(volume.capacity_bytes(), held.len() as u64, "{told}");
    judge(&mut volume, held, told);
    if dice.chance(0.5) {
        volume.close().unwrap();
    } else {
        drop(volume);
        two.end(dice);
    }
    if is_given != gives {
        two.change(gives).unwrap_or_else(|error| panic!("{told}: {error}"));
    }
    assert_eq!(two.header().pair.is_some(), gives, "{told}");
    let mut volume = two.open();
    judge(&mut volume, held, told);
    volume.close().unwrap();
    is_off
}

#[test]
fn a_power_cut_at_any_write_leaves_the_area_where_it_was_or_where_it_goes() {
    let cuts: u64 = std::env::var("RESTAGES").map_or(12, |text| text.parse().unwrap());
    let first: u64 = std::env::var("SEED").map_or(0, |text| text.parse().unwrap());
    let (mut number, mut undecided) = (0, 0);
    for (kind, stack) in STACKS.into_iter().enumerate() {
        let mut dice = Dice::new(first * 1000 + kind as u64);
        let used = used(stack, 8, 6 << 20, dice.chance(0.5), &mut dice);
        let mut most = [64, 64];
        for turn in 0..cuts {
            let homes = Shared::new(8, used.bytes.clone(), dice.seed());
            let two = Two::new(homes, Shared::new(5, Vec::new(), dice.seed()));
            for gives in [true, false] {
                let most = &mut most[usize::from(gives)];
                let end = if turn == 0 { *most } else { dice.below(*most as usize) as u64 };
                let told = format!("{stack}, gives: {gives}, SEED={first}, turn {turn}, cut {end}");
                let was_cut = cut_at(&two, gives, &used.held, end, &mut dice, &told);
                number += u64::from(was_cut);
                undecided += u64::from(!was_cut);
                *most = if was_cut { (*most).max(2 * end) } else { end + 1 };
            }
            let mut volume = two.open();
            use_on(&mut volume, &used.held, &mut dice, stack);
            volume.close().unwrap();
        }
    }
    println!("{number} cuts, and {undecided} changes without one");
    assert!(number > cuts * 4, "{number} cuts");
}

/// A volume on a file of 8 MiB, with something at its beginning, and a file of 6 MiB.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(stack: &str, is_aside: bool) -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        for (name, mib) in [("slow", 8), ("fast", 6), ("other", 6)] {
            fs::File::create(files.path(name)).unwrap().set_len(mib << 20).unwrap();
        }
        let creating = Creating {
            device: files.name("slow"),
            stack: stack.to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: is_aside.then(|| files.staging("fast")),
        };
        Volume::create(&creating).unwrap().close().unwrap();
        files.write(3, 7, true);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn staging(&self, name: &str) -> Staging {
        Staging { device: self.name(name), destroys: false }
    }

    fn open(&self) -> Volume {
        Volume::open(&Opening::new(&self.name("slow"))).unwrap()
    }

    /// Writes this value to a page, durably; then closes the volume, or leaves it as after a kill.
    fn write(&self, page: u64, value: u8, is_closed: bool) {
        let mut volume = self.open();
        let mut store = Store::new(volume.device());
        store.write(page * 4096, &[value; 4096]).unwrap();
        store.flush().unwrap();
        if is_closed {
            volume.close().unwrap();
        }
    }

    /// Gives the value of a page, and the number of bytes that users have.
    fn look(&self, page: u64) -> (u8, u64) {
        let mut volume = self.open();
        let mut bytes = [0; 4096];
        Store::new(volume.device()).read(page * 4096, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == bytes[0]));
        let capacity = volume.capacity_bytes();
        volume.close().unwrap();
        (bytes[0], capacity)
    }

    fn restage(&self, name: &str, loses: bool) -> Result<Header, VolumeError> {
        restage(&self.name("slow"), &self.staging(name), loses)
    }

    fn unstage(&self, loses: bool) -> Result<Unstaged, VolumeError> {
        unstage(&self.name("slow"), None, loses)
    }

    /// Writes two pages, and lets one rot in its slot on a device, before the volume is closed. Its
    /// value is in no other page.
    fn rot(&self, name: &str, page: u64, value: u8) {
        let mut volume = self.open();
        let mut store = Store::new(volume.device());
        store.write(page * 4096, &[value; 4096]).unwrap();
        store.write((page + 10) * 4096, &[1; 4096]).unwrap();
        store.flush().unwrap();
        let bytes = fs::read(self.path(name)).unwrap();
        let at = bytes.windows(4000).position(|one| one == [value; 4000]).unwrap();
        let file = OpenOptions::new().write(true).open(self.path(name)).unwrap();
        file.write_all_at(&[!value], at as u64 + 100).unwrap();
        volume.close().unwrap();
    }
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, VolumeError>) -> String {
    let error = outcome.unwrap_err();
    assert!(error.is_wrong_use(), "{error}");
    let told = error.to_string();
    assert!(!told.contains('\n'), "one line: {told}");
    told
}

#[test]
fn a_volume_gets_a_staging_device_and_loses_it_with_all_that_it_holds() {
    for is_closed in [true, false] {
        let files = Files::new("stable_buffer(size=256Ki)", false);
        let (_, capacity) = files.look(3);
        files.write(4, 9, is_closed);
        let header = files.restage("fast", false).unwrap();
        assert_eq!(header.pair.unwrap().other, files.name("fast"));
        assert_eq!((files.look(3), files.look(4)), ((7, capacity), (9, capacity)));
        files.write(5, 11, false);
        let staged = fs::read(files.path("fast")).unwrap();
        assert!(staged.windows(4000).any(|bytes| bytes == [11; 4000]), "it stages there");
        if is_closed {
            files.open().close().unwrap();
        }
        let taken = files.unstage(false).unwrap();
        assert_eq!((taken.header.pair, taken.problem), (None, None));
        assert_eq!(taken.device, files.name("fast"));
        assert!(about(&files.name("fast"), None).is_err(), "nobody takes it for a part of it");
        fs::remove_file(files.path("fast")).unwrap();
        let found = [3, 4, 5].map(|page| files.look(page));
        assert_eq!(found, [(7, capacity), (9, capacity), (11, capacity)]);
        let found = check(&files.name("slow"), None, &Progress::default()).unwrap();
        assert_eq!((found.bad_bytes, found.about.notes.len()), (0, 0));
        let whole =
            resize::Resizing { device: files.name("slow"), size_bytes: None, destroys: false };
        let resized = resize::resize(&whole, &Progress::default()).unwrap();
        assert!(resized.capacity_bytes >= capacity, "and it may be resized again");
        assert_eq!(files.look(5).0, 11);
    }
}

#[test]
fn what_has_no_area_that_may_lie_elsewhere_is_left_as_it_is() {
    for (stack, word) in [
        ("direct", "neither is in the stack"),
        ("stable_buffer(size=64Ki)|log_volume(segment=64Ki)", "put stable_buffer below"),
        ("log_volume(segment=64Ki)|replicas(partitions=4)", "it lies below log_volume"),
        (IN_SEGMENTS, "leave out one of both"),
    ] {
        let files = Files::new(stack, false);
        let before = files.look(3);
        assert!(refused(files.restage("fast", false)).contains(word));
        assert_eq!((files.look(3), before.0), (before, 7));
        assert!(refused(files.unstage(false)).contains("all of it lies on the device itself"));
    }
}

/// All of the device is pages if it was made with a staging device.
#[test]
fn an_area_needs_room_behind_the_pages_and_says_how_much() {
    let files = Files::new("stable_buffer(size=2Mi)", true);
    let before = files.look(3);
    let told = refused(files.unstage(false));
    let missing: u64 = told
        .split_whitespace()
        .rev()
        .find_map(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{told}"));
    assert_eq!(files.look(3), before, "it is as it was");
    let bytes = (8 << 20) + missing.next_multiple_of(4096);
    let file = OpenOptions::new().write(true).open(files.path("slow")).unwrap();
    file.set_len(bytes - 4096).unwrap();
    refused(files.unstage(false));
    file.set_len(bytes).unwrap();
    files.unstage(false).unwrap();
    assert_eq!(files.look(3), before);
    let notes = about(&files.name("slow"), None).unwrap().notes;
    assert_eq!(notes, [""; 0], "the device has the size that its header says");
    files.restage("other", false).unwrap();
    assert_eq!(files.look(3), before);
}

#[test]
fn a_staging_device_that_is_missing_is_taken_away_only_with_leave() {
    let files = Files::new("stable_buffer(size=256Ki)", false);
    files.restage("fast", false).unwrap();
    files.write(3, 8, false);
    fs::rename(files.path("fast"), files.path("gone")).unwrap();
    assert!(refused(files.unstage(false)).contains("needs its staging device"));
    let taken = files.unstage(true).unwrap();
    assert!(taken.problem.is_some());
    assert_eq!(files.look(3).0, 7, "the version at home");
    fs::rename(files.path("gone"), files.path("fast")).unwrap();
    assert!(refused(files.restage("fast", false)).contains("fast"), "it holds something");
}

#[test]
fn pages_that_rotted_in_their_slots_are_not_given_up_in_silence() {
    let files = Files::new("stable_buffer(size=256Ki)", false);
    files.rot("slow", 3, 21);
    let told = refused(files.restage("fast", false));
    assert!(told.contains("1 pages are in slots"), "{told}");
    files.write(3, 22, true);
    files.restage("fast", false).unwrap();
    files.rot("fast", 3, 23);
    assert!(about(&files.name("slow"), None).unwrap().header.is_clean);
    for told in [refused(files.unstage(false)), refused(files.restage("other", false))] {
        assert!(told.contains("1 pages are in slots"), "{told}");
    }
    files.restage("other", true).unwrap();
    assert_eq!(files.look(3).0, 22, "what is at home is what is left");
}

/// Finds the first place of these bytes in a file.
fn place_of(path: &std::path::Path, bytes: &[u8]) -> Option<usize> {
    let held = fs::read(path).unwrap();
    held.windows(bytes.len()).position(|one| one == bytes)
}

#[test]
fn a_log_gets_a_staging_device_and_loses_it_with_all_that_it_holds() {
    for is_closed in [true, false] {
        let files = Files::new(LOG, false);
        let (_, capacity) = files.look(3);
        files.write(4, 9, is_closed);
        files.restage("fast", false).unwrap();
        assert_eq!((files.look(3), files.look(4)), ((7, capacity), (9, capacity)));
        let before = fs::read(files.path("slow")).unwrap();
        files.write(5, 11, false);
        let after = fs::read(files.path("slow")).unwrap();
        let end = place_of(&files.path("slow"), &[7; 4096]).unwrap();
        assert_eq!(before[1 << 20..end], after[1 << 20..end], "what was the area is not written");
        let summary = place_of(&files.path("fast"), b"FWLOGSUM");
        assert!(summary.is_some() && after.windows(4096).any(|page| page == [11; 4096]));
        if is_closed {
            files.open().close().unwrap();
        }
        let taken = files.unstage(false).unwrap();
        assert_eq!((taken.header.pair, taken.problem), (None, None));
        fs::remove_file(files.path("fast")).unwrap();
        let found = [3, 4, 5].map(|page| files.look(page));
        assert_eq!(found, [(7, capacity), (9, capacity), (11, capacity)]);
        let found = check(&files.name("slow"), None, &Progress::default()).unwrap();
        assert_eq!((found.bad_bytes, found.about.notes.len()), (0, 0));
        let whole =
            resize::Resizing { device: files.name("slow"), size_bytes: None, destroys: false };
        resize::resize(&whole, &Progress::default()).unwrap();
        assert_eq!(files.look(5), (11, capacity), "and it may be resized again");
    }
}

/// The tables are on one device only. They move from it to another, and without it they are lost.
#[test]
fn the_staging_device_of_a_log_is_replaced_while_it_is_there_and_not_after() {
    let files = Files::new(LOG, true);
    files.write(4, 9, false);
    assert!(refused(files.restage("other", false)).contains("was not closed"));
    files.restage("other", true).unwrap();
    assert_eq!((files.look(3).0, files.look(4).0), (7, 9), "nothing was lost by that");
    files.write(5, 10, true);
    assert!(refused(files.restage("other", false)).contains("staging device already"));
    let same = Staging { destroys: true, ..files.staging("other") };
    let told = refused(restage(&files.name("slow"), &same, true));
    assert!(told.contains("`flashwright volume info --salvage`"), "its own area: {told}");
    fs::rename(files.path("other"), files.path("gone")).unwrap();
    for loses in [false, true] {
        fs::remove_file(files.path("fast")).unwrap();
        fs::File::create(files.path("fast")).unwrap().set_len(6 << 20).unwrap();
        let told = refused(files.restage("fast", loses));
        assert!(told.contains("`flashwright volume info --salvage`"), "{told}");
    }
    assert!(refused(files.unstage(false)).contains("needs its staging device"));
    assert!(refused(files.unstage(true)).contains("`flashwright volume info --salvage`"));
    fs::rename(files.path("gone"), files.path("other")).unwrap();
    assert_eq!([3, 4, 5].map(|page| files.look(page).0), [7, 9, 10]);
}

/// Its segments leave room before them for the other structures, which is not used while those are
/// elsewhere.
#[test]
fn a_log_that_was_made_with_a_staging_device_gives_it_back_and_is_resized() {
    let files = Files::new(LOG, true);
    let before = files.look(3);
    files.write(4, 9, false);
    let whole = resize::Resizing { device: files.name("slow"), size_bytes: None, destroys: false };
    assert!(refused(resize::resize(&whole, &Progress::default())).contains("has a staging device"));
    files.unstage(false).unwrap();
    fs::remove_file(files.path("fast")).unwrap();
    assert_eq!((files.look(3), files.look(4)), (before, (9, before.1)));
    let larger = resize::Resizing { size_bytes: Some(10 << 20), ..whole };
    let resized = resize::resize(&larger, &Progress::default()).unwrap();
    assert!(resized.capacity_bytes > before.1, "{resized:?}");
    files.restage("other", false).unwrap();
    assert_eq!([files.look(3), files.look(4)], [7, 9].map(|value| (value, resized.capacity_bytes)));
}

/// A crash comes after the new device has its headers, and before the volume names it: the volume
/// goes on with the old one, and the new one is never the present one.
#[test]
fn a_staging_device_that_was_given_in_vain_is_never_taken_for_the_present_one() {
    for stack in [LOG, "stable_buffer(size=256Ki)"] {
        let files = Files::new(stack, true);
        let before = fs::read(files.path("slow")).unwrap();
        files.restage("other", false).unwrap();
        fs::write(files.path("slow"), before).unwrap();
        for value in 0..4 {
            files.write(4, value, value % 2 == 0);
            let mut opening = Opening::new(&files.name("slow"));
            opening.staging = Some(files.name("other"));
            let told = refused(Volume::open(&opening).map(|_| ()));
            assert!(told.contains("older copy"), "{told}");
        }
        assert_eq!((files.look(3).0, files.look(4).0), (7, 3));
    }
}
