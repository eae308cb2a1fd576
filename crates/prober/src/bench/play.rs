//! The loop that sends requests and takes their ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{BlockError, Command, Completion};
use units::{IoOp, IoRequest, Nanos};

use super::measured::{JobMeasured, Sample};
use super::{Bench, Job, Limit, Measured, Pace};
use crate::error::ProbeError;

/// A request under way.
#[derive(Clone, Copy)]
struct UnderWay {
    request: IoRequest,
    job: u32,
    /// When it was due: at its time in the trace, or when it was sent.
    due: Nanos,
}

struct Player<'b, 'a> {
    bench: &'b mut Bench<'a>,
    jobs: Vec<Job>,
    limit: Limit,
    /// Jobs whose next request is due at a time.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
    under_way: Vec<UnderWay>,
    free: Vec<u32>,
    outstanding: u32,
    measured: Measured,
    /// Requests at which it is asked next whether these are precise enough, where the limit says
    /// how many make a batch.
    asked_at: u64,
    left_to_warm_up: u64,
    is_warming_up: bool,
    /// Start of the measured part.
    since: Nanos,
    start: Nanos,
    ended: bool,
    /// When the progress was told, and asked whether to go on.
    reported: Nanos,
    /// The latest time that is known: to ask a clock costs.
    seen: Nanos,
    is_virtual: bool,
}

impl Bench<'_> {
    /// Plays jobs beside each other until the limit is reached or all have ended, then waits for
    /// what is outstanding.
    ///
    /// # Errors
    /// [`ProbeError::Device`] if the device fails, [`ProbeError::Source`],
    /// [`ProbeError::Cancelled`].
    ///
    /// # Panics
    /// If a job leaves the region, or writes where nothing may be written.
    pub fn play(&mut self, jobs: Vec<Job>, limit: Limit) -> Result<Measured, ProbeError> {
        let start = self.device.now();
        let (count, is_virtual) = (jobs.len(), self.device.info().is_virtual);
        let depth: u64 = jobs.iter().map(|job| u64::from(job.pace.depth())).sum();
        let batch = if limit.batch_requests > 0 { limit.batch_requests } else { 2 * depth };
        let player = Player {
            bench: self,
            jobs,
            limit,
            due: BinaryHeap::new(),
            under_way: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            measured: Measured::new(count, batch),
            asked_at: limit.least_requests.max(1),
            left_to_warm_up: limit.warm_up_requests,
            is_warming_up: limit.warm_up_requests > 0 || limit.warm_up_time > 0,
            since: start,
            start,
            ended: false,
            reported: start,
            seen: start,
            is_virtual,
        };
        let played = player.play();
        let is_given_up =
            self.is_given_up_when_stopped && matches!(played, Err(ProbeError::Cancelled(_)));
        if played.is_err() && !is_given_up {
            self.let_end();
        }
        played
    }

    /// Waits for what a run that failed left outstanding: the next one would take its ends for
    /// those of its own requests. A device that completes nothing more is not waited for for ever;
    /// whatever it says, its first error was told.
    fn let_end(&mut self) {
        const WITHIN: Nanos = 5_000_000_000;
        let end = self.device.now().saturating_add(WITHIN);
        let mut dropped = Vec::new();
        while self.device.outstanding() > 0 && self.device.now() < end {
            let before = self.device.outstanding();
            if self.device.wait(end, &mut dropped).is_err() && self.device.outstanding() == before {
                return;
            }
        }
    }
}

/// Longest wait for a device in real time: then it is looked whether somebody wants the run to
/// stop.
const LONGEST_WAIT: Nanos = 200_000_000;

