//! The scheduler as a layer: its commands, and what they wait for.

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;
use units::{IoOp, Lifetime, Nanos};

use super::INFO;
use super::batch::{Batch, BatchCommand};
use super::counts::{COUNTERS, Counts, Reason};
use super::cuts::Cuts;
use super::held::{Held, SectorRun};
use super::methods::{SchedulerSettings, WindowEnd};
use crate::{
    Actions, Command, Counter, Data, Failure, Gather, Layer, Limits, ParentPart, Reply, Signal,
};

/// A command of the layer's own, below.
#[derive(Debug)]
enum Own {
    /// A read from above as it is, with its id.
    Read(u32),
    /// A part of a read.
    ReadPart(ParentPart),
    /// A command of the batch.
    BatchCommand(BatchCommand),
    /// A write with FUA or a trim, with its key among those.
    Passing(u32),
    /// A flush for these flushes from above.
    Flush(Vec<u32>),
}

/// A write with FUA, or a trim: it bypasses the held writes.
#[derive(Debug)]
struct Passing {
    id: u32,
    op: IoOp,
    start: u64,
    end: u64,
    number: u64,
    /// The command, if it was not sent yet: a write of the batch to the same sectors is under way.
    waiting: Option<Command>,
}

/// A flush that waits until all earlier writes are written below.
#[derive(Debug)]
struct Flushing {
    id: u32,
    /// Number of the last command before it.
    covers: u64,
}

/// See the module's description.
pub struct Scheduler {
    settings: SchedulerSettings,
    limits: Limits,
    /// Sector of a byte: `byte >> shift`.
    shift: u32,
    held: Held,
    batch: Batch,
    cuts: Cuts,
    passing: Slab<Passing>,
    flushing: VecDeque<Flushing>,
    /// Writes for which there is no room.
    waiting: VecDeque<Command>,
    own: Slab<Own>,
    gather: Gather,
    runs: Vec<SectorRun>,
    /// Number of the last command.
    number: u64,
    /// Number of a command: all up to it are written below.
    written: u64,
    /// Estimated time of the batch, in nanoseconds.
    estimated_ns: Nanos,
    /// Reason why the window is to be closed when the batch ends, if it is.
    wanted: Option<Reason>,
    /// Time when the first write of the window came.
    oldest: Option<Nanos>,
    /// Number of writes that wait and are to be written out as soon as they are taken.
    draining: usize,
    poisoned: Option<Failure>,
    /// True if reads below may give older content than was acknowledged.
    is_below_unsafe: bool,
    counts: Counts,
    void_sectors: u64,
    held_most_sectors: u64,
}

impl Scheduler {
    /// Makes a scheduler that holds nothing.
    pub fn new(settings: SchedulerSettings, limits: Limits) -> Self {
        let shift = limits.sector_bytes.trailing_zeros();
        Self {
            held: Held::new(
                settings.merging,
                settings.joins,
                settings.flush_time.is_some().then(|| settings.estimate.clone()),
                limits.sector_bytes,
            ),
            batch: Batch::new(settings.joins, u64::from(limits.most_bytes >> shift)),
            settings,
            limits,
            shift,
            cuts: Cuts::default(),
            passing: Slab::new(),
            flushing: VecDeque::new(),
            waiting: VecDeque::new(),
            own: Slab::new(),
            gather: Gather::default(),
            runs: Vec::new(),
            number: 0,
            written: 0,
            estimated_ns: 0,
            wanted: None,
            oldest: None,
            draining: 0,
            poisoned: None,
            is_below_unsafe: false,
            counts: Counts::default(),
            void_sectors: 0,
            held_most_sectors: 0,
        }
    }

    const fn sectors(&self, command: &Command) -> (u64, u64) {
        (command.offset >> self.shift, command.end() >> self.shift)
    }

    /// Sends a command of the layer's own below. The fields come as arguments: copying a command
    /// right after one of its fields was set costs more than all the rest here.
    fn send_range(
        &mut self,
        own: Own,
        op: IoOp,
        (start, end): (u64, u64),
        (lifetime, data): (Lifetime, Data),
        actions: &mut Actions,
    ) {
        let (id, offset, length) = (
            self.own.insert(own) as u32,
            start << self.shift,
            ((end - start) << self.shift) as u32,
        );
        let is_fua = false;
        actions.down.push(Command { id, op, offset, length, is_fua, lifetime, data });
    }

    /// Sends a command from above below, under an id of the layer's own.
    fn send(&mut self, own: Own, command: Command, actions: &mut Actions) {
        let id = self.own.insert(own) as u32;
        let Command { op, offset, length, is_fua, lifetime, data, .. } = command;
        actions.down.push(Command { id, op, offset, length, is_fua, lifetime, data });
    }

