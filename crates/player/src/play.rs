//! The loop that sends the requests of flows to a device and receives their completions.

use std::num::NonZeroU64;

use block::{BlockDevice, BlockError, Command, Completion, Failure};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use units::{IoRequest, Nanos, SourceError};

use crate::ahead::ReadAhead;
use crate::flows::{Flow, Flows, Turn};

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The flow that sends it, by its index.
    pub flow: u32,
    /// The request.
    pub request: IoRequest,
    /// Time at which it was due, on the device's clock, if its pace sets one.
    pub due: Option<Nanos>,
    /// The current time.
    pub now: Nanos,
    /// True if it became due while the device accepted no more.
    pub was_held: bool,
}

/// A request that has succeeded. Times are of the device's clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The flow that sent it.
    pub flow: u32,
    /// The request.
    pub request: IoRequest,
    /// Time at which it was due, if its pace sets one.
    pub due: Option<Nanos>,
    /// Time at which it was given to the device.
    pub sent: Nanos,
    /// Time at which it ended.
    pub ended: Nanos,
}

/// Receiver of the events of a play, such as one that measures it.
pub trait Listener {
    /// Reason for which it stops the play.
    type Error;

    /// Called when the play begins.
    fn begins(&mut self, now: Nanos);

    /// Called before a request is sent.
    fn sends(&mut self, device: &mut dyn BlockDevice, sending: &Sending);

    /// Called when a request has succeeded. Returns true if the play goes on.
    ///
    /// # Errors
    /// Any reason to stop the play.
    fn ended(&mut self, ended: &Ended) -> Result<bool, Self::Error>;

    /// Called when a request has failed. Returns true if the play goes on, false if the failure
    /// stops it.
    fn failed(&mut self, request: &IoRequest, failure: &Failure, error: &BlockError) -> bool;

    /// Called after each wait for the device. Returns true if the play goes on.
    ///
    /// # Errors
    /// Any reason to stop the play, such as [`units::Cancelled`].
    fn looks(&mut self, now: Nanos) -> Result<bool, Self::Error>;

    /// Latest time at which it wants [`Listener::looks`] to be called again.
    fn next_look(&self) -> Nanos {
        Nanos::MAX
    }

    /// Returns true if a play that it stopped may leave commands outstanding: only if the device is
    /// dropped then.
    fn abandons(&self) -> bool {
        false
    }
}

/// Reason for which a play ended early.
#[derive(Debug)]
pub enum Stopped<E> {
    /// The device failed.
    Device(BlockError),
    /// A source could not be read.
    Source(SourceError),
    /// The listener stopped it.
    Listener(E),
}

/// Record of how well the clock was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timekeeping {
    /// Most requests outstanding at once.
    pub most_outstanding: u32,
    /// Number of times that the play had to wait for the next request to be read.
    pub starved: u64,
    /// Time of those waits, in nanoseconds.
    pub starved_ns: Nanos,
}

/// Plays flows side by side until all have ended or the listener ends them, then waits for the
/// outstanding requests.
///
/// The clock starts when the first request of each flow was read. On a device in virtual time the
/// same flows give the same outcome. The timekeeping is returned even if the play was stopped
/// early.
///
/// # Panics
/// If a request violates the device's limits (see [`BlockDevice::submit`]).
pub fn play<S: ReadAhead, L: Listener>(
    device: &mut dyn BlockDevice,
    flows: Vec<Flow<S>>,
    listener: &mut L,
) -> (Timekeeping, Result<(), Stopped<L::Error>>) {
    let (most, is_virtual) = (device.info().queue_depth, device.info().is_virtual);
    let mut player = Player {
        flows: Flows::new(flows, u64::MAX, u64::MAX),
        device,
        listener,
        most,
        is_virtual,
        timekeeping: Timekeeping::default(),
        under_way: Vec::new(),
        free: Vec::new(),
        outstanding: 0,
        seen: 0,
        is_full: false,
        full_until: None,
        starved_since: None,
    };
    let exact = (!is_virtual).then(ExactTimers::new);
    let played = player.run();
    let is_abandoned = matches!(played, Err(Stopped::Listener(_))) && player.listener.abandons();
    if played.is_err() && !is_abandoned {
        player.let_end();
    }
    drop(exact);
    (player.timekeeping, played)
}

/// While it lives, the kernel wakes this thread exactly on time, instead of up to 50 us later to
/// save power.
struct ExactTimers {
    before: Option<NonZeroU64>,
}

