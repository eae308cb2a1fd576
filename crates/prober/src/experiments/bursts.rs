//! Size of the burst of random writes that a drive absorbs between pauses.
//!
//! Bursts of 1, 2, 4 ... random writes with a pause before each (uFLIP: bursts). A drive that
//! absorbs `B` bytes and is ready again after the pause answers bursts of `x > B` bytes at a mean
//! of `base + rise * (1 - B/x)`: that curve is fitted, and its bend is the burst that is absorbed.
//! It holds for this pause; [`super::write_buffer`] tells what is absorbed after a flush, at most.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::estimate::{Estimate, mean};
use crate::analysis::steps;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Mark, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "bursts",
        aliases: &["burst"],
        summary: "bursts of random writes between pauses: the bytes that are absorbed",
        source: "uFLIP (CIDR 2009): bursts",
        params: &[
            writes::size_param("16Ki"),
            writes::RANGE,
            Param {
                name: "pause_ms",
                kind: ParamKind::Number { min: 0.0, max: 1e6 },
                default: "0",
                help: "before each burst; 0 for what the time allows, at most 1000",
            },
            Param {
                name: "most",
                kind: ParamKind::Bytes { min: 1 << 16, max: 1 << 40 },
                default: "128Mi",
                help: "bytes of a burst at most",
            },
        ],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &[],
    body,
};

const ROUNDS: usize = 4;
const LEAST_RATIO: f64 = 2.0;

fn body(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    let lengths: Vec<u64> = (0..40)
        .map(|doubling| 1 << doubling)
        .take_while(|length| length * size <= args.integer("most").min(range))
        .collect();
    if lengths.len() < 2 {
        let most = args.integer("most").min(range);
        let reason = format!(
            "bursts of up to {most} bytes hold fewer than two writes of {size}: make `most` larger \
             or `size` smaller"
        );
        return Err(writes::impossible(ENTRY.info.name, reason));
    }
    let part = bench.part_of_budget(4 * ROUNDS * lengths.len());
    let pause = match (args.number("pause_ms") * 1e6) as u64 {
        0 => part.clamp(1_000_000, 1_000_000_000),
        pause => pause,
    };
    let start = bench.now();
    let mut points = Vec::new();
    for length in lengths {
        let mut means = Vec::new();
        for _ in 0..ROUNDS {
            bench.pause(pause)?;
            let source = bench.pattern(&format!("random(size={size},range={range})"))?;
            let latencies =
                writes::latencies_us(bench, closed(source, 1), Limit::requests(length).after(0))?;
            means.push(mean(&latencies));
        }
        points.push(((length * size) as f64, Estimate::of(&means)));
        // Twice as long bursts would take twice as long again.
        if bench.now() - start > bench.part_of_budget(3) {
            break;
        }
    }
    Ok(finding(&points, pause))
}

fn finding(points: &[(f64, Estimate)], pause: u64) -> Finding {
    let pause_ms = pause as f64 / 1e6;
    let mut chart = writes::response_chart(
        "bursts",
        &format!("Bursts of random writes, {pause_ms:.1} ms before each"),
        Axis::log("burst", "bytes"),
        vec![writes::curve("random writes", points.iter().map(|(bytes, level)| (*bytes, level)))],
    );
    let (first, last) = (points[0], points[points.len() - 1]);
    let lowest = points.iter().map(|(_, level)| level.mean).fold(f64::INFINITY, f64::min);
    let bend = steps::bend(points, |x, at| (1.0 - at / x).max(0.0)).filter(|bend| {
        bend.explained > 0.8
            && last.1.mean > LEAST_RATIO * lowest
            && last.1.low() > LEAST_RATIO * lowest
    });
    let value = match bend {
        None => {
            let why = format!(
                "bursts of {} take {:.0} us a write, those of {} {:.0} us, after pauses of \
                 {pause_ms:.1} ms",
                common::bytes_text(first.0),
                first.1.mean,
                common::bytes_text(last.0),
                last.1.mean
            );
            Value::not_found("burst_bytes", why)
        }
        Some(bend) => {
            chart.marks.push(Mark { label: "absorbed".to_owned(), x: Some(bend.at), y: None });
            let why = format!(
                "after pauses of {pause_ms:.1} ms bursts of up to {} are absorbed; those of {} \
                 take {:.0} us a write instead of {lowest:.0}",
                common::bytes_text(bend.at),
                common::bytes_text(last.0),
                last.1.mean
            );
            // Nothing finer than a request is told.
            let [low, high] = [bend.interval[0] - first.0, bend.interval[1] + first.0];
            let is_sure = bend.explained > 0.95
                && high < 2.0 * low
                && bend.at > 2.0 * first.0
                && 2.0 * bend.at < last.0;
            Value::number("burst_bytes", bend.at.round(), why).within(low, high).sure_if(is_sure)
        }
    };
    Finding { values: vec![value], charts: vec![chart], ..Finding::default() }
}
