//! DFTL against plain models, on media that hold data.

use std::collections::{BTreeMap, BTreeSet};

use placement::{Context, Placement, PlacementVisitor, build_victim, visit_placement};
use proptest::prelude::*;
use registry::Spec;
use units::{IoOp, IoRequest, Lpn, Progress, RequestSource, SourceError};

use super::dftl::{self, DftlScheme, MapSize};
use super::page_mapped::SchemeSettings;
use super::{ReadPath, Scheme};
use crate::drive::load::Pace;
use crate::drive::media::{Cause, Done, FlashOp, Media, Tag};
use crate::drive::profile::{self, Profile};
use crate::drive::run::{self, Outcome, simulate};
use crate::drive::state::State;
use crate::drive::time::Picos;

/// A small drive: pages of 512 bytes, so that a translation page holds 128 entries.
fn small(scheme: &str, keys: &[(&str, &str)]) -> Profile {
    let mut profile = profile::load("a16").unwrap();
    let sizes = [
        ("media.channels", "2"),
        ("media.packages_per_channel", "1"),
        ("media.planes_per_die", "2"),
        ("media.erase_blocks_per_plane", "40"),
        ("media.pages_per_erase_block", "8"),
        ("media.page_bytes", "512"),
        ("ftl.over_provisioning", "60%"),
        ("cleaning.start_below_free", "0"),
        ("ftl.scheme", scheme),
    ];
    for (key, value) in sizes.iter().chain(keys) {
        profile.set(key, value).unwrap();
    }
    profile
}

/// A scheme of any placement policy, with what only DFTL has.
trait Audited: Scheme {
    fn audit_all(&self);
    fn translation_pages(&self) -> u32;
}

impl<P: Placement> Audited for DftlScheme<P> {
    fn audit_all(&self) {
        self.audit().unwrap();
        self.audit_map().unwrap();
    }

    fn translation_pages(&self) -> u32 {
        DftlScheme::translation_pages(self)
    }
}

struct Build<'a>(&'a Profile, Context<'a>);

impl PlacementVisitor for Build<'_> {
    type Output = Option<Box<dyn Audited>>;

    fn visit<P: Placement + 'static>(self, policy: P) -> Self::Output {
        let Self(profile, context) = self;
        let layout = profile.layout();
        let args = dftl::INFO.accept(&Spec::parse(&profile.ftl.scheme).unwrap()).unwrap();
        let size = MapSize::new(&args, profile.logical_pages(), layout.page_bytes).unwrap();
        let policy = size.place_apart(policy, layout.planes());
        let victims = build_victim(
            &Spec::parse("greedy").unwrap(),
            &context,
            policy.domains() * layout.planes() as usize,
        )
        .unwrap();
        let settings = SchemeSettings {
            args: &args,
            layout: &layout,
            logical_pages: size.all_pages(),
            cleaning: &profile.cleaning,
            wear_levelling: &profile.wear_levelling,
            fdp: &profile.fdp,
            copy_back: profile.media.copy_back,
            power_loss_protected: false,
            endurance: Vec::new(),
        };
        let scheme = DftlScheme::new(settings, &size, "tested", policy, victims);
        scheme.ok().map(|scheme| Box::new(scheme) as Box<dyn Audited>)
    }
}

/// A version of a logical page.
type Held = (u32, u32);

/// The scheme, what each physical page holds, and a plain map to compare with.
struct Bench {
    scheme: Box<dyn Audited>,
    media: Media,
    content: Vec<Option<Held>>,
    moving: BTreeMap<u32, Option<Held>>,
    newest: Vec<u32>,
    requests: Vec<(Held, bool)>,
    versions: u32,
    outstanding: u32,
    /// Steps since the last request was done.
    steps: u32,
    done: Vec<Done>,
}

/// Of a translation page.
const MAP: Held = (u32::MAX, 0);

impl Bench {
    fn new(profile: &Profile) -> Self {
        Self::if_it_fits(profile).unwrap()
    }

    /// With as little spare space as the policy takes, in steps of some erase blocks.
    fn tight(mut profile: Profile) -> Self {
        loop {
            if let Some(bench) = Self::if_it_fits(&profile) {
                return bench;
            }
            profile.ftl.over_provisioning += 0.03;
        }
    }

