//! Reads and writes in all shares: is the middle worse than both ends (the "bathtub")?

use registry::{Args, Info, Param, ParamKind};
use units::IoOp;

use super::common::{self, Purse};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Measured};
use crate::cell::{Access, Cell, measure_within};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

/// Least loss in the middle, as a share of the worse end, for a bathtub.
const MARGIN: f64 = 0.02;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "mix",
        aliases: &["bathtub"],
        summary: "throughput and response times of reads mixed with writes in shares from 0 to 100 \
                  %, and whether the middle is worse than both ends",
        source: "SCHEDULER section 4.3.3, figures 4.20-4.31",
        params: &[
            common::SIZE,
            Param {
                name: "depth",
                kind: ParamKind::Integer { min: 1, max: 4096 },
                default: "1",
                help: "requests outstanding",
            },
            Param {
                name: "steps",
                kind: ParamKind::Integer { min: 2, max: 100 },
                default: "10",
                help: "steps from 0 to 100 % reads",
            },
            common::AREA,
            common::FILL,
        ],
    },
    group: Group::Performance,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &[],
    body: run,
};

/// One share of reads.
struct Step {
    reads: f64,
    throughput: Estimate,
    read_us: Option<f64>,
    write_us: Option<f64>,
}

impl Step {
    fn new(reads: f64, measured: &Measured) -> Self {
        let mean = |op| {
            Some(measured.of(op))
                .filter(|latencies| !latencies.is_empty())
                .map(|latencies| latencies.mean() / 1e3)
        };
        Self {
            reads,
            throughput: common::megabytes_per_second(measured),
            read_us: mean(IoOp::Read),
            write_us: mean(IoOp::Write),
        }
    }
}

fn run(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let start = bench.now();
    let area = common::filled_area(bench, args)?;
    let size = common::size_possible(bench, "mix", args.integer("size"), area)?;
    let depth = args.integer("depth").min(u64::from(bench.device().queue_depth)) as u32;
    let steps = args.integer("steps");
    // Random writes scatter most: a sequential mix is known in a third of the time.
    let kinds = [(Access::Sequential, 1), (Access::Random, 3)];
    let mut purse = Purse::since(bench, start, (steps as usize + 1) * 4 + 2);
    let mut finding = Finding::default();
    for (access, shares) in kinds {
        let mut found = Vec::new();
        // From reads to writes: the drive is as it was found for as long as possible.
        for step in (0..=steps).rev() {
            let reads = step as f64 / steps as f64;
            let time = purse.next_of(bench, shares);
            let measured = measure_within(
                bench,
                &Cell { access, reads, size_bytes: size as u32, depth },
                area,
                time,
            )?;
            found.push(Step::new(reads, &measured));
        }
        found.reverse();
        let lowest = lowest(&found);
        let is_same = is_as_before(
            bench,
            &found[found.len() / 2],
            &Cell { access, reads: 0.0, size_bytes: size as u32, depth },
            area,
            &mut purse,
        )?;
        if !is_same {
            finding.notes.push(format!(
                "{}: the drive became slower or faster meanwhile: its mixes are not comparable",
                access.name()
            ));
        }
        finding
            .values
            .extend(values(access, &found, lowest).into_iter().map(|value| value.sure_if(is_same)));
        finding.charts.extend(charts(access, size, &found, lowest));
    }
    bench.flush()?;
    Ok(finding)
}

/// Measures a step in the middle again after all others. A drive that has begun to clean on the way
/// makes the last steps look worse than they are beside the first.
fn is_as_before(
    bench: &mut Bench<'_>,
    step: &Step,
    cell: &Cell,
    area: u64,
    purse: &mut Purse,
) -> Result<bool, ProbeError> {
    let time = purse.next(bench);
    let again = Step::new(
        step.reads,
        &measure_within(bench, &Cell { reads: step.reads, ..*cell }, area, time)?,
    );
    let differs = |a: &Step, b: &Step| a.throughput.is_clearly_below(&b.throughput, MARGIN, 1);
    Ok(!differs(&again, step) && !differs(step, &again))
}

/// The step between the ends with the least throughput.
fn lowest(found: &[Step]) -> &Step {
    let inside = &found[1..found.len() - 1];
    inside
        .iter()
        .min_by(|a, b| a.throughput.mean.total_cmp(&b.throughput.mean))
        .expect("there are two steps or more")
}

fn values(access: Access, found: &[Step], lowest: &Step) -> Vec<Value> {
    let name = access.name();
    let inside = &found[1..found.len() - 1];
    let ends = [&found[0], &found[found.len() - 1]].map(|step| step.throughput);
    let worse = if ends[0].mean < ends[1].mean { ends[0] } else { ends[1] };
    let is_below = |step: &Step| {
        ends.iter().all(|end| step.throughput.is_clearly_below(end, MARGIN, inside.len()))
    };
    let is_sure = inside.iter().any(is_below);
    let is_tub = is_sure || lowest.throughput.mean < worse.mean * (1.0 - MARGIN);
    let is_alone = inside.iter().all(|step| {
        step.reads == lowest.reads
            || lowest.throughput.is_clearly_below(&step.throughput, 0.0, inside.len())
    });
    // The other way round: below the worse end by more than the margin nowhere.
    let bound = worse.times(1.0 - MARGIN);
    let is_none =
        inside.iter().all(|step| bound.is_clearly_below(&step.throughput, 0.0, inside.len()));
    let why = format!(
        "{name}: {:.1} MB/s with {:.0} % reads, {:.1} without and {:.1} with nothing else",
        lowest.throughput.mean,
        lowest.reads * 100.0,
        ends[0].mean,
        ends[1].mean
    );
    vec![
        Value::word(&format!("{name}_bathtub"), if is_tub { "yes" } else { "no" }, why.clone())
            .sure_if(is_sure || (is_none && !is_tub)),
        common::value(&format!("{name}_mix_lowest_mb_per_second"), &lowest.throughput, why.clone()),
        Value::number(&format!("{name}_mix_lowest_reads_share"), lowest.reads, why.clone())
            .sure_if(is_sure && is_alone),
        common::value(
            &format!("{name}_mix_lowest_over_worse_end"),
            &lowest.throughput.over(worse),
            why,
        ),
    ]
}

fn charts(access: Access, size: u64, found: &[Step], lowest: &Step) -> Vec<Chart> {
    let (name, size) = (access.name(), common::bytes_text(size as f64));
    let mut throughput = Series::new("reads and writes");
    let mut times = ["reads", "writes"].map(Series::new);
    for step in found {
        common::push(&mut throughput, step.reads * 100.0, &step.throughput);
        for (series, us) in times.iter_mut().zip([step.read_us, step.write_us]) {
            us.into_iter().for_each(|us| series.push(step.reads * 100.0, us));
        }
    }
    let x = || Axis::linear("reads", "%");
    let label = format!("lowest: {:.0} % reads", lowest.reads * 100.0);
    let mark = Mark { label, x: Some(lowest.reads * 100.0), y: Some(lowest.throughput.mean) };
    vec![
        Chart {
            name: format!("mix_{name}_throughput"),
            title: format!("Throughput of {name} reads and writes of {size}, mixed"),
            x: x(),
            y: Axis::linear("throughput", "MB/s"),
            series: vec![throughput],
            marks: vec![mark],
        },
        Chart {
            name: format!("mix_{name}_response_time"),
            title: format!("Mean response time of {name} reads and writes of {size}, mixed"),
            x: x(),
            y: Axis::log("mean response time", "us"),
            series: times.into(),
            marks: Vec::new(),
        },
    ]
}
