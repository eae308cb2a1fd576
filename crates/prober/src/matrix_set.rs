//! A whole matrix of throughputs, measured in one fixed order: what a profile is fitted to, and what two drives are compared by.
//!
//! What a drive does with a write depends on the writes before it. So both sides of a comparison have to be measured by the same
//! [`Protocol`], in the same order: the area is written once in order, then come reads, sequential and random; sequential writes and
//! mixes; a volume of random writes that is not measured, so that logs and buffers are in use; random writes and mixes.

use registry::SpecError;
use serde::{Deserialize, Serialize};
use traces::synth::patterns::Pattern;
use units::Nanos;

use crate::bench::{Bench, Job, Limit};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;
use crate::matrix::{Access, Cell};

/// How a matrix is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Requests stay within so many bytes from the start of the region: best whole multiples of [`Protocol::SLICE_BYTES`].
    pub area_bytes: u64,
    /// Written before the first cell of each kind and depth with writes, so that write buffers are full where they can be; before each further
    /// one it is a sixth of it.
    pub warm_up_bytes: u64,
    /// Read or written in a cell at most, but for cells with random writes, which take [`Protocol::RANDOM_WRITES`] as much.
    pub measured_bytes: u64,
    /// Written at random before the first cell with random writes.
    pub condition_bytes: u64,
    /// Device time that a cell is measured at most, in nanoseconds; warming up may take the same again.
    pub cell_ns: Nanos,
    /// Seed of the requests: whoever measures again sends the same ones, so that few requests tell two drives apart.
    pub seed: u32,
}

impl Protocol {
    /// Sequential cells start at multiples of this, each behind what the last one touched, so that none finds that in a cache or overwrites it
    /// in a write buffer.
    pub const SLICE_BYTES: u64 = 16 << 20;
    /// Random writes are measured over so many times as many bytes: what they cost comes in pieces (merges, cleanings).
    pub const RANDOM_WRITES: u64 = 2;
    /// What is written before further cells of a kind, as a part of that.
    const FURTHER: u64 = 6;
    /// Cells below this many requests are left out: there is no throughput to tell.
    const FEWEST_REQUESTS: u64 = 8;

    /// The protocol for a region and a budget of device time. `buffer_bytes` is the write buffer's size if it is known.
    #[must_use]
    pub fn new(region_bytes: u64, budget: Nanos, cells: usize, buffer_bytes: Option<f64>, seed: u64) -> Self {
        let seed = (seed ^ (seed >> 32)) as u32;
        let area_bytes = (256 << 20_u64).min(region_bytes / Self::SLICE_BYTES * Self::SLICE_BYTES).max(Self::SLICE_BYTES.min(region_bytes));
        // Without knowledge, as much as the largest buffers of drives of 2008 to 2012 and half as much again.
        let warm_up_bytes = buffer_bytes.map_or(48 << 20, |bytes| ((bytes * 1.5) as u64).clamp(2 << 20, 512 << 20));
        // A cell is measured and, half as long on average, warmed up.
        let cell_ns = budget / (cells.max(1) as Nanos * 2) + 1;
        Self { area_bytes, warm_up_bytes, measured_bytes: 8 << 20, condition_bytes: area_bytes + area_bytes / 4, cell_ns, seed }
    }

    /// Takes another area, and so many random writes before the measured ones as go with it; 0 leaves it as it is.
    pub fn set_area(&mut self, area_bytes: u64) {
        if area_bytes > 0 {
            self.area_bytes = area_bytes;
            self.condition_bytes = area_bytes + area_bytes / 4;
        }
    }

    /// Requests that are measured in a cell.
    fn requests(&self, cell: &Cell) -> u64 {
        let is_random_write = cell.access != Access::Sequential && cell.reads < 1.0;
        let bytes = self.measured_bytes * if is_random_write { Self::RANDOM_WRITES } else { 1 };
        let by_bytes = (bytes / u64::from(cell.size_bytes)).min(if is_random_write { 8_192 } else { 1_536 });
        // What reads and writes do to each other takes more of them to average out.
        let is_mix = cell.reads > 0.0 && cell.reads < 1.0;
        by_bytes.max(if is_mix { 400 } else { 160 }).max(3 * u64::from(cell.depth))
    }

    /// Bytes that a measurement of all these cells writes at most.
    #[must_use]
    pub fn written_bytes(&self, cells: &[Cell]) -> u64 {
        let of_cell = |cell: &Cell| {
            let bytes = self.warm_up_bytes / 2 + self.requests(cell) * u64::from(cell.size_bytes);
            (bytes as f64 * (1.0 - cell.reads)) as u64
        };
        self.area_bytes + self.condition_bytes + cells.iter().map(of_cell).sum::<u64>()
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
}

impl CellMeasured {
    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.iops * f64::from(self.cell.size_bytes)
    }
}