    fn if_it_fits(profile: &Profile) -> Option<Self> {
        let weights = || vec![1.0; profile.logical_pages() as usize];
        let context = Context {
            geometry: profile.layout().geometry(profile.logical_pages()),
            seed: 3,
            page_weights: Some(&weights),
            future: None,
            most_streams: usize::MAX,
        };
        let placement = Spec::parse(&profile.ftl.placement).unwrap();
        let scheme = visit_placement(&placement, &context, Build(profile, context)).unwrap()?;
        Some(Self {
            media: Media::new(&profile.media),
            content: vec![None; profile.layout().physical_pages() as usize],
            moving: BTreeMap::new(),
            newest: vec![0; profile.logical_pages() as usize],
            requests: Vec::new(),
            versions: 0,
            outstanding: 0,
            steps: 0,
            done: Vec::new(),
            scheme,
        })
    }

    fn pages(&self) -> u32 {
        self.newest.len() as u32
    }

    fn request(&mut self, held: Held) -> Tag {
        self.requests.push((held, false));
        self.outstanding += 1;
        Tag::drive(self.requests.len() as u32 - 1)
    }

    fn write(&mut self, lpn: u32) {
        self.versions += 1;
        self.newest[lpn as usize] = self.versions;
        let tag = self.request((lpn, self.versions));
        self.scheme.write(Lpn(lpn), tag, &mut self.media);
    }

    fn read(&mut self, lpn: u32) {
        let newest = self.newest[lpn as usize];
        let tag = self.request((lpn, newest));
        match self.scheme.read(Lpn(lpn), 512, tag, &mut self.media) {
            ReadPath::Flash => return assert_ne!(newest, 0, "logical page {lpn} holds nothing"),
            ReadPath::Unmapped => assert_eq!(newest, 0, "logical page {lpn} was written"),
            ReadPath::Memory => assert_ne!(newest, 0, "logical page {lpn} holds nothing"),
        }
        self.requests.pop();
        self.outstanding -= 1;
    }

