//! What is known of a page that is being written, or has replicas.
//!
//! Each write of a page gets a number, its version. What holds a version is either *home* or a
//! slot. Reads go to places that hold the `current` version, the newest one of which a write has
//! ended. A place that is being overwritten may show the new version to one read and not yet be
//! what the next read is sent to. So that what was read once is never followed by something older:
//!
//! - slots are written once for each page that they are given to;
//! - home is overwritten either while reads go there alone ([`Page::comes`], [`Page::goes_home`]),
//!   or while no read is under way there ([`Page::waits_for_reads`]).

use super::geometry::Place;
use crate::{Data, ParentPart};

/// A place in the replication space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub slot: u32,
    pub version: u64,
    /// Its write has ended.
    pub is_written: bool,
}

/// A write of a whole page that has not been replied to: of the host's, or of what it wrote of the
/// page laid over what is in memory. A newer one contains it or overwrites it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub version: u64,
    pub part: ParentPart,
    /// It is done when home has it (FUA).
    pub needs_home: bool,
    /// Whether it may be written to slots, too.
    pub may_hop: bool,
    /// Places that it was written to.
    pub places: u8,
}

/// The state of a page. A page without one holds what is at home, and nothing is under way.
#[derive(Debug, Default)]
pub struct Page {
    /// The version that came last.
    pub newest: u64,
    /// The newest that was written somewhere.
    pub current: u64,
    /// What home holds: nothing but a write under way makes it something else.
    pub home: u64,
    /// A write of the whole page is under way to home.
    pub is_writing_home: bool,
    /// Writes of parts of it that are.
    pub parts_under_way: u32,
    /// Bytes of the newest version, as long as home does not hold it. None as well if it is a part
    /// of a page, which goes to home at once.
    pub data: Option<Data>,
    /// Whether the newest may be written to slots.
    pub may_hop: bool,
    /// Slots that the newest was written to.
    pub slots_taken: usize,
    pub replicas: Vec<Replica>,
    pub waiting: Vec<Waiting>,
    /// Versions that were acknowledged before home had them, and when.
    pub behind: Vec<(u64, u64)>,
    /// Under which of these times the layer knows it.
    pub known_behind: Option<u64>,
    /// Home, which holds something older than what is read elsewhere, is written when the reads
    /// that are still under way there have ended.
    pub waits_for_reads: bool,
    /// Times that its write to home failed in a row.
    pub failures: u8,
}

impl Page {
    /// It gets a replica. Most pages have one or none: no room is kept for more.
    pub fn add(&mut self, replica: Replica) {
        self.replicas.reserve_exact(1);
        self.replicas.push(replica);
    }

    /// Memory of a place for a page in a table of which 7/8 may be filled, and of a replica.
    pub const PLACE_BYTES: u64 =
        (size_of::<(u64, Self)>() + 1) as u64 * 8 / 7 + size_of::<Replica>() as u64;

    /// Most that its list takes for each replica: it keeps the room of one that went, and an
    /// allocation takes something beside.
    pub const REPLICAS_BYTES: u64 = 2 * size_of::<Replica>() as u64 + 16;

    /// Whether home can be read.
    pub const fn is_home_current(&self) -> bool {
        self.home == self.current
    }

    /// Whether anything is under way to home.
    pub const fn is_home_busy(&self) -> bool {
        self.is_writing_home || self.parts_under_way > 0
    }

    /// Whether home holds all that came, and nothing is under way to it.
    pub const fn is_quiet(&self) -> bool {
        !self.is_home_busy() && self.home == self.newest
    }

    /// Whether home cannot be written, though the page was acknowledged: it is read where it is.
    pub const fn is_given_up(&self) -> bool {
        self.failures > 1
    }

    /// Whether there is nothing to know of it.
    pub fn is_nothing(&self) -> bool {
        self.is_quiet() && self.replicas.is_empty() && self.waiting.is_empty()
    }

    /// Places that can be read: all hold the current version.
    pub fn readable(&self) -> impl Iterator<Item = Place> + '_ {
        let home = self.is_home_current().then_some(Place::Home);
        let slots = self
            .replicas
            .iter()
            .filter(|replica| replica.is_written && replica.version == self.current);
        home.into_iter().chain(slots.map(|replica| Place::Slot(replica.slot)))
    }

    /// A write comes. An update invalidates the replicas (REPLICATION 4.1): all, but one if home
    /// does not hold what can be read until the new version is written somewhere. The slots that it
    /// gives up.
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

    /// The newest version goes to home. If reads may go there meanwhile, they go nowhere else: the
    /// slots that it gives up.
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

    /// A version was written to a place that is not home. Slots of older ones are given up.
    pub fn is_at_slot(&mut self, version: u64, slot: u32) -> Vec<u32> {
        for replica in &mut self.replicas {
            replica.is_written |= replica.slot == slot;
        }
        self.is_written(version)
    }

    /// A version was written at home.
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

    /// Parts that are done: what they wrote, or something newer, can be read; or home has it.
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

    /// Takes it for what home holds: nothing else is left of what failed.
    pub fn settle(&mut self) -> Vec<u32> {
        self.newest = self.current.max(self.home);
        (self.current, self.home) = (self.newest, self.newest);
        self.data = None;
        self.behind.clear();
        self.replicas.drain(..).map(|replica| replica.slot).collect()
    }

    /// When the first was acknowledged of what home does not hold.
    pub fn behind_since(&self) -> Option<u64> {
        self.behind.iter().map(|&(_, stamp)| stamp).min()
    }
}

/// Gives back the memory of what is empty: most pages rest, and keep their replicas for long.
fn forget_room<T>(list: &mut Vec<T>) {
    if list.is_empty() {
        *list = Vec::new();
    }
}
