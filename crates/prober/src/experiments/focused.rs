//! Within how small an area random writes are cheap.
//!
//! Random writes within areas of growing size (uFLIP: locality). A drive that keeps a few erase
//! blocks open, or a part of its map in memory, holds `A` bytes of area, so that of random writes
//! within `x > A` bytes the share `1 - A/x` misses: `y = base + rise * (1 - A/x)` beyond `A`, and
//! `base` below. That curve is fitted, and its bend is the focused area: what STABLEBUFFER (section
//! 3.1) makes its staging buffer as large as. First areas by doublings, then four to a doubling
//! around the bend.
//!
//! Limits: it does not tell if an area elsewhere is as cheap (some cards treat the place of the FAT
//! in another way).

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
        name: "focused",
        aliases: &["locality"],
        summary: "random writes within an area that grows until they stop being cheap",
        source: "uFLIP (CIDR 2009): locality; STABLEBUFFER sections 1 and 3.1, table 1",
        params: &[writes::size_param("32Ki"), writes::RANGE],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: true,
    weight: 2.0,
    after: &["write_buffer"],
    body,
};

/// Below this, random writes over the whole range count as no dearer than focused ones.
const LEAST_RATIO: f64 = 2.0;

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let range = writes::prepare(bench, ENTRY.info.name, args.integer("range"), 16 * size)?;
    // Areas that a write buffer holds are cheap for its sake.
    let buffer = known.number("write_buffer_bytes").unwrap_or(0.0) as u64;
    let first = (8 * size).max(2 * buffer.next_power_of_two()).min(range / 4) / size * size;
    let coarse: Vec<u64> = (0..64)
        .map(|doubling| first << doubling)
        .take_while(|&area| area < range)
        .chain([range / size * size])
        .collect();
    let effort = Effort { requests: 3000, time: bench.part_of_budget(3 * coarse.len()) };
    let mut points = Vec::new();
    for area in coarse {
        points.push((area as f64, measure(bench, size, area, effort)?));
    }
    if let Some(bend) = fit(&points).filter(|_| is_dearer(&points)) {
        let effort = Effort { requests: 3000, time: bench.part_of_budget(3 * 7) };
        for quarter in -4_i32..=6 {
            let area = (bend.at * (f64::from(quarter) / 4.0).exp2() / size as f64) as u64 * size;
            if area > first && area < range {
                points.push((area as f64, measure(bench, size, area, effort)?));
            }
        }
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points.dedup_by_key(|(area, _)| *area as u64);
    }
    let sequential = writes::response(
        bench,
        &format!("sequential(size={size},range={range})"),
        Effort { requests: 1000, ..effort },
    )?;
    Ok(finding(&points, &sequential.us, size, buffer))
}

fn measure(
    bench: &mut Bench<'_>,
    size: u64,
    area: u64,
    effort: Effort,
) -> Result<Estimate, ProbeError> {
    Ok(writes::response(bench, &format!("focused(size={size},area={area})"), effort)?.us)
}

fn fit(points: &[(f64, Estimate)]) -> Option<Bend> {
    steps::bend(points, |area, at| (1.0 - at / area).max(0.0))
}

fn is_dearer(points: &[(f64, Estimate)]) -> bool {
    let random = points[points.len() - 1].1;
    points
        .iter()
        .any(|(_, level)| random.mean > LEAST_RATIO * level.mean && random.low() > level.high())
}

fn finding(points: &[(f64, Estimate)], sequential: &Estimate, size: u64, buffer: u64) -> Finding {
    let (range, random) = points[points.len() - 1];
    let range_text = common::bytes_text(range);
    let mut chart = writes::response_chart(
        "focused",
        "Random writes within an area",
        Axis::log("area", "bytes"),
        vec![writes::curve("random writes", points.iter().map(|(area, level)| (*area, level)))],
    );
    let is_far_from_sequential = random.low() > 2.0 * sequential.high();
    let value = match fit(points).filter(|_| is_dearer(points)) {
        None if is_far_from_sequential => Value::not_found(
            "focused_area_bytes",
            format!(
                "no area is cheap: random writes within {} cost {:.0} us, over {range_text} {:.0} \
                 us, and sequential ones {:.0} us",
                common::bytes_text(points[0].0),
                points[0].1.mean,
                random.mean,
                sequential.mean
            ),
        ),
        None => Value::not_found(
            "focused_area_bytes",
            format!(
                "random writes over {range_text} ({:.0} us) cost less than {LEAST_RATIO} times \
                 those within {} ({:.0} us)",
                random.mean,
                common::bytes_text(points[0].0),
                points[0].1.mean
            ),
        ),
        Some(bend) => {
            chart.marks.push(Mark { label: "focused area".to_owned(), x: Some(bend.at), y: None });
            area_value(&bend, points, size, buffer)
        }
    };
    let mut values = vec![value];
    if let Some(area) = values[0].number {
        let within = points.iter().rev().find(|(x, _)| *x <= area).unwrap_or(&points[0]);
        let within_text = common::bytes_text(within.0);
        let why = format!(
            "{:.0} us over {range_text}, {:.0} us within {within_text}, the next smaller area \
             measured",
            random.mean, within.1.mean
        );
        values.push(common::value("random_over_focused", &random.over(within.1), why));
    }
    Finding { values, charts: vec![chart], ..Finding::default() }
}

fn area_value(bend: &Bend, points: &[(f64, Estimate)], size: u64, buffer: u64) -> Value {
    let range = points[points.len() - 1].0;
    let [low, high] = bend.interval;
    // Sure: the curve is of that shape, the bend is narrow, and enough of the curve lies on either
    // side of it.
    let is_sure = bend.explained > 0.95
        && high < 1.3 * low
        && bend.at > 2.0 * points[0].0
        && 2.0 * bend.at < range
        && bend.base > 0.0
        && bend.at > 3.0 * buffer as f64;
    let why = format!(
        "random writes of {} become dearer from there on; between {} and {} the curve 1 - A/x \
         explains {:.1} % of what they cost",
        common::bytes_text(size as f64),
        common::bytes_text(points[0].0),
        common::bytes_text(range),
        100.0 * bend.explained
    );
    // Whole requests: nothing finer was measured.
    let at = (bend.at / size as f64).round() * size as f64;
    // Four areas to a doubling were tried: the bend is known to half of that at best.
    let grain = 0.125_f64.exp2();
    Value::number("focused_area_bytes", at, why).within(low / grain, high * grain).sure_if(is_sure)
}
