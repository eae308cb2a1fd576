use std::fs;
use std::path::PathBuf;

use block::Store;
use layers::Facts;

use super::*;
use crate::{Creating, Opening, Staging, Volume};

const PAGE: u64 = 4096;
const PAGES: u64 = 300;
/// First byte of the stack's part.
const PART: usize = 1 << 20;

struct Made {
    folder: tempfile::TempDir,
    capacity_bytes: u64,
}

impl Made {
    /// Makes a volume that was written to and closed.
    fn new(has_staging: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = folder.path().join(name);
            File::create(&path).unwrap().set_len(bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let device = file("device", 16 << 20);
        let staging = has_staging.then(|| file("staging", 8 << 20));
        let creating = Creating {
            device: device.clone(),
            stack: "log_volume(segment=64Ki,summary_pages=16)".to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: staging.map(|device| Staging { device, destroys: false }),
        };
        let mut volume = Volume::create(&creating).unwrap();
        let mut store = Store::new(&mut volume.driver);
        for number in 0..4 * PAGES {
            store.write(number * 7 % PAGES * PAGE, &content(number)).unwrap();
        }
        store.flush().unwrap();
        let capacity_bytes = store.limits().capacity_bytes;
        volume.close().unwrap();
        Self { folder, capacity_bytes }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn salvage(&self) -> Result<Salvaged, VolumeError> {
        let device = self.path("device");
        salvage(device.to_str().unwrap(), None, &self.path("image"), false, &Progress::default())
    }

    /// Overwrites those 4 KiB of the device that `is_there` selects.
    fn destroy(&self, is_there: impl Fn(&[u8]) -> bool) {
        let mut bytes = fs::read(self.path("device")).unwrap();
        bytes.chunks_mut(4096).filter(|page| is_there(page)).for_each(|page| page.fill(0x5a));
        fs::write(self.path("device"), bytes).unwrap();
    }
}

fn content(number: u64) -> Vec<u8> {
    (0..PAGE / 8).flat_map(|word| (number << 16 | word).to_le_bytes()).collect()
}

/// Returns true if an image holds the last writes.
fn is_whole(image: &[u8]) -> bool {
    (3 * PAGES..4 * PAGES).all(|number| {
        let at = (number * 7 % PAGES * PAGE) as usize;
        image[at..at + PAGE as usize] == content(number)
    })
}

#[test]
fn what_the_users_have_is_copied_out() {
    let made = Made::new(false);
    let before = fs::read(made.path("device")).unwrap();
    let salvaged = made.salvage().unwrap();
    assert_eq!((salvaged.found.bad_bytes, salvaged.notes.len()), (0, 0));
    let image = fs::read(made.path("image")).unwrap();
    assert!(image.len() as u64 == made.capacity_bytes && is_whole(&image));
    assert!(fs::read(made.path("device")).unwrap() == before, "the device is only read");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(made.path("image")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_log_without_roots_tables_and_superblocks_is_put_together_again() {
    for kinds in [&[b"FWLOGROT", b"FWLOGTAB"][..], &[b"FWLOGROT", b"FWLOGTAB", b"FWLOGVOL"]] {
        let made = Made::new(false);
        made.destroy(|page| kinds.iter().any(|kind| page[8..16] == kind[..]));
        let error = Volume::open(&Opening::new(made.path("device").to_str().unwrap())).err();
        assert!(error.is_some(), "it cannot be opened");
        let salvaged = made.salvage().unwrap();
        assert!(salvaged.found.bad_bytes == 0 && !salvaged.notes.is_empty());
        assert!(is_whole(&fs::read(made.path("image")).unwrap()));
    }
}

#[test]
fn the_staging_device_may_be_gone() {
    let made = Made::new(true);
    fs::remove_file(made.path("staging")).unwrap();
    let salvaged = made.salvage().unwrap();
    let notes = &salvaged.found.about.notes;
    assert!(notes.iter().any(|note| note.contains("needs its staging device")), "{notes:?}");
    assert!(!salvaged.notes.is_empty());
    assert!(is_whole(&fs::read(made.path("image")).unwrap()), "also what lies in an open segment");
}

#[test]
fn a_file_that_is_there_stays_and_a_failure_leaves_none() {
    let made = Made::new(false);
    fs::write(made.path("image"), "kept").unwrap();
    let error = made.salvage().unwrap_err().to_string();
    assert!(error.contains("is there already"), "{error}");
    assert_eq!(fs::read(made.path("image")).unwrap(), b"kept");
    fs::remove_file(made.path("image")).unwrap();
    let bytes = fs::read(made.path("device")).unwrap();
    fs::write(made.path("device"), [&bytes[..PART], &vec![0; bytes.len() - PART]].concat())
        .unwrap();
    made.salvage().unwrap_err();
    assert!(!made.path("image").exists());
}
