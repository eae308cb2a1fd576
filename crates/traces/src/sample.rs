//! One page in so many of a trace: a smaller load that a smaller drive amplifies as a whole drive
//! amplifies the whole.
//!
//! The sample is one in space (Waldspurger et al.: Efficient MRC Construction with SHARDS, USENIX
//! FAST 2015): a page is in it if its hash is below a threshold. That alone does not do for
//! writes: a page with a tenth of them all is missing, or has many times its share. So the pages
//! that are written most are drawn by rank: in the order of their writes, of each `one_in` that
//! follow one another one is taken, the one that keeps the sum of writes nearest to its share. The
//! few at the top, such as the head of a log, are all taken, each with one write in `one_in`: they
//! stay the hottest by far.

use std::path::Path;

use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use datasketches::hll::{HllSketch, HllType};
use rustc_hash::FxHashMap;
use units::{IoOp, Progress};

use crate::error::TraceError;
use crate::open::{BATCH_REQUESTS, OpenOptions, open};
use crate::pages::pages_of;

/// Pages of which writes are counted at once: three quarters of them are known, of some 50 bytes
/// each.
const COUNTED_PAGES: usize = 1 << 19;
/// 2^14 registers: a standard error of 0.8 %.
const LG_REGISTERS: u8 = 14;
/// Pages that a sample has at least: 256 erase blocks of 64 pages. On fewer, the open erase blocks
/// of a policy take a share of the spare space that they do not have on a whole drive.
pub(crate) const LEAST_PAGES: u64 = 16 << 10;

/// A page is thinned out in time if it is still written so many times while the pages of the sample
/// are written once.
const TIMES_HOT: u64 = 100;

/// A page of a volume.
type Page = (u32, u64);

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
    /// The pages that are written most.
    busiest: FxHashMap<Page, Fate>,
}

/// What becomes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    In,
    Out,
    /// In, with one write in so many.
    Thinned,
}

impl Sample {
    /// Reads a trace once to find the pages that are written most. Takes fewer than one page in
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
        progress.set_total(trace.total_bytes());
        let mut counts = FrequentItemsSketch::<Page>::new(COUNTED_PAGES)
            .unwrap_or_else(|_| unreachable!("it is a power of two"));
        let mut distinct = HllSketch::new(LG_REGISTERS, HllType::Hll8)
            .unwrap_or_else(|_| unreachable!("it is from 4 to 21"));
        let mut batch = Vec::with_capacity(BATCH_REQUESTS);
        while trace.read_batch(&mut batch, BATCH_REQUESTS)? > 0 {
            let by_volume = trace.facts().streams_are_volumes;
            for request in batch.iter().filter(|request| request.op == IoOp::Write) {
                let volume = if by_volume { request.stream } else { 0 };
                for page in pages_of(request, page_size) {
                    counts.update((volume, page));
                    distinct.update(hash(volume, page));
                }
            }
            batch.clear();
            trace.report(progress)?;
        }
        let pages = distinct.estimate().round() as u64;
        let one_in = one_in.min(pages / LEAST_PAGES);
        let sampled = Sampled { one_in, page_writes: counts.total_weight(), pages };
        Ok((one_in > 1).then(|| Self {
            sampled,
            threshold: u64::MAX / one_in,
            busiest: drawn(&counts, &sampled),
        }))
    }

    /// Returns true for a page of the sample.
    #[inline]
    pub(crate) fn has(&self, volume: u32, page: u64) -> bool {
        match self.busiest.get(&(volume, page)) {
            Some(fate) => *fate != Fate::Out,
            None => hash(volume, page) <= self.threshold,
        }
    }

    /// Returns true for a write of the sample, by its number among all page writes of the trace.
    #[inline]
    pub(crate) fn has_write(&self, volume: u32, page: u64, number: u64) -> bool {
        match self.busiest.get(&(volume, page)) {
            Some(Fate::In) => true,
            Some(Fate::Out) => false,
            Some(Fate::Thinned) => hash(volume, number) <= self.threshold,
            None => hash(volume, page) <= self.threshold,
        }
    }
}

/// Draws from the pages that are surely written more often than those that were not counted.
fn drawn(counts: &FrequentItemsSketch<Page>, sampled: &Sampled) -> FxHashMap<Page, Fate> {
    let one_in = sampled.one_in;
    let hottest = TIMES_HOT * one_in * sampled.page_writes / sampled.pages.max(1);
    let mut pages: Vec<(u64, u64, Page)> = counts
        .frequent_items(ErrorType::NoFalsePositives)
        .iter()
        .map(|row| (row.estimate(), hash(row.item().0, row.item().1), *row.item()))
        .collect();
    pages.sort_unstable_by(|one, other| {
        other.0.cmp(&one.0).then(one.1.cmp(&other.1)).then(one.2.cmp(&other.2))
    });
    let (thinned, pages) = pages.split_at(pages.partition_point(|page| page.0 > hottest));
    let mut found: FxHashMap<Page, Fate> =
        thinned.iter().map(|page| (page.2, Fate::Thinned)).collect();
    // Writes that the sample has too many so far, times `one_in`.
    let mut excess = 0_i128;
    for stratum in pages.chunks_exact(one_in as usize) {
        let sum: i128 = stratum.iter().map(|page| i128::from(page.0)).sum();
        let off = |page: &(u64, u64, Page)| {
            (excess + i128::from(page.0) * i128::from(one_in) - sum).unsigned_abs()
        };
        let Some(taken) = stratum.iter().min_by_key(|page| off(page)) else { continue };
        excess += i128::from(taken.0) * i128::from(one_in) - sum;
        let fate = |page: Page| if page == taken.2 { Fate::In } else { Fate::Out };
        found.extend(stratum.iter().map(|page| (page.2, fate(page.2))));
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
