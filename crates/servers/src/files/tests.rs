//! Tests of files against plain vectors; power cuts at every write; damaged, full and foreign
//! volumes.

use std::collections::BTreeMap;

use block::{Immediate, Limits, Part, Sparse};
use bytes::Bytes;
use faults::{CrashDevice, Dice, Manners, Subject, SubjectKind};
use layers::{Driver, Stack};
use units::Lifetime;

use super::alone::Alone;
use super::format::Layout;
use super::*;

type Memory = Alone<Immediate<Sparse>>;

fn memory(capacity_bytes: u64, sector_bytes: u32) -> Arc<Memory> {
    let limits = Limits { capacity_bytes, sector_bytes, most_bytes: 1 << 16 };
    Alone::new(Immediate::sparse(limits))
}

fn whole(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read(0, &mut bytes), Ok(bytes.len()));
    bytes
}

/// Something that is done to a file.
#[derive(Clone, Debug)]
enum Act {
    Write { offset: usize, length: usize, value: u8 },
    Truncate(usize),
    Reserve(usize),
    Sync,
    Delete,
    CloseAndOpen,
}

/// They are so long that the directory is longer than a sector: a power cut may tear it.
const NAMES: [&str; 3] = [
    "a database with a long name ................................................................\
     ........................................................................................",
    "a database with a long name ................................................................\
     ................................................................................-journal",
    "a database with a long name ................................................................\
     ....................................................................................-wal",
];

fn draw(dice: &mut Dice, most: usize) -> (usize, Act) {
    let offset = match dice.below(4) {
        0 => 0,
        1 => dice.below(most),
        _ => dice.below(8) * most / 8,
    };
    let act = match dice.below(16) {
        0 => Act::Truncate(dice.pick(&[0, 0, offset])),
        1 => Act::Reserve(offset),
        2..=4 => Act::Sync,
        5 => Act::Delete,
        6 => Act::CloseAndOpen,
        _ => Act::Write {
            offset,
            length: dice.pick(&[1, 24, 512, 1000, 4096]).min(most - offset),
            value: dice.below(255) as u8 + 1,
        },
    };
    (dice.below(NAMES.len()), act)
}

fn overwrite(plain: &mut Vec<u8>, offset: usize, length: usize, value: u8) {
    if length > 0 {
        plain.resize(plain.len().max(offset + length), 0);
        plain[offset..offset + length].fill(value);
    }
}

/// Files that stay open as long as they have a name.
struct Opened {
    files: Files,
    open: BTreeMap<usize, Arc<File>>,
}

impl Opened {
    fn file(&mut self, number: usize) -> Result<Arc<File>, FilesError> {
        if let Some(file) = self.open.get(&number) {
            return Ok(file.clone());
        }
        let file = self.files.open_file(NAMES[number], true)?;
        self.open.insert(number, file.clone());
        Ok(file)
    }

    fn close_file(&mut self, number: usize) -> Result<(), FilesError> {
        self.open.remove(&number).map_or(Ok(()), |file| self.files.close_file(&file))
    }

    fn act(&mut self, number: usize, act: &Act) -> Result<(), FilesError> {
        match *act {
            Act::Write { offset, length, value } => {
                self.file(number)?.write(offset as u64, &vec![value; length])
            }
            Act::Truncate(size) => self.file(number)?.truncate(size as u64),
            Act::Reserve(size) => self.file(number)?.reserve(size as u64),
            Act::Sync => self.file(number)?.sync(),
            Act::Delete => {
                self.close_file(number)?;
                if self.files.has(NAMES[number]) {
                    self.files.delete(NAMES[number])?;
                }
                Ok(())
            }
            Act::CloseAndOpen => {
                self.file(number)?;
                self.close_file(number)
            }
        }
    }

    fn close(mut self) -> Result<(), FilesError> {
        (0..NAMES.len()).try_for_each(|number| self.close_file(number))?;
        self.files.close()
    }
}

