//! A run of an array, and its outcome.

use player::Flow;
use units::Progress;

use super::mirrored::Mirrored;
use super::striped::Striped;
use super::striped::places::Places;
use super::{
    ArrayConfig, ArrayCounters, ArrayError, ArrayKind, ArrayReads, Counts, Group, Member,
    StripeCounters, Written,
};
use crate::drive::build::{DriveVisitor, visit_drive};
use crate::drive::device::Drive;
use crate::drive::load::Load;
use crate::drive::measure::{BusyTime, DieShare, Latencies};
use crate::drive::profile::Profile;
use crate::drive::run::{RunError, RunSettings};
use crate::drive::schemes::{Scheme, SchemeCounters};
use crate::drive::state::{State, prepare};
use crate::drive::time::{PICOS_PER_SECOND, Picos};

/// Outcome of a run, over the part that was measured.
#[derive(Debug)]
pub struct ArrayOutcome {
    /// Requests completed.
    pub requests: u64,
    /// Latencies as the host sees them. Delays are those of the drive that answered, or was last of
    /// a write; the time before the request was sent to it is `queue`.
    pub latencies: Latencies,
    /// Virtual time, in picoseconds.
    pub elapsed: Picos,
    /// Counters of reads, where all drives hold all data.
    pub counters: ArrayCounters,
    /// Counters of stripes.
    pub stripes: StripeCounters,
    /// Amount written to each drive; empty where there are no stripes.
    pub written: Vec<Written>,
    /// Mean erases of an erase block of each drive.
    pub erases: Vec<f64>,
    /// Counters of the scheme of each drive.
    pub schemes: Vec<SchemeCounters>,
    /// Shares of the time of the dies of all drives.
    pub die_share: DieShare,
    /// Hash of the event hashes of the drives.
    pub event_hash: u64,
}

impl ArrayOutcome {
    /// Requests per second of virtual time; 0 if none has passed.
    #[must_use]
    pub fn iops(&self) -> f64 {
        if self.elapsed == 0 {
            return 0.0;
        }
        self.requests as f64 * PICOS_PER_SECOND as f64 / self.elapsed as f64
    }
}

/// Makes a drive of an array and brings it into its state.
pub(super) struct Maker<'a> {
    pub state: State,
    pub seed: u64,
    pub progress: &'a Progress,
}

impl DriveVisitor for Maker<'_> {
    type Output = Result<Box<dyn Member>, RunError>;

    fn visit<S: Scheme + 'static>(self, mut drive: Drive<S>) -> Self::Output {
        prepare(&mut drive, self.state, self.seed, self.progress)?;
        drive.settle();
        Ok(Box::new(drive))
    }
}

/// The profile of one of several drives: its windows follow those of the drives before it.
fn profile_of(profile: &Profile, drive: u32, drives: u32) -> Profile {
    let mut profile = profile.clone();
    let start = profile.cleaning.window_start + f64::from(drive) / f64::from(drives);
    profile.cleaning.window_start = start.fract();
    profile
}

/// The units of an array of such drives; `None` where all drives hold all data.
pub(super) fn places_of(
    profile: &Profile,
    config: &ArrayConfig,
) -> Result<Option<Places>, ArrayError> {
    let ArrayKind::Striped(striped) = &config.kind else { return Ok(None) };
    let (unit, page) = (striped.unit_bytes, profile.media.page_bytes);
    if !unit.is_multiple_of(page) || u64::from(unit) > profile.capacity_bytes() {
        return Err(ArrayError::Unit { unit, page });
    }
    let parity = config.kind.parity(config.drives)?;
    Ok(Some(Places::new(config.drives, unit, parity.as_deref())))
}

impl ArrayConfig {
    /// Bytes that the host can address on an array of such drives.
    ///
    /// # Errors
    /// [`ArrayError`] if there can be no such array.
    pub fn capacity_bytes(&self, profile: &Profile) -> Result<u64, ArrayError> {
        self.check()?;
        let of_drive = profile.capacity_bytes();
        let places = places_of(profile, self)?;
        Ok(places.map_or(of_drive, |places| of_drive / places.unit() * places.stripe_bytes()))
    }
}

/// Makes an array of drives of one profile, each in the given state. They differ in seed and in the
/// times of their windows. If the array is audited and has parity, the contents of each drive are
/// followed.
///
/// # Errors
/// [`ArrayError`].
pub fn array_of(
    profile: &Profile,
    config: &ArrayConfig,
    state: State,
    seed: u64,
    is_audited: bool,
    progress: &Progress,
) -> Result<Box<dyn Group>, ArrayError> {
    config.check()?;
    let places = places_of(profile, config)?;
    let drives = (0..config.drives).map(|drive| {
        let profile = profile_of(profile, drive, config.drives);
        drive_of(&profile, state, seed + u64::from(drive), progress)
    });
    let drives = drives.collect::<Result<Vec<_>, RunError>>()?;
    let (Some(places), ArrayKind::Striped(striped)) = (places, &config.kind) else {
        return Ok(Box::new(Mirrored::new(profile, config.reads, drives)));
    };
    let capacity = profile.capacity_bytes();
    Ok(Box::new(Striped::new(drives, places, capacity, striped.writes, config.missing, is_audited)))
}

