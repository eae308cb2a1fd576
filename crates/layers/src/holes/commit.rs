//! Writes of the map's blocks to the device, and what waits for them: flushes, writes with FUA and
//! trims below.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use units::{IoOp, Nanos};

use super::bits::Image;
use super::commands::overlap;
use super::layer::{Flaw, Flight, Holes, NOTHING, Sent};
use crate::{Actions, Command, Data, Failure};

/// Blocks that are written in one round.
const BATCH: usize = 256;
/// Trims below under way.
const MOST_TRIMS: usize = 16;
/// Longest trim below, in bytes.
const MOST_TRIMMED: u64 = 1 << 30;
/// Ranges that may wait to be trimmed below: with more, the first ones are made durable at once.
pub(super) const MOST_RANGES: usize = 1 << 16;
/// Most bytes that blocks and ranges take while they wait.
pub(super) const MOST_HELD_BYTES: u64 = BATCH as u64 * 4096 + MOST_RANGES as u64 * 32 * 2;

/// A command of the host that is replied to when blocks are durable.
#[derive(Debug)]
struct Waiter {
    id: u32,
    is_flush: bool,
    /// Number of taken blocks that have to be written before the reply.
    until: u64,
}

/// One round: a flush, then writes of blocks.
#[derive(Debug)]
struct Round {
    /// Blocks that have not been sent below, as they were when the round began.
    images: Vec<Image>,
    /// Blocks that were sent, of which the first copy, or the second, failed.
    failed: Vec<(u64, Failure)>,
    /// Its blocks, ascending.
    blocks: Vec<u64>,
    /// Number of commands that have not ended.
    waits: u32,
    /// Number of blocks taken when the round began, its own among them.
    taken: u64,
    /// Number of waiters that came before its flush.
    waiters: usize,
}

/// State of the rounds; see the module.
#[derive(Debug, Default)]
pub struct Commit {
    round: Option<Round>,
    /// Waiters, in the order in which they came.
    waiters: VecDeque<Waiter>,
    /// Time when trims have waited for long enough.
    trims_at: Option<Nanos>,
    /// True if that time has come.
    is_due: bool,
}

impl Commit {
    pub fn is_empty(&self) -> bool {
        self.round.is_none() && self.waiters.is_empty()
    }

    pub fn wakes_at(&self) -> Option<Nanos> {
        self.trims_at.filter(|_| self.round.is_none())
    }

    /// Sets the time until which trims may wait.
    pub fn trims_by(&mut self, at: Option<Nanos>) {
        self.trims_at = self.trims_at.or(at);
    }

    pub fn wait_for(&mut self, id: u32, is_flush: bool, until: u64) {
        self.waiters.push_back(Waiter { id, is_flush, until });
    }

    /// Returns true if one of these blocks is being written.
    pub fn writes(&self, blocks: &RangeInclusive<u64>) -> bool {
        self.round.as_ref().is_some_and(|round| {
            let first = round.blocks.partition_point(|block| block < blocks.start());
            round.blocks.get(first).is_some_and(|one| one <= blocks.end())
        })
    }

    pub fn give_up(&mut self, poison: &Failure, actions: &mut Actions) {
        for waiter in self.waiters.drain(..) {
            actions.reply(waiter.id, Err(poison.clone()));
        }
        (self.trims_at, self.is_due) = (None, false);
        if let Some(round) = &mut self.round {
            round.images.clear();
        }
    }
}

/// Holes that are to be trimmed below.
#[derive(Debug, Default)]
pub struct Due {
    /// Pages, and the number of blocks that have to be written before.
    waiting: VecDeque<(Range<u64>, u64)>,
    pub in_flight: usize,
}

