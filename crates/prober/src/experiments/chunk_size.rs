//! Chunk size: the number of bytes in a row that lie in one domain (PARALLELISM 4.2).

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::Nanos;

use super::common;
use super::inside::{self, Area, Burst};
use super::{Experiment, Group};
use crate::analysis::cells::Cells;
use crate::analysis::estimate::Estimate;
use crate::analysis::periods::{self, Boundaries, CLEAR, Cycle};
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Mark, Series, Value, Verdict};
use crate::known::Known;

const NAME: &str = "chunk_size";

/// Chunk size, and the bytes that are read at once.
///
/// PARALLELISM's program 1(I) reads at every offset with every size and looks for dips: a read over
/// a chunk's boundary is served by two domains at a time. The dips are small (half a transfer),
/// absent for chunks of one sector, and where a chunk holds several pages they mix with rises at
/// page boundaries. So the decision rests on *pairs*: two sectors on both sides of an offset, read
/// at the same time. Within a chunk the second waits for the first; across a boundary it does not.
/// The program's curves are measured too; their period, found by statistics, has to agree where
/// they show one.
pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: NAME,
        aliases: &["chunk"],
        summary: "bytes in a row that lie in one domain: pairs of reads on both sides of each \
                  offset, and the dips of reads over it",
        source: "PARALLELISM 4.2, program 1(I), figure 2",
        params: &[Param {
            name: "most",
            kind: ParamKind::Bytes { min: 4096, max: 1 << 18 },
            default: "64Ki",
            help: "largest chunk looked for, in bytes (M of the program)",
        }],
    },
    group: Group::Internals,
    writes: true,
    is_quick: true,
    weight: 1.0,
    after: &[],
    body: run,
};

/// Bursts of two, so at most 1.5 times as long if one waits for the other; what is much longer was
/// a pause.
pub(super) const CLIP: f64 = 4.0;
/// An effect has to be so large a share of the mean, or something small that the models do not know
/// may be taken for it.
const LEAST_SHARE: f64 = 0.02;
/// And so many standard errors.
const LEAST_ERRORS: f64 = 6.0;
/// Rounds after which the statistics are looked at first; then each time that there are half as
/// many more.
const FIRST_LOOK: usize = 4;
const MOST_ROUNDS: usize = 200;

/// Statistics of pairs of reads.
pub(super) struct Pairs {
    /// Boundaries between chunks.
    pub found: Boundaries,
    /// Pairs of twice the same sector: they surely wait for each other.
    same: Estimate,
    /// Pairs far from each other: they seldom do.
    far: Estimate,
    /// All pairs of neighbours.
    neighbours: Estimate,
    cells: Cells,
}

impl Pairs {
    /// Returns true if two reads of one place at a time take longer than two reads of two places.
    fn shows_waiting(&self) -> bool {
        is_effect(&self.same.minus(&self.far), self.far.mean) || self.has_free_neighbours()
    }

    /// Returns true if neighbouring sectors wait less for each other than one sector for itself.
    fn has_free_neighbours(&self) -> bool {
        is_effect(&self.same.minus(&self.neighbours), self.neighbours.mean)
    }
}

fn is_effect(effect: &Estimate, mean: f64) -> bool {
    effect.in_errors() > LEAST_ERRORS && effect.mean > LEAST_SHARE * mean
}

