//! A study of one volume of a store: what it does, and sketches that merge with those of others.

mod pages;
mod quantiles;
mod sketches;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use units::{IoOp, IoRequest, Progress};

use crate::error::TraceError;
use crate::reader::TraceReader;
use crate::store::StoreReader;
use crate::volumes::{failed, parts_of, volume_of};
use pages::{Firsts, Pages};
use sketches::{Seen, known_by};

pub use quantiles::{Exact, Sketch};
pub use sketches::{Distinct, Sketches, Values};

/// Requests that are looked at in one go.
const BATCH_REQUESTS: usize = 16 << 10;

/// How a volume is studied.
#[derive(Clone, Copy, Debug)]
pub struct StudyOptions {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes for the last write of each page.
    pub memory_bytes: u64,
    /// Keep all values beside the sketches.
    pub is_exact: bool,
    /// Follow one page in so many from the start.
    pub one_in: u64,
}

/// What a volume does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFigures {
    /// Its number.
    pub volume: u32,
    /// Requests by operation: read, write, trim, flush.
    pub requests: [u64; 4],
    /// Bytes by operation.
    pub bytes: [u64; 4],
    /// Time of its first request, in nanoseconds since the first one of the trace.
    pub first_ns: u64,
    /// Time of the latest one.
    pub last_ns: u64,
    /// Requests whose time lies before that of the one before.
    pub reversals: u64,
    /// Pages read and written; one that is written twice counts twice.
    pub page_reads: u64,
    /// See there.
    pub page_writes: u64,
    /// Different pages that were written.
    pub written_pages: u64,
    /// Different pages that were read.
    pub read_pages: u64,
    /// Different pages that were read or written.
    pub touched_pages: u64,
    /// True if these three were counted; else they are estimates of sketches.
    pub is_counted: bool,
    /// Lifetimes and distances are those of one page in so many: 1 for all.
    pub one_in: u64,
}

/// Studies the volume in a folder of a store. Progress counts bytes of its files.
///
/// # Errors
/// Any [`TraceError`], [`TraceError::Unusable`] if the folder is none of a volume.
pub fn study(
    folder: &Path,
    options: &StudyOptions,
    progress: &Progress,
) -> Result<(VolumeFigures, Sketches), TraceError> {
    let parts = parts_of(folder)?;
    let volume = volume_of(folder).ok_or_else(|| TraceError::Unusable {
        path: folder.to_owned(),
        reason: "its name is none of a volume".to_owned(),
        right: "a folder `volume=N` of a store that `trace split` wrote",
    })?;
    let size = |path: &Path| Ok(fs::metadata(path).map_err(failed(path, "open"))?.len());
    let sizes: Vec<u64> =
        parts.iter().map(|part| size(&part.path)).collect::<Result<_, TraceError>>()?;
    progress.set_total(sizes.iter().sum());
    let mut study = Study::new(volume, options);
    let mut requests = Vec::with_capacity(BATCH_REQUESTS);
    for (part, bytes) in parts.iter().zip(sizes) {
        let mut reader = StoreReader::open(&part.path, 0)?.keeping_times();
        loop {
            requests.clear();
            if reader.read_batch(&mut requests, BATCH_REQUESTS)? == 0 {
                break;
            }
            progress.advance(0)?;
            requests.iter().for_each(|request| study.take(request));
        }
        progress.advance(bytes)?;
    }
    Ok(study.finish())
}

/// A volume while its requests come.
struct Study {
    page_bytes: u64,
    figures: VolumeFigures,
    sketches: Sketches,
    written: Seen,
    read: Seen,
    touched: Seen,
    pages: Pages,
    /// Time of the request before.
    before_ns: Option<u64>,
}

impl Study {
    fn new(volume: u32, options: &StudyOptions) -> Self {
        Self {
            page_bytes: options.page_bytes,
            figures: VolumeFigures { volume, ..VolumeFigures::default() },
            sketches: Sketches::new(options.is_exact),
            written: Seen::new(),
            read: Seen::new(),
            touched: Seen::new(),
            pages: Pages::new(volume, options.memory_bytes, options.one_in),
            before_ns: None,
        }
    }

    fn take(&mut self, request: &IoRequest) {
        let figures = &mut self.figures;
        let (op, now_ns) = (request.op as usize, request.time_ns);
        figures.requests[op] += 1;
        figures.bytes[op] += u64::from(request.length);
        match self.before_ns.replace(now_ns) {
            None => figures.first_ns = now_ns,
            Some(before_ns) => {
                figures.reversals += u64::from(now_ns < before_ns);
                self.sketches.gaps.add(now_ns.saturating_sub(before_ns), 1);
            }
        }
        figures.first_ns = figures.first_ns.min(now_ns);
        figures.last_ns = figures.last_ns.max(now_ns);
        let is_write = match request.op {
            IoOp::Read => false,
            IoOp::Write => true,
            IoOp::Trim | IoOp::Flush => return,
        };
        let Sketches { read_sizes, write_sizes, lifetimes, distances, .. } = &mut self.sketches;
        let sizes = if is_write { write_sizes } else { read_sizes };
        sizes.add(u64::from(request.length), 1);
        let first = request.offset / self.page_bytes;
        let last = (request.offset + u64::from(request.length) - 1) / self.page_bytes;
        *(if is_write { &mut figures.page_writes } else { &mut figures.page_reads }) +=
            last - first + 1;
        let volume = figures.volume;
        let (seen, touched) =
            (if is_write { &mut self.written } else { &mut self.read }, &mut self.touched);
        let is_new = |page| {
            let page = known_by(volume, page);
            seen.add(page);
            touched.add(page);
        };
        self.pages.touch((first, last), now_ns, is_write, is_new, |run| {
            lifetimes.add(run.lifetime_ns, run.pages);
            distances.add(run.distance, run.pages);
        });
    }

    fn finish(self) -> (VolumeFigures, Sketches) {
        let Self { mut figures, mut sketches, written, read, touched, pages, .. } = self;
        figures.one_in = pages.one_in();
        figures.is_counted = figures.one_in == 1;
        let found = if figures.is_counted {
            pages.firsts()
        } else {
            let [written, read, touched] = [&written, &read, &touched].map(Seen::estimate);
            Firsts { written, read, touched }
        };
        figures.written_pages = found.written;
        figures.read_pages = found.read;
        figures.touched_pages = found.touched;
        sketches.written = written.finish();
        sketches.read = read.finish();
        (figures, sketches)
    }
}
