//! How often accesses to a place are blocked.

use rustc_hash::FxHashMap;

use crate::memory::hash_map_bytes;

/// Places whose counters come together.
const CHUNK: u64 = 512;

type Counters = Box<[(u16, u16)]>;

/// Accesses to places, and those of them that were blocked.
///
/// REPLICATION 4.1: the blocking probability is "#Blocked / #Total", over the accesses so far. Each
/// place takes 4 bytes, of chunks that were accessed; at 65,535 accesses both are halved, so that
/// what is long past counts for less.
#[derive(Debug, Default)]
pub struct Blocking {
    chunks: FxHashMap<u64, Counters>,
}

impl Blocking {
    /// Most bytes that it takes, with so many places.
    pub const fn most_bytes(places: u64) -> u64 {
        let chunks = places.div_ceil(CHUNK);
        chunks * CHUNK * size_of::<(u16, u16)>() as u64
            + hash_map_bytes(chunks, size_of::<(u64, Counters)>())
    }

    fn at(&mut self, place: u64) -> &mut (u16, u16) {
        let chunk = self
            .chunks
            .entry(place / CHUNK)
            .or_insert_with(|| vec![(0, 0); CHUNK as usize].into_boxed_slice());
        &mut chunk[(place % CHUNK) as usize]
    }

    /// It is accessed.
    pub fn accessed(&mut self, place: u64) {
        let (blocked, all) = self.at(place);
        if *all == u16::MAX {
            *blocked /= 2;
            *all /= 2;
        }
        *all += 1;
    }

    /// An access that was counted is blocked.
    pub fn blocked(&mut self, place: u64) {
        let (blocked, all) = self.at(place);
        *blocked = (*blocked + 1).min(*all);
    }

    fn counts(&self, place: u64) -> (u16, u16) {
        self.chunks.get(&(place / CHUNK)).map_or((0, 0), |chunk| chunk[(place % CHUNK) as usize])
    }

    /// Blocked accesses of all; 0 without any.
    pub fn probability(&self, place: u64) -> f64 {
        let (blocked, all) = self.counts(place);
        if blocked == 0 { 0.0 } else { f64::from(blocked) / f64::from(all) }
    }

    /// The same before the last access, which was blocked.
    pub fn before(&self, place: u64) -> f64 {
        let (blocked, all) = self.counts(place);
        if blocked <= 1 { 0.0 } else { f64::from(blocked - 1) / f64::from(all - 1) }
    }

    /// Another page lies there.
    pub fn forget(&mut self, place: u64) {
        if let Some(chunk) = self.chunks.get_mut(&(place / CHUNK)) {
            chunk[(place % CHUNK) as usize] = (0, 0);
        }
    }

    /// Memory, in bytes.
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
        assert_eq!(blocking.before(1 << 40), 9.0 / 39.0);
        assert!(blocking.bytes() < 3000, "one chunk");
        (0..200_000).for_each(|_| blocking.accessed(1 << 40));
        assert!(blocking.probability(1 << 40) < 1e-3);
        blocking.forget(1 << 40);
        assert_eq!(blocking.probability(1 << 40), 0.0);
    }
}
