//! The loader against a plain list of extents.

use std::collections::BTreeSet;
use std::io::Write as _;

use proptest::prelude::*;
use tempfile::NamedTempFile;
use units::IoRequest;

use super::*;

const MIB: u64 = EXTENT_BYTES;

/// Time in us, file (a volume), operation, offset, length.
type Line = (u64, u8, IoOp, u64, u32);

fn file(lines: &[Line]) -> NamedTempFile {
    let mut text = "fio version 3 iolog\n0 a add\n0 b add\n".to_owned();
    for (time, file, op, offset, length) in lines {
        let file = if *file == 0 { "a" } else { "b" };
        let rest = if *op == IoOp::Flush {
            "sync 0 0".to_owned()
        } else {
            format!("{} {offset} {length}", op.name())
        };
        text.push_str(&format!("{time} {file} {rest}\n"));
    }
    let mut out = NamedTempFile::with_suffix(".iolog").unwrap();
    out.write_all(text.as_bytes()).unwrap();
    out
}

fn loaded(file: &NamedTempFile, options: &LoadOptions) -> Result<LoadedRequests, TraceError> {
    load(file.path(), options, &Progress::default())
}

fn drain(source: &mut dyn RequestSource, chunk: usize) -> Vec<IoRequest> {
    let (mut all, mut buffer) = (Vec::new(), vec![IoRequest::NOTHING; chunk]);
    loop {
        let count = source.fill(&mut buffer).unwrap();
        all.extend_from_slice(&buffer[..count]);
        if count < chunk {
            return all;
        }
    }
}

/// Operation, offset, length.
fn shape(requests: &[IoRequest]) -> Vec<(IoOp, u64, u32)> {
    requests.iter().map(|request| (request.op, request.offset, request.length)).collect()
}

#[test]
fn touched_extents_lie_next_to_each_other_in_order() {
    let trace = file(&[
        (5, 1, IoOp::Write, 700 * MIB + 4096, 8192),
        (6, 0, IoOp::Read, 900 * MIB - 512, 1024),
        (8, 0, IoOp::Flush, 0, 0),
        (9, 0, IoOp::Write, 3 * MIB, 512),
        (12, 0, IoOp::Read, 4 * MIB, 512),
    ]);
    let found = loaded(&trace, &LoadOptions::default()).unwrap();
    let expected = [
        (IoOp::Write, 4 * MIB + 4096, 8192),
        (IoOp::Read, 3 * MIB - 512, 1024),
        (IoOp::Flush, 0, 0),
        (IoOp::Write, 0, 512),
        (IoOp::Read, MIB, 512),
    ];
    let requests = drain(found.all().as_mut(), 3);
    assert_eq!(shape(&requests), expected);
    assert_eq!(
        requests.iter().map(|request| request.time_ns / 1_000).collect::<Vec<_>>(),
        [0, 1, 3, 4, 7]
    );
    assert_eq!((found.footprint_bytes, found.duration_ns), (4 * MIB + 4096 + 8192, 7_000));
    assert_eq!(
        found.counts,
        Counts { by_op: [2, 2, 0, 1], read_bytes: 1536, written_bytes: 8704, left_out: 0 }
    );
}

#[test]
fn trims_are_kept_as_far_as_something_is_there() {
    let trace = file(&[
        (0, 0, IoOp::Write, 10 * MIB, 4096),
        (0, 0, IoOp::Write, 12 * MIB, 8192),
        (0, 0, IoOp::Trim, 9 * MIB, 4 << 20),
        (0, 0, IoOp::Trim, 10 * MIB + 4096, 1 << 20),
        (0, 0, IoOp::Trim, 20 * MIB, 1 << 20),
        (0, 1, IoOp::Trim, 10 * MIB, 1 << 20),
        (0, 0, IoOp::Trim, 12 * MIB + 8192, 4096),
    ]);
    let found = loaded(&trace, &LoadOptions::default()).unwrap();
    let requests = drain(found.all().as_mut(), 100);
    assert_eq!(
        shape(&requests[2..]),
        [(IoOp::Trim, 0, (1 << 20) + 8192), (IoOp::Trim, 4096, (1 << 20) - 4096)]
    );
    assert_eq!(
        (found.counts.by_op, found.counts.left_out, found.footprint_bytes),
        ([0, 2, 2, 0], 3, MIB + 8192)
    );
}

