//! The thread of a volume: it takes requests, drives the stack, and replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use block::{BlockDevice, BlockError, Completion, Extent, Failure};
use slab::Slab;
use units::Nanos;

use super::gate::Gate;
use super::jobs::{Job, Next, Part, Takes};
use super::scrub::{Passes, ScrubFigures};
use super::{Asked, Outcome};
use crate::metrics::{OpFigures, of_layers};
use crate::{Figures, Volume, VolumeError};

/// Message to the thread.
pub enum Message {
    Request(Asked),
    Figures(Sender<Figures>),
    /// Asks for the extents of bytes: first byte, and number of bytes.
    Extents(u64, u64, Sender<Vec<Extent>>),
    /// Asks for the progress of a pass over all that has checksums; with `true` one begins.
    Scrub(bool, Sender<ScrubFigures>),
    Close,
    /// Lets the thread stop at once.
    Stop,
}

/// Longest wait, in nanoseconds: after that it checks that the device is still there.
const LONGEST_WAIT: Nanos = 1_000_000_000;
/// Longest wait for a device that nobody can wake, in nanoseconds.
const POLL_EVERY: Nanos = 50_000;

/// Most extents of one answer.
const MOST_EXTENTS: usize = 4096;

pub struct Work {
    volume: Volume,
    takes: Takes,
    queue_depth: usize,
    receiver: Receiver<Message>,
    is_asleep: Arc<AtomicBool>,
    can_be_woken: bool,
    gate: Arc<Gate>,
    jobs: Slab<Job>,
    /// Job of each command that the stack has, and its place in the step.
    commands: Slab<(usize, u32)>,
    /// Commands that wait for others to end.
    backlog: VecDeque<(usize, Part)>,
    /// Requests that wait for sectors of which a partial write, or they themselves, need exclusive
    /// use.
    deferred: VecDeque<Job>,
    /// Number of partial writes under way.
    partial: usize,
    replies: Vec<Completion>,
    requests: [OpFigures; 4],
    /// Error after which nothing can be done any more.
    gone: Option<BlockError>,
    is_closing: bool,
    passes: Passes,
}

impl Work {
    pub fn new(
        mut volume: Volume,
        receiver: Receiver<Message>,
        is_asleep: Arc<AtomicBool>,
        can_be_woken: bool,
        gate: Arc<Gate>,
    ) -> Self {
        let now = volume.driver.now();
        let passes = Passes::new(&volume, now);
        let info = volume.driver.info();
        Self {
            takes: Takes { limits: info.limits, zeroing_bytes: info.zeroing_bytes.map(u64::from) },
            queue_depth: info.queue_depth as usize,
            volume,
            receiver,
            is_asleep,
            can_be_woken,
            gate,
            jobs: Slab::new(),
            commands: Slab::new(),
            backlog: VecDeque::new(),
            deferred: VecDeque::new(),
            partial: 0,
            replies: Vec::new(),
            requests: [OpFigures::default(); 4],
            gone: None,
            is_closing: false,
            passes,
        }
    }

    /// Works until it is asked to close, or no sender is left.
    pub fn run(mut self) -> Result<(), VolumeError> {
        loop {
            let has_message = self.take_messages();
            let has_ended = self.drive();
            if has_message || has_ended {
                continue;
            }
            if self.is_closing && self.jobs.is_empty() {
                break;
            }
            if let Err(error) = self.wait() {
                self.give_up(error);
            }
        }
        match self.gone {
            Some(error) => Err(error.into()),
            None => self.volume.close(),
        }
    }

