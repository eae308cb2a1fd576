//! Tests of errors below.

use units::IoOp;

use super::world::{Fate, World, after, failing};
use super::{MS, PAGE, TEXT, geometry, is_home, with_replica};
use crate::{Command, Data, Failure};

/// Sets the fates of writes to home and of writes to slots; all other commands take 10 us.
fn writes(world: &mut World, home: Fate, slot: Fate) {
    let geometry = geometry(0.2);
    world.fate = Box::new(move |command| match command.op {
        IoOp::Write if is_home(&geometry, command.offset) => home,
        IoOp::Write => slot,
        _ => after(10_000),
    });
}

#[test]
fn a_replica_that_cannot_be_written_is_dropped_and_another_one_tried() {
    let mut world = World::new(TEXT);
    writes(&mut world, after(20 * MS), failing(10_000));
    let id = world.write(0, &[1; PAGE]);
    let (at, outcome) = world.wait(id);
    assert_eq!((at, outcome), (20 * MS, Ok(Data::Absent)), "home has it");
    assert_eq!((world.count("failed_replicas"), world.count("replicas")), (2, 0));
    assert_eq!(world.byte(0), 1);
    let flush = world.flush();
    world.wait(flush).1.unwrap();
}

#[test]
fn a_write_that_fails_at_home_is_a_failure_of_that_write() {
    let mut world = World::new(TEXT);
    writes(&mut world, failing(MS), after(10_000));
    let id = world.write(0, &[1; PAGE]);
    assert!(matches!(world.wait(id).1, Err(Failure::Io { op: IoOp::Write, .. })));
    assert_eq!(world.sent.len(), 1);
    // The next one is as good as any.
    writes(&mut world, after(MS), after(10_000));
    let id = world.write(0, &[2; PAGE]);
    world.wait(id).1.unwrap();
    assert_eq!((world.byte(0), world.count("failed_homes")), (2, 1));
    // The same holds for a part of a page.
    writes(&mut world, failing(MS), after(10_000));
    let id = world.write(512, &[3; 512]);
    world.wait(id).1.unwrap_err();
    writes(&mut world, after(MS), after(10_000));
    let flush = world.flush();
    world.wait(flush).1.unwrap();
    assert!(world.stack.is_idle());
}

/// Lets a page's write to home fail at 20 ms, when it has been acknowledged.
fn fail_home_once(world: &mut World) {
    let geometry = geometry(0.2);
    let mut has_failed = false;
    world.fate = Box::new(move |command| {
        if command.op != IoOp::Write || !is_home(&geometry, command.offset) {
            return after(10_000);
        }
        if std::mem::replace(&mut has_failed, true) { after(MS) } else { failing(20 * MS) }
    });
}

#[test]
fn a_write_that_fails_at_home_and_is_in_a_slot_is_tried_once_more() {
    let mut world = World::new(TEXT);
    fail_home_once(&mut world);
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let flush = world.flush();
    let (at, outcome) = world.wait(flush);
    assert_eq!((at, outcome), (21 * MS + 10_000, Ok(Data::Absent)));
    assert_eq!(world.media[geometry(0.2).home_offset(0) as usize], 1);
}

#[test]
fn what_was_acknowledged_and_cannot_be_written_at_home_poisons() {
    let mut world = World::new(TEXT);
    writes(&mut world, failing(20 * MS), after(10_000));
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let (flush, trim) = (world.flush(), world.trim(0, 4096));
    let held = world.write(0, &[2; PAGE]);
    let poisoned = |outcome| matches!(outcome, Err(Failure::Poisoned { layer: "replicas", .. }));
    assert!(poisoned(world.wait(flush).1));
    assert!(poisoned(world.wait(trim).1) && poisoned(world.wait(held).1));
    world.settle();
    assert!(world.stack.is_idle());
    assert_eq!(world.byte(0), 1, "a slot has what home could not take");
    assert_eq!(world.byte(PAGE as u64), 0, "and homes have the others");
    let write = world.write(0, &[3; PAGE]);
    assert!(poisoned(world.wait(write).1));
    world.settle();
    assert!(world.stack.is_idle());
}

