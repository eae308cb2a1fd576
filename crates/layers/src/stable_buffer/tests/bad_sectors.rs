//! Tests of one bad sector, or one bit that changed, wherever it is: the volume opens, no page
//! costs more than itself, and none gives older content.

use block::Immediate;
use twox_hash::XxHash3_64;

use crate::driver::{Driver, through};
use crate::flawed::Flawed;
use crate::stable_buffer::counts::COUNTERS;
use crate::stable_buffer::disk::{Geometry, HeaderPlace};
use crate::stable_buffer::slot::HEADER_BYTES;
use crate::{Facts, LayerError, Limits, Stack};

const PAGE: u64 = 2048;
const SECTOR: u64 = 512;
const PAGES: u64 = 12;
const SLOTS: u32 = 16;
const NONE: [u64; 0] = [];
const LIMITS: Limits =
    Limits { capacity_bytes: 128 << 10, sector_bytes: SECTOR as u32, most_bytes: 16 << 10 };
const BUFFERS: [(&str, HeaderPlace); 2] = [
    ("stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off)", HeaderPlace::Beside),
    (
        "stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off,layout=embedded,\
         ack=written)",
        HeaderPlace::Embedded,
    ),
];

fn content(page: u64, version: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..PAGE / 8).flat_map(|word| (version << 32 | page << 16 | word).to_le_bytes()).collect();
    bytes[PAGE as usize - 2 * HEADER_BYTES..].fill(0);
    bytes
}

#[derive(Clone)]
struct Left {
    text: &'static str,
    device: Immediate<Flawed>,
    /// Newest version of each page.
    versions: [u64; PAGES as usize],
}

impl Left {
    /// Makes a volume with pages that were written and flushed to their homes, and others in slots:
    /// it was closed, or left as it was.
    fn new(text: &'static str, is_closed: bool) -> Self {
        let mut device = Immediate::new(Flawed::new(LIMITS));
        crate::format(text, &Facts::default(), 1, &mut device).unwrap();
        let mut left = Self { text, device, versions: [0; PAGES as usize] };
        let mut stack = left.open().unwrap();
        (0..PAGES).for_each(|page| left.write(&mut stack, page));
        left.drain(&mut stack);
        [3, 1, 7, 3, 9, 0, 7, 11, 3].into_iter().for_each(|page| left.write(&mut stack, page));
        through(&mut stack, &mut left.device, |store| store.flush()).unwrap();
        if is_closed {
            left.drain(&mut stack);
        }
        left
    }

    fn open(&mut self) -> Result<Stack, LayerError> {
        crate::open(self.text, &Facts::default(), 1, &mut self.device)
    }

    fn write(&mut self, stack: &mut Stack, page: u64) {
        let version = &mut self.versions[page as usize];
        *version += 1;
        let bytes = content(page, *version);
        through(stack, &mut self.device, |store| store.write(page * PAGE, &bytes)).unwrap();
    }

    fn drain(&mut self, stack: &mut Stack) {
        Driver::new(&mut self.device, &mut *stack).drain(&mut || true).unwrap();
        assert!(stack.is_idle());
    }

    /// Gives the pages that cannot be read; checks that the others hold what was written last.
    fn lost(&mut self, stack: &mut Stack) -> Vec<u64> {
        let mut lost = Vec::new();
        for page in 0..PAGES {
            let mut bytes = vec![0; PAGE as usize];
            match through(stack, &mut self.device, |store| store.read(page * PAGE, &mut bytes)) {
                Ok(()) => assert!(
                    bytes == content(page, self.versions[page as usize]),
                    "page {page} holds something else"
                ),
                Err(_) => lost.push(page),
            }
        }
        lost
    }

    /// Gives the number of pages that are lost after an opening. They stay lost after a second one,
    /// and are there again when they were written, and the volume closed and opened.
    fn lost_when_opened(&mut self) -> Result<usize, LayerError> {
        let lost = {
            let mut stack = self.open()?;
            self.lost(&mut stack)
        };
        let mut stack = self.open()?;
        assert_eq!(self.lost(&mut stack), lost, "it stays so until it is written");
        assert_eq!(counter(&stack, "bad_pages"), lost.len() as u64);
        self.drain(&mut stack);
        assert_eq!(self.lost(&mut stack), lost);
        let mut stack = self.open()?;
        assert_eq!(self.lost(&mut stack), lost, "a drain does not change it");
        lost.iter().for_each(|&page| self.write(&mut stack, page));
        assert_eq!(self.lost(&mut stack), NONE);
        self.drain(&mut stack);
        assert_eq!(counter(&stack, "bad_pages"), 0);
        let mut stack = self.open()?;
        assert_eq!(self.lost(&mut stack), NONE);
        Ok(lost.len())
    }
}

fn counter(stack: &Stack, name: &str) -> u64 {
    let mut counts = Vec::new();
    stack.layers()[0].count(&mut counts);
    counts[COUNTERS.iter().position(|counter| counter.name == name).unwrap()]
}

fn geometry(layout: HeaderPlace) -> Geometry {
    Geometry::at_end(LIMITS, PAGE as u32, SLOTS, layout).unwrap()
}

/// Gives every sector from the area's first on.
fn area(layout: HeaderPlace) -> std::ops::Range<u64> {
    geometry(layout).area_offset / SECTOR..LIMITS.capacity_bytes / SECTOR
}

