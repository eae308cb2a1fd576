//! Every format: told by content, read right, and clear about what is malformed.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write;

use crate::common::{
    Blk, FLUSH, WRITE, blk_record, blk_sample, open_bytes, plain, read_all, samples, timed,
};
use traces::{OpenOptions, TraceError, formats};
use units::IoOp;

/// A Parquet file is read from its end, so it has to be a file.
fn needs_file(format: &str) -> bool {
    format == "parquet"
}

#[test]
fn every_format_has_a_sample() {
    let samples = samples();
    for format in formats::ALL {
        // The columns of a table have to be named: its tests do that.
        assert!(
            format.info.name == "columns"
                || samples.iter().any(|sample| sample.format == format.info.name),
            "no sample of {}",
            format.info.name
        );
    }
}

#[test]
fn names_and_aliases_are_told_apart() {
    let mut names: Vec<&str> = formats::ALL
        .iter()
        .flat_map(|f| f.info.aliases.iter().copied().chain([f.info.name]))
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn samples_are_told_by_content_and_read_right() {
    for sample in samples().into_iter().filter(|sample| !needs_file(sample.format)) {
        for batch in [1, 3, 1000] {
            let mut trace = open_bytes(sample.file, &sample.bytes, None, 0).unwrap();
            assert_eq!(trace.format().info.name, sample.format);
            assert_eq!(read_all(&mut trace, batch).unwrap(), sample.requests, "{}", sample.format);
            assert_eq!(trace.facts().skipped, 0);
        }
        let mut named = open_bytes("anything", &sample.bytes, Some(sample.format), 0).unwrap();
        assert_eq!(read_all(&mut named, 100).unwrap(), sample.requests, "{}", sample.format);
    }
}

#[test]
fn no_batch_is_larger_than_asked_for() {
    for sample in samples().into_iter().filter(|sample| !needs_file(sample.format)) {
        let mut trace = open_bytes(sample.file, &sample.bytes, None, 0).unwrap();
        let mut out = Vec::new();
        loop {
            let before = out.len();
            let count = trace.read_batch(&mut out, 2).unwrap();
            assert!(count <= 2 && out.len() == before + count);
            if count == 0 {
                break;
            }
        }
        assert_eq!(out, sample.requests);
        assert_eq!(trace.read_batch(&mut out, 2).unwrap(), 0, "the end stays the end");
    }
}

#[test]
fn compressed_samples_read_the_same() {
    for sample in samples().into_iter().filter(|sample| !needs_file(sample.format)) {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&sample.bytes).unwrap();
        let zstd = zstd::encode_all(&sample.bytes[..], 1).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&sample.bytes).unwrap();
        // Two members one after the other are one stream: half of the bytes each.
        let (first, second) = sample.bytes.split_at(sample.bytes.len() / 2);
        let mut members = Vec::new();
        for half in [first, second] {
            let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            member.write_all(half).unwrap();
            members.extend(member.finish().unwrap());
        }
        for (ending, bytes) in [
            (".gz", gzip.finish().unwrap()),
            (".zst", zstd),
            (".xz", xz.finish().unwrap()),
            (".gz", members),
        ] {
            let mut trace =
                open_bytes(&format!("{}{ending}", sample.file), &bytes, None, 0).unwrap();
            assert_eq!(
                read_all(&mut trace, 100).unwrap(),
                sample.requests,
                "{} {ending}",
                sample.format
            );
        }
    }
}

/// The error of a text of one malformed line among good ones, and the count if it may be skipped.
fn error_of(format: &str, good: &str, bad: &str) -> String {
    let text = format!("{good}\n{bad}\n{good}\n");
    let mut trace = open_bytes("some.trace", text.as_bytes(), Some(format), 0).unwrap();
    let error = read_all(&mut trace, 10).unwrap_err();
    assert!(
        matches!(error, TraceError::Malformed { place: traces::Place::Line(2), .. }),
        "{error}"
    );
    let mut skipping = open_bytes("some.trace", text.as_bytes(), Some(format), 1).unwrap();
    assert_eq!(read_all(&mut skipping, 10).unwrap().len(), 2);
    assert_eq!(skipping.facts().skipped, 1);
    error.to_string()
}

