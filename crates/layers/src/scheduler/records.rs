//! Records of the writes that are held, each under a number of its own.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// A write that is held, in half a cache line.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// First sector.
    pub start: u64,
    /// Number of sectors.
    pub sectors: NonZeroU32,
    /// Number of sectors of which it is the newest write, and of its parts in a batch: it is
    /// dropped with the last.
    pub uses: u32,
    /// Number of the write among all commands.
    pub number: u64,
    /// Number of the first write of the window that it is merged with, or its own.
    pub first: u64,
}

impl Record {
    /// Gives the sector behind its last.
    pub const fn end(&self) -> u64 {
        self.start + self.sectors.get() as u64
    }
}

/// Held writes in a flat array. It is filled in order again whenever nothing is held: adding a
/// write then waits for no memory, however many were held.
#[derive(Debug, Default)]
pub struct Records {
    all: Vec<Record>,
    free: Vec<u32>,
}

impl Records {
    /// Adds a write, and gives its place.
    #[inline]
    pub fn insert(&mut self, record: Record) -> u32 {
        if let Some(place) = self.free.pop() {
            self.all[place as usize] = record;
            return place;
        }
        self.all.push(record);
        (self.all.len() - 1) as u32
    }

    /// Removes a write, which has no uses any more.
    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.free.push(place);
        if self.free.len() == self.all.len() {
            self.all.clear();
            self.free.clear();
        }
    }

    /// Gives all that are held.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.all.iter().filter(|record| record.uses > 0)
    }

    /// Loads a record into the cache. The value is arbitrary, but must be used, or the load is
    /// optimized away.
    #[inline]
    pub fn touch(&self, place: u32) -> u32 {
        self.all.get(place as usize).map_or(0, |record| record.uses)
    }

    /// Returns true if nothing is held.
    #[cfg(test)]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Index<u32> for Records {
    type Output = Record;

    #[inline]
    fn index(&self, place: u32) -> &Record {
        &self.all[place as usize]
    }
}

impl IndexMut<u32> for Records {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Record {
        &mut self.all[place as usize]
    }
}
