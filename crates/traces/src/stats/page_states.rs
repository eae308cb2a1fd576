//! State of each page that was read or written, made when it is first touched.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::histogram::Octaves;

/// Pages of a chunk: few, so that pages far apart do not cost much more than neighbours.
const CHUNK_PAGES: usize = 16;
/// Chunks allocated at once: 3 MiB.
const SEGMENT_CHUNKS: usize = 1 << 14;
/// Chunks that are found in a flat table, those of the lowest addresses: 1 TiB of 4 KiB pages.
const NEAR_CHUNKS: usize = 1 << 24;

const READ: u32 = 1 << 31;
/// Windows that a page's 31 bits can tell apart; 0 is kept for "never".
const MOST_STAMPS: u64 = (1 << 31) - 2;

/// Twelve bytes a page.
#[derive(Clone, Copy, Debug, Default)]
struct PageState {
    /// Writes so far; stops at 2^32 - 1.
    writes: u32,
    /// Number of the page write that wrote it last, 0 if there is none or it lies too far back.
    last_write: u32,
    /// The highest bit: it was read. The others: 1 + the stretch of time in which it was last
    /// touched, 0 if never.
    touched: u32,
}

/// Pages by volume and page number.
#[derive(Debug)]
pub(super) struct PageStates {
    /// 1 + the number of each of the lowest chunks of the first volume, or 0. Zeroed memory that is
    /// never touched takes no room.
    near: Vec<u32>,
    /// The numbers of all other chunks, by volume and place in it.
    far: HashMap<(u32, u64), u32, FxBuildHasher>,
    segments: Vec<Box<[PageState]>>,
    chunks: usize,
    /// Page writes so far, less what was taken off to stay below `clock_limit`.
    clock: u32,
    clock_limit: u32,
    /// Stamps count stretches of time of 2^stamp_shift nanoseconds.
    stamp_shift: u32,
    pub(super) page_reads: u64,
    pub(super) page_writes: u64,
    pub(super) rewrite_distances: Octaves,
}

/// Time and kind of a touch of pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    /// The relative time of the touch, in nanoseconds.
    pub(super) now_ns: u64,
    pub(super) is_write: bool,
}

impl PageStates {
    pub(super) fn new() -> Self {
        Self::with_clock_limit(u32::MAX)
    }

    /// `clock_limit` is 2^k - 1: rewrite distances of 2^(k-1) and more are counted as one.
    fn with_clock_limit(clock_limit: u32) -> Self {
        Self {
            near: vec![0; NEAR_CHUNKS],
            far: HashMap::default(),
            segments: Vec::new(),
            chunks: 0,
            clock: 0,
            clock_limit,
            stamp_shift: 0,
            page_reads: 0,
            page_writes: 0,
            rewrite_distances: Octaves::new(),
        }
    }

    /// Touches the pages `first` ... `last`. For each, `tell` gets the highest power of two, as an
    /// exponent, for which windows of so many nanoseconds have the touch in another window than the
    /// one before; 63 for a page never touched before.
    #[inline]
    pub(super) fn touch(
        &mut self,
        volume: u32,
        first: u64,
        last: u64,
        touch: Touch,
        mut tell: impl FnMut(usize),
    ) {
        let stamp = (touch.now_ns >> self.stamp_shift) as u32 + 1;
        let mut page = first;
        loop {
            let end = (page | (CHUNK_PAGES as u64 - 1)).min(last);
            let chunk = self.chunk(volume, page / CHUNK_PAGES as u64);
            if self.clock >= self.clock_limit - CHUNK_PAGES as u32 {
                self.rewind_clock();
            }
            let in_chunk = page as usize % CHUNK_PAGES;
            let segment = &mut self.segments[chunk / SEGMENT_CHUNKS];
            let start = chunk % SEGMENT_CHUNKS * CHUNK_PAGES + in_chunk;
            for state in &mut segment[start..=start + (end - page) as usize] {
                let before = state.touched & !READ;
                if before != stamp {
                    let changed = if before == 0 {
                        63
                    } else {
                        self.stamp_shift + ((before - 1) ^ (stamp - 1)).ilog2()
                    };
                    tell(changed as usize);
                }
                state.touched = stamp | (state.touched & READ);
                if touch.is_write {
                    self.clock += 1;
                    if state.last_write > 0 {
                        let class =
                            (self.clock - state.last_write).ilog2().min(self.clock_limit.ilog2());
                        self.rewrite_distances.add_at(class);
                    } else if state.writes > 0 {
                        self.rewrite_distances.add_at(self.clock_limit.ilog2());
                    }
                    state.last_write = self.clock;
                    state.writes = state.writes.saturating_add(1);
                } else {
                    state.touched |= READ;
                }
            }
            if end == last {
                break;
            }
            page = end + 1;
        }
        let pages = last - first + 1;
        if touch.is_write {
            self.page_writes += pages;
        } else {
            self.page_reads += pages;
        }
    }

