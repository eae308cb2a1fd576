//! Tests of a new UUID for a volume: power cuts at any write on the way, with and without a staging
//! device, with files of SQLite; copies beside their originals; refusals.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use faults::Dice;
use layers::Facts;

use super::*;
use crate::files::Files;
use crate::resize::tests::{Shared, judge, used};
use crate::restage::tests::Two;
use crate::{Creating, Opening, Service, Staging, about, check};

const STACKS: [&str; 4] = [
    "direct",
    "scheduler(coalesce)|stable_buffer(size=128Ki,page=2Ki)",
    "log_volume(segment=16Ki,page=1Ki)",
    "log_volume(segment=16Ki,page=1Ki)|stable_buffer(size=64Ki,page=4Ki)",
];
const NEW: Uuid = Uuid::from_u128(0x5eed);
const NAMES: [&str; 2] = ["app.db", "app.db-wal"];

/// Gives the content of a file of this name.
fn content(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(100_000 + name.len()).collect()
}

fn files_of(two: &Two, makes: bool) -> (Arc<Service>, Files) {
    let mut header = two.header();
    let (second, first) = (two.second(&mut header), Box::new(two.homes.clone()));
    let open = move || Volume::open_on(first, second, header, Vec::new());
    let service = Arc::new(Service::start(open).unwrap());
    let files = Files::open(service.clone(), makes).unwrap();
    (service, files)
}

fn write_files(two: &Two) {
    let (service, files) = files_of(two, true);
    for name in NAMES {
        let file = files.open_file(name, true).unwrap();
        file.write(0, &content(name)).unwrap();
        file.sync().unwrap();
        files.close_file(&file).unwrap();
    }
    files.close().unwrap();
    service.close().unwrap();
}

fn judge_files(two: &Two, said: &str) {
    let (service, files) = files_of(two, false);
    for name in NAMES {
        let file = files.open_file(name, false).unwrap_or_else(|error| panic!("{said}: {error}"));
        let mut bytes = vec![0; file.size() as usize];
        file.read(0, &mut bytes).unwrap();
        assert!(bytes == content(name), "{said}: {name}");
        files.close_file(&file).unwrap();
    }
    files.close().unwrap();
    service.close().unwrap();
}

impl Two {
    fn renew(&self) -> Result<Renewed, VolumeError> {
        let mut header = self.header();
        let second = self.second(&mut header);
        renew(Box::new(self.homes.clone()), header, second, "homes", NEW)
    }
}

/// Makes a volume that was closed, with something in it.
fn prepared(stack: &str, is_paired: bool, has_files: bool, dice: &mut Dice) -> (Two, Vec<u8>) {
    let used = used(stack, 8, 4 << 20, false, dice);
    let homes = Shared::new(8, used.bytes, dice.seed());
    let two = Two::new(homes, Shared::new(5, Vec::new(), dice.seed()));
    if is_paired {
        two.change(true).unwrap();
    }
    if has_files {
        // Its content is not zero, unlike that of a new volume.
        let mut volume = two.open();
        Store::new(volume.device()).write(0, &vec![0; 1 << 20]).unwrap();
        volume.close().unwrap();
        write_files(&two);
    } else {
        two.open().close().unwrap();
    }
    (two, used.held)
}

/// Cuts the power at a write, checks, and then gives the UUID. Returns true if the cut came.
fn cut_at(two: &Two, held: Option<&[u8]>, end: u64, dice: &mut Dice, said: &str) -> bool {
    let old = two.header().uuid;
    two.cut_after(Some(end));
    let renewed = two.renew();
    let is_off = two.end(dice);
    assert_eq!(renewed.is_err(), is_off, "{said}: {renewed:?}");
    let look = |said: &str| match held {
        Some(held) => {
            let mut volume = two.open();
            judge(&mut volume, held, said);
            volume.close().unwrap();
        }
        None => judge_files(two, said),
    };
    let uuid = two.header().uuid;
    assert!(uuid == old || uuid == NEW, "{said}: {uuid}");
    assert!(renewed.is_err() || uuid == NEW, "{said}: it is done");
    look(said);
    assert_eq!(two.header().uuid, uuid, "{said}: it stays what it is");
    two.renew().unwrap_or_else(|error| panic!("{said}: {error}"));
    assert_eq!(two.header().uuid, NEW, "{said}");
    look(said);
    is_off
}

#[test]
fn a_power_cut_at_any_write_leaves_the_old_or_the_new_uuid_and_all_data() {
    let cuts: u64 = std::env::var("RENEWALS").map_or(8, |text| text.parse().unwrap());
    let first: u64 = std::env::var("SEED").map_or(0, |text| text.parse().unwrap());
    let mut number = 0;
    for (kind, stack) in STACKS.into_iter().enumerate() {
        for (is_paired, has_files) in [(false, false), (false, true), (true, false), (true, true)] {
            if is_paired && stack == "direct" {
                continue;
            }
            let mut dice = Dice::new(first * 1000 + kind as u64 * 4 + u64::from(is_paired));
            let (two, held) = prepared(stack, is_paired, has_files, &mut dice);
            let held = (!has_files).then_some(held);
            let mut most = 32;
            for turn in 0..cuts {
                let end = if turn == 0 { most } else { dice.below(most as usize) as u64 };
                let said = format!(
                    "{stack}, pair: {is_paired}, files: {has_files}, SEED={first}, cut {end}"
                );
                // Each turn begins with another UUID than the one with which it ends.
                let begun = {
                    let mut header = two.header();
                    let second = two.second(&mut header);
                    let homes = Box::new(two.homes.clone());
                    renew(homes, header, second, "homes", Uuid::new_v4())
                };
                begun.unwrap_or_else(|error| panic!("{said}: {error}"));
                let was_cut = cut_at(&two, held.as_deref(), end, &mut dice, &said);
                number += u64::from(was_cut);
                most = if was_cut { most.max(end + 1) } else { end.max(2) };
            }
        }
    }
    println!("{number} cuts");
    assert!(number > cuts * 5, "{number} cuts");
}

