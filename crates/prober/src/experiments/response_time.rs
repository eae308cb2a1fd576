//! Distribution of response times, and their order in time.

use hdrhistogram::Histogram;
use registry::{Args, Info, Param, ParamKind};
use ssd::drive::measure::LEAST_FOR_P9999;
use units::Nanos;

use super::common::{self, Purse};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::analysis::modes::{Belt, belts};
use crate::bench::{Bench, Measured, Sample};
use crate::cell::{Access, sample_within};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;

const SHOWN: Param = Param {
    name: "shown",
    kind: ParamKind::Integer { min: 1, max: 100_000 },
    default: "2000",
    help: "requests whose times are drawn one by one",
};
const LEAST_SHARE: Param = Param {
    name: "least_share",
    kind: ParamKind::Number { min: 0.0, max: 0.5 },
    default: "0.005",
    help: "share that a belt of response times has at least, of the requests or of the time that \
           they take together",
};
const APART: Param = Param {
    name: "apart",
    kind: ParamKind::Number { min: 1.0, max: 1e6 },
    default: "3",
    help: "factor by which the medians of two belts differ at least",
};

pub(super) const READ: Experiment = Experiment {
    info: Info {
        name: "response_time_read",
        aliases: &["response_time"],
        summary: "distribution of the response times of small random reads, and the belts that \
                  they fall into",
        source: "SCHEDULER section 4.3.2, figures 4.15-4.19",
        params: &[common::SIZE, SHOWN, LEAST_SHARE, APART],
    },
    group: Group::Performance,
    writes: false,
    is_quick: true,
    weight: 0.5,
    after: &[],
    body: |bench, args, _: &Known| {
        let (start, area) = (bench.now(), bench.region().length);
        run(bench, args, "response_time_read", &[1.0], area, start)
    },
};

pub(super) const WRITE: Experiment = Experiment {
    info: Info {
        name: "response_time_write",
        aliases: &[],
        summary: "distribution of the response times of small random writes, alone and mixed with \
                  reads, and the belts that they fall into",
        source: "SCHEDULER section 4.3.2, figures 4.15-4.19",
        params: &[common::SIZE, SHOWN, LEAST_SHARE, APART, common::AREA, common::FILL],
    },
    group: Group::Performance,
    writes: true,
    is_quick: true,
    weight: 1.0,
    after: &["response_time_read"],
    body: |bench, args, _: &Known| {
        let start = bench.now();
        let area = common::filled_area(bench, args)?;
        run(bench, args, "response_time_write", &[0.5, 0.0], area, start)
    },
};

fn run(
    bench: &mut Bench<'_>,
    args: &Args,
    name: &'static str,
    mixes: &[f64],
    area: u64,
    start: Nanos,
) -> Result<Finding, ProbeError> {
    let size = common::size_possible(bench, name, args.integer("size"), area)?;
    let mut purse = Purse::since(bench, start, mixes.len());
    let mut finding = Finding::default();
    let kind = if mixes == [1.0] { "read" } else { "write" };
    let mut distribution = Chart {
        name: format!("response_time_{kind}_distribution"),
        title: format!(
            "Response times of random requests of {}, one at a time",
            common::bytes_text(size as f64)
        ),
        x: Axis::log("response time", "us"),
        y: Axis::linear("requests that take no longer", "share"),
        series: Vec::new(),
        marks: Vec::new(),
    };
    let mut series_charts = Vec::new();
    for &reads in mixes {
        let time = purse.next(bench);
        let measured =
            sample_within(bench, &common::one_by_one(Access::Random, reads, size), area, time)?;
        let label = format!("random_{}", common::mix_name(reads));
        let latencies = all_latencies(&measured);
        let counts: Vec<(f64, u64)> = latencies
            .iter_recorded()
            .map(|at| (at.value_iterated_to() as f64, at.count_at_value()))
            .collect();
        let belts = belts(&counts, args.number("least_share"), args.number("apart"));
        finding.values.extend(quantiles(&label, &latencies, &measured.samples));
        finding.values.extend(belt_values(&label, &belts));
        distribution.series.push(cumulative(&label, &latencies));
        series_charts.push(one_by_one_chart(&label, &measured, args.integer("shown") as usize));
    }
    common::settle(bench, mixes)?;
    finding.charts.push(distribution);
    finding.charts.extend(series_charts);
    Ok(finding)
}

fn all_latencies(measured: &Measured) -> Histogram<u64> {
    let mut all = measured.latencies[0].clone();
    measured.latencies[1..]
        .iter()
        .for_each(|other| all.add(other).expect("histograms of one kind are added"));
    all
}