fn run(bench: &mut Bench<'_>, args: &Args, _known: &Known) -> Result<Finding, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let most = args.integer("most").next_multiple_of(sector).max(2 * sector);
    let unit = 12 * most;
    let time = bench.part_of_budget(4);
    let area = inside::prepare(bench, NAME, unit, 4 * unit, 1 << 30, time)?;
    let mut random = inside::random(bench);
    let pairs = measure_pairs(bench, &mut random, &area, 3 * most, None, time)?;
    let mut finding = Finding::default();
    let decided = decide(bench, &mut random, &area, &pairs)?;
    let chunk = decided.number.map(|number| number as u64);
    let (dips, chart) = measure_dips(bench, &mut random, &area, chunk, most, time)?;
    let confirmed = confirm(decided, &dips, sector, chunk);
    // What was found within a chunk holds as far as that is one.
    let is_sure = confirmed.verdict == Verdict::Sure;
    finding.values.push(confirmed);
    if let Some(chunk) = chunk {
        let phase = pairs.found.phase as u64 * sector % chunk;
        let why = "position of the first boundary between chunks behind the start of the region";
        let is_phase_sure = is_sure && (chunk == sector || pairs.found.phase_margin > CLEAR);
        finding
            .values
            .push(Value::number("chunk_phase_bytes", phase as f64, why).sure_if(is_phase_sure));
        finding.values.push(
            measure_page(bench, &mut random, &area, chunk, phase, &pairs)?.sure_if(is_phase_sure),
        );
    }
    finding.charts.push(chart);
    finding.charts.push(chart_of_pairs(&pairs, sector, chunk));
    finding.notes.push(format!("{} bytes were written in order before, and read in", area.bytes));
    Ok(finding)
}

/// Reads pairs of neighbouring sectors at each offset modulo `span` bytes, until the period is
/// clear or the time is used up. With `only`, the period in bytes is known and only its phase is
/// looked for.
pub(super) fn measure_pairs(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    span: u64,
    only: Option<u64>,
    time: Nanos,
) -> Result<Pairs, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let positions = (span / sector) as usize;
    let only = only.map(|bytes| (bytes / sector) as usize);
    let mut cells = Cells::new(positions + 2, CLIP);
    let (start, mut rounds, mut look_at) = (bench.now(), 0, FIRST_LOOK);
    loop {
        let mut bursts: Vec<Burst<2>> = Vec::with_capacity(positions + 64);
        for position in 0..positions {
            // The second of the pair first, or it would look like a sequence to read ahead of.
            let at = inside::place(random, area, span, 2 * span) + span + position as u64 * sector;
            bursts.push(Burst { condition: position, offsets: [at, at - sector] });
        }
        for _ in 0..positions.clamp(8, 32) {
            let at = inside::place(random, area, sector, sector);
            bursts.push(Burst { condition: positions, offsets: [at, at] });
            let [one, other] = [0; 2].map(|_| inside::place(random, area, sector, sector));
            bursts.push(Burst { condition: positions + 1, offsets: [one, other] });
        }
        inside::play_round(bench, random, &mut bursts, sector, &mut cells)?;
        rounds += 1;
        let is_over = rounds >= MOST_ROUNDS || bench.now() - start > time;
        if rounds < look_at && !is_over {
            continue;
        }
        look_at = rounds * 3 / 2;
        let estimates = cells.estimates();
        let found = periods::boundaries(&estimates[..positions], cells.count(), only);
        let is_clear = match only {
            Some(_) => found.phase_margin > 2.0 * CLEAR,
            None => found.margin > 2.0 * CLEAR && found.period.is_some(),
        };
        let [same, far] = [estimates[positions], estimates[positions + 1]];
        let neighbours = Estimate::joined(&estimates[..positions]);
        // Flat: more rounds than these would show no more than these do.
        let is_flat = found.period.is_none()
            && rounds >= 3 * FIRST_LOOK
            && neighbours.minus(&same).in_errors().abs() > 2.0 * LEAST_ERRORS;
        if is_clear || is_flat || is_over {
            return Ok(Pairs { found, same, far, neighbours, cells });
        }
    }
}

