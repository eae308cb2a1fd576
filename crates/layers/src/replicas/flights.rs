//! Commands of the layer's own that are under way below, and the times when they count as blocked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use slab::Slab;
use units::Nanos;

use super::geometry::Place;
use crate::ParentPart;

/// A part of a page that is written at home.
#[derive(Clone, Copy, Debug)]
pub struct PartOfPage {
    pub page: u64,
    pub part: ParentPart,
}

/// A write to pages at home that lie side by side.
#[derive(Debug)]
pub struct HomeWrite {
    pub first: u64,
    pub pages: u64,
    /// Version of the first page; those of the others follow.
    pub version: u64,
    /// Parts of pages that it writes: of the first, the last.
    pub parts: Vec<PartOfPage>,
    /// True if its pages may be written to slots when it is blocked: then its time counts.
    pub may_hop: bool,
}

/// Purpose of a command.
#[derive(Debug)]
pub enum Own {
    /// Read for an ask.
    Read {
        ask: u32,
        place: Place,
    },
    HomeWrite(HomeWrite),
    SlotWrite {
        page: u64,
        slot: u32,
        version: u64,
    },
    /// Trim, with its key among the trims.
    Trim(u32),
    /// Flush for these flushes of the host, and the stamp of its sending.
    Flush {
        ids: Vec<u32>,
        stamp: u64,
    },
}

/// A command that is under way.
#[derive(Debug)]
pub struct Flight {
    pub own: Own,
    /// Partition that it concerns; none if it concerns no single one.
    pub partition: Option<u32>,
    pub sent_at: Nanos,
    /// Commands outstanding when it was sent, itself among them.
    pub depth: u32,
    /// True if its time is that of an access to pages.
    pub is_timed: bool,
    /// Time from which on it counts as blocked.
    pub deadline: Option<Nanos>,
    pub is_blocked: bool,
    serial: u64,
}

/// All commands under way.
#[derive(Debug, Default)]
pub struct Flights {
    flights: Slab<Flight>,
    /// Deadlines; those whose command has ended are dropped when they come to the front.
    deadlines: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    serial: u64,
}

impl Flights {
    /// Begins a command; gives its id.
    pub fn begin(
        &mut self,
        own: Own,
        partition: Option<u32>,
        sent_at: Nanos,
        is_timed: bool,
        deadline: Option<Nanos>,
    ) -> u32 {
        self.serial += 1;
        let serial = self.serial;
        let depth = self.len() + 1;
        let flight = Flight {
            own,
            partition,
            sent_at,
            depth,
            is_timed,
            deadline,
            is_blocked: false,
            serial,
        };
        let id = self.flights.insert(flight) as u32;
        self.deadlines.extend(deadline.map(|at| Reverse((at, serial, id))));
        id
    }

    /// Ends a command.
    pub fn end(&mut self, id: u32) -> Flight {
        let flight = self.flights.remove(id as usize);
        self.drop_ended();
        flight
    }

    pub fn get(&self, id: u32) -> Option<&Flight> {
        self.flights.get(id as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().map(|(_, flight)| flight)
    }

    /// Gives the number of commands under way.
    pub fn len(&self) -> u32 {
        self.flights.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Gives the next deadline of a command under way.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.peek().map(|Reverse((at, ..))| *at)
    }

    /// Gives a command whose deadline has passed: it is blocked from now on.
    pub fn pop_blocked(&mut self, now: Nanos) -> Option<u32> {
        let &Reverse((at, _, id)) = self.deadlines.peek()?;
        if at > now {
            return None;
        }
        self.deadlines.pop();
        self.flights[id as usize].is_blocked = true;
        self.drop_ended();
        Some(id)
    }

    fn drop_ended(&mut self) {
        while let Some(&Reverse((_, serial, id))) = self.deadlines.peek() {
            let is_live = self
                .flights
                .get(id as usize)
                .is_some_and(|flight| flight.serial == serial && !flight.is_blocked);
            if is_live {
                break;
            }
            self.deadlines.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_under_way_becomes_blocked_and_once() {
        let mut flights = Flights::default();
        let begin =
            |flights: &mut Flights, deadline| flights.begin(Own::Trim(0), None, 0, true, deadline);
        let first = begin(&mut flights, Some(10));
        let second = begin(&mut flights, Some(20));
        flights.end(first);
        assert_eq!(flights.next_deadline(), Some(20));
        let third = begin(&mut flights, Some(5));
        assert_eq!(third, first, "an id is used again");
        assert_eq!(flights.pop_blocked(4), None);
        assert_eq!(flights.pop_blocked(10), Some(third));
        assert_eq!(flights.pop_blocked(10), None);
        assert_eq!(flights.pop_blocked(30), Some(second));
        assert_eq!(flights.next_deadline(), None);
        assert!(flights.end(second).is_blocked && flights.end(third).is_blocked);
        begin(&mut flights, None);
        assert_eq!(flights.next_deadline(), None);
    }
}
