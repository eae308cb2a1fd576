//! Tests of the cost of one bad sector, and of a volume whose map is lost.

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::KIB;
use super::harness::{Disk, disk};
use super::rot::{content, structures};
use crate::driver::{Driver, through};
use crate::{Facts, LayerError, Stack};

const DEVICE_BYTES: u64 = 640 * KIB;
const SECTOR_BYTES: usize = 4096;
/// First byte of a second device, and its bytes.
const BOUNDARY: u64 = 512 * KIB;

const VOLUMES: &[&str] = &[
    "log_volume(page=1Ki,segment=16Ki,over_provisioning=60%,summary_pages=16,checkpoint_every=64Ki)",
    "log_volume(page=1Ki,segment=8Ki,over_provisioning=100%,placement=multi_log,summary_pages=32)",
    "log_volume(page=512,segment=32Ki,over_provisioning=80%,placement=separate,summary_pages=16,\
     align=4Ki)",
    "log_volume(page=512,segment=8Ki,over_provisioning=200%,placement=midas,summary_pages=32)",
    "log_volume(page=1Ki,segment=16Ki,over_provisioning=120%,summary_pages=12,hints=yes,trim=yes)",
    "log_volume(page=1Ki,segment=32Ki,over_provisioning=80%,summary_pages=40,summaries=segments)",
];

/// A volume that was written to, trimmed and cleaned, and the contents of its pages of 1 KiB: the
/// number of the write, 0 for nothing.
struct Written {
    text: &'static str,
    facts: Facts,
    disk: Disk,
    held: Vec<u64>,
    /// Pages that were ever trimmed: a salvage may bring them back.
    trimmed: Vec<bool>,
}

impl Written {
    fn new(text: &'static str, staging_offset: Option<u64>, seed: u64) -> Self {
        let facts = Facts { staging_offset, ..Facts::default() };
        let mut disk = disk(DEVICE_BYTES);
        crate::format(text, &facts, seed, &mut disk).unwrap();
        let stack = crate::open(text, &facts, seed, &mut disk).unwrap();
        let pages = (stack.limits().capacity_bytes / KIB) as usize;
        let mut written =
            Self { text, facts, disk, held: vec![0; pages], trimmed: vec![false; pages] };
        written.work(stack, seed);
        written
    }

    /// Lives several lives, the last of which ends without a drain.
    fn work(&mut self, mut stack: Stack, seed: u64) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let pages = self.held.len() as u64;
        for life in 0..3 {
            for step in 0..4 * pages {
                let wide = random.random_bool(0.3);
                let page = random.random_range(0..if wide { pages } else { pages / 8 });
                if random.random_bool(0.02) {
                    through(&mut stack, &mut self.disk, |store| store.trim(page * KIB, 1 << 10))
                        .unwrap();
                    (self.held[page as usize], self.trimmed[page as usize]) = (0, true);
                    continue;
                }
                let version = 1 + life * 10_000_000 + step;
                let bytes = content(page, version);
                through(&mut stack, &mut self.disk, |store| store.write(page * KIB, &bytes))
                    .unwrap();
                self.held[page as usize] = version;
                if random.random_bool(0.05) {
                    through(&mut stack, &mut self.disk, |store| store.flush()).unwrap();
                }
            }
            through(&mut stack, &mut self.disk, |store| store.flush()).unwrap();
            if life == 0 {
                Driver::new(&mut self.disk, &mut stack).drain(&mut || true).unwrap();
            }
            if life < 2 {
                stack = crate::open(self.text, &self.facts, seed, &mut self.disk).unwrap();
            }
        }
    }

    fn open(&self, disk: &mut Disk) -> Result<Stack, LayerError> {
        crate::open(self.text, &self.facts, 1, disk)
    }

    fn salvage(&self, disk: &mut Disk, rebuilds: bool) -> (Stack, Vec<String>) {
        let mut notes = Vec::new();
        let stack = crate::salvage(self.text, &self.facts, 1, disk, rebuilds, &mut notes).unwrap();
        (stack, notes)
    }

    /// Counts pages that cannot be read, and checks that all others are as they were.
    fn lost(&self, stack: &mut Stack, disk: &mut Disk, may_come_back: bool, what: &str) -> usize {
        let mut lost = 0;
        for (page, &version) in (0..).zip(&self.held) {
            let mut bytes = vec![0; 1 << 10];
            let read = through(stack, disk, |store| store.read(page * KIB, &mut bytes));
            let right = match version {
                0 => vec![0; 1 << 10],
                version => content(page, version),
            };
            let is_back = may_come_back && version == 0 && self.trimmed[page as usize];
            match read {
                Err(_) => lost += 1,
                Ok(()) => assert!(is_back || bytes == right, "{}: {what}: page {page}", self.text),
            }
        }
        lost
    }

    fn places(&self, magic: &[u8]) -> Vec<usize> {
        structures(&self.disk, magic)
    }
}

