//! From which size on a write pattern is worth flushing: STABLEBUFFER's thresholds.
//!
//! STABLEBUFFER section 3.2: random writes of growing size; `l_min` is "the minimal page
//! granularity after which the worst write performance is about to become stable", and
//! `theta_sequential = l_min / page`. With the mean times of sequential, partitioned and focused
//! writes, `theta_partitioned = theta_sequential * T_partitioned / T_sequential`, and likewise for
//! focused ones.
//!
//! "Worst" and "stable" are not defined there. Here the worst is the mean of the longest of every
//! sixteen writes in a row, and it is stable where it is within `tolerance` of the mean response:
//! then each write carries its share of the erasures, and none waits for those of others. `l_min`
//! is the least size from which on that holds for all larger ones. The times of patterns are those
//! of [`super::write_patterns`] if it ran before (requests of its size), otherwise measured with
//! requests of `l_min`.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes::{self, Effort};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::analysis::steps;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Mark, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "thresholds",
        aliases: &["theta"],
        summary: "from how many pages on sequential, partitioned and focused writes are worth \
                  flushing",
        source: "STABLEBUFFER section 3.2 (for an Mtron with pages of 4 KB: 8, 12 and 16)",
        params: &[
            Param {
                name: "page",
                kind: ParamKind::Bytes { min: 512, max: 1 << 20 },
                default: "4Ki",
                help: "bytes of a database page",
            },
            Param {
                name: "most",
                kind: ParamKind::Bytes { min: 4096, max: 16 << 20 },
                default: "512Ki",
                help: "bytes of a request at most",
            },
            Param {
                name: "tolerance",
                kind: ParamKind::Number { min: 0.01, max: 10.0 },
                default: "0.5",
                help: "by how much the worst write may be above the mean, as a share of it, to \
                       count as stable",
            },
            writes::RANGE,
        ],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &["write_patterns"],
    body,
};

/// Number of writes in a row of which the longest is taken.
const GROUP: usize = 16;

/// Random writes of one size.
struct Sized {
    bytes: u64,
    mean: Estimate,
    worst: Estimate,
    /// The worst over the mean.
    ratio: Estimate,
}

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let page = writes::request_bytes(bench, args.integer("page"), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), page)?;
    let most = writes::request_bytes(bench, args.integer("most"), range / 16);
    let sizes: Vec<u64> =
        (0..24).map(|doubling| page << doubling).take_while(|&size| size <= most).collect();
    if sizes.len() < 3 {
        return Err(writes::impossible(
            ENTRY.info.name,
            format!(
                "requests of {page} to {most} bytes are too few sizes: three, each twice the one \
                 before, are needed"
            ),
        ));
    }
    let time = bench.part_of_budget(2 * sizes.len());
    let mut sized = Vec::new();
    for &bytes in &sizes {
        sized.push(measure(bench, bytes, range, time)?);
    }
    let tolerance = args.number("tolerance");
    let first = stable_from(&sized, tolerance);
    let mut finding = Finding { charts: vec![chart(&sized)], ..Finding::default() };
    let Some(first) = first else {
        let worst = &sized[sized.len() - 1];
        let why = format!(
            "the longest of {GROUP} random writes of {} is {:.1} times the mean: not stable up to \
             there",
            common::bytes_text(worst.bytes as f64),
            worst.ratio.mean
        );
        for key in KEYS {
            finding.values.push(Value::not_found(key, why.clone()));
        }
        return Ok(finding);
    };
    let l_min = sized[first].bytes;
    finding.charts[0].marks.push(Mark {
        label: "l_min".to_owned(),
        x: Some(l_min as f64),
        y: None,
    });
    // The sizes at the border are clearly on either side.
    let is_clear = sized[first].ratio.high() < 1.0 + tolerance
        && (first == 0 || sized[first - 1].ratio.low() > 1.0 + tolerance);
    let theta = l_min as f64 / page as f64;
    let why = format!(
        "the longest of {GROUP} random writes is {:.2} times the mean at {}{}",
        sized[first].ratio.mean,
        common::bytes_text(l_min as f64),
        if first == 0 {
            String::new()
        } else {
            format!(", {:.2} times at half of it", sized[first - 1].ratio.mean)
        }
    );
    finding.values.push(Value::number(KEYS[0], l_min as f64, why.clone()).sure_if(is_clear));
    finding.values.push(Value::number(KEYS[1], theta, why).sure_if(is_clear));
    for (key, name) in [(KEYS[2], "partitioned"), (KEYS[3], "focused")] {
        let (ratio, is_sure) = over_sequential(bench, known, name, l_min, range, time)?;
        let why = format!(
            "theta_sequential times {:.2}, what {name} writes cost of sequential ones",
            ratio.mean
        );
        let value = Value::number(key, theta * ratio.mean, why)
            .within(theta * ratio.low().max(0.0), theta * ratio.high());
        finding.values.push(value.sure_if(is_clear && is_sure));
    }
    Ok(finding)
}

