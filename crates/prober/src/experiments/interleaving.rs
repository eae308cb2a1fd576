//! Numbers of domains, and of sub-domains in each: PARALLELISM 4.3.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use statrs::distribution::{Continuous as _, ContinuousCDF as _, Normal};
use units::Nanos;

use super::channels::{self, Sharing};
use super::chunk_size::{self, CLIP};
use super::common;
use super::inside::{self, Area, Burst, ByAddress};
use super::{Experiment, Group};
use crate::analysis::cells::Cells;
use crate::analysis::estimate::Estimate;
use crate::analysis::periods::{self, CLEAR, Levels, gcd, proper_divisors};
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value};
use crate::known::Known;

const NAME: &str = "interleaving";

/// Domains and sub-domains.
///
/// A *unit* is what serves one read after the other: in a simulated drive a die. Chunks a multiple
/// of `units` apart lie in the same unit. A *domain* is a group of units that share something else,
/// so that reads in two of them hinder each other measurably, though less than two in the same
/// unit: units on one channel, where transfers over it take longer than over the link to the host.
/// `domains` is the distance in chunks at which that is so, and `sub_domains` = units / domains. A
/// drive whose units share a channel that is never noticed has, by this definition, as many domains
/// as units, each with one sub-domain; as that is not what its maker would say, the values are sure
/// only if the time that a transfer takes shows that a shared channel would have been noticed.
///
/// PARALLELISM's program 1(II) looks for dips in the bandwidth of jobs that read with a stride
/// (figure 3). Its curves are measured too; the decision rests on pairs of reads at the same time,
/// whose conflict is not blurred by other reads under way.
pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: NAME,
        aliases: &["interleaving_degree"],
        summary: "domains and sub-domains: at which distances two reads at a time hinder each \
                  other, and the dips of strided reads",
        source: "PARALLELISM 4.3, program 1(II), figure 3",
        params: &[Param {
            name: "most",
            kind: ParamKind::Integer { min: 2, max: 1024 },
            default: "64",
            help: "most units (domains x sub-domains) looked for",
        }],
    },
    group: Group::Internals,
    writes: true,
    is_quick: true,
    weight: 1.0,
    after: &[chunk_size::ENTRY.info.name],
    body: run,
};

/// The standard error of what the second of two reads in one unit waits, as a share of it, at most:
/// it is compared with that of two in one chunk.
const MOST_ERROR: f64 = 0.03;
/// Chunks that an area has at least.
const FEWEST_CHUNKS: u64 = 16;

/// Chunks, and where the first one begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    pub bytes: u64,
    pub phase: u64,
    pub is_sure: bool,
    /// Time by which the mean of two reads at a time in one chunk is above that of two in
    /// neighbouring ones, in nanoseconds; 0 if not known.
    pub depth: f64,
}

/// Writes an area for chunks and finds where they begin in it; their size too, if it is not known.
///
/// # Errors
/// [`ProbeError::Impossible`] if the region is too small, or chunks cannot be read and written
/// whole; those of [`Bench::play`].
pub(super) fn prepare(
    bench: &mut Bench<'_>,
    name: &'static str,
    known: &Known,
    random: &mut Pcg64Mcg,
) -> Result<(Area, Chunks), ProbeError> {
    const UNIT: u64 = 12 << 16;
    let time = bench.part_of_budget(4);
    let sector = u64::from(bench.device().limits.sector_bytes);
    let area = inside::prepare(bench, name, UNIT, 4 * UNIT, 1 << 30, time)?;
    let (bytes, is_known) = match known.number("chunk_bytes") {
        Some(bytes) => (bytes as u64, known.sure_number("chunk_bytes").is_some()),
        None => {
            let pairs = chunk_size::measure_pairs(bench, random, &area, UNIT / 4, None, time / 2)?;
            let bytes = pairs.found.period.map_or(sector, |period| period as u64 * sector);
            (bytes, pairs.found.margin > CLEAR)
        }
    };
    if bytes <= sector {
        return Ok((area, Chunks { bytes: sector, phase: 0, is_sure: is_known, depth: 0.0 }));
    }
    let most = u64::from(bench.device().limits.most_bytes).min(area.bytes / FEWEST_CHUNKS);
    if bytes > most || !bytes.is_multiple_of(sector) {
        let reason = format!(
            "chunks of {bytes} bytes cannot be read and written whole: the device and the {} bytes \
             that were written allow {sector} to {most}, whole sectors of {sector}",
            area.bytes
        );
        return Err(ProbeError::Impossible { experiment: name, reason });
    }
    let pairs = chunk_size::measure_pairs(bench, random, &area, bytes, Some(bytes), time / 4)?;
    let phase = pairs.found.phase as u64 * sector;
    Ok((
        area,
        Chunks {
            bytes,
            phase,
            is_sure: is_known && pairs.found.phase_margin > CLEAR,
            depth: pairs.found.depth.mean,
        },
    ))
}