#[test]
fn malformed_lines_say_what_where_and_what_would_be_right() {
    let msr = "1,usr,0,Read,0,512,9";
    assert_eq!(
        error_of("msr", msr, "1,usr,0,reads,0,512,9"),
        "some.trace, line 2: Type is `reads`; right would be R or W, Read or Write"
    );
    assert!(error_of("msr", msr, "1,usr,0,Read,0,0,9").contains("a read of length 0"));
    assert!(error_of("msr", msr, "1,usr,0,Read,0,512").contains("6 fields instead of 7"));
    assert!(error_of("msr", msr, "1,usr,0,Read,0,512,9,8,7").contains("9 fields instead of 7"));
    assert!(
        error_of("msr", msr, "999999999999999999999,usr,0,Read,0,512,9").contains("Timestamp is")
    );
    assert!(
        error_of("msr", msr, "1,usr,0,Read,18446744073709551615,512,9").contains("beyond 2^64")
    );
    assert!(error_of("msr", msr, &"x".repeat(1 << 20)).contains("very long"));
    assert!(
        error_of("spc", "0,1,512,R,0.5", "0,1,512,X,0.5")
            .contains("Opcode is `X`; right would be R or W")
    );
    assert!(error_of("spc", "0,1,512,R,0.5", "0,1,512,R,-0.5").contains("Timestamp"));
    assert!(error_of("tencent", "1,8,8,0,1", "1,8,8,2,1").contains("IOType is `2`"));
    assert!(error_of("mqsim", "1 0 8 8 1", "1 0 8 8 2").contains("type is `2`"));
    assert!(error_of("disksim", "1.0 0 8 8 1", "1.0 0 8 8 ff").contains("flags is `ff`"));
    assert!(error_of("arc_lis", "1 1 0 0", "1 1 0").contains("3 fields instead of 4"));
    assert!(error_of("alibaba", "1,W,0,512,9", "1,W,0,512,\u{1}").contains("timestamp is `\\x01`"));
}

#[test]
fn more_bad_records_than_allowed_are_an_error_that_counts() {
    let text = "1 0 8 8 1\nx\ny\nz\n";
    let mut trace = open_bytes("t", text.as_bytes(), Some("mqsim"), 2).unwrap();
    let error = read_all(&mut trace, 10).unwrap_err().to_string();
    assert!(
        error.starts_with("t, line 4:") && error.contains("2 malformed records were skipped"),
        "{error}"
    );
}

#[test]
fn a_malformed_line_does_not_hide_the_format() {
    let text = "1,usr,0,Read,0,512,9\ngarbage\n2,usr,0,Write,0,512,9\n3,usr,0,Write,0,512,9\n";
    let mut trace = open_bytes("t", text.as_bytes(), None, 0).unwrap();
    assert_eq!(trace.format().info.name, "msr");
    assert!(matches!(
        read_all(&mut trace, 10),
        Err(TraceError::Malformed { place: traces::Place::Line(2), .. })
    ));
}

#[test]
fn a_file_of_less_than_a_record_names_its_offset() {
    for (format, size) in [("vscsi", 32), ("u32", 4)] {
        let sample = samples().into_iter().find(|sample| sample.format == format).unwrap();
        let cut = &sample.bytes[..3];
        let error = read_all(&mut open_bytes(sample.file, cut, Some(format), 0).unwrap(), 10)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("byte 0: the file ends after 3 of {size} bytes")),
            "{error}"
        );
    }
    let bytes = blk_sample(7, false);
    let error =
        read_all(&mut open_bytes("t", &bytes[..47], None, 0).unwrap(), 10).unwrap_err().to_string();
    assert!(error.contains("byte 0: the file ends after 47 of 48 bytes"), "{error}");
}

