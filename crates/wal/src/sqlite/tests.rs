//! The model beside a plain one: sets of pages, files as maps of bytes, nothing incremental.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::page_cache::BLOCK_BYTES;
use super::*;
use units::{IoOp, IoRequest};

const PAGE: u64 = 4096;

/// Pages of a transaction, and the size of the database after it.
type Plain = Vec<(BTreeSet<u32>, u32)>;

fn plain() -> impl Strategy<Value = Plain> {
    let one = (prop::collection::btree_set(1..40_u32, 1..8), 1..40_u32);
    prop::collection::vec(one, 1..40)
}

fn recorded(plain: &Plain, before: u32) -> Transactions {
    let mut found = Transactions::new(PAGE as u32, Nature::PLAIN);
    let mut size = before;
    for (number, (pages, after)) in plain.iter().enumerate() {
        // A page behind the end makes the database longer.
        let after = (*after).max(*pages.iter().next_back().unwrap());
        let written = |page: &u32| Written { page: *page, free_for: 0 };
        let mut pages: Vec<Written> = pages.iter().map(written).collect();
        found.push(number as u64 * 1_000_000, size, after, &mut pages).unwrap();
        size = after;
    }
    found
}

/// Groups of a plain load: union of the pages, size before and after.
fn groups(plain: &Plain, before: u32, count: usize) -> Vec<(BTreeSet<u32>, u32, u32)> {
    let mut size = before;
    let mut found = Vec::new();
    for part in plain.chunks(count) {
        let mut union = BTreeSet::new();
        let begin = size;
        for (pages, after) in part {
            union.extend(pages);
            size = (*after).max(*pages.iter().next_back().unwrap());
        }
        found.push((union, begin, size));
    }
    found
}

fn totals(of: &Transactions, mode: Mode) -> (Totals, u64) {
    let mut what_if = WhatIf::new(of, mode, 1 << 20, false).unwrap();
    let mut totals = Totals::default();
    while what_if.step(&mut totals).unwrap() {}
    (totals, what_if.most_unsynced)
}

const fn mode(journal: JournalMode, count: u32, limit: u32) -> Mode {
    Mode {
        journal,
        synchronous: Synchronous::Full,
        wal_autocheckpoint: limit,
        transactions_in_one: count,
    }
}

proptest! {
    #[test]
    fn a_log_is_as_the_rule_has_it(
        plain in plain(), before in 1..40_u32, count in 1..6_u32, limit in 0..40_u32,
    ) {
        let of = recorded(&plain, before);
        let (mut log, mut database, mut frames) = (0, 0, None);
        let mut dirty = BTreeSet::new();
        for (pages, _, after) in groups(&plain, before, count as usize) {
            let pages: BTreeSet<u32> = pages.into_iter().filter(|page| *page <= after).collect();
            // With no other, page 1 is logged.
            let pages = if pages.is_empty() { BTreeSet::from([1]) } else { pages };
            log += if frames.is_none() { 32 } else { 0 };
            log += pages.len() as u64 * (24 + PAGE);
            frames = Some(frames.unwrap_or(0) + pages.len() as u32);
            dirty.extend(pages);
            if limit > 0 && frames >= Some(limit) {
                database += dirty.iter().filter(|page| **page <= after).count() as u64 * PAGE;
                dirty.clear();
                frames = None;
            }
        }
        let (found, _) = totals(&of, mode(JournalMode::Wal, count, limit));
        prop_assert_eq!(found.bytes, [database, log, 0]);
    }

    #[test]
    fn a_journal_is_as_the_rule_has_it(plain in plain(), before in 1..40_u32, count in 1..6_u32) {
        let of = recorded(&plain, before);
        let (mut journal, mut database) = (0, 0);
        for (mut pages, before, after) in groups(&plain, before, count as usize) {
            pages.insert(1);
            let mut old: BTreeSet<u32> = pages.iter().copied().filter(|p| *p <= before).collect();
            old.extend(after + 1..=before);
            journal += 512 + 12 + old.len() as u64 * (PAGE + 8);
            database += pages.iter().filter(|page| **page <= after).count() as u64 * PAGE;
        }
        let (deleted, _) = totals(&of, mode(JournalMode::Delete, count, 0));
        prop_assert_eq!(deleted.bytes, [database, 0, journal]);
        let (kept, _) = totals(&of, mode(JournalMode::Persist, count, 0));
        let commits = groups(&plain, before, count as usize).len() as u64;
        prop_assert_eq!(kept.bytes, [database, 0, journal + 28 * commits]);
    }

    #[test]
    fn the_page_cache_writes_each_block_that_a_sync_wants(
        writes in prop::collection::vec((0..3_usize, 0..60_000_u64, 1..9000_u64, 0..4_u8), 1..60),
    ) {
        let begins = [0, 1 << 20, 2 << 20];
        let mut cache = PageCache::new(Layout { begins, discards: false });
        let mut waiting: [BTreeSet<u64>; 3] = Default::default();
        let files = [File::Database, File::Log, File::Journal];
        for (number, (file, offset, length, then)) in writes.into_iter().enumerate() {
            cache.time(number as u64);
            cache.write(files[file], offset, length);
            waiting[file].extend(offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES));
            if then == 0 {
                cache.sync(files[file]);
                let flush = cache.requests.pop().unwrap();
                prop_assert_eq!(flush.op, IoOp::Flush);
                prop_assert_eq!(blocks(&cache.requests, begins[file]), waiting[file].clone());
                prop_assert!(cache.requests.is_sorted_by_key(|one| one.offset));
                waiting[file].clear();
                cache.requests.clear();
            } else if then == 1 {
                cache.emptied(files[file]);
                waiting[file].clear();
            }
        }
        cache.finish();
        for file in 0..3 {
            let mine: Vec<IoRequest> = cache
                .requests
                .iter()
                .copied()
                .filter(|one| one.stream == file as u32 + 1)
                .collect();
            prop_assert_eq!(blocks(&mine, begins[file]), waiting[file].clone());
        }
    }
}

