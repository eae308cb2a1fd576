//! Tests of the commands below for commands from above, and of their order.

use std::collections::VecDeque;

use block::{Immediate, Store};
use units::IoOp;
use units::Lifetime::{Extreme, Long, NotSet, Short};

use super::TIMES;
use crate::{
    Actions, Command, Counter, Data, Facts, Failure, LAYERS, Layer, Limits, Making, Reply, Signal,
};

const PAGE: u64 = 4096;
const LIMITS: Limits = Limits { capacity_bytes: 4 << 20, sector_bytes: 512, most_bytes: 1 << 16 };

/// A layer whose commands are carried out one after the other, without bytes.
struct Bench {
    layer: Box<dyn Layer>,
    actions: Actions,
    waiting: VecDeque<Command>,
    seen: Vec<(IoOp, u64, u32, bool)>,
    replied: Vec<u32>,
    area: u64,
}

impl Bench {
    fn new(parameters: &str) -> Self {
        let (entry, args) =
            crate::parse(&format!("stable_buffer({TIMES},focused_area=64Ki,{parameters})"))
                .unwrap()
                .remove(0);
        let making = Making { args: &args, facts: &Facts::default(), seed: 1 };
        let mut below = Immediate::sparse(LIMITS);
        let mut below = Store::new(&mut below);
        (entry.format)(&making, &mut below).unwrap();
        let layer = (entry.open)(&making, &mut below).unwrap();
        let area = layer.limits().capacity_bytes;
        Self {
            layer,
            actions: Actions::default(),
            waiting: VecDeque::new(),
            seen: Vec::new(),
            replied: Vec::new(),
            area,
        }
    }

    fn send(&mut self, id: u32, op: IoOp, page: u64, pages: u64) {
        self.submit(id, op, page, pages);
        self.take();
    }

    fn submit(&mut self, id: u32, op: IoOp, page: u64, pages: u64) {
        let command = Command::new(id, op, page * PAGE, (pages * PAGE) as u32);
        self.layer.submit(command, 0, &mut self.actions);
    }

    fn take(&mut self) {
        self.waiting.extend(self.actions.down.drain(..));
        self.replied.extend(self.actions.up.drain(..).map(|reply| reply.id));
    }

