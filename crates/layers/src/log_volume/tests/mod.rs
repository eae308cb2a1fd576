//! Tests of the volume against a plain map, over a device that delays, reorders, forgets and tears.

mod aside;
mod harness;
mod hints;
mod in_segments;
mod order;
mod rest;
mod rot;
mod salvage;

use std::collections::HashSet;

use units::IoOp;

use self::harness::{Mix, SECTOR, World, disk};
use crate::driver::through;
use crate::{Facts, LayerError, Signal};

const KIB: u64 = 1 << 10;

/// Small volumes, so that everything wraps and fills.
const VOLUMES: &[&str] = &[
    "log_volume(page=1Ki,segment=8Ki,over_provisioning=18%,placement=none,summary_pages=8,\
     checkpoint_every=32Ki)",
    "log_volume(page=512,segment=4Ki,over_provisioning=12%,placement=separate,summary_pages=8)",
    "log_volume(page=2Ki,segment=8Ki,over_provisioning=40%,placement=multi_log,summary_pages=16,\
     outstanding=2)",
    "log_volume(page=1Ki,segment=4Ki,over_provisioning=30%,placement=container_marking(markers=3),\
     summary_pages=12,align=2Ki)",
    "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=dac(regions=3),\
     summary_pages=64,align=4Ki,pad=no)",
    "log_volume(page=512,segment=4Ki,over_provisioning=25%,placement=envy_hybrid(partitions=2),\
     summary_pages=32,checkpoint_every=64Ki)",
    "log_volume(page=1Ki,segment=8Ki,over_provisioning=30%,placement=separate,victim=random,\
     summary_pages=8,align=8Ki,outstanding=1)",
    "log_volume(page=1Ki,segment=8Ki,over_provisioning=30%,placement=separate,summary_pages=8,\
     checksums=no)",
    "log_volume(page=512,segment=16Ki,over_provisioning=80%,summary_pages=8,summaries=segments)",
    "log_volume(page=512,segment=16Ki,over_provisioning=70%,summary_pages=32,summaries=segments,\
     victim=random,checkpoint_every=64Ki)",
    "log_volume(page=1Ki,segment=32Ki,over_provisioning=60%,summary_pages=12,summaries=segments,\
     align=4Ki,outstanding=2)",
    "log_volume(page=512,segment=4Ki,over_provisioning=60%,summary_pages=12,hints=yes)",
];

#[test]
fn every_placement_and_victim_policy_of_the_registry_runs() {
    let volume = |policies: &str| {
        format!(
            "log_volume(page=512,segment=4Ki,over_provisioning=150%,summary_pages=16,{policies})"
        )
    };
    // Policies that know frequencies or the future are refused: the volume knows neither.
    let oracles = ["multi_log_optimal", "future_knowledge"];
    for entry in placement::PLACEMENTS.iter().filter(|entry| !oracles.contains(&entry.info.name)) {
        campaign(&volume(&format!("placement={}", entry.info.name)), 5, 6000, 0.003, RARE);
    }
    for victim in placement::VICTIMS {
        campaign(
            &volume(&format!("placement=separate,victim={}", victim.name)),
            6,
            6000,
            0.003,
            OFTEN,
        );
    }
}

fn campaign(volume: &str, seed: u64, steps: u32, cuts: f64, mix: Mix) {
    use rand::RngExt as _;
    let mut world = World::new(volume, 512 * KIB, seed);
    for _ in 0..steps {
        world.play(mix);
        if world.random.random_bool(cuts) {
            world.cut();
        }
    }
    world.settle();
    world.signal(Signal::Drain);
    world.settle();
    assert!(world.stack.is_idle(), "{volume}: after a drain it is idle");
    world.cut();
}

const RARE: Mix =
    Mix { sectors: 4, flushes: 5, fuas: 2, trims: 20, hot_sectors: 0, has_slow_reads: false };
const OFTEN: Mix =
    Mix { sectors: 2, flushes: 60, fuas: 100, trims: 15, hot_sectors: 0, has_slow_reads: false };
/// The same few pages again and again.
const HOT: Mix =
    Mix { sectors: 2, flushes: 1, fuas: 0, trims: 0, hot_sectors: 12, has_slow_reads: false };

