//! A small sample of every format, with what it says.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use registry::Spec;
use traces::{Input, OpenOptions, Trace, TraceError, open_input};
use units::{IoOp, IoRequest};

/// One format's sample.
pub struct Sample {
    /// Name of the format.
    pub format: &'static str,
    /// Name under which the sample is opened, for formats that content alone does not tell.
    pub file: &'static str,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Its requests.
    pub requests: Vec<IoRequest>,
}

/// A request with a latency.
pub fn timed(
    time_ns: u64,
    op: IoOp,
    offset: u64,
    length: u32,
    stream: u32,
    latency_ns: u64,
) -> IoRequest {
    IoRequest {
        time_ns,
        op,
        offset,
        length,
        stream,
        latency_ns: Some(latency_ns),
        handle: 0,
        is_fua: false,
    }
}

/// A request without a latency.
pub fn plain(time_ns: u64, op: IoOp, offset: u64, length: u32, stream: u32) -> IoRequest {
    IoRequest { time_ns, op, offset, length, stream, latency_ns: None, handle: 0, is_fua: false }
}

/// Opens bytes in memory.
pub fn open_bytes(
    file: &str,
    bytes: &[u8],
    format: Option<&str>,
    skip_bad: u64,
) -> Result<Trace, TraceError> {
    let input = Input::from_reader(file, std::io::Cursor::new(bytes.to_vec()))?;
    open_input(
        input,
        &OpenOptions { format: format.map(|text| Spec::parse(text).unwrap()), skip_bad },
    )
}

/// All requests, read in batches of `batch`.
pub fn read_all(trace: &mut Trace, batch: usize) -> Result<Vec<IoRequest>, TraceError> {
    let mut all = Vec::new();
    while trace.read_batch(&mut all, batch)? > 0 {}
    Ok(all)
}

/// Content of a record of blktrace.
#[derive(Clone, Copy)]
pub struct Blk {
    pub time_ns: u64,
    pub sector: u64,
    pub bytes: u32,
    pub category: u64,
    pub action: u64,
    pub pid: u32,
    pub device: u32,
    pub pdu: &'static [u8],
}

pub const READ: u64 = 1;
pub const WRITE: u64 = 2;
pub const FLUSH: u64 = 4;
pub const DISCARD: u64 = 1 << 13;

/// A record as the kernel lays it out (linux/blktrace_api.h).
pub fn blk_record(version: u8, big_endian: bool, record: Blk) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |value: u64, bytes: usize| {
        let le = &value.to_le_bytes()[..bytes];
        if big_endian { out.extend(le.iter().rev()) } else { out.extend(le) }
    };
    put(0x6561_7400 | u64::from(version), 4);
    put(1, 4);
    put(record.time_ns, 8);
    put(record.sector, 8);
    put(u64::from(record.bytes), 4);
    let action = record.action | record.category << 16;
    if version == 8 {
        put(u64::from(record.pid), 4);
        put(action, 8);
    } else {
        put(action, 4);
        put(u64::from(record.pid), 4);
    }
    put(u64::from(record.device), 4);
    put(0, 4);
    put(0, 2);
    put(record.pdu.len() as u64, 2);
    if version == 8 {
        out.extend([0; 12]);
    }
    out.extend(record.pdu);
    out
}

/// A write (issued, then completed), a flush, a discard, a read that is never completed, a message
/// between them.
pub fn blk_sample(version: u8, big_endian: bool) -> Vec<u8> {
    let base = Blk {
        time_ns: 1000,
        sector: 2048,
        bytes: 8192,
        category: WRITE,
        action: 7,
        pid: 42,
        device: 8 << 20,
        pdu: b"",
    };
    let records = [
        Blk { time_ns: 900, action: 1, ..base },
        base,
        Blk { time_ns: 1100, category: 1 << 10, action: 2, bytes: 0, pdu: b"a message", ..base },
        Blk { time_ns: 1500, action: 8, pid: 0, ..base },
        Blk { time_ns: 2000, sector: 0, bytes: 0, category: FLUSH, ..base },
        Blk { time_ns: 2700, sector: 0, bytes: 0, category: FLUSH, action: 8, ..base },
        Blk { time_ns: 3000, sector: 4096, bytes: 1 << 20, category: DISCARD | WRITE, ..base },
        Blk {
            time_ns: 3200,
            sector: 8,
            bytes: 512,
            category: READ,
            action: 7 | 1 << 8,
            pid: 7,
            pdu: b"12345678",
            ..base
        },
        Blk {
            time_ns: 3300,
            sector: 4096,
            bytes: 1 << 20,
            category: DISCARD | WRITE,
            action: 8,
            ..base
        },
    ];
    records.into_iter().flat_map(|record| blk_record(version, big_endian, record)).collect()
}

