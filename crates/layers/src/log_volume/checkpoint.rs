//! Checkpoints of the map: pages of the tables that changed are written beside their last versions,
//! a few at a time while the host goes on, and then a root that tells where each lies.
//!
//! The host changes the map meanwhile, so that a page of the tables may hold more than was there
//! when the checkpoint began. That is no harm: all entries from the beginning on are replayed over
//! it, and the root is written only when they are durable as far as any page holds them.

use std::collections::VecDeque;

use bytes::Bytes;
use placement::Placement;
use units::{IoOp, Lpn};

use super::below::Op;
use super::disk::{LOST, NOWHERE, Root, make_table};
use super::layout::{COPIES, VolumeLayout};
use super::settings::VolumeSettings;
use super::volume::LogVolume;
use crate::hash::UNKNOWN;
use crate::{Actions, Data};

/// Pages of the tables in one write, and writes of them at once.
const AT_ONCE: usize = 16;
const OUTSTANDING: u32 = 8;
/// Bytes between checkpoints where summaries lie in segments, if nothing else is asked for.
pub(super) const MOST_TO_READ: u64 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Writes of tables have not ended: their number.
    Tables(u32),
    /// It waits for a commit after this one.
    Commit(u64),
    /// The root is to be written.
    Root,
    /// Parts of the root have not been written: their number.
    RootParts(u32),
    Flush,
}

/// State of checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// The durable root; during a checkpoint, the next one.
    root: Root,
    phase: Phase,
    /// Pages of the tables that changed since they were written.
    changed: Vec<bool>,
    to_write: VecDeque<u32>,
    every_bytes: u64,
    since_bytes: u64,
    is_urgent: bool,
}

impl Checkpoint {
    pub fn new(layout: &VolumeLayout, settings: &VolumeSettings, root: Root) -> Self {
        let auto = (128 * u64::from(layout.tables) * u64::from(layout.page_bytes)).max(64 << 20);
        // Recovery reads all that was written since the last checkpoint.
        let auto = if layout.form.in_segments { auto.min(MOST_TO_READ) } else { auto };
        Self {
            root,
            phase: Phase::Idle,
            changed: vec![false; layout.tables as usize],
            to_write: VecDeque::new(),
            every_bytes: settings.checkpoint_every_bytes.unwrap_or(auto),
            since_bytes: 0,
            is_urgent: false,
        }
    }

    #[inline]
    pub fn page_changed(&mut self, layout: &VolumeLayout, lpn: u32) {
        self.changed[(lpn / layout.lpns_per_table()) as usize] = true;
    }

    #[inline]
    pub fn segment_changed(&mut self, layout: &VolumeLayout, segment: u32) {
        self.changed[(layout.map_tables + segment / layout.segments_per_table()) as usize] = true;
    }

    #[inline]
    pub fn count_bytes(&mut self, bytes: u32) {
        self.since_bytes += u64::from(bytes);
    }

    /// Asks for a checkpoint now, for the room that it makes. Returns true if one will begin, and
    /// was not asked for before.
    pub fn hurry(&mut self) -> bool {
        let begins = self.phase == Phase::Idle && !self.is_urgent;
        self.is_urgent |= begins;
        begins
    }

    /// Returns true if it waits for a commit.
    pub fn wants_commit(&self) -> bool {
        matches!(self.phase, Phase::Commit(_))
    }

    /// Notes that a commit ended, the last one of those that were begun.
    pub fn committed(&mut self, begun: u64) {
        if let Phase::Commit(after) = self.phase
            && begun > after
        {
            self.phase = Phase::Root;
        }
    }

    pub fn table_ended(&mut self) {
        if let Phase::Tables(outstanding) = &mut self.phase {
            *outstanding -= 1;
        }
    }

    pub fn root_ended(&mut self) {
        if let Phase::RootParts(parts) = &mut self.phase {
            *parts -= 1;
        }
    }
}

impl<P: Placement> LogVolume<P> {
    /// Begins a checkpoint that is due, or goes on with the one that is under way. Returns true if
    /// something was done.
    pub fn go_on_with_checkpoint(&mut self, actions: &mut Actions) -> bool {
        match self.checkpoint.phase {
            Phase::Idle => {
                let is_due = self.checkpoint.since_bytes >= self.checkpoint.every_bytes
                    || self.log.is_half_full()
                    || self.checkpoint.is_urgent
                    || self.wants_checkpoint();
                if is_due {
                    self.begin_checkpoint(actions);
                }
                is_due
            }
            Phase::Tables(outstanding) => self.write_tables(outstanding, actions),
            Phase::Commit(_) | Phase::Flush => false,
            Phase::Root => {
                self.write_root(actions);
                true
            }
            Phase::RootParts(0) => {
                self.checkpoint.phase = Phase::Flush;
                self.counts.flushes += 1;
                self.below.send(Op::RootFlush, IoOp::Flush, 0, 0, actions);
                true
            }
            Phase::RootParts(_) => false,
        }
    }

