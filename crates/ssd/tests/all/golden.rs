//! Exact counters of every policy on a small fixed workload: a change of code must not change them
//! unnoticed.
//!
//! `golden.txt` holds one line for each pair of policies: every placement with the victim policy of
//! its authors and with greedy, and every victim policy without placement. `UPDATE_GOLDEN=1 cargo
//! test --workspace --test all golden` rewrites it; the difference is then part of the
//! change, to be read and explained.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use placement::{PLACEMENTS, VICTIMS};
use registry::Spec;
use ssd::counting::{CountingSettings, Start, simulate};
use units::{Geometry, Lpn, PageOp, Progress, VecSource};

const PAGES: u32 = 4000;
const OPERATIONS: usize = 20_000;
const UPDATE: &str = "UPDATE_GOLDEN=1 cargo test --workspace --test all golden";
const HEADER: &str = "\
# Exact counters of 20,000 operations on 4,000 pages, 8 pages an erase block, \
over-provisioning 0.4, filled; see golden.rs.
# Written by UPDATE_GOLDEN=1 cargo test --workspace --test all golden
# placement victim relocated_pages erases
";

type Pair = (String, String);
type Counters = BTreeMap<Pair, (u64, u64)>;

/// Steele, Lea & Flood, OOPSLA 2014 (`SplitMix64`), so that the workload depends on no crate's
/// version.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u32
    }
}

/// Half of the operations go to a twentieth of the pages, a quarter to a quarter of them, a quarter
/// to all; one in thirty is a trim.
fn operations() -> Vec<PageOp> {
    let mut random = SplitMix(20_130_801);
    let mut one = || {
        let reach = match random.below(4) {
            0 | 1 => PAGES / 20,
            2 => PAGES / 4,
            _ => PAGES,
        };
        // A step of 7 puts the hot pages among cold ones: 7 and the number of pages have no common
        // divisor.
        let page = Lpn(random.below(reach) * 7 % PAGES);
        if random.below(30) == 0 { PageOp::trim(page) } else { PageOp::write(page) }
    };
    (0..OPERATIONS).map(|_| one()).collect()
}

fn pairs() -> BTreeSet<Pair> {
    let placements =
        PLACEMENTS.iter().flat_map(|p| [(p.info.name, p.victim), (p.info.name, "greedy")]);
    let victims = VICTIMS.iter().map(|victim| ("none", victim.name));
    placements
        .chain(victims)
        .map(|(placement, victim)| (placement.to_owned(), victim.to_owned()))
        .collect()
}

fn measured(operations: &[PageOp], (placement, victim): &Pair) -> (u64, u64) {
    let settings = CountingSettings {
        geometry: Geometry::with_over_provisioning(4096, 8, u64::from(PAGES), 0.4).unwrap(),
        placement: Spec::parse(placement).unwrap(),
        victim: Spec::parse(victim).unwrap(),
        start: Start::Filled,
        seed: 1,
        repeat: 1,
        audit: true,
    };
    let weights = || {
        let mut weights = vec![0.0; PAGES as usize];
        operations
            .iter()
            .filter(|op| !op.is_trim())
            .for_each(|op| weights[op.lpn().index()] += 1.0);
        weights
    };
    let mut source = VecSource::new(PAGES, operations.into());
    let outcome = simulate(&settings, &weights, &mut source, &Progress::default()).unwrap();
    (outcome.counters.relocated_pages, outcome.counters.erases)
}

fn parse(text: &str) -> Result<Counters, String> {
    let lines =
        (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|(number, line)| {
            let wrong = || {
                format!(
                    "golden.txt, line {number}: `{line}` is not `placement victim relocated_pages \
                     erases`"
                )
            };
            let [placement, victim, relocated, erases] =
                line.split_whitespace().collect::<Vec<_>>()[..]
            else {
                return Err(wrong());
            };
            let counters =
                (relocated.parse().map_err(|_| wrong())?, erases.parse().map_err(|_| wrong())?);
            Ok(((placement.to_owned(), victim.to_owned()), counters))
        })
        .collect()
}

/// Differences, one line each; empty if nothing has changed.
fn differences(golden: &Counters, found: &Counters) -> Vec<String> {
    let mut told = Vec::new();
    for ((placement, victim), now) in found {
        let name = format!("{placement} with {victim}");
        match golden.get(&(placement.clone(), victim.clone())) {
            None => told.push(format!("{name} is not in golden.txt: add it with {UPDATE}")),
            Some(then) if then != now => {
                told.push(format!("{name}: (relocated pages, erases) were {then:?}, now {now:?}"));
            }
            Some(_) => {}
        }
    }
    let gone = golden.keys().filter(|pair| !found.contains_key(*pair));
    told.extend(gone.map(|(placement, victim)| {
        format!("{placement} with {victim} is in golden.txt and not registered: {UPDATE}")
    }));
    told
}

#[test]
fn counters_are_as_they_were() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    let operations = operations();
    let found: Counters =
        pairs().into_iter().map(|pair| (pair.clone(), measured(&operations, &pair))).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        let line = |((placement, victim), (relocated, erases)): (&Pair, &(u64, u64))| {
            format!("{placement} {victim} {relocated} {erases}\n")
        };
        std::fs::write(&path, HEADER.to_owned() + &found.iter().map(line).collect::<String>())
            .unwrap();
        return;
    }
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; make it with {UPDATE}", path.display()));
    let differences = differences(&parse(&text).unwrap(), &found);
    assert!(
        differences.is_empty(),
        "{}\nIf that is meant, {UPDATE} accepts it.",
        differences.join("\n")
    );
}

#[test]
fn the_workload_is_the_one_that_was_recorded() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for op in operations() {
        hash = (hash ^ u64::from(op.0)).wrapping_mul(0x0100_0000_01b3);
    }
    assert_eq!(hash, 0x6af1_fc3b_b849_4939, "the operations changed, not the policies");
}

#[test]
fn a_missing_changed_or_unregistered_policy_is_told() {
    let golden = parse("# a comment\nnone greedy 5 7\nnone lru 5 7\ngone lru 1 1\n").unwrap();
    let found = parse("none greedy 5 7\nnone lru 6 7\nnew lru 1 1\n").unwrap();
    let told = differences(&golden, &found).join("\n");
    assert!(
        told.contains("new with lru is not in golden.txt: add it with UPDATE_GOLDEN=1"),
        "{told}"
    );
    assert!(
        told.contains("none with lru: (relocated pages, erases) were (5, 7), now (6, 7)"),
        "{told}"
    );
    assert!(told.contains("gone with lru is in golden.txt and not registered"), "{told}");
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(parse("none lru 5\n").unwrap_err().contains("line 1"));
}