const KEYS: [&str; 4] = [
    "stable_write_bytes",
    "theta_sequential_pages",
    "theta_partitioned_pages",
    "theta_focused_pages",
];

fn measure(bench: &mut Bench<'_>, bytes: u64, range: u64, time: u64) -> Result<Sized, ProbeError> {
    let mut latencies = Vec::new();
    // Four groups at least, or there is no interval to speak of.
    for limit in [
        Limit::requests(4 * GROUP as u64),
        Limit { requests: 4000, ..Limit::time(time).precision(0.0) },
    ] {
        let random = bench.pattern(&format!("random(size={bytes},range={range})"))?;
        latencies.extend(writes::latencies_us(bench, closed(random, 1), limit.after(0))?);
    }
    let steady = &latencies[steps::transient(&latencies)..];
    let longest: Vec<f64> =
        steady.chunks_exact(GROUP).map(|group| group.iter().copied().fold(0.0, f64::max)).collect();
    let (mean, worst) = (Estimate::of_batches(steady), Estimate::of(&longest));
    Ok(Sized { bytes, mean, worst, ratio: worst.over(mean) })
}

fn stable_from(sized: &[Sized], tolerance: f64) -> Option<usize> {
    let unstable = sized.iter().rposition(|one| one.ratio.mean > 1.0 + tolerance);
    match unstable {
        None => Some(0),
        Some(last) if last + 1 < sized.len() => Some(last + 1),
        Some(_) => None,
    }
}

/// Gives the cost of a pattern as a multiple of that of sequential writes, and true if that is
/// sure.
fn over_sequential(
    bench: &mut Bench<'_>,
    known: &Known,
    name: &str,
    size: u64,
    range: u64,
    time: u64,
) -> Result<(Estimate, bool), ProbeError> {
    if let Some(value) = known.value(&format!("{name}_over_sequential"))
        && let (Some(mean), Some([_, high])) = (value.number, value.interval)
    {
        let level = Estimate::within(mean, high - mean);
        return Ok((level, value.verdict == crate::finding::Verdict::Sure));
    }
    let effort = Effort { requests: 2000, time };
    let sequential =
        writes::response(bench, &format!("sequential(size={size},range={range})"), effort)?;
    let area = ((8 << 20).min(range / 4) / size).max(1) * size;
    let pattern = if name == "partitioned" {
        format!("partitioned(size={size},range={range},ways=4)")
    } else {
        format!("focused(size={size},area={area})")
    };
    let level = writes::response(bench, &pattern, effort)?.us.over(sequential.us);
    Ok((level, level.relative_error() < 0.1))
}

fn chart(sized: &[Sized]) -> crate::finding::Chart {
    let worst =
        writes::curve("longest of 16", sized.iter().map(|one| (one.bytes as f64, &one.worst)));
    let mean = writes::curve("mean", sized.iter().map(|one| (one.bytes as f64, &one.mean)));
    writes::response_chart(
        "thresholds",
        "Random writes by size",
        Axis::log("size", "bytes"),
        vec![worst, mean],
    )
}