    fn read(&mut self, command: Command, actions: &mut Actions) {
        let (start, end) = self.sectors(&command);
        let mut runs = std::mem::take(&mut self.runs);
        self.held.find(start, end, &mut runs);
        let below = runs.iter().filter(|run| run.record.is_none()).count() as u32;
        if below < runs.len() as u32 {
            self.counts.memory_reads += 1;
            let sectors: u64 =
                runs.iter().filter(|run| run.record.is_some()).map(|run| run.end - run.start).sum();
            self.counts.memory_read_bytes += sectors << self.shift;
        }
        let held = |run: &SectorRun, held: &super::held::Held| {
            run.record.map(|record| held.data(record, run.start, run.end))
        };
        match (below, runs.len()) {
            (1, 1) => self.send(Own::Read(command.id), command, actions),
            (0, _) => {
                let mut data = Data::Absent;
                runs.iter()
                    .filter_map(|run| held(run, &self.held))
                    .for_each(|more| data.append(more));
                actions.reply(command.id, Ok(data));
            }
            (_, places) => {
                let parent = self.gather.begin(command.id, places as u32);
                for (place, run) in runs.iter().enumerate() {
                    let part = Gather::part(parent, place as u32);
                    match held(run, &self.held) {
                        Some(data) => self.gather.ended(part, Ok(data), actions),
                        None => self.send_range(
                            Own::ReadPart(part),
                            IoOp::Read,
                            (run.start, run.end),
                            (Lifetime::NotSet, Data::Absent),
                            actions,
                        ),
                    }
                }
            }
        }
        self.runs = runs;
    }

    /// Checks that there is room for a write; gives the limit that is reached if not.
    fn room(&self, length: u32) -> Result<(), Reason> {
        let sectors = self.held.sectors();
        if sectors > 0
            && self
                .settings
                .buffer_bytes
                .is_some_and(|most| (sectors << self.shift) + u64::from(length) > most)
        {
            return Err(Reason::Buffer);
        }
        let cost_ns = self.held.cost_ns();
        let longest = |most| cost_ns + self.settings.estimate.time_ns(u64::from(length)) > most;
        if cost_ns > 0 && self.settings.flush_time.is_some_and(longest) {
            return Err(Reason::FlushTime);
        }
        Ok(())
    }

    /// Defers a write: it is acknowledged, and held in memory.
    fn defer(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        let (start, end) = self.sectors(&command);
        self.oldest = self.oldest.or(Some(now));
        self.number += 1;
        self.counts.taken_writes += 1;
        self.counts.taken_bytes += u64::from(command.length);
        // The reply comes first, while the processor has nothing to wait for: it copies the reply,
        // and would have to wait for the writes of `put`.
        actions.reply(command.id, Ok(Data::Absent));
        let written = (command.lifetime, command.data);
        self.held.put(start, (end - start) as u32, self.number, written);
        self.held_most_sectors = self.held_most_sectors.max(self.held.sectors());
    }

    fn write(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        if self.waiting.is_empty() && self.room(command.length).is_ok() {
            return self.defer(command, now, actions);
        }
        self.waiting.push_back(command);
        self.run(now, actions);
        // A write that is acknowledged at once after all did not wait.
        self.counts.waits += u64::from(!self.waiting.is_empty());
    }

    /// Sends a write with FUA or a trim below, as soon as no write of the batch to the same sectors
    /// is under way.
    fn pass(&mut self, command: Command, actions: &mut Actions) {
        let (start, end) = self.sectors(&command);
        self.number += 1;
        self.counts.fua_writes += u64::from(command.op == IoOp::Write);
        let is_free = !self.batch.outstanding.iter().any(|piece| piece.overlaps(start, end));
        let (id, op, number) = (command.id, command.op, self.number);
        let (sent, waiting) = if is_free { (Some(command), None) } else { (None, Some(command)) };
        let key = self.passing.insert(Passing { id, op, start, end, number, waiting }) as u32;
        if let Some(command) = sent {
            self.send(Own::Passing(key), command, actions);
        }
    }

    /// Sends the commands that waited for a write of the batch, which has ended.
    fn pass_waiting(&mut self, actions: &mut Actions) {
        let mut freed = Vec::new();
        for (key, passing) in &mut self.passing {
            let (start, end) = (passing.start, passing.end);
            if passing.waiting.is_some()
                && !self.batch.outstanding.iter().any(|piece| piece.overlaps(start, end))
            {
                freed.extend(
                    passing.waiting.take().map(|command| (passing.number, key as u32, command)),
                );
            }
        }
        freed.sort_unstable_by_key(|(number, ..)| *number);
        for (_, key, command) in freed {
            self.send(Own::Passing(key), command, actions);
        }
    }

