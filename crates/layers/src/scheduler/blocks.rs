//! A flat table from the number of a block to what is held of it.

/// No value.
pub const NONE: u32 = u32::MAX;
/// Neither key nor value.
const EMPTY: u64 = u64::MAX;
/// Entries at the beginning: a power of two.
const LEAST: usize = 1024;

/// Numbers of blocks and a value for each, in eight bytes: half of the number's 64 bits are left
/// out. Numbers that differ only there are told apart by whoever asks, who knows from the value
/// whose it is. Open addressing with linear probing, at most half full, so that a look-up mostly
/// costs one miss of the cache.
#[derive(Debug)]
pub struct Blocks {
    /// The number's low half above, the value below.
    entries: Vec<u64>,
    length: usize,
}

impl Blocks {
    /// Nothing.
    pub fn new() -> Self {
        Self { entries: vec![EMPTY; LEAST], length: 0 }
    }

    /// How many blocks there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where a block is first looked for. The constant is the golden ratio's, which spreads what
    /// lies side by side.
    const fn home(&self, entry: u64) -> usize {
        let low = entry >> 32;
        ((low.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize) & (self.entries.len() - 1)
    }

    const fn next(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }

    /// The place of a block's entry, or else of the empty one that it would get. `is_of` tells
    /// whether a value is this block's.
    #[inline]
    pub fn place(&self, block: u64, is_of: impl Fn(u32) -> bool) -> usize {
        let low = block << 32;
        let mut place = self.home(low);
        loop {
            let entry = self.entries[place];
            if entry == EMPTY || (entry ^ low) >> 32 == 0 && is_of(entry as u32) {
                return place;
            }
            place = self.next(place);
        }
    }

    /// The value at a place.
    #[inline]
    pub fn value(&self, place: usize) -> u32 {
        self.entries[place] as u32
    }

    /// Sets a block's value, at the place that was found for it. Places found before may be others
    /// afterwards.
    #[inline]
    pub fn set(&mut self, place: usize, block: u64, value: u32) {
        let is_new = self.entries[place] == EMPTY;
        self.entries[place] = block << 32 | u64::from(value);
        self.length += usize::from(is_new);
        if is_new && self.length * 2 > self.entries.len() {
            self.grow();
        }
    }

    /// Forgets the block at a place. Those behind it close up, so that no mark of it is left.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        let (mut hole, mut at) = (place, place);
        let mask = self.entries.len() - 1;
        loop {
            at = self.next(at);
            let entry = self.entries[at];
            if entry == EMPTY {
                break;
            }
            // It may not stand before its home.
            if at.wrapping_sub(self.home(entry)) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = EMPTY;
        self.length -= 1;
    }

    fn grow(&mut self) {
        let doubled = vec![EMPTY; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, doubled) {
            if entry == EMPTY {
                continue;
            }
            let mut place = self.home(entry);
            while self.entries[place] != EMPTY {
                place = self.next(place);
            }
            self.entries[place] = entry;
        }
    }

    /// Loads where a block is looked for, so that it is in the cache when it is. Any value: use it,
    /// or the load is left out.
    #[inline]
    pub fn touch(&self, block: u64) -> u32 {
        self.entries[self.home(block << 32)] as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map of the standard library. Values stand for the blocks here: few differ in
        /// their low half alone.
        #[test]
        fn it_holds_what_a_map_holds(
            steps in prop::collection::vec(
                (0_u64..2000, 0_u64..2, prop::bool::weighted(0.7)),
                0..6000,
            ),
        ) {
            let (mut blocks, mut plain, mut owners) = (Blocks::new(), BTreeMap::new(), Vec::new());
            for (low, high, is_put) in steps {
                let block = low | high << 32;
                let is_of = |value: u32| owners[value as usize] == block;
                let place = blocks.place(block, is_of);
                let is_held = blocks.value(place) != NONE;
                prop_assert_eq!(is_held.then(|| blocks.value(place)), plain.get(&block).copied());
                if is_put {
                    let value = owners.len() as u32;
                    blocks.set(place, block, value);
                    plain.insert(block, value);
                    owners.push(block);
                } else if is_held {
                    blocks.remove(place);
                    plain.remove(&block);
                }
                prop_assert_eq!(blocks.len(), plain.len());
            }
            for (block, value) in &plain {
                let place = blocks.place(*block, |value| owners[value as usize] == *block);
                prop_assert_eq!(blocks.value(place), *value);
            }
        }
    }
}