/// Volumes that are as full as they may be, with as few spare segments as the policy takes.
const TIGHT: &[&str] = &[
    "log_volume(page=512,segment=2Ki,over_provisioning=OP%,placement=none,summary_pages=8)",
    "log_volume(page=512,segment=2Ki,over_provisioning=OP%,placement=separate,summary_pages=64)",
    "log_volume(page=512,segment=4Ki,over_provisioning=OP%,placement=container_marking(markers=3),\
     summary_pages=16,align=2Ki)",
    "log_volume(page=512,segment=16Ki,over_provisioning=OP%,summary_pages=32,summaries=segments)",
    "log_volume(page=512,segment=16Ki,over_provisioning=OP%,summary_pages=16,summaries=segments,\
     victim=lru)",
];

const TIGHT_BYTES: u64 = 160 * KIB;

fn tightest(volume: &str, capacity_bytes: u64) -> String {
    let with = |percent: u32| volume.replace("OP", &percent.to_string());
    let fits = |text: &String| {
        crate::format(text, &Facts::default(), 1, &mut disk(capacity_bytes)).is_ok()
    };
    (1..300).map(with).find(fits).unwrap()
}

/// Cuts a full volume again and again, before it has come far.
fn cut_when_full(volume: &str, seed: u64, mix: Mix, steps: u32, cuts: u32) {
    use rand::RngExt as _;
    let mut world = World::new(&tightest(volume, TIGHT_BYTES), TIGHT_BYTES, seed);
    world.fill();
    for _ in 0..cuts {
        (0..world.random.random_range(0..steps)).for_each(|_| world.play(mix));
        world.cut();
    }
    (0..2000).for_each(|_| world.play(mix));
    world.settle();
}

#[test]
fn a_full_volume_is_cleaned_after_any_chain_of_cuts() {
    for volume in TIGHT {
        for seed in 0..9 {
            let mix =
                [HOT, Mix { trims: 0, ..RARE }, Mix { trims: 0, flushes: 75, fuas: 300, ..OFTEN }]
                    [seed as usize % 3];
            cut_when_full(volume, seed, mix, 50, 100);
        }
    }
}

/// Recovery never checks a place that was overwritten later: a segment is free only when it is
/// durably known that all that emptied it is durable.
#[test]
fn a_segment_is_not_written_to_again_while_recovery_may_look_for_what_was_there() {
    for volume in TIGHT {
        for seed in 20..28 {
            cut_when_full(volume, seed, HOT, 300, 40);
        }
    }
}

#[test]
fn a_segment_that_is_being_read_is_not_written_to() {
    for volume in TIGHT {
        cut_when_full(volume, 40, Mix { has_slow_reads: true, ..HOT }, 6000, 3);
        cut_when_full(volume, 41, Mix { has_slow_reads: true, ..OFTEN }, 6000, 3);
    }
}

#[test]
fn nothing_is_lost_and_nothing_invented_by_power_cuts() {
    for volume in VOLUMES {
        for seed in 0..6 {
            campaign(volume, seed, 4000, 0.01, if seed % 2 == 0 { RARE } else { OFTEN });
        }
    }
}

#[test]
fn without_cuts_it_goes_on_for_ever_and_comes_to_rest() {
    for volume in VOLUMES {
        campaign(volume, 77, 40_000, 0.0, RARE);
        campaign(volume, 78, 20_000, 0.0002, OFTEN);
    }
}

/// Gives the writes of the volume's data; its own structures lie before these.
fn data_writes(world: &World, first_data_byte: u64) -> Vec<(u64, u32)> {
    let writes = world
        .sent
        .iter()
        .filter(|(op, offset, _)| *op == IoOp::Write && *offset >= first_data_byte);
    writes.map(|&(_, offset, length)| (offset, length)).collect()
}

#[test]
fn random_writes_become_sequential_ones_of_the_same_length() {
    let mut world = World::new(
        "log_volume(page=1Ki,segment=8Ki,placement=none,over_provisioning=40%)",
        512 * KIB,
        3,
    );
    for page in [7, 3, 90, 12, 50, 4, 33, 8] {
        world.submit(IoOp::Write, page * KIB, KIB, false);
    }
    world.submit(IoOp::Write, 60 * KIB, 2 * KIB, false);
    let writes = data_writes(&world, 0);
    let lengths: Vec<u32> = writes[..8].iter().map(|&(_, length)| length).collect();
    assert_eq!(lengths, [1024, 1024, 1024, 1024, 1024, 1024, 2048, 1024], "the footer goes along");
    assert!(
        writes.windows(2).all(|pair| pair[0].0 + u64::from(pair[0].1) == pair[1].0),
        "{writes:?}"
    );
    assert_eq!(writes[8].1, 2048, "what the host wrote at once is written at once");
    assert_eq!(world.waiting(), 9, "they are acknowledged when they are written below");
    world.settle();
}

