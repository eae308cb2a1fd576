//! Flows of requests side by side: which one sends next, and when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use units::{IoOp, IoRequest, Nanos, SourceError};

use crate::ahead::{Next, ReadAhead};
use crate::lookahead::Lookahead;
use crate::pace::{Pace, scaled};

/// A sequence of requests that is sent beside others.
pub struct Flow<S = Lookahead> {
    source: S,
    pace: Pace,
    priority: u8,
    queue: u32,
    handle: Option<u8>,
    waits_for_flushes: bool,
    is_beside: bool,
}

impl<S> Flow<S> {
    /// Makes a flow.
    ///
    /// # Panics
    /// If the pace has a factor that is not above 0, or a depth of 0.
    #[must_use]
    pub fn new(source: S, pace: Pace) -> Self {
        pace.check();
        Self {
            source,
            pace,
            priority: 0,
            queue: 0,
            handle: None,
            waits_for_flushes: false,
            is_beside: false,
        }
    }

    /// The source of its requests, for callers that take some from it before the flow is played.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The pace at which it sends.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Sets a priority other than 0. Where several flows could send but there is not room for all,
    /// the highest priority goes first, and within a priority the flow that could send first.
    #[must_use]
    pub fn with_priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Sends through other queues of the host: this number is added to the queue of each request.
    #[must_use]
    pub fn with_queue(mut self, queue: u32) -> Self {
        self.queue = queue;
        self
    }

    /// Gives all its writes this placement handle, whatever its source says.
    #[must_use]
    pub fn with_handle(mut self, handle: u8) -> Self {
        self.handle = Some(handle);
        self
    }

    /// Makes it a companion of other flows: it stops sending when all flows that are not companions
    /// have ended.
    #[must_use]
    pub fn beside(mut self) -> Self {
        self.is_beside = true;
        self
    }

    /// Holds back all requests after a flush until the flush has ended. Otherwise the kernel would
    /// merge flushes that are outstanding together and let later requests overtake them, so that
    /// the device would get another sequence than the source's.
    #[must_use]
    pub fn waiting_for_flushes(mut self) -> Self {
        self.waits_for_flushes = true;
        self
    }
}

/// State of a flow.
struct Stand<S> {
    flow: Flow<S>,
    outstanding: u32,
    /// Time at which the last request was sent, and its time in the source.
    before: Option<(u64, Nanos)>,
    /// Start of the burst under way; then the number of its requests sent.
    burst_start: u64,
    burst_sent: u32,
    /// True if an outstanding flush holds back later requests.
    is_flushing: bool,
    /// Number of requests that may be sent once another has ended.
    held_back: u32,
    /// Number of requests that may be sent once they were read.
    unread: u32,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// A flow sends a request. The time is that at which it was due, if its pace sets one.
    Send(u32, IoRequest, Option<u64>),
    /// No request can be sent before a time; [`u64::MAX`] if only the end of a request can change
    /// that.
    Wait {
        /// The time.
        until: u64,
        /// True if a request could be sent but the device has no room for it.
        is_full: bool,
        /// True if a request could be sent but was not read yet.
        is_unread: bool,
    },
}

/// Flows that send side by side. Times are in ticks of the caller, `PER_NANO` to the nanosecond.
pub struct Flows<S = Lookahead, const PER_NANO: u64 = 1> {
    stands: Vec<Stand<S>>,
    /// Flows that may send now, once for each request, by priority.
    ready: Vec<VecDeque<u32>>,
    /// Number of entries in `ready`.
    waiting: u32,
    /// Flows that may send at a later time, by that time.
    later: BinaryHeap<Reverse<(u64, u32)>>,
    /// Index of each flow's priority in `ready`.
    rank: Vec<u32>,
    start: u64,
    sent: u64,
    outstanding: u64,
    /// Sum over all flows.
    unread: u32,
    /// Flows that are no companions and have not ended.
    leading: u32,
    most: u64,
    until: u64,
}

