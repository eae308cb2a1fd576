//! Mapping of chunks: their place follows from the address, or from the order of writes
//! (PARALLELISM 4.4).

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info};
use units::{IoOp, Nanos};

use super::chunk_size::CLIP;
use super::inside::{self, Area, Burst, ByAddress, Order};
use super::interleaving::{self, Chunks};
use super::{Experiment, Group};
use crate::analysis::cells::Cells;
use crate::analysis::estimate::Estimate;
use crate::analysis::periods::gcd;
use crate::bench::{Bench, Limit, closed};
use crate::error::ProbeError;
use crate::finding::{Axis, Chart, Finding, Value};
use crate::known::Known;

const NAME: &str = "mapping";

/// Mapping by address (LBA) or by the order of writes.
///
/// As PARALLELISM does: chunks of an area are written at random, each once and only once. Then
/// reads a multiple of the units apart are made, by address and in the order in which the chunks
/// were written. Under a mapping by address the first still meet in one unit, under one by write
/// order the second do. As in [`interleaving`] the decision rests on pairs of reads at a time; the
/// strided reads of figure 4 are measured too. The area is up to 1024 MB, as in the paper, or what
/// can be written in the time there is.
pub(super) const ENTRY: Experiment = Experiment {
    info: Info {
        name: NAME,
        aliases: &["mapping_policy"],
        summary: "whether its address or the order of writes says where a chunk lies: conflicts \
                  after writing at random",
        source: "PARALLELISM 4.4, figure 4",
        params: &[],
    },
    group: Group::Internals,
    writes: true,
    is_quick: true,
    weight: 1.0,
    after: &[super::chunk_size::ENTRY.info.name, interleaving::ENTRY.info.name],
    body: run,
};

/// Chunks in the order in which they were written.
struct ByWrites {
    places: ByAddress,
    written: Vec<u64>,
}

impl Order for ByWrites {
    fn count(&self) -> u64 {
        self.written.len() as u64
    }

    fn offset(&self, number: u64) -> u64 {
        self.places.offset(self.written[number as usize])
    }
}

fn run(bench: &mut Bench<'_>, _args: &Args, known: &Known) -> Result<Finding, ProbeError> {
    let mut random = inside::random(bench);
    let (area, chunks) = interleaving::prepare(bench, NAME, known, &mut random)?;
    let whole = ByAddress::new(&area, chunks.bytes, chunks.phase);
    // Whether these are all units does not matter: what is measured first is whether chunks so far
    // apart hinder each other.
    let units = match known.number("parallel_units") {
        Some(units) => Some(units as u64),
        None => {
            let most = (whole.count / 4).min(64) as usize;
            let (levels, _) = interleaving::find_units(
                bench,
                &mut random,
                &whole,
                chunks.bytes,
                most,
                bench.part_of_budget(8),
            )?;
            levels.periods.last().map(|&units| units as u64)
        }
    };
    let mut finding = Finding::default();
    let Some(units) = units.filter(|&units| units > 1 && 4 * units < whole.count) else {
        let why = "no distance is known at which reads hinder each other more than at others, so \
                   that it cannot be seen where chunks lie";
        finding.values.push(Value::not_found("mapping", why));
        return Ok(finding);
    };
    let time = bench.part_of_budget(16);
    let before = measure_conflict(bench, &mut random, &whole, chunks.bytes, units, None, time)?;
    let written = write_at_random(bench, &mut random, &area, &chunks, units)?;
    let by_address = ByAddress { count: written.count(), ..whole };
    let after_address = measure_conflict(
        bench,
        &mut random,
        &by_address,
        chunks.bytes,
        units,
        Some(&before),
        time,
    )?;
    let after_writes =
        measure_conflict(bench, &mut random, &written, chunks.bytes, units, Some(&before), time)?;
    finding.values.push(decide(&before, &after_address, &after_writes, chunks.is_sure));
    for (name, title, chart) in [
        (
            "stride_by_address",
            "Strided reads by address, after writing at random",
            strides(bench, &mut random, &by_address, &chunks, units)?,
        ),
        (
            "stride_by_write_order",
            "Strided reads in the order of the writes",
            strides(bench, &mut random, &written, &chunks, units)?,
        ),
    ] {
        finding.charts.push(Chart { name: name.to_owned(), title: title.to_owned(), ..chart });
    }
    finding.notes.push(format!(
        "{} chunks of {} bytes were written at random, each once",
        written.count(),
        chunks.bytes
    ));
    Ok(finding)
}

/// Measures the time by which a pair of reads takes longer a multiple of the units apart than at
/// other distances, in nanoseconds: until it is known as exactly as a twentieth of what it was
/// `before`.
fn measure_conflict(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &impl Order,
    chunk: u64,
    units: u64,
    before: Option<&Estimate>,
    time: Nanos,
) -> Result<Estimate, ProbeError> {
    let sector = u64::from(bench.device().limits.sector_bytes);
    let others: Vec<u64> =
        (1..units).filter(|&distance| gcd(distance as usize, units as usize) == 1).collect();
    let rows = (order.count() / units / 2).clamp(1, 16);
    let mut cells = Cells::new(2, CLIP);
    let (start, mut rounds) = (bench.now(), 0);
    loop {
        let mut bursts: Vec<Burst<2>> = Vec::with_capacity(128);
        for _ in 0..64 {
            let row = random.random_range(0..rows);
            let other = others[random.random_range(0..others.len())];
            bursts.push(Burst {
                condition: 0,
                offsets: inside::pair_at(random, order, row * units + other, chunk, sector),
            });
            bursts.push(Burst {
                condition: 1,
                offsets: inside::pair_at(random, order, (row + 1) * units, chunk, sector),
            });
        }
        inside::play_round(bench, random, &mut bursts, sector, &mut cells)?;
        rounds += 1;
        let estimates = cells.estimates();
        let conflict = estimates[1].minus(&estimates[0]);
        let whole = before.map_or(conflict.mean, |before| before.mean);
        let is_exact = conflict.error < whole.abs() / 20.0;
        if (is_exact && rounds >= 4) || rounds >= 400 || (rounds >= 4 && bench.now() - start > time)
        {
            return Ok(conflict);
        }
    }
}

