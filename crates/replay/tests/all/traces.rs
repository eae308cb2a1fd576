//! Traces from files: which part is taken, at which addresses, and what is known of it before it is
//! played.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;

use replay::{ReplayTrace, Selection};
use tempfile::NamedTempFile;
use traces::OpenOptions;
use units::{IoOp, IoRequest, Progress};

const MIB: u64 = 1 << 20;

fn file(lines: &str) -> NamedTempFile {
    let mut out = NamedTempFile::with_suffix(".iolog").unwrap();
    out.write_all(format!("fio version 3 iolog\n0 a add\n0 b add\n{lines}").as_bytes()).unwrap();
    out
}

fn loaded(file: &NamedTempFile, selection: Selection, dense: bool) -> ReplayTrace {
    ReplayTrace::load(file.path(), OpenOptions::default(), selection, dense, &Progress::default())
        .unwrap()
}

fn requests(trace: &ReplayTrace) -> Vec<(u64, IoOp, u64, u32)> {
    let mut source = trace.source().unwrap();
    let mut buffer = vec![IoRequest::NOTHING; 100];
    let count = source.fill(&mut buffer).unwrap();
    buffer[..count]
        .iter()
        .map(|request| (request.time_ns / 1000, request.op, request.offset, request.length))
        .collect()
}

#[test]
fn addresses_and_intervals_are_those_of_the_file() {
    let trace =
        file("5 a write 734003200 8192\n6 a sync 0 0\n8 a read 512 1024\n9 a trim 4096 4096\n");
    let found = loaded(&trace, Selection::default(), false);
    let expected = [
        (0, IoOp::Write, 700 * MIB, 8192),
        (1, IoOp::Flush, 0, 0),
        (3, IoOp::Read, 512, 1024),
        (4, IoOp::Trim, 4096, 4096),
    ];
    assert_eq!(requests(&found), expected);
    let totals = found.totals;
    assert_eq!(
        (totals.by_op, totals.read_bytes, totals.written_bytes, totals.trimmed_bytes),
        ([1, 1, 1, 1], 1024, 8192, 4096)
    );
    assert_eq!(
        (totals.end_bytes, totals.longest_bytes, totals.unit_bytes),
        (700 * MIB + 8192, 8192, 512)
    );
    assert_eq!((totals.duration, totals.volumes, totals.changes()), (4000, 1, true));
    assert_eq!((found.format, found.sources.len()), ("fio_iolog", 1));
}

#[test]
fn a_part_of_it_begins_at_its_own_start() {
    let trace = file(
        "0 a write 0 512\n10 a read 1024 512\n20 a write 4096 512\n30 a read 8192 512\n40 a sync 0 \
         0\n",
    );
    let selection = Selection { skip: 5_000, span: 30_000, ..Selection::default() };
    let found = loaded(&trace, selection, false);
    assert_eq!(requests(&found).iter().map(|request| request.0).collect::<Vec<_>>(), [0, 10, 20]);
    let reads = Selection { ops: [true, false, false, false], ..Selection::default() };
    let found = loaded(&trace, reads, false);
    assert_eq!(requests(&found), [(0, IoOp::Read, 1024, 512), (20, IoOp::Read, 8192, 512)]);
    assert!(!found.totals.changes());
    assert_eq!(found.totals.end_bytes, 8192 + 512);
    let nothing = Selection { skip: 1 << 40, ..Selection::default() };
    let error = ReplayTrace::load(
        trace.path(),
        OpenOptions::default(),
        nothing,
        false,
        &Progress::default(),
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.ends_with("no request of it is selected; right would be a part of it with requests"),
        "{error}"
    );
}

#[test]
fn what_it_touches_can_be_moved_together() {
    let trace = file("0 a write 734003200 8192\n1 b read 0 512\n2 a read 104857600 4096\n");
    let apart = loaded(&trace, Selection::default(), false);
    let (volumes, dense) = (apart.totals.volumes, loaded(&trace, Selection::default(), true));
    assert_eq!(volumes, 2, "equal offsets of two files are different places");
    assert_eq!((dense.totals.volumes, dense.totals.end_bytes), (1, 2 * MIB + 512));
    let offsets: Vec<u64> = requests(&dense).iter().map(|request| request.2).collect();
    assert_eq!(offsets, [MIB, 2 * MIB, 0]);
}

#[test]
fn a_trace_that_can_be_read_only_once_is_refused() {
    let path = std::path::Path::new("/dev/null");
    assert!(
        ReplayTrace::load(
            path,
            OpenOptions::default(),
            Selection::default(),
            false,
            &Progress::default()
        )
        .is_err()
    );
}
