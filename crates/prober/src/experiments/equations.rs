//! Performance equations: response time by request size as a line, or as several.

use registry::{Args, Info, Param, ParamKind};

use super::common::{self, Purse};
use super::{Experiment, Group, lists};
use crate::analysis::lines::{self, Datum, Fit, Piece};
use crate::bench::Bench;
use crate::cell::{Access, measure_within};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

/// Bytes of what the equations call a sector, whatever the device's own sectors hold.
pub const SECTOR_BYTES: u64 = 512;

const SIZES: Param = Param {
    name: "sizes",
    kind: ParamKind::Text,
    default: "512..1Mi",
    help: "bytes of requests: a list `4Ki+64Ki`, or all doublings `512..1Mi`",
};
const PIECES: Param = Param {
    name: "pieces",
    kind: ParamKind::Integer { min: 1, max: 3 },
    default: "3",
    help: "lines that an equation may have at most",
};
const TOLERANCE: Param = Param {
    name: "tolerance",
    kind: ParamKind::Number { min: 1e-4, max: 0.5 },
    default: "0.02",
    help: "share by which a line may be off (one standard deviation) besides the errors of \
           measurement",
};

pub(super) const READ: Experiment = Experiment {
    info: Info {
        name: "equations_read",
        aliases: &[],
        summary: "response time of reads by request size, as a line y = ax + b or several, with \
                  what does not fit said",
        source: "SCHEDULER section 4.3.4, equations 4.1 and 4.2, figure 4.32",
        params: &[SIZES, PIECES, TOLERANCE],
    },
    group: Group::Performance,
    writes: false,
    is_quick: true,
    weight: 1.0,
    after: &[],
    body: |bench, args, _: &Known| {
        let start = bench.now();
        let area = bench.region().length;
        run(
            bench,
            args,
            "equations_read",
            &[(Access::Sequential, 1.0), (Access::Random, 1.0)],
            area,
            start,
        )
    },
};

pub(super) const WRITE: Experiment = Experiment {
    info: Info {
        name: "equations_write",
        aliases: &[],
        summary: "response time of writes by request size, as a line y = ax + b or several, with \
                  what does not fit said",
        source: "SCHEDULER section 4.3.4, equations 4.3 and 4.4, figure 4.32",
        params: &[SIZES, PIECES, TOLERANCE, common::AREA, common::FILL],
    },
    group: Group::Performance,
    writes: true,
    is_quick: true,
    weight: 2.0,
    after: &["equations_read"],
    body: |bench, args, _: &Known| {
        let start = bench.now();
        let area = common::filled_area(bench, args)?;
        run(
            bench,
            args,
            "equations_write",
            &[(Access::Sequential, 0.0), (Access::Random, 0.0)],
            area,
            start,
        )
    },
};

/// A size at which a mean was measured, for the fit and the chart.
struct Measured {
    datum: Datum,
    interval: Option<[f64; 2]>,
}

impl Measured {
    /// Returns true if the 95 % interval reaches no further than this share of the mean.
    fn is_precise(&self, share: f64) -> bool {
        self.interval.is_some_and(|[low, high]| high - low <= 2.0 * share * self.datum.y)
    }
}

/// Shares of the time: random writes are the slowest and scatter most.
fn shares_of(kind: (Access, f64)) -> usize {
    if kind == (Access::Random, 0.0) { 4 } else { 1 }
}

