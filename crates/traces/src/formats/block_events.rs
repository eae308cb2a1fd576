//! Events of Linux' block layer as `perf script`, `trace_pipe` and `trace-cmd report` print them.

use registry::{Args, Info};
use units::{IoOp, IoRequest};

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, Words, number, scaled, whole};
use crate::formats::blk_events::{Action, Event, Matcher, PARAMS, device, kind_of};
use crate::formats::{Fit, Format};
use crate::input::Head;
use crate::reader::{Facts, Tally, count, sectors};
use crate::text::{LineFormat, TextReader};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "block_events",
        aliases: &["perf_script", "trace_pipe", "trace_cmd"],
        summary: "text of block_rq_issue, block_rq_complete ... as perf script, ftrace's \
                  trace_pipe and trace-cmd report print them, and of ftrace's blk tracer",
        source: "Linux include/trace/events/block.h; perf-script(1); Documentation/trace/ftrace",
        params: PARAMS,
    },
    endings: &[],
    fit,
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(TextReader::new(
            input,
            BlockEvents {
                matcher: Matcher::new(args)?,
                tally: Tally::new(),
                lost: 0,
                has_unknown_loss: false,
            },
            skip_bad,
        )))
    },
    write: None,
};

fn fit(head: Head<'_>) -> Fit {
    let (mut good, mut others, mut bad) = (0, 0, 0);
    for line in head.lines().filter(|line| !is_said(line)).take(256) {
        match Parsed::of(line) {
            Some(Parsed { name: Some(_), .. }) => good += 1,
            Some(_) => others += 1,
            None => bad += 1,
        }
    }
    match (good, others, bad) {
        (1, 0, 1) => Fit::Half,
        _ if good > 0 && good + others > bad => Fit::Certain,
        _ => Fit::No,
    }
}

/// Returns true if a line is not an event: comments, headers, call chains.
fn is_said(line: &[u8]) -> bool {
    let first = Words(line).next().unwrap_or(b"");
    let is_address = first.len() >= 8 && first.iter().all(u8::is_ascii_hexdigit);
    line.starts_with(b"#")
        || is_address
        || first.starts_with(b"cpus=")
        || first == b"version"
        || line.starts_with(b"CPU ")
        || lost_by(line).is_some()
}

/// Events that a line says are lost: `CPU:2 [LOST 500 EVENTS]`, `[500 EVENTS DROPPED]`, `... lost
/// 12 ...` of perf, and the counts of a buffer that went round. Without a number it is 0.
fn lost_by(line: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(line);
    let first_number = |text: &str| {
        let digits = |c: char| !c.is_ascii_digit();
        text.split(digits).find(|part| !part.is_empty()).and_then(|part| part.parse::<u64>().ok())
    };
    if let Some((_, inside)) = text.split_once('[')
        && inside.contains("EVENTS")
        && (inside.contains("LOST") || inside.contains("DROPPED"))
    {
        return Some(first_number(inside).unwrap_or(0));
    }
    if let Some((_, rest)) = text.split_once("PERF_RECORD_LOST") {
        return Some(first_number(rest).unwrap_or(0));
    }
    if let Some(rest) = text.trim().strip_prefix("LOST ") {
        return first_number(rest);
    }
    let counts = text.trim().strip_prefix("# entries-in-buffer/entries-written: ")?;
    let (kept, rest) = counts.split_once('/')?;
    let (kept, written) = (kept.trim().parse::<u64>().ok()?, first_number(rest)?);
    Some(written.saturating_sub(kept)).filter(|lost| *lost > 0)
}

/// A line that is an event.
struct Parsed<'a> {
    /// None if it is not of the block layer.
    name: Option<&'a [u8]>,
    time_ns: u64,
    cpu: u32,
    pid: u32,
    rest: Words<'a>,
}

