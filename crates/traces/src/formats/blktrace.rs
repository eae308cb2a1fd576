//! The binary records of `blktrace` and of ftrace's `blk` tracer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use registry::{Args, Info};
use units::{IoOp, IoRequest};

use crate::error::{Bad, Place, TraceError};
use crate::formats::blk_events::{
    Action, Event, Kind, Matcher, PARAMS, PASSTHROUGH as PASSED, ZONE_RESETS, ZONE_STATES,
};
use crate::formats::sequences::Sequences;
use crate::formats::{Fit, Format};
use crate::input::{Bytes, Input};
use crate::reader::{BadRecords, Clock, Facts, TraceReader};
use crate::unpack::cpu_file;

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "blktrace",
        aliases: &["blk"],
        summary: "blktrace records, version 1 and 2, either byte order: one ftrace `blk` stream, \
                  or `NAME.blktrace.N`, whose siblings of the other CPUs are merged by time",
        source: "Linux include/uapi/linux/blktrace_api.h: struct blk_io_trace, and blk_io_trace2 \
                 since 6.19",
        params: PARAMS,
    },
    endings: &[],
    fit: |head| {
        if head.bytes.len() >= 4 && magic(head.bytes).is_some() { Fit::Certain } else { Fit::No }
    },
    read: |input, args: &Args, skip_bad| Ok(Box::new(BlktraceReader::open(input, args, skip_bad)?)),
    write: None,
};

/// Byte order and version of a record, from its first four bytes: 0x656174 and the version in the
/// lowest byte.
fn magic(bytes: &[u8]) -> Option<(bool, u8)> {
    match *bytes {
        [version, 0x74, 0x61, 0x65, ..] => Some((false, version)),
        [0x65, 0x61, 0x74, version, ..] => Some((true, version)),
        _ => None,
    }
}

// Layout, offsets in bytes. Version 1 (the kernel writes 7 in the magic), 48 bytes:
//   magic u32 @0, sequence u32 @4, time u64 @8, sector u64 @16, bytes u32 @24, action u32 @28, pid
//   u32 @32, device u32 @36, cpu u32 @40, error u16 @44, pdu_len u16 @46.
// Version 2 (8 in the magic), 64 bytes:
//   as above up to bytes @24, then pid u32 @28, action u64 @32, device u32 @40, cpu u32 @44, error
//   u16 @48, pdu_len u16 @50, 12 bytes unused.
const V1_BYTES: usize = 48;
const V2_BYTES: usize = 64;

// Low 16 bits of `action`: what happened. Above them: categories.
const ACTION_MASK: u64 = 0xffff;
const FROM_CGROUP: u64 = 1 << 8;
const CATEGORY_SHIFT: u32 = 16;
const WRITE: u64 = 1 << 1;
const FLUSH: u64 = 1 << 2;
const PASSTHROUGH: u64 = 1 << 9;
const NOTIFY: u64 = 1 << 10;
const DISCARD: u64 = 1 << 13;
const FUA: u64 = 1 << 15;
// Version 2 only.
const ZONE_APPEND: u64 = 1 << 16;
const WRITE_ZEROES: u64 = 1 << 22;
const ZONE_RESET: u64 = 1 << 17 | 1 << 18;
const ZONE_FINISH_OPEN_CLOSE: u64 = 1 << 19 | 1 << 20 | 1 << 21;

/// The numbers of one record, whichever version and byte order it has.
struct Numbers<'a> {
    record: &'a [u8],
    big_endian: bool,
}

impl Numbers<'_> {
    fn get(&self, at: usize, bytes: usize) -> u64 {
        let field = &self.record[at..at + bytes];
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.big_endian { field.iter().fold(0, add) } else { field.iter().rev().fold(0, add) }
    }

    fn action(&self, is_v2: bool) -> u64 {
        if is_v2 { self.get(32, 8) } else { self.get(28, 4) }
    }

    /// Returns true if it is a message or the name of a process, which no CPU counts.
    fn is_note(&self, is_v2: bool) -> bool {
        self.action(is_v2) >> CATEGORY_SHIFT & NOTIFY != 0
    }

    /// Device and CPU.
    fn place(&self, is_v2: bool) -> (u32, u32) {
        let (device, cpu) = if is_v2 { (40, 44) } else { (36, 40) };
        (self.get(device, 4) as u32, self.get(cpu, 4) as u32)
    }
}

