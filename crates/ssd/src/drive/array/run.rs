//! One run of an array, and what came of it.

use player::Flow;
use units::Progress;

use super::{Array, ArrayConfig, ArrayCounters, ArrayError, ArrayReads, Member};
use crate::drive::build::{DriveVisitor, visit_drive};
use crate::drive::device::Drive;
use crate::drive::load::{Load, Target as _};
use crate::drive::measure::{BusyTime, DieShare, Latencies};
use crate::drive::profile::Profile;
use crate::drive::run::{RunError, RunSettings};
use crate::drive::schemes::{Scheme, SchemeCounters};
use crate::drive::state::prepare;
use crate::drive::time::{PICOS_PER_SECOND, Picos};

/// What came of a run, over the part that was measured.
#[derive(Debug)]
pub struct ArrayOutcome {
    /// Requests completed.
    pub requests: u64,
    /// Latencies as the host sees them. Delays are those of the drive that answered, or was last of
    /// a write; what passed before the request was sent to it is `queue`.
    pub latencies: Latencies,
    /// Virtual time, in picoseconds.
    pub elapsed: Picos,
    /// What was done with reads.
    pub counters: ArrayCounters,
    /// What the scheme of each drive counted.
    pub schemes: Vec<SchemeCounters>,
    /// Where the time of the dies of all drives went.
    pub die_share: DieShare,
    /// Hash over the event hashes of the drives.
    pub event_hash: u64,
}

impl ArrayOutcome {
    /// Requests a second of virtual time; 0 if none has passed.
    #[must_use]
    pub fn iops(&self) -> f64 {
        if self.elapsed == 0 {
            return 0.0;
        }
        self.requests as f64 * PICOS_PER_SECOND as f64 / self.elapsed as f64
    }
}

/// Makes a drive of an array, in its state.
struct Maker<'a> {
    settings: &'a RunSettings,
    seed: u64,
    progress: &'a Progress,
}

impl DriveVisitor for Maker<'_> {
    type Output = Result<Box<dyn Member>, RunError>;

    fn visit<S: Scheme + 'static>(self, mut drive: Drive<S>) -> Self::Output {
        prepare(&mut drive, self.settings.state, self.seed, self.progress)?;
        drive.settle();
        Ok(Box::new(drive))
    }
}

/// The profile of one of several drives: its windows come when those of the drives before it have
/// come.
fn profile_of(profile: &Profile, drive: u32, drives: u32) -> Profile {
    let mut profile = profile.clone();
    let start = profile.cleaning.window_start + f64::from(drive) / f64::from(drives);
    profile.cleaning.window_start = start.fract();
    profile
}

/// Plays flows on an array of drives of one profile, which differ in seed and in when their windows
/// are. Untimed requests and timelines are of single drives alone.
///
/// # Errors
/// [`ArrayError`].
pub fn simulate_array(
    settings: &RunSettings,
    config: ArrayConfig,
    flows: Vec<Flow>,
    progress: &Progress,
) -> Result<ArrayOutcome, ArrayError> {
    config.check()?;
    let drives = (0..config.drives).map(|drive| {
        let profile = profile_of(&settings.profile, drive, config.drives);
        let seed = settings.seed + u64::from(drive);
        visit_drive(&profile, seed, None, Maker { settings, seed, progress })?
    });
    let drives = drives.collect::<Result<Vec<_>, RunError>>()?;
    let mut array = Array::new(&settings.profile, config.reads, drives);
    let mut load = Load::new(flows, settings.most_requests, settings.most_time);
    load.start(&mut array).map_err(RunError::Source)?;
    let meter = play(&mut array, &mut load, settings, progress)?;
    if settings.audit {
        while let Some(next) = array.next_time() {
            array.step_at(next, &mut Vec::new());
        }
        for drive in &array.drives {
            drive.audit().map_err(RunError::Audit)?;
        }
    }
    Ok(meter.outcome)
}

/// What is measured from some time on.
struct Meter {
    outcome: ArrayOutcome,
    from: Picos,
    dies: Vec<BusyTime>,
}

/// What the dies of all drives have done up to now.
fn all_dies(array: &mut Array) -> Vec<BusyTime> {
    let now = array.now();
    array.drives.iter_mut().for_each(|drive| drive.advance_to(now));
    array.drives.iter().flat_map(|drive| drive.busy_times()).collect()
}

impl Meter {
    fn new(array: &mut Array) -> Self {
        let dies = all_dies(array);
        Self {
            outcome: ArrayOutcome {
                requests: 0,
                latencies: Latencies::new(),
                elapsed: 0,
                counters: *array.counters(),
                schemes: array.drives.iter().map(|drive| drive.scheme_counters()).collect(),
                die_share: DieShare::total(&[], 0),
                event_hash: 0,
            },
            from: array.now(),
            dies,
        }
    }

    fn end(mut self, array: &mut Array) -> Self {
        let mut dies = all_dies(array);
        let outcome = &mut self.outcome;
        outcome.elapsed = array.now() - self.from;
        outcome.requests = outcome.latencies.requests();
        outcome.counters = array.counters().since(&outcome.counters);
        for (before, drive) in outcome.schemes.iter_mut().zip(&array.drives) {
            *before = drive.scheme_counters().since(before);
        }
        for (now, before) in dies.iter_mut().zip(&self.dies) {
            let pairs = now.iter_mut().flatten().zip(before.iter().flatten());
            pairs.for_each(|(now, before)| *now -= before);
        }
        outcome.die_share = DieShare::total(&dies, outcome.elapsed);
        outcome.event_hash = array
            .drives
            .iter()
            .fold(0, |hash, drive| (hash ^ drive.event_hash()).wrapping_mul(0x100_0000_01b3));
        self
    }
}

/// Events between two looks at the progress.
const EVENTS_PER_LOOK: u32 = 1 << 14;

fn play(
    array: &mut Array,
    load: &mut Load,
    settings: &RunSettings,
    progress: &Progress,
) -> Result<Meter, RunError> {
    let mut meter = Meter::new(array);
    let mut warm_up = settings.warm_up_requests;
    let mut reported = 0;
    loop {
        for _ in 0..EVENTS_PER_LOOK {
            let next = load.next_time(array);
            if next == Picos::MAX || array.drives.iter().any(|drive| drive.is_worn_out()) {
                progress.advance(load.sent() - reported)?;
                return Ok(meter.end(array));
            }
            let mut is_warm = false;
            load.step(array, next, |_, completion| {
                if warm_up > 0 {
                    warm_up -= 1;
                    is_warm = warm_up == 0;
                    return;
                }
                let latency = completion.completed_at - completion.submitted_at;
                let op = completion.submission.op;
                meter.outcome.latencies.record(op, latency, &completion.delays);
            })
            .map_err(RunError::Source)?;
            if is_warm {
                meter = Meter::new(array);
            }
        }
        progress.advance(load.sent() - reported)?;
        reported = load.sent();
    }
}

impl ArrayReads {
    /// By its name: `home`, `fail_fast`, or `hedged` with its share.
    #[must_use]
    pub fn named(name: &str, share: f64) -> Option<Self> {
        match name {
            "home" => Some(Self::Home),
            "fail_fast" => Some(Self::FailFast),
            "hedged" => Some(Self::Hedged(share)),
            _ => None,
        }
    }
}