fn run(
    bench: &mut Bench<'_>,
    args: &Args,
    name: &'static str,
    kinds: &[(Access, f64)],
    area: u64,
    start: units::Nanos,
) -> Result<Finding, ProbeError> {
    let possible = common::sizes_possible(bench, area);
    let sector = u64::from(bench.device().limits.sector_bytes);
    let mut sizes = lists::chosen(name, "sizes", args.text("sizes"), None)?;
    sizes.retain(|size| possible.contains(size) && size.is_multiple_of(sector));
    if sizes.len() < 3 {
        let reason = format!(
            "three request sizes are needed from {} to {} bytes, not {}",
            possible.start(),
            possible.end(),
            sizes.len()
        );
        return Err(ProbeError::Impossible { experiment: name, reason });
    }
    let shares: usize = kinds.iter().map(|&kind| shares_of(kind)).sum();
    let mut purse = Purse::since(bench, start, shares * sizes.len());
    let mut finding = Finding {
        notes: vec!["x is in sectors of 512 bytes, y in us, with one request at a time".to_owned()],
        ..Finding::default()
    };
    let mut chart = Chart {
        name: format!("equations_{}", common::mix_name(kinds[0].1)),
        title: format!(
            "Response time of {}s by request size, and the lines that fit",
            common::mix_name(kinds[0].1)
        ),
        x: Axis::log("request size", "bytes"),
        y: Axis::log("mean response time", "us"),
        series: Vec::new(),
        marks: Vec::new(),
    };
    for &(access, reads) in kinds {
        let label = format!("{}_{}", access.name(), common::mix_name(reads));
        let mut found = Vec::new();
        for &size in &sizes {
            let time = purse.next_of(bench, shares_of((access, reads)));
            let measured =
                measure_within(bench, &common::one_by_one(access, reads, size), area, time)?;
            let mean = common::mean_us(&measured);
            let error = if mean.error.is_finite() { mean.error } else { 0.1 * mean.mean };
            let datum = Datum {
                x: (size as f64) / SECTOR_BYTES as f64,
                y: mean.mean,
                error: error.hypot(args.number("tolerance") * mean.mean),
            };
            found.push(Measured { datum, interval: mean.interval() });
        }
        let data: Vec<Datum> = found.iter().map(|measured| measured.datum).collect();
        let is_precise =
            found.iter().all(|measured| measured.is_precise(2.0 * args.number("tolerance")));
        let line = lines::line(&data);
        // Pieces follow the scatter of means that are not known well: there they are taken only if
        // one line does not do.
        let best = if !is_precise && line.fits() {
            line.clone()
        } else {
            lines::segmented(&data, args.integer("pieces") as usize)
        };
        finding.values.extend(values(&label, &line, &best, is_precise));
        draw(&mut chart, &label, &found, &best);
    }
    common::settle(bench, &[kinds[0].1])?;
    finding.charts.push(chart);
    Ok(finding)
}

fn equation(piece: &Piece) -> String {
    // What is rounded to nothing has no sign.
    let sign = if piece.at_zero <= -0.05 { '-' } else { '+' };
    format!("{:.4} x {sign} {:.1} us", piece.slope, piece.at_zero.abs())
}

/// Deviation from the best fit, as a share, above which means that are not known well tell nothing
/// of the shape.
const MOST_SCATTER: f64 = 0.25;

/// `is_precise`: the means were measured so well that a line that does not fit would have been
/// seen.
fn values(label: &str, line: &Fit, best: &Fit, is_precise: bool) -> Vec<Value> {
    let words = label.replace('_', " ");
    let off = |fit: &Fit| {
        format!("off by {:.1} % at most, R2 = {:.5}", 100.0 * fit.worst_deviation, fit.r_squared)
    };
    let text: Vec<String> = best.pieces.iter().map(equation).collect();
    // Pieces that fit better where one line would do may be chance: the best of many places to
    // break at is taken.
    let is_needed = best.pieces.len() == 1 || !line.fits();
    let (shape, why) = match (best.fits(), best.pieces.len()) {
        (true, _) if !is_needed => (
            "pieces",
            format!(
                "{words}: one line fits ({}), but these fit better: {}, {}",
                off(line),
                text.join("; "),
                off(best)
            ),
        ),
        (true, 1) => ("line", format!("{words}: one line fits, y = {}, {}", text[0], off(best))),
        (true, _) => (
            "pieces",
            format!(
                "{words}: one line does not fit ({}); these do: {}, {}",
                off(line),
                text.join("; "),
                off(best)
            ),
        ),
        (false, _) => (
            "none",
            format!(
                "{words}: no line or pieces of up to three lines fit; the best are {}, {}",
                text.join("; "),
                off(best)
            ),
        ),
    };
    let key = format!("{label}_shape");
    let mut values = vec![if is_precise {
        Value::word(&key, shape, why).sure_if(is_needed)
    } else if best.worst_deviation < MOST_SCATTER {
        Value::word(
            &key,
            shape,
            format!("{why}; the means scatter so much that it may be otherwise"),
        )
        .sure_if(false)
    } else {
        let best = format!("the best are {}, {}", text.join("; "), off(best));
        Value::not_found(
            &key,
            format!("{words}: the means scatter too much to tell a line from none; {best}"),
        )
    }];
    values.push(Value::number(
        &format!("{label}_r_squared"),
        line.r_squared,
        format!("{words}: of one line through all sizes"),
    ));
    let mut add = |key: String, piece: &Piece, is_sure: bool, what: &str| {
        let why = format!("{words}: y = {}, {what}", equation(piece));
        let slope = Value::number(&format!("{key}us_per_sector"), piece.slope, why.clone());
        values
            .push(slope.within(piece.slope_interval[0], piece.slope_interval[1]).sure_if(is_sure));
        let at_zero = Value::number(&format!("{key}us_at_zero"), piece.at_zero, why);
        values.push(
            at_zero.within(piece.at_zero_interval[0], piece.at_zero_interval[1]).sure_if(is_sure),
        );
    };
    let is_line = best.pieces.len() == 1;
    add(
        format!("{label}_"),
        &line.pieces[0],
        is_line && line.fits() && is_precise,
        if is_line { "the best line" } else { "the best single line; pieces fit better" },
    );
    if is_line {
        return values;
    }
    for (index, piece) in best.pieces.iter().enumerate() {
        let what = format!("from {:.0} to {:.0} sectors", piece.from, piece.to);
        add(
            format!("{label}_piece_{}_", index + 1),
            piece,
            best.fits() && is_precise && is_needed,
            &what,
        );
    }
    for (index, piece) in best.pieces.iter().enumerate().skip(1) {
        let how = if best.is_continuous {
            "the lines meet here"
        } else {
            "y jumps between the sizes on both sides of it"
        };
        let key = format!("{label}_piece_{}_from_sectors", index + 1);
        values.push(
            Value::number(&key, piece.from, format!("{words}: {how}"))
                .sure_if(best.fits() && is_precise && is_needed),
        );
    }
    values
}

