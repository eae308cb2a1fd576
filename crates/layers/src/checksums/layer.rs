//! The layer: commands that come, and the closing of regions that were written to.

use slab::Slab;
use units::{IoOp, Nanos};

use super::NAME;
use super::background::Background;
use super::counts::{COUNTERS, Counts};
use super::disk::Superblock;
use super::intent::{Intent, Mark};
use super::locks::Locks;
use super::settings::ChecksumSettings;
use super::table::Table;
use super::tasks::{Sent, Task, Whose};
use crate::hash::UNKNOWN;
use crate::scrub::places;
use crate::{Actions, Command, Counter, Data, Failure, Layer, Limits, Reply, ScrubState, Signal};

/// Regions whose blocks are being written, before their marks are cleared.
#[derive(Debug)]
struct Closing {
    batch: Vec<u32>,
    failed: Vec<u32>,
    /// Regions that need no block.
    voids: Vec<u32>,
    /// Blocks that are being written.
    blocks: usize,
}

/// See the module's description.
pub struct Checksums {
    pub(super) superblock: Superblock,
    pub(super) below: Limits,
    pub(super) table: Table,
    pub(super) intent: Intent,
    pub(super) locks: Locks,
    pub(super) tasks: Slab<Task>,
    pub(super) sent: Slab<Sent>,
    pub(super) background: Background,
    pub(super) counts: Counts,
    pub(super) poison: Option<Failure>,
    /// Tasks that have got their pages.
    pub(super) granted: Vec<u32>,
    closing: Option<Closing>,
    is_draining: bool,
    /// True if a trace without bytes is played.
    is_absent: bool,
}

impl Checksums {
    /// Makes the layer over something with these limits, with the content that was found there.
    pub fn new(
        settings: &ChecksumSettings,
        superblock: Superblock,
        below: Limits,
        (sums, marked, voids, bad_blocks): (Vec<u32>, &[Mark], &[u32], u64),
    ) -> Self {
        let intent = Intent::new(superblock, settings.delay, marked, voids);
        Self {
            superblock,
            below,
            table: Table::new(sums),
            background: Background::new(intent.unsure_regions()),
            intent,
            locks: Locks::default(),
            tasks: Slab::new(),
            sent: Slab::new(),
            counts: Counts { bad_blocks, ..Counts::default() },
            poison: None,
            granted: Vec::new(),
            closing: None,
            is_draining: false,
            is_absent: false,
        }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        u64::from(self.superblock.geometry.page_bytes)
    }

    pub(super) fn region_of(&self, page: u64) -> u32 {
        (page / self.superblock.geometry.region_pages()) as u32
    }

    /// Sends a command of the layer's own below.
    pub(super) fn send(&mut self, sent: Sent, command: Command, actions: &mut Actions) {
        let id = self.sent.insert(sent) as u32;
        actions.send(Command { id, ..command });
    }

    /// Sends a write of the layer's own, that goes into its area.
    fn send_own(
        &mut self,
        sent: Sent,
        offset: u64,
        (bytes, is_fua): (Vec<u8>, bool),
        actions: &mut Actions,
    ) {
        let plain = Command::new(0, IoOp::Write, offset, bytes.len() as u32);
        let data = if self.is_absent { Data::Absent } else { Data::Whole(bytes.into()) };
        self.send(sent, Command { is_fua, data, ..plain }, actions);
    }

    /// Trims whole pages only: the rest of a page would lose its checksum.
    fn trim(&mut self, command: Command, actions: &mut Actions) {
        let page = self.page_bytes();
        let (first, end) = (command.offset.div_ceil(page), command.end() / page);
        if first >= end {
            return actions.reply(command.id, Ok(Data::Absent));
        }
        let (offset, length) = (first * page, ((end - first) * page) as u32);
        let command = Command { offset, length, ..command };
        self.add(Task::new(Whose::Host, command, &self.superblock.geometry));
    }

    /// Begins a task: it waits for its pages, if others use them.
    pub(super) fn add(&mut self, task: Task) {
        let (pages, is_shared) = (task.pages.clone(), task.is_shared());
        let key = self.tasks.insert(task) as u32;
        if self.locks.claim(key, pages, is_shared) {
            self.granted.push(key);
        }
    }