impl Due {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == 0
    }

    /// Adds pages, which are holes on the device when this many blocks were written.
    pub fn add(&mut self, pages: Range<u64>, until: u64) {
        match self.waiting.back_mut() {
            Some((last, last_until)) if last.end == pages.start => {
                (last.end, *last_until) = (pages.end, until);
            }
            _ => self.waiting.push_back((pages, until)),
        }
    }

    /// Returns true if more trims have to wait until some were sent below: these here take memory.
    pub fn is_full(&self) -> bool {
        self.waiting.len() > MOST_RANGES
    }

    /// Notes that the first range was trimmed up to this page.
    fn took_until(&mut self, page: u64) {
        if let Some((pages, _)) = self.waiting.front_mut() {
            pages.start = page;
            if pages.is_empty() {
                self.waiting.pop_front();
            }
        }
    }

    pub fn give_up(&mut self) {
        self.waiting.clear();
    }
}

impl Holes {
    /// Takes a flush of the host: if the map has nothing to write it is sent below at once.
    pub(super) fn flush(&mut self, id: u32, actions: &mut Actions) {
        let has_nothing = self.bits.is_clean() && self.commit.round.is_none();
        if has_nothing || self.flaw == Flaw::ClearsLate {
            return self.send(Sent::Flush(id), Command::new(0, IoOp::Flush, 0, 0), actions);
        }
        self.commit.wait_for(id, true, self.bits.queued());
    }

    /// Begins a round, if a command waits for one.
    pub(super) fn commit_some(&mut self, now: Nanos, actions: &mut Actions) {
        let commit = &mut self.commit;
        if commit.trims_at.is_some_and(|at| at <= now) || self.due.is_full() {
            commit.is_due = true;
        }
        let is_wanted = !commit.waiters.is_empty() || commit.is_due || self.is_draining;
        if commit.round.is_some() || !is_wanted {
            return;
        }
        let has_flush = commit.waiters.iter().any(|waiter| waiter.is_flush);
        let waiters = commit.waiters.len();
        let (images, has_cleared) = self.bits.take(BATCH);
        if self.bits.is_clean() {
            (self.commit.trims_at, self.commit.is_due) = (None, false);
        }
        if images.is_empty() && waiters == 0 {
            return;
        }
        let blocks = images.iter().map(|image| image.block).collect();
        let taken = self.bits.taken();
        let failed = Vec::new();
        self.commit.round = Some(Round { images, failed, blocks, waits: 0, taken, waiters });
        if has_flush || has_cleared && self.flaw != Flaw::ClearsEarly {
            self.counts.device_flushes += 1;
            self.send(Sent::Before, Command::new(0, IoOp::Flush, 0, 0), actions);
        } else {
            self.write_blocks(actions);
        }
    }

    /// Ends the flush of a round: the writes for which its bits were cleared are durable, or may be
    /// lost.
    pub(super) fn flushed_before(&mut self, outcome: Result<Data, Failure>, actions: &mut Actions) {
        if let Err(failure) = outcome {
            self.fail(&failure, true, actions);
        }
        self.write_blocks(actions);
    }

    /// Writes both copies of the round's blocks; neighbours in one command.
    fn write_blocks(&mut self, actions: &mut Actions) {
        let Some(round) = &mut self.commit.round else { return };
        let images = std::mem::take(&mut round.images);
        let geometry = self.settings.geometry;
        let sector = u64::from(geometry.sector_bytes);
        let most = (u64::from(self.below.most_bytes) / sector) as usize;
        let mut writes = Vec::new();
        for run in images.chunk_by(|one, next| one.block + 1 == next.block) {
            for part in run.chunks(most) {
                let bytes: Vec<u8> =
                    part.iter().flat_map(|image| image.bytes.iter().copied()).collect();
                let data = if self.is_absent { Data::Absent } else { Data::copy_of(&bytes) };
                writes.push((part[0].block, part.len() as u64, data));
            }
        }
        round.waits = 2 * writes.len() as u32;
        if writes.is_empty() {
            return self.round_ended(actions);
        }
        for (first, count, data) in writes {
            self.counts.block_writes += 2 * count;
            for copy in [0, 1] {
                let (at, length) = (geometry.block_offset(copy, first), (count * sector) as u32);
                let plain = Command::new(0, IoOp::Write, at, length);
                let command = Command { is_fua: true, data: data.clone(), ..plain };
                self.send(Sent::Blocks { first, count }, command, actions);
            }
        }
    }

