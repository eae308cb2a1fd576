//! A whole matrix of throughputs, measured in one fixed order: a profile is fitted to it, and two
//! drives are compared by it.
//!
//! The time that a drive takes for a write depends on the writes before it. So both sides of a
//! comparison have to be measured by the same [`Protocol`], in the same order: the area is written
//! once in order, then come reads, sequential and random; sequential writes and mixes; a volume of
//! random writes that is not measured, so that logs and buffers are in use; random writes and
//! mixes.

mod charts;
mod measuring;

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::cell::{Access, Cell};
pub use measuring::{Preparation, measure_again, measure_matrix};
pub(crate) use measuring::{Times, measure_within};

/// Settings with which a matrix is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Requests stay within so many bytes from the start of the region: best whole multiples of
    /// [`Protocol::SLICE_BYTES`].
    pub area_bytes: u64,
    /// Written before the first cell of each kind and depth with writes, so that write buffers are
    /// full where they can be; before each further one it is a sixth of it.
    pub warm_up_bytes: u64,
    /// Read in a cell at most. Cells with writes take as much, or [`Protocol::RANDOM_WRITES`] as
    /// much at random, and go on until their throughput is known as precisely as
    /// [`Protocol::PRECISION`], but not for more than [`Protocol::LONGER`] as much.
    pub measured_bytes: u64,
    /// Written at random before the first cell with random writes.
    pub condition_bytes: u64,
    /// Device time that a cell is measured at most, in nanoseconds; warming up may take the same
    /// again.
    pub cell_ns: Nanos,
    /// Seed of the requests: whoever measures again sends the same ones, so that few requests tell
    /// two drives apart.
    pub seed: u32,
}

impl Protocol {
    /// Sequential cells start at multiples of this, each behind what the last one touched, so that
    /// none finds that in a cache or overwrites it in a write buffer.
    pub const SLICE_BYTES: u64 = 16 << 20;
    /// Random writes are measured over at least so many times as many bytes: what they cost comes
    /// in pieces (merges, cleanings).
    pub const RANDOM_WRITES: u64 = 2;
    /// Half the width of the 95 % interval at which a cell with writes is precise enough, as a
    /// share of its throughput. Over less than a few merges or cleanings a throughput says more of
    /// when it was measured than of the drive.
    pub const PRECISION: f64 = 0.03;
    /// Cells that do not get as precise take so many times as many requests; small ones so many
    /// times that, if they are as many bytes.
    pub const LONGER: u64 = 4;
    /// But no more than so many times [`Protocol::measured_bytes`]: all that is written has to find
    /// room before large drives clean, as nobody knows when these do.
    pub const MOST_BYTES: u64 = 16;
    /// Batches of requests, as many as are outstanding, without which nobody knows how precise a
    /// cell is.
    const BATCHES: u64 = 20;
    /// Divisor of the bytes written before further cells of a kind.
    const FURTHER: u64 = 6;
    /// Cells below this many requests are left out: there is no throughput to tell.
    const FEWEST_REQUESTS: u64 = 8;

    /// The protocol for a region and a budget of device time. `buffer_bytes` is the write buffer's
    /// size if it is known.
    #[must_use]
    pub fn new(
        region_bytes: u64,
        budget: Nanos,
        cells: usize,
        buffer_bytes: Option<f64>,
        seed: u64,
    ) -> Self {
        let seed = (seed ^ (seed >> 32)) as u32;
        let area_bytes = (256 << 20_u64)
            .min(region_bytes / Self::SLICE_BYTES * Self::SLICE_BYTES)
            .max(Self::SLICE_BYTES.min(region_bytes));
        // Without knowledge, as much as the largest buffers of drives of 2008 to 2012 and half as
        // much again.
        let warm_up_bytes =
            buffer_bytes.map_or(48 << 20, |bytes| ((bytes * 1.5) as u64).clamp(2 << 20, 512 << 20));
        // A cell is measured and, half as long on average, warmed up.
        let cell_ns = budget / (cells.max(1) as Nanos * 2) + 1;
        Self {
            area_bytes,
            warm_up_bytes,
            measured_bytes: 8 << 20,
            condition_bytes: area_bytes + area_bytes / 4,
            cell_ns,
            seed,
        }
    }

    /// Takes another area, and so many random writes before the measured ones as go with it; 0
    /// leaves it as it is.
    pub fn set_area(&mut self, area_bytes: u64) {
        if area_bytes > 0 {
            self.area_bytes = area_bytes;
            self.condition_bytes = area_bytes + area_bytes / 4;
        }
    }

    fn is_random_write(cell: &Cell) -> bool {
        cell.access != Access::Sequential && cell.reads < 1.0
    }

