//! The replication space: free slots, and the use of the partitions.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use units::Nanos;

use super::geometry::Geometry;
use crate::memory::hash_map_bytes;

/// Window in which a partition's use is measured, in nanoseconds.
const WINDOW: Nanos = 1_000_000_000;

/// A slot in use.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of commands below that read or write it.
    under_way: u32,
    /// True if no page has it any more: it is free when nothing is under way.
    is_given_up: bool,
    /// True if a write of it failed: it is not used again.
    is_bad: bool,
}

/// Commands of the layer under way in a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    under_way: u32,
    since: Nanos,
    /// Time with any command under way, in this window and the one before, in nanoseconds.
    busy: [Nanos; 2],
    window: u64,
}

impl Traffic {
    fn turn(&mut self, now: Nanos) {
        let window = now / WINDOW;
        if window != self.window {
            self.busy = [0, if window == self.window + 1 { self.busy[0] } else { 0 }];
            self.window = window;
        }
    }

    fn begins(&mut self, now: Nanos) {
        self.turn(now);
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
    }

    fn ends(&mut self, now: Nanos) {
        self.turn(now);
        self.under_way -= 1;
        if self.under_way == 0 {
            self.busy[0] += now.saturating_sub(self.since);
        }
    }
}

/// State of slots and partitions.
#[derive(Debug)]
pub struct Space {
    geometry: Geometry,
    /// Free slots of each partition: those given back, and the first that was never used.
    free: Vec<(Vec<u32>, u32)>,
    used: FxHashMap<u32, Slot>,
    traffic: Vec<Traffic>,
    random: Pcg64Mcg,
    candidates: Vec<u32>,
}

impl Space {
    pub fn new(geometry: Geometry, seed: u64) -> Self {
        let partitions = geometry.partitions as usize;
        Self {
            geometry,
            free: vec![(Vec::new(), 0); partitions],
            used: FxHashMap::default(),
            traffic: vec![Traffic::default(); partitions],
            random: Pcg64Mcg::seed_from_u64(seed),
            candidates: Vec::new(),
        }
    }

    /// Gives the most bytes that it takes with N slots. A list that grows takes twice its length
    /// for a while.
    pub const fn most_bytes(slots: u64) -> u64 {
        hash_map_bytes(slots, size_of::<(u32, Slot)>()) + slots * 2 * size_of::<u32>() as u64
    }

    fn has_free(&self, partition: u32) -> bool {
        let (given_back, unused) = &self.free[partition as usize];
        !given_back.is_empty() || *unused < self.geometry.slots_each()
    }

