//! Costs of each pattern of writes, against sequential ones.
//!
//! The write patterns of uFLIP with requests of one size, one at a time, over a range that holds
//! data and was written at random: as STABLEBUFFER table 1 lists them for two drives, and those of
//! uFLIP besides. The start of each series, in which buffers and logs change over from the pattern
//! before, is cut off by MSER-5.

use registry::{Args, Info, Param, ParamKind};

use super::common;
use super::writes::{self, Effort, Response};
use super::{Experiment, Group};
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "write_patterns",
        aliases: &["uflip"],
        summary: "response times of sequential, random, focused, partitioned, ordered and in-place \
                  writes",
        source: "uFLIP (CIDR 2009); STABLEBUFFER section 1, table 1",
        params: &[
            writes::size_param("32Ki"),
            writes::RANGE,
            Param {
                name: "area",
                kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
                default: "8Mi",
                help: "bytes of the focused area; 0 for the one that `focused` found, or 8Mi",
            },
            Param {
                name: "ways",
                kind: ParamKind::Integer { min: 2, max: 4096 },
                default: "4",
                help: "streams of partitioned writes",
            },
        ],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: true,
    weight: 2.0,
    after: &["write_buffer", "focused"],
    body,
};

/// Bytes of the area of focused writes where no other is known: that of STABLEBUFFER table 1.
const USUAL_AREA: u64 = 8 << 20;

fn focused_area(args: &Args, known: &Known, size: u64, range: u64) -> u64 {
    let wanted = match args.integer("area") {
        0 => known.number("focused_area_bytes").map_or(USUAL_AREA, |bytes| bytes as u64),
        area => area,
    };
    (wanted.min(range / 4) / size).max(1) * size
}

fn patterns(args: &Args, size: u64, range: u64, area: u64) -> Vec<(&'static str, String)> {
    let ways = args.integer("ways").min(range / size);
    let distance = (1 << 20).min(range / 16).next_multiple_of(size);
    vec![
        ("sequential", format!("sequential(size={size},range={range})")),
        ("partitioned", format!("partitioned(size={size},range={range},ways={ways})")),
        ("focused", format!("focused(size={size},area={area})")),
        ("in_place", format!("in_place(size={size})")),
        ("ascending", format!("ordered(size={size},range={range},gap={size})")),
        ("descending", format!("ordered(size={size},range={range},direction=descending)")),
        ("strided", format!("stride(size={size},range={range},distance={distance})")),
        ("random", format!("random(size={size},range={range})")),
    ]
}

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    let area = focused_area(args, known, size, range);
    let patterns = patterns(args, size, range, area);
    // Several times what a write buffer takes, or it is measured instead.
    let buffered = known.number("write_buffer_bytes").unwrap_or(0.0) as u64 / size;
    let effort = Effort {
        requests: (4 * buffered).max(3000),
        time: bench.part_of_budget(2 * patterns.len()),
    };
    let mut levels: Vec<(&str, Response)> = Vec::new();
    for (name, pattern) in &patterns {
        levels.push((name, writes::response(bench, pattern, effort)?));
    }
    Ok(finding(&levels, size, range, area))
}

fn finding(levels: &[(&str, Response)], size: u64, range: u64, area: u64) -> Finding {
    let sequential = levels[0].1.us;
    let (size_text, range_text) =
        (common::bytes_text(size as f64), common::bytes_text(range as f64));
    let mut finding = Finding::default();
    let mut series = Vec::new();
    for (index, (name, response)) in levels.iter().enumerate() {
        let (level, why) = (
            &response.us,
            format!("{} writes of {size_text} within {range_text}", response.requests),
        );
        finding.values.push(common::value(&format!("{name}_write_us"), level, why));
        let mut bar = Series::new(*name);
        bar.is_scatter = true;
        common::push(&mut bar, index as f64, level);
        series.push(bar);
        if index > 0 {
            let why = format!("{:.0} us against {:.0} us in sequence", level.mean, sequential.mean);
            finding.values.push(common::value(
                &format!("{name}_over_sequential"),
                &level.over(sequential),
                why,
            ));
        }
    }
    let why = "the area that the focused writes of this experiment kept to".to_owned();
    finding.values.push(Value::number("focused_write_area_bytes", area as f64, why).sure_if(true));
    let title = format!("Write patterns, requests of {size_text}");
    finding.charts.push(writes::response_chart(
        "write_patterns",
        &title,
        Axis::linear("pattern", ""),
        series,
    ));
    finding
}
