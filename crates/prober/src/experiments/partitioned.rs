//! Number of sequential streams of writes that a drive keeps apart.
//!
//! Sequential writes to 1, 2, 4 ... parts of a range in turn (uFLIP: partitioning). Where a drive
//! keeps so many erase blocks open for writing, that many streams cost about what one does, and one
//! more costs a merge a request. The sweep is divided into two levels by least squares of
//! logarithms; then the border is found between its neighbours by halving.

use registry::{Args, Info, Param, ParamKind};

use super::writes::{self, Effort, Swept};
use super::{Experiment, Group};
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Mark, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "partitioned",
        aliases: &["partitioning"],
        summary: "sequential streams of writes in turn, more and more of them until they stop \
                  being cheap",
        source: "uFLIP (CIDR 2009): partitioning; STABLEBUFFER section 1, table 1",
        params: &[
            writes::size_param("32Ki"),
            writes::RANGE,
            Param {
                name: "most",
                kind: ParamKind::Integer { min: 2, max: 4096 },
                default: "256",
                help: "streams at most",
            },
        ],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &[],
    body,
};

/// Smallest ratio of the second level to the first.
const LEAST_RATIO: f64 = 1.8;

fn body(bench: &mut Bench<'_>, args: &Args, _: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    // A part holds a few requests at least, or one stream jumps as often as it goes on.
    let most = args.integer("most").min(range / (8 * size)).max(1);
    let doublings = most.ilog2() as usize + 1;
    let effort = Effort { requests: 2000, time: bench.part_of_budget(3 * doublings) };
    let mut swept = Swept::new();
    let found = writes::cheap_up_to(&mut swept, most, LEAST_RATIO, |ways| {
        writes::response(
            bench,
            &format!("partitioned(size={size},ways={ways},range={range})"),
            effort,
        )
    })?;
    let mut chart = writes::response_chart(
        "partitioned",
        "Sequential streams of writes in turn",
        Axis::log("streams", ""),
        vec![writes::curve(
            "writes",
            swept.iter().map(|(&ways, response)| (ways as f64, &response.us)),
        )],
    );
    let tried = swept.keys().next_back().copied().unwrap_or(1);
    let value = match found {
        None => Value::not_found(
            "partitioned_ways",
            format!(
                "up to {tried} streams cost alike: {:.0} us for one, {:.0} us for so many",
                swept[&1].us.mean, swept[&tried].us.mean
            ),
        ),
        Some(cheap) => {
            let most = cheap.most as f64;
            chart.marks.push(Mark {
                label: "streams kept apart".to_owned(),
                x: Some(most),
                y: None,
            });
            let why = format!(
                "{} streams cost {:.0} us a request, {} cost {:.0} us, and one {:.0} us",
                cheap.most,
                cheap.here.mean,
                cheap.most + 1,
                cheap.beyond.mean,
                swept[&1].us.mean
            );
            Value::number("partitioned_ways", most, why).within(most, most).sure_if(cheap.is_clear)
        }
    };
    Ok(Finding { values: vec![value], charts: vec![chart], ..Finding::default() })
}
