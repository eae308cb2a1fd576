//! Loss of throughput if all data that is read lies in one domain.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::IoOp;

use super::common::{self, Purse};
use super::{Experiment, Group, lists};
use crate::analysis::estimate::Estimate;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Series, Value};
use crate::known::Known;

pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: "ill_mapped",
        aliases: &["layout"],
        summary: "random reads of what lies in one domain against those of what lies in all, by \
                  depth",
        source: "PARALLELISM section 5.4, figure 7",
        params: &[
            Param {
                name: "depths",
                kind: ParamKind::Text,
                default: "1+2+4+8+16+32",
                help: "requests outstanding: a list, or all doublings `1..32`",
            },
            Param {
                name: "chunk",
                kind: ParamKind::Bytes { min: 0, max: 1 << 40 },
                default: "0",
                help: "bytes that lie in one domain before the next follows; 0 for what \
                       `chunk_size` found",
            },
            Param {
                name: "domains",
                kind: ParamKind::Integer { min: 0, max: 1 << 20 },
                default: "0",
                help: "domains that data is laid over; 0 for what `interleaving` found",
            },
            common::AREA,
            common::FILL,
        ],
    },
    group: Group::Interference,
    writes: true,
    is_quick: false,
    weight: 1.0,
    after: &["chunk_size", "interleaving"],
    body: run,
};

/// Mean response times in us with so many outstanding.
struct AtDepth {
    depth: u64,
    one: Estimate,
    all: Estimate,
}

/// Layout of chunks: after a fill in order, chunk i is in domain i modulo the domains, with either
/// mapping of PARALLELISM section 4.4.
struct Layout {
    chunk: u64,
    domains: u64,
    /// Chunks in each domain.
    rows: u64,
    size: u64,
    /// Beginning of the first chunk.
    phase: u64,
}

fn impossible(reason: String) -> ProbeError {
    ProbeError::Impossible { experiment: "ill_mapped", reason }
}

impl Layout {
    /// Bytes of a chunk and number of domains, and whether both are sure: given, or found so.
    fn given(
        bench: &Bench<'_>,
        args: &Args,
        known: &Known,
    ) -> Result<((u64, u64), bool), ProbeError> {
        let find = |given: u64, key: &str, experiment: &str| {
            let found = (given > 0)
                .then_some(given)
                .or_else(|| known.number(key).map(|number| number as u64));
            let missing = || {
                impossible(format!("`{key}` is not known: run `{experiment}` before, or give it"))
            };
            found.filter(|&number| number > 0).ok_or_else(missing)
        };
        let chunk = find(args.integer("chunk"), "chunk_bytes", "chunk_size")?;
        let domains = find(args.integer("domains"), "domains", "interleaving")?;
        let sector = u64::from(bench.device().limits.sector_bytes);
        if domains < 2 || !chunk.is_multiple_of(sector) {
            return Err(impossible(format!(
                "{domains} domains with chunks of {chunk} bytes: two domains and whole sectors of \
                 {sector} are needed"
            )));
        }
        let is_sure = |argument: &str, key: &str| {
            args.integer(argument) > 0 || known.sure_number(key).is_some()
        };
        Ok(((chunk, domains), is_sure("chunk", "chunk_bytes") && is_sure("domains", "domains")))
    }

    fn new(
        bench: &Bench<'_>,
        (chunk, domains): (u64, u64),
        phase: u64,
        area: u64,
    ) -> Result<Self, ProbeError> {
        let rows = area.saturating_sub(phase) / (chunk * domains);
        if rows < 4 {
            return Err(impossible(format!(
                "the {area} bytes of the area hold {rows} chunks of {chunk} bytes in each of \
                 {domains} domains, not 4"
            )));
        }
        let sector = u64::from(bench.device().limits.sector_bytes);
        Ok(Self { chunk, domains, rows, size: chunk.min(4096.max(sector)), phase })
    }

