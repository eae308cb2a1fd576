//! A device of which sectors cannot be read until they are written, for tests; and what each such
//! sector of a volume that was closed costs.

use std::collections::BTreeSet;

use block::{Immediate, Serve};
use units::IoOp;

use crate::driver::{Driver, through};
use crate::{Command, Data, Facts, Failure, Limits};

/// Zeros, all of which can be read.
#[derive(Clone)]
pub struct Flawed {
    limits: Limits,
    pub bytes: Vec<u8>,
    /// Numbers of sectors that cannot be read.
    pub bad: BTreeSet<u64>,
}

impl Flawed {
    pub fn new(limits: Limits) -> Self {
        Self { limits, bytes: vec![0; limits.capacity_bytes as usize], bad: BTreeSet::new() }
    }
}

impl Serve for Flawed {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let range = command.offset as usize..command.end() as usize;
        let sector = u64::from(self.limits.sector_bytes);
        let sectors = command.offset / sector..command.end() / sector;
        match command.op {
            IoOp::Read if self.bad.range(sectors.clone()).next().is_some() => {
                return Err(command.failed("Input/output error"));
            }
            IoOp::Read => return Ok(Data::copy_of(&self.bytes[range])),
            IoOp::Write => {
                self.bad.retain(|sector| !sectors.contains(sector));
                command.data.copy_to(&mut self.bytes[range]);
            }
            IoOp::Trim | IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

const LIMITS: Limits =
    Limits { capacity_bytes: 256 << 10, sector_bytes: 512, most_bytes: 16 << 10 };
const PAGE: u64 = 2048;
/// Those whose homes have no copies.
const STACKS: [&str; 4] = [
    "stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off)",
    "checksums(page=2Ki,block=512,delay=1s)",
    "replicas(partitions=4,page=2Ki)",
    "stable_buffer(size=32Ki,page=2Ki,focused_area=64Ki,sequential=off)|\
     checksums(page=2Ki,block=512,delay=1s)",
];

fn content(page: u64) -> Vec<u8> {
    (0..PAGE / 8).flat_map(|word| ((page + 1) << 32 | word).to_le_bytes()).collect()
}

#[test]
fn a_bad_sector_of_a_closed_volume_costs_no_more_than_the_page_that_it_is_in() {
    for text in STACKS {
        let mut device = Immediate::new(Flawed::new(LIMITS));
        crate::format(text, &Facts::default(), 1, &mut device).unwrap();
        let mut stack = crate::open(text, &Facts::default(), 1, &mut device).unwrap();
        let pages = stack.limits().capacity_bytes / PAGE;
        for page in 0..pages {
            let write = |store: &mut block::Store<'_>| store.write(page * PAGE, &content(page));
            through(&mut stack, &mut device, write).unwrap();
        }
        Driver::new(&mut device, &mut stack).drain(&mut || true).unwrap();
        let mut costs = 0;
        for sector in 0..LIMITS.capacity_bytes / 512 {
            let mut device = device.clone();
            device.bad.insert(sector);
            let opened = crate::open(text, &Facts::default(), 1, &mut device);
            let mut stack = opened.unwrap_or_else(|error| panic!("{text}, {sector}: {error}"));
            let mut lost = 0;
            for page in 0..pages {
                let mut bytes = vec![0; PAGE as usize];
                let read = |store: &mut block::Store<'_>| store.read(page * PAGE, &mut bytes);
                match through(&mut stack, &mut device, read) {
                    Ok(()) => assert!(bytes == content(page), "{text}, {sector}: page {page}"),
                    Err(_) => lost += 1,
                }
            }
            assert!(lost <= 1, "{text}, sector {sector} costs {lost} pages");
            costs += lost;
        }
        assert_eq!(costs, pages * PAGE / 512, "{text}");
    }
}

#[test]
fn a_volume_is_made_over_bad_sectors() {
    for text in STACKS {
        let mut device = Immediate::new(Flawed::new(LIMITS));
        device.bad.extend(0..LIMITS.capacity_bytes / 512);
        crate::format(text, &Facts::default(), 1, &mut device).unwrap();
        crate::open(text, &Facts::default(), 1, &mut device).unwrap();
    }
}
