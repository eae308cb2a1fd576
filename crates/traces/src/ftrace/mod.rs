//! System calls, and events of the block layer, out of the kernel's trace buffer: what
//! `trace_pipe_raw` of tracefs gives, one file for each processor.
//!
//! Events of the block layer become a stream as blktrace writes it (`blk_stream`), and numbers of
//! any others are read as they stand (`fields`). Those of system
//! calls are those of `syscalls:sys_enter_*` and `sys_exit_*` on files, and of `io_uring`; numbers
//! of open files become files by what was seen in `/proc/PID/fd`. Written on a little-endian
//! machine: the kernel's bit fields lie otherwise on others.

mod blk_stream;
mod fields;
mod format;
mod open_files;
mod pages;
mod shapes;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use units::Progress;

pub use blk_stream::{BlkStream, write_blk_stream};
pub use fields::{Fields, Kind, read_fields};
pub use format::PageLayout;
pub use open_files::{NOT_WANTED, Sighting};
pub use pages::Losses;
pub use shapes::{CallOp, call_names};

use crate::error::{Bad, TraceError};
use open_files::{OpenFiles, UNKNOWN};
use pages::{CpuPages, Inputs, Next, REPORT_EVENTS, open_all};
use shapes::{CALLS, Call, Control, IO_URING, Position, Shapes, What};

/// Flags and modes of the kernel, the same on all architectures that matter here but for `O_APPEND`
/// on MIPS, SPARC and Alpha.
const O_APPEND: u64 = 0o2000;
const FALLOC_FL_PUNCH_HOLE: u64 = 2;
/// Operations of `io_uring` on data (include/uapi/linux/io_uring.h).
const RING_OPS: [(u8, CallOp); 7] = [
    (1, CallOp::Read),
    (2, CallOp::Write),
    (3, CallOp::Sync),
    (4, CallOp::Read),
    (5, CallOp::Write),
    (22, CallOp::Read),
    (23, CallOp::Write),
];
/// Facts about a recording besides its pages.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// `format` of each event, as tracefs gives it.
    pub formats: Vec<String>,
    /// Thread and its process, where they differ or may differ.
    pub threads: Vec<(u32, u32)>,
    /// Sightings of numbers of open files, in any order.
    pub sightings: Vec<Sighting>,
}

/// One call, from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// Its beginning, in nanoseconds of the trace's clock.
    pub time_ns: u64,
    /// Its duration, in nanoseconds.
    pub duration_ns: u64,
    /// Its number in [`call_names`].
    pub call: u8,
    /// Its operation on the file.
    pub op: CallOp,
    /// As in [`Sighting`]; `None` if nobody has seen it.
    pub file: Option<u32>,
    /// Offset in the file, in bytes, if known; of `ftruncate` the new size.
    pub offset: Option<u64>,
    /// Bytes that were asked for; of calls on vectors and of `io_uring` those that were done.
    pub length: u64,
    /// Result from the kernel: bytes done, or the negative number of an error.
    pub result: i64,
    /// The process.
    pub process: u32,
}

/// All calls of a recording, ordered by their ends, and counts of all else.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The calls on files of interest or on what nobody has seen.
    pub calls: Vec<FileCall>,
    /// Events in the pages, of any kind.
    pub events: u64,
    /// Events of kinds that are not understood.
    pub other_events: u64,
    /// Calls on what is no file of interest: sockets, pipes, files elsewhere.
    pub other_calls: u64,
    /// Calls in `calls` whose file nobody has seen.
    pub unresolved_calls: u64,
    /// Reads and writes in `calls` without an offset.
    pub unplaced_calls: u64,
    /// Beginnings without an end: at the end of the recording, or of a thread, or where events were
    /// lost.
    pub unpaired_enters: u64,
    /// Ends without a beginning.
    pub unpaired_exits: u64,
    /// Numbers of open files of which two looks told different files.
    pub contradicted: u64,
    /// Losses of the kernel or the copier, over all processors.
    pub losses: Losses,
}

/// Reads the pages of all processors.
///
/// Progress counts events, without a total.
///
/// # Errors
/// [`TraceError::Io`]; [`TraceError::Malformed`] with the offset of the byte;
/// [`TraceError::Unusable`] if a format is not one; [`TraceError::Cancelled`].
pub fn read_calls(
    paths: &[PathBuf],
    layout: PageLayout,
    about: &About,
    progress: &Progress,
) -> Result<Calls, TraceError> {
    calls_of(open_all(paths)?, layout, about, progress)
}

