//! A hash of everything that happened.

use std::fmt;

use crate::drive::time::Picos;

/// A running hash of the events of a run, in their order: two runs that give the same did the same.
///
/// It is ours, since the value is written into results and compared with that of other versions and
/// machines, and no crate promises the same value across its versions (nor do the hashers of the
/// standard library). It is not for hash tables and resists nobody who wants it to collide; that
/// two different runs agree by accident has a chance of about 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHash(u64);

/// Odd, so that multiplication loses nothing, with bits set without a pattern: the golden ratio,
/// and the two multipliers of SplitMix64.
const BY_TIME: u64 = 0x9e37_79b9_7f4a_7c15;
const BY_WHAT: u64 = 0xbf58_476d_1ce4_e5b9;
const BY_STATE: u64 = 0x94d0_49bb_1331_11eb;

impl Default for EventHash {
    fn default() -> Self {
        Self::new()
    }
}

impl EventHash {
    /// Of no events.
    #[must_use]
    pub const fn new() -> Self {
        Self(BY_TIME)
    }

    /// An event of some kind, at a time, to something with a number.
    #[inline]
    pub const fn add(&mut self, time: Picos, kind: u8, id: u64) {
        // The event is mixed first, by itself: only one rotation, one addition and one
        // multiplication wait for the event before.
        let what = (id.rotate_left(8) ^ kind as u64).wrapping_mul(BY_WHAT);
        self.mix(time.wrapping_mul(BY_TIME) ^ what.rotate_left(32));
    }

    /// One word of any meaning. [`Self::add`] is as quick as one of these and takes all of an
    /// event.
    #[inline]
    pub const fn mix(&mut self, word: u64) {
        self.0 = self.0.rotate_left(29).wrapping_add(word).wrapping_mul(BY_STATE);
    }

    /// The hash of the events so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        // The low bits of a product depend on the low bits of its factors alone.
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(BY_WHAT);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(BY_STATE);
        mixed ^ (mixed >> 31)
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for EventHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(events: &[(Picos, u8, u64)]) -> u64 {
        let mut hash = EventHash::new();
        events.iter().for_each(|&(time, kind, id)| hash.add(time, kind, id));
        hash.value()
    }

    /// From a second implementation, in Python. If they change, all recorded hashes become
    /// worthless.
    #[test]
    fn values_never_change() {
        assert_eq!(EventHash::new().to_string(), "e220a8397b1dcdaf");
        assert_eq!(format!("{:016x}", of(&[(0, 0, 0)])), "8c0d75cbcafe68e9");
        assert_eq!(
            format!("{:016x}", of(&[(75_000_000, 1, 42), (u64::MAX, 255, u64::MAX)])),
            "5c63531fea99b695"
        );
        let many: Vec<_> = (0..1000).map(|i| (i * 833, (i % 7) as u8, i * i)).collect();
        assert_eq!(format!("{:016x}", of(&many)), "b9b7bb7135f1d48b");
    }

    #[test]
    fn many_streams_of_small_numbers_differ() {
        let mut found = BTreeSet::new();
        let mut streams = 0;
        for time in 0..30 {
            for kind in 0..4 {
                for id in 0..30 {
                    for next in 0..20 {
                        found.insert(of(&[(time, kind, id), (time + next, kind, id + 1)]));
                        streams += 1;
                    }
                }
            }
        }
        assert_eq!(found.len(), streams);
    }

    proptest! {
        #[test]
        fn each_bit_of_each_event_matters(
            events in prop::collection::vec((any::<u64>(), any::<u8>(), any::<u64>()), 1..20),
            which in any::<prop::sample::Index>(),
            bit in 0..136_u32,
        ) {
            let mut changed = events.clone();
            let event = which.get_mut(&mut changed);
            match bit {
                0..64 => event.0 ^= 1 << bit,
                64..72 => event.1 ^= 1 << (bit - 64),
                _ => event.2 ^= 1 << (bit - 72),
            }
            prop_assert_ne!(of(&events), of(&changed));
        }

        #[test]
        fn order_matters(
            events in prop::collection::vec((any::<u64>(), any::<u8>(), any::<u64>()), 2..20),
        ) {
            let mut turned = events.clone();
            turned.reverse();
            prop_assert_eq!(of(&events) == of(&turned), events == turned);
        }
    }
}
