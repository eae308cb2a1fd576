//! Properties of every workload in the registry.

use proptest::prelude::*;
use units::PageOp;

use super::*;

/// Every variant, and the settings that take other paths through it.
const SETTINGS: &[&str] = &[
    "uniform(",
    "zipf(",
    "zipf(s=0,",
    "zipf(s=1,permute=no,",
    "zipf(s=1.3,",
    "zipf(s=6,",
    "kmodal(",
    "kmodal(sets=0.1:0.5,0.3:0.5,0.6:0,permute=no,",
    "tpce(",
    "tpce(a=63,s=2,permute=yes,",
    "shifting(period=1000,",
    "shifting(period=1x,size=0.5,share=1,step=1,permute=no,",
    "shifting(step=0,",
    "sequential(",
    "mixed(run=4,",
    "mixed(run=3,sequential=0.9,of=zipf(s=1.1),",
    "mixed(sequential=1,run=5,",
    "mixed(sequential=0,of=tpce,",
];

fn drawn(source: &mut dyn PageSource, buffer: usize) -> Vec<PageOp> {
    let (mut all, mut buffer) = (Vec::new(), vec![PageOp(u32::MAX); buffer]);
    loop {
        let count = source.fill(&mut buffer).unwrap();
        if count == 0 {
            return all;
        }
        all.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn every_variant_is_tested() {
    for entry in REGISTRY {
        assert!(
            SETTINGS.iter().any(|s| s.split('(').next() == Some(entry.info.name)),
            "no setting for {}",
            entry.info.name
        );
        let keys: Vec<String> =
            entry.info.params.iter().map(|p| format!("{}={}", p.name, p.default)).collect();
        let text = format!("{}({})", entry.info.name, keys.join(","));
        assert_eq!(
            Workload::parse(&text, 1).unwrap().args(),
            Workload::parse(entry.info.name, 1).unwrap().args()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Same seed, same sequence, whatever the buffer, after a rewind, and from another source;
    /// every page inside; the count exact.
    #[test]
    fn sequences_repeat_and_stay_inside(
        setting in prop::sample::select(SETTINGS),
        pages in 10u32..5000,
        updates in 1u64..9000,
        seed: u64,
        a in 1usize..6000,
        b in 1usize..6000,
    ) {
        let workload =
            Workload::parse(&format!("{setting}pages={pages},updates={updates})"), seed).unwrap();
        prop_assert_eq!((workload.logical_pages(), workload.operations()), (pages, updates));
        let mut source = workload.source();
        prop_assert_eq!((source.logical_pages(), source.operations()), (pages, Some(updates)));
        let first = drawn(&mut *source, a);
        prop_assert_eq!(first.len() as u64, updates);
        prop_assert!(first.iter().all(|op| !op.is_trim() && op.lpn().0 < pages));
        prop_assert_eq!(source.fill(&mut [PageOp(0); 3]).unwrap(), 0);
        source.rewind().unwrap();
        prop_assert_eq!(&drawn(&mut *source, b), &first);
        prop_assert_eq!(&drawn(&mut *workload.source(), b), &first);
    }

    #[test]
    fn weights_are_shares(
        setting in prop::sample::select(SETTINGS),
        pages in 10u32..5000,
        updates in 1u64..9000,
        seed: u64,
    ) {
        let workload =
            Workload::parse(&format!("{setting}pages={pages},updates={updates})"), seed).unwrap();
        let weights = workload.page_weights();
        prop_assert_eq!(weights.per_page.len(), pages as usize);
        prop_assert!(weights.per_page.iter().all(|&w| w >= 0.0));
        prop_assert!((weights.per_page.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        if let Some(sets) = weights.sets {
            let mut from_sets: Vec<f64> = sets
                .iter()
                .flat_map(|set| {
                    let count = (set.size_share * f64::from(pages)).round() as usize;
                    std::iter::repeat_n(set.update_share / count as f64, count)
                })
                .collect();
            let mut per_page = weights.per_page.clone();
            from_sets.sort_by(f64::total_cmp);
            per_page.sort_by(f64::total_cmp);
            prop_assert_eq!(from_sets.len(), per_page.len());
            prop_assert!(from_sets.iter().zip(&per_page).all(|(a, b)| (a - b).abs() < 1e-12));
        }
        // The weights over all are the mean of those of the phases, by the number of updates in
        // each.
        let phases = workload.phases();
        prop_assert_eq!(phases > 1, weights.meaning == Meaning::TimeAverage);
        if phases > 1 && phases < 50 {
            let period = if setting.contains("period=1000") { 1000 } else { u64::from(pages) };
            let mut mean = vec![0.0; pages as usize];
            for phase in 0..phases {
                let share = period.min(updates - phase * period) as f64 / updates as f64;
                workload
                    .phase_weights(phase)
                    .iter()
                    .zip(&mut mean)
                    .for_each(|(w, m)| *m += w * share);
            }
            prop_assert!(mean.iter().zip(&weights.per_page).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }
}

/// Counts of each page against the exact weights, pages with few expected updates taken together.
/// At a fixed seed; the bound is six standard deviations of chi-square, and for independent draws
/// it must not be too small either.
#[test]
fn counts_follow_the_weights() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        for (pages, updates) in [(997, 400_000), (4096, 600_000u32)] {
            let workload = Workload::parse(
                &format!("{setting}pages={pages},updates={updates})"),
                77 + index as u64,
            )
            .unwrap();
            let mut counts = vec![0u64; pages];
            drawn(&mut *workload.source(), 4096)
                .iter()
                .for_each(|op| counts[op.lpn().index()] += 1);
            let (chi_square, cells) =
                chi_square(&counts, &workload.page_weights().per_page, f64::from(updates), 20.0);
            let freedom = f64::from(cells) - 1.0;
            // A run of r pages lifts r neighbours together: with correlation 1 - d/r at distance d,
            // the variance grows by this.
            let run = setting
                .split("run=")
                .nth(1)
                .and_then(|s| s.split(',').next())
                .map_or(1, |s| s.parse::<u32>().unwrap());
            let spread = 1.0
                + 2.0
                    * (1..run).map(|d| (1.0 - f64::from(d) / f64::from(run)).powi(2)).sum::<f64>();
            let tolerance = 6.0 * (2.0 * freedom * spread).sqrt() + 6.0;
            assert!(
                chi_square < freedom + tolerance,
                "{setting} {pages} pages: chi-square {chi_square} of {freedom}"
            );
            if workload.is_independent() {
                assert!(
                    chi_square > freedom - tolerance,
                    "{setting} {pages} pages: chi-square {chi_square} of {freedom}"
                );
            }
        }
    }
}

fn chi_square(counts: &[u64], weights: &[f64], updates: f64, least: f64) -> (f64, u32) {
    let (mut sum, mut cells, mut expected, mut count) = (0.0, 0, 0.0, 0);
    for (&page_count, weight) in counts.iter().zip(weights) {
        assert!(*weight > 0.0 || page_count == 0, "a page of weight 0 was drawn");
        expected += weight * updates;
        count += page_count;
        if expected >= least {
            sum += (count as f64 - expected).powi(2) / expected;
            (cells, expected, count) = (cells + 1, 0.0, 0);
        }
    }
    if expected > 0.5 {
        sum += (count as f64 - expected).powi(2) / expected;
        cells += 1;
    }
    (sum, cells)
}

/// The test of the test: weights that are wrong by a tenth for a tenth of the pages are found.
#[test]
fn wrong_weights_are_found() {
    let workload = Workload::parse("zipf(s=1,pages=997,updates=400000,permute=no)", 5).unwrap();
    let mut counts = vec![0u64; 997];
    drawn(&mut *workload.source(), 4096).iter().for_each(|op| counts[op.lpn().index()] += 1);
    let mut weights = workload.page_weights().per_page;
    weights.iter_mut().step_by(10).for_each(|w| *w *= 1.1);
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= total);
    let (chi_square, cells) = chi_square(&counts, &weights, 400_000.0, 20.0);
    assert!(chi_square > f64::from(cells) + 6.0 * (2.0 * f64::from(cells)).sqrt() + 6.0);
}

#[test]
fn every_phase_of_a_shifting_set_follows_its_own_weights() {
    let workload =
        Workload::parse("shifting(pages=500,period=100000,step=0.5,size=0.2,updates=400000)", 9)
            .unwrap();
    let all = drawn(&mut *workload.source(), 4096);
    for (phase, updates) in all.chunks(100_000).enumerate() {
        let mut counts = vec![0u64; 500];
        updates.iter().for_each(|op| counts[op.lpn().index()] += 1);
        let (chi_square, cells) =
            chi_square(&counts, &workload.phase_weights(phase as u64), 100_000.0, 5.0);
        let freedom = f64::from(cells) - 1.0;
        assert!(
            (chi_square - freedom).abs() < 6.0 * (2.0 * freedom).sqrt(),
            "phase {phase}: {chi_square} of {freedom}"
        );
    }
}

/// MULTILOG section 6.2: TPC-E's skew is between that of uniform and of Zipf 1.
#[test]
fn tpce_is_less_skewed_than_zipf() {
    let hottest = |spec: &str| {
        let mut weights = Workload::parse(spec, 0).unwrap().page_weights().per_page;
        weights.sort_by(|a, b| b.total_cmp(a));
        weights[..weights.len() / 100].iter().sum::<f64>()
    };
    let (tpce, zipf) = (hottest("tpce(pages=1Mi)"), hottest("zipf(s=1,pages=1Mi)"));
    assert!(0.25 < tpce && tpce < 0.35 && zipf > 0.6, "the hottest 1 % take {tpce} and {zipf}");
}

#[test]
fn runs_are_runs() {
    let workload =
        Workload::parse("mixed(sequential=0.5,run=64,pages=100000,updates=200000)", 3).unwrap();
    let all = drawn(&mut *workload.source(), 4096);
    let follows =
        all.windows(2).filter(|w| w[1].lpn().0 == (w[0].lpn().0 + 1) % 100_000).count() as f64;
    let share = follows / all.len() as f64;
    assert!((share - 0.5 * 63.0 / 64.0).abs() < 0.02, "{share} of updates follow the one before");
}

#[test]
fn wrong_specs_say_what_would_be_right() {
    let error = |text: &str| Workload::parse(text, 0).unwrap_err().to_string();
    assert!(
        error("nope").starts_with("unknown synthetic workload `nope`; known are: uniform, zipf")
    );
    assert!(error("uniform(updates=0x)").contains("such as 15x"));
    assert!(error("uniform(updates=many)").contains("such as 15x"));
    assert!(error("uniform(permute=yes)").contains("no parameter `permute`"));
    assert!(error("kmodal(sets=0.2:0.8)").contains("summing to 1"));
    assert!(
        error("kmodal(sets=0.01:0.9,0.99:0.1,pages=10)").contains("set 1 is smaller than one page")
    );
    assert!(error("tpce(a=100)").contains("2^k - 1"));
    assert!(error("zipf(s=-1)").contains("a number from 0 to 64"));
    assert!(error("mixed(of=sequential)").contains("do not depend"));
    assert!(error("mixed(of=mixed)").contains("another workload"));
    assert!(error("mixed(of=zipf(pages=3))").contains("without `pages`"));
    assert_eq!(
        Workload::parse("synth:uniform(pages=2k,updates=1.5x)", 0).unwrap().operations(),
        3000
    );
}
