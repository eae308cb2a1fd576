//! A stack of layers over a device: formatted, played on, drained, and opened again.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use block::{BlockDevice, BlockError, DeviceInfo, Signal, Store};
use layers::{Driver, Facts, LAYERS, Meter, Sample, Stack};
use player::{Ahead, Flow};
use replay::{
    Ending, Flushing, Keeping, Kept as KeptData, Played, Playing, ReplayError, play as play_flows,
};
use units::{IoOp, Nanos, RequestSource};

use super::Asked;
use super::outcome::{Below, Kept, Layered};
use super::settings::{Checkpoints, DataName, HeardAs};
use crate::JobError;
use crate::facts;
use crate::figures::LayerCounters;
use crate::stacks::{failed, open_blank, stack_error};
use crate::tables::{Columns, column};

/// Time of the device between two samples of the counters.
const SAMPLE_EVERY: Nanos = 1_000_000;
const MOST_CHECKPOINTS: u64 = 1_000_000;

/// A stack that is to be played on.
pub(super) struct Stacked<'a> {
    asked: &'a Asked<'a>,
    text: &'a str,
    facts: Facts,
    /// Bytes that are used of what it offers.
    pub above_bytes: u64,
    ends: Arc<[Nanos]>,
    begins: Vec<Nanos>,
    heard_as: HeardAs,
}

impl<'a> Stacked<'a> {
    /// A stack over a device of this kind.
    pub(super) fn new(
        asked: &'a Asked<'a>,
        text: &'a str,
        below: &DeviceInfo,
    ) -> Result<Self, JobError> {
        let facts = facts::Facts::known(asked.play.facts.as_ref())?;
        let seed = asked.play.seed;
        let offered = open_blank(text, &facts, seed, below.limits)?.limits().capacity_bytes;
        let above_bytes = asked.play.above_bytes.unwrap_or(offered);
        let sector = u64::from(below.limits.sector_bytes);
        if above_bytes == 0 || above_bytes > offered || !above_bytes.is_multiple_of(sector) {
            return Err(JobError::at(
                "above_bytes",
                format!("{above_bytes} are not whole sectors of the {offered} bytes of {text}"),
            ));
        }
        let (ends, begins, heard_as) = checkpoints(asked)?;
        Ok(Self { asked, text, facts, above_bytes, ends: ends.into(), begins, heard_as })
    }

    /// The requests of a source with the flushes of checkpoints among them.
    pub(super) fn among(&self, source: Box<dyn RequestSource>) -> Box<dyn RequestSource> {
        if self.heard_as == HeardAs::Flush && !self.ends.is_empty() {
            Box::new(Flushing::new(source, Arc::clone(&self.ends)))
        } else {
            source
        }
    }

    /// Gives the signals that the layers get beside the requests, by time.
    pub(super) fn signals(&self) -> Vec<(Nanos, Signal)> {
        let ends = if self.heard_as == HeardAs::Flush { &[][..] } else { &self.ends };
        let begins = self.begins.iter().map(|at| (*at, Signal::CheckpointBegins));
        let mut all: Vec<_> =
            ends.iter().map(|at| (*at, Signal::CheckpointEnds)).chain(begins).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    }

    /// Formats the stack, plays on it, and ends as was asked for.
    pub(super) fn run(
        &self,
        device: &mut dyn BlockDevice,
        flows: Vec<Flow<Ahead>>,
        playing: &Playing<'_>,
    ) -> Result<(Played, Layered), JobError> {
        let (play, ending) = (self.asked.play, self.ending());
        let stack = if ending.is_some() {
            layers::format(self.text, &self.facts, play.seed, device)
                .and_then(|()| layers::open(self.text, &self.facts, play.seed, device))
                .map_err(stack_error)?
        } else {
            open_blank(self.text, &self.facts, play.seed, device.info().limits)?
        };
        let before = device.telemetry();
        let meter = Meter::new(SAMPLE_EVERY, clock_ns);
        let mut driver = Driver::watched(&mut *device, stack, meter);
        let (mut played, kept) = self.play(&mut driver, flows, playing)?;
        let ended_at = driver.now();
        let drains = ending.map_or(!play.no_drain, |ending| ending == Ending::Drained);
        if drains && played.ended.is_none() {
            played.ended = drain(&mut driver, playing).err().map(ReplayError::Device);
        }
        let now = driver.now();
        driver.sample(now);
        let mut layered = self.layered(&driver, now - ended_at, &before)?;
        if let (Some(ending), Some(kept)) = (ending, kept)
            && played.ended.is_none()
        {
            if ending == Ending::Drained {
                Store::new(&mut driver).flush().map_err(failed)?;
            }
            drop(driver);
            layered.kept = Some(self.open_again(device, ending, &kept)?);
        }
        Ok((played, layered))
    }

