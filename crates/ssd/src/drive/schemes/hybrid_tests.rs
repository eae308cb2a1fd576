//! The log-block schemes against a plain map, on media that hold data.

use std::collections::BTreeMap;

use proptest::prelude::*;
use registry::{Info, Spec};
use units::{Lpn, Ppn};

use super::{ReadPath, Scheme, SchemeError, bast, block_mapped, fast};
use crate::drive::media::{Done, FlashOp, Layout, Media, Tag};
use crate::drive::profile::{CommandOrder, MediaConfig};
use crate::drive::time::{PICOS_PER_SECOND, Picos};

fn config(channels: u32, dies: u32, planes: u32, blocks: u32, pages: u32) -> MediaConfig {
    MediaConfig {
        channels,
        packages_per_channel: 1,
        dies_per_package: dies,
        planes_per_die: planes,
        erase_blocks_per_plane: blocks,
        pages_per_erase_block: pages,
        page_bytes: 4096,
        slices: 1,
        pages_per_read: 1,
        pages_per_program: 1,
        part_read_us: Vec::new(),
        most_suspensions: 16,
        read_us: vec![25.0],
        program_us: vec![200.0],
        erase_us: 1500.0,
        command_us: 1.0,
        channel_mt_per_second: 40.0,
        channel_bits: 8,
        multi_plane: false,
        cache_mode: false,
        copy_back: false,
        suspend: false,
        suspend_at_points: false,
        suspend_us: 0.0,
        order: CommandOrder::Fifo,
        endurance_cycles: 0,
        endurance_spread: 0.0,
        factory_bad_share: 0.0,
        read_retry_mean: Vec::new(),
        read_retry_cycles: Vec::new(),
        worn_cycles: 0,
        time_noise: 0.0,
    }
}

fn build(
    spec: &str,
    layout: &Layout,
    logical_pages: u32,
    copy_back: bool,
) -> Result<Box<dyn Scheme>, SchemeError> {
    let spec = Spec::parse(spec).unwrap();
    let args = |info: &Info| info.accept(&spec).unwrap();
    Ok(match spec.name.as_str() {
        "bast" => Box::new(bast::build(&args(&bast::INFO), layout, logical_pages, copy_back)?),
        "fast" => Box::new(fast::build(&args(&fast::INFO), layout, logical_pages, copy_back)?),
        _ => Box::new(block_mapped::build(
            &args(&block_mapped::INFO),
            layout,
            logical_pages,
            copy_back,
        )?),
    })
}

/// A version of a logical page.
type Held = (u32, u32);

#[derive(Clone, Copy, Debug)]
struct Request {
    held: Held,
    is_done: bool,
}

/// A scheme, media that hold data, and a plain map to compare with.
struct Bench {
    scheme: Box<dyn Scheme>,
    media: Media,
    content: Vec<Option<Held>>,
    moving: BTreeMap<u32, Option<Held>>,
    /// The drive was filled without following what lies where.
    is_blind: bool,
    /// The newest version of each logical page, 0 if it was trimmed or never written.
    newest: Vec<u32>,
    last_write: Vec<u32>,
    requests: Vec<Request>,
    versions: u32,
    outstanding: u32,
    done: Vec<Done>,
}

impl Bench {
    fn new(spec: &str, config: &MediaConfig, logical_pages: u32) -> Self {
        let media = Media::new(config);
        let scheme = build(spec, media.layout(), logical_pages, config.copy_back).unwrap();
        Self {
            content: vec![None; media.layout().physical_pages() as usize],
            moving: BTreeMap::new(),
            is_blind: false,
            newest: vec![0; logical_pages as usize],
            last_write: vec![u32::MAX; logical_pages as usize],
            requests: Vec::new(),
            versions: 0,
            outstanding: 0,
            done: Vec::new(),
            scheme,
            media,
        }
    }

    fn request(&mut self, held: Held) -> Tag {
        self.requests.push(Request { held, is_done: false });
        self.outstanding += 1;
        Tag::drive(self.requests.len() as u32 - 1)
    }

    fn write(&mut self, lpn: u32) {
        self.versions += 1;
        self.newest[lpn as usize] = self.versions;
        let tag = self.request((lpn, self.versions));
        self.last_write[lpn as usize] = tag.number();
        self.scheme.write(Lpn(lpn), tag, &mut self.media);
    }

