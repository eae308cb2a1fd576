mod world;

use block::Immediate;
use units::{IoOp, Lifetime};

use self::world::{World, made};
use super::ENTRY;
use crate::driver::through;
use crate::{Actions, Command, Data, EquationPiece, Facts, Failure, Layer, Limits, Reply, Signal};

const VARIANTS: [&str; 11] = [
    "scheduler(dfr,buffer=off)",
    "scheduler(dfr,buffer=640,depth=3)",
    "scheduler(dfr,buffer=160,window=flush)",
    "scheduler(dfr_cls,buffer=off,depth=4)",
    "scheduler(dfr_cls,buffer=640)",
    "scheduler(dfr_cls,buffer=2Ki,order=arrival,depth=2)",
    "scheduler(dfr_cls,buffer=100,depth=2,window=checkpoint_begin)",
    "scheduler(dfr,flush_time=3ms,write_time=1ms,depth=2)",
    "scheduler(dfr_cls,flush_time=5ms,write_time=1ms,depth=8)",
    "scheduler(dfr_cls,buffer=640,join=no,depth=3)",
    "scheduler(dfr_cls,buffer=2Ki,join=no,order=arrival)",
];

#[test]
fn every_read_and_every_cut_finds_what_the_contract_allows() {
    for seed in 0..400 {
        let text = VARIANTS[seed as usize % VARIANTS.len()];
        let mut world = World::new(text, seed, true);
        println!("{text}, seed {seed}");
        for _ in 0..600 {
            world.step();
        }
        world.end();
        world.cut();
        world.submit(IoOp::Read, 0, 16, false);
        world.end();
        assert_eq!(world.failures, 0);
    }
}

#[test]
fn failures_poison_and_what_was_promised_before_holds() {
    let mut poisoned = 0;
    for seed in 0..400 {
        let text = VARIANTS[seed as usize % VARIANTS.len()];
        let mut world = World::new(text, seed, true);
        println!("{text}, seed {seed}");
        world.device.fails_in = Some(1 + seed as u32 % 97);
        for _ in 0..400 {
            world.step();
        }
        world.end();
        world.cut();
        assert!(world.failures > 0);
        poisoned += u32::from(world.is_poisoned);
    }
    assert!(
        (100..400).contains(&poisoned),
        "{poisoned} of 400 runs were poisoned: failed reads, trims and writes with FUA are not"
    );
}

#[test]
fn without_data_the_same_commands_go_below() {
    for seed in 0..40 {
        let [with, without] = [true, false].map(|has_data| {
            let mut world = World::new(VARIANTS[seed as usize % VARIANTS.len()], seed, has_data);
            (0..500).for_each(|_| world.step());
            world.end();
            world.device.seen
        });
        assert!(with.len() > 50 && with == without, "seed {seed}");
    }
}

/// A scheduler with large limits, and its actions.
struct Bare {
    layer: Box<dyn Layer>,
    actions: Actions,
    next: u32,
}

impl Bare {
    fn new(text: &str) -> Self {
        let limits = Limits { capacity_bytes: 1 << 30, sector_bytes: 512, most_bytes: 16 << 10 };
        Self { layer: made(text, limits), actions: Actions::default(), next: 0 }
    }

    /// Submits a command, and gives the id. Pages have 4 KiB.
    fn submit(&mut self, op: IoOp, page: u64, is_fua: bool) -> u32 {
        let length = if op == IoOp::Flush { 0 } else { 4096 };
        self.next += 1;
        let command = Command { is_fua, ..Command::new(self.next, op, page * 4096, length) };
        self.layer.submit(command, 0, &mut self.actions);
        self.next
    }

    fn write(&mut self, pages: &[u64]) {
        for page in pages {
            let id = self.submit(IoOp::Write, *page, false);
            assert!(self.replies().contains(&id), "a deferred write is acknowledged at once");
        }
    }

    fn replies(&mut self) -> Vec<u32> {
        self.actions.up.drain(..).map(|reply| reply.id).collect()
    }

    /// Replies to commands below until there are none; gives operation, first page and pages of
    /// each.
    fn carry_out(&mut self) -> Vec<(IoOp, u64, u32)> {
        let mut seen = Vec::new();
        while !self.actions.down.is_empty() {
            for command in std::mem::take(&mut self.actions.down) {
                seen.push((command.op, command.offset / 4096, command.length / 4096));
                self.layer.replied(
                    Reply { id: command.id, outcome: Ok(Data::Absent) },
                    0,
                    &mut self.actions,
                );
            }
        }
        seen
    }

