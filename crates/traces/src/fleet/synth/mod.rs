//! Synthetic fleets, written in Alibaba's format: volumes of very different rate, share of writes,
//! footprint, pattern and time of day, in one trace whose times rise.
//!
//! Rates of volumes follow Zipf's law. Time goes in slices of ten minutes; in each, the volume of
//! the next burst is drawn in proportion to its rate at that time of day. Everything is drawn from
//! one seed with exact arithmetic, so that a fleet is the same to the byte on any machine. Memory
//! does not grow with the requests.

mod lines;
mod volume;

use std::path::{Path, PathBuf};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use units::Progress;

use crate::error::TraceError;
use crate::synth::Alias;
use lines::Lines;
use volume::{PAGE_BYTES, Volume};

/// Slices of time, in microseconds, within which rates do not change.
const SLICE_US: u64 = 600 * 1_000_000;
const DAY_SECONDS: u64 = 86_400;
/// When the trace begins: 2020-01-01 in China, as the one that it is like.
const START_US: u64 = 1_577_808_000_000_000;
/// Requests after which somebody may have asked to stop.
const CHECKED_REQUESTS: u64 = 1 << 16;
/// Requests of a burst follow each other within so many microseconds.
const WITHIN_BURST_US: u64 = 16;

/// A fleet that is asked for.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// The trace, compressed as its ending says; with several files, their number is put before the
    /// endings.
    pub out: PathBuf,
    /// Files, which follow each other in time.
    pub files: u32,
    /// Volumes.
    pub volumes: u32,
    /// Requests of all of them.
    pub requests: u64,
    /// Ten minutes of time.
    pub slices: u64,
    /// What everything is drawn from.
    pub seed: u64,
    /// Exponent of Zipf's law over the rates of volumes; 0 for all alike.
    pub skew: f64,
    /// Bytes of the largest footprint.
    pub largest_bytes: u64,
}

/// A fleet that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetDone {
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Requests by operation: reads, writes.
    pub requests: [u64; 2],
    /// Bytes of them.
    pub bytes: [u64; 2],
    /// Volumes that have requests.
    pub volumes: u32,
}

/// Names of the files of a fleet.
#[must_use]
pub fn fleet_files(out: &Path, files: u32) -> Vec<PathBuf> {
    if files <= 1 {
        return vec![out.to_owned()];
    }
    let name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (stem, endings) = name.split_at(name.find('.').unwrap_or(name.len()));
    (0..files).map(|number| out.with_file_name(format!("{stem}-{number:03}{endings}"))).collect()
}

/// Writes a fleet. Progress counts requests.
///
/// # Errors
/// [`TraceError::Io`] if a file cannot be written, [`TraceError::Cancelled`]; then the file that
/// was being written is not there.
pub fn write_fleet(options: &FleetOptions, progress: &Progress) -> Result<FleetDone, TraceError> {
    progress.set_total(options.requests);
    let mut fleet = Fleet::new(options);
    let mut done = FleetDone::default();
    let files = fleet_files(&options.out, options.files);
    for (number, path) in files.iter().enumerate() {
        let share = u128::from(options.requests) * (number as u128 + 1);
        let until = (share / files.len() as u128) as u64;
        let mut lines = Lines::create(path)?;
        let written = fleet.write(until, &mut lines, &mut done, progress);
        // Why the writer stopped says more than that it takes no more.
        lines.finish(written.is_ok())?;
        written?;
    }
    done.files = files;
    done.volumes = fleet.has_requests.iter().filter(|has| **has).count() as u32;
    Ok(done)
}

struct Fleet<'a> {
    options: &'a FleetOptions,
    rng: Pcg64Mcg,
    volumes: Vec<Volume>,
    has_requests: Vec<bool>,
    /// Mean rates of volumes.
    rates: Vec<f64>,
    /// The slice that is being written; its volumes by rate; requests up to its begin and end.
    slice: u64,
    alias: Alias,
    from: u64,
    until: u64,
    written: u64,
    burst: Burst,
    /// Sums of rates of the slices before, and of all of them.
    rates_before: f64,
    all_rates: f64,
}