fn run(bench: &mut Bench<'_>, args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let mut random = inside::random(bench);
    let start = bench.now();
    let (area, chunks) = prepare(bench, NAME, known, &mut random)?;
    let order = ByAddress::new(&area, chunks.bytes, chunks.phase);
    let most = (args.integer("most")).min(order.count / 4) as usize;
    let (units, chart) =
        find_units(bench, &mut random, &order, chunks.bytes, most, bench.part_of_budget(6))?;
    let mut finding = Finding { charts: vec![chart], ..Finding::default() };
    if !chunks.is_sure {
        finding.notes.push(format!(
            "the chunk of {} bytes is not sure, and so nothing else is",
            chunks.bytes
        ));
    }
    let mut values = match units.periods.last() {
        Some(&count) => {
            let page = known
                .sure_number("page_bytes")
                .map(|bytes| bytes as u64)
                .filter(|&page| page <= chunks.bytes);
            let mut split = find_domains(bench, &mut random, &area, &order, count, page)?;
            let rise = units.rises.last().expect("units were found by a rise");
            if !split.is_settled(rise) {
                let wait = 2.0 * rise.mean;
                let units = channels::Units {
                    order,
                    count,
                    sector: u64::from(bench.device().limits.sector_bytes),
                    wait,
                };
                // What is left, less an eighth for the chart.
                let left = (7 * bench.part_of_budget(8)).saturating_sub(bench.now() - start);
                let time = left.max(bench.part_of_budget(8));
                split.add(channels::measure(bench, &mut random, &units, page, time)?);
            }
            finding.notes.extend(split.notes());
            split.values(&units, chunks.depth)
        }
        None => {
            let why = format!(
                "two reads at a time take as long at every distance up to {} chunks",
                2 * most
            );
            ["parallel_units", "domains", "sub_domains"]
                .map(|key| Value::not_found(key, why.clone()))
                .to_vec()
        }
    };
    if !chunks.is_sure {
        values = values.into_iter().map(|value| value.sure_if(false)).collect();
    }
    let number = |key: &str| {
        values
            .iter()
            .find(|value| value.key == key)
            .and_then(|value| value.number)
            .map(|number| number as usize)
    };
    let chart = chart_of_strides(
        bench,
        &mut random,
        &order,
        chunks.bytes,
        number("domains"),
        number("parallel_units"),
    )?;
    finding.charts.insert(0, chart);
    finding.values = values;
    Ok(finding)
}

/// Finds the distance in chunks at which two reads at a time fall into the same unit.
pub(super) fn find_units(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &impl inside::Order,
    chunk: u64,
    most: usize,
    time: Nanos,
) -> Result<(Levels, Chart), ProbeError> {
    let distances: Vec<usize> = (1..=2 * most).collect();
    let candidates: Vec<usize> = (2..=most).collect();
    let mut cells = Cells::new(distances.len(), CLIP);
    let (start, mut rounds) = (bench.now(), 0);
    let found = loop {
        play_pairs(bench, random, order, chunk, &distances, 2, &mut cells)?;
        rounds += 1;
        let is_over = rounds >= 100 || bench.now() - start > time;
        if rounds % 3 != 0 && !is_over {
            continue;
        }
        let found = periods::levels(&cells.estimates(), &distances, &candidates, 2, cells.count());
        let is_exact = found.rises.last().is_some_and(|rise| rise.error < MOST_ERROR * rise.mean);
        if is_over || (is_exact && found.last_margin > 2.0 * CLEAR) {
            break found;
        }
    };
    let found = look_beyond(bench, random, order, chunk, most, found, time / 2)?;
    let mut series = Series::new("two reads at a time");
    for (&distance, estimate) in distances.iter().zip(cells.estimates()) {
        common::push(&mut series, distance as f64, &estimate.times(1e-3));
    }
    let chart = Chart {
        name: "pairs_over_distance".to_owned(),
        title: "Two sectors at a time, so many chunks apart".to_owned(),
        x: Axis::linear("distance", "chunks"),
        y: Axis::linear("mean latency", "us"),
        series: vec![series],
        marks: found
            .periods
            .iter()
            .map(|&period| Mark { label: format!("{period}"), x: Some(period as f64), y: None })
            .collect(),
    };
    Ok((found, chart))
}

