//! Who sends requests to a drive, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{IoRequest, Lookahead, RequestSource, SourceError};

use super::device::{Completion, Drive, Submission};
use super::schemes::Scheme;
use super::time::{PICOS_PER_NANO, Picos};

/// When a job sends its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So many outstanding, each followed by the next after some time to think, in picoseconds. 1
    /// outstanding is "one by one".
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
    requests: Lookahead,
    pace: Pace,
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
        Self {
            requests: Lookahead::new(source, CHUNK),
            pace,
            due: Picos::MAX,
            start: 0,
            base_ns: None,
        }
    }

    /// The time of the next request of a job at the trace's pace, counted from its first.
    fn schedule(&mut self) -> Result<(), SourceError> {
        self.due = match self.requests.peek()? {
            Some(request) => {
                let base = *self.base_ns.get_or_insert(request.time_ns);
                // A trace whose clock goes back sends at once what it should have sent before.
                self.start.saturating_add(
                    request.time_ns.saturating_sub(base).saturating_mul(PICOS_PER_NANO),
                )
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
    outstanding: u64,
    most: u64,
    until: Picos,
}

impl Load {
    /// Jobs that together send `most` requests at most, the last of them before `until`, and in any
    /// case within the first 106 days: what is under way then still ends before the clock does.
    #[must_use]
    pub fn new(jobs: Vec<Job>, most: u64, until: Picos) -> Self {
        let until = until.min(Picos::MAX / 2);
        Self {
            jobs,
            thinking: BinaryHeap::new(),
            completed: Vec::with_capacity(64),
            open_due: Picos::MAX,
            sent: 0,
            outstanding: 0,
            most,
            until,
        }
    }

    /// Requests sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Requests sent and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
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

    /// Requests after the end are not waited for: nothing happens at their time.
    fn find_due(&mut self) {
        self.open_due = self
            .jobs
            .iter()
            .map(|job| job.due)
            .filter(|&due| due < self.until)
            .min()
            .unwrap_or(Picos::MAX);
    }

    #[inline]
    fn send<S: Scheme>(
        &mut self,
        drive: &mut Drive<S>,
        number: u32,
        now: Picos,
    ) -> Result<(), SourceError> {
        if self.sent >= self.most || now >= self.until {
            return Ok(());
        }
        let job = &mut self.jobs[number as usize];
        let Some(request) = job.requests.take()? else { return Ok(()) };
        self.sent += 1;
        self.outstanding += 1;
        let IoRequest { op, offset, length, stream, .. } = request;
        let submission =
            Submission { op, offset, length, queue: stream, is_fua: false, handle: number };
        drive.submit(now, submission, &mut self.completed);
        Ok(())
    }

    /// When something happens next, in the drive or here; [`Picos::MAX`] if all is done. What the
    /// drive then still does for itself, in idle time, belongs to no run: with it a run would last
    /// until the drive has nothing left to clean.
    #[inline]
    #[must_use]
    pub fn next_time<S: Scheme>(&self, drive: &Drive<S>) -> Picos {
        if !self.completed.is_empty() {
            return drive.now();
        }
        let ours = self.ours();
        if self.outstanding == 0 && ours == Picos::MAX {
            return Picos::MAX;
        }
        drive.next_time().unwrap_or(Picos::MAX).min(ours)
    }

    /// When the next request is to be sent that waits for its time.
    #[inline]
    fn ours(&self) -> Picos {
        self.open_due.min(self.thinking.peek().map_or(Picos::MAX, |&Reverse((at, _))| at))
    }

    /// Lets the next thing happen; `each` is told of every request that is done.
    ///
    /// # Errors
    /// If a source cannot be read on.
    #[inline]
    pub fn step<S: Scheme>(
        &mut self,
        drive: &mut Drive<S>,
        next: Picos,
        mut each: impl FnMut(&Drive<S>, &Completion),
    ) -> Result<(), SourceError> {
        if !self.completed.is_empty() {
            // The first requests may have been done at once, when nobody was there to be told.
        } else if self.ours() > next || drive.next_time() == Some(next) {
            drive.step_at(next, &mut self.completed);
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
            self.outstanding -= 1;
            each(drive, &completion);
            let job = completion.submission.handle;
            if let Pace::Closed { think, .. } = self.jobs[job as usize].pace {
                if think == 0 {
                    self.send(drive, job, completion.completed_at)?;
                } else if completion.completed_at.saturating_add(think) < self.until {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use units::{IoOp, Progress, VecRequests};

    use super::*;
    use crate::drive::profile::{self, Profile};
    use crate::drive::run::{JobOutcome, Outcome, Settings, simulate_jobs};
    use crate::drive::state::State;
    use crate::drive::time::PICOS_PER_SECOND;

    fn small() -> Profile {
        let changes = [
            "media.channels=1",
            "media.packages_per_channel=1",
            "media.erase_blocks_per_plane=16",
            "ftl.over_provisioning=1",
        ];
        profile::load("a16").unwrap().with_overrides(&changes).unwrap()
    }

    fn play(jobs: Vec<Job>, most_time: Picos) -> Outcome {
        let settings = Settings {
            profile: small(),
            state: State::Filled,
            pace: Pace::Open,
            seed: 1,
            most_requests: u64::MAX,
            most_time,
            warm_up_requests: 0,
            timeline_spans: 0,
            audit: true,
        };
        simulate_jobs(&settings, None, jobs, &Progress::default()).unwrap()
    }

    fn job(requests: &[(u64, IoOp)], pace: Pace) -> Job {
        let request = |&(time_ns, op): &(u64, IoOp)| {
            let length = if op == IoOp::Flush { 0 } else { 4096 };
            IoRequest { time_ns, op, offset: 0, length, stream: 0, latency_ns: None }
        };
        let requests: Arc<[IoRequest]> = requests.iter().map(request).collect();
        Job::new(Box::new(VecRequests::new(requests)), pace)
    }

    /// A flush of a drive that has nothing to write takes no time on this profile, so that nothing
    /// else happens after it was sent.
    #[test]
    fn a_first_request_that_is_done_at_once_is_followed_by_the_next() {
        let requests = [(0, IoOp::Flush), (0, IoOp::Flush), (0, IoOp::Write)];
        for depth in [1, 2, 3, 8] {
            assert_eq!(
                play(vec![job(&requests, Pace::Closed { depth, think: 0 })], Picos::MAX).requests,
                3,
                "depth {depth}"
            );
        }
    }

    #[test]
    fn what_lies_behind_the_end_is_not_waited_for() {
        let jobs = || {
            let an_hour = 3_600_000_000_000;
            let open = job(&[(0, IoOp::Read), (an_hour, IoOp::Read)], Pace::Open);
            let thinking = job(
                &[(0, IoOp::Read); 5],
                Pace::Closed { depth: 1, think: 3_600 * PICOS_PER_SECOND },
            );
            vec![open, thinking]
        };
        let short = play(jobs(), PICOS_PER_SECOND);
        assert_eq!(short.requests, 2);
        assert!(
            short.windows.iter().all(|window| window.length < PICOS_PER_SECOND),
            "{:?}",
            short.windows
        );
        assert_eq!(play(jobs(), Picos::MAX).requests, 7);
    }

    #[test]
    fn times_beyond_the_clock_are_not_sent() {
        let requests = [(0, IoOp::Read), (u64::MAX, IoOp::Read)];
        assert_eq!(play(vec![job(&requests, Pace::Open)], Picos::MAX).requests, 1);
    }

    #[test]
    fn each_job_has_its_own_figures() {
        let reads = job(&[(0, IoOp::Read); 3], Pace::Closed { depth: 1, think: 0 });
        let writes = job(
            &[(0, IoOp::Write), (0, IoOp::Trim), (0, IoOp::Flush), (0, IoOp::Write)],
            Pace::Closed { depth: 1, think: 0 },
        );
        let outcome = play(vec![reads, writes, job(&[], Pace::Open)], Picos::MAX);
        let [reads, writes, nothing] = outcome.jobs[..] else { panic!("three jobs") };
        assert_eq!((reads.requests, reads.read_bytes, reads.written_bytes), (3, 3 * 4096, 0));
        assert_eq!((writes.requests, writes.read_bytes, writes.written_bytes), (4, 0, 2 * 4096));
        assert_eq!(
            (nothing, nothing.iops(), nothing.mean_latency_ns()),
            (JobOutcome::default(), 0.0, 0.0)
        );
        let sum = outcome.latencies.all().latency.mean * outcome.requests as f64;
        let jobs_sum = reads.mean_latency_ns() * 3.0 + writes.mean_latency_ns() * 4.0;
        assert!((sum - jobs_sum).abs() < 1e-6 * sum);
        assert!(reads.elapsed.max(writes.elapsed) <= outcome.elapsed && reads.iops() > 0.0);
    }

    /// What the drive still does for itself takes long, here for ever as far as the requests are
    /// concerned.
    #[test]
    fn a_run_ends_with_its_last_request_whatever_the_drive_still_does() {
        let changes = ["cleaning.background_below_free=0.9", "cleaning.idle_us=50"];
        let settings = Settings {
            profile: small().with_overrides(&changes).unwrap(),
            state: State::Aged { overwrites: 1.0 },
            pace: Pace::Open,
            seed: 1,
            most_requests: u64::MAX,
            most_time: Picos::MAX,
            warm_up_requests: 0,
            timeline_spans: 0,
            audit: true,
        };
        let writes = job(&[(0, IoOp::Write); 5], Pace::Closed { depth: 1, think: 0 });
        let outcome = simulate_jobs(&settings, None, vec![writes], &Progress::default()).unwrap();
        let requests = outcome.latencies.all().latency.mean * 5.0 * PICOS_PER_NANO as f64;
        assert!(
            (outcome.elapsed as f64 - requests).abs() < 10.0,
            "{} ps, of which requests took {requests}",
            outcome.elapsed
        );
        assert_eq!(outcome.jobs[0].elapsed, outcome.elapsed);
    }
}
