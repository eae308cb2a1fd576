//! Both recognitions against each other and against plain search, after any history.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SLOTS: u32 = 200;

fn tuning(focused_pages: u64, least_pages: u32, time_ns: [f64; 3]) -> Tuning {
    let (least_run_pages, least_partition_pages) = (least_pages, least_pages);
    Tuning {
        time_ns,
        threshold_pages: [3.0, 4.0, 5.0],
        focused_pages,
        is_aligned: false,
        partitions: 4,
        least_run_pages,
        least_partition_pages,
    }
}

/// Runs of adjacent pages: first page and length.
fn runs_of(pages: &BTreeSet<u64>) -> Vec<(u64, u32)> {
    let starts = pages.iter().filter(|&&page| page == 0 || !pages.contains(&(page - 1)));
    starts
        .map(|&start| (start, (start..).take_while(|page| pages.contains(page)).count() as u32))
        .collect()
}

/// Instances by what the paper says of them, one after the other. Of the focused ones the densest
/// window.
fn by_search(pages: &BTreeSet<u64>, tuning: &Tuning) -> [Vec<u64>; 3] {
    let runs = runs_of(pages);
    let longest = runs
        .iter()
        .filter(|run| run.1 >= tuning.least_run_pages)
        .max_by_key(|&&(start, length)| (length, std::cmp::Reverse(start)));
    let sequential =
        longest.map_or(vec![], |&(start, length)| (start..start + u64::from(length)).collect());
    let lengths: BTreeSet<u32> = runs
        .iter()
        .map(|run| run.1)
        .filter(|&length| length >= tuning.least_partition_pages)
        .collect();
    let of_length = |length: u32| {
        runs.iter()
            .filter(move |run| run.1 == length)
            .map(|run| run.0)
            .take(4)
            .collect::<Vec<u64>>()
    };
    let best =
        lengths.iter().max_by_key(|&&length| (of_length(length).len() * length as usize, length));
    let mut partitioned = Vec::new();
    for step in 0..best.map_or(0, |&length| u64::from(length)) {
        partitioned.extend(of_length(*best.unwrap()).iter().map(|start| start + step));
    }
    let end_of = |first: u64| match tuning.is_aligned {
        true => (first / tuning.focused_pages + 1) * tuning.focused_pages,
        false => first + tuning.focused_pages,
    };
    let window = |first: u64| pages.range(first..end_of(first)).copied().collect::<Vec<u64>>();
    let densest =
        pages.iter().max_by_key(|&&first| (window(first).len(), std::cmp::Reverse(first)));
    [sequential, partitioned, densest.map_or(vec![], |&first| window(first))]
}

/// Pages that come and go: a number toggles a page, now and then a whole run.
fn histories() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((0..120_u64, 1..6_u8), 1..120)
}

fn play(
    history: &[(u64, u8)],
    mut came: impl FnMut(u64),
    mut went: impl FnMut(u64),
    mut after: impl FnMut(&BTreeSet<u64>),
) {
    let mut pages = BTreeSet::new();
    for &(first, count) in history {
        for page in first..first + u64::from(count) {
            if pages.remove(&page) {
                went(page);
            } else if pages.len() < SLOTS as usize {
                pages.insert(page);
                came(page);
            }
        }
        after(&pages);
    }
}

fn written_down(recognition: &Recognition, candidate: Candidate, tuning: &Tuning) -> Vec<u64> {
    let mut pages = Vec::new();
    recognition.write_down(candidate, tuning, &mut pages);
    pages
}

