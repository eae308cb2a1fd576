//! The loader against a plain map of what each page is.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use units::SourceError;

use super::sample::LEAST_PAGES;
use super::*;

/// Requests as an MQSim file would not hold them all: written as a fio log of two files, which are
/// volumes.
fn log(requests: &[(u8, IoOp, u64, u32)]) -> String {
    let mut text = "fio version 3 iolog\n0 a add\n0 b add\n".to_owned();
    for (file, op, offset, length) in requests {
        let file = if *file == 0 { "a" } else { "b" };
        let line = match op {
            IoOp::Flush => format!("5 {file} sync 0 0\n"),
            op => format!("5 {file} {} {offset} {length}\n", op.name()),
        };
        text.push_str(&line);
    }
    text
}

/// Volume and page of it.
type Key = (u8, u64);

/// Does the work of the module one page at a time: gives the pages written, and each operation
/// (true if it is a trim, and its page).
fn oracle(requests: &[(u8, IoOp, u64, u32)], page_size: u64) -> (Vec<Key>, Vec<(bool, Key)>) {
    let mut ever = BTreeSet::new();
    let mut holds = BTreeSet::new();
    let mut operations = Vec::new();
    for (volume, op, offset, length) in requests {
        let (start, end) = (*offset, offset + u64::from(*length));
        for page in start / page_size..=end / page_size {
            let (first, after) = (page * page_size, (page + 1) * page_size);
            let key = (*volume, page);
            if *op == IoOp::Write && start < after && first < end {
                ever.insert(key);
                holds.insert(key);
                operations.push((false, key));
            }
            if *op == IoOp::Trim && start <= first && after <= end && holds.remove(&key) {
                operations.push((true, key));
            }
        }
    }
    (ever.into_iter().collect(), operations)
}

fn drain(source: &mut dyn PageSource, chunk: usize) -> Result<Vec<PageOp>, SourceError> {
    let (mut all, mut buffer) = (Vec::new(), vec![PageOp::write(Lpn(0)); chunk]);
    loop {
        let count = source.fill(&mut buffer)?;
        all.extend_from_slice(&buffer[..count]);
        if count < chunk {
            assert_eq!(source.fill(&mut buffer)?, 0, "the end stays the end");
            return Ok(all);
        }
    }
}

fn requests() -> impl Strategy<Value = Vec<(u8, IoOp, u64, u32)>> {
    let offset = prop_oneof![
        4 => 0u64..40_000,
        1 => (1u64 << 40)..(1 << 40) + 20_000,
        1 => (4u64 << 20) - 9000..(4 << 20) + 9000,
    ];
    let op = prop_oneof![
        5 => Just(IoOp::Write),
        2 => Just(IoOp::Trim),
        1 => Just(IoOp::Read),
        1 => Just(IoOp::Flush),
    ];
    prop::collection::vec((0u8..2, op, offset, 1u32..20_000), 0..60)
}

proptest! {
    #[test]
    fn operations_are_those_of_a_plain_map(
        requests in requests(),
        page_size in prop::sample::select(vec![1000u32, 4096, 512]),
        chunk in 1usize..300,
    ) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log(&requests)).unwrap();
        let (pages, operations) = oracle(&requests, u64::from(page_size));
        let number: BTreeMap<_, _> =
            pages.iter().enumerate().map(|(lpn, key)| (*key, Lpn(lpn as u32))).collect();
        let expected: Vec<PageOp> = operations
            .iter()
            .map(
                |(trim, key)| {
                    if *trim { PageOp::trim(number[key]) } else { PageOp::write(number[key]) }
                },
            )
            .collect();
        let mut updates = vec![0; pages.len()];
        for (_, key) in operations.iter().filter(|(trim, _)| !trim) {
            updates[number[key].index()] += 1;
        }
        let bytes = expected.len() as u64 * 4;
        for memory_limit_bytes in [u64::MAX, bytes, bytes.saturating_sub(1)] {
            let options = LoadOptions { page_size, memory_limit_bytes, ..LoadOptions::default() };
            let loaded = load(file.path(), &options, &Progress::default());
            if pages.is_empty() {
                let refused = matches!(loaded, Err(TraceError::Unusable { .. }));
                prop_assert!(refused);
                continue;
            }
            let loaded = loaded.unwrap();
            prop_assert_eq!(loaded.is_in_memory(), memory_limit_bytes >= bytes);
            prop_assert_eq!(loaded.logical_pages as usize, pages.len());
            prop_assert_eq!(&loaded.updates, &updates);
            prop_assert_eq!(loaded.page_writes + loaded.page_trims, expected.len() as u64);
            prop_assert_eq!(loaded.page_writes, updates.iter().map(|u| u64::from(*u)).sum::<u64>());
            prop_assert_eq!(loaded.requests, requests.len() as u64);
            let (mut one, mut other) = (loaded.source(), loaded.source());
            prop_assert_eq!(one.operations(), Some(expected.len() as u64));
            prop_assert_eq!(one.logical_pages(), loaded.logical_pages);
            prop_assert_eq!(&drain(&mut *one, chunk).unwrap(), &expected);
            let mut few = [PageOp::write(Lpn(0)); 3];
            other.fill(&mut few).unwrap();
            for source in [&mut one, &mut other] {
                source.rewind().unwrap();
                prop_assert_eq!(&drain(&mut **source, 64).unwrap(), &expected);
            }
        }
    }
}

