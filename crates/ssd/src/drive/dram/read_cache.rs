//! The read cache.

use units::Lpn;

use units::lists::{Lists, NONE};

/// Result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// In the cache.
    Hit,
    /// On its way from flash: a read can wait for it rather than read it again.
    Expected,
    /// Neither.
    Miss,
}

/// Counters of the read cache, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheCounters {
    /// Look-ups of pages in the cache.
    pub hits: u64,
    /// Look-ups of pages on their way from flash.
    pub expected_hits: u64,
    /// Look-ups of other pages.
    pub misses: u64,
    /// Pages fetched ahead.
    pub fetched: u64,
    /// Pages fetched ahead that were looked up at least once before they were evicted.
    pub fetched_and_used: u64,
    /// Pages evicted to make room.
    pub evicted: u64,
}

/// A slot of the cache.
#[derive(Clone, Copy, Debug, Default)]
struct CachedPage {
    lpn: u32,
    /// True if the newest version is in the cache.
    is_present: bool,
    /// True if the page is on its way from flash, so that its slot cannot be reused.
    is_fetched: bool,
    /// True if the version on its way is no longer the newest.
    is_stale: bool,
    /// True if it was fetched ahead, and nobody has looked it up yet.
    is_unused: bool,
}

/// Pages that were read, or fetched ahead: the least recently used is evicted first.
///
/// A page on its way has its slot from the beginning. One that was overwritten meanwhile is dropped
/// when it arrives.
#[derive(Clone, Debug)]
pub struct ReadCache {
    capacity: u32,
    slot_of: Vec<u32>,
    slots: Vec<CachedPage>,
    free: Vec<u32>,
    /// Pages that are present and not on their way, the least recently used first.
    recency: Lists,
    counters: ReadCacheCounters,
}

impl ReadCache {
    /// Makes a cache of `bytes` for a drive of `logical_pages` pages of `page_bytes`. With less
    /// than a page it has no capacity: every look-up misses, and nothing is kept.
    ///
    /// # Panics
    /// If a page has no bytes: a bug of the caller.
    #[must_use]
    pub fn new(bytes: u64, page_bytes: u32, logical_pages: u32) -> Self {
        assert!(page_bytes > 0, "a page has bytes");
        let capacity = (bytes / u64::from(page_bytes)).min(u64::from(logical_pages)) as u32;
        Self {
            capacity,
            slot_of: if capacity > 0 { vec![NONE; logical_pages as usize] } else { Vec::new() },
            slots: vec![CachedPage::default(); capacity as usize],
            free: (0..capacity).rev().collect(),
            recency: Lists::new(capacity, 1),
            counters: ReadCacheCounters::default(),
        }
    }

    /// Number of pages that it can hold.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Counters since the cache was made.
    #[must_use]
    pub const fn counters(&self) -> ReadCacheCounters {
        self.counters
    }

