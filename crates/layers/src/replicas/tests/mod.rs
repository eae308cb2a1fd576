//! Each idea of the layer, alone; and histories of all of them together.

mod errors;
mod histories;
mod register;
mod world;

use units::IoOp;

use self::world::{LIMITS, World, after, never};
use crate::replicas::geometry::Geometry;
use crate::{Command, Data, LayerError};

/// Five milliseconds of patience, four partitions.
const TEXT: &str = "replicas(partitions=4,page=4Ki,budget=20%,patience=5ms)";
const MS: u64 = 1_000_000;
const PAGE: usize = 4096;

fn geometry(budget: f64) -> Geometry {
    Geometry::new(LIMITS, 4, 4096, budget).unwrap()
}

/// Writes to home take so long, all else 10 us.
fn slow_home_writes(world: &mut World, time: u64) {
    let geometry = geometry(0.2);
    world.fate = Box::new(move |command| {
        let is_slow = command.op == IoOp::Write && is_home(&geometry, command.offset);
        after(if is_slow { time } else { 10_000 })
    });
}

fn is_home(geometry: &Geometry, offset: u64) -> bool {
    offset >= geometry.head_bytes
        && (offset - geometry.head_bytes) % geometry.partition_bytes < geometry.home_bytes
}

fn partition(geometry: &Geometry, offset: u64) -> u64 {
    (offset - geometry.head_bytes) / geometry.partition_bytes
}

/// A volume whose first page has a replica: its write was blocked.
fn with_replica(text: &str) -> World {
    let mut world = World::new(text);
    slow_home_writes(&mut world, 20 * MS);
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    world.settle();
    world.fate = Box::new(|_| after(10_000));
    assert_eq!((world.count("replicas"), world.count("behind_pages")), (1, 0));
    world
}

#[test]
fn a_blocked_write_is_written_elsewhere_and_the_first_that_ends_replies() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    slow_home_writes(&mut world, 20 * MS);
    let id = world.write(8192, &[7; PAGE]);
    let (at, outcome) = world.wait(id);
    outcome.unwrap();
    assert_eq!(at, 5 * MS + 10_000, "the patience, and the other place");
    let sent = world.sent_since(0, IoOp::Write);
    assert_eq!(sent[0], geometry.home_offset(8192));
    assert!(sent.len() == 2 && !is_home(&geometry, sent[1]));
    assert_ne!(partition(&geometry, sent[1]), 0, "in a partition that does not have the page");
    // What is at home is older until its write ends: the replica is read.
    assert_eq!(world.count("behind_pages"), 1);
    assert_eq!(world.byte(8192), 7);
    assert_eq!(world.sent.last().unwrap().offset, sent[1]);
    world.settle();
    assert_eq!((world.count("rwrite_2"), world.count("extra_writes")), (1, 1));
    assert_eq!((world.count("behind_pages"), world.count("replicas")), (0, 1));
    // One that is not blocked stays alone.
    slow_home_writes(&mut world, 4 * MS);
    let id = world.write(40_960, &[8; PAGE]);
    assert_eq!(world.wait(id).0, world.now);
    assert_eq!((world.count("rwrite_1"), world.count("extra_writes")), (1, 1));
}

/// REPLICATION 4.2.2: no write of a replica delays a request that the partition has.
#[test]
fn a_replica_is_written_when_its_partition_rests() {
    for (epoch, expected) in [("60s", 30 * MS), ("none", 5 * MS)] {
        let text = format!(
            "replicas(partitions=2,page=4Ki,budget=20%,patience=5ms,copies=2,epoch={epoch})"
        );
        let (mut world, geometry) =
            (World::new(&text), Geometry::new(LIMITS, 2, 4096, 0.2).unwrap());
        world.fate =
            Box::new(|command| after(if command.op == IoOp::Read { 30 * MS } else { 50 * MS }));
        world.read(geometry.home_bytes + 8192, 4096);
        world.write(0, &[1; PAGE]);
        world.until(expected - 1);
        assert_eq!(world.sent_since(0, IoOp::Write).len(), 1, "{epoch}");
        world.until(expected);
        assert_eq!(world.sent_since(0, IoOp::Write).len(), 2, "{epoch}");
        // One that comes while the replica is written waits for it.
        world.read(geometry.home_bytes + 8192, 4096);
        world.settle();
        assert_eq!(world.count("interference_ns"), 50 * MS, "{epoch}");
    }
}

