//! The pages with copies, and the choice of those that lose them: replica groups, LRU and PBLRU.

use std::collections::BTreeSet;

use units::lists::{Lists, NONE};

use crate::drive::profile::ReplicationPolicy;

/// Most copies of a page besides its own place.
pub(super) const MOST_SLOTS: usize = 7;

const RECENCY: usize = 0;
const PRIORITY: usize = 1;

/// A page with copies: the replication map's entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub lpn: u32,
    slots: [u32; MOST_SLOTS],
    count: u8,
    region: u8,
    /// Rank of the group in the priority region.
    rank: (u32, u64),
}

impl Group {
    const NOBODY: Self =
        Self { lpn: NONE, slots: [NONE; MOST_SLOTS], count: 0, region: 0, rank: (0, 0) };

    /// Its places in the replication space.
    pub fn slots(&self) -> &[u32] {
        &self.slots[..usize::from(self.count)]
    }
}

/// The replica group set S (REPLICATION 4.2.1): its groups in the order of their use, divided into
/// the recency region and, behind it, the priority region. The mark of algorithm 3 is the region.
///
/// The recency region holds up to a share of the space; groups that do not fit go to the priority
/// region, and come back when they are blocked again. Under PBLRU the group of least blocking
/// probability in the priority region is evicted, the one used longest ago among equals; under LRU
/// always the one used longest ago.
#[derive(Debug)]
pub(super) struct Groups {
    policy: ReplicationPolicy,
    most_recent: u32,
    groups: Vec<Group>,
    free: Vec<u32>,
    /// Group of each logical page.
    of_page: Vec<u32>,
    free_slots: Vec<u32>,
    /// The valid map: one bit for each page of the replication space.
    valid: Vec<u64>,
    /// The recency region, and under LRU the priority region, oldest first.
    queue: Lists,
    ranked: BTreeSet<(u32, u64, u32)>,
    pages: [u32; 2],
    uses: u64,
}

impl Groups {
    pub fn new(policy: ReplicationPolicy, host_pages: u32, slots: u32, recency_share: f64) -> Self {
        Self {
            policy,
            most_recent: (f64::from(slots) * recency_share).round() as u32,
            groups: vec![Group::NOBODY; slots as usize],
            free: (0..slots).rev().collect(),
            of_page: vec![NONE; host_pages as usize],
            free_slots: (0..slots).rev().collect(),
            valid: vec![0; (slots as usize).div_ceil(64)],
            queue: Lists::new(slots, 2),
            ranked: BTreeSet::new(),
            pages: [0; 2],
            uses: 0,
        }
    }

    #[inline]
    pub fn of(&self, lpn: u32) -> Option<u32> {
        let group = self.of_page[lpn as usize];
        (group != NONE).then_some(group)
    }

    pub fn get(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }

    /// A free place for a copy, if there is one.
    pub fn free_slot(&self) -> Option<u32> {
        self.free_slots.last().copied()
    }