#[test]
fn aligned_writes_are_whole_unless_a_flush_comes() {
    let mut world = World::new(
        "log_volume(page=1Ki,segment=8Ki,placement=none,over_provisioning=40%,align=4Ki)",
        512 * KIB,
        3,
    );
    for page in 0..10 {
        world.submit(IoOp::Write, page * 5 * KIB, KIB, false);
    }
    assert_eq!(world.waiting(), 0, "they are acknowledged when they are gathered");
    assert_eq!(world.counter("gathered_pages"), 3);
    let writes = data_writes(&world, 0);
    assert_eq!(writes.iter().map(|&(_, length)| length).collect::<Vec<_>>(), [4096; 2]);
    world.submit(IoOp::Flush, 0, 0, false);
    let writes = data_writes(&world, writes[0].0);
    assert_eq!(writes.len(), 3);
    assert!(
        writes.iter().all(|&(offset, length)| length == 4096 && offset % 4096 == 0),
        "{writes:?}"
    );
    assert_eq!((world.counter("padding_pages"), world.counter("gathered_pages")), (1, 0));
    world.settle();
}

#[test]
fn a_flush_costs_one_summary_and_without_anything_new_nothing() {
    let mut world =
        World::new("log_volume(page=1Ki,segment=8Ki,over_provisioning=40%)", 512 * KIB, 3);
    world.submit(IoOp::Flush, 0, 0, false);
    assert_eq!((world.waiting(), world.sent.len()), (0, 0));
    (0..20).for_each(|page| world.submit(IoOp::Write, page * KIB, KIB, false));
    world.settle();
    assert_eq!(world.counter("summary_pages"), 0);
    world.submit(IoOp::Flush, 0, 0, false);
    assert_eq!(world.waiting(), 1);
    world.settle();
    assert_eq!((world.counter("summary_pages"), world.counter("flushes")), (2, 1), "and its copy");
}

#[test]
fn a_write_or_flush_that_fails_poisons_but_for_reads() {
    for (op, left) in [(IoOp::Write, 3), (IoOp::Flush, 0)] {
        let mut world = World::new(VOLUMES[0], 512 * KIB, 5);
        world.fails_after = Some((op, left));
        (0..8).for_each(|page| world.submit(IoOp::Write, page * KIB, KIB, false));
        world.submit(IoOp::Flush, 0, 0, false);
        world.settle();
        assert!(world.has_failed, "{op:?}");
        world.has_failed = false;
        world.submit(IoOp::Write, 0, KIB, false);
        assert!(world.has_failed && world.waiting() == 0, "{op:?}");
        // Acknowledged writes are there; others hold the old or the new content.
        world.has_failed = false;
        (0..12).for_each(|page| world.submit(IoOp::Read, page * KIB, KIB, false));
        world.settle();
        assert!(!world.has_failed, "{op:?}: a read is safe");
        assert!(world.stack.is_idle());
        // All that was durable before is still there.
        world.cut();
    }
    let without = VOLUMES.iter().find(|volume| volume.contains("checksums=no")).unwrap();
    let mut world = World::new(without, 512 * KIB, 5);
    world.fails_after = Some((IoOp::Write, 0));
    world.submit(IoOp::Write, 0, KIB, false);
    world.settle();
    world.has_failed = false;
    world.submit(IoOp::Read, 0, KIB, false);
    assert!(world.has_failed, "without checksums nothing says what a read gives");
    let mut world = World::new(VOLUMES[0], 512 * KIB, 5);
    (0..8).for_each(|page| world.submit(IoOp::Write, page * KIB, KIB, false));
    world.settle();
    world.fails_after = Some((IoOp::Read, 0));
    world.submit(IoOp::Read, 0, 4096, false);
    // A part of a page cannot be written either if the rest cannot be read.
    world.submit(IoOp::Write, 0, SECTOR, false);
    world.settle();
    assert!(world.has_failed);
    world.fails_after = None;
    world.submit(IoOp::Read, 0, 4096, false);
    world.submit(IoOp::Write, 0, SECTOR, false);
    world.settle();
}