/// Its page has another version by the time that its partition rests.
#[test]
fn a_replica_that_is_void_before_it_is_written_is_not_written() {
    let text = "replicas(partitions=2,page=4Ki,budget=20%,patience=5ms,copies=2)";
    let (mut world, geometry) = (World::new(text), Geometry::new(LIMITS, 2, 4096, 0.2).unwrap());
    world.fate =
        Box::new(|command| after(if command.op == IoOp::Read { 300 * MS } else { 20 * MS }));
    world.read(geometry.home_bytes + 8192, 4096);
    world.write(0, &[1; PAGE]);
    world.until(40 * MS);
    assert_eq!((world.count("waiting_replicas"), world.count("behind_pages")), (1, 0));
    world.fate = Box::new(|_| after(10_000));
    let id = world.write(0, &[2; PAGE]);
    world.wait(id).1.unwrap();
    world.settle();
    assert_eq!((world.count("waiting_replicas"), world.count("extra_writes")), (0, 0));
    assert_eq!((world.count("replicas"), world.byte(0)), (0, 2));
}

#[test]
fn a_write_goes_to_as_many_places_as_it_may_and_no_further() {
    for (copies, expected) in [(2, 2), (3, 3), (4, 4)] {
        let text =
            format!("replicas(partitions=4,page=4Ki,budget=20%,patience=5ms,copies={copies})");
        let (mut world, geometry) = (World::new(&text), geometry(0.2));
        world.fate =
            Box::new(
                |command| {
                    if command.op == IoOp::Write { after(100 * MS) } else { after(10_000) }
                },
            );
        let id = world.write(0, &[1; PAGE]);
        assert_eq!(world.wait(id).0, 100 * MS, "home is the first, in spite of all");
        let sent = world.sent_since(0, IoOp::Write);
        assert_eq!(sent.len(), expected);
        let mut partitions: Vec<u64> = sent.iter().map(|&at| partition(&geometry, at)).collect();
        partitions.sort_unstable();
        partitions.dedup();
        assert_eq!(partitions.len(), expected, "no two in one partition");
    }
}

#[test]
fn a_blocked_read_is_asked_of_a_replica_and_the_first_answers() {
    let (mut world, geometry) = (with_replica(TEXT), geometry(0.2));
    let home = geometry.home_offset(0);
    for slow_home in [true, false] {
        world.fate = Box::new(move |command| {
            after(if (command.offset == home) == slow_home { 50 * MS } else { 10_000 })
        });
        // Whichever place is asked first, one of these two reads finds it blocked.
        let (begun, since) = (world.now, world.sent.len());
        let id = world.read(0, 4096);
        let (at, data) = world.wait(id);
        assert_eq!(data.unwrap().joined().unwrap()[..], [1; PAGE]);
        let is_blocked = world.sent_since(since, IoOp::Read).len() == 2;
        assert_eq!(at - begun, if is_blocked { 5 * MS + 10_000 } else { 10_000 });
        world.settle();
    }
    assert_eq!((world.count("rread_1"), world.count("rread_2")), (1, 1));
    assert_eq!((world.count("blocked_reads"), world.count("vain_reads")), (1, 1));
}

#[test]
fn the_place_that_is_blocked_less_is_asked_first_and_of_equal_ones_that_which_rests() {
    let (mut world, geometry) = (with_replica(TEXT), geometry(0.2));
    let home = geometry.home_offset(0);
    // Home was blocked once, by the write; the replica never was.
    let id = world.read(0, 4096);
    world.wait(id).1.unwrap();
    let slot = world.sent.last().unwrap().offset;
    assert_ne!(slot, home);
    // Now the replica is blocked as often.
    world.fate = Box::new(move |command| after(if command.offset == slot { 9 * MS } else { 100 }));
    for _ in 0..8 {
        let id = world.read(0, 4096);
        world.wait(id).1.unwrap();
        world.settle();
    }
    let since = world.sent.len();
    let id = world.read(0, 4096);
    world.wait(id).1.unwrap();
    assert_eq!(world.sent_since(since, IoOp::Read), [home], "it is blocked less by now");
    // Two places that never were blocked: something is under way where one of them is.
    let mut world = World::new("replicas(partitions=2,page=4Ki,budget=20%,patience=5ms,copies=2)");
    let geometry = Geometry::new(LIMITS, 2, 4096, 0.2).unwrap();
    world.fate = Box::new(|_| after(10_000));
    (0..40).for_each(|_| {
        let id = world.write(0, &[1; PAGE]);
        world.wait(id).1.unwrap();
    });
    let home = geometry.home_offset(0);
    world.fate = Box::new(move |command| after(if command.offset == home { 6 * MS } else { 100 }));
    let id = world.write(0, &[2; PAGE]);
    world.wait(id).1.unwrap();
    world.settle();
    world.fate = Box::new(|_| after(10_000));
    for (busy, expected) in [(0, false), (geometry.home_bytes, true)] {
        // The other partition rests, and both were blocked less than once in twenty.
        world.read(busy + 8192, 512);
        world.read(busy + 16_384, 512);
        let since = world.sent.len();
        let id = world.read(0, 4096);
        world.wait(id).1.unwrap();
        let asked = world.sent_since(since, IoOp::Read)[0];
        assert_eq!(asked == home, expected, "busy at {busy}");
        world.settle();
    }
}