    fn read(&mut self, lpn: u32) {
        let newest = self.newest[lpn as usize];
        let tag = self.request((lpn, newest));
        let path = self.scheme.read(Lpn(lpn), 512, tag, &mut self.media);
        if path != ReadPath::Flash {
            self.requests.pop();
            self.outstanding -= 1;
        }
        match path {
            ReadPath::Unmapped => assert_eq!(newest, 0, "logical page {lpn} was written"),
            ReadPath::Flash => assert_ne!(newest, 0, "logical page {lpn} holds nothing"),
            ReadPath::Memory => {
                let write = self.requests[self.last_write[lpn as usize] as usize];
                assert!(
                    newest != 0 && !write.is_done && write.held == (lpn, newest),
                    "logical page {lpn} is not in memory"
                );
            }
        }
    }

    fn trim(&mut self, lpn: u32) {
        self.newest[lpn as usize] = 0;
        self.scheme.trim(Lpn(lpn), &mut self.media);
    }

    /// Carries out the next event. Returns whether there was one.
    fn step(&mut self) -> bool {
        if self.media.under_way() == 0 {
            return false;
        }
        let mut done = std::mem::take(&mut self.done);
        self.media.step(&mut done);
        // The media change before the scheme hears of it.
        done.iter().for_each(|one| self.see(one));
        done.iter()
            .filter(|one| one.command.tag.is_scheme())
            .for_each(|one| self.scheme.completed(one, &mut self.media));
        done.clear();
        self.done = done;
        true
    }

    fn see(&mut self, done: &Done) {
        let (page, number) = (done.command.page.index(), done.command.tag.number());
        match (done.command.op, done.command.tag.is_scheme()) {
            (FlashOp::Read, true) => {
                assert!(
                    self.is_blind || self.content[page].is_some(),
                    "a merge reads a page that holds data"
                );
                self.moving.insert(number, self.content[page]);
            }
            (FlashOp::Program, true) => {
                self.content[page] =
                    self.moving.remove(&number).expect("a merge reads before it programs");
            }
            (FlashOp::CopyBack, _) => {
                let layout = self.media.layout();
                let plane = |page| layout.plane_of(layout.block_of(page));
                assert_eq!(
                    plane(done.command.from),
                    plane(done.command.page),
                    "a copy-back stays on its plane"
                );
                self.content[page] = self.content[done.command.from.index()];
            }
            (FlashOp::Erase, _) => {
                let pages = self.media.layout().pages_per_block as usize;
                self.content[page..page + pages].fill(None);
            }
            (FlashOp::Read | FlashOp::Program, false) => {
                let request = &mut self.requests[number as usize];
                assert!(!std::mem::replace(&mut request.is_done, true), "a request is done once");
                self.outstanding -= 1;
                if done.command.op == FlashOp::Program {
                    self.content[page] = Some(request.held);
                } else {
                    assert_eq!(
                        self.content[page],
                        Some(request.held),
                        "a read finds the version of its time"
                    );
                }
            }
        }
    }

    fn run(&mut self) {
        while self.step() {}
        assert!(
            self.outstanding == 0 && self.scheme.is_quiet(),
            "{} requests are left",
            self.outstanding
        );
        self.scheme.audit().unwrap();
    }

    fn check_all(&mut self) {
        self.run();
        for lpn in 0..self.newest.len() as u32 {
            self.read(lpn);
        }
        self.run();
    }

    /// Fills the drive, in order, without following what lies where.
    fn fill_blindly(&mut self) {
        (0..self.newest.len() as u32).for_each(|lpn| self.scheme.write_untimed(Lpn(lpn)));
        self.newest.fill(1);
        self.scheme.settle(&mut self.media);
        self.is_blind = true;
    }