impl<S: ReadAhead, const PER_NANO: u64> Flows<S, PER_NANO> {
    /// Makes a set of flows that together send at most `most` requests, all of them before `until`.
    #[must_use]
    pub fn new(flows: Vec<Flow<S>>, most: u64, until: u64) -> Self {
        let mut priorities: Vec<u8> = flows.iter().map(|flow| flow.priority).collect();
        priorities.sort_unstable_by_key(|&priority| Reverse(priority));
        priorities.dedup();
        let rank = |flow: &Flow<S>| {
            priorities.iter().position(|&priority| priority == flow.priority).unwrap_or(0) as u32
        };
        let rank = flows.iter().map(rank).collect();
        let stand = |flow| Stand {
            flow,
            outstanding: 0,
            before: None,
            burst_start: 0,
            burst_sent: 0,
            is_flushing: false,
            held_back: 0,
            unread: 0,
        };
        Self {
            stands: flows.into_iter().map(stand).collect(),
            ready: vec![VecDeque::new(); priorities.len()],
            waiting: 0,
            later: BinaryHeap::new(),
            rank,
            start: 0,
            sent: 0,
            outstanding: 0,
            unread: 0,
            leading: 0,
            most,
            until,
        }
    }

    /// The number that is added to the queue of a flow's requests.
    #[inline]
    #[must_use]
    pub fn queue(&self, flow: u32) -> u32 {
        self.stands[flow as usize].flow.queue
    }

    /// The placement handle of all writes of a flow; `None` if each request has its own.
    #[inline]
    #[must_use]
    pub fn handle(&self, flow: u32) -> Option<u8> {
        self.stands[flow as usize].flow.handle
    }

    /// The priority of a flow.
    #[inline]
    #[must_use]
    pub fn priority(&self, flow: u32) -> u8 {
        self.stands[flow as usize].flow.priority
    }

