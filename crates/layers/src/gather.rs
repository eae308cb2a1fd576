//! Commands from above that need several commands below.

use slab::Slab;

use crate::{Actions, Data, Failure};

/// Commands from above that wait for several replies from below, whose data are laid side by side.
#[derive(Debug, Default)]
pub struct Gather {
    parents: Slab<Parent>,
}

#[derive(Debug)]
struct Parent {
    id: u32,
    /// Number of replies that have not come.
    waiting: u32,
    /// Data of the replies, by place; empty until some come, so that a write takes no memory.
    parts: Vec<Data>,
    failure: Option<Failure>,
}

/// One place in the data of a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentPart {
    parent: u32,
    place: u32,
}

impl Gather {
    /// Begins a command from above that waits for this many replies.
    ///
    /// # Panics
    /// If it waits for none.
    pub fn begin(&mut self, id: u32, parts: u32) -> u32 {
        assert!(parts > 0, "a command that waits for nothing is replied to at once");
        self.parents.insert(Parent { id, waiting: parts, parts: Vec::new(), failure: None }) as u32
    }

    /// Gives a place of a parent, counted from 0.
    #[must_use]
    pub const fn part(parent: u32, place: u32) -> ParentPart {
        ParentPart { parent, place }
    }

    /// Notes that a reply to a part came. The last one ends the command: with all data in the order
    /// of their places, or with the first failure.
    ///
    /// # Panics
    /// If the place had its reply before.
    pub fn ended(
        &mut self,
        part: ParentPart,
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        let parent = &mut self.parents[part.parent as usize];
        match outcome {
            Ok(Data::Absent) => {}
            Ok(data) => {
                let places = parent.parts.len().max(part.place as usize + 1);
                parent.parts.resize_with(places, Data::default);
                parent.parts[part.place as usize] = data;
            }
            Err(failure) => parent.failure = parent.failure.take().or(Some(failure)),
        }
        parent.waiting -= 1;
        if parent.waiting == 0 {
            let Parent { id, parts, failure, .. } = self.parents.remove(part.parent as usize);
            let mut data = Data::Absent;
            if failure.is_none() {
                parts.into_iter().for_each(|part| data.append(part));
            }
            actions.reply(id, failure.map_or(Ok(data), Err));
        }
    }

    /// Gives the number of commands that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Returns true if no command waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_any_order_and_are_given_in_that_of_their_places() {
        let (mut gather, mut actions) = (Gather::default(), Actions::default());
        let parent = gather.begin(7, 2);
        gather.ended(Gather::part(parent, 1), Ok(Data::copy_of(b"b")), &mut actions);
        assert!(actions.up.is_empty());
        gather.ended(Gather::part(parent, 0), Ok(Data::copy_of(b"a")), &mut actions);
        let reply = actions.up.pop().unwrap();
        assert_eq!((reply.id, reply.outcome.unwrap().joined().unwrap()), (7, "ab".into()));
        assert!(gather.is_empty());
    }

    #[test]
    fn one_part_that_failed_fails_the_whole() {
        let (mut gather, mut actions) = (Gather::default(), Actions::default());
        let failure = Failure::Poisoned { layer: "x", cause: "why".into() };
        let parent = gather.begin(7, 2);
        gather.ended(Gather::part(parent, 1), Err(failure.clone()), &mut actions);
        gather.ended(Gather::part(parent, 0), Ok(Data::Absent), &mut actions);
        assert_eq!(actions.up.pop().unwrap().outcome.unwrap_err(), failure);
    }
}
