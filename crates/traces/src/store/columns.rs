//! Reading columns of any Parquet file, as the types that are wanted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{Schema, SchemaRef};

use crate::error::{Place, TraceError};
use crate::store::{not_parquet, parquet_file};

/// Rows decoded at once.
const BATCH_ROWS: usize = 64 << 10;

/// Gives the columns of `schema` of a Parquet file, a batch of rows at a time, with the number of
/// its first row. Other types are cast; of a column that may be null and is missing all is null.
///
/// # Errors
/// [`TraceError::Io`], [`TraceError::Parquet`]; what `take` gives.
pub fn read_columns(
    path: &Path,
    schema: &SchemaRef,
    take: impl FnMut(u64, &RecordBatch) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    read_columns_by(path, schema, BATCH_ROWS, take)
}

/// As [`read_columns`], at most so many rows at a time.
///
/// # Errors
/// As [`read_columns`].
pub fn read_columns_by(
    path: &Path,
    schema: &SchemaRef,
    batch_rows: usize,
    mut take: impl FnMut(u64, &RecordBatch) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let builder = parquet_file(path)?.with_batch_size(batch_rows);
    let mut batches = builder.build().map_err(|error| not_parquet(path, error))?;
    let mut row = 0;
    loop {
        let failed = |source| TraceError::Parquet {
            path: path.to_owned(),
            doing: "read",
            place: Place::Row(row),
            source,
        };
        let next = catch_unwind(AssertUnwindSafe(|| batches.next()))
            .map_err(|_| failed("the file is damaged: decoding it panicked".into()))?;
        let Some(batch) = next else { return Ok(()) };
        let batch = batch.map_err(|error| failed(error.into()))?;
        let batch = wanted(&batch, schema).map_err(|reason| failed(reason.into()))?;
        take(row, &batch)?;
        row += batch.num_rows() as u64;
    }
}

fn wanted(batch: &RecordBatch, schema: &Schema) -> Result<RecordBatch, String> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let column = |name: &str, kind, may_be_null: bool| -> Result<ArrayRef, String> {
        let Some(column) = batch.column_by_name(name) else {
            let names: Vec<&str> = schema.fields().iter().map(|one| one.name().as_str()).collect();
            let all = names.join(", ");
            return may_be_null
                .then(|| new_null_array(kind, batch.num_rows()))
                .ok_or_else(|| format!("no column `{name}`; right would be {all}"));
        };
        if !may_be_null && column.null_count() > 0 {
            return Err(format!("column `{name}` has nulls; it must have none"));
        }
        cast_with_options(column, kind, &options)
            .map_err(|error| format!("column `{name}` is not {kind}: {error}"))
    };
    let columns = schema
        .fields()
        .iter()
        .map(|field| column(field.name(), field.data_type(), field.is_nullable()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(Arc::new(schema.clone()), columns).map_err(|error| error.to_string())
}