    /// Takes all messages; returns true if there was one.
    fn take_messages(&mut self) -> bool {
        let mut has_message = false;
        loop {
            match self.receiver.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return has_message,
            }
            has_message = true;
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Request(asked) => {
                let now = self.volume.driver.now();
                let job = Job::new(asked, now, self.takes.limits);
                match self.refusal(&job) {
                    Some(failure) => self.end(job, Err(failure)),
                    None if self.has_to_wait(&job) => self.deferred.push_back(job),
                    None => self.begin(job),
                }
            }
            Message::Figures(to) => {
                let _ = to.send(self.figures());
            }
            Message::Extents(offset, length, to) => {
                let _ = to.send(self.extents(offset, length));
            }
            Message::Scrub(begins, to) => {
                let broken = self.broken();
                if begins && broken.is_none() && !self.is_closing {
                    self.passes.begin(&mut self.volume);
                }
                let _ = to.send(self.passes.figures(&self.volume, broken));
            }
            Message::Close => self.is_closing = true,
            Message::Stop => {
                let error = self.dropped();
                self.give_up(error);
            }
        }
    }

    fn extents(&mut self, mut offset: u64, length: u64) -> Vec<Extent> {
        let end = offset.saturating_add(length).min(self.takes.limits.capacity_bytes);
        let mut extents: Vec<Extent> = Vec::new();
        while offset < end && extents.len() < MOST_EXTENTS {
            let next = self.volume.driver.extent(offset, end - offset);
            offset += next.length;
            match extents.last_mut() {
                Some(last) if last.is_hole == next.is_hole => last.length += next.length,
                _ => extents.push(next),
            }
        }
        extents
    }

    fn refusal(&self, job: &Job) -> Option<Failure> {
        match &self.gone {
            Some(error) => Some(job.failed(&error.to_string())),
            None if self.is_closing => Some(job.failed("the volume is being closed")),
            None => job.refusal(self.takes.limits),
        }
    }

    /// Returns true if a job has to wait. A partial write reads sectors and writes them again:
    /// nobody else may write there meanwhile. Requests that wait keep their order with later ones.
    fn has_to_wait(&self, job: &Job) -> bool {
        if !job.is_partial && self.partial == 0 && self.deferred.is_empty() {
            return false;
        }
        let excludes = |other: &Job| (job.is_partial || other.is_partial) && job.overlaps(other);
        self.jobs.iter().any(|(_, other)| excludes(other))
            || self.deferred.iter().any(|other| job.overlaps(other))
    }

    fn begin(&mut self, mut job: Job) {
        let next = job.begin(self.takes);
        self.partial += usize::from(job.is_partial);
        let number = self.jobs.insert(job);
        self.follow(number, next);
    }

    fn follow(&mut self, number: usize, next: Next) {
        match next {
            Next::Wait => {}
            Next::Send(parts) => {
                self.backlog.extend(parts.into_iter().map(|part| (number, part)));
            }
            Next::End(outcome) => {
                let job = self.jobs.remove(number);
                self.partial -= usize::from(job.is_partial);
                self.end(job, outcome);
                self.begin_deferred();
            }
        }
    }

    /// Begins jobs that waited and need not wait any more.
    fn begin_deferred(&mut self) {
        for job in std::mem::take(&mut self.deferred) {
            if self.has_to_wait(&job) {
                self.deferred.push_back(job);
            } else {
                self.begin(job);
            }
        }
    }

    fn end(&mut self, job: Job, outcome: Outcome) {
        let took = self.volume.driver.now().saturating_sub(job.since);
        let request = job.asked.request();
        let (_, bytes) = request.range();
        self.requests[request.op() as usize].ended(bytes, took, outcome.is_err());
        job.asked.end(outcome);
    }

    /// Does all that can be done without waiting. Returns true if a request ended.
    fn drive(&mut self) -> bool {
        if self.gone.is_some() {
            return false;
        }
        let mut has_ended = false;
        loop {
            while self.commands.len() < self.queue_depth
                && let Some((number, Part { mut command, order })) = self.backlog.pop_front()
            {
                command.id = self.commands.insert((number, order)) as u32;
                self.volume.driver.accept(command);
            }
            while self.volume.driver.send_next().is_some() {}
            let mut replies = std::mem::take(&mut self.replies);
            self.volume.driver.take_replies(&mut replies);
            let is_over = replies.is_empty();
            for completion in replies.drain(..) {
                let (number, order) = self.commands.remove(completion.reply.id as usize);
                let next = self.jobs[number].replied(order, completion.reply, self.takes);
                has_ended |= matches!(next, Next::End(_));
                self.follow(number, next);
            }
            self.replies = replies;
            if is_over {
                return has_ended;
            }
        }
    }

    /// Waits until the device has ended something, a layer wants to be woken, or a message comes.
    fn wait(&mut self) -> Result<(), BlockError> {
        if self.gone.is_some() {
            // Only messages are left to wait for.
            return self.wait_for_message(LONGEST_WAIT);
        }
        if self.volume.driver.wake() {
            return Ok(());
        }
        let now = self.volume.driver.now();
        if !self.is_closing && self.passes.look(&mut self.volume, now) {
            return Ok(());
        }
        if self.can_be_woken {
            self.is_asleep.store(true, Ordering::SeqCst);
            // A sender that had not seen this yet has not woken the thread.
            let message = self.receiver.try_recv();
            let outcome = match message {
                Err(TryRecvError::Empty) => self.volume.driver.hear(now + LONGEST_WAIT),
                Err(TryRecvError::Disconnected) => Err(self.dropped()),
                Ok(message) => {
                    self.take(message);
                    Ok(())
                }
            };
            self.is_asleep.store(false, Ordering::SeqCst);
            return outcome;
        }
        if self.volume.driver.device_mut().outstanding() > 0 {
            return self.volume.driver.hear(now + POLL_EVERY);
        }
        let until = self.volume.driver.stack().wakes_at().unwrap_or(Nanos::MAX);
        self.wait_for_message(until.saturating_sub(now).min(LONGEST_WAIT))
    }

    fn wait_for_message(&mut self, nanos: Nanos) -> Result<(), BlockError> {
        match self.receiver.recv_timeout(Duration::from_nanos(nanos)) {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(self.dropped()),
        }
        Ok(())
    }

    /// Notes that the service was dropped: the thread stops at once.
    fn dropped(&mut self) -> BlockError {
        self.is_closing = true;
        BlockError::Gone {
            name: self.volume.driver.info().name.clone(),
            reason: "the service of its volume was dropped without being closed".to_owned(),
        }
    }

    /// Fails all requests, and all that come.
    fn give_up(&mut self, error: BlockError) {
        let reason = error.to_string();
        self.gone = Some(error);
        self.commands.clear();
        self.backlog.clear();
        self.partial = 0;
        let jobs: Vec<Job> = self.jobs.drain().chain(self.deferred.drain(..)).collect();
        for job in jobs {
            let failure = job.failed(&reason);
            self.end(job, Err(failure));
        }
    }

    /// Gives the failure that made it unusable.
    fn broken(&self) -> Option<String> {
        let gone = self.gone.as_ref().map(ToString::to_string);
        gone.or_else(|| self.volume.failure().map(ToString::to_string))
    }

    fn figures(&mut self) -> Figures {
        let open_ns = self.volume.driver.now();
        let driver = &self.volume.driver;
        let told = driver.telemetry();
        Figures {
            header: self.volume.header().clone(),
            capacity_bytes: self.takes.limits.capacity_bytes,
            open_ns,
            requests: self.requests,
            outstanding: self.jobs.len() as u64,
            request_memory_bytes: self.gate.inside(),
            memory_most_bytes: self.volume.memory().most_bytes(),
            below: driver.watch().below,
            layers: of_layers(driver.stack()),
            flash: told.flash,
            wear: told.wear,
            dies: told.dies,
            scrubs: self.passes.ended,
            broken: self.broken(),
        }
    }
}
