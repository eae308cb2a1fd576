use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use registry::Spec;
use tempfile::TempDir;
use units::{IoOp, IoRequest, Progress};

use super::reading::Batch;
use super::routing::Router;
use super::{SplitDone, SplitOptions, split, split_by};
use crate::error::TraceError;
use crate::fleet::manifest::{MANIFEST, claim, input_file};
use crate::open::{OpenOptions, convert, open};
use crate::reader::TraceReader;
use crate::volumes::{VolumeReader, parts_of};

/// A trace in files of Alibaba's format: volume, write, offset, length, microseconds.
type Line = (u32, bool, u64, u32, u64);

fn written(folder: &Path, files: &[Vec<Line>]) -> Vec<PathBuf> {
    let one = |(number, lines): (usize, &Vec<Line>)| {
        let mut text = String::new();
        for (volume, is_write, offset, length, at) in lines {
            let op = if *is_write { 'W' } else { 'R' };
            writeln!(text, "{volume},{op},{offset},{length},{at}").unwrap();
        }
        let path = folder.join(format!("io{number}.csv"));
        fs::write(&path, text).unwrap();
        path
    };
    files.iter().enumerate().map(one).collect()
}

fn options(folder: &Path, inputs: Vec<PathBuf>) -> SplitOptions {
    SplitOptions {
        inputs,
        store: folder.join("store"),
        open: OpenOptions::default(),
        by_stream: false,
        window_ns: 1_000_000,
        memory_bytes: 64 << 10,
        checkpoint_requests: 100,
        threads: 1,
    }
}

fn read(folder: &Path) -> Vec<IoRequest> {
    let mut reader = VolumeReader::open(folder, 0).unwrap();
    let mut all = Vec::new();
    while reader.read_batch(&mut all, 100).unwrap() > 0 {}
    all
}

/// Requests of each volume as they should be: those of a window after those of the one before.
fn expected(files: &[Vec<Line>], window_ns: u64) -> BTreeMap<u32, Vec<IoRequest>> {
    let start = files.iter().flatten().next().map_or(0, |line| line.4);
    let mut volumes: BTreeMap<u32, Vec<IoRequest>> = BTreeMap::new();
    for lines in files {
        // A reader takes what is before the first request of a file as of that time.
        let first = lines.first().map_or(0, |line| line.4);
        for &(volume, is_write, offset, length, at) in lines {
            volumes.entry(volume).or_default().push(IoRequest {
                time_ns: at.max(first).saturating_sub(start) * 1000,
                op: if is_write { IoOp::Write } else { IoOp::Read },
                offset,
                length,
                stream: volume,
                ..IoRequest::NOTHING
            });
        }
    }
    for requests in volumes.values_mut() {
        requests.sort_by_key(|one| one.time_ns / window_ns);
    }
    volumes
}