    /// Pages of the preconditioned drive get versions.
    fn write_untimed(&mut self, lpns: &[u32]) {
        for &lpn in lpns {
            self.scheme.write_untimed(Lpn(lpn));
            self.versions += 1;
            self.newest[lpn as usize] = self.versions;
        }
        self.scheme.audit().unwrap();
        self.scheme.settle(&mut self.media);
        // Where a page lies is asked by reading it, once, on media of which only that matters.
        for lpn in (0..self.newest.len() as u32)
            .filter(|&lpn| self.newest[lpn as usize] != 0)
            .collect::<Vec<_>>()
        {
            let tag = self.request((lpn, self.newest[lpn as usize]));
            assert_eq!(
                self.scheme.read(Lpn(lpn), 512, tag, &mut self.media),
                ReadPath::Flash,
                "logical page {lpn} is settled"
            );
            let mut done = Vec::new();
            while done.is_empty() {
                self.media.step(&mut done);
            }
            let page: Ppn = done[0].command.page;
            assert_eq!(self.content[page.index()], None, "logical page {lpn} has its own page");
            self.content[page.index()] = Some((lpn, self.newest[lpn as usize]));
            self.outstanding -= 1;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32),
    Run(u32, u32),
    Read(u32),
    Trim(u32, u32),
    Time(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        6 => (0u32..1000).prop_map(Step::Write),
        3 => (0u32..1000, 1u32..40).prop_map(|(lpn, pages)| Step::Run(lpn, pages)),
        4 => (0u32..1000).prop_map(Step::Read),
        1 => (0u32..1000, 1u32..30).prop_map(|(lpn, pages)| Step::Trim(lpn, pages)),
        6 => (1u32..60).prop_map(Step::Time),
    ];
    proptest::collection::vec(one, 1..250)
}

const SPECS: &[&str] = &[
    "bast(log_blocks=1)",
    "bast(log_blocks=3,interleave=2)",
    "bast(log_blocks=3,merges_at_once=2)",
    "fast(log_blocks=2)",
    "fast(log_blocks=4,interleave=2)",
    "fast(log_blocks=3,merges_at_once=3,interleave=1)",
    "block_mapped(open_blocks=1)",
    "block_mapped(open_blocks=3,interleave=2)",
    "block_mapped(open_blocks=2,merges_at_once=2,interleave=1)",
];

/// As few superblocks as the scheme takes, on 2 channels x 1 die x 2 planes, 3 pages an erase
/// block.
fn smallest(spec: &str, features: u32) -> (MediaConfig, u32) {
    let mut config = config(2, 1, 2, 16, 3);
    config.copy_back = features & 1 != 0;
    config.multi_plane = features & 2 != 0;
    config.cache_mode = features & 4 != 0;
    if features & 8 != 0 {
        config.order = CommandOrder::ReadsFirst;
    }
    let layout = Media::new(&config).layout().clone();
    let mut logical = layout.physical_pages();
    while build(spec, &layout, logical, false).is_err() {
        logical -= 1;
    }
    (config, logical - 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_write_is_done_once_and_every_read_finds_the_last(
        steps in steps(),
        features in 0u32..16,
        range in 1u32..1000,
        aged in proptest::collection::vec(0u32..1000, 0..400),
    ) {
        for spec in SPECS {
            let (config, logical) = smallest(spec, features);
            let mut bench = Bench::new(spec, &config, logical);
            let range = range.min(logical);
            let fill = (0..if aged.len() > 200 { logical } else { 0 })
                .chain(aged.iter().map(|lpn| lpn % logical))
                .collect::<Vec<_>>();
            bench.write_untimed(&fill);
            for step in &steps {
                match *step {
                    Step::Write(lpn) => bench.write(lpn % range),
                    Step::Run(lpn, pages) => {
                        (0..pages).for_each(|page| bench.write((lpn % range + page) % logical));
                    }
                    Step::Read(lpn) => bench.read(lpn % logical),
                    Step::Trim(lpn, pages) => {
                        (0..pages).for_each(|page| bench.trim((lpn % range + page) % logical));
                    }
                    Step::Time(events) => _ = (0..events).all(|_| bench.step()),
                }
                bench
                    .scheme
                    .audit()
                    .map_err(|wrong| TestCaseError::fail(format!("{spec}: {wrong}")))?;
            }
            bench.check_all();
        }
    }
}

/// A drive of about 500 MB as of 2008, full: 4 channels x 4 dies of SLC, pages of 2 KiB,
/// superblocks of 2 MiB.
fn full_drive(spec: &str) -> Bench {
    let mut config = config(4, 4, 1, 256, 64);
    config.page_bytes = 2048;
    let mut bench = Bench::new(spec, &config, 240 * 1024);
    bench.fill_blindly();
    bench
}

/// Mean time of writes of 32 KiB, one by one without a buffer, in milliseconds; the first half is
/// not counted.
fn mean_write_ms(bench: &mut Bench, starts: impl Iterator<Item = u32>) -> f64 {
    let starts: Vec<u32> = starts.collect();
    let mut from: Picos = 0;
    for (index, &start) in starts.iter().enumerate() {
        if index == starts.len() / 2 {
            from = bench.media.now();
        }
        (start * 16..(start + 1) * 16).for_each(|lpn| bench.write(lpn));
        while bench.outstanding > 0 {
            assert!(bench.step(), "a write is under way");
        }
    }
    (bench.media.now() - from) as f64 / PICOS_PER_SECOND as f64 * 1e3
        / (starts.len() - starts.len() / 2) as f64
}

/// Numbers below `limit`, drawn with a fixed seed.
fn draws(limit: u32) -> impl Iterator<Item = u32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(limit)) as u32
    })
}

