//! Two streams of focused writes, one after the other or both at once.
//!
//! STABLEBUFFER's test (section 4.2, figure 5): does a drive write to a staging buffer and to
//! somewhere else at once faster than in turn? Each stream writes at random within an area of its
//! own, one request at a time. Serial: one stream to its end, then the other. Parallel: both
//! together. Rounds alternate in order, and the quotient of the times of each round gives the
//! interval (of its logarithm, Student). "Two threads" are two requests outstanding here: what the
//! device sees of them.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Flow, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "serial_parallel",
        aliases: &[],
        summary: "two streams of focused writes at once against one after the other",
        source: "STABLEBUFFER section 4.2, figure 5",
        params: &[
            writes::size_param("4Ki"),
            writes::RANGE,
            Param {
                name: "area",
                kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
                default: "0",
                help: "bytes of each area; 0 for a quarter of the focused area, or 1Mi",
            },
            Param {
                name: "rounds",
                kind: ParamKind::Integer { min: 3, max: 1000 },
                default: "8",
                help: "how often each is measured; four times if the drive is very slow",
            },
        ],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: false,
    weight: 1.0,
    after: &["focused"],
    body,
};

/// Within so much the two count as the same.
const SAME: f64 = 1.15;

struct Streams {
    size: u64,
    area: u64,
    /// Beginning of each area.
    starts: [u64; 2],
}

impl Streams {
    fn pattern(&self, stream: usize, requests: u64) -> String {
        let Self { size, area, starts } = self;
        format!(
            "focused(size={size},area={area},offset={},range={area},requests={requests})",
            starts[stream]
        )
    }

    /// Device time in nanoseconds for so many requests of both streams.
    fn serial(&self, bench: &mut Bench<'_>, requests: u64) -> Result<f64, ProbeError> {
        let start = bench.now();
        for stream in 0..2 {
            let source = bench.pattern(&self.pattern(stream, requests))?;
            bench.play(vec![closed(source, 1)], Limit::requests(u64::MAX).after(0))?;
        }
        Ok((bench.now() - start) as f64)
    }

    fn parallel(&self, bench: &mut Bench<'_>, requests: u64) -> Result<f64, ProbeError> {
        let start = bench.now();
        let jobs =
            (0..2).map(|stream| Ok(closed(bench.pattern(&self.pattern(stream, requests))?, 1)));
        let jobs = jobs.collect::<Result<Vec<Flow>, ProbeError>>()?;
        bench.play(jobs, Limit::requests(u64::MAX).after(0))?;
        Ok((bench.now() - start) as f64)
    }
}

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    if bench.device().queue_depth < 2 {
        return Err(writes::impossible(ENTRY.info.name, "the device takes one request at a time"));
    }
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let area = match args.integer("area") {
        0 => known.number("focused_area_bytes").map_or(1 << 20, |bytes| bytes as u64 / 4),
        area => area,
    };
    let range = writes::prepare(bench, ENTRY.info.name, args.integer("range"), 16 * size)?;
    let area = (area.min(range / 4) / size).max(1) * size;
    let streams = Streams { size, area, starts: [0, range / 2 / size * size] };
    // As many requests as the time allows, found by trying few; the first round is for getting used
    // to it.
    streams.serial(bench, 8)?;
    let pilot = streams.serial(bench, 16)? / 32.0;
    let is_slow = pilot * 600.0 > bench.settings().budget as f64;
    let rounds = if is_slow { 4 } else { args.integer("rounds") as usize };
    let requests = ((bench.part_of_budget(2) as f64 / pilot / (4 * (rounds + 1)) as f64) as u64)
        .clamp(if is_slow { 8 } else { 16 }, 4096);
    streams.serial(bench, requests)?;
    streams.parallel(bench, requests)?;
    let (mut serial, mut parallel) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            serial.push(streams.serial(bench, requests)?);
            parallel.push(streams.parallel(bench, requests)?);
        } else {
            parallel.push(streams.parallel(bench, requests)?);
            serial.push(streams.serial(bench, requests)?);
        }
    }
    Ok(finding(&serial, &parallel, &streams, requests))
}

fn finding(serial: &[f64], parallel: &[f64], streams: &Streams, requests: u64) -> Finding {
    let logs: Vec<f64> =
        serial.iter().zip(parallel).map(|(serial, parallel)| (serial / parallel).ln()).collect();
    let level = Estimate::of(&logs);
    let (ratio, low, high) = (level.mean.exp(), level.low().exp(), level.high().exp());
    let why = format!(
        "{} rounds of {requests} writes of {} within {} by each of two streams: both at once are \
         {ratio:.2} times as fast as in turn",
        serial.len(),
        common::bytes_text(streams.size as f64),
        common::bytes_text(streams.area as f64)
    );
    let (word, is_sure) = match ratio {
        ratio if ratio > SAME => ("faster", low > SAME),
        ratio if ratio < SAME.recip() => ("slower", high < SAME.recip()),
        _ => ("same", low > SAME.recip() && high < SAME),
    };
    let values = vec![
        Value::number("parallel_over_serial", ratio, why.clone())
            .within(low, high)
            .sure_if(high < 1.2 * low),
        Value::word("parallel_writes", word, why).sure_if(is_sure),
    ];
    let writes = 2.0 * requests as f64;
    let series = [("in turn", serial), ("at once", parallel)].map(|(name, times)| {
        let mut series = Series::new(name);
        times
            .iter()
            .enumerate()
            .for_each(|(round, time)| series.push(round as f64, writes * 1e9 / time));
        series
    });
    let chart = Chart {
        name: "serial_parallel".to_owned(),
        title: "Two streams of focused writes".to_owned(),
        x: Axis::linear("round", ""),
        y: Axis::linear("throughput", "requests/s"),
        series: series.into(),
        marks: Vec::new(),
    };
    Finding { values, charts: vec![chart], ..Finding::default() }
}
