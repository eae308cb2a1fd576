//! Which page is in which slot, and what each slot still holds on the media: the translation table,
//! the bitmap and the free-slot pointer of STABLEBUFFER 2.2, and the versions that recovery would
//! find.
//!
//! A version is a page's content in a slot. It is on the media from the moment that it is sent
//! until what overwrites its slot is durable, whether it is still needed or not: recovery finds it
//! there and takes the newest version of each page. So the newest durable version of a page must
//! not be overwritten while an older one is there, or the older one would come back. Such a slot is
//! free and yet not to be taken.

use rustc_hash::FxHashMap;
use slab::Slab;

use crate::memory::hash_map_bytes;

/// No page, slot or version.
pub const NONE: u32 = u32::MAX;

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// What it holds is needed no more.
    Free,
    /// Taken, nothing sent yet.
    Reserved,
    /// Being written.
    Writing,
    /// Its write was replied to; a cut may still take it.
    Written,
    /// On the media.
    Durable,
}

#[derive(Clone, Copy, Debug)]
struct TableSlot {
    state: State,
    /// Which of its two versions is the one that it was written with last.
    now: u32,
    /// It is being flushed to its destination.
    is_flushing: bool,
    /// Its destination holds it durably.
    is_flushed: bool,
    /// Reads that are under way.
    readers: u32,
}

/// What a slot holds on the media, or may hold. Each slot has two: what it was written with last,
/// and what was there before that until it is durable.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Its page; none if there is no such version.
    page: u32,
    newer: u32,
    older: u32,
    /// A newer one is durable.
    is_superseded: bool,
}

/// A page that has a version in a slot, or something under way.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its number on the device: its first byte divided by the size of a page.
    pub number: u64,
    newest: u32,
    /// The slot from which it is read; none if its destination holds it.
    pub slot: u32,
    /// A write of it is under way: others wait.
    pub is_locked: bool,
    /// The pattern recognition knows it as one that can be flushed.
    pub is_candidate: bool,
    /// It was trimmed while it was in the buffer.
    pub is_trimmed: bool,
    /// Writes that wait for it, for whoever keeps them.
    pub first_waiting: u32,
    /// The last of them.
    pub last_waiting: u32,
}

/// All slots and the pages that have something to do with them.
#[derive(Debug)]
pub struct Table {
    pages: Slab<Page>,
    by_number: FxHashMap<u64, u32>,
    slots: Vec<TableSlot>,
    versions: Vec<Version>,
    /// A bit a slot: it may be taken.
    takeable: Vec<u64>,
    takeable_slots: u32,
    /// The free-slot pointer: where the search for the next one begins.
    pointer: u32,
    used_slots: u32,
}

impl Table {
    /// All slots are free and hold nothing.
    pub fn new(slots: u32) -> Self {
        let slot = TableSlot {
            state: State::Free,
            now: 0,
            is_flushing: false,
            is_flushed: false,
            readers: 0,
        };
        let version = Version { page: NONE, newer: NONE, older: NONE, is_superseded: false };
        let mut takeable = vec![u64::MAX; slots.div_ceil(64) as usize];
        if !slots.is_multiple_of(64) {
            *takeable.last_mut().expect("there is a slot") = (1 << (slots % 64)) - 1;
        }
        Self {
            pages: Slab::with_capacity(slots as usize),
            by_number: FxHashMap::with_capacity_and_hasher(
                2 * slots as usize,
                rustc_hash::FxBuildHasher,
            ),
            slots: vec![slot; slots as usize],
            versions: vec![version; 2 * slots as usize],
            takeable,
            takeable_slots: slots,
            pointer: 0,
            used_slots: 0,
        }
    }

    /// Most bytes that it takes. There are never more pages than versions.
    pub const fn bytes(slots: u32) -> u64 {
        let (slots, versions) = (slots as u64, 2 * slots as u64);
        hash_map_bytes(versions, size_of::<(u64, u32)>())
            + slots * size_of::<TableSlot>() as u64
            + versions * (size_of::<Version>() + size_of::<Page>() + 8) as u64
            + slots / 8
    }

    /// Slots that are not free.
    pub const fn used_slots(&self) -> u32 {
        self.used_slots
    }

