//! Requests to a drive with zones: executed in the order in which the controller takes commands, or
//! refused.

use units::IoOp;

use super::{Completion, Drive, RequestSlot, Submission};
use crate::drive::schemes::{Scheme, ZoneAction, ZoneError};
use crate::drive::time::Picos;

impl<S: Scheme> Drive<S> {
    /// As [`Drive::submit`], for a zone append: a write that goes to the write pointer of the zone
    /// of its offset. The completion has the offset that was chosen.
    ///
    /// # Panics
    /// As [`Drive::submit`], and if it is no write.
    pub fn append(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>) {
        assert!(submission.op == IoOp::Write, "only writes are appended");
        self.submit_as(at, submission, true, completed);
    }

    /// Opens, closes, finishes or resets a zone, in no time but for the erases of a reset.
    ///
    /// # Errors
    /// [`ZoneError`] if its state or a limit does not allow it, or the drive has no zones.
    ///
    /// # Panics
    /// If there is no such zone, or writes to a zone that is reset are outstanding.
    pub fn manage_zone(&mut self, action: ZoneAction, zone: u32) -> Result<(), ZoneError> {
        assert!(
            action != ZoneAction::Reset || self.outstanding == 0,
            "zones are reset by TRIM while requests are outstanding"
        );
        self.scheme.manage_zone(action, zone, &mut self.media)
    }

    /// The reason for which the first request was refused, if one was: zones are written in order.
    #[must_use]
    pub fn refusal(&self) -> Option<&ZoneError> {
        self.scheme.refusal()
    }

    /// Takes the handles of the requests that were refused since the last call, and the reasons.
    /// Refused requests complete like others.
    pub fn take_refused(&mut self) -> Vec<(u32, ZoneError)> {
        std::mem::take(&mut self.refused)
    }

    /// Returns true if a request may continue now.
    pub(super) fn enters_zone(
        &mut self,
        slot: RequestSlot,
        completed: &mut Vec<Completion>,
    ) -> bool {
        let request = &self.requests[slot as usize];
        let Submission { op, offset, length, .. } = request.submission;
        let (first, pages, is_append) = (request.first, request.pages, request.is_append);
        if !matches!(op, IoOp::Write | IoOp::Trim) {
            return true;
        }
        let page_bytes = u64::from(self.page_bytes);
        let is_whole =
            offset.is_multiple_of(page_bytes) && u64::from(length).is_multiple_of(page_bytes);
        let refused = if !is_whole {
            self.scheme.refuse_part(offset, length)
        } else if op == IoOp::Trim {
            if self.scheme.is_in_transit(first, pages) {
                // A reset waits for the data of earlier writes, and later commands wait for the
                // reset.
                self.host.hold(slot);
                return false;
            }
            match self.scheme.take_trim(first, pages) {
                Ok(()) => return true,
                Err(error) => error,
            }
        } else {
            match self.scheme.take_write(first, pages, is_append) {
                Ok(first) => {
                    let request = &mut self.requests[slot as usize];
                    request.first = first;
                    request.submission.offset = u64::from(first.0) * page_bytes;
                    return true;
                }
                Err(error) => error,
            }
        };
        let handle = self.requests[slot as usize].submission.handle;
        self.refused.push((handle, refused));
        if op == IoOp::Write {
            self.counters.refused_bytes += u64::from(length);
        }
        self.complete(slot, completed);
        false
    }
}
