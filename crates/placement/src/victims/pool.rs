//! Closed erase blocks in no order, from which one can be drawn at random in O(1). Shared by the
//! policies that draw.

use units::EraseBlockId;

const ABSENT: u32 = u32::MAX;

/// For each domain a dense table of its closed blocks, and for each block its place in it.
#[derive(Debug)]
pub(super) struct Pool {
    members: Vec<Vec<u32>>,
    place: Vec<u32>,
}

impl Pool {
    pub fn new(erase_blocks: u32, domains: usize) -> Self {
        Self { members: vec![Vec::new(); domains], place: vec![ABSENT; erase_blocks as usize] }
    }

    pub fn len(&self, domain: usize) -> usize {
        self.members[domain].len()
    }

    pub fn get(&self, domain: usize, place: usize) -> EraseBlockId {
        EraseBlockId(self.members[domain][place])
    }

    pub fn insert(&mut self, domain: usize, block: EraseBlockId) {
        debug_assert_eq!(
            self.place[block.index()],
            ABSENT,
            "erase block {} is in the pool already",
            block.0
        );
        self.place[block.index()] = self.members[domain].len() as u32;
        self.members[domain].push(block.0);
    }

    pub fn remove(&mut self, domain: usize, block: EraseBlockId) {
        let place = std::mem::replace(&mut self.place[block.index()], ABSENT);
        debug_assert_ne!(place, ABSENT, "erase block {} is not in the pool", block.0);
        let members = &mut self.members[domain];
        members.swap_remove(place as usize);
        if let Some(&moved) = members.get(place as usize) {
            self.place[moved as usize] = place;
        }
    }
}
