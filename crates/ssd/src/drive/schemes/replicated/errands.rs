//! Errands of a die: work on the side, in the order in which it is done.

use std::collections::VecDeque;

use units::Lpn;

use super::calls::CallId;
use crate::drive::media::Content;

/// Most errands that wait for one die before copies are refused: each copy holds a page of memory.
const MOST_WAITING: usize = 64;

/// An errand of a die.
#[derive(Clone, Copy, Debug)]
pub(super) enum Errand {
    Read {
        lpn: Lpn,
        call: CallId,
    },
    Write {
        lpn: Lpn,
        content: Content,
        /// The write that it may answer.
        call: Option<CallId>,
        /// The read that provides the data.
        after: Option<CallId>,
    },
}

impl Errand {
    pub fn lpn(&self) -> Lpn {
        match *self {
            Self::Read { lpn, .. } | Self::Write { lpn, .. } => lpn,
        }
    }

    pub fn is_copy(&self) -> bool {
        matches!(self, Self::Write { .. })
    }

    /// Returns true if it is done for this call.
    pub fn is_for(&self, id: CallId) -> bool {
        match *self {
            Self::Read { call, .. } => call == id,
            Self::Write { call, .. } => call == Some(id),
        }
    }

    /// Returns true if it may answer a request.
    fn may_answer(&self) -> bool {
        !matches!(self, Self::Write { call: None, .. })
    }

    /// Its priority: reads of copies, then copies that may answer a write, then those that nobody
    /// waits for.
    fn turn(&self) -> u8 {
        match self {
            Self::Read { .. } => 0,
            Self::Write { call: Some(_), .. } => 1,
            Self::Write { call: None, .. } => 2,
        }
    }
}

/// Room for another copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// A copy that nobody waits for was dropped.
    Made,
    Full,
}

/// The errands of a die.
#[derive(Debug, Default)]
pub(super) struct Errands(VecDeque<Errand>);

impl Errands {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Errand> {
        self.0.iter()
    }

    /// Adds an errand behind those of the same or higher priority.
    pub fn insert(&mut self, errand: Errand) {
        let place = self.0.iter().take_while(|other| other.turn() <= errand.turn()).count();
        self.0.insert(place, errand);
    }

    /// Makes room for a copy; `may_answer` is true if it may answer a write.
    pub fn make_room(&mut self, may_answer: bool) -> Room {
        if self.0.len() < MOST_WAITING {
            return Room::Free;
        }
        if !may_answer || self.0.back().is_some_and(Errand::may_answer) {
            return Room::Full;
        }
        self.0.pop_back();
        Room::Made
    }

    pub fn first(&self) -> Option<Errand> {
        self.0.front().copied()
    }

    /// The first errand that is ready, its index, and true; if none is ready, the last one, and
    /// false. An errand whose data is not there yet does not hold up later ones.
    pub fn next(&self, is_ready: impl Fn(&Errand) -> bool) -> Option<(usize, Errand, bool)> {
        let ready = self.0.iter().position(is_ready);
        let place = ready.or(self.0.len().checked_sub(1))?;
        Some((place, self.0[place], ready.is_some()))
    }

    pub fn remove(&mut self, place: usize) {
        self.0.remove(place);
    }

    /// Drops the errands of a page. Gives the number of copies among them.
    pub fn forget(&mut self, lpn: Lpn) -> u64 {
        let mut copies = 0;
        self.0.retain(|errand| {
            let is_kept = errand.lpn() != lpn;
            copies += u64::from(!is_kept && errand.is_copy());
            is_kept
        });
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::media::INITIAL;

    fn copy(lpn: u32, call: Option<CallId>, after: Option<CallId>) -> Errand {
        Errand::Write { lpn: Lpn(lpn), content: INITIAL, call, after }
    }

    fn pages(errands: &Errands) -> Vec<u32> {
        errands.iter().map(|errand| errand.lpn().0).collect()
    }

    #[test]
    fn what_a_request_waits_for_comes_before_what_nobody_waits_for() {
        let mut errands = Errands::default();
        errands.insert(copy(1, None, None));
        errands.insert(copy(2, Some(CallId::of_number(2)), None));
        errands.insert(copy(3, None, None));
        errands.insert(Errand::Read { lpn: Lpn(4), call: CallId::of_number(4) });
        errands.insert(copy(5, Some(CallId::of_number(5)), None));
        errands.insert(Errand::Read { lpn: Lpn(6), call: CallId::of_number(6) });
        assert_eq!(pages(&errands), [4, 6, 2, 5, 1, 3]);
        assert_eq!((errands.forget(Lpn(5)), errands.forget(Lpn(6))), (1, 0));
        assert_eq!(pages(&errands), [4, 2, 1, 3]);
    }

    /// Copies for reads once filled the queue, and the copies of waiting writes were refused.
    #[test]
    fn a_copy_that_nobody_waits_for_gives_way_to_one_that_a_write_waits_for() {
        let mut errands = Errands::default();
        for lpn in 0..MOST_WAITING as u32 {
            assert_eq!(errands.make_room(false), Room::Free);
            errands.insert(copy(lpn, None, None));
        }
        assert_eq!(errands.make_room(false), Room::Full);
        for lpn in 0..MOST_WAITING as u32 {
            assert_eq!(errands.make_room(true), Room::Made);
            errands.insert(copy(lpn, Some(CallId::of_number(lpn)), None));
        }
        assert_eq!(errands.make_room(true), Room::Full);
        assert_eq!(errands.len(), MOST_WAITING);
    }

    /// A copy that waited for its data once held up later ones, until they were of no use.
    #[test]
    fn a_copy_whose_data_is_not_there_holds_up_none_behind_it() {
        let mut errands = Errands::default();
        let is_ready = |errand: &Errand| !matches!(errand, Errand::Write { after: Some(_), .. });
        assert!(errands.next(is_ready).is_none());
        errands.insert(copy(1, None, Some(CallId::of_number(1))));
        errands.insert(copy(2, None, Some(CallId::of_number(2))));
        let next = |errands: &Errands| {
            errands.next(is_ready).map(|(place, errand, ready)| (place, errand.lpn().0, ready))
        };
        assert_eq!(next(&errands), Some((1, 2, false)));
        errands.insert(copy(3, None, None));
        assert_eq!(next(&errands), Some((2, 3, true)));
        errands.remove(2);
        assert_eq!(pages(&errands), [1, 2]);
    }
}
