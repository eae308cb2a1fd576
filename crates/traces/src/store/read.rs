//! Reading the canonical store, a batch of rows at a time.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use units::IoRequest;

use crate::error::{Place, TraceError};
use crate::input::Position;
use crate::reader::{BadRecords, Clock, Facts, TraceReader};
use crate::store::batch::Columns;
use crate::store::{COLUMNS, keys};

/// Rows decoded at once.
const BATCH_ROWS: usize = 64 << 10;

/// Reads a trace from its Parquet file. Columns of other but fitting types are taken too, so that a
/// table that pandas or DuckDB wrote can be read; `stream`, `latency_ns` and `handle` may be
/// missing.
pub struct StoreReader {
    batches: ParquetRecordBatchReader,
    /// Names of the file's columns.
    names: String,
    has_dates: bool,
    columns: Option<Columns>,
    next_row: usize,
    row: u64,
    rows: u64,
    bad: BadRecords,
    clock: Clock,
    keeps_times: bool,
    metadata: HashMap<String, String>,
    position: Arc<Position>,
}

pub(crate) fn not_parquet(path: &Path, source: ParquetError) -> TraceError {
    TraceError::Parquet {
        path: path.to_owned(),
        doing: "open",
        place: Place::Row(0),
        source: Box::new(source),
    }
}

/// Opens a Parquet file. A damaged one is an error: it never takes the process down.
pub(crate) fn parquet_file(
    path: &Path,
) -> Result<ParquetRecordBatchReaderBuilder<File>, TraceError> {
    let file = File::open(path).map_err(|source| TraceError::Io {
        path: path.to_owned(),
        doing: "open",
        offset: 0,
        source,
    })?;
    builder(path, file)
}

/// As [`parquet_file`], of bytes in memory.
pub(crate) fn parquet_bytes(
    path: &Path,
    bytes: Vec<u8>,
) -> Result<ParquetRecordBatchReaderBuilder<Bytes>, TraceError> {
    builder(path, Bytes::from(bytes))
}

fn builder<T: ChunkReader + 'static>(
    path: &Path,
    content: T,
) -> Result<ParquetRecordBatchReaderBuilder<T>, TraceError> {
    let builder =
        catch_unwind(AssertUnwindSafe(|| ParquetRecordBatchReaderBuilder::try_new(content)));
    let damaged =
        |_| Err(ParquetError::General("the file is damaged: decoding its footer panicked".into()));
    builder.unwrap_or_else(damaged).map_err(|error| not_parquet(path, error))
}

impl StoreReader {
    /// Opens the file; `skip_bad` malformed rows are passed over before one is an error.
    ///
    /// # Errors
    /// [`TraceError::Io`] or [`TraceError::Parquet`].
    pub fn open(path: &Path, skip_bad: u64) -> Result<Self, TraceError> {
        Self::over(parquet_file(path)?, path, skip_bad, Arc::default())
    }