/// Gives the requests of [`blk_sample`].
pub fn blk_requests() -> Vec<IoRequest> {
    vec![
        timed(0, IoOp::Write, 2048 * 512, 8192, 42, 500),
        timed(1000, IoOp::Flush, 0, 0, 42, 700),
        timed(2000, IoOp::Trim, 4096 * 512, 1 << 20, 42, 300),
        plain(2200, IoOp::Read, 8 * 512, 512, 7),
    ]
}

const BLKPARSE: &str = "\
Input file sda.blktrace.0 added
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        0     0.000002000     0  m   N cfq697 insert_request
  8,0    3        3     0.000010000   697  D   W 223490 + 8 [kjournald]
  8,0    1        4     0.000020000    12  D  RA 16 + 32 [cat]
  8,0    1        5     0.000025000    12  U   N [cat] 1
  8,0    3        6     0.000030000     0  C   W 223490 + 8 [0]
  8,0    3        7     0.000031000    58  D  FN [kworker/0:1H]
  8,0    3        8     0.000041000     0  C  FN 0 [0]
  8,0    3        9     0.000050000    58  D  DS 2048 + 2048 [fstrim]
  8,0    3       10     0.000060000    58  D   R 36 (12 00 00 00 24 00 ..) [hdparm]
CPU3 (sda):
 Reads Queued:          46,      384KiB\t Writes Queued:          12,     1064KiB

Total (sda):
 Reads Queued:         133,      732KiB\t Writes Queued:         122,     1428KiB
";

fn vscsi(version: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for (cmd, lbn, len, us) in [
        (0x2a_u16, 8_u64, 512_u32, 1_000_000_u64),
        (0x28, 100, 4096, 1_000_250),
        (0x8a, 7, 1024, 1_000_251),
    ] {
        let ver = u16::from(version) << 8;
        if version == 1 {
            out.extend([5u32, len, 1].iter().flat_map(|v| v.to_le_bytes()));
            out.extend([cmd, ver].iter().flat_map(|v| v.to_le_bytes()));
        } else {
            out.extend([cmd, ver].iter().flat_map(|v| v.to_le_bytes()));
            out.extend([5u32, len, 1].iter().flat_map(|v| v.to_le_bytes()));
        }
        out.extend([lbn, us].iter().flat_map(|v| v.to_le_bytes()));
        if version == 2 {
            out.extend(90u64.to_le_bytes());
        }
    }
    out
}

fn parquet() -> (Vec<u8>, Vec<IoRequest>) {
    let requests = blk_requests();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sample.parquet");
    write_with("parquet", &path, &requests, false);
    (std::fs::read(path).unwrap(), requests)
}

/// Writes requests in a format.
pub fn write_with(
    spec: &str,
    path: &std::path::Path,
    requests: &[IoRequest],
    streams_are_volumes: bool,
) {
    let spec = Spec::parse(spec).unwrap();
    let format = traces::formats::find(&spec).unwrap();
    let args = format.info.accept(&spec).unwrap();
    let origin = traces::Origin { streams_are_volumes, ..traces::Origin::default() };
    let mut writer =
        format.write.unwrap()(traces::Output::create(path).unwrap(), &args, &origin).unwrap();
    for part in requests.chunks(7) {
        writer.write(part).unwrap();
    }
    let facts = traces::Facts { streams_are_volumes, ..traces::Facts::default() };
    assert_eq!(writer.finish(&facts).unwrap().requests, requests.len() as u64);
}

fn text(format: &'static str, text: &str, requests: Vec<IoRequest>) -> Sample {
    Sample { format, file: "sample", bytes: text.as_bytes().to_vec(), requests }
}

fn binary(format: &'static str, bytes: Vec<u8>, requests: Vec<IoRequest>) -> Sample {
    Sample { format, file: "sample", bytes, requests }
}

/// Samples of all formats; some have several.
pub fn samples() -> Vec<Sample> {
    let mut samples = table_samples();
    samples.extend(tool_samples());
    samples.extend(binary_samples());
    samples
}

