//! Interference of a stream of reads and a stream of writes.

use registry::{Args, Info, Param};

use super::common::{self, Purse};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Limit, closed};
use crate::cell::{Access, limit};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "interference",
        aliases: &[],
        summary: "a reader beside a writer, each sequential or random and in a space of its own: \
                  throughput alone and together",
        source: "PARALLELISM section 5.2, table 2",
        params: &[
            common::SIZE,
            Param {
                default: "2Gi",
                help: "bytes of the region that are used at most, half for each; 0 for all",
                ..common::AREA
            },
            common::FILL,
        ],
    },
    group: Group::Interference,
    writes: true,
    is_quick: true,
    weight: 1.0,
    after: &[],
    body: run,
};

const ACCESSES: [Option<Access>; 3] = [None, Some(Access::Sequential), Some(Access::Random)];

/// A reader and a writer, or one of them.
struct Pair {
    reads: Option<Access>,
    writes: Option<Access>,
    /// MB/s of both.
    together: Estimate,
    read_mb_per_second: f64,
    write_mb_per_second: f64,
}

fn run(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let start = bench.now();
    let area = common::filled_area(bench, args)?;
    let size = common::size_possible(bench, "interference", args.integer("size"), area / 2)?;
    let space = area / 2 - area / 2 % size;
    let mut purse = Purse::since(bench, start, 8);
    let mut pairs = Vec::new();
    // Reads alone first: writes leave the drive in another state.
    for writes in ACCESSES {
        for reads in ACCESSES {
            if reads.is_none() && writes.is_none() {
                continue;
            }
            let time = purse.next(bench);
            let share = if writes.is_none() { 1.0 } else { 0.5 };
            let limit = limit(&common::one_by_one(Access::Random, share, size), time);
            let pair = play(bench, (reads, writes), size, space, limit)?;
            pairs.push(pair);
        }
    }
    bench.flush()?;
    let notes = vec![format!(
        "each stream has {} of its own and one request outstanding",
        common::bytes_text(space as f64)
    )];
    Ok(Finding {
        values: values(&pairs),
        charts: vec![chart(&pairs, size)],
        notes,
        ..Finding::default()
    })
}

fn play(
    bench: &mut Bench<'_>,
    (reads, writes): (Option<Access>, Option<Access>),
    size: u64,
    space: u64,
    limit: Limit,
) -> Result<Pair, ProbeError> {
    let mut jobs = Vec::new();
    for (access, share, offset) in [(reads, 1.0, 0), (writes, 0.0, space)] {
        if let Some(access) = access {
            let pattern = common::one_by_one(access, share, size).pattern_within(offset, space);
            jobs.push(closed(bench.pattern(&pattern)?, 1));
        }
    }
    let measured = bench.play(jobs, limit)?;
    let seconds = (measured.elapsed as f64 / 1e9).max(1e-9);
    let of = |job: Option<usize>| {
        job.map_or(0.0, |job| measured.flows[job].bytes() as f64 / 1e6 / seconds)
    };
    Ok(Pair {
        reads,
        writes,
        together: common::megabytes_per_second(&measured),
        read_mb_per_second: of(reads.map(|_| 0)),
        write_mb_per_second: of(writes.map(|_| usize::from(reads.is_some()))),
    })
}

fn name(pair: &Pair) -> String {
    match (pair.reads, pair.writes) {
        (Some(reads), Some(writes)) => format!("{}_read_and_{}_write", reads.name(), writes.name()),
        (Some(reads), None) => format!("{}_read_alone", reads.name()),
        (None, Some(writes)) => format!("{}_write_alone", writes.name()),
        (None, None) => unreachable!("a pair has a stream"),
    }
}

fn values(pairs: &[Pair]) -> Vec<Value> {
    let alone = |reads: Option<Access>, writes: Option<Access>| {
        pairs.iter().find(|pair| pair.reads == reads && pair.writes == writes)
    };
    let mut values = Vec::new();
    for pair in pairs {
        let (name, words) = (name(pair), name(pair).replace('_', " "));
        // Of two streams, this is their sum.
        values.push(common::value(&format!("{name}_mb_per_second"), &pair.together, words.clone()));
        let (Some(read), Some(write)) = (alone(pair.reads, None), alone(None, pair.writes)) else {
            continue;
        };
        if pair.reads.is_none() || pair.writes.is_none() {
            continue;
        }
        let sum = read.together.mean + write.together.mean;
        let error = read.together.error.hypot(write.together.error);
        let share = pair.together.over(Estimate { mean: sum, error, freedom: 19.0 });
        let why = format!(
            "{words}: reads {:.1} MB/s, alone {:.1}; writes {:.1} MB/s, alone {:.1}",
            pair.read_mb_per_second,
            read.together.mean,
            pair.write_mb_per_second,
            write.together.mean
        );
        values.push(common::value(&format!("{name}_over_sum"), &share, why));
    }
    values
}

fn chart(pairs: &[Pair], size: u64) -> Chart {
    let number = |access: Option<Access>| {
        ACCESSES.iter().position(|other| *other == access).expect("it is one of the three") as f64
    };
    let series = ACCESSES.map(|reads| {
        let name = reads.map_or("no reads".to_owned(), |access| format!("{} reads", access.name()));
        let mut series = Series { is_scatter: true, ..Series::new(name) };
        pairs
            .iter()
            .filter(|pair| pair.reads == reads)
            .for_each(|pair| common::push(&mut series, number(pair.writes), &pair.together));
        series
    });
    Chart {
        name: "interference".to_owned(),
        title: format!(
            "Throughput of a reader and a writer of {} together",
            common::bytes_text(size as f64)
        ),
        x: Axis::linear("writes beside: 0 none, 1 sequential, 2 random", ""),
        y: Axis::linear("throughput", "MB/s"),
        series: series.into(),
        marks: Vec::new(),
    }
}