/// One file: the stream of one CPU, or of all.
struct CpuStream {
    bytes: Bytes,
    bad: BadRecords,
    next: Option<(Place, Kind, Event)>,
    sequences: Sequences,
    records: u64,
    cut: u64,
}

impl CpuStream {
    /// Reads up to the next event of a request and keeps it in `next`.
    fn advance(&mut self) -> Result<(), TraceError> {
        self.next = None;
        loop {
            let place = Place::Byte(self.bytes.offset());
            match self.record()? {
                Record::End => return Ok(()),
                Record::Other => {}
                Record::Event(kind, event) => {
                    self.next = Some((place, kind, event));
                    return Ok(());
                }
                Record::Bad(bad) => self.bad.pass(place, bad)?,
            }
        }
    }

    /// Reads one record; after a bad one it stands at the next that starts like one.
    fn record(&mut self) -> Result<Record, TraceError> {
        let ready = self.bytes.ready(V2_BYTES)?;
        if ready.is_empty() {
            return Ok(Record::End);
        }
        if ready.len() < 4 && self.records > 0 {
            return Ok(self.cut_off());
        }
        let (big_endian, size) = match magic(ready) {
            Some((big_endian, 7)) => (big_endian, V1_BYTES),
            Some((big_endian, 8)) => (big_endian, V2_BYTES),
            other => {
                let reason = match other {
                    Some((_, version)) => format!("version byte {version}"),
                    None => format!(
                        "no record starts with `{}`",
                        ready[..ready.len().min(4)].escape_ascii()
                    ),
                };
                self.seek_magic()?;
                return Ok(Record::Bad(Bad::new(
                    reason,
                    "the magic number 0x656174 with version byte 7 or 8",
                )));
            }
        };
        let pdu_at = if size == V1_BYTES { 46 } else { 50 };
        let pdu = if ready.len() < size {
            0
        } else {
            Numbers { record: ready, big_endian }.get(pdu_at, 2) as usize
        };
        let ready = self.bytes.ready(size + pdu)?;
        if ready.len() < size + pdu {
            let (have, want) = (ready.len(), size + pdu);
            if self.records > 0 {
                return Ok(self.cut_off());
            }
            self.bytes.consume(have);
            return Ok(Record::Bad(Bad::new(
                format!("the file ends after {have} of {want} bytes of a record"),
                "whole records",
            )));
        }
        let numbers = Numbers { record: ready, big_endian };
        let is_v2 = size == V2_BYTES;
        if !numbers.is_note(is_v2) {
            let (device, cpu) = numbers.place(is_v2);
            self.sequences.see(device, cpu, numbers.get(4, 4));
        }
        let record = event(&numbers, is_v2);
        self.bytes.consume(size + pdu);
        self.records += 1;
        Ok(record)
    }

    /// The rest is less than a record: who recorded was stopped.
    fn cut_off(&mut self) -> Record {
        self.cut += 1;
        Record::End
    }

    fn seek_magic(&mut self) -> Result<(), TraceError> {
        self.bytes.consume(1);
        loop {
            let ready = self.bytes.ready(4)?;
            if ready.len() < 4 {
                let rest = ready.len();
                self.bytes.consume(rest);
                return Ok(());
            }
            let found = ready.windows(4).position(|start| matches!(magic(start), Some((_, 7 | 8))));
            let count = found.unwrap_or(ready.len() - 3);
            self.bytes.consume(count);
            if found.is_some() {
                return Ok(());
            }
        }
    }
}

enum Record {
    Event(Kind, Event),
    /// Of no concern here: messages, process names, merges, plugs.
    Other,
    Bad(Bad),
    End,
}

fn event(numbers: &Numbers<'_>, is_v2: bool) -> Record {
    let action = numbers.action(is_v2);
    let category = action >> CATEGORY_SHIFT;
    if category & NOTIFY != 0 {
        return Record::Other;
    }
    let action = match action & ACTION_MASK & !FROM_CGROUP {
        1 => Action::Queued,
        6 => Action::Requeued,
        7 => Action::Issued,
        8 => Action::Completed,
        _ => return Record::Other,
    };
    let bytes = numbers.get(24, 4);
    let (device, cpu) = numbers.place(is_v2);
    Record::Event(
        kind(category, bytes),
        Event {
            action,
            time_ns: numbers.get(8, 8),
            device,
            cpu,
            pid: numbers.get(if is_v2 { 28 } else { 32 }, 4) as u32,
            sector: numbers.get(16, 8),
            bytes,
            op: IoOp::Flush,
            flush_first: false,
            is_fua: false,
            is_append: false,
        },
    )
}

