//! A run of a drive under a load, and its outcome.

use std::time::Instant;

use placement::BuildError;
use player::{Flow, FlowFigures, LatencyMap, Lookahead};
use thiserror::Error;
use units::{Cancelled, Lpn, PageOp, Progress, RequestSource, SourceError};

use super::build::{DriveError, DriveVisitor, visit_drive};
use super::device::{Completion, Drive, DriveCounters};
use super::load::{Load, Pace, flow};
use super::logs::{EnduranceGroup, FdpStatistics};
use super::measure::{
    BusyTime, DieShare, Energy, Latencies, MeasuredRequest, OverTime, RequestSink, TimeWindow,
    Timeline, busy_times, in_nanos,
};
use super::media::{FlashOp, MediaCounters};
use super::profile::Profile;
use super::schemes::replicated::ReplicationFigures;
use super::schemes::{FdpCounts, Scheme, SchemeCounters, WornOut, ZoneCounts, ZoneError};
use super::state::{State, prepare};
use super::time::{PICOS_PER_SECOND, Picos, nanos_of};
use crate::counting::Wear;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The drive.
    pub profile: Profile,
    /// State of the drive before the first request.
    pub state: State,
    /// Pace at which requests are sent.
    pub pace: Pace,
    /// Seed of policies, endurance and ageing.
    pub seed: u64,
    /// Most requests to send; `u64::MAX` for all.
    pub most_requests: u64,
    /// Virtual time after which no more are sent, in picoseconds; `Picos::MAX` for no limit.
    pub most_time: Picos,
    /// Number of requests of the first flow that are carried out in no time, after the state was
    /// made and before the first request: they change where pages lie, and which space is clean, at
    /// the speed of counting.
    pub untimed_requests: u64,
    /// Number of requests at the beginning that are not measured.
    pub warm_up_requests: u64,
    /// Most spans of die activity to record; 0 for none.
    pub timeline_spans: usize,
    /// True if the scheme's tables are audited at the end.
    pub audit: bool,
}

/// Errors of a run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The drive cannot be made.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The source cannot be read.
    #[error("{0}")]
    Source(SourceError),
    /// The tables contradict each other: a bug of Flashwright.
    #[error("after the run: {0}")]
    Audit(String),
    /// The sink of measured requests takes no more.
    #[error("{0}")]
    Sink(String),
    /// The drive has zones, and a request does not follow their rules.
    #[error("the drive refuses {0}")]
    Refused(ZoneError),
    /// The run was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl From<BuildError> for RunError {
    fn from(error: BuildError) -> Self {
        Self::Drive(DriveError::Policy { profile: String::new(), error })
    }
}

/// Outcome of a run. Everything but wear, hash and state covers the measured part: without the
/// fill, the ageing and the warm-up.
#[derive(Debug)]
pub struct Outcome {
    /// Requests completed.
    pub requests: u64,
    /// Latencies by operation and delay.
    pub latencies: Latencies,
    /// Latencies over time, in ticks of a picosecond from the start of the measured part.
    pub latency_map: LatencyMap,
    /// Figures of each flow, in picoseconds, in the order in which the flows were given.
    pub flows: Vec<FlowFigures>,
    /// Latencies of each flow, if there are several.
    pub flow_latencies: Vec<Latencies>,
    /// Windows of virtual time, oldest first.
    pub windows: Vec<TimeWindow>,
    /// Virtual time, in picoseconds.
    pub elapsed: Picos,
    /// Busy time of each die.
    pub dies: Vec<BusyTime>,
    /// The same as shares, over all dies.
    pub die_share: DieShare,
    /// Share of the time that each channel was busy.
    pub channel_share: Vec<f64>,
    /// Counters of the scheme.
    pub scheme: SchemeCounters,
    /// Its counters during [`RunSettings::untimed_requests`].
    pub untimed: SchemeCounters,
    /// Counters of the media.
    pub media: MediaCounters,
    /// Counters of the drive.
    pub drive: DriveCounters,
    /// (host + relocated + translation + parity pages) / host pages; 1 if nothing was written.
    pub write_amplification: f64,
    /// Energy, if the profile has energies.
    pub energy: Option<Energy>,
    /// FDP statistics, if the host places its pages.
    pub fdp: Option<FdpStatistics>,
    /// Figures of copies of pages, if the drive makes some.
    pub replication: Option<ReplicationFigures>,
    /// Counters of zones, if the drive has some.
    pub zones: Option<ZoneCounts>,
    /// Log page of the endurance group at the end.
    pub endurance_group: EnduranceGroup,
    /// Wear at the end, over the whole life of the drive.
    pub wear: Wear,
    /// Erase count of each erase block at the end.
    pub erase_counts: Vec<u32>,
    /// Number of streams of the placement policy that there is no room for.
    pub streams_left_out: usize,
    /// Bytes of the scheme's tables per physical page.
    pub table_bytes_per_page: f64,
    /// Hash of all flash operations with their times, from the first on.
    pub event_hash: u64,
    /// Activity of the dies, if it was recorded.
    pub timeline: Option<Timeline>,
    /// The reason if the drive wore out, which ended the run.
    pub worn_out: Option<WornOut>,
    /// Wall time of filling and ageing, in seconds.
    pub prepare_seconds: f64,
    /// Wall time of the run, in seconds.
    pub wall_seconds: f64,
}