/// Sequential, random, random within 8 MiB, and four sequential streams in turn, in milliseconds.
fn pattern(spec: &str) -> [f64; 4] {
    let requests = 240 * 1024 / 16;
    let mut bench = full_drive(spec);
    let sequential = mean_write_ms(&mut bench, 0..2_000);
    let random = mean_write_ms(&mut bench, draws(requests).take(1_500));
    let focused = mean_write_ms(&mut bench, draws(8 * 32).map(|start| start + 4_096).take(4_000));
    let partitioned =
        mean_write_ms(&mut bench, (0..4_000).map(|index| index % 4 * (requests / 4) + index / 4));
    bench.run();
    [sequential, random, focused, partitioned]
}

#[test]
fn random_writes_are_slow_and_focused_or_partitioned_ones_are_not() {
    let [sequential, random, focused, partitioned] = pattern("bast(log_blocks=8)");
    assert!(
        random > 20.0 * sequential && focused < 3.0 * sequential && partitioned < 1.5 * sequential
    );
    let [sequential, random, focused, partitioned] = pattern("fast(log_blocks=8)");
    assert!(
        random > 10.0 * sequential && focused < 4.0 * sequential,
        "one sequential stream, and a small area, are cheap"
    );
    assert!(partitioned > 1.5 * sequential, "several streams are not");
    let [sequential, random, focused, partitioned] = pattern("block_mapped(open_blocks=4)");
    assert!(random > 20.0 * sequential && partitioned < 1.5 * sequential);
    assert!(focused > 20.0 * sequential, "without a log, a small area does not help");
}

#[test]
#[ignore = "prints what the other tests check"]
fn print_pattern() {
    for spec in SPECS {
        let spec =
            spec.replace("interleave=1", "interleave=4").replace("interleave=2", "interleave=8");
        println!("{spec:60} {:.2?}", pattern(&spec));
    }
    for logs in [4, 8, 12] {
        for scheme in ["bast", "fast", "block_mapped"] {
            let spec = format!(
                "{scheme}({}={logs})",
                if scheme == "block_mapped" { "open_blocks" } else { "log_blocks" }
            );
            println!("{spec:60} {:.2?}", pattern(&spec));
        }
    }
}

#[test]
fn merges_are_of_the_kinds_that_the_writes_call_for() {
    let config = config(2, 1, 1, 32, 4);
    let written = |spec: &str, lpns: &[u32]| {
        let mut bench = Bench::new(spec, &config, 80);
        bench.fill_blindly();
        for &lpn in lpns {
            bench.write(lpn);
            while bench.step() {}
        }
        bench.run();
        let counters = bench.scheme.counters();
        [
            counters.switch_merges,
            counters.partial_merges,
            counters.full_merges,
            counters.relocated_pages,
            counters.erases,
        ]
    };
    // Superblocks of 8 pages: 0..8, 8..16, ...
    let whole: Vec<u32> = (0..8).collect();
    assert_eq!(written("bast(log_blocks=1)", &whole), [1, 0, 0, 0, 2]);
    assert_eq!(written("bast(log_blocks=1)", &[0, 1, 2, 9]), [0, 1, 0, 5, 2]);
    assert_eq!(written("bast(log_blocks=1)", &[1, 9]), [0, 0, 1, 8, 4]);
    assert_eq!(written("bast(log_blocks=2)", &[1, 9]), [0, 0, 0, 0, 0]);
    assert_eq!(
        written("bast(log_blocks=1)", &[1; 9]),
        [0, 0, 1, 8, 4],
        "a full log is merged when it is written to again"
    );
    assert_eq!(written("fast(log_blocks=2)", &whole), [1, 0, 0, 0, 2]);
    assert_eq!(written("fast(log_blocks=2)", &[0, 1, 2, 8]), [0, 1, 0, 5, 2]);
    assert_eq!(
        written("fast(log_blocks=2)", &[0, 1, 5]),
        [0, 1, 0, 6, 2],
        "a gap ends the sequential write, and the page goes to RW"
    );
    // One RW log of 8 pages takes pages of any superblock; the ninth page makes it a victim with
    // three superblocks.
    assert_eq!(written("fast(log_blocks=2)", &[1, 9, 17, 2, 10, 18, 3, 11, 19]), [0, 0, 3, 24, 8]);
    assert_eq!(written("block_mapped(open_blocks=1)", &whole), [1, 0, 0, 0, 2]);
    assert_eq!(written("block_mapped(open_blocks=1)", &[2, 3, 5]), [0, 0, 0, 3, 0]);
    assert_eq!(written("block_mapped(open_blocks=1)", &[2, 3, 5, 9]), [0, 1, 0, 3 + 2 + 1, 2]);
    assert_eq!(written("block_mapped(open_blocks=1)", &[2, 2]), [0, 1, 0, 2 + 5 + 2, 2]);
}

