//! Round trips: requests are read back as they were written, in every format that can be written.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::path::Path;

use crate::common::{read_all, write_with};
use proptest::prelude::*;
use traces::{OpenOptions, TraceError, convert, formats, open, store};
use units::{IoOp, IoRequest, Progress};

/// Properties of a request that a format keeps; the others come back with default values.
struct Keeps {
    spec: &'static str,
    ending: &'static str,
    trims_and_flushes: bool,
    latency: bool,
    time_unit_ns: u64,
    /// Streams come back as the order of their first request.
    renames_streams: bool,
}

const KEEPS: &[Keeps] = &[
    Keeps {
        spec: "parquet",
        ending: "parquet",
        trims_and_flushes: true,
        latency: true,
        time_unit_ns: 1,
        renames_streams: false,
    },
    Keeps {
        spec: "blkparse",
        ending: "blkparse",
        trims_and_flushes: true,
        latency: true,
        time_unit_ns: 1,
        renames_streams: false,
    },
    Keeps {
        spec: "fio_iolog",
        ending: "iolog",
        trims_and_flushes: true,
        latency: false,
        time_unit_ns: 1000,
        renames_streams: true,
    },
    Keeps {
        spec: "fio_iolog(version=2)",
        ending: "iolog.gz",
        trims_and_flushes: true,
        latency: false,
        time_unit_ns: 1000,
        renames_streams: true,
    },
    Keeps {
        spec: "mqsim",
        ending: "mqsim.zst",
        trims_and_flushes: false,
        latency: false,
        time_unit_ns: 1,
        renames_streams: false,
    },
];

impl Keeps {
    fn expected(&self, requests: &[IoRequest]) -> Vec<IoRequest> {
        let mut names = HashMap::new();
        let keep = |request: &IoRequest| {
            let next = names.len() as u32;
            let renamed = *names.entry(request.stream).or_insert(next);
            IoRequest {
                time_ns: request.time_ns / self.time_unit_ns * self.time_unit_ns,
                latency_ns: request.latency_ns.filter(|_| self.latency),
                // No other format has a place for it.
                handle: if self.spec.starts_with("parquet") { request.handle } else { 0 },
                is_fua: request.is_fua && self.trims_and_flushes && self.latency,
                stream: if self.renames_streams { renamed } else { request.stream },
                ..*request
            }
        };
        requests.iter().map(keep).collect()
    }
}

#[test]
fn every_writable_format_is_tried() {
    for format in formats::ALL.iter().filter(|format| format.write.is_some()) {
        let name = format.info.name;
        assert!(
            KEEPS.iter().any(|keeps| keeps.spec.split('(').next() == Some(name)),
            "{name} is not tried"
        );
    }
}

/// Requests in order of time, whole sectors, every range another one: so each completion belongs to
/// one issue.
fn requests(trims_and_flushes: bool) -> impl Strategy<Value = Vec<IoRequest>> {
    let op = if trims_and_flushes {
        prop::sample::select(&IoOp::ALL[..])
    } else {
        prop::sample::select(&IoOp::ALL[..2])
    };
    let latency = prop::option::of(prop_oneof![0u64..10_000, any::<u32>().prop_map(u64::from)]);
    let one = (0u64..5_000_000, op, 1u32..2048, 0u32..5, latency, any::<u32>());
    prop::collection::vec(one, 1..120).prop_map(|parts| {
        let mut time_ns = 0;
        let mut out: Vec<IoRequest> = Vec::new();
        for (index, (gap, op, sectors, stream, latency_ns, place)) in parts.into_iter().enumerate()
        {
            time_ns += if index == 0 { 0 } else { gap };
            let flush = op == IoOp::Flush;
            // The low bits make the place unique.
            let sector = (u64::from(place) << 8) + index as u64;
            let (offset, length) = if flush { (0, 0) } else { (sector * 512, sectors * 512) };
            out.push(IoRequest {
                time_ns,
                op,
                offset,
                length,
                stream,
                latency_ns: latency_ns.filter(|_| !flush),
                handle: if op == IoOp::Write { place as u8 % 128 } else { 0 },
                is_fua: op == IoOp::Write && place % 3 == 0,
            });
        }
        out
    })
}

fn read_back(path: &Path) -> Vec<IoRequest> {
    read_all(&mut open(path, &OpenOptions::default()).unwrap(), 1000).unwrap()
}