    fn passed(
        &mut self,
        key: u32,
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let Passing { id, op, start, end, number, .. } = self.passing.remove(key as usize);
        // A flush that waits may cover the writes that would be dropped, and a trim does not make
        // anything durable in their place.
        let is_newest = op == IoOp::Write || self.flushing.is_empty();
        if outcome.is_ok() && is_newest {
            let (dropped, is_held) = self.held.pass(start, end, number);
            // Sectors in a list are counted when their turn comes.
            if self.settings.merging.is_some() {
                self.void_sectors += dropped;
            }
            if is_held && (self.batch.is_running || self.settings.merging.is_none()) {
                self.cuts.add(start, end, number);
            }
        }
        actions.reply(id, outcome);
        self.run(now, actions);
    }

    fn flush(&mut self, id: u32, now: Nanos, actions: &mut Actions) {
        self.flushing.push_back(Flushing { id, covers: self.number });
        self.run(now, actions);
    }

    /// Closes the window, now or when the batch ends.
    fn close(&mut self, reason: Reason, now: Nanos, actions: &mut Actions) {
        if reason == Reason::Drain {
            self.draining = self.waiting.len();
        }
        if !self.held.is_window_empty() || self.draining > 0 {
            self.wanted = self.wanted.or(Some(reason));
            self.run(now, actions);
        }
    }

    /// Does all that can be done now.
    fn run(&mut self, now: Nanos, actions: &mut Actions) {
        if self.poisoned.is_some() {
            return;
        }
        loop {
            self.write_out(actions);
            if self.batch.is_running && self.batch.is_done() {
                self.end_batch(now);
            }
            self.admit(now, actions);
            if self.batch.is_running {
                break;
            }
            if self.held.is_window_empty() {
                (self.written, self.wanted, self.oldest) = (self.number, None, None);
                break;
            }
            let Some(reason) = self.reason_to_close() else { break };
            self.begin_batch(reason, now);
        }
        self.flush_what_is_written(actions);
    }

    /// Defers writes that wait, as far as there is room.
    fn admit(&mut self, now: Nanos, actions: &mut Actions) {
        while self.waiting.front().is_some_and(|command| self.room(command.length).is_ok()) {
            let Some(command) = self.waiting.pop_front() else { break };
            self.draining = self.draining.saturating_sub(1);
            self.defer(command, now, actions);
        }
    }

    fn reason_to_close(&self) -> Option<Reason> {
        if self.flushing.back().is_some_and(|flush| flush.covers > self.written) {
            return Some(Reason::Flush);
        }
        self.wanted
            .or_else(|| self.waiting.front().and_then(|command| self.room(command.length).err()))
    }

    fn begin_batch(&mut self, reason: Reason, now: Nanos) {
        self.held.seal(self.number, &mut self.batch.parts);
        self.batch.begin(self.number, now);
        self.wanted = (self.draining > 0).then_some(Reason::Drain);
        (self.estimated_ns, self.oldest) = (0, None);
        if !self.batch.parts.is_empty() {
            self.counts.closed(reason);
        }
    }

    /// Sends commands of the batch, as many as may be under way.
    fn write_out(&mut self, actions: &mut Actions) {
        while self.batch.is_running && self.batch.outstanding.len() < self.settings.depth {
            let Some(piece) = self.batch.peek(&mut self.held, &self.cuts, &mut self.void_sectors)
            else {
                break;
            };
            let (start, end) = (piece.start, piece.end);
            let is_passed =
                self.passing.iter().any(|(_, passing)| piece.overlaps(passing.start, passing.end));
            let is_overtaking = || {
                self.settings.merging.is_none()
                    && self.batch.outstanding.iter().any(|other| other.overlaps(start, end))
            };
            if is_passed || is_overtaking() {
                break;
            }
            let length = (end - start) << self.shift;
            self.counts.written_commands += 1;
            self.counts.written_bytes += length;
            self.estimated_ns += self.settings.estimate.time_ns(length);
            let written =
                (self.batch.lifetime(piece, &self.held), self.batch.data(piece, &self.held));
            self.batch.take(piece);
            self.send_range(Own::BatchCommand(piece), IoOp::Write, (start, end), written, actions);
        }
    }

    fn end_batch(&mut self, now: Nanos) {
        self.written = self.batch.sealed;
        self.batch.is_running = false;
        self.counts.batch_ns += now.saturating_sub(self.batch.began);
        self.counts.batch_estimated_ns += self.estimated_ns;
        if self.settings.merging.is_some() || self.held.is_window_empty() {
            self.cuts.clear();
        } else {
            self.cuts.forget_up_to(self.written);
        }
    }

    fn flush_what_is_written(&mut self, actions: &mut Actions) {
        let ready = self.flushing.iter().take_while(|flush| flush.covers <= self.written).count();
        if ready > 0 {
            let above = self.flushing.drain(..ready).map(|flush| flush.id).collect();
            let nothing = (Lifetime::NotSet, Data::Absent);
            self.send_range(Own::Flush(above), IoOp::Flush, (0, 0), nothing, actions);
        }
    }

