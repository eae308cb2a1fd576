//! The cached mapping table of DFTL: the entries of the map that are in DRAM, and those of them
//! that are newer than on flash.

use units::Divider;
use units::lists::{Lists, NONE};

/// Lists by recency.
const PROBATION: usize = 0;
const PROTECTED: usize = 1;

/// A cache of units of the map; the least recently used is evicted first.
///
/// A *unit* is some consecutive entries, loaded, marked as changed and evicted together. The cache
/// is a segmented LRU: a unit comes into the probationary segment, moves to the protected one when
/// it is used again, and falls back when that is full; the least recently used unit on probation is
/// evicted. Without a protected segment that is plain LRU.
#[derive(Debug)]
pub(super) struct MappingCache {
    by_unit: Divider,
    units_per_page: Divider,
    /// For each unit: its slot in the cache.
    slot_of: Vec<u32>,
    slots: Vec<CachedEntry>,
    most: u32,
    recency: Lists,
    protected: u32,
    most_protected: u32,
    /// Changed units, by translation page.
    changed: Lists,
}

#[derive(Clone, Copy, Debug)]
struct CachedEntry {
    unit: u32,
    is_protected: bool,
    /// True if its translation page is being read.
    is_loading: bool,
}

/// State of a unit in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// Its entries are known.
    Known,
    /// It has a slot, and its entries are being read.
    Loading,
    /// It is not cached.
    No,
}

impl MappingCache {
    /// Makes a cache of `cached` of the map's entries, in units of `unit`, over translation pages
    /// of `entries`, which `unit` divides. It holds at least one unit.
    pub fn new(
        logical_pages: u32,
        entries: u32,
        unit: u32,
        cached: u64,
        protected_share: f64,
    ) -> Self {
        let units = logical_pages.div_ceil(unit);
        let most = (cached / u64::from(unit)).clamp(1, u64::from(units)) as u32;
        let most_protected = (f64::from(most) * protected_share) as u32;
        Self {
            by_unit: Divider::new(unit),
            units_per_page: Divider::new(entries / unit),
            slot_of: vec![NONE; units as usize],
            slots: Vec::with_capacity(most as usize),
            most,
            recency: Lists::new(most, 2),
            protected: 0,
            // There must be a unit on probation, to be evicted.
            most_protected: most_protected.min(most - 1),
            changed: Lists::new(most, logical_pages.div_ceil(entries) as usize),
        }
    }

    /// The unit of a logical page, and its translation page.
    #[inline]
    pub fn place_of(&self, lpn: u32) -> (u32, u32) {
        let unit = self.by_unit.quotient(lpn);
        (unit, self.units_per_page.quotient(unit))
    }

    /// Uses a unit: it becomes the most recent one, if it is cached.
    #[inline]
    pub fn touch(&mut self, unit: u32) -> Cached {
        let slot = self.slot_of[unit as usize];
        if slot == NONE {
            return Cached::No;
        }
        let entry = &mut self.slots[slot as usize];
        let is_loading = entry.is_loading;
        if entry.is_protected {
            self.recency.move_to_back(PROTECTED, slot);
        } else if self.most_protected == 0 {
            self.recency.move_to_back(PROBATION, slot);
        } else {
            entry.is_protected = true;
            self.recency.remove(PROBATION, slot);
            self.recency.push_back(PROTECTED, slot);
            self.protected += 1;
            self.bound_protected();
        }
        if is_loading { Cached::Loading } else { Cached::Known }
    }

    fn bound_protected(&mut self) {
        if self.protected > self.most_protected {
            let slot = self.recency.first(PROTECTED);
            self.recency.remove(PROTECTED, slot);
            self.recency.push_back(PROBATION, slot);
            self.slots[slot as usize].is_protected = false;
            self.protected -= 1;
        }
    }

    /// Adds a unit that is not cached. If it evicts a changed unit, gives the translation page of
    /// that.
    #[inline]
    pub fn insert(&mut self, unit: u32) -> Option<u32> {
        assert!(self.slot_of[unit as usize] == NONE, "unit {unit} is cached already");
        let entry = CachedEntry { unit, is_protected: false, is_loading: false };
        let (slot, evicted) = if self.slots.len() < self.most as usize {
            self.slots.push(entry);
            (self.slots.len() as u32 - 1, None)
        } else {
            let slot = self.recency.first(PROBATION);
            assert!(slot != NONE, "a full cache has units on probation");
            self.recency.remove(PROBATION, slot);
            let old = std::mem::replace(&mut self.slots[slot as usize], entry).unit;
            self.slot_of[old as usize] = NONE;
            let page = self.units_per_page.quotient(old);
            let was_changed = self.changed.contains(slot);
            if was_changed {
                self.changed.remove(page as usize, slot);
            }
            (slot, was_changed.then_some(page))
        };
        self.slot_of[unit as usize] = slot;
        self.recency.push_back(PROBATION, slot);
        evicted
    }

    /// Marks a unit's entries as being read, or as known. Does nothing if it is not cached.
    #[inline]
    pub fn set_loading(&mut self, unit: u32, is_loading: bool) {
        let slot = self.slot_of[unit as usize];
        if slot != NONE {
            self.slots[slot as usize].is_loading = is_loading;
        }
    }

