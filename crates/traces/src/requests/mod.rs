//! A trace as a drive sees it: its requests, at addresses that the drive has.
//!
//! A trace's addresses are those of the disk that it was recorded on, or of several volumes; most
//! of them it never touches. So the extents of 1 MiB that it reads or writes are put next to each
//! other on the drive, in ascending order of address (of stream, then address, where streams are
//! volumes, [`Facts::streams_are_volumes`]): what was sequential stays so, neighbours stay
//! neighbours, and every request stays as long as it was. If that is more than the drive has, it is
//! an error that says how much is needed, unless addresses may be folded.
//!
//! Trims are kept as far as they cover such extents; what lies outside was never read or written,
//! and the drive has no place for it. One that covers none is left out, and counted, and so is a
//! request of no bytes that is no flush. Latencies are dropped.

mod extents;
mod recorded;
mod source;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use registry::Spec;
use units::{IoOp, Progress, RequestSource};

use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, Trace, open};
use crate::pages::table::Cursor;
use crate::reader::Facts;
use crate::writer::SourceFile;
use extents::{Extents, Placed};
use source::{FileRequests, InMemory, MemoryRequests, Packed, Selected};

pub use recorded::Recorded;
pub use source::{Folded, Repeated, folded};

/// Bytes of an extent, within which addresses stay as they are.
pub const EXTENT_BYTES: u64 = 1 << 20;

/// Settings with which a trace is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The format and its parameters; told by content if `None`.
    pub format: Option<Spec>,
    /// Malformed records to pass over and count before one is an error.
    pub skip_bad: u64,
    /// Requests (24 bytes each) are kept in memory up to this many bytes; beyond, the file is read
    /// again by every source.
    pub memory_limit_bytes: u64,
    /// Requests at the beginning that are passed over, as if the trace began behind them.
    pub start: u64,
    /// Most requests to take; `u64::MAX` for all.
    pub limit: u64,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { format: None, skip_bad: 0, memory_limit_bytes: 4 << 30, start: 0, limit: u64::MAX }
    }
}

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests, by the number of their [`IoOp`].
    pub by_op: [u64; IoOp::ALL.len()],
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests left out: trims of what is never read or written, and those of no bytes.
    pub left_out: u64,
}

impl Counts {
    /// Requests of every kind.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.by_op.iter().sum()
    }

    fn add(&mut self, op: IoOp, length: u32) {
        self.by_op[op as usize] += 1;
        match op {
            IoOp::Read => self.read_bytes += u64::from(length),
            IoOp::Write => self.written_bytes += u64::from(length),
            IoOp::Trim | IoOp::Flush => {}
        }
    }
}

/// A trace that was read once, and the way to play it.
pub struct LoadedRequests {
    /// Its path.
    pub path: PathBuf,
    /// Name of the format read.
    pub format: &'static str,
    /// The files read, with their hashes; none for standard input.
    pub sources: Vec<SourceFile>,
    /// Facts found while reading: malformed records skipped, and if there are times.
    pub facts: Facts,
    /// Requests by kind, and their bytes.
    pub counts: Counts,
    /// Bytes that a drive needs to hold all extents: up to the last byte read or written in the
    /// last of them.
    pub footprint_bytes: u64,
    /// Time of the latest request, in nanoseconds since the first one taken.
    pub duration_ns: u64,
    /// Requests that were passed over at the beginning, and the most that were to be taken.
    pub part: (u64, u64),
    kept: Kept,
}

enum Kept {
    InMemory(Arc<InMemory>),
    /// Behind a lock only because an open file is not shared between threads; each source opens its
    /// own.
    InFile(Box<Mutex<FileRequests>>),
}

impl std::fmt::Debug for LoadedRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("LoadedRequests");
        out.field("path", &self.path)
            .field("counts", &self.counts)
            .field("footprint_bytes", &self.footprint_bytes);
        out.finish_non_exhaustive()
    }
}

impl LoadedRequests {
    /// The requests from the start, for a drive of `capacity_bytes`. May be called any number of
    /// times; the sources share what is in memory and may run at the same time. With `fold`,
    /// addresses beyond the capacity are taken modulo it: see [`Folded`].
    ///
    /// # Errors
    /// [`TraceError::Unusable`] if the footprint is larger than the drive and may not be folded.
    pub fn source(
        &self,
        capacity_bytes: u64,
        fold: bool,
    ) -> Result<Box<dyn RequestSource>, TraceError> {
        let all = self.all();
        if self.footprint_bytes <= capacity_bytes {
            return Ok(all);
        }
        if fold {
            return Ok(Box::new(Folded::new(all, capacity_bytes)));
        }
        Err(TraceError::Unusable {
            path: self.path.clone(),
            reason: format!(
                "its requests need {} bytes (in extents of 1 MiB), and the drive has \
                 {capacity_bytes}",
                self.footprint_bytes
            ),
            right: "a drive of that size, or --fold",
        })
    }

