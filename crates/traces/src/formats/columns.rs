//! Any table of text, whose columns the user names.

use registry::{Args, Info, Param, ParamKind, SpecError};
use units::{IoOp, IoRequest, Nanos};

use crate::error::{Bad, TraceError};
use crate::fields::{Split, Words, is_named, number, operation, scaled, whole};
use crate::formats::by_issue::Names;
use crate::formats::{Fit, Format};
use crate::input::Input;
use crate::reader::{Facts, checked, sectors};
use crate::text::{LineFormat, TextReader};
use crate::when::since_1970;

const fn text(name: &'static str, help: &'static str) -> Param {
    Param { name, kind: ParamKind::Text, default: "", help }
}

const UNITS: &[&str] = &["unknown", "ns", "us", "ms", "s", "100ns", "date"];

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "columns",
        aliases: &["csv"],
        summary: "any table of text: say which columns, by name or by number from 1, have time, \
                  operation, offset and length, and in which units",
        source: "",
        params: &[
            text("time", "column of the time; without it the trace has none"),
            Param {
                name: "unit",
                kind: ParamKind::Choice(UNITS),
                default: "unknown",
                help: "unit of time: it has to be given; date is 2026-11-27 10:00:00.25",
            },
            text("op", "column of the operation; all_writes or all_reads if there is none"),
            text("offset", "column of the first byte, or sector"),
            text("length", "column of the bytes, or sectors"),
            Param {
                name: "sector",
                kind: ParamKind::Bytes { min: 1, max: 1 << 30 },
                default: "1",
                help: "bytes in a unit of offset, and of length: 1 for bytes, 512 for sectors",
            },
            text("length_unit", "bytes in a unit of length, where it is not that of offset"),
            text("stream", "column of who sent it: a disk, a process"),
            Param {
                name: "streams_are",
                kind: ParamKind::Choice(&["senders", "volumes"]),
                default: "senders",
                help: "volumes: equal offsets of two streams are different places",
            },
            text("latency", "column of the time that it took"),
            Param {
                name: "latency_unit",
                kind: ParamKind::Choice(UNITS),
                default: "unknown",
                help: "unit of latency; that of time if it is not given",
            },
            text("read", "words for a read, joined by +, where they are others than R and read"),
            text("write", "words for a write, such as 1"),
            Param {
                name: "delimiter",
                kind: ParamKind::Choice(&["auto", "comma", "semicolon", "tab", "pipe", "space"]),
                default: "auto",
                help: "what stands between two fields",
            },
        ],
    },
    endings: &[],
    fit: |_| Fit::No,
    read: |input, args: &Args, skip_bad| {
        let columns = Columns::of(&input, args)?;
        Ok(Box::new(TextReader::new(input, columns, skip_bad)))
    },
    write: None,
};

/// Separator of fields; `None` stands for spaces and tabs, as many as there are.
type Mark = Option<u8>;

fn mark_of(name: &str, line: &[u8]) -> Mark {
    let count = |mark: u8| memchr::memchr_iter(mark, line).count();
    match name {
        "comma" => Some(b','),
        "semicolon" => Some(b';'),
        "tab" => Some(b'\t'),
        "pipe" => Some(b'|'),
        "space" => None,
        _ => [b',', b';', b'\t', b'|']
            .into_iter()
            .rev()
            .max_by_key(|m| count(*m))
            .filter(|m| count(*m) > 0),
    }
}

fn fields(line: &[u8], mark: Mark) -> Vec<&[u8]> {
    match mark {
        Some(mark) => Split::new(line, mark).collect(),
        None => Words(line).collect(),
    }
}

struct Columns {
    mark: Mark,
    time: Option<(usize, Unit)>,
    op: Op,
    offset: usize,
    length: usize,
    sector_bytes: u64,
    length_bytes: u64,
    stream: Option<usize>,
    are_volumes: bool,
    latency: Option<(usize, Unit)>,
    /// The line that names the columns, if one does.
    header: Option<Vec<u8>>,
    names: Names,
    requests: u64,
    comments: u64,
}

enum Op {
    All(IoOp),
    In { column: usize, reads: Vec<String>, writes: Vec<String> },
}