    pub(crate) fn over<T: ChunkReader + 'static>(
        builder: ParquetRecordBatchReaderBuilder<T>,
        path: &Path,
        skip_bad: u64,
        position: Arc<Position>,
    ) -> Result<Self, TraceError> {
        let fields = builder.schema().fields().iter();
        let names: Vec<String> =
            fields.map(|field| format!("{} ({})", field.name(), field.data_type())).collect();
        let about = builder.metadata().file_metadata();
        let rows = u64::try_from(about.num_rows()).unwrap_or(0);
        let pairs = about.key_value_metadata().into_iter().flatten();
        let metadata =
            pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect();
        let mask = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
        let batches = builder
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| not_parquet(path, error))?;
        let (bad, clock) = (BadRecords::new(path, skip_bad), Clock::default());
        Ok(Self {
            batches,
            names: names.join(", "),
            has_dates: false,
            columns: None,
            next_row: 0,
            row: 0,
            rows,
            bad,
            clock,
            keeps_times: false,
            metadata,
            position,
        })
    }

    /// Keeps times as the file has them: those of a part of a trace count from the trace's start.
    #[must_use]
    pub fn keeping_times(mut self) -> Self {
        self.keeps_times = true;
        self
    }

    /// Requests in the file, as its footer says.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The file's key-value metadata; see [`keys`].
    #[must_use]
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.metadata
    }

    fn failed(&self, source: Box<dyn std::error::Error + Send + Sync>) -> TraceError {
        TraceError::Parquet {
            path: self.bad.path().to_owned(),
            doing: "read",
            place: Place::Row(self.row),
            source,
        }
    }

    /// Decodes the next batch of rows; `false` at the end.
    fn next_columns(&mut self) -> Result<bool, TraceError> {
        // The Parquet library panics on some damaged files; a file from outside must never take the
        // process down.
        let next = catch_unwind(AssertUnwindSafe(|| self.batches.next()));
        let Some(batch) =
            next.map_err(|_| self.failed("the file is damaged: decoding it panicked".into()))?
        else {
            self.columns = None;
            return Ok(false);
        };
        let columns = batch.map_err(Into::into).and_then(|batch| Columns::of(&batch, &self.names));
        let columns = columns.map_err(|source| self.failed(source))?;
        self.has_dates = columns.has_dates();
        self.columns = Some(columns);
        self.next_row = 0;
        Ok(true)
    }
}

impl TraceReader for StoreReader {
    fn read_batch(&mut self, out: &mut Vec<IoRequest>, max: usize) -> Result<usize, TraceError> {
        let start = out.len();
        while out.len() - start < max {
            let Some(columns) =
                self.columns.as_ref().filter(|columns| self.next_row < columns.rows())
            else {
                if self.next_columns()? {
                    continue;
                }
                break;
            };
            let end = columns.rows().min(self.next_row + (max - (out.len() - start)));
            let first = self.next_row;
            let mut failed = None;
            for row in first..end {
                match columns.request(row) {
                    Ok(request) => out.push(request),
                    Err(bad) => {
                        failed = Some((row, bad));
                        break;
                    }
                }
            }
            self.next_row = failed.as_ref().map_or(end, |(row, _)| row + 1);
            self.row += (self.next_row - first) as u64;
            if let Some((_, bad)) = failed {
                self.bad.pass(Place::Row(self.row - 1), bad)?;
            }
        }
        if !self.keeps_times {
            self.clock.rebase(&mut out[start..]);
        }
        let total = self.position.total.load(Ordering::Relaxed);
        let done = total as f64 * self.row as f64 / self.rows.max(1) as f64;
        self.position.done.store(done as u64, Ordering::Relaxed);
        Ok(out.len() - start)
    }

    fn facts(&self) -> Facts {
        let before: Option<u64> =
            self.metadata.get(keys::START_NS).and_then(|text| text.parse().ok());
        let start = self.clock.start.unwrap_or(0);
        let told = |key: &str| self.metadata.get(key).map_or("", String::as_str);
        let mut facts = Facts {
            clamped_times: self.clock.clamped,
            unseen_reversals: self.clock.unseen_reversals,
            start_ns: before
                .map(|ns| ns.saturating_add(start))
                .or_else(|| self.has_dates.then_some(start)),
            lost_events: told(keys::LOST_EVENTS).parse().unwrap_or(0),
            warnings: told(keys::WARNINGS).lines().map(str::to_owned).collect(),
            timeless: self.metadata.get(keys::TIMELESS).is_some_and(|text| text == "true"),
            streams_are_volumes: self
                .metadata
                .get(keys::STREAMS_ARE_VOLUMES)
                .is_some_and(|text| text == "true"),
            ..Facts::default()
        };
        for line in told(keys::LEFT_OUT).lines() {
            if let Some((records, reason)) = line.split_once(' ')
                && let Ok(records) = records.parse()
            {
                facts.left_out.insert(reason.to_owned().into(), records);
            }
        }
        self.bad.tell(&mut facts);
        facts
    }
}
