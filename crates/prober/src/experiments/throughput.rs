//! The matrix of throughput: access x mix x request size x requests outstanding.

use std::collections::BTreeMap;

use registry::{Args, Info, Param, ParamKind};
use units::Nanos;

use super::common::{self, Purse};
use super::{Experiment, Group, lists};
use crate::analysis::estimate::Estimate;
use crate::bench::Bench;
use crate::cell::{Access, Cell, measure_within};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;

const SIZES: Param = Param {
    name: "sizes",
    kind: ParamKind::Text,
    default: "auto",
    help: "bytes of requests: a list `4Ki+64Ki`, all doublings `512..1Mi`, or `auto` for as many \
           as there is time for",
};
const DEPTHS: Param = Param {
    name: "depths",
    kind: ParamKind::Text,
    default: "auto",
    help: "requests outstanding: a list `1+8+32`, all doublings `1..256`, or `auto` for as many as \
           there is time for",
};
const ACCESSES: Param = Param {
    name: "accesses",
    kind: ParamKind::Text,
    default: "auto",
    help: "orders of addresses, joined by `+`: sequential, random, stride; or `auto` for as many \
           as there is time for",
};
const STRIDE: Param = Param {
    name: "stride",
    kind: ParamKind::Integer { min: 1, max: 1 << 20 },
    default: "8",
    help: "distance of strided requests, in sizes of a request",
};

pub(super) const READ: Experiment = Experiment {
    info: Info {
        name: "throughput_read",
        aliases: &["throughput"],
        summary: "throughput of sequential, random and strided reads by request size and depth",
        source: "SCHEDULER section 4.3.1, figures 4.3-4.14; PARALLELISM section 5.1, figure 5",
        params: &[SIZES, DEPTHS, ACCESSES, STRIDE],
    },
    group: Group::Performance,
    writes: false,
    is_quick: true,
    weight: 2.0,
    after: &[],
    body: |bench, args, _: &Known| {
        let area = bench.region().length;
        let start = bench.now();
        run(bench, args, "throughput_read", &[1.0], area, start, &mut Vec::new())
    },
};

pub(super) const WRITE: Experiment = Experiment {
    info: Info {
        name: "throughput_write",
        aliases: &[],
        summary: "throughput of sequential, random and strided writes, and of reads and writes \
                  half and half, by request size and depth",
        source: "SCHEDULER section 4.3.1, figures 4.3-4.14; PARALLELISM section 5.1, figure 5",
        params: &[
            SIZES,
            DEPTHS,
            ACCESSES,
            STRIDE,
            Param {
                name: "mixes",
                kind: ParamKind::Text,
                default: "0+0.5",
                help: "shares of reads, joined by `+`",
            },
            common::AREA,
            common::FILL,
        ],
    },
    group: Group::Performance,
    writes: true,
    is_quick: true,
    weight: 3.0,
    after: &["throughput_read"],
    body: |bench, args, _: &Known| {
        let mixes = lists::shares("throughput_write", "mixes", args.text("mixes"))?;
        let start = bench.now();
        let area = common::filled_area(bench, args)?;
        let mut notes =
            vec![format!("within the first {} of the region", common::bytes_text(area as f64))];
        run(bench, args, "throughput_write", &mixes, area, start, &mut notes)
    },
};

/// Values of `auto` for sizes, depths and accesses.
struct Grid {
    sizes: &'static str,
    depths: &'static str,
    accesses: &'static str,
}

impl Grid {
    const WHOLE: Self =
        Self { sizes: "512..1Mi", depths: "1..256", accesses: "sequential+random+stride" };
    const COARSE: Self =
        Self { sizes: "4Ki+16Ki+64Ki+256Ki+1Mi", depths: "1+4+32", accesses: "sequential+random" };
    const ENDS: Self = Self { sizes: "4Ki+64Ki", depths: "1+32", accesses: "sequential+random" };

