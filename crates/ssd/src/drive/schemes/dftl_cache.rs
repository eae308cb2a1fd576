//! The cached mapping table of DFTL: which entries of the map are in DRAM, and which of them the
//! flash does not know yet.

use units::Divider;
use units::lists::{Lists, NONE};

/// Lists by recency.
const PROBATION: usize = 0;
const PROTECTED: usize = 1;

/// A cache of units of the map, the least recently used going first.
///
/// A *unit* is some entries in a row, loaded, marked as changed and evicted together. The cache is
/// a segmented LRU: a unit comes into the probationary segment, moves to the protected one when it
/// is used again, and falls back when that is full; what was used least recently on probation is
/// evicted. Without a protected segment that is plain LRU.
#[derive(Debug)]
pub(super) struct MappingCache {
    by_unit: Divider,
    units_per_page: Divider,
    /// By unit: where it is cached.
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
    /// Its translation page is being read.
    is_loading: bool,
}

/// What is in the cache of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// Its entries.
    Known,
    /// Room for its entries, which are being read.
    Loading,
    /// Nothing.
    No,
}

impl MappingCache {
    /// A cache of `cached` of the map's entries, in units of `unit`, over translation pages of
    /// `entries`, which `unit` divides. At least one unit is held.
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
            // Something has to be on probation, to be evicted.
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

    /// A unit is used: it becomes the most recent, if it is cached.
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

    /// Takes a unit in that is not cached. If another had to go whose entries the flash does not
    /// know, its translation page.
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

    /// Whether a unit's entries are known or being read. Does nothing if it is not cached.
    #[inline]
    pub fn set_loading(&mut self, unit: u32, is_loading: bool) {
        let slot = self.slot_of[unit as usize];
        if slot != NONE {
            self.slots[slot as usize].is_loading = is_loading;
        }
    }

    /// An entry of a unit has changed. Returns whether the unit is cached; otherwise nothing is
    /// done.
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

    /// Whether cached entries of a translation page are not on flash.
    #[inline]
    pub fn has_changes(&self, page: u32) -> bool {
        self.changed.first(page as usize) != NONE
    }

    /// A translation page is written with all that is known of it: nothing of it is changed any
    /// more.
    pub fn written(&mut self, page: u32) {
        loop {
            let slot = self.changed.first(page as usize);
            if slot == NONE {
                return;
            }
            self.changed.remove(page as usize, slot);
        }
    }

    /// Translation pages of the map.
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
    /// What contradicts what: a bug.
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

    /// Whether a unit has changes that the flash does not know.
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
        /// Whether the unit was cached, and what was evicted though it had changed.
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