/// Writes chunks at random, each once and only once, one after the other.
fn write_at_random(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    area: &Area,
    chunks: &Chunks,
    units: u64,
) -> Result<ByWrites, ProbeError> {
    const PILOT: u64 = 256;
    let places = ByAddress::new(area, chunks.bytes, chunks.phase);
    // By write order, chunks begin where the order of writes says, wherever that is in the area.
    if chunks.phase > 0 {
        write(bench, vec![area.bytes - chunks.phase], chunks.phase)?;
    }
    let pilot: Vec<u64> = (0..PILOT.min(places.count))
        .map(|_| places.offset(random.random_range(0..places.count)))
        .collect();
    let (start, count) = (bench.now(), pilot.len() as u64);
    write(bench, pilot, chunks.bytes)?;
    let each = ((bench.now() - start) / count).max(1);
    let least = 64 * units;
    let fits = (1_u64 << 30) / chunks.bytes;
    let count = (bench.part_of_budget(4) / each).min(fits).max(least).min(places.count);
    let mut written: Vec<u64> = (0..count).collect();
    written.shuffle(random);
    let offsets = written.iter().map(|&number| places.offset(number)).collect();
    write(bench, offsets, chunks.bytes)?;
    let calm = bench.part_of_budget(8);
    inside::calm_down(bench, area, calm)?;
    Ok(ByWrites { places, written })
}

fn write(bench: &mut Bench<'_>, offsets: Vec<u64>, length: u64) -> Result<(), ProbeError> {
    let count = offsets.len() as u64;
    let source = bench.at_offsets(IoOp::Write, offsets, length as u32);
    bench.play(vec![closed(source, 1)], Limit::requests(count).after(0))?;
    bench.flush()
}

fn decide(before: &Estimate, by_address: &Estimate, by_writes: &Estimate, is_known: bool) -> Value {
    let share = |estimate: &Estimate| {
        [estimate.low(), estimate.mean, estimate.high()].map(|time| time / before.mean)
    };
    let (address, writes) = (share(by_address), share(by_writes));
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let why = format!(
        "reads a multiple of the units apart hindered each other by {} us before; after writing at \
         random by {} of that by address, by {} in the order of the writes",
        inside::micros(before.mean),
        percent(address[1]),
        percent(writes[1])
    );
    let is_there = |share: [f64; 3]| share[0] > 0.6;
    let is_gone = |share: [f64; 3]| share[2] < 0.3;
    if before.in_errors() < 6.0 {
        return Value::not_found("mapping", format!("{why}; too little to tell"));
    }
    if address[1].max(writes[1]) < 0.3 {
        return Value::not_found("mapping", format!("{why}; neither says where chunks lie"));
    }
    let (word, is_sure) = if address[1] >= writes[1] {
        ("lba", is_there(address) && is_gone(writes))
    } else {
        ("write_order", is_there(writes) && is_gone(address))
    };
    Value::word("mapping", word, why).sure_if(is_sure && is_known)
}

/// Figure 4.
fn strides(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    order: &impl Order,
    chunks: &Chunks,
    units: u64,
) -> Result<Chart, ProbeError> {
    let skips: Vec<u64> = (1..=(2 * units).max(40).min(order.count() / 4)).collect();
    let time = bench.part_of_budget(16);
    let mut series = Vec::new();
    for jobs in [2, 4] {
        series.push(inside::strides(bench, random, order, chunks.bytes, jobs, &skips, time)?.1);
    }
    Ok(Chart {
        name: String::new(),
        title: String::new(),
        x: Axis::linear("stride distance", "chunks"),
        y: Axis::linear("bandwidth", "MB/s"),
        series,
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    fn estimate(mean: f64) -> Estimate {
        Estimate { mean, error: 1.0, freedom: f64::INFINITY }
    }

    #[test]
    fn what_is_left_of_the_conflict_decides() {
        let decided = |address: f64, writes: f64| {
            decide(&estimate(50.0), &estimate(address), &estimate(writes), true)
        };
        let value = decided(49.0, 1.0);
        assert_eq!((value.word.as_deref(), value.verdict), (Some("lba"), Verdict::Sure));
        let value = decided(0.5, 48.0);
        assert_eq!((value.word.as_deref(), value.verdict), (Some("write_order"), Verdict::Sure));
        let value = decided(25.0, 20.0);
        assert_eq!((value.word.as_deref(), value.verdict), (Some("lba"), Verdict::Unsure));
        assert_eq!(decided(1.0, 0.0).verdict, Verdict::NotFound);
    }
}