impl Player<'_, '_> {
    fn play(mut self) -> Result<Measured, ProbeError> {
        for job in 0..self.jobs.len() as u32 {
            match self.jobs[job as usize].pace {
                Pace::Closed { depth, .. } => {
                    (0..depth).for_each(|_| self.due.push(Reverse((self.start, job))));
                }
                Pace::Bursts { .. } => self.begin_burst(job, self.start),
                Pace::Open => self.schedule(job)?,
            }
        }
        let mut completed = Vec::with_capacity(64);
        loop {
            self.send_due()?;
            let next = if self.ended {
                Nanos::MAX
            } else {
                self.due.peek().map_or(Nanos::MAX, |&Reverse((time, _))| time)
            };
            let most = self.outstanding >= self.bench.device.info().queue_depth;
            if self.outstanding == 0 && next == Nanos::MAX {
                break;
            }
            let until = self.until(if most { Nanos::MAX } else { next });
            self.bench.device.wait(until, &mut completed)?;
            match completed.last() {
                Some(last) if !self.is_virtual => self.seen = last.completed_at,
                _ => self.seen = self.bench.device.now(),
            }
            for completion in completed.drain(..) {
                self.completed(&completion)?;
            }
            self.report()?;
        }
        if self.measured.elapsed == 0 {
            self.measured.elapsed = self.bench.device.now() - self.since;
        }
        Ok(self.measured)
    }

    /// Until when to wait: a limit of time ends a run even if nothing is completed, once it is
    /// measured.
    fn until(&self, next: Nanos) -> Nanos {
        let heard = if self.is_virtual { Nanos::MAX } else { self.reported + LONGEST_WAIT };
        if self.ended || !self.may_end_by_time() || self.limit.time == Nanos::MAX {
            next.min(heard)
        } else {
            next.min(heard).min(self.since.saturating_add(self.limit.time)).max(self.start + 1)
        }
    }

    fn may_end_by_time(&self) -> bool {
        !self.is_warming_up && self.measured.requests >= self.limit.fewest_requests
    }

    fn report(&mut self) -> Result<(), ProbeError> {
        let now = self.seen;
        if !self.ended && self.may_end_by_time() && now - self.since >= self.limit.time {
            self.end(now);
        }
        if now - self.reported > 10_000_000 {
            self.bench.progress.advance(now - self.reported)?;
            self.reported = now;
        }
        Ok(())
    }

    fn end(&mut self, now: Nanos) {
        self.ended = true;
        self.due.clear();
        self.measured.elapsed = now - self.since;
    }

    /// The time of the next request of a job at its source's pace.
    fn schedule(&mut self, job: u32) -> Result<(), ProbeError> {
        if let Some(request) =
            self.jobs[job as usize].requests.peek().map_err(ProbeError::Source)?
        {
            self.due.push(Reverse((self.start.saturating_add(request.time_ns), job)));
        }
        Ok(())
    }

    fn begin_burst(&mut self, job: u32, now: Nanos) {
        let Job { burst_start, burst_sent, .. } = &mut self.jobs[job as usize];
        (*burst_start, *burst_sent) = (now, 0);
        self.due.push(Reverse((now, job)));
    }

    /// One of a burst was sent: the next is due so long after the start as its source says.
    fn go_on_with_burst(&mut self, job: u32, size: u32) -> Result<(), ProbeError> {
        let Job { requests, burst_start, burst_sent, .. } = &mut self.jobs[job as usize];
        *burst_sent += 1;
        if *burst_sent < size
            && let Some(next) = requests.peek().map_err(ProbeError::Source)?
        {
            self.due.push(Reverse((burst_start.saturating_add(next.time_ns), job)));
        }
        Ok(())
    }

    fn send_due(&mut self) -> Result<(), ProbeError> {
        let most = self.bench.device.info().queue_depth;
        while !self.ended
            && self.outstanding < most
            && let Some(&Reverse((due, job))) = self.due.peek()
            && (due <= self.seen || due <= self.bench.device.now())
        {
            self.due.pop();
            self.send(job, due)?;
        }
        Ok(())
    }

