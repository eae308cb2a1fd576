//! A trace and what is played beside it, measured.

use block::{BlockDevice, BlockError, Failure, Signal};
use player::{Ahead, Ended, Flow, Listener, Pace, Sending, Stopped};
use units::{Cancelled, IoRequest, Nanos, Progress, RequestSource};

use crate::error::ReplayError;
use crate::measured::{Measured, record};

/// What holds for all that is played together.
#[derive(Clone, Copy, Debug)]
pub struct Playing<'a> {
    /// What the device is told before the first request of the first flow that is not earlier.
    /// Their times are nanoseconds of the trace, ascending.
    pub signals: &'a [(Nanos, Signal)],
    /// Whether a request that fails is only counted, instead of ending the replay.
    pub keeps_going: bool,
    /// Counts requests.
    pub progress: &'a Progress,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Played {
    /// What was measured, up to where it ended.
    pub measured: Measured,
    /// What ended it before the trace did.
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
    /// Not told yet.
    signals: &'a [(Nanos, Signal)],
    measured: Measured,
    /// Which flows send at their own times.
    is_open: Vec<bool>,
    start: Nanos,
    reported: Nanos,
    unreported: u64,
}

impl Listener for Meter<'_> {
    type Error = Cancelled;

    fn begins(&mut self, now: Nanos) {
        (self.start, self.reported) = (now, now);
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
        {
            record(&mut self.measured.held, sending.now - due);
        }
        self.measured.sent += 1;
    }

    fn ended(&mut self, ended: &Ended) -> Result<bool, Cancelled> {
        self.unreported += u64::from(ended.flow == 0);
        self.measured.ended(ended, self.start);
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
        Ok(true)
    }
}