    /// Poisons the layer, as something acknowledged may be lost. Held writes stay, to be read.
    fn poison(&mut self, cause: &Failure, actions: &mut Actions) {
        if self.poisoned.is_some() {
            return;
        }
        let failure = Failure::Poisoned { layer: INFO.name, cause: Arc::from(cause.to_string()) };
        let unsent: Vec<u32> = self
            .passing
            .iter()
            .filter(|(_, passing)| passing.waiting.is_some())
            .map(|(key, _)| key as u32)
            .collect();
        let passing = unsent.into_iter().map(|key| self.passing.remove(key as usize).id);
        let waiting = self.waiting.drain(..).map(|command| command.id);
        let flushing = self.flushing.drain(..).map(|flush| flush.id);
        passing
            .chain(waiting)
            .chain(flushing)
            .for_each(|id| actions.reply(id, Err(failure.clone())));
        self.poisoned = Some(failure);
    }
}

impl Layer for Scheduler {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        command.check(self.limits);
        let is_safe = command.op == IoOp::Read && !self.is_below_unsafe;
        if let Some(failure) = self.poisoned.as_ref().filter(|_| !is_safe) {
            return actions.reply(command.id, Err(failure.clone()));
        }
        match command.op {
            IoOp::Read => self.read(command, actions),
            IoOp::Write if !command.is_fua => self.write(command, now, actions),
            IoOp::Write | IoOp::Trim => self.pass(command, actions),
            IoOp::Flush => self.flush(command.id, now, actions),
        }
    }

    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        let own = self.own.remove(reply.id as usize);
        if let (Own::Flush(_), Err(failure)) = (&own, &reply.outcome) {
            self.is_below_unsafe |= failure.may_have_dropped_writes();
        }
        // A failed flush may have lost writes below: neither reads from there nor another flush can
        // be relied on.
        let outcome = match (&self.poisoned, &own) {
            (Some(failure), Own::Flush(_)) => reply.outcome.and(Err(failure.clone())),
            (Some(failure), Own::Read(_) | Own::ReadPart(_)) if self.is_below_unsafe => {
                reply.outcome.and(Err(failure.clone()))
            }
            _ => reply.outcome,
        };
        match (own, outcome) {
            (Own::Read(id), outcome) => actions.reply(id, outcome),
            (Own::ReadPart(part), outcome) => self.gather.ended(part, outcome, actions),
            (Own::Passing(key), outcome) => self.passed(key, outcome, now, actions),
            (Own::BatchCommand(piece), Ok(_)) => {
                if self.poisoned.is_none() {
                    self.batch.written(piece, &mut self.held);
                    self.pass_waiting(actions);
                    self.run(now, actions);
                }
            }
            (Own::BatchCommand(_), Err(failure)) => self.poison(&failure, actions),
            (Own::Flush(above), outcome) => {
                above.into_iter().for_each(|id| actions.reply(id, outcome.clone()));
                if let Err(failure) = outcome {
                    self.poison(&failure, actions);
                }
            }
        }
    }

    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        match (signal, self.settings.window) {
            (Signal::CheckpointBegins, WindowEnd::CheckpointBegin)
            | (Signal::CheckpointEnds, WindowEnd::CheckpointEnd) => {
                self.close(Reason::Checkpoint, now, actions);
            }
            (Signal::Drain, _) => self.close(Reason::Drain, now, actions),
            (
                Signal::CheckpointBegins
                | Signal::CheckpointEnds
                | Signal::Scrub
                | Signal::ScrubEnds,
                _,
            ) => (),
        }
    }

    fn wakes_at(&self) -> Option<Nanos> {
        let is_closing = self.wanted.is_some() || self.poisoned.is_some();
        self.settings
            .age
            .filter(|_| !is_closing)
            .and_then(|age| Some(self.oldest?.saturating_add(age)))
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        if self.wakes_at().is_some_and(|at| at <= now) {
            self.close(Reason::Age, now, actions);
        }
    }

    fn is_idle(&self) -> bool {
        (self.held.sectors() == 0 || self.poisoned.is_some())
            && self.own.is_empty()
            && self.waiting.is_empty()
            && self.passing.is_empty()
            && self.flushing.is_empty()
    }

    fn counters(&self) -> &'static [Counter] {
        COUNTERS
    }

    fn count(&self, into: &mut Vec<u64>) {
        let bytes = |sectors: u64| sectors << self.shift;
        let levels = Counts {
            coalesced_bytes: bytes(self.held.merged_sectors()),
            void_bytes: bytes(self.void_sectors),
            held_bytes: bytes(self.held.sectors()),
            held_bytes_most: bytes(self.held_most_sectors),
            ..self.counts
        };
        levels.list(into);
    }
}