/// Makes one drive in the given state, for callers that do not know its scheme.
///
/// # Errors
/// [`RunError`].
pub fn drive_of(
    profile: &Profile,
    state: State,
    seed: u64,
    progress: &Progress,
) -> Result<Box<dyn Member>, RunError> {
    visit_drive(profile, seed, None, Maker { state, seed, progress })?
}

/// Plays flows on an array of drives. Untimed requests and timelines are supported only for single
/// drives.
///
/// # Errors
/// [`ArrayError`].
pub fn simulate_array(
    settings: &RunSettings,
    config: &ArrayConfig,
    flows: Vec<Flow>,
    progress: &Progress,
) -> Result<ArrayOutcome, ArrayError> {
    let (state, seed) = (settings.state, settings.seed);
    let made = array_of(&settings.profile, config, state, seed, settings.audit, progress);
    let mut made = made?;
    let array = &mut *made;
    let mut load = Load::new(flows, settings.most_requests, settings.most_time);
    // Before the first requests: these count, too.
    let meter = Meter::new(array);
    load.start(array).map_err(RunError::Source)?;
    let meter = play(array, &mut load, meter, settings, progress)?;
    if settings.audit {
        while let Some(next) = array.next_time() {
            array.step_at(next, &mut Vec::new());
        }
        for drive in array.drives() {
            drive.audit().map_err(RunError::Audit)?;
        }
        array.audit().map_err(RunError::Audit)?;
    }
    Ok(meter.outcome)
}

/// Measurement that begins at some time.
struct Meter {
    outcome: ArrayOutcome,
    from: Picos,
    dies: Vec<BusyTime>,
}

/// Busy times of the dies of all drives up to now.
fn all_dies(array: &mut dyn Group) -> Vec<BusyTime> {
    let now = array.now();
    array.drives_mut().iter_mut().for_each(|drive| drive.advance_to(now));
    array.drives().iter().flat_map(|drive| drive.busy_times()).collect()
}

impl Meter {
    fn new(array: &mut dyn Group) -> Self {
        let Counts { reads, stripes } = array.counts();
        let dies = all_dies(array);
        Self {
            outcome: ArrayOutcome {
                requests: 0,
                latencies: Latencies::new(),
                elapsed: 0,
                counters: reads,
                stripes,
                written: array.written(),
                erases: Vec::new(),
                schemes: array.drives().iter().map(|drive| drive.scheme_counters()).collect(),
                die_share: DieShare::total(&[], 0),
                event_hash: 0,
            },
            from: array.now(),
            dies,
        }
    }

    fn end(mut self, array: &mut dyn Group) -> Self {
        let mut dies = all_dies(array);
        let outcome = &mut self.outcome;
        outcome.elapsed = array.now() - self.from;
        outcome.requests = outcome.latencies.requests();
        let counts = array.counts();
        outcome.counters = counts.reads.since(&outcome.counters);
        outcome.stripes = counts.stripes.since(&outcome.stripes);
        for (before, now) in outcome.written.iter_mut().zip(array.written()) {
            before.data_bytes = now.data_bytes - before.data_bytes;
            before.parity_bytes = now.parity_bytes - before.parity_bytes;
        }
        outcome.erases = array.drives().iter().map(|drive| drive.erases_mean()).collect();
        for (before, drive) in outcome.schemes.iter_mut().zip(array.drives()) {
            *before = drive.scheme_counters().since(before);
        }
        for (now, before) in dies.iter_mut().zip(&self.dies) {
            let pairs = now.iter_mut().flatten().zip(before.iter().flatten());
            pairs.for_each(|(now, before)| *now -= before);
        }
        outcome.die_share = DieShare::total(&dies, outcome.elapsed);
        outcome.event_hash = array
            .drives()
            .iter()
            .fold(0, |hash, drive| (hash ^ drive.event_hash()).wrapping_mul(0x100_0000_01b3));
        self
    }
}

/// Number of events between two reports of progress.
const EVENTS_PER_LOOK: u32 = 1 << 14;

fn play(
    array: &mut dyn Group,
    load: &mut Load,
    mut meter: Meter,
    settings: &RunSettings,
    progress: &Progress,
) -> Result<Meter, RunError> {
    let mut warm_up = settings.warm_up_requests;
    let mut reported = 0;
    loop {
        for _ in 0..EVENTS_PER_LOOK {
            let next = load.next_time(array);
            if next == Picos::MAX || array.drives().iter().any(|drive| drive.worn_out().is_some()) {
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
    /// The choice with this name: `home`, `fail_fast`, or `hedged` with its share.
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