    /// Writes all pages in order, then as many at random, until they were written so many times;
    /// few at a time.
    fn fill(&mut self, mut state: u64, times: u32) {
        for number in 0..times * self.pages() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            self.write(if number < self.pages() {
                number
            } else {
                (state >> 33) as u32 % self.pages()
            });
            while self.outstanding > 8 {
                self.step();
            }
        }
    }

    fn trim(&mut self, lpn: u32) {
        self.newest[lpn as usize] = 0;
        self.scheme.trim(Lpn(lpn), &mut self.media);
    }

    fn step(&mut self) -> bool {
        if self.media.under_way() == 0 {
            return false;
        }
        let mut done = std::mem::take(&mut self.done);
        self.media.step(&mut done);
        self.steps += 1;
        assert!(
            self.steps < 100_000,
            "the drive works without end, for {} requests",
            self.outstanding
        );
        done.iter().for_each(|one| self.see(one));
        done.iter()
            .filter(|one| one.command.tag.is_scheme())
            .for_each(|one| self.scheme.completed(one, &mut self.media));
        done.clear();
        self.done = done;
        true
    }

    fn see(&mut self, done: &Done) {
        let command = done.command;
        let (page, number) = (command.page.index(), command.tag.number());
        match (command.op, command.cause) {
            (FlashOp::Read, Cause::Mapping) => {
                assert_eq!(self.content[page], Some(MAP), "a translation page is read");
            }
            (FlashOp::Read, Cause::Host) => {
                let (held, is_done) = &mut self.requests[number as usize];
                assert!(!std::mem::replace(is_done, true), "a request is done once");
                assert_eq!(self.content[page], Some(*held), "a read finds the version of its time");
                self.outstanding -= 1;
                self.steps = 0;
            }
            (FlashOp::Read, _) => {
                assert!(self.content[page].is_some(), "cleaning reads a page that holds data");
                self.moving.insert(number, self.content[page]);
            }
            (FlashOp::Program, cause) => {
                assert_eq!(self.content[page], None, "an erased page is programmed");
                self.content[page] = match cause {
                    Cause::Mapping => Some(MAP),
                    Cause::Host => {
                        let (held, is_done) = &mut self.requests[number as usize];
                        assert!(!std::mem::replace(is_done, true), "a request is done once");
                        self.outstanding -= 1;
                        self.steps = 0;
                        Some(*held)
                    }
                    _ => self.moving.remove(&number).expect("cleaning reads before it programs"),
                };
            }
            (FlashOp::CopyBack, _) => self.content[page] = self.content[command.from.index()],
            (FlashOp::Erase, _) => {
                let pages = self.media.layout().pages_per_block as usize;
                self.content[page..page + pages].fill(None);
            }
        }
    }

    /// Lets everything end that is under way.
    fn run(&mut self) {
        while self.step() {}
        assert!(
            self.outstanding == 0 && self.scheme.is_quiet(),
            "{} requests are left",
            self.outstanding
        );
        self.scheme.audit_all();
    }

    fn check_all(&mut self) {
        self.run();
        for lpn in 0..self.pages() {
            self.read(lpn);
            if lpn % 16 == 0 {
                self.run();
            }
        }
        self.run();
    }

    fn operations(&self, op: FlashOp, cause: Cause) -> u64 {
        self.media.counters().operations[op as usize][cause as usize]
    }

    /// Reads and writes of translation pages so far.
    fn map_operations(&self) -> (u64, u64) {
        (
            self.operations(FlashOp::Read, Cause::Mapping),
            self.operations(FlashOp::Program, Cause::Mapping),
        )
    }

    fn hits(&self) -> (u64, u64) {
        let counters = self.scheme.counters();
        (counters.mapping_hits, counters.mapping_misses)
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
        8 => (0u32..1000).prop_map(Step::Write),
        2 => (0u32..1000, 1u32..40).prop_map(|(lpn, pages)| Step::Run(lpn, pages)),
        6 => (0u32..1000).prop_map(Step::Read),
        1 => (0u32..1000, 1u32..30).prop_map(|(lpn, pages)| Step::Trim(lpn, pages)),
        6 => (1u32..60).prop_map(Step::Time),
    ];
    proptest::collection::vec(one, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_write_is_done_once_and_every_read_finds_the_last(
        steps in steps(),
        range in 1u32..1000,
        features in 0u32..16,
        is_full: bool,
        cached in prop_oneof![Just(1u32), Just(8), Just(60), Just(2000)],
        load in prop_oneof![Just(1u32), Just(8), Just(128)],
        placement in prop_oneof![
            Just("none"),
            Just("separate"),
            Just("dac(regions=3)"),
            Just("envy_hybrid(partitions=3)"),
            Just("multi_log"),
            Just("container_marking(markers=3)"),
        ],
    ) {
        let allocation = if features & 1 == 0 { "dynamic" } else { "static" };
        let scheme = format!(
            "dftl(allocation={allocation},cached_entries={cached},load_entries={load})"
        );
        let bit = |bit: u32| if features & bit == 0 { "false" } else { "true" };
        let keys = [
            ("media.copy_back", bit(2)),
            ("media.suspend", bit(4)),
            ("media.cache_mode", bit(8)),
            ("ftl.placement", placement),
            ("ftl.over_provisioning", "10%"),
        ];
        let mut bench = Bench::tight(small(&scheme, &keys));
        let (range, pages) = (range.min(bench.pages()), bench.pages());
        if is_full {
            bench.fill(u64::from(range), 4);
        }
        for step in &steps {
            match *step {
                Step::Write(lpn) => bench.write(lpn % range),
                Step::Run(lpn, run) => {
                    (0..run).for_each(|page| bench.write((lpn % range + page) % pages));
                }
                Step::Read(lpn) => bench.read(lpn % range),
                Step::Trim(lpn, run) => {
                    (0..run).for_each(|page| bench.trim((lpn % range + page) % pages));
                }
                Step::Time(events) => _ = (0..events).all(|_| bench.step()),
            }
            bench.scheme.audit_all();
        }
        bench.check_all();
    }

    /// Without cleaning, one request at a time, every flash operation can be told from a list of
    /// cached entries.
    #[test]
    fn flash_operations_are_those_of_a_plain_lru(
        accesses in proptest::collection::vec((0u32..400, any::<bool>()), 1..300),
        cached in 1usize..50,
    ) {
        let scheme = format!("dftl(cached_entries={cached},protected=0)");
        let mut bench = Bench::new(&small(&scheme, &[]));
        let mut lru: Vec<u32> = Vec::new();
        let (mut written, mut changed, mut stored) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut hits, mut misses, mut reads, mut writes) = (0, 0, 0, 0);
        for (lpn, is_write) in accesses {
            if is_write {
                bench.write(lpn);
            } else {
                bench.read(lpn);
            }
            bench.run();
            if !is_write && !written.contains(&lpn) {
                continue;
            }
            if let Some(place) = lru.iter().position(|&other| other == lpn) {
                lru.remove(place);
                hits += 1;
            } else {
                misses += 1;
                // Read before the evicted entry's is written: if it is the same, that goes along
                // with this read.
                let is_loaded = stored.contains(&(lpn / 128));
                reads += u64::from(is_loaded);
                if lru.len() == cached {
                    let old = lru.remove(0);
                    if changed.contains(&old) {
                        let page = old / 128;
                        reads +=
                            u64::from(stored.contains(&page) && !(is_loaded && page == lpn / 128));
                        writes += 1;
                        changed.retain(|other| other / 128 != page);
                        stored.insert(page);
                        // The entry that is written now is known before the translation page has
                        // been read.
                        if is_write && page == lpn / 128 {
                            written.insert(lpn);
                            lru.push(lpn);
                            prop_assert_eq!(bench.hits(), (hits, misses));
                            prop_assert_eq!(bench.map_operations(), (reads, writes));
                            continue;
                        }
                    }
                }
            }
            lru.push(lpn);
            if is_write {
                written.insert(lpn);
                changed.insert(lpn);
            }
            prop_assert_eq!(bench.hits(), (hits, misses));
            prop_assert_eq!(bench.map_operations(), (reads, writes));
        }
        prop_assert_eq!(
            bench.scheme.counters().host_page_writes,
            bench.operations(FlashOp::Program, Cause::Host)
        );
    }
}

