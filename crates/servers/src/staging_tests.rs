//! A volume over two devices: which two are taken for it, and what it holds after either was lost.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use block::Store;
use layers::Facts;

use super::*;
use crate::{Creating, HEADER_BYTES, Opening, Volume, about, check, destroy, restage};

const STACK: &str = "stable_buffer(size=256Ki)";

/// Two files, of 8 and 6 MiB.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        files.add("slow", 8);
        files.add("fast", 6);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn add(&self, name: &str, mib: u64) {
        fs::File::create(self.path(name)).unwrap().set_len(mib << 20).unwrap();
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn creating(&self, device: &str, staging: &str) -> Creating {
        Creating {
            device: self.name(device),
            stack: STACK.to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: Some(Staging { device: self.name(staging), destroys: false }),
        }
    }

    fn made() -> Self {
        let files = Self::new();
        Volume::create(&files.creating("slow", "fast")).unwrap().close().unwrap();
        files
    }

    fn opened(&self, staging: Option<&str>) -> Result<Volume, VolumeError> {
        let mut opening = Opening::new(&self.name("slow"));
        opening.staging = staging.map(|name| self.name(name));
        Volume::open(&opening)
    }

    fn refused(&self, staging: Option<&str>) -> String {
        let error = self.opened(staging).map(|_| ()).unwrap_err();
        assert!(error.is_wrong_use(), "{error}");
        let told = error.to_string();
        assert!(!told.contains('\n'), "one line: {told}");
        told
    }

    /// A life in which one page becomes this value, durably; closed, or as if it had been killed.
    fn life(&self, page: u64, value: u8, is_closed: bool) {
        let mut volume = self.opened(None).unwrap();
        let mut store = Store::new(volume.device());
        store.write(page * 4096, &[value; 4096]).unwrap();
        store.flush().unwrap();
        if is_closed {
            volume.close().unwrap();
        }
    }

    fn first_of(&self, page: u64) -> u8 {
        let mut volume = self.opened(None).unwrap();
        let mut bytes = [0; 4096];
        Store::new(volume.device()).read(page * 4096, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == bytes[0]));
        bytes[0]
    }
}

fn place(path: &Path, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fs::File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
}

/// A header is the word of whoever may write to the device: it has nothing made.
#[test]
fn a_header_has_no_file_made() {
    let files = Files::new();
    let data = files.path("data");
    let spec = format!(
        "emulated(profile=intel-x25e,size=256Mi,state=fresh,data={})",
        data.to_str().unwrap()
    );
    let mut creating = files.creating("slow", "fast");
    creating.staging = Some(Staging { device: spec.clone(), destroys: false });
    Volume::create(&creating).unwrap().close().unwrap();
    fs::remove_file(&data).unwrap();
    assert!(files.refused(None).contains("not opened because a header names it"));
    let seen = about(&files.name("slow"), None).unwrap();
    assert!(
        seen.staging.unwrap().problem.unwrap().contains("not opened because a header names it")
    );
    assert!(!data.exists());
    let mut opening = Opening::new(&files.name("slow"));
    opening.staging = Some(spec);
    assert!(Volume::open(&opening).is_err(), "a new drive holds no staging area");
    assert!(data.exists(), "it was given, and is a drive of its own");
}

#[test]
fn what_is_staged_lies_on_the_second_device_and_outlives_a_kill() {
    let files = Files::made();
    files.life(3, 9, false);
    let home = (1 << 20) + 3 * 4096;
    assert_eq!(place(&files.path("slow"), home, 4096), [0; 4096], "it is not at home");
    let staged = place(&files.path("fast"), 1 << 20, 1 << 20);
    assert!(staged.windows(4000).any(|bytes| bytes == [9; 4000]), "it is in a slot");
    let found = check(&files.name("slow"), None, &units::Progress::default()).unwrap();
    let homes = (6 << 20) - 2 * 8192;
    assert_eq!((found.bad_bytes, found.read_bytes), (0, homes), "but for a map of holes");
    assert_eq!(files.first_of(3), 9);
    files.opened(None).unwrap().close().unwrap();
    assert_eq!(place(&files.path("slow"), home, 4096), [9; 4096], "closed, it is at home");
}

#[test]
fn both_devices_are_described() {
    let files = Files::made();
    let found = about(&files.name("slow"), None).unwrap();
    let staging = found.staging.unwrap();
    assert_eq!((staging.device_bytes, staging.data_bytes), (6 << 20, 4 << 20));
    assert_eq!((staging.device, staging.problem), (files.name("fast"), None));
    let other = about(&files.name("fast"), None).unwrap();
    assert_eq!((other.header.uuid, other.staging), (found.header.uuid, None));
    let pair = other.header.pair.unwrap();
    assert_eq!((pair.role, pair.other), (Role::Staging, files.name("slow")));
}

