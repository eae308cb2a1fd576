//! Test of the memory that layers tell against what is allocated while they work. All is in one
//! test, as it counts the allocations of its process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, Failure, Immediate, Limits,
    Reply,
};
use layers::{Driver, Facts, StackMemory};
use peak_alloc::PeakAlloc;
use placement::PLACEMENTS;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{IoOp, Nanos};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const DEVICE_BYTES: u64 = 64 << 20;
const OUTSTANDING: u32 = 32;

/// Bytes in memory, allocated once; a third of the commands take fifty times as long as the others.
struct Slow {
    info: DeviceInfo,
    bytes: Vec<u8>,
    now: Nanos,
    due: BTreeMap<(Nanos, u64), Completion>,
    number: u64,
    random: Pcg64Mcg,
}

impl Slow {
    fn new(capacity_bytes: u64) -> Self {
        let limits = Limits { capacity_bytes, sector_bytes: 512, most_bytes: 128 << 10 };
        let info = Immediate::sparse(limits).info().clone();
        let random = Pcg64Mcg::seed_from_u64(1);
        let bytes = vec![0; capacity_bytes as usize];
        Self { info, bytes, now: 0, due: BTreeMap::new(), number: 0, random }
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let range = command.offset as usize..command.end() as usize;
        match command.op {
            IoOp::Read => return Ok(Data::copy_of(&self.bytes[range])),
            IoOp::Write => command.data.copy_to(&mut self.bytes[range]),
            IoOp::Trim => self.bytes[range].fill(0),
            IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

impl BlockDevice for Slow {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn outstanding(&self) -> u32 {
        self.due.len() as u32
    }

    fn submit(&mut self, command: Command) {
        let outcome = self.serve(&command);
        let is_slow = self.random.random_range(0..3) == 0;
        let completed_at = self.now + if is_slow { 5_000_000 } else { 100_000 };
        let reply = Reply { id: command.id, outcome };
        let completion = Completion { reply, submitted_at: self.now, completed_at };
        self.number += 1;
        self.due.insert((completed_at, self.number), completion);
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        self.now = self.due.first_key_value().map_or(until, |(&(at, _), _)| at.min(until));
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= self.now) {
            completed.push(first.remove());
        }
        Ok(())
    }
}

/// Gives the most bytes that were allocated, beyond those before.
fn most_since(before: usize) -> u64 {
    ALLOCATED.peak_usage().saturating_sub(before) as u64
}

fn now() -> usize {
    ALLOCATED.reset_peak_usage();
    ALLOCATED.current_usage()
}

/// Sends random writes, some reads and trims; a flush now and then.
fn work(device: &mut dyn BlockDevice, commands: u64, sizes: &[u32], flush_every: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let capacity = device.info().limits.capacity_bytes;
    let mut replies = Vec::new();
    for number in 0..commands {
        let length = sizes[random.random_range(0..sizes.len())];
        let places = (capacity - u64::from(length)) / 512;
        let op = match random.random_range(0..20) {
            0 => IoOp::Read,
            1 => IoOp::Trim,
            _ => IoOp::Write,
        };
        let mut command =
            Command::new(number as u32, op, random.random_range(0..places) * 512, length);
        if op == IoOp::Write {
            command.data = Data::zeros(length as usize);
        }
        if number % flush_every == flush_every - 1 {
            command = Command::new(number as u32, IoOp::Flush, 0, 0);
        }
        device.submit(command);
        while device.outstanding() >= OUTSTANDING {
            replies.clear();
            device.wait(Nanos::MAX, &mut replies).unwrap();
        }
    }
    while device.outstanding() > 0 {
        device.wait(Nanos::MAX, &mut replies).unwrap();
    }
    assert!(replies.iter().all(|completion| completion.reply.outcome.is_ok()));
}

/// Memory that a stack takes, and that it tells.
struct Found {
    told: StackMemory,
    /// Bytes after it was opened; tables that are not in the heap included.
    open_bytes: u64,
    opening_bytes: u64,
    working_bytes: u64,
}

/// Measures a stack; `mapped` bytes of it are not in the heap.
fn measured(text: &str, commands: u64, sizes: &[u32], flush_every: u64, mapped: u64) -> Found {
    let mut device = Slow::new(DEVICE_BYTES);
    let facts = Facts::default();
    let told = layers::memory(text, &facts, 1, device.info().limits).unwrap();
    layers::format(text, &facts, 1, &mut device).unwrap();
    // It is opened once more: after a crash it holds pages.
    let stack = layers::open(text, &facts, 1, &mut device).unwrap();
    let mut driver = Driver::new(device, stack);
    work(&mut driver, commands / 4, sizes, flush_every);
    driver.settle().unwrap();
    let (mut device, stack) = driver.into_parts();
    drop(stack);
    let before = now();
    let stack = layers::open(text, &facts, 1, &mut device).unwrap();
    let opening_bytes = most_since(before) + mapped;
    let open_bytes = (now() - before) as u64 + mapped;
    let mut driver = Driver::new(device, stack);
    work(&mut driver, commands, sizes, flush_every);
    Found { told, open_bytes, opening_bytes, working_bytes: most_since(before) + mapped }
}

/// Gives the bytes of requests under way: their data, once above and once on the way down, and a
/// record of each.
fn of_requests(sizes: &[u32]) -> u64 {
    let longest = sizes.iter().max().unwrap();
    u64::from(OUTSTANDING) * (2 * u64::from(*longest) + 4096)
}

/// Checks that the bound holds, and is no more than 1 / `least_share` of the measured memory: of
/// the tables, or of all with held bytes.
fn check(text: &str, found: &Found, sizes: &[u32], least_share: f64, has_held: bool) {
    let Found { told, open_bytes, opening_bytes, working_bytes } = found;
    let (all, most) = (told.open_bytes(), told.most_bytes());
    println!(
        "{text}: told {told}, most {most}; open {open_bytes}, opening {opening_bytes}, working \
         {working_bytes}"
    );
    let tables: u64 = told.layers.iter().map(|(_, memory)| memory.table_bytes).sum();
    let opening = told.layers[0].1.opening_bytes.max(tables);
    assert!(*opening_bytes <= opening, "{text}: {opening_bytes} at opening, told {opening}");
    let working = working_bytes.saturating_sub(of_requests(sizes));
    assert!(working <= all, "{text}: {working} at work, told {all}");
    let least = least_share * if has_held { all } else { tables } as f64;
    assert!(*working_bytes as f64 >= least, "{text}: {working_bytes}, and {least} were expected");
}

/// Gives the bytes of a log's tables that are mapped, not allocated: 4 for each logical and
/// physical page.
fn mapped_by_log(text: &str) -> u64 {
    let device = Slow::new(DEVICE_BYTES);
    let logical = layers::capacity(text, &Facts::default(), 1, device.info().limits).unwrap() / 512;
    // The over-provisioning gives the number of physical pages, up to a segment.
    4 * (logical + logical * 11 / 10)
}

#[test]
fn layers_keep_what_they_say_and_no_more() {
    for entry in PLACEMENTS {
        let name = entry.info.name;
        if ["future_knowledge", "multi_log_optimal"].contains(&name) {
            continue;
        }
        let text = format!("log_volume(page=512,segment=64Ki,placement={name})");
        let sizes = [512, 512, 512, 4096];
        let found = measured(&text, 80_000, &sizes, 64, mapped_by_log(&text));
        check(&text, &found, &sizes, 0.7, false);
    }
    for (text, flush_every, least_share) in [
        ("log_volume(page=512,segment=64Ki,checksums=no)", 64, 0.5),
        ("log_volume(page=512,segment=64Ki,align=64Ki,hints=yes)", 10_000, 0.5),
        ("log_volume(page=512,segment=64Ki,summaries=segments)", 64, 0.5),
    ] {
        let sizes = [512, 512, 4096, 65536];
        let found = measured(text, 50_000, &sizes, flush_every, mapped_by_log(text));
        check(text, &found, &sizes, least_share, false);
    }
    for (text, commands, sizes, least_share) in [
        ("scheduler(buffer=8Mi)", 100_000, &[512][..], 0.5),
        ("scheduler(buffer=8Mi)", 20_000, &[4096][..], 0.2),
        ("stable_buffer(size=8Mi,ack=written)", 10_000, &[4096, 8192][..], 0.4),
        ("stable_buffer(size=8Mi,ack=written,reread=no)", 10_000, &[4096, 65536][..], 0.4),
        ("stable_buffer(size=8Mi,layout=beside,flushing=proactive)", 20_000, &[512][..], 0.4),
        ("checksums(page=512)", 50_000, &[512, 4096][..], 0.4),
        ("checksums(page=512,block=512,delay=1us)", 50_000, &[512, 1024][..], 0.4),
        // Left to itself, D would lie above the slow commands too, and nothing would be copied.
        ("replicas(page=512,patience=1ms)", 200_000, &[512][..], 0.4),
        (
            "replicas(page=512,patience=1ms,policy=lru,copies=8,partitions=64)",
            200_000,
            &[512][..],
            0.4,
        ),
    ] {
        let found = measured(text, commands, sizes, 1_000_000, 0);
        check(text, &found, sizes, least_share, text.contains("buffer="));
    }
}
