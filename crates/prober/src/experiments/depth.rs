//! The depth beyond which more requests outstanding bring little.

use registry::{Args, Info, Param, ParamKind};
use units::Nanos;

use super::common::{self, Purse};
use super::{Experiment, Group, lists};
use crate::analysis::knee::{AtDepth, Knee, knee};
use crate::bench::Bench;
use crate::cell::{Access, Cell, measure_within};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

const DEPTHS: Param = Param {
    name: "depths",
    kind: ParamKind::Text,
    default: "1+2+3+4+6+8+10+12+16+24+32+64+128",
    help: "requests outstanding: a list with 1, or all doublings `1..256`",
};
const LEAST_GAIN: Param = Param {
    name: "least_gain",
    kind: ParamKind::Number { min: 0.001, max: 1.0 },
    default: "0.1",
    help: "what one more request has to add, as a share of the throughput of one alone, to be \
           worth it",
};

pub(super) const READ: Experiment = Experiment {
    info: Info {
        name: "depth_read",
        aliases: &["depth"],
        summary: "the depth at which the returns of more outstanding random reads diminish",
        source: "PARALLELISM section 5.1, figure 5",
        params: &[common::SIZE, DEPTHS, LEAST_GAIN],
    },
    group: Group::Performance,
    writes: false,
    is_quick: true,
    weight: 0.5,
    after: &[],
    body: |bench, args, _: &Known| {
        let (start, area) = (bench.now(), bench.region().length);
        run(bench, args, "depth_read", 1.0, area, start)
    },
};

pub(super) const WRITE: Experiment = Experiment {
    info: Info {
        name: "depth_write",
        aliases: &[],
        summary: "the depth at which the returns of more outstanding random writes diminish",
        source: "PARALLELISM section 5.1, figure 5",
        params: &[common::SIZE, DEPTHS, LEAST_GAIN, common::AREA, common::FILL],
    },
    group: Group::Performance,
    writes: true,
    is_quick: false,
    weight: 1.0,
    after: &["depth_read"],
    body: |bench, args, _: &Known| {
        let start = bench.now();
        let area = common::filled_area(bench, args)?;
        run(bench, args, "depth_write", 0.0, area, start)
    },
};

fn run(
    bench: &mut Bench<'_>,
    args: &Args,
    name: &'static str,
    reads: f64,
    area: u64,
    start: Nanos,
) -> Result<Finding, ProbeError> {
    let size = common::size_possible(bench, name, args.integer("size"), area)?;
    let most = u64::from(bench.device().queue_depth);
    let mut depths = lists::chosen(name, "depths", args.text("depths"), None)?;
    depths.retain(|&depth| depth <= most);
    if depths.len() < 3 || depths[0] != 1 {
        let reason = format!(
            "three depths are needed, of which the first is 1, and the device takes {most} \
             requests at a time"
        );
        return Err(ProbeError::Impossible { experiment: name, reason });
    }
    let mut purse = Purse::since(bench, start, depths.len());
    let mut curve = Vec::new();
    for depth in depths.into_iter().map(|depth| depth as u32) {
        let time = purse.next(bench);
        let cell = Cell { access: Access::Random, reads, size_bytes: size as u32, depth };
        let measured = measure_within(bench, &cell, area, time)?;
        curve.push(AtDepth { depth, throughput: common::megabytes_per_second(&measured) });
    }
    common::settle(bench, &[reads])?;
    let label = format!("random_{}", common::mix_name(reads));
    let found = knee(&curve, args.number("least_gain"));
    let mut series = Series::new(label.replace('_', " "));
    curve.iter().for_each(|at| common::push(&mut series, f64::from(at.depth), &at.throughput));
    let mark = |found: &Knee| Mark {
        label: "returns diminish".to_owned(),
        x: Some(f64::from(found.diminishing)),
        y: None,
    };
    let chart = Chart {
        name: format!("depth_{label}"),
        title: format!(
            "Throughput of {}s of {} by depth",
            label.replace('_', " "),
            common::bytes_text(size as f64)
        ),
        x: Axis::log("outstanding", "requests"),
        y: Axis::linear("throughput", "MB/s"),
        series: vec![series],
        marks: found.iter().map(mark).collect(),
    };
    Ok(Finding {
        values: values(&label, found.as_ref(), args.number("least_gain")),
        charts: vec![chart],
        ..Finding::default()
    })
}

fn values(label: &str, found: Option<&Knee>, least_gain: f64) -> Vec<Value> {
    let words = label.replace('_', " ");
    let keys = [format!("{label}_knee_depth"), format!("{label}_diminishing_depth")];
    let Some(found) = found else {
        return keys
            .map(|key| Value::not_found(&key, format!("{words}: no throughput was measured")))
            .into();
    };
    let rises = if found.is_saturated {
        ""
    } else {
        "; it still rises at the greatest depth, so the knee may lie further up"
    };
    let why = format!(
        "{words}: the greatest throughput is {:.2} times that of one request at a time{rises}",
        found.crossing.mean
    );
    let mut crossing = common::value(&keys[0], &found.crossing, why).sure_if(found.is_saturated);
    // The greatest throughput is no less than that of one request.
    crossing.interval = crossing.interval.map(|[low, high]| [low.max(1.0), high]);
    let why = format!(
        "{words}: up to {} one more request adds {:.0} % or more of what one alone does",
        found.diminishing,
        100.0 * least_gain,
    );
    let is_clear = f64::from(found.at_most) <= 1.5 * f64::from(found.at_least);
    let diminishing = Value::number(&keys[1], f64::from(found.diminishing), why);
    vec![
        crossing,
        diminishing.within(f64::from(found.at_least), f64::from(found.at_most)).sure_if(is_clear),
    ]
}
