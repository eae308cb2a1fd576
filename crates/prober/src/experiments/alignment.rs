//! At which alignment writes are cheapest.
//!
//! Writes that begin at multiples of 128 KiB, moved by 512 bytes, 1 KiB, 2 KiB ...: one that is not
//! of whole pages of the drive costs a read of those that it touches only in part (uFLIP:
//! alignment). Many are outstanding, or the host's part of the time would hide that. The alignment
//! is the smallest power of two from which on no shift costs more; what is half of it does. Where
//! random writes are dear in themselves, the cost of a read would vanish in them, so then
//! sequential ones are moved: they cost more only on drives that do not join neighbours in a
//! buffer.

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
        name: "alignment",
        aliases: &[],
        summary: "writes moved by some sectors: the alignment at which they are cheapest",
        source: "uFLIP (CIDR 2009): alignment; SCHEDULER section 7.3.2 (aligning to 64 KB)",
        params: &[writes::size_param("16Ki"), writes::RANGE],
    },
    group: Group::Patterns,
    writes: true,
    is_quick: false,
    weight: 2.0,
    after: &["write_buffer", "focused"],
    body,
};

/// Smallest ratio that counts as dearer, beside the interval.
const LEAST_RATIO: f64 = 1.02;

fn body(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let size = writes::request_bytes(bench, args.integer("size"), bench.region().length / 64);
    let range = writes::prepare_used(bench, ENTRY.info.name, args.integer("range"), size)?;
    let sector = u64::from(bench.device().limits.sector_bytes);
    // Requests begin so far apart that a moved one never touches the next.
    let grid = (8 * size).min(range / 16).next_multiple_of(size);
    let shifts: Vec<u64> = (0..24)
        .map(|doubling| sector << doubling)
        .take_while(|&shift| shift + size <= grid)
        .collect();
    let buffered = known.number("write_buffer_bytes").unwrap_or(0.0) as u64 / size;
    // Each shift is measured twice, up and down, and the aligned start before each.
    let effort =
        Effort { requests: (5 * buffered).max(2000), time: bench.part_of_budget(8 * shifts.len()) };
    let plan = Plan::choose(bench, known, size, grid, range, effort)?;
    let start = bench.now();
    plan.measure(bench, 0, effort)?;
    // A drive that is far too slow for that is measured once, with few requests.
    let is_slow = (bench.now() - start) * 4 * shifts.len() as u64 > 3 * bench.settings().budget;
    let effort = if is_slow { Effort { requests: 10, ..effort } } else { effort };
    let mut levels: Vec<(u64, Estimate, Estimate)> = Vec::new();
    for shift in shifts.iter().chain(shifts.iter().rev()).take(if is_slow {
        shifts.len()
    } else {
        2 * shifts.len()
    }) {
        let aligned = plan.measure(bench, 0, effort)?;
        let moved = plan.measure(bench, *shift, effort)?;
        levels.push((*shift, moved, moved.over(aligned)));
    }
    Ok(finding(&joined(&levels, shifts.len()), &plan, sector))
}

/// Writes that are moved.
struct Plan {
    size: u64,
    grid: u64,
    range: u64,
    depth: u32,
    /// `None`: sequential ones.
    area: Option<u64>,
}

impl Plan {
    fn choose(
        bench: &mut Bench<'_>,
        known: &Known,
        size: u64,
        grid: u64,
        range: u64,
        effort: Effort,
    ) -> Result<Self, ProbeError> {
        // Half of what is cheap, lest its border shows.
        let focused = known
            .number("focused_area_bytes")
            .map(|bytes| (bytes as u64 / 2).min(range / 2) / grid * grid);
        let depth = bench.device().queue_depth.min(32);
        let mut plan = Self {
            size,
            grid,
            range,
            depth,
            area: Some(focused.unwrap_or(0).max(8 * grid).min(range / 2 / grid * grid)),
        };
        if focused.is_none() {
            plan.area = Some(range / 2 / grid * grid);
            let random = plan.measure(bench, 0, effort)?;
            plan.area = None;
            let sequential = plan.measure(bench, 0, effort)?;
            if random.mean < 4.0 * sequential.mean {
                plan.area = Some(range / 2 / grid * grid);
            }
        }
        Ok(plan)
    }

