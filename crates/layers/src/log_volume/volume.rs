//! The volume in use: what it keeps, and how commands, replies and signals come in.

use std::collections::VecDeque;

use placement::{AnyVictim, Placement};
use slab::Slab;
use ssd::ftl::{CountingMedium, PageMapped};
use units::{IoOp, Lpn, Nanos, StreamId};

use super::NAME;
use super::checkpoint::Checkpoint;
use super::cleaning::Cleaner;
use super::commit::{Commit, Log};
use super::disk::Segment;
use super::intake::{Fill, HostWrite, Task};
use super::layout::Layout;
use super::recovery::Recovered;
use super::runs::{Op, Run};
use super::settings::Settings;
use crate::{Actions, Command, Data, Failure, Gather, Layer, Limits, Reply, Signal};

/// What was counted, in the order of [`super::COUNTERS`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub host_pages: u64,
    pub patched_pages: u64,
    pub relocated_pages: u64,
    pub padding_pages: u64,
    pub summary_pages: u64,
    pub checkpoint_pages: u64,
    pub flushes: u64,
    pub checkpoints: u64,
    pub cleanings: u64,
    pub unmapped_reads: u64,
    pub trimmed_pages: u64,
    pub lost_pages: u64,
    pub idle_cleanings: u64,
    pub segment_trims: u64,
    pub failed_trims: u64,
}

/// A log-structured volume with a placement policy.
pub(super) struct LogVolume<P> {
    pub layout: Layout,
    pub volume: u64,
    pub below: Limits,
    pub settings: Settings,
    pub ftl: PageMapped<P, AnyVictim, CountingMedium>,
    pub segments: Vec<Segment>,
    /// Logical pages that hold something.
    pub mapped: u32,

    /// Host commands in the order in which they came, as far as they wait for room.
    pub tasks: VecDeque<Task>,
    pub writes: Slab<HostWrite>,
    /// Pages whose rest was read, so that a part of them can be written.
    pub fills: VecDeque<Fill>,
    pub reads: Gather,
    /// The stream that was chosen for the page that waits for room.
    pub chosen: Option<(Lpn, StreamId)>,
    pub last_stream: StreamId,

    /// Commands that were sent below, or wait to be.
    pub ops: Slab<Op>,
    pub queue: VecDeque<Command>,
    pub writes_below: usize,
    /// Pages gathered for each stream's frontier.
    pub runs: Vec<Run>,
    /// Streams with gathered pages that the present step began or added to.
    pub touched: Vec<u16>,
    /// Writes and gathered runs of each segment that are not on the device yet.
    pub carried: Vec<u16>,
    /// Reads of each segment that are under way: it is not written to before they end.
    pub pins: Vec<u32>,

    pub log: Log,
    pub commit: Commit,
    pub checkpoint: Checkpoint,
    pub cleaner: Cleaner,

    /// Whether all is to be made durable that the host wrote before its next write.
    pub is_draining: bool,
    /// When something last came, from above or below.
    last_heard: Nanos,
    /// Whether nothing has come from above for so long that it cleans ahead.
    pub is_resting: bool,
    /// Whether a trace without bytes is played.
    pub is_absent: bool,
    pub poison: Option<Failure>,
    pub counted: Counted,
}

impl<P: Placement> LogVolume<P> {
    pub fn new(
        recovered: Recovered,
        settings: Settings,
        below: Limits,
        ftl: PageMapped<P, AnyVictim, CountingMedium>,
    ) -> Self {
        let Recovered { layout, volume, root, map, segments, lost_pages, .. } = recovered;
        let streams = ftl.device().streams.len();
        let count = layout.segments as usize;
        Self {
            mapped: map.iter().filter(|&&ppn| ppn != u32::MAX).count() as u32,
            log: Log::new(&layout, &root),
            checkpoint: Checkpoint::new(&layout, &settings, root),
            cleaner: Cleaner::new(&layout, &settings, &ftl, below),
            commit: Commit::default(),
            runs: (0..streams).map(|_| Run::default()).collect(),
            touched: Vec::new(),
            carried: vec![0; count],
            pins: vec![0; count],
            tasks: VecDeque::new(),
            writes: Slab::new(),
            fills: VecDeque::new(),
            reads: Gather::default(),
            chosen: None,
            last_stream: StreamId(0),
            ops: Slab::new(),
            queue: VecDeque::new(),
            writes_below: 0,
            is_draining: false,
            last_heard: 0,
            is_resting: false,
            is_absent: false,
            poison: None,
            counted: Counted { lost_pages, ..Counted::default() },
            layout,
            volume,
            below,
            settings,
            ftl,
            segments,
        }
    }

