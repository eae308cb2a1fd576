//! The loop that sends the requests of a trace and takes their ends.

use std::num::NonZeroU64;

use block::{BlockDevice, BlockError, Command, Completion, Signal};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use units::{IoOp, IoRequest, Nanos, Progress};

use crate::ahead::{Next, ReadAhead};
use crate::error::ReplayError;
use crate::measured::{Measured, record};
use crate::pace::{Pace, scaled};

/// How a trace is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// When requests are sent.
    pub pace: Pace,
    /// Whether a request that fails is only counted, instead of ending the replay.
    pub keeps_going: bool,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Played {
    /// What was measured, up to where it ended.
    pub measured: Measured,
    /// What ended it before the trace did.
    pub ended: Option<ReplayError>,
}

/// Plays requests that the device can take, in their order, and waits for what is outstanding at
/// the end. The progress counts requests.
///
/// The clock starts when the first request is there. On a device in virtual time the same requests
/// give the same outcome.
///
/// # Panics
/// If a pace has a factor that is not above 0 or a depth of 0, or a request is none that the device
/// takes (see [`BlockDevice::submit`]).
pub fn play(
    device: &mut dyn BlockDevice,
    requests: &mut dyn ReadAhead,
    settings: Settings,
    progress: &Progress,
) -> Played {
    play_with(device, requests, &[], settings, progress)
}

/// As [`play`], and tells the device each signal before the first request that is not earlier.
/// Their times are nanoseconds of the trace, ascending.
///
/// # Panics
/// As [`play`].
pub fn play_with(
    device: &mut dyn BlockDevice,
    requests: &mut dyn ReadAhead,
    signals: &[(Nanos, Signal)],
    settings: Settings,
    progress: &Progress,
) -> Played {
    let (factor, depth) = match settings.pace {
        Pace::Open { factor } => (factor, 1),
        Pace::Closed { depth, waiting } => (waiting.unwrap_or(1.0), depth),
    };
    assert!(factor > 0.0 && factor.is_finite() && depth > 0, "a pace goes on: {:?}", settings.pace);
    let (most, is_virtual) =
        (settings.pace.most_outstanding(device.info().queue_depth), device.info().is_virtual);
    let mut player = Player {
        device,
        requests,
        signals,
        settings,
        progress,
        most,
        is_virtual,
        measured: Measured::new(),
        under_way: Vec::new(),
        free: Vec::new(),
        outstanding: 0,
        start: 0,
        before: None,
        flushing: None,
        is_full: false,
        full_until: None,
        starved_since: None,
        reported: 0,
        unreported: 0,
    };
    let exact = (!is_virtual).then(ExactTimers::new);
    let ended = player.run().err();
    if ended.is_some() {
        player.let_end();
    }
    drop(exact);
    Played { measured: player.measured, ended }
}

/// While it lives, the kernel wakes this thread when asked, and not up to 50 us later to save
/// power.
struct ExactTimers {
    before: Option<NonZeroU64>,
}

impl ExactTimers {
    fn new() -> Self {
        // Where the kernel does not allow it, what comes late is told as any other lateness.
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        Self { before }
    }
}

impl Drop for ExactTimers {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(self.before);
    }
}

/// A request under way, and when it was due.
#[derive(Clone, Copy)]
struct UnderWay {
    request: IoRequest,
    due: Option<Nanos>,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// A request, at this time.
    At(Nanos),
    /// A request, as soon as another has ended.
    AfterAnother,
    /// A request that was not read yet.
    Unread,
    /// Nothing.
    Nothing,
}

/// Longest wait for a device in real time: then it is looked whether somebody wants the replay to
/// stop.
const LONGEST_WAIT: Nanos = 200_000_000;
/// Wait for a request that was not read yet, while others are outstanding.
const UNREAD_WAIT: Nanos = 50_000;
/// Requests and device time after which the progress is told.
const REPORTED_REQUESTS: u64 = 1024;
const REPORTED_EVERY: Nanos = 10_000_000;

struct Player<'a> {
    device: &'a mut dyn BlockDevice,
    requests: &'a mut dyn ReadAhead,
    /// Not told yet.
    signals: &'a [(Nanos, Signal)],
    settings: Settings,
    progress: &'a Progress,
    /// Requests that may be outstanding.
    most: u32,
    is_virtual: bool,
    measured: Measured,
    under_way: Vec<UnderWay>,
    free: Vec<u32>,
    outstanding: u32,
    start: Nanos,
    /// When the last request was sent, and its time in the trace.
    before: Option<(Nanos, Nanos)>,
    /// A flush that is outstanding and holds back what follows, by its id.
    flushing: Option<u32>,
    /// A request is due, and there is no room for it.
    is_full: bool,
    /// When there was room for one again that had waited for it.
    full_until: Option<Nanos>,
    starved_since: Option<Nanos>,
    reported: Nanos,
    unreported: u64,
}