    fn ending(&self) -> Option<Ending> {
        self.asked.play.data.map(|data| match data {
            DataName::Drained => Ending::Drained,
            DataName::Killed => Ending::Killed,
        })
    }

    /// Plays the flows, with bytes for the writes where the device holds data.
    fn play(
        &self,
        driver: &mut dyn BlockDevice,
        flows: Vec<Flow<Ahead>>,
        playing: &Playing<'_>,
    ) -> Result<(Played, Option<KeptData>), JobError> {
        if self.ending().is_none() {
            return Ok((play_flows(driver, flows, playing), None));
        }
        let mut keeping = Keeping::new(driver, self.asked.play.seed);
        let played = play_flows(&mut keeping, flows, playing);
        let kept = keeping.into_kept().map_err(|wrong| self.is_wrong("a read", &wrong))?;
        Ok((played, Some(kept)))
    }

    fn is_wrong(&self, place: &str, wrong: &dyn Display) -> JobError {
        JobError::Run(format!("data through `{}`: {place}: {wrong}", self.text))
    }

    /// Does what a process does that comes after the one that was stopped.
    fn open_again(
        &self,
        device: &mut dyn BlockDevice,
        ending: Ending,
        kept: &KeptData,
    ) -> Result<Kept, JobError> {
        let mut dropped = Vec::new();
        while device.outstanding() > 0 {
            device.wait(Nanos::MAX, &mut dropped).map_err(failed)?;
        }
        let since = device.now();
        let again = "when it was opened again";
        let stack = layers::open(self.text, &self.facts, self.asked.play.seed, device);
        let stack = stack.map_err(|error| self.is_wrong(again, &error))?;
        let recovery_ns = device.now() - since;
        let mut driver = Driver::new(device, stack);
        let found = kept
            .check(&mut Store::new(&mut driver), ending)
            .map_err(|error| self.is_wrong(again, &error))?;
        let ending = if ending == Ending::Drained { "drained" } else { "killed" };
        Ok(Kept {
            ending: ending.to_owned(),
            sectors: found.sectors,
            newest: found.newest,
            recovery_seconds: recovery_ns as f64 / 1e9,
        })
    }

    fn layered<D: BlockDevice>(
        &self,
        driver: &Driver<D, Stack, Meter>,
        drained_ns: Nanos,
        before: &block::Telemetry,
    ) -> Result<Layered, JobError> {
        let meter = driver.watch();
        let names: Vec<&str> = driver.stack().layers().iter().map(|layer| layer.name()).collect();
        let pace = self.asked.pace_text();
        let columns = samples(&names, meter.samples());
        self.asked.tables.borrow_mut().add(&self.asked.rows_of(&pace), "samples", columns)?;
        let sent = IoOp::ALL.into_iter().zip(meter.below()).filter(|(_, sent)| sent.commands > 0);
        let below = sent.map(|(op, sent)| {
            let (requests, bytes, latency_ns) = (sent.commands, sent.bytes, sent.latency_ns);
            (op.name().to_owned(), Below { requests, bytes, latency_ns })
        });
        let (busy_reads_ns, busy_changes_ns) = meter.busy_ns();
        Ok(Layered {
            capacity_bytes: driver.info().limits.capacity_bytes,
            below: below.collect(),
            busy_reads_ns,
            busy_changes_ns,
            flash: driver.telemetry().since(before).flash.map(Into::into),
            computing_seconds: meter.computing_ns() as f64 / 1e9,
            drain_seconds: drained_ns as f64 / 1e9,
            counters: last_counts(&names, meter.samples()),
            kept: None,
        })
    }
}