/// Number of events between two reports of progress.
const EVENTS_PER_LOOK: u32 = 1 << 14;

/// Plays a source on a drive.
///
/// # Errors
/// [`RunError`].
pub fn simulate(
    settings: &RunSettings,
    page_weights: Option<&dyn Fn() -> Vec<f64>>,
    source: Box<dyn RequestSource>,
    progress: &Progress,
) -> Result<Outcome, RunError> {
    simulate_flows(settings, page_weights, vec![flow(source, settings.pace)], progress)
}

/// Plays several flows on a drive at once, each at its own pace.
///
/// # Errors
/// [`RunError`].
pub fn simulate_flows(
    settings: &RunSettings,
    page_weights: Option<&dyn Fn() -> Vec<f64>>,
    flows: Vec<Flow>,
    progress: &Progress,
) -> Result<Outcome, RunError> {
    simulate_told(settings, page_weights, flows, None, progress)
}

/// As [`simulate_flows`]; `sink` receives each request that is measured.
///
/// # Errors
/// [`RunError`].
pub fn simulate_told(
    settings: &RunSettings,
    page_weights: Option<&dyn Fn() -> Vec<f64>>,
    flows: Vec<Flow>,
    sink: Option<&mut dyn RequestSink>,
    progress: &Progress,
) -> Result<Outcome, RunError> {
    visit_drive(
        &settings.profile,
        settings.seed,
        page_weights,
        Runner { settings, flows, sink, progress },
    )?
}

struct Runner<'a, 's> {
    settings: &'a RunSettings,
    flows: Vec<Flow>,
    sink: Option<&'s mut dyn RequestSink>,
    progress: &'a Progress,
}

impl DriveVisitor for Runner<'_, '_> {
    type Output = Result<Outcome, RunError>;

    fn visit<S: Scheme>(mut self, mut drive: Drive<S>) -> Self::Output {
        let settings = self.settings;
        if drive.scheme().is_zoned() && matches!(settings.state, State::Aged { .. }) {
            return Err(RunError::Refused(ZoneError::NotAged));
        }
        let bad_blocks = drive.scheme().counters().retired_blocks;
        let started = Instant::now();
        prepare(&mut drive, settings.state, settings.seed, self.progress)?;
        let before = drive.scheme().counters();
        if let Some(flow) = self.flows.first_mut() {
            do_untimed(&mut drive, flow.source_mut(), settings.untimed_requests, self.progress)?;
        }
        check_zones(&drive)?;
        drive.settle();
        let untimed = drive.scheme().counters().since(&before);
        let prepare_seconds = started.elapsed().as_secs_f64();
        if settings.timeline_spans > 0 {
            drive.media_mut().watch(Timeline::new(settings.timeline_spans));
        }
        let flows = self.flows.len();
        let mut load = Load::new(self.flows, settings.most_requests, settings.most_time);
        let started = Instant::now();
        let mut meter = Meter::new(&drive, flows);
        load.start(&mut drive).map_err(RunError::Source)?;
        let worn_out = play(&mut drive, &mut load, &mut meter, settings, self.sink, self.progress)?;
        check_zones(&drive)?;
        let wall_seconds = started.elapsed().as_secs_f64();
        let mut outcome =
            meter.outcome(&drive, settings, worn_out, [prepare_seconds, wall_seconds], bad_blocks);
        outcome.untimed = untimed;
        if settings.audit {
            come_to_rest(&mut drive, self.progress)?;
            drive.scheme().audit().map_err(RunError::Audit)?;
        }
        Ok(outcome)
    }
}

