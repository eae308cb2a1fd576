//! Cleaning as a machine of steps: the survivors of a victim are copied one after the other, then
//! the victim is erased.
//!
//! The caller decides when each step is taken and how long it takes: the counting simulator takes
//! all at once, a drive with a clock lets each copy read and program, and a log-structured volume
//! has several reads under way on a device. A policy may have pages of other erase blocks moved
//! along. Between steps the host may write and trim, so a survivor may become invalid before its
//! turn.

use placement::{Placement, Pull, Survivors, Victim};
use units::{EraseBlockId, Lpn, Ppn, StreamId};

use super::PageMapped;

/// A valid page of a victim, or one that is moved along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its logical page.
    pub lpn: Lpn,
    /// Its physical page.
    pub from: Ppn,
    /// The stream that it goes to, if there is room.
    pub to: StreamId,
}

/// The cleaning of one victim, or none. It is reused, so that further cleanings allocate nothing.
#[derive(Debug, Default)]
pub struct Cleaning {
    victim: Option<EraseBlockId>,
    lane: u32,
    first: u32,
    /// Page offsets of the survivors within the erase block, ascending.
    offsets: Vec<u32>,
    lpns: Vec<u32>,
    to: Vec<StreamId>,
    /// Pages of other erase blocks that are moved along: numbered after the survivors.
    pulled: Vec<Survivor>,
    pulls: Vec<Pull>,
    /// The next survivor whose copy has not begun.
    next: usize,
    /// Copies that have begun and not ended.
    under_way: usize,
    /// Number of survivors whose map entries were loaded.
    fetched: usize,
}

/// Survivors whose map entries are loaded together, so that their cache misses overlap. No more,
/// since a drive does so much between two copies that entries loaded long before have left the
/// cache.
const FETCHED: usize = 16;

impl Cleaning {
    /// The victim, while one is cleaned.
    #[inline]
    #[must_use]
    pub const fn victim(&self) -> Option<EraseBlockId> {
        self.victim
    }

    /// Pages of the victim that were valid when its cleaning began.
    #[must_use]
    pub fn survivors(&self) -> u32 {
        self.lpns.len() as u32
    }

    /// Share of the survivors whose copies have begun; 0 without a victim.
    #[inline]
    #[must_use]
    pub fn progress(&self) -> f64 {
        match self.victim {
            Some(_) if self.all() > 0 => self.next as f64 / self.all() as f64,
            Some(_) => 1.0,
            None => 0.0,
        }
    }

    /// Begins with a victim, which was removed from the victim index: lists its valid pages and
    /// asks the policy where they go.
    ///
    /// # Panics
    /// If another victim is being cleaned.
    pub fn begin<P: Placement, V: Victim>(
        &mut self,
        victim: EraseBlockId,
        lane: u32,
        ftl: &mut PageMapped<P, V>,
    ) {
        assert!(self.victim.is_none(), "one victim is cleaned at a time");
        (self.victim, self.lane, self.next, self.fetched) = (Some(victim), lane, 0, 0);
        self.first = victim.0 * ftl.device.geometry.pages_per_erase_block;
        ftl.collect(victim, &mut self.offsets, &mut self.lpns);
        let survivors = self.lpns.len();
        self.to.resize(survivors, StreamId(0));
        let stream = StreamId(u32::from(ftl.device.block(victim).stream));
        let seen = Survivors { block: victim, stream, offsets: &self.offsets, lpns: &self.lpns };
        if survivors > 0 {
            ftl.placement.relocation_streams(seen, &ftl.device, &mut self.to);
        }
        if ftl.placement.features().pulls {
            self.pulls.clear();
            ftl.placement.pulls(seen, &ftl.device, &mut self.pulls);
            self.pulled.clear();
            let gained = ftl.device.geometry.pages_per_erase_block - survivors as u32;
            ftl.find_pulled(victim, lane, gained / 2, &self.pulls, &mut self.pulled);
        }
        ftl.counters.victims_by_valid[survivors] += 1;
    }

