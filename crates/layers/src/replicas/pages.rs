//! State of a page that is being written, or has replicas.
//!
//! Each write of a page gets a number, its version. A place of a version is either *home* or a
//! slot. Reads go to places that hold the `current` version, the newest one of which a write has
//! ended. A place that is being overwritten may show the new version to one read while the next
//! read is still sent to an old one. Two rules make sure that no read sees an older version than an
//! earlier read:
//!
//! - slots are written once for each page that they are given to;
//! - home is overwritten either while reads go there alone ([`Page::comes`], [`Page::goes_home`]),
//!   or while no read is under way there ([`Page::waits_for_reads`]).

use super::geometry::Place;
use crate::{Data, ParentPart};

/// A slot with a version of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub slot: u32,
    pub version: u64,
    /// True if its write has ended.
    pub is_written: bool,
}

/// A write of a whole page that has not been replied to: one of the host's, or a part that was
/// merged with the rest of the page in memory. A newer one contains it or overwrites it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub version: u64,
    pub part: ParentPart,
    /// True if it is done only when home has it (FUA).
    pub needs_home: bool,
    /// True if it may be written to slots, too.
    pub may_hop: bool,
    /// Number of places that it was written to.
    pub places: u8,
}

/// State of a page. A page without a state is at home, and nothing is under way.
#[derive(Debug, Default)]
pub struct Page {
    /// Newest version that came.
    pub newest: u64,
    /// Newest version that was written to any place.
    pub current: u64,
    /// Version at home, unless a write to it is under way.
    pub home: u64,
    /// True if a write of the whole page to home is under way.
    pub is_writing_home: bool,
    /// Number of writes of parts of it to home under way.
    pub parts_under_way: u32,
    /// Bytes of the newest version, as long as home does not hold it. None as well if it is a part
    /// of a page, which goes to home at once.
    pub data: Option<Data>,
    /// True if the newest version may be written to slots.
    pub may_hop: bool,
    /// Number of slots that the newest version was written to.
    pub slots_taken: usize,
    pub replicas: Vec<Replica>,
    pub waiting: Vec<Waiting>,
    /// Versions that were acknowledged before home had them, each with its stamp.
    pub behind: Vec<(u64, u64)>,
    /// The one of these stamps under which the layer has listed it.
    pub known_behind: Option<u64>,
    /// True if home, which holds an older version than is read elsewhere, is to be written when the
    /// reads under way there have ended.
    pub waits_for_reads: bool,
    /// Failures of its write to home in a row.
    pub failures: u8,
}

impl Page {
    /// Adds a replica. Most pages have one or none: no room is kept for more.
    pub fn add(&mut self, replica: Replica) {
        self.replicas.reserve_exact(1);
        self.replicas.push(replica);
    }

    /// Bytes of a place for a page in a table of which 7/8 may be filled, and of a replica.
    pub const PLACE_BYTES: u64 =
        (size_of::<(u64, Self)>() + 1) as u64 * 8 / 7 + size_of::<Replica>() as u64;

    /// Most bytes that its list takes for each replica: it keeps the room of one that was removed,
    /// and each allocation has an overhead.
    pub const REPLICAS_BYTES: u64 = 2 * size_of::<Replica>() as u64 + 16;

    /// Returns true if home can be read.
    pub const fn is_home_current(&self) -> bool {
        self.home == self.current
    }

    /// Returns true if anything is under way to home.
    pub const fn is_home_busy(&self) -> bool {
        self.is_writing_home || self.parts_under_way > 0
    }

    /// Returns true if home holds the newest version, and nothing is under way to it.
    pub const fn is_quiet(&self) -> bool {
        !self.is_home_busy() && self.home == self.newest
    }

    /// Returns true if home cannot be written, though the page was acknowledged: it is read where
    /// it is.
    pub const fn is_given_up(&self) -> bool {
        self.failures > 1
    }

    /// Returns true if the page needs no state.
    pub fn is_nothing(&self) -> bool {
        self.is_quiet() && self.replicas.is_empty() && self.waiting.is_empty()
    }

