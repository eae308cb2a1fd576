//! Timers of a scheme: one for each request that it supervises.

use std::collections::BTreeMap;

use super::time::Picos;

/// Name of a timer that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: Picos,
    number: u64,
}

/// Timers, each with a value that tells its purpose. They ring in the order of their times and, at
/// equal times, in the order in which they were set.
///
/// A scheme with timers gives [`Timers::next_time`] in [`super::schemes::Scheme::next_wake`], and
/// takes those that have rung in [`super::schemes::Scheme::wake`]. Other events at the same time,
/// such as ends of commands, come first. Schemes without timers pay nothing.
#[derive(Clone, Debug)]
pub struct Timers<T> {
    pending: BTreeMap<TimerId, T>,
    set: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { pending: BTreeMap::new(), set: 0 }
    }
}

impl<T> Timers<T> {
    /// Sets a timer.
    pub fn set(&mut self, at: Picos, what: T) -> TimerId {
        let id = TimerId { at, number: self.set };
        self.set += 1;
        self.pending.insert(id, what);
        id
    }

    /// Cancels a timer. Gives its value, unless it has rung already.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        self.pending.remove(&id)
    }

    /// Time at which the next one rings.
    #[must_use]
    pub fn next_time(&self) -> Option<Picos> {
        self.pending.first_key_value().map(|(id, _)| id.at)
    }

    /// Takes the next one that has rung by `now`.
    pub fn take_due(&mut self, now: Picos) -> Option<T> {
        let first = self.pending.first_entry()?;
        (first.key().at <= now).then(|| first.remove())
    }

    /// Number of timers that are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Returns true if none is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_ring_in_the_order_of_time_and_of_setting() {
        let mut timers = Timers::default();
        for (at, what) in [(30, 'a'), (10, 'b'), (30, 'c'), (20, 'd')] {
            timers.set(at, what);
        }
        let e = timers.set(30, 'e');
        timers.set(30, 'f');
        assert_eq!((timers.next_time(), timers.len()), (Some(10), 6));
        assert_eq!(timers.take_due(9), None);
        assert_eq!(timers.take_due(10), Some('b'));
        assert_eq!(timers.take_due(10), None);
        assert_eq!((timers.cancel(e), timers.cancel(e)), (Some('e'), None));
        assert_eq!(timers.next_time(), Some(20));
        let rung: Vec<char> = std::iter::from_fn(|| timers.take_due(30)).collect();
        assert_eq!(rung, ['d', 'a', 'c', 'f']);
        assert!(timers.is_empty() && timers.next_time().is_none());
    }

    #[test]
    fn a_timer_that_rang_is_not_taken_back() {
        let mut timers = Timers::default();
        let id = timers.set(5, ());
        assert_eq!(timers.take_due(5), Some(()));
        let again = timers.set(5, ());
        assert_ne!(id, again);
        assert_eq!((timers.cancel(id), timers.cancel(again)), (None, Some(())));
    }
}
