//! When each page of a volume was last written: of all pages as long as they fit the memory, of a
//! sample of them from then on.
//!
//! The sample is one in space (Waldspurger et al.: Efficient MRC Construction with SHARDS, USENIX
//! FAST 2015): a group of pages is in it if its hash is below a threshold, which falls whenever the
//! memory is full. There pages are taken one by one. A page that is in the sample stands for as
//! many as the share of the sample says at that time.

use rustc_hash::FxHashMap;

use crate::pages::sample::hash;

/// Pages that are in the sample together: neighbours are mostly written together, and need one
/// entry.
const GROUP_PAGES: u64 = 8;
/// Groups that are allocated at once: 512 KiB.
const SEGMENT_GROUPS: usize = 4 << 10;
/// Bytes of a group and of the entry by which it is found, in a table that is half full.
const GROUP_BYTES: u64 = (size_of::<Group>() + 40) as u64;
const LEAST_GROUPS: u64 = 16;

const READ: u64 = 1 << 63;

/// Sixteen bytes a page.
#[derive(Clone, Copy, Default)]
struct Page {
    written_ns: u64,
    /// Number of the page write that wrote it last, from 1; the highest bit: it was read.
    write: u64,
}

#[derive(Clone, Copy, Default)]
struct Group([Page; GROUP_PAGES as usize]);

/// What is found of a run of pages that were written together before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    /// Time since.
    pub(super) lifetime_ns: u64,
    /// Page writes from that one to this one.
    pub(super) distance: u64,
    /// Pages, of the sample and what they stand for.
    pub(super) pages: u64,
}

/// Pages that are touched for the first time, or may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Firsts {
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) touched: u64,
}

pub(super) struct Pages {
    volume: u32,
    groups: FxHashMap<u64, u32>,
    segments: Vec<Box<[Group]>>,
    free: Vec<u32>,
    used: u32,
    most_groups: u64,
    /// One page in so many is in the sample, and the hashes that are.
    one_in: u64,
    threshold: u64,
    /// Page writes so far.
    writes: u64,
    firsts: Firsts,
}

impl Pages {
    pub(super) fn new(volume: u32, memory_bytes: u64, one_in: u64) -> Self {
        Self {
            volume,
            groups: FxHashMap::default(),
            segments: Vec::new(),
            free: Vec::new(),
            used: 0,
            most_groups: (memory_bytes / GROUP_BYTES).clamp(LEAST_GROUPS, 1 << 31),
            one_in: one_in.max(1),
            threshold: u64::MAX / one_in.max(1),
            writes: 0,
            firsts: Firsts::default(),
        }
    }

    /// One page in so many is in the sample.
    pub(super) fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Pages that were touched, once each; only those of the sample are counted.
    pub(super) fn firsts(&self) -> Firsts {
        self.firsts
    }

    /// Takes a read or a write of pages, `first` to `last`. `is_new` is told each page that may
    /// have been touched so for the first time, `rewritten` what was written before.
    pub(super) fn touch(
        &mut self,
        (first, last): (u64, u64),
        now_ns: u64,
        is_write: bool,
        mut is_new: impl FnMut(u64),
        mut rewritten: impl FnMut(Rewritten),
    ) {
        let mut run = Rewritten { lifetime_ns: 0, distance: 0, pages: 0 };
        let mut page = first;
        while page <= last {
            let number = page / GROUP_PAGES;
            let end = (number * GROUP_PAGES + (GROUP_PAGES - 1)).min(last);
            let write = self.writes + (page - first) + 1;
            if let Some(at) = self.place(number) {
                let places = (page % GROUP_PAGES) as usize..=(end % GROUP_PAGES) as usize;
                let group = &mut self.segments[at / SEGMENT_GROUPS][at % SEGMENT_GROUPS];
                for (index, state) in (0..).zip(&mut group.0[places]) {
                    let before =
                        std::mem::replace(state, state.touched(now_ns, write + index, is_write));
                    let was_written = before.write & !READ;
                    let is_first =
                        if is_write { was_written == 0 } else { before.write & READ == 0 };
                    if is_first {
                        is_new(page + index);
                        self.firsts.touched += u64::from(before.write == 0);
                        *(if is_write {
                            &mut self.firsts.written
                        } else {
                            &mut self.firsts.read
                        }) += 1;
                    }
                    if is_write && was_written > 0 {
                        let lifetime_ns = now_ns.saturating_sub(before.written_ns);
                        let distance = write + index - was_written;
                        if (run.lifetime_ns, run.distance) != (lifetime_ns, distance) {
                            if run.pages > 0 {
                                rewritten(run);
                            }
                            run = Rewritten { lifetime_ns, distance, pages: 0 };
                        }
                        run.pages += self.one_in;
                    }
                }
            } else {
                (page..=end).for_each(&mut is_new);
            }
            page = end + 1;
        }
        if run.pages > 0 {
            rewritten(run);
        }
        self.writes += if is_write { last - first + 1 } else { 0 };
    }

    /// Place of a group, made if it is in the sample.
    #[inline]
    fn place(&mut self, number: u64) -> Option<usize> {
        if self.one_in > 1 && self.hash(number) > self.threshold {
            return None;
        }
        if let Some(&place) = self.groups.get(&number) {
            return Some(place as usize);
        }
        self.add(number)
    }

    #[cold]
    fn add(&mut self, number: u64) -> Option<usize> {
        while self.groups.len() as u64 >= self.most_groups {
            self.thin_out();
        }
        if self.hash(number) > self.threshold {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            if (self.used as usize).is_multiple_of(SEGMENT_GROUPS) {
                self.segments.push(vec![Group::default(); SEGMENT_GROUPS].into_boxed_slice());
            }
            self.used += 1;
            self.used - 1
        });
        self.groups.insert(number, place);
        Some(place as usize)
    }

    /// Takes half of the pages out of the sample.
    fn thin_out(&mut self) {
        self.one_in *= 2;
        self.threshold /= 2;
        let (threshold, volume) = (self.threshold, self.volume);
        let (segments, free) = (&mut self.segments, &mut self.free);
        self.groups.retain(|number, place| {
            let is_kept = hash(volume, *number) <= threshold;
            if !is_kept {
                let at = *place as usize;
                segments[at / SEGMENT_GROUPS][at % SEGMENT_GROUPS] = Group::default();
                free.push(*place);
            }
            is_kept
        });
    }

    fn hash(&self, number: u64) -> u64 {
        hash(self.volume, number)
    }
}

impl Page {
    #[inline]
    fn touched(self, now_ns: u64, write: u64, is_write: bool) -> Self {
        if is_write {
            Self { written_ns: now_ns, write: write | (self.write & READ) }
        } else {
            Self { write: self.write | READ, ..self }
        }
    }
}