    /// Number of the chunk at this place, made if it is not there.
    #[inline]
    fn chunk(&mut self, volume: u32, place: u64) -> usize {
        let next = self.chunks as u32;
        let chunk = if volume == 0 && place < NEAR_CHUNKS as u64 {
            let entry = &mut self.near[place as usize];
            if *entry == 0 {
                *entry = next + 1;
            }
            *entry - 1
        } else {
            *self.far.entry((volume, place)).or_insert(next)
        };
        if chunk == next {
            self.grow();
        }
        chunk as usize
    }

    #[cold]
    fn grow(&mut self) {
        if self.chunks.is_multiple_of(SEGMENT_CHUNKS) {
            self.segments
                .push(vec![PageState::default(); SEGMENT_CHUNKS * CHUNK_PAGES].into_boxed_slice());
        }
        self.chunks += 1;
    }

    /// Finds the place of a page's state, for [`PageStates::bring_near`].
    #[inline]
    pub(super) fn locate(&mut self, volume: u32, page: u64) -> usize {
        self.chunk(volume, page / CHUNK_PAGES as u64) * CHUNK_PAGES + page as usize % CHUNK_PAGES
    }

    /// Reads the states at these places and nothing else, so that the waits for memory overlap:
    /// states of pages in random order are not in a cache, and one after another each would be
    /// waited for.
    #[inline]
    pub(super) fn bring_near(&self, places: &[usize]) {
        let segment = SEGMENT_CHUNKS * CHUNK_PAGES;
        let read = places
            .iter()
            .fold(0, |read, place| read ^ self.segments[place / segment][place % segment].touched);
        std::hint::black_box(read);
    }

    fn all(&self) -> impl Iterator<Item = &PageState> {
        self.segments.iter().flat_map(|segment| segment.iter()).take(self.chunks * CHUNK_PAGES)
    }

    /// Takes off so much that distances below half the limit stay exact; longer ones are no longer
    /// told apart.
    #[cold]
    fn rewind_clock(&mut self) {
        let back = self.clock - self.clock_limit.div_ceil(2);
        self.clock -= back;
        self.segments
            .iter_mut()
            .flat_map(|s| s.iter_mut())
            .for_each(|state| state.last_write = state.last_write.saturating_sub(back));
    }

    /// Makes stamps coarser if this time (the latest so far) would not fit: windows are at least
    /// 2^window_shift ns by now.
    #[inline]
    pub(super) fn make_room(&mut self, now_ns: u64, window_shift: u32) {
        if now_ns >> self.stamp_shift > MOST_STAMPS {
            self.coarsen(window_shift);
        }
    }

    #[cold]
    fn coarsen(&mut self, window_shift: u32) {
        // After a long gap all stamps of 31 bits fall into the first window: so does a shift by 31.
        let by = (window_shift - self.stamp_shift).min(31);
        for state in self.segments.iter_mut().flat_map(|segment| segment.iter_mut()) {
            let stamp = state.touched & !READ;
            if stamp > 0 {
                state.touched = (state.touched & READ) | (((stamp - 1) >> by) + 1);
            }
        }
        self.stamp_shift = window_shift;
    }

    /// Pages touched, pages read, pages written.
    pub(super) fn footprint(&self) -> [u64; 3] {
        self.all().fold([0; 3], |[all, read, written], state| {
            [
                all + u64::from(state.touched > 0),
                read + u64::from(state.touched & READ > 0),
                written + u64::from(state.writes > 0),
            ]
        })
    }

    /// Writes of each page written, in no order that means anything.
    pub(super) fn write_counts(&self) -> impl Iterator<Item = u32> {
        self.all().map(|state| state.writes).filter(|&writes| writes > 0)
    }

    /// First rewrite distance that is not told apart from longer ones.
    pub(super) fn open_distance(&self) -> u64 {
        1 << self.clock_limit.ilog2()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With a clock that is wound back every few hundred writes, distances are as without, up
        /// to the open class.
        #[test]
        fn winding_back_the_clock_changes_no_distance(
            pages in prop::collection::vec(0u64..60, 1..6000),
            bits in 6u32..12,
        ) {
            let mut states = PageStates::with_clock_limit((1 << bits) - 1);
            let (mut last, mut expected) = (HashMap::new(), [0u64; 64]);
            for (now, &page) in pages.iter().enumerate() {
                states.touch(0, page, page, Touch { now_ns: 0, is_write: true }, |_| ());
                if let Some(before) = last.insert(page, now) {
                    expected[((now - before) as u64).ilog2().min(bits - 1) as usize] += 1;
                }
            }
            let found: Vec<u64> = (0..64)
                .map(|e| {
                    Octaves::rows([&states.rewrite_distances])
                        .find(|r| r.0 == 1 << e)
                        .map_or(0, |r| r.2[0])
                })
                .collect();
            prop_assert_eq!(&found[..], &expected[..]);
        }
    }
}
