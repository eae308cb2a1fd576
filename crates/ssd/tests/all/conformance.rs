//! Every placement policy with every victim policy against a plain map: all registered policies are
//! tested.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use ftl::{Cleaning, FtlCounters, PageMapped};
use placement::{
    BuildError, Context, Future, PLACEMENTS, Placement, PlacementVisitor, VICTIMS, Victim,
    build_victim, visit_placement,
};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use registry::Spec;
use units::{EraseBlockId, Geometry, Lpn, PageOp, Ppn, StreamId, VecSource};

/// Flash that holds data, and that cannot be overwritten.
struct Flash {
    pages: Vec<Option<u64>>,
    pages_per_erase_block: u32,
}

impl Flash {
    fn program(&mut self, page: Ppn, data: u64) {
        assert_eq!(self.pages[page.index()], None, "page {} is programmed twice", page.0);
        self.pages[page.index()] = Some(data);
    }

    fn read(&self, page: Ppn) -> u64 {
        self.pages[page.index()].expect("an erased page is read")
    }

    fn erase(&mut self, block: EraseBlockId) {
        let first = (block.0 * self.pages_per_erase_block) as usize;
        self.pages[first..first + self.pages_per_erase_block as usize].fill(None);
    }
}

/// Final state of an FTL: the places of its pages, its counters, and the erases of its erase
/// blocks.
type Left = (Vec<Option<Ppn>>, FtlCounters, Vec<u32>);

struct Check<'a> {
    context: Context<'a>,
    victim: &'a str,
    operations: &'a [(u32, bool)],
    /// True for cleaning by steps, over flash that holds data; false for cleaning at once, as in
    /// the counting simulator.
    by_steps: bool,
}

/// Writes a page, and takes the steps of each cleaning that it needs.
fn write_by_steps<P: Placement, V: Victim>(
    ftl: &mut PageMapped<P, V>,
    flash: &mut Flash,
    lpn: Lpn,
    version: u64,
) {
    let stream = ftl.host_stream(lpn);
    let mut cleaning = Cleaning::default();
    while !ftl.make_room(stream, 0) {
        ftl.close_early(0);
        let victim = ftl.choose_victim(stream, 0);
        cleaning.begin(victim, 0, ftl);
        while let Some((number, survivor)) = cleaning.next(ftl) {
            cleaning.take(1);
            let to = cleaning.relocate(number, ftl).expect("nobody wrote it meanwhile");
            flash.program(to, flash.read(survivor.from));
        }
        assert!(cleaning.is_done(ftl));
        flash.erase(cleaning.end());
        ftl.reclaim(victim, 0);
    }
    flash.program(ftl.place_for_host(lpn, stream, 0), version);
}

impl PlacementVisitor for Check<'_> {
    type Output = Result<Left, BuildError>;

    fn visit<P: Placement + 'static>(self, policy: P) -> Self::Output {
        let geometry = self.context.geometry;
        let victims = build_victim(&Spec::parse(self.victim)?, &self.context, policy.domains())?;
        let mut flash = Flash {
            pages: vec![None; geometry.physical_pages() as usize],
            pages_per_erase_block: geometry.pages_per_erase_block,
        };
        let mut ftl = PageMapped::new(geometry, "checked", policy, victims)?;
        let mut oracle = vec![None; geometry.logical_pages as usize];
        let fill = (0..geometry.logical_pages).map(|lpn| (lpn, false));
        for (version, (page, is_trim)) in (1u64..).zip(fill.chain(self.operations.iter().copied()))
        {
            let lpn = Lpn(page % geometry.logical_pages);
            oracle[lpn.index()] = (!is_trim).then_some(version);
            if is_trim {
                ftl.trim(lpn);
            } else if self.by_steps {
                write_by_steps(&mut ftl, &mut flash, lpn, version);
            } else {
                ftl.write(lpn, 0);
            }
            if version % 509 == 0 {
                ftl.audit().unwrap();
            }
        }
        ftl.audit().unwrap();
        let places: Vec<_> = (0..geometry.logical_pages).map(|lpn| ftl.lookup(Lpn(lpn))).collect();
        for (lpn, (place, expected)) in places.iter().zip(oracle).enumerate() {
            assert_eq!(place.is_some(), expected.is_some(), "logical page {lpn}");
            if self.by_steps {
                assert_eq!(place.map(|ppn| flash.read(ppn)), expected, "logical page {lpn}");
            }
        }
        let counters = ftl.counters();
        assert_eq!(counters.victims_by_valid.iter().sum::<u64>(), counters.erases);
        let relocated: u64 =
            (0u64..).zip(&counters.victims_by_valid).map(|(valid, victims)| valid * victims).sum();
        assert_eq!(relocated + counters.pulled_pages, counters.relocated_pages);
        Ok((places, counters.clone(), ftl.erase_counts().to_vec()))
    }
}