#[test]
fn one_of_both_headers_of_the_staging_device_is_enough_and_is_reported() {
    let files = Files::made();
    let file = OpenOptions::new().write(true).open(files.path("fast")).unwrap();
    file.write_all_at(&[0xee; HEADER_BYTES], 0).unwrap();
    let notes = about(&files.name("slow"), None).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("fast: at byte 0"), "{notes:?}");
    let volume = files.opened(None).unwrap();
    assert_eq!(volume.notes(), notes);
    volume.close().unwrap();
    assert_eq!(about(&files.name("slow"), None).unwrap().notes, [""; 0], "it was written again");
}

#[test]
fn a_missing_staging_device_is_named_and_may_have_moved() {
    let files = Files::made();
    let uuid = about(&files.name("slow"), None).unwrap().header.uuid.to_string();
    fs::rename(files.path("fast"), files.path("moved")).unwrap();
    let told = files.refused(None);
    assert!(told.contains(&uuid) && told.contains("fast") && told.contains("--staging"), "{told}");
    let found = about(&files.name("slow"), None).unwrap().staging.unwrap();
    assert!(found.problem.unwrap().contains("no such file"));
    files.opened(Some("moved")).unwrap().close().unwrap();
    files.opened(None).unwrap().close().unwrap();
}

#[test]
fn a_wrong_staging_device_is_told_from_the_right_one() {
    let files = Files::made();
    let uuid = |name| about(&files.name(name), None).unwrap().header.uuid.to_string();
    files.add("slow2", 8);
    files.add("fast2", 6);
    Volume::create(&files.creating("slow2", "fast2")).unwrap().close().unwrap();
    let told = files.refused(Some("fast2"));
    assert!(told.contains(&uuid("slow")) && told.contains(&uuid("slow2")), "{told}");
    assert!(files.refused(Some("slow2")).contains("the other device of"));
    assert!(files.refused(Some("slow")).contains("holds the pages of volume"));
    files.add("empty", 6);
    assert!(files.refused(Some("empty")).contains("at byte 0: zeros"));
    let told = Volume::open(&Opening::new(&files.name("fast"))).map(|_| ()).unwrap_err();
    assert!(told.to_string().contains("whose pages lie on"), "{told}");
    files.add("alone", 8);
    let alone = Creating { staging: None, ..files.creating("alone", "") };
    Volume::create(&alone).unwrap().close().unwrap();
    let mut opening = Opening::new(&files.name("alone"));
    opening.staging = Some(files.name("fast"));
    let told = Volume::open(&opening).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("has no staging device"), "{told}");
    assert!(files.refused(Some("alone")).contains("a volume of one device"));
}

#[test]
fn an_older_copy_of_either_device_is_noticed_closed_or_not() {
    for (is_closed, older) in [(false, "slow"), (false, "fast"), (true, "slow"), (true, "fast")] {
        let files = Files::made();
        files.life(1, 1, is_closed);
        files.copy(older, "older");
        files.life(1, 2, is_closed);
        files.copy(older, "newer");
        files.copy("older", older);
        let told = files.refused(None);
        let named = format!("{} is an older copy", files.name(older));
        assert!(told.contains(&named), "{is_closed}, {told}");
        assert!(told.contains("at opening 2 ") && told.contains("at opening 3 "), "{told}");
        files.copy("newer", older);
        assert_eq!(files.first_of(1), 2);
    }
}

/// Closing alone, without another opening, makes copies older, too.
#[test]
fn a_copy_from_before_the_volume_was_closed_is_noticed() {
    for older in ["slow", "fast"] {
        let files = Files::made();
        let mut volume = files.opened(None).unwrap();
        Store::new(volume.device()).write(0, &[4; 4096]).unwrap();
        files.copy(older, "older");
        volume.close().unwrap();
        files.copy("older", older);
        let told = files.refused(None);
        assert!(told.contains("is an older copy"), "{told}");
    }
}

