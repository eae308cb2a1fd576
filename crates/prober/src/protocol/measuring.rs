//! Measuring a matrix: first for itself, then in the same way for what is compared with it.

use registry::SpecError;
use traces::synth::patterns::Pattern;
use units::Nanos;

use super::{CellMeasured, Matrix, Protocol};
use crate::bench::{Bench, Limit, Measured, closed};
use crate::cell::{Access, Cell};
use crate::error::ProbeError;

/// Preparation of the area before the first cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It is written, in order.
    Fill,
    /// It is as if it had been written: a simulated drive in such a state.
    IsFilled,
}

/// Measures these cells, in the order given, which should be that of
/// [`standard_cells`](super::standard_cells), those with writes until they are precise. Cells in
/// which too few requests end within the protocol's time are left out.
///
/// # Errors
/// Those of [`Bench::play`]; [`ProbeError::Impossible`] if the area does not fit into the region,
/// or cells with writes come where nothing may be written.
pub fn measure_matrix(
    bench: &mut Bench<'_>,
    protocol: &Protocol,
    cells: &[Cell],
    preparation: Preparation,
) -> Result<Matrix, ProbeError> {
    let (measure, warm_up) = (protocol.cell_ns, protocol.cell_ns);
    let planned: Vec<Planned> =
        cells.iter().map(|&cell| Planned { cell, requests: None, warm_up, measure }).collect();
    measure_within(
        bench,
        protocol,
        &Times { cells: planned, condition: protocol.cell_ns.saturating_mul(8) },
        preparation,
    )
}

/// Measures what another matrix holds in the same way, with as many requests in each cell.
///
/// # Errors
/// Those of [`measure_matrix`].
pub fn measure_again(
    bench: &mut Bench<'_>,
    of: &Matrix,
    preparation: Preparation,
) -> Result<Matrix, ProbeError> {
    measure_within(bench, &of.protocol, &Times::whole(&of.cells, &of.protocol), preparation)
}

/// Plan of the measurement of a cell.
pub(crate) struct Planned {
    cell: Cell,
    /// Requests measured; as many as it takes if it is not said.
    requests: Option<u64>,
    /// Longest times in nanoseconds, of warming up and of measuring.
    warm_up: Nanos,
    measure: Nanos,
}

/// Times of all parts of a measurement.
pub(crate) struct Times {
    cells: Vec<Planned>,
    /// Longest time of the writes before random writes, in nanoseconds.
    condition: Nanos,
}

impl Times {
    /// Gives the times of a measurement with these results. A slower drive takes longer, as the
    /// next cells depend on the writes of these.
    pub fn whole(measured: &[CellMeasured], protocol: &Protocol) -> Self {
        let (warm_up, measure) = (protocol.cell_ns, protocol.cell_ns.saturating_mul(2));
        let plan = |one: &CellMeasured| Planned {
            cell: one.cell,
            requests: Some(one.requests),
            warm_up,
            measure,
        };
        Self {
            cells: measured.iter().map(plan).collect(),
            condition: protocol.cell_ns.saturating_mul(8),
        }
    }

    /// Times for simulating what was measured: where the target is slow, no more requests than tell
    /// its throughput. A candidate that is slower yet does fewer, and is wrong anyway.
    pub fn brief(measured: &[CellMeasured], protocol: &Protocol) -> Self {
        const REQUESTS: f64 = 64.0;
        /// Interference of reads and writes comes in bursts.
        const MIXED_REQUESTS: f64 = 128.0;
        const LEAST: f64 = 2e8;
        /// Below so many bytes a second no buffer is filled by warming up.
        const SLOW: f64 = 20e6;
        let most = protocol.cell_ns as f64;
        let of_cell = |one: &CellMeasured| {
            let requests = if one.cell.reads > 0.0 && one.cell.reads < 1.0 {
                MIXED_REQUESTS
            } else {
                REQUESTS
            };
            let measure = (requests * 1e9 / one.iops).max(LEAST).min(most) as Nanos;
            let warm_up = if one.bytes_per_second() > SLOW { protocol.cell_ns } else { measure };
            Planned { cell: one.cell, requests: Some(one.requests), warm_up, measure }
        };
        let slowest = measured
            .iter()
            .filter(|one| one.cell.access == Access::Random && one.cell.reads == 0.0);
        let slowest = slowest.map(CellMeasured::bytes_per_second).fold(f64::INFINITY, f64::min);
        let parts = if slowest > SLOW / 4.0 { 8 } else { 1 };
        Self {
            cells: measured.iter().map(of_cell).collect(),
            condition: protocol.cell_ns.saturating_mul(parts),
        }
    }
}