fn decide(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    pairs: &Pairs,
) -> Result<Value, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let found = &pairs.found;
    if let Some(period) = found.period {
        let chunk = period as u64 * sector;
        let is_even = are_boundaries_alike(bench, random, area, chunk, found)?;
        let where_to = match found.phase as u64 * sector {
            0 => format!("a multiple of {chunk}"),
            phase => format!("{phase} more than a multiple of {chunk}"),
        };
        let why = format!(
            "two reads on both sides of an offset take {} us less where it is {where_to}",
            inside::micros(found.depth.mean)
        );
        // That boundaries are alike was measured apart from what the margin comes from. Pages of
        // different types make that small.
        let sure = found.margin > CLEAR / 2.0 && is_effect(&found.depth, found.at.mean) && is_even;
        return Ok(Value::number("chunk_bytes", chunk as f64, why).sure_if(sure));
    }
    if !pairs.shows_waiting() {
        return Ok(Value::not_found(
            "chunk_bytes",
            "two reads of one sector at a time take no longer than two reads far from each other",
        ));
    }
    if !pairs.has_free_neighbours() {
        let why = "neighbouring sectors wait for each other at every offset: the chunk is larger \
                   than what was looked for";
        return Ok(Value::not_found("chunk_bytes", why));
    }
    let returns = sectors_meet_again(bench, random, area)?;
    let (phrase, sure) = match returns {
        Some(distance) => (format!("sectors {distance} apart do"), true),
        None => ("none were found that do".to_owned(), false),
    };
    let why =
        format!("neighbouring sectors never wait for each other, at whatever offset; {phrase}");
    Ok(Value::number("chunk_bytes", sector as f64, why).sure_if(sure))
}