#[test]
fn a_miss_takes_two_flash_reads_and_a_hit_one() {
    let mut bench = Bench::new(&small("dftl(cached_entries=1)", &[]));
    for lpn in 0..512 {
        bench.scheme.write_untimed(Lpn(lpn));
    }
    bench.scheme.settle(&mut bench.media);
    let mut time = |lpn| {
        let from = bench.media.now();
        let tag = Tag::drive(0);
        assert_eq!(bench.scheme.read(Lpn(lpn), 512, tag, &mut bench.media), ReadPath::Flash);
        let mut done = Vec::new();
        while !done.iter().any(|one: &Done| one.command.tag == tag) {
            bench.media.step(&mut done);
            done.iter()
                .filter(|one| one.command.tag.is_scheme())
                .for_each(|one| bench.scheme.completed(one, &mut bench.media));
            done.retain(|one| one.command.tag == tag);
        }
        bench.media.now() - from
    };
    let missed: Picos = time(7);
    let hit = time(7);
    assert_eq!(missed, 2 * hit);
    assert_eq!(time(300), 2 * hit);
    assert_eq!(time(7), 2 * hit);
    assert_eq!(bench.hits(), (1, 3));
}

#[test]
fn misses_of_one_translation_page_wait_for_one_read() {
    let mut bench = Bench::new(&small("dftl(cached_entries=1)", &[]));
    (0..256).for_each(|lpn| bench.write(lpn));
    bench.run();
    let (before, _) = bench.map_operations();
    (0..20).for_each(|lpn| bench.read(lpn));
    bench.run();
    // The cache holds the entry of page 255, of another translation page.
    assert_eq!(bench.map_operations().0 - before, 1);
}

#[test]
fn loading_neighbours_amortises_sequential_reads() {
    for (load, expected) in [(1, 512), (16, 32), (128, 4)] {
        let mut bench =
            Bench::new(&small(&format!("dftl(cached_entries=128,load_entries={load})"), &[]));
        (0..768).for_each(|lpn| bench.write(lpn));
        bench.run();
        let (before, _) = bench.map_operations();
        (0..512).for_each(|lpn| {
            bench.read(lpn);
            bench.run();
        });
        // The last entries written are still cached, and no page read here is among them.
        assert_eq!(bench.map_operations().0 - before, expected, "load_entries={load}");
    }
}

#[test]
fn cleaning_writes_the_entries_that_it_moves() {
    let mut bench = Bench::new(&small("dftl(cached_entries=16)", &[]));
    let pages = bench.pages();
    bench.fill(1, 5);
    bench.check_all();
    let counters = bench.scheme.counters();
    assert!(counters.relocated_pages > 1000 && counters.mapping_page_writes > 1000, "{counters:?}");
    assert_eq!(counters.mapping_page_writes, bench.map_operations().1);
    assert_eq!(counters.host_page_writes, u64::from(5 * pages));
    assert!(bench.scheme.translation_pages() == pages.div_ceil(128));
}

