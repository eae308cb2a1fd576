//! Common parts of experiments: dividing the time, the area that those of performance write,
//! curves, words.

use registry::{Args, Param, ParamKind, SpecError};
use units::Nanos;

use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Measured};
use crate::cell::{Access, Cell};
use crate::error::ProbeError;
use crate::finding::{Series, Value};

/// Device time for the parts of an experiment, in shares: what one does not need is left to the
/// others.
pub struct Purse {
    end: Nanos,
    shares: u64,
    /// Nanoseconds that a share has at least, so that the last are measured too where the first
    /// took longer than they should.
    least: Nanos,
}

impl Purse {
    /// Time of a part below which a measurement says nothing.
    const LEAST: Nanos = 5_000_000;

    /// The time of an experiment that began at `start` for parts that have so many shares together.
    pub fn since(bench: &Bench<'_>, start: Nanos, shares: usize) -> Self {
        let budget = bench.settings().budget;
        Self {
            end: start.saturating_add(budget),
            shares: shares as u64,
            least: budget / shares.max(1) as u64 / 3,
        }
    }

    /// The time for the next part, of one share.
    pub fn next(&mut self, bench: &mut Bench<'_>) -> Nanos {
        self.next_of(bench, 1)
    }

    /// The time for the next part, of so many shares.
    pub fn next_of(&mut self, bench: &mut Bench<'_>, shares: usize) -> Nanos {
        let left = self.end.saturating_sub(bench.now());
        let time = (u128::from(left) * shares as u128 / u128::from(self.shares.max(1))) as Nanos;
        self.shares = self.shares.saturating_sub(shares as u64).max(1);
        time.max(self.least.saturating_mul(shares as u64)).max(Self::LEAST)
    }
}

/// The parameter that says how long requests are.
pub const SIZE: Param = Param {
    name: "size",
    kind: ParamKind::Bytes { min: 512, max: 1 << 30 },
    default: "4Ki",
    help: "bytes of a request",
};

/// The parameter that says which part of the region an experiment writes.
pub const AREA: Param = Param {
    name: "area",
    kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
    default: "1Gi",
    help: "bytes of the region that are used at most, from its start; 0 for all. It is written in \
           order first, as far as time allows",
};

/// The parameter that says whether the area is written first.
pub const FILL: Param = Param {
    name: "fill",
    kind: ParamKind::Choice(&["yes", "no"]),
    default: "yes",
    help: "whether the area is written in order before: `no` if all of it was written already",
};

/// Writes the area of an experiment in order (PARALLELISM section 3.2), as far as a fifth of the
/// time allows, and gives its length in bytes: at least 16 MiB or the region, whatever that takes.
/// The parameters are [`AREA`] and [`FILL`].
///
/// # Errors
/// Those of [`Bench::fill`].
pub fn filled_area(bench: &mut Bench<'_>, args: &Args) -> Result<u64, ProbeError> {
    const STEP: u64 = 16 << 20;
    const PAUSE: Nanos = 5_000_000_000;
    let region = bench.region().length;
    let most = args.integer(AREA.name);
    let whole = if most == 0 { region } else { region.min(most) };
    if args.text(FILL.name) == "no" {
        return Ok(whole);
    }
    let budget = bench.settings().budget;
    let end = bench.now().saturating_add(budget / 5);
    let mut filled = 0;
    while filled < whole && (filled == 0 || bench.now() < end) {
        let step = STEP.min(whole - filled);
        bench.fill(filled, step, 0)?;
        filled += step;
    }
    bench.pause(PAUSE.min(budget / 20))?;
    Ok(filled)
}

/// Has what was written made durable at the end of an experiment: the buffer would be emptied
/// during the next one. Within an experiment it is left as it is, as a full buffer shows how fast
/// the flash is.
///
/// # Errors
/// Those of [`Bench::flush`].
pub fn settle(bench: &mut Bench<'_>, mixes: &[f64]) -> Result<(), ProbeError> {
    if mixes.iter().any(|&reads| reads < 1.0) { bench.flush() } else { Ok(()) }
}

/// The least and the greatest request that device and area take, and four of which lie in the area.
pub fn sizes_possible(bench: &Bench<'_>, area: u64) -> std::ops::RangeInclusive<u64> {
    let info = bench.device();
    u64::from(info.limits.sector_bytes)..=u64::from(info.limits.most_bytes).min(area / 4)
}

