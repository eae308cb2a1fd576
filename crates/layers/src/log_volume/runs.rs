//! Pages on their way to the device: gathered side by side for a stream's frontier, and sent.

use std::ops::Range;

use placement::Placement;
use units::{EraseBlockId, IoOp, StreamId};

use super::volume::LogVolume;
use crate::{Actions, Command, Data, Failure, Part};

/// Pages that follow each other at the frontier of a stream.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub first: u32,
    pub pages: u32,
    pub data: Data,
    /// The write of the host that they are of, which is replied to when they are written.
    pub write: Option<usize>,
}

/// What a command below is for.
#[derive(Debug)]
pub(super) enum Op {
    /// A part of what the host reads.
    Read { part: Part, segment: u32 },
    /// A page of which the host writes a part.
    Fill { write: usize, lpn: u32, ppn: u32 },
    /// Valid pages of a victim, from this place among its survivors on.
    Move { place: usize, pages: u32, tries: u32 },
    /// Pages of data.
    Pages { run: Run, turn: u8 },
    /// A trim of a segment that is durably empty.
    Trim { segment: u32 },
    /// Summaries or tables.
    Own { turn: u8, is_table: bool },
    /// A part of a root.
    Root,
    /// The flush that ends a commit.
    Flush,
    /// The flush that ends a checkpoint.
    RootFlush,
}

impl Op {
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Pages { .. } | Self::Own { .. } | Self::Root)
    }
}

impl<P: Placement> LogVolume<P> {
    /// Sends a write, or lets it wait for others.
    pub fn send_write(
        &mut self,
        op: Op,
        offset: u64,
        length: u32,
        data: Data,
        actions: &mut Actions,
    ) {
        let id = self.ops.insert(op) as u32;
        let command = Command { id, op: IoOp::Write, offset, length, is_fua: false, data };
        if self.writes_below < self.settings.outstanding {
            self.writes_below += 1;
            actions.send(command);
        } else {
            self.queue.push_back(command);
        }
    }

    /// Sends anything else.
    pub fn send(&mut self, op: Op, io: IoOp, offset: u64, length: u32, actions: &mut Actions) {
        let id = self.ops.insert(op) as u32;
        actions.send(Command { id, op: io, offset, length, is_fua: false, data: Data::Absent });
    }

    /// Whether more may be written without holding ever more in memory.
    #[inline]
    pub fn can_send(&self) -> bool {
        self.queue.len() < self.settings.outstanding
    }

    /// The segment of a physical page.
    #[inline]
    pub fn segment_of(&self, ppn: u32) -> u32 {
        ppn / self.layout.pages_per_segment
    }

    /// Puts a page behind those that are gathered for its stream, and sends them if that makes them
    /// whole.
    pub fn gather(&mut self, ppn: u32, data: Data, write: Option<usize>, actions: &mut Actions) {
        let segment = self.segment_of(ppn);
        let stream = self.ftl.stream_of(EraseBlockId(segment));
        let run = &mut self.runs[stream.index()];
        if run.pages == 0 {
            *run = Run { first: ppn, pages: 1, data, write };
            self.carried[segment as usize] += 1;
            self.touched.push(stream.0 as u16);
        } else {
            assert!(
                run.first + run.pages == ppn,
                "pages {} + {} are gathered, and {ppn} comes next",
                run.first,
                run.pages
            );
            run.pages += 1;
            run.data.append(data);
        }
        let page = u64::from(self.layout.page_bytes);
        let is_last_of_segment = (ppn + 1).is_multiple_of(self.layout.pages_per_segment);
        let is_longest = (u64::from(run.pages) + 1) * page > u64::from(self.below.most_bytes);
        let end = self.layout.data_at + (u64::from(ppn) + 1) * page;
        let is_whole =
            self.settings.align_bytes.is_some_and(|align| end.is_multiple_of(u64::from(align)));
        if is_last_of_segment || is_longest || is_whole {
            self.send_run(stream, actions);
        }
    }

    /// Sends what is gathered for a stream.
    pub fn send_run(&mut self, stream: StreamId, actions: &mut Actions) {
        let run = std::mem::take(&mut self.runs[stream.index()]);
        if run.pages == 0 {
            return;
        }
        let (offset, length) = (self.layout.page(run.first), run.pages * self.layout.page_bytes);
        let data = run.data.clone();
        let turn = self.commit.count_write();
        self.send_write(Op::Pages { run, turn }, offset, length, data, actions);
    }

    /// Ends a step: what it gathered is sent, unless writes are aligned. Then it waits for more.
    pub fn send_touched(&mut self, actions: &mut Actions) {
        if self.settings.align_bytes.is_none() {
            while let Some(stream) = self.touched.pop() {
                self.send_run(StreamId(u32::from(stream)), actions);
            }
        }
        self.touched.clear();
    }

    /// The bytes of a page that is gathered, or on its way: it cannot be read from the device yet.
    pub fn in_memory(&self, ppn: u32) -> Option<Data> {
        let segment = self.segment_of(ppn);
        if self.carried[segment as usize] == 0 {
            return None;
        }
        let gathered = &self.runs[self.ftl.stream_of(EraseBlockId(segment)).index()];
        let sent = self
            .ops
            .iter()
            .filter_map(|(_, op)| if let Op::Pages { run, .. } = op { Some(run) } else { None });
        let run = std::iter::once(gathered)
            .chain(sent)
            .find(|run| (run.first..run.first + run.pages).contains(&ppn))?;
        let page = self.layout.page_bytes as usize;
        let from = (ppn - run.first) as usize * page;
        Some(run.data.slice(from..from + page))
    }

    /// What became of a command.
    pub fn end(&mut self, op: Op, outcome: Result<Data, Failure>, actions: &mut Actions) {
        match (op, outcome) {
            (Op::Read { part, segment }, outcome) => {
                self.pins[segment as usize] -= 1;
                self.reads.ended(part, outcome, actions);
            }
            (_, _) if self.poison.is_some() => {}
            (Op::Fill { write, lpn, ppn }, outcome) => {
                self.fill_ended(write, lpn, ppn, outcome, actions);
            }
            (Op::Move { place, pages, .. }, Ok(data)) => self.moved(place, pages, &data, actions),
            (Op::Move { place, pages, tries }, Err(failure)) => {
                self.not_moved(place, pages, tries, &failure, actions);
            }
            (Op::Trim { segment }, outcome) => self.trimmed(segment, outcome.is_ok()),
            (_, Err(failure)) => self.poison(&failure.to_string(), actions),
            (Op::Pages { run, turn }, Ok(_)) => {
                self.commit.ended(turn);
                let segment = self.segment_of(run.first);
                self.carried[segment as usize] -= 1;
                if let Some(write) = run.write {
                    self.written(write, run.pages, actions);
                }
            }
            (Op::Own { turn, is_table }, Ok(_)) => {
                self.commit.ended(turn);
                if is_table {
                    self.checkpoint.table_ended();
                }
            }
            (Op::Flush, Ok(_)) => self.commit_ended(actions),
            (Op::Root, Ok(_)) => self.checkpoint.root_ended(),
            (Op::RootFlush, Ok(_)) => self.checkpoint_ended(),
        }
    }

    /// The pages of the volume that these bytes touch.
    pub fn pages_of(&self, bytes: Range<u64>) -> Range<u32> {
        let page = u64::from(self.layout.page_bytes);
        (bytes.start / page) as u32..bytes.end.div_ceil(page) as u32
    }
}
