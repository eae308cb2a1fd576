//! The short form of `examples/bad_sectors.rs`: a few cases of each stack, others each time.

use faults::Subject;
use faults::bad_sectors::{
    Damage, Damaged, Made, Opened, Row, State, Table, Wanted, cases, of_subject, subjects,
};

/// Number of cases of which one is tried.
const OF: usize = 40;

/// Tries the cases of a few stacks; a fault fails the test.
fn tried(all: &[Subject]) -> Table {
    let (mut table, mut number) = (Table::default(), 0);
    for subject in all {
        for state in State::ALL {
            let made = Made::of_subject(subject, state, 1).unwrap_or_else(|wrong| {
                panic!("{subject}, {}: {}", state.name(), wrong.0);
            });
            let placed = subject.structures(1).unwrap();
            let open = of_subject(subject, 1);
            let wanted = Wanted { with_sectors: true, flips: 20 };
            for case in cases(&made, &placed, wanted, 1) {
                number += 1;
                if number % OF != 0 {
                    continue;
                }
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
    for entry in layers::LAYERS.iter().filter(|entry| entry.info.name != "scheduler") {
        let is_hit = table.0.keys().any(|(_, _, hits)| hits.contains(entry.info.name));
        assert!(is_hit, "nothing of `{}` was hit", entry.info.name);
    }
}

/// Lost bytes can be written again, and are there when the volume is opened once more. Not where
/// one bad sector takes two copies that lie in neighbouring pages smaller than it, nor where the
/// only slot of a buffer is bad, nor where a layer's own area lies in another's bad page.
#[test]
fn a_volume_is_refused_only_if_every_copy_is_bad_and_can_be_used_on() {
    let is_meant = |subject: &Subject| {
        let text = subject.to_string();
        let has_small_pages = text.contains("summaries=segments") && text.contains("page=");
        !text.contains('|') && !text.contains("size=2Ki") && !has_small_pages
    };
    let all: Vec<Subject> = subjects().into_iter().filter(is_meant).collect();
    assert!(all.len() > 40, "{}", all.len());
    let table = tried(&all);
    let is_wrong = |row: &Row| row.refused_with_copies + row.unusable > 0;
    let wrong: Vec<_> = table.0.iter().filter(|(_, row)| is_wrong(row)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
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
