//! The file of a trace of page accesses: Parquet, one row an access or an end of a transaction.
//!
//! `docs/formats/page_accesses.md` has the columns.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::{NO_ROW, Relation};
use crate::error::{Place, TraceError};
use crate::store::{not_parquet, parquet_file};

/// The columns; `client`, `row` and `think_ns` may be missing.
pub const COLUMNS: [&str; 7] =
    ["transaction", "kind", "relation", "page", "client", "row", "think_ns"];
/// Key of the metadata that has the bytes of a page; 8192 without it.
pub const PAGE_BYTES_KEY: &str = "flashwright.page_bytes";
/// With the number of a relation behind it, the key of `table PAGES NAME` or `index PAGES NAME`.
pub const RELATION_KEY: &str = "flashwright.relation.";

const DEFAULT_PAGE_BYTES: u32 = 8192;
/// More would not fit the number of a relation in an access.
const MOST_RELATIONS: u32 = 65_535;

/// Event of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Begin { think: u64 },
    Access { relation: u32, page: u32, row: u32, is_write: bool },
    Commit,
    Abort,
}

/// Reads the rows of a file, a batch at a time.
pub(super) struct Rows {
    path: std::path::PathBuf,
    batches: ParquetRecordBatchReader,
    row: u64,
    pub page_bytes: u32,
    /// By their numbers.
    pub relations: BTreeMap<u32, Relation>,
    pub rows: u64,
}

impl Rows {
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let builder = parquet_file(path)?;
        let about = builder.metadata().file_metadata();
        let rows = u64::try_from(about.num_rows()).unwrap_or(0);
        let pairs: Vec<(String, String)> = about
            .key_value_metadata()
            .into_iter()
            .flatten()
            .filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?)))
            .collect();
        let (page_bytes, relations) = metadata(path, &pairs)?;
        let batches =
            builder.with_batch_size(1 << 16).build().map_err(|error| not_parquet(path, error))?;
        Ok(Self { path: path.to_owned(), batches, row: 0, page_bytes, relations, rows })
    }

    /// Gives `take` each row of the next batch: its number, its transaction and what it says.
    /// `false` at the end.
    pub fn next_batch(
        &mut self,
        mut take: impl FnMut(u64, u64, Event) -> Result<(), TraceError>,
    ) -> Result<bool, TraceError> {
        let failed =
            |row: u64, source: Box<dyn std::error::Error + Send + Sync>| TraceError::Parquet {
                path: self.path.clone(),
                doing: "read",
                place: Place::Row(row),
                source,
            };
        // As of any file from outside: a damaged one never takes the process down.
        let next = catch_unwind(AssertUnwindSafe(|| self.batches.next()))
            .map_err(|_| failed(self.row, "the file is damaged: decoding it panicked".into()))?;
        let Some(batch) = next else { return Ok(false) };
        let batch = batch.map_err(|error| failed(self.row, error.into()))?;
        let columns = Columns::of(&batch).map_err(|reason| failed(self.row, reason.into()))?;
        for at in 0..batch.num_rows() {
            let row = self.row + at as u64;
            let event = columns
                .event(at)
                .map_err(|(reason, right)| malformed(&self.path, row, reason, right))?;
            take(row, columns.transaction.value(at), event)?;
        }
        self.row += batch.num_rows() as u64;
        Ok(true)
    }
}

pub(super) fn malformed(
    path: &Path,
    row: u64,
    reason: impl Into<String>,
    right: &'static str,
) -> TraceError {
    TraceError::Malformed {
        path: path.to_owned(),
        place: Place::Row(row),
        reason: reason.into(),
        right,
        skipped: 0,
    }
}

