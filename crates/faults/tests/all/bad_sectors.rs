//! The short form of `examples/bad_sectors.rs`: a few cases of each stack, others each time.

use std::collections::BTreeSet;

use block::{Immediate, Limits, Serve as _, Store};
use faults::Subject;
use faults::bad_sectors::{
    Case, Damage, Damaged, How, Made, Opened, Row, State, Table, Wanted, cases, of_subject,
    subjects,
};
use layers::{Change, Facts};

/// Number of cases of which one is tried.
const OF: usize = 40;

/// Tries a few cases of some stacks; a fault fails the test.
fn tried(all: &[Subject]) -> Table {
    let mut number = 0;
    tried_if(all, |_| {
        number += 1;
        number % OF == 0
    })
}

/// Tries the cases of some stacks that are wanted; a fault fails the test.
fn tried_if(all: &[Subject], mut is_wanted: impl FnMut(&Case) -> bool) -> Table {
    let mut table = Table::default();
    for subject in all {
        for state in State::ALL {
            let made = Made::of_subject(subject, state, 1).unwrap_or_else(|wrong| {
                panic!("{subject}, {}: {}", state.name(), wrong.0);
            });
            let placed = subject.structures(1).unwrap();
            let open = of_subject(subject, 1);
            let wanted = Wanted { with_sectors: true, flips: 20 };
            for case in cases(&made, &placed, wanted, 1).into_iter().filter(&mut is_wanted) {
                let verdict = made.try_case(&case.damage, &open);
                let (name, damage) = (state.name(), &case.damage);
                assert_eq!(verdict.fault(), None, "{subject}, {name}, {damage}, seed 1");
                table.count(state, &case, &verdict);
            }
        }
    }
    table
}

/// Whatever is damaged, what is read is what was written, or an error.
#[test]
fn no_bad_sector_and_no_flipped_bit_gives_wrong_bytes() {
    let table = tried(&subjects());
    let (cases, opened) = table
        .0
        .values()
        .fold((0, 0), |(cases, opened), row| (cases + row.cases, opened + row.opened));
    assert!(cases > 1000 && opened > cases / 2, "{opened} of {cases} opened");
    let placed = subjects().into_iter().flat_map(|subject| subject.structures(1).unwrap());
    let with_structures: BTreeSet<_> = placed.map(|one| one.layer).collect();
    assert!(with_structures.len() > 3, "{with_structures:?}");
    for name in with_structures {
        let is_hit = table.0.keys().any(|(_, _, hits)| hits.contains(name));
        assert!(is_hit, "nothing of `{name}` was hit");
    }
}