/// Reads the kind from the categories.
fn kind(category: u64, bytes: u64) -> Kind {
    let has = |bit| category & bit != 0;
    let op = if has(PASSTHROUGH) {
        return Kind::Other(PASSED);
    } else if has(ZONE_RESET) {
        return Kind::Other(ZONE_RESETS);
    } else if has(ZONE_FINISH_OPEN_CLOSE) {
        return Kind::Other(ZONE_STATES);
    } else if has(WRITE_ZEROES) {
        return Kind::WriteZeroes;
    } else if has(DISCARD) {
        IoOp::Trim
    } else if has(FLUSH) && bytes == 0 {
        IoOp::Flush
    } else if has(WRITE) {
        IoOp::Write
    } else {
        IoOp::Read
    };
    Kind::Request {
        op,
        flush_first: has(FLUSH) && op != IoOp::Flush,
        is_fua: has(FUA) && op == IoOp::Write,
        is_append: has(ZONE_APPEND) && op == IoOp::Write,
    }
}

/// Merges the streams of all CPUs by time and makes requests of the events.
struct BlktraceReader {
    streams: Vec<CpuStream>,
    more_files: Vec<PathBuf>,
    /// Numbers of CPUs below the highest that have no file.
    missing_cpus: Vec<u32>,
    skip_bad: u64,
    matcher: Matcher,
    clock: Clock,
    ready: Vec<IoRequest>,
    taken: usize,
    started: bool,
    finished: bool,
}

impl BlktraceReader {
    fn open(input: Input, args: &Args, skip_bad: u64) -> Result<Self, TraceError> {
        let matcher = Matcher::new(args)?;
        let files = siblings(&input)?;
        let (more_files, missing_cpus) = (files.others, files.missing);
        let position = Arc::clone(&input.position);
        let mut inputs = vec![input];
        for path in &more_files {
            let mut sibling = Input::open(path)?;
            position
                .total
                .fetch_add(sibling.position.total.load(Ordering::Relaxed), Ordering::Relaxed);
            position
                .done
                .fetch_add(sibling.position.done.load(Ordering::Relaxed), Ordering::Relaxed);
            sibling.count_into(&position);
            inputs.push(sibling);
        }
        let streams = inputs.into_iter().map(|input| {
            let bytes = input.into_bytes();
            let bad = BadRecords::new(bytes.path(), skip_bad);
            CpuStream {
                bytes,
                bad,
                next: None,
                sequences: Sequences::default(),
                records: 0,
                cut: 0,
            }
        });
        let (streams, clock) = (streams.collect(), Clock::default());
        Ok(Self {
            streams,
            more_files,
            missing_cpus,
            skip_bad,
            matcher,
            clock,
            ready: Vec::new(),
            taken: 0,
            started: false,
            finished: false,
        })
    }

    fn skipped(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bad.skipped).sum()
    }

    /// All files together may have as many bad records as were allowed.
    fn advance(&mut self, index: usize) -> Result<(), TraceError> {
        let elsewhere = self.skipped() - self.streams[index].bad.skipped;
        self.streams[index].bad.set_limit(self.skip_bad - elsewhere);
        self.streams[index].advance()
    }

    fn earliest(&self) -> Option<usize> {
        let times = self
            .streams
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.next.as_ref().map(|(.., event)| (event.time_ns, i)));
        times.min().map(|(_, index)| index)
    }

    /// Takes events until some requests are ready, or all are read.
    fn refill(&mut self) -> Result<(), TraceError> {
        const ENOUGH: usize = 4096;
        self.ready.clear();
        self.taken = 0;
        if !self.started {
            self.started = true;
            for index in 0..self.streams.len() {
                self.advance(index)?;
            }
        }
        while self.ready.len() < ENOUGH && !self.finished {
            let Some(index) = self.earliest() else {
                self.finished = true;
                self.matcher.finish(&mut self.ready);
                break;
            };
            if let Some((place, kind, event)) = self.streams[index].next.take() {
                let before = self.ready.len();
                if let Err(bad) = self.matcher.take_kind(kind, event, &mut self.ready) {
                    self.ready.truncate(before);
                    let elsewhere = self.skipped() - self.streams[index].bad.skipped;
                    self.streams[index].bad.set_limit(self.skip_bad - elsewhere);
                    self.streams[index].bad.pass(place, bad)?;
                }
            }
            self.advance(index)?;
        }
        self.clock.rebase(&mut self.ready);
        Ok(())
    }
}

