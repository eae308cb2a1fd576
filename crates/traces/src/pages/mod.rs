//! A trace as an FTL sees it: writes and trims of dense logical pages.
//!
//! The pages that the trace writes, in ascending order of address, become 0, 1, 2, ...; where
//! streams are volumes ([`crate::Facts::streams_are_volumes`]), in ascending order of stream, then
//! address. A write that touches part of a page writes the page. A trim takes the pages that lie
//! wholly within it and hold data at that moment; others it leaves alone, since a device cannot
//! forget what it does not hold. So a trim before the page's first write in the trace is left out:
//! over a device that starts filled, the page holds what it was filled with until that write. Reads
//! and flushes do nothing here.

pub(crate) mod sample;
mod source;
pub(crate) mod table;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use registry::Spec;
use units::{IoOp, IoRequest, Lpn, PageOp, PageSource, Progress, VecSource};

use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, Trace, open};
use crate::reader::Facts;
use crate::writer::SourceFile;
use sample::Sample;
pub use sample::Sampled;
use source::FileSource;
use table::{Bits, Cursor, NONE, PageTable};

/// Settings with which a trace is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The format and its parameters; told by content if `None`.
    pub format: Option<Spec>,
    /// Bytes of a logical page, at least 1.
    pub page_size: u32,
    /// Malformed records to pass over and count before one is an error.
    pub skip_bad: u64,
    /// Page operations (4 bytes each) are kept in memory up to this many bytes; beyond, the file is
    /// read again by every source.
    pub memory_limit_bytes: u64,
    /// Take one page in so many, where that leaves enough of them: see [`Sampled`].
    pub one_in: u64,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { format: None, page_size: 4096, skip_bad: 0, memory_limit_bytes: 4 << 30, one_in: 1 }
    }
}

/// Totals of a trace, and the way to play it.
pub struct LoadedTrace {
    /// Name of the format read.
    pub format: &'static str,
    /// The files read, with their hashes; none for standard input.
    pub sources: Vec<SourceFile>,
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages that the trace writes at least once.
    pub logical_pages: u32,
    /// Writes of pages.
    pub page_writes: u64,
    /// Trims of pages that held data.
    pub page_trims: u64,
    /// Requests read, of every kind.
    pub requests: u64,
    /// Facts found while reading: malformed records skipped, times clamped.
    pub facts: Facts,
    /// Time of the latest request, in nanoseconds since the first.
    pub duration_ns: u64,
    /// Writes of each logical page, the first one included.
    pub updates: Vec<u32>,
    /// What the pages are a sample of; `None` for all of them.
    pub sampled: Option<Sampled>,
    kept: Kept,
}

enum Kept {
    InMemory(VecSource),
    /// Behind a lock only because an open file is not shared between threads; each source opens its
    /// own.
    InFile(Box<Mutex<FileSource>>),
}

impl std::fmt::Debug for LoadedTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("LoadedTrace");
        out.field("sources", &self.sources)
            .field("logical_pages", &self.logical_pages)
            .field("page_writes", &self.page_writes);
        out.finish_non_exhaustive()
    }
}

impl LoadedTrace {
    /// The page operations from the start. May be called any number of times; the sources share
    /// what is in memory and may run at the same time.
    #[must_use]
    pub fn source(&self) -> Box<dyn PageSource> {
        match &self.kept {
            Kept::InMemory(source) => Box::new(source.clone()),
            Kept::InFile(source) => {
                Box::new(source.lock().unwrap_or_else(PoisonError::into_inner).fresh())
            }
        }
    }

    /// Returns true if the page operations are in memory, rather than read from the file each time.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.kept, Kept::InMemory(_))
    }
}

/// The pages that a request takes: those it touches, or for a trim those wholly within it.
#[inline]
pub(crate) fn pages_of(request: &IoRequest, page_size: u64) -> std::ops::Range<u64> {
    let end = request.offset + u64::from(request.length);
    match request.op {
        IoOp::Write => request.offset / page_size..(end - 1) / page_size + 1,
        IoOp::Trim => request.offset.div_ceil(page_size)..end / page_size,
        IoOp::Read | IoOp::Flush => 0..0,
    }
}

/// Data gathered in one pass over the trace. Pages have provisional numbers, in the order of their
/// first write.
struct Gathered {
    table: PageTable,
    cursor: Cursor,
    updates: Vec<u32>,
    holds_data: Bits,
    operations: Option<Vec<PageOp>>,
    most_operations: u64,
    page_writes: u64,
    page_trims: u64,
}

impl Gathered {
    fn keep(&mut self, operation: PageOp) {
        if let Some(operations) = &mut self.operations {
            if operations.len() as u64 == self.most_operations {
                self.operations = None;
            } else {
                operations.push(operation);
            }
        }
    }

    fn write(&mut self, volume: u32, page: u64) -> Result<(), TooManyPages> {
        let next = self.updates.len() as u32;
        let entry = self.table.entry(&mut self.cursor, volume, page);
        if *entry == NONE {
            if next >= MOST_PAGES {
                return Err(TooManyPages);
            }
            *entry = next;
            self.updates.push(0);
            self.holds_data.grow_to(self.updates.len());
        }
        let number = *entry;
        let updates = &mut self.updates[number as usize];
        *updates = updates.saturating_add(1);
        self.holds_data.set(number);
        self.page_writes += 1;
        self.keep(PageOp::write(Lpn(number)));
        Ok(())
    }

    fn trim(&mut self, volume: u32, page: u64) {
        let number = self.table.get(&mut self.cursor, volume, page);
        if number != NONE && self.holds_data.take(number) {
            self.page_trims += 1;
            self.keep(PageOp::trim(Lpn(number)));
        }
    }
}

