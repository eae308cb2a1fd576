//! Page operations read from the trace file again at each pass, for traces that do not fit in
//! memory.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use units::{IoOp, IoRequest, Lpn, PageOp, PageSource, SourceError};

use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, Trace, open};
use crate::pages::sample::Sample;
use crate::pages::table::{Bits, Cursor, NONE, PageTable};
use crate::pages::{in_sample, pages_of};

/// Plays a trace file through a page table that an earlier pass made.
pub(super) struct FileSource {
    path: PathBuf,
    how: OpenOptions,
    page_size: u32,
    table: Arc<PageTable>,
    logical_pages: u32,
    operations: u64,
    /// Which pages are played, if not all.
    sample: Option<Arc<Sample>>,
    /// `None` before the first operation of a pass.
    pass: Option<Pass>,
}

struct Pass {
    trace: Trace,
    by_volume: bool,
    batch: Vec<IoRequest>,
    next: usize,
    /// Pages of the current request that are still to come.
    pages: Range<u64>,
    volume: u32,
    is_trim: bool,
    cursor: Cursor,
    holds_data: Bits,
    given: u64,
    /// Page writes of the trace so far.
    writes: u64,
}

impl FileSource {
    pub(super) fn new(
        path: &Path,
        how: OpenOptions,
        page_size: u32,
        table: Arc<PageTable>,
        logical_pages: u32,
        operations: u64,
        sample: Option<Arc<Sample>>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            how,
            page_size,
            table,
            logical_pages,
            operations,
            sample,
            pass: None,
        }
    }

    /// Another source of the same operations, at their start.
    pub(super) fn fresh(&self) -> Self {
        Self::new(
            &self.path,
            self.how.clone(),
            self.page_size,
            Arc::clone(&self.table),
            self.logical_pages,
            self.operations,
            self.sample.clone(),
        )
    }

    fn changed(&self, reason: &str) -> TraceError {
        TraceError::Unusable {
            path: self.path.clone(),
            reason: format!("{reason}: it was changed since it was first read"),
            right: "a file that stays as it is while it is used",
        }
    }

    fn start(&self) -> Result<Pass, TraceError> {
        let trace = open(&self.path, &self.how)?;
        Ok(Pass {
            trace,
            by_volume: false,
            batch: Vec::with_capacity(BATCH_REQUESTS),
            next: 0,
            pages: 0..0,
            volume: 0,
            is_trim: false,
            cursor: Cursor::default(),
            holds_data: Bits::new(self.logical_pages),
            given: 0,
            writes: 0,
        })
    }

    fn fill_from(&self, pass: &mut Pass, buffer: &mut [PageOp]) -> Result<usize, TraceError> {
        let mut count = 0;
        while count < buffer.len() {
            let Some(page) = pass.pages.next() else {
                if pass.next_request(self.page_size)? {
                    continue;
                }
                if pass.given + count as u64 != self.operations {
                    return Err(self.changed("the number of page operations differs"));
                }
                break;
            };
            if let Some(sample) = &self.sample {
                let op = if pass.is_trim { IoOp::Trim } else { IoOp::Write };
                pass.writes += u64::from(!pass.is_trim);
                if !in_sample(sample, op, pass.volume, page, pass.writes) {
                    continue;
                }
            }
            let number = self.table.get(&mut pass.cursor, pass.volume, page);
            if pass.is_trim {
                if number != NONE && pass.holds_data.take(number) {
                    buffer[count] = PageOp::trim(Lpn(number));
                    count += 1;
                }
                continue;
            }
            if number == NONE {
                return Err(self.changed("it writes a page that it did not write before"));
            }
            pass.holds_data.set(number);
            buffer[count] = PageOp::write(Lpn(number));
            count += 1;
        }
        pass.given += count as u64;
        Ok(count)
    }
}

impl Pass {
    /// Moves to the next request; `false` at the end.
    fn next_request(&mut self, page_size: u32) -> Result<bool, TraceError> {
        if self.next == self.batch.len() {
            self.batch.clear();
            self.next = 0;
            if self.trace.read_batch(&mut self.batch, BATCH_REQUESTS)? == 0 {
                return Ok(false);
            }
            self.by_volume = self.trace.facts().streams_are_volumes;
        }
        let request = &self.batch[self.next];
        self.next += 1;
        self.pages = pages_of(request, u64::from(page_size));
        self.volume = if self.by_volume { request.stream } else { 0 };
        self.is_trim = request.op == IoOp::Trim;
        Ok(true)
    }
}

impl PageSource for FileSource {
    fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    fn operations(&self) -> Option<u64> {
        Some(self.operations)
    }

    fn fill(&mut self, buffer: &mut [PageOp]) -> Result<usize, SourceError> {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.start()?,
        };
        let count = self.fill_from(&mut pass, buffer)?;
        self.pass = Some(pass);
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.pass = None;
        Ok(())
    }
}