/// The same, of anything that gives bytes.
///
/// # Errors
/// As [`read_calls`].
pub fn calls_of(
    inputs: Inputs,
    layout: PageLayout,
    about: &About,
    progress: &Progress,
) -> Result<Calls, TraceError> {
    let unusable = |bad: Bad| {
        let (reason, right) = bad.into_parts();
        TraceError::Unusable {
            path: PathBuf::from("the recording's formats of events"),
            reason,
            right,
        }
    };
    let mut decoder =
        Decoder::new(Shapes::parse(&about.formats).map_err(unusable)?, &about.threads);
    let mut streams: Vec<Stream> =
        inputs.into_iter().map(|(path, input)| Stream::new(&path, input, layout)).collect();
    for stream in &mut streams {
        stream.advance(&mut decoder)?;
    }
    while let Some(first) = (0..streams.len())
        .filter(|n| streams[*n].next.is_some())
        .min_by_key(|n| streams[*n].next.map(|(t, _)| t))
    {
        let stream = &mut streams[first];
        if let Some((time_ns, next)) = stream.next {
            match next {
                Some((thread, what)) => decoder.take(time_ns, thread, what),
                None => decoder.gap(time_ns),
            }
        }
        stream.advance(&mut decoder)?;
        if decoder.calls.events.is_multiple_of(REPORT_EVENTS) {
            progress.advance(REPORT_EVENTS)?;
        }
    }
    for stream in &streams {
        decoder.calls.losses.add(stream.pages.losses);
    }
    Ok(decoder.finish(&about.sightings))
}

/// One processor's events; `next` is the one that comes next, or a gap.
struct Stream {
    pages: CpuPages,
    next: Option<(u64, Option<(u32, What)>)>,
}

impl Stream {
    fn new(path: &Path, input: Box<dyn Read + Send>, layout: PageLayout) -> Self {
        Self { pages: CpuPages::new(path, input, layout), next: None }
    }

    fn advance(&mut self, decoder: &mut Decoder) -> Result<(), TraceError> {
        loop {
            match self.pages.next()? {
                Next::End => self.next = None,
                Next::Gap { time_ns } => self.next = Some((time_ns, None)),
                Next::Event { time_ns, data } => {
                    decoder.calls.events += 1;
                    let read = decoder
                        .shapes
                        .read(self.pages.data(data))
                        .map_err(|bad| self.pages.malformed(bad))?;
                    let Some(event) = read else {
                        decoder.calls.other_events += 1;
                        continue;
                    };
                    self.next = Some((time_ns, Some(event)));
                }
            }
            return Ok(());
        }
    }
}

/// A call that has begun.
struct Begun {
    time_ns: u64,
    call: Call,
    arguments: [u64; 4],
    span: u32,
}

/// A request of an `io_uring` that was submitted.
struct RingRequest {
    time_ns: u64,
    process: u32,
    op: CallOp,
    span: Option<u32>,
}

struct Decoder {
    shapes: Shapes,
    processes: FxHashMap<u32, u32>,
    begun: FxHashMap<u32, Begun>,
    ring: FxHashMap<u64, RingRequest>,
    /// The file that an `io_uring` request takes, which is told before it is submitted or after.
    ring_files: FxHashMap<u64, u32>,
    files: OpenFiles,
    /// With the span instead of the file, until all is read.
    spans: Vec<Option<u32>>,
    calls: Calls,
}

impl Decoder {
    fn new(shapes: Shapes, threads: &[(u32, u32)]) -> Self {
        Self {
            shapes,
            processes: threads.iter().copied().collect(),
            begun: FxHashMap::default(),
            ring: FxHashMap::default(),
            ring_files: FxHashMap::default(),
            files: OpenFiles::default(),
            spans: Vec::new(),
            calls: Calls::default(),
        }
    }

    fn process(&self, thread: u32) -> u32 {
        self.processes.get(&thread).copied().unwrap_or(thread)
    }

    fn gap(&mut self, time_ns: u64) {
        self.calls.unpaired_enters += self.begun.len() as u64 + self.ring.len() as u64;
        self.begun.clear();
        self.ring.clear();
        self.ring_files.clear();
        self.files.gap(time_ns);
    }

    fn take(&mut self, time_ns: u64, thread: u32, what: What) {
        let process = self.process(thread);
        match what {
            What::Enter { call, arguments } => {
                self.enter(time_ns, thread, process, call, arguments);
            }
            What::Exit { call, result } => self.exit(time_ns, thread, process, call, result),
            What::Fork { child } => {
                if self.process(child) != process {
                    self.files.fork(process, child, time_ns);
                }
            }
            What::RingFile { request, fd } => {
                let span = self.files.span(process, fd as u32);
                match self.ring.get_mut(&request) {
                    Some(known) => known.span = Some(span),
                    None => drop(self.ring_files.insert(request, span)),
                }
            }
            What::RingSubmit { request, opcode } => {
                let span = self.ring_files.remove(&request);
                if let Some((_, op)) = RING_OPS.iter().find(|(code, _)| *code == opcode) {
                    let old =
                        self.ring.insert(request, RingRequest { time_ns, process, op: *op, span });
                    self.calls.unpaired_enters += u64::from(old.is_some());
                }
            }
            What::RingComplete { request, result } => {
                // Of another operation than those on data, or submitted before the recording.
                let Some(RingRequest { time_ns: from_ns, process, op, span }) =
                    self.ring.remove(&request)
                else {
                    return;
                };
                let length = if op == CallOp::Sync { 0 } else { result.max(0) as u64 };
                let duration_ns = time_ns.saturating_sub(from_ns);
                let (call, file, offset) = (IO_URING, None, None);
                self.push(
                    FileCall {
                        time_ns: from_ns,
                        duration_ns,
                        call,
                        op,
                        file,
                        offset,
                        length,
                        result,
                        process,
                    },
                    span,
                );
            }
        }
    }