/// Regression: one sector took the whole volume with it: a superblock, a page of the tables, a
/// summary.
#[test]
fn no_sector_that_cannot_be_read_takes_more_than_the_pages_in_it() {
    for (seed, text) in (3..).zip(VOLUMES) {
        let written = Written::new(text, None, seed);
        // Copies of a summary in a segment lie side by side: pages should be as large as sectors.
        let sector_bytes = if text.contains("segments") { 1 << 10 } else { SECTOR_BYTES };
        for at in (0..DEVICE_BYTES as usize).step_by(sector_bytes) {
            let what = format!("byte {at} cannot be read");
            let mut disk = written.disk.clone();
            disk.unreadable = at..at + sector_bytes;
            let mut stack =
                written.open(&mut disk).unwrap_or_else(|error| panic!("{text}: {what}: {error}"));
            let lost = written.lost(&mut stack, &mut disk, false, &what);
            assert!(lost <= sector_bytes / 512, "{text}: {what}: {lost} pages");
        }
    }
}

/// An opening writes bad copies again: the other copy may be lost then.
#[test]
fn an_opening_makes_both_copies_good_again() {
    for (seed, text) in (3..).zip(VOLUMES) {
        let written = Written::new(text, None, seed);
        for magic in [b"FWLOGVOL", b"FWLOGTAB"] {
            let places = written.places(magic);
            let mut disk = written.disk.clone();
            let (first, second) = places.split_at(places.len() / 2);
            let flip =
                |disk: &mut Disk, of: &[usize]| of.iter().for_each(|at| disk.bytes[at + 40] ^= 8);
            flip(&mut disk, first);
            written.open(&mut disk).unwrap();
            flip(&mut disk, second);
            let mut stack = written.open(&mut disk).unwrap();
            assert_eq!(written.lost(&mut stack, &mut disk, false, "each copy was bad"), 0);
        }
    }
}

#[test]
fn only_where_both_copies_are_bad_it_is_refused_and_says_what_helps() {
    let written = Written::new(VOLUMES[0], None, 3);
    for magic in [b"FWLOGROT", b"FWLOGTAB"] {
        let mut disk = written.disk.clone();
        written.places(magic).into_iter().for_each(|at| disk.bytes[at + 40] ^= 8);
        let error = written.open(&mut disk).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("volume info --salvage"), "{error}");
    }
}

fn destroy(disk: &mut Disk, of: Range<u64>) {
    disk.bytes[of.start as usize..of.end as usize].fill(0x5a);
}

/// Roots and tables are lost, with both copies; or all but the segments.
#[test]
fn a_salvage_gets_everything_back_from_a_volume_without_a_map() {
    for (text, seed) in VOLUMES.iter().zip(3..).chain(VOLUMES.iter().zip(30..)) {
        let written = Written::new(text, None, seed);
        let mut disk = written.disk.clone();
        for at in [b"FWLOGROT", b"FWLOGTAB"].into_iter().flat_map(|magic| written.places(magic)) {
            destroy(&mut disk, at as u64..at as u64 + 512);
        }
        assert!(written.open(&mut disk).is_err());
        let (mut stack, notes) = written.salvage(&mut disk, false);
        assert!(notes.iter().any(|note| note.contains("no root is whole")), "{notes:?}");
        let lost = written.lost(&mut stack, &mut disk, true, "without a map");
        // A page that was trimmed may claim a place that was written to since.
        let trimmed = written.trimmed.iter().filter(|&&was| was).count();
        assert!(lost <= trimmed, "{text}: {lost} pages");
        let all = |page: usize| written.held[page] != 0;
        let mut missing = (0..written.held.len()).filter(|&page| all(page)).filter(|&page| {
            let mut bytes = vec![0; 1 << 10];
            through(&mut stack, &mut disk, |store| store.read(page as u64 * KIB, &mut bytes))
                .is_err()
        });
        assert_eq!(missing.next(), None, "{text}: seed {seed}");
    }
}

/// A salvage invents nothing where the map is good: trims stay trims.
#[test]
fn a_salvage_beside_a_whole_map_finds_the_same() {
    for (seed, text) in (3..).zip(VOLUMES) {
        let written = Written::new(text, None, seed);
        let mut disk = written.disk.clone();
        let (mut stack, _) = written.salvage(&mut disk, true);
        assert_eq!(written.lost(&mut stack, &mut disk, false, "rebuilt"), 0, "{text}");
    }
}

/// After a drain only the footers are needed, those of open segments among them: the second device
/// may be lost as a whole.
#[test]
fn a_salvage_needs_only_the_device_with_the_segments() {
    let text = VOLUMES[0];
    let written = Written::new(text, Some(BOUNDARY), 5);
    let mut disk = written.disk.clone();
    let mut stack = written.open(&mut disk).unwrap();
    Driver::new(&mut disk, &mut stack).drain(&mut || true).unwrap();
    drop(stack);
    disk.unreadable = BOUNDARY as usize..DEVICE_BYTES as usize;
    assert!(written.open(&mut disk).is_err());
    let (mut stack, notes) = written.salvage(&mut disk, false);
    assert!(notes.iter().any(|note| note.contains("no superblock is whole")), "{notes:?}");
    for (page, &version) in (0..).zip(&written.held).filter(|&(_, &version)| version != 0) {
        let mut bytes = vec![0; 1 << 10];
        through(&mut stack, &mut disk, |store| store.read(page * KIB, &mut bytes)).unwrap();
        assert!(bytes == content(page, version), "page {page}");
    }
}