fn metadata(
    path: &Path,
    pairs: &[(String, String)],
) -> Result<(u32, BTreeMap<u32, Relation>), TraceError> {
    let wrong = |key: &str, value: &str, right| {
        malformed(path, 0, format!("metadata {key} is `{value}`"), right)
    };
    let mut page_bytes = DEFAULT_PAGE_BYTES;
    let mut relations = BTreeMap::new();
    for (key, value) in pairs {
        if key == PAGE_BYTES_KEY {
            page_bytes = value
                .parse()
                .ok()
                .filter(|bytes: &u32| bytes.is_power_of_two() && (512..=1 << 20).contains(bytes))
                .ok_or_else(|| wrong(key, value, "a power of two from 512 to 1048576"))?;
        }
        let Some(number) = key.strip_prefix(RELATION_KEY) else { continue };
        let right = "`table PAGES NAME` or `index PAGES NAME` for a relation from 0 to 65534";
        let number = number.parse().ok().filter(|&number: &u32| number < MOST_RELATIONS);
        let words: Vec<&str> = value.splitn(3, ' ').collect();
        let (Some(number), [kind @ ("table" | "index"), pages, name]) = (number, &words[..]) else {
            return Err(wrong(key, value, right));
        };
        let pages = pages.parse().map_err(|_| wrong(key, value, right))?;
        let is_index = *kind == "index";
        let relation = Relation { name: (*name).to_owned(), is_index, first_page: 0, pages };
        relations.insert(number, relation);
    }
    Ok((page_bytes, relations))
}

/// The columns of one batch.
struct Columns {
    transaction: UInt64Array,
    kind: StringArray,
    relation: UInt32Array,
    page: UInt32Array,
    row: Option<UInt32Array>,
    think: Option<UInt64Array>,
}

impl Columns {
    fn of(batch: &RecordBatch) -> Result<Self, String> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let given = |name: &str, kind: DataType| -> Result<Option<ArrayRef>, String> {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            let cast = cast_with_options(column, &kind, &options);
            cast.map(Some).map_err(|error| format!("column `{name}` is not {kind}: {error}"))
        };
        let needed = |name: &str, kind: DataType, may_be_null: bool| {
            let column = given(name, kind)?.ok_or_else(|| {
                format!("no column `{name}`: such a trace has {}", COLUMNS.join(", "))
            })?;
            if !may_be_null && column.null_count() > 0 {
                return Err(format!("column `{name}` has nulls; it must have none"));
            }
            Ok(column)
        };
        Ok(Self {
            transaction: needed("transaction", DataType::UInt64, false)?
                .as_primitive::<UInt64Type>()
                .clone(),
            kind: needed("kind", DataType::Utf8, false)?.as_string::<i32>().clone(),
            relation: needed("relation", DataType::UInt32, true)?
                .as_primitive::<UInt32Type>()
                .clone(),
            page: needed("page", DataType::UInt32, true)?.as_primitive::<UInt32Type>().clone(),
            row: given("row", DataType::UInt32)?.map(|c| c.as_primitive::<UInt32Type>().clone()),
            think: given("think_ns", DataType::UInt64)?
                .map(|c| c.as_primitive::<UInt64Type>().clone()),
        })
    }

    fn event(&self, at: usize) -> Result<Event, (String, &'static str)> {
        let kind = self.kind.value(at);
        let is_write = match kind {
            "begin" => {
                let think = self.think.as_ref().filter(|c| c.is_valid(at));
                return Ok(Event::Begin { think: think.map_or(0, |c| c.value(at)) });
            }
            "commit" => return Ok(Event::Commit),
            "abort" => return Ok(Event::Abort),
            "read" => false,
            "write" => true,
            other => {
                let right = "begin, read, write, commit or abort";
                return Err((format!("kind is `{other}`"), right));
            }
        };
        if self.relation.is_null(at) || self.page.is_null(at) {
            return Err((format!("a {kind} without relation or page"), "both, as numbers"));
        }
        let relation = self.relation.value(at);
        if relation >= MOST_RELATIONS {
            return Err((format!("relation is {relation}"), "a number from 0 to 65534"));
        }
        let row = self.row.as_ref().filter(|c| c.is_valid(at)).map_or(NO_ROW, |c| c.value(at));
        Ok(Event::Access { relation, page: self.page.value(at), row, is_write })
    }
}