/// Gives samples of the text that tools write which record or replay.
fn tool_samples() -> Vec<Sample> {
    use IoOp::{Flush, Read, Trim, Write};
    vec![
        text(
            "blkparse",
            BLKPARSE,
            vec![
                timed(0, Write, 223_490 * 512, 4096, 697, 20_000),
                plain(10_000, Read, 16 * 512, 32 * 512, 12),
                timed(21_000, Flush, 0, 0, 58, 10_000),
                plain(40_000, Trim, 2048 * 512, 1 << 20, 58),
            ],
        ),
        text(
            "biosnoop",
            "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n\
             0.000000    jbd2/vda1-8    422     vda       R 4565264    4096      0.40\n\
             0.003100    Web Content    423     vdb       W 4565272    8192      3.00\n\
             0.003200    ?              0                 R 0          8         0.10\n\
             0.003300    wal writer     423     vda       R 0          0         0.05\n",
            vec![
                timed(0, Read, 4_565_264 * 512, 4096, 0, 400_000),
                timed(500_000, Write, 4_565_272 * 512, 8192, 1, 3_000_000),
                timed(3_650_000, Flush, 0, 0, 0, 50_000),
            ],
        ),
        text(
            "biosnoop",
            "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n\
             0.000000    postgres       422     nvme0n1 RA   4565264    4096      0.001 0.400\n\
             0.003100    postgres       422     nvme0n1 WFS  4565272    4096      0.001 0.410\n\
             0.003200    fstrim         7       nvme0n1 DS   8          1048576   0.001 0.010\n\
             0.003300    kworker        9       nvme0n1 FF   18446744073709551615 0 0.001 0.010\n",
            vec![
                timed(0, Read, 4_565_264 * 512, 4096, 0, 400_000),
                IoRequest {
                    is_fua: true,
                    ..timed(3_090_000, Write, 4_565_272 * 512, 4096, 0, 410_000)
                },
                timed(3_590_000, Trim, 4096, 1 << 20, 0, 10_000),
                timed(3_690_000, Flush, 0, 0, 0, 10_000),
            ],
        ),
        text(
            "block_events",
            "# captured on: today\n\
             fio  1234 [002]  5105.100000: block:block_rq_issue: 8,0 W 4096 () 2048 + 8 none,0,0 \
             [fio]\n\
             swapper     0 [000]  5105.100150: block:block_rq_complete: 8,0 W () 2048 + 8 \
             none,0,0 [0]\n\
             swapper     0 [000]  5105.100200: sched:sched_switch: prev_comm=swapper/0\n\
             \tffffffff8145b7d0 blk_mq_start_request+0x0 ([kernel.kallsyms])\n",
            vec![timed(0, Write, 1 << 20, 4096, 1234, 150_000)],
        ),
        text(
            "block_events",
            "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/3   #P:4\n\
             \x20    kworker/0:1H-58    [000] d..1.  5105.987654: block_rq_issue: 8,0 FF 0 () 0 + \
             0 [kworker/0:1H]\n\
             \x20          <...>-77    (-----) [001] .....  5105.987700: block_rq_issue: 8,0 WFS \
             4096 () 8 + 8 [wal writer]\n\
             \x20         <idle>-0     [001] d.h1.  5105.987954: block_rq_complete: 8,0 FF () 0 + \
             0 [0]\n",
            vec![
                timed(0, Flush, 0, 0, 58, 300_000),
                IoRequest { is_fua: true, ..plain(46_000, Write, 4096, 4096, 77) },
            ],
        ),
        text(
            "block_events",
            "            fio-1234  [001]  ....   123.456000:   8,0    D   W 2048 + 8 [fio]\n\
             \x20         idle-0     [001]  ....   123.456100:   8,0    C   W 2048 + 8 [0]\n",
            vec![timed(0, Write, 1 << 20, 4096, 1234, 100_000)],
        ),
        text(
            "fio_log",
            "1, 100000, 1, 4096, 8192, 0\n2, 150000, 0, 4096, 0, 0\n2, 1, 2, 4096, 4096, 0\n",
            vec![
                plain(0, Write, 8192, 4096, 0),
                plain(1_000_000, Read, 0, 4096, 0),
                plain(1_000_000, Trim, 4096, 4096, 0),
            ],
        ),
        text(
            "fio_iolog",
            "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sdb add\n/dev/sdb open\n\
             /dev/sda write 4096 8192\n\
             /dev/sda wait 150 0\n/dev/sdb read 0 512\n/dev/sda wait 100 0\n/dev/sda datasync 0 \
             0\n\
             /dev/sda trim 0 4096\n/dev/sda close\n",
            vec![
                plain(0, Write, 4096, 8192, 0),
                plain(150_000, Read, 0, 512, 1),
                plain(250_000, Flush, 0, 0, 0),
                plain(250_000, Trim, 0, 4096, 0),
            ],
        ),
        text(
            "fio_iolog",
            "fio version 3 iolog\n0 /dev/sda add\n1 /dev/sda open\n100 /dev/sda write 4096 8192\n\
             350 /dev/sda sync 0 0\n400 /dev/sda close\n",
            vec![plain(0, Write, 4096, 8192, 0), plain(250_000, Flush, 0, 0, 0)],
        ),
    ]
}

