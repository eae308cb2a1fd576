//! The events that are understood: system calls on files, `io_uring` requests, and new processes.

use rustc_hash::FxHashMap;

use super::format::{EventFormat, Field};
use crate::error::Bad;

/// Operation of a call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOp {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Asks that data reach the device.
    Sync,
    /// Gives a range of the file space on the device.
    Allocate,
    /// Takes space away: the end of the file, or a hole in it.
    Truncate,
}

impl CallOp {
    /// All, in the order of their numbers.
    pub const NAMES: [&str; 5] = ["read", "write", "sync", "allocate", "truncate"];
}

/// Source of a call's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// An argument.
    Told(&'static str),
    /// The position of the open file, which moves on.
    Cursor,
    /// The whole file, or not told to us.
    None,
}

/// A call that becomes a row: name in the table, name in the kernel, what it does, and its
/// arguments.
pub(super) struct FileCall {
    pub(super) name: &'static str,
    kernel: &'static str,
    pub(super) op: CallOp,
    fd: &'static str,
    pub(super) position: Position,
    length: Option<&'static str>,
}

const fn call(
    name: &'static str,
    kernel: &'static str,
    op: CallOp,
    position: Position,
    length: Option<&'static str>,
) -> FileCall {
    FileCall { name, kernel, op, fd: "fd", position, length }
}

use CallOp::{Allocate, Read, Sync, Truncate, Write};
use Position::{Cursor, Told};

/// Calls with a row of their own, in the order of their numbers. The kernel tells no lengths of
/// vectors: theirs are what was done.
pub(super) const CALLS: [FileCall; 17] = [
    call("pread", "pread64", Read, Told("pos"), Some("count")),
    call("pwrite", "pwrite64", Write, Told("pos"), Some("count")),
    call("preadv", "preadv", Read, Told("pos_l"), None),
    call("pwritev", "pwritev", Write, Told("pos_l"), None),
    call("preadv2", "preadv2", Read, Told("pos_l"), None),
    call("pwritev2", "pwritev2", Write, Told("pos_l"), None),
    call("read", "read", Read, Cursor, Some("count")),
    call("write", "write", Write, Cursor, Some("count")),
    call("readv", "readv", Read, Cursor, None),
    call("writev", "writev", Write, Cursor, None),
    call("fsync", "fsync", Sync, Position::None, None),
    call("fdatasync", "fdatasync", Sync, Position::None, None),
    call("sync_file_range", "sync_file_range", Sync, Told("offset"), Some("nbytes")),
    call("fallocate", "fallocate", Allocate, Told("offset"), Some("len")),
    call("ftruncate", "ftruncate", Truncate, Told("length"), None),
    FileCall {
        name: "copy_file_range",
        kernel: "copy_file_range",
        op: Write,
        fd: "fd_out",
        position: Position::None,
        length: Some("len"),
    },
    call("io_uring", "", Read, Position::None, None),
];
pub(super) const IO_URING: u8 = CALLS.len() as u8 - 1;

/// Names of the calls, in the order of their numbers.
#[must_use]
pub fn call_names() -> Vec<&'static str> {
    CALLS.iter().map(|call| call.name).collect()
}

/// Effect on the numbers of open files, of a call that is not a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// The result is a new number, at the beginning of its file unless it appends.
    Open,
    /// The result is a new number, wherever the other one is in its file.
    Duplicate,
    Close,
    CloseRange,
    Seek,
}

/// Kernel name, what it does, and up to two arguments.
const CONTROLS: [(&str, Control, &[&str]); 10] = [
    ("open", Control::Open, &["flags"]),
    ("openat", Control::Open, &["flags"]),
    ("openat2", Control::Open, &[]),
    ("creat", Control::Open, &[]),
    ("dup", Control::Duplicate, &[]),
    ("dup2", Control::Duplicate, &[]),
    ("dup3", Control::Duplicate, &[]),
    ("close", Control::Close, &["fd"]),
    ("close_range", Control::CloseRange, &["fd", "max_fd"]),
    ("lseek", Control::Seek, &["fd"]),
];

/// A call, of either sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Its number in [`CALLS`].
    File(u8),
    /// Its number in [`CONTROLS`].
    Control(u8),
}

impl Call {
    pub(super) fn control(self) -> Option<Control> {
        if let Self::Control(number) = self { Some(CONTROLS[usize::from(number)].1) } else { None }
    }

    /// Returns true if a call of this sort tells the flags of `open`.
    pub(super) fn tells_flags(self) -> bool {
        matches!(self, Self::Control(number) if CONTROLS[usize::from(number)].2 == ["flags"])
    }
}

