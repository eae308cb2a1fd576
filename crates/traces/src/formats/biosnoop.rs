//! Output of `biosnoop`: that of bcc, of libbpf-tools, and of their successors.

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest, Nanos};

use crate::error::{Bad, TraceError};
use crate::fields::{SECTOR_BYTES, Words, number, number32, time, whole};
use crate::formats::blk_events::{Kind, kind_of};
use crate::formats::by_issue::{AHEAD_NS, ByIssue, Names};
use crate::formats::{Fit, Format};
use crate::input::{Head, Input};
use crate::reader::{Facts, Tally, checked, count, sectors};
use crate::text::{LineFormat, TextReader, fit_of};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "biosnoop",
        aliases: &["bcc_biosnoop"],
        summary: "biosnoop of bcc and of libbpf-tools, with its header: TIME(s) COMM PID DISK T \
                  SECTOR BYTES [QUE(ms)] LAT(ms); a line is a completion, LAT before it the \
                  request was issued; bcc shows discards as R",
        source: "iovisor/bcc, tools/biosnoop.py and libbpf-tools/biosnoop.c",
        params: &[
            Param {
                name: "stream",
                kind: ParamKind::Choice(&["disk", "pid"]),
                default: "disk",
                help: "what tells streams apart; disks are volumes of their own",
            },
            Param {
                name: "disk",
                kind: ParamKind::Text,
                default: "all",
                help: "which disk, such as nvme0n1",
            },
        ],
    },
    endings: &[],
    fit,
    read: |input, args: &Args, skip_bad| Ok(Box::new(open(input, args, skip_bad)?)),
    write: None,
};

fn fit(head: Head<'_>) -> Fit {
    let mut lines = head.lines().skip_while(|line| !is_header(line));
    let Some(header) = lines.next() else { return Fit::No };
    let Ok(columns) = Columns::of(header) else { return Fit::No };
    let mut format = Biosnoop::new(columns, "all", false);
    let (mut good, mut bad, mut out) = (1, 0, Vec::new());
    for line in lines.take(32) {
        if format.line(line, &mut out).is_ok() { good += 1 } else { bad += 1 }
    }
    match fit_of(good, bad) {
        Fit::No => Fit::No,
        _ => Fit::Certain,
    }
}

fn open(input: Input, args: &Args, skip_bad: u64) -> Result<TextReader<Biosnoop>, TraceError> {
    let path = input.path().to_owned();
    let unusable = |reason, right| TraceError::Unusable { path: path.clone(), reason, right };
    let header = input.head().lines().find(|line| is_header(line));
    let Some(header) = header else {
        return Err(unusable(
            "it lacks the header, which says what its columns are".to_owned(),
            "the first line that biosnoop prints, TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)",
        ));
    };
    let columns = Columns::of(header).map_err(|reason| {
        unusable(reason, "biosnoop of bcc or libbpf-tools, which print SECTOR and BYTES")
    })?;
    let format = Biosnoop::new(columns, args.text("disk"), args.text("stream") == "pid");
    Ok(TextReader::new(input, format, skip_bad))
}

fn is_header(line: &[u8]) -> bool {
    let mut words = Words(line);
    words.next().is_some_and(|first| first.starts_with(b"TIME(")) && words.count() > 2
}

/// Places of the columns; that of the process name may have spaces.
#[derive(Clone, Debug)]
struct Columns {
    time: usize,
    time_digits: usize,
    comm: Option<usize>,
    pid: Option<usize>,
    disk: Option<usize>,
    op: usize,
    sector: usize,
    bytes: usize,
    latency: Option<(usize, usize)>,
    count: usize,
}

impl Columns {
    fn of(header: &[u8]) -> Result<Self, String> {
        let names: Vec<&[u8]> = Words(header).collect();
        let at = |name: &[u8]| names.iter().position(|other| *other == name);
        // A time and its unit: seconds have nine digits of nanoseconds.
        let timed = |name: &[u8]| {
            names.iter().enumerate().find_map(|(index, other)| {
                let unit = other.strip_prefix(name)?.strip_prefix(b"(")?.strip_suffix(b")")?;
                let digits = match unit {
                    b"s" => 9,
                    b"ms" => 6,
                    b"us" => 3,
                    b"ns" => 0,
                    _ => return None,
                };
                Some((index, digits))
            })
        };
        let missing = |name: &str| format!("its header has no {name}");
        let (time, time_digits) = timed(b"TIME").ok_or_else(|| missing("TIME(s)"))?;
        let needed = |name: &'static str| at(name.as_bytes()).ok_or_else(|| missing(name));
        Ok(Self {
            time,
            time_digits,
            comm: at(b"COMM"),
            pid: at(b"PID"),
            disk: at(b"DISK"),
            op: at(b"T").or_else(|| at(b"TYPE")).ok_or_else(|| missing("T"))?,
            sector: needed("SECTOR")?,
            bytes: needed("BYTES")?,
            latency: timed(b"LAT"),
            count: names.len(),
        })
    }
}

impl Columns {
    /// Returns true if the name of the disk is blank: the operation then stands in its place.
    fn has_no_disk(&self, words: &[&[u8]]) -> bool {
        let at = |index: usize| words.get(index).copied().unwrap_or(b"");
        words.len() + 1 == self.count
            && self.disk.is_some_and(|disk| {
                disk + 1 == self.op && at(disk).len() <= 4 && kind_of(at(disk), 1).is_some()
            })
            && whole(at(self.sector.saturating_sub(1))).is_some()
    }
}

