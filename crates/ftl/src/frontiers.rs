//! Write frontiers: opened, filled, and closed early where a policy wants that.

use placement::{Block, Placement, Victim};
use units::{EraseBlockId, StreamId};

use crate::page_mapped::{Frontier, PageMapped};

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// The next stream whose open erase block in a lane is to be [closed](Self::close) early: asked
    /// before a cleaning begins there.
    ///
    /// The policy is asked once between two writes of the host, or closing could undo what each
    /// cleaning gains. What it wants is done in each lane before the next cleaning there: one that
    /// is under way may need the room.
    pub fn stream_to_close(&mut self, lane: u32) -> Option<StreamId> {
        if !P::CLOSES_EARLY {
            return None;
        }
        if self.asked_at != Some(self.device.clock) {
            self.asked_at = Some(self.device.clock);
            while let Some(stream) = self.placement.stream_to_close(&self.device) {
                self.to_close.resize(self.frontiers.len(), false);
                for lane in 0..self.lanes.count() {
                    let place = self.lanes.of_stream(stream, lane);
                    self.to_close[place] = self.has_room(stream, lane);
                }
            }
        }
        if self.to_close.is_empty() {
            return None;
        }
        let mut streams = (0..self.device.streams.len() as u32).map(StreamId);
        streams.find(|&stream| self.to_close[self.lanes.of_stream(stream, lane)])
    }

    /// Closes a stream's open erase block in a lane, if there is one. What is left of it stays
    /// unwritten until it is erased.
    pub fn close(&mut self, stream: StreamId, lane: u32) {
        let place = self.lanes.of_stream(stream, lane);
        self.close_no_more(place);
        let Frontier { next, end } = self.frontiers[place];
        if next < end {
            self.counters.unused_pages += u64::from(end - next);
            self.frontiers[place] = Frontier::CLOSED;
            let block = EraseBlockId(self.divider.quotient(next));
            self.closed(block, self.lanes.domain_in(P::domain_of(stream.0), lane));
        }
    }

    /// The erase block that was to be closed is closed.
    fn close_no_more(&mut self, place: usize) {
        if P::CLOSES_EARLY
            && let Some(to_close) = self.to_close.get_mut(place)
        {
            *to_close = false;
        }
    }

    /// Closes what the policy wants closed early in a lane, before a cleaning begins there.
    pub fn close_early(&mut self, lane: u32) {
        while let Some(stream) = self.stream_to_close(lane) {
            self.close(stream, lane);
        }
    }

    pub(super) fn open(&mut self, stream: StreamId, lane: u32, block: u32) {
        let pages = self.device.geometry.pages_per_erase_block;
        let cache = self.cache.as_ref().filter(|cache| cache.size.stream == stream);
        let end = block * pages + cache.map_or(pages, |cache| cache.size.pages);
        self.device.blocks[block as usize] = Block { valid: 0, stream: stream.0 as u16 };
        self.device.opened_at[block as usize] = self.device.clock as u32;
        self.device.streams[stream.index()].erase_blocks += 1;
        let place = self.lanes.of_stream(stream, lane);
        self.frontiers[place] = Frontier { next: block * pages, end };
        self.close_no_more(place);
    }

    /// Relocation may open an erase block for this very stream. Then the reserve is enough, but it
    /// must be whole: otherwise the next cleanings find no erase block for what they relocate.
    #[cold]
    pub(super) fn clean_until_room(&mut self, stream: StreamId, lane: u32) {
        while !self.make_room(stream, lane) {
            self.close_early(lane);
            let victim = self.choose_victim(stream, lane);
            self.clean(victim, lane);
        }
    }

    /// Whether [`PageMapped::make_room`] would say yes.
    #[inline]
    #[must_use]
    pub fn can_make_room(&self, stream: StreamId, lane: u32) -> bool {
        let free = self.lanes.free(lane);
        if self.has_room(stream, lane) { free >= self.reserve } else { free > self.reserve }
    }

    /// Whether the host can write a page of this stream to the lane now: opens an erase block if
    /// more than the reserve is free. While a cleaning that takes time has broken into the reserve
    /// the host has to wait, or it would use up what the survivors need.
    #[inline]
    pub fn make_room(&mut self, stream: StreamId, lane: u32) -> bool {
        if self.has_room(stream, lane) {
            self.lanes.free(lane) >= self.reserve
        } else {
            self.open_if_free(stream, lane)
        }
    }

    #[cold]
    fn open_if_free(&mut self, stream: StreamId, lane: u32) -> bool {
        if self.lanes.free(lane) <= self.reserve {
            return false;
        }
        let block = self.lanes.take(lane, &self.erased).expect("more than the reserve is free");
        self.open(stream, lane, block);
        true
    }

    #[inline]
    pub(super) fn has_room(&self, stream: StreamId, lane: u32) -> bool {
        let frontier = self.frontiers[self.lanes.of_stream(stream, lane)];
        frontier.next < frontier.end
    }

    /// The stream itself, after opening an erase block for it if need be; if none is free, any
    /// stream with room.
    #[inline]
    pub(super) fn stream_with_room(&mut self, stream: StreamId, lane: u32) -> StreamId {
        if self.has_room(stream, lane) {
            return stream;
        }
        if let Some(block) = self.lanes.take(lane, &self.erased) {
            self.open(stream, lane, block);
            return stream;
        }
        self.counters.spilled_pages += 1;
        let with_room = (0..self.device.streams.len() as u32)
            .find(|&stream| self.has_room(StreamId(stream), lane));
        // A cleaning starts with at least one erase block free, and that alone holds all that one
        // victim can have.
        StreamId(with_room.expect("a cleaning starts with a free erase block"))
    }
}