proptest! {
    #[test]
    fn what_is_written_reads_back(requests in requests(true), plain in requests(false)) {
        let dir = tempfile::tempdir().unwrap();
        for keeps in KEEPS {
            let path = dir.path().join(format!("trace.{}", keeps.ending));
            let requests = if keeps.trims_and_flushes { &requests } else { &plain };
            write_with(keeps.spec, &path, requests, true);
            prop_assert_eq!(read_back(&path), keeps.expected(requests), "{}", keeps.spec);
        }
    }

    /// Through Parquet and out again: the conversion that users make.
    #[test]
    fn conversions_keep_what_the_formats_can_hold(requests in requests(true)) {
        let dir = tempfile::tempdir().unwrap();
        let (text, stored, back) = (
            dir.path().join("a.blkparse.xz"),
            dir.path().join("b.parquet"),
            dir.path().join("c.iolog"),
        );
        let requests: Vec<IoRequest> =
            requests.into_iter().map(|request| IoRequest { handle: 0, ..request }).collect();
        write_with("blkparse", &text, &requests, false);
        let progress = Progress::default();
        let done = convert(&text, &OpenOptions::default(), &stored, None, &progress).unwrap();
        prop_assert_eq!(
            (done.from, done.to, done.written.requests),
            ("blkparse", "parquet", requests.len() as u64)
        );
        let (read, total) = progress.state();
        prop_assert_eq!(read, total);
        prop_assert_eq!(&read_back(&stored), &requests);
        convert(&stored, &OpenOptions::default(), &back, None, &Progress::default()).unwrap();
        let ranges =
            |all: &[IoRequest]| all.iter().map(|r| (r.op, r.offset, r.length)).collect::<Vec<_>>();
        prop_assert_eq!(ranges(&read_back(&back)), ranges(&requests));
    }
}

/// More than the reader and the writer hold at once, in pieces that do not divide it.
#[test]
fn long_traces_pass_through_the_store_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.parquet");
    let requests: Vec<IoRequest> = (0..150_000u64)
        .map(|i| {
            crate::common::plain(
                i * 3,
                IoOp::ALL[i as usize % 3],
                i * 4096 % 999_999,
                512,
                i as u32 % 4,
            )
        })
        .collect();
    write_with("parquet", &path, &requests, false);
    for batch in [1000, 65_537, 1 << 20] {
        let mut trace = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(read_all(&mut trace, batch).unwrap(), requests);
    }
}

#[test]
fn the_store_says_where_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.csv"), dir.path().join("out.parquet"));
    std::fs::write(
        &from,
        "128166372003061629,usr,3,Read,7014609920,24576,41286\nbad\n\
         128166372016382155,usr,3,Write,0,8192,1963\n",
    )
    .unwrap();
    convert(&from, &OpenOptions { format: None, skip_bad: 1 }, &to, None, &Progress::default())
        .unwrap();
    let reader = store::StoreReader::open(&to, 0).unwrap();
    let get = |key: &str| reader.metadata().get(key).map(String::as_str);
    assert_eq!(reader.rows(), 2);
    assert_eq!(get(store::keys::VERSION), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(get(store::keys::SOURCE_FORMAT), Some("msr"));
    assert_eq!(get("flashwright.source.0.name"), Some("in.csv"));
    assert_eq!(get("flashwright.source.0.sha256").map(str::len), Some(64));
    assert_eq!(get(store::keys::REQUESTS), Some("2"));
    assert_eq!(get(store::keys::SKIPPED), Some("1"));
    assert_eq!(get(store::keys::START_NS), Some("12816637200306162900"));
    assert_eq!(get(store::keys::STREAMS_ARE_VOLUMES), Some("true"));
    let facts = open(&to, &OpenOptions::default()).unwrap().facts();
    assert!(
        facts.streams_are_volumes
            && !facts.timeless
            && facts.start_ns == Some(12_816_637_200_306_162_900)
    );
}

#[test]
fn hashes_are_those_of_the_standard() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("abc");
    std::fs::write(&path, "abc").unwrap();
    // FIPS 180-2, appendix B.1.
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(traces::hash_file(&path).unwrap().sha256, expected);
}

#[test]
fn what_a_format_cannot_hold_is_refused_or_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("in.iolog");
    std::fs::write(&from, "fio version 3 iolog\n0 f write 0 512\n1 f sync 0 0\n2 f read 512 512\n")
        .unwrap();
    let to = dir.path().join("out.mqsim");
    let options = OpenOptions::default();
    let error = convert(&from, &options, &to, None, &Progress::default()).unwrap_err();
    assert!(
        error.to_string().contains("request 1 cannot be written as mqsim: the format has no flush"),
        "{error}"
    );
    assert!(
        std::fs::read_dir(dir.path()).unwrap().count() == 1,
        "a failed conversion leaves nothing behind"
    );
    let spec = registry::Spec::parse("mqsim(unsupported=drop)").unwrap();
    let done = convert(&from, &options, &to, Some(&spec), &Progress::default()).unwrap();
    assert_eq!((done.written.requests, done.written.dropped), (2, 1));
    std::fs::write(&from, "fio version 3 iolog\n0 f write 7 512\n").unwrap();
    let error = convert(&from, &options, &to, None, &Progress::default()).unwrap_err();
    assert!(error.to_string().contains("not whole sectors"), "{error}");
}