    /// Ends the write of a copy of blocks. One good copy is enough.
    pub(super) fn blocks_ended(
        &mut self,
        (first, count): (u64, u64),
        failure: Option<Failure>,
        actions: &mut Actions,
    ) {
        let Some(round) = &mut self.commit.round else { return };
        round.waits -= 1;
        let is_over = round.waits == 0;
        if let Some(failure) = failure {
            self.counts.bad_blocks += count;
            let is_second = round.failed.iter().any(|(block, _)| *block == first);
            round.failed.push((first, failure.clone()));
            // A block that failed for good, or failed twice, is on no copy.
            if is_second || matches!(failure, Failure::Poisoned { .. }) {
                self.fail(&failure, false, actions);
            }
        }
        if is_over {
            self.round_ended(actions);
        }
    }

    /// Ends a round: its blocks are durable.
    fn round_ended(&mut self, actions: &mut Actions) {
        let Some(Round { taken, waiters, .. }) = self.commit.round.take() else { return };
        let mut left = VecDeque::new();
        for (place, waiter) in self.commit.waiters.drain(..).enumerate() {
            if place < waiters && waiter.until <= taken {
                actions.reply(waiter.id, Ok(NOTHING));
            } else {
                left.push_back(waiter);
            }
        }
        self.commit.waiters = left;
        self.written_until = taken;
    }

    /// Sends trims of pages that are holes on the device and neither written nor read below.
    pub(super) fn trim_some(&mut self, actions: &mut Actions) {
        let page = self.page_bytes();
        let most = (MOST_TRIMMED / page).max(1);
        while self.due.in_flight < MOST_TRIMS {
            let Some((pages, until)) = self.due.waiting.front() else { return };
            if *until > self.written_until && self.flaw != Flaw::TrimsEarly {
                return;
            }
            let (is_hole, end) = self.bits.run(pages.start..pages.end.min(pages.start + most));
            let run = pages.start..end;
            if is_hole && self.is_read_below(&run) {
                return;
            }
            self.due.took_until(end);
            if is_hole {
                self.trim_below(run, actions);
            }
        }
    }

    /// Returns true if pages of this run are being read below. What a device reads while it trims
    /// may be anything.
    fn is_read_below(&self, run: &Range<u64>) -> bool {
        let is_of_run = |sent: &Sent| matches!(sent, Sent::Read(_, pages) if overlap(pages, run));
        self.sent.iter().any(|(_, sent)| is_of_run(sent))
    }

    /// Trims holes, unless they are being written, or may not be holes on the device.
    fn trim_below(&mut self, run: Range<u64>, actions: &mut Actions) {
        let blocks = self.blocks_of(&run);
        let is_changing = self.bits.waits(blocks.clone()) || self.commit.writes(&blocks);
        if is_changing && self.flaw != Flaw::TrimsEarly {
            // They may have been written meanwhile, and trimmed again.
            return self.due.add(run, self.bits.queued());
        }
        // The write ends the hole.
        let is_written = self.flights.iter().any(|(_, flight)| overlap(&flight.pages, &run));
        if is_written && self.flaw != Flaw::Shares {
            return;
        }
        self.counts.passed_trims += 1;
        let page = self.page_bytes();
        let bytes = ((run.end - run.start) * page) as u32;
        let command = Command::new(0, IoOp::Trim, run.start * page, bytes);
        let flight = Flight { pages: run, is_alone: true, host: None, waits: 1, failure: None };
        let key = self.flights.insert(flight) as u32;
        self.due.in_flight += 1;
        self.send(Sent::Trim(key), command, actions);
    }
}