    /// Marks an entry of a unit as changed. Returns true if the unit is cached; otherwise does
    /// nothing.
    #[inline]
    pub fn change(&mut self, unit: u32) -> bool {
        let slot = self.slot_of[unit as usize];
        if slot == NONE {
            return false;
        }
        if !self.changed.contains(slot) {
            self.changed.push_back(self.units_per_page.quotient(unit) as usize, slot);
        }
        true
    }

    /// Returns true if cached entries of a translation page are newer than on flash.
    #[inline]
    pub fn has_changes(&self, page: u32) -> bool {
        self.changed.first(page as usize) != NONE
    }

    /// Records that a translation page is written with all its current entries: none of them is
    /// changed any more.
    pub fn written(&mut self, page: u32) {
        loop {
            let slot = self.changed.first(page as usize);
            if slot == NONE {
                return;
            }
            self.changed.remove(page as usize, slot);
        }
    }

    /// Number of translation pages of the map.
    pub fn pages(&self) -> u32 {
        if self.slot_of.is_empty() {
            0
        } else {
            self.units_per_page.quotient(self.slot_of.len() as u32 - 1) + 1
        }
    }

    /// Memory of the tables in bytes.
    pub fn table_bytes(&self) -> usize {
        4 * self.slot_of.len()
            + size_of::<CachedEntry>() * self.slots.capacity()
            + self.recency.bytes()
            + self.changed.bytes()
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// The contradiction: a bug.
    pub fn audit(&self) -> Result<(), String> {
        for (slot, entry) in (0u32..).zip(&self.slots) {
            if self.slot_of[entry.unit as usize] != slot {
                return Err(format!(
                    "slot {slot} of the mapping cache holds unit {}, which is elsewhere",
                    entry.unit
                ));
            }
        }
        let cached = self.slot_of.iter().filter(|slot| **slot != NONE).count();
        let protected = self.slots.iter().filter(|slot| slot.is_protected).count() as u32;
        if cached != self.slots.len()
            || protected != self.protected
            || protected > self.most_protected
        {
            return Err(format!(
                "the mapping cache has {cached} units in {} slots, {protected} of them protected",
                self.slots.len()
            ));
        }
        Ok(())
    }

    /// Returns true if a unit has changes that are not on flash.
    #[cfg(test)]
    pub fn is_changed(&self, unit: u32) -> bool {
        let slot = self.slot_of[unit as usize];
        slot != NONE && self.changed.contains(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Segmented LRU over plain lists, the most recent last.
    struct Plain {
        probation: Vec<u32>,
        protected: Vec<u32>,
        changed: BTreeSet<u32>,
        most: usize,
        most_protected: usize,
    }

    impl Plain {
        /// Returns true if the unit was cached, and the unit that was evicted though it had
        /// changed.
        fn touch(&mut self, unit: u32) -> (bool, Option<u32>) {
            if let Some(place) = self.protected.iter().position(|&other| other == unit) {
                self.protected.remove(place);
                self.protected.push(unit);
                return (true, None);
            }
            if let Some(place) = self.probation.iter().position(|&other| other == unit) {
                self.probation.remove(place);
                if self.most_protected == 0 {
                    self.probation.push(unit);
                } else {
                    self.protected.push(unit);
                    if self.protected.len() > self.most_protected {
                        self.probation.push(self.protected.remove(0));
                    }
                }
                return (true, None);
            }
            let is_full = self.probation.len() + self.protected.len() == self.most;
            let evicted = is_full.then(|| self.probation.remove(0));
            self.probation.push(unit);
            (false, evicted.filter(|old| self.changed.remove(old)))
        }
    }

    proptest! {
        #[test]
        fn behaves_as_plain_lists(
            steps in proptest::collection::vec((0u32..60, 0u32..4), 1..400),
            unit in prop_oneof![Just(1u32), Just(2), Just(4)],
            cached in 1u64..50,
            share in prop_oneof![Just(0.0), Just(0.5), Just(0.95)],
        ) {
            let mut cache = MappingCache::new(60, 8, unit, cached, share);
            let most = (cached as usize / unit as usize).clamp(1, 60usize.div_ceil(unit as usize));
            let most_protected = ((most as f64 * share) as usize).min(most - 1);
            let mut plain = Plain {
                probation: vec![],
                protected: vec![],
                changed: BTreeSet::new(),
                most,
                most_protected,
            };
            for (lpn, what) in steps {
                let (number, page) = cache.place_of(lpn);
                prop_assert_eq!((number, page), (lpn / unit, lpn / 8));
                if what == 3 {
                    cache.written(page);
                    plain.changed.retain(|other| other * unit / 8 != page);
                    continue;
                }
                let (hit, evicted) = plain.touch(number);
                prop_assert_eq!(cache.touch(number), if hit { Cached::Known } else { Cached::No });
                if !hit {
                    prop_assert_eq!(cache.insert(number), evicted.map(|old| old * unit / 8));
                }
                if what == 2 {
                    prop_assert!(cache.change(number));
                    plain.changed.insert(number);
                }
                prop_assert_eq!(cache.audit(), Ok(()));
                for page in 0..cache.pages() {
                    prop_assert_eq!(
                        cache.has_changes(page),
                        plain.changed.iter().any(|other| other * unit / 8 == page)
                    );
                }
            }
        }
    }
}
