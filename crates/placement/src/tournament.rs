//! A search for the best of many erase blocks whose worth as victims grows with time, each at its
//! own pace.

use units::EraseBlockId;

use crate::Device;

/// Worth of cleaning an erase block: `at_zero` + `slope` x the clock, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worth {
    pub at_zero: f64,
    pub slope: f64,
}

impl Worth {
    /// Greater than any other: cleaning costs nothing.
    pub const MOST: Self = Self::constant(f64::MAX);

    /// Less than any other: there is no erase block here.
    const NONE: Self = Self::constant(f64::MIN);

    /// A worth that is the same at all times.
    pub const fn constant(worth: f64) -> Self {
        Self { at_zero: worth, slope: 0.0 }
    }

    fn at(self, clock: f64) -> f64 {
        self.at_zero + self.slope * clock
    }

    /// The time at which `other`, which is worth no more now, is worth more; infinite if it never
    /// is.
    fn overtaken_by(self, other: Self) -> f64 {
        if other.slope > self.slope {
            (self.at_zero - other.at_zero) / (other.slope - self.slope)
        } else {
            f64::INFINITY
        }
    }
}

const ABSENT: u32 = u32::MAX;

/// A match: the leaf that won, and the time until which all matches of this subtree keep their
/// outcome.
#[derive(Clone, Copy, Debug)]
struct Match {
    winner: u32,
    until: f64,
}

/// Erase blocks of one domain in a kinetic tournament: two worths cross at most once, so each match
/// knows how long its outcome holds, and a choice replays only those that have expired. Changes
/// between two choices are replayed once, at the next choice.
#[derive(Debug, Default)]
struct Tree {
    /// Indexed by leaf.
    worths: Vec<Worth>,
    blocks: Vec<u32>,
    free: Vec<u32>,
    /// The root is 1; the children of n are 2n and 2n + 1, the leaves follow.
    matches: Vec<Match>,
    is_changed: Vec<bool>,
    changed: Vec<u32>,
}

impl Tree {
    fn insert(&mut self, block: u32, worth: Worth) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        let leaf = self.free.pop().expect("there is room now");
        self.blocks[leaf as usize] = block;
        self.set(leaf, worth);
        leaf
    }

    /// Doubles the leaves. All matches are played again.
    #[cold]
    fn grow(&mut self) {
        let (before, leaves) = (self.worths.len(), (2 * self.worths.len()).max(64));
        self.worths.resize(leaves, Worth::NONE);
        self.blocks.resize(leaves, ABSENT);
        self.is_changed.resize(leaves, false);
        self.free.extend((before as u32..leaves as u32).rev());
        self.matches = vec![Match { winner: 0, until: f64::NEG_INFINITY }; leaves];
    }

    fn set(&mut self, leaf: u32, worth: Worth) {
        self.worths[leaf as usize] = worth;
        if !std::mem::replace(&mut self.is_changed[leaf as usize], true) {
            self.changed.push(leaf);
        }
    }

    fn remove(&mut self, leaf: u32) {
        self.blocks[leaf as usize] = ABSENT;
        self.set(leaf, Worth::NONE);
        self.free.push(leaf);
    }

    /// Gives the leaf that is worth most.
    fn best(&mut self, clock: f64) -> Option<u32> {
        let leaves = self.worths.len();
        if leaves == 0 {
            return None;
        }
        while let Some(leaf) = self.changed.pop() {
            self.is_changed[leaf as usize] = false;
            let mut node = (leaves + leaf as usize) / 2;
            // The matches above an expired one have expired, too.
            while node > 0 && self.matches[node].until > f64::NEG_INFINITY {
                self.matches[node].until = f64::NEG_INFINITY;
                node /= 2;
            }
        }
        self.play(1, clock);
        let winner = self.matches[1].winner;
        (self.blocks[winner as usize] != ABSENT).then_some(winner)
    }

    /// Replays the expired matches of a subtree.
    fn play(&mut self, node: usize, clock: f64) -> Match {
        let leaves = self.worths.len();
        if node >= leaves {
            return Match { winner: (node - leaves) as u32, until: f64::INFINITY };
        }
        if self.matches[node].until > clock {
            return self.matches[node];
        }
        let (left, right) = (self.play(2 * node, clock), self.play(2 * node + 1, clock));
        let [a, b] = [left, right].map(|side| self.worths[side.winner as usize]);
        let is_left = match a.at(clock).total_cmp(&b.at(clock)) {
            std::cmp::Ordering::Equal => a.slope >= b.slope,
            order => order.is_gt(),
        };
        let (winner, holds) = if is_left {
            (left.winner, a.overtaken_by(b))
        } else {
            (right.winner, b.overtaken_by(a))
        };
        let until = holds.min(left.until).min(right.until);
        self.matches[node] = Match { winner, until };
        self.matches[node]
    }
}

/// Closed erase blocks by the worth of cleaning them, in each domain.
#[derive(Debug)]
pub(crate) struct Tournament {
    trees: Vec<Tree>,
    /// For each erase block: its leaf in the tree of its domain.
    leaves: Vec<u32>,
    domains: Vec<u16>,
}