/// Throughputs, and how they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// How.
    pub protocol: Protocol,
    /// What, in the order measured.
    pub cells: Vec<CellMeasured>,
}

/// Where the area comes from before the first cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It is written, in order.
    Fill,
    /// It is as if it had been written: a simulated drive in such a state.
    IsFilled,
}

/// Depths of the standard cells.
pub const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// Request sizes of the standard cells; a sector of 512 bytes comes first where the drive has such.
pub const SIZES: [u32; 4] = [4096, 16_384, 65_536, 262_144];

/// The standard cells: sequential and random, read, write and half of each, sizes and depths, in the order in which they are measured.
#[must_use]
pub fn standard_cells(sector_bytes: u32) -> Vec<Cell> {
    let sizes: Vec<u32> = (sector_bytes == 512).then_some(512).into_iter().chain(SIZES).collect();
    let mut cells = Vec::new();
    for (access, reads) in ORDER {
        // From deep and large to shallow and small: a buffer that the first has filled, the next find full.
        for &depth in DEPTHS.iter().rev() {
            cells.extend(sizes.iter().rev().map(|&size_bytes| Cell { access, reads, size_bytes, depth }));
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

/// Measures these cells, in the order given, which should be that of [`standard_cells`]. Cells in which too few requests end within
/// the protocol's time are left out.
///
/// # Errors
/// Those of [`Bench::play`]; [`ProbeError::Impossible`] if the area does not fit into the region, or cells with writes come where nothing may
/// be written.
pub fn measure_matrix(bench: &mut Bench<'_>, protocol: &Protocol, cells: &[Cell], preparation: Preparation) -> Result<Matrix, ProbeError> {
    measure_within(bench, protocol, cells, &Times::of_protocol(protocol, cells.len()), preparation)
}

/// Longest times in nanoseconds: of warming up and of measuring each cell, and of the writes before random writes.
pub(crate) struct Times {
    pub cells: Vec<(Nanos, Nanos)>,
    pub condition: Nanos,
}

impl Times {
    /// Those of a measurement.
    pub fn of_protocol(protocol: &Protocol, cells: usize) -> Self {
        Self { cells: vec![(protocol.cell_ns, protocol.cell_ns); cells], condition: protocol.cell_ns.saturating_mul(8) }
    }

    /// Times for simulating what was measured: where the target is slow, no more requests than tell its throughput. A candidate that is slower
    /// yet does fewer, and is wrong anyway.
    pub fn like(measured: &[CellMeasured], protocol: &Protocol) -> Self {
        const REQUESTS: f64 = 64.0;
        /// What reads and writes do to each other comes in bursts.
        const MIXED_REQUESTS: f64 = 128.0;
        const LEAST: f64 = 2e8;
        /// Below so many bytes a second no buffer is filled by warming up.
        const SLOW: f64 = 20e6;
        let most = protocol.cell_ns as f64;
        let of_cell = |one: &CellMeasured| {
            let requests = if one.cell.reads > 0.0 && one.cell.reads < 1.0 { MIXED_REQUESTS } else { REQUESTS };
            let measure = (requests * 1e9 / one.iops).max(LEAST).min(most) as Nanos;
            let warm_up = if one.bytes_per_second() > SLOW { protocol.cell_ns } else { measure };
            (warm_up, measure)
        };
        let slowest = measured.iter().filter(|one| one.cell.access == Access::Random && one.cell.reads == 0.0);
        let slowest = slowest.map(CellMeasured::bytes_per_second).fold(f64::INFINITY, f64::min);
        let parts = if slowest > SLOW / 4.0 { 8 } else { 1 };
        Self { cells: measured.iter().map(of_cell).collect(), condition: protocol.cell_ns.saturating_mul(parts) }
    }
}

/// [`measure_matrix`] with times of its own for each cell.
pub(crate) fn measure_within(
    bench: &mut Bench<'_>,
    protocol: &Protocol,
    cells: &[Cell],
    times: &Times,
    preparation: Preparation,
) -> Result<Matrix, ProbeError> {
    let impossible = |reason: String| ProbeError::Impossible { experiment: "matrix", reason };
    let has_writes = cells.iter().any(|cell| cell.reads < 1.0);
    if has_writes && !bench.settings().may_write {
        return Err(impossible("it has cells that write, which was not allowed: leave them out with writes=0".to_owned()));
    }
    if protocol.area_bytes > bench.region().length {
        return Err(impossible(format!(
            "its area of {} bytes does not fit into the region of {}",
            protocol.area_bytes,
            bench.region().length
        )));
    }
    if let Some(cell) = cells.iter().find(|cell| u64::from(cell.size_bytes) > protocol.area_bytes) {
        return Err(impossible(format!("requests of {} bytes do not fit into its area of {}", cell.size_bytes, protocol.area_bytes)));
    }
    if preparation == Preparation::Fill && bench.settings().may_write {
        bench.fill(0, protocol.area_bytes, QUIET)?;
    }
    let mut measuring = Measuring { protocol: *protocol, next: 0, condition_ns: Some(times.condition), kind: None };
    let mut measured = Vec::with_capacity(cells.len());
    for (cell, &times) in cells.iter().zip(&times.cells) {
        let one = measuring.cell(bench, cell, times)?;
        measured.extend(one);
    }
    Ok(Matrix { protocol: *protocol, cells: measured })
}

/// Pause between kinds of load, in nanoseconds: long against any single operation, short against the idle times that start background
/// work.
const QUIET: Nanos = 20_000_000;

/// So many requests or so much device time, whichever comes first.
fn most(requests: u64, time: Nanos) -> Limit {
    Limit { requests, ..Limit::time(time).precision(0.0) }
}

/// What a cell consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    WarmUp,
    Measured,
}

struct Measuring {
    protocol: Protocol,
    /// Where the next sequential requests start, in bytes from the start of the area.
    next: u64,
    /// Longest time of the random writes before the first random cell that writes, until they are done.
    condition_ns: Option<Nanos>,
    /// Order, share of reads and depth of the last cell.
    kind: Option<(Access, f64, u32)>,
}

impl Measuring {
    fn cell(&mut self, bench: &mut Bench<'_>, cell: &Cell, (warm_up, longest): (Nanos, Nanos)) -> Result<Option<CellMeasured>, ProbeError> {
        let protocol = self.protocol;
        let writes = cell.reads < 1.0;
        let is_sequential = cell.access == Access::Sequential;
        if writes
            && !is_sequential
            && let Some(time) = self.condition_ns.take()
        {
            self.condition(bench, time)?;
        }
        let (mut requests, mut time) = (protocol.requests(cell), longest);
        let ramp = 2 * u64::from(cell.depth) + 8;
        if writes {
            let is_first = self.kind != Some((cell.access, cell.reads, cell.depth));
            if self.kind.is_none_or(|(access, reads, _)| (access, reads) != (cell.access, cell.reads)) {
                bench.flush()?;
            }
            let bytes = protocol.warm_up_bytes / if is_first { 1 } else { Protocol::FURTHER };
            // Small random writes are as many as large ones: where each costs a merge, all of the buffer is never filled anyway.
            let before = ((bytes as f64 / f64::from(cell.size_bytes) / (1.0 - cell.reads)) as u64).clamp(16, 16_384);
            let source = self.source(bench, cell, Part::WarmUp, before)?;
            let warmed = bench.play(vec![Job::closed(source, cell.depth)], most(before, warm_up))?;
            // A slow cell ends with a request, not at a time: of 15 requests the one under way at the end would be 7 %.
            let in_time = (warmed.iops() * longest as f64 / 1e9) as u64;
            requests = requests.min(in_time.max(Protocol::FEWEST_REQUESTS));
            time = longest.saturating_mul(4);
        }
        let source = self.source(bench, cell, Part::Measured, requests + ramp)?;
        let measured = bench.play(vec![Job::closed(source, cell.depth)], most(requests, time).after(ramp))?;
        self.kind = Some((cell.access, cell.reads, cell.depth));
        if measured.requests < Protocol::FEWEST_REQUESTS {
            return Ok(None);
        }
        Ok(Some(CellMeasured { cell: *cell, iops: measured.iops(), interval: measured.iops_interval() }))
    }

    fn condition(&self, bench: &mut Bench<'_>, time: Nanos) -> Result<(), ProbeError> {
        const BYTES: u64 = 16_384;
        const DEPTH: u32 = 16;
        if self.protocol.area_bytes < BYTES {
            return Ok(());
        }
        let source = self.pattern(bench, &format!("random(size={BYTES}"), 0, 0)?;
        let requests = self.protocol.condition_bytes / BYTES;
        let limit = most(requests, time);
        bench.play(vec![Job::closed(source, DEPTH)], limit)?;
        bench.flush()?;
        bench.pause(QUIET)
    }

    /// The requests of a part of a cell, which are at most so many.
    fn source(&mut self, bench: &Bench<'_>, cell: &Cell, part: Part, requests: u64) -> Result<Box<dyn units::RequestSource>, SpecError> {
        let offset = match cell.access {
            Access::Random => 0,
            Access::Sequential | Access::Stride(_) => self.behind(requests * u64::from(cell.size_bytes)),
        };
        let Cell { size_bytes, reads: share, .. } = cell;
        let open = match cell.access {
            Access::Sequential => format!("sequential(size={size_bytes},reads={share}"),
            Access::Random => format!("random(size={size_bytes},reads={share}"),
            Access::Stride(distance) => format!("stride(size={size_bytes},reads={share},distance={distance}"),
        };
        // A number of its own for each cell, and for what comes before it.
        let (kind, reads) = (u64::from(cell.access == Access::Random), (cell.reads * 100.0) as u64);
        let number = [kind, reads, u64::from(cell.size_bytes), u64::from(cell.depth), u64::from(part == Part::Measured)];
        let number = number.into_iter().fold(1_u64, |sum, part| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part));
        self.pattern(bench, &open, offset, number)
    }

    /// Where so many bytes in a row lie behind what sequential requests touched last: at the start again where they reach beyond the end.
    fn behind(&mut self, bytes: u64) -> u64 {
        let offset = if self.next + bytes > self.protocol.area_bytes { 0 } else { self.next };
        self.next = (offset + bytes).next_multiple_of(Protocol::SLICE_BYTES);
        offset
    }

    /// A pattern, given without its closing bracket, from an offset in the area to its end. The same number gives the same requests.
    fn pattern(&self, bench: &Bench<'_>, open: &str, offset: u64, number: u64) -> Result<Box<dyn units::RequestSource>, SpecError> {
        let (begin, range) = (bench.region().offset + offset, self.protocol.area_bytes - offset);
        let seed = number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ u64::from(self.protocol.seed);
        let device = bench.device();
        Pattern::parse(&format!("{open},offset={begin},range={range})"), seed)?.source(device.capacity_bytes, device.sector_bytes)
    }
}

/// The charts of a matrix begin so; then access and kind follow, as in `matrix_random_read`.
const CHART: &str = "matrix_";

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

    /// Values and charts that hold all of it: [`Matrix::from_finding`] reads them back.
    #[must_use]
    pub fn to_finding(&self) -> Finding {
        let Protocol { area_bytes, warm_up_bytes, measured_bytes, condition_bytes, cell_ns, seed } = self.protocol;
        let why = "how the matrix was measured";
        let setting = |key: &str, number: f64| Value::setting(key, number, why);
        let values = vec![
            Value::number("matrix_cells", self.cells.len() as f64, "kinds of load whose throughput was measured"),
            setting("matrix_area_bytes", area_bytes as f64),
            setting("matrix_warm_up_bytes", warm_up_bytes as f64),
            setting("matrix_measured_bytes", measured_bytes as f64),
            setting("matrix_condition_bytes", condition_bytes as f64),
            setting("matrix_cell_ns", cell_ns as f64),
            setting("matrix_seed", f64::from(seed)),
        ];
        let charts = ORDER.iter().filter_map(|&(access, reads)| self.chart(access, reads)).collect();
        Finding { values, charts, ..Finding::default() }
    }

    fn chart(&self, access: Access, reads: f64) -> Option<Chart> {
        let (order, kind) = words(access, reads);
        let series: Vec<Series> = DEPTHS
            .iter()
            .map(|&depth| {
                let mut series = Series::new(format!("depth {depth}"));
                let cells = self.cells.iter().filter(|one| one.cell.access == access && one.cell.reads == reads && one.cell.depth == depth);
                for one in cells {
                    let size = f64::from(one.cell.size_bytes);
                    let [rate, low, high] = [one.iops, one.interval[0], one.interval[1]].map(|iops| iops * size / 1e6);
                    series.push_within(size, rate, low, high);
                }
                series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
                series
            })
            .filter(|series| !series.points.is_empty())
            .collect();
        if series.is_empty() {
            return None;
        }
        Some(Chart {
            name: format!("{CHART}{order}_{kind}"),
            title: format!("Throughput of {order} requests, {kind}"),
            x: Axis::log("Request size", "bytes"),
            y: Axis::log("Throughput", "MB/s"),
            series,
            marks: Vec::new(),
        })
    }

    /// The matrix of the last finding that holds one.
    #[must_use]
    pub fn from_findings(known: &Known) -> Option<Self> {
        known.findings().iter().rev().find_map(Self::from_finding)
    }

    /// The matrix that a finding holds; `None` if it holds none. Points that cannot be throughputs are left out.
    #[must_use]
    pub fn from_finding(finding: &Finding) -> Option<Self> {
        let whole = |key: &str| {
            let number = finding.values.iter().find(|value| value.key == key)?.number?;
            (number.is_finite() && number >= 0.0).then_some(number as u64)
        };
        let protocol = Protocol {
            area_bytes: whole("matrix_area_bytes").filter(|&bytes| bytes > 0)?,
            warm_up_bytes: whole("matrix_warm_up_bytes")?,
            measured_bytes: whole("matrix_measured_bytes")?,
            condition_bytes: whole("matrix_condition_bytes")?,
            cell_ns: whole("matrix_cell_ns").filter(|&time| time > 0)?,
            seed: whole("matrix_seed")? as u32,
        };
        let mut cells = Vec::new();
        for (access, reads) in ORDER {
            let (order, kind) = words(access, reads);
            let name = format!("{CHART}{order}_{kind}");
            let Some(chart) = finding.charts.iter().find(|chart| chart.name == name) else { continue };
            let mut of_kind: Vec<CellMeasured> = chart.series.iter().flat_map(|series| points(series, access, reads)).collect();
            of_kind.sort_by_key(|one| std::cmp::Reverse((one.cell.depth, one.cell.size_bytes)));
            cells.extend(of_kind);
        }
        (!cells.is_empty()).then_some(Self { protocol, cells })
    }
}

