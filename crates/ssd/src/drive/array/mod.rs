//! Several simulated drives as one: each holds all data (mirrored), and a read that would take long
//! on one goes to another.
//!
//! The host that does so is part of the model: it has no link or processor of its own. All drives
//! take part in each write, trim and flush, which is done when the last of them is.

mod hedge;
mod run;

pub use run::{ArrayOutcome, simulate_array};

use units::IoOp;

use self::hedge::Percentile;
use super::counters::counters;
use super::device::{Completion, Drive, Submission};
use super::load::Target;
use super::measure::{BusyTime, Delay, busy_times};
use super::profile::Profile;
use super::run::RunError;
use super::schemes::{Scheme, SchemeCounters};
use super::time::{Picos, picos_of_micros};
use super::timers::{TimerId, Timers};

/// How a read finds its drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrayReads {
    /// It goes to the drive of its address, whatever that does.
    Home,
    /// A drive fails it at once rather than let it wait for what the drive does for itself; then it
    /// goes to the drive that has nothing of that kind in its way, or to the one with the shortest
    /// rest of it (Li et al., IODA, SOSP '21, sections 3.2 and 3.4: fast-failing reads and
    /// their busy remaining time). In the paper the others are those of a stripe with parity.
    FailFast,
    /// One that is not answered within this share of what reads of their own drive took lately, 0
    /// ... 1, is sent to another, too, and the first answer counts (Dean & Barroso, The Tail at
    /// Scale, CACM 2013: hedged requests). The other goes on.
    Hedged(f64),
}

/// What an array is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayConfig {
    /// Drives: 2 ... 16.
    pub drives: u32,
    /// How reads find theirs.
    pub reads: ArrayReads,
}

/// Why a run of an array failed, or there can be no such array.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// Too few or too many drives.
    #[error("an array has 2 to 16 drives, not {0}")]
    Drives(u32),
    /// No percentile.
    #[error("a read is hedged after a share of the others above 0 and below 1, not {0}")]
    Percentile(f64),
    /// As of a single drive.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ArrayConfig {
    /// # Errors
    /// [`ArrayError`] if a value is out of its range.
    pub fn check(&self) -> Result<(), ArrayError> {
        if !(2..=16).contains(&self.drives) {
            return Err(ArrayError::Drives(self.drives));
        }
        match self.reads {
            ArrayReads::Hedged(share) if !(share > 0.0 && share < 1.0) => {
                Err(ArrayError::Percentile(share))
            }
            _ => Ok(()),
        }
    }
}

counters! {
    /// What an array did with its reads.
    pub struct ArrayCounters {
        /// Reads.
        reads,
        /// Of them, those that their drive failed at once.
        failed_reads,
        /// Of those, the ones that found all drives at work for themselves.
        reads_without_choice,
        /// Reads that were sent to a second drive.
        hedged_reads,
        /// Of those, the ones that the second drive answered first.
        won_reads,
    }
}

/// A drive of an array, whatever its scheme.
pub(super) trait Member {
    fn as_target(&mut self) -> &mut dyn Target;
    fn next_time(&self) -> Option<Picos>;
    fn advance_to(&mut self, time: Picos);
    fn would_wait(&self, offset: u64, length: u32) -> Option<Picos>;
    fn scheme_counters(&self) -> SchemeCounters;
    fn busy_times(&self) -> Vec<BusyTime>;
    fn event_hash(&self) -> u64;
    fn is_worn_out(&self) -> bool;
    fn audit(&self) -> Result<(), String>;
}

impl<S: Scheme> Member for Drive<S> {
    fn as_target(&mut self) -> &mut dyn Target {
        self
    }

    fn next_time(&self) -> Option<Picos> {
        self.next_time()
    }

    fn advance_to(&mut self, time: Picos) {
        self.media_mut().advance_to(time);
    }

    fn would_wait(&self, offset: u64, length: u32) -> Option<Picos> {
        self.would_wait(offset, length)
    }

    fn scheme_counters(&self) -> SchemeCounters {
        self.scheme().counters()
    }

    fn busy_times(&self) -> Vec<BusyTime> {
        busy_times(self.media())
    }

