//! Test for a shared channel: a read whose command is sent just when the data of another one is on
//! its way waits for that data on a channel that they share, long before either comes to the link.
//!
//! The time at which the data was on its way follows from the end of the other read. So it is not
//! the mean latency of reads that is compared, but its change with the time by which the other one
//! ended later: the one that follows waits for as long as the data still took ([`Curve`]). The time
//! from which on it waits is told by two reads in one unit, as they surely wait for each other; in
//! drives whose dies read on while they send (cache mode), these also tell for how long. Only there
//! can it be told that nothing is shared: elsewhere a transfer may be shorter than any that is
//! looked for, which begin with those of a channel [`FASTEST`] times as fast as what the drive
//! sends from its memory.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use units::Nanos;

use super::{Distances, FASTEST, Judged, Pilot, Question, Units, random_chunk, read};
use crate::analysis::estimate::Estimate;
use crate::analysis::waits::{Curve, Saw};
use crate::bench::Bench;
use crate::error::ProbeError;
use crate::experiments::chunk_size::CLIP;
use crate::experiments::inside::{self, Burst, Lagged, Order as _};

/// Reads in a row, each of which follows the one before.
const READS: usize = 6;
/// Most time that a drive takes for a sector from its memory, as a multiple of the link's time.
const MEMORY: f64 = 1.5;
/// Fewest reads in one unit that tell from when on they wait.
const FEWEST: f64 = 1000.0;
/// Bins of curves.
const BINS: usize = 600;
/// A wait is not there if it is less than such a share of what it would be, which is so many
/// standard errors.
const LEAST_SHARE: f64 = 0.4;
const LEAST_ERRORS: f64 = 6.0;
/// As a share of what the second of two reads in one unit waits: what a transfer takes at most, and
/// how exactly it ends then, for units to be dies.
const MOST_TRANSFER: f64 = 0.75;
/// The same with twice the standard deviation of a read: noise makes transfers look shorter than
/// they are.
const MOST_BLURRED: f64 = 0.9;
const SAME: f64 = 0.08;

/// Sectors of two units in turn, each of which is asked for about when the one before has been read
/// and is sent.
pub(super) struct Following<'a> {
    units: Units,
    pilot: &'a Pilot,
    distances: Distances,
    /// Lags vary by so much to either side, in nanoseconds.
    half: f64,
    /// The least that a sector is looked for to take on a channel, in nanoseconds, if what it takes
    /// from memory is known.
    fastest: Option<f64>,
    /// Latencies over how much later the one before ended than they were sent: for each distance,
    /// and in one unit.
    curves: Vec<Curve>,
    in_one: Curve,
    /// Latencies of the first reads of all, which follow none.
    first: (f64, f64),
}

impl<'a> Following<'a> {
    /// # Errors
    /// Those of [`Bench::play`].
    pub fn new(
        bench: &mut Bench<'_>,
        random: &mut Pcg64Mcg,
        units: &Units,
        pilot: &'a Pilot,
    ) -> Result<Self, ProbeError> {
        let distances = Distances::of(units);
        let wait = pilot.spacing.mean;
        // Not before the drive has taken the first command.
        let half = pilot.spread.max(1000.0).min((wait - pilot.gap) / 2.0).max(1.0);
        let reach = 4.0 * pilot.spread + half + pilot.gap;
        let curve = || Curve::new(pilot.single - wait - reach, pilot.single - wait + reach, BINS);
        Ok(Self {
            units: *units,
            pilot,
            half,
            fastest: memory(bench, random, units)?.map(|memory| memory / (MEMORY * FASTEST)),
            curves: distances.divisors.iter().map(|_| curve()).collect(),
            in_one: curve(),
            distances,
            first: (0.0, 0.0),
        })
    }

    /// Returns true if units read one thing after the other, by how two reads in one wait for each
    /// other.
    ///
    /// A die waits until all has been sent, or in cache mode until it has been read. Where
    /// transfers take longer than reads and several dies are hidden behind a channel, the second
    /// read waits for the channel only from when the first has been read, which is earlier than a
    /// transfer takes, and from then on for as long as that is.
    fn are_dies(&self, saw: &Saw) -> bool {
        let wait = self.pilot.spacing.mean;
        let [begin, tolerance] = [self.pilot.single - saw.begin.mean, SAME * wait];
        match saw.length {
            None => (begin - wait).abs() < tolerance,
            Some(length) => {
                (begin - length - wait).abs() < tolerance
                    && length < MOST_TRANSFER * wait
                    && length + 2.0 * self.pilot.spread < MOST_BLURRED * wait
            }
        }
    }