    /// Carries out the next command.
    fn step(&mut self) -> bool {
        let Some(Command { id, op, offset, length, is_fua, .. }) = self.waiting.pop_front() else {
            return false;
        };
        self.seen.push((op, offset, length, is_fua));
        self.layer.replied(Reply { id, outcome: Ok(Data::Absent) }, 0, &mut self.actions);
        self.take();
        true
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    fn write(&mut self, page: u64) {
        self.send(9, IoOp::Write, page, 1);
        self.settle();
    }

    /// Gives the writes to destinations that were seen: first page, and number of pages.
    fn destinations(&self) -> Vec<(u64, u64)> {
        let writes =
            self.seen.iter().filter(|(op, offset, ..)| *op == IoOp::Write && *offset < self.area);
        writes.map(|&(_, offset, length, _)| (offset / PAGE, u64::from(length) / PAGE)).collect()
    }

    fn flushes(&self) -> usize {
        self.seen.iter().filter(|seen| seen.0 == IoOp::Flush).count()
    }

    fn count(&self, name: &str) -> u64 {
        let entry = LAYERS.iter().find(|entry| entry.info.name == "stable_buffer").unwrap();
        let place =
            entry.counters.iter().position(|counter: &Counter| counter.name == name).unwrap();
        let mut counts = Vec::new();
        self.layer.count(&mut counts);
        assert_eq!(counts.len(), entry.counters.len());
        counts[place]
    }

    fn drain(&mut self) {
        self.layer.signal(Signal::Drain, 0, &mut self.actions);
        self.take();
        self.settle();
        assert!(self.layer.is_idle());
    }
}

#[test]
fn a_sequential_instance_is_written_in_the_longest_commands_there_are() {
    let mut bench = Bench::new("size=128Ki");
    (100..120).rev().for_each(|page| bench.write(page));
    bench.drain();
    assert_eq!(bench.destinations(), [(100, 16), (116, 4)]);
    // One flush after the pages, and one after the note that no slot is needed any more.
    assert_eq!(
        (bench.flushes(), bench.count("sequential_flushes"), bench.count("sequential_pages")),
        (2, 1, 20)
    );
}

/// A page keeps its hint on the way to its destination, and one of another lifetime is written
/// alone, so that a layer below can keep them apart. Slots are overwritten soon.
#[test]
fn pages_keep_the_hints_of_their_lifetimes() {
    let mut bench = Bench::new("size=128Ki,sequential=16Ki");
    let write = |bench: &mut Bench, page: u64, pages: u64, lifetime| {
        let command = Command::new(9, IoOp::Write, page * PAGE, (pages * PAGE) as u32);
        bench.layer.submit(Command { lifetime, ..command }, 0, &mut bench.actions);
        bench.take();
        let area = bench.area;
        let sent = bench.waiting[0].clone();
        bench.settle();
        (sent.offset >= area, sent.lifetime)
    };
    let pages = [(20, NotSet), (22, Long), (21, Short), (23, NotSet), (24, NotSet), (22, Short)];
    let seen = pages.map(|(page, lifetime)| write(&mut bench, page, 1, lifetime));
    assert_eq!(seen, [NotSet, Short, Short, NotSet, NotSet, Short].map(|hint| (true, hint)));
    assert_eq!(write(&mut bench, 100, 4, Extreme), (false, Extreme));
    bench.layer.signal(Signal::Drain, 0, &mut bench.actions);
    bench.take();
    let mut homes = Vec::new();
    while let Some(command) = bench.waiting.front() {
        if command.op == IoOp::Write && command.offset < bench.area {
            let (first, pages) = (command.offset / PAGE, u64::from(command.length) / PAGE);
            homes.push((first, pages, command.lifetime));
        }
        bench.step();
    }
    assert_eq!(homes, [(20, 1, NotSet), (21, 2, Short), (23, 2, NotSet)]);
}

/// STABLEBUFFER 1: "1, 50, 2, 51, 3, 52, ...".
#[test]
fn a_partitioned_instance_is_written_in_turns() {
    let mut bench = Bench::new("size=128Ki");
    [50, 1, 52, 3, 2, 51].iter().for_each(|&page| bench.write(page));
    bench.drain();
    assert_eq!(bench.destinations(), [(1, 1), (50, 1), (2, 1), (51, 1), (3, 1), (52, 1)]);
    assert_eq!(bench.count("partitioned_flushes"), 1);
}

#[test]
fn a_focused_instance_is_written_upwards() {
    let mut bench = Bench::new("size=128Ki");
    [14, 300, 3, 9, 1].iter().for_each(|&page| bench.write(page));
    bench.drain();
    assert_eq!(bench.destinations(), [(1, 1), (3, 1), (9, 1), (14, 1), (300, 1)]);
    assert_eq!(
        (bench.count("focused_flushes"), bench.count("focused_pages")),
        (2, 5),
        "one page alone is no run"
    );
}

#[test]
fn passive_flushing_waits_until_the_buffer_is_full_and_proactive_for_a_large_instance() {
    let mut passive = Bench::new("size=32Ki");
    (0..8).for_each(|page| passive.write(page));
    assert!(passive.destinations().is_empty() && passive.count("used_slots") == 8);
    passive.write(100);
    assert_eq!((passive.destinations(), passive.count("slot_waits")), (vec![(0, 8)], 1));
    let mut proactive = Bench::new("size=32Ki,flushing=proactive");
    (0..2).for_each(|page| proactive.write(page));
    assert!(proactive.destinations().is_empty(), "theta is two pages");
    proactive.write(2);
    assert_eq!(proactive.destinations(), [(0, 3)]);
    assert_eq!((proactive.count("used_slots"), proactive.count("slot_waits")), (0, 0));
}

#[test]
fn writes_that_wait_for_a_slot_are_served_in_order() {
    let mut bench = Bench::new("size=8Ki");
    (0..6).for_each(|id| bench.send(id, IoOp::Write, 100 * u64::from(id), 1));
    bench.settle();
    assert_eq!(bench.replied, [0, 1, 2, 3, 4, 5]);
    assert_eq!(bench.count("slot_waits"), 4);
}

#[test]
fn a_page_that_is_written_again_goes_to_another_slot() {
    let mut bench = Bench::new("size=16Ki");
    bench.write(5);
    bench.write(5);
    let slots: Vec<u64> = bench.seen.iter().map(|seen| seen.1).collect();
    assert_eq!(slots[1] - slots[0], PAGE + 512, "the next one");
    assert_eq!((bench.count("used_slots"), bench.count("rewritten_pages")), (1, 1));
}

#[test]
fn how_writes_are_acknowledged() {
    let mut fua = Bench::new("size=64Ki,ack=fua");
    fua.write(1);
    fua.send(7, IoOp::Flush, 0, 0);
    assert_eq!((&fua.replied[..], fua.seen[0].3, fua.flushes()), (&[9, 7][..], true, 0));

    let mut flush = Bench::new("size=64Ki,ack=flush");
    (0..4).for_each(|id| flush.send(id, IoOp::Write, 10 * u64::from(id), 1));
    assert!(flush.step() && flush.replied.is_empty(), "written, not durable");
    flush.settle();
    assert_eq!(flush.replied, [0, 1, 2, 3]);
    assert_eq!(flush.flushes(), 2, "one for the first, one for those that came meanwhile");
    assert!(flush.seen.iter().all(|seen| !seen.3));

    let mut written = Bench::new("size=64Ki,ack=written");
    written.write(1);
    assert_eq!((written.replied.len(), written.seen[0].3, written.flushes()), (1, false, 0));
    written.send(7, IoOp::Flush, 0, 0);
    assert_eq!(written.replied.len(), 1);
    written.settle();
    assert_eq!((written.replied.len(), written.flushes()), (2, 1));
}

#[test]
fn sequential_runs_go_past_the_buffer_but_not_over_pages_that_were_in_it() {
    let mut bench = Bench::new("size=64Ki,sequential=16Ki");
    bench.write(102);
    bench.send(1, IoOp::Write, 100, 4);
    bench.settle();
    assert_eq!(bench.destinations(), [(100, 2), (103, 1)]);
    assert_eq!((bench.count("past_pages"), bench.count("buffered_pages")), (3, 2));
    bench.drain();
    bench.seen.clear();
    bench.send(2, IoOp::Write, 100, 4);
    bench.settle();
    assert_eq!(
        bench.destinations(),
        [(100, 2), (103, 1)],
        "its versions are still in slots, flushed or not"
    );
}

#[test]
fn a_part_of_a_page_is_completed_from_where_the_rest_is() {
    let mut bench = Bench::new("size=64Ki");
    let part = |bench: &mut Bench| {
        let command = Command::new(3, IoOp::Write, 8 * PAGE + 512, 512);
        bench.layer.submit(command, 0, &mut bench.actions);
        bench.take();
        bench.settle();
    };
    part(&mut bench);
    assert_eq!((bench.seen[0].0, bench.seen[0].1), (IoOp::Read, 8 * PAGE));
    part(&mut bench);
    assert!(bench.seen[2].0 == IoOp::Read && bench.seen[2].1 > bench.area, "from its slot");
    assert_eq!(bench.count("completed_pages"), 2);
}

#[test]
fn what_is_trimmed_in_the_buffer_is_trimmed_below_once_it_was_flushed() {
    let mut bench = Bench::new("size=64Ki");
    bench.write(5);
    bench.write(7);
    bench.send(1, IoOp::Trim, 4, 3);
    bench.settle();
    let trims = |bench: &Bench| {
        bench
            .seen
            .iter()
            .filter(|seen| seen.0 == IoOp::Trim)
            .map(|seen| seen.1 / PAGE)
            .collect::<Vec<u64>>()
    };
    assert_eq!((trims(&bench), bench.count("kept_trim_pages")), (vec![4, 6], 1));
    bench.drain();
    assert_eq!(trims(&bench), [4, 6, 5]);
}

#[test]
fn a_read_that_fails_fails_alone_and_a_write_that_fails_poisons_but_for_reads() {
    let mut bench = Bench::new("size=64Ki");
    bench.write(5);
    let fail = |bench: &mut Bench, op: IoOp| {
        bench.send(1, op, 5, 1);
        let command = bench.waiting.pop_front().unwrap();
        let failure = Failure::Io {
            op,
            offset: command.offset,
            length: command.length,
            reason: "broken".into(),
        };
        bench.layer.replied(Reply { id: command.id, outcome: Err(failure) }, 0, &mut bench.actions);
        bench.actions.up.pop().unwrap().outcome.unwrap_err().to_string()
    };
    let told = fail(&mut bench, IoOp::Read);
    assert!(told.starts_with("read of 4608 bytes at byte") && told.ends_with("broken"), "{told}");
    bench.write(6);
    let told = fail(&mut bench, IoOp::Write);
    assert!(
        told.starts_with("the layer `stable_buffer` takes no write any more")
            && told.ends_with("failed: broken"),
        "{told}"
    );
    for op in [IoOp::Write, IoOp::Trim] {
        bench.submit(2, op, 0, 1);
        assert!(matches!(bench.actions.up.pop().unwrap().outcome, Err(Failure::Poisoned { .. })));
    }
    let slot = bench.seen.iter().find(|seen| seen.0 == IoOp::Write).unwrap().1;
    for (page, is_in_slot) in [(5, true), (6, true), (20, false)] {
        bench.send(3, IoOp::Read, page, 1);
        let below = bench.waiting.pop_front().expect("a read goes on");
        let home = page * PAGE;
        assert!(if is_in_slot { below.offset >= slot } else { below.offset == home }, "{below:?}");
        let reply = Reply { id: below.id, outcome: Ok(Data::Absent) };
        bench.layer.replied(reply, 0, &mut bench.actions);
        assert!(bench.actions.up.pop().unwrap().outcome.is_ok());
    }
    assert!(bench.layer.is_idle());
}

#[test]
fn reads_go_on_after_a_flush_that_fails_only_if_what_is_below_is_poisoned() {
    let broken = Failure::Io { op: IoOp::Flush, offset: 0, length: 0, reason: "broken".into() };
    let poisoned = Failure::Poisoned { layer: "below", cause: "broken".into() };
    for (failure, is_safe) in [(broken, false), (poisoned, true)] {
        let mut bench = Bench::new("size=64Ki,ack=written");
        bench.send(1, IoOp::Flush, 0, 0);
        let command = bench.waiting.pop_front().unwrap();
        let reply = Reply { id: command.id, outcome: Err(failure) };
        bench.layer.replied(reply, 0, &mut bench.actions);
        bench.actions.up.clear();
        bench.submit(2, IoOp::Read, 5, 1);
        assert_eq!(bench.actions.down.len(), usize::from(is_safe));
        let refused = |reply: &Reply| matches!(reply.outcome, Err(Failure::Poisoned { .. }));
        assert_eq!(bench.actions.up.iter().any(refused), !is_safe);
    }
}

#[test]
fn the_flush_of_a_note_that_fails_is_a_flush_that_fails() {
    let mut bench = Bench::new("size=64Ki,ack=written");
    bench.write(5);
    bench.layer.signal(Signal::Drain, 0, &mut bench.actions);
    bench.take();
    let is_flush = |bench: &Bench| bench.waiting.front().map(|next| next.op) == Some(IoOp::Flush);
    // The first follows the page to its home, the second the note that no slot is needed.
    while !is_flush(&bench) || bench.flushes() == 0 {
        assert!(bench.step());
    }
    let of_note = bench.waiting.pop_front().unwrap();
    // The write is acknowledged while volatile: if the device then drops it, a later flush does not
    // bring it back.
    bench.write(7);
    let failure = Failure::Io { op: IoOp::Flush, offset: 0, length: 0, reason: "broken".into() };
    let reply = Reply { id: of_note.id, outcome: Err(failure) };
    bench.layer.replied(reply, 0, &mut bench.actions);
    bench.take();
    bench.submit(2, IoOp::Flush, 0, 0);
    assert!(bench.actions.down.is_empty());
    assert!(matches!(bench.actions.up.pop().unwrap().outcome, Err(Failure::Poisoned { .. })));
}

/// Regression: such a stack could be made, and was poisoned by the first bytes that the layer above
/// wrote of its own.
#[test]
fn headers_in_pages_are_refused_below_a_layer_that_writes_whole_pages() {
    let below = "stable_buffer(layout=embedded)";
    for above in ["log_volume", "replicas", "stable_buffer", "scheduler|log_volume|scheduler"] {
        let told = crate::parse(&format!("{above}|{below}")).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("layout") && told.contains("writes all bytes"), "{told}");
    }
    assert_eq!(crate::parse(&format!("scheduler|scheduler|{below}")).unwrap().len(), 3);
    assert_eq!(crate::parse(&format!("{below}|log_volume")).unwrap().len(), 2);
}
