//! The canonical store: a Parquet file that Flashwright, pandas, polars and DuckDB read alike.
//!
//! Columns, in this order; offsets and lengths are in bytes, times in nanoseconds since the first
//! request:
//!
//! | column       | type                                         | null |
//! |--------------|----------------------------------------------|------|
//! | `time_ns`    | u64                                          | no   |
//! | `op`         | dictionary of `read` `write` `trim` `flush`  | no   |
//! | `offset`     | u64                                          | no   |
//! | `length`     | u32; 0 only for `flush`                      | no   |
//! | `stream`     | u32                                          | no   |
//! | `latency_ns` | u64                                          | yes  |
//! | `handle`     | u8: placement handle of a write, 0 ... 127   | yes  |
//! | `fua`        | bool: a write that is done when it is durable | no   |
//!
//! A handle of 0 is written as null: it is what a drive takes where none is given. Files without
//! the columns `handle` and `fua`, which older versions wrote, are read as if all were null and
//! false.
//!
//! Pages are compressed with zstd. Key-value metadata, all text: see the constants of [`keys`].

mod batch;
mod columns;
mod read;
mod table;
mod write;

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

pub use batch::to_batch;
pub use columns::{read_columns, read_columns_by};
pub use read::StoreReader;
pub(crate) use read::{not_parquet, parquet_bytes, parquet_file};
pub use table::TableWriter;
pub use write::StoreWriter;

/// Keys of the metadata.
pub mod keys {
    /// Version of Flashwright that wrote the file.
    pub const VERSION: &str = "flashwright.version";
    /// Format that the requests were read from.
    pub const SOURCE_FORMAT: &str = "flashwright.source_format";
    /// Prefix of `N.name` and `N.sha256`, for each file N = 0, 1, ... that they were read from.
    pub const SOURCE: &str = "flashwright.source.";
    /// Requests in the file.
    pub const REQUESTS: &str = "flashwright.requests";
    /// Malformed records of the source that were skipped.
    pub const SKIPPED: &str = "flashwright.skipped";
    /// Requests whose time lay before the first one's and was set to 0.
    pub const CLAMPED_TIMES: &str = "flashwright.clamped_times";
    /// Records of the source that were left out or taken for something else: a line `N reason`
    /// each.
    pub const LEFT_OUT: &str = "flashwright.left_out";
    /// Events that whoever recorded the source lost.
    pub const LOST_EVENTS: &str = "flashwright.lost_events";
    /// Warnings to heed before figures of the source are believed, a line each.
    pub const WARNINGS: &str = "flashwright.warnings";
    /// Time of the first request on the source's own clock, in nanoseconds; absent if it has none.
    pub const START_NS: &str = "flashwright.start_ns";
    /// `true` if times only count requests, because the source tells none.
    pub const TIMELESS: &str = "flashwright.timeless";
    /// `true` if equal offsets of two streams are different places.
    pub const STREAMS_ARE_VOLUMES: &str = "flashwright.streams_are_volumes";
}

pub(crate) const COLUMNS: [&str; 8] =
    ["time_ns", "op", "offset", "length", "stream", "latency_ns", "handle", "fua"];

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let op = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    let types = [
        DataType::UInt64,
        op,
        DataType::UInt64,
        DataType::UInt32,
        DataType::UInt32,
        DataType::UInt64,
        DataType::UInt8,
        DataType::Boolean,
    ];
    let fields = COLUMNS
        .iter()
        .zip(types)
        .map(|(name, kind)| Field::new(*name, kind, matches!(*name, "latency_ns" | "handle")));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
});

/// The columns as Arrow has them.
#[must_use]
pub fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}