impl<'a> Fleet<'a> {
    fn new(options: &'a FleetOptions) -> Self {
        let largest_pages = (options.largest_bytes / PAGE_BYTES).max(1);
        let largest_pages = 1 << largest_pages.ilog2();
        let draw = |number| Volume::draw(options.seed, number, largest_pages);
        let volumes: Vec<Volume> = (0..options.volumes).map(draw).collect();
        let rates: Vec<f64> =
            (1..=options.volumes).map(|rank| libm::pow(f64::from(rank), -options.skew)).collect();
        let mut fleet = Self {
            options,
            rng: Pcg64Mcg::seed_from_u64(options.seed),
            has_requests: vec![false; volumes.len()],
            volumes,
            rates,
            slice: 0,
            alias: Alias::new(&[1.0]),
            from: 0,
            until: 0,
            written: 0,
            burst: Burst { volume: 0, left: 0, at_us: 0, latest_us: 0, random: 0 },
            rates_before: 0.0,
            all_rates: 0.0,
        };
        fleet.all_rates = (0..options.slices).map(|slice| fleet.rate_of(slice)).sum();
        fleet.begin_slice();
        fleet
    }

    fn second_of_day(slice: u64) -> u64 {
        slice * (SLICE_US / 1_000_000) % DAY_SECONDS
    }

    fn rate_of(&self, slice: u64) -> f64 {
        let second = Self::second_of_day(slice);
        let rates = self.rates.iter().zip(&self.volumes);
        rates.map(|(rate, volume)| rate * volume.rate(second)).sum()
    }

    /// Takes up a slice: how many requests it has, and the volumes' chances.
    fn begin_slice(&mut self) {
        let second = Self::second_of_day(self.slice);
        let chances: Vec<f64> = self
            .rates
            .iter()
            .zip(&self.volumes)
            .map(|(rate, volume)| rate * volume.rate(second) / volume.mean_burst())
            .collect();
        self.alias = Alias::new(&chances);
        self.rates_before += self.rate_of(self.slice);
        self.from = self.until;
        let share = (self.rates_before / self.all_rates).min(1.0);
        let is_last = self.slice + 1 == self.options.slices;
        let requests = self.options.requests;
        self.until = if is_last { requests } else { (share * requests as f64) as u64 };
    }

    /// Time of a request of the slice, were they evenly apart.
    fn time_of(&self, request: u64, within: u64) -> u64 {
        let count = u128::from(self.until - self.from).max(1);
        let of_slice = u128::from(request - self.from) * u128::from(SLICE_US) + u128::from(within);
        START_US + self.slice * SLICE_US + (of_slice / count) as u64
    }

    /// Writes requests until there are so many.
    fn write(
        &mut self,
        until: u64,
        lines: &mut Lines,
        done: &mut FleetDone,
        progress: &Progress,
    ) -> Result<(), TraceError> {
        let mut reported = self.written;
        while self.written < until {
            if self.burst.left > 0 {
                self.write_request(lines, done)?;
            } else if self.written < self.until {
                self.begin_burst();
            } else {
                self.slice += 1;
                self.begin_slice();
            }
            if self.written - reported >= CHECKED_REQUESTS {
                progress.advance(self.written - reported)?;
                reported = self.written;
            }
        }
        progress.advance(self.written - reported)?;
        Ok(())
    }

    fn begin_burst(&mut self) {
        let volume = self.alias.pick(self.rng.next_u64());
        let random = self.rng.next_u64();
        let longest = self.volumes[volume].longest_burst;
        let requests = (1 + (random >> 40) % longest).min(self.until - self.written);
        let within = ((u128::from(random << 24) * u128::from(SLICE_US)) >> 64) as u64;
        let at_us = self.time_of(self.written, within).max(self.burst.at_us);
        // The next burst begins here or later.
        let latest_us = self.time_of(self.written + requests, 0).max(at_us);
        self.burst = Burst { volume, left: requests, at_us, latest_us, random };
        self.has_requests[volume] = true;
    }

