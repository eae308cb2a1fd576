//! After how many random overwrites a filled drive has to clean.
//!
//! The region is trimmed where the device can, so that all spare space is free, and written in
//! order; then random writes are counted until their throughput falls for good, by at least a
//! quarter: the first lasting change of level in windows of equally many bytes, by binary
//! segmentation with F tests. Until then the drive writes to spare erase blocks; from then on each
//! write waits for relocations. A drive that keeps a reserve cleans beside the writes before that:
//! a first, smaller fall (`cleaning_begins_bytes`), and the reserve is what lies between. The first
//! half per cent, and twice the write buffer, are left out, as buffers fill meanwhile; a buffer
//! that fills slowly makes a smaller fall. Filling may take most of the time: in a drive that is
//! not full nothing has to be cleaned. Where nothing falls, the drive has at least as much spare
//! space as was written (`least_spare_bytes`).
//!
//! It writes the region once in order, and at most `most` at random. It holds only if the rest of
//! the drive holds data too, which nobody but the user knows. Drives with log blocks show here when
//! their logs are full; a drive that is always cleaning shows nothing.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes;
use super::{Experiment, Group};
use crate::analysis::estimate::mean;
use crate::analysis::steps;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "cleaning_onset",
        aliases: &["write_cliff"],
        summary: "bytes of random overwrites until a filled drive has to clean",
        source: "SNIA Solid State Storage Performance Test Specification 2.0 (fresh out of box, \
                 transition, steady state)",
        params: &[
            writes::size_param("16Ki"),
            Param {
                name: "depth",
                kind: ParamKind::Integer { min: 1, max: 4096 },
                default: "32",
                help: "requests outstanding",
            },
            Param {
                name: "most",
                kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
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

/// Smallest fall of the throughput, as a share of it.
const LEAST_FALL: f64 = 0.25;

/// A first fall may be so small: the drive takes erase blocks from its reserve while it cleans.
const LEAST_FIRST_FALL: f64 = 0.05;

/// Windows into which all random writes are divided: some drives begin to clean after 1.5 % of
/// their size, and eight windows are needed before a change.
const WINDOWS: u64 = 800;

/// Windows that are left out, the first half per cent.
const LEFT_OUT: u64 = 4;

/// Windows after a change that show that it lasts.
const LASTING: usize = 80;

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let region = bench.region().length;
    let size = writes::request_bytes(bench, args.integer("size"), region / 64);
    let depth = (args.integer("depth") as u32).min(bench.device().queue_depth);
    let most = if args.integer("most") == 0 { region } else { args.integer("most") };
    let window = (most / WINDOWS / size).max(u64::from(2 * depth).min(most / size / 40)).max(1);
    let (start, time) = (bench.now(), bench.settings().budget);
    let skipped = (2 * known.number("write_buffer_bytes").unwrap_or(0.0) as u64 / size)
        .max(window * LEFT_OUT)
        .next_multiple_of(window);
    let least = (skipped + 8 * window) * size;
    if least > most {
        let reason = format!(
            "{most} bytes of random writes are too few beside the write buffer: at least {least} \
             would do"
        );
        return Err(writes::impossible(ENTRY.info.name, reason));
    }
    writes::purge(bench)?;
    let filled = fill(bench, 16 * size, depth)?;
    let mut left_out = 0;
    let mut rates = Vec::new();
    while (left_out + (rates.len() as u64 + 1) * window) * size <= most
        && bench.now() - start < time
    {
        // So many in all: a limit would leave as many as are outstanding uncounted.
        let random =
            bench.pattern(&format!("random(size={size},range={filled},requests={window})"))?;
        let measured =
            bench.play(vec![closed(random, depth)], Limit::requests(u64::MAX).after(0))?;
        if left_out < skipped {
            left_out += window;
            continue;
        }
        rates.push(measured.bytes_per_second());
        // Long enough after the change for it to be one.
        if rates.len().is_multiple_of(10)
            && steps::first_change(&rates, LEAST_FALL).is_some_and(|at| rates.len() > at + LASTING)
        {
            break;
        }
    }
    let capacity = bench.device().limits.capacity_bytes;
    // What lies outside the region may be spare space, too.
    let is_part = (region as f64) < 0.95 * capacity as f64;
    let is_partly_filled = filled + (256 << 10) < region;
    let mut finding = finding(&rates, window * size, left_out * size, is_part || is_partly_filled);
    if is_part {
        let (region, capacity) =
            (common::bytes_text(region as f64), common::bytes_text(capacity as f64));
        finding.notes.push(format!(
            "the region of {region} is a part of {capacity}: the rest may be spare space to the \
             drive"
        ));
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

/// Writes the region in order, as fast as the drive takes it and as far as the time allows, but for
/// what the random writes need. Returns the bytes that hold data now.
fn fill(bench: &mut Bench<'_>, least: u64, depth: u32) -> Result<u64, ProbeError> {
    const SHARE: f64 = 0.88;
    let region = bench.region().length;
    if region < least {
        return Err(writes::impossible(
            ENTRY.info.name,
            format!("the region has {region} bytes; at least {least} would do"),
        ));
    }
    let unit = writes::request_bytes(bench, 256 << 10, region);
    let all = region / unit * unit;
    let (start, time) = (bench.now(), (bench.settings().budget as f64 * SHARE) as u64);
    let mut filled = 0;
    while filled < all && (filled < least || bench.now() - start < time) {
        let part = (filled / 8).max(4 << 20).div_ceil(unit) * unit;
        let part = part.min(all - filled);
        let requests = part / unit;
        let source = bench.pattern(&format!(
            "sequential(size={unit},offset={filled},range={part},requests={requests})"
        ))?;
        bench.play(vec![closed(source, depth)], Limit::requests(u64::MAX).after(0))?;
        filled += part;
    }
    bench.flush()?;
    Ok(filled)
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
            Value::number("cleaning_onset_bytes", bytes, why)
                .within(bytes - grain, bytes + grain)
                .sure_if(is_sure)
        }
        _ if rates.is_empty() => Value::not_found(
            "cleaning_onset_bytes",
            format!(
                "the time was enough for {} of random overwrites, all of which are left out as \
                 those of the write buffer: more time, or a smaller region, may tell",
                common::bytes_text(written)
            ),
        ),
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
    let mut values = vec![value];
    // Before the drive waits for cleaning it may clean beside the writes, for as long as its
    // reserve lasts.
    if let Some(at) = change
        && let Some(first) = steps::first_change(&rates[..at], LEAST_FIRST_FALL)
        && mean(&rates[first..at]) < mean(&rates[..first])
    {
        let (bytes, grain) = (at_bytes(first), 2.0 * window_bytes as f64);
        let (before, after) = (mean(&rates[..first]) / 1e6, mean(&rates[first..at]) / 1e6);
        let why = format!(
            "a first fall, from {before:.1} MB/s to {after:.1} MB/s: it cleans, but writes do not \
             wait for it"
        );
        values.push(
            Value::number("cleaning_begins_bytes", bytes, why).within(bytes - grain, bytes + grain),
        );
    }
    if change.is_none() && !is_partly_filled {
        let why = "random overwrites of a full drive, none of which had to wait for cleaning";
        values.push(Value::number("least_spare_bytes", written, why));
    }
    Finding { values, charts: vec![chart], ..Finding::default() }
}
