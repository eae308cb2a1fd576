//! The flash translation layer, written once: it decides where pages lie, and whoever drives it
//! moves data, or only counts.

mod audit;
mod cache_blocks;
mod cleaning;
mod frontiers;
mod lanes;
mod long_lying;
mod page_mapped;
mod pulled;
mod reclaiming;
mod remains;
mod steps;
mod table;

pub use audit::AuditError;
pub use cache_blocks::CacheSize;
pub use cleaning::{Cleaning, Survivor};
pub use lanes::Lanes;
pub use page_mapped::{FtlCounters, PageMapped, table_bytes};
pub use remains::{BlockRemains, Remains, RemainsError};