    fn signal(&mut self, signal: Signal) {
        self.layer.signal(signal, 0, &mut self.actions);
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counts = Vec::new();
        self.layer.count(&mut counts);
        assert_eq!(counts.len(), ENTRY.counters.len());
        counts[ENTRY.counters.iter().position(|counter| counter.name == name).unwrap()]
    }
}

fn writes(list: &[(u64, u32)]) -> Vec<(IoOp, u64, u32)> {
    list.iter().map(|(page, pages)| (IoOp::Write, *page, *pages)).collect()
}

/// SCHEDULER figure 6.4.
#[test]
fn deferred_writes_come_out_as_they_came_when_the_window_closes() {
    let mut bare = Bare::new("scheduler(dfr)");
    bare.write(&[7, 3, 7, 4]);
    bare.signal(Signal::CheckpointBegins);
    assert!(bare.carry_out().is_empty());
    bare.signal(Signal::CheckpointEnds);
    assert_eq!(bare.carry_out(), writes(&[(7, 1), (3, 1), (7, 1), (4, 1)]));
    assert_eq!(
        (
            bare.counter("batches_checkpoint"),
            bare.counter("held_bytes"),
            bare.counter("held_bytes_most")
        ),
        (1, 0, 16384)
    );
    assert!(bare.layer.is_idle());
}

/// SCHEDULER figure 6.5. No command becomes longer than what is below takes.
#[test]
fn coalesced_writes_are_merged_and_ascend() {
    let mut bare = Bare::new("scheduler(dfr_cls)");
    bare.write(&[7, 3, 7, 4, 23, 21, 24, 20, 22]);
    bare.signal(Signal::CheckpointEnds);
    assert_eq!(bare.carry_out(), writes(&[(3, 2), (7, 1), (20, 4), (24, 1)]));
    assert_eq!(
        (
            bare.counter("coalesced_bytes"),
            bare.counter("written_commands"),
            bare.counter("written_bytes")
        ),
        (4096, 4, 32768)
    );
}

/// Writes that lie side by side are one command, at the place of the first write among them.
#[test]
fn coalesced_writes_may_keep_the_order_of_their_arrival() {
    let mut bare = Bare::new("scheduler(dfr_cls,order=arrival)");
    bare.write(&[7, 3, 7, 9, 4, 7, 2, 23, 21, 24, 20, 22, 1000, 9]);
    bare.signal(Signal::CheckpointEnds);
    assert_eq!(bare.carry_out(), writes(&[(7, 1), (2, 3), (9, 1), (20, 4), (24, 1), (1000, 1)]));
}

/// As SCHEDULER 7.3 measured: fewer writes, none of them longer.
#[test]
fn coalesced_writes_may_stay_as_long_as_they_came() {
    for (text, expected) in [
        ("scheduler(dfr_cls,join=no)", [3, 4, 7, 20, 21]),
        ("scheduler(dfr_cls,join=no,order=arrival)", [7, 3, 4, 21, 20]),
    ] {
        let mut bare = Bare::new(text);
        bare.write(&[7, 3, 7, 4, 21, 20, 7]);
        bare.signal(Signal::CheckpointEnds);
        assert_eq!(bare.carry_out(), writes(&expected.map(|page| (page, 1))), "{text}");
        assert_eq!((bare.counter("coalesced_bytes"), bare.counter("written_commands")), (8192, 5));
    }
}

#[test]
fn a_flush_is_not_replied_to_before_all_that_it_covers_is_durable_below() {
    for text in ["scheduler(dfr)", "scheduler(dfr_cls)"] {
        let mut bare = Bare::new(text);
        bare.write(&[1]);
        bare.signal(Signal::CheckpointEnds);
        bare.write(&[3]);
        let flush = bare.submit(IoOp::Flush, 0, false);
        let mut sent = Vec::new();
        while let Some(command) = bare.actions.down.pop() {
            assert!(
                bare.actions.down.is_empty() && bare.replies().is_empty(),
                "one by one, and no reply yet"
            );
            sent.push((command.op, command.offset / 4096));
            // It is acknowledged after the flush came, which does not wait for it.
            if sent.len() == 3 {
                bare.write(&[5]);
            }
            bare.layer.replied(
                Reply { id: command.id, outcome: Ok(Data::Absent) },
                0,
                &mut bare.actions,
            );
        }
        assert_eq!(
            (sent, bare.replies()),
            (vec![(IoOp::Write, 1), (IoOp::Write, 3), (IoOp::Flush, 0)], vec![flush])
        );
        assert_eq!((bare.counter("batches_flush"), bare.counter("held_bytes")), (1, 4096));
    }
}

