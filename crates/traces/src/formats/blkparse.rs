//! The text that `blkparse` prints by default, read and written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use registry::{Args, Info};
use units::{IoOp, IoRequest, Nanos};

use crate::error::{Bad, TraceError};
use crate::fields::{SECTOR_BYTES, Words, at_least, number, number32, time, whole};
use crate::formats::blk_events::{Action, Event, Matcher, PARAMS, device};
use crate::formats::{Fit, Format};
use crate::input::Head;
use crate::reader::sectors;
use crate::text::{LineFormat, TextReader, fit_of};
use crate::writer::{LineWriter, Refused, TextWriter, in_sectors};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "blkparse",
        aliases: &["blkparse_text"],
        summary: "what blkparse prints by default: device cpu sequence time pid action RWBS sector \
                  + sectors [process]; the summary at its end is passed over",
        source: "blkparse(1), OUTPUT DESCRIPTION AND FORMATTING; blktrace 1.3",
        params: PARAMS,
    },
    endings: &[".blkparse", ".blkparse.txt"],
    fit,
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(TextReader::new(
            input,
            Blkparse { matcher: Matcher::new(args)?, at_summary: false },
            skip_bad,
        )))
    },
    write: Some(|output, _, _| {
        Ok(Box::new(TextWriter::new(output, BlkparseLines::default(), FORMAT.info.name, false))
            as _)
    }),
};

fn fit(head: Head<'_>) -> Fit {
    let lines = || head.lines().filter(|line| !is_announcement(line)).take(32);
    let good = lines()
        .filter(|line| at_least::<7>(&mut Words(line), "").is_ok_and(|words| start(&words).is_ok()))
        .count();
    fit_of(good, lines().count() - good)
}

/// `Input file sda.blktrace.0 added`, which blkparse prints first.
fn is_announcement(line: &[u8]) -> bool {
    line.starts_with(b"Input file ")
}

struct Blkparse {
    matcher: Matcher,
    at_summary: bool,
}

/// What a line says before its action.
fn start(words: &[&[u8]; 7]) -> Result<(u32, u32, Nanos, u32), Bad> {
    let [dev, cpu, sequence, at, pid, _, _] = words;
    let dev = device(dev).ok_or_else(|| Bad::field("device", dev, "major,minor, such as 8,0"))?;
    number("sequence", sequence)?;
    Ok((dev, number32("cpu", cpu)?, time("time", at, 9)?, number32("pid", pid)?))
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        self.at_summary |= line.starts_with(b"CPU") || line.starts_with(b"Total ");
        if self.at_summary || is_announcement(line) {
            return Ok(());
        }
        let mut fields = Words(line);
        let words = at_least(&mut fields, "device cpu sequence time pid action RWBS")?;
        let (device, cpu, time_ns, pid) = start(&words)?;
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
                return Ok(());
            }
            (Some(sector), _, _) => (whole(sector).unwrap_or(0), 0),
            _ => (0, 0),
        };
        let bytes = sectors("sectors", count, SECTOR_BYTES)?;
        let Some((op, flush_first, is_fua)) = operation(words[6], bytes)? else { return Ok(()) };
        let event =
            Event { action, time_ns, device, cpu, pid, sector, bytes, op, flush_first, is_fua };
        self.matcher.take(&event, out)
    }

    fn finish(&mut self, out: &mut Vec<IoRequest>) {
        self.matcher.finish(out);
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

/// What RWBS says: the operation, whether a flush goes before it, and whether it is a write with
/// FUA (an F right behind the operation; `blk_fill_rwbs` of Linux); nothing for zone commands that
/// move no data.
fn operation(rwbs: &[u8], bytes: u64) -> Result<Option<(IoOp, bool, bool)>, Bad> {
    let (flush, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if flush && bytes == 0 {
        return Ok(Some((IoOp::Flush, false, false)));
    }
    let op = match rest {
        [b'Z', b'A', ..] | [b'W', ..] => IoOp::Write,
        [b'Z', b'F' | b'O' | b'C', ..] => return Ok(None),
        [b'D', ..] => IoOp::Trim,
        [b'R', ..] => IoOp::Read,
        _ => {
            return Err(Bad::field(
                "RWBS",
                rwbs,
                "R, W, D or F first (zone resets and passthrough commands are not read)",
            ));
        }
    };
    Ok(Some((op, flush, matches!(rest, [b'W', b'F', ..] | [b'Z', b'A', b'F', ..]))))
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