    fn event_hash(&self) -> u64 {
        self.media().event_hash()
    }

    fn is_worn_out(&self) -> bool {
        self.worn_out().is_some()
    }

    fn audit(&self) -> Result<(), String> {
        self.scheme().audit()
    }
}

/// A request of the host's under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    submission: Submission,
    submitted_at: Picos,
    /// Parts under way.
    outstanding: u32,
    /// Parts that have to be done before it is.
    left: u32,
    is_answered: bool,
    timer: Option<TimerId>,
}

/// A request as it was sent to one of the drives.
#[derive(Clone, Copy, Debug)]
struct Part {
    request: u32,
    drive: u32,
    sent_at: Picos,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// A read was failed.
    Failed(u32),
    /// A read may be hedged.
    Hedge(u32),
}

/// The drives, and what is under way.
pub struct Array {
    drives: Vec<Box<dyn Member>>,
    reads: ArrayReads,
    percentile: Percentile,
    page_bytes: u64,
    /// How long the host takes to learn that a read was failed: a command and the way back.
    fail: Picos,
    now: Picos,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    parts: Vec<Part>,
    free_parts: Vec<u32>,
    timers: Timers<Due>,
    done: Vec<Completion>,
    counters: ArrayCounters,
}

impl Array {
    fn new(profile: &Profile, reads: ArrayReads, drives: Vec<Box<dyn Member>>) -> Self {
        let share = if let ArrayReads::Hedged(share) = reads { share } else { 1.0 };
        let fail = profile.interface.host_us + profile.controller.read_command_us;
        Self {
            drives,
            reads,
            percentile: Percentile::new(share),
            page_bytes: u64::from(profile.media.page_bytes),
            fail: picos_of_micros(fail),
            now: 0,
            requests: Vec::new(),
            free_requests: Vec::new(),
            parts: Vec::new(),
            free_parts: Vec::new(),
            timers: Timers::default(),
            done: Vec::new(),
            counters: ArrayCounters::default(),
        }
    }

    /// What was done with reads so far.
    #[must_use]
    pub fn counters(&self) -> &ArrayCounters {
        &self.counters
    }

    /// The drive that a read goes to first: pages in turn.
    fn home_of(&self, submission: &Submission) -> u32 {
        (submission.offset / self.page_bytes % self.drives.len() as u64) as u32
    }

    fn send(&mut self, drive: u32, request: u32, completed: &mut Vec<Completion>) {
        let part = Part { request, drive, sent_at: self.now };
        let number = self.free_parts.pop().unwrap_or(self.parts.len() as u32);
        if let Some(free) = self.parts.get_mut(number as usize) {
            *free = part;
        } else {
            self.parts.push(part);
        }
        let of = &mut self.requests[request as usize];
        of.outstanding += 1;
        let submission = Submission { handle: number, ..of.submission };
        let mut done = std::mem::take(&mut self.done);
        self.drives[drive as usize].as_target().submit(self.now, submission, &mut done);
        self.parts_done(done, completed);
    }

    fn parts_done(&mut self, mut done: Vec<Completion>, completed: &mut Vec<Completion>) {
        for part in &done {
            self.part_done(part, completed);
        }
        done.clear();
        self.done = done;
    }

    fn part_done(&mut self, done: &Completion, completed: &mut Vec<Completion>) {
        let number = done.submission.handle;
        let part = self.parts[number as usize];
        self.free_parts.push(number);
        let home = self.home_of(&done.submission);
        let request = &mut self.requests[part.request as usize];
        request.outstanding -= 1;
        request.left = request.left.saturating_sub(1);
        let is_read = request.submission.op == IoOp::Read;
        if is_read && part.drive == home && part.sent_at == request.submitted_at {
            self.percentile.add(done.completed_at - part.sent_at);
        }
        if request.left == 0 && !request.is_answered {
            request.is_answered = true;
            self.counters.won_reads +=
                u64::from(is_read && part.drive != home && request.outstanding > 0);
            if let Some(timer) = request.timer.take() {
                self.timers.cancel(timer);
            }
            let mut delays = done.delays;
            // What it waited for before, at the other drive, the host does not know.
            delays[Delay::Queue] += part.sent_at - request.submitted_at;
            completed.push(Completion {
                submission: request.submission,
                submitted_at: request.submitted_at,
                completed_at: done.completed_at,
                delays,
            });
        }
        if request.outstanding == 0 && request.is_answered {
            self.free_requests.push(part.request);
        }
    }

