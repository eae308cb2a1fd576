//! Interface for callers that let time pass between the steps of a cleaning: a drive with a clock,
//! and a log-structured volume.

use placement::{Placement, Victim};
use units::{EraseBlockId, Lpn, Ppn, StreamId};

use super::PageMapped;
use super::{Frontier, UNMAPPED};
use crate::lanes::Lanes;

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// The lanes.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The lanes, to be set up before the first write.
    pub fn lanes_mut(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Number of free erase blocks of a lane.
    #[inline]
    #[must_use]
    pub fn free_blocks(&self, lane: u32) -> usize {
        self.lanes.free(lane)
    }

    /// Number of free erase blocks reserved for cleaning: the host gets one only if more are free.
    #[inline]
    #[must_use]
    pub fn reserve(&self) -> usize {
        self.reserve
    }

    /// Number of pages that can be written at the write frontiers of a lane before an erase block
    /// has to be opened.
    #[must_use]
    pub fn frontier_room(&self, lane: u32) -> u32 {
        let of_lane =
            self.frontiers.iter().skip(lane as usize).step_by(self.lanes.count() as usize);
        of_lane.map(|frontier| frontier.end - frontier.next).sum()
    }

    /// The next page of a stream's write frontier, and the number of pages left from it on; `None`
    /// if the stream has no open erase block.
    #[inline]
    #[must_use]
    pub fn frontier(&self, stream: StreamId, lane: u32) -> Option<(Ppn, u32)> {
        let frontier = self.frontiers[self.lanes.of_stream(stream, lane)];
        (frontier.next < frontier.end).then(|| (Ppn(frontier.next), frontier.end - frontier.next))
    }

    /// Opens an erase block for a stream whose frontier has no room, one of the reserve if there
    /// are no others; gives `None` if none is free.
    ///
    /// # Panics
    /// If the frontier has room.
    pub fn open_next(&mut self, stream: StreamId, lane: u32) -> Option<EraseBlockId> {
        assert!(self.frontier(stream, lane).is_none(), "the open erase block has room");
        if self.lanes.free(lane) == 0 {
            return None;
        }
        self.stream_with_room(stream, lane);
        let (next, _) = self.frontier(stream, lane)?;
        Some(EraseBlockId(self.split(next.0).0))
    }

    /// Number of pages that can still be written at the write frontier of a stream.
    pub fn room_of(&self, stream: StreamId, lane: u32) -> u32 {
        let frontier = self.frontiers[self.lanes.of_stream(stream, lane)];
        frontier.end - frontier.next
    }

    /// Returns true if a page holds the newest version of a logical page.
    #[inline]
    #[must_use]
    pub fn is_valid(&self, page: Ppn) -> bool {
        let (block, offset) = self.split(page.0);
        self.valid[block as usize * self.words + (offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    /// Moves a valid page out of an erase block under cleaning, to the given stream if there is
    /// room.
    ///
    /// # Panics
    /// If the page does not hold the logical page, or there is no room in the whole lane.
    pub(super) fn relocate(&mut self, from: Ppn, lpn: Lpn, to: StreamId, lane: u32) -> Ppn {
        assert!(self.map.get(lpn.index()) == from.0, "logical page {} lies at {}", lpn.0, from.0);
        self.invalidate(from.0);
        let to = self.stream_with_room(to, lane);
        self.counters.relocated_pages += 1;
        // The erase block takes a division, so it is computed only for policies that watch places.
        let from =
            self.placement.features().watches_places.then(|| EraseBlockId(self.split(from.0).0));
        Ppn(self.place(to, lane, lpn.0, from))
    }

    /// Holds back a victim without valid pages. It is reclaimed only later, when the newer versions
    /// of its pages are durable.
    pub fn hold(&mut self, victim: EraseBlockId) {
        self.emptied.push(victim);
    }

    /// Skips the next page of a frontier, which has room: for data that was overwritten before it
    /// could be written, and for padding.
    pub fn place_dead(&mut self, stream: StreamId, lane: u32) -> Ppn {
        // The page is placed and invalidated at once, so the frontier and the indexes see the usual
        // sequence.
        let frontier = self.frontiers[self.lanes.of_stream(stream, lane)];
        let ppn = self.take_page(stream, lane, frontier);
        self.device.clock += 1;
        self.counters.host_page_writes += 1;
        ppn
    }

    /// Leaves the next page of a stream's frontier unwritten; gives `None` if the stream has no
    /// open erase block.
    pub fn leave_unused(&mut self, stream: StreamId, lane: u32) -> Option<Ppn> {
        let frontier = self.frontiers[self.lanes.of_stream(stream, lane)];
        (frontier.next < frontier.end).then(|| {
            self.counters.unused_pages += 1;
            self.take_page(stream, lane, frontier)
        })
    }

    fn take_page(&mut self, stream: StreamId, lane: u32, frontier: Frontier) -> Ppn {
        let ppn = frontier.next;
        let place = self.lanes.of_stream(stream, lane);
        self.frontiers[place].next += 1;
        self.owner.set(ppn as usize, UNMAPPED);
        if self.frontiers[place].next == frontier.end {
            let block = EraseBlockId(self.split(ppn).0);
            self.closed(block, self.lanes.domain_in(self.placement.domain_of(stream.0), lane));
        }
        Ppn(ppn)
    }

    /// Cleans the victim that the policies choose in a lane, at once. The lane has at least one
    /// free erase block.
    pub fn clean_one(&mut self, lane: u32) {
        self.close_early(lane);
        let victim = self.choose_victim(StreamId(0), lane);
        self.clean(victim, lane);
    }

    /// Takes an erase block out of the victim index, to clean it for another reason than the
    /// policies' choice.
    ///
    /// # Panics
    /// If the erase block is not closed.
    pub fn take_victim(&mut self, block: EraseBlockId) {
        self.remove_victim(block);
    }

    /// The erase blocks that hold data and are no write frontier, without `under_cleaning`.
    pub fn closed_blocks(
        &self,
        lane: u32,
        under_cleaning: Option<EraseBlockId>,
    ) -> Vec<EraseBlockId> {
        let pages = self.device.geometry.pages_per_erase_block;
        let range = self.lanes.blocks_of(lane);
        let mut is_closed = vec![true; range.len()];
        let start = range.start;
        let mut strike = |block: u32| is_closed[(block - start) as usize] = false;
        self.lanes.not_in_use_of(lane).for_each(&mut strike);
        self.frontiers
            .iter()
            .filter(|f| f.next < f.end && range.contains(&(f.next / pages)))
            .for_each(|f| strike(f.next / pages));
        under_cleaning.iter().for_each(|block| strike(block.0));
        range.filter(|&block| is_closed[(block - start) as usize]).map(EraseBlockId).collect()
    }

    /// Number of written pages of each erase block: all for closed ones, those up to the frontier
    /// for open ones, none for free ones.
    pub fn written_pages(&self) -> Vec<u32> {
        let pages = self.device.geometry.pages_per_erase_block;
        let mut written = vec![pages; self.device.blocks.len()];
        self.lanes.not_in_use().for_each(|block| written[block as usize] = 0);
        for frontier in self.frontiers.iter().filter(|frontier| frontier.next < frontier.end) {
            written[(frontier.next / pages) as usize] = frontier.next % pages;
        }
        written
    }
}
