//! Cost of one bad sector for a volume as a whole: its headers, and the staging device.
//!
//! `cargo test --release -p flashwright-servers --lib -- --ignored bad_sectors --nocapture` tries
//! each 4 KiB of each volume.

use block::{BlockDevice, Immediate};
use faults::bad_sectors::{Case, Damaged, How, Made, Opened, Shape, State, Table, Wanted, cases};
use layers::{Facts, Placed, Region};

use super::*;
use crate::HEADER_BYTES;
use crate::headers::write_header;

const SEED: u64 = 1;
const FIRST_BYTES: u64 = 4 << 20;
const SECOND_BYTES: u64 = 4 << 20;
/// Stacks, and true if a layer has its area on a second device.
const STACKS: [(&str, bool); 5] = [
    ("direct", false),
    ("stable_buffer(size=64Ki)", false),
    ("stable_buffer(size=64Ki)", true),
    ("log_volume(segment=64Ki,over_provisioning=60%)", false),
    ("log_volume(segment=64Ki,over_provisioning=60%)", true),
];
/// Of so many cases that hit no header the short form tries one.
const OF: usize = 48;

fn device(of: &Damaged) -> Box<dyn BlockDevice> {
    Box::new(Immediate::new(of.clone()))
}

/// Gives the handles of a volume's devices.
fn parts(all: &Damaged, is_pair: bool) -> (Damaged, Option<Damaged>) {
    let second = is_pair.then(|| all.part(FIRST_BYTES..FIRST_BYTES + SECOND_BYTES));
    (all.part(0..FIRST_BYTES), second)
}

/// Creates a volume as [`Volume::create`] does; gives the places of all structures.
fn create(all: &Damaged, stack: &str, is_pair: bool) -> Vec<Placed> {
    let (first, second) = parts(all, is_pair);
    let (mut first, second) = (device(&first), second.map(|second| device(&second)));
    let mut header = plan(stack, &Facts::default(), &*first).unwrap();
    (header.seed, header.uuid, header.created_unix_s) = (SEED, Uuid::from_u128(7), 0);
    let mut second =
        second.map(|second| staging::begin_on(second, "second", "first", &mut header).unwrap());
    let other = second.as_mut().map(|second| (&mut *second.device, &second.header));
    let mut below = staging::below(&mut *first, &header, other);
    let facts = header.layer_facts();
    layers::format(stack, &facts, SEED, &mut below).unwrap();
    let limits = below.info().limits;
    let mut placed = layers::structures(stack, &facts, SEED, limits).unwrap();
    let at_second = second.as_ref().map(|second| FIRST_BYTES + second.header.data_offset);
    for one in &mut placed {
        let bytes = &mut one.region.bytes;
        let moved = match at_second {
            Some(at) if bytes.start >= header.data_bytes => at - header.data_bytes,
            _ => header.data_offset,
        };
        *bytes = bytes.start + moved..bytes.end + moved;
    }
    placed.extend(headers(0, FIRST_BYTES));
    if let Some(second) = &mut second {
        placed.extend(headers(FIRST_BYTES, SECOND_BYTES));
        write_header(&mut *second.device, &second.header).unwrap();
    }
    write_header(&mut *first, &header).unwrap();
    placed
}

/// Gives both copies of a device's header.
fn headers(begin: u64, device_bytes: u64) -> [Placed; 2] {
    let bytes = HEADER_BYTES as u64;
    [begin, begin + Header::last_place(device_bytes)].map(|at| Placed {
        layer: "volume",
        level: usize::MAX,
        region: Region { bytes: at..at + bytes, name: "header", number: begin, is_data: false },
    })
}

struct OpenVolume(Volume);

impl Opened for OpenVolume {
    fn device(&mut self) -> &mut dyn BlockDevice {
        self.0.device()
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        self.0.close().map_err(|error| error.to_string())
    }
}

/// Opens a volume as [`Volume::open`] does.
fn open(all: &Damaged, is_pair: bool) -> Result<Box<dyn Opened>, String> {
    let (first, second) = parts(all, is_pair);
    let (mut first, second) = (device(&first), second.map(|second| device(&second)));
    let opened = find(&mut *first).and_then(|About { header, mut notes, .. }| {
        let mut header = Volume::ready(&mut *first, header, &mut notes)?;
        let second = second
            .map(|second| staging::open_on(second, ("first", "second"), &mut header, false))
            .transpose()?;
        Volume::open_on(first, second, header, notes)
    });
    Ok(Box::new(OpenVolume(opened.map_err(|error| error.to_string())?)))
}

/// Tries all cases of all volumes, or some; in any case those that hit a header.
fn campaign(of: usize, with_progress: bool) -> Table {
    let mut table = Table::default();
    for (stack, is_pair) in STACKS {
        for state in State::ALL {
            let bytes = FIRST_BYTES + if is_pair { SECOND_BYTES } else { 0 };
            let limits = Limits { capacity_bytes: bytes, sector_bytes: 4096, most_bytes: 1 << 16 };
            let all = Damaged::new(limits, vec![0; bytes as usize]);
            let placed = create(&all, stack, is_pair);
            let open = |all: &Damaged| open(all, is_pair);
            let made = Made::of(&all, Shape::default(), state, SEED, &open)
                .unwrap_or_else(|wrong| panic!("{stack}: {}", wrong.0));
            let flips = if of == 1 { 200 } else { OF / 2 };
            let wanted = Wanted { with_sectors: false, flips };
            let is_tried =
                |(number, case): &(usize, Case)| case.hits.contains("header") || number % of == 0;
            let all = cases(&made, &placed, wanted, SEED).into_iter().enumerate();
            for (_, case) in all.filter(is_tried) {
                let verdict = made.try_case(&case.damage, &open);
                let what = format!("{stack}, second device {is_pair}, {}", state.name());
                assert_eq!(verdict.fault(), None, "{what}: {}", case.damage);
                if case.hits.contains("volume: header") {
                    let is_refused = verdict.refused.is_some();
                    assert_eq!(is_refused, case.is_every_copy, "{what}: {case:?}, {verdict:?}");
                    assert_eq!(verdict.unusable, None, "{what}: {case:?}");
                }
                table.count(state, &case, &verdict);
            }
            if with_progress {
                println!("{stack}, second device {is_pair}, {}: done", state.name());
            }
        }
    }
    table
}

#[test]
fn a_volume_is_refused_only_if_both_copies_of_a_header_are_bad() {
    let table = campaign(OF, false);
    let refused =
        table.0.iter().filter(|((how, ..), row)| *how == How::EveryCopy && row.refused > 0);
    assert!(refused.count() > 0, "{table:?}");
}

#[test]
#[ignore = "minutes: make bad-sectors runs it"]
fn bad_sectors_of_whole_volumes() {
    let table = campaign(1, true);
    for ((how, state, hits), row) in &table.0 {
        println!("{}, {state}, {hits}: {row:?}", how.name());
    }
    for how in [How::Place, How::Flip, How::EveryCopy] {
        for state in State::ALL {
            println!("all: {}, {}: {:?}", how.name(), state.name(), table.sum(how, state));
        }
    }
}
