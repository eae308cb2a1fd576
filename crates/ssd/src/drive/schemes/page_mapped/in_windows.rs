//! Cleaning in windows: a lane pauses between two commands when no window is open.

use placement::Placement;

use super::super::watch::Watch;
use super::PageMappedScheme;
use crate::drive::media::Media;

impl<P: Placement, W: Watch> PageMappedScheme<P, W> {
    /// Returns true if a lane may reclaim space now: in a window for it, or for writes that wait.
    /// Otherwise sets the time at which the lane is woken.
    #[inline]
    pub(super) fn may_clean(&mut self, lane: u32, media: &Media) -> bool {
        let Some(windows) = &self.windows else { return true };
        let state = &mut self.lanes[lane as usize];
        let may = windows.is_busy(media.now()) || !state.waiting.is_empty();
        if !may {
            state.wake_at = state.wake_at.min(windows.ends_at(media.now()));
            self.next_wake = self.next_wake.min(state.wake_at);
        }
        may
    }

    /// Continues a paused cleaning, if it may.
    #[inline]
    pub(super) fn resume(&mut self, lane: u32, media: &mut Media) {
        if self.lanes[lane as usize].is_paused && self.may_clean(lane, media) {
            self.lanes[lane as usize].is_paused = false;
            self.go_on(lane, media);
        }
    }
}