/// Measures so long.
///
/// # Errors
/// Those of [`measure_matrix`].
pub(crate) fn measure_within(
    bench: &mut Bench<'_>,
    protocol: &Protocol,
    times: &Times,
    preparation: Preparation,
) -> Result<Matrix, ProbeError> {
    let impossible = |reason: String| ProbeError::Impossible { experiment: "matrix", reason };
    let mut cells = times.cells.iter().map(|one| &one.cell);
    let has_writes = cells.clone().any(|cell| cell.reads < 1.0);
    if has_writes && !bench.settings().may_write {
        return Err(impossible(
            "it has cells that write, which was not allowed: leave them out with writes=0"
                .to_owned(),
        ));
    }
    if protocol.area_bytes > bench.region().length {
        return Err(impossible(format!(
            "its area of {} bytes does not fit into the region of {}",
            protocol.area_bytes,
            bench.region().length
        )));
    }
    if let Some(cell) = cells.find(|cell| u64::from(cell.size_bytes) > protocol.area_bytes) {
        return Err(impossible(format!(
            "requests of {} bytes do not fit into its area of {}",
            cell.size_bytes, protocol.area_bytes
        )));
    }
    if preparation == Preparation::Fill && bench.settings().may_write {
        bench.fill(0, protocol.area_bytes, QUIET)?;
    }
    let mut measuring =
        Measuring { protocol: *protocol, next: 0, condition_ns: Some(times.condition), kind: None };
    let mut measured = Vec::with_capacity(times.cells.len());
    for planned in &times.cells {
        measured.extend(measuring.cell(bench, planned)?);
    }
    Ok(Matrix { protocol: *protocol, cells: measured })
}

/// Pause between kinds of load, in nanoseconds: long against any single operation, short against
/// the idle times that start background work.
const QUIET: Nanos = 20_000_000;

/// So many requests or so much device time, whichever comes first.
fn most(requests: u64, time: Nanos) -> Limit {
    Limit { requests, ..Limit::time(time).precision(0.0) }
}

/// Part of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    WarmUp,
    Measured,
}

struct Measuring {
    protocol: Protocol,
    /// Start of the next sequential requests, in bytes from the start of the area.
    next: u64,
    /// Longest time of the random writes before the first random cell that writes, until they are
    /// done.
    condition_ns: Option<Nanos>,
    /// Order, share of reads and depth of the last cell.
    kind: Option<(Access, f64, u32)>,
}

impl Measuring {
    fn cell(
        &mut self,
        bench: &mut Bench<'_>,
        planned: &Planned,
    ) -> Result<Option<CellMeasured>, ProbeError> {
        let (protocol, cell) = (self.protocol, &planned.cell);
        let writes = cell.reads < 1.0;
        let is_sequential = cell.access == Access::Sequential;
        if writes
            && !is_sequential
            && let Some(time) = self.condition_ns.take()
        {
            self.condition(bench, time)?;
        }
        let (mut requests, mut time) =
            (planned.requests.unwrap_or_else(|| protocol.most_requests(cell)), planned.measure);
        if writes {
            // A slow cell ends with a request, not at a time: of 15 requests the one under way at
            // the end would be 7 %.
            let in_time = (self.warm_up(bench, planned)? * planned.measure as f64 / 1e9) as u64;
            requests = requests.min(in_time.max(Protocol::FEWEST_REQUESTS));
            time = planned.measure.saturating_mul(4);
        }
        let ramp = 2 * u64::from(cell.depth) + 8;
        let mut limit = most(requests, time).after(ramp);
        if planned.requests.is_none() && writes {
            limit = limit
                .precision(Protocol::PRECISION)
                .at_least(protocol.least_requests(cell))
                .in_batches(Protocol::batch_requests(cell));
        }
        let measured = self.play(bench, cell, Part::Measured, requests + ramp, limit)?;
        self.kind = Some((cell.access, cell.reads, cell.depth));
        if measured.requests < Protocol::FEWEST_REQUESTS {
            return Ok(None);
        }
        Ok(Some(CellMeasured {
            cell: *cell,
            iops: measured.iops(),
            interval: measured.iops_interval(),
            requests: measured.requests,
        }))
    }