    fn send(&mut self, job: u32, due: Nanos) -> Result<(), ProbeError> {
        let Some(request) = self.jobs[job as usize].requests.take().map_err(ProbeError::Source)?
        else {
            return Ok(());
        };
        let IoRequest { op, offset, length, .. } = request;
        if op != IoOp::Flush {
            let region = self.bench.settings.region;
            assert!(
                offset >= region.offset
                    && offset + u64::from(length) <= region.offset + region.length,
                "a request at byte {offset} of {length} bytes lies in the region"
            );
            assert!(
                op == IoOp::Read || self.bench.settings.may_write,
                "an experiment that writes runs only where that is allowed"
            );
        }
        let is_open = self.jobs[job as usize].pace == Pace::Open;
        let under_way = UnderWay { request, job, due: if is_open { due } else { Nanos::MAX } };
        let id = match self.free.pop() {
            Some(id) => {
                self.under_way[id as usize] = under_way;
                id
            }
            None => {
                self.under_way.push(under_way);
                self.under_way.len() as u32 - 1
            }
        };
        self.bench.device.submit(Command::new(id, op, offset, length));
        self.outstanding += 1;
        self.jobs[job as usize].outstanding += 1;
        match self.jobs[job as usize].pace {
            Pace::Open => self.schedule(job),
            Pace::Bursts { size } => self.go_on_with_burst(job, size),
            Pace::Closed { .. } => Ok(()),
        }
    }

    fn completed(&mut self, completion: &Completion) -> Result<(), ProbeError> {
        let id = completion.reply.id;
        self.outstanding -= 1;
        self.free.push(id);
        if let Err(failure) = &completion.reply.outcome {
            let name = self.bench.device.info().name.clone();
            return Err(BlockError::Failed { name, failure: failure.clone() }.into());
        }
        let UnderWay { request, job, due } = self.under_way[id as usize];
        self.count(&request);
        self.jobs[job as usize].outstanding -= 1;
        if self.ended {
            return Ok(());
        }
        match self.jobs[job as usize].pace {
            Pace::Closed { think, .. } => {
                self.due.push(Reverse((completion.completed_at.saturating_add(think), job)));
            }
            Pace::Bursts { size } => {
                let Job { outstanding, burst_sent, .. } = self.jobs[job as usize];
                if outstanding == 0 && burst_sent == size {
                    self.begin_burst(job, completion.completed_at);
                }
            }
            Pace::Open => {}
        }
        if self.is_warming_up {
            self.left_to_warm_up = self.left_to_warm_up.saturating_sub(1);
            self.since = completion.completed_at;
            self.is_warming_up =
                self.left_to_warm_up > 0 || self.since - self.start < self.limit.warm_up_time;
            return Ok(());
        }
        let sent = completion.submitted_at.min(due);
        self.measure(&request, job, sent, completion.completed_at);
        Ok(())
    }

    fn measure(&mut self, request: &IoRequest, job: u32, sent: Nanos, ended: Nanos) {
        let latency = ended - sent;
        let measured = &mut self.measured;
        measured.requests += 1;
        measured.bytes += u64::from(request.length);
        measured.elapsed = ended.saturating_sub(self.since);
        // Recording with saturation would not let it grow.
        measured.latencies[request.op as usize]
            .record(latency)
            .expect("a histogram that grows takes any value");
        let JobMeasured { requests, bytes, latency_ns } = &mut measured.jobs[job as usize];
        (*requests, *bytes, *latency_ns) =
            (*requests + 1, *bytes + u64::from(request.length), *latency_ns + u128::from(latency));
        if self.limit.keep_samples {
            let sent_ns = sent.saturating_sub(self.since);
            measured.samples.push(Sample {
                sent_ns,
                latency_ns: latency,
                offset: request.offset,
                op: request.op,
                job,
            });
        }
        let mut is_asked = measured.batches.ended(measured.elapsed);
        if self.limit.batch_requests > 0 {
            is_asked = measured.requests == self.asked_at;
            self.asked_at <<= u32::from(is_asked);
        }
        let may_be_precise = is_asked
            && self.limit.precision > 0.0
            && measured.requests >= self.limit.least_requests;
        let is_precise = may_be_precise && measured.relative_error() < self.limit.precision;
        let is_over =
            measured.elapsed >= self.limit.time && measured.requests >= self.limit.fewest_requests;
        if is_precise || measured.requests == self.limit.requests || is_over {
            self.end(ended);
        }
    }

    fn count(&mut self, request: &IoRequest) {
        let sent = &mut self.bench.sent;
        sent.requests += 1;
        match request.op {
            IoOp::Read => sent.read_bytes += u64::from(request.length),
            IoOp::Write => sent.written_bytes += u64::from(request.length),
            IoOp::Trim | IoOp::Flush => {}
        }
    }
}
