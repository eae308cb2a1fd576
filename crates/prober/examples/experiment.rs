//! Runs experiments on a simulated drive of a built-in profile and prints what they find, with the
//! charts as tables.
//!
//! ```text
//! cargo run -p flashwright-prober --example experiment -- PROFILE SPEC[+SPEC ...] [KEY=VALUE ...]
//! ```
//!
//! Keys with a dot change the profile (`media.time_noise=0.05`). The others are `state` (`loaded`:
//! the region was written once, in order, the default; `fresh`, `filled`, `aged:OVERWRITES`),
//! `offset` and `region` (bytes, `1Gi` at most unless said; 0 for the whole drive), `budget`
//! (seconds of device time an experiment, 60), `seed` (1), `charts` (`yes`, `no`). Later
//! experiments know what earlier ones found.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use block::BlockDevice as _;

use devices::{Simulated, SimulatedSettings};
use prober::{Bench, Chart, Finding, Known, Region, Settings, Value};
use ssd::drive::profile;
use ssd::drive::state::State;
use units::Progress;

struct Options {
    state: String,
    offset: u64,
    region: u64,
    budget_s: f64,
    seed: u64,
    with_charts: bool,
    overrides: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            state: "loaded".to_owned(),
            offset: 0,
            region: 1 << 30,
            budget_s: 60.0,
            seed: 1,
            with_charts: true,
            overrides: Vec::new(),
        };
        for argument in arguments {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("`{argument}`: KEY=VALUE would be right"))?;
            let bad = || format!("`{argument}`: the value is not one of `{key}`");
            match key {
                _ if key.contains('.') => options.overrides.push(argument.clone()),
                "state" => value.clone_into(&mut options.state),
                "offset" => options.offset = registry::parse_bytes(value).ok_or_else(bad)?,
                "region" => options.region = registry::parse_bytes(value).ok_or_else(bad)?,
                "budget" => options.budget_s = registry::parse_number(value).ok_or_else(bad)?,
                "seed" => options.seed = registry::parse_count(value).ok_or_else(bad)?,
                "charts" => options.with_charts = value == "yes",
                _ => {
                    return Err(format!(
                        "unknown key `{key}`: state, offset, region, budget, seed, charts, or a \
                         profile's key with a dot"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn state(&self, region: Region, page_bytes: u64) -> Result<State, String> {
        let aged = self.state.strip_prefix("aged:").and_then(registry::parse_number);
        match (self.state.as_str(), aged) {
            (_, Some(overwrites)) => Ok(State::Aged { overwrites }),
            ("fresh", _) => Ok(State::Fresh),
            ("filled", _) => Ok(State::Filled),
            ("loaded", _) => Ok(State::Loaded {
                pages: (region.offset + region.length).div_ceil(page_bytes) as u32,
            }),
            _ => Err(format!(
                "unknown state `{}`: fresh, loaded, filled, aged:OVERWRITES",
                self.state
            )),
        }
    }
}

fn value_line(value: &Value) -> String {
    let mut line = format!("  {:<34} {:<9}", value.key, format!("{:?}", value.verdict));
    if let Some(number) = value.number {
        let _ = write!(line, " {number}");
    }
    if let Some(word) = &value.word {
        let _ = write!(line, " {word}");
    }
    if let Some([low, high]) = value.interval {
        let _ = write!(line, " [{low:.6} .. {high:.6}]");
    }
    if let Some([least, most]) = value.range {
        let _ = write!(line, " of {least:.6} .. {most:.6}");
    }
    let _ = write!(line, "  -- {}", value.why);
    line
}

fn print_chart(chart: &Chart) {
    println!("  chart {}: {}", chart.name, chart.title);
    for series in &chart.series {
        println!(
            "    {}: {} [{}] -> {} [{}]",
            series.name, chart.x.label, chart.x.unit, chart.y.label, chart.y.unit
        );
        // Time series hold thousands of points: some fifty show the shape.
        let step = series.points.len().div_ceil(50).max(1);
        for point in series.points.iter().step_by(step) {
            let within = point
                .interval
                .map_or_else(String::new, |[low, high]| format!("  [{low:.4} .. {high:.4}]"));
            println!("      {:>14.3}  {:>14.4}{within}", point.x, point.y);
        }
    }
    chart
        .marks
        .iter()
        .for_each(|mark| println!("    mark {:?} x={:?} y={:?}", mark.label, mark.x, mark.y));
}

fn print_finding(finding: &Finding, with_charts: bool, wall_s: f64) {
    let Finding { experiment, device_seconds, requests, read_bytes, written_bytes, .. } = finding;
    println!(
        "{experiment}: {device_seconds:.2} s of the device, {wall_s:.1} s here, {requests} \
         requests, {read_bytes} read, {written_bytes} written"
    );
    finding.values.iter().for_each(|value| println!("{}", value_line(value)));
    finding.notes.iter().for_each(|note| println!("  note: {note}"));
    if with_charts {
        finding.charts.iter().for_each(print_chart);
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [profile, specs, rest @ ..] = arguments else {
        return Err("usage: experiment PROFILE SPEC[+SPEC ...] [KEY=VALUE ...]".to_owned());
    };
    let options = Options::parse(rest)?;
    let words = |error: &dyn std::error::Error| error.to_string();
    let profile = profile::load(profile)
        .and_then(|profile| profile.with_overrides(&options.overrides))
        .map_err(|error| words(&error))?;
    let page_bytes = u64::from(profile.media.page_bytes);
    let rest = profile.capacity_bytes().saturating_sub(options.offset);
    let region = Region {
        offset: options.offset,
        length: if options.region == 0 { rest } else { options.region.min(rest) },
    };
    let progress = Progress::default();
    let settings =
        SimulatedSettings { state: options.state(region, page_bytes)?, seed: options.seed };
    let mut device = Simulated::new(&profile.name, &profile, settings, &progress)
        .map_err(|error| words(&error))?;
    println!(
        "{}: {} bytes, region {} + {}",
        profile.name,
        device.info().limits.capacity_bytes,
        region.offset,
        region.length
    );
    let settings = Settings {
        region,
        seed: options.seed,
        may_write: true,
        budget: (options.budget_s * 1e9) as u64,
    };
    let mut known = Known::default();
    for spec in specs.split('+') {
        let (experiment, args) = prober::find(spec).map_err(|error| words(&error))?;
        let mut bench = Bench::new(&mut device, settings, &progress);
        let start = Instant::now();
        match experiment.run(&mut bench, &args, &known) {
            Ok(finding) => {
                print_finding(&finding, options.with_charts, start.elapsed().as_secs_f64());
                known.add(finding);
            }
            Err(error) => println!("{spec}: {error}"),
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("experiment: {error}");
            ExitCode::from(2)
        }
    }
}
