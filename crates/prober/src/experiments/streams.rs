//! Sequential readers beside each other: does read-ahead still help them?

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::Nanos;

use super::common::{self, Purse};
use super::{Experiment, Group, lists};
use crate::bench::{Bench, Limit, closed};
use crate::cell::Access;
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;

/// A dip by less than this share is none.
const MARGIN: f64 = 0.02;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "streams",
        aliases: &["read_ahead_streams"],
        summary: "parallel sequential readers, each in a space of its own: where more of them \
                  spoil the read-ahead",
        source: "PARALLELISM section 5.3, figure 6",
        params: &[
            Param {
                name: "sizes",
                kind: ParamKind::Text,
                default: "auto",
                help: "bytes of requests: a list `4Ki+64Ki`, all doublings `4Ki..256Ki`, or `auto` \
                       for as many as there is time for",
            },
            Param {
                name: "streams",
                kind: ParamKind::Text,
                default: "auto",
                help: "readers beside each other: a list with 1 and 2, or `auto` for 1 ... 32",
            },
            Param {
                name: "space",
                kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
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

/// Throughput in MB/s, measured several times.
#[derive(Clone, Debug)]
struct Runs {
    /// From the least to the greatest.
    sorted: [f64; Self::COUNT],
}

impl Runs {
    const COUNT: usize = 9;

    fn new(mut runs: [f64; Self::COUNT]) -> Self {
        runs.sort_by(f64::total_cmp);
        Self { sorted: runs }
    }

    /// Readers that keep step now and then meet in one domain all the time: the median does not
    /// care.
    fn median(&self) -> f64 {
        self.sorted[Self::COUNT / 2]
    }

    /// The second and the last but one of nine: 96 % of all such intervals hold the median of the
    /// law, whatever it is (sign test).
    fn interval(&self) -> [f64; 2] {
        [self.sorted[1], self.sorted[Self::COUNT - 2]]
    }

    fn is_clearly_below(&self, other: &Self, margin: f64) -> bool {
        self.interval()[1] < other.interval()[0] * (1.0 - margin)
    }
}

/// By size and number of streams.
type Found = BTreeMap<u64, BTreeMap<u64, Runs>>;

fn run(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let start = bench.now();
    let is_long = common::has_time_for(bench, 7 * 9, 200_000_000);
    let auto =
        if is_long { ("1+2+3+4+6+8+12+16+32", "4Ki..256Ki") } else { ("1+2+4+8+32", "4Ki+64Ki") };
    let mut streams = lists::chosen("streams", "streams", args.text("streams"), Some(auto.0))?;
    streams.retain(|&streams| streams <= u64::from(bench.device().queue_depth));
    let most = streams.last().copied().unwrap_or(1);
    let region = bench.region().length;
    let wanted = if args.integer("space") == 0 { region } else { args.integer("space") };
    let mut sizes = lists::chosen("streams", "sizes", args.text("sizes"), Some(auto.1))?;
    let space = wanted.min(region / most);
    let possible = common::sizes_possible(bench, space);
    let sector = u64::from(bench.device().limits.sector_bytes);
    sizes.retain(|size| possible.contains(size) && size.is_multiple_of(sector));
    let Some(&largest) = sizes.last().filter(|_| streams.len() >= 2 && streams[0] == 1) else {
        let reason = format!(
            "each of {most} readers has {space} bytes of the region: requests of {} to {} bytes \
             are possible, and one reader is needed beside several",
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
    let notes = vec![format!(
        "each reader has {} of its own, and begins in the first half of it, each time elsewhere",
        common::bytes_text(space as f64)
    )];
    Ok(Finding { values: values(&found), charts: vec![chart(&found)], notes, ..Finding::default() })
}

/// Throughput of so many readers, several times: readers that begin together keep step, and which
/// domains they then meet in depends on where they began.
fn measure(
    bench: &mut Bench<'_>,
    size: u64,
    count: u64,
    space: u64,
    time: Nanos,
) -> Result<Runs, ProbeError> {
    /// Bytes that each reader reads at least: some windows of read-ahead.
    const LEAST_BYTES: u64 = 1 << 20;
    let mut random = Pcg64Mcg::seed_from_u64(bench.seed());
    let mut runs = [0.0; Runs::COUNT];
    for run in &mut runs {
        let mut jobs = Vec::new();
        for number in 0..count {
            let skipped = random.random_range(0..=(space / size - 1) / 2) * size;
            let pattern = common::one_by_one(Access::Sequential, 1.0, size)
                .pattern_within(number * space + skipped, space - skipped);
            jobs.push(closed(bench.pattern(&pattern)?, 1));
        }
        let limit = Limit::time(time / Runs::COUNT as u64).fewest(4 * count).after(4 * count);
        *run = bench
            .play(jobs, limit.at_least((count * LEAST_BYTES / size).max(256)))?
            .bytes_per_second()
            / 1e6;
    }
    Ok(Runs::new(runs))
}

fn values(found: &Found) -> Vec<Value> {
    let mut values = Vec::new();
    for (&size, curve) in found {
        let (key, text) =
            (format!("streams_{}", common::bytes_key(size)), common::bytes_text(size as f64));
        let one = &curve[&1];
        if let Some(two) = curve.get(&2).filter(|_| one.interval()[0] > 0.0) {
            let why = format!(
                "{text}: {:.1} MB/s with one reader, {:.1} with two (medians of {} runs)",
                one.median(),
                two.median(),
                Runs::COUNT
            );
            let ratio = two.median() / one.median();
            let (low, high) =
                (two.interval()[0] / one.interval()[1], two.interval()[1] / one.interval()[0]);
            let value =
                Value::number(&format!("{key}_two_over_one"), ratio, why.clone()).within(low, high);
            values.push(value.sure_if(high - low <= 0.2 * ratio));
            let word = if ratio < 1.0 - MARGIN { "yes" } else { "no" };
            let is_sure =
                if word == "yes" { two.is_clearly_below(one, MARGIN) } else { low > 1.0 - MARGIN };
            values.push(Value::word(&format!("{key}_dip"), word, why).sure_if(is_sure));
        }
        values.extend(recovery(&key, &text, curve));
    }
    values
}

/// Gives the number of readers with the least throughput, and the number that makes up for it;
/// nothing if more readers are never slower than one.
fn recovery(key: &str, text: &str, curve: &BTreeMap<u64, Runs>) -> Vec<Value> {
    let one = &curve[&1];
    let least = curve
        .iter()
        .filter(|&(&count, _)| count > 1)
        .min_by(|a, b| a.1.median().total_cmp(&b.1.median()));
    let Some((&count, worst)) = least.filter(|(_, runs)| runs.is_clearly_below(one, MARGIN)) else {
        return Vec::new();
    };
    let why = format!(
        "{text}: {:.1} MB/s with {count} readers, less than with any other number",
        worst.median()
    );
    let is_alone =
        curve.iter().all(|(&other, runs)| other == count || worst.is_clearly_below(runs, 0.0));
    let worst = Value::number(&format!("{key}_worst_streams"), count as f64, why).sure_if(is_alone);
    let key = format!("{key}_until_as_fast_as_one");
    let again = curve.iter().find(|&(&other, runs)| other > count && runs.median() >= one.median());
    let recovered = match again {
        Some((&again, there)) => {
            let why = format!(
                "{text}: {:.1} MB/s with {again} readers, {:.1} with one",
                there.median(),
                one.median()
            );
            // As fast within the margin, and fewer are not.
            let is_there = there.interval()[0] > one.interval()[1] * (1.0 - MARGIN);
            let is_first =
                curve.range(count..again).all(|(_, runs)| runs.is_clearly_below(one, 0.0));
            Value::number(&key, again as f64, why).sure_if(is_there && is_first)
        }
        None => Value::not_found(&key, format!("{text}: no number of readers is as fast as one")),
    };
    vec![worst, recovered]
}

fn chart(found: &Found) -> Chart {
    let series = found.iter().map(|(&size, curve)| {
        let mut series = Series::new(common::bytes_text(size as f64));
        for (&count, runs) in curve {
            let [low, high] = runs.interval();
            series.push_within(count as f64, runs.median(), low, high);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    /// Nine runs about a middle, spread by so much to either side.
    fn about(middle: f64, spread: f64) -> Runs {
        Runs::new(std::array::from_fn(|run| middle + spread * (run as f64 - 4.0) / 4.0))
    }

    #[test]
    fn what_is_hardly_the_worst_or_as_fast_again_is_not_sure() {
        let verdicts = |curve: [(u64, Runs); 4]| {
            recovery("key", "4 KiB", &curve.into())
                .iter()
                .map(|value| value.verdict)
                .collect::<Vec<_>>()
        };
        let clear = [
            (1, about(100.0, 1.0)),
            (2, about(50.0, 1.0)),
            (4, about(70.0, 1.0)),
            (8, about(120.0, 1.0)),
        ];
        assert_eq!(verdicts(clear), [Verdict::Sure, Verdict::Sure]);
        let alike = [
            (1, about(100.0, 1.0)),
            (2, about(50.0, 5.0)),
            (4, about(51.0, 5.0)),
            (8, about(101.0, 20.0)),
        ];
        assert_eq!(verdicts(alike), [Verdict::Unsure, Verdict::Unsure]);
    }
}
