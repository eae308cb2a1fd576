//! Who sends requests to a drive, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{IoRequest, RequestSource, SourceError};

use super::device::{Completion, Drive, Submission};
use super::schemes::Scheme;
use super::time::{PICOS_PER_NANO, Picos};

/// When a job sends its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So many outstanding, each followed by the next after some time to think, in picoseconds. 1 outstanding is "one by one".
    Closed {
        /// Requests outstanding at all times, at least 1.
        depth: u32,
        /// Time between the end of a request and the start of the next in its place.
        think: Picos,
    },
    /// At the times in the trace, however late the drive is.
    Open,
}

/// One sequence of requests, sent at its own pace, beside those of other jobs.
pub struct Job {
    source: Box<dyn RequestSource>,
    pace: Pace,
    buffer: Vec<IoRequest>,
    next: usize,
    filled: usize,
    /// When a job at the trace's pace sends its next request.
    due: Picos,
    start: Picos,
    base_ns: Option<u64>,
}

/// Requests fetched from a source at a time.
const CHUNK: usize = 4096;

impl Job {
    /// A job.
    #[must_use]
    pub fn new(source: Box<dyn RequestSource>, pace: Pace) -> Self {
        Self { source, pace, buffer: Vec::new(), next: 0, filled: 0, due: Picos::MAX, start: 0, base_ns: None }
    }

    #[inline]
    fn peek(&mut self) -> Result<Option<IoRequest>, SourceError> {
        if self.next == self.filled {
            if self.buffer.is_empty() {
                let nothing = IoRequest { time_ns: 0, op: units::IoOp::Flush, offset: 0, length: 0, stream: 0, latency_ns: None };
                self.buffer = vec![nothing; CHUNK];
            }
            self.filled = self.source.fill(&mut self.buffer)?;
            self.next = 0;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.next]))
    }

    /// The time of the next request of a job at the trace's pace, counted from its first.
    fn schedule(&mut self) -> Result<(), SourceError> {
        self.due = match self.peek()? {
            Some(request) => {
                let base = *self.base_ns.get_or_insert(request.time_ns);
                // A trace whose clock goes back sends at once what it should have sent before.
                self.start + request.time_ns.saturating_sub(base) * PICOS_PER_NANO
            }
            None => Picos::MAX,
        };
        Ok(())
    }
}

/// All jobs of a run.
pub struct Load {
    jobs: Vec<Job>,
    thinking: BinaryHeap<Reverse<(Picos, u32)>>,
    completed: Vec<Completion>,
    open_due: Picos,
    sent: u64,
    most: u64,
    until: Picos,
}

impl Load {
    /// Jobs that together send `most` requests at most, the last of them before `until`.
    #[must_use]
    pub fn new(jobs: Vec<Job>, most: u64, until: Picos) -> Self {
        Self { jobs, thinking: BinaryHeap::new(), completed: Vec::with_capacity(64), open_due: Picos::MAX, sent: 0, most, until }
    }

    /// Requests sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends the first requests of every job.
    ///
    /// # Errors
    /// If a source cannot be read on.
    pub fn start<S: Scheme>(&mut self, drive: &mut Drive<S>) -> Result<(), SourceError> {
        let now = drive.now();
        for job in 0..self.jobs.len() as u32 {
            match self.jobs[job as usize].pace {
                Pace::Closed { depth, .. } => {
                    for _ in 0..depth {
                        self.send(drive, job, now)?;
                    }
                }
                Pace::Open => {
                    self.jobs[job as usize].start = now;
                    self.jobs[job as usize].schedule()?;
                }
            }
        }
        self.find_due();
        Ok(())
    }

    fn find_due(&mut self) {
        self.open_due = self.jobs.iter().map(|job| job.due).min().unwrap_or(Picos::MAX);
    }

    #[inline]
    fn send<S: Scheme>(&mut self, drive: &mut Drive<S>, number: u32, now: Picos) -> Result<(), SourceError> {
        if self.sent >= self.most || now >= self.until {
            return Ok(());
        }
        let job = &mut self.jobs[number as usize];
        let Some(request) = job.peek()? else { return Ok(()) };
        job.next += 1;
        self.sent += 1;
        let IoRequest { op, offset, length, stream, .. } = request;
        let submission = Submission { op, offset, length, queue: stream, is_fua: false, handle: number };
        drive.submit(now, submission, &mut self.completed);
        Ok(())
    }

    /// When something happens next, in the drive or here; [`Picos::MAX`] if all is done.
    #[inline]
    #[must_use]
    pub fn next_time<S: Scheme>(&self, drive: &Drive<S>) -> Picos {
        let thinking = self.thinking.peek().map_or(Picos::MAX, |&Reverse((at, _))| at);
        drive.next_time().unwrap_or(Picos::MAX).min(self.open_due).min(thinking)
    }

    /// Lets the next thing happen; `each` is told of every request that is done.
    ///
    /// # Errors
    /// If a source cannot be read on.
    #[inline]
    pub fn step<S: Scheme>(&mut self, drive: &mut Drive<S>, next: Picos, mut each: impl FnMut(&Completion)) -> Result<(), SourceError> {
        if drive.next_time() == Some(next) {
            drive.step(&mut self.completed);
        } else if self.open_due == next {
            self.send_due(drive, next)?;
        } else {
            let Reverse((_, job)) = self.thinking.pop().expect("a job has thought");
            self.send(drive, job, next)?;
        }
        // Sending may complete a request at once, so that the list grows while it is gone through.
        let mut index = 0;
        while index < self.completed.len() {
            let completion = self.completed[index];
            index += 1;
            each(&completion);
            let job = completion.submission.handle;
            if let Pace::Closed { think, .. } = self.jobs[job as usize].pace {
                if think == 0 {
                    self.send(drive, job, completion.completed_at)?;
                } else {
                    self.thinking.push(Reverse((completion.completed_at + think, job)));
                }
            }
        }
        self.completed.clear();
        Ok(())
    }

    fn send_due<S: Scheme>(&mut self, drive: &mut Drive<S>, now: Picos) -> Result<(), SourceError> {
        for number in 0..self.jobs.len() as u32 {
            if self.jobs[number as usize].due <= now {
                self.send(drive, number, now)?;
                let job = &mut self.jobs[number as usize];
                if self.sent >= self.most || now >= self.until {
                    job.due = Picos::MAX;
                } else {
                    job.schedule()?;
                    // The time of the trace may lie in the past.
                    job.due = job.due.max(now);
                }
            }
        }
        self.find_due();
        Ok(())
    }
}