#[test]
fn files_are_plain_vectors() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let sector = dice.pick(&[512, 4096]);
        let medium = memory(dice.pick(&[256 << 10, 1 << 20, 48 << 20]), sector);
        let most = dice.pick(&[5_000, 40_000]);
        let mut plain: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for _ in 0..4 {
            let files = Files::open(medium.clone(), true).unwrap();
            let mut opened = Opened { files, open: BTreeMap::new() };
            for step in 0..120 {
                let (number, act) = draw(&mut dice, most);
                opened.act(number, &act).unwrap();
                match act {
                    Act::Delete => drop(plain.remove(&number)),
                    Act::Write { offset, length, value } => {
                        overwrite(plain.entry(number).or_default(), offset, length, value);
                    }
                    Act::Truncate(size) => plain.entry(number).or_default().resize(size, 0),
                    _ => drop(plain.entry(number).or_default()),
                }
                let Some(bytes) = plain.get(&number) else { continue };
                let (from, length) = (dice.below(most), dice.pick(&[1, 24, 4096]));
                let mut read = vec![0xaa; length];
                let count = opened.file(number).unwrap().read(from as u64, &mut read).unwrap();
                let wanted = &bytes[from.min(bytes.len())..(from + length).min(bytes.len())];
                assert_eq!(&read[..count], wanted, "seed {seed}, step {step}: {act:?}");
            }
            for (&number, bytes) in &plain {
                assert_eq!(whole(&opened.file(number).unwrap()), *bytes, "seed {seed}");
            }
            opened.close().unwrap();
            let files = Files::open(medium.clone(), false).unwrap();
            let listed: Vec<_> = files.list().into_iter().map(|f| (f.name, f.bytes)).collect();
            let name = |number: &usize| NAMES[*number].to_owned();
            let mut wanted: Vec<_> = plain.iter().map(|(n, b)| (name(n), b.len() as u64)).collect();
            wanted.sort();
            assert_eq!(listed, wanted);
        }
    }
}

/// States that a file may have after a power cut: absent, or with one of its contents.
#[derive(Clone, Debug, Default)]
struct Life {
    is_absent: bool,
    /// Sizes that the directory may name.
    sizes: Vec<usize>,
    /// Contents at each moment since it was durable.
    contents: Vec<Vec<u8>>,
}

impl Life {
    fn absent() -> Self {
        Self { is_absent: true, ..Self::default() }
    }

    fn of(bytes: Vec<u8>) -> Self {
        Self { is_absent: false, sizes: vec![bytes.len()], contents: vec![bytes] }
    }

    fn allows(&self, found: Option<&Vec<u8>>) -> bool {
        let Some(found) = found else { return self.is_absent };
        let allows = |at: usize, byte: u8| {
            self.contents.iter().any(|content| content.get(at) == Some(&byte))
        };
        !self.is_absent
            && self.sizes.contains(&found.len())
            && found.iter().enumerate().all(|(at, &byte)| allows(at, byte))
    }
}

/// States that a power cut may leave of each file.
struct Oracle(Vec<Vec<Life>>);

impl Oracle {
    fn new() -> Self {
        Self(vec![vec![Life::absent()]; NAMES.len()])
    }

    fn now(&mut self, number: usize) -> &mut Life {
        let lives = &mut self.0[number];
        if lives.last().is_some_and(|life| life.is_absent) {
            lives.push(Life::of(Vec::new()));
        }
        lives.last_mut().unwrap()
    }

    fn begins(&mut self, number: usize, act: &Act) {
        match *act {
            Act::Delete => self.0[number].push(Life::absent()),
            Act::Write { offset, length, value } => {
                let life = self.now(number);
                let mut bytes = life.contents.last().unwrap().clone();
                overwrite(&mut bytes, offset, length, value);
                life.contents.push(bytes);
            }
            Act::Truncate(size) => {
                let life = self.now(number);
                let mut bytes = life.contents.last().unwrap().clone();
                let before = bytes.len();
                bytes.resize(size, 0);
                // If the file gets its old end back, the bytes cut off in its last sector may be
                // zero: that sector may have been written since.
                let mut zeros = bytes.clone();
                zeros.resize(before.max(size), 0);
                life.contents.extend([zeros, bytes]);
                let least = life.sizes.iter().copied().min().unwrap();
                life.sizes.push(size.min(least));
                let cut = life.sizes.iter().map(|&kept| kept.min(size)).collect::<Vec<_>>();
                life.sizes.extend(cut);
            }
            Act::Sync => {
                let life = self.now(number);
                let size = life.contents.last().unwrap().len();
                life.sizes.push(size);
            }
            Act::Reserve(_) | Act::CloseAndOpen => drop(self.now(number).clone()),
        }
    }

