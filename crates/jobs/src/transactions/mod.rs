//! `transactions`: transactions in a closed loop on a device, as a database's clients see them.

mod outcome;
mod settings;
#[cfg(test)]
mod tests;

use std::path::Path;

use ::transactions::{
    Amount, Granularity, LogSettings, Measured, PlayError, RULES, Settings, Unfit, Writer, load,
    play,
};
use block::{BlockDevice, Part};
use layers::{Driver, Stack};
use registry::Spec;
use traces::accesses::{
    AccessTrace, BenchmarkLoad, Database, REGISTRY, TraceCounts, TransactionSource,
};
use units::{Nanos, Progress};

use crate::device::Use;
use crate::facts::Facts;
use crate::stacks::{DIRECT, open_blank};
use crate::values::{CountOrShare, Seconds};
use crate::{Found, Job, JobError};
use outcome::{Figures, TransactionsPlayed};
use settings::Locks;

pub use settings::Transactions;

/// Measured if neither their number nor a time is given.
const DEFAULT_TRANSACTIONS: u64 = 100_000;
/// Bytes of the log record of one changed page.
const RECORD_BYTES: u32 = 120;
/// The shortest time between two rounds of the background writer, in nanoseconds.
const LEAST_INTERVAL: Nanos = 1000;

impl Job for Transactions {
    type Outcome = TransactionsPlayed;

    fn run(&self, progress: &Progress) -> Result<Found<TransactionsPlayed>, JobError> {
        self.check()?;
        let Load { mut source, trace } = self.load()?;
        let database = source.database().clone();
        let mut opened = self.open(progress)?;
        let info = opened.info().clone();
        let (offset, below) = self.on.part("on", &info)?;
        let stack = self.stack(&below)?;
        let length = below.limits.capacity_bytes;
        let settings = self.settings(
            &database,
            stack.as_ref().map_or(length, |stack| stack.limits().capacity_bytes),
        )?;
        let mut part = Part::new(&mut *opened, offset, length);
        let (measured, played) = match stack {
            None => self.play(&mut part, &mut *source, &settings, progress),
            Some(stack) => {
                let mut driver = Driver::new(&mut part, stack);
                let (measured, played) = self.play(&mut driver, &mut *source, &settings, progress);
                // Layers may have commands of their own under way, which the device must not keep.
                let settled = driver.settle().map_err(PlayError::from);
                (measured, played.and(settled))
            }
        };
        let (measured, ended, error) = match (measured, played) {
            (Some(measured), Ok(())) => (measured, None, None),
            (Some(measured), Err(PlayError::Cancelled(_))) => (measured, Some("stopped"), None),
            (Some(measured), Err(error @ PlayError::Device(_))) => {
                (measured, Some("failed"), Some(error.to_string()))
            }
            (_, Err(error)) => return Err(play_error(error)),
            (None, Ok(())) => unreachable!("what was played was measured"),
        };
        let outcome = TransactionsPlayed {
            database: (&database).into(),
            counts: trace.as_ref().map(|&(counts, _)| counts.into()),
            source_sha256: trace.map(|(_, sha256)| sha256),
            about: (&info).into(),
            offset_bytes: offset,
            length_bytes: length,
            locks: self.locks_on(&database),
            pool_pages: settings.pool_pages,
            ended: ended.map(str::to_owned),
            error,
            figures: Figures::of(&measured, &database.kinds, settings.clients),
        };
        let tables = outcome::tables(&measured, &database.kinds)?;
        Ok(Found { outcome, tables, texts: Vec::new() })
    }
}

/// Transactions that are played.
struct Load {
    source: Box<dyn TransactionSource>,
    /// Counts of a trace, and the SHA-256 of its file.
    trace: Option<(TraceCounts, String)>,
}

impl Transactions {
    /// Refuses what is wrong whatever the device and the source are.
    fn check(&self) -> Result<(), JobError> {
        let clients = self.clients.0;
        if !(1..=65_536).contains(&clients) {
            return Err(JobError::at("clients", format!("{clients}: it must be 1 to 65536")));
        }
        if matches!(self.pool, CountOrShare::Count(0) | CountOrShare::Share(0.0)) {
            return Err(JobError::at("pool", "0: a pool has at least one page"));
        }
        if self.transactions.is_some_and(|count| count.0 == 0) {
            let said = "0: nothing would be played; write 1 or more";
            return Err(JobError::at("transactions", said));
        }
        if self.stack != DIRECT {
            layers::parse(&self.stack).map_err(|error| JobError::at("stack", error))?;
        } else if self.facts.is_some() {
            return Err(JobError::at("facts", "it is for layers, so give --stack too"));
        }
        Ok(())
    }

    /// Finds what the source means: a benchmark by its specification, or a trace of page accesses.
    fn load(&self) -> Result<Load, JobError> {
        let source = self.source.as_str();
        let name = source.split('(').next().unwrap_or_default();
        if REGISTRY.iter().any(|entry| entry.info.is_called(name)) {
            let load = BenchmarkLoad::parse(source);
            let load = load.map_err(|error| JobError::at("source", error))?;
            let clients = few("clients", self.clients.0)?;
            return Ok(Load { source: load.source(clients, self.seed), trace: None });
        }
        let path = Path::new(source);
        if !path.is_file() {
            let known: Vec<&str> = REGISTRY.iter().map(|entry| entry.info.name).collect();
            let said = format!(
                "{source}: no such file, and no benchmark; benchmarks that are built in are: {}",
                known.join(", ")
            );
            return Err(JobError::at("source", said));
        }
        let trace = AccessTrace::load(path, self.repeat);
        let trace = trace.map_err(|error| JobError::at("source", error))?;
        let about = (trace.counts(), trace.source().sha256.clone());
        Ok(Load { source: Box::new(trace), trace: Some(about) })
    }

