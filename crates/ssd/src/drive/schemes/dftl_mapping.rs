//! State of DFTL between the cached mapping table and the translation pages on flash.

use units::{Lpn, Ppn};

use super::dftl::MapSize;
use super::dftl_cache::MappingCache;
use super::host_memory::HostMemory;
use super::page_mapped::Place;
use super::watch::Watch;
use crate::drive::media::{Cause, Command, Media, Tag};

/// In place of a waiting page: none.
pub(super) const NONE: u32 = u32::MAX;

/// A page whose translation is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub lpn: u32,
    pub bytes: u32,
    /// Tag of a read; `None` for a write, which does not wait: only its entry is loaded.
    pub tag: Option<Tag>,
    pub next: u32,
}

/// State of a translation page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageState {
    /// True if it is being read.
    pub is_read: bool,
    /// True if it is being written, or waits for room.
    pub is_written: bool,
    /// True if it is to be written, when it has been read or when its last write is done.
    pub is_due: bool,
    pub first: u32,
    last: u32,
}

/// The cached mapping table, and the transfers under way between it and the flash.
#[derive(Debug)]
pub(super) struct Mapping {
    pub cache: MappingCache,
    pub host_pages: u32,
    pub pages: Vec<PageState>,
    waiters: Vec<Waiter>,
    free_waiter: u32,
    /// Translation pages with updates that are not in the cache.
    pub updated: Vec<u32>,
    /// The same for the victim under cleaning in each lane.
    pub moved: Vec<Vec<u32>>,
    /// `None` without a host memory buffer.
    pub host_memory: Option<Box<HostMemory>>,
    /// Number of translation pages that are read or written.
    pub under_way: u32,
    map_writes: u64,
    pub hits: u64,
    pub misses: u64,
    /// Entries of the translation pages on flash, or on their way there.
    #[cfg(test)]
    pub written: Vec<Option<Ppn>>,
    #[cfg(test)]
    pub entries: u32,
}

impl Mapping {
    pub fn new(size: &MapSize, lanes: u32) -> Self {
        let cache = MappingCache::new(
            size.host_pages,
            size.entries,
            size.load_entries,
            size.cached,
            size.protected,
        );
        let idle =
            PageState { is_read: false, is_written: false, is_due: false, first: NONE, last: NONE };
        Self {
            pages: vec![idle; cache.pages() as usize],
            host_memory: HostMemory::new(cache.pages(), size.host_memory.0, size.host_memory.1),
            cache,
            host_pages: size.host_pages,
            waiters: Vec::new(),
            free_waiter: NONE,
            updated: Vec::new(),
            moved: vec![Vec::new(); lanes as usize],
            under_way: 0,
            map_writes: 0,
            hits: 0,
            misses: 0,
            #[cfg(test)]
            written: vec![None; size.host_pages as usize],
            #[cfg(test)]
            entries: size.entries,
        }
    }

    /// The logical page of a translation page.
    #[inline]
    pub fn lpn_of(&self, page: u32) -> Lpn {
        Lpn(self.host_pages + page)
    }

    pub fn wait(&mut self, page: u32, waiter: Waiter) {
        let number = match self.free_waiter {
            NONE => {
                self.waiters.push(waiter);
                self.waiters.len() as u32 - 1
            }
            free => {
                self.free_waiter = self.waiters[free as usize].next;
                self.waiters[free as usize] = waiter;
                free
            }
        };
        let state = &mut self.pages[page as usize];
        let before = std::mem::replace(&mut state.last, number);
        if before == NONE {
            state.first = number;
        } else {
            self.waiters[before as usize].next = number;
        }
    }

    /// Takes the page that has waited longest.
    pub fn next_waiter(&mut self, page: u32) -> Option<Waiter> {
        let state = &mut self.pages[page as usize];
        let number = state.first;
        if number == NONE {
            return None;
        }
        let waiter = self.waiters[number as usize];
        state.first = waiter.next;
        if state.first == NONE {
            state.last = NONE;
        }
        self.waiters[number as usize].next = self.free_waiter;
        self.free_waiter = number;
        Some(waiter)
    }

    /// Returns true if any page waits for the translation page of this one.
    #[inline]
    pub fn is_awaited(&self, lpn: Lpn) -> bool {
        self.pages[self.cache.place_of(lpn.0).1 as usize].first != NONE
    }

    /// Handles a change of a page while reads of it wait for its translation: they go to its old
    /// place, which the controller knows now.
    #[cold]
    pub fn release(&mut self, lpn: Lpn, place: Place, media: &mut Media) {
        let mut number = self.pages[self.cache.place_of(lpn.0).1 as usize].first;
        while number != NONE {
            let waiter = &mut self.waiters[number as usize];
            number = waiter.next;
            if waiter.lpn == lpn.0
                && let Some(tag) = waiter.tag.take()
            {
                let Place::Flash(page) = place else {
                    unreachable!("a read of logical page {} waits for its translation", lpn.0)
                };
                media.submit(Command::read(page, waiter.bytes, Cause::Host, tag));
            }
        }
    }
}

impl Watch for Mapping {
    #[inline]
    fn cause_of(&self, lpn: Lpn) -> Cause {
        if lpn.0 < self.host_pages { Cause::Host } else { Cause::Mapping }
    }

    #[inline]
    fn placed(&mut self, lpn: Lpn) {
        if lpn.0 >= self.host_pages {
            self.map_writes += 1;
            return;
        }
        let (unit, page) = self.cache.place_of(lpn.0);
        // The entry may have been evicted while the page waited for room.
        if !self.cache.change(unit) {
            self.updated.push(page);
        }
    }

    #[inline]
    fn relocating(&mut self, lpn: Lpn, from: Ppn, lane: u32, media: &mut Media) {
        if lpn.0 >= self.host_pages {
            return;
        }
        if self.is_awaited(lpn) {
            self.release(lpn, Place::Flash(from), media);
        }
        let (unit, page) = self.cache.place_of(lpn.0);
        if !self.cache.change(unit) {
            self.moved[lane as usize].push(page);
        }
    }

    fn emptied(&mut self, lane: u32) {
        let moved = &mut self.moved[lane as usize];
        moved.sort_unstable();
        moved.dedup();
        self.updated.append(moved);
    }

    fn map_writes(&self) -> u64 {
        self.map_writes
    }

    fn table_bytes(&self) -> usize {
        let states = size_of::<PageState>() * self.pages.len();
        self.cache.table_bytes() + states + size_of::<Waiter>() * self.waiters.capacity()
    }
}