#[test]
fn a_single_full_merge_takes_its_time() {
    // One plane: the merge of page 0 is 4 reads and programs in a row, and 2 erases.
    let mut config = config(1, 1, 1, 8, 4);
    let time = |config: &MediaConfig| {
        let mut bench = Bench::new("bast(log_blocks=1)", config, 16);
        bench.fill_blindly();
        bench.write(1);
        while bench.outstanding > 0 {
            bench.step();
        }
        let from = bench.media.now();
        bench.write(5);
        while bench.outstanding > 0 {
            bench.step();
        }
        bench.media.now() - from
    };
    let (transfer, command) = (102_400_000, 1_000_000);
    let (read, program, erase) = (
        25_000_000 + transfer + command,
        200_000_000 + transfer + command,
        1_500_000_000 + command,
    );
    assert_eq!(time(&config), 4 * (read + program) + 2 * erase + program);
    config.copy_back = true;
    let copy_back = time(&config);
    assert!(
        copy_back < 4 * (read + program - 2 * transfer) + 2 * erase + program + 8 * command,
        "{copy_back} ps with copy-back"
    );
}

#[test]
fn trimmed_superblocks_are_erased_when_space_is_short() {
    for spec in ["bast(log_blocks=2)", "fast(log_blocks=2)", "block_mapped(open_blocks=2)"] {
        let (config, logical) = smallest(spec, 0);
        let mut bench = Bench::new(spec, &config, logical);
        bench.write_untimed(&(0..logical).collect::<Vec<_>>());
        (0..logical).for_each(|lpn| bench.trim(lpn));
        bench.run();
        assert_eq!(
            (bench.scheme.counters().trimmed_pages, bench.scheme.counters().erases),
            (u64::from(logical), 0),
            "{spec}"
        );
        (0..logical).for_each(|lpn| bench.write(lpn));
        bench.check_all();
        assert!(
            bench.scheme.counters().erases > 0 && bench.scheme.counters().relocated_pages == 0,
            "{spec}"
        );
    }
}

#[test]
fn erases_are_spread_over_free_superblocks() {
    let config = config(2, 1, 1, 32, 4);
    let mut bench = Bench::new("bast(log_blocks=2)", &config, 16);
    for lpn in (0..16).cycle().take(16 * 200) {
        bench.write(lpn);
        while bench.outstanding > 0 {
            bench.step();
        }
    }
    bench.run();
    let counts = bench.scheme.erase_counts();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 1 && *least > 5, "erase counts from {least} to {most}");
}

#[test]
fn what_does_not_fit_is_told() {
    let layout = Media::new(&config(2, 1, 2, 8, 4)).layout().clone();
    let error = |spec| build(spec, &layout, 96, false).err().unwrap().to_string();
    assert!(
        error("bast(log_blocks=2)").contains("`bast` needs 9 superblocks"),
        "{}",
        error("bast(log_blocks=2)")
    );
    assert_eq!(
        error("fast(interleave=3)"),
        "`fast`: interleave=3 does not divide the 4 planes of the media"
    );
    assert!(build("block_mapped(open_blocks=1)", &layout, 96, false).is_ok());
}

#[test]
fn a_log_may_run_past_what_its_data_superblock_holds() {
    let config = config(2, 1, 1, 32, 4);
    for spec in ["bast(log_blocks=2)", "fast(log_blocks=2)", "block_mapped(open_blocks=2)"] {
        let mut bench = Bench::new(spec, &config, 80);
        // Pages 0 and 1 are in place, then 0 ... 4 in the log; 3 could go in place, where it would
        // be newer than in the log.
        for lpn in [0, 1, 0, 1, 2, 3, 4, 3, 5, 6, 7, 8, 9, 8, 9, 10, 14, 10, 11, 12, 13, 14, 15] {
            bench.write(lpn);
        }
        bench.check_all();
    }
}