/// Checks that cleaning by steps keeps every page, and that cleaning at once does exactly the same.
fn check(
    placement: &str,
    victim: &str,
    geometry: Geometry,
    seed: u64,
    operations: &[(u32, bool)],
) -> Result<(), BuildError> {
    let weights = || (0..geometry.logical_pages).map(|lpn| 1.0 / f64::from(1 + lpn % 97)).collect();
    let pages: Vec<PageOp> = operations
        .iter()
        .map(|&(page, is_trim)| {
            let lpn = Lpn(page % geometry.logical_pages);
            if is_trim { PageOp::trim(lpn) } else { PageOp::write(lpn) }
        })
        .collect();
    let source = VecSource::new(geometry.logical_pages, pages.into());
    let future = || Future::of(&mut source.clone(), 1, true);
    let context = Context {
        geometry,
        seed,
        page_weights: Some(&weights),
        future: Some(&future),
        most_streams: usize::MAX,
    };
    let placement = Spec::parse(placement).unwrap();
    let left = |by_steps| {
        visit_placement(&placement, &context, Check { context, victim, operations, by_steps })?
    };
    let (by_steps, at_once) = (left(true)?, left(false)?);
    assert!(
        by_steps == at_once,
        "{placement} with {victim}: cleaning at once is not what its steps are"
    );
    Ok(())
}

/// Pages of very different heat, so that every stream of every policy is used, and some trims.
fn operations(logical_pages: u32) -> impl Strategy<Value = Vec<(u32, bool)>> {
    let page =
        prop_oneof![4 => 0..logical_pages / 20, 3 => 0..logical_pages / 4, 3 => 0..logical_pages];
    prop::collection::vec((page, prop::bool::weighted(0.03)), 3000..9000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn every_pair_of_policies_keeps_every_page(
        pages_per_erase_block in prop_oneof![Just(8u32), Just(13), Just(64), Just(70)],
        over_provisioning in 0.25f64..1.0,
        seed: u64,
        operations in operations(6000),
    ) {
        let geometry =
            Geometry::with_over_provisioning(4096, pages_per_erase_block, 6000, over_provisioning)
                .unwrap();
        for placement in PLACEMENTS {
            for victim in VICTIMS {
                match check(placement.info.name, victim.name, geometry, seed, &operations) {
                    Ok(()) | Err(BuildError::TooSmall { .. }) => {}
                    Err(error) => panic!("{} with {}: {error}", placement.info.name, victim.name),
                }
            }
        }
    }

    #[test]
    fn multi_log_keeps_every_page_while_logs_are_made_and_joined(
        seed: u64,
        over_provisioning in 0.3f64..1.5,
        heat in 1u32..40,
    ) {
        let geometry = Geometry::with_over_provisioning(4096, 8, 4000, over_provisioning).unwrap();
        let mut state = seed | 1;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % u64::from(below)) as u32
        };
        // A hot set that moves, so that logs run dry and are joined.
        let operations: Vec<(u32, bool)> = (0..40_000u32)
            .map(|number| {
                let hot = (number / 8000 * 700 + draw(100 * heat)) % 4000;
                (if draw(4) > 0 { hot } else { draw(4000) }, draw(50) == 0)
            })
            .collect();
        for how in ["sinking=all", "sinking=excess", "estimator=oracle"] {
            check(
                &format!("multi_log(min_log_pages=1,{how})"),
                "lru",
                geometry,
                seed,
                &operations,
            )
            .unwrap();
        }
    }

    #[test]
    fn tight_devices_lose_nothing(seed: u64, operations in operations(2048)) {
        let geometry = Geometry::with_over_provisioning(4096, 16, 2048, 0.07).unwrap();
        for placement in PLACEMENTS {
            match check(placement.info.name, placement.victim, geometry, seed, &operations) {
                Ok(()) | Err(BuildError::TooSmall { .. }) => {}
                Err(error) => panic!("{}: {error}", placement.info.name),
            }
        }
    }
}