#[derive(Clone, Copy)]
enum Unit {
    /// Digits of nanoseconds, and what a unit is multiplied with besides.
    Digits(usize, u64),
    Date,
}

impl Unit {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "ns" => Self::Digits(0, 1),
            "us" => Self::Digits(3, 1),
            "ms" => Self::Digits(6, 1),
            "s" => Self::Digits(9, 1),
            "100ns" => Self::Digits(0, 100),
            "date" => Self::Date,
            _ => return None,
        })
    }

    fn read(self, name: &'static str, text: &[u8]) -> Result<Nanos, Bad> {
        match self {
            Self::Digits(digits, times) => {
                scaled(text, digits).and_then(|ns| ns.checked_mul(times)).ok_or_else(|| {
                    let right = if since_1970(text).is_some() {
                        "a number, or unit=date for a date"
                    } else {
                        "a number from 0 that fits 2^64 ns"
                    };
                    Bad::field(name, text, right)
                })
            }
            Self::Date => since_1970(text)
                .ok_or_else(|| Bad::field(name, text, "a date, such as 2026-11-27 10:00:00.25")),
        }
    }
}

fn wrong(key: &str, value: &str, right: impl Into<String>) -> TraceError {
    let right = right.into();
    SpecError::BadValue { name: "columns", key: key.to_owned(), value: value.to_owned(), right }
        .into()
}

impl Columns {
    fn of(input: &Input, args: &Args) -> Result<Self, TraceError> {
        let is_comment = |line: &&[u8]| line.starts_with(b"#") || line.trim_ascii().is_empty();
        let first = input.head().lines().find(|line| !is_comment(line)).unwrap_or(b"");
        let mark = mark_of(args.text("delimiter"), first);
        let first_fields = fields(first, mark);
        let is_header = !first_fields.iter().any(|field| is_value(field));
        let find = |key: &str| -> Result<Option<usize>, TraceError> {
            let name = args.text(key);
            if name.is_empty() {
                return Ok(None);
            }
            let shown = || {
                let shown: Vec<String> =
                    first_fields.iter().take(16).map(|f| f.escape_ascii().to_string()).collect();
                shown.join(", ")
            };
            if let Ok(number) = name.parse::<usize>()
                && !(is_header && first_fields.contains(&name.as_bytes()))
            {
                return match number {
                    1.. if number <= first_fields.len() => Ok(Some(number - 1)),
                    _ => Err(wrong(
                        key,
                        name,
                        format!("from 1 to {}: {}", first_fields.len(), shown()),
                    )),
                };
            }
            let found = first_fields.iter().position(|field| is_named(field, name.as_bytes()));
            match found {
                Some(at) if is_header => Ok(Some(at)),
                _ if is_header => Err(wrong(key, name, format!("one of its columns: {}", shown()))),
                _ => Err(wrong(
                    key,
                    name,
                    format!("a number from 1: its first line names no columns, it is {}", shown()),
                )),
            }
        };
        let needed = |key: &str, what: &str| {
            find(key)?.ok_or_else(|| {
                wrong(key, "", format!("the column of {what}, by name or number, such as {key}=3"))
            })
        };
        let unit = |key: &str, column: &str| {
            Unit::of(args.text(key)).ok_or_else(|| {
                wrong(
                    key,
                    args.text(key),
                    format!("the unit of {column}, {}", UNITS[1..].join(", ")),
                )
            })
        };
        let time = match find("time")? {
            Some(at) => Some((at, unit("unit", "time")?)),
            None => None,
        };
        let latency = match find("latency")? {
            Some(at) if args.text("latency_unit") != "unknown" => {
                Some((at, unit("latency_unit", "latency")?))
            }
            Some(at) => match time {
                Some((_, unit @ Unit::Digits(..))) => Some((at, unit)),
                _ => Some((at, unit("latency_unit", "latency")?)),
            },
            None => None,
        };
        let words = |key: &str| -> Vec<String> {
            let words = args.text(key).split('+').filter(|word| !word.is_empty());
            words.map(|word| word.trim().to_ascii_lowercase()).collect()
        };
        let op = match args.text("op") {
            "all_writes" => Op::All(IoOp::Write),
            "all_reads" => Op::All(IoOp::Read),
            "" => {
                let right = "the column of the operation, or all_writes if every line is a write";
                return Err(wrong("op", "", right));
            }
            _ => Op::In {
                column: needed("op", "the operation")?,
                reads: words("read"),
                writes: words("write"),
            },
        };
        let sector_bytes = args.integer("sector");
        let length_bytes = match args.text("length_unit") {
            "" => sector_bytes,
            text => registry::parse_bytes(text)
                .filter(|bytes| (1..=1 << 30).contains(bytes))
                .ok_or_else(|| wrong("length_unit", text, "bytes, such as 1 or 512"))?,
        };
        Ok(Self {
            mark,
            time,
            op,
            offset: needed("offset", "the first byte or sector")?,
            length: needed("length", "the bytes or sectors")?,
            sector_bytes,
            length_bytes,
            stream: find("stream")?,
            are_volumes: args.text("streams_are") == "volumes",
            latency,
            header: is_header.then(|| first.to_owned()),
            names: Names::default(),
            requests: 0,
            comments: 0,
        })
    }