#[test]
fn an_update_makes_replicas_void() {
    let mut world = with_replica(TEXT);
    let id = world.write(0, &[2; PAGE]);
    assert_eq!(world.count("replicas"), 0);
    world.wait(id).1.unwrap();
    assert_eq!((world.byte(0), world.count("invalidated")), (2, 1));
    // A part of a page is an update, too.
    let mut world = with_replica(TEXT);
    let id = world.write(512, &[2; 512]);
    assert_eq!((world.count("replicas"), world.count("home_only_pages")), (0, 1));
    world.wait(id).1.unwrap();
    assert_eq!((world.byte(0), world.byte(512), world.byte(1024)), (1, 2, 1));
}

#[test]
fn a_page_that_is_written_again_while_home_is_stuck_goes_elsewhere_at_once() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    slow_home_writes(&mut world, 40 * MS);
    let first = world.write(0, &[1; PAGE]);
    world.until(MS);
    let second = world.write(0, &[2; PAGE]);
    let (at, outcome) = world.wait(second);
    assert_eq!((at, outcome), (MS + 10_000, Ok(Data::Absent)));
    // What is overwritten is done, too.
    assert_eq!(world.reply(first).unwrap().0, MS + 10_000);
    assert_eq!(world.byte(0), 2);
    let flush = world.flush();
    world.settle();
    assert!(world.reply(flush).unwrap().0 >= 80 * MS, "both of its writes to home");
    let homes = world.sent_since(0, IoOp::Write).into_iter().filter(|&at| is_home(&geometry, at));
    assert_eq!(homes.count(), 2, "one after the other");
    assert_eq!(world.media[geometry.home_offset(0) as usize], 2);
    // A part of a page that is still in memory is laid over it.
    slow_home_writes(&mut world, 40 * MS);
    world.write(0, &[3; PAGE]);
    let part = world.write(1024, &[4; 512]);
    world.wait(part).1.unwrap();
    assert_eq!((world.byte(512), world.byte(1024), world.byte(1536)), (3, 4, 3));
    world.settle();
    let home = geometry.home_offset(1024) as usize;
    assert_eq!((world.media[home - 1], world.media[home], world.media[home + 512]), (3, 4, 3));
}

/// Found by `histories`: home is current again while its next version is on its way there, so that
/// a slot of the version before would show less than home does.
#[test]
fn slots_are_void_when_home_can_be_read_and_is_overwritten() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    slow_home_writes(&mut world, 20 * MS);
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let mut fua = Command::write(0, 0, Data::copy_of(&[2; PAGE]));
    fua.is_fua = true;
    world.submit(fua);
    assert_eq!(world.byte(0), 1);
    assert!(!is_home(&geometry, world.sent.last().unwrap().offset));
    // The first is at home, and the second is under way there.
    world.until(21 * MS);
    assert_eq!((world.byte(0), world.count("replicas")), (1, 0));
    assert!(is_home(&geometry, world.sent.last().unwrap().offset));
}

/// Found by `histories`: a read that is stuck at home would see the new version there, and the next
/// one, in a slot, the one before.
#[test]
fn home_is_not_overwritten_while_an_old_read_is_under_way_there() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    world.fate = Box::new(|command| match command.op {
        // It sees what is there when it ends.
        IoOp::Read => after(100 * MS),
        _ => after(10_000),
    });
    let stuck = world.read(0, 4096);
    slow_home_writes(&mut world, 20 * MS);
    world.write(0, &[1; PAGE]);
    world.until(10 * MS);
    assert_eq!(world.byte(0), 1, "in a slot");
    world.write(0, &[2; PAGE]);
    world.until(12 * MS);
    assert_eq!(world.byte(0), 2, "in another one");
    world.write(0, &[3; PAGE]);
    world.until(90 * MS);
    let at_home = world.sent_since(0, IoOp::Write).into_iter().filter(|&at| is_home(&geometry, at));
    assert_eq!(at_home.count(), 1, "the others wait for the read");
    assert_eq!(world.wait(stuck).1.unwrap().joined().unwrap()[0], 1);
    let flush = world.flush();
    world.wait(flush).1.unwrap();
    assert_eq!(world.media[geometry.home_offset(0) as usize], 3);
}