    fn ended(&mut self, number: usize, act: &Act) {
        let lives = &mut self.0[number];
        match act {
            Act::Delete => *lives = vec![Life::absent()],
            Act::Sync => {
                let bytes = lives.last_mut().unwrap().contents.pop().unwrap();
                *lives = vec![Life::of(bytes)];
            }
            _ => {}
        }
    }
}

fn opened_on(subject: &Subject, seed: u64, mut device: CrashDevice) -> Driver<CrashDevice> {
    let stack: Stack = subject.open(seed, &mut device).unwrap();
    Driver::new(device, stack)
}

/// Lives between power cuts on one device; each ends at the write of this number, or by itself.
fn live(subject: &Subject, seed: u64, ends: &[u64], has_manners: bool) -> u64 {
    let mut dice = Dice::new(seed);
    let limits = subject.limits();
    let sectors = (limits.capacity_bytes / u64::from(limits.sector_bytes)) as usize;
    let manners = Manners { is_orderly: has_manners, ..Manners::default() };
    let media = faults::Media::new(limits.sector_bytes, sectors);
    let mut device = CrashDevice::new(limits, manners, media, dice.seed());
    subject.format(seed, &mut device).unwrap();
    let mut oracle = Oracle::new();
    let mut ends = ends.iter();
    let (mut cuts, mut acts) = (0, Vec::new());
    loop {
        let end = ends.next();
        let mut driver = opened_on(subject, seed, device);
        driver.device_mut().stop_after(end.copied());
        let medium = Alone::new(driver);
        let was_cut = work(&medium, &mut dice, &mut oracle, end.is_none(), subject, &mut acts);
        device = Alone::device_of(medium).into_parts().0;
        if !was_cut && end.is_none() {
            return cuts;
        }
        cuts += u64::from(was_cut);
        acts.push(format!("cut: {was_cut}"));
        if dice.chance(0.3) {
            // The content of its cache is seen at the next opening, and must not be lost later.
            device.kill();
            continue;
        }
        let loss = device.draw_loss();
        device.cut(&loss);
    }
}

/// Acts until the power is cut, after judging what the life before has left.
fn work(
    medium: &Arc<Alone<Driver<CrashDevice>>>,
    dice: &mut Dice,
    oracle: &mut Oracle,
    is_last: bool,
    subject: &Subject,
    acts: &mut Vec<String>,
) -> bool {
    let is_off = || medium.is_off();
    let files = match Files::open(medium.clone(), true) {
        Ok(files) => files,
        Err(error) => {
            assert!(is_off(), "{subject}: a cut leaves files that can be opened: {error}");
            return true;
        }
    };
    // The power went while a layer wrote in the background: one of the directory's copies may have
    // been unreadable.
    if is_off() {
        return true;
    }
    let mut opened = Opened { files, open: BTreeMap::new() };
    for (number, name) in NAMES.iter().enumerate() {
        let found = match opened.files.has(name) {
            true => match opened.file(number) {
                Ok(file) => {
                    let mut bytes = vec![0; file.size() as usize];
                    match file.read(0, &mut bytes) {
                        Ok(_) => Some(bytes),
                        Err(_) if is_off() => return true,
                        Err(error) => panic!("{subject}: {error}"),
                    }
                }
                Err(error) => panic!("{subject}: {error}"),
            },
            false => None,
        };
        let lives = &mut oracle.0[number];
        assert!(
            lives.iter().any(|life| life.allows(found.as_ref())),
            "{subject}: {} holds {:?}, and may be {:?} after {acts:?}",
            name,
            found.map(|bytes| bytes.len()),
            lives.iter().map(|life| (life.is_absent, &life.sizes)).collect::<Vec<_>>()
        );
        // Content that was read back is not lost any more, also after a kill.
        *lives = vec![found.map_or_else(Life::absent, Life::of)];
    }
    for _ in 0..if is_last { 0 } else { 40 } {
        let (number, act) = draw(dice, 6_000);
        let deletes_nothing = matches!(act, Act::Delete) && !opened.files.has(NAMES[number]);
        if deletes_nothing {
            continue;
        }
        oracle.begins(number, &act);
        acts.push(format!("{number}: {act:?}"));
        match opened.act(number, &act) {
            Ok(()) => oracle.ended(number, &act),
            Err(_) if is_off() => return true,
            Err(error) => panic!("{subject}: {act:?}: {error}"),
        }
    }
    false
}