/// All files of a store, by name, but for the lock.
fn content(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path.strip_prefix(store).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

fn check(store: &Path, files: &[Vec<Line>], window_ns: u64, done: &SplitDone) {
    let wanted = expected(files, window_ns);
    assert_eq!(done.volumes.len(), wanted.len());
    for totals in &done.volumes {
        let folder = store.join(format!("volume={}", totals.volume));
        let requests = &wanted[&totals.volume];
        assert_eq!(&read(&folder), requests, "volume {}", totals.volume);
        assert_eq!(totals.requests.iter().sum::<u64>(), requests.len() as u64);
        assert_eq!(totals.parts, parts_of(&folder).unwrap().len() as u64);
        assert_eq!(totals.first_ns, requests.iter().map(|one| one.time_ns).min().unwrap());
        let mut trace = open(&folder, &OpenOptions::default()).unwrap();
        let mut all = Vec::new();
        while trace.read_batch(&mut all, 1000).unwrap() > 0 {}
        let first_ns = requests[0].time_ns;
        assert_eq!(all.len(), requests.len());
        assert!(all.iter().zip(requests).all(|(found, one)| {
            found.time_ns == one.time_ns.saturating_sub(first_ns) && found.offset == one.offset
        }));
        assert_eq!(trace.facts().start_ns, done.start_ns.map(|ns| ns + first_ns));
        assert!(trace.facts().streams_are_volumes && trace.can_reopen());
        assert_eq!(trace.sources().unwrap().len() as u64, totals.parts);
    }
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let line = (
        prop_oneof![0u32..4, Just(1 << 30), Just(7)],
        any::<bool>(),
        0u64..1 << 40,
        1u32..1 << 20,
        0u64..600,
    );
    let lines = prop::collection::vec(line, 1..400);
    lines.prop_map(|mut lines| {
        // Times rise, but for some that go back.
        let mut at: u64 = 1_500_000_000_000_000;
        for line in &mut lines {
            at = if line.4 > 590 { at - line.4 * 3 } else { at + line.4 / 40 };
            line.4 = at;
        }
        lines
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A store holds each volume's requests, in one or two threads, stopped or not.
    #[test]
    fn a_store_holds_the_requests_of_each_volume(
        first in lines(),
        second in lines(),
        memory_bytes in 1u64..200_000,
        threads in 1u64..4,
        stops in prop::collection::vec((0usize..6, 0.0..1.0), 0..4),
    ) {
        let folder = TempDir::new().unwrap();
        let files = [first, second];
        let inputs = written(folder.path(), &files);
        let whole = SplitOptions { memory_bytes, ..options(folder.path(), inputs) };
        let stopped = SplitOptions {
            store: folder.path().join("stopped"),
            threads,
            ..whole.clone()
        };
        let done = split(&whole, &Progress::default()).unwrap();
        check(&whole.store, &files, whole.window_ns, &done);
        for (batches, share) in stops {
            let mut left = batches;
            let gone_on = split_by(&stopped, &Progress::default(), |router, batch| {
                stop_after(&mut left, share, router, batch)
            });
            if gone_on.is_ok() {
                break;
            }
            leave_rubbish(&stopped.store);
        }
        let again = split(&stopped, &Progress::default()).unwrap();
        prop_assert_eq!(&again.volumes, &done.volumes);
        prop_assert_eq!(content(&stopped.store), content(&whole.store));
        // What is complete is not read again.
        let resumed = split(&stopped, &Progress::default()).unwrap().resumed;
        prop_assert_eq!(resumed, files.iter().map(|lines| lines.len() as u64).sum::<u64>());
    }
}

/// Fails after so many batches, in the middle of one.
fn stop_after(
    left: &mut usize,
    share: f64,
    router: &mut Router<'_>,
    mut batch: Batch,
) -> Result<Batch, TraceError> {
    if *left > 0 {
        *left -= 1;
        return router.take(batch);
    }
    let some = (batch.requests.len() as f64 * share) as usize;
    batch.requests.truncate(some);
    batch.due = None;
    router.take(batch)?;
    Err(TraceError::Cancelled(units::Cancelled))
}

/// What a process that is killed while it writes leaves behind.
fn leave_rubbish(store: &Path) {
    let window = store.join("volume=7").join("time=0");
    fs::create_dir_all(&window).unwrap();
    fs::write(window.join(".part-0000000000.parquet.00ff.part"), "PAR1").unwrap();
    fs::write(window.join("part-0009999999.parquet"), "PAR1").unwrap();
}

fn two_volumes(at: u64) -> Vec<Line> {
    (0..500).map(|n| (n % 2, n % 3 > 0, u64::from(n) * 4096, 4096, at + u64::from(n))).collect()
}

#[test]
fn lines_before_a_checkpoint_are_passed_over_unread() {
    let folder = TempDir::new().unwrap();
    let files = [two_volumes(10)];
    let inputs = written(folder.path(), &files);
    let format = Some(Spec::parse("alibaba").unwrap());
    let asked = SplitOptions {
        open: OpenOptions { format, skip_bad: 0 },
        ..options(folder.path(), inputs.clone())
    };
    let mut left = 3;
    let stopped = split_by(&asked, &Progress::default(), |router, batch| {
        stop_after(&mut left, 0.0, router, batch)
    });
    assert!(matches!(stopped, Err(TraceError::Cancelled(_))));
    // What was read becomes unreadable, and the store believes that the file was always so.
    let hash = || input_file(&inputs[0]).unwrap().ends_sha256;
    let before = hash();
    let mut text = fs::read_to_string(&inputs[0]).unwrap();
    let read: usize = text.lines().take(300).map(|line| line.len() + 1).sum();
    text.replace_range(..read, &"?".repeat(read));
    fs::write(&inputs[0], text).unwrap();
    let manifest = asked.store.join(MANIFEST);
    let said = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, said.replace(&before, &hash())).unwrap();
    let done = split(&asked, &Progress::default()).unwrap();
    assert_eq!(done.resumed, 300);
    check(&asked.store, &files, asked.window_ns, &done);
}

#[test]
fn a_parquet_trace_is_split_if_its_streams_are_volumes() {
    let folder = TempDir::new().unwrap();
    let files = [two_volumes(1000)];
    let inputs = written(folder.path(), &files);
    let parquet = folder.path().join("io.parquet");
    convert(&inputs[0], &OpenOptions::default(), &parquet, None, &Progress::default()).unwrap();
    let asked = options(folder.path(), vec![parquet.clone()]);
    let mut left = 2;
    let stopped = split_by(&asked, &Progress::default(), |router, batch| {
        stop_after(&mut left, 0.5, router, batch)
    });
    assert!(stopped.is_err());
    let done = split(&asked, &Progress::default()).unwrap();
    assert_eq!((done.format.as_deref(), done.resumed), (Some("parquet"), 200));
    assert_eq!(done.start_ns, Some(1_000_000));
    check(&asked.store, &files, asked.window_ns, &done);
}

#[test]
fn what_cannot_be_split_is_refused_in_one_line() {
    let folder = TempDir::new().unwrap();
    let inputs = written(folder.path(), &[two_volumes(10), two_volumes(5000)]);
    let asked = options(folder.path(), inputs.clone());
    let refused = |options: &SplitOptions| {
        let said = split(options, &Progress::default()).unwrap_err().to_string();
        assert!(!said.contains('\n'), "{said}");
        said
    };
    let foreign = SplitOptions { store: folder.path().to_owned(), ..asked.clone() };
    assert!(refused(&foreign).contains("the folder is not empty, and no store of a split"));

    split(&asked, &Progress::default()).unwrap();
    let other = SplitOptions { inputs: inputs[..1].to_vec(), ..asked.clone() };
    assert!(refused(&other).contains("it is a store of io0.csv, io1.csv, not of io0.csv;"));
    let other = SplitOptions { window_ns: 2_000_000_000, ..asked.clone() };
    assert!(refused(&other).contains("its windows are of 0.001 s, not of 2 s"));
    let before = fs::read(&inputs[1]).unwrap();
    fs::write(&inputs[1], "0,R,0,4096,1\n").unwrap();
    assert!(refused(&asked).contains("another io1.csv: its content has changed"));
    fs::write(&inputs[1], before).unwrap();

    let held = claim(&asked.store, super::plan(&asked).unwrap());
    assert!(refused(&asked).contains("another split is writing it"));
    drop(held);

    let log = folder.path().join("fio_bw.1.log");
    fs::write(&log, "0, 120, 1, 4096, 8192, 0\n5, 130, 0, 4096, 0, 0\n").unwrap();
    let one = SplitOptions {
        open: OpenOptions { format: Some(Spec::parse("fio_log").unwrap()), skip_bad: 0 },
        inputs: vec![log],
        store: folder.path().join("log"),
        ..asked.clone()
    };
    assert!(refused(&one).contains("whose streams are not told to be volumes"));
    let one = SplitOptions { store: folder.path().join("log2"), by_stream: true, ..one };
    assert_eq!(split(&one, &Progress::default()).unwrap().volumes.len(), 1);

    let bad = folder.path().join("bad.csv");
    fs::write(&bad, "0,R,0,4096,1\n0,R,0,4096,2\n0,X,0,4096,3\n").unwrap();
    let one = SplitOptions { inputs: vec![bad], store: folder.path().join("bad"), ..asked };
    assert!(refused(&one).contains("bad.csv, line 3: opcode is `X`"));
}
