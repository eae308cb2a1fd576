//! fio's I/O logs, version 2 and 3.

use std::collections::HashMap;
use std::io::Write;

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest, Nanos};

use crate::error::{Bad, TraceError};
use crate::fields::{Words, exactly, number};
use crate::formats::{Fit, Format};
use crate::reader::checked;
use crate::text::{LineFormat, TextReader};
use crate::writer::{LineWriter, Origin, Refused, TextWriter};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "fio_iolog",
        aliases: &["fio", "iolog"],
        summary: "fio iolog: version 3 has times (microseconds), version 2 waits, whose sum is the \
                  time; a stream is a file; sync and datasync are flushes",
        source: "fio HOWTO, `Trace file format v2` and `v3`",
        params: &[
            Param {
                name: "version",
                kind: ParamKind::Choice(&["2", "3"]),
                default: "3",
                help: "when writing: which version; a file that is read says so itself",
            },
            Param {
                name: "file",
                kind: ParamKind::Text,
                default: "/dev/flashwright",
                help: "when writing: the file that fio shall use, without spaces; where streams \
                       are volumes, `.` and the stream follow",
            },
        ],
    },
    endings: &[".iolog", ".fio", ".log"],
    fit: |head| match head.lines().next().map(version) {
        Some(Some(_)) => Fit::Certain,
        _ => Fit::No,
    },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, Iolog::default(), skip_bad))),
    write: Some(|output, args: &Args, origin: &Origin| {
        let version = if args.text("version") == "2" { 2 } else { 3 };
        let lines = IologLines {
            version,
            file: args.text("file").to_owned(),
            file_per_stream: origin.streams_are_volumes,
            named: HashMap::new(),
            last: None,
            name: String::new(),
            started: false,
            waited_us: 0,
            last_us: 0,
        };
        Ok(Box::new(TextWriter::new(output, lines, FORMAT.info.name, false)) as _)
    }),
};

fn version(line: &[u8]) -> Option<u8> {
    match line {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

/// Names of files are kept in memory: more than this many is no trace that fio could replay.
const MOST_FILES: usize = 1 << 16;

#[derive(Default)]
struct Iolog {
    version: Option<u8>,
    files: HashMap<Vec<u8>, u32>,
    last: (Vec<u8>, u32),
    waited_us: u64,
}

impl Iolog {
    /// The number of a file, in the order in which the log names them.
    fn stream(&mut self, name: &[u8]) -> Result<u32, Bad> {
        if !self.files.is_empty() && self.last.0 == name {
            return Ok(self.last.1);
        }
        let next = self.files.len();
        let number = match self.files.get(name) {
            Some(&number) => number,
            None if next == MOST_FILES => {
                return Err(Bad::new(format!("more than {MOST_FILES} files"), "fewer files"));
            }
            None => {
                self.files.insert(name.to_owned(), next as u32);
                next as u32
            }
        };
        self.last = (name.to_owned(), number);
        Ok(number)
    }
}

impl LineFormat for Iolog {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let Some(version) = self.version else {
            self.version = Some(version(line).ok_or_else(|| {
                Bad::field("the first line", line, "`fio version 2 iolog` or `fio version 3 iolog`")
            })?);
            return Ok(());
        };
        let mut words = Words(line);
        let ns = |text, name| {
            number(name, text)?
                .checked_mul(1000)
                .ok_or_else(|| Bad::field(name, text, "microseconds that fit 2^64 ns"))
        };
        let time_ns: Option<Nanos> =
            if version == 3 { Some(ns(words.next().unwrap_or(b""), "timestamp")?) } else { None };
        let file = words
            .next()
            .ok_or_else(|| Bad::new("the line ends early", "filename action [offset length]"))?;
        let action = words
            .next()
            .ok_or_else(|| Bad::new("the line ends early", "filename action [offset length]"))?;
        let op = match action {
            b"read" => IoOp::Read,
            b"write" => IoOp::Write,
            b"trim" => IoOp::Trim,
            b"sync" | b"datasync" => IoOp::Flush,
            b"add" | b"open" | b"close" => {
                let [] = exactly(&mut words, "filename action")?;
                self.stream(file)?;
                return Ok(());
            }
            b"wait" if version == 2 => {
                let wait_us = number("wait", words.next().unwrap_or(b""))?;
                let sum = self
                    .waited_us
                    .checked_add(wait_us)
                    .filter(|sum| sum.checked_mul(1000).is_some());
                self.waited_us = sum.ok_or_else(|| {
                    Bad::new(format!("waits of {wait_us} us more"), "times that fit 2^64 ns")
                })?;
                return Ok(());
            }
            _ => {
                return Err(Bad::field(
                    "action",
                    action,
                    "add, open, close, read, write, trim, sync, datasync, or wait in version 2",
                ));
            }
        };
        let [offset, length] = exactly(&mut words, "filename action offset length")?;
        let (offset, length) = (number("offset", offset)?, number("length", length)?);
        let stream = self.stream(file)?;
        out.push(checked(time_ns.unwrap_or(self.waited_us * 1000), op, offset, length, stream)?);
        Ok(())
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }
}

struct IologLines {
    version: u8,
    file: String,
    file_per_stream: bool,
    named: HashMap<u32, String>,
    /// The stream of the last request, and its file.
    last: Option<u32>,
    name: String,
    started: bool,
    waited_us: u64,
    last_us: u64,
}

impl LineWriter for IologLines {
    fn line(&mut self, request: &IoRequest, out: &mut Vec<u8>) -> Result<(), Refused> {
        if self.file.is_empty() || self.file.contains(char::is_whitespace) {
            return Err(Refused::Field(
                format!("the file name is `{}`", self.file),
                "a name without spaces",
            ));
        }
        if !self.started {
            self.started = true;
            writeln!(out, "fio version {} iolog", self.version)?;
        }
        let us = request.time_ns / 1000;
        self.last_us = us;
        let stream = if self.file_per_stream { request.stream } else { 0 };
        if self.last != Some(stream) {
            self.last = Some(stream);
            if !self.named.contains_key(&stream) {
                let name = if self.file_per_stream {
                    format!("{}.{stream}", self.file)
                } else {
                    self.file.clone()
                };
                let time = if self.version == 3 { format!("{us} ") } else { String::new() };
                writeln!(out, "{time}{name} add\n{time}{name} open")?;
                self.named.insert(stream, name);
            }
            self.name.clone_from(&self.named[&stream]);
        }
        let name = &self.name;
        if self.version == 2 && us > self.waited_us {
            writeln!(out, "{name} wait {} 0", us - self.waited_us)?;
            self.waited_us = us;
        }
        let action = match request.op {
            IoOp::Flush => "sync",
            other => other.name(),
        };
        if self.version == 3 {
            write!(out, "{us} ")?;
        }
        writeln!(out, "{name} {action} {} {}", request.offset, request.length)?;
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TraceError> {
        use std::fmt::Write;
        let mut text = String::new();
        let infallible = |result: std::fmt::Result| {
            result.unwrap_or_else(|_| unreachable!("a String takes any text"));
        };
        if !self.started {
            infallible(writeln!(text, "fio version {} iolog", self.version));
        }
        let time = if self.version == 3 { format!("{} ", self.last_us) } else { String::new() };
        let mut names: Vec<&String> = self.named.values().collect();
        names.sort();
        for name in names {
            infallible(writeln!(text, "{time}{name} close"));
        }
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
