//! Volumes that the first version of each format left behind: made by the code before the second
//! version (by the test `make` of revision 54a103c), and opened by all later ones.

use std::io::Read as _;

use block::{Immediate, Store};

use crate::driver::through;
use crate::{Facts, Limits, Stack};

const LIMITS: Limits =
    Limits { capacity_bytes: 160 << 10, sector_bytes: 512, most_bytes: 16 << 10 };
const PAGE: u64 = 1024;

/// What is opened: the stack, and the image of its device.
pub struct Old {
    pub stack: &'static str,
    pub image: &'static [u8],
}

pub const LOG: Old = Old {
    stack: "log_volume(page=1Ki,segment=8Ki,over_provisioning=80%,placement=separate,\
            summary_pages=8,checkpoint_every=32Ki)",
    image: include_bytes!("version_one/log_volume.img.gz"),
};

/// What page `page` holds since write `number`.
pub fn content(page: u64, number: u64) -> Vec<u8> {
    (0..PAGE / 8)
        .flat_map(|word| ((page << 40) | (number << 8) | (word % 4)).to_le_bytes())
        .collect()
}

/// The number of the last write of each page, and whether it was trimmed after it.
pub fn written(pages: u64) -> Vec<(u64, bool)> {
    let mut last = vec![(0, false); pages as usize];
    for number in 1..=WRITES {
        last[(number * number * 7 % pages) as usize] = (number, false);
    }
    last[pages as usize - 1].1 = true;
    last
}

const WRITES: u64 = 300;

/// Opens what was left, and reads it all.
pub fn open(old: &Old) -> (Immediate<block::Sparse>, Stack, Vec<u8>) {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(old.image).read_to_end(&mut bytes).unwrap();
    let mut device = Immediate::sparse(LIMITS);
    Store::new(&mut device).write(0, &bytes).unwrap();
    let mut stack = crate::open(old.stack, &Facts::default(), 1, &mut device).unwrap();
    let mut all = vec![0; stack.limits().capacity_bytes as usize];
    through(&mut stack, &mut device, |store| store.read(0, &mut all)).unwrap();
    (device, stack, all)
}

/// What a volume holds, page by page.
pub fn expected(capacity_bytes: u64) -> Vec<u8> {
    let page = |(page, (number, is_trimmed)): (u64, (u64, bool))| match number {
        0 => vec![0; PAGE as usize],
        _ if is_trimmed => vec![0; PAGE as usize],
        number => content(page, number),
    };
    (0..).zip(written(capacity_bytes / PAGE)).flat_map(page).collect()
}

#[test]
fn volumes_of_version_1_are_opened_and_hold_what_was_written() {
    let (_, _, all) = open(&LOG);
    assert!(all == expected(all.len() as u64), "{}", LOG.stack);
}