    /// Does all that can be done now.
    pub(super) fn go_on(&mut self, now: Nanos, actions: &mut Actions) {
        loop {
            while let Some(task) = self.granted.pop() {
                self.begin(task, now, actions);
            }
            self.close_regions(now, actions);
            while let Some(write) = self.intent.next_write() {
                self.counts.mark_writes += 1;
                let offset = self.superblock.geometry.marks_offset(write.sector);
                let bytes = (write.bytes, write.is_fua);
                self.send_own(Sent::Marks(write.sector), offset, bytes, actions);
            }
            if !self.is_quiet() || !self.read_in_background(now) {
                break;
            }
        }
    }

    /// Returns true if no command waits and nothing is under way.
    fn is_quiet(&self) -> bool {
        self.tasks.is_empty() && self.sent.is_empty() && self.poison.is_none() && !self.is_draining
    }

    /// Writes the blocks of regions that nobody is writing to any more.
    fn close_regions(&mut self, now: Nanos, actions: &mut Actions) {
        if self.closing.is_some() || self.poison.is_some() {
            return;
        }
        self.intent.look(now, self.is_draining);
        let batch = self.intent.begin_batch(now);
        if batch.is_empty() {
            self.is_draining &= !(self.tasks.is_empty() && self.sent.is_empty());
            return;
        }
        let mut voids = Vec::new();
        for &region in &batch {
            let sums = self.table.of(self.superblock.geometry.pages_of(region));
            if sums.iter().all(|&sum| sum == UNKNOWN) {
                voids.push(region);
                continue;
            }
            let block = self.superblock.to_block(region, sums);
            let offset = self.superblock.geometry.block_offset(region);
            self.counts.block_writes += 1;
            self.send_own(Sent::Block(region), offset, (block, false), actions);
        }
        let blocks = batch.len() - voids.len();
        self.closing = Some(Closing { blocks, batch, failed: Vec::new(), voids });
        if blocks == 0 {
            self.flush_batch(actions);
        }
    }

    fn flush_batch(&mut self, actions: &mut Actions) {
        self.counts.device_flushes += 1;
        self.send(Sent::Flush, Command::new(0, IoOp::Flush, 0, 0), actions);
    }

    /// Notes the end of writing a block; one that failed is written again some time.
    fn block_ended(&mut self, region: u32, is_done: bool, actions: &mut Actions) {
        let closing = self.closing.as_mut().expect("a block is of a batch");
        closing.blocks -= 1;
        if !is_done {
            closing.failed.push(region);
        }
        if closing.blocks == 0 {
            self.flush_batch(actions);
        }
    }

    /// Ends the flush of a batch: the blocks are durable, and so is all that was written to their
    /// regions; or it failed, and the device may have dropped what it replied to.
    fn flushed(&mut self, outcome: Result<Data, Failure>, now: Nanos) {
        let Closing { batch, mut failed, voids, .. } =
            self.closing.take().expect("a batch was flushed");
        if let Err(cause) = outcome {
            failed.clone_from(&batch);
            let cause = cause.to_string().into();
            self.poison.get_or_insert(Failure::Poisoned { layer: NAME, cause });
            self.is_draining = false;
            self.background.give_up();
        }
        self.intent.end_batch(batch, &failed, &voids, now);
    }

    fn marks_ended(
        &mut self,
        sector: u32,
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let failure = outcome.err();
        for (key, is_marked) in self.intent.written(sector, failure.is_none(), now) {
            let task = &mut self.tasks[key as usize];
            task.waits -= 1;
            if let (false, Some(failure)) = (is_marked, &failure) {
                let reason = format!("its region cannot be marked: {}", failure.reason());
                let failure = task.command.failed(reason);
                task.fails(failure);
            }
            if task.waits == 0 {
                self.write_marked(key, now, actions);
            }
        }
    }

