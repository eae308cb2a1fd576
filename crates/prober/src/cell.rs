//! Throughput as a function of access, mix, request size and depth: what most experiments and the
//! fit of a profile are made of.

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::bench::{Bench, Limit, Measured, closed};
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

impl Access {
    /// The name in keys and charts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::Stride(_) => "stride",
        }
    }
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
    /// The pattern of its requests over the whole region, as a spec.
    #[must_use]
    pub fn pattern(&self) -> String {
        self.pattern_within(0, 0)
    }

    /// The pattern of its requests over so many bytes of the region from an offset on, 0 for all
    /// that follow, as a spec.
    #[must_use]
    pub fn pattern_within(&self, offset: u64, range: u64) -> String {
        let Self { access, reads, size_bytes, .. } = self;
        let name = access.name();
        let distance = if let Access::Stride(distance) = access {
            format!(",distance={distance}")
        } else {
            String::new()
        };
        format!("{name}(size={size_bytes},reads={reads},offset={offset},range={range}{distance})")
    }
}

/// Measures one kind of load over the whole region for so much device time at most: see
/// [`measure_within`].
///
/// # Errors
/// Those of [`Bench::play`].
pub fn measure(bench: &mut Bench<'_>, cell: &Cell, budget: Nanos) -> Result<Measured, ProbeError> {
    measure_within(bench, cell, 0, budget)
}

/// Measures one kind of load over the first `range` bytes of the region, 0 for all, for so much
/// device time at most.
///
/// Reads end when the throughput is known within one per cent, but not before they have read what
/// read-ahead may fetch at once. Writes take the whole time, of which the first third is not
/// measured: a write buffer takes in as much as it holds before it shows how fast the flash is, and
/// a hybrid mapping merges only after thousands of requests. If the time is too short for a few
/// requests, it takes more.
///
/// # Errors
/// Those of [`Bench::play`].
pub fn measure_within(
    bench: &mut Bench<'_>,
    cell: &Cell,
    range: u64,
    budget: Nanos,
) -> Result<Measured, ProbeError> {
    play_cell(bench, cell, range, budget, false)
}

/// The same with every request kept, and no more than [`MOST_SAMPLES`] measured.
///
/// # Errors
/// Those of [`Bench::play`].
pub fn sample_within(
    bench: &mut Bench<'_>,
    cell: &Cell,
    range: u64,
    budget: Nanos,
) -> Result<Measured, ProbeError> {
    play_cell(bench, cell, range, budget, true)
}

/// Requests that [`sample_within`] keeps at most: 20 MB.
pub const MOST_SAMPLES: u64 = 500_000;

/// Requests of the shortest measurement, and as many before it: of slow writes a small buffer takes
/// in so many.
const FEWEST_REQUESTS: u64 = 32;

fn play_cell(
    bench: &mut Bench<'_>,
    cell: &Cell,
    range: u64,
    budget: Nanos,
    keep_samples: bool,
) -> Result<Measured, ProbeError> {
    let source = bench.pattern(&cell.pattern_within(0, range))?;
    let requests = if keep_samples { MOST_SAMPLES } else { u64::MAX };
    bench.play(
        vec![closed(source, cell.depth)],
        Limit { keep_samples, requests, ..limit(cell, budget) },
    )
}

/// Gives the end of the measurement of a kind of load: see [`measure_within`].
#[must_use]
pub fn limit(cell: &Cell, budget: Nanos) -> Limit {
    /// Bytes that are read before a measurement may end: some windows of read-ahead.
    const LEAST_READ_BYTES: u64 = 4 << 20;
    let depth = u64::from(cell.depth);
    if cell.reads < 1.0 {
        return Limit::time(budget - budget / 3)
            .precision(0.0)
            .after(FEWEST_REQUESTS + depth)
            .after_time(budget / 3)
            .fewest(FEWEST_REQUESTS);
    }
    Limit::time(budget)
        .after(4 * depth)
        .fewest(FEWEST_REQUESTS)
        .at_least((LEAST_READ_BYTES / u64::from(cell.size_bytes)).max(256))
}
