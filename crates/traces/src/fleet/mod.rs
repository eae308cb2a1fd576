//! Traces of many volumes, larger than a machine's memory: split by volume and time into a store,
//! and studied a volume at a time.
//!
//! A store is a folder that DuckDB, polars and pandas read as one table:
//!
//! ```text
//! STORE/fleet.json                              what it is of, and how far it is
//! STORE/fleet.lock                              held by whoever writes it
//! STORE/volume=17/time=3/part-0000000041.parquet
//! ```
//!
//! `time` is the number of a window of fixed length, counted from the first request of the trace. A
//! part is a file of the canonical store ([`crate::store`]); its times count from the first request
//! of the trace as well, so that the parts of a volume follow each other without a gap. Parts of
//! one window lie in the order of their numbers, requests in the order in which they came. The
//! folder of a volume is opened as a trace, as any file is ([`crate::open`]).

mod manifest;
mod split;
pub mod study;
mod synth;

pub use crate::volumes::{Part, VolumeReader, parts_of};
pub use manifest::{Told, VolumeTotals};
pub use split::{SplitDone, SplitOptions, split};
pub use synth::{FleetDone, FleetOptions, fleet_files, write_fleet};