/// The size of a request that was asked for, or a sector if that is longer.
///
/// # Errors
/// [`ProbeError::Spec`] if the device or the area does not take it, [`ProbeError::Impossible`] if
/// it does not take the usual size either.
pub fn size_possible(
    bench: &Bench<'_>,
    experiment: &'static str,
    asked: u64,
    area: u64,
) -> Result<u64, ProbeError> {
    let (possible, sector) =
        (sizes_possible(bench, area), u64::from(bench.device().limits.sector_bytes));
    let size = asked.max(sector);
    if possible.contains(&size) && size.is_multiple_of(sector) {
        return Ok(size);
    }
    let range =
        format!("{} to {} bytes, whole sectors of {sector}", possible.start(), possible.end());
    if possible.contains(&4096.max(sector)) {
        let right = format!("possible: the device and {area} bytes of it take requests of {range}");
        return Err(ProbeError::Spec(SpecError::BadValue {
            name: experiment,
            key: SIZE.name.to_owned(),
            value: asked.to_string(),
            right,
        }));
    }
    let reason = format!(
        "requests of {size} bytes are not possible: the device and {area} bytes of it take {range}"
    );
    Err(ProbeError::Impossible { experiment, reason })
}

/// Returns true if the experiment has so much time for each of so many measurements.
pub fn has_time_for(bench: &Bench<'_>, measurements: u64, each: Nanos) -> bool {
    bench.settings().budget / measurements >= each
}

/// Throughput in MB/s (10^6 bytes a second) with its error.
pub fn megabytes_per_second(measured: &Measured) -> Estimate {
    estimate(measured, measured.bytes_per_second() / 1e6)
}

/// Mean latency in microseconds, with the relative error of the throughput: with a fixed number
/// outstanding, one is as sure as the other.
pub fn mean_us(measured: &Measured) -> Estimate {
    estimate(measured, measured.mean_latency_ns() / 1e3)
}

/// Gives a measured mean, with the error by batch means: [`Measured::relative_error`] is 2.09
/// standard errors, of 19 batches or more.
pub fn estimate(measured: &Measured, mean: f64) -> Estimate {
    let relative = measured.relative_error() / 2.09;
    Estimate {
        mean,
        error: if relative.is_finite() { mean * relative } else { f64::INFINITY },
        freedom: 19.0,
    }
}

/// A number that is not below 0 with its interval; sure if the interval reaches no further than a
/// tenth of it.
pub fn value(key: &str, estimate: &Estimate, why: impl Into<String>) -> Value {
    let value = Value::number(key, estimate.mean, why)
        .sure_if(estimate.half_width() <= 0.1 * estimate.mean.abs());
    match estimate.interval() {
        Some([low, high]) => value.within(low.max(0.0), high),
        None => value,
    }
}

/// Adds a point that is not below 0 with its interval, if it has one.
pub fn push(series: &mut Series, x: f64, y: &Estimate) {
    match y.interval() {
        Some([low, high]) => series.push_within(x, y.mean, low.max(0.0), high),
        None => series.push(x, y.mean),
    }
}

/// Bytes for people, to two decimals: `512 bytes`, `256 KiB`, `3.5 MiB`.
pub fn bytes_text(bytes: f64) -> String {
    let (value, unit) = match bytes {
        bytes if bytes < 1024.0 => (bytes, "bytes"),
        bytes if bytes < 1024.0 * 1024.0 => (bytes / 1024.0, "KiB"),
        bytes if bytes < 1024f64.powi(3) => (bytes / 1024f64.powi(2), "MiB"),
        bytes => (bytes / 1024f64.powi(3), "GiB"),
    };
    let text = format!("{value:.2}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Bytes in keys and names of charts, exactly: `4ki`, `1mi`, `512`.
pub fn bytes_key(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}mi", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}ki", bytes >> 10),
        _ => format!("{bytes}"),
    }
}

/// `read`, `write`, `mix`: in keys and names of charts.
pub fn mix_name(reads: f64) -> &'static str {
    match reads {
        _ if reads >= 1.0 => "read",
        _ if reads <= 0.0 => "write",
        _ => "mix",
    }
}

/// A request with one outstanding.
pub fn one_by_one(access: Access, reads: f64, size_bytes: u64) -> Cell {
    Cell { access, reads, size_bytes: size_bytes as u32, depth: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_names() {
        assert_eq!(
            [512.0, 4096.0, 3.5e6, 1e10].map(bytes_text),
            ["512 bytes", "4 KiB", "3.34 MiB", "9.31 GiB"]
        );
        assert_eq!(
            [512, 4096, 1 << 20, 1 << 30, 1536].map(bytes_key),
            ["512", "4ki", "1mi", "1024mi", "1536"]
        );
    }
}
