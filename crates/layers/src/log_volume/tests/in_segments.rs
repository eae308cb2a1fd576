//! Summaries in the segments: where they lie, and what is found of them.

use std::collections::BTreeMap;

use bytes::Buf as _;
use units::IoOp;

use super::harness::{Disk, World, disk};
use super::rot::{Volume, content, structures};
use super::{HOT, KIB, data_writes};
use crate::driver::through;
use crate::{Facts, LayerError};

const VOLUME: &str =
    "log_volume(page=1Ki,segment=32Ki,over_provisioning=60%,summary_pages=80,summaries=segments)";
const PAGE: usize = KIB as usize;

/// More than two segments full, each page and its commit.
const WRITES: u64 = 24;

fn written() -> Volume {
    let mut volume = Volume::new(VOLUME);
    for page in 0..WRITES {
        volume.write(page % 6, page);
        volume.flush();
    }
    volume
}

/// Where summaries lie, all copies of each, in their order.
fn summaries(volume: &Volume) -> Vec<Vec<usize>> {
    let mut found: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for at in structures(&volume.disk, b"FWLOGSUM") {
        let number = (&volume.disk.bytes[at + 32..at + 40]).get_u64_le();
        found.entry(number).or_default().push(at);
    }
    found.into_values().collect()
}

#[test]
fn what_a_commit_writes_follows_what_was_written_before() {
    let mut world = World::new(VOLUME, 512 * KIB, 3);
    for page in [7, 3, 90, 12, 50, 4] {
        world.submit(IoOp::Write, page * KIB, KIB, false);
        world.submit(IoOp::Flush, 0, 0, false);
        world.settle();
    }
    let writes = data_writes(&world, 0);
    assert_eq!(writes.iter().map(|&(_, length)| u64::from(length)).sum::<u64>(), 18 * KIB);
    let follow = |pair: &[(u64, u32)]| pair[0].0 + u64::from(pair[0].1) == pair[1].0;
    assert!(writes.windows(2).all(follow), "{writes:?}");
}

#[test]
fn all_is_found_again_from_segment_to_segment() {
    let mut volume = written();
    assert!(summaries(&volume).len() as u64 >= WRITES, "and one more where a segment ends");
    volume.open_again().unwrap();
    for page in 0..6 {
        let newest = (0..WRITES).rfind(|version| version % 6 == page).unwrap();
        assert_eq!(volume.read(page).unwrap(), content(page, newest));
    }
}

/// Also that in the last page of a segment, without which nothing says where the log went on.
#[test]
fn a_summary_that_rots_though_it_was_durable_is_said() {
    let mut volume = written();
    let places = summaries(&volume);
    let is_last = |at: &usize| (at / PAGE) % 32 == 31;
    let (last, others) = places.split_last().unwrap();
    assert_eq!(others.iter().flatten().filter(|at| is_last(at)).count(), 2);
    for copies in others {
        let flip = |volume: &mut Volume| {
            copies.iter().for_each(|at| volume.disk.bytes[at + 90] ^= 1);
        };
        flip(&mut volume);
        let found = volume.open_again();
        assert!(
            matches!(found, Err(LayerError::Corrupt { .. })),
            "{copies:?}: {found:?} {places:?}"
        );
        flip(&mut volume);
    }
    // One copy is enough, of each, and so it is if one cannot be read.
    for &at in places.iter().flatten() {
        let mut rotten = volume.disk.clone();
        rotten.bytes[at + 90] ^= 1;
        let mut unreadable = volume.disk.clone();
        unreadable.unreadable = at..at + 1;
        for mut disk in [rotten, unreadable] {
            assert_eq!(read_all(&mut disk), expected(), "{at}, the last ones at {last:?}");
        }
    }
}

fn read_all(disk: &mut Disk) -> Vec<Vec<u8>> {
    let mut stack = crate::open(VOLUME, &Facts::default(), 1, disk).unwrap();
    let mut all = vec![0; 6 * PAGE];
    through(&mut stack, disk, |store| store.read(0, &mut all)).unwrap();
    all.chunks(PAGE).map(<[u8]>::to_vec).collect()
}

fn expected() -> Vec<Vec<u8>> {
    let newest = |page| (0..WRITES).rfind(|version| version % 6 == page).unwrap();
    (0..6).map(|page| content(page, newest(page))).collect()
}

/// A page that is read on the way to the summaries is not needed for that, but for one behind the
/// last: that may be a summary.
#[test]
fn a_page_that_cannot_be_read_hides_no_summary() {
    let mut volume = written();
    let superseded = volume.place_of(1, 1);
    volume.disk.unreadable = superseded..superseded + 1;
    volume.open_again().unwrap();
    let mut volume = written();
    let last = summaries(&volume).pop().unwrap();
    volume.disk.unreadable = last[0]..last[1] + 1;
    assert!(volume.open_again().is_err());
}

/// The oldest segments are full of what nobody writes: cleaning one gains nothing, and writes
/// summaries beside.
#[test]
fn full_segments_in_a_row_do_not_use_up_what_cleaning_needs() {
    let text = "log_volume(page=512,segment=16Ki,over_provisioning=70%,summary_pages=32,\
                summaries=segments,filled=yes,victim=lru)";
    let mut world = World::new(text, 1024 * KIB, 9);
    (0..20_000).for_each(|_| world.play(HOT));
    world.settle();
}

#[test]
fn more_than_one_stream_is_refused_and_so_are_segments_without_room() {
    for (text, said) in [
        (VOLUME.replace("summary", "placement=separate,summary"), "give placement=none"),
        (VOLUME.replace("60%", "20%"), "has 4.7 to spare"),
        (VOLUME.replace("32Ki", "8Ki"), "a segment of 8 pages"),
    ] {
        let error = crate::format(&text, &Facts::default(), 1, &mut disk(512 * KIB)).unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
}