    /// Takes a free slot in a partition chosen at random, but none of `but`: one in which the layer
    /// has nothing under way, if possible, so that the replica delays nothing.
    pub fn take(&mut self, but: &[u32]) -> Option<u32> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let rests = |partition: &u32| self.traffic[*partition as usize].under_way == 0;
        let all = 0..self.geometry.partitions;
        candidates.extend(all.filter(|one| !but.contains(one) && self.has_free(*one)));
        if candidates.iter().any(rests) {
            candidates.retain(rests);
        }
        let chosen = match candidates.len() {
            0 => None,
            1 => Some(candidates[0]),
            count => Some(candidates[self.random.random_range(0..count)]),
        };
        candidates.clear();
        self.candidates = candidates;
        let partition = chosen?;
        let each = self.geometry.slots_each();
        let (given_back, unused) = &mut self.free[partition as usize];
        let slot = given_back.pop().unwrap_or_else(|| {
            *unused += 1;
            partition * each + *unused - 1
        });
        self.used.insert(slot, Slot::default());
        Some(slot)
    }

    /// Notes that a command begins to read or write a slot.
    pub fn begins(&mut self, slot: u32) {
        if let Some(slot) = self.used.get_mut(&slot) {
            slot.under_way += 1;
        }
    }

    /// Notes that such a command has ended.
    pub fn ends(&mut self, slot: u32) {
        if let Some(slot) = self.used.get_mut(&slot) {
            slot.under_way -= 1;
        }
        self.free_if_done(slot);
    }

    /// Notes that no page has a slot any more.
    pub fn give_up(&mut self, slot: u32) {
        if let Some(slot) = self.used.get_mut(&slot) {
            slot.is_given_up = true;
        }
        self.free_if_done(slot);
    }

    /// Notes that a write of a slot failed.
    pub fn is_bad(&mut self, slot: u32) {
        if let Some(slot) = self.used.get_mut(&slot) {
            slot.is_bad = true;
        }
    }

    /// Returns true if a command that reads or writes it is under way.
    pub fn is_under_way(&self, slot: u32) -> bool {
        self.used.get(&slot).is_some_and(|slot| slot.under_way > 0)
    }

    fn free_if_done(&mut self, number: u32) {
        let Some(slot) = self.used.get(&number) else { return };
        if slot.is_given_up && slot.under_way == 0 && !slot.is_bad {
            self.used.remove(&number);
            self.free[self.geometry.slot_partition(number) as usize].0.push(number);
        }
    }

    /// Notes that a command is sent to a partition.
    pub fn sent(&mut self, partition: u32, now: Nanos) {
        self.traffic[partition as usize].begins(now);
    }

    /// Notes that such a command has ended.
    pub fn ended(&mut self, partition: u32, now: Nanos) {
        self.traffic[partition as usize].ends(now);
    }

    /// Gives the use of a partition by the layer: the number of commands under way there, and the
    /// time in which there were any, over a second or two.
    pub fn utilization(&self, partition: u32, now: Nanos) -> (u32, Nanos) {
        let mut traffic = self.traffic[partition as usize];
        traffic.turn(now);
        let going_on = if traffic.under_way > 0 { now.saturating_sub(traffic.since) } else { 0 };
        (traffic.under_way, traffic.busy[0] + traffic.busy[1] + going_on)
    }

    /// Gives its memory, in bytes.
    pub fn bytes(&self) -> u64 {
        const USED: usize = (size_of::<(u32, Slot)>() + 1) * 8 / 7;
        let free: usize = self.free.iter().map(|(slots, _)| 4 * slots.len()).sum();
        let partitions = self.free.len() * (size_of::<Traffic>() + size_of::<(Vec<u32>, u32)>());
        (USED * self.used.len() + free + partitions) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn space() -> Space {
        let limits = Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1 << 16 };
        Space::new(Geometry::new(limits, 8, 4096, 0.1).unwrap(), 3)
    }

    #[test]
    fn partitions_are_drawn_at_random_and_rest_if_any_does() {
        let mut space = space();
        let mut drawn = [0; 8];
        for _ in 0..400 {
            let slot = space.take(&[2, 5]).unwrap();
            drawn[space.geometry.slot_partition(slot) as usize] += 1;
            space.give_up(slot);
        }
        assert!(drawn[2] == 0 && drawn[5] == 0, "{drawn:?}");
        assert!(drawn.iter().filter(|&&count| count > 40).count() == 6, "{drawn:?}");
        (0..8).filter(|&one| one != 6).for_each(|one| space.sent(one, 0));
        for _ in 0..20 {
            let slot = space.take(&[2, 5]).unwrap();
            assert_eq!(space.geometry.slot_partition(slot), 6);
            space.give_up(slot);
        }
        assert!(space.take(&[6]).is_some(), "where none rests any will do");
    }

    #[test]
    fn a_slot_is_free_when_nothing_reads_or_writes_it() {
        let mut space = space();
        let but: Vec<u32> = (1..8).collect();
        let slots: Vec<u32> = std::iter::from_fn(|| space.take(&but)).collect();
        assert_eq!(slots.len() as u32, space.geometry.slots_each());
        space.begins(slots[0]);
        space.give_up(slots[0]);
        assert_eq!(space.take(&but), None);
        space.ends(slots[0]);
        assert_eq!(space.take(&but), Some(slots[0]));
        space.is_bad(slots[1]);
        space.give_up(slots[1]);
        assert_eq!(space.take(&but), None, "what failed is not used again");
    }

    #[test]
    fn a_partition_is_used_while_something_is_under_way() {
        let mut space = space();
        space.sent(1, 100);
        space.sent(1, 200);
        space.ended(1, 300);
        assert_eq!(space.utilization(1, 400), (1, 300));
        space.ended(1, 600);
        assert_eq!(space.utilization(1, 700), (0, 500));
        assert_eq!(space.utilization(1, WINDOW + 1), (0, 500));
        assert_eq!(space.utilization(1, 2 * WINDOW + 1), (0, 0), "long past");
    }
}