/// Blocks that requests write; none twice.
fn blocks(requests: &[IoRequest], begin: u64) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for one in requests {
        let from = (one.offset - begin) / BLOCK_BYTES;
        for block in from..from + u64::from(one.length) / BLOCK_BYTES {
            assert!(found.insert(block), "block {block} is written twice");
        }
    }
    found
}

fn of_pages(transactions: &[&[u32]]) -> Transactions {
    let plain = transactions.iter().map(|pages| (pages.iter().copied().collect(), 40));
    recorded(&plain.collect(), 40)
}

#[test]
fn a_page_that_is_written_again_counts_once_in_a_checkpoint_and_in_a_transaction_of_two() {
    let of = of_pages(&[&[2, 3], &[2, 3], &[2, 4]]);
    let (apart, _) = totals(&of, mode(JournalMode::Wal, 1, 6));
    assert_eq!(apart.bytes, [3 * PAGE, 32 + 6 * (24 + PAGE), 0], "the set, not the frames");
    let (in_two, _) = totals(&of, mode(JournalMode::Wal, 2, 100));
    assert_eq!(in_two.bytes[1], 32 + 4 * (24 + PAGE), "the union, not the sum");
}

#[test]
fn a_log_restarts_with_the_commit_after_its_checkpoint() {
    let of = of_pages(&[&[2, 3], &[4], &[5]]);
    let (found, _) = totals(&of, mode(JournalMode::Wal, 1, 2));
    assert_eq!(found.bytes[1], 2 * 32 + 4 * (24 + PAGE));
    assert_eq!(found.ends[1], 32 + 2 * (24 + PAGE), "its place is used again");
    // Of the checkpoint at the last commit nothing is left: 5 alone is below the limit again.
    assert_eq!(found.bytes[0], 2 * PAGE + 2 * PAGE);
}

#[test]
fn a_page_that_was_free_is_not_journalled_unless_it_was_freed_within() {
    let mut of = Transactions::new(PAGE as u32, Nature::PLAIN);
    let written = |page, free_for| Written { page, free_for };
    of.push(0, 9, 9, &mut vec![written(1, 0), written(2, 0)]).unwrap();
    of.push(1, 9, 9, &mut vec![written(1, 0), written(7, 1), written(8, 2)]).unwrap();
    let records = |found: Totals, journals: u64| (found.bytes[2] - journals * 524) / (PAGE + 8);
    let (apart, _) = totals(&of, mode(JournalMode::Delete, 1, 0));
    assert_eq!(records(apart, 2), 2 + 1);
    // Page 7 became free in the first of both: as one it is changed, and its old content kept.
    let (in_one, _) = totals(&of, mode(JournalMode::Delete, 2, 0));
    assert_eq!(records(in_one, 1), 3);
}

#[test]
fn most_commits_at_risk_are_those_between_syncs() {
    let of = of_pages(&[&[2], &[3], &[4], &[5], &[6]]);
    let at = |synchronous, limit| {
        totals(&of, Mode { synchronous, ..mode(JournalMode::Wal, 1, limit) }).1
    };
    assert_eq!(at(Synchronous::Normal, 3), 3);
    assert_eq!(at(Synchronous::Off, 3), 5);
    assert_eq!(at(Synchronous::Full, 3), 1);
}

#[test]
fn a_transaction_that_does_not_follow_is_refused() {
    let mut of = Transactions::new(PAGE as u32, Nature::PLAIN);
    let page = |page| vec![Written { page, free_for: 0 }];
    of.push(5, 3, 4, &mut page(4)).unwrap();
    for (time, before, pages, said) in [
        (6, 3, page(1), "begins with 3 pages"),
        (4, 4, page(1), "time"),
        (6, 4, page(9), "page 9 is behind"),
        (6, 4, page(0), "of 0"),
        (6, 4, Vec::new(), "no page"),
    ] {
        let mut pages = pages;
        let error = of.push(time, before, 4, &mut pages).unwrap_err().to_string();
        assert!(error.contains("transaction 1") && error.contains(said), "{error}");
    }
}

#[test]
fn a_cache_holds_what_sqlite_says() {
    // `PRAGMA cache_size` of -2000 is 483 pages of 4 KiB (numberOfCachePages).
    assert_eq!((cache_pages(-2000, 4096), cache_pages(50, 4096)), (483, 50));
    let of = of_pages(&[&[2, 3, 4, 5, 6, 7, 8, 9, 10]]);
    let mut what_if = WhatIf::new(&of, mode(JournalMode::Wal, 1, 0), 10, false).unwrap();
    assert!(what_if.step(&mut Totals::default()).is_err());
    let mut what_if = WhatIf::new(&of, mode(JournalMode::Wal, 1, 0), 20, false).unwrap();
    assert!(what_if.step(&mut Totals::default()).unwrap());
}