#[test]
fn a_file_that_changes_between_passes_is_an_error() {
    let write = |offset: u64| (0, IoOp::Write, offset, 4096);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log(&[write(0), write(4096)])).unwrap();
    let options = LoadOptions { memory_limit_bytes: 0, ..LoadOptions::default() };
    let loaded = load(file.path(), &options, &Progress::default()).unwrap();
    for changed in
        [&[write(0), write(8192)][..], &[write(0)][..], &[write(0), write(4096), write(4096)][..]]
    {
        std::fs::write(file.path(), log(changed)).unwrap();
        let error = drain(&mut *loaded.source(), 10).unwrap_err().to_string();
        assert!(error.contains("changed since it was first read"), "{error}");
    }
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log(&[(0, IoOp::Read, 0, 512)])).unwrap();
    let error =
        load(file.path(), &LoadOptions::default(), &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("none of its 1 requests is a write"), "{error}");
    let error = load(
        file.path(),
        &LoadOptions { page_size: 0, ..LoadOptions::default() },
        &Progress::default(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("the page size is 0"));
    let stopped = Progress::default();
    stopped.cancel();
    assert!(matches!(
        load(file.path(), &LoadOptions::default(), &stopped),
        Err(TraceError::Cancelled(_))
    ));
}

/// A trace of four sequential passes over many pages, with a page that takes a third of all writes
/// and hundreds that are written often.
fn skewed(pages: u64) -> Vec<(u8, IoOp, u64, u32)> {
    let write = |page: u64| (0, IoOp::Write, page * 4096, 4096);
    let mut requests = Vec::new();
    for pass in 0..4 {
        for page in 0..pages {
            requests.push(write(pages + 7));
            requests.push(write(page));
            requests.push(write(pages + 8 + (page * 31 + pass) % 400));
        }
    }
    requests
}

#[test]
fn a_sample_has_its_share_of_pages_and_of_writes() {
    let pages = 8 * LEAST_PAGES;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log(&skewed(pages))).unwrap();
    let options = LoadOptions { one_in: 64, ..LoadOptions::default() };
    let loaded = load(file.path(), &options, &Progress::default()).unwrap();
    let sampled = loaded.sampled.unwrap();
    // As many as asked for would leave too few.
    assert!((7..=8).contains(&sampled.one_in), "{sampled:?}");
    assert_eq!(sampled.page_writes, 12 * pages);
    assert!(sampled.pages.abs_diff(pages + 401) * 30 < pages, "{sampled:?}");
    let close = |found: u64, right: u64| found.abs_diff(right) * 50 < right;
    let one_in = sampled.one_in;
    assert!(close(u64::from(loaded.logical_pages) * one_in, pages + 401), "{loaded:?}");
    assert!(close(loaded.page_writes * one_in, sampled.page_writes), "{loaded:?}");
    // The hottest page is there, with its share and no more.
    let hottest = u64::from(*loaded.updates.iter().max().unwrap());
    assert!(close(hottest * one_in, 4 * pages), "{hottest}");
}

#[test]
fn a_sample_is_the_same_from_memory_and_from_its_file() {
    let pages = 4 * LEAST_PAGES;
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut requests = skewed(pages);
    requests.push((0, IoOp::Trim, 0, 40 << 20));
    std::fs::write(file.path(), log(&requests)).unwrap();
    let of = |memory_limit_bytes| {
        let options = LoadOptions { one_in: 4, memory_limit_bytes, ..LoadOptions::default() };
        let loaded = load(file.path(), &options, &Progress::default()).unwrap();
        assert_eq!(loaded.is_in_memory(), memory_limit_bytes > 0);
        assert!(loaded.page_trims > 1000, "{loaded:?}");
        drain(&mut *loaded.source(), 1000).unwrap()
    };
    assert!(of(u64::MAX) == of(0));
}

#[test]
fn a_small_trace_is_no_sample() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log(&[(0, IoOp::Write, 0, 512)])).unwrap();
    let options = LoadOptions { one_in: 8, ..LoadOptions::default() };
    let loaded = load(file.path(), &options, &Progress::default()).unwrap();
    assert_eq!((loaded.sampled, loaded.logical_pages), (None, 1));
}