    /// Gives times at which the data of the one before may have begun to be sent, and for how long,
    /// in nanoseconds: a shared channel is one of these.
    ///
    /// If dies read on while they send, but too little for that to show, two in one unit seem to
    /// wait only from later on, at most from when it was sent.
    fn transfers(&self, saw: &Saw) -> Vec<(f64, f64)> {
        let begin = saw.begin.mean;
        let (least, factors) = match (saw.length, self.fastest) {
            (Some(length), _) => {
                return about(begin + length, length, self.pilot.spread + self.half);
            }
            (None, Some(fastest)) => (fastest, [1.0, 1.6, 2.5, 4.0, 6.0]),
            (None, None) => {
                ((0.2 * self.pilot.spacing.mean).min(6000.0), [0.06, 0.12, 0.25, 0.5, 1.0])
            }
        };
        let lengths = factors.map(|factor: f64| factor * least.max(1.0));
        let earlier = [0.0, 0.25, 0.5, 0.75, 1.0];
        lengths
            .into_iter()
            .flat_map(|length| earlier.map(|share| (begin - share * length, length)))
            .collect()
    }

    /// Judges the waits, if data was sent from this time on for so long.
    fn judge_transfer(&self, saw: &Saw, begin: f64, length: f64) -> Judged {
        let reach = (2.0 * length).max(self.pilot.spread);
        let shares: Option<Vec<Estimate>> =
            self.curves.iter().map(|curve| curve.share(begin, length, reach)).collect();
        let Some(shares) = shares else { return self.distances.unknown() };
        let count = self.curves.iter().map(Curve::count).sum();
        let times: Vec<Estimate> = shares.iter().map(|share| share.times(length / 2.0)).collect();
        let is_known = saw.length.is_some() || self.fastest.is_some();
        let mut judged =
            self.distances.judge(&times, count, if is_known { length / 2.0 } else { 0.0 });
        let is_none =
            |share: &Estimate| share.high() < LEAST_SHARE && share.error * LEAST_ERRORS < 1.0;
        let is_exact = saw.length.is_some() || 4.0 * saw.begin.error < length;
        let are_dies = self.are_dies(saw);
        let sharing = &mut judged.sharing;
        sharing.most_added = times.iter().map(Estimate::high).fold(0.0, f64::max);
        sharing.are_dies = are_dies;
        // Dies that read on for too short to be seen send their next command before their data:
        // when that is sent is not known well enough then.
        sharing.is_excluded = saw.length.is_some()
            && is_exact
            && are_dies
            && sharing.levels.periods.is_empty()
            && shares.iter().all(is_none);
        judged.settled()
    }
}

