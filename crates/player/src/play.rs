//! The loop that sends the requests of flows to a device and takes their ends.

use std::num::NonZeroU64;

use block::{BlockDevice, BlockError, Command, Completion, Failure};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use units::{IoRequest, Nanos, SourceError};

use crate::ahead::ReadAhead;
use crate::flows::{Flow, Flows, Turn};

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The flow that sends it, by its place among those given.
    pub flow: u32,
    /// The request.
    pub request: IoRequest,
    /// When it was due, on the device's clock, if its pace says it.
    pub due: Option<Nanos>,
    /// Now.
    pub now: Nanos,
    /// It became due while the device took no more.
    pub was_held: bool,
}

/// A request that has succeeded. Times are of the device's clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The flow that sent it.
    pub flow: u32,
    /// The request.
    pub request: IoRequest,
    /// When it was due, if its pace says it.
    pub due: Option<Nanos>,
    /// When it was given to the device.
    pub sent: Nanos,
    /// When it ended.
    pub ended: Nanos,
}

/// Whoever measures what is played.
pub trait Listener {
    /// Why it stops the play.
    type Error;

    /// The play begins.
    fn begins(&mut self, now: Nanos);

    /// A request is sent next.
    fn sends(&mut self, device: &mut dyn BlockDevice, sending: &Sending);

    /// A request has succeeded. Whether more shall be sent.
    ///
    /// # Errors
    /// Whatever stops the play.
    fn ended(&mut self, ended: &Ended) -> Result<bool, Self::Error>;

    /// A request has failed. Whether that is only counted; otherwise it stops the play.
    fn failed(&mut self, request: &IoRequest, failure: &Failure, error: &BlockError) -> bool;

    /// After each wait for the device. Whether more shall be sent.
    ///
    /// # Errors
    /// Whatever stops the play, such as [`units::Cancelled`].
    fn looks(&mut self, now: Nanos) -> Result<bool, Self::Error>;

    /// When it wants to look next at the latest.
    fn next_look(&self) -> Nanos {
        Nanos::MAX
    }

    /// Whether a play that it stopped may leave what is outstanding to itself: only of a device
    /// that is dropped then.
    fn abandons(&self) -> bool {
        false
    }
}

/// Why a play ended early.
#[derive(Debug)]
pub enum Stopped<E> {
    /// The device failed.
    Device(BlockError),
    /// A source cannot be read on.
    Source(SourceError),
    /// The listener stopped it.
    Listener(E),
}

/// How the clock was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timekeeping {
    /// Most requests outstanding.
    pub most_outstanding: u32,
    /// How often the next request was not read in time, so that it was waited for.
    pub starved: u64,
    /// How long it was waited for it, in nanoseconds.
    pub starved_ns: Nanos,
}

/// Plays flows beside each other until all have ended or the listener ends them, then waits for
/// what is outstanding.
///
/// The clock starts when the first request of each flow is there. On a device in virtual time the
/// same flows give the same outcome. What stopped it early comes beside what was found up to then.
///
/// # Panics
/// If a request is none that the device takes (see [`BlockDevice::submit`]).
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

/// A request under way.
#[derive(Clone, Copy)]
struct UnderWay {
    flow: u32,
    request: IoRequest,
    due: Option<Nanos>,
}

/// Longest wait for a device in real time: then it is looked whether somebody wants the play to
/// stop.
const LONGEST_WAIT: Nanos = 200_000_000;
/// Wait for a request that was not read yet, while others are outstanding.
const UNREAD_WAIT: Nanos = 50_000;

struct Player<'a, S, L> {
    device: &'a mut dyn BlockDevice,
    flows: Flows<S>,
    listener: &'a mut L,
    /// Requests that may be outstanding.
    most: u32,
    is_virtual: bool,
    timekeeping: Timekeeping,
    under_way: Vec<UnderWay>,
    free: Vec<u32>,
    outstanding: u32,
    /// The latest time that is known: to ask a clock costs.
    seen: Nanos,
    /// A request could be sent, and there is no room for it.
    is_full: bool,
    /// When there was room for one again that had waited for it.
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
            // Each is heard of, even behind one that failed.
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

    /// Sends what may be sent, as far as there is room; until when to wait then, or `None` if all
    /// is done. A request that was not read yet is only waited for where no time passes meanwhile,
    /// or nothing else is to be done.
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

    /// Waits for what a play that was stopped left outstanding: the next one would take its ends
    /// for those of its own requests. A device that completes nothing more is not waited for for
    /// ever; whatever it says, its first error was told.
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
