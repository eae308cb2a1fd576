//! One page in so many of a trace: a smaller load that a smaller drive amplifies as a whole drive
//! amplifies the whole.
//!
//! The sample is one in space (Waldspurger et al.: Efficient MRC Construction with SHARDS, USENIX
//! FAST 2015): what is in it is told by a hash that is below a threshold. Two things are done
//! otherwise, as it is writes that are sampled, and erase blocks that they fill:
//!
//! - It is drawn by groups of neighbours, as many as an erase block has pages, since what is
//!   written together lies in one erase block, and dies together.
//! - What is written most is not left to chance, or a page with a tenth of all writes would be
//!   missing, or have many times its share. Groups are drawn by rank: in the order of their writes,
//!   of each `one_in` that follow one another one is taken, the one that keeps the sum of writes
//!   nearest to its share. Of a group that is too much for that its pages are drawn by rank. Pages
//!   that are too much even so, such as the head of a log, are all taken, each with one write in
//!   `one_in`: they stay the hottest by far.

use std::ops::Range;
use std::path::Path;

use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use datasketches::hll::{HllSketch, HllType};
use rustc_hash::FxHashMap;
use units::{IoOp, Progress};

use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, open};
use crate::pages::pages_of;

/// Pages, and groups, of which writes are counted at once: three quarters of them are known, of
/// some 50 bytes each.
const COUNTED: usize = 1 << 19;
/// 2^14 registers: a standard error of 0.8 %.
const LG_REGISTERS: u8 = 14;
/// Pages that a sample has at least: 512 erase blocks of 64 pages. On fewer, the open erase blocks
/// of a policy take a share of the spare space that they do not have on a whole drive.
pub(crate) const LEAST_PAGES: u64 = 32 << 10;

/// Neighbours that are drawn together.
const GROUP_PAGES: u64 = 64;
/// A group is too much for the sample to have it, or not, if it takes more than this share of the
/// sample's writes: one in so many.
const OF_WRITES: u64 = 20;
/// A page is thinned out in time if it is still written so many times while the pages of the sample
/// are written once.
const TIMES_HOT: u64 = 100;

/// A page, or a group of pages, of a volume.
type Place = (u32, u64);

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// One page in so many is in it.
    pub one_in: u64,
    /// Page writes of the whole.
    pub page_writes: u64,
    /// Pages of the whole that are written, with a standard error of 0.8 %.
    pub pages: u64,
}

/// Decides which pages are in a sample.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) sampled: Sampled,
    threshold: u64,
    /// The groups that are written most, and of those that are [`Fate::Parted`] the pages.
    groups: FxHashMap<Place, Fate>,
    pages: FxHashMap<Place, Fate>,
}

/// What becomes of a page or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    In,
    Out,
    /// Of a page: in, with one write in so many. Of a group: its pages are drawn one by one.
    Parted,
}

impl Sample {
    /// Reads a trace once to find what is written most. Takes fewer than one page in
    /// `one_in` where that leaves less than [`LEAST_PAGES`]; `None` if that is every page.
    pub(crate) fn choose(
        path: &Path,
        how: &OpenOptions,
        page_size: u64,
        one_in: u64,
        progress: &Progress,
    ) -> Result<Option<Self>, TraceError> {
        let mut trace = open(path, how)?;
        if !trace.can_reopen() {
            return Err(TraceError::Unusable {
                path: path.to_owned(),
                reason: "a sample of it needs two passes".to_owned(),
                right: "a file that can be read again",
            });
        }
        let mut counts = Counts::new();
        let mut batch = Vec::with_capacity(BATCH_REQUESTS);
        while trace.read_batch(&mut batch, BATCH_REQUESTS)? > 0 {
            let by_volume = trace.facts().streams_are_volumes;
            for request in batch.iter().filter(|request| request.op == IoOp::Write) {
                let volume = if by_volume { request.stream } else { 0 };
                counts.add(volume, pages_of(request, page_size));
            }
            batch.clear();
            trace.report(progress)?;
        }
        Ok(counts.sample(one_in))
    }

    /// Returns true for a page of the sample.
    #[inline]
    pub(crate) fn has(&self, volume: u32, page: u64) -> bool {
        let group = page / GROUP_PAGES;
        match self.groups.get(&(volume, group)) {
            None => hash(volume, group) <= self.threshold,
            Some(Fate::In) => true,
            Some(Fate::Out) => false,
            Some(Fate::Parted) => match self.pages.get(&(volume, page)) {
                None => hash(volume, page) <= self.threshold,
                Some(fate) => *fate != Fate::Out,
            },
        }
    }

