//! Effect of pauses between writes.
//!
//! Random writes one at a time with longer and longer pauses between them (uFLIP: pause). If they
//! get faster, the drive does in the pauses what writes otherwise wait for: it empties its buffer,
//! merges or cleans. If not, it does nothing of its own accord that a writer notices.

use registry::{Args, Info};

use super::common;
use super::writes::{self, Effort};
use super::{Experiment, Group};
use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Pace};
use crate::error::ProbeError;
use crate::finding::{Axis, Finding, Mark, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "pauses",
        aliases: &["pause"],
        summary: "random writes with pauses between them: from which length on they help",
        source: "uFLIP (CIDR 2009): pause",
        params: &[writes::size_param("32Ki"), writes::RANGE],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &[],
    body,
};

const LEAST_GAIN: f64 = 1.1;

/// In microseconds.
const PAUSES: [u64; 10] = [0, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000];

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    let buffered = known.number("write_buffer_bytes").unwrap_or(0.0) as u64 / size;
    let effort =
        Effort { requests: (3 * buffered).max(1000), time: bench.part_of_budget(2 * PAUSES.len()) };
    let mut levels: Vec<(u64, Estimate)> = Vec::new();
    for pause_us in PAUSES {
        // Some two dozen have to fit in: longer ones are left out.
        if levels.len() > 4 && pause_us * 1000 * 24 > effort.time {
            break;
        }
        let pace = Pace::Closed { depth: 1, think: pause_us * 1000 };
        let pattern = format!("random(size={size},range={range})");
        levels.push((
            pause_us,
            writes::response_of(bench, effort, pace, |bench| Ok(bench.pattern(&pattern)?))?.us,
        ));
    }
    // Once more without, in case the drive has changed meanwhile.
    let again = writes::response(bench, &format!("random(size={size},range={range})"), effort)?;
    Ok(finding(&levels, &again.us))
}

fn finding(levels: &[(u64, Estimate)], again: &Estimate) -> Finding {
    let none = if again.mean < levels[0].1.mean { again } else { &levels[0].1 };
    let axis = Axis::log("pause", "us");
    // A logarithmic axis has no 0: it is drawn a third of the way before the first pause.
    let points = levels.iter().map(|(pause, level)| ((*pause).max(10) as f64, level));
    let mut chart = writes::response_chart(
        "pauses",
        "Random writes with pauses (none is drawn at 10 us)",
        axis,
        vec![writes::curve("random writes", points)],
    );
    let best = levels.iter().map(|(_, level)| level.mean).fold(f64::INFINITY, f64::min);
    let helps = |level: &Estimate| level.high() * LEAST_GAIN < none.low();
    let Some((pause, level)) =
        levels.iter().find(|(_, level)| helps(level) && level.mean < 1.2 * best)
    else {
        let why = format!(
            "random writes take {:.0} us without pauses, and {best:.0} us at best with pauses of \
             up to {} us",
            none.mean,
            levels[levels.len() - 1].0
        );
        return Finding {
            values: vec![Value::not_found("helpful_pause_us", why)],
            charts: vec![chart],
            ..Finding::default()
        };
    };
    chart.marks.push(Mark { label: "helps".to_owned(), x: Some(*pause as f64), y: None });
    let why = format!(
        "random writes take {:.0} us without pauses, {:.0} us with pauses of {pause} us, and \
         {best:.0} us at best",
        none.mean, level.mean
    );
    // Sure within the steps of the sweep: all longer pauses help too.
    let is_sure = levels.iter().filter(|(other, _)| other >= pause).all(|(_, level)| helps(level));
    let before =
        levels.iter().rev().find(|(other, _)| other < pause).map_or(0, |(other, _)| *other);
    let values = vec![
        Value::number("helpful_pause_us", *pause as f64, why.clone())
            .within(before as f64, *pause as f64)
            .sure_if(is_sure),
        common::value("pause_gain", &none.over(*level), why),
    ];
    Finding { values, charts: vec![chart], ..Finding::default() }
}