    /// Number of requests sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of requests sent and not ended.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Reads the first request of each flow, however long that takes.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn prepare(&mut self) -> Result<(), SourceError> {
        self.stands.iter_mut().try_for_each(|stand| stand.flow.source.peek(true).map(|_| ()))
    }

    /// Starts the clock of all flows.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn start(&mut self, now: u64) -> Result<(), SourceError> {
        self.start = now;
        for stand in &mut self.stands {
            let is_leading = !stand.flow.is_beside && stand.flow.source.peek(true)? != Next::End;
            self.leading += u32::from(is_leading);
        }
        if self.leading == 0 {
            self.stop();
            return Ok(());
        }
        for number in 0..self.stands.len() as u32 {
            match self.stands[number as usize].flow.pace {
                Pace::Closed { depth, .. } => (0..depth).for_each(|_| self.may_send(number)),
                Pace::Bursts { .. } => self.begin_burst(number, now),
                Pace::Open { .. } | Pace::Intervals { .. } => self.arm(number)?,
            }
        }
        Ok(())
    }

    /// Stops all flows: nothing more is sent.
    pub fn stop(&mut self) {
        self.most = self.sent;
        self.ready.iter_mut().for_each(VecDeque::clear);
        self.waiting = 0;
        self.later.clear();
        self.stands.iter_mut().for_each(|stand| (stand.held_back, stand.unread) = (0, 0));
        self.unread = 0;
    }

    #[inline]
    fn may_send(&mut self, flow: u32) {
        self.ready[self.rank[flow as usize] as usize].push_back(flow);
        self.waiting += 1;
    }

    /// Lets a flow send at a time. Does nothing if that is after the end.
    #[inline]
    fn may_send_at(&mut self, time: u64, flow: u32) {
        if time < self.until {
            self.later.push(Reverse((time, flow)));
        }
    }

    /// Schedules the next request of a flow whose requests are due at times.
    fn arm(&mut self, number: u32) -> Result<(), SourceError> {
        match self.stands[number as usize].flow.source.peek(false)? {
            Next::Request(request) => {
                let due = self.due(number, &request).unwrap_or(self.start);
                self.may_send_at(due, number);
            }
            Next::NotYet => self.is_unread(number),
            Next::End => {}
        }
        Ok(())
    }

    fn is_unread(&mut self, number: u32) {
        self.stands[number as usize].unread += 1;
        self.unread += 1;
    }

    /// The time at which a request is due, if its pace sets one. If the source's clock goes back,
    /// the request is due at once.
    fn due(&self, number: u32, request: &IoRequest) -> Option<u64> {
        let stand = &self.stands[number as usize];
        let ticks = |time: Nanos| time.saturating_mul(PER_NANO);
        match stand.flow.pace {
            Pace::Open { factor } => {
                Some(self.start.saturating_add(ticks(scaled(request.time_ns, factor))))
            }
            Pace::Intervals { factor, .. } => {
                let (sent, time) = stand.before.unwrap_or((self.start, request.time_ns));
                let interval = request.time_ns.saturating_sub(time);
                Some(sent.saturating_add(ticks(scaled(interval, factor))))
            }
            Pace::Closed { .. } | Pace::Bursts { .. } => None,
        }
    }

    fn begin_burst(&mut self, number: u32, now: u64) {
        let stand = &mut self.stands[number as usize];
        (stand.burst_start, stand.burst_sent) = (now, 0);
        self.may_send_at(now, number);
    }

    /// The time at which the next request falls due, of those that wait for a time.
    #[inline]
    #[must_use]
    pub fn next_due(&self) -> u64 {
        self.later.peek().map_or(u64::MAX, |&Reverse((time, _))| time)
    }

    /// Gives the next action, of requests that may be sent at once or are due by `now`. With
    /// `patiently`, waits until requests are read.
    ///
    /// # Errors
    /// If a source cannot be read on.
    #[inline]
    pub fn next(&mut self, now: u64, has_room: bool, patiently: bool) -> Result<Turn, SourceError> {
        self.fall_due(now);
        self.next_ready(now, has_room, patiently)
    }

    /// Moves flows that are due by `now` to those that may send at once.
    #[inline]
    pub fn fall_due(&mut self, now: u64) {
        while self.next_due() <= now
            && let Some(Reverse((_, flow))) = self.later.pop()
        {
            self.may_send(flow);
        }
    }

    /// As [`Flows::next`], but only for requests that may be sent without waiting for a time.
    ///
    /// # Errors
    /// If a source cannot be read on.
    #[inline]
    pub fn next_ready(
        &mut self,
        now: u64,
        has_room: bool,
        patiently: bool,
    ) -> Result<Turn, SourceError> {
        if self.unread > 0 {
            self.look_again(patiently)?;
        }
        let mut rank = 0;
        while self.waiting > 0 {
            let Some(&number) = self.ready[rank].front() else {
                rank += 1;
                continue;
            };
            if self.sent >= self.most || now >= self.until {
                self.stop();
                break;
            }
            let stand = &mut self.stands[number as usize];
            if stand.is_held_back() {
                stand.held_back += 1;
            } else {
                match stand.flow.source.peek(patiently)? {
                    Next::Request(_) if !has_room => return Ok(self.wait(true)),
                    Next::Request(request) => {
                        self.ready[rank].pop_front();
                        self.waiting -= 1;
                        return self.send(number, request, now);
                    }
                    Next::NotYet => self.is_unread(number),
                    Next::End => {}
                }
            }
            self.ready[rank].pop_front();
            self.waiting -= 1;
        }
        Ok(self.wait(false))
    }

    /// Returns true if some flow may send without waiting for a time.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.waiting > 0
    }

    fn wait(&self, is_full: bool) -> Turn {
        Turn::Wait { until: self.next_due(), is_full, is_unread: self.unread > 0 }
    }

    /// Looks again for requests that were not read before.
    #[cold]
    fn look_again(&mut self, patiently: bool) -> Result<(), SourceError> {
        for number in 0..self.stands.len() as u32 {
            let stand = &mut self.stands[number as usize];
            if stand.unread == 0 || stand.flow.source.peek(patiently)? == Next::NotYet {
                continue;
            }
            let unread = std::mem::take(&mut stand.unread);
            self.unread -= unread;
            for _ in 0..unread {
                if self.stands[number as usize].flow.pace.is_timed() {
                    self.arm(number)?;
                } else {
                    self.may_send(number);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, number: u32, request: IoRequest, now: u64) -> Result<Turn, SourceError> {
        let due = self.due(number, &request);
        let stand = &mut self.stands[number as usize];
        stand.flow.source.advance();
        stand.outstanding += 1;
        stand.is_flushing |= stand.flow.waits_for_flushes && request.op == IoOp::Flush;
        self.sent += 1;
        self.outstanding += 1;
        match stand.flow.pace {
            Pace::Closed { .. } => {}
            Pace::Open { .. } | Pace::Intervals { .. } => {
                stand.before = Some((now, request.time_ns));
                self.arm(number)?;
            }
            Pace::Bursts { size } => {
                stand.burst_sent += 1;
                if stand.burst_sent < size
                    && let Next::Request(next) = stand.flow.source.peek(true)?
                {
                    let after = next.time_ns.saturating_mul(PER_NANO);
                    let time = stand.burst_start.saturating_add(after);
                    self.may_send_at(time, number);
                }
            }
        }
        Ok(Turn::Send(number, request, due))
    }

    /// Records that a request of a flow has ended.
    ///
    /// # Errors
    /// If a source cannot be read on.
    #[inline]
    pub fn ended(&mut self, number: u32, op: IoOp, at: u64) -> Result<(), SourceError> {
        self.outstanding -= 1;
        let stand = &mut self.stands[number as usize];
        stand.outstanding -= 1;
        if op == IoOp::Flush {
            stand.is_flushing = false;
        }
        if self.sent >= self.most {
            return Ok(());
        }
        if self.stands.len() > 1 && self.ends_all(number)? {
            self.stop();
            return Ok(());
        }
        let stand = &mut self.stands[number as usize];
        match stand.flow.pace {
            Pace::Closed { think: 0, .. } => self.may_send(number),
            Pace::Closed { think, .. } => {
                self.may_send_at(at.saturating_add(think.saturating_mul(PER_NANO)), number);
            }
            Pace::Bursts { size } => {
                if stand.outstanding == 0 && stand.burst_sent == size {
                    self.begin_burst(number, at);
                }
            }
            Pace::Open { .. } | Pace::Intervals { .. } => {}
        }
        if self.stands[number as usize].held_back > 0 {
            let held_back = std::mem::take(&mut self.stands[number as usize].held_back);
            (0..held_back).for_each(|_| self.may_send(number));
        }
        Ok(())
    }

    /// A fast path of [`Flows::ended`]: if the next request of the flow can be sent at once and
    /// nobody else can send, gives that request. Otherwise does nothing and gives `None`.
    #[inline(always)]
    pub fn followed(&mut self, number: u32, at: u64) -> Option<IoRequest> {
        let [stand] = &mut self.stands[..] else { return None };
        let is_simple = matches!(stand.flow.pace, Pace::Closed { think: 0, .. })
            && !stand.flow.waits_for_flushes
            && number == 0
            && self.waiting == 0
            && self.sent < self.most
            && at < self.until;
        if !is_simple {
            return None;
        }
        let request = stand.flow.source.take_at_hand()?;
        self.sent += 1;
        Some(request)
    }

    /// Returns true if all flows that are no companions have ended with the last request of this
    /// flow.
    fn ends_all(&mut self, number: u32) -> Result<bool, SourceError> {
        let stand = &mut self.stands[number as usize];
        let has_ended = stand.outstanding == 0
            && !stand.flow.is_beside
            && stand.flow.source.peek(true)? == Next::End;
        self.leading -= u32::from(has_ended);
        Ok(self.leading == 0)
    }
}

impl<const PER_NANO: u64> Flows<Lookahead, PER_NANO> {
    /// Requests that a flow will send soon, each given only once.
    #[inline]
    pub fn soon(&mut self, flow: u32) -> &[IoRequest] {
        self.stands[flow as usize].flow.source.soon()
    }
}

impl<S> Stand<S> {
    #[inline]
    fn is_held_back(&self) -> bool {
        self.is_flushing
            || matches!(self.flow.pace, Pace::Intervals { depth, .. } if self.outstanding >= depth)
    }
}
