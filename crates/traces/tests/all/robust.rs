//! Any bytes at all: no reader panics, loops, or gives more requests than the bytes can hold. This
//! stands in for fuzzing.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::LazyLock;

use crate::common::{Sample, open_bytes, samples};
use proptest::prelude::*;
use traces::{OpenOptions, TraceError, formats};

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(samples);

/// Reads to the end or the first error.
fn read(file: &str, bytes: &[u8], format: Option<&str>, skip_bad: u64) -> Result<u64, TraceError> {
    if format == Some("parquet") {
        return read_parquet(bytes, skip_bad);
    }
    let mut trace = open_bytes(file, bytes, format, skip_bad)?;
    // The smallest record has 4 bytes, and one record gives at most two requests.
    let most = bytes.len() as u64;
    let (mut out, mut total) = (Vec::new(), 0);
    loop {
        out.clear();
        let count = trace.read_batch(&mut out, 100)?;
        assert_eq!(count, out.len());
        assert!(count <= 100);
        for request in &out {
            assert!(request.length > 0 || request.op == units::IoOp::Flush);
            assert!(request.offset.checked_add(u64::from(request.length)).is_some());
        }
        total += count as u64;
        assert!(total <= most, "{total} requests from {most} bytes");
        assert!(trace.facts().skipped <= skip_bad);
        if count == 0 {
            return Ok(total);
        }
    }
}

/// Parquet compresses: rows are bounded by what a test can wait for instead.
fn read_parquet(bytes: &[u8], skip_bad: u64) -> Result<u64, TraceError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    std::fs::write(&path, bytes).unwrap();
    let format = Some(registry::Spec::parse("parquet").unwrap());
    let mut trace = traces::open(&path, &OpenOptions { format, skip_bad })?;
    let (mut out, mut total) = (Vec::new(), 0);
    while total < 1_000_000 && trace.read_batch(&mut out, 10_000)? > 0 {
        total += out.len() as u64;
        out.clear();
    }
    Ok(total)
}

/// Four times the usual number, so that `PROPTEST_CASES` still sets it for a longer run.
fn more_cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: 4 * usual.cases, ..usual }
}

/// A change to a sample.
#[derive(Clone, Debug)]
enum Edit {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Cut(prop::sample::Index),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<prop::sample::Index>;
    // Bytes that mean something to a parser are more likely than others.
    let byte =
        || prop_oneof![any::<u8>(), prop::sample::select(b"0189,. \n\r-+eRWDFQC\x00\xff".to_vec())];
    let edit = prop_oneof![
        4 => (at(), byte()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (at(), prop::collection::vec(byte(), 1..24))
            .prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        2 => (at(), 1usize..40).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => (at(), 1usize..40).prop_map(|(at, count)| Edit::Repeat(at, count)),
        1 => at().prop_map(Edit::Cut),
    ];
    prop::collection::vec(edit, 1..8)
}

fn apply(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        if bytes.is_empty() {
            break;
        }
        let place = |at: &prop::sample::Index| at.index(bytes.len());
        match edit {
            Edit::Set(at, byte) => {
                let at = place(at);
                bytes[at] = *byte;
            }
            Edit::Insert(at, more) => {
                let at = place(at);
                bytes.splice(at..at, more.iter().copied());
            }
            Edit::Remove(at, count) => {
                let at = place(at);
                let end = (at + count).min(bytes.len());
                bytes.drain(at..end);
            }
            Edit::Repeat(at, count) => {
                let at = place(at);
                let end = (at + count).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            Edit::Cut(at) => {
                let at = place(at);
                bytes.truncate(at);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(more_cases())]

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        skip_bad in 0u64..5,
    ) {
        let _ = read("t.u32", &bytes, None, skip_bad);
        for format in formats::ALL {
            let _ = read("t", &bytes, Some(format.info.name), skip_bad);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "([0-9]{1,20}[ ,.:+-]{0,2}|[RWrwQDC]|Read|Write|\n\
                                            ){0,60}", skip_bad in 0u64..5) {
        let _ = read("t.csv", text.as_bytes(), None, skip_bad);
        let columns = "columns(time=1,unit=ms,op=2,offset=3,length=1,stream=2,latency=3)";
        let _ = read("t.csv", text.as_bytes(), Some(columns), skip_bad);
        let log = "fio_log(value=latency)";
        let _ = read("t_lat.1.log", text.as_bytes(), Some(log), skip_bad);
        for format in formats::ALL {
            let _ = read("t", text.as_bytes(), Some(format.info.name), skip_bad);
        }
    }

    #[test]
    fn damaged_samples_are_read_or_refused(
        index in any::<prop::sample::Index>(),
        edits in edits(),
        skip_bad in 0u64..3,
    ) {
        let sample = index.get(&SAMPLES);
        let bytes = apply(sample.bytes.clone(), &edits);
        let _ = read(sample.file, &bytes, Some(sample.format), skip_bad);
        let _ = read(sample.file, &bytes, None, skip_bad);
    }

    #[test]
    fn damaged_archives_are_read_or_refused(edits in edits(), which in 0..2, behind: bool) {
        let line: &[u8] = b"1,usr,0,Read,0,512,9\n";
        let files: [(&str, &[u8]); 2] = [("README", b"about"), ("a.csv", line)];
        let bytes = if which == 0 {
            crate::field::tar(&files)
        } else {
            crate::field::zip(&files, behind)
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.zip");
        std::fs::write(&path, apply(bytes, &edits)).unwrap();
        for path in [path.clone(), path.join("a.csv")] {
            if let Ok(mut trace) = traces::open(&path, &OpenOptions::default()) {
                let mut out = Vec::new();
                while matches!(trace.read_batch(&mut out, 1000), Ok(count) if count > 0) {}
            }
        }
    }

    #[test]
    fn damaged_compression_is_read_or_refused(
        index in any::<prop::sample::Index>(),
        which in 0..3,
        edits in edits(),
    ) {
        use std::io::Write;
        let sample = index.get(&SAMPLES);
        let bytes = match which {
            0 => {
                let mut out =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                out.write_all(&sample.bytes).unwrap();
                out.finish().unwrap()
            }
            1 => zstd::encode_all(&sample.bytes[..], 1).unwrap(),
            _ => {
                let mut out = liblzma::write::XzEncoder::new(Vec::new(), 0);
                out.write_all(&sample.bytes).unwrap();
                out.finish().unwrap()
            }
        };
        // Decompression may give more bytes than went in; only panics and endless loops matter
        // here.
        if let Ok(mut trace) = open_bytes("t", &apply(bytes, &edits), Some("mqsim"), 1000) {
            let mut out = Vec::new();
            while matches!(trace.read_batch(&mut out, 1000), Ok(count) if count > 0) {}
        }
    }
}

proptest! {
    #![proptest_config(more_cases())]

    #[test]
    fn damaged_parquet_is_read_or_refused(edits in edits(), skip_bad in 0u64..3) {
        let sample = SAMPLES.iter().find(|sample| sample.format == "parquet").unwrap();
        let _ = read_parquet(&apply(sample.bytes.clone(), &edits), skip_bad);
    }
}