    /// Memory of the tables in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        (self.slot_of.len() + self.free.capacity()) * size_of::<u32>()
            + self.slots.len() * size_of::<CachedPage>()
            + self.recency.bytes()
    }

    /// Returns true if a page is present. Changes neither its recency nor a counter.
    #[inline]
    #[must_use]
    pub fn contains(&self, lpn: Lpn) -> bool {
        self.find(lpn).is_some_and(|slot| self.slots[slot as usize].is_present)
    }

    /// Returns true if the newest version of a page is on its way, and not present already.
    #[inline]
    #[must_use]
    pub fn is_expected(&self, lpn: Lpn) -> bool {
        self.find(lpn).is_some_and(|slot| self.slots[slot as usize].is_expected())
    }

    /// Looks a page up for the host: if it is present, it becomes the most recently used.
    #[inline]
    pub fn look_up(&mut self, lpn: Lpn) -> Lookup {
        let Some(slot) = self.find(lpn) else {
            self.counters.misses += 1;
            return Lookup::Miss;
        };
        let page = &mut self.slots[slot as usize];
        let is_expected = page.is_expected();
        if !page.is_present && !is_expected {
            self.counters.misses += 1;
            return Lookup::Miss;
        }
        self.counters.fetched_and_used += u64::from(page.is_unused);
        page.is_unused = false;
        if is_expected {
            self.counters.expected_hits += 1;
            return Lookup::Expected;
        }
        if !page.is_fetched {
            self.recency.move_to_back(0, slot);
        }
        self.counters.hits += 1;
        Lookup::Hit
    }

    /// As [`ReadCache::look_up`]. Returns true if the page is present.
    #[inline]
    pub fn touch(&mut self, lpn: Lpn) -> bool {
        self.look_up(lpn) == Lookup::Hit
    }

    /// Keeps a page that was read for the host, as the most recently used one. If all slots are
    /// taken by pages on their way, it is not kept.
    pub fn insert(&mut self, lpn: Lpn) {
        if let Some(slot) = self.find(lpn) {
            self.slots[slot as usize].is_present = true;
            if !self.slots[slot as usize].is_fetched {
                self.recency.move_to_back(0, slot);
            }
        } else if let Some(slot) = self.take_slot(lpn) {
            self.slots[slot as usize] =
                CachedPage { lpn: lpn.0, is_present: true, ..CachedPage::default() };
            self.recency.push_back(0, slot);
        }
    }

    /// Drops a page, because it was written or trimmed. If it is on its way, it is dropped on
    /// arrival.
    #[inline]
    pub fn remove(&mut self, lpn: Lpn) {
        let Some(slot) = self.find(lpn) else { return };
        let page = &mut self.slots[slot as usize];
        page.is_present = false;
        page.is_unused = false;
        if page.is_fetched {
            page.is_stale = true;
        } else {
            self.recency.remove(0, slot);
            self.release(slot);
        }
    }

    /// Makes room for a page to be fetched ahead. If it returns false, the page must not be
    /// fetched: it is present or on its way already (perhaps in an old version), or all slots are
    /// taken by pages on their way. If it returns true, [`ReadCache::arrived`] must follow.
    pub fn expect(&mut self, lpn: Lpn) -> bool {
        if self.capacity == 0 || self.find(lpn).is_some() {
            return false;
        }
        let Some(slot) = self.take_slot(lpn) else { return false };
        self.slots[slot as usize] =
            CachedPage { lpn: lpn.0, is_fetched: true, is_unused: true, ..CachedPage::default() };
        self.counters.fetched += 1;
        true
    }

    /// Records the arrival of a page for which [`ReadCache::expect`] returned true: it is now the
    /// most recently used. Returns true if it is the newest version and was kept.
    ///
    /// # Panics
    /// If the page was not on its way.
    pub fn arrived(&mut self, lpn: Lpn) -> bool {
        let slot = self.find(lpn).filter(|&slot| self.slots[slot as usize].is_fetched);
        let slot = slot.unwrap_or_else(|| panic!("page {} has come, but was not expected", lpn.0));
        let page = &mut self.slots[slot as usize];
        page.is_present |= !page.is_stale;
        page.is_fetched = false;
        page.is_stale = false;
        if page.is_present {
            self.recency.push_back(0, slot);
            true
        } else {
            self.release(slot);
            false
        }
    }

    #[inline]
    fn find(&self, lpn: Lpn) -> Option<u32> {
        if self.capacity == 0 {
            return None;
        }
        let slot = self.slot_of[lpn.index()];
        (slot != NONE).then_some(slot)
    }

    fn take_slot(&mut self, lpn: Lpn) -> Option<u32> {
        if self.capacity == 0 {
            return None;
        }
        if self.free.is_empty() {
            let oldest = self.recency.first(0);
            if oldest == NONE {
                return None;
            }
            self.recency.remove(0, oldest);
            self.release(oldest);
            self.counters.evicted += 1;
        }
        let slot = self.free.pop()?;
        self.slot_of[lpn.index()] = slot;
        Some(slot)
    }

    fn release(&mut self, slot: u32) {
        self.slot_of[self.slots[slot as usize].lpn as usize] = NONE;
        self.free.push(slot);
    }
}

