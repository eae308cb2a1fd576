//! Inputs as people have them: not whole, packed, from other tools and of other habits.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write;
use std::path::Path;

use crate::common::{Blk, WRITE, blk_record, open_bytes, plain, read_all, timed};
use traces::{Facts, OpenOptions, Trace, convert, open};
use units::{IoOp, IoRequest, Progress};

/// Requests and facts of a text.
fn text(name: &str, text: &str, format: Option<&str>) -> (Vec<IoRequest>, Facts) {
    whole(open_bytes(name, text.as_bytes(), format, 0).unwrap())
}

fn whole(mut trace: Trace) -> (Vec<IoRequest>, Facts) {
    let requests = read_all(&mut trace, 7).unwrap();
    (requests, trace.facts())
}

fn of_path(path: &Path) -> (Vec<IoRequest>, Facts) {
    whole(open(path, &OpenOptions::default()).unwrap())
}

fn refused(name: &str, text: &str, format: Option<&str>) -> String {
    match open_bytes(name, text.as_bytes(), format, 0) {
        Ok(mut trace) => read_all(&mut trace, 10).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

fn said(facts: &Facts, words: &str) -> bool {
    facts.warnings.iter().any(|warning| warning.contains(words))
}

const EVENTS: &str = "\
 259,0    0        1    0.000000000   900  D   W 0 + 8 [mysqld]
 259,0    0        2    0.000050000     0  C   W 0 + 8 [0]
 259,0    0      503    4.100000000   900  D   W 8 + 8 [mysqld]
 259,0    1        1    0.000010000   901  D   W 64 + 8 [mysqld]
 259,0    1     9002    9.000000000   901  D   W 72 + 8 [mysqld]
";

#[test]
fn events_that_are_missing_in_a_text_of_blkparse_are_counted() {
    let (requests, facts) = text("t", EVENTS, None);
    assert_eq!((requests.len(), facts.lost_events), (4, 500 + 9000));
    assert!(said(
        &facts,
        "about 9500 events are missing (gaps in the numbers of its CPUs), unless it was"
    ));
    // The summary counted them before anything was filtered.
    for (line, lost) in [
        ("Skips: 2 forward (9,500 - 99.9%)", 9500),
        ("Skips: 2 forward (9.500 -  99,9%)", 9500),
        ("Skips: 0 forward (0 -   0.0%)", 0),
        ("You have 77 (1.3%) dropped events", 77),
        ("  Total:                17 events (dropped 3),        1 KiB data", 3),
    ] {
        let (_, facts) = text("t", &format!("{EVENTS}CPU0 (259,0):\n{line}\n"), None);
        assert_eq!(facts.lost_events, lost, "{line}");
        assert_eq!(facts.warnings.is_empty(), lost == 0, "{line}");
    }
}

#[test]
fn the_whole_summary_of_blkparse_is_passed_over() {
    let one = "  8,0    0        1     0.000000000   697  D   W 8 + 8 [x]\n";
    let summary = "postgres (4711)\n Reads Queued:  0,  0KiB\t Writes Queued:  1,  4KiB\n\
                   wal writer (4712)\n IO unplugs:   0\t Timer unplugs:   0\n\n\
                   CPU0 (8,16):\n Reads Queued: 0\nTotal (8,16):\n\n\
                   Throughput (R/W): 0KiB/s / 10,909KiB/s\nEvents (8,16): 9 entries\n";
    let (requests, facts) = text("t", &format!("{one}{summary}"), None);
    assert_eq!((requests.len(), facts.skipped), (1, 0));
    // A second recording in the same text.
    let (requests, _) = text("t", &format!("{one}{summary}{one}"), None);
    assert_eq!(requests.len(), 2);
    // Only completions: that no request comes of it is said, with what would bring some.
    let (requests, facts) = text("t", &one.replace(" D ", " C "), None);
    assert_eq!(requests.len(), 0);
    assert!(said(&facts, "blkparse(action=C)"), "{:?}", facts.warnings);
}

#[test]
fn what_is_no_request_of_a_text_of_blkparse_is_counted_by_reason() {
    let line =
        |rwbs: &str, place: &str| format!("  8,0  0  0  0.000000000  1  D {rwbs} {place} [x]\n");
    let lines = [
        line("WZ", "0 + 2048"),
        line("ZR", "0 + 0"),
        line("ZO", "0 + 0"),
        line("N", "0 (12 00 ..)"),
        line("W", "0 + 8"),
    ];
    let (requests, facts) = text("t", &lines.concat(), None);
    let ops: Vec<IoOp> = requests.iter().map(|request| request.op).collect();
    assert_eq!(ops, [IoOp::Trim, IoOp::Write]);
    let counted: Vec<(&str, u64)> = facts.left_out.iter().map(|(r, n)| (&**r, *n)).collect();
    assert_eq!(counted.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 1, 1, 1]);
    for words in ["passthrough", "write-zeroes", "zone resets", "zones opened"] {
        assert!(counted.iter().any(|(reason, _)| reason.contains(words)), "{words}: {counted:?}");
    }
}

fn record(version: u8, number: u32, record: Blk) -> Vec<u8> {
    let mut bytes = blk_record(version, false, record);
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

const BASE: Blk = Blk {
    time_ns: 10,
    sector: 8,
    bytes: 4096,
    category: WRITE,
    action: 7,
    pid: 1,
    device: 8 << 20,
    pdu: b"",
};

#[test]
fn a_missing_cpu_lost_events_and_a_cut_record_are_said_and_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = |cpu: u32| dir.path().join(format!("my.blktrace.{cpu}"));
    let mut second = [1, 2, 503].map(|number| record(7, number, BASE)).concat();
    second.truncate(second.len() - 20);
    second.extend_from_slice(&record(7, 504, BASE)[..0]);
    std::fs::write(file(0), [record(7, 1, BASE), record(7, 7, BASE)].concat()).unwrap();
    std::fs::write(file(2), &second).unwrap();
    let (requests, facts) = of_path(&file(0));
    assert_eq!((requests.len(), facts.skipped, facts.lost_events), (4, 0, 5));
    assert!(said(&facts, "no file of CPU 1"), "{:?}", facts.warnings);
    assert!(said(&facts, "about 5 events are missing"), "{:?}", facts.warnings);
    assert!(said(&facts, "its end is missing"), "{:?}", facts.warnings);
    assert_eq!(facts.left_out["record cut off at the end of the file"], 1);
    // What was known of the trace is known of the Parquet that is made of it.
    let kept = dir.path().join("kept.parquet");
    convert(&file(0), &OpenOptions::default(), &kept, None, &Progress::default()).unwrap();
    let (again, of_kept) = of_path(&kept);
    assert_eq!(again.len(), 4);
    assert_eq!(
        (of_kept.lost_events, of_kept.warnings, of_kept.left_out),
        (facts.lost_events, facts.warnings, facts.left_out)
    );
}

#[test]
fn numbers_that_start_again_or_come_late_are_no_loss() {
    let numbers = |numbers: &[u32]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| record(7, *number, BASE)).collect();
        whole(open_bytes("t", &bytes, None, 0).unwrap()).1.lost_events
    };
    assert_eq!(numbers(&[1, 2, 3, 1, 2]), 0);
    assert_eq!(numbers(&[1, 3, 2, 4]), 0);
    assert_eq!(numbers(&[0, 0, 5, 0, 6]), 0);
    assert_eq!(numbers(&[5, 6, 9]), 2);
    assert_eq!(numbers(&[4000, 4001, 1, 2]), 0);
}