#[test]
fn a_window_is_closed_when_its_oldest_write_is_of_age() {
    const AGE: u64 = 30_000_000_000;
    let mut bare = Bare::new("scheduler(dfr_cls,age=30s)");
    assert_eq!(bare.layer.wakes_at(), None);
    bare.write(&[7, 3]);
    let late = Command::new(99, IoOp::Write, 8 * 4096, 4096);
    bare.layer.submit(late, 1000, &mut bare.actions);
    assert_eq!(bare.layer.wakes_at(), Some(AGE), "the oldest counts");
    bare.layer.wake(AGE - 1, &mut bare.actions);
    assert!(bare.carry_out().is_empty(), "not before its time");
    bare.layer.wake(AGE, &mut bare.actions);
    assert_eq!(bare.layer.wakes_at(), None, "the window is closed, and nothing is in the next");
    assert_eq!(bare.carry_out(), writes(&[(3, 1), (7, 2)]));
    assert_eq!((bare.counter("batches_age"), bare.counter("held_bytes")), (1, 0));
    assert!(bare.layer.is_idle() && bare.layer.wakes_at().is_none());
    // While a batch is written, a window that is of age waits for its end, and does not ask to be
    // woken again and again.
    bare.write(&[1]);
    bare.signal(Signal::CheckpointEnds);
    bare.write(&[2]);
    bare.layer.wake(AGE, &mut bare.actions);
    assert_eq!((bare.layer.wakes_at(), bare.actions.down.len()), (None, 1));
    assert_eq!(bare.carry_out(), writes(&[(1, 1), (2, 1)]));
    let mut never = Bare::new("scheduler(dfr_cls)");
    never.write(&[1]);
    assert_eq!(never.layer.wakes_at(), None);
}

#[test]
fn a_write_with_fua_goes_past_and_what_is_older_never_comes_after() {
    for text in ["scheduler(dfr)", "scheduler(dfr_cls)"] {
        let mut bare = Bare::new(text);
        bare.write(&[1, 2]);
        let fua = bare.submit(IoOp::Write, 1, true);
        assert!(bare.actions.down[0].is_fua && bare.replies().is_empty());
        assert_eq!((bare.carry_out(), bare.replies()), (writes(&[(1, 1)]), vec![fua]));
        bare.submit(IoOp::Read, 1, false);
        assert_eq!(bare.carry_out(), [(IoOp::Read, 1, 1)], "{text}: it is read below");
        bare.signal(Signal::CheckpointEnds);
        assert_eq!(bare.carry_out(), writes(&[(2, 1)]), "{text}");
        assert_eq!(bare.counter("void_bytes"), 4096);
    }
}

#[test]
fn a_write_with_fua_that_fails_leaves_what_is_older() {
    let mut bare = Bare::new("scheduler(dfr)");
    bare.write(&[1]);
    bare.submit(IoOp::Write, 1, true);
    let id = bare.actions.down.pop().unwrap().id;
    let failure =
        Failure::Io { op: IoOp::Write, offset: 4096, length: 4096, reason: "planned".into() };
    bare.layer.replied(Reply { id, outcome: Err(failure.clone()) }, 0, &mut bare.actions);
    assert_eq!(bare.actions.up.pop().unwrap().outcome.unwrap_err(), failure);
    bare.submit(IoOp::Flush, 0, false);
    assert_eq!(bare.carry_out(), [(IoOp::Write, 1, 1), (IoOp::Flush, 0, 0)]);
}

#[test]
fn a_trim_drops_what_no_flush_waits_for() {
    for text in ["scheduler(dfr)", "scheduler(dfr_cls)"] {
        for is_flushed in [false, true] {
            let mut bare = Bare::new(text);
            bare.write(&[1, 5]);
            if is_flushed {
                bare.submit(IoOp::Flush, 0, false);
            }
            let batch = std::mem::take(&mut bare.actions.down);
            let trim = bare.submit(IoOp::Trim, 5, false);
            assert_eq!((bare.carry_out(), bare.replies()), (vec![(IoOp::Trim, 5, 1)], vec![trim]));
            bare.actions.down = batch;
            bare.signal(Signal::Drain);
            let flushed = [writes(&[(1, 1), (5, 1)]), vec![(IoOp::Flush, 0, 0)]].concat();
            assert_eq!(
                bare.carry_out(),
                if is_flushed { flushed } else { writes(&[(1, 1)]) },
                "{text}"
            );
        }
    }
}