impl<'a> Parsed<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut words = Words(line);
        let (mut cpu, mut pid, mut before) = (0, None, &b""[..]);
        let time_ns = loop {
            let word = words.next()?;
            if let Some(inner) = word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]")) {
                if let Some(number) = whole(inner) {
                    cpu = number as u32;
                    pid = pid.or_else(|| pid_of(before));
                }
            } else if let Some(time) = word.strip_suffix(b":")
                && time.contains(&b'.')
                && let Some(ns) = scaled(time, 9)
            {
                // trace-cmd may leave the CPU out.
                pid = pid.or_else(|| pid_of(before));
                break ns;
            }
            // The group of threads stands behind the thread, in brackets.
            if !word.starts_with(b"(") {
                before = word;
            }
        };
        let mut rest = Words(words.0);
        let first = rest.next()?;
        let parsed = |name, rest| Some(Self { name, time_ns, cpu, pid: pid.unwrap_or(0), rest });
        let Some(name) = first.strip_suffix(b":") else {
            // The blk tracer: `8,0    D   W 223490 + 8 [fio]`, with the CPU behind the device in
            // some versions.
            device(first)?;
            return parsed(Some(b"blk"), Words(words.0));
        };
        let name = name.strip_prefix(b"block:").unwrap_or(name);
        parsed(name.starts_with(b"block_").then_some(name), rest)
    }
}

/// The process of `fio 1234`, `fio 1234/1236` and `fio-1234`.
fn pid_of(word: &[u8]) -> Option<u32> {
    let last = word.rsplit(|b| matches!(b, b'-' | b'/')).next()?;
    u32::try_from(whole(last)?).ok()
}

const OTHER: &str = "events of other kinds than block requests";

struct BlockEvents {
    matcher: Matcher,
    tally: Tally,
    lost: u64,
    has_unknown_loss: bool,
}

impl BlockEvents {
    fn event(&mut self, parsed: Parsed<'_>, out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let Parsed { name, time_ns, cpu, pid, mut rest } = parsed;
        let dev = rest.next().unwrap_or(b"");
        let mut action = match name {
            Some(b"block_rq_issue") => Some(Action::Issued),
            Some(b"block_rq_complete") => Some(Action::Completed),
            Some(b"block_rq_requeue") => Some(Action::Requeued),
            Some(b"block_bio_queue") => Some(Action::Queued),
            _ => None,
        };
        let mut rwbs = rest.next().unwrap_or(b"");
        if name == Some(b"blk") {
            if rwbs.iter().all(u8::is_ascii_digit) {
                rwbs = rest.next().unwrap_or(b"");
            }
            action = match rwbs {
                b"Q" => Some(Action::Queued),
                b"D" => Some(Action::Issued),
                b"R" => Some(Action::Requeued),
                b"C" => Some(Action::Completed),
                _ => None,
            };
            rwbs = rest.next().unwrap_or(b"");
        }
        let Some(action) = action else {
            count(&mut self.tally, OTHER);
            return Ok(());
        };
        let device =
            device(dev).ok_or_else(|| Bad::field("device", dev, "major,minor, such as 8,0"))?;
        let (mut last, mut range) = (&b""[..], None);
        while let Some(word) = rest.next() {
            if word == b"+" {
                range = Some((last, rest.next().unwrap_or(b"")));
                break;
            }
            last = word;
        }
        let (sector, count) = match range {
            Some((sector, count)) => (sector, number("sectors", count)?),
            None => (&b"0"[..], 0),
        };
        let bytes = sectors("sectors", count, SECTOR_BYTES)?;
        let kind = kind_of(rwbs, bytes)
            .ok_or_else(|| Bad::field("RWBS", rwbs, "R, W, D, F, Z or N first"))?;
        // What has no bytes has no place either, and may say -1.
        let sector = if bytes == 0 { 0 } else { number("sector", sector)? };
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
}

impl LineFormat for BlockEvents {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if let Some(lost) = lost_by(line) {
            self.lost += lost;
            self.has_unknown_loss |= lost == 0;
            return Ok(());
        }
        if is_said(line) {
            return Ok(());
        }
        let parsed = Parsed::of(line).ok_or_else(|| {
            Bad::field("the line", line.trim_ascii(), "process, CPU, time: event: device RWBS ...")
        })?;
        if parsed.name.is_none() {
            count(&mut self.tally, OTHER);
            return Ok(());
        }
        self.event(parsed, out)
    }

    fn finish(&mut self, out: &mut Vec<IoRequest>) {
        self.matcher.finish(out);
    }

    fn tell(&self, facts: &mut Facts) {
        facts.left_out.extend(self.tally.clone());
        self.matcher.tell(facts);
        facts.tell_lost(self.lost, ", as the text says");
        if self.has_unknown_loss {
            facts.warnings.push(
                "events are missing, as the text says, and not how many: counts and bytes are too \
                 low"
                .to_owned(),
            );
        }
    }

    fn streams_are_volumes(&self) -> bool {
        self.matcher.streams_are_volumes()
    }
}
