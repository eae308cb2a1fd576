//! The throughput of random writes when a drive has come to rest.
//!
//! Rounds of random writes, each for the same time, until the last five are steady by the rule of
//! SNIA's performance test specification: they differ by no more than 20 % of their mean, and the
//! straight line through them rises or falls by no more than 10 % of it. Before, the region is
//! written in order.
//!
//! Not as there: rounds last a fortieth of the budget, not a minute; requests are of one size and
//! only written; the region is filled once, not twice. A drive may look steady because little was
//! written: it is sure only if as much was written at random as the region holds before the last
//! five rounds began.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::estimate::{Estimate, mean};
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "steady_state",
        aliases: &["snia"],
        summary: "rounds of random writes until five in a row are steady",
        source: "SNIA Solid State Storage Performance Test Specification 2.0, definition of steady \
                 state",
        params: &[
            writes::size_param("4Ki"),
            Param {
                name: "depth",
                kind: ParamKind::Integer { min: 1, max: 4096 },
                default: "32",
                help: "requests outstanding",
            },
            Param {
                name: "rounds",
                kind: ParamKind::Integer { min: 5, max: 1000 },
                default: "25",
                help: "at most",
            },
        ],
    },
    group: Group::Internals,
    writes: true,
    is_quick: false,
    weight: 8.0,
    after: &["cleaning_onset"],
    body,
};

/// Rounds that have to be steady.
const LAST: usize = 5;

fn body(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let region = bench.region().length;
    let size = writes::request_bytes(bench, args.integer("size"), region / 64);
    let depth = (args.integer("depth") as u32).min(bench.device().queue_depth);
    let (most, start, before) =
        (args.integer("rounds") as usize, bench.now(), bench.sent().written_bytes);
    let filled = writes::prepare(bench, ENTRY.info.name, 0, 16 * size)?;
    let time = (bench.settings().budget.saturating_sub(bench.now() - start) / 40).max(1_000_000);
    let (mut rounds, mut written) = (Vec::new(), Vec::new());
    let after_fill = bench.sent().written_bytes;
    while rounds.len() < most {
        let random = bench.pattern(&format!("random(size={size},range={filled})"))?;
        // Sixteen requests at least, however slow they are: a round without any tells nothing.
        let limit = Limit::time(time).precision(0.0).after(0);
        let mut measured = bench.play(vec![closed(random, depth)], limit)?;
        if measured.requests < 16 {
            let random = bench.pattern(&format!("random(size={size},range={filled})"))?;
            measured = bench.play(vec![closed(random, depth)], Limit::requests(16).after(0))?;
        }
        rounds.push(measured.iops());
        written.push(bench.sent().written_bytes - after_fill);
        let is_enough = before_last(&written) >= region;
        // Five rounds come first, whatever they take.
        let is_out_of_time = rounds.len() >= LAST && bench.now() - start >= bench.settings().budget;
        if is_enough && is_steady(&rounds) || is_out_of_time {
            break;
        }
    }
    let mut finding = finding(&rounds, before_last(&written), region);
    finding.notes.push(format!(
        "{} were written, of them {} in order",
        common::bytes_text((bench.sent().written_bytes - before) as f64),
        common::bytes_text(filled as f64)
    ));
    Ok(finding)
}

/// Gives the bytes that had been written when the last five rounds began, of the sums behind each.
fn before_last(written: &[u64]) -> u64 {
    written.len().checked_sub(LAST + 1).map_or(0, |index| written[index])
}

/// The slope of the straight line through equally distant values.
fn slope(values: &[f64]) -> f64 {
    let (middle, mean) = ((values.len() - 1) as f64 / 2.0, mean(values));
    let (mut xy, mut xx) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let x = index as f64 - middle;
        (xy, xx) = (xy + x * (value - mean), xx + x * x);
    }
    if xx == 0.0 { 0.0 } else { xy / xx }
}

/// SNIA's rule on the last five rounds.
fn is_steady(rounds: &[f64]) -> bool {
    let Some(first) = rounds.len().checked_sub(LAST) else { return false };
    let last = &rounds[first..];
    let mean = mean(last);
    let high = last.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let low = last.iter().copied().fold(f64::INFINITY, f64::min);
    high - low <= 0.2 * mean && slope(last).abs() * (LAST - 1) as f64 <= 0.1 * mean
}

fn finding(rounds: &[f64], written_before: u64, region: u64) -> Finding {
    let is_steady = is_steady(rounds);
    let last = &rounds[rounds.len().saturating_sub(LAST)..];
    let level = Estimate::of(last);
    let is_enough = written_before >= region;
    let why = format!(
        "the last {LAST} of {} rounds {}; {} had been written at random before them, to a region \
         of {}",
        rounds.len(),
        if is_steady { "are steady" } else { "are not steady" },
        common::bytes_text(written_before as f64),
        common::bytes_text(region as f64)
    );
    let mut series = Series::new("random writes");
    rounds.iter().enumerate().for_each(|(round, iops)| series.push((round + 1) as f64, *iops));
    let chart = Chart {
        name: "steady_state".to_owned(),
        title: "Rounds of random writes".to_owned(),
        x: Axis::linear("round", ""),
        y: Axis::linear("throughput", "requests/s"),
        series: vec![series],
        marks: vec![Mark {
            label: "mean of the last five".to_owned(),
            x: None,
            y: Some(level.mean),
        }],
    };
    let sure = is_steady && is_enough;
    let values = vec![
        Value::number("steady_iops", level.mean, why.clone())
            .within(level.low().max(0.0), level.high())
            .sure_if(sure),
        Value::number("steady_rounds", rounds.len() as f64, why.clone()).sure_if(sure),
        Value::word("is_steady", if is_steady { "yes" } else { "no" }, why).sure_if(is_enough),
    ];
    Finding { values, charts: vec![chart], ..Finding::default() }
}