fn subjects() -> Vec<Subject> {
    let takes_any = |subject: &Subject| {
        let is_registered = matches!(subject.kind, SubjectKind::Registered(_));
        is_registered && subject.tail_bytes == 0 && subject.device_bytes >= 128 << 10
    };
    faults::subjects().into_iter().filter(takes_any).collect()
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_that_was_synced() {
    let direct = Subject::registered("direct", 192 << 10, 512);
    let mut cuts = 0;
    for seed in 0..40 {
        for end in 0..70 {
            cuts += live(&direct, seed, &[end], seed % 2 == 0);
        }
    }
    assert!(cuts > 1000, "{cuts} cuts");
}

#[test]
fn power_cuts_one_after_the_other_lose_nothing_on_any_stack() {
    for subject in subjects() {
        for seed in 0..40 {
            let mut dice = Dice::new(seed);
            let ends: Vec<u64> = (0..8).map(|_| dice.below(150) as u64).collect();
            live(&subject, seed, &ends, false);
        }
    }
}

#[test]
fn one_whole_copy_of_the_directory_is_enough() {
    for damaged in 0..4_u64 {
        let medium = memory(1 << 20, 512);
        let files = Files::open(medium.clone(), true).unwrap();
        let file = files.open_file("a", true).unwrap();
        file.write(0, b"kept").unwrap();
        file.sync().unwrap();
        let slot = u64::from(Layout::of(1 << 20, 512).unwrap().slot_bytes);
        let batch = Arc::default();
        medium.write(damaged * slot, Bytes::from(vec![0xee; 512]), Lifetime::NotSet, &batch);
        medium.settle(&batch).unwrap();
        let again = Files::open(medium.clone(), false).unwrap();
        assert_eq!(again.notes().len(), 1, "{:?}", again.notes());
        assert_eq!(whole(&again.open_file("a", false).unwrap()), b"kept");
    }
}

#[test]
fn what_holds_something_else_is_left_alone() {
    let medium = memory(8 << 20, 512);
    let batch = Arc::default();
    medium.write(1024, Bytes::from(vec![0xee; 512]), Lifetime::NotSet, &batch);
    let error = Files::open(medium, true).map(|_| ()).unwrap_err();
    assert!(matches!(&error, FilesError::Refused(why) if why.contains("something else")));
    let error = Files::open(memory(8 << 20, 512), false).map(|_| ()).unwrap_err();
    assert!(matches!(error, FilesError::NoFile(_)), "{error}");
    let error = Files::open(memory(8 << 10, 512), true).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
}

#[test]
fn a_full_volume_says_so_and_gives_room_again() {
    let medium = memory(1 << 20, 512);
    let files = Files::open(medium, true).unwrap();
    let (kept, large) =
        (files.open_file("kept", true).unwrap(), files.open_file("large", true).unwrap());
    kept.write(0, &[1; 1000]).unwrap();
    kept.sync().unwrap();
    let error = (0..1 << 10).try_for_each(|n| large.write(n * 4096, &[2; 4096])).unwrap_err();
    assert!(matches!(error, FilesError::Full(_)), "{error}");
    assert!(large.sync().is_ok() && large.size() > 700_000, "what had room is there");
    assert!(matches!(kept.reserve(1 << 19), Err(FilesError::Full(_))));
    files.close_file(&large).unwrap();
    files.delete("large").unwrap();
    // Nobody synced, and there is room nevertheless: units given up are made durably free first.
    kept.reserve(1 << 19).unwrap();
    kept.write(1 << 18, &[3; 10]).unwrap();
    assert_eq!(whole(&kept)[..1002], [[1; 1000].as_slice(), &[0, 0]].concat());
}

#[test]
fn who_has_a_deleted_file_open_keeps_it() {
    let files = Files::open(memory(1 << 20, 512), true).unwrap();
    let old = files.open_file("a", true).unwrap();
    old.write(0, &[1; 5000]).unwrap();
    old.sync().unwrap();
    files.delete("a").unwrap();
    assert_eq!(
        files.delete("a").map_err(|error| error.to_string()).unwrap_err(),
        "there is no file `a`"
    );
    let new = files.open_file("a", true).unwrap();
    for _ in 0..20 {
        new.write(0, &[2; 9000]).unwrap();
        new.truncate(0).unwrap();
        new.sync().unwrap();
    }
    old.write(4000, &[3; 2000]).unwrap();
    old.sync().unwrap();
    assert_eq!((whole(&old)[0], whole(&old)[5999], new.size()), (1, 3, 0));
    files.close_file(&old).unwrap();
    files.close_file(&new).unwrap();
    files.close().unwrap();
}

fn crash_device(seed: u64) -> CrashDevice {
    let limits = Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1 << 20 };
    let manners = Manners { is_orderly: true, ..Manners::default() };
    CrashDevice::new(limits, manners, faults::Media::new(512, 1 << 11), seed)
}