#[test]
fn cut_ends_of_other_formats_are_counted() {
    let (requests, facts) = text("t", "1 0 8 8 1\n2 0 8 8 1\n3 0 8", Some("mqsim"));
    assert_eq!((requests.len(), facts.skipped), (2, 0));
    assert!(said(&facts, "its end is missing"));
    let mut list = [7u32, 8].iter().flat_map(|page| page.to_le_bytes()).collect::<Vec<u8>>();
    list.pop();
    let (requests, facts) = whole(open_bytes("t.u32", &list, None, 0).unwrap());
    assert_eq!(requests.len(), 1);
    assert!(said(&facts, "its end is missing"));
    // Within the file it is malformed, and so is a file that has nothing else.
    assert!(refused("t", "1 0 8 8 1\n3 0 8\n", Some("mqsim")).contains("line 2"));
    assert!(refused("t", "3 0 8", Some("mqsim")).contains("line 1"));
}

#[test]
fn zeroes_of_version_2_are_trims_and_appends_lie_where_they_landed() {
    let zeroes = Blk { bytes: 1 << 30, category: WRITE | 1 << 22, ..BASE };
    let zeroed =
        [record(8, 1, zeroes), record(8, 2, Blk { time_ns: 60, action: 8, ..zeroes })].concat();
    let (requests, facts) = whole(open_bytes("t", &zeroed, None, 0).unwrap());
    assert_eq!(requests, [timed(0, IoOp::Trim, 4096, 1 << 30, 1, 50)]);
    assert!(said(&facts, "1073741824 bytes were zeroed without sending them"));
    let append = Blk { sector: 0, category: WRITE | 1 << 16, ..BASE };
    let done = |time_ns: u64, sector: u64| Blk { time_ns, sector, action: 8, ..append };
    let other_zone = Blk { sector: 1024, ..append };
    let appended = [append, append, other_zone, append, done(20, 8), done(30, 0), done(40, 1032)];
    let bytes: Vec<u8> = appended.iter().flat_map(|one| record(8, 0, *one)).collect();
    let (requests, facts) = whole(open_bytes("t", &bytes, None, 0).unwrap());
    let places: Vec<u64> = requests.iter().map(|request| request.offset).collect();
    // Completions that cannot be told apart go to the first that waits; the last never came.
    assert_eq!(places, [4096, 0, 1032 * 512, 0]);
    assert_eq!(facts.left_out.values().sum::<u64>(), 1, "{:?}", facts.left_out);
}

