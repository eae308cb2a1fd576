//! Number of logs or replacement erase blocks that a drive keeps open.
//!
//! Random writes to 1, 2, 4 ... spots in turn, each far smaller than an erase block and far from
//! the next. A drive that gives each (logical) erase block a log of its own (BAST) takes as many
//! spots as it has logs cheaply; one more, and every write costs a merge, as going round is the
//! worst for whatever was used least recently. If writes are dear even in one spot, the same with
//! ascending writes in each: a drive with replacement blocks takes only these. If neither shows a
//! border, the logs may be common to all (FAST): then, after the range was written in order, so
//! many bytes of random writes are absorbed as the logs hold, and the first lasting change of their
//! cost tells that.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::IoOp;

use super::common;
use super::writes::{self, Cheap, Effort, Swept};
use super::{Experiment, Group};
use crate::analysis::estimate::mean;
use crate::analysis::steps;
use crate::bench::{Bench, Limit, Pace, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Mark, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "logs",
        aliases: &["log_blocks"],
        summary: "logs or replacement erase blocks that are open at once: writes to more places \
                  than that are dear",
        source: "Kim et al., IEEE TCE 2002 (BAST); Lee et al., ACM TECS 6(3), 2007 (FAST); \
                 Bergmann, LWN, 2011 (open groups of cards)",
        params: &[
            writes::size_param("32Ki"),
            writes::RANGE,
            Param {
                name: "most",
                kind: ParamKind::Integer { min: 2, max: 1024 },
                default: "64",
                help: "spots at most",
            },
            Param {
                name: "spot",
                kind: ParamKind::Bytes { min: 4096, max: 1 << 30 },
                default: "256Ki",
                help: "bytes of a spot: less than an erase block, more than a write buffer holds \
                       together",
            },
        ],
    },
    group: Group::Internals,
    writes: true,
    is_quick: false,
    weight: 3.0,
    after: &["write_buffer", "erase_block_size"],
    body,
};

/// Smallest ratio of the cost of the second place to that of the first, if each write costs a
/// merge.
const LEAST_OF_MERGE: f64 = 10.0;

/// Smallest ratio of the second level to the first.
const LEAST_RATIO: f64 = 2.0;

/// Largest ratio of the first level to the cost of sequential writes.
const MOST_OVER_SEQUENTIAL: f64 = 8.0;

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let superblock = known.number("superblock_bytes").unwrap_or(0.0) as u64;
    // Where superblocks are small, so are the writes, or the logs are full too soon.
    let fitting = if superblock > 0 { superblock / 32 } else { u64::MAX };
    let size =
        writes::request_bytes(bench, args.integer("size").min(fitting), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    let buffer = known.number("write_buffer_bytes").unwrap_or(0.0);
    let (spots, most) = Spots::lay_out(bench.region().offset, range, superblock, size, args)?;
    let spot = spots.places * size;
    let effort =
        Effort { requests: 2000, time: bench.part_of_budget(7 * (most.ilog2() as usize + 1)) };
    let sequential = writes::response(
        bench,
        &format!("sequential(size={size},range={range})"),
        Effort { requests: 500, ..effort },
    )?;
    let mut charts = Vec::new();
    for (order, in_order) in [("any_order", false), ("ascending", true)] {
        let mut swept = Swept::new();
        let found = writes::cheap_up_to(&mut swept, most, LEAST_RATIO, |count| {
            let closed = Pace::closed(1);
            writes::response_of(bench, effort, closed, |bench| {
                let offsets = spots.offsets(bench.seed(), count, in_order);
                Ok(bench.at_offsets(IoOp::Write, offsets, size as u32))
            })
        })?;
        let mut chart = writes::response_chart(
            &format!("logs_{order}"),
            &format!(
                "Writes to several places in turn, {} in each",
                if in_order { "ascending" } else { "random" }
            ),
            Axis::log("places", ""),
            vec![writes::curve(
                "writes",
                swept.iter().map(|(&count, response)| (count as f64, &response.us)),
            )],
        );
        // What is dear beside writes in sequence is no log's work, and as many spots as the write
        // buffer holds are the buffer's.
        let is_buffered = |count: u64| (count * spot) as f64 <= 1.2 * buffer;
        let is_of_logs = |cheap: &Cheap| {
            cheap.here.mean < MOST_OVER_SEQUENTIAL * sequential.us.mean && !is_buffered(cheap.most)
        };
        let Some(cheap) = found.filter(is_of_logs) else {
            charts.push(chart);
            continue;
        };
        let count = cheap.most as f64;
        chart.marks.push(Mark { label: "logs".to_owned(), x: Some(count), y: None });
        charts.push(chart);
        let why = format!(
            "{} {} places in turn cost {:.0} us a write, {} cost {:.0} us; places are {} apart",
            cheap.most,
            if in_order { "ascending" } else { "random" },
            cheap.here.mean,
            cheap.most + 1,
            cheap.beyond.mean,
            common::bytes_text(spots.distance as f64)
        );
        // Were superblocks larger than the distance, places would share a log; were they smaller
        // than a place, each would need several.
        let is_known = known.sure_number("superblock_bytes").is_some();
        // Of places that a buffer holds a good part of, fewer reach the logs.
        let is_past_buffer = (cheap.most * spot) as f64 > 4.0 * buffer;
        // A drive that has the map of one superblock in memory reads another one for each change of
        // place, which is dear, but no merge.
        let is_a_merge = cheap.most > 1 || cheap.beyond.mean > LEAST_OF_MERGE * cheap.here.mean;
        let logs = Value::number("log_blocks", count, why.clone())
            .within(count, count)
            .sure_if(cheap.is_clear && is_known && is_past_buffer && is_a_merge);
        let order = Value::word("log_order", order, why).sure_if(cheap.is_clear);
        return Ok(Finding { values: vec![logs, order], charts, ..Finding::default() });
    }
    common_logs(bench, size, range, charts)
}