/// The design in one test: what is durable is at home.
#[test]
fn a_flush_waits_for_homes() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    slow_home_writes(&mut world, 20 * MS);
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let flush = world.flush();
    world.until(19 * MS);
    assert!(world.reply(flush).is_none() && world.sent_since(0, IoOp::Flush).is_empty());
    // What comes later it does not wait for.
    world.write(65_536, &[2; PAGE]);
    let (at, outcome) = world.wait(flush);
    assert_eq!((at, outcome), (20 * MS + 10_000, Ok(Data::Absent)));
    assert_eq!(world.media[geometry.home_offset(0) as usize], 1);
    world.reopen();
    assert_eq!((world.byte(0), world.count("replicas")), (1, 0));
}

#[test]
fn fua_goes_home_alone() {
    let mut world = World::new(TEXT);
    slow_home_writes(&mut world, 20 * MS);
    let mut command = Command::write(0, 0, Data::copy_of(&[1; PAGE]));
    command.is_fua = true;
    let id = world.submit(command.clone());
    assert_eq!(world.wait(id).0, 20 * MS);
    assert!(world.sent.len() == 1 && world.sent[0].is_fua);
    // Also past what is stuck there: it is replied to when home has it durably.
    let first = world.write(0, &[2; PAGE]);
    world.until(21 * MS);
    command.data = Data::copy_of(&[3; PAGE]);
    let fua = world.submit(command);
    assert_eq!(world.wait(fua).0, 60 * MS);
    assert!(world.reply(first).unwrap().0 <= 40 * MS);
    assert!(world.sent.last().unwrap().is_fua);
    assert_eq!(world.count("home_only_pages"), 2);
}

/// A page without replicas is read at home; now and then that takes 20 ms.
fn read_often(world: &mut World, blocked: impl Fn(u32) -> bool) {
    for number in 0..24 {
        let time = if blocked(number) { 20 * MS } else { 10_000 };
        world.fate =
            Box::new(move |command| after(if command.op == IoOp::Read { time } else { 10_000 }));
        let id = world.read(4096, 4096);
        world.wait(id).1.unwrap();
        world.settle();
    }
}

#[test]
fn a_blocked_read_makes_a_replica_if_the_page_is_blocked_often() {
    let mut world = World::new(TEXT);
    let id = world.write(4096, &[5; PAGE]);
    world.wait(id).1.unwrap();
    world.settle();
    read_often(&mut world, |number| number == 10);
    assert_eq!(world.count("read_replicas"), 0, "one in ten, and none before");
    read_often(&mut world, |number| number == 10);
    assert_eq!(world.count("read_replicas"), 0, "one in 35 before");
    read_often(&mut world, |number| number > 20);
    assert_eq!((world.count("read_replicas"), world.count("replicas")), (1, 1));
    assert_eq!(world.byte(4096), 5);
}

/// A write that came meanwhile has made void what was read.
#[test]
fn what_was_read_is_no_replica_of_what_was_written_since() {
    let text = "replicas(partitions=4,page=4Ki,budget=20%,patience=5ms,read_threshold=0)";
    let mut world = World::new(text);
    world.fate = Box::new(|command| {
        let fate = after(20 * MS);
        if command.op == IoOp::Read { world::Fate { effect: 10, ..fate } } else { after(10_000) }
    });
    let read = world.read(4096, 4096);
    world.until(world.now + MS);
    let write = world.write(4096, &[9; PAGE]);
    world.wait(write).1.unwrap();
    assert_eq!(world.wait(read).1.unwrap().joined().unwrap()[0], 0, "it was there before");
    assert_eq!((world.count("read_replicas"), world.count("blocked_reads")), (0, 1));
    world.settle();
    assert_eq!(world.byte(4096), 9);
}

