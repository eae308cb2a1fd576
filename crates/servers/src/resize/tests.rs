//! Tests of resizes whose power is cut at any write, over stacks of all kinds; and of refusals.

use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use block::{BlockError, Command, Completion, DeviceInfo, Failure, Store};
use faults::{CrashDevice, Dice, Manners, Media};
use layers::Facts;
use units::Nanos;

use super::*;
use crate::Creating;
use crate::changes::{noted, second_note};

const MIB: u64 = 1 << 20;

/// A device that outlives the volume that was opened on it.
#[derive(Clone)]
pub struct Shared {
    device: Arc<Mutex<CrashDevice>>,
    info: DeviceInfo,
}

impl Shared {
    pub fn new(mib: u64, mut bytes: Vec<u8>, seed: u64) -> Self {
        let limits = Limits { capacity_bytes: mib * MIB, sector_bytes: 512, most_bytes: 1 << 16 };
        bytes.resize(limits.capacity_bytes as usize, 0xa5);
        let mut media = Media::new(512, bytes.len() / 512);
        *media.raw() = bytes;
        let manners = Manners { is_orderly: seed.is_multiple_of(2), ..Manners::default() };
        let device = CrashDevice::new(limits, manners, media, seed);
        let info = device.info().clone();
        Self { device: Arc::new(Mutex::new(device)), info }
    }

    pub fn with<R>(&self, does: impl FnOnce(&mut CrashDevice) -> R) -> R {
        does(&mut self.device.lock().unwrap())
    }

    /// Ends a life: by a power cut, or a kill of the process.
    pub fn end(&self, dice: &mut Dice) {
        self.with(|device| {
            if dice.chance(0.3) {
                device.kill();
            } else {
                let loss = device.draw_loss();
                device.cut(&loss);
            }
        });
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.with(|device| device.media().raw().clone())
    }

    fn open(&self) -> Result<Volume, VolumeError> {
        let mut device: Box<dyn BlockDevice> = Box::new(self.clone());
        let About { header, notes, .. } = find(&mut *device)?;
        Volume::open_found(device, header, notes)
    }

    fn resize(&self, mib: u64) -> Result<Resized, VolumeError> {
        resize_on(Box::new(self.clone()), mib * MIB, false, &Progress::default())
            .map(|(_, resized)| resized)
    }
}

impl BlockDevice for Shared {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.with(|device| device.now())
    }

    fn outstanding(&self) -> u32 {
        self.with(|device| device.outstanding())
    }

    fn submit(&mut self, command: Command) {
        self.with(|device| device.submit(command));
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        self.with(|device| device.wait(until, completed))
    }
}

fn creating(stack: &str) -> Creating {
    Creating {
        device: "crash".to_owned(),
        stack: stack.to_owned(),
        facts: Facts::default(),
        seed: 1,
        destroys: true,
        staging: None,
    }
}

const STACKS: [&str; 11] = [
    "direct",
    "scheduler(coalesce)",
    "log_volume(segment=16Ki)",
    "log_volume(segment=16Ki,placement=sepbit,over_provisioning=0.6,trim=yes)",
    "log_volume(page=1Ki,segment=32Ki,over_provisioning=0.6,summaries=segments)",
    "stable_buffer(size=64Ki,page=4Ki)",
    "scheduler(coalesce)|stable_buffer(size=128Ki,page=2Ki,ack=fua)|log_volume(segment=16Ki)",
    "log_volume(segment=16Ki,page=1Ki)|stable_buffer(size=64Ki,page=4Ki)",
    "stable_buffer(size=64Ki,page=4Ki)|scheduler(defer)|stable_buffer(size=32Ki,page=1Ki)",
    "stable_buffer(size=64Ki,page=4Ki)|checksums(page=1Ki,block=512,delay=1ms)",
    "checksums(page=2Ki,block=1Ki,delay=1ms)|stable_buffer(size=64Ki,page=2Ki)",
];

/// A volume in use, and its content.
pub struct Used {
    pub bytes: Vec<u8>,
    pub held: Vec<u8>,
}

