//! Where a trace brings no bytes, layers do what they do with bytes: the same commands below, in
//! the same order, and the same replies.

use block::{Command, Data, Immediate, Reply, Serve as _, Sparse};
use faults::{Act, Dice, Subject, SubjectKind, Value, Workload, subjects};
use layers::{Actions, Stack};
use units::IoOp;

/// A device that replies in an order that chance wants.
struct Device {
    store: Immediate<Sparse>,
    pending: Vec<Command>,
    with_data: bool,
    /// The lowest layer was given a write.
    has_written: bool,
}

impl Device {
    fn step(&mut self, dice: &mut Dice) -> Reply {
        let mut command = self.pending.swap_remove(dice.below(self.pending.len()));
        if self.with_data {
            return Reply { id: command.id, outcome: self.store.serve(&command) };
        }
        command.data = Data::Absent;
        Reply { id: command.id, outcome: Ok(Data::Absent) }
    }
}

/// Commands below and replies above, in their order.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    below: Vec<(IoOp, u64, u32, bool)>,
    above: Vec<u32>,
    counted: Vec<u64>,
}

fn take(actions: &mut Actions, device: &mut Device, under_way: &mut Vec<Command>, seen: &mut Seen) {
    for reply in actions.up.drain(..) {
        let at =
            under_way.iter().position(|command| command.id == reply.id).expect("a command of ours");
        let command = under_way.swap_remove(at);
        let data = reply.outcome.expect("nothing fails");
        let length =
            if command.op == IoOp::Read && device.with_data { command.length as usize } else { 0 };
        assert_eq!(
            data.len(),
            length,
            "{} of {} bytes at {}",
            command.op.name(),
            command.length,
            command.offset
        );
        seen.above.push(reply.id);
    }
    for command in actions.down.drain(..) {
        // Structures of a layer's own may have bytes as long as it was not given anything that
        // would have had them.
        let is_known = device.with_data || device.has_written;
        let has_bytes = device.with_data && command.op == IoOp::Write;
        assert!(
            !is_known || command.data.is_absent() != has_bytes,
            "a {} of {} bytes",
            command.op.name(),
            command.length
        );
        seen.below.push((command.op, command.offset, command.length, command.is_fua));
        device.pending.push(command);
    }
}

fn run(subject: &Subject, seed: u64, with_data: bool) -> Seen {
    let mut store = Immediate::sparse(subject.limits());
    subject.format(seed, &mut store).expect("it can be formatted");
    let mut stack: Stack = subject.open(seed, &mut store).expect("it can be opened");
    let limits = stack.limits();
    let (size, sectors) = (
        limits.sector_bytes as usize,
        (limits.capacity_bytes / u64::from(limits.sector_bytes)) as usize,
    );
    let most = (limits.most_bytes as usize / size).min(sectors / 3).max(1);
    let mut workload = Workload::new(sectors, limits.sector_bytes, most);
    let mut device = Device { store, pending: Vec::new(), with_data, has_written: false };
    let (mut dice, mut actions, mut seen, mut under_way) =
        (Dice::new(seed), Actions::default(), Seen::default(), Vec::new());
    let (mut now, mut id, mut left) = (1 << 40, 0, 600);
    while left > 0 || !under_way.is_empty() {
        now += dice.below(40_000) as u64;
        if stack.wakes_at().is_some_and(|at| at <= now) {
            stack.wake(now, &mut actions);
            take(&mut actions, &mut device, &mut under_way, &mut seen);
        }
        if left > 0 && under_way.len() < 10 && dice.chance(0.4) {
            left -= 1;
            match workload.next(&mut dice) {
                Act::Signal(signal) => stack.signal(signal, now, &mut actions),
                Act::Command { op, sectors, is_fua } => {
                    id += 1;
                    let mut data = Data::Absent;
                    if op == IoOp::Write && with_data {
                        let mut bytes = vec![0; sectors.len() * size];
                        for (sector, part) in sectors.clone().zip(bytes.chunks_exact_mut(size)) {
                            Value::of_write(u64::from(id)).fill(
                                sector as u64,
                                subject.tail_bytes as usize,
                                part,
                            );
                        }
                        data = Data::Whole(bytes.into());
                    }
                    let (offset, length) =
                        ((sectors.start * size) as u64, (sectors.len() * size) as u32);
                    let lifetime = subject.lifetime_of(id, offset);
                    let command = Command { id, op, offset, length, is_fua, lifetime, data };
                    under_way.push(Command { data: Data::Absent, ..command.clone() });
                    device.has_written |= op == IoOp::Write && stack.layers().len() == 1;
                    stack.submit(command, now, &mut actions);
                }
            }
        } else if !device.pending.is_empty() {
            let reply = device.step(&mut dice);
            stack.replied(reply, now, &mut actions);
        } else if let Some(at) = stack.wakes_at() {
            now = now.max(at);
        } else {
            assert!(left > 0, "{subject}: {} commands are never replied to", under_way.len());
        }
        take(&mut actions, &mut device, &mut under_way, &mut seen);
    }
    stack.layers().iter().for_each(|layer| layer.count(&mut seen.counted));
    seen
}

#[test]
fn layers_do_the_same_without_bytes() {
    for subject in
        subjects().iter().filter(|subject| matches!(subject.kind, SubjectKind::Registered(_)))
    {
        for seed in 1..6 {
            let (with, without) = (run(subject, seed, true), run(subject, seed, false));
            let differs =
                with.below.iter().zip(&without.below).position(|(one, other)| one != other);
            assert_eq!(differs, None, "{subject}, seed {seed}: the first command that differs");
            assert_eq!(with, without, "{subject}, seed {seed}");
        }
    }
}
