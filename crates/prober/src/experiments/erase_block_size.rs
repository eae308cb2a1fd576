//! Superblock size: the number of bytes that are erased together, where the mapping is by erase
//! blocks.
//!
//! Ascending writes at a distance `d` from each other. Where pages are kept in (groups of) erase
//! blocks of `S` bytes each, all that such a group is written to is paid for with one copy of it;
//! `S / d` writes share that, until from `d = S` on each write pays for all:
//! `y = base + rise * min(d, S)`. That curve is fitted, and its bend is the superblock: the erase
//! block times as many as are interleaved, which from outside are one. A drive that maps by pages
//! shows no such rise, and its erase blocks leave no trace in writes.

use registry::{Args, Info};

use super::common;
use super::writes::{self, Effort};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::analysis::steps::{self, Bend};
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Mark, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "erase_block_size",
        aliases: &["superblock"],
        summary: "bytes that are merged and erased together: the distance from which on each write \
                  pays for a merge of its own",
        source: "uFLIP (CIDR 2009): order with large increments; Kim et al., IEEE TCE 2002 (what a \
                 merge costs)",
        params: &[writes::size_param("16Ki"), writes::RANGE],
    },
    group: Group::Internals,
    writes: true,
    is_quick: false,
    weight: 3.0,
    after: &["write_buffer"],
    body,
};

/// Smallest ratio of the cost of writes far apart to that of near ones.
const LEAST_RATIO: f64 = 2.5;

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 256);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    // More writes than a buffer holds, or it takes them all.
    let buffer = known.number("write_buffer_bytes").unwrap_or(0.0) as u64;
    let is_apart = |distance: u64| 16 * distance <= range && range / distance * size >= 3 * buffer;
    // Sixteen writes over the range at least, so that no drive has a log for each. Odd numbers of
    // requests apart: at whole erase blocks all writes would be at the start of one, which some
    // drives merge in another way.
    let distances: Vec<u64> = (1..40)
        .map(|doubling| size * ((1 << doubling) + 1))
        .take_while(|&distance| is_apart(distance))
        .collect();
    let effort = Effort { requests: 2000, time: bench.part_of_budget(4 * distances.len()) };
    let mut points = Vec::new();
    // Up and down again: what a drive still carries from the distance before shows as a difference.
    for distance in distances.iter().chain(distances.iter().rev()) {
        points.push((*distance as f64, measure(bench, size, *distance, range, effort)?));
    }
    if let Some(bend) = fit(&points).filter(|_| is_dearer(&points)) {
        let effort = Effort { requests: 2000, time: bench.part_of_budget(4 * 6) };
        for third in [-4, -2, -1, 1, 2, 4] {
            let distance =
                (bend.at * (f64::from(third) / 3.0).exp2() / size as f64) as u64 / 2 * 2 * size
                    + size;
            if distance > size && is_apart(distance) {
                points.push((distance as f64, measure(bench, size, distance, range, effort)?));
            }
        }
    }
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(finding(&points, size))
}

fn measure(
    bench: &mut Bench<'_>,
    size: u64,
    distance: u64,
    range: u64,
    effort: Effort,
) -> Result<Estimate, ProbeError> {
    Ok(writes::response(
        bench,
        &format!("stride(size={size},range={range},distance={distance})"),
        effort,
    )?
    .us)
}

fn fit(points: &[(f64, Estimate)]) -> Option<Bend> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    steps::bend(&sorted, f64::min)
}

fn is_dearer(points: &[(f64, Estimate)]) -> bool {
    let of = |choose: fn(f64, f64) -> f64, start: f64| {
        points.iter().map(|(_, level)| level.mean).fold(start, choose)
    };
    of(f64::max, 0.0) > LEAST_RATIO * of(f64::min, f64::INFINITY)
}

fn finding(points: &[(f64, Estimate)], size: u64) -> Finding {
    let mut chart = writes::response_chart(
        "erase_block_size",
        "Ascending writes at a distance",
        Axis::log("distance", "bytes"),
        vec![writes::curve("writes", points.iter().map(|(distance, level)| (*distance, level)))],
    );
    let Some((last, _)) = points.last() else {
        return Finding {
            values: vec![Value::not_found(
                "superblock_bytes",
                "the range is too small for any distance",
            )],
            ..Finding::default()
        };
    };
    let value = match fit(points).filter(|bend| bend.explained > 0.8 && is_dearer(points)) {
        None if *last < 8.0 * points[0].0 => Value::not_found(
            "superblock_bytes",
            format!(
                "the range allows distances of {} to {} only, or the write buffer would take all \
                 the writes",
                common::bytes_text(points[0].0),
                common::bytes_text(*last)
            ),
        ),
        None => Value::not_found(
            "superblock_bytes",
            format!(
                "writes up to {} apart cost less than {LEAST_RATIO} times those {} apart: no \
                 mapping by erase blocks shows",
                common::bytes_text(*last),
                common::bytes_text(points[0].0)
            ),
        ),
        Some(bend) => {
            let value = superblock(&bend, *last, size);
            chart.marks.push(Mark { label: "superblock".to_owned(), x: value.number, y: None });
            value
        }
    };
    Finding { values: vec![value], charts: vec![chart], ..Finding::default() }
}

fn superblock(bend: &Bend, last: f64, size: u64) -> Value {
    // The distances that were tried differ by two requests where they are closest.
    let [low, high] = [bend.interval[0] - size as f64, bend.interval[1] + size as f64];
    // A power of two if one is likely: such are nearly all.
    let power = low.log2().ceil().exp2();
    let is_power = power <= high;
    let bytes = if is_power { power } else { (bend.at / size as f64).round() * size as f64 };
    // Between powers of two lies one of them for certain; anything else has to be narrow.
    let is_narrow =
        high < if is_power { 1.5 } else { 1.15 } * low && (bytes / bend.at - 1.0).abs() < 0.12;
    let is_sure =
        bend.explained > 0.97 && is_narrow && bytes <= last / 2.0 && bytes >= 4.0 * size as f64;
    let why = format!(
        "the cost of writes grows with their distance up to {}{}, which explains {:.1} % of it",
        common::bytes_text(bend.at),
        if is_power { format!(" (about {})", common::bytes_text(power)) } else { String::new() },
        100.0 * bend.explained
    );
    Value::number("superblock_bytes", bytes, why).within(low, high).sure_if(is_sure)
}