#[test]
fn a_cancelled_conversion_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.mqsim"), dir.path().join("out.parquet"));
    std::fs::write(&from, "1 0 8 8 0\n").unwrap();
    std::fs::write(&to, "what was there").unwrap();
    let progress = Progress::default();
    progress.cancel();
    let error = convert(&from, &OpenOptions::default(), &to, None, &progress).unwrap_err();
    assert!(matches!(error, TraceError::Cancelled(_)));
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn endings_and_names_that_cannot_be_written_say_what_can() {
    let (options, progress) = (OpenOptions::default(), Progress::default());
    let error = convert(Path::new("a"), &options, Path::new("b.txt"), None, &progress).unwrap_err();
    assert!(
        error.to_string().contains(
            "name the format (--format, or `format=`), one of: parquet, blkparse, fio_iolog, mqsim"
        ),
        "{error}"
    );
    let spec = registry::Spec::parse("msr").unwrap();
    let error =
        convert(Path::new("a"), &options, Path::new("b.txt"), Some(&spec), &progress).unwrap_err();
    assert_eq!(
        error.to_string(),
        "format `msr` cannot be written; these can: parquet, blkparse, fio_iolog, mqsim"
    );
}

/// A table that another tool wrote: other integer types, plain strings, columns in another order,
/// one too many, some missing.
#[test]
fn tables_of_other_tools_are_read() {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.parquet");
    let write = |ops: Vec<&str>, lengths: Vec<i64>| {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("comment", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("length", Arc::new(Int64Array::from(lengths))),
            ("op", Arc::new(StringArray::from(ops))),
            ("offset", Arc::new(Int64Array::from(vec![4096, 0]))),
            ("time_ns", Arc::new(Int64Array::from(vec![10, 30]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        read_all(&mut open(&path, &OpenOptions::default()).unwrap(), 10)
    };
    let read = write(vec!["write", "flush"], vec![512, 0]).unwrap();
    assert_eq!(
        read,
        [
            crate::common::plain(0, IoOp::Write, 4096, 512, 0),
            crate::common::plain(20, IoOp::Flush, 0, 0, 0)
        ]
    );
    let errors = [
        write(vec!["write", "wipe"], vec![512, 512]).unwrap_err(),
        write(vec!["write", "read"], vec![512, 0]).unwrap_err(),
        write(vec!["write", "read"], vec![512, -1]).unwrap_err(),
    ]
    .map(|error| error.to_string());
    assert!(
        errors[0].contains("row 1: op is `wipe`; right would be read, write, trim or flush"),
        "{}",
        errors[0]
    );
    assert!(errors[1].contains("row 1: a read of length 0"), "{}", errors[1]);
    assert!(errors[2].contains("column `length` is Int64; it has to be whole"), "{}", errors[2]);
}

/// Handles of a table that another tool wrote: null is none, and there are 128 of them.
#[test]
fn placement_handles_of_tables_are_read_and_checked() {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("handles.parquet");
    let read = |handles: Vec<Option<i64>>| {
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("time_ns", Arc::new(Int64Array::from(vec![0, 1])), false),
            ("op", Arc::new(StringArray::from(vec!["write", "write"])), false),
            ("offset", Arc::new(Int64Array::from(vec![0, 4096])), false),
            ("length", Arc::new(Int64Array::from(vec![4096, 4096])), false),
            ("handle", Arc::new(Int64Array::from(handles)), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        read_all(&mut open(&path, &OpenOptions::default()).unwrap(), 10)
    };
    let found = read(vec![Some(127), None]).unwrap();
    assert_eq!(found.iter().map(|request| request.handle).collect::<Vec<_>>(), [127, 0]);
    let error = read(vec![Some(128), None]).unwrap_err().to_string();
    assert!(error.contains("row 0: handle is `128`; right would be 0 to 127"), "{error}");
    let error = read(vec![Some(-1), None]).unwrap_err().to_string();
    assert!(error.contains("column `handle` is Int64; it has to be whole numbers"), "{error}");
}