    fn read(&mut self, number: u32, completed: &mut Vec<Completion>) {
        self.counters.reads += 1;
        let submission = self.requests[number as usize].submission;
        let home = self.home_of(&submission);
        let due = match self.reads {
            ArrayReads::Home => None,
            ArrayReads::FailFast => {
                let (offset, length) = (submission.offset, submission.length);
                if self.drives[home as usize].would_wait(offset, length).is_some() {
                    self.counters.failed_reads += 1;
                    let due = Due::Failed(number);
                    self.requests[number as usize].timer =
                        Some(self.timers.set(self.now + self.fail, due));
                    return;
                }
                None
            }
            ArrayReads::Hedged(_) => self.percentile.get(),
        };
        if let Some(after) = due {
            let timer = self.timers.set(self.now + after, Due::Hedge(number));
            self.requests[number as usize].timer = Some(timer);
        }
        self.send(home, number, completed);
    }

    /// Of all drives the one that lets a read wait least, the home last where they are equal.
    fn read_elsewhere(&mut self, number: u32, completed: &mut Vec<Completion>) {
        let submission = self.requests[number as usize].submission;
        let (home, count) = (self.home_of(&submission), self.drives.len() as u32);
        let wait = |drive: u32| {
            let drive = &self.drives[drive as usize];
            // Not at all, or for the rest of what it is at.
            drive
                .would_wait(submission.offset, submission.length)
                .map_or(0, |rest| rest.saturating_add(1))
        };
        let best = (1..=count).map(|step| (home + step) % count).min_by_key(|&drive| wait(drive));
        let best = best.unwrap_or(home);
        self.counters.reads_without_choice += u64::from(wait(best) > 0);
        self.send(best, number, completed);
    }

    fn fall_due(&mut self, completed: &mut Vec<Completion>) {
        while let Some(due) = self.timers.take_due(self.now) {
            match due {
                Due::Failed(number) => {
                    self.requests[number as usize].timer = None;
                    self.read_elsewhere(number, completed);
                }
                Due::Hedge(number) => {
                    let request = &mut self.requests[number as usize];
                    request.timer = None;
                    let home = self.home_of(&self.requests[number as usize].submission);
                    self.counters.hedged_reads += 1;
                    self.send((home + 1) % self.drives.len() as u32, number, completed);
                }
            }
        }
    }
}

impl Target for Array {
    fn now(&self) -> Picos {
        self.now
    }

    fn submit(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>) {
        self.now = at;
        let is_read = submission.op == IoOp::Read;
        let left = if is_read { 1 } else { self.drives.len() as u32 };
        let (outstanding, is_answered, timer) = (0, false, None);
        let request =
            Request { submission, submitted_at: at, outstanding, left, is_answered, timer };
        let number = self.free_requests.pop().unwrap_or(self.requests.len() as u32);
        if let Some(free) = self.requests.get_mut(number as usize) {
            *free = request;
        } else {
            self.requests.push(request);
        }
        if is_read {
            return self.read(number, completed);
        }
        // A drive may be done at once: then the request has to wait for the rest all the same.
        for drive in 0..self.drives.len() as u32 {
            self.send(drive, number, completed);
        }
    }

    fn next_time(&self) -> Option<Picos> {
        let drives = self.drives.iter().filter_map(|drive| drive.next_time());
        drives.chain(self.timers.next_time()).min()
    }

    fn step_at(&mut self, next: Picos, completed: &mut Vec<Completion>) {
        self.now = next;
        let drive = self.drives.iter_mut().find(|drive| drive.next_time() == Some(next));
        let Some(drive) = drive else { return self.fall_due(completed) };
        let mut done = std::mem::take(&mut self.done);
        drive.as_target().step_at(next, &mut done);
        self.parts_done(done, completed);
    }
}
