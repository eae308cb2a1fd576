//! A trace that was read once, and what there is to know of it before it is played.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;
use traces::requests::{LoadOptions, LoadedRequests, Recorded, load};
use traces::{Facts, OpenOptions, SourceFile};
use units::{IoOp, IoRequest, Nanos, Progress, RequestSource};

use crate::error::ReplayError;
use crate::selection::{Selected, Selection};

/// Totals of the selected requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests, by the number of their operation.
    pub by_op: [u64; IoOp::ALL.len()],
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes trimmed.
    pub trimmed_bytes: u64,
    /// One behind the last byte that any of them names.
    pub end_bytes: u64,
    /// Bytes of the longest read or write.
    pub longest_bytes: u32,
    /// Largest power of two, up to 1 MiB, that all offsets and lengths are multiples of.
    pub unit_bytes: u64,
    /// Time of the latest after the first, in nanoseconds.
    pub duration: Nanos,
    /// Disks or volumes that they are of, where the format tells; otherwise 1.
    pub volumes: u64,
    /// Requests of no bytes that are no flushes: they are not played.
    pub empty: u64,
}

impl Totals {
    /// Requests of every kind.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.by_op.iter().sum()
    }

    /// Returns true if playing them changes the content of the device.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.by_op[IoOp::Write as usize] + self.by_op[IoOp::Trim as usize] > 0
    }

    fn add(&mut self, request: &IoRequest) {
        let IoRequest { time_ns, op, offset, length, .. } = *request;
        self.by_op[op as usize] += 1;
        self.duration = self.duration.max(time_ns);
        if op == IoOp::Flush {
            return;
        }
        match op {
            IoOp::Read => self.read_bytes += u64::from(length),
            IoOp::Write => self.written_bytes += u64::from(length),
            IoOp::Trim | IoOp::Flush => self.trimmed_bytes += u64::from(length),
        }
        if op != IoOp::Trim {
            self.longest_bytes = self.longest_bytes.max(length);
        }
        self.end_bytes = self.end_bytes.max(offset.saturating_add(u64::from(length)));
        // The lowest bit set in any of them.
        self.unit_bytes |= offset | u64::from(length);
    }
}

/// A trace to be replayed.
pub struct ReplayTrace {
    /// Its path.
    pub path: PathBuf,
    /// Name of the format read.
    pub format: &'static str,
    /// The files read, with their hashes.
    pub sources: Vec<SourceFile>,
    /// Facts found besides requests while reading.
    pub facts: Facts,
    /// The part that is played.
    pub selection: Selection,
    /// Totals of that part.
    pub totals: Totals,
    origin: Origin,
}

impl std::fmt::Debug for ReplayTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayTrace")
            .field("path", &self.path)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

enum Origin {
    AsRecorded { how: OpenOptions },
    Dense(Box<LoadedRequests>),
}

impl ReplayTrace {
    /// Reads a trace once. With `dense` the extents of 1 MiB that it reads or writes anywhere are
    /// moved together ([`traces::requests`]); otherwise addresses stay those of the recording. The
    /// progress counts bytes of the file.
    ///
    /// # Errors
    /// [`ReplayError::Trace`]; [`ReplayError::Unusable`] if nothing of it is selected;
    /// [`ReplayError::Cancelled`].
    pub fn load(
        path: &Path,
        how: OpenOptions,
        selection: Selection,
        dense: bool,
        progress: &Progress,
    ) -> Result<Self, ReplayError> {
        let found = if dense {
            Self::load_dense(path, how, selection, progress)
        } else {
            Self::load_as_recorded(path, how, selection, progress)
        }?;
        if found.totals.requests() == 0 {
            return Err(ReplayError::Unusable {
                name: path.display().to_string(),
                reason: "no request of it is selected".to_owned(),
                right: "a part of it with requests".to_owned(),
            });
        }
        Ok(found)
    }

    fn load_as_recorded(
        path: &Path,
        how: OpenOptions,
        selection: Selection,
        progress: &Progress,
    ) -> Result<Self, ReplayError> {
        let recorded = Recorded::open(path, how.clone())?;
        progress.set_total(recorded.total_bytes());
        let (sources, format) = (recorded.sources()?, recorded.format());
        let mut selected = Selected::new(recorded, selection);
        let mut totals = scan(&mut selected, |recorded| Ok(recorded.report(progress)?))?;
        let facts = selected.source().facts();
        if !facts.streams_are_volumes {
            totals.volumes = 1;
        }
        Ok(Self {
            path: path.to_owned(),
            format,
            sources,
            facts,
            selection,
            totals,
            origin: Origin::AsRecorded { how },
        })
    }

    fn load_dense(
        path: &Path,
        how: OpenOptions,
        selection: Selection,
        progress: &Progress,
    ) -> Result<Self, ReplayError> {
        let options =
            LoadOptions { format: how.format, skip_bad: how.skip_bad, ..LoadOptions::default() };
        let loaded = load(path, &options, progress)?;
        let mut selected = Selected::new(loaded.all(), selection);
        let mut totals = scan(&mut selected, |_| Ok(progress.advance(0)?))?;
        totals.volumes = 1;
        totals.empty += loaded.counts.left_out;
        let (format, sources, facts) =
            (loaded.format, loaded.sources.clone(), loaded.facts.clone());
        Ok(Self {
            path: path.to_owned(),
            format,
            sources,
            facts,
            selection,
            totals,
            origin: Origin::Dense(Box::new(loaded)),
        })
    }

    /// The selected requests from the first on.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] if it cannot be opened again.
    pub fn source(&self) -> Result<Box<dyn RequestSource>, ReplayError> {
        Ok(match &self.origin {
            Origin::AsRecorded { how } => {
                Box::new(Selected::new(Recorded::open(&self.path, how.clone())?, self.selection))
            }
            Origin::Dense(loaded) if self.selection == Selection::default() => loaded.all(),
            Origin::Dense(loaded) => Box::new(Selected::new(loaded.all(), self.selection)),
        })
    }
}

/// Reads a source to its end, and calls `between` now and then.
fn scan<S: RequestSource>(
    selected: &mut Selected<S>,
    mut between: impl FnMut(&mut S) -> Result<(), ReplayError>,
) -> Result<Totals, ReplayError> {
    const MOST_UNIT: u64 = 1 << 20;
    let mut buffer = vec![IoRequest::NOTHING; 4096];
    let (mut totals, mut streams) = (Totals::default(), FxHashSet::default());
    loop {
        let count = selected.fill(&mut buffer).map_err(ReplayError::of_source)?;
        for request in &buffer[..count] {
            totals.add(request);
            streams.insert(request.stream);
        }
        between(selected.source())?;
        if count < buffer.len() {
            break;
        }
    }
    totals.unit_bytes = 1 << (totals.unit_bytes | MOST_UNIT).trailing_zeros();
    (totals.volumes, totals.empty) = (streams.len() as u64, selected.empty());
    Ok(totals)
}