const MSR: &str = "128166372003061629,srv,0,Write,0,4096,41286\n";

#[test]
fn headers_quotes_case_blanks_and_marks_are_read() {
    let expected = [timed(0, IoOp::Write, 0, 4096, 0, 4_128_600)];
    for variant in [
        format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}"),
        format!(
            "timestamp, host name, \"Disk_Number\", type, offset, size, response_time\r\n{MSR}"
        ),
        format!("\u{feff}{MSR}"),
        format!("\u{feff}\n\n{MSR}\n"),
        MSR.replace("srv", "\"srv\"").replace("Write", "\"Write\""),
        MSR.replace("srv", "\"srv, the first\""),
        MSR.replace("Write", "write"),
        MSR.replace("Write", "WRITE").replace(',', " , "),
        MSR.replace("Write", "W").replace('\n', ",\r\n"),
        MSR.replace(",4096,", ",4096.0,"),
    ] {
        let (requests, facts) = text("t.csv", &variant, None);
        assert_eq!((&requests[..], facts.skipped), (&expected[..], 0), "{variant}");
    }
    let wide: Vec<u8> =
        "\u{feff}".encode_utf16().chain(MSR.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let (requests, _) = whole(open_bytes("t.csv", &wide, None, 0).unwrap());
    assert_eq!(requests, expected);
    for (format, header, line) in [
        ("alibaba", "device_id, opcode, offset, length, timestamp", "0,R,0,4096,15"),
        ("tencent", "timestamp,offset,size,iotype,volumeid", "1538323200,8,8,1,1063"),
        ("systor17", "timestamp,response,iotype,lun,offset,size", "1455592251.1,0.1,R,4,0,4096"),
        ("spc", "asu,lba,size,opcode,timestamp", "0,1,512,R,0.5"),
    ] {
        let mut trace = open_bytes("t", format!("{header}\n{line}\n").as_bytes(), None, 0).unwrap();
        assert_eq!(trace.format().info.name, format);
        assert_eq!(read_all(&mut trace, 10).unwrap().len(), 1, "{format}");
    }
    // The same columns in another order are other columns.
    let swapped = "Timestamp,Hostname,DiskNumber,Type,Size,Offset,ResponseTime\n".to_owned() + MSR;
    assert!(refused("t", &swapped, None).contains("line 1"), "{}", refused("t", &swapped, None));
}

