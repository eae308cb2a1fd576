//! Pages on their way to the device: gathered side by side for a stream's frontier, and sent.

use placement::Placement;
use units::{EraseBlockId, IoOp, StreamId};

use super::below::Op;
use super::layout::VolumeLayout;
use super::lifetimes::lifetime_of;
use super::volume::LogVolume;
use crate::{Actions, Command, Data};

/// Pages that follow each other at the frontier of a stream.
#[derive(Debug, Default)]
pub(super) struct FrontierRun {
    first: u32,
    pages: u32,
    data: Data,
    /// The host's write of which there are pages here, and their number: it is replied to when they
    /// are written. Other pages are padding, a summary, or moved.
    write: Option<usize>,
    of_host: u32,
}

impl FrontierRun {
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Gives the host's write that waits for pages here, and their number.
    pub fn of_host(&self) -> Option<(usize, u32)> {
        self.write.map(|write| (write, self.of_host))
    }

    /// Gives the bytes of a page, if it is one of these.
    fn page(&self, ppn: u32, page_bytes: u32) -> Option<Data> {
        let page = page_bytes as usize;
        let place = ppn.checked_sub(self.first).filter(|&place| place < self.pages)? as usize;
        Some(self.data.slice(place * page..(place + 1) * page))
    }
}

/// Pages gathered for the frontier of each stream.
#[derive(Debug)]
pub(super) struct Gathered {
    runs: Vec<FrontierRun>,
    /// Streams with gathered pages that the present step began or added to.
    touched: Vec<u16>,
    /// Alignment of writes, in bytes; without it, each step sends what it gathered.
    align_bytes: Option<u32>,
    most_bytes: u32,
}

impl Gathered {
    pub fn new(streams: usize, align_bytes: Option<u32>, most_bytes: u32) -> Self {
        let runs = (0..streams).map(|_| FrontierRun::default()).collect();
        Self { runs, touched: Vec::new(), align_bytes, most_bytes }
    }

    pub fn streams(&self) -> usize {
        self.runs.len()
    }

    /// Gives the number of pages that wait here.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.pages)).sum()
    }

    pub fn holds_any(&self, stream: StreamId) -> bool {
        self.runs[stream.index()].pages > 0
    }

    /// Adds a page behind those of its stream. Gives two flags: it is the first of a run, and the
    /// run is complete.
    fn add(
        &mut self,
        layout: &VolumeLayout,
        stream: StreamId,
        ppn: u32,
        data: Data,
        write: Option<usize>,
    ) -> (bool, bool) {
        let run = &mut self.runs[stream.index()];
        let is_first = run.pages == 0;
        if is_first {
            *run = FrontierRun { first: ppn, pages: 1, data, write: None, of_host: 0 };
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
        if write.is_some() {
            debug_assert!(run.write.is_none() || run.write == write, "a run is of one write");
            run.write = write;
            run.of_host += 1;
        }
        let page = u64::from(layout.page_bytes);
        let is_last_of_segment = (ppn + 1).is_multiple_of(layout.pages_per_segment);
        let is_longest = (u64::from(run.pages) + 1) * page > u64::from(self.most_bytes);
        let end = layout.page(ppn) + page;
        let is_aligned = self.align_bytes.is_some_and(|align| end.is_multiple_of(u64::from(align)));
        (is_first, is_last_of_segment || is_longest || is_aligned)
    }

    fn take(&mut self, stream: StreamId) -> Option<FrontierRun> {
        let run = std::mem::take(&mut self.runs[stream.index()]);
        (run.pages > 0).then_some(run)
    }
}

impl<P: Placement> LogVolume<P> {
    pub fn stream_of(&self, ppn: u32) -> StreamId {
        self.ftl.stream_of(EraseBlockId(self.layout.segment_of(ppn)))
    }

    /// Adds a page behind those that are gathered for its stream, and sends them if the run is
    /// complete.
    pub fn gather(&mut self, ppn: u32, data: Data, write: Option<usize>, actions: &mut Actions) {
        let stream = self.stream_of(ppn);
        let (is_first, is_whole) = self.gathered.add(&self.layout, stream, ppn, data, write);
        if is_first {
            self.segments.carry(self.layout.segment_of(ppn));
        }
        if is_whole {
            self.send_run(stream, actions);
        }
    }

    /// Sends the pages that are gathered for a stream; behind the last page of a segment, its
    /// footer with it.
    pub fn send_run(&mut self, stream: StreamId, actions: &mut Actions) {
        let Some(run) = self.gathered.take(stream) else { return };
        let offset = self.layout.page(run.first);
        let mut length = run.pages * self.layout.page_bytes;
        let mut data = run.data.clone();
        if (run.first + run.pages).is_multiple_of(self.layout.pages_per_segment) {
            match self.footer_behind(stream, length) {
                Some(footer) => {
                    data.append(footer);
                    length += self.layout.footer_pages() * self.layout.page_bytes;
                }
                None => self.write_footer(stream, actions),
            }
        }
        let turn = self.commit.count_write();
        let command = Command {
            lifetime: lifetime_of(self.ftl.placement(), stream),
            data,
            ..Command::new(0, IoOp::Write, offset, length)
        };
        self.below.send_write(Op::Pages { run, turn }, command, actions);
    }

    /// Ends a step: sends what it gathered, unless writes are aligned. Then they wait for more.
    pub fn send_touched(&mut self, actions: &mut Actions) {
        if self.gathered.align_bytes.is_none() {
            while let Some(stream) = self.gathered.touched.pop() {
                self.send_run(StreamId(u32::from(stream)), actions);
            }
        }
        self.gathered.touched.clear();
    }

    /// Gives the bytes of a page that is gathered, or on its way: it cannot be read from the device
    /// yet.
    pub fn in_memory(&self, ppn: u32) -> Option<Data> {
        if self.segments.is_on_device(self.layout.segment_of(ppn)) {
            return None;
        }
        let gathered = &self.gathered.runs[self.stream_of(ppn).index()];
        std::iter::once(gathered)
            .chain(self.below.runs())
            .find_map(|run| run.page(ppn, self.layout.page_bytes))
    }
}