impl Tournament {
    pub fn new(erase_blocks: u32) -> Self {
        let blocks = erase_blocks as usize;
        Self { trees: Vec::new(), leaves: vec![ABSENT; blocks], domains: vec![0; blocks] }
    }

    /// Inserts an erase block that is not in yet.
    pub fn insert(&mut self, block: EraseBlockId, domain: usize, worth: Worth) {
        if self.trees.len() <= domain {
            self.trees.resize_with(domain + 1, Tree::default);
        }
        assert!(self.leaves[block.index()] == ABSENT, "erase block {} is closed twice", block.0);
        self.domains[block.index()] = domain as u16;
        self.leaves[block.index()] = self.trees[domain].insert(block.0, worth);
    }

    /// Changes the worth of an erase block, if it is in.
    #[inline]
    pub fn set(&mut self, block: EraseBlockId, worth: impl FnOnce() -> Worth) {
        let leaf = self.leaves[block.index()];
        if leaf != ABSENT {
            self.trees[usize::from(self.domains[block.index()])].set(leaf, worth());
        }
    }

    /// Takes out the erase block of the domain that is worth most now.
    pub fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let tree = self.trees.get_mut(domain)?;
        let leaf = tree.best(device.clock as f64)?;
        let block = EraseBlockId(tree.blocks[leaf as usize]);
        self.remove(block);
        Some(block)
    }

    /// Takes out an erase block that is in.
    pub fn remove(&mut self, block: EraseBlockId) {
        let leaf = std::mem::replace(&mut self.leaves[block.index()], ABSENT);
        self.trees[usize::from(self.domains[block.index()])].remove(leaf);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;
    use units::{EraseBlockId, Geometry};

    use super::{Tournament, Worth};
    use crate::Device;

    const BLOCKS: u32 = 150;

    fn device() -> Device {
        let geometry = Geometry::with_over_provisioning(4096, 16, 16 * 100, 0.5).expect("valid");
        Device::new(geometry, 1)
    }

    /// Worths change, erase blocks come and go, time passes: each choice is the best by a search of
    /// all.
    #[test]
    fn the_choice_is_the_best_of_all_at_that_time() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let (mut tournament, mut device) = (Tournament::new(BLOCKS), device());
        let mut known: Vec<Option<(usize, Worth)>> = vec![None; BLOCKS as usize];
        let mut overtakings = 0;
        for _ in 0..40_000 {
            device.clock += random.random_range(0..40);
            let block = random.random_range(0..BLOCKS);
            let clock = device.clock as f64;
            let slope = f64::from(random.random_range(0..50_u32)) / 8.0;
            let worth =
                Worth { at_zero: slope * (random.random_range(-99.0..99.0) - clock), slope };
            let place = &mut known[block as usize];
            match random.random_range(0..4) {
                0 if place.is_none() => {
                    let domain = random.random_range(0..3);
                    *place = Some((domain, worth));
                    tournament.insert(EraseBlockId(block), domain, worth);
                }
                1 => {
                    tournament.set(EraseBlockId(block), || worth);
                    place.iter_mut().for_each(|(_, known)| *known = worth);
                }
                2 if random.random_range(0..9) == 0 && place.take().is_some() => {
                    tournament.remove(EraseBlockId(block));
                }
                3 if random.random_range(0..3) == 0 => {
                    let domain = random.random_range(0..4);
                    let of_domain = |known: &Option<(usize, Worth)>| {
                        known.filter(|(of, _)| *of == domain).map(|(_, worth)| worth.at(clock))
                    };
                    let best = known.iter().filter_map(of_domain).max_by(f64::total_cmp);
                    let chosen = tournament.choose(domain, &device);
                    let taken = chosen.and_then(|block| known[block.index()].take());
                    assert_eq!(
                        taken.map(|(of, worth)| (of, worth.at(clock))),
                        best.map(|worth| (domain, worth))
                    );
                    overtakings += u32::from(chosen.is_some());
                }
                _ => {}
            }
        }
        assert!(overtakings > 1000, "{overtakings}");
    }

    /// Only time passes.
    #[test]
    fn one_that_grows_faster_is_worth_more_later() {
        let (mut tournament, mut device) = (Tournament::new(BLOCKS), device());
        tournament.insert(EraseBlockId(7), 0, Worth::constant(100.0));
        tournament.insert(EraseBlockId(3), 0, Worth { at_zero: 0.0, slope: 1.0 });
        tournament.insert(EraseBlockId(5), 0, Worth { at_zero: -300.0, slope: 2.0 });
        device.clock = 50;
        assert_eq!(tournament.choose(0, &device), Some(EraseBlockId(7)));
        tournament.insert(EraseBlockId(7), 0, Worth::constant(100.0));
        device.clock = 150;
        assert_eq!(tournament.choose(0, &device), Some(EraseBlockId(3)));
        device.clock = 201;
        assert_eq!(tournament.choose(0, &device), Some(EraseBlockId(5)));
        tournament.insert(EraseBlockId(5), 0, Worth::MOST);
        assert_eq!(tournament.choose(0, &device), Some(EraseBlockId(5)));
        assert_eq!(tournament.choose(0, &device), Some(EraseBlockId(7)));
        assert_eq!(tournament.choose(0, &device), None);
    }
}
