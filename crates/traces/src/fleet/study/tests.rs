use std::collections::HashMap;

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use units::{IoOp, IoRequest};

use super::{Exact, Sketch, Sketches, Study, StudyOptions, VolumeFigures};

const SHARES: [f64; 7] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];
const EXACT: StudyOptions =
    StudyOptions { page_bytes: 4096, memory_bytes: 1 << 30, is_exact: true, one_in: 1 };

fn studied(
    volume: u32,
    requests: &[IoRequest],
    options: &StudyOptions,
) -> (VolumeFigures, Sketches) {
    let mut study = Study::new(volume, options);
    requests.iter().for_each(|request| study.take(request));
    study.finish()
}

fn request(time_ns: u64, op: IoOp, page: u64, pages: u32) -> IoRequest {
    IoRequest { time_ns, op, offset: page * 4096, length: pages * 4096, ..IoRequest::NOTHING }
}

/// Writes and reads, most of them to few pages, with gaps of very different length.
fn skewed(seed: u64, count: u64, footprint: u64) -> Vec<IoRequest> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut time_ns = 0;
    let one = |_| {
        let random = rng.next_u64();
        time_ns += (random & 0xffff) << (random >> 60);
        let share = rng.next_u64() as f64 / 2f64.powi(64);
        let page = (footprint as f64 * share * share) as u64;
        let op = if random.is_multiple_of(4) { IoOp::Read } else { IoOp::Write };
        request(time_ns, op, page, 1 + (random >> 20) as u32 % 16)
    };
    (0..count).map(one).collect()
}

/// The same figures by plain counting: lifetimes, distances, and pages written and read.
fn counted(requests: &[IoRequest]) -> (Exact, Exact, u64, u64, u64) {
    let (mut lifetimes, mut distances) = (Exact::default(), Exact::default());
    let (mut written, mut read) = (HashMap::new(), HashMap::new());
    let mut writes = 0;
    for one in requests {
        for page in one.offset / 4096..(one.offset + u64::from(one.length)) / 4096 {
            if one.op == IoOp::Read {
                read.insert(page, ());
                continue;
            }
            writes += 1;
            if let Some((then, write)) = written.insert(page, (one.time_ns, writes)) {
                lifetimes.add(one.time_ns - then, 1);
                distances.add(writes - write, 1);
            }
        }
    }
    let touched = written.len() + read.keys().filter(|page| !written.contains_key(page)).count();
    (lifetimes, distances, written.len() as u64, read.len() as u64, touched as u64)
}

/// A quantile of a sketch is at its share of the exact values, or so near.
fn close(sketch: &Sketch, exact: &Exact, most: f64) {
    let values = exact.sorted();
    let all: u64 = values.values().sum();
    for (share, found) in SHARES.into_iter().zip(sketch.quantiles(&SHARES)) {
        let below: u64 = values.range(..found).map(|(_, count)| count).sum();
        let to = below + values.get(&found).unwrap_or(&0);
        let (below, to) = (below as f64 / all as f64, to as f64 / all as f64);
        let error = (below - share).max(share - to).max(0.0);
        assert!(error <= most, "{share}: {found} is at {below} to {to}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_volume_that_fits_is_counted(seed in any::<u64>(), footprint in 1u64..5000) {
        let requests = skewed(seed, 2000, footprint);
        let (figures, sketches) = studied(3, &requests, &EXACT);
        let (lifetimes, distances, written, read, touched) = counted(&requests);
        prop_assert!(figures.is_counted);
        prop_assert_eq!(sketches.lifetimes.exact, Some(lifetimes));
        prop_assert_eq!(sketches.distances.exact, Some(distances));
        prop_assert_eq!(
            (figures.written_pages, figures.read_pages, figures.touched_pages),
            (written, read, touched)
        );
        let near = |found: u64, right: u64| found.abs_diff(right) as f64 <= 0.02 * right as f64;
        prop_assert!(near(sketches.written.estimate(), written));
        prop_assert!(near(sketches.read.estimate(), read));
        let (first, last) = (requests[0].time_ns, requests[1999].time_ns);
        prop_assert_eq!((figures.first_ns, figures.last_ns), (first, last));
    }
}

#[test]
fn merged_sketches_are_those_of_the_whole() {
    let volumes: Vec<_> = (0..6).map(|n| skewed(n, 20_000, 30_000 << n)).collect();
    let mut merged = Sketches::new(true);
    let mut written = 0;
    for (number, requests) in (0..).zip(&volumes) {
        let (figures, sketches) = studied(number, requests, &EXACT);
        written += figures.written_pages;
        merged.merge(&sketches);
    }
    let error = merged.written.estimate().abs_diff(written) as f64 / written as f64;
    assert!(error < 0.02, "{error}");
    for (name, values) in merged.kinds() {
        let exact = values.exact.as_ref().unwrap();
        assert!(values.sketch.count() >= 10_000, "{name}");
        close(&values.sketch, exact, 0.005);
    }
    let one = studied(0, &volumes[0], &StudyOptions { is_exact: false, ..EXACT }).1;
    merged.merge(&one);
    assert!(merged.gaps.exact.is_none(), "not all values are known any more");
}

#[test]
fn lifetimes_of_a_sample_are_those_of_all_pages() {
    let requests = skewed(5, 200_000, 400_000);
    let (lifetimes, distances, written, ..) = counted(&requests);
    let small = StudyOptions { memory_bytes: 1 << 20, ..EXACT };
    let given = StudyOptions { one_in: 8, ..EXACT };
    for options in [small, given] {
        let (figures, sketches) = studied(0, &requests, &options);
        assert!(figures.one_in >= 8 && !figures.is_counted, "{}", figures.one_in);
        close(&sketches.lifetimes.sketch, &lifetimes, 0.02);
        close(&sketches.distances.sketch, &distances, 0.02);
        let error = figures.written_pages.abs_diff(written) as f64 / written as f64;
        assert!(error < 0.02, "{error}");
        // What a page stands for adds up to all pages.
        let all = sketches.lifetimes.sketch.count() as f64;
        let right = (figures.page_writes - written) as f64;
        assert!((all / right - 1.0).abs() < 0.05, "{all} {right}");
    }
}

#[test]
fn equal_requests_have_equal_sketches() {
    let bytes = || {
        let options = StudyOptions { memory_bytes: 1 << 20, ..EXACT };
        let (_, sketches) = studied(1, &skewed(9, 50_000, 300_000), &options);
        let kinds = sketches.kinds().map(|(_, values)| values.sketch.to_bytes());
        (kinds, sketches.written.to_bytes(), sketches.read.to_bytes())
    };
    assert_eq!(bytes(), std::thread::spawn(bytes).join().unwrap());
}