#[test]
fn requests_without_a_response_are_counted() {
    let lines = "1455592251.1,0.1,R,4,0,4096\n1455592251.2,,,4,0,4096\n";
    let (requests, facts) = text("t", lines, None);
    assert_eq!((requests.len(), facts.skipped), (1, 0));
    assert_eq!(facts.left_out["requests without a response (IOType is blank)"], 1);
}

#[test]
fn skipped_records_are_counted_by_what_would_be_right() {
    let mut trace =
        open_bytes("t", b"1 0 8 8 1\nx\n1 0 8 8 2\n1 0 8 8 1\n", Some("mqsim"), 2).unwrap();
    read_all(&mut trace, 10).unwrap();
    let facts = trace.facts();
    assert_eq!((facts.skipped, facts.left_out.len()), (2, 2), "{:?}", facts.left_out);
    assert_eq!(facts.left_out["malformed, right would be 0 (write) or 1 (read)"], 1);
}

#[test]
fn what_is_no_trace_is_named() {
    for (content, words) in [
        ("0,10737418240\n1,21474836480\n", "Alibaba's device_size.csv"),
        ("device_id,capacity\n0,10737418240\n", "Alibaba's device_size.csv"),
        ("TIME(ms)     DISK    COMM   PID    LAT(ms)\n611 nvme0n1 bash 4179  10\n", "bpftrace"),
        ("Attached 4 probes\nTIME(ms)  DISK ID  COMM  PID  LAT(ms)\n611 259 0 a 1 1\n", "bpftrace"),
        ("<!DOCTYPE html><html></html>", "a web page"),
        ("{\n  \"fio version\" : \"fio-3.33\"\n}", "fio's results"),
        ("PERFILE2........", "perf script"),
        ("when,who,what,lba,size\n1,a,put,8,8\n", "columns(time=...,unit=us,op=...,offset=lba"),
    ] {
        let error = refused("t", content, None);
        assert!(error.contains(words), "{content}: {error}");
    }
    let log = |name: &str, content: &str| refused(name, content, None);
    let lines = "1, 100, 1, 4096\n2, 100, 1, 4096\n3, 100, 0, 4096\n";
    assert!(log("x_lat.1.log", lines).contains("log_offset=1"), "{}", log("x_lat.1.log", lines));
    let with_priority = lines.replace("4096", "4096, 0");
    assert!(log("x.log", &with_priority).contains("log_offset=1"));
    assert!(log("x_bw.1.log", "1000, 9, 1, 0\n").contains("log_avg_msec"));
}

#[test]
fn lost_events_of_ftrace_and_perf_are_counted() {
    let event = " fio-12 [001] .... 5.100000: block_rq_issue: 8,0 W 4096 () 8 + 8 [fio]\n";
    for (line, lost) in [
        ("CPU:2 [LOST 500 EVENTS]", 500),
        ("CPU:2 [12 EVENTS DROPPED]", 12),
        ("LOST 7 events!", 7),
        ("# entries-in-buffer/entries-written: 140080/250280   #P:4", 250_280 - 140_080),
    ] {
        let (requests, facts) = text("t", &format!("{line}\n{event}{event}"), None);
        assert_eq!((requests.len(), facts.lost_events), (2, lost), "{line}");
    }
    let (_, facts) = text("t", &format!("{event}CPU:2 [LOST EVENTS]\n{event}"), None);
    assert!(said(&facts, "not how many"));
}