/// Files as devices.
struct Copies {
    folder: tempfile::TempDir,
}

impl Copies {
    fn new(stack: &str, is_aside: bool) -> Self {
        let copies = Self { folder: tempfile::tempdir().unwrap() };
        for (name, mib) in [("slow", 8), ("fast", 6)] {
            fs::File::create(copies.path(name)).unwrap().set_len(mib << 20).unwrap();
        }
        let creating = Creating {
            device: copies.name("slow"),
            stack: stack.to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: is_aside.then(|| Staging { device: copies.name("fast"), destroys: false }),
        };
        Volume::create(&creating).unwrap().close().unwrap();
        copies
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn uuid(&self, name: &str) -> Uuid {
        about(&self.name(name), None).unwrap().header.uuid
    }

    fn opens(&self, name: &str) {
        Volume::open(&Opening::new(&self.name(name))).unwrap().close().unwrap();
    }
}

fn refused(outcome: Result<Renewed, VolumeError>) -> String {
    let error = outcome.unwrap_err();
    assert!(error.is_wrong_use(), "{error}");
    let said = error.to_string();
    assert!(!said.contains('\n'), "one line: {said}");
    said
}

#[test]
fn a_copy_gets_a_uuid_of_its_own_and_both_go_on() {
    let copies = Copies::new("log_volume(segment=64Ki)", false);
    copies.copy("slow", "copy");
    let old = copies.uuid("slow");
    let renewed = new_uuid(&copies.name("copy"), None).unwrap();
    assert_eq!((renewed.before, renewed.header.uuid), (old, copies.uuid("copy")));
    assert_ne!(copies.uuid("copy"), old);
    assert_eq!(copies.uuid("slow"), old);
    let found = check(&copies.name("copy"), None, &units::Progress::default()).unwrap();
    assert_eq!((found.bad_bytes, found.about.notes.len()), (0, 0));
    assert!(found.about.header.is_clean);
    copies.opens("slow");
    copies.opens("copy");
}

#[test]
fn a_copy_of_two_devices_never_takes_the_originals_staging_device() {
    let copies = Copies::new("stable_buffer(size=256Ki)", true);
    copies.copy("slow", "slow copy");
    copies.copy("fast", "fast copy");
    let (original, copy) = (copies.uuid("slow"), copies.name("slow copy"));
    for given in [None, Some(copies.name("fast"))] {
        let said = refused(new_uuid(&copy, given.as_deref()));
        assert!(said.contains("copy both devices") && said.contains("--staging"), "{said}");
    }
    copies.opens("slow");
    assert!(refused(new_uuid(&copies.name("fast copy"), None)).contains("name that"));
    // It has changed since it was copied.
    let said = refused(new_uuid(&copy, Some(&copies.name("fast"))));
    assert!(said.contains("older copy"), "{said}");
    new_uuid(&copy, Some(&copies.name("fast copy"))).unwrap();
    let found = about(&copy, None).unwrap();
    assert_ne!(found.header.uuid, original);
    assert_eq!(found.staging.unwrap().device, copies.name("fast copy"));
    let other = about(&copies.name("fast copy"), None).unwrap().header;
    assert_eq!((other.uuid, other.pair.unwrap().other), (found.header.uuid, copy.clone()));
    copies.opens("slow");
    copies.opens("slow copy");
    new_uuid(&copy, None).unwrap();
    copies.opens("slow copy");
    // The original was moved, and nobody else is known to have the staging device.
    fs::rename(copies.path("slow"), copies.path("moved")).unwrap();
    let moved = copies.name("moved");
    let said = refused(new_uuid(&moved, None));
    assert!(said.contains("is no more"), "{said}");
    new_uuid(&moved, Some(&copies.name("fast"))).unwrap();
    copies.opens("moved");
}

#[test]
fn a_volume_that_was_not_closed_or_is_in_use_keeps_its_uuid() {
    let copies = Copies::new("log_volume(segment=64Ki)", false);
    let old = copies.uuid("slow");
    let volume = Volume::open(&Opening::new(&copies.name("slow"))).unwrap();
    refused(new_uuid(&copies.name("slow"), None));
    drop(volume);
    let said = refused(new_uuid(&copies.name("slow"), None));
    assert!(said.contains("was not closed") && said.contains("flashwright serve"), "{said}");
    assert_eq!(copies.uuid("slow"), old);
    assert!(!about(&copies.name("slow"), None).unwrap().header.is_clean);
}

/// Copies of the directory behind something else that was written over them are no files any more.
#[test]
fn what_was_put_over_files_is_not_written_to() {
    let mut dice = Dice::new(1);
    let (two, _) = prepared("direct", false, true, &mut dice);
    let mut volume = two.open();
    let mut store = Store::new(volume.device());
    store.write(0, &[7; 4096]).unwrap();
    store.flush().unwrap();
    let mut before = vec![0; volume.capacity_bytes() as usize];
    Store::new(volume.device()).read(0, &mut before).unwrap();
    volume.close().unwrap();
    two.renew().unwrap();
    judge(&mut two.open(), &before, "as it was");
}
