//! Interface for a scheme that writes copies of pages to dies of its choice.

use placement::Placement;
use units::Lpn;

use super::super::watch::Watch;
use super::PageMappedScheme;
use crate::drive::media::{Media, Tag};

impl<P: Placement, W: Watch> PageMappedScheme<P, W> {
    /// Returns true if a die reclaims space or moves data to even out wear: then there is such a
    /// command under way in one of its lanes.
    pub(in crate::drive::schemes) fn is_cleaning(&self, die: u32, media: &Media) -> bool {
        let planes = media.layout().planes_per_die;
        self.cleaning_lanes > 0
            && (die * planes..(die + 1) * planes)
                .map(|lane| &self.lanes[lane as usize])
                .any(|lane| lane.job.cleaning.victim().is_some() && !lane.is_paused)
    }

    /// Makes cleaning start two erase blocks earlier, one for the copies' larger reserve and one
    /// that they open: copies never wait for room, and so never make any.
    pub(in crate::drive::schemes) fn keep_room_for_copies(&mut self) {
        let least = self.ftl.reserve();
        self.thresholds.start_below = self.thresholds.start_below.max(least) + 2;
    }

    /// Most copies that a lane may hold: under static allocation the host's pages keep their room
    /// there, otherwise they can go elsewhere.
    pub(in crate::drive::schemes) fn most_copies(&self, lane: u32, host_pages: u32) -> u32 {
        if !self.allocation.is_static() {
            return u32::MAX;
        }
        let of_host = self.allocation.most_pages_of_a_lane(host_pages);
        self.ftl.lanes().capacity(lane).saturating_sub(of_host)
    }

    /// Returns true if the newest version of a page waits for room.
    pub(in crate::drive::schemes) fn waits(&self, lpn: Lpn) -> bool {
        self.does_wait(lpn)
    }

    /// Writes a page to a lane, if it has room now and nobody waits for it. Returns true if it had.
    pub(in crate::drive::schemes) fn write_into(
        &mut self,
        lpn: Lpn,
        lane: u32,
        tag: Tag,
        media: &mut Media,
    ) -> bool {
        let stream = self.ftl.host_stream(lpn);
        let has_room = self.lanes[lane as usize].waiting.is_empty()
            && self.can_hold_more(lane)
            && !self.is_occupied(lane, media)
            && self.ftl.make_room(stream, lane);
        if has_room {
            self.program(lpn, stream, lane, tag, media);
            self.consider(lane, media);
        }
        has_room
    }

    /// Gives the write of a page that waits for room another tag.
    pub(in crate::drive::schemes) fn retag(&mut self, old: Tag, new: Tag) {
        let mut all = self.lanes.iter_mut().flat_map(|lane| &mut lane.waiting);
        all.find(|waiting| waiting.tag == old).expect("a page waits under its tag").tag = new;
    }
}
