//! Buffered pages by the logical erase block that they belong to: whole erase blocks leave, the one
//! written to least recently first.

use units::Lpn;

use units::lists::{Lists, NONE};

/// The order of BPLRU (Kim and Ahn, FAST 2008) without its page padding, which would be reads, and
/// without its rule that an erase block written in sequence goes first.
///
/// The pages of the current erase block are given in ascending order. A page that is added to it
/// meanwhile goes along if its place is still ahead.
#[derive(Clone, Debug)]
pub(super) struct EraseBlockOrder {
    pages_per_erase_block: u32,
    words_per_erase_block: usize,
    /// A bit for each page that may be flushed now; each erase block begins with a new word.
    ready: Vec<u64>,
    /// Number of waiting pages of each erase block, including those that may not be flushed yet.
    waiting: Vec<u32>,
    /// Erase blocks with waiting pages, the one written to least recently first.
    recency: Lists,
    /// The current erase block, [`NONE`] if there is none.
    current: u32,
    /// Its pages below this one were given.
    cursor: u32,
}

impl EraseBlockOrder {
    pub fn new(logical_pages: u32, pages_per_erase_block: u32) -> Self {
        assert!(pages_per_erase_block > 0, "an erase block has pages");
        let erase_blocks = logical_pages.div_ceil(pages_per_erase_block);
        let words_per_erase_block = pages_per_erase_block.div_ceil(u64::BITS) as usize;
        Self {
            pages_per_erase_block,
            words_per_erase_block,
            ready: vec![0; erase_blocks as usize * words_per_erase_block],
            waiting: vec![0; erase_blocks as usize],
            recency: Lists::new(erase_blocks, 1),
            current: NONE,
            cursor: 0,
        }
    }

    pub fn bytes(&self) -> usize {
        self.ready.len() * size_of::<u64>()
            + self.waiting.len() * size_of::<u32>()
            + self.recency.bytes()
    }

    #[inline]
    pub fn erase_block_of(&self, lpn: Lpn) -> u32 {
        lpn.0 / self.pages_per_erase_block
    }

    /// Adds a page that began to wait; `ready` if it may be flushed now.
    pub fn stored(&mut self, lpn: Lpn, ready: bool) {
        let block = self.erase_block_of(lpn);
        self.waiting[block as usize] += 1;
        if self.waiting[block as usize] == 1 {
            self.recency.push_back(0, block);
        } else {
            self.recency.move_to_back(0, block);
        }
        if ready {
            self.make_ready(lpn);
        }
    }

    /// Records that a waiting page was overwritten.
    pub fn touched(&mut self, lpn: Lpn) {
        let block = self.erase_block_of(lpn);
        self.recency.move_to_back(0, block);
    }

    /// Marks a waiting page that may be flushed from now on.
    pub fn make_ready(&mut self, lpn: Lpn) {
        let (word, bit) = self.place_of(lpn);
        self.ready[word] |= bit;
    }

    /// Removes a page that no longer waits.
    pub fn left(&mut self, lpn: Lpn) {
        let (word, bit) = self.place_of(lpn);
        self.ready[word] &= !bit;
        let block = self.erase_block_of(lpn);
        assert!(self.waiting[block as usize] > 0, "page {} does not wait", lpn.0);
        self.waiting[block as usize] -= 1;
        if self.waiting[block as usize] == 0 {
            self.recency.remove(0, block);
        }
    }

    /// Returns true if the current erase block has more pages to give.
    pub fn goes_on(&self) -> bool {
        self.next_of_current().is_some()
    }

    /// Gives the next page: of the current erase block, or else of the one that contains
    /// `preferred`, or else of the one written to least recently. The page stays until
    /// [`EraseBlockOrder::left`] is called.
    ///
    /// Erase blocks whose waiting pages all wait for their older versions are skipped; there are at
    /// most as many as pages in flight.
    pub fn next(&mut self, preferred: Option<Lpn>) -> Option<Lpn> {
        if !self.goes_on() {
            self.cursor = 0;
            self.current = match preferred {
                Some(lpn) => self.erase_block_of(lpn),
                None => self.recency.first(0),
            };
            while self.current != NONE && !self.goes_on() {
                self.current = self.recency.next(self.current);
            }
        }
        let page = self.next_of_current()?;
        self.cursor = page + 1;
        Some(Lpn(self.current * self.pages_per_erase_block + page))
    }

    /// Leaves the current erase block.
    pub fn restart(&mut self) {
        self.current = NONE;
    }

    fn next_of_current(&self) -> Option<u32> {
        if self.current == NONE || self.cursor >= self.pages_per_erase_block {
            return None;
        }
        let first = self.current as usize * self.words_per_erase_block;
        let words = &self.ready[first..first + self.words_per_erase_block];
        let mut index = (self.cursor / u64::BITS) as usize;
        let mut word = words[index] & (u64::MAX << (self.cursor % u64::BITS));
        while word == 0 {
            index += 1;
            word = *words.get(index)?;
        }
        Some(index as u32 * u64::BITS + word.trailing_zeros())
    }

    #[inline]
    fn place_of(&self, lpn: Lpn) -> (usize, u64) {
        let block = self.erase_block_of(lpn);
        let page = lpn.0 - block * self.pages_per_erase_block;
        (
            block as usize * self.words_per_erase_block + (page / u64::BITS) as usize,
            1 << (page % u64::BITS),
        )
    }
}