/// A commit of SQLite with a journal ends with its deletion.
#[test]
fn a_deletion_is_durable() {
    let medium = Alone::new(crash_device(1));
    let files = Files::open(medium.clone(), true).unwrap();
    let file = files.open_file("journal", true).unwrap();
    file.write(0, &[1; 5000]).unwrap();
    file.sync().unwrap();
    files.close_file(&file).unwrap();
    files.delete("journal").unwrap();
    drop((file, files));
    let mut device = Alone::device_of(medium);
    device.cut(&faults::Loss::Nothing);
    assert_eq!(Files::open(Alone::new(device), false).unwrap().list(), []);
}

/// A process is killed while it flushes a directory; the next one reads it, and power goes.
#[test]
fn what_was_read_after_a_kill_is_not_lost_later() {
    for seed in 0..20 {
        let medium = Alone::new(crash_device(seed));
        let files = Files::open(medium.clone(), true).unwrap();
        let file = files.open_file("a", true).unwrap();
        // The data and a flush, two copies of the directory, and the flush that does not end.
        medium.with(|device| device.stop_after(Some(4)));
        file.write(0, b"written").unwrap();
        assert!(file.sync().is_err());
        drop((file, files));
        let mut device = Alone::device_of(medium);
        device.kill();
        let medium = Alone::new(device);
        let files = Files::open(medium.clone(), false).unwrap();
        assert_eq!(whole(&files.open_file("a", false).unwrap()), b"written");
        drop(files);
        let mut device = Alone::device_of(medium);
        device.cut(&faults::Loss::Nothing);
        let files = Files::open(Alone::new(device), false).unwrap();
        assert_eq!(whole(&files.open_file("a", false).unwrap()), b"written", "seed {seed}");
    }
}

#[test]
fn what_follows_one_behind_the_other_is_one_write_without_a_read() {
    let medium = Alone::new(crash_device(1));
    let files = Files::open(medium.clone(), true).unwrap();
    let file = files.open_file("wal", true).unwrap();
    file.reserve(200_000).unwrap();
    let counts = || medium.with(|device| (device.writes, device.bytes_read));
    let before = counts();
    for commit in 0..4_u64 {
        for frame in 0..4 {
            let at = 32 + (commit * 4 + frame) * 4120;
            file.write(at, &[1; 24]).unwrap();
            file.write(at + 24, &[2; 4096]).unwrap();
        }
        file.sync().unwrap();
    }
    let (writes, read) = (counts().0 - before.0, counts().1 - before.1);
    assert_eq!((writes, read), (4 * (1 + 2), 0), "a write of frames and two of the directory");
}

/// Units and copies of the directory stay where they are, though a volume of another size would
/// have others.
#[test]
fn files_go_on_in_a_volume_that_was_resized() {
    let limits = Limits { capacity_bytes: 96 << 20, sector_bytes: 512, most_bytes: 1 << 16 };
    let mut device = Immediate::sparse(limits);
    for (turn, mib) in (0..).zip([16, 96, 12, 40]) {
        let medium = Alone::new(Part::new(device, 0, mib << 20));
        let owner = medium.owner();
        let files = Files::open(medium.clone(), true).unwrap();
        for before in 0..turn {
            let file = files.open_file(&format!("of turn {before}"), false).unwrap();
            assert_eq!(whole(&file), vec![before + 1; 300_000]);
        }
        let file = files.open_file(&format!("of turn {turn}"), true).unwrap();
        file.write(0, &vec![turn + 1; 300_000]).unwrap();
        file.sync().unwrap();
        drop((file, files));
        device = Alone::device_of(medium).into_inner();
        let mut read = |at: u64, to: &mut [u8]| block::Store::new(&mut device).read(at, to);
        let end = end(mib << 20, 512, owner, &mut read).unwrap().unwrap();
        assert!((300_000 * u64::from(turn + 1)..4 << 20).contains(&end), "{end}");
    }
}
