//! Summaries in the segments: where they lie, and what is found of them.

use bytes::Buf as _;
use units::IoOp;

use super::harness::{World, disk};
use super::rot::{Volume, content, structures};
use super::{HOT, KIB, data_writes};
use crate::{Facts, LayerError};

const VOLUME: &str =
    "log_volume(page=1Ki,segment=16Ki,over_provisioning=60%,summary_pages=40,summaries=segments)";
const PAGE: usize = KIB as usize;

/// More than two segments full, each page and its commit.
fn written() -> Volume {
    let mut volume = Volume::new(VOLUME);
    for page in 0..20 {
        volume.write(page % 6, page);
        volume.flush();
    }
    volume
}

#[test]
fn what_a_commit_writes_follows_what_was_written_before() {
    let mut world = World::new(VOLUME, 256 * KIB, 3);
    for page in [7, 3, 90, 12, 50, 4] {
        world.submit(IoOp::Write, page * KIB, KIB, false);
        world.submit(IoOp::Flush, 0, 0, false);
        world.settle();
    }
    let writes = data_writes(&world, 0);
    assert_eq!(writes.iter().map(|&(_, length)| u64::from(length)).sum::<u64>(), 12 * KIB);
    let follow = |pair: &[(u64, u32)]| pair[0].0 + u64::from(pair[0].1) == pair[1].0;
    assert!(writes.windows(2).all(follow), "{writes:?}");
}

#[test]
fn all_is_found_again_from_segment_to_segment() {
    let mut volume = written();
    assert_eq!(structures(&volume.disk, b"FWLOGSUM").len(), 20);
    volume.open_again().unwrap();
    for page in 0..6 {
        let newest = (0..20).rfind(|version| version % 6 == page).unwrap();
        assert_eq!(volume.read(page).unwrap(), content(page, newest));
    }
}

/// Also that in the last page of a segment, without which nothing says where the log went on.
#[test]
fn a_summary_that_rots_though_it_was_durable_is_said() {
    let mut volume = written();
    let mut places = structures(&volume.disk, b"FWLOGSUM");
    places.sort_by_key(|&at| (&volume.disk.bytes[at + 32..at + 40]).get_u64_le());
    let (_, others) = places.split_last().unwrap();
    assert_eq!(others.iter().filter(|&at| (at / PAGE) % 16 == 15).count(), 2);
    for &at in others {
        volume.disk.bytes[at + 90] ^= 1;
        let found = volume.open_again();
        assert!(matches!(found, Err(LayerError::Corrupt { .. })), "{at}");
        volume.disk.bytes[at + 90] ^= 1;
    }
    volume.open_again().unwrap();
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
    let places = structures(&volume.disk, b"FWLOGSUM");
    let number = |at: &&usize| (&volume.disk.bytes[**at + 32..**at + 40]).get_u64_le();
    let last = *places.iter().max_by_key(number).unwrap();
    volume.disk.unreadable = last..last + 1;
    assert!(volume.open_again().is_err());
}

/// The oldest segments are full of what nobody writes: cleaning one gains nothing, and writes
/// summaries beside.
#[test]
fn full_segments_in_a_row_do_not_use_up_what_cleaning_needs() {
    let text = "log_volume(page=512,segment=8Ki,over_provisioning=60%,summary_pages=32,\
                summaries=segments,filled=yes,victim=lru)";
    let mut world = World::new(text, 1024 * KIB, 9);
    (0..20_000).for_each(|_| world.play(HOT));
    world.settle();
}

#[test]
fn more_than_one_stream_is_refused_and_so_are_segments_without_room() {
    for (text, said) in [
        (VOLUME.replace("summary", "placement=separate,summary"), "give placement=none"),
        (VOLUME.replace("60%", "20%"), "has 2.3 to spare"),
        (VOLUME.replace("16Ki", "8Ki"), "a segment of 8 pages"),
    ] {
        let error = crate::format(&text, &Facts::default(), 1, &mut disk(256 * KIB)).unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
}