impl Player<'_> {
    fn run(&mut self) -> Result<(), ReplayError> {
        self.requests.peek(true).map_err(ReplayError::of_source)?;
        self.start = self.device.now();
        self.reported = self.start;
        let mut completed = Vec::with_capacity(64);
        loop {
            let coming = self.send_due()?;
            if self.outstanding == 0 && coming == Coming::Nothing {
                return Ok(self.progress.advance(std::mem::take(&mut self.unreported))?);
            }
            let until = self.until(coming);
            let waited = self.device.wait(until, &mut completed);
            let ended = completed
                .drain(..)
                .map(|completion| self.completed(&completion))
                .fold(Ok(()), Result::and);
            ended?;
            waited?;
            self.report()?;
        }
    }

    fn until(&mut self, coming: Coming) -> Nanos {
        let until = match coming {
            Coming::At(due) => due,
            Coming::AfterAnother | Coming::Nothing => Nanos::MAX,
            Coming::Unread => self.device.now() + UNREAD_WAIT,
        };
        if self.is_virtual { until } else { until.min(self.reported + LONGEST_WAIT) }
    }

    /// Sends what is due, as far as there is room.
    fn send_due(&mut self) -> Result<Coming, ReplayError> {
        loop {
            let request = match self.peek()? {
                Next::Request(request) => request,
                Next::NotYet => return Ok(Coming::Unread),
                Next::End => return Ok(Coming::Nothing),
            };
            let (due, now) = (self.due(&request), self.device.now());
            if let Some(due) = due.filter(|due| *due > now) {
                return Ok(Coming::At(due));
            }
            if self.outstanding >= self.most || self.flushing.is_some() {
                self.is_full = true;
                return Ok(Coming::AfterAnother);
            }
            self.requests.advance();
            self.send(&request, due, now);
        }
    }

    /// The next request. It is only waited for where no time passes meanwhile, or nothing else is
    /// to be done.
    fn peek(&mut self) -> Result<Next, ReplayError> {
        let mut next = self.requests.peek(self.is_virtual).map_err(ReplayError::of_source)?;
        if next == Next::NotYet {
            if self.starved_since.is_none() {
                self.starved_since = Some(self.device.now());
                self.measured.starved += 1;
            }
            if self.outstanding > 0 {
                return Ok(next);
            }
            next = self.requests.peek(true).map_err(ReplayError::of_source)?;
        }
        if let Some(since) = self.starved_since.take() {
            self.measured.starved_ns += self.device.now() - since;
        }
        Ok(next)
    }

    /// When a request is due, on the device's clock; `None` if it has no time.
    fn due(&self, request: &IoRequest) -> Option<Nanos> {
        match self.settings.pace {
            Pace::Open { factor } => {
                Some(self.start.saturating_add(scaled(request.time_ns, factor)))
            }
            Pace::Closed { waiting: Some(factor), .. } => {
                let (sent, time) = self.before.unwrap_or((self.start, request.time_ns));
                Some(sent.saturating_add(scaled(request.time_ns.saturating_sub(time), factor)))
            }
            Pace::Closed { waiting: None, .. } => None,
        }
    }

    fn send(&mut self, request: &IoRequest, due: Option<Nanos>, now: Nanos) {
        while let Some(&(_, signal)) = self.signals.first().filter(|(at, _)| *at <= request.time_ns)
        {
            self.signals = &self.signals[1..];
            self.device.signal(signal);
        }
        if std::mem::take(&mut self.is_full) {
            self.full_until = Some(now);
        }
        if let (Pace::Open { .. }, Some(due)) = (
            self.settings.pace,
            due.filter(|due| self.full_until.is_some_and(|until| *due <= until)),
        ) {
            record(&mut self.measured.held, now - due);
        }
        let under_way = UnderWay { request: *request, due };
        let id = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(under_way);
            self.under_way.len() as u32 - 1
        });
        self.under_way[id as usize] = under_way;
        self.before = Some((now, request.time_ns));
        self.measured.sent += 1;
        let IoRequest { op, offset, length, .. } = *request;
        if op == IoOp::Flush && matches!(self.settings.pace, Pace::Closed { .. }) {
            self.flushing = Some(id);
        }
        self.outstanding += 1;
        self.measured.most_outstanding = self.measured.most_outstanding.max(self.outstanding);
        self.device.submit(Command::new(id, op, offset, length));
    }

    fn completed(&mut self, completion: &Completion) -> Result<(), ReplayError> {
        let id = completion.reply.id;
        self.outstanding -= 1;
        self.unreported += 1;
        self.free.push(id);
        self.flushing = self.flushing.filter(|flush| *flush != id);
        let UnderWay { request, due } = self.under_way[id as usize];
        match &completion.reply.outcome {
            Ok(_) => {
                let since_start = |time: Nanos| time.saturating_sub(self.start);
                let (sent, ended) =
                    (since_start(completion.submitted_at), since_start(completion.completed_at));
                self.measured.ended(&request, due.map(since_start), sent, ended);
                Ok(())
            }
            Err(failure) => {
                let name = self.device.info().name.clone();
                let error = BlockError::Failed { name, failure: failure.clone() };
                if self.settings.keeps_going {
                    self.measured.failed(request.op.name(), failure.reason(), &error);
                    Ok(())
                } else {
                    Err(error.into())
                }
            }
        }
    }

    fn report(&mut self) -> Result<(), ReplayError> {
        let now = self.device.now();
        if self.unreported >= REPORTED_REQUESTS || now - self.reported >= REPORTED_EVERY {
            self.reported = now;
            self.progress.advance(std::mem::take(&mut self.unreported))?;
        }
        Ok(())
    }

    /// Waits for what a replay that was stopped left outstanding. A device that completes nothing
    /// more is not waited for for ever; whatever it says, its first error was told.
    fn let_end(&mut self) {
        const WITHIN: Nanos = 5_000_000_000;
        let end = self.device.now().saturating_add(WITHIN);
        let mut completed = Vec::new();
        while self.device.outstanding() > 0 && self.device.now() < end {
            let before = self.device.outstanding();
            let waited = self.device.wait(end, &mut completed);
            for completion in completed.drain(..) {
                let _ = self.completed(&completion);
            }
            if waited.is_err() && self.device.outstanding() == before {
                break;
            }
        }
        // It only counts: the replay is over already.
        let _ = self.progress.advance(std::mem::take(&mut self.unreported));
    }
}
