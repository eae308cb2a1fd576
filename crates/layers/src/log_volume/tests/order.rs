//! In which order recovery reads, flushes and writes.

use block::{Immediate, Serve, Sparse};
use units::IoOp;

use super::KIB;
use super::harness::{Disk, World, disk};
use crate::driver::through;
use crate::{Command, Data, Facts, Failure, Limits, Stack};

/// A device that notes what is done to it.
struct Noted {
    below: Sparse,
    done: String,
}

impl Serve for Noted {
    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        self.done.push_str(&command.op.name()[..1]);
        self.below.serve(command)
    }
}

/// After a killed process or a failed flush the newest root may be in the device's cache alone: a
/// root or table written beside it is safe only once it is durable itself, or a power cut may leave
/// neither.
#[test]
fn what_recovery_reads_is_durable_before_it_writes() {
    let text =
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=separate,summary_pages=8)";
    let limits = Limits { capacity_bytes: 256 * KIB, sector_bytes: 512, most_bytes: 1 << 20 };
    let mut store = Immediate::new(Noted { below: Sparse::new(limits), done: String::new() });
    crate::format(text, &Facts::default(), 1, &mut store).unwrap();
    store.done.clear();
    crate::open(text, &Facts::default(), 1, &mut store).unwrap();
    assert!(store.done.starts_with('f'), "{}", store.done);
    assert!(store.done.ends_with("wf"), "{}", store.done);
}

/// Summaries on a device: their numbers and where they lie.
fn summaries(disk: &Disk, page: usize) -> Vec<(u64, usize)> {
    let is_one = |at: &usize| disk.bytes[at + 8..at + 16] == *b"FWLOGSUM";
    let number = |at: usize| u64::from_le_bytes(disk.bytes[at + 32..at + 40].try_into().unwrap());
    let mut found: Vec<_> =
        (0..disk.bytes.len()).step_by(page).filter(is_one).map(|at| (number(at), at)).collect();
    found.sort_unstable();
    found
}

/// A cut leaves the second of two summaries and not the first; the next life writes another first
/// one, with as many entries. What the second tells is of the life before, and its trims would be
/// taken unseen: only the epoch tells. It takes a coincidence, which the campaign of `faults` does
/// not meet.
#[test]
fn a_summary_of_an_earlier_life_is_not_taken() {
    const PAGE: u64 = 512;
    let text =
        "log_volume(page=512,segment=16Ki,over_provisioning=100%,placement=none,summary_pages=8)";
    let mut disk = disk(256 * KIB);
    crate::format(text, &Facts::default(), 1, &mut disk).unwrap();
    let open = |disk: &mut Disk| crate::open(text, &Facts::default(), 1, disk).unwrap();
    let write = |stack: &mut Stack, disk: &mut Disk, pages: std::ops::Range<u64>, value: u8| {
        for page in pages {
            through(stack, disk, |store| store.write(page * PAGE, &[value; 512])).unwrap();
        }
    };
    let mut stack = open(&mut disk);
    // With the entry of the segment there are 28, as many as a summary holds.
    write(&mut stack, &mut disk, 0..27, 1);
    through(&mut stack, &mut disk, |store| store.flush()).unwrap();
    write(&mut stack, &mut disk, 27..54, 1);
    for page in 0..28 {
        through(&mut stack, &mut disk, |store| store.trim(page * PAGE, 512)).unwrap();
    }
    let written = summaries(&disk, PAGE as usize);
    assert_eq!(written.len(), 6, "three and their copies");
    for &(_, at) in &written[2..4] {
        disk.bytes[at..at + 512].fill(0);
    }
    let mut stack = open(&mut disk);
    write(&mut stack, &mut disk, 0..27, 2);
    through(&mut stack, &mut disk, |store| store.flush()).unwrap();
    assert_eq!(
        summaries(&disk, PAGE as usize),
        written,
        "the first is there anew, and the second is that of before"
    );
    let mut stack = open(&mut disk);
    let mut read = vec![0; 27 * 512];
    through(&mut stack, &mut disk, |store| store.read(0, &mut read)).unwrap();
    assert!(read.iter().all(|&byte| byte == 2), "what was flushed is there");
}

/// Pages that cleaning has read come back one by one, each with a flush of the host after it, so
/// that each needs a summary of its own; and no checkpoint makes room meanwhile. What was promised
/// to all of them together as one summary would not be there.
#[test]
fn there_is_room_for_the_summary_of_each_page_that_is_read() {
    let text = "log_volume(page=512,segment=16Ki,over_provisioning=60%,placement=none,victim=lru,\
                summary_pages=8)";
    let mut world = World::new(text, 256 * KIB, 5);
    world.fill();
    let is_root = |command: &Command| {
        command.op == IoOp::Write
            && command.data.joined().is_some_and(|bytes| bytes[8..16] == *b"FWLOGROT")
    };
    let others = |command: &Command| command.op != IoOp::Read && !is_root(command);
    let pages = world.capacity() / 512;
    for number in 0..6 * pages {
        if world.waiting() < 8 {
            // Every other page stays where it is, so that none that is moved lies beside another.
            world.submit(IoOp::Write, number * 2 % pages * 512, 512, false);
        }
        world.submit(IoOp::Flush, 0, 0, false);
        while world.step_if(others) {}
        if !world.step_if(|command| command.op == IoOp::Read) {
            while world.step_if(is_root) || world.step_if(others) {}
        }
    }
    world.settle();
    assert!(world.counter("relocated_pages") > 1000 && world.counter("checkpoints") > 50);
    world.cut();
}