/// The loop of a run.
fn play<S: Scheme>(
    drive: &mut Drive<S>,
    load: &mut Load,
    meter: &mut Meter,
    settings: &RunSettings,
    mut sink: Option<&mut dyn RequestSink>,
    progress: &Progress,
) -> Result<Option<WornOut>, RunError> {
    let mut warm_up = settings.warm_up_requests;
    let mut reported = 0;
    loop {
        for _ in 0..EVENTS_PER_LOOK {
            let next = load.next_time(drive);
            if next == Picos::MAX {
                progress.advance(load.sent() - reported)?;
                // On a worn-out drive writes keep waiting, and there are no further events.
                let worn_out = drive.worn_out();
                let left = load.outstanding();
                assert!(
                    left == 0 || worn_out.is_some(),
                    "{left} requests wait for something that never happens"
                );
                return Ok(worn_out);
            }
            if meter.over_time.is_due(next) {
                meter.over_time.advance(next, &drive.scheme().counters());
            }
            load.step(drive, next, |drive, completion| {
                if warm_up > 0 {
                    warm_up -= 1;
                    if warm_up == 0 {
                        // At once: the same step may complete further requests.
                        *meter = Meter::new(drive, meter.flows.len());
                    }
                    return;
                }
                let latency = completion.completed_at - completion.submitted_at;
                let submission = &completion.submission;
                meter.latencies.record(submission.op, latency, &completion.delays);
                meter.over_time.request(next, submission.op, submission.length, latency);
                let at = completion.completed_at - meter.from;
                meter.latency_map.add(submission.op, at, nanos_of(latency));
                if let Some(latencies) = meter.flow_latencies.get_mut(submission.handle as usize) {
                    latencies.record(submission.op, latency, &completion.delays);
                }
                meter.flows[submission.handle as usize].add(
                    submission.op,
                    submission.length,
                    latency,
                    at,
                );
                if let Some(sink) = &mut sink {
                    sink.add(&told(completion));
                }
            })
            .map_err(RunError::Source)?;
        }
        if let Some(sink) = &mut sink {
            sink.check().map_err(RunError::Sink)?;
        }
        progress.advance(load.sent() - reported)?;
        reported = load.sent();
        check_zones(drive)?;
        if let Some(worn_out) = drive.worn_out() {
            return Ok(Some(worn_out));
        }
    }
}

/// Checks that the load suits the drive: a load that ignores zones is not valid for a drive that
/// has them.
fn check_zones<S: Scheme>(drive: &Drive<S>) -> Result<(), RunError> {
    drive.refusal().map_or(Ok(()), |refusal| Err(RunError::Refused(refusal.clone())))
}

fn told(completion: &Completion) -> MeasuredRequest {
    let submission = &completion.submission;
    MeasuredRequest {
        submitted: nanos_of(completion.submitted_at),
        latency: nanos_of(completion.completed_at - completion.submitted_at),
        delays: in_nanos(&completion.delays),
        op: submission.op,
        offset: submission.offset,
        length: submission.length,
        flow: submission.handle,
    }
}