    /// Writes before a cell that writes; requests a second.
    fn warm_up(&mut self, bench: &mut Bench<'_>, planned: &Planned) -> Result<f64, ProbeError> {
        let (protocol, cell) = (self.protocol, &planned.cell);
        let is_first = self.kind != Some((cell.access, cell.reads, cell.depth));
        if self.kind.is_none_or(|(access, reads, _)| (access, reads) != (cell.access, cell.reads)) {
            bench.flush()?;
        }
        let bytes = protocol.warm_up_bytes / if is_first { 1 } else { Protocol::FURTHER };
        // Small random writes are as many as large ones: where each costs a merge, all of the
        // buffer is never filled anyway.
        let before = ((bytes as f64 / f64::from(cell.size_bytes) / (1.0 - cell.reads)) as u64)
            .clamp(16, 16_384);
        Ok(self.play(bench, cell, Part::WarmUp, before, most(before, planned.warm_up))?.iops())
    }

    /// Plays a part of a cell, of at most so many requests.
    fn play(
        &mut self,
        bench: &mut Bench<'_>,
        cell: &Cell,
        part: Part,
        requests: u64,
        limit: Limit,
    ) -> Result<Measured, ProbeError> {
        let size = u64::from(cell.size_bytes);
        let offset = if cell.access == Access::Random { 0 } else { self.behind(requests * size) };
        let source = self.source(bench, cell, part, offset)?;
        let measured = bench.play(vec![closed(source, cell.depth)], limit)?;
        if cell.access != Access::Random {
            let sent = measured.requests + limit.warm_up_requests + u64::from(cell.depth);
            let touched = sent * size % (self.protocol.area_bytes - offset);
            self.next = (offset + touched).next_multiple_of(Protocol::SLICE_BYTES);
        }
        Ok(measured)
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
        bench.play(vec![closed(source, DEPTH)], limit)?;
        bench.flush()?;
        bench.pause(QUIET)
    }

    fn source(
        &self,
        bench: &Bench<'_>,
        cell: &Cell,
        part: Part,
        offset: u64,
    ) -> Result<Box<dyn units::RequestSource>, SpecError> {
        let Cell { size_bytes, reads: share, .. } = cell;
        let open = match cell.access {
            Access::Sequential => format!("sequential(size={size_bytes},reads={share}"),
            Access::Random => format!("random(size={size_bytes},reads={share}"),
            Access::Stride(distance) => {
                format!("stride(size={size_bytes},reads={share},distance={distance}")
            }
        };
        // A number of its own for each cell, and for what comes before it.
        let (kind, reads) = (u64::from(cell.access == Access::Random), (cell.reads * 100.0) as u64);
        let number = [
            kind,
            reads,
            u64::from(cell.size_bytes),
            u64::from(cell.depth),
            u64::from(part == Part::Measured),
        ];
        let number = number
            .into_iter()
            .fold(1_u64, |sum, part| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part));
        self.pattern(bench, &open, offset, number)
    }

    /// Gives the start of requests of so many bytes, behind the last bytes that sequential requests
    /// touched: at the start again where they reach beyond the end, or, being more than half of the
    /// area, where not half of it is left.
    fn behind(&self, bytes: u64) -> u64 {
        if self.next + bytes.min(self.protocol.area_bytes / 2) > self.protocol.area_bytes {
            0
        } else {
            self.next
        }
    }

    /// A pattern, given without its closing bracket, from an offset in the area to its end. The
    /// same number gives the same requests.
    fn pattern(
        &self,
        bench: &Bench<'_>,
        open: &str,
        offset: u64,
        number: u64,
    ) -> Result<Box<dyn units::RequestSource>, SpecError> {
        let (begin, range) = (bench.region().offset + offset, self.protocol.area_bytes - offset);
        let seed = number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ u64::from(self.protocol.seed);
        let device = bench.device();
        Pattern::parse(&format!("{open},offset={begin},range={range})"), seed)?
            .source(device.limits.capacity_bytes, device.limits.sector_bytes)
    }
}