/// Gives the places of all bits of all headers.
fn header_bits(layout: HeaderPlace) -> impl Iterator<Item = (usize, u8)> {
    let geometry = geometry(layout);
    let places = (0..SLOTS).flat_map(move |slot| {
        let (begin, end) = geometry.slot_range(slot);
        [begin as usize, end as usize - HEADER_BYTES]
    });
    places.flat_map(|place| (0..8 * HEADER_BYTES).map(move |bit| (place + bit / 8, 1 << (bit % 8))))
}

#[test]
fn no_sector_of_the_area_is_needed_when_it_is_closed() {
    for (text, layout) in BUFFERS {
        let left = Left::new(text, true);
        for sector in area(layout) {
            let mut left = left.clone();
            left.device.bad.insert(sector);
            assert_eq!(left.lost_when_opened(), Ok(0), "{text}, sector {sector}");
        }
        for (at, bit) in header_bits(layout) {
            let mut left = left.clone();
            left.device.bytes[at] ^= bit;
            let mut stack = left.open().unwrap();
            assert_eq!(left.lost(&mut stack), NONE, "{text}, bit {bit} of byte {at}");
        }
        let mut left = left;
        left.device.bad.extend(area(layout).skip(1).take(area(layout).count() - 2));
        assert_eq!(left.lost_when_opened(), Ok(0), "all slots");
    }
}

#[test]
fn a_bad_sector_costs_one_page_when_it_was_not_closed() {
    for (text, layout) in BUFFERS {
        let left = Left::new(text, false);
        let mut costs = 0;
        for sector in area(layout) {
            let mut left = left.clone();
            left.device.bad.insert(sector);
            let lost = left.lost_when_opened().unwrap_or_else(|error| panic!("{sector}: {error}"));
            assert!(lost <= 1, "{text}, sector {sector} costs {lost} pages");
            costs += lost;
        }
        // Six pages are in slots.
        let sectors = geometry(layout).slot_bytes() / SECTOR;
        assert_eq!(costs as u64, 6 * sectors, "{text}");
        for (at, bit) in header_bits(layout) {
            let mut left = left.clone();
            left.device.bytes[at] ^= bit;
            let mut stack = left.open().unwrap_or_else(|error| panic!("byte {at}: {error}"));
            assert_eq!(left.lost(&mut stack), NONE, "{text}, bit {bit} of byte {at}");
        }
    }
}

/// The page of the slot is not known then, so no page can be trusted.
#[test]
fn a_slot_without_any_header_is_refused_with_its_place_unless_it_was_closed() {
    for (text, layout) in BUFFERS {
        let places = geometry(layout).header_sectors(0);
        for is_closed in [false, true] {
            let mut left = Left::new(text, is_closed);
            left.device.bad.extend(places.map(|at| at / SECTOR));
            match left.open().err() {
                None => assert!(is_closed, "{text}"),
                Some(LayerError::Corrupt { offset, reason, .. }) => {
                    assert!(!is_closed && offset == places[0], "{text}: {reason}");
                }
                Some(other) => panic!("{other}"),
            }
        }
    }
}

/// Otherwise it would look like one that a power cut tore, and an older one would be taken for the
/// newest.
#[test]
fn a_page_that_was_found_bad_stays_so_whatever_comes() {
    for (text, layout) in BUFFERS {
        let mut left = Left::new(text, false);
        let mut stack = left.open().unwrap();
        let (newest, middle) = (content(3, left.versions[3]), 600..1000);
        let slots = (0..SLOTS).map(|slot| geometry(layout).slot_range(slot).0 as usize);
        let slot_bytes = geometry(layout).slot_bytes() as usize;
        let holds = |at: &usize| {
            let slot = &left.device.bytes[*at..*at + slot_bytes];
            slot.windows(400).any(|part| part == &newest[middle.clone()])
        };
        let at = slots.clone().find(holds).unwrap();
        left.device.bytes[at + 1500] ^= 4;
        left.drain(&mut stack);
        assert_eq!(left.lost(&mut stack), [3]);
        for _ in 0..2 {
            let mut stack = left.open().unwrap();
            assert_eq!(left.lost(&mut stack), [3], "{text}");
        }
        let mut one_sector = left.clone();
        one_sector.device.bad.insert(at as u64 / SECTOR);
        assert_eq!(one_sector.lost_when_opened(), Ok(1), "{text}");
        assert_eq!(left.lost_when_opened(), Ok(1), "{text}");
    }
}

#[test]
fn a_volume_of_an_earlier_version_is_refused_by_its_version() {
    for version in 1..4_u16 {
        let mut left = Left::new(BUFFERS[0].0, true);
        let begin = geometry(BUFFERS[0].1).area_offset as usize;
        for at in [begin, LIMITS.capacity_bytes as usize - SECTOR as usize] {
            let sector = &mut left.device.bytes[at..at + SECTOR as usize];
            sector[8..10].copy_from_slice(&version.to_le_bytes());
            let sum = XxHash3_64::oneshot(&sector[..56]);
            sector[56..64].copy_from_slice(&sum.to_le_bytes());
        }
        let before = left.device.bytes.clone();
        let said = left.open().err().unwrap().to_string();
        assert!(said.contains(&format!("(format {version})")), "{said}");
        assert!(!said.contains("format it"), "{said}");
        assert!(left.device.bytes == before);
    }
}