/// Lets the drive finish its own work.
fn come_to_rest<S: Scheme>(drive: &mut Drive<S>, progress: &Progress) -> Result<(), Cancelled> {
    let mut completed = Vec::new();
    while drive.next_time().is_some() {
        for _ in 0..EVENTS_PER_LOOK {
            drive.step(&mut completed);
            if drive.next_time().is_none() {
                break;
            }
        }
        progress.advance(0)?;
    }
    Ok(())
}

/// Measurement that begins at some time.
struct Meter {
    latencies: Latencies,
    flows: Vec<FlowFigures>,
    /// Empty unless there are several flows.
    flow_latencies: Vec<Latencies>,
    over_time: OverTime,
    latency_map: LatencyMap,
    from: Picos,
    scheme: SchemeCounters,
    fdp: Option<FdpCounts>,
    zones: Option<ZoneCounts>,
    replication: Option<ReplicationFigures>,
    media: MediaCounters,
    drive: DriveCounters,
    dies: Vec<BusyTime>,
    channels: Vec<Picos>,
}

impl Meter {
    fn new<S: Scheme>(drive: &Drive<S>, flows: usize) -> Self {
        let counters = drive.scheme().counters();
        Self {
            latencies: Latencies::new(),
            flows: vec![FlowFigures::default(); flows],
            flow_latencies: if flows > 1 { vec![Latencies::new(); flows] } else { Vec::new() },
            over_time: OverTime::new(drive.now(), OverTime::FIRST_LENGTH, counters),
            latency_map: LatencyMap::new(OverTime::FIRST_LENGTH),
            from: drive.now(),
            scheme: counters,
            fdp: drive.scheme().fdp(),
            zones: drive.scheme().zone_counts(),
            replication: drive.scheme().replication(drive.media()),
            media: *drive.media().counters(),
            drive: *drive.counters(),
            dies: busy_times(drive.media()),
            channels: channel_times(drive),
        }
    }

    fn outcome<S: Scheme>(
        self,
        drive: &Drive<S>,
        settings: &RunSettings,
        worn_out: Option<WornOut>,
        wall: [f64; 2],
        bad_blocks: u64,
    ) -> Outcome {
        let elapsed = drive.now() - self.from;
        let scheme = drive.scheme().counters();
        let windows = self.over_time.rows(drive.now(), &scheme);
        let retired = scheme.retired_blocks;
        let scheme = scheme.since(&self.scheme);
        let of_drive = drive.counters().since(&self.drive);
        let media = drive.media().counters().since(&self.media);
        let mut dies = busy_times(drive.media());
        for (now, before) in dies.iter_mut().zip(&self.dies) {
            now.iter_mut()
                .flatten()
                .zip(before.iter().flatten())
                .for_each(|(now, before)| *now -= before);
        }
        let share = |(now, before): (Picos, &Picos)| {
            if elapsed == 0 { 0.0 } else { ((now - before) as f64 / elapsed as f64).min(1.0) }
        };
        let mut operations = FlashOp::ALL.map(|op| media.of(op));
        operations[FlashOp::Read as usize] += media.read_retries;
        let erase_counts = drive.scheme().erase_counts().to_vec();
        let wear = Wear::of(&erase_counts);
        let fdp = drive.scheme().fdp().zip(self.fdp).map(|(now, before)| {
            let (profile, bytes) = (&settings.profile, of_drive.written_bytes);
            FdpStatistics::of(profile, bytes, &scheme, now.since(&before))
        });
        let written = scheme.host_page_writes + scheme.relocated_pages + scheme.mapping_page_writes;
        let written = written + scheme.parity_page_writes + scheme.replica_page_writes;
        Outcome {
            requests: self.latencies.requests(),
            latencies: self.latencies,
            latency_map: self.latency_map,
            flows: self.flows,
            flow_latencies: self.flow_latencies,
            windows,
            elapsed,
            die_share: DieShare::total(&dies, elapsed),
            dies,
            channel_share: channel_times(drive)
                .into_iter()
                .zip(&self.channels)
                .map(share)
                .collect(),
            write_amplification: if scheme.host_page_writes == 0 {
                1.0
            } else {
                written as f64 / scheme.host_page_writes as f64
            },
            energy: Energy::of(
                &settings.profile.energy,
                &operations,
                media.bytes_transferred,
                elapsed,
            ),
            scheme,
            untimed: SchemeCounters::default(),
            media,
            drive: of_drive,
            fdp,
            replication: drive
                .scheme()
                .replication(drive.media())
                .zip(self.replication)
                .map(|(n, b)| n.since(&b)),
            zones: drive.scheme().zone_counts().zip(self.zones).map(|(n, b)| n.since(&b)),
            endurance_group: EnduranceGroup::of(
                &settings.profile,
                wear.erases_mean,
                [bad_blocks, retired],
                [of_drive.read_bytes, of_drive.written_bytes],
                media.of(FlashOp::Program),
            ),
            wear,
            erase_counts,
            streams_left_out: drive.scheme().streams_left_out(),
            table_bytes_per_page: drive.scheme().table_bytes() as f64
                / f64::from(drive.media().layout().physical_pages()),
            event_hash: drive.media().event_hash(),
            timeline: drive.media().timeline().cloned(),
            worn_out,
            prepare_seconds: wall[0],
            wall_seconds: wall[1],
        }
    }
}