fn points(series: &Series, access: Access, reads: f64) -> Vec<CellMeasured> {
    let Some(depth) = series.name.strip_prefix("depth ").and_then(|depth| depth.parse::<u32>().ok()).filter(|&depth| depth > 0) else {
        return Vec::new();
    };
    let is_size = |x: f64| x.fract() == 0.0 && (1.0..f64::from(1_u32 << 30)).contains(&x);
    let good = series.points.iter().filter(|point| is_size(point.x) && point.y.is_finite() && point.y > 0.0);
    good.map(|point| {
        let iops = |rate: f64| rate * 1e6 / point.x;
        let interval = point.interval.unwrap_or([point.y, point.y]).map(iops);
        CellMeasured { cell: Cell { access, reads, size_bytes: point.x as u32, depth }, iops: iops(point.y), interval }
    })
    .collect()
}

fn words(access: Access, reads: f64) -> (&'static str, &'static str) {
    let order = match access {
        Access::Sequential => "sequential",
        Access::Random => "random",
        Access::Stride(_) => "stride",
    };
    let kind = if reads >= 1.0 {
        "read"
    } else if reads <= 0.0 {
        "write"
    } else {
        "mix"
    };
    (order, kind)
}

#[cfg(test)]
mod tests {
    use devices::{Simulated, SimulatedSettings};
    use ssd::drive::profile;
    use ssd::drive::state::State;
    use units::Progress;