impl TraceReader for BlktraceReader {
    fn read_batch(&mut self, out: &mut Vec<IoRequest>, max: usize) -> Result<usize, TraceError> {
        let start = out.len();
        while out.len() - start < max {
            if self.taken == self.ready.len() {
                self.refill()?;
                if self.ready.is_empty() {
                    break;
                }
            }
            let count = (max - (out.len() - start)).min(self.ready.len() - self.taken);
            out.extend_from_slice(&self.ready[self.taken..self.taken + count]);
            self.taken += count;
        }
        Ok(out.len() - start)
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts {
            clamped_times: self.clock.clamped,
            unseen_reversals: self.clock.unseen_reversals,
            start_ns: self.clock.start,
            streams_are_volumes: self.matcher.streams_are_volumes(),
            ..Facts::default()
        };
        self.streams.iter().for_each(|stream| stream.bad.tell(&mut facts));
        self.matcher.tell(&mut facts);
        let missing = self.streams.iter().map(|stream| stream.sequences.missing()).sum();
        facts.tell_lost(missing, " (gaps in the numbers of a CPU)");
        facts.tell_cut(self.streams.iter().map(|stream| stream.cut).sum());
        if let Some(first) = self.missing_cpus.first() {
            let numbers: Vec<String> = self.missing_cpus.iter().map(u32::to_string).collect();
            let cpus = if numbers.len() == 1 { "CPU" } else { "CPUs" };
            facts.warnings.push(format!(
                "no file of {cpus} {} (NAME.blktrace.{first}): what went through \
                 there is not counted",
                numbers.join(", ")
            ));
        }
        facts
    }

    fn more_files(&self) -> &[PathBuf] {
        &self.more_files
    }
}

/// The files of a recording beside the one that was opened.
struct Siblings {
    /// By CPU.
    others: Vec<PathBuf>,
    /// CPUs below the highest without a file.
    missing: Vec<u32>,
}

/// No machine has more.
const MOST_CPUS: u32 = 1 << 13;

/// The files of the other CPUs, by number, in the same folder or archive.
fn siblings(input: &Input) -> Result<Siblings, TraceError> {
    let none = Siblings { others: Vec::new(), missing: Vec::new() };
    let Some((trace, own_cpu)) = cpu_file(input.name()) else { return Ok(none) };
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for other in beside(input)? {
        match other.file_name().and_then(|name| name.to_str()).and_then(cpu_file) {
            Some((other_trace, cpu)) if other_trace == trace && cpu != own_cpu => {
                found.push((cpu, other.clone()));
            }
            _ => {}
        }
    }
    found.sort();
    if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let reason = format!(
            "CPU {} has two files, {} and {}",
            pair[0].0,
            pair[0].1.display(),
            pair[1].1.display()
        );
        return Err(TraceError::Unusable {
            path: input.path().to_owned(),
            reason,
            right: "one file a CPU",
        });
    }
    let mut cpus: Vec<u32> = found.iter().map(|(cpu, _)| *cpu).chain([own_cpu]).collect();
    cpus.sort_unstable();
    let highest = cpus.last().copied().unwrap_or(0).min(MOST_CPUS);
    let missing = (0..highest).filter(|cpu| cpus.binary_search(cpu).is_err()).collect();
    Ok(Siblings { others: found.into_iter().map(|(_, path)| path).collect(), missing })
}

/// Lists the files in the folder or archive of an input.
fn beside(input: &Input) -> Result<Vec<PathBuf>, TraceError> {
    let Some(path) = input.file() else { return Ok(Vec::new()) };
    if input.is_member() {
        return Ok(input.beside().to_vec());
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed =
        |source| TraceError::Io { path: folder.to_owned(), doing: "list", offset: 0, source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}