/// Spots of the writes: the start of the first, the places in each, and the distance from one to
/// the next.
#[derive(Clone, Copy)]
struct Spots {
    size: u64,
    start: u64,
    places: u64,
    distance: u64,
}

impl Spots {
    /// Spots in the middle of superblocks, as far from each other as the range allows, and how many
    /// there may be.
    fn lay_out(
        offset: u64,
        range: u64,
        superblock: u64,
        size: u64,
        args: &Args,
    ) -> Result<(Self, u64), ProbeError> {
        let unit = if superblock > 0 { superblock } else { (1 << 20).min(range / 4) }
            .max(4 * size)
            .next_multiple_of(size);
        let most = args.integer("most").min((range / unit).saturating_sub(1));
        if most < 2 {
            return Err(writes::impossible(
                ENTRY.info.name,
                format!("a range of {range} bytes has no three places {unit} bytes apart"),
            ));
        }
        // Superblocks are taken to begin at multiples of their size from the start of the device;
        // half of one on either side allows for partitions that do not.
        let first = (unit - offset % unit) % unit;
        let places = (args.integer("spot").min(unit / 2) / size).max(2);
        let distance = range / unit / (most + 1) * unit;
        Ok((Self { size, start: first + unit / 4 / size * size, places, distance }, most))
    }

    /// Offsets in `count` spots in turn.
    fn offsets(&self, seed: u64, count: u64, in_order: bool) -> Vec<u64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rounds = (4096 / count).next_multiple_of(self.places);
        let place = |round: u64, random: &mut Pcg64Mcg| {
            if in_order { round % self.places } else { random.random_range(0..self.places) }
        };
        (0..rounds)
            .flat_map(|round| (0..count).map(move |spot| (round, spot)))
            .map(|(round, spot)| {
                self.start + spot * self.distance + place(round, &mut random) * self.size
            })
            .collect()
    }
}

/// The bytes of random writes that are absorbed after the range was written in order, and how fast.
fn common_logs(
    bench: &mut Bench<'_>,
    size: u64,
    range: u64,
    mut charts: Vec<crate::finding::Chart>,
) -> Result<Finding, ProbeError> {
    bench.fill(0, range, 20_000_000)?;
    let random = bench.pattern(&format!("random(size={size},range={range})"))?;
    let limit =
        Limit { requests: 2 * range / size, ..Limit::time(bench.part_of_budget(4)).precision(0.0) };
    let latencies = writes::latencies_us(bench, closed(random, 1), limit)?;
    let each = (latencies.len() / 200).max(1);
    let groups: Vec<f64> = latencies.chunks_exact(each).map(mean).collect();
    let step = (each as u64 * size) as f64;
    let mut series = Series::new("random writes");
    groups.iter().enumerate().for_each(|(index, mean)| series.push(index as f64 * step, *mean));
    let mut chart = writes::response_chart(
        "logs_common",
        "Random writes after sequential ones",
        Axis::linear("written", "bytes"),
        vec![series],
    );
    let change = steps::first_change(&groups, LEAST_RATIO - 1.0)
        .filter(|&at| mean(&groups[at..]) > LEAST_RATIO * mean(&groups[..at]));
    let values = match change {
        None => vec![Value::not_found(
            "log_blocks",
            format!(
                "neither places in turn nor {} of random writes show a border beyond which they \
                 are dear",
                common::bytes_text(latencies.len() as f64 * size as f64)
            ),
        )],
        Some(at) => {
            let bytes = at as f64 * step;
            chart.marks.push(Mark { label: "logs full".to_owned(), x: Some(bytes), y: None });
            let why = format!(
                "random writes cost {:.0} us up to so much after sequential ones, then {:.0} us: \
                 what common logs hold, or spare space of a drive that maps by pages",
                mean(&groups[..at]),
                mean(&groups[at..])
            );
            let missing = Value::not_found(
                "log_blocks",
                "no border by places, only one by bytes: see log_bytes",
            );
            // The median: what a write buffer takes at first is faster.
            let write_us = steps::median(&groups[..at]);
            let pace = format!("{write_us:.0} us each of them, once a write buffer is full");
            let rate =
                Value::number("log_write_bytes_per_second", size as f64 / write_us * 1e6, pace);
            vec![
                Value::number("log_bytes", bytes, why)
                    .within(bytes - step, bytes + step)
                    .sure_if(false),
                rate.sure_if(false),
                missing,
            ]
        }
    };
    charts.push(chart);
    Ok(Finding { values, charts, ..Finding::default() })
}
