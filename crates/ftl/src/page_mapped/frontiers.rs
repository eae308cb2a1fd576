//! Write frontiers: opened, filled, and closed early where a policy wants that.

use placement::{Block, Placement, Victim};
use units::{EraseBlockId, StreamId};

use super::{Frontier, PageMapped};

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// The next stream whose open erase block in a lane is to be [closed](Self::close) early. Call
    /// it before a cleaning begins there.
    ///
    /// The policy is asked only once between two writes of the host: otherwise closing could undo
    /// the gain of each cleaning. Its wishes are carried out in each lane before the next cleaning
    /// there, as a cleaning under way may need the room.
    pub fn stream_to_close(&mut self, lane: u32) -> Option<StreamId> {
        if !self.placement.features().closes_early {
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

    /// Closes a stream's open erase block in a lane, if there is one. Its remaining pages stay
    /// unwritten until it is erased.
    pub fn close(&mut self, stream: StreamId, lane: u32) {
        let place = self.lanes.of_stream(stream, lane);
        self.close_no_more(place);
        let Frontier { next, end } = self.frontiers[place];
        if next < end {
            self.counters.unused_pages += u64::from(end - next);
            self.frontiers[place] = Frontier::CLOSED;
            let block = EraseBlockId(self.divider.quotient(next));
            self.closed(block, self.lanes.domain_in(self.placement.domain_of(stream.0), lane));
        }
    }

    /// Clears the mark of a frontier that was to be closed early.
    fn close_no_more(&mut self, place: usize) {
        if self.placement.features().closes_early
            && let Some(to_close) = self.to_close.get_mut(place)
        {
            *to_close = false;
        }
    }

    /// Closes the erase blocks of a lane that the policy wants closed early, before a cleaning
    /// begins there.
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

    /// Cleans until the stream can get room. Relocation may open an erase block for this very
    /// stream: then the reserve is enough, but it must be whole, or the next cleanings find no
    /// erase block for the pages that they relocate.
    #[cold]
    pub(super) fn clean_until_room(&mut self, stream: StreamId, lane: u32) {
        while !self.make_room(stream, lane) {
            self.close_early(lane);
            let victim = self.choose_victim(stream, lane);
            self.clean(victim, lane);
        }
    }

    /// Tells whether [`PageMapped::make_room`] would return true.
    #[inline]
    #[must_use]
    pub fn can_make_room(&self, stream: StreamId, lane: u32) -> bool {
        let free = self.lanes.free(lane);
        if self.has_room(stream, lane) { free >= self.reserve } else { free > self.reserve }
    }

    /// Tells whether the host can write a page of this stream to the lane now. Opens an erase block
    /// if more than the reserve is free. While a cleaning that takes time has broken into the
    /// reserve the host has to wait, or it would use up the space that the survivors need.
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

    /// Gives the stream itself, after opening an erase block for it if needed; if none is free, any
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
        // A cleaning starts with at least one free erase block, and that alone has room for all
        // survivors of one victim.
        StreamId(with_room.expect("a cleaning starts with a free erase block"))
    }
}