impl CachedPage {
    #[inline]
    const fn is_expected(&self) -> bool {
        self.is_fetched && !self.is_stale && !self.is_present
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Lpn;

    use super::{Lookup, ReadCache};

    const PAGES: u32 = 12;

    /// A page of the plain model: the version that is present, and the one on its way.
    #[derive(Clone, Copy, Debug, Default)]
    struct Plain {
        newest: u32,
        here: Option<u32>,
        coming: Option<u32>,
        used_at: u64,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        LookUp,
        Insert,
        Write,
        Expect,
        Arrive,
    }

    fn any_step() -> impl Strategy<Value = (Step, u32)> {
        let step = prop::sample::select(vec![
            Step::LookUp,
            Step::Insert,
            Step::Write,
            Step::Expect,
            Step::Arrive,
        ]);
        (step, 0..PAGES)
    }

    /// Makes room in the model: evicts the least recently used page that is not on its way.
    fn make_room(model: &mut [Plain], capacity: usize) -> bool {
        let taken =
            model.iter().filter(|page| page.here.is_some() || page.coming.is_some()).count();
        if taken < capacity {
            return true;
        }
        let oldest = model
            .iter_mut()
            .filter(|page| page.here.is_some() && page.coming.is_none())
            .min_by_key(|page| page.used_at);
        oldest.map(|page| page.here = None).is_some()
    }

    fn plain_step(
        model: &mut [Plain],
        capacity: usize,
        step: Step,
        lpn: u32,
        now: u64,
    ) -> Option<bool> {
        let page = model[lpn as usize];
        let is_known = page.here.is_some() || page.coming.is_some();
        match step {
            Step::LookUp => {
                if page.here.is_some() {
                    model[lpn as usize].used_at = now;
                }
                None
            }
            Step::Insert => {
                if is_known || make_room(model, capacity) {
                    model[lpn as usize].here = Some(page.newest);
                    model[lpn as usize].used_at = now;
                }
                None
            }
            Step::Write => {
                model[lpn as usize].newest += 1;
                model[lpn as usize].here = None;
                None
            }
            Step::Expect => {
                let is_granted = !is_known && make_room(model, capacity);
                if is_granted {
                    model[lpn as usize].coming = Some(page.newest);
                }
                Some(is_granted)
            }
            Step::Arrive => {
                let version = page.coming?;
                model[lpn as usize].coming = None;
                if version == page.newest {
                    model[lpn as usize].here = Some(version);
                }
                model[lpn as usize].used_at = now;
                Some(model[lpn as usize].here.is_some())
            }
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_cache_holds(
            capacity in 0u32..6,
            steps in prop::collection::vec(any_step(), 0..300),
        ) {
            let mut cache = ReadCache::new(u64::from(capacity) * 4096 + 100, 4096, PAGES);
            let mut model = [Plain::default(); PAGES as usize];
            for (now, (step, lpn)) in (1u64..).zip(steps) {
                let before = model[lpn as usize];
                let answer = if capacity == 0 {
                    None
                } else {
                    plain_step(&mut model, capacity as usize, step, lpn, now)
                };
                let page = Lpn(lpn);
                match step {
                    Step::LookUp => {
                        let is_coming = before.coming == Some(before.newest);
                        let due = match before.here {
                            Some(_) => Lookup::Hit,
                            None if is_coming => Lookup::Expected,
                            None => Lookup::Miss,
                        };
                        prop_assert_eq!(cache.look_up(page), due);
                    }
                    Step::Insert => cache.insert(page),
                    Step::Write => cache.remove(page),
                    Step::Expect => prop_assert_eq!(cache.expect(page), answer.unwrap_or(false)),
                    Step::Arrive if before.coming.is_some() => {
                        prop_assert_eq!(Some(cache.arrived(page)), answer);
                    }
                    Step::Arrive => {}
                }
                for (lpn, plain) in (0u32..).zip(&model) {
                    // A page that is present has the newest version: no read may get an old one.
                    prop_assert!(plain.here.is_none_or(|version| version == plain.newest));
                    prop_assert_eq!(cache.contains(Lpn(lpn)), plain.here.is_some());
                    prop_assert_eq!(
                        cache.is_expected(Lpn(lpn)),
                        plain.here.is_none() && plain.coming == Some(plain.newest)
                    );
                }
                prop_assert!(
                    model
                        .iter()
                        .filter(|plain| plain.here.is_some() || plain.coming.is_some())
                        .count()
                        <= capacity as usize
                );
            }
        }
    }

    #[test]
    fn the_least_recently_used_page_goes_first() {
        let mut cache = ReadCache::new(2 * 4096, 4096, PAGES);
        cache.insert(Lpn(0));
        cache.insert(Lpn(1));
        assert!(cache.touch(Lpn(0)));
        cache.insert(Lpn(2));
        assert!(cache.contains(Lpn(0)) && !cache.contains(Lpn(1)) && cache.contains(Lpn(2)));
        assert_eq!(cache.counters().evicted, 1);
    }

    #[test]
    fn pages_fetched_ahead_count_as_used_once() {
        let mut cache = ReadCache::new(4 * 4096, 4096, PAGES);
        assert!(cache.expect(Lpn(0)) && cache.expect(Lpn(1)) && !cache.expect(Lpn(1)));
        assert_eq!(cache.look_up(Lpn(0)), Lookup::Expected);
        assert!(cache.arrived(Lpn(0)) && cache.arrived(Lpn(1)));
        assert_eq!(cache.look_up(Lpn(0)), Lookup::Hit);
        let counters = cache.counters();
        assert_eq!(
            (counters.fetched, counters.fetched_and_used, counters.hits, counters.expected_hits),
            (2, 1, 1, 1)
        );
    }

    #[test]
    #[should_panic(expected = "page 3 has come, but was not expected")]
    fn a_page_that_was_not_expected_is_a_bug() {
        ReadCache::new(4096, 4096, PAGES).arrived(Lpn(3));
    }
}