/// Looks closer at the multiples of the last period: where transfers take longer than reading, what
/// looks like a unit may be a channel, and two reads in one die of it take hardly longer than two
/// in different ones.
fn look_beyond(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &impl inside::Order,
    chunk: u64,
    most: usize,
    found: Levels,
    time: Nanos,
) -> Result<Levels, ProbeError> {
    let Some(&last) = found.periods.last().filter(|&&last| 2 * last <= most) else {
        return Ok(found);
    };
    let multiples: Vec<usize> = (1..=2 * most / last).collect();
    let distances: Vec<usize> = multiples.iter().map(|multiple| multiple * last).collect();
    let candidates: Vec<usize> = (2..=most / last).collect();
    let mut cells = Cells::new(multiples.len(), CLIP);
    let (start, mut rounds) = (bench.now(), 0);
    loop {
        play_pairs(
            bench,
            random,
            order,
            chunk,
            &distances,
            (128 / distances.len()).max(4),
            &mut cells,
        )?;
        rounds += 1;
        let is_over = rounds >= 60 || bench.now() - start > time;
        if rounds % 10 != 0 && !is_over {
            continue;
        }
        let beyond = periods::levels(&cells.estimates(), &multiples, &candidates, 1, cells.count());
        if let Some(&multiple) = beyond
            .periods
            .first()
            .filter(|_| beyond.margin > 2.0 * CLEAR || (is_over && beyond.margin > CLEAR))
        {
            let rises = vec![found.rises[found.rises.len() - 1], beyond.rises[0]];
            let margin = found.margin.min(beyond.margin);
            return Ok(Levels {
                periods: vec![last, multiple * last],
                rises,
                margin,
                last_margin: beyond.margin,
                ..found
            });
        }
        if is_over || (rounds >= 20 && beyond.periods.is_empty()) {
            return Ok(found);
        }
    }
}

/// Plays one round of so many pairs of sectors at each of some distances in chunks: the distances
/// are the conditions.
fn play_pairs(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &impl inside::Order,
    chunk: u64,
    distances: &[usize],
    each: usize,
    cells: &mut Cells,
) -> Result<(), ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let mut bursts: Vec<Burst<2>> = Vec::with_capacity(each * distances.len());
    for (condition, &distance) in distances.iter().enumerate() {
        for _ in 0..each {
            bursts.push(Burst {
                condition,
                offsets: inside::pair_at(random, order, distance as u64, chunk, sector),
            });
        }
    }
    inside::play_round(bench, random, &mut bursts, sector, cells)
}

/// Findings on the units that share something.
struct Split {
    units: usize,
    shared: Levels,
    /// Least that a shared channel would add to the mean latency of a pair, in nanoseconds.
    expected: f64,
    /// The most that was added at any distance, with 95 % confidence.
    most_added: f64,
    /// Time by which pairs of page reads in one unit, as many rows apart as the others, took
    /// longer, in nanoseconds.
    in_one_unit: f64,
    /// The most that a sector can take on a channel, in nanoseconds, if it is known.
    transfer: Option<f64>,
    /// Pairs in different units took no less than one read by itself: a cache answered few of them.
    are_read: bool,
    /// Evidence of reads that overtake or follow each other, if they were played.
    sharing: Option<Sharing>,
}

/// Latencies of one page read, and of two on one channel.
#[derive(Clone, Copy, Debug, Default)]
struct PageReads {
    /// Least that the second would wait for the first one's transfer over a shared channel, in
    /// nanoseconds; 0 if that would not be noticed.
    wait: f64,
    /// The most that a sector can take on a channel, in nanoseconds, if it is known.
    transfer: Option<f64>,
    /// Mean latency of one by itself, in nanoseconds.
    alone: f64,
}

impl Split {
    /// Returns true if it is clear that some share something, or that none do.
    fn is_settled(&self, rise: &Estimate) -> bool {
        match self.shared.periods[..] {
            [] => self.is_excluded(rise) && self.are_dies(rise),
            _ => self.is_shared_clear(),
        }
    }

