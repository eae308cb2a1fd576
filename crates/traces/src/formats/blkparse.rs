//! The text that `blkparse` prints by default, read and written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use registry::{Args, Info};
use units::{IoOp, IoRequest, Nanos};

use crate::error::{Bad, TraceError};
use crate::fields::{SECTOR_BYTES, Words, at_least, number, number32, time, whole};
use crate::formats::blk_events::{Action, Event, Matcher, PARAMS, PASSTHROUGH, device, kind_of};
use crate::formats::sequences::Sequences;
use crate::formats::{Fit, Format};
use crate::input::Head;
use crate::reader::{Facts, sectors};
use crate::text::{LineFormat, TextReader, fit_of};
use crate::writer::{LineWriter, Refused, TextWriter, in_sectors};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "blkparse",
        aliases: &["blkparse_text"],
        summary: "what blkparse prints by default: device cpu sequence time pid action RWBS sector \
                  + sectors [process]; of the summary at its end (-s too) the lost events are read",
        source: "blkparse(1), OUTPUT DESCRIPTION AND FORMATTING; blktrace 1.3",
        params: PARAMS,
    },
    endings: &[".blkparse", ".blkparse.txt"],
    fit,
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(TextReader::new(input, Blkparse::new(Matcher::new(args)?), skip_bad)))
    },
    write: Some(|output, _, _| {
        Ok(Box::new(TextWriter::new(output, BlkparseLines::default(), FORMAT.info.name, false))
            as _)
    }),
};

fn fit(head: Head<'_>) -> Fit {
    let is_event =
        |line: &[u8]| at_least::<7>(&mut Words(line), "").is_ok_and(|words| start(&words).is_ok());
    let mut at_summary = false;
    let (mut good, mut bad) = (0, 0);
    for line in head.lines().filter(|line| !is_announcement(line)).take(32) {
        at_summary |= good > 0 && is_summary(line);
        if is_event(line) {
            good += 1;
        } else if !at_summary {
            bad += 1;
        }
    }
    fit_of(good, bad)
}

/// `Input file sda.blktrace.0 added`, which blkparse prints first, and what blktrace says of its
/// buffers when both write to one file.
fn is_announcement(line: &[u8]) -> bool {
    line.starts_with(b"Input file ") || line.starts_with(b"=== ")
}

/// Returns true if a summary begins: a process (`postgres (4711)`, with -s), a CPU (`CPU0 (sda):`),
/// the total, or blktrace's lines on its buffers.
fn is_summary(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_named = matches!(line, [.., b')'] | [.., b')', b':'])
        && line.windows(2).any(|two| two == b" (")
        && Words(line).next().is_some_and(|first| device(first).is_none());
    is_named
        || [&b"CPU"[..], b"Total", b"Throughput", b"Events (", b"Skips:", b"You have "]
            .iter()
            .any(|start| line.starts_with(start))
}

/// Events that a line of the summary says are lost: `Skips: 2 forward (9,500 - 99.9%)`,
/// `Total: 17 events (dropped 3), 1 KiB data`, `You have 3 (0.1%) dropped events`.
fn lost_by(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let number = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    if let Some(rest) = text.strip_prefix("Skips:") {
        return number(rest.split_once('(')?.1.split_once(" - ")?.0);
    }
    if let Some(rest) = text.strip_prefix("You have ") {
        return number(rest.split_once(" (")?.0).filter(|_| rest.contains("dropped"));
    }
    number(text.strip_prefix("Total:")?.split_once("(dropped ")?.1.split_once(')')?.0)
}

struct Blkparse {
    matcher: Matcher,
    at_summary: bool,
    sequences: Sequences,
    /// Lost events as the summary has them.
    skips: Option<u64>,
}

impl Blkparse {
    fn new(matcher: Matcher) -> Self {
        Self { matcher, at_summary: false, sequences: Sequences::default(), skips: None }
    }

    /// Takes a line of the summary; `false` for one that is an event.
    fn summary(&mut self, line: &[u8]) -> bool {
        let is_event = || {
            let first = Words(line).next();
            first.is_some_and(|first| device(first).is_some())
        };
        self.at_summary = (self.at_summary || is_summary(line)) && !is_event();
        if self.at_summary
            && let Some(lost) = lost_by(line)
        {
            self.skips = Some(self.skips.unwrap_or(0).max(lost));
        }
        self.at_summary
    }
}