/// Content of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Enter { call: Call, arguments: [u64; 4] },
    Exit { call: Call, result: i64 },
    RingSubmit { request: u64, opcode: u8 },
    RingFile { request: u64, fd: u64 },
    RingComplete { request: u64, result: i64 },
    Fork { child: u32 },
}

/// Places of the fields in an event's data.
struct Shape {
    kind: ShapeKind,
    thread: Field,
    fields: Vec<Field>,
}

#[derive(Clone, Copy)]
enum ShapeKind {
    Enter(Call),
    Exit(Call),
    RingSubmit,
    RingFile,
    RingComplete,
    Fork,
}

/// All events of a recording that are understood, by their numbers in it.
pub(super) struct Shapes(FxHashMap<u16, Shape>);

impl Shapes {
    pub(super) fn parse(formats: &[String]) -> Result<Self, Bad> {
        let mut shapes = FxHashMap::default();
        for text in formats {
            let format = EventFormat::parse(text)?;
            if let Some(shape) = shape(&format)? {
                shapes.insert(format.id, shape);
            }
        }
        Ok(Self(shapes))
    }

    /// Thread and content of an event; `None` if it is of another kind.
    pub(super) fn read(&self, data: &[u8]) -> Result<Option<(u32, What)>, Bad> {
        let short = || {
            Bad::new(
                format!("an event of {} bytes, less than its format tells", data.len()),
                "whole events",
            )
        };
        let id = data.get(..2).ok_or_else(short)?;
        let Some(shape) = self.0.get(&u16::from_le_bytes([id[0], id[1]])) else { return Ok(None) };
        let thread = shape.thread.get(data).ok_or_else(short)? as u32;
        let mut arguments = [0; 4];
        for (argument, field) in arguments.iter_mut().zip(&shape.fields) {
            *argument = field.get(data).ok_or_else(short)?;
        }
        let [first, second, ..] = arguments;
        let what = match shape.kind {
            ShapeKind::Enter(call) => What::Enter { call, arguments },
            ShapeKind::Exit(call) => What::Exit { call, result: first as i64 },
            ShapeKind::RingSubmit => What::RingSubmit { request: first, opcode: second as u8 },
            ShapeKind::RingFile => What::RingFile { request: first, fd: second },
            ShapeKind::RingComplete => What::RingComplete { request: first, result: second as i64 },
            ShapeKind::Fork => What::Fork { child: first as u32 },
        };
        Ok(Some((thread, what)))
    }
}

fn shape(format: &EventFormat) -> Result<Option<Shape>, Bad> {
    let found = |name: &str| {
        let file = CALLS
            .iter()
            .position(|call| call.kernel == name && !name.is_empty())
            .map(|number| Call::File(number as u8));
        file.or_else(|| {
            CONTROLS
                .iter()
                .position(|(kernel, ..)| *kernel == name)
                .map(|number| Call::Control(number as u8))
        })
    };
    let (kind, names): (ShapeKind, Vec<&str>) =
        if let Some(name) = format.name.strip_prefix("sys_enter_") {
            let Some(call) = found(name) else { return Ok(None) };
            let names = match call {
                Call::File(number) => enter_fields(&CALLS[usize::from(number)]),
                Call::Control(number) => CONTROLS[usize::from(number)].2.to_vec(),
            };
            (ShapeKind::Enter(call), names)
        } else if let Some(name) = format.name.strip_prefix("sys_exit_") {
            let Some(call) = found(name) else { return Ok(None) };
            (ShapeKind::Exit(call), vec!["ret"])
        } else {
            match format.name.as_str() {
                "io_uring_submit_req" => (ShapeKind::RingSubmit, vec!["req", "opcode"]),
                "io_uring_file_get" => (ShapeKind::RingFile, vec!["req", "fd"]),
                "io_uring_complete" => (ShapeKind::RingComplete, vec!["req", "res"]),
                "sched_process_fork" => (ShapeKind::Fork, vec!["child_pid"]),
                _ => return Ok(None),
            }
        };
    let fields: Result<Vec<Field>, Bad> =
        names.into_iter().map(|name| format.field(name)).collect();
    Ok(Some(Shape { kind, thread: format.field("common_pid")?, fields: fields? }))
}

/// Arguments in the order in which `calls.rs` takes them: file, offset, length, mode. What a call
/// lacks repeats its file.
fn enter_fields(call: &FileCall) -> Vec<&'static str> {
    let offset = if let Told(name) = call.position { name } else { call.fd };
    let mode = if call.op == Allocate { "mode" } else { call.fd };
    vec![call.fd, offset, call.length.unwrap_or(call.fd), mode]
}

impl FileCall {
    /// Returns true if the length was an argument.
    pub(super) fn tells_length(&self) -> bool {
        self.length.is_some()
    }
}