    /// Returns true if it is clear which units share something, and reads that overtake or follow
    /// each other do not contradict it.
    fn is_shared_clear(&self) -> bool {
        let is_against = |sharing: &Sharing| {
            sharing.expected > 0.0 && sharing.most_added < sharing.expected / 4.0
        };
        self.shared.margin > CLEAR
            && self.shared.rises.first().is_some_and(|rise| rise.in_errors() > 5.0)
            && !self.sharing.as_ref().is_some_and(is_against)
    }

    /// Returns true if sharing that was not seen would have been seen: a quarter, as reads of pages
    /// of different types meet less often than is reckoned with.
    fn is_excluded(&self, rise: &Estimate) -> bool {
        // If the turns of units shift from row to row, pages so far apart would not wait for each
        // other as long as sectors.
        let by_pages = self.is_excluded_by_pages() && self.in_one_unit > 0.8 * rise.mean;
        by_pages || self.sharing.as_ref().is_some_and(|sharing| sharing.is_excluded)
    }

    /// Returns true if two reads in one unit wait for more than transfers.
    fn are_dies(&self, rise: &Estimate) -> bool {
        let by_pages = self.transfer.is_some_and(|transfer| 2.0 * rise.mean > 1.5 * transfer);
        by_pages || self.sharing.as_ref().is_some_and(|sharing| sharing.are_dies)
    }

    fn is_excluded_by_pages(&self) -> bool {
        self.are_read && self.expected > 0.0 && self.most_added < self.expected / 4.0
    }

    /// Takes over the evidence of reads that overtake or follow each other.
    fn add(&mut self, sharing: Sharing) {
        let is_found = !sharing.levels.periods.is_empty();
        if is_found
            && (self.shared.periods.is_empty() || sharing.levels.margin > self.shared.margin)
        {
            self.shared = sharing.levels.clone();
        }
        self.sharing = Some(sharing);
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(sharing) = &self.sharing {
            notes.push(format!(
                "reads that overtake or follow each other would wait {} us longer at least on a \
                 shared channel; at most {} us were seen",
                inside::micros(sharing.expected),
                inside::micros(sharing.most_added)
            ));
        }
        if self.shared.periods.is_empty() && self.expected > 0.0 {
            notes.push(format!(
                "a channel shared by several units would add at least {} us to a pair of page \
                 reads; at most {} us were seen",
                inside::micros(self.expected),
                inside::micros(self.most_added)
            ));
        }
        if let [_, inner] = self.shared.periods[..] {
            notes.push(format!("there is a level between domains and units: every {inner} chunks"));
        }
        notes
    }

    fn values(&self, found: &Levels, depth: f64) -> Vec<Value> {
        let units = self.units;
        let rise = found.rises.last().expect("units were found by a rise");
        // Within units that are known already a small rise is enough if it is certain: where dies
        // send slowly, they hardly hinder each other more than their channel does.
        let least_share = if found.periods.len() > 1 { 0.002 } else { 0.02 };
        let is_clear = found.last_margin > CLEAR
            && rise.in_errors() > 6.0
            && rise.mean > least_share * found.base.mean;
        let why = format!(
            "two reads at a time take {} us longer at multiples of {units} chunks",
            inside::micros(rise.mean)
        );
        // Units that hinder each other no more than transfers do may be channels, with units on
        // them that were not seen.
        let is_clear = is_clear
            && (self.are_dies(rise) || found.periods.len() > 1 || !self.shared.periods.is_empty());
        let all = Value::number("parallel_units", units as f64, why.clone()).sure_if(is_clear);
        let (domains, why, is_sure) = match self.shared.periods.first() {
            Some(&domains) => {
                let rise = &self.shared.rises[0];
                let more = format!(
                    "reads that meet on a channel {} us longer at other multiples of {domains}",
                    inside::micros(rise.mean)
                );
                (domains, format!("{why}, and {more}"), is_clear && self.is_shared_clear())
            }
            // Two reads in one unit hinder each other as two in one chunk do. If they do so less,
            // chunks do not lie strictly in turn, and sharing at a distance would not show either.
            // Nor would it if the turns shift from row to row: pages wait for each other as long as
            // sectors at least.
            None if rise.mean > 0.8 * depth && self.is_excluded(rise) => (
                units,
                format!("{why}, and no longer at others, as it would if a channel were shared"),
                is_clear,
            ),
            None => {
                (units, format!("{why}; whether some of them share a channel does not show"), false)
            }
        };
        vec![
            Value::number("domains", domains as f64, why.clone()).sure_if(is_sure),
            Value::number("sub_domains", (units / domains) as f64, why).sure_if(is_sure),
            all,
        ]
    }
}

