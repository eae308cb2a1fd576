//! Benchmarks against what their specifications say, and traces against plain lists.

use std::collections::HashSet;

use super::*;

fn source(text: &str, clients: u32) -> Box<dyn TransactionSource> {
    BenchmarkLoad::parse(text).unwrap().source(clients, 1)
}

fn relation_of(database: &Database, name: &str) -> u16 {
    database.relations.iter().position(|r| r.name == name).unwrap() as u16
}

/// Plays so many transactions, spread over the clients; what each one is.
fn play(source: &mut dyn TransactionSource, clients: u32, count: u32) -> Vec<Transaction> {
    let mut one = Transaction::default();
    (0..count)
        .map(|number| {
            assert!(source.next(number % clients, &mut one).unwrap());
            one.clone()
        })
        .collect()
}

#[test]
fn databases_are_as_large_as_asked() {
    for text in ["tpcc(bytes=2400M)", "tpcb(bytes=2200M)", "tatp(bytes=2400M)"] {
        let load = BenchmarkLoad::parse(text).unwrap();
        let wanted = load.args().integer("bytes") as f64;
        let made = load.source(1, 1).database().bytes() as f64;
        assert!((made / wanted - 1.0).abs() < 0.03, "{text}: {made} bytes");
    }
}

#[test]
fn every_access_is_within_its_relation() {
    for text in ["tpcc(bytes=1Mi)", "tpcb(bytes=40M,page=4Ki)", "tatp(bytes=3M,page=1Ki)"] {
        let mut source = source(text, 3);
        let database = source.database().clone();
        let end = database.relations.iter().fold(0, |page, r| {
            assert_eq!(r.first_page, page, "{}", r.name);
            page + r.pages
        });
        assert_eq!(end, database.pages);
        for transaction in play(&mut *source, 3, 6000) {
            for access in transaction.accesses {
                let relation = &database.relations[usize::from(access.relation)];
                let pages = relation.first_page..relation.first_page + relation.pages;
                assert!(pages.contains(&access.page), "{text}: {access:?} of {relation:?}");
                assert_eq!(access.row == NO_ROW, relation.is_index);
                assert!(access.row == NO_ROW || access.row < database.rows);
                assert!(!access.is_locked || !relation.is_index);
            }
        }
    }
}

#[test]
fn what_a_client_draws_does_not_depend_on_the_others() {
    let own = |asked: &[u32]| {
        let mut source = source("tatp(bytes=50M)", 2);
        let mut one = Transaction::default();
        let mut own = Vec::new();
        for &client in asked {
            source.next(client, &mut one).unwrap();
            if client == 0 {
                own.push(one.clone());
            }
        }
        own
    };
    assert_eq!(own(&[0, 1, 0, 1, 1, 0]), own(&[1, 1, 0, 0, 0, 1]));
}

#[test]
fn tpcc_has_the_mix_and_the_work_of_its_clauses() {
    let mut source = source("tpcc(bytes=500M)", 10);
    let database = source.database().clone();
    let all = play(&mut *source, 10, 40_000);
    let share = |kind: u8| all.iter().filter(|t| t.kind == kind).count() as f64 / all.len() as f64;
    for (kind, wanted) in [0.45, 0.43, 0.04, 0.04, 0.04].into_iter().enumerate() {
        assert!((share(kind as u8) - wanted).abs() < 0.01, "{}", database.kinds[kind]);
    }
    let written = |kind: u8, name: &str| {
        let relation = relation_of(&database, name);
        let of_kind = || all.iter().filter(|t| t.kind == kind);
        let writes: usize = of_kind()
            .flat_map(|t| &t.accesses)
            .filter(|access| access.is_write && access.relation == relation)
            .count();
        writes as f64 / of_kind().count() as f64
    };
    // 2.4.1.3: 5 to 15 items, each a row of stock that changes and a line.
    assert!(
        (written(0, "stock") - 10.0).abs() < 0.1 && (written(0, "order_line") - 10.0).abs() < 0.1
    );
    assert_eq!(
        (written(0, "district"), written(0, "orders"), written(0, "new_order")),
        (1., 1., 1.)
    );
    assert_eq!((written(1, "warehouse"), written(1, "district")), (1.0, 1.0));
    assert_eq!((written(1, "customer"), written(1, "history")), (1.0, 1.0));
    // 2.7.4: the oldest of each of ten districts.
    assert_eq!((written(3, "new_order"), written(3, "customer")), (10.0, 10.0));
    assert!((written(3, "order_line") - 100.0).abs() < 2.0);
    for kind in [2, 4] {
        let writes = all.iter().filter(|t| t.kind == kind).flat_map(|t| &t.accesses);
        assert_eq!(writes.filter(|access| access.is_write).count(), 0);
    }
}