#[test]
fn a_truncated_compressed_file_is_an_error_with_its_offset() {
    let lines: String = (0..200_000).map(|i| format!("{i} 0 {} 8 0\n", i * 7919 % 65536)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(lines.as_bytes()).unwrap();
    for bytes in [
        gzip.finish().unwrap(),
        zstd::encode_all(lines.as_bytes(), 1).unwrap(),
        xz.finish().unwrap(),
    ] {
        let cut = &bytes[..bytes.len() - bytes.len() / 10];
        // Bad records may be skipped; a broken file may not.
        let mut trace = open_bytes("t", cut, Some("mqsim"), 1000).unwrap();
        let error = read_all(&mut trace, 1000).unwrap_err();
        assert!(matches!(error, TraceError::Io { offset, .. } if offset > 65536), "{error}");
    }
}

#[test]
fn unknown_content_lists_the_formats() {
    for bytes in [&b""[..], b"hello\nworld\n", b"\x00\x01\x02", b"1 2\n3 4\n"] {
        let error = open_bytes("t", bytes, None, 0).unwrap_err();
        assert!(
            matches!(
                &error,
                TraceError::UnknownFormat { known, .. } if known.contains("blktrace, blkparse")
            ),
            "{error}"
        );
    }
    let error = open_bytes("t", b"1 2 3 4\n", Some("nothing"), 0).unwrap_err().to_string();
    assert!(error.contains("unknown trace format `nothing`; known are: parquet,"), "{error}");
}

/// The first error of reading a file whose format is told by its content.
fn undetected_error(bytes: &[u8]) -> String {
    let error = match open_bytes("t", bytes, None, 0) {
        Ok(mut trace) => read_all(&mut trace, 10).unwrap_err(),
        Err(error) => error,
    };
    error.to_string()
}

#[test]
fn of_two_lines_the_broken_one_is_named() {
    let mut tried = Vec::new();
    for sample in samples() {
        let Ok(text) = std::str::from_utf8(&sample.bytes) else { continue };
        // Lines that say something by themselves, and no header.
        let alone = |line: &&str| {
            open_bytes("t", format!("{line}\n{line}\n").as_bytes(), None, 0)
                .is_ok_and(|mut trace| read_all(&mut trace, 10).is_ok_and(|found| found.len() == 2))
        };
        let Some(line) = text.lines().find(alone) else { continue };
        for (bytes, number) in
            [(format!("{line}\nbroken, here\n"), 2), (format!("broken, here\n{line}\n"), 1)]
        {
            let error = undetected_error(bytes.as_bytes());
            assert!(error.contains(&format!("line {number}")), "{}: {error}", sample.format);
        }
        tried.push(sample.format);
    }
    for format in
        ["msr", "spc", "alibaba", "tencent", "systor17", "disksim", "mqsim", "arc_lis", "blkparse"]
    {
        assert!(tried.contains(&format), "{format} was not tried: only {tried:?}");
    }
}

#[test]
fn a_whole_fit_is_better_than_half_of_one() {
    // The first line alone could be MQSim's; with the second all is DiskSim's.
    let trace = open_bytes("t", b"1 0 8 8 1\n2.5 0 8 8 1\n", None, 0).unwrap();
    assert_eq!(trace.format().info.name, "disksim");
}

#[test]
fn bytes_in_place_of_blocks_are_doubted() {
    let lines = |times: u64| -> String {
        (1..=40).map(|i| format!("{i}.5 0 {} {} 0\n", i * 8 * times, 8 * times)).collect()
    };
    let doubt = |format: Option<&str>, text: &str| {
        let mut trace = open_bytes("t", text.as_bytes(), format, 0).unwrap();
        let end = read_all(&mut trace, 1000)
            .unwrap()
            .iter()
            .map(|r| r.offset + u64::from(r.length))
            .max();
        (trace.facts().warnings.first().cloned(), end.unwrap())
    };
    assert_eq!(doubt(None, &lines(1)), (None, 41 * 4096));
    let (said, end) = doubt(None, &lines(512));
    assert_eq!(end, 41 * 4096 * 512);
    let said = said.unwrap();
    assert!(said.contains("every address and size is a multiple of 512 blocks"), "{said}");
    assert!(said.contains("--format 'disksim(unit_bytes=1)'"), "{said}");
    assert_eq!(doubt(Some("disksim(unit_bytes=1)"), &lines(512)), (None, 41 * 4096));
    let whole = lines(512).replace(".5 ", " ");
    assert!(doubt(None, &whole).0.unwrap().contains("mqsim(unit_bytes=1)"));
    assert_eq!(doubt(Some("mqsim(unit_bytes=1)"), &whole), (None, 41 * 4096));
    // Beyond what any device has.
    assert!(doubt(None, "1.5 0 4398046511104 8 0\n").0.unwrap().contains("no device is as large"));
}

#[test]
fn times_before_the_first_are_counted() {
    let mut trace = open_bytes("t", b"100 0 8 8 1\n50 0 8 8 1\n150 0 8 8 1\n", None, 0).unwrap();
    let times: Vec<u64> = read_all(&mut trace, 10).unwrap().iter().map(|r| r.time_ns).collect();
    assert_eq!(times, [0, 0, 50]);
    assert_eq!((trace.facts().clamped_times, trace.facts().start_ns), (1, Some(100)));
}

#[test]
fn parameters_change_what_is_read() {
    let read = |spec: &str, bytes: &[u8]| {
        read_all(&mut open_bytes("t", bytes, Some(spec), 0).unwrap(), 10).unwrap()
    };
    assert_eq!(
        read("arc_lis(op=read,unit_bytes=4Ki)", b"2 3 0 0\n"),
        [plain(0, IoOp::Read, 8192, 12288, 0)]
    );
    assert_eq!(read("spc(lba_bytes=1)", b"0,2,3,R,1.0\n"), [plain(0, IoOp::Read, 2, 3, 0)]);
    assert_eq!(
        read("u32(page_size=16Ki)", &[1, 0, 0, 0]),
        [plain(0, IoOp::Write, 16384, 16384, 0)]
    );
}

#[test]
fn blktrace_actions_and_streams() {
    let read = |spec: &str| {
        read_all(&mut open_bytes("t", &blk_sample(7, false), Some(spec), 0).unwrap(), 10).unwrap()
    };
    assert_eq!(read("blktrace(action=Q)"), [plain(0, IoOp::Write, 2048 * 512, 8192, 42)]);
    let completed = read("blktrace(action=C)");
    assert_eq!(
        completed.iter().map(|r| (r.time_ns, r.latency_ns)).collect::<Vec<_>>(),
        [(0, Some(500)), (1200, Some(700)), (1800, Some(300))]
    );
    assert!(read("blktrace(stream=device)").iter().all(|r| r.stream == 8 << 20));
    assert_eq!(read("blktrace(device=8:1)"), []);
    assert_eq!(read("blktrace(device=8:0)").len(), 4);
}

#[test]
fn blktrace_of_two_devices_asks_which() {
    let base = Blk {
        time_ns: 0,
        sector: 8,
        bytes: 512,
        category: WRITE,
        action: 7,
        pid: 1,
        device: 8 << 20,
        pdu: b"",
    };
    let bytes: Vec<u8> = [base, Blk { device: 8 << 20 | 1, ..base }]
        .into_iter()
        .flat_map(|r| blk_record(8, true, r))
        .collect();
    let error =
        read_all(&mut open_bytes("t", &bytes, None, 0).unwrap(), 10).unwrap_err().to_string();
    assert!(error.contains("device 8:1 in a trace of device 8:0"), "{error}");
    let mut both = open_bytes("t", &bytes, Some("blktrace(stream=device)"), 0).unwrap();
    assert_eq!(read_all(&mut both, 10).unwrap().len(), 2);
    assert!(both.facts().streams_are_volumes);
}

#[test]
fn blktrace_special_cases() {
    let base = Blk {
        time_ns: 10,
        sector: 8,
        bytes: 512,
        category: WRITE,
        action: 7,
        pid: 1,
        device: 8 << 20,
        pdu: b"",
    };
    let read = |records: &[Blk], spec: &str| {
        let bytes: Vec<u8> = records.iter().flat_map(|r| blk_record(8, false, *r)).collect();
        read_all(&mut open_bytes("t", &bytes, Some(spec), 0).unwrap(), 10)
    };
    // Requeued: the device did not take it, it counts at the second issue.
    let requeued = [
        base,
        Blk { time_ns: 20, action: 6, category: WRITE | 1 << 5, ..base },
        Blk { time_ns: 30, ..base },
        Blk { time_ns: 35, action: 8, ..base },
    ];
    assert_eq!(read(&requeued, "blktrace").unwrap(), [timed(0, IoOp::Write, 4096, 512, 1, 5)]);
    // The empty write that carried a flush is answered with 0 bytes: no request, and no answer to
    // another one.
    let at_0 = Blk { sector: 0, ..base };
    let emptied = [
        at_0,
        Blk { time_ns: 20, action: 8, bytes: 0, ..at_0 },
        Blk { time_ns: 25, action: 8, ..at_0 },
    ];
    assert_eq!(read(&emptied, "blktrace").unwrap(), [timed(0, IoOp::Write, 0, 512, 1, 15)]);
    assert_eq!(
        read(&emptied, "blktrace(action=C)").unwrap(),
        [timed(0, IoOp::Write, 0, 512, 1, 15)]
    );
    // Completed in parts: no latency.
    let parts = [Blk { bytes: 1024, ..base }, Blk { time_ns: 20, action: 8, ..base }];
    assert_eq!(read(&parts, "blktrace").unwrap(), [plain(0, IoOp::Write, 4096, 1024, 1)]);
    // A write with a flush before it is both, where it is queued.
    let both = [Blk { action: 1, category: WRITE | FLUSH, ..base }];
    let expected = [plain(0, IoOp::Flush, 0, 0, 1), plain(0, IoOp::Write, 4096, 512, 1)];
    assert_eq!(read(&both, "blktrace(action=Q)").unwrap(), expected);
    // FUA is kept of writes.
    let forced = [Blk { category: WRITE | 1 << 15, ..base }, Blk { category: 1 << 15, ..base }];
    let fua: Vec<_> = read(&forced, "blktrace").unwrap().iter().map(|r| r.is_fua).collect();
    assert_eq!(fua, [true, false]);
    // Of a partition: offsets count from its begin; a flush has none.
    let flush = Blk { time_ns: 15, sector: 0, bytes: 0, category: WRITE | FLUSH, ..base };
    let in_partition = [plain(0, IoOp::Write, 512, 512, 1), plain(5, IoOp::Flush, 0, 0, 1)];
    assert_eq!(read(&[base, flush], "blktrace(start=3584)").unwrap(), in_partition);
    let error = read(&[base], "blktrace(start=4608)").unwrap_err().to_string();
    assert!(error.contains("sector 8 lies before byte 4608"), "{error}");
    // Zones.
    let reset = [Blk { category: WRITE | 1 << 17, bytes: 0, ..base }];
    assert_eq!(read(&reset, "blktrace").unwrap(), []);
    let open = [Blk { category: WRITE | 1 << 20, bytes: 0, ..base }];
    assert_eq!(read(&open, "blktrace").unwrap(), []);
    let empty = [Blk { bytes: 0, ..base }];
    assert!(read(&empty, "blktrace").unwrap_err().to_string().contains("a write of length 0"));
}

#[test]
fn blktrace_finds_the_next_record_after_garbage() {
    let mut bytes = blk_sample(7, false);
    let at = 48 + 48;
    for (i, garbage) in b"no record here \x07".iter().enumerate() {
        bytes.insert(at + i, *garbage);
    }
    let error =
        read_all(&mut open_bytes("t", &bytes, None, 0).unwrap(), 10).unwrap_err().to_string();
    assert!(error.contains("byte 96: no record starts with `no r`"), "{error}");
    let mut trace = open_bytes("t", &bytes, None, 1).unwrap();
    assert_eq!(read_all(&mut trace, 10).unwrap(), crate::common::blk_requests());
    assert_eq!(trace.facts().skipped, 1);
}

#[test]
fn files_of_all_cpus_are_merged_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let base = Blk {
        time_ns: 0,
        sector: 0,
        bytes: 512,
        category: WRITE,
        action: 7,
        pid: 1,
        device: 8 << 20,
        pdu: b"",
    };
    for cpu in 0..3u64 {
        let records = (0..50).map(|i| Blk { time_ns: 10 * i + cpu, sector: 3 * i + cpu, ..base });
        let bytes: Vec<u8> = records.flat_map(|r| blk_record(7, false, r)).collect();
        let path = dir.path().join(format!("sda.blktrace.{cpu}"));
        if cpu == 2 {
            let mut out = flate2::write::GzEncoder::new(
                std::fs::File::create(path.with_extension("2.gz")).unwrap(),
                flate2::Compression::fast(),
            );
            out.write_all(&bytes).unwrap();
            out.finish().unwrap();
        } else {
            std::fs::write(path, bytes).unwrap();
        }
    }
    std::fs::write(dir.path().join("sda.blktrace.3"), b"").unwrap();
    std::fs::write(dir.path().join("sdb.blktrace.0"), b"not read").unwrap();
    let mut trace =
        traces::open(&dir.path().join("sda.blktrace.1"), &OpenOptions::default()).unwrap();
    let requests = read_all(&mut trace, 64).unwrap();
    let sectors: Vec<u64> = requests.iter().map(|r| r.offset / 512).collect();
    assert_eq!(sectors, (0..150).collect::<Vec<u64>>());
    assert_eq!(trace.sources().unwrap().len(), 4);
}