/// Finds out whether units share something: page reads at a time in different units, at distances
/// that differ in what they have in common with the number of units.
fn find_domains(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    order: &ByAddress,
    units: usize,
    page: Option<u64>,
) -> Result<Split, ProbeError> {
    // Without the page it is not known what a byte more takes on a channel alone.
    let reads = page.map_or(Ok(PageReads::default()), |page| {
        measure_page_reads(bench, random, area, order, page)
    })?;
    // Where nothing can be excluded, what is shared shows soon or not at all.
    let time = bench.part_of_budget(if reads.wait > 0.0 { 4 } else { 8 });
    let page = page.unwrap_or(order.chunk);
    let divisors = proper_divisors(units);
    // The last condition is both in one unit.
    let mut cells = Cells::new(divisors.len() + 1, CLIP);
    // Whole rows between the two, so many that pages of all types meet pages of all types.
    let rows = ((order.count / units as u64 / 2).saturating_sub(1)).clamp(1, 12);
    let residues: Vec<Vec<usize>> = divisors
        .iter()
        .map(|&divisor| (1..units).filter(|&residue| gcd(residue, units) == divisor).collect())
        .collect();
    let (start, mut rounds) = (bench.now(), 0);
    loop {
        let mut bursts: Vec<Burst<2>> = Vec::with_capacity(16 * (divisors.len() + 1));
        for (condition, residues) in residues.iter().enumerate() {
            for _ in 0..16 {
                let residue = residues[random.random_range(0..residues.len())] as u64;
                let distance = residue + random.random_range(0..rows) * units as u64;
                bursts.push(Burst {
                    condition,
                    offsets: inside::pair_at(random, order, distance, order.chunk, page),
                });
            }
        }
        for _ in 0..16 {
            let distance = random.random_range(1..=rows) * units as u64;
            bursts.push(Burst {
                condition: divisors.len(),
                offsets: inside::pair_at(random, order, distance, order.chunk, page),
            });
        }
        inside::play_round(bench, random, &mut bursts, page, &mut cells)?;
        rounds += 1;
        let is_over = rounds >= MOST_ROUNDS || bench.now() - start > time;
        if rounds % 8 != 0 && !is_over {
            continue;
        }
        let mut estimates = cells.estimates();
        let in_one_unit = estimates.pop().expect("the last condition");
        let shared = periods::levels(&estimates, &divisors, &divisors[1..], 2, cells.count());
        let base = estimates[0];
        let most_added =
            estimates[1..].iter().map(|estimate| estimate.minus(&base).high()).fold(0.0, f64::max);
        let PageReads { wait, transfer, alone } = reads;
        // Half of what one of two waits is what their mean rises by.
        let in_one_unit = in_one_unit.minus(&base).mean;
        let are_read = base.mean > 0.8 * alone;
        let split = Split {
            units,
            shared,
            expected: wait / 2.0,
            most_added,
            in_one_unit,
            transfer,
            are_read,
            sharing: None,
        };
        let is_clear = if split.shared.periods.is_empty() {
            split.is_excluded_by_pages()
        } else {
            split.shared.margin > 1.5 * CLEAR
        };
        if is_clear || is_over || divisors.len() == 1 {
            return Ok(split);
        }
    }
}

/// Most rounds of 16 pairs for each divisor: a quarter of a million pairs.
const MOST_ROUNDS: usize = 4000;