/// Reads the start of a line, up to its action: device, CPU, time and process.
fn start(words: &[&[u8]; 7]) -> Result<(u32, u32, Nanos, u32), Bad> {
    let [dev, cpu, sequence, at, pid, _, _] = words;
    let dev = device(dev).ok_or_else(|| Bad::field("device", dev, "major,minor, such as 8,0"))?;
    number("sequence", sequence)?;
    Ok((dev, number32("cpu", cpu)?, time("time", at, 9)?, number32("pid", pid)?))
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if is_announcement(line) || self.summary(line) {
            return Ok(());
        }
        let mut fields = Words(line);
        let words = at_least(&mut fields, "device cpu sequence time pid action RWBS")?;
        let (device, cpu, time_ns, pid) = start(&words)?;
        if words[5] != b"m" {
            self.sequences.see(device, cpu, number("sequence", words[2])?);
        }
        let action = match words[5] {
            b"Q" => Action::Queued,
            b"D" => Action::Issued,
            b"R" => Action::Requeued,
            b"C" => Action::Completed,
            // Merges, plugs, splits, remaps, messages and so on are no requests of their own.
            other if other.len() <= 2 && other.iter().all(u8::is_ascii_alphabetic) => return Ok(()),
            other => {
                return Err(Bad::field(
                    "action",
                    other,
                    "one or two letters, as blkparse(1) lists them",
                ));
            }
        };
        let (sector, count) = match (fields.next(), fields.next(), fields.next()) {
            (Some(sector), Some(b"+"), Some(count)) => {
                (number("sector", sector)?, number("sectors", count)?)
            }
            (Some(range), next, _) if words[6][0] != b'F' && is_passthrough(range, next) => {
                self.matcher.leave_out(action, PASSTHROUGH);
                return Ok(());
            }
            (Some(sector), _, _) => (whole(sector).unwrap_or(0), 0),
            _ => (0, 0),
        };
        let bytes = sectors("sectors", count, SECTOR_BYTES)?;
        let kind = kind_of(words[6], bytes).ok_or_else(|| {
            Bad::field("RWBS", words[6], "R, W, D, F, Z or N first, as blkparse(1) lists them")
        })?;
        let event = Event {
            action,
            time_ns,
            device,
            cpu,
            pid,
            sector,
            bytes,
            op: IoOp::Flush,
            flush_first: false,
            is_fua: false,
            is_append: false,
        };
        self.matcher.take_kind(kind, event, out)
    }

    fn finish(&mut self, out: &mut Vec<IoRequest>) {
        self.matcher.finish(out);
    }

    fn tell(&self, facts: &mut Facts) {
        self.matcher.tell(facts);
        // The summary counted before anything was filtered out of the text.
        match self.skips {
            Some(skips) => facts.tell_lost(skips, ", as its summary says"),
            None => facts.tell_lost(
                self.sequences.missing(),
                " (gaps in the numbers of its CPUs), unless it was filtered by blkparse -a or grep",
            ),
        }
    }

    fn streams_are_volumes(&self) -> bool {
        self.matcher.streams_are_volumes()
    }
}

/// A SCSI or NVMe command that passes through the block layer as it is: its bytes, or its command
/// in brackets, but no range.
fn is_passthrough(range: &[u8], next: Option<&[u8]>) -> bool {
    range[0] == b'('
        || (whole(range).is_some() && next.is_some_and(|next| matches!(next[0], b'(' | b'[')))
}

/// Writes an issue (D) for each request, and a completion (C) at the time it ends if the latency is
/// known.
#[derive(Default)]
struct BlkparseLines {
    /// Completions to come, first by time, then in the order of issue.
    ending: BinaryHeap<Reverse<(Nanos, u64, String)>>,
    sequence: u64,
}

/// Completions that wait for their time; beyond it the earliest is written early, so that memory
/// stays bounded.
const MOST_ENDING: usize = 1 << 16;

impl BlkparseLines {
    fn put(
        &mut self,
        out: &mut Vec<u8>,
        time_ns: Nanos,
        pid: u32,
        what: &str,
    ) -> std::io::Result<()> {
        self.sequence += 1;
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        writeln!(out, "  8,0    0 {:8} {seconds:5}.{ns:09} {pid:5}  {what}", self.sequence)
    }

    fn end_until(&mut self, time_ns: Nanos, out: &mut Vec<u8>) -> std::io::Result<()> {
        while let Some(Reverse((at, _, _))) = self.ending.peek()
            && (*at <= time_ns || self.ending.len() > MOST_ENDING)
        {
            if let Some(Reverse((at, _, what))) = self.ending.pop() {
                self.put(out, at, 0, &what)?;
            }
        }
        Ok(())
    }
}

impl LineWriter for BlkparseLines {
    fn line(&mut self, request: &IoRequest, out: &mut Vec<u8>) -> Result<(), Refused> {
        let (start, count) = in_sectors(request)?;
        let rwbs = match request.op {
            IoOp::Read => "R",
            IoOp::Write if request.is_fua => "WF",
            IoOp::Write => "W",
            IoOp::Trim => "D",
            IoOp::Flush => "FN",
        };
        let flush = request.op == IoOp::Flush;
        let range = if flush { String::new() } else { format!("{start} + {count} ") };
        self.end_until(request.time_ns, out)?;
        self.put(
            out,
            request.time_ns,
            request.stream,
            &format!("D {rwbs:>3} {range}[flashwright]"),
        )?;
        if let Some(latency_ns) = request.latency_ns {
            let range = if flush { "0".to_owned() } else { format!("{start} + {count}") };
            let at = request.time_ns.saturating_add(latency_ns);
            self.ending.push(Reverse((at, self.sequence, format!("C {rwbs:>3} {range} [0]"))));
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TraceError> {
        self.end_until(Nanos::MAX, out).unwrap_or_else(|_| unreachable!("a Vec takes any bytes"));
        Ok(())
    }
}