impl Question<READS> for Following<'_> {
    fn conditions(&self) -> usize {
        self.curves.len() + 1
    }

    fn draw(&self, random: &mut Pcg64Mcg, condition: usize) -> [Lagged; READS] {
        let (Units { order, count, sector, .. }, distances) = (self.units, &self.distances);
        let (is_one, row, rows) =
            (condition == self.curves.len(), count as u64, distances.rows.max(READS as u64 / 2));
        let [other, _] = distances.draw(random, if is_one { 0 } else { condition }, count);
        let other = other % row;
        let first = random_chunk(random, &order, other + rows * row);
        let (from, mut lag) = (random.random_range(0..=rows), 0.0);
        std::array::from_fn(|index| {
            let pair = (from + index as u64 / 2) % (rows + 1) * row;
            let number = match (is_one, index % 2) {
                // Two in one unit, then two in the next.
                (true, 0) => first + (index as u64 / 2 % 2) * other + pair,
                (true, _) => {
                    first + (index as u64 / 2 % 2) * other + (pair + row) % ((rows + 1) * row)
                }
                (false, turn) => first + turn as u64 * other + pair,
            };
            if index > 0 {
                let pause = if is_one && index % 2 == 0 {
                    self.pilot.spacing.mean + 4.0 * self.pilot.spread
                } else {
                    0.0
                };
                lag +=
                    self.pilot.spacing.mean + pause + random.random_range(-self.half..=self.half);
            }
            read(random, &order, number, sector, lag as Nanos)
        })
    }

    fn add_round(
        &mut self,
        groups: &[(usize, [Lagged; READS])],
        latencies: &[[f64; READS]],
    ) -> usize {
        let is_read =
            |latency: f64| latency > self.pilot.least && latency < CLIP * self.pilot.single;
        let mut counted = 0;
        for ((condition, reads), latencies) in groups.iter().zip(latencies) {
            // One that a cache answers meanwhile may hold the one before up on the link.
            let is_free = |index: usize| latencies.get(index + 1).is_none_or(|&next| is_read(next));
            if is_read(latencies[0]) && is_free(0) {
                self.first.0 += 1.0;
                self.first.1 += latencies[0];
                counted += 1;
            }
            for index in 1..READS {
                if !is_read(latencies[index - 1]) || !is_read(latencies[index]) || !is_free(index) {
                    continue;
                }
                let later =
                    reads[index - 1].lag as f64 + latencies[index - 1] - reads[index].lag as f64;
                match self.curves.get_mut(*condition) {
                    Some(curve) => curve.add(later, latencies[index]),
                    None if index % 2 == 1 => self.in_one.add(later, latencies[index]),
                    None => {}
                }
            }
        }
        counted
    }

    fn judge(&self) -> Judged {
        let (count, sum) = self.first;
        if self.in_one.count() < FEWEST {
            return self.distances.unknown();
        }
        let Some(saw) = self.in_one.saw(sum / count) else {
            return self.distances.unknown();
        };
        let judged: Vec<Judged> = self
            .transfers(&saw)
            .into_iter()
            .map(|(begin, length)| self.judge_transfer(&saw, begin, length))
            .collect();
        let is_found = |judged: &&Judged| !judged.sharing.levels.periods.is_empty();
        let best = judged.iter().filter(is_found).max_by(|a, b| a.margin().total_cmp(&b.margin()));
        let are_excluded = judged.iter().all(|judged| judged.sharing.is_excluded);
        best.unwrap_or(&judged[0]).clone().excluded_if(are_excluded)
    }
}

/// Transfers that end about then and take about as long: how exactly that is known is not. What is
/// there has to be none of them to be excluded. Latencies are spread over times that vary by
/// `spread`.
fn about(end: f64, length: f64, spread: f64) -> Vec<(f64, f64)> {
    let off = length.min(2.0 * spread);
    let ends = [0.0, -0.1, 0.1, -0.2, 0.2, -0.35, 0.35].map(|share| end + share * off);
    let lengths = [1.0, 0.7, 1.3].map(|factor| factor * length);
    ends.into_iter().flat_map(|end| lengths.map(|length| (end - length, length))).collect()
}

/// Measures the time of one more sector from the drive's memory, in nanoseconds: by reads of data
/// that was just read, if a cache answers them.
fn memory(
    bench: &mut Bench<'_>,
    random: &mut Pcg64Mcg,
    units: &Units,
) -> Result<Option<f64>, ProbeError> {
    const SECTORS: u64 = 8;
    const PLACES: usize = 16;
    let Units { order, sector, wait, .. } = *units;
    let last = (order.count() * order.chunk / sector).saturating_sub(SECTORS);
    let mut latencies = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..8 {
        let places: Vec<u64> =
            (0..PLACES).map(|_| order.offset(0) + random.random_range(0..=last) * sector).collect();
        for (latencies, sectors) in latencies.iter_mut().zip([SECTORS, SECTORS, 1]) {
            let mut bursts: Vec<Burst<1>> =
                places.iter().map(|&place| Burst { condition: 0, offsets: [place] }).collect();
            latencies.extend(
                inside::sample_round(bench, random, &mut bursts, sectors * sector)?
                    .into_iter()
                    .map(|(_, latency)| latency),
            );
        }
    }
    let [first, again, one] = latencies.map(|mut latencies| {
        latencies.sort_by(f64::total_cmp);
        latencies[latencies.len() / 2]
    });
    Ok((again < first - wait / 2.0 && again > one).then(|| (again - one) / (SECTORS - 1) as f64))
}