/// Page numbers have 31 bits: see [`PageOp`].
const MOST_PAGES: u32 = 1 << 31;

struct TooManyPages;

/// Reads a trace once, and makes page operations of it. Progress counts bytes of the file.
///
/// # Errors
/// Any [`TraceError`] of reading; [`TraceError::Unusable`] if the trace writes nothing or more than
/// 2^31 pages, or does not fit the memory limit and cannot be read again because it is standard
/// input.
pub fn load(
    path: &Path,
    options: &LoadOptions,
    progress: &Progress,
) -> Result<LoadedTrace, TraceError> {
    let unusable =
        |reason: String, right| TraceError::Unusable { path: path.to_owned(), reason, right };
    if options.page_size == 0 {
        return Err(unusable("the page size is 0".to_owned(), "at least 1 byte"));
    }
    let how = OpenOptions { format: options.format.clone(), skip_bad: options.skip_bad };
    let page_size = u64::from(options.page_size);
    let mut trace = open(path, &how)?;
    let passes = if options.one_in > 1 { 2 } else { 1 };
    progress.set_total(trace.total_bytes() * passes);
    let sample = if options.one_in > 1 {
        Sample::choose(path, &how, page_size, options.one_in, progress)?.map(Arc::new)
    } else {
        None
    };
    let mut gathered = Gathered {
        table: PageTable::default(),
        cursor: Cursor::default(),
        updates: Vec::new(),
        holds_data: Bits::default(),
        operations: Some(Vec::new()),
        most_operations: options.memory_limit_bytes / size_of::<PageOp>() as u64,
        page_writes: 0,
        page_trims: 0,
    };
    let of_sample = sample.as_deref();
    let (requests, duration_ns) =
        gather(&mut trace, &mut gathered, page_size, of_sample, progress)?;
    let facts = trace.facts();
    if gathered.page_writes == 0 {
        return Err(unusable(
            format!("none of its {requests} requests is a write"),
            "a trace with writes",
        ));
    }
    let (sources, format) = (trace.sources()?, trace.format().info.name);
    let logical_pages = gathered.updates.len() as u32;
    let new_of_old = gathered.table.renumber(logical_pages);
    let mut updates = vec![0; logical_pages as usize];
    for (old, new) in new_of_old.iter().enumerate() {
        updates[*new as usize] = gathered.updates[old];
    }
    let (page_writes, page_trims) = (gathered.page_writes, gathered.page_trims);
    let kept = if let Some(operations) = gathered.operations.take() {
        Kept::InMemory(renumbered(operations, &new_of_old))
    } else if trace.can_reopen() {
        Kept::InFile(Box::new(Mutex::new(FileSource::new(
            path,
            how,
            options.page_size,
            Arc::new(gathered.table),
            logical_pages,
            page_writes + page_trims,
            sample.clone(),
        ))))
    } else {
        let reason = format!(
            "its page operations need more than the limit of {} bytes",
            options.memory_limit_bytes
        );
        return Err(unusable(reason, "a file that can be read again, or a higher limit"));
    };
    Ok(LoadedTrace {
        format,
        sources,
        page_size: options.page_size,
        logical_pages,
        page_writes,
        page_trims,
        requests,
        facts,
        duration_ns,
        updates,
        sampled: sample.map(|sample| sample.sampled),
        kept,
    })
}

/// The operations with the pages' final numbers.
fn renumbered(mut operations: Vec<PageOp>, new_of_old: &[u32]) -> VecSource {
    for operation in &mut operations {
        let lpn = Lpn(new_of_old[operation.lpn().index()]);
        *operation = if operation.is_trim() { PageOp::trim(lpn) } else { PageOp::write(lpn) };
    }
    VecSource::new(new_of_old.len() as u32, operations.into())
}

/// Returns true if a sample has an operation; `number` counts page writes.
#[inline]
fn in_sample(sample: &Sample, op: IoOp, volume: u32, page: u64, number: u64) -> bool {
    if op == IoOp::Write {
        sample.has_write(volume, page, number)
    } else {
        sample.has(volume, page)
    }
}

/// Number of requests, and the latest time.
fn gather(
    trace: &mut Trace,
    gathered: &mut Gathered,
    page_size: u64,
    sample: Option<&Sample>,
    progress: &Progress,
) -> Result<(u64, u64), TraceError> {
    let (mut requests, mut duration_ns, mut batch) = (0, 0, Vec::with_capacity(BATCH_REQUESTS));
    // Of a page write.
    let mut number = 0;
    while trace.read_batch(&mut batch, BATCH_REQUESTS)? > 0 {
        let by_volume = trace.facts().streams_are_volumes;
        for request in &batch {
            duration_ns = request.time_ns.max(duration_ns);
            let volume = if by_volume { request.stream } else { 0 };
            for page in pages_of(request, page_size) {
                if let Some(sample) = sample {
                    number += u64::from(request.op == IoOp::Write);
                    if !in_sample(sample, request.op, volume, page, number) {
                        continue;
                    }
                }
                if request.op == IoOp::Trim {
                    gathered.trim(volume, page);
                } else if gathered.write(volume, page).is_err() {
                    return Err(TraceError::Unusable {
                        path: trace.path().to_owned(),
                        reason: format!(
                            "it writes more than {MOST_PAGES} pages of {page_size} bytes"
                        ),
                        right: "larger pages",
                    });
                }
            }
        }
        requests += batch.len() as u64;
        batch.clear();
        trace.report(progress)?;
    }
    Ok((requests, duration_ns))
}

#[cfg(test)]
mod tests;