    use super::*;
    use crate::bench::{Region, Settings};

    #[test]
    fn sequential_writes_do_not_overwrite_what_is_in_the_write_buffer() {
        let profile = profile::load("nvme-tlc").unwrap();
        let progress = Progress::default();
        let mut device = Simulated::new("sim", &profile, SimulatedSettings { state: State::Filled, seed: 1 }, &progress).unwrap();
        let region = Region { offset: 0, length: 512 << 20 };
        let settings = Settings { region, seed: 1, may_write: true, budget: 1_200_000_000_000 };
        let mut bench = Bench::new(&mut device, settings, &progress);
        let mut cells = standard_cells(512);
        cells.retain(|cell| cell.access == Access::Sequential && cell.reads != 0.5);
        let buffer = profile.write_buffer.bytes as f64;
        let protocol = Protocol::new(region.length, settings.budget, 120, Some(buffer), 1);
        let matrix = measure_matrix(&mut bench, &protocol, &cells, Preparation::Fill).unwrap();
        // 128 planes, 4 KiB in 475 us each.
        let flash = 128.0 * 4096.0 / 475e-6;
        for one in matrix.cells.iter().filter(|one| one.cell.reads == 0.0 && one.cell.depth >= 16 && one.cell.size_bytes >= 65_536) {
            assert!(one.bytes_per_second() < 1.2 * flash, "{:?}: {:.0} MB/s", one.cell, one.bytes_per_second() / 1e6);
        }
    }
}