#[test]
fn a_log_of_fio_gives_latencies_by_its_name() {
    let lines = "5, 2000000, 1, 4096, 8192, 0\n6, 3000000, 0, 4096, 0, 0, 4000000\n\
                 7, 1000, 0, 512, 512, 0\n";
    let (requests, _) = text("x_clat.1.log", lines, None);
    assert_eq!(
        requests,
        [
            timed(0, IoOp::Write, 8192, 4096, 0, 2_000_000),
            timed(0, IoOp::Read, 0, 4096, 0, 3_000_000),
            timed(3_999_000, IoOp::Read, 512, 512, 0, 1000),
        ]
    );
    let (requests, _) = text("x_bw.1.log", lines, None);
    assert_eq!(requests[0], plain(0, IoOp::Write, 8192, 4096, 0));
}

#[test]
fn a_table_is_read_by_the_names_or_numbers_of_its_columns() {
    let by_name = "columns(time=when,unit=us,op=Kind,offset=lba,length=size,sector=512)";
    let expected = [plain(0, IoOp::Write, 4096, 4096, 0), plain(2500, IoOp::Read, 0, 512, 0)];
    for content in [
        "When,Kind,LBA,Size\n10,W,8,8\n12.5,read,0,1\n",
        "when;kind;lba;size\n10;\"write\";8;8\n12.5;R;0;1\n",
        "# made by hand\nwhen\tkind\tlba\tsize\n10\tW\t8\t8\n12.5\tR\t0\t1\n",
        "when kind lba size\n 10 W  8 8\n12.5 R 0 1\n",
    ] {
        assert_eq!(text("t", content, Some(by_name)).0, expected, "{content}");
    }
    let by_number = "columns(time=1,unit=date,op=3,write=1,read=0,offset=4,length=5,\
                     length_unit=512,stream=2,streams_are=volumes)";
    let (requests, facts) = text(
        "t",
        "2026-11-27 10:00:00.5,sda,1,4096,8\n2026-11-27T10:00:01Z,sdb,0,0,1\n",
        Some(by_number),
    );
    assert_eq!(
        requests,
        [plain(0, IoOp::Write, 4096, 4096, 0), plain(500_000_000, IoOp::Read, 0, 512, 1)]
    );
    assert!(facts.streams_are_volumes && !facts.timeless);
    let (requests, facts) =
        text("t", "a,b\n0,512\n", Some("columns(op=all_writes,offset=a,length=b)"));
    assert_eq!((requests, facts.timeless), (vec![plain(0, IoOp::Write, 0, 512, 0)], true));
}

#[test]
fn a_table_whose_columns_are_not_named_right_says_how() {
    let content = "when,kind,lba,size\n10,W,8,8\n";
    for (spec, words) in [
        ("columns", "op= is not the column of the operation"),
        ("columns(op=kind)", "offset= is not the column of the first byte or sector"),
        ("columns(op=kind,offset=block,length=size)", "one of its columns: when, kind, lba, size"),
        ("columns(op=9,offset=3,length=4)", "from 1 to 4: when, kind"),
        ("columns(time=when,op=kind,offset=lba,length=size)", "unit=unknown is not the unit of"),
        ("columns(time=kind,unit=s,op=kind,offset=lba,length=size)", "line 2: time is `W`"),
        ("columns(op=lba,offset=lba,length=size)", "say read=... and write=..."),
    ] {
        let error = refused("t", content, Some(spec));
        assert!(error.contains(words), "{spec}: {error}");
    }
    let error = refused("t", "10,W,8,8\n", Some("columns(op=kind,offset=3,length=4)"));
    assert!(error.contains("its first line names no columns"), "{error}");
}