    fn open(&self, progress: &Progress) -> Result<Box<dyn BlockDevice>, JobError> {
        let access = self.on.access(self.write, &self.destroy_data);
        if access == devices::Access::ReadOnly {
            let said = format!(
                "{}: transactions write to it; add --write if what is on the device may go",
                self.on.label()
            );
            return Err(JobError::at("on", said));
        }
        let how = Use {
            access,
            seed: self.seed,
            queue_depth: (2 * self.clients.0 + 64).min(4096) as u32,
            most_bytes: 1 << 20,
            holds_data: false,
        };
        self.on.open("on", how, progress)
    }

    /// The layers over the device; none if there are none.
    fn stack(&self, below: &block::DeviceInfo) -> Result<Option<Stack>, JobError> {
        if self.stack == DIRECT {
            return Ok(None);
        }
        let facts = Facts::known(self.facts.as_ref())?;
        open_blank(&self.stack, &facts, self.seed, below.limits).map(Some)
    }

    fn locks_on(&self, database: &Database) -> Locks {
        let own = if database.rows > 0 { Locks::Row } else { Locks::Page };
        self.locks.unwrap_or(own)
    }

    /// The settings for a database on a device of so many bytes.
    fn settings(&self, database: &Database, length: u64) -> Result<Settings, JobError> {
        let spec =
            |at: &str, text: &str| Spec::parse(text).map_err(|error| JobError::at(at, error));
        let rule = spec("lock_rule", &self.lock_rule)?;
        let rule = registry::find("lock rule", RULES, |(info, _)| info, &rule);
        let (_, rule) = rule.map_err(|error| JobError::at("lock_rule", error))?;
        let pages = match self.pool {
            CountOrShare::Count(pages) => pages,
            CountOrShare::Share(share) => (share * f64::from(database.pages)).ceil() as u64,
        };
        let writer_pages = few("writer_pages", self.writer_pages.0)?;
        let interval = nanos("writer_interval", self.writer_interval.0 / 1e3)?;
        let wanted = self.transactions.map(|count| count.0);
        let wanted = wanted.or(self.seconds.is_none().then_some(DEFAULT_TRANSACTIONS));
        let before = self.warm_up.map(|count| count.0);
        let before = before.or(self.warm_up_seconds.is_none().then_some(0));
        let seconds = |seconds: Option<Seconds>| seconds.map(|seconds| seconds.0);
        Ok(Settings {
            clients: few("clients", self.clients.0)?,
            pool_pages: few("pool", pages)?,
            buffer: spec("buffer", &self.buffer)?,
            locks: match self.locks_on(database) {
                Locks::Row => Granularity::Row,
                Locks::Page => Granularity::Page,
                Locks::None => Granularity::Nothing,
            },
            rule: *rule,
            cpu: nanos("cpu", self.cpu.0 / 1e6)?,
            log: (!self.no_log).then_some(LogSettings {
                region_bytes: self.log.0,
                record_bytes: RECORD_BYTES,
                is_grouped: !self.log_each,
                is_flushed: !self.log_unflushed,
            }),
            writer: (writer_pages > 0)
                .then_some(Writer { interval: interval.max(LEAST_INTERVAL), pages: writer_pages }),
            blocked: nanos("blocked", self.blocked.0 / 1e6)?,
            part_bytes: few("part_size", self.part_size.0)?,
            offset: 0,
            length,
            seed: self.seed,
            warm_up: amount("warm_up_seconds", before, seconds(self.warm_up_seconds))?,
            measured: amount("seconds", wanted, seconds(self.seconds))?,
        })
    }

    /// Writes the database, if that is wanted and it fits, and plays; no figures if it could not be
    /// written.
    fn play(
        &self,
        device: &mut dyn BlockDevice,
        source: &mut dyn TransactionSource,
        settings: &Settings,
        progress: &Progress,
    ) -> (Option<Measured>, Result<(), PlayError>) {
        let bytes = source.database().bytes();
        if !self.no_load
            && bytes <= settings.length
            && let Err(error) = load(device, settings.offset, bytes, progress)
        {
            return (None, Err(error));
        }
        let (measured, played) = play(device, source, settings, progress);
        (Some(measured), played)
    }
}

fn play_error(error: PlayError) -> JobError {
    match error {
        PlayError::Device(_) | PlayError::Source(_) => JobError::Run(error.to_string()),
        PlayError::Spec(_) => JobError::at("buffer", error),
        PlayError::Cancelled(cancelled) => cancelled.into(),
        PlayError::Unusable { what, .. } => {
            let at = match what {
                Unfit::Clients => "clients",
                Unfit::Database => "source",
                Unfit::Log => "log",
                Unfit::Locks => "locks",
                Unfit::Device => "on",
            };
            JobError::at(at, error)
        }
    }
}

fn few(at: &str, number: u64) -> Result<u32, JobError> {
    let said = || JobError::at(at, format!("{number}: right would be {} at most", u32::MAX));
    u32::try_from(number).map_err(|_| said())
}

fn nanos(at: &str, seconds: f64) -> Result<Nanos, JobError> {
    if (0.0..=1e9).contains(&seconds) {
        return Ok((seconds * 1e9).round() as Nanos);
    }
    Err(JobError::at(at, format!("{seconds} s: it must be from 0 to 1e9 s")))
}

fn amount(at: &str, transactions: Option<u64>, seconds: Option<f64>) -> Result<Amount, JobError> {
    Ok(Amount {
        transactions: transactions.unwrap_or(u64::MAX),
        time: seconds.map_or(Ok(Nanos::MAX), |seconds| nanos(at, seconds))?,
    })
}
