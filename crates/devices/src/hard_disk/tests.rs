//! The disk as a whole, beside what a disk of these figures must do.

use registry::Spec;
use units::IoOp;

use super::*;

fn disk(parameters: &str) -> HardDisk {
    let spec = format!("hard_disk({parameters})");
    let args = INFO.accept(&Spec::parse(&spec).unwrap()).unwrap();
    HardDisk::open(&Opening::new(&spec, Access::DestroyData), &args).unwrap()
}

/// Numbers that look drawn, the same each time.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

/// Carries out commands, so many at a time, and gives the milliseconds that each took in the mean.
fn play(disk: &mut HardDisk, depth: usize, commands: impl IntoIterator<Item = Command>) -> f64 {
    let (begun, mut ended, mut count) = (disk.now(), Vec::new(), 0);
    for command in commands {
        disk.submit(Command { id: count, ..command });
        count += 1;
        while disk.outstanding() as usize >= depth {
            disk.wait(Nanos::MAX, &mut ended).unwrap();
        }
    }
    while disk.outstanding() > 0 {
        disk.wait(Nanos::MAX, &mut ended).unwrap();
    }
    let mut ids: Vec<u32> = ended.iter().map(|one| one.reply.id).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..count), "each command is completed once");
    assert!(ended.iter().all(|one| one.completed_at > one.submitted_at));
    (disk.now() - begun) as f64 / MS / f64::from(count)
}

fn at_random(op: IoOp, count: u64) -> impl Iterator<Item = Command> {
    let mut drawn = Drawn(7);
    (0..count).map(move |_| Command::new(0, op, drawn.below(60_000_000) * 4096, 4096))
}

#[test]
fn a_read_at_random_takes_a_mean_seek_and_half_a_revolution() {
    let took = play(&mut disk(""), 1, at_random(IoOp::Read, 3000));
    // 8.2 ms + 4.17 ms, the command and the page itself; less towards the edge of 250 GB.
    assert!((12.0..13.0).contains(&took), "{took} ms");
}

#[test]
fn a_deep_queue_is_served_by_the_way_of_the_head() {
    let alone = play(&mut disk(""), 1, at_random(IoOp::Read, 2000));
    let deep = play(&mut disk(""), 32, at_random(IoOp::Read, 2000));
    let unsorted = play(&mut disk("queue=1"), 32, at_random(IoOp::Read, 2000));
    assert!((1.7..3.5).contains(&(alone / deep)), "{alone} ms alone, {deep} ms at 32");
    assert!(unsorted > 0.95 * alone, "without a queue of its own: {unsorted} ms");
}

fn sequence(op: IoOp, from: u64, length: u32, count: u64) -> impl Iterator<Item = Command> {
    (0..count).map(move |n| Command::new(0, op, from + n * u64::from(length), length))
}

#[test]
fn sequential_rates_are_those_of_the_platter_outside_and_inside() {
    for (from, rate) in [(0, 80.0), (249_000_000_000, 40.2)] {
        for op in [IoOp::Read, IoOp::Write] {
            let took = play(&mut disk(""), 4, sequence(op, from, 1 << 17, 4000));
            let found = f64::from(1 << 17) / 1e6 / (took / 1e3);
            assert!((found / rate - 1.0).abs() < 0.06, "{op:?} at {from}: {found} MB/s");
        }
    }
}

#[test]
fn one_small_read_after_the_other_is_read_ahead() {
    let took = play(&mut disk(""), 1, sequence(IoOp::Read, 0, 4096, 20_000));
    let rate = 4.096 / took;
    assert!((25.0..80.0).contains(&rate), "{rate} MB/s: no revolution between two reads");
}

/// Two readers in sequence, each waiting for its read before the next, far from each other.
fn two_readers(parameters: &str) -> f64 {
    let mut disk = disk(parameters);
    let (mut next, mut ended, mut read) = ([0_u64, 120_000_000_000], Vec::new(), 0);
    let length = 1 << 16;
    for (id, offset) in next.iter().enumerate() {
        disk.submit(Command::new(id as u32, IoOp::Read, *offset, length));
    }
    while read < 4000 {
        disk.wait(Nanos::MAX, &mut ended).unwrap();
        for one in ended.drain(..) {
            let reader = one.reply.id as usize;
            next[reader] += u64::from(length);
            read += 1;
            disk.submit(Command::new(reader as u32, IoOp::Read, next[reader], length));
        }
    }
    4000.0 * f64::from(length) / 1e6 / (disk.now() as f64 / 1e9)
}

#[test]
fn the_elevator_keeps_the_arm_with_a_reader() {
    let (with, without) = (two_readers(""), two_readers("anticipation_ms=0"));
    assert!(with > 40.0, "{with} MB/s with the elevator");
    assert!(without < with / 2.0, "{without} MB/s without, {with} with");
}

#[test]
fn writes_are_acknowledged_from_memory_and_flushed_to_the_platter() {
    let mut disk = disk("");
    let quick = play(&mut disk, 1, at_random(IoOp::Write, 100));
    assert!(quick < 1.0, "{quick} ms");
    let flush = play(&mut disk, 1, [Command::new(0, IoOp::Flush, 0, 0)]);
    assert!(flush > 100.0, "100 writes are on the platter after {flush} ms");
    let again = play(&mut disk, 1, [Command::new(0, IoOp::Flush, 0, 0)]);
    assert!(again < 1.0, "nothing is left: {again} ms");
    let through = play(&mut self::disk("write_cache=off"), 1, at_random(IoOp::Write, 500));
    assert!((12.5..14.5).contains(&through), "with settling: {through} ms");
    // Larger than the memory: the rate is that of the platter.
    let many = play(&mut disk, 1, at_random(IoOp::Write, 20_000));
    assert!((3.0..10.0).contains(&many), "{many} ms");
}

#[test]
fn reads_come_through_while_writes_are_put_off() {
    let mut drawn = Drawn(3);
    let mixed: Vec<Command> = (0..6000)
        .map(|n| {
            let op = if n % 2 == 0 { IoOp::Read } else { IoOp::Write };
            Command::new(0, op, drawn.below(60_000_000) * 4096, 4096)
        })
        .collect();
    let first = play(&mut disk(""), 8, mixed.iter().cloned());
    assert_eq!(first.to_bits(), play(&mut disk(""), 8, mixed).to_bits(), "the same each time");
    assert!((4.0..14.0).contains(&first), "{first} ms");
}

#[test]
fn what_it_cannot_do_fails_with_a_reason() {
    let (mut disk, mut ended) = (disk("capacity=1Gi"), Vec::new());
    disk.submit(Command::new(1, IoOp::Trim, 0, 4096));
    disk.wait(Nanos::MAX, &mut ended).unwrap();
    assert!(ended[0].reply.outcome.is_err(), "a hard disk has no trim");
    let spec = "hard_disk(seek_ms=1)";
    let args = INFO.accept(&Spec::parse(spec).unwrap()).unwrap();
    let error = HardDisk::open(&Opening::new(spec, Access::Write), &args).err().unwrap();
    assert!(error.to_string().contains("the mean must be from"), "{error}");
}