    fn measure(
        &self,
        bench: &mut Bench<'_>,
        shift: u64,
        effort: Effort,
    ) -> Result<Estimate, ProbeError> {
        let Self { size, grid, range, depth, area } = *self;
        let pattern = match area {
            Some(area) => {
                format!("focused(size={size},align={grid},area={area},shift={shift},range={range})")
            }
            None => format!("sequential(size={size},range={range},shift={shift})"),
        };
        let pace = Pace::closed(depth);
        Ok(writes::response_of(bench, effort, pace, |bench| Ok(bench.pattern(&pattern)?))?.us)
    }

    fn text(&self) -> String {
        match self.area {
            Some(area) => format!(
                "random writes of {} within {}",
                common::bytes_text(self.size as f64),
                common::bytes_text(area as f64)
            ),
            None => format!("sequential writes of {}", common::bytes_text(self.size as f64)),
        }
    }
}

/// Costs of a shift: its mean response, and its ratio to the aligned one, both measurements joined.
struct Shifted {
    shift: u64,
    level: Estimate,
    ratio: Estimate,
}

fn joined(levels: &[(u64, Estimate, Estimate)], shifts: usize) -> Vec<Shifted> {
    let (ups, downs) = levels.split_at(shifts);
    let join = |a: Estimate, b: Estimate| {
        // The mean of two; where they differ by more than their intervals, what they differ by is
        // the error.
        let half_width =
            (a.half_width().hypot(b.half_width()) / 2.0).max((a.mean - b.mean).abs() / 2.0);
        Estimate::within(f64::midpoint(a.mean, b.mean), half_width)
    };
    if downs.is_empty() {
        return ups.iter().map(|&(shift, level, ratio)| Shifted { shift, level, ratio }).collect();
    }
    let pairs = ups.iter().zip(downs.iter().rev());
    pairs
        .map(|(up, down)| Shifted {
            shift: up.0,
            level: join(up.1, down.1),
            ratio: join(up.2, down.2),
        })
        .collect()
}

fn finding(shifted: &[Shifted], plan: &Plan, sector: u64) -> Finding {
    let mut chart = writes::response_chart(
        "alignment",
        &format!("Writes that are moved: {}", plan.text()),
        Axis::log("shift", "bytes"),
        vec![writes::curve(
            "moved writes",
            shifted.iter().map(|one| (one.shift as f64, &one.level)),
        )],
    );
    let is_dearer = |one: &Shifted| one.ratio.low() > LEAST_RATIO;
    let Some(last) = shifted.iter().rposition(is_dearer) else {
        let error = shifted.iter().map(|one| one.ratio.half_width()).fold(0.0, f64::max);
        let why = format!(
            "no shift by {sector} bytes or more costs {} more than at most {:.1} %",
            plan.text(),
            100.0 * (LEAST_RATIO - 1.0 + error)
        );
        return Finding {
            values: vec![Value::not_found("aligned_to_bytes", why)],
            charts: vec![chart],
            ..Finding::default()
        };
    };
    let aligned = 2 * shifted[last].shift;
    // Sure: all that is below is dearer by a tenth, and all that is above nearer to none.
    let rest = &shifted[last + 1..];
    let below = shifted[..=last].iter().map(|one| one.ratio.low()).fold(f64::INFINITY, f64::min);
    let above = rest.iter().map(|one| one.ratio.high()).fold(0.0, f64::max);
    let is_sure = shifted[..=last].iter().all(is_dearer)
        && !rest.is_empty()
        && below > 1.1
        && above < below.sqrt().min(1.25);
    let why = format!(
        "{} moved by {} cost {:.1} % more than aligned ones, moved by multiples of {} at most \
         {:.1} % more",
        plan.text(),
        common::bytes_text(shifted[last].shift as f64),
        100.0 * (shifted[last].ratio.mean - 1.0),
        common::bytes_text(aligned as f64),
        100.0 * (above - 1.0).max(0.0)
    );
    chart.marks.push(Mark { label: "aligned".to_owned(), x: Some(aligned as f64), y: None });
    Finding {
        values: vec![Value::number("aligned_to_bytes", aligned as f64, why).sure_if(is_sure)],
        charts: vec![chart],
        ..Finding::default()
    }
}
