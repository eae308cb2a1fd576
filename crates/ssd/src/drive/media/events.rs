//! The next event of many parts, each of which has at most one pending.

use crate::drive::time::Picos;

/// A tournament over the pending events: the earliest is at the root, equal times go to the lower
/// number, so that the order never depends on anything but the times.
///
/// A binary heap would need the place of each part's event in it, or leave outdated ones behind;
/// here an event is changed in place, and the walk to the root ends where another part wins.
#[derive(Debug)]
pub(crate) struct Events {
    /// Node 1 is the root, the leaves begin at `leaves`.
    nodes: Vec<Event>,
    leaves: usize,
}

/// When, and of which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub at: Picos,
    pub part: u32,
}

/// The time of a part without a pending event.
pub(crate) const NEVER: Picos = Picos::MAX;

impl Events {
    pub fn new(parts: usize) -> Self {
        let leaves = parts.next_power_of_two().max(2);
        let mut nodes = vec![Event { at: NEVER, part: 0 }; 2 * leaves];
        for (part, node) in nodes[leaves..].iter_mut().enumerate() {
            node.part = part as u32;
        }
        Self { nodes, leaves }
    }

    /// The earliest event; at [`NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> Event {
        self.nodes[1]
    }

    #[inline]
    pub fn time_of(&self, part: u32) -> Picos {
        self.nodes[self.leaves + part as usize].at
    }

    /// Takes the earliest event out. [`Events::settle`] has to follow before the next question:
    /// mostly the part gets its next event meanwhile, and the walk to the root for the taken one is
    /// saved.
    #[inline]
    pub fn take_first(&mut self) -> Event {
        let first = self.nodes[1];
        self.nodes[self.leaves + first.part as usize].at = NEVER;
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
        let mut node = self.leaves + part as usize;
        self.nodes[node].at = at;
        while node > 1 {
            node /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let winner = if right.at < left.at { right } else { left };
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
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
