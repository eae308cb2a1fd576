//! Drives that each hold all data: a read that would take long on one of them goes to another.

use units::IoOp;

use super::hedge::Percentile;
use super::{ArrayCounters, ArrayReads, Counts, Group, Member};
use crate::drive::device::{Completion, Submission};
use crate::drive::load::Target;
use crate::drive::measure::Delay;
use crate::drive::profile::Profile;
use crate::drive::time::{Picos, picos_of_micros};
use crate::drive::timers::{TimerId, Timers};

/// A request of the host under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    submission: Submission,
    submitted_at: Picos,
    /// Number of parts under way.
    outstanding: u32,
    /// Number of parts that still have to end before the request does.
    left: u32,
    is_answered: bool,
    timer: Option<TimerId>,
}

/// A request as sent to one of the drives.
#[derive(Clone, Copy, Debug)]
struct Part {
    request: u32,
    drive: u32,
    sent_at: Picos,
}

/// Purpose of a timer.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// A drive failed this read.
    Failed(u32),
    /// This read may be hedged.
    Hedge(u32),
}

/// The drives, and the requests under way.
pub(super) struct Mirrored {
    drives: Vec<Box<dyn Member>>,
    reads: ArrayReads,
    percentile: Percentile,
    page_bytes: u64,
    /// Time until the host learns that a read was failed: a command and the way back.
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

impl Mirrored {
    pub fn new(profile: &Profile, reads: ArrayReads, drives: Vec<Box<dyn Member>>) -> Self {
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

    /// The drive that a read goes to first: pages are dealt out in turn.
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
            // The host cannot tell how the time at the other drive before was spent.
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

    /// Sends a read to the drive with the shortest wait; at equal waits, the home drive comes last.
    fn read_elsewhere(&mut self, number: u32, completed: &mut Vec<Completion>) {
        let submission = self.requests[number as usize].submission;
        let (home, count) = (self.home_of(&submission), self.drives.len() as u32);
        let wait = |drive: u32| {
            let drive = &self.drives[drive as usize];
            // No wait, or the rest of the operation under way.
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

impl Target for Mirrored {
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
        // A drive may complete a part at once: the request must wait for the others all the same.
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

impl Group for Mirrored {
    fn drives(&self) -> &[Box<dyn Member>] {
        &self.drives
    }

    fn drives_mut(&mut self) -> &mut [Box<dyn Member>] {
        &mut self.drives
    }

    fn counts(&self) -> Counts {
        Counts { reads: self.counters, ..Counts::default() }
    }

    fn outstanding(&self) -> u32 {
        (self.requests.len() - self.free_requests.len()) as u32
    }
}
