//! Throughput as a function of access, mix, request size and depth: what most experiments and the fit of a profile are made of.

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::bench::{Bench, Job, Limit, Measured};
use crate::error::ProbeError;

/// In which order addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// One after the other, from the start of the region, and again.
    Sequential,
    /// Uniformly over the region, aligned to the request's size.
    Random,
    /// At a fixed distance in bytes.
    Stride(u64),
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Order of addresses.
    pub access: Access,
    /// Share of reads, 0 ... 1.
    pub reads: f64,
    /// Bytes of a request.
    pub size_bytes: u32,
    /// Requests outstanding.
    pub depth: u32,
}

impl Cell {
    /// The pattern of its requests, as a spec.
    #[must_use]
    pub fn pattern(&self) -> String {
        let Self { access, reads, size_bytes, .. } = self;
        match access {
            Access::Sequential => format!("sequential(size={size_bytes},reads={reads})"),
            Access::Random => format!("random(size={size_bytes},reads={reads})"),
            Access::Stride(distance) => format!("stride(size={size_bytes},reads={reads},distance={distance})"),
        }
    }
}

/// Measures one kind of load for so much device time at most.
///
/// # Errors
/// Those of [`Bench::play`].
pub fn measure(bench: &mut Bench<'_>, cell: &Cell, budget: Nanos) -> Result<Measured, ProbeError> {
    let source = bench.pattern(&cell.pattern())?;
    bench.play(vec![Job::closed(source, cell.depth)], Limit::time(budget).after(4 * u64::from(cell.depth)))
}
