//! Commands to the device, and their completions.

use block::{BlockError, Command, Completion};
use units::IoOp;
use units::lists::NONE;

use super::Engine;
use super::clients::Phase;
use crate::PlayError;
use crate::measured::{Wait, record};
use crate::observer::Observer;

/// Reason for the write of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A client that wants its frame.
    Client(u32),
    /// The background writer.
    Writer,
    /// The checkpoint.
    Checkpoint,
}

/// A command under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Io {
    Read {
        frame: u32,
    },
    /// `first` is where the log of what is written begins.
    Write {
        frame: u32,
        reason: For,
        first: u64,
    },
    Log,
    LogFlush,
    Free,
}

/// Clients and frames that go on when the log is durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitsForLog {
    Client(u32),
    Frame(u32, For),
}

/// A checkpoint under way: all that was changed before `to` is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    to: u64,
    next_frame: u32,
    outstanding: u32,
}

/// Pages that a checkpoint writes at a time.
const CHECKPOINT_DEPTH: u32 = 8;

impl<O: Observer> Engine<'_, O> {
    fn send(&mut self, io: Io, op: IoOp, offset: u64, length: u64) {
        let id = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Io::Free);
            self.slots.len() as u32 - 1
        });
        self.slots[id as usize] = io;
        let command = Command::new(id, op, offset, length as u32);
        if self.device.outstanding() < self.most_outstanding {
            self.device.submit(command);
        } else {
            self.unsent.push_back(command);
        }
    }

    fn offset_of(&self, page: u32) -> u64 {
        self.settings.offset + u64::from(page) * u64::from(self.page_bytes)
    }

    pub(super) fn read(&mut self, frame: u32, page: u32) {
        let offset = self.offset_of(page);
        self.send(Io::Read { frame }, IoOp::Read, offset, u64::from(self.page_bytes));
    }

    /// Writes a dirty page; its log first.
    pub(super) fn write_back(&mut self, frame: u32, reason: For) {
        self.pool.mark_writing(frame);
        self.write_when_logged(frame, reason);
    }

    fn write_when_logged(&mut self, frame: u32, reason: For) {
        let lsn = self.pool.lsn(frame);
        if self.log.as_ref().is_some_and(|log| log.durable() < lsn) {
            self.waiting_for_log.push((lsn, WaitsForLog::Frame(frame, reason)));
            self.write_log();
            return;
        }
        let first = self.pool.first_lsn(frame).unwrap_or(u64::MAX);
        self.pool.begin_write(frame);
        let page = self.pool.page(frame);
        self.observer.write_begins(page);
        let (offset, length) = (self.offset_of(page), u64::from(self.page_bytes));
        self.send(Io::Write { frame, reason, first }, IoOp::Write, offset, length);
    }

    /// Writes the log as far as somebody waits for it.
    pub(super) fn write_log(&mut self) {
        let Some(log) = &mut self.log else { return };
        let Some(to) = self.waiting_for_log.iter().map(|(lsn, _)| *lsn).min() else { return };
        if let Some(write) = log.begin_write(to) {
            let most = u64::from(self.device.info().limits.most_bytes);
            assert!(write.length <= most, "a log write of {} bytes", write.length);
            self.send(Io::Log, IoOp::Write, self.log_offset + write.offset, write.length);
        }
    }

    /// The background writer's round.
    pub(super) fn write_cold(&mut self, pages: u32) {
        let mut cold = std::mem::take(&mut self.cold);
        self.pool.coldest_dirty(pages as usize, 2 * pages as usize, &mut cold);
        for &frame in &cold {
            self.write_back(frame, For::Writer);
        }
        self.cold = cold;
    }

    pub(super) fn begin_checkpoint(&mut self) {
        let Some(log) = &self.log else { return };
        if self.checkpoint.is_none() {
            let to = log.appended();
            self.checkpoint = Some(Checkpoint { to, next_frame: 0, outstanding: 0 });
            self.continue_checkpoint();
        }
    }

    fn continue_checkpoint(&mut self) {
        let Some(Checkpoint { to, .. }) = self.checkpoint else { return };
        let frames = self.pool.len();
        while let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.next_frame < frames
            && checkpoint.outstanding < CHECKPOINT_DEPTH
        {
            let frame = checkpoint.next_frame;
            checkpoint.next_frame += 1;
            let is_old = self.pool.first_lsn(frame).is_some_and(|first| first < to);
            if is_old && !self.pool.is_writing(frame) {
                checkpoint.outstanding += 1;
                self.write_back(frame, For::Checkpoint);
            }
        }
        let Some(checkpoint) = &mut self.checkpoint else { return };
        if checkpoint.next_frame < frames || checkpoint.outstanding > 0 {
            return;
        }
        let is_left = |frame| self.pool.first_lsn(frame).is_some_and(|first| first < to);
        if (0..frames).any(is_left) {
            // Changed again while it was being written for somebody else: its end comes here.
            checkpoint.next_frame = 0;
            return;
        }
        let is_under_way = |io: &Io| matches!(io, Io::Write { first, .. } if *first < to);
        if self.slots.iter().any(is_under_way) {
            return;
        }
        self.checkpoint = None;
        self.measured.checkpoints += u64::from(self.since.is_some());
        if let Some(log) = &mut self.log {
            log.is_redone_to(to);
            self.observer.log_is_durable(log.durable(), to);
        }
        self.ready.append(&mut std::mem::take(&mut self.waiting_for_room).into());
        self.write_log();
    }

    pub(super) fn completed(&mut self, completion: Completion) -> Result<(), PlayError> {
        let Completion { reply, submitted_at, completed_at } = completion;
        if let Err(failure) = reply.outcome {
            let name = self.device.info().name.clone();
            return Err(BlockError::Failed { name, failure }.into());
        }
        let io = std::mem::replace(&mut self.slots[reply.id as usize], Io::Free);
        self.free_slots.push(reply.id);
        let latency = completed_at - submitted_at;
        match io {
            Io::Read { frame } => {
                self.note(0, latency, self.page_bytes.into(), Some(frame));
                self.read_ended(frame);
            }
            Io::Write { frame, reason, .. } => {
                let kind = if matches!(reason, For::Client(_)) { 1 } else { 2 };
                self.note(kind, latency, self.page_bytes.into(), Some(frame));
                self.write_ended(frame, reason);
            }
            Io::Log => {
                self.note(3, latency, 0, None);
                if self.log.as_ref().is_some_and(|log| log.settings().is_flushed) {
                    self.send(Io::LogFlush, IoOp::Flush, 0, 0);
                } else {
                    self.log_ended();
                }
            }
            Io::LogFlush => self.log_ended(),
            Io::Free => unreachable!("a command that is not under way has ended"),
        }
        while self.device.outstanding() < self.most_outstanding
            && let Some(command) = self.unsent.pop_front()
        {
            self.device.submit(command);
        }
        Ok(())
    }

    fn note(&mut self, kind: usize, latency: u64, bytes: u64, frame: Option<u32>) {
        let is_blocked = latency > self.settings.blocked;
        if let Some(frame) = frame {
            self.pool.note(self.pool.page(frame), is_blocked);
        }
        if self.since.is_some() {
            let figures = &mut self.measured.io[kind];
            record(&mut figures.latency, latency);
            figures.bytes += bytes;
            figures.blocked += u64::from(is_blocked);
        }
    }

    /// The page is there: those who wait for it have it, before anybody can take its frame.
    fn read_ended(&mut self, frame: u32) {
        self.pool.end_read(frame);
        let mut client = std::mem::replace(&mut self.first_waiter[frame as usize], NONE);
        let mut woken = std::mem::take(&mut self.woken);
        while client != NONE {
            woken.push(client);
            client = std::mem::replace(&mut self.next_waiter[client as usize], NONE);
        }
        // They were put in front of each other.
        for client in woken.drain(..).rev() {
            debug_assert_eq!(self.clients[client as usize].phase, Phase::Fix);
            self.pin(client, frame);
            self.waits(client, Wait::Cpu);
            self.ready.push_back(client);
        }
        self.woken = woken;
    }

    fn write_ended(&mut self, frame: u32, reason: For) {
        self.pool.end_write(frame);
        self.observer.write_ends(self.pool.page(frame));
        match reason {
            For::Client(client) => {
                self.clients[client as usize].preferred = frame;
                self.waits(client, Wait::Cpu);
                self.ready.push_back(client);
            }
            For::Checkpoint => {
                if let Some(checkpoint) = &mut self.checkpoint {
                    checkpoint.outstanding -= 1;
                }
            }
            For::Writer => {}
        }
        self.feed();
        self.continue_checkpoint();
    }

    fn log_ended(&mut self) {
        let Some(log) = &mut self.log else { return };
        log.end_write();
        let durable = log.durable();
        self.observer.log_is_durable(durable, log.redo());
        let mut at = 0;
        while at < self.waiting_for_log.len() {
            let (lsn, who) = self.waiting_for_log[at];
            if lsn > durable {
                at += 1;
                continue;
            }
            self.waiting_for_log.remove(at);
            match who {
                WaitsForLog::Client(client) => self.ready.push_back(client),
                // It may have been changed again meanwhile: then it waits on.
                WaitsForLog::Frame(frame, reason) => self.write_when_logged(frame, reason),
            }
        }
        self.write_log();
    }
}