    pub fn is_valid(&self, slot: u32) -> bool {
        self.valid[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Adds the copy of a page in the place that [`Self::free_slot`] named. `AddRG`: a page that
    /// had none comes to the head of the queue.
    pub fn add(&mut self, lpn: u32, probability: impl Fn(&Group) -> f64) {
        let slot = self.free_slots.pop().expect("a place is free");
        self.valid[slot as usize / 64] |= 1 << (slot % 64);
        if let Some(group) = self.of(lpn) {
            let entry = &mut self.groups[group as usize];
            entry.slots[usize::from(entry.count)] = slot;
            entry.count += 1;
            let region = usize::from(entry.region);
            self.pages[region] += 1;
        } else {
            let group = self.free.pop().expect("there are as many groups as places");
            let mut entry = Group { lpn, count: 1, ..Group::NOBODY };
            entry.slots[0] = slot;
            self.groups[group as usize] = entry;
            self.of_page[lpn as usize] = group;
            self.put_first(group);
        }
        self.demote(probability);
    }

    /// Moves a page with copies that was blocked again to the head.
    pub fn touch(&mut self, group: u32, probability: impl Fn(&Group) -> f64) {
        self.leave(group);
        self.put_first(group);
        self.demote(probability);
    }

    /// Updates the rank of a group whose blocking probability has changed.
    pub fn rerank(&mut self, group: u32, probability: impl Fn(&Group) -> f64) {
        let entry = &self.groups[group as usize];
        if usize::from(entry.region) != PRIORITY || self.policy != ReplicationPolicy::Pblru {
            return;
        }
        let (rank, stamp) = entry.rank;
        let new = fixed(probability(entry));
        if new != rank {
            self.ranked.remove(&(rank, stamp, group));
            self.ranked.insert((new, stamp, group));
            self.groups[group as usize].rank.0 = new;
        }
    }

    /// Chooses the group to evict: the first in the order of the policy that may go, of the first
    /// sixteen. Groups that may not go are not programmed yet: there are few, and a copy that finds
    /// no room is simply not made.
    pub fn victim(&self, may_go: impl Fn(u32) -> bool) -> Option<u32> {
        const TRIES: usize = 16;
        let from = |list: usize| {
            let first = Some(self.queue.first(list)).filter(|&group| group != NONE);
            std::iter::successors(first, |&group| {
                Some(self.queue.next(group)).filter(|&group| group != NONE)
            })
        };
        let ranked = self.ranked.iter().map(|&(_, _, group)| group);
        ranked
            .chain(from(PRIORITY))
            .chain(from(RECENCY))
            .take(TRIES)
            .find(|&group| may_go(self.groups[group as usize].lpn))
    }

    /// Removes a group, as its page has no copies any more. Gives the group with its places.
    pub fn remove(&mut self, group: u32) -> Group {
        self.leave(group);
        let entry = std::mem::replace(&mut self.groups[group as usize], Group::NOBODY);
        self.of_page[entry.lpn as usize] = NONE;
        for &slot in entry.slots() {
            self.valid[slot as usize / 64] &= !(1 << (slot % 64));
            self.free_slots.push(slot);
        }
        self.free.push(group);
        entry
    }

    fn put_first(&mut self, group: u32) {
        let entry = &mut self.groups[group as usize];
        self.uses += 1;
        (entry.region, entry.rank) = (RECENCY as u8, (0, self.uses));
        self.pages[RECENCY] += u32::from(entry.count);
        self.queue.push_back(RECENCY, group);
    }

    fn leave(&mut self, group: u32) {
        let entry = &self.groups[group as usize];
        let region = usize::from(entry.region);
        self.pages[region] -= u32::from(entry.count);
        if region == PRIORITY && self.policy == ReplicationPolicy::Pblru {
            self.ranked.remove(&(entry.rank.0, entry.rank.1, group));
        } else {
            self.queue.remove(region, group);
        }
    }

    /// Moves groups that do not fit into the recency region to the priority region.
    fn demote(&mut self, probability: impl Fn(&Group) -> f64) {
        while self.pages[RECENCY] > self.most_recent {
            let group = self.queue.pop_front(RECENCY).expect("it holds pages");
            let entry = &mut self.groups[group as usize];
            self.pages[RECENCY] -= u32::from(entry.count);
            self.pages[PRIORITY] += u32::from(entry.count);
            entry.region = PRIORITY as u8;
            if self.policy == ReplicationPolicy::Pblru {
                entry.rank.0 = fixed(probability(entry));
                self.ranked.insert((entry.rank.0, entry.rank.1, group));
            } else {
                self.queue.push_back(PRIORITY, group);
            }
        }
    }

    /// Number of groups by their number of places, including the page's own, from 2 on.
    pub fn sizes(&self) -> [u64; MOST_SLOTS] {
        let mut sizes = [0; MOST_SLOTS];
        self.groups
            .iter()
            .filter(|group| group.count > 0)
            .for_each(|group| sizes[usize::from(group.count) - 1] += 1);
        sizes
    }

    /// Memory of the replication map and of the valid map, in bytes.
    pub fn bytes(&self) -> [usize; 2] {
        let entries = size_of::<Group>() + 4 + 4;
        let map = 4 * self.of_page.len() + entries * self.groups.len() + self.queue.bytes();
        [map + size_of::<(u32, u64, u32)>() * self.ranked.len(), 8 * self.valid.len()]
    }

    pub fn audit(&self) -> Result<(), String> {
        let mut seen = vec![false; self.groups.len()];
        for (number, group) in self.groups.iter().enumerate().filter(|(_, group)| group.count > 0) {
            if self.of_page[group.lpn as usize] != number as u32 {
                return Err(format!("page {} does not know its copies", group.lpn));
            }
            for &slot in group.slots() {
                if std::mem::replace(&mut seen[slot as usize], true) || !self.is_valid(slot) {
                    return Err(format!("place {slot} of page {} is not its own", group.lpn));
                }
            }
        }
        let valid: u32 = self.valid.iter().map(|word| word.count_ones()).sum();
        let held = seen.iter().filter(|&&seen| seen).count() as u32;
        if valid != held || held != self.pages.iter().sum::<u32>() {
            return Err(format!("{valid} valid copies, {held} in groups, {:?} queued", self.pages));
        }
        Ok(())
    }
}

fn fixed(probability: f64) -> u32 {
    (probability * f64::from(1 << 20)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// REPLICATION figure 3: seven groups, of which three make the priority region.
    fn figure_3(policy: ReplicationPolicy) -> String {
        let probability = |group: &Group| match group.lpn {
            0 => 0.06, // G
            1 => 0.03, // F
            2 => 0.08, // E
            _ => 0.01,
        };
        let mut groups = Groups::new(policy, 7, 7, 4.0 / 7.0);
        (0..7).for_each(|lpn| groups.add(lpn, probability));
        groups.audit().unwrap();
        assert!(groups.free_slot().is_none());
        let mut evicted = String::new();
        for _ in 0..3 {
            let victim = groups.victim(|_| true).unwrap();
            evicted.push(['G', 'F', 'E', 'D', 'C', 'B', 'A'][groups.remove(victim).lpn as usize]);
            groups.audit().unwrap();
        }
        evicted
    }

    #[test]
    fn pblru_keeps_what_is_blocked_more_often() {
        assert_eq!(figure_3(ReplicationPolicy::Lru), "GFE");
        assert_eq!(figure_3(ReplicationPolicy::Pblru), "FGE");
    }

    #[test]
    fn a_group_that_is_blocked_again_comes_to_the_head() {
        let mut groups = Groups::new(ReplicationPolicy::Lru, 3, 3, 0.5);
        (0..3).for_each(|lpn| groups.add(lpn, |_| 0.0));
        groups.touch(groups.of(0).unwrap(), |_| 0.0);
        let victim = groups.victim(|_| true).unwrap();
        assert_eq!(groups.get(victim).lpn, 1);
        // A group that may not go is skipped.
        let victim = groups.victim(|lpn| lpn != 1).unwrap();
        assert_eq!(groups.get(victim).lpn, 2);
        groups.audit().unwrap();
    }

    #[test]
    fn a_rank_follows_the_probability() {
        let mut groups = Groups::new(ReplicationPolicy::Pblru, 3, 3, 0.0);
        (0..3).for_each(|lpn| groups.add(lpn, |group| [0.3, 0.2, 0.4][group.lpn as usize]));
        groups.rerank(groups.of(1).unwrap(), |_| 0.5);
        let victim = groups.victim(|_| true).unwrap();
        assert_eq!(groups.get(victim).lpn, 0);
        groups.audit().unwrap();
    }
}