/// Pages: 0 is written before a good flush, 1 after it; 2 never.
#[test]
fn after_a_flush_that_failed_only_what_is_known_to_be_durable_is_read() {
    let page = PAGE as u64;
    let broken = Failure::Io { op: IoOp::Flush, offset: 0, length: 0, reason: "broken".into() };
    let below = Failure::Poisoned { layer: "below", cause: "broken".into() };
    for (failure, is_safe) in [(broken, false), (below, true)] {
        let mut world = World::new(TEXT);
        let id = world.write(0, &[1; PAGE]);
        world.wait(id).1.unwrap();
        let flush = world.flush();
        world.wait(flush).1.unwrap();
        let id = world.write(page, &[2; PAGE]);
        world.wait(id).1.unwrap();
        world.fate = Box::new(|command| match command.op {
            IoOp::Flush => failing(MS),
            _ => after(2 * MS),
        });
        world.failure = Some(failure);
        // A read of each page is under way when the flush fails.
        let flush = world.flush();
        let reads = [0, 1, 2].map(|number| world.read(number * page, 512));
        world.wait(flush).1.unwrap_err();
        let told = |outcome: Result<Data, Failure>| match outcome {
            Ok(data) => Some(data.joined().unwrap()[0]),
            Err(Failure::Poisoned { layer: "replicas", .. }) => None,
            Err(failure) => panic!("{failure}"),
        };
        let expected = [Some(1), is_safe.then_some(2), Some(0)];
        assert_eq!(reads.map(|id| told(world.wait(id).1)), expected, "under way");
        for _ in 0..2 {
            let reads = [0, 1, 2].map(|number| world.read(number * page, 512));
            assert_eq!(reads.map(|id| told(world.wait(id).1)), expected);
        }
        let both = world.read(0, 2 * 4096);
        assert_eq!(told(world.wait(both).1).is_some(), is_safe, "a part of it is not sure");
        world.settle();
        assert!(world.stack.is_idle());
    }
}

/// A flush that was sent before it and fails after it covers what a good one seemed to cover.
#[test]
fn a_good_flush_is_not_trusted_if_an_earlier_one_fails_later() {
    let mut world = World::new(TEXT);
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let mut flushes = 0;
    world.fate = Box::new(move |command| match command.op {
        IoOp::Flush => {
            flushes += 1;
            if flushes == 1 { failing(2 * MS) } else { after(MS) }
        }
        _ => after(10_000),
    });
    let (first, second) = (world.flush(), world.flush());
    world.wait(second).1.unwrap();
    world.wait(first).1.unwrap_err();
    let id = world.read(0, 512);
    assert!(matches!(world.wait(id).1, Err(Failure::Poisoned { .. })));
    assert_eq!(world.byte(PAGE as u64), 0, "what was never written is what it was");
}

#[test]
fn a_flush_that_fails_poisons() {
    let mut world = World::new(TEXT);
    world.fate =
        Box::new(|command| if command.op == IoOp::Flush { failing(10) } else { after(10_000) });
    let flush = world.flush();
    assert!(matches!(world.wait(flush).1, Err(Failure::Io { op: IoOp::Flush, .. })));
    let id = world.write(0, &[1; PAGE]);
    assert!(matches!(world.wait(id).1, Err(Failure::Poisoned { .. })));
}

#[test]
fn what_cannot_be_read_in_one_place_is_read_in_another() {
    for fails_home in [true, false] {
        let (mut world, geometry) = (with_replica(TEXT), geometry(0.2));
        world.fate = Box::new(move |command| {
            let is_bad = is_home(&geometry, command.offset) == fails_home;
            if command.op == IoOp::Read && is_bad { failing(10_000) } else { after(10_000) }
        });
        // Both places are asked first at some time, as each of the others is used.
        for _ in 0..6 {
            let id = world.read(0, 4096);
            assert_eq!(world.wait(id).1.unwrap().joined().unwrap()[..], [1; PAGE]);
            world.settle();
        }
        let expected = if fails_home { (0, 1) } else { (1, 0) };
        assert_eq!((world.count("failed_replicas"), world.count("replicas")), expected);
    }
    let mut world = with_replica(TEXT);
    world.fate = Box::new(|_| failing(10_000));
    let id = world.read(0, 4096);
    assert!(matches!(world.wait(id).1, Err(Failure::Io { op: IoOp::Read, .. })));
    assert!(world.stack.is_idle());
}

/// A replica that alone holds what was acknowledged is not dropped because a read of it fails.
#[test]
fn the_last_place_is_kept_though_it_cannot_be_read() {
    let (mut world, geometry) = (World::new(TEXT), geometry(0.2));
    let mut reads = 0;
    world.fate = Box::new(move |command| match command.op {
        IoOp::Write if is_home(&geometry, command.offset) => after(40 * MS),
        IoOp::Read => {
            reads += 1;
            if reads == 1 { failing(10_000) } else { after(10_000) }
        }
        _ => after(10_000),
    });
    let id = world.write(0, &[1; PAGE]);
    world.wait(id).1.unwrap();
    let id = world.read(0, 4096);
    assert!(world.wait(id).1.is_err());
    assert_eq!(world.byte(0), 1);
}

#[test]
fn fua_that_fails_fails_alone() {
    let mut world = World::new(TEXT);
    writes(&mut world, failing(MS), after(10_000));
    let mut command = Command::write(0, 0, Data::copy_of(&[1; PAGE]));
    command.is_fua = true;
    let id = world.submit(command);
    assert!(matches!(world.wait(id).1, Err(Failure::Io { .. })));
    let id = world.read(0, 512);
    world.wait(id).1.unwrap();
}
