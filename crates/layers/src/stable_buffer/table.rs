//! Table of the pages in the slots, and of the versions on the media: the translation table, the
//! bitmap and the free-slot pointer of STABLEBUFFER 2.2, and the versions that recovery would find.
//!
//! A version is a page's content in a slot. It is on the media from the moment that it is sent
//! until a later write of its slot is durable, needed or not: recovery finds it there and takes the
//! newest version of each page. So the newest durable version of a page must not be overwritten
//! while an older one is there, or the older one would come back. Such a slot is free and yet must
//! not be taken.

use rustc_hash::FxHashMap;
use slab::Slab;

use crate::memory::hash_map_bytes;

/// Stand-in for no page, slot or version.
pub const NONE: u32 = u32::MAX;

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its content is not needed any more.
    Free,
    /// It is taken, and nothing was sent yet.
    Reserved,
    /// It is being written.
    Writing,
    /// Its write was replied to; a power cut may still take it.
    Written,
    /// Its content is durable.
    Durable,
}

#[derive(Clone, Copy, Debug)]
struct TableSlot {
    state: State,
    /// Index of the newer one of its two versions.
    now: u32,
    /// True if it is being flushed to its destination.
    is_flushing: bool,
    /// True if its destination holds the page durably.
    is_flushed: bool,
    /// Number of reads under way.
    readers: u32,
}

/// Content that a slot has on the media, or may have. Each slot has two: that of its last write,
/// and the one before until the last write is durable.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Page of the version; none if there is no such version.
    page: u32,
    newer: u32,
    older: u32,
    /// True if a newer version is durable.
    is_superseded: bool,
}

/// A page that has a version in a slot, or a command under way.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Number of the page on the device: its first byte divided by the size of a page.
    pub number: u64,
    newest: u32,
    /// Slot from which it is read; none if its destination holds it.
    pub slot: u32,
    /// True if a write of it is under way: others wait.
    pub is_locked: bool,
    /// True if the pattern recognition knows it as a page that can be flushed.
    pub is_candidate: bool,
    /// True if it was trimmed while it was in the buffer.
    pub is_trimmed: bool,
    /// First of the writes that wait for it, which the caller keeps.
    pub first_waiting: u32,
    /// Last of these writes.
    pub last_waiting: u32,
}

/// All slots, and the pages that have versions in them.
#[derive(Debug)]
pub struct Table {
    pages: Slab<Page>,
    by_number: FxHashMap<u64, u32>,
    slots: Vec<TableSlot>,
    versions: Vec<Version>,
    /// One bit for each slot: it may be taken.
    takeable: Vec<u64>,
    takeable_slots: u32,
    /// Free-slot pointer: the search for the next slot begins here.
    pointer: u32,
    used_slots: u32,
}

impl Table {
    /// Makes a table of free slots that hold nothing.
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

    /// Gives the most bytes that it takes. There are never more pages than versions.
    pub const fn bytes(slots: u32) -> u64 {
        let (slots, versions) = (slots as u64, 2 * slots as u64);
        hash_map_bytes(versions, size_of::<(u64, u32)>())
            + slots * size_of::<TableSlot>() as u64
            + versions * (size_of::<Version>() + size_of::<Page>() + 8) as u64
            + slots / 8
    }

    /// Gives the number of slots that are not free.
    pub const fn used_slots(&self) -> u32 {
        self.used_slots
    }

    /// Gives the number of all slots.
    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Finds the page of this number, if it has a version or a command under way.
    pub fn find(&self, number: u64) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// Finds the page of this number, or adds it.
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

    /// Gives the state of a page.
    pub fn page(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    /// Gives the state of a page, to be changed.
    pub fn page_mut(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    /// Gives all pages that have a version or a command under way.
    pub fn pages(&self) -> impl Iterator<Item = &Page> {
        self.pages.iter().map(|(_, page)| page)
    }

    /// Gives the number of pages that have a version or a command under way.
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

    /// Notes that a slot that was taken is sent the page's newest version.
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

    /// Notes that the write of a slot was replied to: its page is read from there.
    pub fn written(&mut self, slot: u32) {
        self.slots[slot as usize].state = State::Written;
        let page = self.versions[self.version_of(slot) as usize].page;
        let page = &mut self.pages[page as usize];
        page.slot = slot;
        page.is_trimmed = false;
    }

    /// Notes that a slot's last write is durable: its earlier content is gone, and older versions
    /// of its page are not needed any more.
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

    /// Notes that a slot is read, to be flushed to its destination.
    pub fn flush_begins(&mut self, slot: u32) {
        self.slots[slot as usize].is_flushing = true;
    }

    /// Notes that the destination holds the page of a slot durably.
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

    /// Notes that a slot cannot be flushed: it stays in use until its page is written again.
    /// Returns true if no newer version of that page is in the buffer.
    pub fn flush_failed(&mut self, slot: u32) -> bool {
        self.slots[slot as usize].is_flushing = false;
        let page = self.versions[self.version_of(slot) as usize].page;
        let is_newest = self.pages[page as usize].slot == slot;
        self.free_if_unneeded(slot);
        is_newest
    }

    /// Gives the number of the page in a slot.
    pub fn number_in(&self, slot: u32) -> u64 {
        self.pages[self.versions[self.version_of(slot) as usize].page as usize].number
    }

    /// Notes that a read of a slot is under way: it is not overwritten before it has ended.
    pub fn read_begins(&mut self, slot: u32) {
        self.slots[slot as usize].readers += 1;
    }

    /// Notes that a read of a slot has ended.
    pub fn read_ends(&mut self, slot: u32) {
        self.slots[slot as usize].readers -= 1;
        self.free_if_unneeded(slot);
    }

    fn version_of(&self, slot: u32) -> u32 {
        2 * slot + self.slots[slot as usize].now
    }

    /// Returns true if the version is in a free slot that must not be taken, because an older
    /// version of its page would come back.
    fn holds_back(&self, version: u32) -> bool {
        let Version { older, is_superseded, .. } = self.versions[version as usize];
        let slot = version / 2;
        self.slots[slot as usize].state == State::Free
            && self.version_of(slot) == version
            && older != NONE
            && !is_superseded
    }

    /// Notes that a newer version than this one is durable.
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

    /// Removes a version that is not on the media any more.
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
