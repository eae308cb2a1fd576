//! A trace at the addresses that it was recorded at, read as it goes: for drives that have them.

use std::path::{Path, PathBuf};

use units::{IoRequest, Progress, RequestSource, SourceError};

use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, Trace, open};
use crate::reader::Facts;
use crate::writer::SourceFile;

/// The requests of a trace file, as they are in it. Memory does not grow with the trace. Latencies
/// are dropped.
pub struct Recorded {
    path: PathBuf,
    how: OpenOptions,
    trace: Trace,
    batch: Vec<IoRequest>,
    /// First request of the batch that was not handed on.
    next: usize,
}

impl Recorded {
    /// Opens a trace file.
    ///
    /// # Errors
    /// [`TraceError`] if it cannot be read, or is no file that can be read more than once.
    pub fn open(path: &Path, how: OpenOptions) -> Result<Self, TraceError> {
        let trace = open(path, &how)?;
        if !trace.can_reopen() {
            let reason = "it can be read only once".to_owned();
            return Err(TraceError::Unusable {
                path: path.to_owned(),
                reason,
                right: "a regular file",
            });
        }
        Ok(Self {
            path: path.to_owned(),
            how,
            trace,
            batch: Vec::with_capacity(BATCH_REQUESTS),
            next: 0,
        })
    }

    /// The same requests, from their start.
    ///
    /// # Errors
    /// As [`Recorded::open`].
    pub fn again(&self) -> Result<Self, TraceError> {
        Self::open(&self.path, self.how.clone())
    }

    /// Name of the format read.
    #[must_use]
    pub fn format(&self) -> &'static str {
        self.trace.format().info.name
    }

    /// Gives the facts known of the trace so far; complete after the last request.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.trace.facts()
    }

    /// Bytes to be read, as they are stored.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.trace.total_bytes()
    }

    /// The files that the requests come from, with their hashes.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn sources(&self) -> Result<Vec<SourceFile>, TraceError> {
        self.trace.sources()
    }

    /// Tells the progress how many bytes of the file were read since the last call.
    ///
    /// # Errors
    /// [`TraceError::Cancelled`] if the work was asked to stop.
    pub fn report(&mut self, progress: &Progress) -> Result<(), TraceError> {
        self.trace.report(progress)
    }
}

impl RequestSource for Recorded {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let mut count = 0;
        while count < buffer.len() {
            if self.next == self.batch.len() {
                self.batch.clear();
                self.next = 0;
                if self.trace.read_batch(&mut self.batch, BATCH_REQUESTS)? == 0 {
                    break;
                }
            }
            let taken = (self.batch.len() - self.next).min(buffer.len() - count);
            for (out, request) in
                buffer[count..count + taken].iter_mut().zip(&self.batch[self.next..])
            {
                *out = IoRequest { latency_ns: None, ..*request };
            }
            (count, self.next) = (count + taken, self.next + taken);
        }
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        *self = self.again()?;
        Ok(())
    }
}
