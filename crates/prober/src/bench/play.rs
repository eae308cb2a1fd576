//! Flows on the device under experiment, and what is measured of them.

use block::{BlockDevice, BlockError, Failure};
use player::{Ended, Flow, Listener, Lookahead, Pace, Sending, Stopped};
use units::{Cancelled, IoOp, IoRequest, Nanos, Progress, RequestSource};

use super::measured::Sample;
use super::{Bench, Limit, Measured, Sent, Settings};
use crate::error::ProbeError;

/// Requests fetched from a source at a time.
const CHUNK: usize = 256;

/// Requests of one kind, sent at one pace beside others.
#[must_use]
pub fn flow(source: Box<dyn RequestSource>, pace: Pace) -> Flow {
    Flow::new(Lookahead::new(source, CHUNK), pace)
}

/// So many requests outstanding, without time to think.
#[must_use]
pub fn closed(source: Box<dyn RequestSource>, depth: u32) -> Flow {
    flow(source, Pace::closed(depth))
}

impl Bench<'_> {
    /// Plays flows beside each other until the limit is reached or all have ended, then waits for
    /// what is outstanding.
    ///
    /// # Errors
    /// [`ProbeError::Device`] if the device fails, [`ProbeError::Source`],
    /// [`ProbeError::Cancelled`].
    ///
    /// # Panics
    /// If a flow leaves the region, or writes where nothing may be written.
    pub fn play(&mut self, flows: Vec<Flow>, limit: Limit) -> Result<Measured, ProbeError> {
        let depth: u64 = flows.iter().map(|flow| u64::from(flow.pace().depth())).sum();
        let batch = if limit.batch_requests > 0 { limit.batch_requests } else { 2 * depth };
        let mut meter = Meter {
            settings: self.settings,
            progress: self.progress,
            sent: self.sent,
            is_given_up_when_stopped: self.is_given_up_when_stopped,
            is_virtual: self.device.info().is_virtual,
            limit,
            measured: Measured::new(flows.len(), batch),
            asked_at: limit.least_requests.max(1),
            left_to_warm_up: limit.warm_up_requests,
            is_warming_up: limit.warm_up_requests > 0 || limit.warm_up_time > 0,
            since: 0,
            start: 0,
            is_over: false,
            reported: 0,
        };
        let (_, played) = player::play(self.device, flows, &mut meter);
        self.sent = meter.sent;
        played.map_err(|stopped| match stopped {
            Stopped::Device(error) => ProbeError::Device(error),
            Stopped::Source(error) => ProbeError::Source(error),
            Stopped::Listener(cancelled) => ProbeError::Cancelled(cancelled),
        })?;
        if meter.measured.elapsed == 0 {
            meter.measured.elapsed = self.device.now() - meter.since;
        }
        Ok(meter.measured)
    }
}

/// Measures until the limit is reached.
struct Meter<'a> {
    settings: Settings,
    progress: &'a Progress,
    sent: Sent,
    is_given_up_when_stopped: bool,
    is_virtual: bool,
    limit: Limit,
    measured: Measured,
    /// Requests at which it is asked next whether these are precise enough, where the limit says
    /// how many make a batch.
    asked_at: u64,
    left_to_warm_up: u64,
    is_warming_up: bool,
    /// Start of the measured part.
    since: Nanos,
    start: Nanos,
    is_over: bool,
    /// Time of the last report to the progress, which may ask for a stop.
    reported: Nanos,
}

impl Listener for Meter<'_> {
    type Error = Cancelled;

    fn begins(&mut self, now: Nanos) {
        (self.since, self.start, self.reported) = (now, now, now);
    }

    fn sends(&mut self, _: &mut dyn BlockDevice, sending: &Sending) {
        let IoRequest { op, offset, length, .. } = sending.request;
        if op == IoOp::Flush {
            return;
        }
        let region = self.settings.region;
        assert!(
            offset >= region.offset && offset + u64::from(length) <= region.offset + region.length,
            "a request at byte {offset} of {length} bytes lies in the region"
        );
        assert!(
            op == IoOp::Read || self.settings.may_write,
            "an experiment that writes runs only where that is allowed"
        );
    }

    fn ended(&mut self, ended: &Ended) -> Result<bool, Cancelled> {
        self.count(&ended.request);
        if self.is_over {
            return Ok(false);
        }
        if self.is_warming_up {
            self.left_to_warm_up = self.left_to_warm_up.saturating_sub(1);
            self.since = ended.ended;
            self.is_warming_up =
                self.left_to_warm_up > 0 || self.since - self.start < self.limit.warm_up_time;
            return Ok(true);
        }
        self.measure(ended);
        Ok(!self.is_over)
    }

    fn failed(&mut self, _: &IoRequest, _: &Failure, _: &BlockError) -> bool {
        false
    }

    fn looks(&mut self, now: Nanos) -> Result<bool, Cancelled> {
        if !self.is_over && self.may_end_by_time() && now - self.since >= self.limit.time {
            self.end(now);
        }
        if now - self.reported > 10_000_000 {
            self.progress.advance(now - self.reported)?;
            self.reported = now;
        }
        Ok(!self.is_over)
    }

    /// A limit of time ends a run even if nothing is completed, once it is measured.
    fn next_look(&self) -> Nanos {
        if self.is_over || !self.may_end_by_time() || self.limit.time == Nanos::MAX {
            Nanos::MAX
        } else {
            self.since.saturating_add(self.limit.time).max(self.start + 1)
        }
    }

    fn abandons(&self) -> bool {
        self.is_given_up_when_stopped && self.is_virtual
    }
}

impl Meter<'_> {
    fn may_end_by_time(&self) -> bool {
        !self.is_warming_up && self.measured.requests >= self.limit.fewest_requests
    }

    fn end(&mut self, now: Nanos) {
        self.is_over = true;
        self.measured.elapsed = now - self.since;
    }

    fn measure(&mut self, of: &Ended) {
        let Ended { flow, request, ended, .. } = *of;
        let sent = of.due.map_or(of.sent, |due| due.min(of.sent));
        let latency = ended - sent;
        let measured = &mut self.measured;
        measured.requests += 1;
        measured.bytes += u64::from(request.length);
        measured.elapsed = ended.saturating_sub(self.since);
        // Recording with saturation would not let it grow.
        measured.latencies[request.op as usize]
            .record(latency)
            .expect("a histogram that grows takes any value");
        measured.flows[flow as usize].add(request.op, request.length, latency, measured.elapsed);
        if self.limit.keep_samples {
            let sent_ns = sent.saturating_sub(self.since);
            measured.samples.push(Sample {
                sent_ns,
                latency_ns: latency,
                offset: request.offset,
                op: request.op,
                flow,
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
        let is_late =
            measured.elapsed >= self.limit.time && measured.requests >= self.limit.fewest_requests;
        if is_precise || measured.requests == self.limit.requests || is_late {
            self.end(ended);
        }
    }

    fn count(&mut self, request: &IoRequest) {
        let sent = &mut self.sent;
        sent.requests += 1;
        match request.op {
            IoOp::Read => sent.read_bytes += u64::from(request.length),
            IoOp::Write => sent.written_bytes += u64::from(request.length),
            IoOp::Trim | IoOp::Flush => {}
        }
    }
}
