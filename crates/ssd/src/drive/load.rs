//! Flows of requests on a drive, in virtual time.

use player::{Flow, Flows, Turn};
use units::{IoRequest, RequestSource, SourceError};

use super::device::{Completion, Drive, Submission};
use super::schemes::Scheme;
use super::time::{PICOS_PER_NANO, Picos};

pub use player::Lookahead;
pub use player::Pace;

/// Requests fetched from a source at once.
const CHUNK: usize = 4096;

/// A sequence of requests beside others, at its own pace.
#[must_use]
pub fn flow(source: Box<dyn RequestSource>, pace: Pace) -> Flow {
    Flow::new(Lookahead::new(source, CHUNK), pace)
}

/// A target of requests in virtual time: a drive, or several drives as one.
pub trait Target {
    /// The time of the current event.
    fn now(&self) -> Picos;

    /// As [`Drive::submit`].
    fn submit(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>);

    /// Loads the map entries for requests that come soon.
    fn fetch(&self, _requests: &[IoRequest]) {}

    /// As [`Drive::next_time`].
    fn next_time(&self) -> Option<Picos>;

    /// As [`Drive::step_at`].
    fn step_at(&mut self, next: Picos, completed: &mut Vec<Completion>);
}

impl<S: Scheme> Target for Drive<S> {
    #[inline]
    fn now(&self) -> Picos {
        self.now()
    }

    #[inline]
    fn submit(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>) {
        self.submit(at, submission, completed);
    }

    fn fetch(&self, requests: &[IoRequest]) {
        self.fetch(requests);
    }

    #[inline]
    fn next_time(&self) -> Option<Picos> {
        self.next_time()
    }

    #[inline]
    fn step_at(&mut self, next: Picos, completed: &mut Vec<Completion>) {
        self.step_at(next, completed);
    }
}

/// All flows of a run.
pub struct Load {
    flows: Flows<Lookahead, PICOS_PER_NANO>,
    completed: Vec<Completion>,
}

impl Load {
    /// Flows that together send at most `most` requests, the last of them before `until`, and in
    /// any case within the first 106 days: requests under way then still end before the clock does.
    #[must_use]
    pub fn new(flows: Vec<Flow>, most: u64, until: Picos) -> Self {
        let flows = Flows::new(flows, most, until.min(Picos::MAX / 2));
        Self { flows, completed: Vec::with_capacity(64) }
    }