    /// Does what can be done, until nothing more can.
    pub fn pump(&mut self, actions: &mut Actions) {
        loop {
            let went_on = self.take_in(actions)
                | self.clean(actions)
                | self.go_on_with_checkpoint(actions)
                | self.go_on_with_commit(actions);
            if !went_on || self.poison.is_some() {
                return;
            }
        }
    }

    /// Whether nothing is under way, above or below.
    fn is_quiet(&self) -> bool {
        self.ops.is_empty() && self.writes.is_empty() && self.tasks.is_empty()
    }

    /// Something that was acknowledged may be lost: nothing more is done, and everything that waits
    /// is told so.
    pub fn poison(&mut self, cause: &str, actions: &mut Actions) {
        let failure = Failure::Poisoned { layer: NAME, cause: cause.into() };
        for (_, write) in std::mem::take(&mut self.writes) {
            actions.reply(write.id, Err(failure.clone()));
        }
        for task in self.tasks.drain(..) {
            if let Task::Trim { id, .. } = task {
                actions.reply(id, Err(failure.clone()));
            }
        }
        for id in self.commit.flushes() {
            actions.reply(id, Err(failure.clone()));
        }
        for command in self.queue.drain(..) {
            self.ops.remove(command.id as usize);
        }
        self.fills.clear();
        self.commit = Commit::default();
        self.poison = Some(failure);
    }
}

impl<P: Placement + 'static> Layer for LogVolume<P> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> Limits {
        let capacity_bytes =
            u64::from(self.layout.logical_pages) * u64::from(self.layout.page_bytes);
        Limits { capacity_bytes, ..self.below }
    }

    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        command.check(self.limits());
        (self.last_heard, self.is_resting) = (now, false);
        if let Some(failure) = &self.poison {
            actions.reply(command.id, Err(failure.clone()));
            return;
        }
        match command.op {
            IoOp::Read => self.read(&command, actions),
            IoOp::Write => {
                self.is_absent |= command.data.is_absent();
                self.is_draining = false;
                let slot = self.writes.insert(HostWrite::new(command, self.layout.page_bytes));
                self.tasks.push_back(Task::Write(slot));
                self.pump(actions);
            }
            IoOp::Trim => {
                self.tasks.push_back(Task::Trim {
                    id: command.id,
                    offset: command.offset,
                    length: command.length,
                });
                self.pump(actions);
            }
            IoOp::Flush => {
                if self.log.is_durable() {
                    actions.reply(command.id, Ok(Data::Absent));
                } else {
                    self.commit.wait_for(self.log.next, super::commit::Waiter::Flush(command.id));
                    self.pump(actions);
                }
            }
        }
    }

    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        self.last_heard = now;
        let op = self.ops.remove(reply.id as usize);
        self.writes_below -= usize::from(op.is_write());
        self.end(op, reply.outcome, actions);
        if self.poison.is_some() {
            return;
        }
        while self.writes_below < self.settings.outstanding
            && let Some(command) = self.queue.pop_front()
        {
            self.writes_below += 1;
            actions.send(command);
        }
        self.pump(actions);
    }

    fn signal(&mut self, signal: Signal, _now: Nanos, actions: &mut Actions) {
        if signal == Signal::Drain && self.poison.is_none() {
            (self.is_draining, self.is_resting) = (true, false);
            self.pump(actions);
        }
    }

    fn wakes_at(&self) -> Option<Nanos> {
        let idle_after = self.settings.idle_after?;
        let may_rest = !self.is_resting
            && self.is_quiet()
            && self.poison.is_none()
            && self.should_clean_ahead();
        may_rest.then(|| self.last_heard.saturating_add(idle_after))
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        if self.wakes_at().is_some_and(|at| at <= now) {
            self.is_resting = true;
            self.pump(actions);
        }
    }

    fn is_idle(&self) -> bool {
        // What cleaning moved after the host's last page is no harm if it is lost: it still lies
        // where it was.
        self.is_quiet() && (self.poison.is_some() || self.log.holds_nothing_of_the_host())
    }

    fn count(&self, into: &mut Vec<u64>) {
        let counted = &self.counted;
        let gathered: u64 = self.runs.iter().map(|run| u64::from(run.pages)).sum();
        into.extend([
            counted.host_pages,
            counted.patched_pages,
            counted.relocated_pages,
            counted.padding_pages,
            counted.summary_pages,
            counted.checkpoint_pages,
            counted.flushes,
            counted.checkpoints,
            counted.cleanings,
            counted.trimmed_pages,
            counted.unmapped_reads,
            counted.lost_pages,
            self.ftl.free_blocks(0) as u64,
            self.cleaner.held() as u64,
            gathered,
            counted.idle_cleanings,
            counted.segment_trims,
            counted.failed_trims,
        ]);
    }
}