/// Checks that all of twelve boundaries in a row are alike, and all middles between them: if the
/// true chunk were a multiple, or did not divide the span, only some would be boundaries. The two
/// reads lie anywhere in the half chunks before and behind: at the boundaries alone there are so
/// few sectors that a cache may hold them.
fn are_boundaries_alike(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    chunk: u64,
    found: &Boundaries,
) -> Result<bool, ProbeError> {
    const IN_A_ROW: usize = 12;
    let sector = u64::from(bench.device().limits.sector_bytes);
    let phase = found.phase as u64 * sector;
    let (span, half) = (IN_A_ROW as u64 * chunk, (chunk / 2 / sector).max(1));
    if 3 * span > area.bytes {
        return Ok(false);
    }
    let mut cells = Cells::new(2 * IN_A_ROW, CLIP);
    for round in 1..=2 * MOST_ROUNDS {
        let mut bursts: Vec<Burst<2>> = Vec::with_capacity(2 * IN_A_ROW);
        for number in 0..IN_A_ROW {
            for (condition, within) in [(number, 0), (IN_A_ROW + number, half * sector)] {
                let at = inside::place(random, area, span, 3 * span)
                    + span
                    + phase
                    + number as u64 * chunk
                    + within;
                let (behind, before) =
                    (random.random_range(0..half), random.random_range(1..=half));
                bursts.push(Burst {
                    condition,
                    offsets: [at + behind * sector, at - before * sector],
                });
            }
        }
        inside::play_round(bench, random, &mut bursts, sector, &mut cells)?;
        if round % 20 == 0 {
            let estimates = cells.estimates();
            let (at, between) = estimates.split_at(IN_A_ROW);
            let [faster, slower] = [Estimate::joined(at), Estimate::joined(between)];
            let halfway = (faster.mean + slower.mean) / 2.0;
            let errors = |estimate: &Estimate| (estimate.mean - halfway) / estimate.error;
            let are_alike = at.iter().all(|estimate| errors(estimate) < -3.0)
                && between.iter().all(|estimate| errors(estimate) > 3.0);
            if are_alike && slower.mean - faster.mean > found.depth.mean / 3.0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// For chunks of one sector: the distance in sectors at which two do wait for each other.
fn sectors_meet_again(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
) -> Result<Option<usize>, ProbeError> {
    const FARTHEST: usize = 128;
    let sector = u64::from(bench.device().limits.sector_bytes);
    let mut cells = Cells::new(FARTHEST, CLIP);
    for _ in 0..40 {
        let mut bursts: Vec<Burst<2>> = Vec::with_capacity(FARTHEST);
        for distance in 1..=FARTHEST {
            let at = inside::place(random, area, sector, (distance as u64 + 1) * sector);
            bursts.push(Burst {
                condition: distance - 1,
                offsets: [at + distance as u64 * sector, at],
            });
        }
        inside::play_round(bench, random, &mut bursts, sector, &mut cells)?;
    }
    let distances: Vec<usize> = (1..=FARTHEST).collect();
    let candidates: Vec<usize> = (2..=FARTHEST / 2).collect();
    let found = periods::levels(&cells.estimates(), &distances, &candidates, 2, cells.count());
    Ok(found.periods.last().copied().filter(|_| found.last_margin > CLEAR))
}

/// Program 1(I): mean latency over offset for each size. Sizes and offsets are those that show the
/// chunk best if it is known (figure 2: up to the chunk, over eight chunks), otherwise all up to
/// the largest chunk.
fn measure_dips(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    chunk: Option<u64>,
    most: u64,
    time: Nanos,
) -> Result<(Dips, Chart), ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let (step, positions) = match chunk {
        Some(chunk) => ((chunk / 8).max(sector), (8 * chunk / (chunk / 8).max(sector)) as usize),
        None => (sector, (3 * most / sector) as usize),
    };
    let largest = chunk.unwrap_or(most).max(8 * sector).min(most);
    let mut sizes = vec![sector];
    let mut size = step.max(2 * sector);
    while size <= largest {
        sizes.push(size);
        size *= 2;
    }
    // Any boundary of chunks, but for one in four: if the true chunk were a multiple, it would
    // show.
    let unit = chunk.map_or(3 * most, |chunk| 4 * chunk);
    let span = positions as u64 * step + largest;
    let mut curves: Vec<Cells> = sizes.iter().map(|_| Cells::new(positions, CLIP)).collect();
    let (start, mut rounds) = (bench.now(), 0);
    while rounds < 6 || (rounds < 100 && bench.now() - start < time) {
        for (&size, cells) in sizes.iter().zip(&mut curves) {
            let place = |position: usize, random: &mut Pcg64Mcg| {
                inside::place(random, area, unit, span) + position as u64 * step
            };
            let mut bursts: Vec<Burst<1>> = (0..positions)
                .map(|position| Burst { condition: position, offsets: [place(position, random)] })
                .collect();
            inside::play_round(bench, random, &mut bursts, size, cells)?;
        }
        rounds += 1;
    }
    let estimates: Vec<Vec<Estimate>> = curves.iter().map(Cells::estimates).collect();
    let cycle = periods::cycle(&estimates, curves.iter().map(Cells::count).sum());
    let mut chart = Chart {
        name: "latency_over_offset".to_owned(),
        title: "Read latency over offset, for each request size".to_owned(),
        x: Axis::linear("offset", "sectors"),
        y: Axis::linear("mean latency", "us"),
        series: Vec::new(),
        marks: Vec::new(),
    };
    for (size, cells) in sizes.iter().zip(&curves) {
        let mut series = Series::new(format!("{} sectors", size / sector));
        for (position, estimate) in cells.estimates().iter().enumerate() {
            common::push(
                &mut series,
                (position as u64 * step / sector) as f64,
                &estimate.times(1e-3),
            );
        }
        chart.series.push(series);
    }
    Ok((Dips { cycle, step }, chart))
}

/// Dips in the curves of program 1(I).
struct Dips {
    cycle: Cycle,
    /// Bytes from one position to the next.
    step: u64,
}

/// Joins what pairs and curves say.
fn confirm(decided: Value, dips: &Dips, sector: u64, chunk: Option<u64>) -> Value {
    let shown = dips
        .cycle
        .period
        .map(|period| period as u64 * dips.step)
        .filter(|_| dips.cycle.margin > CLEAR);
    match (chunk, shown) {
        (Some(chunk), Some(shown)) if chunk == shown => {
            Value { why: format!("{}; curves over offset repeat at it", decided.why), ..decided }
        }
        (Some(_), Some(shown)) if shown > sector && dips.cycle.swing > LEAST_SHARE => {
            let why = format!("{}; but curves over offset repeat every {shown} bytes", decided.why);
            Value { why, ..decided }.sure_if(false)
        }
        (Some(_), _) => Value {
            why: format!("{}; curves over offset show nothing clear", decided.why),
            ..decided
        },
        (None, Some(shown))
            if decided.verdict == Verdict::NotFound && dips.cycle.swing > LEAST_SHARE =>
        {
            // It could be the page as well: nothing shows that what is across the boundary works by
            // itself.
            let why = format!("{}; curves over offset repeat every {shown} bytes", decided.why);
            Value::number("chunk_bytes", shown as f64, why).sure_if(false)
        }
        (None, _) => decided,
    }
}

/// Bytes of a page: within a chunk, a read over the boundary of two pages reads both one after the
/// other.
fn measure_page(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    chunk: u64,
    phase: u64,
    pairs: &Pairs,
) -> Result<Value, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let inner = (chunk / sector) as usize - 1;
    if inner == 0 {
        let why = "pages are no larger than chunks, and the chunk is one sector";
        return Ok(Value::number("page_bytes", sector as f64, why).sure_if(false));
    }
    // The last condition is a read of one sector. In the same cells: errors of estimates do not
    // tell how means of different cells differ.
    let mut cells = Cells::new(inner + 1, CLIP);
    for _ in 0..(5000 / inner).clamp(40, 400) {
        let mut bursts: Vec<Burst<1>> = Vec::with_capacity(inner);
        for boundary in 1..=inner as u64 {
            let at =
                inside::place(random, area, chunk, 2 * chunk) + phase + (boundary - 1) * sector;
            bursts.push(Burst { condition: boundary as usize - 1, offsets: [at] });
        }
        let mut values = inside::sample_round(bench, random, &mut bursts, 2 * sector)?;
        let mut bursts: Vec<Burst<1>> = (0..16)
            .map(|_| Burst {
                condition: inner,
                offsets: [inside::place(random, area, sector, sector)],
            })
            .collect();
        values.extend(inside::sample_round(bench, random, &mut bursts, sector)?);
        cells.add_round(&values);
    }
    let mut estimates = cells.estimates();
    let single = estimates.pop().expect("the last condition");
    // A pair's mean rises by half of what the second waits.
    let service = 2.0 * pairs.found.depth.mean;
    let jumps = find_jumps(&estimates, JUMP * service);
    if let Some((page, rise)) = jumps.page {
        let bytes = page as u64 * sector;
        let why = format!(
            "within a chunk, reads over a multiple of {bytes} bytes take {} us longer",
            inside::micros(rise)
        );
        return Ok(Value::number("page_bytes", bytes as f64, why).sure_if(jumps.are_clear));
    }
    let both = Estimate::joined(&estimates).minus(&single);
    // A second page costs all that a second read costs, a second sector of the same page only its
    // transfer.
    let (bytes, why, clear) = if both.mean > 0.85 * service {
        // A chip in cache mode whose transfers are slower than its reads does the same with larger
        // pages.
        (sector, "a second sector takes as long as another read", false)
    } else {
        // In cache mode a second page costs at least what its read takes beyond a transfer: that
        // would be a jump.
        (
            chunk,
            "reads within a chunk take no longer at any offset",
            jumps.are_clear && both.high() < 0.6 * service,
        )
    };
    Ok(Value::number("page_bytes", bytes as f64, why).sure_if(clear && service > 0.0))
}

/// A rise of so large a share of a read's time is one at the boundary of two pages.
const JUMP: f64 = 0.2;

/// Boundaries of pages within a chunk.
#[derive(Debug, PartialEq)]
struct Jumps {
    /// Sectors of a page, and how much longer a read over a boundary takes, in nanoseconds.
    page: Option<(usize, f64)>,
    /// True if all positions are clearly as they would be for these pages, or without any.
    are_clear: bool,
}

/// Finds the positions in a chunk at which reads take longer by at least so much than reads beside:
/// `estimates` are of positions 1, 2, ... up to the last in the chunk.
///
/// Compared with what is beside, as pages of MLC and TLC differ, and with them all reads within
/// one. Positions that are multiples of the same divisor of the chunk are joined.
fn find_jumps(estimates: &[Estimate], least: f64) -> Jumps {
    let chunk = estimates.len() + 1;
    let mut jumping = Vec::new();
    let mut others = Vec::new();
    let mut are_clear = true;
    for divisor in periods::proper_divisors(chunk) {
        let positions = (1..chunk).filter(|&position| periods::gcd(position, chunk) == divisor);
        let above: Vec<Estimate> = positions
            .filter_map(|position| {
                let beside = [position.checked_sub(2), Some(position)]
                    .into_iter()
                    .flatten()
                    .filter_map(|index| estimates.get(index));
                let beside = beside.copied().collect::<Vec<_>>();
                (!beside.is_empty())
                    .then(|| estimates[position - 1].minus(&Estimate::joined(&beside)))
            })
            .collect();
        if above.is_empty() {
            continue;
        }
        let above = Estimate::joined(&above);
        are_clear &= (above.mean - least).abs() > 3.0 * above.error;
        if above.mean > least { jumping.push((divisor, above.mean)) } else { others.push(divisor) }
    }
    let page = jumping.first().copied();
    if let Some((page, _)) = page {
        are_clear &= jumping.iter().all(|(divisor, _)| divisor.is_multiple_of(page));
        are_clear &= others.iter().all(|divisor| !divisor.is_multiple_of(page));
    }
    Jumps { page, are_clear }
}

fn chart_of_pairs(pairs: &Pairs, sector: u64, chunk: Option<u64>) -> Chart {
    let positions = pairs.cells.all().len() - 2;
    let mut series = Series::new("both sides of the offset");
    for (position, estimate) in pairs.cells.estimates()[..positions].iter().enumerate() {
        common::push(&mut series, position as f64, &estimate.times(1e-3));
    }
    let mark = |label: &str, estimate: &Estimate| Mark {
        label: label.to_owned(),
        x: None,
        y: Some(estimate.mean / 1e3),
    };
    let mut marks =
        vec![mark("the same sector twice", &pairs.same), mark("far from each other", &pairs.far)];
    if let (Some(chunk), Some(_)) = (chunk, pairs.found.period) {
        let every = (chunk / sector) as usize;
        marks.extend((0..positions).filter(|position| position % every == pairs.found.phase).map(
            |position| Mark { label: "boundary".to_owned(), x: Some(position as f64), y: None },
        ));
    }
    Chart {
        name: "pairs_over_offset".to_owned(),
        title: "Two sectors at a time, before and behind an offset".to_owned(),
        x: Axis::linear("offset", "sectors"),
        y: Axis::linear("mean latency", "us"),
        series: vec![series],
        marks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mean: f64, error: f64) -> Estimate {
        Estimate { mean, error, freedom: f64::INFINITY }
    }

    #[test]
    fn jumps_are_found_between_pages_of_different_types() {
        let mean = |boundary: usize| match boundary {
            4 | 8 | 12 => 110.0,
            0..8 => 60.0,
            _ => 75.0,
        };
        let estimates: Vec<Estimate> = (1..16).map(|boundary| at(mean(boundary), 1.0)).collect();
        let found = find_jumps(&estimates, 10.0);
        assert!(
            found.are_clear
                && found.page.is_some_and(|(page, rise)| page == 4 && (rise - 45.0).abs() < 10.0),
            "{found:?}"
        );
        let flat = [at(60.0, 1.0); 15];
        assert_eq!(find_jumps(&flat, 10.0), Jumps { page: None, are_clear: true });
        let blurred = [at(60.0, 10.0); 15];
        assert!(!find_jumps(&blurred, 10.0).are_clear);
    }
}