fn draw(chart: &mut Chart, label: &str, found: &[Measured], best: &Fit) {
    /// Points of a line between neighbouring sizes: a straight line is none on logarithmic axes.
    const STEPS: usize = 4;
    let words = label.replace('_', " ");
    let mut points = Series { is_scatter: true, ..Series::new(&words) };
    for Measured { datum, interval } in found {
        points.points.push(crate::finding::Point {
            x: datum.x * SECTOR_BYTES as f64,
            y: datum.y,
            interval: *interval,
            requests: None,
        });
    }
    let mut line = Series::new(format!("{words}: fit"));
    for pair in found.windows(2) {
        let (from, to) = (pair[0].datum.x, pair[1].datum.x);
        for step in 0..STEPS {
            let x = from * (to / from).powf(step as f64 / STEPS as f64);
            line.push(x * SECTOR_BYTES as f64, best.at(x));
        }
    }
    if let Some(last) = found.last() {
        line.push(last.datum.x * SECTOR_BYTES as f64, best.at(last.datum.x));
    }
    chart.series.extend([points, line]);
    for piece in &best.pieces[1..] {
        chart.marks.push(Mark {
            label: format!("{words} breaks"),
            x: Some(piece.from * SECTOR_BYTES as f64),
            y: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn means_that_scatter_widely_are_called_no_line() {
        let scatter = [1.0, 0.6, 1.7, 1.2, 0.5, 1.6, 0.9, 1.0, 1.5, 0.7, 1.1, 1.0];
        let law = |step: i32| (60.0 + 4.0 * 2.0_f64.powi(step)) * scatter[step as usize];
        let data: Vec<Datum> = (0..12)
            .map(|step| Datum { x: 2.0_f64.powi(step), y: law(step), error: 0.4 * law(step) })
            .collect();
        let line = lines::line(&data);
        assert!(line.fits(), "errors so large contradict nothing");
        let values = values("sequential_read", &line, &line, false);
        assert!(
            values[0].verdict == Verdict::NotFound && values[0].why.contains("scatter too much"),
            "{:?}",
            values[0]
        );
        assert!(
            values
                .iter()
                .filter(|value| value.key.contains("_us_"))
                .all(|value| value.verdict == Verdict::Unsure),
            "{values:?}"
        );
    }

    #[test]
    fn pieces_are_not_sure_where_one_line_fits_too() {
        let law = |x: f64| (60.0 + 4.0 * x) * if x > 64.0 { 1.18 } else { 1.0 };
        let data: Vec<Datum> = (0..12)
            .map(|step| f64::from(1 << step))
            .map(|x| Datum { x, y: law(x), error: 0.05 * law(x) })
            .collect();
        let (line, best) = (lines::line(&data), lines::segmented(&data, 3));
        assert!(line.fits() && best.pieces.len() > 1, "{line:?} {best:?}");
        let values = values("random_read", &line, &best, true);
        assert!(!values[0].why.contains("one line does not fit"), "{}", values[0].why);
        let is_about_pieces =
            |value: &&Value| value.key.ends_with("shape") || value.key.contains("piece");
        assert!(
            values.iter().filter(is_about_pieces).all(|value| value.verdict == Verdict::Unsure),
            "{values:?}"
        );
    }
}