    /// Ends a task: its pages are free.
    pub(super) fn finish(&mut self, key: u32, data: Data, now: Nanos, actions: &mut Actions) {
        let mut task = self.tasks.remove(key as usize);
        for &region in &task.regions {
            self.intent.end_write(region, now);
        }
        self.locks.release(key, &mut self.granted);
        if task.command.op != IoOp::Read && task.failure.is_none() {
            task.failure.clone_from(&self.poison);
        }
        match task.whose {
            Whose::Host => {
                actions.reply(task.command.id, task.failure.map_or(Ok(data), Err));
            }
            Whose::Scrub | Whose::Settle => self.background_ended(&task),
        }
    }
}

impl Layer for Checksums {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> Limits {
        Limits { capacity_bytes: self.superblock.geometry.homes_bytes(), ..self.below }
    }

    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        command.check(self.limits());
        if matches!(command.op, IoOp::Write | IoOp::Trim) {
            self.background.goes_on(now);
        }
        match (command.op, &self.poison) {
            (IoOp::Flush, Some(poison)) => actions.reply(command.id, Err(poison.clone())),
            (IoOp::Flush, None) => {
                let sent = Sent::HostFlush(command.id);
                self.send(sent, Command::new(0, IoOp::Flush, 0, 0), actions);
            }
            (IoOp::Trim, None) => self.trim(command, actions),
            _ => {
                self.is_absent |= command.op == IoOp::Write && command.data.is_absent();
                self.add(Task::new(Whose::Host, command, &self.superblock.geometry));
            }
        }
        self.go_on(now, actions);
    }

    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        let Reply { id, outcome } = reply;
        match self.sent.remove(id as usize) {
            Sent::Read { task, place, first, pages, tries } => {
                self.read_ended(task, place, (first, pages, tries), outcome, now, actions);
            }
            Sent::Write { task } => self.write_ended(task, outcome, now, actions),
            Sent::Again { task, page, count } => {
                self.written_again(task, (page, count), outcome, now, actions);
            }
            Sent::HostFlush(id) => {
                if outcome.as_ref().is_err_and(Failure::may_have_dropped_writes) {
                    self.background.doubt(self.intent.doubt());
                }
                let poisoned = self.poison.clone();
                actions.reply(id, poisoned.map_or(outcome, Err));
            }
            Sent::Marks(sector) => self.marks_ended(sector, outcome, now, actions),
            Sent::Block(region) => self.block_ended(region, outcome.is_ok(), actions),
            Sent::Flush => self.flushed(outcome, now),
        }
        self.go_on(now, actions);
    }

    fn wakes_at(&self) -> Option<Nanos> {
        if self.poison.is_some() {
            return None;
        }
        let round = self.intent.wakes_at().filter(|_| self.closing.is_none());
        round.into_iter().chain(self.background.wakes_at()).min()
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        self.background_wakes(now);
        self.go_on(now, actions);
    }

    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        match signal {
            Signal::Drain => {
                self.is_draining = self.poison.is_none();
                self.intent.forgive();
                self.background.rest();
            }
            Signal::Scrub if self.poison.is_some() => {}
            Signal::Scrub => {
                let unsure: Vec<u32> = self.intent.unsure_regions().collect();
                self.background.begin(unsure, now);
            }
            Signal::ScrubEnds => self.background.rest(),
            Signal::CheckpointBegins | Signal::CheckpointEnds => {}
        }
        self.go_on(now, actions);
    }

    fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.sent.is_empty() && !self.is_draining
    }

    fn scrub(&self) -> Option<ScrubState> {
        Some(self.scrub_state())
    }

    fn bad_places(&self, most: usize) -> Vec<(u64, u64)> {
        let page = self.page_bytes();
        let bad = self.table.bad().iter().copied().chain(self.background.unread());
        places(bad.map(|number| number * page).collect(), page, most)
    }

    fn counters(&self) -> &'static [Counter] {
        COUNTERS
    }

    fn count(&self, into: &mut Vec<u64>) {
        let scrub = self.scrub_state();
        let levels = Counts {
            marked_regions: self.intent.marked(),
            unsure_regions: self.intent.unsure(),
            bad_pages: scrub.bad_pages,
            scrub_pages_left: scrub.pages_left,
            unread_pages: scrub.unread_pages,
            ..self.counts
        };
        levels.list(into);
    }
}