    /// The requests from the start, for a drive that is large enough.
    #[must_use]
    pub fn all(&self) -> Box<dyn RequestSource> {
        match &self.kept {
            Kept::InMemory(requests) => Box::new(MemoryRequests::new(Arc::clone(requests))),
            Kept::InFile(source) => {
                Box::new(source.lock().unwrap_or_else(PoisonError::into_inner).fresh())
            }
        }
    }

    /// Returns true if the requests are in memory, rather than read from the file each time.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.kept, Kept::InMemory(_))
    }
}

/// Data gathered in one pass over the trace.
struct Gathered {
    extents: Extents,
    /// `None` once they are more than the limit.
    requests: Option<InMemory>,
    most: u64,
    base_ns: Option<u64>,
    duration_ns: u64,
    taken: u64,
}

/// Reads a trace once, and finds a place for its requests. Progress counts bytes of the file.
///
/// # Errors
/// Any [`TraceError`] of reading; [`TraceError::Unusable`] if nothing is read or written, or the
/// trace does not fit the memory limit and cannot be read again because it is standard input.
pub fn load(
    path: &Path,
    options: &LoadOptions,
    progress: &Progress,
) -> Result<LoadedRequests, TraceError> {
    let unusable =
        |reason: String, right| TraceError::Unusable { path: path.to_owned(), reason, right };
    let how = OpenOptions { format: options.format.clone(), skip_bad: options.skip_bad };
    let mut trace = open(path, &how)?;
    progress.set_total(trace.total_bytes());
    let mut gathered = Gathered {
        extents: Extents::default(),
        requests: Some(InMemory::default()),
        most: options.memory_limit_bytes / size_of::<Packed>() as u64,
        base_ns: None,
        duration_ns: 0,
        taken: 0,
    };
    gather(&mut trace, &mut gathered, options, progress)?;
    let facts = trace.facts();
    let Some(footprint_bytes) = gathered.extents.finish() else {
        return Err(unusable(
            format!("none of its {} requests reads or writes", gathered.taken),
            "a trace with reads or writes",
        ));
    };
    let (sources, format) = (trace.sources()?, trace.format().info.name);
    let extents = Arc::new(gathered.extents);
    let (counts, kept) = if let Some(mut requests) = gathered.requests {
        let counts = place_all(&mut requests, &extents, facts.streams_are_volumes);
        (counts, Kept::InMemory(Arc::new(requests)))
    } else if trace.can_reopen() {
        let window = Selected::new(options.start, options.limit);
        let mut file = FileRequests::new(path, how, window, extents, gathered.base_ns.unwrap_or(0));
        let counts = file.count(progress)?;
        (counts, Kept::InFile(Box::new(Mutex::new(file))))
    } else {
        let reason = format!(
            "its requests need more than the limit of {} bytes",
            options.memory_limit_bytes
        );
        return Err(unusable(reason, "a file that can be read again, or a higher limit"));
    };
    let (path, duration_ns, part) =
        (path.to_owned(), gathered.duration_ns, (options.start, options.limit));
    Ok(LoadedRequests {
        path,
        format,
        sources,
        facts,
        counts,
        footprint_bytes,
        duration_ns,
        part,
        kept,
    })
}

fn gather(
    trace: &mut Trace,
    gathered: &mut Gathered,
    options: &LoadOptions,
    progress: &Progress,
) -> Result<(), TraceError> {
    let mut batch = Vec::with_capacity(BATCH_REQUESTS);
    let mut window = Selected::new(options.start, options.limit);
    while !window.is_over() && trace.read_batch(&mut batch, BATCH_REQUESTS)? > 0 {
        let by_volume = trace.facts().streams_are_volumes;
        let taken = &batch[window.next(batch.len())];
        for request in taken {
            let base = *gathered.base_ns.get_or_insert(request.time_ns);
            gathered.duration_ns = gathered.duration_ns.max(request.time_ns.saturating_sub(base));
            gathered.extents.touch(request, by_volume);
            if let Some(requests) = &mut gathered.requests {
                requests.push(request, base);
            }
        }
        gathered.taken += taken.len() as u64;
        gathered.requests =
            gathered.requests.take().filter(|requests| requests.len() <= gathered.most);
        if gathered.extents.are_too_many() {
            let reason = "it reads or writes more than 2^30 extents of 1 MiB".to_owned();
            return Err(TraceError::Unusable {
                path: trace.path().to_owned(),
                reason,
                right: "a trace of less than 1 PiB of addresses",
            });
        }
        batch.clear();
        trace.report(progress)?;
    }
    Ok(())
}

/// Puts all requests at their places, in the memory that they have.
fn place_all(requests: &mut InMemory, extents: &Extents, by_volume: bool) -> Counts {
    let (mut counts, mut cursor) = (Counts::default(), Cursor::default());
    requests.retain_mut(|packed| {
        let request = packed.request();
        match extents.place(&mut cursor, &request, by_volume) {
            Placed::At(offset, length) => {
                counts.add(request.op, length);
                packed.move_to(offset, length);
                true
            }
            Placed::Nowhere => {
                counts.left_out += 1;
                false
            }
            Placed::Unknown => unreachable!("every extent was touched before"),
        }
    });
    counts
}
