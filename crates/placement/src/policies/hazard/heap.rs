//! Binary heaps of erase blocks, the greatest key first, whose keys may change.

const ABSENT: u32 = u32::MAX;

/// One heap a domain. An erase block is in one or in none.
#[derive(Debug)]
pub struct Heaps {
    heaps: Vec<Vec<u32>>,
    /// Place of each erase block in its heap.
    places: Vec<u32>,
    keys: Vec<f32>,
}

impl Heaps {
    pub fn new(erase_blocks: u32) -> Self {
        let blocks = erase_blocks as usize;
        Self { heaps: Vec::new(), places: vec![ABSENT; blocks], keys: vec![0.0; blocks] }
    }

    #[inline]
    pub fn contains(&self, block: u32) -> bool {
        self.places[block as usize] != ABSENT
    }

    /// The erase blocks of a domain, in the order of their places: the first is the best, and those
    /// after it are good ones.
    pub fn of(&self, domain: usize) -> &[u32] {
        self.heaps.get(domain).map_or(&[], |heap| heap)
    }

    #[inline]
    pub fn key(&self, block: u32) -> f32 {
        self.keys[block as usize]
    }

    pub fn insert(&mut self, domain: usize, block: u32, key: f32) {
        while self.heaps.len() <= domain {
            self.heaps.push(Vec::new());
        }
        self.keys[block as usize] = key;
        let place = self.heaps[domain].len();
        self.heaps[domain].push(block);
        self.up(domain, place);
    }

    pub fn remove(&mut self, domain: usize, block: u32) {
        let place = self.places[block as usize] as usize;
        let last = self.heaps[domain].pop().expect("an erase block is taken out of its heap");
        self.places[block as usize] = ABSENT;
        if last != block {
            self.heaps[domain][place] = last;
            self.places[last as usize] = place as u32;
            self.moved(domain, place);
        }
    }

    pub fn change(&mut self, domain: usize, block: u32, key: f32) {
        self.keys[block as usize] = key;
        self.moved(domain, self.places[block as usize] as usize);
    }

    fn moved(&mut self, domain: usize, place: usize) {
        if self.up(domain, place) == place {
            self.down(domain, place);
        }
    }

    /// Among equals the lower number comes first, so that the order does not depend on history.
    #[inline]
    fn is_before(&self, one: u32, other: u32) -> bool {
        let (a, b) = (self.keys[one as usize], self.keys[other as usize]);
        a > b || a == b && one < other
    }

    fn up(&mut self, domain: usize, mut place: usize) -> usize {
        let block = self.heaps[domain][place];
        while place > 0 {
            let above = (place - 1) / 2;
            let other = self.heaps[domain][above];
            if !self.is_before(block, other) {
                break;
            }
            self.heaps[domain][place] = other;
            self.places[other as usize] = place as u32;
            place = above;
        }
        self.heaps[domain][place] = block;
        self.places[block as usize] = place as u32;
        place
    }

    fn down(&mut self, domain: usize, mut place: usize) {
        let block = self.heaps[domain][place];
        let size = self.heaps[domain].len();
        loop {
            let mut below = 2 * place + 1;
            if below >= size {
                break;
            }
            if below + 1 < size
                && self.is_before(self.heaps[domain][below + 1], self.heaps[domain][below])
            {
                below += 1;
            }
            let other = self.heaps[domain][below];
            if !self.is_before(other, block) {
                break;
            }
            self.heaps[domain][place] = other;
            self.places[other as usize] = place as u32;
            place = below;
        }
        self.heaps[domain][place] = block;
        self.places[block as usize] = place as u32;
    }
}
