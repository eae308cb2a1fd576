//! Reading the parts of a volume as one trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec;

use units::IoRequest;

use crate::error::TraceError;
use crate::input::Position;
use crate::reader::{Clock, Facts, TraceReader};
use crate::store::StoreReader;
use crate::volumes::parts::{Part, failed, parts_of};

/// The requests of a volume, of one part after the other.
pub struct VolumeReader {
    parts: vec::IntoIter<Part>,
    now: Option<StoreReader>,
    files: Vec<PathBuf>,
    facts: Facts,
    skip_bad: u64,
    /// Sets times to begin with the volume's first request, if they are to.
    clock: Option<Clock>,
    position: Arc<Position>,
}

impl VolumeReader {
    /// Opens the folder of a volume. Times count from the first request of the whole trace.
    ///
    /// # Errors
    /// As [`parts_of`].
    pub fn open(folder: &Path, skip_bad: u64) -> Result<Self, TraceError> {
        let parts = parts_of(folder)?;
        let files: Vec<PathBuf> = parts.iter().map(|part| part.path.clone()).collect();
        let position = Arc::<Position>::default();
        for file in &files {
            let bytes = fs::metadata(file).map_err(failed(file, "open"))?.len();
            position.total.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(Self {
            parts: parts.into_iter(),
            now: None,
            files,
            facts: Facts { streams_are_volumes: true, ..Facts::default() },
            skip_bad,
            clock: None,
            position,
        })
    }

    /// Counts times from the first request of the volume, as those of any trace do.
    #[must_use]
    pub fn from_its_first(mut self) -> Self {
        self.clock = Some(Clock::default());
        self
    }

    pub(crate) fn position(&self) -> &Arc<Position> {
        &self.position
    }

    /// Goes to the next part; `false` behind the last one.
    fn next_part(&mut self) -> Result<bool, TraceError> {
        if let Some(before) = self.now.take() {
            self.facts.skipped += before.facts().skipped;
        }
        let Some(part) = self.parts.next() else { return Ok(false) };
        let left = self.skip_bad.saturating_sub(self.facts.skipped);
        let bytes = fs::metadata(&part.path).map_err(failed(&part.path, "open"))?.len();
        self.position.done.fetch_add(bytes, Ordering::Relaxed);
        let reader = StoreReader::open(&part.path, left)?.keeping_times();
        self.facts.start_ns = self.facts.start_ns.or(reader.facts().start_ns);
        self.now = Some(reader);
        Ok(true)
    }
}

impl TraceReader for VolumeReader {
    fn read_batch(&mut self, out: &mut Vec<IoRequest>, max: usize) -> Result<usize, TraceError> {
        let start = out.len();
        while out.len() - start < max {
            let left = max - (out.len() - start);
            let read = self.now.as_mut().map_or(Ok(0), |reader| reader.read_batch(out, left))?;
            if read == 0 && !self.next_part()? {
                break;
            }
        }
        if let Some(clock) = &mut self.clock {
            clock.rebase(&mut out[start..]);
        }
        Ok(out.len() - start)
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        if let Some(clock) = &self.clock {
            facts.clamped_times = clock.clamped;
            facts.unseen_reversals = clock.unseen_reversals;
            facts.start_ns = facts.start_ns.map(|ns| ns.saturating_add(clock.start.unwrap_or(0)));
        }
        facts
    }

    fn more_files(&self) -> &[PathBuf] {
        &self.files
    }
}
