//! Headers that are lost, devices of another size, devices that hold something else.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use block::Immediate;
use layers::Facts;

use super::*;
use crate::HEADER_BYTES;

struct OnFile {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl OnFile {
    /// A volume on a file of 8 MiB.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
        let made = Self { _folder: folder, path };
        Volume::create(&made.creating()).unwrap().close().unwrap();
        made
    }

    fn device(&self) -> &str {
        self.path.to_str().unwrap()
    }

    fn creating(&self) -> Creating {
        Creating {
            device: self.device().to_owned(),
            stack: "log_volume(segment=64Ki)".to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: None,
        }
    }

    fn open(&self) -> Result<Volume, VolumeError> {
        Volume::open(&Opening::new(self.device()))
    }
}

fn overwrite(path: &Path, place: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, place).unwrap();
}

fn resize(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

const LAST: u64 = (8 << 20) - HEADER_BYTES as u64;

#[test]
fn one_of_both_headers_is_enough_and_is_mended() {
    for place in [0, LAST] {
        let on = OnFile::new();
        overwrite(&on.path, place, &[0xee; HEADER_BYTES]);
        let about = about(on.device(), None).unwrap();
        assert!(about.notes[0].contains(&format!("at byte {place} ")), "{:?}", about.notes);
        on.open().unwrap().close().unwrap();
        assert_eq!(super::about(on.device(), None).unwrap().notes, [""; 0], "it was written again");
    }
    let on = OnFile::new();
    overwrite(&on.path, 0, &[0xee; HEADER_BYTES]);
    overwrite(&on.path, LAST, &[0; HEADER_BYTES]);
    let error = on.open().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("at byte 0: other data") && error.contains(": zeros"), "{error}");
}

/// A crash between the two writes of a header leaves an older copy.
#[test]
fn the_newer_of_two_headers_holds() {
    for place in [0, LAST] {
        let on = OnFile::new();
        let mut newer = about(on.device(), None).unwrap().header;
        newer.generation += 1;
        newer.openings = 99;
        overwrite(&on.path, place, &newer.encode(place > 0));
        assert_eq!(about(on.device(), None).unwrap().header.openings, 99);
    }
}

#[test]
fn a_device_that_grew_keeps_its_volume() {
    let on = OnFile::new();
    let before = on.open().unwrap().capacity_bytes();
    resize(&on.path, 12 << 20);
    let volume = on.open().unwrap();
    assert_eq!(volume.capacity_bytes(), before);
    assert!(volume.notes()[0].contains("8388608 bytes when"), "{:?}", volume.notes());
    volume.close().unwrap();
}

#[test]
fn a_device_that_shrank_is_told() {
    let on = OnFile::new();
    // Only the last header's place and unused bytes are missing.
    resize(&on.path, LAST);
    on.open().unwrap().close().unwrap();
    resize(&on.path, 6 << 20);
    let error = on.open().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("has shrunk from 8388608 to 6291456 bytes"), "{error}");
    resize(&on.path, 8 << 20);
    on.open().unwrap().close().unwrap();
}

#[test]
fn what_a_device_holds_is_not_destroyed_by_accident() {
    let on = OnFile::new();
    let error = Volume::create(&on.creating()).map(|_| ()).unwrap_err();
    assert!(error.is_wrong_use() && error.to_string().contains("not written to"), "{error}");
    let before = about(on.device(), None).unwrap().header.uuid;
    let destroying = Creating { destroys: true, ..on.creating() };
    Volume::create(&destroying).unwrap().close().unwrap();
    assert_ne!(about(on.device(), None).unwrap().header.uuid, before);
    destroy(on.device()).unwrap();
    let error = destroy(on.device()).unwrap_err();
    assert!(matches!(error, VolumeError::NoVolume { .. }), "{error}");
    let plain = on.path.with_file_name("plain");
    std::fs::write(&plain, vec![7; 5 << 20]).unwrap();
    let error = Volume::open(&Opening::new(plain.to_str().unwrap())).map(|_| ()).unwrap_err();
    assert!(matches!(error, VolumeError::NoVolume { .. }), "{error}");
    assert_eq!(std::fs::read(&plain).unwrap(), vec![7; 5 << 20], "nothing was written");
}

#[test]
fn what_cannot_be_made_says_what_would_be_right() {
    let error = |device: &str, stack: &str| {
        let creating = Creating {
            device: device.to_owned(),
            stack: stack.to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: true,
            staging: None,
        };
        Volume::create(&creating).map(|_| ()).unwrap_err().to_string()
    };
    assert!(error("memory(bytes=1Mi)", "direct").ends_with("smallest possible size is 4194304"));
    assert!(error("memory(bytes=8Mi)", "logvolume").contains("log_volume"));
    assert!(error("memory(bytes=8Mi)", "log_volume(segment=64Mi)").contains("log_volume"));
    assert!(error("/nowhere/at/all", "direct").contains("no such file"));
}