    #[inline]
    fn write_request(&mut self, lines: &mut Lines, done: &mut FleetDone) -> Result<(), TraceError> {
        let burst = &mut self.burst;
        let (is_write, page, pages) = self.volumes[burst.volume].request(&mut self.rng);
        let (offset, length) = (page * PAGE_BYTES, pages * PAGE_BYTES);
        lines.line(burst.volume as u32, is_write, offset, length, burst.at_us)?;
        done.requests[usize::from(is_write)] += 1;
        done.bytes[usize::from(is_write)] += length;
        self.written += 1;
        burst.left -= 1;
        if burst.left > 0 {
            let apart = (page ^ burst.random) % WITHIN_BURST_US;
            burst.at_us = (burst.at_us + apart).min(burst.latest_us);
        }
        Ok(())
    }
}

/// Requests of a volume that follow each other.
struct Burst {
    volume: usize,
    left: u64,
    at_us: u64,
    latest_us: u64,
    random: u64,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sha2::{Digest, Sha256};
    use tempfile::TempDir;

    use super::*;
    use crate::open::{OpenOptions, open};

    fn asked(folder: &TempDir, name: &str) -> FleetOptions {
        FleetOptions {
            out: folder.path().join(name),
            files: 1,
            volumes: 50,
            requests: 40_000,
            slices: 288,
            seed: 7,
            skew: 1.0,
            largest_bytes: 1 << 30,
        }
    }

    #[test]
    fn times_rise_and_every_request_is_within_its_volume() {
        let folder = TempDir::new().unwrap();
        let options = asked(&folder, "fleet.csv.zst");
        let done = write_fleet(&options, &Progress::default()).unwrap();
        let mut trace = open(&done.files[0], &OpenOptions::default()).unwrap();
        let mut all = Vec::new();
        while trace.read_batch(&mut all, 10_000).unwrap() > 0 {}
        assert_eq!(trace.format().info.name, "alibaba");
        assert_eq!(all.len() as u64, options.requests);
        assert!(all.is_sorted_by_key(|one| one.time_ns));
        assert!(all.last().unwrap().time_ns > 47 * 3_600_000_000_000);
        assert!(all.iter().all(|one| one.offset + u64::from(one.length) <= 1 << 30));
        let count = |volume| all.iter().filter(|one| one.stream == volume).count() as f64;
        let ratio = count(0) / count(9);
        assert!((7.0..13.0).contains(&ratio), "Zipf's law says 10, found {ratio}");
    }

    #[test]
    fn a_seed_gives_the_same_bytes_however_many_files() {
        let folder = TempDir::new().unwrap();
        let text = |name: &str, files: u32, seed: u64| {
            let options = FleetOptions { files, seed, ..asked(&folder, name) };
            let done = write_fleet(&options, &Progress::default()).unwrap();
            assert_eq!(done.files.len() as u32, files);
            done.files.iter().map(|file| fs::read_to_string(file).unwrap()).collect::<String>()
        };
        let one = text("one.csv", 1, 7);
        assert_eq!(one, text("three.csv", 3, 7));
        assert_ne!(one, text("other.csv", 1, 8));
        let hash: String = Sha256::digest(&one)[..8].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hash, "b4e335d55503028d", "the fleet of a seed never changes");
    }

    #[test]
    fn a_fleet_that_is_stopped_leaves_no_file() {
        let folder = TempDir::new().unwrap();
        let progress = Progress::default();
        progress.cancel();
        let stopped = write_fleet(&asked(&folder, "fleet.csv.gz"), &progress);
        assert!(matches!(stopped, Err(TraceError::Cancelled(_))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
