//! After how many random overwrites a filled drive has to clean.
//!
//! The region is trimmed where the device can, so that all spare space is free, and written in order; then random writes are counted until their throughput falls for good, by at least a quarter: the first lasting
//! change of level in windows of equally many bytes, by binary segmentation with F tests. Until then the drive writes to spare erase blocks;
//! from then on each write pays for relocations. What was written up to there is about the spare space that is kept free of data (less what the drive
//! keeps in reserve). The first two hundredths, and twice the write buffer, are left out, as buffers fill meanwhile; a
//! buffer that fills slowly makes a smaller fall.
//!
//! It writes the region once in order, and at most `most` at random. It holds only if the rest of the drive holds data too, which nobody
//! but the user knows. Drives with log blocks show here when their logs are full; a drive that is always cleaning shows nothing.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::estimate::mean;
use crate::analysis::steps;
use crate::bench::{Bench, Job, Limit};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "cleaning_onset",
        aliases: &["write_cliff"],
        summary: "bytes of random overwrites until a filled drive has to clean",
        source: "SNIA Solid State Storage Performance Test Specification 2.0 (fresh out of box, transition, steady state)",
        params: &[
            writes::size_param("16Ki"),
            Param { name: "depth", kind: ParamKind::Integer { min: 1, max: 4096 }, default: "32", help: "requests outstanding" },
            Param {
                name: "most",
                kind: ParamKind::Integer { min: 0, max: 1 << 53 },
                default: "0",
                help: "bytes of random writes at most; 0 for those of the region",
            },
        ],
    },
    group: Group::Internals,
    writes: true,
    is_quick: false,
    weight: 8.0,
    after: &["write_buffer"],
    body,
};

/// By how much throughput has to fall.
const LEAST_FALL: f64 = 0.25;

/// Windows into which all random writes are divided.
const WINDOWS: u64 = 200;

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let region = bench.region().length;
    let size = writes::request_bytes(bench, args.integer("size"), region / 64);
    let depth = (args.integer("depth") as u32).min(bench.device().queue_depth);
    let most = if args.integer("most") == 0 { region } else { args.integer("most") };
    let window = (most / WINDOWS / size).max(u64::from(2 * depth).min(most / size / 40)).max(1);
    let (start, time) = (bench.now(), bench.settings().budget);
    let skipped = (2 * known.number("write_buffer_bytes").unwrap_or(0.0) as u64 / size).max(window * WINDOWS / 50).next_multiple_of(window);
    let least = (skipped + 8 * window) * size;
    if least > most {
        let reason = format!("{most} bytes of random writes are too few beside the write buffer: at least {least} would do");
        return Err(writes::impossible(ENTRY.info.name, reason));
    }
    writes::purge(bench)?;
    let filled = writes::prepare(bench, ENTRY.info.name, 0, 16 * size)?;
    let mut left_out = 0;
    let mut rates = Vec::new();
    while (left_out + (rates.len() as u64 + 1) * window) * size <= most && bench.now() - start < time {
        // So many in all: a limit would leave as many as are outstanding uncounted.
        let random = bench.pattern(&format!("random(size={size},range={filled},requests={window})"))?;
        let measured = bench.play(vec![Job::closed(random, depth)], Limit::requests(u64::MAX).after(0))?;
        if left_out < skipped {
            left_out += window;
            continue;
        }
        rates.push(measured.bytes_per_second());
        // Long enough after the change for it to be one.
        if rates.len().is_multiple_of(10) && steps::first_change(&rates, LEAST_FALL).is_some_and(|at| rates.len() > at + 40) {
            break;
        }
    }
    let capacity = bench.device().capacity_bytes;
    // What lies outside the region may be spare space, too.
    let is_part = (region as f64) < 0.95 * capacity as f64;
    let is_partly_filled = filled + (256 << 10) < region;
    let mut finding = finding(&rates, window * size, left_out * size, is_part || is_partly_filled);
    if is_part {
        let (region, capacity) = (common::bytes_text(region as f64), common::bytes_text(capacity as f64));
        finding.notes.push(format!("the region of {region} is a part of {capacity}: the rest may be spare space to the drive"));
    }
    finding.notes.push(format!(
        "the plan was to write {} in order and at most {} at random",
        common::bytes_text(region as f64),
        common::bytes_text(most as f64)
    ));
    if is_partly_filled {
        finding.notes.push(format!(
            "the time was enough to fill {} of {}",
            common::bytes_text(filled as f64),
            common::bytes_text(region as f64)
        ));
    }
    Ok(finding)
}

fn finding(rates: &[f64], window_bytes: u64, left_out: u64, is_partly_filled: bool) -> Finding {
    let mut series = Series::new("random writes");
    let at_bytes = |index: usize| left_out as f64 + index as f64 * window_bytes as f64;
    rates.iter().enumerate().for_each(|(index, rate)| series.push(at_bytes(index), rate / 1e6));
    let mut chart = Chart {
        name: "cleaning_onset".to_owned(),
        title: "Random overwrites of a filled drive".to_owned(),
        x: Axis::linear("written at random", "bytes"),
        y: Axis::linear("throughput", "MB/s"),
        series: vec![series],
        marks: Vec::new(),
    };
    let written = at_bytes(rates.len());
    let change = steps::first_change(rates, LEAST_FALL);
    let value = match change {
        Some(at) if mean(&rates[at..]) < mean(&rates[..at]) => {
            let bytes = at_bytes(at);
            chart.marks.push(Mark { label: "cleaning begins".to_owned(), x: Some(bytes), y: None });
            let why = format!(
                "{:.1} MB/s up to so much of random overwrites, {:.1} MB/s behind it",
                mean(&rates[..at]) / 1e6,
                mean(&rates[at..]) / 1e6
            );
            // Sure: enough was seen before the change and behind it, and the drive was full.
            let is_sure = !is_partly_filled && at >= 8 && rates.len() >= at + 20;
            let grain = 2.0 * window_bytes as f64;
            Value::number("cleaning_onset_bytes", bytes, why).within(bytes - grain, bytes + grain).sure_if(is_sure)
        }
        _ => Value::not_found(
            "cleaning_onset_bytes",
            format!(
                "{} of random overwrites at {:.1} MB/s do not fall by {:.0} %",
                common::bytes_text(written),
                mean(rates) / 1e6,
                100.0 * LEAST_FALL
            ),
        ),
    };
    Finding { values: vec![value], charts: vec![chart], ..Finding::default() }
}
