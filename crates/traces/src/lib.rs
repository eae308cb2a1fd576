//! Block traces: readers and writers, the canonical Parquet store, statistics, synthetic workloads.

pub mod accesses;
mod archive;
mod binary;
mod compression;
mod error;
mod fields;
mod fit;
pub mod fleet;
pub mod formats;
pub mod ftrace;
mod input;
mod open;
pub mod pages;
mod reader;
pub mod requests;
pub mod stats;
pub mod store;
pub mod synth;
mod text;
mod units_seen;
mod unpack;
mod volumes;
mod when;
mod writer;

pub use error::{Place, TraceError};
pub use input::{Head, Input};
pub use open::{
    BATCH_REQUESTS, Converted, OpenOptions, Trace, convert, hash_file, open, open_input,
};
pub use pages::Sampled;
pub use reader::{Facts, Mark, Tally, TraceReader};
pub use writer::{Origin, Output, SourceFile, TraceWriter, Written};