    /// Number of requests sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.flows.sent()
    }

    /// Number of requests sent and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.flows.outstanding()
    }

    /// Sends the first requests of every flow.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn start<T: Target + ?Sized>(&mut self, drive: &mut T) -> Result<(), SourceError> {
        let now = drive.now();
        self.flows.start(now)?;
        self.send_ready(drive, now)
    }

    /// Sends the requests that wait for no time.
    #[inline]
    fn send_ready<T: Target + ?Sized>(
        &mut self,
        drive: &mut T,
        now: Picos,
    ) -> Result<(), SourceError> {
        while self.flows.is_ready() {
            let Turn::Send(flow, request, _) = self.flows.next_ready(now, true, true)? else {
                break;
            };
            self.send(drive, now, flow, &request);
        }
        Ok(())
    }

    #[inline]
    fn send<T: Target + ?Sized>(
        &mut self,
        drive: &mut T,
        now: Picos,
        flow: u32,
        request: &IoRequest,
    ) {
        let submission = Submission {
            op: request.op,
            offset: request.offset,
            length: request.length,
            queue: request.stream.wrapping_add(self.flows.queue(flow)),
            priority: self.flows.priority(flow),
            is_fua: request.is_fua,
            placement: self.flows.handle(flow).unwrap_or(request.handle),
            handle: flow,
        };
        drive.submit(now, submission, &mut self.completed);
        let soon = self.flows.soon(flow);
        if !soon.is_empty() {
            drive.fetch(soon);
        }
    }

    /// Time of the next event, in the drive or here; [`Picos::MAX`] if all is done. Work that the
    /// drive then still does for itself, in idle time, belongs to no run: otherwise a run would
    /// last until the drive has nothing left to clean.
    #[inline]
    #[must_use]
    pub fn next_time<T: Target + ?Sized>(&self, drive: &T) -> Picos {
        if !self.completed.is_empty() {
            return drive.now();
        }
        let ours = self.flows.next_due();
        if self.flows.outstanding() == 0 && ours == Picos::MAX {
            return Picos::MAX;
        }
        drive.next_time().unwrap_or(Picos::MAX).min(ours)
    }

    /// Carries out the next event; `each` is called for every request that completes.
    ///
    /// # Errors
    /// If a source cannot be read.
    #[inline]
    pub fn step<T: Target + ?Sized>(
        &mut self,
        drive: &mut T,
        next: Picos,
        mut each: impl FnMut(&T, &Completion),
    ) -> Result<(), SourceError> {
        if !self.completed.is_empty() {
            // The first requests may have completed at once, before `each` could be called.
        } else if self.flows.next_due() > next || drive.next_time() == Some(next) {
            drive.step_at(next, &mut self.completed);
        } else {
            self.flows.fall_due(next);
            self.send_ready(drive, next)?;
        }
        // Sending may complete a request at once, so the list may grow during the loop.
        let mut index = 0;
        while index < self.completed.len() {
            let completion = &self.completed[index];
            index += 1;
            each(drive, completion);
            let Submission { op, handle, .. } = completion.submission;
            let now = completion.completed_at;
            if let Some(request) = self.flows.followed(handle, now) {
                self.send(drive, now, handle, &request);
            } else {
                self.flows.ended(handle, op, now)?;
                self.send_ready(drive, now)?;
            }
        }
        self.completed.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use player::FlowFigures;
    use units::{IoOp, Progress, VecRequests};

    use super::*;
    use crate::drive::profile::{self, Profile};
    use crate::drive::run::{Outcome, RunSettings, simulate_flows};
    use crate::drive::state::State;
    use crate::drive::time::{PICOS_PER_SECOND, picos_of_micros};

    fn small() -> Profile {
        let changes = [
            "media.channels=1",
            "media.packages_per_channel=1",
            "media.erase_blocks_per_plane=16",
            "ftl.over_provisioning=1",
        ];
        profile::load("a16").unwrap().with_overrides(&changes).unwrap()
    }

    fn play(jobs: Vec<Flow>, most_time: Picos) -> Outcome {
        play_on(small(), jobs, most_time)
    }

    fn play_on(profile: Profile, jobs: Vec<Flow>, most_time: Picos) -> Outcome {
        let settings = RunSettings {
            profile,
            state: State::Filled,
            pace: Pace::OPEN,
            seed: 1,
            most_requests: u64::MAX,
            most_time,
            untimed_requests: 0,
            warm_up_requests: 0,
            timeline_spans: 0,
            audit: true,
        };
        simulate_flows(&settings, None, jobs, &Progress::default()).unwrap()
    }

    #[test]
    fn a_write_with_fua_waits_for_flash_and_another_does_not() {
        let mean_write = |is_fua: bool| {
            let write = |offset| IoRequest {
                time_ns: 0,
                op: IoOp::Write,
                offset,
                length: 4096,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua,
            };
            let requests: Arc<[IoRequest]> = (0..4).map(|page| write(page * 4096)).collect();
            let closed = Pace::Closed { depth: 1, think: 0 };
            let writes = flow(Box::new(VecRequests::new(requests)), closed);
            let buffered = small().with_overrides(&["write_buffer.bytes=64Ki"]).unwrap();
            play_on(buffered, vec![writes], Picos::MAX).elapsed / 4
        };
        let program = picos_of_micros(small().media.program_us[0]);
        let (buffered, forced) = (mean_write(false), mean_write(true));
        assert!(buffered < program && program < forced, "{buffered} and {forced} ps");
    }

    fn job(requests: &[(u64, IoOp)], pace: Pace) -> Flow {
        let request = |&(time_ns, op): &(u64, IoOp)| {
            let length = if op == IoOp::Flush { 0 } else { 4096 };
            IoRequest {
                time_ns,
                op,
                offset: 0,
                length,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            }
        };
        let requests: Arc<[IoRequest]> = requests.iter().map(request).collect();
        flow(Box::new(VecRequests::new(requests)), pace)
    }

    /// A flush of a drive that has nothing to write takes no time on this profile, so nothing else
    /// happens after it was sent.
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
            let open = job(&[(0, IoOp::Read), (an_hour, IoOp::Read)], Pace::OPEN);
            let thinking =
                job(&[(0, IoOp::Read); 5], Pace::Closed { depth: 1, think: 3_600_000_000_000 });
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
        assert_eq!(play(vec![job(&requests, Pace::OPEN)], Picos::MAX).requests, 1);
    }

    #[test]
    fn each_job_has_its_own_figures() {
        let reads = job(&[(0, IoOp::Read); 3], Pace::Closed { depth: 1, think: 0 });
        let writes = job(
            &[(0, IoOp::Write), (0, IoOp::Trim), (0, IoOp::Flush), (0, IoOp::Write)],
            Pace::Closed { depth: 1, think: 0 },
        );
        let outcome = play(vec![reads, writes, job(&[], Pace::OPEN)], Picos::MAX);
        let [reads, writes, nothing] = outcome.flows[..] else { panic!("three jobs") };
        assert_eq!((reads.requests, reads.read_bytes, reads.written_bytes), (3, 3 * 4096, 0));
        assert_eq!((writes.requests, writes.read_bytes, writes.written_bytes), (4, 0, 2 * 4096));
        assert_eq!(
            (nothing, nothing.iops(PICOS_PER_SECOND), nothing.mean_latency()),
            (FlowFigures::default(), 0.0, 0.0)
        );
        let sum = outcome.latencies.all().latency.mean * outcome.requests as f64;
        let jobs_sum = (reads.latency + writes.latency) as f64 / PICOS_PER_NANO as f64;
        assert!((sum - jobs_sum).abs() < 1e-6 * sum);
        assert!(
            reads.elapsed.max(writes.elapsed) <= outcome.elapsed
                && reads.iops(PICOS_PER_SECOND) > 0.0
        );
    }

    /// The drive's remaining work of its own takes long: here for ever as far as the requests are
    /// concerned.
    #[test]
    fn a_run_ends_with_its_last_request_whatever_the_drive_still_does() {
        let changes = ["cleaning.background_below_free=0.9", "cleaning.idle_us=50"];
        let settings = RunSettings {
            profile: small().with_overrides(&changes).unwrap(),
            state: State::Aged { overwrites: 1.0 },
            pace: Pace::OPEN,
            seed: 1,
            most_requests: u64::MAX,
            most_time: Picos::MAX,
            untimed_requests: 0,
            warm_up_requests: 0,
            timeline_spans: 0,
            audit: true,
        };
        let writes = job(&[(0, IoOp::Write); 5], Pace::Closed { depth: 1, think: 0 });
        let outcome = simulate_flows(&settings, None, vec![writes], &Progress::default()).unwrap();
        let requests = outcome.latencies.all().latency.mean * 5.0 * PICOS_PER_NANO as f64;
        assert!(
            (outcome.elapsed as f64 - requests).abs() < 10.0,
            "{} ps, of which requests took {requests}",
            outcome.elapsed
        );
        assert_eq!(outcome.flows[0].elapsed, outcome.elapsed);
    }
}