fn quantiles(label: &str, latencies: &Histogram<u64>, samples: &[Sample]) -> Vec<Value> {
    let words = label.replace('_', " ");
    let count = latencies.len() as f64;
    let at = |share: f64| latencies.value_at_quantile(share.clamp(0.0, 1.0)) as f64 / 1e3;
    let value = |(share, name): (f64, &str)| {
        // Ranks between which the quantile lies in 95 % of all cases, if requests do not depend on
        // each other, ...
        let reach = 1.96 * (share * (1.0 - share) / count.max(1.0)).sqrt();
        // ... and by how much it differs from one part of the time to the next, if they do: what
        // others do with a drive comes in waves.
        let half = half_width_by_parts(samples, share).unwrap_or(0.0) / 1e3;
        let (low, high) = (
            at(share - reach).min(at(share) - half).max(0.0),
            at(share + reach).max(at(share) + half),
        );
        let why = format!("{words}: of {count:.0} requests");
        let is_narrow = share + reach < 1.0 && high - low <= 0.2 * at(share);
        Value::number(&format!("{label}_{name}_us"), at(share), why)
            .within(low, high)
            .sure_if(is_narrow)
    };
    let of_many = (latencies.len() >= LEAST_FOR_P9999).then_some((0.9999, "p9999"));
    [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")].into_iter().chain(of_many).map(value).collect()
}

/// Half the width in nanoseconds of the 95 % interval of a quantile, by those of up to 20 parts of
/// the requests in the order of their ends; `None` if not even four parts hold enough of them for
/// it.
fn half_width_by_parts(samples: &[Sample], share: f64) -> Option<f64> {
    /// Requests that a part has beyond its quantile at least.
    const BEYOND: f64 = 5.0;
    let parts = ((samples.len() as f64 * share.min(1.0 - share) / BEYOND) as usize).min(20);
    if parts < 4 {
        return None;
    }
    let of_part = |part: &[Sample]| {
        let mut latencies: Vec<_> = part.iter().map(|sample| sample.latency_ns).collect();
        let rank = ((latencies.len() as f64 * share) as usize).min(latencies.len() - 1);
        *latencies.select_nth_unstable(rank).1 as f64
    };
    let quantiles: Vec<f64> = samples.chunks_exact(samples.len() / parts).map(of_part).collect();
    Some(Estimate::of(&quantiles).half_width())
}

fn belt_values(label: &str, belts: &[Belt]) -> Vec<Value> {
    let words = label.replace('_', " ");
    let text = |belt: &Belt| {
        let (least, most) = (belt.least / 1e3, belt.most / 1e3);
        format!(
            "{:.1} % of the requests, 99 % of which take {least:.0} to {most:.0} us",
            100.0 * belt.share
        )
    };
    let list: Vec<String> = belts.iter().map(text).collect();
    let count: u64 = belts.iter().map(|belt| belt.count).sum();
    let between = if belts.len() > 1 {
        "; between belts the density falls to less than half, by more than chance"
    } else {
        ""
    };
    let why = format!("{words}: {}{between}", list.join(", "));
    // Of fewer, a belt may be missing, and those that are there end elsewhere.
    let is_enough = count >= 1_000;
    let mut values =
        vec![Value::number(&format!("{label}_belts"), belts.len() as f64, why).sure_if(is_enough)];
    for (index, belt) in belts.iter().enumerate() {
        let key = format!("{label}_belt_{}", index + 1);
        let why = format!("{words}: {}", list[index]);
        let median = Value::number(&format!("{key}_us"), belt.median / 1e3, why.clone())
            .among(belt.least / 1e3, belt.most / 1e3);
        let [low, high] = belt.share_interval;
        values.extend(
            [median, Value::number(&format!("{key}_share"), belt.share, why).within(low, high)]
                .map(|value| value.sure_if(is_enough)),
        );
    }
    values
}

fn cumulative(label: &str, latencies: &Histogram<u64>) -> Series {
    /// Points of the curve, about.
    const POINTS: u64 = 400;
    let mut series = Series::new(label.replace('_', " "));
    let total = latencies.len().max(1);
    let (mut sum, mut drawn) = (0, 0);
    for at in latencies.iter_recorded() {
        let us = at.value_iterated_to() as f64 / 1e3;
        // A jump is drawn from its foot.
        if at.count_at_value() > total / POINTS || sum + at.count_at_value() == total {
            series.push(us, sum as f64 / total as f64);
        }
        sum += at.count_at_value();
        if sum - drawn > total / POINTS || sum == total {
            series.push(us, sum as f64 / total as f64);
            drawn = sum;
        }
    }
    series
}

fn one_by_one_chart(label: &str, measured: &Measured, shown: usize) -> Chart {
    let words = label.replace('_', " ");
    let mut series: [Series; 2] =
        ["reads", "writes"].map(|name| Series { is_scatter: true, ..Series::new(name) });
    for (index, sample) in measured.samples.iter().take(shown).enumerate() {
        series[usize::from(sample.op == units::IoOp::Write)]
            .push(index as f64 + 1.0, sample.latency_ns as f64 / 1e3);
    }
    Chart {
        name: format!("response_time_{label}_one_by_one"),
        title: format!("Response time of each {words}"),
        x: Axis::linear("number of the request", "requests"),
        y: Axis::log("response time", "us"),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        marks: Vec::new(),
    }
}
