//! The matrix of throughputs that profiles are fitted to.

use block::DeviceKind;
use registry::{Args, Info, Param, ParamKind};

use super::{Experiment, Group};
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::finding::Finding;
use crate::known::Known;
use crate::protocol::{Preparation, Protocol, measure_matrix, standard_cells};

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "matrix",
        aliases: &[],
        summary: "throughput of reads, writes and mixes by order, size and depth, in one fixed \
                  sequence: what a profile is fitted to",
        source: "SCHEDULER 4.3.1, figures 4.4-4.15, in one protocol",
        params: &[AREA, WARM_UP, CELL_US],
    },
    group: Group::Performance,
    writes: true,
    is_quick: true,
    weight: 4.0,
    after: &[],
    body: |bench, args, known| body(bench, args, known, true),
};

pub(super) const READS: Experiment = Experiment {
    info: Info {
        name: "matrix_reads",
        aliases: &[],
        summary: "the reads of matrix alone, of whatever lies there",
        source: "as matrix",
        params: &[AREA, WARM_UP, CELL_US],
    },
    group: Group::Performance,
    writes: false,
    is_quick: false,
    weight: 2.0,
    after: &[],
    body: |bench, args, known| body(bench, args, known, false),
};

const AREA: Param = bytes(
    "area",
    "requests stay within so many bytes from the region's start; 0 for 256 MiB, or the region if \
     it is smaller",
);
const WARM_UP: Param = bytes(
    "warm_up",
    "written before the first cell of a kind with writes; 0 for half as much again as the write \
     buffer found, or 48 MiB",
);
const CELL_US: Param = Param {
    name: "cell_us",
    kind: ParamKind::Integer { min: 0, max: 1 << 40 },
    default: "0",
    help: "longest time of a cell in microseconds; 0 for what the budget allows: a drive that is \
           compared needs that of the other",
};

const fn bytes(name: &'static str, help: &'static str) -> Param {
    Param { name, kind: ParamKind::Bytes { min: 0, max: 1 << 53 }, default: "0", help }
}

fn body(
    bench: &mut Bench<'_>,
    args: &Args,
    known: &Known,
    writes: bool,
) -> Result<Finding, ProbeError> {
    let mut cells = standard_cells(bench.device().limits.sector_bytes);
    if !writes {
        cells.retain(|cell| cell.reads >= 1.0);
    }
    let device = bench.device();
    let (most_bytes, depth, sector) =
        (device.limits.most_bytes, device.queue_depth, device.limits.sector_bytes);
    let area = args.integer("area");
    let region = bench.region().length;
    if area > region || !area.is_multiple_of(u64::from(sector)) {
        let reason = format!(
            "area={area} is not whole sectors of {sector} bytes within the region of {region}"
        );
        return Err(ProbeError::Impossible { experiment: "matrix", reason });
    }
    let mut protocol = Protocol::new(
        region,
        bench.settings().budget,
        cells.len(),
        known.number("write_buffer_bytes"),
        bench.settings().seed,
    );
    protocol.set_area(area);
    if args.integer("warm_up") > 0 {
        protocol.warm_up_bytes = args.integer("warm_up");
    }
    if args.integer("cell_us") > 0 {
        protocol.cell_ns = args.integer("cell_us") * 1_000;
    }
    let all = cells.len();
    cells.retain(|cell| {
        cell.size_bytes <= most_bytes
            && cell.depth <= depth
            && u64::from(cell.size_bytes) <= protocol.area_bytes
    });
    let left_out = all - cells.len();
    let preparation = if writes { Preparation::Fill } else { Preparation::IsFilled };
    let matrix = measure_matrix(bench, &protocol, &cells, preparation)?;
    let mut finding = matrix.to_finding();
    if left_out > 0 {
        finding.notes.push(format!(
            "{left_out} cells were left out: the device or the region does not take such requests \
             or depths"
        ));
    }
    if matrix.cells.len() < cells.len() {
        let few = cells.len() - matrix.cells.len();
        finding.notes.push(format!(
            "{few} cells were left out: too few of their requests ended within the time for each; \
             a larger budget helps"
        ));
    }
    if !writes && bench.device().kind != DeviceKind::Simulated {
        finding.notes.push(
            "what was never written may be read without flash: the reads are right only where data \
             lie"
                .to_owned(),
        );
    }
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use block::BlockDevice as _;
    use devices::{Simulated, SimulatedSettings};
    use ssd::drive::profile;
    use ssd::drive::state::State;
    use units::Progress;

    use super::*;
    use crate::bench::{Region, Settings};
    use crate::protocol::Matrix;

    fn run(experiment: &Experiment, budget: u64) -> Finding {
        let changes = [
            "media.channels=2",
            "media.packages_per_channel=1",
            "media.erase_blocks_per_plane=32",
            "ftl.over_provisioning=1",
        ];
        let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
        let settings = SimulatedSettings { state: State::Filled, seed: 1 };
        let mut device =
            Simulated::new("sim:a16", &profile, settings, &Progress::default()).unwrap();
        let region =
            Region { offset: 0, length: device.info().limits.capacity_bytes.min(16 << 20) };
        let progress = Progress::default();
        let mut bench = Bench::new(
            &mut device,
            Settings { region, seed: 1, may_write: true, budget },
            &progress,
        );
        let args =
            experiment.info.accept(&registry::Spec::parse(experiment.info.name).unwrap()).unwrap();
        experiment.run(&mut bench, &args, &Known::default()).unwrap()
    }

    #[test]
    fn a_finding_holds_the_whole_matrix() {
        let finding = run(&ENTRY, 600_000_000_000);
        let text = serde_json::to_string(&finding).unwrap();
        let known = Known::new(vec![Finding::default(), serde_json::from_str(&text).unwrap()]);
        let matrix = Matrix::from_findings(&known).unwrap();
        assert_eq!(matrix.cells.len(), 120, "{:?}", finding.notes);
        assert_eq!(finding.charts.len(), 6);
        // Two dies of 750 us a program, no buffer.
        let write = matrix
            .cells
            .iter()
            .find(|one| {
                one.cell.reads == 0.0 && one.cell.size_bytes == 65_536 && one.cell.depth == 64
            })
            .unwrap();
        assert!(
            (write.bytes_per_second() / (2.0 * 4096.0 / 750e-6) - 1.0).abs() < 0.2,
            "{write:?}"
        );
        let ratios = matrix.ratios(&matrix);
        assert!(ratios.len() == 120 && ratios.iter().all(|(_, ratio)| *ratio == 1.0));
    }

    #[test]
    fn reads_alone_write_nothing_and_little_time_leaves_cells_out() {
        let finding = run(&READS, 20_000_000_000);
        assert_eq!((finding.written_bytes, finding.charts.len()), (0, 2));
        let finding = run(&ENTRY, 1_000_000);
        assert!(finding.notes.iter().any(|note| note.contains("budget")), "{:?}", finding.notes);
    }
}