    fn enter(&mut self, time_ns: u64, thread: u32, process: u32, call: Call, arguments: [u64; 4]) {
        let fd = arguments[0] as u32;
        // From its beginning on, a close may let somebody else have the number.
        match call.control() {
            Some(Control::Close) => return self.files.close(process, fd, time_ns),
            Some(Control::CloseRange) => {
                return self.files.close_range(process, fd, arguments[1] as u32, time_ns);
            }
            _ => {}
        }
        let span = match call {
            Call::File(_) => self.files.span(process, fd),
            Call::Control(_) if call.control() == Some(Control::Seek) => {
                self.files.span(process, fd)
            }
            Call::Control(_) => 0,
        };
        let old = self.begun.insert(thread, Begun { time_ns, call, arguments, span });
        self.calls.unpaired_enters += u64::from(old.is_some());
    }

    fn exit(&mut self, time_ns: u64, thread: u32, process: u32, call: Call, result: i64) {
        let begun = self.begun.remove(&thread).filter(|begun| {
            let is_same = begun.call == call;
            self.calls.unpaired_enters += u64::from(!is_same);
            is_same
        });
        match call.control() {
            None => {}
            Some(Control::Close | Control::CloseRange) => return,
            Some(Control::Open) if result >= 0 => {
                let at_start = call.tells_flags()
                    && begun.is_some_and(|begun| begun.arguments[0] & O_APPEND == 0);
                return self.files.open(process, result as u32, time_ns, at_start.then_some(0));
            }
            Some(Control::Duplicate) if result >= 0 => {
                return self.files.open(process, result as u32, time_ns, None);
            }
            Some(Control::Open | Control::Duplicate) => return,
            Some(Control::Seek) => {
                if let (Some(begun), Ok(at)) = (begun, u64::try_from(result)) {
                    self.files.seek(begun.span, Some(at));
                }
                return;
            }
        }
        let (Some(Begun { time_ns: from_ns, arguments, span, .. }), Call::File(number)) =
            (begun, call)
        else {
            self.calls.unpaired_exits += 1;
            return;
        };
        let kind = &CALLS[usize::from(number)];
        let done = result.max(0) as u64;
        let offset = match kind.position {
            // An offset of -1 stands for the position of the file in the calls on vectors.
            Position::Told(_) if arguments[1] != u64::MAX => Some(arguments[1]),
            Position::Told(_) | Position::Cursor => self.files.advance(span, done),
            Position::None => None,
        };
        let length = if kind.tells_length() {
            arguments[2]
        } else if matches!(kind.op, CallOp::Read | CallOp::Write) {
            done
        } else {
            0
        };
        let is_hole = kind.op == CallOp::Allocate && arguments[3] & FALLOC_FL_PUNCH_HOLE != 0;
        let op = if is_hole { CallOp::Truncate } else { kind.op };
        let duration_ns = time_ns.saturating_sub(from_ns);
        self.push(
            FileCall {
                time_ns: from_ns,
                duration_ns,
                call: number,
                op,
                file: None,
                offset,
                length,
                result,
                process,
            },
            Some(span),
        );
    }

    fn push(&mut self, call: FileCall, span: Option<u32>) {
        self.calls.calls.push(call);
        self.spans.push(span);
    }

    fn finish(mut self, sightings: &[Sighting]) -> Calls {
        self.files.see(sightings);
        let mut found = self.calls;
        found.unpaired_enters += self.begun.len() as u64 + self.ring.len() as u64;
        found.contradicted = self.files.contradicted();
        let mut spans = self.spans.into_iter();
        let (files, counts) = (
            &self.files,
            (&mut found.other_calls, &mut found.unresolved_calls, &mut found.unplaced_calls),
        );
        found.calls.retain_mut(|call| {
            let file = spans.next().flatten().map_or(UNKNOWN, |span| files.file(span));
            if file == NOT_WANTED {
                *counts.0 += 1;
                return false;
            }
            call.file = (file != UNKNOWN).then_some(file);
            *counts.1 += u64::from(file == UNKNOWN);
            *counts.2 +=
                u64::from(call.offset.is_none() && matches!(call.op, CallOp::Read | CallOp::Write));
            true
        });
        found
    }
}