#[test]
fn reads_wait_for_translations_while_cleaning_moves_their_pages() {
    for copy_back in ["false", "true"] {
        // So many translation pages that most are not about to be written: those are in memory.
        let keys = [
            ("media.erase_blocks_per_plane", "400"),
            ("ftl.over_provisioning", "10%"),
            ("media.copy_back", copy_back),
            ("media.suspend", copy_back),
        ];
        let mut bench = Bench::new(&small("dftl(cached_entries=4)", &keys));
        bench.fill(1, 2);
        let mut state = 5u32;
        for number in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let lpn = (state >> 8) % bench.pages();
            // Few pages are read, all over the drive, so that those that cleaning moves are often
            // waited for.
            let often = lpn / 200 * 200;
            if number % 8 != 0 {
                bench.read(often);
            } else if lpn != often || number % 64 == 0 {
                bench.write(lpn);
            }
            while bench.outstanding > 40 {
                bench.step();
            }
        }
        bench.check_all();
    }
}

/// Policies that clean each stream by itself decide for all planes at once: on one plane the stream
/// may have nothing to give, and what other planes gain must not hide that.
#[test]
fn a_plane_on_which_the_policy_gains_nothing_is_not_cleaned_for_ever() {
    for allocation in ["static", "dynamic"] {
        let scheme = format!("dftl(allocation={allocation},cached_entries=1)");
        let mut bench = Bench::tight(small(
            &scheme,
            &[("ftl.placement", "multi_log"), ("ftl.over_provisioning", "10%")],
        ));
        bench.fill(1, 8);
        bench.check_all();
    }
}

#[test]
fn what_is_loaded_at_once_divides_a_translation_page() {
    let profile = small("dftl(load_entries=24)", &[]);
    let error = crate::drive::visit_drive(&profile, 1, None, Nothing).unwrap_err().to_string();
    assert_eq!(
        error,
        "profile `a16`: `dftl`: load_entries=24 does not divide the 128 entries of a translation \
         page"
    );
}

#[derive(Debug)]
struct Nothing;

impl crate::drive::DriveVisitor for Nothing {
    type Output = ();

    fn visit<S: Scheme>(self, _drive: crate::drive::device::Drive<S>) {}
}

/// Random single pages.
struct Uniform(u64, u32, IoOp);

impl RequestSource for Uniform {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        for request in buffer.iter_mut() {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let offset = (self.0 >> 33) % u64::from(self.1) * 512;
            *request = IoRequest {
                time_ns: 0,
                op: self.2,
                offset,
                length: 512,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            };
        }
        Ok(buffer.len())
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

fn play(profile: Profile, op: IoOp, requests: u64, state: State) -> Outcome {
    let source = Uniform(9, profile.logical_pages(), op);
    let settings = run::RunSettings {
        profile,
        state,
        pace: Pace::Closed { depth: 8, think: 0 },
        seed: 1,
        most_requests: requests,
        most_time: Picos::MAX,
        untimed_requests: 0,
        warm_up_requests: 0,
        timeline_spans: 0,
        audit: true,
    };
    simulate(&settings, None, Box::new(source), &Progress::default()).unwrap()
}

#[test]
fn with_all_entries_cached_it_is_page_mapped() {
    let dftl = "dftl(cached_entries=1Mi)";
    for op in [IoOp::Read, IoOp::Write] {
        let run = |scheme| {
            play(small(scheme, &[("media.erase_blocks_per_plane", "400")]), op, 400, State::Fresh)
        };
        // Nothing is ever evicted, so that no translation page is written before cleaning.
        assert_eq!(run(dftl).event_hash, run("page_mapped").event_hash);
    }
    let run = |scheme, op| {
        play(
            small(scheme, &[("media.erase_blocks_per_plane", "400")]),
            op,
            60_000,
            State::Aged { overwrites: 3.0 },
        )
    };
    let (ours, plain) = (run(dftl, IoOp::Read), run("page_mapped", IoOp::Read));
    assert_eq!((ours.media.total(), ours.scheme.mapping_misses), (plain.media.total(), 0));
    let (ours, plain) = (run(dftl, IoOp::Write), run("page_mapped", IoOp::Write));
    assert_eq!((ours.scheme.mapping_page_writes, ours.scheme.mapping_misses), (0, 0));
    let difference = ours.write_amplification / plain.write_amplification - 1.0;
    assert!(
        difference.abs() < 0.03,
        "write amplification {} against {}",
        ours.write_amplification,
        plain.write_amplification
    );
}