/// Writes at random within the first `within` bytes, and everything once if it is to be full.
pub fn used(stack: &str, mib: u64, within: u64, is_full: bool, dice: &mut Dice) -> Used {
    let device = Shared::new(mib, Vec::new(), dice.seed());
    let mut volume = Volume::create_on(Box::new(device.clone()), &creating(stack)).unwrap();
    let mut held = vec![0; volume.capacity_bytes() as usize];
    // The old content of the device is not the volume's content.
    let mut store = Store::new(volume.device());
    held.chunks(1 << 20).enumerate().for_each(|(number, part)| {
        if !stack.contains("log_volume") || stack.starts_with("stable") {
            store.write(number as u64 * MIB, part).unwrap();
        }
    });
    let sectors = (within.min(held.len() as u64) / 512) as usize;
    let writes = if is_full { 2 * sectors / 16 } else { 100 };
    for number in 0..writes {
        let length = if is_full { 16 } else { dice.pick(&[1, 3, 8, 16, 64]) };
        let first = match is_full && number < sectors / 16 {
            true => number * 16,
            false => dice.below(sectors - length.min(sectors)),
        };
        let length = length.min(sectors - first);
        let (at, value) = (first * 512, dice.below(255) as u8 + 1);
        held[at..at + length * 512].fill(value);
        store.write(at as u64, &held[at..at + length * 512]).unwrap();
        if dice.chance(0.05) {
            store.flush().unwrap();
        }
        if !is_full && dice.chance(0.1) && stack.starts_with("log_volume") {
            let page = dice.below(sectors / 16) * 8192;
            held[page..page + 8192].fill(0);
            store.trim(page as u64, 8192).unwrap();
        }
    }
    store.flush().unwrap();
    if dice.chance(0.5) {
        volume.close().unwrap();
    } else {
        drop(volume);
    }
    device.with(CrashDevice::kill);
    // The device's cache is there, too.
    let mut flushing: Box<dyn BlockDevice> = Box::new(device.clone());
    Store::new(&mut *flushing).flush().unwrap();
    device.with(|device| device.cut(&faults::Loss::Nothing));
    Used { bytes: device.bytes(), held }
}

/// Judges the content of a volume, up to the end of the shorter one.
pub fn judge(volume: &mut Volume, held: &[u8], told: &str) {
    let mut found = vec![1; volume.capacity_bytes() as usize];
    Store::new(volume.device()).read(0, &mut found).unwrap();
    let length = found.len().min(held.len());
    let wrong = (0..length).step_by(512).find(|&at| found[at..at + 512] != held[at..at + 512]);
    if let Some(at) = wrong {
        panic!("{told}: byte {at} is {}, and {} was written", found[at], held[at]);
    }
}

/// Resizes with the power cut at a write, opens what is left, and resizes again. Returns true if
/// the cut came, and the resize was not refused.
fn cut_at(used: &Used, sizes: (u64, u64), end: u64, dice: &mut Dice, told: &str) -> bool {
    let (old, new) = sizes;
    let device = Shared::new(old.max(new), used.bytes.clone(), dice.seed());
    device.with(|device| device.stop_after(Some(end)));
    let was_cut = match device.resize(new) {
        Ok(_) => false,
        Err(error) if is_too_full(&error, sizes) => {
            judge(&mut device.open().unwrap(), &used.held, told);
            return false;
        }
        Err(error) => {
            assert!(device.with(|device| device.is_off()), "{told}: {error}");
            true
        }
    };
    device.end(dice);
    // The next opening is cut short, too, now and then.
    while dice.chance(0.4) {
        device.with(|device| device.stop_after(Some(dice.below(40) as u64)));
        if let Err(error) = device.open().and_then(Volume::close) {
            assert!(device.with(|device| device.is_off()), "{told}: {error}");
        }
        device.end(dice);
    }
    let mut volume = device.open().unwrap_or_else(|error| panic!("{told}: {error}"));
    judge(&mut volume, &used.held, told);
    volume.close().unwrap();
    let resized = match device.resize(new) {
        Err(error) if is_too_full(&error, sizes) => return false,
        resized => resized.unwrap_or_else(|error| panic!("{told}: {error}")),
    };
    let mut volume = device.open().unwrap();
    assert_eq!(volume.capacity_bytes(), resized.capacity_bytes, "{told}");
    judge(&mut volume, &used.held, told);
    use_on(&mut volume, &used.held, dice, told);
    volume.close().unwrap();
    was_cut
}

/// A full log has little room for much larger tables.
fn is_too_full(error: &VolumeError, (old, new): (u64, u64)) -> bool {
    old < new && error.to_string().contains("in smaller steps")
}

/// Goes on writing, so that a log has to be cleaned.
pub fn use_on(volume: &mut Volume, held: &[u8], dice: &mut Dice, told: &str) {
    let mut held = held.to_vec();
    held.resize(volume.capacity_bytes() as usize, 0);
    let pages = held.len() / 4096;
    let mut known = Vec::new();
    let mut store = Store::new(volume.device());
    for _ in 0..40 {
        let at = dice.below(pages) * 4096;
        let value = dice.below(256) as u8;
        held[at..at + 4096].fill(value);
        known.push(at);
        store.write(at as u64, &held[at..at + 4096]).unwrap();
    }
    store.flush().unwrap();
    for at in known {
        let mut found = [0; 4096];
        store.read(at as u64, &mut found).unwrap();
        assert_eq!(found, held[at..at + 4096], "{told}: byte {at}");
    }
}

