//! A trace and what is played beside it, measured.

use block::{BlockDevice, BlockError, Failure, Signal};
use player::{Ahead, Ended, Flow, Listener, Pace, Sending, Stopped};
use units::{Cancelled, IoRequest, Nanos, Progress, RequestSource};

use crate::error::ReplayError;
use crate::measured::{Measured, record};

/// Settings of all flows that are played together.
#[derive(Clone, Copy, Debug)]
pub struct Playing<'a> {
    /// Signals to the device, each sent before the first request of the first flow that is not
    /// earlier. Their times are nanoseconds of the trace, ascending.
    pub signals: &'a [(Nanos, Signal)],
    /// True if requests that fail are only counted, instead of ending the replay.
    pub keeps_going: bool,
    /// Requests of the first flow at the beginning that are left out of what is measured.
    pub warm_up: u64,
    /// Time of the device, from the start, after which no more are sent; `Nanos::MAX` for no limit.
    pub most_time: Nanos,
    /// Counts requests.
    pub progress: &'a Progress,
}

/// Outcome of a replay.
#[derive(Debug)]
pub struct Played {
    /// Measurements, up to where it ended.
    pub measured: Measured,
    /// Error that ended it before the trace did.
    pub ended: Option<ReplayError>,
}

/// A flow whose requests are read ahead, in their order: unless they are sent at their own times,
/// what follows a flush waits for its end.
///
/// # Panics
/// If the pace has a factor that is not above 0, or a depth of 0.
#[must_use]
pub fn flow(source: Box<dyn RequestSource>, pace: Pace) -> Flow<Ahead> {
    let flow = Flow::new(Ahead::new(source), pace);
    if matches!(pace, Pace::Open { .. }) { flow } else { flow.waiting_for_flushes() }
}

impl<'a> Playing<'a> {
    /// Settings with which everything is measured, and the first request that fails ends the
    /// replay.
    #[must_use]
    pub fn whole(progress: &'a Progress) -> Self {
        Self { signals: &[], keeps_going: false, warm_up: 0, most_time: Nanos::MAX, progress }
    }
}

/// Plays flows of requests that the device can take beside each other, the trace first, and waits
/// for what is outstanding at the end.
///
/// # Panics
/// If a request is none that the device takes (see [`BlockDevice::submit`]).
pub fn play(
    device: &mut dyn BlockDevice,
    flows: Vec<Flow<Ahead>>,
    playing: &Playing<'_>,
) -> Played {
    let is_open = flows.iter().map(|flow| matches!(flow.pace(), Pace::Open { .. })).collect();
    let mut meter = Meter {
        playing,
        signals: playing.signals,
        measured: Measured::new(flows.len()),
        is_open,
        warm_up: playing.warm_up,
        begun: 0,
        start: 0,
        reported: 0,
        unreported: 0,
    };
    let (timekeeping, played) = player::play(device, flows, &mut meter);
    // After a stop it only counts.
    let told = playing.progress.advance(std::mem::take(&mut meter.unreported));
    let ended = match played {
        Ok(()) => told.err().map(ReplayError::from),
        Err(Stopped::Device(error)) => Some(error.into()),
        Err(Stopped::Source(error)) => Some(ReplayError::of_source(error)),
        Err(Stopped::Listener(cancelled)) => Some(cancelled.into()),
    };
    Played { measured: Measured { timekeeping, ..meter.measured }, ended }
}

/// Requests and device time after which the progress is told.
const REPORTED_REQUESTS: u64 = 1024;
const REPORTED_EVERY: Nanos = 10_000_000;

struct Meter<'a> {
    playing: &'a Playing<'a>,
    /// Signals not yet sent to the device.
    signals: &'a [(Nanos, Signal)],
    measured: Measured,
    /// True for each flow that sends at its own times.
    is_open: Vec<bool>,
    /// Requests that are still left out.
    warm_up: u64,
    /// Times at which the first request was sent, and at which the measured part began.
    begun: Nanos,
    start: Nanos,
    reported: Nanos,
    unreported: u64,
}

impl Listener for Meter<'_> {
    type Error = Cancelled;

    fn begins(&mut self, now: Nanos) {
        (self.begun, self.start, self.reported) = (now, now, now);
    }

    fn sends(&mut self, device: &mut dyn BlockDevice, sending: &Sending) {
        let time = sending.request.time_ns;
        while sending.flow == 0
            && let Some(&(_, signal)) = self.signals.first().filter(|(at, _)| *at <= time)
        {
            self.signals = &self.signals[1..];
            device.signal(signal);
        }
        if let Some(due) = sending.due.filter(|_| sending.was_held)
            && self.is_open[sending.flow as usize]
            && self.warm_up == 0
        {
            record(&mut self.measured.held, sending.now - due);
        }
        self.measured.sent += u64::from(self.warm_up == 0);
    }

    fn ended(&mut self, ended: &Ended) -> Result<bool, Cancelled> {
        self.unreported += u64::from(ended.flow == 0);
        if self.warm_up > 0 {
            self.warm_up -= u64::from(ended.flow == 0);
            self.start = ended.ended;
        } else {
            self.measured.ended(ended, self.start);
        }
        Ok(true)
    }

    fn failed(&mut self, request: &IoRequest, failure: &Failure, error: &BlockError) -> bool {
        self.unreported += 1;
        if self.playing.keeps_going {
            self.measured.failed(request.op.name(), failure.reason(), error);
        }
        self.playing.keeps_going
    }

    fn looks(&mut self, now: Nanos) -> Result<bool, Cancelled> {
        if self.unreported >= REPORTED_REQUESTS || now - self.reported >= REPORTED_EVERY {
            self.reported = now;
            self.playing.progress.advance(std::mem::take(&mut self.unreported))?;
        }
        Ok(now - self.begun < self.playing.most_time)
    }
}
