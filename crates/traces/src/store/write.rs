//! Writing the canonical store, a row group at a time.

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use units::IoRequest;

use crate::error::{Place, TraceError};
use crate::reader::Facts;
use crate::store::{keys, schema, to_batch};
use crate::writer::{Origin, Output, TraceWriter, Written};

/// Rows of a row group: what is held in memory, encoded, until it is written.
const ROW_GROUP_ROWS: usize = 512 << 10;

/// Rows encoded at once.
const BATCH_ROWS: usize = 16 << 10;

/// Writes a trace to a Parquet file.
pub struct StoreWriter {
    parquet: ArrowWriter<Output>,
    waiting: Vec<IoRequest>,
    written: u64,
}

impl StoreWriter {
    /// Starts the file.
    ///
    /// # Errors
    /// [`TraceError::Parquet`].
    pub fn new(output: Output, zstd_level: u32, origin: &Origin) -> Result<Self, TraceError> {
        let path = output.path().to_owned();
        let failed = |source: ParquetError| TraceError::Parquet {
            path,
            doing: "write",
            place: Place::Row(0),
            source: Box::new(source),
        };
        let parquet = properties(zstd_level)
            .and_then(|properties| ArrowWriter::try_new(output, schema(), Some(properties)));
        let mut writer = Self {
            parquet: parquet.map_err(failed)?,
            waiting: Vec::with_capacity(BATCH_ROWS),
            written: 0,
        };
        writer.note(keys::VERSION, env!("CARGO_PKG_VERSION"));
        writer.note(keys::SOURCE_FORMAT, &origin.format);
        writer.note(keys::STREAMS_ARE_VOLUMES, &origin.streams_are_volumes.to_string());
        for (index, file) in origin.sources.iter().enumerate() {
            writer.note(&format!("{}{index}.name", keys::SOURCE), &file.name);
            writer.note(&format!("{}{index}.sha256", keys::SOURCE), &file.sha256);
        }
        Ok(writer)
    }

    fn note(&mut self, key: &str, value: &str) {
        self.parquet.append_key_value_metadata(KeyValue::new(key.to_owned(), value.to_owned()));
    }

    fn failed(&self, source: ParquetError) -> TraceError {
        let path = self.parquet.inner().path().to_owned();
        TraceError::Parquet {
            path,
            doing: "write",
            place: Place::Row(self.written),
            source: Box::new(source),
        }
    }

    fn write_waiting(&mut self) -> Result<(), TraceError> {
        assert!(self.waiting.len() <= BATCH_ROWS, "what is in memory stays bounded");
        let batch = to_batch(&self.waiting);
        self.parquet.write(&batch).map_err(|source| self.failed(source))?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

fn properties(zstd_level: u32) -> Result<WriterProperties, ParquetError> {
    let level = ZstdLevel::try_new(zstd_level as i32)?;
    let column = |name: &str| ColumnPath::from(name);
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("flashwright {}", env!("CARGO_PKG_VERSION")))
        // Times rise in small steps, so their differences are short.
        .set_column_encoding(column("time_ns"), Encoding::DELTA_BINARY_PACKED);
    // Values that hardly repeat only make a dictionary that is thrown away.
    for name in ["time_ns", "offset", "latency_ns"] {
        properties = properties.set_column_dictionary_enabled(column(name), false);
    }
    Ok(properties.build())
}

impl TraceWriter for StoreWriter {
    fn write(&mut self, mut requests: &[IoRequest]) -> Result<(), TraceError> {
        while !requests.is_empty() {
            let take = requests.len().min(BATCH_ROWS - self.waiting.len());
            self.waiting.extend_from_slice(&requests[..take]);
            requests = &requests[take..];
            if self.waiting.len() == BATCH_ROWS {
                self.write_waiting()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, facts: &Facts) -> Result<Written, TraceError> {
        if !self.waiting.is_empty() {
            self.write_waiting()?;
        }
        let requests = self.written;
        self.note(keys::REQUESTS, &requests.to_string());
        self.note(keys::SKIPPED, &facts.skipped.to_string());
        self.note(keys::CLAMPED_TIMES, &facts.clamped_times.to_string());
        if facts.lost_events > 0 {
            self.note(keys::LOST_EVENTS, &facts.lost_events.to_string());
        }
        let lines: Vec<String> =
            facts.left_out.iter().map(|(reason, records)| format!("{records} {reason}")).collect();
        for (key, lines) in [(keys::LEFT_OUT, &lines), (keys::WARNINGS, &facts.warnings)] {
            if !lines.is_empty() {
                self.note(key, &lines.join("\n"));
            }
        }
        self.note(keys::TIMELESS, &facts.timeless.to_string());
        if let Some(start_ns) = facts.start_ns {
            self.note(keys::START_NS, &start_ns.to_string());
        }
        let path = self.parquet.inner().path().to_owned();
        let output = self.parquet.into_inner();
        let output = output.map_err(|source| TraceError::Parquet {
            path,
            doing: "write",
            place: Place::Row(requests),
            source: Box::new(source),
        })?;
        output.commit()?;
        Ok(Written { requests, dropped: 0 })
    }
}
