//! The table of sketches: a row a volume, of figures and of what merges.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, RecordBatch, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use traces::TraceError;
use traces::fleet::study::{Distinct, Exact, Sketch, Sketches, VolumeFigures};
use traces::store::read_columns_by;

use crate::JobError;

/// Rows that are held at once: each has some hundred KiB.
const ROWS: usize = 64;
/// Endings of the columns that hold all values of a kind.
const VALUES: &str = "_values";

/// Figures of a row that are whole numbers, and how they are got and set.
type Figure = (&'static str, fn(&mut Row) -> &mut u64);

const FIGURES: [Figure; 17] = [
    ("page_size", |row| &mut row.page_bytes),
    ("one_in", |row| &mut row.figures.one_in),
    ("reads", |row| &mut row.figures.requests[0]),
    ("writes", |row| &mut row.figures.requests[1]),
    ("trims", |row| &mut row.figures.requests[2]),
    ("flushes", |row| &mut row.figures.requests[3]),
    ("read_bytes", |row| &mut row.figures.bytes[0]),
    ("written_bytes", |row| &mut row.figures.bytes[1]),
    ("trimmed_bytes", |row| &mut row.figures.bytes[2]),
    ("first_ns", |row| &mut row.figures.first_ns),
    ("last_ns", |row| &mut row.figures.last_ns),
    ("reversals", |row| &mut row.figures.reversals),
    ("page_reads", |row| &mut row.figures.page_reads),
    ("page_writes", |row| &mut row.figures.page_writes),
    ("written_pages", |row| &mut row.figures.written_pages),
    ("read_pages", |row| &mut row.figures.read_pages),
    ("touched_pages", |row| &mut row.figures.touched_pages),
];

/// What the table has of a volume.
#[derive(Clone, Default)]
pub(super) struct Row {
    pub(super) page_bytes: u64,
    pub(super) figures: VolumeFigures,
    pub(super) sketches: Sketches,
}

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let kinds = Sketches::default().kinds().map(|(name, _)| name);
    let mut fields = vec![
        Field::new("volume", DataType::UInt32, false),
        Field::new("is_counted", DataType::Boolean, false),
    ];
    fields.extend(FIGURES.iter().map(|(name, _)| Field::new(*name, DataType::UInt64, false)));
    let bytes = |name: &str| Field::new(name, DataType::Binary, false);
    fields.extend(["written", "read"].into_iter().chain(kinds).map(bytes));
    let values = |name| Field::new(format!("{name}{VALUES}"), DataType::Binary, true);
    fields.extend(kinds.map(values));
    Arc::new(Schema::new(fields))
});

/// The table of one volume.
pub(super) fn table(mut row: Row) -> Result<RecordBatch, JobError> {
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(vec![row.figures.volume])),
        Arc::new(BooleanArray::from(vec![row.figures.is_counted])),
    ];
    for (_, figure) in FIGURES {
        columns.push(Arc::new(UInt64Array::from(vec![*figure(&mut row)])));
    }
    let sketches = &row.sketches;
    for distinct in [&sketches.written, &sketches.read] {
        columns.push(Arc::new(BinaryArray::from_vec(vec![&distinct.to_bytes()])));
    }
    for (_, values) in sketches.kinds() {
        columns.push(Arc::new(BinaryArray::from_vec(vec![&values.sketch.to_bytes()])));
    }
    for (_, values) in sketches.kinds() {
        let bytes = values.exact.as_ref().map(Exact::to_bytes);
        columns.push(Arc::new(BinaryArray::from_opt_vec(vec![bytes.as_deref()])));
    }
    RecordBatch::try_new(Arc::clone(&SCHEMA), columns)
        .map_err(|error| JobError::Run(error.to_string()))
}

/// Reads the rows of a table, one after the other.
pub(super) fn read(
    path: &Path,
    mut take: impl FnMut(u64, Row) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    read_columns_by(path, &SCHEMA, ROWS, |first, batch| {
        for row in 0..batch.num_rows() {
            let number = first + row as u64;
            let read = row_of(batch, row).map_err(|name| TraceError::Unusable {
                path: path.to_owned(),
                reason: format!("row {number}: column `{name}` holds no sketch"),
                right: "a table `sketches` of volume_study, of this version",
            })?;
            take(number, read)?;
        }
        Ok(())
    })
}

/// A row; the name of a column that is no sketch otherwise.
fn row_of(batch: &RecordBatch, number: usize) -> Result<Row, String> {
    let column = |name: &str| -> &ArrayRef {
        let found = batch.column_by_name(name);
        found.unwrap_or_else(|| unreachable!("column {name} is of the schema that was asked for"))
    };
    let bytes = |name: &str| column(name).as_binary::<i32>().value(number);
    let mut row = Row::default();
    row.figures.volume = column("volume").as_primitive::<UInt32Type>().value(number);
    row.figures.is_counted = column("is_counted").as_boolean().value(number);
    for (name, figure) in FIGURES {
        *figure(&mut row) = column(name).as_primitive::<UInt64Type>().value(number);
    }
    let distinct = |name: &str| Distinct::from_bytes(bytes(name)).ok_or_else(|| name.to_owned());
    row.sketches.written = distinct("written")?;
    row.sketches.read = distinct("read")?;
    for (name, values) in row.sketches.kinds_mut() {
        values.sketch = Sketch::from_bytes(bytes(name)).ok_or_else(|| name.to_owned())?;
        let name = format!("{name}{VALUES}");
        if column(&name).is_valid(number) {
            values.exact = Some(Exact::from_bytes(bytes(&name)).ok_or(name)?);
        }
    }
    Ok(row)
}