    /// Returns true for a write of the sample, by its number among all page writes of the trace.
    #[inline]
    pub(crate) fn has_write(&self, volume: u32, page: u64, number: u64) -> bool {
        let is_parted = || self.pages.get(&(volume, page)) == Some(&Fate::Parted);
        self.has(volume, page) && (hash(volume, number) <= self.threshold || !is_parted())
    }
}

/// Writes of groups and of pages: the most frequent ones, and how many different pages there are.
struct Counts {
    groups: FrequentItemsSketch<Place>,
    pages: FrequentItemsSketch<Place>,
    distinct: HllSketch,
}

impl Counts {
    fn new() -> Self {
        let counts = || {
            FrequentItemsSketch::new(COUNTED)
                .unwrap_or_else(|_| unreachable!("it is a power of two"))
        };
        let distinct = HllSketch::new(LG_REGISTERS, HllType::Hll8)
            .unwrap_or_else(|_| unreachable!("it is from 4 to 21"));
        Self { groups: counts(), pages: counts(), distinct }
    }

    fn add(&mut self, volume: u32, pages: Range<u64>) {
        let mut first = pages.start;
        while first < pages.end {
            let end = (first / GROUP_PAGES + 1) * GROUP_PAGES;
            let end = end.min(pages.end);
            self.groups.update_with_count((volume, first / GROUP_PAGES), end - first);
            for page in first..end {
                self.pages.update((volume, page));
                self.distinct.update(hash(volume, page));
            }
            first = end;
        }
    }

    fn sample(&self, one_in: u64) -> Option<Sample> {
        let pages = self.distinct.estimate().round() as u64;
        let one_in = one_in.min(pages / LEAST_PAGES);
        if one_in <= 1 {
            return None;
        }
        let page_writes = self.pages.total_weight();
        let groups = drawn(&self.groups, one_in, page_writes / (one_in * OF_WRITES), |_| true);
        let hottest = TIMES_HOT * one_in * page_writes / pages.max(1);
        let is_parted = |(volume, page): Place| {
            groups.get(&(volume, page / GROUP_PAGES)) == Some(&Fate::Parted)
        };
        let of_pages = drawn(&self.pages, one_in, hottest, is_parted);
        let sampled = Sampled { one_in, page_writes, pages };
        Some(Sample { sampled, threshold: u64::MAX / one_in, groups, pages: of_pages })
    }
}

/// Draws from the places that are surely written more often than those that were not counted.
/// Those that are written more than `most` times are parted.
fn drawn(
    counts: &FrequentItemsSketch<Place>,
    one_in: u64,
    most: u64,
    is_asked: impl Fn(Place) -> bool,
) -> FxHashMap<Place, Fate> {
    let rows = counts.frequent_items(ErrorType::NoFalsePositives);
    let asked = rows.iter().filter(|row| is_asked(*row.item()));
    let mut places: Vec<(u64, u64, Place)> =
        asked.map(|row| (row.estimate(), hash(row.item().0, row.item().1), *row.item())).collect();
    places.sort_unstable_by(|one, other| {
        other.0.cmp(&one.0).then(one.1.cmp(&other.1)).then(one.2.cmp(&other.2))
    });
    let (parted, places) = places.split_at(places.partition_point(|place| place.0 > most));
    let mut found: FxHashMap<Place, Fate> =
        parted.iter().map(|place| (place.2, Fate::Parted)).collect();
    // Writes that the sample has too many so far, times `one_in`.
    let mut excess = 0_i128;
    for stratum in places.chunks_exact(one_in as usize) {
        let sum: i128 = stratum.iter().map(|place| i128::from(place.0)).sum();
        let off = |place: &(u64, u64, Place)| {
            (excess + i128::from(place.0) * i128::from(one_in) - sum).unsigned_abs()
        };
        let Some(taken) = stratum.iter().min_by_key(|place| off(place)) else { continue };
        excess += i128::from(taken.0) * i128::from(one_in) - sum;
        let fate = |place: Place| if place == taken.2 { Fate::In } else { Fate::Out };
        found.extend(stratum.iter().map(|place| (place.2, fate(place.2))));
    }
    found
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
/// OOPSLA 2014) of a page, or of a group of pages, of a volume.
#[inline]
pub(crate) fn hash(volume: u32, number: u64) -> u64 {
    let mut hash = (u64::from(volume).wrapping_mul(0xd134_2543_de82_ef95) ^ number)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