    /// The finest grid that there is time for. Writes need more of it, as the slowest of them take
    /// a hundred times as long as reads.
    fn within(bench: &Bench<'_>, mixes: &[f64]) -> Self {
        let each = if mixes == [1.0] { 200_000_000 } else { 250_000_000 };
        // Sizes, depths and orders of each.
        let has_time_for =
            |cells: usize| common::has_time_for(bench, (cells * mixes.len()) as u64, each);
        if has_time_for(12 * 9 * 3) {
            Self::WHOLE
        } else if has_time_for(5 * 3 * 2) {
            Self::COARSE
        } else {
            Self::ENDS
        }
    }
}

/// Cells that are to be measured.
struct Matrix {
    accesses: Vec<&'static str>,
    mixes: Vec<f64>,
    sizes: Vec<u64>,
    depths: Vec<u64>,
    stride: u64,
}

impl Matrix {
    fn new(
        bench: &Bench<'_>,
        args: &Args,
        name: &'static str,
        mixes: &[f64],
        area: u64,
        notes: &mut Vec<String>,
    ) -> Result<Self, ProbeError> {
        let auto = Grid::within(bench, mixes);
        let asked = lists::chosen(name, "sizes", args.text("sizes"), Some(auto.sizes))?;
        let possible = common::sizes_possible(bench, area);
        let sector = u64::from(bench.device().limits.sector_bytes);
        let (sizes, left_out): (Vec<u64>, Vec<u64>) = asked
            .into_iter()
            .partition(|size| possible.contains(size) && size.is_multiple_of(sector));
        let most_depth = u64::from(bench.device().queue_depth);
        let mut depths = lists::chosen(name, "depths", args.text("depths"), Some(auto.depths))?;
        depths.retain(|&depth| depth <= most_depth);
        if sizes.is_empty() || depths.is_empty() {
            let reason = format!(
                "no size or depth is left: the device and {area} bytes of it take requests of {} \
                 to {} bytes in sectors of {sector}, and {most_depth} at a time",
                possible.start(),
                possible.end()
            );
            return Err(ProbeError::Impossible { experiment: name, reason });
        }
        if !left_out.is_empty() {
            let list: Vec<String> =
                left_out.into_iter().map(|size| common::bytes_text(size as f64)).collect();
            notes.push(format!(
                "left out, as the device or the area does not take requests of these sizes: {}",
                list.join(", ")
            ));
        }
        let accesses = lists::accesses(name, args.text("accesses"), auto.accesses)?;
        let mut mixes = mixes.to_vec();
        mixes.sort_by(|a, b| b.total_cmp(a));
        Ok(Self { accesses, mixes, sizes, depths, stride: args.integer("stride") })
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &name in &self.accesses {
            for &reads in &self.mixes {
                for &size in &self.sizes {
                    let access = match name {
                        "sequential" => Access::Sequential,
                        "random" => Access::Random,
                        _ => Access::Stride(self.stride * size),
                    };
                    let at = |&depth: &u64| Cell {
                        access,
                        reads,
                        size_bytes: size as u32,
                        depth: depth as u32,
                    };
                    cells.extend(self.depths.iter().map(at));
                }
            }
        }
        cells
    }
}