/// Lost bytes can be written again, and are there when the volume is opened once more. Not where
/// one bad sector takes two copies that lie in neighbouring pages smaller than it, nor where the
/// only slot of a buffer is bad, nor where a layer's own area lies in another's bad page.
#[test]
fn a_volume_is_refused_only_if_every_copy_is_bad_and_can_be_used_on() {
    let all = with_copies_apart();
    assert!(all.len() > 40, "{}", all.len());
    let table = tried(&all);
    let is_wrong = |row: &Row| row.refused_with_copies + row.unusable > 0;
    let wrong: Vec<_> = table.0.iter().filter(|(_, row)| is_wrong(row)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Regression: a volume that was used and closed could not be opened again if neither copy of the
/// summary behind its last one could be read.
#[test]
fn a_volume_that_opens_without_any_copy_of_a_structure_can_be_used_and_closed() {
    let table = tried_if(&with_copies_apart(), |case| case.how == How::EveryCopy);
    let opened: u64 = table.0.values().map(|row| row.opened).sum();
    assert!(opened > 500, "{opened}");
    let unusable: Vec<_> = table.0.iter().filter(|(_, row)| row.unusable > 0).collect();
    assert!(unusable.is_empty(), "{unusable:#?}");
}

/// Also on a drive that has bad places before the volume is made. Not where summaries lie in
/// segments: neighbouring bad pages behind the last one may be both copies of another.
#[test]
fn a_volume_is_made_over_places_that_cannot_be_read() {
    let has_ring = |subject: &Subject| !subject.to_string().contains("summaries=segments");
    for subject in with_copies_apart().into_iter().filter(has_ring) {
        let placed = subject.structures(1).unwrap();
        let of_layers = placed.iter().filter(|one| !one.region.is_data);
        let regions: Vec<_> = of_layers.map(|one| one.region.bytes.clone()).collect();
        let device = Damaged::new(subject.limits(), vec![0; subject.device_bytes as usize]);
        Damage::Sectors(regions).done_to(&device);
        subject.format(1, &mut Immediate::new(device.clone())).unwrap();
        of_subject(&subject, 1)(&device).unwrap_or_else(|reason| panic!("{subject}: {reason}"));
    }
}

const LOG: &str = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8)";

/// Gives a device of which a volume takes the first half.
fn device_with_room() -> (Damaged, Damaged) {
    let limits = Limits { capacity_bytes: 256 << 10, sector_bytes: 512, most_bytes: 64 << 10 };
    let device = Damaged::new(limits, vec![0; limits.capacity_bytes as usize]);
    let half = device.part(0..128 << 10);
    layers::format(LOG, &Facts::default(), 1, &mut Immediate::new(half.clone())).unwrap();
    (device, half)
}

#[test]
fn a_volume_is_resized_over_places_that_cannot_be_read() {
    let (device, half) = device_with_room();
    let (facts, limits) = (Facts::default(), device.limits());
    let changes =
        layers::resize(LOG, &facts, 1, &mut Immediate::new(half), limits.capacity_bytes).unwrap();
    let placed = layers::structures(LOG, &facts, 1, limits).unwrap();
    placed.iter().filter(|one| !one.region.is_data).for_each(|one| device.spoil(&one.region.bytes));
    let mut whole = Immediate::new(device);
    let mut disk = Store::new(&mut whole);
    for change in changes {
        match change {
            Change::Zero { at, bytes } => disk.write(at, &vec![0; bytes as usize]).unwrap(),
            Change::Put { at, data } => disk.write(at, &data).unwrap(),
            Change::Copy { from, to, bytes } => {
                let mut held = vec![0; bytes as usize];
                disk.read(from, &mut held).unwrap();
                disk.write(to, &held).unwrap();
            }
        }
    }
    layers::open(LOG, &facts, 1, &mut whole).map(|_| ()).unwrap();
}

#[test]
fn an_area_is_laid_out_over_places_that_cannot_be_read() {
    let (device, half) = device_with_room();
    let alone = Facts::default();
    let both = Facts { staging_offset: Some(128 << 10), ..Facts::default() };
    let area = layers::area_of(LOG, &alone, 1, &mut Immediate::new(half)).unwrap();
    device.spoil(&(128 << 10..256 << 10));
    let mut whole = Immediate::new(device);
    layers::lay_area(LOG, &both, 1, &mut whole, &area).unwrap();
    layers::open(LOG, &both, 1, &mut whole).map(|_| ()).unwrap();
}

/// Gives the stacks of one layer of which no damage hits two structures.
fn with_copies_apart() -> Vec<Subject> {
    let is_meant = |subject: &Subject| {
        let text = subject.to_string();
        let has_small_pages = text.contains("summaries=segments") && text.contains("page=");
        !text.contains('|') && !text.contains("size=2Ki") && !has_small_pages
    };
    subjects().into_iter().filter(is_meant).collect()
}

/// With the idea taken out: a volume that gives zeros, or anything, for what it cannot read.
#[test]
fn bytes_that_were_never_written_or_are_older_are_found() {
    let subject = Subject::registered("direct", 64 << 10, 512);
    let made = Made::of_subject(&subject, State::Closed, 1).unwrap();
    let open = of_subject(&subject, 1);
    let nothing = Damage::Sectors(Vec::new());
    for (byte, reason) in [(0x55, "something that no write gave"), (0, "held earlier")] {
        let other = |_: &Damaged| open(&Damaged::new(subject.limits(), vec![byte; 64 << 10]));
        let fault = made.try_case(&nothing, &other).fault().unwrap();
        assert!(fault.contains(reason), "{fault}");
    }
    let panics = |_: &Damaged| -> Result<Box<dyn Opened>, String> { panic!("on purpose") };
    assert!(made.try_case(&nothing, &panics).fault().unwrap().contains("on purpose"));
    let lost = made.try_case(&"sectors:4096+1024".parse().unwrap(), &open);
    assert_eq!((lost.lost_bytes, lost.fault(), lost.unusable), (1024, None, None));
}

/// Each structure of a layer lies within what is below it, and no two overlap.
#[test]
fn structures_do_not_overlap_and_are_on_the_device() {
    for subject in subjects() {
        let mut placed = subject.structures(1).unwrap();
        placed.retain(|one| !one.region.is_data);
        placed.sort_by_key(|one| one.region.bytes.start);
        for one in &placed {
            assert!(one.region.bytes.end <= subject.device_bytes, "{subject}: {one:?}");
        }
        for pair in placed.windows(2) {
            let (end, next) = (pair[0].region.bytes.end, pair[1].region.bytes.start);
            assert!(end <= next, "{subject}: {pair:?}");
        }
    }
}
