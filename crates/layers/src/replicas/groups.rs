//! Choice of the pages that have replicas, and of those that give them up: LRU and PBLRU.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::memory::hash_map_bytes;

const RECENCY: usize = 0;
const PRIORITY: usize = 1;

/// Position of a page with replicas in the queue.
#[derive(Clone, Copy, Debug)]
struct Group {
    slots: u32,
    region: usize,
    rank: u32,
    stamp: u64,
}

/// The replica group set S (REPLICATION 4.2.1): pages with replicas in the order of their use,
/// divided into the recency region and behind it the priority region. The mark of algorithm 3 is
/// the region.
///
/// The recency region holds up to a share of the room; pages beyond that go to the priority region,
/// and come back when they are blocked again. Under PBLRU the page of least blocking probability in
/// the priority region is evicted, and of equal ones the least recently used; under LRU always the
/// latter.
#[derive(Debug)]
pub struct Groups {
    by_probability: bool,
    most_recent: u64,
    pages: FxHashMap<u64, Group>,
    /// Pages of the recency region, by use.
    recent: BTreeMap<u64, u64>,
    /// Pages of the priority region: by rank, then by use.
    ranked: BTreeSet<(u32, u64, u64)>,
    /// Number of slots of each region.
    slots: [u64; 2],
    uses: u64,
}

impl Groups {
    /// Makes the groups for this number of slots, of which the recency region holds a share.
    pub fn new(by_probability: bool, slots: u64, recency: f64) -> Self {
        Self {
            by_probability,
            most_recent: (slots as f64 * recency).round() as u64,
            pages: FxHashMap::default(),
            recent: BTreeMap::new(),
            ranked: BTreeSet::new(),
            slots: [0; 2],
            uses: 0,
        }
    }

    /// Gives the most bytes that it takes, with so many slots. Nodes of a tree are half full at
    /// least.
    pub const fn most_bytes(slots: u64) -> u64 {
        hash_map_bytes(slots, size_of::<(u64, Group)>())
            + slots * 2 * (size_of::<(u32, u64, u64)>() + 8) as u64
    }

    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    pub fn slots(&self) -> u64 {
        self.slots.iter().sum()
    }

    pub fn contains(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Notes that a page got a replica. `AddRG`: one that had none comes to the head of the queue.
    pub fn add(&mut self, page: u64, probability: impl Fn(u64) -> f64) {
        if let Some(group) = self.pages.get_mut(&page) {
            group.slots += 1;
            self.slots[group.region] += 1;
        } else {
            self.put_first(page, 1);
        }
        self.demote(probability);
    }

    /// Notes that a page lost one of its replicas.
    pub fn lost(&mut self, page: u64) {
        let Some(group) = self.pages.get_mut(&page) else { return };
        group.slots -= 1;
        self.slots[group.region] -= 1;
        if group.slots == 0 {
            self.leave(page);
            self.pages.remove(&page);
        }
    }

    /// Notes that a page with replicas was blocked again: it comes to the head.
    pub fn touch(&mut self, page: u64, probability: impl Fn(u64) -> f64) {
        let Some(slots) = self.pages.get(&page).map(|group| group.slots) else { return };
        self.leave(page);
        self.put_first(page, slots);
        self.demote(probability);
    }

    /// Chooses the page to evict: the first in the order of the policy that may go, of the first
    /// sixteen. One that may not go is being written or read: there are few of those, and a replica
    /// without room is simply not made.
    pub fn victim(&self, may_go: impl Fn(u64) -> bool) -> Option<u64> {
        const TRIES: usize = 16;
        let ranked = self.ranked.iter().map(|&(_, _, page)| page);
        ranked.chain(self.recent.values().copied()).take(TRIES).find(|&page| may_go(page))
    }

    fn put_first(&mut self, page: u64, slots: u32) {
        self.uses += 1;
        let group = Group { slots, region: RECENCY, rank: 0, stamp: self.uses };
        self.pages.insert(page, group);
        self.recent.insert(self.uses, page);
        self.slots[RECENCY] += u64::from(slots);
    }

    /// Takes a page out of its region.
    fn leave(&mut self, page: u64) {
        let Some(&Group { slots, region, rank, stamp }) = self.pages.get(&page) else { return };
        self.slots[region] -= u64::from(slots);
        if region == RECENCY {
            self.recent.remove(&stamp);
        } else {
            self.ranked.remove(&(rank, stamp, page));
        }
    }

    /// Moves pages that the recency region cannot hold to the priority region.
    fn demote(&mut self, probability: impl Fn(u64) -> f64) {
        while self.slots[RECENCY] > self.most_recent {
            let Some((stamp, page)) = self.recent.pop_first() else { break };
            let rank = if self.by_probability { fixed(probability(page)) } else { 0 };
            if let Some(group) = self.pages.get_mut(&page) {
                (group.region, group.rank) = (PRIORITY, rank);
                self.slots[RECENCY] -= u64::from(group.slots);
                self.slots[PRIORITY] += u64::from(group.slots);
            }
            self.ranked.insert((rank, stamp, page));
        }
    }

    /// Gives its memory, in bytes: entries of the map, and of the trees at two thirds full.
    pub fn bytes(&self) -> u64 {
        const MAP: u64 = (size_of::<(u64, Group)>() + 1) as u64 * 8 / 7;
        const RECENT: u64 = size_of::<(u64, u64)>() as u64 * 3 / 2;
        const RANKED: u64 = size_of::<(u32, u64, u64)>() as u64 * 3 / 2;
        MAP * self.len() + RECENT * self.recent.len() as u64 + RANKED * self.ranked.len() as u64
    }
}

fn fixed(probability: f64) -> u32 {
    (probability * f64::from(1 << 20)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// REPLICATION figure 3: seven groups, of which three make the priority region.
    fn figure_3(by_probability: bool) -> String {
        let probability = |page: u64| match page {
            0 => 0.06, // G
            1 => 0.03, // F
            2 => 0.08, // E
            _ => 0.01,
        };
        let mut groups = Groups::new(by_probability, 7, 4.0 / 7.0);
        (0..7).for_each(|page| groups.add(page, probability));
        let mut evicted = String::new();
        for _ in 0..3 {
            let victim = groups.victim(|_| true).unwrap();
            evicted.push(['G', 'F', 'E', 'D', 'C', 'B', 'A'][victim as usize]);
            groups.lost(victim);
            assert!(!groups.contains(victim));
        }
        assert_eq!((groups.len(), groups.slots()), (4, 4));
        evicted
    }

    #[test]
    fn pblru_keeps_what_is_blocked_more_often() {
        assert_eq!(figure_3(false), "GFE");
        assert_eq!(figure_3(true), "FGE");
    }

    #[test]
    fn a_page_that_is_blocked_again_comes_to_the_head() {
        let mut groups = Groups::new(false, 3, 0.5);
        (0..3).for_each(|page| groups.add(page, |_| 0.0));
        groups.touch(0, |_| 0.0);
        assert_eq!(groups.victim(|_| true), Some(1));
        assert_eq!(groups.victim(|page| page != 1), Some(2), "one that may not go is passed over");
        groups.add(2, |_| 0.0);
        assert_eq!(groups.slots(), 4);
        groups.lost(2);
        assert!(groups.contains(2));
        groups.lost(2);
        assert_eq!(groups.victim(|_| true), Some(1));
        groups.lost(1);
        assert_eq!(groups.victim(|_| true), Some(0), "the recency region comes last");
    }
}