fn drain<D: BlockDevice>(
    driver: &mut Driver<D, Stack, Meter>,
    playing: &Playing<'_>,
) -> Result<(), BlockError> {
    driver.drain(&mut || playing.progress.advance(0).is_ok())?;
    let name = driver.info().name.clone();
    match driver.failure().cloned() {
        Some(failure) => Err(BlockError::Failed { name, failure }),
        None => Ok(()),
    }
}

/// The time of this machine, in nanoseconds.
fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

type Times = (Vec<Nanos>, Vec<Nanos>, HeardAs);

/// Gives the times at which checkpoints end and begin, and the form in which layers hear of the
/// ends.
fn checkpoints(asked: &Asked<'_>) -> Result<Times, JobError> {
    let wrong = |said: String| JobError::at("checkpoints", said);
    let Some(asked_for) = asked.play.checkpoints.as_deref() else { return Ok(Times::default()) };
    let Some(duration) = asked.source.duration() else {
        return Err(wrong(format!("{} has no times; leave it out", asked.source.part.of)));
    };
    match asked_for {
        Checkpoints::Every { seconds, heard_as } => {
            let step = (seconds.0 * 1e9).round() as u64;
            if step == 0 || duration / step > MOST_CHECKPOINTS {
                return Err(wrong(format!(
                    "every {} s: more than {MOST_CHECKPOINTS} checkpoints in {} s of the trace; \
                     take longer intervals",
                    seconds.0,
                    duration as f64 / 1e9
                )));
            }
            let ends = (1..=duration / step).map(|number| number * step).collect();
            Ok((ends, Vec::new(), *heard_as))
        }
        Checkpoints::Marks { .. } => {
            Err(wrong("marks: those of a recording are to be found before a run".to_owned()))
        }
        Checkpoints::At { ends_ns, begins_ns, heard_as } => {
            let (mut ends, mut begins) = (ends_ns.clone(), begins_ns.clone());
            ends.sort_unstable();
            begins.sort_unstable();
            Ok((ends, begins, *heard_as))
        }
    }
}

/// Levels and names of the counters of layers, in the order in which they are counted.
fn counters<'a>(layers: &'a [&'a str]) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    layers.iter().enumerate().flat_map(|(level, name)| {
        let entry = LAYERS.iter().find(|entry| entry.info.name == *name);
        let counters = entry.into_iter().flat_map(|entry| entry.counters.iter());
        counters.map(move |one| (level, one.name))
    })
}

fn last_counts(layers: &[&str], samples: &[Sample]) -> Vec<LayerCounters> {
    let mut found: Vec<LayerCounters> = layers
        .iter()
        .map(|layer| LayerCounters { layer: (*layer).to_owned(), counters: BTreeMap::new() })
        .collect();
    let counts = samples.last().map_or(&[][..], |sample| &sample.counts);
    for ((level, name), count) in counters(layers).zip(counts) {
        found[level].counters.insert(name.to_owned(), *count);
    }
    found
}

/// Counters over time, one row a sample and counter.
fn samples(layers: &[&str], samples: &[Sample]) -> Columns {
    let names: Vec<_> = counters(layers).collect();
    let rows: Vec<_> = samples
        .iter()
        .flat_map(|sample| {
            names.iter().zip(&sample.counts).map(move |(one, count)| (sample, one, count))
        })
        .collect();
    vec![
        column("time_s", rows.iter().map(|(sample, ..)| sample.at as f64 / 1e9)),
        column("level", rows.iter().map(|(_, (level, _), _)| *level as u32)),
        column("layer", rows.iter().map(|(_, (level, _), _)| layers[*level])),
        column("counter", rows.iter().map(|(_, (_, name), _)| *name)),
        column("value", rows.iter().map(|(.., count)| **count)),
    ]
}
