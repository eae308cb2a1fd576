//! The flash translation layer, written once: it decides where pages lie, and whoever drives it
//! moves data, or only counts.

mod lanes;
mod page_mapped;
mod table;
mod thresholds;

pub use lanes::Lanes;
pub use page_mapped::{
    AuditError, BlockRemains, CacheSize, Cleaning, FtlCounters, PageMapped, Remains, RemainsError,
    Survivor, table_bytes,
};
pub use thresholds::Thresholds;