    /// Slots in all.
    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The page of this number, if it has a version or something under way.
    pub fn find(&self, number: u64) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// The page of this number.
    pub fn find_or_add(&mut self, number: u64) -> u32 {
        *self.by_number.entry(number).or_insert_with(|| {
            self.pages.insert(Page {
                number,
                newest: NONE,
                slot: NONE,
                is_locked: false,
                is_candidate: false,
                is_trimmed: false,
                first_waiting: NONE,
                last_waiting: NONE,
            }) as u32
        })
    }

    /// What is known of a page.
    pub fn page(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    /// The same, to be changed.
    pub fn page_mut(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    /// All pages that have a version or something under way.
    pub fn pages(&self) -> impl Iterator<Item = &Page> {
        self.pages.iter().map(|(_, page)| page)
    }

    /// Pages that have a version or something under way.
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Ends a page's write: no other waits for it.
    pub fn unlock(&mut self, page: u32) {
        self.pages[page as usize].is_locked = false;
        self.forget(page);
    }

    /// Forgets a page of which nothing is left.
    fn forget(&mut self, page: u32) {
        let Page { number, newest, slot, is_locked, first_waiting, .. } = self.pages[page as usize];
        if newest == NONE && slot == NONE && !is_locked && first_waiting == NONE {
            self.pages.remove(page as usize);
            self.by_number.remove(&number);
        }
    }

    /// Takes the next slot that may be overwritten; none if there is none.
    pub fn take(&mut self) -> Option<u32> {
        if self.takeable_slots == 0 {
            return None;
        }
        let (first, words) = (self.pointer / 64, self.takeable.len() as u32);
        let from_pointer = self.takeable[first as usize] & (u64::MAX << (self.pointer % 64));
        let (word, bits) = if from_pointer == 0 {
            let word = (1..=words)
                .map(|step| (first + step) % words)
                .find(|&word| self.takeable[word as usize] != 0)?;
            (word, self.takeable[word as usize])
        } else {
            (first, from_pointer)
        };
        let slot = word * 64 + bits.trailing_zeros();
        self.take_this(slot);
        Some(slot)
    }

    /// Takes this slot, which may be overwritten.
    pub fn take_this(&mut self, slot: u32) {
        let bit = 1 << (slot % 64);
        assert!(self.takeable[slot as usize / 64] & bit != 0, "slot {slot} may be taken");
        self.takeable[slot as usize / 64] &= !bit;
        self.takeable_slots -= 1;
        self.used_slots += 1;
        self.slots[slot as usize].state = State::Reserved;
        self.pointer = (slot + 1) % self.len();
    }

    /// Gives back a slot to which nothing was sent.
    pub fn give_back(&mut self, slot: u32) {
        assert_eq!(
            self.slots[slot as usize].state,
            State::Reserved,
            "nothing was sent to slot {slot}"
        );
        self.freed(slot);
    }

    /// A slot that was taken is sent the page's newest version.
    pub fn sent(&mut self, slot: u32, page: u32) {
        let entry = &mut self.slots[slot as usize];
        debug_assert_eq!(entry.state, State::Reserved);
        entry.state = State::Writing;
        entry.is_flushed = false;
        entry.now ^= 1;
        let version = 2 * slot + entry.now;
        let older = self.pages[page as usize].newest;
        debug_assert_eq!(
            self.versions[version as usize].page, NONE,
            "slot {slot} has room for a version"
        );
        self.versions[version as usize] =
            Version { page, newer: NONE, older, is_superseded: false };
        if older != NONE {
            self.versions[older as usize].newer = version;
        }
        self.pages[page as usize].newest = version;
    }

    /// The write of a slot was replied to: its page is read from there.
    pub fn written(&mut self, slot: u32) {
        self.slots[slot as usize].state = State::Written;
        let page = self.versions[self.version_of(slot) as usize].page;
        let page = &mut self.pages[page as usize];
        page.slot = slot;
        page.is_trimmed = false;
    }

    /// What a slot was written with is durable: what it held before is gone, and older versions of
    /// its page are needed no more.
    pub fn durable(&mut self, slot: u32) {
        debug_assert_eq!(self.slots[slot as usize].state, State::Written);
        self.slots[slot as usize].state = State::Durable;
        let version = self.version_of(slot);
        self.unlink(version ^ 1);
        let mut older = self.versions[version as usize].older;
        while older != NONE && !self.versions[older as usize].is_superseded {
            self.superseded(older);
            older = self.versions[older as usize].older;
        }
        self.free_if_unneeded(slot);
    }

    /// A slot is read, to be flushed to its destination.
    pub fn flush_begins(&mut self, slot: u32) {
        self.slots[slot as usize].is_flushing = true;
    }

    /// The destination holds durably what the slot does.
    pub fn flushed(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.is_flushing = false;
        entry.is_flushed = true;
        let page = self.versions[self.version_of(slot) as usize].page;
        let page = &mut self.pages[page as usize];
        if page.slot == slot {
            page.slot = NONE;
        }
        self.free_if_unneeded(slot);
    }

    /// A slot cannot be flushed: it stays in use until its page is written again. Whether nothing
    /// newer of that page is in the buffer.
    pub fn flush_failed(&mut self, slot: u32) -> bool {
        self.slots[slot as usize].is_flushing = false;
        let page = self.versions[self.version_of(slot) as usize].page;
        let is_newest = self.pages[page as usize].slot == slot;
        self.free_if_unneeded(slot);
        is_newest
    }

    /// The number of the page in a slot.
    pub fn number_in(&self, slot: u32) -> u64 {
        self.pages[self.versions[self.version_of(slot) as usize].page as usize].number
    }

    /// A read of a slot is under way: it is not overwritten before it has ended.
    pub fn read_begins(&mut self, slot: u32) {
        self.slots[slot as usize].readers += 1;
    }

    /// A read of a slot has ended.
    pub fn read_ends(&mut self, slot: u32) {
        self.slots[slot as usize].readers -= 1;
        self.free_if_unneeded(slot);
    }

    fn version_of(&self, slot: u32) -> u32 {
        2 * slot + self.slots[slot as usize].now
    }

    /// Whether it is what a free slot holds, which is not to be taken because an older version of
    /// its page would come back.
    fn holds_back(&self, version: u32) -> bool {
        let Version { older, is_superseded, .. } = self.versions[version as usize];
        let slot = version / 2;
        self.slots[slot as usize].state == State::Free
            && self.version_of(slot) == version
            && older != NONE
            && !is_superseded
    }

    /// A newer version than this one is durable.
    fn superseded(&mut self, version: u32) {
        let was_held_back = self.holds_back(version);
        self.versions[version as usize].is_superseded = true;
        if was_held_back {
            self.offer(version / 2);
        } else {
            self.free_if_unneeded(version / 2);
        }
    }

    fn free_if_unneeded(&mut self, slot: u32) {
        let TableSlot { state, is_flushing, is_flushed, readers, .. } = self.slots[slot as usize];
        let is_superseded = self.versions[self.version_of(slot) as usize].is_superseded;
        if state == State::Durable && readers == 0 && !is_flushing && (is_flushed || is_superseded)
        {
            self.freed(slot);
        }
    }

    fn freed(&mut self, slot: u32) {
        self.slots[slot as usize].state = State::Free;
        self.used_slots -= 1;
        self.offer(slot);
    }

    /// Lets a free slot be taken, unless an older version of its page would come back.
    fn offer(&mut self, slot: u32) {
        let version = self.versions[self.version_of(slot) as usize];
        if version.page == NONE || version.is_superseded || version.older == NONE {
            debug_assert_eq!(self.takeable[slot as usize / 64] >> (slot % 64) & 1, 0);
            self.takeable[slot as usize / 64] |= 1 << (slot % 64);
            self.takeable_slots += 1;
        }
    }

    /// A version is on the media no more.
    fn unlink(&mut self, version: u32) {
        let Version { page, newer, older, .. } = self.versions[version as usize];
        if page == NONE {
            return;
        }
        self.versions[version as usize].page = NONE;
        if older != NONE {
            self.versions[older as usize].newer = newer;
        }
        if newer == NONE {
            debug_assert_eq!(older, NONE, "the newest version goes last");
            self.pages[page as usize].newest = NONE;
            self.forget(page);
            return;
        }
        let was_held_back = self.holds_back(newer);
        self.versions[newer as usize].older = older;
        if was_held_back && older == NONE {
            self.offer(newer / 2);
        }
    }
}