/// Throughput in MB/s by (access, number of the mix), then size and depth.
type Found = BTreeMap<(&'static str, usize), BTreeMap<(u64, u64), Estimate>>;

fn run(
    bench: &mut Bench<'_>,
    args: &Args,
    name: &'static str,
    mixes: &[f64],
    area: u64,
    start: Nanos,
    notes: &mut Vec<String>,
) -> Result<Finding, ProbeError> {
    let matrix = Matrix::new(bench, args, name, mixes, area, notes)?;
    let cells = matrix.cells();
    let mut purse = Purse::since(bench, start, cells.len());
    let mut found = Found::new();
    for cell in &cells {
        let time = purse.next(bench);
        let measured = measure_within(bench, cell, area, time)?;
        let mix = matrix
            .mixes
            .iter()
            .position(|&reads| reads == cell.reads)
            .expect("the cell is one of the matrix");
        let throughput = common::megabytes_per_second(&measured);
        found
            .entry((cell.access.name(), mix))
            .or_default()
            .insert((u64::from(cell.size_bytes), u64::from(cell.depth)), throughput);
    }
    common::settle(bench, &matrix.mixes)?;
    let mut finding = Finding { notes: std::mem::take(notes), ..Finding::default() };
    for (&(access, mix), points) in &found {
        let reads = matrix.mixes[mix];
        let label = label(access, reads);
        finding.values.extend(values(&label, points));
        finding.charts.extend(charts(&label, access, reads, points));
    }
    Ok(finding)
}

/// `random_read`, `sequential_mix`, and with the share in per cent for mixes other than half and
/// half.
fn label(access: &str, reads: f64) -> String {
    let is_other = reads > 0.0 && reads < 1.0 && reads != 0.5;
    let share = if is_other { format!("_{:.0}", reads * 100.0) } else { String::new() };
    format!("{access}_{}{share}", common::mix_name(reads))
}

fn values(label: &str, points: &BTreeMap<(u64, u64), Estimate>) -> Vec<Value> {
    let words = label.replace('_', " ");
    let mut values = Vec::new();
    let mut add = |key: String,
                   unit: f64,
                   (&(size, depth), estimate): (&(u64, u64), &Estimate),
                   what: &str| {
        let why = format!(
            "{words}: {what}, with {} and {depth} outstanding",
            common::bytes_text(size as f64)
        );
        values.push(common::value(&key, &estimate.times(unit), why));
    };
    // A measurement so short that nothing is known of its error says more of what a buffer takes
    // in.
    let has_known = points.values().any(|estimate| estimate.error.is_finite());
    let points = points.iter().filter(|(_, estimate)| !has_known || estimate.error.is_finite());
    if let Some(greatest) = points.clone().max_by(|a, b| a.1.mean.total_cmp(&b.1.mean)) {
        add(format!("{label}_most_mb_per_second"), 1.0, greatest, "the most that was measured");
    }
    // What data sheets give: 4 KiB, or the least that the device takes.
    if let Some(&size) = points.clone().map(|((size, _), _)| size).find(|&&size| size >= 4096) {
        let of_size = points.clone().filter(|((other, _), _)| *other == size);
        if let Some(greatest) = of_size.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean)) {
            let key = format!("{label}_{}_requests_per_second", common::bytes_key(size));
            add(key, 1e6 / size as f64, greatest, "the most of this size");
        }
    }
    values
}

fn charts(
    label: &str,
    access: &str,
    reads: f64,
    points: &BTreeMap<(u64, u64), Estimate>,
) -> Vec<Chart> {
    let what = match common::mix_name(reads) {
        "mix" => format!("{access}, {:.0} % reads", reads * 100.0),
        name => format!("{access} {name}s"),
    };
    let (mut by_size, mut by_depth) =
        (BTreeMap::<u64, Series>::new(), BTreeMap::<u64, Series>::new());
    for (&(size, depth), throughput) in points {
        common::push(
            by_size.entry(depth).or_insert_with(|| Series::new(format!("{depth} outstanding"))),
            size as f64,
            throughput,
        );
        common::push(
            by_depth.entry(size).or_insert_with(|| Series::new(common::bytes_text(size as f64))),
            depth as f64,
            throughput,
        );
    }
    let chart = |name: String, by: &str, x: Axis, series: BTreeMap<u64, Series>| Chart {
        name,
        title: format!("Throughput of {what} by {by}"),
        x,
        y: Axis::linear("throughput", "MB/s"),
        series: series.into_values().collect(),
        marks: Vec::new(),
    };
    let (sizes, depths) = (by_depth.len(), by_size.len());
    let mut charts = Vec::new();
    if sizes > 1 {
        charts.push(chart(
            format!("throughput_{label}_by_size"),
            "request size",
            Axis::log("request size", "bytes"),
            by_size,
        ));
    }
    if depths > 1 {
        charts.push(chart(
            format!("throughput_{label}_by_depth"),
            "depth",
            Axis::log("outstanding", "requests"),
            by_depth,
        ));
    }
    charts
}