/// Gives samples of published traces and of simulators: tables of numbers.
fn table_samples() -> Vec<Sample> {
    use IoOp::{Read, Write};
    vec![
        text(
            "msr",
            "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
             128166372016382155,usr,0,Write,1317441536,8192,1963\r\n\
             128166372016382154,usr,1,Write,0,512,0\n",
            vec![
                timed(0, Read, 7_014_609_920, 24576, 0, 4_128_600),
                timed(1_332_052_600, Write, 1_317_441_536, 8192, 0, 196_300),
                timed(1_332_052_500, Write, 0, 512, 1, 0),
            ],
        ),
        text(
            "spc",
            "0,20941264,8192,W,0.551706,extra\n 0 , 20939840 , 8192 , w , 0.554041\n\
             1,3072,512,R,1.000000001\n",
            vec![
                plain(0, Write, 20_941_264 * 512, 8192, 0),
                plain(2_335_000, Write, 20_939_840 * 512, 8192, 0),
                plain(448_294_001, Read, 3072 * 512, 512, 1),
            ],
        ),
        text(
            "alibaba",
            "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n",
            vec![
                plain(0, Write, 8_792_731_648, 16384, 419),
                plain(46_000, Read, 59_110_326_272, 360_448, 725),
            ],
        ),
        text(
            "tencent",
            "1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n",
            vec![
                plain(0, Read, 12_910_952 * 512, 65536, 1063),
                plain(1_000_000_000, Write, 6_338_688 * 512, 4096, 1627),
            ],
        ),
        text(
            "systor17",
            "Timestamp,Response,IOType,LUN,Offset,Size\n\
             1455592251.124596000,0.000145,R,4,41660416,4096\n1455592251.224597000,,W,4,8192,512\n",
            vec![
                timed(0, Read, 41_660_416, 4096, 4, 145_000),
                plain(100_001_000, Write, 8192, 512, 4),
            ],
        ),
        text(
            "systor17",
            "1455592251.124596000,0.000145,R,4,41660416,4096\n",
            vec![timed(0, Read, 41_660_416, 4096, 4, 145_000)],
        ),
        text(
            "disksim",
            "0.000000 0 1000 8 1\n  13.191135\t30\t0\t5\t0\n",
            vec![plain(0, Read, 512_000, 4096, 0), plain(13_191_135, Write, 0, 2560, 30)],
        ),
        text(
            "mqsim",
            "938513000 4 264719034 16 0\n938828000 3 197570570 8 1\n",
            vec![
                plain(0, Write, 264_719_034 * 512, 8192, 4),
                plain(315_000, Read, 197_570_570 * 512, 4096, 3),
            ],
        ),
        text(
            "fiu",
            "89967404000000 4892 kjournald 508455888 8 R 6 0 d41d8cd98f00b204e9800998ecf8427e\n\
             89967404013000 4893 my nfsd 508455896 8 W 6 1\n",
            vec![
                plain(0, Read, 508_455_888 * 512, 4096, 6 << 20),
                plain(13_000, Write, 508_455_896 * 512, 4096, 6 << 20 | 1),
            ],
        ),
        text(
            "arc_lis",
            "3050771 25 0 0\n2461851 8 0 1",
            vec![
                plain(0, Write, 3_050_771 * 512, 12800, 0),
                plain(1, Write, 2_461_851 * 512, 4096, 0),
            ],
        ),
    ]
}

/// Records and Parquet.
fn binary_samples() -> Vec<Sample> {
    use IoOp::{Read, Write};
    let (parquet_bytes, parquet_requests) = parquet();
    let mut samples = vec![
        binary("parquet", parquet_bytes, parquet_requests),
        Sample {
            format: "u32",
            file: "sample.u32",
            bytes: [7u32, 0, 0xdead_beef].iter().flat_map(|page| page.to_le_bytes()).collect(),
            requests: vec![
                plain(0, Write, 7 * 4096, 4096, 0),
                plain(1, Write, 0, 4096, 0),
                plain(2, Write, 0xdead_beef * 4096, 4096, 0),
            ],
        },
        binary(
            "vscsi",
            vscsi(1),
            vec![
                plain(0, Write, 4096, 512, 0),
                plain(250_000, Read, 51200, 4096, 0),
                plain(251_000, Write, 3584, 1024, 0),
            ],
        ),
        binary(
            "vscsi",
            vscsi(2),
            vec![
                timed(0, Write, 4096, 512, 0, 90_000),
                timed(250_000, Read, 51200, 4096, 0, 90_000),
                timed(251_000, Write, 3584, 1024, 0, 90_000),
            ],
        ),
    ];
    for (version, big_endian) in [(7, false), (7, true), (8, false), (8, true)] {
        samples.push(binary("blktrace", blk_sample(version, big_endian), blk_requests()));
    }
    samples
}
