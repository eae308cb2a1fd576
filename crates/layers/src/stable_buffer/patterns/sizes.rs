//! Things by their size: all of one size, and the greatest, each in O(1).

const NONE: u32 = u32::MAX;

/// Lists of things, one for each size, and which of them are not empty. A thing is known by a small
/// number.
#[derive(Debug)]
pub struct Sizes {
    first: Vec<u32>,
    count: Vec<u32>,
    /// Neighbours of each thing in its list.
    next: Vec<u32>,
    previous: Vec<u32>,
    /// A bit for each size whose list is not empty.
    filled: Vec<u64>,
}

impl Sizes {
    /// For things of at most this size, and at most so many.
    pub fn new(most: u32) -> Self {
        let sizes = most as usize + 1;
        Self {
            first: vec![NONE; sizes],
            count: vec![0; sizes],
            next: vec![NONE; sizes],
            previous: vec![NONE; sizes],
            filled: vec![0; sizes.div_ceil(64)],
        }
    }

    /// There is a thing of this size.
    pub fn insert(&mut self, thing: u32, size: u32) {
        let first = self.first[size as usize];
        self.next[thing as usize] = first;
        self.previous[thing as usize] = NONE;
        if first == NONE {
            self.filled[size as usize / 64] |= 1 << (size % 64);
        } else {
            self.previous[first as usize] = thing;
        }
        self.first[size as usize] = thing;
        self.count[size as usize] += 1;
    }

    /// There is no such thing of this size any more.
    pub fn remove(&mut self, thing: u32, size: u32) {
        let (next, previous) = (self.next[thing as usize], self.previous[thing as usize]);
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        if previous == NONE {
            self.first[size as usize] = next;
            if next == NONE {
                self.filled[size as usize / 64] &= !(1 << (size % 64));
            }
        } else {
            self.next[previous as usize] = next;
        }
        self.count[size as usize] -= 1;
    }

    /// The greatest size; 0 if there is nothing.
    pub fn greatest(&self) -> u32 {
        let word = self.filled.iter().rposition(|&bits| bits != 0);
        word.map_or(0, |word| word as u32 * 64 + 63 - self.filled[word].leading_zeros())
    }

    /// Things of this size.
    pub fn count(&self, size: u32) -> u32 {
        self.count[size as usize]
    }

    /// All things of this size, in no order.
    pub fn of(&self, size: u32) -> impl Iterator<Item = u32> {
        let at = |thing: u32| (thing != NONE).then_some(thing);
        std::iter::successors(at(self.first[size as usize]), move |&thing| {
            at(self.next[thing as usize])
        })
    }

    /// Sizes of which there are things, ascending.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        self.filled.iter().enumerate().flat_map(|(word, &bits)| {
            std::iter::successors((bits != 0).then_some(bits), |bits| {
                Some(bits & (bits - 1)).filter(|&rest| rest != 0)
            })
            .map(move |bits| word as u32 * 64 + bits.trailing_zeros())
        })
    }
}