/// No device reads more at once: what bcc calls a larger read is a discard.
const MOST_READ_BYTES: u64 = 32 << 20;

const UNSEEN: &str = "requests that biosnoop did not see from their start: it has no place of them";
const FLUSHES: &str = "requests of 0 bytes: taken as flushes";
const DISCARDS: &str = "reads of more than 32 MiB, which are discards: taken as trims";
const ELSEWHERE: &str = "requests of other disks";

struct Biosnoop {
    columns: Columns,
    only: Option<Vec<u8>>,
    by_pid: bool,
    disks: Names,
    order: ByIssue,
    tally: Tally,
    lost: u64,
}

impl Biosnoop {
    fn new(columns: Columns, disk: &str, by_pid: bool) -> Self {
        Self {
            columns,
            only: (disk != "all").then(|| disk.as_bytes().to_owned()),
            by_pid,
            disks: Names::default(),
            order: ByIssue::default(),
            tally: Tally::new(),
            lost: 0,
        }
    }

    /// A field of a line whose process name has more words than one.
    fn field<'a>(&self, words: &[&'a [u8]], at: usize) -> &'a [u8] {
        let more = words.len() - self.columns.count;
        if self.columns.comm.is_some_and(|comm| at > comm) { words[at + more] } else { words[at] }
    }

    fn operation(&mut self, rwbs: &[u8], bytes: u64) -> Result<Option<(IoOp, bool)>, Bad> {
        if bytes == 0 && !rwbs.starts_with(b"N") {
            if !rwbs.starts_with(b"F") {
                count(&mut self.tally, FLUSHES);
            }
            return Ok(Some((IoOp::Flush, false)));
        }
        Ok(match kind_of(rwbs, bytes) {
            Some(Kind::Request { op: IoOp::Read, .. }) if bytes > MOST_READ_BYTES => {
                count(&mut self.tally, DISCARDS);
                Some((IoOp::Trim, false))
            }
            Some(Kind::Request { op, is_fua, .. }) => Some((op, is_fua)),
            Some(Kind::WriteZeroes) => Some((IoOp::Trim, false)),
            Some(Kind::Other(reason)) => {
                count(&mut self.tally, reason);
                None
            }
            None => return Err(Bad::field("T", rwbs, "R, W, D or F first")),
        })
    }
}

impl LineFormat for Biosnoop {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let is_said = line.starts_with(b"Tracing ") || line.starts_with(b"Attach");
        if is_header(line) || is_said {
            return Ok(());
        }
        let words: Vec<&[u8]> = Words(line).collect();
        if let [b"Possibly", b"lost", lost, ..] | [b"lost", lost, ..] | [b"Lost", lost, ..] =
            words.as_slice()
        {
            self.lost += number("lost events", lost)?;
            return Ok(());
        }
        let columns = &self.columns;
        if columns.has_no_disk(&words) {
            count(&mut self.tally, UNSEEN);
            return Ok(());
        }
        if words.len() < columns.count {
            let reason = format!("{} fields instead of {}", words.len(), columns.count);
            return Err(Bad::new(reason, "as many as the header has"));
        }
        let field = |at: usize| self.field(&words, at);
        let ended: Nanos = time("TIME", field(columns.time), columns.time_digits)?;
        let bytes = number("BYTES", field(columns.bytes))?;
        let latency_ns = match columns.latency {
            Some((at, digits)) => Some(time("LAT", field(at), digits)?),
            None => None,
        };
        let disk = columns.disk.map_or(&b""[..], field);
        let (rwbs, sector) = (field(columns.op), field(columns.sector));
        let pid = columns.pid.map_or(Ok(0), |at| number32("PID", field(at)))?;
        if matches!(disk, b"<unknown>" | b"[unknown]" | b"?") && bytes > 0 && sector == b"0" {
            count(&mut self.tally, UNSEEN);
            return Ok(());
        }
        if self.only.as_ref().is_some_and(|only| only != disk) {
            count(&mut self.tally, ELSEWHERE);
            return Ok(());
        }
        let Some((op, is_fua)) = self.operation(rwbs, bytes)? else { return Ok(()) };
        // A flush has no place, and -1 for it.
        let offset = if op == IoOp::Flush {
            0
        } else {
            sectors("SECTOR", number("SECTOR", sector)?, SECTOR_BYTES)?
        };
        let stream = if self.by_pid {
            pid
        } else {
            let number = self.disks.number(disk);
            number.ok_or_else(|| Bad::field("DISK", disk, "one of at most 65536 disks"))?
        };
        let request = checked(ended, op, offset, bytes, stream)?;
        self.order.take(IoRequest { latency_ns, is_fua, ..request }, out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<IoRequest>) {
        self.order.finish(out);
    }

    fn clock_ahead_ns(&self) -> u64 {
        AHEAD_NS
    }

    fn tell(&self, facts: &mut Facts) {
        facts.left_out.extend(self.tally.clone());
        facts.tell_lost(self.lost, ", as biosnoop says");
        if self.tally.contains_key(UNSEEN) {
            facts.warnings.push(
                "some requests have no place in it, as they began before biosnoop: they are left \
                 out"
                .to_owned(),
            );
        }
    }

    fn streams_are_volumes(&self) -> bool {
        !self.by_pid
    }
}