/// Every moment at which a crash may end the writing of headers, of an opening and of a closing.
#[test]
fn a_crash_between_the_headers_of_both_devices_leaves_a_volume() {
    for is_closing in [false, true] {
        for step in 0..=6 {
            let files = Files::made();
            files.life(2, 5, is_closing);
            let mut headers = [
                about(&files.name("slow"), None).unwrap().header,
                about(&files.name("fast"), None).unwrap().header,
            ];
            let [homes, staging] = &mut headers;
            (homes.generation, homes.is_clean) = (homes.generation + 1, is_closing);
            (staging.generation, staging.is_clean) = (staging.generation + 1, is_closing);
            let mut settled = staging.clone();
            staging.pair.as_mut().unwrap().is_settled = false;
            settled.pair.as_mut().unwrap().is_settled = true;
            let last = |mib: u64| (mib << 20) - HEADER_BYTES as u64;
            let writes = [
                ("fast", &*staging, last(6)),
                ("fast", &*staging, 0),
                ("slow", &*homes, last(8)),
                ("slow", &*homes, 0),
                ("fast", &settled, last(6)),
                ("fast", &settled, 0),
            ];
            for (name, header, at) in &writes[..step] {
                let file = OpenOptions::new().write(true).open(files.path(name)).unwrap();
                file.write_all_at(&header.encode(*at > 0), *at).unwrap();
            }
            assert_eq!(files.first_of(2), 5, "after {step} writes, closing: {is_closing}");
            files.opened(None).unwrap().close().unwrap();
            assert_eq!(files.first_of(2), 5);
        }
    }
}

#[test]
fn a_stack_that_stages_nothing_or_moves_it_gets_no_staging_device() {
    for (stack, told) in [
        ("direct", "neither is in the stack"),
        ("stable_buffer(size=64Ki)|log_volume(segment=64Ki)", "put stable_buffer below"),
        ("log_volume(segment=64Ki)|replicas(partitions=4)", "it lies below log_volume"),
        ("log_volume(summaries=segments,over_provisioning=60%)", "leave out one of both"),
        ("log_volume(segment=64Ki,summary_pages=640)", "a larger staging device"),
        ("stable_buffer(size=16Mi)", "a larger staging device"),
    ] {
        let files = Files::new();
        let creating = Creating { stack: stack.to_owned(), ..files.creating("slow", "fast") };
        let error = Volume::create(&creating).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(told) && !error.contains('\n'), "{stack}: {error}");
        assert!(about(&files.name("slow"), None).is_err(), "{stack}: nothing was made");
    }
    let files = Files::new();
    let error = Volume::create(&files.creating("slow", "slow")).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("has to be another device"), "{error}");
}

#[test]
fn a_staging_device_that_is_gone_is_replaced_and_what_was_on_it_alone_is_lost() {
    let files = Files::made();
    files.life(1, 1, true);
    files.life(1, 2, false);
    fs::rename(files.path("fast"), files.path("gone")).unwrap();
    files.add("new", 6);
    let new = Staging { device: files.name("new"), destroys: false };
    let error = restage(&files.name("slow"), &new, false).unwrap_err();
    assert!(error.is_wrong_use() && error.to_string().contains("was not closed"), "{error}");
    restage(&files.name("slow"), &new, true).unwrap();
    assert_eq!(files.first_of(1), 1, "the version at home");
    files.life(1, 3, true);
    // Nothing is staged in a volume that was closed: its device may go.
    files.add("newest", 6);
    let newest = Staging { device: files.name("newest"), destroys: false };
    restage(&files.name("slow"), &newest, false).unwrap();
    assert_eq!(files.first_of(1), 3);
    assert!(files.refused(Some("new")).contains("is an older copy"));
    assert!(files.refused(Some("gone")).contains("is an older copy"));
    files.opened(Some("newest")).unwrap().close().unwrap();
}

#[test]
fn both_devices_lose_their_headers_when_it_is_destroyed() {
    let files = Files::made();
    destroy(&files.name("slow")).unwrap();
    assert!(about(&files.name("slow"), None).is_err() && about(&files.name("fast"), None).is_err());
}

