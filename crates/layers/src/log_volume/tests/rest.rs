//! Tests of idle time, and of segments that are trimmed below.

use units::IoOp;

use super::harness::World;
use super::{HOT, KIB, OFTEN, RARE, campaign, cut_when_full};
use crate::Facts;
use crate::driver::through;

const VOLUME: &str = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=separate,\
                      summary_pages=16,trim=yes,idle_clean=1us)";

/// A trim is carried out as harshly as possible: its bytes are zeros at once, durably.
#[test]
fn neither_reads_nor_recovery_need_what_was_trimmed_below() {
    for seed in 0..6 {
        campaign(VOLUME, seed, 4000, 0.01, if seed % 2 == 0 { RARE } else { OFTEN });
    }
    for seed in 0..4 {
        cut_when_full(
            "log_volume(page=512,segment=2Ki,over_provisioning=OP%,placement=none,summary_pages=8,\
             trim=yes)",
            seed,
            HOT,
            300,
            40,
        );
    }
}

#[test]
fn a_freed_segment_is_trimmed_below_and_written_to_again_only_after_that() {
    let mut world = World::new(VOLUME, 256 * KIB, 3);
    world.fill();
    let pages = world.capacity() / KIB;
    for number in 0..8 * pages {
        world.submit(IoOp::Write, number * 7 % pages * KIB, KIB, false);
        world.settle();
    }
    let trims: Vec<(usize, u64)> = (0..)
        .zip(&world.sent)
        .filter(|(_, (op, ..))| *op == IoOp::Trim)
        .map(|(place, (_, offset, _))| (place, *offset))
        .collect();
    assert!(
        trims.len() > 50 && trims.len() as u64 == world.counter("segment_trims"),
        "{} trims",
        trims.len()
    );
    assert!(
        world
            .sent
            .iter()
            .filter(|(op, ..)| *op == IoOp::Trim)
            .all(|(_, offset, length)| offset % (8 * KIB) == 0 && *length == 8192)
    );
    // With a pause after each command, a trim has ended before the next command is sent: between
    // two trims of one segment it was written to.
    let &(first, offset) = &trims[0];
    let &(second, _) =
        trims[1..].iter().find(|(_, other)| *other == offset).expect("it is freed again");
    assert!(
        world.sent[first..second].iter().any(|(op, at, _)| *op == IoOp::Write && *at == offset)
    );
    assert_eq!(world.counter("failed_trims"), 0);
}

#[test]
fn a_trim_that_fails_is_counted_and_no_more() {
    let mut world = World::new(VOLUME, 256 * KIB, 3);
    world.fill();
    world.fails_after = Some((IoOp::Trim, 0));
    let pages = world.capacity() / KIB;
    (0..4 * pages).for_each(|number| {
        world.submit(IoOp::Write, number * 7 % pages * KIB, KIB, false);
        world.settle();
    });
    assert!(
        !world.has_failed
            && world.counter("failed_trims") > 10
            && world.counter("failed_trims") == world.counter("segment_trims")
    );
    world.fails_after = None;
    world.cut();
}

#[test]
fn it_cleans_ahead_while_nothing_is_to_be_done_and_only_then() {
    let text = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=separate,\
                summary_pages=16,idle_clean=1s,idle_free=60%)";
    let mut world = World::new(text, 512 * KIB, 3);
    world.fill();
    let pages = world.capacity() / KIB;
    let write = |world: &mut World| {
        let page = rand::RngExt::random_range(&mut world.random, 0..pages);
        world.submit(IoOp::Write, page * KIB, KIB, false);
        world.settle();
    };
    (0..4 * pages).for_each(|_| write(&mut world));
    let before = world.counter("segments_free");
    assert_eq!(world.counter("idle_cleanings"), 0);
    let at = world.stack.wakes_at().expect("there is something to clean");
    assert!(
        (999_999_000..=1_000_000_000).contains(&(at - world.time)),
        "a second after the last command"
    );
    write(&mut world);
    assert!(world.stack.wakes_at().is_some_and(|later| later > at), "a command puts it off");
    assert!(world.wake());
    world.settle();
    assert!(world.counter("idle_cleanings") > 5);
    let after = world.counter("segments_free");
    assert!(
        after > before + 5 && world.counter("segments_held") == 0,
        "{before} segments were free, and now {after}"
    );
    assert!(!world.wake(), "there is no more to be done");
    // Segments that were cleaned ahead need not be cleaned while the host writes.
    let cleanings = world.counter("cleanings");
    (0..5 * 8).for_each(|_| write(&mut world));
    assert_eq!(world.counter("cleanings"), cleanings);
    world.cut();
}

#[test]
fn by_default_it_never_wakes() {
    let mut world = World::new(
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=16)",
        256 * KIB,
        3,
    );
    world.fill();
    (0..3000).for_each(|_| {
        world.play(RARE);
        assert!(!world.wake());
    });
}

/// Regression: the same page lay there once, so the rest of a trim was taken for a write that a
/// power cut took, and was gone at the next read.
#[test]
fn what_seems_to_be_there_after_a_trim_is_there_from_then_on() {
    let mut world = World::new(VOLUME, 256 * KIB, 3);
    world.submit(IoOp::Write, 3 * KIB, KIB, false);
    world.submit(IoOp::Flush, 0, 0, false);
    let mut disk = world.write_all();
    let page: Vec<u8> = (0..KIB / 8).flat_map(|_| 1_u64.to_le_bytes()).collect();
    let places: Vec<u64> = (0..256)
        .map(|number| number * KIB)
        .filter(|&at| disk.bytes[at as usize..(at + KIB) as usize] == page)
        .collect();
    assert_eq!(places.len(), 1, "where it lies");
    disk.fading.insert(places[0], false);
    let mut stack = crate::open(VOLUME, &Facts::default(), 3, &mut disk).unwrap();
    let mut bytes = vec![0; KIB as usize];
    through(&mut stack, &mut disk, |store| store.read(3 * KIB, &mut bytes)).unwrap();
    assert!(bytes == page);
}