#[test]
fn tpcc_reads_back_the_lines_that_it_wrote() {
    let mut source = source("tpcc(bytes=1Mi)", 1);
    let database = source.database().clone();
    let line = relation_of(&database, "order_line");
    let mut written = HashSet::new();
    let (mut read, mut known) = (0u32, 0u32);
    for transaction in play(&mut *source, 1, 30_000) {
        for access in transaction.accesses.iter().filter(|access| access.relation == line) {
            match (transaction.kind, access.is_write) {
                (0, true) => {
                    written.insert(access.row);
                }
                (4, false) => {
                    read += 1;
                    known += u32::from(written.contains(&access.row));
                }
                _ => {}
            }
        }
    }
    // After some thousand orders the last twenty of each district are of this run.
    assert!(read > 100_000 && f64::from(known) > 0.95 * f64::from(read), "{known} of {read}");
}

#[test]
fn nurand_has_its_exact_distribution() {
    // Over whole multiples of A + 1 a number's weight is 3 to the power of its low bits that are 1.
    let (a, bound) = (8191, 12 * 8192);
    let weight = |value: u32| 3u64.pow((value & a).count_ones());
    let mut order: Vec<u32> = (0..bound).collect();
    order.sort_by_key(|&value| std::cmp::Reverse(weight(value)));
    let hot: HashSet<u32> = order[..bound as usize / 10].iter().copied().collect();
    let of = |values: &[u32]| values.iter().map(|&value| weight(value)).sum::<u64>() as f64;
    let exact = of(&order[..bound as usize / 10]) / of(&order);
    let rng = &mut generators(1, 7)[0];
    let draws = 400_000;
    let count = (0..draws).filter(|_| hot.contains(&nurand(rng, a, 0, bound))).count();
    let found = count as f64 / f64::from(draws);
    assert!((found - exact).abs() < 0.003, "{found}, and exactly {exact}");
}

#[test]
fn tpcb_changes_four_rows_and_keeps_to_its_branch() {
    let mut source = source("tpcb(bytes=200M)", 10);
    let database = source.database().clone();
    let accounts = relation_of(&database, "accounts");
    let tellers = relation_of(&database, "tellers");
    let first_row = |relation: u16, all: &[Transaction]| {
        let rows = all.iter().flat_map(|t| &t.accesses).filter(|a| a.relation == relation);
        rows.map(|a| a.row).min().unwrap()
    };
    let all = play(&mut *source, 10, 20_000);
    assert!(all.iter().all(|t| t.accesses.iter().filter(|a| a.is_write).count() == 4));
    let of = |t: &Transaction, relation| {
        t.accesses.iter().find(|a| a.relation == relation && a.is_write).unwrap().row
    };
    let teller_first = first_row(tellers, &all);
    // Accounts are the first table.
    let at_home =
        all.iter().filter(|t| of(t, accounts) / 100_000 == (of(t, tellers) - teller_first) / 10);
    let share = at_home.count() as f64 / all.len() as f64;
    assert!((share - 0.85).abs() < 0.01, "{share}");
}

