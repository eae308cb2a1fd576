//! Blocking probability of accesses to a place.

use rustc_hash::FxHashMap;

use crate::memory::hash_map_bytes;

/// Number of places whose counters are allocated together.
const CHUNK: u64 = 512;

/// Accesses of a place from which on it is told whether it is blocked often.
const KNOWN: u16 = 20;
/// More than one blocked access in so many is often: 5 % (REPLICATION 4.2.1).
const OFTEN: u32 = 20;

type Counters = Box<[(u16, u16)]>;

/// Accesses to places, and those of them that were blocked.
///
/// REPLICATION 4.1: the blocking probability is "#Blocked / #Total", over the accesses so far. Each
/// place takes 4 bytes, in chunks that were accessed; at 65,535 accesses both counters are halved,
/// so that old accesses count less.
#[derive(Debug, Default)]
pub struct Blocking {
    chunks: FxHashMap<u64, Counters>,
    /// Places with accesses enough, and those of them that are blocked often.
    known: u64,
    often: u64,
}

/// Returns whether a place has accesses enough, and whether it is blocked often.
fn judged((blocked, all): (u16, u16)) -> (u64, u64) {
    let is_known = all >= KNOWN;
    (u64::from(is_known), u64::from(is_known && u32::from(blocked) * OFTEN > u32::from(all)))
}

impl Blocking {
    /// Gives the most bytes that it takes, with so many places.
    pub const fn most_bytes(places: u64) -> u64 {
        let chunks = places.div_ceil(CHUNK);
        chunks * CHUNK * size_of::<(u16, u16)>() as u64
            + hash_map_bytes(chunks, size_of::<(u64, Counters)>())
    }

    fn change(&mut self, place: u64, how: impl FnOnce(&mut (u16, u16))) {
        let chunk = self
            .chunks
            .entry(place / CHUNK)
            .or_insert_with(|| vec![(0, 0); CHUNK as usize].into_boxed_slice());
        let counts = &mut chunk[(place % CHUNK) as usize];
        let before = judged(*counts);
        how(counts);
        let after = judged(*counts);
        self.known = self.known + after.0 - before.0;
        self.often = self.often + after.1 - before.1;
    }

    /// Counts an access.
    pub fn accessed(&mut self, place: u64) {
        self.change(place, |(blocked, all)| {
            if *all == u16::MAX {
                *blocked /= 2;
                *all /= 2;
            }
            *all += 1;
        });
    }

    /// Counts an access as blocked that was counted before.
    pub fn blocked(&mut self, place: u64) {
        self.change(place, |(blocked, all)| *blocked = (*blocked + 1).min(*all));
    }

    /// Gives the number of places with 20 accesses or more, and of those of them of which more than
    /// 5 % of the accesses were blocked.
    pub const fn often(&self) -> (u64, u64) {
        (self.known, self.often)
    }

    fn counts(&self, place: u64) -> (u16, u16) {
        self.chunks.get(&(place / CHUNK)).map_or((0, 0), |chunk| chunk[(place % CHUNK) as usize])
    }

    /// Gives the share of blocked accesses; 0 without any.
    pub fn probability(&self, place: u64) -> f64 {
        let (blocked, all) = self.counts(place);
        if blocked == 0 { 0.0 } else { f64::from(blocked) / f64::from(all) }
    }

    /// Returns true if the probability before the last access, which was blocked, is above a
    /// threshold, or the threshold is 0. Of fewer accesses than one is the threshold's share of it
    /// is not known, and then it is not: REPLICATION 4.2.1 does not say.
    pub fn was_above(&self, place: u64, threshold: f64) -> bool {
        let (blocked, all) = self.counts(place);
        let (blocked, all) = (blocked.saturating_sub(1), all.saturating_sub(1));
        threshold == 0.0
            || f64::from(all) * threshold >= 1.0 && f64::from(blocked) > threshold * f64::from(all)
    }

    /// Forgets the counters of a place, as another page lies there.
    pub fn forget(&mut self, place: u64) {
        if self.chunks.contains_key(&(place / CHUNK)) {
            self.change(place, |counts| *counts = (0, 0));
        }
    }

    /// Gives its memory, in bytes.
    pub fn bytes(&self) -> u64 {
        const ENTRY: u64 = CHUNK * size_of::<(u16, u16)>() as u64 + 24;
        self.chunks.len() as u64 * ENTRY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_blocked_of_all() {
        let mut blocking = Blocking::default();
        for number in 0..40 {
            blocking.accessed(1 << 40);
            if number % 4 == 3 {
                blocking.blocked(1 << 40);
            }
        }
        assert_eq!((blocking.probability(1), blocking.probability(1 << 40)), (0.0, 0.25));
        let above = |threshold| blocking.was_above(1 << 40, threshold);
        assert_eq!([0.0, 0.05, 0.23, 0.24].map(above), [true, true, true, false]);
        assert!(blocking.bytes() < 3000, "one chunk");
        (0..200_000).for_each(|_| blocking.accessed(1 << 40));
        assert!(blocking.probability(1 << 40) < 1e-3);
        blocking.forget(1 << 40);
        assert_eq!(blocking.probability(1 << 40), 0.0);
        assert_eq!(blocking.often(), (0, 0));
    }

    #[test]
    fn places_that_are_blocked_often_are_counted_as_they_come_and_go() {
        let mut blocking = Blocking::default();
        (0..19).for_each(|_| blocking.accessed(3));
        blocking.blocked(3);
        assert_eq!(blocking.often(), (0, 0));
        blocking.accessed(3);
        assert_eq!(blocking.often(), (1, 0), "one of twenty is 5 %, and not above it");
        blocking.blocked(3);
        assert_eq!(blocking.often(), (1, 1));
        (0..21).for_each(|_| blocking.accessed(3));
        assert_eq!(blocking.often(), (1, 0));
        blocking.forget(3);
        assert_eq!(blocking.often(), (0, 0));
    }
}