/// The first device has nothing but segments; what says where pages lie is on the second.
#[test]
fn a_log_keeps_its_records_and_checkpoints_on_the_second_device_and_outlives_a_kill() {
    let files = Files::new();
    let stack = "log_volume(segment=64Ki,over_provisioning=30%,checkpoint_every=64Ki)".to_owned();
    let creating = Creating { stack, ..files.creating("slow", "fast") };
    let volume = Volume::create(&creating).unwrap();
    // Of 96 segments of 15 pages and a footer those before which there is room for the rest, and
    // 30 % of what users have to spare.
    assert_eq!(volume.capacity_bytes(), (90.0 * 15.0 / 1.3) as u64 * 4096);
    volume.close().unwrap();
    for value in 1..40 {
        files.life(u64::from(value) % 7, value, value % 3 == 0);
        assert_eq!(files.first_of(u64::from(value) % 7), value);
    }
    let count = |name, magic: &[u8]| {
        let held = fs::read(files.path(name)).unwrap();
        held.windows(8).filter(|bytes| *bytes == magic).count()
    };
    for magic in [b"FWLOGVOL", b"FWLOGROT", b"FWLOGTAB", b"FWLOGSUM"] {
        assert!(count("slow", magic) == 0 && count("fast", magic) > 0, "{magic:?}");
    }
    let found = check(&files.name("slow"), None, &units::Progress::default()).unwrap();
    assert_eq!((found.bad_bytes, found.about.notes.len()), (0, 0));
    assert_eq!(place(&files.path("fast"), (1 << 20) + 8, 8), b"FWLOGVOL");
}

/// Layers over that which has its area there, and one below that keeps addresses.
#[test]
fn what_lies_above_and_below_an_area_goes_with_it() {
    for stack in [
        "scheduler(coalesce)|log_volume(segment=64Ki)|scheduler(defer,buffer=64Ki)",
        "replicas(partitions=4)|log_volume(segment=64Ki,placement=dac,over_provisioning=50%)",
        "log_volume(segment=64Ki)|stable_buffer(size=64Ki,ack=written)",
        "scheduler(defer)|stable_buffer(size=64Ki,page=8Ki)|scheduler(coalesce,buffer=64Ki)",
    ] {
        let files = Files::new();
        let creating = Creating { stack: stack.to_owned(), ..files.creating("slow", "fast") };
        Volume::create(&creating).unwrap().close().unwrap();
        for value in 1..5 {
            files.life(7, value, value == 2);
            assert_eq!(files.first_of(7), value, "{stack}");
        }
    }
}

#[test]
fn a_limit_of_memory_counts_both_devices() {
    for stack in [STACK, "log_volume(segment=64Ki)"] {
        let files = Files::new();
        let creating = Creating { stack: stack.to_owned(), ..files.creating("slow", "fast") };
        Volume::create(&creating).unwrap().close().unwrap();
        let memory = about(&files.name("slow"), None).unwrap().memory.unwrap();
        assert!(memory.layers.is_ok(), "{memory}");
        let mut opening = Opening::new(&files.name("slow"));
        opening.memory_bytes = Some(1 << 20);
        let told = Volume::open(&opening).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("too little"), "{told}");
        let (_, rest) = told.split_once("give ").unwrap();
        let enough: u64 = rest.split_once("Mi,").unwrap().0.parse().unwrap();
        opening.memory_bytes = Some(enough << 20);
        Volume::open(&opening).unwrap().close().unwrap();
        opening.memory_bytes = Some(64 << 20);
        let volume = Volume::open(&opening).unwrap();
        // Sixteen commands of 512 KiB at each.
        assert_eq!(volume.memory().device_bytes, 2 * 16 * (512 << 10));
        assert!(volume.memory().most_bytes().unwrap() <= 64 << 20);
        volume.close().unwrap();
    }
}

#[test]
fn a_staging_device_is_destroyed_by_itself_only_if_nobody_needs_it() {
    let files = Files::made();
    let said = destroy(&files.name("fast")).unwrap_err();
    assert!(said.is_wrong_use());
    let (said, slow) = (said.to_string(), files.name("slow"));
    let destroyed = format!("change {slow} --destroy --destroy-data {slow}");
    for word in ["--no-staging", &destroyed, "whose pages lie on"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(!said.contains('\n'), "one line: {said}");
    files.life(1, 2, true);
    // What another has taken the place of is a copy of the past.
    files.copy("fast", "old");
    files.add("new", 6);
    let new = Staging { device: files.name("new"), destroys: false };
    restage(&slow, &new, false).unwrap();
    destroy(&files.name("fast")).unwrap();
    assert!(about(&files.name("fast"), None).is_err());
    assert_eq!(files.first_of(1), 2);
    // The pages are newer, or older, than those on the staging device that they name.
    let before = fs::read(files.path("slow")).unwrap();
    files.life(1, 3, true);
    fs::write(files.path("slow"), before).unwrap();
    let said = destroy(&files.name("new")).unwrap_err().to_string();
    assert!(said.contains("older copy"), "{said}");
    fs::remove_file(files.path("slow")).unwrap();
    let gone = destroy(&files.name("new")).unwrap();
    assert_eq!(gone.header.pair.unwrap().role, Role::Staging);
    assert!(about(&files.name("new"), None).is_err());
}