    /// The number of the next survivor to be copied, and the survivor. Those that the host has
    /// written or trimmed since are skipped.
    #[inline]
    pub fn next<P: Placement, V: Victim>(
        &mut self,
        ftl: &PageMapped<P, V>,
    ) -> Option<(usize, Survivor)> {
        if self.next >= self.fetched && self.next < self.lpns.len() {
            self.fetched = self.lpns.len().min(self.next + FETCHED);
            ftl.fetch_entries(&self.lpns[self.next..self.fetched]);
        }
        while self.next < self.all() {
            let survivor = self.survivor(self.next);
            if ftl.is_valid(survivor.from) {
                return Some((self.next, survivor));
            }
            self.next += 1;
        }
        None
    }

    /// Number of survivors and of pages moved along when the cleaning began.
    #[inline]
    #[must_use]
    pub fn all(&self) -> usize {
        self.lpns.len() + self.pulled.len()
    }

    /// Begins the copies of the next `count` survivors.
    #[inline]
    pub fn take(&mut self, count: usize) {
        self.next += count;
        self.under_way += count;
    }

    /// A survivor by its number.
    #[inline]
    #[must_use]
    pub fn survivor(&self, number: usize) -> Survivor {
        if number >= self.lpns.len() {
            return self.pulled[number - self.lpns.len()];
        }
        Survivor {
            lpn: Lpn(self.lpns[number]),
            from: Ppn(self.first + self.offsets[number]),
            to: self.to[number],
        }
    }

    /// Number of survivors from this one on that lie side by side and fulfil a condition, at most
    /// `most`.
    pub fn neighbours(
        &self,
        number: usize,
        most: usize,
        is_good: impl Fn(usize, Survivor) -> bool,
    ) -> usize {
        // Pages moved along lie in places of their own.
        let Some(&start) = self.offsets.get(number) else { return 1 };
        let start = start as usize;
        let follows = |count: &usize| {
            let other = number + count;
            self.offsets.get(other).is_some_and(|&offset| offset as usize == start + count)
                && is_good(*count, self.survivor(other))
        };
        1 + (1..most).take_while(follows).count()
    }

    /// Places a survivor whose copy has been read, and gives its new place; `None` if it has become
    /// invalid meanwhile.
    ///
    /// # Panics
    /// If no copy is under way, or there is no room in the whole lane.
    #[inline]
    pub fn relocate<P: Placement, V: Victim>(
        &mut self,
        number: usize,
        ftl: &mut PageMapped<P, V>,
    ) -> Option<Ppn> {
        assert!(self.under_way > 0, "a copy is under way");
        self.under_way -= 1;
        let Survivor { lpn, from, to } = self.survivor(number);
        let is_along = number >= self.lpns.len();
        ftl.is_valid(from).then(|| {
            ftl.counters.pulled_pages += u64::from(is_along);
            ftl.relocate(from, lpn, to, self.lane)
        })
    }

    /// Returns true if all survivors have left, so that the victim can be erased.
    #[must_use]
    pub fn is_done<P: Placement, V: Victim>(&mut self, ftl: &PageMapped<P, V>) -> bool {
        self.under_way == 0 && self.next(ftl).is_none()
    }

    /// Takes all steps up to the erase at once. As nothing can happen in between, the victim's
    /// bookkeeping is done once for all its pages.
    pub(super) fn copy_all<P: Placement, V: Victim>(&mut self, ftl: &mut PageMapped<P, V>) {
        let victim = self.victim.expect("a victim is cleaned");
        ftl.empty(victim, self.lane, self.lpns.len() as u32);
        for (&lpn, &to) in self.lpns.iter().zip(&self.to) {
            let to = ftl.stream_with_room(to, self.lane);
            ftl.place(to, self.lane, lpn, Some(victim));
        }
        ftl.counters.relocated_pages += self.lpns.len() as u64;
        for page in &self.pulled {
            ftl.relocate(page.from, page.lpn, page.to, self.lane);
        }
        ftl.counters.pulled_pages += self.pulled.len() as u64;
        self.next = self.all();
    }

    /// Ends the cleaning and gives the victim, which may now be erased and
    /// [reclaimed](PageMapped::reclaim).
    ///
    /// # Panics
    /// If no victim is cleaned, or a survivor has not left.
    pub fn end(&mut self) -> EraseBlockId {
        assert!(self.under_way == 0 && self.next == self.all(), "all survivors have left");
        self.victim.take().expect("a victim is cleaned")
    }
}