#[test]
fn tatp_writes_in_a_fifth_of_its_transactions() {
    let mut source = source("tatp(bytes=100M)", 4);
    let all = play(&mut *source, 4, 50_000);
    let writes = all.iter().filter(|t| t.accesses.iter().any(|a| a.is_write)).count();
    // 14 % locations, 2 % subscribers, 4 % forwardings of which 31.25 % are possible.
    let share = writes as f64 / all.len() as f64;
    assert!((share - (0.16 + 0.04 * 0.3125)).abs() < 0.005, "{share}");
}

#[test]
fn wrong_specs_are_told() {
    let refused = |text| BenchmarkLoad::parse(text).unwrap_err().to_string();
    assert_eq!(refused("tpcx"), "unknown benchmark `tpcx`; known are: tpcc, tpcb, tatp");
    assert_eq!(refused("tpcb(page=5000)"), "`tpcb`: page=5000 is not a power of two");
    assert!(refused("tatp(growth=1)").contains("no parameter `growth`"));
}

mod files {
    use std::path::PathBuf;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};

    use super::*;
    use crate::store::TableWriter;

    type Row = (u64, &'static str, Option<u32>, Option<u32>);

    fn write(rows: &[Row]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accesses.parquet");
        let columns: [(&str, ArrayRef); 4] = [
            ("transaction", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.0)))),
            ("kind", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.1)))),
            ("relation", Arc::new(rows.iter().map(|r| r.2).collect::<UInt32Array>())),
            ("page", Arc::new(rows.iter().map(|r| r.3).collect::<UInt32Array>())),
        ];
        let nullable = columns.map(|(name, column)| (name, column, name != "transaction"));
        let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
        let mut writer = TableWriter::new(&path, batch.schema(), &[]).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        (folder, path)
    }

    fn error(rows: &[Row]) -> String {
        let (_folder, path) = write(rows);
        let error = AccessTrace::load(&path, false).unwrap_err().to_string();
        error.rsplit_once("accesses.parquet").unwrap().1.to_owned()
    }

    #[test]
    fn transactions_come_whole_in_the_order_of_their_begins() {
        let rows = [
            (7, "begin", None, None),
            (3, "begin", None, None),
            (3, "read", Some(5), Some(2)),
            (7, "write", Some(1), Some(9)),
            (9, "begin", None, None),
            (3, "commit", None, None),
            (7, "read", Some(5), Some(0)),
            (9, "write", Some(1), Some(3)),
            (7, "commit", None, None),
            (9, "abort", None, None),
            (10, "begin", None, None),
        ];
        let (_folder, path) = write(&rows);
        let mut trace = AccessTrace::load(&path, true).unwrap();
        let counts = TraceCounts { committed: 2, aborted: 1, unfinished: 1, reads: 2, writes: 1 };
        assert_eq!(trace.counts(), counts);
        // Relation 1 has ten pages, relation 5 lies behind it.
        assert_eq!((trace.database().pages, trace.database().page_bytes), (13, 8192));
        let mut one = Transaction::default();
        let mut pages = Vec::new();
        for _ in 0..3 {
            assert!(trace.next(0, &mut one).unwrap());
            pages.push(one.accesses.iter().map(|a| (a.page, a.is_write)).collect::<Vec<_>>());
        }
        assert_eq!(pages[0], [(9, true), (10, false)]);
        assert_eq!((&pages[1], &pages[2]), (&vec![(12, false)], &pages[0]));
    }

    #[test]
    fn wrong_rows_are_told_with_their_place() {
        let begin = (1, "begin", None, None);
        assert_eq!(
            error(&[begin, (1, "look", None, None)]),
            ", row 1: kind is `look`; right would be begin, read, write, commit or abort"
        );
        assert!(error(&[begin, (1, "read", None, Some(1))]).contains("without relation or page"));
        assert!(error(&[(2, "commit", None, None)]).contains("transaction 2 has not begun"));
        assert!(error(&[begin, (1, "commit", None, None), begin]).contains("begins twice"));
        assert!(error(&[begin]).contains("no transaction commits"));
    }
}