/// The counts that `blkparse` 1.3 gives for this trace: of its D lines, 99 R + 34 RA, 101 WS, 1 DS,
/// 20 FN.
#[test]
fn a_real_trace_counts_as_blkparse_does() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/fio_discard.blktrace.bin.gz");
    let mut trace = traces::open(&path, &OpenOptions::default()).unwrap();
    let requests = read_all(&mut trace, 1000).unwrap();
    let count = |op| requests.iter().filter(|r| r.op == op).count();
    assert_eq!(IoOp::ALL.map(count), [133, 101, 1, 20]);
    let written: u64 = requests
        .iter()
        .filter(|r| matches!(r.op, IoOp::Write | IoOp::Trim))
        .map(|r| u64::from(r.length))
        .sum();
    assert_eq!(written / 1024, 1428);
    let answered = requests.iter().filter(|r| r.latency_ns.is_some()).count();
    assert!(answered * 10 >= requests.len() * 9, "{answered} of {} have a latency", requests.len());
}

/// `blk_fill_rwbs` of Linux puts the F of FUA behind the operation, that of a flush before it.
#[test]
fn blkparse_tells_fua_from_a_flush_before_the_data() {
    let lines = ["W", "WS", "WFS", "FWFS", "FWS", "RF"].map(|rwbs| {
        format!("  8,0    0        1     0.000000000   697  D {rwbs} 223490 + 8 [kjournald]\n")
    });
    let mut trace = open_bytes("t", lines.concat().as_bytes(), Some("blkparse"), 0).unwrap();
    let found = read_all(&mut trace, 10).unwrap();
    let told: Vec<_> = found.iter().map(|r| (r.op.name(), r.is_fua)).collect();
    let write = |is_fua: bool| ("write", is_fua);
    let flush = ("flush", false);
    let expected =
        [write(false), write(false), write(true), flush, write(true), flush, write(false)];
    assert_eq!(told[..7], expected);
    assert_eq!(told[7..], [("read", false)]);
}