/// Gives the bytes that a volume offers on a device of this size.
fn capacity(stack: &str, mib: u64) -> u64 {
    let device = Box::new(Shared::new(mib, Vec::new(), 1));
    Volume::create_on(device, &creating(stack)).unwrap().capacity_bytes()
}

#[test]
fn a_power_cut_at_any_write_leaves_the_old_or_the_new_size_and_all_data() {
    let cuts: u64 = std::env::var("RESIZES").map_or(6, |text| text.parse().unwrap());
    let first: u64 = std::env::var("SEED").map_or(0, |text| text.parse().unwrap());
    let mut number = 0;
    for (kind, stack) in STACKS.into_iter().enumerate() {
        for (turn, sizes) in
            [(6, 11), (11, 6), (7, 8), (9, 7), (5, 16), (16, 5)].into_iter().enumerate()
        {
            let mut dice = Dice::new(first * 1000 + (kind * 10 + turn) as u64);
            let is_full = dice.chance(0.5);
            let within = capacity(stack, sizes.0.min(sizes.1));
            let used = used(stack, sizes.0, within, is_full, &mut dice);
            let told =
                |end| format!("{stack}, {sizes:?}, full: {is_full}, SEED={first}, cut {end}");
            // All writes are tried once, and then some of them.
            let mut most = 1;
            while cut_at(&used, sizes, most, &mut dice, &told(most)) {
                most *= 2;
            }
            for _ in 0..cuts {
                let end = dice.below(most as usize) as u64;
                number += u64::from(cut_at(&used, sizes, end, &mut dice, &told(end)));
            }
        }
    }
    println!("{number} cuts");
    assert!(number > cuts * 10, "{number} cuts");
}

/// Makes a volume on a file of 12 MiB, with something at its beginning.
fn on_file(stack: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    devices::allocate_file(&path, 12 * MIB).unwrap();
    let device = path.to_str().unwrap().to_owned();
    let mut volume =
        Volume::create(&Creating { device: device.clone(), ..creating(stack) }).unwrap();
    Store::new(volume.device()).write(0, &[7; 8192]).unwrap();
    volume.close().unwrap();
    (folder, device)
}

fn resized(device: &str, mib: u64, destroys: bool) -> Result<Resized, VolumeError> {
    let wanted = Resizing { device: device.to_owned(), size_bytes: Some(mib * MIB), destroys };
    resize(&wanted, &Progress::default())
}

#[test]
fn a_resize_that_is_under_way_is_seen_checked_and_finished() {
    for (stack, mib) in [("log_volume(segment=64Ki)", 8), ("stable_buffer(size=64Ki)", 6)] {
        let (_folder, device) = on_file(stack);
        let mut open = open_device(&device, Access::DestroyData, 16).unwrap();
        let mut header = find(&mut *open).unwrap().header;
        let data_bytes = mib * MIB;
        let mut part = Part::new(&mut *open, header.data_offset, header.data_bytes);
        let stack = header.stack.clone();
        let changes =
            layers::resize(&stack, &header.facts, header.seed, &mut part, data_bytes).unwrap();
        begin(&mut *open, &mut header, &Note { data_bytes, changes }).unwrap();
        drop(open);
        let about = crate::about(&device, None).unwrap();
        assert!(about.notes[0].contains("cut short"), "{:?}", about.notes);
        let found = crate::check(&device, None, &Progress::default()).unwrap();
        assert_eq!(found.bad_bytes, 0);
        assert!(found.recovery_sectors > 0 && found.read_bytes < data_bytes);
        assert!(crate::about(&device, None).unwrap().header.is_resizing(), "it was only looked at");
        let mut volume = Volume::open(&Opening::new(&device)).unwrap();
        assert_eq!(volume.capacity_bytes(), found.read_bytes);
        let mut bytes = [0; 8192];
        Store::new(volume.device()).read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 8192]);
        volume.close().unwrap();
        assert_eq!(crate::about(&device, None).unwrap().notes, [""; 0]);
    }
}