#[cfg(test)]
mod tests {
    use devices::{Simulated, SimulatedSettings};
    use ssd::drive::profile;
    use ssd::drive::state::State;
    use units::Progress;

    use super::*;
    use crate::bench::{Region, Settings};
    use crate::protocol::standard_cells;

    #[test]
    fn sequential_writes_do_not_overwrite_what_is_in_the_write_buffer() {
        let profile = profile::load("nvme-tlc").unwrap();
        let progress = Progress::default();
        let mut device = Simulated::new(
            "sim",
            &profile,
            SimulatedSettings { state: State::Filled, seed: 1 },
            &progress,
        )
        .unwrap();
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
        for one in matrix.cells.iter().filter(|one| {
            one.cell.reads == 0.0 && one.cell.depth >= 16 && one.cell.size_bytes >= 65_536
        }) {
            assert!(
                one.bytes_per_second() < 1.2 * flash,
                "{:?}: {:.0} MB/s",
                one.cell,
                one.bytes_per_second() / 1e6
            );
        }
    }

    #[test]
    fn cells_that_write_go_on_until_they_are_precise_and_are_measured_again_with_as_many_requests()
    {
        let changes = [
            "media.channels=2",
            "media.packages_per_channel=1",
            "media.erase_blocks_per_plane=64",
            "ftl.over_provisioning=0.2",
        ];
        let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
        let progress = Progress::default();
        let mut cells = standard_cells(4096);
        cells.retain(|cell| cell.depth == 4 && cell.size_bytes <= 65_536);
        let settings = |length| Settings {
            region: Region { offset: 0, length },
            seed: 1,
            may_write: true,
            budget: 1,
        };
        let measured = |how: &dyn Fn(&mut Bench<'_>) -> Result<Matrix, ProbeError>| {
            let mut device = Simulated::new(
                "sim",
                &profile,
                SimulatedSettings { state: State::Filled, seed: 1 },
                &progress,
            )
            .unwrap();
            how(&mut Bench::new(&mut device, settings(16 << 20), &progress)).unwrap()
        };
        let protocol = Protocol {
            measured_bytes: 1 << 20,
            ..Protocol::new(16 << 20, 1_200_000_000_000, 120, Some(0.0), 1)
        };
        let first = measured(&|bench| measure_matrix(bench, &protocol, &cells, Preparation::Fill));
        for one in &first.cells {
            let (least, most) =
                (protocol.least_requests(&one.cell), protocol.most_requests(&one.cell));
            let is_precise = one.interval[1] / one.iops - 1.0 <= Protocol::PRECISION;
            assert!(if one.cell.reads < 1.0 {
                is_precise && one.requests >= least || one.requests == most
            } else {
                one.requests == least
            });
        }
        let longer = first
            .cells
            .iter()
            .filter(|one| one.requests > protocol.least_requests(&one.cell))
            .count();
        assert!(longer > 0 && longer < first.cells.len(), "{longer} of {}", first.cells.len());
        // Through a file, too.
        let text = serde_json::to_string(&first.to_finding()).unwrap();
        let kept = Matrix::from_finding(&serde_json::from_str(&text).unwrap()).unwrap();
        let again = measured(&|bench| measure_again(bench, &kept, Preparation::Fill));
        assert_eq!(again.cells.len(), first.cells.len());
        for (one, other) in first.cells.iter().zip(&again.cells) {
            assert_eq!(
                (one.cell, one.requests, one.iops),
                (other.cell, other.requests, other.iops)
            );
        }
    }
}