#[test]
fn the_stack_begins_at_a_multiple_of_the_erase_block() {
    let creating = Creating {
        device: "memory(bytes=1Gi)".to_owned(),
        stack: String::new(),
        facts: Facts { erase_block_bytes: Some(16 << 20), ..Facts::default() },
        seed: 1,
        destroys: false,
        staging: None,
    };
    let volume = Volume::create(&creating).unwrap();
    let header = volume.header();
    assert_eq!((header.data_offset, header.stack.as_str()), (16 << 20, "direct"));
    assert_eq!(header.data_bytes % (1 << 20), 0);
    assert!(header.data_offset + header.data_bytes <= Header::last_place(header.device_bytes));
}

#[test]
fn a_new_volume_begins_with_zeros() {
    let on = OnFile::new();
    destroy(on.device()).unwrap();
    overwrite(&on.path, 1 << 20, &[7; 4096]);
    let direct = Creating { stack: "direct".to_owned(), destroys: true, ..on.creating() };
    let mut volume = Volume::create(&direct).unwrap();
    let mut bytes = vec![1; 1 << 20];
    Store::new(volume.device()).read(0, &mut bytes).unwrap();
    assert_eq!(bytes, vec![0; 1 << 20]);
    volume.close().unwrap();
}

/// Its checksum fits, and somebody has made it: opening it must not write over its data, or fail
/// otherwise than with a line.
#[test]
fn a_header_whose_data_lies_over_the_headers_is_refused() {
    let changes: [fn(&mut Header); 3] = [
        |header| header.device_bytes = 0,
        |header| header.data_offset = 0,
        |header| header.data_bytes = (8 << 20) - header.data_offset,
    ];
    for change in changes {
        let on = OnFile::new();
        let mut header = about(on.device(), None).unwrap().header;
        change(&mut header);
        overwrite(&on.path, 0, &header.encode(false));
        overwrite(&on.path, LAST, &[0; HEADER_BYTES]);
        let error = on.open().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("where the headers are"), "{error}");
    }
}

fn limits(sector_bytes: u32) -> Limits {
    Limits { capacity_bytes: 8 << 20, sector_bytes, most_bytes: 1 << 16 }
}

/// A volume made on a device of such sectors, copied to one of others.
fn copied(stack: &str, made: u32, now: u32) -> Box<dyn BlockDevice> {
    let creating = Creating {
        device: "memory".to_owned(),
        stack: stack.to_owned(),
        facts: Facts::default(),
        seed: 1,
        destroys: false,
        staging: None,
    };
    let on: Box<dyn BlockDevice> = Box::new(Immediate::sparse(limits(made)));
    let mut volume = Volume::create_on(on, &creating).unwrap();
    Store::new(volume.device()).write(8192, &[7; 4096]).unwrap();
    let mut from = volume.close_to_devices().unwrap().device;
    let mut bytes = vec![0; 8 << 20];
    Store::new(&mut *from).read(0, &mut bytes).unwrap();
    let mut to: Box<dyn BlockDevice> = Box::new(Immediate::sparse(limits(now)));
    Store::new(&mut *to).write(0, &bytes).unwrap();
    to
}

#[test]
fn a_volume_keeps_its_sectors_where_those_of_its_device_are_smaller() {
    for stack in ["direct", "log_volume(segment=64Ki)", "stable_buffer(size=64Ki)", "checksums"] {
        let mut device = copied(stack, 4096, 512);
        for _ in 0..2 {
            let About { header, notes, .. } = find(&mut *device).unwrap();
            assert!(notes[0].contains("sectors of 4096 bytes and keeps them"), "{notes:?}");
            let mut volume = Volume::open_found(device, header, notes).unwrap();
            assert_eq!(volume.shape().sector_bytes, 4096, "{stack}");
            let mut bytes = [0; 4096];
            Store::new(volume.device()).read(8192, &mut bytes).unwrap();
            assert_eq!(bytes, [7; 4096], "{stack}");
            Store::new(volume.device()).write(12288, &bytes).unwrap();
            device = volume.close_to_devices().unwrap().device;
        }
    }
}

#[test]
fn where_sectors_are_larger_the_way_to_open_it_is_said() {
    let error = find(&mut *copied("direct", 512, 4096)).unwrap_err();
    assert!(error.is_wrong_use());
    let said = error.to_string();
    assert!(said.contains("losetup --find --show --sector-size 512"), "{said}");
}