    fn operation(&self, fields: &[&[u8]]) -> Result<IoOp, Bad> {
        let (column, reads, writes) = match &self.op {
            Op::All(op) => return Ok(*op),
            Op::In { column, reads, writes } => (*column, reads, writes),
        };
        let text = fields[column];
        let lower = String::from_utf8_lossy(text).to_ascii_lowercase();
        if writes.contains(&lower) {
            Ok(IoOp::Write)
        } else if reads.contains(&lower) {
            Ok(IoOp::Read)
        } else {
            operation(text).ok_or_else(|| {
                Bad::field(
                    "op",
                    text,
                    "read, write, trim or flush; say read=... and write=... if \
                           it has other words for them",
                )
            })
        }
    }

    /// A stream by its number, or by its name in the order in which they come.
    fn stream(&mut self, text: &[u8]) -> Result<u32, Bad> {
        if let Some(number) = whole(text).and_then(|number| u32::try_from(number).ok()) {
            return Ok(number);
        }
        let number = self.names.number(text);
        number.ok_or_else(|| Bad::field("stream", text, "one of at most 65536 names"))
    }
}

/// Returns true if a field of the first line is a value, so that the line does not name columns.
fn is_value(field: &[u8]) -> bool {
    scaled(field, 0).is_some() || since_1970(field).is_some()
}

impl LineFormat for Columns {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if line.starts_with(b"#") {
            self.comments += 1;
            return Ok(());
        }
        if self.header.as_deref() == Some(line) {
            return Ok(());
        }
        let found = fields(line, self.mark);
        let columns = [Some(self.offset), Some(self.length), self.stream]
            .into_iter()
            .flatten()
            .chain(self.time.map(|(at, _)| at))
            .chain(self.latency.map(|(at, _)| at))
            .chain(if let Op::In { column, .. } = self.op { Some(column) } else { None });
        if columns.max().is_some_and(|last| last >= found.len()) {
            return Err(Bad::new(
                format!("{} fields", found.len()),
                "as many fields as the columns that are named",
            ));
        }
        let op = self.operation(&found)?;
        let time_ns = match self.time {
            Some((at, unit)) => unit.read("time", found[at])?,
            None => self.requests,
        };
        let of = |name, at: usize, bytes| sectors(name, number(name, found[at])?, bytes);
        let (offset, length) = if op == IoOp::Flush {
            (0, 0)
        } else {
            (
                of("offset", self.offset, self.sector_bytes)?,
                of("length", self.length, self.length_bytes)?,
            )
        };
        let stream = self.stream.map_or(Ok(0), |at| self.stream(found[at]))?;
        let mut request = checked(time_ns, op, offset, length, stream)?;
        if let Some((at, unit)) = self.latency
            && !found[at].is_empty()
        {
            request.latency_ns = Some(unit.read("latency", found[at])?);
        }
        self.requests += 1;
        out.push(request);
        Ok(())
    }

    fn tell(&self, facts: &mut Facts) {
        if self.comments > 0 {
            facts.left_out.insert("comments (lines that begin with #)".into(), self.comments);
        }
    }

    fn has_times(&self) -> bool {
        self.time.is_some()
    }

    fn streams_are_volumes(&self) -> bool {
        self.are_volumes
    }
}