impl ExactTimers {
    fn new() -> Self {
        // If the kernel does not allow it, the lateness is reported as any other.
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

/// A request under way.
#[derive(Clone, Copy)]
struct UnderWay {
    flow: u32,
    request: IoRequest,
    due: Option<Nanos>,
}

/// Longest wait for a device in real time: then the listener may stop the play.
const LONGEST_WAIT: Nanos = 200_000_000;
/// Wait for a request that was not read yet, while others are outstanding.
const UNREAD_WAIT: Nanos = 50_000;

struct Player<'a, S, L> {
    device: &'a mut dyn BlockDevice,
    flows: Flows<S>,
    listener: &'a mut L,
    /// Most requests outstanding.
    most: u32,
    is_virtual: bool,
    timekeeping: Timekeeping,
    under_way: Vec<UnderWay>,
    free: Vec<u32>,
    outstanding: u32,
    /// The last known time: reading the clock is costly.
    seen: Nanos,
    /// True if a request could be sent but there is no room for it.
    is_full: bool,
    /// Time at which there was room again for a request that had waited for it.
    full_until: Option<Nanos>,
    starved_since: Option<Nanos>,
}

impl<S: ReadAhead, L: Listener> Player<'_, S, L> {
    fn run(&mut self) -> Result<(), Stopped<L::Error>> {
        self.flows.prepare().map_err(Stopped::Source)?;
        self.seen = self.device.now();
        self.listener.begins(self.seen);
        self.flows.start(self.seen).map_err(Stopped::Source)?;
        let mut completed = Vec::with_capacity(64);
        while let Some(until) = self.send_due()? {
            let waited = self.device.wait(until, &mut completed);
            self.seen = match completed.last() {
                Some(last) if !self.is_virtual => last.completed_at,
                _ => self.device.now(),
            };
            // All completions are handled, even those after one that failed.
            let heard = completed
                .drain(..)
                .map(|completion| self.completed(&completion))
                .fold(Ok(()), Result::and);
            heard?;
            waited.map_err(Stopped::Device)?;
            let goes_on = self.listener.looks(self.seen).map_err(Stopped::Listener)?;
            if !goes_on {
                self.flows.stop();
            }
        }
        Ok(())
    }

    /// Sends all requests that may be sent, as long as there is room. Gives the time until which to
    /// wait then, or `None` if all is done. Waits for a request to be read only where no time
    /// passes meanwhile, or nothing else is to be done.
    fn send_due(&mut self) -> Result<Option<Nanos>, Stopped<L::Error>> {
        let mut patiently = self.is_virtual;
        loop {
            if !self.is_virtual && self.flows.next_due() < Nanos::MAX {
                self.seen = self.device.now();
            }
            let has_room = self.outstanding < self.most;
            let turn = self.flows.next(self.seen, has_room, patiently).map_err(Stopped::Source)?;
            let (until, is_full, is_unread) = match turn {
                Turn::Send(flow, request, due) => {
                    self.is_fed();
                    self.send(flow, request, due);
                    continue;
                }
                Turn::Wait { until, is_full, is_unread } => (until, is_full, is_unread),
            };
            if is_unread && self.starved_since.is_none() {
                self.starved_since = Some(self.device.now());
                self.timekeeping.starved += 1;
            }
            if is_unread && self.outstanding == 0 && until == Nanos::MAX {
                patiently = true;
                continue;
            }
            self.is_full |= is_full;
            if self.outstanding == 0 && until == Nanos::MAX {
                self.is_fed();
                return Ok(None);
            }
            return Ok(Some(self.wait_until(if is_full { Nanos::MAX } else { until }, is_unread)));
        }
    }

    fn is_fed(&mut self) {
        if let Some(since) = self.starved_since.take() {
            self.timekeeping.starved_ns += self.device.now() - since;
        }
    }

    fn wait_until(&mut self, until: Nanos, is_unread: bool) -> Nanos {
        let mut until = until.min(self.listener.next_look());
        if is_unread {
            until = until.min(self.device.now() + UNREAD_WAIT);
        }
        if self.is_virtual { until } else { until.min(self.seen + LONGEST_WAIT) }
    }

    fn send(&mut self, flow: u32, request: IoRequest, due: Option<Nanos>) {
        if std::mem::take(&mut self.is_full) {
            self.full_until = Some(self.seen);
        }
        let was_held = due.is_some_and(|due| self.full_until.is_some_and(|until| due <= until));
        let sending = Sending { flow, request, due, now: self.seen, was_held };
        self.listener.sends(self.device, &sending);
        let under_way = UnderWay { flow, request, due };
        let id = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(under_way);
            self.under_way.len() as u32 - 1
        });
        self.under_way[id as usize] = under_way;
        self.outstanding += 1;
        let most = &mut self.timekeeping.most_outstanding;
        *most = self.outstanding.max(*most);
        let command = Command::new(id, request.op, request.offset, request.length);
        self.device.submit(Command { is_fua: request.is_fua, ..command });
    }

    fn completed(&mut self, completion: &Completion) -> Result<(), Stopped<L::Error>> {
        let id = completion.reply.id;
        self.outstanding -= 1;
        self.free.push(id);
        let UnderWay { flow, request, due } = self.under_way[id as usize];
        let told = self.flows.ended(flow, request.op, completion.completed_at);
        told.map_err(Stopped::Source)?;
        let (sent, ended) = (completion.submitted_at, completion.completed_at);
        let goes_on = match &completion.reply.outcome {
            Ok(_) => self
                .listener
                .ended(&Ended { flow, request, due, sent, ended })
                .map_err(Stopped::Listener)?,
            Err(failure) => {
                let name = self.device.info().name.clone();
                let error = BlockError::Failed { name, failure: failure.clone() };
                if !self.listener.failed(&request, failure, &error) {
                    return Err(Stopped::Device(error));
                }
                true
            }
        };
        if !goes_on {
            self.flows.stop();
        }
        Ok(())
    }

    /// Waits for the requests that a stopped play left outstanding: the next play would take their
    /// completions for those of its own requests. The wait is limited, in case the device completes
    /// nothing more. Its errors are ignored, as its first error was already reported.
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
    }
}