#[test]
fn reads_of_cleaning_that_each_fail_once_are_tried_again() {
    // Scattered pages stay valid, so that a victim takes many reads.
    let mut world = World::new(
        "log_volume(page=1Ki,segment=32Ki,over_provisioning=60%,placement=none,summary_pages=16)",
        512 * KIB,
        5,
    );
    world.fill();
    world.fails_first_reads = Some(HashSet::new());
    let pages = world.capacity() / KIB;
    for number in 0..8 * pages {
        world.submit(IoOp::Write, number * 7 % pages * KIB, KIB, false);
        world.settle();
    }
    assert!(world.fails_first_reads.is_some_and(|failed| failed.len() > 8), "cleaning has read");
    assert!(!world.has_failed);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let refused = |text: &str, bytes: u64| {
        let mut disk = disk(bytes);
        let error = crate::format(text, &Facts::default(), 1, &mut disk).unwrap_err();
        assert!(disk.bytes.iter().all(|&byte| byte == 0), "{text}");
        error
    };
    assert!(matches!(refused("log_volume", 1 << 20), LayerError::TooSmall { .. }));
    assert!(matches!(
        refused("log_volume(page=1Ki,segment=8Ki,over_provisioning=1%)", 1 << 20),
        LayerError::Refused { .. }
    ));
    assert!(matches!(refused("log_volume(page=1Ki,segment=9000)", 1 << 20), LayerError::Spec(_)));
    assert!(matches!(refused("log_volume(page=1536)", 1 << 20), LayerError::Spec(_)));
    assert!(matches!(refused("log_volume(align=auto)", 1 << 20), LayerError::Unknown { .. }));
    assert!(matches!(refused("log_volume(placement=nosuch)", 64 << 20), LayerError::Spec(_)));
    let optimal = refused(
        "log_volume(placement=multi_log_optimal,segment=64Ki,over_provisioning=50%)",
        16 << 20,
    );
    assert!(optimal.to_string().contains("how often each page is updated"), "{optimal}");
    let mut empty = disk(1 << 20);
    assert!(matches!(
        crate::open("log_volume", &Facts::default(), 1, &mut empty),
        Err(LayerError::NotFormatted { .. })
    ));
}

#[test]
fn a_filled_volume_reads_what_is_there_and_is_cleaned() {
    let text =
        "log_volume(page=1Ki,segment=8Ki,placement=separate,over_provisioning=35%,filled=yes)";
    let mut disk = disk(400 * KIB);
    crate::format(text, &Facts::default(), 1, &mut disk).unwrap();
    let mut stack = crate::open(text, &Facts::default(), 1, &mut disk).unwrap();
    let capacity = stack.limits().capacity_bytes;
    through(&mut stack, &mut disk, |store| {
        for number in 0..2000_u64 {
            let page = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % (capacity / KIB);
            let (offset, mut read) = (page * KIB, [0; KIB as usize]);
            store.write(offset, &[number as u8; KIB as usize]).unwrap();
            store.read(offset, &mut read).unwrap();
            assert_eq!(read, [number as u8; KIB as usize]);
        }
    });
    let mut counts = Vec::new();
    stack.layers()[0].count(&mut counts);
    let counter = |name: &str| {
        counts[super::counts::COUNTERS.iter().position(|counter| counter.name == name).unwrap()]
    };
    assert_eq!((counter("host_pages"), counter("unmapped_reads")), (2000, 0));
    assert!(counter("relocated_pages") > 100, "a volume that was full from the start: {counts:?}");
}

#[test]
fn trims_alone_do_not_fill_the_summaries() {
    let mut world = World::new(
        "log_volume(page=512,segment=4Ki,placement=none,over_provisioning=40%,summary_pages=8)",
        512 * KIB,
        3,
    );
    let pages = world.capacity() / SECTOR;
    assert!(pages > 8 * 28, "more than the entries of all summaries");
    world.submit(IoOp::Write, 0, 16 * KIB, false);
    for start in (0..world.capacity()).step_by(16 << 10) {
        world.submit(IoOp::Write, start, (world.capacity() - start).min(16 * KIB), false);
        world.settle();
    }
    (0..pages).for_each(|page| world.submit(IoOp::Trim, page * SECTOR, SECTOR, false));
    world.settle();
    assert_eq!(world.counter("trimmed_pages"), pages);
    world.cut();
}