#[test]
fn when_there_is_no_room_others_give_up_theirs() {
    // One slot in each partition.
    let (mut world, geometry) = (
        World::new("replicas(partitions=4,page=4Ki,budget=0.1%,patience=5ms,copies=2)"),
        geometry(0.001),
    );
    assert_eq!(geometry.slots_each(), 1);
    world.fate = Box::new(move |command| {
        let is_slow = command.op == IoOp::Write && is_home(&geometry, command.offset);
        after(if is_slow { 20 * MS } else { 10_000 })
    });
    for page in 0..12 {
        let id = world.write(page * 4096, &[page as u8 + 1; PAGE]);
        world.wait(id).1.unwrap();
        world.settle();
    }
    assert_eq!((world.count("rwrite_2"), world.count("given_up")), (12, 0));
    assert_eq!((world.count("replicas"), world.count("evicted")), (3, 9));
    let (map, empty) = (world.count("map_bytes"), World::new(TEXT).count("map_bytes"));
    assert!((map - empty) / 3 < 640 + 2072, "{} bytes: three pages, a chunk each", map - empty);
    // Nobody gives up what is not at home: who is blocked later finds no room.
    for page in 0..12 {
        world.write(page * 4096, &[77; PAGE]);
        world.until(world.now + if page == 2 { 6 * MS } else { 0 });
    }
    assert_eq!(world.count("behind_pages"), 3);
    world.until(world.now + 6 * MS);
    assert_eq!((world.count("given_up"), world.count("behind_pages")), (9, 3));
    assert!((0..3).all(|page| world.byte(page * 4096) == 77));
    world.settle();
    assert!((0..12).all(|page| world.byte(page * 4096) == 77));
}

#[test]
fn so_many_pages_are_behind_and_no_more() {
    let mut world = World::new("replicas(partitions=4,page=4Ki,budget=20%,patience=5ms,behind=2)");
    slow_home_writes(&mut world, 50 * MS);
    for page in 0..5 {
        world.write(page * 4096, &[1; PAGE]);
        world.until((page + 1) * 6 * MS);
    }
    assert_eq!((world.count("behind_pages"), world.count("given_up")), (2, 3));
    world.settle();
    assert_eq!((world.count("behind_pages"), world.replies.len()), (0, 5));
}

#[test]
fn a_trim_waits_for_homes_and_writes_wait_for_it() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    slow_home_writes(&mut world, 20 * MS);
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let trim = world.trim(0, 1 << 19);
    let held = world.write(0, &[2; PAGE]);
    let other = world.write(700 << 10, &[3; PAGE]);
    world.until(19 * MS);
    let trims = world.sent_since(0, IoOp::Trim);
    assert!(
        !trims.contains(&geometry.home_offset(0)),
        "that of the other partition waits for none"
    );
    assert!(world.reply(other).is_some() && world.reply(held).is_none());
    let (at, outcome) = world.wait(trim);
    assert_eq!((at, outcome), (20 * MS + 10_000, Ok(Data::Absent)));
    assert_eq!(world.count("replicas"), 1, "that of the page that was not trimmed");
    let trims = world.sent_since(0, IoOp::Trim);
    assert_eq!(trims.len(), (1_u64 << 19).div_ceil(geometry.home_bytes) as usize);
    world.wait(held).1.unwrap();
    assert_eq!((world.byte(0), world.byte(4096), world.count("held_writes")), (2, 0, 1));
}

#[test]
fn long_commands_stay_whole_and_go_home() {
    let (mut world, geometry) = (with_replica(TEXT), geometry(0.2));
    let bytes: Vec<u8> = (0..65_536_u32).map(|at| (at / 4096) as u8 + 1).collect();
    slow_home_writes(&mut world, 20 * MS);
    let since = world.sent.len();
    let id = world.write(0, &bytes);
    world.wait(id).1.unwrap();
    assert_eq!(world.sent_since(since, IoOp::Write), [geometry.home_offset(0)]);
    let id = world.read(0, 65_536);
    assert_eq!(world.wait(id).1.unwrap().joined().unwrap(), bytes);
    assert_eq!(world.sent_since(since, IoOp::Read), [geometry.home_offset(0)]);
    // Over the end of a partition they become two.
    let since = world.sent.len();
    let id = world.write(geometry.home_bytes - 8192, &bytes[..16_384]);
    world.wait(id).1.unwrap();
    let id = world.read(geometry.home_bytes - 8192, 16_384);
    assert_eq!(world.wait(id).1.unwrap().joined().unwrap(), bytes[..16_384]);
    assert_eq!(world.sent_since(since, IoOp::Read).len(), 4, "two, and those with a replica alone");
}