    /// Bytes that requests which are neither very small nor very large read or write in a cell at
    /// least.
    fn measured_bytes_at_least(&self, cell: &Cell) -> u64 {
        self.measured_bytes * if Self::is_random_write(cell) { Self::RANDOM_WRITES } else { 1 }
    }

    /// Requests that are measured in a cell at least.
    fn least_requests(&self, cell: &Cell) -> u64 {
        let most = if Self::is_random_write(cell) { 8_192 } else { 1_536 };
        let by_bytes = (self.measured_bytes_at_least(cell) / u64::from(cell.size_bytes)).min(most);
        // What reads and writes do to each other takes more of them to average out.
        let is_mix = cell.reads > 0.0 && cell.reads < 1.0;
        by_bytes.max(if is_mix { 400 } else { 160 }).max(3 * u64::from(cell.depth))
    }

    /// Requests of a batch, which tell how precise a cell is.
    fn batch_requests(cell: &Cell) -> u64 {
        u64::from(cell.depth).max(8)
    }

    /// Requests that are measured in a cell at most.
    fn most_requests(&self, cell: &Cell) -> u64 {
        let least = self.least_requests(cell);
        if cell.reads >= 1.0 {
            return least;
        }
        let size = u64::from(cell.size_bytes);
        let small = (self.measured_bytes_at_least(cell) * Self::LONGER / size)
            .min(least * Self::LONGER * Self::LONGER);
        let longer =
            (least * Self::LONGER).max(small).max(Self::BATCHES * Self::batch_requests(cell));
        longer.min(self.measured_bytes * Self::MOST_BYTES / size).max(least)
    }

    /// Gives the most bytes that are written before the first cell, and not measured.
    fn prepared_bytes(&self) -> u64 {
        self.area_bytes + self.condition_bytes
    }
}

/// The throughput of one kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellMeasured {
    /// The load.
    pub cell: Cell,
    /// Requests a second.
    pub iops: f64,
    /// Its 95 % interval, in requests a second.
    pub interval: [f64; 2],
    /// Requests measured: whoever measures again sends as many, as what the next cells meet depends
    /// on them.
    pub requests: u64,
}

impl CellMeasured {
    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.iops * f64::from(self.cell.size_bytes)
    }
}

/// Throughputs, and the protocol by which they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// The protocol.
    pub protocol: Protocol,
    /// The cells, in the order measured.
    pub cells: Vec<CellMeasured>,
}

impl Matrix {
    /// The cell's throughput in requests a second, if it was measured.
    #[must_use]
    pub fn iops(&self, cell: &Cell) -> Option<f64> {
        self.cells.iter().find(|measured| measured.cell == *cell).map(|measured| measured.iops)
    }

    /// For each cell that both have: the cell, and how many times as fast the other one is.
    #[must_use]
    pub fn ratios(&self, other: &Self) -> Vec<(Cell, f64)> {
        let ratio = |one: &CellMeasured| Some((one.cell, other.iops(&one.cell)? / one.iops));
        self.cells.iter().filter_map(ratio).collect()
    }

    /// Bytes that measuring it wrote at most.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        written_bytes(&self.protocol, &self.cells)
    }
}

/// Bytes that measuring these cells in this way writes at most.
pub(crate) fn written_bytes(protocol: &Protocol, cells: &[CellMeasured]) -> u64 {
    let of_cell = |one: &CellMeasured| {
        let bytes = protocol.warm_up_bytes / 2 + one.requests * u64::from(one.cell.size_bytes);
        (bytes as f64 * (1.0 - one.cell.reads)) as u64
    };
    protocol.prepared_bytes() + cells.iter().map(of_cell).sum::<u64>()
}

/// Depths of the standard cells.
pub const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// Request sizes of the standard cells; a sector of 512 bytes comes first where the drive has such.
pub const SIZES: [u32; 4] = [4096, 16_384, 65_536, 262_144];

/// The standard cells: sequential and random, read, write and half of each, sizes and depths, in
/// the order in which they are measured.
#[must_use]
pub fn standard_cells(sector_bytes: u32) -> Vec<Cell> {
    let sizes: Vec<u32> = (sector_bytes == 512).then_some(512).into_iter().chain(SIZES).collect();
    let mut cells = Vec::new();
    for (access, reads) in ORDER {
        // From deep and large to shallow and small: a buffer that the first has filled, the next
        // find full.
        for &depth in DEPTHS.iter().rev() {
            cells.extend(sizes.iter().rev().map(|&size_bytes| Cell {
                access,
                reads,
                size_bytes,
                depth,
            }));
        }
    }
    cells
}

/// In which order kinds of load are measured.
const ORDER: [(Access, f64); 6] = [
    (Access::Sequential, 1.0),
    (Access::Random, 1.0),
    (Access::Sequential, 0.0),
    (Access::Sequential, 0.5),
    (Access::Random, 0.0),
    (Access::Random, 0.5),
];
