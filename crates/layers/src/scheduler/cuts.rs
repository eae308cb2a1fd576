//! Ranges that were made durable past the batch: older writes of them must not come after.

use std::collections::BTreeMap;

/// Ranges of sectors, each with the number of the newest command that went past what is held. They
/// do not overlap.
#[derive(Debug, Default)]
pub struct Cuts {
    /// First sector -> the one behind the last, and the number.
    ranges: BTreeMap<u64, (u64, u64)>,
}

impl Cuts {
    /// Command `number` went past in these sectors. Commands end in any order: where a newer one
    /// did, it stays.
    pub fn add(&mut self, start: u64, end: u64, number: u64) {
        let first = self
            .ranges
            .range(..=start)
            .next_back()
            .filter(|(_, (to, _))| *to > start)
            .map_or(start, |(from, _)| *from);
        let touched: Vec<(u64, u64, u64)> =
            self.ranges.range(first..end).map(|(from, (to, by))| (*from, *to, *by)).collect();
        let mut at = start;
        for (from, to, by) in touched {
            self.ranges.remove(&from);
            self.put(at, from.max(at), number);
            self.put(from, start.clamp(from, to), by);
            self.put(from.max(start), to.min(end), by.max(number));
            self.put(end.clamp(from, to), to, by);
            at = to.min(end);
        }
        self.put(at, end, number);
    }

    fn put(&mut self, start: u64, end: u64, number: u64) {
        if start < end {
            self.ranges.insert(start, (end, number));
        }
    }

    /// The first run of sectors from `start` on that no command newer than `number` went past in:
    /// `end..end` if there is none.
    pub fn first_uncut(&self, start: u64, end: u64, number: impl FnOnce() -> u64) -> (u64, u64) {
        if self.ranges.is_empty() {
            return (start, end);
        }
        let number = number();
        let mut from = start;
        let before = self.ranges.range(..=start).next_back();
        if let Some((_, (to, by))) = before
            && *by > number
        {
            from = from.max(*to);
        }
        for (next, (to, by)) in self.ranges.range(start..end) {
            if *by <= number || *to <= from {
                continue;
            }
            if *next > from {
                return (from, *next);
            }
            from = *to;
        }
        (from.min(end), end)
    }

    /// Forgets the commands up to this number: nothing older is left to be written.
    pub fn forget_up_to(&mut self, number: u64) {
        self.ranges.retain(|_, (_, by)| *by > number);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one number a sector.
        #[test]
        fn cuts_are_the_newest_number_of_each_sector(
            cuts in prop::collection::vec((0_u64..40, 1_u64..20, 1_u64..30), 0..12),
            asked in prop::collection::vec((0_u64..50, 1_u64..20, 0_u64..30), 1..20),
        ) {
            let (mut own, mut plain) = (Cuts::default(), [0_u64; 100]);
            for (start, length, number) in cuts {
                own.add(start, start + length, number);
                plain[start as usize..(start + length) as usize]
                    .iter_mut()
                    .for_each(|newest| *newest = number.max(*newest));
            }
            for (start, length, number) in asked {
                let end = start + length;
                let is_cut = |sector: &u64| plain[*sector as usize] > number;
                let from = (start..end).find(|sector| !is_cut(sector)).unwrap_or(end);
                let to = (from..end).find(is_cut).unwrap_or(end);
                prop_assert_eq!(own.first_uncut(start, end, || number), (from, to));
            }
        }
    }
}