/// Notes a resize on a file, without making it.
fn noted_on(device: &str) -> Header {
    let mut open = open_device(device, Access::DestroyData, 16).unwrap();
    let mut header = find(&mut *open).unwrap().header;
    let data_bytes = 6 * MIB;
    let mut part = Part::new(&mut *open, header.data_offset, header.data_bytes);
    let stack = header.stack.clone();
    let changes =
        layers::resize(&stack, &header.facts, header.seed, &mut part, data_bytes).unwrap();
    begin(&mut *open, &mut header, &Note { data_bytes, changes }).unwrap();
    header
}

#[test]
fn either_copy_of_a_note_is_enough() {
    let stack = "stable_buffer(size=64Ki)";
    for lost in 0..3 {
        let (_folder, device) = on_file(stack);
        let header = noted_on(&device);
        let file = std::fs::OpenOptions::new().write(true).open(&device).unwrap();
        let places = [HEADER_BYTES as u64, second_note(&header)];
        for (_, place) in places.iter().enumerate().filter(|(copy, _)| lost == 2 || lost == *copy) {
            file.write_all_at(&[0xee; 4096], *place).unwrap();
        }
        match Volume::open(&Opening::new(&device)) {
            Ok(volume) => {
                assert!(lost < 2);
                volume.close().unwrap();
            }
            Err(error) => assert!(lost == 2 && error.to_string().contains("finished"), "{error}"),
        }
    }
}

/// Device on which reads fail from byte 8192 on.
struct Ends;

impl block::Serve for Ends {
    fn limits(&self) -> Limits {
        Limits { capacity_bytes: 8 * MIB, sector_bytes: 512, most_bytes: 1 << 16 }
    }

    fn serve(&mut self, command: &Command) -> Result<block::Data, Failure> {
        if command.end() > 8192 {
            return Err(command.failed("Input/output error"));
        }
        let header = crate::header::tests::sample();
        let note = Note { data_bytes: MIB, changes: Vec::new() }.encode(&header);
        Ok(block::Data::copy_of(&note[..command.length as usize]))
    }
}

#[test]
fn what_lies_behind_a_note_is_not_read() {
    let header = crate::header::tests::sample();
    assert!(noted(&mut block::Immediate::new(Ends), &header).is_ok());
}

#[test]
fn data_beyond_the_new_end_is_not_lost_by_accident() {
    for stack in ["direct", "log_volume(segment=64Ki)", "stable_buffer(size=64Ki)"] {
        let (_folder, device) = on_file(stack);
        let mut volume = Volume::open(&Opening::new(&device)).unwrap();
        let at = volume.capacity_bytes() - 2 * MIB;
        Store::new(volume.device()).write(at, &[9; 4096]).unwrap();
        volume.close().unwrap();
        let error = resized(&device, 6, false).unwrap_err();
        assert!(error.is_wrong_use(), "{error}");
        let said = error.to_string();
        assert!(said.contains(&format!("data reaches byte {}", at + 4096)), "{said}");
        let least: u64 = said.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((at..12 * MIB).contains(&least), "{said}");
        let size = |bytes: u64| Resizing {
            device: device.clone(),
            size_bytes: Some(bytes),
            destroys: false,
        };
        let smaller = resize(&size(least - MIB), &Progress::default()).unwrap_err();
        assert!(smaller.to_string().ends_with(&least.to_string()), "{smaller}");
        resize(&size(least), &Progress::default()).unwrap();
        assert_eq!(std::fs::metadata(&device).unwrap().len(), least);
        resized(&device, 6, true).unwrap();
        let mut volume = Volume::open(&Opening::new(&device)).unwrap();
        let mut bytes = [0; 8192];
        Store::new(volume.device()).read(0, &mut bytes).unwrap();
        assert_eq!((bytes, volume.notes().len()), ([7; 8192], 0));
        volume.close().unwrap();
    }
}

#[test]
fn what_cannot_be_resized_is_refused_in_one_line() {
    for (stack, word) in [
        ("replicas", "every page"),
        ("log_volume(segment=64Ki)|log_volume(segment=64Ki)", "two log volumes"),
        ("log_volume(segment=64Ki)|checksums", "a log over `checksums`"),
    ] {
        let (_folder, device) = on_file(stack);
        let error = resized(&device, 16, false).unwrap_err();
        assert!(error.is_wrong_use() && error.to_string().contains(word), "{error}");
        assert_eq!(std::fs::metadata(&device).unwrap().len(), 12 * MIB, "as it was");
        Volume::open(&Opening::new(&device)).unwrap().close().unwrap();
    }
    let (_folder, device) = on_file("direct");
    let error = resized(&device, 1, false).unwrap_err().to_string();
    assert!(error.ends_with(&LEAST_BYTES.to_string()), "{error}");
}