/// One file of a tar archive, and what comes behind all of them.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        header[257..262].copy_from_slice(b"ustar");
        out.extend(header);
        out.extend(*content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

/// A zip archive of deflated files, whose sizes stand before or behind their bytes.
pub fn zip(files: &[(&str, &[u8])], sizes_behind: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        let mut packed =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(content).unwrap();
        let packed = packed.finish().unwrap();
        let sizes = [packed.len() as u32, content.len() as u32];
        out.extend(b"PK\x03\x04");
        let flags = if sizes_behind { 8u16 } else { 0 };
        for field in [20, flags, 8, 0, 0] {
            out.extend(field.to_le_bytes());
        }
        out.extend([0; 4]);
        for size in sizes {
            out.extend(if sizes_behind { 0 } else { size }.to_le_bytes());
        }
        out.extend((name.len() as u16).to_le_bytes());
        out.extend([0; 2]);
        out.extend(name.as_bytes());
        out.extend(packed);
        if sizes_behind {
            out.extend(b"PK\x07\x08\0\0\0\0");
            out.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        }
    }
    out.extend(b"PK\x01\x02");
    out
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(content).unwrap();
    out.finish().unwrap()
}

fn bzip2(content: &[u8]) -> Vec<u8> {
    let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    out.write_all(content).unwrap();
    out.finish().unwrap()
}

#[test]
fn archives_within_archives_are_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let line = MSR.as_bytes();
    let zstd = zstd::encode_all(line, 1).unwrap();
    let readme: (&str, &[u8]) = ("README.txt", b"about");
    for (name, content) in [
        ("a.csv.gz.gz", gzip(&gzip(line))),
        ("a.csv.bz2", bzip2(line)),
        ("a.tar", tar(&[readme, ("in/a.csv", line)])),
        ("a.tar.gz", gzip(&tar(&[readme, ("in/a.csv.zst", &zstd)]))),
        ("a.zip", zip(&[readme, ("in/", b""), ("a.csv", line)], false)),
        ("b.zip", zip(&[readme, ("a.tar.gz", &gzip(&tar(&[("a.csv", line)])))], true)),
        ("c.zip", zip(&[("a.csv", line), readme], true)),
        ("c.tar.xz", {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 0);
            out.write_all(&tar(&[("a.zip", &zip(&[("a.csv", line)], false))])).unwrap();
            out.finish().unwrap()
        }),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let mut trace = open(&path, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(trace.format().info.name, "msr", "{name}");
        assert_eq!(read_all(&mut trace, 10).unwrap().len(), 1, "{name}");
        assert_eq!(trace.sources().unwrap()[0].name, name);
    }
    let several = dir.path().join("several.zip");
    let inner = tar(&[("b.csv", line), ("c.csv", &[line, line].concat())]);
    std::fs::write(&several, zip(&[("a.csv", line), ("inner.tar", &inner)], true)).unwrap();
    let error = open(&several, &OpenOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("it holds 2 files: a.csv, inner.tar; right would be the path"),
        "{error}"
    );
    assert_eq!(of_path(&several.join("a.csv")).0.len(), 1);
    assert_eq!(of_path(&several.join("inner.tar/c.csv")).0.len(), 2);
    for missing in ["x.csv", "inner.tar/x.csv", "a.csv/x"] {
        let error = open(&several.join(missing), &OpenOptions::default()).unwrap_err();
        assert!(!error.to_string().is_empty(), "{missing}");
    }
}

#[test]
fn the_cpus_of_a_recording_in_an_archive_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my.tar.gz");
    let (first, second) = (record(7, 1, BASE), record(7, 1, Blk { time_ns: 5, ..BASE }));
    let files: [(&str, &[u8]); 2] = [("my/my.blktrace.0", &first), ("my/my.blktrace.2", &second)];
    std::fs::write(&path, gzip(&tar(&files))).unwrap();
    let (requests, facts) = of_path(&path);
    assert_eq!(requests.iter().map(|request| request.time_ns).collect::<Vec<_>>(), [0, 5]);
    assert!(said(&facts, "no file of CPU 1"), "{:?}", facts.warnings);
}