proptest! {
    #[test]
    fn both_ways_find_the_same_runs_and_partitions(
        history in histories(),
        least in 1..3_u32,
        focused in 1..40_u64,
    ) {
        let tuning = tuning(focused, least, [1.0; 3]);
        let incremental = std::cell::RefCell::new(Incremental::new(SLOTS, &tuning));
        play(
            &history,
            |page| {
                incremental.borrow_mut().insert(page, &tuning);
            },
            |page| incremental.borrow_mut().remove(page),
            |pages| {
                let incremental = incremental.borrow();
                let found = incremental.candidates(&tuning);
                let searched = by_search(pages, &tuning);
                for pattern in [Pattern::Sequential, Pattern::Partitioned] {
                    let candidate = found[pattern as usize];
                    let mut pages = Vec::new();
                    if candidate.pages > 0 {
                        incremental.write_down(
                            incremental.first_of(candidate),
                            &tuning,
                            &mut pages,
                        );
                    }
                    assert_eq!(pages, searched[pattern as usize], "{pattern:?}");
                }
            },
        );
    }

    #[test]
    fn a_scan_finds_what_a_search_finds_and_chooses_by_worth(
        history in histories(),
        focused in 1..40_u64,
        is_aligned: bool,
        times in prop::array::uniform3(1..5_u32),
    ) {
        let tuning = Tuning { is_aligned, ..tuning(focused, 2, times.map(f64::from)) };
        let mut on_demand = Recognition::OnDemand(OnDemand::default());
        play(
            &history,
            |_| (),
            |_| (),
            |pages| {
                let searched = by_search(pages, &tuning);
                let worth: Vec<f64> = searched
                    .iter()
                    .zip(tuning.time_ns)
                    .map(|(pages, time)| pages.len() as f64 / time)
                    .collect();
                let best =
                    (0..3).max_by(|&a, &b| worth[a].total_cmp(&worth[b]).then(b.cmp(&a))).unwrap();
                let candidate = on_demand.best(pages.iter().copied(), &tuning);
                match candidate {
                    None => assert!(pages.is_empty()),
                    Some(candidate) => {
                        assert_eq!(candidate.pattern as usize, best, "{worth:?}");
                        assert_eq!(
                            written_down(&on_demand, candidate, &tuning),
                            searched[best].clone()
                        );
                    }
                }
            },
        );
    }

    #[test]
    fn clusters_hold_every_page_once_and_stay_within_a_focused_area(
        history in histories(),
        focused in 1..40_u64,
        is_aligned: bool,
    ) {
        let tuning = Tuning { is_aligned, ..tuning(focused, 2, [1.0; 3]) };
        let incremental = std::cell::RefCell::new(Incremental::new(SLOTS, &tuning));
        play(
            &history,
            |page| {
                incremental.borrow_mut().insert(page, &tuning);
            },
            |page| incremental.borrow_mut().remove(page),
            |pages| {
                let incremental = incremental.borrow();
                let (runs, clusters) = incremental.parts();
                let found: Vec<(u64, u32)> =
                    runs.iter().map(|run| (run.start, run.length)).collect();
                assert_eq!(found, runs_of(pages));
                let mut before = None;
                let mut held = 0;
                for cluster in clusters.iter() {
                    assert!(
                        before < Some(cluster.min) && cluster.max - cluster.min < focused,
                        "{cluster:?}"
                    );
                    assert!(
                        !is_aligned || cluster.min / focused == cluster.max / focused,
                        "{cluster:?}"
                    );
                    assert!(pages.contains(&cluster.min) && pages.contains(&cluster.max));
                    assert_eq!(
                        cluster.pages as usize,
                        pages.range(cluster.min..=cluster.max).count()
                    );
                    before = Some(cluster.max);
                    held += cluster.pages;
                }
                assert_eq!(held as usize, pages.len());
                let largest = incremental.candidates(&tuning)[Pattern::Focused as usize];
                assert_eq!(
                    largest.pages,
                    clusters.iter().map(|cluster| cluster.pages).max().unwrap_or(0)
                );
                if largest.pages > 0 {
                    let largest = incremental.first_of(largest);
                    let mut written = Vec::new();
                    incremental.write_down(largest, &tuning, &mut written);
                    assert_eq!(written.first(), Some(&largest.key));
                    assert!(written.len() == largest.pages as usize && written.is_sorted());
                }
            },
        );
    }

    #[test]
    fn a_page_that_comes_tells_the_best_qualified_instance_that_it_is_part_of(
        history in histories(),
        times in prop::array::uniform3(1..5_u32),
    ) {
        let tuning = tuning(16, 2, times.map(f64::from));
        let recognition = std::cell::RefCell::new(Recognition::Incremental(Box::new(
            Incremental::new(SLOTS, &tuning),
        )));
        let shown = std::cell::RefCell::new(BTreeSet::new());
        play(
            &history,
            |page| {
                let mut pages = shown.borrow_mut();
                pages.insert(page);
                let mut recognition = recognition.borrow_mut();
                let told = recognition.insert(page, &tuning);
                let &(start, length) = runs_of(&pages)
                    .iter()
                    .find(|run| (run.0..run.0 + u64::from(run.1)).contains(&page))
                    .unwrap();
                let alike = if length < 2 {
                    0
                } else {
                    length
                        * runs_of(&pages).iter().filter(|run| run.1 == length).take(4).count()
                            as u32
                };
                let Recognition::Incremental(incremental) = &*recognition else { unreachable!() };
                let cluster = incremental
                    .parts()
                    .1
                    .iter()
                    .find(|cluster| (cluster.min..=cluster.max).contains(&page))
                    .unwrap();
                let mut expected = None;
                for (pattern, pages) in [
                    (Pattern::Sequential, length),
                    (Pattern::Partitioned, alike),
                    (Pattern::Focused, cluster.pages),
                ] {
                    let worth = f64::from(pages) / tuning.time_ns[pattern as usize];
                    let is_better = expected.is_none_or(|(_, other, _)| worth > other);
                    if f64::from(pages) > tuning.threshold_pages[pattern as usize] && is_better {
                        expected = Some((pattern, worth, pages));
                    }
                }
                assert_eq!(
                    told.map(|told| (told.pattern, told.pages)),
                    expected.map(|(pattern, _, pages)| (pattern, pages))
                );
                if let Some(told) = told {
                    let written = written_down(&recognition, told, &tuning);
                    let is_one_of_many = told.pattern == Pattern::Partitioned;
                    assert!(
                        (is_one_of_many || written.contains(&page))
                            && (told.pattern != Pattern::Sequential || written[0] == start)
                    );
                }
            },
            |page| {
                recognition.borrow_mut().remove(page);
                shown.borrow_mut().remove(&page);
            },
            |_| (),
        );
    }
}

/// STABLEBUFFER 1: "1, 50, 2, 51, 3, 52, ...".
#[test]
fn partitions_take_turns_page_by_page() {
    let mut pages = Vec::new();
    take_turns(&[1, 50], 3, &mut pages);
    assert_eq!(pages, [1, 50, 2, 51, 3, 52]);
}