    fn begin_checkpoint(&mut self, actions: &mut Actions) {
        // The summaries before it may be overwritten when it has ended.
        self.write_footers(actions);
        let (replay_from, replay_index) = self.log.replay_from();
        let clock = self.ftl.device().clock;
        let replay_at = if self.layout.form.in_segments { self.end_of_log() } else { None };
        let kept = &mut self.checkpoint;
        kept.since_bytes = 0;
        kept.is_urgent = false;
        kept.root.number += 1;
        (kept.root.replay_from, kept.root.replay_index, kept.root.clock) =
            (replay_from, replay_index, clock);
        kept.root.replay_at = replay_at.unwrap_or(NOWHERE);
        kept.to_write.extend(
            (0..).zip(&kept.changed).filter(|(_, changed)| **changed).map(|(index, _)| index),
        );
        kept.changed.fill(false);
        kept.phase = Phase::Tables(0);
    }

    fn write_tables(&mut self, mut outstanding: u32, actions: &mut Actions) -> bool {
        let before = outstanding;
        let page = self.layout.page_bytes as usize;
        let most = self.below.most_pages(AT_ONCE, self.layout.page_bytes);
        while outstanding < OUTSTANDING
            && self.below.can_write()
            && let Some(&first) = self.checkpoint.to_write.front()
        {
            let other = |area: u8| if area == 1 { 2 } else { 1 };
            let area = other(self.checkpoint.root.areas[first as usize]);
            let mut pages = 0;
            while let Some(&index) = self.checkpoint.to_write.front()
                && index == first + pages
                && (pages as usize) < most
                && other(self.checkpoint.root.areas[index as usize]) == area
            {
                self.checkpoint.to_write.pop_front();
                self.checkpoint.root.areas[index as usize] = area;
                pages += 1;
            }
            let data =
                if self.is_absent { Data::Absent } else { Data::Whole(self.tables(first, pages)) };
            for copy in 0..COPIES {
                let op = Op::Own { turn: self.commit.count_write(), is_table: true };
                let (at, length) = (self.layout.table(first, area, copy), pages * page as u32);
                self.below.write(op, at, length, data.clone(), actions);
                outstanding += 1;
            }
            self.counts.checkpoint_pages += COPIES * u64::from(pages);
        }
        let are_written = outstanding == 0 && self.checkpoint.to_write.is_empty();
        self.checkpoint.phase =
            if are_written { Phase::Commit(self.commit.begun) } else { Phase::Tables(outstanding) };
        outstanding != before || are_written
    }

    fn tables(&self, first: u32, pages: u32) -> Bytes {
        let page = self.layout.page_bytes as usize;
        let mut bytes = vec![0; pages as usize * page];
        let map = |lpn: u32| match self.ftl.lookup(Lpn(lpn)) {
            Some(ppn) => (ppn.0, self.checks.of(lpn)),
            None if self.checks.is_lost(lpn) => (LOST, UNKNOWN),
            None => (NOWHERE, UNKNOWN),
        };
        for (index, to) in (first..).zip(bytes.chunks_mut(page)) {
            make_table(
                &self.layout,
                self.volume,
                self.checkpoint.root.number,
                index,
                to,
                map,
                self.segments.kept(),
            );
        }
        bytes.into()
    }

    fn write_root(&mut self, actions: &mut Actions) {
        self.checkpoint.root.durable = self.log.durable;
        let mut bytes = Vec::new();
        if !self.is_absent {
            bytes.resize(self.layout.root_bytes(), 0);
            self.checkpoint.root.encode(self.layout.form, self.volume, &mut bytes);
        }
        let data = if self.is_absent { Data::Absent } else { Data::Whole(bytes.into()) };
        let (number, page) = (self.checkpoint.root.number, self.layout.page_bytes);
        let most = (self.below.limits().most_bytes / page * page) as usize;
        let mut parts = 0;
        // A copy may rot, and without the root the one before it would be taken for the newest.
        for copy in 0..COPIES {
            let at = self.layout.root(number, copy);
            for from in (0..self.layout.root_bytes()).step_by(most) {
                let to = self.layout.root_bytes().min(from + most);
                let data = data.slice(from..to);
                self.below.write(Op::Root, at + from as u64, (to - from) as u32, data, actions);
                parts += 1;
            }
        }
        self.counts.checkpoint_pages += COPIES * u64::from(self.layout.root_pages);
        self.checkpoint.phase = Phase::RootParts(parts);
    }

    /// Ends a checkpoint: its root is durable.
    pub fn checkpoint_ended(&mut self) {
        self.checkpoint.phase = Phase::Idle;
        self.counts.checkpoints += 1;
        for segment in self.log.checkpointed(&self.checkpoint.root) {
            self.segments.release_summary(segment);
        }
    }
}