/// The volume cleans as the simulator does: the same policies under the same writes move as many
/// pages, but for the segments that are empty and not free yet, and those with which cleaning
/// begins early.
#[test]
fn it_moves_as_many_pages_as_the_simulator() {
    use rand::{RngExt as _, SeedableRng as _};
    let text = "log_volume(page=512,segment=16Ki,over_provisioning=30%,placement=none,\
                victim=greedy,filled=yes)";
    let mut disk = disk(16 << 20);
    crate::format(text, &Facts::default(), 1, &mut disk).unwrap();
    let mut stack = crate::open(text, &Facts::default(), 1, &mut disk).unwrap();
    let pages = (stack.limits().capacity_bytes / 512) as u32;
    let segments = (f64::from(pages) * 1.3 / 32.0).ceil() as u32;
    let geometry = units::Geometry {
        page_bytes: 512,
        pages_per_erase_block: 32,
        logical_pages: pages,
        erase_blocks: segments,
    };
    let context = placement::Context::new(geometry, 1);
    let victims =
        placement::build_victim(&registry::Spec::parse("greedy").unwrap(), &context, 1).unwrap();
    let simulated = placement::policies::none::NoPlacement;
    let mut simulated = ftl::PageMapped::new(geometry, "none", simulated, victims).unwrap();
    (0..pages).for_each(|page| simulated.write(units::Lpn(page), 0));
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(2);
    let relocated = |stack: &crate::Stack| {
        let mut counts = Vec::new();
        stack.layers()[0].count(&mut counts);
        counts[super::counts::COUNTERS
            .iter()
            .position(|counter| counter.name == "relocated_pages")
            .unwrap()]
    };
    let mut moved = (0, 0);
    for round in 0..2 {
        // The first round is for the state to become steady.
        let before = (simulated.counters().relocated_pages, relocated(&stack));
        for _ in 0..4 * pages {
            let page = random.random_range(0..pages);
            simulated.write(units::Lpn(page), 0);
            through(&mut stack, &mut disk, |store| store.write(u64::from(page) * 512, &[1; 512]))
                .unwrap();
        }
        moved = (simulated.counters().relocated_pages - before.0, relocated(&stack) - before.1);
        println!("round {round}: {moved:?}");
    }
    let ratio = moved.1 as f64 / moved.0 as f64;
    assert!(
        (0.97..1.1).contains(&ratio),
        "{} pages moved, and {} in the simulator",
        moved.1,
        moved.0
    );
}

/// Regression, found by the campaign of `faults`: cleaning moved pages after the flush that ended
/// the drain, and the volume was never idle again.
#[test]
fn after_a_drain_it_is_idle_though_cleaning_goes_on() {
    for volume in VOLUMES {
        let mut world = World::new(volume, 512 * KIB, 9);
        for _ in 0..300 {
            (0..40).for_each(|_| world.play(RARE));
            world.signal(Signal::Drain);
            world.settle();
            assert!(world.stack.is_idle(), "{volume}");
        }
    }
}

/// Otherwise the place of the lost page would be lost, and a volume that is as full as it may be
/// could not be cleaned.
#[test]
fn a_stream_goes_on_where_its_first_page_was_lost() {
    let text = "log_volume(page=1Ki,segment=8Ki,placement=none,over_provisioning=40%)";
    let mut world = World::new(text, 512 * KIB, 3);
    (0..5).for_each(|page| world.submit(IoOp::Write, page * KIB, KIB, false));
    world.submit(IoOp::Flush, 0, 0, false);
    let mut disk = world.write_all();
    let second = data_writes(&world, 0)[1].0 as usize;
    disk.bytes[second + 100] ^= 1;
    let mut stack = crate::open(text, &Facts::default(), 1, &mut disk).unwrap();
    let mut counts = Vec::new();
    stack.layers()[0].count(&mut counts);
    let lost =
        super::counts::COUNTERS.iter().position(|counter| counter.name == "lost_pages").unwrap();
    assert_eq!(counts[lost], 4, "the page that is lost, and those behind it");
    let mut read = [0; 5 * KIB as usize];
    through(&mut stack, &mut disk, |store| {
        store.read(0, &mut read).unwrap();
        store.write(9 * KIB, &[7; 1024]).unwrap();
    });
    assert!(read[..8] == 1u64.to_le_bytes() && read[1024..].iter().all(|&byte| byte == 0));
    assert_eq!(disk.bytes[second..second + 1024], [7; 1024]);
}
