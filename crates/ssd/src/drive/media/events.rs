//! The next event of many parts, each of which has at most one pending.

use std::hint::select_unpredictable;

use crate::drive::time::Picos;

/// A tournament over the pending events, four at a time: the earliest wins, equal times go to the
/// lower number, so that the order never depends on anything but the times.
///
/// A binary heap would need the place of each part's event in it, or leave outdated ones behind;
/// here an event is changed in place. The walk always goes up to the root: it could end where
/// another part wins, but the processor cannot foresee where that is, and a branch that it gets
/// wrong costs more than the rest of the way.
#[derive(Debug)]
pub(crate) struct Events {
    /// Of all parts.
    first: Event,
    /// Those who meet: group 0 last, the earliest of group `g` in group `(g - 1) / 4`.
    groups: Vec<Group>,
    /// Index at which the groups of the parts themselves begin.
    leaves: usize,
}

/// Time and part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub at: Picos,
    pub part: u32,
}

/// The time of a part without a pending event.
pub(crate) const NEVER: Picos = Picos::MAX;

/// Four events that meet.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: [Picos; 4],
    part: [u32; 4],
}

impl Group {
    /// The earliest, without a branch; of equal times the one in the lower place.
    #[inline(always)]
    fn first(&self) -> Event {
        let [a, b, c, d] = self.at;
        let (left, right) = (usize::from(b < a), 2 + usize::from(d < c));
        let (left_at, right_at) =
            (select_unpredictable(b < a, b, a), select_unpredictable(d < c, d, c));
        let is_right = right_at < left_at;
        let place = select_unpredictable(is_right, right, left);
        Event { at: select_unpredictable(is_right, right_at, left_at), part: self.part[place % 4] }
    }
}

impl Events {
    pub fn new(parts: usize) -> Self {
        let (mut leaves, mut of_leaves) = (0, 1);
        while 4 * of_leaves < parts {
            leaves += of_leaves;
            of_leaves *= 4;
        }
        let mut groups = vec![Group { at: [NEVER; 4], part: [0; 4] }; leaves + of_leaves];
        for (part, of) in groups[leaves..].iter_mut().flat_map(|group| &mut group.part).enumerate()
        {
            *of = part as u32;
        }
        Self { first: Event { at: NEVER, part: 0 }, groups, leaves }
    }

    /// The earliest event; at [`NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> Event {
        self.first
    }

    #[inline]
    fn group_of(&self, part: u32) -> usize {
        self.leaves + part as usize / 4
    }

    #[inline]
    pub fn time_of(&self, part: u32) -> Picos {
        self.groups[self.group_of(part)].at[part as usize % 4]
    }

    /// Takes the earliest event out. [`Events::settle`] has to follow before the next question:
    /// mostly the part gets its next event meanwhile, and the walk to the root for the taken one is
    /// saved.
    #[inline]
    pub fn take_first(&mut self) -> Event {
        let first = self.first;
        let group = self.group_of(first.part);
        self.groups[group].at[first.part as usize % 4] = NEVER;
        first
    }

    /// Ends what [`Events::take_first`] began.
    #[inline]
    pub fn settle(&mut self, part: u32) {
        if self.time_of(part) == NEVER {
            self.set(part, NEVER);
        }
    }

    /// Sets the part's event, or removes it with [`NEVER`].
    #[inline]
    pub fn set(&mut self, part: u32, at: Picos) {
        let (mut group, mut place) = (self.group_of(part), part as usize % 4);
        let mut first = Event { at, part };
        loop {
            let events = &mut self.groups[group];
            (events.at[place], events.part[place]) = (first.at, first.part);
            first = events.first();
            if group == 0 {
                break;
            }
            (group, place) = ((group - 1) / 4, (group - 1) % 4);
        }
        self.first = first;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Between `take_first` and `settle` the nodes above the taken event are out of date, and
        /// other parts change meanwhile.
        #[test]
        fn taking_and_settling_is_as_removing(
            parts in 1usize..40,
            rounds in prop::collection::vec(
                prop::collection::vec((any::<prop::sample::Index>(), 0u64..50), 0..4),
                1..100,
            ),
        ) {
            let mut events = Events::new(parts);
            let mut plain = vec![NEVER; parts];
            (0..parts).for_each(|part| {
                events.set(part as u32, part as u64 % 7);
                plain[part] = part as u64 % 7;
            });
            for changes in rounds {
                if events.first().at == NEVER {
                    break;
                }
                let taken = events.take_first();
                plain[taken.part as usize] = NEVER;
                for (part, at) in changes {
                    let (part, at) = (part.index(parts), if at > 40 { NEVER } else { at });
                    events.set(part as u32, at);
                    plain[part] = at;
                }
                events.settle(taken.part);
                let least =
                    plain.iter().copied().enumerate().min_by_key(|&(part, at)| (at, part)).unwrap();
                prop_assert_eq!(events.first().at, least.1);
                if least.1 != NEVER {
                    prop_assert_eq!(events.first().part as usize, least.0);
                }
            }
        }

        #[test]
        fn the_first_is_the_least(
            parts in 1usize..40,
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u64..50), 1..200),
        ) {
            let mut events = Events::new(parts);
            let mut plain = vec![NEVER; parts];
            for (part, at) in changes {
                let part = part.index(parts);
                let at = if at > 40 { NEVER } else { at };
                events.set(part as u32, at);
                plain[part] = at;
                let least =
                    plain.iter().copied().enumerate().min_by_key(|&(part, at)| (at, part)).unwrap();
                prop_assert_eq!(events.first().at, least.1);
                if least.1 != NEVER {
                    prop_assert_eq!(events.first().part as usize, least.0);
                }
            }
        }
    }
}