#[test]
#[should_panic(expected = "is programmed twice")]
fn the_flash_of_the_oracle_refuses_overwriting() {
    let mut flash = Flash { pages: vec![None; 8], pages_per_erase_block: 8 };
    flash.program(Ppn(3), 1);
    flash.program(Ppn(3), 2);
}

#[test]
fn unknown_names_list_the_known_ones() {
    let geometry = Geometry::with_over_provisioning(4096, 64, 6000, 0.5).unwrap();
    let error = check("greedy_placement", "lru", geometry, 1, &[]).unwrap_err().to_string();
    assert!(error.contains("unknown placement policy") && error.contains("multi_log"), "{error}");
    let error = check("none", "lru(x=1)", geometry, 1, &[]).unwrap_err().to_string();
    assert!(error.contains("no parameter `x`"), "{error}");
}

#[test]
fn an_oracle_without_knowledge_says_so() {
    let geometry = Geometry::with_over_provisioning(4096, 64, 6000, 0.5).unwrap();
    let context = placement::Context::new(geometry, 1);
    let check = Check { context, victim: "lru", operations: &[], by_steps: true };
    let outcome = visit_placement(&Spec::parse("multi_log_optimal").unwrap(), &context, check);
    assert!(matches!(outcome, Err(BuildError::NeedsWeights("multi_log_optimal"))));
    let check = Check { context, victim: "lru", operations: &[], by_steps: true };
    let spec = Spec::parse("multi_log(estimator=oracle)").unwrap();
    let outcome = visit_placement(&spec, &context, check);
    assert!(matches!(outcome, Err(BuildError::NeedsWeights("multi_log(estimator=oracle)"))));
    let check = Check { context, victim: "greedy", operations: &[], by_steps: true };
    let outcome = visit_placement(&Spec::parse("future_knowledge").unwrap(), &context, check);
    assert!(matches!(outcome, Err(BuildError::NeedsFuture(_))));
}

/// A survivor's copy under way: its number and its data.
type Copy = (usize, u64);

/// A cleaning whose steps are interleaved with the host's writes and trims, with several copies
/// under way that end in any order.
struct Interleaved<'a> {
    context: Context<'a>,
    victim: &'a str,
    seed: u64,
}

/// Numbers of survivors that died before their turn, and while their copies were under way.
#[derive(Debug, Default)]
struct Dead {
    waiting: u64,
    under_way: u64,
}