    /// Random chunks of the first domain, or of one domain after the other.
    fn offsets(&self, bench: &mut Bench<'_>, in_one: bool) -> Vec<u64> {
        const COUNT: u64 = 1 << 16;
        let mut random = Pcg64Mcg::seed_from_u64(bench.seed());
        let places = self.chunk / self.size;
        let offset = |number: u64, random: &mut Pcg64Mcg| {
            let domain = if in_one { 0 } else { number % self.domains };
            let chunk = random.random_range(0..self.rows) * self.domains + domain;
            self.phase + chunk * self.chunk + random.random_range(0..places) * self.size
        };
        (0..COUNT).map(|number| offset(number, &mut random)).collect()
    }
}

fn run(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let start = bench.now();
    let (given, is_sure) = Layout::given(bench, args, known)?;
    let mut depths = lists::chosen("ill_mapped", "depths", args.text("depths"), None)?;
    depths.retain(|&depth| depth <= u64::from(bench.device().queue_depth));
    let area = common::filled_area(bench, args)?;
    let phase = known.number("chunk_phase_bytes").map_or(0, |phase| phase as u64);
    let layout = Layout::new(bench, given, phase, area)?;
    let mut purse = Purse::since(bench, start, 2 * depths.len());
    let mut found = Vec::new();
    for &depth in &depths {
        let mut measure = |in_one: bool| -> Result<Estimate, ProbeError> {
            let time = purse.next(bench);
            let offsets = layout.offsets(bench, in_one);
            let reads = bench.at_offsets(IoOp::Read, offsets, layout.size as u32);
            let measured = bench.play(
                vec![closed(reads, depth as u32)],
                Limit::time(time).after(4 * depth).at_least(1_000),
            )?;
            Ok(common::mean_us(&measured))
        };
        found.push(AtDepth { depth, one: measure(true)?, all: measure(false)? });
    }
    let notes = vec![format!(
        "{} chunks of each of {} domains, of {} each, of an area of {}",
        layout.rows,
        layout.domains,
        common::bytes_text(layout.chunk as f64),
        common::bytes_text(area as f64)
    )];
    // What is guessed to be one domain may be several.
    let values =
        values(&found, layout.domains).into_iter().map(|value| value.sure_if(is_sure)).collect();
    Ok(Finding { values, charts: vec![chart(&found, &layout)], notes, ..Finding::default() })
}

fn values(found: &[AtDepth], domains: u64) -> Vec<Value> {
    let mut values = Vec::new();
    for at in [found.first(), found.last().filter(|_| found.len() > 1)].into_iter().flatten() {
        let depth = at.depth;
        let why = format!(
            "{depth} outstanding: {:.0} us in one domain, {:.0} over all {domains}",
            at.one.mean, at.all.mean
        );
        values.push(common::value(
            &format!("ill_mapped_depth_{depth}_one_domain_us"),
            &at.one,
            why.clone(),
        ));
        values.push(common::value(
            &format!("ill_mapped_depth_{depth}_all_domains_us"),
            &at.all,
            why.clone(),
        ));
        if at.all.mean > 0.0 {
            values.push(common::value(
                &format!("ill_mapped_depth_{depth}_factor"),
                &at.one.over(at.all),
                why,
            ));
        }
    }
    values
}

fn chart(found: &[AtDepth], layout: &Layout) -> Chart {
    let mut series =
        ["in one domain".to_owned(), format!("over {} domains", layout.domains)].map(Series::new);
    for at in found {
        let [one, all] = &mut series;
        common::push(one, at.depth as f64, &at.one);
        common::push(all, at.depth as f64, &at.all);
    }
    Chart {
        name: "ill_mapped".to_owned(),
        title: format!(
            "Response time of random reads of {} by where they lie",
            common::bytes_text(layout.size as f64)
        ),
        x: Axis::log("outstanding", "requests"),
        y: Axis::linear("mean response time", "us"),
        series: series.into(),
        marks: Vec::new(),
    }
}