/// Pages with replicas among pages without: their bytes come in the order of their places.
#[test]
fn a_read_over_pages_of_all_kinds_brings_them_in_order() {
    let mut world = World::new(TEXT);
    for page in [0, 1, 2, 3, 5, 4_u64] {
        slow_home_writes(&mut world, if page % 2 == 0 { 20 * MS } else { 1 });
        let id = world.write(page * 4096, &[page as u8 + 1; PAGE]);
        world.wait(id).1.unwrap();
        if page != 4 {
            world.settle();
        }
    }
    assert_eq!((world.count("replicated_pages"), world.count("behind_pages")), (3, 1));
    let id = world.read(512, 5 * 4096);
    let data = world.wait(id).1.unwrap().joined().unwrap();
    let expected = |at: usize| ((512 + at) / PAGE) as u8 + 1;
    assert!(data.iter().enumerate().all(|(at, &byte)| byte == expected(at)));
}

/// Twice what a write takes normally, once that is known, and for writes alone.
#[test]
fn writes_are_calibrated_before_any_of_them_is_blocked() {
    let mut world = World::new("replicas(partitions=4,page=4Ki,budget=20%)");
    let mut number = 0_u64;
    world.fate = Box::new(move |_| {
        number += 1;
        after(if number.is_multiple_of(50) { 20 * MS } else { 300_000 })
    });
    for page in 0..512_u64 {
        assert_eq!(world.count("write_patience_ns"), 0, "nothing is known before");
        let id = world.write(page % 60 * 8192, &[1; PAGE]);
        world.wait(id).1.unwrap();
    }
    let known = world.count("write_patience_ns");
    assert!((600_000..700_000).contains(&known), "{known}");
    assert_eq!((world.count("blocked_writes"), world.count("read_patience_ns")), (0, 0));
    for page in 0..100_u64 {
        let id = world.write(page % 60 * 8192, &[2; PAGE]);
        world.wait(id).1.unwrap();
    }
    assert!(world.count("blocked_writes") > 0, "those that take 20 ms");
    assert_eq!(world.count("write_patience_ns"), known);
}

#[test]
fn one_sound_superblock_mends_the_other() {
    for sector in [0, geometry(0.1).second_superblock() as usize] {
        let mut world = World::new("replicas(partitions=4,page=4Ki,budget=20%)");
        world.media[sector..sector + 512].fill(0xee);
        world.reopen();
        assert_eq!(world.media[..512], world.media[world.media_second()..][..512], "mended");
    }
}

impl World {
    fn media_second(&self) -> usize {
        geometry(0.1).second_superblock() as usize
    }
}

#[test]
fn what_is_not_there_or_otherwise_is_refused_in_one_line() {
    let mut world = World::new(TEXT);
    let error = world
        .reopen_as("replicas(partitions=8,page=4Ki,budget=20%)")
        .expect_err("other partitions")
        .to_string();
    assert_eq!(
        error,
        "`replicas`: it was formatted with partitions=4, page=4096 and 49152 bytes of replicas in \
         each of 258048, and is opened with partitions=8, page=4096 and 24576 bytes of replicas in \
         each of 126976"
    );
    let second = geometry(0.2).second_superblock() as usize;
    world.media[3] ^= 1;
    world.media[second + 40] ^= 1;
    assert!(matches!(world.reopen_as(TEXT), Err(LayerError::NotFormatted { offset: 0, .. })));
    let refused = |text: &str| {
        crate::format(text, &crate::Facts::default(), 1, &mut block::Immediate::sparse(LIMITS))
            .expect_err(text)
            .to_string()
    };
    assert!(refused("replicas(partitions=2)").contains("copies=3"));
    assert!(refused("replicas(page=3000)").contains("power of two"));
    assert!(refused("replicas(partitions=512)").contains("4198400 bytes"));
    assert!(refused("replicas(patience=soon)").contains("patience"));
}

/// A device that does not reply at all blocks nobody but a flush.
#[test]
fn a_home_that_never_answers_blocks_nobody_but_the_flush() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    world.fate = Box::new(move |command| {
        let is_stuck = command.op == IoOp::Write && is_home(&geometry, command.offset);
        if is_stuck { never() } else { after(10_000) }
    });
    for round in 1..6 {
        for page in 0..4 {
            let id = world.write(page * 4096, &[round; PAGE]);
            world.wait(id).1.unwrap();
            assert_eq!(world.byte(page * 4096), round);
        }
    }
    let flush = world.flush();
    world.settle();
    assert!(world.reply(flush).is_none() && !world.stack.is_idle());
}
