//! Each idea of the policy `hazard` on a load that needs it: 32 Ki pages, 0.25. The limits lie
//! between what the policy writes and what it wrote with that idea taken out; both are in brackets.

use ftl::PageMapped;
use placement::policies::hazard::{Hazard, INFO};
use placement::policies::none::NoPlacement;
use placement::{Context, Placement, Victim, build_victim};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use rand_pcg::Pcg64Mcg;
use registry::Spec;
use units::{Geometry, Lpn, PageOp};

const PAGES: u32 = 32 << 10;
const UPDATES: usize = 16 * PAGES as usize;

/// Far from each other as addresses, if they are near each other as numbers.
fn scattered(number: u32) -> PageOp {
    PageOp::write(Lpn(number.wrapping_mul(20_011) % PAGES))
}

fn zipf() -> Vec<PageOp> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let ranks = Zipf::new(f64::from(PAGES), 0.99).unwrap();
    (0..UPDATES).map(|_| scattered(ranks.sample(&mut random) as u32 - 1)).collect()
}

/// Four of five updates to one of five pages.
fn skewed() -> Vec<PageOp> {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let hot = PAGES / 5;
    let mut page = || {
        let pages = if random.random_range(0..5) < 4 { 0..hot } else { hot..PAGES };
        scattered(random.random_range(pages))
    };
    (0..UPDATES).map(|_| page()).collect()
}

fn uniform() -> Vec<PageOp> {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    (0..UPDATES).map(|_| scattered(random.random_range(0..PAGES))).collect()
}

/// Files of very different lengths, each written from its beginning to its end, eight at the same
/// time: pages that were written together die together.
fn files() -> Vec<PageOp> {
    let mut random = Pcg64Mcg::seed_from_u64(4);
    let mut files = Vec::new();
    let mut first = 0;
    while first < PAGES {
        let length = (16 << random.random_range(0..7)).min(PAGES - first);
        files.push((first, first + length));
        first += length;
    }
    let ranks = Zipf::new(files.len() as f64, 0.7).unwrap();
    let drawn =
        |random: &mut Pcg64Mcg| files[(ranks.sample(random) as usize - 1) * 7919 % files.len()];
    let mut writers: Vec<(u32, u32)> = (0..8).map(|_| drawn(&mut random)).collect();
    let mut page = || {
        let number = random.random_range(0..8);
        if writers[number].0 == writers[number].1 {
            writers[number] = drawn(&mut random);
        }
        let lpn = writers[number].0;
        writers[number].0 += 1;
        PageOp::write(Lpn(lpn))
    };
    (0..UPDATES).map(|_| page()).collect()
}

/// Write amplification of the second half, and how many streams hold erase blocks then.
fn write_amplification<P: Placement, V: Victim>(
    geometry: Geometry,
    placement: P,
    victims: V,
    load: &[PageOp],
) -> (f64, usize) {
    let mut ftl = PageMapped::new(geometry, "hazard", placement, victims).unwrap();
    ftl.apply(&(0..PAGES).map(|lpn| PageOp::write(Lpn(lpn))).collect::<Vec<_>>());
    let (early, late) = load.split_at(load.len() / 2);
    ftl.apply(early);
    let before = ftl.counters().relocated_pages;
    ftl.apply(late);
    let relocated = ftl.counters().relocated_pages - before;
    let streams = ftl.device().streams.iter().filter(|stream| stream.erase_blocks > 0).count();
    (1.0 + relocated as f64 / late.len() as f64, streams)
}

fn geometry(pages_per_erase_block: u32) -> Geometry {
    Geometry::with_over_provisioning(4096, pages_per_erase_block, u64::from(PAGES), 0.25).unwrap()
}

fn hazard(pages_per_erase_block: u32, load: &[PageOp]) -> (f64, usize) {
    let geometry = geometry(pages_per_erase_block);
    let context = Context::new(geometry, 1);
    let args = INFO.accept(&Spec::parse("hazard").unwrap()).unwrap();
    let placement = Hazard::build(&args, &context).unwrap();
    let victims = build_victim(&Spec::parse("own").unwrap(), &context, 1).unwrap();
    write_amplification(geometry, placement, victims, load)
}

fn greedy(pages_per_erase_block: u32, load: &[PageOp]) -> f64 {
    let geometry = geometry(pages_per_erase_block);
    let context = Context::new(geometry, 1);
    let victims = build_victim(&Spec::parse("greedy").unwrap(), &context, 1).unwrap();
    write_amplification(geometry, NoPlacement, victims, load).0
}

/// The number of streams and what is in them follow from the load (1.68; with one stream 3.9).
/// Erase blocks of streams that the plan dropped are closed early (otherwise 1.94).
#[test]
fn space_is_planned() {
    let (found, streams) = hazard(128, &zipf());
    assert!(found < 1.75, "{found:.3}");
    assert!(streams > 4, "{streams} streams");
}

/// A stream goes on with other pages when space is planned again. Cold erase blocks that it had
/// written were once taken for hot ones then, and after a few plans much of the space was lost to
/// them (1.56; judged by what their stream is now, without regard to their own deaths, 2.50).
#[test]
fn erase_blocks_keep_what_they_were_written_for() {
    let (found, _) = hazard(32, &zipf());
    assert!(found < 1.62, "{found:.3}");
}

/// Hazards are learned: two kinds of pages are two streams (1.89 at 32 pages; with the rates of the
/// pages themselves 1.94), and one kind is one, at Greedy's cost (2.71; otherwise 2.74).
#[test]
fn hazards_are_learned() {
    let (found, streams) = hazard(32, &skewed());
    assert!(found < 1.92, "{found:.3}");
    assert!(streams < 5, "{streams} streams");
    let uniform = uniform();
    let (found, streams) = hazard(128, &uniform);
    let greedy = greedy(128, &uniform);
    assert!(found < 1.004 * greedy, "{found:.3}, and Greedy {greedy:.3}");
    assert_eq!(streams, 1);
}

/// Survivors begin a cycle of their own (2.02; with E / (1 - E) alone 2.33).
#[test]
fn victims_are_chosen_for_the_cycle_of_their_survivors() {
    let (found, _) = hazard(128, &skewed());
    assert!(found < 2.15, "{found:.3}");
}

/// Where deaths come in bursts erase blocks are judged by their own (1.34 and 1.64; by what was
/// expected of them 1.53 and 1.90), and by those of late (without them 1.31 and 1.78). Where deaths
/// are independent they are not: the limit of 1.92 above (1.94).
#[test]
fn bursts_are_distinguished_from_independent_deaths() {
    let files = files();
    let (small, _) = hazard(32, &files);
    let (large, _) = hazard(128, &files);
    assert!(small < 1.40, "{small:.3}");
    assert!(large < 1.74, "{large:.3}");
}

/// When other pages become hot what was learned of all is wrong, and so is what is known of each
/// (1.98; if all that was known stays and only counts less 2.05; if nothing is forgotten sooner
/// 2.14).
#[test]
fn after_a_shift_the_past_is_forgotten() {
    let turned = |operation: &PageOp| PageOp::write(Lpn((operation.lpn().0 + PAGES / 2) % PAGES));
    let mut load = skewed();
    for operation in &mut load[UPDATES / 2..] {
        *operation = turned(operation);
    }
    let (found, _) = hazard(32, &load);
    assert!(found < 2.03, "{found:.3}");
}