#[test]
fn a_flush_that_fails_poisons_and_no_other_one_makes_up_for_it() {
    let mut bare = Bare::new("scheduler(dfr)");
    bare.submit(IoOp::Flush, 0, false);
    bare.submit(IoOp::Read, 0, false);
    bare.submit(IoOp::Flush, 0, false);
    let failure = Failure::Io { op: IoOp::Flush, offset: 0, length: 0, reason: "planned".into() };
    for (number, command) in std::mem::take(&mut bare.actions.down).into_iter().enumerate() {
        let outcome = if number == 0 { Err(failure.clone()) } else { Ok(Data::Absent) };
        bare.layer.replied(Reply { id: command.id, outcome }, 0, &mut bare.actions);
    }
    assert_eq!(bare.actions.up.remove(0).outcome.unwrap_err(), failure);
    for op in IoOp::ALL {
        bare.submit(op, 1, false);
    }
    assert_eq!(bare.actions.up.len(), 6);
    for reply in bare.actions.up {
        assert!(matches!(reply.outcome, Err(Failure::Poisoned { layer: "scheduler", .. })));
    }
    assert!(bare.layer.is_idle());
}

#[test]
fn what_is_held_is_read_from_memory_after_a_write_that_failed() {
    let poisoned = Failure::Poisoned { layer: "below", cause: "planned".into() };
    for op in [IoOp::Write, IoOp::Flush] {
        let mut bare = Bare::new("scheduler(dfr)");
        let fails = if op == IoOp::Write { vec![1, 5] } else { vec![] };
        bare.write(&fails);
        bare.submit(IoOp::Flush, 0, false);
        let below = bare.actions.down.remove(0);
        assert_eq!(below.op, op);
        // A flush fails because what is below is poisoned: then that knows which reads it may
        // answer.
        let failure = if op == IoOp::Write { below.failed("planned") } else { poisoned.clone() };
        bare.layer.replied(Reply { id: below.id, outcome: Err(failure) }, 0, &mut bare.actions);
        bare.replies();
        for op in [IoOp::Write, IoOp::Trim, IoOp::Flush] {
            bare.submit(op, 1, false);
            let refused = bare.actions.up.pop().unwrap().outcome;
            assert!(matches!(refused, Err(Failure::Poisoned { layer: "scheduler", .. })));
        }
        for sector in &fails {
            let id = bare.submit(IoOp::Read, *sector, false);
            assert!(bare.actions.down.is_empty(), "it is in memory");
            assert_eq!(bare.replies(), [id]);
        }
        let id = bare.submit(IoOp::Read, 9, false);
        assert_eq!((bare.carry_out(), bare.replies()), (vec![(IoOp::Read, 9, 1)], vec![id]));
        assert!(bare.layer.is_idle());
    }
}

#[test]
fn a_full_buffer_closes_the_window_and_what_has_no_room_waits() {
    let mut bare = Bare::new("scheduler(dfr_cls,buffer=16Ki)");
    bare.write(&[1, 5, 9, 13]);
    assert!(bare.actions.down.is_empty());
    let late = bare.submit(IoOp::Write, 21, false);
    assert_eq!((bare.replies(), bare.actions.down.len()), (vec![], 1));
    let first = bare.actions.down.pop().unwrap();
    bare.layer.replied(Reply { id: first.id, outcome: Ok(Data::Absent) }, 0, &mut bare.actions);
    assert_eq!(bare.replies(), [late], "there is room as soon as one is written");
    assert_eq!(bare.carry_out(), writes(&[(5, 1), (9, 1), (13, 1)]));
    assert_eq!(
        (bare.counter("waits"), bare.counter("batches_buffer"), bare.counter("held_bytes_most")),
        (1, 1, 16384)
    );
}

#[test]
fn the_estimated_time_closes_the_window() {
    let mut bare = Bare::new("scheduler(dfr_cls,flush_time=24ms,write_time=8ms)");
    bare.write(&[1, 5, 1, 1, 9]);
    assert!(bare.actions.down.is_empty(), "what was overwritten costs nothing");
    bare.write(&[13]);
    assert_eq!(bare.carry_out(), writes(&[(1, 1), (5, 1), (9, 1)]));
    assert_eq!(
        (bare.counter("batches_flush_time"), bare.counter("batch_estimated_ns")),
        (1, 24_000_000)
    );
}

#[test]
fn adjacent_reads_of_memory_and_device_are_one_read() {
    let mut bare = Bare::new("scheduler(dfr)");
    bare.write(&[2]);
    let command = Command::new(99, IoOp::Read, 4096, 12288);
    bare.layer.submit(command, 0, &mut bare.actions);
    assert_eq!(
        (bare.carry_out(), bare.replies()),
        (vec![(IoOp::Read, 1, 1), (IoOp::Read, 3, 1)], vec![99])
    );
    assert_eq!((bare.counter("memory_reads"), bare.counter("memory_read_bytes")), (1, 4096));
}