impl PlacementVisitor for Interleaved<'_> {
    type Output = Result<Dead, BuildError>;

    fn visit<P: Placement + 'static>(self, policy: P) -> Self::Output {
        let geometry = self.context.geometry;
        let victims = build_victim(&Spec::parse(self.victim)?, &self.context, policy.domains())?;
        let pages_per_erase_block = geometry.pages_per_erase_block;
        let mut flash =
            Flash { pages: vec![None; geometry.physical_pages() as usize], pages_per_erase_block };
        let mut ftl = PageMapped::new(geometry, "checked", policy, victims)?;
        let mut oracle = vec![None; geometry.logical_pages as usize];
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let (mut cleaning, mut under_way) = (Cleaning::default(), Vec::<Copy>::new());
        let (mut dead, mut taken, mut last) = (Dead::default(), 0, StreamId(0));
        let mut version = 0;
        while version < 20_000 {
            if let Some(victim) = cleaning.victim() {
                if let Some((number, survivor)) = cleaning.next(&ftl)
                    && under_way.len() < 4
                {
                    cleaning.take(1);
                    taken += 1;
                    under_way.push((number, flash.read(survivor.from)));
                } else if !under_way.is_empty() {
                    let (number, data) = under_way.remove(random.random_range(0..under_way.len()));
                    match cleaning.relocate(number, &mut ftl) {
                        Some(to) => flash.program(to, data),
                        None => dead.under_way += 1,
                    }
                }
                if cleaning.is_done(&ftl) {
                    dead.waiting += cleaning.all() as u64 - taken;
                    assert_eq!(cleaning.end(), victim);
                    flash.erase(victim);
                    ftl.reclaim(victim, 0);
                }
            } else if ftl.free_blocks(0) <= ftl.reserve() + 2 {
                cleaning.begin(ftl.choose_victim(last, 0), 0, &mut ftl);
                taken = 0;
            }
            let lpn = Lpn(if version < oracle.len() as u64 {
                version as u32
            } else {
                // Often a page that is about to move, so that many die meanwhile.
                match under_way.first().map(|&(number, _)| cleaning.survivor(number).lpn) {
                    Some(lpn) if random.random_range(0..8) == 0 => lpn.0,
                    _ => random.random_range(0..geometry.logical_pages),
                }
            });
            last = ftl.host_stream(lpn);
            if random.random_range(0..30) == 0 {
                ftl.trim(lpn);
                oracle[lpn.index()] = None;
            } else if ftl.make_room(last, 0) {
                version += 1;
                flash.program(ftl.place_for_host(lpn, last, 0), version);
                oracle[lpn.index()] = Some(version);
            }
            if version % 509 == 0 {
                ftl.audit().unwrap();
            }
        }
        ftl.audit().unwrap();
        for (lpn, expected) in (0..).zip(oracle) {
            let read = ftl.lookup(Lpn(lpn)).map(|ppn| flash.read(ppn));
            assert_eq!(read, expected, "logical page {lpn}");
        }
        Ok(dead)
    }
}

/// Pages that the host writes or trims before or while they are copied are not moved, and nothing
/// else is lost.
#[test]
fn survivors_that_die_between_the_steps_are_left_behind() {
    let geometry = Geometry::with_over_provisioning(4096, 16, 3000, 0.6).unwrap();
    let weights = || (0..geometry.logical_pages).map(|lpn| 1.0 / f64::from(1 + lpn % 97)).collect();
    let mut all = Dead::default();
    for placement in PLACEMENTS {
        for seed in 0..3 {
            // Nobody knows what the host will do between the steps.
            let future = || Ok(Future::default());
            let context = Context {
                geometry,
                seed,
                page_weights: Some(&weights),
                future: Some(&future),
                most_streams: usize::MAX,
            };
            let spec = Spec::parse(placement.info.name).unwrap();
            let check = Interleaved { context, victim: placement.victim, seed };
            match visit_placement(&spec, &context, check).unwrap() {
                Ok(dead) => {
                    all.waiting += dead.waiting;
                    all.under_way += dead.under_way;
                }
                Err(BuildError::TooSmall { .. }) => {}
                Err(error) => panic!("{}: {error}", placement.info.name),
            }
        }
    }
    assert!(all.waiting > 100 && all.under_way > 100, "{all:?}");
}