impl Outcome {
    /// Requests per second of virtual time; 0 if none has passed.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.per_second(self.requests)
    }

    /// Bytes read and written by the host per second of virtual time.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.drive.read_bytes + self.drive.written_bytes)
    }

    /// Virtual time of the measured part, in seconds.
    #[must_use]
    pub fn simulated_seconds(&self) -> f64 {
        self.elapsed as f64 / PICOS_PER_SECOND as f64
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.elapsed == 0 { 0.0 } else { count as f64 / self.simulated_seconds() }
    }
}

fn channel_times<S: Scheme>(drive: &Drive<S>) -> Vec<Picos> {
    (0..drive.media().layout().channels)
        .map(|channel| drive.media().channel_busy(channel))
        .collect()
}

/// Takes requests from a source and carries them out in no time.
fn do_untimed<S: Scheme>(
    drive: &mut Drive<S>,
    source: &mut Lookahead,
    requests: u64,
    progress: &Progress,
) -> Result<(), RunError> {
    const REQUESTS_PER_LOOK: u64 = 1 << 16;
    progress.add_to_prepare(requests);
    let mut pages = Vec::with_capacity(PAGES_AT_ONCE);
    let mut handle = 0;
    for number in 1..=requests {
        let Some(request) = source.peek().map_err(RunError::Source)? else { break };
        source.advance();
        if request.handle != handle {
            drive.apply_untimed(&pages);
            pages.clear();
            handle = request.handle;
            drive.set_handle_untimed(handle);
        }
        drive.pages_of_untimed(&request, &mut pages);
        if pages.len() >= PAGES_AT_ONCE {
            drive.apply_untimed(&pages);
            pages.clear();
        }
        if number.is_multiple_of(REQUESTS_PER_LOOK) {
            progress.prepare(REQUESTS_PER_LOOK)?;
        }
    }
    drive.apply_untimed(&pages);
    Ok(())
}

/// Writes logical pages in no time, in the order given.
pub(super) fn write_untimed<S: Scheme>(
    drive: &mut Drive<S>,
    pages: impl Iterator<Item = u32>,
    progress: &Progress,
) -> Result<(), Cancelled> {
    let mut pages = pages.map(|lpn| PageOp::write(Lpn(lpn)));
    let mut some = Vec::with_capacity(PAGES_AT_ONCE);
    loop {
        some.clear();
        some.extend(pages.by_ref().take(PAGES_AT_ONCE));
        drive.apply_untimed(&some);
        progress.prepare(some.len() as u64)?;
        if some.len() < PAGES_AT_ONCE {
            return Ok(());
        }
    }
}

/// Pages that are written in no time together: a scheme may look all of them up before it changes
/// any.
const PAGES_AT_ONCE: usize = 1 << 13;