#[test]
fn a_drive_that_is_too_small_is_told_or_folded_onto() {
    let trace = file(&[
        (0, 0, IoOp::Write, 0, 512),
        (0, 0, IoOp::Write, 50 * MIB + 1024, 4096),
        (0, 0, IoOp::Read, 90 * MIB, 512),
    ]);
    let found = loaded(&trace, &LoadOptions::default()).unwrap();
    assert!(found.source(2 * MIB + 512, false).is_ok());
    let error = found.source(MIB, false).err().unwrap().to_string();
    assert!(
        error.ends_with(
            "its requests need 2097664 bytes (in extents of 1 MiB), and the drive has 1048576; \
             right would be a drive of that size, or --fold"
        ),
        "{error}"
    );
    let folded = drain(found.source(MIB + 4096, true).unwrap().as_mut(), 10);
    assert_eq!(shape(&folded)[1..], [(IoOp::Write, MIB, 4096), (IoOp::Read, MIB - 4096, 512)]);
    let tiny = drain(found.source(2048, true).unwrap().as_mut(), 10);
    assert_eq!(shape(&tiny)[1..], [(IoOp::Write, 0, 2048), (IoOp::Read, 0, 512)]);
}

#[test]
fn a_part_of_a_trace_begins_at_its_own_start() {
    let lines: Vec<Line> =
        (0..10).map(|number| (number, 0, IoOp::Write, number * 5 * MIB, 512)).collect();
    let trace = file(&lines);
    for memory_limit_bytes in [0, 1 << 20] {
        let found = loaded(
            &trace,
            &LoadOptions { start: 3, limit: 4, memory_limit_bytes, ..LoadOptions::default() },
        )
        .unwrap();
        assert_eq!(found.is_in_memory(), memory_limit_bytes > 0);
        let requests = drain(found.all().as_mut(), 3);
        assert_eq!(
            requests
                .iter()
                .map(|request| (request.time_ns / 1_000, request.offset / MIB))
                .collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 2), (3, 3)]
        );
        assert_eq!(
            (found.counts.requests(), found.footprint_bytes, found.duration_ns),
            (4, 3 * MIB + 512, 3_000)
        );
    }
}

#[test]
fn a_trace_without_reads_or_writes_cannot_be_played() {
    let trace = file(&[(0, 0, IoOp::Flush, 0, 0), (0, 0, IoOp::Trim, 0, 512)]);
    let error = loaded(&trace, &LoadOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "none of its 2 requests reads or writes; right would be a trace with reads or writes"
        ),
        "{error}"
    );
}

#[test]
fn a_file_that_changed_is_told() {
    let mut trace = file(&[(0, 0, IoOp::Write, 0, 512)]);
    let found =
        loaded(&trace, &LoadOptions { memory_limit_bytes: 0, ..LoadOptions::default() }).unwrap();
    writeln!(trace, "1 a write {} 512", 7 * MIB).unwrap();
    let mut buffer = vec![drain(found_copy(&trace).as_mut(), 5)[0]; 5];
    let error = found.all().fill(&mut buffer).unwrap_err().to_string();
    assert!(error.contains("it was changed since it was first read"), "{error}");
}

fn found_copy(trace: &NamedTempFile) -> Box<dyn RequestSource> {
    loaded(trace, &LoadOptions::default()).unwrap().all()
}

#[test]
fn repeated_requests_go_on_in_time() {
    let trace = file(&[
        (0, 0, IoOp::Write, 0, 512),
        (2, 0, IoOp::Write, 0, 512),
        (4, 0, IoOp::Read, 0, 512),
    ]);
    let found = loaded(&trace, &LoadOptions::default()).unwrap();
    let mut repeated = Repeated::new(
        found.all(),
        3,
        Repeated::period_ns(found.duration_ns, found.counts.requests()),
    );
    assert_eq!(repeated.requests(), Some(9));
    for chunk in [1, 2, 4, 9, 10] {
        let times: Vec<u64> =
            drain(&mut repeated, chunk).iter().map(|request| request.time_ns / 1_000).collect();
        assert_eq!(times, [0, 2, 4, 6, 8, 10, 12, 14, 16]);
        repeated.rewind().unwrap();
    }
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let op = prop::sample::select(IoOp::ALL.to_vec());
    prop::collection::vec((0_u64..50, 0_u8..2, op, 0..40 * MIB, 1_u32..5 << 20), 1..60)
}