    /// Gives the places that can be read: all hold the current version.
    pub fn readable(&self) -> impl Iterator<Item = Place> + '_ {
        let home = self.is_home_current().then_some(Place::Home);
        let slots = self
            .replicas
            .iter()
            .filter(|replica| replica.is_written && replica.version == self.current);
        home.into_iter().chain(slots.map(|replica| Place::Slot(replica.slot)))
    }

    /// Notes that a write comes. An update invalidates all replicas (REPLICATION 4.1); one is kept
    /// if home cannot be read, until the new version is written somewhere. Gives the slots that are
    /// freed.
    pub fn comes(&mut self, version: u64, may_hop: bool) -> Vec<u32> {
        let mut keeps_one = !self.is_home_current();
        let current = self.current;
        let mut given_up = Vec::new();
        self.replicas.retain(|replica| {
            let is_kept = keeps_one && replica.is_written && replica.version == current;
            if is_kept {
                keeps_one = false;
            } else {
                given_up.push(replica.slot);
            }
            is_kept
        });
        (self.newest, self.may_hop, self.slots_taken) = (version, may_hop, 0);
        given_up
    }

    /// Notes that the newest version is written to home. If home may be read meanwhile, no other
    /// place is. Gives the slots that are freed.
    pub fn goes_home(&mut self) -> Vec<u32> {
        self.is_writing_home = true;
        let (is_read_there, newest) = (self.is_home_current(), self.newest);
        let mut given_up = Vec::new();
        self.replicas.retain(|replica| {
            let is_kept = !is_read_there || replica.version == newest;
            if !is_kept {
                given_up.push(replica.slot);
            }
            is_kept
        });
        given_up
    }

    /// Notes that a version was written to a slot. Gives the slots of older ones, which are freed.
    pub fn is_at_slot(&mut self, version: u64, slot: u32) -> Vec<u32> {
        for replica in &mut self.replicas {
            replica.is_written |= replica.slot == slot;
        }
        self.is_written(version)
    }

    /// Notes that a version was written at home. Gives the slots that are freed.
    pub fn is_at_home(&mut self, version: u64) -> Vec<u32> {
        self.home = self.home.max(version);
        self.behind.retain(|&(acknowledged, _)| acknowledged > version);
        forget_room(&mut self.behind);
        self.is_written(version)
    }

    fn is_written(&mut self, version: u64) -> Vec<u32> {
        let mut given_up = Vec::new();
        if version > self.current {
            self.current = version;
            self.replicas.retain(|replica| {
                let is_kept = replica.version >= version;
                if !is_kept {
                    given_up.push(replica.slot);
                }
                is_kept
            });
        }
        given_up
    }

    /// Takes the writes that are done: their version or a newer one can be read; or home has it.
    pub fn take_done(&mut self) -> Vec<Waiting> {
        let (current, home) = (self.current, self.home);
        let mut done = Vec::new();
        self.waiting.retain(|part| {
            let is_done = part.version <= if part.needs_home { home } else { current };
            if is_done {
                done.push(*part);
            }
            !is_done
        });
        forget_room(&mut self.waiting);
        done
    }

    /// Settles for the content of home after failed writes: nothing else is left. Gives the slots
    /// that are freed.
    pub fn settle(&mut self) -> Vec<u32> {
        self.newest = self.current.max(self.home);
        (self.current, self.home) = (self.newest, self.newest);
        self.data = None;
        self.behind.clear();
        self.replicas.drain(..).map(|replica| replica.slot).collect()
    }

    /// Gives the stamp of the first acknowledged version that home does not hold.
    pub fn behind_since(&self) -> Option<u64> {
        self.behind.iter().map(|&(_, stamp)| stamp).min()
    }
}

/// Frees the memory of a list that is empty: most pages rest, and keep their replicas for long.
fn forget_room<T>(list: &mut Vec<T>) {
    if list.is_empty() {
        *list = Vec::new();
    }
}
