//! fio's logs of latencies, bandwidth and IOPS, which have a line for each request.

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest};

use crate::error::{Bad, TraceError};
use crate::fields::{Split, number, whole};
use crate::formats::by_issue::{AHEAD_NS, ByIssue};
use crate::formats::{Fit, Format};
use crate::input::{Head, Input};
use crate::reader::checked;
use crate::text::{LineFormat, TextReader, fit_of};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "fio_log",
        aliases: &["fio_lat_log", "fio_bw_log"],
        summary: "fio's write_lat_log, write_bw_log, write_iops_log with log_offset=1 and without \
                  log_avg_msec: time (ms), value, direction, bytes, offset [, priority, issue \
                  time]; a line is a completion",
        source: "fio HOWTO, `Log File Formats`",
        params: &[Param {
            name: "value",
            kind: ParamKind::Choice(&["auto", "latency", "other"]),
            default: "auto",
            help: "what the second field is: `latency` in ns, or something else; auto goes by the \
                   name, _lat and _clat",
        }],
    },
    endings: &[".log"],
    fit,
    read: |input, args: &Args, skip_bad| Ok(Box::new(open(input, args, skip_bad)?)),
    write: None,
};

/// Content of the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Requests,
    /// Without log_offset=1.
    NoOffsets,
    /// With log_avg_msec.
    Averages,
}

/// The shape of a log; `None` if it is no log of fio.
pub(crate) fn shape(head: Head<'_>) -> Option<Shape> {
    let is_named =
        ["_lat.", "_clat.", "_slat.", "_bw.", "_iops."].iter().any(|kind| head.name.contains(kind))
            && head.name.ends_with(".log");
    let (mut good, mut bad, mut averages, mut offsets) = (0, 0, 0, 0);
    for line in head.lines().take(64) {
        let fields: Vec<&[u8]> = Split::commas(line).collect();
        let is_line = (4..=7).contains(&fields.len())
            && fields[..2].iter().all(|field| whole(field).is_some())
            && matches!(fields[2], b"0" | b"1" | b"2")
            && whole(fields[3]).is_some_and(|bytes| bytes >= 512 || bytes == 0 && is_named);
        if !is_line {
            bad += 1;
            continue;
        }
        good += 1;
        averages += usize::from(fields[3] == b"0");
        // The fifth of five fields is the offset, or the priority: 0, 1 or hexadecimal.
        let is_offset = match fields.len() {
            4 => false,
            5 => whole(fields[4]).is_some_and(|value| value > 1),
            _ => whole(fields[4]).is_some(),
        };
        offsets += usize::from(is_offset);
    }
    // Three lines of numbers may be anything.
    if good <= bad || good < 3 && !is_named {
        None
    } else if 2 * averages > good {
        Some(Shape::Averages)
    } else if offsets == 0 {
        Some(Shape::NoOffsets)
    } else {
        Some(Shape::Requests)
    }
}

fn fit(head: Head<'_>) -> Fit {
    if shape(head).is_some() { fit_of(2, 0) } else { Fit::No }
}

fn open(input: Input, args: &Args, skip_bad: u64) -> Result<TextReader<FioLog>, TraceError> {
    let head = input.head();
    let refused = |reason: &str, right| {
        let path = input.path().to_owned();
        Err(TraceError::Unusable { path, reason: reason.to_owned(), right })
    };
    match shape(head) {
        Some(Shape::NoOffsets) => {
            return refused(
                "a log of fio without the offsets of its requests",
                "one that fio wrote with log_offset=1, or its write_iolog",
            );
        }
        Some(Shape::Averages) => {
            return refused(
                "a log of fio with averages over times, not with requests",
                "one that fio wrote without log_avg_msec and with log_offset=1, or its write_iolog",
            );
        }
        Some(Shape::Requests) | None => {}
    }
    let has_latency = match args.text("value") {
        "latency" => true,
        "other" => false,
        _ => head.name.contains("_lat.") || head.name.contains("_clat."),
    };
    Ok(TextReader::new(input, FioLog { has_latency, order: ByIssue::default() }, skip_bad))
}

struct FioLog {
    has_latency: bool,
    order: ByIssue,
}

impl LineFormat for FioLog {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let fields: Vec<&[u8]> = Split::commas(line).collect();
        let [at, value, direction, bytes, offset, ..] = fields[..] else {
            return Err(Bad::new(
                format!("{} fields", fields.len()),
                "time, value, direction, bytes, offset: fio writes them with log_offset=1",
            ));
        };
        let op = match direction {
            b"0" => IoOp::Read,
            b"1" => IoOp::Write,
            b"2" => IoOp::Trim,
            _ => return Err(Bad::field("direction", direction, "0 (read), 1 (write), 2 (trim)")),
        };
        let ended = number("time", at)?.checked_mul(1_000_000);
        let ended = ended.ok_or_else(|| Bad::field("time", at, "milliseconds that fit 2^64 ns"))?;
        let value = number("value", value)?;
        let mut request =
            checked(ended, op, number("offset", offset)?, number("block size", bytes)?, 0)?;
        request.latency_ns = self.has_latency.then_some(value);
        self.order.take(request, out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<IoRequest>) {
        self.order.finish(out);
    }

    fn clock_ahead_ns(&self) -> u64 {
        AHEAD_NS
    }

    fn streams_are_volumes(&self) -> bool {
        false
    }
}