/// Measures the least that the second of two page reads would wait for the first one's transfer
/// over a shared channel: 0 if the link to the host may be as slow as a channel, so that nothing
/// would be noticed, or if all units may be on one channel.
///
/// A byte more takes `1 / channel + 1 / link` longer. What the link takes is known from reads that
/// a cache answers, or is at most what the highest throughput says; the rest is the channel. The
/// second read waits for it, less what it would have waited for the link anyway, unless the first
/// has begun so much earlier: reads of one page vary.
fn measure_page_reads(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    order: &ByAddress,
    page: u64,
) -> Result<PageReads, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    if page <= sector {
        return Ok(PageReads::default());
    }
    // Sectors and pages at random, then pages that were just read, whole and a sector of them. Only
    // what is compared closely is in the same cells: reads that a cache answers are so much faster
    // that the others would be clipped.
    let mut cells = [0; 2].map(|_| Cells::new(2, CLIP));
    for _ in 0..50 {
        let places: Vec<[u64; 2]> =
            (0..16).map(|_| inside::pair_at(random, order, 1, order.chunk, page)).collect();
        for (cells, kinds) in
            cells.iter_mut().zip([[(0, sector), (1, page)], [(1, page), (1, sector)]])
        {
            let mut values = Vec::with_capacity(2 * places.len());
            for (condition, (which, length)) in kinds.into_iter().enumerate() {
                let mut bursts: Vec<Burst<1>> =
                    places.iter().map(|pair| Burst { condition, offsets: [pair[which]] }).collect();
                values.extend(inside::sample_round(bench, random, &mut bursts, length)?);
            }
            cells.add_round(&values);
        }
    }
    let [of_sector, of_page, page_again, sector_again] = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(kind, which): (usize, usize)| cells[kind].estimates()[which]);
    let size = area.bytes.min(1 << 16);
    let source = bench.pattern(&format!("random(size={size},reads=1,range={})", area.bytes))?;
    let depth = bench.device().queue_depth.min(64);
    let throughput =
        bench.play(vec![closed(source, depth)], Limit::requests(1500))?.bytes_per_second() / 1e9;
    let bytes = (page - sector) as f64;
    let is_cached =
        of_page.minus(&page_again).in_errors() > 10.0 && page_again.mean < 0.8 * of_page.mean;
    let ends = |more: Estimate| [more.low(), more.high()];
    let again = ends(page_again.minus(&sector_again)).map(|more| (more / bytes).max(0.0));
    let [least_of_link, of_link] = if is_cached { again } else { [0.0, f64::INFINITY] };
    let of_link = of_link.min(throughput.recip());
    let [least, most] = ends(of_page.minus(&of_sector)).map(|more| more / bytes);
    let of_channel = least - of_link;
    let reads = PageReads {
        wait: 0.0,
        transfer: Some((most - least_of_link) * sector as f64),
        alone: of_page.mean,
    };
    // A quarter more, as a cache helps the throughput.
    if of_channel <= 1.1 * of_link || throughput * of_channel < 1.25 {
        return Ok(reads);
    }
    let wait = (of_channel - of_link) * page as f64;
    let spread = of_page.error * cells[0].all()[1].count.sqrt() * std::f64::consts::SQRT_2;
    if spread < 1e-3 * wait {
        return Ok(PageReads { wait, ..reads });
    }
    let normal = Normal::standard();
    let ratio = wait / spread;
    let blurred = wait * (2.0 * normal.cdf(ratio) - 1.0)
        - 2.0 * spread * (normal.pdf(0.0) - normal.pdf(ratio));
    Ok(PageReads { wait: blurred, ..reads })
}

/// Program 1(II): figure 3.
fn chart_of_strides(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &ByAddress,
    chunk: u64,
    domains: Option<usize>,
    units: Option<usize>,
) -> Result<Chart, ProbeError> {
    let farthest =
        (4 * domains.unwrap_or(16)).max(2 * units.unwrap_or(0)).min(order.count as usize / 4);
    let skips: Vec<u64> = (1..=farthest as u64).collect();
    let time = bench.part_of_budget(16);
    let mut series = Vec::new();
    for jobs in [2, 4] {
        series.push(inside::strides(bench, random, order, chunk, jobs, &skips, time)?.1);
    }
    let mut marks = Vec::new();
    for (label, period) in [("domains", domains), ("units", units)] {
        let Some(period) = period.filter(|&period| period > 1) else { continue };
        marks.push(Mark {
            label: format!("{period} {label}"),
            x: Some(period as f64 - 1.0),
            y: None,
        });
    }
    Ok(Chart {
        name: "bandwidth_over_stride".to_owned(),
        title: "Bandwidth of jobs that share a sequence of chunks, over the chunks that each read \
                skips"
            .to_owned(),
        x: Axis::linear("stride distance", "chunks"),
        y: Axis::linear("bandwidth", "MB/s"),
        series,
        marks,
    })
}