proptest! {
    /// Every byte that is read or written is moved as its extent is; from the file it is the same
    /// as from memory.
    #[test]
    fn agrees_with_a_plain_list_of_extents(mut lines in lines()) {
        lines.push((50, 1, IoOp::Write, 0, 1));
        let extents = |line: &Line| {
            (line.3 / MIB..=(line.3 + u64::from(line.4) - 1) / MIB)
                .map(|extent| (line.1, extent))
                .collect::<Vec<_>>()
        };
        let is_access = |line: &&Line| matches!(line.2, IoOp::Read | IoOp::Write);
        let touched: BTreeSet<(u8, u64)> =
            lines.iter().filter(is_access).flat_map(extents).collect();
        let order: Vec<_> = touched.iter().collect();
        let place = |volume: u8, byte: u64| {
            order
                .binary_search(&&(volume, byte / MIB))
                .ok()
                .map(|number| number as u64 * MIB + byte % MIB)
        };
        let end = lines
            .iter()
            .filter(is_access)
            .map(|line| place(line.1, line.3 + u64::from(line.4) - 1).unwrap() + 1)
            .max()
            .unwrap();

        let trace = file(&lines);
        let in_memory = loaded(&trace, &LoadOptions::default()).unwrap();
        let in_file =
            loaded(&trace, &LoadOptions { memory_limit_bytes: 0, ..LoadOptions::default() })
                .unwrap();
        let requests = drain(in_memory.all().as_mut(), 1000);
        prop_assert!(in_memory.is_in_memory() && !in_file.is_in_memory());
        prop_assert_eq!(&requests, &drain(in_file.source(end, false).unwrap().as_mut(), 7));
        prop_assert_eq!(
            (in_memory.counts, in_memory.footprint_bytes),
            (in_file.counts, in_file.footprint_bytes)
        );
        prop_assert_eq!(in_memory.footprint_bytes, end);

        let mut found = requests.iter();
        for (_, volume, op, offset, length) in &lines {
            match op {
                IoOp::Flush => prop_assert_eq!(found.next().unwrap().op, IoOp::Flush),
                IoOp::Trim => {
                    // Bytes near the edges of each extent stand for all of it.
                    let last = offset + u64::from(*length) - 1;
                    let edges = (offset / MIB..=last / MIB).flat_map(|extent| {
                        [(extent * MIB).max(*offset), (extent * MIB + MIB - 1).min(last)]
                    });
                    let places: Vec<u64> = edges
                        .filter_map(|byte| place(*volume, byte))
                        .filter(|byte| *byte < end)
                        .collect();
                    if let (Some(first), Some(last)) = (places.first(), places.last()) {
                        let request = found.next().unwrap();
                        prop_assert_eq!((request.op, request.offset), (IoOp::Trim, *first));
                        prop_assert!(request.offset + u64::from(request.length) > *last);
                        prop_assert!(
                            request.length <= *length
                                && request.offset + u64::from(request.length) <= end
                        );
                    }
                }
                op => {
                    let request = found.next().unwrap();
                    let expected = (*op, place(*volume, *offset).unwrap(), *length);
                    prop_assert_eq!((request.op, request.offset, request.length), expected);
                }
            }
        }
        prop_assert!(found.next().is_none());
    }
}

/// From memory and from the file, with what is left out in between.
#[test]
fn placement_handles_and_fua_reach_the_drive() {
    let one = |number: u64, handle: u8| IoRequest {
        time_ns: number,
        op: if number == 4 { IoOp::Trim } else { IoOp::Write },
        // What the trim is of nobody reads or writes.
        offset: if number == 4 { 900 * MIB } else { number * MIB },
        length: 4096,
        stream: 0,
        latency_ns: None,
        handle,
        is_fua: number >= 5,
    };
    let requests: Vec<_> =
        (0..8).map(|number| one(number, [0, 0, 0, 3, 0, 5, 0, 127][number as usize])).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handles.parquet");
    let batch = crate::store::to_batch(&requests);
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for memory_limit_bytes in [1 << 20, 0] {
        let options = LoadOptions { memory_limit_bytes, ..LoadOptions::default() };
        let loaded = load(&path, &options, &Progress::default()).unwrap();
        assert_eq!(loaded.is_in_memory(), memory_limit_bytes > 0);
        let found = drain(loaded.all().as_mut(), 3);
        let handles: Vec<_> = found.iter().map(|request| request.handle).collect();
        assert_eq!(handles, [0, 0, 0, 3, 5, 0, 127], "in memory: {}", loaded.is_in_memory());
        let fua: Vec<_> = found.iter().map(|request| request.is_fua).collect();
        assert_eq!(fua, [false, false, false, false, true, true, true]);
    }
}
