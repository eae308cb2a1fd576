//! Tables that are too long for memory, written as they come.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::error::{Place, TraceError};
use crate::writer::Output;

/// Rows of a row group: what is held in memory, encoded, until it is written. For twenty columns
/// that is 20 MiB at most.
const ROW_GROUP_ROWS: usize = 128 << 10;

/// Writes a table to a Parquet file, a row group as it fills. The file has its name when all is
/// written; one that is dropped before leaves nothing.
pub struct TableWriter {
    parquet: ArrowWriter<Output>,
    written: u64,
}

impl TableWriter {
    /// Starts the file. The columns of `rising` are numbers that mostly rise, in small steps.
    ///
    /// # Errors
    /// [`TraceError::Io`], [`TraceError::Parquet`].
    pub fn new(path: &Path, schema: SchemaRef, rising: &[&str]) -> Result<Self, TraceError> {
        let output = Output::create(path)?;
        let parquet = properties(rising)
            .and_then(|properties| ArrowWriter::try_new(output, schema, Some(properties)));
        let parquet = parquet.map_err(|source| failed(path, 0, source))?;
        Ok(Self { parquet, written: 0 })
    }

    /// Writes these rows next.
    ///
    /// # Errors
    /// As [`TableWriter::new`].
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), TraceError> {
        let written = self.parquet.write(rows);
        written.map_err(|source| failed(self.parquet.inner().path(), self.written, source))?;
        self.written += rows.num_rows() as u64;
        Ok(())
    }

    /// Writes what is left and gives the file its name; gives the rows in it.
    ///
    /// # Errors
    /// As [`TableWriter::new`].
    pub fn finish(self) -> Result<u64, TraceError> {
        let path = self.parquet.inner().path().to_owned();
        let output = self.parquet.into_inner();
        output.map_err(|source| failed(&path, self.written, source))?.commit()?;
        Ok(self.written)
    }
}

fn failed(path: &Path, row: u64, source: ParquetError) -> TraceError {
    TraceError::Parquet {
        path: path.to_owned(),
        doing: "write",
        place: Place::Row(row),
        source: Box::new(source),
    }
}

fn properties(rising: &[&str]) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("flashwright {}", env!("CARGO_PKG_VERSION")));
    for name in rising {
        properties = properties
            .set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED)
            // Values that hardly repeat only make a dictionary that is thrown away.
            .set_column_dictionary_enabled(ColumnPath::from(*name), false);
    }
    Ok(properties.build())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, UInt64Array};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn batch(from: u64, rows: u64) -> RecordBatch {
        let column: ArrayRef = Arc::new(UInt64Array::from_iter_values(from..from + rows));
        RecordBatch::try_from_iter([("time", column)]).unwrap()
    }

    #[test]
    fn row_groups_are_written_as_they_fill() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let rows = 10_000;
        let mut writer = TableWriter::new(&path, batch(0, 1).schema(), &["time"]).unwrap();
        for number in 0..40 {
            writer.write(&batch(number * rows, rows)).unwrap();
            let held = writer.parquet.in_progress_rows();
            assert!(held <= ROW_GROUP_ROWS, "{held} rows are held");
        }
        assert!(!path.exists(), "the file has its name before it is whole");
        assert_eq!(writer.finish().unwrap(), 400_000);
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(file.metadata().num_row_groups(), 4);
        assert_eq!(file.metadata().file_metadata().num_rows(), 400_000);
    }

    #[test]
    fn a_writer_that_is_dropped_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let mut writer = TableWriter::new(&path, batch(0, 1).schema(), &[]).unwrap();
        writer.write(&batch(0, 10)).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