#[test]
fn memory_does_not_grow_with_the_run() {
    for text in ["scheduler(dfr,buffer=256Ki)", "scheduler(dfr_cls,buffer=256Ki)"] {
        let mut bare = Bare::new(text);
        for round in 0..20_000_u64 {
            let op =
                [IoOp::Write, IoOp::Write, IoOp::Write, IoOp::Trim, IoOp::Read][round as usize % 5];
            bare.submit(
                op,
                round.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48,
                round.is_multiple_of(7),
            );
            bare.carry_out();
        }
        bare.signal(Signal::Drain);
        bare.carry_out();
        assert!(bare.layer.is_idle() && bare.counter("held_bytes_most") <= 256 << 10, "{text}");
    }
}

/// SCHEDULER table 7.2: flushed writes are there again when the stack is opened anew, in every
/// combination.
#[test]
fn all_combinations_of_the_paper_are_stacks() {
    let piece = EquationPiece { to_bytes: 1 << 20, intercept_ns: 1e5, slope_ns: 1.0 };
    let facts = Facts {
        write_bytes: Some(16 << 10),
        random_write: vec![piece],
        sequential_write: vec![piece],
        ..Facts::default()
    };
    for (name, layers) in [
        ("drt", 0),
        ("dfr", 1),
        ("dfr_cls", 1),
        ("dfr_cnv", 2),
        ("dfr_cls_cnv", 2),
        ("dfr_cnv_aln", 2),
        ("dfr_cls_cnv_aln", 2),
    ] {
        let log =
            if layers == 2 { ",log=log_volume(segment=64Ki,over_provisioning=50%)" } else { "" };
        let text = if layers == 0 {
            "scheduler(drt)".to_owned()
        } else {
            format!("scheduler({name},buffer=64Ki,flush_time=3s{log})")
        };
        let mut below = Immediate::sparse(Limits {
            capacity_bytes: 8 << 20,
            sector_bytes: 512,
            most_bytes: 64 << 10,
        });
        crate::format(&text, &facts, 1, &mut below).unwrap();
        let written: Vec<(u64, Vec<u8>)> =
            (0..200_u64).map(|round| ((round * 37 % 61) * 4096, vec![round as u8; 4096])).collect();
        let mut stack = crate::open(&text, &facts, 1, &mut below).unwrap();
        assert_eq!(stack.layers().len(), layers, "{text}");
        through(&mut stack, &mut below, |store| {
            written.iter().for_each(|(offset, bytes)| store.write(*offset, bytes).unwrap());
            store.flush().unwrap();
        });
        let mut stack = crate::open(&text, &facts, 1, &mut below).unwrap();
        let mut newest = std::collections::BTreeMap::new();
        written.into_iter().for_each(|(offset, bytes)| drop(newest.insert(offset, bytes)));
        for (offset, bytes) in newest {
            let mut read = vec![0; 4096];
            through(&mut stack, &mut below, |store| store.read(offset, &mut read)).unwrap();
            assert!(read == bytes, "{text}: byte {offset}");
        }
    }
}

/// Writes of a shorter lifetime than their neighbours are sent alone, so that a layer below can
/// keep them apart. Writes with FUA, which are not held, keep their hints, too.
#[test]
fn writes_keep_the_hints_of_their_lifetimes() {
    use units::Lifetime::{Long, NotSet, Short};
    let mut bare = Bare::new("scheduler(dfr_cls)");
    let mut write = |page: u64, lifetime, is_fua| {
        let command =
            Command { lifetime, is_fua, ..Command::new(9, IoOp::Write, page * 4096, 4096) };
        bare.layer.submit(command, 0, &mut bare.actions);
    };
    write(0, Long, false);
    write(1, Short, false);
    write(2, Short, false);
    write(3, NotSet, false);
    write(4, NotSet, false);
    // The next lifetime of the page.
    write(0, Short, false);
    write(9, Long, true);
    let fua: Vec<Lifetime> = bare.actions.down.iter().map(|command| command.lifetime).collect();
    assert_eq!(fua, [Long]);
    bare.carry_out();
    bare.signal(Signal::Drain);
    let mut seen = Vec::new();
    while !bare.actions.down.is_empty() {
        for command in std::mem::take(&mut bare.actions.down) {
            seen.push((command.lifetime, command.offset / 4096, command.length / 4096));
            let reply = Reply { id: command.id, outcome: Ok(Data::Absent) };
            bare.layer.replied(reply, 0, &mut bare.actions);
        }
    }
    assert_eq!(seen, [(Short, 0, 3), (NotSet, 3, 2)]);
}
