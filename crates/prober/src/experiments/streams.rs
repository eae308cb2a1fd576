//! Sequential readers beside each other: does read-ahead still help them?

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::Nanos;

use super::common::{self, Purse};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Job, Limit};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;
use crate::matrix::Access;

/// A dip by less than this share is none.
const MARGIN: f64 = 0.02;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "streams",
        aliases: &["read_ahead_streams"],
        summary: "parallel sequential readers, each in a space of its own: where more of them spoil the read-ahead",
        source: "PARALLELISM section 5.3, figure 6",
        params: &[
            Param {
                name: "sizes",
                kind: ParamKind::Text,
                default: "auto",
                help: "bytes of requests: a list `4Ki+64Ki`, all doublings `4Ki..256Ki`, or `auto` for as many as there is time for",
            },
            Param {
                name: "streams",
                kind: ParamKind::Text,
                default: "auto",
                help: "readers beside each other: a list with 1 and 2, or `auto` for 1 ... 32",
            },
            Param {
                name: "space",
                kind: ParamKind::Integer { min: 0, max: 1 << 53 },
                default: "1Gi",
                help: "bytes that each reader has for itself at most; 0 for as many as there are",
            },
        ],
    },
    group: Group::Interference,
    writes: false,
    is_quick: true,
    weight: 1.0,
    after: &[],
    body: run,
};

/// Throughput in MB/s by size and number of streams.
type Found = BTreeMap<u64, BTreeMap<u64, Estimate>>;

fn run(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let start = bench.now();
    let is_long = common::has_time_for(bench, 7 * 9, 200_000_000);
    let mut streams = common::chosen("streams", "streams", args.text("streams"), is_long, "1+2+4+8+32", "1+2+3+4+6+8+12+16+32")?;
    streams.retain(|&streams| streams <= u64::from(bench.device().queue_depth));
    let most = streams.last().copied().unwrap_or(1);
    let region = bench.region().length;
    let wanted = if args.integer("space") == 0 { region } else { args.integer("space") };
    let mut sizes = common::chosen("streams", "sizes", args.text("sizes"), is_long, "4Ki+64Ki", "4Ki..256Ki")?;
    let space = wanted.min(region / most);
    let possible = common::sizes_possible(bench, space);
    let sector = u64::from(bench.device().sector_bytes);
    sizes.retain(|size| possible.contains(size) && size.is_multiple_of(sector));
    let Some(&largest) = sizes.last().filter(|_| streams.len() >= 2 && streams[0] == 1) else {
        let reason = format!(
            "each of {most} readers has {space} bytes of the region: requests of {} to {} bytes are possible, and one reader is needed beside several",
            possible.start(),
            possible.end()
        );
        return Err(ProbeError::Impossible { experiment: "streams", reason });
    };
    let space = space - space % largest;
    let mut purse = Purse::since(bench, start, sizes.len() * streams.len());
    let mut found = Found::new();
    for &size in &sizes {
        for &count in &streams {
            let time = purse.next(bench);
            let measured = measure(bench, size, count, space, time)?;
            found.entry(size).or_default().insert(count, measured);
        }
    }
    let mut notes =
        vec![format!("each reader has {} of its own, and begins in the first half of it, each time elsewhere", common::bytes_text(space))];
    if !bench.settings().may_write {
        notes.push("nothing was written: a drive may answer reads of what was never written without its flash".to_owned());
    }
    Ok(Finding { values: values(&found), charts: vec![chart(&found)], notes, ..Finding::default() })
}

/// Throughput of so many readers, several times: readers that begin together keep step, and which domains they then meet in depends on where
/// they began.
fn measure(bench: &mut Bench<'_>, size: u64, count: u64, space: u64, time: Nanos) -> Result<Estimate, ProbeError> {
    /// Bytes that each reader reads at least: some windows of read-ahead.
    const LEAST_BYTES: u64 = 1 << 20;
    const REPEATS: u64 = 5;
    let mut random = Pcg64Mcg::seed_from_u64(bench.seed());
    let mut throughputs = Vec::new();
    for _ in 0..REPEATS {
        let mut jobs = Vec::new();
        for number in 0..count {
            let skipped = random.random_range(0..=(space / size - 1) / 2) * size;
            let pattern = common::one_by_one(Access::Sequential, 1.0, size).pattern_within(number * space + skipped, space - skipped);
            jobs.push(Job::closed(bench.pattern(&pattern)?, 1));
        }
        let limit = Limit::time(time / REPEATS).after(4 * count).at_least((count * LEAST_BYTES / size).max(256));
        throughputs.push(bench.play(jobs, limit)?.bytes_per_second() / 1e6);
    }
    Ok(Estimate::of(&throughputs).expect("it was measured several times"))
}

fn values(found: &Found) -> Vec<Value> {
    let mut values = Vec::new();
    for (&size, curve) in found {
        let (key, text) = (common::bytes_key(size), common::bytes_text(size));
        let one = curve[&1];
        if let Some(two) = curve.get(&2).filter(|_| one.mean > 0.0) {
            let ratio = two.over(one);
            let why = format!("{text}: {:.1} MB/s with one reader, {:.1} with two", one.mean, two.mean);
            values.push(common::value(&format!("streams_{key}_two_over_one"), &ratio, why.clone()));
            let is_dip = two.is_clearly_below(&one, MARGIN, found.len());
            let is_none = one.times(1.0 - MARGIN).is_clearly_below(two, 0.0, found.len());
            let word = if is_dip { "yes" } else { "no" };
            values.push(Value::word(&format!("streams_{key}_dip"), word, why).sure_if(is_dip || is_none));
        }
        let least = curve.iter().filter(|&(&count, _)| count > 1).min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        if let Some((&count, throughput)) = least.filter(|(_, throughput)| throughput.is_clearly_below(&one, MARGIN, curve.len())) {
            let why = format!("{text}: {:.1} MB/s with {count} readers, less than with any other number", throughput.mean);
            values.push(Value::number(&format!("streams_{key}_worst_streams"), count as f64, why));
            let again = curve.iter().find(|&(&other, throughput)| other > count && throughput.mean >= one.mean);
            let key = format!("streams_{key}_until_as_fast_as_one");
            values.push(match again {
                Some((&again, there)) => {
                    let why = format!("{text}: {:.1} MB/s with {again} readers, {:.1} with one", there.mean, one.mean);
                    Value::number(&key, again as f64, why)
                }
                None => Value::not_found(&key, format!("{text}: no number of readers is as fast as one")),
            });
        }
    }
    values
}

fn chart(found: &Found) -> Chart {
    let series = found.iter().map(|(&size, curve)| {
        let mut series = Series::new(common::bytes_text(size));
        curve.iter().for_each(|(&count, throughput)| common::push(&mut series, count as f64, throughput));
        series
    });
    Chart {
        name: "streams".to_owned(),
        title: "Throughput of sequential readers beside each other".to_owned(),
        x: Axis::log("readers", "requests"),
        y: Axis::linear("throughput", "MB/s"),
        series: series.collect(),
        marks: Vec::new(),
    }
}
